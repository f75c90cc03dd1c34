"""What the README tells people to type can be typed."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from nmt.cli import parser
from nmt.compose import compose_all

ROOT = Path(__file__).resolve().parent.parent


def commands() -> list[str]:
    """The lines of all fenced shell blocks, continued lines joined."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(?:sh|bash|shell|console)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [line.strip().removeprefix("$ ") for line in lines if line.strip() and not line.startswith("#")]


NMT = [line for line in commands() if re.match(r"nmt\s", line)]
MAKE = [line for line in commands() if re.match(r"([A-Z_]+=\S+\s+)*make(\s|$)", line)]


def words(line: str) -> list[str]:
    """The words up to a pipe or redirection."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|<>;&")
    lexer.whitespace_split = True
    found: list[str] = []
    for word in lexer:
        if set(word) <= set("|<>;&"):
            break
        found.append(word)
    return found


def composes(line: list[str]) -> bool:
    options = parser().parse_args(line)
    if hasattr(options, "overrides"):
        assert compose_all(options.overrides, options.multirun)
    return True


def test_there_are_commands_to_test():
    assert len(NMT) >= 4 and len(MAKE) >= 4
    verbs = {words(line)[1] for line in NMT}
    assert {"train", "translate", "evaluate"} <= verbs


@pytest.mark.parametrize("line", NMT)
def test_an_nmt_command(line):
    assert composes(words(line)[1:])


@pytest.mark.parametrize("line", MAKE)
def test_a_make_command(line):
    """The target exists, and the nmt command behind it can be parsed and composed; make itself runs nothing."""
    made = [word for word in words(line) if word != "make"]
    while made and re.match(r"[A-Z_]*(URL|PYTHON)[A-Z_]*=", made[0]):
        made.pop(0)
    done = subprocess.run(["make", "-n", *made], cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    behind = [one for one in done.stdout.splitlines() if re.match(r"\S*bin/nmt ", one)]
    for one in behind:
        given = [word for word in words(one.replace('${TEXT:+"$TEXT"}', "TEXT"))[1:] if word]
        assert composes(given)
    goals = [word for word in made if re.fullmatch("[a-z-]+", word)]
    assert behind or not set(goals) & {"train", "translate", "evaluate", "align", "compare", "download", "tokenize"}


@pytest.mark.parametrize("bad", ["nmt trian", "nmt train modle=x", "nmt translate latest --bream 5"])
def test_a_wrong_command_would_be_noticed(bad):
    from nmt.errors import UserError

    with pytest.raises(UserError):
        composes(words(bad)[1:])


def test_every_folder_and_file_it_names_is_there():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)\)", text):
        assert (ROOT / target).exists(), target


def test_the_table_of_models_is_complete():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| ((?:`[a-z0-9_]+`(?:, )?)+) \|", text, re.MULTILINE)
    named = {name for cell in cells for name in re.findall(r"`([a-z0-9_]+)`", cell)}
    assert {path.stem for path in (ROOT / "conf" / "model").glob("*.yaml")} <= named

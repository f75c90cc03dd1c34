"""The commands of the README can be parsed, and the files and models it names exist."""

import itertools
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from nmt.commands.options import make_parser
from nmt.config.compose import compose_all
from nmt.errors import UserError

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
    return list(itertools.takewhile(lambda word: not set(word) <= set("|<>;&"), lexer))


def check_command(arguments: list[str]) -> None:
    """Parse the arguments of `nmt`, and compose the configuration of a command that has one."""
    options = make_parser().parse_args(arguments)
    if hasattr(options, "overrides"):
        assert compose_all(options.overrides, options.multirun)


def test_there_are_commands_to_test():
    assert len(NMT) >= 4 and len(MAKE) >= 4
    assert {"train", "translate", "evaluate"} <= {words(line)[1] for line in NMT}


@pytest.mark.parametrize("line", NMT)
def test_an_nmt_command(line):
    check_command(words(line)[1:])


@pytest.mark.parametrize("line", MAKE)
def test_a_make_command(line):
    """The target exists, and the nmt command behind it can be parsed and composed; make itself runs nothing."""
    arguments = [word for word in words(line) if word != "make"]
    while arguments and re.match(r"[A-Z_]*(URL|PYTHON)[A-Z_]*=", arguments[0]):
        arguments.pop(0)
    dry_run = subprocess.run(["make", "-n", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=30)
    assert dry_run.returncode == 0, dry_run.stderr
    nmt_lines = [line for line in dry_run.stdout.splitlines() if re.match(r"\S*bin/nmt ", line)]
    for nmt_line in nmt_lines:
        check_command([word for word in words(nmt_line.replace('${TEXT:+"$TEXT"}', "TEXT"))[1:] if word])
    targets = {word for word in arguments if re.fullmatch("[a-z-]+", word)}
    assert nmt_lines or not targets & {"train", "translate", "evaluate", "align", "compare", "download", "tokenize"}


@pytest.mark.parametrize("wrong", ["nmt trian", "nmt train modle=x", "nmt translate latest --bream 5"])
def test_a_wrong_command_fails(wrong):
    with pytest.raises(UserError):
        check_command(words(wrong)[1:])


def test_every_linked_folder_and_file_exists():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)\)", text):
        assert (ROOT / target).exists(), target


def test_the_table_of_models_is_complete():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| ((?:`[a-z0-9_]+`(?:, )?)+) \|", text, re.MULTILINE)
    named = {name for cell in cells for name in re.findall(r"`([a-z0-9_]+)`", cell)}
    assert {path.stem for path in (ROOT / "conf" / "model").glob("*.yaml")} <= named

"""docs/extending.md does what it says: its blocks, put where it says, give a score that trains, aligns and is true."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from corpora import small, write_corpus

ROOT = Path(__file__).resolve().parent.parent


def blocks() -> list[str]:
    """The class, the line of the dictionary, the YAML, README's row and the oracle's line, as the page has them."""
    text = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    return re.findall(r"^```(?:python|yaml|markdown)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def insert(path: Path, before: str, text: str) -> None:
    """Put text in front of the first line that begins so."""
    whole = path.read_text(encoding="utf-8")
    assert whole.count("\n" + before) == 1
    path.write_text(whole.replace("\n" + before, f"\n{text}{before}"), encoding="utf-8")


def extend(path: Path, dictionary: str, line: str) -> None:
    """Put a line at the end of a dictionary."""
    head, tail = path.read_text(encoding="utf-8").split(f"\n{dictionary}", 1)
    body, rest = tail.split("\n}\n", 1)
    path.write_text(f"{head}\n{dictionary}{body}\n{line}}}\n{rest}", encoding="utf-8")


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A copy of the project with the page's blocks in it."""
    for name in ("nmt", "conf", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, tmp_path)
    new_class, line, yaml, row, oracle = blocks()
    insert(tmp_path / "nmt/attention/scores.py", "SCORES: dict", f"{new_class}\n\n")
    extend(tmp_path / "nmt/attention/scores.py", "SCORES: dict", line)
    (tmp_path / "conf/model/luong_distance.yaml").write_text(yaml, encoding="utf-8")
    insert(tmp_path / "README.md", "| `luong_local_m`", row)
    extend(tmp_path / "tests/oracle.py", "SCORES = {", oracle)
    return tmp_path


def python(house: Path, *words: str) -> str:
    """What a command prints in the copy; `python -m` looks there first."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-m", *words], cwd=house, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_new_score_trains_aligns_and_is_true(house):
    chosen = "distance and (oracle or finite or cut or padding or sixteen) or table_of_models"
    laws = ["tests/test_attention.py", "tests/test_models.py", "tests/test_readme.py"]
    assert " passed" in python(house, "pytest", "-q", "-p", "no:cacheprovider", *laws, "-k", chosen)
    sizes = ["model.hidden_size=16", "model.embedding_size=16", "train.max_steps=20"]
    corpus = write_corpus(house / "text")
    python(house, "nmt", "train", *small(house, corpus, "model=luong_distance", "name=near", *sizes))
    found = python(house, "nmt", "align", "near", "der Bäcker sieht einen Apfel", "the baker sees an apple")
    assert [row.split("\t")[0] for row in found.splitlines()] == ["the", "baker", "sees", "an", "apple"]

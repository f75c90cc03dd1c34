"""The blocks of docs/design/extending.md, applied as the page says, give what the page promises."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from corpora import small, write_corpus
from documents import translated

from nmt.documents import formats, plain_text
from nmt.evaluate import metrics

ROOT = Path(__file__).resolve().parent.parent


def blocks(languages: str) -> list[str]:
    """The fenced blocks of the page in these languages: python, yaml, markdown of the score, py, yml of the model."""
    text = (ROOT / "docs" / "design" / "extending.md").read_text(encoding="utf-8")
    return re.findall(rf"^```(?:{languages})\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_the_new_format_is_one_entry_and_its_test(monkeypatch: pytest.MonkeyPatch):
    reader, entry, test = blocks("python3")
    namespace = dict(vars(plain_text))
    exec(reader, namespace)
    (new,) = eval(f"{{{entry}}}", {**vars(formats), **namespace}).values()
    monkeypatch.setitem(formats.EXTENSIONS, new.extensions, new)
    namespace = {"translated": translated}
    exec(test, namespace)
    namespace["test_lyrics_keep_their_times"]()


def test_the_new_metric_is_one_entry_and_its_test(monkeypatch: pytest.MonkeyPatch):
    scorer, entry, test = blocks("py3")
    namespace = dict(vars(metrics))
    exec(scorer, namespace)
    ((name, new),) = eval(f"{{{entry}}}", namespace).items()
    monkeypatch.setitem(metrics.METRICS, name, new)
    namespace = {"Translated": metrics.Translated, "open_scorer": metrics.open_scorer}
    exec(test, namespace)
    namespace["test_exact_counts_sentences_that_equal_a_reference"]()


def insert(path: Path, before: str, text: str) -> None:
    """Insert text above the only line that begins with `before`."""
    content = path.read_text(encoding="utf-8")
    assert content.count("\n" + before) == 1
    path.write_text(content.replace("\n" + before, f"\n{text}{before}"), encoding="utf-8")


def extend(path: Path, dictionary: str, line: str) -> None:
    """Add a line at the end of a dictionary."""
    head, tail = path.read_text(encoding="utf-8").split(f"\n{dictionary}", 1)
    body, rest = tail.split("\n}\n", 1)
    path.write_text(f"{head}\n{dictionary}{body}\n{line}}}\n{rest}", encoding="utf-8")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the project with the page's score and model."""
    for name in ("nmt", "conf", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, tmp_path)
    new_class, line, yaml, row, oracle = blocks("python|yaml|markdown")
    insert(tmp_path / "nmt/attention/scores.py", "SCORES: dict", f"{new_class}\n\n")
    extend(tmp_path / "nmt/attention/scores.py", "SCORES: dict", line)
    (tmp_path / "conf/model/luong_distance.yaml").write_text(yaml, encoding="utf-8")
    insert(tmp_path / "README.md", "| `luong_local_m`", row)
    extend(tmp_path / "tests/oracle.py", "SCORES = {", oracle)
    config, schema_line, module, line, yaml = blocks("py|yml")
    (tmp_path / "nmt/config/gru.py").write_text(config, encoding="utf-8")
    insert(tmp_path / "nmt/config/validation.py", "from nmt.config.recurrent", "from nmt.config.gru import GruConfig\n")
    extend(tmp_path / "nmt/config/validation.py", "MODELS = {", schema_line)
    (tmp_path / "nmt/models/gru.py").write_text(module, encoding="utf-8")
    imports = "from nmt.config.gru import GruConfig\nfrom nmt.models.gru import Gru\n"
    insert(tmp_path / "nmt/models/build.py", "from nmt.config.recurrent import", imports)
    extend(tmp_path / "nmt/models/build.py", "MODELS: dict", line)
    (tmp_path / "conf/model/gru.yaml").write_text(yaml, encoding="utf-8")
    insert(tmp_path / "README.md", "| `luong_local_m`", "| `gru` | a small GRU encoder-decoder |\n")
    return tmp_path


def python(project: Path, *arguments: str) -> str:
    """The output of `python -m` in the copy, whose modules it finds first."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", *arguments]
    process = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


@pytest.mark.slow
def test_the_new_score_and_the_new_model_train_align_and_keep_the_laws(project):
    selected = "(distance or gru) and (oracle or finite or split or padding or sixteen) or table_of_models"
    laws = ["tests/test_attention.py", "tests/test_models.py", "tests/test_readme.py"]
    assert " passed" in python(project, "pytest", "-q", "-p", "no:cacheprovider", *laws, "-k", selected)
    words = ["model=luong_distance", "name=run", "model.hidden_size=16", "model.embedding_size=16", "train.max_steps=2"]
    python(project, "nmt", "train", *small(project, write_corpus(project / "text", train=40), *words))
    table = python(project, "nmt", "align", "run", "der Bäcker sieht einen Apfel", "the baker sees an apple")
    assert [row.split("\t")[0] for row in table.splitlines()] == ["the", "baker", "sees", "an", "apple"]

"""The blocks of docs/design/extending.md, applied as the page says, give what the page promises."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from corpora import Answer, Trained, run_command, small, write_corpus
from documents import translated

from nmt.attention.windows import WINDOWS
from nmt.convert import formats as exports
from nmt.documents import formats, plain_text
from nmt.evaluate import metrics

ROOT = Path(__file__).resolve().parent.parent


def blocks(heading: str) -> list[str]:
    """The fenced blocks of a section of the page, without those of commands."""
    text = (ROOT / "docs" / "design" / "extending.md").read_text(encoding="utf-8")
    _, _, section = text.partition(f"\n## {heading}\n")
    section, _, _ = section.partition("\n## ")
    return re.findall(r"^```(?:python|yaml|markdown)\n(.*?)^```", section, re.MULTILINE | re.DOTALL)


def test_the_new_format_is_one_entry_and_its_test(monkeypatch: pytest.MonkeyPatch):
    reader, entry, test = blocks("A new file format")
    namespace = dict(vars(plain_text))
    exec(reader, namespace)
    (new,) = eval(f"{{{entry}}}", {**vars(formats), **namespace}).values()
    monkeypatch.setitem(formats.EXTENSIONS, new.extensions, new)
    namespace = {"translated": translated}
    exec(test, namespace)
    namespace["test_lyrics_keep_their_times"]()


def test_the_new_metric_is_one_entry_and_its_test(monkeypatch: pytest.MonkeyPatch):
    scorer, entry, test = blocks("A new metric")
    namespace = dict(vars(metrics))
    exec(scorer, namespace)
    ((name, new),) = eval(f"{{{entry}}}", namespace).items()
    monkeypatch.setitem(metrics.METRICS, name, new)
    namespace = {"Translated": metrics.Translated, "open_scorer": metrics.open_scorer}
    exec(test, namespace)
    namespace["test_exact_counts_sentences_that_equal_a_reference"]()


def test_the_new_export_format_is_one_class_and_one_entry(
    trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd
):
    source, entry, test = blocks("A new export format")
    module = ModuleType("nmt.convert.numpy_folder")
    exec(source, vars(module))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    ((name, new),) = eval(f"{{{entry}}}", vars(exports)).items()
    monkeypatch.setitem(exports.FORMATS, name, new)
    namespace = {"np": np}
    exec(test, namespace)

    def nmt(verb: str, *words: str) -> Answer:
        return run_command(capfd, verb, "tiny", "--runs", trained.runs, *words)

    namespace["test_weights_are_arrays_of_numpy"](nmt, tmp_path)


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
    new_class, line, yaml, row, oracle = blocks("A new score")
    insert(tmp_path / "nmt/attention/scores.py", "SCORES: dict", f"{new_class}\n\n")
    extend(tmp_path / "nmt/attention/scores.py", "SCORES: dict", line)
    (tmp_path / "conf/model/luong_distance.yaml").write_text(yaml, encoding="utf-8")
    insert(tmp_path / "README.md", "| `luong_local_m`", row)
    extend(tmp_path / "tests/oracle.py", "SCORES = {", oracle)

    (experiment,) = blocks("A new experiment")
    (tmp_path / "conf/experiment/distance.yaml").write_text(experiment, encoding="utf-8")

    config, schema_line, module, line, yaml = blocks("A new model")
    validation = tmp_path / "nmt/config/validation.py"
    build = tmp_path / "nmt/models/build.py"
    of_config = "from nmt.config.gru import GruConfig\n"
    (tmp_path / "nmt/config/gru.py").write_text(config, encoding="utf-8")
    insert(validation, "from nmt.config.recurrent", of_config)
    extend(validation, "MODELS = {", schema_line)
    (tmp_path / "nmt/models/gru.py").write_text(module, encoding="utf-8")
    insert(build, "from nmt.config.recurrent", of_config + "from nmt.models.gru import Gru\n")
    extend(build, "MODELS: dict", line)
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
    laws = [
        f"tests/test_{name}.py" for name in ("oracle_models", "models", "experiments", "readme")
    ]
    selected = "distance or gru or every_experiment or (every_choice and models)"
    report = python(project, "pytest", "-q", "-rA", "-p", "no:cacheprovider", *laws, "-k", selected)
    passed = set(re.findall(r"^PASSED tests/\w+\.py::(.*)$", report, re.MULTILINE))
    expected = {"test_every_experiment_composes", "test_every_choice_is_named_on_its_page[models]"}
    for window in WINDOWS:
        expected.add(f"test_gradients_are_finite_differences_of_the_oracle[distance-{window}]")
        for order in ("before", "after", "after, fed"):
            expected.add(f"test_every_score_equals_the_oracle[distance-{window}-{order}]")
    for name in ("luong_distance", "gru"):
        expected.add(f"test_padding_changes_nothing[{name}]")
        expected.add(f"test_can_learn_sixteen_sentences[{name}]")
    assert expected <= passed
    words = [
        "+experiment=distance",
        "model=luong_distance",
        "name=run",
        "model.hidden_size=16",
        "model.embedding_size=16",
        "train.max_steps=2",
    ]
    corpus = write_corpus(project / "text", train=40)
    python(project, "nmt", "train", *small(project, corpus, *words))
    assert "dropout: 0.1" in (project / "runs/run/config.yaml").read_text("utf-8")
    sentence = "the baker sees an apple"
    table = python(project, "nmt", "align", "run", "der Bäcker sieht einen Apfel", sentence)
    assert [row.split("\t")[0] for row in table.splitlines()] == sentence.split()

"""nmt student: a teacher's translations, and a small model that learns from them."""

import os
import re
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from corpora import (
    SMALL,
    TRANSFORMER,
    Trained,
    compose_one,
    folder_options,
    last_of_each_key,
    lines_of,
    pairs,
    run_command,
    write_lines,
    write_pairs,
)

import nmt
from nmt.commands import student as student_command
from nmt.commands.student import Task, training_words
from nmt.config.presets import learning_rate
from nmt.corpus.parallel_text import read_pairs
from nmt.errors import UserError
from nmt.runs import distillation
from nmt.runs.distillation import (
    build_distilled_stage,
    pruned_teacher,
    translate_by_command,
    translated,
)
from nmt.runs.scoring import corpus_of

FILES = ["data=files", "data.source=de", "data.target=en", "data.train=text"]
LINES = [f"line {number}" for number in range(10)]
AT_ONCE = "import sys\nfor line in sys.stdin: print(line.strip().upper(), flush=True)"
AT_THE_END = "import sys\nprint(sys.stdin.read().upper(), end='')"
TOO_MANY = "import sys\nfor line in sys.stdin: print(line, flush=True)"
TOO_FEW = "import sys\nprint(next(sys.stdin), end='')"
FAILS = f"{AT_THE_END}\nsys.exit(3)"
LATIN_1 = "import sys\nfor line in sys.stdin: sys.stdout.buffer.write(b'M\\xfcller\\n')"


@pytest.fixture
def command(tmp_path: Path) -> Callable[[str], str]:
    """command(PROGRAM) → the command line of a program in Python."""

    def write(program: str) -> str:
        path = tmp_path / "a program.py"
        path.write_text(program, encoding="utf-8")
        return shlex.join([sys.executable, str(path)])

    return write


def chunks() -> list[list[str]]:
    return [LINES[start : start + 3] for start in range(0, len(LINES), 3)]


@pytest.mark.parametrize("program", [AT_ONCE, AT_THE_END], ids=["at once", "at the end"])
def test_a_program_answers_each_line(program, command):
    expected = [[line.upper() for line in chunk] for chunk in chunks()]
    assert list(translate_by_command(command(program), iter(chunks()))) == expected


@pytest.mark.parametrize(
    ("program", "named"),
    [
        (TOO_MANY, "for 10 lines"),
        (TOO_FEW, "1 lines for 10 lines"),
        (FAILS, "code 3"),
        (LATIN_1, "not UTF-8"),
    ],
    ids=["too many", "too few", "fails", "latin-1"],
)
def test_a_program_that_does_not_answer_each_line_is_refused(program, named, command):
    with pytest.raises(UserError, match=named):
        list(translate_by_command(command(program), iter(chunks())))


@pytest.mark.parametrize("line", ["no-such-program --at-all", "unbalanced 'quote", " "])
def test_a_program_that_cannot_be_started_is_refused(line):
    with pytest.raises(UserError, match="cannot be started"):
        list(translate_by_command(line, iter(chunks())))


def test_an_interrupted_translation_continues(tmp_path, monkeypatch):
    """Chunks that are done are not translated again, unless their text has changed."""
    monkeypatch.setattr("nmt.corpus.line_chunks.CHUNK_LINES", 3)
    asked: list[list[str]] = []

    def teacher(chunks, fails_at: int = 99):
        for lines in chunks:
            if len(asked) == fails_at:
                raise KeyboardInterrupt
            asked.append(lines)
            yield [line.upper() for line in lines]

    with pytest.raises(KeyboardInterrupt):
        list(translated(lambda: LINES, lambda rest: teacher(rest, fails_at=2), tmp_path))
    pairs = list(translated(lambda: LINES, teacher, tmp_path))
    assert asked == chunks()
    assert pairs == [(chunk, [line.upper() for line in chunk]) for chunk in chunks()]

    changed = [*LINES[:4], "another", *LINES[5:]]
    asked.clear()
    pairs = list(translated(lambda: changed, teacher, tmp_path))
    assert [line for chunk, _ in pairs for line in chunk] == changed
    assert asked == [changed[3:6], changed[6:9], changed[9:]]


def test_the_pairs_to_learn_from(tmp_path, caplog):
    """Without loops, blank answers and repeated lines; another teacher has another folder."""
    caplog.set_level("INFO", "nmt")
    lines = [*LINES, LINES[0], "", "a loop", "no answer"]
    write_lines(tmp_path / "text.de", lines)
    config = compose_one(*FILES)
    data = replace(config.data, mono=[str(tmp_path / "text.de")])
    answers = {"a loop": "on and on and on and on and on", "no answer": " "}
    calls = []

    def teacher(chunks):
        calls.append(1)
        for chunk in chunks:
            yield [answers.get(line, line.upper()) for line in chunk]

    folder = build_distilled_stage(data, {"weights": "a"}, teacher, tmp_path)
    assert lines_of(folder / "distilled.de") == LINES
    upper = [line.upper() for line in LINES]
    assert lines_of(folder / "distilled.en") == upper
    for reason in ("repeated", "blank", "translation loops", "no translation"):
        assert reason in caplog.text
    assert build_distilled_stage(data, {"weights": "a"}, teacher, tmp_path) == folder
    assert calls == [1], "the stage is found again"
    assert build_distilled_stage(data, {"weights": "b"}, teacher, tmp_path) != folder
    shorter = replace(data, max_characters=7)
    assert build_distilled_stage(shorter, {"weights": "a"}, teacher, tmp_path) != folder
    (tmp_path / "text.de").write_text("other text\n", "utf-8")
    assert build_distilled_stage(data, {"weights": "a"}, teacher, tmp_path) != folder
    assert not list(tmp_path.glob("*.parts")), "what was kept for an interruption is gone"


@pytest.fixture
def student(trained: Trained, tmp_path: Path, capfd):
    """student(WORD …) → what came of `nmt student tiny WORD …` in copies of its folders."""
    for name in ("data", "runs"):
        shutil.copytree(trained.root / name, tmp_path / name)
    words = last_of_each_key(
        *SMALL,
        *folder_options(tmp_path),
        "name=small",
        "train.max_steps=20",
        "train.validate_every=10",
        "train.max_minutes=null",
    )
    return lambda *more: run_command(capfd, "student", "tiny", *words, *more)


def test_a_student_in_one_command(student, tmp_path):
    answer = student("--export", "hf")
    assert answer.code == 0, answer.err
    teacher = nmt.load("tiny", run_folder=tmp_path / "runs")
    small = nmt.load("small", run_folder=tmp_path / "runs")
    of_teacher = teacher.config.model
    of_student = small.config.model
    assert of_student.hidden_size == of_teacher.hidden_size // 2
    assert of_student.decoder_layers == (of_teacher.decoder_layers + 1) // 2
    assert of_student.encoder_layers == of_teacher.encoder_layers

    # It has learnt the teacher's translations of the text that the teacher has learnt
    (folder,) = (tmp_path / "data").glob("distilled-*/")
    sources = lines_of(folder / "distilled.de")
    targets = lines_of(folder / "distilled.en")
    corpus = corpus_of(teacher)
    text = lines_of(corpus / "train.de")
    assert not Counter(sources) - Counter(text)
    assert targets == [each.text for each in teacher.translate(sources)]
    trained_on = Path(str(small.config.data.train))
    assert trained_on == folder / "distilled"

    # Both are scored on the teacher's test set
    assert "| tiny " in answer.out and "| small " in answer.out
    assert "keeps" in answer.err and "times as many sentences" in answer.err
    assert (small.folder / "student" / "comparison.html").exists()
    assert of_student.positions == "sinusoidal", "as the export needs it"
    exported = Path(answer.out.splitlines()[-1])
    assert (exported / "config.json").exists() and exported.parents[1] == small.folder
    again = student("--export", "hf")
    assert again.code == 0 and again.out == answer.out
    assert "Building" not in again.err, "everything is found again"


def task_of(*words: str) -> Task:
    """The student of a teacher with these words."""
    teacher = compose_one(*FILES, *words)
    return Task("large", "de", "en", teacher, None)


@pytest.mark.parametrize(
    ("width", "given", "different"),
    [
        (256, {}, {}),
        (256, {"decode.beam": "3"}, {"decode.beam": "3"}),
        (256, {"decode": "beam"}, {"decode.beam": None}),
        (256, {"train.label_smoothing": "0.2"}, {"train.label_smoothing": "0.2"}),
        (256, {"optim.lr": "1e-3"}, {"optim.lr": "1e-3"}),
        (256, {"model": "bahdanau"}, {"tokenizer": None, "model": "bahdanau"}),
        (128, {}, {"optim.algorithm": "muon"}),  # a narrow student
        (128, {"optim": "adamw"}, {}),
        (128, {"optim.algorithm": "adamw"}, {"optim.algorithm": "adamw"}),
    ],
)
def test_what_a_student_is_trained_with(width, given, different):
    """No label smoothing, greedy search, and otherwise what auto finds; what is given stays."""
    words = [f"{key}={value}" for key, value in given.items()]
    found = training_words(task_of(f"model.hidden_size={width}"), words, given)
    chosen = dict(word.split("=", 1) for word in found)
    wanted: dict[str, str | None] = {"tokenizer": "auto", "decode.beam": "1"}
    wanted |= {"train.label_smoothing": "0", "model": "auto", "optim.algorithm": None, **different}
    assert {key: chosen.get(key) for key in wanted} == wanted


@pytest.mark.parametrize(
    ("teacher", "name"),
    [
        ("office", "office-student"),
        ("office@2", "office-2-student"),
        ("my run", "my-run-student"),
        ("ü", "student"),
    ],
)
def test_a_student_has_a_name_that_can_be_given(teacher, name):
    chosen = training_words(Task(teacher, "de", "en", None, None), [], {})
    config = compose_one(*chosen, "data.train=x")
    assert config.name == name


@pytest.mark.parametrize(("layers", "heads"), [(1, 1), (3, 4), (6, 8)])
def test_half_of_a_small_teacher_is_a_model(layers, heads):
    sizes = {"hidden_size": 64, "num_heads": heads, "decoder_layers": layers}
    task = task_of(*(f"model.{key}={value}" for key, value in sizes.items()))
    chosen = training_words(task, [], {})
    of_model = [word for word in chosen if word.startswith("model.")]
    student = compose_one(*FILES, *of_model)
    assert student.model.decoder_layers == (layers + 1) // 2
    assert student.model.num_heads == max(1, heads // 2)
    assert student.model.hidden_size == 32


def test_what_is_said_of_a_student(tmp_path, caplog, monkeypatch):
    """How much BLEU it keeps, and how much faster and smaller it is than its teacher."""
    runs = [SimpleNamespace(name=name, parameters=size) for name, size in (("t", 8e6), ("s", 2e6))]
    scored = {}
    for run, bleu in zip(runs, (40.0, 30.0), strict=True):
        scored[run.name] = SimpleNamespace(result=SimpleNamespace(bleu=bleu))
    comparison = SimpleNamespace(scored=scored, test_set=SimpleNamespace(name="test"))
    monkeypatch.setattr(student_command, "compare_runs", lambda *_: ([comparison], []))
    monkeypatch.setattr(student_command, "write_report", lambda *_: "")
    monkeypatch.setattr(student_command, "seconds_of", lambda *_: [6.0, 1.5])
    caplog.set_level("INFO", "nmt")
    student_command.report(*runs, [SimpleNamespace(sources=[])], tmp_path)
    quality, speed = caplog.messages
    assert re.findall(r"\d[\d.]*", quality) == ["75.0"]
    assert re.findall(r"\d[\d.]*", speed) == ["4", "2", "8"]


def test_a_program_is_a_teacher_too(tmp_path, succeeds, command):
    """The student's pairs are the lines of the text and what the program answers, and one's own."""
    every = pairs(140)
    (tmp_path / "text.de").write_text("".join(f"{line}\n" for line, _ in every[:100]), "utf-8")
    write_pairs(tmp_path, "own", every[100:])
    options = ["name=small", "train.max_steps=6", "train.validate_every=3", "data.split_size=5"]
    options += [*folder_options(tmp_path), "data.source=de", "data.target=en"]
    words = last_of_each_key(*SMALL, *TRANSFORMER, *options)
    own = [f"data.train={tmp_path / 'own'}", "data.weights=[1,3]"]
    program = command(AT_ONCE)
    text = str(tmp_path / "text.de")
    answer = succeeds("student", "--command", program, "--text", text, *words, *own)
    (folder,) = (tmp_path / "data").glob("distilled-*/")
    targets = lines_of(folder / "distilled.en")
    assert targets == [line.upper() for line, _ in every[:100]]
    small = nmt.load("small", run_folder=tmp_path / "runs")
    assert small.config.data.train == [str(folder / "distilled"), str(tmp_path / "own")]
    assert "| small " in answer.out and "keeps" not in answer.err


def test_a_student_begins_with_weights_of_its_teacher(tmp_path, succeeds, monkeypatch):
    """And with the teacher's tokenizer, unless another one is given.

    It learns the teacher's own pairs, and the teacher's translations of other text.
    """
    monkeypatch.setattr(distillation, "is_loop", lambda *_: False)  # of so bad a teacher
    write_pairs(tmp_path, "own", pairs(60))
    words = [word for word in SMALL if not word.startswith(("tokenizer", "train.average"))]
    words += folder_options(tmp_path)
    of_teacher = [*TRANSFORMER, "model.positions=rotary", "tokenizer.vocabulary_size=376"]
    of_teacher += ["data=files", "data.source=de", "data.target=en", "data.split_size=5"]
    of_teacher += [f"data.train={tmp_path / 'own'}", "name=large", "train.max_steps=6"]
    succeeds("train", *words, *of_teacher)
    large = nmt.load("large", run_folder=tmp_path / "runs")

    words += ["train.max_steps=1", "optim.lr=1e-9"]
    answer = succeeds("student", "large", *words, "name=small")
    small = nmt.load("small", run_folder=tmp_path / "runs")
    for of_large, of_small in zip(
        large.translator.tokenizers, small.translator.tokenizers, strict=True
    ):
        assert of_small.model == of_large.model
    corpus = corpus_of(large)
    assert small.config.data.train == str(corpus / "train") and small.config.optim.lr == 1e-9
    assert not list((tmp_path / "data").glob("distilled-*")), "the teacher translates no text"
    start = pruned_teacher(
        large, small.config, read_pairs(corpus / "train.de", corpus / "train.en")
    )
    weights = small.translator.model.state_dict()
    assert weights.keys() == start.weights.keys()
    for name, weight in weights.items():
        torch.testing.assert_close(weight, start.weights[name], rtol=0, atol=1e-6)
    again = succeeds("student", "large", *words, "name=small")
    assert again.out == answer.out

    (tmp_path / "more.de").write_text("der Hund\ndie Katze\n", "utf-8")
    more = ["--text", str(tmp_path / "more.de"), "name=more"]
    more_words = [word for word in words if not word.startswith("optim")]
    answer = succeeds("student", "large", *more_words, *more)
    trained_on = nmt.load("more", run_folder=tmp_path / "runs").config
    (folder,) = (tmp_path / "data").glob("distilled-*/")
    assert trained_on.data.train == [str(corpus / "train"), str(folder / "distilled")]
    assert trained_on.optim.lr < learning_rate(8)

    given = ["name=other", "tokenizer.vocabulary_size=370"]
    answer = succeeds("student", "large", *words, *given)
    other = nmt.load("other", run_folder=tmp_path / "runs")
    assert other.translator.tokenizers.source.model != large.translator.tokenizers.source.model


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ([], "--command"),
        (["tiny", "other"], "one teacher"),
        (["missing"], "missing"),
        (["latest"], "the name of the teacher"),
        (["tiny", "--command", "cat"], "one of them"),
        (["--command", "cat"], "data.source"),
        (["tiny", "--export", "word"], "word"),
        (["tiny", "--text", "no-such-file"], "no-such-file"),
        (["tiny", "data.source=fr"], "fr"),
        (["tiny", "name=tiny"], "is the teacher"),
        (["tiny", "model=bahdanau", "--export", "ctranslate2"], "for=ctranslate2"),
        (["tiny", "--export", "ctranslate2,hf"], "for=hf"),
        (["tiny", "train.max_minuts=30"], "train.max_minutes"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_refusals(words, named, trained, refused, tmp_path):
    folders = [f"run_folder={trained.runs}", f"data_folder={tmp_path}"]
    assert named in refused("student", *words, *folders)
    assert distillation.DISTILLED not in "".join(path.name for path in tmp_path.iterdir())


@pytest.mark.parametrize("format", ["ctranslate2", "onnx", "html"])
def test_a_missing_package_is_said_before_the_training(
    format, trained, refused, tmp_path, monkeypatch
):
    package = "ctranslate2" if format == "ctranslate2" else "onnxscript"
    monkeypatch.setitem(sys.modules, package, None)
    runs = shutil.copytree(trained.runs, tmp_path / "runs")
    names = sorted(os.listdir(runs))
    folders = [f"run_folder={runs}", f"data_folder={tmp_path / 'data'}"]
    message = refused("student", "tiny", "--export", format, *folders)
    assert "cannot be imported" in message or f"needs the package {package}" in message
    assert sorted(os.listdir(runs)) == names, "nothing was trained"


def test_a_page_that_npm_is_needed_for_is_refused_before_the_training(
    trained, refused, tmp_path, monkeypatch
):
    pytest.importorskip("onnxscript", reason="onnxscript is not installed; `make test` brings it")
    folders = [f"run_folder={trained.runs}", f"data_folder={tmp_path / 'data'}"]
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "no npm" in refused("student", "tiny", "--export", "hf,html", *folders)
    npm = tmp_path / "npm"
    npm.write_text("#!/bin/sh\nexit 7\n")  # as without a network
    npm.chmod(0o755)
    assert "exit code 7" in refused("student", "tiny", "--export", "hf,html", *folders)
    assert not (tmp_path / "data").exists()

"""A synthetic corpus, a training small enough for a test, and functions that run commands."""

import contextlib
import fcntl
import io
import json
import logging
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from nmt import cli
from nmt.config.compose import compose_all
from nmt.config.schema import Config, DataConfig
from nmt.corpus.corpus_folder import read_report
from nmt.corpus.parallel_text import read_pairs
from nmt.data.tokenizer import Tokenizer, Tokenizers
from nmt.data.train_tokenizer import train_sentencepiece
from nmt.errors import UserError

WHO = {
    "der Bäcker": "the baker",
    "die Lehrerin": "the teacher",
    "ein Junge": "a boy",
    "eine Frau": "a woman",
    "mein Bruder": "my brother",
    "das Mädchen": "the girl",
    "unser Nachbar": "our neighbour",
    "die alte Katze": "the old cat",
}
DOES = {"sieht": "sees", "kauft": "buys", "malt": "paints"}
DOES |= {"sucht": "looks for", "trägt": "carries", "findet": "finds"}
WHAT = {
    "einen Apfel": "an apple",
    "das rote Fahrrad": "the red bicycle",
    "zwei Bücher": "two books",
    "einen großen Hut": "a big hat",
    "die Blumen": "the flowers",
    "kein Brot": "no bread",
}
WHERE = {
    "": "",
    " im Garten": " in the garden",
    " am Fluss": " by the river",
    " auf dem Markt": " at the market",
    " hinter dem Haus": " behind the house",
}


class Trained(NamedTuple):
    """A finished run, shared by tests that only read it."""

    root: Path  # the folder of data/ and runs/
    name: str
    arguments: list[str]  # of `nmt train`
    lines: list[str]  # what that command printed

    @property
    def folder(self) -> Path:
        return self.root / "runs" / self.name

    @property
    def runs(self) -> str:
        return str(self.root / "runs")


class Answer(NamedTuple):
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str


def pairs(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Distinct German sentences with their translations, a function of the seed."""
    tables = (WHO, DOES, WHAT, WHERE)
    every = [
        (who, does, what, where) for who in WHO for does in DOES for what in WHAT for where in WHERE
    ]
    chosen = random.Random(seed).sample(every, count)
    english = [[table[part] for table, part in zip(tables, parts, strict=True)] for parts in chosen]
    return [
        (sentence(*parts), sentence(*others)) for parts, others in zip(chosen, english, strict=True)
    ]


def sentence(who: str, does: str, what: str, where: str) -> str:
    return f"{who[0].upper()}{who[1:]} {does} {what}{where}."


def write_lines(path: Path, lines: Iterable[object]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def write_pairs(folder: Path, name: str, sentence_pairs: list[tuple[str, str]]) -> list[Path]:
    """Write the two files of sentence pairs; returns their paths."""
    files = [folder / f"{name}.{language}" for language in ("de", "en")]
    for number, path in enumerate(files):
        write_lines(path, [pair[number] for pair in sentence_pairs])
    return files


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def write_corpus(folder: Path, train: int = 240, valid: int = 16, test: int = 12) -> list[str]:
    """Write train, valid and test files; returns the configuration overrides that select them."""
    folder.mkdir(parents=True, exist_ok=True)
    every = pairs(train + valid + test)
    write_pairs(folder, "train", every[:train])
    write_pairs(folder, "valid", every[train : train + valid])
    write_pairs(folder, "test", every[train + valid :])
    sets = [f"data.{name}={folder / name}" for name in ("train", "valid", "test")]
    return ["data=files", "data.source=de", "data.target=en", *sets]


def corpus_of(root: Path) -> Path:
    """The only corpus below the folder of data/ and runs/."""
    (corpus,) = (root / "data").glob("corpus-*")
    return corpus


def read_set(folder: Path, name: str) -> list[tuple[str, str]]:
    """The pairs of a set in the folder of a corpus."""
    return list(read_pairs(folder / f"{name}.de", folder / f"{name}.en"))


def train_report(folder: Path) -> dict:
    """What the report of a corpus says about its training set."""
    return read_report(folder)["audit"]["train"]


def files_config(
    train: str | list[str] | None = "a",
    valid: str = "split",
    test: str | None = None,
    **changes: object,
) -> DataConfig:
    """A configuration of one's own pairs."""
    data = DataConfig("files", "de", "en", train, valid, test, 1000, 5.0)
    return replace(data, **changes)


@contextlib.contextmanager
def refused_with(part: str) -> Iterator[None]:
    """Around code that must fail: with one sentence, of which `part` is a part."""
    with pytest.raises(UserError) as caught:
        yield
    message = str(caught.value)
    assert part in message and message.isprintable()


TRANSFORMER = [
    "model=transformer_tiny",
    "model.hidden_size=16",
    "model.num_heads=2",
    "model.feed_forward_size=32",
    "model.encoder_layers=1",
    "model.decoder_layers=2",
]
RECURRENT = ["model=luong_global", "model.hidden_size=16", "model.embedding_size=16"]
TRAINED = [
    "name=tiny",
    "model.hidden_size=32",
    "model.feed_forward_size=64",
    "train.max_steps=120",
    "train.validate_every=60",
]
SMALL = [
    "tokenizer.vocabulary_size=376",
    "device=cpu",
    "precision=fp32",
    "train.batch_tokens=256",
    "train.validate_every=20",
    "train.log_every=5",
    "train.prune_checkpoints=false",
    "train.average_checkpoints=5",
    *(f"train.noise_{kind}=0" for kind in ("case", "typos", "punctuation", "merge", "copy")),
    "train.log_sentences=0",
    "train.max_epochs=null",
    "optim.lr=0.01",
    "optim.warmup_steps=5",
    "decode.beam=2",
    "decode.max_length_ratio=1.0",
    "decode.max_length_extra=6",
]


def compose_one(*words: str) -> Config:
    """The configuration of the only run that these words choose."""
    (config,) = compose_all(words, multirun=False)
    return config


def folder_options(root: Path) -> list[str]:
    """The overrides that put data and runs below `root`."""
    return [f"data_folder={root / 'data'}", f"run_folder={root / 'runs'}"]


def small(root: Path, corpus: list[str], *more: str) -> list[str]:
    """The overrides of a small training below `root`; later ones replace earlier ones with the same
    key."""
    other = any(
        word.startswith("model=") and not word.startswith("model=transformer") for word in more
    )
    words = [*corpus, *TRANSFORMER[: 1 if other else None], *SMALL, *folder_options(root), *more]
    return last_of_each_key(*words)


def last_of_each_key(*words: str) -> list[str]:
    return list({word.partition("=")[0]: word for word in words}.values())


def run_command(capfd: pytest.CaptureFixture[str], *words: str) -> Answer:
    """Run a command in this process."""
    capfd.readouterr()
    code = cli.main(list(words))
    out, err = capfd.readouterr()
    return Answer(code, out, err)


@pytest.fixture
def succeeds(capfd: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """succeeds(WORD …) → the answer of a command that must succeed."""

    def run(*words: str) -> Answer:
        answer = run_command(capfd, *words)
        assert answer.code == 0, answer.err
        return answer

    return run


@pytest.fixture
def refused(capfd: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """refused(WORD …) → the one sentence of a command that must fail."""

    def run(*words: str) -> str:
        answer = run_command(capfd, *words)
        assert answer.code == 2
        assert answer.out == ""
        assert "Traceback" not in answer.err
        message = [line for line in answer.err.splitlines() if line.startswith("nmt: ")]
        assert len(message) == 1 and answer.err.endswith(message[0] + "\n")
        assert message[0].endswith((".", "?")) and len(message[0]) < 600
        return message[0]

    return run


def environment() -> dict[str, str]:
    """The environment of commands in a process of their own: one thread, and no Hugging Face
    hub."""
    return os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "default"}


def process(*words: str, text: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run a command in a process of its own."""
    command = [sys.executable, "-m", "nmt", *words]
    return subprocess.run(
        command, input=text, capture_output=True, env=environment(), timeout=120, check=False
    )


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trained]:
    """A small Transformer, trained for 120 updates: once for all processes of pytest-xdist, each
    with a copy of it.

    No test may write into it: evaluate and train need a copy, since the next test would read what
    they leave.
    """

    def train(root: Path) -> None:
        arguments = small(
            root,
            write_corpus(root / "corpus"),
            "train.log_sentences=1",
            "train.heatmap_all_heads=true",
            *TRAINED,
        )
        with logger_restored(), contextlib.redirect_stdout(io.StringIO()) as out:
            assert cli.main(["train", *arguments]) == 0
        (root / "trained.json").write_text(
            json.dumps([arguments, out.getvalue().splitlines()]), encoding="utf-8"
        )

    root = tmp_path_factory.mktemp("trained") / "root"
    shutil.copytree(build_once(tmp_path_factory, "trained", train), root)
    arguments, lines = json.loads((root / "trained.json").read_text(encoding="utf-8"))
    before = modification_times(root)
    yield Trained(root, "tiny", small(root, [], *arguments, *folder_options(root)), lines)
    changed = {str(path) for path, _ in before ^ modification_times(root)}
    assert not changed, f"tests have written into the trained run: {sorted(changed)}"


@pytest.fixture
def run_copy(trained: Trained, tmp_path: Path) -> Path:
    """A copy of the trained run that may be written to."""
    return Path(shutil.copytree(trained.folder, tmp_path / "runs" / "tiny"))


def modification_times(folder: Path) -> set[tuple[Path, int]]:
    """All files below a folder but the program's cache of digests, each with its time of
    modification."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "digests.json")
    return {(path, path.stat().st_mtime_ns) for path in files}


def build_once(
    tmp_path_factory: pytest.TempPathFactory, name: str, build: Callable[[Path], None]
) -> Path:
    """A folder that one process of pytest-xdist builds while the others wait for it. It must not be
    written to."""
    base = tmp_path_factory.getbasetemp()
    # each worker has its own below the shared one
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = base / f"shared-{name}"
    with open(base / f"shared-{name}.lock", "w", encoding="utf-8") as lock:
        # held until the file is closed, also by a process that dies
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / ".built").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            build(folder)
            (folder / ".built").touch()
    return folder


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a file's trainings, which have one corpus and one tokenizer."""
    return tmp_path_factory.mktemp("root")


@pytest.fixture(scope="module")
def corpus(root: Path) -> list[str]:
    return write_corpus(root / "corpus")


@pytest.fixture
def train(request, root, corpus, capfd) -> Callable[..., Answer]:
    """train(NAME, WORD …) → exit code, stdout and stderr of the command with the file's WORDS."""
    words = getattr(request.module, "WORDS", [])
    return lambda name, *more: run_command(
        capfd, "train", *small(root, corpus, *words, *more, f"name={name}")
    )


@pytest.fixture
def folder(root: Path) -> Callable[[str], Path]:
    return lambda name: root / "runs" / name


@pytest.fixture(autouse=True)
def restored_logger() -> Iterator[None]:
    """Every test begins with the logger of a new process, so that caplog has each message once.

    Commands and fixtures before it may have run `install_logging`. pytest adds caplog's handler to
    a logger that does not propagate, and a test that lets it propagate would read twice.
    """
    log = logging.getLogger("nmt")
    with logger_restored():
        log.propagate = True
        log.setLevel(logging.NOTSET)
        log.handlers = []
        yield


@contextlib.contextmanager
def logger_restored() -> Iterator[None]:
    """Around commands in this process: the logger's handlers and level are restored at the end."""
    log = logging.getLogger("nmt")
    propagate = log.propagate
    level = log.level
    handlers = list(log.handlers)
    yield
    log.propagate = propagate
    log.setLevel(level)
    log.handlers = handlers


@pytest.fixture(scope="session")
def vocabularies(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Tokenizers]:
    """One vocabulary for both languages, and two of different sizes."""
    folder = tmp_path_factory.mktemp("vocabularies")
    files = write_pairs(folder, "train", pairs(200))
    sizes = ((310, files), (315, files[:1]), (305, files[1:]))
    config = compose_one("tokenizer=unigram")
    joint, source, target = (
        Tokenizer(
            train_sentencepiece(
                replace(config.tokenizer, vocabulary_size=size, protect=False), list(texts)
            ),
            False,
        )
        for size, texts in sizes
    )
    return {True: Tokenizers(joint, joint), False: Tokenizers(source, target)}

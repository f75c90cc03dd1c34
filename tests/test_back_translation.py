"""nmt train data.mono=FILE: a reverse model, its translations, and the training on both, as
stages."""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
from corpora import (
    Answer,
    compose_one,
    last_of_each_key,
    lines_of,
    pairs,
    run_command,
    small,
    write_corpus,
    write_lines,
    write_pairs,
)

from nmt.corpus.corpus_folder import read_report
from nmt.runs import back_translation
from nmt.training import checkpoint

EVERY = pairs(340)
VALID = EVERY[240:256]
TEST = EVERY[256:268]
MONO = EVERY[268:]
NEAR = TEST[1][1].removesuffix(".") + " now."  # a word more than a held-out sentence
TINY = [
    "train.max_steps=4",
    "train.validate_every=4",
    "train.average_checkpoints=0",
    "model.decoder_layers=1",
    "name=bt",
]
CHUNK = 20
# translations of the new sentences with these numbers
WRONG = {5: "", 10: "ha ha ha ha ha", 15: "COPY"}


class ReverseModel:
    """What `nmt.runs.run.load` gives, with a search that knows the translations, and notes what it
    was asked for."""

    def __init__(self, sentences: dict[str, str]) -> None:
        self.sentences = sentences
        self.asked = list[str]()
        self.fails_at = 0
        self.translator = self

    def translate_chunk(self, lines: list[str]) -> Iterator[SimpleNamespace]:
        if self.fails_at and len(self.asked) >= self.fails_at:
            raise KeyboardInterrupt
        self.asked += lines
        return (
            SimpleNamespace(text=self.sentences[line].replace("COPY", line.upper()))
            for line in lines
        )


@pytest.fixture
def reverse(monkeypatch: pytest.MonkeyPatch) -> ReverseModel:
    monkeypatch.setattr("nmt.corpus.line_chunks.CHUNK_LINES", CHUNK)
    known = {english: WRONG.get(number, german) for number, (german, english) in enumerate(MONO)}
    model = ReverseModel(known)
    monkeypatch.setattr(back_translation, "load", lambda paths, beam: model)
    return model


@pytest.fixture
def corpus(tmp_path: Path) -> list[str]:
    """Half as many true pairs as new sentences, so that each is trained on twice."""
    words = write_corpus(tmp_path)
    write_pairs(tmp_path, "train", EVERY[:34])
    return words


@pytest.fixture
def words(tmp_path: Path, corpus: list[str]) -> list[str]:
    """A small training with data.mono: new sentences, one of them twice, a blank line, and held-out
    targets."""
    new = [english for _, english in MONO]
    lines = [*new, new[0], "", VALID[0][1].upper(), TEST[0][1], NEAR]
    write_lines(tmp_path / "mono.en", lines)
    return small(tmp_path, corpus, *TINY, f"data.mono={tmp_path / 'mono.en'}")


@pytest.fixture
def train(words: list[str], capfd: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    return lambda *more: run_command(capfd, "train", *last_of_each_key(*words, *more))


def test_all_is_made_once_also_after_a_kill_and_nothing_held_out_is_read(
    train, reverse, tmp_path, monkeypatch
):
    clock = SimpleNamespace(monotonic=count(step=10).__next__)  # 10 seconds for each chunk
    monkeypatch.setattr(back_translation, "time", clock)
    reverse.fails_at = 2 * CHUNK
    assert train().code == 130
    assert (
        not list((tmp_path / "data").glob("synthetic-*[0-9a-f]"))
        and not (tmp_path / "runs/bt").exists()
    )
    reverse.fails_at = 0
    first = train()
    assert first.code == 0 and "bt-reverse is already trained" in first.err, first.err
    assert len(set(reverse.asked)) == len(reverse.asked), "a chunk was translated twice"

    # What was left out, and why
    (synthetic,) = (tmp_path / "data").glob("synthetic-*")
    dropped = {
        "repeated": 1,
        "blank": 1,
        "a held-out sentence": 2,
        "no translation": 1,
        "translation loops": 1,
    }
    report = read_report(synthetic)
    near = report["dropped"].pop("nearly a held-out sentence")
    assert near >= 1 and NEAR not in reverse.asked
    assert report["dropped"] == dropped | {"translation is a copy": 1}
    assert report["lines"] == report["translated"] == len(reverse.asked) == len(MONO) + 1 - near
    assert not {target for _, target in [*VALID, *TEST]} & set(reverse.asked)
    last = checkpoint.load(tmp_path / "runs/bt-reverse/last.safetensors", with_tensors=False)
    translating = 10 * math.ceil(len(reverse.asked) / CHUNK)
    assert report["seconds"] == last["train_state"]["seconds"] + translating

    # The pairs are trained on, and the sets are those of a training without them
    folders = (tmp_path / "data").glob("corpus-*")
    by_size = sorted(folders, key=lambda folder: len(lines_of(folder / "train.de")))
    true = by_size[0]
    both = by_size[-1]
    german = [source for source, target in MONO if target in lines_of(synthetic / "synthetic.en")]
    twice = [line for line in lines_of(true / "train.de") for _ in range(2)]
    assert lines_of(both / "train.de") == [*twice, *german]
    assert len(german) == report["pairs"]
    for name in ("valid.de", "valid.en", "test.de", "test.en"):
        assert (true / name).read_bytes() == (both / name).read_bytes()
    opposite = checkpoint.load(tmp_path / "runs/bt-reverse/best.safetensors", with_tensors=False)[
        "config"
    ]["data"]
    assert (opposite["source"], opposite["target"]) == ("en", "de")

    # The same command again makes nothing
    asked = len(reverse.asked)
    again = train()
    assert (again.code, again.out) == (0, first.out)
    assert again.err.count("already trained") == 2 and "Building" not in again.err

    # With a larger limit only the run itself goes on
    longer = train("train.max_steps=6")
    assert "bt-reverse is already trained: 4 updates" in longer.err and "Building" not in longer.err
    assert "bt: continuing after update 4" in longer.err
    assert len(reverse.asked) == asked


def test_what_does_not_fit_into_the_time_is_left_out_all_over_the_text(tmp_path, monkeypatch):
    """Of a model that needs a second a line, for 10,000 lines and 4,000 seconds."""
    clock = [0.0]
    monkeypatch.setattr("nmt.runs.back_translation.time.monotonic", lambda: clock[0])

    class Slow(ReverseModel):
        def translate_chunk(self, lines: list[str]) -> Iterator[SimpleNamespace]:
            clock[0] += len(lines)
            return super().translate_chunk(lines)

    text = {f"line {number}": "Satz" for number in range(10_000)}
    found = list(back_translation.translate(Slow(text), iter(text), len(text), 4000.0, tmp_path))
    numbers = [int(line.split()[1]) for lines, _, _ in found for line in lines]
    assert 3800 <= len(numbers) <= 4000 + 2000
    late = [number for number in numbers if number >= 2000]
    for start in range(2000, 10_000, 1000):
        assert sum(start <= number < start + 1000 for number in late) == pytest.approx(250, abs=60)


@pytest.mark.parametrize(
    ("minutes", "seconds", "left"),
    [(10, 0, 10), (10, 90, 8.5), (10, 300, 5), (10, 301, 5), (10, 9000, 5), (None, 90, None)],
)
def test_half_of_the_time_is_for_the_run_itself(minutes, seconds, left, tmp_path):
    config = compose_one(f"train.max_minutes={minutes or 'null'}")
    (tmp_path / "report.json").write_text(json.dumps({"seconds": seconds}), encoding="utf-8")
    rest = back_translation.with_rest_of_time(config, tmp_path)
    assert rest == replace(config, train=replace(config.train, max_minutes=left))


def test_text_in_the_language_of_the_sources_is_warned_of(train, reverse, tmp_path):
    german = "".join(f"{text}\n" for text, _ in MONO)
    (tmp_path / "mono.de").write_text(german, encoding="utf-8")
    reverse.sentences |= {text: english for text, english in MONO}
    answer = train(f"data.mono=[{tmp_path / 'mono.en'},{tmp_path / 'mono.de'}]")
    assert answer.code == 0
    assert "mono.de looks like de, not en" in answer.err
    assert "mono.en looks like" not in answer.err


def test_what_cannot_be_is_refused(words, tmp_path, refused):
    write_pairs(
        tmp_path, "tagged", [(f"<bt> {german}", english) for german, english in EVERY[:100]]
    )
    (tmp_path / "mono.tsv").write_text("a\tb\n", encoding="utf-8")
    for changes, message in (
        ([f"data.mono={tmp_path / 'nothing.en'}"], "there is no file"),
        ([f"data.mono={tmp_path / 'mono.tsv'}"], "not text with one sentence a line"),
        (["data.mono=7"], "there is no file 7"),
        (["data.target=en+fr"], "one source and one target language"),
        (["train.guided_alignment=0.1"], "without word links"),
        ([f"data.train={tmp_path / 'tagged'}"], "where sources begin with tags, as here with <bt>"),
    ):
        assert message in refused("train", *last_of_each_key(*words, *changes))
    assert "`nmt train` does all" in refused("tokenize", *words)
    assert not (tmp_path / "runs").exists()

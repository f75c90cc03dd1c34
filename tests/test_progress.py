"""What progress bars count: the lines that are translated, and the pairs that are read, tokenized and aligned."""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from corpora import Trained, run_command

import nmt
from nmt import cli
from nmt.data import line_chunks
from nmt.decode.translator import Translator
from nmt.view.progress import Progress

LINES = ["Ein Junge malt.", "", "Mein Bruder sucht kein Brot und eine Frau kauft zwei Bücher.", "Ja.", "Ein Junge."]


class Bar(NamedTuple):
    """A bar at its end."""

    description: str
    start: int
    total: int | None
    count: int


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch) -> list[Bar]:
    """All bars that have ended."""
    found: list[Bar] = []

    def end(self: Progress, *error: object) -> None:
        found.append(Bar(self.description, self.start, self.total, self.count))

    monkeypatch.setattr(Progress, "__exit__", end)
    return found


@pytest.mark.usefixtures("one_thread")
def test_a_line_is_done_with_its_last_part(trained: Trained) -> None:
    """Lines that need no search are done at once; the others batch by batch, here one sentence or part each."""
    translator = nmt.load("tiny", run_folder=trained.runs).translator
    decode = replace(translator.decode, batch_tokens=1)
    translator = replace(translator.with_options(decode=decode, num_processes=2), max_pieces=8)
    reports: list[int] = []
    found = list(translator.translate(LINES, reports.append))
    assert any(each.parts for each in found) and sum(reports) == len(LINES)
    assert reports[0] == 1 and len(reports) > len(LINES)  # the blank line


def test_the_lines_of_a_file(
    trained: Trained, bars: list[Bar], capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch
) -> None:
    """A translation that is continued begins at the lines that are there."""
    monkeypatch.setattr(line_chunks, "CHUNK_LINES", 2)
    source, output = tmp_path / "some.de", tmp_path / "some.en"
    source.write_text("\n".join(LINES))
    words = ["translate", "tiny", "--runs", trained.runs, "--input", str(source), "--output", str(output)]
    real, calls = Translator.translate_chunk, []

    def fail(self: Translator, texts, start=1, report=None):
        calls.append(start)
        return real(self, texts, start, report) if start < 5 else 1 / 0

    with monkeypatch.context() as context:
        context.setattr(Translator, "translate_chunk", fail)
        with pytest.raises(ZeroDivisionError):
            cli.main(words)
    assert calls == [1, 3, 5] and run_command(capfd, *words, "--resume").code == 0
    name = f"translating {source}"
    assert bars == [Bar(name, 0, 5, 4), Bar(name, 4, 5, 5)]
    bars.clear()
    answer = run_command(capfd, "align", "tiny", "--runs", trained.runs, "--source", str(source), "--pharaoh")
    assert answer.code == 0 and bars == [Bar(f"aligning {source}", 0, 5, 5)]

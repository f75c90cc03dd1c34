"""What progress bars count."""

import logging
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import pytest
from corpora import Trained

import nmt
from nmt.view.progress import Progress

LINES = [
    "Ein Junge malt.",
    "",
    "Mein Bruder sucht kein Brot und eine Frau kauft zwei Bücher.",
    "Ja.",
    "Ein Junge.",
]


@pytest.mark.usefixtures("one_thread")
def test_a_line_is_done_with_its_last_part(trained: Trained) -> None:
    """Lines that need no search are done at once; the others batch by batch, here one sentence or
    part each."""
    translator = nmt.load("tiny", run_folder=trained.runs).translator
    decode = replace(translator.decode, batch_tokens=1)
    translator = replace(translator, decode=decode, num_processes=2, max_pieces=8)
    reports: list[int] = []
    found = list(translator.translate(LINES, reports.append))
    assert any(each.parts for each in found) and sum(reports) == len(LINES)
    assert reports[0] == 1 and len(reports) > len(LINES)  # the blank line


def test_a_log_has_a_line_every_half_minute(monkeypatch, caplog):
    """No more often, however fast the work is; where it is slow, as soon as something is done."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: False)
    now = 100.0
    monkeypatch.setattr("nmt.view.progress.time", SimpleNamespace(monotonic=lambda: now))
    caplog.set_level(logging.INFO, "nmt")
    lines = [now]
    with Progress(1000, "step", "training", start=10) as progress:
        for seconds in [1] * 100 + [29, 30, 31, 200, 0, 1, 30]:
            now += seconds
            before = len(caplog.records)
            progress.update(1)
            if len(caplog.records) > before:
                lines.append(now)
            assert now - lines[-1] < 30
    assert all(after - before >= 30 for before, after in pairwise(lines))
    assert len(lines) == len(caplog.records) + 1 > 6


@pytest.mark.parametrize("start", [0, 400])
def test_speed_and_time_left_are_those_of_what_was_done_now(start, monkeypatch):
    """Not of what was done before an interruption."""
    now = 100.0
    monkeypatch.setattr("nmt.view.progress.time", SimpleNamespace(monotonic=lambda: now))
    with Progress(1000, "step", "training", start=start) as progress:
        now += 50
        progress.update(200)
        line = progress.line()
    left = (1000 - start - 200) / 4
    minutes, seconds = divmod(int(left), 60)
    assert f": {start + 200}/1000 " in line and " 4 step/s" in line
    assert f"{minutes:02d}:{seconds:02d} left" in line

"""What progress bars count."""

from dataclasses import replace

import pytest
from corpora import Trained

import nmt

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
    translator = replace(translator.with_options(decode=decode, num_processes=2), max_pieces=8)
    reports: list[int] = []
    found = list(translator.translate(LINES, reports.append))
    assert any(each.parts for each in found) and sum(reports) == len(LINES)
    assert reports[0] == 1 and len(reports) > len(LINES)  # the blank line

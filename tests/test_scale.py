"""scripts/scale.py: the invented corpora are what the program reads, and what is measured is told."""

import json
import sys
from pathlib import Path

import numpy
import pytest
import scale
import scale_corpora
from scale_measures import alone
from scale_plots import plot

from nmt.data.dataset import ParallelDataset
from nmt.errors import UserError

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")


@pytest.mark.parametrize("pairs", [1, 9, 23])
def test_an_invented_corpus_is_read_like_any_other(tmp_path: Path, pairs: int, monkeypatch) -> None:
    monkeypatch.setattr(scale_corpora, "ROWS", 9)
    for name in ("one", "again"):
        scale_corpora.write_ids(tmp_path / f"{name}.arrow", pairs, 50)
    assert (tmp_path / "one.arrow").read_bytes() == (tmp_path / "again.arrow").read_bytes()
    corpus = ParallelDataset(tmp_path / "one.arrow")
    assert len(corpus) == pairs and corpus.line(pairs - 1) == pairs
    for side in (corpus.source, corpus.target):
        rows = [side(row) for row in range(pairs)]
        assert all(1 <= len(ids) <= scale_corpora.LONGEST for ids in rows)
        assert all(4 <= ids.min() and ids.max() < 50 for ids in rows)


def test_frequent_ids_are_frequent(tmp_path: Path) -> None:
    """Zipf's law with a shift of 2.7: the first id is (100 + 2.7) / 2.7 times as frequent as the hundred-first."""
    scale_corpora.write_ids(tmp_path / "ids.arrow", 2000, 500)
    corpus = ParallelDataset(tmp_path / "ids.arrow")
    counts = numpy.bincount(numpy.concatenate([corpus.source(row) for row in range(2000)]), minlength=500)
    assert counts[4] / counts[90:119].mean() == pytest.approx(102.7 / 2.7, rel=0.2)


def test_text_has_as_many_lines_as_were_asked_for(tmp_path: Path) -> None:
    scale_corpora.write_text(tmp_path / "text", 120)
    german, english = ((tmp_path / f"text.{side}").read_text(encoding="utf-8").splitlines() for side in ("de", "en"))
    assert len(german) == len(english) == 120 and len(set(german)) > 110


@LINUX
def test_shards_are_planned_one_after_the_other(tmp_path: Path) -> None:
    scale_corpora.write_ids(tmp_path / "ids.arrow", 300, 50)
    told = alone("shards", paths=[str(tmp_path / "ids.arrow")] * 3)
    assert told["pairs"] == 900 and len(told["plans"]) == 3
    with pytest.raises(UserError, match="no.arrow cannot be read"):
        alone("shards", paths=[str(tmp_path / "no.arrow")])


def test_figures_become_a_table() -> None:
    rows = [{"pairs": 10_000, "s": 0.01234}, {"pairs": 100, "s": 1234.5}]
    assert scale.markdown(rows) == "| pairs | s |\n| --- | --- |\n| 10,000 | 0.0123 |\n| 100 | 1,234 |"


def test_figures_become_pictures(tmp_path: Path) -> None:
    rows = [{"model": name, "length": x, "seconds": x / 7, "peak": 3.0 * x} for name in "ab" for x in (16, 64)]
    (tmp_path / "length.json").write_text(json.dumps(rows))
    plot(tmp_path, tmp_path / "pictures")
    assert [path.name for path in (tmp_path / "pictures").iterdir()] == ["scale-length.png"]

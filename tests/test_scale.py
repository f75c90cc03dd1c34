"""scripts/scale.py: the synthetic corpora are what the program reads, and what is measured is
reported."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import scale
from benchmarks import corpora

from nmt.data.dataset import ParallelDataset

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")


@pytest.mark.parametrize("pairs", [1, 9, 23])
def test_a_synthetic_corpus_is_read_like_any_other(tmp_path: Path, pairs: int, monkeypatch) -> None:
    monkeypatch.setattr(corpora, "ROWS", 9)
    for name in ("first", "again"):
        corpora.write_ids(tmp_path / f"{name}.arrow", pairs, 50)
    assert (tmp_path / "first.arrow").read_bytes() == (tmp_path / "again.arrow").read_bytes()
    corpus = ParallelDataset(tmp_path / "first.arrow")
    assert len(corpus) == pairs and corpus.line(pairs - 1) == pairs
    for side in ("source", "target"):
        found = corpus.sentences(side, np.arange(pairs))
        assert 1 <= found.lengths.min() and found.lengths.max() <= corpora.LONGEST
        assert 4 <= found.ids.min() and found.ids.max() < 50


def test_frequent_ids_are_frequent(tmp_path: Path) -> None:
    """Zipf's law with a shift of 2.7: the first id is (100 + 2.7) / 2.7 times as frequent as the
    hundred-first."""
    corpora.write_ids(tmp_path / "ids.arrow", 2000, 500)
    corpus = ParallelDataset(tmp_path / "ids.arrow")
    ids = corpus.sentences("source", np.arange(2000)).ids
    counts = np.bincount(ids, minlength=500)
    assert counts[4] / counts[90:119].mean() == pytest.approx(102.7 / 2.7, rel=0.2)


@LINUX
@pytest.mark.slow
def test_a_topic_becomes_a_table_and_json(tmp_path: Path, capsys) -> None:
    words = ["length", "--models", "transformer_tiny", "--lengths", "16", "--repeats", "1"]
    files = {"folder": tmp_path, "json": tmp_path / "scale.json", "pictures": tmp_path / "pictures"}
    assert scale.main([*words, *(f"--{option}={path}" for option, path in files.items())]) == 0
    rows = json.loads((tmp_path / "scale.json").read_text(encoding="utf-8"))["length"]
    assert [row["length"] for row in rows] == [16] and rows[0]["seconds"] > 0
    assert "| transformer_tiny | 16 | 2,000 |" in capsys.readouterr().out
    assert [path.name for path in (tmp_path / "pictures").iterdir()] == ["scale-length.png"]

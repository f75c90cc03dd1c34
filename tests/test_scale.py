"""scripts/scale.py: the synthetic corpora are what the program reads, and what is measured is reported."""

import json
import sys
from pathlib import Path

import numpy
import pytest
import scale
import scale_measures
from benchmarks import corpora
from benchmarks.frame import in_fresh_process
from scale_plots import draw_pictures

from nmt.data.dataset import ParallelDataset
from nmt.errors import UserError

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")


@pytest.mark.parametrize("pairs", [1, 9, 23])
def test_a_synthetic_corpus_is_read_like_any_other(tmp_path: Path, pairs: int, monkeypatch) -> None:
    monkeypatch.setattr(corpora, "ROWS", 9)
    for name in ("first", "again"):
        corpora.write_ids(tmp_path / f"{name}.arrow", pairs, 50)
    assert (tmp_path / "first.arrow").read_bytes() == (tmp_path / "again.arrow").read_bytes()
    corpus = ParallelDataset(tmp_path / "first.arrow")
    assert len(corpus) == pairs and corpus.line(pairs - 1) == pairs
    for side in (corpus.source, corpus.target):
        rows = [side(row) for row in range(pairs)]
        assert all(1 <= len(ids) <= corpora.LONGEST for ids in rows)
        assert all(4 <= ids.min() and ids.max() < 50 for ids in rows)


def test_frequent_ids_are_frequent(tmp_path: Path) -> None:
    """Zipf's law with a shift of 2.7: the first id is (100 + 2.7) / 2.7 times as frequent as the hundred-first."""
    corpora.write_ids(tmp_path / "ids.arrow", 2000, 500)
    corpus = ParallelDataset(tmp_path / "ids.arrow")
    counts = numpy.bincount(numpy.concatenate([corpus.source(row) for row in range(2000)]), minlength=500)
    assert counts[4] / counts[90:119].mean() == pytest.approx(102.7 / 2.7, rel=0.2)


@pytest.mark.slow
def test_text_has_as_many_lines_as_required(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(corpora, "DISTINCT", 200)
    corpora.write_text(tmp_path / "text", 120)
    german, english = ((tmp_path / f"text.{side}").read_text(encoding="utf-8").splitlines() for side in ("de", "en"))
    assert len(german) == len(english) == 120 and len(set(german)) > 110


@LINUX
def test_planning_is_measured(tmp_path: Path) -> None:
    corpora.write_ids(tmp_path / "ids.arrow", 300, 50)
    row = scale_measures.planning(str(tmp_path / "ids.arrow"))
    assert row["batches"] >= 300 * 2 // scale_measures.TOKENS + 1 and row["batches/s"] > 0


@pytest.mark.slow
@LINUX
def test_an_error_in_a_fresh_process_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no.arrow cannot be read"):
        in_fresh_process(scale_measures.planning, path=str(tmp_path / "no.arrow"))


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


def test_figures_become_pictures(tmp_path: Path) -> None:
    rows = [
        {"model": name, "vocabulary": x, "beam": x, "seconds": x / 7, "peak": 3.0 * x} for name in "ab" for x in (4, 8)
    ]
    keys = ("start, CPU s", "plan, s", "plan, MiB", "training, MiB more resident", "training, MiB more anonymous")
    corpus = [dict.fromkeys(keys, 1.0) | {"pairs": pairs} for pairs in (10, 100)]
    text = [{"pairs": 10, "corpus, lines/s": 9.0, "tokenizer, lines/s": 8.0, "ids, lines/s": 7.0}]
    draw_pictures({"vocabulary": rows, "beam": rows, "corpus": corpus, "text": text}, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["scale-corpus.png", "scale-size.png"]

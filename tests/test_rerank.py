"""Reranking of n-best lists (scripts/rerank.py): its features, and which hypothesis they choose."""

import numpy as np
import pytest
import rerank
from corpora import Trained, pairs

import nmt
from nmt.evaluate.extraction import encode_pairs

SENTENCES = pairs(12, seed=3)


def test_the_hypothesis_with_the_highest_sum_is_chosen():
    texts = ["a", "b", "c", "d", "e"]
    features = np.array([[-1.0, 1], [-2.0, 3], [-9.0, 1], [-4.0, 1], [-4.0, 1]])
    found = rerank.Hypotheses(["x", "y"], ["b", "d"], texts, np.array([0, 0, 0, 1, 1]), features)
    assert found.choose(np.array([1.0, 0.0])) == ["a", "d"]  # of equal ones the first
    assert found.choose(np.array([1.0, 1.0])) == ["b", "d"]
    assert found.choose(np.array([0.0, -1.0])) == ["a", "d"]


def test_features_are_those_of_forced_decoding(trained: Trained):
    run = nmt.load(str(trained.folder))
    given = [*SENTENCES, ("", "blank"), ("blank", "")]
    found = rerank.log_probabilities(run.translator, given)
    records = list(run.translator.force_decode_all(encode_pairs(run.translator, SENTENCES)))
    assert found[:12, 0] == pytest.approx([sum(record.log_probabilities) for record in records], rel=1e-4)
    assert found[:12, 1].tolist() == [len(record.log_probabilities) for record in records]
    assert not found[12:].any()


def test_a_run_reranks_its_own_translations(trained: Trained, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(rerank, "BEAM", 3)
    for side, name in enumerate(("de", "en")):
        (tmp_path / name).write_text("".join(pair[side] + "\n" for pair in SENTENCES), encoding="utf-8")
    run, files = str(trained.folder), [str(tmp_path / "de"), str(tmp_path / "en")]
    rerank.main([run, "--with", run, "--backward", run, "--valid", *files, "--test", *files])
    weights, valid, test = (line.split("\t") for line in capsys.readouterr().out.splitlines())
    assert weights[0] == "weights" and len(weights) == 5 and valid == test
    loaded = nmt.load(run)
    found = rerank.read_hypotheses(loaded, [loaded], [loaded], files)
    assert len(found.texts) == 36
    assert all(found.bleu(np.array([1, 0, 0, reward])) <= float(valid[2]) + 0.01 for reward in rerank.REWARD)


def test_files_that_do_not_belong_together_are_refused(trained: Trained, tmp_path):
    (tmp_path / "de").write_text("Eins.\nZwei.\n", encoding="utf-8")
    (tmp_path / "en").write_text("One.\n", encoding="utf-8")
    with pytest.raises(nmt.UserError, match="2 lines and .* 1;"):
        rerank.main([str(trained.folder), "--valid", str(tmp_path / "de"), str(tmp_path / "en")])

"""nmt train data.mono=FILE: a reverse model, its translations, and the training on both, as stages."""

import json
from pathlib import Path

import pytest
from corpora import pairs, run_command, small, write_corpus

from nmt.data.corpus_folder import read_report
from nmt.decode.translator import Translator

EVERY = pairs(340)
TRAINING, VALID, TEST, MONO = EVERY[:240], EVERY[240:256], EVERY[256:268], EVERY[268:]
TINY = ["train.max_steps=4", "train.validate_every=4", "train.average_checkpoints=0", "model.decoder_layers=1", "name=bt"]


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """A small training with data.mono: new sentences, one twice, a blank one, and targets of the held-out pairs."""
    corpus = write_corpus(tmp_path)
    new = [english for _, english in MONO]
    nearly = TEST[1][1].removesuffix(".") + " now."
    held_out = [VALID[0][1].upper(), TEST[0][1], nearly]
    (tmp_path / "mono.en").write_text("".join(f"{line}\n" for line in [*new, new[0], "", *held_out]), encoding="utf-8")
    return small(tmp_path, corpus, *TINY, f"data.mono={tmp_path / 'mono.en'}")


def stage(root: Path, name: str) -> Path:
    (folder,) = (root / "data").glob(f"{name}-*/")
    return folder


def test_it(words, tmp_path, capfd):
    answer = run_command(capfd, "train", *words)
    print(answer.err)
    assert answer.code == 0, answer.err
    assert 0

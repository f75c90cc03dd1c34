"""Every file of conf/experiment composes, and gives its run its name."""

from pathlib import Path

import pytest
from corpora import compose_one

from nmt.errors import UserError

FOLDER = Path(__file__).resolve().parent.parent / "conf" / "experiment"
EXPERIMENTS = sorted(path.stem for path in FOLDER.glob("*.yaml"))


def test_every_experiment_composes():
    words = ["data.source=de", "data.target=en", "data.train=x", "seed=7"]
    for word in [f"+experiment={name}" for name in EXPERIMENTS] + [f"experiment={EXPERIMENTS[0]}"]:
        config = compose_one(word, *words)
        assert (config.name, config.seed) == (word.partition("=")[2], 7)


def test_an_unknown_experiment_lists_those_that_exist():
    with pytest.raises(UserError) as error:
        compose_one("+experiment=luong2016")
    assert all(name in str(error.value) for name in EXPERIMENTS)


def test_bahdanaus_own_sizes():
    """A.2.3: n = 1,000 in the decoder and in each direction of the encoder, m = 620, l = 500."""
    model = compose_one("+experiment=bahdanau2015").model
    sizes = (model.hidden_size, model.encoder_units, model.embedding_size, model.maxout_size)
    assert sizes == (1000, 1000, 620, 500)
    assert (model.score, model.window, model.tie_embeddings) == ("additive", "global", False)

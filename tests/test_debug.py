"""conf/debug: what someone who changes a model trains first."""

import json

import pytest
from corpora import compose_one

from nmt.config.compose import compose_all
from nmt.config.keys import choices_of
from nmt.training.train_step import TrainStep

WORDS = ["data.test=null"]


@pytest.mark.parametrize("name", choices_of("debug"))
def test_every_file_composes(name):
    config = compose_one(f"debug={name}")
    assert config.name == "debug"


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (
            ["debug=overfit", "model=bahdanau,transformer"],
            ["debug-modelbahdanau", "debug-modeltransformer"],
        ),
        (
            ["debug=overfit,two_updates"],
            ["debug-+debugoverfit", "debug-+debugtwo_updates"],
        ),
        (
            ["experiment=attention", "model=bahdanau,transformer"],
            ["attention-modelbahdanau", "attention-modeltransformer"],
        ),
        (
            ["+experiment=luong2015,bahdanau2015", "seed=choice(1,2)"],
            [f"{name}-seed{seed}" for name in ("luong2015", "bahdanau2015") for seed in (1, 2)],
        ),
        (["model=bahdanau,transformer"], ["phrasebook-bahdanau", "phrasebook-transformer"]),
    ],
)
def test_the_runs_of_a_sweep_have_names_of_their_own(words, names):
    """Made from what is swept, where the name that a file gives does not say it."""
    assert [config.name for config in compose_all(words, multirun=True)] == names


def test_overfit_trains_on_one_batch_in_every_update(train, monkeypatch):
    losses = []
    update = TrainStep.update

    def recorded(self):
        shown = update(self)
        losses.append(shown["loss"])
        return shown

    monkeypatch.setattr(TrainStep, "update", recorded)
    words = ["+debug=overfit", "model.dropout=0.0", "train.label_smoothing=0", "optim.lr=1e-9"]

    def train_to(updates):
        answer = train("debug", *words, f"train.max_steps={updates}")
        assert answer.code == 0, answer.err

    train_to(3)
    train_to(5)  # continues the training, with the same batch
    assert len(losses) == 5
    assert losses == pytest.approx([losses[0]] * 5, rel=1e-4)


def test_a_profile_has_so_many_updates(train, folder):
    answer = train("profile", "train.profile=3", "train.max_steps=16")
    assert answer.code == 0, answer.err
    [trace] = (folder("profile") / "profile").glob("*.pt.trace.json")
    events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    recorded = {event["name"] for event in events if event["name"].startswith("ProfilerStep")}
    assert recorded == {"ProfilerStep#12", "ProfilerStep#13", "ProfilerStep#14"}


def test_a_training_that_ends_before_its_profile_says_so(train, folder):
    answer = train("short", "train.profile=3", "train.max_steps=4")
    assert answer.code == 0
    assert "no profile" in answer.err
    assert not (folder("short") / "profile").exists()

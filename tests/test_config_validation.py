"""Sizes of a model that do not fit together are refused, and values that change nothing."""

from dataclasses import MISSING, fields
from functools import cache

import pytest
from omegaconf import OmegaConf

from nmt.compose import compose_all
from nmt.config import Config, to_dict
from nmt.config_validation import validate
from nmt.errors import UserError
from nmt.models.build import MODELS

# model and keys; what is said: the value, what it would need, and the value that does nothing
IDLE = [
    ("seq2seq score=additive", "score=additive order=never order=before_or_after score=dot"),
    ("seq2seq radius=3", "radius=3 window=global window=local_m_or_local_p radius=10"),
    ("seq2seq maxout=512", "maxout=512 order=never order=before maxout=null"),
    ("seq2seq max_positions=9", "max_positions=9 score=dot score=location max_positions=512"),
    ("bahdanau radius=3", "radius=3 window=global window=local_m_or_local_p radius=10"),
    ("bahdanau closing=100", "closing=100 window=global window=local_p closing=0"),
    ("bahdanau position_exponent=0", "position_exponent=0 window=global window=local_p position_exponent=-0.75"),
    ("bahdanau max_positions=5", "max_positions=5 score=additive score=location max_positions=512"),
    ("bahdanau hard_entropy=1", "hard_entropy=1 normalise=softmax normalise=hard hard_entropy=0.002"),
    (
        "bahdanau_hard hard_gradient=straight_through hard_entropy=1",
        "hard_entropy=1 hard_gradient=straight_through hard_gradient=reinforce hard_entropy=0.002",
    ),
    ("luong_local_p window=local_m", "closing=1500 window=local_m window=local_p closing=0"),
    ("luong_local_p window=global closing=0 radius=9", "radius=9 window=global window=local_m_or_local_p radius=10"),
    ("luong_local_m position_exponent=-0.5", "position_exponent=-0.5 window=local_m window=local_p"),
    (
        "luong_global order=never input_feeding=false tie=false",
        "score=general order=never order=before_or_after score=dot",
    ),
    ("transformer max_positions=5", "max_positions=5 positions=sinusoidal positions=learned max_positions=1024"),
    ("transformer_rotary max_positions=5", "max_positions=5 positions=rotary positions=learned max_positions=1024"),
    ("transformer_alibi max_distance=9", "max_distance=9 bias=alibi bias=relative max_distance=32"),
]


IMPOSSIBLE = [
    ("bahdanau encoder_hidden=0", "encoder_hidden=0 greater_than_0"),
    ("bahdanau maxout=-1", "maxout=-1 greater_than_0"),
    ("bahdanau maxout=5", "tie=true order=before maxout=5 embedding=256 tie=false"),
    ("bahdanau encoder_hidden=6 score=dot", "encoder_hidden=6 score=dot one_size 512_and_12"),
    ("luong_global encoder_hidden=9", "encoder_hidden=9 order=after hidden=512 must_be_256"),
    ("seq2seq encoder_hidden=9", "encoder_hidden=9 order=never hidden=512 must_be_512"),
    ("luong_global hidden=33 encoder_hidden=16", "hidden=33 even bidirectional=true"),
    ("luong_local_p position_exponent=0.5", "position_exponent=0.5 -1_to_0"),
    ("luong_local_p position_exponent=-2", "position_exponent=-2 -1_to_0"),
]


@cache
def chosen(name: str) -> dict:
    return to_dict(compose_all([f"model={name}"], multirun=False)[0])


def composed(words: str) -> Config:
    """What `nmt train model=NAME model.KEY=VALUE …` checks."""
    name, *keys = words.split()
    return validate(OmegaConf.merge(chosen(name), OmegaConf.from_dotlist([f"model.{key}" for key in keys])))


@pytest.mark.parametrize(("words", "said"), IMPOSSIBLE)
def test_what_does_not_fit_is_refused(words, said):
    with pytest.raises(UserError) as refusal:
        composed(words)
    for fragment in said.split():
        assert fragment.replace("_", " ") in str(refusal.value).replace("_", " ")


@pytest.mark.parametrize(("words", "said"), IDLE)
def test_what_changes_nothing_is_refused(words, said):
    with pytest.raises(UserError, match="changes nothing") as refusal:
        composed(words)
    for fragment in said.split():
        assert fragment.replace("_", " ") in str(refusal.value).replace("_", " ")


def test_what_changes_something_is_not():
    for words in (
        "luong_local_p window=local_m closing=0",
        "luong_local_p radius=3 closing=9 position_exponent=0",
        "luong_local_m radius=3",
        "luong_global_location max_positions=99",
        "bahdanau score=location max_positions=99 window=local_m radius=3",
        "bahdanau_hard hard_entropy=1",
        "bahdanau_hard hard_gradient=straight_through",
        "luong_global order=never input_feeding=false score=dot tie=false",
        "transformer_learned max_positions=2000",
        "bahdanau hidden=33 encoder_hidden=7",
        "bahdanau maxout=256",
        "luong_global encoder_hidden=256",  # what it is anyway
    ):
        assert composed(words)


def test_the_command_line_refuses_it_too():
    with pytest.raises(UserError, match=r"model.closing=1500 .* or model.closing=0"):
        compose_all(["model=luong_local_p", "model.window=local_m"], multirun=False)


@pytest.mark.parametrize("architecture", MODELS.values(), ids=list(MODELS))
def test_what_a_key_requires_is_there(architecture):
    """Another key of the same model, and values that it can have; the default is a value without effect."""
    known = {field.name: field for field in fields(architecture.config)}
    for field in known.values():
        for other, values in field.metadata["requires"].items():
            assert field.default is not MISSING
            assert values and set(values) <= set(known[other].metadata["choices"])


def test_a_run_with_an_idle_value_can_still_be_used():
    saved = chosen("bahdanau")
    saved = saved | {"model": saved["model"] | {"radius": 3, "hard_entropy": 1.0}}
    assert validate(saved).model.radius == 3

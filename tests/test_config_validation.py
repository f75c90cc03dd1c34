"""Sizes of a model that contradict each other are refused, and values without effect."""

from dataclasses import MISSING, fields
from functools import cache

import pytest
from omegaconf import OmegaConf

from nmt.config.compose import compose_all
from nmt.config.schema import Config, DataConfig, OptimConfig, to_dict
from nmt.config.validation import MODELS, validate
from nmt.errors import UserError

# Model and keys, of which the first has no effect together with the others
IDLE = [
    "seq2seq score=additive",
    "seq2seq window_radius=3",
    "seq2seq maxout_size=512",
    "seq2seq max_positions=9",
    "bahdanau window_narrowing_batches=100",
    "bahdanau position_scale_exponent=0",
    "bahdanau max_positions=5",
    "bahdanau hard_attention_entropy=1",
    "bahdanau_hard hard_attention_entropy=1 hard_attention_gradient=straight_through",
    "luong_local_p window_radius=9 window=global window_narrowing_batches=0",
    "luong_local_m position_scale_exponent=-0.5",
    "luong_global score=general attend=never input_feeding=false tie_embeddings=false",
    "transformer_rotary max_positions=5",
    "transformer distance_bias=alibi",
    "transformer_linear sliding_window=3",
    "transformer_alibi max_distance=9",
]
# Model and keys, of which the first cannot have this value
IMPOSSIBLE = [
    "bahdanau encoder_hidden_size=0",
    "bahdanau maxout_size=-1",
    "bahdanau maxout_size=5",  # and tied embeddings
    "bahdanau encoder_hidden_size=6 score=dot",
    "luong_global encoder_hidden_size=9",
    "seq2seq encoder_hidden_size=9",
    "luong_global hidden_size=33 encoder_hidden_size=16",
    "luong_local_p position_scale_exponent=0.5",
    "luong_local_p position_scale_exponent=-2",
]


@cache
def chosen(name: str) -> dict:
    return to_dict(compose_all([f"model={name}"], multirun=False)[0])


def composed(words: str) -> Config:
    """What `nmt train model=NAME model.KEY=VALUE …` checks."""
    name, *keys = words.split()
    return validate(OmegaConf.merge(chosen(name), OmegaConf.from_dotlist([f"model.{key}" for key in keys])))


@pytest.mark.parametrize("words", [*IDLE, *IMPOSSIBLE])
def test_what_changes_nothing_or_cannot_be_is_refused(words):
    """The sentence names the key and its value."""
    with pytest.raises(UserError) as refusal:
        composed(words)
    assert f"model.{words.split()[1]}" in str(refusal.value)
    assert ("changes nothing" in str(refusal.value)) == (words in IDLE)


def test_what_changes_something_is_not():
    for words in (
        "luong_local_p window=local_m window_narrowing_batches=0",
        "luong_local_p window_radius=3 window_narrowing_batches=9 position_scale_exponent=0",
        "luong_local_m window_radius=3",
        "luong_global_location max_positions=99",
        "bahdanau score=location max_positions=99 window=local_m window_radius=3",
        "bahdanau_hard hard_attention_entropy=1",
        "bahdanau_hard hard_attention_gradient=straight_through",
        "luong_global attend=never input_feeding=false score=dot tie_embeddings=false",
        "transformer_learned max_positions=2000",
        "bahdanau hidden_size=33 encoder_hidden_size=7",
        "bahdanau maxout_size=256",
        "luong_global encoder_hidden_size=128",  # what it is anyway
    ):
        assert composed(words)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("data=phrasebook data.weights=[2]", "data.weights=[2.0] changes nothing with data.kind=phrasebook; choose "
         "data.kind=files, or data.weights=null."),
        ("data=multi30k data.origin_tags=true", "choose data.kind=files, or data.origin_tags=false."),
        ("optim.momentum=0.9", "optim.momentum=0.9 changes nothing with optim.algorithm=adamw"),
    ],
)  # fmt: skip
def test_keys_of_data_and_optim_without_effect_are_refused_too(words, sentence):
    with pytest.raises(UserError) as refusal:
        compose_all(words.split(), multirun=False)
    assert sentence in str(refusal.value)
    assert compose_all(["data=files", "data.source=a", "data.target=b", "data.train=c", "data.weights=[2]"], False)
    assert compose_all(["optim=muon", "optim.momentum=0.9"], False)


@pytest.mark.parametrize("group", [DataConfig, OptimConfig, *MODELS.values()])
def test_the_required_key_exists(group):
    """Another key of the same group, and values that it can have; the default is a value without effect."""
    by_name = {field.name: field for field in fields(group)}
    for field in by_name.values():
        for other, values in field.metadata["requires"].items():
            assert field.default is not MISSING
            assert values and set(values) <= set(by_name[other].metadata["choices"])


def test_a_run_with_an_idle_value_can_still_be_used():
    saved = chosen("bahdanau")
    saved = saved | {"model": saved["model"] | {"window_radius": 3, "hard_attention_entropy": 1.0}}
    assert validate(saved).model.window_radius == 3


def test_former_keys():
    """On the command line they are refused, with the key that they have become; an earlier run has their values."""
    for word, now in (
        ("train.keep_checkpoints=all", "train.prune_checkpoints: .*false for all"),
        ("data.pairs=9", "no"),
    ):
        with pytest.raises(UserError, match=now):
            compose_all([word], multirun=False)
    saved = to_dict(compose_all([], multirun=False)[0])
    for before, now in (("auto", True), ("all", False)):
        del saved["train"]["prune_checkpoints"]
        saved["train"]["keep_checkpoints"] = before
        assert validate(saved).train.prune_checkpoints is now
        saved = to_dict(validate(saved))


def test_what_looks_like_a_number_can_be_a_name():
    names = {word: compose_all([f"name={word}"], multirun=False)[0].name for word in ("2023_12_31", "1e3", "off", "12")}
    assert all(name == word for word, name in names.items())
    assert [config.name for config in compose_all(["name=3_0,4_0"], multirun=True)] == ["3_0", "4_0"]


def test_the_code_of_a_country_is_refused_with_that_of_its_language():
    with pytest.raises(UserError, match=r"data\.source=cz .* cs"):
        compose_all(["data.source=cz"], multirun=False)
    saved = to_dict(compose_all([], multirun=False)[0])
    saved["data"]["source"] = "cz"
    assert validate(saved).data.source == "cz", "an earlier run can still be used"

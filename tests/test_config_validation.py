"""Sizes of a model that contradict each other are refused, and values without effect."""

import shutil
from contextlib import suppress
from dataclasses import MISSING, fields
from functools import cache
from pathlib import Path

import hydra
import pytest
from corpora import compose_one, run_command
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf

from nmt.config import compose, keys
from nmt.config.schema import LARGEST, Config, DataConfig, OptimConfig, leaves, to_dict
from nmt.config.validation import BOUNDS, MODELS, check_value, validate
from nmt.errors import UserError

# Model and keys, of which the first has no effect together with the others
IDLE = [
    "seq2seq score=additive",
    "seq2seq max_positions=9",
    "bahdanau hard_attention_entropy=1",
    "bahdanau_hard hard_attention_entropy=1 hard_attention_gradient=straight_through",
    "luong_local_p window_radius=9 window=global window_narrowing_batches=0",
    "luong_global score=general attend=never input_feeding=false tie_embeddings=false",
    "transformer_rotary max_positions=5",
    "transformer distance_bias=alibi",
    "transformer_linear sliding_window=3",
    "transformer_alibi max_distance=9",
]
# Model and keys, of which the first cannot have this value
IMPOSSIBLE = [
    "transformer_alibi attention_dropout=0.1",
    "transformer_delta positions=rotary",
    "transformer_sliding positions=none",
    "transformer_learned max_positions=532",
    "bahdanau encoder_hidden_size=0",
    "bahdanau maxout_size=5",  # and tied embeddings
    "bahdanau encoder_hidden_size=6 score=dot",
    "seq2seq encoder_hidden_size=9",
    "luong_global hidden_size=33 encoder_hidden_size=16",
    "luong_local_p position_scale_exponent=0.5",
]
FROM_FILES = ["data=files", "data.source=de", "data.target=en"]


@cache
def chosen(name: str) -> dict:
    return to_dict(compose_one(f"model={name}"))


def composed(words: str) -> Config:
    """What `nmt train model=NAME model.KEY=VALUE …` checks."""
    name, *keys = words.split()
    return validate(
        OmegaConf.merge(chosen(name), OmegaConf.from_dotlist([f"model.{key}" for key in keys]))
    )


@pytest.mark.parametrize("words", [*IDLE, *IMPOSSIBLE])
def test_what_changes_nothing_or_cannot_be_is_refused(words):
    """The sentence names the key and its value."""
    with pytest.raises(UserError) as refusal:
        composed(words)
    assert f"model.{words.split()[1]}" in str(refusal.value)
    assert ("changes nothing" in str(refusal.value)) == (words in IDLE)


def test_a_number_may_be_what_its_bounds_say():
    """Bounds of a field, at them and beside them; without an upper one there is a common limit."""
    tried = 0
    for name in ("transformer", "bahdanau"):
        for key, value, field in leaves(validate(chosen(name))):
            if isinstance(value, (bool, str, list)) or field.metadata["choices"]:
                continue
            rules = {bound: field.metadata[bound] for bound in BOUNDS}
            above, minimum, maximum, below = rules.values()
            least = [bound for bound in (above, minimum) if bound is not None]
            most = [bound for bound in (maximum, below) if bound is not None]
            ends = [*least, *most, LARGEST, -LARGEST]
            for number in {end + step for end in ends for step in (-1, -0.25, 0, 0.25, 1)}:
                is_possible = (
                    (above is None or number > above)
                    and (minimum is None or number >= minimum)
                    and (maximum is None or number <= maximum)
                    and (below is None or number < below)
                    and (bool(most) or abs(number) <= LARGEST)
                )
                tried += 1
                try:
                    check_value(key, number, field.metadata)
                except UserError as refusal:
                    assert not is_possible and key in str(refusal), (key, number)
                else:
                    assert is_possible, (key, number)
    assert tried > 500


@pytest.mark.parametrize(
    ("betas", "is_possible"),
    [("[0,0.999]", True), ("[0.9,1]", False), ("[-0.1,0.9]", False), ("[0.9]", False)],
)
def test_betas_are_at_least_0_and_less_than_1(betas, is_possible):
    try:
        compose_one(f"optim.betas={betas}")
    except UserError as refusal:
        assert not is_possible and "optim.betas" in str(refusal)
    else:
        assert is_possible


def test_what_changes_something_is_not():
    for words in (
        "luong_local_p window=local_m window_narrowing_batches=0",
        "bahdanau score=location max_positions=99 window=local_m window_radius=3",
        "bahdanau_hard hard_attention_gradient=straight_through",
        "luong_global attend=never input_feeding=false score=dot tie_embeddings=false",
        "bahdanau hidden_size=33 encoder_hidden_size=7",
        "luong_global encoder_hidden_size=128",  # what it is anyway
    ):
        assert composed(words)
    for group in (DataConfig, OptimConfig, *MODELS.values()):  # a default is a value without effect
        by_name = {field.name: field for field in fields(group)}
        for field in by_name.values():
            for other, values in field.metadata["requires"].items():
                assert field.default is not MISSING
                assert values and set(values) <= set(by_name[other].metadata["choices"])


def test_keys_of_data_and_optim_without_effect_are_refused_too():
    for words in (
        "data=phrasebook data.weights=[2]",
        "data=multi30k data.origin_tags=true",
        "optim.momentum=0.9",
    ):
        with pytest.raises(UserError, match="changes nothing"):
            compose_one(*words.split())
    assert compose_one(*FROM_FILES, "data.train=x", "data.weights=[2]")
    assert compose_one("optim=muon", "optim.momentum=0.9")


@pytest.mark.parametrize("address", ["file:///etc", "http://", "https://a b"])
def test_a_mirror_has_an_address_of_the_web(address):
    with pytest.raises(UserError, match="not an address that begins with http"):
        compose_one(*FROM_FILES, "data.train=opus:A/v1", f"data.opus_url='{address}'")


def test_a_code_that_is_no_language_and_a_name_of_digits():
    """A country's code and a former one are named with the right one; a name is a text as it was
    written."""
    for code, right in (("jp", "ja"), ("iw", "he"), ("cz", "cs")):
        with pytest.raises(
            UserError, match=f"data.target={code} is not the code of a language; it is {right}"
        ):
            compose_one("data=files", "data.source=en", f"data.target={code}", "data.train=x")
    for name in ("2024_11_25", "1e3", "0x10", "on"):
        assert compose_one(f"name={name}").name == name
        for key, given in (("train", name), ("valid", f"[{name},null]")):
            config = compose_one(*FROM_FILES, "data.train=x", f"data.{key}={given}")
            assert name in (getattr(config.data, key), *(getattr(config.data, key) or ""))


def test_an_earlier_run_can_still_be_used():
    """With a value without effect, with former keys, with a code that is refused on the command
    line."""
    saved = chosen("bahdanau")
    saved = saved | {"model": saved["model"] | {"window_radius": 3, "hard_attention_entropy": 1.0}}
    assert validate(saved).model.window_radius == 3
    for word in ("train.keep_checkpoints=all", "data.pairs=9", "data.source=cz"):
        with pytest.raises(UserError):
            compose_one(word)
    saved = to_dict(compose_one())
    saved["data"]["source"] = "cz"
    del saved["train"]["prune_checkpoints"]
    saved["train"]["keep_checkpoints"] = "auto"
    assert validate(saved).train.prune_checkpoints and validate(saved).data.source == "cz"


@pytest.mark.parametrize("key", ["data_folder", "run_folder"])
@pytest.mark.parametrize(
    ("given", "folder"),
    [("~/a", "/home/me/a"), ("~", "/home/me"), ("a~", "a~"), ("./~/a", "./~/a")],
)
def test_a_folder_may_begin_with_the_home_folder(key, given, folder, monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    config = compose_one(f"{key}={given}")
    assert getattr(config, key) == folder


@pytest.mark.parametrize("words", [["seed=2"], ["seed=no"]])
def test_a_program_may_use_hydra_itself(words, tmp_path):
    (tmp_path / "config.yaml").write_text("own: 1", encoding="utf-8")
    with hydra.initialize_config_dir(str(tmp_path), version_base="1.3"):
        with suppress(UserError):
            assert compose_one(*words).seed == 2
        assert hydra.compose("config") == {"own": 1}
    assert not GlobalHydra.instance().is_initialized()


HEAD = "# @package _global_\n"
GOOD = f"{HEAD}defaults:\n  - override /model: bahdanau\n\nseed: 7\n"
FILES = {  # of conf/experiment → the words of the refusal; None: seed is 7
    "good": (GOOD, None),
    "CRLF": (GOOD.replace("\n", "\r\n"), None),
    "BOM": (f"\ufeff{GOOD}", "byte order mark"),
    "UTF-16": (GOOD.encode("utf-16"), "not UTF-8"),
    "Latin-1": (f"{GOOD}# für".encode("latin-1"), "not UTF-8"),
    "tab": (f"{HEAD}model:\n\tdropout: 0.1\n", "line 3"),
    "key twice": (f"{GOOD}seed: 8\n", "duplicate key seed"),
    "two documents": (f"{GOOD}---\nseed: 8\n", "another document"),
    "empty": ("", "first line"),
    "no header": ("seed: 7\n", "first line"),
    "list": (f"{HEAD}- seed\n", "has no lines KEY: VALUE"),
    "a word": (f"{HEAD}seed\n", "has no lines KEY: VALUE"),
    "list as a group": (f"{HEAD}model:\n  - dropout: 0.1\n", "'model:' needs lines"),
    "number as a group": (f"{HEAD}train: 5\n", "'train:' needs lines"),
    "nothing as a group": (f"{HEAD}optim:\n", "'optim:' needs lines"),
    "defaults are a word": (f"{HEAD}defaults: bahdanau\n", "'defaults:' needs lines"),
    "entry of a list": (f"{HEAD}defaults:\n  - override /model: [a]\n", "of its defaults"),
    "number in defaults": (f"{HEAD}defaults:\n  - 1: 2\n", "of its defaults"),
    "group with values": (f"{HEAD}seed:\n  a: 1\n", "'seed'"),
}


def own_conf(tmp_path, monkeypatch) -> Path:
    conf = Path(shutil.copytree(keys.config_folder(), tmp_path / "conf"))
    for module in (keys, compose):
        monkeypatch.setattr(module, "config_folder", lambda: conf)
    return conf


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_conf_is_read_or_refused_by_one_sentence(name, tmp_path, monkeypatch, capfd):
    content, said = FILES[name]
    conf = own_conf(tmp_path, monkeypatch)
    written = content if isinstance(content, bytes) else content.encode()
    (conf / "experiment" / "mine.yaml").write_bytes(written)
    words = ["data=phrasebook", "+experiment=mine"]
    if said is None:
        config = compose_one(*words)
        assert config.seed == 7 and config.model.kind == "recurrent"
        return
    answer = run_command(capfd, "suggest", *words)
    assert answer.code == 2 and said in answer.err and answer.err.count("\n") == 1


@pytest.mark.parametrize("text", ["", "- a\n", "3\n"])
def test_a_file_that_another_one_chooses_has_values(text, tmp_path, monkeypatch, capfd):
    conf = own_conf(tmp_path, monkeypatch)
    (conf / "experiment" / "mine.yaml").write_text(f"{HEAD}defaults:\n  - override /train: short\n")
    (conf / "train" / "short.yaml").write_text(text)
    answer = run_command(capfd, "suggest", "data=phrasebook", "+experiment=mine")
    assert answer.code == 2 and "short.yaml has no lines KEY: VALUE" in answer.err

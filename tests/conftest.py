"""Fixtures of all tests: every model of conf/model, made narrow."""

import copy
import gc
import os

# Before torch. Several processes of pytest-xdist share the cores: OpenMP's threads wait in loops
# for theirs.
os.environ["OMP_NUM_THREADS"] = (
    "1" if "PYTEST_XDIST_WORKER" in os.environ else os.environ.get("OMP_NUM_THREADS", "1")
)
# `make test ARGS=…` would pass its ARGS to every `make` that a test calls
os.environ.pop("MAKEFLAGS", None)

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import hypothesis
import pytest
import torch
import yaml
from corpora import (  # noqa: F401
    corpus,
    folder,
    refused,
    restored_logger,
    root,
    run_copy,
    succeeds,
    train,
    trained,
    vocabularies,
)
from omegaconf import DictConfig, OmegaConf

from nmt.config.compose import compose_all
from nmt.config.keys import config_folder
from nmt.config.recurrent import RecurrentConfig
from nmt.config.schema import to_dict
from nmt.config.transformer import TransformerConfig
from nmt.config.validation import validate
from nmt.models.base import EncoderDecoder
from nmt.models.build import build

# A law for all inputs is tried on 25 of them, always the same ones, so that CI is reproducible; no
# deadline, since the machine may be busy. CI's own profile, which Hypothesis loads by itself, would
# otherwise stay in force.
hypothesis.settings.register_profile("nmt", max_examples=25, deadline=None, derandomize=True)
hypothesis.settings.load_profile("nmt")

VOCABULARY = 50
MODELS = sorted(path.stem for path in (config_folder() / "model").glob("*.yaml"))
# Sizes of another model, or a score that another window is tested with: their tests are for CI.
SLOW = {
    "luong_global_dot",
    "luong_local_m_dot",
    "luong_local_p_dot",
    "transformer_big",
    "transformer_tiny",
}
SLOW |= {"transformer_learned", "transformer_fast_weights", "luong_global_location"}
# window_radius, sliding_window, max_distance: so small that they hide or clip something in short
# sentences.
NARROW = {
    "hidden_size": 32,
    "num_heads": 4,
    "feed_forward_size": 64,
    "embedding_size": 32,
    "window_radius": 2,
    "window_narrowing_batches": 0,
}
AT_MOST = {"num_layers": 2, "encoder_layers": 2, "decoder_layers": 2, "sliding_window": 2}


both_devices = pytest.mark.parametrize(
    "device",
    [
        "cpu",
        pytest.param("cuda", marks=pytest.mark.gpu),
    ],
)


# Warnings are errors, but on a GPU PyTorch and Triton warn of what they do themselves; those of C++
# seem to come from the line that called it, and are UserWarnings.
TORCHS_OWN = ("default::UserWarning", r"default:::torch\.", r"default:::triton\.")


# A tenth of the time went into searching a million objects of libraries, which stay, for garbage.
gc.set_threshold(50_000, 20, 50)

parse_yaml = yaml.load
PARSED: dict[tuple[str, Any], Any] = {}


def parse_once(stream: Any, Loader: type) -> Any:
    """`yaml.load`, which parses a text once: every command reads all of conf/, and Hydra its own
    files as well."""
    text = stream.read() if hasattr(stream, "read") else stream
    key = Loader.__name__, text
    if key not in PARSED:
        PARSED[key] = parse_yaml(text, Loader)
    return copy.deepcopy(PARSED[key])


yaml.load = parse_once


def pytest_collection_finish() -> None:
    """What has been imported is no garbage."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests on a GPU need one, and may meet PyTorch's own warnings."""
    needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(needs_cuda)
            for accepted in TORCHS_OWN:
                item.add_marker(pytest.mark.filterwarnings(accepted))


@pytest.fixture(autouse=True)
def own_engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """`nmt translate` searches with PyTorch, whatever else is installed; test_engine.py is about
    the choice."""
    if request.node.path.stem != "test_engine":
        monkeypatch.setattr("nmt.commands.engine.has_format", lambda quantization: False)


@pytest.fixture(autouse=True)
def seeded() -> None:
    """The random numbers of a test do not depend on the tests before it."""
    torch.manual_seed(1)


@pytest.fixture(autouse=True)
def restored_threads() -> Iterator[None]:
    """A test leaves PyTorch with as many threads as it found."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def one_thread(restored_threads: None) -> None:
    """The test runs with one thread, whatever OMP_NUM_THREADS says."""
    torch.set_num_threads(1)


@cache
def composed(name: str) -> DictConfig:
    """conf/model/NAME.yaml among all other groups; Hydra composes it once."""
    return OmegaConf.create(to_dict(compose_all([f"model={name}"])[0]))


@cache
def small_config(
    name: str, changes: tuple[tuple[str, object], ...]
) -> RecurrentConfig | TransformerConfig:
    """conf/model/NAME.yaml with other sizes and the same structure."""
    plain: dict[str, object] = OmegaConf.to_container(composed(name).model)  # type: ignore[assignment]
    sizes = {key: value for key, value in NARROW.items() if key in plain}
    sizes |= {key: min(value, plain[key]) for key, value in AT_MOST.items() if key in plain}
    if (plain | dict(changes)).get("window") == "global":
        del sizes["window_radius"]  # has no effect without a local window, and is refused
    if plain.get("distance_bias") == "relative":
        sizes["max_distance"] = 3
    words = [f"model.{key}={str(value).lower()}" for key, value in (sizes | dict(changes)).items()]
    return validate(OmegaConf.merge(composed(name), OmegaConf.from_dotlist(words))).model


@pytest.fixture(
    params=[pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in MODELS]
)
def name(request: pytest.FixtureRequest) -> str:
    """Every file of conf/model, also the one that is added tomorrow."""
    return request.param


@pytest.fixture
def small_model() -> Callable[..., EncoderDecoder]:
    """small_model(NAME, KEY=VALUE …): a narrow model in float64, in evaluation."""

    def make(name: str, joint: bool = True, **changes: object) -> EncoderDecoder:
        torch.manual_seed(1)
        config = small_config(name, tuple(changes.items()))
        return build(config, VOCABULARY, VOCABULARY, joint).double().eval()

    return make

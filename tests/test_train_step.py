"""An update waits for nothing that a GPU computes, and its figures may be read one update later."""

import math
from collections.abc import Iterator
from itertools import count

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from nmt.compose import compose_all
from nmt.data.batches import Batch, Cursor, collate
from nmt.data.tokenizer import EOS
from nmt.distributed import World
from nmt.models.build import build
from nmt.training import train_step as module
from nmt.training.build import make_optimizer
from nmt.training.deferred import Deferred
from nmt.training.divergence import MAX_SKIPPED, TrainingDiverged
from nmt.training.state import TrainState
from nmt.training.train_step import TrainStep

VOCABULARY = 50
WORDS = ["device=cpu", "optim.warmup_steps=1", "train.accumulate=2", "train.max_steps=1000000"]
WAITING = {"aten::_local_scalar_dense", "aten::nonzero", "aten::is_nonzero", "aten::masked_select", "aten::equal"}


class RandomBatches:
    """Batches of random ids with padding, a new one for each position."""

    def stream(self, cursor: Cursor, *_: object, **__: object) -> Iterator[tuple[Cursor, Batch]]:
        while True:
            random = np.random.default_rng(cursor.position)
            sizes = ([6] * 5, [4, 7, 2, 5, 6])
            yield cursor, collate(*([random.integers(EOS + 1, VOCABULARY, size) for size in side] for side in sizes))
            cursor = self.skip(cursor, 1)

    def skip(self, cursor: Cursor, count: int) -> Cursor:
        return cursor._replace(position=cursor.position + count)

    def describe_batch(self, *cursor: int) -> str:
        return f"batch {cursor[2]}"


def make_step(*words: str, state: TrainState | None = None) -> TrainStep:
    config = compose_all([*WORDS, *words], multirun=False)[0]
    torch.manual_seed(config.seed)
    model = build(config.model, VOCABULARY, VOCABULARY, True)
    state, optimizer = state or TrainState(total_steps=10**6), make_optimizer(model, config.optim)
    return TrainStep(config, model, optimizer, RandomBatches(), state, torch.float32, World())  # type: ignore[arg-type]


class NoWaiting(TorchDispatchMode):
    """Every operation that has to read a number of the device fails."""

    def __torch_dispatch__(self, function, types, arguments=(), options=None):  # type: ignore[no-untyped-def]
        assert function._schema.name not in WAITING, function
        return function(*arguments, **(options or {}))


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Updates are made as on a GPU."""
    monkeypatch.setattr(module, "runs_ahead", lambda device: True)


LARGE = {"hidden_size": 16, "embedding_size": 16}
MODELS = {
    "transformer_tiny": [],
    "luong_global": [f"model.{key}={value}" for key, value in LARGE.items()],
    "luong_local_p": [f"model.{key}={value}" for key, value in LARGE.items()],
    "bahdanau_hard": [f"model.{key}={value}" for key, value in LARGE.items()],
}


@pytest.mark.parametrize("model, optimizer", [*((name, "adamw") for name in MODELS), ("transformer_tiny", "muon")])
def test_an_update_reads_no_number_of_the_device(model, optimizer, ahead, monkeypatch):
    """Neither in Python nor below; the figures of the update before may be read."""
    step = make_step(f"model={model}", f"optim.algorithm={optimizer}", *MODELS[model])
    step.update()

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("a number is read")

    def read(deferred: Deferred) -> list[float]:
        with torch.utils._python_dispatch._disable_current_modes():
            return [float(number) for number in deferred.numbers.numpy()]

    monkeypatch.setattr(Deferred, "read", read)
    for name in ("item", "nonzero", "cpu", "tolist", "__bool__", "__int__", "__float__", "__index__"):
        monkeypatch.setattr(Tensor, name, refused)
    with NoWaiting():
        assert math.isfinite(step.update()["loss"])


def outcome(step: TrainStep, updates: int) -> tuple[list[Tensor], TrainState, dict[str, float]]:
    """Weights, state and metrics after this many updates; too many useless ones are only counted."""
    diverged = 0
    while step.state.step < updates:
        try:
            step.update()
        except TrainingDiverged:
            diverged, step.state.skipped = diverged + 1, []
    step.settle()
    weights = [tensor.clone() for tensor in step.model.state_dict().values()]
    return weights, step.state, step.metrics.sums() | {"diverged": diverged}


@pytest.mark.parametrize(
    "optimizer, useless", [("adamw", ()), ("muon", (2,)), ("adamw", tuple(range(3, 4 + MAX_SKIPPED)))]
)
def test_an_update_that_is_read_later_is_the_same(optimizer, useless, monkeypatch):
    """The same weights, buffers, states and decisions; after too many useless updates the next one is made again."""
    real = torch.nn.utils.clip_grad_norm_
    outcomes = []
    for later in (False, True):
        calls = count(1)
        monkeypatch.setattr(module, "runs_ahead", lambda device, later=later: later)

        def clip(*arguments: object, calls: Iterator[int] = calls) -> Tensor:
            norm = real(*arguments)  # type: ignore[arg-type]
            return norm * math.nan if next(calls) in useless else norm

        monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", clip)
        words = [f"optim.algorithm={optimizer}", "model=bahdanau_hard", *MODELS["bahdanau_hard"]]
        outcomes.append(outcome(make_step(*words), 10))
    (weights, state, metrics), (later_weights, later_state, later_metrics) = outcomes
    assert all(map(torch.equal, weights, later_weights)) and state == later_state and metrics == later_metrics
    assert metrics["diverged"] == (len(useless) > MAX_SKIPPED) and metrics["updates"] == 10 - len(useless)


def test_a_useless_update_changes_nothing(monkeypatch):
    real = torch.nn.utils.clip_grad_norm_
    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", lambda *arguments: real(*arguments) * math.nan)
    for optimizer in ("adamw", "muon"):
        step = make_step("model=bahdanau_hard", f"optim.algorithm={optimizer}", *MODELS["bahdanau_hard"])
        before = [tensor.clone() for tensor in step.model.state_dict().values()]
        step.update()
        assert all(map(torch.equal, before, step.model.state_dict().values()))
        numbers = [value for state in step.optimizer.state.values() for value in state.values()]
        assert numbers and not any(number.any() for number in numbers)

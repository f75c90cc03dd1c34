"""An update waits for nothing that a GPU computes, and its figures may be read one update later."""

import math
from collections.abc import Iterator
from functools import cache
from itertools import count

import numpy as np
import pytest
import torch
import torch.distributed as dist
from conftest import both_devices
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from nmt.config.compose import compose_all
from nmt.config.schema import Config
from nmt.data.batches import Batch, Cursor, collate
from nmt.data.tokenizer import EOS
from nmt.models.base import DecoderOutput
from nmt.models.build import build
from nmt.training.distributed import OrderedSum, World
from nmt.training.optimizers import make_optimizer
from nmt.training.state import MAX_SKIPPED, TrainingDiverged, TrainState
from nmt.training.train_step import PendingUpdate, TrainStep

VOCABULARY = 50
WORDS = ["device=cpu", "optim.warmup_steps=1", "train.accumulate=2", "train.max_steps=1000000"]
WAITING = {
    "aten::_local_scalar_dense",
    "aten::nonzero",
    "aten::is_nonzero",
    "aten::masked_select",
    "aten::equal",
}


class RandomBatches:
    """Batches of random ids: of these lengths, again and again, or one with padding, new for each
    position."""

    def __init__(self, *shapes: tuple[list[int], list[int]]) -> None:
        self.shapes = shapes or [([6] * 5, [4, 7, 2, 5, 6])]
        self.different = len(shapes) or 10**6

    def existing_position(self, cursor: Cursor) -> Cursor:
        return cursor

    def batch(self, *cursor: int) -> Batch:
        position = cursor[-1]
        random = np.random.default_rng(position % self.different)
        sizes = self.shapes[position % len(self.shapes)]
        return collate(
            *([random.integers(EOS + 1, VOCABULARY, size) for size in side] for side in sizes)
        )

    def stream(
        self, cursor: Cursor, *_: object, pinned: bool = False
    ) -> Iterator[tuple[Cursor, Batch]]:
        while True:
            batch = self.batch(cursor.position)
            yield cursor, batch.pinned() if pinned else batch
            cursor = self.skip(cursor, 1)

    def skip(self, cursor: Cursor, count: int) -> Cursor:
        return cursor._replace(position=cursor.position + count)

    def describe_batch(self, *cursor: int) -> str:
        return f"batch {cursor[2]}"


@cache
def composed(words: tuple[str, ...]) -> Config:
    return compose_all([*WORDS, *words], multirun=False)[0]


def make_step(
    *words: str, dtype: torch.dtype = torch.float32, batches: RandomBatches | None = None
) -> TrainStep:
    config = composed(words)
    batches = batches or RandomBatches()
    torch.manual_seed(config.seed)
    model = build(config.model, VOCABULARY, VOCABULARY, True).to(config.device)
    state = TrainState(total_steps=10**6)
    optimizer = make_optimizer(model, config.optim)
    return TrainStep(config, model, optimizer, batches, state, dtype, World())  # type: ignore[arg-type]


class NoWaiting(TorchDispatchMode):
    """Every operation that has to read a number of the device fails."""

    def __torch_dispatch__(self, function, types, arguments=(), options=None):  # type: ignore[no-untyped-def]
        assert function._schema.name not in WAITING, function
        return function(*arguments, **(options or {}))


SIZES = ["model.hidden_size=16", "model.embedding_size=16"]
MODELS = {"transformer_tiny": [], "luong_local_p": SIZES, "bahdanau_hard": SIZES}


@pytest.mark.parametrize(
    "model, optimizer",
    [
        ("transformer_tiny", "muon"),
        ("luong_local_p", "adamw"),
        pytest.param("bahdanau_hard", "adamw", marks=pytest.mark.slow),
    ],
)
def test_an_update_reads_no_number_of_the_device(model, optimizer, monkeypatch):
    """Neither in Python nor below, where it runs ahead as on a GPU; the figures of the update
    before may be read."""
    step = make_step(f"model={model}", f"optim.algorithm={optimizer}", *MODELS[model])
    step.runs_ahead = True
    step.update()

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("a number is read")

    def read(pending: PendingUpdate) -> list[float]:
        with torch.utils._python_dispatch._disable_current_modes():
            return [float(number) for number in pending.numbers.numpy()]

    monkeypatch.setattr(PendingUpdate, "read", read)
    for name in (
        "item",
        "nonzero",
        "cpu",
        "tolist",
        "__bool__",
        "__int__",
        "__float__",
        "__index__",
    ):
        monkeypatch.setattr(Tensor, name, refused)
    with NoWaiting():
        assert math.isfinite(step.update()["loss"])


def outcome(step: TrainStep, updates: int) -> tuple[list[Tensor], TrainState, dict[str, float]]:
    """Weights, state and metrics after this many updates; too many invalid ones are only
    counted."""
    diverged = 0
    while step.state.step < updates:
        try:
            step.update()
        except TrainingDiverged:
            diverged = diverged + 1
            step.state.skipped = []
    step.settle()
    weights = [tensor.clone() for tensor in step.model.state_dict().values()]
    return weights, step.state, step.metrics.sums() | {"diverged": diverged}


@pytest.mark.parametrize(
    "optimizer, useless",
    [
        ("adamw", tuple(range(3, 4 + MAX_SKIPPED))),
        pytest.param("muon", (2,), marks=pytest.mark.slow),
    ],
)
def test_an_update_that_is_read_later_is_the_same(optimizer, useless, monkeypatch):
    """The same weights, buffers, states and decisions; after too many invalid updates the next one
    is made again."""
    real = torch.nn.utils.clip_grad_norm_
    outcomes = []
    for later in (False, True):
        calls = count(1)

        def clip(*arguments: object, calls: Iterator[int] = calls) -> Tensor:
            norm = real(*arguments)  # type: ignore[arg-type]
            return norm * math.nan if next(calls) in useless else norm

        monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", clip)
        words = [f"optim.algorithm={optimizer}", "model=bahdanau_hard", *MODELS["bahdanau_hard"]]
        step = make_step(*words)
        step.runs_ahead = later
        outcomes.append(outcome(step, 10))
    (weights, state, metrics), (later_weights, later_state, later_metrics) = outcomes
    assert (
        all(map(torch.equal, weights, later_weights))
        and state == later_state
        and metrics == later_metrics
    )
    assert metrics["diverged"] == (len(useless) > MAX_SKIPPED) and metrics["updates"] == 10 - len(
        useless
    )


@pytest.fixture
def process_group() -> Iterator[None]:
    """A group of one process, which exchanges gradients with itself."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("process_group")
def test_an_update_that_is_given_up_leaves_no_gradients():
    """Its batches come again; with several processes they were added a second time."""
    gradients = []
    for given_up in (False, True):
        step = make_step("model=transformer_tiny", "model.dropout=0", "model.attention_dropout=0")
        step.gradient_sum = OrderedSum(step.model.parameters(), World())
        if given_up:
            step.pending = PendingUpdate(
                torch.full([2], math.nan), math.inf, 1, 0.0, Cursor(0, 0, 0)
            )
            step.state.skipped = [0] * MAX_SKIPPED
            with pytest.raises(TrainingDiverged):
                step.update()
        batches = [batch for _, batch in step.waiting] or [
            step.batches.batch(number) for number in range(2)
        ]
        step.add_gradients(batches, sum(batch.tokens for batch in batches))
        step.gradient_sum.finish()
        gradients.append([each.grad for each in step.model.parameters()])
    assert all(map(torch.equal, *gradients))


def test_the_batches_of_an_update_are_one_batch():
    """The loss is a mean over target tokens, not over batches: those of one long and of four short
    sentences."""
    random = np.random.default_rng(1)
    sides = [
        [random.integers(EOS + 1, VOCABULARY, size) for size in (20, 2, 3, 2, 3)] for _ in range(2)
    ]
    parts = [collate(*(side[rows] for side in sides)) for rows in (slice(0, 1), slice(1, None))]
    gradients = []
    for batches in (parts, [collate(*sides)]):
        step = make_step("model=transformer_tiny", "model.dropout=0", "model.attention_dropout=0")
        step.add_gradients(batches, sum(batch.tokens for batch in batches))
        gradients.append([each.grad for each in step.model.parameters()])
    for separate, together in zip(*gradients, strict=True):
        torch.testing.assert_close(separate, together, atol=1e-6, rtol=1e-4)


def test_sentences_that_do_not_reach_a_parameter_give_it_the_gradient_0():
    """An empty target has one column, before Bahdanau's cell; a process with nothing else would not
    update the cell."""
    step = make_step(
        "model=bahdanau", *MODELS["bahdanau_hard"], batches=RandomBatches(([4, 4], [0, 0]))
    )
    _, batch = next(step.stream)
    step.backward(0, batch, batch.tokens)
    assert not step.model.cell.weight_hh.grad.any() and step.model.readout.weight.grad.any()
    assert all(parameter.grad is not None for parameter in step.model.parameters())


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@both_devices
def test_an_invalid_update_changes_nothing(device, optimizer):
    step = make_step(
        "model=bahdanau_hard", f"device={device}", f"optim={optimizer}", *MODELS["bahdanau_hard"]
    )
    step.update()

    def numbers() -> list[Tensor]:
        moments = [value for state in step.optimizer.state.values() for value in state.values()]
        return [tensor.clone() for tensor in [*step.model.state_dict().values(), *moments]]

    before = numbers()
    hook = step.model.output.weight.register_hook(lambda gradient: gradient * math.nan)
    step.update()
    step.settle()
    assert step.state.skipped == [2] and all(map(torch.equal, before, numbers()))
    hook.remove()
    step.update()
    step.settle()
    assert not any(map(torch.equal, before, step.model.state_dict().values()))


# --------------------------------------------------------------------------------------------------
# Memory


def without_memory(step: TrainStep, most: int) -> list[int]:
    """The second of two batches does not fit if it has more rows than this; returns the rows that
    are tried."""
    tried: list[int] = []

    def forward(source: Tensor, mask: Tensor | None, target: Tensor) -> DecoderOutput:
        tried.append(len(source))
        if len(source) > most and len(tried) > 1:
            raise torch.OutOfMemoryError("no memory")
        return step.model(source, mask, target)

    step.forward = forward
    return tried


def test_an_update_that_does_not_fit_is_made_in_parts(caplog):
    """The same gradients and loss; the part that failed leaves nothing behind."""
    words = ("model=transformer_tiny", "model.dropout=0", "model.attention_dropout=0")
    wanted = make_step(*words)
    step = make_step(*words)
    wanted_loss = wanted.update()["loss"]
    tried = without_memory(step, 2)
    assert step.update()["loss"] == pytest.approx(wanted_loss, abs=1e-6)
    assert tried == [5, 5, 3, *[2, 2, 1] * 2] and "split into" in caplog.text
    wanted.update(), step.update()
    assert tried[9:] == [2, 2, 1] * 2, "and so is the next one"
    for tensor, other in zip(
        step.optimizer.state.values(), wanted.optimizer.state.values(), strict=True
    ):
        torch.testing.assert_close(tensor["exp_avg"], other["exp_avg"], atol=1e-6, rtol=1e-4)


# --------------------------------------------------------------------------------------------------
# CUDA


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("model", MODELS)
def test_cuda_waits_for_no_number(model, dtype, optimizer):
    """PyTorch itself refuses each call that waits for the device; the event of the figures is none
    of them."""
    step = make_step(
        f"model={model}", "device=cuda", f"optim={optimizer}", *MODELS[model], dtype=dtype
    )
    losses = [step.update()["loss"] for _ in range(3)]
    torch.cuda.set_sync_debug_mode("error")
    try:
        losses += [step.update()["loss"] for _ in range(3)]
    finally:
        torch.cuda.set_sync_debug_mode("default")
    step.settle()
    assert all(map(math.isfinite, losses)) and step.metrics.updates == 6


@pytest.mark.parametrize("model", ["transformer_tiny", "bahdanau"])
def test_r_drop_reads_each_pair_twice(model):
    """Its divergence makes the gradient another one."""
    gradients = []
    for weight in (1e-9, 5):
        step = make_step(f"model={model}", f"train.r_drop={weight}")
        _, batch = next(step.stream)
        rows: list[int] = []
        step.model.register_forward_pre_hook(
            lambda _, inputs, rows=rows: rows.append(len(inputs[0]))
        )
        assert math.isfinite(step.backward(0, batch, batch.tokens)) and rows == [
            2 * len(batch.source)
        ]
        gradients.append(
            torch.cat(
                [each.grad.flatten() for each in step.model.parameters() if each.grad is not None]
            )
        )
    assert not torch.allclose(*gradients, rtol=0.01, atol=1e-5)

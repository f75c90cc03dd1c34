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
from corpora import compose_one
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from nmt.config.schema import Config
from nmt.data.batches import Batch, Cursor, collate, split_batch
from nmt.data.tokenizer import EOS, PAD
from nmt.models.base import DecoderOutput
from nmt.models.build import build
from nmt.training import state as state_module
from nmt.training.distributed import OrderedSum, World
from nmt.training.optimizers import make_optimizer
from nmt.training.state import MAX_SKIPPED, TrainingDiverged, TrainState
from nmt.training.train_step import PendingUpdate, TrainMetrics, TrainStep

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

    def batch(self, cursor: Cursor) -> Batch:
        position = cursor.position
        random = np.random.default_rng(position % self.different)
        sizes = self.shapes[position % len(self.shapes)]
        return collate(
            *([random.integers(EOS + 1, VOCABULARY, size) for size in side] for side in sizes)
        )

    def stream(
        self, cursor: Cursor, *_: object, pinned: bool = False
    ) -> Iterator[tuple[Cursor, Batch]]:
        while True:
            batch = self.batch(cursor)
            yield cursor, batch.map(Tensor.pin_memory) if pinned else batch
            cursor = self.skip(cursor, 1)

    def skip(self, cursor: Cursor, count: int) -> Cursor:
        return cursor._replace(position=cursor.position + count)

    def describe_batch(self, cursor: Cursor) -> str:
        return f"batch {cursor.position}"


@cache
def composed(words: tuple[str, ...]) -> Config:
    return compose_one(*WORDS, *words)


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
READING = "item nonzero cpu tolist __bool__ __int__ __float__ __index__".split()
WITHOUT_DROPOUT = ["model=transformer_tiny", "model.dropout=0", "model.attention_dropout=0"]


def gradients(step: TrainStep, batches: list[Batch]) -> list[Tensor | None]:
    """Those of these batches as an update."""
    step.add_gradients(batches, sum(batch.tokens for batch in batches))
    return [parameter.grad for parameter in step.model.parameters()]


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
    for name in READING:
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
    assert all(map(torch.equal, weights, later_weights))
    assert (state, metrics) == (later_state, later_metrics)
    assert metrics["diverged"] == (len(useless) > MAX_SKIPPED)
    assert metrics["updates"] == 10 - len(useless)


@pytest.fixture
def process_group() -> Iterator[None]:
    """A group of one process, which exchanges gradients with itself."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("process_group")
def test_an_update_that_is_given_up_leaves_no_gradients():
    """Its batches come again; with several processes they were added a second time."""
    found = []
    for given_up in (False, True):
        step = make_step(*WITHOUT_DROPOUT)
        step.gradient_sum = OrderedSum(step.model.parameters(), World())
        batches = [step.batches.batch(Cursor(0, 0, number)) for number in range(2)]
        if given_up:
            numbers = torch.tensor([math.nan, math.nan, 1.0])  # skipped
            step.pending = PendingUpdate(
                numbers, limit=math.inf, loss_scale=1.0, tokens=1, padding=0.0, last=Cursor(0, 0, 0)
            )
            step.state.skipped = [0] * MAX_SKIPPED
            with pytest.raises(TrainingDiverged):
                step.update()
            for (_, again), batch in zip(step.waiting, batches, strict=True):
                assert torch.equal(again.source, batch.source)
        gradients(step, batches)
        step.gradient_sum.finish()
        found.append([each.grad for each in step.model.parameters()])
    assert all(map(torch.equal, *found))


def test_the_batches_of_an_update_are_one_batch():
    """The loss is a mean over target tokens, not over batches: those of one long and of four short
    sentences."""
    random = np.random.default_rng(1)
    lengths = (20, 2, 3, 2, 3)
    sides = [[random.integers(EOS + 1, VOCABULARY, size) for size in lengths] for _ in range(2)]
    parts = [collate(*(side[rows] for side in sides)) for rows in (slice(0, 1), slice(1, None))]
    separate, together = (
        gradients(make_step(*WITHOUT_DROPOUT), batches) for batches in (parts, [collate(*sides)])
    )
    torch.testing.assert_close(separate, together, atol=1e-6, rtol=1e-4)


def test_the_figures_of_an_update_are_those_of_its_batches(monkeypatch):
    """The third update of a schedule that warms up for five; the norm is that before clipping."""
    words = [*WITHOUT_DROPOUT, "optim.clip_norm=0.1"]
    step = make_step(*words)
    step.state.step = 12
    step.state.schedule_start = 10
    step.state.warmup_steps = 5
    batches = [step.batches.batch(Cursor(0, 0, number)) for number in range(2)]
    model = make_step(*words).model.eval()
    nll = 0.0
    for batch in batches:
        logits = model.logits(model(batch.source, batch.mask, batch.target).hidden).flatten(0, 1)
        output = batch.output.flatten()
        nll += functional.cross_entropy(logits, output, ignore_index=PAD, reduction="sum").item()
    norm = torch.stack([each.norm() for each in gradients(make_step(*words), batches)]).norm()
    norms = []
    real = step.optimizer.step

    def note_norm() -> None:
        every = [parameter.grad.norm() for parameter in step.model.parameters()]
        norms.append(torch.stack(every).norm().item())
        real()

    monkeypatch.setattr(step.optimizer, "step", note_norm)
    shown = step.update()
    tokens = sum(batch.tokens for batch in batches)
    assert step.metrics.sums() == pytest.approx(
        {
            "nll": nll,
            "tokens": tokens,
            "padding": sum(batch.padding for batch in batches) / 2,
            "gradient_norm": norm.item(),
            "updates": 1,
        },
        rel=1e-5,
    )
    peak = step.config.optim.lr
    assert shown == pytest.approx({"loss": nll / tokens, "lr": peak * 3 / 5}, rel=1e-5)
    assert norms == [pytest.approx(0.1, rel=1e-4)] and norm > 0.1
    assert (step.state.step, step.state.position, step.state.tokens) == (13, 2, tokens)
    assert step.positions == sum(each.source.numel() + each.output.numel() for each in batches)


@pytest.mark.parametrize("schedule", ["linear", "cosine", "constant"])
def test_the_learning_rate_stays_at_its_peak_while_the_length_is_not_known(schedule):
    """Minutes have not been converted into updates yet."""
    step = make_step(*WITHOUT_DROPOUT, f"optim.schedule={schedule}")
    step.state.total_steps = None
    step.state.step = 5000
    assert step.update()["lr"] == pytest.approx(step.config.optim.lr, rel=1e-4)


def test_points_of_the_curves_by_hand(monkeypatch):
    """After an interruption the sums go on, and the speed is that of the new tokens."""
    monkeypatch.setattr("time.monotonic", lambda: 4.0)
    metrics = TrainMetrics(6.0, 3, padding=0.5, gradient_norm=8.0, updates=2, started=0.0)
    point = {
        "loss/train": 2.0,
        "perplexity/train": math.exp(2),
        "optim/learning_rate": 0.1,
        "optim/gradient_norm": 4.0,
        "speed/target_tokens_per_second": 0.75,
        "speed/padding_fraction": 0.25,
    }
    assert metrics.scalars(0.1, torch.device("cpu")) == point
    continued = TrainMetrics.from_sums(metrics.sums())
    continued.started = 2.0
    continued.tokens += 5
    continued.nll += 10
    scalars = continued.scalars(0.1, torch.device("cpu"))
    assert scalars == point | {"speed/target_tokens_per_second": 2.5}


SIZES_OF_ROWS = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=9)


@given(SIZES_OF_ROWS, st.integers(1, 9))
def test_the_parts_of_a_batch_have_its_rows_in_order(lengths, parts):
    sides = [[np.full(size, EOS + 1) for size in side] for side in zip(*lengths, strict=True)]
    batch = collate(*sides)
    batch = batch._replace(links=torch.rand(*batch.output.shape, batch.source.size(1)))
    found = list(split_batch(batch, parts))
    sizes = [len(part.source) for part in found]
    assert len(found) <= parts and max(sizes) == -(-len(lengths) // parts)
    rows = 0
    for part in found:
        here = slice(rows, rows + len(part.source))
        rows = here.stop
        for name in ("source", "target", "output", "links"):
            assert torch.equal(getattr(part, name), getattr(batch, name)[here])
        mask = part.source != PAD if part.mask is None else part.mask
        assert torch.equal(mask, batch.source[here] != PAD)
        assert part.source_tokens == mask.sum()
        is_token = (part.output != PAD).flatten()
        assert part.tokens == is_token.sum() and (part.real is None) == bool(is_token.all())
        assert part.real is None or torch.equal(part.real, is_token.nonzero()[:, 0])
    assert rows == len(lengths)


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


@both_devices
def test_float16_learns_as_float32_does(device):
    """Gradients of a scaled loss are divided by its scale again, with any number of tokens."""
    steps = []
    for dtype in (torch.float32, torch.float16):
        step = make_step(*WITHOUT_DROPOUT, f"device={device}", dtype=dtype)
        for _ in range(3):
            step.update()
        step.settle()
        steps.append(step)
    full, half = steps
    assert half.state.loss_scale == 2**16 and full.state.loss_scale == 0
    assert half.state.loss_mean == pytest.approx(full.state.loss_mean, rel=1e-3)
    assert half.metrics.gradient_norm == pytest.approx(full.metrics.gradient_norm, rel=0.01)


@both_devices
def test_gradients_that_overflow_float16_lower_the_scale(device, monkeypatch):
    """Their updates are skipped, but are no fault of the training; later the scale grows again."""
    monkeypatch.setattr(state_module, "UPDATES_BEFORE_DOUBLING", 5)
    step = make_step(*WITHOUT_DROPOUT, f"device={device}", dtype=torch.float16)
    largest = 2**14

    def overflow(gradient: Tensor) -> Tensor:
        return gradient * (math.inf if step.state.loss_scale > largest else 1)

    step.model.output.weight.register_hook(overflow)
    before = step.model.output.weight.clone()
    step.update()
    step.settle()
    assert torch.equal(before, step.model.output.weight)
    while step.state.loss_scale > largest:
        step.update()
    step.settle()
    assert step.state.step <= 4 and step.state.loss_scale == largest and not step.state.skipped
    largest *= 2
    for _ in range(7):
        step.update()
    step.settle()
    assert step.state.loss_scale == largest and not step.state.skipped
    assert not torch.equal(before, step.model.output.weight)


def test_a_scale_changes_at_the_same_update_on_a_gpu_and_after_an_interruption():
    """There an update is read after the next one has been queued."""
    scales = []
    for runs_ahead, is_interrupted in ((False, False), (True, False), (True, True)):
        step = make_step(*WITHOUT_DROPOUT, dtype=torch.float16)
        step.runs_ahead = runs_ahead
        step.model.output.weight.register_hook(
            lambda gradient, step=step: gradient * (math.inf if step.state.step == 1 else 1)
        )
        used = []
        for _ in range(5):
            used.append(step.state.loss_scale)
            step.update()
            if is_interrupted:
                step.settle()  # as before each checkpoint
        scales.append(used)
    assert scales[0] == scales[1] == scales[2] == [2**16] * 3 + [2**15] * 2


def test_a_scale_that_is_too_small_is_a_fault():
    step = make_step(*WITHOUT_DROPOUT, dtype=torch.float16)
    step.state.loss_scale = step.state.next_loss_scale = 1.0
    step.model.output.weight.register_hook(lambda gradient: gradient * math.inf)
    step.update()
    assert step.state.skipped == [1]


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
    wanted = make_step(*WITHOUT_DROPOUT)
    step = make_step(*WITHOUT_DROPOUT)
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
    found = []
    for weight in (1e-9, 5):
        step = make_step(f"model={model}", f"train.r_drop={weight}")
        batch = step.batches.batch(Cursor(0, 0, 0))
        rows: list[int] = []
        step.model.register_forward_pre_hook(
            lambda _, inputs, rows=rows: rows.append(len(inputs[0]))
        )
        found.append(torch.cat([each.flatten() for each in gradients(step, [batch])]))
        assert rows == [2 * len(batch.source)] and found[-1].isfinite().all()
    assert not torch.allclose(*found, rtol=0.01, atol=1e-5)


@pytest.mark.parametrize("guided", [0.0, 0.5])
def test_without_dropout_r_drop_changes_nothing(guided):
    """Two equal predictions have no divergence, and the mean of two equal losses is one of them."""
    found = []
    for weight in (0.0, 5.0):
        step = make_step(*WITHOUT_DROPOUT, f"train.guided_alignment={guided}")
        step.config.train.r_drop = weight  # on the command line it would be refused
        step.model.guided = guided > 0
        batch = step.batches.batch(Cursor(0, 0, 0))
        if guided:
            shape = (*batch.target.shape, batch.source.size(1))
            links = torch.rand(shape, generator=torch.Generator().manual_seed(1))
            batch = batch._replace(links=links)
        [nll] = step.add_gradients([batch], batch.tokens)
        found.append([nll, *(parameter.grad for parameter in step.model.parameters())])
    torch.testing.assert_close(*found, atol=1e-5, rtol=1e-4)

"""An update takes as many threads as are fastest at the time, and its gradients do not depend on
how many."""

from types import SimpleNamespace

import pytest
import torch
from corpora import RECURRENT
from test_train_step import MODELS, make_step
from torch import Tensor, nn
from torch.testing import assert_close

from nmt.attention.cpu import backward_in_one_thread
from nmt.data.batches import Batch, Cursor
from nmt.models.layers import LayerNorm
from nmt.training.threads import ThreadChoice, faster_dtype, thread_choices
from nmt.training.train_step import TrainStep

# --------------------------------------------------------------------------------------------------
# The numbers to choose from


class Passes:
    """Takes the place of `TrainStep.add_gradients`.

    A pass takes seconds[threads], and the very first one a minute more. Its loss or its gradient
    is another one with `different` threads; with `failing` threads it fails.
    """

    seconds = {1: 3.0, 2: 2.0, 4: 5.0}

    def __init__(self, step: TrainStep, monkeypatch: pytest.MonkeyPatch) -> None:
        self.weight = step.model.output.weight
        self.batches: list[Batch] = []
        self.now = 0.0
        self.where = ""
        self.different = 0
        self.failing = 0
        monkeypatch.setattr("time.monotonic", lambda: self.now)
        monkeypatch.setattr(step, "add_gradients", self.add_gradients)

    def add_gradients(self, batches: list[Batch], tokens: int) -> list[Tensor]:
        threads = torch.get_num_threads()
        if threads == self.failing:
            raise ArithmeticError
        self.now += self.seconds[threads] + (0 if self.batches else 60)
        self.batches += batches
        if self.weight.grad is None:
            self.weight.grad = torch.zeros_like(self.weight)
        self.weight.grad += 1  # in place, as PyTorch does
        loss = torch.zeros(1)
        if threads == self.different:
            (loss if self.where == "loss" else self.weight.grad).add_(1e-7)
        return [loss]


@pytest.fixture
def step() -> TrainStep:
    torch.set_num_threads(4)
    step = make_step("model=bahdanau_hard", *MODELS["bahdanau_hard"])
    step.state.position = 5
    return step


@pytest.mark.parametrize("where", ["loss", "gradient"])
@pytest.mark.parametrize("different", [0, 1, 2, 4])
def test_threads_are_chosen_from_where_the_next_batch_has_the_same_bits_with_each_number(
    step, monkeypatch, where, different
):
    """Only PyTorch's number stays where one of them gives other bits, and nothing else changes."""
    passes = Passes(step, monkeypatch)
    passes.where = where
    passes.different = different
    assert thread_choices(step) == ({4: 0.0} if different else Passes.seconds)
    assert torch.get_num_threads() == 4
    assert all(parameter.grad is None for parameter in step.model.parameters())
    wanted = step.batches.batch(Cursor(0, 0, 5))
    assert all(torch.equal(batch.source, wanted.source) for batch in passes.batches)


def test_a_trial_that_fails_leaves_the_number_of_threads(step, monkeypatch):
    Passes(step, monkeypatch).failing = 2
    with pytest.raises(ArithmeticError):
        thread_choices(step)
    assert torch.get_num_threads() == 4


def test_one_thread_and_several_processes_have_no_choice(step):
    step.world = SimpleNamespace(size=2)
    assert thread_choices(step) == {4: 0.0}
    step.world = SimpleNamespace(size=1)
    torch.set_num_threads(1)
    assert thread_choices(step) == {1: 0.0}


@pytest.mark.parametrize(
    ("bf16", "float32", "wanted"),
    [(1.0, 2.0, torch.bfloat16), (2.0, 1.0, torch.float32), (0.95, 1.0, torch.float32)],
)
def test_the_faster_number_format_is_chosen(step, monkeypatch, bf16, float32, wanted):
    """By the next batch, without its first pass; float32 where they are nearly equal."""
    passes = Passes(step, monkeypatch)
    step.dtype = torch.bfloat16
    seconds = {torch.bfloat16: bf16, torch.float32: float32}

    def add_gradients(batches: list[Batch], tokens: int) -> list[Tensor]:
        passes.now += seconds[step.dtype] + (0 if len(passes.batches) > 1 else 60)
        passes.batches += batches
        return []

    monkeypatch.setattr(step, "add_gradients", add_gradients)
    assert faster_dtype(step) == wanted
    assert step.dtype == torch.bfloat16, "the caller decides"
    assert torch.equal(passes.batches[0].source, step.batches.batch(Cursor(0, 0, 5)).source)


def test_the_number_format_is_not_tried_for_large_models_and_several_processes(step, monkeypatch):
    step.dtype = torch.bfloat16
    monkeypatch.setattr(step, "add_gradients", lambda *_: pytest.fail("it is tried"))
    step.world = SimpleNamespace(size=2)
    assert faster_dtype(step) == torch.bfloat16
    step.world = SimpleNamespace(size=1)
    monkeypatch.setattr("nmt.training.threads.MOST_PARAMETERS", 1)
    assert faster_dtype(step) == torch.bfloat16


# --------------------------------------------------------------------------------------------------
# The choice


class Updates:
    """Updates of different sizes, of which a position takes seconds[threads], and now and then a
    tenth more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.device = torch.device("cpu")
        self.now = 0.0
        self.used: list[int] = []
        self.seconds: dict[int, float] = {}
        monkeypatch.setattr("time.monotonic", lambda: self.now)

    def update(self) -> dict[str, float]:
        number = len(self.used)
        self.used.append(torch.get_num_threads())
        self.positions = 1 + number % 7
        disturbed = 1.1 if number % 5 == 0 else 1
        self.now += self.seconds[self.used[-1]] * self.positions * disturbed
        return {"loss": number}

    def run(self, choice: ThreadChoice, count: int, seconds: dict[int, float]) -> list[int]:
        """The number of threads of each update."""
        self.seconds = seconds
        self.used = []
        shown = [choice.update(self) for _ in range(count)]  # type: ignore[arg-type]
        assert shown == [{"loss": number} for number in range(count)]
        return self.used


@pytest.fixture
def updates(monkeypatch) -> Updates:
    return Updates(monkeypatch)


QUIET = {1: 1.0, 2: 0.5, 4: 0.25}
SHARED = {1: 1.0, 2: 1.5, 4: 3.0}
VERY_SHARED = {1: 0.15, 2: 2.0}


@pytest.mark.parametrize(
    "estimates, phases",
    [
        ({1: 1.0, 2: 1.1, 4: 1.2}, [(2000, QUIET, 0.06), (600, SHARED, 0.06), (600, QUIET, 0.7)]),
        (VERY_SHARED, [(1000, VERY_SHARED, 0.03)]),
    ],
    ids=["changes", "busy from the start"],
)
def test_the_fastest_number_of_threads_is_found_and_trials_take_little_time(
    updates, estimates, phases
):
    torch.set_num_threads(max(estimates))
    with ThreadChoice(estimates) as choice:
        assert torch.get_num_threads() == min(estimates, key=estimates.get)
        for count, seconds, lost in phases:
            used = updates.run(choice, count, seconds)
            fastest = min(seconds.values())
            assert seconds[used[-1]] == fastest
            assert sum(seconds[threads] for threads in used) < (1 + lost) * count * fastest
    assert torch.get_num_threads() == max(estimates)


def test_a_number_that_is_not_clearly_faster_is_tried_more_and_more_rarely(updates):
    torch.set_num_threads(2)
    with ThreadChoice({1: 1.0, 2: 0.9}) as choice:
        used = updates.run(choice, 1000, {1: 0.97, 2: 1.0})
    assert used[-1] == 2
    assert used.count(1) < 100


def test_where_bits_depend_on_threads_their_number_stays(updates, caplog):
    with ThreadChoice({2: 0.0}) as choice, caplog.at_level("WARNING", logger="nmt"):
        assert set(updates.run(choice, 100, {2: 1.0})) == {2}
        assert not caplog.text
        assert set(updates.run(choice, 100, {2: 3.0})) == {2}
    assert caplog.text.count("OMP_NUM_THREADS=1") == 1


def test_threads_are_not_what_makes_a_gpu_slow(updates, caplog):
    updates.device = torch.device("cuda")
    with ThreadChoice({2: 0.0}) as choice, caplog.at_level("WARNING", logger="nmt"):
        updates.run(choice, 100, {2: 1.0})
        updates.run(choice, 100, {2: 3.0})
    assert not caplog.text


class Ended(BaseException):
    """The training has seen enough."""


def test_a_training_begins_with_the_fastest_number(train, monkeypatch):
    torch.set_num_threads(1)
    used = []

    def update(step: TrainStep) -> None:
        used.append(torch.get_num_threads())
        raise Ended

    monkeypatch.setattr(TrainStep, "update", update)
    monkeypatch.setattr(
        "nmt.training.trainer.thread_choices", lambda step: {1: 2.0, 2: 1.0, 3: 2.0}
    )
    with pytest.raises(Ended):
        train("threads", *RECURRENT, "data.test=null", "train.max_steps=2")
    assert used == [2] and torch.get_num_threads() == 3


# --------------------------------------------------------------------------------------------------
# The same bits


def layer_norms() -> tuple[nn.Module, nn.Module, Tensor]:
    ours = LayerNorm(24)
    theirs = nn.LayerNorm(24)
    nn.init.normal_(ours.weight)
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs, torch.randn(40, 30, 24)


class Softmax(nn.Module):
    def forward(self, scores: Tensor) -> Tensor:
        return scores.softmax(-1, dtype=torch.float32)


class OurSoftmax(Softmax):
    def forward(self, scores: Tensor) -> Tensor:
        return backward_in_one_thread(super().forward(scores))


def softmaxes() -> tuple[nn.Module, nn.Module, Tensor]:
    return OurSoftmax(), Softmax(), torch.randn(50, 4, 21, 21)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("make", [layer_norms, softmaxes])
def test_gradients_are_pytorchs_with_the_same_bits_in_any_number_of_threads(make, dtype):
    ours, theirs, inputs = make()
    inputs = inputs.to(dtype)
    gradient = torch.randn(inputs.shape)
    found = []
    for layer, threads in ((ours, 1), (ours, 2), (ours, 3), (theirs, 1)):
        torch.set_num_threads(threads)
        given = inputs.clone().requires_grad_()
        outputs = layer(given)
        wanted = [given, *layer.parameters()]
        gradients = torch.autograd.grad(outputs, wanted, gradient.to(outputs.dtype))
        assert torch.get_num_threads() == threads
        found.append([outputs.detach(), *gradients])
    for one, two, three, other in zip(*found, strict=True):
        assert torch.equal(one, two) and torch.equal(one, three)
        assert_close(one, other)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_training_has_the_same_bits_with_any_number_of_threads_that_is_chosen_from(dtype):
    """A machine whose products depend on the number of threads has no choice; the others must keep
    the bits."""
    weights = []
    for threads in (2, 1):
        torch.set_num_threads(2)
        step = make_step("model=transformer_tiny", dtype=dtype)
        if threads not in thread_choices(step):
            pytest.skip("products depend on the number of threads here")
        torch.set_num_threads(threads)
        for _ in range(2):
            step.update()
        weights.append([each.detach() for each in step.model.parameters()])
    assert all(map(torch.equal, *weights))

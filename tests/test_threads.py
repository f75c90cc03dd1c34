"""An update takes as many threads as are fastest at the time, and its gradients do not depend on
how many."""

from collections.abc import Callable, Iterator

import pytest
import torch
from test_train_step import make_step, without_memory
from torch import nn
from torch.testing import assert_close

from nmt.attention.cpu import backward_in_one_thread
from nmt.models.layers import LayerNorm
from nmt.training.threads import ThreadChoice, thread_choices


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def run(choice: ThreadChoice, updates: int, seconds: Callable[[int], float]) -> list[int]:
    """The number of threads of each update, which takes seconds(threads), and now and then a tenth
    more."""
    used = []
    for number in range(updates):
        used.append(torch.get_num_threads())
        choice.after_update(seconds(used[-1]) * (1.1 if number % 5 == 0 else 1), 1)
    return used


def test_the_fastest_number_of_threads_is_found_and_found_again():
    with ThreadChoice({1: 1.0, 2: 1.1, 4: 1.2}) as choice:
        quiet = run(choice, 2000, lambda threads: 1 / threads)
        assert quiet[-1] == 4 and quiet.count(4) > 1900
        shared = run(choice, 600, {4: 3.0, 2: 1.5, 1: 1.0}.get)
        # trials that are clearly slower end early
        assert shared.index(1) < 60 and shared.count(1) > 540
        assert shared.count(4) < 40
        quiet = run(choice, 600, lambda threads: 1 / threads)
        assert quiet[-1] == 4 and quiet.count(4) > 200
    assert torch.get_num_threads() == 4


def test_a_training_that_begins_beside_a_busy_process_loses_little():
    """An update of two threads takes thirteen times as long: of 1,000 updates' time at most 3 %
    goes to trials."""
    with ThreadChoice({1: 0.15, 2: 2.0}) as choice:
        used = run(choice, 1000, {1: 0.15, 2: 2.0}.get)
    assert used[0] == used[-1] == 1
    assert used.count(2) * 2.0 < 0.03 * 1000 * 0.15


def test_a_first_batch_that_does_not_fit_is_made_in_parts():
    """As in an update."""
    torch.set_num_threads(2)
    step = make_step("model=transformer_tiny")
    tried = without_memory(step, most=2)
    assert max(thread_choices(step)) == 2
    assert step.parts > 1 and max(tried[-3:]) == 2


def test_where_bits_depend_on_threads_their_number_stays(caplog):
    with ThreadChoice({2: 0.0}) as choice, caplog.at_level("WARNING", logger="nmt"):
        assert set(run(choice, 100, lambda threads: 1.0)) == {2} and not caplog.text
        assert set(run(choice, 100, lambda threads: 3.0)) == {2}
    assert caplog.text.count("OMP_NUM_THREADS=1") == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_layer_norm_is_pytorchs_with_the_same_bits_in_any_number_of_threads(dtype):
    torch.manual_seed(1)
    ours = LayerNorm(24)
    theirs = nn.LayerNorm(24)
    nn.init.normal_(ours.weight)
    theirs.load_state_dict(ours.state_dict())
    inputs = torch.randn(40, 30, 24).to(dtype)
    gradient = torch.randn(40, 30, 24).to(dtype)
    found = []
    for norm, threads in ((ours, 1), (ours, 2), (ours, 3), (theirs, 1)):
        torch.set_num_threads(threads)
        given = inputs.clone().requires_grad_()
        outputs = norm(given)
        found.append(
            [
                outputs.detach(),
                *torch.autograd.grad(outputs, [given, norm.weight, norm.bias], gradient),
            ]
        )
    for one, two, three, other in zip(*found, strict=True):
        assert torch.equal(one, two) and torch.equal(one, three)
        assert_close(one, other)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_softmax_is_pytorchs_with_the_same_bits_in_any_number_of_threads(dtype):
    torch.manual_seed(1)
    scores = torch.randn(50, 4, 21, 21).to(dtype)
    gradient = torch.randn(50, 4, 21, 21)
    found = []
    ours = backward_in_one_thread
    for function, threads in ((ours, 1), (ours, 2), (ours, 3), (lambda weights: weights, 1)):
        torch.set_num_threads(threads)
        given = scores.clone().requires_grad_()
        weights = function(given.softmax(-1, dtype=torch.float32))
        found.append([weights.detach(), *torch.autograd.grad(weights, given, gradient)])
    for one, two, three, other in zip(*found, strict=True):
        assert torch.equal(one, two) and torch.equal(one, three)
        assert_close(one, other)


def test_a_training_has_the_same_bits_with_any_number_of_threads_that_is_chosen_from():
    """A machine whose products depend on the number of threads has no choice; the others must keep
    the bits."""
    weights = []
    for threads in (2, 1):
        torch.set_num_threads(2)
        step = make_step("model=transformer_tiny", dtype=torch.bfloat16)
        choices = list(thread_choices(step))
        assert choices in ([1, 2], [2]) and torch.get_num_threads() == 2
        assert all(parameter.grad is None for parameter in step.model.parameters())
        if choices == [2]:
            pytest.skip("products depend on the number of threads here")
        torch.set_num_threads(threads)
        for _ in range(4):
            step.update()
        weights.append([each.detach().clone() for each in step.model.parameters()])
    assert all(torch.equal(one, other) for one, other in zip(*weights, strict=True))

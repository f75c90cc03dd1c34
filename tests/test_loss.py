"""The loss in chunks against PyTorch's own, and by hand."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.testing import assert_close

from nmt.training import loss
from nmt.training.loss import token_losses

PAD = 0
TOLERANCE = {torch.float64: 1e-10, torch.float32: 2e-5}


def case(bias: bool, dtype: torch.dtype, scale: float = 1.0) -> tuple[Tensor, nn.Linear, Tensor]:
    """Ten tokens, two of them padding, over eleven pieces."""
    torch.manual_seed(1)
    hidden = torch.randn(2, 5, 6, dtype=dtype) * scale
    output = nn.Linear(6, 11, bias=bias, dtype=dtype)
    target = torch.randint(1, 11, (2, 5))
    target[1, 3:] = PAD
    return hidden.requires_grad_(), output, target


def places(target: Tensor) -> Tensor:
    """Those of all tokens but padding, as `collate` finds them."""
    return (target.flatten() != PAD).nonzero().squeeze(1)


def results(hidden: Tensor, output: nn.Linear, total: Tensor) -> list[Tensor]:
    """The loss and its gradients, times 3 so that the backward pass has something to scale."""
    return [total.detach(), *torch.autograd.grad(3 * total, [hidden, *output.parameters()])]


@pytest.mark.parametrize("divergence", [0.0, 5.0])
@pytest.mark.parametrize(
    "chunk,elements,smoothing,bias",
    [(2, 33, 0.1, True), (4, 66, 0.0, True), (4, 0, 0.1, False), (256, 2**24, 0.1, True)],
)
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_loss_and_gradients_are_pytorchs(
    monkeypatch, chunk, elements, smoothing, bias, dtype, divergence
):
    """Over eleven pieces, in one chunk or several, with gradients of one, two or all chunks at
    once. R-Drop: two rows of hidden for each row of target; the loss of Liang 2021 by kl_div."""
    monkeypatch.setitem(loss.CHUNK_TOKENS, "cpu", chunk if divergence else chunk - 1)
    monkeypatch.setattr(loss, "GRADIENT_ELEMENTS", elements)
    hidden, output, target = case(bias, dtype)
    if divergence:
        hidden = torch.randn(4, 5, 6, dtype=dtype, requires_grad=True)
    total, nll = token_losses(hidden, output, target, places(target), smoothing, divergence)

    tokens = target.flatten()[places(target)]
    copies = hidden[::2], hidden[1::2]
    predictions = [
        functional.log_softmax(output(each).flatten(0, 1)[places(target)], 1)
        for each in (copies if divergence else [hidden])
    ]
    expected = sum(
        functional.cross_entropy(each, tokens, label_smoothing=smoothing, reduction="sum")
        for each in predictions
    )
    for one, other in (predictions, predictions[::-1]) if divergence else ():
        kl = functional.kl_div(one, other, reduction="sum", log_target=True)
        expected = expected + divergence / 2 * kl
    tolerance = {"atol": 10 * TOLERANCE[dtype], "rtol": 0}
    assert_close(results(hidden, output, total), results(hidden, output, expected), **tolerance)
    expected_nll = torch.stack([-each.gather(1, tokens[:, None]) for each in predictions], 1)
    assert_close(nll, expected_nll.flatten().detach(), **tolerance)
    assert not nll.requires_grad


@pytest.mark.gpu
@pytest.mark.parametrize("smoothing,bias", [(0.1, True), (0.0, False)])
def test_the_compiled_loss_of_a_gpu_is_that_of_a_cpu(monkeypatch, smoothing, bias):
    """In several chunks."""
    monkeypatch.setattr(loss, "COMPILED_ELEMENTS", 0)
    monkeypatch.setitem(loss.CHUNK_TOKENS, "cuda", 3)
    hidden, output, target = case(bias, torch.float32)
    expected_loss, expected_nll = token_losses(hidden, output, target, places(target), smoothing)
    expected = results(hidden, output, expected_loss)

    hidden = hidden.detach().cuda().requires_grad_()
    output = output.cuda()
    target = target.cuda()
    total, nll = token_losses(hidden, output, target, places(target), smoothing)
    found = [each.cpu() for each in results(hidden, output, total)]
    assert_close(found, expected, atol=1e-4, rtol=0)
    assert_close(nll.cpu(), expected_nll, atol=1e-4, rtol=0)
    assert not loss.given_up


@pytest.mark.parametrize("is_possible", [True, False])
@pytest.mark.parametrize("smoothing,bias", [(0.1, True), (0.0, False)])
def test_compiled_chunks_add_up_to_the_loss(monkeypatch, caplog, smoothing, bias, is_possible):
    """Also where compiling fails: then the function is called as it is, and not compiled again."""

    def fails(*_: object) -> None:
        raise torch._dynamo.exc.FailOnRecompileLimitHit("no compiler")

    hidden, output, target = case(bias, torch.float64)
    expected, expected_nll = token_losses(hidden, output, target, places(target), smoothing)
    expected_results = results(hidden, output, expected)

    monkeypatch.setattr(loss, "given_up", False)
    monkeypatch.setattr(loss, "is_worth_compiling", lambda weight, tokens: True)
    monkeypatch.setitem(loss.CHUNK_TOKENS, "cuda", 3)
    compiled = loss.softmax_gradient if is_possible else fails
    monkeypatch.setattr(loss, "compiled_softmax_gradient", lambda: compiled)
    total, nll = token_losses(hidden, output, target, places(target), smoothing)
    assert_close(results(hidden, output, total), expected_results, atol=1e-9, rtol=0)
    assert_close(nll, expected_nll, atol=1e-9, rtol=0)
    assert loss.given_up == (not is_possible)
    assert caplog.text.count("no compiler") == (not is_possible), "said once, for three chunks"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_extreme_logits_are_finite(dtype):
    """Logits 10⁴, −10⁴, 0: right, 2 · 10⁴ off, 10⁴ off; gradients are softmax − onehot. Smoothed
    ones are finite."""
    output = nn.Linear(3, 3, bias=False, dtype=dtype)
    output.weight.data = torch.eye(3, dtype=dtype)
    hidden = torch.tensor([1e4, -1e4, 0.0], dtype=dtype).expand(1, 3, 3).clone().requires_grad_()
    total, nll = token_losses(hidden, output, torch.tensor([[0, 1, 2]]), None, 0.0)
    big = hidden[0, 0, 0].item()  # 10⁴ as bf16 writes it
    assert total.item() == nll.sum().item() == 3 * big
    total.backward()
    assert hidden.grad[0].tolist() == [[0, 0, 0], [1, -1, 0], [1, 0, -1]]
    hidden, output, target = case(True, torch.float32, scale=1e4)
    total, nll = token_losses(hidden, output, target, places(target), 0.1)
    assert all(value.isfinite().all() for value in [nll, *results(hidden, output, total)])


def test_autocast_computes_in_bf16_and_adds_up_in_float32():
    hidden, output, target = case(True, torch.float32)
    exact = results(hidden, output, token_losses(hidden, output, target, places(target), 0.1)[0])
    with torch.autocast("cpu", torch.bfloat16):
        low = results(hidden, output, token_losses(hidden, output, target, places(target), 0.1)[0])
    assert all(value.dtype == torch.float32 for value in low)
    assert_close(low, exact, atol=0.1, rtol=0.02)
    assert not torch.equal(low[1], exact[1])


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("smoothing", "divergence"), [(0.0, 0.0), (0.1, 0.0), (0.1, 5.0)])
def test_the_sampled_softmax_of_all_pieces_is_the_softmax(bias, smoothing, divergence):
    hidden, output, target = case(bias, torch.float64)
    if divergence:
        hidden = torch.randn(4, 5, 6, dtype=torch.float64, requires_grad=True)
    arguments = (hidden, output, target, places(target), smoothing, divergence)
    total, nll = token_losses(*arguments)
    wanted = [nll, *results(hidden, output, total)]
    for sampled in (11, 10**9):
        total, nll = token_losses(*arguments, sampled)
        assert_close([nll, *results(hidden, output, total)], wanted, rtol=0, atol=1e-9)


def test_the_sampled_normalizer_is_right_on_average():
    """exp(−log p) is the normalizer, divided by the target's own exp z."""
    hidden, output, target = case(True, torch.float64)
    wanted = token_losses(hidden, output, target, places(target), 0.0)[1].exp()
    draws = []
    for seed in range(2000):
        torch.manual_seed(seed)
        draws.append(token_losses(hidden, output, target, places(target), 0.0, sampled=2)[1].exp())
    found = torch.stack(draws)
    error = found.std(0) / len(draws) ** 0.5
    assert (error > 0).all() and ((found.mean(0) - wanted).abs() < 5 * error).all()

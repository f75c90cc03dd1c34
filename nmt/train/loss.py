"""Cross entropy over the vocabulary without a full table of logits.

N tokens, D hidden size, V vocabulary.
"""

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional

CHUNK = {"cpu": 256, "cuda": 4096}  # tokens whose logits exist at the same time


class LinearCrossEntropy(Function):
    """Σ_n (1 − ε) (−log p_n) + ε mean_v (−log p_nv), p = softmax(h Wᵀ + b), in chunks of tokens.

    Its gradient, softmax − (1 − ε) onehot − ε / V, is computed in the forward pass while the chunk is in the cache;
    the backward pass only scales it. Label smoothing as in Szegedy 2016 §7, uniform over the whole vocabulary.
    """

    @staticmethod
    def forward(
        ctx: FunctionCtx, hidden: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        """hidden [N D], weight [V D], bias [V] | None, target [N] → smoothed loss and −Σ log p, both summed."""
        wanted = any(ctx.needs_input_grad[:3])  # type: ignore[attr-defined]
        kind, low = hidden.device.type, hidden.dtype
        if torch.is_autocast_enabled(kind):
            low = torch.get_autocast_dtype(kind)
        hidden_low, weight_low = hidden.to(low), weight.to(low)
        grads = [torch.empty_like(hidden), torch.zeros_like(weight), None if bias is None else torch.zeros_like(bias)]
        full = torch.promote_types(low, torch.float32)
        loss, likelihood = hidden.new_zeros((), dtype=full), hidden.new_zeros((), dtype=full)
        with torch.autocast(kind, enabled=False):
            for start in range(0, len(hidden), CHUNK.get(kind, 4096)):
                rows = slice(start, start + CHUNK.get(kind, 4096))
                logits = functional.linear(hidden_low[rows], weight_low).to(full)
                if bias is not None:
                    logits += bias
                chunk, nll = chunk_loss(logits, target[rows], smoothing)
                loss += chunk
                likelihood += nll
                if wanted:
                    slope = slope_in_place(logits, target[rows], smoothing)
                    chunk_gradients(slope, hidden_low[rows], weight_low, grads, rows)
        if wanted:
            ctx.save_for_backward(*[grad for grad in grads if grad is not None])
        ctx.mark_non_differentiable(likelihood)
        return loss, likelihood

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, slope: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        """Scale what the forward pass has computed."""
        saved = [grad.mul_(slope) for grad in ctx.saved_tensors]  # type: ignore[attr-defined]
        return saved[0], saved[1], saved[2] if len(saved) > 2 else None, None, None


def chunk_loss(logits: Tensor, target: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """The smoothed and the plain loss; `logits` [N V] becomes its softmax in place."""
    chosen = logits.gather(1, target[:, None]).squeeze(1)
    mean = logits.mean(1) if smoothing else chosen
    largest, index = logits.max(1, keepdim=True)
    torch.softmax(logits, 1, out=logits)
    normaliser = (largest - logits.gather(1, index).log()).squeeze(1)  # the largest share cannot underflow
    smoothed = normaliser - (1 - smoothing) * chosen - smoothing * mean
    return smoothed.sum(), (normaliser - chosen).sum()


def slope_in_place(softmax: Tensor, target: Tensor, smoothing: float) -> Tensor:
    """d loss / d logits."""
    if smoothing:
        softmax -= smoothing / softmax.size(1)
    correct = torch.full_like(target, 1, dtype=softmax.dtype).mul_(smoothing - 1)
    return softmax.scatter_add_(1, target[:, None], correct[:, None])


def chunk_gradients(slope: Tensor, hidden: Tensor, weight: Tensor, grads: list[Tensor | None], rows: slice) -> None:
    """Add one chunk's share to the gradients of hidden, weight and bias."""
    low = slope.to(weight.dtype)
    grad_hidden, grad_weight, grad_bias = grads
    assert grad_hidden is not None and grad_weight is not None
    grad_hidden[rows] = low @ weight
    if low.dtype == grad_weight.dtype:
        grad_weight.addmm_(low.t(), hidden)
    else:
        grad_weight += low.t() @ hidden
    if grad_bias is not None:
        grad_bias += slope.sum(0)


def cross_entropy(
    hidden: Tensor, output: torch.nn.Linear, target: Tensor, padding: int, smoothing: float
) -> tuple[Tensor, Tensor]:
    """hidden [B T D], target [B T] → smoothed loss and −Σ log p over the real tokens; padding is never computed."""
    hidden, target = hidden.flatten(0, 1), target.flatten()
    real = (target != padding).nonzero().squeeze(1)
    if len(real) < len(target):
        hidden, target = hidden[real], target[real]
    weight: Tensor = output.weight
    bias: Tensor | None = output.bias
    if not torch.is_grad_enabled():  # inside `forward` nobody can tell any more
        hidden, weight = hidden.detach(), weight.detach()
        bias = None if bias is None else bias.detach()
    return LinearCrossEntropy.apply(hidden, weight, bias, target, smoothing)

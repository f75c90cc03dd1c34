"""Cross entropy over the vocabulary without a full table of logits.

N tokens, D hidden size, V vocabulary.
"""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional

from nmt.cpu import pad_rows
from nmt.models.base import DecoderOutput, EncoderDecoder

CHUNK = {"cpu": 256, "cuda": 4096}  # tokens whose logits exist at the same time
SLOPES = 2**23  # d loss / d logits that exist at the same time, if that is more than one chunk


class LinearCrossEntropy(Function):
    """Σ_n (1 − ε) (−log p_n) + ε mean_v (−log p_nv), p = softmax(h Wᵀ + b), in chunks of tokens.

    Its gradient, softmax − (1 − ε) onehot − ε / V, is computed in the forward pass while the chunk is in the cache
    (ε / V apart, for all tokens at once), and multiplied for several chunks at once; the backward pass only scales it.
    Label smoothing as in Szegedy 2016 §7, uniform over the whole vocabulary.
    """

    @staticmethod
    def forward(
        ctx: FunctionCtx, hidden: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        """hidden [N D], weight [V D], bias [V] | None, target [N] → smoothed loss, summed, and −log p [N]."""
        wanted = any(ctx.needs_input_grad[:3])  # type: ignore[attr-defined]
        kind, low = hidden.device.type, hidden.dtype
        if torch.is_autocast_enabled(kind):
            low = torch.get_autocast_dtype(kind)
        hidden_low, weight_low = hidden.to(low), weight.to(low)
        number, hidden_low = len(hidden), pad_rows(hidden_low)
        full, chunk = torch.promote_types(low, torch.float32), CHUNK.get(kind, 4096)
        loss, nll = hidden.new_zeros((), dtype=full), hidden.new_empty(number, dtype=full)
        with torch.autocast(kind, enabled=False):
            centre = weight.mean(0, dtype=full) if smoothing else weight.new_zeros(weight.size(1), dtype=full)
            means = hidden.to(full) @ centre  # of a token's logits: mean_v (h · W_v) = h · mean_v W_v
            if bias is not None and smoothing:
                means += bias.mean(dtype=full)
            grads = uniform_gradients(hidden, weight, bias, centre, smoothing) if wanted else []
            in_slopes = wanted and low == full  # there logits become slopes where they lie
            table = hidden_low.new_empty(0 if in_slopes else min(chunk, len(hidden_low)), len(weight), dtype=full)
            for group in slices(0, len(hidden_low), chunk * max(1, SLOPES // (chunk * len(weight)))):
                slopes = hidden_low.new_empty(group.stop - group.start, len(weight)) if wanted else None
                for rows in slices(group.start, group.stop, chunk):
                    real = slice(rows.start, min(rows.stop, number))
                    kept = None if slopes is None else slopes[rows.start - group.start : rows.stop - group.start]
                    place = kept if in_slopes and kept is not None else table[: rows.stop - rows.start]
                    logits = product_into(place, hidden_low[rows], weight_low)[: real.stop - real.start]
                    if bias is not None:
                        logits += bias
                    part, nll[real] = chunk_loss(logits, target[real], means[real], smoothing)
                    loss += part
                    if kept is not None:
                        keep_slopes(kept, slope_in_place(logits, target[real], smoothing))
                if slopes is not None:
                    add_gradients(slopes, hidden_low[group], weight_low, grads, group)
        if wanted:
            ctx.save_for_backward(*[grad for grad in grads if grad is not None])
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, slope: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        """Scale what the forward pass has computed."""
        saved = [grad.mul_(slope) for grad in ctx.saved_tensors]  # type: ignore[attr-defined]
        return saved[0], saved[1], saved[2] if len(saved) > 2 else None, None, None


def slices(start: int, stop: int, step: int) -> Iterator[slice]:
    """start … stop in slices of at most `step`."""
    return (slice(first, min(first + step, stop)) for first in range(start, stop, step))


def uniform_gradients(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, centre: Tensor, smoothing: float
) -> list[Tensor | None]:
    """Those of −ε Σ_n mean_v (h_n · W_v + b_v), `centre` = mean_v W_v: to them the rest is added.

    So smoothing needs no look at all the logits.
    """
    total = hidden.sum(0, dtype=centre.dtype)
    slopes = [-smoothing * centre, -smoothing / len(weight) * total]
    grads = [slope.to(like.dtype).repeat(len(like), 1) for slope, like in zip(slopes, (hidden, weight), strict=True)]
    return [*grads, None if bias is None else torch.full_like(bias, -smoothing * len(hidden) / len(bias))]


def product_into(place: Tensor, hidden: Tensor, weight: Tensor) -> Tensor:
    """h Wᵀ, written to `place`."""
    if place.dtype == hidden.dtype:
        return torch.mm(hidden, weight.t(), out=place)
    return place.copy_(functional.linear(hidden, weight))


def chunk_loss(logits: Tensor, target: Tensor, mean: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """The smoothed loss, summed, and −log p [N]; `logits` [N V], of `mean` [N], becomes its softmax in place."""
    chosen = logits.gather(1, target[:, None]).squeeze(1)
    largest = logits.amax(1)
    torch.softmax(logits, 1, out=logits)
    normaliser = largest - logits.amax(1).log()  # the largest share cannot underflow
    smoothed = normaliser - (1 - smoothing) * chosen - smoothing * mean
    return smoothed.sum(), normaliser - chosen


def slope_in_place(softmax: Tensor, target: Tensor, smoothing: float) -> Tensor:
    """softmax − (1 − ε) onehot; the rest of d loss / d logits is in `uniform_gradients`."""
    correct = torch.full_like(target, smoothing - 1, dtype=softmax.dtype)
    return softmax.scatter_add_(1, target[:, None], correct[:, None])


def keep_slopes(place: Tensor, slopes: Tensor) -> None:
    """Into the first rows of `place`, if they are not there already; rows that only even their number get none."""
    if place.data_ptr() != slopes.data_ptr():
        place[: len(slopes)] = slopes
    place[len(slopes) :] = 0


def add_gradients(slopes: Tensor, hidden: Tensor, weight: Tensor, grads: list[Tensor | None], rows: slice) -> None:
    """Add a group's share to the gradients of hidden, weight and bias."""
    grad_hidden, grad_weight, grad_bias = grads
    assert grad_hidden is not None and grad_weight is not None
    real = slice(rows.start, min(rows.stop, len(grad_hidden)))
    grad_hidden[real] += (slopes @ weight)[: real.stop - real.start]
    if slopes.dtype == grad_weight.dtype:
        grad_weight.addmm_(slopes.t(), hidden)
    else:
        grad_weight += slopes.t() @ hidden
    if grad_bias is not None:
        grad_bias += slopes.sum(0, dtype=grad_bias.dtype)


def training_loss(
    model: EncoderDecoder, decoded: DecoderOutput, target: Tensor, padding: int, smoothing: float
) -> tuple[Tensor, Tensor]:
    """What a training minimises and −Σ log p, both summed over the real tokens of target [B T].

    The smoothed cross entropy, and for hard attention the loss of its draws, each rewarded with log p of its token.
    """
    real = real_tokens(target, padding)
    loss, nll = of_tokens(decoded.hidden, model.output, target, real, smoothing)
    if decoded.policy is not None:
        log_probability, entropy = (pick(drawn, real) for drawn in decoded.policy)
        loss = loss + model.reinforce(log_probability, entropy, -nll)
    return loss, nll.sum()


def cross_entropy(
    hidden: Tensor, output: torch.nn.Linear, target: Tensor, padding: int, smoothing: float
) -> tuple[Tensor, Tensor]:
    """hidden [B T D], target [B T] → smoothed loss and −Σ log p over the real tokens; padding is never computed."""
    loss, nll = of_tokens(hidden, output, target, real_tokens(target, padding), smoothing)
    return loss, nll.sum()


def of_tokens(
    hidden: Tensor, output: torch.nn.Linear, target: Tensor, real: Tensor | None, smoothing: float
) -> tuple[Tensor, Tensor]:
    """The smoothed loss, summed, and −log p [N] of the real tokens in their order."""
    weight: Tensor = output.weight
    bias: Tensor | None = output.bias
    if not torch.is_grad_enabled():  # inside `forward` nobody can tell any more
        hidden, weight = hidden.detach(), weight.detach()
        bias = None if bias is None else bias.detach()
    return LinearCrossEntropy.apply(pick(hidden, real), weight, bias, pick(target, real), smoothing)


def real_tokens(target: Tensor, padding: int) -> Tensor | None:
    """Where target [B T] is no padding, counted through; None when that is everywhere."""
    real = (target.flatten() != padding).nonzero().squeeze(1)
    return real if len(real) < target.numel() else None


def pick(values: Tensor, real: Tensor | None) -> Tensor:
    """[B T …] → [N …]."""
    flat = values.flatten(0, 1)
    return flat if real is None else flat[real]

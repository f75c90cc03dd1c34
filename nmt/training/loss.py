"""Cross entropy over the vocabulary without a full table of logits.

B batch, T target length, N tokens, D model size, V vocabulary.
"""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional

from nmt.attention.cpu import pad_rows
from nmt.models.base import DecoderOutput, EncoderDecoder

CHUNK = {"cpu": 256, "cuda": 4096}  # tokens whose logits exist at the same time
# of d loss / d logits that exist at the same time, if that is more than one chunk
GRADIENT_ELEMENTS = 2**23


class LinearCrossEntropy(Function):
    """Σ_n (1 − ε) (−log p_n) + ε mean_v (−log p_nv), p = softmax(h Wᵀ + b), in chunks of tokens.

    Its gradient, softmax − (1 − ε) onehot − ε / V, is computed in the forward pass while the chunk
    is in the cache (ε / V apart, for all tokens at once), and multiplied for several chunks at
    once; the backward pass only scales it. Label smoothing as in Szegedy 2016 §7, uniform over the
    whole vocabulary. With a divergence weight α, rows 2 n and 2 n + 1 are two predictions of one
    token, and α/2 Σ_n (KL(p_2n ‖ p_2n+1) + KL(p_2n+1 ‖ p_2n)) is added (Liang 2021 eq. 2).
    """

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        target: Tensor,
        smoothing: float,
        divergence: float,
    ) -> tuple[Tensor, Tensor]:
        """hidden [N D], weight [V D], bias [V] | None, target [N] → the loss, summed, and −log p
        [N]."""
        needs_gradient = any(ctx.needs_input_grad[:3])  # type: ignore[attr-defined]
        device_type = hidden.device.type
        low = hidden.dtype
        if torch.is_autocast_enabled(device_type):
            low = torch.get_autocast_dtype(device_type)
        hidden_low = hidden.to(low)
        weight_low = weight.to(low)
        tokens = len(hidden)
        hidden_low = pad_rows(hidden_low)
        full = torch.promote_types(low, torch.float32)
        chunk = CHUNK.get(device_type, 4096)
        loss = hidden.new_zeros((), dtype=full)
        nll = hidden.new_empty(tokens, dtype=full)
        with torch.autocast(device_type, enabled=False):
            mean_weight = (
                weight.mean(0, dtype=full)
                if smoothing
                else weight.new_zeros(weight.size(1), dtype=full)
            )
            mean_logits = hidden.to(full) @ mean_weight  # mean_v (h · W_v) = h · mean_v W_v
            if bias is not None and smoothing:
                mean_logits += bias.mean(dtype=full)
            gradients = (
                uniform_gradients(hidden, weight, bias, mean_weight, smoothing)
                if needs_gradient
                else []
            )
            # then logits are overwritten by their gradients
            in_place = needs_gradient and low == full
            buffer = hidden_low.new_empty(
                0 if in_place else min(chunk, len(hidden_low)), len(weight), dtype=full
            )
            for group in slices(
                0, len(hidden_low), chunk * max(1, GRADIENT_ELEMENTS // (chunk * len(weight)))
            ):
                logit_gradients = hidden_low.new_empty(
                    group.stop - group.start if needs_gradient else 0, len(weight)
                )
                for rows in slices(group.start, group.stop, chunk):
                    # without the rows that `pad_rows` has added
                    real = slice(rows.start, min(rows.stop, tokens))
                    chunk_gradients = logit_gradients[
                        rows.start - group.start : rows.stop - group.start
                    ]
                    out = chunk_gradients if in_place else buffer[: rows.stop - rows.start]
                    if out.dtype == low:
                        torch.mm(hidden_low[rows], weight_low.t(), out=out)
                    else:
                        out.copy_(functional.linear(hidden_low[rows], weight_low))
                    logits = out[: real.stop - real.start]
                    if bias is not None:
                        logits += bias
                    log_ratio = logits[::2] - logits[1::2] if divergence else None
                    chunk_loss, nll[real], normalizer = chunk_loss_(
                        logits, target[real], mean_logits[real], smoothing
                    )
                    loss += chunk_loss
                    if log_ratio is not None:
                        log_ratio -= (normalizer[::2] - normalizer[1::2])[:, None]
                        loss += add_divergence_(logits, log_ratio, divergence)
                    if needs_gradient:
                        # softmax − (1 − ε) onehot; the rest of d loss / d logits is in
                        # `uniform_gradients`
                        onehot = torch.full_like(target[real], smoothing - 1, dtype=logits.dtype)
                        logits.scatter_add_(1, target[real][:, None], onehot[:, None])
                        if not in_place:
                            chunk_gradients[: len(logits)] = logits
                        chunk_gradients[len(logits) :] = 0
                if needs_gradient:
                    add_gradients(logit_gradients, hidden_low[group], weight_low, gradients, group)
        if needs_gradient:
            ctx.save_for_backward(*[gradient for gradient in gradients if gradient is not None])
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        """Multiply the gradients of the forward pass by that of the loss."""
        saved = [stored.mul_(gradient) for stored in ctx.saved_tensors]  # type: ignore[attr-defined]
        return saved[0], saved[1], saved[2] if len(saved) > 2 else None, None, None, None


def slices(start: int, stop: int, step: int) -> Iterator[slice]:
    return (slice(first, min(first + step, stop)) for first in range(start, stop, step))


def uniform_gradients(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, mean_weight: Tensor, smoothing: float
) -> list[Tensor | None]:
    """Gradients of −ε Σ_n mean_v (h_n · W_v + b_v) for hidden, weight and bias, with mean_weight =
    mean_v W_v.

    They need no logits. The gradients of the rest of the loss are added to them.
    """
    total = hidden.sum(0, dtype=mean_weight.dtype)
    rows = [-smoothing * mean_weight, -smoothing / len(weight) * total]
    gradients = [
        row.to(like.dtype).repeat(len(like), 1)
        for row, like in zip(rows, (hidden, weight), strict=True)
    ]
    return [
        *gradients,
        None if bias is None else torch.full_like(bias, -smoothing * len(hidden) / len(bias)),
    ]


def chunk_loss_(
    logits: Tensor, target: Tensor, mean_logits: Tensor, smoothing: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The smoothed loss, summed, −log p [N] and log Σ_v exp [N] of logits [N V] with mean [N].

    Logits become their softmax in place.
    """
    target_logits = logits.gather(1, target[:, None]).squeeze(1)
    largest = logits.amax(1)
    torch.softmax(logits, 1, out=logits)
    log_normalizer = largest - logits.amax(1).log()  # the largest probability cannot underflow
    smoothed = log_normalizer - (1 - smoothing) * target_logits - smoothing * mean_logits
    return smoothed.sum(), log_normalizer - target_logits, log_normalizer


def add_divergence_(softmax: Tensor, log_ratio: Tensor, weight: float) -> Tensor:
    """α/2 Σ_n (KL(p_2n ‖ p_2n+1) + KL(p_2n+1 ‖ p_2n)); adds its gradient for the logits to softmax
    [N V] in place.

    log_ratio [N/2 V]: log p_2n − log p_2n+1. The gradient of KL(p ‖ q) is p (log p/q − KL(p ‖ q))
    for the logits of p, and q − p for those of q.
    """
    first = softmax[::2]
    second = softmax[1::2]
    forward = (first * log_ratio).sum(1, keepdim=True)
    backward = -(second * log_ratio).sum(1, keepdim=True)
    difference = first - second
    of_first = difference.addcmul(first, log_ratio - forward)
    of_second = difference.addcmul_(second, log_ratio + backward)
    first.add_(of_first, alpha=weight / 2)
    second.sub_(of_second, alpha=weight / 2)
    return (forward + backward).sum() * (weight / 2)


def add_gradients(
    logit_gradients: Tensor,
    hidden: Tensor,
    weight: Tensor,
    gradients: list[Tensor | None],
    rows: slice,
) -> None:
    """Add to the gradients of hidden, weight and bias what comes from these rows' d loss / d
    logits."""
    hidden_gradient, weight_gradient, bias_gradient = gradients
    assert hidden_gradient is not None and weight_gradient is not None
    real = slice(rows.start, min(rows.stop, len(hidden_gradient)))
    hidden_gradient[real] += (logit_gradients @ weight)[: real.stop - real.start]
    if logit_gradients.dtype == weight_gradient.dtype:
        weight_gradient.addmm_(logit_gradients.t(), hidden)
    else:
        weight_gradient += logit_gradients.t() @ hidden
    if bias_gradient is not None:
        bias_gradient += logit_gradients.sum(0, dtype=bias_gradient.dtype)


def training_loss(
    model: EncoderDecoder,
    decoded: DecoderOutput,
    target: Tensor,
    real: Tensor | None,
    smoothing: float,
    divergence: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """The loss that a training minimizes and −Σ log p, both summed over the real tokens of target
    [B T].

    `real` [N] are their places in target, flattened; None: all are real. The loss is the smoothed
    cross entropy; hard attention adds that of its samples, rewarded with log p. With a divergence
    weight α, `decoded` has two rows for each row of target, one after the other, which dropout
    makes different. Then the loss is the mean of both cross entropies and α/2 times the mean of the
    two Kullback-Leibler divergences: half of that of R-Drop (Liang 2021 eq. 4), so that α = 0
    changes nothing.
    """
    copies = len(decoded.hidden) // len(target)
    loss, nll = token_losses(decoded.hidden, model.output, target, real, smoothing, divergence)
    if decoded.samples is not None:
        log_probability, entropy = (select_tokens(values, real) for values in decoded.samples)
        loss = loss + model.reinforce(log_probability, entropy, -nll)
    return loss / copies, nll.sum() / copies


def alignment_loss(weights: Tensor, links: Tensor) -> Tensor:
    """−Σ_t Σ_s G_ts log A_ts, summed over the batch (Garg et al. 2019 §4.2): A [B T S], G [B T S] →
    scalar.

    Rows of G are distributions, or zero where a piece has no link; those teach nothing.
    """
    return -(links * weights.clamp_min(torch.finfo(weights.dtype).tiny).log()).sum()


def token_losses(
    hidden: Tensor,
    output: torch.nn.Linear,
    target: Tensor,
    real: Tensor | None,
    smoothing: float,
    divergence: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """hidden [B T D], target [B T] → the smoothed loss, summed, and −log p [N] of the tokens at
    `real` (None: of all).

    Padding is never computed. With hidden [2 B T D] each token has two of both, one after the
    other.
    """
    weight: Tensor = output.weight
    bias: Tensor | None = output.bias
    # a Function's `forward` always runs without gradients and cannot ask for this
    if not torch.is_grad_enabled():
        hidden = hidden.detach()
        weight = weight.detach()
        bias = None if bias is None else bias.detach()
    flat_target = select_tokens(target, real)
    if len(hidden) == len(target):
        flat_hidden = select_tokens(hidden, real)
    else:  # [B 2 T D] → [B T 2 D] → [N 2 D] → [2 N D]
        flat_hidden = select_tokens(hidden.unflatten(0, (-1, 2)).transpose(1, 2), real).flatten(
            0, 1
        )
        flat_target = flat_target.repeat_interleave(2)
    return LinearCrossEntropy.apply(flat_hidden, weight, bias, flat_target, smoothing, divergence)


def select_tokens(values: Tensor, indices: Tensor | None) -> Tensor:
    """[B T …] → [N …]: the values at these flat indices; all of them for None."""
    flat = values.flatten(0, 1)
    return flat if indices is None else flat[indices]

"""Cross entropy and divergence over the vocabulary without a full table of logits.

B batch, T target length, N tokens, D model size, V vocabulary.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional

from nmt.attention.cpu import pad_rows
from nmt.attention.projection import to_autocast
from nmt.models.base import DecoderOutput, EncoderDecoder

CHUNK_TOKENS = {"cpu": 256, "cuda": 4096}  # whose logits exist at the same time
DIVERGENCE_TOKENS = 64  # whose two distributions exist at the same time
# Numbers of d loss / d logits that exist at the same time, if that is more than one chunk
GRADIENT_ELEMENTS = 2**23


class LinearCrossEntropy(Function):
    """The smoothed cross entropy of a linear layer's softmax, and its gradients, chunk by chunk.

    L = Σ_n (1 − ε) (−log p_n) + ε mean_v (−log p_nv), p = softmax(h Wᵀ + b)
    dL / d logits = softmax − (1 − ε) onehot − ε / V

    Label smoothing is that of Szegedy 2016 §7, uniform over the whole vocabulary. With a divergence
    weight α, rows 2 n and 2 n + 1 are two predictions of one token, and
    α/2 Σ_n (KL(p_2n ‖ p_2n+1) + KL(p_2n+1 ‖ p_2n)) is added (Liang 2021 eq. 2).

    The forward pass computes the gradients too, while a chunk is in the cache; the backward pass
    only scales them. The products with d loss / d logits are made for several chunks at once, and
    the term ε / V for all tokens at once.
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
        """hidden [N D], weight [V D], bias [V], target [N] → the loss, summed, and −log p [N]."""
        needed: tuple[bool, ...] = ctx.needs_input_grad[:3]  # type: ignore[attr-defined]
        needs_gradient = any(needed)
        device_type = hidden.device.type
        low = hidden.dtype  # of products
        if torch.is_autocast_enabled(device_type):
            low = torch.get_autocast_dtype(device_type)
        full = torch.promote_types(low, torch.float32)  # of sums
        tokens = len(hidden)
        vocabulary = len(weight)
        hidden_low = pad_rows(hidden.to(low))  # [N' D], N' ≥ N
        weight_low = weight.to(low)
        loss = hidden.new_zeros((), dtype=full)
        nll = hidden.new_empty(tokens, dtype=full)

        with torch.autocast(device_type, enabled=False):
            mean_weight = weight.new_zeros(weight.size(1), dtype=full)  # [D]
            if smoothing:
                mean_weight = weight.mean(0, dtype=full)
            mean_logits = hidden.to(full) @ mean_weight  # [N], mean_v (h · W_v) = h · mean_v W_v
            if bias is not None and smoothing:
                mean_logits += bias.mean(dtype=full)
            gradients: list[Tensor | None] = []  # of hidden, weight and bias; None: not needed
            if needs_gradient:
                gradients = uniform_gradients(hidden, weight, bias, mean_weight, smoothing, needed)

            # Logits are overwritten by their gradients, or else have a buffer of their own
            chunk = CHUNK_TOKENS.get(device_type, 4096)
            chunks_of_group = max(1, GRADIENT_ELEMENTS // (chunk * vocabulary))
            in_place = needs_gradient and low == full
            buffer_rows = 0 if in_place else min(chunk, len(hidden_low))
            buffer = hidden_low.new_empty(buffer_rows, vocabulary, dtype=full)

            for group in slices(0, len(hidden_low), chunk * chunks_of_group):
                group_rows = group.stop - group.start if needs_gradient else 0
                logit_gradients = hidden_low.new_empty(group_rows, vocabulary)
                for rows in slices(group.start, group.stop, chunk):
                    chunk_gradients = logit_gradients[
                        rows.start - group.start : rows.stop - group.start
                    ]

                    # Logits of the chunk, without the rows that `pad_rows` has added
                    real = slice(rows.start, min(rows.stop, tokens))
                    out = chunk_gradients if in_place else buffer[: rows.stop - rows.start]
                    write_product(hidden_low[rows], weight_low, out)
                    logits = out[: real.stop - real.start]
                    if bias is not None:
                        logits += bias

                    # The logits become their softmax
                    nll[real] = add_loss_(
                        loss, logits, target[real], mean_logits[real], smoothing, divergence
                    )

                    # Their gradients, softmax − (1 − ε) onehot; `uniform_gradients` has the rest
                    if needs_gradient:
                        places = target[real][:, None]
                        minus = torch.full_like(places, smoothing - 1, dtype=logits.dtype)
                        logits.scatter_add_(1, places, minus)
                        if not in_place:
                            chunk_gradients[: len(logits)] = logits
                        chunk_gradients[len(logits) :] = 0
                if needs_gradient:
                    add_gradients(logit_gradients, hidden_low[group], weight_low, gradients, group)

        if needs_gradient:
            ctx.save_for_backward(*gradients)  # type: ignore[arg-type]
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        """Multiply the gradients of the forward pass by that of the loss."""
        return *scaled(ctx, gradient), None, None, None


class LinearDivergence(Function):
    """Σ_n KL(p_n ‖ q_n) with q = softmax(h Wᵀ + b), and its gradients, chunk by chunk.

    dL / d logits of q = q − p

    p is the softmax of another layer over inputs of its own, which gets no gradients. As above, the
    forward pass computes the gradients too.
    """

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        old_hidden: Tensor,
        old_output: nn.Linear,
    ) -> Tensor:
        """hidden [N D], weight [V D], bias [V], old_hidden [N D] → the divergence, summed."""
        needed: tuple[bool, ...] = ctx.needs_input_grad[:3]  # type: ignore[attr-defined]
        gradients: list[Tensor | None] = [
            torch.zeros_like(hidden),
            torch.zeros_like(weight) if needed[1] else None,
            torch.zeros_like(bias) if bias is not None and needed[2] else None,
        ]
        divergence = hidden.new_zeros((), dtype=torch.float32)

        # Cast once for all chunks
        low = to_autocast(hidden)
        weight_low = to_autocast(weight)
        old_weight = weight_low if old_output.weight is weight else to_autocast(old_output.weight)

        for rows in slices(0, len(hidden), DIVERGENCE_TOKENS):
            old_logits = functional.linear(old_hidden[rows], old_weight, old_output.bias)  # [C V]
            new_logits = functional.linear(low[rows], weight_low, bias)  # [C V]
            old = old_logits.float().log_softmax(1)
            new = new_logits.float().log_softmax(1)
            probabilities = old.exp()
            divergence += old.sub_(new).mul_(probabilities).sum()
            logit_gradients = new.exp_().sub_(probabilities).to(low.dtype)
            add_gradients(logit_gradients, low[rows], weight_low, gradients, rows)
        ctx.save_for_backward(*gradients)  # type: ignore[arg-type]
        return divergence

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return *scaled(ctx, gradient), None, None


def scaled(ctx: FunctionCtx, gradient: Tensor) -> list[Tensor | None]:
    """The gradients of a forward pass, multiplied by that of its loss in place."""
    gradients = []
    for stored in ctx.saved_tensors:  # type: ignore[attr-defined]
        gradients.append(None if stored is None else stored.mul_(gradient))
    return gradients


def slices(start: int, stop: int, step: int) -> Iterator[slice]:
    return (slice(first, min(first + step, stop)) for first in range(start, stop, step))


def uniform_gradients(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    mean_weight: Tensor,
    smoothing: float,
    needed: Sequence[bool],
) -> list[Tensor | None]:
    """Gradients of −ε Σ_n mean_v (h_n · W_v + b_v) for hidden [N D], weight [V D] and bias [V].

    mean_weight [D] is mean_v W_v. They need no logits. The gradients of the rest of the loss are
    added to them. Of weight and bias those that are not `needed` are None.
    """
    of_hidden = -smoothing * mean_weight  # [D], the same for each token
    of_weight = None
    if needed[1]:
        total = hidden.sum(0, dtype=mean_weight.dtype)  # [D]
        of_piece = -smoothing / len(weight) * total  # [D], the same for each piece
        of_weight = of_piece.to(weight.dtype).repeat(len(weight), 1)
    of_bias = None
    if bias is not None and needed[2]:
        of_bias = torch.full_like(bias, -smoothing * len(hidden) / len(bias))
    return [of_hidden.to(hidden.dtype).repeat(len(hidden), 1), of_weight, of_bias]


def write_product(hidden: Tensor, weight: Tensor, out: Tensor) -> None:
    """hidden [C D] · weightᵀ [D V] → out [C V], which may have another number format."""
    if out.dtype == hidden.dtype:
        torch.mm(hidden, weight.t(), out=out)
    else:
        out.copy_(functional.linear(hidden, weight))


def add_loss_(
    loss: Tensor,
    logits: Tensor,
    target: Tensor,
    mean_logits: Tensor,
    smoothing: float,
    divergence: float,
) -> Tensor:
    """Add the loss of logits [N V], with means [N] and target [N], to `loss`; returns −log p [N].

    The logits become their softmax in place; the gradient of the divergence is added to it.
    """
    if divergence:
        log_ratio = logits[::2] - logits[1::2]  # [N/2 V]
    target_logits = logits.gather(1, target[:, None]).squeeze(1)
    largest = logits.amax(1)
    torch.softmax(logits, 1, out=logits)
    log_normalizer = largest - logits.amax(1).log()  # the largest probability cannot underflow
    smoothed = log_normalizer - (1 - smoothing) * target_logits - smoothing * mean_logits
    loss += smoothed.sum()
    if divergence:
        log_ratio -= (log_normalizer[::2] - log_normalizer[1::2])[:, None]
        loss += add_divergence_(logits, log_ratio, divergence)
    return log_normalizer - target_logits


def add_divergence_(softmax: Tensor, log_ratio: Tensor, weight: float) -> Tensor:
    """α/2 Σ_n (KL(p_2n ‖ p_2n+1) + KL(p_2n+1 ‖ p_2n)).

    Its gradient for the logits is added to softmax [N V] in place. log_ratio [N/2 V] is
    log p_2n − log p_2n+1. The gradient of KL(p ‖ q) is p (log p/q − KL(p ‖ q)) for the logits of p,
    and q − p for those of q.
    """
    first = softmax[::2]  # [N/2 V]
    second = softmax[1::2]  # [N/2 V]
    forward = (first * log_ratio).sum(1, keepdim=True)  # [N/2 1]
    backward = -(second * log_ratio).sum(1, keepdim=True)  # [N/2 1]
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
    """Add what follows from d loss / d logits of these rows to the gradients of all three."""
    hidden_gradient, weight_gradient, bias_gradient = gradients
    assert hidden_gradient is not None
    real = slice(rows.start, min(rows.stop, len(hidden_gradient)))
    hidden_gradient[real] += (logit_gradients @ weight)[: real.stop - real.start]
    if weight_gradient is not None and logit_gradients.dtype == weight_gradient.dtype:
        weight_gradient.addmm_(logit_gradients.t(), hidden)
    elif weight_gradient is not None:
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
    """The loss that a training minimizes, and −Σ log p; both are sums over the target tokens.

    `real` [N] are the places of the tokens in target [B T], flattened; None: all are tokens. The
    loss is the smoothed cross entropy. Hard attention adds the loss of its samples, whose reward is
    log p.

    With a divergence weight α, `decoded` has two rows for each row of target, one after the other,
    which dropout makes different. Then the loss is the mean of the two cross entropies, plus α/2
    times the mean of the two Kullback-Leibler divergences. That is half of the loss of R-Drop
    (Liang 2021 eq. 4), so that α = 0 changes nothing.
    """
    copies = len(decoded.hidden) // len(target)
    loss, nll = token_losses(decoded.hidden, model.output, target, real, smoothing, divergence)
    if decoded.samples is not None:
        log_probability, entropy = (select_tokens(values, real) for values in decoded.samples)
        loss = loss + model.reinforce(log_probability, entropy, -nll)
    return loss / copies, nll.sum() / copies


def alignment_loss(weights: Tensor, links: Tensor) -> Tensor:
    """−Σ_t Σ_s G_ts log A_ts, summed over the batch (Garg et al. 2019 §4.2).

    A: weights [B T S]; G: links [B T S], whose rows are distributions, or zero where a piece has no
    link. Such a row teaches nothing.
    """
    return -(links * weights.clamp_min(torch.finfo(weights.dtype).tiny).log()).sum()


def token_losses(
    hidden: Tensor,
    output: nn.Linear,
    target: Tensor,
    real: Tensor | None,
    smoothing: float,
    divergence: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """hidden [B T D], target [B T] → the smoothed loss, summed, and −log p [N] of the tokens.

    The tokens are at the places `real` [N] (None: everywhere); padding is never computed. With
    hidden [2 B T D] each token has two predictions, one after the other: −log p [2 N].
    """
    weight: Tensor = output.weight
    bias: Tensor | None = output.bias
    if not torch.is_grad_enabled():  # which a Function's `forward` cannot ask for
        hidden = hidden.detach()
        weight = weight.detach()
        bias = None if bias is None else bias.detach()
    flat_target = select_tokens(target, real)
    if len(hidden) == len(target):
        flat_hidden = select_tokens(hidden, real)
    else:
        both = hidden.unflatten(0, (-1, 2)).transpose(1, 2)  # [2 B T D] → [B 2 T D] → [B T 2 D]
        flat_hidden = select_tokens(both, real).flatten(0, 1)  # [N 2 D] → [2 N D]
        flat_target = flat_target.repeat_interleave(2)
    return LinearCrossEntropy.apply(flat_hidden, weight, bias, flat_target, smoothing, divergence)


def select_tokens(values: Tensor, places: Tensor | None) -> Tensor:
    """[B T …] → [N …]: the values at these flat places; all of them for None."""
    flat = values.flatten(0, 1)
    return flat if places is None else flat[places]

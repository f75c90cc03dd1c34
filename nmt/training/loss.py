"""The losses of a training; those over the vocabulary need no full table of logits.

B batch, T target length, S source length, N tokens, C tokens of a chunk, D model size,
V vocabulary, J pieces of a sampled softmax.
"""

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional

from nmt.attention.cpu import pad_rows
from nmt.attention.flex import COMPILE_ERRORS, first_lines
from nmt.attention.projection import sum_dtype, to_autocast
from nmt.models.base import DecoderOutput, EncoderDecoder

log = logging.getLogger("nmt")

# Tokens whose logits exist at the same time; even, so that the two predictions of a token for
# R-Drop are in one chunk
CHUNK_TOKENS = {"cpu": 256, "cuda": 4096}
DIVERGENCE_TOKENS = 64  # whose two distributions exist at the same time
# At most so many numbers of d loss / d logits exist at the same time, but at least those of a chunk
GRADIENT_ELEMENTS = 2**23
# Logits of a chunk from which on its loss is compiled on a GPU; with fewer, compiling takes longer
# than it saves
COMPILED_ELEMENTS = 2**25
given_up = False  # whether the loss could not be compiled in this process


def training_loss(
    model: EncoderDecoder,
    decoded: DecoderOutput,
    target: Tensor,
    real: Tensor | None,
    smoothing: float,
    divergence_weight: float = 0.0,
    sampled: int = 0,
) -> tuple[Tensor, Tensor]:
    """The loss that a training minimizes, and −Σ log p; both are sums over the target tokens.

    `real` [N] are the places of the tokens in target [B T], flattened; None: all are tokens. The
    loss is the smoothed cross entropy. Hard attention adds the loss of its samples, whose reward is
    log p.

    With a `divergence_weight` α, `decoded` has two rows for each row of target, one after
    the other, which dropout makes different. Then the loss is the mean of the two cross entropies,
    plus α/2 times the mean of the two Kullback-Leibler divergences. That is half of the loss of
    R-Drop (Liang 2021 eq. 4), so that α = 0 changes nothing.

    If `sampled` is not 0, p is estimated from the pieces of the target and so many pieces that are
    drawn from the others (`draw_pieces`).
    """
    copies = len(decoded.hidden) // len(target)
    loss, nll = token_losses(
        decoded.hidden, model.output, target, real, smoothing, divergence_weight, sampled
    )
    if decoded.samples is not None:
        log_probability = select_tokens(decoded.samples.log_probability, real)  # [N]
        entropy = select_tokens(decoded.samples.entropy, real)  # [N]
        loss = loss + model.reinforce(log_probability, entropy, -nll)
    return loss / copies, nll.sum() / copies


def alignment_loss(weights: Tensor, links: Tensor) -> Tensor:
    """−Σ_t Σ_s G_ts log A_ts, summed over the batch (Garg et al. 2019 §4.2).

    A: weights [B T S]; G: links [B T S], whose rows are distributions, or zero where a piece has no
    link. Such a row teaches nothing.
    """
    smallest = torch.finfo(weights.dtype).tiny  # 0 · log 0 would be NaN
    return -(links * weights.clamp_min(smallest).log()).sum()


def token_losses(
    hidden: Tensor,
    output: nn.Linear,
    target: Tensor,
    real: Tensor | None,
    smoothing: float,
    divergence_weight: float = 0.0,
    sampled: int = 0,
) -> tuple[Tensor, Tensor]:
    """hidden [B T D], target [B T] → the smoothed loss, summed, and −log p [N] of the tokens.

    The tokens are at the places `real` [N] (None: everywhere); padding has no logits. With hidden
    [2 B T D] each token has two predictions, one after the other: −log p [2 N].

    sampled: how many pieces are drawn for the softmax; 0: the softmax has the whole vocabulary.
    """
    weight: Tensor = output.weight
    bias: Tensor | None = output.bias
    # A Function's `forward` knows whether its inputs need gradients, not whether these are enabled
    if not torch.is_grad_enabled():
        hidden = hidden.detach()
        weight = weight.detach()
        bias = None if bias is None else bias.detach()
    flat_target = select_tokens(target, real)  # [N]
    if len(hidden) == len(target):
        flat_hidden = select_tokens(hidden, real)  # [N D]
    else:
        both = hidden.unflatten(0, (-1, 2)).transpose(1, 2)  # [2 B T D] → [B 2 T D] → [B T 2 D]
        flat_hidden = select_tokens(both, real).flatten(0, 1)  # [N 2 D] → [2 N D]
        flat_target = flat_target.repeat_interleave(2)  # [2 N]
    if not sampled:
        return LinearCrossEntropy.apply(
            flat_hidden, weight, bias, flat_target, smoothing, divergence_weight
        )

    pieces, log_weights, places = draw_pieces(flat_target, len(weight), sampled)
    drawn_bias = log_weights if bias is None else bias[pieces] + log_weights  # [J]
    loss, nll = LinearCrossEntropy.apply(
        flat_hidden, weight[pieces], drawn_bias, places, 0.0, divergence_weight
    )
    if smoothing:  # over the whole vocabulary, which takes few products
        loss = loss + smoothing * smoothing_loss(flat_hidden, weight, bias, flat_target)
    return loss, nll


def draw_pieces(target: Tensor, vocabulary: int, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The pieces Y of target [N], and `count` pieces that are drawn at random from all others.

    Those that are drawn stand for the others: each drawn logit gets a log weight, so that

        Σ_v exp z_v ≈ Σ_{v ∈ Y} exp z_v + (V − |Y|) / count · Σ_{v drawn} exp z_v

    Returns the pieces [J], their log weights [J], and the target's places among the pieces [N].

    This is the softmax by importance sampling of Bengio & Senécal 2008. Deviations: one draw serves
    all tokens, and no piece of Y has a weight; they draw anew for each token, where only its own
    target has none. Jean et al. 2015 §3 also share the pieces within a part of the text, but do not
    draw them at random, and give them no weights.
    """
    is_in_target = torch.zeros(vocabulary, dtype=torch.bool, device=target.device)
    is_in_target[target] = True
    own = is_in_target.nonzero().squeeze(1)  # Y
    others = is_in_target.logical_not().nonzero().squeeze(1)  # [V − |Y|]
    drawn = others[torch.randperm(len(others), device=target.device)[:count]]
    pieces = torch.cat([own, drawn])  # [J]
    log_weights = torch.zeros(len(pieces), device=target.device)
    log_weights[len(own) :] = math.log(max(1, len(others)) / max(1, len(drawn)))
    places = torch.zeros(vocabulary, dtype=torch.long, device=target.device)
    places[own] = torch.arange(len(own), device=target.device)
    return pieces, log_weights, places[target]


def smoothing_loss(hidden: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor) -> Tensor:
    """Σ_n (z_n[target_n] − mean_v z_n[v]) with z = h Wᵀ + b, from hidden [N D] and weight [V D].

    Label smoothing adds ε times this to the cross entropy.
    """
    of_target = functional.embedding(target, weight)  # [N D]
    loss = (hidden * of_target).sum() - hidden.sum(0) @ weight.mean(0)
    if bias is not None:
        loss = loss + bias[target].sum() - len(target) * bias.mean()
    return loss


def select_tokens(values: Tensor, places: Tensor | None) -> Tensor:
    """[B T …] → [N …]: the values at these flat places; all of them for None."""
    flat = values.flatten(0, 1)
    return flat if places is None else flat[places]


class LinearCrossEntropy(Function):
    """The smoothed cross entropy of a linear layer's softmax, and its gradients, chunk by chunk.

    L = Σ_n (1 − ε) (−log p_n[target_n]) + ε mean_v (−log p_n[v]), p = softmax(h Wᵀ + b)
    dL / d logits = p − (1 − ε) onehot(target) − ε / V

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
        divergence_weight: float,
    ) -> tuple[Tensor, Tensor]:
        """hidden [N D], weight [V D], bias [V], target [N] → the loss, summed, and −log p [N]."""
        needed: tuple[bool, ...] = ctx.needs_input_grad[:3]  # type: ignore[attr-defined]
        needs_gradient = any(needed)
        device_type = hidden.device.type
        low = hidden.dtype  # the number format of products
        if torch.is_autocast_enabled(device_type):
            low = torch.get_autocast_dtype(device_type)
        full = torch.promote_types(low, torch.float32)  # the number format of sums
        tokens = len(hidden)
        vocabulary = len(weight)
        hidden_low = pad_rows(hidden.to(low))  # [N' D], N' ≥ N
        weight_low = weight.to(low)
        loss = hidden.new_zeros((), dtype=full)
        nll = hidden.new_empty(tokens, dtype=full)

        with torch.autocast(device_type, enabled=False):
            # Without smoothing the means are multiplied by 0; they need not be right, and stay 0
            mean_weight = weight.new_zeros(weight.size(1), dtype=full)  # [D]
            if smoothing:
                mean_weight = weight.mean(0, dtype=full)
            mean_logits = hidden.to(full) @ mean_weight  # [N], mean_v (h · W_v) = h · mean_v W_v
            if bias is not None and smoothing:
                mean_logits += bias.mean(dtype=full)
            gradients: list[Tensor | None] = []  # of hidden, weight and bias; None: not needed
            if needs_gradient:
                gradients = uniform_gradients(hidden, weight, bias, mean_weight, smoothing, needed)
                # They are saved when this method ends, with all that is added below
                ctx.save_for_backward(*gradients)  # type: ignore[arg-type]
            ctx.mark_non_differentiable(nll)

            chunk = CHUNK_TOKENS.get(device_type, 4096)
            is_compiled = is_worth_compiling(weight, min(chunk, tokens))
            if needs_gradient and not divergence_weight and is_compiled:
                loss = add_compiled_chunks(
                    hidden_low, weight_low, bias, target, mean_logits, smoothing, gradients, nll
                )
                return loss, nll

            # A group: the chunks whose gradients are multiplied at once. Logits are overwritten by
            # their gradients. They are in a buffer instead if these have another number format, or
            # are not needed
            chunks_of_group = max(1, GRADIENT_ELEMENTS // (chunk * vocabulary))
            in_place = needs_gradient and low == full
            buffer_rows = 0 if in_place else min(chunk, len(hidden_low))
            buffer = hidden_low.new_empty(buffer_rows, vocabulary, dtype=full)  # [C V] or empty

            for group in slices(0, len(hidden_low), chunk * chunks_of_group):
                group_rows = group.stop - group.start if needs_gradient else 0
                logit_gradients = hidden_low.new_empty(group_rows, vocabulary)  # of the group
                for rows in slices(group.start, group.stop, chunk):
                    start = rows.start - group.start
                    stop = rows.stop - group.start
                    chunk_gradients = logit_gradients[start:stop]  # [C V], or empty

                    # Logits of the chunk, without the rows that `pad_rows` has added
                    unpadded = slice(rows.start, min(rows.stop, tokens))
                    out = chunk_gradients if in_place else buffer[: stop - start]
                    write_product(hidden_low[rows], weight_low, out)
                    logits = out[: unpadded.stop - unpadded.start]  # [C V]
                    if bias is not None:
                        logits += bias

                    # The loss, and −log p; the logits become their softmax
                    nll[unpadded] = add_loss_(
                        loss,
                        logits,
                        target[unpadded],
                        mean_logits[unpadded],
                        smoothing,
                        divergence_weight,
                    )

                    # The softmax becomes the gradient, softmax − (1 − ε) onehot; what is missing,
                    # −ε / V, is in `uniform_gradients`
                    if needs_gradient:
                        places = target[unpadded][:, None]
                        minus = torch.full_like(places, smoothing - 1, dtype=logits.dtype)
                        logits.scatter_add_(1, places, minus)
                        if not in_place:
                            chunk_gradients[: len(logits)] = logits
                        chunk_gradients[len(logits) :] = 0
                if needs_gradient:
                    add_gradients(logit_gradients, hidden_low[group], weight_low, gradients, group)
        return loss, nll

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        """Multiply the gradients of the forward pass by that of the loss."""
        return *scaled(ctx, gradient), None, None, None


def uniform_gradients(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    mean_weight: Tensor,
    smoothing: float,
    needed: Sequence[bool],
) -> list[Tensor | None]:
    """Gradients of −ε Σ_n mean_v (h_n · W_v + b_v) for hidden [N D], weight [V D] and bias [V].

    They come from the term −ε / V of d loss / d logits, which is the same for all logits, so these
    need not be computed. The gradients of the other terms are added later. mean_weight [D] is
    mean_v W_v. Gradients of weight and bias that are not `needed` are None.
    """
    of_token = -smoothing * mean_weight  # [D], the same for each token
    of_hidden = of_token.to(hidden.dtype).repeat(len(hidden), 1)
    of_weight = None
    if needed[1]:
        total = hidden.sum(0, dtype=mean_weight.dtype)  # [D]
        of_piece = -smoothing / len(weight) * total  # [D], the same for each piece
        of_weight = of_piece.to(weight.dtype).repeat(len(weight), 1)
    of_bias = None
    if bias is not None and needed[2]:
        of_bias = torch.full_like(bias, -smoothing * len(hidden) / len(bias))
    return [of_hidden, of_weight, of_bias]


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
    divergence_weight: float,
) -> Tensor:
    """Add the loss of logits [C V], with means [C] and target [C], to `loss`; returns −log p [C].

    The logits become their softmax in place, to which the gradient of the divergence is added.
    """
    # What is needed of the logits, before the softmax overwrites them
    if divergence_weight:
        log_ratio = logits[::2] - logits[1::2]  # [C/2 V], without the normalizers
    target_logits = logits.gather(1, target[:, None]).squeeze(1)  # [C]
    largest = logits.amax(1)  # [C]
    torch.softmax(logits, 1, out=logits)

    # log Σ exp(logits) [C] without another pass. The largest probability is
    # exp(largest) / Σ exp(logits); it is at least 1 / V, so that its log is finite
    log_normalizer = largest - logits.amax(1).log()
    loss += smoothed_loss(log_normalizer, target_logits, mean_logits, smoothing)
    if divergence_weight:
        log_ratio -= (log_normalizer[::2] - log_normalizer[1::2])[:, None]
        loss += add_divergence_(logits, log_ratio, divergence_weight)
    return log_normalizer - target_logits


def smoothed_loss(
    log_normalizer: Tensor, target_logits: Tensor, mean_logits: Tensor, smoothing: float
) -> Tensor:
    """Σ_n (1 − ε) (−log p_n[target_n]) + ε mean_v (−log p_n[v]), all three [C]."""
    smoothed = log_normalizer - (1 - smoothing) * target_logits - smoothing * mean_logits
    return smoothed.sum()


def is_worth_compiling(weight: Tensor, tokens: int) -> bool:
    """Whether a chunk of so many tokens is computed by a compiled function: on a GPU."""
    is_large = tokens * len(weight) >= COMPILED_ELEMENTS
    return weight.device.type == "cuda" and is_large and not given_up


def add_compiled_chunks(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    target: Tensor,
    mean_logits: Tensor,
    smoothing: float,
    gradients: list[Tensor | None],
    nll: Tensor,
) -> Tensor:
    """The chunks of LinearCrossEntropy on a GPU, where memory traffic takes most of the time.

    From the logits of a chunk, one kernel computes their gradients and two numbers a token.
    `gradients` are added to, and −log p [N] is written to `nll`. Returns the loss.
    """
    loss = nll.new_zeros(())
    for rows in slices(0, len(hidden), CHUNK_TOKENS["cuda"]):
        logits = functional.linear(hidden[rows], weight)  # [C V]
        logit_gradients, log_normalizer, target_logits = compiled_or_plain(
            logits, bias, target[rows], smoothing
        )
        nll[rows] = log_normalizer - target_logits
        loss += smoothed_loss(log_normalizer, target_logits, mean_logits[rows], smoothing)
        add_gradients(logit_gradients, hidden[rows], weight, gradients, rows)
    return loss


def softmax_gradient(
    logits: Tensor, bias: Tensor | None, target: Tensor, smoothing: float
) -> tuple[Tensor, Tensor, Tensor]:
    """logits [C V], bias [V], target [C] → softmax − (1 − ε) onehot [C V] and two numbers a token.

    These are log Σ exp(logits) and the target's logit [C], in float32 at least; the gradient has
    the dtype of the logits.
    """
    full = logits.to(sum_dtype(logits))
    if bias is not None:
        full = full + bias
    target_logits = full.gather(1, target[:, None]).squeeze(1)
    log_normalizer = full.logsumexp(1)
    softmax = (full - log_normalizer[:, None]).exp()
    is_target = torch.arange(full.size(1), device=full.device) == target[:, None]
    gradient = torch.where(is_target, softmax - (1 - smoothing), softmax)
    return gradient.to(logits.dtype), log_normalizer, target_logits


def compiled_or_plain(
    logits: Tensor, bias: Tensor | None, target: Tensor, smoothing: float
) -> tuple[Tensor, Tensor, Tensor]:
    """`softmax_gradient`, compiled unless that fails or has failed."""
    global given_up
    if given_up:  # in an earlier chunk
        return softmax_gradient(logits, bias, target, smoothing)
    try:
        return compiled_softmax_gradient()(logits, bias, target, smoothing)
    except COMPILE_ERRORS as error:
        given_up = True
        log.warning(
            "The loss cannot be compiled (%s); the training goes on without that, more slowly.",
            first_lines(error),
        )
        return softmax_gradient(logits, bias, target, smoothing)


@cache
def compiled_softmax_gradient() -> Callable[..., tuple[Tensor, Tensor, Tensor]]:
    """`softmax_gradient` in one kernel, for any number of tokens; the first call takes seconds."""
    return torch.compile(softmax_gradient, dynamic=True, fullgraph=True)


def add_divergence_(softmax: Tensor, log_ratio: Tensor, divergence_weight: float) -> Tensor:
    """α/2 Σ (KL(p ‖ q) + KL(q ‖ p)), where p and q are the even and the odd rows of softmax [C V].

    Its gradient for the logits is added to softmax in place. log_ratio [C/2 V] is log p − log q.
    The gradient of KL(p ‖ q) is p (log p/q − KL(p ‖ q)) for the logits of p, and q − p for those
    of q.
    """
    p = softmax[::2]  # [C/2 V]
    q = softmax[1::2]  # [C/2 V]
    kl_p_q = (p * log_ratio).sum(1, keepdim=True)  # [C/2 1]
    kl_q_p = -(q * log_ratio).sum(1, keepdim=True)  # [C/2 1]
    difference = p - q
    of_p = difference.addcmul(p, log_ratio - kl_p_q)  # p − q + p (log p/q − KL(p ‖ q))
    minus_of_q = difference.addcmul_(q, log_ratio + kl_q_p)  # p − q + q (log p/q + KL(q ‖ p))
    p.add_(of_p, alpha=divergence_weight / 2)
    q.sub_(minus_of_q, alpha=divergence_weight / 2)
    return (kl_p_q + kl_q_p).sum() * (divergence_weight / 2)


class LinearDivergence(Function):
    """Σ_n KL(p_n ‖ q_n) with q = softmax(h Wᵀ + b), and its gradients, chunk by chunk.

    dL / d logits of q = q − p

    p is the softmax of another layer over inputs of its own, which get no gradients. As in
    LinearCrossEntropy, the forward pass computes the gradients too.
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
        hidden_low = to_autocast(hidden)
        weight_low = to_autocast(weight)
        old_weight = weight_low if old_output.weight is weight else to_autocast(old_output.weight)

        for rows in slices(0, len(hidden), DIVERGENCE_TOKENS):
            old_logits = functional.linear(old_hidden[rows], old_weight, old_output.bias)  # [C V]
            new_logits = functional.linear(hidden_low[rows], weight_low, bias)  # [C V]
            log_p = old_logits.float().log_softmax(1)
            log_q = new_logits.float().log_softmax(1)
            p = log_p.exp()
            divergence += log_p.sub_(log_q).mul_(p).sum()
            logit_gradients = log_q.exp_().sub_(p).to(hidden_low.dtype)
            add_gradients(logit_gradients, hidden_low[rows], weight_low, gradients, rows)
        ctx.save_for_backward(*gradients)  # type: ignore[arg-type]
        return divergence

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return *scaled(ctx, gradient), None, None


def add_gradients(
    logit_gradients: Tensor,
    hidden: Tensor,
    weight: Tensor,
    gradients: list[Tensor | None],
    rows: slice,
) -> None:
    """Add what follows from d loss / d logits [C V] of these rows of hidden to the gradients.

    `gradients` are those of hidden [N D], weight [V D] and bias [V]. hidden [C D] has the rows
    alone; padding behind row N is left out.
    """
    hidden_gradient, weight_gradient, bias_gradient = gradients
    assert hidden_gradient is not None
    unpadded = slice(rows.start, min(rows.stop, len(hidden_gradient)))
    hidden_gradient[unpadded] += (logit_gradients @ weight)[: unpadded.stop - unpadded.start]
    if weight_gradient is not None and logit_gradients.dtype == weight_gradient.dtype:
        weight_gradient.addmm_(logit_gradients.t(), hidden)
    elif weight_gradient is not None and logit_gradients.device.type == "cuda":
        # A sum over many tokens may be too large for float16
        weight_gradient += torch.mm(logit_gradients.t(), hidden, out_dtype=weight_gradient.dtype)
    elif weight_gradient is not None:
        weight_gradient += logit_gradients.t() @ hidden
    if bias_gradient is not None:
        bias_gradient += logit_gradients.sum(0, dtype=bias_gradient.dtype)


def scaled(ctx: FunctionCtx, gradient: Tensor) -> list[Tensor | None]:
    """The gradients of a forward pass, multiplied by that of its loss.

    They are changed in place, so there can be one backward pass.
    """
    gradients = []
    for stored in ctx.saved_tensors:  # type: ignore[attr-defined]
        gradients.append(None if stored is None else stored.mul_(gradient))
    return gradients


def slices(start: int, stop: int, step: int) -> Iterator[slice]:
    return (slice(first, min(first + step, stop)) for first in range(start, stop, step))

"""Hard attention: one position instead of a mean over all of them (Xu et al. 2015 §4.1).

B batch, S source length, T target length, M memory size, N tokens.
A draw has no slope, so what it was drawn from learns either from the reward of the draw (`Reinforce`) or as if the
softmax's weights had been used (straight-through).
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

GRADIENTS = ("reinforce", "straight_through")
BASELINE_DECAY = 0.9  # what is left of the baseline after a batch (Xu et al. 2015 §4.1)


class HardAttentionOutput(NamedTuple):
    """One position for every query, and what REINFORCE wants to know about the draw."""

    context: Tensor  # [B T M]
    weights: Tensor  # [B T S], one-hot (times the prior)
    log_probability: Tensor | None  # [B T], of the position that was drawn; in training by `reinforce` only
    entropy: Tensor | None  # [B T], of the distribution it was drawn from, in nats


def attend_to_one(
    scores: Tensor, values: Tensor, mask: Tensor | None, prior: Tensor | None, training: bool, gradient: str
) -> HardAttentionOutput:
    """s ~ softmax(scores where mask) in training, else s = argmax (the first of equals); context = prior_s · values_s.

    scores [B T S], values [B S M], mask and prior broadcast to scores. The distribution is in float32 at least. A prior
    multiplies the chosen vector as it multiplies softmax's weights: it takes no part in the choice.
    `straight_through`: forward the one-hot row, backward the slope of the softmax (Bengio et al. 2013 §4).
    """
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    full = torch.promote_types(scores.dtype, torch.float32)
    log_shares = scores.log_softmax(-1, dtype=full)
    position = (draw(log_shares) if training else log_shares.argmax(-1))[..., None]
    weights = torch.zeros_like(log_shares).scatter(-1, position, 1.0)
    log_probability = entropy = None
    if training and gradient == "straight_through":
        shares = log_shares.exp()
        weights = weights + (shares - shares.detach())  # which adds exactly 0
    elif training:
        log_probability = log_shares.gather(-1, position).squeeze(-1)
        entropy = nats(log_shares)
    if prior is not None:
        weights = weights * prior
    return HardAttentionOutput(weights.to(values.dtype) @ values, weights, log_probability, entropy)


@torch.no_grad()
def draw(log_shares: Tensor) -> Tensor:
    """[… S] → […]: positions drawn from torch's generator, argmax_s (log p_s − log e_s) with e_s ~ Exp(1).

    What has share 0 is never drawn. Unlike torch.multinomial this neither waits for the device nor raises when a
    training has broken and its shares are no numbers; the trainer has a sentence for that.
    """
    return (log_shares - torch.empty_like(log_shares).exponential_().log()).argmax(-1)


def nats(log_shares: Tensor) -> Tensor:
    """−Σ p log p over the last dimension; where p = 0 there is nothing to add, in value and slope."""
    shares = log_shares.exp()
    return -(shares * log_shares.masked_fill(shares == 0, 0.0)).sum(-1)


class Reinforce(nn.Module):
    """The loss of draws: −Σ_n (r_n − b) log π(s_n) − λ_e Σ_n H[π_n], with b ← 0.9 b + 0.1 mean r after each batch.

    r_n = log p(y_n): the reward of a draw is the log-probability of the one word that is written from it (REINFORCE,
    Williams 1992; Xu et al. 2015 §4.1 with λ_r = 1). For attention after the step without input feeding this is an
    unbiased estimate of the gradient of E[Σ log p]: no other word depends on the draw. Otherwise later words depend
    on it through the decoder's state, and that is neglected: what is followed is, for each word, the gradient of its
    own expected log-probability over its own draw, given the earlier draws.

    Deviations: the paper rewards every draw with the log-probability of the whole sentence, whose variance grows with
    its length (docs/papers.md has a measurement); its baseline contains the batch it is used on (here b is the mean
    before it, and so independent of the draws), and it does not say where b starts (here at −log V, what guessing among
    V pieces earns; from 0 the first updates would punish whatever was drawn); and in half of the sentences it replaces
    the draw by softmax's mean, which is left out.
    """

    baseline: Tensor

    def __init__(self, entropy: float, start: float) -> None:
        super().__init__()
        self.entropy = entropy  # λ_e
        self.register_buffer("baseline", torch.tensor(start))

    def forward(self, log_probability: Tensor, entropy: Tensor, reward: Tensor) -> Tensor:
        """Three times [N], real tokens only → the loss, summed; the baseline moves on."""
        reward = reward.detach()
        advantage = reward - self.baseline
        self.baseline.lerp_(reward.mean().to(self.baseline.dtype), 1 - BASELINE_DECAY)
        return -(advantage * log_probability).sum() - self.entropy * entropy.sum()

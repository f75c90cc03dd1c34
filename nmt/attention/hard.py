"""Hard attention: one position instead of a mean over all of them (Xu et al. 2015 §4.1).

A sample has no gradient, so the distribution is trained either by the sample's reward
(`Reinforce`), or as if the softmax's weights had been used (straight-through).

B batch, S source length, T target length, M memory size, N target tokens of a batch, without
padding.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

GRADIENTS = ("reinforce", "straight_through")
BASELINE_DECAY = 0.9  # of the moving average of rewards, a batch (Xu et al. 2015 §4.1)


class AttentionOutput(NamedTuple):
    """Contexts and weights of T queries.

    A window adds p_t; hard attention in training adds what REINFORCE needs.
    """

    context: Tensor  # [B T M]
    weights: Tensor  # [B T S]; of hard attention one-hot (times the prior)
    p_t: Tensor | None = None  # [B T]: of local windows, in source positions
    # [B T]: of the position that was sampled in training with `reinforce`
    log_probability: Tensor | None = None
    entropy: Tensor | None = None  # [B T]: of the distribution it was sampled from, in nats


def hard_attention(
    scores: Tensor,
    values: Tensor,
    mask: Tensor | None,
    prior: Tensor | None,
    training: bool,
    gradient: str,
) -> AttentionOutput:
    """s ~ softmax(scores where mask); context = prior_s · values_s.

    scores [B T S], values [B S M], mask and prior broadcast to scores. Outside training s is the
    argmax, the first of equals. The distribution is in float32 at least. A prior multiplies the
    chosen vector as it multiplies softmax's weights; it does not change which position is chosen.

    `straight_through`: forward the one-hot row, backward the gradient of the softmax (Bengio et al.
    2013 §4).
    """
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    full = torch.promote_types(scores.dtype, torch.float32)
    log_probabilities = scores.log_softmax(-1, dtype=full)  # [B T S]
    position = sample(log_probabilities) if training else log_probabilities.argmax(-1)
    position = position[..., None]  # [B T 1]
    weights = torch.zeros_like(log_probabilities).scatter(-1, position, 1.0)  # [B T S]
    log_probability = None
    entropy = None
    if training and gradient == "straight_through":
        probabilities = log_probabilities.exp()
        # Adds exactly 0, with the gradient of the probabilities
        weights = weights + (probabilities - probabilities.detach())
    elif training:
        log_probability = log_probabilities.gather(-1, position).squeeze(-1)
        probabilities = log_probabilities.exp()
        # 0 · log 0 would be NaN: where a probability is 0, its term and its gradient are 0
        entropy = -(probabilities * log_probabilities.masked_fill(probabilities == 0, 0.0)).sum(-1)
    if prior is not None:
        weights = weights * prior
    context = weights.to(values.dtype) @ values
    return AttentionOutput(context, weights, None, log_probability, entropy)


@torch.no_grad()
def sample(log_probabilities: Tensor) -> Tensor:
    """[… S] → […]: positions s with probability p_s, as argmax_s (log p_s − log e_s), e_s ~ Exp(1).

    A position of probability 0 is never sampled. Unlike torch.multinomial this neither waits for
    the device nor raises when a training has diverged to NaN; the trainer reports that.
    """
    exponential = torch.empty_like(log_probabilities).exponential_()
    return (log_probabilities - exponential.log()).argmax(-1)


class Reinforce(nn.Module):
    """REINFORCE: −Σ_n (r_n − b) log π(s_n) − λ_e Σ_n H[π_n].

    b ← 0.9 b + 0.1 mean r for each batch of an update. r_n = log p(y_n): the reward of a sample is
    the log-probability of the one token that is predicted from it (REINFORCE, Williams 1992; Xu et
    al. 2015 §4.1 with λ_r = 1). For attention after the step without input feeding this is an
    unbiased estimate of the gradient of E[Σ log p]: no other token depends on the sample. Otherwise
    later tokens depend on it through the decoder's state, and that is neglected: it estimates, for
    each token, the gradient of the token's own expected log-probability over its own sample, given
    the earlier samples.

    Deviations:
    - The paper rewards every sample with the log-probability of the whole sentence, whose variance
      grows with its length (measured in docs/reference/models.md).
    - The paper's baseline contains the batch it is used on. Here b is the mean before it, and so
      independent of the samples.
    - The paper does not give the initial b. Here it is −log V, the reward of a uniform guess among
      V pieces; from 0 the first updates would punish whatever was sampled.
    - In half of the sentences the paper replaces the sample by softmax's mean. Here that is not
      done.
    """

    baseline: Tensor

    def __init__(self, entropy_weight: float, initial_baseline: float) -> None:
        super().__init__()
        self.entropy_weight = entropy_weight  # λ_e
        self.register_buffer("baseline", torch.tensor(initial_baseline))

    def forward(self, log_probability: Tensor, entropy: Tensor, reward: Tensor) -> Tensor:
        """[N] each, over real tokens only → the loss, summed."""
        advantage = reward.detach() - self.baseline
        return -(advantage * log_probability).sum() - self.entropy_weight * entropy.sum()

    def update_baseline(self, mean_reward: Tensor, skip: Tensor) -> None:
        """b ← 0.9 b + 0.1 mean r, once for each batch, after the update that all of them belong to.

        Where `skip` is 1, that update was skipped, and b stays. No number is read from the device.
        """
        moved = self.baseline.lerp(mean_reward.to(self.baseline), 1 - BASELINE_DECAY)
        self.baseline.copy_(torch.where(skip.bool(), self.baseline, moved))

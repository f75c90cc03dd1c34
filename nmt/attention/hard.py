"""Hard attention: one position instead of a mean over all of them (Xu et al. 2015 §4.1).

A sample has no gradient. So the distribution is trained either by the sample's reward
(`Reinforce`), or as if the softmax's weights had been used (straight-through).

B batch, S source length, T target length, M memory size, N target tokens of a batch without
padding, V vocabulary.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from nmt.attention.projection import sum_dtype

GRADIENTS = ("reinforce", "straight_through")
BASELINE_DECAY = 0.9  # of the moving average of rewards, per batch (Xu et al. 2015 §4.1)


class AttentionOutput(NamedTuple):
    """Contexts and weights of T queries of soft or hard attention.

    A local window adds p_t. Training by REINFORCE adds log_probability and entropy.
    """

    context: Tensor  # [B T M]
    weights: Tensor  # [B T S]; one-hot, times the prior, if attention is hard
    p_t: Tensor | None = None  # [B T], in source positions
    log_probability: Tensor | None = None  # [B T], of the sampled position
    entropy: Tensor | None = None  # [B T], of the distribution it was sampled from, in nats


def hard_attention(
    scores: Tensor,
    values: Tensor,
    mask: Tensor | None,
    prior: Tensor | None,
    training: bool,
    gradient: str,
) -> AttentionOutput:
    """s ~ softmax(scores where mask); context = prior_s · values_s.

    scores [B T S], values [B S M]; mask and prior broadcast to scores. Outside training s is the
    argmax, the first one if several are equal. The distribution is in float32 at least. The prior
    multiplies the weight of the chosen position, but does not influence the choice.

    With `gradient` "straight_through" the backward pass uses the gradient of the softmax (Bengio et
    al. 2013 §4). With "reinforce" the output has what the loss needs.
    """
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    dtype = sum_dtype(scores)
    log_probabilities = scores.log_softmax(-1, dtype=dtype)  # [B T S]
    chosen = sample(log_probabilities) if training else log_probabilities.argmax(-1)  # [B T]
    position = chosen[..., None]  # [B T 1]
    weights = torch.zeros_like(log_probabilities).scatter(-1, position, 1.0)  # [B T S]
    log_probability = None
    entropy = None
    if training:
        probabilities = log_probabilities.exp()
        if gradient == "straight_through":
            # Adds exactly 0, with the gradient of the probabilities
            weights = weights + (probabilities - probabilities.detach())
        else:
            log_probability = log_probabilities.gather(-1, position).squeeze(-1)
            # 0 · log 0 would be NaN: where a probability is 0, its term and its gradient are 0
            logs = log_probabilities.masked_fill(probabilities == 0, 0.0)
            entropy = -(probabilities * logs).sum(-1)
    if prior is not None:
        weights = weights * prior
    context = weights.to(values.dtype) @ values
    return AttentionOutput(context, weights, None, log_probability, entropy)


@torch.no_grad()
def sample(log_probabilities: Tensor) -> Tensor:
    """log p [… S] → positions […] with probability p_s: argmax_s (log p_s − log e_s), e_s ~ Exp(1).

    This is the Gumbel-max trick. A position of probability 0 is never sampled. Unlike
    torch.multinomial this neither waits for the device nor raises if a training has diverged to
    NaN, which the trainer reports.
    """
    exponential = torch.empty_like(log_probabilities).exponential_()
    return (log_probabilities - exponential.log()).argmax(-1)


class Reinforce(nn.Module):
    """The loss of REINFORCE (Williams 1992): −Σ_n (r_n − b) log π(s_n) − λ_e Σ_n H[π_n].

    It is that of Xu et al. 2015 §4.1 with λ_r = 1. The reward of a sample is the log-probability of
    the one token that is predicted from it, r_n = log p(y_n). The baseline is a moving average of
    the reward: b ← 0.9 b + 0.1 mean r after each batch.

    With attention after the step and without input feeding, a sample influences no other token, and
    the estimate of the gradient of E[Σ log p] is unbiased. Otherwise later tokens depend on the
    sample through the decoder's state. This is neglected: the gradient that is estimated for each
    token is that of its own expected log-probability over its own sample, given earlier samples.

    Deviations:
    - The paper rewards every sample with the log-probability of the whole sentence, whose variance
      grows with its length (measured in docs/reference/models.md).
    - The paper's baseline includes the batch on which it is used. Here b is the average before it,
      which does not depend on the batch's samples.
    - The paper does not give the initial b. Here it is −log V, the reward of a uniform guess. From
      0, the first updates would punish every sample.
    - In half of the sentences the paper replaces the sample by softmax's mean, here in none.
    """

    baseline: Tensor

    def __init__(self, entropy_weight: float, initial_baseline: float) -> None:
        super().__init__()
        self.entropy_weight = entropy_weight  # λ_e
        self.register_buffer("baseline", torch.tensor(initial_baseline))

    def forward(self, log_probability: Tensor, entropy: Tensor, reward: Tensor) -> Tensor:
        """[N] each, of tokens that are not padding → the loss, summed."""
        advantage = reward.detach() - self.baseline
        return -(advantage * log_probability).sum() - self.entropy_weight * entropy.sum()

    def update_baseline(self, mean_reward: Tensor, skip: Tensor) -> None:
        """b ← 0.9 b + 0.1 mean r, once for each batch of an update, after the update.

        If `skip` is 1, the update was skipped, and b stays. No number is read from the device.
        """
        moved = self.baseline.lerp(mean_reward.to(self.baseline), 1 - BASELINE_DECAY)
        self.baseline.copy_(torch.where(skip.bool(), self.baseline, moved))

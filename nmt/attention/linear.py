"""Linear attention (Katharopoulos et al. 2020), whose causal form is a fast weight programmer (Schmidhuber 1992).

B batch, H heads, S source length, T target length, K head size. Sums are made in float32 at least, also under autocast.
"""

import torch
from torch import Tensor

FLOOR = 1e-6  # the least φ: a sum of φ(q)·φ(k) is never 0


def features(inputs: Tensor) -> Tensor:
    """φ(x) = elu(x) + 1 (Katharopoulos 2020 eq. 7), i.e. x + 1 above 0 and eˣ below.

    Deviation: φ is at least 1e-6, where the paper's code adds 1e-6 to the denominator; so rows of weights sum to 1.
    Unlike the dot product's, these scores are not divided by √K: a factor would cancel.
    """
    return torch.where(inputs > 0, inputs + 1, inputs.clamp(max=0).exp()).clamp(min=FLOOR)


def linear(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, weights: bool = False
) -> tuple[Tensor, Tensor | None]:
    """φ(q)ᵀ Σ φ(k) vᵀ / φ(q)ᵀ Σ φ(k) over every key the mask allows (Katharopoulos 2020 eq. 5): time and memory ∝ S.

    query [B H T K], key, value [B H S K], mask [B 1 1 S] | None → [B H T K], weights [B H T S] | None. With weights,
    the explicit matrix φ(q_i)·φ(k_j) / Σ_j φ(q_i)·φ(k_j) and its product with the values: the same numbers.
    """
    full = torch.promote_types(query.dtype, torch.float32)
    with torch.autocast(query.device.type, enabled=False):
        asked, kept = features(query.to(full)), features(key.to(full))
        if mask is not None:
            kept = kept.masked_fill(~mask.transpose(2, 3), 0.0)
        if weights:
            scores = asked @ kept.transpose(2, 3)
            looked = scores / scores.sum(-1, keepdim=True)
            return (looked @ value.to(full)).to(value.dtype), looked
        context = asked @ (kept.transpose(2, 3) @ value.to(full))
        return (context / (asked @ kept.sum(2)[..., None])).to(value.dtype), None


def causal_linear(
    query: Tensor, key: Tensor, value: Tensor, written: Tensor, total: Tensor, weights: bool = False
) -> tuple[Tensor, Tensor | None, Tensor, Tensor]:
    """The same over the keys up to each query (Katharopoulos 2020 eqs. 8 to 12), continuing what was written before.

    query, key, value [B H T K], written [B H K K] = Σ φ(k) vᵀ and total [B H K] = Σ φ(k) over all earlier columns →
    contexts [B H T K], weights [B H T T] | None, and both sums after the last column. Each column writes the outer
    product φ(k) ⊗ v into fast weights and reads them with φ(q) (Schmidhuber 1992, who has no denominator).

    Columns of one call see each other through a masked [T T] product, as in softmax attention: at the lengths of
    sentences that is cheaper than the paper's running sums, which hold a [K K] matrix for each column or loop over
    time. Earlier columns are known by their sums alone, so `weights` are over the columns of this call; what a row
    lacks to 1 is the share of the earlier ones.
    """
    full = torch.promote_types(query.dtype, torch.float32)
    with torch.autocast(query.device.type, enabled=False):
        asked, kept, values = features(query.to(full)), features(key.to(full)), value.to(full)
        scores = (asked @ kept.transpose(2, 3)).tril()
        share = scores.sum(-1, keepdim=True) + asked @ total[..., None]
        context = (scores @ values + asked @ written) / share
        written, total = written + kept.transpose(2, 3) @ values, total + kept.sum(2)
    return context.to(value.dtype), scores / share if weights else None, written, total

"""Hard attention: one position, sampled with its probability, and an unbiased gradient.

In evaluation it is the most probable position: test_oracle_models.py.
"""

import itertools
import math

import pytest
import torch
from conftest import small_config
from hypothesis import given
from hypothesis import strategies as st
from tensors import EXACT, batch_of, seeds, unit
from test_oracle_models import ORDERS
from torch import Tensor
from torch.testing import assert_close

from nmt.attention import hard
from nmt.attention.hard import Reinforce, hard_attention
from nmt.attention.kernels import attend
from nmt.data.tokenizer import PAD
from nmt.models.base import DecoderOutput, EncoderDecoder, HardAttentionSamples
from nmt.models.build import build
from nmt.training.loss import training_loss


@given(
    seed=seeds,
    size=st.integers(1, 6),
    scale=st.sampled_from([0.0, 1.0, 3.0]),
    hidden=st.integers(0, 2),
)
def test_positions_are_sampled_with_their_probabilities(seed, size, scale, hidden):
    """χ² of 3,000 samples; the same seeds in every run. Masked positions are never sampled.

    What REINFORCE needs is the log-probability of the sample and the entropy of the distribution.
    """
    torch.manual_seed(seed)
    scores = scale * unit(size + hidden)
    mask = torch.arange(size + hidden) < size
    repeated = scores.expand(1, 3000, -1)
    values = unit(1, size + hidden, 1)
    chosen = hard_attention(repeated, values, mask, None, True, "reinforce")
    probabilities = scores[:size].softmax(0)

    counts = chosen.weights.sum((0, 1))
    assert not counts[size:].any() and counts.sum() == 3000
    wanted = 3000 * probabilities
    common = wanted >= 5  # where χ² holds
    distance = ((counts[:size] - wanted) ** 2 / wanted)[common].sum()
    assert distance < 5 + 6 * size  # beyond 1 in 10⁵ for one degree of freedom, and for more
    assert counts[:size][~common].sum() <= 5 * size + 20

    positions = chosen.weights.argmax(-1)
    assert chosen.weights.max(-1).values.eq(1).all()
    assert_close(chosen.context, values[0][positions], **EXACT)
    assert_close(chosen.log_probability, probabilities.log()[positions], **EXACT)
    entropy = -(probabilities * probabilities.log()).sum()
    assert_close(chosen.entropy, entropy.expand(1, 3000), **EXACT)


@given(
    seed=seeds,
    columns=st.integers(1, 4),
    size=st.integers(1, 8),
    hidden=st.integers(0, 3),
    local=st.booleans(),
)
def test_straight_through_has_the_gradient_of_the_softmax(seed, columns, size, hidden, local):
    """With respect to the scores, for the same gradient of the context; forward it is one-hot."""
    torch.manual_seed(seed)
    scores = unit(2, columns, size + hidden).requires_grad_()
    values = unit(2, size + hidden, 5)
    mask = torch.arange(size + hidden) < size
    prior = torch.rand(2, columns, size + hidden, dtype=torch.float64) if local else None
    upstream = unit(2, columns, 5)
    chosen = hard_attention(scores, values, mask, prior, True, "straight_through")
    soft, _ = attend(scores, values, mask, prior)
    gradients = []
    for context in (chosen.context, soft):
        gradients.append(torch.autograd.grad((context * upstream).sum(), scores)[0])
    assert_close(*gradients, **EXACT)
    positions = chosen.weights.argmax(-1, keepdim=True)
    one_hot = torch.zeros_like(scores).scatter(-1, positions, 1.0)
    assert_close(chosen.weights, one_hot if prior is None else one_hot * prior, **EXACT)
    assert chosen.log_probability is chosen.entropy is None


def test_the_loss_of_reinforce_by_hand():
    """Baseline −4, rewards −1 and −3 (advantages 3 and 1), entropies ½ and ¼ at weight 2; then 0.9
    · −4 + 0.1 · −2."""
    reinforce = Reinforce(entropy_weight=2.0, initial_baseline=-4.0)
    log_probability = torch.tensor([-0.5, -2.0], requires_grad=True)
    entropy = torch.tensor([0.5, 0.25], requires_grad=True)
    reward = torch.tensor([-1.0, -3.0], requires_grad=True)
    loss = reinforce(log_probability, entropy, reward)
    assert loss.item() == pytest.approx(3 * 0.5 + 1 * 2.0 - 2 * 0.75)
    loss.backward()
    assert log_probability.grad.tolist() == [-3.0, -1.0] and entropy.grad.tolist() == [-2.0, -2.0]
    assert reward.grad is None
    reinforce.update_baseline(torch.tensor(-2.0), skip=torch.tensor(0.0))
    assert reinforce.baseline.item() == pytest.approx(-3.8)
    reinforce.update_baseline(torch.tensor(math.nan), skip=torch.tensor(1.0))
    assert reinforce.baseline.item() == pytest.approx(-3.8)


def gradients(loss: Tensor, model: EncoderDecoder) -> list[Tensor]:
    parameters = list(model.parameters())
    return list(torch.autograd.grad(loss, parameters, retain_graph=True, materialize_grads=True))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("window", "baseline"), [("global", 0.0), ("local_p", -7.0)])
def test_the_estimate_is_unbiased(small_model, monkeypatch, order, window, baseline):
    """The mean over all samples, weighted by probability, is the gradient of the objective, for any
    baseline.

    The objective: the sum over words of a word's expected log p over its own sample, given the
    earlier ones. Where no later word depends on a sample, that is the gradient of the expectation
    of the sum.
    """
    entropy_weight = 0.3
    name, changes = ORDERS[order]
    model = small_model(
        name,
        attention_type="hard",
        hard_attention_entropy=entropy_weight,
        window=window,
        dropout=0.0,
        **changes,
    ).train()
    model.reinforce.baseline.fill_(baseline)
    batch = batch_of([3], [2])
    mean = [torch.zeros_like(parameter) for parameter in model.parameters()]
    objective = expectation = total = torch.zeros((), dtype=torch.float64)
    for positions in itertools.product(range(3), repeat=2):
        remaining = iter(positions)

        def next_positions(log_probabilities: Tensor, remaining=remaining) -> Tensor:
            return torch.tensor([[next(remaining) for _ in log_probabilities[0]]])

        monkeypatch.setattr(hard, "sample", next_positions)
        decoded = model(*batch[:3])
        log_probabilities = decoded.samples.log_probability[0]
        probability = log_probabilities.sum().exp()
        weight = probability.detach()
        loss, _ = training_loss(model, decoded, batch.output, batch.real, 0.0)
        for place, gradient in enumerate(gradients(loss, model)):
            mean[place] += weight * gradient
        log_p = model.logits(decoded.hidden).log_softmax(-1)[0, range(2), batch.output[0]]
        # Of a word's own sample
        own = weight * (log_probabilities - log_probabilities.detach()).exp()
        entropy = entropy_weight * decoded.samples.entropy[0].sum()
        objective = objective - (own * log_p).sum() - weight * entropy
        expectation = expectation - probability * (log_p.sum() + entropy)
        total = total + weight
    assert total.item() == pytest.approx(1)
    assert_close(mean, gradients(objective, model), **EXACT)
    differences = []
    for estimated, exact in zip(mean, gradients(expectation, model), strict=True):
        differences.append((estimated - exact).abs().max().item())
    assert (max(differences) < 1e-10) == (order == "after")


@pytest.mark.parametrize("order", ORDERS)
def test_the_baseline_begins_at_the_reward_of_a_guess_and_follows_the_mean_of_an_update(order):
    """Of a guess among the target pieces; 0.9 of it and 0.1 of the mean log p."""
    name, changes = ORDERS[order]
    config = small_config(name, (("attention_type", "hard"), *changes.items()))
    model = build(config, 60, 50, False)
    assert model.reinforce.baseline.item() == pytest.approx(-math.log(50))
    model.end_update([torch.tensor(2.0)], skip=torch.tensor(0.0))
    assert model.reinforce.baseline.item() == pytest.approx(-0.9 * math.log(50) - 0.1 * 2)


def test_padding_is_not_rewarded(small_model):
    """A policy that is NaN in the padded columns changes neither loss nor gradient."""
    model = small_model("bahdanau_hard", dropout=0.0).train()
    batch = batch_of([5, 5], [2, 5])
    hidden = torch.randn(2, 5, 32, dtype=torch.float64, requires_grad=True)
    real = batch.output != PAD
    values = torch.where(real, -1.0, math.nan).double().requires_grad_()
    decoded = DecoderOutput(hidden, None, {}, samples=HardAttentionSamples(values, values))
    loss, _ = training_loss(model, decoded, batch.output, batch.real, 0.0)
    loss.backward()
    assert loss.isfinite() and hidden.grad.isfinite().all()
    assert ((values.grad != 0) == real).all()

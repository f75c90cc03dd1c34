"""Hard attention: one position, sampled with its probability, and an unbiased gradient."""

import itertools
import math

import numpy as np
import oracle
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_attention import MEMORY, QUERY, RADIUS, attend_to, each, make, paper_parameters, unit
from torch import Tensor
from torch.testing import assert_close

from nmt.attention import hard
from nmt.attention.hard import Reinforce, hard_attention
from nmt.attention.kernels import attend
from nmt.attention.scores import SCORES
from nmt.attention.windows import WINDOWS
from nmt.data.batches import Batch, collate
from nmt.data.tokenizer import PAD
from nmt.models.base import DecoderOutput, EncoderDecoder, HardAttentionSamples
from nmt.training.loss import training_loss

EXACT = {"atol": 1e-10, "rtol": 0}
seeds = st.integers(0, 2**32 - 1)
ORDERS = ["before", "after", "after, fed"]


def example(order: str, small_model, **changes: object) -> EncoderDecoder:
    """A narrow hard model without dropout, in training."""
    changes = {"attention_type": "hard", "dropout": 0.0, **changes}
    if order == "before":
        return small_model("bahdanau", **changes).train()
    return small_model("luong_global", input_feeding=order == "after, fed", **changes).train()


def one_pair(source: int, target: int) -> Batch:
    """One sentence of these numbers of pieces, </s> counted."""
    return collate([np.arange(8, 7 + source)], [np.arange(20, 19 + target)])


@each
def test_the_most_probable_position_is_the_oracles(score, window):
    """In evaluation, over sources of 1, 5 … 57 pieces."""
    torch.manual_seed(1)
    attention = make(score, window, attention_type="hard").eval()
    lengths = torch.arange(1, 61, 4)
    p = paper_parameters(attention)
    query = unit(15, 3, QUERY)
    memory = unit(15, 60, MEMORY)
    step = torch.randint(0, 60, (15, 3))
    outputs = attend_to(attention, query, memory, step, lengths)
    context, weights, query, memory = (
        part.detach().double().numpy() for part in (*outputs, query, memory)
    )
    for row, length in enumerate(lengths.tolist()):
        source = memory[row, :length]
        wanted = oracle.attention(
            score, window, RADIUS, query[row], source, step[row].numpy(), p, hard=True
        )
        for output, answer in zip((context[row], weights[row, :, :length]), wanted, strict=True):
            np.testing.assert_allclose(output, answer, rtol=0, atol=1e-10)
        assert not weights[row, :, length:].any()


@given(
    seed=seeds,
    score=st.sampled_from(list(SCORES)),
    window=st.sampled_from(list(WINDOWS)),
    gradient=st.sampled_from(hard.GRADIENTS),
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=3),
    training=st.booleans(),
)
def test_one_visible_position_has_all_the_weight(seed, score, window, gradient, lengths, training):
    torch.manual_seed(seed)
    attention = make(score, window, radius=2, attention_type="hard", gradient=gradient).train(
        training
    )
    query = unit(len(lengths), 4, QUERY)
    memory = unit(len(lengths), max(lengths), MEMORY)
    length = torch.tensor(lengths)
    step = torch.arange(4).expand(len(lengths), 4)
    mask = torch.arange(max(lengths)) < length[:, None]
    attended = attention(query, attention.keys(memory), memory, step, length, mask)
    assert ((attended.weights != 0).sum(-1) == 1).all()
    assert not attended.weights.masked_select(~mask[:, None]).any()
    assert window in oracle.PRIORS or set(attended.weights.unique().tolist()) <= {0.0, 1.0}
    assert (
        attended.p_t is None
        or ((attended.weights.argmax(-1) - attended.p_t).abs() <= 2 + 1e-5).all()
    )
    assert_close(attended.context, attended.weights @ memory, **EXACT)
    rewarded = training and gradient == "reinforce"
    assert (attended.log_probability is not None) == (attended.entropy is not None) == rewarded
    if rewarded:
        assert (attended.log_probability <= 0).all() and (attended.entropy >= -1e-12).all()
        assert (attended.entropy <= length[:, None].log() + 1e-12).all()


@given(
    seed=seeds,
    size=st.integers(1, 6),
    scale=st.sampled_from([0.0, 1.0, 3.0]),
    hidden=st.integers(0, 2),
)
def test_positions_are_sampled_with_their_probabilities(seed, size, scale, hidden):
    """χ² of 3,000 samples; the same seeds in every run. Masked positions are never sampled."""
    torch.manual_seed(seed)
    scores = scale * torch.randn(size + hidden)
    mask = torch.arange(size + hidden) < size
    repeated = scores.expand(1, 3000, -1)
    chosen = hard_attention(
        repeated, torch.ones(1, size + hidden, 1), mask, None, True, "reinforce"
    )
    counts = chosen.weights.sum((0, 1)).double()
    probabilities = scores[:size].double().softmax(0)
    assert not counts[size:].any() and counts.sum() == 3000
    wanted = 3000 * probabilities
    common = wanted >= 5  # where χ² holds
    distance = ((counts[:size] - wanted) ** 2 / wanted)[common].sum()
    assert distance < 5 + 6 * size  # beyond 1 in 10⁵ for one degree of freedom, and for more
    assert counts[:size][~common].sum() <= 5 * size + 20


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
    score_gradients = [
        torch.autograd.grad((context * upstream).sum(), scores)[0]
        for context in (chosen.context, soft)
    ]
    assert_close(*score_gradients, **EXACT)
    assert ((chosen.weights != 0).sum(-1) == 1).all()
    assert local or chosen.weights.sum(-1).eq(1).all()


def test_a_choice_by_hand(monkeypatch):
    """Probabilities ⅛, ⅜, ½ of scores ln 1, ln 3, ln 4, one masked; the second is sampled, the
    third is the largest."""
    monkeypatch.setattr(
        hard, "sample", lambda log_probabilities: torch.ones(1, 1, dtype=torch.long)
    )
    scores = torch.tensor([[[1.0, 3.0, 4.0, 9.0]]], dtype=torch.float64).log()
    values = torch.tensor([[[8.0], [16.0], [2.0], [1e3]]], dtype=torch.float64)
    mask = torch.tensor([[[True, True, True, False]]])
    prior = torch.tensor([[[1.0, 0.25, 0.5, 1.0]]]).double()
    sampled = hard_attention(scores, values, mask, prior, True, "reinforce")
    assert sampled.weights.tolist() == [[[0.0, 0.25, 0.0, 0.0]]] and sampled.context.item() == 4.0
    assert sampled.log_probability.item() == pytest.approx(math.log(3 / 8))
    entropy = math.log(8) / 8 + 3 * math.log(8 / 3) / 8 + math.log(2) / 2
    assert sampled.entropy.item() == pytest.approx(entropy)
    largest = hard_attention(scores, values, mask, prior, False, "reinforce")
    assert largest.weights.tolist() == [[[0.0, 0.0, 0.5, 0.0]]] and largest.context.item() == 1.0
    assert largest.log_probability is None and largest.entropy is None


def test_the_loss_of_reinforce_by_hand():
    """Baseline −4, rewards −1 and −3 (advantages 3 and 1), entropies ½ and ¼ at weight 2; then 0.9
    · −4 + 0.1 · −2."""
    reinforce = Reinforce(entropy_weight=2.0, initial_baseline=-4.0)
    log_probability = torch.tensor([-0.5, -2.0], requires_grad=True)
    entropy, reward = (torch.tensor(v, requires_grad=True) for v in ([0.5, 0.25], [-1.0, -3.0]))
    loss = reinforce(log_probability, entropy, reward)
    assert loss.item() == pytest.approx(3 * 0.5 + 1 * 2.0 - 2 * 0.75)
    loss.backward()
    assert log_probability.grad.tolist() == [-3.0, -1.0] and entropy.grad.tolist() == [-2.0, -2.0]
    assert reward.grad is None
    assert reinforce.baseline.item() == -4
    reinforce.update_baseline(torch.tensor(-2.0), skip=torch.tensor(0.0))
    assert reinforce.baseline.item() == pytest.approx(-3.8)
    reinforce.update_baseline(torch.tensor(math.nan), skip=torch.tensor(1.0))
    assert reinforce.baseline.item() == pytest.approx(-3.8)


def gradients(loss: Tensor, model: EncoderDecoder) -> list[Tensor]:
    return list(
        torch.autograd.grad(
            loss, list(model.parameters()), retain_graph=True, materialize_grads=True
        )
    )


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("window", "baseline"), [("global", 0.0), ("local_p", -7.0)])
def test_the_estimate_is_unbiased(small_model, monkeypatch, order, window, baseline):
    """The mean over all samples, weighted by probability, is the gradient of the objective, for any
    baseline.

    The objective: the sum over words of a word's expected log p over its own sample, given the
    earlier ones. Where no later word depends on a sample, that is the gradient of the expectation
    of the sum.
    """
    model = example(order, small_model, window=window, hard_attention_entropy=0.3)
    batch = one_pair(3, 2)
    entropy = 0.3
    mean: list[Tensor] = [torch.zeros_like(parameter) for parameter in model.parameters()]
    objective = expectation = total = torch.zeros((), dtype=torch.float64)
    for positions in itertools.product(range(3), repeat=2):
        left = iter(positions)
        monkeypatch.setattr(
            hard, "sample", lambda rows, left=left: torch.tensor([[next(left) for _ in rows[0]]])
        )
        decoded = model(*batch[:3])
        log_probabilities = decoded.samples.log_probability[0]
        probability = log_probabilities.sum().exp()
        model.reinforce.baseline.fill_(baseline)
        estimate = gradients(training_loss(model, decoded, batch.output, batch.real, 0.0)[0], model)
        mean = [
            total + probability.detach() * part for total, part in zip(mean, estimate, strict=True)
        ]
        log_p = model.logits(decoded.hidden).log_softmax(-1)[0, range(2), batch.output[0]]
        # of a word's own sample
        own = probability.detach() * (log_probabilities - log_probabilities.detach()).exp()
        entropies = decoded.samples.entropy[0].sum()
        objective = objective - (own * log_p).sum() - entropy * probability.detach() * entropies
        expectation = expectation - probability * (log_p.sum() + entropy * entropies)
        total = total + probability.detach()
    assert total.item() == pytest.approx(1)
    assert_close(mean, gradients(objective, model), **EXACT)
    wanted = gradients(expectation, model)
    exact = all(
        torch.allclose(*pair, atol=1e-10, rtol=0) for pair in zip(mean, wanted, strict=True)
    )
    assert exact == (order == "after")


def test_padding_is_not_rewarded(small_model):
    """A policy that is NaN in the padded columns changes neither loss nor gradient nor baseline."""
    model = small_model("bahdanau_hard", dropout=0.0).train()
    batch = collate([np.arange(8, 12)] * 2, [np.arange(20, 21), np.arange(20, 24)])
    hidden = torch.randn(2, 5, 32, dtype=torch.float64, requires_grad=True)
    real = batch.output != PAD
    values = torch.where(real, -1.0, math.nan).double().requires_grad_()
    decoded = DecoderOutput(hidden, None, {}, samples=HardAttentionSamples(values, values))
    loss, nll = training_loss(model, decoded, batch.output, batch.real, 0.0)
    loss.backward()
    assert loss.isfinite() and hidden.grad.isfinite().all()
    assert ((values.grad != 0) == real).all()
    model.end_update([nll.detach() / real.sum()], skip=torch.tensor(0.0))
    wanted = -0.9 * math.log(50) - 0.1 * nll.item() / real.sum().item()
    assert model.reinforce.baseline.item() == pytest.approx(wanted)

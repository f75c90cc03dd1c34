"""Fisher information, against the sum over all that a model may write."""

import pytest
import torch

from nmt.data.batches import collate
from nmt.data.tokenizer import BOS, EOS
from nmt.training.fisher import fisher_information


def test_it_is_the_mean_square_of_the_gradient_over_what_the_model_may_write(small_model):
    model = small_model("transformer_tiny")
    with torch.no_grad():
        model.output.weight *= 3  # so that some pieces are much more probable than others
    # of different lengths: padding counts nothing, and sources are longer
    pairs = [([5, 6, 7, 5, 6, 7, 5], [8, 9]), ([6, 5, 7, 6], [9])]
    weights = dict(model.named_parameters())
    exact = dict.fromkeys(weights, 0.0)
    tokens = 0
    for source, target in pairs:
        memory = model.encode(torch.tensor([[*source, EOS]]), None)
        inputs = torch.tensor([[BOS, *target]])
        hidden = model.decode(inputs, model.start(memory), memory).hidden[0]
        log_probabilities = model.logits(hidden).log_softmax(-1)  # [T V]
        tokens += len(log_probabilities)
        for log_probability in log_probabilities.flatten():
            gradients = torch.autograd.grad(
                log_probability, list(weights.values()), retain_graph=True, allow_unused=True
            )
            for key, gradient in zip(weights, gradients, strict=True):
                if gradient is not None:
                    square = gradient.square().sum()
                    exact[key] += float(log_probability.detach().exp() * square)

    sources, targets = zip(*pairs, strict=True)
    batch = collate(sources, targets)
    drawn = fisher_information(model, [batch] * 400)
    assert drawn.keys() == exact.keys()
    for key, total in exact.items():
        assert float(drawn[key].sum()) == pytest.approx(total / tokens, rel=0.4, abs=1e-12), key

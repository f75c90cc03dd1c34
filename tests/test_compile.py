"""A training through torch.compile computes the same as one without."""

import shutil
from collections import Counter
from itertools import count

import numpy as np
import pytest
import torch
from test_train_step import RandomBatches, make_step
from torch.testing import assert_close

from nmt.data.batches import Cursor
from nmt.models.base import DecoderOutput
from nmt.training.train_step import TrainStep


def slow_compiler(test):
    """PyTorch's compiler warns of what it does itself."""
    for mark in (pytest.mark.slow, pytest.mark.filterwarnings("default")):
        test = mark(test)
    return pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")(test)


def train_step(compiled: str, *words: str) -> TrainStep:
    """Four batches of different lengths, again and again."""
    # sentences and the longest
    random = np.random.default_rng(1)
    shapes = [(9, 20), (14, 12), (25, 7), (4, 31)]
    lengths = [
        tuple(random.integers(2, longest, size).tolist() for _ in range(2))
        for size, longest in shapes
    ]
    return make_step(
        "model=transformer_tiny",
        f"train.compile={compiled}",
        *words,
        batches=RandomBatches(*lengths),
    )


def test_what_cannot_be_compiled_is_left_to_pytorch(caplog):
    """The update is made again from its first batch, and is that of a training without
    torch.compile."""
    wanted = train_step("false").update()
    step = train_step("false")
    calls = count()

    def forward(*inputs: torch.Tensor | None) -> DecoderOutput:
        if next(calls) == 1:
            raise torch._dynamo.exc.BackendCompilerFailed(
                lambda: None, RuntimeError("no kernel"), None
            )
        return step.model(*inputs)

    step.forward = forward
    assert step.update() == wanted and step.forward is step.model
    assert "no kernel" in caplog.text


@slow_compiler
def test_compiled_updates_are_the_same():
    """Four updates over batches of several lengths; the model's own weights are trained, not a
    copy.

    The output of the trained models is compared, not single weights: those with hardly a gradient,
    such as the biases of keys, follow the last digit of it under AdamW.
    """
    torch._dynamo.utils.counters.clear()
    outcomes = []
    for compile_it in ("false", "true"):
        step = train_step(compile_it, "model.dropout=0")
        losses = [step.update()["loss"] for _ in range(4)]
        batch = step.batches.batch(Cursor(0, 0, 0))
        model = step.model.eval()
        with torch.no_grad():
            logits = model.logits(model(batch.source, batch.mask, batch.target).hidden)
        outcomes.append((torch.tensor(losses), logits.log_softmax(-1)))
    assert Counter(torch._dynamo.utils.counters["stats"])["unique_graphs"] >= 1
    assert not torch._dynamo.utils.counters["graph_break"], (
        "the model is compiled in pieces, slowly and to less speed"
    )
    (expected_losses, expected), (losses, log_probabilities) = outcomes
    assert expected_losses[0] - expected_losses[-1] > 0.1
    assert_close(losses, expected_losses, atol=1e-4, rtol=0)
    assert_close(log_probabilities, expected, atol=1e-2, rtol=0)

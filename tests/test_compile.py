"""A training through torch.compile is the training without."""

import shutil

import pytest
import torch
from bench_synthetic import Synthetic, configuration
from torch.testing import assert_close

TINY = ["model=transformer_tiny", "model.dropout=0", "train.batch_tokens=200", "optim.warmup_steps=1"]


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # PyTorch's compiler warns of what it does itself
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_compiled_updates_are_the_same():
    """Batches of several lengths, after four updates; the weights themselves are trained, not a copy."""
    found = []
    for compiled in ("false", "true"):
        words = [*TINY, f"train.compile={compiled}"]
        trainer = Synthetic(configuration(words, "cpu", "fp32"), 50, 4)
        losses = [trainer.update()["loss"] for _ in range(4)]
        found.append((torch.tensor(losses), dict(trainer.model.named_parameters())))
    assert trainer.forward is not trainer.model
    (plain, weights), (compiled_losses, compiled_weights) = found
    assert plain[0] - plain[-1] > 0.1
    assert_close(compiled_losses, plain, atol=1e-4, rtol=0)
    for name, weight in weights.items():
        assert_close(compiled_weights[name], weight, atol=1e-3, rtol=0)

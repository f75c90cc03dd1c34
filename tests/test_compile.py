"""A training through torch.compile is the training without."""

import shutil
from collections import Counter
from pathlib import Path

import pytest
import torch
from bench_gpu import configuration
from benchmarks.training import trainer_on_synthetic
from torch.testing import assert_close

from nmt.errors import UserError
from nmt.train.compiled import compiled
from nmt.train.trainer import Trainer

TINY = ["model=transformer_tiny", "train.batch_tokens=200", "optim.warmup_steps=1", "train.accumulate=2"]
slow_compiler = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),  # PyTorch's compiler warns of what it does itself
    pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler"),
]


def trainer(folder: Path, way: str, *words: str) -> Trainer:
    config = configuration([*TINY, f"train.compile={way}", *words], "cpu", "fp32")
    return trainer_on_synthetic(config, 50, 4, folder)


@pytest.mark.parametrize("way", [pytest.param("true", marks=slow_compiler)])
def test_compiled_updates_are_the_same(way, tmp_path):
    """Batches of several lengths, after four updates; the weights themselves are trained, not a copy.

    What the trained models write is compared, not single weights: those with hardly a gradient, such as the biases of
    keys, go where AdamW takes the last digit of it.
    """
    torch._dynamo.utils.counters.clear()
    found = []
    for one in ("false", way):
        made = trainer(tmp_path, one, "model.dropout=0")
        losses = [made.update()["loss"] for _ in range(4)]
        batch, model = made.epochs.batch(0, 0), made.model.eval()
        with torch.no_grad():
            logits = model.logits(model(batch.source, batch.mask, batch.target).hidden)
        found.append((torch.tensor(losses), logits.log_softmax(-1)))
    assert Counter(torch._dynamo.utils.counters["stats"])["unique_graphs"] >= 1
    (plain, wanted), (losses, written) = found
    assert plain[0] - plain[-1] > 0.1
    assert_close(losses, plain, atol=1e-4, rtol=0)
    assert_close(written, wanted, atol=1e-2, rtol=0)


@pytest.mark.parametrize("way", [pytest.param("true", marks=slow_compiler)])
def test_compiled_dropout_drops_anew_each_time(way, tmp_path):
    made = trainer(tmp_path, way, "model.dropout=0.3")
    made.model.train()
    batch = made.epochs.batch(0, 0)
    first, second = (made.forward(batch.source, batch.mask, batch.target).hidden for _ in range(2))
    assert (first - second).abs().max() > 0.01
    losses = [made.update()["loss"] for _ in range(8)]
    assert losses[0] - losses[-1] > 0.1


def test_what_cannot_be_compiled_is_said_in_a_sentence(monkeypatch):
    def broken(*inputs):
        raise torch._dynamo.exc.InternalTorchDynamoError("no compiler\nand a long story")

    monkeypatch.setattr(torch, "compile", lambda model, dynamic: broken)
    with pytest.raises(UserError, match="train.compile=true does not work here: no compiler; choose"):
        compiled(None)(None, None, None)

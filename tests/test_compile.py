"""A training through torch.compile computes the same as one without."""

import shutil
import warnings
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import count

import numpy as np
import pytest
import torch
from conftest import TORCHS_OWN
from torch.testing import assert_close

from nmt.attention import flex
from nmt.config.compose import compose_all
from nmt.data.batches import Batch, Cursor, collate
from nmt.data.tokenizer import EOS
from nmt.models.base import DecoderOutput
from nmt.models.build import build
from nmt.training.distributed import World
from nmt.training.optimizers import make_optimizer
from nmt.training.state import TrainState
from nmt.training.train_step import TrainStep

VOCABULARY = 50
TINY = ["model=transformer_tiny", "optim.warmup_steps=1", "train.accumulate=2", "train.max_steps=1000000"]
slow_compiler = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),  # PyTorch's compiler warns of what it does itself
    pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler"),
]
every_way = pytest.mark.parametrize("compiled", [pytest.param("true", marks=slow_compiler)])


class RandomBatches:
    """Four batches of random ids and different lengths, again and again."""

    def __init__(self) -> None:
        random = np.random.default_rng(1)
        shapes = [(9, 20), (14, 12), (25, 7), (4, 31)]  # sentences and the longest of them
        self.batches = [
            collate(*([random.integers(EOS + 1, VOCABULARY, random.integers(2, longest)) for _ in range(count)]
                      for _ in range(2)))
            for count, longest in shapes
        ]  # fmt: skip

    def stream(self, cursor: Cursor, *_: object, **__: object) -> Iterator[tuple[Cursor, Batch]]:
        while True:
            yield cursor, self.batches[cursor.position % len(self.batches)]
            cursor = self.skip(cursor, 1)

    def skip(self, cursor: Cursor, count: int) -> Cursor:
        return cursor._replace(position=cursor.position + count)


def train_step(compiled: str, *words: str) -> TrainStep:
    config = compose_all([*TINY, "device=cpu", f"train.compile={compiled}", *words], multirun=False)[0]
    torch.manual_seed(config.seed)
    model = build(config.model, VOCABULARY, VOCABULARY, True)
    optimizer, state = make_optimizer(model, config.optim), TrainState(total_steps=10**6)
    return TrainStep(config, model, optimizer, RandomBatches(), state, torch.float32, World())  # type: ignore[arg-type]


@every_way
def test_compiled_updates_are_the_same(compiled):
    """Four updates over batches of several lengths; the model's own weights are trained, not a copy.

    The output of the trained models is compared, not single weights: those with hardly a gradient, such as the biases
    of keys, follow the last digit of it under AdamW.
    """
    torch._dynamo.utils.counters.clear()
    outcomes = []
    for compile_it in ("false", compiled):
        step = train_step(compile_it, "model.dropout=0")
        losses = [step.update()["loss"] for _ in range(4)]
        batch, model = RandomBatches().batches[0], step.model.eval()
        with torch.no_grad():
            logits = model.logits(model(batch.source, batch.mask, batch.target).hidden)
        outcomes.append((torch.tensor(losses), logits.log_softmax(-1)))
    assert Counter(torch._dynamo.utils.counters["stats"])["unique_graphs"] >= 1
    (expected_losses, expected), (losses, log_probabilities) = outcomes
    assert expected_losses[0] - expected_losses[-1] > 0.1
    assert_close(losses, expected_losses, atol=1e-4, rtol=0)
    assert_close(log_probabilities, expected, atol=1e-2, rtol=0)


@every_way
def test_compiled_dropout_is_random_each_time(compiled):
    step = train_step(compiled, "model.dropout=0.3")
    step.model.train()
    batch = RandomBatches().batches[0]
    first, second = (step.forward(batch.source, batch.mask, batch.target) for _ in range(2))
    assert (first.hidden - second.hidden).abs().max() > 0.01
    assert first.state == {}, "keys and values of all columns would be kept"
    losses = [step.update()["loss"] for _ in range(8)]
    assert losses[0] - losses[-1] > 0.1


def not_compiled() -> Exception:
    return torch._dynamo.exc.BackendCompilerFailed(lambda: None, RuntimeError("no kernel"), None)


def test_what_cannot_be_compiled_is_left_to_pytorch(caplog):
    """The update is made again from its first batch, and is that of a training without torch.compile."""
    wanted, step, calls = train_step("false").update(), train_step("false"), count()

    def forward(*inputs: torch.Tensor | None) -> DecoderOutput:
        if next(calls) == 1:
            raise not_compiled()
        return step.model(*inputs)

    step.forward = forward
    assert step.update() == wanted and step.forward is step.model
    assert "no kernel" in caplog.text and "without train.compile" in caplog.text


def test_a_backward_pass_of_flexattention_that_cannot_be_compiled_is_made_explicitly(monkeypatch, caplog):
    """The update is made again; without FlexAttention in use the error is raised."""
    wanted, real = train_step("false").update(), torch.Tensor.backward
    compiled = flex.CompiledFlexAttention()

    @cache
    def in_use() -> flex.CompiledFlexAttention:
        return compiled

    def backward(loss: torch.Tensor) -> None:
        real(loss)
        if compiled.works:
            raise not_compiled()

    monkeypatch.setattr(flex, "compiled_flex_attention", in_use)
    monkeypatch.setattr(torch.Tensor, "backward", backward)
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed):
        train_step("false").update()
    in_use()
    flex.warn_of_explicit_attention.cache_clear()
    assert train_step("false").update() == wanted and not compiled.works
    assert "no kernel" in caplog.text


@pytest.mark.filterwarnings(*TORCHS_OWN)
def test_warnings_of_pytorch_are_accepted_on_a_gpu_and_others_are_not():
    warnings.warn_explicit("slow", FutureWarning, "runtime.py", 1, module="torch._inductor.runtime")
    with pytest.raises(DeprecationWarning):
        warnings.warn_explicit("old", DeprecationWarning, "trainer.py", 1, module="nmt.training.trainer")

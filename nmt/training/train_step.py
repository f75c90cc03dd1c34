"""One update of the weights."""

import math
from collections.abc import Iterator
from itertools import islice

import torch

from nmt.config import Config
from nmt.data.batches import Batch, BatchIterator, Cursor
from nmt.data.tokenizer import PAD
from nmt.models.base import EncoderDecoder
from nmt.training.compile import compile_forward
from nmt.training.divergence import check_finite
from nmt.training.loss import training_loss
from nmt.training.metrics import TrainMetrics
from nmt.training.precision import autocast
from nmt.training.schedule import learning_rate
from nmt.training.state import TrainState

ENDLESS = 10**9  # updates, for the schedule while max_minutes has not been converted


class TrainStep:
    """Forward and backward pass over `train.accumulate` batches, clipping, and a step of the optimizer.

    `update` continues the batches after `state` and brings it and `metrics` up to date. The model's device is the
    batches' device; `dtype` is that of autocast.
    """

    def __init__(
        self,
        config: Config,
        model: EncoderDecoder,
        optimizer: torch.optim.Optimizer,
        batches: BatchIterator,
        state: TrainState,
        dtype: torch.dtype,
    ) -> None:
        self.config, self.model, self.optimizer, self.state, self.dtype = config, model, optimizer, state, dtype
        self.device = next(model.parameters()).device
        # Validation and search use the model itself, which has the same weights.
        self.forward = compile_forward(model) if config.train.compile else model
        self.batches = batches
        self.stream = stream_from(batches, state, pinned=self.device.type == "cuda")
        self.metrics = TrainMetrics()

    def update(self) -> dict[str, float]:
        """One update; returns its loss, the mean −log p of its target tokens, and learning rate.

        Raises TrainingDiverged before the weights change if loss or gradient norm is not finite.
        """
        state, optim = self.state, self.config.optim
        batches = list(islice(self.stream, self.config.train.accumulate))
        tokens = sum(batch.tokens for batch in batches)
        self.model.train()
        nll = sum(self.backward(batch.to(self.device), tokens) for batch in batches)
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), optim.clip_norm or math.inf).item()
        check_finite(nll / tokens, norm, self.model.output.out_features, self.describe_last_batch)
        lr = learning_rate(optim, state.step + 1, state.total_steps or ENDLESS)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.step()
        self.optimizer.zero_grad()
        state.step += 1
        state.tokens += tokens
        self.metrics.add(nll, tokens, sum(batch.padding for batch in batches) / len(batches), norm)
        return {"loss": nll / tokens, "lr": lr}

    def backward(self, batch: Batch, tokens: int) -> float:
        """Add one batch's gradients of loss / tokens; returns its summed −log p."""
        with autocast(self.device, self.dtype):
            decoded = self.forward(batch.source, batch.mask, batch.target)
            loss, nll = training_loss(self.model, decoded, batch.output, PAD, self.config.train.label_smoothing)
        (loss / tokens).backward()
        return nll.item()

    def describe_last_batch(self) -> str:
        """Number, epoch and corpus lines of the batch that was read last."""
        return self.batches.describe_batch(self.state.epoch, self.state.shard, self.state.position - 1)


def stream_from(batches: BatchIterator, state: TrainState, pinned: bool) -> Iterator[Batch]:
    """The batches from `state` on, which moves with them; no method, since a generator would keep its object alive."""
    for cursor, batch in batches.stream(Cursor(state.epoch, state.shard, state.position), pinned):
        state.epoch, state.shard, state.position = cursor.epoch, cursor.shard, cursor.position + 1
        yield batch

"""One update of the weights."""

import math
from collections.abc import Iterator
from itertools import islice

import torch

from nmt.config import Config
from nmt.data.batches import Batch, BatchIterator, Cursor
from nmt.data.tokenizer import PAD
from nmt.distributed import World
from nmt.models.base import EncoderDecoder
from nmt.training.compile import compile_forward
from nmt.training.divergence import find_fault, record_loss, record_skip
from nmt.training.gradient_sum import GradientSum, OrderedSum, UnorderedSum
from nmt.training.loss import alignment_loss, training_loss
from nmt.training.metrics import TrainMetrics
from nmt.training.precision import autocast, seed_batch
from nmt.training.schedule import learning_rate
from nmt.training.state import TrainState

ENDLESS = 10**9  # updates, for the schedule while max_minutes has not been converted


class TrainStep:
    """Forward and backward pass over M micro-batches, clipping, and a step of the optimizer.

    Each of N processes computes `train.accumulate` micro-batches, M = N · accumulate: process r the r-th, (r + N)-th, …
    of the epoch's plan. The gradient is the sum over all M, divided by their real target tokens; with
    `train.ordered_sum` it has the same bits for every N that divides M. `update` continues the batches after `state`
    and brings it and `metrics` up to date. The model's device is the batches' device; `dtype` is that of autocast.
    """

    def __init__(
        self,
        config: Config,
        model: EncoderDecoder,
        optimizer: torch.optim.Optimizer,
        batches: BatchIterator,
        state: TrainState,
        dtype: torch.dtype,
        world: World,
    ) -> None:
        self.config, self.model, self.optimizer, self.state, self.dtype = config, model, optimizer, state, dtype
        self.device, self.world = next(model.parameters()).device, world
        # Validation and search use the model itself, which has the same weights.
        self.forward = compile_forward(model) if config.train.compile else model
        self.batches = batches
        cursor = Cursor(state.epoch, state.shard, state.position)
        self.stream = batches.stream(cursor, world.rank, world.size, pinned=self.device.type == "cuda")
        self.gradient_sum: GradientSum | None = None
        if world.size > 1:
            sum_class = OrderedSum if config.train.ordered_sum else UnorderedSum
            self.gradient_sum = sum_class(model.parameters(), world)
        self.metrics = TrainMetrics.from_sums(state.metrics)

    def update(self) -> dict[str, float]:
        """One update; returns its loss, the mean −log p of its target tokens, and learning rate.

        A useless one is skipped: it counts, but changes no weights. Raises TrainingDiverged if too many are skipped.
        """
        state, clip_norm = self.state, self.config.optim.clip_norm
        items = list(islice(self.stream, self.config.train.accumulate))
        batches, last = [batch for _, batch in items], items[-1][0]
        tokens = sum(int(row[0]) for row in self.world.gather([sum(batch.tokens for batch in batches)]))
        self.model.train()
        self.model.begin_update(len(batches) * self.world.size)
        figures = [self.backward(number, batch, tokens) for number, batch in enumerate(batches)]
        nll, counts, padding = self.gather_figures(figures)
        if self.gradient_sum is not None:
            self.gradient_sum.finish()
        loss = sum(nll) / tokens
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), clip_norm or math.inf).item()
        lr = learning_rate(self.config.optim, state.step + 1, state.total_steps or ENDLESS)
        fault = find_fault(state, loss, norm, self.model.output.out_features)
        state.epoch, state.shard, state.position = self.batches.skip(last, self.world.size - self.world.rank)
        if fault is None:
            self.change_weights(lr)
            self.model.end_update([each / count for each, count in zip(nll, counts, strict=True)])
            record_loss(state, loss)
            state.tokens += tokens
            self.metrics.add(sum(nll), tokens, sum(padding) / len(padding), norm)
        self.optimizer.zero_grad()
        state.step += 1
        if fault is not None:
            record_skip(state, f"{fault} in {self.batches.describe_batch(*last)}")
        return {"loss": loss, "lr": lr}

    def change_weights(self, lr: float) -> None:
        """A step of the optimizer."""
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        with autocast(self.device, self.dtype):  # for Muon's products
            self.optimizer.step()

    def backward(self, number: int, batch: Batch, tokens: int) -> tuple[float, float, float]:
        """Add the gradients of loss / tokens of this process's micro-batch `number`.

        Returns its summed −log p, its target tokens and its fraction of padding.
        """
        seed_batch(self.config.seed, self.state.step, number * self.world.size + self.world.rank)
        padding, batch = batch.padding, batch.to(self.device)
        with autocast(self.device, self.dtype):
            decoded = self.forward(batch.source, batch.mask, batch.target)
            loss, nll = training_loss(self.model, decoded, batch.output, PAD, self.config.train.label_smoothing)
            if batch.links is not None and decoded.weights is not None:
                loss = loss + self.config.train.guided_alignment * alignment_loss(decoded.weights[:, 0, 0], batch.links)
        (loss / tokens).backward()
        if self.gradient_sum is not None:
            self.gradient_sum.add()
        return nll.item(), batch.tokens, padding

    def gather_figures(self, figures: list[tuple[float, float, float]]) -> Iterator[list[float]]:
        """Three lists with the figures of all micro-batches, in the order of the plan."""
        rows = self.world.gather([value for each in figures for value in each])
        by_batch = [row[3 * number : 3 * number + 3] for number in range(len(figures)) for row in rows]
        return (list(column) for column in zip(*by_batch, strict=True))

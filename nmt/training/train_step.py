"""One update of the weights."""

import logging
import math
from itertools import islice
from typing import NamedTuple

import torch
from torch import Tensor

from nmt.attention.flex import attend_explicitly
from nmt.config.schema import Config
from nmt.data.batches import Batch, BatchIterator, Cursor
from nmt.errors import UserError
from nmt.models.base import EncoderDecoder
from nmt.training.batch_size import split_batch
from nmt.training.compile import compile_forward, failed_to_compile, reason
from nmt.training.deferred import Deferred, runs_ahead
from nmt.training.distributed import World
from nmt.training.divergence import TrainingDiverged, find_fault, loss_limit, must_skip, record_loss, record_skip
from nmt.training.gradient_sum import GradientSum, OrderedSum, UnorderedSum
from nmt.training.loss import alignment_loss, training_loss
from nmt.training.metrics import TrainMetrics
from nmt.training.precision import autocast, seed_batch
from nmt.training.schedule import learning_rate
from nmt.training.state import TrainState

NOT_COMPILED = "The backward pass cannot be compiled"
log = logging.getLogger("nmt")
ENDLESS = 10**9  # updates, for the schedule while max_minutes has not been converted


class Pending(NamedTuple):
    """An update whose figures have not been read yet."""

    figures: Deferred  # summed −log p of each micro-batch, then the gradient norm
    limit: float  # of its loss
    tokens: int
    padding: float
    last: Cursor  # of its last batch


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
        self.pending: Pending | None = None
        self.waiting: list[tuple[Cursor, Batch]] = []  # of an update that was given up
        self.loss = 0.0  # of the last update that was read

    def update(self) -> dict[str, float]:
        """One update; returns a loss, the mean −log p of its target tokens, and the learning rate.

        An invalid one is skipped: it counts, but changes no weights. That is decided on the device. A GPU is still busy
        when `update` returns: its figures are read by `settle`, at the latest when the next update has been queued, and
        the loss is that of the update before. Raises TrainingDiverged if too many are skipped; an update that had been
        queued by then is given up, and its batches come again.
        """
        state, self.model = self.state, self.model.train()
        items = self.waiting or list(islice(self.stream, self.config.train.accumulate))
        batches, last, self.waiting = [batch for _, batch in items], items[-1][0], []
        tokens = sum(int(row[0]) for row in self.world.gather([sum(batch.tokens for batch in batches)]))
        self.model.begin_update(len(batches) * self.world.size)
        nll = self.compute_gradients(batches, tokens)
        try:
            self.settle()
        except TrainingDiverged:
            self.waiting = items
            self.optimizer.zero_grad()
            raise
        nll, counts, padding = self.gather_figures(nll, batches)
        if self.gradient_sum is not None:
            self.gradient_sum.finish()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.optim.clip_norm or math.inf)
        lr = learning_rate(self.config.optim, state.step + 1, state.total_steps or ENDLESS)
        limit = loss_limit(state, self.model.output.out_features)
        skip = must_skip(sum(nll, start=nll[0].new_zeros(())) / tokens, norm, limit)
        self.change_weights(lr, skip)
        self.model.end_update([each / count for each, count in zip(nll, counts, strict=True)], skip)
        self.optimizer.zero_grad()
        state.epoch, state.shard, state.position = self.batches.skip(last, self.world.size - self.world.rank)
        state.step += 1
        numbers = Deferred(torch.stack([*nll, norm.to(nll[0])]))
        self.pending = Pending(numbers, limit, tokens, sum(padding) / len(padding), last)
        if not runs_ahead(self.device):
            self.settle()
        return {"loss": self.loss, "lr": lr}

    def settle(self) -> None:
        """Read the figures of the last update unless that has been done, and bring `state` and `metrics` up to date.

        Raises TrainingDiverged if too many updates were skipped.
        """
        if self.pending is None:
            return
        pending, self.pending, state = self.pending, None, self.state
        *nll, norm = pending.figures.read()
        self.loss = sum(nll) / pending.tokens
        fault = find_fault(state, self.loss, norm, pending.limit)
        if fault is not None:
            record_skip(state, f"{fault} in {self.batches.describe_batch(*pending.last)}")
            return
        record_loss(state, self.loss)
        state.tokens += pending.tokens
        self.metrics.add(sum(nll), pending.tokens, pending.padding, norm)

    def change_weights(self, lr: float, skip: Tensor) -> None:
        """A step of the optimizer, which changes nothing where `skip` is 1."""
        self.optimizer.found_inf = skip  # type: ignore[attr-defined]
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        with autocast(self.device, self.dtype):  # for Muon's products
            self.optimizer.step()

    def compute_gradients(self, batches: list[Batch], tokens: int) -> list[Tensor]:
        """Leave the gradients of this process's micro-batches in the parameters; returns the summed −log p of each.

        Where they do not fit into the memory, the update is begun again with batches in halves, quarters, ….
        """
        parts = 1
        while True:
            try:
                return self.all_gradients(batches, tokens, parts)
            except torch.OutOfMemoryError:
                if self.world.size > 1 or parts >= max(len(batch.source) for batch in batches):
                    raise
            self.optimizer.zero_grad()
            torch.cuda.empty_cache()  # outside of the handler, which keeps the tensors of the pass that failed
            parts *= 2
            log.warning(
                "Update %d does not fit into the memory; its batches are split into %d parts.",
                self.state.step + 1,
                parts,
            )

    def all_gradients(self, batches: list[Batch], tokens: int, parts: int) -> list[Tensor]:
        """The same with each batch in so many parts; without torch.compile where it fails."""
        try:
            return [self.backward(number, batch, tokens, parts) for number, batch in enumerate(batches)]
        except RuntimeError as error:
            if not failed_to_compile(error):
                raise
            self.stop_compiling(error)
        self.optimizer.zero_grad()
        return [self.backward(number, batch, tokens, parts) for number, batch in enumerate(batches)]

    def stop_compiling(self, error: RuntimeError) -> None:
        """Go on without what could not be compiled, train.compile or FlexAttention; raise the error if that is none.

        Several processes cannot go on, since others may have sent their gradients.
        """
        if self.forward is self.model:
            if self.world.size > 1 or not attend_explicitly(reason(error)):
                raise error
            return
        if self.world.size > 1:
            raise UserError(f"{NOT_COMPILED}: {reason(error)}; choose train.compile=false.") from None
        log.warning("%s: %s; the training goes on without train.compile.", NOT_COMPILED, reason(error))
        self.forward = self.model

    def backward(self, number: int, batch: Batch, tokens: int, parts: int = 1) -> Tensor:
        """Add the gradients of loss / tokens of this process's micro-batch `number`; returns its summed −log p."""
        seed_batch(self.config.seed, self.state.step, number * self.world.size + self.world.rank)
        nll = [self.backward_part(part.to(self.device), tokens) for part in split_batch(batch, parts)]
        if self.gradient_sum is not None:
            self.gradient_sum.add()
        return nll[0] if len(nll) == 1 else torch.stack(nll).sum()

    def backward_part(self, batch: Batch, tokens: int) -> Tensor:
        """Add the gradients of a part of a micro-batch; returns its summed −log p."""
        options = self.config.train
        copies = 2 if options.r_drop else 1  # of each pair, one after the other
        source, mask, target = batch[:3] if copies == 1 else map(doubled, batch[:3])
        with autocast(self.device, self.dtype):
            decoded = self.forward(source, mask, target)
            loss, nll = training_loss(
                self.model, decoded, batch.output, batch.real, options.label_smoothing, options.r_drop
            )
            if batch.links is not None and decoded.weights is not None:
                guided = alignment_loss(decoded.weights[:, 0, 0], batch.links.repeat_interleave(copies, 0))
                loss = loss + options.guided_alignment / copies * guided
        (loss / tokens).backward()
        return nll.detach().double()

    def gather_figures(self, nll: list[Tensor], batches: list[Batch]) -> tuple[list[Tensor], list[float], list[float]]:
        """−log p, target tokens and fraction of padding of all processes' micro-batches, in the order of the plan."""
        counts, padding = [float(batch.tokens) for batch in batches], [batch.padding for batch in batches]
        if self.world.size == 1:
            return nll, counts, padding
        figures = zip([each.item() for each in nll], counts, padding, strict=True)
        rows = self.world.gather([value for each in figures for value in each])
        by_batch = [row[3 * number : 3 * number + 3] for number in range(len(batches)) for row in rows]
        everyone, all_counts, all_padding = (list(column) for column in zip(*by_batch, strict=True))
        return list(torch.tensor(everyone, dtype=torch.float64, device=self.device)), all_counts, all_padding


def doubled(rows: Tensor | None) -> Tensor | None:
    """Each row twice, one after the other."""
    return None if rows is None else rows.repeat_interleave(2, 0)

"""One update of the weights, from a batch to its figures."""

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from nmt.attention.flex import first_lines, give_up_compiling
from nmt.config.schema import Config
from nmt.data.batches import Batch, BatchIterator, Cursor
from nmt.errors import UserError
from nmt.models.base import DecoderOutput, EncoderDecoder
from nmt.training.distributed import OrderedSum, World, all_reduce
from nmt.training.loss import alignment_loss, training_loss
from nmt.training.precision import autocast
from nmt.training.rehearsal import Rehearsal
from nmt.training.schedule import learning_rate, warmup_updates
from nmt.training.state import TrainingDiverged, TrainState

log = logging.getLogger("nmt")
ENDLESS = 10**9  # updates, for the schedule while max_minutes has not been converted


@dataclass
class TrainMetrics:
    """Sums over the updates since the last point of the TensorBoard curves."""

    nll: float = 0.0  # −Σ log p of the target tokens
    tokens: int = 0  # target tokens, </s> counted, padding not
    padding: float = 0.0  # each update's fraction of padded positions
    gradient_norm: float = 0.0
    updates: int = 0
    earlier_tokens: int = 0  # of them, those before an interruption
    started: float = field(default_factory=time.monotonic)

    def sums(self) -> dict[str, float]:
        """What `from_sums` continues with after an interruption; the speed is measured anew."""
        return {
            name: float(getattr(self, name))
            for name in ("nll", "tokens", "padding", "gradient_norm", "updates")
        }

    @classmethod
    def from_sums(cls, sums: Mapping[str, float]) -> "TrainMetrics":
        """What was stored by `sums`; an empty mapping is a new beginning."""
        metrics = cls(**{name: type(getattr(cls, name))(value) for name, value in sums.items()})
        metrics.earlier_tokens = metrics.tokens
        return metrics

    def scalars(self, learning_rate: float, device: torch.device) -> dict[str, float]:
        """The means by TensorBoard tag."""
        loss = self.nll / self.tokens
        seconds = max(time.monotonic() - self.started, 1e-9)
        return {
            "loss/train": loss,
            "perplexity/train": math.exp(min(loss, 50.0)),
            "optim/learning_rate": learning_rate,
            "optim/gradient_norm": self.gradient_norm / self.updates,
            "speed/target_tokens_per_second": (self.tokens - self.earlier_tokens) / seconds,
            "speed/padding_fraction": self.padding / self.updates,
        } | (
            {"speed/memory_gib": torch.cuda.max_memory_allocated(device) / 2**30}
            if device.type == "cuda"
            else {}
        )


class Figures:
    """What an update computed, copied to the host while the device works on what comes after it."""

    def __init__(
        self, numbers: Tensor, limit: float, tokens: int, padding: float, last: Cursor
    ) -> None:
        # summed −log p of each micro-batch, then the gradient norm
        self.numbers = numbers
        self.copied = None
        self.limit = limit
        self.tokens = tokens
        self.padding = padding
        self.last = last
        if numbers.device.type == "cuda":
            self.numbers = torch.empty_like(numbers, device="cpu", pin_memory=True).copy_(
                numbers, non_blocking=True
            )
            self.copied = torch.cuda.Event()
            self.copied.record()

    def read(self) -> list[float]:
        """The numbers; what was queued after them is not waited for."""
        if self.copied is not None:
            self.copied.synchronize()
        return self.numbers.tolist()


class TrainStep:
    """Forward and backward pass over M micro-batches, clipping, and a step of the optimizer.

    Each of N processes computes `train.accumulate` micro-batches, M = N · accumulate: process r the
    r-th, (r + N)-th, … of the epoch's plan. The gradient is the sum over all M, divided by their
    real target tokens; with `train.ordered_sum` it has the same bits for every N that divides M.
    `update` continues the batches after `state` and brings it and `metrics` up to date. The model's
    device is the batches' device; `dtype` is that of autocast.
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
        rehearsal: Rehearsal | None = None,
    ) -> None:
        self.rehearsal = rehearsal
        self.config = config
        self.model = model
        self.optimizer = optimizer
        self.state = state
        self.dtype = dtype
        self.device = next(model.parameters()).device
        self.world = world
        # operations are queued; reading a number waits for all of them
        self.runs_ahead = self.device.type == "cuda"
        # Validation and search use the model itself, which has the same weights.
        self.forward = compiled(model) if config.train.compile else model
        if state.warmup_steps is None:
            state.warmup_steps = warmup_updates(config.optim, state.scheduled_updates)
        self.batches = batches
        cursor = Cursor(state.epoch, state.shard, state.position)
        self.stream = batches.stream(cursor, world.rank, world.size, pinned=self.runs_ahead)
        ordered = world.size > 1 and config.train.ordered_sum
        self.gradient_sum = OrderedSum(model.parameters(), world) if ordered else None
        self.metrics = TrainMetrics.from_sums(state.metrics)
        self.pending: Figures | None = None
        self.waiting: list[tuple[Cursor, Batch]] = []  # of an update that was given up
        self.loss = 0.0  # of the last update that was read
        self.parts = 1  # of each batch, so that they fit into the memory
        self.positions = 0  # of sources and targets in the last update

    def update(self) -> dict[str, float]:
        """One update; returns a loss, the mean −log p of its target tokens, and the learning rate.

        An invalid one is skipped: it counts, but changes no weights. That is decided on the device.
        A GPU is still busy when `update` returns: its figures are read by `settle`, at the latest
        when the next update has been queued, and the loss is that of the update before. Raises
        TrainingDiverged if too many are skipped; an update that had been queued by then is given
        up, and its batches come again.
        """
        state = self.state
        model = self.model.train()
        optimizer = self.optimizer
        world = self.world

        # The micro-batches of this process; tokens: of all processes
        items = self.waiting or list(islice(self.stream, self.config.train.accumulate))
        batches = [batch for _, batch in items]
        last = items[-1][0]
        self.waiting = []
        tokens = sum(int(row[0]) for row in world.gather([sum(batch.tokens for batch in batches)]))
        self.positions = sum(batch.source.numel() + batch.output.numel() for batch in batches)
        model.begin_update(len(batches) * world.size)

        # Forward, loss, backward
        nll = self.add_gradients(batches, tokens)
        try:
            self.settle()
        except TrainingDiverged:
            self.waiting = items
            self.discard_gradients()
            raise

        # Exchange between the processes
        nll, counts, padding = self.gather_figures(nll, batches)
        if self.gradient_sum is not None:
            self.gradient_sum.finish()
        elif world.size > 1:
            all_reduce(model.parameters())

        # Clip; an update with a fault is skipped, 1 on the device
        norm = torch.nn.utils.clip_grad_norm_(
            model.parameters(), self.config.optim.clip_norm or math.inf
        )
        limit = state.loss_limit(model.output.out_features)
        loss = sum(nll, start=nll[0].new_zeros(())) / tokens
        skip = ((loss <= limit) & loss.isfinite() & norm.isfinite()).logical_not().float()

        # Step
        step = state.step + 1 - state.schedule_start
        total = state.scheduled_updates or ENDLESS
        lr = learning_rate(self.config.optim, state.warmup_steps or 0, step, total)
        for group in optimizer.param_groups:
            group["lr"] = lr
        optimizer.found_inf = skip  # type: ignore[attr-defined]  # PyTorch's name: the step changes nothing where it is 1
        with autocast(self.device, self.dtype):  # for Muon's products
            optimizer.step()
        model.end_update([each / count for each, count in zip(nll, counts, strict=True)], skip)
        optimizer.zero_grad()
        state.epoch, state.shard, state.position = self.batches.skip(last, world.size - world.rank)
        state.step += 1

        # Figures
        numbers = torch.stack([*nll, norm.to(nll[0])])
        self.pending = Figures(numbers, limit, tokens, sum(padding) / len(padding), last)
        if not self.runs_ahead:
            self.settle()
        return {"loss": self.loss, "lr": lr}

    def add_gradients(self, batches: list[Batch], tokens: int) -> list[Tensor]:
        """Leave the gradients of this process's micro-batches in the parameters; returns the summed
        −log p of each.

        Begun again, and gone on with, in halves, quarters, … of batches where they do not fit into
        the memory, and without torch.compile or FlexAttention where these fail. Several processes
        end instead: others may have sent their gradients.
        """
        while True:
            try:
                return [
                    self.backward(number, batch, tokens) for number, batch in enumerate(batches)
                ]
            except torch.OutOfMemoryError:
                if self.world.size > 1 or self.parts >= max(len(batch.source) for batch in batches):
                    raise
                self.parts *= 2
                update = f"Update {self.state.step + 1}"
                log.warning(
                    "%s does not fit into the memory; batches are split into %d parts.",
                    update,
                    self.parts,
                )
            except torch._dynamo.exc.TorchDynamoException as error:
                reason = f"The training cannot be compiled: {first_lines(error)}"
                if self.world.size > 1:
                    raise UserError(f"{reason}; choose train.compile=false.") from None
                if self.forward is not self.model:
                    log.warning("%s; it goes on without train.compile.", reason)
                    self.forward = self.model
                elif not give_up_compiling(error):
                    raise
            self.discard_gradients()
            # outside of the handler, which keeps the tensors of the pass that failed
            if self.device.type == "cuda":
                torch.cuda.empty_cache()

    def discard_gradients(self) -> None:
        """Forget the gradients of batches whose update is not made."""
        self.optimizer.zero_grad()
        if self.gradient_sum is not None:
            self.gradient_sum.discard()

    def backward(self, number: int, batch: Batch, tokens: int) -> Tensor:
        """Add the gradients of loss / tokens of this process's micro-batch `number`; returns its
        summed −log p."""
        train = self.config.train
        nll = list[Tensor]()
        copies = 2 if train.r_drop else 1  # of each pair, one after the other
        # Dropout and sampling depend neither on the number of processes nor on where a training was
        # interrupted
        seeds = np.random.SeedSequence(
            (self.config.seed, self.state.step, number * self.world.size + self.world.rank)
        )
        torch.manual_seed(int(seeds.generate_state(1, np.uint64)[0]))
        for part in split_batch(batch, self.parts):
            part = part.to(self.device)
            inputs = (
                part[:3]
                if copies == 1
                else [
                    None if each is None else each.repeat_interleave(copies, 0) for each in part[:3]
                ]
            )
            with autocast(self.device, self.dtype):
                decoded = self.forward(*inputs)
                loss, part_nll = training_loss(
                    self.model, decoded, part.output, part.real, train.label_smoothing, train.r_drop
                )
                if part.links is not None and decoded.weights is not None:
                    links = part.links.repeat_interleave(copies, 0)
                    loss = loss + train.guided_alignment / copies * alignment_loss(
                        decoded.weights[:, 0, 0], links
                    )
                # in one backward pass, so that the sum has one order
                if self.rehearsal is not None and not nll:
                    positions = batch.output.numel() // self.parts
                    generator = np.random.default_rng(seeds)
                    kept = self.rehearsal.loss(self.model, generator, positions)
                    loss = loss + train.rehearsal * batch.tokens * kept
            (loss / tokens).backward()
            nll.append(part_nll.detach().double())
        # A parameter that these sentences do not reach has the gradient 0, as it has among other
        # sentences: the optimizer would leave it out in this process alone. A target without words
        # does not reach Bahdanau's cell.
        for parameter in self.model.parameters():
            if parameter.requires_grad and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        if self.gradient_sum is not None:
            self.gradient_sum.add()
        return nll[0] if len(nll) == 1 else torch.stack(nll).sum()

    def gather_figures(
        self, nll: list[Tensor], batches: list[Batch]
    ) -> tuple[list[Tensor], list[float], list[float]]:
        """−log p, target tokens and fraction of padding of all processes' micro-batches, in the
        order of the plan."""
        counts = [float(batch.tokens) for batch in batches]
        padding = [batch.padding for batch in batches]
        if self.world.size == 1:
            return nll, counts, padding
        figures = zip([each.item() for each in nll], counts, padding, strict=True)
        rows = self.world.gather([value for each in figures for value in each])
        by_batch = [
            row[3 * number : 3 * number + 3] for number in range(len(batches)) for row in rows
        ]
        everyone, all_counts, all_padding = (list(column) for column in zip(*by_batch, strict=True))
        return (
            list(torch.tensor(everyone, dtype=torch.float64, device=self.device)),
            all_counts,
            all_padding,
        )

    def settle(self) -> None:
        """Read the figures of the last update unless that has been done, and bring `state` and
        `metrics` up to date.

        Raises TrainingDiverged if too many updates were skipped.
        """
        if self.pending is None:
            return
        figures = self.pending
        self.pending = None
        state = self.state
        metrics = self.metrics
        *nll, norm = figures.read()
        self.loss = sum(nll) / figures.tokens
        if not (math.isfinite(self.loss) and math.isfinite(norm) and self.loss <= figures.limit):
            state.record_skip(
                self.loss, norm, figures.limit, self.batches.describe_batch(*figures.last)
            )
            return
        state.record_loss(self.loss)
        state.tokens += figures.tokens
        metrics.nll = metrics.nll + sum(nll)
        metrics.tokens = metrics.tokens + figures.tokens
        metrics.updates = metrics.updates + 1
        metrics.padding = metrics.padding + figures.padding
        metrics.gradient_norm = metrics.gradient_norm + norm


def split_batch(batch: Batch, parts: int) -> Iterator[Batch]:
    """A batch on the CPU in so many parts, in the order of its rows; fewer if it has fewer rows."""
    if parts == 1:
        yield batch
        return
    size = -(-len(batch.source) // parts)
    width = batch.output.size(1)
    real = torch.arange(batch.output.numel()) if batch.real is None else batch.real
    for start in range(0, len(batch.source), size):
        rows = slice(start, start + size)
        output = batch.output[rows]
        mask = None if batch.mask is None else batch.mask[rows]
        here = real[(real >= start * width) & (real < (start + size) * width)] - start * width
        links = None if batch.links is None else batch.links[rows]
        source_tokens = batch.source[rows].numel() if mask is None else int(mask.sum())
        places = None if len(here) == output.numel() else here
        yield Batch(
            batch.source[rows],
            mask,
            batch.target[rows],
            output,
            len(here),
            source_tokens,
            places,
            links,
        )


def compiled(model: EncoderDecoder) -> Callable[..., DecoderOutput]:
    """The model's forward pass, compiled for batches of any size; it uses and trains the model's
    own weights.

    It returns hidden states, and the weights of guided attention, alone: keys and values of all
    columns, which search needs, would be kept for nothing. What torch.compile has stored before is
    dropped first, since it limits how often one function is compiled again.
    """
    torch.compiler.reset()

    def outputs(
        source: Tensor, mask: Tensor | None, target: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        decoded = model(source, mask, target)
        return decoded.hidden, decoded.weights

    forward = torch.compile(outputs, dynamic=True)
    return lambda *inputs: DecoderOutput(*forward(*inputs), {})

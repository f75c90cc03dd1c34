"""One update of the weights, from its batches to the numbers of the curves."""

import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain, cycle, islice

import numpy as np
import torch
from torch import Tensor

from nmt.attention.flex import (
    COMPILE_ERRORS,
    allow_compilations,
    first_lines,
    give_up_compiling,
)
from nmt.config.schema import Config
from nmt.data.batches import Batch, BatchIterator, Cursor, split_batch
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
    padding: float = 0.0  # the sum of each update's fraction of padded positions
    gradient_norm: float = 0.0
    updates: int = 0
    earlier_tokens: int = 0  # the part of `tokens` before an interruption
    started: float = field(default_factory=time.monotonic)

    def sums(self) -> dict[str, float]:
        """What `from_sums` continues with after an interruption; the speed is measured anew."""
        return {
            "nll": self.nll,
            "tokens": float(self.tokens),
            "padding": self.padding,
            "gradient_norm": self.gradient_norm,
            "updates": float(self.updates),
        }

    @classmethod
    def from_sums(cls, sums: Mapping[str, float]) -> "TrainMetrics":
        """The metrics whose `sums` are given; those of a new beginning if there are none."""
        metrics = cls()
        if not sums.keys() <= metrics.sums().keys():
            raise UserError(f"Its sums are {', '.join(sums)}, which no training has.")
        for name, value in sums.items():
            kind = type(getattr(metrics, name))  # int or float
            setattr(metrics, name, kind(value))
        metrics.earlier_tokens = metrics.tokens
        return metrics

    def scalars(self, learning_rate: float, device: torch.device) -> dict[str, float]:
        """The means by TensorBoard tag."""
        loss = self.nll / self.tokens
        seconds = max(time.monotonic() - self.started, 1e-9)
        scalars = {
            "loss/train": loss,
            "perplexity/train": math.exp(min(loss, 50.0)),
            "optim/learning_rate": learning_rate,
            "optim/gradient_norm": self.gradient_norm / self.updates,
            "speed/target_tokens_per_second": (self.tokens - self.earlier_tokens) / seconds,
            "speed/padding_fraction": self.padding / self.updates,
        }
        if device.type == "cuda":
            scalars["speed/memory_gib"] = torch.cuda.max_memory_allocated(device) / 2**30
        return scalars


@dataclass
class PendingUpdate:
    """The numbers of an update, copied to the host while the device works on the next one."""

    # Summed −log p of each micro-batch, the gradient norm, 1 if the update was skipped [M + 2]
    numbers: Tensor
    limit: float  # the largest loss of a valid update
    loss_scale: float  # the factor of the loss; 1: not scaled
    tokens: int  # of all M micro-batches
    padding: float  # the mean of their fractions of padding
    last: Cursor  # the place of the last micro-batch of this process
    copied: torch.cuda.Event | None = None  # the end of the copy, on a GPU

    def __post_init__(self) -> None:
        if self.numbers.device.type == "cuda":
            numbers = self.numbers
            self.numbers = torch.empty_like(numbers, device="cpu", pin_memory=True)
            self.numbers.copy_(numbers, non_blocking=True)
            self.copied = torch.cuda.Event()
            self.copied.record()

    def read(self) -> list[float]:
        """The numbers; does not wait for what was queued after them."""
        if self.copied is not None:
            self.copied.synchronize()
        return self.numbers.tolist()


class TrainStep:
    """Forward and backward pass over M micro-batches, clipping, and a step of the optimizer.

    Each of N processes computes `train.accumulate` micro-batches, M = N · accumulate: process r the
    r-th, (r + N)-th, … of the epoch's plan. The gradient is the sum over all M, divided by the
    number of their target tokens; with `train.ordered_sum` it has the same bits for every N that
    divides M. `state` says where the batches begin; `update` and `settle` bring it and `metrics` up
    to date. `dtype` is that of autocast.
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
        self.config = config
        self.model = model
        self.optimizer = optimizer
        self.batches = batches
        self.state = state
        self.dtype = dtype
        self.world = world
        self.rehearsal = rehearsal
        self.device = next(model.parameters()).device
        if dtype == torch.float16:
            state.begin_loss_scaling()
        else:
            state.loss_scale = 0.0
            state.next_loss_scale = 0.0
        # On a GPU operations are queued; to read a number is to wait for all of them
        self.runs_ahead = self.device.type == "cuda"
        # Validation and search use the model itself, which has the same weights
        self.forward = compiled(model) if config.train.compile else model
        if state.warmup_steps is None:
            state.warmup_steps = warmup_updates(config.optim, state.scheduled_updates)
        overfit = config.train.overfit_batch
        cursor = Cursor(state.epoch, state.shard, state.position)
        if overfit:  # with the first batches, also when a training is continued
            cursor = Cursor(0, 0, 0)
        self.stream = batches.stream(cursor, world.rank, world.size, pinned=self.runs_ahead)
        if overfit:
            self.stream = cycle(islice(self.stream, config.train.accumulate))
        ordered = world.size > 1 and config.train.ordered_sum
        self.gradient_sum = OrderedSum(model.parameters(), world) if ordered else None
        self.metrics = TrainMetrics.from_sums(state.metrics)
        self.pending: PendingUpdate | None = None  # the last update, if it has not been read
        self.waiting: list[tuple[Cursor, Batch]] = []  # batches of an update that was given up
        self.loss = 0.0  # of the last update that was read
        self.parts = 1  # into which each batch is split, so that it fits into the memory
        self.positions = 0  # of sources and targets in the last update

    def update(self) -> dict[str, float]:
        """Make one update; returns a loss and the learning rate, to be shown.

        The loss is the mean −log p of an update's target tokens: of this update on a CPU, of the
        one before on a GPU, which is still busy with this one when `update` returns. `settle` reads
        an update's numbers, at the latest when the passes of the next one have been queued.

        An invalid update is skipped: it counts, but changes no weights. The device decides that.
        Raises TrainingDiverged if too many updates are skipped; an update that had been queued by
        then is given up, and its batches come again.
        """
        state = self.state
        model = self.model
        world = self.world
        model.train()

        # The micro-batches of this process, and the target tokens of all processes
        items = self.waiting or list(islice(self.stream, self.config.train.accumulate))
        self.waiting = []
        batches = [batch for _, batch in items]
        last = items[-1][0]
        own_tokens = sum(batch.tokens for batch in batches)
        tokens = sum(int(row[0]) for row in world.gather([own_tokens]))
        self.positions = sum(batch.source.numel() + batch.output.numel() for batch in batches)
        model.begin_update(len(batches) * world.size)
        loss_scale = state.loss_scale or 1.0  # in fp16

        # Forward, loss, backward in this process; then the numbers of the update before
        own_nll = self.add_gradients(batches, tokens / loss_scale)  # M / N scalars
        try:
            self.settle()
        except TrainingDiverged:
            self.waiting = items
            self.discard_gradients()
            raise
        state.loss_scale = state.next_loss_scale

        # Exchange between the processes: the numbers of all M micro-batches, then the gradients
        nll, counts, padding = self.gather_micro_batches(own_nll, batches)  # M of each
        if self.gradient_sum is not None:
            self.gradient_sum.finish()
        elif world.size > 1:
            all_reduce(model.parameters())

        if loss_scale != 1:
            gradients = [each.grad for each in model.parameters() if each.grad is not None]
            torch._foreach_mul_(gradients, 1 / loss_scale)

        # Clip
        clip_norm = self.config.optim.clip_norm or math.inf
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm)

        # Whether the loss and the norm are valid; not read here, so that nothing waits for them
        limit = state.loss_limit(model.output.out_features)
        loss = sum(nll, start=nll[0].new_zeros(())) / tokens
        is_valid = (loss <= limit) & loss.isfinite() & norm.isfinite()
        skip = is_valid.logical_not().float()  # a scalar on the device: 1 to skip, else 0

        # Step
        step = state.step + 1 - state.schedule_start
        total = state.scheduled_updates or ENDLESS
        lr = learning_rate(self.config.optim, state.warmup_steps or 0, step, total)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        # PyTorch's name for it: where it is 1 the step changes nothing
        self.optimizer.found_inf = skip  # type: ignore[attr-defined]
        with autocast(self.device, self.dtype):  # for Muon's products
            self.optimizer.step()
        model.end_update([each / count for each, count in zip(nll, counts, strict=True)], skip)
        self.optimizer.zero_grad()
        # The place after all M micro-batches: in process r, `last` is number M − N + r
        state.epoch, state.shard, state.position = self.batches.skip(last, world.size - world.rank)
        state.step += 1

        # Numbers of the curves: of this update on a CPU, of the one before on a GPU
        numbers = torch.stack([*nll, norm.to(nll[0]), skip.to(nll[0])])
        self.pending = PendingUpdate(
            numbers,
            limit=limit,
            loss_scale=loss_scale,
            tokens=tokens,
            padding=sum(padding) / len(padding),
            last=last,
        )
        if not self.runs_ahead:
            self.settle()
        return {"loss": self.loss, "lr": lr}

    def add_gradients(self, batches: list[Batch], divisor: float) -> list[Tensor]:
        """Compute the gradients of these micro-batches; returns the summed −log p of each.

        The loss is divided by `divisor`. That is the number of target tokens of the whole update;
        in fp16 it is divided by the loss scale, so that the loss is multiplied by it. The gradients
        stay in the parameters, added up, or go to `gradient_sum` if there is one.

        If a batch does not fit into the memory, batches are computed in halves, then quarters, and
        so on, now and from then on. If torch.compile or FlexAttention fails, the training goes on
        without it. With several processes these errors are raised instead, since the others may
        have sent their gradients.
        """
        while True:
            try:
                return [
                    self.backward(number, batch, divisor) for number, batch in enumerate(batches)
                ]
            except torch.OutOfMemoryError:
                most_sentences = max(len(batch.source) for batch in batches)
                if self.world.size > 1 or self.parts >= most_sentences:
                    raise
                self.parts *= 2
                log.warning(
                    "Update %d does not fit into the memory; batches are split into %d parts.",
                    self.state.step + 1,
                    self.parts,
                )
            except COMPILE_ERRORS as error:
                reason = f"The training cannot be compiled: {first_lines(error)}"
                if self.world.size > 1:
                    raise UserError(f"{reason}; choose train.compile=false.") from None
                if self.forward is not self.model:
                    log.warning("%s; it goes on without train.compile.", reason)
                    self.forward = self.model
                elif not give_up_compiling(error):
                    raise
            # Not in the handlers: there the error still keeps the tensors of the pass that failed
            self.discard_gradients()
            if self.device.type == "cuda":
                torch.cuda.empty_cache()

    def discard_gradients(self) -> None:
        """Forget the gradients of batches whose update is not made."""
        self.optimizer.zero_grad()
        if self.gradient_sum is not None:
            self.gradient_sum.discard()

    def backward(self, number: int, batch: Batch, divisor: float) -> Tensor:
        """Add the gradients of loss / `divisor` of a micro-batch; returns its −log p, summed.

        It is this process's micro-batch `number` of the update.
        """
        train = self.config.train
        nll = list[Tensor]()  # of each part

        # Random numbers of its own, so that dropout and sampling depend neither on the number of
        # processes nor on where a training was interrupted
        place = number * self.world.size + self.world.rank  # among all M micro-batches
        seeds = np.random.SeedSequence((self.config.seed, self.state.step, place))
        torch.manual_seed(int(seeds.generate_state(1, np.uint64)[0]))

        for part in split_batch(batch, self.parts):
            part = part.to(self.device)
            source = part.source
            mask = part.mask
            target = part.target
            links = part.links
            copies = 1
            if train.r_drop:  # each pair twice, one after the other: [B …] → [2 B …]
                copies = 2
                source = source.repeat_interleave(2, 0)
                target = target.repeat_interleave(2, 0)
                if mask is not None:
                    mask = mask.repeat_interleave(2, 0)
                if links is not None:
                    links = links.repeat_interleave(2, 0)
            with autocast(self.device, self.dtype):
                decoded = self.forward(source, mask, target)
                loss, part_nll = training_loss(
                    self.model,
                    decoded,
                    part.output,
                    part.real,
                    train.label_smoothing,
                    train.r_drop,
                    train.sampled_softmax,
                )
                if links is not None and decoded.weights is not None:
                    weights = decoded.weights[:, 0, 0]  # of the guided head [B T S]
                    guided = alignment_loss(weights, links)
                    loss = loss + train.guided_alignment / copies * guided
                # Rehearsal, once in a micro-batch. Its loss is added to that of the first part and
                # has no backward pass of its own, so that gradients are always added in one order.
                # Where batches are split to fit into the memory, the random batch is smaller, too
                is_first = not nll
                if self.rehearsal is not None and is_first:
                    positions = batch.output.numel() // self.parts
                    generator = np.random.default_rng(seeds)
                    divergence = self.rehearsal.loss(self.model, generator, positions)
                    loss = loss + train.rehearsal * batch.tokens * divergence
            (loss / divisor).backward()
            nll.append(part_nll.detach().double())

        # A parameter that these sentences do not reach gets the gradient 0, which it would have
        # beside other sentences. Without one the optimizer would leave it out, in this process
        # alone. For example, a target without words does not reach Bahdanau's cell
        for parameter in self.model.parameters():
            if parameter.requires_grad and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        if self.gradient_sum is not None:
            self.gradient_sum.add()
        return torch.stack(nll).sum()

    def gather_micro_batches(
        self, nll: list[Tensor], batches: list[Batch]
    ) -> tuple[list[Tensor], list[float], list[float]]:
        """Three lists over all M micro-batches: −log p, target tokens, fraction of padding.

        They are in the order of the plan. `nll` and `batches` are those of this process. With
        several processes this waits for the GPU, since the numbers are exchanged on the host.
        """
        tokens = [float(batch.tokens) for batch in batches]
        padding = [batch.padding for batch in batches]
        size = self.world.size
        if size == 1:
            return nll, tokens, padding
        by_rank = self.world.gather([*(each.item() for each in nll), *tokens, *padding])
        # [3 M]: the first number of every process, the second of every process, …: that is the
        # order of the plan, first of −log p, then of tokens, then of padding
        numbers = list(chain.from_iterable(zip(*by_rank, strict=True)))
        count = size * len(batches)  # M
        all_nll = torch.tensor(numbers[:count], dtype=torch.float64, device=self.device)
        return list(all_nll), numbers[count : 2 * count], numbers[2 * count :]

    def settle(self) -> None:
        """Read the numbers of the last update, and bring `state` and `metrics` up to date.

        Does nothing if that has been done. Raises TrainingDiverged if too many updates were
        skipped.
        """
        if self.pending is None:
            return
        pending = self.pending
        self.pending = None
        *nll, norm, skip = pending.read()
        loss = sum(nll) / pending.tokens
        self.loss = loss
        is_overflow = math.isfinite(loss) and not math.isfinite(norm) and pending.loss_scale > 1
        if is_overflow:
            self.state.record_overflow(pending.loss_scale)
            return
        if skip:
            batch = self.batches.describe_batch(pending.last)
            self.state.record_skip(loss, norm, pending.limit, batch)
            return
        self.state.record_loss(loss)
        self.state.grow_loss_scale()
        self.state.tokens += pending.tokens
        self.metrics.nll += sum(nll)
        self.metrics.tokens += pending.tokens
        self.metrics.updates += 1
        self.metrics.padding += pending.padding
        self.metrics.gradient_norm += norm


def compiled(model: EncoderDecoder) -> Callable[..., DecoderOutput]:
    """The model's forward pass, compiled for batches of any size; it uses the model's own weights.

    It returns only hidden states and the weights of guided attention. The decoder's state, which
    search needs, would be kept for nothing.
    """
    torch.compiler.reset()  # the limit of compilations of a function counts from here
    allow_compilations()

    def outputs(
        source: Tensor, mask: Tensor | None, target: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        decoded = model(source, mask, target)
        return decoded.hidden, decoded.weights

    forward = torch.compile(outputs, dynamic=True)
    return lambda *inputs: DecoderOutput(*forward(*inputs), {})

"""The training loop: one update after the other, and once in a while a look."""

import logging
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import torch

from nmt.config import Config
from nmt.data.batches import Batch, BatchIterator
from nmt.data.dataset import ParallelDataset
from nmt.data.tokenizer import PAD, Tokenizers
from nmt.decode.translator import Translator
from nmt.errors import Stopped, UserError
from nmt.models.base import DecoderOutput
from nmt.models.build import build
from nmt.train import checkpoint
from nmt.train.checkpoint_manager import CheckpointManager
from nmt.train.compiled import compiled
from nmt.train.loss import training_loss
from nmt.train.precision import autocast, pick_device, pick_precision, seed_everything
from nmt.train.schedule import FITTED, rate
from nmt.train.state import Meter, TrainState
from nmt.train.stop_signal import Interrupted, StopSignal, TrainingDiverged, check_finite
from nmt.train.time_budget import TimeBudget, known_total, warn_of_warmup
from nmt.train.validation import Report, Validation
from nmt.view.progress import Progress
from nmt.view.tensorboard import TensorBoardLogger

log = logging.getLogger("nmt")


class Trainer:
    """One run: made or continued from its folder, trained to its budget."""

    def __init__(
        self,
        config: Config,
        tokenizers: Tokenizers,
        train: ParallelDataset,
        valid: ParallelDataset,
        folder: Path,
        corpus_hash: str,
    ) -> None:
        self.config, self.folder = config, folder
        self.device = pick_device(config.device)
        self.dtype = pick_precision(config.precision, self.device)
        seed_everything(config.seed)
        self.vocabulary = tokenizers.target.size
        self.model = build(config.model, tokenizers.source.size, self.vocabulary, tokenizers.joint).to(self.device)
        self.forward, self.optimizer = self.make_forward(), self.make_optimizer()
        options = config.train
        self.epochs = BatchIterator(train, tokenizers, options.batch_tokens, config.seed, options.sampling)
        self.stop = StopSignal()
        self.validation = Validation(valid, tokenizers, config.data.target, 4 * options.batch_tokens, self.stop)
        self.translator = self.make_translator(tokenizers)
        self.keeper = CheckpointManager(folder, config, tokenizers, corpus_hash)
        self.meter = Meter()
        self.place = self.find_place()
        self.stream = batches(self.epochs, self.place, self.device.type == "cuda")

    def make_forward(self) -> Callable[..., DecoderOutput]:
        """The model, or its compiled form with the same weights; validation and search ask the plain one."""
        return compiled(self.model) if self.config.train.compile else self.model

    def make_optimizer(self) -> torch.optim.Optimizer:
        """AdamW (Loshchilov & Hutter 2019) in one kernel."""
        optim = self.config.optim
        betas = (optim.betas[0], optim.betas[1])
        return torch.optim.AdamW(self.model.parameters(), optim.lr, betas, optim.eps, optim.weight_decay, fused=True)

    def make_translator(self, tokenizers: Tokenizers) -> Translator:
        """The model as it is at any time, searching the way validation asks for."""
        decode = replace(self.config.decode, beam=self.config.train.validate_beam)
        longest = self.config.tokenizer.max_pieces
        return Translator(self.model, tokenizers, decode, longest, self.device, autocast(self.device, self.dtype))

    def find_place(self) -> TrainState:
        """The beginning, or where last.pt says."""
        train = self.config.train
        total = known_total(train, len(self.epochs.plan(0)) / train.accumulate)
        place = self.keeper.restore(self.model, self.optimizer, self.device)
        if place is None:
            return TrainState(total=total)
        if self.config.optim.schedule not in FITTED and train.max_minutes is None:
            place.total = total  # another budget is welcome where the schedule does not know the end
            place.finished = place.finished and self.spent(place)
        return place

    def run(self) -> None:
        """Train until the budget is spent or nothing gets better; raises UserError when interrupted or broken."""
        if self.place.finished:
            log.info("%s is already trained: %d updates.", self.config.name, self.place.step)
            return
        self.describe()
        self.journal = TensorBoardLogger(self.folder / "tensorboard", self.place.step + 1 if self.place.step else None)
        try:
            with self.stop.on_signals(), Progress(self.place.total, "update", "training", self.place.step) as bar:
                self.loop(bar)
                self.finish()
        except Interrupted:
            self.save()
            where = f"Interrupted after update {self.place.step}; everything is saved in {self.folder}"
            raise Stopped(f"{where}: give the same command again to continue.") from None
        except TrainingDiverged as error:
            raise UserError(self.complaint(error)) from None
        finally:
            self.journal.close()

    def loop(self, bar: Progress) -> None:
        """Update after update; looks between them."""
        place, train = self.place, self.config.train
        clock = TimeBudget(place, train.max_minutes)
        while True:
            if clock.ready(train):
                self.fit_budget(clock, bar)
            if self.due():
                began = time.monotonic()
                self.validate()
                clock.looking += time.monotonic() - began
            if self.spent(place):
                return
            figures = self.update()
            clock.tick()
            bar.update(1, figures)
            if place.step % train.log_every == 0:
                self.journal.scalars(self.meter.scalars(figures["lr"], self.device), place.step)
                self.meter = Meter()
            self.stop.check()

    def due(self) -> bool:
        """Whether this update asks for a validation that has not been."""
        place = self.place
        if place.step == 0 or place.validated == place.step:
            return False
        return place.step % self.config.train.validate_every == 0 or (
            place.total is not None and place.step >= place.total
        )

    def spent(self, place: TrainState) -> bool:
        """Whether the budget or the patience is."""
        patience = self.config.train.patience
        return (place.total is not None and place.step >= place.total) or (0 < patience <= place.since_best)

    def update(self) -> dict[str, float]:
        """One step of the optimiser over `accumulate` batches; the loss is a mean over their target tokens."""
        place = self.place
        batches = list(islice(self.stream, self.config.train.accumulate))
        tokens = sum(batch.tokens for batch in batches)
        self.model.train()
        nll = sum(self.backward(batch.to(self.device), tokens) for batch in batches)
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.optim.clip or math.inf).item()
        check_finite(
            nll / tokens, norm, self.vocabulary, lambda: self.epochs.describe_batch(place.epoch, place.position - 1)
        )
        lr = self.rate(place.step + 1)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.step()
        self.optimizer.zero_grad()
        place.step += 1
        if place.tokens is not None:
            place.tokens += tokens
        self.meter.add(nll, tokens, sum(batch.padding for batch in batches) / len(batches), norm)
        return {"loss": nll / tokens, "lr": lr}

    def backward(self, batch: Batch, tokens: int) -> float:
        """Add one batch's gradients of loss / tokens; returns its summed −log p."""
        with autocast(self.device, self.dtype):
            decoded = self.forward(batch.source, batch.mask, batch.target)
            loss, nll = training_loss(self.model, decoded, batch.output, PAD, self.config.train.label_smoothing)
        (loss / tokens).backward()
        return nll.item()

    def rate(self, step: int) -> float:
        """The learning rate of update `step`; before the minutes are fitted the end is far away."""
        optim = self.config.optim
        return rate(optim.schedule, optim.lr, step, optim.warmup_steps, self.place.total or 10**9, optim.final)

    def complaint(self, error: TrainingDiverged) -> str:
        """The sentence for a broken training."""
        last = self.keeper.last
        good = f"the last good checkpoint is {last}" if last.exists() else "there is no checkpoint yet"
        return (
            f"The training broke after update {self.place.step}: {error}; {good}; try a smaller optim.lr, a longer "
            "optim.warmup_steps or precision=fp32 under another name=…"
        )

    def fit_budget(self, clock: TimeBudget, bar: Progress) -> None:
        """Turn max_minutes into a number of updates and keep it; a validation that stops early tells what one costs."""
        place, train = self.place, self.config.train
        began = time.monotonic()
        self.look(short=True)
        validation = time.monotonic() - began
        clock.looking += validation
        place.total, update = clock.fit(train, validation)
        place.fitted = True
        bar.set_total(place.total)
        cost = f"{update:.3g} s an update, {validation:.3g} s a validation"
        log.info("%s: %d updates fit into %g minutes.", cost, place.total, train.max_minutes)
        warn_of_warmup(self.config.optim.warmup_steps, place.total)

    def look(self, short: bool = False) -> Report:
        """Validate and show; `short` holds the translations to their references' lengths."""
        report = self.validation.run(self.translator, short)
        self.validation.show(self.journal, self.translator, report, self.config.train, self.place.step)
        return report

    def validate(self) -> None:
        """Look, remember, keep the best."""
        place, metric = self.place, self.config.train.metric
        report = self.look()
        better = report.better_than(place.best, metric)
        place.since_best += 1
        if better:
            place.best, place.best_step, place.since_best = report.value(metric), place.step, 0
        place.validated = place.step
        place.history.append({"step": place.step, "loss": report.loss, "bleu": report.bleu, "chrf": report.chrf})
        log.info("update %d: %s%s", place.step, report, "  (best so far)" if better else "")
        self.journal.scalars(report.scalars(), place.step)
        self.journal.flush()
        self.keeper.keep(self.model.state_dict(), place.step, report, better)
        self.save()
        self.meter = Meter()  # a validation is no training time

    def finish(self) -> None:
        """Average the last checkpoints; the average becomes the best if validation says so."""
        self.stop.check()
        paths, place = self.keeper.steps(), self.place
        if 0 < self.config.train.patience <= place.since_best:
            log.info("No better %s for %d validations: stopped.", self.config.train.metric, place.since_best)
        if len(paths) > 1:
            trained = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
            mean = checkpoint.average(paths)
            try:
                self.model.load_state_dict(mean)
                report = self.validation.run(self.translator)
            finally:  # whatever happens, the training goes on from its own weights
                self.model.load_state_dict(trained)
            better = report.better_than(place.best, self.config.train.metric)
            log.info("average of %d checkpoints: %s%s", len(paths), report, "  (best)" if better else "")
            self.keeper.keep_average(mean, place.step, report, better)
        place.finished = True
        self.save()

    def save(self) -> None:
        """Everything needed to continue."""
        self.keeper.save(self.model, self.optimizer, self.place, self.device)

    def describe(self) -> None:
        """Say what begins."""
        size = sum(parameter.numel() for parameter in self.model.parameters()) / 1e6
        start = f"continuing after update {self.place.step}" if self.place.step else "starting"
        data = f"{len(self.epochs.pairs)} pairs in {len(self.epochs.plan(self.place.epoch))} batches an epoch"
        how = f"{'bf16' if self.dtype == torch.bfloat16 else 'fp32'} on {self.device}"
        log.info("%s: %s, %.1f million parameters, %s, %s", self.config.name, start, size, data, how)
        warn_of_warmup(self.config.optim.warmup_steps, self.place.total)


def batches(epochs: BatchIterator, place: TrainState, pinned: bool) -> Iterator[Batch]:
    """The batches from here on; the place moves with them. (A generator that knew the trainer would keep it alive.)"""
    for epoch, position, batch in epochs.stream(place.epoch, place.position, pinned):
        place.epoch, place.position = epoch, position + 1
        yield batch

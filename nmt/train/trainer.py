"""The training loop: one update after the other, and once in a while a look."""

import logging
import math
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from nmt.config import Config, to_dict
from nmt.data.batches import Batch, Epochs
from nmt.data.ids import Pairs
from nmt.data.tokenizer import PAD, Tokenizers
from nmt.decode.translator import Translator
from nmt.errors import UserError
from nmt.models.build import build
from nmt.train import checkpoint
from nmt.train.budget import FIT, WARM, fitted, total_updates
from nmt.train.loss import cross_entropy
from nmt.train.precision import autocast, pick_device, pick_precision, seed_everything
from nmt.train.resume import refuse_changes
from nmt.train.schedule import FITTED, rate
from nmt.train.validation import Interrupted, Report, Validation
from nmt.view.journal import Journal
from nmt.view.progress import Progress

log = logging.getLogger("nmt")


@dataclass
class Place:
    """Where a training stands; all of it is kept in last.pt."""

    step: int = 0  # updates done
    epoch: int = 0
    position: int = 0  # batches of the epoch done
    total: int | None = None  # updates at the end; None until the minutes are fitted
    validated: int = 0  # the step of the last validation
    best: float | None = None
    best_step: int = 0
    since_best: int = 0  # validations
    finished: bool = False
    seconds: float = 0.0  # spent so far, over all its lives
    history: list[dict[str, float]] = field(default_factory=list)


@dataclass
class Window:
    """What happened since the last line in the journal."""

    loss: float = 0.0
    tokens: int = 0
    padding: float = 0.0
    norm: float = 0.0
    updates: int = 0
    began: float = field(default_factory=time.monotonic)


class Trainer:
    """One run: made or continued from its folder, trained to its budget."""

    def __init__(
        self, config: Config, tokenizers: Tokenizers, train: Pairs, valid: Pairs, folder: Path, corpus_hash: str
    ) -> None:
        self.config, self.tokenizers, self.folder = config, tokenizers, folder
        self.device = pick_device(config.device)
        self.dtype = pick_precision(config.precision, self.device)
        seed_everything(config.seed)
        sizes = tokenizers.source.size, tokenizers.target.size
        self.model = build(config.model, *sizes, tokenizers.joint).to(self.device)
        optim = config.optim
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), optim.lr, (optim.betas[0], optim.betas[1]), optim.eps, optim.weight_decay, fused=True
        )  # fmt: skip
        options = config.train
        self.epochs = Epochs(train, tokenizers, options.batch_tokens, config.seed, options.sampling)
        self.validation = Validation(valid, tokenizers, config.data.target, 4 * options.batch_tokens)
        self.translator = self.make_translator()
        self.shared = checkpoint.pack(config, tokenizers, corpus_hash)
        self.place = Place(total=total_updates(options, len(self.epochs.plan(0)) / options.accumulate))
        self.window = Window()
        self.resume()

    def make_translator(self) -> Translator:
        """The model as it is now, searching the way validation asks for."""
        decode = type(self.config.decode)(**asdict(self.config.decode))
        decode.beam = self.config.train.validate_beam
        context = autocast(self.device, self.dtype)
        limit = self.config.tokenizer.max_pieces
        return Translator(self.model, self.tokenizers, decode, limit, self.device, context)

    def run(self) -> None:
        """Train until the budget is spent, nothing gets better, or somebody interrupts (UserError says how to go on)."""
        place, train = self.place, self.config.train
        if place.finished:
            log.info("%s is already trained: %d updates.", self.config.name, place.step)
            return
        self.describe()
        began, before = time.monotonic(), place.seconds
        self.journal = Journal(self.folder / "tensorboard", purge_step=place.step + 1 if place.step else None)
        try:
            with self.interruptible(), Progress(place.total, "update", "training", start=place.step) as bar:
                while not self.done():
                    figures = self.update()
                    place.seconds = before + time.monotonic() - began
                    if place.total is None or (place.step == FIT and train.max_minutes is not None):
                        self.fit_budget(bar)
                    bar.update(1, figures)
                    if place.step % train.log_every == 0:
                        self.write_curves(figures)
                    if self.validation.stop:
                        raise Interrupted
            self.finish()
        except Interrupted:
            self.save_last()
            raise UserError(
                f"Interrupted after update {place.step}; everything is saved in {self.folder}: "
                "give the same command again to continue."
            ) from None
        finally:
            self.journal.close()

    def done(self) -> bool:
        """Validate when it is time; then whether to stop."""
        place, train = self.place, self.config.train
        ended = place.total is not None and place.step >= place.total
        if place.step and place.validated != place.step and (ended or place.step % train.validate_every == 0):
            self.validate()
        if train.patience and place.since_best >= train.patience:
            log.info("No better %s for %d validations: stopping.", train.metric, place.since_best)
            return True
        return ended

    def update(self) -> dict[str, float]:
        """One step of the optimiser over `accumulate` batches; the loss is a mean over their target tokens."""
        config, place = self.config, self.place
        batches = [batch for _, batch in zip(range(config.train.accumulate), self.batches(), strict=False)]
        tokens = sum(batch.tokens for batch in batches)
        self.model.train()
        likelihood = 0.0
        for batch in batches:
            likelihood += self.backward(batch.to(self.device), tokens)
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), config.optim.clip or math.inf).item()
        self.watch(likelihood / tokens, norm)
        lr = self.rate(place.step + 1)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.step()
        self.optimizer.zero_grad()
        place.step += 1
        self.count(likelihood, tokens, sum(batch.padding for batch in batches) / len(batches), norm)
        return {"loss": likelihood / tokens, "lr": lr}

    def batches(self) -> Iterator[Batch]:
        """The batches from here on; the place moves with them."""
        while True:
            if self.place.position >= len(self.epochs.plan(self.place.epoch)):
                self.place.epoch, self.place.position = self.place.epoch + 1, 0
            self.place.position += 1
            yield self.epochs.batch(self.place.epoch, self.place.position - 1)

    def backward(self, batch: Batch, tokens: int) -> float:
        """Add one batch's gradients of loss / tokens; returns its summed −log p."""
        with autocast(self.device, self.dtype):
            decoded = self.model(batch.source, batch.mask, batch.target)
            smoothing = self.config.train.label_smoothing
            loss, likelihood = cross_entropy(decoded.hidden, self.model.output, batch.output, PAD, smoothing)
        (loss / tokens).backward()
        return likelihood.item()

    def rate(self, step: int) -> float:
        """The learning rate of update `step`; before the minutes are fitted it is still warming up or constant."""
        optim, total = self.config.optim, self.place.total
        return rate(optim.schedule, optim.lr, step, optim.warmup_steps, total or 10**9, optim.final)

    def watch(self, loss: float, norm: float) -> None:
        """Stop before a broken gradient reaches the weights."""
        if math.isfinite(loss) and math.isfinite(norm) and loss < 5 * math.log(self.tokenizers.target.size):
            return
        place, last = self.place, self.folder / "last.pt"
        rows = self.epochs.plan(place.epoch)[place.position - 1]
        lines = ", ".join(str(self.epochs.pairs.line(int(row))) for row in rows[:5])
        good = f"the last good checkpoint is {last}" if last.exists() else "there is no checkpoint yet"
        raise UserError(
            f"The training broke at update {place.step + 1}: loss {loss:.4g}, gradient norm {norm:.4g} in batch "
            f"{place.position} of epoch {place.epoch + 1} (corpus lines {lines}, …); {good}; try a smaller optim.lr, "
            "a longer optim.warmup_steps or precision=fp32 under another name=…"
        )

    def fit_budget(self, bar: Progress) -> None:
        """After FIT updates, turn max_minutes into a number of updates and keep it."""
        place, train = self.place, self.config.train
        if place.step == WARM:
            self.warmed = place.seconds
        if place.step != FIT:
            return
        update = (place.seconds - getattr(self, "warmed", 0.0)) / (FIT - (WARM if hasattr(self, "warmed") else 0))
        report = self.validation.run(self.translator, short=True)
        self.validation.show(self.journal, self.translator, report, train.pictures, train.picture_layer, place.step)
        place.seconds += report.seconds
        place.total = fitted(train, place.total, place.seconds, update, report.seconds)
        bar.retotal(place.total)
        log.info(
            "%.3g s an update, %.3g s a validation: %d updates fit into %g minutes.",
            update, report.seconds, place.total, train.max_minutes,
        )  # fmt: skip

    def validate(self) -> None:
        """Look, remember, keep the best."""
        place, train = self.place, self.config.train
        report = self.validation.run(self.translator)
        better = report.better_than(place.best, train.metric)
        if better:
            place.best, place.best_step, place.since_best = getattr(report, train.metric), place.step, 0
        else:
            place.since_best += 1
        place.validated = place.step
        place.history.append({"step": place.step, "loss": report.loss, "bleu": report.bleu, "chrf": report.chrf})
        log.info(
            "update %d: validation loss %.3f, BLEU %.2f, chrF %.2f%s",
            place.step, report.loss, report.bleu, report.chrf, "  (best so far)" if better else "",
        )  # fmt: skip
        self.journal.scalars(report.scalars(), place.step)
        self.validation.show(self.journal, self.translator, report, train.pictures, train.picture_layer, place.step)
        self.journal.flush()
        self.keep(report, better)
        self.window = Window()

    def keep(self, report: Report, better: bool) -> None:
        """Write the checkpoints that a validation asks for."""
        weights = self.weights(self.model.state_dict(), report, f"update {self.place.step}")
        if better:
            checkpoint.save(self.folder / "best.pt", weights)
        if self.config.train.average:
            checkpoint.save(self.folder / f"step-{self.place.step}.pt", weights)
            for old in self.steps()[: -self.config.train.average]:
                old.unlink()
        self.save_last()

    def weights(self, state: dict[str, Any], report: Report, origin: str) -> checkpoint.Payload:
        """A checkpoint that can translate."""
        scores = {"loss": report.loss, "bleu": report.bleu, "chrf": report.chrf}
        return self.shared | {"model": state, "step": self.place.step, "valid": scores, "origin": origin}

    def steps(self) -> list[Path]:
        """The checkpoints kept for averaging, oldest first."""
        return sorted(self.folder.glob("step-*.pt"), key=lambda path: int(path.stem.split("-")[1]))

    def save_last(self) -> None:
        """Everything needed to continue."""
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "place": asdict(self.place),
            "random": checkpoint.random_state(self.device),
        }
        checkpoint.save(self.folder / "last.pt", self.shared | state)

    def resume(self) -> None:
        """Continue from last.pt if there is one; raises UserError if the configuration changed where it matters."""
        path = self.folder / "last.pt"
        if not path.exists():
            return
        payload = checkpoint.load(path)
        refuse_changes(payload, to_dict(self.config), self.shared["corpus_hash"], self.config.name)
        self.model.load_state_dict(payload["model"])
        self.optimizer.load_state_dict(payload["optimizer"])
        budget = self.place.total
        self.place = Place(**payload["place"])
        if self.config.optim.schedule not in FITTED and self.config.train.max_minutes is None and budget is not None:
            self.place.finished &= self.place.step >= budget or self.place.since_best >= self.config.train.patience > 0
            self.place.total = budget  # a longer or shorter budget is fine where the schedule does not know the end
        checkpoint.set_random_state(payload["random"], self.device)

    def finish(self) -> None:
        """Average the last checkpoints; the average becomes the best if validation says so."""
        paths, place = self.steps(), self.place
        if len(paths) > 1:
            kept = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
            mean = checkpoint.average(paths)
            self.model.load_state_dict(mean)
            report = self.validation.run(self.translator)
            better = report.better_than(place.best, self.config.train.metric)
            log.info(
                "average of %d checkpoints: validation loss %.3f, BLEU %.2f%s",
                len(paths), report.loss, report.bleu, "  (best)" if better else "",
            )  # fmt: skip
            origin = "average of updates " + ", ".join(path.stem.split("-")[1] for path in paths)
            payload = self.weights(mean, report, origin)
            checkpoint.save(self.folder / "average.pt", payload)
            if better:
                checkpoint.save(self.folder / "best.pt", payload)
            self.model.load_state_dict(kept)
        place.finished = True
        self.save_last()

    def count(self, likelihood: float, tokens: int, padding: float, norm: float) -> None:
        """Add an update to the window."""
        window = self.window
        window.loss += likelihood
        window.tokens += tokens
        window.padding += padding
        window.norm += norm
        window.updates += 1

    def write_curves(self, figures: dict[str, float]) -> None:
        """The means since the last time."""
        window = self.window
        if not window.updates:
            return
        loss = window.loss / window.tokens
        scalars = {
            "loss/train": loss,
            "perplexity/train": math.exp(min(loss, 50.0)),
            "optim/learning_rate": figures["lr"],
            "optim/gradient_norm": window.norm / window.updates,
            "speed/target_tokens_per_second": window.tokens / max(time.monotonic() - window.began, 1e-9),
            "speed/padding_share": window.padding / window.updates,
            "speed/memory_gib": memory(self.device),
        }
        self.journal.scalars(scalars, self.place.step)
        self.window = Window()

    def describe(self) -> None:
        """Say what begins."""
        parameters = sum(parameter.numel() for parameter in self.model.parameters())
        start = f"continuing after update {self.place.step}" if self.place.step else "starting"
        precision = "bf16" if self.dtype == torch.bfloat16 else "fp32"
        log.info(
            "%s: %s, %.1f million parameters, %d pairs, %d batches an epoch, %s on %s",
            self.config.name, start, parameters / 1e6, len(self.epochs.pairs), len(self.epochs.plan(self.place.epoch)),
            precision, self.device,
        )  # fmt: skip

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """The first Ctrl-C (or SIGTERM) asks for a stop at the next update; a second one stops at once."""

        def ask(number: int, frame: FrameType | None) -> None:
            if self.validation.stop:
                raise KeyboardInterrupt
            self.validation.stop = True
            log.info("Stopping after this update …")

        try:
            before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
        except ValueError:  # not in the main thread: nothing to catch
            before = {}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def memory(device: torch.device) -> float:
    """Peak memory so far in GiB: of the GPU, or of the process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**30
    import resource  # not on Windows

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20

"""The training loop: updates, and between them validations and checkpoints."""

import logging
import time
from collections.abc import Callable

import torch

from nmt.config.schema import Config
from nmt.errors import Stopped, UserError
from nmt.training import checkpoint
from nmt.training.checkpoint_manager import CheckpointManager
from nmt.training.distributed import World
from nmt.training.save_timer import SaveTimer
from nmt.training.schedule import TimeBudget, warn_if_only_warmup
from nmt.training.state import TrainingDiverged
from nmt.training.stop_signal import Interrupted, StopSignal
from nmt.training.train_step import TrainMetrics, TrainStep
from nmt.training.validation import Validation, ValidationResult
from nmt.view.progress import Progress
from nmt.view.tensorboard import TensorBoardLogger

log = logging.getLogger("nmt")


class Trainer:
    """Trains one run to the end of its budget, or until validation stops improving.

    `build_trainer` (nmt/training/build.py) makes the parts. `open_logger` opens the TensorBoard file when the training
    starts; a finished run, which `run` leaves as it is, gets none. In each process of `world` a Trainer does the same;
    process 0 alone writes checkpoints and curves.
    """

    def __init__(
        self,
        config: Config,
        train_step: TrainStep,
        validation: Validation,
        checkpoints: CheckpointManager,
        open_logger: Callable[[], TensorBoardLogger],
        stop: StopSignal,
        world: World,
    ) -> None:
        self.config, self.train_step, self.validation, self.checkpoints = config, train_step, validation, checkpoints
        self.open_logger, self.stop, self.world = open_logger, stop, world
        self.model, self.state, self.device = train_step.model, train_step.state, train_step.device
        self.save_timer = SaveTimer(config.train.save_minutes, lambda: world.broadcast(time.monotonic()))
        self.logger: TensorBoardLogger | None = None  # of process 0, while `run` trains

    def run(self) -> None:
        """Train; raises Stopped after Ctrl-C, when everything is saved, and UserError when the training diverges."""
        state = self.state
        if state.finished:
            log.info("%s is already trained: %d updates.", self.config.name, state.step)
            return
        self.log_start()
        self.logger = self.open_logger() if self.world.is_main else None
        self.log_scalars(state.point, state.step)
        try:
            with self.stop.on_signals(), Progress(state.total_steps, "update", "training", state.step) as progress:
                try:
                    self.loop(progress)
                    self.finish()
                except Interrupted as interruption:
                    self.settle()
                    self.save()
                    self.world.broadcast(0)  # torchrun ends the others as soon as one process has ended
                    saved = f"Interrupted after update {state.step}; everything is saved in {self.checkpoints.folder}"
                    again = "give the same command again to continue."
                    raise Stopped(f"{saved}: {again}", interruption.signal) from None
        except TrainingDiverged as error:
            raise UserError(self.divergence_message(error)) from None
        finally:
            if self.logger is not None:
                self.logger.close()

    def loop(self, progress: Progress) -> None:
        """Update, validate and save a checkpoint until the budget or the patience is spent."""
        state, train = self.state, self.config.train
        budget = TimeBudget(state, train, self.world)
        while True:
            try:
                if budget.can_estimate():
                    self.fix_budget(budget, progress)
                if state.validation_due(train.validate_every):
                    budget.time_validation(self.validate)
                if state.budget_spent or state.patience_spent(train.patience):
                    return
                self.save_timer.save_if_due(self.save)
                self.update(budget, progress)
            except TrainingDiverged as error:
                self.roll_back(error)
            self.stop.check()

    def update(self, budget: TimeBudget, progress: Progress) -> None:
        """One update; its figures go to the progress bar and, with those since the last point, to the curves."""
        state = self.state
        figures = self.train_step.update()
        budget.after_update()
        progress.update(1, figures)
        train, state.point = self.config.train, {}
        if state.step % train.log_every == 0:
            self.train_step.settle()
            if self.train_step.metrics.updates:
                point = self.train_step.metrics.scalars(figures["lr"], self.device)
                self.log_scalars(point, state.step)
                state.point = point if state.validation_due(train.validate_every) else {}
            self.train_step.metrics = TrainMetrics()

    def settle(self) -> None:
        """Read the figures of the last update; the training goes back where it was one invalid update too many."""
        try:
            self.train_step.settle()
        except TrainingDiverged as error:
            self.roll_back(error)

    def roll_back(self, error: TrainingDiverged) -> None:
        """Go on with the weights of the last validation and the next batches; raises TrainingDiverged at a second time.

        The count of updates goes on, so the budget and the learning rate do too.
        """
        state = self.state
        if state.rolled_back:
            raise error
        step = self.checkpoints.roll_back(self.model, self.train_step.optimizer)
        if step is None:
            raise error
        log.warning("Update %d: %s; the training goes on with the weights of update %d.", state.step, error, step)
        state.rolled_back, state.skipped = True, []
        self.save()

    def fix_budget(self, budget: TimeBudget, progress: Progress) -> None:
        """Convert max_minutes into the total number of updates, once and for all; a validation is timed for it."""
        state = self.state
        self.train_step.settle()
        validation = budget.time_validation(lambda: self.run_validation(reference_lengths=True))
        state.total_steps, update = budget.estimate(validation)
        state.budget_fixed = True
        progress.set_total(state.total_steps)
        cost = f"{update:.3g} s an update, {validation:.3g} s a validation"
        log.info("%s: %d updates fit into %g minutes.", cost, state.total_steps, self.config.train.max_minutes)
        warn_if_only_warmup(self.config.optim, state.total_steps)
        self.save()  # a kill does not change the number any more

    def run_validation(self, reference_lengths: bool = False) -> ValidationResult:
        """Scores of the present weights; example translations and heatmaps are logged."""
        result = self.validation.run(reference_lengths)
        if self.logger is not None:
            self.validation.log_examples(self.logger, result, self.config.train, self.state.step)
        return result

    def validate(self) -> None:
        """Validate, count validations without a better score, log, and save checkpoints."""
        state, metric = self.state, self.config.train.metric
        self.train_step.settle()
        result = self.run_validation()
        is_best = result.better_than(state.best, metric)
        state.validations_since_best += 1
        if is_best:
            state.best, state.validations_since_best = result.value(metric), 0
        if not any(step > state.validated_step for step in state.skipped):
            state.rollback_step = state.step
        state.validated_step, state.point = state.step, {}
        log.info("update %d: %s%s", state.step, result, "  (best so far)" if is_best else "")
        self.log_scalars(result.scalars(), state.step)
        self.train_step.metrics = TrainMetrics()  # so that validation counts as no training time
        if self.world.is_main:
            self.checkpoints.save_and_prune(self.model.state_dict(), state.step, result, is_best)
        self.save()
        if self.world.is_main and state.rollback_step == state.step:
            self.checkpoints.mark_validated()

    def finish(self) -> None:
        """Average the last checkpoints; the average becomes best.safetensors if its validation score is the best."""
        self.stop.check()
        state, patience = self.state, self.config.train.patience
        if state.patience_spent(patience):
            since = state.validations_since_best
            log.info("Early stopping: no better %s in %d validations.", self.config.train.metric, since)
        paths = self.world.main_first(self.checkpoints.sound_step_paths)  # process 0 has written the last of them
        if len(paths) > 1:
            trained = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
            mean = checkpoint.average(paths)
            try:
                self.model.load_state_dict(mean)
                result = self.validation.run()
            finally:  # also when interrupted: last.safetensors gets the weights that were trained
                self.model.load_state_dict(trained)
            is_best = result.better_than(state.best, self.config.train.metric)
            log.info("average of %d checkpoints: %s%s", len(paths), result, "  (best)" if is_best else "")
            if self.world.is_main:
                self.checkpoints.save_average(mean, state.step, result, is_best)
        state.finished = True
        self.save()

    def save(self) -> None:
        """Write last.safetensors, from which the training can be resumed, and the curves up to there."""
        self.train_step.settle()
        self.save_timer.restart()
        self.state.metrics = self.train_step.metrics.sums()
        if not self.world.is_main:
            return
        try:
            if self.logger is not None:
                self.logger.flush()  # before: the curves of a saved update are never missing
        finally:
            self.checkpoints.save_last(self.model, self.train_step.optimizer, self.state)

    def log_scalars(self, values: dict[str, float], step: int) -> None:
        """Add one point to each curve."""
        if self.logger is not None:
            self.logger.scalars(values, step)

    def divergence_message(self, error: TrainingDiverged) -> str:
        """The sentence for the user: what diverged, the last good checkpoint, and what to try."""
        last = self.checkpoints.last_path
        good = f"the last good checkpoint is {last}" if last.exists() else "there is no checkpoint yet"
        return (
            f"The training diverged after update {self.state.step}: {error}; {good}; try a smaller optim.lr, a longer "
            "optim.warmup_steps or precision=fp32 under another name=…"
        )

    def log_start(self) -> None:
        """Log the model's size, the data, precision and device."""
        size = sum(parameter.numel() for parameter in self.model.parameters()) / 1e6
        start = f"continuing after update {self.state.step}" if self.state.step else "starting"
        batches = self.train_step.batches
        data = f"{len(batches.pairs)} pairs in {batches.batches_per_epoch} batches an epoch"
        precision = f"{'bf16' if self.train_step.dtype == torch.bfloat16 else 'fp32'} on {self.device}"
        precision += f", {self.world.size} processes" if self.world.size > 1 else ""
        log.info("%s: %s, %.1f million parameters, %s, %s", self.config.name, start, size, data, precision)
        warn_if_only_warmup(self.config.optim, self.state.total_steps)

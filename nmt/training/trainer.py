"""The training loop: updates, and between them validations and checkpoints."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from nmt.config import presets
from nmt.config.schema import Config
from nmt.errors import Stopped, UserError
from nmt.evaluate.metrics import direction
from nmt.evaluate.verdict import TrainingFigures, is_rising
from nmt.models.dropout import set_dropout
from nmt.training.checkpoint_manager import CheckpointManager
from nmt.training.distributed import Interrupted
from nmt.training.optimizers import trained_parameters
from nmt.training.precision import precision_name
from nmt.training.profiling import profiled
from nmt.training.restore import average, load_merged, merged_weights
from nmt.training.schedule import TimeBudget, planned_updates, warmup_updates, warn_of_passes
from nmt.training.state import TrainingDiverged
from nmt.training.threads import ThreadChoice, thread_choices
from nmt.training.train_step import TrainMetrics, TrainStep
from nmt.training.validation import Validation, ValidationResult
from nmt.view.progress import Progress
from nmt.view.tensorboard import TensorBoardLogger
from nmt.view.text import short_number

log = logging.getLogger("nmt")
BUSY = 3  # a warning is given if this many times fewer updates than planned fit into the minutes
# Largest fraction of the time for saves between validations: a large model is saved less often
LARGEST_SHARE = 0.02
# Attention finds its place in the first hundreds of updates, before most validations
EARLY_UPDATES = frozenset({50, 100, 200, 400})


@dataclass(eq=False)
class Trainer:
    """Trains one run to the end of its budget, or until validation stops improving.

    In each process of a World a Trainer does the same; process 0 alone writes checkpoints and
    curves.
    """

    config: Config
    train_step: TrainStep
    validation: Validation
    checkpoints: CheckpointManager

    def __post_init__(self) -> None:
        self.stop = self.validation.stop
        self.world = self.train_step.world
        self.model = self.train_step.model
        self.state = self.train_step.state
        self.device = self.train_step.device
        self.saved_at = self.world.now()  # time of the last save
        self.save_seconds = 0.0  # of the last save by train.save_minutes
        self.logger: TensorBoardLogger | None = None  # of process 0, while `run` trains
        self.speed: dict[str, float] = {}  # for the progress bar; empty until it is measured

    def run(self) -> None:
        """Train to the end.

        Raises Stopped after Ctrl-C, when everything is saved, and UserError when the training
        diverges.
        """
        state = self.state
        if state.finished:
            self.report_finished()
            return
        self.report_start()
        # Dropout and warm-up are kept from the first validation on, unless a new schedule begins
        if state.step == state.schedule_start or not state.validated_step:
            self.decide_by_length()
        elif self.config.model.dropout is None:
            set_dropout(self.model, state.dropout)
        if self.world.is_main:
            # Points of updates after the saved one are discarded, since these are made again. If
            # the validation of the saved update is still due, so are the points of that update: a
            # process that was killed may have logged the validation. The training's own point of
            # that update is `state.point`, which is logged again below
            due = state.validation_due
            folder = self.checkpoints.folder / "tensorboard"
            self.logger = TensorBoardLogger(folder, state.step if due else state.step + 1)
        self.log_scalars(state.point)

        try:
            with (
                self.stop.on_signals(),
                Progress(state.total_steps, "update", "training", state.step) as progress,
                ThreadChoice(thread_choices(self.train_step)) as threads,
                profiled(self.config.train.profile, self.checkpoints.folder / "profile") as profile,
            ):
                try:
                    self.loop(progress, threads, profile)
                    self.finish()
                except Interrupted as interruption:
                    self.save_interrupted()
                    raise Stopped(
                        f"Interrupted after update {state.step}; everything is saved in "
                        f"{self.checkpoints.folder}: give the same command again to continue.",
                        interruption.signal,
                    ) from None
        except TrainingDiverged as error:
            last = self.checkpoints.last_path
            good = f"the last good checkpoint is {last}"
            if not last.exists():
                good = "there is no checkpoint yet"
            raise UserError(
                f"The training diverged after update {state.step}: {error}; {good}; try a smaller "
                "optim.lr, a longer optim.warmup_steps or precision=fp32 under another name=…"
            ) from None
        finally:
            if self.logger is not None:
                self.logger.close()

    def report_finished(self) -> None:
        log.info("%s is already trained: %d updates.", self.config.name, self.state.step)
        patience = self.config.train.patience
        if self.state.patience_spent(patience):
            log.info(
                "Its last %d validations had no better score; a larger train.patience goes on.",
                patience,
            )

    def report_start(self) -> None:
        state = self.state
        batches = self.train_step.batches
        parameters = sum(parameter.numel() for parameter in self.model.parameters())
        trained = sum(parameter.numel() for parameter in trained_parameters(self.model))
        of_these = "" if trained == parameters else f" ({trained / 1e6:.1f} of them trained)"
        log.info(
            "%s: %s, %.1f million parameters%s, %d pairs in %d batches an epoch, %s on %s, %d "
            "process(es)",
            self.config.name,
            f"continuing after update {state.step}" if state.step else "starting",
            parameters / 1e6,
            of_these,
            len(batches.pairs),
            batches.batches_per_epoch,
            precision_name(self.train_step.dtype),
            self.device,
            self.world.size,
        )
        if state.schedule_start and state.step == state.schedule_start:
            log.info(
                "The training had ended; the learning rate rises anew and decays to the end of "
                "the new limit."
            )

    def loop(self, progress: Progress, threads: ThreadChoice, profile: Callable[[], None]) -> None:
        """Update, validate and save checkpoints until the budget or the patience is spent.

        `profile` is called after each update.
        """
        state = self.state
        train = self.config.train
        limit = planned_updates(train, self.updates_per_epoch)
        budget = TimeBudget(state, train, self.world, limit)
        while True:
            try:
                # Once in a while: the number of updates that max_minutes has time for
                if budget.can_estimate():
                    self.convert_minutes(budget, progress)
                elif (total := budget.corrected()) is not None:
                    self.change_total(total, progress)

                # Once in a while: validate, and save checkpoints
                if state.validation_due:
                    self.exclude_from_speed(budget.time_validation(self.validate))
                if state.budget_spent or state.patience_spent(train.patience):
                    return
                self.save_by_time()

                # One update
                shown = threads.update(self.train_step)
                budget.after_update()
                profile()
                progress.update(1, shown | self.speed)

                # The curves, from the updates since their last point
                due = state.validation_due
                state.point = {}
                if state.step % train.log_every == 0:
                    self.train_step.settle()
                    if self.train_step.metrics.updates:
                        point = self.train_step.metrics.scalars(shown["lr"], self.device)
                        self.log_scalars(point)
                        self.speed = {"tokens/s": point["speed/target_tokens_per_second"]}
                        if due:
                            state.point = point
                    self.train_step.metrics = TrainMetrics()

                # Early pictures of the attention. They are drawn before anything is saved at this
                # step, because a training that is resumed from there does not draw them again
                if state.step in EARLY_UPDATES and not due:
                    self.exclude_from_speed(budget.leave_out(self.log_attention))
            except TrainingDiverged as error:
                self.roll_back(error)
            self.stop.check()

    def exclude_from_speed(self, seconds: float) -> None:
        """The next point of the curves shows the speed without these seconds."""
        self.train_step.metrics.started += seconds

    def save_interrupted(self) -> None:
        try:
            self.train_step.settle()
        except TrainingDiverged as error:  # one invalid update too many
            self.roll_back(error)
        self.save()
        self.world.gather_objects(None)  # waits for all: torchrun ends the others when one ends

    def roll_back(self, error: TrainingDiverged) -> None:
        """Go on with the weights of the last clean validation, and with the next batches.

        The count of updates goes on, and so do the budget and the learning rate. Raises `error` the
        second time, and if there is no such checkpoint.
        """
        state = self.state
        if state.rolled_back:
            raise error
        step = self.checkpoints.roll_back(self.model, self.train_step.optimizer)
        if step is None:
            raise error
        log.warning(
            "Update %d: %s; the training goes on with the weights of update %d.",
            state.step,
            error,
            step,
        )
        state.rolled_back = True
        state.skipped = []
        self.save()

    def convert_minutes(self, budget: TimeBudget, progress: Progress) -> None:
        """Convert max_minutes into the total number of updates; a validation is timed for it."""
        state = self.state
        self.train_step.settle()
        validation = budget.time_validation(lambda: self.run_validation(reference_lengths=True))
        self.exclude_from_speed(validation)
        update_seconds = budget.end_measurement()
        if self.config.train.validate_every is None:
            state.validate_every = budget.validation_interval(update_seconds)
        state.total_steps = budget.total_updates(update_seconds)
        state.budget_fixed = True
        progress.set_total(state.total_steps)
        log.info(
            "%.3g s an update, %.3g s a validation after every %d updates: %d updates fit into %g "
            "minutes, %s passes.",
            update_seconds,
            validation,
            state.validate_every,
            state.total_steps,
            self.config.train.max_minutes,
            short_number(self.passes),
        )
        self.decide_by_length()  # after a validation, too, if the training was given more minutes
        self.save()  # so that a training that is killed keeps the number

    def change_total(self, total: int, progress: Progress) -> None:
        """Train for another number of updates, because their speed has changed."""
        state = self.state
        old_total = state.total_steps
        assert old_total is not None
        old_passes = short_number(self.passes)
        state.total_steps = total  # which changes self.passes
        comparison = f"{short_number(self.passes)} passes instead of {old_passes}"
        minutes = self.config.train.max_minutes
        log.info("%d updates fit into %g minutes now, %s.", total, minutes, comparison)
        if BUSY * total <= old_total:
            log.warning(
                "%s: this computer is busy with something else, or slower than at first. The "
                "same command with a larger train.max_minutes goes on after the end.",
                comparison,
            )
        if not state.validated_step:  # later, the training keeps its dropout and warm-up
            self.decide_by_length()
        progress.set_total(total)
        self.save()

    def decide_by_length(self) -> None:
        """Decide the warm-up, and the dropout for model.dropout=null, once the length is known.

        With max_minutes it is known when the minutes are converted; until then the other limits say
        only how long the training can be at most.
        """
        state = self.state
        optim = self.config.optim
        total = state.scheduled_updates
        is_open = self.config.train.max_minutes is not None and not state.budget_fixed
        if total is None or is_open:
            return
        warn_of_passes(self.passes)
        state.warmup_steps = warmup_updates(optim, total)
        if optim.warmup_steps is not None and state.warmup_steps < optim.warmup_steps:
            log.info("The warm-up has %d updates, a quarter of the %d.", state.warmup_steps, total)
        if self.config.model.dropout is None:
            needs_some = self.config.from_run is not None or self.config.train.r_drop > 0
            state.dropout = presets.dropout(self.passes, needs_some)
            passes = short_number(self.passes)
            log.info("model.dropout=%g, for %s passes over the pairs.", state.dropout, passes)
            set_dropout(self.model, state.dropout)

    @property
    def passes(self) -> float:
        """How often the whole training passes over its pairs; 0 while its length is not known."""
        return (self.state.total_steps or 0) / self.updates_per_epoch

    @property
    def figures(self) -> TrainingFigures:
        """How long the training was, for the verdict."""
        state = self.state
        train = self.config.train
        limit = planned_updates(train, self.updates_per_epoch)
        # Time or patience has ended it; `is_early` tells which
        below_limit = train.max_minutes is not None and (limit is None or state.step < limit)
        return TrainingFigures(
            pairs=len(self.train_step.batches.pairs),
            passes=state.step / self.updates_per_epoch,
            minutes=state.seconds / 60 if below_limit else None,
            is_rising=is_rising(state.scores, direction(train.metric)),
            is_early=state.patience_spent(train.patience),
        )

    @property
    def updates_per_epoch(self) -> float:
        batches_per_update = self.config.train.accumulate * self.world.size
        return self.train_step.batches.batches_per_epoch / batches_per_update

    def run_validation(self, reference_lengths: bool = False) -> ValidationResult:
        """Scores of the present weights; example translations and heatmaps are logged."""
        result = self.validation.run(reference_lengths)
        if self.logger is not None:
            self.validation.log_examples(self.logger, result, self.state.step)
        return result

    def log_attention(self) -> None:
        """Heatmaps and the alignment error rate of the present weights, between validations."""
        if self.logger is not None:
            self.validation.log_attention(self.logger, self.state.step)

    def validate(self) -> None:
        """Validate, count validations without a better score, log, and save checkpoints."""
        state = self.state
        metric = self.config.train.metric
        self.train_step.settle()
        result = self.run_validation()
        is_best = result.better_than(state.best, metric)
        state.scores.append(result.scores[metric])
        state.validations_since_best += 1
        if is_best:
            state.best = result.scores[metric]
            state.validations_since_best = 0
        if not any(step > state.validated_step for step in state.skipped):
            state.rollback_step = state.step
        state.validated_step = state.step
        state.point = {}
        log.info("update %d: %s%s", state.step, result, "  (best so far)" if is_best else "")
        self.log_scalars(result.scalars())
        if self.world.is_main:
            weights = merged_weights(self.model)
            self.checkpoints.save_scored(weights, state.step, result, is_best)
        self.save()
        if self.world.is_main and state.rollback_step == state.step:
            self.checkpoints.mark_validated()

    def finish(self) -> None:
        """Average the last checkpoints, and save.

        The average becomes best.safetensors if its validation score is the best.
        """
        self.stop.check()
        state = self.state
        metric = self.config.train.metric
        if state.patience_spent(self.config.train.patience):
            since = state.validations_since_best
            log.info("Early stopping: no better %s in %d validations.", metric, since)
        checkpoints = self.checkpoints
        paths = self.world.main_first(  # process 0 writes them, and sets damaged ones aside
            lambda: list(filter(checkpoints.sound_or_set_aside, checkpoints.step_paths()))
        )
        if len(paths) > 1:
            trained = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
            mean = average(paths)
            # last.safetensors gets the trained weights, also when this validation is interrupted
            try:
                load_merged(self.model, mean)
                result = self.validation.run()
            finally:
                self.model.load_state_dict(trained)
            is_best = result.better_than(state.best, metric)
            marked = "  (best)" if is_best else ""
            log.info("average of %d checkpoints: %s%s", len(paths), result, marked)
            if self.world.is_main:
                checkpoints.save_scored(mean, state.step, result, is_best, paths)
        state.finished = True
        self.save()

    def save(self) -> None:
        """Write last.safetensors, from which a training is continued, and the curves up to it."""
        self.train_step.settle()
        self.state.metrics = self.train_step.metrics.sums()
        if self.world.is_main:
            # First the curves, so that a kill in between loses none of a saved update. If they
            # cannot be written, the weights are saved all the same
            try:
                if self.logger is not None:
                    self.logger.flush()
            finally:
                self.checkpoints.save_last(self.model, self.train_step.optimizer, self.state)
        # The others wait here for the file
        self.saved_at = self.world.broadcast(time.monotonic())

    def save_by_time(self) -> None:
        """Save train.save_minutes after the last save, but in at most LARGEST_SHARE of the time."""
        minutes = self.config.train.save_minutes
        if minutes is None:
            return
        start = self.world.now()
        if start - self.saved_at >= max(60 * minutes, self.save_seconds / LARGEST_SHARE):
            self.save()
            self.save_seconds = self.saved_at - start

    def log_scalars(self, values: dict[str, float]) -> None:
        """Add one point to each curve, at the present update."""
        if self.logger is not None:
            self.logger.scalars(values, self.state.step)

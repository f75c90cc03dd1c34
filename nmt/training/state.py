"""The progress of a training, as last.safetensors stores it, and what is decided from it.

All decisions depend on the TrainState alone, so a continued training makes the same ones.
"""

import logging
import math
from dataclasses import dataclass, field
from typing import Any, get_args, get_origin, get_type_hints

from nmt.errors import UserError, is_printable

log = logging.getLogger("nmt")

VALIDATE_EVERY = 500  # updates between validations, where nothing else is decided
DECAY = 0.99  # of the running mean and variance of the losses
MIN_UPDATES = 100  # before a loss is compared with the running mean
# A loss is a spike if it is above the mean by this many nats and this many standard deviations
MIN_RISE = 2.0
MAX_DEVIATIONS = 10.0
# MAX_SKIPPED updates among WINDOW may be skipped
MAX_SKIPPED = 5
WINDOW = 100
FIRST_LOSS_SCALE = 2.0**16
UPDATES_BEFORE_DOUBLING = 2000  # of the loss scale


class TrainingDiverged(Exception):
    """Losses or gradients are invalid again and again; the text says which, and in which batch."""


@dataclass
class TrainState:
    """How far a training is: all that a resumed one needs besides the weights and the optimizer.

    No random state is kept, since every update has random numbers of its own (`TrainStep`).
    """

    step: int = 0  # updates so far
    epoch: int = 0
    shard: int = 0  # index in the epoch's order of the corpus's shards
    position: int = 0  # of the next batch in the shard's plan
    # Updates of the whole training. Until max_minutes is converted: by max_steps and max_epochs
    # alone, None without these
    total_steps: int | None = None
    budget_fixed: bool = False  # max_minutes is converted into total_steps, which may still change
    # updates before the schedule of the learning rate: those of an earlier, finished training
    schedule_start: int = 0
    warmup_steps: int | None = None  # of the schedule; None until it begins
    dropout: float | None = None  # what was decided for model.dropout=null; None until then
    validate_every: int = VALIDATE_EVERY  # updates between validations
    validated_step: int = 0  # the step of the last validation
    # what the training's curves show at `step`, kept until the validation at this step is done
    point: dict[str, float] = field(default_factory=dict)
    best: float | None = None  # the best validation score so far, of train.metric
    validations_since_best: int = 0
    scores: list[float] = field(default_factory=list)  # of train.metric, at each validation
    finished: bool = False
    loss_mean: float = 0.0  # running mean of the updates' losses
    loss_variance: float = 0.0
    # sums since the last point of the curves
    metrics: dict[str, float] = field(default_factory=dict)
    skipped: list[int] = field(default_factory=list)  # the last updates that were skipped
    rollback_step: int = 0  # the last clean validation: no update skipped since the one before
    rolled_back: bool = False  # the training has gone back to rollback_step once
    seconds: float = 0.0  # of training so far, interruptions left out
    device: str = "cpu"  # where it was last trained: cpu or cuda
    batches_per_update: int = 1  # of all processes
    batch_tokens: int = 0  # padded positions of a batch; 0: not decided yet
    # bf16, fp16 or fp32, as decided for precision=auto; empty: not decided yet
    precision: str = ""
    loss_scale: float = 0.0  # the factor of the next update's loss, in fp16; 0: none
    next_loss_scale: float = 0.0  # that of the update after it
    loss_scale_step: int = 0  # the update after which next_loss_scale last changed
    tokens: int = 0  # target tokens trained on so far, </s> counted, padding not

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> "TrainState":
        """The state in a checkpoint; what it lacks is as at the start. Raises UserError."""
        types = get_type_hints(cls)
        for key, value in stored.items():
            is_possible = key in types and is_of_type(value, types[key])
            if not is_possible or (key == "validate_every" and value < 1):
                raise UserError(
                    f"The checkpoint's train_state has {key!r:.100}={value!r:.100}, which is not "
                    "possible."
                )
        return cls(**stored)

    @property
    def scheduled_updates(self) -> int | None:
        """The updates of the learning rate's schedule; None if total_steps is."""
        return None if self.total_steps is None else self.total_steps - self.schedule_start

    @property
    def budget_spent(self) -> bool:
        """Whether all updates of the budget have been made."""
        return self.total_steps is not None and self.step >= self.total_steps

    def patience_spent(self, patience: int) -> bool:
        """Whether `patience` validations in a row brought no better score; 0: never."""
        return 0 < patience <= self.validations_since_best

    @property
    def validation_due(self) -> bool:
        """Whether the present weights are to be validated, and have not been.

        That is after every `validate_every`-th update, and after the last.
        """
        if self.step == 0 or self.validated_step == self.step:
            return False
        return self.step % self.validate_every == 0 or self.budget_spent

    def loss_limit(self, vocabulary: int) -> float:
        """The largest loss (mean −log p) of the next update; with a larger one it is skipped.

        5 log V, which is five times the loss of a uniform guess; after MIN_UPDATES also not far
        above the losses before it.
        """
        limit = 5 * math.log(vocabulary)
        if self.step < MIN_UPDATES:
            return limit
        rise = max(MIN_RISE, MAX_DEVIATIONS * math.sqrt(self.loss_variance))
        return min(limit, self.loss_mean + rise)

    def record_loss(self, loss: float) -> None:
        """Bring the running mean and variance of the losses up to date."""
        if not self.tokens:  # the first loss
            self.loss_mean = loss
        change = loss - self.loss_mean
        self.loss_mean += (1 - DECAY) * change
        self.loss_variance = DECAY * (self.loss_variance + (1 - DECAY) * change**2)

    def begin_loss_scaling(self) -> None:
        """Scale the loss from the next update on, if it is not scaled yet.

        Small gradients would be 0 in float16, so the loss is multiplied by a factor, and the
        gradients are divided by it. The factor is halved if they overflow, and doubled after
        UPDATES_BEFORE_DOUBLING updates in which they did not (Micikevicius et al. 2018 §3.2).
        """
        if not self.loss_scale:
            self.loss_scale = FIRST_LOSS_SCALE
            self.next_loss_scale = FIRST_LOSS_SCALE
            self.loss_scale_step = self.step

    def record_overflow(self, loss_scale: float) -> None:
        """Note that update `step`, with its loss times `loss_scale`, overflowed and was skipped.

        On a GPU the next update is queued by then, so the new factor is for the one after it.
        """
        if loss_scale == self.next_loss_scale:  # not halved since this update was queued
            self.next_loss_scale /= 2
            self.loss_scale_step = self.step
        log.info(
            "Update %d is skipped: its gradients are too large for float16. The loss is now "
            "multiplied by %g instead of %g.",
            self.step,
            self.next_loss_scale,
            loss_scale,
        )

    def grow_loss_scale(self) -> None:
        """Double the factor if there has been no overflow for long; `step` had none."""
        is_due = self.step - self.loss_scale_step >= UPDATES_BEFORE_DOUBLING
        if self.loss_scale and is_due:
            self.next_loss_scale *= 2
            self.loss_scale_step = self.step

    def record_skip(self, loss: float, gradient_norm: float, limit: float, batch: str) -> None:
        """Note that update `step`, with this batch, was skipped.

        Raises TrainingDiverged if too many were: the training then goes back to the last clean
        validation, or ends if it has done so before.
        """
        comparison = ""
        if limit < loss < math.inf and self.tokens:
            comparison = f", while the mean loss is {self.loss_mean:.4g}"
        fault = f"loss {loss:.4g}, gradient norm {gradient_norm:.4g}{comparison} in {batch}"
        self.skipped = [step for step in self.skipped if step > self.step - WINDOW]
        self.skipped.append(self.step)
        if len(self.skipped) > MAX_SKIPPED:
            raise TrainingDiverged(fault)
        log.warning("Update %d is skipped: %s.", self.step, fault)


def is_of_type(value: Any, kind: Any) -> bool:
    """Whether a value from a file, with its elements, is of the type of a field of TrainState.

    Texts must be printable, and a bool is no number here.
    """
    if get_origin(kind) is list:
        [element_kind] = get_args(kind)
        return isinstance(value, list) and all(is_of_type(each, element_kind) for each in value)
    if get_origin(kind) is dict:
        key_kind, value_kind = get_args(kind)
        if not isinstance(value, dict):
            return False
        return all(is_of_type(key, key_kind) for key in value) and all(
            is_of_type(each, value_kind) for each in value.values()
        )
    if not isinstance(value, kind) or isinstance(value, bool) != (kind is bool):
        return False
    return not isinstance(value, str) or is_printable(value)

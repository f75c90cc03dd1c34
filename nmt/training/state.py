"""The progress of a training, as last.safetensors stores it."""

from dataclasses import dataclass, field
from typing import Any, get_type_hints

from nmt.errors import UserError, is_printable


@dataclass
class TrainState:
    """How far a training is; with the weights, optimizer and random states all that a resumed training needs."""

    step: int = 0  # updates so far
    epoch: int = 0
    shard: int = 0  # index in the epoch's order of the corpus's shards
    position: int = 0  # of the next batch in the shard's plan
    total_steps: int | None = None  # updates of the whole training; None until max_minutes is converted
    budget_fixed: bool = False  # max_minutes has been converted into total_steps
    validated_step: int = 0  # the step of the last validation
    point: dict = field(default_factory=dict)  # of the training curves at `step`, while its validation is due
    best: float | None = None  # the best validation score so far, of train.metric
    validations_since_best: int = 0
    finished: bool = False
    seconds: float = 0.0  # of training so far, interruptions left out
    device: str = "cpu"  # cpu or cuda, that it was last trained on
    world_size: int = 1  # processes, likewise
    batches_per_update: int = 1  # of all processes
    precision: str = ""  # bf16 or fp32: what precision=auto was decided to be; it stays so
    tokens: int = 0  # target tokens trained on so far, </s> counted, padding not

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> "TrainState":
        """The state that a checkpoint has; what it lacks is as at the start. Raises UserError for what is no state."""
        types = get_type_hints(cls)
        for key, value in stored.items():
            right = key in types and isinstance(value, types[key]) and isinstance(value, bool) == (types[key] is bool)
            texts = [value] if isinstance(value, str) else list(value) if isinstance(value, dict) else []
            if not (right and all(isinstance(text, str) and is_printable(text) for text in texts)):
                raise UserError(f"The checkpoint's train_state has {key!r:.100}={value!r:.100}, which is not possible.")
        state = cls(**stored)
        if not all(isinstance(value, float) for value in state.point.values()):
            raise UserError("The checkpoint's train_state has a point that is no number, which is not possible.")
        return state

    @property
    def budget_spent(self) -> bool:
        """Whether all updates of the budget have been made."""
        return self.total_steps is not None and self.step >= self.total_steps

    def patience_spent(self, patience: int) -> bool:
        """Whether `patience` validations in a row brought no better score; patience 0 never ends a training."""
        return 0 < patience <= self.validations_since_best

    def validation_due(self, every: int) -> bool:
        """Whether this step, every `every`-th or the last, is to be validated and has not been yet."""
        if self.step == 0 or self.validated_step == self.step:
            return False
        return self.step % every == 0 or self.budget_spent

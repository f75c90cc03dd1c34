"""The progress of a training, as last.safetensors stores it."""

from dataclasses import dataclass, field


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
    best: float | None = None  # the best validation score so far, of train.metric
    validations_since_best: int = 0
    finished: bool = False
    loss_mean: float = 0.0  # running mean of the updates' losses
    loss_variance: float = 0.0
    skipped: list[int] = field(default_factory=list)  # steps of the last updates that were left out
    rolled_back: bool = False  # the training has gone back to the last validation once
    seconds: float = 0.0  # of training so far, interruptions left out
    device: str = "cpu"  # cpu or cuda, that it was last trained on
    world_size: int = 1  # processes, likewise
    batches_per_update: int = 1  # of all processes
    tokens: int = 0  # target tokens trained on so far, </s> counted, padding not

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

"""When a training saves itself besides its validations, so that a kill costs minutes and no hours."""

from collections.abc import Callable


class SaveTimer:
    """Due every `minutes` by `clock`, which counts seconds; None: never."""

    def __init__(self, minutes: float | None, clock: Callable[[], float]) -> None:
        self.minutes, self.clock = minutes, clock
        self.last = clock()

    def due(self) -> bool:
        """Whether the minutes have passed since the last time that it was due, or `restart`."""
        if self.minutes is None or self.clock() - self.last < 60 * self.minutes:
            return False
        self.restart()
        return True

    def restart(self) -> None:
        """Something else has saved the training now."""
        self.last = self.clock()

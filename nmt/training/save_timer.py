"""When a training saves itself besides its validations, so that a kill costs a minute of work."""

from collections.abc import Callable

LARGEST_SHARE = 0.02  # of the time, for these saves: a large model is saved less often


class SaveTimer:
    """Calls a save every `minutes` (None: never) by `clock`, which counts seconds.

    Saves take at most LARGEST_SHARE of the time: after one that took s seconds, the next comes s / LARGEST_SHARE later
    or after `minutes`, whichever is longer.
    """

    def __init__(self, minutes: float | None, clock: Callable[[], float]) -> None:
        self.interval, self.clock = None if minutes is None else 60 * minutes, clock
        self.last, self.cost = clock(), 0.0

    def save_if_due(self, save: Callable[[], None]) -> None:
        """Call `save` if the time has come."""
        if self.interval is None:
            return
        now = self.clock()
        if now - self.last >= max(self.interval, self.cost / LARGEST_SHARE):
            save()
            self.restart()
            self.cost = self.last - now

    def restart(self) -> None:
        """Count from now on, after a save of any kind."""
        self.last = self.clock()

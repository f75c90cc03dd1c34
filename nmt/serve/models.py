"""The models of the service, which follow the versions of their runs.

A run is loaded at the start, or when it is first used. If it gets a new current version, that one
is loaded beside the old one. A request keeps the version that it began with; a version that has
been replaced is dropped when its last request has ended.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from prometheus_client.core import GaugeMetricFamily
from starlette.concurrency import run_in_threadpool

from nmt.attention.cpu import trim_memory
from nmt.corpus.language_pairs import language_pairs
from nmt.errors import UserError
from nmt.runs.run import Run
from nmt.runs.versions import version_of
from nmt.serve.batching import Queues
from nmt.serve.limits import busy
from nmt.serve.service import TRIED, Direction, Pair, pairs_of
from nmt.training.restore import load_config

log = logging.getLogger("nmt")
RETRY_SECONDS = 10.0  # in which a run that could not be loaded is not tried again by requests


class Model:
    """A version of a run in memory, and how many requests use it."""

    def __init__(
        self, run: Run, version: str, devices: tuple[threading.Lock, threading.Lock]
    ) -> None:
        self.version = version
        self.verdict = run.verdict
        self.queues = Queues(run.translator, devices)
        self.pairs = pairs_of(run, self.queues, version)
        self.users = 0
        self.is_replaced = False


@dataclass(eq=False)
class ServedRun:
    """A run by the name that it was given; its model is None while it is not in memory."""

    name: str
    directions: Sequence[Direction]
    model: Model | None
    seen: str  # the checkpoints that were last loaded, or why there were none
    last_used: float = 0.0
    failed: float = -RETRY_SECONDS  # when it could not be loaded
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)  # held while it is loaded


class Models:
    """The runs of a service.

    `find`: the checkpoints that the name of a run means now. `open_run`: the run of checkpoints.
    `most`: how many are in memory, if requests do not use more at the same time; 0: all.
    """

    def __init__(
        self,
        names: Sequence[str],
        find: Callable[[str], Sequence[Path]],
        open_run: Callable[[Sequence[Path]], Run],
        most: int = 0,
    ) -> None:
        """Load the first runs. Raises UserError, also for a direction that two runs have."""
        self.find = find
        self.open_run = open_run
        self.most = most or len(names)
        # held while a model computes, so that models do not compete for the cores
        self.devices = threading.Lock(), threading.Lock()
        self.runs: list[ServedRun] = []
        self.by_direction: dict[Direction, ServedRun] = {}
        self.closing: set[asyncio.Task[None]] = set()
        for name in names:
            checkpoints = find(name)
            model = self.load(checkpoints) if len(self.runs) < self.most else None
            if model is not None:
                directions = list(model.pairs)
            else:
                directions = language_pairs(load_config(checkpoints[0]).data)
            if twice := self.by_direction.keys() & directions:
                raise UserError(
                    f"{name} translates {'-'.join(min(twice))}, as a run before it does; leave "
                    "one of them out."
                )
            served = ServedRun(name, directions, model, str(checkpoints))
            self.runs.append(served)
            self.by_direction |= dict.fromkeys(directions, served)

    @property
    def loaded(self) -> list[Model]:
        return [served.model for served in self.runs if served.model]

    def load(self, checkpoints: Sequence[Path]) -> Model:
        """A model that has translated something; raises UserError, and what translating raises."""
        version = "+".join(str(version_of(path.parent)[1]) for path in checkpoints)
        model = Model(self.open_run(checkpoints), version, self.devices)
        try:
            model.queues.submit([TRIED]).result()
        except Exception:
            model.queues.close()
            raise
        return model

    async def renew(self, served: ServedRun, always: bool = False) -> None:
        """Load what a run's name means now, if that has changed.

        What cannot be loaded is said in the log, and what is loaded goes on.
        """
        found: Sequence[Path] | UserError
        try:
            found = self.find(served.name)
        except UserError as error:
            found = error
        if str(found) == served.seen and served.model and not always:
            return
        served.seen = str(found)
        before = served.model
        try:
            if isinstance(found, UserError):
                raise found
            model = await run_in_threadpool(self.load, found)
            if list(model.pairs) != list(served.directions):
                self.close(model)
                raise UserError("it translates other languages now; start the service again")
        except Exception as error:
            goes_on = f"; version {before.version} goes on" if before else ""
            reason = error if isinstance(error, UserError) else repr(error)
            log.error("%s cannot be loaded%s: %s", served.name, goes_on, reason)
            served.failed = time.monotonic()
            return
        log.info("%s: version %s translates from now on.", served.name, model.version)
        self.replace(served, model)

    def replace(self, served: ServedRun, model: Model | None) -> None:
        """Give new requests another model, or none."""
        old = served.model
        served.model = model
        if old is not None:
            old.is_replaced = True
            if not old.users:
                self.close(old)

    def close(self, model: Model) -> None:
        """End the threads of a model, and give its memory back, while others are used."""
        closing = asyncio.get_running_loop().create_task(end(model.queues))
        self.closing.add(closing)
        closing.add_done_callback(self.closing.discard)

    async def use(self, served: ServedRun) -> Model:
        """The model of a run, for a request that gives it back; raises Refusal."""
        served.last_used = time.monotonic()
        if served.model is None:
            async with served.lock:
                if served.model is None and time.monotonic() > served.failed + RETRY_SECONDS:
                    self.make_room(self.most - 1)
                    await self.renew(served)
        if served.model is None:
            raise busy("The model for these languages cannot be loaded", "model")
        served.model.users += 1
        return served.model

    def give_back(self, model: Model) -> None:
        model.users -= 1
        if model.is_replaced and not model.users:
            self.close(model)
        self.make_room(self.most)

    def make_room(self, most: int) -> None:
        """Drop models that no request uses, those that were used last the longest time ago."""
        idle = [served for served in self.runs if served.model and not served.model.users]
        idle.sort(key=lambda served: served.last_used)
        for served in idle[: max(0, len(self.loaded) - most)]:
            log.info("%s is dropped, and loaded again when it is used.", served.name)
            self.replace(served, None)

    async def close_all(self) -> None:
        """Translate what has been taken, then stop."""
        for model in self.loaded:
            self.close(model)
        await asyncio.gather(*self.closing)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """What is in memory, for Prometheus."""
        about = "1 for each direction of a run in memory, with its version"
        family = GaugeMetricFamily("nmt_model", about, labels=["run", "pair", "version"])
        for served in self.runs:
            for pair in served.model.pairs.values() if served.model else ():
                family.add_metric([served.name, pair.name, pair.version], 1)
        yield family


async def end(queues: Queues) -> None:
    await run_in_threadpool(queues.close)
    del queues
    await run_in_threadpool(trim_memory)


class Lease:
    """The models that one request uses, each of the version that it began with."""

    def __init__(self, models: Models) -> None:
        self.models = models
        self.used: dict[ServedRun, Model] = {}
        self.pairs: list[Pair] = []  # in the order of their use

    async def pair(self, direction: Direction) -> Pair | None:
        """The pair of a direction, None if no run has it; raises Refusal."""
        served = self.models.by_direction.get(direction)
        if served is None:
            return None
        if served not in self.used:
            self.used[served] = await self.models.use(served)
        pair = self.used[served].pairs[direction]
        if pair not in self.pairs:
            self.pairs.append(pair)
        return pair

    def end(self) -> None:
        for model in self.used.values():
            self.models.give_back(model)

"""Sentences of several requests are translated together, by one thread for each model."""

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from itertools import islice

from nmt.decode.forced_decoding import AttentionRecord
from nmt.decode.translator import Translation, Translator

log = logging.getLogger("nmt")
Answer = tuple[Translation, list[AttentionRecord]]  # records of its parts where they were asked for, else none
MOST, CHARACTERS = 64, 2000  # sentences that are translated together, and how long they are together
WAIT = 0.004  # seconds that a first sentence waits for others
WAITING = 20_000  # sentences in the queue; a request beyond is refused


class Full(Exception):
    """Too many sentences wait already."""


class Job:
    """The sentences of one request, and the answers to those that have been translated."""

    def __init__(self, sentences: Sequence[str], detailed: Sequence[bool]) -> None:
        self.left = deque(zip(sentences, detailed, strict=True))
        self.size, self.answers = len(sentences), list[Answer]()
        self.future: Future[list[Answer]] = Future()  # cancelled where nobody waits any longer

    def take(self, most: int, characters: int) -> list[tuple[str, bool]]:
        """The next sentences, at least one."""
        taken = [self.left.popleft()]
        while self.left and len(taken) < most and sum(len(text) for text, _ in taken) < characters:
            taken.append(self.left.popleft())
        return taken


class Batcher:
    """Translates jobs in turn, some sentences of each: a long one does not hold up the short ones behind it.

    `device` is held while a model computes, so that the models of one service do not compete for the cores.
    """

    def __init__(self, translator: Translator, device: threading.Lock) -> None:
        self.translator, self.device = translator, device
        self.jobs, self.changed, self.closed = list[Job](), threading.Condition(), False
        self.thread = threading.Thread(target=self.run, name="nmt-translate", daemon=True)
        self.thread.start()

    @property
    def waiting(self) -> int:
        """How many sentences are not yet translated."""
        return sum(job.size - len(job.answers) for job in list(self.jobs))

    def submit(self, sentences: Sequence[str], detailed: Sequence[bool]) -> "Future[list[Answer]]":
        """An answer to each sentence, later; raises Full."""
        job = Job(sentences, detailed)
        if not sentences:
            job.future.set_result([])
            return job.future
        with self.changed:
            if self.closed or self.waiting + len(sentences) > WAITING:
                raise Full
            self.jobs.append(job)
            self.changed.notify()
        return job.future

    def close(self) -> None:
        """Translate what has been taken, then stop."""
        with self.changed:
            self.closed = True
            self.changed.notify()
        self.thread.join()

    def run(self) -> None:
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.jobs or self.closed)
                if not self.jobs:
                    return
            time.sleep(WAIT)
            with self.changed:
                self.jobs = [job for job in self.jobs if not job.future.cancelled()]
                shared = max(1, len(self.jobs))
                taken = [(job, job.take(MOST // shared, CHARACTERS // shared)) for job in self.jobs[:MOST]]
            if taken:
                self.answer(taken)
            with self.changed:  # those that have had their turn go behind those that have not
                self.jobs = self.jobs[len(taken) :] + [job for job, _ in taken if len(job.answers) < job.size]

    def answer(self, taken: list[tuple[Job, list[tuple[str, bool]]]]) -> None:
        """Translate some sentences of each job; where that fails, each job by itself, so that one alone fails."""
        try:
            with self.device:
                found = iter(self.translate([sentence for _, sentences in taken for sentence in sentences]))
        except Exception as error:
            if len(taken) > 1:
                for each in taken:
                    self.answer([each])
                return
            log.exception("A request could not be translated.")
            job = taken[0][0]
            job.size = len(job.answers)
            if job.future.set_running_or_notify_cancel():
                job.future.set_exception(error)
            return
        for job, sentences in taken:
            job.answers += islice(found, len(sentences))
            if len(job.answers) == job.size and job.future.set_running_or_notify_cancel():
                job.future.set_result(job.answers)

    def translate(self, sentences: list[tuple[str, bool]]) -> list[Answer]:
        found = list(self.translator.translate_chunk([sentence for sentence, _ in sentences]))
        detailed = [each for each, (_, wanted) in zip(found, sentences, strict=True) if wanted]
        records = iter(self.translator.with_records(detailed))
        return [(each, next(records)[1] if wanted else []) for each, (_, wanted) in zip(found, sentences, strict=True)]

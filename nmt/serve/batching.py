"""Sentences of several requests are translated together, in two queues for each model.

Short requests have a queue and a thread of their own, so that none of them waits for a part of a
long one. In both queues requests take turns, some sentences of each. What nobody waits for any
longer stops at the next batch.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from itertools import islice
from typing import NamedTuple

from nmt.decode.forced_decoding import AttentionRecord
from nmt.decode.translator import Translation, Translator

log = logging.getLogger("nmt")
Records = list[AttentionRecord]
Answer = tuple[Translation, Records]  # records of its parts where they were asked for, else none
MOST_SENTENCES = 64  # that are translated together
MOST_PIECES = 512  # of the sentences that are translated together, unless one alone has more
WAIT = 0.004  # seconds that a first sentence waits for others
# Beside short requests of the last second, a batch of long ones is smaller, and waits so many
# seconds for a pause.
MODEST_PIECES, PATIENCE = 128, 0.1
WAITING = 20_000  # sentences in the queues of a model; a request beyond is refused
# A request is short up to so many pieces in all, and in its longest sentence.
SHORT_REQUEST, SHORT_SENTENCE = 512, 128


class Full(Exception):
    """Too many sentences wait already."""


class Sentence(NamedTuple):
    """What is to be translated."""

    text: str
    pieces: int  # of the tokenizer: how much work it is
    is_detailed: bool = False  # whether records are wanted


class Job:
    """The sentences of one request, and the answers to those that have been translated."""

    def __init__(self, sentences: Sequence[Sentence]) -> None:
        self.left = deque(sentences)
        self.size = len(sentences)
        self.answers: list[Answer] = []
        self.future: Future[list[Answer]] = Future()  # cancelled where nobody waits any longer

    @property
    def waiting(self) -> int:
        return self.size - len(self.answers)

    def take(self, most_sentences: int, most_pieces: int) -> list[Sentence]:
        """The next sentences, at least one."""
        taken = [self.left.popleft()]
        pieces = taken[0].pieces
        while self.left and len(taken) < most_sentences:
            pieces += self.left[0].pieces
            if pieces > most_pieces:
                break
            taken.append(self.left.popleft())
        return taken


class Batcher:
    """One queue and its thread. Jobs take turns: a long one does not hold up those behind it.

    `device` is held while a model computes, so that the models of one service do not compete for
    the cores.
    """

    def __init__(
        self, translator: Translator, device: threading.Lock, preferred: "Batcher | None" = None
    ) -> None:
        self.translator = translator
        self.device = device
        self.preferred = preferred  # the queue that this one gives way to
        self.last_used = 0.0  # when a job came
        self.jobs: list[Job] = []
        self.changed = threading.Condition()
        self.is_closed = False
        self.begun: float | None = None  # when the batch began that is translated now
        self.thread = threading.Thread(target=self.run, name="nmt-translate", daemon=True)
        self.thread.start()

    @property
    def waiting(self) -> int:
        """How many sentences are not yet translated."""
        return sum(job.waiting for job in list(self.jobs))

    def is_alive(self, seconds: int) -> bool:
        """Whether jobs are answered: the thread runs, and no batch takes longer than `seconds`."""
        begun = self.begun
        is_stuck = begun is not None and time.monotonic() - begun > seconds
        return self.thread.is_alive() and not self.is_closed and not is_stuck

    def submit(self, sentences: Sequence[Sentence]) -> "Future[list[Answer]]":
        """An answer to each sentence, later; raises Full."""
        job = Job(sentences)
        if not sentences:
            job.future.set_result([])
            return job.future
        with self.changed:
            if self.is_closed or self.waiting + len(sentences) > WAITING:
                raise Full
            self.jobs.append(job)
            self.last_used = time.monotonic()
            self.changed.notify_all()
        return job.future

    def close(self) -> None:
        """Translate what has been taken, then stop."""
        with self.changed:
            self.is_closed = True
            self.changed.notify_all()
        self.thread.join()

    def run(self) -> None:
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.jobs or self.is_closed)
                if not self.jobs:
                    return
            time.sleep(WAIT)
            most_pieces = self.give_way()
            with self.changed:
                self.jobs = [job for job in self.jobs if not job.future.cancelled()]
                turn = self.jobs[:MOST_SENTENCES]
                share = max(1, len(turn))
                taken = [
                    (job, job.take(MOST_SENTENCES // share, most_pieces // share)) for job in turn
                ]
            if taken:
                self.begun = time.monotonic()
                self.answer(taken)
                self.begun = None
            with self.changed:  # those that have had their turn go behind those that have not
                self.jobs = self.jobs[len(taken) :] + [job for job, _ in taken if job.waiting]
                self.changed.notify_all()  # of a pause

    def give_way(self) -> int:
        """Wait for a pause of the preferred queue, not for long; how many pieces may be translated
        together then."""
        preferred = self.preferred
        if preferred is None or self.is_closed:
            return MOST_PIECES
        with preferred.changed:
            preferred.changed.wait_for(lambda: not preferred.jobs, PATIENCE)
        is_used = time.monotonic() < preferred.last_used + 1
        return MODEST_PIECES if is_used else MOST_PIECES

    def answer(self, taken: list[tuple[Job, list[Sentence]]]) -> None:
        """Translate some sentences of each job; where that fails, each job by itself, so that one
        alone fails."""
        try:
            with self.device:
                answers = iter(
                    self.translate([each for _, sentences in taken for each in sentences])
                )
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
            job.answers += islice(answers, len(sentences))
            if not job.waiting and job.future.set_running_or_notify_cancel():
                job.future.set_result(job.answers)

    def translate(self, sentences: list[Sentence]) -> list[Answer]:
        translations = list(self.translator.translate_chunk([each.text for each in sentences]))
        pairs = list(zip(translations, sentences, strict=True))
        detailed = [translation for translation, sentence in pairs if sentence.is_detailed]
        records = iter(self.translator.with_records(detailed))
        return [
            (translation, next(records)[1] if sentence.is_detailed else [])
            for translation, sentence in pairs
        ]


class Queues:
    """The queue of short requests and that of long ones, of one model.

    `devices`: the locks of each. What is short shares the cores with what is long, instead of
    waiting for it.
    """

    def __init__(
        self, translator: Translator, devices: tuple[threading.Lock, threading.Lock]
    ) -> None:
        # processes are not forked beside threads
        translator = translator.with_options(num_processes=1)
        self.translator = translator
        self.short = Batcher(translator, devices[0])
        self.long = Batcher(translator.beside_others(), devices[1], preferred=self.short)

    @property
    def both(self) -> tuple[Batcher, Batcher]:
        return self.short, self.long

    @property
    def waiting(self) -> int:
        return self.short.waiting + self.long.waiting

    def submit(self, sentences: Sequence[Sentence]) -> "Future[list[Answer]]":
        """An answer to each sentence, later; raises Full."""
        pieces = [each.pieces for each in sentences]
        is_short = sum(pieces) <= SHORT_REQUEST and max(pieces, default=0) <= SHORT_SENTENCE
        return (self.short if is_short else self.long).submit(sentences)

    def count_pieces(self, texts: Sequence[str]) -> list[int]:
        """How much work each text is."""
        tokenizers = self.translator.tokenizers
        return [len(ids) for ids in tokenizers.encode_sources(tokenizers.protect_sources(texts))]

    def close(self) -> None:
        """Translate what has been taken, then stop."""
        for batcher in self.both:
            batcher.close()

"""Sentences of several requests are translated together, in two queues for each model.

Short requests have a queue and a thread of their own, so that they do not wait for long ones. In
both queues requests take turns, some sentences of each. If nobody waits for a request any longer,
it stops at the next batch.
"""

import logging
import threading
import time
from collections import defaultdict, deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from nmt.decode.forced_decoding import AttentionRecord
from nmt.decode.glossary import Glossary
from nmt.decode.translation import Translation
from nmt.decode.translator import Translator
from nmt.serve.limits import WAITING

log = logging.getLogger("nmt")
Records = list[AttentionRecord]
Answer = tuple[Translation, Records]  # records of its parts where they were asked for, else none
MOST_SENTENCES = 64  # that are translated together
MOST_PIECES = 512  # of the sentences that are translated together, unless one alone has more
WAIT = 0.004  # seconds that a first sentence waits for others
# If short requests came in the last second, a batch of long ones is smaller, and waits at most so
# many seconds for a pause.
MODEST_PIECES = 128
PATIENCE = 0.1
# A request is short up to so many pieces in all, and in its longest sentence.
SHORT_REQUEST = 512
SHORT_SENTENCE = 128


class Full(Exception):
    """Too many sentences wait already."""


class Sentence(NamedTuple):
    """What is to be translated."""

    text: str
    pieces: int  # of the tokenizer: how much work it is
    is_detailed: bool = False  # whether records are wanted
    terms: Glossary | None = None  # of the request's own glossary; None: those of the run


class Job:
    """The sentences of one request, and the answers to those that have been translated."""

    def __init__(self, sentences: Sequence[Sentence]) -> None:
        self.left = deque(sentences)
        self.size = len(sentences)
        self.answers: list[Answer] = []
        self.future: Future[list[Answer]] = Future()  # cancelled if nobody waits any longer

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
        self.is_failing = False  # whether the last batch could not be translated
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
                taken = []
                for job in turn:
                    share = job.take(MOST_SENTENCES // len(turn), most_pieces // len(turn))
                    taken.append((job, share))
            if taken:
                self.begun = time.monotonic()
                self.answer(taken)
                self.begun = None
            with self.changed:  # those that have had their turn go behind those that have not
                self.jobs = self.jobs[len(taken) :] + [job for job, _ in taken if job.waiting]
                self.changed.notify_all()  # of a pause

    def give_way(self) -> int:
        """Wait a little for a pause of the preferred queue; how many pieces a batch may have."""
        preferred = self.preferred
        if preferred is None or self.is_closed:
            return MOST_PIECES
        with preferred.changed:
            preferred.changed.wait_for(lambda: not preferred.jobs, PATIENCE)
        is_used = time.monotonic() < preferred.last_used + 1
        return MODEST_PIECES if is_used else MOST_PIECES

    def answer(self, taken: list[tuple[Job, list[Sentence]]]) -> None:
        """Translate some sentences of each job; if that fails, each job by itself."""
        batch: list[Sentence] = []
        for _, sentences in taken:
            batch += sentences
        try:
            with self.device:
                answers = iter(self.translate(batch))
        except Exception as error:
            if len(taken) > 1:  # so that one job alone fails
                for job_and_sentences in taken:
                    self.answer([job_and_sentences])
                return
            log.exception("A request could not be translated.")
            self.is_failing = True
            job = taken[0][0]
            job.size = len(job.answers)
            if job.future.set_running_or_notify_cancel():
                job.future.set_exception(error)
            return
        self.is_failing = False
        for job, sentences in taken:
            job.answers += islice(answers, len(sentences))
            if not job.waiting and job.future.set_running_or_notify_cancel():
                job.future.set_result(job.answers)

    def translate(self, sentences: list[Sentence]) -> list[Answer]:
        """The answers to sentences; those of one glossary are searched together."""
        rows_of = defaultdict[int, list[int]](list)  # by the identity of the terms
        for row, sentence in enumerate(sentences):
            rows_of[id(sentence.terms)].append(row)
        answers: dict[int, Answer] = {}
        for rows in rows_of.values():
            alike = [sentences[row] for row in rows]
            answers |= zip(rows, self.translate_alike(alike), strict=True)
        return [answers[row] for row in range(len(sentences))]

    def translate_alike(self, sentences: list[Sentence]) -> list[Answer]:
        """The answers to sentences with the same terms."""
        translator = self.translator
        if sentences[0].terms is not None:
            translator = replace(translator, terms=sentences[0].terms)
        texts = [sentence.text for sentence in sentences]
        translations = list(translator.translate_chunk(texts))
        pairs = list(zip(translations, sentences, strict=True))
        detailed = [translation for translation, sentence in pairs if sentence.is_detailed]
        with_records = list(translator.with_records(detailed))
        translator.estimate(detailed, [records for _, records in with_records])
        remaining = iter(with_records)
        answers: list[Answer] = []
        for translation, sentence in pairs:
            records: Records = []
            if sentence.is_detailed:
                _, records = next(remaining)
            answers.append((translation, records))
        return answers


class Queues:
    """The queue of short requests and that of long ones, of one model.

    `devices`: the lock of each. Short requests share the cores with long ones, instead of waiting.
    """

    def __init__(
        self, translator: Translator, devices: tuple[threading.Lock, threading.Lock]
    ) -> None:
        # processes are not forked beside threads
        translator = replace(translator, num_processes=1)
        self.translator = translator
        self.short = Batcher(translator, devices[0])
        self.long = Batcher(translator.beside_others(), devices[1], preferred=self.short)

    @property
    def both(self) -> tuple[Batcher, Batcher]:
        return self.short, self.long

    def submit(self, sentences: Sequence[Sentence]) -> "Future[list[Answer]]":
        """An answer to each sentence, later; raises Full."""
        pieces = [sentence.pieces for sentence in sentences]
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

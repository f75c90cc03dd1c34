"""What the routes share: a model for each pair of languages, and what they ask of it."""

from __future__ import annotations

import asyncio
import logging
import re
import sqlite3
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from prometheus_client import CollectorRegistry, Gauge, Histogram, ProcessCollector
from prometheus_client import Counter as Metric
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request

from nmt.corpus.language_pairs import language_pairs
from nmt.corpus.languages import find_language, same_language
from nmt.corpus.tags import language_tag
from nmt.corpus.termbase import tabbed_lines
from nmt.decode.glossary import Glossary, read_glossary
from nmt.decode.translation import Translation
from nmt.documents.memory import TranslationMemory
from nmt.documents.segment import Segment
from nmt.documents.word_weights import WeightReader
from nmt.errors import UserError, printable
from nmt.evaluate.alignment import Alignment
from nmt.evaluate.extraction import record_words
from nmt.runs.run import Run
from nmt.serve.batching import Answer, Batcher, Full, Queues, Records, Sentence
from nmt.serve.clients import Clients, read_keys
from nmt.serve.corrections import Corrections
from nmt.serve.detection import SURE, Guess, guess_languages
from nmt.serve.kept_files import KeptFiles
from nmt.serve.limits import DOCUMENTS, WAITING, Limits, Refusal, busy
from nmt.serve.memory import Memory

AT_ONCE = 2000  # characters that are prepared in the event loop; more are prepared in a thread
TEXT_WORK = 50  # of each text of a list, in characters of a long one
TERM_WORK = 5  # of each term in a sentence, in translations of the sentence
TERM_CHARACTERS = 100  # of the source of a term in a request
POLL_SECONDS = 0.5  # between two looks whether the client still waits
FOLLOW_SECONDS = 1.0  # between two looks for new versions of the runs
TRIED = Sentence(".", 1)  # what a model translates to show that it works
# of requests; --seconds is added, the longest that one may take
BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300)
T = TypeVar("T")
Direction = tuple[str, str]  # source and target language
Units = Mapping[Direction, TranslationMemory]

if TYPE_CHECKING:
    from nmt.serve.models import Lease, Models

log = logging.getLogger("nmt")


@dataclass(eq=False)
class Pair:
    """A run that translates from one language into another; `tag` comes before each sentence."""

    run: Run
    queues: Queues
    source: str
    target: str
    tag: str
    version: str = "1"  # of the run

    def __post_init__(self) -> None:
        model = self.run.translator.model
        self.extractor = None
        self.reader = None
        if model.has_attention:
            self.extractor = self.run.make_extractor()
            self.reader = WeightReader.of_run(self.run.config.train, model)

    @property
    def name(self) -> str:
        return f"{self.source}-{self.target}"

    @property
    def keeps_units(self) -> bool:
        """Whether the model copies the private characters of units (tokenizer.protect)."""
        return self.run.translator.tokenizers.protects

    def places_units(self, segment: Segment) -> bool:
        """Whether word weights say where the units of a segment belong in its translation."""
        return bool(segment.units) and self.reader is not None

    def sentences(
        self, texts: Sequence[str], detailed: Sequence[bool], terms: Glossary | None = None
    ) -> list[Sentence]:
        """Texts with how much work they are; `terms`: of the request's own glossary."""
        tagged = [self.tag + text for text in texts]
        pieces = self.queues.count_pieces(tagged)
        if terms is not None:
            for row, text in enumerate(texts):
                pieces[row] *= 1 + TERM_WORK * len(terms.find_terms(text))
        rows = zip(tagged, pieces, detailed, strict=True)
        return [Sentence(*each, terms) for each in rows]

    def glossary(self, text: str) -> Glossary | None:
        """The terms of a request with those of the run; None if the request has none.

        Raises UserError for a term that is wrong, and where a file would only warn: a client sees
        no warning.
        """
        if not text:
            return None

        def refuse(reason: str) -> None:
            raise UserError(reason)

        lines = re.split("\r?\n", text.removeprefix("\ufeff"))
        lines = tabbed_lines("glossary", lines, self.source, self.target, refuse)
        translator = self.run.translator
        terms = read_glossary(lines, translator, "glossary")
        if max(map(len, terms.entries)) > TERM_CHARACTERS:
            raise Refusal(400, f"glossary: a term has at most {TERM_CHARACTERS} characters")
        return translator.terms | terms if translator.terms else terms

    def describe(
        self, translation: Translation, records: Records, with_attention: bool
    ) -> list[dict[str, Any]]:
        """What JSON says of each part of a translation, and page.js draws.

        Its words and their confidences, its quality, and, with attention, its links and its
        weights.
        """
        parts = []
        for part, record in zip(translation.searched_parts, records, strict=True):
            words = record_words(record, False)
            confidences = self.run.translator.word_confidences(part, [record])
            entry: dict[str, Any] = {
                "text": part.text,
                "target": words.target,
                "source": words.columns,
                "matrices": [],
                "windows": [],
                "confidences": [round(confidence, 4) for _, confidence in confidences],
            }
            if part.quality is not None:
                entry |= part.quality.to_dict()
            if with_attention and self.extractor and words.target:
                alignment = Alignment(record, words, self.extractor)
                drawn = alignment.page_pair()
                entry["alignment"] = sorted(map(list, alignment.links))
                for name, weights in drawn.matrices.items():
                    values = weights.round(4).ravel().tolist()
                    entry["matrices"].append({"name": name, "weights": values})
                entry["windows"] = drawn.window_spans or [None] * len(words.target)
            parts.append(entry)
        return parts


def pairs_of(run: Run, queues: Queues, version: str = "1") -> dict[Direction, Pair]:
    """A pair for each direction of a run."""
    pairs = {}
    tags = run.translator.tokenizers.source.tags
    for source, target in language_pairs(run.config.data):
        forms = [language_tag(target, source), language_tag(target)]
        tag = next((f"{form} " for form in forms if form in tags), "")
        pairs[source, target] = Pair(run, queues, source, target, tag, version)
    return pairs


@dataclass
class Service:
    """All that the routes share."""

    models: Models
    limits: Limits
    keys: dict[str, str] | None = None  # sha256 of a key → whose it is; None: no key is needed
    origins: Sequence[str] = ()  # of pages whose scripts may ask; "*": any
    keys_file: Path | None = None  # that the keys are from
    files: KeptFiles = field(default_factory=KeptFiles)
    corrections: Corrections | None = None  # where they are kept; None: they are refused
    acceptors: Sequence[str] = ()  # names of keys whose corrections count at once
    units: Units = field(default_factory=dict)  # of files
    # Reads these files again; what is in memory stays for those that cannot be read.
    reread_units: Callable[[Units], Units] | None = None
    stopping_since: float = 0.0  # when the service was asked to end
    hang_ups: list[int] = field(default_factory=list)  # signals that have not been acted on

    def __post_init__(self) -> None:
        limit = float(self.limits.seconds)
        self.document_slots = asyncio.Semaphore(DOCUMENTS)
        self.waiting_documents = 0  # for one of the slots
        self.clients = Clients(self.keys, self.limits.requests)
        self.memories: dict[Direction, Memory] = {}
        for direction in self.directions:
            if self.corrections or direction in self.units:
                units = self.units.get(direction)
                self.memories[direction] = Memory(direction, self.corrections, units)
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.registry.register(self.models)
        self.seconds = Histogram(
            "nmt_request_seconds",
            "Time of a request",
            ["path", "pair"],
            registry=self.registry,
            buckets=sorted({bound for bound in BUCKETS if bound < limit} | {limit}),
        )
        self.answers = Metric(
            "nmt_requests", "Requests", ["path", "status", "pair", "key"], registry=self.registry
        )
        self.refusals = Metric(
            "nmt_refusals", "Requests refused", ["path", "reason", "key"], registry=self.registry
        )
        self.translated = Metric(
            "nmt_sentences", "Sentences", ["pair", "version", "key"], registry=self.registry
        )
        waiting = Gauge("nmt_waiting_sentences", "Sentences that wait", registry=self.registry)
        waiting.set_function(lambda: sum(batcher.waiting for batcher in self.batchers))

    def fit_for(self) -> list[str]:
        """What each run is fit for, with its name if there are several."""
        is_alone = len(self.models.loaded) == 1
        sentences = []
        for served in self.models.runs:
            if served.model and served.model.verdict:
                sentence = served.model.verdict.sentence
                sentences.append(sentence if is_alone else f"{served.name}: {sentence}")
        return sentences

    @property
    def directions(self) -> list[Direction]:
        return list(self.models.by_direction)

    @property
    def batchers(self) -> list[Batcher]:
        batchers: list[Batcher] = []
        for model in self.models.loaded:
            batchers += model.queues.both
        return batchers

    @property
    def codes(self) -> list[str]:
        """All languages, sources and targets."""
        return list(dict.fromkeys(chain.from_iterable(self.directions)))

    def languages(self) -> list[dict[str, Any]]:
        languages = []
        for code in self.codes:
            targets = [target for source, target in self.directions if source == code]
            languages.append(named_language(code) | {"targets": targets})
        return languages

    async def memory(self, direction: Direction) -> Memory | None:
        """What was translated before, with the corrections that are accepted by now."""
        memory = self.memories.get(direction)
        try:
            if memory is not None and memory.is_stale:
                await run_in_threadpool(memory.refresh)
        except (sqlite3.Error, UserError) as error:
            log.error("Corrections cannot be read, those of before count: %s", error)
        return memory

    def stop(self) -> None:
        """Documents have a few seconds more; called when the service is asked to end."""
        self.stopping_since = time.monotonic()

    async def follow(self) -> None:
        """Look for new versions of the runs, for ever.

        After a hang-up, keys, memories and glossaries are read again, and all models are loaded
        anew.
        """
        while True:
            await asyncio.sleep(FOLLOW_SECONDS)
            is_asked = bool(self.hang_ups)
            if is_asked:
                self.hang_ups.clear()
                self.reread_keys()
                await self.reread_memories()
            for served in self.models.runs:
                if served.model is not None:
                    await self.models.renew(served, is_asked)

    def reread_keys(self) -> None:
        if self.keys_file is None:
            return
        try:
            self.clients.keys = read_keys(self.keys_file)
        except UserError as error:
            log.error("The keys stay as they were: %s", error)

    async def reread_memories(self) -> None:
        if self.reread_units is None:
            return
        try:
            self.units = await run_in_threadpool(self.reread_units, self.units)
        except Exception as error:  # of any kind: the service goes on
            log.error("The memories stay as they were: %r", error)
            return
        for direction, units in self.units.items():
            self.memories.setdefault(direction, Memory(direction)).units = units

    async def pair(self, request: Request, direction: Direction) -> Pair | None:
        """The model for a direction, the same one for the whole request; raises Refusal.

        None if there is none.
        """
        lease: Lease = request.scope["nmt.lease"]
        return await lease.pair(direction)

    async def trouble(self) -> str:
        """Why a translation would not be answered now; empty if it would."""
        if self.stopping_since:
            return "the service ends"
        if not all(batcher.is_alive(self.limits.seconds) for batcher in self.batchers):
            return "a model does not answer"
        if any(batcher.waiting >= WAITING for batcher in self.batchers):
            return "too much is waiting to be translated"
        for batcher in self.batchers:
            if batcher.is_failing:  # it may work again, which a sentence tells
                try:
                    tried = asyncio.wrap_future(batcher.submit([TRIED]))
                    await asyncio.wait_for(tried, self.limits.seconds)
                except Exception:
                    return "a model fails"
        return ""

    def known_languages(self, source: str, target: str) -> tuple[str, str]:
        """The codes here of two languages in any form; the source may be auto, or the target.

        Raises Refusal for languages that the service does not translate between.
        """
        target = self.known_code(target)
        sources = self.sources_of(target)
        if source.lower() == "auto":
            if not sources:
                raise unavailable("any language", target)
            return "auto", target
        source = self.known_code(source)
        if source not in (*sources, target):
            raise unavailable(full_name(source), target)
        return source, target

    def sources_of(self, target: str) -> list[str]:
        return [first for first, second in self.directions if second == target]

    def known_code(self, code: str) -> str:
        """The code here of a language in any form, such as de for de-AT; raises Refusal."""
        possible = same_language(code, self.codes)
        if not possible:
            raise Refusal(400, f"{printable(code)} is not supported", reason="language")
        if len(possible) > 1:
            text = f"{printable(code)} is {' or '.join(possible)}"
            raise Refusal(400, text, reason="language")
        return possible[0]

    def detect(self, text: str, target: str) -> Guess:
        """The language of a text that is to be translated into `target`; it may be this one.

        Raises Refusal for a text in a language that is not translated into `target`.
        """
        sources = self.sources_of(target)
        guesses = guess_languages(text, self.codes)
        if not guesses:  # no letter: there is nothing to translate, whatever the language
            return Guess(sources[0], 0.0)
        best = guesses[0]
        if best.language in (*sources, target):
            return best
        if best.share >= SURE:
            raise unavailable(full_name(best.language), target)
        return next(guess for guess in guesses if guess.language in (*sources, target))

    async def translate(
        self,
        request: Request,
        pair: Pair,
        sentences: Sequence[Sentence],
        check: Callable[[], Awaitable[None]],
    ) -> list[Answer]:
        """An answer to each sentence of a request, for which they are counted; raises Refusal.

        `check` is called now and then, and raises if nobody waits any longer.
        """
        try:
            waiting = asyncio.wrap_future(pair.queues.submit(sentences))
        except Full:
            raise busy("Too much is waiting to be translated", "queue") from None
        try:
            while True:
                await asyncio.wait([waiting], timeout=POLL_SECONDS)
                if waiting.done():
                    break
                await check()
        finally:
            waiting.cancel()  # and with it the job
        answers = waiting.result()
        key = request.scope.get("nmt.key", "")
        self.translated.labels(pair.name, pair.version, key).inc(len(answers))
        return answers

    async def check_waiting(self, request: Request) -> None:
        """Raise Refusal if the time of a request is over, ClientDisconnect if its client left."""
        if await request.is_disconnected():
            raise ClientDisconnect
        if time.monotonic() > request.scope["nmt.end"]:
            raise busy(f"No translation within {self.limits.seconds} seconds", "time")


def full_name(code: str) -> str:
    return f"{find_language(code).name} ({code})"


def unavailable(source: str, target: str) -> Refusal:
    """In LibreTranslate's words, which clients recognize."""
    text = f"{full_name(target)} is not available as a target language from {source}"
    return Refusal(400, text, reason="language")


def named_language(code: str) -> dict[str, Any]:
    return {"code": code, "name": find_language(code).name}


def work_of(texts: Sequence[str]) -> int:
    """How much work it is to prepare texts, in characters of one long text."""
    return sum(len(text) + TEXT_WORK for text in texts)


async def off_loop(size: int, function: Callable[..., T], *words: Any) -> T:
    """function(*words), in a thread if its work would hold up the event loop."""
    if size <= AT_ONCE:
        return function(*words)
    return await run_in_threadpool(function, *words)

"""What the routes share: a model for each pair of languages, and what they ask of it."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry, Gauge, Histogram
from prometheus_client import Counter as Metric
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request

from nmt.corpus.language_pairs import language_pairs
from nmt.corpus.languages import find_language, same_language
from nmt.corpus.tags import language_tag
from nmt.decode.translator import Translation
from nmt.documents.segment import Segment
from nmt.documents.word_weights import WeightReader
from nmt.evaluate.alignment import Alignment
from nmt.evaluate.extraction import record_words
from nmt.runs.run import Run
from nmt.serve.batching import Answer, Batcher, Full, Queues, Records, Sentence
from nmt.serve.clients import Clients
from nmt.serve.detection import SURE, Guess, guess_languages
from nmt.serve.kept_files import KeptFiles
from nmt.serve.limits import DOCUMENTS, WAITING, Limits, Refusal, busy

AT_ONCE = 2000  # characters that are prepared in the event loop; more are prepared in a thread
POLL_SECONDS = 0.5  # between two looks whether the client still waits
T = TypeVar("T")


@dataclass(eq=False)
class Pair:
    """A run that translates from one language into another; `tag` comes before each sentence."""

    run: Run
    queues: Queues
    source: str
    target: str
    tag: str

    def __post_init__(self) -> None:
        model = self.run.translator.model
        self.extractor = None
        self.reader = None
        if model.has_attention:
            self.extractor = self.run.make_extractor()
            self.reader = WeightReader.of_run(self.run.config.train, model)

    @property
    def keeps_units(self) -> bool:
        """Whether the model copies the private characters of units (tokenizer.protect)."""
        return self.run.translator.tokenizers.protects

    def places_units(self, segment: Segment) -> bool:
        """Whether word weights say where the units of a segment belong in its translation."""
        return bool(segment.units) and self.reader is not None

    def sentences(self, texts: Sequence[str], detailed: Sequence[bool]) -> list[Sentence]:
        """Texts with how much work they are."""
        tagged = [self.tag + text for text in texts]
        pieces = self.queues.count_pieces(tagged)
        return [Sentence(*each) for each in zip(tagged, pieces, detailed, strict=True)]

    def describe(
        self, translation: Translation, records: Records, with_attention: bool
    ) -> list[dict[str, Any]]:
        """What JSON says of each part of a translation, and page.js draws.

        Its words and their confidences, its quality, and, with attention, its links and its
        weights.
        """
        parts = []
        for part, record in zip(translation.parts or [translation], records, strict=True):
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


def pairs_of(run: Run, queues: Queues) -> dict[tuple[str, str], Pair]:
    """A pair for each direction of a run."""
    pairs = {}
    tags = run.translator.tokenizers.source.tags
    for source, target in language_pairs(run.config.data):
        forms = [language_tag(target, source), language_tag(target)]
        tag = next((f"{form} " for form in forms if form in tags), "")
        pairs[source, target] = Pair(run, queues, source, target, tag)
    return pairs


@dataclass
class Service:
    """All that the routes share."""

    pairs: dict[tuple[str, str], Pair]
    limits: Limits
    keys: dict[str, str] | None = None  # sha256 of a key → whose it is; None: no key is needed
    origins: Sequence[str] = ()  # of pages whose scripts may ask; "*": any
    files: KeptFiles = field(default_factory=KeptFiles)
    stopping_since: float = 0.0  # when the service was asked to end

    def __post_init__(self) -> None:
        self.document_slots = asyncio.Semaphore(DOCUMENTS)
        self.clients = Clients(self.keys, self.limits.requests)
        self.registry = CollectorRegistry()
        self.seconds = Histogram(
            "nmt_request_seconds", "Time of a request", ["path"], registry=self.registry
        )
        self.answers = Metric(
            "nmt_requests", "Requests", ["path", "status"], registry=self.registry
        )
        self.translated = Metric("nmt_sentences", "Sentences translated", registry=self.registry)
        waiting = Gauge("nmt_waiting_sentences", "Sentences that wait", registry=self.registry)
        waiting.set_function(lambda: sum(queues.waiting for queues in self.queues))

    def fit_for(self) -> list[str]:
        """What each run is fit for, with its name if there are several."""
        verdicts = {pair.run.name: pair.run.verdict for pair in self.pairs.values()}
        sentences = []
        for name, verdict in verdicts.items():
            if verdict is None:
                continue
            if len(verdicts) > 1:
                sentences.append(f"{name}: {verdict.sentence}")
            else:
                sentences.append(verdict.sentence)
        return sentences

    @property
    def queues(self) -> set[Queues]:
        return {pair.queues for pair in self.pairs.values()}

    @property
    def batchers(self) -> list[Batcher]:
        return [batcher for queues in self.queues for batcher in queues.both]

    @property
    def codes(self) -> list[str]:
        """All languages, sources and targets."""
        return list(dict.fromkeys(code for pair in self.pairs for code in pair))

    def languages(self) -> list[dict[str, Any]]:
        languages = []
        for code in self.codes:
            targets = [target for source, target in self.pairs if source == code]
            languages.append(named_language(code) | {"targets": targets})
        return languages

    def stop(self) -> None:
        """Documents have a few seconds more; called when the service is asked to end."""
        self.stopping_since = time.monotonic()

    def trouble(self) -> str:
        """Why a translation would not be answered now; empty if it would."""
        if not all(batcher.is_alive(self.limits.seconds) for batcher in self.batchers):
            return "a model does not answer"
        if any(batcher.waiting >= WAITING for batcher in self.batchers):
            return "too much is waiting to be translated"
        return ""

    def known_languages(self, source: str, target: str) -> tuple[str, str]:
        """The codes here of two languages in any form; the source may be auto.

        Raises Refusal for languages that the service does not translate between.
        """
        target = self.known_code(target)
        if source != "auto":
            source = self.known_code(source)
        sources = self.sources_of(target)
        is_possible = bool(sources) if source == "auto" else source in sources
        if not is_possible:
            raise Refusal(400, f"{target} is not available as a target language from {source}")
        return source, target

    def sources_of(self, target: str) -> list[str]:
        return [first for first, second in self.pairs if second == target]

    def known_code(self, code: str) -> str:
        """The code here of a language in any form, such as de for de-AT; raises Refusal."""
        possible = same_language(code, self.codes)
        if not possible:
            raise Refusal(400, f"{code} is not supported")
        if len(possible) > 1:
            raise Refusal(400, f"{code} is {' or '.join(possible)}")
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
            raise Refusal(
                400, f"{target} is not available as a target language from {best.language}"
            )
        return next(guess for guess in guesses if guess.language in (*sources, target))

    def submit(self, pair: Pair, sentences: Sequence[Sentence]) -> "Future[list[Answer]]":
        """An answer to each sentence, later; raises Refusal."""
        try:
            return pair.queues.submit(sentences)
        except Full:
            raise busy("Too much is waiting to be translated") from None

    async def wait(
        self, job: "Future[list[Answer]]", check: Callable[[], Awaitable[None]]
    ) -> list[Answer]:
        """The answers; `check` is called now and then, and raises if nobody waits any longer."""
        waiting = asyncio.wrap_future(job)
        try:
            while True:
                await asyncio.wait([waiting], timeout=POLL_SECONDS)
                if waiting.done():
                    break
                await check()
        finally:
            waiting.cancel()  # and with it the job
        answers = waiting.result()
        self.translated.inc(len(answers))
        return answers

    async def check_waiting(self, request: Request, end: float) -> None:
        """Raise Refusal after the time `end`, and ClientDisconnect if the client has left."""
        if await request.is_disconnected():
            raise ClientDisconnect
        if time.monotonic() > end:
            raise busy(f"No translation within {self.limits.seconds} seconds")


def named_language(code: str) -> dict[str, Any]:
    return {"code": code, "name": find_language(code).name}


async def off_loop(size: int, function: Callable[..., T], *words: Any) -> T:
    """function(*words), in a thread if its work would hold up the event loop."""
    if size <= AT_ONCE:
        return function(*words)
    return await run_in_threadpool(function, *words)

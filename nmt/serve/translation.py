"""Translates the texts and the documents of a request."""

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from nmt.decode.translator import Translation
from nmt.documents.placement import TranslatedSentence
from nmt.documents.translation import ModelTranslator
from nmt.serve.batching import Answer, Records, Sentence
from nmt.serve.document_process import (
    Direction,
    DocumentProcess,
    Failed,
    Finished,
    Opened,
    Question,
)
from nmt.serve.limits import READ_SECONDS, STOP_SECONDS, Refusal, busy
from nmt.serve.service import POLL_SECONDS, Pair, Service, off_loop
from nmt.serve.texts import Text

log = logging.getLogger("nmt")


class Wanted(NamedTuple):
    """What a request asks for beside the translations."""

    is_html: bool = False
    alternatives: int = 0  # of each text, at most
    details: str = ""  # the parts of the sentences, as `Pair.describe` has them: words, or all

    def result(
        self, text: str, alternatives: Sequence[str] = (), details: Sequence[dict[str, Any]] = ()
    ) -> dict[str, Any]:
        """The answer to one text."""
        result: dict[str, Any] = {"translatedText": text}
        if self.alternatives:
            result["alternatives"] = list(alternatives)
        if self.details:
            result["details"] = list(details)
        return result


async def translate_texts(
    service: Service, request: Request, pair: Pair, texts: Sequence[str], wanted: Wanted
) -> list[dict[str, Any]]:
    """The result of each text; raises Refusal, also for more work than a request may be."""
    end = time.monotonic() + service.limits.seconds
    characters = sum(map(len, texts))

    def prepare() -> tuple[list[Text], list[Sentence]]:
        prepared = []
        sentences: list[str] = []
        needs_records = []
        for text in texts:
            prepared.append(Text(text, pair.source, pair.keeps_units))
            sentences += prepared[-1].for_model()
            for segment in prepared[-1].sentences:
                needs_records.append(bool(wanted.details) or pair.places_units(segment))
        return prepared, pair.sentences(sentences, needs_records)

    prepared, sentences = await off_loop(characters, prepare)
    if sum(sentence.pieces for sentence in sentences) > service.limits.characters:
        raise Refusal(
            400, f"Invalid request: more than {service.limits.characters} pieces for the model"
        )
    job = service.submit(pair, sentences)
    answers = await service.wait(job, partial(service.check_waiting, request, end))

    def finish() -> list[dict[str, Any]]:
        remaining = iter(answers)
        results = []
        for text in prepared:
            of_text = list(islice(remaining, len(text.sentences)))
            results.append(text_result(pair, text, of_text, wanted))
        return results

    work = characters * (1 + wanted.alternatives + 10 * bool(wanted.details))
    return await off_loop(work, finish)


def text_result(
    pair: Pair, text: Text, answers: Sequence[Answer], wanted: Wanted
) -> dict[str, Any]:
    """The result of a text, whose sentences have these answers."""
    sentences = []
    rows = zip(text.sentences, text.for_model(), answers, strict=True)
    for segment, given, (translation, records) in rows:
        weights = None
        if pair.places_units(segment) and pair.reader is not None:
            weights = pair.reader.read(records, given, translation.text)
        sentences.append(TranslatedSentence(translation.text, weights))
    best = text.write(sentences)
    others: dict[str, None] = {}  # in order, each once
    for rank in range(1, 1 + min(wanted.alternatives, pair.run.translator.decode.beam - 1)):
        ranked = [nth_best(translation, rank) for translation, _ in answers]
        others[text.write([TranslatedSentence(each.text) for each in ranked])] = None
    others.pop(best, None)
    details = []
    if wanted.details:
        for translation, records in answers:
            details += pair.describe(translation, records, wanted.details == "all")
    return wanted.result(best, list(others), details)


def nth_best(translation: Translation, rank: int) -> Translation:
    """The hypothesis of a rank from 0, or the last one of a sentence that has fewer."""
    nbest = translation.nbest
    return nbest[min(rank, len(nbest) - 1)]


@dataclass
class AnsweredTranslator(ModelTranslator):
    """Makes what a document needs from answers that are there already."""

    answers: list[Answer] = field(default_factory=list)

    def decode(
        self, sentences: Sequence[str], weighed: Sequence[bool]
    ) -> list[tuple[Translation, Records]]:
        return self.answers


class TranslatedFiles(NamedTuple):
    """The files, and how many sentences were translated for them."""

    contents: list[bytes]
    sentences: int
    # sentences that somebody should read; None: nobody looked for them
    unsure: int | None


async def translate_files(
    service: Service,
    request: Request,
    direction: tuple[str, str],
    files: Sequence[tuple[str, bytes]],
) -> TranslatedFiles:
    """The translations of files with their names, read and written in a process of their own.

    `direction`: the source, or auto, and the target. Raises Refusal for a file that cannot be read
    or takes too long.
    """
    end = time.monotonic() + service.limits.seconds
    try:
        await asyncio.wait_for(service.document_slots.acquire(), service.limits.seconds)
    except asyncio.TimeoutError:
        raise busy("Too many documents are being translated") from None
    try:
        await service.check_waiting(request, end)
        process = await run_in_threadpool(DocumentProcess, files, direction)
        try:
            return await Conversation(service, request, direction, process, end).run()
        finally:
            process.end()
    finally:
        service.document_slots.release()


@dataclass
class Conversation:
    """The answers to the questions of a document's process."""

    service: Service
    request: Request
    direction: tuple[str, str]
    process: DocumentProcess
    end: float  # the time after which nothing is answered
    sentences: int = 0  # so far
    unsure: int = 0  # of them that somebody should read

    async def run(self) -> TranslatedFiles:
        """The files that the process writes; raises Refusal."""
        opened = await self.receive(Opened)
        pair = self.pair_of(opened.sample)
        self.process.answer(Direction(pair.source, pair.target, pair.keeps_units))
        finds_unsure = opened.marks_unsure and "calibration" in pair.run.provenance
        while True:
            message = await self.receive(Question, Finished)
            if isinstance(message, Finished):
                return TranslatedFiles(
                    message.contents, self.sentences, self.unsure if finds_unsure else None
                )
            self.process.answer(await self.translate(pair, message, finds_unsure))

    async def receive(self, *kinds: type) -> Any:
        """The next message of the process, of one of these kinds; raises Refusal."""
        start = time.monotonic()
        while True:
            message = await run_in_threadpool(self.process.receive, POLL_SECONDS)
            if isinstance(message, kinds):
                return message
            if isinstance(message, Failed):
                if message.fault:
                    log.warning("A document was refused: %s", message.fault)
                raise Refusal(400, f"The document cannot be translated: {message.reason}")
            if time.monotonic() > start + READ_SECONDS:
                raise Refusal(400, f"The document cannot be read within {READ_SECONDS} seconds")
            await self.check()

    async def check(self) -> None:
        """Raise if nobody waits for the document any longer, or the service ends."""
        stopping_since = self.service.stopping_since
        if stopping_since and time.monotonic() > stopping_since + STOP_SECONDS:
            raise busy("The service ends")
        await self.service.check_waiting(self.request, self.end)

    def pair_of(self, sample: str) -> Pair:
        """The pair of languages, told by the text if the source is auto; raises Refusal."""
        source, target = self.direction
        if source == "auto":
            source = self.service.detect(sample, target).language
        if source == target:
            raise Refusal(400, f"The document is in {target} already")
        return self.service.pairs[source, target]

    async def translate(
        self, pair: Pair, question: Question, finds_unsure: bool
    ) -> list[TranslatedSentence]:
        texts = question.sentences
        detailed = [finds_unsure or is_weighed for is_weighed in question.weighed]
        sentences = await off_loop(sum(map(len, texts)), pair.sentences, texts, detailed)
        job = self.service.submit(pair, sentences)
        answers = await self.service.wait(job, self.check)
        translator = AnsweredTranslator(
            pair.run.translator, pair.reader, finds_unsure=finds_unsure, answers=answers
        )

        def finish() -> list[TranslatedSentence]:
            return list(translator.translate(texts, question.weighed))

        translated = await run_in_threadpool(finish)
        self.sentences += len(translated)
        self.unsure += sum(each.needs_review for each in translated)
        return translated

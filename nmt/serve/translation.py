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

from nmt.decode.glossary import Glossary
from nmt.decode.translation import Translation
from nmt.documents.placement import TranslatedSentence
from nmt.documents.translation import ModelTranslator
from nmt.serve.batching import Answer, Records, Sentence
from nmt.serve.document_process import (
    DocumentProcess,
    Failed,
    Finished,
    Languages,
    Opened,
    Question,
    Texts,
)
from nmt.serve.limits import (
    MOST_WAITING_DOCUMENTS,
    READ_SECONDS,
    STOP_SECONDS,
    Refusal,
    busy,
    check_size,
)
from nmt.serve.memory import Memory
from nmt.serve.service import AT_ONCE, POLL_SECONDS, Pair, Service, off_loop, work_of
from nmt.serve.texts import Text

log = logging.getLogger("nmt")


class Wanted(NamedTuple):
    """What a request asks for beside the translations."""

    is_html: bool = False
    alternatives: int = 0  # of each text, at most
    details: str = ""  # the parts of the sentences, as `Pair.describe` has them: words, or all
    glossary: str = ""  # lines SOURCE<TAB>TARGET
    has_memory: bool = False  # whether the service has one, and says what comes from it

    def result(
        self,
        text: str,
        version: str,
        alternatives: Sequence[str] = (),
        details: Sequence[dict[str, Any]] = (),
        remembered: bool = False,
        similar: Sequence[dict[str, Any]] = (),
    ) -> dict[str, Any]:
        """The answer to one text.

        version: that of the run, or "" if none translated it.
        remembered: whether the text comes from the memory.
        """
        result: dict[str, Any] = {"translatedText": text, "version": version}
        if self.alternatives:
            result["alternatives"] = list(alternatives)
        if self.details:
            result["details"] = list(details)
        if self.has_memory and not self.is_html:
            result["memory"] = remembered
            if self.details:
                result["similar"] = list(similar)
        return result


async def translate_texts(
    service: Service,
    request: Request,
    pair: Pair,
    texts: Sequence[str],
    wanted: Wanted,
    memory: Memory | None = None,
) -> list[dict[str, Any]]:
    """The result of each text; raises Refusal, also for more work than a request may be."""
    work = work_of(texts)

    def prepare() -> tuple[list[Text], list[Sentence]]:
        prepared = []
        sentences: list[str] = []
        needs_records = []
        for text in texts:
            prepared.append(Text(text, pair.source, pair.keeps_units, memory))
            sentences += prepared[-1].for_model()
            for segment, _ in prepared[-1].sentences:
                needs_records.append(bool(wanted.details) or pair.places_units(segment))
        terms = pair.glossary(wanted.glossary)
        return prepared, pair.sentences(sentences, needs_records, terms)

    prepared, sentences = await off_loop(work + len(wanted.glossary), prepare)
    pieces = sum(sentence.pieces for sentence in sentences)
    check_size(pieces, service.limits.characters, "subword pieces")
    check = partial(service.check_waiting, request)
    answers = await service.translate(request, pair, sentences, check)

    def finish() -> list[dict[str, Any]]:
        remaining = iter(answers)
        results = []
        for text in prepared:
            of_text = list(islice(remaining, len(text.sentences)))
            results.append(text_result(pair, text, of_text, wanted))
        return results

    work *= 1 + wanted.alternatives + 10 * bool(wanted.details)
    if memory is not None and wanted.details:
        work = AT_ONCE + 1  # what is similar takes long to find in a large memory
    return await off_loop(work, finish)


def text_result(
    pair: Pair, text: Text, answers: Sequence[Answer], wanted: Wanted
) -> dict[str, Any]:
    """The result of a text, whose sentences have these answers."""
    sentences = []
    rows = zip(text.sentences, text.for_model(), answers, strict=True)
    for (segment, _), given, (translation, records) in rows:
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
    similar = text.similar() if wanted.details else []
    return wanted.result(best, pair.version, list(others), details, text.is_remembered, similar)


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
    """The files, the version of the run, and how many sentences were translated for them."""

    contents: list[bytes]
    version: str
    sentences: int
    # sentences that somebody should read; None: nobody looked for them
    unsure: int | None
    remembered: int | None  # sentences that come from the memory; None: there is none


async def translate_files(
    service: Service,
    request: Request,
    direction: tuple[str, str],
    files: Sequence[tuple[str, bytes]],
    glossary: str = "",
    most_pieces: int | None = None,
) -> TranslatedFiles:
    """The translations of files with their names, read and written in a process of their own.

    direction: the source, or auto, and the target.
    glossary: its lines.
    most_pieces: of all sentences together, where the files are texts of a request.

    Raises Refusal for a file that cannot be read or takes too long.
    """
    await service.check_waiting(request)
    if service.waiting_documents >= MOST_WAITING_DOCUMENTS:  # each is in memory
        raise busy("Too many documents are waiting", "documents")
    service.waiting_documents += 1
    seconds = request.scope["nmt.end"] - time.monotonic()
    try:
        await asyncio.wait_for(service.document_slots.acquire(), seconds)
    except asyncio.TimeoutError:
        raise busy("Too many documents are being translated", "documents") from None
    finally:
        service.waiting_documents -= 1
    try:
        await check_document(service, request)
        process = await run_in_threadpool(DocumentProcess, files, direction)
        try:
            conversation = Conversation(service, request, direction, process, glossary, most_pieces)
            return await conversation.run()
        finally:
            process.end()
    finally:
        service.document_slots.release()


async def check_document(service: Service, request: Request) -> None:
    """Raise if nobody waits for a document any longer, or the service ends."""
    stopping_since = service.stopping_since
    if stopping_since and time.monotonic() > stopping_since + STOP_SECONDS:
        raise busy("The service ends", "stop")
    await service.check_waiting(request)


@dataclass
class Conversation:
    """The answers to the questions of a document's process."""

    service: Service
    request: Request
    direction: tuple[str, str]
    process: DocumentProcess
    glossary: str = ""  # of the request
    most_pieces: int | None = None  # of all sentences together
    pieces: int = 0  # of the sentences so far
    sentences: int = 0  # that a model has translated so far
    unsure: int = 0  # of them that somebody should read

    async def run(self) -> TranslatedFiles:
        """The files that the process writes; raises Refusal."""
        opened = await self.receive(Opened)
        pair = await self.pair_of(opened.sample)
        memory = await self.service.memory((pair.source, pair.target))
        terms = await off_loop(len(self.glossary), pair.glossary, self.glossary)
        languages = Languages(pair.source, pair.target, pair.keeps_units, memory is not None)
        self.process.answer(languages)
        finds_unsure = opened.marks_unsure and "calibration" in pair.run.provenance
        while True:
            message = await self.receive(Texts, Question, Finished)
            if isinstance(message, Finished):
                return TranslatedFiles(
                    message.contents,
                    pair.version,
                    self.sentences + message.remembered,
                    self.unsure if finds_unsure else None,
                    message.remembered if memory is not None else None,
                )
            if isinstance(message, Question):
                self.process.answer(await self.translate(pair, message, finds_unsure, terms))
            elif memory is not None:
                texts = message.texts
                self.process.answer(await off_loop(work_of(texts), memory.find_all, texts))

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
                text = f"The document cannot be translated: {message.reason}"
                raise Refusal(400, text, reason="document")
            if time.monotonic() > start + READ_SECONDS:
                text = f"The document cannot be read within {READ_SECONDS} seconds"
                raise Refusal(400, text, reason="document")
            await self.check()

    async def check(self) -> None:
        await check_document(self.service, self.request)

    async def pair_of(self, sample: str) -> Pair:
        """The pair of languages, told by the text if the source is auto; raises Refusal."""
        source, target = self.direction
        if source == "auto":
            source = self.service.detect(sample, target).language
        if source == target:
            raise Refusal(400, f"The document is in {target} already")
        pair = await self.service.pair(self.request, (source, target))
        assert pair is not None  # the languages have been looked up
        return pair

    async def translate(
        self, pair: Pair, question: Question, finds_unsure: bool, terms: Glossary | None
    ) -> list[TranslatedSentence]:
        texts = question.sentences
        detailed = [finds_unsure or is_weighed for is_weighed in question.weighed]
        sentences = await off_loop(work_of(texts), pair.sentences, texts, detailed, terms)
        self.pieces += sum(sentence.pieces for sentence in sentences)
        if self.most_pieces is not None:
            check_size(self.pieces, self.most_pieces, "subword pieces")
        answers = await self.service.translate(self.request, pair, sentences, self.check)
        translator = AnsweredTranslator(
            pair.run.translator, pair.reader, finds_unsure=finds_unsure, answers=answers
        )

        def finish() -> list[TranslatedSentence]:
            return list(translator.translate(texts, question.weighed))

        translated = await run_in_threadpool(finish)
        self.sentences += len(translated)
        self.unsure += sum(each.needs_review for each in translated)
        return translated

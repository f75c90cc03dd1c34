"""The routes of the service, its limits and its keys. What a client sends never names a file of this machine."""

import asyncio
import hashlib
import hmac
import json
import logging
import os
import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client import Counter as Metric
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nmt.data.inspect.language import guess_language
from nmt.data.language_pairs import language_pairs
from nmt.data.languages import base_code, find_language, same_language
from nmt.data.tags import language_tag
from nmt.data.words import Span
from nmt.decode.translator import Translation
from nmt.documents.formats import EXTENSIONS, read_document
from nmt.documents.segment import Document
from nmt.documents.translation import ModelTranslator, Records, sentence_spans, translate_document
from nmt.documents.word_weights import WeightReader
from nmt.errors import UserError, is_printable, printable
from nmt.evaluate.alignment import Alignment
from nmt.evaluate.extraction import record_words
from nmt.runs.run import Run
from nmt.serve.batching import Answer, Batcher, Full
from nmt.view.alignment_page import read_asset

log = logging.getLogger("nmt")
KEPT_FILES, KEPT_SECONDS = 20, 600  # of translated documents, in memory
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)


@dataclass
class Limits:
    """What one request, and one client, may ask for."""

    characters: int = 20_000  # of all texts of a request
    texts: int = 500
    megabytes: int = 10  # of a document
    seconds: int = 60  # until an answer, and between two parts of a request
    requests: int = 0  # a minute, of a key or an address; 0 = any number


class Refusal(HTTPException):
    """An answer {"error": …} with a status."""

    def __init__(self, status: int, text: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(status, text, headers)


@dataclass(eq=False)
class Pair:
    """A run that translates from one language into another; `tag` comes before each sentence."""

    run: Run
    batcher: Batcher
    source: str
    target: str
    tag: str

    def __post_init__(self) -> None:
        model = self.run.translator.model
        self.extractor = self.run.make_extractor() if model.has_attention else None
        self.reader = WeightReader.of_run(self.run.config.train, model) if model.has_attention else None

    def describe(self, translation: Translation, records: Records) -> list[dict[str, Any]]:
        """Words, their confidences, and weights of each part; for JSON, and drawn by page.js."""
        parts = []
        for part, record in zip(translation.parts or [translation], records, strict=True):
            words = record_words(record, False)
            found = self.run.translator.word_confidences(part, [record])
            entry: dict[str, Any] = {"text": part.text, "target": words.target, "source": words.columns}
            entry |= {"matrices": [], "windows": []}
            entry["confidences"] = [round(confidence, 4) for _, confidence in found]
            if self.extractor and words.target:
                alignment = Alignment(record, words, self.extractor)
                drawn = alignment.page_pair()
                entry["alignment"] = sorted(map(list, alignment.links))
                entry["matrices"] = [
                    {"name": name, "weights": weights.round(4).ravel().tolist()}
                    for name, weights in drawn.matrices.items()
                ]
                entry["windows"] = drawn.window_spans or [None] * len(words.target)
            parts.append(entry)
        return parts


@dataclass
class DocumentTranslator(ModelTranslator):
    """Sentences of a document, translated together with those of other requests."""

    wait: Callable[["Future[list[Answer]]"], list[Answer]] = lambda future: future.result()
    batcher: Batcher | None = None

    def decode(self, sentences: Sequence[str], weighed: Sequence[bool]) -> list[tuple[Translation, Records]]:
        assert self.batcher is not None
        return self.wait(self.batcher.submit(sentences, weighed))


@dataclass
class Service:
    """All that the routes share."""

    pairs: dict[tuple[str, str], Pair]
    limits: Limits
    keys: dict[str, str] | None = None  # sha256 of a key → whose it is; None: no key is needed
    files: "OrderedDict[str, tuple[float, str, bytes]]" = field(default_factory=OrderedDict)
    minute: int = 0
    requests: Counter[str] = field(default_factory=Counter)  # of this minute, by client

    def __post_init__(self) -> None:
        self.registry = CollectorRegistry()
        self.seconds = Histogram("nmt_request_seconds", "Time of a request", ["path"], registry=self.registry)
        self.answers = Metric("nmt_requests", "Requests", ["path", "status"], registry=self.registry)
        self.translated = Metric("nmt_sentences", "Sentences translated", registry=self.registry)
        waiting = Gauge("nmt_waiting_sentences", "Sentences that wait", registry=self.registry)
        waiting.set_function(lambda: sum(batcher.waiting for batcher in self.batchers))

    @property
    def batchers(self) -> set[Batcher]:
        return {pair.batcher for pair in self.pairs.values()}

    def languages(self) -> list[dict[str, Any]]:
        codes = dict.fromkeys(code for pair in self.pairs for code in pair)
        return [
            {"code": code, "name": find_language(code).name, "targets": [t for s, t in self.pairs if s == code]}
            for code in codes
        ]

    def find(self, source: str, target: str, text: str) -> tuple[Pair, float]:
        """The pair of languages, of which the source may be auto, and how sure that is in percent; raises Refusal."""
        source, target = self.known_code(source), self.known_code(target)
        share = 1.0
        if source == "auto":
            sources = [first for first, second in self.pairs if second == target]
            source, share = guess_language(text, sources)[0] if sources else ("auto", 0.0)
        if (source, target) not in self.pairs:
            raise Refusal(400, f"{target} is not available as a target language from {source}")
        return self.pairs[source, target], 100 * share

    def known_code(self, code: str) -> str:
        """The code of a language here, which is asked for in any form; raises Refusal for another language."""
        if code == "auto":
            return code
        found = same_language(code, dict.fromkeys(each for pair in self.pairs for each in pair))
        if len(found) != 1:
            reason = f"{code} is not supported" if not found else f"{code} is {' or '.join(found)}"
            raise Refusal(400, reason)
        return found[0]

    def check(self, request: Request, key: Any) -> None:
        """Raise Refusal for a wrong key, and for too many requests of a client."""
        client = request.client.host if request.client else ""
        if self.keys is not None:
            scheme, _, token = request.headers.get("authorization", "").partition(" ")
            token = str(key or (token if scheme.lower() == "bearer" else ""))
            given = hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
            names = [name for stored, name in self.keys.items() if hmac.compare_digest(stored, given)]
            if not names:
                raise Refusal(403, "This service needs an API key; yours is missing or wrong")
            client = names[0]
        minute = int(time.monotonic() // 60)
        if minute != self.minute:
            self.minute, self.requests = minute, Counter()
        self.requests[client] += 1
        if self.limits.requests and self.requests[client] > self.limits.requests:
            raise Refusal(
                429, f"Slow down: {self.limits.requests} requests a minute are allowed", {"Retry-After": "60"}
            )

    async def wait(self, request: Request, futures: "Sequence[Future[list[Answer]]]") -> list[list[Answer]]:
        """The answers; raises Refusal after the limit of time, ClientDisconnect where nobody waits any longer."""
        end, waiting = time.monotonic() + self.limits.seconds, {asyncio.wrap_future(each) for each in futures}
        while waiting:
            _, waiting = await asyncio.wait(waiting, timeout=0.5)
            gone = await request.is_disconnected()
            if waiting and (gone or time.monotonic() > end):
                for future in waiting:
                    future.cancel()  # and with it the job
                if gone:
                    raise ClientDisconnect
                raise Refusal(503, f"No translation within {self.limits.seconds} seconds", {"Retry-After": "5"})
        self.translated.inc(sum(len(future.result()) for future in futures))
        return [future.result() for future in futures]


async def values_of(request: Request) -> dict[str, Any]:
    """The fields of a request: JSON, a form, or the query; a file is its name and content. Raises Refusal."""
    if request.headers.get("content-type", "").startswith("application/json"):
        try:
            found = json.loads(await request.body())
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise Refusal(400, "Invalid request: the body is not a JSON object")
        return found
    async with request.form() as form:
        fields = {
            name: (value.filename, await value.read()) if isinstance(value, UploadFile) else value
            for name, value in form.items()
        }
    return dict(request.query_params) | fields


def text_field(values: dict[str, Any], name: str) -> str:
    """A field that must be there and be a text; raises Refusal."""
    value = values.get(name)
    if not isinstance(value, str) or not value:
        raise Refusal(400, f"Invalid request: missing {name} parameter")
    if not is_text(value):
        raise Refusal(400, f"Invalid request: {name} is no text")
    return value


class Routes:
    """A method for each address."""

    def __init__(self, service: Service) -> None:
        self.service = service

    async def translate(self, request: Request) -> Response:
        values, limits = await values_of(request), self.service.limits
        self.service.check(request, values.get("api_key"))
        given = values.get("q")
        texts = given if isinstance(given, list) else [text_field(values, "q")]
        if not all(isinstance(text, str) and is_text(text) for text in texts):
            raise Refusal(400, "Invalid request: q is a text or a list of texts")
        if len(texts) > limits.texts or sum(map(len, texts)) > limits.characters:
            raise Refusal(400, f"Invalid request: more than {limits.texts} texts or {limits.characters} characters")
        form, count = values.get("format") or "text", values.get("alternatives") or 0
        if form not in ("text", "html"):
            raise Refusal(400, f"{printable(form)} format is not supported")
        if not str(count).isascii() or not str(count).isdigit() or int(str(count)[:9]) > 100:
            raise Refusal(400, "Invalid request: alternatives is a number up to 100")
        source = text_field(values, "source")
        pair, sure = self.service.find(source, text_field(values, "target"), " ".join(texts))
        if form == "html":
            documents = [read_document(Path("text.html"), text.encode()) for text in texts]
            await self.translate_documents(request, pair, documents)
            answer: dict[str, Any] = {"translatedText": [each.write().decode() for each in documents]}
        else:
            answer = await self.translate_texts(request, pair, texts, int(count), is_true(values.get("details")))
        if source == "auto":
            answer["detectedLanguage"] = [{"confidence": round(sure, 1), "language": pair.source}] * len(texts)
        return JSONResponse(answer if isinstance(given, list) else {name: each[0] for name, each in answer.items()})

    async def translate_texts(
        self, request: Request, pair: Pair, texts: Sequence[str], count: int, detailed: bool
    ) -> dict[str, Any]:
        """The translations, and for each text `count` others and its details, sentence by sentence."""
        lines = [text.split("\n") for text in texts]
        spans = [[sentence_spans(line, base_code(pair.source)) for line in each] for each in lines]
        sentences = [
            [pair.tag + line[slice(*span)] for line, found in zip(*each, strict=True) for span in found]
            for each in zip(lines, spans, strict=True)
        ]
        futures = [self.submit(pair, each, [detailed] * len(each)) for each in sentences]
        answers = await self.service.wait(request, futures)

        def joined(text: int, rank: int) -> str:
            chosen = (each.nbest[min(rank, len(each.nbest) - 1)].text for each, _ in answers[text])
            return "\n".join(
                replaced(line, inside, chosen) for line, inside in zip(lines[text], spans[text], strict=True)
            )

        numbers, ranks = range(len(texts)), range(1, 1 + min(count, pair.run.translator.decode.beam - 1))
        result: dict[str, Any] = {"translatedText": [joined(number, 0) for number in numbers]}
        if count:
            others = [dict.fromkeys(joined(number, rank) for rank in ranks) for number in numbers]
            result["alternatives"] = [
                [each for each in found if each != best]
                for best, found in zip(result["translatedText"], others, strict=True)
            ]
        if detailed:
            result["details"] = await run_in_threadpool(
                lambda: [[part for answer in each for part in pair.describe(*answer)] for each in answers]
            )
        return result

    def submit(self, pair: Pair, sentences: Sequence[str], detailed: Sequence[bool]) -> "Future[list[Answer]]":
        try:
            return pair.batcher.submit(sentences, detailed)
        except Full:
            raise Refusal(503, "Too much is waiting to be translated", {"Retry-After": "5"}) from None

    async def translate_documents(self, request: Request, pair: Pair, documents: Sequence[Document]) -> None:
        """Set the translations of documents; each in a thread, from which their sentences go to the batcher."""
        if pair.tag:
            raise Refusal(400, "Documents need a model of one language pair")
        loop = asyncio.get_running_loop()

        def wait(future: "Future[list[Answer]]") -> list[Answer]:
            return asyncio.run_coroutine_threadsafe(self.service.wait(request, [future]), loop).result()[0]

        for document in documents:
            translator = DocumentTranslator(pair.run.translator, pair.reader, wait=wait, batcher=pair.batcher)
            document.language = pair.target
            translator.finds_unsure = document.marks_unsure and "calibration" in pair.run.provenance
            try:
                await run_in_threadpool(translate_document, document, base_code(pair.source), translator)
            except Full:
                raise Refusal(503, "Too much is waiting to be translated", {"Retry-After": "5"}) from None

    async def translate_file(self, request: Request) -> Response:
        values = await values_of(request)
        self.service.check(request, values.get("api_key"))
        if not isinstance(values.get("file"), tuple) or not values["file"][0]:
            raise Refusal(400, "Invalid request: missing file parameter")
        if not is_text(values["file"][0]):
            raise Refusal(400, "Invalid request: the name of the file is no text")
        name, data = Path(values["file"][0].replace("\\", "/")), values["file"][1]
        if name.suffix.lower() not in EXTENSIONS:
            raise Refusal(400, "Invalid request: file format not supported")
        source = text_field(values, "source")
        pair, _ = self.service.find(source, text_field(values, "target"), data[:20_000].decode(errors="replace"))
        document = await run_in_threadpool(read_document, name, data)
        await self.translate_documents(request, pair, [document])
        files, token, now = self.service.files, secrets.token_urlsafe(24), time.monotonic()
        while files and (len(files) >= KEPT_FILES or next(iter(files.values()))[0] < now - KEPT_SECONDS):
            files.popitem(last=False)
        plain = "".join(each for each in name.stem if each.isalnum() or each in "-_ ")[:80] or "document"
        files[token] = now, f"{plain}.{pair.target}{name.suffix.lower()}", await run_in_threadpool(document.write)
        return JSONResponse({"translatedFileUrl": f"{request.base_url}download_file/{token}"})

    async def download_file(self, request: Request) -> Response:
        found = self.service.files.get(request.path_params["token"])
        if found is None or found[0] < time.monotonic() - KEPT_SECONDS:
            raise Refusal(404, "There is no such file, or no longer")
        quoted = found[1].encode("ascii", "replace").decode().replace("?", "_")
        headers = {"Content-Disposition": f'attachment; filename="{quoted}"'}
        return Response(found[2], media_type="application/octet-stream", headers=headers)

    async def detect(self, request: Request) -> Response:
        values = await values_of(request)
        self.service.check(request, values.get("api_key"))
        codes = list(dict.fromkeys(source for source, _ in self.service.pairs))
        found = guess_language(text_field(values, "q")[: self.service.limits.characters], codes)
        return JSONResponse([{"confidence": round(100 * share, 1), "language": code} for code, share in found])

    async def suggest(self, request: Request) -> Response:
        raise Refusal(403, "Suggestions are disabled on this server")

    async def languages(self, request: Request) -> Response:
        return JSONResponse(self.service.languages())

    async def settings(self, request: Request) -> Response:
        languages, limits, needed = self.service.languages(), self.service.limits, self.service.keys is not None
        (source, target), *_ = self.service.pairs
        names = {each["code"]: {"code": each["code"], "name": each["name"]} for each in languages}
        return JSONResponse(
            {
                "apiKeys": needed, "keyRequired": needed, "charLimit": limits.characters, "frontendTimeout": 300,
                "suggestions": False, "filesTranslation": True, "supportedFilesFormat": sorted(EXTENSIONS),
                "language": {"source": names[source], "target": names[target]},
            }
        )  # fmt: skip

    async def health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def metrics(self, request: Request) -> Response:
        return Response(generate_latest(self.service.registry), media_type=CONTENT_TYPE_LATEST)

    async def page(self, request: Request) -> Response:
        page = resources.files("nmt.serve").joinpath("page.html").read_text(encoding="utf-8")
        return HTMLResponse(page, headers={"Content-Security-Policy": POLICY})

    async def asset(self, request: Request) -> Response:
        own = resources.files("nmt.serve").joinpath("page.js").read_text(encoding="utf-8")
        web = resources.files("nmt.convert").joinpath("web")
        if request.path_params["name"] == "page.css":
            return Response(
                read_asset("page.css") + web.joinpath("translator.css").read_text("utf-8"), media_type="text/css"
            )
        shared = read_asset("page.js") + web.joinpath("translator_page.js").read_text("utf-8")
        return Response(shared + own, media_type="text/javascript")

    def all(self) -> list[Route]:
        def route(path: str, answer: Callable[[Request], Awaitable[Response]], method: str = "GET") -> Route:
            return Route(path, answer, methods=[method])

        posted = [
            route(f"/{each.__name__}", each, "POST")
            for each in (self.translate, self.translate_file, self.detect, self.suggest)
        ]
        read = [route(f"/{each.__name__}", each) for each in (self.languages, self.health, self.metrics)]
        others = [route("/frontend/settings", self.settings), route("/download_file/{token}", self.download_file)]
        return [*posted, *read, *others, route("/", self.page), route("/assets/{name}", self.asset)]


def replaced(line: str, spans: Sequence[Span], texts: Iterator[str]) -> str:
    """The line with the next of `texts` for each span."""
    parts, end = [], 0
    for start, stop in spans:
        parts += [line[end:start], next(texts)]
        end = stop
    return "".join([*parts, line[end:]])


def is_true(value: Any) -> bool:
    return value is True or str(value).lower() in ("1", "true", "yes")


def is_text(text: str) -> bool:
    """Whether a text can be encoded; JSON may hold half a surrogate pair."""
    return text.isascii() or not any("\ud800" <= each <= "\udfff" for each in text)


class Guard:
    """Around the routes: a body is no larger, and no slower, than it may be; what is answered is counted."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self.service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        size, complete, begun, limits = 0, False, time.monotonic(), self.service.limits

        async def receive_part() -> Message:
            nonlocal size, complete
            if complete:
                return await receive()
            try:
                message = await asyncio.wait_for(receive(), limits.seconds)
            except asyncio.TimeoutError:
                raise Refusal(408, "The request did not come to its end") from None
            size += len(message.get("body", b""))
            complete = not message.get("more_body", False)
            if size > limits.megabytes << 20:
                raise Refusal(413, f"A request has at most {limits.megabytes} MiB")
            return message

        async def send_counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                path = getattr(scope.get("route"), "path", "other")
                self.service.answers.labels(path, message["status"]).inc()
                self.service.seconds.labels(path).observe(time.monotonic() - begun)
                message["headers"] += [(b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer")]
            await send(message)

        await self.app(scope, receive_part, send_counted)


def make_app(service: Service) -> ASGIApp:
    """The application; its models stop when it has answered what it took."""

    async def explain(request: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException):
            return JSONResponse({"error": error.detail}, error.status_code, error.headers)
        if isinstance(error, UserError):
            return JSONResponse({"error": str(error)}, 400)
        status = 499 if isinstance(error, ClientDisconnect) else 500  # for metrics; nobody reads it
        return JSONResponse({"error": "The request could not be answered"}, status)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        for batcher in service.batchers:
            await run_in_threadpool(batcher.close)

    handlers = {HTTPException: explain, UserError: explain, ClientDisconnect: explain, 500: explain}
    return Guard(Starlette(routes=Routes(service).all(), exception_handlers=handlers, lifespan=lifespan), service)


def pairs_of(run: Run, batcher: Batcher) -> dict[tuple[str, str], Pair]:
    """A pair for each direction of a run."""
    found, tags = {}, run.translator.tokenizers.source.tags
    for source, target in language_pairs(run.config.data):
        forms = [language_tag(target, source), language_tag(target)]
        tag = next((f"{form} " for form in forms if form in tags), "")
        found[source, target] = Pair(run, batcher, source, target, tag)
    return found


def read_keys(path: Path) -> dict[str, str]:
    """The hashes of a file of keys, with the names of their owners; raises UserError."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"--keys {path} cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8'}."
        ) from None
    found = {}
    for number, line in enumerate(lines, 1):
        hashed, _, name = line.partition(" ")
        if len(hashed) != 64 or not name or not is_printable(name):
            raise UserError(f"{path}:{number} is no line of a key: its SHA-256, a space and a name.")
        found[hashed] = name
    return found


def make_key(path: Path, name: str) -> str:
    """A new key, of which the file gets the hash; raises UserError."""
    if not name.strip() or not is_printable(name):
        raise UserError("A key needs the name of its owner.")
    key = secrets.token_urlsafe(32)
    try:
        with open(path, "a", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(f"{hashlib.sha256(key.encode()).hexdigest()} {name}\n")
    except OSError as error:
        raise UserError(f"--keys {path} cannot be written: {error.strerror or error}.") from None
    return key

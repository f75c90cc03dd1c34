"""The addresses of the API. What a client sends never names a file of this machine."""

import secrets
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from nmt.documents.formats import EXTENSIONS, instead
from nmt.errors import printable
from nmt.serve.clients import Refusal, wrong_key
from nmt.serve.detection import Guess, guess_languages
from nmt.serve.fields import (
    BoundedBody,
    Values,
    details_field,
    is_text,
    number_field,
    read_fields,
    text_field,
)
from nmt.serve.service import KEPT_FILES, KEPT_SECONDS, Service
from nmt.serve.spec import specification
from nmt.serve.translation import Wanted, translate_files, translate_texts

MOST_ALTERNATIVES = 100


class Routes:
    """A method for each address."""

    def __init__(self, service: Service) -> None:
        self.service = service

    async def read(self, request: Request) -> Values:
        """The fields of a request of a client that may ask: its key, its rate and its size come
        before its body.

        Raises Refusal.
        """
        needs_key = self.service.clients.admit(request)
        length = request.headers.get("content-length", "")
        body: BoundedBody = request.scope["nmt.body"]
        if length.isdigit() and int(length) > body.most_bytes:
            raise body.refusal()
        values = await read_fields(request)
        if needs_key:
            self.service.clients.admit_body(request, values.get("api_key"))
        return values

    async def translate(self, request: Request) -> Response:
        values = await self.read(request)
        texts = self.texts_of(values)
        wanted = self.wanted_of(values)
        named = text_field(values, "source"), text_field(values, "target")
        source, target = self.service.known_languages(*named)
        guesses = [self.source_of(text, source, target) for text in texts]
        results: list[Values] = [{} for _ in texts]
        for language in dict.fromkeys(guess.language for guess in guesses):
            rows = [row for row, guess in enumerate(guesses) if guess.language == language]
            chosen = [texts[row] for row in rows]
            translated = await self.translate_from(request, language, target, chosen, wanted)
            for row, result in zip(rows, translated, strict=True):
                results[row] = result
        if source == "auto":
            for result, guess in zip(results, guesses, strict=True):
                result["detectedLanguage"] = shown(guess)
        if isinstance(values["q"], list):
            return JSONResponse({name: [result[name] for result in results] for name in results[0]})
        return JSONResponse(results[0])

    async def translate_from(
        self, request: Request, source: str, target: str, texts: list[str], wanted: Wanted
    ) -> list[Values]:
        """The results of texts in one language; those in the target language stay as they are."""
        pair = self.service.pairs.get((source, target))
        if pair is None:
            return [wanted.result(text) for text in texts]
        if wanted.is_html:
            files = [("text.html", text.encode()) for text in texts]
            translated = await translate_files(self.service, request, (source, target), files)
            return [wanted.result(content.decode()) for content in translated.contents]
        return await translate_texts(self.service, request, pair, texts, wanted)

    def texts_of(self, values: Values) -> list[str]:
        """The texts of a request; raises Refusal."""
        limits = self.service.limits
        given = values.get("q")
        texts = given if isinstance(given, list) and given else [text_field(values, "q")]
        if not all(isinstance(text, str) and is_text(text) for text in texts):
            raise Refusal(400, "Invalid request: q is a text or a list of texts")
        if len(texts) > limits.texts or sum(map(len, texts)) > limits.characters:
            raise Refusal(
                400,
                f"Invalid request: more than {limits.texts} texts or "
                f"{limits.characters} characters",
            )
        return texts

    def wanted_of(self, values: Values) -> Wanted:
        """What is asked for beside the translation; raises Refusal."""
        form = values.get("format") or "text"
        if form not in ("text", "html"):
            raise Refusal(400, f"{printable(form)} format is not supported")
        alternatives = number_field(values, "alternatives", MOST_ALTERNATIVES)
        details = details_field(values)
        if form == "html" and (alternatives or details):
            raise Refusal(
                400, "Invalid request: alternatives and details are for format=text alone"
            )
        return Wanted(form == "html", alternatives, details)

    def source_of(self, text: str, source: str, target: str) -> Guess:
        return self.service.detect(text, target) if source == "auto" else Guess(source, 1.0)

    async def translate_file(self, request: Request) -> Response:
        values = await self.read(request)
        file = values.get("file")
        if not isinstance(file, tuple) or not file[0]:
            raise Refusal(400, "Invalid request: missing file parameter")
        if not is_text(file[0]):
            raise Refusal(400, "Invalid request: the name of the file is no text")
        name = Path(file[0].replace("\\", "/"))
        if name.suffix.lower() not in EXTENSIONS:
            raise Refusal(
                400, f"Invalid request: file format not supported; {instead(name.suffix.lower())}"
            )
        named = text_field(values, "source"), text_field(values, "target")
        source, target = self.service.known_languages(*named)
        files = [(name.name, file[1])]
        translated = await translate_files(self.service, request, (source, target), files)
        token = self.keep(name, target, translated.contents[0])
        answer = {
            "translatedFileUrl": f"{request.base_url}download_file/{token}",
            "sentences": translated.sentences,
        }
        if translated.unsure is not None:
            answer["unsureSentences"] = translated.unsure
        return JSONResponse(answer)

    def keep(self, name: Path, target: str, content: bytes) -> str:
        """Keep a translated file for KEPT_SECONDS; the token that asks for it."""
        files = self.service.files
        now = time.monotonic()
        while files and (
            len(files) >= KEPT_FILES or next(iter(files.values()))[0] < now - KEPT_SECONDS
        ):
            files.popitem(last=False)
        plain = "".join(
            character for character in name.stem if character.isalnum() or character in "-_ "
        )
        token = secrets.token_urlsafe(24)
        files[token] = now, f"{plain[:80] or 'document'}.{target}{name.suffix.lower()}", content
        return token

    async def download_file(self, request: Request) -> Response:
        kept = self.service.files.get(request.path_params["token"])
        if kept is None or kept[0] < time.monotonic() - KEPT_SECONDS:
            raise Refusal(404, "There is no such file, or no longer")
        _, name, content = kept
        quoted = name.encode("ascii", "replace").decode().replace("?", "_")
        headers = {"Content-Disposition": f'attachment; filename="{quoted}"'}
        return Response(content, media_type="application/octet-stream", headers=headers)

    async def detect(self, request: Request) -> Response:
        values = await self.read(request)
        text = text_field(values, "q")
        codes = self.service.codes
        guesses = guess_languages(text, codes) or [Guess(codes[0], 0.0)]
        answer = [shown(guess) for guess in guesses]
        return JSONResponse([each for each in answer if each["confidence"] > 0] or answer[:1])

    async def suggest(self, request: Request) -> Response:
        raise Refusal(403, "Suggestions are disabled on this server")

    async def languages(self, request: Request) -> Response:
        return JSONResponse(self.service.languages())

    async def settings(self, request: Request) -> Response:
        needs_key = self.service.keys is not None
        names = {
            each["code"]: {"code": each["code"], "name": each["name"]}
            for each in self.service.languages()
        }
        source, target = next(iter(self.service.pairs))
        return JSONResponse(
            {
                "apiKeys": needs_key,
                "keyRequired": needs_key,
                "charLimit": self.service.limits.characters,
                "frontendTimeout": 300,
                "suggestions": False,
                "filesTranslation": True,
                "supportedFilesFormat": sorted(EXTENSIONS),
                "language": {"source": names[source], "target": names[target]},
            }
        )

    async def health(self, request: Request) -> Response:
        trouble = self.service.trouble()
        if trouble:
            return JSONResponse({"status": trouble}, 503)
        return JSONResponse({"status": "ok"})

    async def metrics(self, request: Request) -> Response:
        if self.service.clients.admit(request):
            raise wrong_key()
        return Response(generate_latest(self.service.registry), media_type=CONTENT_TYPE_LATEST)

    async def spec(self, request: Request) -> Response:
        return JSONResponse(specification(self.service))

    def all(self) -> list[Route]:
        def route(
            path: str, answer: Callable[[Request], Awaitable[Response]], method: str
        ) -> Route:
            return Route(path, answer, methods=[method])

        return [
            route("/translate", self.translate, "POST"),
            route("/translate_file", self.translate_file, "POST"),
            route("/detect", self.detect, "POST"),
            route("/suggest", self.suggest, "POST"),
            route("/languages", self.languages, "GET"),
            route("/health", self.health, "GET"),
            route("/metrics", self.metrics, "GET"),
            route("/spec", self.spec, "GET"),
            route("/frontend/settings", self.settings, "GET"),
            route("/download_file/{token}", self.download_file, "GET"),
        ]


def shown(guess: Guess) -> dict[str, Any]:
    return {"confidence": round(100 * guess.share, 1), "language": guess.language}

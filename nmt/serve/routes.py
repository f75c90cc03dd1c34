"""The addresses of the API. What a client sends never names a file of this machine."""

import html
import logging
import re
import sqlite3
import time
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from nmt.corpus.checks import Pair
from nmt.corpus.normalization import normalize
from nmt.corpus.parallel_text import is_unicode
from nmt.documents.formats import EXTENSIONS, instead
from nmt.errors import printable
from nmt.serve.clients import wrong_key
from nmt.serve.corrections import ACCEPTED, CHARACTERS, MOST_WAITING, WAITING, TooMany
from nmt.serve.detection import Guess, guess_languages
from nmt.serve.fields import (
    Values,
    details_field,
    given_value,
    number_field,
    read_fields,
    text_field,
)
from nmt.serve.limits import (
    KEPT_BYTES,
    KEPT_SECONDS,
    MOST_ALTERNATIVES,
    BoundedBody,
    Refusal,
    busy,
    check_size,
    invalid,
)
from nmt.serve.memory import on_one_line
from nmt.serve.service import Service, named_language, off_loop, work_of
from nmt.serve.spec import specification
from nmt.serve.translation import Wanted, translate_files, translate_texts
from nmt.view.text import acts

log = logging.getLogger("nmt")
LINE_ENDS = re.compile(r"[\f\v\x85\u2028\u2029]")  # for other programs
# What is no text of HTML. What is not closed goes on to the end, so that no text takes long
MARKUP = re.compile(
    r"<!--.*?(?:-->|\Z)|<(script|style)\b.*?(?:</\1\s*>|\Z)|<[/!?]?[a-z][^>]*(?:>|\Z)", re.I | re.S
)


class Routes:
    """A method for each address."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def all(self) -> list[Route]:
        return [
            Route("/translate", self.translate, methods=["POST"]),
            Route("/translate_file", self.translate_file, methods=["POST"]),
            Route("/detect", self.detect, methods=["POST"]),
            Route("/suggest", self.suggest, methods=["POST"]),
            # libretranslatepy asks with POST
            Route("/languages", self.languages, methods=["GET", "POST"]),
            Route("/health", self.health, methods=["GET"]),
            Route("/metrics", self.metrics, methods=["GET"]),
            Route("/spec", self.spec, methods=["GET"]),
            Route("/frontend/settings", self.settings, methods=["GET"]),
            Route("/download_file/{token}", self.download_file, methods=["GET"]),
        ]

    async def read(self, request: Request) -> Values:
        """The fields of a request; raises Refusal.

        The key, the rate and the stated size are checked before the body is read.
        """
        needs_key = self.service.clients.admit(request)
        length = request.headers.get("content-length", "")
        body: BoundedBody = request.scope["nmt.body"]
        if length.isdigit() and int(length) > body.most_bytes:
            raise body.refusal()
        values = await read_fields(request)
        if needs_key:
            self.service.clients.admit_body(request, values.get("api_key"))
        # From now on, so that a large document may come slowly
        request.scope["nmt.end"] = time.monotonic() + self.service.limits.seconds
        return values

    async def translate(self, request: Request) -> Response:
        values = await self.read(request)
        texts = self.texts_of(values)
        wanted = self.wanted_of(values)
        source, target = self.languages_of(values)
        if source == "auto":
            guesses = await off_loop(work_of(texts), self.guesses, texts, target, wanted.is_html)
            sources = [guess.language for guess in guesses]
        else:
            guesses = []
            sources = [source] * len(texts)

        # The texts of each language together.
        results: list[Values] = [{} for _ in texts]
        for language in dict.fromkeys(sources):
            rows = [row for row, other in enumerate(sources) if other == language]
            chosen = {row: texts[row] for row in rows}
            translated = await self.translate_from(request, language, target, chosen, wanted)
            for row, result in zip(rows, translated, strict=True):
                results[row] = result

        if source == "auto":
            for result, guess in zip(results, guesses, strict=True):
                result["detectedLanguage"] = shown(guess)
        if not isinstance(values["q"], list):
            return JSONResponse(results[0])
        columns = {}
        for name in results[0]:
            columns[name] = [result[name] for result in results]
        return JSONResponse(columns)

    def guesses(self, texts: Sequence[str], target: str, is_html: bool) -> list[Guess]:
        """The language of each text that is to be translated into `target`; raises Refusal."""
        guesses = []
        for number, text in enumerate(texts, 1):
            plain = html.unescape(MARKUP.sub(" ", text)) if is_html else text
            try:
                guesses.append(self.service.detect(plain, target))
            except Refusal as refusal:
                if len(texts) > 1:
                    refusal.detail += f" (text {number})"
                raise
        return guesses

    async def translate_from(
        self, request: Request, source: str, target: str, texts: dict[int, str], wanted: Wanted
    ) -> list[Values]:
        """The results of texts in one language; those in the target language stay as they are.

        texts: by their rows in the request.
        """
        pair = await self.service.pair(request, (source, target))
        if pair is None:
            return [wanted.result(text, "") for text in texts.values()]
        if wanted.is_html:
            files = [(f"text {row + 1}.html", text.encode()) for row, text in texts.items()]
            translated = await translate_files(
                self.service,
                request,
                (source, target),
                files,
                wanted.glossary,
                most_pieces=self.service.limits.characters,
            )
            version = translated.version
            return [wanted.result(each.decode(), version) for each in translated.contents]
        memory = await self.service.memory((source, target))
        return await translate_texts(
            self.service, request, pair, list(texts.values()), wanted, memory
        )

    def texts_of(self, values: Values) -> list[str]:
        """The texts that a request wants translated; raises Refusal."""
        limits = self.service.limits
        texts = given_texts(values)
        check_size(len(texts), limits.texts, "texts")
        check_size(sum(map(len, texts)), limits.characters, "characters")
        return texts

    def wanted_of(self, values: Values) -> Wanted:
        """What is asked for beside the translation; raises Refusal."""
        form = given_value(values, "format") or "text"
        if form not in ("text", "html"):
            raise Refusal(400, f"{printable(form)} format is not supported")
        alternatives = number_field(values, "alternatives", MOST_ALTERNATIVES)
        details = details_field(values)
        if form == "html" and details:
            raise invalid("details are for format=text alone")
        has_memory = bool(self.service.memories)
        return Wanted(form == "html", alternatives, details, self.glossary_of(values), has_memory)

    def glossary_of(self, values: Values) -> str:
        """The lines of the glossary of a request, which need not have one; raises Refusal."""
        if not given_value(values, "glossary"):
            return ""
        glossary = text_field(values, "glossary")
        if len(glossary) > self.service.limits.characters:
            raise invalid(f"the glossary has more than {self.service.limits.characters} characters")
        return glossary

    def languages_of(self, values: Values) -> tuple[str, str]:
        """The codes of the source, which may be auto, and of the target; raises Refusal."""
        source = text_field(values, "source")
        target = text_field(values, "target")
        return self.service.known_languages(source, target)

    async def translate_file(self, request: Request) -> Response:
        values = await self.read(request)
        path, content = file_field(values)
        source, target = self.languages_of(values)
        files = [(path.name, content)]
        translated = await translate_files(
            self.service, request, (source, target), files, self.glossary_of(values)
        )
        token = self.service.files.keep(translated_name(path, target), translated.contents[0])
        answer = {
            "translatedFileUrl": f"{request.base_url}download_file/{token}",
            "sentences": translated.sentences,
            "version": translated.version,
        }
        if translated.unsure is not None:
            answer["unsureSentences"] = translated.unsure
        if translated.remembered is not None:
            answer["memorySentences"] = translated.remembered
        return JSONResponse(answer)

    async def download_file(self, request: Request) -> Response:
        file = self.service.files.get(request.path_params["token"])
        if file is None:
            text = (
                f"There is no such file, or no longer: files are kept for {KEPT_SECONDS} seconds, "
                f"and the newest {KEPT_BYTES >> 20} MB of them"
            )
            raise Refusal(404, text)
        name = file.name.encode("ascii", "replace").decode().replace("?", "_")
        names = f"filename=\"{name}\"; filename*=UTF-8''{quote(file.name, safe='')}"
        headers = {"Content-Disposition": f"attachment; {names}"}
        return Response(file.content, media_type="application/octet-stream", headers=headers)

    async def detect(self, request: Request) -> Response:
        values = await self.read(request)
        text = "\n".join(given_texts(values))
        codes = self.service.codes
        guesses = guess_languages(text, codes) or [Guess(codes[0], 0.0)]
        answer = [shown(guess) for guess in guesses]
        likely = [entry for entry in answer if entry["confidence"] > 0]
        return JSONResponse(likely or answer[:1])

    async def suggest(self, request: Request) -> Response:
        """Keep corrections of the translation of each line of a text."""
        corrections = self.service.corrections
        if corrections is None:
            raise Refusal(403, "Suggestions are disabled on this server", reason="disabled")
        values = await self.read(request)
        if given_value(values, "format") not in ("text", ""):
            raise invalid("what is corrected is text without markup")
        pairs = corrected_lines(text_field(values, "q"), text_field(values, "s"))
        source, target = self.languages_of(values)
        if source == "auto":
            source = self.service.detect("\n".join(text for text, _ in pairs), target).language
        pair = await self.service.pair(request, (source, target))
        if pair is None:
            raise Refusal(400, f"The text is in {target} already", reason="language")
        name = request.scope["nmt.key"]
        accepted = ACCEPTED if name in self.service.acceptors else WAITING

        # What it is that is corrected
        texts = [text for text, _ in pairs]
        results = await translate_texts(self.service, request, pair, texts, Wanted())
        rows = []
        for (text, correction), result in zip(pairs, results, strict=True):
            rows.append((text, result["translatedText"], correction))
        memory = await self.service.memory((source, target))
        counting: dict[str, str] = {}  # of the lines before this one
        replaced = []
        for text, correction in pairs:
            known = memory.find(text) if memory is not None else None
            before = counting.get(text, known)
            if before not in (None, correction):
                replaced.append(before)
            counting[text] = correction
        try:
            await run_in_threadpool(
                corrections.add, rows, (source, target), pair.version, name, accepted
            )
        except TooMany:
            text = f"{MOST_WAITING} corrections wait to be accepted; no more are taken now"
            raise Refusal(429, text, reason="corrections") from None
        except (OSError, sqlite3.Error) as error:
            log.error("%s: %s", corrections.path, error)
            raise busy("The correction cannot be stored now", "corrections") from None
        answer = {"success": True, "accepted": accepted == ACCEPTED}
        return JSONResponse(answer | ({"instead": replaced} if replaced else {}))

    async def languages(self, request: Request) -> Response:
        return JSONResponse(self.service.languages())

    async def settings(self, request: Request) -> Response:
        needs_key = self.service.keys is not None
        source, target = self.service.directions[0]
        return JSONResponse(
            {
                "apiKeys": needs_key,
                "keyRequired": needs_key,
                "charLimit": self.service.limits.characters,
                "frontendTimeout": 300,
                "suggestions": self.service.corrections is not None,
                "filesTranslation": True,
                "supportedFilesFormat": sorted(EXTENSIONS),
                "language": {"source": named_language(source), "target": named_language(target)},
            }
        )

    async def health(self, request: Request) -> Response:
        trouble = await self.service.trouble()
        if trouble:
            return JSONResponse({"status": trouble}, 503)
        return JSONResponse({"status": "ok"})

    async def metrics(self, request: Request) -> Response:
        if self.service.clients.admit(request):
            raise wrong_key("")
        return Response(generate_latest(self.service.registry), media_type=CONTENT_TYPE_LATEST)

    async def spec(self, request: Request) -> Response:
        return JSONResponse(specification(self.service, request.scope["root_path"]))


def given_texts(values: Values) -> list[str]:
    """The text or the texts of a request; raises Refusal."""
    given = values.get("q")
    texts = given if isinstance(given, list) and given else [text_field(values, "q")]
    for number, text in enumerate(texts, 1):
        if not isinstance(text, str) or not is_unicode(text):
            raise invalid(
                f"q is a text or a list of texts, and number {number} of the list is not text"
            )
    return texts


def corrected_lines(text: str, correction: str) -> list[Pair]:
    """The lines of a text with their corrections, without blank ones; raises Refusal."""
    # A tab, as between cells of a table, is a space; no other sign than \n ends a line
    found = LINE_ENDS.search(correction)
    if found:
        raise invalid(
            f"s has U+{ord(found[0]):04X}, at which other programs end a line; "
            "write a space or a new line"
        )
    # What is invisible is blank
    lines = [on_one_line(line) for line in text.split("\n") if normalize(line).strip()]
    corrected = []
    for line in correction.split("\n"):
        if normalize(line).strip():
            corrected.append(line.replace("\t", " ").strip())
    if len(lines) != len(corrected) or not lines:
        raise invalid(
            f"q has {len(lines)} lines and s has {len(corrected)}; each line is corrected by one"
        )
    for line in (*lines, *corrected):
        if len(line) > CHARACTERS:
            raise invalid(f"a line has more than {CHARACTERS} characters")
        if any(map(acts, line)):
            raise invalid("q or s has control characters")
    return list(zip(lines, corrected, strict=True))


def file_field(values: Values) -> tuple[Path, bytes]:
    """The path and the content of the file of a request; raises Refusal."""
    file = values.get("file")
    if isinstance(file, str) and file:
        raise invalid("the file parameter has no name of a file (filename)")
    if not isinstance(file, tuple) or not file[0]:
        raise invalid("missing file parameter")
    name, content = file
    if not is_unicode(name):
        raise invalid("the name of the file is not text")
    path = Path(name.replace("\\", "/"))
    extension = path.suffix.lower()
    if extension not in EXTENSIONS:
        raise invalid(f"file format not supported; {instead(extension)}")
    return path, content


def is_in_name(sign: str) -> bool:
    """Whether a sign is a letter, a digit, a vowel sign or one of a few others."""
    return sign.isalnum() or unicodedata.category(sign).startswith("M") or sign in "-_ "


def translated_name(path: Path, target: str) -> str:
    """The name of a translated document, from harmless characters of its own name."""
    stem = "".join(sign for sign in path.stem if is_in_name(sign))
    return f"{stem[:80] or 'document'}.{target}{path.suffix.lower()}"


def shown(guess: Guess) -> dict[str, Any]:
    return {"confidence": round(100 * guess.share, 1), "language": guess.language}

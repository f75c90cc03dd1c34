"""Files of messages: what translate-toolkit reads, and JSON, YAML and TOML, whose numbers it would make texts."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from nmt.documents.counting import count_units
from nmt.documents.html import Token, inline_parts, tokens
from nmt.documents.markdown import InlineReader
from nmt.documents.segment import PLACEHOLDER, TRANSLATED, Document, Field, Left, Malformed, Part
from nmt.errors import UserError, install_extra

CHARSET = re.compile(rb'^"Content-Type:[^"]*charset=([^\s\\";]+)', re.MULTILINE)


# Tags between which the text of a message is translated apart; a program may give any others a meaning of its own.
BLOCKS = set(
    "address article aside blockquote center dd div dl dt fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 "
    "header hr li main nav ol p pre section table tbody td tfoot th thead tr ul".split()
)
BROKEN_HTML = "with broken HTML"


def import_library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UserError(f"This format needs {error.name or name}: {install_extra('documents')}.") from None


def message_parts(message: str) -> list[Part]:
    """The parts of a message, line by line; HTML in it stays, but & and < may be signs."""
    parts: list[Part] = []
    for line in message.splitlines(keepends=True):
        text = line.rstrip("\r\n")
        try:
            parts += line_parts(text)
        except Malformed:
            parts.append(Left(text, BROKEN_HTML))
        parts.append(line[len(text) :])
    return parts


def line_parts(text: str) -> list[Part]:
    """The parts of a line: what is between tags of blocks is translated together, with all other tags in it."""
    parts: list[Part] = []
    run: list[Token] = []
    for token in tokens(text):
        if token.name in BLOCKS:
            parts += [*inline_parts(text, run, entities=False), *token.parts]
            run = []
        else:
            run.append(token)
    return parts + inline_parts(text, run, entities=False)


def count_store(module: str, name: str, data: bytes) -> Counter[str]:
    """What a class of translate.storage reads."""
    store = getattr(import_library(f"translate.storage.{module}"), name)()
    store.parse(data)
    return count_units(store)


UNSURE_WORDS = "Unsure:"
MONOLINGUAL = {"properties", "resx", "aresource"}  # the text of a unit is replaced by its translation


def read_store(module: str, name: str, data: bytes, retranslate: bool) -> Document:
    """What a class of translate.storage reads, unit by unit; forms of a plural that are there stay."""
    store = getattr(import_library(f"translate.storage.{module}"), name)()
    charset = CHARSET.search(data) if module == "pypo" else None
    if charset and charset[1].upper() not in (b"UTF-8", b"UTF8", b"ASCII", b"US-ASCII", b"CHARSET"):
        raise Malformed(f"it says that its encoding is {charset[1].decode()}; convert it to UTF-8", charset.start())
    try:
        store.parse(data)
    except Exception as error:  # of any kind: the parsers have no error of their own
        raise Malformed(f"translate-toolkit cannot read it ({str(error).splitlines()[0][:100]})") from None
    document, replaces = Document([], lambda: bytes(store)), retranslate or module in MONOLINGUAL
    for unit in store.units:
        if unit.isheader() or unit.isobsolete() or not unit.istranslatable() or not unit.source:
            continue
        sources = [str(each) for each in getattr(unit.source, "strings", [unit.source])]
        forms = [str(each or "") for each in getattr(unit.target, "strings", [unit.target])]
        if all(form.strip() for form in forms) and not replaces:
            document.leave(str(unit.source), TRANSLATED)
            continue
        is_plural, last, unsure = len(sources) > 1 or unit.hasplural(), len(sources) - 1, list[str]()
        if is_plural and module not in MONOLINGUAL:
            forms = [*forms, *[""] * (count := plural_forms(store, forms))][:count]

        def save(text: str, unit: Any, forms: list[str], places: list[int], is_plural: bool) -> None:
            for place in places:
                forms[place] = text
            unit.target = list(forms) if is_plural else forms[0]
            if module not in MONOLINGUAL:
                unit.markfuzzy()

        for index, source in enumerate(sources):  # the singular is the first form, the plural all others
            places = [place for place in range(len(forms)) if (min(place, last) if forms[1:] else last) == index]
            places = [place for place in places if replaces or not forms[place].strip()]
            if places:
                keep = partial(save, unit=unit, forms=forms, places=places, is_plural=is_plural)
                mark = partial(name_unsure, unit, unsure) if module in ("pypo", "ts2") else None
                document.fields.append(Field(message_parts(source), keep, mark=mark))
    return document


def name_unsure(unit: Any, unsure: list[str], words: list[str]) -> None:
    """Name the unsure words of a unit in a translator's comment; those of its forms before are `unsure`."""
    unsure += words
    others = [line for line in unit.getnotes("translator").splitlines() if not line.startswith(UNSURE_WORDS)]
    unit.removenotes("translator")
    unit.addnote(
        "\n".join(others + [f"{UNSURE_WORDS} {', '.join(dict.fromkeys(unsure))}"] * bool(unsure)), "translator"
    )


def plural_forms(store: Any, forms: list[str]) -> int:
    header = store.getheaderplural()[0] if hasattr(store, "getheaderplural") else None
    return int(header) if header and str(header).isdecimal() else max(len(forms), 2)


def read_callback(module: str, name: str, options: dict[str, Any], reader: Any, data: bytes, _: bool) -> Document:
    """What a class of translate.storage reads once to hand over its texts, and once more to take them."""
    base = getattr(import_library(f"translate.storage.{module}"), name)
    make = type(name, (base,), {"_parse_paragraph": lambda *place: past_line(base, *place)})
    new: dict[str, str] = {}

    def parse(callback: Callable[[str], str]) -> str:
        store = make(callback=callback, **options)
        store.parse(data)
        return str(store.filesrc)

    parse(lambda text: new.setdefault(text, text))
    fields = []
    for text in new:
        inline = reader(text)
        inline.read(0, len(text))
        fields.append(Field([inline.builder.build(text)], partial(new.__setitem__, text)))
    return Document(fields, lambda: parse(lambda text: new.get(text, text)).encode())


def past_line(base: Any, file: Any, lines: list[str], index: int) -> int:
    """Where what follows a paragraph begins: after its line at least; AsciiDocFile stays at an item without text."""
    after = base._parse_paragraph(file, lines, index)
    if after == index:
        file._elements.append({"type": "empty", "content": lines[index]})
    return max(int(after), index + 1)


class AsciiDocReader(InlineReader):
    """Inline AsciiDoc: text in brackets is translated, macros and references are not."""

    PATTERN = re.compile(
        rf"(?P<open>(?:https?://|(?:link|xref|footnote|mailto|image)::?)[^\s\[\]]*\[)|(?P<close>\])|(?P<soft>\s*\n\s*)"
        rf"|(?P<unit>`[^`]+`|<<[^<>]+>>|\w+::?[^\s\[\]]*\[[^\]]*\]|{PLACEHOLDER})|(?P<run>[*_#]+)"
    )

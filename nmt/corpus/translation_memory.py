"""Sentence pairs of TMX and XLIFF files (1.2 and 2), read as a stream of units.

The parser loads no other file. It refuses entities that grow without bounds (expat from 2.4 on) and
those that the file does not declare. A character that XML does not allow, but other programs write,
is read as U+FFFD and counted. Elements inside a sentence that stand for codes (`bpt`, `ept`, `ph`,
`it`, `ut`, `sub`) are left out with their content; all others (`hi`, `g`, `mrk`, `pc`, `x` …) leave
their text. A code for a line break, a line break and indentation become one space. Where a unit of
XLIFF 1.2 is divided into segments on both sides, each segment is a pair: one may be translated and
the next one not.
"""

import re
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any, TypeVar
from xml.etree.ElementTree import Element, ParseError, XMLPullParser

from nmt.config.schema import DataConfig
from nmt.corpus.languages import same_language
from nmt.corpus.packed import PackedFile
from nmt.corpus.tables import Pair, Skipped, listed, warn_once
from nmt.errors import UserError, printable

CODES = {"bpt", "ept", "ph", "it", "ut", "sub"}
# What says that a code is a line break: in TMX, XLIFF 1.2 and XLIFF 2
BREAKS = {("type", "lb"), ("ctype", "lb"), ("subType", "xlf:lb")}
BREAK_TAG = re.compile(r"\s*<br\b[^>]*>\s*", re.IGNORECASE)  # the content of such a code
SPACE = re.compile("[ \t\r\n]+")  # no no-break space, which is a part of the text
# What names the languages of a unit: of TMX, XLIFF 1.2 and XLIFF 2.
UNITS = {
    "tu": "xml:lang of <tuv>",
    "trans-unit": "source-language and target-language of <file>",
    "segment": "srcLang and trgLang of <xliff>",
}
# A character by its number, or a control character as it is; and the beginning of such a number
CHARACTER = re.compile(rb"&#(?:x([0-9a-f]{1,7})|([0-9]{1,8}));|[\0-\x08\x0b\x0c\x0e-\x1f]", re.I)
CUT_CHARACTER = re.compile(rb"&(?:#\w{0,8})?\Z")
ALLOWED = re.compile("[\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # by XML 1.0
XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
GETTEXT_HEADER = "x-gettext-domain-header"  # the `restype` of a unit that is no message of its PO
NO_PAIR = "unit without both languages"
NOT_REVIEWED = "unit that is marked for review"
Content = TypeVar("Content")
NEEDS_REVIEW = re.compile(r"new|initial|(nmt:)?needs-.*")


def read_units(
    file: PackedFile, data: DataConfig, skipped: Skipped, reviewed: bool = False
) -> Iterator[Pair]:
    """The pairs of a file in two languages; raises UserError for damage, and if there is none.

    `reviewed`: without units that are marked as not reviewed yet.
    """
    seen = Counter[str]()
    attributes = ""
    has_pairs = False
    for unit, codes in units(file):
        if unit.get("restype") == GETTEXT_HEADER:
            skipped["header of gettext"] += 1
            continue
        if reviewed and not is_reviewed(unit):
            skipped[NOT_REVIEWED] += 1
            has_pairs = True
            continue
        attributes = UNITS[local_name(unit)]
        for texts in segment_texts(unit, codes) or [unit_texts(unit, codes)]:
            seen.update(texts.keys())
            source = in_language(texts, data.source)
            target = in_language(texts, data.target)
            if source is None or target is None:
                skipped[NO_PAIR] += 1
            else:
                has_pairs = True
                yield source, target
    if not has_pairs:
        without = seen.pop("", 0)
        named = ", ".join(printable(code) for code, _ in seen.most_common(10))
        reason = f"its languages are: {named}"
        if not named:
            reason = "no <seg>, <source> or <target> of it names its language"
        if without:
            reason += f"; {without:,} of its texts have none, so complete {attributes}"
        raise UserError(f"{file} has no unit in {data.source} and {data.target}; {reason}.")


def is_reviewed(unit: Element) -> bool:
    """Whether no state of a unit or of its target asks for a review."""
    for element in (unit, *unit):
        states = [element.get("state", ""), element.get("subState", "")]
        if any(map(NEEDS_REVIEW.fullmatch, states)):
            return False
    return True


def units(file: PackedFile) -> Iterator[tuple[Element, list[str]]]:
    """The units, each with the source and target language of its XLIFF file; raises UserError."""
    codes = ["", ""]
    for event, element in events(file, UNITS):
        name = local_name(element)
        if event == "start":
            if "source-language" in element.attrib:  # XLIFF 1.2
                codes = [element.get("source-language", ""), element.get("target-language", "")]
            if "srcLang" in element.attrib:  # XLIFF 2
                codes = [element.get("srcLang", ""), element.get("trgLang", "")]
            continue
        is_break = not BREAKS.isdisjoint(element.attrib.items())
        if name in CODES:
            is_break = is_break or BREAK_TAG.fullmatch("".join(element.itertext())) is not None
            tail = element.tail
            element.clear()
            element.tail = tail
        if is_break:
            element.text = "\n" + (element.text or "")
        if name in UNITS:
            yield element, codes


def events(file: PackedFile, whole: Collection[str]) -> Iterator[tuple[str, Element]]:
    """The beginning and the end of each element; raises UserError for damage.

    At their ends, only elements with a name in `whole` and those inside them have all content.
    """
    path: list[Element] = []
    inside = 0
    for event, element in all_events(file):
        is_whole = local_name(element) in whole
        if event == "start":
            path.append(element)
            inside += is_whole
            yield event, element
            continue
        yield event, element
        path.pop()
        inside -= is_whole
        if path and not inside:
            path[-1].clear()  # memory does not grow with the file


def all_events(file: PackedFile) -> Iterator[tuple[str, Element]]:
    parser: Any = XMLPullParser(("start", "end"))
    try:
        for block in allowed_blocks(file):
            parser.feed(block)
            yield from parser.read_events()
        parser.close()
        yield from parser.read_events()
    except ParseError as error:
        reason = printable(str(error).partition(": line")[0], 100)
        raise UserError(
            f"{file}, line {error.position[0]}, is not well-formed XML ({reason})."
        ) from None
    except (LookupError, ValueError):
        # an encoding that Python does not know, or one of several bytes
        raise UserError(
            f"{file} has an encoding that cannot be read; convert the file to UTF-8."
        ) from None


def allowed_blocks(file: PackedFile) -> Iterator[bytes]:
    """The content of an XML file, with U+FFFD for what XML does not allow, which is logged.

    UTF-16 is left as it is.
    """
    blocks = replace(file, encoding="").blocks()  # XML states its encoding itself
    first = next(blocks, b"")
    if b"\0" in first[:4]:
        yield first
        yield from blocks
        return

    other_encoding = re.search(rb"encoding\s*=\s*[\"'](?!utf-8[\"'])", first[:200], re.IGNORECASE)
    replacement = b"?" if other_encoding else "\ufffd".encode()  # in CDATA
    text = b""
    line = 1
    places: list[str] = []

    def allowed(match: re.Match[bytes]) -> bytes:
        code = 0
        if match.lastindex:
            code = int(match[1], 16) if match[1] else int(match[2])
        if code <= sys.maxunicode and ALLOWED.match(chr(code)):
            return match[0]
        is_inside = text.rfind(b"<![CDATA[", 0, match.start()) > text.rfind(
            b"]]>", 0, match.start()
        )
        if is_inside and match.lastindex:
            return match[0]  # there a reference is text
        places.append(str(line + text.count(b"\n", 0, match.start())))
        return replacement if is_inside else b"&#xFFFD;"

    rest = b""
    for block in chain([first], blocks, [b""]):
        text = rest + block
        cut = CUT_CHARACTER.search(text) if block else None
        rest = cut[0] if cut else b""
        text = text.removesuffix(rest)
        yield CHARACTER.sub(allowed, text)
        line += text.count(b"\n")
    if places:
        warn_once(
            f"{file}: {len(places):,} characters that XML does not allow are read as U+FFFD (lines "
            f"{listed(places)})."
        )


def unit_texts(unit: Element, codes: list[str]) -> dict[str, str]:
    """The first text of a unit in each of its languages."""
    texts: dict[str, str] = {}
    for child in unit:
        name = local_name(child)
        sentence: Element | None = child
        if name == "tuv":
            sentence = next((part for part in child if local_name(part) == "seg"), None)
            language = child.get(XML_LANG, child.get("lang", ""))
        elif name == "source":
            language = child.get(XML_LANG, codes[0])
        elif name == "target":
            language = child.get(XML_LANG, codes[1])
        else:
            continue
        if sentence is not None:
            texts.setdefault(normal_code(language), text_of(sentence))
    return texts


def segment_texts(unit: Element, codes: list[str]) -> list[dict[str, str]]:
    """The texts of each segment of a unit, by their languages; [] if a side has no segments."""
    by_number: dict[str, dict[str, str]] = {}
    for name, code in zip(("seg-source", "target"), codes, strict=True):
        side = next((child for child in unit if local_name(child) == name), None)
        marks = [] if side is None else list(filter(is_segment, side.iter()))
        if side is None or not marks:
            return []
        language = normal_code(side.get(XML_LANG, code))
        for mark in marks:
            texts = by_number.setdefault(mark.get("mid", ""), {})
            texts.setdefault(language, text_of(mark))
    return list(by_number.values())


def is_segment(element: Element) -> bool:
    return local_name(element) == "mrk" and element.get("mtype") == "seg"


def text_of(element: Element) -> str:
    return SPACE.sub(" ", "".join(element.itertext())).strip(" ")


def in_language(contents: dict[str, Content], language: str) -> Content | None:
    """What has the very code, else the first in the same language (de-AT for de, deu_Latn)."""
    codes = same_language(normal_code(language), contents)
    return contents[codes[0]] if codes else None


def local_name(element: Element) -> str:
    return element.tag.rpartition("}")[2]


def normal_code(language: str) -> str:
    """A language code in lower case with `-` before the region: de-at for de_AT."""
    return language.lower().replace("_", "-")[:40]

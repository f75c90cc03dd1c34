"""What a workbook of Excel has beside paragraphs: texts that formulas and tables refer to, headers
of pages.

A formula, a filter or a list of permitted values finds a cell by its text, and the name of a
table's column must equal the cell above it, or Excel repairs the file. Such texts stay.
"""

import logging
import re
from collections.abc import Iterator
from typing import Any

from nmt.documents.segment import Document, Field, Kind
from nmt.documents.xml_files import Inline, Item, local

log = logging.getLogger("nmt")

# Why a text is not translated.
RESULTS = "formula results"
HEADERS = "table headers"
NAMED = "named in formulas"
SHEETS = "sheet names"
MESSAGES = "messages of input rules"
LONG_HEADERS = "long headers"
FORMULAS = set("f formula formula1 formula2 definedName calculatedColumnFormula".split())
LONGEST_HEADER = 255  # characters of a page's header; Excel opens no file with a longer one
QUOTED = re.compile(r'"((?:[^"]|"")*)"')
# Codes in the header of a page: a new column, a font, a size, a colour; what has a place in its
# text; and & as text.
HEADER_CODE = re.compile(
    r'&(?:(?P<column>[LCR])|"[^"]*"|\d+|K(?:[0-9A-Fa-f]{6}|\d\d[+-]\d{3})|(?P<unit>[PNDTGFAZ])'
    r"|(?P<text>&)|[A-Za-z])"
)
ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")  # a character, as Excel writes it
RULE_ATTRIBUTES = ("promptTitle", "prompt", "errorTitle", "error")


class Workbook:
    """The texts of a workbook that something refers to, and why the texts of its elements stay."""

    def __init__(self, document: Document, roots: dict[str, Any]) -> None:
        self.document = document
        self.headers: set[str] = set()
        self.named: set[str] = set()  # in small letters, since formulas compare without case
        for root in roots.values():
            for element in root.iter("{*}*"):
                self.read(element)

    def read(self, element: Any) -> None:
        """Note the names that an element states, and the texts in its formula."""
        name = local(element)
        if name in ("tableColumn", "cacheField"):
            self.headers.add(unescape(element.get("name", "")))
            self.headers.add(unescape(element.get("totalsRowLabel", "")))
        elif name in FORMULAS:
            self.named |= quoted(element.text or "")
        elif name in ("filter", "customFilter"):
            self.named.add(element.get("val", "").casefold())
        elif name == "sheet" and element.get("name"):
            self.document.leave(element.get("name"), SHEETS)
        elif name == "dataValidation":
            texts = [element.get(attribute, "") for attribute in RULE_ATTRIBUTES]
            if any(texts):
                self.document.leave(" ".join(texts), MESSAGES)

    def reason(self, element: Any) -> str | None:
        name = local(element)
        if name == "c":
            kind = element.get("t", "n")
            if kind == "str" and element.find("{*}f") is not None:
                return RESULTS
            if kind == "str":
                return NAMED if element.findtext("{*}v", "").casefold() in self.named else None
            return None if kind == "inlineStr" else ""  # the number of a text, or a value
        if name in ("si", "is"):
            # Without the texts that say how it is pronounced
            texts = element.xpath(".//*[local-name() = 't'][local-name(..) != 'rPh']/text()")
            text = unescape("".join(texts))
            if text in self.headers:
                return HEADERS
            return NAMED if text.casefold() in self.named else None
        if name == "headerFooter":
            # Their translations must fit, too.
            is_long = any(len(child.text or "") > LONGEST_HEADER // 2 for child in element)
            return LONG_HEADERS if is_long else None
        return None

    @staticmethod
    def header_field(element: Any) -> Field:
        """The header or footer of a page; a translation too long for Excel is not written."""
        inline = Inline()

        def save(new: Any) -> None:
            text = header_text(inline, new)
            if len(text) <= LONGEST_HEADER:
                element.text = text
            else:
                log.warning(
                    "The header of a page stays as it is, since Excel opens no file with one of "
                    "more than %d characters; its translation is: %s",
                    LONGEST_HEADER,
                    text,
                )

        return inline.make_field(list(header_items(element.text or "")), save)


def header_items(text: str) -> Iterator[Item]:
    end = 0
    for match in HEADER_CODE.finditer(text):
        yield from header_lines(text[end : match.start()])
        end = match.end()
        if match["text"]:
            yield Item(Kind.TEXT, text="&")
            continue
        if match["column"]:
            kind = Kind.END
        elif match["unit"]:
            kind = Kind.UNIT
        else:
            kind = Kind.POINT
        yield Item(kind, match[0])
    yield from header_lines(text[end:])


def header_lines(text: str) -> Iterator[Item]:
    """The lines of a header, which are texts of their own."""
    for index, line in enumerate(re.split(r"(\n)", text)):
        yield Item(Kind.SEPARATOR, line) if index % 2 else Item(Kind.TEXT, text=line)


def header_text(inline: Inline, new: Any) -> str:
    """A translated header as Excel reads it: behind a size, a number begins with a space."""
    text = (new.text or "").replace("&", "&&")
    for child in new:
        text += inline.thing(child)
        after = (child.tail or "").replace("&", "&&")
        is_number = after[:1].isdigit() and text[-1].isdigit()
        text += f" {after}" if is_number else after
    return text


def quoted(formula: str) -> set[str]:
    """The texts in quotation marks of a formula, and between their commas, in small letters."""
    texts: set[str] = set()
    for match in QUOTED.findall(formula):
        text = match.replace('""', '"').casefold()
        texts.add(text)
        texts.update(part.strip() for part in text.split(","))
    return texts


def unescape(text: str) -> str:
    """A text without Excel's escapes, such as _x000a_ for a new line; half a character is �."""
    text = ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

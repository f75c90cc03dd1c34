"""gettext PO, by translate-toolkit: messages without a translation get one, marked as fuzzy; every other byte stays.

Tags of HTML and placeholders such as %s are kept; each line of a message is translated by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from nmt.documents.inline_markup import inline_parts
from nmt.documents.markup_tokens import tokens
from nmt.documents.segment import Malformed, Part
from nmt.errors import UserError, install_extra

CHARSET = re.compile(r'^"Content-Type:[^"]*charset=([^\s\\";]+)', re.MULTILINE)
MESSAGE = re.compile(r"^(?:#~\s*)?(?:msg(?:id|ctxt|id_plural|str(?:\[\d+\])?)\s*)?\"|^#|^\s*$|^domain ")


class PoDocument:
    """The messages of a PO file; with `retranslate` also those that have a translation. Raises Malformed."""

    def __init__(self, text: str, retranslate: bool) -> None:
        check(text)
        self.newline = "\r\n" if "\r\n" in text else "\n"
        self.text = text.replace("\r\n", "\n")
        self.store = parse(self.text)
        self.units = [unit for unit in self.store.units if is_open(unit, retranslate)]
        self.places = list(self.find_units())

    def find_units(self) -> Iterator[tuple[int, int]]:
        """Where the messages are in the text; raises Malformed for one that translate-toolkit would write otherwise."""
        end = 0
        for unit in self.units:
            start = self.text.find(str(unit), end)
            if start < 0:
                problem = f"the message '{unit.source[:60]}' is not in the usual form; msgcat brings the file into it"
                raise Malformed(problem, end)
            end = start + len(str(unit))
            yield start, end

    def parts(self) -> Iterator[Part]:
        """The parts of all messages, one after the other."""
        for unit in self.units:
            for message in sources(unit):
                yield from message_parts(message)

    def write(self, translated: Iterator[str]) -> Iterator[str]:
        """The file with the translations of these parts."""
        forms = plural_forms(self.store)
        position = 0
        for unit, (start, end) in zip(self.units, self.places, strict=True):
            messages = ["".join(islice(translated, len(list(message_parts(each))))) for each in sources(unit)]
            plurals = [*messages[:1] * (forms > 1), *messages[1:] * max(forms - 1, 1)]
            unit.target = plurals if messages[1:] else messages[0]
            unit.markfuzzy()
            yield self.with_newlines(self.text[position:start] + str(unit))
            position = end
        yield self.with_newlines(self.text[position:])

    def with_newlines(self, text: str) -> str:
        """Text with the line ends of the file."""
        return text.replace("\n", self.newline)


def check(text: str) -> None:
    """Raise Malformed for another encoding, and for a line that belongs to no message."""
    charset = CHARSET.search(text)
    if charset and charset[1].upper() not in ("UTF-8", "UTF8", "ASCII", "US-ASCII", "CHARSET"):
        problem = f"the file says that its encoding is {charset[1]}; msgconv --to-code=UTF-8 converts it"
        raise Malformed(problem, charset.start())
    position = 0
    for line in text.split("\n"):
        if not MESSAGE.match(line.strip()):
            raise Malformed(
                "this is no line of a PO file: a comment, msgid, msgstr or text in quotation marks", position
            )
        position += len(line) + 1


def parse(text: str) -> Any:
    """The messages, by translate-toolkit; raises UserError without it, and Malformed."""
    try:
        from translate.storage.pypo import pofile
    except ImportError:
        raise UserError(f"PO files are read by translate-toolkit: {install_extra('documents')}.") from None
    try:
        return pofile.parsestring(text.encode())
    except Exception as error:  # of any kind: the parser has no error of its own
        raise Malformed(f"translate-toolkit cannot read it ({str(error).splitlines()[0][:100]})", 0) from None


def is_open(unit: Any, retranslate: bool) -> bool:
    """Whether a message is to be translated."""
    if unit.isheader() or unit.isobsolete() or not unit.istranslatable():
        return False
    return retranslate or not any(str(each).strip() for each in targets(unit))


def sources(unit: Any) -> list[str]:
    """The message, and its plural."""
    return [str(each) for each in unit.source.strings] if unit.hasplural() else [str(unit.source)]


def targets(unit: Any) -> list[str]:
    """The translations that are there."""
    return list(unit.target.strings) if unit.hasplural() else [unit.target or ""]


def plural_forms(store: Any) -> int:
    """How many forms of the plural the header names; 2 without."""
    count, _ = store.getheaderplural()
    return int(count) if count and str(count).isdecimal() else 2


def message_parts(message: str) -> Iterator[Part]:
    """The parts of a message, line by line."""
    for line in message.splitlines(keepends=True):
        text = line.rstrip("\r\n")
        try:
            parts = inline_parts(text, list(tokens(text)), entities=False)
        except Malformed:  # < and > are signs here
            parts = [text]
        yield from (*parts, line[len(text) :])

"""Qt Linguist (.ts): messages without a finished translation get one; every other byte stays."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from nmt.documents.segment import (
    COMMENTS,
    OBSOLETE,
    TRANSLATED,
    Document,
    Field,
    Malformed,
    has_letters,
)
from nmt.documents.stores import message_parts, with_unsure
from nmt.documents.xml_content import Element, XmlFile, parse, unescape

COMMENT_NAMES = (
    "comment",
    "oldcomment",
    "extracomment",
    "translatorcomment",
    "oldsource",
    "userdata",
)
UNFINISHED = 'type="unfinished"'
TYPE = re.compile(r"""\s+type\s*=\s*(?:"[^"]*"|'[^']*')""")
BYTE = re.compile(r"<byte\s[^<>]*/>")  # a control character


@dataclass
class Message:
    """A message: where its translation is written, and what its forms are, of which there is one
    without numbers."""

    element: Element
    file: XmlFile
    forms: list[str] = field(default_factory=list)  # as they are written
    unsure: list[str] = field(default_factory=list)

    def child(self, name: str) -> Element | None:
        return next((each for each in self.element.children if each.name == name), None)

    @property
    def has_numbers(self) -> bool:
        return self.element.attributes.get("numerus") == "yes"

    def save(self, text: str, place: int) -> None:
        """Write a form of the translation, and that nobody has looked at it."""
        self.forms[place] = self.escape(text)
        source = self.child("source")
        translation = self.child("translation")
        if source is None:
            return
        indentation = self.indentation(source)
        content = self.forms[0]
        if self.has_numbers:
            forms = [f"{indentation}    <numerusform>{form}</numerusform>" for form in self.forms]
            content = "".join(forms) + indentation
        if translation is None:
            end = element_end(self.file, source)
            self.file.replace(
                end, end, f"{indentation}<translation {UNFINISHED}>{content}</translation>"
            )
        else:
            tag = self.file.data[translation.tag : translation.start].decode().rstrip("/>").rstrip()
            tag = f"{TYPE.sub('', tag)} {UNFINISHED}>"
            end = element_end(self.file, translation)
            self.file.replace(translation.tag, end, f"{tag}{content}</translation>")

    def escape(self, text: str) -> str:
        """As Qt writes it."""
        return self.file.escape(text).replace('"', "&quot;").replace("'", "&apos;")

    def indentation(self, element: Element) -> str:
        """The line break and the spaces before an element."""
        data = self.file.data
        start = element.tag
        while start and data[start - 1] in b" \t\r\n":
            start -= 1
        return data[start : element.tag].decode()

    def mark(self, words: list[str]) -> None:
        """Name the unsure words of all forms in the translator's comment."""
        self.unsure += words
        comment = self.child("translatorcomment")
        old = unescape(self.file.content(comment)) if comment else ""
        new = self.escape(with_unsure(old, self.unsure))
        source = self.child("source")
        if comment:
            self.file.replace(comment.start, comment.end, new)
        elif source and new:
            end = element_end(self.file, source)
            written = f"{self.indentation(source)}<translatorcomment>{new}</translatorcomment>"
            # one that has no element yet is written there too
            _, translation = self.file.new.get(end, (end, ""))
            self.file.replace(end, end, written + translation)


def element_end(file: XmlFile, element: Element) -> int:
    """Where the tag ends that closes an element."""
    if file.data[element.start - 2 : element.start] == b"/>":
        return element.start
    return file.data.index(b">", element.end) + 1


def read_ts(data: bytes, retranslate: bool) -> Document:
    file = parse(data)
    root = file.elements[0].name if file.elements else ""
    if root != "TS":
        raise Malformed(f"its root is <{root}> and not <TS>, as in files of Qt Linguist")
    document = Document([], file.serialize)
    for element in file.elements:
        if element.name in COMMENT_NAMES and has_letters(file.content(element)):
            document.leave(file.content(element), COMMENTS)
        elif element.name == "message":
            add_message(document, Message(element, file), retranslate)
    return document


def add_message(document: Document, message: Message, retranslate: bool) -> None:
    source = message.child("source")
    if source is None:
        return
    file = message.file
    raw = file.content(source)
    translation = message.child("translation")
    state = translation.attributes.get("type", "") if translation else "unfinished"
    written = file.content(translation) if translation else ""
    variants = translation.children if translation else []
    message.forms = [file.content(each) for each in variants if each.name == "numerusform"] or [
        written
    ]
    if message.has_numbers and not variants:
        message.forms = ["", ""]
    if state in ("obsolete", "vanished"):
        document.leave(f"{raw}\n{written}", OBSOLETE)
        return
    has_lengths = any(each.name == "lengthvariant" for each in variants)
    is_copy = {form.strip() for form in message.forms} <= {raw.strip()}
    is_done = state != "unfinished" and all(form.strip() for form in message.forms) and not is_copy
    if has_lengths or (is_done and not retranslate):
        document.leave(f"{raw}\n{written}", TRANSLATED)
        return

    def save(text: str) -> None:
        for place in range(len(message.forms)):
            message.save(text, place)

    document.fields.append(
        Field(message_parts(unescape(BYTE.sub("", raw))), save, mark=message.mark)
    )

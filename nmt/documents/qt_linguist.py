"""Qt Linguist (.ts): messages without a finished translation get one; every other byte stays."""

import codecs
import re
from dataclasses import dataclass, field

from nmt.corpus.words import has_letters
from nmt.documents.messages import message_parts, with_doubts
from nmt.documents.segment import (
    COMMENTS,
    OBSOLETE,
    TRANSLATED,
    Document,
    Field,
    Malformed,
    Stated,
)
from nmt.documents.xml_content import Element, XmlFile, parse, text_of

COMMENT_NAMES = set("comment oldcomment extracomment translatorcomment oldsource userdata".split())
UNFINISHED = 'type="unfinished"'
TYPE = re.compile(r"""\s+type\s*=\s*(?:"[^"]*"|'[^']*')""")
# Attributes of the root with a language, and whether it is that of the translations
LANGUAGES = {"sourcelanguage": False, "language": True}
BYTE = "byte"  # an element that stands for a control character
# What Qt Linguist reads inside a text; it refuses other elements there.
INSIDE = {
    "source": {BYTE},
    "translation": {BYTE, "numerusform", "lengthvariant"},
    "numerusform": {BYTE, "lengthvariant"},
    "lengthvariant": {BYTE},
    **dict.fromkeys(COMMENT_NAMES, {BYTE}),
}


@dataclass
class Message:
    """A message with a source, and what is written to its translation and its comment."""

    element: Element
    source: Element
    file: XmlFile
    count: int = 0  # of the forms for numbers of its translation; 0: it has no such forms
    unsure: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def save(self, text: str) -> None:
        """Write all forms of the translation, and that nobody has looked at it."""
        content = self.escape(text)
        indentation = self.indentation()
        if self.count:
            form = f"{indentation}    <numerusform>{content}</numerusform>"
            content = self.count * form + indentation
        translation = self.element.child("translation")
        if translation is None:
            end = element_end(self.file, self.source)
            self.file.replace(
                end, end, f"{indentation}<translation {UNFINISHED}>{content}</translation>"
            )
            return
        tag = self.file.bytes[translation.tag : translation.start].decode().rstrip("/>").rstrip()
        tag = f"{TYPE.sub('', tag)} {UNFINISHED}>"
        end = element_end(self.file, translation)
        self.file.replace(translation.tag, end, f"{tag}{content}</translation>")

    def escape(self, text: str) -> str:
        """A text as Qt writes it."""
        return self.file.escape(text).replace('"', "&quot;").replace("'", "&apos;")

    def indentation(self) -> str:
        """The line break and the spaces before the source."""
        data = self.file.bytes
        start = self.source.tag
        while start and data[start - 1] in b" \t\r\n":
            start -= 1
        return data[start : self.source.tag].decode()

    def mark(self, words: list[str], faults: list[str] | None) -> None:
        """Name the unsure words and the faults of all forms in the translator's comment."""
        self.unsure += words
        self.faults += faults or ()
        comment = self.element.child("translatorcomment")
        old = text_of(self.file.content(comment)) if comment else ""
        new = self.escape(with_doubts(old, self.unsure, self.faults))
        element = f"<translatorcomment>{new}</translatorcomment>"
        if comment:
            self.file.replace(comment.tag, element_end(self.file, comment), element)
        elif new:
            end = element_end(self.file, self.source)
            # A translation that had no element yet is written at the same place.
            translation = self.file.new.get((end, end), b"").decode()
            self.file.replace(end, end, f"{self.indentation()}{element}{translation}")


def element_end(file: XmlFile, element: Element) -> int:
    """Where the tag ends that closes an element."""
    if file.bytes[element.start - 2 : element.start] == b"/>":
        return element.start
    return file.bytes.index(b">", element.end) + 1


def read_ts(data: bytes, retranslate: bool) -> Document:
    if not data.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"<"):
        raise Malformed("of .ts files, only those of Qt Linguist can be read, which are XML")
    file = parse(data)
    root = file.elements[0].name
    if root != "TS":
        raise Malformed(f"its root is <{root}> and not <TS>, as in files of Qt Linguist")
    for name, is_target in LANGUAGES.items():
        code = file.elements[0].attributes.get(name, "")
        file.stated.append(Stated(name, code, is_target))
    for element in file.elements:
        if element.name not in INSIDE.get(element.parent_name, {element.name}):
            raise Malformed(
                f"<{element.parent_name}> has <{element.name}> inside, which Qt Linguist refuses; "
                "write < as &lt;",
                line=file.line(element),
            )
        if element.name in COMMENT_NAMES and has_letters(file.content(element)):
            file.leave(file.content(element), COMMENTS)
        elif element.name == "message":
            source = element.child("source")
            if source is not None:
                add_message(Message(element, source, file), retranslate)
    return file


def add_message(message: Message, retranslate: bool) -> None:
    """Add the field of a message, unless it has a finished translation."""
    file = message.file
    raw = file.content(message.source)
    written = ""
    state = "unfinished"
    variants: list[Element] = []
    translation = message.element.child("translation")
    if translation:
        written = file.content(translation)
        state = translation.attributes.get("type", "")
        variants = translation.children
    if state in ("obsolete", "vanished"):
        file.leave(f"{raw}\n{written}", OBSOLETE)
        return

    # A message with numbers has a form for each number of the target language; without any, it
    # gets two.
    forms = [file.content(variant) for variant in variants if variant.name == "numerusform"]
    if not forms and message.element.attributes.get("numerus") == "yes":
        forms = ["", ""]
    message.count = len(forms)
    forms = forms or [written]

    has_lengths = any(variant.name == "lengthvariant" for variant in variants)
    is_copy = {form.strip() for form in forms} <= {raw.strip()}
    is_full = all(form.strip() for form in forms)
    is_done = state != "unfinished" and is_full and not is_copy
    if has_lengths or (is_done and not retranslate):
        file.leave(f"{raw}\n{written}", TRANSLATED)
        return
    parts = message_parts(text_of(raw))
    file.fields.append(Field(parts, message.save, mark=message.mark))

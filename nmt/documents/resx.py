"""Resources of .NET (RESX): the texts among its values; every other byte stays."""

from __future__ import annotations

from functools import partial

from nmt.documents.segment import COMMENTS, MARKED, Document, Field, Malformed
from nmt.documents.stores import message_parts
from nmt.documents.xml_content import (
    CDATA,
    Element,
    XmlFile,
    add_sections,
    in_cdata,
    leave_content,
    parse,
    unescape,
)


def read_resx(data: bytes, _: bool) -> Document:
    file = parse(data)
    document = Document([], file.serialize)
    for element in file.elements:
        if element.name == "value" and is_text(element.parent):
            if "<" in CDATA.sub("", file.content(element)):
                raise Malformed(
                    "<value> has a tag or a comment inside, which programs do not read; write < as "
                    "&lt;",
                    line=file.line(element),
                )
            add_sections(file, document, element, partial(message_field, file=file))
        elif element.name == "comment":
            leave_content(file, document, element, COMMENTS)
        else:
            leave_content(file, document, element, MARKED)
    return document


def is_text(entry: Element | None) -> bool:
    """Whether an element is a <data> with a text, and not with a value of another type."""
    if entry is None or entry.name != "data" or "mimetype" in entry.attributes:
        return False
    # What a designer of windows stores about their parts, such as >>button.Type.
    if entry.attributes.get("name", "").startswith(">>"):
        return False
    return entry.attributes.get("type", "System.String").startswith("System.String")


def message_field(raw: str, start: int, is_cdata: bool, file: XmlFile) -> Field:
    """The field of a text as it is written at `start`."""
    end = start + len(raw.encode())

    def save(new: str) -> None:
        file.replace(start, end, in_cdata(new) if is_cdata else file.escape(new))

    return Field(message_parts(raw if is_cdata else unescape(raw)), save)

"""Resources of .NET (RESX): the texts among its values; every other byte stays."""

from __future__ import annotations

from functools import partial

from nmt.documents.segment import COMMENTS, MARKED, Document, Field
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
        if (
            element.parent
            and element.parent_name == "data"
            and element.name == "value"
            and is_text(element.parent)
        ):
            add_value(file, document, element)
        else:
            leave_content(
                file, document, element, COMMENTS if element.name == "comment" else MARKED
            )
    return document


def is_text(entry: Element) -> bool:
    """Whether a <data> of RESX is text: of no other type, and not about a part of a window
    (>>button.Type)."""
    is_string = entry.attributes.get("type", "System.String").startswith("System.String")
    return (
        is_string
        and "mimetype" not in entry.attributes
        and not entry.attributes.get("name", "").startswith(">>")
    )


def add_value(file: XmlFile, document: Document, element: Element) -> None:
    raw = file.content(element)
    if CDATA.search(raw) or element.children:
        add_sections(file, document, element, partial(message_field, file=file))
    else:
        document.fields.append(message_field(raw, element.start, False, file))


def message_field(raw: str, start: int, is_cdata: bool, file: XmlFile) -> Field:
    """The field of a text as it is written at `start`."""
    end = start + len(raw.encode())

    def save(new: str) -> None:
        file.replace(start, end, in_cdata(new) if is_cdata else file.escape(new))

    return Field(message_parts(raw if is_cdata else unescape(raw)), save)

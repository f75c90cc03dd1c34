"""Resources of .NET (RESX): the texts among its values; every other byte stays."""

from nmt.documents.messages import value_parts
from nmt.documents.segment import COMMENTS, MARKED, Document, Field, Malformed
from nmt.documents.xml_content import (
    CDATA,
    Element,
    Replace,
    XmlFile,
    add_sections,
    parse,
    unescape,
)


def read_resx(data: bytes) -> Document:
    file = parse(data)
    for element in file.elements:
        if element.name == "value" and is_text(element.parent):
            if "<" in CDATA.sub("", file.content(element)):
                raise Malformed(
                    "<value> has a tag or a comment inside, which programs do not read; write < as "
                    "&lt;",
                    line=file.line(element),
                )
            add_sections(file, element, message_field)
        else:
            file.leave_content(element, COMMENTS if element.name == "comment" else MARKED)
    return file


def is_text(entry: Element | None) -> bool:
    """Whether an element is a <data> with a text, and not with a value of another type."""
    if entry is None or entry.name != "data" or "mimetype" in entry.attributes:
        return False
    # What a designer of windows stores about their parts, such as >>button.Type.
    if entry.attributes.get("name", "").startswith(">>"):
        return False
    return entry.attributes.get("type", "System.String").startswith("System.String")


def message_field(file: XmlFile, raw: str, is_cdata: bool, replace: Replace) -> Field:
    """The field of a text as it is written."""
    parts = value_parts(raw if is_cdata else unescape(raw))
    return Field(parts, lambda new: replace(file.escape(new, is_cdata)))

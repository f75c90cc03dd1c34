"""OpenDocument texts, sheets and presentations: packages of XML files whose texts stand among their
markup.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

from nmt.documents.limits import PROTECTED
from nmt.documents.packages import Package, count_parts, leave_rest, outside_reasons
from nmt.documents.segment import Document, Malformed, has_letters
from nmt.documents.spreadsheets import NAMED, RESULTS, SHEETS, quoted
from nmt.documents.xml_files import (
    DEEPEST_PAIR,
    Item,
    Kind,
    TreeInline,
    attributes,
    has_text,
    local,
    plain_field,
)

NAME = "OpenDocument file"
MEMBERS = r"(.*/)?(content|styles)\.xml|meta\.xml"
PARAGRAPHS = {"p", "h", "index-title-template", "header-decl", "footer-decl"}
PAIRS = {"span": "", "a": "", "meta": "", "meta-field": "", "ruby": "ruby-base"}
BREAKS = {"line-break", "tab"}
SIDES = {"start": Kind.OPEN, "end": Kind.CLOSE}  # the end of a name: of a bookmark, of a change
DELETED = "deleted text"
FIELDS = "fields"
VALUES = "values of cells"
FORMULAS = "formulas"
RUBY = "ruby"
# Elements whose text is not translated, and why; "": it is no text.
REASONS = {
    "tracked-changes": DELETED,
    "ruby-text": RUBY,
    "math": FORMULAS,
    **dict.fromkeys(
        ("number-style", "date-style", "time-style", "currency-style", "percentage-style"),
        "formats",
    ),
    **dict.fromkeys(("boolean-style", "text-style"), "formats"),
    **dict.fromkeys(
        ("creator", "date", "generator", "initial-creator", "creation-date", "print-date"), ""
    ),
    **dict.fromkeys(
        ("printed-by", "editing-cycles", "editing-duration", "language", "user-defined"), ""
    ),
    **dict.fromkeys(("config-item", "sender-initials", "date-string", "binary-data"), ""),
}
# of the whole document
PLAIN = {("meta", name) for name in ("title", "description", "subject", "keyword")}
# Of a drawing, for those who do not see it; of an input rule.
PLAIN_ANYWHERE = {"desc", "title"}


def read_odf(data: bytes, _: bool) -> Document:
    package = Package(data)
    if "content.xml" not in package.files:
        raise Malformed(f"this is no {NAME}: the archive has no content.xml")
    manifest = package.files.get("META-INF/manifest.xml", b"")
    if b"encryption-data" in manifest:
        raise Malformed(PROTECTED)
    for name in package.named(MEMBERS):
        read_part(package, name, package.tree(name))
    package.leave_embedded(r".*\.(docx|xlsx|pptx|odt|ods|odp|bin)")
    return package.document


def read_part(package: Package, name: str, root: Any) -> None:
    named: set[str] = set()
    for element in root.iter("{*}*"):
        found = attributes(element)
        named.update(
            quoted(found.get("formula", "")), quoted(found.get("condition", "").replace(";", ","))
        )
        if (
            local(element) == "table"
            and found.get("name")
            and "spreadsheet" in map(local, element.iterancestors())
        ):
            package.document.leave(found["name"], SHEETS)
    taken: set[Any] = set()
    reason = partial(reason_of, named)
    for element in outside_reasons(root, reason):
        own = local(element)
        if own in PARAGRAPHS:
            inline = OdfInline(package.document, taken)
            items = inline.items(element)
            if has_text(items):
                package.add(name, inline.field(items, partial(fill_paragraph, inline, element)))
        elif is_plain(element) and (element.text or "").strip() and len(element) == 0:
            taken.add(element)
            package.add(
                name, plain_field(element.text, partial(setattr, element, "text"), is_line=False)
            )
    leave_rest(package.document, root, reason, taken)


def is_plain(element: Any) -> bool:
    name = local(element)
    parent = local(element.getparent()) if element.getparent() is not None else ""
    return (parent, name) in PLAIN or (name in PLAIN_ANYWHERE and "svg" in element.tag)


def reason_of(named: set[str], element: Any) -> str | None:
    name = local(element)
    if name == "date" and "text:1.0" in element.tag:
        return FIELDS
    if name in REASONS:
        return REASONS[name]
    if name != "table-cell":
        return None
    found = attributes(element)
    if "formula" in found:
        return RESULTS
    if found.get("value-type", "string") != "string":
        return VALUES
    text = "\n".join("".join(each.itertext()) for each in element.iterfind("{*}p"))
    return NAMED if text and text in named else None


def fill_paragraph(inline: OdfInline, paragraph: Any, new: Any) -> None:
    """Give a paragraph its translation, and its cell, where that states its text once more, the
    same.
    """
    inline.fill(paragraph, new)
    cell = paragraph.getparent()
    stated = (
        next((name for name in cell.attrib if name.endswith("}string-value")), None)
        if cell is not None
        else None
    )
    if stated:
        cell.set(stated, "\n".join("".join(each.itertext()) for each in cell.iterfind("{*}p")))


class OdfInline(TreeInline):
    """The elements inside a paragraph; `taken`: those whose own texts are in fields."""

    def __init__(self, document: Document, taken: set[Any]) -> None:
        super().__init__()
        self.document = document
        self.taken = taken

    def items(self, element: Any, depth: int = 0) -> list[Item]:
        self.taken.add(element)
        found = [Item(Kind.TEXT, text=element.text)] if element.text else []
        for child in element:
            if local(child) == "s":
                found += spaces(child, found, depth)
            else:
                found.append(self.item(child, depth))
            if child.tail:
                found.append(Item(Kind.TEXT, text=child.tail))
        return found

    def item(self, child: Any, depth: int) -> Item:
        name = local(child)
        if name in PAIRS and depth < DEEPEST_PAIR:
            holder = self.holder(child)
            items = self.items(holder, depth + 1) if holder is not None else []
            if has_text(items):
                return Item(Kind.PAIR, child, items=items)
        if name in BREAKS:
            return Item(Kind.BREAK, child)
        of, _, side = name.rpartition("-")
        if of and side in SIDES:
            about = attributes(child)
            number = about.get("change-id") or about.get("id") or about.get("name") or ""
            return Item(SIDES[side], child, name=f"{of} {number}")
        if not name or not (child.text or "").strip():
            return Item(Kind.POINT, child)
        if len(child) == 0 and reason_of(set(), child) is None and has_letters(child.text):
            self.taken.add(child)
            self.document.leave(child.text, FIELDS)
        return Item(Kind.UNIT, child)

    def holder(self, element: Any) -> Any:
        inside = PAIRS.get(local(element), "")
        return element.find(f"{{*}}{inside}") if inside else element


def spaces(element: Any, before: list[Item], depth: int) -> list[Item]:
    """<text:s/>: a space of the sentence where there is none before it; other spaces are kept as
    they are.
    """
    if ends_with_space(before, depth):
        return [Item(Kind.POINT, element)]
    space = Item(Kind.TEXT, text=" ")
    number = attributes(element).get("c", "1")[:6]
    if not number.isdecimal() or int(number) < 2:
        return [space]
    others = element.makeelement(
        element.tag, {name: str(int(number) - 1) for name in element.attrib}
    )
    return [space, Item(Kind.POINT, others)]


def ends_with_space(items: list[Item], depth: int) -> bool:
    """Whether a space stands at the end of these items, or a line begins there."""
    for item in reversed(items):
        if item.kind == Kind.TEXT:
            return item.text[-1:].isspace()
        if item.kind == Kind.PAIR:
            return ends_with_space(item.items, depth + 1)
        if item.kind == Kind.BREAK or local(item.thing) == "s":
            return True
        if item.kind == Kind.UNIT:
            return False
    return depth == 0


# A space may become one of the text.
UNCOUNTED = {"s"}


def count_odf(data: bytes) -> Counter[str]:
    return count_parts(data, MEMBERS, UNCOUNTED, set(), PARAGRAPHS, set())

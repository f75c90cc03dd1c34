"""OpenDocument: packages of XML files in which the text stands among its markup."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any

from nmt.corpus.words import has_letters
from nmt.documents.limits import PROTECTED
from nmt.documents.packages import Package, count_parts, leave_rest, outside_reasons
from nmt.documents.segment import RUBY, Document, Kind, Malformed
from nmt.documents.spreadsheets import NAMED, RESULTS, SHEETS, quoted
from nmt.documents.xml_files import (
    DEEPEST_PAIR,
    Item,
    TreeInline,
    attributes,
    has_characters,
    has_text,
    local,
)

MEMBERS = r"(.*/)?(content|styles)\.xml|meta\.xml"
PARAGRAPHS = {"p", "h", "index-title-template", "header-decl", "footer-decl"}
FILTERS = {"filter-condition", "filter-set-item"}
PAIRS = {"span": "", "a": "", "meta": "", "meta-field": "", "ruby": "ruby-base"}
BREAKS = {"line-break": Kind.BREAK, "tab": Kind.SEPARATOR}
SIDES = {"start": Kind.OPEN, "end": Kind.CLOSE}  # the end of a name: of a bookmark, of a change
DELETED = "deleted text"
FIELDS = "fields"
VALUES = "values of cells"
FORMULAS = "formulas"
FORMATS = "formats"
# Elements whose text is not translated, and why.
REASONS = {
    "tracked-changes": DELETED,
    "ruby-text": RUBY,
    "math": FORMULAS,
    **dict.fromkeys(
        "number-style date-style time-style currency-style percentage-style boolean-style "
        "text-style".split(),
        FORMATS,
    ),
}
# Elements whose content is no text at all.
NO_TEXT = {
    *"creator date generator initial-creator creation-date print-date printed-by".split(),
    *"editing-cycles editing-duration language user-defined".split(),
    *"config-item sender-initials date-string binary-data".split(),
}
# Properties of the whole document.
TEXT_PROPERTIES = {"title", "description", "subject", "keyword"}
# What a drawing says to those who do not see it, and the title of an input rule.
DESCRIPTIONS = {"desc", "title"}


def read_odf(data: bytes) -> Document:
    package = Package(data)
    manifest = package.files.get("META-INF/manifest.xml", b"")
    if b"encryption-data" in manifest:
        raise Malformed(PROTECTED)
    if "content.xml" not in package.files:
        raise Malformed("this is no OpenDocument file: the archive has no content.xml")
    for name in package.named(MEMBERS):
        read_part(package, name, package.tree(name))
    package.leave_embedded(r".*\.(docx|xlsx|pptx|odt|ods|odp|bin)")
    return package.document


def read_part(package: Package, name: str, root: Any) -> None:
    """Add the fields of one file to its package, and count the texts that are in none."""
    named = named_texts(root)
    for table in root.iterfind(".//{*}spreadsheet//{*}table"):
        name_of_sheet = attributes(table).get("name")
        if name_of_sheet:  # formulas refer to it
            package.document.leave(name_of_sheet, SHEETS)
    taken: set[Any] = set()  # elements whose own texts are in fields
    reason = partial(reason_of, named)
    for element in outside_reasons(root, reason):
        if local(element) in PARAGRAPHS:
            inline = OdfInline(package.document, taken)
            items = inline.items(element)
            if has_text(items):
                fill = partial(fill_paragraph, inline, element)
                package.add(name, inline.make_field(items, fill))
            continue
        is_property = local(element) in TEXT_PROPERTIES and local(element.getparent()) == "meta"
        is_description = local(element) in DESCRIPTIONS and "svg" in element.tag
        has_own_text = bool((element.text or "").strip()) and len(element) == 0
        if (is_property or is_description) and has_own_text:
            taken.add(element)
            package.add_text(name, element)
    leave_rest(package.document, root, reason, taken)


def named_texts(root: Any) -> set[str]:
    """The texts that formulas, filters and conditions compare with, in small letters."""
    named: set[str] = set()
    for element in root.iter("{*}*"):
        values = attributes(element)
        named |= quoted(values.get("formula", ""))
        named |= quoted(values.get("condition", "").replace(";", ","))
        if local(element) == "condition":
            named |= quoted(values.get("value", ""))
        elif local(element) in FILTERS:
            named.add(values.get("value", "").casefold())
    return named


def reason_of(named: set[str], element: Any) -> str | None:
    """Why the text of an element is not translated; `named`: the texts in formulas."""
    name = local(element)
    if name == "date" and "text:1.0" in element.tag:
        return FIELDS
    if name in NO_TEXT:
        return ""
    if name in REASONS:
        return REASONS[name]
    if name != "table-cell":
        return None
    values = attributes(element)
    if "formula" in values:
        return RESULTS
    if values.get("value-type", "string") != "string":
        return VALUES
    text = text_of_paragraphs(element)
    return NAMED if text and text.casefold() in named else None


def text_of_paragraphs(cell: Any) -> str:
    return "\n".join("".join(paragraph.itertext()) for paragraph in cell.iterfind("{*}p"))


def fill_paragraph(inline: OdfInline, paragraph: Any, new: Any) -> None:
    """Give a paragraph its translation, also in its cell's attribute, if that repeats the text."""
    inline.fill(paragraph, new)
    cell = paragraph.getparent()
    if cell is None:
        return
    for name in cell.attrib:
        if name.endswith("}string-value"):
            cell.set(name, text_of_paragraphs(cell))
            break


@dataclass
class OdfInline(TreeInline):
    """The elements inside a paragraph."""

    document: Document
    taken: set[Any]  # those whose own texts are in fields

    def items(self, element: Any, depth: int = 0) -> list[Item]:
        self.taken.add(element)
        items: list[Item] = []
        if element.text:
            items.append(Item(Kind.TEXT, text=element.text))
        for child in element:
            if local(child) == "s":
                items += spaces(child, items, depth)
            else:
                items.append(self.item(child, depth))
            if child.tail:
                items.append(Item(Kind.TEXT, text=child.tail))
        return items

    def item(self, child: Any, depth: int) -> Item:
        name = local(child)
        if name in PAIRS and depth < DEEPEST_PAIR:
            holder = self.holder(child)
            if holder is not None:
                items = self.items(holder, depth + 1)
                if has_characters(items):
                    return Item(Kind.PAIR, child, items=items)
        if name in BREAKS:
            return Item(BREAKS[name], child)
        values = attributes(child)
        if name == "annotation" and "name" in values:  # a comment, up to its annotation-end
            return Item(Kind.OPEN, child, name=f"{name} {values['name']}")
        thing, _, side = name.rpartition("-")
        if thing and side in SIDES:
            number = values.get("change-id") or values.get("id") or values.get("name") or ""
            return Item(SIDES[side], child, name=f"{thing} {number}")
        if not (child.text or "").strip() or not name:
            return Item(Kind.POINT, child)
        # A field of the document, such as a page number.
        is_simple = len(child) == 0 and reason_of(set(), child) is None
        if is_simple and has_letters(child.text):
            self.taken.add(child)
            self.document.leave(child.text, FIELDS)
        return Item(Kind.UNIT, child, shown="".join(child.itertext()))

    def holder(self, element: Any) -> Any:
        inside = PAIRS.get(local(element), "")
        return element.find(f"{{*}}{inside}") if inside else element


def spaces(element: Any, before: list[Item], depth: int) -> list[Item]:
    """The items of <text:s/>, which stands for one or more spaces.

    The first one is a space of the sentence, if there is none before it; the others are kept.
    """
    if ends_with_space(before, depth):
        return [Item(Kind.POINT, element)]
    space = Item(Kind.TEXT, text=" ")
    number = attributes(element).get("c", "1")[:6]
    if not number.isdecimal() or int(number) < 2:
        return [space]
    fewer = str(int(number) - 1)
    others = element.makeelement(element.tag, dict.fromkeys(element.attrib, fewer))
    return [space, Item(Kind.POINT, others)]


def ends_with_space(items: list[Item], depth: int) -> bool:
    """Whether a space stands at the end of these items, or a line begins there."""
    for item in reversed(items):
        if item.kind == Kind.TEXT:
            return item.text[-1:].isspace()
        if item.kind == Kind.PAIR:
            return ends_with_space(item.items, depth + 1)
        if item.kind in (Kind.BREAK, Kind.SEPARATOR) or local(item.thing) == "s":
            return True
        if item.kind == Kind.UNIT:
            return False
    return depth == 0


def count_odf(data: bytes) -> Counter[str]:
    remade = {"s"}  # a space may become one of the text
    return count_parts(data, MEMBERS, remade, set(), PARAGRAPHS, set())

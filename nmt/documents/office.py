"""Word, PowerPoint, Excel and InDesign: packages of XML files with paragraphs of runs.

Every XML file of a package is read, whatever it is called: an element with runs is a paragraph.
What is in no paragraph is counted with its reason.
"""

import re
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from nmt.documents.packages import Package, count_parts, leave_rest, outside_reasons
from nmt.documents.runs import COMPUTED, FIELDS, Dialect, RunInline
from nmt.documents.segment import RUBY, Document, Malformed
from nmt.documents.spreadsheets import Workbook
from nmt.documents.xml_files import attributes, has_text, local, plain_field

# Why a text is not translated.
DELETED = "deleted text"
FORMULAS = "formulas"
BOUND = "custom XML"
PROMPTS = "prompts of layouts"
FORMS = "form fields"

WORD = Dialect(
    run="r",
    text="t",
    properties="rPr",
    pairs={
        **dict.fromkeys(
            ("hyperlink", "ins", "moveTo", "smartTag", "customXml", "bdo", "dir", "fldSimple"), ""
        ),
        "sdt": "sdtContent",
        "ruby": "rubyBase",
    },
    breaks={"br", "cr"},
    separators={"tab", "ptab"},
    heads={"pPr", "customXmlPr", "smartTagPr", "fldData"},
    units={"sym"},
    dropped={"proofErr", "lastRenderedPageBreak"},
    signs={"noBreakHyphen": "\u2011", "softHyphen": ""},  # a soft one is of the source's word
)
POWERPOINT = replace(WORD, line_break="_x000B_|\v")
EXCEL = replace(WORD, line_break="_x000[AD]_\n?|\n", has_bare_texts=True)
INDESIGN = Dialect(
    run="CharacterStyleRange",
    text="Content",
    properties="Properties",
    pairs=dict.fromkeys(("HyperlinkTextSource", "XMLElement", "Change"), ""),
    heads={"Properties"},
    ends="Br",
    line_break="[\u2028\u2029]",
    has_bare_texts=True,
)

# Elements whose text is not translated, and why.
REASONS = {
    "del": DELETED,
    "moveFrom": DELETED,
    "oMath": FORMULAS,
    "oMathPara": FORMULAS,
    "rt": RUBY,
    "rPh": RUBY,
    "fld": FIELDS,
}
# Elements whose content is no text at all.
NO_TEXT = {
    # instructions, formulas of cells, numbers and places
    *"instrText delInstrText f formula formula1 formula2 definedName sqref".split(),
    *"calculatedColumnFormula totalsRowFormula formatCode numCache numLit".split(),
    *"align posOffset pctWidth pctHeight pctPosHOffset pctPosVOffset".split(),
    # who made the document, when and with what
    *"author creator lastModifiedBy created modified lastPrinted revision version".split(),
    *"identifier language contentStatus contentType".split(),
    "LockedField",  # of an object
    "Properties",  # of InDesign
}
DOCUMENT_PROPERTIES = "title subject description keywords category".split()
# Elements that have a text and no runs, each after the name of its parent.
PLAIN = {
    # a text in a cell that is in no table of texts; Workbook.reason leaves all other values
    "c/v",
    # names in charts
    *"trendline/name pt/v tx/v lvl/pt txData/v".split(),
    # comments
    *"cm/text threadedComment/text".split(),
    # properties of the document
    *(f"coreProperties/{name}" for name in DOCUMENT_PROPERTIES),
}
# Attributes that a reader sees or hears.
TEXT_ATTRIBUTES = {
    **dict.fromkeys(("docPr", "cNvPr"), ("descr", "title")),
    **dict.fromkeys(("hlinkClick", "hlinkHover", "hyperlink"), ("tooltip",)),
    "textpath": ("string",),  # WordArt
    "lvlText": ("val",),  # of a numbered heading
}
# Attributes of forms with words that programs compare.
FORM_ATTRIBUTES = {
    "listItem": "displayText",
    **dict.fromkeys(("listEntry", "helpText", "statusText", "alias"), "val"),
}
TEXT_PROPERTY = re.compile(f"coreProperties.*({'|'.join(DOCUMENT_PROPERTIES)})")


class OfficeFormat(NamedTuple):
    """One of these formats."""

    name: str
    dialect: Dialect
    members: str  # a pattern of the files with text
    main: str  # a pattern of files; at least one must be there
    main_name: str  # how messages call it


DOCX = OfficeFormat(
    "Word document", WORD, r"word/.*\.xml", r"word/document\d*\.xml", "word/document.xml"
)
PPTX = OfficeFormat(
    "PowerPoint presentation",
    POWERPOINT,
    r"ppt/.*\.xml",
    r"ppt/(presentation|slides/.*)\.xml",
    "ppt/presentation.xml",
)
XLSX = OfficeFormat(
    "Excel workbook", EXCEL, r"xl/.*\.xml", r"xl/(workbook|worksheets/.*)\.xml", "xl/workbook.xml"
)
IDML = OfficeFormat("InDesign file", INDESIGN, r"Stories/.*\.xml", r"Stories/.*\.xml", "Stories")
PROPERTIES = r"docProps/core\.xml"
CUSTOM = r"customXml/item\d*\.xml"
EMBEDDED = r"(.*/)?embeddings/.+|word/.*\.(docx|html?|mht|rtf|txt)"


def read_office(kind: OfficeFormat, data: bytes) -> Document:
    package = Package(data)
    if not package.named(kind.main):
        raise Malformed(f"this is no {kind.name}: the archive has no {kind.main_name}")
    roots = {name: package.tree(name) for name in package.named(f"{kind.members}|{PROPERTIES}")}
    workbook = Workbook(package.document, roots) if kind is XLSX else None
    for name, root in roots.items():
        read_part(package, name, root, kind.dialect, workbook)
    for name in package.named(CUSTOM):  # data that a document is filled from
        with suppress(Malformed):
            leave_rest(package.document, package.tree(name), lambda _: BOUND, set())
    package.leave_embedded(EMBEDDED)
    return package.document


def read_part(
    package: Package, name: str, root: Any, dialect: Dialect, workbook: Workbook | None
) -> None:
    """Add the fields of one file to its package, and count the texts that are in none."""
    document = package.document
    taken: set[Any] = set()  # elements whose own texts are in fields
    looks: dict[Any, Any] = {}
    reason = partial(reason_of, local(root), workbook)
    for element in outside_reasons(root, reason):
        read_attributes(package, name, element)
        parent = element.getparent()
        if is_run(element, dialect):
            # A run in a link belongs to the paragraph around it. A link that this paragraph did
            # not take, because it is too deep, is a paragraph of its own.
            for paragraph in (outermost(parent, dialect), parent):
                if paragraph is None or paragraph in taken or local(paragraph) == dialect.run:
                    continue
                inline = RunInline(dialect, document, reason, taken, looks)
                items, look = inline.items(paragraph)
                if has_text(items):
                    fill = partial(inline.refill, paragraph, plain=look)
                    package.add(name, inline.make_field(items, fill))
        elif f"{local(parent)}/{local(element)}" in PLAIN and (element.text or "").strip():
            taken.add(element)
            package.add_text(name, element)
        elif workbook and local(parent) == "headerFooter":
            taken.add(element)
            package.add(name, workbook.header_field(element))
    leave_rest(document, root, reason, taken, attribute_texts)


def attribute_texts(element: Any) -> list[str]:
    """The texts in the attributes of an element."""
    name = local(element)
    values = attributes(element)
    keys = [*TEXT_ATTRIBUTES.get(name, ()), FORM_ATTRIBUTES.get(name, "")]
    return [values[key] for key in keys if key in values]


def read_attributes(package: Package, file: str, element: Any) -> None:
    """Add a field for each attribute with a text, and count those that are not translated."""
    name = local(element)
    for key, value in element.attrib.items():
        is_text = key.rpartition("}")[2] in TEXT_ATTRIBUTES.get(name, ())
        if is_text and value.strip() and not is_bullet(element):
            package.add(file, plain_field(value, partial(element.set, key), is_line=False))
    if name in FORM_ATTRIBUTES:
        package.document.leave(attributes(element).get(FORM_ATTRIBUTES[name], ""), FORMS)


def is_run(element: Any, dialect: Dialect) -> bool:
    """Whether an element is a run, or a text that needs none around it."""
    if local(element) == dialect.run:
        return True
    is_bare_text = dialect.has_bare_texts and local(element) == dialect.text
    return is_bare_text and local(element.getparent()) != dialect.run


def outermost(element: Any, dialect: Dialect) -> Any:
    """The paragraph of a run, outside of links and the like."""
    inside = {dialect.run, *dialect.pairs, *dialect.pairs.values()} - {""}
    while local(element) in inside:
        element = element.getparent()
    return element


def is_bullet(element: Any) -> bool:
    """Whether an element states the sign before the items of a list.

    The sign may be a letter of a font of signs.
    """
    if local(element) != "lvlText" or element.getparent() is None:
        return False
    style = element.getparent().find("{*}numFmt")
    return style is not None and attributes(style).get("val") == "bullet"


def reason_of(part: str, workbook: Workbook | None, element: Any) -> str | None:
    """Why the text of an element is not translated; `part`: the name of the root element."""
    name = local(element)
    if name in NO_TEXT:
        return ""
    if name in REASONS:
        return REASONS[name]
    # Word
    if name == "fldSimple" and COMPUTED.match(attributes(element).get("instr", "")):
        return FIELDS
    if name == "sdt" and is_bound(element):
        return BOUND
    # PowerPoint
    if name == "sp" and part.endswith(("Layout", "Master")):
        placeholder = element.find("./{*}nvSpPr/{*}nvPr/{*}ph")
        if placeholder is not None:
            return PROMPTS
    # InDesign
    if name in ("TextVariableInstance", "CrossReferenceSource"):
        return FIELDS
    if name == "Change" and element.get("ChangeType") == "DeletedText":
        return DELETED
    return workbook.reason(element) if workbook else None


def is_bound(element: Any) -> bool:
    """Whether Word fills a content control from XML that is not translated."""
    binding = element.find("./{*}sdtPr/{*}dataBinding")
    return binding is not None and not TEXT_PROPERTY.search(attributes(binding).get("xpath", ""))


# Runs, and what is only in them: a translation makes these anew.
REMADE = {
    *"r t proofErr lastRenderedPageBreak noBreakHyphen softHyphen".split(),
    *"CharacterStyleRange Content".split(),
}
LOOKS = {"rPr", "Properties"}
PARAGRAPHS = {"p", "si", "is", "text", "ParagraphStyleRange", "Cell", "v"}


def count_office(kind: OfficeFormat, data: bytes) -> Counter[str]:
    members = f"{kind.members}|{PROPERTIES}|{CUSTOM}"
    return count_parts(data, members, REMADE, LOOKS, PARAGRAPHS, {kind.dialect.text, "v"})

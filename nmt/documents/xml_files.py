"""XLIFF, and packages of XML with paragraphs: Word, PowerPoint, OpenDocument, InDesign.

They are read by lxml, because translate-toolkit neither takes the segments of XLIFF apart nor keeps its inline elements
as they are, and reads no Word. What is inside an element becomes a segment, whose tags are <g3>…</g3> and <x4/> for its
children number 3 and 4; the translation is divided among these again.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable
from copy import deepcopy
from html import escape
from io import BytesIO
from itertools import groupby
from typing import Any, NamedTuple

from nmt.documents.document import Document, Field
from nmt.documents.segment import Malformed, SegmentBuilder, TagKind
from nmt.errors import UserError, install_extra

TRANSLATABLE_STATES = ("new", "needs-translation", "initial")  # of a target that is only a copy of the source
PAIRS = {
    "g",
    "mrk",
    "pc",
}  # of XLIFF: with text inside; those that begin or end something, by the attribute of its name
OPENING, CLOSING = {"bpt": "id", "bx": "id", "sc": "id"}, {"ept": "id", "ex": "id", "ec": "startRef"}
SPACE = "{http://www.w3.org/XML/1998/namespace}space"
Kind = tuple[str | TagKind, str]  # "pair", "unit", or that of a tag, and its name


def etree() -> Any:
    try:
        from lxml import etree
    except ImportError:
        raise UserError(f"XML is read by lxml: {install_extra('documents')}.") from None
    return etree


def parse(data: bytes, name: str = "the file") -> Any:
    """The root element; raises Malformed, and UserError without lxml."""
    parser = etree().XMLParser(resolve_entities=False, no_network=True, strip_cdata=False)
    try:
        root = etree().fromstring(data, parser)
    except etree().XMLSyntaxError as error:
        raise Malformed(f"{name} is no well-formed XML ({error.msg})", line=error.lineno) from None
    about = root.getroottree().docinfo
    if (about.encoding or "utf-8").lower() not in ("utf-8", "utf8", "us-ascii", "ascii"):
        raise Malformed(f"{name} says that its encoding is {about.encoding}; convert it to UTF-8")
    if about.internalDTD is not None and b"<!ENTITY" in data:
        raise Malformed(f"{name} has entities of its own, which is refused")
    return root


def serialize(root: Any) -> bytes:
    tree = root.getroottree()
    standalone = tree.docinfo.standalone or None
    return bytes(etree().tostring(tree, encoding="UTF-8", xml_declaration=True, standalone=standalone))


def local(element: Any) -> str:
    """The name of an element without its namespace; empty for a comment."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


class Mixed:
    """The text and the elements inside an element as a field, and back; `kind_of` says what an element is."""

    def __init__(self, element: Any, kind_of: Callable[[Any], Kind]) -> None:
        self.element, self.kind_of = element, kind_of
        self.builder = SegmentBuilder()
        self.elements: list[Any] = []
        self.read(element)

    def read(self, element: Any) -> None:
        self.builder.add_text(element.text or "")
        for child in element:
            kind, name = self.kind_of(child)
            number = len(self.elements)
            self.elements.append(child)
            if kind == "pair":
                self.builder.add_tag(TagKind.OPEN, [f"<g{number}>"], f"pair {number}")
                self.read(child)
                self.builder.add_tag(TagKind.CLOSE, [f"</g{number}>"], f"pair {number}")
            elif kind == "unit":
                self.builder.add_unit([f"<x{number}/>"])
            elif kind == TagKind.BREAK:
                self.builder.add_break(f"<x{number}/>")
            else:
                self.builder.add_tag(TagKind(kind), [f"<x{number}/>"], name)
            self.builder.add_text(child.tail or "")

    def field(self, done: Callable[[Any], object] = lambda element: None) -> Field:
        """The field; `done` gets the element when it has its translation."""
        first = self.element.text or ""
        last = (self.element[-1].tail if len(self.element) else self.element.text) or ""
        lead, trail = first[: len(first) - len(first.lstrip())], last[len(last.rstrip()) :]

        def save(text: str) -> None:
            self.fill(self.element, parse(f"<text>{text}</text>".encode()))
            done(self.element)

        return Field([lead, self.builder.build("", escape), trail if last.strip() else ""], save)

    def fill(self, element: Any, new: Any) -> None:
        """Put into an element what its translation says."""
        for child in list(element):
            element.remove(child)
        element.text = new.text
        for child in new:
            old = self.elements[int(child.tag[1:])]
            if child.tag.startswith("g"):
                self.fill(old, child)
            old.tail = child.tail
            element.append(old)


def read_xliff(data: bytes, retranslate: bool) -> Document:
    """XLIFF 1.2 and 2: segments without a target get one, marked for review; what is around the root element stays."""
    root = parse(data)
    if local(root) != "xliff":
        raise Malformed(f"an XLIFF file has the root element xliff, not {local(root)[:40]}")
    start = next(re.finditer(rb"<(?:[\w.-]+:)?xliff(?=[\s>])", data))
    newline = b"\r\n" if b"\r\n" in data else b"\n"

    def write() -> bytes:
        body = serialize(root)
        body = body[body.index(start[0]) : body.rindex(b">") + 1].replace(b"\n", newline)
        return data[: start.start()] + body + data[data.rindex(b">") + 1 :]

    document = Document([], write)
    for unit in root.iter("{*}trans-unit", "{*}segment"):
        if "no" in [each.get("translate") for each in (unit, *unit.iterancestors()) if each.get("translate")][:1]:
            document.left['marked translate="no"'] += 1
            continue
        source, target, segmented = (unit.find(f"{{*}}{name}") for name in ("source", "target", "seg-source"))
        state = (target if local(unit) == "trans-unit" and target is not None else unit).get("state")
        for part in [] if source is None else [source] if segmented is None else segments_of(segmented):
            there = target
            if segmented is not None and target is not None:
                there = next((each for each in segments_of(target) if each.get("mid") == part.get("mid")), None)
            done = there is not None and "".join(there.itertext()).strip()
            if done and state not in TRANSLATABLE_STATES and not retranslate:
                document.left["already translated"] += 1
                continue

            def put(translation: Any, unit: Any = unit) -> None:
                target = target_of(unit)
                if local(translation) == "mrk":
                    old = [each for each in segments_of(target) if each.get("mid") == translation.get("mid")]
                    target = old[0] if old else target.makeelement(translation.tag, translation.attrib)
                    if not old:
                        target_of(unit).append(target)
                target.text = translation.text
                target[:] = list(translation)

            document.fields.append(Mixed(deepcopy(part), xliff_kind).field(put))
    return document


def segments_of(element: Any) -> list[Any]:
    """The segments that a tool has marked in a source or target, wherever they are."""
    return list(element.iterfind(".//{*}mrk[@mtype='seg']"))


def xliff_kind(element: Any) -> Kind:
    name = local(element)
    if name in OPENING or name in CLOSING:
        label = element.get("rid") or element.get(OPENING.get(name) or CLOSING[name])
        return (TagKind.OPEN if name in OPENING else TagKind.CLOSE), f"code {label}"
    return ("pair" if name in PAIRS else "unit" if name else TagKind.POINT), ""


def target_of(unit: Any) -> Any:
    """The target of a unit, which is made where there is none, with its new state."""
    source, target, segmented = (unit.find(f"{{*}}{name}") for name in ("source", "target", "seg-source"))
    if target is None:
        before = source if segmented is None else segmented
        target = source.makeelement(source.tag.replace("source", "target"))
        target.tail, before.tail = before.tail, unit.text
        unit.insert(unit.index(before) + 1, target)
        if segmented is not None:
            target.text = segmented.text
            target.extend(deepcopy(each) for each in segmented)
            for each in segments_of(target):
                each.text, each[:] = None, []
    if local(unit) == "segment":
        unit.set("state", "translated")
    else:
        target.set("state", "needs-review-translation")
    return target


class Package(NamedTuple):
    """A format of files that are a ZIP archive of XML: the names of its elements, without prefix."""

    members: str  # a pattern of the files with text
    paragraphs: set[str]
    pairs: set[str]  # inside a paragraph, with text inside
    breaks: set[str] = set()  # they divide the lines of a paragraph
    # Text stands in <run><properties/><text>…</text></run>; without runs in the paragraph and its pairs.
    run: str = ""
    text: str = ""
    properties: str = ""
    ends: str = ""  # it ends a paragraph inside the element of a paragraph


DOCX = Package(
    r"word/(document|header\d*|footer\d*|footnotes|endnotes|comments)\.xml", {"p"},
    {"hyperlink", "ins", "smartTag", "sdt", "sdtContent", "fldSimple"}, {"br", "cr", "tab"}, "r", "t", "rPr",
)  # fmt: skip
PPTX = Package(r"ppt/(slides|notesSlides)/\w+\.xml", {"p"}, set(), {"br"}, "r", "t", "rPr")
ODF = Package(r"(.*/)?(content|styles)\.xml", {"p", "h"}, {"span", "a"}, {"line-break", "tab"})
IDML = Package(
    r"Stories/.*\.xml", {"ParagraphStyleRange"}, set(), set(), "CharacterStyleRange", "Content", "Properties", "Br"
)  # fmt: skip


def read_package(package: Package, data: bytes, _: bool) -> Document:
    try:
        archive = zipfile.ZipFile(BytesIO(data))
        files = {each.filename: archive.read(each) for each in archive.infolist()}
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
        raise Malformed(f"this is no package of XML files ({error})") from None
    roots = {name: parse(files[name], name) for name in files if re.fullmatch(package.members, name)}
    if not roots:
        raise Malformed("the package has no text of this format")
    found = [each for root in roots.values() for each in root.iter() if local(each) in package.paragraphs]
    runs = Runs(package)
    parts = [part for each in found for part in (runs.dissolve(each) if package.run else [each])]
    fields = [Mixed(part, runs.kind_of).field() for part in parts]

    def write() -> bytes:
        if package.run:
            for part in parts:
                runs.restore(part)
        output = BytesIO()
        with zipfile.ZipFile(output, "w") as new:
            for each in archive.infolist():
                text = serialize(roots[each.filename]) if each.filename in roots else files[each.filename]
                new.writestr(each, text)
        return output.getvalue()

    return Document(fields, write)


class Runs:
    """Makes text of the runs of a paragraph: those that look like the longest are plain, others are pairs."""

    def __init__(self, package: Package) -> None:
        self.package = package
        self.looks: dict[str, Any] = {}  # runs without text

    def kind_of(self, element: Any) -> Kind:
        if element.get("look") or (not self.package.run and local(element) in self.package.pairs):
            return "pair", ""
        # The beginning and the end of a field, of a bookmark, of what a comment is about stay in this order.
        for each in (element, *element):
            side = next((value for name, value in each.attrib.items() if name.endswith("}fldCharType")), local(each))
            if match := re.fullmatch(r"(.*?)-?(begin|start|end)", side, re.IGNORECASE):
                about = each.get(each.tag.replace(local(each), "id")) or each.get(each.tag.replace(local(each), "name"))
                return (TagKind.CLOSE if match[2].lower() == "end" else TagKind.OPEN), f"{match[1]} {about}"
        names = {local(element), *(local(child) for child in element if local(element) == self.package.run)}
        return (TagKind.BREAK if names & self.package.breaks else TagKind.POINT), ""

    def dissolve(self, paragraph: Any) -> list[Any]:
        """Put the text of a paragraph into elements `part`: one, or more where something ends a paragraph inside it."""
        children = self.pieces(paragraph)
        texts = [index for index, child in enumerate(children) if self.runs_in(child)]
        if not texts:
            return []
        first, last = texts[0], texts[-1] + 1
        middle, parts = [], []
        for _, group in groupby(children[first:last], lambda child: self.package.ends in map(local, child)):
            middle += (inside := list(group))
            if any(self.runs_in(child) for child in inside):
                parts.append(paragraph.makeelement("part"))
                middle[-len(inside) :] = parts[-1:]
                self.add(parts[-1], inside)
        paragraph[:] = [*children[:first], *middle, *children[last:]]
        return parts

    def pieces(self, parent: Any) -> list[Any]:
        """The elements inside another one; a run has one element beside its properties."""
        pieces = []
        for child in list(parent):
            child.tail = None
            if local(child) not in (self.package.run, "proofErr"):
                pieces.append(child)
                continue
            inside = [each for each in child if local(each) not in (self.package.properties, "lastRenderedPageBreak")]
            for each in inside:
                pieces.append(child.makeelement(child.tag, child.attrib, nsmap=child.nsmap))
                pieces[-1].extend(deepcopy(look) for look in child if local(look) == self.package.properties)
                pieces[-1].append(each)
                each.tail = None
        return pieces

    def runs_in(self, element: Any) -> list[Any]:
        """The runs with text that an element is or, as a pair, contains."""
        if local(element) == self.package.run:
            return [element] if self.text_of(element) is not None else []
        return [run for child in element for run in self.runs_in(child)] if local(element) in self.package.pairs else []

    def text_of(self, run: Any) -> Any:
        return next((each for each in run if local(each) == self.package.text), None)

    def look_of(self, run: Any) -> str:
        """The key of a run without its text, which runs that look the same have in common."""
        run = deepcopy(run)
        text = self.text_of(run)
        text.text = None
        text.attrib.clear()  # xml:space
        for name in [name for name in run.attrib if "rsid" in name]:
            del run.attrib[name]
        key = etree().tostring(run, encoding="unicode")
        self.looks[key] = run
        return str(key)

    def add(self, parent: Any, children: list[Any]) -> None:
        """Put these into a part or a pair as text and elements."""
        runs = [run for child in children for run in self.runs_in(child)]
        plain = self.look_of(max(runs, key=lambda run: len(self.text_of(run).text or "")))
        parent.set("look", plain)
        parent[:] = []
        for child in children:
            last: Any = parent[-1] if len(parent) else None
            if local(child) != self.package.run or not self.runs_in(child):
                if self.runs_in(child):
                    self.add(child, self.pieces(child))
                parent.append(child)
                continue
            look, text = self.look_of(child), self.text_of(child).text or ""
            if look == plain and last is None:
                parent.text = (parent.text or "") + text
            elif look == plain:
                last.tail = (last.tail or "") + text
            elif last is not None and last.tag == "run" and last.get("look") == look and not last.tail:
                last.text += text
            else:
                parent.append(parent.makeelement("run", look=look))
                parent[-1].text = text

    def restore(self, parent: Any) -> None:
        """Make runs of the text in a part or a pair; a part is replaced by them."""
        look = parent.attrib.pop("look")
        inside = self.runs_of(look, parent.text)
        for child in list(parent):
            tail, child.tail = child.tail, None
            if child.tag != "run" and child.get("look"):
                self.restore(child)
            inside += self.runs_of(child.get("look"), "".join(child.itertext())) if child.tag == "run" else [child]
            inside += self.runs_of(look, tail)
        parent.text, parent[:] = None, inside
        if parent.tag == "part":
            paragraph = parent.getparent()
            at = paragraph.index(parent)
            paragraph[at : at + 1] = inside

    def runs_of(self, look: str, text: str | None) -> list[Any]:
        """A run with this look and text; none without text."""
        if not text:
            return []
        run = deepcopy(self.looks[look])
        element = self.text_of(run)
        element.text = text
        if "wordprocessingml" in element.tag:
            element.set(SPACE, "preserve")
        return [run]

"""XLIFF, and packages of XML with paragraphs: Word, PowerPoint, OpenDocument, InDesign.

They are read by lxml, because translate-toolkit neither takes the segments of XLIFF apart nor keeps its inline elements
as they are, and reads no Word. What is inside an element becomes a segment, whose tags are <g3>…</g3> and <x4/> for its
children number 3 and 4; the translation is divided among these again.
"""

from __future__ import annotations

import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from functools import partial
from html import escape
from io import BytesIO
from itertools import count, groupby
from typing import Any, NamedTuple

from nmt.documents.counting import count_xml
from nmt.documents.limits import unpack
from nmt.documents.segment import TRANSLATED, Document, Field, Malformed, SegmentBuilder, TagKind
from nmt.errors import UserError, install_extra

MATCHES = "urn:oasis:names:tc:xliff:matches:2.0"
SPACE = "{http://www.w3.org/XML/1998/namespace}space"


class Dialect(NamedTuple):
    """The names of a format's elements, without prefix."""

    pairs: set[str]  # with text inside
    breaks: set[str] = set()  # they divide the lines of a paragraph
    members: str = ""  # a pattern of the files with text in a package
    paragraphs: set[str] = set()
    # Text stands in <run><properties/><text>…</text></run>; without runs in the paragraph and its pairs.
    run: str = ""
    text: str = ""
    properties: str = ""
    ends: str = ""  # it ends a paragraph inside the element of a paragraph


XLIFF = Dialect({"g", "mrk", "pc"})  # what is no pair is a unit, which has a place in the sentence
ODF = Dialect({"span", "a"}, {"line-break", "tab"}, r"(.*/)?(content|styles)\.xml", {"p", "h"})
DOCX = Dialect(
    {"hyperlink", "ins", "smartTag", "sdt", "sdtContent", "fldSimple"}, {"br", "cr", "tab"},
    r"word/(document|header\d*|footer\d*|footnotes|endnotes|comments)\.xml", {"p"}, "r", "t", "rPr",
)  # fmt: skip
PPTX = Dialect(set(), {"br"}, r"ppt/(slides|notesSlides)/\w+\.xml", {"p"}, "r", "t", "rPr")
IDML = Dialect(
    set(), set(), r"Stories/.*\.xml", {"ParagraphStyleRange"}, "CharacterStyleRange", "Content", "Properties",
    "Br",
)  # fmt: skip
# What begins or ends something, by its name or kind: a field, a bookmark, what a comment is about, a code of XLIFF.
SIDES = re.compile(r"(?i)(?P<of>.*?)-?(?:(?P<open>begin|start)|end)|(?:(?P<code>bpt|bx|sc)|ept|ex|ec)")
TRANSLATABLE_STATES = ("new", "needs-translation", "initial")  # of a target that is only a copy of the source


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
    """Texts and elements as a field, and back."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.builder = SegmentBuilder(escape)
        self.elements: list[Any] = []

    def items(self, element: Any) -> list[Any]:
        return [element.text or "", *(item for child in element for item in (child, child.tail or ""))]

    def fill(self, element: Any, new: Any) -> None:
        element[:] = []
        element.text = new.text
        for child in new:
            old = self.elements[int(child.tag[1:])]
            if child.tag.startswith("g"):
                self.fill(old, child)
            old.tail = child.tail
            element.append(old)

    def field(self, items: Sequence[Any], fill: Callable[[Any], object]) -> Field:
        """These items as a field; `fill` gets an element with their translation."""
        self.read(items)
        lead, trail = (item if isinstance(item, str) else "" for item in (items[0], items[-1]))
        lead, trail = lead[: -len(lead.lstrip()) or None], trail[len(trail.rstrip()) :] if trail.strip() else ""
        parts = [lead, self.builder.build(""), trail]
        return Field(parts, lambda text: fill(parse(f"<text>{text}</text>".encode())))

    def read(self, items: Sequence[Any]) -> None:
        for item in items:
            if isinstance(item, str):
                self.builder.add_text(item)
            else:
                self.add(item)

    def add(self, element: Any) -> None:
        (kind, name), number = self.kind_of(element), len(self.elements)
        self.elements.append(element)
        if kind == "pair":
            self.builder.add_tag(TagKind.OPEN, [f"<g{number}>"], f"pair {number}")
            self.read(self.items(element))
            self.builder.add_tag(TagKind.CLOSE, [f"</g{number}>"], f"pair {number}")
        elif kind == "unit":
            self.builder.add_unit([f"<x{number}/>"])
        elif kind == "BREAK":
            self.builder.add_break(f"<x{number}/>")
        else:
            self.builder.add_tag(TagKind[kind], [f"<x{number}/>"], name)

    def kind_of(self, element: Any) -> tuple[str, str]:
        """Pair, unit or that of a tag, and the name that the tag has in common with its partner."""
        if local(element) in self.dialect.pairs:
            return "pair", ""
        for each in (element, *element):
            names = {name.rpartition("}")[2]: value for name, value in each.attrib.items()}
            if match := SIDES.fullmatch(names.get("fldCharType", local(each))):
                about = next((names[name] for name in ("rid", "startRef", "id", "name") if name in names), "")
                return ("OPEN" if match["open"] or match["code"] else "CLOSE"), f"{match['of']} {about}"
        if {local(element), *map(local, element)} & self.dialect.breaks:
            return "BREAK", ""
        return ("unit" if self.dialect is XLIFF and local(element) else "POINT"), ""


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
        if next((value for each in (unit, *unit.iterancestors()) if (value := each.get("translate"))), "") == "no":
            document.leave("".join(unit.itertext()), 'marked translate="no"')
            continue
        target, segmented, sure = unit.find("{*}target"), unit.find("{*}seg-source"), list[bool]()
        state = (target if local(unit) == "trans-unit" and target is not None else unit).get("state")
        for part in unit.findall("{*}source") if segmented is None else segments_of(segmented):
            there = unit.findall("{*}target") if segmented is None else segments_of(target, part.get("mid"))
            done = any("".join(each.itertext()).strip() for each in there)
            if done and state not in TRANSLATABLE_STATES and not retranslate:
                document.leave("".join(part.itertext()), TRANSLATED)
                continue
            mixed = Mixed(XLIFF)

            def fill(
                new: Any, mixed: Mixed = mixed, unit: Any = unit, part: Any = part, sure: list[bool] = sure
            ) -> None:
                target = target_of(unit)
                sure.append(False)
                if local(part) == "mrk":
                    if not (there := segments_of(target, part.get("mid"))):
                        target.append(target.makeelement(part.tag, part.attrib))
                        there = [target[-1]]
                    target = there[0]
                mixed.fill(target, new)

            field = mixed.field(mixed.items(deepcopy(part)), fill)
            document.fields.append(
                field._replace(suggest=partial(add_match, unit, part), mark=partial(mark_state, unit, sure))
            )
    return document


def count_xliff(data: bytes) -> Counter[str]:
    return count_xml(parse(data))


def mark_state(unit: Any, sure: list[bool], words: list[str]) -> None:
    """Whether a unit needs review, one that has unsure words in its last segment or in any before; `sure`: of each."""
    sure[-1] = not words
    if local(unit) == "segment" and words:
        unit.set("subState", "nmt:needs-review")
    elif local(unit) != "segment" and all(sure):
        unit.find("{*}target").set("state", "translated")


def add_match(unit: Any, part: Any, similarity: float, source: str, target: str) -> None:
    """A suggestion for a unit or a segment of it: an alt-trans of XLIFF 1.2, a match of XLIFF 2."""
    quality = f"{100 * similarity:.0f}"
    if local(unit) == "trans-unit":
        place = unit.makeelement(part.tag.replace(local(part), "alt-trans"), {"match-quality": f"{quality}%"})
        if local(part) == "mrk":
            place.set("mid", part.get("mid", ""))
        place.tail, unit[-1].tail = unit[-1].tail, unit.text
        unit.append(place)
    else:
        whole = unit.getparent()
        number = unit.get("id") or next(f"s{n}" for n in count(1) if not whole.xpath(".//*[@id=$id]", id=f"s{n}"))
        unit.set("id", number)
        matches = whole.find(f"{{{MATCHES}}}matches")
        if matches is None:
            matches = whole.makeelement(f"{{{MATCHES}}}matches", nsmap={"mtc": MATCHES})
            matches.tail = whole.text
            whole.insert(0, matches)
        place = unit.makeelement(f"{{{MATCHES}}}match", {"ref": f"#{number}", "matchQuality": quality})
        matches.append(place)
    for name, text in (("source", source), ("target", target)):
        place.append(unit.makeelement(f"{unit.tag.removesuffix(local(unit))}{name}"))
        place[-1].text = text


def segments_of(element: Any, number: str | None = None) -> list[Any]:
    """The segments that a tool has marked in a source or target, wherever they are; all, or those of one number."""
    found = [] if element is None else element.iterfind(".//{*}mrk[@mtype='seg']")
    return [each for each in found if number in (None, each.get("mid"))]


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
    of_state = unit if local(unit) == "segment" else target
    of_state.set("state", "translated" if of_state is unit else "needs-review-translation")
    of_state.attrib.pop("subState", None)
    return target


def read_package(dialect: Dialect, data: bytes, _: bool) -> Document:
    archive, files = unpack(data, "package of XML files")
    roots = {name: parse(files[name], name) for name in files if re.fullmatch(dialect.members, name)}
    if not roots:
        raise Malformed("the package has no text of this format")
    paragraphs = [each for root in roots.values() for each in root.iter() if local(each) in dialect.paragraphs]
    fields = [field for paragraph in paragraphs for field in fields_of(paragraph, dialect)]

    def write() -> bytes:
        output = BytesIO()
        with zipfile.ZipFile(output, "w") as new:
            for each in archive.infolist():
                text = serialize(roots[each.filename]) if each.filename in roots else files[each.filename]
                new.writestr(each, text)
        return output.getvalue()

    return Document(fields, write)


def count_package(dialect: Dialect, data: bytes) -> Counter[str]:
    """The files inside, paragraphs, and those of them that have a text."""
    counts = Counter[str]()
    for name, content in unpack(data, "package of XML files")[1].items():
        counts["files inside"] += 1
        if not re.fullmatch(dialect.members, name):
            continue
        for element in parse(content, name).iter():
            if local(element) in dialect.paragraphs:
                counts["paragraphs"] += 1
                counts["paragraphs with a text"] += bool("".join(element.itertext()).strip())
    return counts


def fields_of(paragraph: Any, dialect: Dialect) -> Iterator[Field]:
    """The fields of a paragraph: one; of one of runs more where something ends a paragraph inside it."""
    if not dialect.run:
        mixed = Mixed(dialect)
        yield mixed.field(mixed.items(paragraph), partial(mixed.fill, paragraph))
        return
    for _, group in groupby(pieces_of(paragraph, dialect), lambda piece: dialect.ends in map(local, piece)):
        pieces = list(group)
        texts = [index for index, piece in enumerate(pieces) if runs_in(piece, dialect)]
        if texts:
            part, runs = pieces[texts[0] : texts[-1] + 1], MixedRuns(dialect)

            def fill(new: Any, runs: MixedRuns = runs, part: list[Any] = part) -> None:
                first = paragraph.index(part[0])
                paragraph[first : first + len(part)] = runs.made(new, runs.longest(part))

            yield runs.field(runs.items_of(part), fill)


def pieces_of(parent: Any, dialect: Dialect) -> list[Any]:
    """The elements inside another one, in which each run is divided: it has one element beside its properties."""
    pieces = []
    for child in list(parent):
        if local(child) != dialect.run:
            pieces += [child] if local(child) != "proofErr" else []
            continue
        looks = [each for each in child if local(each) == dialect.properties]
        for each in [each for each in child if local(each) not in (dialect.properties, "lastRenderedPageBreak")]:
            pieces.append(child.makeelement(child.tag, child.attrib, nsmap=child.nsmap))
            pieces[-1].extend([*map(deepcopy, looks), each])
            each.tail = None
    for piece in pieces:
        piece.tail = None
    parent[:] = pieces
    return pieces


def text_of(run: Any, dialect: Dialect) -> Any:
    """The element with the text of a run; None in another one, and in what is no run."""
    return next((each for each in run if local(each) == dialect.text), None) if local(run) == dialect.run else None


def runs_in(element: Any, dialect: Dialect) -> list[Any]:
    """The runs with text that an element is or, as a pair, contains."""
    if text_of(element, dialect) is not None:
        return [element]
    return [run for child in element for run in runs_in(child, dialect)] if local(element) in dialect.pairs else []


class MixedRuns(Mixed):
    """Text in runs: those that look like the longest are plain, others are pairs."""

    def items(self, element: Any) -> list[Any]:
        text = text_of(element, self.dialect)
        return self.items_of(pieces_of(element, self.dialect)) if text is None else [text.text or ""]

    def items_of(self, pieces: Sequence[Any]) -> list[Any]:
        """Neighbours that look the same are one text or run."""
        items, plain = [], self.look_of(self.longest(pieces))
        for look, group in groupby(pieces, self.look_of):
            runs = list(group)
            if not look:
                items += runs
                continue
            text = "".join(text_of(run, self.dialect).text or "" for run in runs)
            items += [text] if look == plain else self.with_text(runs[0], text)
        return items

    def kind_of(self, element: Any) -> tuple[str, str]:
        return ("pair", "") if text_of(element, self.dialect) is not None else super().kind_of(element)

    def longest(self, pieces: Sequence[Any]) -> Any:
        """The run with the most text; None without text."""
        runs = [run for piece in pieces for run in runs_in(piece, self.dialect)]
        return max(runs, key=lambda run: len(text_of(run, self.dialect).text or ""), default=None)

    def look_of(self, run: Any) -> str:
        """What a run is without its text; empty without a text."""
        if run is None or text_of(run, self.dialect) is None:
            return ""
        looks = [str(etree().tostring(each, encoding="unicode")) for each in run if local(each) != self.dialect.text]
        return str([*looks, *((name, value) for name, value in run.attrib.items() if "rsid" not in name)]) + run.tag

    def made(self, new: Any, plain: Any) -> list[Any]:
        """The runs and elements of a translation; `plain`: a run for the text outside of other runs."""
        elements = self.with_text(plain, new.text)
        for child in new:
            old = self.elements[int(child.tag[1:])]
            if text_of(old, self.dialect) is not None:
                elements += self.with_text(old, "".join(child.itertext()))
            else:
                if child.tag.startswith("g"):
                    old[:] = self.made(child, self.longest(old))
                elements.append(old)
            elements += self.with_text(plain, child.tail)
        return elements

    def with_text(self, run: Any, text: str | None) -> list[Any]:
        """A run that looks like this one with another text; none without text."""
        if not text:
            return []
        run = deepcopy(run)
        element = text_of(run, self.dialect)
        element.text = text
        if "wordprocessingml" in element.tag:
            element.set(SPACE, "preserve")
        return [run]

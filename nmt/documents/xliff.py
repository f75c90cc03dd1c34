"""XLIFF 1.2 and 2: units without a translation get one, and all else stays."""

import logging
import re
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import count, pairwise
from typing import Any

from nmt.corpus.translation_memory import GETTEXT_HEADER, XML_LANG
from nmt.documents.counting import count_xml
from nmt.documents.html import Token, shown_text, tokens
from nmt.documents.messages import BLOCKS
from nmt.documents.segment import (
    MARKED,
    PROTECTED,
    TRANSLATED,
    Document,
    Kind,
    Malformed,
    Stated,
    check_encoding,
)
from nmt.documents.xml_files import (
    DEEPEST_PAIR,
    Item,
    TreeInline,
    declared_encoding,
    escaped_part,
    local,
    parse,
    serialize,
)

log = logging.getLogger("nmt")

MATCHES = "urn:oasis:names:tc:xliff:matches:2.0"
PAIRS = {"g", "mrk", "pc"}  # with text of the sentence inside
# Elements that begin or end something.
SIDES = {
    "bpt": Kind.OPEN,
    "bx": Kind.OPEN,
    "sc": Kind.OPEN,
    "sm": Kind.OPEN,
    "ept": Kind.CLOSE,
    "ex": Kind.CLOSE,
    "ec": Kind.CLOSE,
    "em": Kind.CLOSE,
}
PARTNER = ("rid", "startRef", "id")  # one of these attributes is the same on both sides
# Half of a pair whose other half is in another unit; a character that XML cannot have.
POINTS = {"it", "cp"}
PROTECTED_TYPES = {"protected", "x-its-translate-no"}  # types of <mrk>
APPROVED = {"final", "signed-off", "reviewed"}  # states of a target, by a person
UNFINISHED = re.compile("new|initial|needs-.*")  # states of a target that is to be replaced
XCODE_TYPE = re.compile(r"NSStringFormat(?:Spec|Value)TypeKey")  # in the id of a unit: a number's
BESIDE = "outside segments"
HEADERS = "headers of gettext"
# Attributes with a language, of XLIFF 1.2 and 2, and whether it is that of the translations
LANGUAGES = {
    "source-language": False,
    "target-language": True,
    "srcLang": False,
    "trgLang": True,
}
# The marks of a unit and of what is around it; the nearest one, which is the last, counts.
MARKS = "ancestor-or-self::*/@translate[. != '']"
OUTSIDE_SEGMENTS = ".//text()[not(ancestor::*[local-name() = 'mrk' and @mtype = 'seg'])]"
TOO_DEEP = "too deep inside each other"


Number = tuple[str, int]
Segments = dict[Number, Any]


def read_xliff(data: bytes, retranslate: bool) -> Document:
    """Units without a target get one, marked for review; what is around the root element stays."""
    root = parse(data)
    if local(root) != "xliff":
        raise Malformed(f"an XLIFF file has the root element xliff, not {local(root)[:40]}")
    check_encoding(declared_encoding(root))

    def write() -> bytes:
        state_language(root, document.language)
        return serialize(root, data)

    document = Document([], write)
    for element in root.iter("{*}xliff", "{*}file"):
        for name, is_target in LANGUAGES.items():
            document.stated.append(Stated(name, element.get(name, ""), is_target))
    prefix = root.tag.removesuffix("xliff")
    for unit in root.iter(f"{prefix}trans-unit", f"{prefix}segment", f"{prefix}ignorable"):
        for side in unit.iterchildren("{*}source", "{*}target"):
            name = local(side)
            code = side.get(XML_LANG, "")
            document.stated.append(Stated(f"xml:lang of <{name}>", code, name == "target"))
        if local(unit) == "ignorable":
            leave_text(document, unit.findall("{*}source"), BESIDE)
        elif unit.get("restype") == GETTEXT_HEADER:
            leave_text(document, unit.findall("{*}source"), HEADERS)
        elif unit.xpath(MARKS)[-1:] == ["no"]:
            leave_text(document, unit.findall("{*}source"), PROTECTED)
        elif XCODE_TYPE.search(unit.get("id", "")):
            leave_text(document, unit.findall("{*}source"), MARKED)
        else:
            read_unit(document, unit, retranslate)
    return document


def state_language(root: Any, language: str) -> None:
    """Write the language of the translations, if it is known and the file does not state it."""
    language = language.replace("_", "-")
    if root.get("version", "").startswith("2"):
        name = "trgLang"
        elements = [root]
    else:
        name = "target-language"
        elements = root.findall("{*}file")
    for element in elements:
        if element.get(name):
            continue
        if language:
            element.set(name, language)
        elif element is root:
            log.warning(
                "The target language is not known, so trgLang, which XLIFF 2 asks for, is not "
                "written."
            )


def leave_text(document: Document, elements: list[Any], reason: str) -> None:
    for element in elements:
        text = "".join(texts_of(element))
        if text.strip():
            document.leave(text, reason)


def texts_of(element: Any) -> Iterator[str]:
    """The texts of a source without native codes, such as those of <ph>, but with their <sub>s."""
    is_text = local(element) not in (*SIDES, "ph", "it", "x")
    if is_text and element.text:
        yield element.text
    for child in element:
        if isinstance(child.tag, str):
            yield from texts_of(child)
        if is_text and child.tail:
            yield child.tail


def read_unit(document: Document, unit: Any, retranslate: bool) -> None:
    """Add the fields of a trans-unit or segment to a document."""
    source = unit.find("{*}source")
    target = unit.find("{*}target")
    if source is None:
        return
    segmented = unit.find("{*}seg-source")
    parts = numbered_segments(segmented) or {("", 0): source}
    target_parts = numbered_segments(target)
    is_divided = source not in parts.values()
    is_whole = not is_divided or not target_parts  # whether the target is a translation as one
    if target is not None and is_whole and not retranslate:
        if is_translated(unit, target, source, target):
            leave_text(document, [source], TRANSLATED)
            return
    if is_divided:
        leave_beside(document, segmented)
    sure: list[bool] = []  # of each part that was saved: whether it needs no review
    for number, part in parts.items():
        old = target_parts.get(number)
        if old is not None and not retranslate and is_translated(unit, target, part, old):
            leave_text(document, [part], TRANSLATED)
            continue
        inline = XliffInline(document)
        items = inline.items(deepcopy(part))

        def fill(new: Any, inline: XliffInline = inline, number: Number = number) -> None:
            sure.append(False)
            place = target_of(unit)
            if is_divided:
                if not segments_of(place):
                    copy_segments(segmented, place)
                target_parts.update(numbered_segments(place))
                add_missing_segments(parts, target_parts, place)
                keep_sources(parts, target_parts)
                place = target_parts[number]
            inline.fill(place, new)

        field = inline.make_field(items, fill)
        suggest = partial(add_match, unit, part)
        mark = partial(mark_state, unit, sure)
        document.fields.append(field._replace(suggest=suggest, mark=mark))


def leave_beside(document: Document, segmented: Any) -> None:
    """Count what is between the segments of a source."""
    beside = segmented.xpath(OUTSIDE_SEGMENTS)
    if any(map(str.strip, beside)):
        document.leave(" ".join(beside), BESIDE)


def add_missing_segments(parts: Segments, target_parts: Segments, target: Any) -> None:
    """Give a target the segments of its source that it does not have.

    Each is behind the one that is before it in the source, with the spaces between both.
    """
    previous: Number | None = None
    for number, part in parts.items():
        if number not in target_parts:
            new = part.makeelement(part.tag, part.attrib)
            new.tail = part.tail
            if previous is not None:
                before = target_parts[previous]
                before.tail = before.tail or parts[previous].tail
                before.getparent().insert(before.getparent().index(before) + 1, new)
            else:
                following = [target_parts[each] for each in parts if each in target_parts]
                holder = following[0].getparent() if following else target
                holder.insert(holder.index(following[0]) if following else len(holder), new)
            target_parts[number] = new
        previous = number


def keep_sources(parts: Segments, target_parts: Segments) -> None:
    """Give the empty segments of a target the text of their source; some are translated later.

    A tool that joins the segments of a unit would lose it.
    """
    for number, part in parts.items():
        target = target_parts[number]
        if not target.text and not len(target):
            target.text = part.text
            target.extend(deepcopy(child) for child in part)


def numbered_segments(element: Any) -> Segments:
    """The segments of a source or target, by their `mid` and by how many before have the same."""
    counts = Counter[str]()
    numbered: Segments = {}
    for segment in segments_of(element):
        name = segment.get("mid", "")
        numbered[name, counts[name]] = segment
        counts[name] += 1
    return numbered


def is_translated(unit: Any, target: Any, part: Any, old: Any) -> bool:
    """Whether `old` is a translation of a source, neither a copy of it nor marked as unfinished."""
    text = squeezed(old)
    if not text:
        return False
    state = (unit if local(unit) == "segment" else target).get("state", "")
    if unit.get("approved") == "yes" or state in APPROVED:
        return True
    return not UNFINISHED.fullmatch(state) and text != squeezed(part)


def squeezed(element: Any) -> str:
    return " ".join("".join(element.itertext()).split())


@dataclass
class XliffInline(TreeInline):
    """The inline elements of XLIFF.

    An element that is no pair and begins or ends nothing has a place in the sentence.
    """

    document: Document

    def items(self, element: Any, depth: int = 0) -> list[Item]:
        items = text_items(element.text or "")
        children = iter(list(element))
        for child in children:
            if local(child) == "sm" and child.get("translate") == "no":
                things = self.protected_span(child, children)
                shown = [*texts_of(child)]
                for before, thing in pairwise(things):
                    shown += [before.tail or "", *texts_of(thing)]
                items.append(Item(Kind.UNIT, things, shown="".join(shown)))
                items += text_items(things[-1].tail or "")
            else:
                items.append(self.item(child, depth))
                items += text_items(child.tail or "")
        return items

    def item(self, child: Any, depth: int) -> Item:
        name = local(child)
        if not name:
            return Item(Kind.POINT, child)
        is_protected_mark = name == "mrk" and child.get("mtype") in PROTECTED_TYPES
        reason = ""
        if child.get("translate") == "no" or is_protected_mark:
            reason = PROTECTED
        elif name in PAIRS and depth >= DEEPEST_PAIR:
            reason = TOO_DEEP
        if reason:
            leave_text(self.document, [child], reason)
            return Item(Kind.UNIT, child, shown="".join(texts_of(child)))
        if name in PAIRS:
            return Item(Kind.PAIR, child, items=self.items(child, depth + 1))
        texts = []
        for sub in child.iterfind("{*}sub"):
            texts.append(Item(Kind.PAIR, sub, items=self.items(sub, depth + 1)))
        if name in SIDES:
            is_annotation = name in ("sm", "em")
            number = next((child.get(key) for key in PARTNER if child.get(key)), "")
            return Item(SIDES[name], child, name=f"{is_annotation} {number}", items=texts)
        return Item(Kind.POINT if name in POINTS else Kind.UNIT, child, items=texts)

    def protected_span(self, start: Any, following: Iterator[Any]) -> list[Any]:
        """The elements from <sm translate="no"/> to its <em/>; to the last one if there is none."""
        things = [start]
        for element in following:
            self.document.leave(things[-1].tail or "", PROTECTED)
            leave_text(self.document, [element], PROTECTED)
            things.append(element)
            if local(element) == "em" and element.get("startRef") == start.get("id"):
                break
        return things


def text_items(text: str) -> list[Item]:
    """The items of a text, in which a tool may have written tags as text: <b>, <0>."""
    try:
        return [token_item(text, token) for token in tokens(text)]
    except Malformed:
        return [Item(Kind.TEXT, text=text)]


def token_item(text: str, token: Token) -> Item:
    # The builder finds templates itself, and {{n} dogs}} may be in a message of ICU
    if token.kind == Kind.TEXT or text.startswith("{", token.start):
        return Item(Kind.TEXT, text=text[token.start : token.end])
    shown = shown_text(token.parts)
    parts = [escaped_part(part) for part in token.parts]
    is_between_texts = token.name in BLOCKS and token.kind != Kind.UNIT
    kind = Kind.SEPARATOR if is_between_texts else token.kind
    return Item(kind, name=f"<{token.name}>", parts=parts, shown=shown)


def count_xliff(data: bytes) -> Counter[str]:
    """Elements by their names, and targets with a text; what is in a target may be replaced."""
    root = parse(data)
    with_text = 0
    for target in list(root.iter("{*}target")):
        if local(target.getparent()) in ("trans-unit", "segment"):
            with_text += bool("".join(target.itertext()).strip())
            target[:] = []
            target.text = None
    return count_xml(root, ["source", "target"]) + Counter({"targets with a text": with_text})


def mark_state(unit: Any, sure: list[bool], words: list[str], faults: list[str] | None) -> None:
    """State whether a unit needs review, for this part or for one before.

    A part needs it if it has faults, or unsure words where these were not estimated. `sure`: of
    each part that was saved, whether it needs none.
    """
    sure[-1] = not (words if faults is None else faults)
    if local(unit) == "segment" and not sure[-1]:
        unit.set("subState", "nmt:needs-review")
    elif local(unit) != "segment" and all(sure):
        unit.find("{*}target").set("state", "translated")


def add_match(unit: Any, part: Any, similarity: float, source: str, target: str) -> None:
    """Add a suggestion for a unit or a segment of it."""
    quality = f"{100 * similarity:.0f}"
    if local(unit) == "trans-unit":
        match = new_alternative(unit, part, quality)
    else:
        match = new_match(unit, quality)
    namespace = unit.tag.removesuffix(local(unit))
    for name, text in (("source", source), ("target", target)):
        element = unit.makeelement(f"{namespace}{name}")
        element.text = text
        match.append(element)


def new_alternative(unit: Any, part: Any, quality: str) -> Any:
    """An alt-trans of XLIFF 1.2, at the end of its unit."""
    tag = part.tag.replace(local(part), "alt-trans")
    alternative = unit.makeelement(tag, {"match-quality": f"{quality}%"})
    if local(part) == "mrk":
        alternative.set("mid", part.get("mid", ""))
    alternative.tail = unit[-1].tail
    unit[-1].tail = unit.text
    unit.append(alternative)
    return alternative


def new_match(segment: Any, quality: str) -> Any:
    """A match of XLIFF 2, among those of the segment's unit."""
    unit = segment.getparent()
    unused = (f"s{number}" for number in count(1) if not unit.xpath(f".//*[@id='s{number}']"))
    number = segment.get("id") or next(unused)
    segment.set("id", number)
    matches = unit.find(f"{{{MATCHES}}}matches")
    if matches is None:
        matches = unit.makeelement(f"{{{MATCHES}}}matches", nsmap={"mtc": MATCHES})
        matches.tail = unit.text
        unit.insert(0, matches)
    reference = {"ref": f"#{number}", "matchQuality": quality}
    match = segment.makeelement(f"{{{MATCHES}}}match", reference)
    matches.append(match)
    return match


def segments_of(element: Any) -> list[Any]:
    """The segments that a tool has marked in a source or target, wherever they are."""
    return [] if element is None else element.findall(".//{*}mrk[@mtype='seg']")


def target_of(unit: Any) -> Any:
    """The target of a unit with its new state; it is made if there is none."""
    target = unit.find("{*}target")
    if target is None:
        target = new_target(unit)
    if local(unit) == "segment":
        unit.set("state", "translated")
        unit.attrib.pop("subState", None)
    else:
        if unit.get("approved") == "yes":
            unit.set("approved", "no")
        target.set("state", "needs-review-translation")
        target.attrib.pop("subState", None)
    return target


def new_target(unit: Any) -> Any:
    """An empty target behind the source of a unit."""
    source = unit.find("{*}source")
    segmented = unit.find("{*}seg-source")
    before = source if segmented is None else segmented
    target = source.makeelement(source.tag.replace("source", "target"))
    target.tail = before.tail
    before.tail = unit.text
    unit.insert(unit.index(before) + 1, target)
    return target


def copy_segments(segmented: Any, target: Any) -> None:
    """Give a target the segments of a source without their texts, and nothing else."""
    target.text = segmented.text
    target[:] = [deepcopy(child) for child in segmented]
    for segment in segments_of(target):
        segment.text = None
        segment[:] = []

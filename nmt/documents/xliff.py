"""XLIFF 1.2 and 2: units without a translation get one; notes, other translations and other
namespaces stay.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from functools import partial
from itertools import count
from typing import Any

from nmt.documents.counting import count_xml
from nmt.documents.html import Token, tokens
from nmt.documents.segment import (
    AS_CODE,
    PROTECTED,
    TRANSLATED,
    Document,
    Malformed,
    left_if_letters,
)
from nmt.documents.xml_files import (
    ASCII,
    DEEPEST_PAIR,
    Item,
    Kind,
    TreeInline,
    declared_encoding,
    escape_text,
    local,
    parse,
    rewritten,
    serialize,
)

log = logging.getLogger("nmt")

MATCHES = "urn:oasis:names:tc:xliff:matches:2.0"
PAIRS = {"g", "mrk", "pc"}  # with text of the sentence inside
# Of what begins or ends something: which attribute it has in common with its partner.
SIDES = {
    "bpt": Kind.OPEN,
    "bx": Kind.OPEN,
    "sc": Kind.OPEN,
    "ept": Kind.CLOSE,
    "ex": Kind.CLOSE,
    "ec": Kind.CLOSE,
}
SIDES |= {"sm": Kind.OPEN, "em": Kind.CLOSE}
PARTNER = ("rid", "startRef", "id")
# half of a pair whose other half is in another unit; a character that XML cannot have
POINTS = {"it", "cp"}
PROTECTED_TYPES = {"protected", "x-its-translate-no"}  # types of <mrk>
# States of a target that a person has approved, and of one that still needs a translation or a look
# at it.
APPROVED = {"final", "signed-off", "reviewed"}
UNFINISHED = re.compile("new|initial|needs-.*")
BESIDE = "outside segments"


def read_xliff(data: bytes, retranslate: bool) -> Document:
    """Units without a target get one, marked for review; what is around the root element stays."""
    root = parse(data)
    if local(root) != "xliff":
        raise Malformed(f"an XLIFF file has the root element xliff, not {local(root)[:40]}")
    if declared_encoding(root) not in ("utf-8", "utf8", *ASCII):
        raise Malformed(
            f"the file says that its encoding is {declared_encoding(root)}; convert it to UTF-8"
        )
    is_changed = [False]

    def write() -> bytes:
        if not is_changed[0]:
            return data
        state_language(root, document.language)
        return serialize(root, data)

    document = Document([], write)
    prefix = root.tag.removesuffix("xliff")
    for unit in root.iter(f"{prefix}trans-unit", f"{prefix}segment", f"{prefix}ignorable"):
        if local(unit) == "ignorable":
            leave_text(document, [*unit.findall("{*}source")], BESIDE)
        elif is_marked_no(unit):
            leave_text(document, [*unit.findall("{*}source")], PROTECTED)
        else:
            read_unit(document, unit, retranslate, is_changed)
    return document


def state_language(root: Any, language: str) -> None:
    """Write the language of the translations where the file does not state it and whoever
    translates knows it.
    """
    language = language.replace("_", "-")
    is_second = root.get("version", "").startswith("2")
    name = "trgLang" if is_second else "target-language"
    places = [root] if is_second else root.findall("{*}file")
    missing = [place for place in places if not place.get(name)]
    if missing and is_second and not language:
        log.warning(
            "The target language is not known, so trgLang, which XLIFF 2 asks for, is not written."
        )
    for place in missing:
        if language:
            place.set(name, language)


def is_marked_no(unit: Any) -> bool:
    """Whether a unit, or what is around it, must not be translated; the nearest mark counts."""
    for each in (unit, *unit.iterancestors()):
        if each.get("translate"):
            return bool(each.get("translate") == "no")
    return False


def leave_text(document: Document, elements: list[Any], reason: str) -> None:
    for element in elements:
        text = "".join(texts_of(element))
        if text.strip():
            document.leave(text, reason)


def texts_of(element: Any) -> Iterator[str]:
    """The texts of a source, without native codes such as those of <ph>, but with texts apart in
    them.
    """
    is_text = local(element) not in (*SIDES, "ph", "it", "x")
    if is_text and element.text:
        yield element.text
    for child in element:
        if isinstance(child.tag, str):
            yield from texts_of(child)
        if is_text and child.tail:
            yield child.tail


def read_unit(document: Document, unit: Any, retranslate: bool, is_changed: list[bool]) -> None:
    """Add the fields of a trans-unit or segment to a document."""
    source = unit.find("{*}source")
    target = unit.find("{*}target")
    if source is None:
        return
    segmented = unit.find("{*}seg-source")
    parts = segments_of(segmented) or [source]
    if parts[0] is not source:
        inside = set(parts)
        beside = [
            text
            for text, owner in located_texts(segmented)
            if not inside & {owner, *owner.iterancestors()}
        ]
        if any(map(str.strip, beside)):
            document.leave(" ".join(beside), BESIDE)
    sure: list[bool] = []
    places = segments_by_number(target)
    for part in parts:
        there = [places[part.get("mid")]] if part.get("mid") in places else []
        if part is source:
            there = [] if target is None else [target]
        if not retranslate and is_translated(unit, target, part, there):
            leave_text(document, [part], TRANSLATED)
            continue
        inline = XliffInline(document)
        items = inline.items(deepcopy(part))

        def fill(new: Any, inline: XliffInline = inline, part: Any = part) -> None:
            is_changed[0] = True
            place = target_of(unit)
            sure.append(False)
            if part is not source:
                place = place_of_segment(place, part, places)
            inline.fill(place, new)

        field = inline.field(items, fill)
        suggest = partial(add_match, unit, part, is_changed)
        document.fields.append(
            field._replace(suggest=suggest, mark=partial(mark_state, unit, sure))
        )


def place_of_segment(target: Any, part: Any, places: dict[str | None, Any]) -> Any:
    """The segment of a target for one of the source; `places`: those that are known, by number."""
    number = part.get("mid")
    if number not in places:
        places |= segments_by_number(target)
    if number not in places:
        target.append(target.makeelement(part.tag, part.attrib))
        places[number] = target[-1]
    return places[number]


def segments_by_number(target: Any) -> dict[str | None, Any]:
    return {each.get("mid"): each for each in reversed(segments_of(target))}


def located_texts(element: Any) -> Iterator[tuple[str, Any]]:
    """The text nodes in an element, each with the element in which it stands."""
    for each in element.iter():
        if each.text and isinstance(each.tag, str):
            yield each.text, each
        if each.tail and each is not element:
            yield each.tail, each.getparent()


def is_translated(unit: Any, target: Any, part: Any, there: list[Any]) -> bool:
    """Whether a source has a translation: not a copy of itself, nor one whose state says that it is
    unfinished.
    """
    text = squeezed(there)
    if not text:
        return False
    state = (unit if local(unit) == "segment" else target).get("state", "")
    if unit.get("approved") == "yes" or state in APPROVED:
        return True
    return not UNFINISHED.fullmatch(state) and text != squeezed([part])


def squeezed(elements: list[Any]) -> str:
    return " ".join("".join("".join(each.itertext()) for each in elements).split())


class XliffInline(TreeInline):
    """The inline elements of XLIFF: what is no pair and begins or ends nothing has a place in the
    sentence.
    """

    def __init__(self, document: Document) -> None:
        super().__init__()
        self.document = document

    def items(self, element: Any, depth: int = 0) -> list[Item]:
        found = text_items(element.text or "")
        waiting = iter(list(element))
        for child in waiting:
            if local(child) == "sm" and child.get("translate") == "no":
                item = self.protected_span(child, waiting)
            else:
                item = self.item(child, depth)
            found.append(item)
            last = item.thing[-1] if isinstance(item.thing, list) else item.thing
            found += text_items(last.tail or "")
        return found

    def item(self, child: Any, depth: int) -> Item:
        name = local(child)
        if not name:
            return Item(Kind.POINT, child)
        is_protected = child.get("translate") == "no" or (
            name == "mrk" and child.get("mtype") in PROTECTED_TYPES
        )
        if is_protected or (name in PAIRS and depth >= DEEPEST_PAIR):
            leave_text(
                self.document, [child], PROTECTED if is_protected else "too deep inside each other"
            )
            return Item(Kind.UNIT, child)
        if name in PAIRS:
            return Item(Kind.PAIR, child, items=self.items(child, depth + 1))
        apart = [
            Item(Kind.PAIR, sub, items=self.items(sub, depth + 1))
            for sub in child.iterfind("{*}sub")
        ]
        if name in SIDES:
            about = next((child.get(each) for each in PARTNER if child.get(each)), "")
            return Item(SIDES[name], child, name=f"{name in ('sm', 'em')} {about}", items=apart)
        return Item(Kind.POINT if name in POINTS else Kind.UNIT, child, items=apart)

    def protected_span(self, start: Any, waiting: Iterator[Any]) -> Item:
        """From <sm translate="no"/> to its <em/>, or to the end where it is in another segment."""
        things = [start]
        while not (local(things[-1]) == "em" and things[-1].get("startRef") == start.get("id")):
            following = next(waiting, None)
            if following is None:
                return Item(Kind.UNIT, things)
            self.document.leave(things[-1].tail or "", PROTECTED)
            leave_text(self.document, [following], PROTECTED)
            things.append(following)
        return Item(Kind.UNIT, things)


def text_items(text: str) -> list[Item]:
    """A text, in which a tool may have written tags as text: <b>, <0>."""
    try:
        found = list(tokens(text))
    except Malformed:
        return [Item(Kind.TEXT, text=text)]
    return [token_item(text, token) for token in found]


def token_item(text: str, token: Token) -> Item:
    if token.kind == "text":
        return Item(Kind.TEXT, text=text[token.start : token.end])
    if token.kind == "statement":
        statement = escape_text(text[token.start : token.end])
        return Item(Kind.SEPARATOR, parts=[left_if_letters(statement, AS_CODE)])
    parts = [rewritten(part, escape_text) for part in token.parts]
    return Item(Kind[token.kind.upper()], name=f"<{token.name}>", parts=parts)


def count_xliff(data: bytes) -> Counter[str]:
    """Elements by their names, and targets with a text; what is in a target may be replaced."""
    root = parse(data)
    targets = [
        each
        for each in root.iter("{*}target")
        if local(each.getparent()) in ("trans-unit", "segment")
    ]
    with_text = sum(bool("".join(each.itertext()).strip()) for each in targets)
    for target in targets:
        target[:] = []
        target.text = None
    return count_xml(root) + Counter({"targets with a text": with_text})


def mark_state(unit: Any, sure: list[bool], words: list[str]) -> None:
    """Whether a unit needs review, one that has unsure words in its last segment or in any before;
    `sure`: of each.
    """
    sure[-1] = not words
    if local(unit) == "segment" and words:
        unit.set("subState", "nmt:needs-review")
    elif local(unit) != "segment" and all(sure):
        unit.find("{*}target").set("state", "translated")


def add_match(
    unit: Any, part: Any, is_changed: list[bool], similarity: float, source: str, target: str
) -> None:
    """A suggestion for a unit or a segment of it: an alt-trans of XLIFF 1.2, a match of XLIFF 2."""
    is_changed[0] = True
    quality = f"{100 * similarity:.0f}"
    if local(unit) == "trans-unit":
        place = unit.makeelement(
            part.tag.replace(local(part), "alt-trans"), {"match-quality": f"{quality}%"}
        )
        if local(part) == "mrk":
            place.set("mid", part.get("mid", ""))
        place.tail = unit[-1].tail
        unit[-1].tail = unit.text
        unit.append(place)
    else:
        whole = unit.getparent()
        number = unit.get("id") or next(
            f"s{n}" for n in count(1) if not whole.xpath(".//*[@id=$id]", id=f"s{n}")
        )
        unit.set("id", number)
        matches = whole.find(f"{{{MATCHES}}}matches")
        if matches is None:
            matches = whole.makeelement(f"{{{MATCHES}}}matches", nsmap={"mtc": MATCHES})
            matches.tail = whole.text
            whole.insert(0, matches)
        place = unit.makeelement(
            f"{{{MATCHES}}}match", {"ref": f"#{number}", "matchQuality": quality}
        )
        matches.append(place)
    for name, text in (("source", source), ("target", target)):
        place.append(unit.makeelement(f"{unit.tag.removesuffix(local(unit))}{name}"))
        place[-1].text = text


def segments_of(element: Any) -> list[Any]:
    """The segments that a tool has marked in a source or target, wherever they are."""
    return [] if element is None else element.findall(".//{*}mrk[@mtype='seg']")


def target_of(unit: Any) -> Any:
    """The target of a unit, which is made where there is none, with its new state."""
    source, target, segmented = (
        unit.find(f"{{*}}{name}") for name in ("source", "target", "seg-source")
    )
    if target is None:
        before = source if segmented is None else segmented
        target = source.makeelement(source.tag.replace("source", "target"))
        target.tail = before.tail
        before.tail = unit.text
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

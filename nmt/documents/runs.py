"""Paragraphs whose text stands in runs, as in Word, PowerPoint, Excel and InDesign.

A run is <run><look/><text>…</text></run>, and a program begins a new one wherever it likes. So this
is how a paragraph is read and written:

1. `pieces_of` lists the children of all runs: texts, and things such as a picture.
2. `items` joins texts of the same look. The look that most of the text has is plain; a text of
   another look is a pair of tags around it. Things are points, units, breaks or pairs.
3. `refill` replaces the runs by those of the translation. Each text gets a copy of a run that had
   its look, and each thing gets a run of its own.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

from nmt.documents.packages import Reason
from nmt.documents.segment import Document, Kind
from nmt.documents.xml_files import (
    DEEPEST_PAIR,
    SPACE,
    Inline,
    Item,
    attributes,
    escape_text,
    has_characters,
    local,
)

FIELDS = "fields"
# Fields of Word whose result is no text of the author's: dates, numbers, names of people and files.
COMPUTED = re.compile(
    r"\s*(?:=|(?:DATE|TIME|CREATEDATE|SAVEDATE|PRINTDATE|EDITTIME|PAGE|NUMPAGES|PAGEREF"
    r"|SECTION|SECTIONPAGES|SEQ|"
    r"NUMWORDS|NUMCHARS|REVNUM|AUTHOR|LASTSAVEDBY|USERNAME|USERINITIALS|USERADDRESS"
    r"|FILENAME|FILESIZE|TEMPLATE|"
    r"DOCPROPERTY|DOCVARIABLE|MERGEFIELD|MERGEREC|MERGESEQ|AUTONUM|AUTONUMLGL|AUTONUMOUT|LISTNUM"
    r"|EQ|ADVANCE|SYMBOL|"
    r"BARCODE|NOTEREF|INFO)\b)",
    re.IGNORECASE,
)
# What begins or ends something, by its name: a bookmark, what a comment is about.
SIDES = re.compile(r"(?P<of>.*?)(?:Range)?(?:(?P<open>Begin|Start)|End)")
SAME_LOOK = {"lang", "altLang", "noProof", "dirty", "err", "smtClean"}  # of a spelling checker


@dataclass(frozen=True)
class Dialect:
    """The names of a format's elements, without prefix."""

    run: str
    text: str
    properties: str
    # with text of the sentence inside: where, or "" in themselves
    pairs: dict[str, str] = field(default_factory=dict)
    breaks: Collection[str] = ()  # they divide the lines of a paragraph
    separators: Collection[str] = ()  # texts of their own are on both sides
    heads: Collection[str] = ()  # they stay at the beginning of what they are in
    units: Collection[str] = ()  # they have a place in the sentence, as a symbol has
    dropped: Collection[str] = ()  # marks of a spelling checker or of the last layout
    ends: str = ""  # it ends a paragraph inside the element of a paragraph
    signs: dict[str, str] = field(default_factory=dict)  # elements that are characters
    line_break: str = ""  # a pattern of what divides lines in a text
    has_bare_texts: bool = False  # a text may stand in a paragraph without a run


class Piece(NamedTuple):
    """A child of a run, or of a paragraph itself."""

    run: Any  # None: it is in no run
    child: Any
    text: str | None = None  # of a text
    wrap: Any = None  # the text in which the child, a mark of InDesign, stands


@dataclass
class RunInline(Inline):
    """The items of a paragraph of runs, and the runs of its translation.

    A piece with a text says how other texts of the same look are written.
    """

    dialect: Dialect
    document: Document
    reason: Reason
    taken: set[Any]  # the elements whose texts are in fields or counted
    looks: dict[Any, Any]  # by their runs
    properties: dict[Any, list[Any]] = field(default_factory=dict)  # by their runs

    # ----------------------------------------------------------------------------------------------
    # From runs to items

    def pieces_of(self, holder: Any) -> Iterator[Piece]:
        dialect = self.dialect
        for child in holder:
            name = local(child)
            if name == dialect.run:
                for inner in child:
                    kind = local(inner)
                    if kind == dialect.text:
                        yield from text_pieces(child, inner)
                    elif kind in dialect.signs:
                        yield Piece(child, inner, dialect.signs[kind])
                    elif kind != dialect.properties and not self.is_dropped(inner):
                        yield Piece(child, inner)
            elif name == dialect.text and dialect.has_bare_texts:
                yield from text_pieces(None, child)
            elif name not in dialect.heads and not self.is_dropped(child):
                yield Piece(None, child)

    def is_dropped(self, element: Any) -> bool:
        return local(element) in self.dialect.dropped and len(element) == 0

    def items(self, holder: Any, depth: int = 0) -> tuple[list[Item], Piece | None]:
        """The items in an element, and a piece with the look of its plain text."""
        self.taken.add(holder)
        pieces = list(self.pieces_of(holder))

        # The look that most of the text has is plain
        lengths = Counter[Any]()
        for piece in pieces:
            if piece.text is not None:
                lengths[self.look_of(piece)] += len(piece.text)
        common = max(lengths, key=lengths.__getitem__, default=None)
        with_text = (piece for piece in pieces if piece.text)
        plain = next((piece for piece in with_text if self.look_of(piece) == common), None)

        # Texts of one look that follow each other are one text
        items: list[Item] = []
        look_inside: Piece | None = None
        for group in self.fields_and_pieces(pieces):
            if isinstance(group, Item):
                items.append(group)
                continue
            for look, same in groupby(group, self.look_of):
                if look is None:
                    for piece in same:
                        item, inner = self.item(piece, depth)
                        items.append(item)
                        look_inside = look_inside or inner
                    continue
                texts = list(same)
                self.taken.update(piece.child for piece in texts)
                inside = self.lines("".join(piece.text or "" for piece in texts))
                if look == common:
                    items += inside
                elif inside:
                    items.append(Item(Kind.PAIR, texts[0], items=inside))
        return items, plain or look_inside

    def lines(self, text: str) -> list[Item]:
        """A text and the breaks in it."""
        if not self.dialect.line_break:
            return [Item(Kind.TEXT, text=text)] if text else []
        items = []
        for index, part in enumerate(re.split(f"({self.dialect.line_break})", text)):
            if index % 2:
                items.append(Item(Kind.BREAK, parts=[escape_text(part)]))
            elif part:
                items.append(Item(Kind.TEXT, text=part))
        return items

    def item(self, piece: Piece, depth: int) -> tuple[Item, Piece | None]:
        """The item of a piece without a text of its own, and the look of the text inside it."""
        dialect = self.dialect
        child = piece.child
        name = local(child)
        reason = self.reason(child) if name else None
        if name in dialect.pairs and not reason:
            holder = child
            if dialect.pairs[name]:
                holder = next(child.iterfind(f"{{*}}{dialect.pairs[name]}"), None)
            if holder is not None and depth < DEEPEST_PAIR:
                items, plain = self.items(holder, depth + 1)
                if has_characters(items):
                    return Item(Kind.PAIR, (piece, holder, plain), items=items), plain
        if name in dialect.breaks:
            return Item(Kind.BREAK, [piece]), None
        if name in dialect.separators:
            return Item(Kind.SEPARATOR, [piece]), None
        if name == dialect.ends:
            return Item(Kind.END, [piece]), None
        if name in dialect.units or (reason and name not in ("del", "moveFrom", "rPh")):
            return Item(Kind.UNIT, [piece], shown="".join(child.itertext())), None
        side = SIDES.fullmatch(name)
        if side:
            about = attributes(child).get("id", "")
            kind = Kind.OPEN if side["open"] else Kind.CLOSE
            return Item(kind, [piece], name=f"{side['of']} {about}"), None
        return Item(Kind.POINT, [piece]), None

    def fields_and_pieces(self, pieces: Sequence[Piece]) -> Iterator[Item | list[Piece]]:
        """The pieces, with the fields of Word as items between them.

        A field whose result is computed is a unit. Any other one is a pair of tags around its
        result; its instruction belongs to the first of them.
        """
        fields = find_fields(pieces)
        between: list[Piece] = []  # two fields
        index = 0
        while index < len(pieces):
            piece = pieces[index]
            mark = field_mark(piece)
            if mark not in ("begin", "end"):
                between.append(piece)
                index += 1
                continue
            yield between
            between = []
            if mark == "end":
                yield Item(Kind.CLOSE, [piece], name=f"field {index}")
                index += 1
                continue
            separate, end = fields[index]
            head = list(pieces[index : separate + 1])
            texts = (piece.child.text or "" for piece in head if local(piece.child) == "instrText")
            is_computed = bool(COMPUTED.match("".join(texts)))
            has_no_result = separate == index
            if end is not None and (is_computed or has_no_result):
                whole = list(pieces[index : end + 1])
                shown = self.leave_result(whole)
                yield Item(Kind.UNIT if is_computed else Kind.POINT, whole, shown=shown)
                index = end + 1
            else:
                yield Item(Kind.OPEN, head, name=f"field {end}")
                index = separate + 1
        yield between

    def leave_result(self, pieces: Sequence[Piece]) -> str:
        """Count the result of a field, which is not translated; returns it."""
        texts = [piece for piece in pieces if piece.text is not None]
        self.taken.update(piece.child for piece in texts)
        result = "".join(piece.text or "" for piece in texts)
        if result.strip():
            self.document.leave(result, FIELDS)
        return result

    def look_of(self, piece: Piece) -> Any:
        """What is equal for two texts that look the same; None for what is no text."""
        if piece.text is None:
            return None
        if piece.run is None:
            return "no run"
        if piece.run not in self.looks:
            look: list[Any] = [piece.run.tag]
            for properties in self.properties_of(piece.run):
                for element in properties.iter():
                    if local(element) not in SAME_LOOK:
                        look.append(describe(element))
            for name, value in piece.run.attrib.items():
                if "rsid" not in name:
                    look.append((name, value))
            self.looks[piece.run] = tuple(look)
        return self.looks[piece.run]

    # ----------------------------------------------------------------------------------------------
    # From a translation to runs

    def refill(self, holder: Any, new: Any, plain: Piece | None) -> None:
        """Give an element the runs of a translation behind what stays at its beginning."""
        for child in list(holder):
            if local(child) not in self.dialect.heads:
                holder.remove(child)
        holder.extend(self.made(new, plain))

    def made(self, new: Any, plain: Piece | None) -> list[Any]:
        """The runs of a translation, whose text has the look `plain` outside of pairs."""
        elements = self.with_text(plain, new.text)
        for child in new:
            thing = self.thing(child)
            if isinstance(thing, Piece):
                elements += self.made(child, thing)
            elif child.tag.startswith("g"):
                piece, holder, look = thing
                self.refill(holder, child, look)
                elements.append(self.placed(piece))
            else:
                elements += [self.placed(piece) for piece in thing]
            elements += self.with_text(plain, child.tail)
        return elements

    def placed(self, piece: Piece) -> Any:
        """The element of a piece, in a run of its own where it was in one."""
        child = piece.child
        child.tail = None
        if piece.wrap is not None:
            wrap = shallow(piece.wrap)
            wrap.append(child)
            child = wrap
        if piece.run is None:
            return child
        run = shallow(piece.run)
        run.extend(deepcopy(properties) for properties in self.properties_of(piece.run))
        run.append(child)
        return run

    def properties_of(self, run: Any) -> list[Any]:
        """How a run looks, found once for all that is in it."""
        if run not in self.properties:
            name = self.dialect.properties
            self.properties[run] = [child for child in run if local(child) == name]
        return self.properties[run]

    def with_text(self, look: Piece | None, text: str | None) -> list[Any]:
        """A run that looks like this one with another text; none without text."""
        if not text or look is None:
            return []
        element = shallow(look.child)
        if local(element) in self.dialect.signs:
            element = element.makeelement(element.tag.replace(local(element), self.dialect.text))
        element.text = text
        drops_spaces = "wordprocessingml" in element.tag or "spreadsheetml" in element.tag
        if text != text.strip() and drops_spaces:
            element.set(SPACE, "preserve")
        return [self.placed(Piece(look.run, element))]


def text_pieces(run: Any, element: Any) -> Iterator[Piece]:
    """The text of an element, and the marks of InDesign in it."""
    if any(local(child) for child in element):  # it only has the name of a text
        yield Piece(run, element)
        return
    yield Piece(run, element, element.text or "")
    for mark in element:
        yield Piece(run, mark, None, element)
        yield Piece(run, element, mark.tail or "")


def shallow(element: Any) -> Any:
    """An element like this one without anything inside."""
    return element.makeelement(element.tag, element.attrib, nsmap=element.nsmap)


def describe(element: Any) -> tuple[Any, ...]:
    others = [(name, value) for name, value in element.attrib.items() if name not in SAME_LOOK]
    return (element.tag, element.text, *others)


def field_mark(piece: Piece) -> str:
    """What a piece is of one of Word's fields: begin, separate or end."""
    is_mark = local(piece.child) == "fldChar"
    return attributes(piece.child).get("fldCharType", "") if is_mark else ""


def find_fields(pieces: Sequence[Piece]) -> dict[int, tuple[int, int | None]]:
    """Where the instruction of each field ends and where the field ends, by its beginning.

    The end is None for a field that ends in another paragraph.
    """
    fields: dict[int, tuple[int, int | None]] = {}
    opened: list[int] = []
    for index, piece in enumerate(pieces):
        mark = field_mark(piece)
        if mark == "begin":
            opened.append(index)
            fields[index] = (index, None)
        elif mark == "separate" and opened:
            fields[opened[-1]] = (index, None)
        elif mark == "end" and opened:
            begin = opened.pop()
            fields[begin] = (fields[begin][0], index)
    return fields

"""Emphasis of Markdown and AsciiDoc, written in signs that the format reads as emphasis.

A translation may put it where the signs of its source would be plain characters: 字_强调_字 is no
emphasis, since an underscore begins or ends none inside a word, and Chinese has no spaces.

The readers mark both sides of each pair of signs (`marked`). When the translation is written,
`written_emphasis` gives each pair the first of its forms that the format reads at its place:

- Markdown: its own sign, the other sign of the two, else an element of HTML.
- AsciiDoc: its own sign, which may not touch a word, else the sign twice, which may.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

# No characters; they stand around the signs that begin a pair, and those that end one.
OPENING = "\ufffe"
CLOSING = "\uffff"
SIGNS = re.compile(r"[*_#]+|~~|==")
MARKED = re.compile(
    rf"(?P<mark>[{OPENING}{CLOSING}])(?P<role>\[[^\[\]\n]*\])?(?P<signs>{SIGNS.pattern})(?P=mark)"
)
IN_WORDS = {"Mn", "Mc", "Me", "Pc"}  # of categories, besides letters and digits
OTHER_SIGN = {"*": "_", "_": "*"}
ELEMENTS = {"~~": "del", "==": "mark"}


def marked(raw: str, is_opening: bool) -> str:
    """The signs at one side of a pair, which `written_emphasis` may change."""
    mark = OPENING if is_opening else CLOSING
    return f"{mark}{raw}{mark}"


@dataclass
class Side:
    """The beginning or the end of a pair, or the text between two of these."""

    text: str  # as it is written
    is_opening: bool = False
    is_closing: bool = False
    sign: str = ""  # the character that it consists of; none: it is text or an element


@dataclass
class Pair:
    opening: int  # its place among the sides
    closing: int
    role: str  # of AsciiDoc: [.role]
    signs: str  # of the source
    around: Pair | None
    form: tuple[str, str] = field(default=("", ""))  # how it is written

    def write(self, sides: Sequence[Side], form: tuple[str, str]) -> None:
        self.form = form
        is_element = form[0].startswith("<")
        for index, text in zip((self.opening, self.closing), form, strict=True):
            sides[index].text = text
            sides[index].sign = "" if is_element else form[1][0]
        sides[self.opening].text = self.role + form[0]


Sides = Sequence[Side]
Forms = Callable[[str], list[tuple[str, str]]]


def written_emphasis(text: str, forms_of: Forms, is_read: Callable[[Pair, Sides], bool]) -> str:
    """A text without the marks, its pairs in forms that are read.

    `forms_of`: the forms that signs may have, the best one first; the last one is always read.
    `is_read`: whether the format reads a pair as it is written.
    """
    if OPENING not in text:
        return text
    sides, pairs = find_pairs(text)
    left: dict[int, list[tuple[str, str]]] = {}  # the forms that each pair may still take
    for pair in pairs:
        left[pair.opening] = forms_of(pair.signs)
        pair.write(sides, left[pair.opening].pop(0))

    # Another form of one pair may change what its neighbours are read as
    is_changed = True
    while is_changed:
        is_changed = False
        for pair in pairs:
            while left[pair.opening] and not is_read(pair, sides):
                pair.write(sides, left[pair.opening].pop(0))
                is_changed = True
    return "".join(side.text for side in sides)


def find_pairs(text: str) -> tuple[list[Side], list[Pair]]:
    """The sides and the texts between them, and the pairs, those outside first."""
    sides: list[Side] = []
    pairs: list[Pair] = []
    opened: list[Pair] = []
    position = 0
    for match in MARKED.finditer(text):
        sides.append(Side(text[position : match.start()]))
        position = match.end()
        signs = match["signs"]
        role = match["role"] or ""
        is_opening = match["mark"] == OPENING
        sides.append(Side(role + signs, is_opening, not is_opening, signs[0]))
        if is_opening:
            around = opened[-1] if opened else None
            opened.append(Pair(len(sides) - 1, 0, role, signs, around))
        elif opened and opened[-1].signs == signs:
            pair = opened.pop()
            pair.closing = len(sides) - 1
            pairs.append(pair)
    sides.append(Side(text[position:]))
    return sides, sorted(pairs, key=lambda pair: pair.opening)


def neighbour(sides: Sides, index: int, step: int) -> str:
    """The character before (`step` -1) or after a side; none at the edge of the text.

    Sides of the same sign that touch it are one run with it, if they begin or end something too.
    """
    side = sides[index]
    index += step
    while 0 <= index < len(sides):
        other = sides[index]
        is_same_run = other.sign == side.sign and other.is_opening == side.is_opening
        if other.text and not (side.sign and is_same_run):
            return other.text[-1] if step < 0 else other.text[0]
        index += step
    return ""


def touches(sides: Sides, index: int, step: int) -> bool:
    """Whether the end of a pair and the beginning of another touch, and have the same sign."""
    side = sides[index]
    index += step
    while 0 < index < len(sides) - 1 and not sides[index].text:
        index += step
    other = sides[index]
    return other.sign == side.sign and other.is_opening == side.is_closing


def is_empty(pair: Pair, sides: Sides) -> bool:
    return not any(side.text for side in sides[pair.opening + 1 : pair.closing])


# --------------------------------------------------------------------------------------------------
# Markdown


def markdown_forms(signs: str) -> list[tuple[str, str]]:
    if signs in ELEMENTS:
        return [(signs, signs), (f"<{ELEMENTS[signs]}>", f"</{ELEMENTS[signs]}>")]
    other = OTHER_SIGN[signs[0]] * len(signs)
    names = ["strong"] * (len(signs) // 2) + ["em"] * (len(signs) % 2)
    begin = "".join(f"<{name}>" for name in names)
    end = "".join(f"</{name}>" for name in reversed(names))
    return [(signs, signs), (other, other), (begin, end)]


def markdown_emphasis(text: str) -> str:
    return written_emphasis(text, markdown_forms, is_read_in_markdown)


def is_read_in_markdown(pair: Pair, sides: Sides) -> bool:
    """Whether a pair is emphasis, by CommonMark's rules of left- and right-flanking runs.

    They say what may stand beside a run. Versions of CommonMark differ in whether symbols such as €
    are punctuation; what is said here holds in all of them.
    """
    signs = pair.form[0]
    if signs.startswith("<"):
        return True
    lengths = lengths_around(pair)
    for index, outwards in ((pair.opening, -1), (pair.closing, 1)):
        outside = neighbour(sides, index, outwards)
        inside = neighbour(sides, index, -outwards)
        if not inside.strip() or touches(sides, index, outwards):
            return False
        is_at_edge = not outside.strip() or is_punctuation(outside)
        is_word_inside = not is_punctuation(inside) and not is_symbol(inside)
        if not is_at_edge and (signs[0] == "_" or lengths or not is_word_inside):
            return False
    return not is_empty(pair, sides) and lengths <= {3 - len(signs)}


def lengths_around(pair: Pair) -> set[int]:
    """How long the signs of the pairs around this one are, if they are the same.

    CommonMark keeps one sign and two of them apart, inside each other, where no word is beside.
    """
    lengths = set[int]()
    around = pair.around
    while around:
        signs = around.form[0]
        if signs[0] == pair.form[0][0]:
            lengths.add(len(signs))
        around = around.around
    return lengths


def is_punctuation(character: str) -> bool:
    is_ascii_symbol = character.isascii() and is_symbol(character)
    return is_ascii_symbol or unicodedata.category(character).startswith("P")


def is_symbol(character: str) -> bool:
    return unicodedata.category(character).startswith("S")


# --------------------------------------------------------------------------------------------------
# AsciiDoc


def asciidoc_forms(signs: str) -> list[tuple[str, str]]:
    forms = [(signs, signs)]
    if len(signs) == 1:
        forms.append((signs * 2, signs * 2))
    empty = "{empty}"  # there is no other way to write emphasis of nothing
    return [*forms, (forms[-1][0] + empty, forms[-1][1])]


def asciidoc_emphasis(text: str) -> str:
    return written_emphasis(text, asciidoc_forms, is_read_in_asciidoc)


def is_read_in_asciidoc(pair: Pair, sides: Sides) -> bool:
    """Whether a pair is formatted text: a single sign may not touch a word, a doubled one may."""
    if is_empty(pair, sides):
        return False
    if len(pair.form[0]) != 1:
        return True
    before = neighbour(sides, pair.opening, -1)
    after = neighbour(sides, pair.closing, 1)
    is_apart = not is_in_word(before) and before not in (*";:}&",) and not is_in_word(after)
    return is_apart and not touches(sides, pair.opening, -1) and not touches(sides, pair.closing, 1)


def is_in_word(character: str) -> bool:
    """Whether a character is one of a word, as vowel signs and digits are."""
    return character.isalnum() or (character != "" and unicodedata.category(character) in IN_WORDS)

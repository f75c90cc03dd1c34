"""What must not be translated, as placeholders: e-mails, URLs, paths, numbers, times, codes, variables, emoji, handles.

Each span of a text becomes one character of Unicode's private use area, which is one piece of the tokenizer
(tokenizer.protect): ⟨number 1⟩ … for what begins with a digit, ⟨other 1⟩ … for the rest. In training a span is replaced
where the same text stands on both sides, in use always. After decoding each placeholder is filled with its span, so
that a span may change its place. A number is copied as it stands: 1.234,5 does not become 1,234.5.

A line in capitals is encoded in small letters, and its translation is written in capitals. The mark behind a single
word is a placeholder too.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, SupportsIndex, overload

from nmt.data.known_words import BESIDE, MARKS, WORD, Found, KnownWords
from nmt.data.span_patterns import PRODUCT
from nmt.data.spans import Span, find_spans
from nmt.data.tags import sentence_start

PER_KIND = 8  # placeholders of each kind; further spans stay text
NUMBERS = [chr(0xF100 + index) for index in range(PER_KIND)]
OTHERS = [chr(0xF200 + index) for index in range(PER_KIND)]
PLACEHOLDERS = NUMBERS + OTHERS
# What a space follows. Letters of other scripts than Latin, Greek and Cyrillic may be a prefix, or need no space.
ENDS_WORD = re.compile(r"[A-Za-z\u00c0-\u024f\u0370-\u052f0-9.,;:!?)…]")
WORD_WITH_MARK = re.compile(rf"{BESIDE}({WORD.pattern})\s?([{re.escape(MARKS)}]+){BESIDE}")  # French: a space before it
# Accents that are characters of their own, as in Thai or Hindi, are part of a name; so are the legal forms of firms.
ACCENTS = "\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0900-\u0903\u093a-\u094f\u09be-\u09cd\u0e31-\u0e4e"
PARTICLES = "van(?: de[rn]?| het)?|de(?: la|los)?|del|della|di|ibn|af|av"  # of surnames; von also means of
# What stands before the name of a place; some only where a capital letter says so.
PLACES = (
    r"(?:(?<!\bim )(?<!\bins )Bad|Sankt|St\.|Saint|San|Santa"
    r"|(?<=[a-zß-ü,] )(?:Klein|Groß|Gross|Alt|New|Port|Fort|Mount))"
)
JOINS_NAMES = re.compile(rf"(?: (?:& |(?:{PARTICLES}) )?)?")  # nothing: behind accents
FIRMS = r"GmbH|mbH|AG|KGaA|KG|OHG|UG|SE|Ltd|Inc|LLC|LLP|PLC|S\.A|B\.V"
AFTER_NAME = re.compile(
    rf"[{ACCENTS}]*(?:{PRODUCT})?"
    rf"(?: (?:& (?:Co\.|Cie\.|Söhne|Sohn|Partner|Sons) )?(?:{FIRMS})(?!\w))*(?: [A-Z]\.(?= [(a-z]))?"
)
TITLE = r"(?<=\b[DFH]r\. )|(?<=\bProf\. )"  # behind any other "r. " a sentence ends, and initials may be a word
BEFORE_NAME = re.compile(  # initials, a word of PLACES, or van der
    rf"(?<![\w.])(?:(?:{TITLE}|(?<![a-z]\. ))(?:[A-Z\u00c0-\u00de]\.[ -]?)+"
    rf"(?:v\. |(?:von(?: de[rnm])?|{PARTICLES}) )?|{PLACES} |van de[rn] )$"
)
LONGEST_BEFORE = 20  # characters that are searched for it
CODE = re.compile(r"[A-Z]{1,3}\d+[A-Za-z]?|\d+(?:\.\d+){2,}")  # or a version


@dataclass(frozen=True)
class Protected:
    """A text with placeholders, what they stand for, and whether the original is in capitals."""

    text: str
    spans: dict[str, str] = field(default_factory=dict)
    capitals: bool = False

    @property
    def is_copied(self) -> bool:
        """Whether there is nothing to translate: no letter stands outside the placeholders."""
        return not any(character.isalpha() for character in self.text)

    @property
    def apart(self) -> frozenset[str]:
        """The placeholders before which there is a space."""
        if not self.spans:
            return frozenset()
        return frozenset(after for before, after in pairwise(self.text) if before.isspace() and after in self.spans)


class Encoded(list[int]):
    """Ids of pieces with what their placeholders stand for, by piece, and which of these stand apart in the source.

    A slice has it too.
    """

    def __init__(
        self,
        ids: Iterable[int],
        spans: dict[str, str] | None = None,
        capitals: bool = False,
        apart: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(ids)
        self.spans, self.capitals, self.apart = spans or {}, capitals, apart

    def like(self, ids: Iterable[int]) -> "Encoded":
        """Other ids with the same placeholders: those of a translation."""
        return Encoded(ids, self.spans, self.capitals, self.apart)

    @overload
    def __getitem__(self, index: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> "Encoded": ...
    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return self.like(found) if isinstance(index, slice) else found


def restore(text: str, source: Iterable[int] | Protected, before: str = "") -> str:
    """A decoded text, or one piece of it, as the reader is to see it; `source`: what its placeholders stand for.

    A placeholder that stood apart in the source is kept apart from a word or a mark before it, and a single word with a
    mark gets a capital letter. `before`: the character before the piece.
    """
    if not isinstance(source, Encoded | Protected) or not (source.spans or source.capitals):
        return text
    parts, apart, capital = [], source.apart, not before and is_marked_word(source.spans)
    for character in text.upper() if source.capitals else text:
        if character in apart and (ENDS_WORD.match(before) or before in source.spans):
            parts.append(" ")
        before = character
        parts.append(source.spans.get(character, character.upper() if capital else character))
        capital = capital and not any(map(str.isalnum, parts[-1]))
    return "".join(parts)


def is_marked_word(spans: Mapping[str, str]) -> bool:
    """Whether the source is a single word with a mark behind it: no other span consists of marks."""
    return any(not span.strip(MARKS) for span in spans.values())


def protect(text: str, tags: Collection[str] = (), known: KnownWords | None = None) -> Protected:
    """A source as it is encoded in use: with a placeholder for each span, and for each name if words are `known`.

    Then a line in capitals or in small letters, and a single word, also get the capital letters of training, and the
    mark behind a single word is a placeholder.
    """
    spans, start = find_spans(text, tags), sentence_start(text, tags)
    capitals = in_capitals(text, spans, start)
    protected = replaced(text, spans, assign([span.text for span in spans]), capitals)
    return protected if known is None else with_names(with_mark(protected, known, start), known, start)


def with_names(protected: Protected, known: KnownWords, start: int) -> Protected:
    """With placeholders for the words from `start` on that can only be names, as many as are left.

    Names with a space between them are one, and so is a name in capitals with the number behind it: LH 456. A name is
    written as it was.
    """
    written = protected.text[start:]
    case = str.upper if protected.capitals else str.lower if written == written.lower() else str
    text, spans = known.cased(protected.text, start, names=protected.capitals), dict(protected.spans)
    parts, end = [], 0
    names = joined_names(text, [name for name in known.names(text) if name.start >= start], spans)
    for (first, last), placeholder in zip(names, unused(protected), strict=False):
        parts += [text[end:first], placeholder]
        name = "".join(spans.pop(each) if each in spans else case(each) for each in text[first:last])
        spans[placeholder], end = name, last
    return Protected("".join([*parts, text[end:]]), spans, protected.capitals)


def joined_names(text: str, names: list[Found], spans: Mapping[str, str]) -> list[Found]:
    """Names that stand together, as one; with initials, Bad or Klein, a legal form (GmbH) or a code beside them.

    A number is part of the name in capitals before it. Grasmo S4 is a name with a code, Grasmo 1.8.3 with a version.
    """
    joined: list[Found] = []
    for start, end in names:
        if joined and start < joined[-1].end:  # a legal form that was added
            continue
        if joined and JOINS_NAMES.fullmatch(text, joined[-1].end, start):
            start = joined.pop().start
        elif before := BEFORE_NAME.search(text, max(joined[-1].end if joined else 0, start - LONGEST_BEFORE), start):
            start = before.start()
        if beside := AFTER_NAME.match(text, end):
            end = beside.end()
        follows = text[end : end + 2]
        is_number = follows[1:] in NUMBERS and text[start:end].split()[-1].isupper()
        if follows[:1] == " " and (is_number or CODE.fullmatch(spans.get(follows[1:], ""))):
            end += 2
        joined.append(Found(start, end))
    return joined


def with_mark(protected: Protected, known: KnownWords, start: int) -> Protected:
    """With a placeholder for the mark behind a single word: Who? is the word, and no sentence that the model knows.

    Not behind a tag: which marks the languages share is not known for each target language.
    """
    single, free = WORD_WITH_MARK.fullmatch(protected.text, start), unused(protected)
    if start or not (single and free and all(map(known.has_mark, single[2]))):
        return protected
    if not known.explains(known.with_case(single[1], names=False)):
        return protected
    text, spans = protected.text, protected.spans | {free[0]: single[2]}
    return Protected(text[: single.end(1)] + free[0] + text[single.end(2) :], spans, protected.capitals)


def unused(protected: Protected) -> list[str]:
    """The placeholders for names and marks that are left."""
    return [placeholder for placeholder in OTHERS if placeholder not in protected.spans]


def unprotected(protected: Protected, placeholders: Collection[str]) -> Protected:
    """The same without these placeholders: what they stand for is text."""
    text = protected.text
    for placeholder in placeholders:
        span = protected.spans[placeholder]
        text = text.replace(placeholder, span.capitalize() if protected.capitals else span)
    spans = {each: span for each, span in protected.spans.items() if each not in placeholders}
    return Protected(text, spans, protected.capitals)


def protect_pair(source: str, target: str, tags: Collection[str] = ()) -> tuple[Protected, Protected]:
    """A pair as it is trained on: placeholders stand for spans that occur equally often on both sides."""
    sides = [find_spans(text, tags) for text in (source, target)]
    counts = [Counter(span.text for span in spans) for spans in sides]
    shared = [[span for span in spans if counts[0][span.text] == counts[1][span.text]] for spans in sides]
    by_text: dict[str, list[str | None]] = {}
    for span, placeholder in zip(shared[0], assign([span.text for span in shared[0]]), strict=True):
        by_text.setdefault(span.text, []).append(placeholder)
    used: Counter[str] = Counter()
    for_target = []
    for span in shared[1]:
        for_target.append(by_text[span.text][used[span.text]])
        used[span.text] += 1
    capitals = in_capitals(source, sides[0], sentence_start(source, tags)) and in_capitals(target, sides[1])
    for_source = assign([span.text for span in shared[0]])
    return replaced(source, shared[0], for_source, capitals), replaced(target, shared[1], for_target, capitals)


def assign(texts: list[str]) -> list[str | None]:
    """The placeholder of each span, None where there is none left of its kind."""
    left = {True: iter(NUMBERS), False: iter(OTHERS)}
    return [next(left[text[0].isdigit()], None) for text in texts]


def replaced(text: str, spans: list[Span], placeholders: list[str | None], capitals: bool) -> Protected:
    """The text with these placeholders for these spans."""
    parts, filled, end = [], {}, 0
    for span, placeholder in zip(spans, placeholders, strict=True):
        if placeholder is not None:
            parts += [text[end : span.start], placeholder]
            filled[placeholder], end = span.text, span.end
    joined = "".join([*parts, text[end:]])
    return Protected(joined.lower() if capitals else joined, filled, capitals)


def in_capitals(text: str, spans: list[Span], start: int = 0) -> bool:
    """Whether all letters from `start` on and outside the spans are capitals, and there are at least four of them."""
    end, outside = start, ""
    for span in spans:
        outside, end = outside + text[end : span.start], span.end
    letters = [character for character in outside + text[end:] if character.isalpha()]
    return len(letters) >= 4 and all(character.isupper() for character in letters)

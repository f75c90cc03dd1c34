"""The text filter: what must not be translated becomes a placeholder, and a line in capitals small
letters.

URLs, e-mails, numbers, times, dates, variables, tags, code, handles and emoji each become one
character of Unicode's private use area, which is one piece of the tokenizer (tokenizer.protect):
⟨number 1⟩ … or ⟨other 1⟩ …. In training this is done where the same text stands on both sides, in
use always. After decoding each placeholder is filled with its span, so that a span may change its
place as a whole. A number is copied as it stands: 1.234,5 does not become 1,234.5. A tokenizer
knows the placeholders and nothing of the patterns, so that a run may be used with others than it
learnt by.

This module runs without the rest of the program, in exported folders, and in JavaScript
(nmt/convert/html_page.py).
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, SupportsIndex, overload

from linkify_it import LinkifyIt

from nmt.data.normalization import SPACES
from nmt.data.tags import sentence_start

PER_KIND = 8  # placeholders of each kind; further spans stay text
NUMBERS = [chr(0xF100 + index) for index in range(PER_KIND)]
OTHERS = [chr(0xF200 + index) for index in range(PER_KIND)]
PLACEHOLDERS = NUMBERS + OTHERS
# What a space follows. Letters of other scripts than Latin, Greek and Cyrillic may be a prefix, or
# need no space.
ENDS_WORD = re.compile(r"[A-Za-z\u00c0-\u024f\u0370-\u052f0-9.,;:!?)…]")

# [\s\S]: a line has no \n
PARTS = {name: part.replace(r"[\s\S]", ".") for name, part in LinkifyIt().re.items()}
# What a name without a scheme may end with: domains, and the names that are reserved for use inside
# a network.
RESERVED = "local|localhost|internal|lan|test|example|invalid|onion|arpa"
ZONES = f"(?:{PARTS['src_tlds']}|{PARTS['src_tlds'].upper()}|{RESERVED})"
KNOWN_HOST = (
    PARTS["tpl_host_no_ip_fuzzy"].replace("%TLDS%", ZONES)
    + PARTS["src_port"]
    + PARTS["src_host_terminator"]
)
ANY_HOST = rf"(?:{PARTS['src_host_port_strict']}|\[[\da-fA-F:.]{{2,45}}\]{PARTS['src_port']}|(?=/))"
SCHEME = r"[A-Za-z][A-Za-z\d+.-]{1,15}://"
LABEL = r"\w(?:[\w-]{0,61}\w)?"

# A number is a run of groups of digits: between two of them is one sign or one space, or an area
# code in brackets.
SPACE = "[ \u00a0\u2000-\u200a\u202f\u205f\u3000]"
SIGN = "[.,:/'’·\u2010-\u2014\u2212-]"
# shares nothing with SIGN: one way to divide
GAP = rf"(?:{SPACE}[/\u2010-\u2014-]{SPACE}|{SPACE}/|/{SPACE}|{SPACE})"
AREA = rf"\(\+?\d+(?:(?:{SPACE}|-)\d+){{0,3}}\)(?:{SPACE}|[/-])?"
# where a unit may be joined to digits; 万 changes their value
LETTER = r"A-Za-z_\u00c0-\u024f\u0370-\u052f"
NO_FACTOR = rf"(?!\w(?<![{LETTER}]))"
NO_CODE = rf"(?!\d|[{LETTER}]{{1,20}}(?:\d|:\w|-\d))"  # 00:1A:2B
FIRST = rf"[+−±]?(?:{AREA})?\d+(?!\w)|(?<!\S)-\d+(?!\w)|[vV]\d+(?=\.\d)"
SECOND = (  # 1.50m, 0(212)1234567, 1 234km, 079 123; but 2019 alone in 2019 3D
    rf"{SIGN}\d+{NO_FACTOR}{NO_CODE}|{SPACE}?{AREA}\d+(?!\d)|(?<!\d{{4}}){SPACE}\d{{3}}{NO_FACTOR}|{GAP}\d+(?!\w)"
)
FURTHER = rf"{SIGN}\d+{NO_CODE}|(?:{SPACE}?{AREA}|{GAP})\d+(?!\d)"
DAY = rf"\d{{1,2}}\.{SPACE}\d{{1,2}}"
DATE = rf"(?:{DAY}\.{SPACE}\d{{4}}|\d{{4}}\.{SPACE}{DAY})(?!\w)"
# Not inside of a word, a code or a run, unless it is clearly a number: Tel.079 123 45 67.
BEGIN = (
    rf"(?<!\d{SIGN})(?:(?<![\w.-])"
    rf"|(?<![\d{LETTER}])(?=[+(]{{0,2}}\d+(?:\)?(?:{SIGN}|{SPACE})\(?\d+){{2}}))"
)
CURRENCY = r"$¢£¥\u20a0-\u20cf"
AMOUNT = (
    rf"(?:[{CURRENCY}]{SPACE}?)?(?:{FIRST})(?:(?:{SECOND})(?:{FURTHER})*)?(?!{SIGN}\d)"
    rf"(?:[.,][-–]{{1,2}}(?!\w))?(?:{SPACE}?[{CURRENCY}%‰°][CF]?(?!\w))?"
)
# In groups of four. Only the second may be letters alone, the bank, and one behind letters: 345M
# TLCA ST01 S.
WITH_DIGIT = r"(?=[A-Z]{0,3}\d)[A-Z\d]{4}"
BEHIND_LETTER = "(?:(?<=[A-Z])|(?<=[A-Z].)|(?<=[A-Z]..)|(?<=[A-Z]...))"
FOUR = rf"{SPACE}?(?:{WITH_DIGIT}|{BEHIND_LETTER}[A-Z]{{4}})"
REST = rf"{SPACE}?(?:(?=[A-Z]{{0,2}}\d)|{BEHIND_LETTER})[A-Z\d]{{1,3}}"
IBAN = (
    rf"(?<!\w)[A-Z]{{2}}\d\d{SPACE}?[A-Z\d]{{4}}{SPACE}?{WITH_DIGIT}"
    rf"(?:(?:{FOUR}){{4}}{SPACE}?[A-Z]{{3}}|(?:{FOUR}){{0,6}}(?:{REST})?)(?!\w)"
)

EMOJI = "\U0001f000-\U0001faff\u2600-\u27bf\u2b00-\u2bff\u2190-\u21ff\u2300-\u23ff"
JOINERS = "\ufe0f\u200d\u20e3\U000e0020-\U000e007f"
# By kind; of two that match at one place the first counts. None may try every division of a long
# line.
PATTERNS = {
    "placeholder": "[\uf100-\uf2ff]",
    "link": rf"(?<!\w)(?:{SCHEME}|www\.){PARTS['src_auth']}{ANY_HOST}{PARTS['src_path']}"
    rf"|(?<![\w.+%@-])(?:mailto:|@)?\w[\w.+%&~=-]{{0,63}}@{LABEL}(?:\.{LABEL})*{PARTS['src_path']}"
    rf"|(?<![\w.:/@-])(?:{KNOWN_HOST}|localhost:\d+){PARTS['src_path']}",
    "code": r"`[^`\n]+`",
    "tag": r"</?[A-Za-z][^<>\n]*>|</?\d\w*/?>|&(?:#\d+|#x[0-9a-fA-F]+|[a-zA-Z]+\d*);",
    "variable": r"[$#%@]?\{\{?[^{}\n]{0,40}\}\}?|\[\[[^\[\]\n]{0,40}\]\]|\[\w{0,9}\d\w{0,9}\]"
    r"|(?<!\w)__\w+__|\$[A-Za-z_]\w*|%\(\w+\)[a-zA-Z]|%(?:\d+\$)?[-+0]?\d*(?:\.\d+)?(?:hh?|ll?|z)?[sdifuxXegc@](?!\w)|%\w+%|%%",
    "handle": r"(?<![\w@#&/])[@#]\w+(?:[.-]\w+)*",
    "emoticon": r"(?<!\S)(?:[:;]-?[()DPp/|]|<3)(?!\w)",
    "emoji": f"[0-9#*]\ufe0f?\u20e3|[{EMOJI}][{EMOJI}{JOINERS}]*",
    "number": rf"{IBAN}|{BEGIN}(?:{DATE}|{AMOUNT})",
}
SPANS, PLAIN_SPANS = (
    re.compile(
        "|".join(
            f"(?P<{kind}>{pattern})" for kind, pattern in PATTERNS.items() if kind not in without
        )
    )
    for without in ((), ("link",))
)
# Every span has one of these in it, and every link one of those; most sentences have none, and are
# done faster.
POSSIBLE = re.compile(rf"[\d@#$%{{<>&`\[_\uf100-\uf2ff{EMOJI}]|\.\w|[:;][-()DPp/|]")
POSSIBLE_LINK = re.compile(r"@|\.[^\W\d]|://|www\.|localhost:")


EDGES = "\"'.,;:!?…()[]{}«»„“”‚‘’¿¡–—*-"  # marks before and after a word
PRIVATE = re.compile("[\ue000-\uf8ff]")  # placeholders, and what stands for markup in documents
# Signs of programs, a full stop inside, a capital after a small letter.
CODE = re.compile(r"[_\\=<>{}()@#$%^&*|~`+:\[\]]|\w\.\w|[a-z][A-Z]")
MIXED = re.compile(r"[A-Za-z]\d|\d[A-Za-z]")
WORD_PARTS = re.compile(r"[\w\u0300-\u036f]+")  # between hyphens, apostrophes, slashes
IDENTIFIER = re.compile(r"[a-z\d]+(?:-[a-z\d]+)+|[a-z]{2,3}(?:-[A-Z][a-z]{3})?(?:-[A-Z]{2}|-\d{3})")
PATH = re.compile(r"[.~]{0,2}/|[a-z\d./-]+$|[^/]*/[^/]*/")
CALL = re.compile(r"\w\(\)")
PLURAL = re.compile(r"(?<=\w)\([a-z]{1,2}\)(?=[^\w]{0,9}$)")  # file(s)
DOUBLE_LETTER = re.compile(r"([A-Za-z])\1")
DATE_PATTERN = re.compile(r"(?:([A-Za-z])\1*(?![A-Za-z])|[^A-Za-z])+")
FONT_NAMES = re.compile(r".+, ?(?:serif|sans-serif|monospace|cursive|fantasy|system-ui)")
# Scripts without spaces between words, in which a sentence is one token.
NO_SPACES = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u30ff\u31f0-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)


def has_words(text: str) -> bool:
    """Whether a text has a word of any language, so that there is something to translate.

    Identifiers, paths, colours, UUIDs, base64, locales, fonts, date patterns and codes of three
    capital letters have none. What decides is the shape of what stands between spaces, in any
    language, and not a list of words.
    """
    tokens = [bare(each) for each in PRIVATE.sub(" ", text).split()]
    if len(tokens) == 1 and re.fullmatch("[A-Z]{3}", tokens[0]):  # EUR
        return False
    if FONT_NAMES.fullmatch(text) or is_date_pattern(text):
        return False
    if not text.isascii() or re.search("[A-Z.!?]", text):
        return any(is_word(token) for token in tokens)
    # In small letters alone, as a list of names may be: nav navbar-light.
    return sum(is_word(token) for token in tokens) > sum(is_code(token) for token in tokens)


def bare(token: str) -> str:
    """What stands between two spaces without the marks around it, and without the ending of
    file(s)."""
    if CALL.search(token):
        return token
    return PLURAL.sub("", token).strip(EDGES)


def is_word(token: str) -> bool:
    """Whether a token without the marks around it is a word, or has one between hyphens,
    apostrophes or slashes."""
    if NO_SPACES.search(token):
        return True
    token = without_shortcut(token)
    if is_code(token):
        return False
    return any(is_word_part(part) for part in WORD_PARTS.findall(token))


def without_shortcut(token: str) -> str:
    """A word without the sign for its key on the keyboard: _File, E&xit."""
    for sign in "&_~":
        word = token.replace(sign, "", 1)
        if word.isalpha() and (token.startswith(sign) or word.istitle()):
            return word
    return token


def is_code(token: str) -> bool:
    """Whether a token is written as people write identifiers, paths or values."""
    if not any(character.isalpha() for character in token):
        return False
    is_path = "/" in token and PATH.match(token)
    if is_path or CODE.search(token) or IDENTIFIER.fullmatch(token):
        return True
    # Digits beside letters, as in 10px, but not where a word follows, as in 3D-Drucker.
    parts = WORD_PARTS.findall(token)
    has_word = any(len(part) > 2 and part.isalpha() and not part.isupper() for part in parts)
    return not has_word and any(MIXED.search(part) for part in parts)


def is_word_part(part: str) -> bool:
    """Whether letters may be a word: they are not digits, nor Latin consonants alone, such as
    px."""
    if not part.isascii():
        return any(character.isalpha() for character in part)
    return part.isalpha() and (len(part) == 1 or bool(re.search("[aeiouylrw]", part.lower())))


def is_date_pattern(text: str) -> bool:
    """Whether all letters are runs of the same one, at least one of them longer than one: d. MMM
    yyyy."""
    return DOUBLE_LETTER.search(text) is not None and DATE_PATTERN.fullmatch(text) is not None


class Span(NamedTuple):
    """A part of a text that is copied."""

    start: int
    end: int
    text: str
    kind: str  # a key of PATTERNS


def find_spans(text: str, tags: Collection[str] = ()) -> list[Span]:
    """The spans of a text that must not be translated, from left to right; `tags` are pieces and
    stay text."""
    if not POSSIBLE.search(text):
        return []
    pattern = SPANS if POSSIBLE_LINK.search(text) else PLAIN_SPANS
    return [
        Span(*match.span(), match[0], match.lastgroup or "")
        for match in pattern.finditer(text)
        if match[0] not in tags
    ]


@dataclass(frozen=True)
class Protected:
    """A text with placeholders, what they stand for, and whether the original is in capitals."""

    text: str
    spans: dict[str, str] = field(default_factory=dict)
    capitals: bool = False

    @property
    def is_copied(self) -> bool:
        """Whether there is nothing to translate: no word stands outside the placeholders."""
        return not has_words(self.text)

    @property
    def apart(self) -> frozenset[str]:
        """The placeholders that begin the text or stand behind a space, a bracket and the like."""
        if not self.spans:
            return frozenset()
        return frozenset(
            after
            for before, after in pairwise(["", *self.text])
            if after in self.spans and not joins(before, self.spans)
        )

    def encoded(self, ids: Iterable[int]) -> "Encoded":
        """The ids of the text, with what its placeholders stand for."""
        return Encoded(ids, self.spans, self.capitals, self.apart)


class Encoded(list[int]):
    """Ids of pieces with what their placeholders stand for, by piece, and which of these stand
    apart in the source.

    `begin`: the ids that the translation begins with. A slice has all this too.
    """

    def __init__(
        self,
        ids: Iterable[int],
        spans: dict[str, str] | None = None,
        capitals: bool = False,
        apart: frozenset[str] = frozenset(),
        begin: tuple[int, ...] = (),
    ) -> None:
        super().__init__(ids)
        self.spans = spans or {}
        self.capitals = capitals
        self.apart = apart
        self.begin = begin

    def like(self, ids: Iterable[int]) -> "Encoded":
        """Other ids with the same placeholders: those of a translation."""
        return Encoded(ids, self.spans, self.capitals, self.apart, self.begin)

    @overload
    def __getitem__(self, index: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> "Encoded": ...
    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return self.like(found) if isinstance(index, slice) else found


def protect(
    text: str, tags: Collection[str] = (), placeholders: Collection[str] = PLACEHOLDERS
) -> Protected:
    """A source as it is encoded in use: with one of `placeholders` for each span, as many as there
    are."""
    spans = find_spans(text, tags)
    return replaced(
        text,
        spans,
        assign(spans, placeholders),
        in_capitals(text, spans, sentence_start(text, tags)),
    )


def protect_pair(
    source: str,
    target: str,
    tags: Collection[str] = (),
    placeholders: Collection[str] = PLACEHOLDERS,
) -> tuple[Protected, Protected]:
    """A pair as it is trained on: placeholders stand for spans that occur equally often on both
    sides."""
    sides = [find_spans(text, tags) for text in (source, target)]
    counts = [Counter(span.text for span in spans) for spans in sides]
    shared = [
        [span for span in spans if counts[0][span.text] == counts[1][span.text]] for spans in sides
    ]
    for_source = assign(shared[0], placeholders)
    by_text: dict[str, list[str | None]] = {}
    for span, placeholder in zip(shared[0], for_source, strict=True):
        by_text.setdefault(span.text, []).append(placeholder)
    for_target = [by_text[span.text].pop(0) for span in shared[1]]
    capitals = in_capitals(source, sides[0], sentence_start(source, tags)) and in_capitals(
        target, sides[1]
    )
    return replaced(source, shared[0], for_source, capitals), replaced(
        target, shared[1], for_target, capitals
    )


def with_placeholders(text: str, source: Protected) -> str:
    """The beginning of a translation with the placeholders of its source, in small letters where
    the source is."""
    spans = find_spans(text)
    left = {span: placeholder for placeholder, span in source.spans.items()}
    return replaced(
        text, spans, [left.pop(span.text, None) for span in spans], source.capitals
    ).text


def restore(text: str, source: Iterable[int] | Protected, before: str = "") -> str:
    """A decoded text, or one piece of it, as the reader is to see it; `source`: what its
    placeholders stand for.

    A placeholder that stood apart in the source is kept apart from a word, a mark or another one
    before it, and a number from digits behind it: two numbers never become one. `before`: the
    character before the piece.
    """
    if not isinstance(source, Encoded | Protected) or not (source.spans or source.capitals):
        return text
    parts = []
    apart = source.apart
    for character in text.upper() if source.capitals else text:
        is_apart = character in apart or (before in NUMBERS and character.isdecimal())
        if is_apart and joins(before, source.spans):
            parts.append(" ")
        before = character
        parts.append(source.spans.get(character, character))
    return "".join(parts)


def joins(before: str, spans: Collection[str]) -> bool:
    """Whether a placeholder behind this character needs a space between them."""
    return before in spans or ENDS_WORD.match(before) is not None


def changed_spans(
    source: str,
    translation: str,
    tags: Collection[str] = (),
    placeholders: Collection[str] = PLACEHOLDERS,
) -> list[str]:
    """The spans that one of both texts has more often than the other: what was lost, then what was
    added.

    Every kind of space is the same. Without placeholders for numbers these are the model's to
    write.
    """
    texts = [SPACES.sub(" ", text) for text in (source, translation)]
    is_copied = not set(NUMBERS).isdisjoint(placeholders)
    found = [
        [span for span in find_spans(text, tags) if is_copied or span.kind != "number"]
        for text in texts
    ]
    before, after = (Counter(span.text for span in spans) for spans in found)
    # A span may have other neighbours in the translation, and so another end: -3 and (-3).
    lost = [span for span in before - after if texts[1].count(span) < texts[0].count(span)]
    added = [span for span in after - before if texts[1].count(span) > texts[0].count(span)]
    return lost + added


def unprotected(protected: Protected, placeholders: Collection[str]) -> Protected:
    """The same without these placeholders: what they stand for is text."""
    text = protected.text
    for placeholder in placeholders:
        span = protected.spans[placeholder]
        text = text.replace(placeholder, span.lower() if protected.capitals else span)
    spans = {each: span for each, span in protected.spans.items() if each not in placeholders}
    return Protected(text, spans, protected.capitals)


def assign(spans: list[Span], placeholders: Collection[str]) -> list[str | None]:
    """The placeholder of each span, None where there is none left of its kind."""
    left = {True: iter(NUMBERS), False: iter(OTHERS)}
    found = [next(left[span.kind == "number"], None) for span in spans]
    return [each if each in placeholders else None for each in found]


def replaced(
    text: str, spans: list[Span], placeholders: list[str | None], capitals: bool
) -> Protected:
    parts = []
    filled = {}
    end = 0
    for span, placeholder in zip(spans, placeholders, strict=True):
        if placeholder is not None:
            parts += [text[end : span.start], placeholder]
            filled[placeholder], end = span.text, span.end
    joined = "".join([*parts, text[end:]])
    return Protected(joined.lower() if capitals else joined, filled, capitals)


def in_capitals(text: str, spans: list[Span], start: int = 0) -> bool:
    """Whether all letters from `start` on and outside the spans are capitals, and there are at
    least four of them."""
    end = start
    outside = ""
    for span in spans:
        outside = outside + text[end : span.start]
        end = span.end
    letters = [character for character in outside + text[end:] if character.isalpha()]
    return len(letters) >= 4 and all(character.isupper() for character in letters)

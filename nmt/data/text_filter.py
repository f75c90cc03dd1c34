"""The text filter: placeholders for what must not be translated, small letters for capitals.

URLs, e-mails, numbers, times, dates, variables, tags, code, handles and emoji are spans. Each
becomes one character of Unicode's private use area, which is one piece of the tokenizer
(tokenizer.protect): ⟨number 1⟩ … or ⟨other 1⟩ …. In training this is done if the same text stands
on both sides, in translation always. After decoding, each placeholder is filled with its span. So a
span may change its place as a whole. A number is copied as it stands: 1.234,5 does not become
1,234.5. A tokenizer knows only the placeholders, so its run also works with patterns other than
those of its training.

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

from nmt.corpus.normalization import SPACES
from nmt.corpus.tags import sentence_start

PER_KIND = 8  # placeholders of each kind; further spans stay text
NUMBERS = [chr(0xF100 + index) for index in range(PER_KIND)]
OTHERS = [chr(0xF200 + index) for index in range(PER_KIND)]
PLACEHOLDERS = NUMBERS + OTHERS
# A placeholder behind one of these needs a space. Letters of other scripts than Latin, Greek and
# Cyrillic may be a prefix, or need no space.
ENDS_WORD = re.compile(r"[A-Za-z\u00c0-\u024f\u0370-\u052f0-9.,;:!?)…]")

# Links, by the parts of linkify-it; [\s\S] becomes a dot, since a line has no \n.
PARTS = {name: part.replace(r"[\s\S]", ".") for name, part in LinkifyIt().re.items()}
USER = PARTS["src_auth"]  # me@
PORT = PARTS["src_port"]  # :80, or nothing
PATH_PART = PARTS["src_path"]  # /a/b?c=1#d, or nothing
# A name without a scheme ends with a domain, or one of the names for use inside a network.
RESERVED = "local|localhost|internal|lan|test|example|invalid|onion|arpa"
ZONES = f"(?:{PARTS['src_tlds']}|{PARTS['src_tlds'].upper()}|{RESERVED})"
KNOWN_HOST = (  # example.org:80
    PARTS["tpl_host_no_ip_fuzzy"].replace("%TLDS%", ZONES) + PORT + PARTS["src_host_terminator"]
)
IP_HOST = rf"\[[\da-fA-F:.]{{2,45}}\]{PORT}"  # [::1]:80
ANY_HOST = rf"(?:{PARTS['src_host_port_strict']}|{IP_HOST}|(?=/))"  # or none: file:///home
SCHEME = r"[A-Za-z][A-Za-z\d+.-]{1,15}://"  # https://
LABEL = r"\w(?:[\w-]{0,61}\w)?"  # example
URL = rf"(?<!\w)(?:{SCHEME}|www\.){USER}{ANY_HOST}{PATH_PART}"  # https://me@example.org/a?b=1
LOCAL_PART = r"(?<![\w.+%@-])(?:mailto:|@)?\w[\w.+%&~=-]{0,63}"  # mailto:first.last
E_MAIL = rf"{LOCAL_PART}@{LABEL}(?:\.{LABEL})*{PATH_PART}"  # first.last@example.org?subject=x
BARE_HOST = rf"(?<![\w.:/@-])(?:{KNOWN_HOST}|localhost:\d+){PATH_PART}"  # example.org/a

# A number is a run of groups of digits: between two of them is one sign or one space, or an area
# code in brackets.
SPACE = "[ \u00a0\u2000-\u200a\u202f\u205f\u3000]"
SIGN = "[.,:/'’·\u2010-\u2014\u2212-]"
# 12 - 34, 12 / 34, 12 34. It shares nothing with SIGN, so that there is one way to divide.
GAP = rf"(?:{SPACE}[/\u2010-\u2014-]{SPACE}|{SPACE}/|/{SPACE}|{SPACE})"
AREA = rf"\(\+?\d+(?:(?:{SPACE}|-)\d+){{0,3}}\)(?:{SPACE}|[/-])?"  # (+49 30)
LETTER = r"A-Za-z_\u00c0-\u024f\u0370-\u052f"  # a unit in such letters may be joined: 50m
NO_FACTOR = rf"(?!\w(?<![{LETTER}]))"  # not 1.5万, whose last character changes the value
NO_CODE = rf"(?!\d|[{LETTER}]{{1,20}}(?:\d|:\w|-\d))"  # not 00:1A:2B
FIRST = "|".join(
    [
        rf"[+−±]?(?:{AREA})?\d+(?!\w)",  # 12, −12, +(49)30
        r"(?<!\S)-\d+(?!\w)",  # -12
        r"[vV]\d+(?=\.\d)",  # v1 of v1.2
    ]
)
SECOND = "|".join(
    [
        rf"{SIGN}\d+{NO_FACTOR}{NO_CODE}",  # .50 of 1.50m
        rf"{SPACE}?{AREA}\d+(?!\d)",  # (212)1234567 of 0(212)1234567
        rf"(?<!\d{{4}}){SPACE}\d{{3}}{NO_FACTOR}",  # the second half of 1 234km
        rf"{GAP}\d+(?!\w)",  # 123 of 079 123; but 2019 is alone in 2019 3D
    ]
)
FURTHER = rf"{SIGN}\d+{NO_CODE}|(?:{SPACE}?{AREA}|{GAP})\d+(?!\d)"
DAY = rf"\d{{1,2}}\.{SPACE}\d{{1,2}}"  # 1. 5
DATE = rf"(?:{DAY}\.{SPACE}\d{{4}}|\d{{4}}\.{SPACE}{DAY})(?!\w)"  # 1. 5. 2019, 2019. 5. 1
# Not inside of a word, a code or a run, unless it is clearly a number: Tel.079 123 45 67.
BEGIN = (
    rf"(?<!\d{SIGN})(?:(?<![\w.-])"
    rf"|(?<![\d{LETTER}])(?=[+(]{{0,2}}\d+(?:\)?(?:{SIGN}|{SPACE})\(?\d+){{2}}))"
)
CURRENCY = r"$¢£¥\u20a0-\u20cf"
CURRENCY_BEFORE = rf"(?:[{CURRENCY}]{SPACE}?)?"  # $ 5
GROUPS = rf"(?:{FIRST})(?:(?:{SECOND})(?:{FURTHER})*)?(?!{SIGN}\d)"  # 1,234.50
NO_CENTS = r"(?:[.,][-–]{1,2}(?!\w))?"  # 5,--
UNIT_BEHIND = rf"(?:{SPACE}?[{CURRENCY}%‰°][CF]?(?!\w))?"  # 5 €, 20 %, 20°C
AMOUNT = f"{CURRENCY_BEFORE}{GROUPS}{NO_CENTS}{UNIT_BEHIND}"
# DE89 3704 0044 0532 0130 00, in groups of four. Letters alone may only be the second group, which
# is the bank, and a group behind letters: 345M TLCA ST01 S.
WITH_DIGIT = r"(?=[A-Z]{0,3}\d)[A-Z\d]{4}"
BEHIND_LETTER = "(?:(?<=[A-Z])|(?<=[A-Z].)|(?<=[A-Z]..)|(?<=[A-Z]...))"
FOUR = rf"{SPACE}?(?:{WITH_DIGIT}|{BEHIND_LETTER}[A-Z]{{4}})"
REST = rf"{SPACE}?(?:(?=[A-Z]{{0,2}}\d)|{BEHIND_LETTER})[A-Z\d]{{1,3}}"
IBAN = (
    rf"(?<!\w)[A-Z]{{2}}\d\d{SPACE}?[A-Z\d]{{4}}{SPACE}?{WITH_DIGIT}"
    rf"(?:(?:{FOUR}){{4}}{SPACE}?[A-Z]{{3}}|(?:{FOUR}){{0,6}}(?:{REST})?)(?!\w)"
)

TAG_OR_ENTITY = "|".join(
    [
        r"</?[A-Za-z][^<>\n]*>",  # <a href="x">, </b>
        r"</?\d\w*/?>",  # <1>, </1>, <1/>
        r"&(?:#\d+|#x[0-9a-fA-F]+|[a-zA-Z]+\d*);",  # &#39; &#x27; &amp;
    ]
)
# {Note: see below} is text: three words without a comma, or marks of Chinese. Two words may be a
# field of a letter, as in {first name}, and ICU has commas: {day, date, short}.
PHRASE_WORD = r"[^\W\d_][\w'’-]{1,40}"
IN_PHRASE = r"[^{}\n\"'()=]{0,100}"
PHRASE = (
    rf"\{{ {{0,9}}{PHRASE_WORD}(?:[;:.!?]?[ \u00a0]{{1,9}}{PHRASE_WORD}){{2,40}}[.!?…]{{0,3}}"
    r" {0,9}\}"
    rf"|\{{{IN_PHRASE}[、。！，：；？]{IN_PHRASE}\}}"
)
# A format of printf: flags, a width and a precision, a length, and a conversion.
# In text, % is followed by a space, a bracket or an apostrophe: 50 % der, 5 %(netto), the 5%'s.
NO_SHARE = rf"(?<!\d)(?<!\d{SPACE})"
FLAGS = r"(?:[-+0#',]|\((?=[-+,.\d])| (?=\.?\d))*"  # % 5d, but not % d
WIDTH = r"(?:[1-9]\d*|\*(?:\d+\$)?)?(?:\.(?:\d+|\*(?:\d+\$)?))?"  # 5, *, .2, 5.*
CONVERSION = r"(?:(?:hh?|ll?|[zjtLq])?[diouxXeEfFgGaAcCsSpn@]|[tT][A-Za-z])"  # d, lu, tB of Java
FORMAT = f"{FLAGS}{WIDTH}{CONVERSION}"
VARIABLE = "|".join(
    [
        rf"(?!{PHRASE})[$#%@]?\{{\{{?[^{{}}\n]{{0,40}}\}}\}}?",  # {name}, ${name}, {{name}}
        r"\[\[[^\[\]\n]{0,40}\]\]",  # [[name]]
        r"\[\w{0,9}\d\w{0,9}\]",  # [1]
        r"(?<!\w)__\w+__",  # __name__
        r"\$[A-Za-z_]\w*",  # $name
        r"%\(\w+\)[a-zA-Z]",  # %(name)s
        rf"%(?:\(\w+\)|<\w+>){FORMAT}(?!\w)",  # %(price).2f, %<price>.2f
        rf"%\d+\${FORMAT}",  # %1$s, %1$,d
        r"%[-+0]?\d*(?:\.\d+)?(?:hh?|ll?|z)?[sdifuxXegc@](?!\w)",  # %s, %.2f
        rf"{NO_SHARE}%{FORMAT}(?!\w)",  # %,d, %*d, %S
        # of Go: %[1]s, %[3]*.[2]*[1]f
        r"%[-+#0]{0,3}(?:[\d.]{0,9}\[\d{1,3}\]\*?){1,3}[\d.]{0,9}[vTtbcdoOqxXUeEfFgGspw]",
        r"%[-+0]?\d*<PRI\w+>",  # %<PRIu64>
        r"%\d+![^!\s]{1,9}!",  # %1!s!
        r"%\w+%",  # %name%
        r"%%",
    ]
)
EMOJI = "\U0001f000-\U0001faff\u2600-\u27bf\u2b00-\u2bff\u2190-\u21ff\u2300-\u23ff"
JOINERS = "\ufe0f\u200d\u20e3\U000e0020-\U000e007f"
# The spans by kind; if two match at one place, the first counts. No pattern may try every division
# of a long line.
PATTERNS = {
    "placeholder": "[\uf100-\uf2ff]",
    "link": f"{URL}|{E_MAIL}|{BARE_HOST}",
    "code": r"`[^`\n]+`",  # `ls -l`
    "tag": TAG_OR_ENTITY,
    "variable": VARIABLE,
    "handle": r"(?<![\w@#&/])[@#]\w+(?:[.-]\w+)*",  # @name, #topic
    "emoticon": r"(?<!\S)(?:[:;]-?[()DPp/|]|<3)(?!\w)",  # :-)
    "emoji": f"[0-9#*]\ufe0f?\u20e3|[{EMOJI}][{EMOJI}{JOINERS}]*",  # 1️⃣, 👍🏽
    "number": rf"{IBAN}|{BEGIN}(?:{DATE}|{AMOUNT})",
}


def alternatives(kinds: Iterable[str]) -> str:
    return "|".join(f"(?P<{kind}>{PATTERNS[kind]})" for kind in kinds)


SPANS = re.compile(alternatives(PATTERNS))
PLAIN_SPANS = re.compile(alternatives(kind for kind in PATTERNS if kind != "link"))
# Signs that every span has, and every link. Most sentences have none of them, and are done faster.
POSSIBLE = re.compile(rf"[\d@#$%{{<>&`\[_\u20e3\uf100-\uf2ff{EMOJI}]|\.\w|[:;][-()DPp/|]")
POSSIBLE_LINK = re.compile(r"@|\.[^\W\d]|://|www\.|localhost:")


EDGES = "\"'.,;:!?…()[]{}«»„“”‚‘’¿¡–—*-"  # marks before and after a word
PRIVATE = re.compile("[\ue000-\uf8ff]")  # placeholders, and what stands for markup in documents
CODE = re.compile(r"[_\\=<>{}()@#$%^&*|~`+:\[\]]|\w\.\w|[a-z][A-Z]")  # a=b, a.b, aB
MIXED = re.compile(r"[A-Za-z]\d|\d[A-Za-z]")  # 10px
WORD_PARTS = re.compile(r"[\w\u0300-\u036f]+")  # between hyphens, apostrophes, slashes
# zh-Hans-CN, es-419; UUIDs; --no-color. Not navbar-light, which may be words: rendez-vous.
IDENTIFIER = re.compile(
    r"[a-z]{2,3}(?:-[A-Z][a-z]{3})?(?:-[A-Z]{2}|-\d{3})"
    r"|[\da-fA-F]{8}(?:-[\da-fA-F]{4}){3}-[\da-fA-F]{12}"
    r"|--[a-z\d]+(?:-[a-z\d]+)+"
)
PATH = re.compile(r"[.~]{0,2}/|[a-z\d./-]+$|[^/]*/[^/]*/")  # ../a, a/b, A/B/C
WHOLE = re.compile(r"\w\(\)|^--\w+-")  # print(), --no-color: marks that are no punctuation
PLURAL = re.compile(r"(?<=\w)\(-?[a-z]{1,3}\)(?=[^\w]{0,9}$)")  # file(s)
DOUBLE_LETTER = re.compile(r"([A-Za-z])\1")
# d. MMM yyyy, yyyy年M月d日; not Екатерина II, which has letters of another script side by side, nor
# Fødd, which has letters of Latin beyond ASCII
DATE_PATTERN = re.compile(
    r"(?:([A-Za-z])\1*(?![A-Za-z])|[\x00-\x40\x5b-\x60\x7b-\x7f]"
    r"|[^\x00-\x7f\u00c0-\u024f](?![^\x00-\x7f]))+"
)
FONT_NAMES = re.compile(r".+, ?(?:serif|sans-serif|monospace|system-ui)")
# Scripts without spaces between words, in which a sentence is one token.
NO_SPACES = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-"
    "\u17ff\u3005-\u30ff\u31f0-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)


def has_words(text: str) -> bool:
    """Whether a text has a word of any language, so that there is something to translate.

    Identifiers, paths, colours, UUIDs, base64, locales, fonts, date patterns and codes of three
    capital letters have none. The shape of what stands between spaces decides, in any language; no
    list of words does.
    """
    tokens = [bare(token) for token in PRIVATE.sub(" ", text).split()]
    if len(tokens) == 1 and re.fullmatch("[A-Z]{3}", tokens[0]):  # EUR
        return False
    if FONT_NAMES.fullmatch(text) or is_date_pattern(text):
        return False
    if not text.isascii() or re.search("[A-Z.!?]", text):
        return any(map(is_word, tokens))
    # In small letters alone, as a list of names may be: node node_modules.
    return sum(map(is_word, tokens)) > sum(map(is_code, tokens))


def bare(token: str) -> str:
    """A token without the marks around it, and without the ending of file(s)."""
    if WHOLE.search(token):
        return token
    return PLURAL.sub("", token).strip(EDGES)


def is_word(token: str) -> bool:
    """Whether a bare token is a word, or has one between hyphens, apostrophes or slashes."""
    if NO_SPACES.search(token):
        return True
    token = without_shortcut(token)
    if is_code(token):
        return False
    return any(map(is_word_part, WORD_PARTS.findall(token)))


def without_shortcut(token: str) -> str:
    """A word without the sign for its key on the keyboard: _File, E&xit."""
    for sign in "&_~":
        word = token.replace(sign, "", 1)
        if word.isalpha() and (token.startswith(sign) or word.istitle()):
            return word
    return token


def is_code(token: str) -> bool:
    """Whether a token is written as people write identifiers, paths or values."""
    if not any(map(str.isalpha, token)):
        return False
    is_path = "/" in token and PATH.match(token)
    if is_path or CODE.search(token) or IDENTIFIER.fullmatch(token):
        return True
    # Digits beside letters, as in 10px, but not where a word follows, as in 3D-Drucker.
    has_mixed = False
    for part in WORD_PARTS.findall(token):
        if len(part) > 2 and part.isalpha() and not part.isupper():
            return False
        has_mixed |= MIXED.search(part) is not None
    return has_mixed


def is_word_part(part: str) -> bool:
    """Whether letters may be a word; digits and Latin consonants alone, such as px, are none."""
    if not part.isascii():
        return any(map(str.isalpha, part))
    # l, r, w and y can be the vowel of a word, as in Czech vlk and Welsh cwm
    has_vowel = re.search("[aeiouylrw]", part.lower()) is not None
    return part.isalpha() and (len(part) == 1 or has_vowel)


def is_date_pattern(text: str) -> bool:
    """Whether each run of Latin letters is one letter, repeated in one of them: d. MMM yyyy."""
    return DOUBLE_LETTER.search(text) is not None and DATE_PATTERN.fullmatch(text) is not None


class Span(NamedTuple):
    """A part of a text that is copied."""

    start: int
    end: int
    text: str
    kind: str  # a key of PATTERNS


def find_spans(text: str, tags: Collection[str] = ()) -> list[Span]:
    """The spans of a text that must not be translated, from left to right.

    `tags` are pieces of the tokenizer and stay text.
    """
    if not POSSIBLE.search(text):
        return []
    pattern = SPANS if POSSIBLE_LINK.search(text) else PLAIN_SPANS
    spans = []
    for match in pattern.finditer(text):
        if match[0] not in tags:
            spans.append(Span(*match.span(), match[0], match.lastgroup or ""))
    return spans


@dataclass(frozen=True)
class Protected:
    """A text with placeholders, what they stand for, and whether the original is in capitals."""

    text: str
    spans: dict[str, str] = field(default_factory=dict)
    capitals: bool = False

    @property
    def apart(self) -> set[str]:
        """The placeholders that begin the text or stand behind a space, an opening bracket …"""
        apart = set[str]()
        if self.spans:
            for before, after in pairwise(["", *self.text]):
                if after in self.spans and not needs_space_behind(before, self.spans):
                    apart.add(after)
        return apart

    def encoded(self, ids: Iterable[int]) -> "Encoded":
        """The ids of the text, with what its placeholders stand for."""
        return Encoded(ids, self.spans, self.capitals, self.apart)


class Encoded(list[int]):
    """Ids of pieces with what their placeholders stand for.

    `apart` are the placeholders that stand apart in the source. The translation begins with the ids
    `begin`. A slice has all this too.
    """

    def __init__(
        self,
        ids: Iterable[int],
        spans: dict[str, str] | None = None,
        capitals: bool = False,
        apart: Collection[str] = (),
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
        ids = super().__getitem__(index)
        return self.like(ids) if isinstance(index, slice) else ids


def protect(
    text: str, tags: Collection[str] = (), placeholders: Collection[str] = PLACEHOLDERS
) -> Protected:
    """A source as it is encoded in use, with one of `placeholders` for each span."""
    spans = find_spans(text, tags)
    start = sentence_start(text, tags)
    assigned = assign_placeholders(spans, placeholders)
    capitals = in_capitals(text, spans, start)
    for span, placeholder in zip(spans, assigned, strict=True):
        if placeholder is None and span.text.lower() != span.text.upper():
            capitals = False  # its letters would not come back as they were
    return replace_spans(text, spans, assigned, capitals, start)


def protect_pair(
    source: str,
    target: str,
    tags: Collection[str] = (),
    placeholders: Collection[str] = PLACEHOLDERS,
) -> tuple[Protected, Protected]:
    """A pair as it is trained on, with placeholders for spans that are as often on both sides."""
    source_spans = find_spans(source, tags)
    target_spans = find_spans(target, tags)
    source_start = sentence_start(source, tags)
    target_start = sentence_start(target, tags)
    capitals = in_capitals(source, source_spans, source_start)
    capitals = capitals and in_capitals(target, target_spans, target_start)

    # Spans that occur equally often on both sides
    in_source = Counter(span.text for span in source_spans)
    in_target = Counter(span.text for span in target_spans)
    on_both = {text for text, count in in_source.items() if count == in_target[text]}
    source_spans = [span for span in source_spans if span.text in on_both]
    target_spans = [span for span in target_spans if span.text in on_both]

    # The same text has the same placeholders on both sides, from left to right
    for_source = assign_placeholders(source_spans, placeholders)
    by_text: dict[str, list[str | None]] = {}
    for span, placeholder in zip(source_spans, for_source, strict=True):
        by_text.setdefault(span.text, []).append(placeholder)
    for_target = [by_text[span.text].pop(0) for span in target_spans]
    return (
        replace_spans(source, source_spans, for_source, capitals, source_start),
        replace_spans(target, target_spans, for_target, capitals, target_start),
    )


def with_placeholders(text: str, source: Protected) -> str:
    """The beginning of a translation with the placeholders of its source.

    It is in small letters where the source is.
    """
    spans = find_spans(text)
    left: dict[str, list[str]] = {}
    for placeholder, span_text in source.spans.items():
        left.setdefault(span_text, []).append(placeholder)
    placeholders: list[str | None] = []
    for span in spans:
        same = left.get(span.text)
        placeholders.append(same.pop(0) if same else None)
    return replace_spans(text, spans, placeholders, source.capitals).text


def restore(text: str, source: Iterable[int] | Protected, before: str = "") -> str:
    """A decoded text, or one piece of it, with what its placeholders stand for in `source`.

    A placeholder that stood apart in the source is kept apart from a word, a mark or another one
    before it. A number is kept apart from digits behind it, so that two numbers never become one.
    `before` is the character before the piece.
    """
    if not isinstance(source, Encoded | Protected) or not (source.spans or source.capitals):
        return text
    if source.capitals:
        text = to_capitals(text)
    parts = []
    apart = source.apart
    for character in text:
        is_apart = character in apart or (before in NUMBERS and character.isdecimal())
        if is_apart and needs_space_behind(before, source.spans):
            parts.append(" ")
        before = character
        parts.append(source.spans.get(character, character))
    return "".join(parts)


def needs_space_behind(before: str, spans: Collection[str]) -> bool:
    """Whether a placeholder behind this character needs a space between them."""
    return before in spans or ENDS_WORD.match(before) is not None


def changed_spans(
    source: str,
    translation: str,
    tags: Collection[str] = (),
    placeholders: Collection[str] = PLACEHOLDERS,
) -> list[str]:
    """The spans that one text has more often than the other: what was lost, then what was added.

    All kinds of space are the same. Without placeholders for numbers the model writes these itself,
    and they are not compared.
    """
    source = SPACES.sub(" ", source)
    translation = SPACES.sub(" ", translation)
    ignored = "number" if set(NUMBERS).isdisjoint(placeholders) else ""
    before = Counter(span.text for span in find_spans(source, tags) if span.kind != ignored)
    after = Counter(span.text for span in find_spans(translation, tags) if span.kind != ignored)
    # Its neighbours decide where a span begins and ends: it is -3 alone, but 3 in (-3).
    lost = [span for span in before - after if translation.count(span) < source.count(span)]
    added = [span for span in after - before if source.count(span) < translation.count(span)]
    return lost + added


def unprotected(protected: Protected, placeholders: Collection[str]) -> Protected:
    """The same without these placeholders: what they stand for is text."""
    text = protected.text
    spans = dict(protected.spans)
    for placeholder in placeholders:
        span = spans.pop(placeholder)
        if protected.capitals:
            span = in_small_letters(span)
        text = text.replace(placeholder, span)
    return Protected(text, spans, protected.capitals)


def assign_placeholders(spans: list[Span], placeholders: Collection[str]) -> list[str | None]:
    """The placeholder of each span, None where there is none left of its kind."""
    numbers = iter(NUMBERS)
    others = iter(OTHERS)
    assigned: list[str | None] = []
    for span in spans:
        free = numbers if span.kind == "number" else others
        placeholder = next(free, None)
        if placeholder not in placeholders:
            placeholder = None
        assigned.append(placeholder)
    return assigned


def replace_spans(
    text: str,
    spans: list[Span],
    placeholders: list[str | None],
    capitals: bool,
    start: int = 0,
) -> Protected:
    """A text with placeholders for its spans, but for those whose placeholder is None.

    If it is in capitals, it is in small letters from `start` on; before that, there are tags. A
    character of the text that is one of these placeholders becomes a space.
    """
    own = {ord(placeholder): " " for placeholder in placeholders if placeholder is not None}
    parts = []
    filled = {}
    end = 0
    for span, placeholder in zip(spans, placeholders, strict=True):
        if placeholder is not None:
            parts += [text[end : span.start].translate(own), placeholder]
            filled[placeholder] = span.text
            end = span.end
    joined = "".join(parts) + text[end:].translate(own)
    if capitals:
        joined = joined[:start] + in_small_letters(joined[start:])
    return Protected(joined, filled, capitals)


def in_capitals(text: str, spans: list[Span], start: int = 0) -> bool:
    """Whether there are at least four letters outside the spans, and all of them are capitals.

    Letters before `start` do not count.
    """
    end = start
    outside = ""
    for span in spans:
        outside += text[end : span.start]
        end = span.end
    letters = list(filter(str.isalpha, outside + text[end:]))
    return len(letters) >= 4 and all(map(is_capital, letters)) and any(map(str.isupper, letters))


def is_capital(letter: str) -> bool:
    """Whether a letter is a capital, or has no capital of its own, as ß and ideographs."""
    return letter == letter.upper() or len(letter.upper()) > 1


def to_capitals(text: str) -> str:
    """A text in capitals. In languages that have ı, such as Turkish, İ is the capital of i."""
    if "ı" in text:
        text = text.replace("i", "İ")
    return text.upper()


def in_small_letters(text: str) -> str:
    """A text in small letters. In languages that have İ, such as Turkish, I is the capital of ı."""
    if "İ" in text:
        text = text.replace("I", "ı").replace("İ", "i")
    return text.lower()

"""The paired rules: the rule files, parsed and checked.

    np definite 5                         category, name, weight (1 unless given)
        N: noun $                         a slot: what may fill it
    de  {der N} {N}                       German, and
    en  the~der {N}                       English; more pairs: variants with the same slots

The syntax of slots and tokens is described in README.md.
"""

import math
import re
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path

from generator.tables import Line, read

KINDS = ("noun", "pronoun", "verb", "adjective", "word")
# masc: German masculine singular
NUMBERS = ("sg", "pl", "article", "count", "mass", "bare", "name", "masc")
TOKEN = re.compile(
    r"\{([^{}]*)\}((?:~[A-Za-z0-9äöüß.]+\??)*)|([^\s~{}]+)((?:~[A-Za-z0-9äöüß.]+\??)*)"
)
PUNCTUATION = (".", ",", "!", "?", ";", ":")


@dataclass(frozen=True)
class Slot:
    """What may fill a slot of a rule: a part of speech or a category, with its classes and
    restrictions."""

    name: str
    kind: str
    classes: tuple[str, ...]
    only: tuple[str, ...]  # in brackets: numbers, and names of rules of the category
    line: Line

    @property
    def governor(self) -> str:
        """The verb slot whose object this is, or nothing."""
        return next((word.split(".")[0] for word in self.classes if word.endswith(".object")), "")


@dataclass(frozen=True)
class Token:
    """A word, or a slot in braces, whose content is `words`; words of both sides with the same
    label are linked."""

    words: tuple[str, ...]
    labels: tuple[tuple[str, bool], ...]  # label, sure
    literal: bool
    line: Line


@dataclass
class Variant:
    """A German and an English line of a rule, as tokens."""

    german: list[Token]
    english: list[Token]
    line: Line


@dataclass
class Rule:
    """A rule: one way to build a category."""

    category: str
    name: str
    weight: float
    line: Line
    slots: dict[str, Slot] = field(default_factory=dict)
    variants: list[Variant] = field(default_factory=list)


def read_rules(folder: Path, files: Collection[str] = ()) -> list[Rule]:
    """The rules of all files in a folder, or of some; raises PhrasebookError for a line that cannot
    be understood."""
    rules: list[Rule] = []
    names: dict[tuple[str, str], Line] = {}
    for path in sorted(folder.glob("*.txt")):
        if files and path.name not in files:
            continue
        german: Line | None = None
        for line in read(path):
            first, _, rest = line.text.strip().partition(" ")
            if german and first != "en":
                raise german.error("expected a line `en …` behind this line `de …`.")
            if first == "de":
                german = line
            elif first == "en":
                if not german or not rules or not rules[-1].line.file == line.file:
                    raise line.error("expected a line `de …` in front of this line `en …`.")
                rules[-1].variants.append(
                    Variant(*punctuated(tokens(german), tokens(line)), german)
                )
                german = None
            elif first.endswith(":"):
                if not rules or rules[-1].variants or rules[-1].line.file != line.file:
                    raise line.error(
                        "expected slots behind the first line of a rule and in front of `de …`."
                    )
                add_slot(rules[-1], first[:-1], rest, line)
            else:
                rule = parse_header(line)
                if (rule.category, rule.name) in names:
                    first_line = names[rule.category, rule.name]
                    raise line.error(
                        f"expected another name; {first_line.file}, line {first_line.number} has "
                        "this one."
                    )
                names[rule.category, rule.name] = line
                rules.append(rule)
        if german:
            raise german.error("expected a line `en …` behind this line `de …`.")
    for rule in rules:
        if not rule.variants:
            raise rule.line.error("expected lines `de …` and `en …` for this rule.")
    return rules


def parse_header(line: Line) -> Rule:
    """The first line of a rule, such as `np definite 5`: category, name and weight."""
    words = line.text.split()
    if not 2 <= len(words) <= 3 or not re.fullmatch(r"[a-z]+", words[0]):
        raise line.error("expected CATEGORY NAME [WEIGHT], a slot `X: …`, `de …` or `en …`.")
    try:
        weight = float(words[2]) if len(words) == 3 else 1.0
    except ValueError:
        raise line.error(f"expected a number as weight, not '{words[2]}'.") from None
    if not 0 < weight < math.inf:
        raise line.error(f"expected a weight above 0, not '{words[2]}'.")
    return Rule(words[0], words[1], weight, line)


def add_slot(rule: Rule, name: str, rest: str, line: Line) -> None:
    """Add a slot to a rule, from a line such as `O: known V.object (definite sg)`."""
    if not re.fullmatch(r"[A-Z][A-Z0-9]*", name) or name in rule.slots:
        raise line.error("expected a new slot name in capital letters.")
    match = re.fullmatch(r"([a-z]+)\s*([^()]*?)\s*(?:\(([^()]*)\))?", rest.strip())
    if not match:
        raise line.error("expected KIND CLASSES (RESTRICTIONS) behind the colon.")
    rule.slots[name] = Slot(
        name, match[1], tuple(match[2].split()), tuple((match[3] or "").split()), line
    )


def punctuated(german: list[Token], english: list[Token]) -> tuple[list[Token], list[Token]]:
    """Link punctuation that has no label: mark by mark where both sides have as many, else only the
    last full stops."""
    for mark in PUNCTUATION:
        sides = [
            [
                index
                for index, token in enumerate(side)
                if token.words == (mark,) and not token.labels
            ]
            for side in (german, english)
        ]
        if len(sides[0]) != len(sides[1]):
            sides = [indices[-1:] if mark in ".!?" else [] for indices in sides]
        for number, (left, right) in enumerate(zip(*sides, strict=False)):
            german[left] = replace(german[left], labels=((f"{mark}{number}", True),))
            english[right] = replace(english[right], labels=((f"{mark}{number}", True),))
    return german, english


def tokens(line: Line) -> list[Token]:
    """The tokens behind `de` or `en`."""
    text = line.text.strip()[2:].strip()
    parsed: list[Token] = []
    end = 0
    for match in TOKEN.finditer(text):
        if text[end : match.start()].strip():
            raise line.error(
                f"expected words and {{…}} separated by spaces, not "
                f"'{text[end : match.start()].strip()}'."
            )
        if parsed and match.start() == end:
            raise line.error(f"expected a space in front of '{text[end:]}'.")
        end = match.end()
        literal = match[1] is None
        words = (match[3],) if literal else tuple(match[1].split())
        if not words:
            raise line.error("expected a slot or a word in the braces.")
        if literal and len(words[0]) > 1 and words[0][-1] in PUNCTUATION:
            raise line.error(f"expected a space in front of the mark in '{words[0]}'.")
        marks = (match[4] if literal else match[2]) or ""
        labels = tuple(
            (mark.rstrip("?"), not mark.endswith("?")) for mark in marks.split("~") if mark
        )
        parsed.append(Token(words, labels, literal, line))
    if text[end:].strip() or not parsed:
        raise line.error(
            f"expected words and {{…}} separated by spaces, not '{text[end:].strip()}'."
        )
    return parsed

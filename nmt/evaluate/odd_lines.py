"""The list of odd lines, German, with what must come through unchanged; it is what rough input is measured with.

Each row of odd_lines.tsv: the kind of the line, the line, and the items that must stand in its translation.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PATH = Path(__file__).with_name("odd_lines.tsv")
TOKEN = re.compile(r"\w+|[^\w\s]")
LETTERS = re.compile(r"([^\W\d_]{1,4}?)\1{3,}", re.IGNORECASE)


@dataclass(frozen=True)
class OddLine:
    """A line with the items that are to be kept."""

    kind: str
    text: str
    items: tuple[str, ...]


@dataclass(frozen=True)
class OddResult:
    """An odd line, its translation, the items that it has lost, and whether it ends in a loop."""

    line: OddLine
    translation: str

    @property
    def lost(self) -> list[str]:
        """The items that stand in the translation less often than among the items."""
        wanted = Counter(self.line.items)
        return [item for item, count in wanted.items() if self.translation.count(item) < count]

    @property
    def loops(self) -> bool:
        """Whether the translation repeats what the line does not."""
        return is_loop(self.line.text, self.translation)

    @property
    def blank(self) -> bool:
        """Whether nothing was written for a line that is not blank."""
        return bool(self.line.text.strip()) and not self.translation.strip()

    def failure(self) -> str:
        """What is wrong, in words; empty if nothing is."""
        lost = [f"lost {item}" for item in self.lost]
        return ", ".join([*lost, *(["loop"] if self.loops else []), *(["blank"] if self.blank else [])])


def read_odd_lines() -> list[OddLine]:
    """The lines of the list, in order."""
    rows = PATH.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    return [OddLine(kind, text, tuple(items)) for kind, text, *items in (row.split("\t") for row in rows)]


def odd_report(results: Sequence[OddResult]) -> list[str]:
    """A line with tabs for each kind and for all (lines, items kept, loops, blank), then one for each failure."""
    lines = ["kind\tlines\titems kept\tloops\tblank"]
    kinds = dict.fromkeys(result.line.kind for result in results)
    for kind in [*kinds, "all"]:
        chosen = [result for result in results if kind in (result.line.kind, "all")]
        items = sum(len(set(result.line.items)) for result in chosen)
        kept = f"{items - sum(len(result.lost) for result in chosen)}/{items}" if items else "-"
        loops, blank = (sum(values) for values in zip(*((each.loops, each.blank) for each in chosen), strict=True))
        lines.append(f"{kind}\t{len(chosen)}\t{kept}\t{loops}\t{blank}")
    failed = [(result, failure) for result in results if (failure := result.failure())]
    lines += [f"{result.line.kind}\t{result.line.text}\t{result.translation}\t{failure}" for result, failure in failed]
    return lines


def is_loop(source: str, translation: str) -> bool:
    """Whether a span of words stands more often in a row than twice, and than any span of the source.

    Letters count as well: `hahahaha`, where the source has no such word.
    """
    allowed = max(2, most_repeats(TOKEN.findall(source.lower())))
    if most_repeats(TOKEN.findall(translation.lower())) > allowed:
        return True
    return LETTERS.search(translation) is not None and LETTERS.search(source) is None


def most_repeats(words: Sequence[str]) -> int:
    """How often the most repeated span stands in a row, 1 without any; a mark alone, as in ..., is no span."""
    most = 1
    for period in range(1, len(words) // 2 + 1):
        run = 0
        for before, word in zip(words, words[period:], strict=False):
            run = run + 1 if before == word and (period > 1 or word.isalnum()) else 0
            most = max(most, 1 + run // period)
    return most

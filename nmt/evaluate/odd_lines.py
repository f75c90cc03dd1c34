"""The list of odd lines, German, with what must come through unchanged; it is what rough input is
measured with."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from nmt.evaluate.loops import is_loop

PATH = Path(__file__).with_name("odd_lines.tsv")


class OddLine(NamedTuple):
    """A row of odd_lines.tsv: the kind of the line, the line, and the items that must stand in its
    translation."""

    kind: str
    text: str
    items: tuple[str, ...]


def read_odd_lines() -> list[OddLine]:
    """The lines of the list, in order."""
    rows = PATH.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    return [
        OddLine(kind, text, tuple(items))
        for kind, text, *items in (row.split("\t") for row in rows)
    ]


def odd_report(lines: Sequence[OddLine], translations: Sequence[str]) -> list[str]:
    """A line with tabs for each kind and for all (lines, items kept, loops, blank), then one for
    each failure.

    An item is lost where it stands in the translation less often than among the items of its line.
    """
    counts: dict[str, Counter[str]] = {}
    failed = []
    for line, translation in zip(lines, translations, strict=True):
        lost = [
            item for item, count in Counter(line.items).items() if translation.count(item) < count
        ]
        loop = int(is_loop(line.text, translation))
        blank = int(not translation.strip() and bool(line.text.strip()))
        for kind in (line.kind, "all"):
            items = len(set(line.items))
            found = {
                "lines": 1,
                "items": items,
                "kept": items - len(lost),
                "loops": loop,
                "blank": blank,
            }
            counts.setdefault(kind, Counter()).update(found)
        if failure := ", ".join(
            [*(f"lost {item}" for item in lost), *["loop"] * loop, *["blank"] * blank]
        ):
            failed.append(f"{line.kind}\t{line.text}\t{translation}\t{failure}")
    report = ["kind\tlines\titems kept\tloops\tblank"]
    for kind in sorted(counts, key=lambda kind: kind == "all"):
        each = counts[kind]
        kept = f"{each['kept']}/{each['items']}" if each["items"] else "-"
        report.append(f"{kind}\t{each['lines']}\t{kept}\t{each['loops']}\t{each['blank']}")
    return report + failed

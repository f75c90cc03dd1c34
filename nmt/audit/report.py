"""What the audit found in one set of pairs: counts by fault, first examples, misaligned blocks, as table and HTML page.

The page needs no other file.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nmt.audit.faults import BOTH
from nmt.data.origin import Origin
from nmt.view.page import Table, html_page
from nmt.view.text import escape_html

OTHER_LANGUAGES = "languages not as named"
UNMATCHED = "line without a counterpart"
# What each fault means, and what to do about it.
MEANINGS = {
    "both sides blank": "The lines hold nothing; training drops them.",
    "one side blank": "One line has no translation; training drops the pair.",
    OTHER_LANGUAGES: "The script or the most frequent words are those of another language.",
    UNMATCHED: "One file has more lines than the other: lines are missing, perhaps before a shift.",
    "not UTF-8": "The line has bytes that are no UTF-8; convert the file. Training refuses it.",
    "characters of a wrong encoding": "UTF-8 that was read as Latin-1 or Windows-1252 (Ã¼ for ü), U+FFFD, or M?ller.",
    "byte order mark": "U+FEFF. At the start of a file it is removed when read; elsewhere it becomes part of a word.",
    "control characters": "Characters that control a terminal or the direction of text.",
    "invisible characters": "A tab, a carriage return or U+2028 in the line, a soft hyphen, a zero-width space.",
    "unusual spaces": "No-break, thin or ideographic spaces; they are read as plain ones.",
    "HTML entities": "Such as &amp;, which stands for &.",
    "quoted as in a table": 'The line is in quotation marks with "" inside, as spreadsheets write it.',
    "tags": "Tags of HTML, such as <br>. Not reported where a twentieth of the pairs have them on both sides.",
    "duplicate": "The pair repeats an earlier one to the letter.",
    "near duplicate": "The pair has the words of an earlier one, apart from case, punctuation and order.",
    "in valid or test": "Both sides are those of a pair of a validation or test set: scores would be too good.",
    "a side in valid or test": "One side is a sentence of a validation or test set.",
    "both sides equal": "At least three words, the same on both sides.",
    "partly untranslated": "At least half of the target's longer words in small letters are also in the source.",
    "another script": "A third of the letters are of a script that the side does not use, or Latin and Cyrillic touch.",
    "in the other language": "The line reads like the other side's language.",
    "unlike the rest": "Most words are unknown to the rest of the side, its characters rare: another language.",
    "in a misaligned block": "By lengths, shared words and numbers these lines do not belong together.",
    "too long": "Longer than data.max_characters; training drops the pair.",
    "lengths too unlike": "More than data.max_length_ratio; training drops the pair.",
    "unusual difference of lengths": "More than data.audit_deviation standard deviations from what is usual.",
    "number not on both sides": "A number from three digits on is on one side only, or no number is on both.",
    "looks tokenized": "A full stop or comma between spaces. Not reported where most lines have them.",
    "all in capitals": "At least three words, and no small letter. Not reported where a twentieth of the pairs are so.",
    "no capital letters": "Begins with a small letter and has no capital. Not reported where that is usual.",
}


@dataclass
class Fault:
    pairs: int = 0
    examples: list[dict[str, Any]] = field(default_factory=list)  # place, and texts or a remark


@dataclass
class SetReport:
    name: str
    pairs: int = 0
    faults: dict[str, Fault] = field(default_factory=dict)
    origins: list[dict[str, Any]] = field(default_factory=list)

    def add(self, kind: str, pairs: int, examples: Sequence[dict[str, Any]], most: int) -> None:
        """Count pairs with a fault; `most` examples are kept."""
        if pairs:
            fault = self.faults.setdefault(kind, Fault())
            fault.pairs += pairs
            fault.examples += examples[: most - len(fault.examples)]

    def by_frequency(self) -> list[tuple[str, Fault]]:
        return sorted(self.faults.items(), key=lambda item: -item[1].pairs)

    def rows(self) -> Iterator[tuple[str, str, int, str]]:
        """(set, fault, pairs, first places) of each fault."""
        for kind, fault in self.by_frequency():
            yield self.name, kind, fault.pairs, ", ".join(example["place"] for example in fault.examples[:3])

    def notes(self) -> Iterator[str]:
        """A sentence for each origin: what was read, and how most of it is written."""
        for origin in self.origins:
            about = [f"{key}: {origin[key]}" for key in ("tokenized", "in small letters") if key in origin]
            throughout = f" (throughout {', '.join(about)})" if about else ""
            problem = f"; {origin['problem']}" if "problem" in origin else ""
            yield f"{origin['pairs']:,} pairs of {origin['origin']}{throughout}{problem}"


def place(origin: Origin, number: int, side: int = BOTH) -> str:
    """FILE:LINE, of the target's file for a fault of the target; `FILE, pair N` where pairs are no lines."""
    if origin.sides is None:
        return f"{origin.place}, pair {number}"
    return f"{origin.sides[side == 1]}:{number}"


def page(reports: Sequence[SetReport], provenance: Mapping[str, str]) -> str:
    """The HTML page; `provenance` says what was looked at, and with which thresholds."""
    about = Table("How it was made", ("setting", "value"), list(provenance.items()))
    return html_page("Audit", "\n".join(["<h1>Audit of sentence pairs</h1>", *map(set_html, reports), about.html()]))


def set_html(report: SetReport) -> str:
    faults = report.by_frequency()
    rows = [(kind, f"{fault.pairs:,}", f"{100 * fault.pairs / max(1, report.pairs):.3g} %") for kind, fault in faults]
    notes = [*report.notes(), *([] if faults else ["No fault was found."])]
    lines = [Table(f"{report.name}: {report.pairs:,} pairs", ("fault", "pairs", "share"), rows, notes).html()]
    for kind, fault in faults:
        lines.append(f"<details><summary>{escape_html(kind)}</summary>")
        lines.append(f'<p class="note">{escape_html(MEANINGS.get(kind, ""))}</p><ul>')
        for example in fault.examples:
            where = escape_html(f"{example['place']} {example.get('remark', '')}".strip())
            texts = "".join(f'<br><bdi dir="auto">{escape_html(text)}</bdi>' for text in example.get("texts", []))
            lines.append(f'<li><span class="note">{where}</span>{texts}</li>')
        lines.append("</ul></details>")
    return "\n".join(lines)

"""What the audit found in one set of pairs, as table and HTML page.

The page needs no other file.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nmt.audit.profile import SMALL_LETTERS, TOKENIZED
from nmt.corpus.checks import ENTITIES, SUBWORDS, Pair
from nmt.view.page import Table, html_page
from nmt.view.text import escape_html

LONGEST_EXAMPLE = 300  # characters
OTHER_LANGUAGES = "languages not as named"
UNMATCHED = "line without a counterpart"

# How a whole text is written, and what to do about it
HABITS = {
    TOKENIZED: "detokenize it, as Moses does, or translate tokenized text",
    SMALL_LETTERS: "train with tokenizer.lowercase=true, or translate text in small letters",
    ENTITIES: "write the characters for which they stand, or translate text with entities",
    SUBWORDS: "join them, as nmt divides words itself",
}
TABLE = Path(__file__).with_name("meanings.tsv").read_text(encoding="utf-8").splitlines()
# what each fault means, and what to do about it
MEANINGS = dict(line.split("\t") for line in TABLE)


@dataclass
class Fault:
    pairs: int = 0
    examples: list[dict[str, Any]] = field(default_factory=list)  # place, and texts or a remark


@dataclass
class SetReport:
    name: str
    pairs: int = 0
    unjudged: int = 0  # pairs, by the models
    faults: dict[str, Fault] = field(default_factory=dict)
    origins: list[dict[str, Any]] = field(default_factory=list)

    def add(
        self,
        kind: str,
        pairs: int,
        places: Sequence[str],
        shown: Sequence[Pair | str],
        most: int,
    ) -> None:
        """Count pairs with a fault; `most` examples are kept.

        `places`, `shown`: where the first pairs are, and their texts or a remark about them.
        """
        if not pairs:
            return
        fault = self.faults.setdefault(kind, Fault())
        fault.pairs += pairs
        for where, content in zip(places, shown[: most - len(fault.examples)], strict=False):
            if isinstance(content, str):
                fault.examples.append({"place": where, "remark": content})
            else:
                fault.examples.append({"place": where, "texts": list(map(readable, content))})

    def by_frequency(self) -> list[tuple[str, Fault]]:
        return sorted(self.faults.items(), key=lambda item: -item[1].pairs)

    def rows(self) -> Iterator[tuple[str, str, int, str]]:
        """(set, fault, pairs, first places) of each fault."""
        for kind, fault in self.by_frequency():
            places = ", ".join(example["place"] for example in fault.examples[:3])
            yield self.name, kind, fault.pairs, places

    def notes(self) -> Iterator[str]:
        """For each origin what was read, and how most of it is written."""
        for origin in self.origins:
            note = f"{origin['pairs']:,} pairs of {origin['origin']}"
            if "problem" in origin:
                note += f"; {origin['problem']}"
            yield note
            for habit in filter(origin.__contains__, HABITS):
                yield (
                    f"{origin['origin']} has {habit} throughout ({origin[habit]}), and a model "
                    f"learns it so; {HABITS[habit]}"
                )
        if self.unjudged:
            yield (
                f"{self.unjudged:,} pairs could not be judged by the models, as blank or very long "
                "ones"
            )


def readable(text: str) -> str:
    """The beginning of a text, its bytes that are not UTF-8 as \\udc80 and the like."""
    return text[:LONGEST_EXAMPLE].encode(errors="backslashreplace").decode()


def page(reports: Sequence[SetReport], provenance: Mapping[str, str]) -> str:
    """The HTML page; `provenance` says what was looked at, and with which thresholds."""
    about = Table("How it was made", ("setting", "value"), list(provenance.items()))
    body = [
        "<main>",
        "<h1>Audit of sentence pairs</h1>",
        *map(set_html, reports),
        about.html(),
        "</main>",
    ]
    return html_page("Audit", "\n".join(body))


def set_html(report: SetReport) -> str:
    faults = report.by_frequency()
    rows = []
    for kind, fault in faults:
        share = 100 * fault.pairs / max(1, report.pairs)
        rows.append((kind, f"{fault.pairs:,}", f"{share:.3g} %"))
    notes = list(report.notes())
    if not faults:
        notes.append("No fault was found.")
    title = f"{report.name}: {report.pairs:,} pairs"
    lines = [Table(title, ("fault", "pairs", "share"), rows, notes).html()]
    for kind, fault in faults:
        lines.append(f"<details><summary>{escape_html(kind)}</summary>")
        lines.append(f'<p class="note">{escape_html(MEANINGS.get(kind, ""))}</p><ul>')
        for example in fault.examples:
            where = escape_html(f"{example['place']} {example.get('remark', '')}".strip())
            item = f'<li><span class="note">{where}</span>'
            for text in example.get("texts", []):
                item += f'<br><bdi dir="auto">{escape_html(text)}</bdi>'
            lines.append(f"{item}</li>")
        lines.append("</ul></details>")
    return "\n".join(lines)

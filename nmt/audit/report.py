"""What the audit found in one set of pairs: counts by fault, first examples, misaligned blocks, with file and line."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from nmt.audit.meanings import MEANINGS
from nmt.audit.parts import Part
from nmt.audit.reading import Reader
from nmt.data.inspect.chunk import BOTH, MISALIGNED
from nmt.data.inspect.misaligned_blocks import MisalignedBlock, merge
from nmt.data.inspect.profile import Profile
from nmt.data.origin import Origin
from nmt.view.audit_page import PageFault, PageSet, audit_page

OTHER_LANGUAGES = "languages not as named"
UNMATCHED = "line without a counterpart"


@dataclass
class Fault:
    """How many pairs of a set have a fault, and the first of them."""

    pairs: int = 0
    examples: list[dict[str, Any]] = field(default_factory=list)  # place, and texts or a remark


@dataclass
class SetReport:
    """What was found in one set."""

    name: str
    pairs: int = 0
    faults: dict[str, Fault] = field(default_factory=dict)
    origins: list[dict[str, Any]] = field(default_factory=list)

    def add(self, kind: str, pairs: int, examples: list[dict[str, Any]], most: int) -> None:
        """Count pairs with a fault; `most` examples are kept."""
        if pairs:
            fault = self.faults.setdefault(kind, Fault())
            fault.pairs += pairs
            fault.examples += examples[: most - len(fault.examples)]

    def add_origin(self, reader: Reader, parts: list[Part], profile: Profile, most: int) -> None:
        """Add what was found in one origin."""
        origin = reader.origin
        for part in parts:
            for kind, count in part.counts.items():
                shown = [example_entry(origin, example) for example in part.examples[kind]]
                self.add(kind, count, shown, most)
        blocks = merge([block for part in parts for block in part.misaligned])
        shown = [misaligned_entry(origin, block) for block in blocks]
        self.add(MISALIGNED, sum(each.last - each.first + 1 for each in blocks), shown, max(most, 20))
        if reader.unmatched:
            longer = int(reader.lines[1] > reader.lines[0])
            texts = f"{reader.lines[0]:,} and {reader.lines[1]:,} lines"
            entry = {"place": place(origin, min(reader.lines) + 1, longer), "remark": texts}
            self.add(UNMATCHED, reader.unmatched, [entry], most)
        for reason, count in reader.skipped.items():
            self.add(f"no pair: {reason}", count, [{"place": str(origin.place), "remark": "record"}], most)
        pairs = sum(part.size for part in parts)
        self.origins.append({"origin": origin.word, "pairs": pairs, "first": self.pairs + 1} | habits(profile))
        self.pairs += pairs

    def add_languages(self, origin: Origin, pairs: int, problem: str | None) -> None:
        """Count all pairs of an origin whose languages are not those that were named."""
        if problem:
            self.origins[-1]["problem"] = problem
            self.add(OTHER_LANGUAGES, pairs, [{"place": place(origin, 1, BOTH), "remark": problem}], len(self.origins))


def example_entry(origin: Origin, example: dict[str, Any]) -> dict[str, Any]:
    """An example as it is reported."""
    return {"place": place(origin, example["number"], example["side"]), "texts": example["texts"]}


def misaligned_entry(origin: Origin, block: MisalignedBlock) -> dict[str, Any]:
    """A block as it is reported."""
    remark = f"to {block.last}, {block.last - block.first + 1} pairs: {block.describe()}"
    return {"place": place(origin, block.first, BOTH), "remark": remark}


def place(origin: Origin, number: int, side: int) -> str:
    """FILE:LINE, of the target's file for a fault of the target; `FILE, pair N` where pairs are no lines."""
    if origin.sides is None:
        return f"{origin.place}, pair {number}"
    return f"{origin.sides[side == 1]}:{number}"


def habits(profile: Profile) -> dict[str, Any]:
    """How most of an origin is written, where single lines are therefore not reported."""
    found = {}
    for name, values in (("tokenized", profile.spaced), ("in small letters", profile.few_capitals)):
        sides = [side for side, value in zip(("source", "target"), values, strict=True) if value]
        if sides:
            found[name] = " and ".join(sides)
    return found


def notes(report: SetReport) -> list[str]:
    """A sentence for each origin: what was read, and how most of it is written."""
    found = []
    for origin in report.origins:
        about = {key: value for key, value in origin.items() if key not in ("origin", "pairs", "first", "problem")}
        throughout = f" (throughout {', '.join(f'{key}: {value}' for key, value in about.items())})" if about else ""
        problem = f"; {origin['problem']}" if "problem" in origin else ""
        found.append(f"{origin['pairs']:,} pairs of {origin['origin']}{throughout}{problem}")
    return found


def page(reports: list[SetReport], provenance: dict[str, str]) -> str:
    """The HTML page."""
    return audit_page([page_set(report) for report in reports], provenance)


def page_set(report: SetReport) -> PageSet:
    """A set as the page shows it."""
    faults = [
        PageFault(kind, fault.pairs, MEANINGS.get(kind, ""), [shown(example) for example in fault.examples])
        for kind, fault in by_frequency(report)
    ]
    return PageSet(report.name, report.pairs, notes(report), faults)


def shown(example: dict[str, Any]) -> tuple[str, list[str]]:
    """An example as place and texts."""
    return f"{example['place']} {example.get('remark', '')}".strip(), example.get("texts", [])


def by_frequency(report: SetReport) -> list[tuple[str, Fault]]:
    """The faults, the most frequent first."""
    return sorted(report.faults.items(), key=lambda item: -item[1].pairs)


def rows(report: SetReport) -> Iterator[tuple[str, str, int, str]]:
    """(set, fault, pairs, first places) of each fault, the most frequent first."""
    for kind, fault in by_frequency(report):
        places = ", ".join(example["place"] for example in fault.examples[:3])
        yield report.name, kind, fault.pairs, places

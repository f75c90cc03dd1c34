"""What was translated before: accepted corrections, and the units of a translation memory."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from nmt.corpus.checks import Pair
from nmt.documents.memory import Match, TranslationMemory
from nmt.serve.corrections import Corrections


@dataclass
class Memory:
    """What is known of a pair of languages. A correction counts more than a unit of the file."""

    languages: tuple[str, str]
    corrections: Corrections | None = None
    units: TranslationMemory | None = None

    def __post_init__(self) -> None:
        self.corrected = TranslationMemory([])
        self.state: int | None = None
        self.lock = threading.Lock()  # held while corrections are read or searched
        self.refresh()

    @property
    def is_stale(self) -> bool:
        """Whether corrections have come, gone, or been accepted since they were read."""
        return self.corrections is not None and self.corrections.state() != self.state

    def refresh(self) -> None:
        """Read the accepted corrections; those that are known already stay in their index.

        While they are read the old ones are found, and if they cannot be read, they are stale.
        """
        if self.corrections is None:
            return
        with self.lock:
            state = self.corrections.state()
            pairs = {}
            for source, correction in self.corrections.accepted_pairs(self.languages):
                pairs[on_one_line(source)] = correction
            if self.corrected.targets.keys() <= pairs.keys():
                for source, correction in pairs.items():
                    self.corrected.add(source, correction)
            else:
                self.corrected = TranslationMemory(list(pairs.items()))
            self.state = state

    def find(self, text: str) -> str | None:
        """The translation of exactly this text, whatever its spaces; None if there is none."""
        source = on_one_line(text)
        target = self.corrected.targets.get(source)
        if target is None and self.units is not None:
            target = self.units.targets.get(source)
        return target

    def find_all(self, texts: Sequence[str]) -> list[Pair]:
        """Those of the texts that have a translation, each with it."""
        found = []
        for text in texts:
            target = self.find(text)
            if target is not None:
                found.append((text, target))
        return found

    def nearest(self, text: str) -> Match | None:
        """The most similar source with its translation; None if none is similar enough."""
        source = on_one_line(text)
        with self.lock:
            nearest = self.corrected.nearest(source)
        match = self.units.nearest(source) if self.units is not None else None
        if match is None or (nearest and nearest.similarity >= match.similarity):
            return nearest
        return match


def on_one_line(text: str) -> str:
    return " ".join(text.split())

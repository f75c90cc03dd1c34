"""The licence of an exported model: the one that its maker names, and what is known about those of its text."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.config.schema import Config
from nmt.data import hub
from nmt.data.corpus import read_report
from nmt.errors import is_printable

OWN = {"phrasebook": "MIT", "multi30k": hub.LICENSE}  # by data.kind


@dataclass(frozen=True)
class Licences:
    """`chosen`: the model's licence (--license), None if none is named; `of_data`: those of the training text."""

    chosen: str | None
    of_data: tuple[str, ...]

    @classmethod
    def of(cls, config: Config, corpus: Path | None, chosen: str | None) -> "Licences":
        """What the configuration says of a built-in corpus, and the report of the run's corpus, if that is still there.

        An origin whose licence the report does not know makes the whole unknown.
        """
        if config.data.kind in OWN:
            return cls(chosen, (OWN[config.data.kind],))
        found = [str(origin.get("license", "")) for origin in origins(corpus)] if corpus else []
        known = [text for text in found if text and is_printable(text)]
        return cls(chosen, tuple(dict.fromkeys(known)) if len(known) == len(found) else ())

    @property
    def sentence(self) -> str:
        """For a README or a model card."""
        own = f"Licence of the model: {self.chosen}." if self.chosen else "No licence is named for the model."
        known = "; ".join(self.of_data) or "unknown; ask the owner of the text"
        return f"{own} Licence of the training text: {known}."


def origins(corpus: Path) -> list[dict[str, Any]]:
    """What the report of a corpus says of each origin of the training pairs."""
    try:
        found = read_report(corpus)["audit"]["train"]["origins"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [each for each in found if isinstance(each, dict)]

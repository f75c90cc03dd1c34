"""What metrics score: translations with their references and sources."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field

from nmt.errors import UserError


@dataclass
class Translated:
    """A translated set: its translations, one or more references of each sentence, and the sources.

    Translations and references are compared in Unicode's form NFC, in which models write: `ü` can
    be one character or two, which look alike.
    """

    hypotheses: Sequence[str]
    references: Sequence[Sequence[str]]  # each of them has a line for each sentence
    sources: Sequence[str] = ()  # only neural metrics read them
    form: str = field(init=False, default="")  # of what was in another form, for signatures

    def __post_init__(self) -> None:
        hypotheses = composed(self.hypotheses)
        references = [composed(lines) for lines in self.references]
        if [hypotheses, *references] != [list(self.hypotheses), *map(list, self.references)]:
            self.form = "|norm:nfc"
        self.hypotheses = hypotheses
        self.references = references

    def check(self) -> None:
        """Raise UserError where the numbers of lines differ, or there are none."""
        if not self.references or not self.references[0]:
            raise UserError("There is nothing to score; the references are empty.")
        count = len(self.hypotheses)
        for lines in self.references:
            if len(lines) != count:
                raise UserError(
                    f"{count} translations cannot be scored against {len(lines)} references."
                )


def composed(lines: Sequence[str]) -> list[str]:
    return [unicodedata.normalize("NFC", line) for line in lines]

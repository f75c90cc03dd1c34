"""The translation of one line: text, score, pieces, and the other hypotheses of the beam."""

from __future__ import annotations

import math
from dataclasses import InitVar, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nmt.decode.translator import Translator


@dataclass
class Translation:
    """The translation of one line.

    `alternatives` holds the other hypotheses of the beam, best first, of a line that was translated in one part;
    `parts` the translations that a longer line is joined from.
    """

    text: str
    score: float  # log-probability / length^α
    source_ids: list[int]
    ids: list[int]
    alternatives: list[Translation] = field(default_factory=list)
    parts: list[Translation] = field(default_factory=list)
    translator: InitVar[Translator | None] = None

    def __post_init__(self, translator: Translator | None) -> None:
        self._translator = translator

    @property
    def nbest(self) -> list[Translation]:
        """The hypotheses of the line, best first: itself, then its alternatives."""
        return [self, *self.alternatives]

    @property
    def confidence(self) -> float:
        """The geometric mean of the probabilities of its pieces and </s>; 1 of a line that was copied or blank."""
        assert self._translator is not None
        length, alpha = len(self.ids) + max(1, len(self.parts)), self._translator.decode.length_penalty
        return math.exp(self.score * length ** (alpha - 1))

    @property
    def pieces(self) -> list[str]:
        """The subword pieces of the text."""
        assert self._translator is not None
        return self._translator.tokenizers.target.pieces(self.ids)

    @cached_property
    def log_probabilities(self) -> list[float]:
        """Of each piece and of </s> (of every part, where the line was translated in parts), by forced decoding."""
        if self.parts:
            return [value for part in self.parts for value in part.log_probabilities]
        if not self.source_ids:
            return []
        assert self._translator is not None
        return self._translator.force_decode((self.source_ids, self.ids)).log_probabilities

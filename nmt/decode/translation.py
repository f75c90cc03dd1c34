"""The translation of one line: text, score, pieces, and the other hypotheses of the beam."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from nmt.data.words import split_into_words, word_fractions
from nmt.decode.confidence import word_log_probabilities
from nmt.decode.forced_decoding import AttentionRecord

if TYPE_CHECKING:
    from nmt.decode.translator import Translator


@dataclass
class Translation:
    """The translation of one line.

    `alternatives` holds the other hypotheses of the beam, best first, of a line that was translated in one part;
    `parts` the translations that a longer line is joined from. `is_copied`: there was nothing to search, since the line
    is blank or has no letter outside its placeholders.
    """

    text: str
    score: float  # log-probability / length^α
    source_ids: list[int]
    ids: list[int]
    alternatives: list[Translation] = field(default_factory=list)
    parts: list[Translation] = field(default_factory=list)
    is_copied: bool = False
    translator: InitVar[Translator | None] = None

    def __post_init__(self, translator: Translator | None) -> None:
        self._translator = translator

    @property
    def nbest(self) -> list[Translation]:
        """The hypotheses of the line, best first: itself, then its alternatives."""
        return [self, *self.alternatives]

    @cached_property
    def word_confidences(self) -> list[tuple[str, float]]:
        """Each word with the probability that it is right (nmt/decode/confidence.py), by forced decoding."""
        assert self._translator is not None
        parts = self.parts or [self]
        records = self._translator.force_decode_all((part.source_ids, part.ids) for part in parts)
        return [pair for part, record in zip(parts, records, strict=True) for pair in part.confidences_of(record)]

    @property
    def confidence(self) -> float:
        """The mean of `word_confidences`, the share of the words that is expected to be right."""
        return self.mean_confidence([confidence for _, confidence in self.word_confidences])

    def mean_confidence(self, confidences: Sequence[float]) -> float:
        """The confidence of the line from those of its words; without words 0, and 1 where nothing was searched."""
        return sum(confidences) / len(confidences) if confidences else float(self.is_copied)

    def confidences_of(self, record: AttentionRecord, tokenized: bool = False) -> list[tuple[str, float]]:
        """The words of a line in one part, which `record` was recorded from, and their confidences."""
        assert self._translator is not None
        words, spans, of_pieces = split_into_words(record.target_pieces, tokenized)
        if self.is_copied:
            return [(word, 1.0) for word in words]
        logs = word_log_probabilities(record.log_probabilities[:-1], word_fractions(of_pieces, spans))
        return list(zip(words, self._translator.calibration.confidences(logs).tolist(), strict=True))

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

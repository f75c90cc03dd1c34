"""A translation of one line: its text, its score, and what is computed of it on demand."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from nmt.data.text_filter import Encoded, changed_spans
from nmt.decode.quality import Quality
from nmt.errors import UserError

if TYPE_CHECKING:
    from nmt.decode.translator import Translator

WordConfidences = list[tuple[str, float]]  # the words of a line, and their confidences


@dataclass
class Translation:
    """The translation of one line: its text and score, and values that are computed on demand.

    alternatives: the other hypotheses of the beam, if the line was translated in one part, or the
        other samples; best first.
    parts: the translations of the parts of a line that was translated in several.
    is_copied: the line was copied, because it is blank or has no word outside its placeholders.
    searched: the log-probability of each piece and of </s> as the search found it, in its number
        format; empty if the engine does not report it.

    A pickle does not contain the model. Values that need it must be read before pickling; those
    that were not raise UserError.
    """

    text: str
    score: float  # log-probability / length^α
    source_ids: Encoded
    ids: Encoded
    alternatives: list[Translation] = field(default_factory=list)
    parts: list[Translation] = field(default_factory=list)
    is_copied: bool = False
    searched: list[float] = field(default_factory=list, repr=False)
    translator: InitVar[Translator | None] = None

    def __post_init__(self, translator: Translator | None) -> None:
        self._translator_or_none = translator  # None after pickling

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"pieces": self.pieces, "_translator_or_none": None}

    @property
    def _translator(self) -> Translator:
        if self._translator_or_none is None:
            raise UserError(
                "This translation was read from a pickle; what needs the model must be read before."
            )
        return self._translator_or_none

    @property
    def nbest(self) -> list[Translation]:
        """All translations of the line: this one, then its alternatives."""
        return [self, *self.alternatives]

    @property
    def searched_parts(self) -> list[Translation]:
        """The parts of the line that were searched one by one: itself if it was not divided."""
        return self.parts or [self]

    @property
    def mean_log_probability(self) -> float:
        """The mean log-probability of the pieces and of </s>, as the search found them."""
        length = len(self.ids) + len(self.searched_parts)  # each part has its </s>
        return self.score * length ** (self._translator.decode.length_penalty - 1)

    @cached_property
    def pieces(self) -> list[str]:
        """The subword pieces of the text."""
        return self._translator.tokenizers.target.pieces(self.ids)

    @cached_property
    def changed_spans(self) -> list[str]:
        """Numbers, addresses and the like that source and translation do not have equally often.

        Empty without tokenizer.protect.
        """
        tokenizers = self._translator.tokenizers
        if not tokenizers.protects:
            return []
        sentences = []
        for part in self.searched_parts:
            start = tokenizers.source.sentence_start(part.source_ids)
            sentences.append(tokenizers.source.decode(part.source_ids[start:]))
        source = " ".join(sentences)
        return changed_spans(
            source, self.text, tokenizers.source.tags, tokenizers.source.placeholders
        )

    @cached_property
    def log_probabilities(self) -> list[float]:
        """The log-probability of each piece and of </s>, in every part, by forced decoding."""
        _, records = next(self._translator.with_records([self]))
        values: list[float] = []
        for record in records:
            if record.source_pieces:  # none for a blank line, which has no probability
                values += record.log_probabilities
        return values

    @cached_property
    def word_confidences(self) -> WordConfidences:
        """The words, each with the probability that it is right, by forced decoding."""
        _, records = next(self._translator.with_records([self]))
        return self._translator.word_confidences(self, records)

    @property
    def confidence(self) -> float:
        """The mean of `word_confidences`: the expected share of right words."""
        return mean_confidence(self, self.word_confidences)

    @cached_property
    def quality(self) -> Quality | None:
        """The expected chrF, and whether the translation is detached or leaves out words.

        None for a copied line, and if nothing was fitted for the run.
        """
        ((_, records),) = self._translator.with_records([self])
        # This sets `quality` of this object, so that the property is not called again
        self._translator.estimate([self], [records])
        return self.quality


def mean_confidence(translation: Translation, words: WordConfidences) -> float:
    """The mean confidence of the words of a line; without words, 1 if it was copied, else 0."""
    if not words:
        return float(translation.is_copied)
    return sum(value for _, value in words) / len(words)

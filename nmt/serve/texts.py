"""Plain text in sentences, as in documents: lines, spaces and what must not be translated stay."""

from collections.abc import Sequence

import numpy as np

from nmt.corpus.languages import base_code
from nmt.data.text_filter import has_words
from nmt.documents.placement import TranslatedSentence, put_back
from nmt.documents.segment import (
    UNITS,
    Part,
    Segment,
    SegmentBuilder,
    segments,
    written,
)
from nmt.documents.translation import sentence_spans
from nmt.documents.word_weights import WordWeights, whole_words


class Text:
    """A text with its sentences, which are segments.

    `keeps_units`: the model copies the private characters of units.
    """

    def __init__(self, text: str, language: str, keeps_units: bool) -> None:
        self.parts = text_parts(text, language)
        self.keeps_units = keeps_units
        # Segments inside others come first. The model gets those with words alone.
        self.segments = list(segments(self.parts))
        self.sentences = [segment for segment in self.segments if has_words(segment.text)]

    def for_model(self) -> list[str]:
        """The sentences as the model gets them."""
        if self.keeps_units:
            return [segment.text for segment in self.sentences]
        return [UNITS.sub(" ", segment.text) for segment in self.sentences]

    def write(self, translations: Sequence[TranslatedSentence]) -> str:
        """The text with a translation for each sentence."""
        remaining = iter(translations)
        for segment in self.segments:
            if not has_words(segment.text):
                set_translation(segment, unchanged(segment.text))
                continue
            sentence = next(remaining)
            # the model has nothing to say; a text is not lost for that
            if not sentence.text.strip():
                sentence = unchanged(segment.text)
            set_translation(segment, sentence)
        return written(self.parts)


def text_parts(text: str, language: str) -> list[Part]:
    """The sentences of each line as segments, and what is between them as it is."""
    parts: list[Part] = []
    end = 0
    begin_of_line = 0
    for line in text.split("\n"):
        for start, stop in sentence_spans(line, base_code(language)):
            parts.append(text[end : begin_of_line + start])
            builder = SegmentBuilder()
            builder.add_text(line[start:stop])
            parts.append(builder.build(line[start:stop]))
            end = begin_of_line + stop
        begin_of_line += len(line) + 1
    parts.append(text[end:])
    return parts


def set_translation(segment: Segment, sentence: TranslatedSentence) -> None:
    if segment.units or segment.tags:
        span = (0, len(segment.text))
        segment.translation = put_back(segment, [span], [sentence])
    else:
        segment.translation = sentence.text


def unchanged(text: str) -> TranslatedSentence:
    """A sentence as its own translation: each word comes from itself."""
    words = whole_words(text)
    return TranslatedSentence(text, WordWeights(words, words, np.eye(len(words))))

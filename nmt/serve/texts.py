"""Plain text in sentences, as in documents: lines, spaces and what must not be translated stay."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from nmt.corpus.languages import base_code
from nmt.corpus.words import Span
from nmt.data.text_filter import has_words
from nmt.documents.memory import plain
from nmt.documents.placement import TranslatedSentence, put_back
from nmt.documents.plain_text import BULLET, ITEM
from nmt.documents.segment import (
    UNITS,
    Part,
    Segment,
    segments,
    text_part,
    written,
)
from nmt.documents.translation import Row, as_it_is, sentence_spans
from nmt.serve.memory import Memory

# What no sentence goes over: the end of a line or a page for some program, or that of a cell
CELL = re.compile(r"[^\t\r\f\v\x85\u2028\u2029]+")
MOST_COMPARED = 50  # sentences of a text for which something similar is looked for


class Sentence(NamedTuple):
    """A sentence of a segment."""

    segment: Segment
    text: str


class Text:
    """A text with its sentences.

    keeps_units: the model copies the private characters of units.
    memory: lines and sentences that it has are answered with it.
    """

    def __init__(
        self, text: str, language: str, keeps_units: bool, memory: Memory | None = None
    ) -> None:
        self.text = text
        self.memory = memory
        self.remembered = 0  # lines and sentences that the memory has
        self.parts = self.split(text, language)
        self.keeps_units = keeps_units
        # Segments inside others come first. The model gets sentences with words alone.
        self.rows: list[Row] = []
        self.sentences: list[Sentence] = []
        for segment in segments(self.parts):
            spans = sentence_spans(segment.text, base_code(language))
            self.rows.append((segment, spans))
            for start, end in spans:
                if has_words(segment.text[start:end]):
                    self.sentences.append(Sentence(segment, segment.text[start:end]))

    def split(self, text: str, language: str) -> list[Part]:
        """The sentences of each line as segments, and what is between them as it is."""
        parts: list[Part] = []
        end = 0
        begin_of_line = 0
        lines = text.split("\n")
        items = sum(ITEM.match(line) is not None for line in lines)
        item = ITEM if items > 1 else BULLET  # "1. Mai" alone is a date
        for line in lines:
            for start, stop in self.spans(line, item, language):
                parts.append(text[end : begin_of_line + start])
                parts.append(self.part(line[start:stop]))
                end = begin_of_line + stop
            begin_of_line += len(line) + 1
        parts.append(text[end:])
        return parts

    def spans(self, line: str, item: re.Pattern[str], language: str) -> list[Span]:
        """The sentences of a line without its bullet, or all of it if the memory has it."""
        if self.memory is not None and self.memory.find(line) is not None:
            start = len(line) - len(line.lstrip())
            return [(start, len(line.rstrip()))]
        bullet = item.match(line)
        begin = bullet.end() if bullet else 0
        spans = []
        for cell in CELL.finditer(line, begin):
            for start, stop in sentence_spans(cell[0], base_code(language)):
                spans.append((cell.start() + start, cell.start() + stop))
        return spans

    def part(self, sentence: str) -> Part:
        """What the memory has of a sentence, or else a segment."""
        remembered = self.memory.find(sentence) if self.memory is not None else None
        if remembered is not None:
            self.remembered += 1
            return remembered
        return text_part(sentence, sentence)

    @property
    def is_remembered(self) -> bool:
        """Whether all of its words come from the memory."""
        return bool(self.remembered) and not self.sentences

    def similar(self) -> list[dict[str, Any]]:
        """What the memory has that is similar: to the line, if it is one, and to its sentences."""
        if self.memory is None:
            return []
        texts = [plain(*sentence) for sentence in self.sentences]
        if sum(len(spans) for _, spans in self.rows) > 1 and "\n" not in self.text.strip():
            texts.insert(0, self.text)
        found = []
        for text in texts[:MOST_COMPARED]:
            match = self.memory.nearest(text)
            if match is not None:
                found.append({"text": text.strip()} | match._asdict())
        return found

    def for_model(self) -> list[str]:
        """The sentences as the model gets them."""
        if self.keeps_units:
            return [sentence.text for sentence in self.sentences]
        return [UNITS.sub(" ", sentence.text) for sentence in self.sentences]

    def write(self, translations: Sequence[TranslatedSentence]) -> str:
        """The text with a translation for each sentence."""
        remaining = iter(translations)
        for segment, spans in self.rows:
            results = []
            for start, end in spans:
                text = segment.text[start:end]
                result = next(remaining) if has_words(text) else as_it_is(text)
                # the model has nothing to say; a text is not lost for that
                if not result.text.strip():
                    result = as_it_is(text)
                results.append(result)
            segment.translation = put_back(segment, spans, results)
        return written(self.parts)

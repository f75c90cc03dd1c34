"""Translates the segments of a document, sentence by sentence, and puts their tags back."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from nmt.data.words import Span
from nmt.decode.forced_decoding import AttentionRecord
from nmt.decode.translator import Translator
from nmt.documents.links import LinkReader, WordLinks, attention_links, whole_words
from nmt.documents.placement import TranslatedSentence, put_back
from nmt.documents.segment import UNITS, Segment, has_letters
from nmt.errors import UserError, install_extra

CHUNK_SENTENCES = 400  # that are translated together


class SentenceTranslator(Protocol):
    """What translates the sentences of a document."""

    @property
    def keeps_units(self) -> bool:
        """Whether a private character in a sentence is copied to its translation."""

    def translate(self, sentences: Sequence[str], linked: Sequence[bool]) -> Iterator[TranslatedSentence]:
        """The translation of each sentence, in order, with word links for those that are `linked`."""


@dataclass
class ModelTranslator:
    translator: Translator
    reader: LinkReader | None  # None: a model without attention
    count: int = 0  # sentences so far, for messages

    @property
    def keeps_units(self) -> bool:
        """True of a model with placeholders (tokenizer.protect)."""
        return self.translator.tokenizers.protects

    def translate(self, sentences: Sequence[str], linked: Sequence[bool]) -> Iterator[TranslatedSentence]:
        """Search, then forced decoding of what is linked."""
        found = list(self.translator.translate_chunk(sentences, self.count + 1))
        self.count += len(sentences)
        parts = [each.parts or [each] for each in found]
        wanted = [part for row, link in zip(parts, linked, strict=True) if link for part in row]
        records: Iterator[AttentionRecord] = iter(())
        if self.reader:
            records = self.translator.force_decode_all((part.source_ids, part.ids) for part in wanted)
        for sentence, translation, row, link in zip(sentences, found, parts, linked, strict=True):
            text, links = without_added_period(sentence, translation.text), None
            if link and self.reader:
                links = attention_links([next(records) for _ in row], self.reader, sentence, text)
            yield TranslatedSentence(text, links)


class Row(NamedTuple):
    segment: Segment
    spans: list[Span]


def split_segments(segments: Iterable[Segment], language: str) -> list[Row]:
    """Each segment with its sentences, by sentencex of Wikimedia; raises UserError without the library.

    It is kept up (syntok rests since 2022, pysbd since 2021) and has rules or fallbacks for some 300 languages.
    """
    try:
        from sentencex import segment as split
    except ImportError:
        raise UserError(f"Documents are split into sentences by sentencex: {install_extra('documents')}.") from None
    rows = []
    for each in segments:
        spans, start = [], 0
        for sentence in split(language, each.text):
            lead = len(sentence) - len(sentence.lstrip())
            if sentence.strip():
                spans.append((start + lead, start + lead + len(sentence.strip())))
            start += len(sentence)
        rows.append(Row(each, spans if start == len(each.text) else [(0, len(each.text))]))
    return rows


def translate_rows(
    rows: Sequence[Row], translator: SentenceTranslator, on_progress: Callable[[int], object] = lambda count: None
) -> Counter[str]:
    """Set the translation of all segments, some 400 sentences at a time; how many sentences became what."""
    counts: Counter[str] = Counter()
    chunk: list[Row] = []
    for index, row in enumerate(rows, 1):
        chunk.append(row)
        if (size := sum(len(each.spans) for each in chunk)) >= CHUNK_SENTENCES or index == len(rows):
            translate_chunk(chunk, translator, counts)
            on_progress(size)
            chunk = []
    return counts


def translate_chunk(chunk: Sequence[Row], translator: SentenceTranslator, counts: Counter[str]) -> None:
    found = [(row, span, row.segment.text[slice(*span)]) for row in chunk for span in row.spans]
    found = [(row, span, text) for row, span, text in found if has_letters(text)]
    texts = [text if translator.keeps_units else UNITS.sub(" ", text) for _, _, text in found]
    linked = [is_linked(row, span) for row, span, _ in found]
    answers = zip(texts, translator.translate(texts, linked), strict=True)
    for segment, spans in chunk:
        sentences = []
        for start, end in spans:
            text = segment.text[start:end]
            if not has_letters(text):
                words = whole_words(text)
                sentences.append(TranslatedSentence(text, WordLinks(words, words, np.eye(len(words)))))
                continue
            given, new = next(answers)
            changed = bool(new.text.strip()) and new.text.split() != given.split()
            counts["translated" if changed else "unchanged by the model"] += 1
            sentences.append(new if changed else TranslatedSentence(text))
        inner = [part for tag in segment.tags for part in tag.parts]
        inner += [part for parts in segment.units.values() for part in parts]
        same = all(segment.text[slice(*span)] == new.text for span, new in zip(spans, sentences, strict=True))
        if not same or any(isinstance(part, Segment) and part.translation is not None for part in inner):
            segment.translation = put_back(segment, spans, sentences)


def is_linked(row: Row, sentence: Span) -> bool:
    """Whether a sentence has tags, or units, which may get lost."""
    segment, spans = row
    index = bisect_left(spans, sentence)
    start = spans[index - 1][1] if index else 0
    end = spans[index + 1][0] if index + 1 < len(spans) else len(segment.text)
    first = bisect_left(segment.tags, start, key=lambda tag: tag.position)
    inside = first < len(segment.tags) and segment.tags[first].position <= end
    return inside or bool(UNITS.search(segment.text, *sentence))


def without_added_period(source: str, text: str) -> str:
    """A translation without the period at its end that a heading, an item or a cell does not have."""
    added = source[-1:].isalnum() and text.endswith(".") and not text.endswith("..")
    return text[:-1] if added else text

"""Translates the segments of a document, sentence by sentence, and puts their tags back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from nmt.decode.forced_decoding import AttentionRecord
from nmt.decode.translator import Translator
from nmt.documents.links import LinkReader, attention_links, proportional_links
from nmt.documents.rendering import TranslatedSegment, TranslatedSentence
from nmt.documents.segment import Part, Segment, has_letters, nested_segments, units_to_points
from nmt.documents.sentences import split_sentences

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
    """A trained model as a SentenceTranslator."""

    translator: Translator
    reader: LinkReader | None  # None: a model without attention
    count: int = 0  # sentences so far, for messages

    @property
    def keeps_units(self) -> bool:
        """True of a model with placeholders (tokenizer.protect)."""
        return self.translator.tokenizers.protects

    def translate(self, sentences: Sequence[str], linked: Sequence[bool]) -> Iterator[TranslatedSentence]:
        """Search, then forced decoding of what is linked; a sentence without a letter is copied."""
        linked = [link and has_letters(sentence) for sentence, link in zip(sentences, linked, strict=True)]
        found = list(self.translator.translate_chunk(sentences, self.count + 1))
        self.count += len(sentences)
        parts = [each.parts or [each] for each in found]
        wanted = [part for row, link in zip(parts, linked, strict=True) if link for part in row]
        records: Iterator[AttentionRecord] = iter(())
        if self.reader:
            records = self.translator.force_decode_all((part.source_ids, part.ids) for part in wanted)
        for sentence, translation, row, link in zip(sentences, found, parts, linked, strict=True):
            text, links = without_added_period(sentence, translation.text), None
            if not has_letters(sentence):
                text = sentence
            if link and self.reader:
                links = attention_links([next(records) for _ in row], self.reader, sentence, text)
            elif link:
                links = proportional_links(sentence, text)
            yield TranslatedSentence(text, links)


@dataclass
class DocumentTranslator:
    """Translates parts of documents from a language; `on_progress` is told how many sentences are done."""

    translator: SentenceTranslator
    language: str
    on_progress: Callable[[int], None] = lambda count: None

    def translate(self, parts: Iterable[Part]) -> Iterator[str]:
        """Each part as it is written, in order; CHUNK_SENTENCES sentences or a few more are in memory."""
        chunk: list[Part] = []
        prepared: dict[int, TranslatedSegment] = {}
        sentences = 0
        for part in parts:
            chunk.append(part)
            if isinstance(part, Segment):
                for segment in nested_segments(part):
                    prepared[id(segment)] = self.prepare(segment)
                    sentences += len(prepared[id(segment)].sentences)
            if sentences >= CHUNK_SENTENCES or len(chunk) >= 50 * CHUNK_SENTENCES:
                yield from self.translate_chunk(chunk, prepared)
                chunk, prepared, sentences = [], {}, 0
        yield from self.translate_chunk(chunk, prepared)

    def prepare(self, segment: Segment) -> TranslatedSegment:
        """Split a segment into sentences; units become points where the model would not copy them."""
        if not self.translator.keeps_units:
            units_to_points(segment)
        return TranslatedSegment(segment, split_sentences(segment.text, self.language))

    def translate_chunk(self, chunk: list[Part], prepared: dict[int, TranslatedSegment]) -> Iterator[str]:
        """The written parts of a chunk."""
        rows = [(each, span) for each in prepared.values() for span in each.sentences]
        texts = [each.segment.text[start:end] for each, (start, end) in rows]
        linked = [each.is_linked(span) for each, span in rows]
        for (each, _), translated in zip(rows, self.translator.translate(texts, linked), strict=True):
            each.translated.append(translated)
        self.on_progress(len(rows))
        written: dict[int, str] = {}
        for part in chunk:
            if isinstance(part, str):
                yield part
                continue
            for segment in reversed(list(nested_segments(part))):
                written[id(segment)] = prepared[id(segment)].write(written)
            yield written[id(part)]


def without_added_period(source: str, text: str) -> str:
    """A translation without the period at its end that a heading, an item or a cell does not have."""
    added = source[-1:].isalnum() and text.endswith(".") and not text.endswith("..")
    return text[:-1] if added else text

"""Translates the segments of a document, sentence by sentence, and puts their tags back."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise

import numpy as np

from nmt.data.languages import base_code, is_known
from nmt.data.text_filter import has_words
from nmt.data.words import Span
from nmt.decode.confidence import UNSURE, mark_unsure
from nmt.decode.forced_decoding import AttentionRecord
from nmt.decode.translator import Translation, Translator
from nmt.documents.memory import REUSED, Memory
from nmt.documents.placement import TranslatedSentence, put_back
from nmt.documents.segment import (
    FIRST_UNIT,
    FOREIGN,
    MOST_UNITS,
    SEPARATOR,
    UNITS,
    WITHOUT_WORDS,
    Document,
    Segment,
    has_letters,
    segments,
)
from nmt.documents.word_weights import WeightReader, WordWeights, whole_words
from nmt.errors import UserError, install_extra
from nmt.view.progress import Progress

CHUNK_SENTENCES = 400  # that are translated together
LONGEST = 1000  # characters of a sentence, which is translated at one go
CHANGED = "with other numbers, addresses or the like than their sources"
# behind an unsure word, of which it is a letter while tags are put back
MARK = chr(FIRST_UNIT + MOST_UNITS)


@dataclass
class ModelTranslator:
    """What translates the sentences of a document."""

    translator: Translator
    reader: WeightReader | None  # None: a model without attention
    count: int = 0  # sentences so far, for messages
    memory: Memory | None = None
    finds_unsure: bool = False  # words that are more likely wrong than right
    names_unsure: bool = True  # to the segments: formats with a place for it mark them
    writes_marks: bool = False  # (?) behind these words

    @property
    def keeps_units(self) -> bool:
        """Whether a private character in a sentence is copied to its translation
        (tokenizer.protect)."""
        return self.translator.tokenizers.protects

    def decode(
        self, sentences: Sequence[str], weighed: Sequence[bool]
    ) -> list[tuple[Translation, Records]]:
        """The translation of each sentence, with the records of its parts where `weighed`.

        Without weights, which need forced decoding, they are those of the search where it has them.
        """
        found = list(self.translator.translate_chunk(sentences, self.count + 1))
        self.count += len(sentences)
        searched = [
            self.translator.search_records(each) if self.finds_unsure else [] for each in found
        ]
        forced = [
            is_weighed or (self.finds_unsure and not (records or each.is_copied))
            for each, records, is_weighed in zip(found, searched, weighed, strict=True)
        ]
        decoded = self.translator.with_records(
            each for each, wanted in zip(found, forced, strict=True) if wanted
        )
        records = [
            next(decoded)[1] if wanted else of_search
            for of_search, wanted in zip(searched, forced, strict=True)
        ]
        return list(zip(found, records, strict=True))

    def translate(
        self, sentences: Sequence[str], weighed: Sequence[bool]
    ) -> Iterator[TranslatedSentence]:
        """The translation of each sentence, in order, with word weights by forced decoding where
        `weighed`."""
        answers = self.decode(sentences, weighed)
        for sentence, is_weighed, (translation, records) in zip(
            sentences, weighed, answers, strict=True
        ):
            text = without_added_period(sentence, translation.text)
            weights = None
            unsure = None
            if self.finds_unsure and text.split() != sentence.split():
                words = self.translator.word_confidences(translation, records)
                words = [each for each in words if any(map(str.isalnum, each[0]))]
                unsure = [
                    word for word, confidence in words if confidence < UNSURE
                ] + translation.changed_spans
                text = mark_unsure(text, words, "", MARK) if self.writes_marks else text
            if is_weighed and self.reader:
                weights = self.reader.read(records, sentence, text)
            yield TranslatedSentence(text, weights, unsure, bool(translation.changed_spans))

    def weigh(self, sentence: str, translation: str) -> WordWeights | None:
        """The word weights of a translation from a memory, by forced decoding; None where it is too
        long for that."""
        (pair,) = self.translator.tokenizers.encode_pairs([(sentence, translation)])
        if self.reader is None or max(map(len, pair)) > self.translator.max_pieces:
            return None
        return self.reader.read([self.translator.force_decode(pair)], sentence, translation)


Records = list[AttentionRecord]
Row = tuple[Segment, list[Span]]  # a segment, and the spans of its sentences


def translate_document(
    document: Document, language: str, translator: ModelTranslator, name: str = ""
) -> Counter[str]:
    """Set the translation of all segments, some 400 sentences at a time; how many sentences became
    what.

    Raises UserError without sentencex.
    """
    rows = list[Row]()
    memory = translator.memory
    counts = Counter(each.reason for each in document.all_left())
    for field in document.fields:
        for segment in segments(field.parts):
            if is_foreign(segment.language, language):
                counts[FOREIGN] += 1
                continue
            if segment.text == language:  # "lang": "de" in a file of messages
                counts[WITHOUT_WORDS] += 1
                continue
            is_known = memory is not None and memory.reuse(segment, segment.text) is not None
            rows.append(
                (
                    segment,
                    [(0, len(segment.text))]
                    if is_known
                    else sentence_spans(segment.text, language),
                )
            )
            if memory and field.suggest and not is_known and (match := memory.nearest(segment)):
                field.suggest(*match)
                document.has_suggestions = True
    chunk = list[Row]()
    size = 0
    with Progress(sum(len(spans) for _, spans in rows), "sentence", f"translating {name}") as bar:
        for row in rows:
            chunk.append(row)
            size += len(row[1])
            if size >= CHUNK_SENTENCES or row is rows[-1]:
                translate_chunk(chunk, translator, counts)
                bar.update(size)
                chunk = []
                size = 0
    return counts


def is_foreign(declared: str, source: str) -> bool:
    """Whether a text is declared to be in another language than the source; of an unknown code it
    is not."""
    return is_known(declared) and is_known(source) and base_code(declared) != base_code(source)


def sentence_spans(text: str, language: str) -> list[Span]:
    """Where each sentence of a text is, without the spaces around it; raises UserError without
    sentencex.

    It is of Wikimedia, and has rules or fallbacks for 300 languages. No sentence goes over a
    SEPARATOR.
    """
    spans = []
    for match in re.finditer(f"[^{SEPARATOR}]+", text):
        spans += [
            (match.start() + start, match.start() + end)
            for start, end in split_sentences(match[0], language)
        ]
    return spans


def split_sentences(text: str, language: str) -> list[Span]:
    try:
        from sentencex import segment as split
    except ImportError:
        raise UserError(
            f"Documents are split into sentences by sentencex: {install_extra('documents')}."
        ) from None
    sentences = split(language, text)
    ends = [
        0,
        *accumulate(map(len, sentences if sum(map(len, sentences)) == len(text) else [text])),
    ]
    spans = []
    for start, end in pairwise(ends):
        while end - start > LONGEST:
            space = text.rfind(" ", start + 1, start + LONGEST)
            stop = space if space > 0 else start + LONGEST
            spans.append((start, stop))
            start = stop
        spans.append((start, end))
    parts = [(start, end, text[start:end]) for start, end in spans if text[start:end].strip()]
    return [(end - len(part.lstrip()), start + len(part.rstrip())) for start, end, part in parts]


@dataclass
class Sentence:
    """A sentence of a segment, and what becomes of it."""

    segment: Segment
    text: str
    result: TranslatedSentence | None = None
    is_changed: bool = False

    @property
    def is_tagged(self) -> bool:
        return bool(self.segment.tags or self.segment.units)


def translate_chunk(
    chunk: Sequence[Row], translator: ModelTranslator, counts: Counter[str]
) -> None:
    """Set the translations of segments, whose sentences are translated together."""
    rows: list[list[Sentence]] = []
    for segment, spans in chunk:
        rows.append([Sentence(segment, segment.text[start:end]) for start, end in spans])

    # What needs no model
    waiting: list[Sentence] = []
    for sentence in chain.from_iterable(rows):
        sentence.result = from_memory(sentence, translator, counts) or without_words(
            sentence, counts
        )
        if sentence.result is None:
            waiting.append(sentence)

    # The model
    texts = [sentence.text for sentence in waiting]
    if not translator.keeps_units:
        texts = [UNITS.sub(" ", text) for text in texts]
    answers = translator.translate(texts, [sentence.is_tagged for sentence in waiting])
    for sentence, text, new in zip(waiting, texts, answers, strict=True):
        sentence.is_changed = bool(new.text.strip()) and new.text.split() != text.split()
        sentence.result = new if sentence.is_changed else TranslatedSentence(sentence.text)
        counts["translated" if sentence.is_changed else "unchanged by the model"] += 1
        if new.unsure:
            counts["unsure"] += 1
        if new.has_changed_spans:
            counts[CHANGED] += 1

    # Back into the segments
    for (segment, spans), sentences in zip(chunk, rows, strict=True):
        has_new_tags = any(inner.translation is not None for inner in segment.inner())
        if has_new_tags or any(sentence.is_changed for sentence in sentences):
            results = [sentence.result for sentence in sentences if sentence.result]
            set_translation(segment, spans, results, translator.names_unsure)


def from_memory(
    sentence: Sentence, translator: ModelTranslator, counts: Counter[str]
) -> TranslatedSentence | None:
    """The translation that the memory has; None without one."""
    memory = translator.memory
    text = memory.reuse(sentence.segment, sentence.text) if memory else None
    if text is None:
        return None
    counts[REUSED] += 1
    sentence.is_changed = True
    weights = translator.weigh(sentence.text, text) if sentence.is_tagged else None
    return TranslatedSentence(text, weights, [])


def without_words(sentence: Sentence, counts: Counter[str]) -> TranslatedSentence | None:
    """A sentence that stays, since it has no words of a language; None for any other."""
    if has_words(sentence.text):
        return None
    if has_letters(sentence.text):
        counts[WITHOUT_WORDS] += 1
    words = whole_words(sentence.text)
    return TranslatedSentence(sentence.text, WordWeights(words, words, np.eye(len(words))), [])


def set_translation(
    segment: Segment,
    spans: Sequence[Span],
    sentences: Sequence[TranslatedSentence],
    names_unsure: bool,
) -> None:
    """Write the translated sentences of a segment, with its tags, and name its unsure words where
    that is wanted."""
    segment.translation = put_back(segment, spans, sentences).replace(MARK, "(?)")
    unsure: list[str] = []
    for sentence in sentences:
        if sentence.unsure is None or not names_unsure:
            return  # nobody has judged it
        unsure += sentence.unsure
    segment.unsure = unsure


def without_added_period(source: str, text: str) -> str:
    """A translation without the period at its end that a heading, an item or a cell does not
    have."""
    added = source[-1:].isalnum() and text.endswith(".") and not text.endswith("..")
    return text[:-1] if added else text

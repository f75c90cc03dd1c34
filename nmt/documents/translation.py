"""Translates the segments of a document, sentence by sentence, and puts their tags back."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise

import numpy as np

from nmt.corpus.languages import base_code, is_known
from nmt.corpus.words import Span, has_letters
from nmt.data.text_filter import has_words
from nmt.decode.confidence import UNSURE, mark_unsure
from nmt.decode.forced_decoding import AttentionRecord
from nmt.decode.quality import REVIEW
from nmt.decode.translation import Translation
from nmt.decode.translator import Translator
from nmt.documents.memory import REUSED, TranslationMemory, with_shown_units
from nmt.documents.placement import NO_TEXT, TranslatedSentence, put_back
from nmt.documents.segment import (
    FOREIGN,
    MARK,
    SEPARATOR,
    UNITS,
    WITHOUT_WORDS,
    Document,
    Segment,
    doubts_of,
    segments,
)
from nmt.documents.word_weights import WeightReader, WordWeights, whole_words
from nmt.errors import needs_extra
from nmt.view.progress import Progress

CHUNK_SENTENCES = 400  # that are translated together
LONGEST = 1000  # characters of a sentence, which is translated at one go
IN_NAME = re.compile(r"\.[\w/]")  # of a name or a path: java.util.List, ./docs
CHANGED = "with other numbers, addresses or the like than their sources"


@dataclass
class ModelTranslator:
    """What translates the sentences of a document."""

    translator: Translator
    reader: WeightReader | None  # None: a model without attention
    count: int = 0  # sentences so far, for messages
    memory: TranslationMemory | None = None
    finds_unsure: bool = False  # words that are more likely wrong than right
    names_unsure: bool = True  # to the segments: formats with a place for it mark them
    writes_marks: bool = False  # (?) behind these words
    min_chrf: float = REVIEW  # a sentence with a lower expected chrF should be read

    @property
    def keeps_units(self) -> bool:
        """Whether a private character in a sentence is copied (tokenizer.protect)."""
        return self.translator.tokenizers.protects

    def decode(
        self, sentences: Sequence[str], weighed: Sequence[bool]
    ) -> list[tuple[Translation, Records]]:
        """The translation of each sentence, with the records of its parts, and with its quality.

        Where `weighed`, the records are those of forced decoding. Elsewhere only confidences are
        read from them, so those of the search do where it has them.
        """
        translations = list(self.translator.translate_chunk(sentences, self.count + 1))
        self.count += len(sentences)

        # The records of the search, and which sentences need forced decoding
        records: list[Records] = []
        is_forced: list[bool] = []
        for translation, is_weighed in zip(translations, weighed, strict=True):
            searched: Records = []
            if self.finds_unsure:
                searched = self.translator.search_records(translation)
            is_judged = bool(searched) or translation.is_copied
            records.append(searched)
            is_forced.append(is_weighed or (self.finds_unsure and not is_judged))

        wanted = [index for index, is_wanted in enumerate(is_forced) if is_wanted]
        decoded = self.translator.with_records(translations[index] for index in wanted)
        for index, (_, forced) in zip(wanted, decoded, strict=True):
            records[index] = forced
        if self.finds_unsure:
            self.translator.estimate(translations, records)
        return list(zip(translations, records, strict=True))

    def translate(
        self, sentences: Sequence[str], weighed: Sequence[bool]
    ) -> Iterator[TranslatedSentence]:
        """The translation of each sentence, in order, with word weights where `weighed`."""
        answers = self.decode(sentences, weighed)
        for sentence, is_weighed, (translation, records) in zip(
            sentences, weighed, answers, strict=True
        ):
            text = translation.text
            # A heading has no period, and its translation gets none. It may end with a vowel sign.
            ends_as_word = unicodedata.category(sentence[-1:] or " ")[0] in "LMN"
            if ends_as_word and text.endswith((".", "。", "।")) and not text.endswith(".."):
                text = text[:-1]
            weights = None
            unsure = None
            faults = None
            if self.finds_unsure and text.split() != sentence.split():
                words = self.translator.word_confidences(translation, records)
                words = [word for word in words if any(map(str.isalnum, word[0]))]
                unsure = [word for word, confidence in words if confidence < UNSURE]
                unsure += translation.changed_spans
                if translation.quality is not None:
                    faults = translation.quality.faults(self.min_chrf)
                    if translation.changed_spans:
                        faults.append(
                            f"not as in the source: {', '.join(translation.changed_spans)}"
                        )
                if self.writes_marks:
                    text = mark_unsure(text, words, "", MARK)
            if is_weighed and self.reader:
                weights = self.reader.read(records, sentence, text)
            has_changed_spans = bool(translation.changed_spans)
            yield TranslatedSentence(text, weights, unsure, has_changed_spans, faults)

    def weigh(self, sentence: str, translation: str) -> WordWeights | None:
        """The word weights of a translation from a memory; None if it is too long for the model."""
        (pair,) = self.translator.tokenizers.encode_pairs([(sentence, translation)])
        if self.reader is None or max(map(len, pair)) > self.translator.max_pieces:
            return None
        return self.reader.read([self.translator.force_decode(pair)], sentence, translation)


Records = list[AttentionRecord]
Row = tuple[Segment, list[Span]]  # a segment, and the spans of its sentences


def translate_document(
    document: Document,
    language: str,
    translator: ModelTranslator,
    name: str = "",
    count: Callable[[Sequence[Row]], object] | None = None,
) -> Counter[str]:
    """Set the translation of all segments; returns how many sentences became what.

    `count` is called with what will be translated.

    Some 400 sentences are translated together. Raises UserError without sentencex.
    """
    counts = Counter(left.reason for left in document.all_left())
    rows = find_rows(document, language, translator.memory, counts)
    if count:
        count(rows)
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


def find_rows(
    document: Document, language: str, memory: TranslationMemory | None, counts: Counter[str]
) -> list[Row]:
    """The segments to translate with their sentences; the others are counted.

    A segment that the memory has is one sentence. A field shows what is similar in the memory. One
    in another language has no sentences; there may be segments inside of it that have.
    """
    rows = list[Row]()
    for field in document.fields:
        for segment in segments(field.parts):
            if is_foreign(segment.language, language):
                counts[FOREIGN] += 1
                rows.append((segment, []))
                continue
            if segment.text == language:  # "lang": "de" in a file of messages
                counts[WITHOUT_WORDS] += 1
                continue
            if memory is not None and memory.reuse(segment, segment.text) is not None:
                rows.append((segment, [(0, len(segment.text))]))
                continue
            rows.append((segment, sentence_spans(segment.text, language)))
            if memory and field.suggest:
                match = memory.nearest(with_shown_units(segment, segment.text))
                if match:
                    field.suggest(*match)
                    document.has_suggestions = True
    return rows


def is_foreign(declared: str, source: str) -> bool:
    """Whether a text is declared to be in another known language than the source."""
    return is_known(declared) and is_known(source) and base_code(declared) != base_code(source)


def sentence_spans(text: str, language: str) -> list[Span]:
    """Where each sentence of a text is, without the spaces around it.

    No sentence goes over a SEPARATOR. sentencex, of Wikimedia, has rules or fallbacks for 300
    languages; raises UserError if it is missing.
    """
    spans = []
    for match in re.finditer(f"[^{SEPARATOR}]+", text):
        for start, end in split_sentences(match[0], language):
            spans.append((match.start() + start, match.start() + end))
    return spans


def split_sentences(text: str, language: str) -> list[Span]:
    with needs_extra("documents"):
        from sentencex import segment as split
    sentences = split(language, text)
    if sum(map(len, sentences)) != len(text):
        sentences = [text]
    ends = [end for end in accumulate(map(len, sentences)) if not IN_NAME.match(text, end - 1)]
    spans = []
    for start, end in pairwise([0, *ends]):
        while end - start > LONGEST:
            space = text.rfind(" ", start + 1, start + LONGEST)
            stop = space if space > 0 else start + LONGEST
            spans.append((start, stop))
            start = stop
        spans.append((start, end))

    # Without the spaces around them
    trimmed = []
    for start, end in spans:
        part = text[start:end]
        if part.strip():
            trimmed.append((end - len(part.lstrip()), start + len(part.rstrip())))
    return trimmed


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
        sentence.result = from_memory(sentence, translator, counts)
        if sentence.result is None:
            sentence.result = without_words(sentence, counts)
        if sentence.result is None:
            waiting.append(sentence)

    translate_sentences(waiting, translator, counts)

    # Back into the segments
    for (segment, spans), sentences in zip(chunk, rows, strict=True):
        has_new_tags = any(inner.translation is not None for inner in segment.inner())
        if has_new_tags or any(sentence.is_changed for sentence in sentences):
            results = [sentence.result for sentence in sentences if sentence.result]
            if not spans:
                spans = [(0, len(segment.text))]
                results = [as_it_is(segment.text)]
            set_translation(segment, spans, results, translator.names_unsure)


def translate_sentences(
    sentences: Sequence[Sentence], translator: ModelTranslator, counts: Counter[str]
) -> None:
    """Set what the model makes of sentences; one without a translation stays as it is."""
    texts = [sentence.text for sentence in sentences]
    if not translator.keeps_units:
        texts = [UNITS.sub(" ", text) for text in texts]
    answers = translator.translate(texts, [sentence.is_tagged for sentence in sentences])
    for sentence, text, new in zip(sentences, texts, answers, strict=True):
        words = NO_TEXT.sub(" ", new.text).split()
        sentence.is_changed = bool(words) and words != text.split()
        if sentence.is_changed:
            sentence.result = new
            counts["translated"] += 1
        else:
            sentence.result = TranslatedSentence(sentence.text)
            counts["unchanged by the model"] += 1
        if new.needs_review:
            counts["unsure"] += 1
        if new.has_changed_spans:
            counts[CHANGED] += 1


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
    return TranslatedSentence(text, weights, [], faults=[])


def without_words(sentence: Sentence, counts: Counter[str]) -> TranslatedSentence | None:
    """A sentence that stays, since it has no words of a language; None for any other."""
    if has_words(sentence.text):
        return None
    if has_letters(sentence.text):
        counts[WITHOUT_WORDS] += 1
    return as_it_is(sentence.text)


def as_it_is(text: str) -> TranslatedSentence:
    """A text as its own translation."""
    words = whole_words(text)
    weights = WordWeights(words, words, np.eye(len(words)))
    return TranslatedSentence(text, weights, [], faults=[])


def set_translation(
    segment: Segment,
    spans: Sequence[Span],
    sentences: Sequence[TranslatedSentence],
    names_unsure: bool,
) -> None:
    """Write the translated sentences of a segment with its tags, and what is doubtful in it."""
    segment.translation = put_back(segment, spans, sentences)
    if names_unsure:
        segment.unsure, segment.faults = doubts_of(sentences)

"""Text to text, in order, holding no more of it in memory than a chunk of lines."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import InitVar, dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from nmt.config.schema import DecodeConfig
from nmt.data.batches import Ids, batches_by_length, collate, pad, padding_mask
from nmt.data.line_chunks import text_chunks
from nmt.data.text_filter import Encoded, Protected, changed_spans, with_placeholders
from nmt.data.tokenizer import EOS, Tokenizers
from nmt.data.words import split_into_words, word_fractions
from nmt.decode.beam_search import Hypothesis, NBest, search
from nmt.decode.confidence import Calibration, word_log_probabilities
from nmt.decode.constraints import Constraint, Constraints, ForcedColumns, Template
from nmt.decode.forced_decoding import (
    CHUNK_PAIRS,
    AttentionRecord,
    IdPair,
    force_decode,
    pair_batches,
    pair_chunks,
)
from nmt.decode.long_lines import join_texts, split_positions
from nmt.decode.parallel import WorkersKilled, parallel_map
from nmt.errors import UserError
from nmt.models.base import EncoderDecoder

log = logging.getLogger("nmt")
LISTED_LINES = 10  # in an error message
# of several processes, if that leaves so many positions to a batch
BATCHES_PER_PROCESS = 4
MIN_BATCH_TOKENS = 512
ON_CPU = 8192  # decode.batch_tokens where it is null: source positions × beam
BYTES = 1 << 19  # of a GPU's memory for each; a big Transformer needs about 0.2 MB, with its logits
T = TypeVar("T", bound="Translator")
Source = Sequence[int] | Ids
WordConfidences = list[tuple[str, float]]
Report = Callable[[int], object]  # gets the number of lines that are done
# as `map`
MapBatches = Callable[[Callable[[np.ndarray], NBest], Sequence[np.ndarray]], Iterable[NBest]]


class Terms(Protocol):
    """A glossary."""

    def unprotect(self, protected: Protected) -> Protected:
        """A source without placeholders for its terms."""

    def apply(self, translator: Translator, sources: Sequence[Encoded], nbest: NBest) -> NBest:
        """The n best of each sentence, with the terms."""


@dataclass
class Translation:
    """The translation of one line: plain data, and what the translator adds where it is asked for.

    `alternatives` holds the other hypotheses of the beam, best first, of a line that was translated
    in one part; `parts` the translations that a longer line is joined from. `is_copied`: there was
    nothing to search, since the line is blank or has no letter outside its placeholders. `searched`
    holds the log-probability of each piece and of </s> as the search found it, in its number
    format; it is empty where an engine does not say it. A pickle has no translator: what was not
    read before raises UserError.
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
        self._opened = translator

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"pieces": self.pieces, "_opened": None}

    @property
    def _translator(self) -> Translator:
        if self._opened is None:
            raise UserError(
                "This translation was read from a pickle; what needs the model must be read before."
            )
        return self._opened

    @property
    def nbest(self) -> list[Translation]:
        """The hypotheses of the line, best first: itself, then its alternatives."""
        return [self, *self.alternatives]

    @cached_property
    def pieces(self) -> list[str]:
        """The subword pieces of the text."""
        return self._translator.tokenizers.target.pieces(self.ids)

    @cached_property
    def changed_spans(self) -> list[str]:
        """The numbers, addresses and the like that it has not as often as its source; [] without
        tokenizer.protect."""
        tokenizers = self._translator.tokenizers
        if not tokenizers.protects:
            return []
        source = tokenizers.source.decode(self.source_ids)
        return changed_spans(source, self.text, tokenizers.source.tags, tokenizers.source.marks)

    @cached_property
    def log_probabilities(self) -> list[float]:
        """Of each piece and of </s> (of every part, where the line was translated in parts), by
        forced decoding."""
        ((_, records),) = self._translator.with_records([self])
        return [
            value
            for record in records
            if record.source_pieces
            for value in record.log_probabilities
        ]

    @cached_property
    def word_confidences(self) -> WordConfidences:
        """Each word with the probability that it is right (nmt/decode/confidence.py), by forced
        decoding."""
        ((_, records),) = self._translator.with_records([self])
        return self._translator.word_confidences(self, records)

    @property
    def confidence(self) -> float:
        """The mean of `word_confidences`, the share of the words that is expected to be right."""
        return mean_confidence(self, self.word_confidences)


def mean_confidence(translation: Translation, words: WordConfidences) -> float:
    """The confidence of a line from those of its words; without words 0, and 1 where nothing was
    searched."""
    return sum(value for _, value in words) / len(words) if words else float(translation.is_copied)


@dataclass(frozen=True, eq=False)
class Translator:
    """A model with its tokenizers and the settings of search. Immutable: `with_options` returns a
    copy."""

    model: EncoderDecoder
    tokenizers: Tokenizers
    decode: DecodeConfig
    max_pieces: int  # a longer line is translated in parts
    device: torch.device
    autocast: torch.autocast
    # `model` with packed weights, where these no longer change
    search_model: EncoderDecoder | None = None
    num_processes: int = 1  # that divide the batches of a file
    map_batches: MapBatches | None = None  # instead of these processes; all get all results
    calibration: Calibration = Calibration()  # of the confidences of words
    terms: Terms | None = None  # of a glossary
    target_prefix: str = ""  # that every translation begins with

    @property
    def batch_tokens(self) -> int:
        """decode.batch_tokens, chosen by the device where it is null."""
        return with_batch_tokens(self.decode, self.device).batch_tokens or 1

    def with_options(
        self: T, *, decode: DecodeConfig | None = None, num_processes: int | None = None
    ) -> T:
        """The same translator with other settings of search or another number of processes."""
        return replace(
            self, decode=decode or self.decode, num_processes=num_processes or self.num_processes
        )

    def beside_others(self: T) -> T:
        """The same translator, which translates while this one does, and leaves it cores where it
        can."""
        return self

    def translate(
        self, lines: Iterable[str], report: Report | None = None
    ) -> Iterator[Translation]:
        """One translation for each line, in order; a blank line stays blank.

        `report` gets the number of lines that are done, more often than their translations come.
        """
        start = 1
        for texts in text_chunks(lines):
            yield from self.translate_chunk(texts, start, report)
            start += len(texts)

    def translate_chunk(
        self, texts: Sequence[str], start: int = 1, report: Report | None = None
    ) -> Iterator[Translation]:
        """`translate` of lines that are searched together; `start` is the number of the first
        one."""
        self.tokenizers.check_languages(texts, start)
        protected = self.tokenizers.protect_sources(texts)
        if self.terms is not None:
            protected = [self.terms.unprotect(each) for each in protected]
        encoded = self.tokenizers.encode_sources(protected)
        # The parts of each line: one, several of a long line, none where nothing is to be
        # translated.
        rows = [
            [] if self.tokenizers.protects and each.is_copied else self.split_long(ids, number)
            for number, (ids, each) in enumerate(zip(encoded, protected, strict=True), start)
        ]
        if self.target_prefix:
            for row, each in zip(rows, protected, strict=True):
                if row:
                    begun = self.tokenizers.target.encode(
                        with_placeholders(self.target_prefix, each)
                    )
                    row[0].begin = (*row[0].begin, *begun)
        sentences = [part for row in rows for part in row]
        numbers = [number for number, row in enumerate(rows, start) for _ in row]
        if report:
            report(sum(not row for row in rows))
        nbest = self.search(sentences, lines=numbers, report=report)
        if self.terms is not None:
            nbest = self.terms.apply(self, sentences, nbest)
        found = iter(nbest)
        for ids, row, each in zip(encoded, rows, protected, strict=True):
            if not row:
                target = ids.like(self.tokenizers.target.encode(each.text))
                text = self.tokenizers.target.decode(target)
                yield Translation(text, 0.0, ids, target, is_copied=True, translator=self)
                continue
            parts = [
                [self.to_translation(part, hypothesis) for hypothesis in next(found)]
                for part in row
            ]
            best, *alternatives = parts[0]
            if len(row) == 1:
                best.alternatives = alternatives
                yield best
            else:
                yield self.join_parts([best for best, *_ in parts])

    def split_long(self, ids: Encoded, line: int) -> list[Encoded]:
        """The ids of line number `line` in parts of at most `max_pieces`, split between words where
        possible."""
        if len(ids) <= self.max_pieces:
            return [ids] if ids else []
        prefix = ids[: (first := self.tokenizers.source.prefix(ids))]
        ids = ids[first:]
        stops = [
            0,
            *split_positions(self.tokenizers.source.pieces(ids), self.max_pieces - first),
            len(ids),
        ]
        log.warning(
            "Line %d has %d pieces, more than tokenizer.max_pieces=%d; it is translated in %d "
            "parts.",
            line,
            len(ids),
            self.max_pieces,
            len(stops) - 1,
        )
        return [ids.like([*prefix, *ids[start:stop]]) for start, stop in itertools.pairwise(stops)]

    def to_translation(self, source: Encoded, hypothesis: Hypothesis) -> Translation:
        """A hypothesis with its text; a span that was lost, where the hypothesis had to end, is
        added at its end."""
        ids = source.like(hypothesis.ids)
        text = self.tokenizers.target.decode(ids)
        if source.spans:
            ours, theirs = self.tokenizers
            places = zip(ours.marks, ours.placeholders, theirs.placeholders, strict=False)
            lost = [
                source.spans[mark]
                for mark, here, there in places
                if here in source and there not in ids
            ]
            text = " ".join([text, *lost]).strip()
        found = hypothesis.log_probabilities
        return Translation(text, hypothesis.score, source, ids, searched=found, translator=self)

    def join_parts(self, parts: list[Translation]) -> Translation:
        """The translation of a line from those of its parts."""
        alpha = self.decode.length_penalty
        lengths = [len(part.ids) + 1 for part in parts]
        log_probability = sum(
            part.score * length**alpha for part, length in zip(parts, lengths, strict=True)
        )
        like = parts[0].source_ids.like
        return Translation(
            join_texts([part.text for part in parts if part.text]),
            log_probability / sum(lengths) ** alpha,
            like(piece for part in parts for piece in part.source_ids),
            like(piece for part in parts for piece in part.ids),
            parts=parts,
            translator=self,
        )

    def search(
        self,
        sources: Sequence[Source],
        forced: Sequence[Template] | None = None,
        lines: Sequence[int] | None = None,
        report: Report | None = None,
    ) -> NBest:
        """The n best of each sentence, by beam search in batches of similar length; `forced`: its
        columns.

        `lines` are the numbers of the lines that the sentences are or are parts of. Raises
        UserError where processes are killed.
        """

        def search_rows(rows: np.ndarray) -> NBest:
            own_forced = None if forced is None else [forced[row] for row in rows]
            return self.search_batch([sources[row] for row in rows], None, own_forced)

        results: NBest = [[] for _ in sources]
        lines = range(1, len(sources) + 1) if lines is None else lines
        # of each line the last part
        last = set({line: row for row, line in enumerate(lines)}.values())
        batches = self.batches(sources)
        map_batches = self.map_batches or partial(parallel_map, num_processes=self.num_processes)
        try:
            for rows, nbest in zip(batches, map_batches(search_rows, batches), strict=True):
                for row, hypotheses in zip(rows.tolist(), nbest, strict=True):
                    results[row] = hypotheses
                if report:
                    report(len(last.intersection(rows.tolist())))
        except WorkersKilled as error:
            rows = np.concatenate(batches[error.index : error.index + self.num_processes])
            numbers = ", ".join(map(str, sorted({lines[row] for row in rows})[:LISTED_LINES]))
            raise WorkersKilled(error.index, f"line {numbers} or one near it") from None
        return results

    def batches(self, sources: Sequence[Source]) -> list[np.ndarray]:
        """Indices of sentences to search together, longest first; with several processes enough
        batches for each."""
        lengths = np.array([len(ids) for ids in sources])
        budget = self.batch_tokens // self.decode.beam
        if self.num_processes > 1:
            tokens = int((lengths + 1).sum()) // (BATCHES_PER_PROCESS * self.num_processes)
            budget = min(budget, max(tokens, MIN_BATCH_TOKENS))
        return batches_by_length(lengths, budget)

    def search_batch(
        self,
        sources: Sequence[Source],
        limits: np.ndarray | None = None,
        forced: Sequence[Template] | None = None,
    ) -> NBest:
        """Beam search over one batch, in halves where memory is too small for it.

        `limits`: maximum length of each hypothesis, </s> counted; `forced`: the columns of each
        target.
        """
        begin: list[tuple[int, ...]] = [
            () if forced else getattr(ids, "begin", ()) for ids in sources
        ]
        if forced is not None:
            limits = np.array([len(template) + 1 for template in forced])
        elif limits is None:
            limits = self.limits(sources)
        # the search begins with as many pieces in every row
        if len(lengths := {len(each) for each in begin}) > 1:
            found: dict[int, list[Hypothesis]] = {}
            for length in lengths:
                rows = [row for row, each in enumerate(begin) if len(each) == length]
                found |= zip(
                    rows,
                    self.search_batch([sources[row] for row in rows], limits[rows]),
                    strict=True,
                )
            return [found[row] for row in range(len(sources))]
        try:
            source = pad([np.append(ids, EOS) for ids in sources])
            mask = padding_mask(source)
            source = source.to(self.device)
            mask = None if mask is None else mask.to(self.device)
            constraint: Constraint | None = None
            if forced is not None:
                constraint = ForcedColumns.start(forced, self.tokenizers.target.size, self.device)
            elif self.decode.avoid_loops or self.tokenizers.protects:
                placeholders = (
                    self.tokenizers.source.placeholders,
                    self.tokenizers.target.placeholders,
                )
                constraint = Constraints.start(
                    source, *placeholders, avoid_loops=self.decode.avoid_loops
                )
            model = self.search_model or self.model
            beam = self.decode.beam
            alpha = self.decode.length_penalty
            with self.autocast:
                first = torch.tensor(begin, device=self.device) if begin[0] else None
                limit = torch.as_tensor(limits)
                early = self.decode.early_stopping
                return search(model, source, mask, beam, alpha, limit, constraint, first, early)
        except torch.OutOfMemoryError:
            if len(sources) == 1:
                raise
        # outside of the handler, which keeps the tensors of the failed search
        torch.cuda.empty_cache()
        halves = slice(len(sources) // 2), slice(len(sources) // 2, None)
        return [
            hypotheses
            for half in halves
            for hypotheses in self.search_batch(
                sources[half], limits[half], forced and forced[half]
            )
        ]

    def limits(self, sources: Sequence[Source]) -> np.ndarray:
        """Maximum lengths of hypotheses: what they begin with, ratio · length of the source +
        extra, and </s>."""
        lengths = (
            self.decode.max_length_ratio * np.array([len(ids) for ids in sources])
            + self.decode.max_length_extra
        )
        return lengths.astype(np.int64) + [len(getattr(ids, "begin", ())) + 1 for ids in sources]

    def force_decode_all(self, pairs: Iterable[IdPair]) -> Iterator[AttentionRecord]:
        """Forced decoding of pairs, in order; each chunk of them is sorted by length and decoded in
        batches.

        Always in float32: in bf16 two nearly equal weights can change their order with the batch,
        and the links of a pair must not depend on the other pairs.
        """
        for chunk in pair_chunks(pairs):
            records: dict[int, AttentionRecord] = {}
            for rows in pair_batches(chunk, self.batch_tokens):
                records |= zip(
                    rows, self.force_decode_batch([chunk[row] for row in rows]), strict=True
                )
            yield from (records[row] for row in range(len(chunk)))

    def force_decode_batch(self, pairs: Sequence[IdPair]) -> list[AttentionRecord]:
        """Forced decoding of one batch; padding and prefixes are removed from the records."""
        batch = collate(
            *([np.asarray(pair[side], dtype=np.int64) for pair in pairs] for side in (0, 1))
        )
        batch = batch.to(self.device)
        with torch.autocast(self.device.type, enabled=False):
            decoded = force_decode(self.model, batch.source, batch.mask, batch.target, batch.output)
        log_probabilities, weights, rollout, p_t = (
            None if tensor is None else tensor.float().cpu().numpy() for tensor in decoded
        )
        assert log_probabilities is not None
        records = []
        for row, (source, target) in enumerate(pairs):
            height = len(target) + 1
            width = len(source) + 1
            first = self.tokenizers.source.prefix(source)
            top = self.tokenizers.target.prefix(target)
            pieces = (
                self.tokenizers.source.pieces(source[first:]),
                self.tokenizers.target.pieces(target[top:]),
            )
            record = AttentionRecord(*pieces, log_probabilities[row, top:height].tolist())
            if weights is not None:
                record.weights = without_prefix(weights[row, :, :, top:height, :width], first)
            if rollout is not None:
                record.rollout = without_prefix(rollout[row, top:height, :width], first)
            if p_t is not None:
                record.p_t = p_t[row, top:height] - first
                record.window_reach = self.model.window_reach
            records.append(record)
        return records

    def force_decode(self, pair: IdPair) -> AttentionRecord:
        """Forced decoding of one pair."""
        return next(self.force_decode_all([pair]))

    def attention_tensors(self, pair: IdPair) -> tuple[Tensor | None, Tensor | None, Tensor]:
        """The weights of one pair: encoder [L H S S], decoder [L H T T] and cross attention [L H T
        S], </s> counted.

        Encoder and decoder are None for a model without self-attention.
        """
        source, target = (np.asarray(side, dtype=np.int64) for side in pair)
        batch = collate([source], [target]).to(self.device)
        with torch.inference_mode(), torch.autocast(self.device.type, enabled=False):
            memory = self.model.encode(batch.source, batch.mask, weights=True)
            output = self.model.decode(batch.target, self.model.start(memory), memory, weights=True)
        assert output.weights is not None
        encoder, decoder = (
            None if each is None else each[0].float().cpu()
            for each in (memory.weights, output.self_weights)
        )
        return encoder, decoder, output.weights[0].float().cpu()

    def with_records(
        self, translations: Iterable[Translation]
    ) -> Iterator[tuple[Translation, list[AttentionRecord]]]:
        """Each translation with the records of its parts, or its own; CHUNK_PAIRS translations are
        decoded together."""
        remaining = iter(translations)
        while chunk := list(itertools.islice(remaining, CHUNK_PAIRS)):
            parts = [translation.parts or [translation] for translation in chunk]
            records = self.force_decode_all(
                (part.source_ids, part.ids) for each in parts for part in each
            )
            for translation, each in zip(chunk, parts, strict=True):
                yield translation, list(itertools.islice(records, len(each)))

    def search_records(self, translation: Translation) -> list[AttentionRecord]:
        """Records of the parts of a translation, or its own, without weights: what its search has
        found anyway.

        Unlike forced decoding this costs nothing. Empty where the engine did not say the
        log-probabilities.
        """
        records = []
        for part in translation.parts or [translation]:
            if not part.searched:
                return []
            first = self.tokenizers.source.prefix(part.source_ids)
            top = self.tokenizers.target.prefix(part.ids)
            pieces = (
                self.tokenizers.source.pieces(part.source_ids[first:]),
                self.tokenizers.target.pieces(part.ids[top:]),
            )
            records.append(AttentionRecord(*pieces, part.searched[top:]))
        return records

    def word_confidences(
        self, translation: Translation, records: Sequence[AttentionRecord], tokenized: bool = False
    ) -> WordConfidences:
        """The words of a line with the probability that each is right, from the records of its
        parts, or its own.

        `tokenized`: spaces alone separate words.
        """
        found: WordConfidences = []
        for record in records:
            words, spans, of_pieces = split_into_words(record.target_pieces, tokenized)
            logs = word_log_probabilities(
                record.log_probabilities[:-1], word_fractions(of_pieces, spans)
            )
            confidences = self.calibration.confidences(logs).tolist()
            found += zip(
                words, [1.0] * len(words) if translation.is_copied else confidences, strict=True
            )
        return found


def without_prefix(weights: np.ndarray, first: int) -> np.ndarray:
    """[… S+1] → [… S+1−first]: the weight of the first columns, which are no text, is added to that
    of </s>."""
    rest = weights[..., first:].copy()
    rest[..., -1] += weights[..., :first].sum(-1)
    return rest


def with_batch_tokens(decode: DecodeConfig, device: torch.device) -> DecodeConfig:
    """The settings of search with decode.batch_tokens chosen by the device where it is null."""
    if decode.batch_tokens is not None:
        return decode
    memory = torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else 0
    return replace(decode, batch_tokens=max(ON_CPU, memory // BYTES))

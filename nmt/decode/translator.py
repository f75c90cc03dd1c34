"""Text to text, in order, holding no more of it in memory than a chunk of lines."""

import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from nmt.config.schema import DecodeConfig
from nmt.data.batches import Ids, batches_by_length, pad, padding_mask
from nmt.data.line_chunks import text_chunks
from nmt.data.text_filter import Encoded, Protected
from nmt.data.tokenizer import EOS, Tokenizers
from nmt.decode.beam_search import search
from nmt.decode.budget import in_parts, with_batch_tokens
from nmt.decode.confidence import Calibration
from nmt.decode.constraints import Constraints
from nmt.decode.forced_columns import ForcedColumns, Template
from nmt.decode.forced_decoding import AttentionRecord, IdPair, pair_batches, pair_chunks
from nmt.decode.hypothesis import Hypothesis, NBest
from nmt.decode.long_lines import Done, Report, join_texts, report_lines, split_positions
from nmt.decode.parallel import WorkersKilled, parallel_map
from nmt.decode.recording import attention_tensors, record_batch
from nmt.decode.translation import Translation
from nmt.errors import UserError
from nmt.models.base import EncoderDecoder

log = logging.getLogger("nmt")
BATCHES_PER_PROCESS, MIN_BATCH_TOKENS = 4, 512  # of several processes, if that leaves so many positions to a batch
T = TypeVar("T", bound="Translator")
ShareBatches = Callable[[Callable[[int], NBest], int], list[NBest]]  # function, count → function(0), …


class Terms(Protocol):
    """What makes translations use the terms of a glossary."""

    def unprotect(self, protected: Protected) -> Protected:
        """A source without placeholders for its terms."""

    def apply(self, translator: "Translator", sources: Sequence[Encoded], nbest: NBest) -> NBest:
        """The n best of each sentence, with the terms."""


@dataclass(frozen=True, eq=False)
class Translator:
    """A model with its tokenizers and the settings of search. Immutable: `with_options` returns a copy."""

    model: EncoderDecoder
    tokenizers: Tokenizers
    decode: DecodeConfig
    max_pieces: int  # a longer line is translated in parts
    device: torch.device
    autocast: torch.autocast
    search_model: EncoderDecoder | None = None  # `model` with packed weights, where these no longer change
    num_processes: int = 1  # that divide the batches of a file
    share_batches: ShareBatches | None = None  # of processes that all translate the same file together
    calibration: Calibration = Calibration()  # of the confidences of words
    terms: Terms | None = None  # of a glossary

    @property
    def batch_tokens(self) -> int:
        """decode.batch_tokens, chosen by the device where it is null."""
        return with_batch_tokens(self.decode, self.device).batch_tokens or 1

    def with_options(self: T, *, decode: DecodeConfig | None = None, num_processes: int | None = None) -> T:
        """The same translator with other settings of search or another number of processes."""
        return replace(self, decode=decode or self.decode, num_processes=num_processes or self.num_processes)

    def translate(self, lines: Iterable[str], report: Report | None = None) -> Iterator[Translation]:
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
        """`translate` of lines that are searched together; `start` is the number of the first one."""
        protected = self.tokenizers.protect_sources(texts)
        if self.terms is not None:
            protected = [self.terms.unprotect(each) for each in protected]
        ids = self.tokenizers.source.encode_protected(protected)
        copied = [number for number, each in enumerate(protected) if self.tokenizers.protects and each.is_copied]
        copies = {number: self.copy(protected[number].text, ids[number]) for number in copied if ids[number]}
        parts = [[] if number in copies else self.split_long(row, start + number) for number, row in enumerate(ids)]
        try:
            sources = [part for row in parts for part in row]
            hypotheses = iter(self.search_with_terms(sources, report_lines(parts, report) if report else None))
        except WorkersKilled as error:
            numbers = [start + number for number, row in enumerate(parts) for _ in row]
            raise UserError(error.describe({numbers[row] for row in error.rows})) from None
        for number, row in enumerate(parts):
            yield copies.get(number) or self.join_parts([(part, next(hypotheses)) for part in row])

    def copy(self, text: str, ids: Encoded) -> Translation:
        """The translation of a line without a letter outside its placeholders: itself, with the score 0."""
        target = ids.like(self.tokenizers.target.encode(text))
        return Translation(self.tokenizers.target.decode(target), 0.0, ids, target, is_copied=True, translator=self)

    def split_long(self, ids: Encoded, line: int) -> list[Encoded]:
        """The ids of line number `line` in parts of at most `max_pieces`, split between words where possible."""
        if len(ids) <= self.max_pieces:
            return [ids] if ids else []
        stops = [0, *split_positions(self.tokenizers.source.pieces(ids), self.max_pieces), len(ids)]
        log.warning(
            "Line %d has %d pieces, more than tokenizer.max_pieces=%d; it is translated in %d parts.",
            line, len(ids), self.max_pieces, len(stops) - 1,
        )  # fmt: skip
        return [ids[start:stop] for start, stop in itertools.pairwise(stops)]

    def join_parts(self, parts: list[tuple[Encoded, list[Hypothesis]]]) -> Translation:
        """The translation of a line from the ids and the hypotheses of its parts; none of a blank line.

        Only a line of one part has alternatives.
        """
        if not parts:
            return Translation("", 0.0, [], [], is_copied=True, translator=self)
        if len(parts) == 1:
            source, hypotheses = parts[0]
            best, *best.alternatives = (self.to_translation(source, hypothesis) for hypothesis in hypotheses)
            return best
        firsts = [self.to_translation(source, hypotheses[0]) for source, hypotheses in parts]
        alpha = self.decode.length_penalty
        lengths = [len(part.ids) + 1 for part in firsts]
        log_probability = sum(part.score * length**alpha for part, length in zip(firsts, lengths, strict=True))
        return Translation(
            join_texts([part.text for part in firsts if part.text]),
            log_probability / sum(lengths) ** alpha,
            parts[0][0].like(piece for part in firsts for piece in part.source_ids),
            parts[0][0].like(piece for part in firsts for piece in part.ids),
            parts=firsts,
            translator=self,
        )

    def to_translation(self, source: Encoded, hypothesis: Hypothesis) -> Translation:
        """A hypothesis with its text; a span that was lost, where the hypothesis had to end, is added at its end."""
        ids = source.like(hypothesis.ids)
        sides = zip(
            self.tokenizers.source.marks,
            self.tokenizers.source.placeholders,
            self.tokenizers.target.placeholders,
            strict=False,
        )
        lost = [source.spans[text] for text, of_source, of_target in sides
                if of_source in source and of_target not in ids]  # fmt: skip
        text = " ".join([self.tokenizers.target.decode(ids), *lost]).strip()
        return Translation(text, hypothesis.score, source, ids, translator=self)

    def search_with_terms(self, sources: list[Encoded], done: Done | None = None) -> NBest:
        """`search`, and again where a term of the glossary is missing."""
        nbest = self.search(sources, done=done)
        return nbest if self.terms is None else self.terms.apply(self, sources, nbest)

    def search(
        self, sources: Sequence[Sequence[int] | Ids], forced: Sequence[Template] | None = None, done: Done | None = None
    ) -> NBest:
        """The n best of each sentence, by beam search in batches of similar length; `forced`: its columns.

        `done` is called with the rows of each batch that has been searched.
        """
        results: NBest = [[] for _ in sources]
        batches = self.batches(sources)

        def search_rows(number: int) -> NBest:
            rows = batches[number].tolist()
            own = [sources[row] for row in rows]
            return self.search_batch(own) if forced is None else self.search_forced(own, [forced[row] for row in rows])

        try:
            for rows, batch_results in zip(batches, self.map_batches(search_rows, len(batches)), strict=True):
                for row, hypotheses in zip(rows, batch_results, strict=True):
                    results[row] = hypotheses
                if done:
                    done(rows.tolist())
        except WorkersKilled as error:
            error.rows = batches[error.index].tolist()
            raise
        return results

    def map_batches(self, function: Callable[[int], NBest], count: int) -> Iterable[NBest]:
        """function(0), …, function(count − 1), in this process or in several."""
        if self.share_batches:
            return self.share_batches(function, count)
        if min(self.num_processes, count) <= 1:
            return map(function, range(count))
        return parallel_map(function, count, self.num_processes)

    def batches(self, sources: Sequence[Sequence[int] | Ids]) -> list[np.ndarray]:
        """Indices of sentences to search together, longest first; with several processes enough batches for each."""
        lengths = np.array([len(ids) for ids in sources])
        budget = self.batch_tokens // self.decode.beam
        if self.num_processes > 1:
            tokens = int((lengths + 1).sum()) // (BATCHES_PER_PROCESS * self.num_processes)
            budget = min(budget, max(tokens, MIN_BATCH_TOKENS))
        return batches_by_length(lengths, budget)

    def search_batch(self, sources: Sequence[Sequence[int] | Ids], limits: np.ndarray | None = None) -> NBest:
        """Beam search over one batch; `limits`: maximum length of each hypothesis, </s> counted."""
        ends = self.limits(np.array([len(ids) for ids in sources])) if limits is None else limits
        return in_parts(lambda rows: self.search_rows(sources[rows], ends[rows]), len(sources))

    def search_forced(self, sources: Sequence[Sequence[int] | Ids], forced: Sequence[Template]) -> NBest:
        """Beam search over one batch of sentences whose target columns are forced."""
        limits = np.array([len(template) + 1 for template in forced])
        return in_parts(lambda rows: self.search_rows(sources[rows], limits[rows], forced[rows]), len(sources))

    def search_rows(
        self, sources: Sequence[Sequence[int] | Ids], limits: np.ndarray, forced: Sequence[Template] | None = None
    ) -> NBest:
        """Beam search over sentences that fit into the memory together."""
        source = pad([np.append(ids, EOS) for ids in sources])
        real = padding_mask(source)
        source, real = source.to(self.device), None if real is None else real.to(self.device)
        model, decode = self.search_model or self.model, self.decode
        with self.autocast:
            constraints: Constraints | ForcedColumns | None = None
            if forced:
                constraints = ForcedColumns.start(forced, self.tokenizers.target.size, self.device)
            elif decode.avoid_loops or self.tokenizers.protects:
                placeholders = self.tokenizers.source.placeholders, self.tokenizers.target.placeholders
                constraints = Constraints.start(source, *placeholders, avoid_loops=decode.avoid_loops)
            limit = torch.as_tensor(limits)
            return search(model, source, real, decode.beam, decode.length_penalty, limit, constraints)

    def limits(self, lengths: np.ndarray) -> np.ndarray:
        """Maximum length of a hypothesis for sources of these lengths: ratio · length + extra, and </s>."""
        return (self.decode.max_length_ratio * lengths + self.decode.max_length_extra).astype(np.int64) + 1

    def force_decode(self, pair: IdPair) -> AttentionRecord:
        """Forced decoding of one pair."""
        return self.force_decode_batch([pair])[0]

    def force_decode_all(self, pairs: Iterable[IdPair]) -> Iterator[AttentionRecord]:
        """Forced decoding of pairs, in order; each chunk of them is sorted by length and decoded in batches."""
        for chunk in pair_chunks(pairs):
            records: dict[int, AttentionRecord] = {}
            for rows in pair_batches(chunk, self.batch_tokens):
                records |= zip(rows, self.force_decode_batch([chunk[row] for row in rows]), strict=True)
            yield from (records[row] for row in range(len(chunk)))

    def attention_tensors(self, pair: IdPair) -> tuple[Tensor | None, Tensor | None, Tensor]:
        """The weights of one pair, of encoder, decoder and between them (`attention_tensors`)."""
        return attention_tensors(self.model, self.device, pair)

    def force_decode_batch(self, pairs: Sequence[IdPair]) -> list[AttentionRecord]:
        """Forced decoding of one batch; the padding is removed from the records."""
        return record_batch(self.model, self.tokenizers, self.device, pairs)

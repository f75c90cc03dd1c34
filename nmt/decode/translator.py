"""The translator: from lines of text to translations, in order, one chunk after another.

A chunk is what is in memory at once. A line that is too long is divided into parts. An engine is a
subclass of `Translator` with a search of its own (nmt/convert/ctranslate2_folder.py).

B batch, L layers, H heads, S source pieces, T target pieces, W words.
"""

from __future__ import annotations

import itertools
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from nmt.config.schema import DecodeConfig
from nmt.corpus.line_chunks import text_chunks
from nmt.corpus.tags import sentence_start
from nmt.corpus.words import join_texts, split_into_words
from nmt.data.batches import Batch, batches_by_length, collate, pad
from nmt.data.text_filter import Encoded, Protected, has_words, with_placeholders
from nmt.data.tokenizer import EOS, PAD, Tokenizers
from nmt.decode.beam_search import Hypothesis, NBest, search
from nmt.decode.choice import Chooser
from nmt.decode.confidence import Calibration, least_log_probabilities
from nmt.decode.constraints import Constraint, ForcedColumns, LoopAndPlaceholderConstraint, Template
from nmt.decode.forced_decoding import (
    CHUNK_PAIRS,
    AttentionRecord,
    IdPair,
    force_decode,
    pair_batches,
    pair_chunks,
)
from nmt.decode.glossary import Glossary
from nmt.decode.long_lines import split_positions
from nmt.decode.parallel import WorkersKilled, parallel_map
from nmt.decode.quality import Quality
from nmt.decode.sampling import Place, Sampling
from nmt.decode.term_search import write_terms
from nmt.decode.translation import Translation, WordConfidences
from nmt.errors import UserError
from nmt.models.base import EncoderDecoder

log = logging.getLogger("nmt")
LISTED_LINES = 10  # in an error message

# With several processes, each gets about BATCHES_PER_PROCESS batches, but batches are not made
# smaller than MIN_BATCH_TOKENS source positions for that.
BATCHES_PER_PROCESS = 4
MIN_BATCH_TOKENS = 512

# The default of decode.batch_tokens (source positions × beam): CPU_BATCH_TOKENS on a CPU; on a GPU
# its memory / BYTES_PER_TOKEN, but no fewer than on a CPU. A big Transformer needs about 0.2 MB for
# each source position of a hypothesis, logits included, so this leaves a margin.
CPU_BATCH_TOKENS = 8192
BYTES_PER_TOKEN = 1 << 19

Report = Callable[[int], object]  # is called with a number of lines that have just been finished
# Like `map`: calls a function with the indices of the queries of each batch
MapBatches = Callable[[Callable[[np.ndarray], NBest], Sequence[np.ndarray]], Iterable[NBest]]


class Query(NamedTuple):
    """A source to translate, and what is required of its translations."""

    source: Encoded
    place: Place = (1, 0)  # its samples depend on it; messages name its line
    limit: int | None = None  # the maximum length of hypotheses, </s> counted, if it is given
    template: Template | None = None  # the columns of the target, if they are forced


class Estimator(Protocol):
    """What estimates the quality of translations; nmt/evaluate/estimate.py has the one there is."""

    def digest(self) -> str:
        """A hash of all that its estimates depend on."""

    def estimate(
        self,
        translator: Translator,
        translations: Sequence[Translation],
        records: Sequence[Sequence[AttentionRecord]],
    ) -> list[Quality | None]:
        """The quality of each translation, None for a copied one.

        It also sets the `quality` of the parts of each.
        """


@dataclass(frozen=True, eq=False)
class Translator:
    """A model with its tokenizers and the settings of search."""

    model: EncoderDecoder
    tokenizers: Tokenizers
    decode: DecodeConfig
    max_pieces: int  # a longer line is translated in parts
    device: torch.device
    autocast: torch.autocast
    search_model: EncoderDecoder | None = None  # a copy of `model` for search, with packed weights
    num_processes: int = 1  # that divide the batches
    map_batches: MapBatches | None = None  # an engine's own way to divide them, without processes
    calibration: Calibration = Calibration()  # of the confidences of words
    estimator: Estimator | None = None  # of the quality of sentences
    terms: Glossary | None = None
    target_prefix: str = ""  # the text that every translation begins with
    sampling: Sampling | None = None  # how hypotheses are drawn; then the beam is 1
    chooser: Chooser | None = None  # chooses one of the hypotheses, which need not be the best

    def __post_init__(self) -> None:
        if self.sampling is not None and self.decode.beam != 1:
            raise UserError("Samples are drawn one by one; leave out the beam.")
        if self.terms is not None and (self.sampling or self.chooser):
            raise UserError(
                "A glossary needs the best translations of a beam; leave out samples and the "
                "choice among translations."
            )
        if self.terms is not None and self.target_prefix:
            raise UserError(
                "A translation cannot both begin with a given text and have the terms of a "
                "glossary."
            )

    @property
    def batch_tokens(self) -> int:
        """Source positions × beam in one batch."""
        return self.decode.batch_tokens or default_batch_tokens(self.device)

    @property
    def num_hypotheses(self) -> int:
        """How many hypotheses of each sentence are searched: the samples, or the beam."""
        return self.decode.beam if self.sampling is None else self.sampling.samples

    def beside_others(self) -> Translator:
        """A translator that may run at the same time as this one.

        An engine may give it fewer threads.
        """
        return self

    def translate(
        self, lines: Iterable[str], report: Report | None = None
    ) -> Iterator[Translation]:
        """One translation for each line, in order; a blank line stays blank.

        `report` is called after each batch with the number of lines that it has finished.
        """
        start = 1
        for texts in text_chunks(lines):
            yield from self.translate_chunk(texts, start, report)
            start += len(texts)

    def translate_chunk(
        self, texts: Sequence[str], start: int = 1, report: Report | None = None
    ) -> Iterator[Translation]:
        """`translate` of one chunk of lines; `start` is the number of the first."""
        # Encode
        self.tokenizers.check_languages(texts, start)
        protected = self.tokenizers.protect_sources(texts)
        if self.terms is not None:
            protected = [self.terms.unprotect(line) for line in protected]
        encoded = self.tokenizers.encode_sources(protected)

        # Divide long lines into parts
        parts_of_lines: list[list[Query]] = []
        for number, (ids, line) in enumerate(zip(encoded, protected, strict=True), start):
            parts_of_lines.append(self.parts_of_line(ids, line, number))
        if report:
            report(sum(not parts for parts in parts_of_lines))

        # Search
        queries = list(itertools.chain.from_iterable(parts_of_lines))
        nbest = self.search(queries, report)
        if self.terms is not None:
            nbest = write_terms(self.terms, self, queries, nbest)

        # One translation for each line
        results = iter(nbest)
        lines = zip(texts, encoded, parts_of_lines, strict=True)
        for number, (text, ids, parts) in enumerate(lines, start):
            if not parts:
                yield self.copy_line(text, ids)
                continue
            translations = []  # of each part
            nbest_of_parts = itertools.islice(results, len(parts))
            for part, nbest_of_part in zip(parts, nbest_of_parts, strict=True):
                source = part.source
                translations.append([self.to_translation(source, best) for best in nbest_of_part])
            yield self.choose_translation(number, translations)

    def copy_line(self, line: str, ids: Encoded) -> Translation:
        """A line that is not translated, without its tags and repeated spaces."""
        start = sentence_start(line, self.tokenizers.source.tags)
        text = " ".join(line[start:].split())
        target = Encoded(self.tokenizers.target.encode(text))
        return Translation(text, 0.0, ids, target, is_copied=True, translator=self)

    def parts_of_line(self, ids: Encoded, line: Protected, number: int) -> list[Query]:
        """The parts of a line that are searched: the line itself if it is short, [] to copy it.

        The translation of the first part begins with `target_prefix`.
        """
        start = sentence_start(line.text, self.tokenizers.source.tags)
        is_copied = self.tokenizers.protects and not has_words(line.text[start:])
        # The pieces of a tab or a NUL would be translated like words
        is_visible = any(letter.isprintable() and letter != " " for letter in line.text)
        if is_copied or not is_visible or not ids:
            return []
        parts = self.split_long(ids, number)
        if self.target_prefix:
            target = self.tokenizers.target
            prefix = target.encode(with_placeholders(self.target_prefix, line))
            # `begin` already has the language
            parts[0].begin = (*parts[0].begin, *prefix[target.prefix_length(prefix) :])
        return [Query(part, (number, index)) for index, part in enumerate(parts)]

    def split_long(self, ids: Encoded, line: int) -> list[Encoded]:
        """The ids of a line in parts of at most `max_pieces`."""
        if len(ids) <= self.max_pieces:
            return [ids]
        tokenizer = self.tokenizers.source
        beginning = tokenizer.sentence_start(ids)
        if beginning > self.max_pieces // 2:  # a line that is mostly tags: they are divided as text
            beginning = tokenizer.prefix_length(ids)
        prefix = ids[:beginning]  # of each part
        sentence = ids[beginning:]
        longest = self.max_pieces - beginning
        stops = [0, *split_positions(tokenizer.pieces(sentence), longest), len(sentence)]
        log.warning(
            "Line %d has %d pieces, more than tokenizer.max_pieces=%d; it is translated in %d "
            "parts.",
            line,
            len(ids),
            self.max_pieces,
            len(stops) - 1,
        )
        parts = []
        for start, stop in itertools.pairwise(stops):
            parts.append(ids.like([*prefix, *sentence[start:stop]]))
        return parts

    def to_translation(self, source: Encoded, hypothesis: Hypothesis) -> Translation:
        """A hypothesis as a translation.

        If it ended at its maximum length, it can lack placeholders of the source. What these stand
        for is added to the end of its text.
        """
        ids = source.like(hypothesis.ids)
        source_tokenizer, target_tokenizer = self.tokenizers
        text = target_tokenizer.decode(ids)
        if source.spans:
            missing = []
            for placeholder, source_id, target_id in zip(
                source_tokenizer.placeholders,
                source_tokenizer.placeholder_ids,
                target_tokenizer.placeholder_ids,
                strict=False,
            ):
                if source_id in source and target_id not in ids:
                    missing.append(source.spans.get(placeholder, placeholder))
            text = " ".join([text, *missing]).strip()
        searched = hypothesis.log_probabilities
        return Translation(text, hypothesis.score, source, ids, searched=searched, translator=self)

    def choose_translation(
        self, line: int, of_parts: Sequence[Sequence[Translation]]
    ) -> Translation:
        """The translation of a line with its alternatives, from those of each of its parts."""
        # Samples of several parts are joined one by one; of a beam, only the best are
        if self.sampling is None and len(of_parts) > 1:
            of_parts = [translations[:1] for translations in of_parts]
        candidates = [self.join_parts(parts) for parts in zip(*of_parts, strict=True)]
        if self.sampling is not None:
            candidates.sort(key=lambda candidate: -candidate.score)
        if self.chooser is not None:
            chosen = self.chooser(line, candidates)
            candidates.insert(0, candidates.pop(chosen))
        translation = candidates[0]
        translation.alternatives = candidates[1:]
        return translation

    def join_parts(self, parts: Sequence[Translation]) -> Translation:
        """The translation of a line from the translations of its parts."""
        if len(parts) == 1:
            return parts[0]
        alpha = self.decode.length_penalty
        source_ids: list[int] = []
        ids: list[int] = []
        lengths = []
        log_probabilities = []
        for part in parts:
            length = len(part.ids) + 1
            source_ids += part.source_ids
            ids += part.ids
            lengths.append(length)
            log_probabilities.append(part.score * length**alpha)
        first = parts[0]
        return Translation(
            join_texts([part.text for part in parts if part.text]),
            sum(log_probabilities) / sum(lengths) ** alpha,
            first.source_ids.like(source_ids),
            first.source_ids.like(ids),
            parts=list(parts),
            translator=self,
        )

    def search(self, queries: Sequence[Query], report: Report | None = None) -> NBest:
        """The n best or the samples of each query, searched in batches of similar length.

        Raises UserError if processes are killed.
        """

        def search_rows(rows: np.ndarray) -> NBest:
            return self.search_batch([queries[row] for row in rows])

        # A line is reported when its last part has been searched, even if others have not
        lines = [query.place[0] for query in queries]
        last_part = {line: row for row, line in enumerate(lines)}
        last_parts = set(last_part.values())
        results: dict[int, list[Hypothesis]] = {}
        batches = self.batches(queries)
        map_batches = self.map_batches or partial(parallel_map, num_processes=self.num_processes)
        try:
            for rows, nbest in zip(batches, map_batches(search_rows, batches), strict=True):
                results.update(zip(rows.tolist(), nbest, strict=True))
                if report:
                    report(len(last_parts.intersection(rows.tolist())))
        except WorkersKilled as error:
            # The cause is the first batch that is not done, or one that was begun after it
            rows = np.concatenate(batches[error.index : error.index + self.num_processes])
            killed = sorted({lines[row] for row in rows})
            numbers = ", ".join(map(str, killed[:LISTED_LINES]))
            raise WorkersKilled(error.index, f"line {numbers} or one near it") from None
        return [results[row] for row in range(len(queries))]

    def batches(self, queries: Sequence[Query]) -> list[np.ndarray]:
        """Batches of indices of queries, longest first, and enough of them for all processes."""
        lengths = np.array([len(query.source) for query in queries])
        budget = self.batch_tokens // self.num_hypotheses
        if self.num_processes > 1:
            tokens = int((lengths + 1).sum()) // (BATCHES_PER_PROCESS * self.num_processes)
            budget = min(budget, max(tokens, MIN_BATCH_TOKENS))
        return batches_by_length(lengths, budget)

    def search_batch(self, queries: Sequence[Query]) -> NBest:
        """Search over one batch.

        Sentences whose translations begin with different numbers of given pieces are searched
        apart. What does not fit into the memory is searched in halves. Either all queries have a
        template or none has.
        """
        by_length: dict[int, list[int]] = defaultdict(list)
        for row, query in enumerate(queries):
            by_length[len(query.source.begin)].append(row)
        groups = list(by_length.values())

        if len(groups) == 1:
            try:
                return self.search_together(queries)
            except torch.OutOfMemoryError:
                if len(queries) == 1:
                    raise
            # Outside of the handler, in which the exception keeps the tensors of the failed search
            torch.cuda.empty_cache()
            rows = groups[0]
            middle = len(rows) // 2
            groups = [rows[:middle], rows[middle:]]

        results: dict[int, list[Hypothesis]] = {}
        for rows in groups:
            nbest = self.search_batch([queries[row] for row in rows])
            results.update(zip(rows, nbest, strict=True))
        return [results[row] for row in range(len(queries))]

    def search_together(self, queries: Sequence[Query]) -> NBest:
        """Search over one batch whose hypotheses begin with the same number of pieces."""
        source = pad([np.append(query.source, EOS) for query in queries])  # [B S]
        is_token = source != PAD
        mask = None if bool(is_token.all()) else is_token.to(self.device)
        source = source.to(self.device)
        limits = torch.tensor(list(map(self.limit, queries)))  # [B]

        # Each sample is searched like a sentence of its own
        copies = 1
        sampler = None
        if self.sampling is not None:
            copies = self.sampling.samples
            places = [query.place for query in queries]
            sampler = self.sampling.sampler(places, int(limits.max()), self.device)
        constraint: Constraint | None = None
        templates = [query.template for query in queries if query.template is not None]
        if templates:
            constraint = ForcedColumns.start(templates, self.tokenizers.target.size, self.device)
        elif self.decode.avoid_loops or self.tokenizers.protects:
            constraint = LoopAndPlaceholderConstraint.start(
                source.repeat_interleave(copies, 0),
                self.tokenizers.source.placeholder_ids,
                self.tokenizers.target.placeholder_ids,
                avoid_loops=self.decode.avoid_loops,
            )
        begin = None
        if queries[0].source.begin:
            begin = torch.tensor([query.source.begin for query in queries])  # [B P]
            begin = begin.to(self.device).repeat_interleave(copies, 0)
        with self.autocast:
            nbest = search(
                self.search_model or self.model,
                source,
                mask,
                self.decode.beam,
                self.decode.length_penalty,
                limits.repeat_interleave(copies),
                constraint=constraint,
                begin=begin,
                early_stopping=self.decode.early_stopping,
                sampler=sampler,
            )

        # All samples of a source are its hypotheses
        results = []
        for row in range(0, len(nbest), copies):
            results.append(list(itertools.chain(*nbest[row : row + copies])))
        return results

    def limit(self, query: Query) -> int:
        """The maximum length of hypotheses: their beginning, ratio · length + extra, and </s>.

        It is at most `max_length` of the model, which has one if it learns its positions.
        """
        if query.template is not None:
            return len(query.template) + 1
        if query.limit is not None:
            return query.limit
        longest = self.decode.max_length_ratio * len(query.source) + self.decode.max_length_extra
        limit = len(query.source.begin) + int(longest) + 1
        return limit if self.model.max_length is None else min(limit, self.model.max_length)

    def force_decode_all(self, pairs: Iterable[IdPair]) -> Iterator[AttentionRecord]:
        """Forced decoding of pairs, in order; each chunk is decoded in batches of similar length.

        It is always in float32. In bf16, rounding depends on the batch, so that the other pairs
        could change which of two nearly equal weights is larger, and with it a link.
        """
        for chunk in pair_chunks(pairs):
            records: dict[int, AttentionRecord] = {}
            for rows in pair_batches(chunk, self.batch_tokens):
                batch_records = self.force_decode_batch([chunk[row] for row in rows])
                records.update(zip(rows, batch_records, strict=True))
            yield from (records[row] for row in range(len(chunk)))

    def force_decode_batch(self, pairs: Sequence[IdPair]) -> list[AttentionRecord]:
        """Forced decoding of one batch; padding and prefixes are removed from the records."""
        batch = self.collate_pairs(pairs)
        with torch.autocast(self.device.type, enabled=False):
            decoded = force_decode(self.model, batch.source, batch.mask, batch.target, batch.output)
        log_probabilities = decoded.log_probabilities.tolist()
        weights = to_numpy(decoded.weights)
        rollout = to_numpy(decoded.rollout)
        p_t = to_numpy(decoded.p_t)
        records = []
        for row, (source, target) in enumerate(pairs):
            width = len(source) + 1
            source_prefix = self.tokenizers.source.prefix_length(source)
            # [T+1 …] without its prefix; `record` removes that of the log-probabilities
            columns = slice(self.tokenizers.target.prefix_length(target), len(target) + 1)
            record = self.record(source, target, log_probabilities[row][: columns.stop])
            if weights is not None:
                record.weights = without_prefix(weights[row, :, :, columns, :width], source_prefix)
            if rollout is not None:
                record.rollout = without_prefix(rollout[row, columns, :width], source_prefix)
            if p_t is not None:
                record.p_t = p_t[row, columns] - source_prefix
                record.window_reach = self.model.window_reach
            records.append(record)
        return records

    def collate_pairs(self, pairs: Sequence[IdPair]) -> Batch:
        sources = [np.asarray(source, dtype=np.int64) for source, _ in pairs]
        targets = [np.asarray(target, dtype=np.int64) for _, target in pairs]
        return collate(sources, targets).to(self.device)

    def record(
        self, source: Sequence[int], target: Sequence[int], log_probabilities: list[float]
    ) -> AttentionRecord:
        """A record without weights, and without the prefixes of both sides."""
        source_tokenizer, target_tokenizer = self.tokenizers
        target_prefix = target_tokenizer.prefix_length(target)
        return AttentionRecord(
            source_tokenizer.pieces(source[source_tokenizer.prefix_length(source) :]),
            target_tokenizer.pieces(target[target_prefix:]),
            log_probabilities[target_prefix:],
        )

    def force_decode(self, pair: IdPair) -> AttentionRecord:
        """Forced decoding of one pair."""
        return next(self.force_decode_all([pair]))

    def with_records(
        self, translations: Iterable[Translation]
    ) -> Iterator[tuple[Translation, list[AttentionRecord]]]:
        """Each translation with the records of its parts, or with its own if it has no parts.

        Up to CHUNK_PAIRS translations are read at once.
        """
        remaining = iter(translations)
        while chunk := list(itertools.islice(remaining, CHUNK_PAIRS)):
            pairs: list[IdPair] = []
            for translation in chunk:
                for part in translation.searched_parts:
                    pairs.append((part.source_ids, part.ids))
            records = self.force_decode_all(pairs)
            for translation in chunk:
                count = len(translation.searched_parts)
                yield translation, list(itertools.islice(records, count))

    def search_records(self, translation: Translation) -> list[AttentionRecord]:
        """The records of a translation without forced decoding, and so without weights.

        They have the log-probabilities of its search; [] if the engine did not report them, or if
        the line was copied.
        """
        records = []
        for part in translation.searched_parts:
            if not part.searched:
                return []
            records.append(self.record(part.source_ids, part.ids, part.searched))
        return records

    def word_confidences(
        self, translation: Translation, records: Sequence[AttentionRecord], tokenized: bool = False
    ) -> WordConfidences:
        """The words of a line, each with the probability that it is right.

        `records` are those of its parts, or its own. `tokenized`: spaces alone separate words.
        """
        result: WordConfidences = []
        for record in records:
            words, _, fractions = split_into_words(record.target_pieces, tokenized)  # [T W]
            logs = least_log_probabilities(record.log_probabilities[:-1], fractions)
            confidences = self.calibration.confidences(logs).tolist()
            if translation.is_copied:
                confidences = [1.0] * len(words)
            result += zip(words, confidences, strict=True)
        return result

    def estimate(
        self, translations: Sequence[Translation], records: Sequence[Sequence[AttentionRecord]]
    ) -> None:
        """Set the `quality` of translations together, and that of their parts.

        `records` are those of their parts.
        """
        if self.estimator is None:
            for translation in translations:
                for each in (translation, *translation.parts):
                    each.quality = None
            return
        # This sets the qualities of the parts
        qualities = self.estimator.estimate(self, translations, records)
        for translation, quality in zip(translations, qualities, strict=True):
            translation.quality = quality


def to_numpy(tensor: Tensor | None) -> np.ndarray | None:
    return None if tensor is None else tensor.float().cpu().numpy()


def without_prefix(weights: np.ndarray, length: int) -> np.ndarray:
    """[… S+1] → [… S+1−length]: the weight of the prefix, which is no text, is added to </s>."""
    rest = weights[..., length:].copy()
    rest[..., -1] += weights[..., :length].sum(-1)
    return rest


def default_batch_tokens(device: torch.device) -> int:
    """decode.batch_tokens on this device if it is null."""
    memory = 0
    if device.type == "cuda":
        memory = torch.cuda.get_device_properties(device).total_memory
    return max(CPU_BATCH_TOKENS, memory // BYTES_PER_TOKEN)

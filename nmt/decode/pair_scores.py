"""Scores of given translations: log p(target | source), as search would count it.

T target pieces.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from nmt.corpus.words import split_into_words, word_fractions
from nmt.data.batches import batches_by_length
from nmt.decode.forced_decoding import IdPair, force_decode
from nmt.decode.parallel import parallel_map
from nmt.decode.translator import Report, Translator

# Positions of the longer sides of a batch, with padding, on a CPU. With 2,048 the scores of a
# Transformer of width 256 took twice the time.
CPU_POSITIONS = 512


@dataclass
class PairScore:
    """How probable a model finds a target, given its source."""

    pieces: list[str]  # T, of the target, without those that name its language
    log_probabilities: list[float]  # T + 1: of each piece, and of </s>
    score: float  # log-probability / length^α, as of the hypotheses of search

    @property
    def log_probability(self) -> float:
        """log p(target | source), in nats."""
        return sum(self.log_probabilities)

    def words(self, tokenized: bool = False) -> list[tuple[str, float]]:
        """The words of the target, each with its log-probability, which is the sum of its pieces'.

        A piece in two words is divided by characters. With that of </s> they sum to
        `log_probability`. `tokenized`: spaces alone separate words.
        """
        words, of_words, of_pieces = split_into_words(self.pieces, tokenized)
        fractions = word_fractions(of_pieces, of_words)  # [T W]
        values = np.array(self.log_probabilities[:-1]) @ fractions  # [W]
        return list(zip(words, values.tolist(), strict=True))


def score_pairs(
    translator: Translator, pairs: Sequence[tuple[str, str]], report: Report | None = None
) -> Iterator[PairScore | None]:
    """The scores of sentence pairs, in order; None for one that is too long for the model.

    Both sides are read as in training, so a number that both have is a placeholder in both. A long
    source is not divided, unlike in a translation. `report` is called with the number of pairs of
    each batch.
    """
    longest = translator.model.max_length
    encoded = translator.tokenizers.encode_pairs(pairs)
    rows = []
    for row, pair in enumerate(encoded):
        if longest is None or max(map(len, pair)) < longest:
            rows.append(row)
    if report:
        report(len(pairs) - len(rows))
    fitting = [encoded[row] for row in rows]
    results = dict(zip(rows, log_probabilities(translator, fitting, report), strict=True))
    for row, (_, target) in enumerate(encoded):
        if row not in results:
            yield None
            continue
        prefix = translator.tokenizers.target.prefix(target)
        of_pieces = results[row][prefix:]
        length = len(target) + 1
        score = sum(of_pieces) / length**translator.decode.length_penalty
        yield PairScore(translator.tokenizers.target.pieces(target[prefix:]), of_pieces, score)


def log_probabilities(
    translator: Translator, pairs: Sequence[IdPair], report: Report | None = None
) -> list[list[float]]:
    """log p of each target piece and of </s>, for each pair, from forced decoding.

    The model's copy for search computes them, in its number format. The batches are divided among
    the translator's processes.
    """

    def score_rows(rows: np.ndarray) -> list[list[float]]:
        batch = translator.collate_pairs([pairs[row] for row in rows])
        with translator.autocast:
            decoded = force_decode(
                translator.search_model or translator.model,
                batch.source,
                batch.mask,
                batch.target,
                batch.output,
                weights=False,
            )
        values = decoded.log_probabilities.cpu().tolist()  # [B T+1], padded
        return [values[row][: len(pairs[index][1]) + 1] for row, index in enumerate(rows)]

    lengths = np.array([max(len(source), len(target)) for source, target in pairs], dtype=np.int64)
    budget = translator.batch_tokens
    if translator.device.type == "cpu":
        budget = min(budget, CPU_POSITIONS)
    batches = batches_by_length(lengths, budget)
    map_batches = partial(parallel_map, num_processes=translator.num_processes)
    results: list[list[float]] = [[] for _ in pairs]
    for rows, scored in zip(batches, map_batches(score_rows, batches), strict=True):
        for row, values in zip(rows.tolist(), scored, strict=True):
            results[row] = values
        if report:
            report(len(rows))
    return results

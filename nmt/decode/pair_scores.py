"""Scores of given translations: log p(target | source), as search would count it.

T target pieces, W words.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nmt.corpus.words import split_into_words
from nmt.data.batches import batches_by_length
from nmt.decode.forced_decoding import IdPair, force_decode
from nmt.decode.parallel import parallel_map
from nmt.decode.translator import Report, Translator

# The most positions of a batch on a CPU, on its longer side, with padding. With 2,048 the scores of
# a Transformer of width 256 took twice the time.
CPU_POSITIONS = 512


@dataclass
class PairScore:
    """How probable a model finds a target, given its source."""

    pieces: list[str]  # [T]: of the target, without the prefix that names its language
    log_probabilities: list[float]  # [T+1]: of each piece, and of </s>
    score: float  # log-probability / length^α, as in search, where the length includes the prefix

    @property
    def log_probability(self) -> float:
        """log p(target | source), in nats."""
        return sum(self.log_probabilities)

    def words(self, tokenized: bool = False) -> list[tuple[str, float]]:
        """The words of the target, each with its log-probability, the sum over its pieces.

        A piece in two words is divided by characters. The words and </s> sum to `log_probability`.
        `tokenized`: spaces alone separate words.
        """
        words, _, fractions = split_into_words(self.pieces, tokenized)  # [T W]
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
    fitting: dict[int, IdPair] = {}  # by index
    for row, pair in enumerate(encoded):
        if longest is None or max(map(len, pair)) < longest:
            fitting[row] = pair
    if report:
        report(len(pairs) - len(fitting))
    scored = log_probabilities(translator, list(fitting.values()), report)
    results = dict(zip(fitting, scored, strict=True))
    tokenizer = translator.tokenizers.target
    for row, (_, target) in enumerate(encoded):
        if row not in results:
            yield None
            continue
        prefix = tokenizer.prefix_length(target)
        of_pieces = results[row][prefix:]
        length = len(target) + 1
        score = sum(of_pieces) / length**translator.decode.length_penalty
        yield PairScore(tokenizer.pieces(target[prefix:]), of_pieces, score)


def log_probabilities(
    translator: Translator, pairs: Sequence[IdPair], report: Report | None = None
) -> list[list[float]]:
    """log p of each target piece and of </s>, for each pair, by forced decoding.

    The copy of the model for search computes them, in its number format. The translator's processes
    divide the batches.
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
        padded = decoded.log_probabilities.cpu().tolist()  # [B T+1]
        widths = [len(pairs[row][1]) + 1 for row in rows]
        return [values[:width] for values, width in zip(padded, widths, strict=True)]

    lengths = np.array([max(len(source), len(target)) for source, target in pairs], dtype=np.int64)
    budget = translator.batch_tokens
    if translator.device.type == "cpu":
        budget = min(budget, CPU_POSITIONS)
    batches = batches_by_length(lengths, budget)
    scored_batches = parallel_map(score_rows, batches, translator.num_processes)
    results: list[list[float]] = [[] for _ in pairs]
    for rows, scored in zip(batches, scored_batches, strict=True):
        for row, values in zip(rows.tolist(), scored, strict=True):
            results[row] = values
        if report:
            report(len(rows))
    return results

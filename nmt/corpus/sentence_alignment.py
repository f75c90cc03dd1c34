"""Which sentences of two documents translate each other.

An alignment is a sequence of beads: so many sentences of one side stand for so many of the other
(BEADS). Dynamic programming finds the one with the largest sum (Gale and Church 1993, "A Program
for Aligning Sentences in Bilingual Corpora"). A bead of the sentences s and t counts

    log P(kind of bead) + log P(l_t | l_s) / P(l_t) + Σ_w∈t log P(w | s) / P(w)

so sentences without a counterpart count nothing but their kind.

Lengths l are in characters. As in the paper, l_t is normal around c · l_s, with a variance that is
proportional to l_s. Here both are measured on the documents, and a share of OUTLIERS has any
length. P(l_t) is log-normal.

Words are known from IBM model 1, with P(w) in place of the empty word (Moore 2002, "Fast and
Accurate Sentence Alignment of Bilingual Corpora"):

    P(w | s) = EMPTY · P(w) + (1 − EMPTY) · mean_v∈s p(w | v)
    p(w | v) = (max(c(v, w) − 1, 0) + [v = w] / 2) / (n(v) + [v = w]) + b(v) · P(w)

Of the n(v) beads with v in the alignment before, v became w in c(v, w), and b(v) is the probability
that is left. Two words that are together once say nothing, so that a wrong bead does not confirm
itself. A word that is the same on both sides, such as a name or a number, counts half before
anything is learnt. The first alignment knows nothing else of words. Deviation from Moore: beads of
several sentences have words as well, and are learnt from; as in Moore, only probable beads are.

Translations of the source sentences, if there are any, are more source words: those that the other
side has are the same there (Sennrich and Volk 2010, "MT-based Sentence Alignment for OCR-generated
Parallel Texts", compare the two by BLEU).

S source sentences, T target sentences, W columns of the band that is searched.
"""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import regex

from nmt.corpus.words import SPACELESS_CHARACTERS

Kind = tuple[int, int]
# Source and target sentences of a bead → how probable it is
BEADS: dict[Kind, float] = {
    (1, 1): 0.88,
    (1, 0): 0.03,
    (0, 1): 0.03,
    (2, 1): 0.025,
    (1, 2): 0.025,
    (2, 2): 0.004,
    (3, 1): 0.003,
    (1, 3): 0.003,
}
KINDS = list(BEADS)
ONLY_TARGET = KINDS.index((0, 1))
MOST = max(map(max, BEADS))  # sentences of a side
LONGEST = 10_000  # characters; longer texts count as texts of this length
ROUNDS = 3  # alignments; each but the first one learns words from the one before
WIDEST = 4000  # columns that the first one searches
WIDTH = 200  # columns around the one before, for the others
VARIANCE = 6.8  # of l_t for a source character, in the paper, until it is measured
CHI_SQUARED_MEDIAN = 0.455  # with one degree of freedom
OUTLIERS = 0.01
EMPTY = 0.2
LEARNT = 0.9  # least probability of a bead that words are learnt from
ITERATIONS = 4  # of expectation maximisation
MOST_LINKS = 2500  # between the words of a bead that is learnt from
STEM = 4  # letters of a word that count: endings do not, and many words of two languages agree
WORD = regex.compile(rf"[{SPACELESS_CHARACTERS}]|[^\W\d_{SPACELESS_CHARACTERS}]+|\d+")
Sentences = tuple[int, int]  # the first one, and one past the last


class Bead(NamedTuple):
    """Sentences that stand for each other, and how probable that is, given both documents."""

    source: Sentences
    target: Sentences
    probability: float = 1.0

    @property
    def kind(self) -> Kind:
        return self.source[1] - self.source[0], self.target[1] - self.target[0]

    @property
    def is_pair(self) -> bool:
        """Whether it has sentences of both sides."""
        return 0 not in self.kind


def align_sentences(
    source: Sequence[str], target: Sequence[str], translations: Sequence[str] = ()
) -> list[Bead]:
    """The best alignment of the sentences of two documents, in order.

    `translations`: of the source sentences, into the language of the target, from any model. Every
    sentence is in one bead. The first alignment searches WIDEST columns around the diagonal.
    """
    if not source or not target:
        beads = [Bead((row, row + 1), (0, 0)) for row in range(len(source))]
        return beads + [Bead((0, 0), (column, column + 1)) for column in range(len(target))]
    sides = Side(source, translations), Side(target)
    beads = [Bead((0, len(source)), (0, len(target)), 0.0)]
    width = WIDEST
    for _ in range(ROUNDS):
        lengths = Lengths(*sides, beads)
        words = learn_words(*sides, [bead for bead in beads if bead.probability >= LEARNT])
        scores = Scores(*sides, lengths, words)
        band = band_around(beads, width)
        beads = best_path(scores, band)
        width = WIDTH
        beads = with_probabilities(beads, scores, band_around(beads, width))
    return beads


class Side:
    """The lengths and words of the sentences of a document."""

    def __init__(self, sentences: Sequence[str], translations: Sequence[str] = ()) -> None:
        self.vocabulary: dict[str, int] = {}
        words: list[int] = []
        ends = [0]
        for number, sentence in enumerate(sentences):
            text = f"{sentence} {translations[number]}" if translations else sentence
            for word in WORD.findall(text.lower()):
                words.append(self.vocabulary.setdefault(word[:STEM], len(self.vocabulary)))
            ends.append(len(words))
        self.words = np.array(words, dtype=np.int64)
        self.word_ends = np.array(ends)  # [S+1]
        self.ends = np.array([0, *accumulate(map(len, sentences))])  # [S+1], in characters

    def __len__(self) -> int:
        return len(self.ends) - 1

    def words_of(self, sentences: Sentences) -> np.ndarray:
        return self.words[self.word_ends[sentences[0]] : self.word_ends[sentences[1]]]

    def length(self, sentences: Sentences) -> int:
        return int(self.ends[sentences[1]] - self.ends[sentences[0]])

    def frequencies(self) -> np.ndarray:
        """P(w)."""
        return np.bincount(self.words, minlength=len(self.vocabulary)) / max(len(self.words), 1)


class Lengths:
    """log P(l_t | l_s) / P(l_t), as the pairs of an alignment have it."""

    def __init__(self, source: Side, target: Side, beads: Iterable[Bead]) -> None:
        pairs = [bead for bead in beads if bead.is_pair]
        of_source = np.array([source.length(bead.source) for bead in pairs] or [1]).clip(1)
        of_target = np.array([target.length(bead.target) for bead in pairs] or [1])
        self.ratio = max(of_target.sum(), 1) / of_source.sum()
        self.variance = VARIANCE
        if len(pairs) > 1:
            squares = (of_target - self.ratio * of_source) ** 2 / of_source
            self.variance = float(np.median(squares)) / CHI_SQUARED_MEDIAN

        # The log-normal lengths of one sentence, and the longest text of 0, 1, 2 … sentences
        logs = np.log(np.diff(target.ends).clip(1))
        self.mean = np.exp(logs.mean() + logs.var() / 2)
        self.spread = np.exp(logs.var()) - 1 + 1e-3  # variance / mean²
        self.longest = [0]
        for count in range(1, MOST + 1):
            lengths = target.ends[count:] - target.ends[:-count]
            self.longest.append(min(int(lengths.max(initial=0)), LONGEST))
        self.known: dict[tuple[int, int], np.ndarray] = {}

    def scores(self, source: int, count: int) -> np.ndarray:
        """For texts of `count` target sentences that have 0, 1, 2 … characters."""
        key = source, count
        if key not in self.known:
            target = np.arange(self.longest[count] + 1)
            variance = self.variance * max(source, 1) + 1
            expected = np.exp(-((target - self.ratio * source) ** 2) / (2 * variance))
            expected /= np.sqrt(2 * np.pi * variance)

            # A sum of log-normal lengths is nearly log-normal
            log_variance = np.log(1 + self.spread / count)
            log_mean = np.log(count * self.mean) - log_variance / 2
            target = target.clip(1)
            usual = np.exp(-((np.log(target) - log_mean) ** 2) / (2 * log_variance))
            usual /= target * np.sqrt(2 * np.pi * log_variance)
            ratios = expected / np.maximum(usual, 1e-12)
            self.known[key] = np.log((1 - OUTLIERS) * ratios + OUTLIERS)
        return self.known[key]


class WordTable(NamedTuple):
    """The target words that each source word v may become: those from starts[v] to starts[v + 1].

    `ratios`: p(w | v) / P(w) without the rest; `rest`: b(v).
    """

    starts: np.ndarray
    words: np.ndarray
    ratios: np.ndarray
    rest: np.ndarray


def learn_words(source: Side, target: Side, beads: Iterable[Bead]) -> WordTable:
    """p(w | v) from the pairs of an alignment, by expectation maximisation."""
    size = len(target.vocabulary)
    frequencies = target.frequencies()
    same = []  # v · size + w of the words that both sides have
    for word, number in source.vocabulary.items():
        if word in target.vocabulary:
            same.append(number * size + target.vocabulary[word])

    # A link for each word v and w of a bead; `owners`: to which of all w of all beads it belongs
    counts = np.zeros(len(source.vocabulary))  # n(v)
    links = [np.array(same, dtype=np.int64)]
    owners = [np.zeros(len(same), dtype=np.int64)]
    empty = [np.ones(1)]  # the weight of the empty word for each w
    total = 1
    for bead in beads:
        of_source = np.unique(source.words_of(bead.source))
        of_target = np.unique(target.words_of(bead.target))
        if not 0 < len(of_source) * len(of_target) <= MOST_LINKS:
            continue
        counts[of_source] += 1
        links.append((of_source * size + of_target[:, None]).ravel())
        owners.append(np.repeat(np.arange(total, total + len(of_target)), len(of_source)))
        empty.append(EMPTY / (1 - EMPTY) * len(of_source) * frequencies[of_target])
        total += len(of_target)

    # Two words that are together once are nothing
    keys, of_key, times = np.unique(np.concatenate(links), return_inverse=True, return_counts=True)
    is_same = np.isin(keys, same)
    kept = is_same | (times > 1)
    keys = keys[kept]
    is_same = is_same[kept]
    is_kept = kept[of_key]
    of_key = (np.cumsum(kept) - 1)[of_key[is_kept]]
    of_owner = np.concatenate(owners)[is_kept]
    from_words = keys // size
    to_words = keys % size

    weights_of_empty = np.concatenate(empty)
    probabilities = times[kept] / (counts[from_words] + is_same)
    for _ in range(ITERATIONS):
        weights = probabilities[of_key]
        totals = weights_of_empty + np.bincount(of_owner, weights, minlength=total)
        expected = np.bincount(of_key, weights / totals[of_owner], minlength=len(keys))
        numerators = np.maximum(expected - 1, 0) + is_same / 2
        probabilities = numerators / (counts[from_words] + is_same)

    # A word may become several words, but has a probability of 1 in all
    sums = np.bincount(from_words, probabilities, minlength=len(counts))
    probabilities /= np.maximum(sums, 1)[from_words]
    kept = probabilities > frequencies[to_words]  # the others are no more likely than by chance
    from_words = from_words[kept]
    to_words = to_words[kept]
    probabilities = probabilities[kept]
    starts = np.searchsorted(from_words, np.arange(len(counts) + 1))
    rest = 1 - np.bincount(from_words, probabilities, minlength=len(counts))
    return WordTable(starts, to_words, probabilities / frequencies[to_words], rest)


class Scores:
    """What each bead counts."""

    def __init__(self, source: Side, target: Side, lengths: Lengths, table: WordTable) -> None:
        self.source = source
        self.target = target
        self.lengths = lengths
        # Of each source sentence: the words that it may become, their ratios, and Σ_v b(v)
        self.becomes: list[tuple[np.ndarray, np.ndarray, float]] = []
        nothing = np.zeros(0, dtype=np.int64)
        for row in range(len(source)):
            words = source.words_of((row, row + 1))
            indices = [nothing]
            indices += [np.arange(table.starts[word], table.starts[word + 1]) for word in words]
            places = np.concatenate(indices)
            rest = float(table.rest[words].sum())
            self.becomes.append((table.words[places], table.ratios[places], rest))

    def of_row(self, row: int, first: int, width: int) -> Iterator[tuple[Kind, np.ndarray]]:
        """The kinds of beads with source sentences, and what one counts that ends here.

        It ends before source sentence `row` and target sentence first, first + 1, … [W].
        """
        begin = max(first - MOST, 0)
        sums = list(self.of_words(row, (begin, first + width - 1)))
        for kind, probability in BEADS.items():
            of_source, of_target = kind
            if not 0 < of_source <= row:
                continue
            values = np.full(width, np.log(probability))
            if of_target:
                # Only the columns before which there are enough target sentences
                start = max(first, of_target)
                end = first + width
                values[: start - first] = -np.inf
                possible = values[start - first :]

                source_length = self.source.length((row - of_source, row))
                by_length = self.lengths.scores(source_length, of_target)
                ends = self.target.ends
                lengths = ends[start:end] - ends[start - of_target : end - of_target]
                possible += by_length[lengths.clip(max=LONGEST)]
                by_words = sums[of_source - 1][start - of_target - begin : end - begin]
                possible += by_words[of_target:]
                possible -= by_words[:-of_target]
            yield kind, values

    def of_words(self, row: int, target: Sentences) -> Iterator[np.ndarray]:
        """Σ log P(w | s) / P(w) of the target sentences up to each one, from 0 before the first.

        s is the source sentence before `row`, then the last two, and so on.
        """
        words = self.target.words_of(target)
        counts = np.diff(self.target.word_ends[target[0] : target[1] + 1])
        sentences = np.repeat(np.arange(len(counts)), counts)
        ratios = np.zeros(len(self.target.vocabulary))
        rest = 0.0
        for first in range(row - 1, max(row - MOST, 0) - 1, -1):
            to_words, new, new_rest = self.becomes[first]
            np.add.at(ratios, to_words, new)
            rest += new_rest
            count = len(self.source.words_of((first, row)))
            if count == 0:
                yield np.zeros(len(counts) + 1)
                continue
            logs = np.log(EMPTY + (1 - EMPTY) / count * (rest + ratios))
            of_sentences = np.bincount(sentences, logs[words], minlength=len(counts))
            yield np.concatenate([[0.0], np.cumsum(of_sentences)])


class Band(NamedTuple):
    """The part of the S + 1 rows and T + 1 columns that is searched.

    Row i has the columns firsts[i] … firsts[i] + width − 1.
    """

    firsts: np.ndarray  # [S+1]
    width: int


def band_around(beads: Sequence[Bead], width: int) -> Band:
    """The band with an alignment in its middle.

    Beads (0, 1) are in one row, whose columns must all be in the band.
    """
    last = beads[-1]
    first_columns = {0: 0}  # of each row that a bead ends in
    last_columns = {0: 0}
    for bead in beads:
        first_columns.setdefault(bead.source[1], bead.target[1])
        last_columns[bead.source[1]] = bead.target[1]
    low = np.array(list(first_columns.values()))
    high = np.array(list(last_columns.values()))
    rows = np.arange(last.source[1] + 1)
    middle = np.interp(rows, list(last_columns), (low + high) / 2)
    steps = np.diff(middle).max(initial=0)  # bands of neighbouring rows must overlap
    width = max(width + int((high - low).max()), math.ceil(steps) + MOST)
    width = min(width, last.target[1] + 1)
    firsts = np.clip(middle - width // 2, 0, last.target[1] + 1 - width)
    return Band(firsts.astype(np.int64), width)


def forward(scores: Scores, band: Band, combine: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Of each row what the alignments up to each column count [W], and their last kinds of bead.

    combine: np.maximum for the best alignment, np.logaddexp for the sum of all.
    """
    rows = deque[np.ndarray](maxlen=MOST)  # before this one, the nearest first
    for row, first in enumerate(band.firsts):
        values = np.full(band.width, -np.inf)
        kinds = np.zeros(band.width, dtype=np.int8)
        if row == 0:
            values[0] = 0
        for kind, bead in scores.of_row(row, first, band.width):
            before = rows[kind[0] - 1]
            by = int(first - band.firsts[row - kind[0]]) - kind[1]
            new = shifted(before, by) + bead
            kinds[new > values] = KINDS.index(kind)
            values = combine(values, new)
        all_values = with_only_target(values, combine)
        kinds[all_values > values + 1e-9] = ONLY_TARGET
        rows.appendleft(all_values)
        yield all_values, kinds


def shifted(values: np.ndarray, by: int) -> np.ndarray:
    """values[k + by] for each k, −∞ where there is none."""
    result = np.full(len(values), -np.inf)
    if by >= 0:
        result[: max(len(values) - by, 0)] = values[by:]
    else:
        result[-by:] = values[:by]
    return result


def with_only_target(values: np.ndarray, combine: Any) -> np.ndarray:
    """The values of a row, from left to right with any number of beads (0, 1)."""
    costs = np.arange(len(values)) * np.log(BEADS[0, 1])
    combined: np.ndarray = combine.accumulate(values - costs) + costs
    return combined


def best_path(scores: Scores, band: Band) -> list[Bead]:
    """The alignment that counts most."""
    kinds = [of_row for _, of_row in forward(scores, band, np.maximum)]
    row = len(scores.source)
    column = len(scores.target)
    beads = []
    while row or column:
        of_source, of_target = KINDS[kinds[row][column - band.firsts[row]]]
        beads.append(Bead((row - of_source, row), (column - of_target, column)))
        row -= of_source
        column -= of_target
    return beads[::-1]


def with_probabilities(path: Sequence[Bead], scores: Scores, band: Band) -> list[Bead]:
    """The beads of an alignment, each with the share of all alignments that have it.

    Alignments have the weight exp(what they count). Beads of one side stay as they are.
    """
    before = np.array([values for values, _ in forward(scores, band, np.logaddexp)])  # [S+1 W]
    after = np.full_like(before, -np.inf)  # the same from the end
    last = len(scores.source)
    after[last, len(scores.target) - band.firsts[last]] = 0
    total = before[last, len(scores.target) - band.firsts[last]]
    by_end = {bead.source[1]: bead for bead in path if bead.is_pair}
    found = {}
    for row in range(last, 0, -1):
        first = band.firsts[row]
        after[row] = with_only_target(after[row][::-1], np.logaddexp)[::-1]
        for kind, values in scores.of_row(row, first, band.width):
            start = row - kind[0]
            by = int(band.firsts[start] - first) + kind[1]
            after[start] = np.logaddexp(after[start], shifted(values + after[row], by))
            bead = by_end.get(row)
            if bead and bead.kind == kind:
                column = bead.target[1] - first
                inside = values[column] + after[row, column]
                outside = before[start, bead.target[0] - band.firsts[start]]
                found[bead] = float(np.exp(min(inside + outside - total, 0)))
    return [bead._replace(probability=found.get(bead, 1.0)) for bead in path]

"""Whether a line is written in the language of its side: by its pairs of characters, and by the words it knows.

What is usual is learnt from the corpus itself, from the lines that fit best, so that a tenth in another language
does not become usual.
"""

from dataclasses import dataclass

import numpy as np

from nmt.data.inspect.characters import DIGIT
from nmt.data.inspect.lines import NEWLINE, Lines, is_in, mix

BIGRAMS = 1 << 16  # hash values of two characters
FITTING = 2.0  # standard deviations below the median: words whose lines are on average farther are not known
FARTHEST = 6.0  # standard deviations that one line may count
SEEN = 2  # lines that a known word is in
LETTERS = 0.7  # share of the characters of a judged line
LEAST_SPREAD = 2.0  # nats, times the root of the length; text made from templates has less
UNKNOWN, UNLIKELY, WORDS = 0.7, 1.5, 4  # share of unknown words, standard deviations, words of a judged line


@dataclass
class Language:
    """The language of one side."""

    log_probability: np.ndarray  # of two characters [BIGRAMS]
    median: float  # over lines of the mean log-probability of a character
    center: float  # of the deviations, times the root of the length
    spread: float  # and their standard deviation
    known: np.ndarray  # sorted hashes of words

    def foreign(self, side: Lines) -> np.ndarray:
        """Which lines have mostly unknown words and unlikely characters; formulas and code are not judged."""
        letters = side.letters_by_script(np.arange(256) > 0)
        candidates = self.unknown(side, UNKNOWN) & (letters >= LETTERS * side.lengths)
        if not candidates.any():
            return candidates
        mean = mean_log_probability(self.log_probability, side)
        deviation = ((mean - self.median) * np.sqrt(side.lengths + 1) - self.center) / self.spread
        return candidates & (deviation < -UNLIKELY)

    def unknown(self, side: Lines, share: float) -> np.ndarray:
        """Which lines of at least WORDS words have at least this share of unknown ones."""
        words = side.words
        plain = words.kind != DIGIT
        unknown = words.lines_with(plain & ~is_in(words.hash, self.known))
        total = words.lines_with(plain)
        return (total >= WORDS) & (unknown >= share * total)


def learn_language(side: Lines) -> Language:
    """The language of a sample of lines: pairs of characters of its better half, and words of lines that fit."""
    everything = learn_bigrams(side, np.ones(side.count, bool))
    mean = mean_log_probability(everything, side)
    log_probability = learn_bigrams(side, mean >= np.median(mean))
    mean = mean_log_probability(log_probability, side)
    median = float(np.median(mean))
    deviation = (mean - median) * np.sqrt(side.lengths + 1)
    center, high = np.quantile(deviation, (0.5, 0.75))
    spread = max(float(high - center) / 0.6745, LEAST_SPREAD)  # of the upper half: faults are in the lower
    _, once = np.unique(mix(side.words.hash ^ mix(side.words.line)), return_index=True)  # each word once in a line
    words, index, seen = np.unique(side.words.hash[once], return_inverse=True, return_counts=True)
    fits = np.clip((deviation - center) / spread, -FARTHEST, FARTHEST)
    fit = np.bincount(index, fits[side.words.line[once]], len(words)) / seen
    return Language(log_probability, median, float(center), spread, words[(seen >= SEEN) & (fit > -FITTING)])


def learn_bigrams(side: Lines, lines: np.ndarray) -> np.ndarray:
    """The log-probability of two characters in the chosen lines [BIGRAMS]."""
    chosen = np.repeat(lines, side.lengths + 1)
    counts = np.bincount(bigram_codes(side)[chosen], minlength=BIGRAMS) + 0.5
    return np.log(counts / counts.sum()).astype(np.float32)


def mean_log_probability(log_probability: np.ndarray, side: Lines) -> np.ndarray:
    """The mean log-probability of a character of each line."""
    return side.sums(log_probability[bigram_codes(side)]) / (side.lengths + 1)


def bigram_codes(side: Lines) -> np.ndarray:
    """A number below BIGRAMS for each character and the one before it."""
    before = np.concatenate(([np.uint32(NEWLINE)], side.codes[:-1]))
    return (before * np.uint32(31337) ^ side.codes) & np.uint32(BIGRAMS - 1)

"""What is usual in a corpus, learnt from its first pairs: lengths, scripts, letters, habits of
writing.

Medians and shares are taken, so that a tenth of faulty pairs does not change what is usual.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nmt.data.inspect.language import (
    MARGIN,
    MARGIN_UNKNOWN,
    in_other_language,
    learn_bigrams,
    log_likelihood_ratio,
    mean_log_probability,
    usual_scripts,
)
from nmt.data.inspect.lines import CAPITAL, NEWLINE, SMALL, Lines, is_in, mix, scripts
from nmt.data.inspect.misaligned_blocks import length_moments, robust

SAMPLE = 20_000  # pairs
SEEN_OFTEN = 0.05  # share of the pairs with tags, or in capitals, from which on they are usual
HABIT = 0.8  # share of the lines with a habit that is usual
SLACK = 10  # characters
# standard deviations below the median: words whose lines are on average farther are not known
FITTING = 2.0
FARTHEST = 6.0  # standard deviations that one line may count
SEEN = 2  # lines that a known word is in
LETTERS = 0.7  # share of the characters of a judged line
LEAST_SPREAD = 2.0  # nats, times the root of the length; text made from templates has less
# share of unknown words, standard deviations, words of a judged line
UNKNOWN = 0.7
UNLIKELY = 2.0
WORDS = 4
MIN_CASED_WORDS = 3  # of a line whose case is judged, or that may not be equal on both sides
TAG = re.compile(
    r"</?(?:a|b|i|u|p|br|em|strong|span|div|font|su[bp]|tt|code|li|[uo]l|t[drh]|table|img|h[1-6]|seg|s)\b[^<>\n]{0,200}>",
    re.I,
)


def letters_of(side: Lines, numbers: np.ndarray) -> np.ndarray:
    """How many letters of each line are of these scripts (a boolean for each number)."""
    return side.sums(numbers[scripts()[0][side.codes]])


def has_tags(side: Lines) -> np.ndarray:
    return side.matching(side.having(side.codes == ord("<")), TAG)


def in_capitals(side: Lines) -> np.ndarray:
    """Which lines have no small letter, and at least MIN_CASED_WORDS words in capitals."""
    words = side.words
    many = words.lines_with((words.kind == CAPITAL) & (words.length > 1)) >= MIN_CASED_WORDS
    return (side.small == 0) & many


def has_spaced_punctuation(side: Lines) -> np.ndarray:
    """Which lines have a full stop or comma between spaces, or a space before a full stop at the
    end."""
    codes = side.codes
    middle = (codes[1:-1] == ord(".")) | (codes[1:-1] == ord(","))
    after = (codes[2:] == 32) | (codes[2:] == NEWLINE)
    found = (
        np.concatenate(([False], (codes[:-2] == 32) & middle & after, [False]))
        if len(codes) > 2
        else codes < 0
    )
    return side.having(found)


def without_capitals(side: Lines) -> np.ndarray:
    """Which lines begin with a small letter, have no capital letter, and at least MIN_CASED_WORDS
    words."""
    words = side.words
    many = words.lines_with((words.kind == SMALL) & (words.length > 1)) >= MIN_CASED_WORDS
    first = np.append(words.kind, 0)[
        np.minimum(np.cumsum(words.count) - words.count, len(words.kind))
    ]
    return (side.capitals == 0) & many & (first == SMALL)


@dataclass
class Language:
    """What is usual in the lines of one side: their pairs of characters and their words."""

    log_probability: np.ndarray  # of two characters [BIGRAMS]
    median: float  # over lines of the mean log-probability of a character
    center: float  # of the deviations, times the root of the length
    spread: float  # and their standard deviation
    known: np.ndarray  # sorted hashes of words

    def unknown(self, side: Lines, other: Lines) -> tuple[np.ndarray, np.ndarray]:
        """How many words of each line the other side's line does not have, and how many of them are
        not known."""
        own = side.own_words(other)
        return side.words.lines_with(own), side.words.lines_with(
            own & ~is_in(side.words.hash, self.known)
        )

    def unlikely(self, side: Lines) -> np.ndarray:
        """Which lines have unlikely characters; formulas and code are not judged."""
        letters = letters_of(side, np.arange(256) > 0)
        mean = mean_log_probability(self.log_probability, side)
        deviation = ((mean - self.median) * np.sqrt(side.lengths + 1) - self.center) / self.spread
        return (letters >= LETTERS * side.lengths) & (deviation < -UNLIKELY)


def learn_language(side: Lines) -> Language:
    """The language of a sample of lines: pairs of characters of its better half, and words of lines
    that fit."""
    log_probability = learn_bigrams(side)
    mean = mean_log_probability(log_probability, side)
    median = float(np.median(mean))
    deviation = (mean - median) * np.sqrt(side.lengths + 1)
    center, high = np.quantile(deviation, (0.5, 0.75))
    # of the upper half: faults are in the lower
    spread = max(float(high - center) / 0.6745, LEAST_SPREAD)
    # each word once in a line
    _, once = np.unique(mix(side.words.hash ^ mix(side.words.line)), return_index=True)
    words, index, seen = np.unique(side.words.hash[once], return_inverse=True, return_counts=True)
    fits = np.clip((deviation - center) / spread, -FARTHEST, FARTHEST)
    fit = np.bincount(index, fits[side.words.line[once]], len(words)) / seen
    return Language(
        log_probability, median, float(center), spread, words[(seen >= SEEN) & (fit > -FITTING)]
    )


@dataclass
class Profile:
    """What is usual; of two values the first is the source's."""

    pairs: int
    center: float  # median of the length differences
    spread: float  # their robust standard deviation
    scripts: tuple[np.ndarray, np.ndarray]  # a boolean for each number of a script
    capitals: tuple[bool, bool]  # lines have capital letters
    few_capitals: tuple[bool, bool]  # most lines have none, though their script has them
    tagged: bool  # pairs have tags of HTML on both sides
    # lines are all in capitals, and so is the other side if its script has them
    shouted: tuple[bool, bool]
    spaced: tuple[bool, bool]  # punctuation is separated by spaces, as tokenizers do
    languages: tuple[Language, Language]
    language: np.ndarray  # log P(two characters | source) − log P(… | target) [BIGRAMS]
    moments: np.ndarray  # of log lengths: means, standard deviations [2 2], correlation in [2 0]

    def other_languages(self, source: Lines, target: Lines) -> list[dict[str, np.ndarray]]:
        """Which lines of either side are in another language: for each side and each kind.

        Words count that only this side has. A line is in the other side's language by its pairs of
        characters, for which there is more evidence if most of its words are not known to its own.
        It is unlike the rest if most are not known, its characters are unlikely, and most words of
        its translation are known: a pair of which neither line is known has names, code or a rare
        topic.
        """
        sides = source, target
        counts = [
            self.languages[number].unknown(side, sides[1 - number])
            for number, side in enumerate(sides)
        ]
        source_margin, target_margin = (
            np.where(2 * unknown >= total, MARGIN_UNKNOWN, MARGIN) for total, unknown in counts
        )
        exchanged = in_other_language(self.language, source, target, (source_margin, target_margin))
        found = []
        for number, side in enumerate(sides):
            total, unknown = counts[number]
            other_total, other_unknown = counts[1 - number]
            unlike = (
                (total >= WORDS) & (unknown >= UNKNOWN * total) & (2 * other_unknown <= other_total)
            )
            if unlike.any():
                unlike &= self.languages[number].unlikely(side)
            found.append(
                {
                    "in the other language": exchanged[number],
                    "unlike the rest": unlike & ~exchanged[number],
                }
            )
        return found

    def far(self, source: Lines, target: Lines) -> np.ndarray:
        """How far the length difference of each pair is from the usual one, in standard
        deviations."""
        return np.abs(length_difference(source, target) - self.center) / self.spread


def length_difference(source: Lines, target: Lines) -> np.ndarray:
    """(√t − √s) of the characters of both sides, whose variance depends little on the length."""
    return np.sqrt(target.lengths + SLACK) - np.sqrt(source.lengths + SLACK)


def learn_profile(source: Lines, target: Lines) -> Profile:
    """The profile of a sample of pairs."""
    kept = ~(source.blank | target.blank)
    center, spread = robust(length_difference(source, target)[kept] if kept.any() else np.zeros(1))
    languages = learn_language(source), learn_language(target)

    def both(test: Callable[[Lines, Lines], bool]) -> tuple[bool, bool]:
        return test(source, target), test(target, source)

    return Profile(
        pairs=source.count,
        center=center,
        spread=max(spread, 0.3),
        scripts=(usual_scripts(source), usual_scripts(target)),
        capitals=both(lambda side, _: share(side.capitals > 0) > HABIT),
        few_capitals=both(lambda side, _: share((side.small > 0) & (side.capitals == 0)) > 0.5),
        tagged=share(has_tags(source) & has_tags(target)) > SEEN_OFTEN,
        shouted=both(
            lambda side, other: share(in_capitals(side) & (other.small == 0)) > SEEN_OFTEN
        ),
        spaced=both(lambda side, _: share(has_spaced_punctuation(side)) > 0.3),
        languages=languages,
        language=log_likelihood_ratio(source, target),
        moments=length_moments(source, target),
    )


def share(lines: np.ndarray) -> float:
    return float(lines.mean()) if len(lines) else 0.0

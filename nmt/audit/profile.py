"""What is usual in a corpus, learnt from its first pairs.

This is about lengths, scripts, letters and habits of writing. Medians and shares are taken, so that
a tenth of faulty pairs does not change what is usual.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nmt.corpus.checks import ENTITIES, SUBWORDS, Pair, text_faults, without_entities
from nmt.corpus.inspect.language import (
    MARGIN,
    MARGIN_UNKNOWN,
    in_other_language,
    learn_bigrams,
    log_likelihood_ratio,
    mean_log_probability,
    usual_scripts,
)
from nmt.corpus.inspect.lines import (
    CAPITAL,
    NEWLINE,
    SMALL,
    Lines,
    Words,
    is_in,
    lines_of_pairs,
    mix,
    scripts,
    table_of,
)
from nmt.corpus.inspect.misaligned_blocks import length_moments, robust

# Names of habits, beside ENTITIES and SUBWORDS
TOKENIZED = "tokenized text"
SMALL_LETTERS = "small letters alone"
SAMPLE = 20_000  # pairs
SEEN_OFTEN = 0.05  # share of the pairs; tags, or capitals alone, in more pairs are usual
HABIT = 0.8  # share of the lines with a habit that is usual
SLACK = 10  # characters
FITTING = 2.0  # standard deviations; a word of lines that are less likely on average is not known
FARTHEST = 6.0  # standard deviations that one line may count
SEEN = 2  # lines that a known word is in
LETTERS = 0.7  # share of the characters of a judged line
LEAST_SPREAD = 2.0  # nats, times the root of the length; text made from templates has less
# A line is unlike the rest with this share of unknown words, so many standard deviations below the
# median, and at least so many words.
UNKNOWN = 0.7
UNLIKELY = 2.0
WORDS = 4
MIN_CASED_WORDS = 3  # of a line whose case is judged, or that may not be equal on both sides
MARKS = table_of("[.,。、，]")
TAG = re.compile(
    r"</?(?:a|b|i|u|p|br|em|strong|span|div|font|su[bp]|tt|code|li|[uo]l|t[drh]|table|img|h[1-6]"
    r"|seg|s)\b[^<>\n]{0,200}>",
    re.I,
)


def letters_of(side: Lines, numbers: np.ndarray) -> np.ndarray:
    """How many letters of each line are of these scripts (a boolean for each number)."""
    return side.sums(numbers[scripts()[0][side.codes]])


def has_tags(side: Lines) -> np.ndarray:
    return side.matching(side.having(side.codes == ord("<")), TAG)


def has_words(words: Words, kind: int) -> np.ndarray:
    """Which lines have at least MIN_CASED_WORDS words that begin with a letter of this kind."""
    return words.lines_with((words.kind == kind) & (words.length > 1)) >= MIN_CASED_WORDS


def in_capitals(side: Lines) -> np.ndarray:
    """Which lines have no small letter, and at least MIN_CASED_WORDS words in capitals."""
    return (side.small == 0) & has_words(side.words, CAPITAL)


def has_spaced_punctuation(side: Lines) -> np.ndarray:
    """Which lines have a full stop or comma after a space, and before a space or the end."""
    codes = side.codes
    spaced = np.zeros(len(codes), bool)
    if len(codes) > 2:
        ends = (codes[2:] == ord(" ")) | (codes[2:] == NEWLINE)
        spaced[1:-1] = (codes[:-2] == ord(" ")) & MARKS[codes[1:-1]] & ends
    return side.having(spaced)


def without_capitals(side: Lines) -> np.ndarray:
    """Which lines of MIN_CASED_WORDS words begin with a small letter and have no capital one."""
    first_kinds = np.append(side.words.kind, 0)[side.words.starts]
    return (side.capitals == 0) & has_words(side.words, SMALL) & (first_kinds == SMALL)


@dataclass
class Language:
    """What is usual in the lines of one side: their pairs of characters and their words."""

    log_probability: np.ndarray  # of two characters [BIGRAMS]
    median: float  # over lines of the mean log-probability of a character
    center: float  # of the deviations, times the root of the length
    spread: float  # and their standard deviation
    known: np.ndarray  # sorted hashes of words

    def unknown(self, side: Lines, other: Lines) -> tuple[np.ndarray, np.ndarray]:
        """How many words only this side's line has, and how many of them are not known."""
        only_here = side.own_words(other)
        is_known = is_in(side.words.hash, self.known)
        return side.words.lines_with(only_here), side.words.lines_with(only_here & ~is_known)

    def unlikely(self, side: Lines) -> np.ndarray:
        """Which lines have unlikely characters; formulas and code are not judged."""
        letters = letters_of(side, np.arange(256) > 0)
        mean = mean_log_probability(self.log_probability, side)
        deviation = ((mean - self.median) * np.sqrt(side.lengths + 1) - self.center) / self.spread
        return (letters >= LETTERS * side.lengths) & (deviation < -UNLIKELY)


def learn_language(side: Lines) -> Language:
    """The language of a sample of lines, from its better half and from the words of such lines."""
    log_probability = learn_bigrams(side)
    mean = mean_log_probability(log_probability, side)
    median = float(np.median(mean))
    deviation = (mean - median) * np.sqrt(side.lengths + 1)
    center, high = np.quantile(deviation, (0.5, 0.75))  # faults are in the lower half
    spread = max(float(high - center) / 0.6745, LEAST_SPREAD)

    # The words, each once in a line; known are those of several lines that fit on average
    _, once = np.unique(mix(side.words.hash ^ mix(side.words.line)), return_index=True)
    words, index, seen = np.unique(side.words.hash[once], return_inverse=True, return_counts=True)
    fits = np.clip((deviation - center) / spread, -FARTHEST, FARTHEST)
    fit = np.bincount(index, fits[side.words.line[once]], len(words)) / seen
    known = words[(seen >= SEEN) & (fit > -FITTING)]
    return Language(log_probability, median, float(center), spread, known)


@dataclass
class SideProfile:
    """How one side is usually written."""

    scripts: np.ndarray  # a boolean for each number of a script
    capitals: bool  # lines have capital letters
    shouted: bool  # lines are in capitals, as is the other side if its script has them
    habits: set[str]  # how most of it is written, by the names in nmt/audit/report.py


def learn_side(side: Lines, other: Lines, as_written: Lines) -> SideProfile:
    """The profile of the lines of a side; `as_written`: these lines with their entities."""
    habits = set()
    least = HABIT
    if share(has_spaced_punctuation(side)) > 0.3:
        habits.add(TOKENIZED)
        least = SEEN_OFTEN  # of what else a tokenizer has written
    if share((side.small > 0) & (side.capitals == 0)) > 0.5:
        habits.add(SMALL_LETTERS)
    faults = text_faults(as_written)
    habits |= {kind for kind in (ENTITIES, SUBWORDS) if share(faults[kind]) > least}
    return SideProfile(
        scripts=usual_scripts(side),
        capitals=share(side.capitals > 0) > HABIT,
        shouted=share(in_capitals(side) & (other.small == 0)) > SEEN_OFTEN,
        habits=habits,
    )


@dataclass
class Profile:
    """What is usual; of two values the first is the source's."""

    pairs: int
    center: float  # median of the length differences
    spread: float  # their robust standard deviation
    tagged: bool  # pairs have tags of HTML on both sides
    sides: tuple[SideProfile, SideProfile]
    languages: tuple[Language, Language]
    language: np.ndarray  # log P(two characters | source) − log P(… | target) [BIGRAMS]
    moments: np.ndarray  # of log lengths: means, standard deviations [2 2], correlation in [2 0]

    def other_languages(self, source: Lines, target: Lines) -> list[dict[str, np.ndarray]]:
        """Which lines of either side are in another language: for each side and each kind.

        Only words count that the other side does not have. Pairs of characters tell that a line is
        in the other side's language; less evidence is enough if most of its words are unknown. A
        line is unlike the rest if most of its words are unknown, its characters are unlikely, and
        most words of its translation are known. If these are unknown too, the pair has names, code
        or a rare topic.
        """
        counts = (
            self.languages[0].unknown(source, target),
            self.languages[1].unknown(target, source),
        )
        margins = []
        for total, unknown in counts:
            margins.append(np.where(2 * unknown >= total, MARGIN_UNKNOWN, MARGIN))
        exchanged = in_other_language(self.language, source, target, (margins[0], margins[1]))
        faults = []
        for number, side in enumerate((source, target)):
            total, unknown = counts[number]
            other_total, other_unknown = counts[1 - number]
            other_is_known = 2 * other_unknown <= other_total
            unlike = (total >= WORDS) & (unknown >= UNKNOWN * total) & other_is_known
            if unlike.any():
                unlike &= self.languages[number].unlikely(side)
            faults.append(
                {
                    "in the other language": exchanged[number],
                    "unlike the rest": unlike & ~exchanged[number],
                }
            )
        return faults

    def far(self, source: Lines, target: Lines) -> np.ndarray:
        """By how many standard deviations each pair's length difference is not the usual one."""
        return np.abs(length_difference(source, target) - self.center) / self.spread


def length_difference(source: Lines, target: Lines) -> np.ndarray:
    """(√t − √s) of the characters of both sides, whose variance depends little on the length."""
    return np.sqrt(target.lengths + SLACK) - np.sqrt(source.lengths + SLACK)


def learn_profile(pairs: Sequence[Pair]) -> Profile:
    """The profile of a sample of pairs, with the characters that entities stand for."""
    source, target = lines_of_pairs(without_entities(list(pairs)))
    as_written = lines_of_pairs(pairs)
    kept = ~(source.blank | target.blank)
    center, spread = robust(length_difference(source, target)[kept] if kept.any() else np.zeros(1))
    return Profile(
        pairs=source.count,
        center=center,
        spread=max(spread, 0.3),
        tagged=share(has_tags(source) & has_tags(target)) > SEEN_OFTEN,
        sides=(
            learn_side(source, target, as_written[0]),
            learn_side(target, source, as_written[1]),
        ),
        languages=(learn_language(source), learn_language(target)),
        language=log_likelihood_ratio(source, target),
        moments=length_moments(source, target),
    )


def share(lines: np.ndarray) -> float:
    return float(lines.mean()) if len(lines) else 0.0

"""What a translator is fit for, in one sentence: rules over numbers that a training has measured.

BLEU and chrF mean different things on different text. So chrF is compared with what needs no
translator at all: the sources as they are, and one and the same frequent sentence for every line.
With g for the better one of both, gain = (chrF − g) / (100 − g): 0 is no translator, 1 is every
reference.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import regex

from nmt.corpus.words import SPACELESS
from nmt.decode.confidence import UNSURE
from nmt.evaluate.measured import read_measured, write_measured
from nmt.evaluate.metrics import FEW_LINES, Translated, open_scorer

FILE = Path("evaluate", "verdict.json")  # in the folder of a run
FEWEST = 20  # sentences: fewer show nothing, and fewer than FEW_LINES not that a translator is fit
FEW_SHARED = 20  # names and numbers: of fewer it is not said whether they are kept
KEPT = 0.95  # of the names and numbers, and they are called kept
CANDIDATES = 20  # frequent sentences that are tried
TRIED = 200  # sentences of a set on which they are tried
MOST_LINES = 100_000  # of the training text, among which they are sought
WORD = regex.compile(r"[\p{L}\p{M}]+")  # letters, and the vowel signs of Indic scripts
NAME_OR_NUMBER = re.compile(r"\d|[A-Z]\w")  # is in a word that is one
FEW_PASSES = 10.0  # over the training pairs: with fewer, a longer training is what helps
LONGER = 2  # a longer training takes at least so many times as long, …
MOST_LONGER = 20  # … and at most so many times
RISING = 0.05  # of the whole gain of a training, in the last quarter of its validations


class Level(Enum):
    """What a translator is fit for: its short form in tables, and its words in a sentence."""

    UNMEASURED = ("too few to measure", "Too few sentences to measure")
    UNFIT = ("not usable", "Not usable yet")
    GIST = ("gist only", "Gives the gist; do not send unread")
    READABLE = ("read before sending", "Understandable; read before you send")
    GOOD = ("good", "Good for text like this")

    @property
    def short(self) -> str:
        return self.value[0]

    @property
    def words(self) -> str:
        return self.value[1]


@dataclass(frozen=True)
class SetFigures:
    """What was measured on one set: scores from 0 to 100, shares from 0 to 1."""

    name: str
    sentences: int
    bleu: float
    chrf: float
    copy: float  # chrF of the sources as they are
    constant: float  # chrF of a frequent sentence for every line
    right: float  # share of the words that the reference has, too
    unsure: float  # share of the words that are unsure (nmt/decode/confidence.py)
    loops: float  # share of the translations
    # share of those with an invented word or one twice in a row, beyond that of the references
    broken: float
    shared: int = 0  # names and numbers that source and reference have in common
    kept: int = 0  # how many of them the translation has

    @property
    def gain(self) -> float:
        """How much of the way from no translator to the references chrF has gone."""
        nothing = max(self.copy, self.constant)
        if nothing >= 100:
            return 1.0 if self.chrf >= 100 else 0.0
        return (self.chrf - nothing) / (100 - nothing)


@dataclass(frozen=True)
class TrainingFigures:
    """How long the weights were trained, and whether more time would help."""

    pairs: int  # of the training text
    passes: float  # over them
    minutes: float | None  # None if something other than time ended the training
    is_rising: bool  # the validation score was still rising at the end
    is_early: bool = False  # the training stopped, since nothing became better


@dataclass(frozen=True)
class Verdict:
    """What a run is fit for, and the sentence that says it."""

    level: Level
    sentence: str

    @property
    def is_unfit(self) -> bool:
        """Whether every command that translates says it."""
        return self.level in (Level.UNFIT, Level.GIST)


class TrainingText(NamedTuple):
    """What is asked of the target side of a training text."""

    frequent: list[str]  # its most frequent sentences
    words: set[str]

    @classmethod
    def read(cls, path: Path) -> TrainingText:
        """From the first lines of a file."""
        counts = Counter[str]()
        words = set[str]()
        with open(path, encoding="utf-8") as file:
            for line in islice(file, MOST_LINES):
                counts[line.rstrip("\n")] += 1
                words.update(words_of(line))
        return cls([line for line, _ in counts.most_common(CANDIDATES)], words)

    def is_broken(self, source: str, text: str) -> bool:
        """Whether a text has an invented word, or a word twice in a row.

        An invented word is neither in the training text nor in the source.
        """
        words = words_of(text)
        is_invented = not self.words.issuperset(set(words).difference(words_of(source)))
        return is_invented or any(first == second for first, second in pairwise(words))


def words_of(text: str) -> list[str]:
    """The words in small letters; none of scripts without spaces, where they cannot be told."""
    return [word for word in WORD.findall(text.lower()) if not SPACELESS.search(word)]


def names_and_numbers(text: str) -> Counter[str]:
    """How often each word with a digit, or with a capital letter before another letter, occurs."""
    return Counter(filter(NAME_OR_NUMBER.search, re.findall(r"\w+", text)))


def measure(
    result: Mapping[str, Any],
    name: str,
    translated: Translated,
    training: TrainingText,
    language: str,
) -> SetFigures:
    """The figures of a set whose scores are in a stored result; `training`: its target side."""
    scorer = open_scorer("chrf", language)

    def chrf(hypotheses: Sequence[str]) -> float:
        count = len(hypotheses)
        scored = Translated(
            hypotheses,
            [references[:count] for references in translated.references],
            translated.sources[:count],
        )
        return scorer.score(scorer.statistics(scored).sum(axis=0))

    count = len(translated.hypotheses)
    constant = 0.0
    if training.frequent:
        best = max(training.frequent, key=lambda line: chrf([line] * min(count, TRIED)))
        constant = chrf([best] * count)
    confidence = result["confidence"]
    unsure = sum(words for words, mean, _ in confidence["bins"] if mean < UNSURE)
    broken = sum(map(training.is_broken, translated.sources, translated.hypotheses))
    broken -= sum(map(training.is_broken, translated.sources, translated.references[0]))
    shared, kept = count_kept(translated)
    return SetFigures(
        name,
        count,
        result["bleu"],
        result["chrf"],
        copy=chrf(translated.sources),
        constant=constant,
        right=confidence["right"],
        unsure=unsure / max(1, confidence["words"]),
        loops=result["loops"] / count,
        broken=max(0, broken) / count,
        shared=shared,
        kept=kept,
    )


def count_kept(translated: Translated) -> tuple[int, int]:
    """The names and numbers that source and reference share, and those kept in translations."""
    shared = kept = 0
    for texts in zip(
        translated.sources, translated.references[0], translated.hypotheses, strict=True
    ):
        source, reference, hypothesis = map(names_and_numbers, texts)
        common = source & reference
        shared += common.total()
        kept += (common & hypothesis).total()
    return shared, kept


class Limits(NamedTuple):
    """What a set must have at least, or at most, for a level."""

    gain: float
    unsure: float
    broken: float
    loops: float
    kept: float  # of names and numbers, where there are enough of them

    def allow(self, figures: SetFigures) -> bool:
        is_clean = (
            figures.unsure <= self.unsure
            and figures.broken <= self.broken
            and figures.loops <= self.loops
        )
        keeps = figures.shared < FEW_SHARED or figures.kept >= self.kept * figures.shared
        return figures.gain >= self.gain and is_clean and keeps


LIMITS = {
    Level.GIST: Limits(gain=0.2, unsure=0.6, broken=0.5, loops=0.1, kept=0.0),
    Level.READABLE: Limits(gain=0.42, unsure=0.3, broken=0.3, loops=0.05, kept=0.9),
    Level.GOOD: Limits(gain=0.65, unsure=0.12, broken=0.12, loops=0.02, kept=0.97),
}


def level_of(figures: SetFigures) -> Level:
    """The highest level whose limits allow a set.

    The limits follow from reading translations of trainings at all stages.
    """
    level = Level.UNFIT
    for higher, limits in LIMITS.items():
        if limits.allow(figures):
            level = higher
    too_few = FEWEST if level is Level.UNFIT else FEW_LINES
    return Level.UNMEASURED if figures.sentences < too_few else level


def judge(sets: Sequence[SetFigures], training: TrainingFigures) -> Verdict:
    """The verdict by the set with the lowest level; of these the one with the lowest gain."""
    order = list(Level)
    measured = [each for each in sets if level_of(each) is not Level.UNMEASURED]
    worst = min(measured or sets, key=lambda each: (order.index(level_of(each)), each.gain))
    level = level_of(worst)
    if level is Level.UNMEASURED:
        words = (
            f"{worst.sentences} test sentences are too few to measure what this translator is fit "
            "for"
        )
        return Verdict(level, f"{words}; {FEW_LINES} or more say it.")
    of_set = f" of {worst.name}" if len(sets) > 1 else ""
    found = f"{100 * worst.unsure:.0f} of 100 words{of_set} are unsure"
    if worst.shared >= FEW_SHARED and level is not Level.UNFIT:
        kept = "are kept" if worst.kept >= KEPT * worst.shared else "are not always kept"
        found += f", names and numbers {kept} ({worst.kept} of {worst.shared})"
    advice = f" {advice_of(training)}" if level in (Level.UNFIT, Level.GIST) else ""
    return Verdict(level, f"{level.words}: {found}.{advice}")


def few_new_pairs(count: int) -> Verdict:
    """The verdict on a run that has learnt too few pairs to hold some of them out."""
    words = f"{count} new pairs are too few to measure how new text like them is translated"
    return Verdict(
        Level.UNMEASURED, f"{words}: a test set of {FEW_LINES} or more (data.test) says it."
    )


def advice_of(training: TrainingFigures) -> str:
    """What would make a translator better: a longer training, or more text."""
    seen = f"It has seen each of {training.pairs:,} pairs {training.passes:.1f} times"
    is_short = training.passes < FEW_PASSES or training.is_rising
    if is_short and training.minutes is None and not training.is_early:
        return f"{seen}; a longer training helps (train.max_steps, train.max_epochs)."
    if is_short and training.minutes is not None and not training.is_early:
        factor = max(LONGER, FEW_PASSES / max(training.passes, 0.1))
        minutes = math.ceil(training.minutes * min(factor, MOST_LONGER))
        return f"{seen}; the same command with train.max_minutes={minutes} goes on."
    return f"{seen}; more text of this kind is what helps."


def is_rising(scores: Sequence[float], direction: int) -> bool:
    """Whether the last quarter of the validations still brought a clear part of the gain."""
    if len(scores) < 4:
        return False
    best = [direction * score for score in scores]
    before = max(best[: -(len(best) // 4)])
    return max(best) - before > RISING * (max(best) - best[0])


def write_verdict(
    run_folder: Path,
    weights: Sequence[str],
    verdict: Verdict,
    sets: Sequence[SetFigures],
    training: TrainingFigures,
) -> None:
    """Keep the verdict about checkpoints with these digests, and what it follows from.

    Raises OSError and UserError.
    """
    content = {
        "level": verdict.level.name,
        "sentence": verdict.sentence,
        "training": asdict(training),
        "sets": [*map(asdict, sets)],
    }
    write_measured(run_folder / FILE, weights, content)


def read_verdict(run_folder: Path, weights: Sequence[str] | None = None) -> Verdict | None:
    """The verdict about checkpoints with these digests, or any with None; None if there is none."""
    match read_measured(run_folder / FILE, weights):
        case {"level": str(name), "sentence": str(sentence)} if name in Level.__members__:
            return Verdict(Level[name], sentence)
    return None

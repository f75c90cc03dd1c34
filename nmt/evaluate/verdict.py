"""What a translator is fit for, in one sentence of words: rules over figures that a training has measured anyway.

BLEU and chrF mean different things on different text. So chrF is compared with what needs no translator at all: the
sources as they are, and one and the same frequent sentence for every line. With g for the better one of both,
gain = (chrF − g) / (100 − g): 0 is no translator, 1 is every reference.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import Any

from nmt.data.checksums import read_json, write_json
from nmt.data.files import refuse_links
from nmt.decode.confidence import UNSURE
from nmt.evaluate.metrics import FEW_LINES, Translated, open_scorer

FILE = Path("evaluate", "verdict.json")  # in the folder of a run
FEWEST = 20  # sentences: fewer show nothing, and fewer than FEW_LINES not that a translator is fit
FEW_SHARED = 20  # names and numbers: of fewer it is not said whether they are kept
KEPT = 0.8  # of the names and numbers, and they are called kept
CANDIDATES, MOST_LINES = 20, 100_000  # frequent sentences that are tried, of so many lines of the training text
NAME_OR_NUMBER = re.compile(r"\w*\d\w*|\w*[A-Z]\w+")
FEW_PASSES = 10.0  # over the training pairs: with fewer, a longer training is what helps
LONGER, MOST_LONGER = 2, 20  # times as long, at least and at most
RISING = 0.05  # of the whole gain of a training, in the last quarter of its validations


class Level(Enum):
    """What a translator is fit for: its short form in tables, and its words in a sentence."""

    UNMEASURED = ("too few to measure", "too few sentences to measure")
    UNFIT = ("not usable", "not usable yet")
    GIST = ("gist only", "gives the gist; do not send unread")
    READABLE = ("read before sending", "understandable; read before you send")
    GOOD = ("good", "good for text like this")

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
    constant: float  # chrF of the best frequent sentence for every line
    right: float  # share of the words that the reference has, too
    unsure: float  # share of the words that are unsure (nmt/decode/confidence.py)
    loops: float  # share of the translations
    shared: int = 0  # names and numbers that source and reference have in common
    kept: int = 0  # of which the translation has so many

    @property
    def gain(self) -> float:
        """How much of the way from no translator to the references chrF has gone."""
        nothing = max(self.copy, self.constant)
        return (self.chrf - nothing) / (100 - nothing) if nothing < 100 else 1.0


@dataclass(frozen=True)
class TrainingFigures:
    """How long the weights were trained, and whether more time would help."""

    pairs: int  # of the training text
    passes: float  # over them
    minutes: float
    is_rising: bool  # the validation score was, at the end


@dataclass(frozen=True)
class Verdict:
    """What a run is fit for, and the sentence that says it."""

    level: Level
    sentence: str

    @property
    def is_unfit(self) -> bool:
        """Whether every command that translates says it."""
        return self.level in (Level.UNFIT, Level.GIST)


def frequent_sentences(path: Path) -> list[str]:
    """The most frequent of the first lines of a text."""
    with open(path, encoding="utf-8") as file:
        counts = Counter(line.rstrip("\n") for line in islice(file, MOST_LINES))
    return [line for line, _ in counts.most_common(CANDIDATES)]


def measure(
    result: Mapping[str, Any], name: str, translated: Translated, frequent: Sequence[str], language: str
) -> SetFigures:
    """The figures of a set, whose stored result has its scores; `frequent` sentences are in the target language."""
    scorer = open_scorer("chrf", language)

    def chrf(hypotheses: Sequence[str]) -> float:
        found = scorer.statistics(replace(translated, hypotheses=hypotheses))
        return scorer.score(found.sum(axis=0))

    count = len(translated.hypotheses)
    confidence = result["confidence"]
    unsure = sum(words for words, mean, _ in confidence["bins"] if mean < UNSURE)
    shared, kept = count_kept(translated)
    return SetFigures(
        name,
        count,
        result["bleu"],
        result["chrf"],
        copy=chrf(translated.sources),
        constant=max((chrf([line] * count) for line in frequent), default=0.0),
        right=confidence["right"],
        unsure=unsure / max(1, confidence["words"]),
        loops=result["loops"] / count,
        shared=shared,
        kept=kept,
    )


def count_kept(translated: Translated) -> tuple[int, int]:
    """How many names and numbers source and reference have in common, and how many of these the translation has."""
    shared = kept = 0
    for texts in zip(translated.sources, translated.references[0], translated.hypotheses, strict=True):
        source, reference, hypothesis = (Counter(NAME_OR_NUMBER.findall(text)) for text in texts)
        common = source & reference
        shared += common.total()
        kept += (common & hypothesis).total()
    return shared, kept


# Level → the least gain, and the largest shares of unsure words and of loops, that a set may have.
LIMITS = {
    Level.GIST: (0.15, 0.6, 0.1),
    Level.READABLE: (0.35, 0.4, 0.05),
    Level.GOOD: (0.6, 0.2, 0.02),
}


def level_of(figures: SetFigures) -> Level:
    """The level of a set; the limits were chosen by reading the translations of small trainings at all stages."""
    level = Level.UNFIT
    for each, (gain, unsure, loops) in LIMITS.items():
        if figures.gain >= gain and figures.unsure <= unsure and figures.loops <= loops:
            level = each
    too_few = FEWEST if level is Level.UNFIT else FEW_LINES
    return Level.UNMEASURED if figures.sentences < too_few else level


def judge(sets: Sequence[SetFigures], training: TrainingFigures) -> Verdict:
    """The verdict by the set with the lowest level; of these the one with the lowest gain."""
    order = list(Level)
    measured = [each for each in sets if level_of(each) is not Level.UNMEASURED]
    worst = min(measured or sets, key=lambda each: (order.index(level_of(each)), each.gain))
    level = level_of(worst)
    name = f"{worst.name}: " if len(sets) > 1 else ""
    if level is Level.UNMEASURED:
        words = f"{name}{worst.sentences} test sentences are too few to measure what this translator is fit for"
        return Verdict(level, f"{words}; {FEW_LINES} or more say it.")
    words = f"{name}{level.words}"
    found = f"{100 * worst.unsure:.0f} of 100 words are unsure"
    if worst.shared >= FEW_SHARED and level is not Level.UNFIT:
        kept = "are kept" if worst.kept >= KEPT * worst.shared else "are not always kept"
        found += f", names and numbers {kept} ({worst.kept} of {worst.shared})"
    advice = f" {advice_of(training)}" if level in (Level.UNFIT, Level.GIST) else ""
    return Verdict(level, f"{words[0].upper()}{words[1:]}: {found}.{advice}")


def few_new_pairs(count: int) -> Verdict:
    """The verdict on a run that has learnt too few pairs to hold some of them out."""
    words = f"{count} new pairs are too few to measure how new text like them is translated"
    return Verdict(Level.UNMEASURED, f"{words}: a test set of {FEW_LINES} or more (data.test) says it.")


def advice_of(training: TrainingFigures) -> str:
    """What would make a translator better: a longer training, or more text."""
    seen = f"It has seen each of {training.pairs:,} pairs {training.passes:.1f} times"
    if training.passes < FEW_PASSES or training.is_rising:
        factor = max(LONGER, FEW_PASSES / max(training.passes, 0.1))
        minutes = math.ceil(training.minutes * min(factor, MOST_LONGER))
        return f"{seen}; the same command with train.max_minutes={minutes} goes on."
    return f"{seen}; more text of this kind is what helps."


def is_rising(scores: Sequence[float], direction: int) -> bool:
    """Whether the last quarter of the validations still brought a clear part of what all of them have."""
    if len(scores) < 4:
        return False
    best = [direction * score for score in scores]
    before = max(best[: -(len(best) // 4)])
    return max(best) - before > RISING * (max(best) - best[0])


def write_verdict(
    run_folder: Path, weights: Sequence[str], verdict: Verdict, sets: Sequence[SetFigures], training: TrainingFigures
) -> None:
    """Keep the verdict about checkpoints with these digests, and what it follows from.

    Raises OSError, and UserError where links lead elsewhere.
    """
    path = run_folder / FILE
    refuse_links(path.parent, path)
    path.parent.mkdir(parents=True, exist_ok=True)
    found = {"level": verdict.level.name, "sentence": verdict.sentence, "weights": list(weights)}
    write_json(path, found | {"training": asdict(training), "sets": [asdict(each) for each in sets]})


def read_verdict(run_folder: Path, weights: Sequence[str] | None = None) -> Verdict | None:
    """The verdict about checkpoints with these digests (None: whatever they are); None if there is none."""
    match read_json(run_folder / FILE):
        case {"level": str(name), "sentence": str(sentence), "weights": kept} if name in Level.__members__:
            if weights is None or kept == list(weights):
                return Verdict(Level[name], sentence)
    return None

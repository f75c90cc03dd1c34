"""All measures side by side: differences, curves, seeds. Numbers only; tables.py says them."""

from dataclasses import dataclass
from typing import Any

from nmt.compare.measures import Measured, Measures
from nmt.compare.systems import System
from nmt.compare.test_sets import Texts, TextSet
from nmt.config import to_dict
from nmt.config_validation import check
from nmt.evaluate.lengths import Bucket, bleu_by_length, count_words, join_pairs, length_buckets
from nmt.evaluate.significance import Interval, Significance, paired_bootstrap
from nmt.evaluate.spread import Spread, spread
from nmt.train.checkpoint import differences

# Two runs are one experiment with two seeds when they differ in nothing else; where things lie is no difference.
SEED_KEYS = {"seed", "name", "data_folder", "run_folder"}
METRICS = {
    "BLEU": lambda one: one.result["bleu"],
    "chrF": lambda one: one.result["chrf"],
    "perplexity": lambda one: one.perplexity.per_piece,
    "per word": lambda one: one.perplexity.per_word,
    "AER": lambda one: one.alignment.aer if one.alignment else None,
}


@dataclass
class SetResults:
    """One set, all runs in order."""

    about: TextSet
    measured: list[Measured]
    significance: Significance
    buckets: list[Bucket]
    by_length: list[list[float]]  # [runs buckets]
    joined_words: list[float]  # mean source words with 1, 2, … sentences joined; empty without --long
    joined_counts: list[int]  # and how many inputs that makes

    def interval(self, metric: str, number: int) -> Interval:
        """Of one run."""
        return self.significance.intervals[metric][number]


@dataclass
class Group:
    """Runs that differ in their seeds alone."""

    name: str
    seeds: list[int]
    numbers: list[int]  # their places among all runs
    spreads: dict[str, dict[str, Spread]]  # by set and metric


@dataclass
class ComparisonResults:
    """The whole comparison."""

    runs: list[Measures]
    sets: list[SetResults]
    groups: list[Group]
    samples: int
    longest: int | None  # words of the longest source trained on, where it is known

    @property
    def entrants(self) -> list[System]:
        """The runs without their measures."""
        return [one.entrant for one in self.runs]


def conclude(runs: list[Measures], texts: Texts, samples: int) -> ComparisonResults:
    """Everything that needs all runs at once."""
    sets = [set_outcome(runs, one, samples) for one in texts.sets]
    return ComparisonResults(runs, sets, groups(runs, sets), samples, texts.longest)


def set_outcome(runs: list[Measures], one: TextSet, samples: int) -> SetResults:
    """One set."""
    language = runs[0].entrant.config.data.target
    measured = [run.sets[one.name] for run in runs]
    hypotheses = [each.hypotheses for each in measured]
    significance = paired_bootstrap(hypotheses, one.references, language, samples)
    lengths = [count_words(source) for source in one.sources]
    found = length_buckets(lengths)
    curves = [bleu_by_length(each, one.references, found, language) for each in hypotheses]
    pieces = [join_pairs(one.pairs, count) for count in range(1, len(measured[0].joined) + 1)]
    words = [sum(count_words(source) for source, _ in some) / len(some) for some in pieces]
    return SetResults(one, measured, significance, found, curves, words, [len(some) for some in pieces])


def groups(runs: list[Measures], sets: list[SetResults]) -> list[Group]:
    """Runs of two and more seeds of one experiment; a seed counts once."""
    found: list[list[int]] = []
    for number, run in enumerate(runs):
        if len(run.made["models"]) > 1:
            continue
        home = next((group for group in found if same_experiment(runs[group[0]], run)), None)
        if home is None:
            found.append([number])
        elif seed(run) not in {seed(runs[other]) for other in home}:
            home.append(number)
    return [
        Group(name(runs[group[0]]), [seed(runs[number]) for number in group], group, spreads(group, sets))
        for group in found
        if len(group) > 1
    ]


def same_experiment(one: Measures, other: Measures) -> bool:
    """Whether two runs differ in seed and name alone; keys that came after one of them have their defaults there."""
    (a,), (b,) = one.made["models"], other.made["models"]
    changed = differences(to_dict(check(a["config"])), to_dict(check(b["config"])))
    return a["corpus_hash"] == b["corpus_hash"] and changed.keys() <= SEED_KEYS


def seed(run: Measures) -> int:
    """The seed of a single run."""
    return run.made["models"][0]["seed"]


def name(run: Measures) -> str:
    """The run's name without its seed."""
    return run.entrant.name.replace(f"-seed{seed(run)}", "")


def spreads(group: list[int], sets: list[SetResults]) -> dict[str, dict[str, Spread]]:
    """Each metric that all runs of the group have, on each set."""
    found: dict[str, dict[str, Spread]] = {}
    for one in sets:
        for metric, figure in METRICS.items():
            figures: list[Any] = [figure(one.measured[number]) for number in group]
            if None not in figures:
                found.setdefault(one.about.name, {})[metric] = spread(figures)
    return found

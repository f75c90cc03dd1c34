"""The measures of all systems together: significance, BLEU by length, spread over seeds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nmt.runs.comparison.measures import SetMeasures, SystemMeasures
from nmt.runs.comparison.systems import System
from nmt.runs.comparison.test_sets import TestSets
from nmt.runs.test_sets import TestSet
from nmt.config.schema import to_dict
from nmt.data.language_pairs import target_language
from nmt.evaluate.lengths import Bucket, bleu_by_length, count_words, join_pairs, length_buckets
from nmt.evaluate.metrics import STANDARD
from nmt.evaluate.significance import Interval, Significance, Spread, paired_bootstrap, spread
from nmt.training.checkpoint import differences

# Two runs are one experiment with two seeds when they differ in nothing but these keys.
SEED_KEYS = {"seed", "name", "data_folder", "run_folder"}
METRICS = {
    "BLEU": lambda measures: measures.result["bleu"],
    "chrF": lambda measures: measures.result["chrf"],
    "perplexity": lambda measures: measures.perplexity.per_piece,
    "per word": lambda measures: measures.perplexity.per_word,
    "AER": lambda measures: measures.alignment.aer if measures.alignment else None,
}


@dataclass
class SetResults:
    """One test set, all systems in order."""

    test_set: TestSet
    measures: list[SetMeasures]
    significance: Significance
    buckets: list[Bucket]
    by_length: list[list[float]]  # BLEU [systems buckets]
    joined_words: list[float]  # mean source words with 1, 2, … sentences joined; empty without --long
    joined_counts: list[int]  # the number of inputs with 1, 2, … sentences joined

    def interval(self, metric: str, index: int) -> Interval:
        """The score of one system with its confidence interval."""
        return self.significance.intervals[metric][index]


@dataclass
class SeedGroup:
    """Runs that differ in their seeds alone."""

    name: str
    seeds: list[int]
    indices: list[int]  # of these runs among all systems
    spreads: dict[str, dict[str, Spread]]  # by test set and metric


@dataclass
class ComparisonResults:
    """Everything that the tables and the report are made from."""

    measures: list[SystemMeasures]
    sets: list[SetResults]
    seed_groups: list[SeedGroup]
    samples: int
    longest: int | None  # words of the longest training source, if its corpus is available

    @property
    def systems(self) -> list[System]:
        """The systems without their measures."""
        return [measures.system for measures in self.measures]


def compare_measures(systems: list[SystemMeasures], test_sets: TestSets, samples: int, metrics: Sequence[str]) -> ComparisonResults:
    """Compute everything that needs all systems at once."""
    sets = [compare_set(systems, test_set, samples, metrics) for test_set in test_sets.sets]
    return ComparisonResults(systems, sets, find_seed_groups(systems, sets), samples, test_sets.longest)


def compare_set(systems: list[SystemMeasures], test_set: TestSet, samples: int, metrics: Sequence[str]) -> SetResults:
    """Significance, BLEU by source length and lengths of joined inputs on one test set."""
    language = target_language(systems[0].system.config.data, test_set.name)
    measures = [system.sets[test_set.name] for system in systems]
    hypotheses = [each.hypotheses for each in measures]
    significance = paired_bootstrap(
        hypotheses, test_set.reference_lines, language, samples, [*STANDARD, *metrics], test_set.sources
    )
    buckets = length_buckets([count_words(source) for source in test_set.sources])
    curves = [bleu_by_length(each, test_set.reference_lines[0], buckets, language) for each in hypotheses]
    inputs = [join_pairs(test_set.pairs, count) for count in range(1, len(measures[0].joined_bleu) + 1)]
    words = [sum(count_words(source) for source, _ in pairs) / len(pairs) for pairs in inputs]
    return SetResults(test_set, measures, significance, buckets, curves, words, [len(pairs) for pairs in inputs])


def find_seed_groups(systems: list[SystemMeasures], sets: list[SetResults]) -> list[SeedGroup]:
    """Groups of two and more seeds of one experiment; of runs with the same seed only the first counts."""
    groups: list[list[int]] = []
    for index, system in enumerate(systems):
        if len(system.provenance["models"]) > 1:
            continue
        group = next((group for group in groups if same_experiment(systems[group[0]], system)), None)
        if group is None:
            groups.append([index])
        elif seed_of(system) not in {seed_of(systems[other]) for other in group}:
            group.append(index)
    return [
        SeedGroup(
            name_without_seed(systems[group[0]]),
            [seed_of(systems[index]) for index in group],
            group,
            spread_metrics(group, sets),
        )
        for group in groups
        if len(group) > 1
    ]


def same_experiment(first: SystemMeasures, second: SystemMeasures) -> bool:
    """Whether two runs differ in seed and name alone."""
    changed = differences(to_dict(first.system.config), to_dict(second.system.config))
    return first.system.corpus_hashes == second.system.corpus_hashes and changed.keys() <= SEED_KEYS


def seed_of(system: SystemMeasures) -> int:
    """The seed of a single run."""
    return system.provenance["models"][0]["seed"]


def name_without_seed(system: SystemMeasures) -> str:
    """The run's name without -seedN."""
    return system.system.name.replace(f"-seed{seed_of(system)}", "")


def spread_metrics(indices: list[int], sets: list[SetResults]) -> dict[str, dict[str, Spread]]:
    """The spread of each metric that all these runs have, by test set and metric."""
    spreads: dict[str, dict[str, Spread]] = {}
    for results in sets:
        for metric, value_of in METRICS.items():
            values: list[Any] = [value_of(results.measures[index]) for index in indices]
            if None not in values:
                spreads.setdefault(results.test_set.name, {})[metric] = spread(values)
    return spreads

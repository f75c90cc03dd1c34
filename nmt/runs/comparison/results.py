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
from nmt.evaluate.metrics import STANDARD, find_metric
from nmt.evaluate.significance import Significance, Spread, paired_bootstrap, spread
from nmt.training.checkpoint import differences

# Two runs are one experiment with two seeds when they differ in nothing but these keys.
SEED_KEYS = {"seed", "name", "data_folder", "run_folder"}


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
        hypotheses, test_set.reference_lines, language, samples, dict.fromkeys([*STANDARD, *metrics]), test_set.sources
    )
    buckets = length_buckets([count_words(source) for source in test_set.sources])
    curves = [bleu_by_length(each, test_set.reference_lines, buckets, language) for each in hypotheses]
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
        measures = [results.measures[index] for index in indices]
        values: dict[str, list[Any]] = {
            find_metric(name).label: [intervals[index].score for index in indices]
            for name, intervals in results.significance.intervals.items()
        }
        values["perplexity"] = [each.perplexity.per_piece for each in measures]
        values["per word"] = [each.perplexity.per_word for each in measures]
        values["AER"] = [each.alignment and each.alignment.aer for each in measures]
        spreads[results.test_set.name] = {name: spread(each) for name, each in values.items() if None not in each}
    return spreads

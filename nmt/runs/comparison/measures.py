"""What is measured of one system while its weights are in memory."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from nmt.evaluate.alignment import Alignment
from nmt.evaluate.extraction import describe_layers, encode_pairs, fitting_pairs
from nmt.evaluate.aer import LayerSelector
from nmt.runs.comparison.options import CompareOptions
from nmt.runs.comparison.perplexity import Perplexity, measure_perplexity
from nmt.runs.comparison.systems import System, load_system
from nmt.runs.comparison.test_sets import TestSets
from nmt.runs.test_sets import TestSet
from nmt.evaluate.lengths import join_pairs
from nmt.data.files import report_write_errors, write_atomic
from nmt.runs.run import Run
from nmt.runs.scoring import make_layer_selector, score_set
from nmt.runs.test_sets import validation_gold
from nmt.view.heatmap import GoldLinks

log = logging.getLogger("nmt")


class AlignmentResult(NamedTuple):
    """Alignment error rate, precision and recall, and how they were obtained."""

    aer: float
    precision: float
    recall: float
    description: str  # layer and decoder step, and how they were chosen
    left_out: int  # pairs that are too long for forced decoding


@dataclass
class SetMeasures:
    """One system on one test set."""

    hypotheses: list[str]
    result: dict[str, Any]  # the content of its result.json
    perplexity: Perplexity
    joined_bleu: list[float] = field(default_factory=list)  # with 1, 2, … sentences joined
    split_inputs: int = 0  # joined inputs that were too long and were translated in parts

    @property
    def alignment(self) -> AlignmentResult | None:
        """Under forced decoding of the references; None without attention or gold links."""
        if "aer" not in self.result:
            return None
        info = self.result["alignment"]
        choice = "not chosen: the layer of the run's heatmaps"
        if info["chosen_on"]:
            choice = f"chosen among {info['candidates']} on {info['chosen_on']}"
        error, precision, recall = (self.result[name] for name in ("aer", "precision", "recall"))
        description = f"{describe_layers(info['layer'])}, decoder step {info['decoder_step']}, {choice}"
        return AlignmentResult(error, precision, recall, description, info["left_out"])

    @property
    def speed(self) -> float | None:
        """Sentences a second of the search."""
        return self.result["sentences"] / self.result["seconds"] if self.result.get("seconds") else None


@dataclass
class AttentionMap:
    """A system's attention under forced decoding of one reference; no alignment where there is none."""

    row: int  # of the first test set
    translation: str  # the system's own
    description: str  # layer and decoder step; without an alignment the reason for it
    alignment: Alignment | None = None
    gold: GoldLinks | None = None


@dataclass
class SystemMeasures:
    """One system on all test sets."""

    system: System
    provenance: dict[str, Any]
    sets: dict[str, SetMeasures]
    maps: list[AttentionMap]


def measure_system(system: System, test_sets: TestSets, rows: list[int], options: CompareOptions) -> SystemMeasures:
    """Translate all sets (or reuse stored translations), force-decode the references, align, record attention."""
    log.info("%s", system.name)
    run = load_system(system, options.beam)
    layer_selector = make_layer_selector(run, test_sets.valid or validation_gold(run))
    sets = {}
    for test_set in test_sets.sets:
        result = score_set(run, test_set, layer_selector, options.metrics)
        perplexity = measure_perplexity(run.translator, test_set.pairs)
        measures = SetMeasures(result.hypotheses, result.stored, perplexity)
        if options.max_joined:
            measure_joined(run, test_set, measures, options.max_joined, options.output / "joined")
        sets[test_set.name] = measures
    if any("aer" in measures.result and not measures.result["alignment"]["chosen_on"] for measures in sets.values()):
        log.warning(
            "%s: there are no gold links of a validation set, so AER is that of train.heatmap_layer, decoder step "
            "output; give --valid-source, --valid-target and --valid-gold to choose layer and decoder step.",
            system.name,
        )
    first = test_sets.sets[0]
    maps = [attention_map(run, first, row, sets[first.name].hypotheses[row], layer_selector) for row in rows]
    return SystemMeasures(system, run.provenance, sets, maps)


def measure_joined(run: Run, test_set: TestSet, measures: SetMeasures, max_joined: int, folder: Path) -> None:
    """Add BLEU where 1, 2, … consecutive sentences are one input: the same text in longer and longer inputs."""
    measures.joined_bleu = [measures.result["bleu"]]
    for count in range(2, max_joined + 1):
        pairs = join_pairs(test_set.pairs, count)
        paths = write_joined(pairs, folder, f"{test_set.name}-joined{count}")
        measures.joined_bleu.append(score_set(run, TestSet(paths[0].stem, paths[0], [paths[1]])).bleu)
        pieces = run.translator.tokenizers.source.encode_all([source for source, _ in pairs])
        measures.split_inputs += sum(len(ids) > run.translator.max_pieces for ids in pieces)


def write_joined(pairs: list[tuple[str, str]], folder: Path, name: str) -> tuple[Path, Path]:
    """Write joined pairs into NAME.source and NAME.reference, and return their paths."""
    paths = folder / f"{name}.source", folder / f"{name}.reference"
    with report_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for side, path in enumerate(paths):
            write_atomic(path, "".join(f"{pair[side]}\n" for pair in pairs))
    return paths


def attention_map(
    run: Run, test_set: TestSet, row: int, translation: str, layer_selector: LayerSelector | None
) -> AttentionMap:
    """The weights between words of one pair, read off as the system's links are."""
    if layer_selector is None:
        return AttentionMap(row, translation, "no attention")
    if not fitting_pairs(run.translator, [test_set.pairs[row]]):
        return AttentionMap(row, translation, "too long for forced decoding")
    extractor, gold = layer_selector.selected, test_set.gold
    pairs = encode_pairs(run.translator, [test_set.pairs[row]])
    [alignment] = run.align_all(pairs, extractor, tokenized=gold is not None and gold.tokenized)
    if not alignment.word_pair.target:
        return AttentionMap(row, translation, "no word to draw")
    layer, _, step = extractor.labels()
    description = f"{describe_layers(layer)}, decoder step {step}"
    return AttentionMap(row, translation, description, alignment, gold.links[row] if gold else None)

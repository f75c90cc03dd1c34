"""What is measured of one run while its weights are in memory."""

from __future__ import annotations

import argparse
import json
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nmt.alignments import GoldAlignments, LayerSelector, describe_layers, encode_pairs, fitting_pairs, record_words
from nmt.compare.perplexity import Perplexity, measure_perplexity
from nmt.compare.systems import System, reopen
from nmt.compare.test_sets import Texts, TextSet
from nmt.data.lines import read_lines, write_atomic, writing
from nmt.evaluate.lengths import corpus_bleu, join_pairs
from nmt.runs import Run
from nmt.scoring import make_layer_selector, score_files
from nmt.test_sets import validation_gold
from nmt.view.marks import Focus
from nmt.view.marks import Gold as Links

log = logging.getLogger("nmt")


class Alignment(NamedTuple):
    """Alignment error rate, precision, recall, and what was read off."""

    aer: float
    precision: float
    recall: float
    chosen: str
    left_out: int  # pairs that are too long to look at


@dataclass
class Measured:
    """One run on one set."""

    hypotheses: list[str]
    result: dict[str, Any]  # what stands in its result.json
    perplexity: Perplexity
    joined: list[float] = field(default_factory=list)  # BLEU with 1, 2, … sentences joined
    cut: int = 0  # joined inputs that were too long and translated in parts

    @property
    def alignment(self) -> Alignment | None:
        """Under forced decoding of the references; None without attention or known links."""
        if "aer" not in self.result:
            return None
        how = self.result["alignment"]
        told = f"chosen among {how['candidates']} on {how['chosen_on']}"
        told = told if how["chosen_on"] else "not chosen but taken: the layer of the run's pictures"
        error, precision, recall = (self.result[name] for name in ("aer", "precision", "recall"))
        chosen = f"{describe_layers(how['layer'])}, decoder step {how['decoder_step']}, {told}"
        return Alignment(error, precision, recall, chosen, how["left_out"])

    @property
    def speed(self) -> float | None:
        """Sentences a second of the search."""
        return self.result["sentences"] / self.result["seconds"] if self.result.get("seconds") else None


@dataclass
class AttentionMap:
    """Where a run looked while it was made to write the reference; no matrix where it could not look."""

    row: int  # of the first set
    translation: str  # its own
    reading: str  # layer and row; without a matrix the reason for it
    matrix: np.ndarray | None = None
    source: list[str] = field(default_factory=list)
    target: list[str] = field(default_factory=list)
    gold: Links | None = None  # sure and possible
    focus: Focus | None = None  # of local attention


@dataclass
class Measures:
    """One run on all sets."""

    entrant: System
    made: dict[str, Any]
    sets: dict[str, Measured]
    maps: list[AttentionMap]


def measure(entrant: System, texts: Texts, rows: list[int], options: argparse.Namespace) -> Measures:
    """Translate (or find what was translated already), force the references, align, look."""
    log.info("%s", entrant.name)
    run = reopen(entrant, options)
    judge = make_layer_selector(run, texts.valid or validation_gold(run))
    sets = {}
    for one in texts.sets:
        hypotheses, result = translated(run, one.name, one.source, one.reference, one.gold, judge)
        likely = measure_perplexity(run.translator, one.pairs)
        sets[one.name] = Measured(hypotheses, result, likely)
        if options.long:
            measure_joined(run, one, sets[one.name], options)
    if any(one.result.get("aer") is not None and not one.result["alignment"]["chosen_on"] for one in sets.values()):
        log.warning(
            "%s: no known links of a validation set, so AER is that of train.picture_layer, decoder step output; give "
            "--valid-source, --valid-target and --valid-gold to choose layer and step.",
            entrant.name,
        )
    first = texts.sets[0]
    maps = [look(run, first, row, sets[first.name].hypotheses[row], judge) for row in rows]
    return Measures(entrant, run.provenance, sets, maps)


def translated(
    run: Run,
    name: str,
    source: Path,
    reference: Path,
    gold: GoldAlignments | None = None,
    judge: LayerSelector | None = None,
) -> tuple[list[str], dict[str, Any]]:
    """Translations and their result.json, made now if they are not there."""
    score_files(run, name, source, reference, gold, judge)
    folder = run.folder / "evaluate" / name
    return list(read_lines(folder / "hyp")), json.loads((folder / "result.json").read_text(encoding="utf-8"))


def measure_joined(run: Run, one: TextSet, measured: Measured, options: argparse.Namespace) -> None:
    """BLEU where 1, 2, … consecutive sentences are one input: the same text in longer and longer pieces."""
    measured.joined = [measured.result["bleu"]]
    for count in range(2, options.long + 1):
        pairs = join_pairs(one.pairs, count)
        paths = write_joined(pairs, Path(options.output) / "joined", f"{one.name}-joined{count}")
        hypotheses, _ = translated(run, paths[0].stem, *paths)
        references = [target for _, target in pairs]
        measured.joined.append(corpus_bleu(hypotheses, references, run.config.data.target))
        pieces = run.translator.tokenizers.source.encode_all([source for source, _ in pairs])
        measured.cut += sum(len(ids) > run.translator.max_pieces for ids in pieces)


def write_joined(pairs: list[tuple[str, str]], folder: Path, name: str) -> tuple[Path, Path]:
    """The two files of joined pairs."""
    paths = folder / f"{name}.source", folder / f"{name}.reference"
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for side, path in enumerate(paths):
            write_atomic(path, "".join(f"{pair[side]}\n" for pair in pairs))
    return paths


def look(run: Run, one: TextSet, row: int, translation: str, judge: LayerSelector | None) -> AttentionMap:
    """The weights that the run's links are read off, between words."""
    if judge is None:
        return AttentionMap(row, translation, "no attention")
    if not fitting_pairs(run.translator, [one.pairs[row]]):
        return AttentionMap(row, translation, "too long to look at")
    [record] = run.translator.force_decode_all(encode_pairs(run.translator, [one.pairs[row]]))
    words = record_words(record, one.gold is not None and one.gold.tokenized)
    if not words.target:
        return AttentionMap(row, translation, "no word to draw")
    links = one.gold.links[row] if one.gold else None
    extractor = judge.selected
    layer, _, step = extractor.labels()
    told = f"{describe_layers(layer)}, decoder step {step}"
    weights, window_spans = extractor.word_weights(record, words), extractor.window_spans(record, words)
    return AttentionMap(row, translation, told, weights, words.columns, words.target, links, window_spans)

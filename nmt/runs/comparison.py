"""Runs and ensembles scored on the same test sets, with confidence intervals and significance:
text, JSON and HTML."""

import json
import logging
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.config.schema import to_dict
from nmt.data.files import report_write_errors, write_atomic
from nmt.data.language_pairs import target_language
from nmt.data.words import SPACELESS, word_spans
from nmt.evaluate.aer import GoldAlignments, LayerSelector
from nmt.evaluate.alignment import describe_extractor
from nmt.evaluate.extraction import encode_pairs, fitting_pairs
from nmt.evaluate.metrics import SEED, STANDARD, Translated, find_metric, open_scorer
from nmt.evaluate.significance import Significance, paired_bootstrap
from nmt.runs.results import Result
from nmt.runs.run import Run
from nmt.runs.scoring import TestSet, fingerprint, make_layer_selector, score_set, validation_gold
from nmt.training import checkpoint
from nmt.training.state import TrainState
from nmt.view.curves import plot_curves
from nmt.view.heatmap import png
from nmt.view.page import Table, figure_html, html_page

log = logging.getLogger("nmt")
NONE = "–"  # in a cell of a table
# Two runs are one experiment with two seeds when they differ in nothing but these keys.
SEED_KEYS = {"seed", "name", "data_folder", "run_folder"}
Example = tuple[Table, list[str]]  # a sentence with its translations, and heatmaps as HTML
FEWEST = 30  # sentences of a length whose BLEU says something
# words of a source
LENGTHS = ((1, 5), (6, 10), (11, 15), (16, 20), (21, 30), (31, 40), (41, 50), (51, math.inf))


@dataclass
class Scored:
    """One run on one test set."""

    result: Result
    perplexity: float
    left_out: int  # pairs that the perplexity leaves out
    bleu_by_length: list[float]

    def numbers(self) -> dict[str, Any]:
        """Every score by the name of its column; AER is None without gold links."""
        scores = {find_metric(name).label: self.result.values[name] for name in self.result.metrics}
        return {**scores, "perplexity": self.perplexity, "AER": self.result.aer}


@dataclass
class SetComparison:
    """One test set with the scores of all runs, by name."""

    test_set: TestSet
    scored: dict[str, Scored]
    significance: Significance

    def table(self) -> Table:
        """Scores with half of their 95 % intervals, and p of the difference from the first run."""
        metrics = {find_metric(name): each for name, each in self.significance.intervals.items()}
        columns = ["run", *(column for metric in metrics for column in (metric.label, f"p of {metric.label}"))]
        rows = []
        notes = []
        for index, (name, each) in enumerate(self.scored.items()):
            row = [name]
            aer = each.result.aer
            stored = each.result.stored
            for metric, intervals in metrics.items():
                score, _, half_width, p = intervals[index]
                row.append(f"{score:.{metric.digits}f} ± {half_width:.{metric.digits}f}")
                row.append(NONE if p is None else f"{p:.3f}")
            speed = f"{stored['sentences'] / stored['seconds']:.1f}" if stored["seconds"] else NONE
            rows.append([*row, f"{each.perplexity:.2f}", NONE if aer is None else f"{aer:.3f}", speed])
            if aer is not None:
                chosen = stored["alignment"]["chosen_on"] or ("nothing: no validation pairs have "
                                                              "gold links")
                notes.append(f"AER of {name}: {each.result.extractor}, chosen on {chosen}.")
            if each.left_out:
                notes.append(f"The perplexity of {name} leaves out {each.left_out} pairs: blank, "
                             "or too long.")
        signatures = [f"{find_metric(name).label} "
                      f"{text}" for name, text in self.significance.signatures.items()]
        notes += [
            "±: half of the 95 % interval over resamples of the sentences. p: paired bootstrap "
            f"against {rows[0][0]}, not "
            "corrected for the number of runs. Neither covers the choice of seeds. "
            f"{', '.join(signatures)}.",
            "perplexity: of a word of the references, punctuation apart. sentences/s: of the "
            "search, on a machine that may "
            "have done other work as well.",
        ]
        title = f"{self.test_set.name}: {len(self.test_set.pairs):,} sentences"
        return Table(title, [*columns, "perplexity", "AER", "sentences/s"], rows, notes)

    def length_table(self) -> Table:
        """Figure 2 of Bahdanau et al. (2015) as numbers."""
        groups = large_groups(self.test_set)
        columns = ["run", *(f"{label} (n = {len(rows)})" for label, rows in groups.items())]
        rows = [[name, *(f"{value:.2f}" for value in each.bleu_by_length)] for name, each in self.scored.items()]
        small = {label: rows for label, rows in length_groups(self.test_set).items() if label not in groups}
        left_out = ", ".join(f"{label} (n = {len(rows)})" for label, rows in small.items())
        notes = [f"Left out, because it has fewer than {FEWEST} sentences: "
                 f"{left_out}."] if small else []
        return Table(f"{self.test_set.name}: BLEU by words of the source", columns, rows, notes)

    def json(self, index: int, scored: Scored) -> dict[str, Any]:
        """Every figure of one run, unrounded."""
        found = {key: value for key, value in scored.result.stored.items() if key != "provenance"}
        found |= {name: intervals[index]._asdict() for name, intervals in self.significance.intervals.items()}
        found |= {"perplexity": scored.perplexity, "perplexity_leaves_out": scored.left_out}
        return found | {"bleu_by_length": scored.bleu_by_length}


def compare_runs(
    runs: dict[str, Run],
    test_sets: Sequence[TestSet],
    metrics: Sequence[str],
    samples: int,
    valid: GoldAlignments | None,
    rows: Sequence[int],
) -> tuple[list[SetComparison], list[Example]]:
    """Translate all sets (stored translations are used again), and resample the scores of all runs
    `samples` times.

    metrics: besides BLEU and chrF. valid: what layer and decoder step are chosen on, by default the
    validation set of each run. rows: sentences of the first set whose attention is drawn.
    """
    metrics = list(dict.fromkeys([*STANDARD, *metrics]))
    comparisons = []
    selectors = {name: make_layer_selector(run, valid or validation_gold(run)) for name, run in runs.items()}
    for test_set in test_sets:
        scored = {}
        references = test_set.reference_lines
        language = target_language(next(iter(runs.values())).config.data, test_set.name)
        groups = large_groups(test_set)
        for name, run in runs.items():
            log.info("%s: %s", test_set.name, name)
            result = score_set(run, test_set, selectors[name], metrics)
            scorer = open_scorer("bleu", language)
            counts = scorer.statistics(Translated(result.hypotheses, references))
            by_length = [scorer.score(counts[group].sum(axis=0)) for group in groups.values()]
            scored[name] = Scored(result, *reference_perplexity(run, test_set.pairs), by_length)
        hypotheses = [each.result.hypotheses for each in scored.values()]
        significance = paired_bootstrap(hypotheses, references, language, samples, metrics, test_set.sources)
        comparisons.append(SetComparison(test_set, scored, significance))
    return comparisons, [example(runs, selectors, comparisons[0], row) for row in rows]


def example(
    runs: dict[str, Run], selectors: dict[str, LayerSelector | None], comparison: SetComparison, row: int
) -> Example:
    """A sentence with its translations, and the attention of each run under forced decoding of the
    reference."""
    test_set = comparison.test_set
    figures = []
    pair = test_set.pairs[row]
    gold = test_set.gold
    lines = [("source", pair[0]), ("reference", pair[1])]
    lines += [(name, each.result.hypotheses[row]) for name, each in comparison.scored.items()]
    for name, run in runs.items():
        selector = selectors[name]
        if selector is None or not fitting_pairs(run.translator, [pair]):
            continue
        ids = encode_pairs(run.translator, [pair])
        extractor = selector.selected
        [alignment] = run.align_all(ids, extractor, tokenized=gold is not None and gold.tokenized)
        if alignment.word_pair.target:
            figure = alignment.figure(gold=gold.links[row] if gold else None, title=name, target_name="reference")
            layers = describe_extractor(extractor, alignment.record.num_heads)
            figures.append(figure_html(png(figure), f"{name}: {layers}, decoder step "
                                                    f"{extractor.decoder_step}"))
    return Table(f"{test_set.name}, sentence {row + 1}", ["", "text"], lines), figures


def reference_perplexity(run: Run, pairs: Sequence[tuple[str, str]]) -> tuple[float, int]:
    """exp(−Σ log p / words) of the references under forced decoding in float32, and the number of
    pairs left out.

    </s> counts in the sum; a pair with a blank side is left out, and so is one that is too long to
    record.
    """
    chosen = [pairs[row] for row in fitting_pairs(run.translator, pairs) if all(map(str.strip, pairs[row]))]
    records = run.translator.force_decode_all(encode_pairs(run.translator, chosen))
    nll = -sum(sum(record.log_probabilities) for record in records)
    words = sum(count_words(pair[1]) for pair in chosen)
    return math.exp(min(nll / max(words, 1), 700)), len(pairs) - len(chosen)


def count_words(text: str) -> int:
    """Words of a text, punctuation at their edges apart; in a script without spaces each character
    is one."""
    words = (text[start:end] for start, end in word_spans(text))
    return sum(len(word) if SPACELESS.search(word) else 1 for word in words)


def length_groups(test_set: TestSet) -> dict[str, list[int]]:
    """The rows of a set by the words of the source, such as 6–10."""
    groups: dict[str, list[int]] = {}
    counts = [count_words(source) for source in test_set.sources]
    for first, last in LENGTHS:
        if rows := [row for row, count in enumerate(counts) if first <= count <= last]:
            groups[f"{first}–{last}" if last < math.inf else f"{first}+"] = rows
    return groups


def large_groups(test_set: TestSet) -> dict[str, list[int]]:
    """The groups of `length_groups` that are scored."""
    return {label: rows for label, rows in length_groups(test_set).items() if len(rows) >= FEWEST}


def training_state(run: Run) -> TrainState | None:
    """The progress of the training of a single run; None for an ensemble, and where
    last.safetensors is gone."""
    path = run.folder / "last.safetensors"
    if len(run.provenance["models"]) > 1 or not path.exists():
        return None
    return TrainState.from_dict(checkpoint.load(path, with_tensors=False).get("train_state", {}))


def run_table(runs: dict[str, Run]) -> Table:
    """What each run is, and what its training took."""
    columns = ("run, attention, score, window, model, layers, size, M parameters, seed, updates, "
               "minutes, tokens/s, beam")
    rows = []
    for name, run in runs.items():
        model = run.config.model
        models = run.provenance["models"]
        state = training_state(run)
        labels = [*model.attention_labels(), *model.architecture_labels()]
        labels = labels if len(models) == 1 else [f"ensemble of {len(models)}", *[NONE] * 5]
        cost = [NONE] * 3
        if state is not None:
            speed = f"{state.tokens / state.seconds:,.0f}" if state.seconds else NONE
            updates = f"{state.step:,}" if state.finished else f"{state.step:,} (unfinished)"
            cost = [updates, f"{state.seconds / 60:.1f}", speed]
        parameters = sum(weight.numel() for weight in run.translator.model.parameters())
        seeds = ", ".join(str(each["seed"]) for each in models)
        rows.append([name, *labels, f"{parameters / 1e6:.2f}", seeds, *cost, str(run.translator.decode.beam)])
    note = ("score, window of a Transformer: of its self-attention. tokens/s: target tokens, "
            "validation included.")
    return Table("Runs", columns.split(", "), rows, [note])


def seed_tables(runs: dict[str, Run], comparisons: Sequence[SetComparison]) -> Iterator[Table]:
    """Mean ± sample standard deviation over runs whose configurations differ in the seed alone;
    nothing without them."""
    groups: dict[str, dict[int, str]] = {}
    for name, run in runs.items():
        if len(run.provenance["models"]) == 1:
            config = {key: value for key, value in to_dict(run.config).items() if key not in SEED_KEYS}
            experiment = json.dumps([config, run.provenance["models"][0]["corpus_hash"]], sort_keys=True)
            groups.setdefault(experiment, {}).setdefault(run.config.seed, name)
    columns = [*next(iter(comparisons[0].scored.values())).numbers()]
    rows = []
    for names in (names for names in groups.values() if len(names) > 1):
        for comparison in comparisons:
            row = [comparison.test_set.name, ", ".join(names.values()), ", ".join(map(str, names))]
            for values in zip(*(comparison.scored[name].numbers().values() for name in names.values()), strict=True):
                row.append(NONE if None in values else f"{statistics.mean(values):.3g} ± "
                                                       f"{statistics.stdev(values):.2g}")
            rows.append(row)
    if rows:
        yield Table("Seeds", ["set", "runs", "seeds", *columns], rows, ["Mean ± sample standard "
                                                                        "deviation over seeds."])


def write_report(
    runs: dict[str, Run], comparisons: Sequence[SetComparison], examples: Sequence[Example], folder: Path
) -> str:
    """Write comparison.md, .html and .json into a folder, and return the tables as Markdown; raises
    UserError."""
    tables = [each.table() for each in comparisons] + [run_table(runs), *(each.length_table() for each in comparisons)]
    tables += seed_tables(runs, comparisons)
    text = "\n".join(table.markdown() for table in [*tables, *(table for table, _ in examples)])
    body = [f"<h1>{len(runs)} runs "
            "compared</h1>", *(table.html() for table in tables), '<div class="figures">']
    for each in comparisons:
        title = f"{each.test_set.name}: BLEU by source length"
        groups = large_groups(each.test_set)
        if not groups:
            continue
        curves = {name: scored.bleu_by_length for name, scored in each.scored.items()}
        counts = {label: len(rows) for label, rows in groups.items()}
        body.append(figure_html(png(plot_curves(curves, counts, title, "words of the source", "BLEU")), title))
    body.append("</div>")
    for table, figures in examples:
        body += [table.html(), '<div class="small figures">', *figures, "</div>"]
    sets = {
        each.test_set.name: {
            "files": [str(path) for path in (each.test_set.source, *each.test_set.references)],
            "fingerprint": fingerprint(each.test_set),
            "sentences": len(each.test_set.pairs),
            "signatures": each.significance.signatures,
            "lengths": {label: len(rows) for label, rows in large_groups(each.test_set).items()},
        }
        for each in comparisons
    }
    of_runs: dict[str, Any] = {}
    for index, (name, run) in enumerate(runs.items()):
        scores = {each.test_set.name: each.json(index, each.scored[name]) for each in comparisons}
        training = (state := training_state(run)) and vars(state)
        of_runs[name] = {"provenance": run.provenance | {"scored_with": run.made_with}, "training": training, "sets": scores}
    numbers = {"versions": checkpoint.versions(), "bootstrap_seed": SEED, "sets": sets, "runs": of_runs}
    with report_write_errors(folder):
        write_atomic(folder / "comparison.md", text)
        content = "\n".join(["<main>", *body, "</main>"])
        write_atomic(folder / "comparison.html", html_page(f"{len(runs)} runs compared", content))
        text_of_numbers = json.dumps(numbers, ensure_ascii=False, indent=2, allow_nan=False)
        write_atomic(folder / "comparison.json", f"{text_of_numbers}\n")
    return text

"""Runs and ensembles on the same test sets, with confidence intervals: text, JSON and HTML."""

import json
import logging
import math
import statistics
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from nmt.config.schema import to_dict
from nmt.corpus.files import report_write_errors, write_atomic
from nmt.corpus.language_pairs import target_language
from nmt.corpus.words import count_words
from nmt.evaluate.aer import LayerSelector
from nmt.evaluate.alignment import describe_extractor
from nmt.evaluate.extraction import encode_pairs, fitting_pairs
from nmt.evaluate.metrics import SEED, STANDARD, Translated, find_metric, open_scorer
from nmt.evaluate.significance import Significance, paired_bootstrap
from nmt.runs.results import Result
from nmt.runs.run import Run
from nmt.runs.scoring import TestSet, fingerprint, make_layer_selector, score_set
from nmt.training import checkpoint
from nmt.training.state import TrainState
from nmt.view.curves import plot_curves
from nmt.view.heatmap import png
from nmt.view.page import NONE, Table, figure_html, html_page

log = logging.getLogger("nmt")
# Two runs are one experiment with two seeds when they differ in nothing but these keys.
SEED_KEYS = {"seed", "name", "data_folder", "run_folder"}
Example = tuple[Table, list[str]]  # a sentence with its translations, and heatmaps as HTML
FEWEST = 30  # sentences of a length whose BLEU says something
LENGTHS = (1, 6, 11, 16, 21, 31, 41, 51)  # words of a source with which a group begins


@dataclass
class Scored:
    """One run on one test set."""

    result: Result
    perplexity: float | None  # None: there is no pair to measure it on
    left_out: int  # pairs that the perplexity leaves out
    bleu_by_length: list[float]

    def numbers(self) -> dict[str, Any]:
        """Every score by the name of its column; AER is None without gold links."""
        values = self.result.values
        scores = {find_metric(name).label: values[name] for name in self.result.metrics}
        return {**scores, "perplexity": self.perplexity, "AER": self.result.aer}

    def notes(self, name: str) -> list[str]:
        """What has to be known about the numbers of the run with this name."""
        notes = []
        if self.result.aer is not None:
            chosen = self.result.stored["alignment"]["chosen_on"]
            chosen = chosen or "nothing: no validation pairs have gold links"
            notes.append(f"AER of {name}: {self.result.extractor}, chosen on {chosen}.")
        if self.left_out:
            notes.append(
                f"The perplexity of {name} leaves out {self.left_out} pairs: blank, or too long."
            )
        return notes


@dataclass
class SetComparison:
    """One test set with the scores of all runs, by name."""

    test_set: TestSet
    scored: dict[str, Scored]
    significance: Significance

    def table(self) -> Table:
        """Scores with half of their 95 % intervals, and p of the difference from the first run."""
        columns = ["run"]
        for metric in map(find_metric, self.significance.intervals):
            columns += [metric.label, f"p of {metric.label}"]
        rows = []
        notes = []
        for index, (name, scored) in enumerate(self.scored.items()):
            row = [name]
            for metric_name, intervals in self.significance.intervals.items():
                digits = find_metric(metric_name).digits
                score, _, half_width, p, _ = intervals[index]
                row.append(f"{score:.{digits}f} ± {half_width:.{digits}f}")
                row.append(cell(p, ".3f"))
            stored = scored.result.stored
            speed = ratio(stored["sentences"], stored["seconds"])
            numbers = [(scored.perplexity, ".2f"), (scored.result.aer, ".3f"), (speed, ".1f")]
            row += [cell(*number) for number in numbers]
            rows.append(row)
            notes += scored.notes(name)
        signatures = []
        for metric_name, signature in self.significance.signatures.items():
            signatures.append(f"{find_metric(metric_name).label} {signature}")
        notes += [
            "±: half of the 95 % interval over resamples of the sentences. p: paired bootstrap "
            f"against {rows[0][0]}, not corrected for the number of runs. Neither covers the "
            f"choice of seeds. {', '.join(signatures)}.",
            "perplexity: of a word of the references, punctuation apart. sentences/s: of the "
            "search, on a machine that may have done other work as well.",
        ]
        title = f"{self.test_set.name}: {len(self.test_set.pairs):,} sentences"
        return Table(title, [*columns, "perplexity", "AER", "sentences/s"], rows, notes)

    def length_table(self) -> Table:
        """Figure 2 of Bahdanau et al. (2015) as numbers."""
        columns = ["run"]
        small: list[str] = []
        for label, group in length_groups(self.test_set).items():
            wanted = columns if len(group) >= FEWEST else small
            wanted.append(f"{label} (n = {len(group)})")
        rows = []
        for run, scored in self.scored.items():
            rows.append([run, *map("{:.2f}".format, scored.bleu_by_length)])
        notes = []
        if small:
            notes.append(
                f"Left out, because it has fewer than {FEWEST} sentences: {', '.join(small)}."
            )
        return Table(f"{self.test_set.name}: BLEU by words of the source", columns, rows, notes)

    def length_figure(self) -> str:
        """The same as curves, in HTML; empty where no length has enough sentences."""
        counts = self.counts_by_length()
        if not counts:
            return ""
        title = f"{self.test_set.name}: BLEU by source length"
        curves = {name: scored.bleu_by_length for name, scored in self.scored.items()}
        figure = plot_curves(curves, counts, title)
        return figure_html(png(figure), title)

    def counts_by_length(self) -> dict[str, int]:
        """The sentences of each group that is scored."""
        return {label: len(rows) for label, rows in large_groups(self.test_set).items()}


def cell(value: float | None, form: str) -> str:
    """A number in a table."""
    return NONE if value is None else format(value, form)


def ratio(amount: float, seconds: float) -> float | None:
    return amount / seconds if seconds else None


def compare_runs(
    runs: dict[str, Run],
    test_sets: Sequence[TestSet],
    metrics: Sequence[str],
    samples: int,
    rows: Sequence[int],
) -> tuple[list[SetComparison], list[Example]]:
    """Translate all sets, and resample the scores of all runs `samples` times.

    Stored translations are used again. metrics: besides BLEU and chrF. rows: sentences of the first
    set whose attention is drawn.
    """
    metrics = list(dict.fromkeys([*STANDARD, *metrics]))
    selectors = {}
    for name, run in runs.items():
        selectors[name] = make_layer_selector(run)

    comparisons = []
    data = next(iter(runs.values())).config.data
    for test_set in test_sets:
        scored = {}
        hypotheses = []
        references = test_set.reference_lines
        language = target_language(data, test_set.name)
        scorer = open_scorer("bleu", language)
        groups = large_groups(test_set).values()
        for name, run in runs.items():
            log.info("%s: %s", test_set.name, name)
            result = score_set(run, test_set, selectors[name], metrics)
            counts = scorer.statistics(Translated(result.hypotheses, references))  # [S N]
            by_length = [scorer.score(counts[group].sum(axis=0)) for group in groups]
            hypotheses.append(result.hypotheses)
            scored[name] = Scored(result, *reference_perplexity(run, test_set.pairs), by_length)
        significance = paired_bootstrap(
            hypotheses, references, language, samples, metrics, test_set.sources
        )
        comparisons.append(SetComparison(test_set, scored, significance))
    return comparisons, [example(runs, selectors, comparisons[0], row) for row in rows]


def example(
    runs: dict[str, Run],
    selectors: dict[str, LayerSelector | None],
    comparison: SetComparison,
    row: int,
) -> Example:
    """A sentence with its translations, and the attention of each run over it.

    For the attention, the run is made to write the reference.
    """
    test_set = comparison.test_set
    pair = test_set.pairs[row]
    gold = test_set.gold
    lines = [("source", pair[0]), ("reference", pair[1])]
    for name, scored in comparison.scored.items():
        lines.append((name, scored.result.hypotheses[row]))
    figures = []
    for name, run in runs.items():
        selector = selectors[name]
        if selector is None or not fitting_pairs(run.translator, [pair]):
            continue
        ids = encode_pairs(run.translator, [pair])
        extractor = selector.selected
        [alignment] = run.align_all(ids, extractor, tokenized=gold is not None and gold.tokenized)
        if alignment.word_pair.target:
            links = gold.links[row] if gold else None
            figure = alignment.figure(gold=links, title=name, target_name="reference")
            layers = describe_extractor(extractor, alignment.record.num_heads)
            caption = f"{name}: {layers}, decoder step {extractor.decoder_step}"
            figures.append(figure_html(png(figure), caption))
    return Table(f"{test_set.name}, sentence {row + 1}", ["", "text"], lines), figures


def reference_perplexity(run: Run, pairs: Sequence[tuple[str, str]]) -> tuple[float | None, int]:
    """exp(−Σ log p / words) of the references, and the number of pairs that are left out.

    The model is made to write the references, in float32. </s> counts in the sum. A pair with a
    blank side is left out, and so is one that is too long to record; None where none is left.
    """
    chosen = []
    words = 0
    for row in fitting_pairs(run.translator, pairs):
        if all(map(str.strip, pairs[row])):
            chosen.append(pairs[row])
            words += count_words(pairs[row][1])
    if not chosen:
        return None, len(pairs)
    records = run.translator.force_decode_all(encode_pairs(run.translator, chosen))
    nll = -sum(sum(record.log_probabilities) for record in records)
    return math.exp(min(nll / max(words, 1), 700)), len(pairs) - len(chosen)


def length_groups(test_set: TestSet) -> dict[str, list[int]]:
    """The rows of a set by the words of the source, such as 6–10."""
    labels = [f"{first}–{following - 1}" for first, following in pairwise(LENGTHS)]
    labels.append(f"{LENGTHS[-1]}+")
    groups: dict[str, list[int]] = {label: [] for label in labels}
    for row, source in enumerate(test_set.sources):
        words = count_words(source)
        if words >= LENGTHS[0]:
            groups[labels[bisect_right(LENGTHS, words) - 1]].append(row)
    return {label: rows for label, rows in groups.items() if rows}


def large_groups(test_set: TestSet) -> dict[str, list[int]]:
    """The groups of `length_groups` that are scored."""
    return {label: rows for label, rows in length_groups(test_set).items() if len(rows) >= FEWEST}


def training_state(run: Run) -> TrainState | None:
    """The progress of a run's training; None for an ensemble, and without last.safetensors."""
    path = run.folder / "last.safetensors"
    if len(run.provenance["models"]) > 1 or not path.exists():
        return None
    return TrainState.from_dict(checkpoint.load(path, with_tensors=False).get("train_state", {}))


def run_table(runs: dict[str, Run]) -> Table:
    """What each run is, and what its training took."""
    columns = (
        "run, attention, score, window, model, layers, size, M parameters, seed, updates, "
        "minutes, tokens/s, beam"
    )
    rows = []
    for name, run in runs.items():
        model = run.config.model
        models = run.provenance["models"]
        labels = [*model.attention_labels(), *model.architecture_labels()]
        if len(models) > 1:
            labels = [f"ensemble of {len(models)}", *[NONE] * 5]
        seeds = ", ".join(str(member["seed"]) for member in models)
        cost = [NONE] * 3
        state = training_state(run)
        if state is not None:
            updates = f"{state.step:,}" if state.finished else f"{state.step:,} (unfinished)"
            speed = ratio(state.tokens, state.seconds)
            cost = [updates, f"{state.seconds / 60:.1f}", cell(speed, ",.0f")]
        beam = str(run.translator.decode.beam)
        rows.append([name, *labels, f"{run.parameters / 1e6:.2f}", seeds, *cost, beam])
    note = (
        "score, window of a Transformer: of its self-attention. tokens/s: target tokens, "
        "validation included."
    )
    return Table("Runs", columns.split(", "), rows, [note])


def seed_tables(runs: dict[str, Run], comparisons: Sequence[SetComparison]) -> list[Table]:
    """Mean ± sample standard deviation over runs that differ in the seed alone.

    Without such runs there is no table.
    """
    experiments: dict[str, dict[int, str]] = {}  # the names of their runs, by seed
    for name, run in runs.items():
        models = run.provenance["models"]
        if len(models) == 1:
            config = to_dict(run.config)
            for key in SEED_KEYS:
                del config[key]
            experiment = json.dumps([config, models[0]["corpus_hash"]], sort_keys=True)
            experiments.setdefault(experiment, {}).setdefault(run.config.seed, name)
    columns = list(next(iter(comparisons[0].scored.values())).numbers())
    rows = []
    for names in experiments.values():
        if len(names) == 1:
            continue
        for comparison in comparisons:
            row = [comparison.test_set.name, ", ".join(names.values()), ", ".join(map(str, names))]
            numbers = [comparison.scored[name].numbers().values() for name in names.values()]
            for values in zip(*numbers, strict=True):
                if None in values:
                    row.append(NONE)
                else:
                    mean = statistics.mean(values)
                    row.append(f"{mean:.3g} ± {statistics.stdev(values):.2g}")
            rows.append(row)
    if not rows:
        return []
    note = "Mean ± sample standard deviation over seeds."
    return [Table("Seeds", ["set", "runs", "seeds", *columns], rows, [note])]


def write_report(
    runs: dict[str, Run],
    comparisons: Sequence[SetComparison],
    examples: Sequence[Example],
    folder: Path,
) -> str:
    """Write comparison.md, .html and .json into a folder, and return the tables as Markdown.

    Raises UserError.
    """
    tables = [
        *map(SetComparison.table, comparisons),
        run_table(runs),
        *map(SetComparison.length_table, comparisons),
        *seed_tables(runs, comparisons),
    ]
    title = f"{len(runs)} runs compared"
    figures = map(SetComparison.length_figure, comparisons)
    body = ["<main>", f"<h1>{title}</h1>", *map(Table.html, tables)]
    body += ['<div class="figures">', *filter(None, figures), "</div>"]
    for table, heatmaps in examples:
        tables.append(table)
        body += [table.html(), '<div class="small figures">', *heatmaps, "</div>"]
    text = "\n".join(map(Table.markdown, tables))
    page = html_page(title, "\n".join([*body, "</main>"]))

    report = report_numbers(runs, comparisons)
    numbers = json.dumps(report, ensure_ascii=False, indent=2, allow_nan=False)
    with report_write_errors(folder):
        write_atomic(folder / "comparison.md", text)
        write_atomic(folder / "comparison.html", page)
        write_atomic(folder / "comparison.json", f"{numbers}\n")
    return text


def report_numbers(runs: dict[str, Run], comparisons: Sequence[SetComparison]) -> dict[str, Any]:
    """The content of comparison.json: every number, unrounded."""
    of_runs: dict[str, Any] = {}
    for name, run in runs.items():
        state = training_state(run)
        of_runs[name] = {
            "provenance": run.provenance | {"scored_with": run.made_with},
            "training": state and vars(state),
            "sets": {},
        }
    of_sets: dict[str, Any] = {}
    for comparison in comparisons:
        test_set = comparison.test_set
        of_sets[test_set.name] = {
            "files": list(map(str, (test_set.source, *test_set.references))),
            "fingerprint": fingerprint(test_set),
            "sentences": len(test_set.pairs),
            "signatures": comparison.significance.signatures,
            "lengths": comparison.counts_by_length(),
        }
        for index, (name, scored) in enumerate(comparison.scored.items()):
            numbers = scored.result.stored.copy()
            del numbers["provenance"]
            for metric, intervals in comparison.significance.intervals.items():
                numbers[metric] = intervals[index]._asdict()
            numbers["perplexity"] = scored.perplexity
            numbers["perplexity_leaves_out"] = scored.left_out
            numbers["bleu_by_length"] = scored.bleu_by_length
            of_runs[name]["sets"][test_set.name] = numbers
    return {
        "versions": checkpoint.versions(),
        "bootstrap_seed": SEED,
        "sets": of_sets,
        "runs": of_runs,
    }

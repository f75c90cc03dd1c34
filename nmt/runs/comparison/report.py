"""The comparison on disk: Markdown, an HTML page, JSON, figures, TensorBoard."""

import json
import re
from pathlib import Path
from typing import Any

from nmt.runs.comparison.measures import AttentionMap
from nmt.runs.comparison.results import ComparisonResults, SetResults
from nmt.runs.comparison.tables import comparison_tables
from nmt.evaluate.significance import SEED
from nmt.data.files import report_write_errors, write_atomic
from nmt.runs.scoring import fingerprint
from nmt.training.checkpoint import versions
from nmt.view.comparison_page import PageFigure, Section, Table, comparison_page, to_markdown
from nmt.view.curves import Curve, plot_curves
from nmt.view.heatmap import png
from nmt.view.tensorboard import TensorBoardLogger

Figures = dict[str, Any]  # matplotlib's, by name; only nmt.view imports that library
HEATMAP_NOTE = (
    "Forced decoding of the reference: rows are its words, columns those of the source. Attention weights are not an "
    "explanation of the translation."
)


def write_report(results: ComparisonResults, folder: Path) -> str:
    """Write all files of the report into `folder`, and return the tables as Markdown; raises UserError if it cannot."""
    tables = comparison_tables(results)
    plots, heatmaps = length_plots(results), draw_heatmaps(results)
    text = to_markdown(tables)
    with report_write_errors(folder):
        for name, figure in plots.items():
            write_atomic(folder / f"{name}.png", png(figure))
        images = "".join(f"\n![{name}]({name}.png)\n" for name in plots)
        write_atomic(folder / "comparison.md", text + images)
        write_atomic(folder / "comparison.html", html_page(results, tables, plots, heatmaps))
        numbers = json.dumps(results_json(results), ensure_ascii=False, indent=2, allow_nan=False)
        write_atomic(folder / "comparison.json", numbers + "\n")
        write_tensorboard(results, folder / "tensorboard", text, plots | heatmaps)
    return text


def length_plots(results: ComparisonResults) -> Figures:
    """BLEU over source lengths and over lengths of joined inputs, by file name without .png."""
    labels = [system.label for system in results.systems]
    plots = {}
    for set_results in results.sets:
        name = set_results.test_set.name
        if set_results.buckets:
            curves = [Curve(label, values) for label, values in zip(labels, set_results.by_length, strict=True)]
            lengths = [bucket.label for bucket in set_results.buckets]
            counts = [len(bucket.rows) for bucket in set_results.buckets]
            title = f"{name}: BLEU by source length"
            figure = plot_curves(curves, lengths, counts, title, "words of the source", "BLEU")
            plots[f"bleu-by-length-{file_name(name)}"] = figure
        if set_results.joined_words:
            curves = [
                Curve(label, measures.joined_bleu) for label, measures in zip(labels, set_results.measures, strict=True)
            ]
            lengths = [f"{words:.0f} words" for words in set_results.joined_words]
            title = f"{name}: 1 to {len(lengths)} sentences joined; training had single ones"
            axis = "words of the source, mean"
            figure = plot_curves(curves, lengths, set_results.joined_counts, title, axis, "BLEU")
            plots[f"bleu-joined-{file_name(name)}"] = figure
    return plots


def draw_heatmaps(results: ComparisonResults) -> Figures:
    """The attention heatmaps of all systems and drawn sentences, by their `heatmap_name`."""
    return {
        heatmap_name(measures.system.name, pair): pair.alignment.figure(gold=pair.gold, title=measures.system.name)
        for measures in results.measures
        for pair in measures.maps
        if pair.alignment is not None
    }


def heatmap_name(system: str, pair: AttentionMap) -> str:
    """SENTENCE/SYSTEM, the sentence counted from 1."""
    return f"{pair.row + 1}/{system}"


def html_page(results: ComparisonResults, tables: list[Table], plots: Figures, heatmaps: Figures) -> str:
    """The tables, the plots, and for each drawn sentence the heatmaps of all systems."""
    figures = [PageFigure(png(figure), name.replace("-", " ")) for name, figure in plots.items()]
    parts: list[Table | Section] = [*tables[: len(results.sets)], Section("BLEU by length", figures)]
    parts += tables[len(results.sets) :]
    for maps in zip(*(measures.maps for measures in results.measures), strict=True):
        parts.append(sentence_section(results, list(maps), heatmaps))
    packages = [f"{name} {version}" for name, version in versions().items()]
    return comparison_page(f"{len(results.systems)} runs compared", [", ".join(packages)], parts)


def sentence_section(results: ComparisonResults, maps: list[AttentionMap], heatmaps: Figures) -> Section:
    """The heatmaps of one sentence, one for each system; `maps` are in the order of the systems."""
    test_set, row = results.sets[0].test_set, maps[0].row
    source, reference = test_set.pairs[row]
    figures, missing = [], []
    for system, pair in zip(results.systems, maps, strict=True):
        if pair.alignment is None:
            missing.append(f"{system.name} ({pair.description})")
        else:
            image = png(heatmaps[heatmap_name(system.name, pair)])
            caption = f"{pair.description}; its own translation: {pair.translation}"
            figures.append(PageFigure(image, f"attention of {system.name}: {pair.description}", caption))
    notes = [f"source: {source}", f"reference: {reference}", HEATMAP_NOTE]
    notes += [f"Without a heatmap: {', '.join(missing)}."] if missing else []
    return Section(f"{test_set.name}, sentence {row + 1}", figures, notes, small=True)


def results_json(results: ComparisonResults) -> dict[str, Any]:
    """Every figure of the tables unrounded, with its provenance."""
    systems = []
    for index, measures in enumerate(results.measures):
        system = measures.system
        trainings = [
            None if training is None else vars(training) | {"tokens_per_second": training.speed}
            for training in system.trainings
        ]
        entry = {"name": system.name, "parameters": system.parameters, "unfinished": system.unfinished}
        entry |= {"target_vocabulary": system.vocabulary, "trainings": trainings, "provenance": measures.provenance}
        sets = {set_results.test_set.name: scores_json(set_results, index) for set_results in results.sets}
        systems.append(entry | {"sets": sets})
    return {
        "versions": versions(),
        "longest_training_source": results.longest,
        "bootstrap": {"samples": results.samples, "seed": SEED, "first": results.systems[0].name},
        "sets": {set_results.test_set.name: set_json(set_results) for set_results in results.sets},
        "runs": systems,
        "seeds": [
            {
                "runs": [results.systems[index].name for index in group.indices],
                "seeds": group.seeds,
                "sets": {
                    name: {metric: spread._asdict() for metric, spread in spreads.items()}
                    for name, spreads in group.spreads.items()
                },
            }
            for group in results.seed_groups
        ],
    }


def set_json(set_results: SetResults) -> dict[str, Any]:
    """A test set, how it was scored, and the lengths of its sentences."""
    test_set = set_results.test_set
    lengths = [
        {"words": bucket.label, "mean": bucket.mean_length, "sentences": len(bucket.rows)}
        for bucket in set_results.buckets
    ]
    joined = [
        {"sentences_joined": count, "mean_words": words, "inputs": inputs}
        for count, (words, inputs) in enumerate(
            zip(set_results.joined_words, set_results.joined_counts, strict=True), 1
        )
    ]
    files = {"source": str(test_set.source), "reference": ", ".join(map(str, test_set.references))}
    entry = {"files": files, "fingerprint": fingerprint(test_set), "sentences": len(test_set.pairs)}
    return entry | {"signatures": set_results.significance.signatures, "lengths": lengths, "joined": joined}


def scores_json(set_results: SetResults, index: int) -> dict[str, Any]:
    """All measures of one system on one test set."""
    measures = set_results.measures[index]
    perplexity = measures.perplexity
    intervals = set_results.significance.intervals
    return {name: of_systems[index]._asdict() for name, of_systems in intervals.items()} | {
        "nll": perplexity.nll,
        "target_pieces": perplexity.pieces,
        "target_words": perplexity.words,
        "pairs_too_long": perplexity.left_out,
        "perplexity_per_piece": perplexity.per_piece,
        "perplexity_per_word": perplexity.per_word,
        "alignment": None if measures.alignment is None else measures.alignment._asdict(),
        "bleu_by_length": set_results.by_length[index],
        "bleu_joined": measures.joined_bleu,
        "joined_translated_in_parts": measures.split_inputs,
        "decode_seconds": measures.result.get("seconds"),
        "decoded_on": measures.result.get("machine"),
        "sentences_per_second": measures.speed,
    }


def write_tensorboard(results: ComparisonResults, folder: Path, text: str, figures: Figures) -> None:
    """Write tables and figures as one TensorBoard run, and the scalars of each system as a run of its own."""
    for old in folder.glob("**/events.out.tfevents.*"):  # of the last comparison written into this folder
        old.unlink()
    logger = TensorBoardLogger(folder)
    logger.text("comparison", text, 0)
    for name, figure in figures.items():
        logger.figure(name, figure, 0)
    logger.close()
    for index, system in enumerate(results.systems):
        logger = TensorBoardLogger(folder / file_name(system.name))
        for set_results in results.sets:
            log_scores(logger, set_results, index)
        logger.close()


def log_scores(logger: TensorBoardLogger, set_results: SetResults, index: int) -> None:
    """Write the scores of one system on one test set, and its curves over lengths."""
    name, numbers = set_results.test_set.name, scores_json(set_results, index)
    scores = {metric: numbers[metric]["score"] for metric in set_results.significance.intervals}
    scores |= {key: numbers[key] for key in ("perplexity_per_piece", "perplexity_per_word")}
    if numbers["alignment"]:
        scores["aer"] = numbers["alignment"]["aer"]
    logger.scalars({f"{name}/{key}": value for key, value in scores.items()}, 0)
    for bucket, value in zip(set_results.buckets, numbers["bleu_by_length"], strict=True):
        logger.scalars({f"{name}/bleu_by_source_words": value}, round(bucket.mean_length))
    for words, value in zip(set_results.joined_words, numbers["bleu_joined"], strict=True):
        logger.scalars({f"{name}/bleu_joined_by_source_words": value}, round(words))


def file_name(name: str) -> str:
    """A name with every run of characters that are unsafe in file names replaced by _."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "_", name)

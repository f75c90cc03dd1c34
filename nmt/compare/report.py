"""The comparison on disk: Markdown, a page, numbers, pictures, TensorBoard."""

import json
import re
from pathlib import Path
from typing import Any

from nmt.compare.measures import AttentionMap
from nmt.compare.results import ComparisonResults, SetResults
from nmt.compare.tables import tables
from nmt.data.lines import write_atomic, writing
from nmt.evaluate.significance import SEED
from nmt.scoring import fingerprint
from nmt.train.checkpoint import versions
from nmt.view.comparison_page import Picture, Section, Table, markdown, page
from nmt.view.curves import Line, curves
from nmt.view.heatmap import heatmap, png
from nmt.view.tensorboard import TensorBoardLogger

Figures = dict[str, Any]  # matplotlib's, by name; only nmt.view knows that library
PICTURED = (
    "Forced decoding of the reference: rows are its words, columns those of the source. What a model looked at is no "
    "proof of why it wrote what it wrote."
)


def write(outcome: ComparisonResults, folder: Path) -> str:
    """Write everything below `folder`, and return the tables as Markdown; raises UserError where it cannot."""
    made = tables(outcome)
    plots, maps = length_plots(outcome), map_figures(outcome)
    text = markdown(made)
    with writing(folder):
        for name, figure in plots.items():
            write_atomic(folder / f"{name}.png", png(figure))
        images = "".join(f"\n![{name}]({name}.png)\n" for name in plots)
        write_atomic(folder / "comparison.md", text + images)
        write_atomic(folder / "comparison.html", html_page(outcome, made, plots, maps))
        numbers = json.dumps(as_numbers(outcome), ensure_ascii=False, indent=2, allow_nan=False)
        write_atomic(folder / "comparison.json", numbers + "\n")
        write_journal(outcome, folder / "tensorboard", text, plots | {name: one for name, (one, _) in maps.items()})
    return text


def length_plots(outcome: ComparisonResults) -> Figures:
    """BLEU over lengths, by the name of the file."""
    names = [entrant.shown for entrant in outcome.entrants]
    plots = {}
    for one in outcome.sets:
        name = plain(one.about.name)
        if one.buckets:
            lines = [Line(*pair) for pair in zip(names, one.by_length, strict=True)]
            labels, counts = [each.label for each in one.buckets], [len(each.rows) for each in one.buckets]
            title = f"{one.about.name}: BLEU by source length"
            plots[f"bleu-by-length-{name}"] = curves(lines, labels, counts, title, "words of the source", "BLEU")
        if one.joined_words:
            lines = [Line(shown, each.joined) for shown, each in zip(names, one.measured, strict=True)]
            labels = [f"{words:.0f} words" for words in one.joined_words]
            title = f"{one.about.name}: 1 to {len(labels)} sentences joined; training had single ones"
            axis = "words of the source, mean"
            plots[f"bleu-joined-{name}"] = curves(lines, labels, one.joined_counts, title, axis, "BLEU")
    return plots


def map_figures(outcome: ComparisonResults) -> dict[str, tuple[Any, AttentionMap]]:
    """A heatmap of each run and sentence, and what it shows, by sentence and run."""
    return {
        f"{one.row + 1}/{run.entrant.name}": (
            heatmap(one.matrix, one.source, one.target, run.entrant.name, one.gold, one.focus),
            one,
        )
        for run in outcome.runs
        for one in run.maps
        if one.matrix is not None
    }


def html_page(outcome: ComparisonResults, made: list[Table], plots: Figures, maps: Any) -> str:
    """The tables, the plots, and the same sentences seen by each run."""
    shown = [Picture(png(figure), name.replace("-", " ")) for name, figure in plots.items()]
    parts: list[Table | Section] = [*made[: len(outcome.sets)], Section("BLEU by length", shown)]
    parts += made[len(outcome.sets) :]
    first = outcome.sets[0].about
    for row in dict.fromkeys(one.row for run in outcome.runs for one in run.maps):
        source, reference = first.pairs[row]
        pictures = [
            map_picture(name.split("/", 1)[1], png(figure), one)
            for name, (figure, one) in maps.items()
            if name.startswith(f"{row + 1}/")
        ]
        blind = [
            f"{run.entrant.name} ({one.reading})"
            for run in outcome.runs
            for one in run.maps
            if one.row == row and one.matrix is None
        ]
        notes = [f"source: {source}", f"reference: {reference}", PICTURED]
        notes += [f"Without a picture: {', '.join(blind)}."] if blind else []
        parts.append(Section(f"{first.name}, sentence {row + 1}", pictures, notes, small=True))
    about = [f"{name} {version}" for name, version in versions().items()]
    return page(f"{len(outcome.runs)} runs compared", [", ".join(about)], parts)


def map_picture(name: str, image: bytes, one: AttentionMap) -> Picture:
    """A run's picture, with what was read off for it."""
    return Picture(
        image, f"where {name} looked: {one.reading}", f"{one.reading}; its own translation: {one.translation}"
    )


def as_numbers(outcome: ComparisonResults) -> dict[str, Any]:
    """Every figure of the tables unrounded, and how it was made."""
    runs = []
    for number, run in enumerate(outcome.runs):
        entrant = run.entrant
        trained = [None if one is None else vars(one) | {"tokens_per_second": one.speed} for one in entrant.trainings]
        about = {"name": entrant.name, "parameters": entrant.parameters, "unfinished": entrant.unfinished}
        about |= {"target_vocabulary": entrant.vocabulary, "trainings": trained, "made": run.made}
        runs.append(about | {"sets": {one.about.name: set_numbers(one, number) for one in outcome.sets}})
    return {
        "made_with": versions(),
        "longest_training_source": outcome.longest,
        "bootstrap": {"samples": outcome.samples, "seed": SEED, "first": outcome.entrants[0].name},
        "sets": {one.about.name: set_about(one) for one in outcome.sets},
        "runs": runs,
        "seeds": [
            {
                "runs": [outcome.entrants[number].name for number in group.numbers],
                "seeds": group.seeds,
                "sets": {
                    name: {metric: one._asdict() for metric, one in found.items()}
                    for name, found in group.spreads.items()
                },
            }
            for group in outcome.groups
        ],
    }


def set_about(one: SetResults) -> dict[str, Any]:
    """A set and how it was scored."""
    lengths = [{"words": each.label, "mean": each.mean_length, "sentences": len(each.rows)} for each in one.buckets]
    joined = [
        {"sentences_joined": count, "mean_words": words, "inputs": inputs}
        for count, (words, inputs) in enumerate(zip(one.joined_words, one.joined_counts, strict=True), 1)
    ]
    files = {"source": str(one.about.source), "reference": str(one.about.reference)}
    about = {"files": files, "fingerprint": fingerprint(one.about.pairs), "sentences": len(one.about.pairs)}
    return about | {"signatures": one.significance.signatures, "lengths": lengths, "joined": joined}


def set_numbers(one: SetResults, number: int) -> dict[str, Any]:
    """One run on one set."""
    measured = one.measured[number]
    likely = measured.perplexity
    return {
        "bleu": one.interval("bleu", number)._asdict(),
        "chrf": one.interval("chrf", number)._asdict(),
        "negative_log_likelihood": likely.total,
        "target_pieces": likely.pieces,
        "target_words": likely.words,
        "pairs_too_long": likely.left_out,
        "perplexity_per_piece": likely.per_piece,
        "perplexity_per_word": likely.per_word,
        "alignment": None if measured.alignment is None else measured.alignment._asdict(),
        "bleu_by_length": one.by_length[number],
        "bleu_joined": measured.joined,
        "joined_translated_in_parts": measured.cut,
        "decode_seconds": measured.result.get("seconds"),
        "decoded_on": measured.result.get("machine"),
        "sentences_per_second": measured.speed,
    }


def write_journal(outcome: ComparisonResults, folder: Path, text: str, figures: Figures) -> None:
    """Tables and pictures in one TensorBoard run, the scalars of each run in its own, so that each is a curve."""
    for old in folder.glob("**/events.out.tfevents.*"):  # of the last comparison written here
        old.unlink()
    journal = TensorBoardLogger(folder)
    journal.text("comparison", text, 0)
    for name, figure in figures.items():
        journal.picture(name, figure, 0)
    journal.close()
    for number, entrant in enumerate(outcome.entrants):
        journal = TensorBoardLogger(folder / plain(entrant.name))
        for one in outcome.sets:
            numbers = set_numbers(one, number)
            scores = {"bleu": numbers["bleu"]["score"], "chrf": numbers["chrf"]["score"]}
            scores |= {key: numbers[key] for key in ("perplexity_per_piece", "perplexity_per_word")}
            scores |= {"aer": measured.aer} if (measured := one.measured[number].alignment) else {}
            journal.scalars({f"{one.about.name}/{key}": value for key, value in scores.items()}, 0)
            for bucket, value in zip(one.buckets, one.by_length[number], strict=True):
                journal.scalars({f"{one.about.name}/bleu_by_source_words": value}, round(bucket.mean_length))
            for words, value in zip(one.joined_words, one.measured[number].joined, strict=False):
                journal.scalars({f"{one.about.name}/bleu_joined_by_source_words": value}, round(words))
        journal.close()


def plain(name: str) -> str:
    """A name for a file."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "_", name)

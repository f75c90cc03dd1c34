"""The results of a comparison as tables."""

from nmt.runs.comparison.measures import SetMeasures
from nmt.runs.comparison.results import ComparisonResults, SetResults
from nmt.runs.comparison.systems import NONE, System
from nmt.evaluate.metrics import find_metric
from nmt.evaluate.significance import Interval, Spread
from nmt.view.comparison_page import Table

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def comparison_tables(results: ComparisonResults) -> list[Table]:
    """The main table of each test set, then BLEU by length, BLEU of joined sentences, seeds, and provenance."""
    tables = [main_table(results, set_results) for set_results in results.sets]
    tables += [length_table(results, set_results) for set_results in results.sets if set_results.buckets]
    tables += [joined_table(results, set_results) for set_results in results.sets if set_results.joined_words]
    return [*tables, *([seed_table(results)] if results.seed_groups else []), provenance_table(results)]


def main_table(results: ComparisonResults, set_results: SetResults) -> Table:
    """Attention, scores and cost of each system on one test set."""
    columns = "run, attention, score, window, perplexity, per word".split(", ")
    intervals = set_results.significance.intervals
    for name in intervals:
        columns += [find_metric(name).label, f"p of {find_metric(name).label}"]
    columns += ["AER", "M parameters", "minutes", "tokens/s", "sentences/s"]
    rows = []
    for index, (system, measures) in enumerate(zip(results.systems, set_results.measures, strict=True)):
        row = [system.label, *system.attention_labels(), format_perplexity(results, system, measures)]
        row += [f"{measures.perplexity.per_word:.2f}"]
        for name, of_systems in intervals.items():
            row += [format_interval(of_systems[index], find_metric(name).digits), format_p(of_systems[index])]
        row += [format_number(measures.alignment and measures.alignment.aer, 3), *training_cost(system)]
        rows.append([*row, format_number(measures.speed, 1)])
    test_set = set_results.test_set
    title = f"{test_set.name}: {len(test_set.pairs):,} sentences"
    return Table(title, columns, rows, main_notes(results, set_results))


def main_notes(results: ComparisonResults, set_results: SetResults) -> list[str]:
    """How the scores of a test set were computed; how to read the columns is explained below the first set alone."""
    signatures = set_results.significance.signatures
    notes = [", ".join(f"{find_metric(name).label} {text}" for name, text in signatures.items()) + "."]
    if descriptions := alignment_descriptions(results, set_results):
        notes.append(f"AER: alignment error rate, one link a target word by argmax, forced decoding. {descriptions}.")
        if "these pairs" in descriptions:
            notes.append("An AER chosen on these pairs is the best of several on them and therefore too optimistic.")
    for metric, counts in left_out_counts(results, set_results).items():
        notes.append(f"{metric} leaves out pairs that are too long for forced decoding: {counts}.")
    return notes + (explain_columns(results) if set_results is results.sets[0] else [])


def explain_columns(results: ComparisonResults) -> list[str]:
    """How to read a main table."""
    systems = results.systems
    notes = [
        f"±: half of sacreBLEU's 95 % interval over {results.samples:,} resamples of the sentences; its center is "
        "their mean, which may differ a little from the score of the set. It does not cover the choice of seeds.",
        "Perplexity: forced decoding of the references in fp32; of a target piece (</s> counted), and of a word "
        "(punctuation apart), which can be compared between runs with different pieces.",
        "minutes, tokens/s: training, validation included, target tokens. sentences/s: the search of this set. Both "
        "depend on the other load of the machine at that time.",
    ]
    if len(systems) > 1:
        p_note = (
            f"p: paired bootstrap against {systems[0].name}, {results.samples:,} resamples; not corrected for the "
            "number of runs."
        )
        notes.insert(1, p_note)
    if any(system.config.model.kind == "transformer" and len(system.paths) == 1 for system in systems):
        notes.append(
            "score, window of a Transformer: those of self-attention, and its positions; cross-attention is "
            "scaled_dot, global."
        )
    if len(vocabularies(results)) > 1:
        notes.append("Perplexities of a piece can be compared only between runs with the same letter: one vocabulary.")
    if any(system.unfinished for system in systems):
        notes.append("(unfinished): the training has not ended; this is its best checkpoint at a validation so far.")
    return notes


def alignment_descriptions(results: ComparisonResults, set_results: SetResults) -> str:
    """The layer and decoder step that the error rate was computed with, and the names of the systems for each."""
    names: dict[str, list[str]] = {}
    for system, measures in zip(results.systems, set_results.measures, strict=True):
        if measures.alignment:
            names.setdefault(measures.alignment.description, []).append(system.name)
    return "; ".join(f"{description}: {', '.join(group)}" for description, group in names.items())


def left_out_counts(results: ComparisonResults, set_results: SetResults) -> dict[str, str]:
    """For each metric that leaves out pairs, their number for each system."""
    counts: dict[str, list[str]] = {}
    for system, measures in zip(results.systems, set_results.measures, strict=True):
        if count := measures.perplexity.left_out:
            counts.setdefault("Perplexity", []).append(f"{system.name} {count}")
        if measures.alignment and (count := measures.alignment.left_out):
            counts.setdefault("AER", []).append(f"{system.name} {count}")
    return {metric: ", ".join(texts) for metric, texts in counts.items()}


def training_cost(system: System) -> list[str]:
    """Millions of parameters, minutes, tokens a second."""
    training = system.training
    minutes = NONE if training is None else f"{training.seconds / 60:.1f}"
    speed = NONE if training is None or training.speed is None else f"{training.speed:,.0f}"
    return [f"{system.parameters / 1e6:.2f}", minutes, speed]


def vocabularies(results: ComparisonResults) -> list[str]:
    """The distinct target vocabularies, in order of appearance."""
    return list(dict.fromkeys(system.vocabulary for system in results.systems))


def format_perplexity(results: ComparisonResults, system: System, measures: SetMeasures) -> str:
    """Perplexity of a piece, with a letter for the vocabulary where there are several."""
    distinct = vocabularies(results)
    letter = f" {LETTERS[distinct.index(system.vocabulary) % len(LETTERS)]}" if len(distinct) > 1 else ""
    return f"{measures.perplexity.per_piece:.3f}{letter}"


def format_interval(interval: Interval, digits: int) -> str:
    """A score with half of its interval."""
    return f"{interval.score:.{digits}f} ± {interval.half_width:.{digits}f}"


def format_p(interval: Interval) -> str:
    """p with three digits; a dash for the first system."""
    return NONE if interval.p is None else f"{interval.p:.3f}"


def format_number(value: float | None, digits: int) -> str:
    """A number with so many decimals, or a dash."""
    return NONE if value is None else f"{value:,.{digits}f}"


def length_table(results: ComparisonResults, set_results: SetResults) -> Table:
    """BLEU by source length: figure 2 of Bahdanau et al. (2015) as numbers."""
    columns = ["run", *(f"{bucket.label} (n = {len(bucket.rows)})" for bucket in set_results.buckets)]
    rows = [
        [system.label, *(f"{value:.2f}" for value in values)]
        for system, values in zip(results.systems, set_results.by_length, strict=True)
    ]
    note = "Words of the source, punctuation apart; lengths with fewer than 20 sentences are merged with the next."
    return Table(f"{set_results.test_set.name}: BLEU by source length", columns, rows, [note])


def joined_table(results: ComparisonResults, set_results: SetResults) -> Table:
    """BLEU of the same text in longer and longer inputs."""
    name = set_results.test_set.name
    columns = ["run"] + [
        f"{count} ({words:.0f} words, n = {inputs})"
        for count, (words, inputs) in enumerate(
            zip(set_results.joined_words, set_results.joined_counts, strict=True), 1
        )
    ]
    rows = [
        [system.label, *(f"{value:.2f}" for value in measures.joined_bleu)]
        for system, measures in zip(results.systems, set_results.measures, strict=True)
    ]
    longest = "" if results.longest is None else f" of at most {results.longest} words"
    notes = [
        "Columns: how many consecutive sentences are one input, the mean of its source words, the number of inputs. "
        f"Training had single sentences{longest}: longer inputs did not occur in it."
    ]
    if counts := [
        f"{system.name} {measures.split_inputs}"
        for system, measures in zip(results.systems, set_results.measures, strict=True)
        if measures.split_inputs
    ]:
        notes.append(f"Inputs longer than tokenizer.max_pieces, translated in parts: {', '.join(counts)}.")
    return Table(f"{name}: BLEU of joined sentences", columns, rows, notes)


def seed_table(results: ComparisonResults) -> Table:
    """Mean ± sample standard deviation (least–most) over seeds."""
    rows, columns = [], dict.fromkeys(name for group in results.seed_groups for each in group.spreads.values() for name in each)
    for group in results.seed_groups:
        for name, spreads in group.spreads.items():
            row = [group.name, ", ".join(map(str, group.seeds)), name]
            row += [format_spread(spreads.get(metric), 3 if metric == "AER" else 2) for metric in columns]
            rows.append([*row, str(len(group.indices))])
    note = "Mean ± sample standard deviation (least–most) over runs whose configurations differ in the seed alone."
    return Table("Seeds", ["runs", "seeds", "set", *columns, "n"], rows, [note])


def format_spread(spread: Spread | None, digits: int) -> str:
    """Mean ± deviation (least–most), or a dash."""
    if spread is None or spread.deviation is None:
        return NONE
    mean, deviation, least, most = (f"{value:.{digits}f}" for value in spread[:4])
    return f"{mean} ± {deviation} ({least}–{most})"


def provenance_table(results: ComparisonResults) -> Table:
    """Architecture, seed, training, checkpoint and search of each row, so that it can be reproduced."""
    columns = "run, model, layers, size, seed, trained on, updates, checkpoint, beam, batch, decoded on".split(", ")
    rows = []
    for measures in results.measures:
        system, models, decode = measures.system, measures.provenance["models"], measures.provenance["decode"]
        machines = dict.fromkeys(on_set.result.get("machine", NONE) for on_set in measures.sets.values())
        trainings = [training for training in system.trainings if training is not None]
        rows.append(
            [
                system.label,
                *system.architecture_labels(),
                ", ".join(str(model["seed"]) for model in models),
                ", ".join(dict.fromkeys(training.device for training in trainings)) or NONE,
                ", ".join(f"{training.updates:,}" for training in trainings) or NONE,
                "; ".join(model["origin"] for model in models),
                str(decode["beam"]),
                f"{decode['batch_tokens']:,}",
                "; ".join(machines),
            ]
        )
    notes = [
        "checkpoint: the updates whose weights are scored. batch: source positions × beam in one batch of the search; "
        "where several processes share it, less, so that each has some batches."
    ]
    return Table("How each row was made", columns, rows, notes)

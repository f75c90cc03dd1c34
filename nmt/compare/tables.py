"""An outcome in words and columns."""

from nmt.compare.labels import NONE, build, looks
from nmt.compare.measures import Measured
from nmt.compare.results import METRICS, ComparisonResults, SetResults
from nmt.compare.systems import System
from nmt.evaluate.significance import Interval
from nmt.evaluate.spread import Spread
from nmt.view.comparison_page import Table

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def tables(outcome: ComparisonResults) -> list[Table]:
    """One table over the runs for each set, then how they were made, BLEU by length, and seeds."""
    found = [main_table(outcome, one) for one in outcome.sets]
    found += [length_table(outcome, one) for one in outcome.sets if one.buckets]
    found += [joined_table(outcome, one) for one in outcome.sets if one.joined_words]
    return [*found, *([seed_table(outcome)] if outcome.groups else []), made_table(outcome)]


def main_table(outcome: ComparisonResults, one: SetResults) -> Table:
    """What the runs look at, how good they are, and what they cost."""
    columns = [
        "run",
        "order",
        "score",
        "window",
        "perplexity",
        "per word",
        "BLEU",
        "p of BLEU",
        "chrF",
        "p of chrF",
        "AER",
    ]
    columns += ["M parameters", "minutes", "tokens/s", "sentences/s"]
    rows = []
    for number, (entrant, measured) in enumerate(zip(outcome.entrants, one.measured, strict=True)):
        bleu, chrf = one.interval("bleu", number), one.interval("chrf", number)
        row = [entrant.shown, *looks(entrant), piece_perplexity(outcome, entrant, measured)]
        row += [f"{measured.perplexity.per_word:.2f}", score(bleu), p_value(bleu), score(chrf), p_value(chrf)]
        row += [figure(measured.alignment and measured.alignment.aer, 3), *costs(entrant), figure(measured.speed, 1)]
        rows.append(row)
    return Table(f"{one.about.name}: {len(one.about.pairs):,} sentences", columns, rows, main_notes(outcome, one))


def main_notes(outcome: ComparisonResults, one: SetResults) -> list[str]:
    """How the figures of a set were made; how to read them stands below the first set alone."""
    bleu, chrf = one.significance.signatures["bleu"], one.significance.signatures["chrf"]
    notes = [f"BLEU {bleu}, chrF {chrf}."]
    if chosen := alignment_choices(outcome, one):
        notes.append(f"AER: alignment error rate, one link a target word by argmax, forced decoding. {chosen}.")
        if "these pairs" in chosen:
            notes.append("An AER chosen on these pairs is the best of several on them: it flatters the run.")
    for what, counts in left_out(outcome, one).items():
        notes.append(f"{what} leaves out pairs that are too long to look at: {counts}.")
    return notes + (reading(outcome) if one is outcome.sets[0] else [])


def reading(outcome: ComparisonResults) -> list[str]:
    """How to read a main table."""
    first, several = outcome.entrants[0].name, len(outcome.runs) > 1
    notes = [
        f"±: half of sacreBLEU's 95 % interval over {outcome.samples:,} resamples of the sentences; it lies around "
        "their mean, which may differ a little from the score of the set. Seeds are another matter.",
        "Perplexity: forced decoding of the references in fp32; of a target piece (</s> counted), and of a word "
        "(punctuation apart), which runs with different pieces share.",
        "minutes, tokens/s: training, validation included, target tokens. sentences/s: the search of this set. Both "
        "with whatever else the machine did at that time.",
    ]
    if several:
        told = (
            f"p: paired bootstrap against {first}, {outcome.samples:,} resamples; not corrected for the number of runs."
        )
        notes.insert(1, told)
    if any(entrant.config.model.kind == "transformer" and len(entrant.paths) == 1 for entrant in outcome.entrants):
        notes.append(
            "score, window of a Transformer: how encoder and decoder look at themselves, and how they know places; the "
            "decoder looks at the source with scaled_dot, global."
        )
    if len(vocabularies(outcome)) > 1:
        notes.append("Perplexities of a piece can be compared only between runs with the same letter: one vocabulary.")
    if any(entrant.unfinished for entrant in outcome.entrants):
        notes.append("(unfinished): the training has not ended; this is the best it has had at a validation.")
    return notes


def alignment_choices(outcome: ComparisonResults, one: SetResults) -> str:
    """What was read off for the error rate, and of which runs."""
    names: dict[str, list[str]] = {}
    for entrant, measured in zip(outcome.entrants, one.measured, strict=True):
        if measured.alignment:
            names.setdefault(measured.alignment.chosen, []).append(entrant.name)
    return "; ".join(f"{chosen}: {', '.join(those)}" for chosen, those in names.items())


def left_out(outcome: ComparisonResults, one: SetResults) -> dict[str, str]:
    """How many pairs are missing from a figure, and of which runs."""
    found: dict[str, list[str]] = {}
    for entrant, measured in zip(outcome.entrants, one.measured, strict=True):
        if count := measured.perplexity.left_out:
            found.setdefault("Perplexity", []).append(f"{entrant.name} {count}")
        if measured.alignment and (count := measured.alignment.left_out):
            found.setdefault("AER", []).append(f"{entrant.name} {count}")
    return {what: ", ".join(counts) for what, counts in found.items()}


def costs(entrant: System) -> list[str]:
    """Millions of parameters, minutes, tokens a second."""
    training = entrant.training
    minutes = NONE if training is None else f"{training.seconds / 60:.1f}"
    speed = NONE if training is None or training.speed is None else f"{training.speed:,.0f}"
    return [f"{entrant.parameters / 1e6:.2f}", minutes, speed]


def vocabularies(outcome: ComparisonResults) -> list[str]:
    """The target vocabularies there are."""
    return list(dict.fromkeys(entrant.vocabulary for entrant in outcome.entrants))


def piece_perplexity(outcome: ComparisonResults, entrant: System, measured: Measured) -> str:
    """With a letter for the vocabulary where there are several."""
    known = vocabularies(outcome)
    letter = f" {LETTERS[known.index(entrant.vocabulary) % len(LETTERS)]}" if len(known) > 1 else ""
    return f"{measured.perplexity.per_piece:.3f}{letter}"


def score(interval: Interval) -> str:
    """A score with half of its interval."""
    return f"{interval.score:.2f} ± {interval.half_width:.2f}"


def p_value(interval: Interval) -> str:
    """Three digits; the first run has none."""
    return NONE if interval.p is None else f"{interval.p:.3f}"


def figure(value: float | None, digits: int) -> str:
    """A number or a dash."""
    return NONE if value is None else f"{value:,.{digits}f}"


def length_table(outcome: ComparisonResults, one: SetResults) -> Table:
    """The curve of Bahdanau et al. (2015) as numbers."""
    columns = ["run", *(f"{bucket.label} (n = {len(bucket.rows)})" for bucket in one.buckets)]
    rows = [
        [entrant.shown, *(f"{value:.2f}" for value in values)]
        for entrant, values in zip(outcome.entrants, one.by_length, strict=True)
    ]
    note = "Words of the source, punctuation apart; lengths with fewer than 20 sentences are merged with the next."
    return Table(f"{one.about.name}: BLEU by source length", columns, rows, [note])


def joined_table(outcome: ComparisonResults, one: SetResults) -> Table:
    """The same text in longer and longer inputs."""
    columns = ["run"] + [
        f"{count} ({words:.0f} words, n = {inputs})"
        for count, (words, inputs) in enumerate(zip(one.joined_words, one.joined_counts, strict=True), 1)
    ]
    rows = [
        [entrant.shown, *(f"{value:.2f}" for value in measured.joined)]
        for entrant, measured in zip(outcome.entrants, one.measured, strict=True)
    ]
    longest = "" if outcome.longest is None else f" of at most {outcome.longest} words"
    notes = [
        "Columns: how many consecutive sentences are one input, the mean of its source words, the number of inputs. "
        f"Training had single sentences{longest}: what is longer it has never seen."
    ]
    if cut := [
        f"{run.entrant.name} {run.sets[one.about.name].cut}" for run in outcome.runs if run.sets[one.about.name].cut
    ]:
        notes.append(f"Inputs longer than tokenizer.max_pieces, translated in parts: {', '.join(cut)}.")
    return Table(f"{one.about.name}: BLEU of joined sentences", columns, rows, notes)


def seed_table(outcome: ComparisonResults) -> Table:
    """Mean ± sample standard deviation (least–most) over seeds."""
    rows = []
    for group in outcome.groups:
        for name, spreads in group.spreads.items():
            row = [group.name, ", ".join(map(str, group.seeds)), name]
            for metric in METRICS:
                row.append(shown_spread(spreads.get(metric), 3 if metric == "AER" else 2))
            rows.append([*row, str(len(group.numbers))])
    note = "Mean ± sample standard deviation (least–most) over runs whose configurations differ in the seed alone."
    return Table("Seeds", ["runs", "seeds", "set", *METRICS, "n"], rows, [note])


def shown_spread(one: Spread | None, digits: int) -> str:
    """Mean ± deviation (least–most)."""
    if one is None or one.deviation is None:
        return NONE
    return f"{one.mean:.{digits}f} ± {one.deviation:.{digits}f} ({one.minimum:.{digits}f}–{one.maximum:.{digits}f})"


def made_table(outcome: ComparisonResults) -> Table:
    """What each row is, for who wants to make it again."""
    columns = [
        "run",
        "kind",
        "layers",
        "size",
        "seed",
        "trained on",
        "updates",
        "checkpoint",
        "beam",
        "batch",
        "decoded on",
    ]
    rows = []
    for run in outcome.runs:
        entrant, models, decode = run.entrant, run.made["models"], run.made["decode"]
        machines = dict.fromkeys(one.result.get("machine", NONE) for one in run.sets.values())
        trainings = [one for one in entrant.trainings if one is not None]
        rows.append(
            [
                entrant.shown,
                *build(entrant),
                ", ".join(str(model["seed"]) for model in models),
                ", ".join(dict.fromkeys(one.device for one in trainings)) or NONE,
                ", ".join(f"{one.updates:,}" for one in trainings) or NONE,
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

"""Which text is scored and which links are known, for `nmt evaluate` and `nmt compare` alike."""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from nmt import pipeline
from nmt.alignments import Gold, LayerSelector, read_gold
from nmt.config import Config
from nmt.data.lines import read_pairs
from nmt.errors import UserError
from nmt.runs import Run, gold_of


def check_scored(options: argparse.Namespace) -> None:
    """Refuse files that do not belong together, and options that would change nothing; raises UserError."""
    if bool(options.source) != bool(options.reference):
        raise UserError("--source and --reference belong together; give both or neither.")
    if options.gold and not options.source:
        raise UserError(
            "--gold FILE belongs to --source FILE and --reference FILE; sets of the corpus bring their own links."
        )
    if options.split and options.source:
        raise UserError("--split names sets of the corpus; it cannot go with --source FILE and --reference FILE.")
    valid = options.valid_source, options.valid_target, options.valid_gold
    if any(valid) and not all(valid):
        raise UserError("--valid-source, --valid-target and --valid-gold belong together; give all or none.")
    if any(valid) and options.source and not options.gold:
        raise UserError("--valid-gold FILE says how to read --source and --reference off; it needs --gold FILE.")
    if not options.gold and not any(valid):
        said = {"--reverse": options.reverse, "--tokenised": options.tokenised, "--base 1": options.base}
        for option in (name for name, given in said.items() if given):
            raise UserError(f"{option} says how links are written; it needs --gold FILE or --valid-gold FILE.")


def given_gold(options: argparse.Namespace) -> Gold | None:
    """The links of --gold; raises UserError."""
    return read(options.gold, options.source, options.reference, options)


def given_valid(options: argparse.Namespace) -> Gold | None:
    """The links of --valid-gold; raises UserError."""
    return read(options.valid_gold, options.valid_source, options.valid_target, options)


def read(gold: str | None, source: str, target: str, options: argparse.Namespace) -> Gold | None:
    """Links of files, counted as --base, --reverse and --tokenised say."""
    if not gold:
        return None
    pairs = list(read_pairs(Path(source), Path(target)))
    return read_gold(Path(gold), pairs, options.base, options.reverse, options.tokenised)


def make_layer_selector(run: Run, given: Gold | None) -> LayerSelector | None:
    """Who chooses layer and row of one run; None for a model without attention."""
    if not run.translator.model.has_attention:
        return None
    return LayerSelector(run.translator, run.config.train.picture_layer, given or validation_gold(run))


def validation_gold(run: Run) -> Gold | None:
    """The known links of the validation set that the run was trained with, wherever the command is called from."""
    hashes = trained_on(run)
    corpus = existing_corpus(run.config, hashes, run.folder)
    if corpus is None and run.config.data.kind == "phrasebook":  # drawn again in seconds
        try:
            corpus = pipeline.prepare_corpus(run.config)
        except UserError:  # the run was carried elsewhere, without its words and rules
            return None
        if {pipeline.report(corpus)["corpus_hash"]} != hashes:
            return None
    return None if corpus is None else gold_of(run, corpus, "valid")


def trained_on(run: Run) -> set[str]:
    """The hashes of the corpora that its members were trained on."""
    return {model["corpus_hash"] for model in run.made["models"]}


def existing_corpus(config: Config, hashes: set[str], run_folder: Path) -> Path | None:
    """The corpus that a run was trained on, where it still lies in its data_folder.

    It is known by the hash of its text: what it was made from may have changed or gone since.
    """
    for folder in data_folders(config, run_folder):
        for report in sorted(folder.glob("corpus-*/report.json")):
            try:
                found = json.loads(report.read_text(encoding="utf-8"))["corpus_hash"]
            except (OSError, ValueError, KeyError):
                continue
            if {found} == hashes:
                return report.parent
    return None


def own_corpus(name: str, config: Config, hashes: set[str], run_folder: Path) -> Path:
    """The corpus that a run was trained on, where it lies or made again; raises UserError where it would be another."""
    if len(hashes) > 1:
        raise UserError(f"The members of {name} were trained on different corpora; give --source and --reference.")
    if corpus := existing_corpus(config, hashes, run_folder):
        return corpus
    corpus = pipeline.prepare_corpus(config)
    if {pipeline.report(corpus)["corpus_hash"]} != hashes:
        raise UserError(
            f"The corpus that {name} was trained on is no longer in {config.data_folder} and cannot be made again; "
            "give --source and --reference."
        )
    return corpus


def data_folders(config: Config, run_folder: Path) -> Iterator[Path]:
    """Where data_folder may be: seen from here, and from where the training was begun."""
    yield Path(config.data_folder)
    runs, inside = run_folder.resolve().parent, Path(config.run_folder)
    if not inside.is_absolute() and runs.parts[-len(inside.parts) :] == inside.parts:
        yield Path(*runs.parts[: -len(inside.parts)], config.data_folder)


def set_name(source: Path) -> str:
    """What the text of a file is called; bytes of its name that are no UTF-8 read ?."""
    return source.name.removesuffix(".gz").encode(errors="replace").decode()


def sets_of_split(split: str | None, corpus: Path, name: str) -> list[str]:
    """The sets that --split means; raises UserError."""
    sets = pipeline.report(corpus)["sets"]
    if split not in (None, "test", "valid", *sets):
        possible = ", ".join(dict.fromkeys(["test", "valid", *sets]))
        raise UserError(f"--split {split} is not possible; choose one of {possible}.")
    if split in (None, "test") and not sets:
        raise UserError(f"The corpus of {name} has no test set; give --source and --reference.")
    return sets if split in (None, "test") else [split]

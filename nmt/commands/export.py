"""nmt export: what another engine translates with."""

import argparse
import logging
import os
import shutil
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from nmt.commands.output import check_can_be_written, report_output_errors
from nmt.convert.ctranslate2_folder import CTranslate2Translator
from nmt.convert.export import Export, training_licences
from nmt.convert.formats import FORMATS, LICENSE, Format, formats_with, options_of_formats
from nmt.corpus.checksums import MANIFEST, damaged_files, json_digest, read_json, write_manifest
from nmt.corpus.files import atomic_folder, refuse_links
from nmt.corpus.parallel_text import read_lines
from nmt.data.augmentation import FINAL, PLACEHOLDER, invented_spans
from nmt.data.text_filter import Encoded
from nmt.decode.translator import Query
from nmt.errors import UserError
from nmt.runs.folders import PRETRAINED, find_checkpoints
from nmt.runs.results import check_writable, stored_scores
from nmt.runs.run import Run, load
from nmt.runs.scoring import corpus_of

log = logging.getLogger("nmt")
PLAIN_LINES = 300  # that are tried for a format without the text filter
MOST_LOST = 0.05  # of them may lose a number or an address
# so that plain numbers and addresses are copied
COPIED_PLAIN = {"train.noise_plain": 0.9, "train.noise_copy": 0.6}


def run(options: argparse.Namespace) -> int:
    """Write the export, and print the path of the folder or file, or where it was uploaded to."""
    format = FORMATS[options.format]
    given = given_options(options)
    format.load().check_options(options.output, given)
    if options.output:
        check_output(Path(options.output), format)
    run = load(find_checkpoints(options.name, Path(options.runs)))
    wanted = make_export(run, options.format, options.quantization, **given)
    if format.text_filter != "used" and run.translator.tokenizers.protects:
        check_plain_copies(run, format)
    if options.output is None:
        print(wanted.publish(cached_export(run, wanted, with_scores=True)))
        return 0
    output = Path(options.output)
    if format.output == "file":
        wanted.write_file(output, provenance(run, wanted))
        print(output)
        return 0
    write(wanted, output, run)
    print(wanted.publish(output))
    return 0


def check_output(output: Path, format: Format) -> None:
    """Raise UserError where --output cannot be written, before the run is loaded."""
    if format.output == "file":
        check_can_be_written(str(output))
        return
    is_empty = output.is_dir() and not any(output.iterdir())
    if output.is_symlink() or output.exists() and not is_empty:
        raise UserError(f"--output {output} exists and is not empty; name a new folder.")
    with report_output_errors(output):
        check_writable(output.parent)


def given_options(options: argparse.Namespace) -> dict[str, str]:
    """The format's options by the fields that they set; raises UserError for those of others."""
    quantizations = FORMATS[options.format].quantizations
    if options.quantization and options.quantization not in quantizations:
        raise UserError(
            f"--format {options.format} has --quantization {', '.join(quantizations)} only."
        )
    given = {}
    for option in options_of_formats():
        value = getattr(options, option.field)
        if value is None:
            continue
        formats = formats_with(option)
        if options.format not in formats:
            raise UserError(f"{option.flag} needs --format {' or '.join(formats)}.")
        given[option.field] = value
    return given


def check_plain_copies(run: Run, format: Format) -> None:
    """Try whether the model keeps numbers and addresses where no filter replaces them.

    It translates sentences of its validation set that got invented ones, which the training text
    cannot have. Where too many are lost, there is a warning, and UserError for a format that has no
    place for the filter.
    """
    corpus = corpus_of(run)
    if corpus is None:
        log.warning(
            "%s was trained with placeholders for numbers and addresses, which this format does "
            "not make; whether it copies them as plain text cannot be tried, since the corpus of "
            "its training is gone.",
            run.name,
        )
        return
    tokenizers = run.translator.tokenizers
    lines, spans = lines_with_spans(run, corpus)
    queries = []
    for number, line in enumerate(lines, 1):
        queries.append(Query(Encoded(tokenizers.source.encode(line)), (number, 0)))
    found = run.translator.search(queries)
    lost = []
    for line, hypotheses, expected in zip(lines, found, spans, strict=True):
        translation = tokenizers.target.decode(hypotheses[0].ids)
        if not all(span in translation for span in expected):
            lost.append((line, translation))
    kept = (
        f"{len(lines) - len(lost)} of {len(lines)} lines keep their numbers and addresses where "
        "these are plain text"
    )
    if len(lost) <= MOST_LOST * len(lines):
        log.info("%s.", kept)
        return
    line, translation = lost[0]
    noise = run.config.train
    better = " ".join(f"{key}={value}" for key, value in COPIED_PLAIN.items())
    text = (
        f"Without the text filter {kept}; '{line}' becomes '{translation}'. More is learnt in "
        f"longer training with {better} (here {noise.noise_plain:g} and {noise.noise_copy:g})."
    )
    if format.text_filter == "no place":
        raise UserError(f"{text} Or train with tokenizer.protect=false.")
    log.warning("%s The folder has the filter, text_filter.py.", text)


def lines_with_spans(run: Run, corpus: Path) -> tuple[list[str], list[list[str]]]:
    """Sentences of the validation set with invented numbers and addresses, and these of each."""
    tokenizers = run.translator.tokenizers
    placeholders = tokenizers.source.placeholders
    sources = filter(str.strip, read_lines(corpus / f"valid.{run.config.data.source}"))
    protected = tokenizers.protect_sources(list(islice(sources, PLAIN_LINES)))
    generator = Random(1)
    lines = []
    spans = []
    for number, sentence in enumerate(protected):
        text = sentence.text
        if not PLACEHOLDER.search(text):  # it gets a placeholder before its last sign
            placeholder = placeholders[number * len(placeholders) // len(protected)]
            end = FINAL.search(text)
            stop = end.start() if end else len(text)
            text = f"{text[:stop]} {placeholder}{text[stop:]}"
        invented = invented_spans(text, generator)
        lines.append(text.translate(invented))
        spans.append(list(invented.values()))
    return lines, spans


def make_export(run: Run, format: str, quantization: str | None = None, **options: str) -> Export:
    """The export of a run, not yet written, with the options of its format by field.

    Raises UserError where it cannot be made, or lacks a library.
    """
    chosen = FORMATS[format]
    data_licences: tuple[str, ...] = ()
    if LICENSE in chosen.options:
        data_licences = training_licences(run.config, corpus_of(run))
    pretrained = run.folder / PRETRAINED
    refuse_links(pretrained, *pretrained.glob("*"))
    wanted = chosen.load()(
        run.translator,
        run.config,
        quantization or chosen.quantizations[0],
        data_licences=data_licences,
        pretrained=pretrained,
        scores=stored_scores(run.folder, run.provenance["models"]),
        fit_for=run.verdict.sentence if run.verdict else "",
        **options,
    )
    wanted.check()
    return wanted


def with_ctranslate2(run: Run, quantization: str) -> Run:
    """The same run, searched by CTranslate2.

    Its export is written the first time; if the folder of the run is read-only, each time into a
    temporary folder.
    """
    wanted = make_export(run, "ctranslate2", quantization)
    with TemporaryDirectory() as temporary:
        if os.access(run.folder, os.W_OK) or (run.folder / "export" / wanted.name).is_dir():
            folder = cached_export(run, wanted)
        else:
            folder = Path(temporary)
            wanted.write(folder, provenance(run, wanted))
        return replace(run, translator=CTranslate2Translator.open(run.translator, folder))


def cached_export(run: Run, wanted: Export, with_scores: bool = False) -> Path:
    """The folder of an export below the run's, written if it does not exist.

    `with_scores`: it is written again where its README has other scores than the run has now.
    """
    folder = run.folder / "export" / wanted.name
    refuse_links(folder.parent, folder)
    if not folder.is_dir():
        write(wanted, folder, run)
    elif damaged := damaged_files(folder):
        raise UserError(
            f"{folder / damaged[0]} is damaged; delete {folder}, and the export is written again."
        )
    elif with_scores and read_json(folder / MANIFEST).get("scores") != json_digest(
        [wanted.scores, wanted.fit_for]
    ):
        log.info("The run has other scores than %s.", folder)
        shutil.rmtree(folder)
        write(wanted, folder, run)
    return folder


def write(wanted: Export, folder: Path, run: Run) -> None:
    """Write an export and its checksums; raises UserError."""
    with atomic_folder(folder) as temporary:
        wanted.write(temporary, provenance(run, wanted))
        write_manifest(temporary, scores=json_digest([wanted.scores, wanted.fit_for]))
    log.info("Exported to %s.", folder)


def provenance(run: Run, wanted: Export) -> dict[str, Any]:
    """What an export was made from: run, configuration, versions, and scores by test set.

    The scores are those of the very weights that are exported.
    """
    model = run.provenance["models"][0]
    return {
        "made_with": run.made_with | wanted.versions,
        "config_hash": json_digest(model["config"]),
        "decode": asdict(run.config.decode),
        "scores": wanted.scores,
        "fit_for": wanted.fit_for,
        "run": model,
    }

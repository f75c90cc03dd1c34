"""nmt export: what another engine translates with."""

import argparse
import hashlib
import json
import logging
import shutil
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from nmt.convert.argos import SUFFIX, ArgosExport
from nmt.convert.ctranslate2_folder import CTranslate2Export, CTranslate2Translator
from nmt.convert.export import LICENCE, Export, training_licences
from nmt.convert.html_page import HtmlExport, write_page
from nmt.convert.hugging_face import HuggingFaceExport, check_push, push
from nmt.convert.onnx_folder import OnnxExport
from nmt.data.augmentation import FINAL, MARK, invented_spans
from nmt.data.checksums import MANIFEST, damaged_files, read_json, write_manifest
from nmt.data.files import atomic_folder, refuse_links
from nmt.data.parallel_text import read_lines
from nmt.errors import UserError
from nmt.runs.folders import PRETRAINED, existing_corpus, find_checkpoints
from nmt.runs.results import stored_scores
from nmt.runs.run import Run, load
from nmt.runs.scoring import corpus_hashes

log = logging.getLogger("nmt")
PLAIN_LINES, MOST_LOST = (
    300,
    0.05,
)  # of which a number or an address may be changed, in a format without the text filter


class Format(NamedTuple):
    kind: type[Export]
    quantizations: tuple[str, ...]  # number formats of the weights, default first
    no_filter: bool = False  # what opens it makes no placeholders


FORMATS = {
    "ctranslate2": Format(CTranslate2Export, ("float32", "int8", "float16", "bfloat16")),
    "hf": Format(HuggingFaceExport, ("float32",), no_filter=True),
    "onnx": Format(OnnxExport, ("float32", "int8")),
    "argos": Format(ArgosExport, ("int8", "float32", "float16", "bfloat16"), no_filter=True),
    "html": Format(HtmlExport, ("float16", "float32", "int8")),
}
# so that plain numbers and addresses are copied
COPIED_PLAIN = {"train.noise_plain": 0.9, "train.noise_copy": 0.6}


def run(options: argparse.Namespace) -> int:
    """Write the folder and print its path, for argos and html that of the file in it; or where it
    was uploaded to."""
    check_options(options)
    run = load(find_checkpoints(options.name, Path(options.runs)))
    wanted = make_export(run, options.format, options.quantization, options.license)
    if FORMATS[options.format].no_filter and run.translator.tokenizers.protects:
        check_plain_copies(run, options.format)
    if isinstance(wanted, HuggingFaceExport):
        wanted.repository = options.push
    elif isinstance(wanted, HtmlExport) and options.onnxruntime_web:
        wanted.archive = Path(options.onnxruntime_web)
    if options.output is None:
        folder = cached_export(run, wanted, with_scores=True)
    elif isinstance(wanted, HtmlExport):
        write_page(wanted, Path(options.output), provenance(run, wanted))
        print(options.output)
        return 0
    else:
        folder = Path(options.output)
        if (
            folder.is_symlink()
            or folder.exists()
            and not (folder.is_dir() and not any(folder.iterdir()))
        ):
            raise UserError(f"--output {folder} exists and is not empty; name a new folder.")
        write(wanted, folder, run)
    print(push(folder, options.push) if options.push else folder / wanted.content)
    return 0


def check_plain_copies(run: Run, format: str) -> None:
    """Whether the model keeps numbers and addresses as plain text, which they are without the text
    filter.

    It translates sentences of its validation set with invented ones in them, which the training
    text cannot have. Raises UserError where it does not, for a format without a filter.
    """
    corpus = existing_corpus(run.config, corpus_hashes(run), run.folder)
    if corpus is None:
        log.warning(
            "%s was trained with placeholders for numbers and addresses, which this format does "
            "not make; whether it "
            "copies them as plain text cannot be tried, since the corpus of its training is "
            "gone.",
            run.name,
        )
        return
    tokenizers = run.translator.tokenizers
    generator = Random(1)
    sources = read_lines(corpus / f"valid.{run.config.data.source}")
    texts = [
        each.text
        for each in tokenizers.protect_sources(
            list(islice(filter(str.strip, sources), PLAIN_LINES))
        )
    ]
    lines = []
    spans = []
    for number, text in enumerate(texts):
        mark = tokenizers.source.marks[number * len(tokenizers.source.marks) // len(texts)]
        end = FINAL.search(text)
        marked = (
            text
            if MARK.search(text)
            else (f"{text[: end.start()]} {mark}{end[0]}")
            if end
            else f"{text} {mark}"
        )
        spans.append(invented_spans(marked, generator))
        lines.append(marked.translate(spans[-1]))
    found = run.translator.search([tokenizers.source.encode(line) for line in lines])
    translations = [tokenizers.target.decode(best.ids) for best, *_ in found]
    lost = [
        (line, translation)
        for line, translation, each in zip(lines, translations, spans, strict=True)
        if not all(span in translation for span in each.values())
    ]
    kept = (
        f"{len(lines) - len(lost)} of {len(lines)} lines keep their numbers and addresses "
        "where "
        "these are plain text"
    )
    if len(lost) <= MOST_LOST * len(lines):
        log.info("%s.", kept)
        return
    noise = run.config.train
    better = " ".join(f"{key}={value}" for key, value in COPIED_PLAIN.items())
    text = (
        f"Without the text filter {kept}; '{lost[0][0]}' becomes '{lost[0][1]}'. More is learnt in "
        "longer training "
        f"with {better} (here {noise.noise_plain:g} and {noise.noise_copy:g})."
    )
    if format == "argos":  # which has no place for the filter
        raise UserError(f"{text} Or train with tokenizer.protect=false.")
    log.warning("%s The folder has the filter, text_filter.py.", text)


def check_options(options: argparse.Namespace) -> None:
    """Raise UserError for options that exclude each other or would change nothing."""
    format = options.format
    quantizations = FORMATS[options.format].quantizations
    if options.quantization and options.quantization not in quantizations:
        raise UserError(f"--format {format} has --quantization {', '.join(quantizations)} only.")
    for option, formats in (
        ("onnxruntime_web", "html"),
        ("push", "hf"),
        ("license", "hf or argos"),
    ):
        if getattr(options, option) is not None and format not in formats.split():
            raise UserError(f"--{option.replace('_', '-')} needs --format {formats}.")
    if options.license is not None and not LICENCE.fullmatch(options.license):
        raise UserError(
            f"--license {options.license} is no licence such as mit, apache-2.0 or cc-by-sa-4.0."
        )
    if options.push:
        check_push(options.push)
    if format == "argos" and str(options.output).endswith(SUFFIX):
        raise UserError(
            f"--output {options.output} is a folder, in which the package is written; "
            f"leave out {SUFFIX}."
        )


def make_export(
    run: Run, format: str, quantization: str | None = None, licence: str | None = None
) -> Export:
    """The export of a run, not yet written; raises UserError where it cannot be made, or lacks a
    library."""
    kind, quantizations, _ = FORMATS[format]
    of_data: tuple[str, ...] = ()
    if format in ("hf", "argos"):
        of_data = training_licences(
            run.config, existing_corpus(run.config, corpus_hashes(run), run.folder)
        )
    pretrained = run.folder / PRETRAINED
    refuse_links(pretrained, *pretrained.glob("*"))
    scores = stored_scores(run.folder, run.provenance["models"])
    wanted = kind(
        run.translator,
        run.config,
        quantization or quantizations[0],
        licence,
        of_data,
        pretrained,
        scores,
    )
    wanted.fit_for = run.verdict.sentence if run.verdict else ""
    wanted.check()
    return wanted


def with_ctranslate2(run: Run, quantization: str) -> Run:
    """The same run, searched by CTranslate2; its export is written the first time."""
    folder = cached_export(run, make_export(run, "ctranslate2", quantization))
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
    elif with_scores and read_json(folder / MANIFEST).get("scores") != digest_of(
        [wanted.scores, wanted.fit_for]
    ):
        log.info("The run has other scores than %s.", folder)
        shutil.rmtree(folder)
        write(wanted, folder, run)
    return folder


def digest_of(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def write(wanted: Export, folder: Path, run: Run) -> None:
    """Write an export and its checksums; raises UserError."""
    with atomic_folder(folder) as temporary:
        wanted.write(temporary, provenance(run, wanted))
        write_manifest(temporary, scores=digest_of([wanted.scores, wanted.fit_for]))
    log.info("Exported to %s.", folder)


def provenance(run: Run, wanted: Export) -> dict[str, Any]:
    """What an export was made from: run, configuration, versions, and the scores of these very
    weights by test set."""
    model = run.provenance["models"][0]
    return {
        "made_with": run.made_with | wanted.versions,
        "config_hash": digest_of(model["config"]),
        "decode": asdict(run.config.decode),
        "scores": wanted.scores,
        "fit_for": wanted.fit_for,
        "run": model,
    }

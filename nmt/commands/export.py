"""nmt export: what another engine translates with."""

import argparse
import hashlib
import json
import logging
import os
import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from nmt.convert.argos import SUFFIX, ArgosExport
from nmt.convert.ctranslate2_engine import CTranslate2Translator
from nmt.convert.ctranslate2_folder import CTranslate2Export
from nmt.convert.export import Export, Licences
from nmt.convert.html_page import HtmlExport, write_page
from nmt.convert.hugging_face import HuggingFaceExport, check_name, check_token, push
from nmt.convert.onnx_folder import OnnxExport
from nmt.data.checksums import damaged_files, read_json, write_manifest
from nmt.data.files import atomic_folder
from nmt.errors import UserError
from nmt.evaluate.metrics import scores_in
from nmt.runs.folders import existing_corpus, find_checkpoints
from nmt.runs.run import Run, load
from nmt.runs.test_sets import corpus_hashes

log = logging.getLogger("nmt")
FORMATS: dict[str, tuple[type[Export], tuple[str, ...]]] = {  # and the number formats of its weights, default first
    "ctranslate2": (CTranslate2Export, ("float32", "int8", "float16", "bfloat16")),
    "hf": (HuggingFaceExport, ("float32",)),
    "onnx": (OnnxExport, ("float32", "int8")),
    "argos": (ArgosExport, ("int8", "float32", "float16", "bfloat16")),
    "html": (HtmlExport, ("float16", "float32", "int8")),
}
LICENCE = re.compile(r"[A-Za-z0-9][\w.+-]{0,63}", re.ASCII)  # an identifier of SPDX, or of the Hugging Face hub


def run(options: argparse.Namespace) -> int:
    """Write the folder and print its path, for argos and html that of the file in it; or where it was uploaded to."""
    check_options(options)
    run = load(find_checkpoints(options.name, Path(options.runs)))
    wanted = make_export(run, options.format, options.quantization, options.license)
    if isinstance(wanted, HuggingFaceExport):
        wanted.repository = options.push
    if options.format in ("hf", "argos") and run.translator.tokenizers.protects:
        log.warning(
            "%s was trained with placeholders for numbers, URLs and the like, which this format does not make: they "
            "will be translated as text. Train with tokenizer.protect=false for it.", run.name
        )  # fmt: skip
    if isinstance(wanted, HtmlExport):
        wanted.archive = Path(options.onnxruntime_web) if options.onnxruntime_web else None
        if options.output is not None:
            write_page(wanted, Path(options.output), provenance(run, wanted))
            print(options.output)
            return 0
    if options.output is None:
        folder = cached_export(run, wanted)
    else:
        folder = Path(options.output)
        check_new(folder)
        write(wanted, folder, run)
    print(push(folder, options.push) if options.push else folder / wanted.content)
    return 0


def check_options(options: argparse.Namespace) -> None:
    """Raise UserError for options that exclude each other or would change nothing."""
    quantizations = FORMATS[options.format][1]
    if options.quantization and options.quantization not in quantizations:
        raise UserError(f"--format {options.format} has --quantization {', '.join(quantizations)} only.")
    if options.onnxruntime_web and options.format != "html":
        raise UserError("--onnxruntime-web goes into the page of --format html.")
    if options.license is not None and not LICENCE.fullmatch(options.license):
        raise UserError(f"--license {options.license} is no licence such as mit, apache-2.0 or cc-by-sa-4.0.")
    if options.push:
        check_name(options.push)
        if options.format != "hf":
            raise UserError("--push uploads the folder of --format hf.")
        check_token()
    if options.license and options.format not in ("hf", "argos"):
        raise UserError("--license goes into a model card or a package; it needs --format hf or argos.")
    if options.format == "argos" and str(options.output).endswith(SUFFIX):
        raise UserError(f"--output {options.output} is a folder, in which the package is written; leave out {SUFFIX}.")


def with_ctranslate2(run: Run, quantization: str) -> Run:
    """The same run, searched by CTranslate2; its export is written the first time."""
    folder = cached_export(run, make_export(run, "ctranslate2", quantization))
    return replace(run, translator=CTranslate2Translator.open(run.translator, folder))


def make_export(run: Run, format: str, quantization: str | None = None, licence: str | None = None) -> Export:
    """The export of a run, not yet written; raises UserError where it cannot be made, or lacks a library."""
    kind, quantizations = FORMATS[format]
    licences = Licences()
    if format in ("hf", "argos"):
        licences = Licences.of(run.config, existing_corpus(run.config, corpus_hashes(run), run.folder), licence)
    wanted = kind(run.translator, run.config, quantization or quantizations[0], licences)
    wanted.check()
    return wanted


def cached_export(run: Run, wanted: Export) -> Path:
    """The folder of an export below the run's, written if it does not exist."""
    folder = run.folder / "export" / wanted.name
    if folder.parent.is_symlink() or folder.is_symlink():
        raise UserError(f"{folder} is a link, or is below one; exports are only read from a run's own folder.")
    if not folder.is_dir():
        write(wanted, folder, run)
    elif damaged := damaged_files(folder):
        raise UserError(f"{folder / damaged[0]} is damaged; delete {folder}, and the export is written again.")
    return folder


def write(wanted: Export, folder: Path, run: Run) -> None:
    """Write an export and its checksums; raises UserError."""
    with atomic_folder(folder) as temporary:
        wanted.write(temporary, provenance(run, wanted))
        write_manifest(temporary)
    log.info("Exported to %s.", folder)


def check_new(folder: Path) -> None:
    """Raise UserError unless the folder of --output is new or empty."""
    try:
        taken = os.path.lexists(folder) and not (folder.is_dir() and not any(folder.iterdir()))
    except OSError as error:
        raise UserError(f"--output {folder} cannot be read: {error.strerror or error}.") from None
    if taken:
        raise UserError(f"--output {folder} exists and is not empty; name a new folder.")


def provenance(run: Run, wanted: Export) -> dict[str, Any]:
    """What an export was made from: run, configuration, versions, and the run's scores."""
    model = run.provenance["models"][0]
    text = json.dumps(model["config"], sort_keys=True)
    return {
        "made_with": run.provenance["scored_with"] | wanted.versions,
        "config_hash": hashlib.sha256(text.encode()).hexdigest(),
        "decode": asdict(run.config.decode),
        "scores": scores(run),
        "run": model,
    }


def scores(run: Run) -> dict[str, Any]:
    """The scores of these very weights with PyTorch's engine, by test set."""
    by_set = {}
    for path in sorted(run.folder.glob("evaluate/*/result.json")):
        result = read_json(path)
        source = result.get("provenance") if isinstance(result, dict) else None
        if isinstance(source, dict) and source.get("models") == json.loads(json.dumps(run.provenance["models"])):
            kept = {key: result[key] for name, *_ in scores_in(result) for key in (name, f"{name}_signature")}
            by_set[path.parent.name] = kept | {"decode": source.get("decode")}
    return by_set

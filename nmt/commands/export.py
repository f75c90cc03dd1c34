"""nmt export: a folder that another engine translates with."""

import argparse
import hashlib
import json
import logging
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from nmt.errors import UserError
from nmt.export.ctranslate2_engine import CTranslate2Translator
from nmt.export.ctranslate2_folder import CTranslate2Export
from nmt.export.html_page import HtmlExport, write_page
from nmt.export.hugging_face_folder import HuggingFaceExport
from nmt.export.onnx_folder import OnnxExport
from nmt.files import atomic_folder
from nmt.results import damaged_files, read_json, write_checksums
from nmt.runs import Run, find_checkpoints, load

log = logging.getLogger("nmt")
Export = CTranslate2Export | HuggingFaceExport | OnnxExport | HtmlExport


def run(options: argparse.Namespace) -> int:
    """Write the folder or the page and print its path."""
    check_quantization(options.format, options.quantization)
    run = load(find_checkpoints(options.name, Path(options.runs)))
    if options.format == "html":
        archive = Path(options.onnxruntime_web) if options.onnxruntime_web else None
        wanted: Export = HtmlExport(run.translator, run.config, options.quantization or "float16", archive)
        wanted.check()
    else:
        wanted = make_export(run, options.quantization or "float32", options.format)
    if options.output is None:
        print(
            cached_export(run, wanted) / wanted.file_name
            if isinstance(wanted, HtmlExport)
            else cached_export(run, wanted)
        )
    elif isinstance(wanted, HtmlExport):
        write_page(wanted, Path(options.output), provenance(run, wanted))
        print(options.output)
    else:
        folder = Path(options.output)
        check_new(folder)
        write(wanted, folder, run)
        print(folder)
    return 0


def with_ctranslate2(run: Run, quantization: str) -> Run:
    """The same run, searched by CTranslate2; its export is written the first time."""
    folder = cached_export(run, make_export(run, quantization))
    return replace(run, translator=CTranslate2Translator.open(run.translator, folder))


def check_quantization(export_format: str, quantization: str | None) -> None:
    """Raise UserError for a number format that a format of export does not have."""
    if export_format == "hf" and quantization:
        raise UserError("--quantization is not for --format hf; Hugging Face transformers load float32.")
    if export_format == "html" and quantization == "bfloat16":
        raise UserError("--format html has --quantization float32, float16 and int8, not bfloat16.")
    if export_format == "onnx" and quantization not in (None, "float32", "int8"):
        raise UserError(f"--format onnx has --quantization float32 and int8, not {quantization}.")


def make_export(run: Run, quantization: str, export_format: str = "ctranslate2") -> Export:
    """The export of a run, not yet written; raises UserError where a package is missing or cannot hold the model."""
    wanted: Export
    if export_format == "hf":
        wanted = HuggingFaceExport(run.translator, run.config)
    elif export_format == "onnx":
        wanted = OnnxExport(run.translator, run.config, quantization)
    else:
        wanted = CTranslate2Export(run.translator, run.config, quantization)
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
        write_checksums(temporary)
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
            kept = {key: result[key] for key in ("bleu", "chrf", "bleu_signature") if key in result}
            by_set[path.parent.name] = kept | {"decode": source.get("decode")}
    return by_set

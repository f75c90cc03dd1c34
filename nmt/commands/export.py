"""nmt export: a folder that another engine translates with."""

import argparse
import hashlib
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nmt.errors import UserError
from nmt.export.ctranslate2_engine import Ctranslate2
from nmt.export.ctranslate2_folder import Export
from nmt.export.ctranslate2_model import library
from nmt.runs import Run, find_all, load


def export(options: argparse.Namespace) -> int:
    """Write the folder, and say where it is."""
    run = load(find_all(options.name, Path(options.runs)))
    print(exported(run, options.quantization or "float32", options.output))
    return 0


def through_ctranslate2(run: Run, quantization: str | None) -> Run:
    """The same run, searched by CTranslate2; the export that it needs is made the first time."""
    folder = exported(run, quantization or "float32")
    run.translator = Ctranslate2(run.translator, folder)
    return run


def exported(run: Run, quantization: str, output: str | None = None) -> Path:
    """The export of a run: in `output`, which must be new or empty, or else beside the run, where it is found again."""
    wanted = Export(run.translator, run.config, quantization)
    wanted.check()
    if output is None:
        folder = run.folder / "export" / wanted.name
        if folder.is_dir():
            return folder
    else:
        folder = Path(output)
        try:
            taken = os.path.lexists(folder) and not (folder.is_dir() and not any(folder.iterdir()))
        except OSError as error:
            raise UserError(f"--output {output} cannot be read: {error.strerror or error}.") from None
        if taken:
            raise UserError(f"--output {output} is there already and not empty; name a new folder.")
    wanted.write(folder, made(run))
    return folder


def made(run: Run) -> dict[str, Any]:
    """Where an export comes from: run, configuration, versions, and what the run scored."""
    model = run.made["models"][0]
    text = json.dumps(model["config"], sort_keys=True)
    return {
        "made_with": run.made["scored_with"] | {"ctranslate2": library().__version__},
        "config_hash": hashlib.sha256(text.encode()).hexdigest(),
        "decode": asdict(run.config.decode),
        "scores": scores(run),
        "run": model,
    }


def scores(run: Run) -> dict[str, Any]:
    """What our own engine scored with these very weights, by test set."""
    found = {}
    for path in sorted(run.folder.glob("evaluate/*/result.json")):
        try:
            result = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        how = result.get("provenance") if isinstance(result, dict) else None
        if isinstance(how, dict) and how.get("models") == json.loads(json.dumps(run.made["models"])):
            kept = {key: result[key] for key in ("bleu", "chrf", "bleu_signature") if key in result}
            found[path.parent.name] = kept | {"decode": how.get("decode")}
    return found

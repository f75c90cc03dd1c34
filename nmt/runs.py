"""Trained runs: found by name, folder or checkpoint file; loaded; scored on test sets."""

import hashlib
import json
import logging
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from nmt.alignments import Gold, LayerSelector, read_gold
from nmt.config import Config, DecodeConfig, flatten
from nmt.cpu import keep_freed_memory
from nmt.data.lines import read_pairs, write_atomic, writing
from nmt.decode.parallel import possible
from nmt.decode.translator import Translator
from nmt.errors import UserError
from nmt.evaluate.scores import looks_tokenised, score
from nmt.models.ensemble import Ensemble
from nmt.models.inference import inference_copy
from nmt.results import check_writable, read_json, reuse, write_result
from nmt.train import checkpoint
from nmt.train.precision import autocast, pick_device_again, pick_precision
from nmt.view.progress import Progress
from nmt.view.tensorboard import TensorBoardLogger

log = logging.getLogger("nmt")


@dataclass
class Result:
    """The scores of one test set."""

    name: str
    bleu: float
    chrf: float
    signature: str
    aer: float | None = None  # where gold links are known
    aligned: str = ""  # by which weights: layer 1, predicts

    def line(self) -> str:
        """SET, BLEU, chrF, signature, and the alignment error rate where there is one, with tabs between."""
        rate = "" if self.aer is None else f"\tAER {self.aer:.3f} ({self.aligned})"
        return f"{self.name}\t{self.bleu:.2f}\t{self.chrf:.2f}\t{self.signature}{rate}"


@dataclass
class Run:
    """A translator from disk, and how it was made."""

    folder: Path  # where its results go
    config: Config
    made: dict[str, Any]
    translator: Translator


def run_folder(config: Config) -> Path:
    """Where a run lives; without a time in it, so that the same command finds its own work."""
    return Path(config.run_folder) / config.name


def find(run: str, root: Path = Path("runs")) -> Path:
    """The checkpoint that RUN means: a file, a folder, a name under `root`, or the word `latest`; raises UserError."""
    if run == "latest":
        found = sorted(root.glob("*/best.pt"), key=lambda path: path.stat().st_mtime)
        if not found:
            raise UserError(f"There is no trained run in {root}; train one with `nmt train`.")
        log.info("The latest run is %s.", found[-1].parent)
        return found[-1]
    for folder in (Path(run), root / run):
        if os.path.isfile(folder):  # unlike Path.is_file, says no to a sentence too long to be a name
            return folder
        if os.path.isfile(folder / "best.pt"):
            return folder / "best.pt"
        if os.path.isdir(folder) and (folder / "config.yaml").exists():
            raise UserError(f"The run {folder} has no best.pt yet; it is written at the first validation.")
    known = sorted(path.parent.name for path in root.glob("*/best.pt"))
    hint = f"trained runs in {root}: {', '.join(known)}" if known else f"there is no trained run in {root}"
    shown = run if len(run) <= 60 else f"{run[:60]} …"
    raise UserError(f"'{shown}' is no run name, folder or checkpoint file; {hint}.")


def find_all(runs: str, root: Path) -> list[Path]:
    """The checkpoints of RUN or of RUN,RUN,…"""
    return [find(run, root) for run in ([runs] if os.path.exists(runs) else runs.split(","))]


def load(
    paths: Sequence[Path], beam: int | None = None, batch_tokens: int | None = None, precision: str | None = None
) -> Run:
    """Checkpoints ready to translate, several as an ensemble.

    `beam`, `batch_tokens` and `precision` (of search) replace the first run's own. Raises UserError when an ensemble's
    members do not share their vocabularies.
    """
    payloads = [checkpoint.load(path) for path in paths]
    device = pick_device_again(payloads[0]["config"].get("device", "auto"))
    restored = [checkpoint.restore(payload, device) for payload in payloads]
    config, tokenizers, model = restored[0]
    for path, (_, other, _) in zip(paths, restored, strict=True):
        if (other.source.model, other.target.model) != (tokenizers.source.model, tokenizers.target.model):
            raise UserError(f"{path} has another vocabulary than {paths[0]}; an ensemble needs one tokenizer for all.")
    for path, (one, _, member) in zip(paths, restored, strict=True):
        if member.window_reach is not None and member.window_reach > one.model.radius:
            log.warning(
                "The window of %s has not closed yet: it sees ±%.3g positions, not ±%d (model.closing=%d batches).",
                path, member.window_reach, one.model.radius, one.model.closing,
            )  # fmt: skip
    folder = paths[0].parent
    if len(paths) > 1:
        model = Ensemble([one[2] for one in restored]).eval()
        folder = folder.parent / "+".join(path.parent.name for path in paths)
    decode = DecodeConfig(**asdict(config.decode))
    decode.beam, decode.batch_tokens = beam or decode.beam, batch_tokens or decode.batch_tokens
    keep_freed_memory()
    dtype = pick_precision(precision or config.precision, device)
    context, longest = autocast(device, dtype), config.tokenizer.max_pieces
    translator = Translator(model, tokenizers, decode, longest, device, context, inference_copy(model, dtype))
    translator.workers = possible(device)
    several = {"processes": translator.workers} if translator.workers > 1 else {}  # how batches are cut, in bf16 felt
    members = [provenance(path, payload) for path, payload in zip(paths, payloads, strict=True)]
    made = {"decode": asdict(decode), "scored_with": checkpoint.versions(), "models": members} | several
    made["computed"] = f"{str(dtype).removeprefix('torch.')} on {device.type}"
    return Run(folder, config, made, translator)


def provenance(path: Path, payload: checkpoint.Payload) -> dict[str, Any]:
    """How a checkpoint was made."""
    return {
        "checkpoint": f"{path.parent.name}/{path.name}",
        "origin": payload.get("origin") or f"update {payload['place']['step']}",
        "weights": checkpoint.digest(payload),
        "seed": payload["config"]["seed"],
        "corpus_hash": payload["corpus_hash"],
        "trained_with": payload["versions"],
        "config": payload["config"],
    }


def score_files(
    run: Run, name: str, source: Path, reference: Path, gold: Gold | None = None, judge: LayerSelector | None = None
) -> Result:
    """Translate a file, score it against its reference, and write hypotheses and result beside the checkpoint.

    With gold links and a judge the references are aligned as well; a model without attention is asked for no judge.
    """
    folder = run.folder / "evaluate" / name
    pairs = list(read_pairs(source, reference))
    references = [pair[1] for pair in pairs]
    made = run.made | {"files": fingerprint(pairs)}
    if gold is not None and judge is not None:
        made["alignment"] = judge.made(gold)
    stored = reuse(folder, made)
    if stored is None:
        if warning := looks_tokenised(references):
            log.warning("%s: %s", name, warning)
        with writing(folder):
            check_writable(folder)  # before the work, not after it
        aligned = {} if gold is None or judge is None else judge.score(gold)  # first: bad links are told at once
        began, hypotheses = time.monotonic(), []
        with Progress(len(pairs), "sentence", f"translating {name}") as bar:
            for translation in run.translator.translate(pair[0] for pair in pairs):
                hypotheses.append(translation.text)
                bar.update(1)
        seconds = time.monotonic() - began
        stored = score(hypotheses, references, run.config.data.target) | {"seconds": round(seconds, 2)}
        stored |= aligned | {"machine": machine(run.translator), "made": made}
        with writing(folder):
            write_result(folder, hypotheses, stored)
        log.info("%s: %d sentences in %.1f s, written to %s", name, len(pairs), seconds, folder)
    how = stored.get("alignment", {})
    told = f"layer {how['layer']}, {how['row']}" if how else ""
    return Result(name, stored["bleu"], stored["chrf"], stored["bleu_signature"], stored.get("aer"), told)


def score_corpus(run: Run, corpus: Path, sets: list[str]) -> list[Result]:
    """Score a run on sets of its corpus, with the alignment error rate where the corpus has gold links."""
    judge = make_layer_selector(run, corpus)
    results = []
    for name in sets:
        source, reference = (corpus / f"{name}.{side}" for side in (run.config.data.source, run.config.data.target))
        results.append(score_files(run, name, source, reference, gold_of(run, corpus, name), judge))
    return results


def make_layer_selector(run: Run, corpus: Path | None) -> LayerSelector | None:
    """Who chooses a layer and row, on the corpus's validation set if it can; None for a model without attention."""
    if not run.translator.model.has_attention:
        return None
    valid = None if corpus is None else gold_of(run, corpus, "valid")
    return LayerSelector(run.translator, run.config.train.picture_layer, valid)


def gold_of(run: Run, corpus: Path, name: str) -> Gold | None:
    """A set of a corpus with its gold links, if it has some."""
    links = corpus / f"{name}.align"
    if not links.exists():
        return None
    sides = run.config.data.source, run.config.data.target
    return read_gold(links, list(read_pairs(*(corpus / f"{name}.{side}" for side in sides))))


def machine(translator: Translator) -> str:
    """What the seconds of a translation were measured on."""
    if translator.device.type == "cuda":
        return torch.cuda.get_device_name(translator.device)
    several = f"processes: {translator.workers}" if translator.workers > 1 else f"threads: {torch.get_num_threads()}"
    return f"CPU {platform.machine()}, {several}"


def fingerprint(pairs: list[tuple[str, str]]) -> str:
    """Names the text that was scored."""
    return hashlib.sha256("\n".join(f"{source}\t{target}" for source, target in pairs).encode()).hexdigest()


def score_sets(path: Path, corpus: Path, sets: list[str], decode: DecodeConfig) -> list[Result]:
    """Score a finished run on every test set of its corpus, and close its journal with settings and scores."""
    run = load([path])
    run.translator.decode = decode
    run.made["decode"] = asdict(decode)
    results = score_corpus(run, corpus, sets)
    marker = path.parent / "evaluate" / "journal.json"
    scores = {f"test/{result.name}_bleu": result.bleu for result in results}
    scores |= {f"test/{result.name}_aer": result.aer for result in results if result.aer is not None}
    if results and read_json(marker) != scores:
        with writing(marker.parent):
            journal = TensorBoardLogger(path.parent / "tensorboard")
            journal.hyperparameters(flatten(run.config), scores)
            journal.close()
            write_atomic(marker, json.dumps(scores))
    return results

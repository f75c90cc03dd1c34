"""The second half of scripts/bench_peers.py: translating a test set with models trained for equally many updates.

nmt and CTranslate2, where it is installed, have the same weights. OpenNMT-py trains its own for as many updates of as
many tokens. Beam 5, batches of 64 sentences (nmt: of as many positions), lengths as the models end them; BLEU and the
number of tokens show whether the same work was done. An engine that fails is reported and left out.
"""

import hashlib
import shutil
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.frame import measure_in_turn, note
from benchmarks.tables import columns

from nmt.data.parallel_text import read_lines
from nmt.errors import UserError
from nmt.evaluate.metrics import Translated, score
from peers.environments import Environments
from peers.toolkits import PEERS

BEAM, SENTENCES, BATCH_TOKENS = 5, 64, 1024
COLUMNS = {  # of the table: title and figure
    "sent/s": "sentences_per_s",
    "tok/s": "tokens_per_s",
    "sent/CPU s": "sentences_per_cpu_s",
    "peak GiB, largest process": "memory_gib",
    "others' cores": "others_cores",
    "tokens": "tokens",
    "BLEU": "bleu",
}


class Engine(NamedTuple):
    """A model and what translates with it."""

    system: str
    environment: str
    engine: str  # of translate_file.py
    model: Path


def compare_translation(
    data: Path,
    overrides: list[str],
    environments: Environments,
    updates: int,
    threads: list[int],
    rounds: int,
    precisions: list[str],
) -> list[dict[str, Any]]:
    """Every engine translates the test set in turn, with each number of threads; → rows of the table."""
    own = partial(train_nmt, overrides, environments, updates, max(threads), precisions)
    others = partial(train_onmt, data, environments, updates, max(threads))
    engines = [engine for make in (own, others) for engine in engines_or_none(make)]
    rows = []
    for number in threads:
        systems = {engine.system: partial(translate, engine, data, number, environments) for engine in engines}
        for system, measured in measure_in_turn(systems, rounds).items():
            rows.append({"translating": system, "threads": number} | columns(measured, COLUMNS))
    return rows


def translate(engine: Engine, data: Path, threads: int, environments: Environments) -> dict[str, Any]:
    """The figures of one engine that translates the test set once, with BLEU."""
    output = data / f"{engine.system.replace(' ', '-')}.hypotheses"
    arguments = ["peers.translate_file", engine.engine, engine.model, data / "test", output, BEAM, SENTENCES]
    figures = environments.measure(engine.environment, arguments, threads)
    hypotheses = output.read_text(encoding="utf-8").split("\n")[:-1]
    return figures | {"bleu": score(Translated(hypotheses, [list(read_lines(data / "test.target"))]))["bleu"]}


def engines_or_none(make: Callable[[], list[Engine]]) -> list[Engine]:
    """The engines that `make` makes; none, and a note, where it fails."""
    try:
        return make()
    except UserError as error:
        note(str(error))
        return []


def train_nmt(
    overrides: list[str], environments: Environments, updates: int, threads: int, precisions: list[str]
) -> list[Engine]:
    """Train our model, and give its weights to the others."""
    name = f"decode-{updates}"
    budget = [f"train.max_steps={updates}", f"train.validate_every={updates}", "train.max_minutes=null"]
    size = ["model.hidden_size=256", "model.feed_forward_size=1024"]
    model = [
        "model=transformer",
        *size,
        "model.norm=post",
        f"train.batch_tokens={BATCH_TOKENS}",
        "train.max_epochs=null",
    ]
    schedule = [f"optim.warmup_steps={max(1, updates // 4)}", f"name={name}"]
    note(f"training our model for {updates} updates …")
    environments.run("nmt", ["nmt", "train", *overrides, *model, *budget, *schedule], threads)
    best = environments.folder / "runs" / name / "best.safetensors"
    engines = [Engine(f"nmt {precision}", "nmt", f"nmt-{precision}", best) for precision in precisions]
    for quantization in ("float32", "int8") if find_spec("ctranslate2") else ():
        folder = best.parent / f"ctranslate2-{quantization}"
        shutil.rmtree(folder, ignore_errors=True)
        arguments = ["--format", "ctranslate2", "--quantization", quantization, "--output", folder]
        environments.run("nmt", ["nmt", "export", best, *arguments], 1)
        engines.append(Engine(f"CTranslate2 {quantization}, our weights", "nmt", "ctranslate2", folder))
    return engines


def train_onmt(data: Path, environments: Environments, updates: int, threads: int) -> list[Engine]:
    """OpenNMT-py with weights of its own; a model of the same pieces and updates is used again."""
    environments.install("onmt")
    corpus = hashlib.sha256(b"".join((data / f"train.pieces.{side}").read_bytes() for side in ("source", "target")))
    name = f"onmt_decode_{corpus.hexdigest()[:8]}"
    model = data / f"{name}_step_{updates}.pt"
    if not model.exists():
        note(f"training OpenNMT-py's model for {updates} updates …")
        budget = ["-batch_size", BATCH_TOKENS, "-train_steps", updates, "-save_checkpoint_steps", updates]
        budget += ["-warmup_steps", max(1, updates // 4), "-learning_rate", 0.6, "-save_model", data / name]
        arguments = ["peers.train_toolkit", 0, 0, "onmt", *PEERS["onmt_transformer"].arguments(data), *budget]
        environments.run("onmt", arguments, threads)
    return [Engine("OpenNMT-py, own weights", "onmt", "onmt", model)]

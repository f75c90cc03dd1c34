"""The second half of scripts/bench_peers.py: translating a test set with models trained for equally many updates.

nmt, `generate` and CTranslate2 have the same weights: our Transformer with post-norm, which is what MarianMT is, is
handed to Hugging Face's `generate` and exported to CTranslate2. OpenNMT-py trains its own for as many updates of as
many tokens. Beam 5, batches of 64 sentences (ours: of as many positions), lengths as the models end them; BLEU and
tokens say whether the same work was done. A row that fails is said and left out.
"""

import argparse
import hashlib
import shutil
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench_environments import call, figures, install
from bench_machine import spread
from bench_toolkits import PEERS

from nmt.data.lines import read_lines
from nmt.errors import UserError
from nmt.evaluate.scores import score

BEAM, SENTENCES, BATCH = 5, 64, 1024
KEYS = {"sent/s": "sentences_per_s", "tok/s": "tokens_per_s", "sent/CPU s": "sentences_per_cpu_s",
        "peak GiB, largest process": "memory_gib", "others' cores": "others_cores"}  # fmt: skip
Engine = tuple[str, str, str, str]  # who, environment, engine of bench_translate.py, model


def compare_decoding(data: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Rows of the table."""
    references = list(read_lines(data / "test.target"))
    engines = [engine for make in (ours, onmt) for engine in attempt(make, data, options)]
    made: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for threads in options.threads:
        for turn in range(options.rounds):
            for who, environment, engine, model in list(engines):
                output = data / f"{who.replace(' ', '-')}.hypotheses"
                words = ["bench_translate.py", engine, model, data / "test", output, BEAM, SENTENCES]
                try:
                    one = figures(environment, words, threads, options)
                except UserError as error:
                    engines.remove((who, environment, engine, model))
                    print(f"bench-peers: {error}", file=sys.stderr)
                    continue
                one["bleu"] = score(output.read_text(encoding="utf-8").split("\n")[:-1], references)["bleu"]
                made.setdefault((who, threads), []).append(one)
                speed = f"{one['sentences_per_s']:.1f} sentences/s"
                print(f"bench-peers: {who}, {threads} threads, round {turn + 1}: {speed}", file=sys.stderr, flush=True)
    return [row(who, threads, some) for (who, threads), some in made.items()]


def row(who: str, threads: int, some: list[dict[str, Any]]) -> dict[str, Any]:
    """The rounds of one engine."""
    sizes = {"tokens": sum(one["tokens"] for one in some) // len(some), "BLEU": f"{some[0]['bleu']:.1f}"}
    return {"who": who, "threads": threads} | {title: str(spread([one[key] for one in some]))
                                               for title, key in KEYS.items()} | sizes  # fmt: skip


def attempt(
    make: Callable[[Path, argparse.Namespace], list[Engine]], data: Path, options: argparse.Namespace
) -> list[Engine]:
    """What could be made."""
    try:
        return make(data, options)
    except UserError as error:
        print(f"bench-peers: {error}", file=sys.stderr)
        return []


def ours(data: Path, options: argparse.Namespace) -> list[Engine]:
    """Train, and hand the weights to others."""
    updates = options.decode
    budget = [f"train.max_steps={updates}", f"train.validate_every={updates}", "train.max_minutes=null"]
    model = ["model=transformer", "model.norm=post", f"train.batch_tokens={BATCH}", "train.max_epochs=null"]
    name = f"decode-{updates}"
    words = [
        "-m",
        "nmt",
        "train",
        *options.overrides,
        *model,
        *budget,
        f"optim.warmup_steps={max(1, updates // 4)}",
        f"name={name}",
    ]
    print(f"bench-peers: training our model for {updates} updates …", file=sys.stderr, flush=True)
    call("nmt", words, max(options.threads), options)
    best = options.folder / "runs" / name / "best.pt"
    engines = [(f"nmt {way}", "nmt", f"nmt-{way}", str(best)) for way in options.precision]
    if not (problem := install("hf", options.folder)):
        engines.append(("transformers generate, our weights", "hf", "generate", str(best)))
        engines += attempt(exported, best, options)
    else:
        print(f"bench-peers: {problem}", file=sys.stderr)
    return engines


def exported(best: Path, options: argparse.Namespace) -> list[Engine]:
    """Through `nmt export`, where the package ctranslate2 is."""
    engines, environment = [], "nmt" if find_spec("ctranslate2") else "hf"
    for kind in ("float32", "int8"):
        folder = best.parent / f"ctranslate2-{kind}"
        shutil.rmtree(folder, ignore_errors=True)
        words = ["-m", "nmt", "export", best, "--format", "ctranslate2", "--quantization", kind, "--output", folder]
        call(environment, words, 1, options)
        engines.append((f"CTranslate2 {kind}, our weights", "hf", "ctranslate2", str(folder)))
        if max(options.threads) > 1:
            engines.append((f"CTranslate2 {kind}, a translator a thread", "hf", "ctranslate2-apart", str(folder)))
    return engines


def onmt(data: Path, options: argparse.Namespace) -> list[Engine]:
    """OpenNMT-py trains its own."""
    if problem := install("onmt", options.folder):
        raise UserError(problem)
    corpus = hashlib.sha256(b"".join((data / f"train.pieces.{side}").read_bytes() for side in ("source", "target")))
    name = f"onmt_decode_{corpus.hexdigest()[:8]}"
    updates, model = options.decode, data / f"{name}_step_{options.decode}.pt"
    budget = ["-batch_size", BATCH, "-train_steps", updates, "-save_checkpoint_steps", updates]
    budget += ["-warmup_steps", max(1, updates // 4), "-learning_rate", 0.6, "-save_model", data / name]
    words = ["bench_inside.py", 0, 0, "onmt", *PEERS["onmt_transformer"].words(data), *budget]
    if model.exists():
        print(f"bench-peers: OpenNMT-py's model is there already: {model}", file=sys.stderr, flush=True)
    else:
        print(f"bench-peers: training OpenNMT-py's model for {updates} updates …", file=sys.stderr, flush=True)
        call("onmt", words, max(options.threads), options)
    return [("OpenNMT-py, own weights", "onmt", "onmt", str(model))]

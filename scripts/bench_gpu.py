"""What a CUDA device does with these models: training, translating, attention, beside its rate of matrix products.

python scripts/bench_gpu.py [--only matrix training recurrent …] [--batch-tokens N] [--json OUT]

Random ids with the lengths of WMT sentences (25 pieces on average) and a vocabulary of 32,000 pieces, on the device
before anything is timed; every update is the trainer's own. Without CUDA: one sentence, exit code 2.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import torch
from bench_machine import ROOT, about, headline, short, spread, table
from bench_synthetic import Synthetic, configuration, forget, peak, translate, wait
from torch.profiler import ProfilerActivity, profile

from nmt.attention.kernels import scaled_dot_product
from nmt.errors import UserError
from nmt.view.progress import install_logging

BASE = ["model=transformer_big", "model.size=512", "model.heads=8", "model.feed_forward=2048", "model.dropout=0.1"]
TRANSFORMERS = {"Transformer-base": BASE, "Transformer-big": ["model=transformer_big"]}
WIDE = ["model.hidden=1024", "model.embedding=1024"]
RECURRENT = {
    "Luong, input feeding": ["model=luong_global", *WIDE],
    "Luong, without": ["model=luong_global", "model.input_feeding=false", *WIDE],
    "Bahdanau": ["model=bahdanau", *WIDE],
}
TINY = ["model.encoder_layers=1", "model.decoder_layers=1", "model.size=32", "model.heads=2", "model.feed_forward=64"]
NARROW = ["model.hidden=16", "model.embedding=16"]
NO_DEVICE = "bench-gpu: there is no CUDA device here that torch can use; `make bench` measures this CPU."
SMALLEST = 64  # positions of a batch; what cannot hold that many cannot train
Rows = list[dict[str, Any]]


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, write; returns the exit code."""
    install_logging()
    options = parse(arguments)
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        print(NO_DEVICE, file=sys.stderr)
        return 2
    result: dict[str, Any] = {"machine": about(options.device), "options": vars(options), "precision": "bf16"}
    print(headline(result["machine"]), flush=True)
    for name in options.only:
        forget(torch.device(options.device))
        try:
            result[name] = PARTS[name](options, result)
        except UserError as error:
            print(f"bench-gpu: {name} is left out: {error}", file=sys.stderr)
            continue
        rows = [[show(value) for value in row.values()] for row in result[name]]
        print(f"\n{table(list(result[name][0]), rows)}", flush=True)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(result, indent=1, ensure_ascii=False, default=str) + "\n", encoding="utf-8")
    print(f"bench-gpu: all of it is in {options.json}.", file=sys.stderr)
    return 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument(
        "--batch-tokens", type=int, default=32768, help="padded positions of a batch on its longer side"
    )
    parser.add_argument("--warm", type=int, default=10, help="updates that do not count")
    parser.add_argument("--updates", type=int, default=30, help="updates that do, three times over")
    parser.add_argument("--sentences", type=int, default=3000)
    parser.add_argument("--vocabulary", type=int, default=32000)
    parser.add_argument("--json", type=Path, default=ROOT / "runs" / "bench" / "gpu.json")
    parser.add_argument("--device", default="cuda", help=argparse.SUPPRESS)
    parser.add_argument("--tiny", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if min(options.batch_tokens, options.warm, options.updates, options.sentences) < 1:
        parser.error("--batch-tokens, --warm, --updates and --sentences must be at least 1")
    return options


def show(value: Any) -> str:
    """A cell."""
    return short(value) if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def matrix(options: argparse.Namespace, result: dict[str, Any]) -> Rows:
    """bf16 products of large square matrices of random numbers: what a share is a share of."""
    device, size = torch.device(options.device), 256 if options.tiny else 8192
    left, right = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    rates = []
    for turn in range(2 if options.tiny else 12):
        wait(device)
        began = time.perf_counter()
        for _ in range(10):
            left @ right
        wait(device)
        if turn:
            rates.append(10 * 2 * size**3 / (time.perf_counter() - began) / 1e12)
    return [{"product": f"bf16 {size}³", "TFLOP/s": spread(rates).median, "least–most": str(spread(rates))}]


def training(options: argparse.Namespace, result: dict[str, Any]) -> Rows:
    """Transformers, in bf16; on CUDA through torch.compile too."""
    known = result.get("matrix")
    rate = known[0]["TFLOP/s"] if known else matrix(options, result)[0]["TFLOP/s"]
    rows = []
    ways = {"": [], ", compiled": ["train.compile=true"]} if options.device.startswith("cuda") else {"": []}
    for (name, words), (how, way) in product(TRANSFORMERS.items(), ways.items()):
        try:
            rounds = measured([*words, *way, *(TINY if options.tiny else [])], options)
        except UserError as error:
            print(f"bench-gpu: {name}{how} is left out: {error}", file=sys.stderr)
            continue
        row = described(name + how, rounds)
        flop = spread([one["flop_per_s"] for one in rounds]).median / 1e12
        rows.append(row | {"TFLOP/s": flop, "share of the matrix rate": flop / rate})
    return rows


def recurrent(options: argparse.Namespace, result: dict[str, Any]) -> Rows:
    """Recurrent models of 1,024 units, in bf16."""
    models = RECURRENT.items()
    return [described(name, measured([*words, *(NARROW if options.tiny else [])], options)) for name, words in models]


def measured(words: list[str], options: argparse.Namespace) -> Rows:
    """Three rounds of one model; where a batch does not fit into the memory, of half the size."""
    budget = options.batch_tokens
    while True:
        config = configuration([*words, f"train.batch_tokens={budget}"], options.device, "bf16")
        trainer = None  # one that did not fit shall not be there with the next
        forget(torch.device(options.device))
        try:
            trainer = Synthetic(config, options.vocabulary, options.warm + options.updates)
            rounds = [trainer.measure(1 if turn else options.warm, options.updates) for turn in range(3)]
            return [one | {"batch_tokens": budget} for one in rounds]
        except torch.OutOfMemoryError:
            budget //= 2
            if budget < SMALLEST:
                raise UserError(f"not even batches of {SMALLEST} positions fit into the memory.") from None
            print(f"bench-gpu: it does not fit; batches of {budget} positions instead.", file=sys.stderr)


def described(name: str, rounds: Rows) -> dict[str, Any]:
    """A row of the table."""
    figures = {key: str(spread([one[key] for one in rounds])) for key in rounds[0]}
    return {
        "model": name,
        "M parameters": rounds[0]["parameters"] / 1e6,
        "target tok/s": figures["target_tokens_per_s"],
        "source + target tok/s": figures["source_and_target_tokens_per_s"],
        "batch": rounds[0]["batch_tokens"],
        "padding": figures["padding"],
        "peak GiB": rounds[-1]["peak_gib"],
    }


def decoding(options: argparse.Namespace, result: dict[str, Any]) -> Rows:
    """Transformer-base, beam 4: in large batches and one by one; with recorded columns and without."""
    rows, device = [], torch.device(options.device)
    together, alone = (40 if options.tiny else 64_000, options.sentences), (1, max(1, options.sentences // 100))
    for (size, sentences), graphs in product((together, alone), (False, True) if device.type == "cuda" else (False,)):
        search = ["decode.beam=4", "decode.max_ratio=1", f"decode.batch_tokens={4 * size}"]
        config = configuration([*BASE, *(TINY if options.tiny else []), *search], options.device, "bf16")
        config.decode.max_extra = 0
        name = f"Transformer-base, beam 4{', one by one' if size == 1 else ''}{', recorded' if graphs else ''}"
        forget(device)
        rows.append({"model": name} | translate(config, options.vocabulary, sentences, graphs))
    return rows


def attention(options: argparse.Namespace, result: dict[str, Any]) -> Rows:
    """Peak memory of causal self-attention, forward and backward, on both roads: one sequence, 16 heads of 64."""
    lengths = (16, 32) if options.tiny else (512, 1024, 2048, 4096, 8192)
    return [{"tokens": length} | {road: cost(length, weights, options.device) for road, weights in ROADS.items()}
            for length in lengths]  # fmt: skip


ROADS = {"fused MiB": False, "explicit MiB": True}


def cost(length: int, weights: bool, name: str) -> float | str:
    """MiB above the inputs."""
    device = torch.device(name)
    form = (1, 16, length, 64)
    query, key, value = (torch.randn(form, device=device, dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    forget(device)
    before = peak(device)
    try:
        context, _ = scaled_dot_product(query, key, value, causal=True, weights=weights)
        context.sum().backward()
    except torch.OutOfMemoryError:
        return "does not fit"
    wait(device)
    return 1024 * (peak(device) - before)


def kernels(options: argparse.Namespace, result: dict[str, Any]) -> Rows:
    """Where the time of a Transformer-base update goes, and by which attention."""
    words = [*BASE, *(TINY if options.tiny else []), f"train.batch_tokens={options.batch_tokens}"]
    trainer = Synthetic(configuration(words, options.device, "bf16"), options.vocabulary, 4)
    trainer.update()
    on_device = trainer.device.type == "cuda"
    activities = [ProfilerActivity.CUDA if on_device else ProfilerActivity.CPU]
    with profile(activities=activities) as profiled:
        trainer.update()
        wait(trainer.device)
    spent = {event.key: event.self_device_time_total if on_device else event.self_cpu_time_total
             for event in profiled.key_averages()}  # fmt: skip
    total = sum(spent.values())
    names = sorted(spent, key=lambda key: -spent[key])
    chosen = [*names[:12], *(name for name in names[12:] if "flash" in name or "attention" in name)]
    return [{"kernel": name[:90].replace("|", "¦"), "share": spent[name] / total} for name in chosen]


PARTS: dict[str, Callable[[argparse.Namespace, dict[str, Any]], Rows]] = {
    "matrix": matrix,
    "training": training,
    "recurrent": recurrent,
    "decoding": decoding,
    "attention": attention,
    "kernels": kernels,
}


if __name__ == "__main__":
    sys.exit(main())

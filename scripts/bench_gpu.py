"""Training, translating and attention on a CUDA device, in relation to its speed of matrix products.

python scripts/bench_gpu.py [--only matrix training recurrent …] [--batch-tokens N] [--json OUT]

The corpus is random ids with the lengths of WMT sentences (25 pieces on average) and a vocabulary of 32,000 pieces;
every update is that of `nmt train`. Without a CUDA device: one sentence, exit code 2.
"""

import argparse
import gc
import sys
import time
from typing import Any

import torch
from benchmarks.frame import make_parser, measure_parts, note, report_parts, run_benchmark
from benchmarks.machine import ROOT
from benchmarks.models import time_search
from benchmarks.tables import Figures, spread, summarize
from benchmarks.training import device_memory_gib, synchronize, time_updates, train_step_on_random_ids

from nmt.attention.kernels import scaled_dot_product
from nmt.compose import compose_all
from nmt.config import Config
from nmt.errors import UserError
from nmt.options import positive

BASE = [
    "model=transformer_big",
    "model.hidden_size=512",
    "model.num_heads=8",
    "model.feed_forward_size=2048",
    "model.dropout=0.1",
]
TRANSFORMERS = {"Transformer-base": BASE, "Transformer-big": ["model=transformer_big"]}
LARGE = ["model.hidden_size=1024", "model.embedding_size=1024"]
RECURRENT = {
    "Luong, input feeding": ["model=luong_global", *LARGE],
    "Luong, without": ["model=luong_global", "model.input_feeding=false", *LARGE],
    "Bahdanau": ["model=bahdanau", *LARGE],
}
TINY = [
    "model.encoder_layers=1",
    "model.decoder_layers=1",
    "model.hidden_size=32",
    "model.num_heads=2",
    "model.feed_forward_size=64",
]
TINY_RECURRENT = ["model.hidden_size=16", "model.embedding_size=16"]
ROUNDS = 3
SMALLEST = 64  # positions of a batch; a device that cannot hold as many cannot train the model
Rows = list[dict[str, Any]]


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, write; returns the exit code."""
    return run_benchmark(parse(arguments), measure, report_parts)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line; --device and --tiny are for the tests."""
    parser = make_parser(__doc__, ROOT / "runs" / "bench" / "gpu.json")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument(
        "--batch-tokens", type=positive, default=32768, help="padded positions of a batch on its longer side"
    )
    parser.add_argument("--warmup", type=positive, default=10, help="updates that do not count")
    parser.add_argument("--updates", type=positive, default=30, help="updates that count, in each of three rounds")
    parser.add_argument("--sentences", type=positive, default=3000)
    parser.add_argument("--vocabulary", type=positive, default=32000)
    parser.add_argument("--device", default="cuda", help=argparse.SUPPRESS)
    parser.add_argument("--tiny", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def measure(options: argparse.Namespace) -> dict[str, Rows]:
    """The rows of every part; training also as a fraction of the speed of matrix products."""
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        raise UserError("There is no CUDA device here that torch can use; `make bench` measures this CPU.")
    result = measure_parts(PARTS, options.only, options)
    if "matrix" in result:
        for row in result.get("training", []):
            row["of the matrix products"] = row["TFLOP/s"] / result["matrix"][0]["TFLOP/s"]
    return result


def matrix(options: argparse.Namespace) -> Rows:
    """bf16 products of large square matrices of random numbers."""
    device, size = torch.device(options.device), 256 if options.tiny else 8192
    left, right = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    speeds = []
    for number in range(2 if options.tiny else 12):
        synchronize(device)
        start = time.perf_counter()
        for _ in range(10):
            left @ right
        synchronize(device)
        if number:  # the first is warm-up
            speeds.append(10 * 2 * size**3 / (time.perf_counter() - start) / 1e12)
    return [{"product": f"bf16 {size}³", "TFLOP/s": spread(speeds).median, "least–most": spread(speeds)}]


def training(options: argparse.Namespace) -> Rows:
    """Transformers, in bf16; on CUDA through torch.compile as well."""
    models = dict(TRANSFORMERS)
    if options.device.startswith("cuda"):
        models |= {f"{name}, compiled": [*overrides, "train.compile=true"] for name, overrides in models.items()}
    return measure_models(models, TINY, options)


def recurrent(options: argparse.Namespace) -> Rows:
    """Recurrent models of 1,024 units, in bf16."""
    return measure_models(RECURRENT, TINY_RECURRENT, options)


def measure_models(models: dict[str, list[str]], tiny: list[str], options: argparse.Namespace) -> Rows:
    """A row for each model whose training fits into the memory."""
    rows = []
    for name, overrides in models.items():
        try:
            rows.append(training_row(name, measure_training([*overrides, *(tiny if options.tiny else [])], options)))
        except UserError as error:
            note(f"{name} is left out: {error}")
    return rows


def measure_training(overrides: list[str], options: argparse.Namespace) -> list[Figures]:
    """Three rounds of one model; where a batch does not fit into the memory, of half the size."""
    batch_tokens = options.batch_tokens
    while True:
        config = configuration([*overrides, f"train.batch_tokens={batch_tokens}"], options.device)
        step = None  # frees the model that did not fit
        free_memory(torch.device(options.device))
        try:
            step = train_step_on_random_ids(config, options.vocabulary, options.warmup + options.updates)
            return [time_updates(step, warmup, options.updates) for warmup in (options.warmup, *[1] * (ROUNDS - 1))]
        except torch.OutOfMemoryError:
            batch_tokens //= 2
            if batch_tokens < SMALLEST:
                raise UserError(f"not even batches of {SMALLEST} positions fit into the memory.") from None
            note(f"it does not fit; batches of {batch_tokens} positions instead.")


def training_row(name: str, rounds: list[Figures]) -> dict[str, Any]:
    """A row of the table."""
    summary = summarize(rounds)
    row = {
        "model": name,
        "M parameters": rounds[0]["parameters"] / 1e6,
        "target tok/s": summary["tokens_per_s"],
        "source + target tok/s": summary["both_sides_tokens_per_s"],
        "batch": rounds[0]["batch_tokens"],
        "padding": summary["padding"],
        "peak GiB": summary["memory_gib"].most,
    }
    flop = summary["tflop_per_s"].median  # counted for Transformers only
    return row | {"TFLOP/s": flop} if flop else row


def decoding(options: argparse.Namespace) -> Rows:
    """Transformer-base, beam 4: in large batches and one by one."""
    rows = []
    batched, single = (40 if options.tiny else 64_000, options.sentences), (1, max(1, options.sentences // 100))
    for positions, sentences in (batched, single):
        overrides = ["decode.beam=4", "decode.max_length_ratio=1", f"decode.batch_tokens={4 * positions}"]
        config = configuration([*BASE, *(TINY if options.tiny else []), *overrides], options.device)
        config.decode.max_length_extra = 0
        free_memory(torch.device(options.device))
        name = f"Transformer-base, beam 4{', one by one' if positions == 1 else ''}"
        rows.append({"model": name} | time_search(config, options.vocabulary, sentences))
    return rows


def attention(options: argparse.Namespace) -> Rows:
    """Peak memory of causal self-attention, forward and backward, by kernel: one sequence, 16 heads of 64."""
    lengths = (16, 32) if options.tiny else (512, 1024, 2048, 4096, 8192)
    kernels = {"fused MiB": False, "explicit MiB": True}  # only explicit ones return the weights
    return [
        {"tokens": length} | {name: attention_mib(length, weights, options.device) for name, weights in kernels.items()}
        for length in lengths
    ]


def attention_mib(length: int, weights: bool, name: str) -> float | str:
    """Peak memory of one attention, forward and backward, in MiB above its inputs."""
    device, shape = torch.device(name), (1, 16, length, 64)
    query, key, value = (torch.randn(shape, device=device, dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    free_memory(device)
    before = device_memory_gib(device)
    try:
        context, _ = scaled_dot_product(query, key, value, causal=True, weights=weights)
        context.sum().backward()
    except torch.OutOfMemoryError:
        return "does not fit"
    synchronize(device)
    return 1024 * (device_memory_gib(device) - before)


def configuration(overrides: list[str], device: str, precision: str = "bf16") -> Config:
    """A configuration of conf/ for this device."""
    return compose_all([f"device={device}", f"precision={precision}", *overrides], multirun=False)[0]


def free_memory(device: torch.device) -> None:
    """Release unused memory, and reset the device's peak."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


PARTS = {part.__name__: part for part in (matrix, training, recurrent, decoding, attention)}


if __name__ == "__main__":
    sys.exit(main())

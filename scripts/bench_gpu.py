"""Training and translating on a CUDA device, in relation to its speed of matrix products.

python scripts/bench_gpu.py [--only matrix training …] [--models big …] [--ways eager compiled]
[--json OUT]

The corpus has random ids, a vocabulary of 32,000 pieces, and as many pairs as WMT 2014 with lengths
like its own (25 pieces on average). Every update is that of `nmt train`, with collation and copies.
Each model is first trained on batches of shapes that it has not met, then several times on the same
ones. The JSON file is written after each row. Without a CUDA device: one sentence, exit code 2.
docs/guides/gpu.md says more.
"""

import argparse
import gc
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from benchmarks.frame import make_parser, measure_parts, note, report_parts, run_benchmark
from benchmarks.machine import ROOT
from benchmarks.models import time_search
from benchmarks.tables import Figures, spread, summarize
from benchmarks.training import synchronize, time_updates, train_step_on_random_ids

from nmt.commands.options import positive
from nmt.config.compose import compose_all
from nmt.config.schema import Config
from nmt.data.batches import Batch, Cursor
from nmt.errors import UserError
from nmt.training.precision import select_device
from nmt.training.train_step import TrainStep

BASE = [
    "model=transformer_big",
    "model.hidden_size=512",
    "model.num_heads=8",
    "model.feed_forward_size=2048",
    "model.dropout=0.1",
]
TRANSFORMERS = {"big": ["model=transformer_big"], "base": BASE}
LARGE = ["model.hidden_size=1024", "model.embedding_size=1024"]
RECURRENT = {
    "bahdanau": ["model=bahdanau", *LARGE],
    "luong": ["model=luong_global", *LARGE],
    "luong-plain": ["model=luong_global", "model.input_feeding=false", *LARGE],
}
WAYS = {"eager": [], "compiled": ["train.compile=true"]}
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
Rows = Iterator[dict[str, Any]]


def main(arguments: list[str] | None = None) -> int:
    return run_benchmark(parse(arguments), measure, report_parts)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line; --device and --tiny are for the tests."""
    parser = make_parser(__doc__, ROOT / "runs" / "bench" / "gpu.json")
    names = [name for name in PARTS if name != AGAIN]
    models = [*TRANSFORMERS, *RECURRENT]
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--models", nargs="+", choices=models, default=models, help="of training")
    parser.add_argument(
        "--ways", nargs="+", choices=list(WAYS), default=list(WAYS), help="of training Transformers"
    )
    parser.add_argument(
        "--batch-tokens",
        type=positive,
        default=32768,
        help="padded positions of a batch on its longer side",
    )
    parser.add_argument(
        "--updates", type=positive, default=30, help="of each pass over the same batches"
    )
    parser.add_argument(
        "--pairs", type=positive, default=4_500_000, help="of the corpus; more pairs, less padding"
    )
    parser.add_argument("--sentences", type=positive, default=3000)
    parser.add_argument("--vocabulary", type=positive, default=32000)
    parser.add_argument(
        "--seconds", type=float, default=2.0, help="of matrix products, at the start and at the end"
    )
    parser.add_argument("--device", default="cuda", help=argparse.SUPPRESS)
    parser.add_argument("--tiny", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def measure(options: argparse.Namespace) -> dict[str, list[Figures]]:
    """The rows of every part; training also as a fraction of the speed of matrix products."""
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        raise UserError(
            "There is no CUDA device here that torch can use; `make bench` measures this CPU."
        )
    select_device(options.device)  # as every command does: it chooses the kernels of attention
    again = [AGAIN] if "matrix" in options.only else []
    result = measure_parts(PARTS, [*options.only, *again], options)
    if "matrix" in result:
        speed = result["matrix"][0]["TFLOP/s"]
        for row in result.get("training", []):
            row["of the matrix products"] = row["TFLOP/s"] / speed if row["TFLOP/s"] else "–"
    return result


def matrix(options: argparse.Namespace) -> Rows:
    """bf16 products of large square matrices of random numbers, for some seconds."""
    device = torch.device(options.device)
    size = 256 if options.tiny else 8192
    left, right = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    speeds: list[float] = []
    began = time.perf_counter()
    while len(speeds) < 2 or time.perf_counter() - began < options.seconds:
        synchronize(device)
        start = time.perf_counter()
        for _ in range(10):
            left @ right
        synchronize(device)
        speeds.append(10 * 2 * size**3 / (time.perf_counter() - start) / 1e12)
    speeds = speeds[1:]  # the first is warm-up
    yield {
        "product": f"bf16 {size}³",
        "TFLOP/s": spread(speeds).median,
        "least–most": spread(speeds),
    }


def training(options: argparse.Namespace) -> Rows:
    """Every model in every way, in bf16, whose training fits into the memory."""
    for name in options.models:
        for way in options.ways if name in TRANSFORMERS else ["eager"]:
            try:
                yield training_row(
                    f"{name}, {way}", *measure_training(overrides(name, way, options), options)
                )
            except UserError as error:
                note(f"{name}, {way}, is left out: {error}")


def overrides(name: str, way: str, options: argparse.Namespace) -> list[str]:
    tiny = TINY if name in TRANSFORMERS else TINY_RECURRENT
    return [*(TRANSFORMERS | RECURRENT)[name], *WAYS[way], *(tiny if options.tiny else [])]


def measure_training(
    words: list[str], options: argparse.Namespace
) -> tuple[Figures, list[Figures]]:
    """The first pass and ROUNDS more over the same batches; where one does not fit, over batches of
    half the size."""
    batch_tokens = options.batch_tokens
    while True:
        step = None  # frees the model that did not fit
        free_memory(torch.device(options.device))
        try:
            step = new_step(words, batch_tokens, options)
            first = time_updates(step, 0, options.updates)
            return first, [time_updates(repeat(step), 0, options.updates) for _ in range(ROUNDS)]
        except torch.OutOfMemoryError:
            batch_tokens //= 2
            if batch_tokens < SMALLEST:
                raise UserError(
                    f"not even batches of {SMALLEST} positions fit into the memory."
                ) from None
            note(f"it does not fit; batches of {batch_tokens} positions instead.")


def configuration(overrides: list[str], device: str) -> Config:
    return compose_all([f"device={device}", "precision=bf16", *overrides])[0]


def free_memory(device: torch.device) -> None:
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def repeat(step: TrainStep) -> TrainStep:
    """The same updates, to be made again over the same batches."""
    step.settle()
    step.state.epoch = step.state.shard = step.state.position = 0
    step.stream = step.batches.stream(Cursor(0, 0, 0), pinned=step.device.type == "cuda")
    return step


def new_step(words: list[str], batch_tokens: int, options: argparse.Namespace) -> TrainStep:
    """Updates of a new model; those that do not fit raise torch.OutOfMemoryError."""
    config = configuration([*words, f"train.batch_tokens={batch_tokens}"], options.device)
    step = train_step_on_random_ids(config, options.vocabulary, options.pairs)
    step.batches.plan(0, 0)  # of the whole corpus: no part of collating a batch

    def none_in_halves(batches: list[Batch], divisor: float) -> list[torch.Tensor]:
        return [step.backward(number, batch, divisor) for number, batch in enumerate(batches)]

    step.add_gradients = none_in_halves  # type: ignore[method-assign]
    return step


def training_row(name: str, first: Figures, rounds: list[Figures]) -> dict[str, Any]:
    summary = summarize(rounds)
    flop = summary["tflop_per_s"].median
    return {
        "model": name,
        "M parameters": first["parameters"] / 1e6,
        "first pass, target tok/s": first["tokens_per_s"],
        "target tok/s": summary["tokens_per_s"],
        "source + target tok/s": summary["both_sides_tokens_per_s"],
        "batch": first["batch_tokens"],
        "padding": summary["padding"].median,
        "collation, ms a batch": first["collation_ms"],
        "peak GiB": summary["memory_gib"].most,
        "TFLOP/s": flop or "",  # counted for Transformers only
    }


def decoding(options: argparse.Namespace) -> Rows:
    """Transformer-base, beam 4: in large batches and one by one."""
    batched = (40 if options.tiny else 64_000, options.sentences)
    single = (1, max(1, options.sentences // 100))
    for positions, sentences in (batched, single):
        words = [
            "decode.beam=4",
            "decode.max_length_ratio=1",
            f"decode.batch_tokens={4 * positions}",
        ]
        config = configuration([*BASE, *(TINY if options.tiny else []), *words], options.device)
        config.decode.max_length_extra = 0
        free_memory(torch.device(options.device))
        name = f"Transformer-base, beam 4{', one by one' if positions == 1 else ''}"
        yield {"model": name} | time_search(config, options.vocabulary, sentences)


AGAIN = "matrix, again"
PARTS: dict[str, Callable[[argparse.Namespace], Rows]] = {
    "matrix": matrix,
    "training": training,
    "decoding": decoding,
    AGAIN: matrix,
}


if __name__ == "__main__":
    sys.exit(main())

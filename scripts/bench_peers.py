"""Other toolkits in turn with nmt: same lines, same pieces, models of the same size, the same batch
budget.

python scripts/bench_peers.py [--peers NAME …] [--threads 1 2] [--rounds 3] [--folder FOLDER]
[--json OUT]

Each toolkit gets an environment of its own below --folder, the first time; that needs a network.
Then toolkit, nmt, toolkit, nmt … train for some updates in fresh processes
(scripts/peers/train_toolkit.py counts the toolkits' tokens): each toolkit in float32 and with
products in bf16, nmt with its defaults for data=files and without their noise. With --decode, nmt
and CTranslate2 translate a test set with the same weights, trained for so many updates. The real
corpus is chosen as in bench.py. Tables go to stdout, everything else to stderr.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.corpora import MULTI30K, add_corpus_options
from benchmarks.frame import make_parser, measure_in_turn, note, run_benchmark
from benchmarks.machine import ROOT
from benchmarks.models import measure_in_process
from benchmarks.tables import columns, spread, table
from peers.data import prepare_data
from peers.environments import Environments
from peers.toolkits import PEERS
from peers.translation import compare_translation

from nmt.commands.options import positive
from nmt.config.schema import TrainConfig
from nmt.errors import UserError

COLUMNS = {  # of the table: title and figure
    "target tok/s": "tokens_per_s",
    "tok/CPU s": "tokens_per_cpu_s",
    "padding": "target_padding",
    "peak GiB": "memory_gib",
    "others' cores": "others_cores",
}
NO_NOISE = [
    f"train.{option.name}=0" for option in fields(TrainConfig) if option.name.startswith("noise_")
]
RATIOS = {"× tok/s": "tokens_per_s", "× tok/CPU s": "tokens_per_cpu_s"}


def main(arguments: list[str] | None = None) -> int:
    return run_benchmark(parse(arguments), measure, report)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Parse the command line; without --source, Multi30k's test set of 2016 is translated where it
    exists."""
    parser = make_parser(__doc__, ROOT / "runs" / "peers" / "peers.json")
    names = list(PEERS)
    parser.add_argument(
        "--peers",
        nargs="*",
        choices=names,
        default=names,
        metavar="NAME",
        help=f"of {', '.join(names)}",
    )
    parser.add_argument("--threads", nargs="+", type=positive, default=[1, 2])
    parser.add_argument(
        "--precision",
        nargs="+",
        choices=("auto", "fp32", "bf16"),
        default=["auto", "fp32"],
        help="of nmt",
    )
    parser.add_argument(
        "--busy", type=int, default=0, help="processes that keep a core busy meanwhile"
    )
    parser.add_argument("--rounds", type=positive, default=3)
    parser.add_argument("--warmup", type=positive, default=5, help="updates that do not count")
    parser.add_argument("--updates", type=positive, default=15, help="updates that count")
    parser.add_argument(
        "--decode", type=int, default=0, metavar="UPDATES", help="train for so many, then translate"
    )
    add_corpus_options(parser)
    parser.add_argument(
        "--test",
        nargs=2,
        type=Path,
        metavar="FILE",
        help="source and reference; default: held-out lines",
    )
    parser.add_argument(
        "--folder", type=Path, default=ROOT / "runs" / "peers", help="environments and data"
    )
    options = parser.parse_args(arguments)
    flickr = [MULTI30K / f"test_2016_flickr.{side}.gz" for side in ("de", "en")]
    if options.test is None and options.source is None and flickr[0].exists():
        options.test = flickr
    return options


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Training with each toolkit that can be installed, then translating."""
    environments = Environments(options.folder.resolve())
    data, overrides = prepare_data(
        options.source, options.target, options.test, environments.folder
    )
    training = []
    for threads, name in product(options.threads, options.peers):
        try:
            environments.install(PEERS[name].environment)
        except UserError as error:
            note(f"{name} is left out: {error}")
            continue
        training += compare_training(name, data, overrides, threads, environments, options)
    if options.peers and not training:
        raise UserError("No toolkit could be measured; the first time needs a network.")
    translating = []
    if options.decode:
        sizes = options.decode, options.threads, options.rounds, options.precision
        translating = compare_translation(data, overrides, *sizes)
    return {"training": training, "decoding": translating}


def compare_training(
    name: str,
    data: Path,
    overrides: list[str],
    threads: int,
    environments: Environments,
    options: argparse.Namespace,
) -> list[dict[str, Any]]:
    """A toolkit's model and ours in turn; nothing where the toolkit fails."""
    peer = PEERS[name]
    counts = {"warmup": options.warmup, "updates": options.updates}
    systems = {}
    for precision in ("fp32", "bf16"):
        arguments = [
            *counts.values(),
            precision,
            peer.environment,
            *peer.arguments(data, precision),
        ]
        command = ["peers.train_toolkit", *arguments]
        systems[f"{name} {precision}"] = partial(
            environments.measure, peer.environment, command, threads
        )
    own = {f"nmt {precision}": [f"precision={precision}"] for precision in options.precision}
    for label, words in (own | {"nmt without noise": NO_NOISE}).items():
        words = [*overrides, *peer.nmt, *words, "device=cpu"]  # as the toolkits
        systems[label] = partial(measure_in_process, words, threads, counts)
    with busy_processes(options.busy):
        measured = measure_in_turn(systems, options.rounds)
    forms = [system for system in measured if not system.startswith("nmt")]
    if not forms:
        return []
    fastest = max(
        forms, key=lambda system: median(round["tokens_per_s"] for round in measured[system])
    )
    return [
        {"peer": name, "system": system, "fastest": fastest, "threads": threads, "rounds": rounds}
        for system, rounds in measured.items()
    ]


@contextmanager
def busy_processes(number: int) -> Iterator[None]:
    """Around measurements: so many processes that keep a core busy each."""
    processes = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number)
    ]
    try:
        yield
    finally:
        for process in processes:
            process.kill()


def report(result: dict[str, Any]) -> str:
    options = result["options"]
    rows = []
    every = {
        (entry["peer"], entry["system"], entry["threads"]): entry["rounds"]
        for entry in result["training"]
    }
    for entry in result["training"]:
        reference = every[entry["peer"], entry["fastest"], entry["threads"]]
        rounds = list(zip(entry["rounds"], reference, strict=True))
        row: dict[str, Any] = {
            "peer: system": f"{entry['peer']}: {entry['system']}",
            "threads": entry["threads"],
        }
        row["M parameters"] = f"{entry['rounds'][0]['parameters'] / 1e6:.2f}"
        row |= columns(entry["rounds"], COLUMNS)
        rows.append(
            row
            | {
                x: spread([own[key] / other[key] for own, other in rounds])
                for x, key in RATIOS.items()
            }
        )
    method = (
        f"Target tokens without padding over {options['updates']} updates after "
        f"{options['warmup']}, batches of 4,096 positions, beside {options['busy']} busy "
        f"processes; median (least–most) of {options['rounds']} rounds in turn; × is the ratio to "
        "the peer's faster form in the same round."
    )
    return "\n\n".join([method, *(table(some) for some in (rows, result["decoding"]) if some)])


if __name__ == "__main__":
    sys.exit(main())

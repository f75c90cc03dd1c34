"""How fast every model of conf/model is on this machine: training, translating, starting, memory.

python scripts/bench.py [--models NAME …] [--corpus phrasebook|real|both] [--threads N] [--rounds 3]
[--json OUT]

The real corpus is two files of parallel lines, plain or .gz: --source and --target, or BENCH_SOURCE
and BENCH_TARGET; without them Multi30k in ../shared/data, where that exists. Its last 500 lines are
held out and translated. Every measurement is a process of its own, models take turns,
each round does the same work. Training: target tokens, </s> counted, padding not, over the updates
after --warmup. Translating: beam search; each translation is as long as its source, because a model
trained for seconds has not learnt where to end. The table goes to stdout, everything else to
stderr.
"""

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.corpora import add_corpus_options, real_corpus
from benchmarks.frame import make_parser, measure_in_turn, note, run_benchmark
from benchmarks.machine import ROOT
from benchmarks.models import measure_in_process, model_names
from benchmarks.tables import columns, table

from nmt.commands.options import positive
from nmt.config.compose import compose_all
from nmt.errors import UserError
from nmt.runs.stages import build_stages

BIG = "transformer_big"  # for millions of pairs and a GPU: only when it is named
COLUMNS = {  # of the table: title and figure
    "train tok/s": "tokens_per_s",
    "tok/CPU s": "tokens_per_cpu_s",
    "padding": "padding",
    "start-up s": "start_up_s",
    "decode sent/s": "sentences_per_s",
    "decode tok/s": "translated_tokens_per_s",
    "one sentence ms": "single_sentence_ms",
    "peak GiB": "memory_gib",
    "others' cores": "others_cores",
}


def main(arguments: list[str] | None = None) -> int:
    return run_benchmark(parse(arguments), measure, report)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = make_parser(__doc__, ROOT / "runs" / "bench" / "bench.json")
    names = model_names()
    default = [name for name in names if name != BIG]
    parser.add_argument(
        "--models",
        nargs="+",
        choices=names,
        default=default,
        metavar="NAME",
        help=f"default: all but {BIG}",
    )
    parser.add_argument("--corpus", choices=("phrasebook", "real", "both"), default="both")
    add_corpus_options(parser)
    parser.add_argument("--threads", type=positive, help="default: torch's own choice")
    parser.add_argument("--precision", choices=("auto", "fp32", "bf16", "fp16"), default="auto")
    parser.add_argument("--rounds", type=positive, default=3)
    parser.add_argument("--warmup", type=positive, default=3, help="updates that do not count")
    parser.add_argument("--updates", type=positive, default=10, help="updates that count")
    parser.add_argument("--sentences", type=positive, default=100, help="translated in batches")
    parser.add_argument("--single", type=positive, default=9, help="translated one by one")
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "bench", help="corpora")
    parser.add_argument(
        "--set",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="of conf/, e.g. train.batch_tokens=4096",
    )
    return parser.parse_args(arguments)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Every model on every corpus, in turn; all corpora are built before."""
    shared = [
        f"data_folder={options.folder / 'data'}",
        f"precision={options.precision}",
        *options.set,
    ]
    counts = {name: getattr(options, name) for name in ("warmup", "updates", "sentences", "single")}
    systems = {}
    for corpus, corpus_overrides in find_corpora(options).items():
        overrides = [*corpus_overrides, *shared]
        build_stages(compose_all([*overrides, f"model={options.models[0]}"])[0])
        for model in options.models:
            words = [*overrides, f"model={model}"]
            systems[f"{corpus}: {model}"] = partial(
                measure_in_process, words, options.threads, counts
            )
    measured = measure_in_turn(systems, options.rounds)
    if not measured:
        raise UserError("No model could be measured.")
    return {"models": [{"model": name, "rounds": rounds} for name, rounds in measured.items()]}


def find_corpora(options: argparse.Namespace) -> dict[str, list[str]]:
    """The overrides of each corpus by its name; raises UserError where a corpus that was named does
    not exist."""
    corpora = {}
    if options.corpus != "real":
        corpora["phrasebook"] = ["data=phrasebook"]
    if options.corpus != "phrasebook":
        try:
            name, overrides = real_corpus(options.source, options.target, options.folder / "real")
            corpora[name] = overrides
        except UserError as error:
            if options.corpus == "real" or options.source or options.target:
                raise
            note(str(error))
    return corpora


def report(result: dict[str, Any]) -> str:
    rows = []
    for entry in result["models"]:
        size = f"{entry['rounds'][0]['parameters'] / 1e6:.1f}"
        rows.append(
            {"model": entry["model"], "M parameters": size} | columns(entry["rounds"], COLUMNS)
        )
    first = result["models"][0]["rounds"][0]
    options = result["options"]
    method = (
        f"{first['device']}, {first['precision']}, {first['threads']} threads, batches of "
        f"{first['batch_tokens']} positions, {options['updates']} updates after "
        f"{options['warmup']}; beam {first['beam']}, {first['sentences']} sentences, each "
        f"translation as long as its source; median (least–most) of {options['rounds']} rounds; "
        f"seed {first['seed']}."
    )
    return f"{method}\n\n{table(rows)}"


if __name__ == "__main__":
    sys.exit(main())

"""Other toolkits beside this one: same lines, same pieces, models of the same size, the same batch budget, in turn.

python scripts/bench_peers.py [--peers NAME …] [--threads 1 2] [--rounds 3] [--folder FOLDER] [--json OUT]

Each toolkit gets an environment of its own below --folder, the first time; that needs a network. Then peer, ours, peer,
ours … train for some updates in fresh processes; bench_inside.py counts all of them by the same lines. With --decode,
models that were trained for equally many updates translate a test set (bench_translate.py says which share weights).
The corpus is chosen as in bench.py. Table on stdout, JSON in --json, the rest on stderr.
"""

import argparse
import json
import os
import sys
from itertools import product
from pathlib import Path
from typing import Any

from bench import SHARED
from bench_data import prepare_data
from bench_decoding import compare_decoding
from bench_environments import figures, install
from bench_machine import ROOT, about, headline, spread, table
from bench_toolkits import PEERS

from nmt.errors import UserError
from nmt.view.progress import install_logging

COLUMNS = {
    "target tok/s": "tokens_per_s",
    "tok/CPU s": "tokens_per_cpu_s",
    "padding": "padding",
    "peak GiB": "memory_gib",
    "others' cores": "others_cores",
}


def main(arguments: list[str] | None = None) -> int:
    """Install, measure, print, write; returns the exit code."""
    install_logging()
    options = parse(arguments)
    try:
        unknown = [name for name in options.peers if name not in PEERS]
        if unknown:
            raise UserError(f"There is no peer '{unknown[0]}'; choose among {', '.join(PEERS)}.")
        data = prepare_data(options)
        here = [name for name in options.peers if say(install(PEERS[name].environment, options.folder))]
        if options.peers and not here:
            raise UserError("No toolkit could be installed; the first time needs a network.")
        result: dict[str, Any] = {"machine": about(), "options": vars(options)}
        result["training"] = take_turns(here, data, options)
        result["decoding"] = compare_decoding(data, options) if options.decode else []
    except UserError as error:
        print(f"bench-peers: {error}", file=sys.stderr)
        return 2
    print(page(result))
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(result, indent=1, ensure_ascii=False, default=str) + "\n", encoding="utf-8")
    print(f"bench-peers: every round is in {options.json}.", file=sys.stderr)
    return 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", nargs="*", default=list(PEERS), metavar="NAME", help=f"of {', '.join(PEERS)}")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument(
        "--precision", nargs="+", choices=("auto", "fp32", "bf16"), default=["auto", "fp32"], help="ours"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm", type=int, default=5, help="updates that do not count")
    parser.add_argument("--updates", type=int, default=15, help="updates that do")
    parser.add_argument("--decode", type=int, default=0, metavar="UPDATES", help="train for so many, then translate")
    parser.add_argument("--source", type=Path, default=os.environ.get("BENCH_SOURCE") or None)
    parser.add_argument("--target", type=Path, default=os.environ.get("BENCH_TARGET") or None)
    parser.add_argument(
        "--test", nargs=2, type=Path, metavar="FILE", help="source and reference; default: held-out lines"
    )
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "peers", help="environments and data")
    parser.add_argument("--json", type=Path, default=ROOT / "runs" / "peers" / "peers.json")
    options = parser.parse_args(arguments)
    options.corpus, options.folder = "real", options.folder.resolve()
    if min(options.rounds, options.warm, options.updates, *options.threads) < 1:
        parser.error("--rounds, --warm, --updates and --threads must be at least 1")
    flickr = [SHARED / f"test_2016_flickr.{side}.gz" for side in ("de", "en")]
    if options.test is None and options.source is None and flickr[0].exists():
        options.test = flickr
    return options


def say(problem: str) -> bool:
    """Whether there is none."""
    if problem:
        print(f"bench-peers: {problem}", file=sys.stderr)
    return not problem


def take_turns(names: list[str], data: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Peer, ours, peer, ours …; a peer that fails is said and left out."""
    done, failed = [], set()
    for threads, name, turn in product(options.threads, names, range(options.rounds)):
        peer = PEERS[name]
        members = [(name, peer.environment, peer.words(data))]
        members += [(f"nmt {way}", "nmt", ours([*peer.ours, f"precision={way}"], options)) for way in options.precision]
        for who, environment, words in [] if name in failed else members:
            try:
                command = ["bench_inside.py", options.warm, options.updates, environment, *words]
                one = figures(environment, command, threads, options)
            except UserError as error:
                failed.add(name)
                print(f"bench-peers: {error}", file=sys.stderr)
                break
            done.append({"peer": name, "who": who, "round": turn, "threads": threads} | one)
            speed = f"{one['tokens_per_s']:,.0f} tok/s, {one['tokens_per_cpu_s']:,.0f} a CPU second"
            print(
                f"bench-peers: {name}, {threads} threads, round {turn + 1}: {who} {speed}", file=sys.stderr, flush=True
            )
    return done


def ours(words: list[str], options: argparse.Namespace) -> list[str]:
    """The words of `nmt train` for a run that the meter ends."""
    budget = ["train.max_minutes=null", "train.max_epochs=null", "train.max_steps=100000"]
    return ["train", *options.overrides, *words, *budget, "train.validate_every=100000", "name=bench"]


def page(result: dict[str, Any]) -> str:
    """The machine and two tables."""
    done, options = result["training"], result["options"]
    rows = []
    for threads, peer in dict.fromkeys((one["threads"], one["peer"]) for one in done):
        mine = [one for one in done if (one["threads"], one["peer"]) == (threads, peer)]
        by_round = {one["round"]: one for one in mine if one["who"] == peer}
        for who in dict.fromkeys(one["who"] for one in mine):
            some = [one for one in mine if one["who"] == who]
            figures = [str(spread([one[name] for one in some])) for name in COLUMNS.values()]
            ratios = [[one[name] / by_round[one["round"]][name] for one in some] for name in list(COLUMNS.values())[:2]]
            size = f"{some[0]['parameters'] / 1e6:.2f}"
            rows.append([f"{peer}: {who}", str(threads), size, *figures, *(str(spread(ratio)) for ratio in ratios)])
    how = (
        f"Target tokens without padding over {options['updates']} updates after {options['warm']}, batches of 4,096 "
        f"positions; median (least–most) of {options['rounds']} rounds in turn; × is the ratio to the peer's own round."
    )
    parts = [headline(result["machine"]), how]
    if rows:
        parts.append(table(["pair: who", "threads", "M parameters", *COLUMNS, "× tok/s", "× tok/CPU s"], rows))
    if result["decoding"]:
        keys = [key for key in result["decoding"][0] if key != "who"]
        cells = [[one["who"], *(str(one[key]) for key in keys)] for one in result["decoding"]]
        parts.append(table(["translating", *keys], cells))
    return "\n\n".join(parts)


if __name__ == "__main__":
    sys.exit(main())

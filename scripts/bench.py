"""How fast every model of conf/model is on this machine: training, translating, starting, memory.

python scripts/bench.py [--models NAME …] [--corpus phrasebook|real|both] [--threads N] [--rounds 3] [--json OUT]

The phrasebook is drawn with a fixed seed. The real corpus is two files of parallel lines, plain or .gz: --source and
--target, or BENCH_SOURCE and BENCH_TARGET; without them Multi30k in ../shared/data, where that exists. Its last 500
lines are held out and translated. Every measurement is a process of its own, models take turns, each round does the
same work. Training: target tokens, </s> counted, padding not, over the updates after --warm. Translating: beam
search; each translation is held to as many pieces as its source, because a model trained for seconds knows no end.
Table on stdout, JSON in --json, the rest on stderr.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from itertools import product
from pathlib import Path
from typing import Any

from bench_machine import ROOT, Spread, about, headline, spread, table

from nmt.compose import compose_all
from nmt.config import config_folder
from nmt.data.lines import read_pairs
from nmt.errors import UserError
from nmt.pipeline import build_stages
from nmt.view.progress import install_logging

SHARED = ROOT.parent / "shared" / "data" / "multi30k"
BIG = "transformer_big"  # for millions of pairs and a GPU: only when it is named
PAIRS, TRAIN, HELD_OUT = 20_000, 29_000, 500
COLUMNS = {  # of the table: title and figure
    "train tok/s": "train_tokens_per_s",
    "tok/CPU s": "train_tokens_per_cpu_s",
    "padding": "padded_share",
    "start-up s": "start_up_s",
    "decode sent/s": "decode_sentences_per_s",
    "decode tok/s": "decode_tokens_per_s",
    "one sentence ms": "alone_ms",
    "peak GiB": "memory_gib",
    "others' cores": "others_cores",
}


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, write; returns the exit code."""
    install_logging()
    options = parse(arguments)
    try:
        unknown = [name for name in options.models if name not in known_models()]
        if unknown:
            raise UserError(f"There is no model '{unknown[0]}'; choose among {', '.join(known_models())}.")
        corpora = find_corpora(options)
        rounds = take_turns(corpora, options)
    except UserError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    result = {"machine": about(rounds[0]["device"]), "options": vars(options), "models": summary(rounds)}
    result["rounds"] = rounds
    print(page(result))
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(result, indent=1, ensure_ascii=False, default=str) + "\n", encoding="utf-8")
    print(f"bench: every round is in {options.json}.", file=sys.stderr)
    return 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = [name for name in known_models() if name != BIG]
    parser.add_argument("--models", nargs="+", default=default, metavar="NAME", help=f"default: all but {BIG}")
    parser.add_argument("--corpus", choices=("phrasebook", "real", "both"), default="both")
    parser.add_argument(
        "--source", type=Path, default=os.environ.get("BENCH_SOURCE") or None, help="of the real corpus"
    )
    parser.add_argument(
        "--target", type=Path, default=os.environ.get("BENCH_TARGET") or None, help="of the real corpus"
    )
    parser.add_argument("--threads", type=int, help="default: what torch takes")
    parser.add_argument("--precision", choices=("auto", "fp32", "bf16"), default="auto")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm", type=int, default=3, help="updates that do not count")
    parser.add_argument("--updates", type=int, default=10, help="updates that do")
    parser.add_argument("--sentences", type=int, default=100, help="translated together")
    parser.add_argument("--alone", type=int, default=9, help="translated one by one")
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "bench", help="prepared corpora")
    parser.add_argument("--json", type=Path, default=ROOT / "runs" / "bench" / "bench.json")
    parser.add_argument(
        "--set", nargs="+", default=[], metavar="KEY=VALUE", help="of conf/, e.g. train.batch_tokens=4096"
    )
    options = parser.parse_args(arguments)
    if min(options.rounds, options.warm, options.updates, options.sentences, options.alone) < 1:
        parser.error("--rounds, --warm, --updates, --sentences and --alone must be at least 1")
    return options


def known_models() -> list[str]:
    """The files of conf/model."""
    return sorted(path.stem for path in (config_folder() / "model").glob("*.yaml"))


def find_corpora(options: argparse.Namespace) -> dict[str, list[str]]:
    """The overrides of each corpus; raises UserError when none is there."""
    if bool(options.source) != bool(options.target):
        raise UserError("--source and --target belong together.")
    corpora = {}
    if options.corpus != "real":
        corpora["phrasebook"] = ["data=phrasebook", f"data.pairs={PAIRS}"]
    if options.corpus != "phrasebook":
        source, target = options.source or SHARED / "train.de.gz", options.target or SHARED / "train.en.gz"
        if source.exists() and target.exists():
            corpora[f"{source.parent.name}/{source.name}"] = held_out(source, target, options.folder / "real")
        elif options.corpus == "real" or options.source or options.target:
            raise UserError(f"The real corpus is not there: {source}, {target}; give --source FILE --target FILE.")
        else:
            print(f"bench: no real corpus: give --source FILE --target FILE ({source} is not there).", file=sys.stderr)
    return corpora


def held_out(source: Path, target: Path, folder: Path) -> list[str]:
    """Write the last lines as a validation set and those before them as a training set; → overrides."""
    pairs = list(read_pairs(source, target))
    if len(pairs) < 2 * HELD_OUT:
        raise UserError(f"{source} has {len(pairs)} lines; a benchmark needs {2 * HELD_OUT} at least.")
    folder.mkdir(parents=True, exist_ok=True)
    for name, some in {"train": pairs[:-HELD_OUT][:TRAIN], "valid": pairs[-HELD_OUT:]}.items():
        for number, side in enumerate(("source", "target")):
            lines = "".join(f"{pair[number]}\n" for pair in some)
            (folder / f"{name}.{side}").write_text(lines, encoding="utf-8")
    sides = ["data.source=source", "data.target=target", "data.test=null"]
    return ["data=files", *sides, f"data.train={folder / 'train'}", f"data.valid={folder / 'valid'}"]


def take_turns(corpora: dict[str, list[str]], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Round after round, each corpus, each model: A B C A B C …; corpora are prepared before."""
    ways = {key: [*words, *settings(options)] for key, words in corpora.items()}
    for words in ways.values():
        build_stages(compose_all([*words, f"model={options.models[0]}"], multirun=False)[0])
    turns = list(product(range(options.rounds), ways, options.models))
    done = []
    for number, (turn, corpus, model) in enumerate(turns, 1):
        figures = in_a_process([*ways[corpus], f"model={model}"], options)
        done.append({"round": turn, "corpus": corpus, "model": model} | figures)
        speed = f"{figures['train_tokens_per_s']:,.0f} tok/s, {figures['decode_sentences_per_s']:.1f} sentences/s"
        print(f"bench {number}/{len(turns)}: {corpus} {model}: {speed}", file=sys.stderr, flush=True)
    return done


def settings(options: argparse.Namespace) -> list[str]:
    """What all measurements share."""
    budget = ["train.max_minutes=null", "train.max_epochs=null", f"train.max_steps={options.warm + options.updates}"]
    return [
        f"data_folder={options.folder / 'data'}",
        f"precision={options.precision}",
        "name=bench",
        *budget,
        *options.set,
    ]


def in_a_process(overrides: list[str], options: argparse.Namespace) -> dict[str, Any]:
    """Run bench_measure.py; raises UserError with what it said last where it failed."""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    if options.threads:
        environment["OMP_NUM_THREADS"] = str(options.threads)
    counts = {key: getattr(options, key) for key in ("warm", "updates", "sentences", "alone")}
    task = json.dumps({"overrides": overrides, "began": time.time()} | counts)
    command = [sys.executable, str(ROOT / "scripts" / "bench_measure.py"), task]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, encoding="utf-8")
    if ran.returncode:
        raise UserError(f"{' '.join(overrides)}: {(ran.stderr.strip() or 'it died without a word').splitlines()[-1]}")
    return json.loads(ran.stdout.splitlines()[-1])


def summary(rounds: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each model on each corpus: median, least and most of every figure over the rounds."""
    keys = list(dict.fromkeys((one["corpus"], one["model"]) for one in rounds))
    models = []
    for corpus, model in keys:
        mine = [one for one in rounds if (one["corpus"], one["model"]) == (corpus, model)]
        figures = {name: spread([one[name] for one in mine])._asdict() for name in COLUMNS.values()}
        models.append({name: value for name, value in mine[0].items() if name != "round"} | figures)
    return models


def page(result: dict[str, Any]) -> str:
    """Machine, how it was measured, and a table."""
    rows = []
    for one in result["models"]:
        figures = [str(Spread(**one[name])) for name in COLUMNS.values()]
        rows.append([f"{one['corpus']}: {one['model']}", f"{one['parameters'] / 1e6:.1f}", *figures])
    first, options = result["models"][0], result["options"]
    how = (
        f"{first['device']}, {first['precision']}, {first['threads']} threads, batches of {first['batch_tokens']} "
        f"positions, {options['updates']} updates after {options['warm']}; beam {first['beam']}, "
        f"{first['decode_sentences']} sentences, each translation as long as its source; "
        f"median (least–most) of {options['rounds']} rounds; seed {first['seed']}."
    )
    return "\n\n".join([headline(result["machine"]), how, table(["model", "M parameters", *COLUMNS], rows)])


if __name__ == "__main__":
    sys.exit(main())

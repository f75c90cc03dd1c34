"""How cost grows: with the corpus, the length of sentences, the vocabulary, the beam.

python scripts/scale.py corpus   [--pairs 100000 1000000 10000000] [--model transformer]   ids, planning, start, memory
python scripts/scale.py text     [--lines 20000 200000 2000000]              the stages from text to ids
python scripts/scale.py billion  [--shards 100]                              that many shards of the largest corpus
python scripts/scale.py length   [--models …] [--lengths 16 64 256 1024]     an update of 1,024 target tokens
python scripts/scale.py vocabulary [--sizes 4000 8000 16000 32000 64000]
python scripts/scale.py beam     [--widths 1 2 4 8 16]
python scripts/scale.py plot                                                 pictures of all that was measured
python scripts/scale.py all                                                  everything, with pictures

Tables go to stdout as Markdown; figures as JSON, and the invented corpora, to --folder; pictures to --pictures. Every
row is measured in a process of its own (all lengths of a model and all beams in one), with one thread. Linux only.
"""

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scale_corpora import write_ids, write_text
from scale_measures import alone, drop_from_cache, settings
from scale_plots import plot

from nmt.config import config_folder
from nmt.errors import UserError
from nmt.pipeline import build_stages

Rows = list[dict[str, Any]]
Arguments = argparse.Namespace
VOCABULARY = 2000
UPDATES = 10
# A small corpus, whose training ids are then those of a large one.
SMALL = ["data=phrasebook", "data.pairs=1000", f"tokenizer.size={VOCABULARY}", "train.max_minutes=null", "device=cpu"]
FOREVER = ["train.max_steps=1000000000", "train.validate_every=1000000000", "name=scale"]


def corpus(arguments: Arguments) -> Rows:
    """Opening, planning, start and memory of training, for corpora of several sizes, beside one of 1,000 pairs."""
    words = [*SMALL, *FOREVER, f"model={arguments.model}"]
    small = train_on(arguments.folder / "home-small", words, None)
    rows = []
    for pairs in arguments.pairs:
        path = ids(arguments.folder, pairs)
        drop_from_cache(path)
        cold = alone("planning", path=str(path))
        planned = alone("planning", path=str(path))
        trained = train_on(arguments.folder / "home-large", words, path)
        row = {"pairs": pairs, "GiB on disk": path.stat().st_size / 2**30, "open, s": planned["open"]["seconds"]}
        row |= {"plan, s": planned["plan"]["seconds"], "plan, MiB": planned["plan"]["peak"]}
        row |= {"batches": planned["batches"], "batches/s": planned["batches per second"]}
        row |= {"start, CPU s": trained["first update"], "start, wall s": trained["first update, wall"]}
        row |= {"start of 1,000 pairs, CPU s": small["first update"]}
        row |= {
            "start of 1,000 pairs, wall s": small["first update, wall"],
            "cold lengths, s": cold["lengths"]["seconds"],
        }
        for kind in ("rss", "anonymous"):
            row[f"training {kind}, MiB more"] = trained["walked"][kind] - small["walked"][kind]
        rows.append(row)
    return rows


def ids(folder: Path, pairs: int) -> Path:
    """The invented corpus of this size, written if it is not there."""
    path = folder / f"ids-{pairs}.arrow"
    if not path.exists():
        began = time.monotonic()
        write_ids(path, pairs, VOCABULARY)
        print(f"{path}: written in {time.monotonic() - began:.1f} s", file=sys.stderr)
    return path


def train_on(home: Path, words: list[str], path: Path | None) -> dict[str, Any]:
    """`nmt train`, interrupted, and given again: what the second start, from last.pt and a cold cache, measured."""
    shutil.rmtree(home, ignore_errors=True)
    train = build_stages(settings(str(home), words)).ids / "train.arrow"
    if path is not None:
        train.unlink()
        os.link(path, train)
    figures = {}
    for lap in (1, 2):
        drop_from_cache(train)
        figures = alone(
            "training", home=str(home), words=words, updates=lap * UPDATES, began=time.time(), walk=(lap - 1) * 5000
        )
    return figures


def text(arguments: Arguments) -> Rows:
    """The stages of text: CPU seconds, lines (both sides of a pair are two) per CPU second, and peak memory."""
    rows = []
    for lines in arguments.lines:
        home = arguments.folder / f"text-{lines}"
        shutil.rmtree(home, ignore_errors=True)
        write_text(home / "train", lines // 2)
        write_text(home / "held_out", 500)
        places = {"train": "train", "valid": "held_out"}
        words = ["data=files", "data.source=de", "data.target=en", "data.test=null", "tokenizer.size=4000"]
        words += [f"data.{name}={home / prefix}" for name, prefix in places.items()]
        measured = alone("stages", home=str(home), words=words)
        row: dict[str, Any] = {"pairs": lines // 2}
        for stage in ("corpus", "tokenizer", "ids"):
            row[f"{stage}, lines/s"] = lines / measured[stage]["seconds"]
            row[f"{stage}, MiB"] = measured[stage]["peak"]
        rows.append(row)
        shutil.rmtree(home)
    return rows


def billion(arguments: Arguments) -> Rows:
    """As many shards of the largest corpus, opened together and planned one after the other."""
    largest = max(arguments.pairs)
    measured = alone("shards", paths=[str(ids(arguments.folder, largest))] * arguments.shards)
    plans = measured["plans"]
    row = {"shards": arguments.shards, "pairs": measured["pairs"], "open all, s": measured["open"]["seconds"]}
    row |= {"open all, MiB": measured["open"]["peak"], "plan all, s": sum(one["seconds"] for one in plans)}
    row |= {
        "dearest shard, s": max(one["seconds"] for one in plans),
        "dearest shard, MiB": max(one["peak"] for one in plans),
    }
    return [row | {"left afterwards, MiB": measured["left"]}]


def updates(model: str, lengths: list[int], vocabulary: int, repeats: int) -> Rows:
    """Updates of one model."""
    return alone("updates", model=model, lengths=lengths, vocabulary=vocabulary, repeats=repeats)


def length(arguments: Arguments) -> Rows:
    """Updates of every model, in sentences of several lengths."""
    names = arguments.models or sorted(path.stem for path in (config_folder() / "model").glob("*.yaml"))
    return [row for name in names for row in updates(name, arguments.lengths, VOCABULARY, arguments.repeats)]


def vocabulary(arguments: Arguments) -> Rows:
    """Updates with several vocabularies."""
    sizes, names = arguments.sizes, arguments.models or ["transformer", "luong_global"]
    return [row for name in names for size in sizes for row in updates(name, [32], size, arguments.repeats)]


def beam(arguments: Arguments) -> Rows:
    """Search with several beams."""
    names = arguments.models or ["transformer", "luong_global", "bahdanau"]
    return [
        row for name in names for row in alone("beams", model=name, widths=arguments.widths, repeats=arguments.repeats)
    ]


TOPICS: dict[str, Callable[[Arguments], Rows]] = {
    "corpus": corpus,
    "text": text,
    "billion": billion,
    "length": length,
    "vocabulary": vocabulary,
    "beam": beam,
}


def markdown(rows: Rows) -> str:
    """A table."""
    lines = [list(rows[0]), ["---"] * len(rows[0]), *([shown(value) for value in row.values()] for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def shown(value: object) -> str:
    """Three digits that say something."""
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else str(value)
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def main() -> int:
    """Measure what was asked for; returns the exit code."""
    if not sys.platform.startswith("linux"):
        print("scale: it reads /proc, so it runs on Linux only.", file=sys.stderr)
        return 2
    try:
        run(parse())
    except UserError as error:
        print(f"scale: {error}", file=sys.stderr)
        return 2
    return 0


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("topic", choices=[*TOPICS, "plot", "all"])
    parser.add_argument("--folder", type=Path, default=Path("data/scale"))
    parser.add_argument("--pictures", type=Path, default=None, help="default: --folder")
    parser.add_argument("--pairs", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument("--lines", type=int, nargs="+", default=[20_000, 200_000, 2_000_000], help="two a pair")
    parser.add_argument("--shards", type=int, default=100)
    parser.add_argument("--model", default="transformer", help="for corpus")
    parser.add_argument(
        "--models", nargs="+", default=[], help="for length, vocabulary, beam; default: each topic's own"
    )
    parser.add_argument("--lengths", type=int, nargs="+", default=[16, 64, 256, 1024])
    parser.add_argument("--sizes", type=int, nargs="+", default=[4000, 8000, 16_000, 32_000, 64_000])
    parser.add_argument("--widths", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--repeats", type=int, default=2, help="of updates and searches; the fastest counts")
    return parser.parse_args()


def run(arguments: argparse.Namespace) -> None:
    """Topic after topic; raises UserError where one cannot be measured."""
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for topic in TOPICS if arguments.topic == "all" else [arguments.topic] if arguments.topic in TOPICS else []:
        rows = TOPICS[topic](arguments)
        (arguments.folder / f"{topic}.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        print(f"\n{topic}\n\n{markdown(rows)}", flush=True)
    if arguments.topic in ("plot", "all"):
        plot(arguments.folder, arguments.pictures or arguments.folder)


if __name__ == "__main__":
    sys.exit(main())

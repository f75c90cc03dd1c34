"""How cost increases with the corpus, the length of sentences, the vocabulary, the beam.

python scripts/scale.py corpus   [--pairs 100000 1000000 10000000] [--model transformer]   ids,
planning, start, memory python scripts/scale.py text     [--lines 20000 200000 2000000]
the stages from text to ids python scripts/scale.py length   [--models …] [--lengths 16 64 256 1024]
an update of 1,024 target tokens python scripts/scale.py vocabulary [--sizes 4000 8000 16000 32000
64000] python scripts/scale.py beam     [--widths 1 2 4 8 16] python scripts/scale.py all
all of them

Several topics may be given. Tables go to stdout, figures to --json, synthetic corpora to --folder,
pictures of what was measured to --pictures. Each row is measured in a process of its own (all
lengths of a model and all beams in one), with one thread. Linux only.
"""

import argparse
import os
import shutil
import sys
import time
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import scale_measures
from benchmarks.corpora import write_ids, write_text
from benchmarks.frame import (
    in_fresh_process,
    make_parser,
    measure_parts,
    note,
    report_parts,
    run_benchmark,
)
from benchmarks.models import model_names
from scale_plots import draw_pictures
from small_run import small_corpus

from nmt.corpus.checksums import write_manifest
from nmt.errors import UserError
from nmt.runs.stages import build_stages

Rows = list[dict[str, Any]]
VOCABULARY = 2000
# updates of a start; batches read after the second one
UPDATES = 10
FURTHER_BATCHES = 5000
# A small corpus, whose training ids are replaced by those of a large one.
SMALL = [f"tokenizer.vocabulary_size={VOCABULARY}", "train.max_minutes=null", "device=cpu"]
TEXT = ["data=files", "data.source=de", "data.target=en", "data.test=null"]
ENDLESS = ["train.max_steps=1000000000", "train.validate_every=1000000000", "name=scale"]
in_process = partial(in_fresh_process, threads=1)


def main(arguments: list[str] | None = None) -> int:
    return run_benchmark(parse(arguments), measure, report_parts)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = make_parser(__doc__, Path("data/scale/scale.json"))
    parser.add_argument("topics", nargs="+", choices=[*TOPICS, "all"], metavar="TOPIC")
    parser.add_argument("--folder", type=Path, default=Path("data/scale"))
    parser.add_argument("--pictures", type=Path, help="folder; default: no pictures")
    parser.add_argument("--pairs", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument(
        "--lines", type=int, nargs="+", default=[20_000, 200_000, 2_000_000], help="two a pair"
    )
    parser.add_argument("--model", default="transformer", help="for corpus")
    parser.add_argument(
        "--models",
        nargs="+",
        default=[],
        help="for length, vocabulary, beam; default: each topic's own",
    )
    parser.add_argument("--lengths", type=int, nargs="+", default=[16, 64, 256, 1024])
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[4000, 8000, 16_000, 32_000, 64_000]
    )
    parser.add_argument("--widths", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument(
        "--repeats", type=int, default=2, help="of updates and searches; the fastest counts"
    )
    return parser.parse_args(arguments)


def measure(options: argparse.Namespace) -> dict[str, Rows]:
    """The rows of every topic; raises UserError where none can be measured."""
    if not sys.platform.startswith("linux"):
        raise UserError("Memory is read from /proc, so this runs on Linux only.")
    options.folder.mkdir(parents=True, exist_ok=True)
    result = measure_parts(
        TOPICS, [*TOPICS] if "all" in options.topics else options.topics, options
    )
    if options.pictures:
        draw_pictures(result, options.pictures)
    return result


def corpus(options: argparse.Namespace) -> Rows:
    """Opening, planning, start and memory of training, for corpora of several sizes and for one of
    1,000 pairs."""
    overrides = [
        *small_corpus(options.folder / "text", 1000),
        *SMALL,
        *ENDLESS,
        f"model={options.model}",
    ]
    small = train_on(options.folder / "small", overrides, None)
    rows = []
    for pairs in options.pairs:
        path = synthetic_ids(options.folder, pairs)
        row = {"pairs": pairs, "GiB on disk": path.stat().st_size / 2**30}
        row |= in_process(scale_measures.planning, path=str(path))
        large = train_on(options.folder / "large", overrides, path)
        for key in ("start, CPU s", "start, wall s"):
            row |= {key: large[key], f"{key}, of 1,000 pairs": small[key]}
        for key in ("resident", "anonymous"):
            row[f"training, MiB more {key}"] = large[key] - small[key]
        rows.append(row)
    return rows


def synthetic_ids(folder: Path, pairs: int) -> Path:
    path = folder / f"ids-{pairs}.arrow"
    if not path.exists():
        note(f"writing {path} …")
        write_ids(path, pairs, VOCABULARY)
    return path


def train_on(root: Path, overrides: list[str], ids: Path | None) -> dict[str, Any]:
    """A training that is interrupted and continued: what its second start, with a cold cache,
    costs."""
    shutil.rmtree(root, ignore_errors=True)
    train = build_stages(scale_measures.settings(str(root), overrides)).ids / "train.arrow"
    if ids is not None:
        train.unlink()
        os.link(ids, train)
        write_manifest(train.parent)
    start = partial(
        in_process, scale_measures.training, root=str(root), overrides=overrides, updates=UPDATES
    )
    figures = {}
    for further_batches in (0, FURTHER_BATCHES):
        scale_measures.drop_from_cache(train)
        figures = start(started=time.time(), further_batches=further_batches)
    return figures


def text(options: argparse.Namespace) -> Rows:
    """The stages of text: lines (both sides of a pair are two) per CPU second, and peak memory."""
    rows = []
    for lines in options.lines:
        root = options.folder / f"text-{lines}"
        shutil.rmtree(root, ignore_errors=True)
        write_text(root / "train", lines // 2)
        write_text(root / "held_out", 500)
        overrides = [*TEXT, "tokenizer.vocabulary_size=4000"]
        overrides += [f"data.train={root / 'train'}", f"data.valid={root / 'held_out'}"]
        rows.append({"pairs": lines // 2})
        for stage, cost in in_process(
            scale_measures.stages, root=str(root), overrides=overrides
        ).items():
            rows[-1] |= {
                f"{stage}, lines/s": lines / cost["seconds"],
                f"{stage}, MiB": cost["peak"],
            }
        shutil.rmtree(root)
    return rows


def length(options: argparse.Namespace) -> Rows:
    """Updates of every model, in sentences of several lengths."""
    return time_updates(
        options.models or model_names(), options.lengths, [VOCABULARY], options.repeats
    )


def vocabulary(options: argparse.Namespace) -> Rows:
    """Updates in sentences of 32 pieces, with vocabularies of several sizes."""
    return time_updates(
        options.models or ["transformer", "luong_global"], [32], options.sizes, options.repeats
    )


def time_updates(models: list[str], lengths: list[int], sizes: list[int], repeats: int) -> Rows:
    measure = partial(in_process, scale_measures.updates, lengths=lengths, repeats=repeats)
    return [
        row for name, size in product(models, sizes) for row in measure(model=name, vocabulary=size)
    ]


def beam(options: argparse.Namespace) -> Rows:
    """Search over 16 sentences of 20 pieces, with beams of several widths."""
    names = options.models or ["transformer", "luong_global", "bahdanau"]
    measure = partial(
        in_process, scale_measures.beams, widths=options.widths, repeats=options.repeats
    )
    return [row for name in names for row in measure(model=name)]


TOPICS = {topic.__name__: topic for topic in (corpus, text, length, vocabulary, beam)}


if __name__ == "__main__":
    sys.exit(main())

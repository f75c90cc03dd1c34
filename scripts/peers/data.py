"""The corpus of scripts/bench_peers.py: our own stages, then the same lines and pieces as the toolkits read them.

NAME.pieces.SIDE   pieces between spaces
NAME.ids.SIDE      their numbers
vocabulary.tsv     the pieces and how frequent they are, for OpenNMT-py and eole; vocabulary.txt for JoeyNMT
"""

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from bench import find_corpora
from bench_toolkits import PIECES

from nmt.compose import compose_all
from nmt.data.dataset import ParallelDataset
from nmt.data.lines import read_lines
from nmt.data.tokenizer import EOS, Tokenizer, Tokenizers
from nmt.pipeline import prepare


def prepare_data(options: argparse.Namespace) -> Path:
    """Write all files of training, validation and test; `options.overrides` becomes the corpus for nmt."""
    (words,) = find_corpora(options).values()
    places = [f"data_folder={options.folder / 'data'}", f"run_folder={options.folder / 'runs'}"]
    options.overrides = [*words, *places, f"tokenizer.size={PIECES}"]
    prepared = prepare(compose_all(options.overrides, multirun=False)[0])
    folder, tokenizer = options.folder / "real", Tokenizers.load(prepared.tokenizer).source
    counts: Counter[int] = Counter()
    for name in ("train", "valid"):
        pairs = ParallelDataset(prepared.ids / f"{name}.arrow")
        for side in ("source", "target"):
            rows = [getattr(pairs, side)(row).tolist() for row in range(len(pairs))]
            write(folder / f"{name}.ids.{side}", [" ".join(map(str, row)) for row in rows])
            write(folder / f"{name}.pieces.{side}", [spelled(tokenizer, row) for row in rows])
            counts.update(piece for row in rows for piece in row)
    plain = range(EOS + 1, tokenizer.size)
    pieces = [spelled(tokenizer, [piece]) for piece in plain]
    write(folder / "vocabulary.tsv", [f"{piece}\t{counts[row] + 1}" for piece, row in zip(pieces, plain, strict=True)])
    write(folder / "vocabulary.txt", ["<unk>", "<pad>", "<s>", "</s>", *pieces])
    write_test(folder, tokenizer, options)
    return folder


def write_test(folder: Path, tokenizer: Tokenizer, options: argparse.Namespace) -> None:
    """test.source, test.target and test.pieces; the held-out lines where no test set is named."""
    named = options.test or [folder / "valid.source", folder / "valid.target"]
    for path, side in zip(named, ("source", "target"), strict=True):
        write(folder / f"test.{side}", list(read_lines(path)))
    rows = tokenizer.encode_all(list(read_lines(folder / "test.source")))
    write(folder / "test.pieces", [spelled(tokenizer, row) for row in rows])


def spelled(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """Pieces between spaces; one that holds a space itself, such as U+00A0, is spelled with another sign."""
    pieces = ("".join("␣" if letter.isspace() else letter for letter in piece) for piece in tokenizer.pieces(list(ids)))
    return " ".join(pieces)


def write(path: Path, lines: list[str]) -> None:
    """Lines of a file."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

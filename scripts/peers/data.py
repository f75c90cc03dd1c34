"""The corpus of scripts/bench_peers.py: nmt's own stages, then the same lines and pieces as the
toolkits read them.

NAME.pieces.SIDE   pieces between spaces
NAME.ids.SIDE      their numbers
vocabulary.tsv     the pieces and their counts
test.SIDE          the lines to translate
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.corpora import real_corpus

from nmt.config.compose import compose_all
from nmt.corpus.parallel_text import read_lines
from nmt.data.dataset import ParallelDataset
from nmt.data.tokenizer import EOS, Tokenizer, Tokenizers
from nmt.runs.stages import build_stages
from peers.toolkits import PIECES


def prepare_data(
    source: Path | None, target: Path | None, test: list[Path] | None, folder: Path
) -> tuple[Path, list[str]]:
    """Write all files below `folder`; → their folder, and the overrides that make nmt train on the
    same pairs.

    Without a test set (source and reference) the held-out lines are translated.
    """
    data = folder / "real"
    _, overrides = real_corpus(source, target, data)
    overrides += [
        f"data_folder={folder / 'data'}",
        f"run_folder={folder / 'runs'}",
        f"tokenizer.vocabulary_size={PIECES}",
    ]
    stages = build_stages(compose_all(overrides)[0])
    tokenizer = Tokenizers.load(stages.tokenizer).source
    counts: Counter[int] = Counter()
    for name in ("train", "valid"):
        pairs = ParallelDataset(stages.ids / f"{name}.arrow")
        for side in ("source", "target"):
            rows = [getattr(pairs, side)(row).tolist() for row in range(len(pairs))]
            write_lines(data / f"{name}.ids.{side}", (" ".join(map(str, row)) for row in rows))
            write_lines(
                data / f"{name}.pieces.{side}", (spaced_pieces(tokenizer, row) for row in rows)
            )
            counts.update(piece for row in rows for piece in row)
    ids = range(EOS + 1, tokenizer.size)
    pieces = [spaced_pieces(tokenizer, [piece]) for piece in ids]
    write_lines(
        data / "vocabulary.tsv",
        (f"{text}\t{counts[piece] + 1}" for text, piece in zip(pieces, ids, strict=True)),
    )
    for path, side in zip(
        test or [data / "valid.source", data / "valid.target"], ("source", "target"), strict=True
    ):
        write_lines(data / f"test.{side}", list(read_lines(path)))
    return data, overrides


def spaced_pieces(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """Pieces between spaces; a space inside a piece, such as U+00A0, is written ␣."""
    pieces = tokenizer.pieces(list(ids))
    return " ".join(
        "".join("␣" if letter.isspace() else letter for letter in piece) for piece in pieces
    )


def write_lines(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

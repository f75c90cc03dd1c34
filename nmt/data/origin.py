"""Where sentence pairs come from: an `Origin` reads them, and knows what there is to tell about them."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from nmt.data.packed import PackedFile, without_packing
from nmt.data.parallel_text import find_file, read_pairs
from nmt.data.tables import Pair, Skipped
from nmt.errors import UserError
from nmt.view.progress import Progress


@dataclass
class Origin:
    """One word of data.train, data.valid or data.test."""

    word: str  # as it was given
    name: str  # short, for tags and names of test sets
    key: str  # what stays the same when its text grows
    place: Path | str  # what messages call it
    files: list[Path]  # whose content it is
    read: Callable[[Skipped, str], Iterator[Pair]]  # records that are no pair are counted by reason; see `pairs`
    sides: tuple[PackedFile, PackedFile] | None = None  # two files of which lines n are pair n
    about: dict[str, Any] = field(default_factory=dict)  # url, revision, license
    links: Path | None = None  # PREFIX.align, if there is one: word links, line by line
    part: int = 0  # which word of its list it is
    table: PackedFile | None = None  # a file of which most lines are a pair
    tag: str = ""  # before each source: the target language, the origin
    languages: tuple[str, str] | None = None  # of the pairs, where the corpus has several language pairs

    @property
    def has_lines(self) -> bool:
        """Whether pair n is line n."""
        return self.sides is not None

    def count(self) -> int | None:
        """About how many pairs there are; None where lines do not tell it."""
        file = self.sides[0] if self.sides else self.table
        return file.count_lines() if file else None

    def pairs(self, skipped: Skipped, errors: str = "strict") -> Iterator[Pair]:
        """The pairs; raises UserError when there is none.

        `errors`: what becomes of bytes in a table that are not UTF-8, as in bytes.decode.
        """
        empty = True
        for pair in self.read(skipped, errors):
            empty = False
            yield pair
        if empty:
            reasons = "".join(f"; {number:,} with {reason}" for reason, number in skipped.items())
            raise UserError(f"{self.word} has no pair of sentences{reasons}.")


def plain_origin(
    word: str, source: Path, target: Path, about: dict[str, Any] | None = None, links: Path | None = None
) -> Origin:
    """The pairs of two files, line by line; raises UserError where both are one file."""
    if source.samefile(target):
        raise UserError(f"{source} and {target} are the same file; one must be the other's translation.")

    prefix = without_packing(source.resolve()).with_suffix("")
    sides = PackedFile(source), PackedFile(target)
    read = partial(read_sides, sides)
    return Origin(word, Path(word).name, str(prefix), source, [source, target], read, sides, about or {}, links)


def read_sides(sides: tuple[PackedFile, PackedFile], skipped: Skipped, errors: str) -> Iterator[Pair]:
    """The pairs of two files, line by line, which must be UTF-8."""
    return read_pairs(*sides)


def prefix_origin(prefix: str, source: str, target: str) -> Origin:
    """The pairs of PREFIX.source and PREFIX.target, with the links of PREFIX.align; raises UserError."""
    links = None
    with contextlib.suppress(UserError):
        links = find_file(prefix, "align")
    return plain_origin(prefix, find_file(prefix, source), find_file(prefix, target), links=links)


def read_with_progress(origin: Origin, skipped: Skipped) -> Iterator[Pair]:
    """The pairs of an origin, while a bar shows how many of them have been read."""
    with Progress(origin.count(), "pair", f"reading {origin.word}") as bar:
        for pair in origin.pairs(skipped):
            yield pair
            bar.update(1)

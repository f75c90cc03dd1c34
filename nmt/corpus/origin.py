"""Where sentence pairs come from: an `Origin` reads them, and knows what there is to tell about
them."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nmt.config.schema import DataConfig
from nmt.corpus.encoding import with_encoding
from nmt.corpus.packed import PackedFile, without_packing
from nmt.corpus.parallel_text import find_file, read_pairs, refuse_other_format
from nmt.corpus.tables import Pair, Skipped
from nmt.errors import UserError
from nmt.view.progress import Progress


@dataclass
class Origin:
    """One word of data.train, data.valid or data.test."""

    word: str  # as it was given
    name: str  # short, for tags and names of test sets
    key: str  # what stays the same when its text grows
    place: str  # what messages call it
    files: list[Path]  # whose content it is
    # records that are no pair are counted by reason; see `pairs`
    read: Callable[[Skipped, str], Iterator[Pair]]
    sides: tuple[PackedFile, PackedFile] | None = None  # two files of which lines n are pair n
    about: dict[str, Any] = field(default_factory=dict)  # url, revision, license
    links: Path | None = None  # PREFIX.align, if there is one: word links, line by line
    part: int = 0  # which word of its list it is
    table: PackedFile | None = None  # a file of which most lines are a pair
    tag: str = ""  # before each source: the target language, the origin
    # of the pairs, where the corpus has several language pairs
    languages: tuple[str, str] | None = None

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

    def count(self) -> int | None:
        """About how many pairs there are; None where lines do not tell it."""
        file = self.sides[0] if self.sides else self.table
        return file.count_lines() if file else None

    def location(self, number: int, side: int = 0) -> str:
        """FILE:LINE, in the target's file for side 1; `FILE, pair N` where pairs are no lines."""
        if self.sides is None:
            return f"{self.place}, pair {number}"
        return f"{self.sides[side == 1]}:{number}"

    def pairs_with_progress(self, skipped: Skipped) -> Iterator[Pair]:
        """The pairs, while a bar shows how many of them have been read."""
        with Progress(self.count(), "pair", f"reading {self.word}") as bar:
            for pair in self.pairs(skipped):
                yield pair
                bar.update(1)


def two_files(
    word: str,
    name: str,
    key: str,
    files: list[Path],
    sides: tuple[PackedFile, PackedFile],
    about: dict[str, Any],
) -> Origin:
    """The pairs of two files, line by line, which must be UTF-8."""
    return Origin(
        word,
        name,
        key,
        str(sides[0]),
        files,
        lambda skipped, errors: read_pairs(*sides),
        sides,
        about,
    )


def encoded_sides(
    sides: tuple[PackedFile, PackedFile], data: DataConfig
) -> tuple[PackedFile, PackedFile]:
    """The files of both sides in the encoding of `data`; raises UserError for another format."""
    source, target = sides
    encoded = (
        with_encoding(source, data.encoding, data.source),
        with_encoding(target, data.encoding, data.target),
    )
    for file in encoded:
        refuse_other_format(file)
    return encoded


def plain_origin(
    word: str,
    source: Path,
    target: Path,
    about: dict[str, Any] | None = None,
    data: DataConfig | None = None,
) -> Origin:
    """The pairs of two files, line by line, in the encoding of `data`.

    Raises UserError where both are one file.
    """
    if source.samefile(target):
        raise UserError(
            f"{source} and {target} are the same file; one must be the other's translation."
        )
    key = str(without_packing(source.resolve()).with_suffix(""))
    sides = PackedFile(source), PackedFile(target)
    if data is not None:
        sides = encoded_sides(sides, data)
    return two_files(word, Path(word).name, key, [source, target], sides, about or {})


def prefix_origin(prefix: str, data: DataConfig) -> Origin:
    """The pairs of PREFIX.source and PREFIX.target, with their links; raises UserError.

    The links are in PREFIX.SOURCE-TARGET.align or PREFIX.align.
    """
    origin = plain_origin(
        prefix, find_file(prefix, data.source), find_file(prefix, data.target), data=data
    )
    for ending in ("align", f"{data.source}-{data.target}.align"):  # the last one that is there
        with suppress(UserError):
            origin.links = find_file(prefix, ending)
    return origin

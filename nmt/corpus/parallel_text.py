"""Parallel text files with one sentence a line; line n of both files always stays a pair.

A line ends at the byte 0x0A and nowhere else. `str.splitlines` and text-mode files also break at
U+2028, U+0085, U+000B or a lone carriage return, which may occur inside a sentence; one such break
shifts every later pair. A text without any 0x0A whose lines end in carriage returns is refused.
"""

import contextlib
import hashlib
import re
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path

from nmt.corpus.packed import OPENERS, PACKINGS, PackedFile
from nmt.errors import UserError

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# How files begin that have lines, but not of sentences
OTHER_FORMATS = {
    "markup": re.compile(rb"\s*<(\?xml|!doctype|srcset|refset|tstset)\b", re.IGNORECASE),
    "a pointer of git-lfs": re.compile(rb"version https://git-lfs"),
}


def find_file(prefix: str, language: str) -> Path:
    """PREFIX.language, plain or packed, the plain file first; raises UserError for none."""
    plain = Path(f"{prefix}.{language}").expanduser()
    with contextlib.suppress(OSError):  # a folder without permission to list it
        for packing in ("", *OPENERS):
            path = plain.with_name(plain.name + packing)
            if path.is_file():
                return path
    raise UserError(
        f"There is no file {plain} (nor {plain.name} with {PACKINGS}); PREFIX={prefix} stands for "
        f"PREFIX.{language}."
    )


def read_lines(path: Path | PackedFile) -> Iterator[str]:
    """Yield the sentences of a plain or packed file, without line ends and byte order mark.

    Raises UserError for damage, and for bytes that are not UTF-8 unless `file.errors` says what
    becomes of them.
    """
    file = PackedFile(path) if isinstance(path, Path) else path
    for number, line in enumerate(file.lines(), 1):
        line = line.removesuffix(b"\n").removesuffix(b"\r")
        if number == 1:
            if line.count(b"\0") > len(line) // 3:
                raise UserError(f"{file} looks like UTF-16 or UTF-32; convert the file to UTF-8.")
            line = line.removeprefix(BYTE_ORDER_MARK)
        try:
            yield line.decode(errors=file.errors)
        except UnicodeDecodeError:
            raise UserError(
                f"{file}, line {number}, is not UTF-8; convert the file to UTF-8."
            ) from None


def read_pairs(source: Path | PackedFile, target: Path | PackedFile) -> Iterator[tuple[str, str]]:
    """Yield line n of both files as a pair; raises UserError if one ends before the other.

    Also if both are empty.
    """
    is_empty = True
    for source_line, target_line in zip_longest(read_lines(source), read_lines(target)):
        if source_line is None or target_line is None:
            source_lines = sum(1 for _ in read_lines(source))
            target_lines = sum(1 for _ in read_lines(target))
            raise UserError(
                f"{source} has {source_lines:,} lines and {target} has {target_lines:,} lines; "
                "line n of one must be the translation of line n of the other."
            )
        is_empty = False
        yield source_line, target_line
    if is_empty:
        raise UserError(f"{source} and {target} are empty.")


def refuse_other_format(file: PackedFile) -> None:
    """Raise UserError for a file of another format than one sentence a line; a pipe is not read."""
    if not file.path.is_file():
        return
    begin = next(file.lines(), b"").removeprefix(BYTE_ORDER_MARK)
    for name, pattern in OTHER_FORMATS.items():
        if pattern.match(begin):
            raise UserError(f"{file} is {name}, not text with one sentence a line.")


class LineWriter:
    """Writes one sentence a line and computes the sha256 of everything written; a context manager.

    Line breaks inside a sentence become spaces, so that all tools agree about its end.
    """

    def __init__(self, path: Path) -> None:
        self.file = open(path, "wb")
        self.digest = hashlib.sha256()

    def write(self, sentence: str) -> None:
        """Append a sentence as a line of the file."""
        line = sentence.replace("\r", " ").replace("\n", " ").encode() + b"\n"
        self.file.write(line)
        self.digest.update(line)

    def __enter__(self) -> "LineWriter":
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()


def check_sentences(sentences: Iterable[str]) -> list[str]:
    """The sentences as a list; raises UserError for one string alone, and for what is no text."""
    if isinstance(sentences, str):
        raise UserError("A list of sentences is needed; for one sentence, write [sentence].")
    sentences = list(sentences)
    for number, sentence in enumerate(sentences):
        if not isinstance(sentence, str) or not is_unicode(sentence):
            raise UserError(f"Sentence {number} (from 0) is no text: {sentence!r}.")
    return sentences


def is_unicode(text: str, errors: str = "strict") -> bool:
    """Whether text can be written as UTF-8: it has no lone surrogate that `errors` refuses."""
    try:
        text.encode(errors=errors)
    except UnicodeEncodeError:
        return False
    return True

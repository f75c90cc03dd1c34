"""The formats of documents by the extension of the file, and reading one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from nmt.documents.html_document import read_html
from nmt.documents.markdown import read_markdown
from nmt.documents.plain_text import read_text
from nmt.documents.po import PoDocument
from nmt.documents.segment import Malformed, Part
from nmt.documents.subrip import read_subrip
from nmt.documents.xliff import XliffReader
from nmt.errors import UserError


class Document(Protocol):
    """A document that is read; it can be read again from the beginning."""

    def parts(self) -> Iterator[Part]:
        """What is translated, in order, and what is between; raises Malformed."""

    def write(self, translated: Iterator[str]) -> Iterator[str]:
        """The translated document from its translated parts."""


@dataclass
class Stream:
    """A document that is its parts, one after the other."""

    reader: Callable[[str], Iterator[Part]]
    text: str

    def parts(self) -> Iterator[Part]:
        """The parts in order; raises Malformed."""
        return self.reader(self.text)

    def write(self, translated: Iterator[str]) -> Iterator[str]:
        """The translated parts."""
        return translated


STREAMS: dict[str, Callable[[str], Iterator[Part]]] = {
    ".txt": read_text,
    ".md": read_markdown,
    ".markdown": read_markdown,
    ".html": read_html,
    ".htm": read_html,
    ".srt": read_subrip,
}
# Formats whose segments may have a translation already, which `retranslate` replaces.
CATALOGUES: dict[str, Callable[[str, bool], Document]] = {
    ".po": PoDocument,
    ".xlf": XliffReader,
    ".xliff": XliffReader,
}
BYTE_ORDER_MARK = "\ufeff"


@dataclass
class OpenDocument:
    """A file with its format; what is wrong in it is a UserError with its line."""

    path: Path
    text: str
    document: Document
    mark: str = ""  # a byte order mark

    def parts(self) -> Iterator[Part]:
        """The parts in order; raises UserError."""
        return self.named(self.document.parts())

    def write(self, translated: Iterator[str]) -> Iterator[str]:
        """The translated document; raises UserError."""
        yield self.mark
        yield from self.named(self.document.write(translated))

    def named(self, parts: Iterator[Part]) -> Iterator:
        """The same; raises UserError where they raise Malformed."""
        try:
            yield from parts
        except Malformed as error:
            raise located(self.path, self.text, error) from None


def open_document(path: Path, retranslate: bool = False) -> OpenDocument:
    """Read a file by its extension; raises UserError for another one, and for what is no text in UTF-8."""
    extension = path.suffix.lower()
    if extension not in (*STREAMS, *CATALOGUES):
        possible = ", ".join([*STREAMS, *CATALOGUES])
        raise UserError(
            f"--document {path}: the extension '{path.suffix}' is of no known format; possible: {possible}."
        )
    if retranslate and extension not in CATALOGUES:
        raise UserError(f"--retranslate is for {', '.join(CATALOGUES)}; other documents have no translations in them.")
    text = read_file(path)
    mark = BYTE_ORDER_MARK * text.startswith(BYTE_ORDER_MARK)
    text = text.removeprefix(BYTE_ORDER_MARK)
    if extension in STREAMS:
        return OpenDocument(path, text, Stream(STREAMS[extension], text), mark)
    try:
        return OpenDocument(path, text, CATALOGUES[extension](text, retranslate), mark)
    except Malformed as error:
        raise located(path, text, error) from None


def read_file(path: Path) -> str:
    """The text of a file; raises UserError where it cannot be read or is no text in UTF-8."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"--document {path} cannot be read: {error.strerror or error}.") from None
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UserError(
            f"{path}, line {line}, is not UTF-8; convert the file, as with iconv -f ENCODING -t UTF-8."
        ) from None
    if "\0" in text:
        raise UserError(f"{path}, line {line_of(text, text.index(chr(0)))}, has a NUL character; it is no text.")
    return text


def located(path: Path, text: str, error: Malformed) -> UserError:
    """The error with file and line."""
    return UserError(f"{path}, line {line_of(text, error.position)}: {error.problem}.")


def line_of(text: str, position: int) -> int:
    """The number of the line of a character, from 1."""
    return text.count("\n", 0, position) + 1

"""The phrasebook's text files, read line by line, and the error messages for broken lines."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


class PhrasebookError(Exception):
    """A mistake in the words or the rules: one sentence with file and line."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a text file without its comment, with the file and the line number."""

    text: str
    file: str
    number: int

    def error(self, expected: str) -> PhrasebookError:
        """The error for a broken line; `expected` is what would be right, as a sentence."""
        return PhrasebookError(
            f"{self.file}, line {self.number}: {expected} It reads: {self.text.strip()}"
        )

    def columns(self, least: int, most: int, pattern: str) -> list[str]:
        """The columns, separated by ` | `; raises PhrasebookError when there are too few or too
        many."""
        columns = [column.strip() for column in self.text.split(" | ")]
        if not least <= len(columns) <= most or not all(columns[:least]):
            raise self.error(f"expected {pattern}.")
        return columns


def read(path: Path) -> Iterator[Line]:
    """The lines of a file that are more than a comment; raises PhrasebookError when it cannot be
    read as UTF-8."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PhrasebookError(
            f"{path} cannot be read: {getattr(error, 'strerror', None) or error}."
        ) from None
    for number, line in enumerate(text.split("\n"), 1):
        content = line.split("#", 1)[0].rstrip()
        if content.strip():
            yield Line(content, path.name, number)

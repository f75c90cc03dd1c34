"""The phrasebook's text files, read line by line, and the error messages for broken lines."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nmt.errors import UserError


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a text file without its comment, with the file and the line number."""

    text: str
    file: str
    number: int

    def error(self, expected: str) -> UserError:
        """The error for a broken line; `expected` is what would be right, as a sentence."""
        return UserError(f"{self.file}, line {self.number}: {expected} It reads: {self.text.strip()}")

    def columns(self, least: int, most: int, pattern: str) -> list[str]:
        """The columns, separated by ` | `; raises UserError when there are too few or too many."""
        columns = [column.strip() for column in self.text.split(" | ")]
        if not least <= len(columns) <= most or not all(columns[:least]):
            raise self.error(f"expected {pattern}.")
        return columns


def text_folder() -> Path:
    """data/phrasebook: inside the package after a plain `pip install`, else at the top of the checkout."""
    inside = Path(__file__).resolve().parents[2]
    packaged = inside / "data" / "phrasebook" / "text"
    return packaged if packaged.is_dir() else inside.parent / "data" / "phrasebook"


def read(path: Path) -> Iterator[Line]:
    """The lines of a file that are more than a comment; raises UserError when it cannot be read as UTF-8."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    for number, line in enumerate(text.split("\n"), 1):
        content = line.split("#", 1)[0].rstrip()
        if content.strip():
            yield Line(content, path.name, number)

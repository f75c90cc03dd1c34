"""Errors that a user can correct.

UserError          one sentence: what is wrong, where, what is possible; exit code 2
├── ProcessLost    another process of the training has ended; process 0 alone reports it
└── Stopped        an interruption, which ends a multirun too; exit code 128 + signal (130: Ctrl-C)
"""

import difflib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from signal import SIGINT
from typing import TypeVar

T = TypeVar("T")
# Categories of Unicode: control, format, lone surrogates, line ends
CONTROLS = ("Cc", "Cf", "Cs", "Zl", "Zp")


class UserError(Exception):
    """A mistake in input, configuration or environment; only its text is printed."""


class ProcessLost(UserError):
    """Another process of a training has ended or does not answer."""


class Stopped(UserError):
    """An interruption by the user or the system; the text describes how to continue the work.

    `signal` is the number of the signal; the exit code is 128 more, as in a shell.
    """

    def __init__(self, text: str, signal: int = SIGINT) -> None:
        super().__init__(text)
        self.signal = int(signal)


@contextmanager
def report_os_error(failure: str) -> Iterator[None]:
    """An OSError in the block becomes a UserError: what failed, and the reason of the system."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{failure}: {error.strerror or error}.") from None


def choose(description: str, name: str, table: Mapping[str, T]) -> T:
    """The value of `name` in `table`; raises UserError with the possible names for another name.

    `description` is what the message calls it: "Unknown DESCRIPTION 'NAME'; possible: …".
    """
    if name not in table:
        raise UserError(f"Unknown {description} '{name}'; possible: {', '.join(map(str, table))}.")
    return table[name]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The nearest of the known words, in brackets; empty where none is near."""
    similar = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {similar[0]}?)" if similar else ""


def is_printable(text: str) -> bool:
    """Whether text is UTF-8 without characters that control a terminal or the direction of text."""
    return not any(unicodedata.category(character) in CONTROLS for character in text)


def printable(text: object, most: int = 40) -> str:
    """The beginning of somebody else's text on one line, with control characters escaped."""
    shown = ""
    for character in " ".join(str(text).split())[:most]:
        shown += character if character.isprintable() else ascii(character)[1:-1]
    return shown or "''"


def check_positive(**values: int | None) -> None:
    """Raise UserError, with its name, for a value that is neither None nor greater than 0."""
    for name, value in values.items():
        if value is not None and value < 1:
            raise UserError(f"{name}={value} is invalid; it must be greater than 0.")


@contextmanager
def needs_extra(name: str) -> Iterator[None]:
    """Around the import of a package of an extra of pyproject.toml.

    Raises UserError with what installs it where it is missing.
    """
    try:
        yield
    except ImportError as error:
        raise UserError(
            f"A package that is needed here cannot be imported ({error}); `pip install -e "
            f"'.[{name}]'` in the checkout installs it."
        ) from None

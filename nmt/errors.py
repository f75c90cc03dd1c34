"""What a person can mend.

UserError      one clear sentence: what is wrong, where, what is possible. The door prints it and exits with code 2.
└── Stopped    an interruption, exit code 130 as in a shell; a multirun ends with it.
"""

from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")


class UserError(Exception):
    """A mistake in the input, the configuration or the surroundings; its text is shown without a traceback."""


class Stopped(UserError):
    """Somebody interrupted the work; the text says how to continue it."""


def choose(kind: str, name: str, table: Mapping[str, T]) -> T:
    """Look `name` up in `table`; an unknown name is a UserError that lists the known ones."""
    if name not in table:
        raise UserError(f"Unknown {kind} '{name}'; possible: {', '.join(map(str, table))}.")
    return table[name]

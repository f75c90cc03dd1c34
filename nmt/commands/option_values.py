"""Values of options of the command line; argparse makes one sentence of what they raise."""

import argparse
import contextlib
import re
from typing import Any


def path(text: str) -> str:
    """The name of a file or folder; it is empty, and refused, where a shell variable is unset."""
    if not text:
        raise argparse.ArgumentTypeError("the name is empty")
    return text


FILE, FOLDER, DIR = (dict[str, Any](type=path, metavar=name) for name in ("FILE", "FOLDER", "DIR"))


def threshold_value(text: str) -> float:
    """A number above 0 and at most 1."""
    with contextlib.suppress(ValueError):
        if 0 < float(text) <= 1:
            return float(text)
    raise argparse.ArgumentTypeError(f"'{text}' is not a number above 0 and at most 1")


def layers(text: str) -> int | tuple[int, ...]:
    """A layer, or several separated by commas."""
    if not re.fullmatch(r"-?\d+(,-?\d+)*", text):
        raise argparse.ArgumentTypeError(f"'{text}' is no layer such as 0 or -1, nor several such as 1,2")
    numbers = tuple(map(int, text.split(",")))
    return numbers[0] if len(numbers) == 1 else numbers


def positive(text: str) -> int:
    """A whole number above 0."""
    number = int(text) if text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number above 0")
    return number

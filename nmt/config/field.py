"""A key of the configuration: a field of a dataclass with its documentation and its rules."""

from collections.abc import Collection, Mapping
from dataclasses import MISSING, field
from typing import Any

LARGEST = 10**9  # the limit of any number without one of its own; products of two are exact


def option(
    meaning: str,
    default: Any = MISSING,
    *,
    choices: Collection[str] = (),
    above: float | None = None,
    minimum: float | None = None,
    maximum: float | None = None,
    below: float | None = None,
    requires: Mapping[str, Collection[str]] | None = None,
    paper: str = "",
) -> Any:
    """A field with its documentation and its rules.

    meaning: one phrase, with the unit. choices: the possible values of a text. above, minimum, maximum, below: bounds
    of a number (None is allowed where the type allows it); LARGEST without maximum and below. requires: {other key: its
    values} of the same dataclass, without which this key has no effect; then `default` is the value that has none.
    paper: where it is from.
    """
    metadata = {
        "meaning": meaning, "choices": tuple(choices), "above": above, "minimum": minimum, "maximum": maximum,
        "below": below, "requires": {key: tuple(values) for key, values in (requires or {}).items()}, "paper": paper,
    }  # fmt: skip
    return field(default=default, metadata=metadata)

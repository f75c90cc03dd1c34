"""JSON and ARB: the texts that are values; every other byte stays."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

from nmt.documents.counting import count_values
from nmt.documents.limits import check_brackets
from nmt.documents.messages import said_about, value_parts
from nmt.documents.properties import doubled_apostrophes, has_doubled
from nmt.documents.segment import COMMENTS, Document, Malformed, TextFile

STRING = re.compile(r'"(?:[^"\\]|\\.)*"(?P<key>\s*:)?', re.DOTALL)
ESCAPE = re.compile(r"\\u(?!00[01])[0-9a-fA-F]{4}")  # of a character that needs none
SURROGATE = re.compile("[\ud800-\udfff]")
HALF = "half a character"


class Object(list[tuple[str, Any]]):
    """The keys and values of an object in their order; a key may occur twice."""


def read_json(data: bytes) -> Document:
    """JSON: the texts that are values, but not what is said about them.

    ARB says it below @key, an entry beside its message (`said_about`).
    """
    document = TextFile(data.decode())
    text = document.text
    is_escaped = text.isascii() and ESCAPE.search(text) is not None
    places = (match for match in STRING.finditer(text) if not match["key"])
    for (value, reason), match in zip(strings(parse(text)), places, strict=True):
        if reason:
            document.leave(value, reason)
        elif SURROGATE.search(value):
            document.leave(value, HALF)
        else:
            # In a message of ICU, '' is one apostrophe
            is_doubled = "{" in value and "''" in value and has_doubled(value)
            if is_doubled:
                value = value.replace("''", "'")
            write = partial(
                write_string,
                is_escaped=is_escaped,
                has_slashes="\\/" in match[0],
                is_doubled=is_doubled,
            )
            document.add(value_parts(value), *match.span(), write)
    return document


def parse(text: str) -> Any:
    """The tree of lists and Objects; raises Malformed. Numbers, of any length, are not read."""
    check_brackets(text)
    try:
        return json.loads(
            text, object_pairs_hook=Object, parse_int=no_number, parse_float=no_number
        )
    except json.JSONDecodeError as error:
        problem = error.msg.removesuffix(" at")
        if text.startswith(("//", "/*", "#"), error.pos):
            problem = "JSON has no comments"
        problem = f"{problem}, column {error.colno}"
        raise Malformed(f"this is not JSON ({problem})", error.pos) from None


def no_number(_: str) -> None:
    """What a number is read as."""


def strings(node: Any, reason: str = "") -> Iterator[tuple[str, str]]:
    """The texts of a tree in the order of the file, and why they are left; "": they are not."""
    if isinstance(node, str):
        yield node, reason
    elif isinstance(node, Object):
        about = said_about({key: isinstance(value, str | list) for key, value in node})
        for key, value in node:
            own_reason = COMMENTS if key.startswith("@") else about.get(key, "")
            yield from strings(value, reason or own_reason)
    elif isinstance(node, list):
        for value in node:
            yield from strings(value, reason)


def write_string(text: str, is_escaped: bool, has_slashes: bool, is_doubled: bool) -> str:
    if is_doubled:
        text = doubled_apostrophes(text)
    written = json.dumps(text, ensure_ascii=is_escaped)
    return written.replace("/", "\\/") if has_slashes else written


def count_json(data: bytes) -> Counter[str]:
    """Keys and texts, those of keys that occur twice too."""

    def numbered(pairs: list[tuple[str, Any]]) -> dict[int, Any]:
        return dict(enumerate(value for _, value in pairs))

    text = data.decode("utf-8-sig")
    return count_values(json.loads(text, object_pairs_hook=numbered, parse_int=no_number))

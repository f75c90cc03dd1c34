"""TOML, by tomlkit: its comments, order and kinds of strings stay."""

import re
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

from nmt.documents.counting import count_values
from nmt.documents.limits import check_brackets
from nmt.documents.messages import said_about, value_parts
from nmt.documents.segment import Document, Field, Malformed
from nmt.errors import needs_extra

TEXTS = (str, dict, list)  # or what may have texts


def read_toml(data: bytes) -> Document:
    tree = parse(data)
    mark = BOM_UTF8 if data.startswith(BOM_UTF8) else b""

    def save(parent: Any, key: Any, new: str) -> None:
        parent[key] = string_like(parent[key], new)

    document = Document([], lambda: mark + tree.as_string().encode())
    for parent, key, text, reason in texts(tree):
        if reason:
            document.leave(text, reason)
        else:
            document.fields.append(Field(value_parts(text), partial(save, parent, key)))
    return document


def parse(data: bytes) -> Any:
    """The tree of tomlkit, without a byte order mark; raises Malformed."""
    text = data.removeprefix(BOM_UTF8).decode()
    with needs_extra("documents"):
        import tomlkit
    check_brackets(text)
    try:
        return tomlkit.parse(text)
    except (tomlkit.exceptions.TOMLKitError, ValueError) as error:
        raise Malformed(f"this is not TOML ({error})") from None


def texts(node: Any, reason: str = "") -> Iterator[tuple[Any, Any, str, str]]:
    """The texts of a tree in their order, each behind what it is in and its key there.

    After it: why it is left; "": it is not.
    """
    about: dict[str, str] = {}
    if isinstance(node, dict):
        about = said_about({key: isinstance(value, TEXTS) for key, value in node.items()})
    children = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in list(children):
        own_reason = reason or about.get(key, "")
        if isinstance(value, str):
            yield node, key, str(value), own_reason
        elif isinstance(value, dict | list):
            yield from texts(value, own_reason)


def string_like(old: Any, new: str) -> Any:
    """A text in the same quotation marks as another one, if it can be written in these."""
    import tomlkit

    is_multiline = old.type.is_multiline()
    try:
        string = tomlkit.string(new, literal=old.type.is_literal(), multiline=is_multiline)
    except ValueError:
        string = tomlkit.string(new, multiline=is_multiline)
    newline = re.match(r"(?:\"\"\"|''')(\r?\n)", old.as_string())
    if not newline:
        return string
    # A line break after the opening quotation marks is not part of the text
    written = string.as_string()
    return tomlkit.parse(f"text = {written[:3]}{newline[1]}{written[3:]}")["text"]


def count_toml(data: bytes) -> Counter[str]:
    return count_values(parse(data))

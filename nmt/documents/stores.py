"""Files of messages: what translate-toolkit reads, and JSON, YAML and TOML, whose numbers it would make texts."""

from __future__ import annotations

import importlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from io import BytesIO
from typing import Any

from nmt.documents.counting import count_units, count_values
from nmt.documents.html import inline_parts, tokens
from nmt.documents.segment import TRANSLATED, Document, Field, Malformed, Part
from nmt.errors import UserError, install_extra

CHARSET = re.compile(rb'^"Content-Type:[^"]*charset=([^\s\\";]+)', re.MULTILINE)


def import_library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UserError(f"This format needs {error.name or name}: {install_extra('documents')}.") from None


def message_parts(message: str) -> list[Part]:
    """The parts of a message, line by line; HTML in it stays, but & and < may be signs."""
    parts: list[Part] = []
    for line in message.splitlines(keepends=True):
        text = line.rstrip("\r\n")
        try:
            parts += inline_parts(text, list(tokens(text)), entities=False)
        except Malformed:
            parts.append(text)
        parts.append(line[len(text) :])
    return parts


def count_store(module: str, name: str, data: bytes) -> Counter[str]:
    """What a class of translate.storage reads."""
    store = getattr(import_library(f"translate.storage.{module}"), name)()
    store.parse(data)
    return count_units(store)


UNSURE_WORDS = "Unsure:"
MONOLINGUAL = {"properties", "resx", "aresource"}  # the text of a unit is replaced by its translation


def read_store(module: str, name: str, data: bytes, retranslate: bool) -> Document:
    """What a class of translate.storage reads, unit by unit; forms of a plural that are there stay."""
    store = getattr(import_library(f"translate.storage.{module}"), name)()
    charset = CHARSET.search(data) if module == "pypo" else None
    if charset and charset[1].upper() not in (b"UTF-8", b"UTF8", b"ASCII", b"US-ASCII", b"CHARSET"):
        raise Malformed(f"it says that its encoding is {charset[1].decode()}; convert it to UTF-8", charset.start())
    try:
        store.parse(data)
    except Exception as error:  # of any kind: the parsers have no error of their own
        raise Malformed(f"translate-toolkit cannot read it ({str(error).splitlines()[0][:100]})") from None
    document, replaces = Document([], lambda: bytes(store)), retranslate or module in MONOLINGUAL
    for unit in store.units:
        if unit.isheader() or unit.isobsolete() or not unit.istranslatable() or not unit.source:
            continue
        sources = [str(each) for each in getattr(unit.source, "strings", [unit.source])]
        forms = [str(each or "") for each in getattr(unit.target, "strings", [unit.target])]
        if all(form.strip() for form in forms) and not replaces:
            document.leave(str(unit.source), TRANSLATED)
            continue
        is_plural, last, unsure = len(sources) > 1 or unit.hasplural(), len(sources) - 1, list[str]()
        if is_plural and module not in MONOLINGUAL:
            forms = [*forms, *[""] * (count := plural_forms(store, forms))][:count]

        def save(text: str, unit: Any, forms: list[str], places: list[int], is_plural: bool) -> None:
            for place in places:
                forms[place] = text
            unit.target = list(forms) if is_plural else forms[0]
            if module not in MONOLINGUAL:
                unit.markfuzzy()

        for index, source in enumerate(sources):  # the singular is the first form, the plural all others
            places = [place for place in range(len(forms)) if (min(place, last) if forms[1:] else last) == index]
            places = [place for place in places if replaces or not forms[place].strip()]
            if places:
                keep = partial(save, unit=unit, forms=forms, places=places, is_plural=is_plural)
                mark = partial(name_unsure, unit, unsure) if module in ("pypo", "ts2") else None
                document.fields.append(Field(message_parts(source), keep, mark=mark))
    return document


def name_unsure(unit: Any, unsure: list[str], words: list[str]) -> None:
    """Name the unsure words of a unit in a translator's comment; those of its forms before are `unsure`."""
    unsure += words
    others = [line for line in unit.getnotes("translator").splitlines() if not line.startswith(UNSURE_WORDS)]
    unit.removenotes("translator")
    unit.addnote(
        "\n".join(others + [f"{UNSURE_WORDS} {', '.join(dict.fromkeys(unsure))}"] * bool(unsure)), "translator"
    )


def plural_forms(store: Any, forms: list[str]) -> int:
    header = store.getheaderplural()[0] if hasattr(store, "getheaderplural") else None
    return int(header) if header and str(header).isdecimal() else max(len(forms), 2)


def read_json(data: bytes, _: bool) -> Document:
    """JSON: the texts that are values, but not what ARB says about keys (@key); every other byte stays."""
    text = data.decode()
    try:
        tree = json.loads(text)
    except ValueError as error:
        raise Malformed(f"this is no JSON ({error})") from None
    pieces, end = list[str](), 0
    for match in re.finditer(r'"(?:[^"\\]|\\.)*"(\s*:)?', text):
        if not match[1]:
            pieces += [text[end : match.start()], match[0]]
            end = match.end()
    pieces.append(text[end:])

    def save(new: str, place: int) -> None:
        pieces[place] = json.dumps(new, ensure_ascii=text.isascii())

    fields = [
        Field(message_parts(value), partial(save, place=2 * index + 1))
        for index, (path, value, _) in enumerate(leaves([tree]))
        if not any(str(key).startswith("@") for key in path)
    ]
    return Document(fields, lambda: "".join(pieces).encode())


def count_json(data: bytes) -> Counter[str]:
    """Keys and texts, those of keys that occur twice too."""
    counts = Counter[str]()

    def count_object(pairs: list[tuple[str, Any]]) -> None:
        counts["keys"] += len(pairs)
        for _, value in pairs:
            counts.update(count_values(value))

    return count_values(json.loads(data.decode(), object_pairs_hook=count_object)) + counts


def read_yaml(data: bytes, _: bool) -> Document:
    """YAML, by ruamel.yaml: its comments, quotation marks and order stay."""
    ruamel = import_library("ruamel.yaml")
    yaml = ruamel.YAML()
    yaml.preserve_quotes, yaml.width, indent = True, 1 << 30, None
    try:
        with suppress(IndexError):  # of a line with a dash alone
            _, indent, offset = import_library("ruamel.yaml.util").load_yaml_guess_indent(data.decode())
        if indent is not None:
            yaml.indent(mapping=2 if offset else indent, sequence=indent, offset=offset or 0)
        trees = list(yaml.load_all(data))
    except ruamel.error.YAMLError as error:
        raise Malformed(f"this is no YAML ({' '.join(str(error).split())[:200]})") from None

    def serialize() -> bytes:
        output = BytesIO()
        yaml.dump_all(trees, output)
        return output.getvalue()

    return tree_document(trees, serialize)


def count_yaml(data: bytes) -> Counter[str]:
    return count_values(list(import_library("ruamel.yaml").YAML().load_all(data)))


def read_toml(data: bytes, _: bool) -> Document:
    """TOML, by tomlkit: its comments and order stay."""
    tomlkit = import_library("tomlkit")
    try:
        tree = tomlkit.parse(data.decode())
    except tomlkit.exceptions.TOMLKitError as error:
        raise Malformed(f"this is no TOML ({error})") from None
    return tree_document([tree], lambda: tomlkit.dumps(tree).encode())


def count_toml(data: bytes) -> Counter[str]:
    return count_values(import_library("tomlkit").parse(data.decode()))


def tree_document(trees: list[Any], serialize: Callable[[], bytes]) -> Document:
    fields = []
    for path, value, node in leaves(trees):
        if type(value) is str and value.lower() in ("yes", "no", "on", "off"):  # for YAML 1.1 these are no texts
            continue
        kind = str if type(value).__module__.startswith("tomlkit") else type(value)  # a style of quotation in YAML

        def save(new: str, node: Any = node, key: Any = path[-1], kind: Any = kind) -> None:
            node[key] = kind(new)

        fields.append(Field(message_parts(str(value)), save))
    return Document(fields, serialize)


def leaves(node: Any, path: tuple[Any, ...] = (), parent: Any = None) -> Iterator[tuple[tuple[Any, ...], str, Any]]:
    """The texts in a tree of dictionaries and lists, in order: their keys, and what contains them."""
    if isinstance(node, str):
        yield path, node, parent
    elif isinstance(node, dict | list):
        for key, value in list(node.items() if isinstance(node, dict) else enumerate(node)):
            yield from leaves(value, (*path, key), node)

"""Write docs/reference/configuration.md from the schema.

The page lists every key with its type, default, meaning, range and paper.

python scripts/config_reference.py          # writes the page; `make docs` does the same
"""

import re
from collections.abc import Iterator
from dataclasses import Field, fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_type_hints

from nmt.config.compose import compose_all
from nmt.config.schema import Config
from nmt.config.validation import as_override, describe_range

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "configuration.md"
MODELS = ("transformer", "luong_global")  # whose values stand for those of their kind
INTRODUCTION = """# Configuration

This page lists every configuration key. Set a value with `GROUP.KEY=VALUE`, and select a file of
`conf/GROUP` with `GROUP=NAME`. The defaults are those of the files that `conf/config.yaml` selects,
and for the models those of `model=transformer` and `model=luong_global`. Other files have other
values; the comments in `conf/model` explain them.

`make docs` generates this page from the schema.
"""


def page() -> str:
    configs = [compose_all([f"model={name}"])[0] for name in MODELS]
    sections = [
        section("The run", "", configs[0], [item for item in fields(Config) if item.metadata])
    ]
    groups = [
        (group, group, getattr(configs[0], group))
        for group in ("data", "tokenizer", "optim", "train", "decode")
    ]
    groups[2:2] = [
        (f"model, kind={config.model.kind}", "model", config.model) for config in configs
    ]
    sections += [
        section(title, f"{group}.", values, list(fields(values))) for title, group, values in groups
    ]
    return "\n".join([INTRODUCTION, *sections])


def section(title: str, prefix: str, values: Any, items: list[Field]) -> str:
    """The docstring of the dataclass and a table of these fields."""
    types = get_type_hints(type(values))
    lines = [
        f"## {title}",
        "",
        str(type(values).__doc__).strip(),
        "",
        "| key | type | default | meaning |",
    ]
    lines += ["| --- | --- | --- | --- |"]
    for item in items:
        cells = [
            f"`{prefix}{item.name}`",
            type_name(types[item.name]),
            default(getattr(values, item.name)),
            "; ".join(meaning(item)),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def type_name(kind: Any) -> str:
    """Such as `int` or `float or null`; what may be a name or a list of names is `text`."""
    if isinstance(kind, UnionType):
        return " or ".join(
            "null" if part is NoneType else type_name(part) for part in get_args(kind)
        )
    return {str: "text", Any: "text or list"}.get(kind, getattr(kind, "__name__", str(kind)))


def default(value: Any) -> str:
    """As the command line writes it."""
    return (
        f"`{as_override(value)}`"
        if not isinstance(value, list)
        else f"`[{', '.join(map(str, value))}]`"
    )


def meaning(item: Field) -> Iterator[str]:
    """Phrases: the field's meaning, its range or choices, what it depends on, and where it is
    from."""
    rules = item.metadata
    # A tag such as <unk> would be read as HTML
    yield re.sub(r"</?\w+>", r"`\g<0>`", rules["meaning"].replace("|", r"\|"))
    if rules["choices"]:
        yield "one of " + ", ".join(f"`{choice}`" for choice in rules["choices"])
    if bounds := describe_range(rules):
        yield bounds
    for key, values in rules["requires"].items():
        yield f"only with `{key}={' or '.join(values)}`"
    if rules["paper"]:
        yield rules["paper"]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

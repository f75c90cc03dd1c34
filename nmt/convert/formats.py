"""The formats of `nmt export`: one table, read by the command's options, help and `for=FORMAT`.

A new format is a subclass of Export (nmt/convert/export.py) in a module of its own, and an entry of
FORMATS. This module imports none of these classes, which takes seconds, so that `nmt --help` is
instant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nmt.convert.export import Export


@dataclass(frozen=True)
class Option:
    """An option that only some formats have; its value becomes a field of their Export."""

    flag: str
    field: str
    metavar: str
    help: str


@dataclass(frozen=True)
class Format:
    """An entry of FORMATS."""

    exporter: str  # MODULE.CLASS, below nmt.convert
    opened_by: str
    quantizations: tuple[str, ...]  # number formats of the weights, default first
    extras: str = ""  # of pyproject.toml, with commas between
    options: tuple[Option, ...] = ()
    output: str = "folder"  # what --output names: a new folder, or a file
    holds_all: bool = False  # every model
    # Placeholders for numbers and addresses are "used" by what opens it, or their code lies
    # "beside" the model, or there is "no place" for it.
    text_filter: str = "used"
    # what for=FORMAT chooses with model=auto
    auto_model: Mapping[str, str] = field(default_factory=dict)

    def load(self) -> type[Export]:
        module, _, name = self.exporter.partition(".")
        exporter: type[Export] = getattr(import_module(f"nmt.convert.{module}"), name)
        return exporter


LICENSE = Option(
    "--license",
    "licence",
    "ID",
    "the model's licence for its card, such as cc-by-sa-4.0 (default: none is named)",
)
PUSH = Option("--push", "repository", "OWNER/NAME", "upload the folder to the Hugging Face hub")
RUNTIME = Option(
    "--onnxruntime-web",
    "archive",
    "FILE",
    "for a machine without npm: the .tgz that `npm pack onnxruntime-web` writes",
)
FORMATS = {
    "ctranslate2": Format(
        "ctranslate2_folder.CTranslate2Export",
        opened_by="CTranslate2",
        quantizations=("float32", "int8", "float16", "bfloat16"),
        extras="ctranslate2",
    ),
    "hf": Format(
        "hugging_face.HuggingFaceExport",
        opened_by="Hugging Face transformers",
        quantizations=("float32",),
        options=(PUSH, LICENSE),
        text_filter="beside",
        auto_model={"model.positions": "sinusoidal"},
    ),
    "onnx": Format(
        "onnx_folder.OnnxExport",
        opened_by="onnxruntime",
        quantizations=("float32", "int8"),
        extras="export",
        holds_all=True,
    ),
    "argos": Format(
        "argos.ArgosExport",
        opened_by="Argos Translate",
        quantizations=("int8", "float32", "float16", "bfloat16"),
        extras="ctranslate2,export",
        options=(LICENSE,),
        text_filter="no place",
    ),
    "html": Format(
        "html_page.HtmlExport",
        opened_by="a browser",
        quantizations=("float16", "float32", "int8"),
        extras="export",
        options=(RUNTIME,),
        output="file",
        holds_all=True,
    ),
}
ALIASES = {"browser": "html"}  # of for=FORMAT


def formats_with(option: Option) -> list[str]:
    """The names of the formats that have an option."""
    return [name for name, format in FORMATS.items() if option in format.options]


def options_of_formats() -> list[Option]:
    """The options of all formats, each once."""
    options = chain.from_iterable(format.options for format in FORMATS.values())
    return list(dict.fromkeys(options))


def quantizations_of_formats() -> list[str]:
    """The number formats of all formats, each once."""
    names = chain.from_iterable(format.quantizations for format in FORMATS.values())
    return list(dict.fromkeys(names))


def hold_every_model() -> str:
    """The sentence for a model that a format cannot hold."""
    names = [f"--format {name}" for name, format in FORMATS.items() if format.holds_all]
    return f"{' and '.join(names)} hold every model."

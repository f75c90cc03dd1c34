"""Imports point one way, by package; each library is imported in one place."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "nmt"
FILES = sorted(PACKAGE.rglob("*.py"))
NAMES = [path.relative_to(PACKAGE).as_posix() for path in FILES]

# A package or module of nmt/ may import those of lower layers, and itself. Those of one layer do not know each other.
LAYERS = {
    "errors": 0,
    "attention": 1,
    "view": 1,
    "config": 2,
    "models": 3,
    "data": 4,
    "decode": 5,
    "evaluate": 6,
    "training": 7,
    "runs": 8,
    "audit": 9,
    "documents": 9,
    "convert": 9,
    "commands": 10,
    "cli": 11,
    "__main__": 12,
}
ANNEXES = {"audit", "documents", "convert"}  # the core does not know them
PUBLIC = "__init__"  # the public names of all layers, imported when they are used; any layer may import it
# It works on plain words and numbers, so that it can be used without the rest of nmt.
STANDALONE = {"view"}
# Which files may import a library.
LIBRARIES = {
    "datasets": r"data/hub(_dataset)?\.py",
    "huggingface_hub": r"(data/hub_dataset|convert/hub_upload)\.py",
    "py3langid": r"data/inspect/identifier\.py",
    "sentencex": r"documents/sentences\.py",
    "markdown_it": r"documents/markdown\.py",
    "translate.storage": r"documents/po\.py",
    "sentencepiece": r"(data/(train_)?tokenizer|convert/argos_pieces)\.py",
    "ctranslate2": r"convert/ctranslate2_model\.py",
    "onnx": r"convert/(onnx_(graphs|folder)|html_page)\.py",
    "onnxruntime": r"convert/onnx_folder\.py",
    "onnxscript": r"convert/onnx_(graphs|rnn)\.py",
    "matplotlib": r"view/.*",
    "tensorboard": r"view/.*",
    "torch.utils.tensorboard": r"view/.*",
    "torch.distributed": r"training/(distributed|gradient_sum)\.py",
    "hydra": r"config/compose\.py",
    "omegaconf": r"config/.*",
}
every_file = pytest.mark.parametrize("path", FILES, ids=NAMES)


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def package_of(path: Path) -> str:
    """The package or top-level module of nmt/ that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of everything a file imports, also inside functions and after `from nmt import`."""
    package = ("nmt", *path.relative_to(PACKAGE).parts[:-1])
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                yield node.lineno, f"{module}.{alias.name}"


def is_within(name: str, module: str) -> bool:
    return name == module or name.startswith(module + ".")


def imported_packages(path: Path) -> Iterator[tuple[int, str]]:
    """(line, package or module) of everything a file imports from nmt/, its public names left out."""
    for line, name in imports(path):
        if is_within(name, "nmt") and name != "nmt":
            package = name.split(".")[1]
            if package in LAYERS or (PACKAGE / package).exists():
                yield line, package


@every_file
def test_every_package_has_a_layer(path):
    package = package_of(path)
    assert package in LAYERS or package == PUBLIC, f"{path.name}: give '{package}' a layer in LAYERS."


@every_file
def test_imports_point_one_way(path):
    package = package_of(path)
    if package == PUBLIC:
        return
    upwards = [
        f"{path.relative_to(ROOT)}:{line} imports {other}"
        for line, other in imported_packages(path)
        if other != package and LAYERS[other] >= LAYERS[package]
    ]
    assert not upwards


def test_public_names_are_imported_when_they_are_used():
    """`import nmt` imports none of its packages, so no import of `nmt` can be a circle."""
    code = "import sys, nmt; print([name for name in sys.modules if name.startswith('nmt.')])"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True).stdout == "[]\n"


@every_file
def test_view_stands_alone(path):
    package = package_of(path)
    if package in STANDALONE:
        assert {other for _, other in imported_packages(path)} <= {package, "errors", "config"}


@every_file
def test_each_library_is_imported_in_one_place(path):
    name = path.relative_to(PACKAGE).as_posix()
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {imported}; only {files} may"
        for line, imported in imports(path)
        for library, files in LIBRARIES.items()
        if is_within(imported, library) and not re.fullmatch(files, name)
    ]
    assert not wrong


@every_file
def test_every_module_has_a_subject(path):
    assert path.stem not in {"util", "utils", "helper", "helpers", "misc", "common"}


@every_file
def test_files_are_read_as_data(path):
    """Checkpoints and data are read as data: no pickle, no eval, no exec, no torch.load."""
    for line, imported in imports(path):
        assert imported.split(".")[0] not in {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve"}, line
    for call in (node for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call)):
        name = ast.unparse(call.func)
        keywords = {word.arg: ast.unparse(word.value) for word in call.keywords}
        assert name not in {"eval", "exec"}, f"line {call.lineno}: {name}"
        assert name != "torch.load", f"line {call.lineno}: tensors are read from .safetensors"
        assert keywords.get("allow_pickle", "False") == "False", f"line {call.lineno}: allow_pickle"
        assert keywords.get("trust_remote_code", "False") == "False", f"line {call.lineno}: trust_remote_code"


def test_no_configuration_names_code():
    for path in (ROOT / "conf").rglob("*.yaml"):
        assert "_target_" not in path.read_text(encoding="utf-8"), path

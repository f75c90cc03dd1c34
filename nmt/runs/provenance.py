"""What a stored result depends on besides its inputs: the code that computes it, and what that code
reads and imports."""

import ast
import hashlib
import sys
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from itertools import filterfalse
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).parents[1]
SHOWS = "nmt.view"  # it draws and prints results, and computes none
# Where the name that is installed is not the name that is imported; a test holds that none is
# missing.
DISTRIBUTIONS = {
    "comet": "unbabel-comet",
    "hydra": "hydra-core",
    "linkify_it": "linkify-it-py",
    "markdown_it": "markdown-it-py",
    "translate": "translate-toolkit",
    "yaml": "PyYAML",
}


class Module(NamedTuple):
    """What a result depends on of one module."""

    code: str  # without comments and docstrings
    imported: frozenset[str]  # modules, and names in modules, which may be modules too
    texts: frozenset[str]  # its constants, among them the names of files that it reads


@cache
def code_digest(entry: str, package: Path = PACKAGE) -> str:
    """A digest of what computes a result in the module `entry`, such as nmt.corpus.corpus.

    It covers the code of `entry` and of all modules of nmt that it imports, directly or not, in
    functions too; the files beside these modules that they name, such as tables; and the versions
    of Python and of the libraries that they import. Comments and docstrings do not count, nor does
    nmt.view, nor do the public names of nmt/__init__.py, which are of all layers.
    """
    digest = hashlib.sha256()
    modules = reachable_modules(entry, package)
    for path, module in sorted(modules.items()):
        digest.update(f"{path.relative_to(package).as_posix()}\n{module.code}\n".encode())
    for path in named_files(modules):
        digest.update(f"{path.relative_to(package).as_posix()}\n".encode() + path.read_bytes())
    for library, version in library_versions(modules).items():
        digest.update(f"{library} {version}\n".encode())
    return digest.hexdigest()[:16]


def reachable_modules(entry: str, package: Path = PACKAGE) -> dict[Path, Module]:
    """A module of nmt and all that it imports, as `code_digest` counts them."""
    modules: dict[Path, Module] = {}
    waiting = [entry]
    seen = {"nmt"}
    while waiting:
        name = waiting.pop()
        if name in seen or f"{name}.".startswith(f"{SHOWS}.") or not name.startswith("nmt."):
            continue
        seen.add(name)
        path = package.joinpath(*name.split(".")[1:])
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if path.is_file():
            modules[path] = read_module(path.read_text(encoding="utf-8"))
            waiting += modules[path].imported
    return modules


@cache
def read_module(source: str) -> Module:
    """What a result depends on of a module with this source."""
    tree = ast.parse(source)
    imported: set[str] = set()
    texts: set[str] = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            body[:] = filterfalse(is_text, body)
        if isinstance(node, ast.Import):
            imported.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported.update(f"{node.module}.{alias.name}" for alias in node.names)
            imported.add(node.module)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.add(node.value)
    return Module(ast.dump(tree), frozenset(imported), frozenset(texts))


def is_text(statement: ast.stmt) -> bool:
    """Whether a statement is a docstring, or a string like one."""
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Constant):
        return False
    return isinstance(statement.value.value, str)


def named_files(modules: dict[Path, Module]) -> Iterator[Path]:
    """The files beside modules that these read.

    Their names, or endings after the module's own name, are in the code of the modules.
    """
    for module, (_, _, texts) in sorted(modules.items()):
        for path in sorted(module.parent.iterdir()):
            is_named = path.name in texts or path.stem == module.stem and path.suffix in texts
            if is_named and path.suffix != ".py" and path.is_file():
                yield path


def library_versions(modules: dict[Path, Module]) -> dict[str, str]:
    """The versions of Python and of all libraries that modules import.

    The name of a build, such as +cpu, is left out.
    """
    # Python has tables of characters too
    versions = {"python": f"{sys.version_info.major}.{sys.version_info.minor}"}
    imported = frozenset[str]().union(*(module.imported for module in modules.values()))
    names = {name.partition(".")[0] for name in imported}
    for library in sorted(names - sys.stdlib_module_names - {"nmt"}):
        versions[library] = library_version(library)
    return versions


@cache
def library_version(library: str) -> str:
    """The version of a library by the name that is imported; empty where it is not installed."""
    try:
        return metadata.version(DISTRIBUTIONS.get(library, library)).partition("+")[0]
    except metadata.PackageNotFoundError:
        return ""

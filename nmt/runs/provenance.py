"""What a stored result depends on besides its inputs: the code that computes it, found through its imports."""

import hashlib
import re
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
# Patterns and not `ast`, which is slower; a test holds that they find what it finds.
FROM = re.compile(r"from (nmt[\w.]*) import (\([^)]*\)|[^\n]*)")
IMPORT = re.compile(r"import (nmt\.[\w.]+)")
COMMENT = re.compile(r"#[^\n]*")
SHOWS = ("nmt.view.", "nmt.view")  # it draws and prints results, and computes none


@cache
def code_digest(entry: str, package: Path = PACKAGE) -> str:
    """A digest of the sources of all modules of nmt that `entry`, such as nmt.data.corpus, imports directly or not.

    Imports inside functions count. nmt.view does not, nor do the public names of nmt/__init__.py, which are of all
    layers.
    """
    digest = hashlib.sha256()
    for name, source in sorted(reachable_sources(entry, package).items()):
        digest.update(f"{name}\n{source}".encode())
    return digest.hexdigest()[:16]


def reachable_sources(entry: str, package: Path = PACKAGE) -> dict[str, str]:
    """By name the sources of a module of nmt and of all that it imports, as `code_digest` counts them."""
    sources: dict[str, str] = {}
    waiting, seen = [entry], {"nmt", *SHOWS}
    while waiting:
        name = waiting.pop()
        if name in seen or name.startswith(SHOWS[0]):
            continue
        seen.add(name)
        path = package.joinpath(*name.split(".")[1:])
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if path.is_file():
            sources[name] = path.read_text(encoding="utf-8")
            waiting += imported_names(sources[name])
    return sources


def imported_names(source: str) -> list[str]:
    """The modules of nmt that a source imports, and the names that it imports from them, which may be modules too."""
    names = IMPORT.findall(source)
    for module, members in FROM.findall(source):
        names += [module, *(f"{module}.{member}" for member in re.findall(r"\w+", COMMENT.sub("", members)))]
    return names

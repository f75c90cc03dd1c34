"""The house stays as it was drawn: imports point one way, each library has one room, files and functions stay small."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "nmt"
FILES = sorted(PACKAGE.rglob("*.py"))
NAMES = [path.relative_to(PACKAGE).as_posix() for path in FILES]

# A room may import from rooms on a smaller floor, and from itself.
FLOORS = {
    "__init__": 0,
    "errors": 0,
    "cpu": 0,
    "files": 1,
    "options": 1,
    "config": 1,
    "attention": 2,
    "config_validation": 4,
    "compose": 5,
    "data": 3,
    "models": 3,
    "decode": 4,
    "evaluate": 3,
    "view": 4,
    "training": 5,
    "export": 5,
    "alignments": 5,
    "results": 5,
    "runs": 6,
    "scoring": 7,
    "pipeline": 8,
    "test_sets": 9,
    "compare": 10,
    "commands": 11,
    "cli": 12,
    "__main__": 13,
}
# These work on plain words and numbers, so that they can be used without the rest of the house.
ALOOF = {"evaluate", "view"}
# Which files may know a library.
HOMES = {
    "datasets": r"data/(corpus|hub)\.py",
    "sentencepiece": r"data/tokenizer\.py",
    "ctranslate2": r"export/ctranslate2_model\.py",
    "matplotlib": r"view/.*",
    "tensorboard": r"view/.*",
    "torch.utils.tensorboard": r"view/.*",
    "hydra": r"compose\.py",
    "omegaconf": r"(config|config_validation|compose)\.py",
}
LONGEST_FUNCTION = 60
LONGEST_FILE = 260
LONGER: dict[str, int] = {}  # a file that must be longer stands here, with the reason

every_file = pytest.mark.parametrize("path", FILES, ids=NAMES)


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def room_of(path: Path) -> str:
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


def floor_of(room: str) -> int:
    return FLOORS.get(room, max(FLOORS.values()))


def imported_rooms(path: Path) -> Iterator[tuple[int, str]]:
    for line, name in imports(path):
        if is_within(name, "nmt") and name != "nmt":
            room = name.split(".")[1]
            yield line, room if room in FLOORS or (PACKAGE / room).exists() else "__init__"


@every_file
def test_every_room_has_a_floor(path):
    assert room_of(path) in FLOORS, f"{path.name}: give '{room_of(path)}' a floor in FLOORS, or put it into a room."


@every_file
def test_imports_point_one_way(path):
    room = room_of(path)
    upwards = [
        f"{path.relative_to(ROOT)}:{line} imports {other}"
        for line, other in imported_rooms(path)
        if other != room and floor_of(other) >= floor_of(room)
    ]
    assert not upwards


@every_file
def test_evaluate_and_view_stand_alone(path):
    room = room_of(path)
    if room in ALOOF:
        assert {other for _, other in imported_rooms(path)} <= {room, "errors", "config", "__init__"}


@every_file
def test_each_library_has_one_home(path):
    name = path.relative_to(PACKAGE).as_posix()
    strays = [
        f"{path.relative_to(ROOT)}:{line} imports {imported}; only {home} may"
        for line, imported in imports(path)
        for library, home in HOMES.items()
        if is_within(imported, library) and not re.fullmatch(home, name)
    ]
    assert not strays


@every_file
def test_files_and_functions_stay_small(path):
    name = path.relative_to(PACKAGE).as_posix()
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= LONGER.get(name, LONGEST_FILE)
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= LONGEST_FUNCTION, f"{name}:{node.lineno} {node.name} has {length} lines"


@every_file
def test_no_attic(path):
    assert path.stem not in {"util", "utils", "helper", "helpers", "misc", "common"}


@every_file
def test_a_file_cannot_carry_code(path):
    """Checkpoints and data are read as data: no pickle, no eval, no exec, weights only."""
    for line, imported in imports(path):
        assert imported.split(".")[0] not in {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve"}, line
    for call in (node for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call)):
        name = ast.unparse(call.func)
        keywords = {word.arg: ast.unparse(word.value) for word in call.keywords}
        assert name not in {"eval", "exec"}, f"line {call.lineno}: {name}"
        assert name != "torch.load" or keywords.get("weights_only") == "True", f"line {call.lineno}: weights_only=True"
        assert keywords.get("allow_pickle", "False") == "False", f"line {call.lineno}: allow_pickle"
        assert keywords.get("trust_remote_code", "False") == "False", f"line {call.lineno}: trust_remote_code"


def test_no_configuration_names_code():
    for path in (ROOT / "conf").rglob("*.yaml"):
        assert "_target_" not in path.read_text(encoding="utf-8"), path

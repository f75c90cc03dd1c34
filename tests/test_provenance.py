"""The key of a stored result changes with all code that computes the result, and with no other."""

import ast
import shutil

import pytest

from nmt.runs.provenance import PACKAGE, code_digest, imported_names, reachable_sources
from nmt.runs.stages import BUILDERS


@pytest.fixture(scope="module")
def digests_after(tmp_path_factory):
    """digests_after(MODULE): the digest of each entry before and after a change of a module in a copied package."""
    copy = tmp_path_factory.mktemp("code") / "nmt"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))

    def change(module: str, entry: str) -> tuple[str, str]:
        path = copy / module
        source = path.read_text(encoding="utf-8")
        before = code_digest.__wrapped__(entry, copy)
        path.write_text(source + "\nADDED = 0.2\n", encoding="utf-8")
        after = code_digest.__wrapped__(entry, copy)
        path.write_text(source, encoding="utf-8")
        return before, after

    return change


@pytest.mark.parametrize("entry", ["nmt.runs.run", "nmt.runs.scoring"])
@pytest.mark.parametrize("module", ["attention/kernels.py", "attention/cpu.py", "data/batches.py", "models/layers.py"])
def test_a_change_of_what_computes_a_score_changes_its_key(digests_after, module, entry):
    before, after = digests_after(module, entry)
    assert before != after


@pytest.mark.parametrize("module", ["view/heatmap.py", "convert/onnx_folder.py", "commands/align.py", "cli.py"])
def test_a_change_of_anything_else_does_not(digests_after, module):
    before, after = digests_after(module, "nmt.runs.scoring")
    assert before == after == code_digest("nmt.runs.scoring")


def test_each_stage_has_the_code_that_builds_it(digests_after):
    for stage, entry in BUILDERS.items():
        before, after = digests_after("data/files.py", entry)
        assert before != after, stage
    before, after = digests_after("models/layers.py", BUILDERS["ids"])
    assert before == after


def test_all_imports_are_found():
    """As `ast` finds them, inside functions and over several lines as well."""
    for path in PACKAGE.rglob("*.py"):
        source, found = path.read_text(encoding="utf-8"), set()
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names if alias.name.startswith("nmt.")}
            elif isinstance(node, ast.ImportFrom):
                assert not node.level, f"{path}: imports are absolute"
                if node.module.split(".")[0] == "nmt":
                    found |= {f"{node.module}.{alias.name}" for alias in node.names}
        assert found <= set(imported_names(source)), path
    assert "nmt.attention.kernels" in reachable_sources("nmt.runs.run")

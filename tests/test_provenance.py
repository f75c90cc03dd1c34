"""The key of a stored result changes with all that computes the result, and with nothing else."""

import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from nmt.runs import provenance
from nmt.runs.provenance import (
    PACKAGE,
    code_digest,
    library_version,
    named_files,
    reachable_modules,
    read_module,
)
from nmt.runs.stages import BUILDERS

SCORES = ("nmt.runs.run", "nmt.runs.scoring")


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A copy of the package that may be changed."""
    copy = tmp_path_factory.mktemp("code") / "nmt"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


@pytest.fixture
def changes(package):
    """changes(FILE, ENTRY, TEXT): whether the digest of an entry is another one when TEXT is added
    to a file."""

    def change(file: str, entry: str, text: str = "\nADDED = 0.2\n") -> bool:
        path = package / file
        content = path.read_bytes()
        before = code_digest.__wrapped__(entry, package)
        path.write_bytes(content + text.encode())
        after = code_digest.__wrapped__(entry, package)
        path.write_bytes(content)
        return before != after

    return change


@pytest.mark.parametrize("entry", SCORES)
@pytest.mark.parametrize(
    "module", ["attention/kernels.py", "attention/cpu.py", "data/batches.py", "models/layers.py"]
)
def test_a_change_of_what_computes_a_score_changes_its_key(changes, module, entry):
    assert changes(module, entry)


@pytest.mark.parametrize(
    "file",
    [
        "view/heatmap.py",
        "convert/onnx_folder.py",
        "commands/align.py",
        "cli.py",
        "corpus/hub.py",
        "audit/meanings.tsv",
    ],
)
def test_a_change_of_anything_else_does_not(changes, file):
    assert not changes(file, "nmt.runs.scoring")


def test_comments_and_docstrings_do_not_count(changes):
    added = '\n# A comment.\n"""A text."""\n'
    assert not changes("models/layers.py", "nmt.runs.scoring", added)
    plain = "class A:\n    def f(self):\n        return 1\n"
    documented = (
        '"""M."""\nclass A:  # c\n    """C."""\n\n    def f(self):\n        "F."\n       '
        " return (1)\n"
    )
    assert (
        read_module(plain).code
        == read_module(documented).code
        != read_module(plain.replace("1", "2")).code
    )


def test_each_stage_has_the_code_that_builds_it(changes):
    for entry in BUILDERS.values():
        assert changes("corpus/files.py", entry)
    assert not changes("models/layers.py", BUILDERS["ids"])


@pytest.mark.parametrize(
    "table, entry",
    [
        ("corpus/inspect/frequent_words.tsv", "nmt.corpus.corpus"),
        ("corpus/multi30k.tsv", "nmt.corpus.corpus"),
        ("corpus/inspect/frequent_words.tsv", "nmt.audit.run"),
        ("audit/meanings.tsv", "nmt.audit.run"),
    ],
)
def test_a_changed_table_changes_the_key_of_what_reads_it(changes, table, entry):
    assert changes(table, entry)


def test_every_table_is_read_by_a_module():
    modules = {
        path: read_module(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")
    }
    assert set(PACKAGE.rglob("*.tsv")) <= set(named_files(modules))


@pytest.mark.parametrize(
    "library, entry",
    [
        ("regex", "nmt.runs.scoring"),
        ("linkify_it", BUILDERS["ids"]),
        ("numpy", "nmt.corpus.corpus"),
        ("sentencepiece", BUILDERS["tokenizer"]),
    ],
)
def test_another_version_of_a_library_changes_the_key(monkeypatch, library, entry):
    before = code_digest.__wrapped__(entry)
    monkeypatch.setattr(
        provenance,
        "library_version",
        lambda name: "0.0" if name == library else library_version(name),
    )
    assert code_digest.__wrapped__(entry) != before


def test_every_library_has_a_version():
    """Where a library's name on import is not that of its package, DISTRIBUTIONS knows it."""
    modules = {
        path: read_module(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")
    }
    libraries = provenance.library_versions(modules)
    assert {"torch", "regex", "linkify_it"} <= libraries.keys()
    assert [name for name, version in libraries.items() if not version and find_spec(name)] == []


def test_imports_in_functions_count(tmp_path):
    for name, text in {
        "a": "def f():\n    from nmt.b import (\n        c,\n    )\n",
        "b/c": "import nmt.d",
        "d": "",
    }.items():
        path = Path(tmp_path, f"{name}.py")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert {path.stem for path in reachable_modules("nmt.a", tmp_path)} == {"a", "c", "d"}

"""The versions of a run: which one a command opens, and what a damaged choice says."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from corpora import Trained, run_command

import nmt
from nmt.errors import UserError
from nmt.runs.folders import find_checkpoint
from nmt.runs.versions import (
    current_folder,
    current_number,
    set_current,
    version_name,
    version_numbers,
    version_of,
)


@pytest.fixture
def versioned(trained: Trained, tmp_path: Path) -> Path:
    """A run with two versions of the same weights, of which the first is current."""
    folder = tmp_path / "runs" / "tiny"
    for target in (folder, folder / "versions" / "2"):
        target.mkdir(parents=True)
        for name in ("best.safetensors", "config.yaml"):
            shutil.copyfile(trained.folder / name, target / name)
    return folder


def test_every_name_opens_one_version(versioned: Path) -> None:
    root = versioned.parent
    first = versioned / "best.safetensors"
    second = versioned / "versions" / "2" / "best.safetensors"
    assert find_checkpoint("tiny", root) == first
    set_current(versioned, 2)
    for name in ("tiny", str(versioned), "latest", "tiny@2", "tiny/versions/2"):
        assert find_checkpoint(name, root) == second, name
    for name in ("tiny@1", f"{versioned}@1", "tiny/versions/1", str(first)):
        assert find_checkpoint(name, root) == first, name
    set_current(versioned, 1)
    assert find_checkpoint("tiny", root) == first
    shutil.copytree(versioned, root / "tiny@2")  # a run that is called so
    assert find_checkpoint("tiny@2", root) == root / "tiny@2" / "best.safetensors"
    assert find_checkpoint("tiny@2@2", root).parts[-4:-1] == ("tiny@2", "versions", "2")


def test_a_version_has_a_name_that_opens_it(versioned: Path) -> None:
    root = versioned.parent
    set_current(versioned, 2)
    run = nmt.load("tiny", run_folder=root)
    assert run.folder == current_folder(versioned)
    assert run.name == "tiny@2" == version_name(run.folder)
    assert nmt.load(run.name, run_folder=root).folder == run.folder
    both = nmt.load("tiny@1", "tiny@2", run_folder=root)
    assert both.folder == root / "tiny+tiny@2"


def test_the_commands_follow(versioned: Path, capfd: pytest.CaptureFixture[str]) -> None:
    set_current(versioned, 2)
    runs = ["--runs", str(versioned.parent)]
    with open(versioned / "train.log", "wb") as file:
        file.truncate(7_000_000)
    files = [path for path in versioned.rglob("*") if path.is_file()]
    cells = run_command(capfd, "list", *runs).out.rstrip("\n").split("\t")
    assert cells[0] == "tiny@2"
    assert cells[5] == f"{sum(path.stat().st_size for path in files) / 1e6:.0f}"  # of all versions
    assert "versions/2" in run_command(capfd, "info", "tiny", *runs).out
    assert "versions/2/best.safetensors\tok" in run_command(capfd, "verify", "tiny", *runs).out
    (versioned / "versions/2/best.safetensors").write_bytes(b"cut short")
    for name in ("tiny", "latest"):
        answer = run_command(capfd, "verify", name, *runs)
        assert answer.code == 2 and "versions/2/best.safetensors" in answer.err


def test_a_folder_may_be_named_from_where_one_is(
    versioned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(versioned / "versions" / "2")
    for name in (".", "../2"):
        folder, number = version_of(Path(name))
        assert (folder.resolve(), number) == (versioned.resolve(), 2)
    monkeypatch.chdir(versioned)
    assert version_of(Path()) == (Path(), 1)
    both = nmt.load("best.safetensors", "versions/2/best.safetensors")
    assert both.folder.parent == versioned.parent


def test_only_numbers_are_versions(versioned: Path) -> None:
    for name in ("02", "x", ".3.tmp", "7", "10"):
        (versioned / "versions" / name).mkdir()
    assert version_numbers(versioned) == [1, 2, 7, 10]
    with pytest.raises(UserError, match=r"versions.7"):
        set_current(versioned, 7)
    assert current_number(versioned) == 1


@pytest.mark.parametrize("content", ["", "0", "-2", "../2", "two", "2 3", "9" * 40, "\x00"])
def test_a_damaged_choice_is_named(
    versioned: Path, content: str, refused: Callable[..., str]
) -> None:
    (versioned / "current").write_text(content, encoding="utf-8")
    assert "current" in refused("translate", "tiny", "Ja.", "--runs", str(versioned.parent))


def test_a_missing_version_is_named(versioned: Path, refused: Callable[..., str]) -> None:
    runs = ["--runs", str(versioned.parent)]
    assert "tiny@9" in refused("translate", "tiny@9", "Ja.", *runs)
    record = versioned / "versions/2/version.json"
    before = record.read_bytes() if record.exists() else b""
    assert "best.safetensors" in refused("rollback", "tiny@9", *runs)
    assert (record.read_bytes() if record.exists() else b"") == before
    (versioned / "versions/2/best.safetensors").unlink()
    for number in ("2", "9"):
        (versioned / "current").write_text(number, encoding="utf-8")
        said = refused("translate", "tiny", "Ja.", *runs)
        assert f"versions/{number}" in said and "`nmt rollback`" in said

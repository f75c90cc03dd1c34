"""Files and folders appear complete or not at all, and leave nothing temporary behind."""

import os
import stat
from pathlib import Path

import pytest

from nmt.corpus.files import atomic_folder, open_atomic, report_write_errors, write_atomic
from nmt.errors import UserError


def test_a_file_is_replaced_at_the_end_only(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    write_atomic(path, "old")
    with open_atomic(path) as file:
        file.write("nëw".encode())
        assert path.read_text() == "old"
    assert path.read_text(encoding="utf-8") == "nëw" and os.listdir(tmp_path) == ["result.json"]


def test_an_interrupted_file_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    write_atomic(path, b"old")
    with pytest.raises(KeyboardInterrupt), open_atomic(path) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["result.json"]


def test_permissions_and_symbolic_links_stay(tmp_path: Path) -> None:
    path = tmp_path / ("name" * 60)
    link = tmp_path / "link"
    plain = tmp_path / "plain"
    plain.touch()
    write_atomic(path, "")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    path.chmod(0o640)
    link.symlink_to(path)
    write_atomic(link, "text")
    assert (
        link.is_symlink()
        and path.read_text() == "text"
        and stat.S_IMODE(path.stat().st_mode) == 0o640
    )


def test_a_device_is_written_to() -> None:
    write_atomic(Path("/dev/null"), "text")
    assert not Path("/dev/null").is_file()


@pytest.mark.parametrize("existing", [False, True], ids=["new", "empty"])
def test_a_folder_appears_at_the_end(tmp_path: Path, existing: bool) -> None:
    folder = tmp_path / "below" / "folder"
    if existing:
        folder.mkdir(parents=True)
    with atomic_folder(folder) as temporary:
        (temporary / "file").write_text("text")
        assert not (folder / "file").exists()
    assert (folder / "file").read_text() == "text" and os.listdir(folder.parent) == ["folder"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, UserError])
def test_an_interrupted_folder_does_not_appear(tmp_path: Path, error: type[BaseException]) -> None:
    with pytest.raises(error), atomic_folder(tmp_path / "folder") as temporary:
        (temporary / "file").write_text("half")
        raise error
    assert not os.listdir(tmp_path)


def test_a_folder_that_another_process_finished_first_stays(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    with atomic_folder(folder) as temporary:
        (temporary / "file").write_text("second")
        with atomic_folder(folder) as other:
            (other / "file").write_text("first")
    assert (folder / "file").read_text() == "first" and os.listdir(tmp_path) == ["folder"]


def test_a_folder_with_content_is_not_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "file").write_text("mine")
    with pytest.raises(UserError, match="folder cannot be written: "), atomic_folder(folder):
        pass
    assert (folder / "file").read_text() == "mine" and os.listdir(tmp_path) == ["folder"]


def test_what_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(UserError, match="Nothing can be written to .*file: "),
        atomic_folder(tmp_path / "file" / "folder"),
    ):
        pass
    with (
        pytest.raises(UserError, match="Cannot write .*missing.*: No such file"),
        report_write_errors(tmp_path),
    ):
        write_atomic(tmp_path / "missing" / "file", "")

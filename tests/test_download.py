"""Downloads from a server that drops connections, sends half of a file, wrong bytes, other versions
and errors."""

import hashlib
import os
import random
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from corpora import pairs, read_set, refused_with, train_report
from pair_files import zipped
from servers import Handler, serving
from test_sources import build

from nmt.corpus import download as downloads
from nmt.corpus.download import download
from nmt.errors import UserError

CONTENT = random.Random(1).randbytes(300_000)
PATH = "/OPUS-Tatoeba/v1/moses/de-en.txt.zip"


class Fallible(Handler):
    """Serves `content`; each request takes the next word of `script`, then all is well. `ranges`:
    what was asked."""

    def do_GET(self) -> None:
        server = self.server
        asked = self.headers["Range"]
        server.ranges.append(asked)
        fault = server.script.pop(0) if server.script else ""
        if fault.isdigit():
            return self.send_error(int(fault))
        if fault == "close":
            return self.connection.shutdown(socket.SHUT_RDWR)
        if fault == "other version":
            server.content = server.content[::-1]
            server.version = '"2"'
        if fault == "shorter version":
            server.content = server.content[:1000]
            server.version = '"2"'
        start = 0
        if asked and self.headers["If-Range"] == server.version and fault != "no ranges":
            start = int(asked.removeprefix("bytes=").rstrip("-"))
        size = len(server.content)
        rest = server.content[start:]
        headers: dict[str, object] = {"ETag": server.version, "Content_Length": len(rest)}
        if start:
            headers["Content_Range"] = f"bytes {start}-{size - 1}/{size}"
        if fault == "no length":
            headers["Content_Length"] = None
        if fault == "half":
            rest = rest[: len(rest) // 2]
        if fault == "flipped":
            rest = rest[:100] + bytes([rest[100] ^ 1]) + rest[101:]
        self.send(rest, 206 if start else 200, **headers)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(downloads, "WAITS", (0, 0, 0, 0, None))
    with serving(Fallible, content=CONTENT, script=[], ranges=[], version='"1"') as running:
        yield running


def get(server: Any, folder: Path, sha256: str | None = None, check=lambda path: None) -> dict:
    about = download(server.url + PATH, folder / "file", check, sha256)
    assert (folder / "file").read_bytes() == server.content
    assert about["sha256"] == hashlib.sha256(server.content).hexdigest()
    return about


@pytest.mark.parametrize(
    ("script", "ranges"),
    [
        ("no length", [None]),
        ("half, close, half", [None, "bytes=150000-", "bytes=150000-", "bytes=225000-"]),
        ("half, no ranges", [None, "bytes=150000-"]),
        ("half, other version", [None, "bytes=150000-"]),
        ("half, shorter version", [None, "bytes=150000-"]),
        ("500, 503, 429, close", [None] * 5),
    ],
)
def test_what_breaks_off_is_continued(server, tmp_path, script, ranges):
    server.script = script.split(", ")
    get(server, tmp_path)
    assert server.ranges == ranges
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("fault", "tries", "part"),
    [("404", 1, "HTTP error 404"), ("close", 5, "(5 tries)"), ("flipped", 5, "instead of")],
)
def test_what_does_not_pass_is_one_sentence(server, tmp_path, fault, tries, part):
    server.script = [fault] * 5
    with refused_with(part):
        get(server, tmp_path, hashlib.sha256(CONTENT).hexdigest())
    assert len(server.ranges) == tries and not list(tmp_path.iterdir())


def archive(sentences: list[tuple[str, str]], **more: str) -> bytes:
    german, english = ("\n".join(side) + "\n" for side in zip(*sentences, strict=True))
    return zipped({"Tatoeba.de-en.de": german, "Tatoeba.de-en.en": english, **more})


def test_opus(server, tmp_path, monkeypatch):
    """A broken download, the wrong bytes, then all of it; a second start needs no server; damage
    since is replaced."""
    server.content = archive(pairs(200), LICENSE="CC-BY\x1b 2.0\nFR")
    server.script = ["half", "flipped"]
    sha256 = hashlib.sha256(server.content).hexdigest()
    folder = build(tmp_path, f"opus:Tatoeba/v1@{sha256}", opus_url=server.url)
    (entry,) = train_report(folder)["origins"]
    assert (entry["url"], entry["license"]) == (server.url + PATH, "CC-BY\\x1b 2.0 FR")
    assert (entry["read"], entry["sha256"]) == (200, sha256)
    requests = len(server.ranges)
    assert build(tmp_path, "opus:Tatoeba/v1", opus_url="http://127.0.0.1:9") == folder
    (file,) = tmp_path.rglob("de-en.txt.zip")
    file.write_bytes(file.read_bytes()[:-1])
    assert build(tmp_path, "opus:Tatoeba/v1", opus_url=server.url) == folder
    assert len(server.ranges) == requests + 1 and file.read_bytes() == server.content
    with pytest.raises(UserError, match=f"instead of {'0' * 64}"):  # of what is there, too
        build(tmp_path, f"opus:Tatoeba/v1@{'0' * 64}", opus_url=server.url)
    sets = [set(read_set(folder, name)) for name in ("train", "valid", "test")]
    assert set.union(*sets) <= set(pairs(200)) and 0 < len(sets[1]) <= len(sets[2]) == 10


OTHER = archive(pairs(50)).replace(b"Tatoeba.de-en.en", b"Tatoeba.de-en.fr")


@pytest.mark.parametrize(
    ("content", "part", "tries"),
    [
        (b"<html>Not here</html>", "is not a zip archive", 5),
        (OTHER, "does not have one file that ends in .de and one in .en", 1),
    ],
    ids=["no zip", "no pair"],
)
def test_opus_gives_something_else(server, tmp_path, content, part, tries):
    server.content = content
    with pytest.raises(UserError) as caught:
        build(tmp_path, "opus:Tatoeba/v1", opus_url=server.url)
    assert part in str(caught.value) and len(server.ranges) == tries
    assert str(tmp_path) not in str(caught.value)  # not the name of a temporary file
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_full_disk_is_no_broken_download(server, tmp_path, monkeypatch):
    def full(file: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    server.content = archive(pairs(50))
    with pytest.raises(UserError, match="No space left"):
        build(tmp_path, "opus:Tatoeba/v1", opus_url=server.url)
    assert len(server.ranges) == 1 and not [path for path in tmp_path.rglob("*") if path.is_file()]

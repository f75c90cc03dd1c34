"""Any data set of the hub: streamed, pinned, and nothing of it is run."""

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest
from corpora import pairs
from test_sources import build

from nmt.errors import UserError

REVISION = "0123456789abcdef0123456789abcdef01234567"
ROWS = [
    {"id": number, "translation": {"de": a, "en": b}} for number, (a, b) in enumerate(pairs(100))
]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A stand-in for the hub's libraries; `asked` are the calls."""
    stand_in = SimpleNamespace(rows=ROWS, asked=[], reachable=True, sha=REVISION)

    def info(self: object, name: str, revision: str | None, timeout: float) -> SimpleNamespace:
        stand_in.asked.append((name, revision))
        if not stand_in.reachable:
            raise ConnectionError("broken\x1b[0m\noff")
        return SimpleNamespace(sha=stand_in.sha, card_data={"license": "cc-by-4.0"})

    def load(name: str, configuration: str | None, **words: object) -> list:
        stand_in.asked.append((name, configuration, words))
        return stand_in.rows

    monkeypatch.setattr("huggingface_hub.HfApi.dataset_info", info)
    monkeypatch.setattr("datasets.load_dataset", load)
    return stand_in


def test_rows_are_streamed_once_and_the_revision_is_pinned(
    hub: SimpleNamespace, tmp_path: Path
) -> None:
    folder = build(tmp_path, "hub:some/set/de-en:part")
    words = {"split": "part", "revision": REVISION, "streaming": True}
    assert hub.asked == [("some/set", None), ("some/set", "de-en", words)]
    (entry,) = json.loads((folder / "report.json").read_text())["audit"]["train"]["origins"]
    assert (entry["read"], entry["revision"], entry["license"]) == (100, REVISION, "cc-by-4.0")
    hub.sha = REVISION[::-1]
    hub.reachable = False
    assert build(tmp_path, "hub:some/set/de-en:part") == folder and len(hub.asked) == 2
    for text in tmp_path.glob("data/downloads/hub/some--set-*/text.de"):
        text.write_text("other\n")
    with pytest.raises(UserError, match="damaged; delete the folder"):
        build(tmp_path, "hub:some/set/de-en:part")
    hub.reachable = True
    build(tmp_path, f"hub:some/set@{REVISION}", valid="hub:some/set:validation", test=None)
    asked = [(name, words["split"]) for name, *_, words in hub.asked[2:] if isinstance(words, dict)]
    assert asked == [("some/set", "train"), ("some/set", "validation")] and hub.asked[2] == (
        "some/set",
        REVISION,
    )


def breaking() -> Iterator[dict]:
    yield from ROWS[:10]
    raise ConnectionError("broken\x1b[0m\noff")


@pytest.mark.parametrize(
    ("fault", "part"),
    [
        ("silent", "pairs came): broken"),
        ("breaks", "pairs came): broken"),
        ("columns", "it has id, x.de, \\x1bx"),
        ("empty", "has no pair of sentences"),
        ("no revision", "names no revision"),
    ],
)
def test_faults_leave_nothing(hub: SimpleNamespace, tmp_path: Path, fault: str, part: str) -> None:
    hub.reachable = fault != "silent"
    hub.sha = None if fault == "no revision" else REVISION
    others = {
        "breaks": breaking(),
        "columns": [{"id": 1, "x": {"de": "a"}, "\x1bx": 1}],
        "empty": [],
    }
    hub.rows = others.get(fault, ROWS)
    with pytest.raises(UserError) as caught:
        build(tmp_path, "hub:some/set")
    assert (
        part in str(caught.value)
        and "\n" not in str(caught.value)
        and "\x1b" not in str(caught.value)
    )
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


class Hub(BaseHTTPRequestHandler):
    """As much of the hub's interface as a data set of one file needs; `files` are those of the data
    set."""

    files: dict[str, bytes] = {}

    def log_message(self, format: str, *words: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        asked = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.answer([entry for entry in self.entries() if entry["path"] in asked])

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/":
            return self.send(b"here")
        if path.startswith("/api/datasets/some/set/tree/"):
            return self.answer(self.entries())
        if path in ("/api/datasets/some/set", f"/api/datasets/some/set/revision/{REVISION}"):
            return self.answer(
                {
                    "_id": "1",
                    "id": "some/set",
                    "sha": REVISION,
                    "cardData": {"license": "mit"},
                    "private": False,
                    "gated": False,
                    "downloads": 0,
                    "likes": 0,
                    "tags": [],
                    "siblings": [{"rfilename": name} for name in self.files],
                }
            )
        name = path.removeprefix(f"/datasets/some/set/resolve/{REVISION}/")
        if name in self.files:
            return self.send(self.files[name])
        self.send_response(404)
        self.send_header("X-Error-Code", "EntryNotFound")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def entries(self) -> list[dict]:
        return [
            {
                "type": "file",
                "path": name,
                "size": len(content),
                "oid": hashlib.sha1(content).hexdigest(),
            }
            for name, content in self.files.items()
        ]

    def answer(self, content: object) -> None:
        self.send(json.dumps(content).encode())

    def send(self, content: bytes) -> None:
        start = 0
        end = len(content)
        if asked := self.headers["Range"]:
            first, _, last = asked.removeprefix("bytes=").partition("-")
            start = int(first)
            end = int(last) + 1 if last else end
        part = content[start:end]
        self.send_response(206 if asked else 200)
        self.send_header("X-Repo-Commit", REVISION)
        self.send_header("ETag", f'"{hashlib.sha1(content).hexdigest()}"')
        self.send_header("Content-Length", str(len(part)))
        if asked:
            self.send_header(
                "Content-Range", f"bytes {start}-{start + len(part) - 1}/{len(content)}"
            )
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(part)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["jsonl", "script"])
def test_the_real_libraries_against_a_hub_on_this_machine(tmp_path: Path, kind: str) -> None:
    """`datasets` and `huggingface_hub` themselves, in a process of their own. A data set's script
    is not run."""
    text = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
    marker = tmp_path / "was-run"
    files = {"README.md": b"---\nlicense: mit\n---\n"}
    files |= (
        {"train.jsonl": text}
        if kind == "jsonl"
        else {"set.py": f"open({str(marker)!r}, 'w')".encode()}
    )
    handler = type("Handler", (Hub,), {"files": files})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        environment = os.environ | {
            "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
            "HF_HOME": str(tmp_path / "hf"),
        }
        environment |= {"HF_HUB_OFFLINE": "0", "HF_DATASETS_TRUST_REMOTE_CODE": "1"}
        words = [
            "data.source=de",
            "data.target=en",
            "data.train=hub:some/set",
            f"data_folder={tmp_path}/data",
        ]
        command = [sys.executable, "-m", "nmt", "download", "data=files", *words]
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=300, check=False
        )
        server.shutdown()
    if kind == "script":
        assert done.returncode == 2 and "Traceback" not in done.stderr and not marker.exists()
        assert "hub:some/set cannot be downloaded" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    (report,) = tmp_path.glob("data/corpus-*/report.json")
    (entry,) = json.loads(report.read_text())["audit"]["train"]["origins"]
    assert (entry["read"], entry["revision"], entry["license"]) == (100, REVISION, "mit")

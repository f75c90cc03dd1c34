"""`nmt export --push` against a stand-in of the hub on the loopback, through the real
huggingface_hub."""

import base64
import hashlib
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from corpora import Trained

ROOT = Path(__file__).resolve().parent.parent
PUSH = """
import sys
from pathlib import Path

from nmt.convert.hugging_face import push
from nmt.errors import UserError

print(push(Path(sys.argv[1]), "me/it"))
try:
    push(Path(sys.argv[1]), "me/refused")
except UserError as error:
    print(error)
"""


class Hub(BaseHTTPRequestHandler):
    """What the hub does when a folder is uploaded; files of a kilobyte and more go to its storage
    of large files."""

    def do_POST(self) -> None:
        server = self.server
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        server.tokens.add(self.headers.get("Authorization"))
        if "/refused/" in self.path:
            return self.answer({"error": "You may not."}, 403)
        if self.path == "/api/repos/create":
            server.created.append(json.loads(body))
            return self.answer({"url": f"{server.address}/me/{server.created[-1]['name']}"})
        if self.path == "/api/validate-yaml":  # of a model card
            return self.answer({"errors": [], "warnings": []})
        if "/preupload/" in self.path:
            modes = {True: "lfs", False: "regular"}
            files = [
                {
                    "path": each["path"],
                    "uploadMode": modes[each["size"] >= 1000],
                    "shouldIgnore": False,
                }
                for each in json.loads(body)["files"]
            ]
            return self.answer({"files": files})
        if self.path.endswith("/info/lfs/objects/batch"):
            objects = [
                {**each, "actions": {"upload": {"href": f"{server.address}/large/{each['oid']}"}}}
                for each in json.loads(body)["objects"]
            ]
            return self.answer({"transfer": "basic", "objects": objects})
        if "/commit/" in self.path:
            server.commits.append([json.loads(line) for line in body.splitlines()])
            return self.answer(
                {
                    "commitUrl": f"{server.address}/me/it/commit/1",
                    "commitOid": "1" * 40,
                    "pullRequestUrl": None,
                }
            )
        return self.answer({}, 404)

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.large[self.path.rpartition("/")[2]] = body
        self.answer({})

    def do_GET(self) -> None:
        self.answer({"id": "me/it", "sha": "0" * 40, "private": True, "siblings": []})

    def answer(self, content: dict, code: int = 200) -> None:
        body = json.dumps(content).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def hub():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.address = f"http://127.0.0.1:{server.server_address[1]}"
    server.large = {}
    server.commits = []
    server.tokens = set()
    server.created = []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def python(hub, home: Path, token: str | None, *words: str) -> subprocess.CompletedProcess:
    """A process of its own, since huggingface_hub reads its variables when it is imported."""
    variables = {
        "HF_ENDPOINT": hub.address,
        "HF_HOME": str(home),
        "HF_HUB_DISABLE_XET": "1",
        "no_proxy": "127.0.0.1",
    }
    variables |= {"HF_TOKEN": token} if token else {}
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("HF_") and "proxy" not in name.lower()
    }
    command = [sys.executable, *words]
    return subprocess.run(
        command, cwd=ROOT, env=kept | variables, capture_output=True, text=True, timeout=120
    )


def test_every_file_arrives_in_one_commit_and_a_refusal_is_one_sentence(hub, tmp_path):
    folder = tmp_path / "made"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(bytes(range(256)) * 20)
    done = python(hub, tmp_path, "hf_secret", "-c", PUSH, str(folder))
    assert done.returncode == 0, done.stderr
    address, refusal = done.stdout.splitlines()
    assert address == f"{hub.address}/me/it" and hub.tokens == {"Bearer hf_secret"}
    assert "hf upload me/refused" in refusal and "hf_secret" not in refusal + done.stderr
    created = hub.created[0]
    assert created["name"] == "it" and created["organization"] == "me"
    # huggingface_hub from 2.0 on
    assert created.get("private") is True or created.get("visibility") == "private"
    (commit,) = hub.commits
    small = {
        each["value"]["path"]: base64.b64decode(each["value"]["content"])
        for each in commit
        if each["key"] == "file"
    }
    large = {
        each["value"]["path"]: hub.large[each["value"]["oid"]]
        for each in commit
        if each["key"] == "lfsFile"
    }
    assert small == {"config.json": b"{}"} and large == {
        "model.safetensors": bytes(range(256)) * 20
    }
    assert all(hashlib.sha256(content).hexdigest() == oid for oid, content in hub.large.items())


@pytest.mark.slow
def test_a_run_is_exported_and_uploaded_by_one_command(hub, trained: Trained, tmp_path):
    """The card names the repository; without a token nothing is exported."""
    words = [
        "-m",
        "nmt",
        "export",
        "tiny",
        "--runs",
        str(trained.runs),
        "--format",
        "hf",
        "--push",
        "me/it",
    ]
    folder = tmp_path / "made"
    words += ["--output", str(folder)]
    refused = python(hub, tmp_path, None, *words)
    assert refused.returncode == 2 and "HF_TOKEN" in refused.stderr and not folder.exists()
    done = python(hub, tmp_path, "hf_secret", *words)
    assert done.returncode == 0 and done.stdout.strip() == f"{hub.address}/me/it", done.stderr
    assert len(hub.commits) == 1
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert card.count('from_pretrained("me/it")') == 2 and 'language: ["de", "en"]' in card

"""`nmt export --push` against a stand-in of the hub on the loopback, through the real
huggingface_hub."""

import base64
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from servers import Handler, hub_environment, serving

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


class Hub(Handler):
    """What the hub does when a folder is uploaded; files of a kilobyte and more go to its storage
    of large files."""

    def do_POST(self) -> None:
        server = self.server
        body = self.body()
        server.tokens.add(self.headers.get("Authorization"))
        if "/refused/" in self.path:
            return self.send_json({"error": "You may not."}, 403)
        if self.path == "/api/repos/create":
            server.created.append(json.loads(body))
            return self.send_json({"url": f"{server.url}/me/{server.created[-1]['name']}"})
        if self.path == "/api/validate-yaml":  # of a model card
            return self.send_json({"errors": [], "warnings": []})
        if "/preupload/" in self.path:
            files = []
            for each in json.loads(body)["files"]:
                mode = "lfs" if each["size"] >= 1000 else "regular"
                files.append({"path": each["path"], "uploadMode": mode, "shouldIgnore": False})
            return self.send_json({"files": files})
        if self.path.endswith("/info/lfs/objects/batch"):
            objects = []
            for each in json.loads(body)["objects"]:
                upload = {"href": f"{server.url}/large/{each['oid']}"}
                objects.append(each | {"actions": {"upload": upload}})
            return self.send_json({"transfer": "basic", "objects": objects})
        if "/commit/" in self.path:
            server.commits.append([json.loads(line) for line in body.splitlines()])
            about = {"commitUrl": f"{server.url}/me/it/commit/1", "commitOid": "1" * 40}
            return self.send_json(about | {"pullRequestUrl": None})
        return self.send_json({}, 404)

    def do_PUT(self) -> None:
        self.server.large[self.path.rpartition("/")[2]] = self.body()
        self.send_json({})

    def do_GET(self) -> None:
        self.send_json({"id": "me/it", "sha": "0" * 40, "private": True, "siblings": []})


@pytest.fixture
def hub():
    with serving(Hub, large={}, commits=[], tokens=set(), created=[]) as server:
        yield server


def python(hub, home: Path, token: str | None, *words: str) -> subprocess.CompletedProcess:
    environment = hub_environment(hub.url, home, **({"HF_TOKEN": token} if token else {}))
    command = [sys.executable, *words]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120
    )


def test_every_file_arrives_in_one_commit_and_a_refusal_is_one_sentence(hub, tmp_path):
    folder = tmp_path / "made"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(bytes(range(256)) * 20)
    done = python(hub, tmp_path, "hf_secret", "-c", PUSH, str(folder))
    assert done.returncode == 0, done.stderr
    address, refusal = done.stdout.splitlines()
    assert address == f"{hub.url}/me/it" and hub.tokens == {"Bearer hf_secret"}
    assert "hf upload me/refused" in refusal and "403" in refusal
    assert "hf_secret" not in refusal + done.stderr
    created = hub.created[0]
    assert created["name"] == "it" and created["organization"] == "me"
    # huggingface_hub from 2.0 on
    assert created.get("private") is True or created.get("visibility") == "private"
    (commit,) = hub.commits
    arrived = {}
    for each in commit:
        value = each["value"]
        if each["key"] == "file":
            arrived[value["path"]] = base64.b64decode(value["content"])
        elif each["key"] == "lfsFile":
            arrived[value["path"]] = hub.large[value["oid"]]
    assert arrived == {path.name: path.read_bytes() for path in folder.iterdir()}
    assert len(hub.large) == 1
    assert all(hashlib.sha256(content).hexdigest() == oid for oid, content in hub.large.items())


@pytest.mark.slow
def test_a_run_is_exported_and_uploaded_by_one_command(hub, trained, tmp_path):
    """The card names the repository; without a token nothing is exported."""
    folder = tmp_path / "made"
    words = ["-m", "nmt", "export", "tiny", "--runs", trained.runs, "--format", "hf"]
    words += ["--push", "me/it", "--output", str(folder)]
    refused = python(hub, tmp_path, None, *words)
    assert refused.returncode == 2 and "HF_TOKEN" in refused.stderr and not folder.exists()
    done = python(hub, tmp_path, "hf_secret", *words)
    assert done.returncode == 0 and done.stdout.strip() == f"{hub.url}/me/it", done.stderr
    assert len(hub.commits) == 1
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert card.count('from_pretrained("me/it")') == 2 and 'language: ["de", "en"]' in card

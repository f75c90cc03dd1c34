"""Any data set of the hub: streamed, pinned, and nothing of it is run."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from corpora import files_config, pairs, refused_with, train_report
from servers import Handler, hub_environment, serving
from test_sources import build

from nmt.corpus.hub import find_data_set
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


def test_rows_are_streamed_once_and_the_revision_is_pinned(hub, tmp_path):
    folder = build(tmp_path, "hub:some/set/de-en:part")
    words = {"split": "part", "revision": REVISION, "streaming": True}
    assert hub.asked == [("some/set", None), ("some/set", "de-en", words)]
    (entry,) = train_report(folder)["origins"]
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


def test_another_revision_keeps_what_is_held_out(hub, tmp_path):
    keys = []
    for word in ("hub:some/set", f"hub:some/set@{REVISION}", f"hub:some/set@{REVISION[::-1]}"):
        keys.append(find_data_set(word, files_config(), tmp_path)().key)
    assert len(set(keys)) == 1
    assert find_data_set("hub:some/other", files_config(), tmp_path)().key != keys[0]


def test_other_columns_are_another_download(hub, tmp_path):
    columns = ["translation.de", "translation.en"]
    for given in (columns, columns[::-1]):
        folder = build(tmp_path, "hub:some/set", columns=given)
        first = ROWS[0]["translation"][given[0].removeprefix("translation.")]
        texts = [path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.de"))]
        assert any(first in text for text in texts)


def breaking() -> Iterator[dict]:
    yield from ROWS[:10]
    raise ConnectionError("broken\x1b[0m\noff")


FAULTS = {  # what is changed in the stand-in, and a part of the sentence
    "silent": ({"reachable": False}, "pairs came): broken"),
    "breaks": ({"rows": None}, "pairs came): broken"),
    "columns": (
        {"rows": [{"id": 1, "x": {"de": "a"}, "\x1bx": 1}]},
        "it has id, x.de, \\x1bx",
    ),
    "empty": ({"rows": []}, "has no pair of sentences"),
    "no revision": ({"sha": None}, "names no revision"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_leave_nothing(hub, tmp_path, fault):
    changes, part = FAULTS[fault]
    vars(hub).update(changes)
    if hub.rows is None:
        hub.rows = breaking()
    with refused_with(part):
        build(tmp_path, "hub:some/set")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


class Hub(Handler):
    """As much of the hub's interface as a data set of one file needs; `files` are those of the data
    set."""

    files: dict[str, bytes] = {}

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        asked = self.body().decode()
        self.send_json([entry for entry in self.entries() if entry["path"] in asked])

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/":
            return self.send(b"here")
        if path.startswith("/api/datasets/some/set/tree/"):
            return self.send_json(self.entries())
        if path in ("/api/datasets/some/set", f"/api/datasets/some/set/revision/{REVISION}"):
            about = {"_id": "1", "id": "some/set", "sha": REVISION, "cardData": {"license": "mit"}}
            about |= {"private": False, "gated": False, "downloads": 0, "likes": 0, "tags": []}
            return self.send_json(
                about | {"siblings": [{"rfilename": name} for name in self.files]}
            )
        name = path.removeprefix(f"/datasets/some/set/resolve/{REVISION}/")
        if name in self.files:
            return self.send_file(self.files[name])
        self.send(b"", 404, X_Error_Code="EntryNotFound")

    def entries(self) -> list[dict]:
        return [
            {"type": "file", "path": name, "size": len(content), "oid": sha1(content)}
            for name, content in self.files.items()
        ]

    def send_file(self, content: bytes) -> None:
        """The file, or the part of it that is asked for."""
        about = {"X_Repo_Commit": REVISION, "ETag": f'"{sha1(content)}"'}
        asked = self.headers["Range"]
        if not asked:
            return self.send(content, **about)
        first, _, last = asked.removeprefix("bytes=").partition("-")
        part = content[int(first) : int(last) + 1 if last else None]
        end = int(first) + len(part) - 1
        self.send(part, 206, Content_Range=f"bytes {first}-{end}/{len(content)}", **about)


def sha1(content: bytes) -> str:
    return hashlib.sha1(content).hexdigest()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["jsonl", "script"])
def test_the_real_libraries_against_a_hub_on_this_machine(tmp_path, kind):
    """`datasets` and `huggingface_hub` themselves, in a process of their own. A data set's script
    is not run."""
    marker = tmp_path / "was-run"
    files = {"README.md": b"---\nlicense: mit\n---\n"}
    if kind == "jsonl":
        files["train.jsonl"] = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
    else:
        files["set.py"] = f"open({str(marker)!r}, 'w')".encode()
    words = ["data=files", "data.source=de", "data.target=en", "data.train=hub:some/set"]
    words += [f"data_folder={tmp_path}/data"]
    with serving(type("Handler", (Hub,), {"files": files})) as server:
        environment = hub_environment(
            server.url, tmp_path / "hf", HF_HUB_OFFLINE="0", HF_DATASETS_TRUST_REMOTE_CODE="1"
        )
        command = [sys.executable, "-m", "nmt", "download", *words]
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=300, check=False
        )
    if kind == "script":
        assert done.returncode == 2 and "Traceback" not in done.stderr and not marker.exists()
        assert "hub:some/set cannot be downloaded" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    (folder,) = tmp_path.glob("data/corpus-*")
    (entry,) = train_report(folder)["origins"]
    assert (entry["read"], entry["revision"], entry["license"]) == (100, REVISION, "mit")

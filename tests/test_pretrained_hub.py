"""Pretrained models of a hub on the loopback, through the real huggingface_hub, and the tutorial of
one."""

import json
import re
import shutil
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from types import SimpleNamespace

import pytest
from corpora import pairs, write_pairs
from servers import hub_environment, serving
from test_hub import REVISION, Hub
from test_pretrained import save_marian
from test_readme import ROOT, commands, words

from nmt.commands.pretrained import possible_starts
from nmt.convert.pretrained.hub import fetch
from nmt.errors import UserError
from nmt.training import checkpoint

MODEL = "Helsinki-NLP/opus-mt-de-en"
# A process of its own, since huggingface_hub reads its variables when it is imported. `mode …` is
# for the server.
PROGRAM = """
import json, os, sys, urllib.request
from nmt import cli

for words in json.loads(sys.argv[1]):
    if words[0] == "mode":
        urllib.request.urlopen(f"{os.environ['HF_ENDPOINT']}/mode/{words[1]}").read()
    else:
        code = cli.main(words)
        print(f"{words[0]}: {code}", file=sys.stderr, flush=True)
"""


class ModelHub(Hub):
    """As `Hub`, of one model; `mode`: "cut" cuts connections amid the weights, "slow" waits there,
    "gone" ends all."""

    mode = ""
    asked = threading.Event()

    def do_GET(self) -> None:
        if self.path.startswith("/mode/"):
            type(self).mode = self.path.removeprefix("/mode/")
            if self.mode == "gone":
                self.server.shutdown()
                self.server.server_close()
            return self.send(b"")
        for theirs, ours in (
            (f"/api/models/{MODEL}", "/api/datasets/some/set"),
            (f"/{MODEL}/resolve", "/datasets/some/set/resolve"),
            ("/revision/main", f"/revision/{REVISION}"),
        ):
            self.path = self.path.replace(theirs, ours)
        return super().do_GET()

    def send_file(self, content: bytes) -> None:
        if not self.mode or self.command != "GET" or "model.safetensors" not in self.path:
            return super().send_file(content)
        self.asked.set()
        self.send(content[:1000], Content_Length=len(content))
        self.wfile.flush()
        time.sleep(20 if self.mode == "slow" else 0)
        self.close_connection = True


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small random Marian model of German and English."""
    folder = tmp_path_factory.mktemp("marian")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        save_marian(folder, [list(side) for side in zip(*pairs(200), strict=True)], [], False)
    path = folder / "tokenizer_config.json"
    about = json.loads(path.read_text("utf-8")) | {"source_lang": "de", "target_lang": "en"}
    path.write_text(json.dumps(about), "utf-8")
    return folder


@pytest.fixture
def hub(folder: Path, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a process that finds the model on the hub."""
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    files["run_me.py"] = b"raise SystemExit"
    files["pytorch_model.bin"] = b"the same weights"
    ModelHub.asked.clear()
    with serving(type("Handler", (ModelHub,), {"files": files})) as server:
        yield hub_environment(server.url, tmp_path / "hf")


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_what_cannot_be_imported_is_refused_before_its_weights_are_downloaded(
    name, tmp_path, monkeypatch
):
    (tmp_path / "config.json").write_text('{"model_type": "t5"}')
    asked: list[str] = []

    def download(repository: str, revision: str | None, allow_patterns: list[str]) -> str:
        asked.extend(allow_patterns)
        return str(tmp_path)

    listed = SimpleNamespace(siblings=[SimpleNamespace(rfilename=name)])
    hub = SimpleNamespace(model_info=lambda name, revision: listed)
    monkeypatch.setattr("huggingface_hub.HfApi", lambda: hub)
    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    with pytest.raises(UserError, match="hf:a/b cannot be imported: .*'t5'"):
        fetch("hf:a/b")
    assert "config.json" in asked
    assert not any(fnmatch(name, pattern) for pattern in asked)


INDEX = "model.safetensors.index.json"


@pytest.mark.parametrize(
    ("listed", "wanted"),
    [
        (["model.safetensors", "pytorch_model.bin"], ["model.safetensors"]),
        (["pytorch_model.bin"], ["pytorch_model.bin"]),
        ([INDEX, "pytorch_model.bin", "a.safetensors", "b.safetensors"], ["a.safetensors"]),
    ],
)
def test_weights_are_downloaded_in_one_form(listed, wanted, tmp_path, monkeypatch):
    """Safetensors where there are some; of an index those that it names."""
    shards = json.dumps({"weight_map": {"x": "a.safetensors"}})
    (tmp_path / INDEX).write_text(shards, "utf-8")
    asked: list[list[str]] = []

    def download(repository: str, revision: str | None, allow_patterns: list[str]) -> str:
        asked.append(allow_patterns)
        return str(tmp_path)

    files = [SimpleNamespace(rfilename=name) for name in ["config.json", *listed]]
    hub = SimpleNamespace(model_info=lambda name, revision: SimpleNamespace(siblings=files))
    monkeypatch.setattr("huggingface_hub.HfApi", lambda: hub)
    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    monkeypatch.setattr("nmt.convert.pretrained.hub.check_folder", lambda folder: {})
    fetch("hf:a/b")
    small, all_files = asked
    assert not [name for name in listed if any(fnmatch(name, each) for each in small[:-1])]
    weights = [name for name in listed if name != INDEX]
    assert [name for name in weights if any(fnmatch(name, each) for each in all_files)] == wanted


def start(lines: list[list[str]], environment: dict[str, str], folder: Path) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, json.dumps(lines)],
        cwd=folder,
        env=environment,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.slow
def test_a_model_of_the_hub_is_imported_whatever_happens(hub, tmp_path):
    """A connection that is cut and a kill leave no run; later it is there, with its revision, and
    without a network."""
    source = f"hf:{MODEL}@{REVISION}"
    killed = start([["mode", "slow"], ["import", source, "--name", "opus"]], hub, tmp_path)
    assert ModelHub.asked.wait(60)
    killed.kill()
    killed.communicate()
    assert not (tmp_path / "runs/opus").exists()
    write_pairs(tmp_path, "text", pairs(80))
    train = [
        "train",
        f"from={source}",
        "data.train=text",
        "data.split_size=5",
        "train.max_steps=4",
        "name=mine",
    ]
    lines = [
        ["mode", "cut"],
        ["import", source, "--name", "opus"],
        ["mode", ""],
        ["import", f"hf:{MODEL}", "--name", "opus"],
        ["mode", "gone"],
        ["import", f"hf:{MODEL}", "--name", "again"],
        train,
        ["translate", source, "Das Mädchen sieht einen Apfel."],
        ["import", "hf:some/other", "--name", "other"],
    ]
    process = start(lines, hub, tmp_path)
    out, err = process.communicate(timeout=120)
    codes = [line for line in err.splitlines() if re.fullmatch(r"\w+: \d", line)]
    wanted = ["import: 2", "import: 0", "import: 0", "train: 0", "translate: 0", "import: 2"]
    assert codes == wanted and "Traceback" not in err, err
    assert err.count("cannot be downloaded") == 2 and f"{source} cannot be downloaded" in err
    name = f"opus-mt-de-en-{REVISION}"
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {"opus", "again", name, "mine"}
    for run in ("opus", "again", name):
        payload = checkpoint.load(tmp_path / "runs" / run / "best.safetensors", with_tensors=False)
        assert payload["origin"] == f"imported from hf:{MODEL}@{REVISION}"
        assert (payload["config"]["data"]["source"], payload["config"]["data"]["target"]) == (
            "de",
            "en",
        )
    assert checkpoint.load(tmp_path / "runs/mine/best.safetensors")["parent"][
        "checkpoint"
    ].startswith(name)
    assert not [*tmp_path.rglob("run_me.py"), *tmp_path.rglob("pytorch_model.bin")]


@pytest.mark.slow
def test_the_tutorial(hub, tmp_path):
    """Each of its commands, in its order, with a small model and a memory of our own."""
    pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed; `make test` brings it")
    sentence_pairs = pairs(300)
    write_pairs(tmp_path, "everyday", sentence_pairs[:12])
    (tmp_path / "manual.html").write_text(
        "<p>Das Mädchen sieht einen Apfel.</p>\n", encoding="utf-8"
    )
    units = "".join(
        f'<tu><tuv xml:lang="de"><seg>{german}</seg></tuv><tuv '
        f'xml:lang="en"><seg>{english}</seg></tuv></tu>'
        for german, english in sentence_pairs[12:]
    )
    (tmp_path / "memory.tmx").write_text(
        f'<tmx version="1.4"><body>{units}</body></tmx>', encoding="utf-8"
    )
    lines = [
        words(line)[1:]
        for line in commands(ROOT / "docs/tutorials/your-domain.md")
        if line.startswith("nmt ")
    ]
    lines = [
        [*line, "train.max_steps=8", "data.split_size=6"] if line[0] == "train" else line
        for line in lines
    ]
    process = start(lines, hub, tmp_path)
    out, err = process.communicate(timeout=240)
    codes = [line for line in err.splitlines() if re.fullmatch(r"\w+: \d", line)]
    assert codes == [f"{line[0]}: 0" for line in lines], err
    assert {"import", "audit", "train", "evaluate", "align", "export"} <= {
        line[0] for line in lines
    }
    assert (tmp_path / "links.html").exists() and (tmp_path / "my-translator/model.bin").exists()


def test_a_start_from_what_is_on_this_computer_is_suggested(folder, tmp_path, monkeypatch):
    """Of the models in the hub's cache, those whose weights are there and that have both
    languages."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    cached = tmp_path / f"models--{MODEL.replace('/', '--')}" / "snapshots" / REVISION
    shutil.copytree(folder, cached)
    (cached / "tokenizer_config.json").write_text(
        '{"source_lang": "de", "target_lang": "en"}', encoding="utf-8"
    )
    assert list(possible_starts("deu", "en", tmp_path)) == [f"hf:{MODEL}"]
    assert list(possible_starts("en", "de", tmp_path)) == []
    for weights in cached.glob("*.safetensors"):
        weights.unlink()
    assert list(possible_starts("de", "en", tmp_path)) == []

"""The tutorial of an evening and the next day, command by command, while others ask the service."""

import json
import re
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from corpora import SMALL, TRAINED, TRANSFORMER, environment, last_of_each_key, pairs
from pair_files import tmx_of
from servers import BROUGHT
from test_learning import STRONG, wanted
from test_readme import ROOT, commands, words
from test_serve import running

PAGE = ROOT / "docs" / "tutorials" / "next-day.md"
CORRECTIONS = 200
UNCORRECTED = ["Der Hund schläft.", "Das rote Haus ist alt."]
ADDRESS = "http://127.0.0.1:5000/"  # on the page
# of a small training, in place of one of half an hour
SMALL_TRAINING = last_of_each_key(*TRANSFORMER, *SMALL, *TRAINED[1:], "train.max_steps=400")
# what people want contradicts the memory, so its test set must lose
MORE_WORDS = {"train": SMALL_TRAINING, "learn": [*STRONG, "--margin", "100"]}


class Asking(threading.Thread):
    """Asks for the same translations all the time; notes each version that answers, and errors.

    It begins and ends with the block of `with`.
    """

    def __init__(self, address: str, key: str, texts: list[str]) -> None:
        super().__init__(daemon=True)
        httpx2 = pytest.importorskip("httpx2", reason=BROUGHT)
        self.client = httpx2.Client(base_url=address, timeout=60)
        self.body = {"q": texts, "source": "de", "target": "en", "api_key": key}
        self.versions: list[str] = []  # in order, each change of them
        self.texts: dict[str, list[str]] = {}  # the newest translations of each version
        self.errors: list[str] = []
        self.is_over = False

    def run(self) -> None:
        while not self.is_over:
            try:
                self.ask()
            except Exception as error:
                self.errors.append(repr(error))
            time.sleep(0.2)
        self.client.close()

    def ask(self) -> None:
        answer = self.client.post("/translate", json=self.body)
        assert answer.status_code == 200, answer.text
        fields = answer.json()
        [version] = set(fields["version"])
        if [version] != self.versions[-1:]:
            self.versions.append(version)
        self.texts[version] = fields["translatedText"]

    def __enter__(self) -> "Asking":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.is_over = True
        self.join()

    def wait_for(self, version: str) -> None:
        wait(lambda: self.versions[-1:] == [version])


def wait(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_an_evening_and_the_next_day(tmp_path, monkeypatch):
    """No request fails, the service follows to the version that has learnt, and back again."""
    monkeypatch.chdir(tmp_path)
    Path("memory.tmx").write_text(tmx_of(pairs(300)), encoding="utf-8")
    corrected = wanted(CORRECTIONS)
    for name, rows in (("anna", corrected[::2]), ("ben", corrected[1::2])):
        lines = "".join(f"{source}\t{target}\n" for source, target in rows)
        Path(f"{name}.tsv").write_text(lines, encoding="utf-8")
    [script] = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.M | re.S)
    lines = commands(PAGE)
    [serve] = [line for line in lines if line.startswith("nmt serve office")]
    evening = lines[: lines.index(serve)]
    day = lines[lines.index(serve) + 1 :]

    for line in evening:
        call(line)
    key = Path("ben.key").read_text().strip()
    with (
        running("office", "runs", *words(serve)[3:]) as (_, address),
        Asking(address, key, UNCORRECTED) as asking,
    ):
        Path("send.py").write_text(script.replace(ADDRESS, address), encoding="utf-8")
        answers = []
        for line in day:
            output = call(line.replace(ADDRESS, address))
            if line.startswith("curl"):
                answers.append(json.loads(output))
            elif line.startswith("nmt corrections list"):
                states = [row.split("\t")[1] for row in output.splitlines()]
                assert Counter(states) == {"accepted": 100, "waiting": 100}
            elif line.startswith("nmt learn"):
                assert "current\t2" in output.splitlines(), output
                asking.wait_for("2")
            elif line.startswith("nmt info"):
                versions = [row for row in output.splitlines() if row.startswith("version\t")]
                assert len(versions) == 2 and "2 (current) from 1; Better" in versions[1]
        first = asking.texts["1"]
        asking.wait_for("1")
    assert [answer["version"] for answer in answers] == ["1", "2"]
    assert asking.versions == ["1", "2", "1"] and not asking.errors
    assert asking.texts["1"] == first


def call(line: str) -> str:
    """Run a command of the page in a shell; what it prints."""
    more = MORE_WORDS.get(words(line)[1], [])
    line = re.sub("^(nmt|python) ", lambda match: f"{INTERPRETERS[match[1]]} ", line)
    process = subprocess.run(
        " ".join([line, *more]),
        shell=True,
        env=environment() | {"no_proxy": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert process.returncode == 0, f"{line}\n{process.stderr}"
    return process.stdout


INTERPRETERS = {"python": sys.executable, "nmt": f"{sys.executable} -m nmt"}

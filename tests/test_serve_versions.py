"""nmt serve follows the versions of its runs: no request fails, and no answer mixes two."""

import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from corpora import Trained, environment, pairs
from servers import BROUGHT
from test_serve import Client, error_of, running

from nmt.commands import serve as command
from nmt.errors import UserError
from nmt.runs.run import Run, load
from nmt.runs.versions import current_number, set_current
from nmt.serve import app, models, service
from nmt.training import checkpoint

SOURCES = [source for source, _ in pairs(16, seed=9)]
GERMAN = "Der Mann liest heute ein Buch."
FRENCH = "Où est la gare, s'il vous plaît ?"
SHORT = 14  # characters; a translation has more, and two pieces have fewer


@pytest.fixture(scope="module")
def run(trained: Trained) -> Run:
    return load([trained.folder / "best.safetensors"])


def from_languages(run: Run, source: str) -> Run:
    """The run, as if it had been trained for these source languages."""
    return replace(run, config=replace(run.config, data=replace(run.config.data, source=source)))


class Versions:
    """A run whose version N begins every translation with the number N; one may be broken."""

    def __init__(self, run: Run) -> None:
        self.run = from_languages(run, "de+fr")
        self.current = 1
        self.opened = Counter[int]()
        self.broken: Callable[[], Run] | None = None

    def find(self, name: str) -> list[Path]:
        if self.current == 0:
            raise UserError("current is not a number.")
        folder = Path(name) if self.current == 1 else Path(name, "versions", str(self.current))
        return [folder / "best.safetensors"]

    def open_run(self, paths: list[Path]) -> Run:
        number = self.current
        self.opened[number] += 1
        if number == 3 and self.broken:
            return self.broken()
        return self.run.with_prefix(f"{number}")


@pytest.fixture
def versions(run: Run) -> Versions:
    return Versions(run)


@pytest.fixture
def client(versions, monkeypatch):
    """A client of a service that follows at once."""
    monkeypatch.setattr(service, "FOLLOW_SECONDS", 0.01)
    opened = models.Models(["tiny"], versions.find, versions.open_run)
    with Client(app.make_app(service.Service(opened, service.Limits()))) as client:
        yield client


def translating_threads() -> int:
    return sum(thread.name == "nmt-translate" for thread in threading.enumerate())


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not happen within half a minute")


def test_a_request_keeps_the_version_that_it_began_with(client, versions, monkeypatch):
    """Texts in two languages, which are translated one after the other; between them the version
    changes, and another request ends. The old version ends with its last request."""
    (old,) = client.service.models.loaded
    submit = old.queues.submit
    held: list[tuple[Future, list]] = []

    def hold(sentences):
        if len(held) == 2:
            return submit(sentences)
        held.append((Future(), sentences))
        return held[-1][0]

    monkeypatch.setattr(old.queues, "submit", hold)
    with ThreadPoolExecutor(2) as pool:
        begun = pool.submit(client.translate, [GERMAN, FRENCH], source="auto")
        wait_for(lambda: held)
        other = pool.submit(client.translate, GERMAN)
        wait_for(lambda: len(held) == 2)
        assert client.translate(GERMAN).json()["version"] == "1"  # ends before the first one
        versions.current = 2
        wait_for(lambda: client.service.models.loaded[0] is not old)
        answer = client.translate(GERMAN).json()
        assert answer["version"] == "2" and answer["translatedText"].startswith("2")
        assert old.queues.short.thread.is_alive()
        for (future, sentences), request in zip(reversed(held), (other, begun), strict=True):
            future.set_result(submit(sentences).result())
            answer = request.result().json()
    assert other.result().json()["version"] == "1"
    assert answer["version"] == ["1", "1"]
    assert [text[0] for text in answer["translatedText"]] == ["1", "1"]
    wait_for(lambda: not any(batcher.thread.is_alive() for batcher in old.queues.both))
    loaded = 'nmt_model{{pair="de-en",run="tiny",version="{}"}} 1.0'
    metrics = client.get("/metrics").text
    assert loaded.format(2) in metrics and loaded.format(1) not in metrics
    url = client.translate_file("a.txt", GERMAN.encode()).json()
    assert url["version"] == "2"
    markup = client.translate(f"<p>{GERMAN}</p>", format="html").json()
    assert markup["version"] == "2"


def test_the_languages_of_a_request_share_its_seconds(client, monkeypatch):
    """Each would be translated in time."""
    monkeypatch.setattr(client.service.limits, "seconds", 1)
    monkeypatch.setattr(service, "POLL_SECONDS", 0)
    (model,) = client.service.models.loaded
    submit = model.queues.submit

    def submit_slowly(sentences):
        time.sleep(0.6)
        return submit(sentences)

    monkeypatch.setattr(model.queues, "submit", submit_slowly)
    answer = client.translate([GERMAN, FRENCH], source="auto")
    assert "within 1 seconds" in error_of(answer, 503)


def test_a_version_that_was_replaced_is_not_kept_in_memory(client, versions):
    old = weakref.ref(client.service.models.loaded[0])
    assert client.translate([GERMAN, FRENCH], source="auto").status_code == 200
    versions.current = 2
    wait_for(lambda: client.translate(GERMAN).json()["version"] == "2")

    def is_gone() -> bool:
        gc.collect()
        return old() is None

    wait_for(is_gone)


def no_memory() -> Run:
    raise MemoryError


def damaged() -> Run:
    raise UserError("best.safetensors is damaged.")


@pytest.mark.parametrize("fault", ["damaged", "no memory", "cannot translate", "languages", "lost"])
def test_a_version_that_cannot_be_loaded_changes_nothing(client, versions, monkeypatch, run, fault):
    """It is said once; after the next version, or SIGHUP, it is tried again."""

    def fails() -> Run:
        return replace(run, translator=SimpleNamespace())

    faults = {
        "damaged": damaged,
        "no memory": no_memory,
        "cannot translate": fails,
        "languages": lambda: from_languages(run, "de+es"),
        "lost": None,
    }
    versions.broken = faults[fault]
    before = translating_threads()
    errors = []
    monkeypatch.setattr(models.log, "error", lambda text, *words: errors.append(text % words))
    versions.current = 0 if fault == "lost" else 3
    wait_for(lambda: errors)
    time.sleep(0.1)
    assert len(errors) == 1 and "version 1 goes on" in errors[0]
    assert client.translate(GERMAN).json()["version"] == "1"
    assert len(client.service.models.loaded) == 1 and translating_threads() == before
    client.service.hang_ups.append(signal.SIGHUP)
    wait_for(lambda: len(errors) == 2)
    versions.broken = None
    versions.current = 3
    client.service.hang_ups.append(signal.SIGHUP)
    wait_for(lambda: client.translate(GERMAN).json()["version"] == "3")


@pytest.fixture
def of_languages(run, monkeypatch):
    """of_languages(LANGUAGES, most, too_large) → the models of a run for each language, and how
    often each was loaded."""
    opened = Counter[str]()

    def load_config(path):
        return from_languages(run, path.parent.name).config

    def make(languages: list[str], most: int, too_large: str = ""):
        def open_run(paths):
            language = paths[0].parent.name
            opened[language] += 1
            if language == too_large:
                raise MemoryError
            return from_languages(run, language).with_prefix(language)

        monkeypatch.setattr(models, "load_config", load_config)
        return models.Models(languages, lambda name: [Path(name, "best")], open_run, most), opened

    return make


def test_runs_are_loaded_when_they_are_used_and_dropped_when_they_are_not(of_languages):
    """The two that were used last are in memory; every request is answered."""
    languages = ["de", "fr", "es"]
    shared, opened = of_languages(languages, most=2)
    assert opened == {"de": 1, "fr": 1}
    used = ["fr", "de"]
    with Client(app.make_app(service.Service(shared, service.Limits()))) as client:
        assert len(client.get("/languages").json()) == 4
        for language in random.Random(1).choices(languages, k=12):
            before = opened[language]
            is_loaded = language in used[:2]
            answer = client.translate(GERMAN, source=language).json()
            assert answer["translatedText"].startswith(language)
            assert opened[language] == before + (not is_loaded)
            used = [language, *(other for other in used if other != language)]
            in_memory = {served.name for served in shared.runs if served.model}
            assert in_memory == set(used[:2])
        # all three at once: each is in use, and the third goes when the request has ended
        answer = client.translate([GERMAN, FRENCH, "¿Dónde está la estación?"], source="auto")
        assert [text[:2] for text in answer.json()["translatedText"]] == languages
        assert len(shared.loaded) == 2


def test_a_run_that_could_not_be_loaded_is_tried_again_after_a_while(of_languages, monkeypatch):
    found, opened = of_languages(["de", "fr"], most=1, too_large="fr")
    with Client(app.make_app(service.Service(found, service.Limits()))) as client:
        for _ in range(2):
            assert client.translate(FRENCH, source="fr").status_code == 503
        assert opened["fr"] == 1
        monkeypatch.setattr(models, "RETRY_SECONDS", 0)
        client.translate(FRENCH, source="fr")
        assert opened["fr"] == 2


def test_two_runs_do_not_translate_the_same(run):
    with pytest.raises(UserError, match="b translates de-en, as a run before it"):
        models.Models(["a", "b"], lambda name: [Path(name, "best")], lambda paths: run)


def test_health_says_whether_a_text_would_be_answered(client, monkeypatch):
    """Also after a failure that is over, without another request."""
    (model,) = client.service.models.loaded
    assert client.get("/health").status_code == 200

    def fail(sentences):
        raise RuntimeError("CUDA error")

    with monkeypatch.context() as patch:
        patch.setattr(model.queues.short, "translate", fail)
        failing = Client(client.app, raise_server_exceptions=False)
        assert failing.translate(GERMAN).status_code == 500
        answer = client.get("/health")
        assert answer.status_code == 503 and "fails" in answer.json()["status"]
    assert client.get("/health").status_code == 200
    client.service.stop()
    assert client.get("/health").status_code == 503


def test_a_hang_up_reads_the_memory_again(versions, monkeypatch, tmp_path):
    """A file that cannot be read changes nothing but the log."""
    monkeypatch.setattr(service, "FOLLOW_SECONDS", 0.01)
    path = tmp_path / "memory.tsv"
    path.write_text("de\ten\nGestern.\tYesterday.\n", encoding="utf-8")
    files = [(path, versions.run.config.data)]
    opened = models.Models(["tiny"], versions.find, versions.open_run)
    made = service.Service(
        opened,
        service.Limits(),
        units=command.open_memories(files),
        reread_units=partial(command.open_memories, files),
    )
    errors = []
    monkeypatch.setattr(command.log, "error", lambda text, *words: errors.append(text % words))
    with Client(app.make_app(made)) as client:

        def answer() -> str:
            return client.translate("Gestern.").json()["translatedText"]

        assert answer() == "Yesterday."
        path.write_text("de\ten\nDas\u00a0war  gestern.\tX\nGestern.\tThe day before.\n", "utf-8")
        made.hang_ups.append(signal.SIGHUP)
        wait_for(lambda: answer() == "The day before.")
        for text in ("Das war gestern.", "Das\u202fwar \u00a0gestern."):
            assert client.translate(text).json()["translatedText"] == "X"
        path.unlink()
        made.hang_ups.append(signal.SIGHUP)
        wait_for(lambda: errors)
        assert len(errors) == 1 and "memory.tsv" in errors[0]
        assert answer() == "The day before."
    with pytest.raises(UserError, match="memory.tsv"):
        command.open_memories([(path, from_languages(versions.run, "de").config.data)])


# --------------------------------------------------------------------------------------------------
# The command


@pytest.fixture(scope="module")
def runs(trained: Trained, tmp_path_factory) -> Path:
    """A folder with the run `tiny`, whose version 2 writes two pieces at most."""
    folder = tmp_path_factory.mktemp("versions") / "tiny"
    (folder / "versions" / "2").mkdir(parents=True)
    payload = checkpoint.load(trained.folder / "best.safetensors")
    checkpoint.save(folder / "best.safetensors", payload)
    payload["config"]["decode"] |= {"max_length_ratio": 0.01, "max_length_extra": 1}
    checkpoint.save(folder / "versions" / "2" / "best.safetensors", payload)
    return folder.parent


def version_of(answer: dict) -> str:
    """The version of an answer, all of whose texts are its own."""
    (version,) = set(answer["version"])
    texts = answer["translatedText"]
    assert len(texts) == len(SOURCES)
    assert {len(text) < SHORT for text in texts} == {version == "2"}, answer
    return version


@pytest.mark.slow
def test_versions_change_under_load(runs):
    """16 clients, with a new version every few seconds: every request is answered, and by one
    version. Then the service ends without a traceback."""
    httpx2 = pytest.importorskip("httpx2", reason=BROUGHT)
    set_current(runs / "tiny", 1)
    with running("tiny", runs) as (server, address):
        end = time.monotonic() + 30

        def ask(_: int) -> Counter[str]:
            found = Counter[str]()
            with httpx2.Client(base_url=address, timeout=60) as client:
                while time.monotonic() < end:
                    body = {"q": SOURCES, "source": "de", "target": "en"}
                    answer = client.post("/translate", json=body)
                    assert answer.status_code == 200, answer.text
                    found[version_of(answer.json())] += 1
            return found

        with ThreadPoolExecutor(16) as pool:
            asking = pool.map(ask, range(16))
            number = 1
            while time.monotonic() < end:
                time.sleep(4)
                number = 3 - number
                set_current(runs / "tiny", number)
            answered = sum(asking, Counter())
        assert min(answered["1"], answered["2"]) > 16
        server.send_signal(signal.SIGTERM)
        assert server.wait(90) == 0
        log = server.stderr.read()
        assert log.count("translates from now on") > 1 and "Traceback" not in log


TOGGLE = """
import itertools, pathlib, sys
from nmt.runs.versions import set_current
for number in itertools.cycle([1, 2]):
    set_current(pathlib.Path(sys.argv[1]), number)
    print(number, flush=True)
"""


@pytest.mark.slow
def test_a_service_that_was_killed_during_a_swap_starts_with_one_whole_version(runs):
    """And so does the one that changes the version."""
    httpx2 = pytest.importorskip("httpx2", reason=BROUGHT)
    set_current(runs / "tiny", 1)
    chosen = random.Random(1)
    for _ in range(5):
        command = [sys.executable, "-c", TOGGLE, str(runs / "tiny")]
        with running("tiny", runs) as (server, address):
            body = {"q": SOURCES, "source": "de", "target": "en"}
            version_of(httpx2.post(f"{address}translate", json=body, timeout=60).json())
            with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment()) as toggling:
                toggling.stdout.readline()
                time.sleep(chosen.uniform(0, 3))
                os.kill(server.pid, signal.SIGKILL)
                toggling.kill()
        assert current_number(runs / "tiny") in (1, 2)

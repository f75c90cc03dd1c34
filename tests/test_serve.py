"""nmt serve: the API of LibreTranslate, its limits and keys; sentences of several clients are
translated together."""

import hashlib
import io
import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from chromium import Browser, find_chromium
from corpora import Trained, environment, pairs, run_command
from test_readme import commands

from nmt.documents.translation import sentence_spans
from nmt.runs.run import load

BROUGHT = "it is not installed; the environment of `make test` brings it"
app = pytest.importorskip("nmt.serve.app", reason=BROUGHT)
TestClient = pytest.importorskip("starlette.testclient", reason=BROUGHT).TestClient
pytest.importorskip("uvicorn", reason=BROUGHT)
pytest.importorskip("sentencex", reason=BROUGHT)
batching = pytest.importorskip("nmt.serve.batching")
clients = pytest.importorskip("nmt.serve.clients")
kept_files = pytest.importorskip("nmt.serve.kept_files")
service = pytest.importorskip("nmt.serve.service")
translation = pytest.importorskip("nmt.serve.translation")
Batcher = batching.Batcher
Full = batching.Full
Queues = batching.Queues
Sentence = batching.Sentence
Limits = service.Limits

TUTORIAL = Path(__file__).parents[1] / "docs/tutorials/your-own-pairs.md"
SOURCES = [source for source, _ in pairs(6, seed=9)]


@pytest.fixture(scope="module")
def run(trained: Trained):
    return load([trained.folder / "best.safetensors"], beam=3)


@pytest.fixture(scope="module")
def make_client(run):
    """make_client(limits, keys, origins) → a client of a service of the small run."""
    queues = Queues(run.translator, (threading.Lock(), threading.Lock()))

    def make(limits=None, keys=None, origins=()):
        shared = service.Service(service.pairs_of(run, queues), limits or Limits(), keys, origins)
        return TestClient(app.make_app(shared), raise_server_exceptions=False)

    yield make
    queues.close()


@pytest.fixture(scope="module")
def client(make_client):
    return make_client()


def translated(run, *sentences: str) -> list[str]:
    return [each.text for each in run.translate(sentences)]


def test_forms_and_json_are_answered_alike(client, run):
    fields = {"q": SOURCES[0], "source": "de", "target": "en"}
    wanted = {"translatedText": translated(run, SOURCES[0])[0]}
    answers = [client.post("/translate", data=fields), client.post("/translate", json=fields)]
    assert [(each.status_code, each.json()) for each in answers] == [(200, wanted)] * 2
    several = client.post("/translate", json=fields | {"q": SOURCES, "source": "auto"}).json()
    assert several["translatedText"] == translated(run, *SOURCES)
    assert [each["language"] for each in several["detectedLanguage"]] == ["de"] * len(SOURCES)


def test_lines_and_the_spaces_between_sentences_stay(client, run):
    first, second = translated(run, *SOURCES[:2])
    text = f"{SOURCES[0]}  {SOURCES[1]}\n\n  {SOURCES[0]} \n"
    answer = client.post("/translate", json={"q": text, "source": "de", "target": "en"}).json()
    assert answer == {"translatedText": f"{first}  {second}\n\n  {first} \n"}
    assert client.post(
        "/translate", json={"q": [" \n"], "source": "de", "target": "en"}
    ).json() == {"translatedText": [" \n"]}


def test_alternatives_and_details(client, run):
    fields = {"q": SOURCES[0], "source": "de", "target": "en", "alternatives": 2, "details": True}
    answer = client.post("/translate", json=fields).json()
    (best,) = run.translate([SOURCES[0]], nbest=3)
    assert answer["alternatives"] == list(
        dict.fromkeys(each.text for each in best.alternatives if each.text != best.text)
    )
    (part,) = answer["details"]
    alignment = run.align(SOURCES[0])
    assert [part["source"], part["target"]] == [alignment.word_pair.columns, alignment.words[1]]
    assert part["alignment"] == [list(link) for link in alignment.links]
    assert part["confidences"] == pytest.approx(
        [value for _, value in best.word_confidences], abs=1e-4
    )
    weights = part["matrices"][0]["weights"]
    assert weights == pytest.approx(alignment.matrix.ravel().tolist(), abs=1e-3)
    (words,) = client.post("/translate", json=fields | {"details": "words"}).json()["details"]
    assert words == {name: part[name] for name in words} | {"matrices": [], "windows": []}
    assert words["confidences"] and "alignment" not in words


def test_markup_and_documents(client, run):
    fields = {"source": "de", "target": "en"}
    (text,) = translated(run, SOURCES[0])
    answer = client.post(
        "/translate", json=fields | {"q": f"<p>{SOURCES[0]}</p>", "format": "html"}
    )
    assert answer.json() == {"translatedText": f"<p>{text}</p>"}
    file = {"file": ("../../Brief an \u202eX.txt", f"{SOURCES[0]}\n".encode())}
    answer = client.post("/translate_file", data=fields, files=file)
    assert answer.json()["sentences"] == 1
    url = answer.json()["translatedFileUrl"]
    found = client.get(url)
    assert (
        found.text == f"{text}\n"
        and found.headers["content-disposition"] == 'attachment; filename="Brief an X.en.txt"'
    )
    assert (
        client.get(url[:-1]).status_code
        == client.get("/download_file/..%2f..%2fetc%2fpasswd").status_code
        == 404
    )
    damaged = client.post(
        "/translate_file", data=fields, files={"file": ("a.docx", b"PK no archive")}
    )
    assert damaged.status_code == 400 and "a.docx" in damaged.json()["error"]


def test_numbers_and_addresses_stay_in_texts_and_documents(client):
    text = "Ein Junge sucht 079 123 45 67 und hund_x@y.example im Garten."
    fields = {"source": "de", "target": "en"}
    plain = client.post("/translate", json=fields | {"q": text}).json()["translatedText"]
    html = client.post(
        "/translate", json=fields | {"q": f"<p>{text}</p>", "format": "html"}
    ).json()["translatedText"]
    url = client.post(
        "/translate_file", data=fields, files={"file": ("a.txt", text.encode())}
    ).json()
    for answer in (plain, html, client.get(url["translatedFileUrl"]).text):
        assert "079 123 45 67" in answer and "hund_x@y.example" in answer


def test_sentences_of_documents_with_unsure_words_are_counted(client, run, monkeypatch):
    """Half of them, where words are unsure below the confidence that divides them; punctuation is
    no word."""
    confidences = [each.word_confidences for each in run.translate(SOURCES)]
    least = sorted(min(value for word, value in words if word != ".") for words in confidences)
    monkeypatch.setattr("nmt.documents.translation.UNSURE", least[3])
    messages = "".join(f'msgid "{source}"\nmsgstr ""\n\n' for source in SOURCES)
    fields = {"source": "de", "target": "en"}
    answer = client.post(
        "/translate_file", data=fields, files={"file": ("a.po", messages.encode())}
    ).json()
    assert (answer["sentences"], answer["unsureSentences"]) == (6, 3)


def test_what_clients_ask_first(client):
    assert client.get("/languages").json() == [
        {"code": "de", "name": "German", "targets": ["en"]},
        {"code": "en", "name": "English", "targets": []},
    ]
    settings = client.get("/frontend/settings").json()
    assert (
        settings["language"]["target"]["code"] == "en"
        and ".docx" in settings["supportedFilesFormat"]
    )
    assert client.get("/health").json() == {"status": "ok"}
    assert 'nmt_requests_total{path="/health",status="200"}' in client.get("/metrics").text
    page = client.get("/")
    assert "12 test sentences are too few to measure" in page.text  # what the run is fit for
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["referrer-policy"] == "no-referrer"
    assert "assets/page.js" in page.text and "unsafe" not in page.headers["content-security-policy"]
    assert [client.get(f"/assets/page.{kind}").status_code for kind in ("js", "css")] == [200, 200]


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"q": None}, "missing q"),
        ({"q": ["a", 1]}, "a text or a list"),
        ({"q": "\ud800"}, "q is no text"),
        ({"source": None}, "missing source"),
        ({"source": ["de"]}, "source is no text"),
        ({"source": "zz"}, "zz is not supported"),
        ({"source": "\ud800"}, "source is no text"),
        ({"format": "\ud800"}, "format is not"),
        ({"source": "en", "target": "de"}, "not available"),
        ({"format": "pdf"}, "pdf format"),
        ({"alternatives": "many"}, "alternatives is a number"),
        ({"q": "x" * 20_001}, "20000 characters"),
        ({"format": "html", "alternatives": 1}, "format=text alone"),
        ({"format": "html", "details": True}, "format=text alone"),
        ({"details": "perhaps"}, "details is true, false or words"),
        (
            {"q": "Это написано на другом языке", "source": "auto"},
            "not available as a target language from ru",
        ),
    ],
)
def test_a_wrong_request_is_one_sentence(client, fields, error):
    body = {
        name: value
        for name, value in ({"q": "a", "source": "de", "target": "en"} | fields).items()
        if value is not None
    }
    answer = client.post(
        "/translate", content=json.dumps(body), headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 400 and error in answer.json()["error"]


def test_keys_rates_and_sizes(make_client):
    fields = {"q": "a", "source": "de", "target": "en"}
    closed = make_client(keys={hashlib.sha256(b"secret").hexdigest(): "anna"})
    answers = [
        closed.post("/translate", json=fields | {"api_key": "wrong"}),
        closed.post("/translate", json=fields | {"api_key": "secret"}),
        closed.post("/translate", data=fields, headers={"Authorization": "Bearer secret"}),
        closed.post("/translate_file", data=fields),
    ]
    assert [each.status_code for each in answers] == [403, 200, 200, 403]
    slow = make_client(Limits(requests=2))
    # a minute may just begin
    assert [slow.post("/detect", data={"q": "x"}).status_code for _ in range(4)][-1] == 429
    small = make_client(Limits(megabytes=1))
    for body in (b"x" * (2 << 20), iter([b"x" * 999_999] * 3)):
        answer = small.post(
            "/translate", content=body, headers={"Content-Type": "application/json"}
        )
        assert answer.status_code == 413 and "bytes" in answer.json()["error"]


def test_a_wrong_key_is_refused_before_the_body_is_read_and_counts(make_client):
    """The answer to a wrong key does not depend on the body, which is no JSON here."""
    keys = {hashlib.sha256(b"secret").hexdigest(): "anna"}
    closed = make_client(keys=keys)
    headers = {"Content-Type": "application/json", "Authorization": "Bearer wrong"}
    answer = closed.post("/translate", content=b"{", headers=headers)
    assert answer.status_code == 403 and "key" in answer.json()["error"]
    limited = make_client(Limits(requests=3), keys)
    codes = [limited.post("/detect", headers=headers, content=b"{").status_code for _ in range(8)]
    assert codes[0] == 403 and codes[-1] == 429  # a minute may begin between
    good = {"q": "x", "api_key": "secret"}
    assert (
        limited.post("/detect", json=good, headers={"Authorization": "Bearer secret"}).status_code
        == 200
    )


def test_limits_are_exact(make_client, monkeypatch):
    """So many requests and texts as allowed, and not one more; the next minute counts anew."""
    now = [60.0]
    monkeypatch.setattr(clients.time, "monotonic", lambda: now[0])
    limited = clients.Clients({hashlib.sha256(b"secret").hexdigest(): "anna"}, requests=2)
    request = SimpleNamespace(
        headers={"authorization": "Bearer secret"}, query_params={}, client=None
    )
    stranger = SimpleNamespace(headers={}, query_params={}, client=SimpleNamespace(host="10.0.0.1"))
    assert [limited.admit(request) for _ in range(2)] == [False, False]
    assert [limited.admit(stranger) for _ in range(2)] == [True, True]  # its key may be in the body
    for each in (request, stranger):
        with pytest.raises(clients.Refusal, match="429"):
            limited.admit(each)
    now[0] = 120.0
    assert not limited.admit(request)
    for wrong in ("secre", "secret1", "Secret", ""):
        assert limited.owner(wrong) is None


def test_a_key_in_the_body_counts_for_its_owner():
    """Not for the address, behind which others may be."""
    limited = clients.Clients({hashlib.sha256(b"secret").hexdigest(): "anna"}, requests=2)
    request = SimpleNamespace(headers={}, query_params={}, client=SimpleNamespace(host="10.0.0.1"))
    limited.admit(request)
    limited.admit_body(request, "secret")
    assert (limited.counts["address 10.0.0.1"], limited.counts["key anna"]) == (0, 1)
    with pytest.raises(clients.Refusal, match="403"):
        limited.admit_body(request, "wrong")


def test_translated_files_are_kept_for_a_while(run, monkeypatch):
    """The newest ones; the first that came is the first that goes."""
    now = [0.0]
    monkeypatch.setattr(kept_files.time, "monotonic", lambda: now[0])
    kept = kept_files.KeptFiles()
    tokens = [kept.keep(f"{number}.txt", b"") for number in range(kept_files.KEPT_FILES + 1)]
    assert list(kept.files) == tokens[1:]
    now[0] = kept_files.KEPT_SECONDS + 0.5
    assert kept.get(tokens[-1]) is None
    last = kept.keep("last.txt", b"")
    assert list(kept.files) == [last]


def test_metrics_need_a_key_where_there_are_keys(make_client):
    closed = make_client(keys={hashlib.sha256(b"secret").hexdigest(): "anna"})
    assert [
        closed.get("/metrics" + each).status_code for each in ("", "?api_key=x", "?api_key=secret")
    ] == [
        403,
        403,
        200,
    ]
    assert closed.get("/health").status_code == 200


@pytest.mark.parametrize(
    "text", ["[X0X]", "12:30", "\U0001f600", "https://example.org/a?b=c", "{name}", "…"]
)
@pytest.mark.parametrize("keeps_units", [True, False])
def test_what_is_no_text_comes_back_as_it_is(client, run, text, keeps_units, monkeypatch):
    """Whether the model has placeholders or not."""
    monkeypatch.setattr(service.Pair, "keeps_units", keeps_units)
    fields = {"q": [text, f" {text}\n{SOURCES[0]}"], "source": "de", "target": "en"}
    (best,) = translated(run, SOURCES[0])
    assert client.post("/translate", json=fields).json() == {
        "translatedText": [text, f" {text}\n{best}"]
    }


@pytest.mark.parametrize("keeps_units", [True, False])
def test_units_of_a_sentence_have_a_place_in_its_translation(client, keeps_units, monkeypatch):
    monkeypatch.setattr(service.Pair, "keeps_units", keeps_units)
    words = SOURCES[0].split()
    text = " ".join([*words[:2], "[X0X]", *words[2:]])
    fields = {"q": text, "source": "de", "target": "en", "alternatives": 2}
    answer = client.post("/translate", json=fields).json()
    assert all(
        each.count("[X0X]") == 1 for each in [answer["translatedText"], *answer["alternatives"]]
    )
    message = f"{{n, plural, one {{{SOURCES[0]}}} other {{#}}}}"
    answer = client.post("/translate", json=fields | {"q": message}).json()["translatedText"]
    assert (
        answer.startswith("{n, plural, one {")
        and answer.endswith("} other {#}}")
        and SOURCES[0] not in answer
    )


def test_no_part_of_a_request_is_dropped(client, run):
    fields = {"source": "de", "target": "en"}
    both = translated(run, *SOURCES[:2])
    answer = client.post("/translate", data=fields | {"q": SOURCES[:2]})
    assert answer.json() == {"translatedText": both}
    body = json.dumps(fields | {"q": SOURCES[0]})
    for kind in ("Application/JSON", "application/json; charset=utf-8", "application/problem+json"):
        answer = client.post("/translate", content=body, headers={"Content-Type": kind})
        assert answer.json() == {"translatedText": both[0]}
    for kind in ("text/plain", ""):
        answer = client.post("/translate", content=body, headers={"Content-Type": kind})
        assert answer.status_code == 400 and "JSON or a form" in answer.json()["error"]
    twice = [
        client.post("/translate", data=fields | {"q": "a", "target": ["en", "de"]}),
        client.post("/translate?target=de", data=fields | {"q": "a"}),
        client.post(
            "/translate",
            content=f'{{"source": "x", {body[1:]}',
            headers={"Content-Type": "application/json"},
        ),
    ]
    assert [each.status_code for each in twice] == [400] * 3
    assert all("more than once" in each.json()["error"] for each in twice)


def test_each_text_of_a_batch_has_its_own_language(client, run):
    """One in the target language stays as it is; one without a letter has no language."""
    texts = ["Der Mann liest heute ein Buch.", "The man is reading a book in the garden.", "12345"]
    answer = client.post("/translate", json={"q": texts, "source": "auto", "target": "en"}).json()
    assert answer["translatedText"] == [*translated(run, texts[0]), *texts[1:]]
    detected = answer["detectedLanguage"]
    assert [each["language"] for each in detected[:2]] == ["de", "en"]
    assert (
        detected[0]["confidence"] > 90
        and detected[1]["confidence"] > 90
        and detected[2]["confidence"] == 0
    )


@pytest.mark.parametrize(
    ("text", "language", "sure"),
    [
        ("Das ist nicht gut", "de", True),
        ("The man is reading", "en", True),
        ("Привет, как дела?", "ru", True),
        ("12345", "de", False),
    ],
)
def test_a_language_is_told_by_evidence(client, text, language, sure):
    best, *_ = client.post("/detect", data={"q": text}).json()
    assert best["language"] == language and (best["confidence"] > 90) == sure
    assert best["confidence"] == 0 or sure


def test_other_pages_may_ask_where_it_is_said(make_client):
    asked = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}
    allowed = "access-control-allow-origin"
    closed, listed, anyone = (
        make_client(origins=each) for each in ((), ["https://a.example"], ["*"])
    )
    answer = closed.options("/translate", headers=asked)
    assert (
        answer.status_code == 204
        and "POST" in answer.headers["allow"]
        and allowed not in answer.headers
    )
    assert allowed not in closed.get("/languages", headers=asked).headers
    answer = listed.options("/translate", headers=asked)
    assert answer.status_code == 200 and answer.headers[allowed] == "https://a.example"
    refused = listed.post("/translate", headers=asked)
    assert refused.status_code == 400 and refused.headers[allowed] == "https://a.example"
    other = asked | {"Origin": "https://b.example"}
    assert allowed not in listed.get("/languages", headers=other).headers
    assert anyone.get("/languages", headers=other).headers[allowed] == "*"


def test_the_specification_is_true(client):
    """It has the addresses that are there, and what it requires is required."""
    paths = client.get("/spec").json()["paths"]
    routes = {route.path: route.methods for route in app.Routes(None).all()}
    assert {path: {method.upper() for method in of} for path, of in paths.items()} == {
        path: methods - {"HEAD"} for path, methods in routes.items()
    }
    given = {"q": "a", "source": "de", "target": "en"}
    schema = paths["/translate"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert client.post("/translate", json=given).json().keys() <= schema["properties"].keys() | {
        "translatedText"
    }
    for path, methods in paths.items():
        for content in methods.get("post", {}).get("requestBody", {}).get("content", {}).values():
            for name in content["schema"].get("required", []):
                less = {key: value for key, value in given.items() if key != name}
                files = (
                    None
                    if name == "file" or path != "/translate_file"
                    else {"file": ("a.txt", b"a")}
                )
                answer = client.post(path, data=less, files=files)
                assert answer.status_code == 400 and f"missing {name}" in answer.json()["error"]


def test_a_request_has_so_many_texts(make_client):
    client = make_client(Limits(texts=2))
    fields = {"source": "de", "target": "en"}
    codes = [
        client.post("/translate", json=fields | {"q": ["1"] * count}).status_code
        for count in (2, 3)
    ]
    assert codes == [200, 400]


def test_a_request_is_bounded_by_its_work(make_client):
    """A letter may be several pieces."""
    fields = {"q": "\U00010330" * 15, "source": "de", "target": "en"}
    answer = make_client(Limits(characters=20)).post("/translate", json=fields)
    assert answer.status_code == 400 and "more than 20 pieces" in answer.json()["error"]


def test_a_request_without_an_answer_in_time_stops(run, monkeypatch):
    """Its job is cancelled; meanwhile the service says that it would not answer."""
    monkeypatch.setattr(service, "POLL_SECONDS", 0.01)
    device = threading.Lock()
    queues = Queues(run.translator, (device, threading.Lock()))
    shared = service.Service(service.pairs_of(run, queues), Limits(seconds=1))
    client = TestClient(app.make_app(shared), raise_server_exceptions=False)
    fields = {"q": SOURCES[0], "source": "de", "target": "en"}
    with device:
        assert client.get("/health").json() == {"status": "ok"}
        jobs = []
        monkeypatch.setattr(
            queues, "submit", lambda some: jobs.append(Queues.submit(queues, some)) or jobs[-1]
        )
        answer = client.post("/translate", json=fields)
        assert answer.status_code == 503 and answer.headers["retry-after"]
        assert jobs[0].cancelled()
        time.sleep(0.05)
        answer = client.get("/health")
        assert answer.status_code == 503 and "does not answer" in answer.json()["status"]
    queues.close()


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.json", b"[" * 100_000 + b"]" * 100_000, "inside each other"),
        ("a.yaml", b"a: *b", "a.yaml"),
    ],
)
def test_what_no_reader_can_read_is_one_sentence(client, name, content, reason):
    fields = {"source": "de", "target": "en"}
    answer = client.post("/translate_file", data=fields, files={"file": (name, content)})
    assert answer.status_code == 400 and reason in answer.json()["error"]


def test_a_process_that_reads_too_long_is_ended(client, monkeypatch):
    monkeypatch.setattr(translation, "POLL_SECONDS", 0)
    monkeypatch.setattr(translation, "READ_SECONDS", 0)
    ended = []
    end = translation.DocumentProcess.end

    def note(self):
        ended.append(self.process.pid)
        end(self)

    monkeypatch.setattr(translation.DocumentProcess, "end", note)
    fields = {"source": "de", "target": "en"}
    answer = client.post(
        "/translate_file", data=fields, files={"file": ("a.txt", b"Ein Hund.\n" * 1000)}
    )
    assert answer.status_code == 400 and "within 0 seconds" in answer.json()["error"]
    with pytest.raises(ProcessLookupError):
        os.kill(ended[0], 0)


def test_no_request_is_a_failure_of_the_service(client):
    """Bodies of any bytes, with any type, to any address."""
    chosen = random.Random(1)
    words = [
        "q",
        "source",
        "target",
        "de",
        "en",
        "file",
        "api_key",
        '"',
        "{",
        "}",
        "[",
        ":",
        ",",
        "=",
        "&",
        "%00",
        "\ud83d",
    ]
    types = [
        "application/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "",
        "a/b",
    ]
    paths = [
        "/translate",
        "/translate_file",
        "/detect",
        "/suggest",
        "/languages",
        "/download_file/x",
        "/assets/x",
        "/../x",
    ]
    for _ in range(300):
        text = "".join(chosen.choices(words, k=chosen.randint(0, 12)))
        body = text.encode("utf-8", "surrogatepass") + chosen.randbytes(chosen.choice([0, 0, 20]))
        method = chosen.choice(["POST", "POST", "GET", "PUT"])
        path = chosen.choice(paths)
        answer = client.request(
            method, path, content=body, headers={"Content-Type": chosen.choice(types)}
        )
        assert answer.status_code < 500, (method, path, body, answer.text)


class Echo:
    """A translator that gives sentences back, and notes how many it was given at once."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def translate_chunk(self, sentences: list[str]) -> list[SimpleNamespace]:
        if "bad" in sentences:
            raise ValueError("bad")
        self.sizes.append(len(sentences))
        return [SimpleNamespace(text=each) for each in sentences]

    def with_options(self, num_processes: int) -> "Echo":
        assert num_processes == 1
        return self

    def beside_others(self) -> "Echo":
        return self

    def with_records(self, translations):
        return iter([(each, ["record"]) for each in translations])


def sentences(*texts: str, detailed: bool = False) -> list:
    """Sentences of a piece for each character."""
    return [Sentence(text, len(text), detailed) for text in texts]


@pytest.fixture
def held():
    """A batcher that waits until its lock is released."""
    device = threading.Lock()
    device.acquire()
    batcher = Batcher(Echo(), device)  # type: ignore[arg-type]
    batcher.submit(sentences("first"))
    yield batcher
    if device.locked():
        device.release()
    batcher.close()


def wait_for_taken(batcher) -> None:
    """Until its thread holds the first sentence, and so takes all others together."""
    while not batcher.device.locked() or batcher.jobs[0].left:
        pass


def test_sentences_of_several_requests_are_translated_together(held):
    wait_for_taken(held)
    futures = []
    for number in range(5):
        futures.append(
            held.submit(sentences(f"{number} a") + sentences(f"{number} b", detailed=True))
        )
    held.device.release()
    answers = [future.result(20) for future in futures]
    assert held.translator.sizes == [1, 10]
    assert [[each.text for each, _ in answer] for answer in answers] == [
        [f"{n} a", f"{n} b"] for n in range(5)
    ]
    assert all([records for _, records in answer] == [[], ["record"]] for answer in answers)


def test_a_long_request_does_not_hold_up_a_short_one(held):
    wait_for_taken(held)
    long = held.submit(sentences(*["x"] * 500))
    short = held.submit(sentences("y"))
    finished = []
    for name, future in (("long", long), ("short", short)):
        future.add_done_callback(lambda _, name=name: finished.append(name))
    held.device.release()
    assert len(long.result(20)) == 500 and finished == ["short", "long"]
    assert max(held.translator.sizes) <= batching.MOST_SENTENCES


def test_a_short_request_does_not_wait_for_a_part_of_a_long_one():
    """Not even for the one that is translated already."""
    device = threading.Lock()
    queues = Queues(Echo(), (threading.Lock(), device))
    with device:
        long = queues.submit(sentences(*["x" * 100] * 6))
        sentence = queues.submit(sentences("x" * 129))
        short = queues.submit(sentences("y"))
        assert [each.text for each, _ in short.result(20)] == ["y"]
        assert not long.done() and not sentence.done()
    assert len(long.result(20)) == 6 and len(sentence.result(20)) == 1
    queues.close()


@pytest.mark.parametrize(("is_used", "sizes"), [(True, [1] * 6), (False, [5, 1])])
def test_long_requests_are_modest_beside_short_ones(is_used, sizes, held):
    """Also where the short ones never pause."""
    long = Batcher(Echo(), threading.Lock(), preferred=held)
    held.last_used = time.monotonic() + 60 if is_used else 0.0
    if not is_used:
        held.device.release()
    assert len(long.submit(sentences(*["x" * 100] * 6)).result(20)) == 6
    assert long.translator.sizes == sizes
    long.close()


@pytest.mark.parametrize("text", ["ab " * 900, "a" * 2700, "A. " + "ab" * 1200 + " c."])
def test_a_sentence_without_end_is_divided(text):
    """Between words where it can be; nothing is lost."""
    spans = sentence_spans(text, "de")
    assert max(end - start for start, end in spans) <= 1000 and len(spans) >= 3
    assert "".join(text[slice(*span)] for span in spans).replace(" ", "") == text.replace(" ", "")


def test_long_sentences_are_translated_few_at_once(held):
    wait_for_taken(held)
    future = held.submit(sentences(*["x" * 200] * 5, "x" * 5000, "y"))
    held.device.release()
    assert len(future.result(20)) == 7 and held.translator.sizes == [1, 2, 2, 1, 1, 1]


def test_one_request_fails_alone_and_what_nobody_waits_for_is_not_translated(held, monkeypatch):
    wait_for_taken(held)
    good, bad, gone = (held.submit(sentences(text)) for text in ("good", "bad", "gone"))
    assert gone.cancel()
    monkeypatch.setattr(batching, "WAITING", 6)
    with pytest.raises(Full):
        held.submit(sentences(*["x"] * 5))
    held.device.release()
    assert [each.text for each, _ in good.result(20)] == ["good"]
    with pytest.raises(ValueError, match="bad"):
        bad.result(20)
    assert held.translator.sizes == [1, 1]


def test_a_key_is_printed_once_and_stored_as_a_hash(tmp_path, capfd, refused):
    path = tmp_path / "keys"
    answer = run_command(capfd, "serve", "--keys", str(path), "--new-key", "anna")
    key = answer.out.strip()
    assert answer.code == 0 and path.read_text() == (
        f"{hashlib.sha256(key.encode()).hexdigest()} anna\n"
    )
    assert path.stat().st_mode & 0o077 == 0
    assert "which run" in refused("serve")
    path.write_text("secret\n")
    assert f"{path}:1" in refused("serve", "x", "--keys", str(path))
    assert "--port 70000" in refused("serve", "x", "--port", "70000")


@contextmanager
def running(name: str, runs: object, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process of the service with its address."""
    command = [
        sys.executable,
        "-m",
        "nmt",
        "serve",
        name,
        "--runs",
        str(runs),
        "--port",
        "0",
        "--engine",
        "torch",
        *words,
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment()) as process:
        try:
            assert process.stderr is not None
            yield (
                process,
                next(line for line in process.stderr if line.startswith("http://")).split()[0],
            )
        finally:
            process.kill()


def send_document(address: str, text: str) -> str:
    """What the service answers to a plain text as a file."""
    httpx2 = pytest.importorskip("httpx2", reason=BROUGHT)
    fields = {"source": "de", "target": "en"}
    return httpx2.post(
        f"{address}translate_file", data=fields, files={"file": ("a.txt", text)}, timeout=60
    ).text


@pytest.mark.slow
def test_a_stopped_service_answers_what_it_took(trained: Trained):
    """By the client that people have; then the process ends with exit code 0, also beside a
    document of hours."""
    libretranslatepy = pytest.importorskip("libretranslatepy", reason=BROUGHT)
    with running("tiny", trained.runs, "--beam", "3") as (process, address):
        service = libretranslatepy.LibreTranslateAPI(address)
        assert (
            service.languages()[0]["code"] == "de"
            and service.detect("Das ist gut")[0]["language"] == "de"
        )
        with ThreadPoolExecutor(4) as pool:
            answers = [
                pool.submit(service.translate, f"{SOURCES[0]} {number}", "de", "en")
                for number in range(4)
            ]
            answers[0].result()
            document = pool.submit(send_document, address, f"{SOURCES[0]}\n" * 20_000)
            time.sleep(1)
            process.send_signal(signal.SIGTERM)
            # A connection that was not yet accepted is refused; what was taken is answered.
            assert all(
                each.exception() is None or isinstance(each.exception(), OSError)
                for each in answers
            )
            assert process.wait(20) == 0
            assert "The service ends" in document.result()


@pytest.mark.slow
def test_the_evening_of_a_firm(tmp_path):
    """The four commands of the tutorial: a memory is audited, trained on and served, and a letter
    translated."""
    docx, httpx2 = (pytest.importorskip(name, reason=BROUGHT) for name in ("docx", "httpx2"))
    lines = [shlex.split(line) for line in commands(TUTORIAL)[:4]]
    assert [line[0] for line in lines] == ["nmt", "nmt", "nmt", "curl"]
    assert all(sum(bool(re.match(r"-|[a-z_.]+=", word)) for word in line) <= 2 for line in lines)
    units = "".join(
        f'<tu><tuv xml:lang="de"><seg>{german}</seg></tuv><tuv '
        f'xml:lang="en"><seg>{english}</seg></tuv></tu>'
        for german, english in [*pairs(600), ("Ein Satz.", "")]
    )
    (tmp_path / "memory.tmx").write_text(
        f'<tmx version="1.4"><body>{units}</body></tmx>', encoding="utf-8"
    )
    letter = docx.Document()
    letter.add_heading(SOURCES[0])
    letter.add_paragraph(SOURCES[1]).runs[0].bold = True
    letter.save(tmp_path / "letter.docx")
    lines[1].append("train.max_steps=40")
    for line in lines[:2]:
        subprocess.run([sys.executable, "-m", *line], cwd=tmp_path, check=True, env=environment())
    with running(lines[2][2], tmp_path / "runs") as (_, address):
        url = lines[3][3].replace("http://127.0.0.1:5000/", address)
        with open(tmp_path / "letter.docx", "rb") as file:
            answer = httpx2.post(url, files={"file": file}, timeout=60).json()
        found = httpx2.get(answer["translatedFileUrl"]).content
    heading, paragraph = docx.Document(io.BytesIO(found)).paragraphs
    assert heading.style.name == "Heading 1" and paragraph.runs[0].bold
    assert paragraph.text.strip() and paragraph.text != SOURCES[1]


@pytest.mark.slow
@pytest.mark.skipif(find_chromium() is None, reason="no Chromium is installed")
def test_the_page_translates_and_shows_attention(trained: Trained, run):
    """On a phone, without scrolling sideways; what is typed and translated is text, never
    markup."""
    with running("tiny", trained.runs, "--beam", "3") as (_, address), Browser() as browser:
        browser.send(
            "Emulation.setDeviceMetricsOverride",
            width=390,
            height=800,
            deviceScaleFactor=1,
            mobile=True,
        )
        browser.send("Page.navigate", url=address)
        browser.wait("document.querySelectorAll('#from option').length === 1")
        text = f"{SOURCES[0]}\n<img src=x onerror=alert(1)>"
        browser.run(f"""(() => {{
            const source = document.getElementById("source");
            source.value = {json.dumps(text)};
            source.dispatchEvent(new Event("input"));
        }})()""")
        browser.wait("document.body.dataset.done && !document.querySelector('.waiting')")
        browser.run("document.querySelector('summary').click()")
        browser.wait("document.querySelectorAll('.pair').length > 0")
        shown = browser.run(
            "[...document.querySelectorAll('#translation p')].map((line) => line.textContent)"
        )
        assert shown[0] == translated(run, SOURCES[0])[0] and len(shown) == 2
        assert browser.run("document.querySelectorAll('#translation img, .pair img').length") == 0
        browser.run("document.querySelector('.target button').focus()")
        browser.wait("document.querySelector('.summary').textContent.includes('attends to')")
        assert browser.run("document.documentElement.scrollWidth") <= 390

"""nmt serve: the API of LibreTranslate over a small run; what is behind it is tested by itself in
test_batching.py and test_clients.py."""

import asyncio
import hashlib
import html
import io
import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote

import pytest
from chromium import Browser, find_chromium
from corpora import Trained, environment, pairs, run_command
from pair_files import tmx_of
from servers import BROUGHT
from test_readme import commands

from nmt.documents.memory import TranslationMemory
from nmt.documents.translation import CHUNK_SENTENCES
from nmt.errors import UserError
from nmt.runs.run import load

pytest.importorskip("nmt.serve.app", reason=BROUGHT)
pytest.importorskip("uvicorn", reason=BROUGHT)
pytest.importorskip("sentencex", reason=BROUGHT)

from starlette.testclient import TestClient

from nmt.serve import app, batching, corrections, models, routes, service, translation
from nmt.serve.limits import Limits

TUTORIAL = Path(__file__).parents[1] / "docs/tutorials/your-own-pairs.md"
SOURCES = [source for source, _ in pairs(6, seed=9)]
SIDES = {"source": "de", "target": "en"}
JSON = {"Content-Type": "application/json"}
KEYS = {hashlib.sha256(b"secret").hexdigest(): "anna"}


class Client(TestClient):
    """Of a service in this process, which it can look into."""

    @property
    def service(self):
        return self.app.service

    def translate(self, q, **fields):
        return self.post("/translate", json={"q": q} | SIDES | fields)

    def translate_file(self, name: str, content: bytes):
        return self.post("/translate_file", data=SIDES, files={"file": (name, content)})


@pytest.fixture(scope="module")
def run(trained: Trained):
    return load([trained.folder / "best.safetensors"], beam=3)


@pytest.fixture(scope="module")
def open_models(run, trained):
    """open_models() → the small run as the models of a service."""
    opened = []

    def open_again():
        paths = [trained.folder / "best.safetensors"]
        opened.append(models.Models(["tiny"], lambda name: paths, lambda paths: run))
        return opened[-1]

    yield open_again
    for each in opened:
        for model in each.loaded:
            model.queues.close()


@pytest.fixture(scope="module")
def make_client(open_models):
    """make_client(limits, keys, origins) → a client of a service of the small run."""
    shared = open_models()

    def make(limits=None, keys=None, origins=(), models=shared):
        made = service.Service(models, limits or Limits(), keys, origins)
        return Client(app.make_app(made), raise_server_exceptions=False)

    return make


@pytest.fixture(scope="module")
def client(make_client):
    return make_client()


def translated(run, *sentences: str) -> list[str]:
    return [each.text for each in run.translate(sentences)]


def error_of(answer, status: int = 400) -> str:
    """The sentence with which a request was refused."""
    assert answer.status_code == status
    return answer.json()["error"]


def test_what_a_run_is_fit_for_is_text_on_the_page():
    """The name of a run may be any text."""
    page = app.Starlette(routes=app.pages.ROUTES)
    page.state.fit_for = lambda: ['<script>"a" & b</script>', "ok"]
    text = TestClient(page).get("/").text
    assert "<p>&lt;script&gt;&quot;a&quot; &amp; b&lt;/script&gt;</p>\n<p>ok</p>" in text


def test_forms_and_json_are_answered_alike(client, run):
    """One text is answered by one, and several by as many; nothing of a request is dropped."""
    first, second = translated(run, *SOURCES[:2])
    for q, text in ((SOURCES[0], first), (SOURCES[:2], [first, second])):
        fields = {"q": q} | SIDES
        body = json.dumps(fields)
        answers = [client.post("/translate", data=fields), client.post("/translate", json=fields)]
        for kind in ("Application/JSON; charset=utf-8", "application/problem+json"):
            headers = {"Content-Type": kind}
            answers.append(client.post("/translate", content=body, headers=headers))
        answers.append(client.post("/translate?target=en&source=de", data={"q": q}))
        version = "1" if isinstance(q, str) else ["1", "1"]
        expected = {"translatedText": text, "version": version}
        assert [each.json() for each in answers] == [expected] * 5
    for kind in ("text/plain", "application/x+xml", ""):
        answer = client.post("/translate", content=body, headers={"Content-Type": kind})
        assert "JSON or a form" in error_of(answer)
    twice = client.post("/translate?target=de", data=fields)
    assert "target" in error_of(twice)
    text = f"{SOURCES[0]}  {SOURCES[1]}\n\n  {SOURCES[0]} \n"
    answer = client.translate([text, " \n"]).json()
    assert answer["translatedText"] == [f"{first}  {second}\n\n  {first} \n", " \n"]
    for end in "\t\r\f\v\x85\u2028\u2029":  # no sentence goes over the end of a cell or line
        of_ends = f"{end}{SOURCES[0]}{end}{SOURCES[1]}{end}"
        assert (
            client.translate(of_ends).json()["translatedText"] == f"{end}{first}{end}{second}{end}"
        )


def test_each_text_of_a_batch_has_its_own_language(client, run):
    """One in the target language stays as it is; one without a letter has no language."""
    texts = ["Der Mann liest heute ein Buch.", "The man is reading a book in the garden.", "12345"]
    answer = client.translate([*texts, SOURCES[0]], source="auto").json()
    first, last = translated(run, texts[0], SOURCES[0])
    assert answer["translatedText"] == [first, *texts[1:], last]
    assert answer["version"] == ["1", "", "1", "1"]
    detected = answer["detectedLanguage"]
    assert [each["language"] for each in detected] == ["de", "en", "de", "de"]
    assert [each["confidence"] > 90 for each in detected] == [True, True, False, True]
    assert client.post("/detect", json={"q": texts[0]}).json()[0] == detected[0]
    assert client.post("/detect", json={"q": "12345"}).json() == detected[2:3]
    assert client.post("/detect", json={"q": "Привет, как дела?"}).json()[0]["language"] == "ru"


@pytest.mark.parametrize(("texts", "in_threads"), [(["Hund"] * 5, 0), (["Hund"] * 100, 3)])
def test_a_long_list_of_short_texts_does_not_hold_up_others(client, monkeypatch, texts, in_threads):
    """It is much work, for all that it has few characters."""
    calls = []
    run_in_threadpool = service.run_in_threadpool

    async def note(function, *words):
        calls.append(function)
        return await run_in_threadpool(function, *words)

    monkeypatch.setattr(service, "run_in_threadpool", note)
    assert client.translate(texts, source="auto").status_code == 200
    assert len(calls) == in_threads


def test_markup_says_nothing_of_the_language(client):
    """Tags that are not closed are found as fast."""
    marked = [
        "<p>Sch&ouml;n, f&uuml;r Gr&ouml;&szlig;e</p>",
        "<!-- The man is reading a book. --><p title='The woman is in the garden'>Der Mann liest.",
        "<script>var the = 'man is reading a book';</script ><b class='is in the'>Der Mann liest",
        "3 < 5, aber Der Mann liest ein Buch",
    ]
    answer = client.translate(marked, source="auto", format="html").json()
    assert [each["language"] for each in answer["detectedLanguage"]] == ["de"] * 4
    for part in ("<script", "<!--", "<", "<a ", "<script></script "):
        routes.MARKUP.sub(" ", part * 20_000)


def test_alternatives_and_details(client, run, monkeypatch):
    fields = {"alternatives": 2, "details": True}
    answer = client.translate(SOURCES[0], **fields).json()
    (best,) = run.translate([SOURCES[0]], nbest=3)
    others = [each.text for each in best.alternatives if each.text != best.text]
    assert answer["alternatives"] == list(dict.fromkeys(others)) and others
    one = client.translate(SOURCES[0], alternatives=1).json()
    assert one["alternatives"] == others[:1]
    with monkeypatch.context() as patch:  # a hypothesis may read as another one does
        patch.setattr(translation, "nth_best", lambda each, rank: each.nbest[rank - 1])
        assert client.translate(SOURCES[0], alternatives=2).json()["alternatives"] == others[:1]
    two = SimpleNamespace(nbest="ab")  # a sentence with fewer hypotheses gives its last one
    assert [translation.nth_best(two, rank) for rank in range(4)] == [*"abbb"]
    (part,) = answer["details"]
    alignment = run.align(SOURCES[0])
    assert [part["source"], part["target"]] == [alignment.word_pair.columns, alignment.words[1]]
    assert part["alignment"] == [list(link) for link in alignment.links]
    confidences = [value for _, value in best.word_confidences]
    assert part["confidences"] == pytest.approx(confidences, abs=1e-4)
    weights = part["matrices"][0]["weights"]
    assert weights == pytest.approx(alignment.matrix.ravel().tolist(), abs=1e-4)
    (words,) = client.translate(SOURCES[0], details="words").json()["details"]
    assert words == {name: part[name] for name in words} | {"matrices": [], "windows": []}
    assert words["confidences"] and "alignment" not in words
    several = client.translate(SOURCES[:2], **fields).json()
    assert several["alternatives"][0] == answer["alternatives"]
    assert [each[0]["text"] for each in several["details"]] == several["translatedText"]


def test_only_so_many_documents_wait(client, monkeypatch):
    monkeypatch.setattr("nmt.serve.translation.MOST_WAITING_DOCUMENTS", 0)
    answer = client.translate_file("a.txt", b"ein Hund\n")
    assert answer.status_code == 503 and "Too many documents" in answer.text
    monkeypatch.setattr("nmt.serve.translation.MOST_WAITING_DOCUMENTS", 1)
    assert client.translate_file("a.txt", b"ein Hund\n").status_code == 200


def test_documents_are_translated_and_kept(client, run):
    (text,) = translated(run, SOURCES[0])
    answer = client.translate_file("../../Grüße an \u202eX.txt", f"{SOURCES[0]}\n".encode()).json()
    url = answer.pop("translatedFileUrl")
    assert answer == {"sentences": 1, "version": "1"}
    found = client.get(url)
    assert found.content == f"{text}\n".encode()
    plain, named = found.headers["content-disposition"].split("; ")[1:]
    assert plain == 'filename="Gr__e an X.en.txt"'
    assert unquote(named) == "filename*=UTF-8''Grüße an X.en.txt"
    for gone in (url[:-1], "/download_file/..%2f..%2fetc%2fpasswd"):
        assert client.get(gone).status_code == 404


@pytest.mark.parametrize("has_calibration", [True, False])
def test_sentences_of_documents_with_unsure_words_are_counted(
    client, run, monkeypatch, has_calibration
):
    """Half of them, where words are unsure below the confidence that divides them; punctuation is
    no word. The document is translated in two chunks. Nobody looks for them where the run has no
    calibration."""
    confidences = [each.word_confidences for each in run.translate(SOURCES)]
    least = sorted(min(value for word, value in words if word != ".") for words in confidences)
    monkeypatch.setattr("nmt.documents.translation.UNSURE", least[3])
    if not has_calibration:
        monkeypatch.setattr(run, "provenance", {})
    copies = 1 + CHUNK_SENTENCES // len(SOURCES) if has_calibration else 1
    messages = ""
    for number in range(copies):
        for source in SOURCES:
            messages += f'msgctxt "{number}"\nmsgid "{source}"\nmsgstr ""\n\n'
    answer = client.translate_file("a.po", messages.encode()).json()
    assert answer["sentences"] == 6 * copies
    assert answer.get("unsureSentences") == (3 * copies if has_calibration else None)


@pytest.mark.parametrize("keeps_units", [True, False])
def test_units_have_a_place_in_texts_and_documents(client, keeps_units, monkeypatch):
    """Whether the model has placeholders or not."""
    monkeypatch.setattr(service.Pair, "keeps_units", keeps_units)
    units = ["079 123 45 67", "hund_x@y.example", "[X0X]"]
    text = f"Ein Junge sucht {units[0]} und {units[1]} im {units[2]} Garten."
    plain = client.translate(text, alternatives=2).json()
    markup = client.translate(f"<p>{text}</p>", format="html").json()
    url = client.translate_file("a.txt", text.encode()).json()["translatedFileUrl"]
    for answer in (plain["translatedText"], markup["translatedText"], client.get(url).text):
        assert [answer.count(unit) for unit in units] == [1, 1, 1]
    for answer in plain["alternatives"]:  # without weights: a unit may be within the number
        assert [answer.count(unit) for unit in units[1:]] == [1, 1]
    message = f"{{n, plural, one {{{SOURCES[0]}}} other {{#}}}}"
    answer = client.translate(message).json()["translatedText"]
    assert answer.startswith("{n, plural, one {") and answer.endswith("} other {#}}")
    assert SOURCES[0] not in answer


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"q": None}, "missing q"),
        ({"q": []}, "missing q"),
        ({"q": False}, "q is not text"),
        ({"q": ["a", 1]}, "number 2 of the list"),
        ({"q": "\ud800"}, "q is not text"),
        ({"q": ["1"] * 501}, "request (501) exceeds text limit (500)"),
        ({"q": "x" * 20_001}, "request (20001) exceeds text limit (20000)"),
        # a letter may be several pieces
        ({"q": "\U00010330" * 15_000}, "exceeds text limit (20000), counted in subword"),
        ({"source": None}, "missing source"),
        ({"source": ["de"]}, "source is not text"),
        ({"source": "zz"}, "zz is not supported"),
        ({"q": "Это написано на другом языке", "source": "auto"}, "from Russian (ru)"),
        ({"q": [SOURCES[0], "Это написано на другом языке"], "source": "auto"}, "(text 2)"),
        ({"q": ["This is English.", "<p>\0"], "source": "auto", "format": "html"}, "text 2.html"),
        ({"format": "pdf"}, "pdf format"),
        ({"format": False}, "False format"),
        ({"target": "\x1b[2J" * 100}, "x1b[2J"),
        ({"glossary": {}}, "glossary is not text"),
        ({"format": "\ud800"}, "format is not"),
        ({"alternatives": 101}, "alternatives is a whole number from 0 to 100"),
        ({"format": "html", "details": True}, "format=text alone"),
        ({"details": "perhaps"}, "details is"),
    ],
)
def test_a_wrong_request_is_one_sentence(client, fields, error):
    body = {"q": "a"} | SIDES | fields
    body = {name: value for name, value in body.items() if value is not None}
    answer = client.post("/translate", content=json.dumps(body), headers=JSON)
    assert error in error_of(answer)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.json", b"[" * 100_000 + b"]" * 100_000, "inside each other"),
        ("a.yaml", b"a: *b", "a.yaml"),
        ("a.docx", b"PK no archive", "a.docx"),
        ("a.txt", b"The man is reading a book in the garden.", "in en already"),
    ],
)
def test_a_document_that_cannot_be_translated_is_one_sentence(
    make_client, monkeypatch, name, content, reason
):
    """And the place of one that failed is free for the next."""
    monkeypatch.setattr(service, "DOCUMENTS", 1)
    client = make_client(Limits(seconds=20))
    fields = SIDES | {"source": "auto"}
    for _ in range(2):
        answer = client.post("/translate_file", data=fields, files={"file": (name, content)})
        assert reason in error_of(answer)


def test_a_process_that_reads_too_long_is_ended(client, monkeypatch):
    monkeypatch.setattr(translation, "POLL_SECONDS", 0)
    monkeypatch.setattr(translation, "READ_SECONDS", 0)
    ended = []
    end = translation.DocumentProcess.end

    def note(self):
        ended.append(self.process.pid)
        end(self)

    monkeypatch.setattr(translation.DocumentProcess, "end", note)
    answer = client.translate_file("a.txt", b"Ein Hund.\n" * 1000)
    assert "within 0 seconds" in error_of(answer)
    with pytest.raises(ProcessLookupError):
        os.kill(ended[0], 0)


def test_documents_wait_for_a_place_and_for_the_end_of_the_service(make_client, monkeypatch):
    """Those that get a place when the service ends are not begun."""
    monkeypatch.setattr(translation, "POLL_SECONDS", 0)
    monkeypatch.setattr(translation, "STOP_SECONDS", 0)
    client = make_client(Limits(seconds=0.2))
    client.service.stop()
    monkeypatch.setattr(client.service.limits, "seconds", 60)
    monkeypatch.setattr(translation, "DocumentProcess", None)
    answer = client.translate_file("a.txt", b"Ein Hund.")
    assert "ends" in error_of(answer, 503)
    client.service.document_slots = asyncio.Semaphore(0)
    monkeypatch.setattr(client.service.limits, "seconds", 0.2)
    answer = client.translate_file("a.txt", b"Ein Hund.")
    assert answer.status_code == 503 and answer.headers["retry-after"]


@pytest.fixture
def stuck(make_client, open_models, monkeypatch):
    """A client of a service whose model does not answer, and the jobs that it was given."""
    monkeypatch.setattr(service, "POLL_SECONDS", 0.01)
    opened = open_models()
    client = make_client(Limits(seconds=0.2), models=opened)
    (model,) = opened.loaded
    submit = model.queues.submit
    jobs = []

    def note(sentences):
        jobs.append(submit(sentences))
        return jobs[-1]

    monkeypatch.setattr(model.queues, "submit", note)
    with opened.devices[0]:
        yield client, jobs


def test_a_request_without_an_answer_in_time_stops(stuck, monkeypatch):
    """Its job is cancelled; meanwhile the service says that it would not answer."""
    client, jobs = stuck
    assert client.get("/health").json() == {"status": "ok"}
    answer = client.translate(SOURCES[0])
    assert answer.status_code == 503 and answer.headers["retry-after"]
    assert jobs[0].cancelled()
    time.sleep(0.05)
    answer = client.get("/health")
    assert answer.status_code == 503 and "does not answer" in answer.json()["status"]
    monkeypatch.setattr(client.service.limits, "seconds", 60)
    assert client.get("/health").status_code == 200
    monkeypatch.setattr(service, "WAITING", 1)
    assert "too much is waiting" in client.get("/health").json()["status"]
    monkeypatch.setattr(batching, "WAITING", 1)
    answer = client.translate(SOURCES[0])
    assert "Too much" in error_of(answer, 503)
    assert "nmt_waiting_sentences 1.0" in client.get("/metrics").text


def test_the_job_of_a_client_that_has_left_is_cancelled(stuck):
    client, jobs = stuck
    body = json.dumps({"q": SOURCES[0]} | SIDES).encode()
    left = iter([{"type": "http.request", "body": body}])

    async def receive():
        return next(left, {"type": "http.disconnect"})

    async def send(message):
        pass

    scope = {"type": "http", "method": "POST", "path": "/translate", "query_string": b""}
    scope["headers"] = [(b"content-type", b"application/json")]
    asyncio.run(client.app(scope, receive, send))
    assert jobs[0].cancelled()
    counted = 'nmt_requests_total{key="",pair="de-en",path="/translate",status="499"} 1.0'
    assert counted in client.get("/metrics").text


def test_a_key_is_asked_for(make_client, monkeypatch):
    """In the head or in the body, which is not read where a wrong one is in the head."""
    closed = make_client(Limits(requests=20), KEYS)
    bearer = {"Authorization": "Bearer secret"}
    wrong = JSON | {"Authorization": "Bearer wrong"}
    for answer, status in (
        (closed.post("/detect", json={"q": "x", "api_key": "wrong"}), 403),
        (closed.post("/detect", json={"q": "x", "api_key": "secret"}), 200),
        (closed.post("/detect", data={"q": "x"}, headers=bearer), 200),
        (closed.post("/translate_file", data=SIDES), 403),
        (closed.post("/translate", content=b"{", headers=wrong), 403),
        (closed.get("/metrics"), 403),
        (closed.get("/metrics?api_key=x"), 403),
        (closed.get("/metrics?api_key=secret"), 200),
        (closed.get("/health"), 200),
    ):
        assert answer.status_code == status
    wrong_key = closed.post("/detect", data={"q": "x", "api_key": "wrong"})
    assert wrong_key.json() == {"error": "Invalid API key"}  # Dialect looks for these words
    assert "get an API key" in closed.post("/detect", data={"q": "x"}).json()["error"]
    assert closed.get("/frontend/settings").json()["keyRequired"]
    clock = SimpleNamespace(monotonic=lambda: 60 * 10**6)  # no minute begins between
    monkeypatch.setattr("nmt.serve.clients.time", clock)
    codes = [closed.post("/detect", content=b"{", headers=wrong).status_code for _ in range(22)]
    assert codes == [403] * 20 + [429] * 2


@pytest.mark.parametrize("path", ["/translate", "/translate_file"])
@pytest.mark.parametrize("is_stated", [True, False])
def test_a_body_has_so_many_bytes(make_client, path, is_stated):
    """Documents more than texts; whether the size is stated or the body comes in parts."""
    client = make_client(Limits(megabytes=1, characters=10, texts=1))
    limits = client.service.limits
    most = limits.document_bytes if path == "/translate_file" else limits.text_bytes
    for count, status in ((most, 400), (most + 1, 413)):
        body = b"x" * count
        content = body if is_stated else iter([body[:9000], body[9000:]])
        answer = client.post(path, content=content, headers=JSON)
        assert answer.status_code == status
    assert f"{most:,} bytes" in answer.json()["error"]


def test_other_pages_may_ask_where_it_is_said(make_client):
    asked = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}
    allowed = "access-control-allow-origin"
    closed, listed, anyone = (
        make_client(origins=each) for each in ((), ["https://a.example"], ["*"])
    )
    answer = closed.options("/translate", headers=asked)
    assert answer.status_code == 204 and "POST" in answer.headers["allow"]
    assert allowed not in answer.headers
    assert allowed not in closed.get("/languages", headers=asked).headers
    answer = listed.options("/translate", headers=asked)
    assert answer.status_code == 200 and answer.headers[allowed] == "https://a.example"
    refused = listed.post("/translate", headers=asked)
    assert refused.status_code == 400 and refused.headers[allowed] == "https://a.example"
    other = asked | {"Origin": "https://b.example"}
    assert allowed not in listed.get("/languages", headers=other).headers
    assert anyone.get("/languages", headers=other).headers[allowed] == "*"


def test_every_answer_is_counted_and_has_the_security_headers(make_client, monkeypatch):
    client = make_client(origins=["https://a.example"])
    asked = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}
    monkeypatch.setattr(service.Service, "languages", None)
    labels = 'key="",pair="",path="{}",status="{}"'
    for method, path, status in (
        ("GET", "/", 200),
        ("GET", "/health", 200),
        ("GET", "/assets/page.js", 200),
        ("GET", "/assets/page.css", 200),
        ("POST", "/translate", 400),
        ("POST", "/suggest", 403),
        ("GET", "/none", 404),
        ("GET", "/translate", 405),
        ("OPTIONS", "/suggest", 200),
        ("GET", "/languages", 500),
    ):
        answer = client.request(method, path, headers=asked)
        assert answer.status_code == status
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        counted = path if status not in (404,) and method != "OPTIONS" else "other"
        metrics = client.get("/metrics").text
        assert f"nmt_requests_total{{{labels.format(counted, status)}}} 1.0" in metrics
        assert f'nmt_request_seconds_count{{pair="",path="{counted}"}}' in metrics
        if status >= 400:
            assert answer.json().keys() == {"error"}
    client.translate(SOURCES[:2])
    counted = 'nmt_sentences_total{key="",pair="de-en",version="1"} 2.0'
    assert counted in client.get("/metrics").text


def test_what_clients_ask_first(client):
    assert client.get("/languages").json() == [
        {"code": "de", "name": "German", "targets": ["en"]},
        {"code": "en", "name": "English", "targets": []},
    ]
    settings = client.get("/frontend/settings").json()
    assert [settings["language"][side]["code"] for side in SIDES] == ["de", "en"]
    assert ".docx" in settings["supportedFilesFormat"] and not settings["keyRequired"]
    page = client.get("/")
    assert "12 test sentences are too few to measure" in page.text  # what the run is fit for
    assert "assets/page.js" in page.text and "unsafe" not in page.headers["content-security-policy"]


def test_clients_of_libretranslate_find_what_they_look_for(client, run):
    """What the code of a client relies on, with the name of one that does."""
    (text,) = translated(run, SOURCES[0])
    # its own page asks for alternatives of everything, and sends HTML as such
    markup = client.translate(f"<p>{SOURCES[0]}</p>", format="html", alternatives=3).json()
    assert markup == {"translatedText": f"<p>{text}</p>", "alternatives": [], "version": "1"}
    plain = client.translate(["<b>1</b>"], format="html").json()
    assert plain == {"translatedText": ["<b>1</b>"], "version": ["1"]}
    # Mastodon: a list with one text has a list of one language
    answer = client.translate([f"<p>{SOURCES[0]}</p>"], format="html", source="auto").json()
    assert answer["translatedText"] == [f"<p>{text}</p>"]
    assert [each["language"] for each in answer["detectedLanguage"]] == ["de"]
    # Dialect: the title says which API it is
    assert client.get("/spec").json()["info"]["title"] == "LibreTranslate"
    # libretranslatepy: a POST without a body
    assert client.post("/languages").json() == client.get("/languages").json()
    # deep-translator: all fields in the query
    asked = client.post("/translate", params={"q": SOURCES[0], "api_key": "x"} | SIDES)
    assert asked.json()["translatedText"] == text
    # LibreTranslate detects the language of several texts together
    detected = client.post("/detect", json={"q": SOURCES[:2]}).json()
    assert detected == client.post("/detect", json={"q": "\n".join(SOURCES[:2])}).json()
    # languages in any case; a text in the target language is its own translation
    assert client.translate(SOURCES[0], source="AUTO", target="EN").json()["translatedText"] == text
    for form in ("text", "html"):
        same = client.translate(["Ja. 12 <b>"], source="de", target="de-AT", format=form).json()
        assert same == {"translatedText": ["Ja. 12 <b>"], "version": [""]}


def test_the_lines_of_a_form_are_those_of_json(keeping):
    """A browser's form ends each line with CR LF; to every address it is the same text."""
    lines = "\n".join(SOURCES[:3])
    fields = {"q": lines, "s": lines.upper(), "details": "words", "glossary": "a\tb\nc\td"} | SIDES
    in_form = {name: value.replace("\n", "\r\n") for name, value in fields.items()}
    client = keeping()
    for path in ("/translate", "/detect", "/suggest"):
        expected = client.post(path, json=fields)
        for form in ({"data": in_form}, {"data": in_form, "files": {"unused": b""}}):
            answer = client.post(path, **form)
            assert answer.status_code == 200 and answer.json() == expected.json()
    longest = "1\r\n" * (client.service.limits.characters // 2)
    assert client.post("/translate", data={"q": longest} | SIDES).status_code == 200


def test_an_address_may_have_more_slashes(client):
    """As of a client whose address of the service ends with one."""
    for route in app.Routes(None).all():
        for method in route.methods:
            path = route.path.replace("{token}", "x")
            plain = client.request(method, path)
            doubled = client.request(method, f"http://testserver/{path}")
            assert doubled.status_code == plain.status_code


def test_the_specification_is_true(client):
    """It has the addresses that are there, and what it requires is required."""
    specification = client.get("/spec").json()
    paths = specification["paths"]
    routes = {route.path: route.methods for route in app.Routes(None).all()}
    assert {path: {method.upper() for method in of} for path, of in paths.items()} == {
        path: methods - {"HEAD"} for path, methods in routes.items()
    }
    given = {"q": "a"} | SIDES
    schema = paths["/translate"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert given.keys() | {"format", "alternatives", "details"} < schema["properties"].keys()
    schemas = specification["components"]["schemas"]
    assert schemas["Source"]["enum"] == ["de", "auto"]
    assert schemas["Target"]["enum"] == ["en"]
    answered = paths["/translate"]["post"]["responses"]["200"]["content"]["application/json"]
    for q in (SOURCES[0], SOURCES[:2]):
        answer = client.translate(q, source="auto", alternatives=1, details=True).json()
        assert set(answered["schema"]["required"]) <= answer.keys()
        assert answer.keys() <= answered["schema"]["properties"].keys()
    references = re.findall(r'"#/components/(\w+)/(\w+)"', json.dumps(specification))
    assert len(references) > 20
    assert all(name in specification["components"][kind] for kind, name in references)
    for path, methods in paths.items():
        for content in methods.get("post", {}).get("requestBody", {}).get("content", {}).values():
            for name in content["schema"].get("required", []):
                less = {key: value for key, value in given.items() if key != name}
                has_file = path == "/translate_file" and name != "file"
                files = {"file": ("a.txt", b"a")} if has_file else None
                answer = client.post(path, data=less, files=files)
                assert f"missing {name}" in error_of(answer)


def test_the_specification_says_what_needs_a_key(make_client):
    closed = make_client(keys=KEYS)
    specification = closed.get("/spec").json()
    for path, methods in specification["paths"].items():
        for method, operation in methods.items():
            needs_key = operation.get("security", specification["security"]) != []
            answer = closed.request(method, path, json={"q": "a"})
            assert (answer.status_code == 403) == needs_key, path
    assert "security" not in make_client().get("/spec").json()


def test_the_specification_has_the_limits(make_client):
    """The longest text and list are answered, and longer ones refused; as is what is empty."""
    client = make_client(Limits(characters=9, texts=3))
    schemas = client.get("/spec").json()["components"]["schemas"]
    text, texts = schemas["Texts"]["oneOf"]
    for q, status in (
        ("1" * text["minLength"], 200),
        ("1" * text["maxLength"], 200),
        ("1" * (text["maxLength"] + 1), 400),
        ("", 400),
        ([""] * texts["minItems"], 200),
        ([""] * texts["maxItems"], 200),
        ([""] * (texts["maxItems"] + 1), 400),
        ([], 400),
    ):
        assert client.translate(q).status_code == status
    most = schemas["Alternatives"]["maximum"]
    assert client.translate("1", alternatives=most).status_code == 200
    assert client.translate("1", alternatives=most + 1).status_code == 400
    assert client.translate("1", api_key=None).status_code == 200  # Weblate, without a key


@pytest.fixture
def keeping(open_models, tmp_path):
    """keeping(ACCEPTOR …) → a client of a service that keeps corrections, and has a memory."""
    store = corrections.Corrections(tmp_path / "corrections.db", create=True)
    shared = open_models()

    def make(*acceptors, keys=KEYS):
        units = {("de", "en"): TranslationMemory([("Ein Satz von gestern.", "Yesterday's.")])}
        made = service.Service(
            shared, Limits(), keys, corrections=store, acceptors=acceptors, units=units
        )
        client = Client(app.make_app(made), raise_server_exceptions=False)
        client.headers["Authorization"] = "Bearer secret"
        client.suggest = lambda q, s: client.post("/suggest", json={"q": q, "s": s} | SIDES)
        return client

    yield make
    store.close()


def test_without_corrections_and_memory_answers_are_as_before(client, run):
    (text,) = translated(run, SOURCES[0])
    answer = client.translate(SOURCES[0], details="words")
    assert [*answer.json()] == ["translatedText", "version", "details"]
    assert client.translate(SOURCES[0]).text == f'{{"translatedText":"{text}","version":"1"}}'
    fields = {"q": SOURCES[0], "s": "x"} | SIDES
    refused = client.post("/suggest", json=fields)
    assert refused.status_code == 403
    assert refused.text == '{"error":"Suggestions are disabled on this server"}'
    assert client.get("/frontend/settings").json()["suggestions"] is False


def test_a_suggestion_is_kept_line_by_line(keeping, run):
    """With what the machine writes, whoever sends it as JSON or a form; it waits."""
    client = keeping()
    assert client.get("/frontend/settings").json()["suggestions"] is True
    second = "\t\u2028".join(SOURCES[1].split(" "))  # as from a table or another program
    answer = client.suggest(f"{SOURCES[0]}\n\n {second}", "Eins\n\tZwei\t\n")
    assert answer.json() == {"success": True, "accepted": False}
    fields = {"q": SOURCES[2], "s": "Drei", "api_key": "secret"} | SIDES | {"source": "auto"}
    answer = client.post("/suggest", data=fields)
    assert answer.status_code == 200 and answer.json()["success"] is True
    rows = client.service.corrections.all()
    texts = translated(run, *SOURCES[:3])
    assert [row.source for row in rows] == SOURCES[:3]
    assert [row.target for row in rows] == texts
    assert [row.correction for row in rows] == ["Eins", "Zwei", "Drei"]
    assert {row[4:7] + row[8:] for row in rows} == {("de", "en", "1", "anna", 0)}
    assert client.translate(SOURCES[0]).json()["memory"] is False


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"s": None}, "missing s"),
        ({"q": None}, "missing q"),
        ({"q": ["a"]}, "q is not text"),
        ({"s": "\ud800"}, "s is not text"),
        ({"q": "a\nb"}, "q has 2 lines and s has 1"),
        ({"q": " ", "s": " "}, "q has 0 lines"),
        ({"s": "\u200b \u00ad"}, "s has 0"),  # the text was answered with nothing
        ({"s": "x" * 2001}, "2000 characters"),
        ({"q": "x" * 2001}, "2000 characters"),
        ({"s": "a\x1bb"}, "control"),
        ({"q": "a\x1bb"}, "control"),
        ({"s": "a\u202eb"}, "control"),
        ({"s": "a\u2028b"}, "U+2028"),  # it was kept as a space
        ({"s": "a\x0bb"}, "U+000B"),
        ({"format": "html"}, "without markup"),
        ({"source": "auto", "q": "This is written in English already."}, "in en already"),
    ],
)
def test_a_wrong_suggestion_is_one_sentence(keeping, fields, error):
    client = keeping()
    body = {"q": SOURCES[0], "s": "b"} | SIDES | fields
    body = {name: value for name, value in body.items() if value is not None}
    answer = client.post("/suggest", content=json.dumps(body), headers=JSON)
    assert error in error_of(answer)
    assert not client.service.corrections.all()


def test_no_request_is_a_failure_of_the_service(keeping):
    """Bodies of any bytes, and fields with any values, to any address."""
    client = keeping("anna")
    chosen = random.Random(1)
    words = [*'{}[]:,=&"', "q", "source", "target", "de", "en", "file", "api_key", "%00", "\ud83d"]
    types = ["json", "x-www-form-urlencoded", "b"]
    types = ["", "multipart/form-data; boundary=x", *(f"application/{kind}" for kind in types)]
    paths = "translate translate_file detect suggest languages download_file/x assets/x ../x"
    for _ in range(300):
        text = "".join(chosen.choices(words, k=chosen.randint(0, 12)))
        body = text.encode("utf-8", "surrogatepass") + chosen.randbytes(chosen.choice([0, 0, 20]))
        method = chosen.choice(["POST", "POST", "GET", "PUT"])
        path = f"/{chosen.choice(paths.split())}"
        headers = {"Content-Type": chosen.choice(types)}
        answer = client.request(method, path, content=body, headers=headers)
        assert answer.status_code < 500, (method, path, body, answer.text)
    values = ["", " ", "de", "en", "auto", "Hund", "a\nb", "\ud800", "\0", ["x"], 1, None, {}]
    for _ in range(150):
        body = {name: chosen.choice(values) for name in ("q", "s", "source", "target", "glossary")}
        path = chosen.choice(["/suggest", "/suggest", "/translate"])
        answer = client.post(path, content=json.dumps(body), headers=JSON)
        assert answer.status_code < 500, (body, answer.text)


def test_who_may_suggest_and_how_much(keeping, monkeypatch):
    client = keeping()
    client.headers["Authorization"] = "Bearer wrong"
    assert client.suggest("a", "b").status_code == 403
    client.headers["Authorization"] = "Bearer secret"
    monkeypatch.setattr(corrections, "MOST_WAITING", 1)
    assert client.suggest(SOURCES[0], "b").status_code == 200
    assert client.suggest(SOURCES[0], "c").status_code == 429
    client.service.corrections.path.unlink()
    answer = client.suggest(SOURCES[0], "d")
    assert "cannot be stored" in error_of(answer, 503)


def test_an_accepted_correction_is_answered_at_once(keeping, run):
    """And marked; a later one of the same text wins, which is said."""
    client = keeping("anna")
    second = translated(run, SOURCES[1])[0]
    answer = client.suggest(SOURCES[0], "Right & good.").json()
    assert answer == {"success": True, "accepted": True}
    answer = client.translate([f" {SOURCES[0]}\n", SOURCES[1]]).json()
    assert answer["translatedText"] == [" Right & good.\n", second]
    assert answer["memory"] == [True, False]
    both = client.translate(f"{SOURCES[0]} {SOURCES[1]}", alternatives=1, details=True).json()
    assert both["translatedText"] == f"Right & good. {second}" and both["memory"] is False
    assert [part["text"] for part in both["details"]] == [second]

    answer = client.suggest(SOURCES[0], "Better.").json()
    assert answer["instead"] == ["Right & good."]
    assert client.translate(SOURCES[0]).json()["translatedText"] == "Better."
    assert client.suggest(SOURCES[0], "Better.").json() == {"success": True, "accepted": True}
    twice = client.suggest("Ein Uhu.\nEin Uhu.", "An owl.\nA bird.").json()
    assert twice["instead"] == ["An owl."]
    assert client.translate("Ein Uhu.").json()["translatedText"] == "A bird."
    assert client.suggest("Ein Satz von gestern.", "Mine.").json()["instead"] == ["Yesterday's."]
    assert client.translate("Ein Satz von gestern.").json()["translatedText"] == "Mine."
    lines = client.translate(f"{SOURCES[0]} {SOURCES[1]}", source="auto").json()
    assert lines["translatedText"] == f"Better. {second}"
    client.service.corrections.delete(range(1, 7))
    assert client.translate(SOURCES[0]).json()["memory"] is False


@pytest.mark.parametrize(
    ("text", "correction"),
    [
        (SOURCES[0], "One."),
        (f"{SOURCES[0]} {SOURCES[1]}", "One & two."),
        (f"{SOURCES[0]}  {SOURCES[1]}\n{SOURCES[2]}", "One, two.\nThree."),
        ("Siehe https://x.example/a?b=1 heute. Dann geh.", "Go, see https://x.example/a?b=1 today"),
        ("Hallo {name}, wie geht es? Gut.", "How is {name}? Good."),
    ],
)
def test_a_correction_counts_in_every_form_of_its_text(keeping, run, text, correction):
    """Whatever its lines have: several sentences, or units."""
    client = keeping("anna")
    assert client.suggest(text, correction).json()["accepted"] is True
    assert client.translate(text).json()["translatedText"] == correction
    lines = [html.escape(line, quote=False) for line in text.split("\n")]
    markup = "".join(f"<p>{line}</p>" for line in lines)
    answer = client.translate(markup, format="html").json()
    corrected = "".join(f"<p>{line}</p>" for line in correction.split("\n"))
    assert html.unescape(answer["translatedText"]) == corrected and "memory" not in answer
    (other,) = translated(run, SOURCES[5])
    document = f"{text}\n{SOURCES[5]}".replace("\n", "\n\n")
    answer = client.translate_file("a.txt", document.encode()).json()
    assert (answer["sentences"], answer["memorySentences"]) == (len(lines) + 1, len(lines))
    wanted = f"{correction}\n{other}".replace("\n", "\n\n")
    assert client.get(answer["translatedFileUrl"]).text == wanted


def test_what_is_similar_is_said_with_the_details(keeping):
    """Of a line and of its sentences, not of what is the same."""
    client = keeping("anna")
    line = "Der alte Mann geht heute in den Garten. Dort liest er ein Buch."
    client.suggest(line, "All of it.")
    changed = line.replace("heute", "morgen")
    answer = client.translate([changed, "Ein Satz von heute.", line, "1"], details="words").json()
    of_line, of_sentence, *none = answer["similar"]
    assert none == [[], []] and answer["memory"] == [False, False, True, False]
    (match,) = of_line
    assert match["text"] == changed and match["source"] == line and match["target"] == "All of it."
    assert match["similarity"] == pytest.approx(2 * 14 / 30)
    assert of_sentence[0]["target"] == "Yesterday's."
    assert "similar" not in client.translate(changed).json()


def test_a_request_has_its_own_glossary(client, run, tmp_path):
    """Only its own texts have the terms, also of requests that are translated together."""
    plain = "Der Bäcker sieht das rote Fahrrad."
    lines = "Bäcker\tcat\n\nFahrrad\tgarden|river\n"
    path = tmp_path / "terms.tsv"
    path.write_text(lines, encoding="utf-8")
    wanted = translated(run.with_glossary(path), plain)[0]
    (usual,) = translated(run, plain)
    assert "cat" in wanted and wanted != usual
    answer = client.translate([plain, plain], glossary=lines).json()
    assert answer["translatedText"] == [wanted, wanted]
    runs = [run, run.with_glossary(path)]
    path.write_text("Bäcker\tdog\n", encoding="utf-8")
    runs += [run.with_glossary(path), *runs]
    sentences = [batching.Sentence(plain, 1, False, each.translator.terms) for each in runs]
    together = client.service.batchers[0].translate(sentences)
    texts = [translation.text for translation, _ in together]
    assert texts == [usual, wanted, translated(runs[2], plain)[0], usual, wanted]
    assert "dog" in texts[2]
    markup = client.translate(f"<p>{plain}</p>", format="html", glossary=lines).json()
    assert markup["translatedText"] == f"<p>{wanted}</p>"
    fields = SIDES | {"glossary": lines}
    files = {"file": ("a.txt", plain.encode())}
    answer = client.post("/translate_file", data=fields, files=files).json()
    assert client.get(answer["translatedFileUrl"]).text == wanted


@pytest.mark.parametrize(
    ("glossary", "error"),
    [
        ("Hund", "glossary, line 1"),
        ("Hund\tdog\nHund\tcat", "glossary, line 2"),
        (["Hund\tdog"], "glossary is not text"),
        ("x" * 101 + "\tdog", "100 characters"),
        ("x\ty\n" * 5001, "20000 characters"),
        ("ein\tdog", "subword pieces"),
        ("de\ten\nHund\tdog\nKatze\t", "glossary: 1 rows have no terms in both de and en: 3"),
    ],
)
def test_a_wrong_glossary_is_one_sentence(client, glossary, error):
    """So is one that would take too long: each term in a sentence is work."""
    for format in ("text", "html"):
        answer = client.translate("ein " * 4000, glossary=glossary, format=format)
        assert error in error_of(answer)


def test_each_run_may_have_its_own_file(tmp_path):
    command = pytest.importorskip("nmt.commands.serve")
    folders = {"de-en": tmp_path / "a", "x=y": tmp_path / "b"}
    both = {folders["de-en"]: "1.tsv", folders["x=y"]: "2=3.tsv"}
    assert command.files_of_runs("--memory", ["2=3.tsv", "de-en=1.tsv"], folders) == both
    assert command.files_of_runs("--memory", ["de-en=1.tsv"], folders) == dict([*both.items()][:1])
    for twice in (["1", "2"], ["de-en=1", "de-en=2"]):
        with pytest.raises(UserError, match="two files"):
            command.files_of_runs("--memory", twice, folders)


def test_a_glossary_of_a_request_comes_before_that_of_the_run(run, tmp_path):
    path = tmp_path / "terms.tsv"
    path.write_text("Hund\tdog\nKatze\tcat\n", encoding="utf-8")
    pair = service.Pair(run.with_glossary(path), None, "de", "en", "")
    # as of a file: with names of columns, and with a spreadsheet's quotes
    for given in ("Hund\tanimal", "\ufeffen\tde\r\nanimal\tHund\r\n", '"Hund"\t"animal"\r\n'):
        entries = pair.glossary(given).entries
        assert {source: entry.targets for source, entry in entries.items()} == {
            "Hund": ("animal",),
            "Katze": ("cat",),
        }
    assert pair.glossary("") is None


def test_the_models_end_with_the_application(make_client, open_models):
    opened = open_models()
    with make_client(models=opened) as client:
        assert client.translate(SOURCES[0]).status_code == 200
    assert not any(batcher.thread.is_alive() for batcher in client.service.batchers)


def test_the_command_prints_a_new_key_once_and_refuses(tmp_path, capfd, refused):
    path = tmp_path / "keys"
    answer = run_command(capfd, "serve", "--keys", str(path), "--new-key", "anna")
    digits = hashlib.sha256(answer.out.strip().encode()).hexdigest()
    assert answer.code == 0 and path.read_text() == f"{digits} anna\n"
    path.write_text("secret\n")
    for words, wanted in (
        ("", "which run"),
        ("--new-key anna", "--keys"),
        (f"x --keys {path}", f"{path}:1"),
        ("x --port 70000", "--port 70000"),
        ("x --root-path translate", "--root-path translate"),
        ("x --root-path /a/../b?", "--root-path"),
        ("x --forwarded-allow-ips proxy.example", "proxy.example"),
        ("x --forwarded-allow-ips 10.0.0.0/99", "10.0.0.0/99"),
        ("x --max-models 0", "--max-models"),
    ):
        assert wanted in refused("serve", *words.split())


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
            found = (re.search(r"http://\S+", line) for line in process.stderr)
            yield process, next(address[0] for address in found if address)
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
    memory = tmx_of([*pairs(600), ("Ein Satz.", "")])
    (tmp_path / "memory.tmx").write_text(memory, encoding="utf-8")
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
        browser.resize(390)
        browser.send("Page.navigate", url=address)
        browser.wait("document.querySelectorAll('#from option').length === 1")
        text = f"{SOURCES[0]}\n<img src=x onerror=alert(1)>"
        browser.run(f"""(() => {{
            const source = document.getElementById("source");
            source.value = {json.dumps(text)};
            source.dispatchEvent(new Event("input"));
        }})()""")
        browser.wait("document.body.dataset.done && !document.querySelector('.waiting')")
        browser.run("document.querySelector('#attention summary').click()")
        browser.wait("document.querySelectorAll('.pair').length > 0")
        shown = browser.texts("#translation p")
        assert shown[0] == translated(run, SOURCES[0])[0] and len(shown) == 2
        assert not browser.texts("#translation img, .pair img")
        browser.run("document.querySelector('.target button').focus()")
        browser.wait("document.querySelector('.summary').textContent.includes('attends to')")
        assert browser.overflow() <= 0

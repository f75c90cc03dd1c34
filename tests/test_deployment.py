"""What an operator of nmt serve needs: logs, metrics, proxies, signals, files of deploy/."""

import json
import logging
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from corpora import Trained, run_command
from servers import BROUGHT, Handler, serving
from test_serve import (
    KEYS,
    SIDES,
    SOURCES,
    Client,
    make_client,
    open_models,
    run,
    running,
)

from nmt.commands import serve as command
from nmt.commands.options import make_parser
from nmt.serve import access_log, app, models, routes, service

uvicorn = pytest.importorskip("uvicorn", reason=BROUGHT)
SHARED = make_client, open_models, run  # fixtures, which pytest finds by these names
DEPLOY = Path(__file__).parents[1] / "deploy"
BEARER = {"Authorization": "Bearer secret"}


@pytest.fixture
def lines(request, monkeypatch, caplog):
    """The lines of the log in the format of the parameter."""
    caplog.set_level("INFO", "nmt")
    written: list[str] = []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            written.append(self.format(record))

    monkeypatch.setattr(access_log.log, "handlers", [Lines()])
    for library in ("uvicorn", "asyncio", "py.warnings"):
        monkeypatch.setattr(logging.getLogger(library), "handlers", [])
        monkeypatch.setattr(logging.getLogger(library), "propagate", True)
    access_log.use_format(request.param)
    yield written
    logging.captureWarnings(False)


@pytest.mark.parametrize("lines", ["text", "json"], indirect=True)
def test_the_log_has_the_place_of_an_error(lines):
    try:
        raise ValueError("no such piece")
    except ValueError:
        access_log.log.exception("A request failed.")
    [line] = lines
    for part in ("A request failed.", __file__, "ValueError: no such piece"):
        assert part in line


@pytest.fixture
def logged(make_client):
    """A client of a service that needs keys and logs requests."""
    made = make_client(keys=KEYS).service
    return Client(app.make_app(made, logs_requests=True), raise_server_exceptions=False)


@pytest.mark.parametrize("lines", ["json"], indirect=True)
def test_a_line_of_json_for_each_request(logged, lines):
    """With the names of its key and of why it was refused; never with a text or a key."""
    answer = logged.translate(SOURCES[0], api_key="secret")
    assert answer.status_code == 200
    logged.post("/translate?api_key=wrong", json={"q": SOURCES[0]} | SIDES)
    logged.get("/no%0Asuch path", headers=BEARER)
    logged.post("/translate", json={"q": "x"} | SIDES | {"target": "zz"}, headers=BEARER)
    logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
    good, wrong, lost, language, message = map(json.loads, lines)
    assert good.pop("id") == answer.headers["x-request-id"]
    assert 0 < good.pop("seconds") < 60
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", good.pop("time"))
    assert good == {
        "level": "info",
        "client": "testclient",
        "key": "anna",
        "method": "POST",
        "path": "/translate",
        "status": 200,
        "pair": "de-en",
        "version": "1",
    }
    assert (wrong["status"], wrong["reason"], "key" in wrong) == (403, "key", False)
    assert (language["status"], language["reason"]) == (400, "language")
    assert language["key"] == "anna" and lost["status"] == 404
    assert message["message"].startswith("Invalid HTTP") and message["level"] == "warning"
    assert not any(word in line for line in lines for word in ("secret", "wrong", SOURCES[0]))


@pytest.mark.parametrize("lines", ["text"], indirect=True)
def test_a_line_of_text_for_each_request(logged, lines):
    """In which values with spaces have quotes, so that nobody can write another name or line."""
    logged.get("/a%20b=%22c%22%0Astatus=200")
    (line,) = lines
    words = dict(word.split("=", 1) for word in shlex.split(line)[1:])
    assert words["status"] == "404" and 'b="c" status=200' in words["path"]
    assert words["client"] == "testclient" and "key" not in words


@pytest.mark.parametrize("given", ["3f9c-0.a_1", "a" * 65, "a b", "ä", ""])
def test_the_id_of_a_request_is_kept_if_it_is_one(make_client, given):
    headers = {"X-Request-ID": given.encode()}
    answered = make_client().get("/health", headers=headers).headers["x-request-id"]
    if given == "3f9c-0.a_1":
        assert answered == given
    else:
        assert re.fullmatch("[0-9a-f]{16}", answered)


def test_metrics_have_the_pair_the_key_and_the_reason(make_client):
    """And buckets up to the longest time of a request, and the memory of the process."""
    client = make_client(service.Limits(seconds=45, characters=100, requests=8), KEYS)
    assert client.translate(SOURCES[:2], api_key="secret").status_code == 200
    refused = {
        "key": client.translate("a"),
        "language": client.translate("a", target="zz", api_key="secret"),
        "size": client.translate("a" * 101, api_key="secret"),
        "bytes": client.post("/translate", content=b"x" * 100_000),
        "document": client.post(
            "/translate_file", data=SIDES, files={"file": ("a.docx", b"PK")}, headers=BEARER
        ),
        "invalid": client.translate("", api_key="secret"),
    }
    assert all(answer.status_code >= 400 for answer in refused.values())
    metrics = client.get("/metrics", headers=BEARER).text
    for reason, answer in refused.items():
        path = answer.request.url.path
        key = "" if reason in ("key", "bytes") else "anna"
        counted = f'nmt_refusals_total{{key="{key}",path="{path}",reason="{reason}"}} 1.0'
        assert counted in metrics
    assert 'nmt_sentences_total{key="anna",pair="de-en",version="1"} 2.0' in metrics
    assert 'nmt_model{pair="de-en",run="tiny",version="1"} 1.0' in metrics
    pattern = r'seconds_bucket\{le="(.*?)",pair="de-en",path="/translate"\}'
    bounds = re.findall(pattern, metrics)
    assert bounds[-2:] == ["45.0", "+Inf"] and bounds[0] == "0.01"
    if sys.platform == "linux":
        assert "process_resident_memory_bytes" in metrics
    codes = [client.get("/metrics", headers=BEARER).status_code for _ in range(20)]
    assert 429 in codes  # also where a minute begins between


@pytest.mark.parametrize("root", ["/mt", "/translate"])
@pytest.mark.parametrize("is_stripped", [True, False])
def test_the_service_has_a_path_before_its_addresses(make_client, is_stripped, root):
    """Whether the proxy leaves it in the path of a request or not."""
    made = make_client().service
    client = Client(app.make_app(made, root_path=root))
    prefix = "" if is_stripped else root
    assert client.post(f"{prefix}/translate", data=SIDES | {"q": "1"}).status_code == 200
    assert client.get(f"{prefix}/languages").status_code == 200
    assert client.get(f"{prefix}/spec").json()["servers"] == [{"url": root}]
    assert "assets/page.js" in client.get(f"{prefix}/").text
    limit = made.limits.text_bytes + 10
    files = {"file": ("a.txt", b"1" * limit)}
    answer = client.post(f"{prefix}/translate_file", data=SIDES, files=files).json()
    assert answer["translatedFileUrl"].startswith(f"http://testserver{root}/download_file/")
    assert client.get(answer["translatedFileUrl"]).content == b"1" * limit
    assert client.get(f"{root}x/languages").status_code == 404


def test_keys_are_read_again(make_client, tmp_path):
    """If the file is damaged, they stay as they were."""
    path = tmp_path / "keys"
    path.write_text("".join(f"{hashed} {name}\n" for hashed, name in KEYS.items()))
    made = service.Service(make_client().service.models, service.Limits(), dict(KEYS), (), path)
    client = Client(app.make_app(made))

    def status() -> int:
        return client.post("/detect", json={"q": "x"}, headers=BEARER).status_code

    assert status() == 200
    path.write_text("no key\n")
    made.reread_keys()
    assert status() == 200
    path.write_text("")
    made.reread_keys()
    assert status() == 403


def test_a_hang_up_while_the_models_are_loaded_is_not_lost(
    trained: Trained, tmp_path, capfd, monkeypatch
):
    """It does not end the process, which would be this one, but is acted on once all is loaded."""
    memory = tmp_path / "memory.tsv"
    memory.write_text("de\ten\nGestern.\tYesterday.\n", encoding="utf-8")
    store = tmp_path / "corrections.db"
    monkeypatch.setattr(sys, "setswitchinterval", lambda _: None)
    monkeypatch.setattr(command, "keep_memory_together", lambda: None)
    load = models.Models.load
    served = []

    def load_slowly(self, checkpoints):
        signal.raise_signal(signal.SIGHUP)
        return load(self, checkpoints)

    def end_at_once(self, sockets):
        served.append(self.config.app.service)
        for each in sockets:
            each.close()

    monkeypatch.setattr(models.Models, "load", load_slowly)
    monkeypatch.setattr(uvicorn.Server, "run", end_at_once)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        words = ["--runs", trained.runs, "--engine", "torch", "--port", "0"]
        files = ["--memory", f"tiny={memory}", "--corrections", str(store)]
        assert run_command(capfd, "serve", "tiny", *words, *files).code == 0
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    (made,) = served
    for batcher in made.batchers:
        batcher.close()
    assert made.hang_ups == [signal.SIGHUP]
    assert made.units["de", "en"].targets == {"Gestern.": "Yesterday."}
    assert made.corrections.path == store
    made.corrections.close()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals(trained: Trained, tmp_path, number):
    """SIGHUP reads the keys again, and a client is known by what a trusted proxy says; the end has
    no traceback, even beside a request that is never sent to its end."""
    httpx2 = pytest.importorskip("httpx2", reason=BROUGHT)
    keys = tmp_path / "keys"
    keys.write_text("".join(f"{hashed} {name}\n" for hashed, name in KEYS.items()))
    words = ["--keys", keys, "--access-log", "json", "--seconds", "3"]
    with running("tiny", trained.runs, *map(str, words)) as (process, address):
        url = f"{address}detect"
        headers = BEARER | {"X-Forwarded-For": "203.0.113.5", "X-Forwarded-Proto": "https"}
        answer = httpx2.post(url, json={"q": "ja"}, headers=headers, timeout=60)
        assert answer.status_code == 200
        keys.write_text("")
        process.send_signal(signal.SIGHUP)
        while answer.status_code == 200:
            answer = httpx2.post(url, json={"q": "ja"}, headers=headers, timeout=60)
        assert answer.status_code == 403

        def slowly():
            yield b'{"q": '
            process.send_signal(number)
            while process.poll() is None:
                time.sleep(0.5)
                yield b" "

        with pytest.raises(httpx2.HTTPError):
            httpx2.post(f"{address}translate", content=slowly(), timeout=60).raise_for_status()
        assert process.wait(90) == 0
        logged = [json.loads(line) for line in process.stderr.read().splitlines()]
    first, *_, last = (line for line in logged if "status" in line)
    assert first["client"] == "203.0.113.5" and first["key"] == "anna"
    assert last["status"] == 503 and last["reason"] == "stop"
    assert not [line for line in logged if "Traceback" in line.get("message", "")]


# --------------------------------------------------------------------------------------------------
# The files of deploy/


def parse(words: list[str]) -> None:
    make_parser().parse_args(words[words.index("serve") :])


def dockerfile() -> dict[str, str]:
    """The last of each instruction."""
    text = re.sub(r"\\\n\s*", " ", (DEPLOY / "Dockerfile").read_text())
    return dict(line.split(" ", 1) for line in text.splitlines() if line[:1].isalpha())


def test_what_the_deployment_files_start_are_commands():
    image = dockerfile()
    entry = json.loads(image["ENTRYPOINT"])
    parse([*entry, *json.loads(image["CMD"])])
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    translate = compose["services"]["translate"]
    parse([*entry, *(word.replace("${RUN:-latest}", "latest") for word in translate["command"])])
    unit = (DEPLOY / "nmt.service").read_text()
    parse(shlex.split(re.search("^ExecStart=(.*)", unit, re.M)[1]))
    assert image["USER"].split(":")[0] not in ("0", "root") and "User=nmt" in unit
    assert translate["read_only"]


def test_the_image_gets_what_the_wheel_is_built_from():
    """What is copied exists, and is not left out of the context."""
    text = (DEPLOY / "Dockerfile").read_text()
    copied = [words.split()[:-1] for words in re.findall("^COPY (?!--)(.*)", text, re.M)]
    names = {name for of_line in copied for name in of_line}
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert {f"!{name}" for name in names} <= set(ignored)
    assert all((DEPLOY.parent / name).exists() for name in names)
    project = (DEPLOY.parent / "pyproject.toml").read_text()
    included = re.search(r"targets.wheel\]\nonly-include = (.*)", project)[1]
    assert set(json.loads(included)) <= names


def test_the_proxy_asks_every_copy_for_a_document():
    """Only one of them has it; the others answer 404."""
    paths = [route.path for route in routes.Routes(None).all()]
    (place,) = (path.partition("{")[0] for path in paths if path.startswith("/download"))
    proxy = (DEPLOY / "nginx.conf").read_text()
    location = re.search(rf"location {place} \{{(.*?)\}}", proxy, re.DOTALL)
    assert location and "http_404" in location[1]


@pytest.mark.parametrize("status", [200, 503])
def test_the_image_is_healthy_if_the_service_is(status):
    class Health(Handler):
        def do_GET(self) -> None:
            self.send(b"", status if self.path == "/health" else 404)

    code = json.loads(dockerfile()["HEALTHCHECK"].partition(" CMD ")[2])[2]
    with serving(Health) as server:
        command = [sys.executable, "-c", code.replace("5000", str(server.server_port))]
        assert subprocess.run(command).returncode == (status != 200)

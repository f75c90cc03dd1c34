"""What a client of nmt serve may ask, and how often: keys, rates, sizes, kept files, fields."""

import asyncio
import hashlib
import json
import os
import resource
import time
from collections import Counter
from functools import partial
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from servers import BROUGHT

from nmt.documents.translation import as_it_is
from nmt.errors import UserError

pytest.importorskip("nmt.serve.app", reason=BROUGHT)
pytest.importorskip("sentencex", reason=BROUGHT)

from nmt.serve import (
    clients,
    detection,
    fields,
    kept_files,
    limits,
    models,
    routes,
    service,
    texts,
    translation,
)
from nmt.serve import document_process as process
from nmt.serve.limits import Refusal


def status_of(call, *words) -> int:
    """200, or the status of the refusal."""
    try:
        call(*words)
    except Refusal as refusal:
        return refusal.status_code
    return 200


def hashed(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def request(key: str = "", host: str = "10.0.0.1") -> SimpleNamespace:
    """The head of a request."""
    return SimpleNamespace(
        headers={"authorization": f"Bearer {key}"} if key else {},
        query_params={},
        client=SimpleNamespace(host=host) if host else None,
        scope={},
    )


# --------------------------------------------------------------------------------------------------
# Keys and rates


@pytest.mark.parametrize(
    ("head", "key"),
    [("Bearer k", "k"), ("bearer  k ", "k"), ("BEARER k", "k"), ("Basic k", "q"), ("", "q")],
)
def test_a_key_is_in_the_head_or_else_in_the_query(head, key):
    asked = SimpleNamespace(headers={"authorization": head}, query_params={"api_key": "q"})
    assert clients.key_of(asked) == key


@given(
    st.integers(0, 2),
    st.lists(st.tuples(st.sampled_from(["anna", "10.0.0.1", ""]), st.integers(0, 20)), min_size=9),
)
def test_each_client_has_so_many_requests_a_minute(allowed, asked):
    """A client is the owner of a key, or an address; 0 is any number."""
    limited = clients.Clients({hashed("anna"): "anna"}, allowed)
    counts: Counter[tuple[str, int]] = Counter()
    clock = SimpleNamespace(monotonic=lambda: seconds)
    seconds = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clients, "time", clock)
        for client, pause in asked:
            seconds += pause
            has_key = client == "anna"
            head = request(client) if has_key else request(host=client)
            counts[client, seconds // 60] += 1
            if allowed and counts[client, seconds // 60] > allowed:
                with pytest.raises(Refusal, match="429") as refused:
                    limited.admit(head)
                # when the next minute begins
                assert int(refused.value.headers["Retry-After"]) == 60 - seconds % 60
            else:  # without a key in the head it must be in the body
                assert limited.admit(head) == (not has_key)


def test_a_request_whose_key_is_in_its_body_counts_for_its_owner():
    """Not for the address, behind which others may be."""
    limited = clients.Clients({hashed("secret"): "anna"}, requests=1)
    for status in (200, 429):
        assert limited.admit(request())
        assert status_of(limited.admit_body, request(), "secret") == status
    assert status_of(limited.admit_body, request(host="10.0.0.2"), "wrong") == 403
    assert status_of(limited.admit, request(host="10.0.0.2")) == 200
    assert status_of(limited.admit, request("secret", host="10.0.0.3")) == 429


def test_a_body_that_is_read_into_the_next_minute_gives_the_address_nothing(monkeypatch):
    limited = clients.Clients({hashed("secret"): "anna"}, requests=1)
    seconds = iter([59, 60, 61, 62, 63])
    monkeypatch.setattr(clients, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    assert limited.admit(request())
    limited.count("key ben")  # the next minute begins
    limited.admit_body(request(), "secret")
    for status in (200, 429):
        assert status_of(limited.admit, request()) == status


@pytest.mark.parametrize("place", [0, 8, 32, 63])
def test_a_key_is_its_whole_hash(place):
    """A stored hash that differs in one digit is that of another key."""
    digits = hashed("secret")
    other = digits[:place] + ("0" if digits[place] != "0" else "1") + digits[place + 1 :]
    known = clients.Clients({other: "ben"})
    assert known.owner("secret") is None
    known.keys[digits] = "anna"
    assert known.owner("secret") == "anna"
    for wrong in ("secre", "secret1", "Secret", "", None, 3, ["secret"], digits, "\ud800"):
        assert known.owner(wrong) is None


def test_keys_are_stored_as_hashes_that_only_their_owner_can_read(tmp_path):
    path = tmp_path / "keys"
    keys = {name: clients.make_key(path, name) for name in ("anna", "ben b")}
    assert clients.read_keys(path) == {hashed(key): name for name, key in keys.items()}
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_bytes(path.read_bytes().rstrip(b"\n"))  # as an editor may leave it
    keys["carla"] = clients.make_key(path, "carla")
    assert clients.read_keys(path) == {hashed(key): name for name, key in keys.items()}
    digits = hashed("a")
    for line in ("secret", digits, f"{digits[1:]} a", f"{digits} a\x1b[2J", "M\xfcller"):
        path.write_bytes(f"{digits} a\n{line}\n".encode("latin-1"))
        with pytest.raises(UserError, match=f"{path}(:2| cannot be read)"):
            clients.read_keys(path)
    for name in ("", " ", "a\n"):
        with pytest.raises(UserError, match="name"):
            clients.make_key(path, name)
    with pytest.raises(UserError, match="none"):
        clients.make_key(tmp_path / "none/keys", "anna")
    with pytest.raises(UserError, match="none"):
        clients.read_keys(tmp_path / "none")


# --------------------------------------------------------------------------------------------------
# Sizes and kept files


def test_the_newest_files_are_kept_for_a_while(monkeypatch):
    """Each for 10 seconds, and at most 9 bytes; the first that came is the first that goes."""
    clock = SimpleNamespace(now=0)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr(kept_files, "KEPT_BYTES", 9)
    monkeypatch.setattr(kept_files, "KEPT_SECONDS", 10)
    monkeypatch.setattr(kept_files, "time", clock)
    kept = kept_files.KeptFiles()
    first = kept.keep("a.txt", b"x" * 4)
    second = kept.keep("b.txt", b"x" * 5)
    assert kept.get(first) == (0, "a.txt", b"xxxx") and kept.get("x") is None
    clock.now = 5
    third = kept.keep("c.txt", b"x")
    assert [*kept.files] == [second, third] and kept.get(first) is None
    clock.now = 10
    assert kept.get(second)
    fourth = kept.keep("d.txt", b"")
    assert [*kept.files] == [second, third, fourth]
    clock.now = 11
    assert kept.get(second) is None and kept.get(third)
    fifth = kept.keep("e.txt", b"")
    assert [*kept.files] == [third, fourth, fifth]
    large = kept.keep("large.txt", b"x" * 20)
    assert [*kept.files] == [large]


def test_a_body_may_not_take_for_ever():
    body = limits.BoundedBody(lambda: asyncio.sleep(600), 10, 0.01)
    with pytest.raises(Refusal, match="408"):
        asyncio.run(body())


def test_after_a_body_the_client_may_wait_for_its_answer():
    messages = iter([asyncio.sleep(0, {"body": b"x"}), asyncio.sleep(0.05, "it has left")])
    body = limits.BoundedBody(lambda: next(messages), 10, 0.01)

    async def read() -> list:
        return [await body(), await body()]

    assert asyncio.run(read()) == [{"body": b"x"}, "it has left"]


@pytest.mark.parametrize("character", ["x", "ü", "\U0001f600", '"'])
@pytest.mark.parametrize("count", [1, 300])
def test_the_bytes_of_a_request_are_enough_for_its_characters(character, count):
    """As JSON, with escapes, and as a form."""
    allowed = limits.Limits(characters=300, texts=count, megabytes=1)
    given = [character * (300 // count)] * count
    assert len(json.dumps({"q": given, "source": "de", "target": "en"})) < allowed.text_bytes
    assert sum(len("&q=") + 3 * len(text.encode()) for text in given) < allowed.text_bytes
    assert limits.Limits(megabytes=3).document_bytes == 3 * 1024 * 1024
    assert limits.Limits(characters=10**9, megabytes=1).text_bytes == 1024 * 1024


# --------------------------------------------------------------------------------------------------
# Fields


def test_a_number_is_within_its_range():
    for value in (None, "", "0", 0, "7", 7, "9"):
        assert fields.number_field({"n": value}, "n", 9) == int(value or 0)
    for value in ("10", "-1", "1.5", "²", "x", ["1"], "0" * 10, False, [], {}):
        assert status_of(fields.number_field, {"n": value}, "n", 9) == 400


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([True, "true", "1", 1, "Yes", "on"], "all"),
        ([False, "false", "0", 0, "no", "OFF", "", None], ""),
        (["words", "Words"], "words"),
    ],
)
def test_details_are_all_none_or_words(values, wanted):
    assert {fields.details_field({"details": value}) for value in values} == {wanted}
    for value in ("perhaps", [], {}):
        assert status_of(fields.details_field, {"details": value}) == 400


def test_only_texts_may_be_given_more_than_once():
    items = [("q", "a"), ("source", "de"), ("q", "b"), ("q", "c")]
    assert fields.collected(items) == {"q": ["a", "b", "c"], "source": "de"}
    assert fields.collected([("q", "a")]) == {"q": "a"}
    assert status_of(fields.collected, [*items, ("source", "de")]) == 400
    assert fields.json_fields(b'{"q": "a", "q": "b"}') == {"q": ["a", "b"]}
    for body in (b"[]", b"{", b"", b"\xff", b"[" * 10**5, b'{"source": 1, "source": 2}'):
        assert status_of(fields.json_fields, body) == 400


def sent(body: bytes, kind: str, query: bytes = b"", **headers: str) -> dict:
    """The fields of a request."""

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    heads = {"content-type": kind} | headers
    scope = {"type": "http", "method": "POST", "query_string": query}
    scope["headers"] = [
        (name.replace("_", "-").encode(), value.encode()) for name, value in heads.items()
    ]
    scope["nmt.body"] = SimpleNamespace(most_bytes=2**22)
    return asyncio.run(fields.read_fields(fields.Request(scope, receive)))


@pytest.mark.parametrize("encoded", ["schläft ein".encode(), b"schl%C3%A4ft+ein"])
def test_a_form_and_a_query_need_not_be_percent_encoded(encoded):
    """As curl sends what stands in an address, and what follows -d. Other bytes are refused."""
    given = b"source=de&q=" + encoded
    for form in (partial(sent, kind=fields.URL_ENCODED), partial(sent, b"", "")):
        assert form(given) == {"source": "de", "q": "schläft ein"}
        for wrong in (b"q=schl\xe4ft", b"q=schl%E4ft"):
            with pytest.raises(Refusal, match="400.*UTF-8"):
                form(wrong)


TEXT_PART = b'--XX\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b\r\n--XX--\r\n'
FILE_PART = TEXT_PART.replace(b'name="%b"', b'name="file"; filename="%b"')
FORM = "multipart/form-data; boundary=XX"


@pytest.mark.parametrize("charset", ["", "; charset=utf-8", "; charset=utf-16", "; charset=x"])
def test_the_texts_of_a_form_with_files_are_utf_8(charset):
    """Its bytes are never taken for those of another coding, whatever it states."""
    kind = FORM + charset
    for text in ("Mädchen läuft", "Девочка", "少女", "ASCII"):
        utf8 = text.encode()
        assert sent(TEXT_PART % (utf8, utf8), kind) == {text: text}
        assert sent(FILE_PART % (utf8, b"\xff"), kind) == {"file": (text, b"\xff")}
        for coding in ("latin-1", "cp1251", "shift-jis", "utf-16"):
            other = text.encode(coding, "ignore")
            if other.isascii():
                continue
            for body in (
                TEXT_PART % (b"q", other),
                TEXT_PART % (other, b""),
                FILE_PART % (other, b""),
            ):
                with pytest.raises(Refusal, match="400.*UTF-8"):
                    sent(body, kind)
    for body in (
        TEXT_PART[:-8] % (b"q", b"x"),
        b"",
        TEXT_PART.replace(b"name", b"n") % (b"q", b"x"),
    ):
        assert status_of(sent, body, kind.replace("boundary", "b")) == 400


def test_a_form_that_is_cut_is_refused():
    """Its last field would be missing, without a word."""
    body = TEXT_PART[:-8] % (b"q", b"a") + TEXT_PART % (b"format", b"html")
    for end in range(len(body) - 2):
        assert status_of(sent, body[:end], FORM) == 400
    assert sent(body[:-2], FORM) == sent(body, FORM) == {"q": "a", "format": "html"}


def test_a_text_of_a_form_is_as_long_as_its_body_may_be():
    long = b"x" * (3 << 20)
    assert len(sent(TEXT_PART % (b"q", long), FORM)["q"]) == len(long)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{"q": "a\\r\\nb", "source": "de"}', "application/json"),
        (TEXT_PART[:-8] % (b"q", b"a\r\nb") + TEXT_PART % (b"source", b"de"), FORM),
        (b"q=a%0D%0Ab&source=de", "application/x-www-form-urlencoded"),
    ],
)
def test_a_query_belongs_to_its_request_whatever_the_body_is(body, kind):
    line_end = "\r\n" if "json" in kind else "\n"
    fields_sent = {"format": "html", "q": f"a{line_end}b", "source": "de"}
    assert sent(body, kind, b"format=html") == fields_sent
    assert status_of(sent, body, kind, b"source=en") == 400
    for coding, status in (("gzip", 415), ("br", 415), ("Identity", 200)):
        assert status_of(partial(sent, content_encoding=coding), body, kind) == status


def test_json_is_utf_8_too():
    for body in ('{"q": "Mädchen"}', "{}"):
        assert sent(body.encode(), "application/json; charset=latin-1") == json.loads(body)
    with pytest.raises(Refusal, match="400.*UTF-8"):
        sent('{"q": "Mädchen"}'.encode("latin-1"), "application/json")


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("Brief an \u202eX.TXT", "Brief an X.en.txt"),
        ("../a/b-1_2.json", "b-1_2.en.json"),
        ('..\\a\\\r\n";.txt', "document.en.txt"),
        ("x" * 90 + ".po", "x" * 80 + ".en.po"),
        ("Grüße.md", "Grüße.en.md"),
    ],
)
def test_a_translated_file_has_a_harmless_name(name, wanted):
    path, content = routes.file_field({"file": (name, b"x")})
    assert routes.translated_name(path, "en") == wanted and content == b"x"


@pytest.mark.parametrize(
    "file",
    [None, "text", ("", b"x"), (None, b"x"), ("a.exe", b"x"), ("\ud800.txt", b""), ("a", b"")],
)
def test_what_is_no_document_is_refused(file):
    assert status_of(routes.file_field, {"file": file}) == 400


# --------------------------------------------------------------------------------------------------
# Languages


@pytest.mark.parametrize(
    ("text", "codes", "best"),
    [
        ("Das ist nicht gut", ["de", "en"], "de"),
        ("The man is reading a book", ["de", "en-GB"], "en-GB"),
        ("Привет, как дела?", ["de", "en"], "ru"),
        ("Привет, как дела?", ["de", "tlh"], "de"),  # it may be Klingon, for all that is known
        ("Jeg vet ikke hva som skjer i Norge", ["nb", "en"], "nb"),
        ("我不知道你在说什么", ["zt", "en"], "zt"),
    ],
)
def test_a_language_is_told_by_evidence(text, codes, best):
    """Codes of one language share it, in whatever order they come."""
    variant = {"zt": "zh", "en": "en-GB", "de": "de-AT"}.get(best)
    if variant and best in codes:
        for both in ([*codes, variant], [variant, *codes]):
            shares = {
                guess.language: guess.share for guess in detection.guess_languages(text, both)
            }
            assert shares[best] == shares[variant] == max(shares.values())
    guesses = detection.guess_languages(text, codes)
    assert guesses[0].language == best
    shares = [guess.share for guess in guesses]
    assert shares == sorted(shares, reverse=True) and 0 <= shares[-1]
    assert {guess.language for guess in guesses} == {*codes, best}
    assert sum(shares) <= 1 + 1e-6
    assert not detection.guess_languages("12345 !", codes)


MODELS = models.Models([], str, str)
MODELS.by_direction = dict.fromkeys(
    [("de", "en"), ("en", "de"), ("fr", "en"), ("de", "pt-BR"), ("de", "pt-PT")]
)
SHARED = service.Service(MODELS, limits.Limits())


@pytest.mark.parametrize(
    ("source", "target", "known"),
    [
        ("de", "en", ("de", "en")),
        ("de-AT", "en_US", ("de", "en")),
        ("auto", "en", ("auto", "en")),
        ("de", "pt-BR", ("de", "pt-BR")),
        ("zz", "en", "zz is not supported"),
        ("de", "auto", "auto is not supported"),
        ("de", "pt", "pt-BR or pt-PT"),
        ("de", "DE", ("de", "de")),
        ("Auto", "EN", ("auto", "en")),
        ("fr", "de", r"German \(de\) is not available as a target language from French \(fr\)$"),
        ("auto", "fr", r"French \(fr\) is not available"),
    ],
)
def test_languages_in_any_form(source, target, known):
    if isinstance(known, str):
        with pytest.raises(Refusal, match=known):
            SHARED.known_languages(source, target)
    else:
        assert SHARED.known_languages(source, target) == known


@pytest.mark.parametrize(
    ("text", "target", "language", "is_sure"),
    [
        ("Das ist nicht gut", "en", "de", True),
        ("This is a book about a dog", "en", "en", True),
        ("12345", "en", "de", False),
        ("Les enfants jouent dans le jardin", "en", "fr", True),
        ("Les enfants jouent dans le jardin", "de", None, True),
        ("Привет, как дела?", "en", None, True),
        ("la", "de", "en", False),
    ],
)
def test_a_source_is_one_that_the_target_has(text, target, language, is_sure):
    if language is None:
        with pytest.raises(Refusal, match=rf"400.*\({target}\) is not available"):
            SHARED.detect(text, target)
    else:
        guess = SHARED.detect(text, target)
        assert guess.language in (language, target) and (guess.share > 0.9) == is_sure


@pytest.mark.parametrize(
    ("stopping_since", "status"), [(0.0, 200), (99.0, 200), (98.1, 200), (97.9, 503), (1.0, 503)]
)
def test_a_document_has_two_seconds_after_a_service_is_to_end(stopping_since, status, monkeypatch):
    async def check_waiting(request: object) -> None:
        """The client waits."""

    monkeypatch.setattr(translation, "time", SimpleNamespace(monotonic=lambda: 100.0))
    shared = SimpleNamespace(stopping_since=stopping_since, check_waiting=check_waiting)
    conversation = translation.Conversation(shared, None, ("de", "en"), None)
    assert status_of(asyncio.run, conversation.check()) == status


@pytest.mark.parametrize("share", [0.4, 0.89, 0.9, 1.0])
def test_a_language_without_a_translator_is_believed_where_it_is_sure(share, monkeypatch):
    """Else it is the likeliest of those that have one, or the target itself."""
    rest = (1 - share) / 3
    guesses = [detection.Guess("fr", share)]
    guesses += [detection.Guess(code, rest) for code in ("pt-BR", "de", "en")]
    monkeypatch.setattr(service, "guess_languages", lambda text, codes: guesses)
    if share < 0.9:
        assert SHARED.detect("la", "de") == guesses[2]
    else:
        with pytest.raises(Refusal, match=r"400.*from French \(fr\)"):
            SHARED.detect("la", "de")


@pytest.mark.parametrize(
    ("tags", "wanted"),
    [
        ([], ["", ""]),
        (["<2en>", "<2fr>"], ["<2en> ", "<2fr> "]),
        (["<2en>", "<de2en>", "<de2fr>"], ["<de2en> ", "<de2fr> "]),
    ],
)
def test_a_sentence_begins_with_the_tag_of_its_languages(tags, wanted):
    tokenizers = SimpleNamespace(source=SimpleNamespace(tags=tags))
    model = SimpleNamespace(has_attention=False)
    run = SimpleNamespace(
        translator=SimpleNamespace(tokenizers=tokenizers, model=model),
        config=SimpleNamespace(data=SimpleNamespace(source="de", target="en+fr")),
    )
    queues = SimpleNamespace(count_pieces=lambda texts: [len(text) for text in texts])
    pairs = service.pairs_of(run, queues)
    assert [*pairs] == [("de", "en"), ("de", "fr")]
    assert [pair.tag for pair in pairs.values()] == wanted
    (sentence,) = pairs["de", "fr"].sentences(["Ja."], [True])
    assert sentence == (f"{wanted[1]}Ja.", len(wanted[1]) + 3, True, None)


# --------------------------------------------------------------------------------------------------
# Texts in sentences

PIECES = [
    "Der Hund läuft. ",
    "Ja! ",
    "12:30 ",
    "\n",
    "| ",
    "  ",
    "{name} ",
    "https://x.org/a?b=c ",
    "😀 ",
]


def words_of_lines(text: str) -> list[list[str]]:
    return [line.split() for line in text.split("\n")]


@pytest.mark.parametrize("keeps_units", [True, False])
@given(text=st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
def test_a_text_keeps_what_is_between_its_words(text, keeps_units):
    """All of it where the model has nothing to say, and that translates words alone."""
    for change, wanted in (
        (lambda _: " ", text),
        (str.upper, text.replace("Der Hund läuft", "DER HUND LÄUFT").replace("Ja", "JA")),
    ):
        read = texts.Text(text, "de", keeps_units)
        answers = [as_it_is(segment.text) for segment in read.sentences]
        written = read.write([each._replace(text=change(each.text)) for each in answers])
        assert words_of_lines(written) == words_of_lines(wanted)
    for sentence in read.for_model():
        assert any(letter.isalpha() for letter in sentence)
        assert " | " not in sentence and "\n" not in sentence
        assert keeps_units or not any("\ue000" <= letter <= "\uf8ff" for letter in sentence)


def test_what_items_begin_with_is_not_translated():
    """A number or letter counts where there are several; a date is one of its sentence."""
    lines = ["- Der Hund", "  • Die Katze. Sie schläft.", "a) Der Hund", "1. Die Katze", "Ja - gut"]
    read = texts.Text("\n".join(lines), "de", True)
    assert read.for_model() == [
        "Der Hund",
        "Die Katze.",
        "Sie schläft.",
        "Der Hund",
        "Die Katze",
        "Ja - gut",
    ]
    answers = [as_it_is(sentence.text) for sentence in read.sentences]
    assert read.write(answers) == "\n".join(lines)
    assert texts.Text("1. Mai ist ein Feiertag", "de", True).for_model() == [
        "1. Mai ist ein Feiertag"
    ]


# --------------------------------------------------------------------------------------------------
# The process of a document


@pytest.mark.parametrize(
    ("error", "reason", "has_fault"),
    [
        (UserError("no such thing"), "no such thing", False),
        (RecursionError(), "nested", False),
        (MemoryError(), "memory", False),
        (KeyError("x\n y"), "a.txt cannot be read: KeyError: 'x", False),
    ],
)
def test_why_a_document_is_not_translated(monkeypatch, error, reason, has_fault):
    ours, theirs = process.multiprocessing.Pipe()
    monkeypatch.setattr(process, "be_modest", lambda: None)

    def fail(*words, **options):
        raise error

    monkeypatch.setattr(process, "read_document", fail)
    process.work(theirs, [("a.txt", b"Ja.")], ("de", "en"))
    failed = ours.recv()
    assert reason in failed.reason and bool(failed.fault) == has_fault
    monkeypatch.undo()
    monkeypatch.setattr(process, "be_modest", lambda: None)
    monkeypatch.setattr(process, "translate_document", fail)
    ours.send(process.Languages("de", "en", False))
    process.work(theirs, [("a.txt", b"Ja.")], ("de", "en"))
    assert ours.recv() == ("Ja.", False)
    failed = ours.recv()
    assert bool(failed.fault) == isinstance(error, KeyError)


XLIFF = b"""<xliff version="2.0" srcLang="de" xmlns="urn:oasis:names:tc:xliff:document:2.0">
<file id="f"><unit id="u"><segment><source>Ja</source></segment></unit></file></xliff>"""


def test_a_document_is_translated_in_a_modest_process():
    """It leaves the processor to others, has no endless memory, and can be ended at any moment.

    A format that states the language of a translation states that of the answer.
    """
    files = [("a.txt", b"Der Hund. 12"), ("b.json", b'["Ja <b>Rad</b>", "12"]')]
    files.append(("c.xlf", XLIFF))
    child = process.DocumentProcess(files, ("auto", "en"))
    opened = child.receive(60)
    assert opened.sample.split() == "Der Hund. 12 Ja Rad Ja".split()
    number = child.process.pid
    assert os.getpriority(os.PRIO_PROCESS, number) == min(19, os.nice(0) + process.NICE)
    most, _ = resource.prlimit(number, resource.RLIMIT_AS)
    assert process.MEMORY < most < 8 * process.MEMORY
    assert resource.prlimit(number, resource.RLIMIT_CORE) == (0, 0)
    assert child.receive(0) is None
    child.answer(process.Languages("de", "en", True))
    question = child.receive(60)
    answers = []
    for sentence, weighed in zip(question.sentences, question.weighed, strict=True):
        assert weighed == ("Rad" in sentence)
        answers.append(as_it_is(sentence)._replace(text=sentence.upper()))
    child.answer(answers)
    *texts_alone, xliff = child.receive(60).contents
    assert texts_alone == [b"DER HUND. 12", b'["JA <b>RAD</b>", "12"]']
    assert b'trgLang="en"' in xliff and b">JA</target>" in xliff
    while child.process.is_alive():
        time.sleep(0.001)
    child.answer([])
    assert "reader failed" in child.receive(60).reason
    child.end()
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)

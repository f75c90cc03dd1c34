"""Escape sequences and controls of direction from data are shown, not obeyed."""

import io
import logging
import re

import pytest
from corpora import Trained, run_command

from nmt.data.text_filter import has_words
from nmt.runs.results import Result
from nmt.view.page import Table, figure_html, html_page
from nmt.view.progress import Progress, TqdmHandler
from nmt.view.text import escape_html, visible

HOSTILE = "Ein\x1b[2J\x1b]0;title\x07Junge\x9b31m \u202emalt\u2066 \u2028das\x85Rad\x7f."
SHOWN = r"Ein\x1b[2J\x1b]0;title\x07Junge\x9b31m \u202emalt\u2066 \u2028das\x85Rad\x7f."


def test_by_hand():
    assert visible(HOSTILE) == SHOWN
    assert visible("a\tb\n") == r"a\tb\n" and visible("a\tb\n", keep="\t\n") == "a\tb\n"
    assert visible("\ud800") == r"\ud800"
    for text in (
        "Müller",
        "الولد يرسم",
        "נער\u200f!",
        "می\u200cخواهم",
        "👩\u200d👧",
        "क्\u200dष",
        "日本語",
        "",
        "½ …",
    ):
        assert visible(text) == text


def acting(text: str) -> list[str]:
    """Characters that a terminal would obey."""
    return re.findall(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]", text)


def test_the_table_of_align(trained: Trained, capfd, tmp_path):
    words = ["align", "tiny", "--runs", trained.runs]
    answer = run_command(capfd, *words, HOSTILE, f"A boy\x1b[31m {HOSTILE}")
    assert answer.code == 0 and not acting(answer.out) and r"boy\x1b[31m" in answer.out
    page = tmp_path / "page.html"
    assert run_command(capfd, *words, HOSTILE, HOSTILE, "--html", str(page)).code == 0
    assert not acting(page.read_text(encoding="utf-8"))


def test_log_lines_errors_and_progress(trained: Trained, capfd, tmp_path, monkeypatch):
    name = "bad\x1b[2J\u202e.de"
    (tmp_path / name).write_text("Ja.\n")
    monkeypatch.chdir(tmp_path)
    answer = run_command(capfd, "translate", "tiny", "--runs", trained.runs, name)
    assert r"bad\x1b[2J\u202e.de is a file" in answer.err and not acting(answer.err)
    answer = run_command(capfd, "translate", "no\x1b[2Jrun", "--runs", trained.runs, "Ja.")
    assert answer.code == 2 and r"no\x1b[2Jrun" in answer.err and not acting(answer.err)
    with Progress(3, "line", f"translating {name}") as bar:
        assert not acting(bar.line())
    scores = {"bleu": 1.0, "chrf": 2.0, "bleu_signature": "x", "chrf_signature": "y"}
    assert Result(name, scores, []).line().startswith("bad\\x1b[2J\\u202e.de\t1.00\t")


def test_a_record_keeps_its_lines(monkeypatch):
    """A traceback in a log has several."""
    out = io.StringIO()
    monkeypatch.setattr("sys.stderr", out)
    TqdmHandler().emit(logging.LogRecord("nmt", logging.INFO, "", 0, "a\n\tb \x1b[2J", (), None))
    assert out.getvalue() == "a\n\tb \\x1b[2J\n"


def test_a_line_that_cannot_be_written_ends_nothing(monkeypatch, capsys):
    """Nor does one that cannot be formatted; Python's own report names it."""
    handler = TqdmHandler()
    handler.emit(logging.LogRecord("nmt", logging.INFO, "", 0, "%d lines", ("many",), None))
    assert "many" in capsys.readouterr().err
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr("sys.stderr", closed)
    monkeypatch.setattr(logging, "raiseExceptions", False)
    handler.emit(logging.LogRecord("nmt", logging.INFO, "", 0, "a", (), None))


@pytest.mark.parametrize("text", [HOSTILE, "<script>alert(1)</script>", '" onload="x', "\ud800\0"])
def test_a_table_shows_text_as_text(text):
    table = Table(text, [text], [[text], ["a"]], [text])
    page = html_page(text, table.html() + figure_html(b"", text))
    page.encode()
    assert not acting(page) and "<script" not in page and page.count(escape_html(text)) == 8
    assert "Content-Security-Policy" in page and "default-src 'none'" in page
    assert not acting(table.markdown()) and "<script" not in table.markdown().replace(r"\<", "")


WITHOUT_WORDS = re.split(
    r"[|\n]",
    """\
#c0ffee|btn|katze_gross.webp|MM/dd/yyyy|pt-BR|9b2d1c5e-7f3a-4d06-8e21-0a6b5c4d3e2f
menu.main.title|14px|Georgia, serif|CHF|2031-12-24T08:15:00Z|/usr/share/icons/x.svg
R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw|EEEE, d. MMM y|HH:mm:ss|zh-Hant-TW
yyyy年M月d日|d. MMMM y 'г'.
image/png|lib/index.ts|getUserName|org.example.App|rgba(0, 0, 0)|C:\\Temp\\x|12:30|[X0X]|--no-color
print()|100 %|9B2D1C5E-7F3A-4D06-8E21-0A6B5C4DABCD""",
)
WITH_WORDS = re.split(
    r"[|\n]",
    """\
Katze|katze|ja|The cat sleeps.|E-Mail|blau-weiß|COVID-19|48-Stunden-Dienst|Yes/No|&Open|_Open
Öff&nen|Sa_ve As|File(s)|See README.md|Open main.c|über|猫|第3章|Привет|नमस्ते|A|a b c|THE END|vlk
smrt|l'eau|Mo–Fr|Hello, foo_bar|10 km from home|Simple, easy-to-use|5월|3D-Drucker|MP3-Player
Глава XX|Η Εύα II|Катерина II спит.|भाग II|제일 AA형|我们AA制|Abenteuer, Fantasy|horror, fantasy
Fødd|Øll mál|dosya(lar)|wiersz(-e)|est-ce vrai|rendez-vous|sign-in|covid-19 cases|fa-paw""",
)


@pytest.mark.parametrize("text", WITHOUT_WORDS)
def test_what_has_no_words_of_a_language(text):
    assert not has_words(text)


@pytest.mark.parametrize("text", WITH_WORDS)
def test_what_has_words_of_a_language(text):
    assert has_words(text)

"""Glossaries as tables and as TBX."""

from pathlib import Path
from types import SimpleNamespace

import openpyxl
import pytest
import yaml
from corpora import Trained, run_command

from nmt.commands import check_glossary
from nmt.corpus.termbase import term_lines
from nmt.errors import UserError

TBX = """<?xml version="1.0"?>
<martif type="TBX" xml:lang="en"><text><body>
<termEntry id="1">
  <langSet xml:lang="de-DE"><tig><term>das <hi>rote</hi> Fahrrad</term></tig></langSet>
  <langSet xml:lang="en-US">
    <tig><term>red bike</term></tig>
    <ntig><termGrp><term>old bike</term>
      <termNote type="administrativeStatus">deprecatedTerm-admn-sts</termNote></termGrp></ntig>
  </langSet>
</termEntry>
<termEntry id="2"><langSet xml:lang="fr"><tig><term>x</term></tig></langSet></termEntry>
</body></text></martif>"""
TBX_3 = """<tbx type="TBX-Basic" xml:lang="de" xmlns="urn:iso:std:iso:30042:ed-2"><text><body>
<conceptEntry id="1">
  <langSec xml:lang="de"><termSec><term>Hund</term></termSec><termSec><term>Köter</term></termSec>
  </langSec>
  <langSec xml:lang="en"><termSec><term>dog</term></termSec><termSec><term>hound</term></termSec>
  </langSec>
</conceptEntry></body></text></tbx>"""


# One of two terms is forbidden.
FORBIDDING = [
    "Forbidden,de,en\nTRUE,Hund,mutt\nFALSE,Hund,dog\n",
    "de;en;Do not use\nHund;mutt;x\nHund;dog;hound\n",  # "hound" is to be avoided, not "dog"
    "de,en,Usage status\nHund,dog,preferred\nHund,mutt,Do not use\n",
    "de;en;Status\nHund;dog;new, used\nHund;mutt;new, obsolete\n",
    "de,en,Status\nHund,dog,not deprecated\nHund,mutt,deprecatedTerm-admn-sts\n",
    # the marks of both terms
    "de,Term_Info,en,Term_Info\nHund,Forbidden,dog,\nHund,,mutt,CasePermissive;Forbidden\n",
    "de,en,Status [de],Status [en]\nHund,dog,obsolete,new\nHund,mutt,new,obsolete\n",
]


@pytest.mark.parametrize("of_run", ["de", "de+fr"])
@pytest.mark.parametrize("source", [None, "fr"])
@pytest.mark.parametrize("target", [None, "de"])
def test_a_glossary_has_the_languages_that_are_asked_for(
    of_run, source, target, tmp_path, monkeypatch
):
    """Of each side the one that is given, or else that of the run; before the run is loaded."""
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "best.safetensors").touch()
    data = {"source": of_run, "target": "en+de"}
    (folder / "config.yaml").write_text(yaml.safe_dump({"data": data}), encoding="utf-8")
    asked = []
    monkeypatch.setattr("nmt.corpus.termbase.term_lines", lambda *words: asked.append(words))
    options = {"name": "run", "runs": str(tmp_path), "glossary": "terms.csv"}
    check_glossary(SimpleNamespace(**options, source=source, target=target))
    assert asked == [(Path("terms.csv"), source or of_run, target or "en+de")]


def lines(path: Path) -> list[str]:
    return [line for line in term_lines(path, "de", "en") if line]


def test_a_table_with_names_and_one_without(tmp_path):
    path = tmp_path / "terms.csv"
    path.write_text("Nr;English;Deutsch\n1;dog;Hund\n2;hound;Hund\n;;\n", encoding="utf-8")
    assert lines(path) == ["Hund\tdog|hound"]
    path.write_text("Hund,dog\nKatze,cat\n", encoding="utf-8")
    assert lines(path) == ["Hund\tdog", "Katze\tcat"]


@pytest.mark.parametrize("name", ["terms.tsv", "terms.txt"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((f"{header}\nHund\tdog\n", ["Hund\tdog"]) for header in ("de\ten", "source\ttarget")),
        ("\nDeutsch\tEnglisch\nHund\tdog\nHund\thound\n", ["Hund\tdog|hound"]),
        ("English\tGerman\tStatus\ndog\tHund\tnew\nmutt\tHund\tobsolete\n", ["Hund\tdog"]),
        ('"Deutsch"\t"Englisch"\n"Hund"\t"dog"\n', ["Hund\tdog"]),
        ('"Hund"\t"dog"\n"der ""rote"" Fuchs"\t"fox"\n', ["Hund\tdog", 'der "rote" Fuchs\tfox']),
        ('Hund\tdog\n"Haus, groß"\t"house, big"\n', ["Hund\tdog", "Haus, groß\thouse, big"]),
        # no names and no quotes of a spreadsheet
        ("Deutsch\tGerman\nde\ten\n", ["Deutsch\tGerman", "de\ten"]),
        ('Zoll\t"\n5 "\tfive\n', ['Zoll\t"', '5 "\tfive']),
    ],
)
def test_lines_with_tabs_have_names_and_quotes_as_a_table(name, text, expected, tmp_path):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    assert lines(path) == expected


def test_a_line_has_the_number_of_the_first_row_of_its_source(tmp_path):
    """By which messages name it."""
    path = tmp_path / "terms.csv"
    path.write_text("de,en\nHund,dog\nKatze,cat\nHund,hound\n", encoding="utf-8")
    assert term_lines(path, "de", "en") == ["", "Hund\tdog|hound", "Katze\tcat"]


def test_a_workbook_with_a_title_and_another_sheet(tmp_path):
    book = openpyxl.Workbook()
    book.active.append(["Notes", "more", "and more"])
    sheet = book.create_sheet("Terms")
    titles = [["Our terms"], *[[]] * 30]
    for row in (*titles, ["German", "id", "English (US)"], ["Hund", 7, "dog"]):
        sheet.append(row)
    other = book.create_sheet("Older terms")
    for row in (["German", "English"], ["Katze", "cat"]):
        other.append(row)
    book.save(tmp_path / "terms.xlsx")
    assert lines(tmp_path / "terms.xlsx") == ["Hund\tdog"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [(TBX, ["das rote Fahrrad\tred bike"]), (TBX_3, ["Hund\tdog|hound", "Köter\tdog|hound"])],
)
def test_tbx(text, expected, tmp_path):
    path = tmp_path / "terms.tbx"
    path.write_text(text, encoding="utf-8")
    assert lines(path) == expected


@pytest.mark.parametrize(
    ("name", "text", "expected", "count"),
    [
        ("a.csv", "de,en\nHund,\nKatze,cat\n,dog\n", ["Katze\tcat"], "2 rows"),
        ("a.tbx", TBX, ["das rote Fahrrad\tred bike"], "1 concepts"),
        ("a.tbx", TBX, ["das rote Fahrrad\tred bike"], "1 terms"),
        *(("a.csv", text, ["Hund\tdog"], "1 rows are marked") for text in FORBIDDING),
    ],
)
def test_what_is_not_used_is_counted(name, text, expected, count, tmp_path, caplog):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    assert lines(path) == expected
    assert count in caplog.text


@pytest.mark.parametrize(
    ("name", "text", "named"),
    [
        ("a.csv", "de,en\nHund,\n,dog\n", "no row with terms in de and en"),
        ("a.csv", "fr,es,it\nx,y,z\n", "'de' and 'en'"),
        ("a.tbx", "<martif>", "well-formed"),
        ("a.tbx", TBX.replace("en-US", "pl"), "de-de, fr, pl"),
        ("a.xlsx", "no workbook", "a.xlsx"),
    ],
)
def test_what_is_wrong_is_named(name, text, named, tmp_path):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=named):
        term_lines(path, "de", "en")


def test_the_command_uses_a_termbase_and_refuses_a_wrong_one_first(
    trained: Trained, tmp_path, capfd
):
    path = tmp_path / "terms.csv"
    path.write_text("de,en\nFahrrad,big hat\n", encoding="utf-8")
    words = ["translate", trained.name, "--runs", trained.runs, "--glossary", str(path)]
    sentence = "Ein Junge malt das rote Fahrrad im Garten."
    answer = run_command(capfd, *words, sentence)
    assert answer.code == 0, answer.err
    assert "big hat" in answer.out
    path.write_text("de,en\nFahrrad,\n", encoding="utf-8")
    answer = run_command(capfd, *words, sentence)
    assert answer.code == 2
    assert "terms.csv" in answer.err

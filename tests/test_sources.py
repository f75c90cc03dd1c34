"""Sources of pairs: what each kind of file gives, and one sentence for each fault."""

import bz2
import datetime
import gzip
import json
import logging
import lzma
import zipfile
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import openpyxl
import pyarrow
import pytest
from corpora import pairs, write_corpus, write_pairs
from pyarrow import parquet

from nmt.config.compose import compose_all
from nmt.config.schema import Config, DataConfig
from nmt.corpus import packed, sources
from nmt.corpus.spreadsheets import number_text
from nmt.data.tokenizer import Tokenizers
from nmt.data.train_tokenizer import train_tokenizers
from nmt.errors import UserError
from nmt.runs.stages import build_corpus_stage

PAIRS = [
    ("Der Hund, er schläft.", 'The "dog" sleeps.'),
    ("Zwei\nZeilen", "two\nlines"),
    ("ja; nein", "yes; no"),
]
FLAT = [(source.replace("\n", " "), target.replace("\n", " ")) for source, target in PAIRS]
TMX = (
    '<?xml version="1.0"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx '
    'version="1.4"><header/><body>{}</body></tmx>'
)
UNIT = '<tu><tuv xml:lang="{}"><seg>{}</seg></tuv><tuv xml:lang="{}"><seg>{}</seg></tuv></tu>'


def read(
    word: Path | str, columns: object = None, source: str = "de", target: str = "en"
) -> list[tuple[str, str]]:
    """The pairs of one word of data.train; `read.skipped` gets the records that are none."""
    data = DataConfig("files", source, target, str(word), "split", None, 1000, 5.0, columns=columns)
    (origin,) = sources.own_sets(data, {"train": [str(word)]}, Path("nowhere"))["train"]
    read.skipped = Counter()
    return list(origin.pairs(read.skipped))


def refusal(word: Path | str, columns: object = None) -> str:
    with pytest.raises(UserError) as caught:
        read(word, columns)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 600
    return str(caught.value)


def save(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"'


@pytest.mark.parametrize(("delimiter", "end"), [(",", "\n"), (";", "\r\n"), ("\t", "\n")])
def test_csv_with_quotes_and_line_breaks(tmp_path: Path, delimiter: str, end: str) -> None:
    rows = [("de", "x", "en"), *((source, "1", target) for source, target in PAIRS)]
    text = "".join(delimiter.join(map(quoted, row)) + end for row in rows)
    assert read(save(tmp_path / "a.csv", "\ufeff" + text)) == PAIRS
    with_gaps = save(tmp_path / "b.csv", text + end + quoted("nur eins") + end)
    assert read(with_gaps) == PAIRS and read.skipped == {"another number of columns": 1}


# around source, delimiter, target
STRAY = ['"{}{}{}', '{}{}"{}', '"12" {}{}{}', '{}{}"5" {}', '"{}", er{}{}']


@pytest.mark.parametrize("delimiter", ",;\t")
def test_a_stray_quotation_mark_costs_no_row(
    tmp_path: Path, delimiter: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Some are never closed, some are inside a cell; one sentence names all. Cells with line breaks
    stay whole."""
    rows = [(f"Zeile {n} x", f"line {n} x") for n in range(300)]
    lines = [delimiter.join(row) for row in rows]
    places = range(7, 300, 11)
    for number, place in enumerate(places):
        form = STRAY[number % (4 if delimiter == "," else 5)]
        lines[place] = form.format(rows[place][0], delimiter, rows[place][1])
    path = save(tmp_path / "a.csv", "\r\n".join(["de" + delimiter + "en", *lines]) + "\r\n")
    found = read(path)
    assert len(found) == len(rows) and not read.skipped
    for place, (pair, row) in enumerate(zip(found, rows, strict=True)):
        assert (
            pair == row if place not in places else (rows[place][1] in pair[1] or '"5"' in pair[1])
        )
    assert caplog.text.count("quotation mark") == 1
    assert (
        f"{len(places)} lines have a quotation mark"
    ) in caplog.text and "lines 9, 20, 31" in caplog.text
    lines[40] = f'"eine Zeile\nund eine""{delimiter}zweite"{delimiter}both'
    found = read(save(tmp_path / "b.csv", "\n".join(["de" + delimiter + "en", *lines])))
    assert len(found) == len(rows) and found[40] == (
        f'eine Zeile\nund eine"{delimiter}zweite',
        "both",
    )


def test_two_stray_quotation_marks_swallow_no_rows(tmp_path: Path) -> None:
    """Between them is well-formed CSV: one cell of many lines, each of which is a row by itself."""
    rows = [f"Zeile {n};line {n}" for n in range(100)]
    rows[20] = '"12 ' + rows[20]
    rows[60] = rows[60].replace(";", '";')
    assert len(read(save(tmp_path / "a.csv", "de;en\n" + "\n".join(rows)))) == 100


def workbook(path: Path, pairs: list[tuple[str, str]]) -> Path:
    """With a sheet of notes, a title above the table, a number and a date."""
    book = openpyxl.Workbook()
    book.active.append(["Notizen", "zum Text"])
    sheet = book.create_sheet("Sätze")
    for row in (
        ["Unser Korpus"],
        [],
        ["Nr.", "Deutsch", "Anglais"],
        *([n, *pair] for n, pair in enumerate(pairs)),
    ):
        sheet.append(row)
    sheet.append([None, 1234.5, datetime.date(2024, 12, 31)])
    sheet.cell(sheet.max_row, 2).number_format = "#,##0.00"
    sheet.cell(sheet.max_row, 3).number_format = "d mmmm yyyy"
    book.save(path)
    return path


ODS = """<office:document-content xmlns:office="o" xmlns:table="t" xmlns:text="x"><office:body><office:spreadsheet>
<table:table table:name="Leer"><table:table-row table:number-rows-repeated="1048576"><table:table-cell
 table:number-columns-repeated="16384"/></table:table-row></table:table><table:table table:name="Texte">
<table:table-row><table:table-cell><text:p>de</text:p></table:table-cell><table:table-cell
 table:number-columns-repeated="2"/><table:table-cell><text:p>en</text:p></table:table-cell></table:table-row>
<table:table-row><table:table-cell><office:annotation><text:p>no</text:p></office:annotation><text:p>Zwei<text:s
 text:c="2"/><text:span>Teile</text:span></text:p><text:p>Ende</text:p></table:table-cell><table:covered-table-cell/>
<table:table-cell/><table:table-cell><text:p>two</text:p></table:table-cell></table:table-row>
<table:table-row table:number-rows-repeated="{}"><table:table-cell table:number-columns-repeated="4"><text:p>x</text:p>
</table:table-cell></table:table-row></table:table></office:spreadsheet></office:body></office:document-content>"""  # noqa: E501


def ods(path: Path, times: int) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("content.xml", ODS.format(times))
    return path


def test_workbooks(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The sheet with the most pairs is read, and that is said; numbers and dates have no format."""
    pytest.importorskip("lxml")
    many = pairs(30)
    found = read(workbook(tmp_path / "a.xlsx", [*PAIRS, *many]))
    assert found == [*PAIRS, *many, ("1234.5", "2024-12-31")] and not read.skipped
    assert f"sheet Sätze is read ({len(many) + 3} pairs), not Sheet (0)" in caplog.text
    assert "the rows before Nr. | Deutsch | Anglais are left out" in caplog.text
    assert read(ods(tmp_path / "a.ods", 3)) == [("Zwei  Teile\nEnde", "two"), *[("x", "x")] * 3]
    assert "no columns 'de' and 'fr'" in refusal(tmp_path / "a.ods", ["de", "fr"])
    assert "repeats its rows" in refusal(ods(tmp_path / "b.ods", 10**9))


def test_workbooks_that_cannot_be_read(tmp_path: Path) -> None:
    pytest.importorskip("lxml")
    with zipfile.ZipFile(tmp_path / "bomb.ods", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("content.xml", " " * (1 << 24))
    entity = "<!DOCTYPE x [<!ENTITY a 'b'>]><x>&a;</x>"
    for name, content, part in (
        ("a.xlsx", bytes.fromhex("d0cf11e0a1b11ae1"), "password"),
        ("b.xlsx", b"text", "is no zip archive"),
        ("c.ods", (tmp_path / "bomb.ods").read_bytes(), "unpacks to 16,777,216 bytes"),
    ):
        assert part in refusal(save(tmp_path / name, content))
    for member, text, part in (
        ("content.xml", "<a", "is damaged"),
        ("x", "", "is no workbook"),
        ("content.xml", entity, "no sheets"),
    ):
        with zipfile.ZipFile(tmp_path / "d.ods", "w") as archive:
            archive.writestr(member, text)
        assert part in refusal(tmp_path / "d.ods")


@pytest.mark.parametrize(
    ("number", "is_date", "text"),
    [
        ("45292", True, "2024-01-01"),
        ("45292.75", True, "2024-01-01 18:00:00"),
        ("0.5", True, "12:00:00"),
        ("1e12", True, "1e12"),
        ("45292", False, "45292"),
        ("-5.0", False, "-5"),
        ("0.1000000000000001", False, "0.1"),
        ("3.14159265358979", False, "3.141592654"),
    ],
)
def test_numbers_have_no_format_and_dates_are_iso_dates(
    number: str, is_date: bool, text: str
) -> None:
    assert number_text(number, is_date, is_1904=False) == text


def test_the_first_rows_of_json_lines_may_lack_a_column(tmp_path: Path) -> None:
    path = save(
        tmp_path / "a.jsonl",
        '{"de": "x"}\n{}\n{"de": "ja", "en": "yes"}\n{"de": "nein", "en": "no"}\n',
    )
    assert read(path) == [("ja", "yes"), ("nein", "no")] and read.skipped == {"a column missing": 2}
    assert "has no columns 'de' and 'en'" in refusal(save(path, '{"de": "x"}\n{"x": 1}\n'))


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "a.csv", "de,en,de\na,b,c\n")
    assert "several columns 'de'" in refusal(path)
    save(path, "de,en,x,x\na,b,c,d\n")
    assert read(path) == [("a", "b")]


def test_tsv_knows_no_quotes_and_may_have_no_header(tmp_path: Path) -> None:
    rows = [
        ('"Hallo', "x", 'he said "hello"'),
        ("ja", "y", "yes"),
        ("a", "b"),
        ("nein", "z", "no\u2028no"),
    ]
    text = "".join("\t".join(row) + "\n" for row in rows)
    kept = [(row[0], row[2]) for row in rows if len(row) == 3]
    assert read(save(tmp_path / "a.tsv", text), [1, 3]) == kept and read.skipped == {
        "another number of columns": 1
    }
    assert (
        read(save(tmp_path / "b.tsv.bz2", bz2.compress(b"src\tn\ttgt\n" + text.encode()))) == kept
    )
    assert "no columns '1' and '9'; it has 1, 2, 3" in refusal(tmp_path / "a.tsv", [1, 9])


SHEETS = {
    "inner quotes doubled": 'de\ten\n"Sie rief ""Halt"" aus."\tShe '
    'called.\n"a\tb"\tc\n"drei\nvier"\tnine\n',
    "everything quoted": '"de"\t"en"\n"Sie rief ""Halt"" aus."\t"She '
    'called."\n"a\tb"\t"c"\n"drei\nvier"\t"nine"\n',
}


def test_tsv_as_spreadsheets_quote_it(tmp_path: Path) -> None:
    quoted_pairs = [('Sie rief "Halt" aus.', "She called."), ("a\tb", "c"), ("drei\nvier", "nine")]
    for name, sheet in SHEETS.items():
        assert read(save(tmp_path / "a.tsv", sheet)) == quoted_pairs, name


def test_speech_marks_in_tsv_are_text(tmp_path: Path) -> None:
    """Cells that begin and end in a quote, and one that only a spreadsheet can have written, far
    behind."""
    rows = [('"Komm!"', '"Come!"'), ("Ja.", "Yes."), ('"Los", rief er.', '"Go", he called.')]
    text = "".join(f"{source}\t{target}\n" for source, target in rows * 400)
    text += '"Das ""Haus"" fällt."\tIt falls.\n'
    odd = [('"Ja", rief er.', 'He said ""yes"".'), ('"Ja\rnein', 'a ""')]
    text += "".join(f"{source}\t{target}\n" for source, target in odd)
    found = read(save(tmp_path / "a.tsv", text), [1, 2])
    assert found == [*rows * 400, ('Das "Haus" fällt.', "It falls."), *odd]


def test_the_width_of_a_table_is_that_of_most_rows(tmp_path: Path) -> None:
    rows = [f"Zeile {number};line {number}\n" for number in range(50)]
    path = save(tmp_path / "a.csv", "Zeile;x;line\n" + "".join(rows))
    assert len(read(path, [1, 2])) == 50 and read.skipped == {"another number of columns": 1}
    assert "3 columns in its header, and 2 in most rows" in refusal(path, ["Zeile", "line"])


@pytest.mark.parametrize(("lost", "outcome"), [(2, "nothing"), (20, "warning"), (100, "error")])
def test_rows_that_are_lost_are_said(tmp_path: Path, lost: int, outcome: str) -> None:
    rows = [
        *(f"{source}\t{target}" for source, target in pairs(100)),
        *["one\ttwo\t"] * (lost - 1),
        "one column",
    ]
    table = save(tmp_path / "all.tsv", "de\ten\n" + "\n".join(rows) + "\n")
    if outcome == "error":
        with pytest.raises(
            UserError, match="100 of 200 records are no pair: 100 with another number of columns"
        ):
            build(tmp_path, str(table))
        return
    report = json.loads((build(tmp_path, str(table)) / "report.json").read_text())
    warned = [text for text in report["audit"]["train"]["warnings"] if "are no pair" in text]
    assert len(warned) == (outcome == "warning")


def test_content_under_another_ending(tmp_path: Path) -> None:
    """JSON lines called .json, packed files whose name does not say so, TMX without <seg>."""
    lines = '{"de": "Ja", "en": "Yes"}\n{"de": "Nein", "en": "No"}\n'
    assert read(save(tmp_path / "a.json", lines)) == [("Ja", "Yes"), ("Nein", "No")]
    assert "each line must be one" in refusal(
        save(tmp_path / "b.json", '[\n{"de": "Ja", "en": "Yes"}\n]\n')
    )
    for pack, end in ((gzip.compress, "x"), (bz2.compress, "y"), (lzma.compress, "z")):
        save(tmp_path / f"{end}.de", pack(b"eins\nzwei\n"))
        save(tmp_path / f"{end}.en", "one\ntwo\n")
        assert read(tmp_path / end) == [("eins", "one"), ("zwei", "two")]
    bare = save(
        tmp_path / "a.tmx", TMX.format(UNIT.format("de", "x", "en", "y")).replace("seg>", "text>")
    )
    assert "no <seg>" in refusal(bare)


def test_names_of_columns(tmp_path: Path) -> None:
    table = save(tmp_path / "a.tsv", "german\tenglish\tsource\ttarget\nA\tB\tC\tD\n")
    assert read(table) == [("C", "D")]
    assert read(table, ["german", "english"]) == [("A", "B")]
    assert read(table, ["Deutsch", "Englisch", "english", "german"]) == [("B", "A")]
    message = refusal(table, ["germna", "english"])
    assert "no columns 'germna' and 'english'; it has german, english, source, target" in message
    escaped = refusal(save(tmp_path / "b.tsv", "a\x1b[31m\tb\nc\td\n"))
    assert "\\x1b[31m" in escaped and "\x1b" not in escaped
    for wrong in (["a"], [], "a", ["a", 2], [0, 1], [True, 2], ["a", "a"], [1.5, 2]):
        assert refusal(table, wrong).startswith("data.columns=")


def test_jsonl_and_parquet_with_columns_inside_columns(tmp_path: Path) -> None:
    rows = [{"id": 1, "translation": {"de": source, "en": target}} for source, target in PAIRS]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    assert read(save(tmp_path / "a.jsonl.xz", lzma.compress(text.encode()))) == PAIRS
    odd = [
        {"translation": {"de": "x"}},
        {"translation": {"de": 1, "en": "x"}},
        {"translation": {"de": "\ud800", "en": "x"}},
    ]
    assert (
        read(
            save(tmp_path / "b.jsonl", text + "\n" + "".join(json.dumps(row) + "\n" for row in odd))
        )
        == PAIRS
    )
    assert read.skipped == {"a column missing": 1, "no text in a column": 2}
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet") == PAIRS
    assert ("it has id, translation.de, translation.en") in refusal(
        tmp_path / "a.parquet", ["de", "fr"]
    )
    assert ("it has id, translation.de, translation.en") in refusal(
        tmp_path / "b.jsonl", ["de", "fr"]
    )


def test_tmx_languages_and_inline_codes(tmp_path: Path) -> None:
    units = [
        UNIT.format(
            "de-DE",
            "Klick <bpt i='1'>&lt;b&gt;</bpt><hi>hier</hi><ph>x<sub>y</sub></ph>!",
            "EN_us",
            "Click",
        ),
        UNIT.format("en", "A &amp; B &#228;", "de-at", "A\n   &lt; B"),
        UNIT.format("fr", "x", "en", "y"),
        '<tu><tuv lang="de-CH"><seg>Velo</seg></tuv>'
        + UNIT.format("de", "Rad", "en", "bike").removeprefix("<tu>"),
    ]
    file = save(tmp_path / "a.tmx", TMX.format("\n".join(units)))
    assert read(file) == [("Klick hier!", "Click"), ("A < B", "A & B ä"), ("Rad", "bike")]
    assert read.skipped == {"unit without both languages": 1}
    assert read(file, None, "de-CH", "en") == [("Velo", "bike")]
    assert read(save(tmp_path / "b.tmx", file.read_text().replace("1.0", "1.0").encode("utf-16")))[
        2
    ] == ("Rad", "bike")
    with pytest.raises(UserError, match="no unit in cs and en; its languages are: en.*de"):
        read(file, None, "cs", "en")


def test_xliff(tmp_path: Path) -> None:
    units = (
        '<trans-unit id="1"><source>Press <g id="1">OK</g><x '
        'id="2"/></source><alt-trans><source>no</source><target>no'
        "</target></alt-trans><target>Drücken Sie OK</target></trans-unit><trans-unit "
        "id='2'><source>A</source></trans-unit>"
    )
    head = (
        '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file '
        'source-language="en-US" {}><body>'
    )
    old = save(
        tmp_path / "a.xlf",
        head.format('target-language="de-DE"') + units + "</body></file></xliff>",
    )
    assert read(old) == [("Drücken Sie OK", "Press OK")]
    assert read(old, None, "en", "de") == [("Press OK", "Drücken Sie OK")]
    new = (
        '<x:xliff xmlns:x="u" version="2.0" srcLang="en" trgLang="de"><x:file><x:unit><x:segment>'
        "<x:source>One.</x:source><x:target>Eins<x:pc "
        "id='1'>.</x:pc></x:target></x:segment><x:ignorable><x:source> "
        "</x:source></x:ignorable><x:segment><x:source>Two.</x:source><x:target>Zwei.</x:target></x:segment></x:unit></x:file></x:xliff>"
    )
    assert read(save(tmp_path / "b.xliff", new)) == [("Eins.", "One."), ("Zwei.", "Two.")]


LAUGHS = "<!DOCTYPE t [<!ENTITY a0 'haha'>{}]><t>&a9;</t>".format(
    "".join(f"<!ENTITY a{level} '{f'&a{level - 1};' * 10}'>" for level in range(1, 10))
)
OUTSIDE = '<!DOCTYPE t [<!ENTITY x SYSTEM "file:///etc/passwd">]><t>&x;</t>'
DAMAGED = [
    ("a.tmx", LAUGHS, "amplification"),
    ("a.tmx", OUTSIDE, "undefined entity"),
    (
        "a.tmx",
        TMX.format(UNIT.format("de", "a&nbsp;b", "en", "x")),
        "line 3, is no well-formed XML (undefined entity",
    ),
    ("a.tmx", TMX.format(""), "no unit in de and en"),
    ("a.tmx", b"<tmx>\n\xff\xfe</tmx>", "line 2, is no well-formed XML"),
    ("a.tmx", '<?xml version="1.0" encoding="klingon"?><tmx/>', "encoding"),
    ("a.csv", "de,en\rja,yes\r", "line 1: its lines end in carriage returns"),
    ("a.csv", b"de,en\nja,yes\nn\xe4,no\n", "a.csv, line 3, is not UTF-8"),
    ("a.tsv", "de\ten\nja\tyes\n".encode("utf-16-le"), "looks like UTF-16"),
    ("a.jsonl", '{"de": "x", "en": "y"}\n[1]\n', "line 2, is no JSON object"),
    ("a.jsonl", "[" * 100_000 + "\n", "line 1, is no JSON object"),
    ("a.jsonl", '{"de": 1, "en": 2}\n', "has no pair of sentences; 1 with no text in a column"),
    ("a.parquet", "PAR1 no", "cannot be read as Parquet"),
    ("a.parquet.gz", b"\x1f\x8b", "while it is packed"),
    ("a.tsv.gz", b"\x1f\x8b\x08 broken", "cut short or damaged"),
    ("a.tsv.xz", lzma.compress(b"de\ten\n" * 100)[:-20], "cut short or damaged"),
    ("a.zip", b"PK\x03\x04 broken", "is no zip archive, or it is cut short or damaged"),
    ("a.docx", "text", "not a kind of file that nmt knows"),
    ("a.de", "ja\n", "is one side of a corpus; "),
]


def test_damaged_files_are_one_sentence(tmp_path: Path) -> None:
    for name, content, part in DAMAGED:
        path = save(tmp_path / name, content)
        assert part in refusal(path), (name, content)
        path.unlink()


def zipped(path: Path, members: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return path


def test_zip_of_two_files_or_of_one_table(tmp_path: Path) -> None:
    lines = {
        f"X.de-en.{code}": "".join(pair[side] + "\n" for pair in FLAT)
        for side, code in enumerate(("de", "en"))
    }
    assert read(zipped(tmp_path / "a.zip", lines | {"README": "x"})) == FLAT
    assert read(
        zipped(tmp_path / "b.zip", {"in/a.tmx": TMX.format(UNIT.format("de", "x", "en", "y"))})
    ) == [("x", "y")]
    assert read(
        zipped(tmp_path / "m.zip", {"a.tsv": "de\ten\nja\tyes\n", "__MACOSX/._a.tsv": "\0"})
    ) == [("ja", "yes")]
    assert "it has a.txt" in refusal(zipped(tmp_path / "c.zip", {"a.txt": "x"}))
    assert "unpack it" in refusal(zipped(tmp_path / "e.zip", {"a.parquet": "PAR1"}))
    assert "has 2 files of pairs" in refusal(
        zipped(tmp_path / "d.zip", {"a.tsv": "x", "b.tsv": "x"})
    )


def test_members_that_are_encrypted_or_damaged(tmp_path: Path) -> None:
    plain = zipped(tmp_path / "b.zip", {"x.de": "eins\n" * 50, "x.en": "one\n" * 50})
    whole = bytearray(plain.read_bytes())
    whole[40] ^= 0xFF  # in the compressed text
    assert "cut short or damaged" in refusal(save(tmp_path / "c.zip", bytes(whole)))
    encrypted = bytearray(plain.read_bytes())
    for place, signature in ((6, b"PK\x03\x04"), (8, b"PK\x01\x02")):
        encrypted[encrypted.index(signature) + place] |= 1
    assert "is encrypted" in refusal(save(tmp_path / "d.zip", bytes(encrypted)))
    header = bytearray(plain.read_bytes())
    header[1] ^= 0xFF  # of the first member; the directory of the archive is whole
    assert "e.zip:x.de is damaged" in refusal(save(tmp_path / "e.zip", bytes(header)))


def test_a_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "LONGEST_LINE", 1000)
    assert "line 2, is longer than" in refusal(save(tmp_path / "a.tsv", "de\ten\n" + "x" * 1001))


def test_a_packed_file_may_not_unpack_to_everything(tmp_path: Path, monkeypatch) -> None:
    """1.9 MB from 5 kB: above what is free, 200 times the size of the file."""
    (tmp_path / "a.tsv.gz").write_bytes(gzip.compress(b"Hallo\tHello\n" * 160_000))
    assert (tmp_path / "a.tsv.gz").stat().st_size < 160_000 * 12 / packed.MOST_RATIO
    file = packed.PackedFile(tmp_path / "a.tsv.gz")
    assert sum(map(len, file.blocks())) == 160_000 * 12
    monkeypatch.setattr(packed, "FREE_BYTES", 1000)
    with pytest.raises(UserError, match="200 times"):
        sum(map(len, file.blocks()))


def test_plain_files_may_be_packed(tmp_path: Path) -> None:
    save(tmp_path / "x.de.xz", lzma.compress(b"eins\nzwei\n"))
    save(tmp_path / "x.en.bz2", bz2.compress(b"one\ntwo\n"))
    assert read(tmp_path / "x") == [("eins", "one"), ("zwei", "two")]
    write_pairs(tmp_path, "y.tsv", [("a", "b")])
    assert read(tmp_path / "y.tsv") == [("a", "b")]
    assert refusal(tmp_path / "z.tsv") == f"There is no file {tmp_path / 'z.tsv'}."


@cache
def default_config() -> Config:
    return compose_all(
        ["data=files", "data.source=de", "data.target=en", "data.train=x"], multirun=False
    )[0]


def build(
    folder: Path,
    train: list[str] | str,
    valid: str = "split",
    test: str | None = "split",
    **more: object,
) -> Path:
    """The folder of the corpus below `folder`, as the commands build it."""
    data = replace(default_config().data, train=train, valid=valid, test=test, **more)
    return build_corpus_stage(
        replace(default_config(), data=data, data_folder=str(folder / "data"))
    )


def test_names_that_hydra_cannot_read_need_no_quotes() -> None:
    words = ["data=files", "data.source=de", "data.target=en"]
    for name, wanted in (
        ("größe(1) & co;~", "größe(1) & co;~"),
        ("'quoted'", "quoted"),
        ("[ä,b c]", ["ä", "b c"]),
    ):
        assert compose_all([*words, f"data.train={name}"], multirun=False)[0].data.train == wanted
    with pytest.raises(UserError, match="needs quotes that the shell leaves"):
        compose_all([*words, "data.train=ß,b"], multirun=False)
    with pytest.raises(UserError, match=r"a name that is a number is written data.train=./2024"):
        sources.set_names(compose_all([*words, "data.train=2024"], multirun=False)[0].data)


@pytest.mark.parametrize(
    ("train", "more", "part"),
    [
        ("{0}/pairs.tsv", {"columns": ["a", "b"]}, "it has de, en"),
        (["{0}/train", "{0}/empty.tsv"], {}, "empty.tsv has no pair of sentences"),
        (
            "{0}/train",
            {"valid": "{0}/valid", "test": None, "max_characters": 1},
            "too long (data.max_characters=1)",
        ),
        (
            ["{0}/train", "{0}/blank.tsv"],
            {"valid": "{0}/valid", "test": None},
            "blank.tsv: 1 one side blank",
        ),
        (
            ["{0}/train", "{0}/pairs.tsv"],
            {"weights": [1.0]},
            "has 1 numbers, but data.train has 2 parts",
        ),
        ("{0}/train", {"weights": [1.0], "temperature": 5.0}, "cannot be given together"),
        (["{0}/train", "{0}/copy/train"], {"origin_tags": True}, "have the tag <train>"),
        ("split", {}, "data.train=split is not possible"),
        ("{0}/train", {"valid": ["split", "{0}/valid"]}, "either split or a list"),
        (
            "{0}/pairs.tsv",
            {"test": None},
            "too few different pairs to hold out a validation set (of 3 pairs;",
        ),
        ("opus:../x/v1", {}, "write opus:CORPUS/VERSION"),
        ("hub:../name", {}, "write hub:OWNER/NAME"),
        (["opus:A/v1", "{0}/missing.tmx"], {}, "There is no file"),  # before anything is downloaded
        ("opus:A/v1", {"opus_url": "file:///etc"}, "no address that begins with http"),
    ],
)
def test_faults_leave_nothing_behind(
    tmp_path: Path, train: list[str] | str, more: dict, part: str
) -> None:
    write_corpus(tmp_path, 60, 3, 3)
    write_corpus(tmp_path / "copy", 3, 3, 3)
    save(tmp_path / "pairs.tsv", "de\ten\na\tb\nc\td\ne\tf\n")
    save(tmp_path / "empty.tsv", "de\ten\n")
    save(tmp_path / "blank.tsv", "de\ten\na\t\n")
    train, more = json.loads(json.dumps([train, more]).replace("{0}", str(tmp_path)))
    with pytest.raises(UserError) as caught:
        build(tmp_path, train, **more)
    assert part in str(caught.value) and "\n" not in str(caught.value)
    left = [path.name for path in tmp_path.glob("data/**/*") if path.is_file()]
    assert set(left) <= {"digests.json"}


def test_the_report_says_what_came(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = "".join(f"{source}\t{target}\n" for source, target in pairs(400))
    table = save(tmp_path / "mine.tsv", "de\ten\n" + rows + "one column\n")
    with caplog.at_level(logging.INFO, "nmt"):
        folder = build(tmp_path, str(table))
    assert "1 another number of columns" in caplog.text
    (entry,) = json.loads((folder / "report.json").read_text())["audit"]["train"]["origins"]
    assert (entry["origin"], entry["read"]) == (str(table), 400)
    assert entry["skipped"] == {"another number of columns": 1}
    assert (
        entry["files"][0]["bytes"] == table.stat().st_size
        and len(entry["files"][0]["sha256"]) == 64
    )
    built = (folder / "train.de").stat().st_mtime_ns
    assert (
        build(tmp_path, str(table)) == folder and (folder / "train.de").stat().st_mtime_ns == built
    )


def test_links_belong_to_text_of_ones_own_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`train.align` in the current folder is of `train.de`, not of the set `train` of the
    phrasebook."""
    monkeypatch.chdir(tmp_path)
    write_pairs(tmp_path, "train", pairs(5))
    for name in ("train", "valid", "test"):
        (tmp_path / f"{name}.align").write_text("0-0\n")
    data = DataConfig("phrasebook", "de", "en", "train", "valid", "test", 1000, 5.0)
    found = sources.find_sets(data, tmp_path / "downloads")
    assert [origin.links for origins in found.values() for origin in origins] == [None] * 3
    (own,) = sources.own_sets(replace(data, kind="files"), {"train": ["train"]}, tmp_path)["train"]
    assert own.links == Path("train.align")


def test_weights_temperature_and_tags(tmp_path: Path) -> None:
    every = pairs(700)
    write_pairs(tmp_path, "large", every[:512])
    write_pairs(tmp_path, "Small", every[512:544])
    write_pairs(tmp_path, "valid", every[600:])
    words = [str(tmp_path / "large"), str(tmp_path / "Small")]
    held_out = {"valid": str(tmp_path / "valid"), "test": None}
    folder = build(tmp_path, words, weights=[0.5, 2.25], origin_tags=True, **held_out)
    lines = Counter(
        zip(
            *((folder / f"train.{code}").read_text().splitlines() for code in ("de", "en")),
            strict=True,
        )
    )
    large, small = (
        [lines[f"<{tag}> {source}", target] for source, target in part]
        for tag, part in (("large", every[:512]), ("small", every[512:544]))
    )
    assert set(large) == {0, 1} and abs(sum(large) - 256) < 40
    assert set(small) == {2, 3} and sum(large) + sum(small) == lines.total()
    parts = json.loads((folder / "report.json").read_text())["audit"]["train"]["origins"]
    assert [part["lines"] for part in parts] == [sum(large), sum(small)]
    assert not (folder / "valid.de").read_text().startswith("<")
    # shares as the roots of the sizes: 16 to 4
    folder = build(tmp_path, words, temperature=2.0, **held_out)
    parts = json.loads((folder / "report.json").read_text())["audit"]["train"]["origins"]
    assert [(part["weight"], part["lines"]) for part in parts] == [(1.0, 512), (4.0, 128)]


def test_a_tag_is_one_piece(tmp_path: Path) -> None:
    write_pairs(tmp_path, "Mine", pairs(500))
    config = replace(default_config().tokenizer, vocabulary_size=370)
    folder = build(tmp_path, str(tmp_path / "Mine"), origin_tags=True)
    report = json.loads((folder / "report.json").read_text())
    assert report["tags"] == ["<mine>"] and (folder / "test.de").read_text().startswith("<mine> ")
    for algorithm in ("unigram", "bpe"):
        train_tokenizers(
            replace(config, algorithm=algorithm),
            folder / "train.de",
            folder / "train.en",
            tmp_path,
            ["<mine>"],
        )
        source = Tokenizers.load(tmp_path).source
        assert source.pieces(source.encode("<mine> Das"))[:2] == ["▁", "<mine>"]
        sampled = [
            source.pieces(ids) for ids in source.sample_all(["<mine> Das Buch"] * 40, 0.3, 1)
        ]
        assert (
            all(pieces[:2] == ["▁", "<mine>"] for pieces in sampled)
            and len(set(map(tuple, sampled))) > 1
        )

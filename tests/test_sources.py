"""Sources of pairs: what each kind of file gives, and one sentence for each fault."""

import bz2
import datetime
import gzip
import json
import logging
import lzma
import os
import threading
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import openpyxl
import pyarrow
import pytest
from corpora import (
    files_config,
    pairs,
    read_set,
    refused_with,
    train_report,
    write_corpus,
    write_pairs,
)
from hypothesis import given
from hypothesis import strategies as st
from openpyxl.utils.datetime import CALENDAR_MAC_1904, CALENDAR_WINDOWS_1900
from pair_files import objects, parquet_file, tmx, unit, zipped

from nmt.config.compose import compose_all
from nmt.config.schema import Config, DataConfig
from nmt.corpus import packed, sources, spreadsheets
from nmt.corpus.corpus_folder import read_report
from nmt.corpus.packed import PackedFile
from nmt.corpus.spreadsheets import workbook_rows
from nmt.corpus.tables import find_sides
from nmt.corpus.translation_memory import NO_PAIR
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


def read(
    word: Path | str, columns: object = None, source: str = "de", target: str = "en"
) -> tuple[list[tuple[str, str]], Counter]:
    """The pairs of one word of data.train, and the records that are none, by reason."""
    data = files_config(str(word), source=source, target=target, columns=columns)
    (origin,) = sources.own_sets(data, {"train": [str(word)]}, Path("nowhere"))["train"]
    skipped: Counter = Counter()
    return list(origin.pairs(skipped)), skipped


def refusal(word: Path | str, columns: object = None, *languages: str) -> str:
    with pytest.raises(UserError) as caught:
        read(word, columns, *languages)
    message = str(caught.value)
    assert message.isprintable() and len(message) < 600
    return message


def save(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def ods(content: str) -> bytes:
    """A workbook of OpenDocument with this content.xml."""
    mimetype = "application/vnd.oasis.opendocument.spreadsheet"
    members = {"META-INF/manifest.xml": "<manifest/>", "content.xml": content}
    return zipped({"mimetype": mimetype, **members})


def changed_sides(*places: int) -> bytes:
    """SIDES with a flipped bit at each place."""
    flipped = bytearray(SIDES)
    for place in places:
        flipped[place] ^= 1
    return bytes(flipped)


def table(*rows: tuple[str, ...], delimiter: str = "\t", end: str = "\n") -> str:
    return "".join(delimiter.join(row) + end for row in rows)


def quoted_table(delimiter: str, end: str) -> str:
    """With a column between the two, quotes as the csv module has them, and a byte order mark."""
    cells = [[source, "1", target] for source, target in PAIRS]
    rows = [['"' + cell.replace('"', '""') + '"' for cell in row] for row in cells]
    return "\ufeff" + table(("de", "x", "en"), *map(tuple, rows), delimiter=delimiter, end=end)


WIDTH = "another number of columns"
JA_NEIN = [("Ja", "Yes"), ("Nein", "No")]
LINES = objects(*({"de": source, "en": target} for source, target in JA_NEIN))
NESTED = [{"id": 1, "translation": {"de": source, "en": target}} for source, target in PAIRS]
ODD = [{"de": "x"}, {"de": 1, "en": "x"}, {"de": "\ud800", "en": "x"}]
SPEECH = [('"Hallo', "x", 'he said "hello"'), ("ja", "y", "yes"), ("nein", "z", "no\u2028no")]
SPOKEN = [(source, target) for source, _, target in SPEECH]
NAMED = table(("german", "english", "source", "target"), ("A", "B", "C", "D"))
SPACED_PAIRS = [("Ja", "Yes"), ("Hallo, du", "Hello, you")]
# as spreadsheets quote: inner quotes doubled; everything quoted
SHEET = 'de\ten\n"Sie rief ""Halt"" aus."\tShe called.\n"a\tb"\tc\n"drei\nvier"\tnine\n'
SHEET_PAIRS = [('Sie rief "Halt" aus.', "She called."), ("a\tb", "c"), ("drei\nvier", "nine")]
WHOLE_SHEET = table(*((f'"{name}"', f'"{other}"') for name, other in [("de", "en")]))
WHOLE_SHEET += '"Sie rief ""Halt"" aus."\t"She called."\n"a\tb"\t"c"\n"drei\nvier"\t"nine"\n'
FIFTY = [(f"Zeile {number}", f"line {number}") for number in range(50)]
UNITS = tmx(
    unit(
        "de-DE",
        "Klick <bpt i='1'>&lt;b&gt;</bpt><hi>hier</hi><ph>x<sub>y</sub></ph>!",
        "EN_us",
        "Click",
    ),
    unit("en", "A &amp; B &#228;", "de-at", "A\n   &lt; B"),
    unit("fr", "x", "en", "y"),
    unit("de-CH", "Velo", "de", "Rad", "en", "bike"),
)
UNIT_PAIRS = [("Klick hier!", "Click"), ("A < B", "A & B ä"), ("Rad", "bike")]
XLIFF = (
    '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file '
    'source-language="en-US" target-language="de-DE"><body><trans-unit id="1"><source>Press '
    '<g id="1">OK</g><x id="2"/></source><alt-trans><source>no</source><target>no</target>'
    "</alt-trans><target>Drücken Sie OK</target></trans-unit><trans-unit id='2'><source>A</source>"
    "</trans-unit></body></file></xliff>"
)
XLIFF_2 = (
    '<x:xliff xmlns:x="u" version="2.0" srcLang="en" trgLang="de"><x:file><x:unit><x:segment>'
    "<x:source>One.</x:source><x:target>Eins<x:pc id='1'>.</x:pc></x:target></x:segment>"
    "<x:ignorable><x:source> </x:source></x:ignorable><x:segment><x:source>Two.</x:source>"
    "<x:target>Zwei.</x:target></x:segment></x:unit></x:file></x:xliff>"
)
# A pair, a segment without its translation, one without a target; a unit without segments
SEGMENTED = (
    '<xliff version="1.2"><file source-language="de" target-language="en"><body><trans-unit id="1">'
    "<source>Eins. Zwei. Drei.</source><seg-source><mrk mtype='seg' mid='a'>Eins.</mrk> <g id='1'>"
    "<mrk mtype='seg' mid='b'>Zwei.</mrk></g> <mrk mtype='seg' mid='c'>Drei.</mrk></seg-source>"
    "<target><g id='1'><mrk mtype='seg' mid='b'/></g><mrk mtype='seg' mid='a'>One.</mrk></target>"
    "</trans-unit><trans-unit id='2'><source>Vier.</source><seg-source><mrk mtype='seg' mid='d'>"
    "Vier.</mrk></seg-source><target>Four.</target></trans-unit></body></file></xliff>"
)
OPUS = {
    f"X.de-en.{code}": "\n".join(side)
    for code, side in zip(("de", "en"), zip(*FLAT, strict=True), strict=True)
}
# name, content, what `read` is told, pairs, records that are none
FILES: list[tuple[str, str | bytes, tuple, list[tuple[str, str]], dict[str, int]]] = [
    ("comma.csv", quoted_table(",", "\n"), (), PAIRS, {}),
    ("semicolon.csv", quoted_table(";", "\r\n"), (), PAIRS, {}),
    ("tab.csv", quoted_table("\t", "\n") + '\n"nur eins"\n', (), PAIRS, {WIDTH: 1}),
    ("twice.csv", "de,en,x,x\na,b,c,d\n", (), [("a", "b")], {}),
    (
        "title.csv",
        table(("Zeile", "x", "line"), *FIFTY, delimiter=";"),
        ([1, 2],),
        FIFTY,
        {WIDTH: 1},
    ),
    ("speech.tsv", table(*SPEECH, ("a", "b")), ([1, 3],), SPOKEN, {WIDTH: 1}),
    (
        "speech.tsv.bz2",
        bz2.compress(table(("src", "n", "tgt"), *SPEECH, ("a", "b")).encode()),
        (),
        SPOKEN,
        {WIDTH: 1},
    ),
    ("sheet.tsv", SHEET, (), SHEET_PAIRS, {}),
    (
        "commas.tsv",
        'Ja.\tYes.\n"Gut, gern."\t"Well, yes."\nNein.\t"No, no."\n',
        ([1, 2],),
        [("Ja.", "Yes."), ("Gut, gern.", "Well, yes."), ("Nein.", "No, no.")],
        {},
    ),
    (
        "breaks.tsv",
        'Ja, ja.\tYes.\nGut.\t"Well\nyes."\n',
        ([1, 2],),
        [("Ja, ja.", "Yes."), ("Gut.", "Well\nyes.")],
        {},
    ),
    (  # marks of speech that goes on in the next line
        "goes on.tsv",
        'Ja, ja.\tYes.\nGut.\t"Well\nyes."\tJa."\n',
        ([1, 2],),
        [("Ja, ja.", "Yes."), ("Gut.", '"Well'), ('yes."', 'Ja."')],
        {},
    ),
    ("whole sheet.tsv", WHOLE_SHEET, (), SHEET_PAIRS, {}),
    ("roles.tsv", table(("source", "x", "target"), ("C", "x", "D")), (), [("C", "D")], {}),
    ("languages before roles.tsv", NAMED, (), [("A", "B")], {}),
    ("spaces.csv", '"de", "en"\n"Ja", "Yes"\n"Hallo, du", "Hello, you"\n', (), SPACED_PAIRS, {}),
    (
        "return.csv",
        'de,en\na\rb,c\n"x, eins\nzwei",y\n',
        (),
        [("a\rb", "c"), ("x, eins\nzwei", "y")],
        {},
    ),
    ("names.tsv", NAMED, (["german", "english"],), [("A", "B")], {}),
    (
        "second.tsv",
        NAMED,
        (["Deutsch", "Englisch", "english", "german"],),
        [("B", "A")],
        {},
    ),
    (
        "gaps.jsonl",
        objects({"de": "x"}, {}) + LINES,
        (),
        JA_NEIN,
        {"a column missing": 2},
    ),
    ("lines.json", LINES, (), JA_NEIN, {}),
    ("nested.jsonl.xz", lzma.compress(objects(*NESTED).encode()), (), PAIRS, {}),
    (
        "odd.jsonl",
        objects(*NESTED) + "\n" + objects(*({"translation": each} for each in ODD)),
        (),
        PAIRS,
        {"a column missing": 1, "no text in a column": 2},
    ),
    ("nested.parquet", parquet_file(NESTED), (), PAIRS, {}),
    ("units.tmx", UNITS, (), UNIT_PAIRS, {NO_PAIR: 1}),
    (
        "breaks.tmx",
        tmx(
            unit("de", 'Eins<ph type="lb"/>zwei<ph type="x"/>.', "en", "One&#10;\u00a0two"),
            unit("de", "10\u202f000\u00a0?", "en", 'a <hi type="lb">b</hi>c\u3000'),
            unit("de", "Eins<ph>&lt;br /&gt;</ph>zwei", "en", "o<ph>&lt;b&gt;</ph>ne"),
        ),
        (),
        [
            ("Eins zwei.", "One \u00a0two"),
            ("10\u202f000\u00a0?", "a bc\u3000"),
            ("Eins zwei", "one"),
        ],
        {},
    ),
    (
        "breaks.xlf",
        XLIFF.replace('<x id="2"/>', '<x ctype="lb"/>now<x id="2"/>!'),
        (),
        [("Drücken Sie OK", "Press OK now!")],
        {NO_PAIR: 1},
    ),
    (
        "several.tmx",
        tmx(unit("de", "eins", "en", "one", "de", "zwei", "en", "two")),
        (),
        [("eins", "one")],
        {},
    ),
    (
        "cdata.tmx",
        tmx(unit("de", "<![CDATA[Ha\x0bllo &#1; A]]>", "en", "x\x0by")),
        (),
        [("Ha\ufffdllo &#1; A", "x\ufffdy")],
        {},
    ),
    ("swiss.tmx", UNITS, (None, "de-CH", "en"), [("Velo", "bike")], {NO_PAIR: 3}),
    ("utf-16.tmx", UNITS.encode("utf-16"), (), UNIT_PAIRS, {NO_PAIR: 1}),
    ("old.xlf", XLIFF, (), [("Drücken Sie OK", "Press OK")], {NO_PAIR: 1}),
    ("turned.xlf", XLIFF, (None, "en", "de"), [("Press OK", "Drücken Sie OK")], {NO_PAIR: 1}),
    (
        "segments.xlf",
        SEGMENTED,
        (),
        [("Eins.", "One."), ("Zwei.", ""), ("Vier.", "Four.")],
        {NO_PAIR: 1},
    ),
    ("new.xliff", XLIFF_2, (), [("Eins.", "One."), ("Zwei.", "Two.")], {}),
    ("opus.zip", zipped(OPUS | {"README": "x"}), (), FLAT, {}),
    (
        "old.zip",
        zipped({"a.de": "Käse für Gäste\n".encode("cp1252"), "a.en": "cheese for guests\n"}),
        (),
        [("Käse für Gäste", "cheese for guests")],
        {},
    ),
    ("units.zip", zipped({"in/a.tmx": tmx(unit("de", "x", "en", "y"))}), (), [("x", "y")], {}),
    (
        "mac.zip",
        zipped({"a.tsv": "de\ten\nja\tyes\n", "__MACOSX/._a.tsv": "\0"}),
        (),
        [("ja", "yes")],
        {},
    ),
]


@pytest.mark.parametrize(
    ("name", "content", "told", "pairs", "skipped"), FILES, ids=[each[0] for each in FILES]
)
def test_a_file_of_each_kind(name, content, told, pairs, skipped, tmp_path):
    found, none = read(save(tmp_path / name, content), *told)
    assert found == pairs
    assert none == skipped


@pytest.mark.parametrize("block", [1, 3, 7, packed.BLOCK])
def test_what_xml_forbids_is_read_as_a_sign_and_named(block, tmp_path, monkeypatch, caplog):
    """Wherever a block of the file ends."""
    monkeypatch.setattr(packed, "BLOCK", block)
    text = tmx(
        unit("de", "a&#x1f;b\x0bc&#65;", "en", "&#xD83D;&#0;&amp;#x1f;&#x1F600;"),
        unit("de", "d&#99999999;", "en", "&lt;"),
    )
    found, _ = read(save(tmp_path / "a.tmx", text))
    assert found == [("a\ufffdb\ufffdcA", "\ufffd\ufffd&#x1f;\U0001f600"), ("d\ufffd", "<")]
    assert "5 characters that XML does not allow" in caplog.text
    assert "(lines 2, 2, 2, 2, 3)" in caplog.text


def zstd(content: bytes) -> bytes:
    return pyarrow.compress(content, codec="zstd", asbytes=True)


@pytest.mark.parametrize("ending", packed.OPENERS)
def test_a_packed_file_may_be_a_pipe_and_have_several_parts(ending, tmp_path):
    pack = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstd}[ending]
    content = pack(b"eins\n") + pack(b"zwei\n")
    pipe = tmp_path / f"pipe{ending}"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=[content])
    writer.start()
    with PackedFile(pipe).open() as file:
        assert file.read() == b"eins\nzwei\n"
    writer.join()


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress, zstd])
def test_two_files_of_lines_may_be_packed(pack, tmp_path):
    """Whatever their names say."""
    save(tmp_path / "x.de", pack(b"eins\nzwei\n"))
    save(tmp_path / "x.en.bz2", pack(b"one\ntwo\n"))
    assert read(tmp_path / "x")[0] == [("eins", "one"), ("zwei", "two")]
    write_pairs(tmp_path, "y.tsv", [("a", "b")])
    assert read(tmp_path / "y.tsv")[0] == [("a", "b")]
    assert refusal(tmp_path / "z.tsv") == f"There is no file {tmp_path / 'z.tsv'}."


LAUGHS = "<!DOCTYPE t [<!ENTITY a0 'haha'>{}]><t>&a9;</t>".format(
    "".join(f"<!ENTITY a{level} '{f'&a{level - 1};' * 10}'>" for level in range(1, 10))
)
OUTSIDE = '<!DOCTYPE t [<!ENTITY x SYSTEM "file:///etc/passwd">]><t>&x;</t>'
ENTITY = "<!DOCTYPE x [<!ENTITY a 'b'>]><x>&a;</x>"
SIDES = zipped({"x.de": "eins\n" * 50, "x.en": "one\n" * 50})
ENCRYPTED = changed_sides(SIDES.index(b"PK\3\4") + 6, SIDES.index(b"PK\1\2") + 8)
HAS = "it has id, translation.de, translation.en"
# name, content, part of the sentence, data.columns and the languages
DAMAGED: list[tuple] = [
    ("a.tmx", LAUGHS, "amplification"),
    ("a.tmx", OUTSIDE, "undefined entity"),
    ("a.tmx", tmx(unit("de", "a&nbsp;b", "en", "x")), "line 2, is not well-formed XML (undefined"),
    ("a.tmx", tmx(), "no unit in de and en"),
    ("a.tmx", UNITS, "no unit in cs and en; its languages are: en", None, "cs", "en"),
    ("a.tmx", tmx(unit("de", "x", "en", "y")).replace("seg>", "text>"), "no <seg>"),
    ("a.tmx", tmx(unit("de", "x", "", "y")), "xml:lang"),
    ("a.xlf", XLIFF.replace('target-language="de-DE"', ""), "target-language"),
    ("a.xlf", XLIFF_2.replace('trgLang="de"', ""), "trgLang"),
    ("a.tmx", b"<tmx>\n\xff\xfe</tmx>", "line 2, is not well-formed XML"),
    ("a.tmx", '<?xml version="1.0" encoding="klingon"?><tmx/>', "encoding"),
    ("a.csv", "de,en\rja,yes\r", "its lines end in carriage returns"),
    ("a.tsv", "ja\tyes\rnein\tno", "its lines end in carriage returns"),
    ("a.csv", b"de,en\nja,yes\nn\xe4,no\n", "a.csv, line 3, is not UTF-8"),
    ("a.csv", "de,en,de\na,b,c\n", "several columns 'de'"),
    (
        "a.csv",
        table(("Zeile", "x", "line"), *FIFTY, delimiter=";"),
        "3 columns in its header, and 2 in most rows",
        ["Zeile", "line"],
    ),
    ("a.tsv", table(*SPEECH), "no columns '1' and '9'; it has 1, 2, 3", [1, 9]),
    ("a.tsv", table(*SPEECH), "no columns '4' and '1'; it has 1, 2, 3", [4, 1]),
    ("a.tsv", "de\ten\nja\tyes\n".encode("utf-16-le"), "looks like UTF-16"),
    (
        "a.tsv",
        NAMED,
        "no columns 'germna' and 'english'; it has german, english, source, target",
        ["germna", "english"],
    ),
    ("a.tsv", "a\x1b[31m\tb\nc\td\n", "\\x1b[31m"),
    *(
        ("a.tsv", NAMED, "data.columns=", wrong)
        for wrong in (["a"], [], "a", ["a", 2], [0, 1], [True, 2], ["a", "a"], [1.5, 2], ["", "a"])
    ),
    ("a.jsonl", '{"de": "x", "en": "y"}\n[1]\n', "line 2, is not a JSON object"),
    ("a.jsonl", "[" * 100_000 + "\n", "line 1, is not a JSON object"),
    ("a.jsonl", '{"de": 1, "en": 2}\n', "has no pair of sentences; 1 with no text in a column"),
    ("a.jsonl", '{"de": "x"}\n{"x": 1}\n', "has no columns 'de' and 'en'"),
    ("a.jsonl", objects(*NESTED), HAS, ["de", "fr"]),
    ("a.json", '[\n{"de": "Ja", "en": "Yes"}\n]\n', "each line must be one"),
    ("a.parquet", parquet_file(NESTED), HAS, ["de", "fr"]),
    ("a.parquet", "PAR1 no", "cannot be read as Parquet"),
    ("a.parquet.gz", b"\x1f\x8b", "while it is packed"),
    ("a.tsv.gz", b"\x1f\x8b\x08 broken", "cut short or damaged"),
    ("a.tsv.zst", zstd(b"de\ten\n" * 100)[:-20], "cut short or damaged"),
    ("a.tsv", b"7z\xbc\xaf\x27\x1c\0\4", "packed by 7-Zip"),
    ("a.tsv", b"Rar!\x1a\x07\x01", "packed by RAR"),
    ("a.tsv.lz4", b"\x04\x22\x4d\x18", "not a kind of file"),
    ("a.tsv.xz", b"", "cut short or damaged"),
    ("a.tsv.bz2", bytes(range(128, 256)), "cut short or damaged"),
    ("a.tsv.xz", lzma.compress(b"de\ten\n" * 100)[:-20], "cut short or damaged"),
    ("a.zip", b"PK\x03\x04 broken", "is not a zip archive, or it is cut short or damaged"),
    ("a.zip", zipped({"a.txt": "x"}), "it has a.txt"),
    ("a.zip", zipped({"a.parquet": "PAR1"}), "unpack it"),
    ("a.zip", zipped({"a.tsv": "x", "b.tsv": "x"}), "has 2 files of pairs"),
    ("a.zip", changed_sides(40), "cut short or damaged"),  # in the compressed text
    ("a.zip", ENCRYPTED, "is encrypted"),
    # of the first member; the directory of the archive is whole
    ("a.zip", changed_sides(1), "a.zip:x.de is damaged"),
    ("a.docx", "text", "not a kind of file that nmt knows"),
    ("a.de", "ja\n", "is one side of a corpus; "),
    ("a.xlsx", bytes.fromhex("d0cf11e0a1b11ae1"), "password"),
    ("a.xlsx", b"text", "is not a zip archive"),
    ("a.ods", zipped({"content.xml": " " * (1 << 24)}), "unpacks to 16,777,216 bytes"),
    ("a.ods", ods("<a"), "cannot be read"),
    ("a.ods", zipped({"x": ""}), "cannot be read as a workbook"),
    ("a.xlsx", zipped({"x": ""}), "cannot be read as a workbook"),
    ("a.ods", ods(ENTITY), "no sheets"),
]


@pytest.mark.parametrize(
    "case", DAMAGED, ids=[f"{number}-{case[0]}" for number, case in enumerate(DAMAGED)]
)
def test_what_cannot_be_read_is_one_sentence(case, tmp_path):
    name, content, part, *told = case
    assert part in refusal(save(tmp_path / name, content), *told)


OTHER_FORMATS = [
    "<?xml version='1.0'?>\n<a/>\n",
    "\ufeff<!DOCTYPE html>\n<title>404</title>\n",
    '<refset setid="a" srclang="any" trglang="en">\n<seg id="1">Ja.</seg>\n',
    "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 310\n",
]


@pytest.mark.parametrize("content", OTHER_FORMATS)
@pytest.mark.parametrize("side", ["x.de", "x.en"])
@pytest.mark.parametrize(
    "pack", [lambda text: text.encode(), lambda text: gzip.compress(text.encode())]
)
def test_lines_of_other_formats_are_no_sentences(content, side, pack, tmp_path):
    sentences = "".join(f"<b>{number}</b>\n" for number in range(content.count("\n")))
    texts = dict.fromkeys(("x.de", "x.en"), sentences) | {side: content}
    files = [save(tmp_path / name, pack(text)) for name, text in texts.items()]
    save(tmp_path / "x.zip", zipped(texts))
    for word in (tmp_path / "x", f"{files[0]}+{files[1]}", tmp_path / "x.zip"):
        message = refusal(word)
        assert side in message and "not text with one sentence a line" in message


# around source, delimiter, target
STRAY = ['"{}{}{}', '{}{}"{}', '"12" {}{}{}', '{}{}"5" {}', '"{}", er{}{}']


@pytest.mark.parametrize("delimiter", ",;\t|")
def test_a_stray_quotation_mark_costs_no_row(tmp_path, delimiter, caplog):
    """Some are never closed, some are inside a cell; one sentence names all. Cells with line breaks
    stay whole."""
    rows = [(f"Zeile {n} x", f"line {n} x") for n in range(300)]
    lines = [delimiter.join(row) for row in rows]
    places = range(7, 300, 11)
    for number, place in enumerate(places):
        form = STRAY[number % (4 if delimiter == "," else 5)]
        lines[place] = form.format(rows[place][0], delimiter, rows[place][1])
    header = delimiter.join(("de", "en"))
    path = save(tmp_path / "a.csv", "\r\n".join([header, *lines]) + "\r\n")
    found, skipped = read(path)
    assert len(found) == len(rows) and not skipped
    for place, (pair, row) in enumerate(zip(found, rows, strict=True)):
        if place in places:
            assert row[1] in pair[1] or '"5"' in pair[1]
        else:
            assert pair == row
    assert caplog.text.count("quotation mark") == 1
    assert f"{len(places)} lines have a quotation mark" in caplog.text
    assert "lines 9, 20, 31" in caplog.text and "no row is lost" in caplog.text
    lines[40] = f'"eine Zeile\nund eine""{delimiter}zweite"{delimiter}both'
    lines[7] = f'"{lines[7]}{delimiter}more'
    found, skipped = read(save(tmp_path / "b.csv", "\n".join([header, *lines])))
    assert "1 of them have another number of columns" in caplog.text
    assert len(found) == len(rows) - 1 and skipped == {WIDTH: 1}
    assert found[39] == (f'eine Zeile\nund eine"{delimiter}zweite', "both")


def test_two_stray_quotation_marks_swallow_no_rows(tmp_path):
    """Between them is well-formed CSV: one cell of many lines, each of which is a row by itself."""
    rows = [f"Zeile {n};line {n}" for n in range(100)]
    rows[20] = '"12 ' + rows[20]
    rows[60] = rows[60].replace(";", '";')
    assert len(read(save(tmp_path / "a.csv", "de;en\n" + "\n".join(rows)))[0]) == 100


@pytest.mark.parametrize("is_stray", [False, True])
def test_a_cell_of_two_lines_that_are_rows(is_stray, tmp_path):
    """It is one cell, unless a quotation mark before it has been stray: then each line is a row."""
    rows = ["de;en", "Zeile;line", '"12" x;line' if is_stray else "x;line"]
    rows += ['"Zeile;line', 'Zeile";line'.replace("Zeile", "noch eine"), "Zeile;line"]
    found = read(save(tmp_path / "a.csv", "\n".join(rows)))[0]
    assert len(found) == (5 if is_stray else 4)
    assert (("Zeile;line\nnoch eine", "line") in found) == (not is_stray)


def test_a_stray_quotation_mark_is_named_by_its_line(tmp_path, caplog):
    """Rows of several lines before it count with all of them."""
    rows = ["de;en", '"eine\nlange\nZeile";line', "Zeile;line", '"12 Zeile;line', "Zeile;line"]
    assert len(read(save(tmp_path / "a.csv", "\n".join(rows)))[0]) == 4
    assert "(lines 6)" in caplog.text


def test_speech_marks_in_tsv_are_text(tmp_path):
    """Cells that begin and end in a quote, and one that only a spreadsheet can have written, far
    behind."""
    rows = [('"Komm!"', '"Come!"'), ("Ja.", "Yes."), ('"Los", rief er.', '"Go", he called.')] * 400
    odd = [('"Ja", rief er.', 'He said ""yes"".'), ('"Ja\rnein', 'a ""')]
    text = table(*rows, ('"Das ""Haus"" fällt."', "It falls."), *odd)
    found, _ = read(save(tmp_path / "a.tsv", text), [1, 2])
    assert found == [*rows, ('Das "Haus" fällt.', "It falls."), *odd]


def workbook(path: Path, pairs: list[tuple[str, str]]) -> Path:
    """With a sheet of notes, a title above the table, a number and a date."""
    book = openpyxl.Workbook()
    book.active.append(["Notizen", "zum Text"])
    sheet = book.create_sheet("Sätze")
    for row in (["Unser Korpus"], [], ["Nr.", "Deutsch", "Anglais"]):
        sheet.append(row)
    for number, pair in enumerate(pairs):
        sheet.append([number, *pair])
    sheet.append([None, 1234.5, datetime.date(2024, 12, 31)])
    sheet.cell(sheet.max_row, 2).number_format = "#,##0.00"
    sheet.cell(sheet.max_row, 3).number_format = "d mmmm yyyy"
    book.save(path)
    return path


NAMESPACE = "urn:oasis:names:tc:opendocument:xmlns"
ODS = f"""<office:document-content xmlns:office="{NAMESPACE}:office:1.0" xmlns:table="{NAMESPACE}:table:1.0"
 xmlns:text="{NAMESPACE}:text:1.0"><office:body><office:spreadsheet>
<table:table table:name="Leer"><table:table-row table:number-rows-repeated="1048576"><table:table-cell
 table:number-columns-repeated="16384"/></table:table-row></table:table><table:table table:name="Texte">
<table:table-row><table:table-cell office:value-type="string"><text:p>de</text:p></table:table-cell><table:table-cell
 table:number-columns-repeated="2"/><table:table-cell office:value-type="string"><text:p>en</text:p></table:table-cell
></table:table-row>
<table:table-row><table:table-cell office:value-type="string"><office:annotation><text:p>no</text:p></office:annotation
><text:p>Zwei<text:s text:c="2"/><text:span>Teile<text:line-break/>am<text:tab/></text:span></text:p><text:p>Ende</text:p></table:table-cell
><table:covered-table-cell/><table:table-cell/><table:table-cell office:value-type="string"><text:p>two</text:p
></table:table-cell></table:table-row>
<table:table-row table:number-rows-repeated="TIMES"><table:table-cell office:value-type="string"
 table:number-columns-repeated="4"><text:p>x</text:p></table:table-cell></table:table-row></table:table
></office:spreadsheet></office:body></office:document-content>"""  # noqa: E501


def test_workbooks(tmp_path, caplog):
    """The sheet with the most pairs is read, and that is said; numbers and dates have no format."""
    many = pairs(30)
    found, skipped = read(workbook(tmp_path / "a.xlsx", [*PAIRS, *many]))
    assert found == [*PAIRS, *many, ("1234.5", "2024-12-31")] and not skipped
    assert f"sheet Sätze is read ({len(many) + 3} pairs), not Sheet (0)" in caplog.text
    assert "the rows before Nr. | Deutsch | Anglais are left out" in caplog.text
    few = save(tmp_path / "a.ods", ods(ODS.replace("TIMES", "3")))
    assert read(few)[0] == [("Zwei  Teile\nam\t\nEnde", "two"), *[("x", "x")] * 3]
    assert "no columns 'de' and 'fr'" in refusal(few, ["de", "fr"])
    many_cells = ODS.replace("TIMES", "1000000").replace('"4"', '"400"')
    assert "cannot be read" in refusal(save(tmp_path / "b.ods", ods(many_cells)))


VALUES = st.one_of(
    st.none(),
    st.sampled_from(["a", "zwei\nZeilen", " b ", "1", "ä & <b>"]),
    st.booleans(),
    st.integers(-(10**9), 10**9),
    st.floats(-1e6, 1e6).map(lambda number: round(number, 3) + 0.0),
    st.dates(datetime.date(1901, 1, 1), datetime.date(2099, 12, 31)),
)


def shown(value: object) -> str:
    """What a person reads in a cell without a format; dates as ISO writes them."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):
        return f"{value:.10g}"
    return str(value)


@given(st.lists(st.lists(VALUES, min_size=2, max_size=5), min_size=1, max_size=6))
def test_any_workbook_has_the_cells_that_another_library_has_written(tmp_path_factory, table_rows):
    table_rows = [["x", *row, "y"] for row in table_rows]
    book = openpyxl.Workbook()
    for row in table_rows:
        book.active.append(row)
    path = tmp_path_factory.mktemp("books") / "a.xlsx"
    book.save(path)
    width = max(map(len, table_rows))
    wanted = []
    for row in table_rows:
        cells = [shown(value) for value in row]
        wanted.append([*cells, *[""] * (width - len(row))])
    assert list(workbook_rows(PackedFile(path))) == wanted


LINES_OF_FILES = [(b"", None), (b"a", 1), (b"a\n", 1), (b"a\nb", 2), (b"a\n\n", 2), (b"\n", 1)]


@pytest.mark.parametrize(("content", "count"), LINES_OF_FILES)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_the_lines_of_a_file_are_counted(content, count, pack, tmp_path, monkeypatch):
    """For a progress bar; also the last one, if no line feed ends it."""
    monkeypatch.setattr(packed, "BLOCK", 2)
    assert PackedFile(save(tmp_path / "a", pack(content))).count_lines() == count
    if pack is not bytes:
        damaged = save(tmp_path / "b", pack(content)[:-4])
        assert PackedFile(damaged).count_lines() is None
    assert PackedFile(tmp_path / "nothing").count_lines() is None


@pytest.mark.parametrize("epoch", [CALENDAR_WINDOWS_1900, CALENDAR_MAC_1904])
def test_dates_are_those_of_the_calendar_of_the_workbook(epoch, tmp_path):
    book = openpyxl.Workbook()
    book.epoch = epoch
    for row in (["de", "en"], ["Datum", datetime.date(2024, 2, 29)]):
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    assert read(tmp_path / "a.xlsx")[0] == [("Datum", "2024-02-29")]


def test_a_cell_far_from_the_table_is_refused(tmp_path, monkeypatch):
    """All cells between would be in memory: 50 million of them end the process."""
    book = openpyxl.Workbook()
    for row in (["de", "en"], ["ja", "yes"]):
        book.active.append(row)
    book.active["AB30"] = "x"
    book.save(tmp_path / "a.xlsx")
    monkeypatch.setattr(packed, "BLOCK", 20)
    monkeypatch.setattr(spreadsheets, "MOST_CELLS", 28 * 30)
    assert read(tmp_path / "a.xlsx")[0][0] == ("ja", "yes")
    monkeypatch.setattr(spreadsheets, "MOST_CELLS", 28 * 30 - 1)
    with pytest.raises(UserError, match="in column AB and one in row 30, with too many"):
        read(tmp_path / "a.xlsx")


@pytest.mark.parametrize(("lost", "outcome"), [(2, "nothing"), (20, "warning"), (100, "error")])
def test_rows_that_are_lost_are_said(tmp_path, lost, outcome):
    wide = [("one", "two", "")] * (lost - 1)
    rows = table(("de", "en"), *pairs(100), *wide, ("one column",))
    path = save(tmp_path / "all.tsv", rows)
    if outcome == "error":
        with pytest.raises(
            UserError, match="100 of 200 records are not pairs: 100 with another number of columns"
        ):
            build(tmp_path, str(path))
        return
    warnings = train_report(build(tmp_path, str(path)))["warnings"]
    warned = [text for text in warnings if "are not pairs" in text]
    assert len(warned) == (outcome == "warning")


def test_the_ending_of_a_file_is_part_of_its_corpus(tmp_path):
    """Quotation marks around one column are text in TSV, and none in CSV."""
    content = "de\ten\n" + table(*((f'"{source}"', target) for source, target in pairs(100)))
    folders = []
    for ending, sign in (("tsv", '"'), ("csv", "")):
        path = save(tmp_path / f"all.{ending}", content)
        folders.append(build(tmp_path, str(path)))
        lines = (folders[-1] / "train.de").read_text(encoding="utf-8").splitlines()
        known = {f"{sign}{source}{sign}" for source, _ in pairs(100)}
        assert known >= set(lines)
    assert folders[0] != folders[1]


def test_records_of_other_languages_are_no_fault(tmp_path):
    """A memory or table of many languages has few pairs of two of them."""
    units = [unit("de", *pair[:1], "en", *pair[1:]) for pair in pairs(100)]
    others = [unit("de", "ja", "fr", "oui")] * 900
    objects_of_all = [dict(zip(("de", "en"), pair, strict=True)) for pair in pairs(100)]
    objects_of_all += [{"de": "ja", "fr": "oui"}] * 900
    for path in (
        save(tmp_path / "all.tmx", tmx(*units, *others)),
        save(tmp_path / "all.jsonl", objects(*objects_of_all)),
    ):
        report = train_report(build(tmp_path, str(path)))
        assert report["read"] == 100
        (warning,) = report["warnings"]
        assert "900 of 1,000 records are not pairs" in warning


def test_a_line_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(packed, "LONGEST_LINE", 1000)
    assert "line 2, is longer than" in refusal(save(tmp_path / "a.tsv", "de\ten\n" + "x" * 1001))


def test_a_packed_file_may_not_unpack_to_everything(tmp_path, monkeypatch):
    """1.9 MB from 5 kB: above what is free, 200 times the size of the file."""
    (tmp_path / "a.tsv.gz").write_bytes(gzip.compress(b"Hallo\tHello\n" * 160_000))
    assert (tmp_path / "a.tsv.gz").stat().st_size < 160_000 * 12 / packed.MOST_RATIO
    file = packed.PackedFile(tmp_path / "a.tsv.gz")
    assert sum(map(len, file.blocks())) == 160_000 * 12
    monkeypatch.setattr(packed, "FREE_BYTES", 1000)
    with pytest.raises(UserError, match="200 times"):
        sum(map(len, file.blocks()))


GERMAN = "Die Katze ist in dem Haus und der Hund ist nicht auf dem Weg zu der Stadt."
ENGLISH = "The cat is in the house and the dog is not on the way to the city with it."


@pytest.mark.parametrize(
    ("columns", "sides"),
    [
        ((GERMAN, ENGLISH), (0, 1)),
        ((ENGLISH, GERMAN), (1, 0)),
        (("7", GERMAN, "x", ENGLISH), (1, 3)),
        # of two columns in a language, the one with more text
        ((GERMAN[:40], GERMAN, ENGLISH), (1, 2)),
        ((GERMAN, GERMAN[:40], ENGLISH), (0, 2)),
        ((ENGLISH, GERMAN, ENGLISH * 2), (1, 2)),
        ((GERMAN, GERMAN), None),
        ((GERMAN, "blik"), None),
    ],
)
def test_the_text_of_columns_tells_the_sides(columns, sides):
    assert find_sides([columns] * 9, ("de", "en")) == sides


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


def test_names_that_hydra_cannot_read_need_no_quotes():
    words = ["data=files", "data.source=de", "data.target=en"]
    for name, wanted in (
        ("größe(1) & co;~", "größe(1) & co;~"),
        ("'quoted'", "quoted"),
        ("[ä,b c]", ["ä", "b c"]),
    ):
        assert compose_all([*words, f"data.train={name}"], multirun=False)[0].data.train == wanted
    with pytest.raises(UserError, match="needs quotes that the shell leaves"):
        compose_all([*words, "data.train=ß,b"], multirun=False)
    data = compose_all([*words, "data.train=2024"], multirun=False)[0].data
    assert data.train == "2024"
    with pytest.raises(UserError, match=r"a name that is a number is written data.train=./2024"):
        sources.set_names(replace(data, train=2024))  # as from a file of conf/


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
    ],
)
def test_faults_leave_nothing_behind(tmp_path, train, more, part):
    write_corpus(tmp_path, 60, 3, 3)
    write_corpus(tmp_path / "copy", 3, 3, 3)
    save(tmp_path / "pairs.tsv", "de\ten\na\tb\nc\td\ne\tf\n")
    save(tmp_path / "empty.tsv", "de\ten\n")
    save(tmp_path / "blank.tsv", "de\ten\na\t\n")
    train, more = json.loads(json.dumps([train, more]).replace("{0}", str(tmp_path)))
    with refused_with(part):
        build(tmp_path, train, **more)
    left = [path.name for path in tmp_path.glob("data/**/*") if path.is_file()]
    assert set(left) <= {"digests.json"}


def test_the_report_says_what_came(tmp_path, caplog):
    rows = table(("de", "en"), *pairs(400), ("one column",))
    path = save(tmp_path / "mine.tsv", rows)
    with caplog.at_level(logging.INFO, "nmt"):
        folder = build(tmp_path, str(path))
    assert "1 another number of columns" in caplog.text
    (entry,) = train_report(folder)["origins"]
    assert (entry["origin"], entry["read"]) == (str(path), 400)
    assert entry["skipped"] == {"another number of columns": 1}
    built = (folder / "train.de").stat().st_mtime_ns
    assert (
        build(tmp_path, str(path)) == folder and (folder / "train.de").stat().st_mtime_ns == built
    )


def test_links_belong_to_text_of_ones_own_alone(tmp_path, monkeypatch):
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
    (tmp_path / "train.de-en.align").write_text("0-0\n")  # those of the pair itself
    (own,) = sources.own_sets(replace(data, kind="files"), {"train": ["train"]}, tmp_path)["train"]
    assert own.links == Path("train.de-en.align")


def test_weights_temperature_and_tags(tmp_path):
    every = pairs(700)
    write_pairs(tmp_path, "large", every[:512])
    write_pairs(tmp_path, "Small", every[512:544])
    write_pairs(tmp_path, "valid", every[600:])
    words = [str(tmp_path / "large"), str(tmp_path / "Small")]
    held_out = {"valid": str(tmp_path / "valid"), "test": None}
    folder = build(tmp_path, words, weights=[0.5, 2.25], origin_tags=True, **held_out)
    lines = Counter(read_set(folder, "train"))
    large, small = (
        [lines[f"<{tag}> {source}", target] for source, target in part]
        for tag, part in (("large", every[:512]), ("small", every[512:544]))
    )
    assert set(large) == {0, 1} and abs(sum(large) - 256) < 40
    assert set(small) == {2, 3} and sum(large) + sum(small) == lines.total()
    parts = train_report(folder)["origins"]
    assert [part["lines"] for part in parts] == [sum(large), sum(small)]
    assert not (folder / "valid.de").read_text().startswith("<")
    # shares as the roots of the sizes: 16 to 4
    folder = build(tmp_path, words, temperature=2.0, **held_out)
    parts = train_report(folder)["origins"]
    assert [(part["weight"], part["lines"]) for part in parts] == [(1.0, 512), (4.0, 128)]


def test_a_tag_is_one_piece(tmp_path):
    write_pairs(tmp_path, "Mine", pairs(500))
    config = replace(default_config().tokenizer, vocabulary_size=370)
    folder = build(tmp_path, str(tmp_path / "Mine"), origin_tags=True)
    assert read_report(folder)["tags"] == ["<mine>"]
    assert (folder / "test.de").read_text().startswith("<mine> ")
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

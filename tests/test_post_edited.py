"""Pairs out of files that people have edited after the machine."""

import gzip
import re
from pathlib import Path

import pytest
from corpora import files_config
from documents import SAMPLES

from nmt.documents.post_edited import read_post_edited
from nmt.errors import UserError

DATA = files_config("train")
XLIFF = """<?xml version="1.0"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
<file source-language="de" target-language="en" original="x" datatype="plaintext"><body>
<trans-unit id="1"><source>Ja.</source><target state="final">Yes.</target></trans-unit>
<trans-unit id="2"><source>Nein.</source>
<target state="needs-review-translation">Not.</target></trans-unit>
<trans-unit id="3"><source>Gut.</source><target>Good.</target>
<alt-trans><target state="needs-review-translation">Well.</target></alt-trans></trans-unit>
</body></file></xliff>
"""
# Two segments of a unit: one is translated, the other one not yet.
SEGMENTED = """<?xml version="1.0"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
<file source-language="de" target-language="en" original="x" datatype="plaintext"><body>
<trans-unit id="1"><source>Ja. Nein.</source>
<seg-source><g id="1"><mrk mtype="seg" mid="1">Ja.</mrk> <mrk mtype="seg" mid="2">Nein.</mrk></g>
</seg-source><target><g id="1"><mrk mtype="seg" mid="1">Yes.</mrk> <mrk mtype="seg" mid="2"/></g>
</target></trans-unit>
<trans-unit id="2"><source>Gut. So.</source><target>Good. So.</target></trans-unit>
<trans-unit id="3"><source>Leer.</source><target/></trans-unit>
<trans-unit id="4"><source>Ohne.</source></trans-unit>
<trans-unit id="5" restype="x-gettext-domain-header"><source>Language: en</source>
<target>Language: en</target></trans-unit>
</body></file></xliff>
"""
XLIFF_2 = """<?xml version="1.0"?>
<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="de" trgLang="en">
<file id="f"><unit id="1"><segment state="final"><source>Ja.</source><target>Yes.</target></segment>
</unit><unit id="2"><segment state="translated" subState="nmt:needs-review"><source>Nein.</source>
<target>Not.</target></segment></unit></file></xliff>
"""
PO = r"""
msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\nPlural-Forms: nplurals=2; plural=(n != 1);\n"

msgid "Ja."
msgstr "Yes."

#, fuzzy
msgid "Nein."
msgstr "Not."

msgid "ein Hut"
msgid_plural "%d Hüte"
msgstr[0] "a hat"
msgstr[1] "%d hats"

msgid "leer"
msgstr ""

#~ msgid "weg"
#~ msgstr "gone"
"""
TSV = "de\ten\nJa.\tYes.\nÄh.\tEr.\nNein.\t\n"
JA = ("Ja.", "Yes.")


@pytest.mark.parametrize(
    ("name", "content", "expected", "left_out"),
    [
        ("a.xlf", XLIFF, [JA, ("Gut.", "Good.")], 1),
        ("b.xlf", SEGMENTED, [JA, ("Gut. So.", "Good. So.")], 4),
        ("a.xliff", XLIFF_2, [JA], 1),
        ("a.po", PO, [JA, ("ein Hut", "a hat"), ("%d Hüte", "%d hats")], 3),
        (
            "a.po.gz",
            gzip.compress(PO.encode()),
            [JA, ("ein Hut", "a hat"), ("%d Hüte", "%d hats")],
            3,
        ),
        ("a.tsv", TSV, [JA, ("Äh.", "Er.")], 1),
        ("b.tsv", TSV.encode("utf-16"), [JA, ("Äh.", "Er.")], 1),
    ],
)
def test_what_is_no_reviewed_pair_is_left_out_and_counted(
    name: str,
    content: str | bytes,
    expected: list[tuple[str, str]],
    left_out: int,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with caplog.at_level("INFO", "nmt"):
        assert read_post_edited(str(path), DATA) == expected
    counts = re.findall(r": (\d+) left out", caplog.text)
    assert sum(map(int, counts)) == left_out


def test_two_documents_are_read_text_by_text(tmp_path: Path) -> None:
    source = tmp_path / "a.md"
    edited = tmp_path / "b.md"
    source.write_text("# Ein `Titel`\n\nEin *schöner* Satz %s. Noch einer.\n", encoding="utf-8")
    edited.write_text("# A `title`\n\nA *fine* sentence %s. One more.\n", encoding="utf-8")
    assert read_post_edited(f"{source}+{edited}", DATA) == [
        ("Ein Titel", "A title"),
        ("Ein schöner Satz %s. Noch einer.", "A fine sentence %s. One more."),
    ]
    edited.write_text("# A title\n\nA sentence.\n\nOne more.\n", encoding="utf-8")
    with pytest.raises(UserError, match="nmt pair"):
        read_post_edited(f"{source}+{edited}", DATA)


@pytest.mark.parametrize("extension", [".po", ".xlf", ".ts"])
def test_two_files_with_translations_are_no_document_and_its_translation(
    extension: str, tmp_path: Path
) -> None:
    """Both have the same sources: their texts would be pairs of equal sides."""
    content, _ = SAMPLES[extension]
    names = [tmp_path / f"{name}{extension}" for name in "ab"]
    for name in names:
        name.write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match="beside"):
        read_post_edited("+".join(map(str, names)), DATA)


@pytest.mark.parametrize("name", ["a.docx", "a.exe", "missing.po"])
def test_other_files_are_named(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if not name.startswith("missing"):
        path.write_bytes(b"x")
    for word in (str(path), f"{path}+{path}"):
        with pytest.raises(UserError, match=name) as caught:
            read_post_edited(word, DATA)
        assert "--" not in str(caught.value)  # no option that nobody has given


@pytest.mark.parametrize("stated", ["fr", "en_GB", ""])
def test_a_po_of_another_language_has_no_pair(stated: str, tmp_path: Path) -> None:
    path = tmp_path / "a.po"
    path.write_text(f'msgid ""\nmsgstr "Language: {stated}\\n"\n\nmsgid "Ja."\nmsgstr "Yes."\n')
    if stated == "fr":
        with pytest.raises(UserError, match="Language: fr"):
            read_post_edited(str(path), DATA)
    else:
        assert read_post_edited(str(path), DATA) == [JA]


def test_a_broken_po_is_named(tmp_path: Path) -> None:
    path = tmp_path / "broken.po"
    path.write_bytes(b'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=KOI8-R\\n"\n')
    with pytest.raises(UserError, match="broken"):
        read_post_edited(str(path), DATA)

"""Pairs out of files that people have edited after the machine."""

from pathlib import Path

import pytest
from corpora import files_config

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
"""


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.xlf", XLIFF, [("Ja.", "Yes."), ("Gut.", "Good.")]),
        ("a.xliff", XLIFF_2, [("Ja.", "Yes.")]),
        (
            "a.po",
            PO,
            [("Ja.", "Yes."), ("ein Hut", "a hat"), ("%d Hüte", "%d hats"), ("leer", "")],
        ),
        ("a.tsv", "de\ten\nJa.\tYes.\nNein.\tNo.\n", [("Ja.", "Yes."), ("Nein.", "No.")]),
    ],
)
def test_what_waits_for_a_review_is_left_out(
    name: str, text: str, expected: list[tuple[str, str]], tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    assert read_post_edited(str(path), DATA) == expected


def test_two_documents_are_read_text_by_text(tmp_path: Path) -> None:
    source = tmp_path / "a.md"
    edited = tmp_path / "b.md"
    source.write_text("# Ein Titel\n\nEin *schöner* Satz. Noch einer.\n", encoding="utf-8")
    edited.write_text("# A title\n\nA *fine* sentence. One more.\n", encoding="utf-8")
    assert read_post_edited(f"{source}+{edited}", DATA) == [
        ("Ein Titel", "A title"),
        ("Ein schöner Satz. Noch einer.", "A fine sentence. One more."),
    ]
    edited.write_text("# A title\n\nA sentence.\n\nOne more.\n", encoding="utf-8")
    with pytest.raises(UserError, match="nmt pair"):
        read_post_edited(f"{source}+{edited}", DATA)


@pytest.mark.parametrize("name", ["a.docx", "a.exe", "missing.po"])
def test_other_files_are_named(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if not name.startswith("missing"):
        path.write_bytes(b"x")
    with pytest.raises(UserError, match=name):
        read_post_edited(str(path), DATA)


def test_a_broken_po_is_named(tmp_path: Path) -> None:
    path = tmp_path / "broken.po"
    path.write_bytes(b'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=KOI8-R\\n"\n')
    with pytest.raises(UserError, match="broken"):
        read_post_edited(str(path), DATA)

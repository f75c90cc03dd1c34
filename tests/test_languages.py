"""Codes of languages in any form mean the same wherever they are read."""

from collections import Counter
from pathlib import Path

import pytest
from corpora import files_config
from pair_files import objects, tmx, unit

from nmt.corpus.encoding import find_encoding
from nmt.corpus.inspect.language import describe_languages, language_of_text, script_of
from nmt.corpus.languages import (
    CODES,
    LANGUAGES,
    base_code,
    choose_language,
    find_language,
    language_of_column,
    same_language,
)
from nmt.corpus.packed import PackedFile
from nmt.corpus.sources import READERS
from nmt.errors import UserError
from nmt.evaluate.metrics import tokenizer_for


@pytest.mark.parametrize("code", "de deu ger DE de-DE de_AT deu_Latn German de-Latn-CH".split())
def test_forms_of_one_language(code):
    assert base_code(code) == "de" and find_language(code).name == "German"


def test_the_table_is_whole():
    """A code belongs to one language, and is not the name of another."""
    table = Path(__file__).parents[1] / "nmt/corpus/languages.tsv"
    rows = [line.split("\t") for line in table.read_text("utf-8").splitlines()]
    codes = Counter(code for row in rows for code in (row[0], *row[1].split()))
    assert max(codes.values()) == 1 and len(rows) == len(LANGUAGES)
    assert all(len(row) == 4 and (not row[2] or len(row[2]) == 4) for row in rows)
    for code, others, _, name in rows:
        assert {CODES[each] for each in (code, *others.split(), name.lower())} == {code}


@pytest.mark.parametrize(
    ("code", "possible", "wanted"),
    [
        ("de", ["deu_Latn", "eng_Latn"], ["deu_Latn"]),
        ("deu_Latn", ["de-DE", "en-US"], ["de-DE"]),
        ("de", ["de-AT", "de"], ["de"]),
        ("de-CH", ["de-DE"], []),
        ("zh", ["zho_Hans", "zho_Hant"], ["zho_Hans", "zho_Hant"]),
        ("zh-TW", ["zho_Hans", "zho_Hant"], ["zho_Hant"]),
        ("sr-Latn", ["srp_Cyrl"], []),
        ("nb", ["no", "nn"], ["no"]),
        ("xx", ["xy", "x"], []),
    ],
)
def test_the_same_language(code, possible, wanted):
    assert same_language(code, possible) == wanted


def test_what_is_near_is_named():
    """Of many codes those that look like it, or whose name does."""
    many = [code for code in LANGUAGES if code not in ("el", "de")] + ["ell_Grek", "deu_Latn"]
    for wrong, near in (("greec", "ell_Grek"), ("germn", "deu_Latn"), ("deq_Latn", "deu_Latn")):
        with pytest.raises(
            UserError, match=f"{wrong}.*the nearest of its {len(many)} are .*{near}"
        ):
            choose_language(wrong, many)
    with pytest.raises(UserError, match="it has de, en$"):
        choose_language("fr", ["de", "en"])
    with pytest.raises(UserError, match="several of its languages: zho_Hans, zho_Hant"):
        choose_language("zh", ["zho_Hans", "zho_Hant"])


@pytest.mark.parametrize(
    ("codes", "tokenizer"),
    [
        ("zh zho_Hans cmn yue lzh wuu hak zh-TW", "zh"),
        ("th tha_Thai lo km my bo bod_Tibt dzo shn", "char"),
    ],
)
def test_scripts_without_spaces_are_not_13a(codes, tokenizer):
    assert {tokenizer_for(code) for code in codes.split()} == {tokenizer}
    assert {
        tokenizer_for(code) for code in "de vie_Latn rus_Cyrl arb_Arab de+fr zho_Latn".split()
    } == {"13a"}


FILES = {
    "a.tmx": tmx(*(unit("de-DE", f"Hund {n}", "en-US", f"dog {n}") for n in (1, 2))),
    "a.csv": "id,de-DE,eng\n1,Hund 1,dog 1\n2,Hund 2,dog 2\n",
    "a.jsonl": objects(
        *({"translation": {"deu": f"Hund {n}", "en_US": f"dog {n}"}} for n in (1, 2))
    ),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("languages", [("deu_Latn", "eng_Latn"), ("de", "en"), ("ger", "eng")])
def test_files_of_pairs(name, languages, tmp_path):
    (tmp_path / name).write_text(FILES[name], "utf-8")
    data = files_config(source=languages[0], target=languages[1])
    file = PackedFile(tmp_path / name)
    assert list(READERS[file.ending](file, data, Counter())) == [
        ("Hund 1", "dog 1"),
        ("Hund 2", "dog 2"),
    ]


def test_a_whole_side_and_a_guess():
    """deu_Latn is judged as de is; a script that a code names is its script."""
    german = ["Die Katze ist in dem Haus und der Hund ist nicht auf dem Weg zu der Stadt"] * 80
    english = ["The cat is in the house and the dog is not on the way to the city with it"] * 80
    exchanged = describe_languages(
        list(zip(english, german, strict=True)), ("deu_Latn", "eng_Latn")
    )
    assert exchanged and "exchanged" in exchanged
    assert (
        describe_languages(list(zip(german, english, strict=True)), ("deu_Latn", "eng_Latn"))
        is None
    )
    # Of a language without a list of words, the other one tells
    yoruba = ["Ọmọ náà wà ní ilé, ajá kò sì sí"] * 80
    for sides, codes, place in (
        ((english, yoruba), ("yo", "en"), "source like en"),
        ((yoruba, english), ("en", "yo"), "target like en"),
        ((english, yoruba), ("en", "yo"), None),
    ):
        found = describe_languages(list(zip(*sides, strict=True)), codes)
        assert found == (place and f"the sides look exchanged: the {place}")
    assert language_of_text(german[0], ["eng_Latn", "deu_Latn"]) == "deu_Latn"
    # One frequent word alone is chance, where a text has many words
    chance = [
        f"{first}{second} ma" for first in "bdfgjlmnprstvxz" for second in "abdefghiklmnoprstuvwyz"
    ]
    assert language_of_text(" ".join(chance)) is None
    assert (script_of("rus_Cyrl"), script_of("sr-Latn"), script_of("sr")) == (
        "CYRILLIC",
        "LATIN",
        None,
    )


def test_an_old_encoding_goes_by_the_language(tmp_path):
    (tmp_path / "text").write_bytes(
        ("Žluťoučký kůň příliš úpěl ďábelské ódy. " * 20).encode("cp1250")
    )
    found = {
        find_encoding(PackedFile(tmp_path / "text"), (code,))
        for code in ("cs", "ces_Latn", "cs-CZ")
    }
    assert found == {"cp1250"}


def test_names_of_columns_tell_languages():
    """By codes and by names in any language, alone or with other words; other words tell none."""
    told = {
        "de": "Deutsch allemand DEUTSCH Niemiecki немецкий alemán 德语 ドイツ語 الألمانية text_de "
        "Source·(DE) German·text Satz·auf·Deutsch·hier",
        "en": "Englisch anglais ANGLAIS inglés 英語 英语 английский English·-·United·States "
        "Übersetzung·(EN) Kiingereza",
        "fr": "Français FRANCAIS Französisch フランス語 sentence.fr",
        "br": "Brezhoneg bretón",
        "": "comment user_id No. row_id created_at Français·/·English Parlez-vous·français·? "
        "source is_it_ok order_no "
        "das·ist·Satz·auf·Deutsch",
    }
    for code, names in told.items():
        for name in names.replace("·", "\0").split():
            assert language_of_column(name.replace("\0", " ")) == code, name
    assert language_of_column("EN-US") == "EN-US" and base_code("Français") == "fr"

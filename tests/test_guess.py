"""nmt train FILE: languages and columns are read off the file, and what it does not tell is asked
for."""

import csv
import json
from collections import Counter
from pathlib import Path

import pyarrow
import pytest
from corpora import files_config, pairs, run_command, write_pairs
from pair_files import tmx_of, zipped
from pyarrow import parquet

from nmt.corpus.guess import as_words, with_file
from nmt.corpus.packed import PackedFile
from nmt.corpus.sources import own_sets
from nmt.corpus.tables import read_table
from nmt.errors import UserError

PAIRS = pairs(60)


def table(path: Path, header: list[str], delimiter: str = "\t") -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerows([header] if header else [])
        writer.writerows([number, *pair] for number, pair in enumerate(PAIRS))


def objects(of_pair) -> str:
    return "".join(json.dumps(of_pair(*pair)) + "\n" for pair in PAIRS)


DE, EN = zip(*PAIRS, strict=True)
DE_EN = ["data.source=de", "data.target=en"]
FILES = {
    "a.tmx": lambda path: path.write_text(tmx_of(PAIRS, ("de-AT", "en-GB"))),
    "b.tsv": lambda path: table(path, []),
    "c.csv": lambda path: table(path, ["id", "de", "en"], ";"),
    "d.csv": lambda path: table(path, ["id", "source", "target"], ","),
    "e.json": lambda path: path.write_text(objects(lambda de, en: {"id": 1, "de": de, "en": en})),
    "f.jsonl": lambda path: path.write_text(
        objects(lambda de, en: {"translation": {"de": de, "en": en}})
    ),
    "g.parquet": lambda path: parquet.write_table(
        pyarrow.table({"id": range(len(PAIRS)), "de": DE, "en": EN}), path
    ),
    "h.zip": lambda path: path.write_bytes(
        zipped({"README": "de and en", "x.de": "\n".join(DE), "x.en": "\n".join(EN)})
    ),
    "i.zip": lambda path: path.write_bytes(zipped({"about.txt": "", "x.tmx": tmx_of(PAIRS)})),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_tells_its_languages_and_columns(name, tmp_path, capfd):
    """It is said how the file is read, and all its pairs are."""
    path = tmp_path / name
    FILES[name](path)
    told = ["data=files", f"data.train={path}", *DE_EN]
    assert with_file([str(path), "seed=2"]) == [*told, "seed=2"]
    options = ["data.split_size=5", f"data_folder={tmp_path / 'data'}"]
    answer = run_command(capfd, "download", str(path), *options)
    assert answer.code == 0 and f"{path} is read as data=files" in answer.err, answer.err
    assert f"{len(PAIRS)} pairs read" in answer.err


HEADERS = [
    ("Deutsch", "Englisch"),
    ("allemand", "ANGLAIS"),
    ("German text", "English"),
    ("alemán", "inglés"),
    ("德语", "英语"),
    ("ドイツ語", "英語"),
    ("немецкий", "английский"),
    ("Source (DE)", "Target (EN-GB)"),
    ("text_de", "text_en"),
    ("source", "Englisch"),
]


def read(words: list[str]) -> list[list[tuple[str, str]]]:
    """The pairs of each origin of data.train on a command line."""
    given = dict(word.split("=", 1) for word in with_file(words))
    assert given["data"] == "files"
    data = files_config(source=given["data.source"], target=given["data.target"])
    train = given["data.train"]
    origins = own_sets(data, {"train": as_words(train)}, Path("nowhere"))["train"]
    return [list(origin.pairs(Counter())) for origin in origins]


@pytest.mark.parametrize("header", HEADERS)
def test_columns_are_called_as_people_call_them(header, tmp_path):
    """A header is no pair; columns may be in any order, and others may be there."""
    for source, target in ((0, 1), (1, 0)):
        with open(tmp_path / "a.csv", "w", encoding="utf-8-sig", newline="") as file:
            writer = csv.writer(file, delimiter=";")
            writer.writerow(["N°", header[source], "user_id", header[target], "Comment"])
            writer.writerows(
                [n, pair[source], "x7", pair[target], ""] for n, pair in enumerate(PAIRS)
            )
        assert read([str(tmp_path / "a.csv")]) == [[(pair[source], pair[target]) for pair in PAIRS]]


def test_the_name_of_a_column_counts_more_than_its_text(tmp_path):
    """One column tells its language by its name, the other one by its text."""
    for header, languages in ((["", "Irish", "Text"], "ga en"), (["", "Text", "Irish"], "de ga")):
        table(tmp_path / "a.csv", header, ";")
        source, target = languages.split()
        wanted = [f"data.source={source}", f"data.target={target}"]
        assert with_file([str(tmp_path / "a.csv")])[2:] == wanted


KEYS = [f"menu.entry_{number}.label" for number in range(len(PAIRS))]
WORDS_ALONE = [f"entrynumber{word}" for word in map("abcdefgh".__getitem__, range(8))]


def columns(path: Path, **cells) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(cells)
        writer.writerows(zip(*cells.values(), strict=False))


def test_a_column_of_keys_is_no_text_whatever_its_name(tmp_path):
    path = tmp_path / "a.csv"
    for name in ("id", "no", "key", "Deutsch"):
        columns(path, **{name: KEYS}, text=DE, other=EN)
        assert with_file([str(path)])[2:] == DE_EN
        assert read([str(path)]) == [PAIRS]

    # Text without spaces is none, whatever signs it has.
    chinese = ["\u4f60\u597d\u554a" * 5 + f"_{number}.\u4e16\u754c" for number in range(len(PAIRS))]
    columns(path, zh=chinese, en=EN)
    assert read([str(path)])[0][1] == (chinese[1], EN[1])

    # Somebody who says that the language is Indonesian hears that the column has none.
    columns(path, id=KEYS, en=EN)
    with pytest.raises(UserError, match=r"'id' has keys, such as menu\.entry_0\.label.*data\.colu"):
        read([str(path), "data.source=id", "data.target=en"])
    columns(path, id=list(map(str, range(1, len(PAIRS) + 1))), en=EN)
    with pytest.raises(UserError, match="'id' has keys, such as 1, and no Indonesian"):
        read([str(path), "data.source=id", "data.target=en"])


def test_a_name_that_is_a_code_and_a_word_is_asked_for_where_the_text_says_another(tmp_path):
    path = tmp_path / "a.csv"
    for names, said in {
        ("from", "to"): "'to' may have Tongan by its name, or English by its text",
        ("is", "was"): "'is' may have Icelandic by its name, or German by its text",
    }.items():
        columns(path, **dict(zip(names, (DE, EN), strict=True)))
        with pytest.raises(UserError, match=f"{said}; give data.source=… data.target=…"):
            with_file([str(path)])
        assert read([str(path), *DE_EN]) == [PAIRS]
    # The text tells no other language.
    columns(path, no=["Hytta ligger ved fjorden", "Fjellet er bratt"] * 30, en=EN)
    assert with_file([str(path)])[2:] == ["data.source=no", "data.target=en"]


def test_what_may_be_keys_or_a_language_is_asked_for(tmp_path):
    path = tmp_path / "a.csv"
    columns(path, id=WORDS_ALONE, x=["Katze"] * 8, en=["cats"] * 8)
    with pytest.raises(UserError, match="'id' may have Indonesian by its name, or keys"):
        with_file([str(path)])
    assert read([str(path), "data.source=id", "data.target=en"])[0][1] == (WORDS_ALONE[1], "cats")
    columns(path, id=["kucing ini"] * 8, x=["note this"] * 8, en=["this cat"] * 8)
    assert with_file([str(path)])[2:] == ["data.source=id", "data.target=en"]


def test_a_first_row_that_names_no_language(tmp_path, caplog):
    """It is no pair if it is unlike the others, and that is said; the first of many pairs is
    one."""
    path = tmp_path / "a.tsv"
    table(path, ["Nr.", "Satz", "Übersetzung"])
    caplog.set_level("INFO", "nmt")
    assert read([str(path)]) == [PAIRS]
    assert "the first row, Nr. | Satz | Übersetzung, is read as names of columns" in caplog.text
    path.write_text(
        "".join(f"{de}\t{en}\n" for de, en in [("Satz", "Übersetzung"), *PAIRS]), encoding="utf-8"
    )
    assert read([str(path)]) == [PAIRS]
    words = [("Haus", "house"), ("und", "and"), ("der Hund", "the dog"), ("nicht", "not")] * 9
    path.write_text("".join(f"{de}\t{en}\n" for de, en in words), encoding="utf-8")
    assert read([str(path)]) == [words]


SENTENCE = ("Das ist ein Satz.", "This is a phrase.")  # 17 signs each
PHRASE = ("Das ist kein Satz", "This is no phrase")
NUMBERED = (*SENTENCE, "12,5")
FIRST_ROWS = {  # a first row, the rows below it, and whether it is read as names
    "roles": (("source", "target"), [PHRASE], True),
    "a language": (("Anglais", "x"), [PHRASE], True),
    "one role twice": (("text", "text"), [PHRASE], False),
    "as long as half of them": (("Satz zwei", "This is."), [SENTENCE] * 9, False),
    "shorter than half of them": (("Satz und", "Wort und"), [SENTENCE] * 9, True),
    "the target is long": (("Satz und", "Wort und mehr"), [SENTENCE] * 9, False),
    "above four rows": (("Satz", "Wort"), [SENTENCE] * 4, False),
    "above five rows": (("Satz", "Wort"), [SENTENCE] * 5, True),
    "half are sentences": (("Satz", "Wort"), [SENTENCE, PHRASE] * 4, False),
    "more than half are": (("Satz", "Wort"), [SENTENCE, PHRASE, SENTENCE] * 4, True),
    "one of 20 is short": (("Satz", "Wort"), [SENTENCE] * 19 + [("Ja.", "Yes")], True),
    "two of 20 are short": (("Satz", "Wort"), [SENTENCE] * 18 + [("Ja.", "Yes")] * 2, False),
    "a sentence": (("Satz.", "Wort"), [SENTENCE] * 9, False),
    "40 signs above numbers": (("x" * 40, "y", "Nr"), [NUMBERED] * 9, True),
    "41 signs above numbers": (("x" * 41, "y", "Nr"), [NUMBERED] * 9, False),
    "a number above numbers": (("x" * 20, "y" * 20, "1"), [NUMBERED] * 9, False),
    "one of 20 is no number": (
        ("x" * 20, "y" * 20, "Nr"),
        [NUMBERED] * 19 + [(*SENTENCE, "a")],
        True,
    ),
    "two of 20 are none": (("x" * 20, "y" * 20, "Nr"), [NUMBERED, (*SENTENCE, "a1")] * 9, False),
}


@pytest.mark.parametrize("kind", FIRST_ROWS)
def test_a_first_row_is_names_where_it_is_unlike_the_others(kind, tmp_path):
    first, rows, are_names = FIRST_ROWS[kind]
    lines = ["\t".join(row) + "\n" for row in (first, *rows)]
    (tmp_path / "a.tsv").write_text("".join(lines), encoding="utf-8")
    data = files_config(columns=[1, 2])
    found = list(read_table(PackedFile(tmp_path / "a.tsv"), data, Counter()))
    assert found == [row[:2] for row in ([] if are_names else [first]) + rows]


def test_each_file_of_a_mixture_has_its_own_columns(tmp_path):
    """data.train=[FILE,FILE] alone means data=files; the first file that tells both languages
    decides their order."""
    paths = [tmp_path / name for name in ("a.csv", "b.tmx", "c.tsv", "d.jsonl")]
    table(paths[0], ["id", "Allemand", "Anglais"], ";")
    paths[1].write_text(tmx_of(PAIRS, ("de-AT", "en-GB")))
    paths[2].write_text("".join(f"{en}\t7\t{de}\n" for de, en in PAIRS))
    paths[3].write_text(objects(lambda de, en: {"translation": {"en": en, "de": de}}))
    for words in ([f"data.train=[{','.join(map(str, paths))}]"], list(map(str, paths))):
        found = read(words)
        assert [len(pairs) for pairs in found] == [len(PAIRS)] * 4 and all(
            pairs == PAIRS for pairs in found
        )
    assert with_file([f"data.train={paths[2]}"])[1:3] == ["data.source=en", "data.target=de"]
    for words in (
        ["data=phrasebook", f"data.train={paths[0]}"],
        ["data.train=train"],
        ["from=x", f"data.train={paths[0]}"],
    ):
        assert with_file(words) == words
    assert with_file([f"data.train={paths[0]}", "data.target=de"])[1] == "data.source=en"
    table(paths[2], ["", "Français", "Englisch"])
    with pytest.raises(
        UserError, match="a.csv has de and en, but .*c.tsv has fr and en; give data.source"
    ):
        with_file([str(paths[0]), str(paths[2])])


def test_two_files_of_any_names(tmp_path, capfd):
    """Their languages are told by the endings or by the text; an order that is given stays."""
    paths = [tmp_path / name for name in ("mine+yours.txt", "yours.text")]
    for side, path in enumerate(paths):
        path.write_text("".join(f"{pair[side]}\n" for pair in PAIRS), encoding="utf-8")
    words = with_file([str(path) for path in reversed(paths)])
    assert words == [
        "data=files",
        f"data.train={paths[1]}+{paths[0]}",
        "data.source=en",
        "data.target=de",
    ]
    answer = run_command(
        capfd, "download", *map(str, paths), "data.split_size=5", f"data_folder={tmp_path / 'data'}"
    )
    assert answer.code == 0 and f"{len(PAIRS)} pairs read" in answer.err
    named = [
        path.rename(tmp_path / name) for path, name in zip(paths, ("a.cs", "b.yor"), strict=True)
    ]
    assert with_file(list(map(str, named)))[2:] == ["data.source=cs", "data.target=yo"]
    with pytest.raises(UserError, match="give files of pairs, or two files of sentences"):
        with_file([str(named[0]), str(named[1]), str(tmp_path / "test_guess.py"), str(named[0])])


@pytest.mark.parametrize(
    "words",
    [
        ["a,b.de", "a,b.en"],
        ["a,b.tsv"],
        ["a,b.tsv", "ü.tsv"],
        ["a[1].tsv"],
        ["{o'b}.tsv"],
        ["a[1].tsv", "{o'b}.tsv"],
        ["data.train=a,b.tsv"],
        ["data.train=a,b.de+a,b.en", "data=files", *DE_EN],
        ["data.train=a,b", "data=files", *DE_EN],
    ],
)
def test_a_file_that_is_there_may_have_any_sign_in_its_name(words, tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_pairs(tmp_path, "a,b", PAIRS)
    table(Path("a,b.tsv"), ["", "de", "en"])
    for name in ("ü.tsv", "a[1].tsv", "{o'b}.tsv"):
        table(Path(name), ["", "de", "en"])
    answer = run_command(capfd, "download", *words, "data.split_size=5")
    assert answer.code == 0 and "The corpus is in" in answer.err
    # What is not there means several runs, as before.
    assert "several runs" in run_command(capfd, "download", "data.train=a,c").err


@pytest.mark.parametrize("name", ["a.tmx", "a.xlf"])
def test_xml_states_its_encoding_itself(name, tmp_path):
    """It is not decoded before its declaration is read."""
    text = tmx_of(PAIRS)
    if name == "a.xlf":
        units = "<unit><segment><source>Hund</source><target>dog</target></segment></unit>" * 2
        text = f'<xliff version="2.0" srcLang="de" trgLang="en"><file>{units}</file></xliff>'
    path = tmp_path / name
    path.write_bytes(f'<?xml version="1.0" encoding="UTF-16"?>\n{text}'.encode("utf-16"))
    for encoding in ("auto", "utf-16", "cp1252"):
        assert {*DE_EN} <= set(with_file([str(path), f"data.encoding={encoding}"]))


def test_a_memory_of_several_languages_tells_which_are_not_read(tmp_path, caplog):
    path = tmp_path / "a.tmx"
    french = '<tuv xml:lang="fr"><seg>Oui</seg></tuv>'
    path.write_text(tmx_of(PAIRS).replace("</tu>", f"{french}</tu>", 1))
    assert with_file([str(path)])[2:] == DE_EN
    (warning,) = [each for each in caplog.records if each.levelname == "WARNING"]
    assert " also has fr;" in warning.message


def test_what_is_given_is_not_guessed(tmp_path):
    path = tmp_path / "a.tmx"
    path.write_text(tmx_of(PAIRS))
    words = with_file(["data.source=en", str(path), "data.target=de"])
    assert words == ["data=files", f"data.train={path}", "data.source=en", "data.target=de"]
    assert with_file(["model=transformer", "other"]) == ["model=transformer", "other"]
    with pytest.raises(UserError, match="no file nothing.tmx"):
        with_file(["nothing.tmx"])


def test_what_a_file_does_not_tell_is_asked_for(tmp_path):
    for name, text, said in (
        ("x.tsv", "1\t2\n3\t4\n", "give data.source=… data.target=…"),
        ("y.tsv", "one\n", "two or more"),
        (
            "en.tsv",
            "en\tpcm\n" + "It was for you.\tIt was for you and he.\n" * 9,
            r"give data.target=…",
        ),
        ("z.doc", "", "not a kind of file"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(UserError, match=said):
            with_file([str(tmp_path / name)])
    with pytest.raises(UserError, match="give files of pairs"):
        with_file([str(tmp_path / "x.tsv"), str(tmp_path / "z.doc")])

"""nmt train FILE: languages and columns are read off the file, and what it does not tell is asked for."""

import csv
import json
from pathlib import Path

import pytest
from corpora import pairs, run_command

from nmt.data.guess import with_file
from nmt.errors import UserError

PAIRS = pairs(60)


def tmx(codes: tuple[str, ...]) -> str:
    units = "".join(
        "<tu>"
        + "".join(f'<tuv xml:lang="{code}"><seg>{text}</seg></tuv>' for code, text in zip(codes, pair, strict=True))
        + "</tu>"
        for pair in PAIRS
    )
    return f'<tmx version="1.4"><header/><body>{units}</body></tmx>'


def table(path: Path, header: list[str], delimiter: str = "\t") -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerows([header] if header else [])
        writer.writerows([number, *pair] for number, pair in enumerate(PAIRS))


def objects(of_pair) -> str:
    return "".join(json.dumps(of_pair(*pair)) + "\n" for pair in PAIRS)


@pytest.mark.parametrize(
    ("name", "write", "found"),
    [
        ("a.tmx", lambda path: path.write_text(tmx(("de-AT", "en-GB"))), "data.source=de data.target=en"),
        ("b.tsv", lambda path: table(path, []), "data.source=de data.target=en"),
        ("c.csv", lambda path: table(path, ["id", "de", "en"], ";"), "data.source=de data.target=en"),
        (
            "e.json",
            lambda path: path.write_text(objects(lambda de, en: {"id": 1, "de": de, "en": en})),
            "data.source=de data.target=en",
        ),
        (
            "f.jsonl",
            lambda path: path.write_text(objects(lambda de, en: {"translation": {"de": de, "en": en}})),
            "data.source=de data.target=en",
        ),
        ("d.csv", lambda path: table(path, ["id", "source", "target"], ","), "data.source=de data.target=en"),
    ],
)
def test_a_file_tells_its_languages_and_columns(name, write, found, tmp_path, capfd):
    """It is said how the file is read; nmt audit and the corpus understand it alike."""
    path = tmp_path / name
    write(path)
    assert with_file([str(path), "seed=2"]) == ["data=files", f"data.train={path}", *found.split(), "seed=2"]
    options = ["data.split_size=5", f"data_folder={tmp_path / 'data'}"]
    answer = run_command(capfd, "download", str(path), *options)
    assert answer.code == 0 and f"{path} is read as data=files" in answer.err, answer.err
    assert f"{len(PAIRS)} pairs read" in answer.err
    assert run_command(capfd, "audit", str(path), *options).code == 0


def test_two_files_of_any_names(tmp_path, capfd):
    """Their languages are told by the endings or by the text; an order that is given stays."""
    paths = [tmp_path / name for name in ("mine+yours.txt", "yours.text")]
    for side, path in enumerate(paths):
        path.write_text("".join(f"{pair[side]}\n" for pair in PAIRS), encoding="utf-8")
    words = with_file([str(path) for path in reversed(paths)])
    assert words == ["data=files", f"data.train={paths[1]}+{paths[0]}", "data.source=en", "data.target=de"]
    answer = run_command(capfd, "download", *map(str, paths), "data.split_size=5", f"data_folder={tmp_path / 'data'}")
    assert answer.code == 0 and f"{len(PAIRS)} pairs read" in answer.err
    named = [path.rename(tmp_path / name) for path, name in zip(paths, ("a.cs", "b.pl"), strict=True)]
    assert with_file(list(map(str, named)))[2:] == ["data.source=cs", "data.target=pl"]
    with pytest.raises(UserError, match="files of pairs can be given so, or two of sentences"):
        with_file([str(named[0]), str(named[1]), str(tmp_path / "test_guess.py"), str(named[0])])


def test_what_is_given_is_not_guessed(tmp_path):
    path = tmp_path / "a.tmx"
    path.write_text(tmx(("de", "en")))
    words = with_file(["data.source=en", str(path), "data.target=de"])
    assert words == ["data=files", f"data.train={path}", "data.source=en", "data.target=de"]
    assert with_file(["model=transformer", "other"]) == ["model=transformer", "other"]
    with pytest.raises(UserError, match="no file nothing.tmx"):
        with_file(["nothing.tmx"])


def test_what_a_file_does_not_tell_is_asked_for(tmp_path):
    for name, text, said in (
        ("x.tsv", "1\t2\n3\t4\n", "give data.source=… data.target=…"),
        ("y.tsv", "one\n", "two or more"),
        ("z.doc", "", "no kind of file"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(UserError, match=said):
            with_file([str(tmp_path / name)])
    with pytest.raises(UserError, match="files of pairs can be given so"):
        with_file([str(tmp_path / "x.tsv"), str(tmp_path / "z.doc")])

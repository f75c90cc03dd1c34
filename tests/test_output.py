"""Where answers are written: a file appears complete, continues after any kill, and never holds the
answers to other lines."""

import io
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from nmt.commands import output
from nmt.commands.output import NUMBER_FORMAT, check_not_input, is_file, open_output
from nmt.commands.translate import write_answers
from nmt.corpus.line_chunks import LineChunk, read_chunks
from nmt.errors import UserError
from nmt.evaluate.metrics import STANDARD
from nmt.runs.results import LAST_COLUMN, Result

LINES = [f"Zeile {number}" for number in range(25)]
SETTINGS = {"decode.beam": 4, "RUN": ["a"]}
ANSWERS = "".join(f"{line.upper()}\n" for line in LINES)


@pytest.fixture(autouse=True)
def small_chunks_and_no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.corpus.line_chunks.CHUNK_LINES", 10)
    monkeypatch.setattr(os, "fsync", lambda file: None)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "answers"


def answer(
    path: Path,
    lines: Sequence[str] = LINES,
    resume: bool = False,
    stop_after: int = 99,
    settings: dict = SETTINGS,
) -> list[int]:
    """Write the lines in capitals; the first lines of the chunks for which this was asked."""
    asked = list[int]()

    def translate(chunk: LineChunk) -> Iterator[str]:
        if len(asked) == stop_after:
            raise KeyboardInterrupt
        asked.append(chunk.start)
        yield from map(str.upper, chunk.texts)

    text = "".join(f"{line}\n" for line in lines)
    with open_output(str(path), resume) as out:
        out.continue_with(settings)
        chunks = read_chunks(io.BytesIO(text.encode()), "lines", live=False)
        write_answers(chunks, translate, out)
    return asked


def part_of(path: Path, chunks: int = 2) -> Path:
    """What is left of a work that was interrupted after some chunks."""
    with pytest.raises(KeyboardInterrupt):
        answer(path, stop_after=chunks)
    return path.with_name(f"{path.name}.part")


@pytest.mark.parametrize("before", [None, "old\n"])
@pytest.mark.parametrize("chunks", [0, 1, 2])
def test_what_is_answered_is_not_asked_again(path, chunks, before, caplog):
    if before:
        path.write_text(before)
    part = part_of(path, chunks)
    assert (path.read_text() if path.exists() else None) == before
    assert part.exists() == (chunks > 0)
    if chunks:
        with pytest.raises(UserError, match="--resume"):
            answer(path)
        assert part.exists()
    assert ("--resume" in caplog.text) == (chunks > 0)
    assert answer(path, resume=True) == [1, 11, 21][chunks:]
    assert path.read_text() == ANSWERS and ("it is replaced" in caplog.text) == bool(before)
    assert os.listdir(path.parent) == [path.name]


def test_it_continues_from_every_byte_at_which_it_was_killed(path):
    """A record that is not complete is written again; only without settings nothing can be said."""
    part = part_of(path)
    content = part.read_bytes()
    ends = [place for place, byte in enumerate(content, 1) if byte == ord("\n")]
    assert len(ends) == 3  # of the settings and of two chunks
    for size in [*range(0, len(content), 7), *ends]:
        part.write_bytes(content[:size])
        records = sum(end <= size for end in ends)
        if 0 < size < ends[0]:
            with pytest.raises(UserError, match="damaged"):
                answer(path, resume=True)
            continue
        assert answer(path, resume=True) == [1, 11, 21][max(records - 1, 0) :]
        assert path.read_text() == ANSWERS


def test_damage_and_files_of_other_programs_are_noticed(path):
    part = part_of(path)
    content = part.read_bytes()
    damaged = [b"a download", b"another\nprogram's\n", content[1:]]
    for place in range(0, len(content) - 1, 5):
        changed = bytearray(content)
        changed[place] ^= 1
        damaged.append(changed)
    for each in damaged:
        part.write_bytes(each)
        with pytest.raises(UserError, match="damaged"):
            answer(path, resume=True)
        assert part.read_bytes() == each


@pytest.mark.parametrize(
    "lines",
    [
        ["another", *LINES[1:]],
        [*LINES[:19], "another", *LINES[20:]],
        LINES[1:],
        LINES[:19],  # it ends before the answers do
        LINES[:10],
        [],
    ],
    ids=["first", "last", "shifted", "shorter", "a chunk shorter", "none"],
)
def test_answers_to_other_lines_are_not_continued(path, lines):
    part = part_of(path)
    content = part.read_bytes()
    with pytest.raises(UserError, match="other lines"):
        answer(path, lines, resume=True)
    assert part.read_bytes() == content and not path.exists()


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        (SETTINGS | {"decode.beam": 5}, "decode.beam"),
        ({"RUN": ["a"]}, "decode.beam"),
        (SETTINGS | {"prefix": "x"}, "prefix"),
        ({"decode.beam": 1, "RUN": ["b"]}, "decode.beam, RUN"),
    ],
)
def test_answers_by_other_settings_are_not_continued(path, settings, names):
    part = part_of(path)
    with pytest.raises(UserError, match=f"another value of {names};"):
        answer(path, resume=True, settings=settings)
    assert part.exists() and answer(path, resume=True) == [21]


@pytest.mark.parametrize(
    ("computed", "precision"),
    [("float32 on cpu", "fp32"), ("bfloat16 on cuda", "bf16"), ("int8 on cpu", None), ("", None)],
)
def test_a_continued_work_computes_as_it_was_begun(path, computed, precision):
    settings = SETTINGS | {NUMBER_FORMAT: computed}
    with pytest.raises(KeyboardInterrupt):
        answer(path, stop_after=1, settings=settings)
    with pytest.raises(KeyboardInterrupt), open_output(str(path), resume=True) as out:
        assert (out.precision, out.lines) == (precision, 10)
        raise KeyboardInterrupt


def test_what_is_no_file_is_written_to(tmp_path, path, capsys):
    link = tmp_path / "link"
    link.symlink_to(path)
    assert is_file(str(path)) and is_file(str(link))
    for other in (None, str(tmp_path), "/dev/null", "/dev/stdout"):
        assert not is_file(other)
    assert answer(Path("/dev/null")) == [1, 11, 21]
    with open_output(None) as out:
        write_answers([LineChunk(1, ["ja"])], lambda chunk: iter(chunk.texts), out)
    assert capsys.readouterr().out == "ja\n"
    with pytest.raises(UserError, match="cannot be written"):
        answer(tmp_path / "missing" / "answers")


def test_the_input_is_not_overwritten(tmp_path, path, monkeypatch):
    path.touch()
    (tmp_path / "link").symlink_to(path)
    monkeypatch.chdir(tmp_path)
    for name in (str(path), "answers", "link", "./answers"):
        with pytest.raises(UserError, match="would overwrite"):
            check_not_input(name, str(path))
    for name, source in (("other", str(path)), (None, str(path)), ("answers", None)):
        check_not_input(name, source)
    check_not_input("/dev/null", "/dev/null")


def test_scores_are_a_table_for_people_and_lines_for_programs(monkeypatch, capsys):
    """What one set alone has is a column for all; how it is computed is the last one."""
    stored = {"sentences": 2000}
    for name in STANDARD:
        stored |= {name: 12.5, f"{name}_signature": f"as {name}"}
    extra = stored | {"loops": 3}
    results = [Result("one", stored, []), Result("two", extra, [])]
    output.print_results(results)
    plain = capsys.readouterr().out
    assert plain == "".join(f"{result.line()}\n" for result in results)
    output.print_results(results, "tiny")
    assert capsys.readouterr().out == plain.replace("one", "tiny\tone").replace("two", "tiny\ttwo")
    monkeypatch.setattr(output, "is_terminal", lambda: True)
    monkeypatch.setattr("nmt.commands.is_terminal", lambda: True)
    output.print_results(results, "tiny")
    header, *rows = capsys.readouterr().out.splitlines()
    columns = {match[0]: match.start() for match in re.finditer(r"\S+(?: \S+)*", header)}
    assert list(columns) == ["run", "set", "n", "BLEU", "chrF", "loops", LAST_COLUMN]
    assert [row[columns["set"] :].split()[0] for row in rows] == ["one", "two"]
    assert [row[columns["loops"] : columns[LAST_COLUMN]].strip() for row in rows] == ["", "3"]
    assert [row[columns[LAST_COLUMN] :] for row in rows] == [f"as {STANDARD[0]}"] * 2


@pytest.mark.parametrize("output", ["none/x{}", "folder{}"])
@pytest.mark.parametrize(
    ("command", "ending"),
    [
        ("translate nothing S --output", ""),
        ("translate nothing --document a.txt --output", ".txt"),
        ("score nothing --output", ""),
        ("align nothing S --png", ".png"),
        ("align nothing S --html", ".html"),
        ("align nothing --source a.txt --png", ".png"),
        ("pair a.txt b.txt --source de --target en --run nothing --output", ".tsv"),
        ("export nothing --format html --output", ".html"),
        (
            "audit data=files data.train=a data.source=de data.target=en --forward nothing --clean",
            "",
        ),
    ],
)
def test_an_output_that_cannot_be_written_is_found_before_the_model_is_loaded(
    command, ending, output, refused, tmp_path, monkeypatch
):
    """There is no run `nothing`, which would be said first."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.txt", "b.txt", "a.de", "a.en"):
        Path(name).write_text("Ein Satz.\n", encoding="utf-8")
    path = output.format(ending)
    folder = f"{path}.de" if "--clean" in command else path
    if output.startswith("folder"):
        Path(folder).mkdir()
    message = refused(*command.split(), path)
    assert path in message and "nothing" not in message


@pytest.mark.parametrize("name", ["full", "none/x"])
def test_an_export_that_has_no_place_is_found_before_the_model_is_loaded(
    name, refused, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    Path("full").mkdir()
    for file in ("full/file", "none"):
        Path(file).write_text("")
    message = refused("export", "nothing", "--format", "onnx", "--output", name)
    assert name in message and "nothing" not in message


@pytest.mark.parametrize(
    ("train", "prefix", "said"),
    [
        # the text that is read would be replaced
        ("a", "a", "overwrite"),
        ("a", "./a", "overwrite"),
        ("a", "../text/a", "overwrite"),
        # it is given twice
        ("[a,a]", "clean", "times"),
        ("[a,b,./a]", "clean", "times"),
        ("[b,b,b]", "clean", "times"),
    ],
)
def test_clean_text_has_its_own_place(train, prefix, said, refused, tmp_path, monkeypatch):
    (tmp_path / "text").mkdir()
    monkeypatch.chdir(tmp_path / "text")
    for name in ("a.de", "a.en", "b.de", "b.en"):
        Path(name).write_text("Ein Satz.\n", encoding="utf-8")
    words = ["data=files", f"data.train={train}", "data.source=de", "data.target=en"]
    assert said in refused("audit", *words, "--clean", prefix)

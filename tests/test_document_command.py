"""nmt translate --document: a trained model, bad input in one sentence, and nothing half-made."""

import csv
import io
import os
import re
import shutil
import signal
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from corpora import Trained, pairs, run_command
from documents import SAMPLES

from nmt import cli
from nmt.commands import translate_document
from nmt.decode.translator import Translator
from nmt.documents.segment import Document


@pytest.fixture
def translate(trained: Trained, capfd):
    return lambda *words: run_command(
        capfd, "translate", "tiny", "--runs", trained.runs, *map(str, words)
    )


@pytest.fixture
def refuse(trained: Trained, refused, tmp_path):
    """refuse(NAME, CONTENT, WORD …) → the sentence for such a document; nothing is written."""

    def run(name: str, content: bytes | str, *words: str) -> str:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        there = sorted(tmp_path.iterdir())
        output = ["--output", str(tmp_path / "out")]
        message = refused(
            "translate", "tiny", "--runs", trained.runs, "--document", str(path), *output, *words
        )
        assert sorted(tmp_path.iterdir()) == there
        return message.removeprefix("nmt: ").replace(str(path), name)

    return run


def test_a_document(translate, tmp_path):
    """Its tags stay and its text is the model's; the last line says how many sentences are
    translated."""
    path = tmp_path / "in.html"
    output = tmp_path / "out"
    path.write_text("<p>Ein <b>Junge</b> malt.</p><p>12</p><p>%s</p>", encoding="utf-8")
    answer = translate("--document", path, "--output", output)
    new = output.read_text(encoding="utf-8")
    assert answer.code == 0 and new.count("<b>") == new.count("</b>") == 1 and "Junge" not in new
    assert new.endswith("<p>12</p><p>%s</p>")
    last = (
        r"in\.html: 1 sentences translated, (1|none) to review; left as they are: 1 "
        r"without words\."
    )
    assert re.search(last, answer.err.splitlines()[-1])
    assert sorted(os.listdir(tmp_path)) == ["in.html", "out"]


def test_what_is_left_is_counted(translate, tmp_path):
    path = tmp_path / "in.po"
    path.write_text(SAMPLES[".po"][0], encoding="utf-8")
    answer = translate("--document", path)
    assert answer.out.count("fuzzy") == 3 and "1 already translated" in answer.err.splitlines()[-1]


def test_columns_of_a_table(translate, refuse, tmp_path):
    """They are named, or have the languages of the run, or the table is refused."""
    path = tmp_path / "in.csv"
    path.write_text("German,English\nEin Junge malt.,\n", encoding="utf-8")
    answer = translate("--document", path)
    assert answer.code == 0 and re.fullmatch(r"German,English\nEin Junge malt\.,.+\n", answer.out)
    path.write_text("a,b\nEin Junge malt.,ja\n", encoding="utf-8")
    answer = translate("--document", path, "--columns", "a:1")
    assert answer.code == 0 and re.fullmatch(r"a,b\n(?!Ein Junge malt).+,ja\n", answer.out)
    (tmp_path / "out.d").mkdir()
    both = translate("--documents", path, tmp_path / "out.d", "--columns", "1:1")
    assert (
        both.code == 0 and (tmp_path / "out.d" / "in.csv").read_text(encoding="utf-8") == answer.out
    )
    assert "say it with --columns, such as --columns 2:3" in refuse("b.csv", "a,b\nJa,\n")


def test_xliff_2_states_the_language_of_the_run(translate, tmp_path):
    path = tmp_path / "in.xlf"
    unit = "<unit id='u'><segment><source>Ein Junge malt.</source></segment></unit>"
    path.write_text(f"<xliff version='2.0' srcLang='de'><file id='f'>{unit}</file></xliff>")
    assert 'trgLang="en"' in translate("--document", path).out


def test_stdout_has_the_document_alone(translate, tmp_path):
    path = tmp_path / "in.txt"
    path.write_bytes("\ufeffEin Junge malt.\r\n\r\n* * *\r\n".encode())
    answer = translate("--document", path, "--layer", "0", "--head", "0")
    assert answer.out.startswith("\ufeff") and answer.out.endswith("\r\n\r\n* * *\r\n")
    assert len(answer.err.splitlines()) == 1
    (tmp_path / "empty.md").write_bytes(b"")
    assert translate("--document", tmp_path / "empty.md").out == ""


def test_the_languages_of_a_file_are_those_of_the_run(translate, refuse, tmp_path):
    """The run's are known when it is open, and a folder names the file at its end."""
    text = 'msgid ""\nmsgstr "Language: %s\\n"\n\nmsgid "Ein Junge malt."\nmsgstr ""\n'
    sentence = refuse("a.po", text % "fr")
    assert "its Language is fr" in sentence and "from de into en" in sentence
    (tmp_path / "b.po").write_text(text % "en_US")
    answer = translate("--documents", tmp_path / "a.po", tmp_path / "b.po", tmp_path / "out.d")
    assert answer.code == 2 and "its Language is fr" in answer.err
    assert (tmp_path / "out.d" / "b.po").exists() and not (tmp_path / "out.d" / "a.po").exists()


archive = io.BytesIO()
with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as package:
    package.writestr(
        "word/document.xml", "".join(f"<p>{number * number}</p>" for number in range(200))
    )
DAMAGED = archive.getvalue().replace(archive.getvalue()[100:300], bytes(200))
NO_BEGINNING = archive.getvalue()[3:]


@pytest.mark.parametrize(
    ("name", "content", "wanted"),
    [
        ("a.pages", "x", "'.pages' is of no known format; possible: .txt, .md"),
        ("a.docx", "x", "a.docx: this is no package"),
        ("a.docx", DAMAGED, "a.docx: this is no package"),
        ("a.docx", NO_BEGINNING, "a.docx: this is no package"),
    ],
)
def test_bad_documents_are_refused_in_one_sentence(refuse, name, content, wanted):
    assert wanted in refuse(name, content)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["Ein Satz."], "SENTENCE cannot go with --document"),
        (["--input", "x", "--nbest", "2"], "cannot go with --input, --nbest"),
        (["--format", "jsonl", "--resume"], "cannot go with --format, --resume"),
        (["--retranslate"], "--retranslate is for .po"),
        (["--columns", "1:2"], "--columns is for .csv, .tsv"),
        (["--columns", "12"], "--columns 12 is not FROM:TO"),
        (["--layer", "9"], "Layer 9 does not exist"),
    ],
)
def test_options_of_lines_are_refused(refuse, words, wanted):
    assert wanted in refuse("a.txt", "Ein Junge.", *words)


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("a.docx", "b.pdf"),
        ("k.md", "k.html"),
        ("a.po", "x.docx"),
        ("a.odt", "a.ods"),
        ("a.SRT", "a.vtt"),
        ("a.csv", "a.TSV"),
        ("a.md", "b.mdx"),
    ],
)
def test_a_translation_has_no_name_of_another_kind(refused, trained, tmp_path, name, output):
    (tmp_path / name).write_text("Ja.")
    answer = refused(
        *("translate", "tiny", "--runs", trained.runs, "--document", str(tmp_path / name)),
        *("--output", str(tmp_path / output)),
    )
    assert f"not in {Path(output).suffix.lower()}; possible: {Path(name).suffix.lower()}" in answer
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("output", ["b.md", "b.markdown", "b.MD", "b.md.bak", "b", ".b"])
def test_a_translation_may_have_a_name_of_its_kind_or_of_none(translate, tmp_path, output):
    (tmp_path / "a.md").write_text("Ein Junge malt.")
    answer = translate("--document", tmp_path / "a.md", "--output", tmp_path / output)
    assert answer.code == 0 and (tmp_path / output).exists()


def test_what_cannot_be_read_or_written(refused, trained, tmp_path):
    command = ["translate", "tiny", "--runs", trained.runs]
    assert ("cannot be read: No such file") in refused(
        *command, "--document", str(tmp_path / "none.txt")
    )
    assert "--retranslate" in refused(*command, "--retranslate", "Ja.")
    text = tmp_path / "b.txt"
    text.write_text("Ja.")
    output = ["--output", str(tmp_path / "no" / "out")]
    assert "cannot be written: No such file" in refused(*command, "--document", str(text), *output)
    folder = ["--output", str(tmp_path)]
    assert "is a folder" in refused(*command, "--document", str(text), *folder)
    (tmp_path / "link.txt").symlink_to(text)
    for option in ("--document", "--input"):
        answer = refused(*command, option, str(text), "--output", str(tmp_path / "link.txt"))
        assert "would overwrite a text that is read" in answer and text.read_text() == "Ja."


@pytest.mark.parametrize(
    "library", ["sentencex", "markdown_it", "translate.storage.pypo", "tomlkit", "lxml"]
)
def test_a_missing_library_is_named(refuse, monkeypatch, library):
    monkeypatch.setitem(__import__("sys").modules, library, None)
    name = {"translate.storage.pypo": "a.po", "tomlkit": "a.toml", "lxml": "a.xlf"}.get(
        library, "a.md"
    )
    assert "`pip install -e '.[documents]'` in the checkout" in refuse(name, "a: b\n")


@pytest.fixture
def run_and_kill(trained):
    """Run a command in a process that is killed when a document after the first `count` is to be
    written."""

    def run(count: int, *words) -> None:
        process = os.fork()
        if not process:
            write = Document.write
            written = list[int]()

            def write_or_die(document: Document) -> bytes:
                if len(written) == count:
                    os.kill(os.getpid(), signal.SIGKILL)
                written.append(1)
                return write(document)

            Document.write = write_or_die
            cli.main(["translate", "tiny", "--runs", trained.runs, *map(str, words)])
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -signal.SIGKILL

    return run


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.usefixtures("one_thread")
def test_a_killed_translation_leaves_the_old_file(run_and_kill, translate, tmp_path):
    path = tmp_path / "in.txt"
    output = tmp_path / "out"
    path.write_text("Ein Junge malt.\n\nEine Frau kauft Brot.\n")
    output.write_text("old")
    run_and_kill(0, "--document", path, "--output", output)
    assert output.read_text() == "old"
    assert translate("--document", path, "--output", output).code == 0
    assert sorted(os.listdir(tmp_path)) == ["in.txt", "out"] and output.read_text() != "old"


@pytest.fixture
def folder(tmp_path):
    """Documents in a folder and one below it, beside a hidden file."""
    texts = {
        "a.txt": "Ein Junge malt.\n",
        "sub/b.html": "<p>Eine <b>Frau</b> malt.</p>",
        "sub/.c.txt": "Nein.",
    }
    for name, text in texts.items():
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_text(text)
    return tmp_path / "in"


def files_in(folder) -> dict[str, str]:
    """The translations."""
    others = (".", "nmt-report")
    files = (path for path in folder.rglob("*") if path.is_file())
    files = (path for path in files if not path.name.startswith(others))
    return {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in files}


@pytest.mark.parametrize(
    "words", [["in"], ["in/*"], ["in/**"], ["in/a.txt", "in/sub"], ["in/sub/b.html", "in/a.txt"]]
)
def test_documents_of_a_folder(translate, folder, monkeypatch, words):
    """Each is what --document makes of it, under the same path; hidden files and translations are
    no documents."""
    monkeypatch.chdir(folder.parent)
    for place in (["out"], ["--output", "in/out"]):
        answer = translate("--documents", *words, *place)
        assert answer.code == 0 and answer.out == ""
        assert (
            "2 documents translated, 0 were there already, 0 failed: 2 sentences"
        ) in answer.err.splitlines()[-1]
        alone = {
            name: translate("--document", folder / name).out for name in ("a.txt", "sub/b.html")
        }
        assert files_in(folder.parent / place[-1]) == alone
        again = translate("--documents", *words, *place)
        assert "0 documents translated, 2 were there already, 0 failed" in again.err


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["in", "out"], ["a.txt", "sub/b.html"]),
        (["in", "in/out"], ["a.txt", "sub/b.html"]),
        (["in", "in/sub/out"], ["a.txt", "sub/b.html"]),
        (["in/sub/.c.txt", "in/a.txt", "out"], ["a.txt", "sub/.c.txt"]),  # it is named
        (["in/*", "out"], ["a.txt", "sub/b.html"]),
    ],
)
@pytest.mark.parametrize("place", [".", ".hidden"])
def test_what_is_a_document(folder, monkeypatch, words, wanted, place):
    """Hidden files are none, wherever the folder lies that is translated; nor are translations."""
    here = folder.parent / place
    here.mkdir(exist_ok=True)
    if place != ".":
        folder = folder.rename(here / "in")
    for out in ("out", "sub/out"):
        (folder / out).mkdir()
        (folder / out / "a.txt").write_text("A boy.")
        if f"in/{out}" != words[-1]:
            shutil.rmtree(folder / out)
    monkeypatch.chdir(here)
    options = SimpleNamespace(documents=words[:1], sentences=words[1:], output=None)
    out, documents = translate_document.find_documents(options)
    assert (str(out), sorted(documents.values())) == (words[-1], wanted)
    assert all(path == folder / name for path, name in documents.items())


def test_the_report_counts_words_by_what_helps(translate, tmp_path):
    """Counted by hand; a second run, which translates nothing, writes the same report."""
    (tmp_path / "in").mkdir()
    texts = ["Ein Junge malt.", "Ein Junge malt.", "Eine Frau kauft zwei Bücher.", "Zwei Hüte!"]
    (tmp_path / "in" / "a.txt").write_text("\n\n".join(texts), encoding="utf-8")
    (tmp_path / "in" / "b.txt").write_text("Mein Bruder malt die Blumen.", encoding="utf-8")
    memory = tmp_path / "memory.tsv"
    memory.write_text(
        "de\ten\nZwei Hüte!\tTwo hats!\nEine Frau kauft einen Apfel.\tA woman buys an apple.\n",
        encoding="utf-8",
    )
    glossary = tmp_path / "terms.csv"
    glossary.write_text("de,en\nBücher,flowers\n", encoding="utf-8")
    words = ["--documents", tmp_path / "in", tmp_path / "out"]
    words += ["--memory", memory, "--glossary", glossary]
    reports = []
    for _ in range(2):
        assert translate(*words).code == 0
        reports.append((tmp_path / "out" / "nmt-report.csv").read_text(encoding="utf-8"))
    assert reports[0] == reports[1]
    header, *rows = csv.reader(reports[0].splitlines())
    first, second, total = (dict(zip(header, row, strict=True)) for row in rows)
    wanted = {"words": "13", "repetitions": "3", "100 %": "2", "50–74 %": "5", "new": "3"}
    assert first == first | wanted | {"terms": "1", "sentences": "4"}
    assert second == second | {"words": "5", "new": "5"}
    assert total == total | {"words": "18", "document": "all"}
    page = (tmp_path / "out" / "nmt-report.html").read_text(encoding="utf-8")
    assert "a.txt" in page and ">18<" in page


@pytest.mark.skipif(sys.platform == "darwin", reason="names of files are UTF-8 there")
def test_a_name_that_is_not_utf_8_is_escaped_in_the_report(translate, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / os.fsdecode(b"b\xff.txt")).write_text("Ein Junge malt.")
    for _ in range(2):
        assert translate("--documents", tmp_path / "in", tmp_path / "out").code == 0
    for ending in (".csv", ".html"):
        assert "b\\udcff.txt" in (tmp_path / "out" / f"nmt-report{ending}").read_text()
    assert (tmp_path / "out" / os.fsdecode(b"b\xff.txt")).exists()


def test_a_document_that_fails_is_named_at_the_end(translate, folder):
    (folder / "bad.docx").write_text("x")
    (folder / "c.pages").write_text("x")
    answer = translate("--documents", folder, folder.parent / "out")
    assert (
        answer.code == 2
        and ("2 documents translated, 0 were there already, 2 failed")
        in answer.err.splitlines()[-3]
    )
    assert ("bad.docx: this is no package") in answer.err.splitlines()[
        -2
    ] and "c.pages" in answer.err.splitlines()[-1]
    assert set(files_in(folder.parent / "out")) == {"a.txt", "sub/b.html"}


def test_what_is_translated_already_stays(translate, folder):
    """The same settings and the same document: it stays; what another program wrote or changed is
    not replaced."""
    out = folder.parent / "out"
    translate("--documents", folder, out)
    (out / "a.txt").write_text("better")
    answer = translate("--documents", folder, out)
    assert (
        answer.code == 2
        and ("0 documents translated, 1 were there already, 1 failed") in answer.err
    )
    assert (out / "a.txt").read_text() == "better" and (
        "a.txt is there and no translation"
    ) in answer.err
    (out / "a.txt").unlink()
    (folder / "sub" / "b.html").write_text("<p>Ein <b>Junge</b> malt.</p>")
    assert "2 documents translated" in translate("--documents", folder, out).err
    assert "2 were there already" in translate("--documents", folder, out).err
    assert "2 documents translated" in translate("--documents", folder, out, "--beam", "1").err
    memory = folder.parent / "memory.tsv"
    for target in ("A boy.", "The boy."):  # another memory in the same file
        memory.write_text(f"de\ten\nEin Junge malt.\t{target}\n", encoding="utf-8")
        answer = translate("--documents", folder, out, "--memory", memory)
        assert "2 documents translated" in answer.err
        assert (out / "a.txt").read_text() == f"{target}\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.usefixtures("one_thread")
def test_a_killed_folder_is_continued(run_and_kill, translate, folder):
    out = folder.parent / "out"
    record = folder.parent / "out" / ".nmt-documents.jsonl"
    run_and_kill(1, "--documents", folder, out)
    assert set(files_in(out)) == {"a.txt"}
    # as where a kill comes while it is written
    record.write_bytes(record.read_bytes() + b'["sub/b.ht')
    assert ("1 documents translated, 1 were there already") in translate(
        "--documents", folder, out
    ).err
    assert ("0 documents translated, 2 were there already") in translate(
        "--documents", folder, out
    ).err


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["in"], "in cannot be"),
        (["in/a.txt", "in/sub/b.html"], "sub/b.html cannot be"),
        (["in", "in"], "in has the documents"),
        (["none*", "out"], "there is no file or folder none*"),
        (["empty", "out"], "there is no document in"),
        (["in", "out", "--nbest", "2"], "cannot go with --nbest"),
    ],
)
def test_folders_that_are_refused(refused, trained, folder, monkeypatch, words, wanted):
    monkeypatch.chdir(folder.parent)
    (folder.parent / "empty").mkdir()
    assert wanted in refused("translate", "tiny", "--runs", trained.runs, "--documents", *words)
    assert not (folder.parent / "out").exists()


def test_unsure_words_are_counted_by_the_search_alone(translate, tmp_path, monkeypatch):
    """They cost no forced decoding, which tags need, and are those that it would find."""
    path = tmp_path / "a.txt"
    path.write_text("".join(f"{german}\n\n" for german, _ in pairs(12, seed=3)))
    wanted = translate("--document", path)
    with monkeypatch.context() as without_search:
        without_search.setattr(Translator, "search_records", lambda self, translation: [])
        assert translate("--document", path).err == wanted.err and "to review" in wanted.err
    monkeypatch.setattr(
        Translator, "with_records", lambda self, found: pytest.fail() if list(found) else iter(())
    )
    assert translate("--document", path).out == wanted.out


def test_unsure_words_are_marked(translate, tmp_path, monkeypatch):
    """--mark-doubtful writes (?) behind them, inside their tags, and changes nothing else.

    A PO file names them.
    """
    path = tmp_path / "a.html"
    po = tmp_path / "a.po"
    path.write_text("<p>Ein <b>Junge</b> malt, %s.</p><p>5</p>")
    po.write_text('msgid "Ein Junge malt."\nmsgstr ""\n')
    plain = translate("--document", path).out
    for threshold in (0.0, 2.0):
        for module in ("documents.translation", "decode.confidence"):
            monkeypatch.setattr(f"nmt.{module}.UNSURE", threshold)
        answer = translate("--document", path, "--mark-doubtful")
        words = re.findall(r"\w+", re.sub(r"<[^>]*>|%s|5", "", plain))
        assert answer.out.replace("(?)", "") == plain and answer.out.count("(?)") == len(
            words
        ) * bool(threshold)
        assert ("(?)</b>" in answer.out) == ("1 to review" in answer.err) == bool(threshold)
        assert "%s(?)" not in answer.out
        assert ("# Unsure: " in translate("--document", po, "--mark-doubtful").out) == bool(
            threshold
        )

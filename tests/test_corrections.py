"""The file of corrections: what was promised is there, whoever is killed; and nmt corrections."""

import os
import random
import signal
import sqlite3
import struct
import time
from contextlib import closing

import pytest
from corpora import pairs, run_command

from nmt.config.schema import DataConfig
from nmt.corpus.packed import PackedFile
from nmt.corpus.tables import Skipped, read_table
from nmt.corpus.translation_memory import read_units
from nmt.documents.memory import TranslationMemory
from nmt.errors import UserError
from nmt.serve import corrections as module
from nmt.serve.corrections import (
    ACCEPTED,
    CONFIRMED,
    REFUSED,
    WAITING,
    Correction,
    Corrections,
    TooMany,
    find_contrary,
    find_faults,
    judge_likenesses,
)
from nmt.serve.memory import Memory

DE_EN = ("de", "en")
DATA = DataConfig(
    "files", "de", "en", ["x"], ["x"], ["x"], max_characters=1000, max_length_ratio=5.0
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "corrections.db"


@pytest.fixture
def store(path):
    with closing(Corrections(path, create=True)) as opened:
        yield opened


def texts(store: Corrections) -> list[str]:
    return [row.correction for row in store.all()]


def test_a_correction_is_kept_with_what_is_known_of_it_and_no_more(store, path):
    lines = [("Ein Hund", "A cat", "A dog"), ("Eins", "One", "1")]
    assert store.add(lines, DE_EN, "2", "anna", ACCEPTED) == [1, 2]
    row = store.all()[0]
    assert row[1:7] == ("Ein Hund", "A cat", "A dog", "de", "en", "2")
    assert row.time.endswith("+00:00") and row[8:] == ("anna", ACCEPTED)
    columns = store.connection.execute("SELECT name FROM pragma_table_info('corrections')")
    assert [name for (name,) in columns] == list(Correction._fields)
    assert store.connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert store.connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_newest_accepted_correction_of_a_source_counts(store):
    """By the order in which they came, not in which they were accepted; others do not count."""
    rows = [("a", "x", text) for text in ("1", "2", "3", "4")]
    store.add([*rows, ("b", "x", "5"), ("c", "x", "6")], DE_EN)
    store.add([("a", "x", "7")], ("en", "de"), accepted=ACCEPTED)
    for ids, accepted in (([6], REFUSED), ([3, 5], CONFIRMED), ([1], ACCEPTED), ([4], REFUSED)):
        store.decide(ids, accepted)
    assert Memory(DE_EN, store).corrected.targets == {"a": "3", "b": "5"}
    assert Memory(("en", "de"), store).corrected.targets == {"a": "7"}
    assert find_contrary(store.all()) == {2: 1, 3: 2}  # the refused ones are contrary to nothing


def start_writer(path, pipe: int, create: bool = False) -> int:
    """A process that adds corrections; it tells its number, and that of each that it promises."""
    if process := os.fork():
        return process
    try:
        opened = Corrections(path, create)
        while True:
            (id,) = opened.add([("Quelle", "machine", f"{os.getpid()}")], DE_EN)
            os.write(pipe, struct.pack("II", os.getpid(), id))
            time.sleep(0.002)  # others write as well
    finally:
        os._exit(1)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # a fork of a process with threads
def test_no_promise_is_broken_by_thirty_kills(path):
    """Of one of two services that write the same file."""
    Corrections(path, create=True).close()
    chance = random.Random(3)
    promised: set[int] = set()
    reads, writes = os.pipe()
    other = start_writer(path, writes)
    for _ in range(30):
        writer = start_writer(path, writes)
        process = 0
        while process != writer:
            process, id = struct.unpack("II", os.read(reads, 8))
            promised.add(id)
        time.sleep(chance.random() / 100)
        os.kill(writer, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(writer, 0)[1]) == -signal.SIGKILL
        with closing(Corrections(path)) as opened:
            assert promised <= {row.id for row in opened.all()}
            assert opened.connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    os.kill(other, signal.SIGKILL)
    os.waitpid(other, 0)
    os.close(writes)
    while message := os.read(reads, 8):
        promised.add(struct.unpack("II", message)[1])
    os.close(reads)
    with closing(Corrections(path)) as opened:
        assert promised <= {row.id for row in opened.all()} and len(promised) > 30


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # a fork of a process with threads
def test_several_services_may_make_the_file_at_once(path):
    reads, writes = os.pipe()
    writers = [start_writer(path, writes, create=True) for _ in range(6)]
    promised: set[int] = set()
    processes: set[int] = set()
    for _ in range(2000):
        process, id = struct.unpack("II", os.read(reads, 8))
        assert id not in promised
        promised.add(id)
        processes.add(process)
        if processes == {*writers}:
            break
    for writer in writers:
        os.kill(writer, signal.SIGKILL)
        os.waitpid(writer, 0)
    assert processes == {*writers}


def test_what_another_service_is_told_counts_here(store, path, monkeypatch):
    memory = Memory(DE_EN, store)
    with closing(Corrections(path)) as other:
        other.add([("Ein  Hund", "A cat", "A dog")], DE_EN, accepted=ACCEPTED)
        assert memory.is_stale and memory.find("Ein Hund") is None
        memory.refresh()
        assert not memory.is_stale and memory.find(" Ein Hund ") == "A dog"
        store.add([("Ein Hund", "A dog", "A hound")], DE_EN, accepted=ACCEPTED)
        assert memory.is_stale
        memory.refresh()
        assert memory.find("Ein Hund") == "A hound"
        other.delete([1, 2])

        # What cannot be read is read again; until then the old corrections count
        with monkeypatch.context() as broken:
            broken.setattr(Corrections, "accepted_pairs", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                memory.refresh()
        assert memory.is_stale and memory.find("Ein Hund") == "A hound"
        memory.refresh()
        assert memory.find("Ein Hund") is None


def test_what_is_similar_is_found_among_corrections_that_come_and_go(store):
    """As if all had been there from the beginning; a correction counts more than a unit."""
    sources = [f"Der Hund Nummer {number} schläft im Haus" for number in range(20)]
    units = TranslationMemory([(sources[0], "of the file"), ("Die Katze liegt dort", "cat")])
    memory = Memory(DE_EN, store, units)
    assert memory.nearest("Der Hund Nummer 0 schläft nun im Haus").target == "of the file"
    for number, source in enumerate(sources):
        store.add([(source, "x", f"{number}")], DE_EN, accepted=ACCEPTED)
        memory.refresh()
        match = memory.nearest(f"{source} ja")
        assert (match.source, match.target) == (source, f"{number}")
    assert memory.nearest("Die Katze liegt auch dort").target == "cat"
    store.delete([3])
    memory.refresh()
    assert memory.nearest(f"{sources[2]} ja").source != sources[2]


def test_what_is_deleted_is_in_no_file(store, tmp_path):
    secret = "Frau Müller wohnt in Aachen"
    store.add([(secret, secret, secret)] * 50, DE_EN)
    files = list(tmp_path.iterdir())
    assert any(secret.encode() in file.read_bytes() for file in files)
    store.delete(range(1, 51))
    assert not any(b"Aachen" in file.read_bytes() for file in files if file.exists())


def test_so_many_corrections_of_a_key_wait(store, monkeypatch):
    """All lines of a request are kept, or none; those of other keys have their own place."""
    monkeypatch.setattr(module, "MOST_WAITING", 3)
    line = ("a", "b", "c")
    store.add([line] * 2, DE_EN, key_name="anna")
    with pytest.raises(TooMany):
        store.add([line] * 2, DE_EN, key_name="anna")
    store.add([line], DE_EN, key_name="anna")
    store.add([line] * 3, DE_EN)
    store.add([line] * 4, DE_EN, key_name="anna", accepted=ACCEPTED)
    assert len(store.all()) == 10
    for id, accepted in ((1, ACCEPTED), (2, REFUSED)):  # what is decided waits no longer
        store.decide([id], accepted)
        store.add([line], DE_EN, key_name="anna")


def test_a_file_that_was_replaced_takes_no_correction(store, path):
    path.rename(path.with_suffix(".old"))
    with pytest.raises(OSError):
        store.add([("a", "b", "c")], DE_EN)
    Corrections(path, create=True).close()
    with pytest.raises(sqlite3.Error, match="another file"):
        store.add([("a", "b", "c")], DE_EN)


def test_a_file_of_another_program_is_refused_and_stays(tmp_path):
    database = tmp_path / "other.db"
    with closing(sqlite3.connect(database)) as other, other:
        other.execute("CREATE TABLE a (b TEXT)")
    text = tmp_path / "text.txt"
    text.write_text("no database at all, however long it may be")
    for file in (database, text):
        before = file.read_bytes()
        with pytest.raises(UserError, match="corrections"):
            Corrections(file, create=True)
        assert file.read_bytes() == before
    with pytest.raises(UserError, match="There is no file"):
        Corrections(tmp_path / "missing.db")


SENTENCES = pairs(200, seed=4)


def rows_of(corrections: list[str]) -> list[Correction]:
    """Rows of SENTENCES with these corrections; the machine's text has most words of the target."""
    chance = random.Random(5)
    rows = []
    for (source, target), correction in zip(SENTENCES, corrections, strict=False):
        words = [word if chance.random() < 0.7 else "thing" for word in target.split()]
        about = (*DE_EN, "1", "", "anna", WAITING)
        rows.append(Correction(1 + len(rows), source, " ".join(words), correction, *about))
    return rows


def test_poisoned_and_copied_corrections_are_named():
    """Those of other sources, copies of the source, and one text for many sources."""
    right = [target for _, target in SENTENCES]
    assert len(find_faults(rows_of(right), DATA)) <= 0.05 * len(right)
    shuffled = right[7:] + right[:7]
    assert len(find_faults(rows_of(shuffled), DATA)) >= 0.8 * len(right)

    mixed = list(right)
    mixed[10] = SENTENCES[10][0]
    mixed[20:24] = ["buy this cheap thing now"] * 4
    named = find_faults(rows_of(mixed), DATA)
    assert {11, 21, 22, 23, 24} <= named.keys()
    assert "are not translated" in named[11] and "the same for 4 sources" in named[21]
    few = find_faults(rows_of(["zzz qqq vvv xxx", *right[1:5]]), DATA)
    assert few.keys() == {1}


@pytest.mark.parametrize(("shift", "least", "most"), [(0, 0, 0.05), (7, 0.9, 1)])
def test_another_text_is_no_more_like_the_machines_than_strangers_are(shift, least, most):
    """The limit is learned from the corrections: nearly all of those of other sources are below."""
    right = [target for _, target in SENTENCES]
    rows = rows_of(right[shift:] + right[:shift])
    likenesses, limit = judge_likenesses([(row.target, row.correction) for row in rows])
    named = sum(value <= limit for value in likenesses)
    assert least <= named / len(rows) <= most


@pytest.fixture
def command(store, path, capfd):
    """command(ACTION, WORD …) → what came of `nmt corrections` on a file with five rows."""
    rows = [("Ein Hund", "A cat", "A dog"), ("Ein Hund", "A cat", "A hound")]
    store.add([*rows, ("a & <b>", "a & <c>", "a & <d>")], DE_EN, key_name="anna")
    store.add([("Wir gehen heute", "We go today", "Wir gehen heute")], DE_EN, key_name="bob")
    store.add([("A dog", "Ein Hund", "Ein Hund")], ("en", "de"))
    return lambda action, *words: run_command(capfd, "corrections", action, str(path), *words)


def states(answer) -> dict[str, str]:
    return dict(line.split("\t")[:2] for line in answer.out.splitlines())


def test_corrections_are_listed_accepted_and_refused(command):
    """Without numbers those that the audit has nothing against; a contrary one is said."""
    listed = command("list")
    lines = [line.split("\t") for line in listed.out.splitlines()]
    assert [line[0] for line in lines] == ["1", "2", "3", "4", "5"]
    assert lines[0][3:9] == ["anna", "1", "de-en", "Ein Hund", "A cat", "A dog"]
    assert lines[1][9] == "1" and "not translated" in lines[3][10]
    answer = command("accept")
    assert answer.code == 0 and answer.out == ""
    assert "4 is left" in answer.err and "2 counts instead of 1" in answer.err
    assert "4 accepted" in answer.err
    command("refuse", "2")
    assert "4 is left" in command("accept").err  # and 2 stays refused
    assert "4 is accepted: source and correction are not translated" in command("accept", "4").err
    assert "0 accepted" in command("accept", "4").err  # it was before
    assert "1 accepted" in command("accept", "3", "4").err  # 3 was accepted without its number
    command("refuse", "5")
    assert "1 accepted" in command("accept", "5").err
    assert states(command("list")) == {
        "1": "accepted",
        "2": "refused",
        "3": "confirmed",
        "4": "confirmed",
        "5": "confirmed",
    }
    assert [*states(command("list", "--key", ""))] == ["5"]
    assert command("delete", "--key", "anna").code == 0
    assert [*states(command("list"))] == ["4", "5"]


def test_what_is_exported_is_read_again(command, store, tmp_path):
    command("accept", "1", "2", "3")
    odd = store.add([("Ein Tier", "x", "A\uffff pet")], DE_EN, accepted=ACCEPTED)
    assert command("export", "--output", str(tmp_path / "odd.tmx")).code == 0
    units = read_units(PackedFile(tmp_path / "odd.tmx"), DATA, Skipped())
    assert ("Ein Tier", "A\ufffd pet") in list(units)
    store.delete(odd)
    tmx = tmp_path / "memory.tmx"
    tsv = tmp_path / "memory.tsv"
    wanted = [("Ein Hund", "A hound"), ("a & <b>", "a & <d>")]
    for path, reader in ((tmx, read_units), (tsv, read_table)):
        assert command("export", "--output", str(path)).code == 0
        assert sorted(reader(PackedFile(path), DATA, Skipped())) == wanted
    assert "4 is left out: it is waiting" in command("export", "1", "4", "--output", str(tsv)).err
    assert [*read_table(PackedFile(tsv), DATA, Skipped())] != wanted
    assert len([*read_table(PackedFile(tsv), DATA, Skipped())]) == 1
    command("accept", "5")
    assert command("export", "--output", str(tmx)).code == 0
    # a memory has no direction, and of several translations the last one counts
    assert [*read_units(PackedFile(tmx), DATA, Skipped())] == [*wanted, ("Ein Hund", "A dog")]
    store.add([("Ein Hund", "A cat", "A pup")], DE_EN, accepted=ACCEPTED)
    assert command("export", "--output", str(tmx)).code == 0
    units = [*read_units(PackedFile(tmx), DATA, Skipped())]
    assert units == [wanted[1], ("Ein Hund", "A dog"), ("Ein Hund", "A pup")]
    assert "several languages" in command("export", "--output", str(tsv)).err


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("accept FILE 9", "9"),
        ("refuse FILE", "NUMBER"),
        ("delete FILE", "NUMBER"),
        ("delete FILE --key carl", "carl"),
        ("delete FILE 1 --key anna", "--key"),
        ("delete FILE x", "x"),
        ("forget FILE 1", "forget"),
        ("export FILE", "--output"),
        ("list FILE --output x.tmx", "export"),
        ("export FILE --output x.txt", ".tmx"),
        ("list missing.db", "missing.db"),
    ],
)
def test_a_wrong_command_is_one_sentence(store, path, refused, words, wanted):
    store.add([("a", "b", "c")], DE_EN, key_name="anna", accepted=ACCEPTED)
    given = [str(path) if word == "FILE" else word for word in words.split()]
    assert wanted in refused("corrections", *given)
    assert texts(store) == ["c"]


def test_nothing_accepted_is_nothing_to_export(store, path, refused):
    store.add([("a", "b", "c")], DE_EN)
    assert "no accepted" in refused("corrections", "export", str(path), "--output", "x.tmx")

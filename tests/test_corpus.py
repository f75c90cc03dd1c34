"""The corpus: pairs never shift, pairs that cannot be right are dropped, and every mistake is one
clear error."""

import errno
import gzip
import hashlib
import json
import logging
import os
import random
import weakref
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path

import pytest
from corpora import files_config, read_set, refused_with
from servers import Handler, serving

from nmt.config.schema import DataConfig
from nmt.corpus import (
    checksums,
    corpus,
    download,
    hub,
    multi30k,
    origin,
    parallel_text,
    sources,
    write_sets,
)
from nmt.corpus.corpus_folder import read_report
from nmt.corpus.packed import PackedFile
from nmt.corpus.parallel_text import read_lines
from nmt.corpus.training_plan import OldText
from nmt.corpus.write_sets import PairCounts
from nmt.errors import UserError

DE = ["Der Hund schläft.", "Die Katze trinkt Milch.", "Wir gehen heim.", "Es regnet schon wieder."]
EN = ["The dog is asleep.", "The cat drinks milk.", "We are going home.", "It is raining again."]


def write(path: Path, sentences: list[str]) -> Path:
    path.write_bytes("".join(f"{sentence}\n" for sentence in sentences).encode())
    return path


def make(folder: Path, train: tuple[list[str], list[str]] = (DE, EN)) -> DataConfig:
    held_out = {
        "valid": (["Guten Tag."], ["Good day."]),
        "test": (["Gute Nacht."], ["Good night."]),
    }
    folder.mkdir(exist_ok=True)
    for name, (source, target) in ({"train": train} | held_out).items():
        write(folder / f"{name}.de", source)
        write(folder / f"{name}.en", target)
    return files_config(*(str(folder / name) for name in ("train", "valid", "test")))


def build(data: DataConfig, folder: Path) -> dict:
    output = folder / "output"
    output.mkdir()
    corpus.build_corpus(data, output, folder / "downloads")
    return read_report(output)


def built(folder: Path, name: str = "train") -> list[tuple[str, str]]:
    return read_set(folder / "output", name)


def test_corpus_hash_follows_content(tmp_path):
    hashes = []
    for number, last in enumerate(
        ("It is raining again.", "It is raining again.", "It is raining.")
    ):
        folder = tmp_path / str(number)
        hashes.append(build(make(folder, (DE, EN[:3] + [last])), folder)["corpus_hash"])
    assert hashes[0] == hashes[1] != hashes[2]


def test_one_sided_blank_lines_do_not_shift_pairs(tmp_path):
    source = ["eins", " ", "drei", "vier", "", "sechs"]
    target = ["one", "two", "three", "\u00a0", "\t", "six"]
    report = build(make(tmp_path, (source, target)), tmp_path)
    assert built(tmp_path) == [("eins", "one"), ("drei", "three"), ("sechs", "six")]
    train = report["audit"]["train"]
    assert train["dropped"] == {"one side blank": 2, "both sides blank": 1}
    [origin] = train["origins"]
    assert (origin["dropped"], origin["lines"]) == (train["dropped"], 3)
    assert (train["read"], train["kept"]) == (6, 3)
    assert train["examples"]["one side blank"].endswith("train.de:2")
    assert train["examples"]["both sides blank"].endswith("train.de:5")


def test_only_a_line_feed_ends_a_line(tmp_path):
    """Other line breaks stay inside a sentence; a byte order mark goes at the start alone."""
    source = [
        "Der\u2028Hund\u2029schläft\x85und\x0bträumt\x0cund\x1cschläft.",
        "\ufeffDie\rKatze.",
        *DE[2:],
    ]
    data = make(tmp_path, (source, EN))
    # no line feed at the end
    (tmp_path / "train.de").write_bytes(b"\xef\xbb\xbf" + "\r\n".join(source).encode())
    build(data, tmp_path)
    assert built(tmp_path) == list(zip([source[0], "\ufeffDie Katze.", *DE[2:]], EN, strict=True))


def test_long_and_unlike_pairs_are_dropped(tmp_path):
    # (55 + 10) / (3 + 10) is 5.0 and passes, 56 does not
    source = ["a" * 1000, "a" * 1001, "Ja.", "Ja."]
    target = ["b" * 1000, "b" * 1001, "b" * 55, "b" * 56]
    report = build(make(tmp_path, (source, target)), tmp_path)
    assert report["audit"]["train"]["dropped"] == {"too long": 1, "lengths too unlike": 1}
    assert built(tmp_path) == [(source[0], target[0]), (source[2], target[2])]


def test_no_pair_of_a_held_out_set_is_dropped(tmp_path):
    data = make(tmp_path)
    write(tmp_path / "test.de", ["a" * 2000, "", "Hallo."])
    write(tmp_path / "test.en", ["b", "Hello.", "Hello there."])
    report = build(data, tmp_path)
    assert [len(source) for source, _ in built(tmp_path, "test")] == [2000, 0, 6]
    assert report["audit"]["test"]["counted"] == {"a side blank": 1}
    assert report["audit"]["test"]["examples"]["a side blank"].endswith("test.de:2")


def test_copies_and_leaks_are_counted_not_dropped(tmp_path):
    source = ["Tee", "GUTEN TAG", "Hund", "Tee", "Radio", "Abend", "..."]
    target = ["tea", "hello", "dog", "tea", "Radio", "good night", "!"]
    data = make(tmp_path, (source, target))
    write(tmp_path / "valid.de", ["Guten Tag.", "?"])
    write(tmp_path / "valid.en", ["Good day.", "?"])
    report = build(data, tmp_path)["audit"]["train"]
    assert report["counted"] == {"both sides equal": 1, "also in valid or test": 2}
    assert report["examples"]["also in valid or test"].endswith("train.de:2")
    assert report["kept"] == 7


def test_lists_are_joined_and_examples_name_the_line_of_the_file(tmp_path):
    data = make(tmp_path, (DE + DE[:1], EN + EN[:1]))
    write(tmp_path / "more.de", ["Salz", ""])
    write(tmp_path / "more.en", ["salt", "pepper"])
    data.train = [data.train, str(tmp_path / "more")]
    report = build(data, tmp_path)
    assert built(tmp_path) == [*zip(DE, EN, strict=True), (DE[0], EN[0]), ("Salz", "salt")]
    assert report["audit"]["train"]["examples"]["one side blank"].endswith("more.de:2")


def test_several_tests_and_none(tmp_path):
    data = make(tmp_path)
    for ending in ("de", "en"):
        write(tmp_path / f"news.{ending}", ["x"])
    data.test = [str(tmp_path / "news"), data.test]
    assert build(data, tmp_path)["sets"] == ["news", "test"]
    data.test = None
    assert list(corpus.corpus_inputs(data, tmp_path / "cache.json")) == ["train", "valid"]


MISTAKES = {
    "counts": ({"train.en": b"one\ntwo\n"}, "train.en has 2 lines"),
    "all empty": ({"train.de": b"", "train.en": b""}, "train.en are empty"),
    "missing": ({"valid.en": None}, "valid.en (nor valid.en with .gz"),
    "nothing left": ({"train.de": b"\n" * 4}, "No training pair is left of 4"),
    "cut": ({"train.en": gzip.compress(b"one\n" * 99)[:-9]}, "train.en is cut short"),
    "valid blank": ({"valid.de": b" \n"}, "'valid' has no pair"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_in_files_are_one_sentence(tmp_path, mistake):
    data, (files, part) = make(tmp_path), MISTAKES[mistake]
    for name, content in files.items():
        (tmp_path / name).unlink() if content is None else (tmp_path / name).write_bytes(content)
    with refused_with(part):
        build(data, tmp_path)


def test_mistakes_in_names_are_found_before_anything_is_read(tmp_path):
    data = make(tmp_path)
    (tmp_path / "same.de").symlink_to(tmp_path / "train.de")
    (tmp_path / "same.en").symlink_to(tmp_path / "train.de")
    for changes, part in (
        ({"train": str(tmp_path / "same")}, "are the same file"),
        ({"test": [data.test, data.test]}, "two sets 'test'"),
        ({"test": data.valid}, "cannot be named 'valid'"),
        ({"test": "???"}, "data.test=null"),
        ({"train": None}, "data.train=NAME"),
    ):
        with pytest.raises(UserError, match=part):
            corpus.corpus_inputs(replace(data, **changes), tmp_path / "cache.json")
    assert not (tmp_path / "cache.json").exists()


def test_full_disk_and_read_only_folder(tmp_path, monkeypatch):
    def full(self: parallel_text.LineWriter, sentence: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    data = make(tmp_path)
    with pytest.raises(UserError, match="Cannot write .*nowhere.*: No such file"):
        corpus.build_corpus(data, tmp_path / "nowhere", tmp_path)
    monkeypatch.setattr(parallel_text.LineWriter, "write", full)
    with pytest.raises(UserError, match="Cannot write .*output: No space left"):
        build(data, tmp_path)


def test_inputs_are_the_content_and_hashed_once(tmp_path, monkeypatch):
    data = make(tmp_path)
    cache = tmp_path / "new" / "digests.json"
    first = corpus.corpus_inputs(data, cache)
    assert first["train"] == [
        [checksums.file_digest(tmp_path / f"train.{language}") for language in ("de", "en")]
    ]
    write(tmp_path / "train.en", EN[::-1])
    os.utime(tmp_path / "train.en", ns=(1, 1))
    changed = corpus.corpus_inputs(data, cache)
    assert changed["train"] != first["train"] and changed["valid"] == first["valid"]
    with monkeypatch.context() as patch:
        patch.setattr(checksums, "file_digest", lambda path: pytest.fail("hashed again"))
        assert corpus.corpus_inputs(data, cache) == changed
    cache.write_text("[broken")
    assert corpus.corpus_inputs(data, cache) == changed


def multi30k_data(source: str = "de", target: str = "en") -> DataConfig:
    tests = ["test_2016_flickr", "test_2017_flickr", "test_2017_mscoco"]
    return files_config("train", "val", tests, kind="multi30k", source=source, target=target)


def no_hub(*words: object) -> dict:
    raise ConnectionError("it does not answer")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Invented plain files on a local server, with their checksums; the hub does not answer."""
    folder = tmp_path / "server"
    folder.mkdir()
    for key in multi30k.CHECKSUMS:
        content = gzip.compress(f"{key} eins\n{key} zwei\n".encode())
        (folder / f"{key}.gz").write_bytes(content)
        if multi30k.CHECKSUMS[key] is not None:  # the address alone tells what others are
            monkeypatch.setitem(multi30k.CHECKSUMS, key, hashlib.sha256(content).hexdigest())

    class Files(Handler, SimpleHTTPRequestHandler):
        """Those of the folder."""

    monkeypatch.setattr(download, "WAITS", (0, None))
    monkeypatch.setattr(hub, "describe", no_hub)
    with serving(partial(Files, directory=str(folder))) as running:
        monkeypatch.setattr(multi30k, "ADDRESS", running.url)
        yield folder


@pytest.mark.parametrize(("source", "target"), [("de", "en"), ("en", "fr")])
def test_multi30k_from_plain_files_is_downloaded_once(tmp_path, server, source, target):
    data = multi30k_data(source, target)
    (tmp_path / "downloads").mkdir()
    (tmp_path / "downloads" / f"train.{source}.gz").write_bytes(b"half a file")  # is replaced
    report = build(data, tmp_path)
    assert report["sets"] == ["test_2016_flickr", "test_2017_flickr", "test_2017_mscoco"]
    assert list(read_lines(tmp_path / "output" / f"train.{source}")) == [
        f"train.{source} eins",
        f"train.{source} zwei",
    ]
    assert list(read_lines(tmp_path / "output" / f"valid.{target}"))[0] == f"val.{target} eins"
    for file in server.iterdir():
        file.unlink()
    second = tmp_path / "second"
    second.mkdir()
    corpus.build_corpus(data, second, tmp_path / "downloads")
    assert read_report(second)["corpus_hash"] == report["corpus_hash"]


@pytest.mark.parametrize("known", [True, False])
def test_multi30k_from_the_hub(tmp_path, server, monkeypatch, caplog, known):
    """Text that is not the known one, as after a new revision, is not taken: the plain files
    are."""
    rows = {
        split: [{"de": f" {split}\nA", "en": f"{split} a "}]
        for split in multi30k.HUB_SPLITS.values()
    }
    for name, split in multi30k.HUB_SPLITS.items():
        for language, text in (("de", f"{split} A\n"), ("en", f"{split} a\n")):
            digest = hashlib.sha256(text.encode()).hexdigest()
            monkeypatch.setitem(
                multi30k.TEXT_CHECKSUMS, f"{name}.{language}", digest if known else "another"
            )
    monkeypatch.setattr(hub, "describe", lambda name, revision: {"revision": "0"})
    monkeypatch.setattr(hub, "stream_rows", lambda name, configuration, split, _: iter(rows[split]))
    with caplog.at_level(logging.INFO, "nmt"):
        build(multi30k_data(), tmp_path)
    expected = [(" train A", "train a ")] if known else [("train.de eins", "train.en eins")]
    assert built(tmp_path, "train")[:1] == expected
    assert built(tmp_path, "test_2017_flickr")[0] == (
        "test_2017_flickr.de eins",
        "test_2017_flickr.en eins",
    )
    assert ("is not the known text" in caplog.text) != known


def test_multi30k_wrong_checksum(tmp_path, server):
    (server / "val.fr.gz").write_bytes(gzip.compress(b"something else\n"))
    with pytest.raises(UserError, match=r"val\.fr\.gz .*sha256 .* instead of .*HF_ENDPOINT"):
        build(multi30k_data("en", "fr"), tmp_path)
    assert not (tmp_path / "downloads" / "val.fr.gz").exists()


class Sentence(str):
    """A text of which it can be known whether it is still in memory."""


def invented(count: int, alive: list[int]) -> Iterator[tuple[str, str]]:
    """A stream of pairs; `alive` gets how many of its sentences are in memory."""
    existing: weakref.WeakSet[Sentence] = weakref.WeakSet()
    for number in range(count):
        pair = (
            Sentence(f"Satz {number % 7 * 'x'} {number}"),
            Sentence(f"sentence {number % 7 * 'x'} {number}"),
        )
        for sentence in pair:
            existing.add(sentence)
        alive.append(len(existing))
        yield pair


def test_a_stream_of_pairs_is_not_held(tmp_path, monkeypatch):
    """In the corpus stage only a few chunks are held."""
    count = 3000
    alive = []
    monkeypatch.setattr(write_sets, "SAMPLE", 500)
    monkeypatch.setattr(write_sets, "CHUNK", 100)
    monkeypatch.setattr(write_sets, "usable_processors", lambda: 2)
    data = make(tmp_path)
    files = parallel_text.read_pairs
    monkeypatch.setattr(
        origin,
        "read_pairs",
        lambda source, target: (
            invented(count, alive) if source.path.stem == "train" else files(source, target)
        ),
    )
    assert build(data, tmp_path)["audit"]["train"]["kept"] == count
    assert max(alive) <= 2 * 15 * write_sets.CHUNK  # half of them


def test_the_corpus_is_that_of_one_process(tmp_path, monkeypatch):
    """Also what is counted, and the places of the first; blank, held-out, equal and repeated pairs
    among the others."""
    chosen = random.Random(3)
    pairs = [
        (f"Satz {chosen.randrange(150)} endet.", f"Sentence {chosen.randrange(3)} ends.")
        for _ in range(300)
    ]
    pairs[40], pairs[77], pairs[201] = ("", "Blank."), ("guten tag", "Hello."), ("Gleich", "Gleich")
    found = []
    for processes in (1, 3):
        monkeypatch.setattr(write_sets, "usable_processors", lambda processes=processes: processes)
        monkeypatch.setattr(write_sets, "CHUNK", 300 if processes == 1 else 23)
        folder = tmp_path / str(processes)
        report = build(make(folder, tuple(map(list, zip(*pairs, strict=True)))), folder)
        found.append((json.dumps(report["audit"]).replace(str(folder), ""), built(folder)))
    assert found[0] == found[1]
    counts = report["audit"]["train"]
    assert counts["dropped"] == {"one side blank": 1}
    assert counts["counted"].keys() >= {"also in valid or test", "both sides equal"}


def test_a_shifted_corpus_is_said_in_every_training(tmp_path, caplog):
    """With its file and line in report.json, from which each later command logs it again."""
    chosen = random.Random(1)
    source = ["ja " * chosen.randint(1, 12) for _ in range(1000)]
    report = build(
        make(
            tmp_path,
            (source, [text.replace("ja", "yes") for text in [*source[:400], *source[399:-1]]]),
        ),
        tmp_path,
    )
    (warning,) = report["audit"]["train"]["warnings"]
    name, line = warning.split(": ")[0].rsplit(":", 1)
    assert (
        name == str(tmp_path / "train.de")
        and abs(int(line) - 401) < 20
        and "shifted by 1 line" in warning
    )
    for _ in range(2):
        corpus.log_warnings(report)
    assert caplog.text.count(warning) == 1


def test_each_pair_has_its_place_in_its_own_file(tmp_path):
    """Also the last one of a file, and the first one behind a file without pairs."""
    data = make(tmp_path)
    sizes = [3, 0, 1, 2]
    counts = PairCounts()
    places = []
    for number, size in enumerate(sizes):
        origin = sources.prefix_origin(data.train, data)
        file = PackedFile(Path(f"file {number}"))
        counts.starts.append((len(places), replace(origin, sides=(file, file))))
        places += [f"file {number}:{line}" for line in range(1, size + 1)]
    assert [counts.location(number) for number in range(1, len(places) + 1)] == places


@pytest.mark.parametrize("count", [199, 200])
@pytest.mark.parametrize("valid", ["mine", "split"])
@pytest.mark.parametrize("test", ["test", "split", None])
def test_of_few_new_pairs_none_is_held_out(tmp_path, valid, test, count):
    """All are trained on, and are a test set too, which is no leak; what is given stays."""
    data = make(tmp_path)
    old_report = build(data, tmp_path)
    write(tmp_path / "mine.de", ["Guten Morgen."])
    write(tmp_path / "mine.en", ["Good morning."])
    new = [
        (f"Neuer Satz {number} q{number**3}", f"New one {number} x{number**5}")
        for number in range(count)
    ]
    for side, name in enumerate(("de", "en")):
        write(tmp_path / f"new.{name}", [pair[side] for pair in new])
    data = replace(data, train=str(tmp_path / "new"), valid=valid, test=test, split_size=5)
    if valid != "split":
        data.valid = str(tmp_path / valid)
    if test == "test":
        data.test = str(tmp_path / test)
    (tmp_path / "new").mkdir()
    old = OldText(tmp_path / "output", old_report, 0.0)
    corpus.build_corpus(data, tmp_path / "new", tmp_path / "new downloads" / "x", old)
    report = read_report(tmp_path / "new")
    is_few = count < 200 and "split" in (valid, test)
    assert ("learnt" in report["sets"]) == is_few
    assert ("test" in report["sets"]) == (test == "test" or (test == "split" and not is_few))
    held_out = read_set(tmp_path / "new", "valid")
    if valid == "mine":
        assert held_out == [("Guten Morgen.", "Good morning.")]
    elif is_few:
        assert held_out == [("Guten Tag.", "Good day.")]
    else:
        assert len(held_out) == 5
    if is_few:
        assert read_set(tmp_path / "new", "train") == read_set(tmp_path / "new", "learnt") == new
        assert report["audit"]["train"]["counted"] == {}

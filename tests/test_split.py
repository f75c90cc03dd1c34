"""The sets that are held out of the training text: apart from it, and the same when text is
added."""

import gzip
import json
import os
import random
import shutil
from pathlib import Path

import pytest
from corpora import files_config, pairs, read_set, write_pairs
from test_sources import build

from nmt.corpus.corpus_folder import read_report
from nmt.corpus.filtering import hash_letters
from nmt.corpus.origin import Origin
from nmt.corpus.split import SideSet, SplitRecord, pair_hashes, words_of
from nmt.corpus.write_sets import check_part
from nmt.errors import UserError

Pairs = list[tuple[str, str]]


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda file: None)


def sets_of(folder: Path) -> dict[str, Pairs]:
    return {name: read_set(folder, name) for name in ("train", "valid", "test")}


def plain(pair: tuple[str, str]) -> tuple[str, str]:
    return tuple("".join(words_of(side)) for side in pair)


def numbered(count: int, first: int = 0) -> Pairs:
    """Pairs of which no two have more than one word in common."""
    draw = random.Random(f"{count} {first}")
    words = [
        [f"{letter}{draw.randrange(10**9)}" for _ in range(7)]
        for _ in range(count)
        for letter in "qx"
    ]
    return [
        (" ".join(source), " ".join(target))
        for source, target in zip(words[::2], words[1::2], strict=True)
    ]


def test_sizes_and_that_nothing_is_lost(tmp_path):
    every = numbered(1000)
    write_pairs(tmp_path, "all", every)
    for size, expected in ((1000, 50), (7, 7)):  # a twentieth
        sets = sets_of(build(tmp_path, str(tmp_path / "all"), split_size=size))
        assert len(sets["test"]) == len(sets["valid"]) == expected
        assert sorted(sets["train"] + sets["valid"] + sets["test"]) == sorted(every)
    # of several parts, each gives as many
    write_pairs(tmp_path, "more", numbered(400, 1))
    words = [str(tmp_path / "all"), str(tmp_path / "more")]
    sets = sets_of(build(tmp_path, words, split_size=10))
    for name in ("test", "valid"):
        assert len(sets[name]) == 10
        assert len(set(sets[name]) & set(every)) == 5


@pytest.mark.parametrize("seed", range(2))
def test_training_is_apart_from_the_sets(tmp_path, seed):
    """Case, punctuation, one other word, one side only: pairs like those that are held out are not
    trained on."""
    draw = random.Random(seed)
    every = numbered(600, seed)
    write_pairs(tmp_path, "all", every)
    held = sets_of(build(tmp_path, str(tmp_path / "all"), split_size=20))
    chosen = held["test"]
    more = [(source.upper() + " !", "something else entirely number 1") for source, _ in chosen]
    more += [("etwas ganz anderes", f"«{target.title()}»") for _, target in chosen]
    words = [source.split() for source, _ in chosen]
    near = [[*each[:3], "anders", *each[4:]] for each in words] + [each[1:] for each in words]
    near += [[*each, "mehr"] for each in words] + [each[::-1] for each in words]
    more += [
        (" ".join(each), f"another text with number {number}") for number, each in enumerate(near)
    ]
    mixed = every + more
    draw.shuffle(mixed)
    write_pairs(tmp_path, "all", mixed)
    sets = sets_of(build(tmp_path, str(tmp_path / "all"), split_size=20))
    assert set(map(plain, held["test"])) <= set(map(plain, sets["test"]))
    added = [pair for pair in sets["train"] if pair not in every]
    assert not added, added[:3]
    apart(sets)


def apart(sets: dict[str, Pairs]) -> None:
    """No side of a held-out pair is in the training text, without case and punctuation, and none of
    valid in test."""
    for name, other in (("train", "test"), ("train", "valid"), ("valid", "test")):
        for side in (0, 1):
            assert not {plain(pair)[side] for pair in sets[name]} & {
                plain(pair)[side] for pair in sets[other]
            }


def test_the_sets_stay_when_text_is_added(tmp_path):
    """At any place in the text, with repeated sentences, in another order, packed, beside another
    corpus."""
    draw = random.Random(1)
    growing = numbered(300)
    before: dict[str, set] = {}
    folders = []
    for step in range(3):
        rows = "".join(f"{source}\t{target}\n" for source, target in growing)
        (tmp_path / "all.tsv").write_text("de\ten\n" + rows)
        (tmp_path / "all.tsv.gz").write_bytes(gzip.compress((tmp_path / "all.tsv").read_bytes()))
        packing = ".gz" if step == 1 else ""
        write_pairs(tmp_path, "other", numbered(100, 99))
        words = [str(tmp_path / f"all.tsv{packing}")] + (
            [str(tmp_path / "other")] if step > 1 else []
        )
        folders.append(build(tmp_path, words, split_size=15))
        sets = sets_of(folders[-1])
        apart(sets)
        assert before.get("test", set()) <= set(map(plain, sets["test"]))
        assert not before.get("test", set()) & set(map(plain, sets["train"] + sets["valid"]))
        assert before.get("valid", set()) <= set(map(plain, sets["valid"] + sets["test"]))
        assert step == 0 or len(sets["test"]) > 15
        before = {name: set(map(plain, sets[name])) for name in ("test", "valid")}
        growing = (
            growing
            + numbered(200, step + 1)
            + [(a.upper(), b) for a, b in draw.sample(growing, 20)]
        )
        draw.shuffle(growing)
    assert len(set(folders)) == len(folders)
    # the words of the last step, the same text
    assert build(tmp_path, words, split_size=15) == folders[-1]


def test_without_a_record_the_same_text_gives_the_same_sets(tmp_path):
    write_pairs(tmp_path, "all", pairs(300))
    first = build(tmp_path, str(tmp_path / "all"))
    before = sets_of(first)
    record = tmp_path / "data" / "splits.json"
    content = record.read_text()
    (entry, *_) = json.loads(content).values()
    wrong = [{"threshold": -1}, {"threshold": 2**64}, {"corpus": ""}, {"split_size": 0}]
    entries = [json.dumps({"de-en test x": entry | change}) for change in wrong]
    for damaged in ("{", "", "[1]", '{"de-en test x": 1}', content[:-20], *entries):
        record.write_text(damaged)
        with pytest.raises(UserError, match="splits.json is damaged"):
            build(tmp_path, str(tmp_path / "all"))
    record.unlink()
    shutil.rmtree(first)
    assert build(tmp_path, str(tmp_path / "all")) == first and sets_of(first) == before


def test_what_another_training_has_written_meanwhile_stays(tmp_path):
    data = files_config(test="split")
    origins = [[Origin(name, name, name, name, [], lambda _: iter(()))] for name in "ab"]
    records = [
        SplitRecord(tmp_path / "splits.json", data, {"train": each}, [[each[0].name]])
        for each in origins
    ]
    for number, record in enumerate(records):
        record.save({"test": [None]}, {"test": [number + 5]})
    stored = json.loads((tmp_path / "splits.json").read_text())
    assert [stored[f"de-en test {name}"]["threshold"] for name in "ab"] == [5, 6]


def test_both_directions_have_the_same_hashes():
    assert (
        pair_hashes("Der Hund!", "the dog")
        == pair_hashes("The Dog", "der Hund")
        != pair_hashes("der", "hund the dog")
    )
    assert pair_hashes("...", "the dog") == {}

    # Vowel signs are letters, and an accent may be a character of its own
    assert pair_hashes("1", "काल") != pair_hashes("1", "कला")
    assert words_of("लड़का खाना") != words_of("लड़की खाने")
    assert words_of("fenêtre cassée") == words_of("fene\u0302tre casse\u0301e")
    assert hash_letters("काल") != hash_letters("कला")
    assert hash_letters("é") == hash_letters("E\u0301")


def test_near_and_same_sentences():
    side = SideSet()
    for text in ("Der kleine Hund schläft heute.", "Kurzer Satz.", "我今天去北京看朋友"):
        side.add(text)
    same = ["der KLEINE Hund, schläft heute", "kurzer satz", "我今天去北京看朋友。"]
    near = [
        "Der kleine Hund schläft.",
        "Der große Hund schläft heute",
        "Heute schläft der kleine Hund",
    ]
    near += ["Der kleine alte Hund schläft heute", "我昨天去北京看朋友"]
    other = [
        "Kurzer Text.",
        "Satz",
        "Der kleine Hund",
        "Der große Hund schläft morgen",
        "",
        "!",
        "我",
    ]
    assert [side.find(text) for text in same + near + other] == ["same"] * 3 + ["near"] * 5 + [
        ""
    ] * 7


def test_a_given_test_set_is_left_as_it_is(tmp_path):
    write_pairs(tmp_path, "all", pairs(200))
    write_pairs(tmp_path, "mine", pairs(200)[:3])
    folder = build(tmp_path, str(tmp_path / "all"), test=[str(tmp_path / "mine"), "split"])
    assert read_report(folder)["sets"] == ["mine", "test"]
    assert read_set(folder, "mine") == pairs(200)[:3]
    assert len(read_set(folder, "test")) == 10


def test_sentences_that_are_all_alike_cannot_be_split(tmp_path):
    every = [
        (f"Der {noun} Nr. {number} ist da.", f"No. {number}: {noun}")
        for noun in "abc"
        for number in range(99)
    ]
    write_pairs(tmp_path, "all", every)
    with pytest.raises(
        UserError, match="their sentences must differ in more than a word.; give data.valid=PREFIX"
    ):
        build(tmp_path, str(tmp_path / "all"))
    write_pairs(tmp_path, "mine", every[:3])
    folder = build(tmp_path, str(tmp_path / "all"), valid=str(tmp_path / "mine"), test=None)
    assert len(read_set(folder, "train")) == len(every)
    with pytest.raises(
        UserError, match="2 a side held out. Its sentences are too much alike to be split; give"
    ):
        entry = {"lines": 0, "read": 2, "origin": "all", "dropped": {"a side held out": 2}}
        check_part(entry, files_config())

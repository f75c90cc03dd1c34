"""Several languages on a side: each word is read for the pairs that it has, and each pair is scored
by itself."""

import random
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from corpora import corpus_of, last_of_each_key, lines_of, pairs, small, write_pairs
from pair_files import tmx, tmx_of, unit

from nmt.config.schema import DataConfig
from nmt.corpus.corpus_folder import read_report
from nmt.corpus.language_pairs import divide_tests, tagged_language, target_language
from nmt.corpus.origin import Origin
from nmt.corpus.write_sets import IN_TRAINING
from nmt.data.tokenizer import Tokenizers
from nmt.errors import UserError
from nmt.training import checkpoint

SIZES = {"train": 120, "valid": 8, "test": 6}
INTO_TWO = DataConfig("files", "en", "de+zh", "a", "b", "c", 1, 1.0)


def write_texts(folder: Path, source: str, target: str, languages: str = "de en fr") -> list[str]:
    """The same sentences in German, English and an invented French; the overrides that choose them,
    from `source` into `target`."""
    start = 0
    for name, size in SIZES.items():
        chosen = pairs(134)[start : start + size]
        texts = {
            "de": [german for german, _ in chosen],
            "en": [english for _, english in chosen],
            "fr": [english.replace("The", "Le").upper() for _, english in chosen],
        }
        for language in languages.split():
            (folder / f"{name}.{language}").write_text("\n".join(texts[language]) + "\n", "utf-8")
        start += size
    sets = [f"data.{name}={folder / name}" for name in SIZES]
    return ["data=files", *sets, f"data.source={source}", f"data.target={target}"]


def test_from_several_languages_into_one(tmp_path, succeeds):
    """Without tags, because the target language is known; each source language has a test set."""
    words = write_texts(tmp_path, "de+fr", "en")
    words += ["name=many", "train.max_steps=4", "train.average_checkpoints=0"]
    answer = succeeds("train", *small(tmp_path, words))
    assert [line.split("\t")[0] for line in answer.out.splitlines()] == ["test-de-en", "test-fr-en"]
    folder = corpus_of(tmp_path)
    for name in ("train", "valid"):
        both = lines_of(tmp_path / f"{name}.de") + lines_of(tmp_path / f"{name}.fr")
        assert lines_of(folder / f"{name}.de+fr") == both
        assert lines_of(folder / f"{name}.en") == 2 * lines_of(tmp_path / f"{name}.en")
    assert lines_of(folder / "test-fr-en.de+fr") == lines_of(tmp_path / "test.fr")
    best = checkpoint.load(tmp_path / "runs" / "many" / "best.safetensors", with_tensors=False)
    assert best["config"]["data"]["source"] == "de+fr"


def test_into_several_languages_each_source_says_which(tmp_path, succeeds):
    words = [*write_texts(tmp_path, "en", "de+fr"), "data.origin_tags=true"]
    succeeds("tokenize", *small(tmp_path, words, "train.max_steps=1"))
    folder = corpus_of(tmp_path)
    english = lines_of(tmp_path / "train.en")
    tagged = [f"<2{language}> <train> {line}" for language in ("de", "fr") for line in english]
    assert lines_of(folder / "train.en") == tagged
    french = [f"<2fr> {line}" for line in lines_of(tmp_path / "test.en")]
    assert lines_of(folder / "test-en-fr.en") == french
    assert read_report(folder)["tags"] == ["<2de>", "<train>", "<2fr>"]
    tokenizers = Tokenizers.load(next((tmp_path / "data").glob("tokenizer-*")))
    assert {"<2de>", "<2fr>", "<train>"} <= tokenizers.source.tags
    tokenizers.check_languages(["<2de> A dog.", "", "<2fr> <train> A dog."], 1)
    for line in ("A dog.", "<2it> A dog.", "<2DE> A dog.", "<train> A dog."):
        with pytest.raises(UserError, match=r"Line 8 .* <2de> <2fr>\."):
            tokenizers.check_languages(["<2fr> A dog.", line], 7)


def test_text_whose_language_nothing_says_is_not_read_for_all(tmp_path, refused):
    words = write_texts(tmp_path, "en", "de+fr")
    both = f"{tmp_path / 'train.en'}+{tmp_path / 'train.de'}"
    (tmp_path / "table.tsv").write_text("source\ttarget\na\tb\n", "utf-8")
    folder = f"data_folder={tmp_path / 'data'}"
    for train in (both, tmp_path / "table.tsv"):
        error = refused("download", *words, f"data.train={train}", folder)
        assert "does not say which of its text is in which language" in error
    (tmp_path / "train.fr").write_bytes(b"eins\rzwei\r" * 99)  # is there, and cannot be read
    assert "train.fr" in refused("download", *words, folder)


def test_units_of_other_languages_are_no_fault_of_a_memory(tmp_path, succeeds):
    """Each pair of languages has half of them."""
    units = []
    for number, (german, english) in enumerate(pairs(120)):
        other = ("de", german) if number % 2 else ("fr", german.upper())
        units.append(unit(*other, "en", english))
    (tmp_path / "all.tmx").write_text(tmx(*units), encoding="utf-8")
    words = ["data=files", "data.source=de+fr", "data.target=en", "data.test=null"]
    words += [f"data.train={tmp_path / 'all.tmx'}", f"data.valid={tmp_path / 'all.tmx'}"]
    succeeds("download", *words, f"data_folder={tmp_path / 'data'}")
    train = read_report(corpus_of(tmp_path))["audit"]["train"]
    assert (train["read"], train["warnings"]) == (120, [])


def test_files_of_one_pair_each_are_read_as_one_corpus(tmp_path, succeeds):
    files = []
    for language, count in (("de", 30), ("fr", 20)):
        files.append(tmp_path / f"{language}.tmx")
        files[-1].write_text(tmx_of(pairs(count, seed=count), (language, "en")), encoding="utf-8")
    given = f"[{','.join(map(str, files))}]"
    words = ["data=files", "data.source=de+fr", "data.target=en", "data.test=null"]
    words += [f"data.train={given}", f"data.valid={given}", f"data_folder={tmp_path / 'data'}"]
    succeeds("download", *words)
    assert read_report(corpus_of(tmp_path))["audit"]["train"]["read"] == 50


def test_sets_that_nmt_wrote_are_read_with_their_tags(tmp_path, succeeds):
    """None is added, and none of the languages is read alone."""
    words = write_texts(tmp_path, "en", "de+fr")
    succeeds("download", *words, f"data_folder={tmp_path / 'data'}")
    old = corpus_of(tmp_path)
    names = {"train": "train", "valid": "valid", "test": "test-en-fr"}
    words = [*words, *(f"data.{key}={old / name}" for key, name in names.items())]
    again = tmp_path / "again"
    words = [*last_of_each_key(*words), f"data_folder={again / 'data'}"]
    succeeds("download", *words)
    for name in names.values():
        for side in ("en", "de+fr"):
            file = f"{name}.{side}"
            assert lines_of(corpus_of(again) / file) == lines_of(old / file)
    report = read_report(corpus_of(again))
    assert (report["sets"], report["tags"]) == (["test-en-fr"], ["<2de>", "<2fr>"])


def test_tags_may_say_both_languages(tmp_path, succeeds):
    words = [*write_texts(tmp_path, "de+fr", "en"), "data.pair_tags=true"]
    succeeds("tokenize", *small(tmp_path, words, "train.max_steps=1"))
    french = [f"<fr2en> {line}" for line in lines_of(tmp_path / "test.fr")]
    assert lines_of(corpus_of(tmp_path) / "test-fr-en.de+fr") == french
    tokenizers = Tokenizers.load(next((tmp_path / "data").glob("tokenizer-*")))
    assert tokenizers.source.tags == {"<de2en>", "<fr2en>"}


def test_a_validation_set_that_is_training_data_is_said_behind_tags_too(tmp_path, succeeds):
    words = [*write_texts(tmp_path, "en", "de+fr"), f"data.valid={tmp_path / 'train'}"]
    succeeds("download", *words, f"data_folder={tmp_path / 'data'}")
    assert read_report(corpus_of(tmp_path))["audit"]["valid"]["counted"][IN_TRAINING] == 240


def test_a_word_may_lack_a_language_but_not_all(tmp_path, succeeds, refused):
    words = write_texts(tmp_path, "de+fr", "en", languages="de en")
    succeeds("download", *small(tmp_path, words, "train.max_steps=1"))
    assert read_report(corpus_of(tmp_path))["sets"] == ["test-de-en"]
    for source in ("de+", "de+de", "+"):
        assert "data.source=" in refused("download", *words, f"data.source={source}")
    words = small(tmp_path, words, "data.source=cs+fr", "train.max_steps=1")
    assert "train.cs" in refused("download", *words)


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("test-en-zh", "zh"),
        ("test-en-zh-before", "zh"),
        ("old-test-en-de", "de"),
        ("test", "de+zh"),
        ("my-de-en-zh-capitals", "zh"),
        ("a-en-zh-joined2", "zh"),
    ],
)
def test_scores_are_those_of_the_language_of_the_set(name, language):
    assert target_language(INTO_TWO, name) == language
    assert target_language(replace(INTO_TWO, target="de"), name) == "de"


@pytest.mark.parametrize(
    ("sources", "language"),
    [
        (["<2zh> a", "<bt> <2zh> b"], "zh"),
        (["<en2zh> a"], "zh"),
        (["<2zh> a", "<2de> b"], "de+zh"),
        ([], "de+zh"),
    ],
)
def test_scores_are_those_of_the_language_of_the_tags(sources, language):
    assert tagged_language(sources, INTO_TWO) == language


def test_pairs_of_both_directions_are_neither_swapped_nor_shifted(tmp_path, succeeds):
    """What is usual is learnt for each language pair by itself; swapped columns of one file are
    still seen."""
    every = iter(pairs(1200))
    rng = random.Random(1)
    drawn = [list(islice(every, rng.randint(1, 3))) for _ in range(500)]
    joined = [(" ".join(de for de, _ in each), " ".join(en for _, en in each)) for each in drawn]
    words = ["data=files", "data.source=de+en", "data.target=en+de", "data.test=null"]
    words += [f"data.{name}={tmp_path / name}" for name in ("train", "valid")]
    message = "60 of 500 pairs look swapped: each side in the other's language."
    for swapped, expected in ((0, []), (30, [message])):
        turned = [pair[::-1] for pair in joined[:swapped]]
        write_pairs(tmp_path, "train", turned + joined[swapped:250])
        write_pairs(tmp_path, "valid", joined[250:])
        folder = tmp_path / str(swapped)
        succeeds("download", *words, f"data_folder={folder}")
        (corpus,) = folder.glob("corpus-*")
        audit = read_report(corpus)["audit"]
        warnings = audit["train"]["warnings"] + audit["valid"]["warnings"]
        assert [text.split(": ", 1)[1] for text in warnings] == expected


@pytest.mark.parametrize("languages", [[None], [None, "de"], ["de", None, "fr", "de"]])
def test_every_origin_of_a_test_set_stays_in_one(languages):
    """One of all pairs together has no language pair of its own."""
    origins = []
    for number, language in enumerate(languages):
        pair = (language, "en") if language else None
        one = Origin("", "", str(number), "", [], lambda skipped, errors: iter(()), languages=pair)
        origins.append(one)
    divided = divide_tests({"train": origins, "test": origins})
    assert divided.pop("train") == origins
    found = {name: [each.key for each in of_set] for name, of_set in divided.items()}
    expected: dict[str, list[str]] = {}
    for number, language in enumerate(languages):
        name = f"test-{language}-en" if language else "test"
        expected.setdefault(name, []).append(str(number))
    assert found == expected

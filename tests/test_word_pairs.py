"""Single words with their translations: Model 1 agrees with its equation, and finds a planted dictionary."""

from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from corpora import run_command, small
from test_batches import Rows

from nmt.data import word_pairs
from nmt.data.batches import BatchIterator
from nmt.data.known_words import KnownWords, shared_marks
from nmt.data.noise import Noise
from nmt.data.protection import OTHERS
from nmt.data.tokenizer import Tokenizers
from nmt.data.word_batches import WordBatches
from nmt.data.word_pairs import (
    LINES_OF_ONE_WORD,
    WORD,
    Words,
    as_sentences,
    find_word_pairs,
    open_word_pairs,
    translations,
)

ALPHABET = "abcdefghijklmnopqrstuvwxyz"


def write(folder: Path, pairs: list[tuple[str, str]]) -> tuple[Path, Path]:
    files = folder / "train.xx", folder / "train.yy"
    for side, file in enumerate(files):
        file.write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")
    return files


def planted(count: int, words: int = 60, seed: int = 1) -> tuple[list[tuple[str, str]], dict[str, str]]:
    """Sentences of four to eight words, each translated by one word; the target has them in another order."""
    random = Random(seed)
    names = ["".join(random.choices(ALPHABET, k=6)) for _ in range(2 * words)]
    dictionary = dict(zip(names[:words], names[words:], strict=True))
    pairs = []
    for _ in range(count):
        chosen = random.sample(names[:words], random.randint(4, 8))
        other = [dictionary[word] for word in chosen]
        random.shuffle(other)
        pairs.append((" ".join(chosen) + ".", " ".join(other) + "."))
    return pairs, dictionary


def test_a_planted_dictionary_is_found():
    pairs, dictionary = planted(400)
    found = translations(pairs, ())
    assert dict(found) == dictionary and len(found) == len(dictionary)
    counts = [sum(word in source for source, _ in pairs) for word, _ in found]
    assert counts == sorted(counts, reverse=True)


def test_words_that_are_rare_or_fit_nothing_are_left_out():
    pairs, dictionary = planted(400)
    random = Random(2)
    targets = list(dictionary.values())
    pairs += [(f"seldom {word}", f"rare {other}") for word, other in list(dictionary.items())[:4]]
    pairs += [(f"filler {word}", random.choice(targets)) for word in dictionary for _ in range(3)]
    found = dict(translations(pairs, ()))
    assert "seldom" not in found and "filler" not in found
    assert all(found[word] == other for word, other in dictionary.items())


def test_model_1_is_its_equation():
    """Against the sums of Brown et al. (1993), written out for each pair."""
    pairs, _ = planted(30, words=12)
    sides = [[text.rstrip(".").split() for text in column] for column in zip(*pairs, strict=True)]
    wanted: dict[tuple[str, str], float] = {}
    for source, target in zip(*sides, strict=True):
        wanted |= {(s, t): 1.0 for s in source for t in target}
    for _ in range(word_pairs.ROUNDS):
        counts = dict.fromkeys(wanted, 0.0)
        for source, target in zip(*sides, strict=True):
            for t in target:
                total = sum(wanted[s, t] for s in source)
                for s in source:
                    counts[s, t] += wanted[s, t] / total
        sums: dict[str, float] = {}
        for (s, _), count in counts.items():
            sums[s] = sums.get(s, 0.0) + count
        wanted = {(s, t): count / sums[s] for (s, t), count in counts.items()}
    seen = {}
    original = word_pairs.model_1

    def recorded(link: np.ndarray, given: np.ndarray, condition: np.ndarray) -> np.ndarray:
        seen[len(seen)] = (condition, original(link, given, condition))
        return seen[len(seen) - 1][1]

    source, target = (Words.of(side) for side in sides)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(word_pairs, "model_1", recorded)
        word_pairs.best_translations(source, target)
    (ones, forward), (others, _) = seen[0], seen[1]
    found = {
        (source.names[s], target.names[t]): value for s, t, value in zip(ones, others, forward.tolist(), strict=True)
    }
    assert found.keys() == wanted.keys()
    assert all(value == pytest.approx(wanted[key], rel=1e-9, abs=1e-300) for key, value in found.items())


def test_a_word_has_the_capital_letters_that_it_has_inside_of_lines():
    pairs, dictionary = planted(300)
    names = list(dictionary)
    noun, verb = names[0], names[1]

    def cased(text: str) -> str:
        text = text.replace(noun, noun.capitalize())
        return f"{text[0].upper()}{text[1:]}"

    pairs = [(f"{cased(source)} {cased(again)}", f"{target} {other}")
             for (source, target), (again, other) in zip(pairs[::2], pairs[1::2], strict=True)]  # fmt: skip
    found = dict(translations(pairs, ()))
    assert found[noun.capitalize()] == dictionary[noun] and found[verb] == dictionary[verb]
    assert noun not in found and verb.capitalize() not in found


def test_tags_have_translations_of_their_own():
    french, one = planted(300, seed=1)
    czech, other = planted(300, seed=1)
    renamed = {word: word[::-1] for word in other.values()}
    czech = [(source, " ".join(renamed[word] for word in target.rstrip(".").split())) for source, target in czech]
    pairs = [(f"<2fr> {source}", target) for source, target in french]
    pairs += [(f"<2cs> {source}", target) for source, target in czech]
    found = dict(translations(pairs, {"<2fr>", "<2cs>"}))
    assert len(found) == 2 * len(one)
    for word, translation in one.items():
        assert found[f"<2fr> {word}"] == translation and found[f"<2cs> {word}"] == renamed[translation]


def test_words_come_as_sentences_too_with_the_marks_that_both_languages_share(tmp_path):
    """A question of one word is written with `?` in both; Spanish has `¿` before it, `。` is not shared."""
    pairs, dictionary = planted(400)
    marks = [".?!"[row % 3] for row in range(len(pairs))]
    marked = [(source[:-1] + mark, target[:-1] + mark) for (source, target), mark in zip(pairs, marks, strict=True)]
    found = find_word_pairs(write(tmp_path, marked), ())
    words, sentences = found[: len(dictionary)], found[len(dictionary) :]
    assert dict(words) == dictionary
    for (source, target), (word, other), mark in zip(sentences, words, ".?!" * 20, strict=True):
        assert (source, target) == (word.capitalize() + mark, other.capitalize() + mark)

    spanish = [(source, "¿" + target if target.endswith("?") else target) for source, target in marked]
    assert shared_marks(spanish) == [".", "!"]
    japanese = [(source, target.replace(".", "。")) for source, target in marked]
    assert shared_marks(japanese) == ["?", "!"]
    assert shared_marks(marked[:57]) == [] and as_sentences(words, [], ()) == []
    known = KnownWords.of((source for source, _ in marked), ".?!")
    in_use = find_word_pairs(write(tmp_path, marked), (), known)
    assert in_use[: len(words)] == words
    for (source, target), (word, other) in zip(in_use[len(words) :], words, strict=True):
        assert (source[:-1], target[:-1]) == (word, other)
        assert source[-1] == target[-1] == OTHERS[0]
    older = KnownWords.of(source for source, _ in marked)  # of a run that knows no marks
    assert find_word_pairs(write(tmp_path, marked), (), older) == found
    assert as_sentences([("<2fr>Wer", "qui")], ["?"], ("<2fr>",)) == [("<2fr>Wer?", "Qui?")]


def test_short_pairs_come_too(tmp_path):
    pairs, dictionary = planted(200)
    short = [("Guten Tag!", "Good afternoon."), ("<2fr> Danke!", "Merci beaucoup."), ("Ja", "Yes, of course, sir")]
    long = [("Ja", "y" * 21), ("Eins zwei drei", "One"), ("Eins", "One two three four five"), ("Eins", " ")]
    found = find_word_pairs(write(tmp_path, [*pairs, *short, *long]), ())
    bare = [("Guten Tag", "Good afternoon"), ("<2fr> Danke", "Merci beaucoup")]
    assert found[2 * len(dictionary) :] == [*short, *bare, *3 * [short[1], short[2], bare[1]]]
    french = find_word_pairs(write(tmp_path, [*pairs, ("Qui ?", "Who ?"), ("Je viens", "I come")]), ())
    assert [french.count(pair) for pair in (("Qui ?", "Who ?"), ("Qui", "Who"), ("Je viens", "I come"))] == [4, 4, 1]
    known = KnownWords.of(source.removeprefix("<2fr>") for source, _ in [*pairs, *short])
    known = known.extended({"^!"})
    in_use = find_word_pairs(
        write(tmp_path, [*pairs, ("<2fr> Danke!", "Merci !"), ("Danke!", "Ok.")]), ("<2fr>",), known
    )
    mark = OTHERS[0]
    assert in_use[2 * len(dictionary) :] == LINES_OF_ONE_WORD * [
        ("<2fr> Danke!", "Merci !"),  # behind a tag a mark stays
        (f"danke{mark}", f"Ok{mark}"),
        ("<2fr> danke", "Merci"),
        ("danke", "Ok"),
    ]
    word = next(iter(dictionary))
    said = find_word_pairs(write(tmp_path, [*pairs, (f"{word.capitalize()}!", "Said so.")]), (), known)
    assert (
        len(said) == 2 * (len(dictionary) - 1 + LINES_OF_ONE_WORD)
        and word in dict(said)
        and dict(said)[word] == "Said so"
    )
    assert find_word_pairs(write(tmp_path, long[1:2]), ()) == []


def test_of_a_large_corpus_some_lines_are_read(tmp_path, monkeypatch):
    pairs, dictionary = planted(1200)
    files = write(tmp_path, pairs + [(f"{name} da", f"{name} there") for name in dictionary])
    monkeypatch.setattr(word_pairs, "MAX_LINKS", 20_000)
    monkeypatch.setattr(word_pairs, "MAX_SHORT", 25)
    stride, short_stride = word_pairs.strides(files)
    assert stride == 3 and short_stride == 3
    found = find_word_pairs(files, ())
    assert set(dictionary.items()) <= set(found[:-20])
    assert [pair[0] for pair in found[-20:]] == [f"{name} da" for name in list(dictionary)[::3]]


def test_words_keep_their_vowel_signs_and_accents():
    texts = ["हिन्दी भाषा", "Mu\u0308ller's Cafe\u0301", "l’été", "x2 a_b"]
    assert [word for text in texts for word in WORD.findall(text)] == [
        "हिन्दी", "भाषा", "Mu\u0308ller's", "Cafe\u0301", "l’été", "x", "a", "b",
    ]  # fmt: skip


class Unchanged:
    """A tokenizer for batches whose texts do not change."""

    placeholders: list[int] = []
    tags: frozenset[str] = frozenset()

    def encode_all(self, texts: list[str], threads: int) -> list[list[int]]:
        assert not texts
        return []


class TextRows(Rows):
    def texts(self, row: int) -> tuple[str, str]:
        return "a", "b"


def batches_with_words(share: float, seed: int = 1) -> BatchIterator:
    tokenizers = Tokenizers(Unchanged(), Unchanged())
    words = TextRows(40, first=5000)
    words.source_lengths[:] = words.target_lengths[:] = np.arange(40) % 4 + 1
    return BatchIterator(TextRows(300), tokenizers, 60, seed, 0.0, None, None, WordBatches(words, share, 60, seed))


def test_a_share_of_the_batches_is_word_pairs_and_any_batch_can_be_made_alone():
    epochs, drawn, total = batches_with_words(0.25), np.zeros(40), 0
    others = []
    for epoch in range(5):
        for position, rows in enumerate(epochs.plan(epoch)):
            batch = epochs.batch(epoch, 0, position)
            total += 1
            first = (batch.source[:, 0] - 4).tolist()
            assert torch.equal(batch.source, batches_with_words(0.25).batch(epoch, 0, position).source)
            if first[0] >= 5000:
                drawn[[row - 5000 for row in first]] += 1
                assert batch.source.numel() <= 60 + batch.source.size(1)
                assert "word pairs" in epochs.describe_batch(epoch, 0, position)
            else:
                others.append(first)
                assert first == rows.tolist()
                assert "corpus lines" in epochs.describe_batch(epoch, 0, position)
    share = 1 - len(others) / total
    assert 0.15 < share < 0.35
    assert drawn.min() > 0


class Letters(Unchanged):
    """A tokenizer with one piece for each letter."""

    def encode_all(self, texts: list[str], threads: int) -> list[list[int]]:
        return [list(map(ord, text)) for text in texts]


def test_noise_changes_the_text_of_word_pairs():
    """Row n has the text of the letter n, which small letters turn into another piece."""
    pairs, words = TextRows(300), TextRows(26)
    words.texts = lambda row: (ALPHABET[row].upper(), ALPHABET[row].upper())
    words.source_lengths[:] = words.target_lengths[:] = 1
    batches = WordBatches(words, 0.999, 60, 1)
    epochs = BatchIterator(pairs, Tokenizers(Letters(), Letters()), 60, 1, 0.0, None, Noise(case=0.999), batches)
    rows = epochs.pairs_of_batch(0, 0, 3)[1]
    batch = epochs.batch(0, 0, 3)
    assert batch.source[:, 0].tolist() == [ord(ALPHABET[row]) for row in rows]
    assert batch.target[:, 1].tolist() == [ord(ALPHABET[row].upper()) for row in rows]


def test_without_them_batches_are_those_of_the_plan():
    epochs = batches_with_words(0.0)
    for position, rows in enumerate(epochs.plan(0)):
        assert (epochs.batch(0, 0, position).source[:, 0] - 4).tolist() == rows.tolist()


def test_a_corpus_without_word_pairs_trains_without(tmp_path, capfd):
    """Nothing stands in five sentences, and no line is short."""
    for name, count in (("train", 12), ("valid", 2)):
        lines = [" ".join(letter * length for length in range(3, 8)) for letter in ALPHABET[:count]]
        for language in ("de", "en"):
            (tmp_path / f"{name}.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    words = ["data=files", "data.source=de", "data.target=en", "data.test=null"]
    words += [f"data.{name}={tmp_path / name}" for name in ("train", "valid")]
    given = small(tmp_path, words, "tokenizer.vocabulary_size=300", "train.max_steps=2", "train.noise_words=0.9")
    assert run_command(capfd, "train", *given).code == 0
    (folder,) = (tmp_path / "data").glob("words-*")
    assert (folder / "words.de").read_bytes() == b"" and open_word_pairs(folder) is None
    assert open_word_pairs(None) is None

"""The tokenizer: decoding restores the text, samples depend on the seed alone, impossible sizes
name a possible one."""

import math
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from corpora import pairs, write_pairs
from hypothesis import given
from hypothesis import strategies as st

from nmt.config.schema import TokenizerConfig
from nmt.convert.argos import read_model
from nmt.convert.pretrained.vocabulary import UNUSED
from nmt.corpus.normalization import normalize
from nmt.data.subword_sampling import Sampler
from nmt.data.text_filter import Encoded
from nmt.data.tokenizer import BOS, EOS, PAD, UNK, Tokenizer, Tokenizers
from nmt.data.train_tokenizer import train_sentencepiece, train_tokenizers, training_lines
from nmt.errors import UserError

PAIRS = pairs(48)
STRANGE = [
    "مرحبا بالعالم",
    "Grüße 😀👩‍👩‍👧",
    "a\u2028b",
    "a\x85b",
    "a\x0bb",
    "½ … Ａ ﬁ",
    "tab\there",
]


def config(
    algorithm: str = "unigram", size: int = 305, joint: bool = True, lowercase: bool = False
) -> TokenizerConfig:
    return TokenizerConfig(algorithm, size, joint, True, 1.0, lowercase, 256)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_pairs(tmp_path_factory.mktemp("corpus"), "train", PAIRS)


@pytest.fixture(scope="module", params=["unigram", "bpe"])
def tokenizer(request: pytest.FixtureRequest, files: list[Path]) -> Tokenizer:
    return Tokenizer(train_sentencepiece(config(request.param), files), lowercase=False)


def assert_round_trip(tokenizer: Tokenizer, text: str, alpha: float) -> None:
    """Lost are only the sign ▁, and line feeds, which are no part of a sentence."""
    expected = re.sub(" +", " ", normalize(text)).strip(" ")
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == expected and not {PAD, UNK, BOS, EOS} & set(ids)
    assert tokenizer.decode(tokenizer.sample(text, alpha, Random(1))) == expected


@given(
    text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="▁\n\r")),
    alpha=st.floats(0, 0.9),
)
def test_round_trip(tokenizer: Tokenizer, text: str, alpha: float) -> None:
    assert_round_trip(tokenizer, text, alpha)


@pytest.mark.parametrize("text", STRANGE)
def test_round_trip_of_strange_texts(tokenizer: Tokenizer, text: str) -> None:
    assert_round_trip(tokenizer, text, 0.5)


def test_no_piece_ends_the_line(tokenizer: Tokenizer) -> None:
    """A model may write any piece, also the bytes of a line end."""
    word = tokenizer.encode("Hund")
    for piece in range(tokenizer.size):
        text = tokenizer.decode([*word, piece, *word])
        assert not {"\r", "\n"} & set(text)
        assert text.startswith("Hund") and text.endswith("Hund")


def test_sampling_is_a_function_of_the_seed(tokenizer: Tokenizer) -> None:
    texts = [pair[0] for pair in PAIRS]
    first = tokenizer.sample_all(texts, 0.2, 7)
    assert tokenizer.sample_all(texts, 0.2, 8) != first
    tokenizer.sample_all(texts, 0.3, 1)
    assert tokenizer.sample_all(texts, 0.2, 7) == first
    assert [tokenizer.decode(ids) for ids in first] == texts
    assert first != tokenizer.encode_all(texts)


def test_sampling_converges_to_the_best_pieces(tokenizer: Tokenizer) -> None:
    """Behind the prefix of a sentence's tag, or of a sentence without one."""
    texts = [pair[0] for pair in PAIRS] + [*STRANGE, "", "  a  b ", "<0x41> </s> x▁y"]
    # No merge is left out; or only the most probable segmentation is left
    never = 0.0 if tokenizer.sampler.dropout else 200.0
    assert tokenizer.sample_all(texts, never, 1) == tokenizer.encode_all(texts)
    texts += [f"<2de> {text}" for text in texts]
    tagged = Tokenizer(tokenizer.model, lowercase=False, prefixes={"<2de>": [9, 8], "": [7]})
    assert tagged.sample_all(texts, never, 1) == tagged.encode_all(texts)


def test_any_space_may_follow_a_tag(tokenizer: Tokenizer) -> None:
    tagged = Tokenizer(tokenizer.model, lowercase=False, prefixes={"<2de>": [9, 8]})
    for space in ("  ", "\t", "\u00a0", "\u3000"):
        assert tagged.encode(f"<2de>{space}Hund") == [9, 8, *tagged.encode("Hund")]
    both = Tokenizers(tagged, tagged)
    ((_, target),) = both.protect_pairs([("<2de>\tdog", "Hund")])
    assert target.text == "<2de> Hund"


def segmentations(word: str, vocabulary: dict[str, float]) -> list[tuple[str, ...]]:
    """All segmentations of a word into pieces of the vocabulary."""
    if not word:
        return [()]
    all_of_them = []
    for piece in vocabulary:
        if word.startswith(piece):
            for rest in segmentations(word.removeprefix(piece), vocabulary):
                all_of_them.append((piece, *rest))
    return all_of_them


def test_unigram_samples_have_the_probabilities_of_the_formula() -> None:
    pieces = ["▁", "a", "b", "▁a", "ab", "ba", "▁ab", "aba"]
    scores = dict(zip(pieces, [-2.0, -2.5, -3.0, -2.2, -2.7, -3.1, -4.0, -5.0], strict=True))
    ids = {piece: number for number, piece in enumerate(pieces, 4)}
    sampler = Sampler(ids, scores, UNK, [], (), (), dropout=False)
    generator = Random(0)
    alpha = 0.5
    draws = 20_000
    counts = Counter(tuple(sampler.sample("abab", alpha, generator)) for _ in range(draws))
    weights = {}
    for segmentation in segmentations("▁abab", scores):
        weight = math.exp(alpha * sum(scores[piece] for piece in segmentation))
        weights[tuple(ids[piece] for piece in segmentation)] = weight
    assert len(weights) > 10 and set(counts) <= set(weights)
    for segmentation, weight in weights.items():
        expected = weight / sum(weights.values())
        deviation = math.sqrt(expected * (1 - expected) / draws)
        assert abs(counts[segmentation] / draws - expected) < 5 * deviation


def test_dropout_leaves_out_merges_with_its_probability() -> None:
    scores = {"▁": -3.0, "a": -4.0, "▁a": 0.0}
    sampler = Sampler({"▁": 4, "a": 5, "▁a": 6}, scores, UNK, [], (), (), dropout=True)
    generator = Random(0)
    merged = sum(sampler.sample("a", 0.3, generator) == [6] for _ in range(10_000))
    assert abs(merged / 10_000 - 0.7) < 5 * math.sqrt(0.3 * 0.7 / 10_000)


ANOTHER_PROCESS = """
import hashlib, sys
from pathlib import Path
from nmt.config.schema import TokenizerConfig
from nmt.data import tokenizer, train_tokenizer
train_tokenizer.MAX_LINES = 50
for algorithm in ("unigram", "bpe"):
    config = TokenizerConfig(algorithm, 310, True, True, 1.0, False, 256)
    model = train_tokenizer.train_sentencepiece(config, [Path(file) for file in sys.argv[1:]])
    lines = ["der Hund schläft", "the cat waits"] * 20
    drawn = tokenizer.Tokenizer(model, False).sample_all(lines, 0.2, 7)
    print(hashlib.sha256(model).hexdigest(), drawn)
"""


def test_other_processes_train_the_same_bytes_and_sample_the_same_pieces(
    files: list[Path],
) -> None:
    command = [sys.executable, "-c", ANOTHER_PROCESS, *map(str, files)]
    root = Path(__file__).parents[1]
    runs = [
        subprocess.run(command, capture_output=True, text=True, check=True, cwd=root)
        for _ in range(2)
    ]
    first, second = (run.stdout for run in runs)
    assert first == second and first.count("\n") == 2


def test_a_large_corpus_is_thinned_evenly(
    files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    sources, targets = zip(*PAIRS, strict=True)
    assert list(training_lines(files, False)) == [*sources, *targets]
    monkeypatch.setattr("nmt.data.train_tokenizer.MAX_LINES", 40)  # of 96 lines: every third
    assert list(training_lines(files, False)) == [*sources[::3], *targets[::3]]


@pytest.mark.parametrize("algorithm", ["unigram", "bpe"])
def test_the_size_an_error_names_is_possible(files: list[Path], algorithm: str) -> None:
    with pytest.raises(UserError, match="tokenizer.vocabulary_size=100 is too small") as caught:
        train_sentencepiece(config(algorithm, 100), files)
    match = re.search(r"give at least (\d+)", str(caught.value))
    assert match and "train.de" in str(caught.value)
    named = int(match[1])
    model = train_sentencepiece(config(algorithm, named), files)
    assert Tokenizer(model, False).size == named
    with pytest.raises(UserError):
        train_sentencepiece(config(algorithm, named - 1), files)


def test_lines_sentencepiece_would_not_take(tmp_path: Path) -> None:
    path = tmp_path / "train.de"
    path.write_bytes(("x" * 50_000 + "\n\n \na\0b\u2028c\n" + "der Hund schläft\n" * 3).encode())
    assert Tokenizer(train_sentencepiece(config(size=280), [path]), False).size == 280
    path.write_bytes(b"\n \n")
    with pytest.raises(UserError, match="SentencePiece cannot be trained on .*train.de"):
        train_sentencepiece(config(), [path])


@pytest.mark.parametrize(
    ("joint", "size", "names"),
    [(True, 300, {"joint.model"}), (False, 290, {"source.model", "target.model"})],
)
def test_what_is_saved_is_loaded(joint, size, names, files, tmp_path) -> None:
    train_tokenizers(config(size=size, joint=joint, lowercase=True), *files, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == names | {"tokenizer.json"}
    loaded = Tokenizers.load(tmp_path)
    assert loaded.joint == joint
    for side in loaded:
        assert side.lowercase
        pieces = [piece for piece in side.all_pieces if not piece.startswith("<")]
        assert pieces == [piece.lower() for piece in pieces], "trained on what it will read"
    (tmp_path / "copy").mkdir()
    loaded.save(tmp_path / "copy")
    copied = Tokenizers.load(tmp_path / "copy")
    assert [side.model for side in copied] == [side.model for side in loaded]
    with pytest.raises(UserError, match="cannot be loaded"):
        Tokenizers.load(tmp_path.parent)


def test_the_longest_of_the_added_words_is_one_piece(tokenizer):
    added = Tokenizer(tokenizer.model, lowercase=False, added=["#a", "#ab", "#abc"])
    assert added.normalize("x#abc#ab #a").split() == ["x", "#abc", "#ab", "#a"]


def test_one_direction_divides_text_as_all_of_them_do(tokenizer):
    side = Tokenizer(tokenizer.model, lowercase=True, prefixes={"<2de>": [9]}, added=["#a"])
    one = Tokenizers(side, side).in_direction("en", "de")
    text = "Ein x#a, und ein A"
    assert one.source.encode(text) == side.encode(f"<2de> {text}")
    assert one.target.encode(text) == side.encode(f"<2de> {text}")


def test_no_sample_has_a_piece_that_is_not_in_use(tokenizer):
    """An imported vocabulary has such pieces: those of the other language."""
    texts = [text for pair in PAIRS for text in pair]
    model = read_model(tokenizer.model)
    counts = Counter(piece for text in texts for piece in tokenizer.encode(text))
    long = [piece for piece in counts if len(tokenizer.pieces([piece])[0]) > 1]
    frequent = max(long, key=counts.__getitem__)
    model.pieces[frequent].type = UNUSED
    other = Tokenizer(model.SerializeToString(), lowercase=False)
    alpha = 0.0 if other.sampler.dropout else 1.0
    assert any(frequent in tokenizer.sample(text, alpha, Random(1)) for text in texts)
    assert not any(frequent in other.sample(text, alpha, Random(1)) for text in texts)


@pytest.mark.parametrize("dropout", [False, True])
def test_unknown_characters_in_a_row_are_one_piece_of_a_sample(dropout):
    scores = {"▁": -1.0, "a": -1.0}
    sampler = Sampler({"▁": 4, "a": 5}, scores, UNK, [], (), (), dropout)
    ids = sampler.sample("aäöa ü", 0.5, Random(1))
    assert ids == [4, 5, UNK, 5, 4, UNK]


@pytest.mark.parametrize("tags", [["<2fr>"], ["<de2fr>", "<bt>"]])
def test_a_tag_before_a_sentence_in_capitals_is_shown_as_it_is(tags, files):
    model = train_sentencepiece(config("unigram", 320), files, tags)
    tokenizer = Tokenizer(model, lowercase=False)
    ids = Encoded(tokenizer.encode(f"{' '.join(tags)} ein apfel"), capitals=True)
    shown = tokenizer.pieces(ids)
    assert [piece for piece in shown if piece.startswith("<")] == tags
    assert "".join(shown).endswith("EIN▁APFEL")

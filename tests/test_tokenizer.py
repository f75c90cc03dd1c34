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
from hypothesis import given
from hypothesis import strategies as st

from nmt.config.schema import TokenizerConfig
from nmt.corpus.normalization import normalize
from nmt.data.subword_sampling import Sampler, Vocabulary
from nmt.data.tokenizer import BOS, EOS, PAD, UNK, Tokenizer, Tokenizers
from nmt.data.train_tokenizer import train_sentencepiece, train_tokenizers, training_lines
from nmt.errors import UserError

WHO = [
    ("der Hund", "the dog"),
    ("die Katze", "the cat"),
    ("das Kind", "the child"),
    ("ein Vogel", "a bird"),
]
DOES = [
    ("schläft", "sleeps"),
    ("spielt", "plays"),
    ("wartet", "waits"),
    ("singt leise", "sings softly"),
]
WHERE = [
    ("im Garten", "in the garden"),
    ("am Fenster", "at the window"),
    ("auf der Straße", "in the street"),
]
PAIRS = [
    tuple(" ".join(words) + "." for words in zip(a, b, c, strict=True))
    for a in WHO
    for b in DOES
    for c in WHERE
]
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
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("corpus")
    for side, language in enumerate(("de", "en")):
        (folder / f"train.{language}").write_text(
            "".join(pair[side] + "\n" for pair in PAIRS), encoding="utf-8"
        )
    return folder / "train.de", folder / "train.en"


@pytest.fixture(scope="module", params=["unigram", "bpe"])
def tokenizer(request: pytest.FixtureRequest, files: tuple[Path, Path]) -> Tokenizer:
    return Tokenizer(train_sentencepiece(config(request.param), list(files)), lowercase=False)


# Lost are only the sign ▁, and line feeds, which are no part of a sentence.
@given(
    text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="▁\n\r")),
    alpha=st.floats(0, 0.9),
)
def test_round_trip(tokenizer: Tokenizer, text: str, alpha: float) -> None:
    for text in (text, *STRANGE):  # noqa: B020
        expected = re.sub(" +", " ", normalize(text)).strip(" ")
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == expected and not {PAD, UNK, BOS, EOS} & set(ids)
        assert tokenizer.decode(tokenizer.sample(text, alpha, Random(1))) == expected


def test_sampling_is_a_function_of_the_seed(tokenizer: Tokenizer) -> None:
    texts = [pair[0] for pair in PAIRS]
    first = tokenizer.sample_all(texts, 0.2, 7)
    assert tokenizer.sample_all(texts, 0.2, 8) != first
    tokenizer.sample_all(texts, 0.3, 1)
    assert tokenizer.sample_all(texts, 0.2, 7) == first
    assert [tokenizer.decode(ids) for ids in first] == texts
    assert first != tokenizer.encode_all(texts)


def test_sampling_converges_to_the_best_pieces(tokenizer: Tokenizer) -> None:
    texts = [text for pair in PAIRS for text in pair] + [*STRANGE, "", "  a  b ", "<0x41> </s> x▁y"]
    never = (
        0.0 if tokenizer.sampler.dropout else 200.0
    )  # no merge left out; or only the most probable segmentation is left
    assert tokenizer.sample_all(texts, never, 1) == tokenizer.encode_all(texts)


def segmentations(word: str, vocabulary: dict[str, float]) -> list[list[str]]:
    """All segmentations of a word into pieces of the vocabulary."""
    ends = [end for end in range(1, len(word) + 1) if word[:end] in vocabulary]
    return [
        [word[:end], *rest]
        for end in ends
        for rest in (segmentations(word[end:], vocabulary) if word[end:] else [[]])
    ]


def test_unigram_samples_have_the_probabilities_of_the_formula() -> None:
    scores = {
        "▁": -2.0,
        "a": -2.5,
        "b": -3.0,
        "▁a": -2.2,
        "ab": -2.7,
        "ba": -3.1,
        "▁ab": -4.0,
        "aba": -5.0,
    }
    ids = {piece: number for number, piece in enumerate(scores, 4)}
    sampler = Sampler(Vocabulary(ids, scores, UNK, []), dropout=False)
    generator = Random(0)
    alpha = 0.5
    draws = 20_000
    counts = Counter(tuple(sampler.sample("abab", alpha, generator)) for _ in range(draws))
    weights = {
        tuple(ids[p] for p in segmentation): math.exp(alpha * sum(scores[p] for p in segmentation))
        for segmentation in segmentations("▁abab", scores)
    }
    assert len(weights) > 10 and set(counts) <= set(weights)
    for segmentation, weight in weights.items():
        expected = weight / sum(weights.values())
        assert abs(counts[segmentation] / draws - expected) < 5 * math.sqrt(
            expected * (1 - expected) / draws
        )


def test_dropout_leaves_out_merges_with_its_probability() -> None:
    scores = {"▁": -3.0, "a": -4.0, "▁a": 0.0}
    sampler = Sampler(Vocabulary({"▁": 4, "a": 5, "▁a": 6}, scores, UNK, []), dropout=True)
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
    config = TokenizerConfig(algorithm, 295, True, True, 1.0, False, 256)
    model = train_tokenizer.train_sentencepiece(config, [Path(file) for file in sys.argv[1:]])
    lines = ["der Hund schläft", "the cat waits"] * 20
    drawn = tokenizer.Tokenizer(model, False).sample_all(lines, 0.2, 7)
    print(hashlib.sha256(model).hexdigest(), drawn)
"""


def test_other_processes_train_the_same_bytes_and_sample_the_same_pieces(
    files: tuple[Path, Path],
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
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert list(training_lines(list(files), False)) == [source for source, _ in PAIRS] + [
        target for _, target in PAIRS
    ]
    monkeypatch.setattr("nmt.data.train_tokenizer.MAX_LINES", 40)  # of 96 lines: every third
    thinned = [source for source, _ in PAIRS[::3]] + [target for _, target in PAIRS[::3]]
    assert list(training_lines(list(files), False)) == thinned


@pytest.mark.parametrize("algorithm", ["unigram", "bpe"])
def test_the_size_an_error_names_is_possible(files: tuple[Path, Path], algorithm: str) -> None:
    with pytest.raises(UserError, match="tokenizer.vocabulary_size=100 is too small") as caught:
        train_sentencepiece(config(algorithm, 100), list(files))
    match = re.search(r"give at least (\d+)", str(caught.value))
    assert match and "train.de" in str(caught.value)
    named = int(match[1])
    assert (
        Tokenizer(train_sentencepiece(config(algorithm, named), list(files)), False).size == named
    )
    with pytest.raises(UserError):
        train_sentencepiece(config(algorithm, named - 1), list(files))


def test_lines_sentencepiece_would_not_take(tmp_path: Path) -> None:
    path = tmp_path / "train.de"
    path.write_bytes(("x" * 50_000 + "\n\n \na\0b\u2028c\n" + "der Hund schläft\n" * 3).encode())
    assert Tokenizer(train_sentencepiece(config(size=280), [path]), False).size == 280
    path.write_bytes(b"\n \n")
    with pytest.raises(UserError, match="SentencePiece cannot be trained on .*train.de"):
        train_sentencepiece(config(), [path])


def test_joint_and_separate_are_saved_and_loaded(files: tuple[Path, Path], tmp_path: Path) -> None:
    for joint, names in ((True, {"joint.model"}), (False, {"source.model", "target.model"})):
        folder = tmp_path / str(joint)
        folder.mkdir()
        train_tokenizers(
            config(size=300 if joint else 286, joint=joint, lowercase=True), *files, folder
        )
        assert {path.name for path in folder.iterdir()} == names | {"tokenizer.json"}
        loaded = Tokenizers.load(folder)
        assert loaded.joint == joint and loaded.source.lowercase
        copy = tmp_path / f"{joint} copy"
        copy.mkdir()
        loaded.save(copy)
        assert [tokenizer.model for tokenizer in Tokenizers.load(copy)] == [
            tokenizer.model for tokenizer in loaded
        ]
    with pytest.raises(UserError, match="cannot be loaded"):
        Tokenizers.load(tmp_path)

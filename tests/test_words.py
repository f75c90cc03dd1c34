"""From pieces to words: what is a word, and where a piece's weight goes."""

import io

import numpy as np
import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from nmt.corpus.words import WordPair, piece_spans, split_into_words, word_spans


def words(text: str, tokenized: bool = False) -> list[str]:
    return [text[start:end] for start, end in word_spans(text, tokenized)]


def merge(weights: np.ndarray, source: list[str], target: list[str], tokenized: bool = False):
    """Weights between words, source words with </s>, target words."""
    pair = WordPair.from_pieces(source, target, tokenized)
    return pair.merge(weights), pair.columns, pair.target


def test_words_set_punctuation_apart_at_edges_only():
    for text, expected in (
        ("(Hallo!)", "( Hallo ! )"),
        ("I don't pay 3.50 $.", "I don't pay 3.50 $ ."),
        ("Die Fahrrad-Tour, ja?!", "Die Fahrrad-Tour , ja ? !"),
        ("„Nein…“ – sagte er", "„ Nein … “ – sagte er"),
        ("caf⁇ ⁇", "caf⁇ ⁇"),
        ("  a \u3000 b ", "a b"),
    ):
        assert words(text) == expected.split()
    assert words("( don 't ... )", tokenized=True) == ["(", "don", "'t", "...", ")"]


def test_spans_of_bytes_and_unknown():
    text, spans = piece_spans(
        ["▁", "a", "<0xE2>", "<0x82>", "<0xAC>", "<0xC3>", "<unk>", "▁", "<0x41>", "<0xFF>"]
    )
    assert text == "a€\ufffd⁇ A\ufffd"
    assert spans == [(0, 0), (0, 1), (1, 2), (1, 2), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7)]


@pytest.fixture(scope="module")
def processor():
    model = io.BytesIO()
    text = [
        "the cat sat on the mat .",
        "a man sleeps , and the dog barks !",
        "der Hund schläft nicht .",
    ] * 5
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text),
        model_writer=model,
        vocab_size=285,
        byte_fallback=True,
        minloglevel=2,
    )
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def test_spans_spell_what_sentencepiece_decodes(processor):
    for text in ("the cat sleeps.", "schläft 東京 € nicht 🙂 !", "  Ωmega  the ", "", "x▁y"):
        pieces = processor.encode(text, out_type=str)
        spelled, spans = piece_spans(pieces)
        assert spelled == processor.decode(processor.encode(text)) and len(spans) == len(pieces)


PIECES = st.lists(
    st.one_of(
        st.text("▁ab.,!'äß京は", min_size=1, max_size=5),
        st.integers(0, 255).map("<0x{:02X}>".format),
        st.sampled_from(["<unk>", "▁", "<0xE2>", "<0x82>", "<0xAC>"]),
    ),
    max_size=12,
)


@given(PIECES)
def test_spans_follow_each_other_and_cover_the_text(pieces):
    text, spans = piece_spans(pieces)
    # A space that is spelled as a byte stays, in SentencePiece too.
    assert len(spans) == len(pieces) and ("<0x20>" in pieces or not text.startswith(" "))
    end_before = 0
    for index, (start, end) in enumerate(spans):
        repeats = index > 0 and (start, end) == spans[index - 1] and pieces[index].startswith("<0x")
        assert start == end_before or repeats
        end_before = end
    assert end_before == len(text)


def test_merge_by_hand():
    source = ["▁Ein", "▁Hau", "s", "."]
    target = ["▁a", "▁hou", "se."]
    weights = np.array(
        [
            [0.6, 0.1, 0.1, 0.1, 0.1],
            [0.1, 0.5, 0.2, 0.1, 0.1],
            [0.0, 0.3, 0.1, 0.4, 0.2],
            [0.0, 0.0, 0.0, 0.0, 1.0],  # the row of </s>
        ]
    )
    matrix, source_words, target_words = merge(weights, source, target)
    assert source_words == ["Ein", "Haus", ".", "</s>"]
    assert target_words == ["a", "house", "."]
    # "se." gives two of its three characters to "house": row = (1 · hou + 2/3 · se.) / (5/3) = 0.6
    # hou + 0.4 se.
    expected = [[0.6, 0.2, 0.1, 0.1], [0.06, 0.58, 0.22, 0.14], [0.0, 0.4, 0.4, 0.2]]
    np.testing.assert_allclose(matrix, expected, atol=1e-12)
    # without the row of </s>
    np.testing.assert_allclose(merge(weights[:3], source, target)[0], matrix)


def test_scripts_without_spaces_keep_their_pieces():
    assert split_into_words(["▁私は", "猫", "が好き", "。", "▁OK", "AY"])[0] == [
        "私は",
        "猫",
        "が好き",
        "。",
        "OKAY",
    ]
    assert split_into_words(["▁私は", "猫"], tokenized=True)[0] == ["私は猫"]
    assert split_into_words(["▁", "<0xE4>", "<0xBA>", "<0xAC>", "都"])[0] == ["京", "都"]


@given(PIECES, PIECES, st.integers(0, 2**32 - 1), st.booleans(), st.booleans())
def test_merging_loses_no_weight(source, target, seed, ending, tokenized):
    weights = np.random.default_rng(seed).random((len(target) + ending, len(source) + 1))
    matrix, source_words, target_words = merge(weights, source, target, tokenized)
    assert matrix.shape == (len(target_words), len(source_words)) and source_words[-1] == "</s>"
    _, _, fractions = split_into_words(target, tokenized)
    assert (fractions >= 0).all() and (fractions.sum(axis=0) > 0).all()
    if target_words:
        np.testing.assert_allclose(fractions.sum(axis=1), 1)  # a piece is divided without a rest
    if len(source_words) == 1:
        return  # a source without words: only the column of </s> is left
    mass = weights[: len(target)].sum(axis=1)
    for word, total in enumerate(matrix.sum(axis=1)):
        np.testing.assert_allclose(total, np.average(mass, weights=fractions[:, word]))


SOURCE_PIECES = ["▁the", "▁gar", "den", "er", "▁sleeps", "."]  # words: the gardener sleeps .


def columns_of(pieces: list[str]) -> list[float]:
    return WordPair.from_pieces(pieces, []).piece_columns.tolist()


def window_spans(p_t: np.ndarray, radius: float, source: list[str], target: list[str]):
    return WordPair.from_pieces(source, target).window_spans(p_t, radius)


def test_p_t_is_interpolated_between_words_as_between_pieces():
    """Linear between pieces; p_t may be up to S + 1, which is drawn at </s>. Pieces have the
    columns of their words."""
    assert columns_of(SOURCE_PIECES) == [0, 1, 1, 1, 2, 3, 4]
    # the comma is one of six characters
    assert columns_of(["▁don't,"]) == [pytest.approx(1 / 6), 2]
    for position, expected in (
        (0, 0),
        (0.5, 0.5),
        (2, 1),
        (3.25, 1.25),
        (5.5, 3.5),
        (7, 4),
        (-1, 0),
    ):
        (span,) = window_spans(np.array([position]), 1, SOURCE_PIECES, ["▁x"])
        assert span is not None and span[0] == pytest.approx(expected)


def test_the_window_of_local_attention_in_words():
    """D = 1. der: p_t = 0.5 reaches pieces 0 and 1. Gärtner: pieces at 2 and 4, so 1 to 5, p_t the
    mean of 1 and 2.

    schläft: p_t = 7, past </s> (6), reaches only that: column 4.
    """
    spans = window_spans(
        np.array([0.5, 2, 4, 7, 0]), 1, SOURCE_PIECES, ["▁der", "▁Gärt", "ner", "▁schläft"]
    )
    # Gärtner has the pieces "▁Gärt" (4 letters) and "ner" (3): each counts once, as for the
    # weights.
    assert spans == [(0.5, 0, 1), (pytest.approx(1.5), 1, 3), (4, 4, 4)]


@given(PIECES.filter(bool), PIECES.filter(bool), st.integers(1, 4), st.integers(0, 10**6))
def test_no_weight_is_outside_its_window(source, target, radius, seed):
    """Weights that are 0 outside of |s − p_t| ≤ D are 0 outside of the window of words, too; p_t is
    inside of it."""
    size = len(source) + 1
    centres = np.random.default_rng(seed).uniform(0, size, len(target))
    weights = (np.abs(np.arange(size) - centres[:, None]) <= radius).astype(float)
    matrix, _, _ = merge(weights, source, target)
    spans = window_spans(centres, radius, source, target)
    assert len(spans) == len(matrix)
    for row, span in zip(matrix, spans, strict=True):
        assert span is not None and span[1] <= span[0] + 1e-9 and span[0] <= span[2] + 1e-9
        columns = np.flatnonzero(row > 1e-12)
        assert columns.size == 0 or (span[1] <= columns.min() and columns.max() <= span[2])


@pytest.mark.parametrize("shape", [(0, 3), (3, 3), (1, 2), (1, 4), (2, 2)])
def test_weights_of_another_shape_are_refused(shape):
    """Of a target of one piece and a source of two; </s> may be a row, and must be a column."""
    words = WordPair.from_pieces(["▁ein", "e"], ["▁a"])
    assert words.merge(np.ones((1, 3))).shape == words.merge(np.ones((2, 3))).shape == (1, 2)
    with pytest.raises(ValueError, match=f"{shape[0]} × {shape[1]}"):
        words.merge(np.ones(shape))
    with pytest.raises(ValueError, match="1 target pieces"):
        words.window_spans(np.ones(3), 1.0)

"""Links from weights, what is drawn of them, Pharaoh files, and the error rate by hand."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
from corpora import Trained, pairs
from hypothesis import given
from hypothesis import strategies as st

import nmt
from nmt.corpus.links import Link, format_links, parse_links
from nmt.corpus.words import WordPair
from nmt.decode.forced_decoding import AttentionRecord
from nmt.errors import UserError
from nmt.evaluate.aer import (
    GoldAlignments,
    alignment_error_rates,
    corpus_score,
    count_links,
    read_gold_alignments,
)
from nmt.evaluate.alignment import Alignment
from nmt.evaluate.extraction import Extractor, extract_links, record_words
from nmt.view.heatmap import GoldLinks

LINKS = st.sets(st.tuples(st.integers(0, 30), st.integers(0, 30)))


def test_links_by_hand():
    """Sure links are possible too; a reversed file names the target first; links are written sorted
    by number."""
    assert parse_links(" 0-0 1-2\t2p1 1p2 \n") == ({(0, 0), (1, 2)}, {(0, 0), (1, 2), (2, 1)})
    assert parse_links("1-1 2p10", base=1) == ({(0, 0)}, {(0, 0), (1, 9)})
    assert parse_links("1-2 3p4", reverse=True) == ({(2, 1)}, {(2, 1), (4, 3)})
    assert format_links({(10, 0), (2, 1), (2, 0)}) == "2-0 2-1 10-0"
    assert format_links({(5, 0), (0, 1)}, base=1, reverse=True) == "1-6 2-1"


@given(LINKS, st.integers(0, 1), st.booleans())
def test_what_is_written_can_be_read(links, base, reverse):
    assert parse_links(format_links(links, base, reverse), base, reverse=reverse)[0] == links


@pytest.mark.parametrize(
    "token", "1:2 1- -1-2 1-2-3 1–2 ²-1 1?2 1-9999999999".split() + ["0-" + "9" * 5000]
)
def test_a_bad_token_is_named_with_file_and_line(token):
    """Python itself refuses to read a number of thousands of digits, with an error of its own."""
    with pytest.raises(UserError, match="gold.txt:12: '") as caught:
        parse_links(f"0-0 {token}", where="gold.txt:12")
    assert len(str(caught.value)) < 200


def aer(links, sure, possible):
    """AER, precision and recall of a corpus, one set a sentence pair."""
    return corpus_score(sum(map(count_links, links, sure, possible)))


# three target words, two source words, </s>
MATRIX = np.array([[0.5, 0.2, 0.3], [0.05, 0.15, 0.8], [0.0, 0.0, 1.0]])


def test_argmax_never_links_the_end():
    assert extract_links(MATRIX) == {(0, 0), (1, 1)}
    assert extract_links(np.ones((2, 1))) == set()
    assert extract_links(np.array([[0.5, 0.5, 0.0]])) == {(0, 0)}


def test_threshold_includes_its_value():
    assert extract_links(MATRIX, 0.15) == {(0, 0), (1, 0), (1, 1)}
    assert extract_links(MATRIX, 0.8) == set()  # 0.8 and 1.0 are at </s>
    for threshold in (0.0, -1.0, 1.5, float("nan")):
        with pytest.raises(UserError, match="threshold"):
            extract_links(MATRIX, threshold)


def test_aer_of_pharaoh_lines_by_hand():
    for drawn, gold, base, expected in (
        # S = {00, 11}, P = S + {12}; A = {00, 12}: |A∩S| = 1, |A∩P| = 2: 1 − 3/4, 2/2, 1/2.
        ("0-0 1-2", "0-0 1-1 1p2", 0, (0.25, 1.0, 0.5)),
        # A = {00, 01, 20} against S = {00, 20}, P = S + {21}: hits 2 and 2: 1 − 4/5, 2/3, 2/2.
        ("0-0 0-1 2-0", "0-0 2-0 2p1", 0, (0.2, 2 / 3, 1.0)),
        # nothing drawn: 1 − 0/(0 + 2); no link is wrong, both are missed
        ("", "0-0 1-1", 0, (1.0, 1.0, 0.0)),
        # no gold links: 1 − 0/(2 + 0); both links are wrong, none is missed
        ("0-0 1-1", "", 0, (1.0, 0.0, 1.0)),
        ("", "", 0, (0.0, 1.0, 1.0)),
        # only possible links: A = {00, 11}, P = {00}: 1 − (0 + 1)/(2 + 0), 1/2, nothing sure is
        # missed
        ("0-0 1-1", "0p0", 0, (0.5, 0.5, 1.0)),
        # words count from 1, three source words for one target word: A = {00}, S = {00, 10, 20}: 1
        # − 2/4, 1/1, 1/3
        ("1-1", "1-1 2-1 3-1", 1, (0.5, 1.0, 1 / 3)),
    ):
        links, _ = parse_links(drawn, base)
        sure, possible = parse_links(gold, base)
        assert aer([links], [sure], [possible]) == pytest.approx(expected), (drawn, gold)


def test_aer_sums_counts_over_the_corpus():
    # |A| = 1 + 3, |S| = 1 + 1, hits sure 1 + 0, possible 1 + 0: 1 − 2/6; the mean of the lines
    # would be (0 + 1) / 2.
    links = [{(0, 0)}, {(0, 1), (1, 2), (2, 3)}]
    sure = [{(0, 0)}, {(0, 0)}]
    assert aer(links, sure, sure) == pytest.approx((2 / 3, 1 / 4, 1 / 2))


@given(LINKS.filter(bool), LINKS, LINKS)
def test_aer_between_sure_and_possible_is_zero(sure, possible, more):
    possible = sure | possible
    assert aer([sure | (more & possible)], [sure], [possible]).aer == pytest.approx(0)
    assert 0 <= aer([more], [sure], [possible]).aer <= 1


PIECES = ["▁Ein", "▁Junge", "▁malt", "."]  # four words; three when the text is tokenized


@pytest.mark.parametrize(
    ("links", "tokenized", "message"),
    [
        ({(3, 1)}, False, None),
        ({(0, 0), (3, 1)}, True, "source word 3, but the source has 3 words"),
        ({(0, 0), (4, 1)}, False, "source word 4, but the source has 4 words"),
        ({(0, 2)}, False, "target word 2, but the target has 2 words"),
        (set(), False, None),
    ],
)
@pytest.mark.parametrize("base", [0, 1])
def test_gold_links_to_missing_words_are_named_with_file_and_line(links, tokenized, message, base):
    words = WordPair.from_pieces(PIECES, PIECES[:2], tokenized)
    gold = GoldAlignments(Path("a.gold"), [], [(set(), {(9, 9)}), (set(), links)], base)
    if message is None:
        gold.check(1, words)
        return
    if base:
        message = re.sub(r"word (\d)", lambda match: f"word {int(match[1]) + 1}", message)
    with pytest.raises(UserError, match=f"a.gold:2: .*{message}, counted from {base}"):
        gold.check(1, words)


def test_gold_files_are_read_line_by_line(tmp_path):
    path = tmp_path / "a.gold"
    path.write_text("1-2\n\n2p1\n", encoding="utf-8")
    pairs = [("a", "b")] * 3
    wanted = [({(1, 2)}, {(1, 2)}), (set(), set()), (set(), {(2, 1)})]
    assert read_gold_alignments(path, pairs).links == wanted
    assert read_gold_alignments(path, pairs, base=1, reverse=True).links[0] == ({(1, 0)}, {(1, 0)})
    with pytest.raises(UserError, match="3 lines.* 2 sentence pairs"):
        read_gold_alignments(path, pairs[:2])
    digests = set()
    for base, reverse, tokenized in itertools.product((0, 1), (False, True), (False, True)):
        digests.add(read_gold_alignments(path, pairs, base, reverse, tokenized).digest())
    assert len(digests) == 8


def random_record(source: int, target: int, heads: int = 2, p_t: bool = False) -> AttentionRecord:
    """Two layers; each piece is a word."""
    generator = np.random.default_rng(3)
    weights = generator.dirichlet(np.ones(source + 1), (2, heads, target + 1))
    return AttentionRecord(
        [f"▁{letter}" for letter in "abcdefgh"[:source]],
        [f"▁{letter}" for letter in "ABCDEFGH"[:target]],
        [0.0] * (target + 1),
        weights,
        generator.dirichlet(np.ones(source + 1), target + 1),
        generator.uniform(0, source, target + 1) if p_t else None,
        1.0 if p_t else None,
    )


def alignment_of(record: AttentionRecord, extractor: Extractor) -> Alignment:
    return Alignment(record, record_words(record), extractor)


# What is read off, its layers and heads, and how it is called
READINGS = [
    (Extractor(), [1], [0, 1], "layer 1, mean of 2 heads"),
    (Extractor(0, 1), [0], [1], "layer 0, head 1"),
    (Extractor(7, 0, "input"), [1], [0], "layer 1, head 0"),
    (Extractor((-9, -1), None, "input"), [0, 1], [0, 1], "mean of layers 0,1, mean of 2 heads"),
    (Extractor((0, 1), 0), [0, 1], [0], "mean of layers 0,1, head 0"),
]


@pytest.mark.parametrize(("extractor", "layers", "heads", "name"), READINGS)
@pytest.mark.parametrize("most", [None, 3])
def test_a_figure_shows_what_is_read_off(extractor, layers, heads, name, most):
    """Cut to the first words, of which the caption tells; with all heads, a panel for each."""
    record = random_record(5, 3, p_t=True)
    alignment = alignment_of(record, extractor)
    first = 1 if extractor.decoder_step == "input" else 0
    of_heads = record.weights[layers].mean(0)[:, first : first + 3, :most]
    step = ", decoder step input" if first else ""

    figure = alignment.figure(title="tiny", max_words=most)
    axes = figure.axes[0]
    np.testing.assert_allclose(axes.images[0].get_array(), of_heads[heads].mean(0))
    assert axes.get_title(loc="left") == f"tiny\n{name}{step}"
    source = [text.get_text() for text in axes.get_xticklabels()]
    assert source == ["a", "b", "c", "d", "e", "</s>"][:most]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["A", "B", "C"]
    caption = "".join(text.get_text() for text in figure.texts)
    assert ("the first 3 of 5 source words" in caption) == (most is not None)
    assert "target words" not in caption

    panels = [axes for axes in alignment.figure(True, title="tiny").axes if axes.images]
    assert len(panels) == 2
    for number, axes in enumerate(panels):
        title = axes.get_title(loc="left")
        assert title.startswith("tiny\n") == (number == 0)
        assert title.endswith(f", head {number}{step}")
        if most is None:
            np.testing.assert_allclose(axes.images[0].get_array(), of_heads[number])


@pytest.mark.parametrize(("extractor", "layers", "heads", "name"), READINGS)
@pytest.mark.parametrize("every_head", [False, True])
def test_a_page_shows_what_is_read_off_and_what_else_there_is(
    extractor, layers, heads, name, every_head
):
    """Without a chosen head each layer and the rollout; with `every_head` each head."""
    record = random_record(4, 3)
    first = 1 if extractor.decoder_step == "input" else 0
    rows = slice(first, first + 3)
    wanted = {name: record.weights[layers].mean(0)[heads].mean(0)[rows]}
    if extractor.head is None:
        for layer in range(2):
            of_layer = record.weights[layer].mean(0)[rows]
            wanted[f"layer {layer}, mean of 2 heads"] = of_layer
        wanted["rollout through all layers"] = record.rollout[rows]
    if every_head:
        for layer, head in itertools.product(range(2), range(2)):
            wanted[f"layer {layer}, head {head}"] = record.weights[layer, head, rows]
    gold = ({(0, 0)}, {(1, 2)})
    page = alignment_of(record, extractor).page_pair(every_head, gold)
    assert (page.source, page.target) == (["a", "b", "c", "d", "</s>"], ["A", "B", "C"])
    assert page.gold == gold and page.window_spans is None
    assert list(page.matrices) == list(wanted)
    for each, matrix in wanted.items():
        np.testing.assert_allclose(page.matrices[each], matrix)


def test_some_pairs_are_compared_with_their_own_gold_links(trained: Trained):
    """The links that were found of a pair are its gold links: no error of any pair."""
    translator = nmt.load("tiny", run_folder=trained.runs).translator
    extractor = Extractor(-1)
    known = pairs(6, seed=2)
    found: list[set[Link]] = []
    none = GoldAlignments(Path("none"), known, [(set(), set())] * 6)
    alignment_error_rates(
        translator, none, [extractor], on_links=lambda _, links: found.append(links)
    )
    gold = GoldAlignments(Path("found"), known, [(links, links) for links in found])
    rates = alignment_error_rates(translator, gold, [extractor], rows=[1, 3, 5])
    assert rates[extractor].aer == 0 and found[:3] != [found[row] for row in (1, 3, 5)]


def test_a_figure_of_the_first_words_has_their_gold_links():
    """A link to a word that is not drawn is left out; one to no word of the sentence is refused."""
    alignment = alignment_of(random_record(5, 3), Extractor())

    def marks(gold: GoldLinks) -> int:
        axes = alignment.figure(gold=gold, max_words=3).axes[0]
        return len(axes.patches) + len(axes.collections) + len(axes.lines)

    inside = {(0, 0), (2, 1)}
    assert marks((inside | {(3, 0), (4, 2)}, set())) == marks((inside, set()))
    with pytest.raises(ValueError, match="outside"):
        alignment.figure(gold=({(5, 0)}, set()), max_words=3)
    whole = alignment.figure(max_words=5)
    assert "first" not in "".join(text.get_text() for text in whole.texts)


def test_a_rollout_has_no_heads():
    rollout = alignment_of(random_record(2, 2), Extractor(method="rollout"))
    assert len([axes for axes in rollout.figure().axes if axes.images]) == 1
    with pytest.raises(ValueError, match="rollout"):
        rollout.figure(every_head=True)


def test_a_layer_with_one_head_is_named_without_it():
    page = alignment_of(random_record(2, 2, heads=1), Extractor()).page_pair()
    assert list(page.matrices) == ["layer 1", "layer 0", "rollout through all layers"]


def test_an_alignment_as_text_names_what_each_word_attends_to():
    """From a weight of 0.05 on, the strongest first."""
    record = random_record(2, 2)
    record.weights = np.full((1, 1, 3, 3), [0.049, 0.051, 0.9])
    text = str(alignment_of(record, Extractor()))
    assert text == "A\t</s> 0.90\tb 0.05\nB\t</s> 0.90\tb 0.05"

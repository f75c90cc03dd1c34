"""Pharaoh files, links from weights, and the alignment error rate by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.errors import UserError
from nmt.evaluate.alignment import aer, argmax_links, format_links, parse_links, threshold_links

LINKS = st.sets(st.tuples(st.integers(0, 30), st.integers(0, 30)))


def test_sure_links_are_possible_too():
    assert parse_links(" 0-0 1-2\t2p1 1p2 \n") == ({(0, 0), (1, 2)}, {(0, 0), (1, 2), (2, 1)})
    assert parse_links("") == (set(), set())
    assert parse_links("1-1 2p10", base=1) == ({(0, 0)}, {(0, 0), (1, 9)})


def test_links_are_written_sorted_by_number():
    assert format_links({(10, 0), (2, 1), (2, 0)}) == "2-0 2-1 10-0"
    assert format_links([(0, 0)], base=1) == "1-1"


@given(LINKS, st.integers(0, 1))
def test_what_is_written_can_be_read(links, base):
    assert parse_links(format_links(links, base), base)[0] == links


@pytest.mark.parametrize("token", ["1:2", "1-", "a-b", "-1-2", "1-2-3", "1–2", "²-1", "1?2"])
def test_a_bad_token_is_named_with_its_place(token):
    with pytest.raises(UserError) as caught:
        parse_links(f"0-0 {token}", where="gold.txt:12")
    assert str(caught.value).startswith(f"gold.txt:12: '{token}'")
    assert "i-j" in str(caught.value)


def test_an_index_below_the_base_names_the_base():
    with pytest.raises(UserError, match=r"gold.txt:3: link '0-1' .* base 1"):
        parse_links("1-1 0-1", base=1, where="gold.txt:3")


MATRIX = np.array([[0.5, 0.2, 0.3], [0.05, 0.15, 0.8], [0.0, 0.0, 1.0]])  # three target words, two source words, </s>


def test_argmax_never_links_the_end():
    assert argmax_links(MATRIX) == {(0, 0), (1, 1)}
    assert argmax_links(MATRIX, end=False) == {(0, 0), (2, 1), (2, 2)}
    assert argmax_links(np.ones((2, 1))) == set()
    assert argmax_links(np.array([[0.5, 0.5, 0.0]])) == {(0, 0)}


def test_threshold_includes_its_value():
    assert threshold_links(MATRIX, 0.15) == {(0, 0), (1, 0), (1, 1)}
    assert threshold_links(MATRIX, 0.8, end=False) == {(2, 1), (2, 2)}
    for threshold in (0.0, -1.0, 1.5, float("nan")):
        with pytest.raises(UserError, match="threshold"):
            threshold_links(MATRIX, threshold)


def test_aer_by_hand():
    # A = {00, 11, 21}, S = {00, 22}, P = S + {11}: |A∩S| = 1, |A∩P| = 2, so 1 − 3/5.
    links, sure, possible = {(0, 0), (1, 1), (2, 1)}, {(0, 0), (2, 2)}, {(0, 0), (2, 2), (1, 1)}
    assert aer([links], [sure], [possible]) == pytest.approx((0.4, 2 / 3, 0.5))
    assert aer([links], [sure], [{(1, 1)}]) == pytest.approx((0.4, 2 / 3, 0.5))  # P without S is completed


def test_aer_sums_counts_over_the_corpus():
    # |A| = 1 + 3, |S| = 1 + 1, hits sure 1 + 0, possible 1 + 0: 1 − 2/6; the mean of the lines would be (0 + 1) / 2.
    links = [{(0, 0)}, {(0, 1), (1, 2), (2, 3)}]
    sure = [{(0, 0)}, {(0, 0)}]
    assert aer(links, sure, sure) == pytest.approx((2 / 3, 1 / 4, 1 / 2))


def test_aer_of_nothing():
    assert aer([set()], [set()], [set()]) == (0.0, 1.0, 1.0)
    assert aer([set()], [{(0, 0)}], [set()]) == (1.0, 1.0, 0.0)
    assert aer([{(0, 0)}], [set()], [set()]) == (1.0, 0.0, 1.0)
    with pytest.raises(UserError, match="1 lines .* 2 lines"):
        aer([set()], [set(), set()], [set(), set()])


@given(LINKS.filter(bool), LINKS, LINKS)
def test_aer_between_sure_and_possible_is_zero(sure, possible, more):
    possible = sure | possible
    assert aer([sure | (more & possible)], [sure], [possible]).aer == pytest.approx(0)
    assert 0 <= aer([more], [sure], [possible]).aer <= 1

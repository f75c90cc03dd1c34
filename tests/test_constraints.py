"""What a hypothesis may write next, against the rules written out for one hypothesis at a time."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_beam_search import WORDS, Table, random_table, sources

from nmt.data.tokenizer import BOS, EOS, PAD
from nmt.decode.beam_search import search
from nmt.decode.constraints import (
    ForcedColumns,
    LoopAndPlaceholderConstraint,
    has_loop,
    source_repeats,
)

LONGEST_PERIOD = 32
VOCABULARY = 60
SOURCE_PLACEHOLDERS = [4, 5]
PLACEHOLDERS = [6, 7]


def run_at_end(ids: list[int], period: int) -> int:
    """How many pieces at the end equal the piece one period before."""
    run = 0
    while run < len(ids) - period and ids[-1 - run] == ids[-1 - run - period]:
        run += 1
    return run


def repeats_of(source: list[int]) -> int:
    """How often a span of the source stands in a row; a last, shorter one counts as well."""
    most = 1
    for end in range(1, len(source) + 1):
        for period in range(1, LONGEST_PERIOD + 1):
            run = run_at_end(source[:end], period)
            if run >= min(period, 2):
                most = max(most, 1 + math.ceil(run / period))
    return most


def completes_loop(repeats: int, ids: list[int]) -> bool:
    """Whether the last of these pieces makes a span stand in a row once more than is allowed."""
    for period in range(1, LONGEST_PERIOD + 1):
        allowed = repeats if period >= 8 else max(2, repeats)
        is_stopped_early = 3 <= period < 8
        if run_at_end(ids, period) >= allowed * period - is_stopped_early:
            return True
    return False


def constrained(
    source: list[int], ids: list[int], values: list[float], avoid_loops: bool
) -> list[float]:
    """The log-probabilities of the next piece."""
    values = list(values)
    if avoid_loops:
        repeats = repeats_of(source)
        for piece in set(ids):
            if completes_loop(repeats, [*ids, piece]):
                values[piece] = -math.inf
    missing = []
    for source_piece, piece in zip(SOURCE_PLACEHOLDERS, PLACEHOLDERS, strict=True):
        if source_piece in source and piece not in ids:
            missing.append(piece)
        else:
            values[piece] = -math.inf
    if missing:
        values[missing[0]] = max(values[missing[0]], values[EOS])
        values[EOS] = -math.inf
    return values


PIECES = st.integers(8, 11)
SOURCES = st.lists(st.sampled_from([*SOURCE_PLACEHOLDERS, 8, 9]), max_size=9)


def padded(lines: list[list[int]]) -> torch.Tensor:
    width = max(map(len, lines)) + 2
    return torch.tensor([[*line, EOS] + [PAD] * (width - 1 - len(line)) for line in lines])


@st.composite
def looping_texts(draw) -> list[int]:
    """Some pieces, and a span again and again, which a placeholder may interrupt."""
    period = draw(st.sampled_from([1, 2, 3, 4, 7, 8, 9, LONGEST_PERIOD, LONGEST_PERIOD + 1]))
    first = draw(st.integers(8, 12))
    text = draw(st.lists(PIECES, max_size=3))
    text += [first + number % period for number in range(min(3 * period, period + 20) + 4)]
    if draw(st.booleans()):
        text.insert(draw(st.integers(0, len(text))), draw(st.sampled_from(PLACEHOLDERS)))
    return text


@given(
    st.lists(st.tuples(SOURCES, looping_texts()), min_size=1, max_size=3),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=30)
def test_what_may_be_written_next(rows, avoid_loops, seed):
    """Two hypotheses of each sentence, which swap places at every piece, till its text ends."""
    generator = torch.Generator().manual_seed(seed)
    constraint = LoopAndPlaceholderConstraint.start(
        padded([source for source, _ in rows]), SOURCE_PLACEHOLDERS, PLACEHOLDERS, avoid_loops
    )
    written: list[list[list[int]]] = [[[]] for _ in rows]
    for column in range(max(len(text) for _, text in rows)):
        count = len(written[0])
        values = torch.randn(len(rows), count, VOCABULARY, generator=generator)
        values[:, :, PAD] = -math.inf
        changed = values.clone()
        constraint.apply(changed)
        for row, (source, _) in enumerate(rows):
            for number, ids in enumerate(written[row]):
                wanted = constrained(source, ids, values[row, number].tolist(), avoid_loops)
                assert changed[row, number].tolist() == pytest.approx(wanted)

        still_open = [row for row, (_, text) in enumerate(rows) if len(text) > column + 1]
        rows = [rows[row] for row in still_open]
        written = [written[row] for row in still_open]
        if not rows:
            break
        parents = torch.tensor([[count - 1, 0]] * len(rows))
        tokens = torch.tensor([[text[column], 8] for _, text in rows])
        constraint = constraint.extend(torch.tensor(still_open), parents, tokens)
        for row, (_, text) in enumerate(rows):
            first = written[row][0]
            last = written[row][-1]
            written[row] = [[*last, text[column]], [*first, 8]]


@given(SOURCES, looping_texts())
def test_a_text_has_a_loop_where_the_search_would_have_stopped(source, text):
    beginnings = [text[:length] for length in range(1, len(text) + 1)]
    repeats = repeats_of(source)
    has_loops = [completes_loop(repeats, beginning) for beginning in beginnings]
    wanted = list(itertools.accumulate(has_loops, max))
    assert [has_loop([*source, EOS], beginning) for beginning in beginnings] == wanted


@given(st.lists(looping_texts(), min_size=1, max_size=3))
def test_repeats_of_sources(lines):
    assert source_repeats(padded(lines)).tolist() == [repeats_of(line) for line in lines]


@pytest.mark.parametrize("begin", [[], [8], [8, 8, 8], [PLACEHOLDERS[1]], [8, PLACEHOLDERS[1]]])
def test_a_search_keeps_the_constraint(begin):
    """What a target begins with counts as written.

    The table likes 8 best, the end next, and the placeholders not at all.
    """
    table = torch.zeros(1, 20, VOCABULARY, VOCABULARY)
    table[..., 8] = 5.0
    table[..., EOS] = 4.0
    table[..., PLACEHOLDERS] = -9.0
    source = torch.tensor([[0, SOURCE_PLACEHOLDERS[1], 9, 9, 9, EOS]])
    constraint = LoopAndPlaceholderConstraint.start(source, SOURCE_PLACEHOLDERS, PLACEHOLDERS)
    beginning = torch.tensor([begin]) if begin else None
    limit = torch.tensor([20])
    [hypotheses] = search(Table(table), source, None, 2, 0.0, limit, constraint, beginning)
    for hypothesis in hypotheses:
        assert hypothesis.ids[: len(begin)] == begin
        assert hypothesis.ids.count(PLACEHOLDERS[1]) == 1
        assert not has_loop(source[0].tolist(), hypothesis.ids)
    if not begin:
        assert sorted(hypotheses[0].ids) == [PLACEHOLDERS[1], 8, 8, 8]


@pytest.mark.parametrize("begin", [[], [8], [8, 9, 8, 9, 8, 9]])
def test_at_its_limit_a_hypothesis_ends_in_spite_of_the_constraint(begin):
    """A placeholder is still missing; the end has the probability that the model gives it."""
    table = random_table(1, len(begin) + 1, seed=1, pieces=VOCABULARY)
    source = torch.tensor([[SOURCE_PLACEHOLDERS[0], 9, EOS]])
    constraint = LoopAndPlaceholderConstraint.start(source, SOURCE_PLACEHOLDERS, PLACEHOLDERS)
    beginning = torch.tensor([begin]) if begin else None
    limit = torch.tensor([len(begin) + 1])
    source[:] = 0  # the table has one sentence
    [[found]] = search(Table(table), source, None, 2, 0.0, limit, constraint, beginning)
    logits = table[0, len(begin), [BOS, *begin][-1]]
    logits[BOS] = -math.inf
    assert found.ids == begin
    assert found.score == pytest.approx(logits.log_softmax(-1)[EOS].item(), abs=1e-5)


COLUMNS = st.lists(st.sets(st.sampled_from(WORDS), min_size=1).map(tuple), max_size=3)


@given(st.lists(COLUMNS, min_size=1, max_size=3), st.integers(0, 2**32 - 1))
def test_forced_columns_hold_one_of_their_pieces(templates, seed):
    """Each choice is found, with the score that it has without the constraint."""
    table = random_table(len(templates), 4, seed)
    limits = torch.tensor([len(template) + 1 for template in templates])
    constraint = ForcedColumns.start(templates, 6, torch.device("cpu"))
    found = search(Table(table), sources(len(templates)), None, 27, 0.0, limits, constraint)
    table[..., BOS] = -math.inf
    log_probabilities = table.log_softmax(-1)
    for row, (template, hypotheses) in enumerate(zip(templates, found, strict=True)):
        scores = {}
        for ids in itertools.product(*template):
            path = zip([BOS, *ids], [*ids, EOS], strict=True)
            steps = [log_probabilities[row, step, a, b] for step, (a, b) in enumerate(path)]
            scores[ids] = float(sum(steps))
        assert {tuple(hypothesis.ids) for hypothesis in hypotheses} == scores.keys()
        for hypothesis in hypotheses:
            assert hypothesis.score == pytest.approx(scores[tuple(hypothesis.ids)], abs=1e-5)

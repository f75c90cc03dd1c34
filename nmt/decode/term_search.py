"""Puts the terms of a glossary into translations that lack them, by a second search.

A sentence is translated as always. If a target term is missing, the words that translate the source
term are found and replaced. Beam search chooses between the forms of the term, with all other
columns forced (`ForcedColumns`). So a sentence stays as it is if it has no term, or if the model
writes its terms by itself, in a form of its own.

Which words it replaces. The loss of a target piece is how much its log-probability falls when the
source term is removed (prediction difference, Li et al. 2019, "On the Word Alignment from Neural
Machine Translation"). A model with attention also has its weights on the source term, the mean of
all heads of the upper half of the layers. Loss and weight are each divided by their largest value,
and added. A term replaces the word with the largest sum. It also replaces the neighbours before
this word whose sums are at least LEFT_SHARE times as large, and those after it with at least
RIGHT_SHARE times: "Bahnhof" is "train station". RIGHT_SHARE is smaller: a later word is predicted
from the words before it, too, and so loses less when the source term is removed. A short word, such
as an article or a preposition, needs EXTRA_IF_SHORT more.

Its form. The term may have an ending of the words that it replaces ("books" → "volumes", "walking"
→ "strolling"), and the word before it may become another form: a → an, der → die. Each of the two
costs COST: it is chosen only if it raises the log-probability of the sentence by more than that.
Without a cost, the model would change the neighbours of a term that it does not expect.

T target pieces, W words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os.path import commonprefix
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nmt.corpus.words import (
    SENTENCE_END,
    SPACELESS,
    Span,
    is_punctuation,
    piece_spans,
    split_into_words,
)
from nmt.data.text_filter import Encoded
from nmt.data.tokenizer import Tokenizer
from nmt.decode.beam_search import Hypothesis, NBest
from nmt.decode.constraints import Column, Template
from nmt.decode.forced_decoding import AttentionRecord, IdPair
from nmt.decode.glossary import LONGEST_ENDING, Glossary, Term, may_have_ending, overlap, word_edges

if TYPE_CHECKING:
    from nmt.decode.translator import Query, Translator

# Shares of the largest sum, chosen by the gold links of the phrasebook's validation set
LEFT_SHARE = 0.6
RIGHT_SHARE = 0.25
EXTRA_IF_SHORT = 0.2
SHORT_WORD = 3  # letters
COST = 1.0  # in log-probability: of an ending, and of another form of the word before the term
ANCHOR = '"'  # a term that is encoded behind it begins without a space


class MissingTerm(NamedTuple):
    """A sentence whose best hypothesis lacks a term."""

    query: Query
    ids: Encoded  # of the hypothesis
    term: Term


class TermSpan(NamedTuple):
    """The pieces of a translation that a term replaces: start … end − 1, none if start = end."""

    start: int
    end: int
    may_change_previous: bool = False  # the word before it may become another form


def write_terms(
    glossary: Glossary, translator: Translator, queries: Sequence[Query], nbest: NBest
) -> NBest:
    """The n best of each query, searched again for each term that its best one lacks."""
    nbest = list(nbest)
    remaining_terms = [glossary.source_terms(query.source) for query in queries]
    while True:
        # The next missing term of each sentence
        missing: dict[int, MissingTerm] = {}
        for row, terms in enumerate(remaining_terms):
            while terms and row not in missing:
                term = terms.pop(0)
                best = queries[row].source.like(nbest[row][0].ids)
                if not glossary.target_spans(best, term.entry):
                    missing[row] = MissingTerm(queries[row], best, term)
        if not missing:
            return nbest
        again = search_again(glossary, translator, list(missing.values()))
        for row, hypotheses in zip(missing, again, strict=True):
            nbest[row] = hypotheses or nbest[row]


def search_again(
    glossary: Glossary, translator: Translator, missing: Sequence[MissingTerm]
) -> Iterator[list[Hypothesis]]:
    """The n best of each sentence with its missing term; none if the term makes it too long."""
    max_length = translator.model.max_length
    # Forced decoding of each pair with and without the source term
    with_terms: list[IdPair] = []
    without_terms: list[IdPair] = []
    for query, ids, term in missing:
        source = query.source
        with_terms.append((source, ids))
        without_terms.append(([*source[: term.start], *source[term.end :]], ids))
    records = list(translator.force_decode_all([*with_terms, *without_terms]))

    # Search by the templates of all sentences together
    queries: list[Query] = []
    all_costs: list[list[float]] = []  # of the templates of each sentence
    for number, sentence in enumerate(missing):
        record = records[number]
        without = records[len(missing) + number]
        costs = []
        for template, cost in sentence_templates(glossary, sentence, record, without):
            # Learned positions have an end, beyond which a longer term would lead
            if max_length is not None and len(template) + 1 > max_length:
                continue
            queries.append(sentence.query._replace(template=template))
            costs.append(cost)
        all_costs.append(costs)
    results = iter(translator.search(queries))

    # Rank the hypotheses of each sentence by log-probability, less the cost
    alpha = translator.decode.length_penalty
    for costs in all_costs:
        scored: list[tuple[float, Hypothesis]] = []
        for cost in costs:
            for hypothesis in next(results):
                log_probability = hypothesis.score * (len(hypothesis.ids) + 1) ** alpha
                scored.append((log_probability - cost, hypothesis))
        scored.sort(key=lambda pair: -pair[0])
        yield [hypothesis for _, hypothesis in scored[: translator.decode.beam]]


def sentence_templates(
    glossary: Glossary, sentence: MissingTerm, record: AttentionRecord, without: AttentionRecord
) -> Iterator[tuple[Template, float]]:
    """The templates to search a sentence by, with the term in its place, and their costs.

    `record` and `without` are of forced decoding with and without the source term.
    """
    query, ids, term = sentence
    source = query.source
    source_prefix_length = glossary.tokenizers.source.prefix_length(source)
    target_prefix_length = glossary.tokenizers.target.prefix_length(ids)
    prefix = [(piece,) for piece in ids[:target_prefix_length]]
    ids = ids[target_prefix_length:]  # records have no prefixes

    # How much each piece depends on the source term
    loss = np.subtract(record.log_probabilities, without.log_probabilities)[:-1]  # [T]
    weights = None
    if record.weights is not None:
        upper_half = record.weights[record.num_layers // 2 :].mean((0, 1))  # [T+1 S+1]
        term_pieces = slice(term.start - source_prefix_length, term.end - source_prefix_length)
        weights = upper_half[:-1, term_pieces].sum(1)  # [T]

    # Placeholders and the terms that are not missing must stay
    fixed: list[Span] = []
    _, spans = piece_spans(record.target_pieces)
    for span, id in zip(spans, ids, strict=True):
        if id in glossary.tokenizers.target.placeholder_ids:
            fixed.append(span)
    for other in glossary.source_terms(source):
        fixed += glossary.target_spans(ids, other.entry)

    term_span = find_term_span(record.target_pieces, loss, weights, fixed)
    for template, cost in templates_for_span(glossary, ids, term.entry.targets, term_span):
        yield [*prefix, *template], cost


def find_term_span(
    pieces: Sequence[str], loss: np.ndarray, weights: np.ndarray | None, fixed: Sequence[Span]
) -> TermSpan:
    """The span of a term; if no word may be replaced, an empty one at the end of the translation.

    loss [T] and, with attention, weights [T]: how much each piece depends on the source term.
    `fixed`: what must stay, in characters of the text.
    """
    words, word_spans, fractions = split_into_words(list(pieces))  # the last: [T W]

    # The words that may be replaced
    usable = np.zeros(len(words), dtype=bool)
    for index, (word, span) in enumerate(zip(words, word_spans, strict=True)):
        is_fixed = any(overlap(span, other) for other in fixed)
        usable[index] = not is_fixed and not all(map(is_punctuation, word))
    if not usable.any():
        return TermSpan(len(pieces), len(pieces))

    # How much each depends on the source term: the loss of a word is a sum, its weight a mean
    measures = [fractions.T @ loss]  # of [W]
    if weights is not None:
        measures.append(fractions.T @ weights / np.maximum(fractions.sum(0), 1e-12))
    total = np.zeros(len(words))
    for of_words in measures:
        total += np.maximum(of_words, 0) / max(of_words[usable].max(), 1e-12)
    total[~usable] = -np.inf

    # The word that depends most, and the neighbours that depend enough
    first = int(total.argmax())
    last = first
    largest = max(total[first], 1e-12)
    extra = np.array([EXTRA_IF_SHORT if len(word) <= SHORT_WORD else 0.0 for word in words])
    needed_before = largest * (LEFT_SHARE + extra)
    needed_after = largest * (RIGHT_SHARE + extra)
    while first and total[first - 1] >= needed_before[first - 1]:
        first -= 1
    while last + 1 < len(words) and total[last + 1] >= needed_after[last + 1]:
        last += 1
    rows = np.flatnonzero(fractions[:, first : last + 1].any(1))  # pieces of these words
    may_change_previous = first > 0 and bool(usable[first - 1])
    return TermSpan(int(rows[0]), int(rows[-1]) + 1, may_change_previous)


def templates_for_span(
    glossary: Glossary, ids: Encoded, targets: Sequence[str], span: TermSpan
) -> Iterator[tuple[Template, float]]:
    """The templates that have one of the targets in this span, and their costs."""
    tokenizer = glossary.tokenizers.target
    columns: list[Column] = [(piece,) for piece in ids]
    before = columns[: span.start]
    after = columns[span.end :]
    # A list: as they are in the vocabulary, not in the capitals of the source
    pieces = tokenizer.pieces(list(ids))
    replaced, _ = piece_spans(pieces[span.start : span.end])
    similar: list[int] = []  # other forms of the word before
    if span.may_change_previous:
        previous = pieces[span.start - 1]
        words = glossary.words_by_letter.get(previous[1:2], {})
        if previous in words:
            similar = [id for word, id in words.items() if is_form(word, previous)]
    for target in targets:
        for form in forms(target, replaced):
            term = [(piece,) for piece in encode_term(tokenizer, ids, span, form)]
            cost = 0.0 if form == target else COST
            yield [*before, *term, *after], cost
            if similar:
                yield [*before[:-1], tuple(similar), *term, *after], cost + COST


def forms(term: str, replaced: str) -> list[str]:
    """A term, alone and with each ending of the text that it replaces, if it may have endings."""
    result = [term]
    if not may_have_ending(term):
        return result
    longest = min(LONGEST_ENDING, len(replaced) - 2)  # at least two characters remain before it
    for length in range(1, longest + 1):
        ending = replaced[-length:]
        if ending.isalpha() and ending.islower() and not term.endswith(ending):
            result.append(term + ending)
    return result


def is_form(word: str, other: str) -> bool:
    """Whether two pieces may be forms of one word: ▁der and ▁die, ▁a and ▁an, ▁ein and ▁einen.

    They are equally long and differ in the last one or two characters, or one of them is the other
    with one or two characters more, and fewer than the other has.
    """
    short, long = sorted((word, other), key=len)
    common = len(commonprefix((word, other)))
    if len(short) == len(long):
        return len(long) - common in (1, 2)
    more = len(long) - len(short)
    return common == len(short) and more < len(short) and more <= 2


def encode_term(tokenizer: Tokenizer, ids: Encoded, span: TermSpan, term: str) -> list[int]:
    """The pieces of a term in this span, capitalised at the beginning of a sentence."""
    pieces = tokenizer.pieces(ids)
    text_before, _ = piece_spans(pieces[: span.start])
    whole_text, _ = piece_spans(pieces)

    # Its capital letters
    if SENTENCE_END.search(text_before):
        term = term[:1].upper() + term[1:]
    if whole_text.isupper() and not ids.capitals and len(whole_text) > 1:
        term = term.upper()

    # A space before it, unless what it replaces has none and it begins a word even so
    if span.start < len(pieces):
        has_no_space = not pieces[span.start].startswith("▁")
    else:
        has_no_space = bool(SPACELESS.match(term))
    begins_word = len(text_before) in word_edges(text_before + term)
    if has_no_space and text_before and begins_word:
        anchor = tokenizer.encode(ANCHOR)
        encoded = tokenizer.encode(ANCHOR + term)
        if encoded[: len(anchor)] == anchor:
            return encoded[len(anchor) :]
    encoded = tokenizer.encode(term)
    return encoded[tokenizer.prefix_length(encoded) :]

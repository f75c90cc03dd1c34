"""A glossary: terms that translations must have, from lines SOURCE<TAB>TARGET or a termbase.

A sentence is translated as always. If a target term is missing, the words that translate the source
term are found and replaced. Beam search chooses between the forms of the term, with all other
columns forced (`ForcedColumns`). So a sentence stays as it is if it has no term, or if the model
writes its terms by itself, in a form of its own.

Where a source term stands. A term matches as it is written in the file, from word boundary to word
boundary. At the beginning of a sentence its first letter may be a capital. In a line that has only
capitals or only small letters, any case matches. Of overlapping terms the one that begins first is
taken, and the longest of those that begin there. Other forms of a source term need entries of their
own.

Which words it replaces. The loss of a target piece is how much its log-probability falls when the
source term is removed (prediction difference, Li et al. 2019, "On the Word Alignment from Neural
Machine Translation"). A model with attention also has its weights on the source term, the mean of
all heads of the upper half of the layers. Loss and weight are each divided by their largest value,
and added. A term replaces the word with the largest sum. It also replaces the neighbours before
this word whose sums are at least LEFT times as large, and those after it with at least RIGHT times:
"Bahnhof" is "train station". RIGHT is smaller, because the words before a word help to predict it.
A short word, such as an article or a preposition, needs SHORT more.

Its form. The term may have an ending of the words that it replaces ("books" → "volumes", "walking"
→ "strolling"), and the word before it may become another form: a → an, der → die. Each of the two
costs COST, and is chosen only if it makes the sentence likelier by more: since the model does not
expect the term, it would otherwise change the neighbours.

T target pieces, W words.
"""

import hashlib
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os.path import commonprefix
from pathlib import Path
from typing import NamedTuple

import numpy as np
import regex

from nmt.corpus.termbase import term_lines
from nmt.corpus.words import (
    SENTENCE_END,
    SPACELESS,
    Span,
    is_punctuation,
    piece_spans,
    split_into_words,
    word_fractions,
)
from nmt.data.text_filter import Encoded, Protected, unprotected
from nmt.data.tokenizer import UNK, Tokenizers
from nmt.decode.beam_search import Hypothesis, NBest
from nmt.decode.constraints import Column, Template
from nmt.decode.forced_decoding import AttentionRecord, IdPair
from nmt.decode.translator import Query, Translator
from nmt.errors import UserError

FORMAT = "a line is SOURCE<TAB>TARGET, or SOURCE<TAB>TARGET|TARGET where either may be used"

# Shares of the largest sum, chosen by the gold links of the phrasebook's validation set
LEFT = 0.6
RIGHT = 0.25
SHORT = 0.2
SHORTEST = 4  # letters of a word that is not short

SHORTEST_STEM = 4  # letters of a word that may have an ending
LONGEST_ENDING = 3  # letters of the ending
COST = 1.0  # in log-probability: of an ending, and of another form of the word before the term
ANCHOR = '"'  # a term that is encoded behind it begins without a space

# Where a word begins or ends (Unicode Standard Annex 29)
EDGE = regex.compile(r"(?w)\b")
# Deviation: an apostrophe ends a word, as in l'ami
APOSTROPHES = str.maketrans("'’", "  ")


class Entry(NamedTuple):
    """A line of the file."""

    source: str
    targets: tuple[str, ...]
    line: int


class Term(NamedTuple):
    """Where an entry stands in a source, start … end − 1, in characters or in pieces."""

    entry: Entry
    start: int
    end: int


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


@dataclass(frozen=True)
class Glossary:
    """The entries of a file by their source, and the search that writes their targets."""

    entries: Mapping[str, Entry]
    tokenizers: Tokenizers

    @cached_property
    def folded_entries(self) -> dict[str, Entry]:
        """The entries by their source in any case; the first line wins."""
        entries: dict[str, Entry] = {}
        for source, entry in self.entries.items():
            entries.setdefault(folded(source), entry)
        return entries

    @cached_property
    def words_by_letter(self) -> dict[str, dict[str, int]]:
        """The pieces of the target vocabulary that are words, with their ids, by first letter."""
        target = self.tokenizers.target
        words: dict[str, dict[str, int]] = defaultdict(dict)
        for id, piece in enumerate(target.pieces(range(target.size))):
            if piece.startswith("▁") and piece[1:].isalpha():
                words[piece[1]][piece] = id
        return words

    def digest(self) -> str:
        """A hash of the entries, whatever their order."""
        lines = []
        for entry in self.entries.values():
            lines.append(f"{entry.source}\t{'|'.join(entry.targets)}")
        return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()

    def __or__(self, other: "Glossary") -> "Glossary":
        """The terms of both; those of the other glossary count where they have the same source."""
        return Glossary({**self.entries, **other.entries}, self.tokenizers)

    def find_terms(self, text: str, capitals: bool = False) -> list[Term]:
        """The terms of a text in characters, from left to right, without overlaps.

        capitals: whether the text is in capitals, but for spans such as links.
        """
        any_case = self.tokenizers.source.lowercase or capitals or has_one_case(text)
        edges = word_edges(text)
        longest = 1 + max(map(len, self.folded_entries))  # İ may be written as two characters
        terms: list[Term] = []
        for start in edges:
            if terms and start < terms[-1].end:
                continue
            later_edges = edges[bisect_right(edges, start) : bisect_right(edges, start + longest)]
            for end in reversed(later_edges):
                entry = self.entry_at(text, start, end, any_case)
                if entry:
                    terms.append(Term(entry, start, end))
                    break
        return terms

    def entry_at(self, text: str, start: int, end: int, any_case: bool) -> Entry | None:
        """The entry whose source is this span of a text, if there is one."""
        span = text[start:end]
        if any_case:
            entry = self.folded_entries.get(folded(span))
        else:
            entry = self.entries.get(span)
        if entry is None and span[:1].isupper() and SENTENCE_END.search(text, 0, start):
            entry = self.entries.get(span[:1].lower() + span[1:])
        return entry

    def unprotect(self, protected: Protected) -> Protected:
        """A source whose terms have no placeholders: the model must read them to translate them."""
        if not protected.spans:
            return protected
        # The text without placeholders, and the character that each of its characters comes from
        text = ""
        origins: list[str] = []
        for character in protected.text:
            shown = protected.spans.get(character, character)
            text += shown
            origins += [character] * len(shown)
        in_terms: set[str] = set()
        for term in self.find_terms(text, protected.capitals):
            in_terms.update(origins[term.start : term.end])
        return unprotected(protected, in_terms & protected.spans.keys())

    def apply(self, translator: Translator, queries: Sequence[Query], nbest: NBest) -> NBest:
        """The n best of each query, searched again for each term that its best one lacks."""
        nbest = list(nbest)
        remaining_terms = [self.source_terms(query.source) for query in queries]
        while True:
            # The next missing term of each sentence
            missing: dict[int, MissingTerm] = {}
            for row, terms in enumerate(remaining_terms):
                while terms and row not in missing:
                    term = terms.pop(0)
                    best = queries[row].source.like(nbest[row][0].ids)
                    if not self.target_spans(best, term.entry):
                        missing[row] = MissingTerm(queries[row], best, term)
            if not missing:
                return nbest
            again = self.search_again(translator, list(missing.values()))
            for row, hypotheses in zip(missing, again, strict=True):
                nbest[row] = hypotheses

    def search_again(
        self, translator: Translator, missing: Sequence[MissingTerm]
    ) -> Iterator[list[Hypothesis]]:
        """The n best of each sentence with its missing term."""
        # Forced decoding of each pair with and without the source term
        with_terms: list[IdPair] = []
        without_terms: list[IdPair] = []
        for query, ids, term in missing:
            source = query.source
            with_terms.append((source, ids))
            without_terms.append(([*source[: term.start], *source[term.end :]], ids))
        records = list(translator.force_decode_all([*with_terms, *without_terms]))

        # Search the variants of all sentences together
        queries: list[Query] = []
        all_costs: list[list[float]] = []  # of the variants of each sentence
        for number, sentence in enumerate(missing):
            record = records[number]
            without = records[len(missing) + number]
            costs = []
            for template, cost in self.variants(sentence, record, without):
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

    def variants(
        self, missing: MissingTerm, record: AttentionRecord, without: AttentionRecord
    ) -> Iterator[tuple[Template, float]]:
        """The templates to search a sentence by, and their costs.

        `record` and `without` are of forced decoding with and without the source term.
        """
        query, ids, term = missing
        source = query.source
        source_prefix_length = self.tokenizers.source.prefix_length(source)
        target_prefix_length = self.tokenizers.target.prefix_length(ids)
        prefix = [(piece,) for piece in ids[:target_prefix_length]]
        ids = ids[target_prefix_length:]  # records have no prefixes

        # How much each piece depends on the source term
        loss = np.subtract(record.log_probabilities, without.log_probabilities)[:-1]  # [T]
        weights = None
        if record.weights is not None:
            upper_half = record.weights[record.num_layers // 2 :].mean((0, 1))  # [T+1 S+1]
            columns = slice(term.start - source_prefix_length, term.end - source_prefix_length)
            weights = upper_half[:-1, columns].sum(1)  # [T]

        # Placeholders and the terms that are not missing must stay
        fixed: list[Span] = []
        _, spans = piece_spans(record.target_pieces)
        for span, id in zip(spans, ids, strict=True):
            if id in self.tokenizers.target.placeholder_ids:
                fixed.append(span)
        for other in self.source_terms(source):
            fixed += self.target_spans(ids, other.entry)

        term_span = find_term_span(record.target_pieces, loss, weights, fixed)
        for template, cost in self.templates(ids, term.entry.targets, term_span):
            yield [*prefix, *template], cost

    def source_terms(self, source: Encoded) -> list[Term]:
        """The terms of a source, in pieces."""
        tokenizer = self.tokenizers.source
        begin = tokenizer.sentence_start(source)
        text, spans = piece_spans(tokenizer.pieces(source[begin:]))
        terms = []
        for entry, start, end in self.find_terms(text, source.capitals):
            pieces = []
            for piece, span in enumerate(spans, begin):
                if overlap(span, (start, end)):
                    pieces.append(piece)
            terms.append(Term(entry, pieces[0], pieces[-1] + 1))
        return terms

    def target_spans(self, ids: Encoded, entry: Entry) -> list[Span]:
        """Where the targets of an entry stand in a translation, in characters of its text."""
        tokenizer = self.tokenizers.target
        text, _ = piece_spans(tokenizer.pieces(ids[tokenizer.prefix_length(ids) :]))
        any_case = tokenizer.lowercase or ids.capitals or has_one_case(text)
        spans: list[Span] = []
        for target in entry.targets:
            spans += find_target(target, text, any_case)
        return spans

    def templates(
        self, ids: Encoded, targets: Sequence[str], span: TermSpan
    ) -> Iterator[tuple[Template, float]]:
        """The templates that have one of the targets in this span, and their costs."""
        columns: list[Column] = [(piece,) for piece in ids]
        before = columns[: span.start]
        after = columns[span.end :]
        pieces = self.tokenizers.target.pieces(list(ids))  # not in the capitals of the source
        replaced, _ = piece_spans(pieces[span.start : span.end])
        similar: list[int] = []  # other forms of the word before
        if span.may_change_previous:
            previous = pieces[span.start - 1]
            words = self.words_by_letter.get(previous[1:2], {})
            if previous in words:
                similar = [id for word, id in words.items() if is_form(word, previous)]
        for target in targets:
            for form in forms(target, replaced):
                term = [(piece,) for piece in self.encode_term(ids, span, form)]
                cost = 0.0 if form == target else COST
                yield [*before, *term, *after], cost
                if similar:
                    yield [*before[:-1], tuple(similar), *term, *after], cost + COST

    def encode_term(self, ids: Encoded, span: TermSpan, term: str) -> list[int]:
        """The pieces of a term in this span, capitalised at the beginning of a sentence."""
        tokenizer = self.tokenizers.target
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


def word_edges(text: str) -> list[int]:
    """The positions in a text where words begin or end."""
    return [match.start() for match in EDGE.finditer(text.translate(APOSTROPHES))]


def folded(text: str) -> str:
    """The same for a text in any case: ß and SS, σ and ς, and the i with and without a dot."""
    return text.casefold().replace("i\u0307", "i").replace("ı", "i")


def has_one_case(text: str) -> bool:
    """Whether a text has only capitals or only small letters."""
    return text in (text.upper(), text.lower())


def find_target(term: str, text: str, any_case: bool) -> Iterator[Span]:
    """The spans of a target term in a translation, of forms with a short ending as well."""
    edges = word_edges(text)
    longest_ending = LONGEST_ENDING if may_have_ending(term) else 0
    for match in re.finditer(re.escape(term), text, re.IGNORECASE):
        start, stop = match.span()
        index = bisect_left(edges, stop)
        if start not in edges or index == len(edges):
            continue
        end = edges[index]  # of the word, with its ending
        has_ending = end <= stop + longest_ending and text[stop:end].isalpha()
        if end != stop and not has_ending:
            continue
        begins_sentence = SENTENCE_END.search(text, 0, start) is not None
        if any_case or has_case_of(term, match[0], begins_sentence):
            yield start, end


def has_case_of(term: str, match: str, begins_sentence: bool) -> bool:
    """Whether a match has the capitals of the term, and perhaps one more to begin a sentence."""
    if match == term:
        return True
    return begins_sentence and match[:1].isupper() and match[1:] == term[1:]


def may_have_ending(term: str) -> bool:
    last_word = re.split(r"\W", term)[-1]
    is_long = len(last_word) >= SHORTEST_STEM
    return is_long and last_word.isalpha() and not SPACELESS.search(last_word)


def forms(term: str, replaced: str) -> list[str]:
    """A term, alone and with each ending of the text that it replaces, if it may have endings."""
    result = [term]
    if not may_have_ending(term):
        return result
    for length in range(1, min(LONGEST_ENDING, len(replaced) - 2) + 1):
        ending = replaced[-length:]
        if ending.isalpha() and ending.islower() and not term.endswith(ending):
            result.append(term + ending)
    return result


def is_form(word: str, other: str) -> bool:
    """Whether two pieces may be forms of one word: ▁der and ▁die, ▁a and ▁an, ▁ein and ▁einen."""
    short, long = sorted((word, other), key=len)
    common = len(commonprefix((word, other)))
    if len(short) == len(long):
        return len(long) - common in (1, 2)
    more = len(long) - len(short)
    return common == len(short) and more < len(short) and more <= 2


def overlap(span: Span, other: Span) -> bool:
    return span[0] < other[1] and other[0] < span[1]


def find_term_span(
    pieces: Sequence[str], loss: np.ndarray, weights: np.ndarray | None, fixed: Sequence[Span]
) -> TermSpan:
    """The span of a term; the end of the translation if all words must stay.

    loss [T] and, with attention, weights [T]: how much each piece depends on the source term.
    `fixed`: what must stay, in characters of the text.
    """
    words, word_spans, of_pieces = split_into_words(list(pieces))
    fractions = word_fractions(of_pieces, word_spans)  # [T W]

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
    short = np.array([SHORT if len(word) < SHORTEST else 0.0 for word in words])
    left = largest * (LEFT + short)
    right = largest * (RIGHT + short)
    while first and total[first - 1] >= left[first - 1]:
        first -= 1
    while last + 1 < len(words) and total[last + 1] >= right[last + 1]:
        last += 1
    rows = np.flatnonzero(fractions[:, first : last + 1].any(1))  # pieces of these words
    may_change_previous = first > 0 and bool(usable[first - 1])
    return TermSpan(int(rows[0]), int(rows[-1]) + 1, may_change_previous)


def open_glossary(
    path: Path, translator: Translator, languages: tuple[str, str] = ("", "")
) -> Glossary:
    """The terms of a file for a translator; raises UserError.

    `languages`: source and target, which a termbase is asked for (nmt/corpus/termbase.py).
    """
    return read_glossary(term_lines(path, *languages), translator, str(path))


def read_glossary(lines: Iterable[str], translator: Translator, name: str) -> Glossary:
    """The glossary in the lines of a file, for a translator; `name`: what messages call it.

    Raises UserError, with the number of the line, for a file that is wrong, or a term that the
    translator cannot write.
    """
    entries: dict[str, Entry] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{name}, line {number},"
        entry = parse_entry(line, number)
        if entry is None:
            raise UserError(f"{where} is not an entry of a glossary; {FORMAT}.")
        before = entries.setdefault(entry.source, entry)
        if before.targets != entry.targets:
            raise UserError(
                f"{where} gives '{entry.source}' another target than line {before.line}; {FORMAT}."
            )
        for target in entry.targets:
            ids = translator.tokenizers.target.encode(target)
            if UNK in ids:
                raise UserError(
                    f"{where} has a character in '{target}' that the run's tokenizer does not know."
                )
            if len(ids) > translator.max_pieces:
                raise UserError(
                    f"{where} has a term of more than tokenizer.max_pieces={translator.max_pieces} "
                    "pieces."
                )
    if not entries:
        raise UserError(f"{name} has no terms; {FORMAT}.")
    return Glossary(entries, translator.tokenizers)


def parse_entry(line: str, number: int) -> Entry | None:
    """The entry of a line; None if it has no source, an empty target, or not exactly one tab."""
    sides = unicodedata.normalize("NFC", line).split("\t")
    if len(sides) != 2:
        return None
    source, target = (" ".join(side.split()) for side in sides)
    targets = tuple(dict.fromkeys(part.strip() for part in target.split("|")))
    if not source or not all(targets):
        return None
    return Entry(source, targets, number)

"""A glossary: terms that translations must have, from a file with lines SOURCE<TAB>TARGET.

A sentence is translated as always. If a term is missing, the words that translate the source term
are found and replaced, and beam search chooses between the forms and places of the term, with all
other columns forced (`ForcedColumns`). So a sentence without a term, or whose terms the model
writes by itself, in a form of its own, stays as it is.

Where a source term stands. A term matches as it is written in the file, from word boundary to word
boundary; with a capital first letter at the beginning of a sentence; and in any case in a line that
has only capitals or only small letters. Of overlapping terms the one that begins first is taken, of
those the longest. Other forms of a source term are terms of their own.

Which words it replaces. The loss of a target piece is how much its log-probability falls when the
source term is removed (prediction difference, Li et al. 2019, "On the Word Alignment from Neural
Machine Translation"); every model has it. Where there is attention, its weights on the source term
are added, both in shares of their maximum. A term replaces the word with the largest sum and its
neighbours with LEFT or RIGHT of it: "Bahnhof" is "train station". What stands on the right needs
less, since the words before it predict it as well; articles, prepositions and other short words
need SHORT more.

Its form. The term may have an ending of the words that it replaces ("books" → "volumes", "walking"
→ "strolling"), and the word before it may become another form: a → an, der → die. Both must be
likelier by COST: the model does not expect the term, and would else change what stands beside it.

T target pieces.
"""

import hashlib
import re
import unicodedata
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os.path import commonprefix
from pathlib import Path
from typing import NamedTuple

import numpy as np
import regex

from nmt.data.parallel_text import read_lines
from nmt.data.text_filter import Encoded, Protected, unprotected
from nmt.data.tokenizer import UNK, Tokenizers
from nmt.data.words import (
    SENTENCE_END,
    SPACELESS,
    Span,
    is_punctuation,
    piece_spans,
    split_into_words,
    word_fractions,
)
from nmt.decode.beam_search import Hypothesis, NBest
from nmt.decode.constraints import Column, Template
from nmt.decode.translator import Translator
from nmt.errors import UserError

FORMAT = "a line is SOURCE<TAB>TARGET, or SOURCE<TAB>TARGET|TARGET where either may be used"
# of the largest sum; by gold links of the phrasebook's validation set
LEFT = 0.6
RIGHT = 0.25
SHORT = 0.2
SHORTEST = 4  # letters of a word that is not short
# letters of a word that may have an ending, and of the ending
SHORTEST_STEM = 4
LONGEST_ENDING = 3
COST = 1.0  # in log-probability: of an ending, and of another word before the term
ANCHOR = '"'  # what is encoded after it begins without a space
# Where a word begins or ends (Unicode Standard Annex 29). Deviation: an apostrophe ends a word, as
# in l'ami.
EDGE = regex.compile(r"(?w)\b")
APOSTROPHES = str.maketrans("'’", "  ")


class Entry(NamedTuple):
    """A line of the file."""

    source: str
    targets: tuple[str, ...]
    line: int


class Term(NamedTuple):
    """An entry in a source: in a text its characters first … last − 1, in a sentence that is
    searched its pieces."""

    entry: Entry
    first: int
    last: int


class TermSpan(NamedTuple):
    """The pieces of a translation that a term is to replace; none if start = end."""

    start: int
    end: int
    may_change_previous: bool = False  # the word before it


@dataclass(frozen=True)
class Glossary:
    """The terms of a file by their source, and the search that writes them."""

    entries: Mapping[str, Entry]
    tokenizers: Tokenizers

    @cached_property
    def in_small_letters(self) -> dict[str, Entry]:
        """The entries by their source in small letters; the first line wins."""
        return {source.lower(): entry for source, entry in reversed(list(self.entries.items()))}

    @cached_property
    def words(self) -> dict[str, dict[str, int]]:
        """The pieces of the target vocabulary that are words, with their ids, by their first
        letter."""
        words: dict[str, dict[str, int]] = defaultdict(dict)
        for number, piece in enumerate(
            self.tokenizers.target.pieces(range(self.tokenizers.target.size))
        ):
            if piece.startswith("▁") and piece[1:].isalpha():
                words[piece[1]][piece] = number
        return words

    def digest(self) -> str:
        lines = sorted(
            f"{entry.source}\t{'|'.join(entry.targets)}" for entry in self.entries.values()
        )
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def find(self, text: str) -> list[Term]:
        """The terms of a text, from left to right, the longest of those that begin at one place."""
        any_case = self.tokenizers.source.lowercase or has_one_case(text)
        # small letters may be one more
        edges = word_edges(text)
        longest = 1 + max(map(len, self.entries))
        terms: list[Term] = []
        for start in edges:
            if terms and start < terms[-1].last:
                continue
            for end in reversed(
                edges[bisect_right(edges, start) : bisect_right(edges, start + longest)]
            ):
                found = text[start:end]
                entry = (
                    self.in_small_letters.get(found.lower())
                    if any_case
                    else self.entries.get(found)
                )
                if entry is None and found[:1].isupper() and SENTENCE_END.search(text, 0, start):
                    entry = self.entries.get(found[:1].lower() + found[1:])
                if entry:
                    terms.append(Term(entry, start, end))
                    break
        return terms

    def unprotect(self, protected: Protected) -> Protected:
        """A source whose terms have no placeholders: the model reads them, and the glossary says
        what to write."""
        if not protected.spans:
            return protected
        text = ""
        origin = []
        for character in protected.text:
            shown = protected.spans.get(character, character)
            text += shown
            origin += [character] * len(shown)
        found = {each for term in self.find(text) for each in origin[term.first : term.last]}
        return unprotected(protected, found & protected.spans.keys())

    def apply(self, translator: Translator, sources: Sequence[Encoded], nbest: NBest) -> NBest:
        """The n best of each sentence, searched again where a term is missing in the best, one term
        after the other."""
        nbest = list(nbest)
        waiting = [self.source_terms(source) for source in sources]
        while True:
            missing: dict[int, Term] = {}  # by sentence
            for row, terms in enumerate(waiting):
                while terms and row not in missing:
                    term = terms.pop(0)  # once is enough for one that is needed twice
                    if not self.target_spans(sources[row].like(nbest[row][0].ids), term.entry):
                        missing[row] = term
            if not missing:
                return nbest
            best = [sources[row].like(nbest[row][0].ids) for row in missing]
            again = self.search_again(
                translator, [sources[row] for row in missing], best, list(missing.values())
            )
            for row, hypotheses in zip(missing, again, strict=True):
                nbest[row] = hypotheses

    def search_again(
        self, translator: Translator, sources: list[Encoded], best: list[Encoded], terms: list[Term]
    ) -> Iterator[list[Hypothesis]]:
        """Search each sentence with one of its terms instead of the words of its best hypothesis
        that translate it."""
        pairs = list(zip(sources, best, strict=True))
        shorter = [
            ([*source[: term.first], *source[term.last :]], ids)
            for (source, ids), term in zip(pairs, terms, strict=True)
        ]
        records = list(translator.force_decode_all([*pairs, *shorter]))
        variants: list[list[tuple[Template, float]]] = []
        for (source, ids), term, record, without in zip(
            pairs, terms, records, records[len(pairs) :], strict=False
        ):
            first = self.tokenizers.source.prefix(source)
            top = self.tokenizers.target.prefix(ids)
            # records have no prefixes
            prefix = [(piece,) for piece in ids[:top]]
            ids = ids[top:]
            measures = [np.subtract(record.log_probabilities, without.log_probabilities)[:-1]]
            if record.weights is not None:
                upper = record.weights[record.num_layers // 2 :]
                measures.append(
                    upper.mean((0, 1))[:-1, term.first - first : term.last - first].sum(1)
                )
            _, spans = piece_spans(record.target_pieces)
            kept = [
                each
                for each, id in zip(spans, ids, strict=True)
                if id in self.tokenizers.target.placeholders
            ]
            kept += [
                each
                for one in self.source_terms(source)
                for each in self.target_spans(ids, one.entry)
            ]
            span = find_term_span(record.target_pieces, measures, kept)
            templates = self.templates(ids, term.entry.targets, span)
            variants.append([([*prefix, *template], cost) for template, cost in templates])
        repeated = [source for source, own in zip(sources, variants, strict=True) for _ in own]
        results = iter(
            translator.search(repeated, [template for own in variants for template, _ in own])
        )
        alpha = translator.decode.length_penalty
        for own in variants:
            found = [
                (each.score * (len(each.ids) + 1) ** alpha - cost, each)
                for _, cost in own
                for each in next(results)
            ]
            found.sort(key=lambda each: -each[0])
            yield [hypothesis for _, hypothesis in found[: translator.decode.beam]]

    def source_terms(self, source: Encoded) -> list[Term]:
        """The terms of a source, in its pieces."""
        text, spans = piece_spans(self.tokenizers.source.pieces(source))
        terms = []
        for entry, first, last in self.find(text):
            pieces = [
                index for index, (start, end) in enumerate(spans) if start < last and first < end
            ]
            terms.append(Term(entry, pieces[0], pieces[-1] + 1))
        return terms

    def target_spans(self, ids: Encoded, entry: Entry) -> list[Span]:
        """Where one of the targets of an entry stands in a translation, pieces joined."""
        text, _ = piece_spans(
            self.tokenizers.target.pieces(ids[self.tokenizers.target.prefix(ids) :])
        )
        any_case = self.tokenizers.target.lowercase or ids.capitals or has_one_case(text)
        return [span for target in entry.targets for span in find_target(target, text, any_case)]

    def templates(
        self, ids: Encoded, targets: Sequence[str], span: TermSpan
    ) -> Iterator[tuple[Template, float]]:
        """What is searched to write one of the target terms in this span of a translation, and what
        it costs."""
        forced = [(piece,) for piece in ids]
        before = forced[: span.start]
        after = forced[span.end :]
        pieces = self.tokenizers.target.pieces(ids)
        similar: Column = ()
        replaced, _ = piece_spans(pieces[span.start : span.end])
        if span.may_change_previous and (previous := pieces[span.start - 1]) in self.words.get(
            previous[1:2], {}
        ):
            similar = tuple(
                id for word, id in self.words[previous[1]].items() if is_form(word, previous)
            )
        for target in targets:
            for form in forms(target, replaced):
                term = [(piece,) for piece in self.encode(ids, span, form)]
                cost = COST * (form != target)
                yield [*before, *term, *after], cost
                if similar:
                    yield [*before[:-1], similar, *term, *after], cost + COST

    def encode(self, ids: Encoded, span: TermSpan, term: str) -> list[int]:
        """The pieces of a term in this span, with a capital letter at the beginning of a
        sentence."""
        tokenizer = self.tokenizers.target
        pieces = tokenizer.pieces(ids)
        text, _ = piece_spans(pieces[: span.start])
        whole, _ = piece_spans(pieces)
        if SENTENCE_END.search(text):
            term = term[:1].upper() + term[1:]
        if whole.isupper() and not ids.capitals and len(whole) > 1:
            term = term.upper()
        joins = span.start < len(pieces) and not pieces[span.start].startswith("▁")
        joins = joins or (span.start == len(pieces) and bool(SPACELESS.match(term)))
        if joins and text and len(text) in word_edges(text + term):
            anchor = tokenizer.encode(ANCHOR)
            encoded = tokenizer.encode(ANCHOR + term)
            if encoded[: len(anchor)] == anchor:
                return encoded[len(anchor) :]
        encoded = tokenizer.encode(term)
        return encoded[tokenizer.prefix(encoded) :]


def word_edges(text: str) -> list[int]:
    """Where words begin and end."""
    return [match.start() for match in EDGE.finditer(text.translate(APOSTROPHES))]


def has_one_case(text: str) -> bool:
    return text in (text.upper(), text.lower())


def find_target(term: str, text: str, any_case: bool) -> Iterator[Span]:
    """The spans of a target term, or of a form with a short ending, in a translation."""
    edges = word_edges(text)
    longest = LONGEST_ENDING if inflects(term) else 0
    for match in re.finditer(re.escape(term), text, re.IGNORECASE):
        start, stop = match.span()
        end = next((each for each in edges if stop <= each <= stop + longest), None)
        capital = (
            match[0][:1].isupper()
            and match[0][1:] == term[1:]
            and SENTENCE_END.search(text, 0, start)
        )
        if start in edges and end is not None and (text[stop:end].isalpha() or end == stop):
            if any_case or match[0] == term or capital:
                yield start, end


def inflects(term: str) -> bool:
    last = re.split(r"\W", term)[-1]
    return len(last) >= SHORTEST_STEM and last.isalpha() and not SPACELESS.search(last)


def forms(term: str, replaced: str) -> list[str]:
    """A term, and with each ending of the text that it replaces, if its last word can have
    endings."""
    endings = [
        replaced[-length:] for length in range(1, LONGEST_ENDING + 1) if length + 1 < len(replaced)
    ]
    usable = [
        each for each in endings if each.isalpha() and each.islower() and not term.endswith(each)
    ]
    return [term, *(term + ending for ending in usable if inflects(term))]


def is_form(word: str, other: str) -> bool:
    """Whether two pieces that are words differ as der and die or as a, an and ein, einen do."""
    short, long = sorted((word, other), key=len)
    common = len(commonprefix((word, other)))
    if len(short) == len(long):
        return len(long) - common in (1, 2)
    return (
        common == len(short) and len(long) - len(short) < len(short) and len(long) - len(short) <= 2
    )


def find_term_span(
    pieces: Sequence[str], measures: Sequence[np.ndarray], kept: Sequence[Span]
) -> TermSpan:
    """The span of a term; the end of the translation where all words must stay.

    measures [T]: how much each piece depends on the source term, its loss and, where there is
    attention, its weights; `kept`: spans of the text, pieces joined, that must stay.
    """
    words, spans, of_pieces = split_into_words(list(pieces))
    fractions = word_fractions(of_pieces, spans)
    usable = np.array(
        [
            not all(map(is_punctuation, word))
            and not any(first < end and start < last for first, last in kept)
            for word, (start, end) in zip(words, spans, strict=True)
        ],
        dtype=bool,
    )
    if not usable.any():
        return TermSpan(len(pieces), len(pieces))
    loss, *attention = (fractions.T @ measure for measure in measures)
    # a mean, as it is read elsewhere
    attention = [each / np.maximum(fractions.sum(0), 1e-12) for each in attention]
    total = sum(np.maximum(each, 0) / max(each[usable].max(), 1e-12) for each in (loss, *attention))
    total = np.where(usable, total, -np.inf)
    first = last = int(total.argmax())
    more = np.array([SHORT * (len(word) < SHORTEST) for word in words])
    left, right = max(total[first], 1e-12) * (np.array([[LEFT], [RIGHT]]) + more)
    while first and total[first - 1] >= left[first - 1]:
        first -= 1
    while last + 1 < len(words) and total[last + 1] >= right[last + 1]:
        last += 1
    rows = np.flatnonzero(fractions[:, first : last + 1].any(1))
    return TermSpan(int(rows[0]), int(rows[-1]) + 1, first > 0 and bool(usable[first - 1]))


def open_glossary(path: Path, translator: Translator) -> Glossary:
    """The terms of a file for a translator.

    Raises UserError, with the number of the line, for a file that is wrong, or a term that it
    cannot write.
    """
    entries: dict[str, Entry] = {}
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number},"
        source, *rest = (
            " ".join(side.split()) for side in unicodedata.normalize("NFC", line).split("\t")
        )
        targets = tuple(dict.fromkeys(part.strip() for part in rest[0].split("|"))) if rest else ()
        if len(rest) != 1 or not source or not all(targets):
            raise UserError(f"{where} is no entry of a glossary; {FORMAT}.")
        before = entries.setdefault(source, Entry(source, targets, number))
        if before.targets != targets:
            raise UserError(
                f"{where} gives '{source}' another target than line {before.line}; {FORMAT}."
            )
        for target in targets:
            ids = translator.tokenizers.target.encode(target)
            if UNK in ids:
                raise UserError(
                    f"{where} has a character in '{target}' that the run's tokenizer does not know."
                )
            if len(ids) > translator.max_pieces:
                raise UserError(
                    f"{where} has a term of more than "
                    f"tokenizer.max_pieces={translator.max_pieces} pieces."
                )
    if not entries:
        raise UserError(f"The glossary {path} has no terms; {FORMAT}.")
    return Glossary(entries, translator.tokenizers)

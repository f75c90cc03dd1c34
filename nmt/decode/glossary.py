"""A glossary: terms that translations must have, from lines SOURCE<TAB>TARGET or a termbase.

A term matches as it is written in the file, from word boundary to word boundary. At the beginning
of a sentence its first letter may be a capital. With a tokenizer for small letters, and in a line
that has only capitals or only small letters, any case matches. Of overlapping terms the one that
begins first is taken, and the longest of those that begin there. Other forms of a source term need
entries of their own.

nmt/decode/term_search.py puts the terms into translations.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import regex

from nmt.corpus.checksums import text_digest
from nmt.corpus.termbase import term_lines
from nmt.corpus.words import SENTENCE_END, SPACELESS, Span, piece_spans
from nmt.data.text_filter import Encoded, Protected, unprotected
from nmt.data.tokenizer import UNK, Tokenizers
from nmt.errors import UserError

if TYPE_CHECKING:
    from nmt.decode.translator import Translator

FORMAT = "a line is SOURCE<TAB>TARGET, or SOURCE<TAB>TARGET|TARGET where either may be used"

SHORTEST_STEM = 4  # letters of a word that may have an ending
LONGEST_ENDING = 3  # letters of the ending

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


@dataclass(frozen=True)
class Glossary:
    """The entries of a file by their source, and where they stand in texts."""

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
        return text_digest("\n".join(sorted(lines)))

    def __or__(self, other: Glossary) -> Glossary:
        """The terms of both; those of the other glossary count where they have the same source."""
        return Glossary({**self.entries, **other.entries}, self.tokenizers)

    def find_terms(self, text: str, capitals: bool = False) -> list[Term]:
        """The terms of a text in characters, from left to right, without overlaps.

        capitals: whether the line was in capitals, but for spans such as links, before it was put
        in small letters.
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
    pattern = re.escape(term).replace("ß", "(?:ß|ss)")  # in capitals ß is SS
    for match in re.finditer(pattern, text, re.IGNORECASE):
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


def overlap(span: Span, other: Span) -> bool:
    return span[0] < other[1] and other[0] < span[1]


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

"""The variants of a translation that has a term instead of other words.

The term may have an ending of the words that it replaces ("books" → "volumes", "walking" → "strolling"), and the word
before it may become another form: a → an, der → die. Both must be likelier by a cost: the model does not expect the
term, and would else change what stands beside it.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os.path import commonprefix

from nmt.data.text_filter import Encoded
from nmt.data.tokenizer import Tokenizer
from nmt.data.words import SENTENCE_END, SPACELESS, piece_spans
from nmt.decode.forced_columns import Column, Template
from nmt.decode.glossary_placement import TermSpan
from nmt.decode.glossary_terms import BEFORE, LONGEST_ENDING, inflects

COST = 1.0  # in log-probability: of an ending, and of another word before the term
ANCHOR = '"'  # what is encoded after it begins without a space


@dataclass(frozen=True)
class Variants:
    """The target vocabulary, and its pieces that are words, by their first letter."""

    tokenizer: Tokenizer
    words: dict[str, dict[str, int]]

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "Variants":
        """Those of a vocabulary."""
        words: dict[str, dict[str, int]] = defaultdict(dict)
        for number, piece in enumerate(tokenizer.pieces(range(tokenizer.size))):
            if piece.startswith("▁") and piece[1:].isalpha():
                words[piece[1]][piece] = number
        return cls(tokenizer, words)

    def templates(self, ids: Encoded, targets: Sequence[str], span: TermSpan) -> Iterator[tuple[Template, float]]:
        """What is searched to write one of the target terms in this span of a translation, and what it costs."""
        forced = [(piece,) for piece in ids]
        before, after = forced[: span.start], forced[span.end :]
        replaced, _ = piece_spans(self.tokenizer.pieces(ids[span.start : span.end]))
        for target in targets:
            for form in forms(target, replaced):
                term = [(piece,) for piece in self.encode(ids, span, form)]
                cost = COST * (form != target)
                yield [*before, *term, *after], cost
                if span.may_change_previous and (words := self.similar_words(ids[: span.start])):
                    yield [*before[:-1], words, *term, *after], cost + COST

    def similar_words(self, before: Sequence[int]) -> Column:
        """The words that may be other forms of the last piece; none if that is no word."""
        (piece,) = self.tokenizer.pieces(before[-1:]) or [""]
        words = self.words.get(piece[1:2], {})
        return tuple(words[word] for word in words if is_form(word, piece)) if piece in words else ()

    def encode(self, ids: Encoded, span: TermSpan, term: str) -> list[int]:
        """The pieces of a term in this span, with a capital letter at the beginning of a sentence."""
        pieces = self.tokenizer.pieces(ids)
        text, _ = piece_spans(pieces[: span.start])
        whole, _ = piece_spans(pieces)
        if SENTENCE_END.search(text):
            term = term[:1].upper() + term[1:]
        if whole.isupper() and not ids.capitals and len(whole) > 1:
            term = term.upper()
        joins = span.start < len(pieces) and not pieces[span.start].startswith("▁")
        joins = joins or (span.start == len(pieces) and bool(SPACELESS.match(term)))
        joins = joins and text != "" and BEFORE.match(text, len(text)) is not None  # "_" counts as a letter
        anchor = self.tokenizer.encode(ANCHOR) if joins else []
        encoded = self.tokenizer.encode(ANCHOR + term) if joins else []
        return encoded[len(anchor) :] if joins and encoded[: len(anchor)] == anchor else self.tokenizer.encode(term)


def is_form(word: str, other: str) -> bool:
    """Whether two pieces that are words differ as der and die or as a, an and ein, einen do."""
    short, long = sorted((word, other), key=len)
    common = len(commonprefix((word, other)))
    if len(short) == len(long):
        return len(long) - common in (1, 2)
    return common == len(short) and len(long) - len(short) < len(short) and len(long) - len(short) <= 2


def forms(term: str, replaced: str) -> list[str]:
    """A term, and with each ending of the text that it replaces, if its last word can have endings."""
    endings = [replaced[-length:] for length in range(1, LONGEST_ENDING + 1) if length + 1 < len(replaced)]
    usable = [each for each in endings if each.isalpha() and each.islower() and not term.endswith(each)]
    return [term, *(term + ending for ending in usable if inflects(term))]

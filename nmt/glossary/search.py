"""The search that writes the terms of a glossary.

A sentence is translated as always. If a term is missing, it is searched again: what stands before the place where the
model translated the source term is given (nmt/decode/forced_columns.py), then the term, and the rest is free. Its
variants, a short ending that the model may add, and another word before it (a for an, der for die) are searched beside
each other, and the best score wins. So a sentence without a term, or whose terms the model writes by itself, in a form
of its own, stays as it is. This is prefix-constrained search (Wuebker et al. 2016) with the place taken from attention
(Alkhouli et al. 2018), and no dynamic beam allocation (Post & Vilar 2018): it works with one hypothesis too.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
import os
import numpy as np

from nmt.data.known_words import SENTENCE_END
from nmt.data.protection import Encoded, Protected
from nmt.data.tokenizer import UNK
from nmt.decode.forced_columns import BREAK, ENDING, WORD, Column, Layout, columns_of
from nmt.decode.hypothesis import Hypothesis, NBest
from nmt.decode.translator import Translator
from nmt.errors import UserError
from nmt.evaluate.words import SPACELESS, Span, piece_spans
from nmt.glossary.placement import Place, find_places
from nmt.glossary.terms import Entry, Glossary, find_target, has_one_case, inflects

MOST_PLACES = 2  # that are tried for a term
ANCHOR = '"'  # what is encoded after it begins without a space


@dataclass(frozen=True)
class Demand:
    """A term of a source."""

    entry: Entry
    first: int  # of its source pieces
    last: int  # one past them


@dataclass
class Sentence:
    """A source with terms, and the best hypotheses so far."""

    source: Encoded
    demands: list[Demand]
    nbest: list[Hypothesis]


@dataclass(frozen=True)
class TermSearch:
    """A glossary, and which weights of attention say where a term belongs; None for a model without attention."""

    glossary: Glossary

    def unprotect(self, protected: Protected) -> Protected:
        """A source without placeholders for its terms."""
        return self.glossary.unprotect(protected)

    def obey(self, translator: Translator, sources: Sequence[Encoded], nbest: NBest) -> NBest:
        """The n best of each sentence, searched again where a term is missing in the best."""
        sentences = {
            row: Sentence(source, demands, hypotheses)
            for row, (source, hypotheses) in enumerate(zip(sources, nbest, strict=True))
            if (demands := self.demands(translator, source))
        }
        waiting = [each for each in sentences.values() if self.missing(translator, each, each.nbest[0])]
        while waiting:
            waiting = list(self.search_again(translator, waiting))
        return [sentences[row].nbest if row in sentences else hypotheses for row, hypotheses in enumerate(nbest)]

    def demands(self, translator: Translator, source: Encoded) -> list[Demand]:
        """The terms of a source."""
        text, spans = piece_spans(translator.tokenizers.source.pieces(source))
        demands = []
        for match in self.glossary.find(text):
            pieces = [index for index, (start, end) in enumerate(spans) if start < match.end and match.start < end]
            demands.append(Demand(match.entry, pieces[0], pieces[-1] + 1))
        return demands

    def written(self, translator: Translator, sentence: Sentence, ids: Sequence[int], entry: Entry) -> list[Span]:
        """Where one of the targets of an entry stands in a translation, pieces joined."""
        target = translator.tokenizers.target
        text, _ = piece_spans(target.pieces(with_spans(sentence.source, ids)))
        any_case = target.lowercase or sentence.source.capitals or has_one_case(text)
        return sorted({span for term in entry.targets for span in find_target(term, text, any_case)})

    def missing(self, translator: Translator, sentence: Sentence, hypothesis: Hypothesis) -> list[Demand]:
        """The terms of the source that a hypothesis does not have; once is enough for a term that stands there twice."""
        return [
            demand
            for demand in sentence.demands
            if not self.written(translator, sentence, hypothesis.ids, demand.entry)
        ]

    def search_again(self, translator: Translator, sentences: list[Sentence]) -> Iterator[Sentence]:
        """Write the first missing term of each sentence; returns those that lack more."""
        demands = [self.missing(translator, each, each.nbest[0])[0] for each in sentences]
        places = self.find_places(translator, sentences, demands)
        layouts = [
            [layout for place in own for layout in self.layouts(translator, sentence, demand, place)]
            for sentence, demand, own in zip(sentences, demands, places, strict=True)
        ]
        sources = [each.source for each, own in zip(sentences, layouts, strict=True) for _ in own]
        results = iter(translator.search(sources, [layout for own in layouts for layout in own]))
        for sentence, demand, own, found in zip(sentences, demands, layouts, places, strict=True):
            before = len(self.missing(translator, sentence, sentence.nbest[0]))
            candidates = [hypothesis for _ in own for hypothesis in next(results)]
            self.take_best(translator, sentence, candidates)
            if len(self.missing(translator, sentence, sentence.nbest[0])) >= before:
                self.insert(translator, sentence, demand, found[0])
            if self.missing(translator, sentence, sentence.nbest[0]):
                yield sentence

    def find_places(
        self, translator: Translator, sentences: list[Sentence], demands: list[Demand]
    ) -> list[list[Place]]:
        """The places of one term of each sentence."""
        pairs = [(each.source, each.nbest[0].ids) for each in sentences]
        without = [
            ([*each.source[: demand.first], *each.source[demand.last :]], each.nbest[0].ids)
            for each, demand in zip(sentences, demands, strict=True)
        ]
        records = list(translator.force_decode_all([*pairs, *without]))
        places = []
        for sentence, record, other in zip(sentences, records, records[len(sentences) :], strict=False):
            losses = np.subtract(record.log_probabilities, other.log_probabilities)[:-1]
            taken = [
                span
                for demand in sentence.demands
                for span in self.written(translator, sentence, sentence.nbest[0].ids, demand.entry)
            ]
            places.append(find_places(record.target_pieces, losses, taken))
        return places

    def take_best(self, translator: Translator, sentence: Sentence, candidates: list[Hypothesis]) -> None:
        """Rank the old and the new hypotheses: those with the most terms first, of these the best score."""
        known = {tuple(each.ids): each for each in [*candidates, *sentence.nbest]}
        ranked = sorted(known.values(), key=lambda each: (len(self.missing(translator, sentence, each)), -each.score))
        sentence.nbest = ranked[: translator.decode.beam]

    def insert(self, translator: Translator, sentence: Sentence, demand: Demand, place: Place) -> None:
        """Where the search could not write a term: in the place of the words that it replaces, the rest unchanged."""
        ids = sentence.nbest[0].ids
        term = self.encode(translator, sentence, ids, place, demand.entry.targets[0])
        changed = [*ids[: place.start], *term, *ids[place.end :]]
        record = translator.force_decode((sentence.source, changed))
        score = sum(record.log_probabilities) / (len(changed) + 1) ** translator.decode.length_penalty
        sentence.nbest = [Hypothesis(changed, score), *sentence.nbest][: translator.decode.beam]

    def layouts(self, translator: Translator, sentence: Sentence, demand: Demand, place: Place) -> Iterator[Layout]:
        """The beginnings that are searched for a term in one place."""
        ids = sentence.nbest[0].ids
        before, replaced, after = ids[: place.start], tuple(ids[place.start : place.end]), columns_of(ids[place.end:])
        mode = os.environ.get("MODE", "free")
        if mode == "free":
            after = [Column(BREAK, replaced)]
        text, _ = piece_spans(translator.tokenizers.target.pieces(ids[place.start : place.end]))
        for target in demand.entry.targets:
          for form in [target, *(target + text[-n:] for n in range(1,4) if inflects(target) and len(text) > n+1 and text[-n:].isalpha() and text[-n:].islower())]:
            term = columns_of(self.encode(translator, sentence, ids, place, form))
            yield [*columns_of(before), *term, *after]
            if before and translator.piece_kinds.word[before[-1]] and os.environ.get("WORDV", "1") == "1":
                yield [*columns_of(before[:-1]), Column(WORD), *term, *after]

    def encode(
        self, translator: Translator, sentence: Sentence, ids: Sequence[int], place: Place, term: str
    ) -> list[int]:
        """The pieces of a term in this place, with a capital letter at the beginning of a sentence."""
        target = translator.tokenizers.target
        pieces = target.pieces(with_spans(sentence.source, ids))
        text, _ = piece_spans(pieces[: place.start])
        if SENTENCE_END.search(text):
            term = term[:1].upper() + term[1:]
        whole, _ = piece_spans(pieces)
        if whole.isupper() and not sentence.source.capitals and len(whole) > 1:
            term = term.upper()
        joins = place.start < len(pieces) and not pieces[place.start].startswith("▁")
        joins = text != "" and (joins or (place.start == len(pieces) and bool(SPACELESS.match(term))))
        anchor = target.encode(ANCHOR) if joins else []
        encoded = target.encode(ANCHOR + term) if joins else []
        return encoded[len(anchor) :] if joins and encoded[: len(anchor)] == anchor else target.encode(term)


def with_spans(source: Encoded, ids: Sequence[int]) -> Encoded:
    """The pieces of a translation with what its placeholders stand for."""
    return Encoded(ids, source.spans, source.capitals)


def check_terms(glossary: Glossary, path: Path, translator: Translator) -> None:
    """Raise UserError for a target that the tokenizer cannot write, or that is too long."""
    tokenizer = translator.tokenizers.target
    for entry in glossary.entries.values():
        for target in entry.targets:
            ids = tokenizer.encode(target)
            where = f"{path}, line {entry.line}: '{target}'"
            if UNK in ids:
                raise UserError(f"{where} has a character that the run's tokenizer does not know.")
            if len(ids) > translator.max_pieces:
                raise UserError(
                    f"{where} has {len(ids)} pieces, more than tokenizer.max_pieces={translator.max_pieces}."
                )

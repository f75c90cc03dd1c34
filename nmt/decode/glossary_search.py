"""The search that writes the terms of a glossary.

A sentence is translated as always. If a term is missing, the words that translate the source term are found
(placement.py) and replaced, and beam search chooses between the forms and places of the term (variants.py), with all
other columns forced (nmt/decode/forced_columns.py). So a sentence without a term, or whose terms the model writes by
itself, in a form of its own, stays as it is.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt.data.text_filter import Encoded, Protected
from nmt.data.tokenizer import UNK
from nmt.data.words import Span, piece_spans
from nmt.decode.glossary_placement import TermSpan, find_term_span, piece_shares
from nmt.decode.glossary_terms import Entry, Glossary, find_target, has_one_case, read_glossary
from nmt.decode.glossary_variants import Variants
from nmt.decode.hypothesis import Hypothesis, NBest
from nmt.decode.translator import Translator
from nmt.errors import UserError


@dataclass(frozen=True)
class TermConstraint:
    """A term of a source."""

    entry: Entry
    first: int  # of its source pieces
    last: int  # one past them


@dataclass
class Sentence:
    """A source with terms that are not looked at yet, and the best hypotheses so far."""

    source: Encoded
    constraints: list[TermConstraint]
    nbest: list[Hypothesis]

    @property
    def best(self) -> Encoded:
        """The best hypothesis, with what its placeholders stand for."""
        return self.source.like(self.nbest[0].ids)


@dataclass(frozen=True)
class TermSearch:
    """A glossary, and the variants in which a translation may have its terms."""

    glossary: Glossary
    variants: Variants

    def unprotect(self, protected: Protected) -> Protected:
        """A source without placeholders for its terms."""
        return self.glossary.unprotect(protected)

    def apply(self, translator: Translator, sources: Sequence[Encoded], nbest: NBest) -> NBest:
        """The n best of each sentence, searched again where a term is missing in the best."""
        sentences = [
            Sentence(source, self.find_constraints(translator, source), list(hypotheses))
            for source, hypotheses in zip(sources, nbest, strict=True)
        ]
        while waiting := [(each, missing) for each in sentences if (missing := self.next_missing(translator, each))]:
            self.search_again(translator, waiting)
        return [each.nbest for each in sentences]

    def find_constraints(self, translator: Translator, source: Encoded) -> list[TermConstraint]:
        """The terms of a source."""
        text, spans = piece_spans(translator.tokenizers.source.pieces(source))
        constraints = []
        for match in self.glossary.find(text):
            pieces = [index for index, (start, end) in enumerate(spans) if start < match.end and match.start < end]
            constraints.append(TermConstraint(match.entry, pieces[0], pieces[-1] + 1))
        return constraints

    def next_missing(self, translator: Translator, sentence: Sentence) -> TermConstraint | None:
        """Take the next term that the best hypothesis does not have; once is enough for one that is needed twice."""
        while sentence.constraints:
            constraint = sentence.constraints.pop(0)
            if not self.find_targets(translator, sentence, constraint.entry):
                return constraint
        return None

    def find_targets(self, translator: Translator, sentence: Sentence, entry: Entry) -> list[Span]:
        """Where one of the targets of an entry stands in the best hypothesis, pieces joined."""
        target = translator.tokenizers.target
        text, _ = piece_spans(target.pieces(sentence.best))
        any_case = target.lowercase or sentence.source.capitals or has_one_case(text)
        return sorted({span for term in entry.targets for span in find_target(term, text, any_case)})

    def search_again(self, translator: Translator, waiting: Sequence[tuple[Sentence, TermConstraint]]) -> None:
        """Search each sentence with one of its terms, at each place where it may stand; `nbest` is replaced."""
        variants = [
            list(self.variants.templates(sentence.best, constraint.entry.targets, span))
            for (sentence, constraint), span in zip(waiting, self.term_spans(translator, waiting), strict=True)
        ]
        sources = [sentence.source for (sentence, _), own in zip(waiting, variants, strict=True) for _ in own]
        results = iter(translator.search(sources, [template for own in variants for template, _ in own]))
        alpha = translator.decode.length_penalty
        for (sentence, _), own in zip(waiting, variants, strict=True):
            found = [
                (each.score * (len(each.ids) + 1) ** alpha - cost, each) for _, cost in own for each in next(results)
            ]
            found.sort(key=lambda each: -each[0])
            sentence.nbest = [hypothesis for _, hypothesis in found[: translator.decode.beam]]

    def term_spans(
        self, translator: Translator, waiting: Sequence[tuple[Sentence, TermConstraint]]
    ) -> Iterator[TermSpan]:
        """The span of a term of each sentence."""
        pairs = [(each.source, each.best) for each, _ in waiting]
        shorter = [
            ([*each.source[: constraint.first], *each.source[constraint.last :]], each.best)
            for each, constraint in waiting
        ]
        records = list(translator.force_decode_all([*pairs, *shorter]))
        for (sentence, constraint), record, without in zip(waiting, records, records[len(waiting) :], strict=False):
            measures = piece_shares(record, without, constraint.first, constraint.last)
            yield find_term_span(record.target_pieces, measures, self.protected_spans(translator, sentence))

    def protected_spans(self, translator: Translator, sentence: Sentence) -> list[Span]:
        """What must stay in the best hypothesis: terms of the glossary, and what placeholders stand for."""
        target = translator.tokenizers.target
        _, spans = piece_spans(target.pieces(sentence.best))
        copied = [span for span, piece in zip(spans, sentence.best, strict=True) if piece in target.placeholders]
        entries = [constraint.entry for constraint in self.find_constraints(translator, sentence.source)]
        return [*copied, *(span for entry in entries for span in self.find_targets(translator, sentence, entry))]


def open_glossary(path: Path, translator: Translator) -> TermSearch:
    """The terms of a file for a translator; raises UserError for a file that is wrong, or a term it cannot write."""
    tokenizers = translator.tokenizers
    glossary = read_glossary(path, tokenizers.source.lowercase)
    for entry in glossary.entries.values():
        for target in entry.targets:
            ids, where = tokenizers.target.encode(target), f"{path}, line {entry.line}: '{target}'"
            if UNK in ids:
                raise UserError(f"{where} has a character that the run's tokenizer does not know.")
            if len(ids) > translator.max_pieces:
                raise UserError(
                    f"{where} has {len(ids)} pieces, more than tokenizer.max_pieces={translator.max_pieces}."
                )
    return TermSearch(glossary, Variants.of(tokenizers.target))

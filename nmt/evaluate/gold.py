"""Gold links between words, and the alignment error rate of a model's links against them."""

import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt.data.links import Link, parse_links
from nmt.data.parallel_text import read_lines
from nmt.data.words import WordPair
from nmt.decode.translator import Translator
from nmt.errors import UserError
from nmt.evaluate.alignment_error_rate import AlignmentCounts, AlignmentScore
from nmt.evaluate.extraction import Extractor, encode_pairs, extract_links, record_words
from nmt.evaluate.metrics import tokenization_warning

log = logging.getLogger("nmt")


@dataclass
class GoldAlignments:
    """Sentence pairs with gold links between their words, drawn by people or by rules."""

    path: Path
    pairs: list[tuple[str, str]]
    links: list[tuple[set[Link], set[Link]]]  # sure and possible ones, counted from 0
    base: int = 0  # index of the first word in the file, for messages
    tokenized: bool = False  # words are separated by spaces alone
    numbers: Sequence[int] | None = None  # line numbers of the pairs in the file, from 1; None: all

    def first(self, count: int) -> "GoldAlignments":
        """The first `count` pairs with their links, all if there are fewer."""
        return self.subset(range(min(count, len(self.pairs))))

    def subset(self, indices: Sequence[int]) -> "GoldAlignments":
        """The pairs at these indices, from 0."""
        numbers = self.numbers or range(1, len(self.pairs) + 1)
        pairs, links = [self.pairs[index] for index in indices], [self.links[index] for index in indices]
        return GoldAlignments(self.path, pairs, links, self.base, self.tokenized, [numbers[index] for index in indices])

    def check(self, index: int, words: WordPair) -> None:
        """Raise UserError for links of the pair at `index` (from 0) to words that do not exist."""
        number = self.numbers[index] if self.numbers else index + 1
        for side, name, count in ((0, "source", len(words.source)), (1, "target", len(words.target))):
            highest = max((link[side] for link in self.links[index][1]), default=-1)
            if highest >= count:
                raise UserError(
                    f"{self.path}:{number}: a link names {name} word {highest + self.base}, but the {name} has "
                    f"{count} words, counted from {self.base}; see --tokenized and --base."
                )

    def digest(self) -> str:
        """A SHA-256 hash of the pairs and their links."""
        plain = [[sorted(links) for links in pair] for pair in self.links]
        return hashlib.sha256(repr((self.pairs, plain, self.tokenized)).encode()).hexdigest()


def read_gold_alignments(
    path: Path,
    pairs: Sequence[tuple[str, str]],
    base: int = 0,
    reverse: bool = False,
    tokenized: bool = False,
) -> GoldAlignments:
    """Pharaoh links of sentence pairs, one line each; raises UserError for a malformed or a missing line."""
    if not tokenized and any(tokenization_warning([pair[side] for pair in pairs]) for side in (0, 1)):
        log.warning("The text of %s looks tokenized; if its links count what spaces separate, give --tokenized.", path)
    lines = list(read_lines(path))
    if len(lines) != len(pairs):
        raise UserError(f"{path} has {len(lines)} lines, but there are {len(pairs)} sentence pairs.")
    links = [parse_links(line, base, f"{path}:{number}", reverse) for number, line in enumerate(lines, 1)]
    return GoldAlignments(path, list(pairs), links, base, tokenized)


def alignment_error_rates(
    translator: Translator,
    gold: GoldAlignments,
    extractors: Sequence[Extractor],
    threshold: float | None = None,
    on_links: Callable[[Extractor, set[Link]], None] | None = None,
) -> dict[Extractor, AlignmentScore]:
    """The alignment error rate of each extractor under forced decoding of the targets.

    `on_links` is called with the links of each extractor for each pair, in order.
    """
    counts = dict.fromkeys(extractors, AlignmentCounts())
    for index, record in enumerate(translator.force_decode_all(encode_pairs(translator, gold.pairs))):
        words = record_words(record, gold.tokenized)
        gold.check(index, words)
        for extractor in extractors:
            links = extract_links(extractor.word_weights(record, words), threshold)
            counts[extractor] = counts[extractor].add(links, *gold.links[index])
            if on_links is not None:
                on_links(extractor, links)
    return {extractor: total.score() for extractor, total in counts.items()}

"""Word links of the training pairs, with which attention is trained (guided alignment).

Beside PREFIX.source and PREFIX.target lies PREFIX.align, a Pharaoh line `i-j i-j …` for each pair.
The corpus folder gets train.align, without the lines of rejected pairs. B batch, S source pieces, T
target pieces, </s> and <s> counted.
"""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

import numpy as np
import pyarrow
import torch
from torch import Tensor

from nmt.config.schema import DataConfig
from nmt.data.checksums import Manifest
from nmt.data.links import Link, parse_links
from nmt.data.normalization import normalize
from nmt.data.origin import Origin
from nmt.data.parallel_text import read_lines
from nmt.data.tables import Pair
from nmt.data.text_filter import Encoded
from nmt.data.tokenizer import Tokenizer, Tokenizers
from nmt.data.words import SPACE, SPACELESS, WordPair, word_spans
from nmt.errors import UserError

NAME = "train.align"
PURPOSE = "train.guided_alignment learns links between the words of the training pairs"
BLOCK = 1 << 24  # bytes that are searched for line ends at once


def find_link_files(data: DataConfig, origins: Sequence[Origin]) -> list[Path]:
    """The file of links of each origin; none if one has no file, or tags come before the words."""
    links = [origin.links for origin in origins if origin.links is not None]
    return links if len(links) == len(origins) and not data.origin_tags else []


def with_links(pairs: Iterator[Pair], links: Path | None, place: str) -> Iterator[tuple[Pair, str]]:
    """Each pair with its line of the file `links`, "" without one.

    In a script without spaces the tokenizer decides how many words there are: each character may
    be one. Raises UserError for a line that cannot be right.
    """
    if links is None:
        yield from ((pair, "") for pair in pairs)
        return
    for number, (pair, line) in enumerate(zip_longest(pairs, read_lines(links)), 1):
        if pair is None or line is None:
            raise UserError(
                f"{links} and {place} have different numbers of lines; each pair needs "
                "one of links."
            )
        _, possible = parse_links(line, 0, f"{links}:{number}")
        for link in possible:
            # Words are only counted where there are fewer spaces than the link needs
            if link[0] > pair[0].count(" ") or link[1] > pair[1].count(" "):
                check_link(link, [most_words(text) for text in pair], f"{links}:{number}")
        yield pair, line


def most_words(text: str) -> int:
    text = normalize(text)
    words = 0
    for start, end in word_spans(text):
        words += end - start if SPACELESS.search(text[start:end]) else 1
    return words


def check_link(link: Link, words: Sequence[int], place: str) -> None:
    """Raise UserError for a link to a word behind the last one; `words`: how many there are on each
    side."""
    if link[0] >= words[0] or link[1] >= words[1]:
        raise UserError(
            f"{place}: link {link[0]}-{link[1]} names a word that does not exist; the pair has "
            f"{words[0]} and {words[1]} words, "
            f"counted from 0; see train.guided_alignment_tokenized."
        )


def check_possible(data: DataConfig) -> None:
    """Raise UserError where no corpus of this configuration has links of the training pairs."""
    if data.kind == "multi30k":
        raise UserError(f"{PURPOSE}, but data=multi30k has none.")
    if data.origin_tags:
        raise UserError(f"{PURPOSE}, and data.origin_tags moves the words.")


def check_present(is_present: bool) -> None:
    """Raise UserError where a part of the training pairs has no links."""
    if not is_present:
        raise UserError(
            f"{PURPOSE}, but not each part of data.train is a PREFIX with a file PREFIX.align "
            "beside its two files, or "
            "PREFIX.SOURCE-TARGET.align for each of several language pairs; an aligner writes it, "
            "or `nmt align RUN --source FILE --target FILE --pharaoh` with a run that was trained "
            "without it."
        )


def open_training_links(
    corpus: Path, tokenizers: Tokenizers, tokenized: bool, shift: int
) -> "TrainingLinks":
    """The links in a corpus folder; raises UserError where they are damaged."""
    Manifest(corpus).check([NAME])
    return TrainingLinks(corpus / NAME, tokenizers, tokenized, shift)


class TrainingLinks:
    """What attention is to learn, from a file of links; 8 bytes a pair stay in memory.

    With `tokenized`, links count the words that spaces separate; otherwise punctuation at their
    edges is split off. `shift` is 0 if a word's attention is that of the decoder step whose output
    it is, and 1 if the word is the input of that step.
    """

    def __init__(self, path: Path, tokenizers: Tokenizers, tokenized: bool, shift: int) -> None:
        self.path = path
        self.tokenizers = tokenizers
        self.tokenized = tokenized
        self.shift = shift
        self.file = pyarrow.OSFile(str(path))
        ends = [np.zeros(1, dtype=np.int64)]
        for start in range(0, self.file.size(), BLOCK):
            block = np.frombuffer(self.file.read_at(BLOCK, start), np.uint8)
            ends.append(np.flatnonzero(block == ord("\n")) + start + 1)
        self.starts = np.concatenate(ends)

    def line(self, number: int) -> str:
        start, end = (int(each) for each in self.starts[number - 1 : number + 1])
        return self.file.read_at(end - start, start).decode()

    def piece_links(self, source: Sequence[int], target: Sequence[int], number: int) -> np.ndarray:
        """What each target piece attends to, G [T S] without </s>.

        G_ts is a distribution over the pieces of all words linked to the word of target piece t,
        and zeros for a word without link. A link joins all pieces of both words (Garg et al. 2019
        §4.2). Only sure links count. Raises UserError for a link to a word that does not exist.
        """
        first = text_start(self.tokenizers.source, source)
        top = self.tokenizers.target.prefix(target)
        source_pieces = self.tokenizers.source.pieces(source[first:])
        target_pieces = self.tokenizers.target.pieces(target[top:])
        words = WordPair.from_pieces(source_pieces, target_pieces, self.tokenized)
        links, _ = parse_links(self.line(number), 0, f"{self.path}:{number}")
        matrix = np.zeros((len(words.target), len(words.source)))
        for i, j in links:
            check_link((i, j), matrix.shape[::-1], f"{self.path}:{number}")
            matrix[j, i] = 1
        spread = words.target_fractions @ matrix @ words.source_fractions.T
        weights = spread / np.maximum(spread.sum(1, keepdims=True), 1e-9)
        return np.pad(weights, ((top, 0), (first, 0)))

    def batch(
        self, sources: Sequence[Encoded], targets: Sequence[Encoded], numbers: Sequence[int]
    ) -> Tensor:
        """G of some pairs, from lines `numbers` [B T S].

        The row of target piece t is at t + `shift`; all else is zero.
        """
        longest = [max(map(len, side)) + 1 for side in (targets, sources)]
        rows = np.zeros((len(sources), *longest), dtype=np.float32)
        for row, source, target, number in zip(rows, sources, targets, numbers, strict=True):
            row[self.shift : self.shift + len(target), : len(source)] = self.piece_links(
                source, target, number
            )
        return torch.from_numpy(rows)


def text_start(tokenizer: Tokenizer, ids: Sequence[int]) -> int:
    """Where the text of an encoded source begins, behind its prefix and its tags."""
    start = tokenizer.prefix(ids)
    pieces = tokenizer.pieces(ids)
    while (
        pieces[start : start + 1] == [SPACE]
        and pieces[start + 1 : start + 2]
        and pieces[start + 1] in tokenizer.tags
    ):
        start += 2
    return start

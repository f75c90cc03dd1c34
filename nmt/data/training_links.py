"""Word links of the training pairs as attention is trained with them (guided alignment).

B batch, S source pieces, T target pieces, </s> and <s> counted.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow
import torch
from torch import Tensor

from nmt.corpus.link_files import check_link
from nmt.corpus.links import parse_links
from nmt.corpus.words import WordPair
from nmt.data.text_filter import Encoded
from nmt.data.tokenizer import Tokenizers

BLOCK = 1 << 24  # bytes that are searched for line ends at once


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
        start = int(self.starts[number - 1])
        end = int(self.starts[number])
        return self.file.read_at(end - start, start).decode()

    def piece_links(self, source: Sequence[int], target: Sequence[int], number: int) -> np.ndarray:
        """What each target piece attends to, G [T S] without </s>.

        G_ts is a distribution over the pieces of all words linked to the word of target piece t,
        and zeros for a word without link. A link joins all pieces of both words (Garg et al. 2019
        §4.2). Only sure links count. Raises UserError for a link to a word that does not exist.
        """
        source_start = self.tokenizers.source.sentence_start(source)
        target_start = self.tokenizers.target.prefix_length(target)
        source_pieces = self.tokenizers.source.pieces(source[source_start:])
        target_pieces = self.tokenizers.target.pieces(target[target_start:])
        words = WordPair.from_pieces(source_pieces, target_pieces, self.tokenized)
        links, _ = parse_links(self.line(number), 0, f"{self.path}:{number}")
        matrix = np.zeros((len(words.target), len(words.source)))
        for i, j in links:
            check_link((i, j), matrix.shape[::-1], f"{self.path}:{number}")
            matrix[j, i] = 1
        spread = words.target_fractions @ matrix @ words.source_fractions.T
        weights = spread / np.maximum(spread.sum(1, keepdims=True), 1e-9)
        return np.pad(weights, ((target_start, 0), (source_start, 0)))

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

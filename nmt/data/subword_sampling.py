"""Subword regularisation: pieces sampled at random, as a pure function of a seed.

SentencePiece can sample too, but its generator (0.2.3) is salted by each process, whatever seed it
is given: a resumed run would get other pieces. Pieces never cross a space, so a sentence is sampled
word by word.

Unigram (Kudo 2018): P(pieces) ∝ exp(α Σ score), over all segmentations of the word, by forward
filtering and backward sampling. BPE-dropout (Provilkov et al. 2020): merges are made best first,
and at each step every possible merge is left out with probability α.
"""

import math
import re
from bisect import bisect
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, chain, pairwise
from random import Random
from typing import NamedTuple

SPACE = "▁"
CACHED_WORDS = 50_000  # whose lattices are kept in memory
CACHED_LENGTH = 24  # characters; lattices of longer words are not kept
UNKNOWN_PENALTY = 10.0  # an unknown character scores less than the worst piece, as in SentencePiece


def added_piece(word: str) -> str:
    """The name of the piece of an added word, which has its spaces and begins with one."""
    return SPACE + SPACE.join(word.split())


def added_pattern(words: Collection[str]) -> re.Pattern[str]:
    """A pattern of added words, the longest first."""
    return re.compile("|".join(sorted(map(re.escape, words), key=len, reverse=True)))


class LastPieces(NamedTuple):
    """The possible last pieces of a prefix of a word."""

    cumulative: list[float]  # probabilities
    starts: list[int]  # in the word
    ids: list[tuple[int, ...]]


@dataclass
class Sampler:
    """Samples the pieces of sentences, with BPE-dropout or from the unigram model."""

    ids: dict[str, int]  # of the pieces of text
    scores: dict[str, float]
    unknown: int
    bytes: list[int]  # the ids of the 256 byte pieces; if empty, such a character is `unknown`
    whole: Collection[str]  # words that are always one piece, after a piece for the space
    added: Collection[str]  # words that are always one piece, together with their space
    dropout: bool

    def __post_init__(self) -> None:
        self.added_pattern = added_pattern(self.added)
        self.longest = max(map(len, self.ids), default=1)
        self.worst = min(self.scores.values(), default=0.0) - UNKNOWN_PENALTY
        self.cached_lattice = lru_cache(CACHED_WORDS)(self.lattice)

    def piece_ids(self, piece: str) -> tuple[int, ...]:
        """The id of a piece, or the ids of a character that is none: its bytes or `unknown`."""
        if piece in self.ids:
            return (self.ids[piece],)
        if not self.bytes:
            return (self.unknown,)
        return tuple(self.bytes[byte] for byte in piece.encode())

    def sample(self, text: str, alpha: float, generator: Random) -> list[int]:
        """The pieces of a sentence; unknown characters in a row are one, as in SentencePiece."""
        sample_word = self.sample_merges if self.dropout else self.sample_segmentation
        ids: list[int] = []
        for word in self.words(text):
            if word in self.whole:
                ids += [*self.piece_ids(SPACE), self.ids[word]]
            elif word in self.added:
                ids.append(self.ids[added_piece(word)])
            elif word:
                ids += sample_word(SPACE + word, alpha, generator)
        unknown = self.unknown
        return [piece for before, piece in pairwise([-1, *ids]) if not before == piece == unknown]

    def words(self, text: str) -> list[str]:
        """What stands between spaces, and added words, which may have spaces inside."""
        if not self.added:
            return text.replace(SPACE, " ").split(" ")
        words = []
        end = 0
        for match in self.added_pattern.finditer(text):
            words += text[end : match.start()].replace(SPACE, " ").split(" ")
            words.append(match[0])
            end = match.end()
        return words + text[end:].replace(SPACE, " ").split(" ")

    def sample_segmentation(self, word: str, alpha: float, generator: Random) -> list[int]:
        """Unigram sampling: from the end of the word, piece by piece, to its beginning."""
        is_short = len(word) <= CACHED_LENGTH
        lattice = self.cached_lattice(word, alpha) if is_short else self.lattice(word, alpha)
        end = len(word)
        backwards: list[tuple[int, ...]] = []
        while end:
            last = lattice[end]
            choice = min(bisect(last.cumulative, generator.random()), len(last.starts) - 1)
            backwards.append(last.ids[choice])
            end = last.starts[choice]
        return list(chain.from_iterable(reversed(backwards)))

    def lattice(self, word: str, alpha: float) -> list[LastPieces]:
        """Forward filtering: for every prefix, by its length, the probability of each last piece.

        forward[end] = log Σ_start exp(forward[start] + α score(word[start:end])).
        """
        forward = [0.0]
        lattice = [LastPieces([], [], [])]
        for end in range(1, len(word) + 1):
            # The pieces that end here; a single character is always one
            starts = []
            ids = []
            logs = []
            for start in range(max(0, end - self.longest), end):
                piece = word[start:end]
                if start == end - 1 or piece in self.ids:
                    starts.append(start)
                    ids.append(self.piece_ids(piece))
                    score = self.scores.get(piece, self.worst)
                    logs.append(forward[start] + alpha * score)

            # log Σ exp, computed from the highest
            highest = max(logs)
            weights = [math.exp(log - highest) for log in logs]
            total = sum(weights)
            forward.append(highest + math.log(total))
            cumulative = list(accumulate(weight / total for weight in weights))
            lattice.append(LastPieces(cumulative, starts, ids))
        return lattice

    def sample_merges(self, word: str, dropout: float, generator: Random) -> list[int]:
        """BPE-dropout: at each step the best merge that is not left out, until none is left."""
        symbols = list(word)
        while True:
            best = -math.inf
            best_index = -1
            for index in range(len(symbols) - 1):
                score = self.scores.get(symbols[index] + symbols[index + 1], -math.inf)
                if score > best and generator.random() >= dropout:
                    best = score
                    best_index = index
            if best_index < 0:
                return list(chain.from_iterable(map(self.piece_ids, symbols)))
            symbols[best_index : best_index + 2] = [symbols[best_index] + symbols[best_index + 1]]

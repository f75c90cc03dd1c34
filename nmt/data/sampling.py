"""Subword regularisation: pieces drawn at random, as a pure function of a seed.

SentencePiece can draw too, but its generator (0.2.3) is salted by each process, whatever seed it is given: a resumed
run would see other pieces. Pieces never reach over a space, so that a sentence is drawn word by word.

Unigram (Kudo 2018): P(pieces) ∝ exp(α Σ score), over all ways to cut the word, by forward filtering and backward
sampling. BPE-dropout (Provilkov et al. 2020): every merge that is possible is left out with probability α, each time
the best one is looked for.
"""

import math
from bisect import bisect
from functools import lru_cache
from random import Random
from typing import NamedTuple

SPACE = "▁"
REMEMBERED = 50_000  # words whose cuts are kept
UNKNOWN_PENALTY = 10.0  # SentencePiece's: an unknown character scores this much less than the worst piece


class Pieces(NamedTuple):
    """A vocabulary: pieces of text (no specials, no bytes), and how a character without a piece is spelled."""

    ids: dict[str, int]
    scores: dict[str, float]
    unknown: int
    bytes: list[int]  # the 256 byte pieces; empty: such a character is `unknown`

    def spell(self, piece: str) -> tuple[int, ...]:
        """The ids of a piece or of a character that is none."""
        if piece in self.ids:
            return (self.ids[piece],)
        return tuple(self.bytes[byte] for byte in piece.encode()) if self.bytes else (self.unknown,)


class Cut(NamedTuple):
    """The pieces that may end at one place of a word: cumulative probabilities, where they begin, their ids."""

    cumulative: list[float]
    starts: list[int]
    ids: list[tuple[int, ...]]


class Sampler:
    """Draws the pieces of sentences."""

    def __init__(self, pieces: Pieces, dropout: bool) -> None:
        self.pieces, self.dropout = pieces, dropout
        self.longest = max(map(len, pieces.ids), default=1)
        self.worst = min(pieces.scores.values(), default=0.0) - UNKNOWN_PENALTY
        self.cuts = lru_cache(REMEMBERED)(self.all_cuts)

    def draw(self, text: str, alpha: float, generator: Random) -> list[int]:
        """The pieces of a sentence; an unknown character after another adds no second UNK, as in SentencePiece."""
        ids: list[int] = []
        for word in text.replace(SPACE, " ").split(" "):
            if word:
                one = self.merged if self.dropout else self.cut
                ids += one(SPACE + word, alpha, generator)
        unknown = self.pieces.unknown
        return [piece for place, piece in enumerate(ids) if piece != unknown or not place or ids[place - 1] != unknown]

    def cut(self, word: str, alpha: float, generator: Random) -> list[int]:
        """Unigram sampling: from the end of the word, piece by piece, to its beginning."""
        cuts, end, drawn = self.cuts(word, alpha), len(word), []
        while end:
            here = cuts[end]
            choice = min(bisect(here.cumulative, generator.random()), len(here.starts) - 1)
            drawn.append(here.ids[choice])
            end = here.starts[choice]
        return [piece for ids in reversed(drawn) for piece in ids]

    def all_cuts(self, word: str, alpha: float) -> list[Cut]:
        """Forward filtering: for every end, the probability of each last piece, summed over all beginnings."""
        forward, cuts = [0.0], [Cut([], [], [])]
        for end in range(1, len(word) + 1):
            starts = [start for start in range(max(0, end - self.longest), end) if self.possible(word[start:end])]
            logs = [forward[start] + alpha * self.pieces.scores.get(word[start:end], self.worst) for start in starts]
            highest = max(logs)
            total = sum(math.exp(log - highest) for log in logs)
            forward.append(highest + math.log(total))
            cumulative, below = [], 0.0
            for log in logs:
                below += math.exp(log - highest) / total
                cumulative.append(below)
            cuts.append(Cut(cumulative, starts, [self.pieces.spell(word[start:end]) for start in starts]))
        return cuts

    def possible(self, piece: str) -> bool:
        """Whether a word may be cut into this piece: a known one, or a single character."""
        return len(piece) == 1 or piece in self.pieces.ids

    def merged(self, word: str, dropout: float, generator: Random) -> list[int]:
        """BPE-dropout: the best merge that is not left out, until none is left."""
        symbols, scores = list(word), self.pieces.scores
        while True:
            best, where = -math.inf, -1
            for place in range(len(symbols) - 1):
                score = scores.get(symbols[place] + symbols[place + 1], -math.inf)
                if score > best and generator.random() >= dropout:
                    best, where = score, place
            if where < 0:
                return [piece for symbol in symbols for piece in self.pieces.spell(symbol)]
            symbols[where : where + 2] = [symbols[where] + symbols[where + 1]]

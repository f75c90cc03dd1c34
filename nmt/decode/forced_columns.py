"""A search whose first columns are given: the beginning of a translation, and a term that must follow it.

N sentences, K hypotheses of each, V vocabulary, C columns that are given. Each column of a sentence is one piece, any
piece (FREE), or a piece of a kind. The probabilities of the other pieces become 0 and those that stay are not changed,
so that scores are those of forced decoding. Other constraints hold in all columns but those of one piece.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from nmt.data.tokenizer import EOS, Tokenizer
from nmt.decode.constraints import SearchConstraints
from nmt.evaluate.words import SPACELESS

FREE, WORD, ENDING, BREAK = -1, -2, -3, -4
LONGEST_ENDING = 3  # letters


class Column(NamedTuple):
    """What may stand in a column: `kind` is a piece, FREE, WORD, ENDING or BREAK."""

    kind: int
    avoided: tuple[int, ...] = ()  # pieces that may not


Layout = Sequence[Column]  # the first columns of a sentence


class PieceKinds(NamedTuple):
    """The pieces of each kind, [V] each."""

    word: Tensor  # ▁ and letters
    ending: Tensor  # at most LONGEST_ENDING letters that continue a word
    breaks: Tensor  # does not continue a word

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "PieceKinds":
        """Those of a vocabulary."""
        pieces = tokenizer.pieces(range(tokenizer.size))
        continues = [piece[:1].isalnum() and not SPACELESS.match(piece) for piece in pieces]
        short = [piece.isalpha() and len(piece) <= LONGEST_ENDING for piece in pieces]
        words = [piece[:1] == "▁" and piece[1:].isalpha() for piece in pieces]
        return cls(torch.tensor(words), torch.tensor(short) & torch.tensor(continues), ~torch.tensor(continues))

    def allowed(self, column: Column) -> Tensor:
        """[V]: what may stand in a column."""
        if column.kind >= 0:
            allowed = torch.zeros_like(self.word)
            allowed[column.kind] = True
            return allowed
        allowed = {WORD: self.word, ENDING: self.ending, BREAK: self.breaks}.get(
            column.kind, torch.ones_like(self.word)
        )
        allowed = allowed.clone()
        allowed[list(column.avoided)] = False
        return allowed


@dataclass
class ForcedColumns:
    """Constraints that begin with given columns; the state of all open hypotheses."""

    inner: SearchConstraints | None
    columns: Tensor  # [N C]: indices of rows of `allowed`
    allowed: Tensor  # [kinds V]; the first row is FREE
    is_piece: Tensor  # [kinds]
    length: int = 0  # pieces of the hypotheses so far

    @classmethod
    def start(
        cls, layouts: Sequence[Layout], kinds: PieceKinds, inner: SearchConstraints | None, device: torch.device
    ) -> "ForcedColumns":
        """Those of one hypothesis, <s>, for each sentence."""
        numbers = {Column(FREE): 0}
        width = max(map(len, layouts))
        rows = [
            [numbers.setdefault(column, len(numbers)) for column in layout] + [0] * (width - len(layout))
            for layout in layouts
        ]
        allowed = torch.stack([kinds.allowed(column) for column in numbers])
        is_piece = torch.tensor([column.kind >= 0 for column in numbers])
        return cls(inner, torch.tensor(rows).to(device), allowed.to(device), is_piece.to(device))

    def apply(self, log_probabilities: Tensor) -> None:
        """Change log_probabilities [N K V] in place."""
        given = self.length < self.columns.size(1)
        before = log_probabilities.clone() if given else log_probabilities
        if self.inner is not None:
            self.inner.apply(log_probabilities)
        if given:
            column = self.columns[:, self.length]
            is_piece = self.is_piece[column][:, None, None]
            values = torch.where(is_piece, before, log_probabilities)
            log_probabilities.copy_(values.masked_fill(~self.allowed[column][:, None], float("-inf")))

    def extend(self, rows: Tensor, parents: Tensor, tokens: Tensor) -> "ForcedColumns":
        """Those after one piece more, tokens [N' K']; rows [N'] stay open, parents [N' K'] are hypotheses."""
        inner = self.inner.extend(rows, parents, tokens) if self.inner is not None else None
        return ForcedColumns(inner, self.columns[rows], self.allowed, self.is_piece, self.length + 1)


def columns_of(pieces: Sequence[int]) -> list[Column]:
    """A column for each piece."""
    assert EOS not in pieces
    return [Column(int(piece)) for piece in pieces]

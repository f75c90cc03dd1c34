"""A search in which the pieces of each column are forced: one, or some of which the search chooses.

N sentences, K hypotheses of each, V vocabulary, C columns. The probabilities of the other pieces become 0 and those
that stay are not changed, so that scores are those of forced decoding. After its last column a sentence must be at its
limit, where beam search writes </s>.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Column = tuple[int, ...]  # the pieces that may stand in it
Template = Sequence[Column]  # all columns of a sentence, without </s>


@dataclass
class ForcedColumns:
    """The constraints of all open hypotheses."""

    columns: Tensor  # [N C]: rows of `allowed`
    allowed: Tensor  # [different columns, V]
    length: int = 0  # pieces of the hypotheses so far

    @classmethod
    def start(cls, templates: Sequence[Template], vocabulary: int, device: torch.device) -> "ForcedColumns":
        """Those of one hypothesis, <s>, for each sentence."""
        numbers: dict[Column, int] = {}
        width = max(map(len, templates))
        rows = [
            [numbers.setdefault(column, len(numbers)) for column in template] + [0] * (width - len(template))
            for template in templates
        ]
        allowed = torch.zeros(max(1, len(numbers)), vocabulary, dtype=torch.bool)
        for column, number in numbers.items():
            allowed[number, list(column)] = True
        return cls(torch.tensor(rows, dtype=torch.long).to(device), allowed.to(device))

    def apply(self, log_probabilities: Tensor) -> None:
        """Change log_probabilities [N K V] in place."""
        if self.length < self.columns.size(1):
            allowed = self.allowed[self.columns[:, self.length]]
            log_probabilities.masked_fill_(~allowed[:, None], float("-inf"))

    def extend(self, rows: Tensor, parents: Tensor, tokens: Tensor) -> "ForcedColumns":
        """Those after one piece more, tokens [N' K']; rows [N'] stay open, parents [N' K'] are hypotheses."""
        return ForcedColumns(self.columns[rows], self.allowed, self.length + 1)

"""Single-head attention of the recurrent models: any score, any window, soft or hard.

B batch, S source length, T target length, D query size, M memory size, A key size.
"""

from typing import NamedTuple

from torch import Tensor, nn

from nmt.attention.hard import attend_to_one
from nmt.attention.kernels import attend
from nmt.attention.scores import Score
from nmt.attention.windows import Window

NORMALISERS = ("softmax", "hard")


class AttentionOutput(NamedTuple):
    """What came of looking."""

    context: Tensor  # [B T M]
    weights: Tensor  # [B T S]
    centre: Tensor | None = None  # [B T]: p_t of local windows, in source positions
    log_probability: Tensor | None = None  # [B T]: of what hard attention drew in training
    entropy: Tensor | None = None  # [B T]: of what it was drawn from


class Attention(nn.Module):
    """weights = softmax(score(query, keys) inside the window) [× prior]; context = weights · memory.

    With `normalise=hard` the softmax gives way to one position, drawn from it in training and its largest otherwise
    (nmt/attention/hard.py).
    """

    def __init__(self, score: Score, window: Window, normalise: str = "softmax", gradient: str = "reinforce") -> None:
        super().__init__()
        self.score, self.window = score, window
        self.hard, self.gradient = normalise == "hard", gradient

    @property
    def draws(self) -> bool:
        """Whether what it draws in training must be rewarded."""
        return self.hard and self.gradient == "reinforce"

    def keys(self, memory: Tensor) -> Tensor:
        """[B S M] → [B S A], once per sentence."""
        return self.score.keys(memory)

    def forward(
        self, query: Tensor, keys: Tensor, memory: Tensor, step: Tensor, length: Tensor, mask: Tensor | None
    ) -> AttentionOutput:
        """query [B T D], step [B T] (target positions), keys [N S A], memory [N S M], length [N], mask [N S] | None.

        → contexts, weights, centres. The B / N hypotheses of a sentence look at its memory as so many more columns.
        """
        together = query.reshape(len(memory), -1, query.size(2)), step.reshape(len(memory), -1)
        looked = self.look(*together, keys, memory, length, mask)
        if step.shape == looked.weights.shape[:2]:
            return looked
        context, weights = (part.reshape(*step.shape, -1) for part in looked[:2])
        return AttentionOutput(
            context, weights, *(None if part is None else part.reshape(step.shape) for part in looked[2:])
        )

    def look(
        self, query: Tensor, step: Tensor, keys: Tensor, memory: Tensor, length: Tensor, mask: Tensor | None
    ) -> AttentionOutput:
        """The same with as many rows of queries as of memory."""
        allowed, prior, centre = self.window(query, step, length, mask, memory.size(1))
        scores = self.score(query, keys)
        if self.hard:
            chosen = attend_to_one(scores, memory, allowed, prior, self.training, self.gradient)
            return AttentionOutput(chosen.context, chosen.weights, centre, chosen.log_probability, chosen.entropy)
        context, weights = attend(scores, memory, allowed, prior)
        return AttentionOutput(context, weights, centre)

"""Single-head attention of the recurrent models: any score, any window.

B batch, S source length, T target length, D query size, M memory size, A key size.
"""

from torch import Tensor, nn

from nmt.attention.kernels import attend
from nmt.attention.scores import make_score
from nmt.attention.windows import make_window


class Attention(nn.Module):
    """weights = softmax(score(query, keys) inside the window) [× prior]; context = weights · memory."""

    def __init__(self, query_size: int, memory_size: int, score: str, window: str, radius: int, positions: int) -> None:
        super().__init__()
        self.score = make_score(score, query_size, memory_size, positions)
        self.window = make_window(window, query_size, radius)

    def keys(self, memory: Tensor) -> Tensor:
        """[B S M] → [B S A], once per sentence."""
        return self.score.keys(memory)

    def forward(
        self, query: Tensor, keys: Tensor, memory: Tensor, step: Tensor, length: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """query [B T D], step [B T] (target positions), length [B] → context [B T M], weights [B T S]."""
        allowed, prior = self.window(query, step, length, mask, memory.size(1))
        return attend(self.score(query, keys), memory, allowed, prior)

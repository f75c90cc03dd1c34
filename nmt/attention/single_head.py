"""Single-head attention of the recurrent models: any score, any window, soft or hard.

B batch, N sentences, S source length, T target length, D query size, M memory size, A key size.
"""

from torch import Tensor, nn

from nmt.attention.hard import AttentionOutput, hard_attention
from nmt.attention.kernels import attend
from nmt.attention.scores import Score
from nmt.attention.windows import Window

ATTENTION_TYPES = ("soft", "hard")


class SingleHeadAttention(nn.Module):
    """weights = softmax(score(query, keys) in the window) [× prior]; context = weights · memory.

    With `attention_type` "hard" one position has the whole weight: in training a sample from the
    softmax, otherwise its argmax (nmt/attention/hard.py).
    """

    def __init__(
        self,
        score: Score,
        window: Window,
        attention_type: str = "soft",
        gradient: str = "reinforce",
    ) -> None:
        super().__init__()
        self.score = score
        self.window = window
        self.hard = attention_type == "hard"
        self.gradient = gradient

    @property
    def uses_reinforce(self) -> bool:
        """Whether training needs the loss of REINFORCE."""
        return self.hard and self.gradient == "reinforce"

    def keys(self, memory: Tensor) -> Tensor:
        """memory [N S M] → keys of the score [N S A], once per sentence."""
        return self.score.keys(memory)

    def forward(
        self,
        query: Tensor,
        keys: Tensor,
        memory: Tensor,
        step: Tensor,
        length: Tensor,
        mask: Tensor | None,
    ) -> AttentionOutput:
        """query [B T D], step [B T] (target positions) → contexts [B T M], weights [B T S], p_t.

        keys [N S A], memory [N S M], length [N], mask [N S] | None. The B / N hypotheses of a
        sentence attend to its memory as if they were more columns of one target.
        """
        batch, columns = step.shape  # [B T]
        query = query.reshape(len(memory), -1, query.size(2))  # [N B/N·T D]
        step = step.reshape(len(memory), -1)  # [N B/N·T]
        window_mask, prior, p_t = self.window(query, step, length, mask, memory.size(1))
        scores = self.score(query, keys)  # [N B/N·T S]
        if self.hard:
            output = hard_attention(
                scores, memory, window_mask, prior, self.training, self.gradient
            )
        else:
            output = AttentionOutput(*attend(scores, memory, window_mask, prior))
        output = output._replace(p_t=p_t)
        if batch == len(memory):
            return output

        # Back to one row for each hypothesis: [N B/N·T …] → [B T …]
        parts: dict[str, Tensor] = {}
        for name, part in output._asdict().items():
            if part is not None:
                parts[name] = part.reshape(batch, columns, *part.shape[2:])
        return AttentionOutput(**parts)

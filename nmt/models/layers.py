"""The layers of the Transformer (Vaswani et al. 2017 §3), pre- or post-norm.

B batch, S source length, T target length, P target columns so far, D model size, H heads, K head size.
"""

from torch import Tensor, nn

from nmt.attention.multi_head import MultiHeadAttention
from nmt.attention.padded_matmul import padded_matmul
from nmt.attention.positions import Rotation, turn
from nmt.attention.self_attention import KVCache, SelfAttention
from nmt.models.dropout import Dropout


class FeedForward(nn.Sequential):
    """max(0, x W_1 + b_1) W_2 + b_2 (Vaswani 2017 eq. 2), or with GELU."""

    def __init__(self, size: int, hidden: int, activation: str) -> None:
        nonlinear = nn.GELU() if activation == "gelu" else nn.ReLU(inplace=True)
        linears = nn.Linear(size, hidden), nn.Linear(hidden, size)
        super().__init__(linears[0], nonlinear, linears[1])
        for linear in linears:
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, inputs: Tensor) -> Tensor:
        """[B T D] → [B T D], as rows of tokens: what is changed in place must be no view, or autograd copies it."""
        return padded_matmul(super().forward, inputs.flatten(0, -2)).view_as(inputs)


class Residual(nn.Module):
    """x + dropout(f(norm(x))) with pre-norm, norm(x + dropout(f(x))) with post-norm (Vaswani 2017 §5.4)."""

    def __init__(self, size: int, share: float, norm: str) -> None:
        super().__init__()
        self.pre = norm == "pre"
        self.norm = nn.LayerNorm(size)
        self.dropout = Dropout(share)

    def before(self, inputs: Tensor) -> Tensor:
        """What the sub-layer reads."""
        return self.norm(inputs) if self.pre else inputs

    def after(self, inputs: Tensor, output: Tensor) -> Tensor:
        """What the next sub-layer gets."""
        added = self.dropout(output, inputs)
        return added if self.pre else self.norm(added)


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(
        self,
        size: int,
        heads: int,
        hidden: int,
        share: float,
        norm: str,
        activation: str,
        kind: SelfAttention,
    ) -> None:
        super().__init__()
        self.attention, self.attention_residual = MultiHeadAttention(size, heads), Residual(size, share, norm)
        self.feed, self.feed_residual = FeedForward(size, hidden, activation), Residual(size, share, norm)
        self.kind = kind

    def forward(
        self, inputs: Tensor, mask: Tensor | None, rotation: Rotation | None, weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """[B S D], mask [B 1 1 S] | None → [B S D], weights [B H S S] | None."""
        query, key, value = project(self.attention, self.attention_residual.before(inputs), rotation)
        context, looked, _ = self.kind(query, key, value, None, mask, weights)
        inputs = self.attention_residual.after(inputs, self.attention.merge(context))
        return self.feed_residual.after(inputs, self.feed(self.feed_residual.before(inputs))), looked


class DecoderLayer(nn.Module):
    """Causal self-attention, cross-attention, feed-forward."""

    def __init__(
        self,
        size: int,
        heads: int,
        hidden: int,
        share: float,
        norm: str,
        activation: str,
        kind: SelfAttention,
        attention_dropout: float,
    ) -> None:
        super().__init__()
        self.self_attention, self.self_residual = MultiHeadAttention(size, heads), Residual(size, share, norm)
        self.cross_attention = MultiHeadAttention(size, heads, attention_dropout)
        self.cross_residual = Residual(size, share, norm)
        self.feed, self.feed_residual = FeedForward(size, hidden, activation), Residual(size, share, norm)
        self.kind = kind

    def forward(
        self,
        inputs: Tensor,
        past: KVCache,
        memory: tuple[Tensor, Tensor],
        mask: Tensor | None,
        rotation: Rotation | None,
        weights: bool,
    ) -> tuple[Tensor, Tensor | None, Tensor | None, KVCache]:
        """inputs [B T D]; what self-attention carries; memory: key, value [N H S K]; mask [N 1 1 S] | None.

        The B / N hypotheses of a sentence look at its memory as so many more columns.

        → outputs [B T D], cross weights [B H T S] | None, self weights [B H T P] | None, the new past.
        """
        query, key, value = project(self.self_attention, self.self_residual.before(inputs), rotation)
        context, self_looked, past = self.kind(query, key, value, past, None, weights)
        inputs = self.self_residual.after(inputs, self.self_attention.merge(context))
        asking = self.cross_residual.before(inputs).view(len(memory[0]), -1, inputs.size(2))  # [N B/N·T D]
        query = self.cross_attention.project_query(asking)
        context, looked = self.cross_attention(query, *memory, mask, weights=weights)
        inputs = self.cross_residual.after(inputs, context.view_as(inputs))
        if looked is not None:
            looked = looked.unflatten(2, (-1, inputs.size(1))).transpose(1, 2).flatten(0, 1)
        outputs = self.feed_residual.after(inputs, self.feed(self.feed_residual.before(inputs)))
        return outputs, looked, self_looked, past


def project(attention: MultiHeadAttention, inputs: Tensor, rotation: Rotation | None) -> tuple[Tensor, Tensor, Tensor]:
    """[B T D] → query, key, value [B H T K] of self-attention, query and key turned to their positions."""
    query, key, value = attention.project_all(inputs)
    if rotation is None:
        return query, key, value
    return turn(query, rotation), turn(key, rotation), value

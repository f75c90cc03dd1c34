"""The Transformer (Vaswani et al. 2017), pre- or post-norm.

B batch, S source length, T target length, D model size, H heads, K head size.
Deviations from the paper: pre-norm by default (a last norm closes each stack); sinusoids are concatenated, sine half
first, not interleaved (the same up to the order of the dimensions); the embedding matrix is drawn with deviation D^-½
so that tied logits start at unit scale.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from nmt.attention.multihead import MultiHead
from nmt.models.base import Decoded, EncoderDecoder, Memory, State
from nmt.models.dropout import Dropout


class FeedForward(nn.Sequential):
    """max(0, x W_1 + b_1) W_2 + b_2 (Vaswani 2017 eq. 2), or with GELU."""

    def __init__(self, size: int, hidden: int, activation: str) -> None:
        nonlinear = nn.GELU() if activation == "gelu" else nn.ReLU()
        linears = nn.Linear(size, hidden), nn.Linear(hidden, size)
        super().__init__(linears[0], nonlinear, linears[1])
        for linear in linears:
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)


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

    def __init__(self, size: int, heads: int, hidden: int, share: float, norm: str, activation: str) -> None:
        super().__init__()
        self.attention, self.attention_residual = MultiHead(size, heads), Residual(size, share, norm)
        self.feed, self.feed_residual = FeedForward(size, hidden, activation), Residual(size, share, norm)

    def forward(self, inputs: Tensor, mask: Tensor | None) -> Tensor:
        """[B S D], mask [B 1 1 S] | None → [B S D]."""
        query, key, value = self.attention.project_all(self.attention_residual.before(inputs))
        inputs = self.attention_residual.after(inputs, self.attention(query, key, value, mask)[0])
        return self.feed_residual.after(inputs, self.feed(self.feed_residual.before(inputs)))


class DecoderLayer(nn.Module):
    """Causal self-attention, cross-attention, feed-forward."""

    def __init__(self, size: int, heads: int, hidden: int, share: float, norm: str, activation: str) -> None:
        super().__init__()
        self.self_attention, self.self_residual = MultiHead(size, heads), Residual(size, share, norm)
        self.cross_attention, self.cross_residual = MultiHead(size, heads), Residual(size, share, norm)
        self.feed, self.feed_residual = FeedForward(size, hidden, activation), Residual(size, share, norm)

    def forward(
        self,
        inputs: Tensor,
        past: tuple[Tensor, Tensor],
        memory: tuple[Tensor, Tensor],
        mask: Tensor | None,
        weights: bool,
    ) -> tuple[Tensor, Tensor | None, tuple[Tensor, Tensor]]:
        """inputs [B T D]; past and memory: key, value → outputs [B T D], cross weights [B H T S] | None, new past."""
        query, key, value = self.self_attention.project_all(self.self_residual.before(inputs))
        if past[0].size(2):
            key, value = torch.cat((past[0], key), 2), torch.cat((past[1], value), 2)
        inputs = self.self_residual.after(inputs, self.self_attention(query, key, value, causal=True)[0])
        query = self.cross_attention.project_query(self.cross_residual.before(inputs))
        context, looked = self.cross_attention(query, *memory, mask, weights=weights)
        inputs = self.cross_residual.after(inputs, context)
        return self.feed_residual.after(inputs, self.feed(self.feed_residual.before(inputs))), looked, (key, value)


class Transformer(EncoderDecoder):
    """Stacks of encoder and decoder layers over scaled embeddings and sinusoidal positions."""

    def __init__(
        self,
        source_size: int,
        target_size: int,
        joint: bool,
        encoder_layers: int,
        decoder_layers: int,
        size: int,
        heads: int,
        feed_forward: int,
        norm: str,
        activation: str,
        dropout: float,
        tie: bool,
    ) -> None:
        super().__init__()
        self.heads, self.scale = heads, math.sqrt(size)
        self.target_embedding = embedding(target_size, size)
        self.source_embedding = self.target_embedding if tie and joint else embedding(source_size, size)
        self.dropout = Dropout(dropout)
        layer = (size, heads, feed_forward, dropout, norm, activation)
        self.encoder = nn.ModuleList(EncoderLayer(*layer) for _ in range(encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(*layer) for _ in range(decoder_layers))
        self.encoder_norm = nn.LayerNorm(size) if norm == "pre" else nn.Identity()
        self.decoder_norm = nn.LayerNorm(size) if norm == "pre" else nn.Identity()
        self.output = nn.Linear(size, target_size, bias=False)
        if tie:
            self.output.weight = self.target_embedding.weight
        else:
            nn.init.normal_(self.output.weight, std=size**-0.5)

    def encode(self, source: Tensor, mask: Tensor | None, weights: bool = False) -> Memory:
        hidden = self.embed(self.source_embedding, source, 0)
        attention_mask = None if mask is None else mask[:, None, None]
        for layer in self.encoder:
            hidden = layer(hidden, attention_mask)
        values = self.encoder_norm(hidden)
        fixed: State = {}
        for number, layer in enumerate(self.decoder):
            key, value = layer.cross_attention.project_memory(values)  # type: ignore[union-attr, operator]
            fixed |= {f"key_{number}": key, f"value_{number}": value}
        return Memory(values, mask, fixed)

    def start(self, memory: Memory) -> State:
        batch, _, size = memory.values.shape
        empty = memory.values.new_empty(batch, self.heads, 0, size // self.heads)
        return {f"{part}_{number}": empty for number in range(len(self.decoder)) for part in ("key", "value")}

    def decode(self, target: Tensor, state: State, memory: Memory, weights: bool = False) -> Decoded:
        hidden = self.embed(self.target_embedding, target, state["key_0"].size(2))
        mask = None if memory.mask is None else memory.mask[:, None, None]
        after: State = {}
        looks = []
        for number, layer in enumerate(self.decoder):
            key, value = f"key_{number}", f"value_{number}"
            past, seen = (state[key], state[value]), (memory.fixed[key], memory.fixed[value])
            hidden, looked, (after[key], after[value]) = layer(hidden, past, seen, mask, weights)
            looks.append(looked)
        return Decoded(self.decoder_norm(hidden), torch.stack(looks, 1) if weights else None, after)

    def embed(self, table: nn.Module, tokens: Tensor, start: int) -> Tensor:
        """√D · E x + position (Vaswani 2017 §3.4 and §3.5): [B T] → [B T D]."""
        hidden = table(tokens) * self.scale
        return self.dropout(hidden + sinusoids(start, tokens.size(1), hidden.size(2), hidden))


def embedding(vocabulary: int, size: int) -> nn.Embedding:
    """A table of unit scale after multiplication by √size."""
    table = nn.Embedding(vocabulary, size)
    nn.init.normal_(table.weight, std=size**-0.5)
    return table


def sinusoids(start: int, length: int, size: int, like: Tensor) -> Tensor:
    """sin and cos of position / 10000^(2i/D) for the positions from `start` (Vaswani 2017 §3.5): [T D]."""
    position = torch.arange(start, start + length, device=like.device, dtype=torch.float32)
    frequency = torch.exp(torch.arange(0, size, 2, device=like.device) * (-math.log(10000.0) / size))
    angle = position[:, None] * frequency
    return functional.pad(torch.cat((angle.sin(), angle.cos()), 1), (0, size % 2)).to(like.dtype)

"""The Transformer (Vaswani et al. 2017), with the kinds of self-attention and the positions that came after it.

B batch, L layers, S source length, T target length, P target columns so far, D model size, H heads, K head size.
Deviations from the paper: pre-norm by default (a last norm closes each stack); sinusoids are concatenated, sine half
first, not interleaved (the same up to the order of the dimensions); the embedding matrix is drawn with deviation D^-½
so that tied logits start at unit scale.
"""

import math

import torch
from torch import Tensor, nn

from nmt.attention.positions import Learned, Positions, Start, make_positions
from nmt.attention.self_attention import KVCache, SelfAttention, make_self_attention
from nmt.models.base import DecoderOutput, DecoderState, EncoderDecoder, Memory, select
from nmt.models.dropout import Dropout
from nmt.models.layers import DecoderLayer, EncoderLayer
from nmt.models.transformer_config import TransformerConfig


class Transformer(EncoderDecoder):
    """Stacks of encoder and decoder layers over scaled embeddings.

    `attention`, `sliding_window` and `bias` choose the kind of self-attention; cross-attention is always softmax, since
    only sequences that are compared with themselves have distances. `attention_dropout` is on the weights of both.
    """

    def __init__(self, config: TransformerConfig, source_size: int, target_size: int, joint: bool) -> None:
        super().__init__()
        size, norm, tie = config.size, config.norm, config.tie
        self.heads, self.scale = config.heads, math.sqrt(size)
        self.target_embedding = embedding(target_size, size)
        self.source_embedding = self.target_embedding if tie and joint else embedding(source_size, size)
        self.source_positions = make_positions(config.positions, size, config.heads, config.max_positions)
        self.target_positions = make_positions(config.positions, size, config.heads, config.max_positions)
        self.dropout = Dropout(config.dropout)
        layer = (size, config.heads, config.feed_forward, config.dropout, norm, config.activation)
        readers = [make_attention(config, causal=False) for _ in range(config.encoder_layers)]
        writers = [make_attention(config, causal=True) for _ in range(config.decoder_layers)]
        self.encoder = nn.ModuleList(EncoderLayer(*layer, kind) for kind in readers)
        self.decoder = nn.ModuleList(DecoderLayer(*layer, kind, config.attention_dropout) for kind in writers)
        first, second = writers[0].parts
        self.grows = writers[0].grows
        self.carried = [(f"{first}_{number}", f"{second}_{number}") for number in range(config.decoder_layers)]
        self.looked_at = [(f"key_{number}", f"value_{number}") for number in range(config.decoder_layers)]
        self.encoder_norm = nn.LayerNorm(size) if norm == "pre" else nn.Identity()
        self.decoder_norm = nn.LayerNorm(size) if norm == "pre" else nn.Identity()
        self.output = nn.Linear(size, target_size, bias=False)
        if tie:
            self.output.weight = self.target_embedding.weight
        else:
            nn.init.normal_(self.output.weight, std=size**-0.5)

    @property
    def num_layers(self) -> int:
        return len(self.decoder)

    @property
    def num_heads(self) -> int:
        return self.heads

    @property
    def has_rollout(self) -> bool:
        return True

    @property
    def max_length(self) -> int | None:
        return len(self.source_positions.table) if isinstance(self.source_positions, Learned) else None

    def encode(self, source: Tensor, mask: Tensor | None, weights: bool = False) -> Memory:
        hidden = self.embed(self.source_embedding, self.source_positions, source, 0)
        rotation = self.source_positions.rotation(0, source.size(1), hidden)
        attention_mask = None if mask is None else mask[:, None, None]
        looks = []
        for layer in self.encoder:
            hidden, looked = layer(hidden, attention_mask, rotation, weights)
            looks.append(looked)
        values = self.encoder_norm(hidden)
        fixed: DecoderState = {}
        for layer, (key, value) in zip(self.decoder, self.looked_at, strict=True):
            fixed[key], fixed[value] = layer.cross_attention.project_memory(values)  # type: ignore[union-attr, operator]
        return Memory(values, mask, fixed, torch.stack(looks, 1) if weights else None)

    def start(self, memory: Memory) -> DecoderState:
        batch, _, size = memory.values.shape
        empty = memory.values.new_empty(batch, self.heads, 0, size // self.heads)
        state: DecoderState = {}
        for layer, (first, second) in zip(self.decoder, self.carried, strict=True):
            state[first], state[second], _ = layer.kind.start(empty)  # type: ignore[union-attr, operator]
        if not self.grows:
            state["step"] = torch.zeros(batch, dtype=torch.long, device=empty.device)
        return state

    def reorder(self, state: DecoderState, rows: Tensor) -> DecoderState:
        """Keys and values with one empty column, which saves the next one to copy all of them: `room` says so."""
        if not self.grows or rows.device.type != "cpu":
            return select(state, rows)
        parts = {name: with_room(state[name], rows, state) for pair in self.carried for name in pair}
        return parts | {"room": rows.new_empty(len(rows), 0)}

    def decode(self, target: Tensor, state: DecoderState, memory: Memory, weights: bool = False) -> DecoderOutput:
        """With `weights`, `self_weights` are over all P columns so far; linear attention keeps no earlier keys, so its
        own are over these T columns (P = T). A picture of a whole sentence is the same either way.
        """
        filled = columns_of(state[self.carried[0][0]], state) if self.grows else None
        start: Start = state["step"][0] if filled is None else filled
        hidden = self.embed(self.target_embedding, self.target_positions, target, start)
        rotation = self.target_positions.rotation(start, target.size(1), hidden)
        mask = None if memory.mask is None else memory.mask[:, None, None]
        after: DecoderState = {} if self.grows else {"step": state["step"] + target.size(1)}
        room = filled if "room" in state else None
        looks, self_looks = [], []
        for layer, (first, second), (key, value) in zip(self.decoder, self.carried, self.looked_at, strict=True):
            past, seen = KVCache(state[first], state[second], room), (memory.fixed[key], memory.fixed[value])
            hidden, looked, self_looked, (after[first], after[second], _) = layer(
                hidden, past, seen, mask, rotation, weights
            )
            looks.append(looked)
            self_looks.append(self_looked)
        hidden = self.decoder_norm(hidden)
        if not weights:
            return DecoderOutput(hidden, None, after)
        return DecoderOutput(hidden, torch.stack(looks, 1), after, torch.stack(self_looks, 1))

    def embed(self, table: nn.Module, positions: Positions, tokens: Tensor, start: Start) -> Tensor:
        """√D · E x + position (Vaswani 2017 §3.4 and §3.5): [B T] → [B T D], in autocast's format where that is on.

        On a CPU all that is added to it stays in that format too: half the traffic of float32 sums, and no conversions.
        On CUDA norms give float32, so only the sums of pre-norm do.
        """
        embedded = positions(table(tokens) * self.scale, start)
        kind = embedded.device.type
        if torch.is_autocast_enabled(kind):
            embedded = embedded.to(torch.get_autocast_dtype(kind))
        return self.dropout(embedded)


def make_attention(config: TransformerConfig, causal: bool) -> SelfAttention:
    """The self-attention of one layer."""
    return make_self_attention(
        config.attention,
        config.heads,
        causal,
        config.attention_dropout,
        config.sliding_window,
        config.bias,
        config.max_distance,
    )


def columns_of(part: Tensor, state: DecoderState) -> int:
    """How many columns of keys or values [B H P K] there are, without the empty one."""
    return part.size(2) - ("room" in state)


def with_room(part: Tensor, rows: Tensor, state: DecoderState) -> Tensor:
    """These rows of keys or values [B H P K], with an empty column behind them: [B' H P+1 K]."""
    heads, columns, size = part.size(1), columns_of(part, state), part.size(3)
    wide = part.new_empty(len(rows), heads, columns + 1, size)
    torch.index_select(part[:, :, :columns], 0, rows, out=wide[:, :, :columns])
    return wide


def embedding(vocabulary: int, size: int) -> nn.Embedding:
    """A table of unit scale after multiplication by √size."""
    table = nn.Embedding(vocabulary, size)
    nn.init.normal_(table.weight, std=size**-0.5)
    return table

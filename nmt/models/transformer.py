"""The Transformer (Vaswani et al. 2017), with later attention functions and positional encodings.

Deviations from the paper: Pre-norm is the default, with a last norm after each stack. Sines and
cosines are concatenated, not interleaved, which is the same up to the order of the dimensions. The
embeddings are initialised with standard deviation D^-½, so that tied logits start at unit scale.

B batch, N sentences, L layers, S source length, T target length, P target columns so far, D model
size, H heads, K head size.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from nmt.attention.cpu import same_threads
from nmt.attention.kernels import additive_mask
from nmt.attention.positions import Positions, Start, make_positions
from nmt.attention.projection import to_autocast
from nmt.attention.self_attention import KVCache, LayerState, make_self_attention
from nmt.config.transformer import TransformerConfig
from nmt.models.base import DecoderOutput, DecoderState, EncoderDecoder, Memory
from nmt.models.dropout import Dropout
from nmt.models.layers import DecoderLayer, EncoderLayer, LayerNorm


class Transformer(EncoderDecoder):
    """Stacks of encoder and decoder layers over scaled embeddings.

    The configuration chooses the function of self-attention. Cross-attention is always softmax.
    """

    def __init__(
        self, config: TransformerConfig, source_size: int, target_size: int, joint: bool
    ) -> None:
        super().__init__()
        size = config.hidden_size
        heads = config.num_heads
        tie = config.tie_embeddings
        self.heads = heads
        self.scale = math.sqrt(size)

        # Embeddings and positions
        self.target_embedding = embedding(target_size, size)
        self.source_embedding = self.target_embedding
        if not (tie and joint):
            self.source_embedding = embedding(source_size, size)
        positions = config.positions
        self.source_positions = make_positions(positions, size, heads, config.max_positions)
        self.target_positions = make_positions(positions, size, heads, config.max_positions)
        self.dropout = Dropout(config.dropout)

        # Layers. All attention functions are made before the first layer, because the order in
        # which modules are made decides their random numbers, and a seed must keep its weights.
        encoder_functions = [
            make_self_attention(config, causal=False) for _ in range(config.encoder_layers)
        ]
        decoder_functions = [
            make_self_attention(config, causal=True) for _ in range(config.decoder_layers)
        ]
        self.encoder = nn.ModuleList(EncoderLayer(config, each) for each in encoder_functions)
        self.decoder = nn.ModuleList(DecoderLayer(config, each) for each in decoder_functions)
        self.state_type = decoder_functions[0].state_type
        self.has_self_weights = decoder_functions[0].has_weights
        self.recomputes = False  # see `run_layer`
        self.encoder_norm = LayerNorm(size) if config.norm == "pre" else nn.Identity()
        self.decoder_norm = LayerNorm(size) if config.norm == "pre" else nn.Identity()

        # Output
        self.output = nn.Linear(size, target_size, bias=config.output_bias)
        if tie:
            self.output.weight = self.target_embedding.weight
        else:
            nn.init.normal_(self.output.weight, std=size**-0.5)
        if config.output_bias:
            nn.init.zeros_(self.output.bias)

    @property
    def num_layers(self) -> int:
        return len(self.decoder)

    @property
    def num_heads(self) -> int:
        return self.heads

    @property
    def has_rollout(self) -> bool:
        return self.has_self_weights

    @property
    def max_length(self) -> int | None:
        return self.target_positions.max_length

    def encode(self, source: Tensor, mask: Tensor | None, weights: bool = False) -> Memory:
        hidden = self.embed(self.source_embedding, self.source_positions, source, 0)  # [B S D]
        rotation = self.source_positions.rotation(0, source.size(1), hidden)  # [S K], if any
        attention_mask = None if mask is None else mask[:, None, None]  # [B 1 1 S]
        self_weights = []
        for layer in self.encoder:
            hidden, layer_weights = self.run_layer(layer, hidden, attention_mask, rotation, weights)
            self_weights.append(layer_weights)
        values = self.encoder_norm(hidden)

        # Cross-attention's keys and values of every decoder layer, once per sentence
        static: dict[str, Tensor] = {}
        for number, layer in enumerate(self.decoder):
            project = layer.cross_attention.project_memory  # type: ignore[union-attr]
            key, value = project(values)  # type: ignore[operator]
            static[f"key_{number}"] = key  # [B H S K]
            static[f"value_{number}"] = value
        return Memory(values, mask, static, stack_layers(self_weights))

    def start(self, memory: Memory) -> DecoderState:
        batch, _, size = memory.values.shape
        empty = memory.values.new_empty(batch, self.heads, 0, size // self.heads)
        state: DecoderState = {}
        for number, layer in enumerate(self.decoder):
            before = layer.attention_function.start(empty)  # type: ignore[union-attr,operator]
            state |= named_state(before, number)
        if self.state_type is not KVCache:
            state["step"] = torch.zeros(batch, dtype=torch.long, device=empty.device)
        return state

    def decode(
        self, target: Tensor, state: DecoderState, memory: Memory, weights: bool = False
    ) -> DecoderOutput:
        """Decode target [B T] after the columns that led to `state`.

        `self_weights` are over all P columns so far. Linear attention keeps no earlier keys, so its
        weights are over these T columns alone. Fast weights have none.
        """
        # The position of the first column is the length of the cache, or a count without a cache
        first_position: Start
        state_after: DecoderState = {}
        if "step" in state:
            first_position = state["step"][0]  # all rows have the same
            state_after["step"] = state["step"] + target.size(1)
        else:
            first_position = state["keys_0"].size(2)  # of self-attention; memory has key_0 …

        # Embeddings and positions
        positions = self.target_positions
        hidden = self.embed(self.target_embedding, positions, target, first_position)  # [B T D]
        rotation = positions.rotation(first_position, target.size(1), hidden)  # [T K], if any

        # Layers
        mask = None if memory.mask is None else memory.mask[:, None, None]  # [N 1 1 S]
        if mask is not None and mask.device.type == "cuda":
            mask = additive_mask(mask, hidden.dtype)
        all_cross_weights = []
        all_self_weights = []
        for number, layer in enumerate(self.decoder):
            guided = self.returns_guided_weights and number == self.guided_layer
            hidden, cross_weights, self_weights, layer_after = self.run_layer(
                layer,
                hidden,
                self.layer_state(state, number),
                (memory.static[f"key_{number}"], memory.static[f"value_{number}"]),
                mask,
                rotation,
                weights,
                guided,
            )
            state_after |= named_state(layer_after, number)
            all_cross_weights.append(cross_weights)
            all_self_weights.append(self_weights)
        outputs = self.decoder_norm(hidden)

        # Weights of the guided head, or of all heads
        if self.returns_guided_weights and not weights:
            guided_weights = all_cross_weights[self.guided_layer]  # [B H T S]
            return DecoderOutput(outputs, guided_weights[:, None, :1], state_after)
        cross_weights = stack_layers(all_cross_weights)
        self_weights = stack_layers(all_self_weights)
        return DecoderOutput(outputs, cross_weights, state_after, self_weights)

    def run_layer(self, layer: nn.Module, *inputs: Any) -> Any:
        """layer(*inputs); with `recomputes` the backward pass computes it again (Chen et al. 2016).

        Between the two passes only the inputs are in memory. The results, also of dropout, are the
        same.
        """
        if self.recomputes and torch.is_grad_enabled():
            return checkpoint(layer, *inputs, use_reentrant=False, context_fn=same_threads)
        return layer(*inputs)

    def layer_state(self, state: DecoderState, number: int) -> LayerState:
        """The state of one layer's self-attention."""
        parts: Any = [state[f"{name}_{number}"] for name in self.state_type._fields]
        return self.state_type(*parts)

    def embed(self, table: nn.Module, positions: Positions, tokens: Tensor, start: Start) -> Tensor:
        """tokens [B T] → √D · embedding + position (Vaswani 2017 §3.4 and §3.5) [B T D].

        Under autocast the result has autocast's dtype. So do all later sums of the residual
        connections, which takes half the memory traffic of float32 and no conversions.
        """
        embedded = positions(table(tokens) * self.scale, start)
        return self.dropout(to_autocast(embedded))


def named_state(layer_state: LayerState, number: int) -> DecoderState:
    """The tensors of one layer's state, named by field and layer: the inverse of `layer_state`."""
    return {f"{name}_{number}": part for name, part in layer_state._asdict().items()}


def stack_layers(weights: list[Tensor | None]) -> Tensor | None:
    """Weights [B H T S] of each layer → [B L H T S]; None if the layers have returned none."""
    layers = [part for part in weights if part is not None]
    if not layers:
        return None
    return torch.stack(layers, 1)


def embedding(vocabulary: int, size: int) -> nn.Embedding:
    """A table of unit scale after multiplication by √size."""
    table = nn.Embedding(vocabulary, size)
    nn.init.normal_(table.weight, std=size**-0.5)
    return table

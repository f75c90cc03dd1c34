"""The layers of the Transformer (Vaswani et al. 2017 §3), pre- or post-norm.

B batch, N sentences, S source length, T target length, P target columns so far, D model size, H
heads, K head size.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from nmt.attention.cpu import backward_in_one_thread, call_with_padded_rows
from nmt.attention.multi_head import MultiHeadAttention
from nmt.attention.positions import Rotation, rotate
from nmt.attention.self_attention import QKV, LayerState, SelfAttention
from nmt.config.transformer import TransformerConfig
from nmt.models.dropout import Dropout


class LayerNorm(nn.LayerNorm):
    """Layer normalisation (Ba et al. 2016).

    On a CPU its gradients have the same bits with any number of threads. On a GPU the result has
    the dtype of the inputs. Autocast would convert the inputs to float32 and return float32, which
    the next product converts back; the kernel computes mean and variance in float32 anyway.
    """

    def forward(self, inputs: Tensor) -> Tensor:
        if inputs.device.type != "cuda":
            return backward_in_one_thread(super().forward(inputs))
        weight = self.weight.to(inputs.dtype)
        bias = self.bias.to(inputs.dtype)
        with torch.autocast("cuda", enabled=False):
            return functional.layer_norm(inputs, self.normalized_shape, weight, bias, self.eps)


class FeedForward(nn.Sequential):
    """max(0, x W_1 + b_1) W_2 + b_2 (Vaswani 2017 eq. 2), or with GELU or SiLU."""

    def __init__(self, config: TransformerConfig) -> None:
        nonlinearities = {"relu": nn.ReLU(inplace=True), "gelu": nn.GELU(), "silu": nn.SiLU()}
        size = config.hidden_size
        hidden = config.feed_forward_size
        first = nn.Linear(size, hidden)
        second = nn.Linear(hidden, size)
        super().__init__(first, nonlinearities[config.activation], second)
        for linear in (first, second):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, inputs: Tensor) -> Tensor:
        """[B T D] → [B T D].

        The rows are flattened to [B·T D]. Over [B T D] nn.Linear returns a view, which autograd
        copies before ReLU changes it in place.
        """
        return call_with_padded_rows(super().forward, inputs.flatten(0, -2)).view_as(inputs)


class Residual(nn.Module):
    """x + dropout(f(norm(x))) with pre-norm, norm(x + dropout(f(x))) with post-norm.

    Post-norm is that of Vaswani 2017 §3.1 and §5.4. The layer calls f between `sublayer_input` and
    `add`.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.is_pre_norm = config.norm == "pre"
        self.norm = LayerNorm(config.hidden_size)
        self.dropout = Dropout(config.dropout)

    def sublayer_input(self, inputs: Tensor) -> Tensor:
        """The input of f: norm(x) with pre-norm, x with post-norm; [B T D] → [B T D]."""
        return self.norm(inputs) if self.is_pre_norm else inputs

    def add(self, inputs: Tensor, output: Tensor) -> Tensor:
        """inputs x and output of f [B T D] → x + dropout(f) [B T D], normalised with post-norm."""
        total = self.dropout(output, residual=inputs)
        return total if self.is_pre_norm else self.norm(total)


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward, each in a residual connection."""

    def __init__(self, config: TransformerConfig, attention_function: SelfAttention[Any]) -> None:
        super().__init__()
        # This only projects the inputs and merges the heads. `attention_function` computes the
        # contexts, and has a dropout of its own
        self.attention = MultiHeadAttention(config.hidden_size, config.num_heads)
        self.attention_residual = Residual(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_residual = Residual(config)
        self.attention_function = attention_function

    def forward(
        self, inputs: Tensor, mask: Tensor | None, rotation: Rotation | None, weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """[B S D], mask [B 1 1 S] | None → [B S D], weights [B H S S] | None."""
        # Self-attention
        attention_input = self.attention_residual.sublayer_input(inputs)
        qkv = project_and_rotate(self.attention, attention_input, rotation)  # [B H S K] each
        context, self_weights, _ = self.attention_function(
            attention_input, qkv, None, mask, weights
        )  # [B H S K]
        attended = self.attention.merge_heads(context)  # [B S D]
        inputs = self.attention_residual.add(inputs, attended)

        # Feed-forward
        outputs = self.feed_forward(self.feed_forward_residual.sublayer_input(inputs))
        return self.feed_forward_residual.add(inputs, outputs), self_weights


class DecoderLayer(nn.Module):
    """Causal self-attention, cross-attention, feed-forward, each in a residual connection."""

    def __init__(self, config: TransformerConfig, attention_function: SelfAttention[Any]) -> None:
        super().__init__()
        size = config.hidden_size
        heads = config.num_heads
        self.self_attention = MultiHeadAttention(size, heads)  # as `EncoderLayer.attention`
        self.self_residual = Residual(config)
        self.cross_attention = MultiHeadAttention(size, heads, config.attention_dropout)
        self.cross_residual = Residual(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_residual = Residual(config)
        self.attention_function = attention_function

    def forward(
        self,
        inputs: Tensor,
        state: LayerState,
        memory: tuple[Tensor, Tensor],
        mask: Tensor | None,
        rotation: Rotation | None,
        weights: bool,
        guided: bool = False,
    ) -> tuple[Tensor, Tensor | None, Tensor | None, LayerState]:
        """inputs [B T D] → outputs [B T D], cross weights, self weights, the state after them.

        state of self-attention; memory: key and value of cross-attention [N H S K]; mask [N 1 1 S]
        | None. The B / N hypotheses of a sentence attend to its memory as if they were more columns
        of one target.

        With `weights`, cross weights are [B H T S] and self weights [B H T P], else None. `guided`
        asks for the cross weights alone.
        """
        # Causal self-attention
        attention_input = self.self_residual.sublayer_input(inputs)
        qkv = project_and_rotate(self.self_attention, attention_input, rotation)  # [B H T K] each
        context, self_weights, after = self.attention_function(
            attention_input, qkv, state, None, weights
        )  # [B H T K]
        assert after is not None  # only an encoder may have no state
        attended = self.self_attention.merge_heads(context)  # [B T D]
        inputs = self.self_residual.add(inputs, attended)

        # Cross-attention
        key, value = memory
        attention_input = self.cross_residual.sublayer_input(inputs)
        attention_input = attention_input.view(len(key), -1, inputs.size(2))  # [N B/N·T D]
        query = self.cross_attention.project_query(attention_input)  # [N H B/N·T K]
        attended, cross_weights = self.cross_attention(
            query, key, value, mask, weights=weights or guided
        )  # [N B/N·T D]
        inputs = self.cross_residual.add(inputs, attended.view_as(inputs))  # [B T D]
        if cross_weights is not None:
            cross_weights = cross_weights.unflatten(2, (-1, inputs.size(1)))  # [N H B/N T S]
            cross_weights = cross_weights.transpose(1, 2).flatten(0, 1)  # [B H T S]

        # Feed-forward
        outputs = self.feed_forward(self.feed_forward_residual.sublayer_input(inputs))
        return self.feed_forward_residual.add(inputs, outputs), cross_weights, self_weights, after


def project_and_rotate(
    attention: MultiHeadAttention, inputs: Tensor, rotation: Rotation | None
) -> QKV:
    """[B T D] → query, key, value [B H T K] of self-attention, query and key rotated if asked."""
    query, key, value = attention.project_all(inputs)
    if rotation is None:
        return query, key, value
    return rotate(query, rotation), rotate(key, rotation), value

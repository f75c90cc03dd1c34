"""The attention functions of self-attention, and the state that each keeps from column to column.

One call over all columns gives the same as one call for each chunk, wherever the sequence is split.

B batch, H heads, T target length, P columns so far, D model size, K head size.
"""

from abc import ABC, abstractmethod
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from nmt.attention.cpu import call_with_padded_rows
from nmt.attention.fast_weights import FastWeightState, fast_weight_attention
from nmt.attention.flex import BIASES, explicit_attention, fused_attention, make_score_mod
from nmt.attention.kernels import attend, causal_mask, combine_masks, scaled_dot_product
from nmt.attention.linear import LinearAttentionState, causal_linear_attention, linear_attention
from nmt.attention.projection import sum_dtype
from nmt.errors import choose


class KVCache(NamedTuple):
    """Keys and values of all P columns so far."""

    keys: Tensor  # [B H P K]
    values: Tensor  # the same

    def append(self, key: Tensor, value: Tensor) -> "KVCache":
        """The cache with these columns [B H T K] behind its own."""
        if not self.keys.size(2):
            return KVCache(key, value)
        return KVCache(torch.cat((self.keys, key), 2), torch.cat((self.values, value), 2))


QKV = tuple[Tensor, Tensor, Tensor]  # query, key, value [B H T K]
LayerState = KVCache | LinearAttentionState | FastWeightState
State = TypeVar("State", KVCache, LinearAttentionState, FastWeightState)


class SelfAttention(nn.Module, ABC, Generic[State]):
    """From queries, keys and values of one sequence to contexts.

    In the decoder it is causal and continues a state. `config` is a TransformerConfig; its module
    (nmt/config/transformer.py) imports this one.
    """

    state_type: type[LayerState]
    has_weights = True  # whether `forward` can return weights: contexts are weighted means

    def __init__(self, config: Any, causal: bool) -> None:
        super().__init__()
        self.causal = causal

    @abstractmethod
    def start(self, empty: Tensor) -> State:
        """The state before the first column; `empty` [B H 0 K] has its sizes, dtype and device."""

    @abstractmethod
    def forward(
        self, inputs: Tensor, qkv: QKV, state: State | None, mask: Tensor | None, weights: bool
    ) -> tuple[Tensor, Tensor | None, State | None]:
        """query, key, value [B H T K] → contexts [B H T K], weights [B H T P], state after them.

        inputs [B T D] of the layer: only the delta rule reads them. The encoder gives a mask
        [B 1 1 T] | None and no state, and the state after may be None. The decoder gives its state
        and no mask. Weights are None unless `weights`.
        """


class CachedSelfAttention(SelfAttention[KVCache]):
    """Self-attention whose state is the keys and values of all columns so far."""

    state_type = KVCache

    def start(self, empty: Tensor) -> KVCache:
        return KVCache(empty, empty)

    def forward(
        self, inputs: Tensor, qkv: QKV, state: KVCache | None, mask: Tensor | None, weights: bool
    ) -> tuple[Tensor, Tensor | None, KVCache | None]:
        query, key, value = qkv
        cache = KVCache(key, value) if state is None else state.append(key, value)
        context, attention_weights = self.attend_to(query, cache, mask, weights)
        if not weights:
            attention_weights = None
        return context, attention_weights, cache

    @abstractmethod
    def attend_to(
        self, query: Tensor, cache: KVCache, mask: Tensor | None, weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """query [B H T K] of the cache's last T columns → contexts [B H T K], weights [B H T P].

        The weights may be None. They may be returned without `weights`; `forward` drops them.
        """


class SoftmaxSelfAttention(CachedSelfAttention):
    """softmax(q kᵀ / √K) v (Vaswani 2017 §3.2.1), fused where that is faster."""

    def __init__(self, config: Any, causal: bool) -> None:
        super().__init__(config, causal)
        self.dropout = config.attention_dropout

    def attend_to(
        self, query: Tensor, cache: KVCache, mask: Tensor | None, weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        dropout = self.dropout if self.training else 0.0
        return scaled_dot_product(
            query, cache.keys, cache.values, mask, self.causal, weights, dropout
        )


class LinearSelfAttention(SelfAttention[LinearAttentionState]):
    """φ(q)ᵀ Σ φ(k) vᵀ / φ(q)ᵀ Σ φ(k) (Katharopoulos 2020).

    The state is one matrix and one vector for each head. Earlier columns are not kept, so the
    weights of a chunk are over the columns of that chunk alone (P = T).
    """

    state_type = LinearAttentionState

    def start(self, empty: Tensor) -> LinearAttentionState:
        batch, heads, _, size = empty.shape
        dtype = sum_dtype(empty)
        kv_sum = empty.new_zeros(batch, heads, size, size, dtype=dtype)
        key_sum = empty.new_zeros(batch, heads, size, dtype=dtype)
        return LinearAttentionState(kv_sum, key_sum)

    def forward(
        self,
        inputs: Tensor,
        qkv: QKV,
        state: LinearAttentionState | None,
        mask: Tensor | None,
        weights: bool,
    ) -> tuple[Tensor, Tensor | None, LinearAttentionState | None]:
        if not self.causal:
            context, attention_weights = linear_attention(*qkv, mask, weights)
            return context, attention_weights, None
        if state is None:
            state = self.start(qkv[0][:, :, :0])
        return causal_linear_attention(*qkv, state, weights)


class FlexSelfAttention(CachedSelfAttention):
    """softmax(q kᵀ / √K + bias) v inside a sliding window.

    On CUDA, FlexAttention computes whole sentences. A chunk that continues a cache is computed
    explicitly, because it has few rows and each time a new shape. So are heads for which
    FlexAttention cannot be compiled. The results are the same.
    """

    def __init__(self, config: Any, causal: bool) -> None:
        super().__init__(config, causal)
        self.window = config.sliding_window
        bias_type = choose("distance_bias", config.distance_bias, BIASES)
        self.bias = bias_type(config.num_heads, config.max_distance, causal)

    def attend_to(
        self, query: Tensor, cache: KVCache, mask: Tensor | None, weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        real = None if mask is None else mask[:, 0, 0]  # [B P]
        is_whole_sentence = query.size(2) == cache.keys.size(2) > 1
        if is_whole_sentence and not weights:
            score_mod = make_score_mod(self.bias, self.window, self.causal, real)
            context = fused_attention(query, cache.keys, cache.values, score_mod)
            if context is not None:
                return context, None
        return explicit_attention(
            query, cache.keys, cache.values, self.bias, self.window, self.causal, real
        )


class AdditiveSelfAttention(CachedSelfAttention):
    """softmax(e_hᵀ tanh(q + k)) v (Bahdanau 2015 A.1.2), with a vector e_h for each head.

    e_h is the paper's v_a. The projections W^Q x and W^K x of multi-head attention are the paper's
    W_a s and U_a h. Deviation: q and k have the biases of multi-head attention; the paper's score
    has none.
    """

    def __init__(self, config: Any, causal: bool) -> None:
        super().__init__(config, causal)
        self.energy = nn.Parameter(
            torch.empty(config.num_heads, config.hidden_size // config.num_heads)
        )
        nn.init.xavier_uniform_(self.energy)

    def attend_to(
        self, query: Tensor, cache: KVCache, mask: Tensor | None, weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        if self.causal:
            mask = combine_masks(mask, causal_mask(query, cache.keys))
        queries = query.transpose(0, 1)[:, :, :, None]  # [H B T 1 K]
        keys = cache.keys.transpose(0, 1)[:, :, None]  # [H B 1 P K]
        hidden = torch.tanh(queries + keys)  # [H B T P K]
        # Heads come first, so that there is one product for each
        scores = hidden.flatten(1, 3) @ self.energy[:, :, None]  # [H B·T·P 1]
        scores = scores.view(hidden.shape[:4]).transpose(0, 1)  # [B H T P]
        return attend(scores, cache.values, mask)


class FastWeightSelfAttention(SelfAttention[FastWeightState]):
    """W_t = W_{t−1} + v_t φ(k_t)ᵀ, y_t = W_t φ(q_t) (Schmidhuber 1992).

    This is linear attention without its denominator, and it has no weights. In the encoder all
    pairs are written before W is read. Deviation: φ is elu + 1 divided by its sum, as in Schlag et
    al. 2021 §4.2; Schmidhuber's fast weights have other nonlinearities.
    """

    state_type = FastWeightState
    has_weights = False

    def start(self, empty: Tensor) -> FastWeightState:
        batch, heads, _, size = empty.shape
        dtype = sum_dtype(empty)
        return FastWeightState(empty.new_zeros(batch, heads, size, size, dtype=dtype))

    def rates(self, inputs: Tensor) -> Tensor | None:
        """inputs [B T D] → β [B H T] of the delta rule; None without it."""
        return None

    def forward(
        self,
        inputs: Tensor,
        qkv: QKV,
        state: FastWeightState | None,
        mask: Tensor | None,
        weights: bool,
    ) -> tuple[Tensor, None, FastWeightState]:
        if state is None:
            state = self.start(qkv[0][:, :, :0])
        context, after = fast_weight_attention(
            *qkv, state.fast_weights, self.rates(inputs), mask, self.causal
        )
        return context, None, FastWeightState(after)


class DeltaSelfAttention(FastWeightSelfAttention):
    """W_t = W_{t−1} + β_t (v_t − W_{t−1} φ(k_t)) φ(k_t)ᵀ, β = σ(W_β x) (Schlag et al. 2021 §4.2).

    Each head has its own β. In the encoder all pairs are written, in the order of the sentence,
    before W is read; the paper has no encoder. Deviation: φ is that of FastWeightSelfAttention, one
    of those that the paper compares; its own DPFP is not implemented.
    """

    def __init__(self, config: Any, causal: bool) -> None:
        super().__init__(config, causal)
        self.rate = nn.Linear(config.hidden_size, config.num_heads, bias=False)
        nn.init.xavier_uniform_(self.rate.weight)

    def rates(self, inputs: Tensor) -> Tensor:
        return torch.sigmoid(call_with_padded_rows(self.rate, inputs)).transpose(1, 2)


SELF_ATTENTIONS: dict[str, type[SelfAttention[Any]]] = {
    "softmax": SoftmaxSelfAttention,
    "linear": LinearSelfAttention,
    "flex": FlexSelfAttention,
    "additive": AdditiveSelfAttention,
    "fast_weights": FastWeightSelfAttention,
    "delta": DeltaSelfAttention,
}


def make_self_attention(config: Any, causal: bool) -> SelfAttention[Any]:
    """The function that `config.self_attention` names; raises UserError for an unknown name."""
    attention_type = choose("self_attention", config.self_attention, SELF_ATTENTIONS)
    return attention_type(config, causal)

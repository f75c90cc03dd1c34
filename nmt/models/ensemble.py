"""Several models that translate as one.

B batch, S source length, T target length, V vocabulary.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from nmt.attention.projection import sum_dtype
from nmt.models.base import DecoderOutput, DecoderState, EncoderDecoder, Memory


class Ensemble(EncoderDecoder):
    """p = mean_i p_i over models of any kind that share their vocabularies.

    The members' memories and states are merged under the prefixes `0.`, `1.`, … Attention weights
    are those of the first model that has attention.
    """

    def __init__(self, members: Sequence[EncoderDecoder]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.models = list(members)  # the same, with their type

    @property
    def attention_model(self) -> EncoderDecoder:
        """The member whose attention weights are returned: the first with attention, or model 0."""
        for model in self.models:
            if model.has_attention:
                return model
        return self.models[0]

    @property
    def has_attention(self) -> bool:
        return self.attention_model.has_attention

    @property
    def num_layers(self) -> int:
        return self.attention_model.num_layers

    @property
    def num_heads(self) -> int:
        return self.attention_model.num_heads

    @property
    def guided_step(self) -> str:  # type: ignore[override]
        return self.attention_model.guided_step

    @property
    def has_rollout(self) -> bool:
        return self.attention_model.has_rollout

    @property
    def max_length(self) -> int | None:
        lengths = [model.max_length for model in self.models]
        return min((length for length in lengths if length is not None), default=None)

    @property
    def window_reach(self) -> float | None:
        return self.attention_model.window_reach

    def encode(self, source: Tensor, mask: Tensor | None, weights: bool = False) -> Memory:
        statics = []
        attention_weights = None
        for model in self.models:
            is_attending = model is self.attention_model
            memory = model.encode(source, mask, weights and is_attending)
            statics.append(memory.static | {"values": memory.values})
            if is_attending:
                attention_weights = memory.weights
        # Members read their values in `static`. Search reads only size and device of `values`
        return Memory(statics[0]["values"], mask, merge_states(statics), attention_weights)

    def start(self, memory: Memory) -> DecoderState:
        states = []
        for number, model in enumerate(self.models):
            states.append(model.start(member_memory(memory, number)))
        return merge_states(states)

    def decode(
        self, target: Tensor, state: DecoderState, memory: Memory, weights: bool = False
    ) -> DecoderOutput:
        states = []
        log_probabilities = []
        attention_output: DecoderOutput | None = None
        for number, model in enumerate(self.models):
            is_attending = model is self.attention_model
            output = model.decode(
                target,
                member_state(state, number),
                member_memory(memory, number),
                weights and is_attending,
            )
            states.append(output.state)
            logits = model.logits(output.hidden)  # [B T V]
            dtype = sum_dtype(logits)
            log_probabilities.append(logits.log_softmax(-1, dtype=dtype))
            if is_attending:
                attention_output = output
        assert attention_output is not None
        # log Σ_i p_i. The mean would subtract log n, which does not change the softmax
        log_sum = torch.stack(log_probabilities).logsumexp(0)  # [B T V]
        return attention_output._replace(hidden=log_sum, state=merge_states(states), samples=None)

    def logits(self, hidden: Tensor) -> Tensor:
        """hidden [… V] unchanged: `decode` has put log Σ_i p_i there."""
        return hidden


def member_memory(memory: Memory, number: int) -> Memory:
    """The memory of one member, without attention weights."""
    static = member_state(memory.static, number)
    return Memory(static.pop("values"), memory.mask, static)


def merge_states(states: Sequence[DecoderState]) -> DecoderState:
    merged = {}
    for number, state in enumerate(states):
        for name, tensor in state.items():
            merged[f"{number}.{name}"] = tensor
    return merged


def member_state(state: DecoderState, number: int) -> DecoderState:
    prefix = f"{number}."
    member = {}
    for name, tensor in state.items():
        if name.startswith(prefix):
            member[name.removeprefix(prefix)] = tensor
    return member

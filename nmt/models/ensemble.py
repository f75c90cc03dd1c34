"""Several models that translate as one.

B batch, S source length, T target length, V vocabulary.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from nmt.models.base import DecoderOutput, DecoderState, EncoderDecoder, Memory


class Ensemble(EncoderDecoder):
    """log p = log mean_i p_i over models of any architecture that share their vocabularies.

    Memories and states are merged into one under the prefixes `0.`, `1.`, …; attention weights are
    those of the first model that has attention.
    """

    def __init__(self, members: Sequence[EncoderDecoder]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.models = list(members)  # the same; a ModuleList does not know their type

    @property
    def attention_model(self) -> EncoderDecoder:
        """The member whose attention weights are returned: the first that has attention, else the
        first."""
        return next((model for model in self.models if model.has_attention), self.models[0])

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
        return min(
            (model.max_length for model in self.models if model.max_length is not None),
            default=None,
        )

    @property
    def window_reach(self) -> float | None:
        return self.attention_model.window_reach

    def encode(self, source: Tensor, mask: Tensor | None, weights: bool = False) -> Memory:
        attending = self.attention_model
        memories = [
            model.encode(source, mask, weights and model is attending) for model in self.models
        ]
        static = merge_states([memory.static | {"values": memory.values} for memory in memories])
        return Memory(
            memories[0].values, mask, static, memories[self.models.index(attending)].weights
        )

    def start(self, memory: Memory) -> DecoderState:
        return merge_states(
            [model.start(member_memory(memory, number)) for number, model in enumerate(self.models)]
        )

    def decode(
        self, target: Tensor, state: DecoderState, memory: Memory, weights: bool = False
    ) -> DecoderOutput:
        attending = self.attention_model
        outputs = []
        for number, model in enumerate(self.models):
            own_state = member_state(state, number)
            own_memory = member_memory(memory, number)
            outputs.append(
                model.decode(target, own_state, own_memory, weights and model is attending)
            )
        logits = [
            model.logits(output.hidden) for model, output in zip(self.models, outputs, strict=True)
        ]
        full = torch.promote_types(logits[0].dtype, torch.float32)
        log_probabilities = torch.stack([member.log_softmax(-1, dtype=full) for member in logits])
        # without − log n, a constant that does not change the softmax
        mean = log_probabilities.logsumexp(0)
        merged = merge_states([output.state for output in outputs])
        return outputs[self.models.index(attending)]._replace(
            hidden=mean, state=merged, samples=None
        )

    def logits(self, hidden: Tensor) -> Tensor:
        """The `hidden` that `decode` returns is over the vocabulary already."""
        return hidden


def member_memory(memory: Memory, number: int) -> Memory:
    static = member_state(memory.static, number)
    return Memory(static.pop("values"), memory.mask, static)


def merge_states(states: Sequence[Mapping[str, Tensor]]) -> DecoderState:
    return {
        f"{number}.{name}": tensor
        for number, state in enumerate(states)
        for name, tensor in state.items()
    }


def member_state(state: DecoderState, number: int) -> DecoderState:
    prefix = f"{number}."
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in state.items()
        if name.startswith(prefix)
    }

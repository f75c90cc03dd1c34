"""Several models that write one target together.

B batch, S source length, T target length, V vocabulary.
"""

from collections.abc import Mapping, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from nmt.models.base import DecoderOutput, DecoderState, EncoderDecoder, Memory


class Ensemble(EncoderDecoder):
    """log p = log mean_i p_i over models of any kind that share their vocabularies.

    Memories and states are kept side by side under the prefixes `0.`, `1.`, …; weights are those of the first model
    that has attention.
    """

    def __init__(self, members: Sequence[EncoderDecoder]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    @property
    def models(self) -> list[EncoderDecoder]:
        """The members, typed."""
        return [cast(EncoderDecoder, member) for member in self.members]

    @property
    def has_attention(self) -> bool:
        return any(model.has_attention for model in self.models)

    @property
    def shown(self) -> EncoderDecoder:
        """The member whose weights are shown."""
        return next((model for model in self.models if model.has_attention), self.models[0])

    @property
    def num_layers(self) -> int:
        return self.shown.num_layers

    @property
    def num_heads(self) -> int:
        return self.shown.num_heads

    @property
    def has_rollout(self) -> bool:
        return self.shown.has_rollout

    @property
    def max_length(self) -> int | None:
        return min((model.max_length for model in self.models if model.max_length is not None), default=None)

    @property
    def window_reach(self) -> float | None:
        return self.shown.window_reach

    def encode(self, source: Tensor, mask: Tensor | None, weights: bool = False) -> Memory:
        shown = self.shown
        memories = [model.encode(source, mask, weights and model is shown) for model in self.models]
        fixed = side_by_side([memory.fixed | {"values": memory.values} for memory in memories])
        looked = memories[self.models.index(shown)].weights
        return Memory(memories[0].values, mask, fixed, looked)

    def start(self, memory: Memory) -> DecoderState:
        return side_by_side([model.start(self.own(memory, number)) for number, model in enumerate(self.models)])

    def reorder(self, state: DecoderState, rows: Tensor) -> DecoderState:
        return side_by_side([model.reorder(own(state, number), rows) for number, model in enumerate(self.models)])

    def decode(self, target: Tensor, state: DecoderState, memory: Memory, weights: bool = False) -> DecoderOutput:
        shown = self.shown
        decoded = [
            model.decode(target, own(state, number), self.own(memory, number), weights and model is shown)
            for number, model in enumerate(self.models)
        ]
        logits = [model.logits(one.hidden) for model, one in zip(self.models, decoded, strict=True)]
        full = torch.promote_types(logits[0].dtype, torch.float32)
        mean = torch.stack([one.log_softmax(-1, dtype=full) for one in logits]).logsumexp(0)  # off by log n: no matter
        looked = decoded[self.models.index(shown)]
        return looked._replace(hidden=mean, state=side_by_side([one.state for one in decoded]), policy=None)

    def logits(self, hidden: Tensor) -> Tensor:
        """What `decode` returns already is over the vocabulary."""
        return hidden

    def own(self, memory: Memory, number: int) -> Memory:
        """The memory of one member."""
        fixed = own(memory.fixed, number)
        return Memory(fixed.pop("values"), memory.mask, fixed)


def side_by_side(states: Sequence[Mapping[str, Tensor]]) -> DecoderState:
    """One state of several."""
    return {f"{number}.{name}": tensor for number, state in enumerate(states) for name, tensor in state.items()}


def own(state: DecoderState, number: int) -> DecoderState:
    """The share of one member."""
    prefix = f"{number}."
    return {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}

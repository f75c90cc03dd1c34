"""The recurrent steps of the decoders, with everything that does not depend on the state taken out of the loop.

B batch, T target length, E embedding size, F fed size, D state size, L layers.
"""

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from nmt.models.base import State
from nmt.models.dropout import Dropout
from nmt.models.sequence import recur


class Stack(nn.Module):
    """Stacked LSTM or GRU layers whose lowest may read a fed vector beside the embedding.

    `whole` runs all columns in one call; `step` runs one. Both use the same weights and agree.
    """

    def __init__(self, cell: str, embedding: int, hidden: int, layers: int, fed: int, dropout: float) -> None:
        super().__init__()
        kind = nn.LSTM if cell == "lstm" else nn.GRU
        self.cell, self.embedding_size = cell, embedding
        self.states = ("hidden", "cell") if cell == "lstm" else ("hidden",)
        sizes = [embedding + fed] + [hidden] * (layers - 1)
        self.layers = nn.ModuleList(kind(size, hidden, batch_first=True) for size in sizes)
        self.dropout = Dropout(dropout)

    def weights(self, number: int) -> list[nn.Parameter]:
        """weight_ih [gates·D in], weight_hh [gates·D D], bias_ih, bias_hh [gates·D] of a layer."""
        return cast(nn.RNNBase, self.layers[number]).all_weights[0]

    def whole(self, embedded: Tensor, state: State) -> tuple[Tensor, State]:
        """[B T E] → top layer [B T D], state [B L D]."""
        outputs, finals = embedded, []
        for number, layer in enumerate(self.layers):
            past = tuple(state[name][:, number][None] for name in self.states)
            outputs, final = recur(layer, self.dropout(outputs) if number else outputs, past)
            finals.append(final)
        return outputs, {name: torch.cat([f[i] for f in finals]).transpose(0, 1) for i, name in enumerate(self.states)}

    def prepare(self, embedded: Tensor) -> tuple[Tensor, ...]:
        """The embedding's share of the lowest layer's gates, for all columns at once: [B T E] → T × [B gates·D]."""
        weight, _, bias, _ = self.weights(0)
        return functional.linear(embedded, weight[:, : self.embedding_size], bias).unbind(1)

    def step(self, prepared: Tensor, fed: Tensor, state: State) -> tuple[Tensor, State]:
        """One column: prepared [B gates·D], fed [B F] → top layer [B D], state [B L D]."""
        after: list[tuple[Tensor, ...]] = []
        for number in range(len(self.layers)):
            weight_ih, weight_hh, bias_ih, bias_hh = self.weights(number)
            if number:
                prepared = functional.linear(self.dropout(after[-1][0]), weight_ih, bias_ih)
            else:
                prepared = prepared + functional.linear(fed, weight_ih[:, self.embedding_size :])
            recurrent = functional.linear(state["hidden"][:, number], weight_hh, bias_hh)
            if self.cell == "lstm":
                after.append(lstm_step(prepared + recurrent, state["cell"][:, number]))
            else:
                after.append((gru_step(prepared, recurrent, state["hidden"][:, number]),))
        return after[-1][0], {name: torch.stack([a[i] for a in after], 1) for i, name in enumerate(self.states)}


class ConditionalGRU(nn.Module):
    """s_t = (1 − z) s_{t-1} + z tanh(W e + C c + U (r ∘ s_{t-1})); z, r = σ(W e + C c + U s_{t-1}) (A.1.1, A.2.2)."""

    def __init__(self, embedding: int, context: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.embedding = nn.Linear(embedding, 3 * hidden)
        self.context = nn.Linear(context, 3 * hidden, bias=False)
        self.weight_hh = nn.Parameter(torch.empty(2 * hidden, hidden))
        self.candidate_weight_hh = nn.Parameter(torch.empty(hidden, hidden))

    def prepare(self, embedded: Tensor) -> tuple[Tensor, ...]:
        """[B T E] → T × [B 3D]."""
        return self.embedding(embedded).unbind(1)

    def forward(self, prepared: Tensor, context: Tensor, state: Tensor) -> Tensor:
        """prepared [B 3D], c_t [B M], s_{t-1} [B D] → s_t [B D]."""
        gates, candidate = (prepared + self.context(context)).split((2 * self.hidden, self.hidden), -1)
        update, reset = torch.sigmoid(gates + functional.linear(state, self.weight_hh)).chunk(2, -1)
        proposed = torch.tanh(candidate + functional.linear(reset * state, self.candidate_weight_hh))
        return state + update * (proposed - state)


def lstm_step(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """gates [B 4D] in PyTorch's order (input, forget, candidate, output), cell [B D] → hidden, cell."""
    enter, forget, candidate, leave = gates.chunk(4, -1)
    cell = torch.sigmoid(forget) * cell + torch.sigmoid(enter) * torch.tanh(candidate)
    return torch.sigmoid(leave) * torch.tanh(cell), cell


def gru_step(inputs: Tensor, recurrent: Tensor, state: Tensor) -> Tensor:
    """PyTorch's GRU from its two projections [B 3D] (reset, update, candidate): the reset gate after the product."""
    reset_input, update_input, candidate_input = inputs.chunk(3, -1)
    reset_state, update_state, candidate_state = recurrent.chunk(3, -1)
    reset, update = torch.sigmoid(reset_input + reset_state), torch.sigmoid(update_input + update_state)
    proposed = torch.tanh(candidate_input + reset * candidate_state)
    return proposed + update * (state - proposed)


def maxout(pairs: Tensor) -> Tensor:
    """max over each two neighbours (Goodfellow 2013; Bahdanau 2015 A.2.2): [… 2N] → [… N]."""
    return pairs.unflatten(-1, (-1, 2)).amax(-1)

"""The recurrent steps of the decoders, with everything that does not depend on the state taken out of the loop.

B batch, T target length, E embedding size, F fed size, D state size, L layers.
"""

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from nmt.attention.padded_matmul import LinearMap, Product
from nmt.models.base import DecoderState
from nmt.models.dropout import Dropout
from nmt.models.rnn import run_rnn


class Products(NamedTuple):
    """What a step of a stack multiplies, all to [B gates·D]; asked for once, not at every column."""

    embedded: Product  # the lowest layer's share of the embedding
    fed: Product  # its share of the fed vector
    below: list[Product]  # what each other layer reads of the one below it
    recurrent: list[Product]  # what each layer reads of its own state


class StackedRNNCell(nn.Module):
    """Stacked LSTM or GRU layers whose lowest may read a fed vector beside the embedding.

    `whole` runs all columns in one call; `step` runs one. Both use the same weights and agree.
    """

    def __init__(self, cell: str, embedding: int, hidden: int, layers: int, fed: int, dropout: float) -> None:
        super().__init__()
        kind = nn.LSTM if cell == "lstm" else nn.GRU
        self.cell, self.embedding_size, self.fed = cell, embedding, fed
        self.states = ("hidden", "cell") if cell == "lstm" else ("hidden",)
        sizes = [embedding + fed] + [hidden] * (layers - 1)
        self.layers = nn.ModuleList(kind(size, hidden, batch_first=True) for size in sizes)
        self.dropout = Dropout(dropout)

    def weights(self, number: int) -> list[nn.Parameter]:
        """weight_ih [gates·D in], weight_hh [gates·D D], bias_ih, bias_hh [gates·D] of a layer."""
        return cast(nn.RNNBase, self.layers[number]).all_weights[0]

    def whole(self, embedded: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """[B T E] → top layer [B T D], state [B L D]."""
        outputs, finals = embedded, []
        for number, layer in enumerate(self.layers):
            past = tuple(state[name][:, number][None] for name in self.states)
            outputs, final = run_rnn(layer, self.dropout(outputs) if number else outputs, past)
            finals.append(final)
        return outputs, {name: torch.cat([f[i] for f in finals]).transpose(0, 1) for i, name in enumerate(self.states)}

    def products(self) -> Products:
        """By which `step` multiplies."""
        (lowest, _, bias, _), *others = weights = [self.weights(number) for number in range(len(self.layers))]
        return Products(
            LinearMap(lowest[:, : self.embedding_size], bias),
            LinearMap(lowest[:, self.embedding_size :]),
            [LinearMap(weight_ih, bias_ih) for weight_ih, _, bias_ih, _ in others],
            [LinearMap(weight_hh, bias_hh) for _, weight_hh, _, bias_hh in weights],
        )

    def step(
        self, products: Products, prepared: Tensor, fed: Tensor, state: DecoderState
    ) -> tuple[Tensor, DecoderState]:
        """One column: prepared [B gates·D] by products.embedded, fed [B F] → top layer [B D], state [B L D]."""
        after: list[tuple[Tensor, ...]] = []
        for number, read in enumerate(products.recurrent):
            if number:
                prepared = products.below[number - 1](self.dropout(after[-1][0]))
            else:
                prepared = prepared + products.fed(fed)
            recurrent = read(state["hidden"][:, number])
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

    def products(self) -> tuple[Product, Product]:
        """U of the gates, and U of the candidate."""
        return LinearMap(self.weight_hh), LinearMap(self.candidate_weight_hh)

    def forward(self, prepared: Tensor, context: Tensor, state: Tensor) -> Tensor:
        """prepared [B 3D], c_t [B M], s_{t-1} [B D] → s_t [B D]."""
        to_gates, to_candidate = self.products()
        gates, candidate = (prepared + self.context(context)).split((2 * self.hidden, self.hidden), -1)
        update, reset = torch.sigmoid(gates + to_gates(state)).chunk(2, -1)
        proposed = torch.tanh(candidate + to_candidate(reset * state))
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

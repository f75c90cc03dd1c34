"""Recurrent layers over whole sequences, and decoder cells that run one column at a time.

B batch, S source length, T target length, E embedding size, F size of the fed vector, D state size,
M memory size, L layers. `gates` is 4 for an LSTM and 3 for a GRU.
"""

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from nmt.attention.cpu import cpu_autocasts_rnn, runs_rnn_in_bf16
from nmt.attention.projection import LinearMap, Projection, column_projection
from nmt.models.base import DecoderState
from nmt.models.dropout import Dropout

RNNState = tuple[Tensor, ...]  # hidden, and cell of an LSTM, [directions B D] each


def run_rnn(
    layer: nn.Module, inputs: Tensor, state: RNNState | None = None, lengths: Tensor | None = None
) -> tuple[Tensor, RNNState]:
    """inputs [B S E], state or zeros [directions B D] → outputs [B S directions·D], the last state.

    `lengths` [B] without padding; None: nothing is padded.

    The layer runs in the dtype of its weights, and the state that is returned has it. On CUDA,
    autocast would run it in float16, in which gradients can overflow. Under autocast on a CPU with
    bf16 units, and without padding, it runs in bf16 if `runs_rnn_in_bf16`; otherwise only the
    outputs of an LSTM are rounded to bf16.
    """
    full = next(layer.parameters()).dtype
    in_bf16 = lengths is None and runs_rnn_in_bf16(layer, inputs)
    dtype = torch.bfloat16 if in_bf16 else full
    if not in_bf16:
        inputs = inputs.to(full)
    initial: RNNState | Tensor | None = None
    if state is not None:
        initial = tuple(part.to(dtype).contiguous() for part in state)
        if len(initial) == 1:  # a GRU takes one tensor
            initial = initial[0]
    with torch.autocast(inputs.device.type, dtype=torch.bfloat16, enabled=in_bf16):
        if lengths is None:
            outputs, last = layer(inputs, initial)
        else:
            packed = pack_padded_sequence(
                inputs, lengths.cpu(), batch_first=True, enforce_sorted=False
            )
            outputs, last = layer(packed, initial)
            outputs, _ = pad_packed_sequence(outputs, batch_first=True, total_length=inputs.size(1))
    if lengths is None and isinstance(layer, nn.LSTM) and cpu_autocasts_rnn(inputs):
        outputs = outputs.to(torch.bfloat16)  # once, instead of in every product that reads them
    if not isinstance(last, tuple):
        last = (last,)
    return outputs, tuple(part.to(full) for part in last)


class Projections(NamedTuple):
    """Projections to the gates [B gates·D] of a stacked cell, made once for all columns."""

    embedding: Projection  # of the embedding, to the lowest layer
    feed: Projection  # of the fed vector, to the lowest layer
    upper: list[Projection]  # of a layer's output, to each layer above the lowest
    recurrent: list[Projection]  # of a layer's own state, to every layer


class GRUProjections(NamedTuple):
    """Projections of Bahdanau's GRU, made once for all columns."""

    context: Projection  # C c for z, r and the candidate: [B M] → [B 3D]
    gates: Projection  # U s for z and r: [B D] → [B 2D]
    candidate: Projection  # U (r ∘ s) for the candidate: [B D] → [B D]


class StackedRNNCell(nn.Module):
    """The decoder's LSTM or GRU layers, which read the embedding and a fed vector if there is one.

    `forward` runs all columns in one call, if there is no fed vector. `step` runs one column with
    it.
    """

    def __init__(
        self,
        cell: str,
        embedding: int,
        hidden: int,
        layers: int,
        feed_size: int,
        dropout: float | None,
    ) -> None:
        super().__init__()
        self.is_lstm = cell == "lstm"
        rnn = nn.LSTM if self.is_lstm else nn.GRU
        self.embedding_size = embedding
        self.feed_size = feed_size
        self.state_names = ("hidden", "cell") if self.is_lstm else ("hidden",)
        sizes = [embedding + feed_size] + [hidden] * (layers - 1)
        self.layers = nn.ModuleList(rnn(size, hidden, batch_first=True) for size in sizes)
        self.dropout = Dropout(dropout)

    @property
    def embedding_weight(self) -> Tensor:
        """The part of the lowest W_ih that reads the embedding: [gates·D E]."""
        return self.layers[0].weight_ih_l0[:, : self.embedding_size]  # type: ignore[index]

    def forward(self, inputs: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """inputs [B T E] → outputs of the top layer [B T D], the state after them.

        Every tensor of the state is [B L D].
        """
        outputs = inputs
        last: dict[str, list[Tensor]] = {name: [] for name in self.state_names}
        for number, layer in enumerate(self.layers):
            if number:
                outputs = self.dropout(outputs)
            layer_state = tuple(state[name][:, number][None] for name in self.state_names)
            outputs, last_state = run_rnn(layer, outputs, layer_state)
            for name, part in zip(self.state_names, last_state, strict=True):
                last[name].append(part)  # [1 B D]
        return outputs, {name: torch.cat(parts).transpose(0, 1) for name, parts in last.items()}

    def step(
        self, projections: Projections, projected: Tensor, feed: Tensor, state: DecoderState
    ) -> tuple[Tensor, DecoderState]:
        """One column: h_t of the top layer [B D], and the state after it.

        projected [B gates·D] is the embedding after `projections.embedding`; feed [B F], state
        [B L D].
        """
        projected = projected + projections.feed(feed)
        after: dict[str, list[Tensor]] = {name: [] for name in self.state_names}
        for number, project_state in enumerate(projections.recurrent):
            if number:
                below = after["hidden"][-1]  # [B D]
                projected = projections.upper[number - 1](self.dropout(below))
            hidden = state["hidden"][:, number]  # [B D]
            recurrent = project_state(hidden)  # [B gates·D]
            if self.is_lstm:
                hidden, cell = lstm_step(projected + recurrent, state["cell"][:, number])
                after["cell"].append(cell)
            else:
                hidden = gru_step(projected, recurrent, hidden)
            after["hidden"].append(hidden)
        return hidden, {name: torch.stack(parts, 1) for name, parts in after.items()}

    def projections(self) -> Projections:
        """The projections that `step` uses, in the dtype of products."""
        # The lowest layer reads the embeddings, which are projected for all columns at once, and
        # the fed vector
        weight_ih, _, bias_ih, _ = self.layer_parameters(0)
        embedding = LinearMap(self.embedding_weight, bias_ih)
        feed = column_projection(weight_ih[:, self.embedding_size :])

        upper = []
        recurrent = []
        for number in range(len(self.layers)):
            weight_ih, weight_hh, bias_ih, bias_hh = self.layer_parameters(number)
            recurrent.append(column_projection(weight_hh, bias_hh))
            if number:
                upper.append(column_projection(weight_ih, bias_ih))
        return Projections(embedding, feed, upper, recurrent)

    def layer_parameters(self, number: int) -> list[nn.Parameter]:
        """weight_ih [gates·D in], weight_hh [gates·D D], bias_ih, bias_hh [gates·D] of a layer."""
        return cast(nn.RNNBase, self.layers[number]).all_weights[0]


class ContextGRU(nn.Module):
    """The GRU of Bahdanau 2015 A.1.1 and A.2.2, which reads a context c.

    s_t = (1 − z) ∘ s_{t-1} + z ∘ tanh(W e + C c + U (r ∘ s_{t-1})) and
    z, r = σ(W e + C c + U s_{t-1}), with e the embedding of y_{t-1}. The update gate z, the reset
    gate r and the candidate, which is the tanh, have matrices W, C and U of their own.
    """

    def __init__(self, embedding: int, context: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.embedding = nn.Linear(embedding, 3 * hidden)
        self.context = nn.Linear(context, 3 * hidden, bias=False)
        self.weight_hh = nn.Parameter(torch.empty(2 * hidden, hidden))
        self.candidate_weight_hh = nn.Parameter(torch.empty(hidden, hidden))

    def projections(self) -> GRUProjections:
        """The projections that `forward` uses."""
        return GRUProjections(
            column_projection(self.context.weight),
            column_projection(self.weight_hh),
            column_projection(self.candidate_weight_hh),
        )

    def forward(
        self, projections: GRUProjections, projected: Tensor, context: Tensor, state: Tensor
    ) -> Tensor:
        """projected = W e [B 3D], context [B M], state s_{t-1} [B D] → s_t [B D]."""
        inputs = projected + projections.context(context)  # [B 3D]
        gates, candidate = inputs.split((2 * self.hidden, self.hidden), -1)  # [B 2D], [B D]
        update, reset = torch.sigmoid(gates + projections.gates(state)).chunk(2, -1)
        proposed = torch.tanh(candidate + projections.candidate(reset * state))
        return state + update * (proposed - state)


def lstm_step(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """gates [B 4D] (input, forget, candidate, output), c_{t-1} [B D] → h_t and c_t [B D]."""
    input_gate, forget_gate, candidate, output_gate = gates.chunk(4, -1)
    cell = torch.sigmoid(forget_gate) * cell + torch.sigmoid(input_gate) * torch.tanh(candidate)
    hidden = torch.sigmoid(output_gate) * torch.tanh(cell)
    return hidden, cell


def gru_step(inputs: Tensor, recurrent: Tensor, state: Tensor) -> Tensor:
    """A step of PyTorch's GRU, whose reset gate is applied after the product U s_{t-1}.

    Projected inputs and projected state [B 3D] (reset, update, candidate), s_{t-1} [B D] → s_t.
    """
    reset_input, update_input, candidate_input = inputs.chunk(3, -1)
    reset_state, update_state, candidate_state = recurrent.chunk(3, -1)
    reset = torch.sigmoid(reset_input + reset_state)
    update = torch.sigmoid(update_input + update_state)
    proposed = torch.tanh(candidate_input + reset * candidate_state)
    return proposed + update * (state - proposed)


def maxout(pairs: Tensor) -> Tensor:
    """The maximum of each pair of neighbours (Goodfellow 2013): [… 2N] → [… N]."""
    return pairs.unflatten(-1, (-1, 2)).amax(-1)

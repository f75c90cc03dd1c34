"""The recurrent encoder: a stack of LSTM or GRU layers over the source, forwards or in both directions.

B batch, S source length, E embedding size, D units in each direction, M = D · directions, L layers.
"""

import torch
from torch import Tensor, nn

from nmt.config.recurrent import RecurrentConfig
from nmt.models.base import DecoderState
from nmt.models.cells import run_rnn
from nmt.models.dropout import Dropout


class RecurrentEncoder(nn.Module):
    """The top layer at every position, and the final states of every layer.

    Two directions are concatenated. Padding changes nothing: each sentence's recurrence starts and ends at its own
    ends. With `reverse_source` the whole source is read backwards, </s> first (Sutskever 2014 §3.3 reverses the words
    alone). Layers have the biases of PyTorch's, two for each gate; Bahdanau 2015 A.2.1 writes its GRU without.
    """

    def __init__(self, config: RecurrentConfig, embedding: nn.Embedding) -> None:
        super().__init__()
        rnn, units = nn.LSTM if config.cell == "lstm" else nn.GRU, config.encoder_units
        self.embedding, self.reverse = embedding, config.reverse_source
        self.backward_size, self.memory_size = units, config.directions * units
        self.dropout = Dropout(config.dropout)
        sizes = [embedding.embedding_dim] + [self.memory_size] * (config.num_layers - 1)
        self.layers = nn.ModuleList(
            rnn(size, units, batch_first=True, bidirectional=config.bidirectional) for size in sizes
        )

    @property
    def input_weights(self) -> list[Tensor]:
        """W_ih of the lowest layer, of both directions: [gates·D E] each."""
        return [part for name, part in self.layers[0].named_parameters() if name.startswith("weight_ih")]

    def forward(self, source: Tensor, mask: Tensor | None) -> tuple[Tensor, DecoderState]:
        """source [B S], mask [B S] | None → values [B S M], {"hidden", "cell"}: final states [B L M]."""
        lengths = None if mask is None else mask.sum(1)
        if self.reverse:
            source = reverse_sequences(source, lengths)
        hidden = self.embedding(source)
        last_states = []
        for layer in self.layers:
            hidden, last_state = run_rnn(layer, self.dropout(hidden), lengths=lengths)
            last_states.append(last_state)
        final = {
            name: torch.stack([part.transpose(0, 1).flatten(1) for part in parts], 1)  # [directions B D] → [B M]
            for name, parts in zip(("hidden", "cell"), zip(*last_states, strict=True), strict=False)
        }
        return reverse_sequences(hidden, lengths) if self.reverse else hidden, final


def reverse_sequences(sequence: Tensor, lengths: Tensor | None) -> Tensor:
    """Reverses each row of [B S …] within its own length; padding stays at the end."""
    if lengths is None:
        return sequence.flip(1)
    position = torch.arange(sequence.size(1), device=sequence.device)
    reversed_position = lengths[:, None] - 1 - position
    index = torch.where(reversed_position >= 0, reversed_position, position)
    return sequence.gather(1, index if sequence.dim() == 2 else index[:, :, None].expand_as(sequence))

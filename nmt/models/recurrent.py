"""Recurrent encoder-decoders.

Sutskever 2014 has no attention, Bahdanau 2015 attends before the step, Luong 2015 after it.

B batch, S source length, T target length, E embedding size, D state size, L layers, M memory size:
the encoder's units in each direction times the directions.
"""

import math
from collections.abc import Iterable, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from nmt.attention.hard import AttentionOutput, Reinforce
from nmt.attention.projection import Projection, map_columns, to_autocast
from nmt.attention.scores import make_score
from nmt.attention.single_head import SingleHeadAttention
from nmt.attention.windows import make_window
from nmt.config.recurrent import RecurrentConfig
from nmt.models.base import (
    DecoderOutput,
    DecoderState,
    EncoderDecoder,
    HardAttentionSamples,
    Memory,
)
from nmt.models.cells import ConditionalGRU, StackedRNNCell, maxout, run_rnn
from nmt.models.dropout import Dropout


class RecurrentEncoder(nn.Module):
    """LSTM or GRU layers over the source: outputs of the top one, and final states of every one.

    Two directions are concatenated. Padding changes nothing: both directions run over a sentence's
    own tokens alone. With `reverse_source` the whole source is read backwards, </s> first
    (Sutskever 2014 §3.3 reverses the words alone). The layers are PyTorch's, with two biases for
    each gate; Bahdanau 2015 A.2.1 writes its GRU without.
    """

    def __init__(self, config: RecurrentConfig, embedding: nn.Embedding) -> None:
        super().__init__()
        rnn = nn.LSTM if config.cell == "lstm" else nn.GRU
        units = config.encoder_units
        self.embedding = embedding
        self.reverse = config.reverse_source
        self.backward_size = units
        self.memory_size = config.directions * units
        self.dropout = Dropout(config.dropout)
        sizes = [embedding.embedding_dim] + [self.memory_size] * (config.num_layers - 1)
        self.layers = nn.ModuleList(
            rnn(size, units, batch_first=True, bidirectional=config.bidirectional) for size in sizes
        )

    @property
    def input_weights(self) -> list[Tensor]:
        """W_ih of the lowest layer, of both directions: [gates·D E] each."""
        parameters = self.layers[0].named_parameters()
        return [weight for name, weight in parameters if name.startswith("weight_ih")]

    def forward(self, source: Tensor, mask: Tensor | None) -> tuple[Tensor, DecoderState]:
        """source [B S], mask [B S] | None → values [B S M], last states [B L M]."""
        lengths = None if mask is None else mask.sum(1)
        if self.reverse:
            source = reverse_sequences(source, lengths)
        values = self.embedding(source)  # [B S E]
        final: dict[str, list[Tensor]] = {"hidden": [], "cell": []}
        for layer in self.layers:
            values, last = run_rnn(layer, self.dropout(values), lengths=lengths)  # [B S M]
            for name, part in zip(final, last, strict=False):  # a GRU has no cell
                final[name].append(part.transpose(0, 1).flatten(1))  # [directions B D] → [B M]
        if self.reverse:
            values = reverse_sequences(values, lengths)
        return values, {name: torch.stack(parts, 1) for name, parts in final.items() if parts}


def reverse_sequences(sequence: Tensor, lengths: Tensor | None) -> Tensor:
    """Reverses each row of [B S …] within its own length; padding stays at the end."""
    if lengths is None:
        return sequence.flip(1)
    position = torch.arange(sequence.size(1), device=sequence.device)
    reversed_position = lengths[:, None] - 1 - position
    index = torch.where(reversed_position >= 0, reversed_position, position)  # [B S]
    if sequence.dim() == 3:
        index = index[:, :, None].expand_as(sequence)
    return sequence.gather(1, index)


class Bahdanau(EncoderDecoder):
    """Attention with s_{t-1} before the step (Bahdanau 2015 A.1.2, A.2).

    c_t = attend(s_{t-1}), s_t = GRU(y_{t-1}, c_t, s_{t-1}) with s_0 = tanh(W h←_1). The readout is
    maxout(U s_{t-1} + V E y_{t-1} + C c_t), then W_o. The encoder has `encoder_units` units in each
    direction, the memory twice as many (A.2.1); `maxout_size` is the paper's l.

    Deviations: dropout; an encoder of PyTorch's GRU, whose reset gate is applied after the product
    (the decoder's is the paper's own); and biases, where the paper's formulas have none: in the
    encoder, in what the embedding adds to the decoder's gates, in s_0, in the readout, and in W_o
    unless it is tied.
    """

    guided_step = "output"  # s_{t-1} has not read y_{t-1}

    def __init__(
        self, config: RecurrentConfig, source_size: int, target_size: int, joint: bool
    ) -> None:
        super().__init__()
        embedding = config.embedding_size
        hidden = config.hidden_size
        self.target_embedding = nn.Embedding(target_size, embedding)
        source_embedding = self.target_embedding
        if not (config.tie_embeddings and joint):
            source_embedding = nn.Embedding(source_size, embedding)
        self.encoder = RecurrentEncoder(config, source_embedding)
        memory_size = self.encoder.memory_size
        self.initial = nn.Linear(self.encoder.backward_size, hidden)
        self.attention = make_attention(config, memory_size)
        if self.attention.uses_reinforce:
            self.reinforce = Reinforce(config.hard_attention_entropy, -math.log(target_size))
        self.cell = ConditionalGRU(embedding, memory_size, hidden)
        maxout_size = config.maxout_size or embedding
        self.readout = nn.Linear(hidden + embedding + memory_size, 2 * maxout_size)
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(maxout_size, target_size, bias=not config.tie_embeddings)
        input_weights = [*self.encoder.input_weights, self.cell.embedding.weight]
        initialize(self, config.tie_embeddings, input_weights)

    @property
    def window_reach(self) -> float | None:
        return self.attention.window.reach

    def encode(self, source: Tensor, mask: Tensor | None, weights: bool = False) -> Memory:
        values, _ = self.encoder(source, mask)
        values = to_autocast(values)  # once, not at every column
        return Memory(values, mask, {"keys": self.attention.keys(values)})

    def start(self, memory: Memory) -> DecoderState:
        backward = memory.values[:, 0, -self.encoder.backward_size :]
        step = torch.zeros(memory.values.size(0), dtype=torch.long, device=memory.values.device)
        hidden = torch.tanh(self.initial(backward))
        # bf16 would lose small changes of the state
        full = torch.promote_types(hidden.dtype, torch.float32)
        return {"hidden": hidden.to(full), "step": step}

    def decode(
        self, target: Tensor, state: DecoderState, memory: Memory, weights: bool = False
    ) -> DecoderOutput:
        embedded = self.dropout(self.target_embedding(target))
        hidden = state["hidden"]
        step = state["step"]
        keys = memory.static["keys"]
        lengths = memory.lengths()
        projections = self.cell.projections()
        queries: list[Tensor] = []
        attentions: list[AttentionOutput] = []
        for projected in self.cell.embedding(embedded).unbind(1):  # W e_t [B 3D]
            # c_t = attend(s_{t-1}), then s_t = GRU(y_{t-1}, c_t, s_{t-1})
            attention = self.attention(
                hidden[:, None], keys, memory.values, step[:, None], lengths, memory.mask
            )
            attentions.append(attention)
            queries.append(hidden)
            hidden = self.cell(projections, projected, attention.context[:, 0], hidden)
            step = step + 1

        # Readout of all columns: maxout(U s_{t-1} + V E y_{t-1} + C c_t)
        contexts = torch.cat([attention.context for attention in attentions], 1)  # [B T M]
        readout = self.readout(torch.cat((torch.stack(queries, 1), embedded, contexts), -1))
        outputs = self.dropout(maxout(readout))
        after = {"hidden": hidden, "step": step}
        return decoder_output(outputs, after, attentions, weights or self.guides)


class Luong(EncoderDecoder):
    """Attention with h_t after the step: h̃_t = tanh(W_c [c_t; h_t]) (Luong 2015 §3).

    With input feeding h̃_t is part of the next step's input (§3.3). Without input feeding all
    columns run at once; without attention this is Sutskever 2014. The decoder starts from the
    encoder's final states. h̃ has the embeddings' size, so that the output layer can share them; it
    is fed to the next step without dropout.
    """

    def __init__(
        self, config: RecurrentConfig, source_size: int, target_size: int, joint: bool
    ) -> None:
        super().__init__()
        embedding = config.embedding_size
        hidden = config.hidden_size
        self.uses_attention = config.attend == "after_step"
        self.input_feeding = config.input_feeding and self.uses_attention
        self.target_embedding = nn.Embedding(target_size, embedding)
        source_embedding = self.target_embedding
        if not (config.tie_embeddings and joint):
            source_embedding = nn.Embedding(source_size, embedding)
        self.encoder = RecurrentEncoder(config, source_embedding)
        feed_size = embedding if self.input_feeding else 0
        self.stack = StackedRNNCell(
            config.cell, embedding, hidden, config.num_layers, feed_size, config.dropout
        )
        if self.uses_attention:
            self.attention = make_attention(config, hidden)
            if self.attention.uses_reinforce:
                self.reinforce = Reinforce(config.hard_attention_entropy, -math.log(target_size))
            self.combine = nn.Linear(2 * hidden, embedding, bias=False)
        self.dropout = Dropout(config.dropout)
        output_size = embedding if self.uses_attention else hidden
        self.output = nn.Linear(output_size, target_size, bias=not config.tie_embeddings)
        input_weights = [*self.encoder.input_weights, self.stack.embedding_columns]
        initialize(self, config.tie_embeddings, input_weights)

    @property
    def has_attention(self) -> bool:
        return self.uses_attention

    @property
    def window_reach(self) -> float | None:
        return self.attention.window.reach if self.uses_attention else None

    def encode(self, source: Tensor, mask: Tensor | None, weights: bool = False) -> Memory:
        values, static = self.encoder(source, mask)
        values = to_autocast(values)  # once, not at every column
        if self.uses_attention:
            static = static | {"keys": self.attention.keys(values)}
        return Memory(values, mask, static)

    def start(self, memory: Memory) -> DecoderState:
        batch = memory.values.size(0)
        state = {name: memory.static[name] for name in self.stack.state_names}
        if self.input_feeding:
            state["feed"] = memory.values.new_zeros(batch, self.combine.out_features)
        state["step"] = torch.zeros(batch, dtype=torch.long, device=memory.values.device)
        return state

    def decode(
        self, target: Tensor, state: DecoderState, memory: Memory, weights: bool = False
    ) -> DecoderOutput:
        embedded = self.dropout(self.target_embedding(target))
        step = state["step"][:, None] + torch.arange(target.size(1), device=target.device)
        attentions: list[AttentionOutput] = []
        if self.input_feeding:
            outputs, attentions, after = self.decode_with_input_feeding(
                embedded, step, state, memory
            )
        else:
            outputs, after = self.stack(embedded, state)
            if self.uses_attention:
                outputs, attention = self.attend(
                    self.combine, outputs, step, memory, memory.lengths()
                )
                attentions.append(attention)
        after["step"] = state["step"] + target.size(1)
        return decoder_output(self.dropout(outputs), after, attentions, weights or self.guides)

    def attend(
        self, combine: Projection, hidden: Tensor, step: Tensor, memory: Memory, lengths: Tensor
    ) -> tuple[Tensor, AttentionOutput]:
        """h̃_t = tanh(W_c [c_t; h_t]) [B T E] from h_t [B T D], and the output of attention."""
        keys = memory.static["keys"]
        attention = self.attention(hidden, keys, memory.values, step, lengths, memory.mask)
        attentional = torch.tanh(combine(torch.cat((attention.context, hidden), -1)))
        return attentional, attention

    def decode_with_input_feeding(
        self, embedded: Tensor, step: Tensor, state: DecoderState, memory: Memory
    ) -> tuple[Tensor, list[AttentionOutput], DecoderState]:
        """h̃ [B T E] column by column: each reads its embedding and h̃_{t-1} (Luong 2015 §3.3)."""
        projections = self.stack.projections()
        lengths = memory.lengths()
        is_plain = isinstance(self.combine, nn.Linear)  # not packed for search
        combine = map_columns(self.combine.weight) if is_plain else self.combine
        feed = state["feed"]
        cell_state = {name: state[name] for name in self.stack.state_names}
        outputs: list[Tensor] = []
        attentions: list[AttentionOutput] = []
        for column, projected in enumerate(projections.embedding(embedded).unbind(1)):
            # h_t from the embedding and h̃_{t-1}
            top, cell_state = self.stack.step(projections, projected, feed, cell_state)

            # h̃_t = tanh(W_c [c_t; h_t]), which is fed to the next step
            attentional, attention = self.attend(
                combine, top[:, None], step[:, column : column + 1], memory, lengths
            )
            feed = attentional[:, 0]
            outputs.append(feed)
            attentions.append(attention)
        return torch.stack(outputs, 1), attentions, cell_state | {"feed": feed}


def decoder_output(
    hidden: Tensor, state: DecoderState, attentions: Sequence[AttentionOutput], weights: bool
) -> DecoderOutput:
    """The output of `decode` from the hidden states [B T …] of all columns.

    `attentions`: of T chunks of one column, or of one chunk of all T; empty without attention.
    """
    log_probability = concat_columns([attention.log_probability for attention in attentions])
    entropy = concat_columns([attention.entropy for attention in attentions])
    samples = None
    if log_probability is not None and entropy is not None:
        samples = HardAttentionSamples(log_probability, entropy)
    if not weights or not attentions:
        return DecoderOutput(hidden, None, state, samples=samples)
    cross_weights = torch.cat([attention.weights for attention in attentions], 1)  # [B T S]
    p_t = concat_columns([attention.p_t for attention in attentions])
    return DecoderOutput(hidden, cross_weights[:, None, None], state, p_t=p_t, samples=samples)


def concat_columns(columns: Sequence[Tensor | None]) -> Tensor | None:
    """The chunks [B t] joined to [B T]; None where the chunks have none."""
    tensors = [column for column in columns if column is not None]
    if not tensors:
        return None
    return torch.cat(tensors, 1)


def make_attention(config: RecurrentConfig, memory_size: int) -> SingleHeadAttention:
    """The attention of a configuration: its score inside its window."""
    score = make_score(config.score, config.hidden_size, memory_size, config.max_positions)
    window = make_window(
        config.window,
        config.hidden_size,
        config.window_radius,
        config.window_narrowing_batches,
        config.position_scale_exponent,
    )
    return SingleHeadAttention(score, window, config.attention_type, config.hard_attention_gradient)


def initialize(model: EncoderDecoder, tie: bool, input_weights: Iterable[Tensor]) -> None:
    """Glorot for matrices, orthogonal for recurrent ones, 0 for biases, 1 for LSTM forget gates.

    `input_weights`: the matrices, or columns of them, that read an embedding. They are made √E
    times larger than Glorot's rule has them: the rule is for inputs of unit variance, and an
    embedding's is 1 / E, as its tied output layer needs it. With the rule alone all states are
    close to zero at first, and attention learns a thousand updates later.
    """
    for name, parameter in model.named_parameters():
        if parameter.dim() < 2:
            nn.init.zeros_(parameter)
        elif "weight_hh" in name:
            for gate in parameter.data.chunk(parameter.size(0) // parameter.size(1)):
                nn.init.orthogonal_(gate)
        elif name.endswith("_embedding.weight") or name.endswith("encoder.embedding.weight"):
            nn.init.normal_(parameter, std=parameter.size(1) ** -0.5)
        else:
            nn.init.xavier_uniform_(parameter)
    for module in model.modules():
        if isinstance(module, nn.LSTM):
            for name, parameter in module.named_parameters():
                if name.startswith("bias_ih"):  # of both directions
                    parameter.data.chunk(4)[1].fill_(1.0)
    embedding = cast(nn.Embedding, model.target_embedding)
    for weight in input_weights:
        weight.detach().mul_(embedding.embedding_dim**0.5)
    if tie:
        model.output.weight = embedding.weight

"""Recurrent encoder-decoders.

Sutskever 2014 has no attention. Bahdanau 2015 attends before each step of the decoder, Luong 2015
after it.

B batch, S source length, T target length, E embedding size, D state size, L layers, M memory size,
which is the encoder's units in each direction times the directions.
"""

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from nmt.attention.hard import AttentionOutput, Reinforce
from nmt.attention.projection import (
    Projection,
    column_projection,
    sum_dtype,
    to_autocast,
)
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
from nmt.models.cells import ContextGRU, StackedRNNCell, maxout, run_rnn
from nmt.models.dropout import Dropout


class RecurrentEncoder(nn.Module):
    """LSTM or GRU layers over the source, whose two directions are concatenated.

    Padding changes nothing: both directions read only a sentence's own tokens. With
    `reverse_source` the encoder reads the source backwards from </s>; Sutskever 2014 §3.3 reverses
    the words and leaves </s> at the end. PyTorch's layers have two biases for each gate; the GRU of
    Bahdanau 2015 A.2.1 has none.
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
        """The matrices that read the embeddings, one for each direction: [gates·units E]."""
        parameters = self.layers[0].named_parameters()
        return [weight for name, weight in parameters if name.startswith("weight_ih")]

    def forward(self, source: Tensor, mask: Tensor | None) -> tuple[Tensor, DecoderState]:
        """source [B S], mask [B S] | None → outputs of the top layer [B S M], last states [B L M].

        Values are in the order of the source even if it is read backwards.
        """
        lengths = None if mask is None else mask.sum(1)
        if self.reverse:
            source = reverse_sequences(source, lengths)
        values = self.embedding(source)  # [B S E]
        final: dict[str, list[Tensor]] = {"hidden": [], "cell": []}
        for layer in self.layers:
            values, last = run_rnn(layer, self.dropout(values), lengths=lengths)  # [B S M]
            for name, part in zip(final, last, strict=False):  # a GRU has no cell
                final[name].append(part.transpose(0, 1).flatten(1))  # [directions B units] → [B M]
        if self.reverse:
            values = reverse_sequences(values, lengths)
        return values, {name: torch.stack(parts, 1) for name, parts in final.items() if parts}


def reverse_sequences(sequence: Tensor, lengths: Tensor | None) -> Tensor:
    """[B S …] with the tokens of each row reversed and its padding still at the end."""
    if lengths is None:
        return sequence.flip(1)
    position = torch.arange(sequence.size(1), device=sequence.device)
    reversed_position = lengths[:, None] - 1 - position
    index = torch.where(reversed_position >= 0, reversed_position, position)  # [B S]
    if sequence.dim() == 3:
        index = index[:, :, None].expand_as(sequence)  # [B S M]
    return sequence.gather(1, index)


class RecurrentModel(EncoderDecoder):
    """The embeddings and the encoder, which both recurrent models have."""

    def __init__(
        self, config: RecurrentConfig, source_size: int, target_size: int, joint: bool
    ) -> None:
        super().__init__()
        self.target_embedding = nn.Embedding(target_size, config.embedding_size)
        source_embedding = self.target_embedding
        if not (config.tie_embeddings and joint):
            source_embedding = nn.Embedding(source_size, config.embedding_size)
        self.encoder = RecurrentEncoder(config, source_embedding)

    def add_attention(self, config: RecurrentConfig, memory_size: int) -> None:
        """Make the attention of a configuration, and the loss that it may need."""
        query_size = config.hidden_size
        score = make_score(config.score, query_size, memory_size, config.max_positions)
        window = make_window(
            config.window,
            query_size,
            config.window_radius,
            config.window_narrowing_batches,
            config.position_scale_exponent,
        )
        self.attention = SingleHeadAttention(
            score, window, config.attention_type, config.hard_attention_gradient
        )
        if self.attention.uses_reinforce:
            uniform = -math.log(self.target_embedding.num_embeddings)
            self.reinforce = Reinforce(config.hard_attention_entropy, uniform)


class Bahdanau(RecurrentModel):
    """Attention with s_{t-1} before the step (Bahdanau 2015 A.1.2, A.2).

    c_t = attend(s_{t-1}), s_t = GRU(y_{t-1}, c_t, s_{t-1}) with s_0 = tanh(W h←_1). The output
    layer W_o reads the readout maxout(U_o s_{t-1} + V_o e + C_o c_t), with e the embedding of
    y_{t-1}. The encoder has
    `encoder_units` units in each direction, so M is twice that (A.2.1). `maxout_size` is the
    paper's l.

    Deviations: There is dropout. The encoder is PyTorch's GRU, whose reset gate is applied after
    the product; the decoder's is the paper's. The paper's formulas have no biases. Here the encoder
    has some, and so have the projection of the embedding to the decoder's gates, s_0, the readout,
    and W_o unless it is tied. Weights begin as `initialize` says.
    """

    guided_step = "output"  # s_{t-1} has not read y_{t-1}

    def __init__(
        self, config: RecurrentConfig, source_size: int, target_size: int, joint: bool
    ) -> None:
        super().__init__(config, source_size, target_size, joint)
        embedding = config.embedding_size
        hidden = config.hidden_size
        memory_size = self.encoder.memory_size
        self.initial = nn.Linear(self.encoder.backward_size, hidden)
        self.add_attention(config, memory_size)
        self.cell = ContextGRU(embedding, memory_size, hidden)
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
        values = to_autocast(values)  # here once, instead of at every column
        return Memory(values, mask, {"keys": self.attention.keys(values)})

    def start(self, memory: Memory) -> DecoderState:
        backward = memory.values[:, 0, -self.encoder.backward_size :]  # h←_1
        hidden = torch.tanh(self.initial(backward))  # [B D]
        step = torch.zeros(memory.values.size(0), dtype=torch.long, device=memory.values.device)
        # bf16 would lose small changes of the state
        dtype = sum_dtype(hidden)
        return {"hidden": hidden.to(dtype), "step": step}

    def decode(
        self, target: Tensor, state: DecoderState, memory: Memory, weights: bool = False
    ) -> DecoderOutput:
        embedded = self.dropout(self.target_embedding(target))  # [B T E]
        hidden = state["hidden"]  # [B D]
        step = state["step"]
        keys = memory.static["keys"]
        lengths = memory.lengths()
        projections = self.cell.projections()
        queries: list[Tensor] = []  # s_{t-1}
        attentions: list[AttentionOutput] = []
        for projected in self.cell.embedding(embedded).unbind(1):  # W e [B 3D]
            attention = self.attention(
                hidden[:, None], keys, memory.values, step[:, None], lengths, memory.mask
            )
            attentions.append(attention)
            queries.append(hidden)
            hidden = self.cell(projections, projected, attention.context[:, 0], hidden)
            step = step + 1

        # Readout of all columns: maxout(U_o s_{t-1} + V_o e + C_o c_t)
        before = torch.stack(queries, 1)  # [B T D]
        contexts = torch.cat([attention.context for attention in attentions], 1)  # [B T M]
        readout = self.readout(torch.cat((before, embedded, contexts), -1))  # [B T 2·maxout_size]
        outputs = self.dropout(maxout(readout))  # [B T maxout_size]
        after = {"hidden": hidden, "step": step}
        return decoder_output(outputs, after, attentions, weights or self.returns_guided_weights)


class Luong(RecurrentModel):
    """Attention with h_t after the step: h̃_t = tanh(W_c [c_t; h_t]) (Luong 2015 §3).

    With input feeding the next step also reads h̃_t (§3.3). Without input feeding all columns run
    at once. Without attention this is the model of Sutskever 2014. The decoder starts from the
    encoder's final states.

    Deviations: The next step reads h̃_t before dropout. h̃ has the size of the embeddings, so that
    the output layer can share them; the output layer has a bias unless it is tied. The encoder may
    read in both directions. Weights begin as `initialize` says.
    """

    def __init__(
        self, config: RecurrentConfig, source_size: int, target_size: int, joint: bool
    ) -> None:
        super().__init__(config, source_size, target_size, joint)
        embedding = config.embedding_size
        hidden = config.hidden_size
        self.uses_attention = config.attend == "after_step"
        self.input_feeding = config.input_feeding and self.uses_attention
        feed_size = embedding if self.input_feeding else 0
        self.stack = StackedRNNCell(
            config.cell, embedding, hidden, config.num_layers, feed_size, config.dropout
        )
        if self.uses_attention:
            self.add_attention(config, hidden)
            self.combine = nn.Linear(2 * hidden, embedding, bias=False)
        self.dropout = Dropout(config.dropout)
        output_size = embedding if self.uses_attention else hidden
        self.output = nn.Linear(output_size, target_size, bias=not config.tie_embeddings)
        input_weights = [*self.encoder.input_weights, self.stack.embedding_weight]
        initialize(self, config.tie_embeddings, input_weights)

    @property
    def has_attention(self) -> bool:
        return self.uses_attention

    @property
    def window_reach(self) -> float | None:
        return self.attention.window.reach if self.uses_attention else None

    def encode(self, source: Tensor, mask: Tensor | None, weights: bool = False) -> Memory:
        values, static = self.encoder(source, mask)
        values = to_autocast(values)  # here once, instead of at every column
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
        embedded = self.dropout(self.target_embedding(target))  # [B T E]
        step = state["step"][:, None] + torch.arange(target.size(1), device=target.device)  # [B T]
        attentions: list[AttentionOutput] = []
        if self.input_feeding:
            outputs, attentions, after = self.decode_with_input_feeding(
                embedded, step, state, memory
            )
        else:
            outputs, after = self.stack(embedded, state)  # [B T D]
            if self.uses_attention:
                outputs, attention = self.attend(
                    self.combine, outputs, step, memory, memory.lengths()
                )
                attentions.append(attention)
        after["step"] = state["step"] + target.size(1)
        return decoder_output(
            self.dropout(outputs), after, attentions, weights or self.returns_guided_weights
        )

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
        combine: Projection = self.combine
        if isinstance(self.combine, nn.Linear):  # else it is packed for search
            combine = column_projection(self.combine.weight)
        feed = state["feed"]  # h̃_{t-1} [B E]
        cell_state = {name: state[name] for name in self.stack.state_names}
        outputs: list[Tensor] = []
        attentions: list[AttentionOutput] = []
        for column, projected in enumerate(projections.embedding(embedded).unbind(1)):
            hidden, cell_state = self.stack.step(projections, projected, feed, cell_state)  # [B D]
            attentional, attention = self.attend(
                combine, hidden[:, None], step[:, column : column + 1], memory, lengths
            )  # [B 1 E]
            feed = attentional[:, 0]
            outputs.append(feed)
            attentions.append(attention)
        return torch.stack(outputs, 1), attentions, cell_state | {"feed": feed}


def decoder_output(
    hidden: Tensor, state: DecoderState, attentions: Sequence[AttentionOutput], weights: bool
) -> DecoderOutput:
    """The output of `decode`, from hidden [B T …] and the attention of its columns.

    `attentions` has one entry for each column, or one for all columns, or none without attention.
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
    """Columns [B 1], or all of them [B T], → [B T]; None if there are none."""
    tensors = [column for column in columns if column is not None]
    if not tensors:
        return None
    return torch.cat(tensors, 1)


def initialize(model: RecurrentModel, tie: bool, input_weights: Iterable[Tensor]) -> None:
    """Initialise the weights of a model, and tie its output layer to the target embedding if asked.

    Matrices are initialised by Glorot's rule, which sees those of all gates as one; recurrent ones
    are orthogonal, each gate's by itself. Embeddings have the standard deviation E^-½. Biases are
    0, but 1 for the forget gates of an LSTM. Deviation: Bahdanau 2015 B.1 has Gaussians of 0.01 and
    less beside orthogonal matrices, Sutskever 2014 uniform numbers within ± 0.08, Luong 2015 § 4.1
    within ± 0.1.

    `input_weights` are the matrices, or columns of them, that read an embedding. They are √E times
    larger than by Glorot's rule, which is for inputs of unit variance. The variance of an embedding
    is 1 / E, because a tied output layer needs it. By the rule alone all states are close to zero
    at first, and attention learns a thousand updates later.
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
    embedding = model.target_embedding
    for weight in input_weights:
        weight.detach().mul_(embedding.embedding_dim**0.5)
    if tie:
        model.output.weight = embedding.weight

"""Recurrent encoder-decoders: Sutskever 2014 (never looks), Bahdanau 2015 (looks before), Luong 2015 (looks after).

B batch, S source length, T target length, E embedding size, D state size, M memory size, L layers.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from nmt.attention.hard import Reinforce
from nmt.attention.scores import make_score
from nmt.attention.single_head import Attention, AttentionOutput
from nmt.attention.windows import make_window
from nmt.models.base import DecoderOutput, DecoderState, EncoderDecoder, Memory, Policy
from nmt.models.cells import ConditionalGRU, StackedRNNCell, maxout
from nmt.models.dropout import Dropout
from nmt.models.encoder import RecurrentEncoder
from nmt.models.recurrent_config import RecurrentConfig


class Bahdanau(EncoderDecoder):
    """Looks with s_{t-1} before the step: c_t = attend(s_{t-1}), s_t = GRU(y_{t-1}, c_t, s_{t-1}) (A.1.2, A.2).

    s_0 = tanh(W h←_1); readout maxout(U s_{t-1} + V E y_{t-1} + C c_t), then W_o. The encoder has
    `encoder_units` units in each direction, the memory twice as many (A.2.1); `maxout` is the readout's l.
    Deviations: the encoder is PyTorch's GRU, whose reset gate is applied after the product (the decoder's is the
    paper's own); some biases; dropout.
    """

    def __init__(self, config: RecurrentConfig, source_size: int, target_size: int, joint: bool) -> None:
        super().__init__()
        embedding, hidden = config.embedding, config.hidden
        self.target_embedding = nn.Embedding(target_size, embedding)
        shared = self.target_embedding if config.tie and joint else nn.Embedding(source_size, embedding)
        self.encoder = make_encoder(config, shared)
        memory_size = self.encoder.memory_size
        self.initial = nn.Linear(self.encoder.backward_size, hidden)
        self.attention = make_attention(config, memory_size)
        if self.attention.draws:
            self.reinforce = Reinforce(config.hard_entropy, -math.log(target_size))
        self.cell = ConditionalGRU(embedding, memory_size, hidden)
        maxout_size = config.maxout or embedding
        self.readout = nn.Linear(hidden + embedding + memory_size, 2 * maxout_size)
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(maxout_size, target_size, bias=not config.tie)
        initialise(self, config.tie)

    @property
    def window_reach(self) -> float | None:
        return self.attention.window.reach

    def encode(self, source: Tensor, mask: Tensor | None, weights: bool = False) -> Memory:
        values, _ = self.encoder(source, mask)
        if self.training:
            self.attention.window.count()
        return Memory(values, mask, {"keys": self.attention.keys(values)})

    def start(self, memory: Memory) -> DecoderState:
        backward = memory.values[:, 0, -self.encoder.backward_size :]
        step = torch.zeros(memory.values.size(0), dtype=torch.long, device=memory.values.device)
        hidden = torch.tanh(self.initial(backward))
        full = torch.promote_types(hidden.dtype, torch.float32)  # in bf16 small changes of the state would be lost
        return {"hidden": hidden.to(full), "step": step}

    def decode(self, target: Tensor, state: DecoderState, memory: Memory, weights: bool = False) -> DecoderOutput:
        embedded = self.dropout(self.target_embedding(target))
        prepared, lengths = self.cell.prepare(embedded), memory.lengths()
        hidden, step = state["hidden"], state["step"]
        queries: list[Tensor] = []
        looks: list[AttentionOutput] = []
        for column in range(target.size(1)):
            queries.append(hidden)
            looked = self.attention(
                hidden[:, None], memory.fixed["keys"], memory.values, step[:, None], lengths, memory.mask
            )
            looks.append(looked)
            hidden = self.cell(prepared[column], looked.context[:, 0], hidden)
            step = step + 1
        contexts = torch.cat([looked.context for looked in looks], 1)
        read = torch.cat((torch.stack(queries, 1), embedded, contexts), -1)
        outputs = self.dropout(maxout(self.readout(read)))
        return whole(outputs, {"hidden": hidden, "step": step}, looks, weights)


class Luong(EncoderDecoder):
    """Looks with h_t after the step: h̃_t = tanh(W_c [c_t; h_t]), fed into the next step (Luong 2015 §3, §3.3).

    Without input feeding all columns run at once; without attention this is Sutskever 2014. The decoder starts from the
    encoder's last states. h̃ has the embeddings' size, so that the output layer can share them; what is fed is h̃
    before its dropout.
    """

    def __init__(self, config: RecurrentConfig, source_size: int, target_size: int, joint: bool) -> None:
        super().__init__()
        embedding, hidden = config.embedding, config.hidden
        self.looks, self.feeds = config.order == "after", config.input_feeding and config.order == "after"
        self.target_embedding = nn.Embedding(target_size, embedding)
        shared = self.target_embedding if config.tie and joint else nn.Embedding(source_size, embedding)
        self.encoder = make_encoder(config, shared)
        fed = embedding if self.feeds else 0
        self.stack = StackedRNNCell(config.cell, embedding, hidden, config.layers, fed, config.dropout)
        if self.looks:
            self.attention = make_attention(config, hidden)
            if self.attention.draws:
                self.reinforce = Reinforce(config.hard_entropy, -math.log(target_size))
            self.combine = nn.Linear(2 * hidden, embedding, bias=False)
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(embedding if self.looks else hidden, target_size, bias=not config.tie)
        initialise(self, config.tie)

    @property
    def has_attention(self) -> bool:
        return self.looks

    @property
    def window_reach(self) -> float | None:
        return self.attention.window.reach if self.looks else None

    def encode(self, source: Tensor, mask: Tensor | None, weights: bool = False) -> Memory:
        values, last = self.encoder(source, mask)
        if self.looks:
            if self.training:
                self.attention.window.count()
            last = last | {"keys": self.attention.keys(values)}
        return Memory(values, mask, last)

    def start(self, memory: Memory) -> DecoderState:
        state = {name: memory.fixed[name] for name in self.stack.states}
        if self.feeds:
            state["feed"] = memory.values.new_zeros(memory.values.size(0), self.combine.out_features)
        return state | {"step": torch.zeros(memory.values.size(0), dtype=torch.long, device=memory.values.device)}

    def decode(self, target: Tensor, state: DecoderState, memory: Memory, weights: bool = False) -> DecoderOutput:
        embedded = self.dropout(self.target_embedding(target))
        step = state["step"][:, None] + torch.arange(target.size(1), device=target.device)
        looks: list[AttentionOutput] = []
        if self.feeds:
            outputs, looks, after = self.feed(embedded, step, state, memory)
        else:
            outputs, after = self.stack.whole(embedded, state)
            if self.looks:
                outputs, looked = self.look(outputs, step, memory, memory.lengths())
                looks.append(looked)
        after["step"] = state["step"] + target.size(1)
        return whole(self.dropout(outputs), after, looks, weights)

    def look(self, hidden: Tensor, step: Tensor, memory: Memory, lengths: Tensor) -> tuple[Tensor, AttentionOutput]:
        """h_t [B T D] → h̃_t [B T E], and what came of looking."""
        looked = self.attention(hidden, memory.fixed["keys"], memory.values, step, lengths, memory.mask)
        return torch.tanh(self.combine(torch.cat((looked.context, hidden), -1))), looked

    def feed(
        self, embedded: Tensor, step: Tensor, state: DecoderState, memory: Memory
    ) -> tuple[Tensor, list[AttentionOutput], DecoderState]:
        """Input feeding: column by column, h̃_{t-1} beside the embedding."""
        products, lengths = self.stack.products(), memory.lengths()
        prepared = products.embedded(embedded).unbind(1)
        fed, carried = state["feed"], {name: state[name] for name in self.stack.states}
        outputs: list[Tensor] = []
        looks: list[AttentionOutput] = []
        for column in range(embedded.size(1)):
            top, carried = self.stack.step(products, prepared[column], fed, carried)
            attentional, looked = self.look(top[:, None], step[:, column : column + 1], memory, lengths)
            fed = attentional[:, 0]
            outputs.append(fed)
            looks.append(looked)
        return torch.stack(outputs, 1), looks, carried | {"feed": fed}


def whole(hidden: Tensor, state: DecoderState, looks: Sequence[AttentionOutput], weights: bool) -> DecoderOutput:
    """What `decode` returns, from the looks at its columns in order (none of a model that never looks)."""
    log_probability = beside([looked.log_probability for looked in looks])
    entropy = beside([looked.entropy for looked in looks])
    policy = None if log_probability is None or entropy is None else Policy(log_probability, entropy)
    if not weights or not looks:
        return DecoderOutput(hidden, None, state, policy=policy)
    shown = torch.cat([looked.weights for looked in looks], 1)[:, None, None]
    return DecoderOutput(hidden, shown, state, centre=beside([looked.centre for looked in looks]), policy=policy)


def beside(columns: Sequence[Tensor | None]) -> Tensor | None:
    """[B t] of each piece → [B T]; None where the attention has no such thing."""
    there = [column for column in columns if column is not None]
    return torch.cat(there, 1) if there else None


def make_encoder(config: RecurrentConfig, embedding: nn.Embedding) -> RecurrentEncoder:
    """The encoder of a configuration over this embedding."""
    return RecurrentEncoder(
        embedding,
        config.cell,
        config.layers,
        config.encoder_units,
        config.bidirectional,
        config.reverse_source,
        config.dropout,
    )


def make_attention(config: RecurrentConfig, memory_size: int) -> Attention:
    """The attention of a configuration: its score inside its window."""
    score = make_score(config.score, config.hidden, memory_size, config.max_positions)
    window = make_window(config.window, config.hidden, config.radius, config.closing, config.position_exponent)
    return Attention(score, window, config.normalise, config.hard_gradient)


def initialise(model: EncoderDecoder, tie: bool) -> None:
    """Glorot for matrices, orthogonal for state-to-state ones, 0 for biases, 1 for an LSTM's forget gates."""
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
    if tie:
        model.output.weight = model.target_embedding.weight  # type: ignore[assignment, union-attr]

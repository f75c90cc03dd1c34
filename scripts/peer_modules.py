"""The attention modules of other toolkits beside ours, for scripts/peer_attention.py: who shares which parameter.

Every entry of `PEERS` lists comparisons. B batch, S source length, T target length, D size of query, memory and model,
H heads.
"""

from functools import partial
from itertools import product
from types import SimpleNamespace
from unittest.mock import MagicMock, patch

import torch
from peers import (
    EXACT,
    LENGTH,
    PAST,
    SEEN,
    SINGLE,
    B,
    Case,
    D,
    H,
    Order,
    Outputs,
    Peer,
    S,
    Shared,
    T,
    apart,
    load,
    noise,
    projections,
    several,
    single,
    third,
    turned,
    whole,
)
from torch import Tensor, nn


def kind(causal: bool) -> str:
    return "causal self-attention" if causal else "cross-attention"


def pytorch(causal: bool, weights: bool) -> Case:
    """PyTorch's nn.MultiheadAttention."""
    theirs = nn.MultiheadAttention(D, H, batch_first=True).double()
    ours, forward = several(causal, weights)

    def run(query: Tensor, memory: Tensor) -> Outputs:
        key = query if causal else memory
        padding, future = (None, ~PAST) if causal else (~SEEN, None)
        return theirs(query, key, key, padding, weights, future, average_attn_weights=False)

    shared = [
        Shared(ours.weight, whole, theirs.in_proj_weight),
        Shared(ours.bias, whole, theirs.in_proj_bias),
        Shared(ours.output.weight, whole, theirs.out_proj.weight),
        Shared(ours.output.bias, whole, theirs.out_proj.bias),
    ]
    road = "outputs and each head's weights" if weights else "outputs of the fused road"
    return Case("MultiheadAttention", f"{kind(causal)}: {road}", forward, run, list(theirs.parameters()), shared)


def opennmt_global(score: str) -> Case:
    """OpenNMT-py's GlobalAttention, with the readout h̃ = tanh(W_c [c; h]) that is part of it."""
    theirs = load("onmt.modules.global_attention").GlobalAttention(D, attn_type=score).double()
    parameters, forward = single("additive" if score == "mlp" else score)
    combine = nn.Linear(2 * D, D, bias=False).double()

    def ours(query: Tensor, memory: Tensor) -> Outputs:
        context, weights = forward(query, memory)
        read = combine(torch.cat((context, query), -1))
        return read if score == "mlp" else torch.tanh(read), weights

    shared = [Shared(combine.weight, whole, theirs.linear_out.weight)]
    if score == "general":  # (W q)ᵀ k there, qᵀ W k here
        shared.append(Shared(parameters["score.memory.weight"], turned, theirs.linear_in.weight))
    if score == "mlp":
        shared += additive(parameters, theirs.linear_query, theirs.linear_context, theirs.v)

    def run(query: Tensor, memory: Tensor) -> Outputs:
        return theirs(query, memory, src_len=LENGTH)

    name = f"GlobalAttention({score})"
    return Case(name, "readout and weights", ours, run, list(theirs.parameters()), shared)


def additive(parameters: dict[str, nn.Parameter], *theirs: nn.Linear) -> list[Shared]:
    """W_q, W_k and v."""
    names = "score.query.weight", "score.memory.weight", "score.energy.weight"
    return [Shared(parameters[name], whole, layer.weight) for name, layer in zip(names, theirs, strict=True)]


def opennmt_heads(causal: bool, double: bool) -> Case:
    """OpenNMT-py's MultiHeadedAttention, as it is and with its softmax in float64."""
    module = load("onmt.modules.multi_headed_attn").MultiHeadedAttention
    theirs = module(H, D, dropout=0.0, attn_type="self" if causal else "context", add_qkvbias=True).double()
    ours, forward = several(causal, weights=True)
    hidden = ~PAST[None, None] if causal else ~SEEN[:, None, None].expand(B, 1, T, S)

    def run(query: Tensor, memory: Tensor) -> Outputs:
        key = query if causal else memory
        with patch.object(Tensor, "float", Tensor.double if double else Tensor.float):
            return theirs(key, key, query, hidden.expand(B, 1, T, -1), return_attn=True)

    shared = projections(ours, (theirs.linear_query, theirs.linear_keys, theirs.linear_values), theirs.final_linear)
    compared = f"{kind(causal)}: outputs and each head's weights, its softmax in float{64 if double else 32}"
    tolerance = EXACT if double else SINGLE
    return Case("MultiHeadedAttention", compared, forward, run, list(theirs.parameters()), shared, tolerance)


def joey_single(score: str) -> Case:
    """JoeyNMT's BahdanauAttention and LuongAttention, one query at a time."""
    module = load("joeynmt.attention")
    parameters, forward = single(score)
    if score == "additive":
        theirs = module.BahdanauAttention(hidden_size=D, key_size=D, query_size=D).double()
        shared = additive(parameters, theirs.query_layer, theirs.key_layer, theirs.energy_layer)
    else:
        theirs = module.LuongAttention(hidden_size=D, key_size=D).double()
        shared = [Shared(parameters["score.memory.weight"], whole, theirs.key_layer.weight)]

    def run(query: Tensor, memory: Tensor) -> Outputs:
        theirs.compute_proj_keys(memory)
        found = [theirs(query[:, t : t + 1], SEEN[:, None], memory) for t in range(T)]
        contexts, weights = zip(*found, strict=True)
        return torch.cat(contexts, 1), torch.cat(weights, 1)

    name = type(theirs).__name__
    return Case(name, "context and weights", forward, run, list(theirs.parameters()), shared)


def joey_heads(causal: bool) -> Case:
    """JoeyNMT's MultiHeadedAttention, whose weights are the mean over the heads."""
    theirs = load("joeynmt.transformer_layers").MultiHeadedAttention(H, D, dropout=0.0).double()
    ours, explicit = several(causal, weights=True)

    def forward(query: Tensor, memory: Tensor) -> Outputs:
        outputs, weights = explicit(query, memory)
        return outputs, weights.mean(1) if weights is not None else None

    def run(query: Tensor, memory: Tensor) -> Outputs:
        key = query if causal else memory
        return theirs(key, key, query, PAST.expand(B, T, T) if causal else SEEN[:, None], return_weights=True)

    shared = projections(ours, (theirs.q_layer, theirs.k_layer, theirs.v_layer), theirs.output_layer)
    compared = f"{kind(causal)}: outputs and the heads' mean weights"
    return Case("MultiHeadedAttention", compared, forward, run, list(theirs.parameters()), shared)


def sockeye_heads() -> Case:
    """Sockeye's MultiHeadAttention of inference, which has no biases and keeps keys and values interleaved by head."""
    theirs = load("sockeye.layers").MultiHeadAttention(D, H, D, depth_key_value=D).double()
    ours, forward = several(causal=False, weights=False)
    theirs.eval()
    hidden = ~SEEN.repeat_interleave(H, 0)[:, None]  # [B·H 1 S]
    large = load("sockeye.constants").LARGE_VALUES  # knows no float64

    def interleaved(weight: Tensor) -> Tensor:
        return weight[D:].view(2, H, D // H, D).transpose(0, 1).reshape(2 * D, D)

    def run(query: Tensor, memory: Tensor) -> Outputs:
        with patch.dict(large, {torch.float64: 1e9}):
            return [theirs(query.transpose(0, 1), memory.transpose(0, 1), hidden).transpose(0, 1)]

    shared = [
        Shared(ours.weight, third(0), theirs.ff_q.weight),
        Shared(ours.weight, interleaved, theirs.ff_kv.weight),
        Shared(ours.output.weight, whole, theirs.ff_out.weight),
    ]
    return Case("MultiHeadAttention", "cross-attention: outputs", forward, run, list(theirs.parameters()), shared)


def joey_order() -> Order:
    """The attention "bahdanau" of JoeyNMT's decoder: which state does it look with?"""
    encoder = SimpleNamespace(output_size=D)
    decoder = load("joeynmt.decoders").RecurrentDecoder("gru", D, D, encoder, "bahdanau", vocab_size=4).double()
    memory, before, fed = noise(B, S, D), noise(1, B, D), noise(B, 1, D)
    decoder.attention.compute_proj_keys(memory)
    _, after, found = decoder._forward_step(noise(B, 1, D), fed, memory, SEEN[:, None], before)
    early, late = (decoder.attention(state[-1][:, None], SEEN[:, None], memory)[1] for state in (before, after))
    return Order('RecurrentDecoder(attention="bahdanau")', apart(found, early), apart(found, late))


def opennmt_order() -> Order:
    """The same of OpenNMT-py's decoder with input feeding and the attention "mlp"."""
    embeddings = MagicMock(embedding_size=D, return_value=noise(B, 1, D))
    module = load("onmt.decoders.decoder")
    decoder = module.InputFeedRNNDecoder("GRU", False, 1, D, "mlp", embeddings=embeddings).double()
    memory, before = noise(B, S, D), noise(1, B, D)
    decoder.state = {"input_feed": noise(1, B, D), "hidden": (before,), "coverage": None}
    (after,), _, looks = decoder._run_forward_pass(None, memory, src_len=LENGTH)
    early, late = (decoder.attn(state[-1], memory, src_len=LENGTH)[1] for state in (before, after))
    (found,) = looks["std"]
    return Order('InputFeedRNNDecoder(attn_type="mlp")', apart(found, early), apart(found, late))


PEERS = [
    Peer("torch", [partial(pytorch, *choice) for choice in product((False, True), repeat=2)], None, []),
    Peer(
        "OpenNMT-py",
        [
            *(partial(opennmt_global, score) for score in ("dot", "general", "mlp")),
            *(partial(opennmt_heads, *choice) for choice in product((False, True), repeat=2)),
        ],
        opennmt_order,
        [
            "GlobalAttention: there is no local window; mlp, said to be Bahdanau's, has a bias at W_q q (0 here) and a "
            "readout without tanh.",
            "MultiHeadedAttention: the softmax is taken in float32, in a float64 model too; a row that is hidden "
            "altogether looks at the padding.",
        ],
    ),
    Peer(
        "joeynmt",
        [
            *(partial(joey_single, score) for score in ("additive", "general")),
            *(partial(joey_heads, causal) for causal in (False, True)),
        ],
        joey_order,
        [
            "MultiHeadedAttention: returns the mean of the heads' weights, not each head's.",
        ],
    ),
    Peer(
        "sockeye",
        [sockeye_heads],
        None,
        [
            "MultiHeadAttention: no biases; no mask in float64 (its large number is added here); training calls "
            "PyTorch's own function, so the road of inference is compared."
        ],
    ),
]

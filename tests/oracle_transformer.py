"""The Transformer in NumPy (float64), one sentence at a time, from Vaswani 2017: from ids to
logits.

Parameters are arrays under the names of the paper: an attention holds W_Q, W_K, W_V, W_O [D D] and
b_Q … b_O, the delta rule's also W_beta [H D]; a feed-forward W_1, b_1, W_2, b_2, a norm g and b. x
[S D], y [T D]; H heads of K = D / H numbers.
"""

import math

import numpy as np
import oracle_heads


def sinusoids(rows, size, first=0, span=None):
    """§3.5: sin and cos of position / 10000^(2i/D), all sines first; a zero at the end of an odd D.

    fairseq counts positions from 2 and has D − 2 in the place of D: the last wavelength is 2π·10⁴.
    """
    exponents = np.arange(0, size, 2) / (span or size)
    angles = np.arange(first, first + rows)[:, None] / 10000**exponents
    return np.pad(np.hstack((np.sin(angles), np.cos(angles))), ((0, 0), (0, size % 2)))


def embed(ids, table, positions, position_table):
    """§3.4: √D E x; then the positions: sinusoids, a row of a table scaled as E is, or 0."""
    size = table.shape[1]
    added = {
        "sinusoidal": lambda: sinusoids(len(ids), size),
        "sinusoidal_fairseq": lambda: sinusoids(len(ids), size, 2, size - 2),
        "learned": lambda: math.sqrt(size) * position_table[: len(ids)],
    }
    return math.sqrt(size) * table[ids] + added.get(positions, lambda: 0.0)()


def norm(x, p):
    """Ba 2016: of each row, with ε = 10⁻⁵ as PyTorch has it."""
    centred = x - x.mean(1, keepdims=True)
    return p["g"] * centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) + p["b"]


def split_heads(x, heads):
    """[T D] → [H T K]: head h has the columns h K … (h + 1) K."""
    return np.stack(np.split(x, heads, axis=1))


def projected(x, p, name, heads):
    return split_heads(x @ p[f"W_{name}"].T + p[f"b_{name}"], heads)


def concat(contexts, p):
    """Concat(head_1 … head_H) W^O (§3.2.2)."""
    return np.hstack(list(contexts)) @ p["W_O"].T + p["b_O"]


def self_attention(x, p, rule, causal):
    """Q, K, V from one sequence: [T D], weights [H T T] | None.

    Rotary positions rotate each head's queries and keys.
    """
    q, k, v = (projected(x, p, name, rule["num_heads"]) for name in "QKV")
    if rule["positions"] == "rotary":
        q = np.stack([oracle_heads.rotated(head, 0) for head in q])
        k = np.stack([oracle_heads.rotated(head, 0) for head in k])
    table = p.get("table")
    if rule["self_attention"] == "delta":  # β = σ(W_β x), a row for each head
        table = 1 / (1 + np.exp(-p["W_beta"] @ x.T))
    function = rule["self_attention"], causal, rule["sliding_window"], rule["distance_bias"]
    contexts, weights = oracle_heads.attention(*function, table, q, k, v)
    return concat(contexts, p), weights


def cross_attention(y, memory, p, heads):
    """Q from the decoder, K and V from the encoder's output: [T D], weights [H T S].

    Always the softmax of eq. 1, over all of the memory.
    """
    q = projected(y, p, "Q", heads)
    k, v = (projected(memory, p, name, heads) for name in "KV")
    everything = np.ones((len(y), len(memory)), dtype=bool)
    outputs = [oracle_heads.softmax(*head, everything) for head in zip(q, k, v, strict=True)]
    contexts, weights = zip(*outputs, strict=True)
    return concat(contexts, p), weights


def gelu(x):
    """x Φ(x) (Hendrycks & Gimpel 2016)."""
    return x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2


ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": gelu,
    "silu": lambda x: x / (1 + np.exp(-x)),  # Elfwing 2018
}


def feed_forward(x, p, activation):
    """Eq. 2: [T D], and no weights."""
    inner = x @ p["W_1"].T + p["b_1"]
    return ACTIVATIONS[activation](inner) @ p["W_2"].T + p["b_2"], None


def transformer(source, target, p, rule, keep=1.0):
    """§3.1: ids → logits [T V], and each layer's weights of encoder, decoder and cross-attention.

    `keep` stands in the place of dropout (§5.4). `rule`: norm, activation, num_heads,
    self_attention, sliding_window, distance_bias, positions.
    """
    weights = {"encoder": [], "decoder": [], "cross": []}
    is_pre_norm = rule["norm"] == "pre"

    def sublayer(x, p, function, *arguments):
        """norm(x + f(x)) (§5.4), with pre-norm x + f(norm(x)); and what f has as weights."""
        output, layer_weights = function(norm(x, p) if is_pre_norm else x, *arguments)
        total = x + keep * output
        return (total if is_pre_norm else norm(total, p)), layer_weights

    x = keep * embed(source, p["E_source"], rule["positions"], p.get("source_positions"))
    for layer in p["encoder"]:
        x, self_weights = sublayer(
            x, layer["norm_self"], self_attention, layer["self"], rule, False
        )
        x, _ = sublayer(x, layer["norm_feed"], feed_forward, layer["feed"], rule["activation"])
        weights["encoder"].append(self_weights)
    memory = norm(x, p["encoder_norm"]) if is_pre_norm else x

    y = keep * embed(target, p["E_target"], rule["positions"], p.get("target_positions"))
    for layer in p["decoder"]:
        y, self_weights = sublayer(y, layer["norm_self"], self_attention, layer["self"], rule, True)
        y, cross_weights = sublayer(
            y, layer["norm_cross"], cross_attention, memory, layer["cross"], rule["num_heads"]
        )
        y, _ = sublayer(y, layer["norm_feed"], feed_forward, layer["feed"], rule["activation"])
        weights["decoder"].append(self_weights)
        weights["cross"].append(cross_weights)
    outputs = norm(y, p["decoder_norm"]) if is_pre_norm else y
    return outputs @ p["output"].T, weights

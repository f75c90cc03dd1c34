"""The recurrent encoder-decoders in NumPy, one sentence at a time, from the papers: what the models
must compute.

Parameters are arrays under the names of the papers. An LSTM's or GRU's p holds W, U and b by gate;
y holds the embedded target inputs E y_0 … E y_{T-1} [T E], x the embedded source [S E]. `attend`
takes a query, the memory and the step. `keep` stands in the place of dropout: on embeddings,
between layers, and on what the output layer reads.
"""

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(x, h, c, p):
    """Hochreiter & Schmidhuber 1997 with a forget gate; gates i, f, g, o."""
    i, f, g, o = (p["W"][k] @ x + p["U"][k] @ h + p["b"][k] for k in "ifgo")
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def gru(x, h, c, p):
    """Cho 2014 as cuDNN and PyTorch have it: the reset gate applied after the product (a listed
    deviation); no cell."""
    r, z = (sigmoid(p["W"][k] @ x + p["b"][k] + p["U"][k] @ h + p["bu"][k]) for k in "rz")
    n = np.tanh(p["W"]["n"] @ x + p["b"]["n"] + r * (p["U"]["n"] @ h + p["bu"]["n"]))
    return (1 - z) * n + z * h, c


def run_direction(step, xs, p):
    """One direction of one layer: all states [S D] and the last (h, c)."""
    h = c = np.zeros_like(p["b"][next(iter(p["b"]))])
    states = []
    for x in xs:
        h, c = step(x, h, c, p)
        states.append(h)
    return np.array(states), (h, c)


def encode(step, xs, layers, reverse=False, keep=1.0):
    """Stacked layers, each a list of one or two directions: memory [S M] in the original order,
    last (h, c)."""
    xs = xs[::-1] if reverse else xs
    finals = []
    for directions in layers:
        xs = keep * xs
        forwards, last = run_direction(step, xs, directions[0])
        if len(directions) > 1:
            backwards, other = run_direction(step, xs[::-1], directions[1])
            xs = np.hstack((forwards, backwards[::-1]))
            last = tuple(np.hstack(pair) for pair in zip(last, other, strict=True))
        else:
            xs = forwards
        finals.append(last)
    return (xs[::-1] if reverse else xs), finals


def luong(step, y, memory, finals, layers, attend, W_c, feed, keep=1.0):
    """Luong 2015 §3: h_t from the stack, c_t after the step, h̃_t = tanh(W_c [c_t; h_t]), fed with
    the embedding (§3.3).

    `attend` None is Sutskever 2014: the top state itself. h̃_t is fed as it is, without dropout.
    """
    states = list(finals)
    feed_vector = np.zeros(len(W_c)) if attend else None
    outputs = []
    for t, embedded in enumerate(y):
        x = np.hstack((keep * embedded, feed_vector)) if feed else keep * embedded
        for number, p in enumerate(layers):
            states[number] = step(keep * x if number else x, *states[number], p)
            x = states[number][0]
        feed_vector = np.tanh(W_c @ np.hstack((attend(x, memory, t), x))) if attend else x
        outputs.append(keep * feed_vector)
    return np.array(outputs)


def bahdanau(y, memory, backward_size, p, attend, keep=1.0):
    """Bahdanau 2015 A.2: s_0 = tanh(W_s h←_1); c_t from s_{t-1}; readout maxout(U s_{t-1} + V E
    y_{t-1} + C c_t)."""
    s = np.tanh(p["W_s"] @ memory[0, -backward_size:] + p["b_s"])
    outputs = []
    for t, e in enumerate(keep * y):
        c = attend(s, memory, t)
        pairs = p["U_o"] @ s + p["V_o"] @ e + p["C_o"] @ c + p["b_o"]
        outputs.append(keep * pairs.reshape(-1, 2).max(1))
        z, r = (sigmoid(p["W"][k] @ e + p["C"][k] @ c + p["U"][k] @ s + p["b"][k]) for k in "zr")
        n = np.tanh(p["W"]["h"] @ e + p["C"]["h"] @ c + p["U"]["h"] @ (r * s) + p["b"]["h"])
        s = (1 - z) * s + z * n
    return np.array(outputs)

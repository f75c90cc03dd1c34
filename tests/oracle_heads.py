"""Self-attention of the Transformer's family in NumPy, one head of one sentence at a time, written
from the papers.

q, k, v [T K]; `allowed` [T T], True where row i may attend to column j. distance = i − j.
"""

import numpy as np


def softmax(q, k, v, allowed, bias=0.0):
    """Vaswani 2017 eq. 1, with a bias on the scores: contexts [T K], weights [T T]."""
    scores = np.where(allowed, q @ k.T / np.sqrt(q.shape[1]) + bias, -np.inf)
    exponentials = np.exp(scores - scores.max(1, keepdims=True))
    weights = exponentials / exponentials.sum(1, keepdims=True)
    return weights @ v, weights


def linear(q, k, v, allowed):
    """Katharopoulos 2020 eq. 4, as the paper writes it: sums over one key after another, φ = elu +
    1."""
    phi = [
        [np.array([x + 1 if x > 0 else np.exp(x) for x in row]) for row in side] for side in (q, k)
    ]
    weights = np.zeros(allowed.shape)
    for i, j in zip(*np.nonzero(allowed), strict=True):
        weights[i, j] = phi[0][i] @ phi[1][j]
    weights /= weights.sum(1, keepdims=True)
    return weights @ v, weights


def additive(q, k, v, allowed, energy):
    """Bahdanau 2015 A.1.2 for each pair of positions: vᵀ tanh(q + k), then a softmax."""
    exponentials = np.where(allowed, np.exp(np.tanh(q[:, None] + k) @ energy), 0.0)
    weights = exponentials / exponentials.sum(1, keepdims=True)
    return weights @ v, weights


def programmed(q, k, v, causal, rates=None):
    """One write after another into W, from features to values: outer products (Schmidhuber 1992)
    or, given β [T], the delta rule (Schlag 2021). φ = elu + 1 over the sum of its components.
    Causal: each column reads what is written so far; else all columns read at the end.
    """
    phi = [np.where(x > 0, x + 1, np.exp(np.minimum(x, 0))) for x in (q, k)]
    phi_q, phi_k = (x / x.sum(1, keepdims=True) for x in phi)
    W = np.zeros((v.shape[1], q.shape[1]))
    contexts = []
    for t in range(len(q)):
        if rates is None:
            W = W + np.outer(v[t], phi_k[t])
        else:
            stored = W @ phi_k[t]
            new = rates[t] * v[t] + (1 - rates[t]) * stored
            # write the new value, remove the stored one
            W = W + np.outer(new, phi_k[t]) - np.outer(stored, phi_k[t])
        contexts.append(W @ phi_q[t])
    return np.array(contexts) if causal else phi_q @ W.T


def alibi(head, heads, rows, table):
    """Press 2022: −2^(−8h/H) · |i − j|, h counted from 1."""
    distance = np.arange(rows)[:, None] - np.arange(rows)
    return -(2.0 ** (-8 * (head + 1) / heads)) * np.abs(distance)


def relative(head, heads, rows, table):
    """A number for each distance, clipped; `table` [H]: {distance: number}, its ends for all
    beyond."""
    biases = table[head]
    clipped = [
        [max(min(i - j, max(biases)), min(biases)) for j in range(rows)] for i in range(rows)
    ]
    return np.array([[biases[distance] for distance in row] for row in clipped])


def unbiased(head, heads, rows, table):
    return 0.0


BIASES = {"none": unbiased, "alibi": alibi, "relative": relative}


def allowed(rows, causal, window):
    """[T T]: which columns each row may attend to."""
    distance = np.arange(rows)[:, None] - np.arange(rows)
    inside = np.abs(distance) <= window if window else np.full(distance.shape, True)
    return inside & (distance >= 0) if causal else inside


def attention(function, causal, window, bias, table, q, k, v):
    """All heads: q, k, v [H T K] → contexts [H T K], weights [H T T], None of fast weights.

    `table` [H]: of each head, its biases, the v [K] of additive scores, or the rates [T] of the
    delta rule.
    """
    heads, rows = q.shape[:2]
    mask = allowed(rows, causal, window)
    contexts = []
    weights = []
    for head in range(heads):
        sides = q[head], k[head], v[head]
        if function == "fast_weights":
            outputs = programmed(*sides, causal), None
        elif function == "delta":
            outputs = programmed(*sides, causal, table[head]), None
        elif function == "linear":
            outputs = linear(*sides, mask)
        elif function == "additive":
            outputs = additive(*sides, mask, table[head])
        else:
            outputs = softmax(*sides, mask, BIASES[bias](head, heads, rows, table))
        contexts.append(outputs[0])
        weights.append(outputs[1])
    has_weights = weights[0] is not None
    return np.stack(contexts), np.stack(weights) if has_weights else None


def rotated(x, start):
    """Su 2021 eq. 13 in complex numbers: x_m e^{i m θ}, pairs (i, i + K/2); x [T K]."""
    half = x.shape[1] // 2
    numbers = x[:, :half] + 1j * x[:, half:]
    angles = np.array(
        [
            [m * 10000.0 ** (-2 * i / (2 * half)) for i in range(half)]
            for m in range(start, start + len(x))
        ]
    )
    numbers = numbers * np.exp(1j * angles)
    return np.concatenate((numbers.real, numbers.imag), 1)


def rollout(encoder, decoder, cross):
    """Rollout of one sentence: [L H S S], [L H T T], [L H T S] → [T S], and Y."""
    R = np.eye(encoder.shape[-1])
    for A in encoder.mean(1):
        R = 0.5 * (A + np.eye(len(A))) @ R
    X = np.zeros(cross.shape[2:])
    Y = np.eye(decoder.shape[-1])
    for A, A_cross in zip(decoder.mean(1), cross.mean(1), strict=True):
        X, Y = (0.5 * (A + np.eye(len(A))) @ Z for Z in (X, Y))
        X = 0.5 * X + 0.5 * A_cross @ R
        Y = 0.5 * Y
    return X / X.sum(1, keepdims=True), Y

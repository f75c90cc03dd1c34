"""Attention in NumPy, one sentence at a time, written from the papers alone: what the torch code
must agree with.

query [T D], memory [S M], step [T]: target positions. A new score or window needs a line below. A
score takes a query, a key, the key's position in the source, and the parameters; a prior the source
positions, p_t and the radius.
"""

import numpy as np

SCORES = {
    "dot": lambda q, k, s, p: q @ k,
    "scaled_dot": lambda q, k, s, p: q @ k / np.sqrt(len(k)),
    "general": lambda q, k, s, p: q @ p["W"] @ k,
    "additive": lambda q, k, s, p: p["v"] @ np.tanh(p["W_q"] @ q + p["W_k"] @ k),
    "additive_sum": lambda q, k, s, p: np.sum(np.tanh(p["W_q"] @ q + p["W_k"] @ k)),
    "concat": lambda q, k, s, p: (
        p["v"] @ np.tanh(np.concatenate((p["W_q"], p["W_k"]), 1) @ np.concatenate((q, k)))
    ),
    "concat_identity": lambda q, k, s, p: (
        p["v"] @ np.tanh(np.hstack((p["W_q"], np.eye(len(k)))) @ np.hstack((q, k)))
    ),
    "cosine": lambda q, k, s, p: p["beta"] * (q @ k) / (np.linalg.norm(q) * np.linalg.norm(k)),
    "location": lambda q, k, s, p: (p["W_a"] @ q)[s],
}


def global_window(query, step, length, radius, p):
    """Global: no p_t."""
    return None


def monotonic(query, step, length, radius, p):
    """local-m: p_t = t, at most where the window still holds the last source position (the paper's
    would be empty)."""
    return min(step, length - 1 + radius)


def predicted(query, step, length, radius, p):
    """local-p: p_t = S · sigmoid(v_pᵀ tanh(W_p h_t))."""
    return length / (1 + np.exp(-(p["v_p"] @ np.tanh(p["W_p"] @ query))))


P_T = {"global": global_window, "local_m": monotonic, "local_p": predicted}


def gaussian(s, p_t, radius):
    """local-p: exp(−(s − p_t)² / (2σ²)) with σ = D/2."""
    return np.exp(-((s - p_t) ** 2) / (2 * (radius / 2) ** 2))


PRIORS = {"local_p": gaussian}  # what multiplies the weights; a window that is not listed has none


def softmax(scores):
    exponentials = np.exp(scores - scores.max())
    return exponentials / exponentials.sum()


def argmax_one_hot(scores):
    """Hard attention in evaluation: 1 at the largest score, the first of equals."""
    return np.eye(len(scores))[np.argmax(scores)]


def attention(score, window, radius, query, memory, step, p, hard=False, used_p_t=None):
    """Contexts [T M], weights [T S], and the window's p_t [T]; `used_p_t` [T] are used instead."""
    normalize = argmax_one_hot if hard else softmax
    positions = np.arange(len(memory))
    weights = np.zeros((len(query), len(memory)))
    all_p_t = []
    for t, q in enumerate(query):
        p_t = P_T[window](q, step[t], len(memory), radius, p)
        all_p_t.append(p_t)
        if used_p_t is not None:
            p_t = used_p_t[t]
        inside = [s for s in positions if p_t is None or abs(s - p_t) <= radius]
        scores = [SCORES[score](q, memory[s], s, p) for s in inside]
        weights[t, inside] = normalize(np.array(scores))
        if window in PRIORS:
            weights[t] *= PRIORS[window](positions, p_t, radius)
    return weights @ memory, weights, all_p_t

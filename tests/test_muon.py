"""Muon: the step of its papers for hidden matrices, AdamW's for all else."""

import copy
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import MODELS, VOCABULARY, composed, small_config
from torch import nn

from nmt.config.validation import validate
from nmt.models.build import build
from nmt.training.optimizers import (
    Muon,
    decay_groups,
    hidden_matrices,
    make_optimizer,
    orthogonalize,
)

MUON = {"algorithm": "muon", "lr": 0.01, "betas": [0.9, 0.98], "eps": 1e-9, "momentum": 0.9}
# Matrices whose rows are single words, positions, distances or heads
TABLES = (
    r"(encoder\.|source_|target_)embedding\.weight|output\.weight"
    r"|.*\.position_scores\.weight|.*\.(table|energy)"
)


def make(model: nn.Module, weight_decay: float = 0.0) -> Muon:
    return Muon(
        model, replace(validate(composed("transformer")).optim, **MUON, weight_decay=weight_decay)
    )


def small(name: str) -> nn.Module:
    torch.manual_seed(1)
    return build(small_config(name, ()), VOCABULARY, VOCABULARY, True)


def set_gradients(model: nn.Module, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)


@pytest.mark.parametrize("shape", [(32, 32), (32, 96), (96, 32)])
def test_singular_values_come_near_one(shape):
    """With the singular vectors of the matrix, also where its own values differ fiftyfold."""
    generator = torch.Generator().manual_seed(3)
    matrix = torch.randn(shape, generator=generator).double()
    left, _, right = torch.linalg.svd(matrix, full_matrices=False)
    matrix = left @ torch.logspace(0, -1.7, min(shape)).double().diag() @ right
    inner = left.T @ orthogonalize(matrix.float()).double() @ right.T
    assert 0.6 < inner.diagonal().min() and inner.diagonal().max() < 1.25
    assert (inner - inner.diagonal().diag()).abs().max() < 1e-3


@pytest.mark.parametrize("shape", [(4, 6), (6, 4)])
def test_updates_of_a_matrix_by_hand(shape):
    """In NumPy, with weight decay: momentum, Nesterov's look ahead, the factor 0.2 √max(n, m). The
    second one is not valid and changes nothing."""
    rows, columns = shape
    model = nn.Linear(columns, rows, bias=False)
    optimizer = make(model, weight_decay=0.1)
    weight = model.weight.detach().numpy().astype(np.float64)
    momentum = np.zeros(shape)
    for seed, invalid in ((1, 0), (2, 1), (3, 0)):
        set_gradients(model, seed)
        gradient = model.weight.grad.numpy().astype(np.float64)
        optimizer.found_inf = torch.tensor(float(invalid))
        optimizer.step()
        if not invalid:
            momentum = 0.9 * momentum + gradient
            x = gradient + 0.9 * momentum
            x = x / np.sqrt((x**2).sum())
            for _ in range(5):
                a = x @ x.T
                x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
            weight = weight * (1 - 0.01 * 0.1) - 0.01 * 0.2 * np.sqrt(6) * x
        np.testing.assert_allclose(model.weight.detach().numpy(), weight, atol=1e-5)


def test_everything_else_is_adamws():
    model = small("transformer")
    twin = small("transformer")
    optimizer = make(model, weight_decay=0.1)
    adamw = torch.optim.AdamW(
        decay_groups(twin.parameters()), 0.01, (0.9, 0.98), 1e-9, 0.1, fused=True
    )
    hidden = {id(matrix) for matrix in hidden_matrices(model).values()}
    for seed in (1, 2, 3):
        for each, by in ((model, optimizer), (twin, adamw)):
            set_gradients(each, seed)
            by.step()
    for (name, left), right in zip(model.named_parameters(), twin.parameters(), strict=True):
        assert torch.equal(left, right) == (id(left) not in hidden), name
        assert left.grad is not None


@pytest.mark.parametrize("name", MODELS)
def test_tables_and_vectors_are_adamws(name):
    """Embeddings, the output layer, tables of positions and of distances, v_h of additive
    attention, location rows."""
    model = small(name)
    matrices = hidden_matrices(model)
    for label, parameter in model.named_parameters():
        is_matrix = parameter.ndim == 2 and min(parameter.shape) > 1
        assert (label in matrices) == (is_matrix and not re.fullmatch(TABLES, label)), label
    assert matrices and all(VOCABULARY not in matrix.shape for matrix in matrices.values())


@pytest.mark.parametrize("algorithm", ["adamw", "muon"])
@pytest.mark.parametrize("name", ["transformer", "bahdanau"])
def test_weight_decay_is_for_matrices_alone(name, algorithm):
    """Without a gradient a matrix shrinks by lr · weight_decay, and biases and gains of norms
    stay."""
    model = small(name)
    before = copy.deepcopy(model)
    optim = replace(validate(composed(name)).optim, algorithm=algorithm, lr=0.01, weight_decay=0.5)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    make_optimizer(model, optim).step()
    for (label, left), right in zip(model.named_parameters(), before.parameters(), strict=True):
        torch.testing.assert_close(
            left, right * (1 - 0.01 * 0.5) if left.ndim > 1 else right, msg=label
        )

"""Muon: the hidden matrices of a model move by their orthogonalized momentum, all else by AdamW."""

from typing import Any

import torch
from torch import Tensor, nn

from nmt.training.parameters import decay_groups, split_parameters

STEPS = 5
COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # Jordan et al. 2024: singular values come near 1 in few steps, not to 1
RMS = 0.2  # of an update of AdamW, about (Liu et al. 2025 §2.2)


class Muon(torch.optim.AdamW):
    """M_t = μ M_{t−1} + G_t; W ← W − lr · 0.2 √max(n, m) · O(G_t + μ M_t) for matrices [n m] (Jordan et al. 2024).

    O(U Σ Vᵀ) ≈ U Vᵀ. The factor, of Liu et al. 2025 §2.2, gives the update the size of one of AdamW's, so that one
    learning rate and weight decay serve both. Embeddings, the output layer, biases and norms are AdamW's. Deviation:
    projections that are stored as one matrix (query, key and value; the gates of a recurrent layer) are orthogonalized
    as one. The products are made in autocast's dtype where that is on.
    """

    def __init__(
        self,
        model: nn.Module,
        lr: float,
        betas: tuple[float, float],
        eps: float,
        weight_decay: float,
        momentum: float,
    ) -> None:
        matrices, others = split_parameters(model)
        decayed, vectors = decay_groups(others)
        super().__init__([decayed, {"params": matrices}, vectors], lr, betas, eps, weight_decay, fused=True)
        self.momentum = momentum
        self.found_inf: Tensor | None = None  # 1: `step` changes nothing, as PyTorch's own optimizers have it

    @property
    def matrices(self) -> dict[str, Any]:
        """The group of the hidden matrices; loading a state replaces it."""
        return self.param_groups[1]

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Change all parameters that have a gradient."""
        gradients = [parameter.grad for parameter in self.matrices["params"]]
        for parameter in self.matrices["params"]:
            if parameter.grad is not None:
                self.change(parameter, parameter.grad)
                parameter.grad = None  # AdamW leaves it out
        super().step()
        for parameter, gradient in zip(self.matrices["params"], gradients, strict=True):
            parameter.grad = gradient

    def change(self, matrix: Tensor, gradient: Tensor) -> None:
        """One step of a matrix W [n m] with its momentum, both in place; none where found_inf is 1."""
        state = self.state[matrix]
        momentum = state.setdefault("momentum", torch.zeros_like(matrix))
        state.setdefault("step", torch.tensor(0.0))  # not used; AdamW's `__setstate__` asks for it
        moved = momentum.mul(self.momentum).add_(gradient)
        direction = orthogonalize(gradient.add(moved, alpha=self.momentum))
        lr, weight_decay = self.matrices["lr"], self.matrices["weight_decay"]
        changed = matrix.mul(1 - lr * weight_decay).add_(direction, alpha=-lr * RMS * max(matrix.shape) ** 0.5)
        for old, new in ((momentum, moved), (matrix, changed)):
            old.copy_(new if self.found_inf is None else torch.where(self.found_inf.bool(), old, new))


def orthogonalize(matrix: Tensor) -> Tensor:
    """U Vᵀ of a matrix U Σ Vᵀ [n m], roughly: its singular values are brought to about 0.7 to 1.2.

    STEPS times X ← a X + (b A + c A²) X with A = X Xᵀ (Newton–Schulz; Jordan et al. 2024).
    """
    a, b, c = COEFFICIENTS
    wide = matrix if matrix.size(0) <= matrix.size(1) else matrix.T
    wide = wide / (wide.norm() + 1e-7)
    for _ in range(STEPS):
        squares = wide @ wide.T
        wide = torch.addmm(wide, torch.addmm(squares, squares, squares, beta=b, alpha=c), wide, beta=a)
    return wide if matrix.size(0) <= matrix.size(1) else wide.T

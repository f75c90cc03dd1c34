"""AdamW, and Muon for the hidden matrices of a model."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from nmt.config.schema import OptimConfig

STEPS = 5  # of the Newton–Schulz iteration
# Of the polynomial of a step. Few steps bring singular values near 1, not to 1 (Jordan et al. 2024)
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
RMS = 0.2  # of AdamW's updates, roughly (Liu et al. 2025 §2.2)


def make_optimizer(model: nn.Module, optim: OptimConfig) -> torch.optim.Optimizer:
    """AdamW (Loshchilov & Hutter 2019) in one kernel, or Muon; vectors have no weight decay."""
    if optim.algorithm == "muon":
        return Muon(model, optim)
    first, second = optim.betas
    groups = decay_groups(trained_parameters(model))
    return torch.optim.AdamW(
        groups, optim.lr, (first, second), optim.eps, optim.weight_decay, fused=True
    )


def trained_parameters(model: nn.Module) -> list[nn.Parameter]:
    """The parameters that are not frozen; an optimizer has no state for frozen ones."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def decay_groups(parameters: Iterable[nn.Parameter]) -> list[dict[str, Any]]:
    """Two groups: matrices with the optimizer's weight decay, biases and gains of norms without."""
    matrices = []
    vectors = []
    for parameter in parameters:
        if parameter.ndim > 1:
            matrices.append(parameter)
        else:
            vectors.append(parameter)
    return [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}]


def hidden_matrices(model: nn.Module) -> dict[str, nn.Parameter]:
    """The matrices that map one hidden vector to another, by name.

    Not those whose rows stand for single words, positions, distances or heads: embeddings, the
    output layer, tables of positions and of distances, the scores of positions, and the vectors v_h
    of additive self-attention.
    """
    embeddings = {id(layer.weight) for layer in model.modules() if isinstance(layer, nn.Embedding)}
    hidden = {}
    for name, parameter in model.named_parameters():
        is_matrix = parameter.ndim == 2 and min(parameter.shape) > 1
        is_of_words = id(parameter) in embeddings or name.startswith("output.")
        # Tables and the vectors v_h have names of their own
        is_table = "weight" not in name.rpartition(".")[2] or "position_scores" in name
        if is_matrix and not is_of_words and not is_table:
            hidden[name] = parameter
    return hidden


class Muon(torch.optim.AdamW):
    """Muon (Jordan et al. 2024) for `hidden_matrices`, AdamW for all other parameters.

    For a matrix W [n m] with gradient G_t, weight decay λ, and O(U Σ Vᵀ) ≈ U Vᵀ:

        M_t = μ M_{t−1} + G_t
        W ← (1 − lr λ) W − lr · 0.2 √max(n, m) · O(G_t + μ M_t)

    The factor 0.2 √max(n, m), of Liu et al. 2025 §2.2, gives an update the size of one of AdamW's,
    so that one learning rate and weight decay serve both. Deviation: projections that are stored as
    one matrix (query, key and value; the gates of a recurrent layer) are orthogonalized as one.

    torch.optim.Muon computes the same, but always in bf16, which takes 16 to 34 times as long on a
    CPU without units for it. And it has no found_inf, so the host would wait for each update of a
    GPU.
    """

    def __init__(self, model: nn.Module, optim: OptimConfig) -> None:
        matrices = [each for each in hidden_matrices(model).values() if each.requires_grad]
        hidden = {id(matrix) for matrix in matrices}
        others = [each for each in trained_parameters(model) if id(each) not in hidden]
        decayed, vectors = decay_groups(others)
        groups = [decayed, {"params": matrices}, vectors]
        first, second = optim.betas
        super().__init__(
            groups, optim.lr, (first, second), optim.eps, optim.weight_decay, fused=True
        )
        self.momentum = optim.momentum
        self.found_inf: Tensor | None = None  # 1: `step` changes nothing, as in PyTorch's AdamW

    @property
    def matrices(self) -> dict[str, Any]:
        """The group of the hidden matrices; loading a state replaces it."""
        return self.param_groups[1]

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Change all parameters that have a gradient."""
        gradients = [parameter.grad for parameter in self.matrices["params"]]
        by_shape: dict[torch.Size, list[nn.Parameter]] = {}
        for parameter in self.matrices["params"]:
            if parameter.grad is not None:
                by_shape.setdefault(parameter.shape, []).append(parameter)
        for parameters in by_shape.values():
            self.update_matrices(parameters)
        for parameter in self.matrices["params"]:
            parameter.grad = None  # AdamW leaves out what has no gradient
        super().step()
        for parameter, gradient in zip(self.matrices["params"], gradients, strict=True):
            parameter.grad = gradient

    def update_matrices(self, matrices: list[nn.Parameter]) -> None:
        """One step of G matrices [n m] and their momenta, in place; none where found_inf is 1.

        They are computed in one batch: in a narrow model a single product takes less time than the
        call that starts it.
        """
        momenta = []
        for matrix in matrices:
            state = self.state[matrix]
            momenta.append(state.setdefault("momentum", torch.zeros_like(matrix)))
            # Not used; AdamW's `__setstate__` asks for it
            state.setdefault("step", torch.tensor(0.0))
        gradient = torch.stack([matrix.grad for matrix in matrices])  # type: ignore[misc] # [G n m]
        momentum = torch.stack(momenta)
        weights = [matrix.detach() for matrix in matrices]
        weight = torch.stack(weights)

        new_momentum = momentum.mul(self.momentum).add_(gradient)
        direction = orthogonalize(gradient.add_(new_momentum, alpha=self.momentum))
        lr = self.matrices["lr"]
        size = lr * RMS * max(weight.shape[1:]) ** 0.5
        new_weight = weight.mul(1 - lr * self.matrices["weight_decay"])
        new_weight.add_(direction, alpha=-size)
        if self.found_inf is not None:
            is_skipped = self.found_inf.bool()
            new_momentum = torch.where(is_skipped, momentum, new_momentum)
            new_weight = torch.where(is_skipped, weight, new_weight)
        torch._foreach_copy_(momenta, list(new_momentum.unbind()))
        torch._foreach_copy_(weights, list(new_weight.unbind()))


def orthogonalize(matrices: Tensor) -> Tensor:
    """U Vᵀ of matrices U Σ Vᵀ [… n m], roughly: singular values are brought to about 0.7 to 1.2.

    STEPS times X ← a X + (b A + c A²) X with A = X Xᵀ (Newton–Schulz; Jordan et al. 2024). X is a
    matrix or its transpose, whichever has fewer rows.
    """
    a, b, c = COEFFICIENTS
    is_wide = matrices.size(-2) <= matrices.size(-1)
    x = matrices if is_wide else matrices.mT
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(STEPS):
        products = x @ x.mT  # A
        polynomial = b * products + c * (products @ products)
        x = a * x + polynomial @ x
    return x if is_wide else x.mT

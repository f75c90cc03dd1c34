"""How the optimizers divide the parameters of a model."""

from collections.abc import Iterable
from typing import Any

from torch import nn


def decay_groups(parameters: Iterable[nn.Parameter]) -> list[dict[str, Any]]:
    """Two groups of an optimizer: matrices with its weight decay, and vectors (biases, gains of norms) without."""
    everything = list(parameters)
    matrices = [parameter for parameter in everything if parameter.ndim > 1]
    vectors = [parameter for parameter in everything if parameter.ndim <= 1]
    return [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}]


def split_parameters(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """The hidden matrices of a model, and its other parameters: embeddings, output layer, vectors."""
    tables = {id(layer.weight) for layer in model.modules() if isinstance(layer, nn.Embedding)}
    tables |= {id(parameter) for name, parameter in model.named_parameters() if name.startswith("output.")}
    matrices: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for parameter in model.parameters():
        is_hidden = parameter.ndim == 2 and min(parameter.shape) > 1 and id(parameter) not in tables
        (matrices if is_hidden else others).append(parameter)
    return matrices, others

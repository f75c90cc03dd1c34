"""What scripts/peer_attention.py compares: ours, how a peer is loaded, and how the two share their parameters.

B batch, S source length, T target length, D size of query, memory and model, H heads.
"""

import importlib
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from nmt.attention.multi_head import MultiHeadAttention
from nmt.attention.single_head import SingleHeadAttention

B, S, T, D, H = 3, 7, 5, 12, 3
LENGTH = torch.tensor([S, 4, 1])
SEEN = torch.arange(S) < LENGTH[:, None]  # [B S]
PAST = torch.ones(T, T, dtype=torch.bool).tril()  # [T S]: what a causal query sees
EXACT, SINGLE = 1e-10, 1e-5

Outputs = Sequence[Tensor | None]
Forward = Callable[[Tensor, Tensor], Outputs]  # query [B T D], memory [B S D]


class Shared(NamedTuple):
    """A parameter of ours, the part of it that a peer has as a parameter of its own, and that one."""

    ours: Tensor
    part: Callable[[Tensor], Tensor]
    theirs: Tensor


class Case(NamedTuple):
    """One comparison; the peer's parameters that are not shared are 0."""

    module: str
    compared: str
    ours: Forward
    theirs: Forward
    parameters: list[Tensor]
    shared: list[Shared]
    tolerance: float = EXACT


class Order(NamedTuple):
    """How far a decoder's weights are from those of the state before the step, s_(t−1), and after it, s_t."""

    decoder: str
    before: float
    after: float


class Peer(NamedTuple):
    """A distribution, what to compare, which state its decoder looks with, and where it differs, in words."""

    name: str
    cases: list[Callable[[], Case]]
    order: Callable[[], Order] | None
    remarks: list[str]


def whole(parameter: Tensor) -> Tensor:
    return parameter


def turned(parameter: Tensor) -> Tensor:
    return parameter.T


def third(number: int) -> Callable[[Tensor], Tensor]:
    """The rows of query, key or value in MultiHead's joint projection."""
    return lambda parameter: parameter.chunk(3)[number]


class StandIn(ModuleType):
    """A library that a peer imports and these comparisons do not use: any name in it is an empty class."""

    __path__: list[str] = []

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"__init__": lambda *arguments, **options: None})


def load(name: str) -> Any:
    """Import a peer's module; a library of a third party that it wants and that is missing becomes a stand-in."""
    own = name.split(".")[0]
    while True:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            missing = error.name or ""
            if missing.split(".")[0] == own or missing in sys.modules:
                raise
            sys.modules[missing] = StandIn(missing)
            for loaded in [module for module in sys.modules if module.split(".")[0] == own]:
                del sys.modules[loaded]


def noise(*shape: int) -> Tensor:
    """Between −1 and 1."""
    return 2 * torch.rand(*shape, dtype=torch.float64) - 1


def apart(one: Tensor, other: Tensor) -> float:
    """The largest absolute difference; NaN counts as infinite."""
    return float((one - other).detach().abs().nan_to_num(torch.inf).max())


def single(score: str) -> tuple[dict[str, nn.Parameter], Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]]:
    """Ours: every query looks at the whole sentence; the parameters by name, and context and weights."""
    attention = SingleHeadAttention(D, D, score, "global", radius=10, positions=S).double()

    def forward(query: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        step = torch.arange(query.size(1)).repeat(B, 1)
        return attention(query, attention.keys(memory), memory, step, LENGTH, SEEN)

    return dict(attention.named_parameters()), forward


def several(causal: bool, weights: bool) -> tuple[MultiHeadAttention, Forward]:
    """Ours: causal self-attention of the query, or cross-attention; outputs and, on the explicit road, weights."""
    ours = MultiHeadAttention(D, H).double()

    def forward(query: Tensor, memory: Tensor) -> Outputs:
        if causal:
            return ours(*ours.project_all(query), PAST, weights=weights)
        return ours(ours.project_query(query), *ours.project_memory(memory), SEEN[:, None, None], weights=weights)

    return ours, forward


def projections(ours: MultiHeadAttention, inputs: Sequence[nn.Linear], output: nn.Linear) -> list[Shared]:
    """The projections of query, key and value, and of the output."""
    shared = [Shared(ours.weight, third(number), part.weight) for number, part in enumerate(inputs)]
    shared += [Shared(ours.bias, third(number), part.bias) for number, part in enumerate(inputs)]
    return [*shared, Shared(ours.output.weight, whole, output.weight), Shared(ours.output.bias, whole, output.bias)]

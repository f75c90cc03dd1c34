"""A model made ready for search: its matrices cast, and laid out, once."""

import copy
import functools
import logging
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from nmt.attention.multi_head import MultiHeadAttention
from nmt.attention.padded_matmul import LinearMap, Product
from nmt.attention.windows import Window
from nmt.models.base import EncoderDecoder
from nmt.models.cells import ConditionalGRU, Products, StackedRNNCell
from nmt.timing import least_seconds

log = logging.getLogger("nmt")
MATRICES = 8  # that are timed to know which layout is faster
ROWS = 64  # for so many rows oneDNN lays a matrix out; other numbers are as right


class PackedLinear(nn.Module):
    """x Wᵀ + b on a CPU, W in the layout and number format in which it is multiplied: [… I] → [… O].

    A plain matrix is laid out anew for every product; for the few rows of one sentence that costs more than itself.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype, (self.out_features, self.in_features) = dtype, weight.shape
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight.detach().to(dtype), ROWS)
        self.bias = None if bias is None else bias.detach().to(dtype)

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise.default(inputs.to(self.dtype), self.weight, self.bias, "none", [], "")


class ColumnMajorLinear(nn.Module):
    """x Wᵀ + b in float32, W laid out column by column: [… I] → [… O].

    So MKL multiplies a few rows without laying the matrix out first, as it does for W row by row.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.weight = weight.detach().t().contiguous().t()
        self.bias = None if bias is None else bias.detach()

    def forward(self, inputs: Tensor) -> Tensor:
        return functional.linear(inputs.to(self.weight.dtype), self.weight, self.bias)


class PackedMultiHeadAttention(MultiHeadAttention):
    """Multi-head attention with packed projections; `parts` of query, key, value (0, 1, 2) are asked for together."""

    def __init__(self, plain: MultiHeadAttention, dtype: torch.dtype, parts: Sequence[tuple[int, int]]) -> None:
        nn.Module.__init__(self)
        self.size, self.heads, self.dropout = plain.size, plain.heads, plain.dropout
        self.output = packed(plain.output, dtype)  # type: ignore[assignment]
        self.packed = {part: packed(plain.product(*part), dtype) for part in parts}

    def product(self, first: int, last: int) -> Product:
        return self.packed[first, last]


class PackedStackedRNNCell(StackedRNNCell):
    """A stack that is fed, one column after the other, with packed matrices."""

    def __init__(self, plain: StackedRNNCell, dtype: torch.dtype) -> None:
        nn.Module.__init__(self)
        self.cell, self.states, self.dropout = plain.cell, plain.states, plain.dropout
        embedded, fed, below, recurrent = plain.products()
        self.packed = Products(
            packed(embedded, dtype),
            packed(fed, dtype),
            [packed(one, dtype) for one in below],
            [packed(one, dtype) for one in recurrent],
        )

    def products(self) -> Products:
        return self.packed


class PackedConditionalGRU(ConditionalGRU):
    """Bahdanau's step with packed matrices."""

    def __init__(self, plain: ConditionalGRU, dtype: torch.dtype) -> None:
        nn.Module.__init__(self)
        self.hidden = plain.hidden
        self.embedding = packed(plain.embedding, dtype)  # type: ignore[assignment]
        self.context = packed(plain.context, dtype)  # type: ignore[assignment]
        self.packed = [packed(one, dtype) for one in plain.products()]

    def products(self) -> tuple[Product, Product]:
        return self.packed[0], self.packed[1]


def packed(product: Product, dtype: torch.dtype) -> PackedLinear | ColumnMajorLinear:
    """A linear layer, or matrices that lie elsewhere, laid out in the way that is the faster one here."""
    assert isinstance(product, (LinearMap, nn.Linear))
    if dtype == torch.float32 and turned_pays():
        return ColumnMajorLinear(product.weight, product.bias)
    return PackedLinear(product.weight, product.bias, dtype)


@functools.cache
def turned_pays() -> bool:
    """Whether `ColumnMajorLinear` multiplies the few rows of one sentence faster than `PackedLinear`, timed once in a process (20 ms).

    Over several matrices, as in a step of search: one alone would stay in the cache.
    """
    weight, bias, inputs = torch.ones(1024, 256), torch.ones(1024), torch.ones(5, 256)
    turned = [ColumnMajorLinear(weight, bias) for _ in range(MATRICES)]
    laid_out = [PackedLinear(weight, bias, torch.float32) for _ in range(MATRICES)]
    of_turned, of_packed = least_seconds(
        lambda: [one(inputs) for one in turned], lambda: [one(inputs) for one in laid_out]
    )
    return of_turned < of_packed


def prepared(model: EncoderDecoder, dtype: torch.dtype) -> EncoderDecoder:
    """The same model with the weights that autocast to `dtype` makes at every step (in inference mode it keeps none).

    On a CPU they are packed as well. All other tensors are shared with `model`, an embedding that is tied to the output
    among them. Windows keep their weights: they count positions in float32.
    """
    tensors = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    ready = copy.deepcopy(model, tensors)
    packs = can_pack(next(model.parameters()), dtype)
    replace(ready, dtype, packs)
    return ready.train(model.training)  # new modules begin in training mode


def replace(module: nn.Module, dtype: torch.dtype, packs: bool) -> None:
    """Every matrix below a module that search multiplies by column for column, outside windows."""
    for name, child in list(module.named_children()):
        if isinstance(child, Window):
            continue
        if packs and isinstance(child, MultiHeadAttention):
            parts = ((0, 1), (1, 3)) if name == "cross_attention" else ((0, 3),)
            setattr(module, name, PackedMultiHeadAttention(child, dtype, parts))
        elif packs and isinstance(child, ConditionalGRU):
            setattr(module, name, PackedConditionalGRU(child, dtype))
        elif packs and isinstance(child, StackedRNNCell) and child.fed:
            setattr(module, name, PackedStackedRNNCell(child, dtype))
        elif packs and isinstance(child, nn.Linear):
            setattr(module, name, packed(child, dtype))
        else:
            if isinstance(child, (nn.Linear, MultiHeadAttention, ConditionalGRU)):
                cast(child, dtype)
            elif isinstance(child, StackedRNNCell) and child.fed:
                for layer in child.layers:
                    cast(layer, dtype)
            replace(child, dtype, packs)


def cast(module: nn.Module, dtype: torch.dtype) -> None:
    """A module's own parameters, in another number format."""
    for key, parameter in list(module.named_parameters(recurse=False)):
        setattr(module, key, nn.Parameter(parameter.detach().to(dtype), requires_grad=False))


def can_pack(like: Tensor, dtype: torch.dtype) -> bool:
    """Whether this PyTorch packs on this device; its operators for it are not promised to stay."""
    if like.device.type != "cpu" or like.dtype != torch.float32:
        return False
    try:
        return PackedLinear(torch.eye(2), torch.ones(2), dtype)(torch.ones(1, 2)).tolist() == [[2.0, 2.0]]
    except (AttributeError, RuntimeError, NotImplementedError) as error:
        log.debug("Matrices are not packed: %s", error)
        return False

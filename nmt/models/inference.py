"""A copy of a model for search: its matrices are cast, and on a CPU packed, once for all steps."""

import copy
from collections.abc import Sequence

import torch
from torch import nn

from nmt.attention.cpu import ColumnMajorLinear, PackedLinear, can_pack, uses_column_major
from nmt.attention.multi_head import MultiHeadAttention
from nmt.attention.projection import LinearMap, Projection
from nmt.attention.windows import Window
from nmt.models.base import EncoderDecoder
from nmt.models.cells import ConditionalGRU, GRUProjections, Projections, StackedRNNCell


def inference_copy(model: EncoderDecoder, dtype: torch.dtype) -> EncoderDecoder:
    """A copy of the model whose matrices are already cast to `dtype`.

    In inference mode autocast keeps no casts, and would make them again at every step. On a CPU the
    matrices are packed as well. All other tensors are shared with `model`, also an embedding that
    is tied to the output. Windows keep their weights: they compute positions in float32.
    """
    # What deepcopy finds in its memo it shares
    tensors = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    result = copy.deepcopy(model, tensors)
    replace_matrices(result, dtype, can_pack(next(model.parameters()), dtype))
    return result.train(model.training)  # new modules begin in training mode


def replace_matrices(module: nn.Module, dtype: torch.dtype, packs: bool) -> None:
    """Cast or pack the matrices below a module that search multiplies by at every step."""
    for name, child in list(module.named_children()):
        if isinstance(child, Window):
            continue
        packed = packed_module(name, child, dtype) if packs else None
        if packed is not None:
            setattr(module, name, packed)
            continue
        if isinstance(child, (nn.Linear, MultiHeadAttention, ConditionalGRU)):
            cast_parameters(child, dtype)
        elif isinstance(child, StackedRNNCell) and child.feed_size:
            for layer in child.layers:
                cast_parameters(layer, dtype)
        replace_matrices(child, dtype, packs)


def packed_module(name: str, module: nn.Module, dtype: torch.dtype) -> nn.Module | None:
    """A packed copy of a module that its parent calls `name`; None if its kind is not packed."""
    if isinstance(module, MultiHeadAttention):
        parts = ((0, 1), (1, 3)) if name == "cross_attention" else ((0, 3),)
        return PackedMultiHeadAttention(module, dtype, parts)
    if isinstance(module, ConditionalGRU):
        return PackedConditionalGRU(module, dtype)
    if isinstance(module, StackedRNNCell) and module.feed_size:
        return PackedStackedRNNCell(module, dtype)
    if isinstance(module, nn.Linear):
        return pack(module, dtype)
    return None


def cast_parameters(module: nn.Module, dtype: torch.dtype) -> None:
    """A module's own parameters, without those of its children, in another dtype."""
    for key, parameter in list(module.named_parameters(recurse=False)):
        setattr(module, key, nn.Parameter(parameter.detach().to(dtype), requires_grad=False))


def pack(projection: Projection, dtype: torch.dtype) -> PackedLinear | ColumnMajorLinear:
    """A linear layer or map in the layout that is faster on this machine."""
    assert isinstance(projection, (LinearMap, nn.Linear))
    if dtype == torch.float32 and uses_column_major():
        return ColumnMajorLinear(projection.weight, projection.bias)
    return PackedLinear(projection.weight, projection.bias, dtype)


class PackedMultiHeadAttention(MultiHeadAttention):
    """Multi-head attention with packed projections.

    `parts`: the ranges of query, key, value (0, 1, 2) that are used.
    """

    def __init__(
        self, plain: MultiHeadAttention, dtype: torch.dtype, parts: Sequence[tuple[int, int]]
    ) -> None:
        nn.Module.__init__(self)
        self.size = plain.size
        self.heads = plain.heads
        self.dropout = plain.dropout
        self.output = pack(plain.output, dtype)  # type: ignore[assignment]
        self.packed = {part: pack(plain.projection(*part), dtype) for part in parts}

    def projection(self, first: int, last: int) -> Projection:
        return self.packed[first, last]


class PackedStackedRNNCell(StackedRNNCell):
    """A stacked cell with packed matrices, for one column at a time."""

    def __init__(self, plain: StackedRNNCell, dtype: torch.dtype) -> None:
        nn.Module.__init__(self)
        self.cell = plain.cell
        self.state_names = plain.state_names
        self.dropout = plain.dropout
        embedding, feed, lower, recurrent = plain.projections()
        self.packed = Projections(
            pack(embedding, dtype),
            pack(feed, dtype),
            [pack(projection, dtype) for projection in lower],
            [pack(projection, dtype) for projection in recurrent],
        )

    def projections(self) -> Projections:
        return self.packed


class PackedConditionalGRU(ConditionalGRU):
    """Bahdanau's GRU with packed matrices."""

    def __init__(self, plain: ConditionalGRU, dtype: torch.dtype) -> None:
        nn.Module.__init__(self)
        self.hidden = plain.hidden
        self.embedding = pack(plain.embedding, dtype)  # type: ignore[assignment]
        context, gates, candidate = plain.projections()
        self.packed = GRUProjections(
            pack(context, dtype), pack(gates, dtype), pack(candidate, dtype)
        )

    def projections(self) -> GRUProjections:
        return self.packed

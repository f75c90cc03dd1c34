"""A copy of a model for search, whose matrices are cast once, and on a CPU packed."""

import copy
from collections.abc import Sequence

import torch
from torch import nn

from nmt import IS_INTEL
from nmt.attention.cpu import ColumnMajorLinear, PackedLinear, can_pack
from nmt.attention.multi_head import MultiHeadAttention
from nmt.attention.projection import LinearMap, Projection
from nmt.attention.windows import Window
from nmt.models.base import EncoderDecoder
from nmt.models.cells import ContextGRU, GRUProjections, Projections, StackedRNNCell
from nmt.models.layers import LayerNorm


def inference_copy(model: EncoderDecoder, dtype: torch.dtype) -> EncoderDecoder:
    """A copy of the model whose matrices are already cast to `dtype`.

    In inference mode autocast does not keep its casts: it would cast every matrix again at each
    step. On a CPU the matrices are also packed, where that is possible. All other tensors are
    shared with `model`; of an embedding and its tied output layer only the latter is cast. Windows
    keep their matrices, because they compute positions in float32.

    A packed matrix has the layout that its product needs (nmt/attention/cpu.py). The model must
    have no LoRA beside its weights; they are merged before (nmt/training/restore.py).
    """
    # deepcopy shares the tensors that are in its memo
    tensors = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    result = copy.deepcopy(model, tensors)
    replace_matrices(result, dtype, can_pack(next(model.parameters()), dtype))
    return result.train(model.training)  # new modules begin in training mode


def replace_matrices(module: nn.Module, dtype: torch.dtype, packs: bool) -> None:
    """Cast or pack the matrices inside a module that search uses at every step."""
    for name, child in list(module.named_children()):
        if isinstance(child, Window):
            continue
        packed = packed_module(name, child, dtype) if packs else None
        if packed is not None:
            setattr(module, name, packed)
            continue
        if isinstance(child, (nn.Linear, MultiHeadAttention, ContextGRU)):
            cast_parameters(child, dtype)
        elif isinstance(child, LayerNorm) and child.weight.device.type == "cuda":
            cast_parameters(child, dtype)  # on a CPU norms stay in float32
        elif isinstance(child, StackedRNNCell) and child.feed_size:
            for layer in child.layers:
                cast_parameters(layer, dtype)
        replace_matrices(child, dtype, packs)


def packed_module(name: str, module: nn.Module, dtype: torch.dtype) -> nn.Module | None:
    """A packed copy of the child `name` of a module; None if modules of its type are not packed."""
    if isinstance(module, MultiHeadAttention):
        # Cross-attention projects queries (0, 1) apart from keys and values of the memory (1, 3)
        parts = ((0, 1), (1, 3)) if name == "cross_attention" else ((0, 3),)
        return PackedMultiHeadAttention(module, dtype, parts)
    if isinstance(module, ContextGRU):
        return PackedContextGRU(module, dtype)
    if isinstance(module, StackedRNNCell) and module.feed_size:  # else its layers run whole chunks
        return PackedStackedRNNCell(module, dtype)
    if isinstance(module, nn.Linear):
        return pack(module, dtype)
    return None


def cast_parameters(module: nn.Module, dtype: torch.dtype) -> None:
    """Cast a module's own parameters, but not those of its children."""
    for key, parameter in list(module.named_parameters(recurse=False)):
        setattr(module, key, nn.Parameter(parameter.detach().to(dtype), requires_grad=False))


def pack(projection: Projection, dtype: torch.dtype) -> PackedLinear | ColumnMajorLinear:
    """A linear layer or map with its matrix in the layout that is faster on this machine."""
    assert isinstance(projection, (LinearMap, nn.Linear))
    if dtype == torch.float32 and IS_INTEL:
        return ColumnMajorLinear(projection.weight, projection.bias)
    return PackedLinear(projection.weight, projection.bias, dtype)


class PackedMultiHeadAttention(MultiHeadAttention):
    """Multi-head attention with packed projections.

    `parts`: the ranges `first`, `last` for which `projection` is called.
    """

    def __init__(
        self, plain: MultiHeadAttention, dtype: torch.dtype, parts: Sequence[tuple[int, int]]
    ) -> None:
        nn.Module.__init__(self)  # makes no matrices, unlike super().__init__
        self.size = plain.size
        self.heads = plain.heads
        self.dropout = plain.dropout
        self.output = pack(plain.output, dtype)  # type: ignore[assignment]
        self.packed = {part: pack(plain.projection(*part), dtype) for part in parts}

    def projection(self, first: int, last: int) -> Projection:
        return self.packed[first, last]


class PackedStackedRNNCell(StackedRNNCell):
    """A stacked cell with packed matrices. It has only `step`, not `forward`."""

    def __init__(self, plain: StackedRNNCell, dtype: torch.dtype) -> None:
        nn.Module.__init__(self)
        self.is_lstm = plain.is_lstm
        self.state_names = plain.state_names
        self.dropout = plain.dropout
        embedding, feed, upper, recurrent = plain.projections()
        self.packed = Projections(
            pack(embedding, dtype),
            pack(feed, dtype),
            [pack(projection, dtype) for projection in upper],
            [pack(projection, dtype) for projection in recurrent],
        )

    def projections(self) -> Projections:
        return self.packed


class PackedContextGRU(ContextGRU):
    """Bahdanau's GRU with packed matrices."""

    def __init__(self, plain: ContextGRU, dtype: torch.dtype) -> None:
        nn.Module.__init__(self)
        self.hidden = plain.hidden
        self.embedding = pack(plain.embedding, dtype)  # type: ignore[assignment]
        context, gates, candidate = plain.projections()
        self.packed = GRUProjections(
            pack(context, dtype), pack(gates, dtype), pack(candidate, dtype)
        )

    def projections(self) -> GRUProjections:
        return self.packed

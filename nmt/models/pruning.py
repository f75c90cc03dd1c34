"""A smaller Transformer cut out of a trained one: the weights with which a student begins.

Width: the vectors of the residual connections are projected onto their principal components
(SliceGPT, Ashkboos et al. 2024 §3). A matrix that writes to the residual connections is multiplied
by the projection, and one that reads them by its transpose. Layer norms allow this: a norm
subtracts the mean of a vector, which is a projection too, and divides by its length, which no
rotation changes. The weights of a norm become part of the matrix that reads it.

Heads and units of the feed-forward layers: those whose outputs vary most are kept. The mean output
of the others is added to the bias.

Depth: layers at equal distances are kept, with the first and the last (Shleifer & Rush 2020 §3).

Deviations from SliceGPT: all layers of both stacks share one projection, because both stacks may
read the same embeddings. The weights of the decoder's last norm become their mean. They cannot be
part of the output layer, because it may be tied to the embeddings.

Nothing is lost where parts of the teacher have no effect or a constant one.

D size of the teacher, E size of the student, K head size, U units that a linear layer reads.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from nmt.attention.multi_head import MultiHeadAttention
from nmt.config.transformer import TransformerConfig
from nmt.models.layers import FeedForward, LayerNorm
from nmt.models.transformer import Transformer

SIZES = ("hidden_size", "num_heads", "feed_forward_size", "encoder_layers", "decoder_layers")
DROPOUTS = ("dropout", "attention_dropout")


def can_prune(teacher: Any, student: Any) -> bool:
    """Whether `prune` can give a student of this configuration its weights.

    The student may differ from the teacher only in dropout and in sizes. No size may be larger, and
    the size of a head must be the same. Both need softmax self-attention, norms before the
    sub-layers, and rotary positions, so that nothing is added to the embeddings.
    """
    if not isinstance(teacher, TransformerConfig) or not isinstance(student, TransformerConfig):
        return False
    free = {name: getattr(student, name) for name in (*SIZES, *DROPOUTS)}
    if replace(teacher, **free) != student:
        return False
    if any(free[size] > getattr(teacher, size) for size in SIZES):
        return False
    if teacher.hidden_size * student.num_heads != student.hidden_size * teacher.num_heads:
        return False
    is_softmax = teacher.self_attention == "softmax"
    return is_softmax and teacher.norm == "pre" and teacher.positions == "rotary"


@torch.no_grad()
def prune(
    teacher: Transformer, student: Transformer, pairs: Iterable[tuple[Tensor, Tensor]]
) -> None:
    """Give a new student the weights that are cut out of its teacher's.

    pairs: source [1 S] ending in </s> and target [1 T] beginning with <s>, of typical sentences.
    They decide what is kept.
    """
    gram, moments = measure(teacher, pairs)
    new_size = student.output.in_features
    scale = math.sqrt(teacher.output.in_features / new_size)
    pruner = Pruner(principal_projection(gram, new_size), scale, moments)

    # Encoder
    for old, new in chosen_layers(teacher.encoder, student.encoder):
        pruner.prune_attention(old.attention, new.attention, old.attention_residual.norm)
        pruner.prune_feed_forward(
            old.feed_forward, new.feed_forward, old.feed_forward_residual.norm
        )

    # Decoder
    memory_norm: Any = teacher.encoder_norm
    for old, new in chosen_layers(teacher.decoder, student.decoder):
        pruner.prune_attention(old.self_attention, new.self_attention, old.self_residual.norm)
        query_norm = old.cross_residual.norm
        pruner.prune_attention(old.cross_attention, new.cross_attention, query_norm, memory_norm)
        pruner.prune_feed_forward(
            old.feed_forward, new.feed_forward, old.feed_forward_residual.norm
        )

    # Embeddings and output
    pruner.copy_table(teacher.source_embedding, student.source_embedding)
    pruner.copy_table(teacher.target_embedding, student.target_embedding)
    pruner.copy_table(teacher.output, student.output)
    if teacher.output.bias is not None:
        student.output.bias.copy_(teacher.output.bias)
    old_norm: Any = teacher.decoder_norm
    new_norm: Any = student.decoder_norm
    new_norm.weight.fill_(old_norm.weight.mean())
    new_norm.bias.copy_(pruner.project(old_norm.bias) / pruner.scale)


def chosen_layers(teacher: nn.ModuleList, student: nn.ModuleList) -> Iterator[tuple[Any, Any]]:
    """Pairs of a teacher's layer, and the student's layer that is cut out of it."""
    numbers = torch.linspace(0, len(teacher) - 1, len(student)).round().int().tolist()
    for number, layer in zip(numbers, student, strict=True):
        yield teacher[number], layer


class Moments:
    """Mean and variance of each unit, in float64."""

    def __init__(self, units: int) -> None:
        self.count = 0
        self.sum = torch.zeros(units, dtype=torch.float64)
        self.squares = torch.zeros(units, dtype=torch.float64)

    def add(self, vectors: Tensor) -> None:
        """vectors [… U]."""
        rows = vectors.flatten(0, -2).double()
        self.count += len(rows)
        self.sum += rows.sum(0)
        self.squares += rows.square().sum(0)

    @property
    def mean(self) -> Tensor:
        return self.sum / self.count

    @property
    def variance(self) -> Tensor:
        return self.squares / self.count - self.mean.square()


def measure(
    teacher: Transformer, pairs: Iterable[tuple[Tensor, Tensor]]
) -> tuple[Tensor, dict[nn.Module, Moments]]:
    """Run the teacher on these pairs.

    Returns Σ x xᵀ [D D] of the normalized vectors x, not centred over the samples, as in SliceGPT,
    and the moments of what the last layer of each sub-layer reads.
    """
    size = teacher.output.in_features
    gram = torch.zeros(size, size, dtype=torch.float64)
    moments: dict[nn.Module, Moments] = {}

    def add_vectors(module: nn.Module, inputs: tuple[Tensor]) -> None:
        rows = functional.layer_norm(inputs[0], [size]).flatten(0, -2).double()
        gram.add_(rows.T @ rows)

    def add_units(module: nn.Module, inputs: tuple[Tensor]) -> None:
        moments[module].add(inputs[0])

    hooks = []
    for module in teacher.modules():
        if isinstance(module, LayerNorm):
            hooks.append(module.register_forward_pre_hook(add_vectors))
        elif isinstance(module, (MultiHeadAttention, FeedForward)):
            last: Any = list(module.children())[-1]
            moments[last] = Moments(last.in_features)
            hooks.append(last.register_forward_pre_hook(add_units))
    for source, target in pairs:
        teacher(source, None, target)
    for hook in hooks:
        hook.remove()
    return gram, moments


def principal_projection(gram: Tensor, new_size: int) -> Tensor:
    """[E D]: from a teacher's vector to its E − 1 principal components.

    They are coordinates in a basis of the student's vectors of mean zero: the student's norms
    subtract the mean, so its direction must stay unused.
    """
    _, components = torch.linalg.eigh(gram)  # smallest first
    main = components.flip(1)[:, : new_size - 1]  # [D E−1]
    centre = torch.eye(new_size, dtype=torch.float64) - 1 / new_size
    _, directions = torch.linalg.eigh(centre)  # the first is that of the mean
    return directions[:, 1:] @ main.T


@dataclass
class Pruner:
    """Copies what is kept of the teacher's layers into those of the student."""

    projection: Tensor  # [E D], from the teacher's vectors to the student's
    scale: float  # √(D / E): a norm scales vectors to the length √D, or √E in the student
    moments: dict[nn.Module, Moments]

    def project(self, vectors: Tensor) -> Tensor:
        """[… D] → [… E]."""
        return vectors.double() @ self.projection.T

    def copy_table(self, old: Any, new: Any) -> None:
        """The vectors [V D] of a vocabulary, times √(D / E).

        The model multiplies embeddings by √D, in the student by √E, and the output layer reads
        normalized vectors of the length √D, in the student √E.
        """
        new.weight.copy_(self.scale * self.project(old.weight))

    def fold_norm(self, weight: Tensor, bias: Tensor, norm: LayerNorm) -> tuple[Tensor, Tensor]:
        """weight [O D] and bias [O] of a layer that reads a norm → those of the student's layer."""
        weight = weight.double()
        new_bias = bias + weight @ norm.bias.double()
        return self.scale * self.project(weight * norm.weight), new_bias

    def copy_last(self, old: nn.Linear, new: nn.Linear, kept: Tensor) -> None:
        """The last layer of a sub-layer, of which these units [U] are kept."""
        gone = torch.ones(old.in_features, dtype=torch.bool)
        gone[kept] = False
        weight = old.weight.double()
        mean_output = weight[:, gone] @ self.moments[old].mean[gone]
        new.weight.copy_(self.project(weight[:, kept].T).T)
        new.bias.copy_(self.project(old.bias + mean_output))

    def importance(self, last: nn.Linear) -> Tensor:
        """[U]: the variance that each unit adds to the student's vectors."""
        squared_lengths = self.project(last.weight.T).square().sum(1)
        return self.moments[last].variance * squared_lengths

    def prune_feed_forward(self, old: Any, new: Any, norm: LayerNorm) -> None:
        first, _, last = old
        new_first, _, new_last = new
        kept = self.importance(last).topk(new_last.in_features).indices
        weight, bias = self.fold_norm(first.weight[kept], first.bias[kept], norm)
        new_first.weight.copy_(weight)
        new_first.bias.copy_(bias)
        self.copy_last(last, new_last, kept)

    def prune_attention(
        self,
        old: MultiHeadAttention,
        new: MultiHeadAttention,
        norm: LayerNorm,
        memory_norm: LayerNorm | None = None,
    ) -> None:
        """Queries read `norm`; keys and values read `memory_norm`, or the same."""
        units = torch.arange(old.size).view(old.heads, -1)  # [H K]
        head_importance = self.importance(old.output)[units].sum(1)  # [H]
        kept = units[head_importance.topk(new.heads).indices].flatten()

        key_norm = memory_norm or norm
        weights = []
        biases = []
        for part, read_norm in enumerate([norm, key_norm, key_norm]):  # queries, keys, values
            rows = part * old.size + kept
            weight, bias = self.fold_norm(old.weight[rows], old.bias[rows], read_norm)
            weights.append(weight)
            biases.append(bias)
        new.weight.copy_(torch.cat(weights))
        new.bias.copy_(torch.cat(biases))
        self.copy_last(old.output, new.output, kept)

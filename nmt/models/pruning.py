"""A smaller Transformer cut out of a trained one: the weights with which a student begins.

Width: the vectors of the residual connections are projected onto their principal components
(Ashkboos et al. 2024, SliceGPT, §3). A layer norm first subtracts the mean of a vector, which is a
projection too, and then divides by the vector's length, which no rotation changes. So everything
that is added to the vectors is projected, and everything that reads them projects them back. What
reads them also takes over the weights of the norm before it. Heads, and units of the feed-forward
layers: those stay whose outputs vary most. What the others add on average goes into the bias.
Depth: layers at equal distances, the first and the last among them (Shleifer & Rush 2020 §3).

Deviations from SliceGPT: all layers of both stacks share one projection, because both read the
same embeddings. The last norm keeps its weights, as one number for all dimensions: what reads it is
the table of embeddings, which cannot take them over.

What has no effect in the teacher, or the same one everywhere, is taken out without any loss.

D size of the teacher, E size of the student, K head size, U units that a linear layer reads.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
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

    It may differ from the teacher in dropout and in sizes, of which none is larger. The size of a
    head stays. Norms come before the sub-layers, and no positions are added to the embeddings.
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
    """Give a new student its weights.

    pairs: source [1 S] ending in </s> and target [1 T] beginning with <s>, of typical sentences.
    They decide what is kept.
    """
    cut = Cut(teacher, student, pairs)

    # Encoder
    for old, new in chosen_layers(teacher.encoder, student.encoder):
        cut.attention(old.attention, new.attention, old.attention_residual.norm)
        cut.feed_forward(old.feed_forward, new.feed_forward, old.feed_forward_residual.norm)

    # Decoder
    memory_norm: Any = teacher.encoder_norm
    for old, new in chosen_layers(teacher.decoder, student.decoder):
        cut.attention(old.self_attention, new.self_attention, old.self_residual.norm)
        query_norm = old.cross_residual.norm
        cut.attention(old.cross_attention, new.cross_attention, query_norm, memory_norm)
        cut.feed_forward(old.feed_forward, new.feed_forward, old.feed_forward_residual.norm)

    # Embeddings and output
    cut.table(teacher.source_embedding, student.source_embedding)
    cut.table(teacher.target_embedding, student.target_embedding)
    cut.table(teacher.output, student.output)
    if teacher.output.bias is not None:
        student.output.bias.copy_(teacher.output.bias)
    old_norm: Any = teacher.decoder_norm
    new_norm: Any = student.decoder_norm
    new_norm.weight.fill_(old_norm.weight.mean())
    new_norm.bias.copy_(cut.project(old_norm.bias) / cut.scale)


def chosen_layers(teacher: nn.ModuleList, student: nn.ModuleList) -> Iterator[tuple[Any, Any]]:
    """Each layer of the student, after the one of the teacher that it is cut out of."""
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


class Cut:
    """The projection from the teacher's vectors to the student's, and what is kept of its units.

    `scale`: a norm scales vectors to the length √D in the teacher and √E in the student.
    """

    def __init__(
        self, teacher: Transformer, student: Transformer, pairs: Iterable[tuple[Tensor, Tensor]]
    ) -> None:
        size = teacher.output.in_features
        new_size = student.output.in_features
        self.scale = math.sqrt(size / new_size)
        self.moments: dict[nn.Module, Moments] = {}  # of what the last layer of a sub-layer reads
        covariance = torch.zeros(size, size, dtype=torch.float64)  # of what the norms read

        def measure(module: nn.Module, inputs: tuple[Tensor]) -> None:
            if isinstance(module, LayerNorm):
                rows = functional.layer_norm(inputs[0], [size]).flatten(0, -2).double()
                covariance.add_(rows.T @ rows)
            else:
                self.moments[module].add(inputs[0])

        hooks = []
        for module in teacher.modules():
            if isinstance(module, LayerNorm):
                hooks.append(module.register_forward_pre_hook(measure))
            if isinstance(module, (MultiHeadAttention, FeedForward)):
                last: Any = list(module.children())[-1]
                self.moments[last] = Moments(last.in_features)
                hooks.append(last.register_forward_pre_hook(measure))
        for source, target in pairs:
            teacher(source, None, target)
        for hook in hooks:
            hook.remove()

        # The projection P [E D]: E − 1 components of the vectors, as vectors whose mean is zero
        _, components = torch.linalg.eigh(covariance)  # smallest first
        main = components.flip(1)[:, : new_size - 1]  # [D E−1]
        centre = torch.eye(new_size, dtype=torch.float64) - 1 / new_size
        _, directions = torch.linalg.eigh(centre)  # the first is that of the mean
        self.projection = directions[:, 1:] @ main.T  # [E D]

    def project(self, vectors: Tensor) -> Tensor:
        """[… D] → [… E]."""
        return vectors.double() @ self.projection.T

    def table(self, old: Any, new: Any) -> None:
        """The vectors [V D] of a vocabulary, which meet others of length √D, or √E."""
        new.weight.copy_(self.scale * self.project(old.weight))

    def read(self, weight: Tensor, bias: Tensor, norm: LayerNorm) -> tuple[Tensor, Tensor]:
        """weight [O D] and bias [O] of what reads a norm → those of what reads the student's."""
        weight = weight.double()
        new_bias = bias + weight @ norm.bias.double()
        return self.scale * self.project(weight * norm.weight), new_bias

    def write(self, old: nn.Linear, new: nn.Linear, kept: Tensor) -> None:
        """The linear layer whose outputs are added to the vectors; it keeps these units."""
        gone = torch.ones(old.in_features, dtype=torch.bool)
        gone[kept] = False
        weight = old.weight.double()
        on_average = weight[:, gone] @ self.moments[old].mean[gone]
        new.weight.copy_(self.project(weight[:, kept].T).T)
        new.bias.copy_(self.project(old.bias + on_average))

    def importance(self, last: nn.Linear) -> Tensor:
        """[U]: the variance that each unit adds to the student's vectors."""
        lengths = self.project(last.weight.T).square().sum(1)
        return self.moments[last].variance * lengths

    def feed_forward(self, old: FeedForward, new: FeedForward, norm: LayerNorm) -> None:
        first: Any = old[0]
        last: Any = old[2]
        new_first: Any = new[0]
        new_last: Any = new[2]
        kept = self.importance(last).topk(new_last.in_features).indices
        weight, bias = self.read(first.weight[kept], first.bias[kept], norm)
        new_first.weight.copy_(weight)
        new_first.bias.copy_(bias)
        self.write(last, new_last, kept)

    def attention(
        self,
        old: MultiHeadAttention,
        new: MultiHeadAttention,
        norm: LayerNorm,
        memory_norm: LayerNorm | None = None,
    ) -> None:
        """Queries read `norm`; keys and values read `memory_norm`, or the same."""
        of_units = torch.arange(old.size).view(old.heads, -1)  # [H K]
        of_heads = self.importance(old.output)[of_units].sum(1)  # [H]
        kept = of_units[of_heads.topk(new.heads).indices].flatten()

        key_norm = memory_norm or norm
        weights = []
        biases = []
        for part, read_norm in enumerate([norm, key_norm, key_norm]):  # queries, keys, values
            rows = part * old.size + kept
            weight, bias = self.read(old.weight[rows], old.bias[rows], read_norm)
            weights.append(weight)
            biases.append(bias)
        new.weight.copy_(torch.cat(weights))
        new.bias.copy_(torch.cat(biases))
        self.write(old.output, new.output, kept)

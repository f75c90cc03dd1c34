"""Options and weights of our Transformer from those of theirs, and their weights from ours."""

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from nmt.attention.positions import sinusoids
from nmt.convert.pretrained.family import Family
from nmt.convert.pretrained.vocabulary import MAX_SIZE
from nmt.convert.pretrained.weights import QUANTIZED, StoredWeights, Weights
from nmt.data.tokenizer import BOS, EOS, PAD
from nmt.errors import UserError
from nmt.training.checkpoint import TensorParts

SHARED = "model.shared.weight"
BIAS = "final_logits_bias"
TABLES = {
    SHARED,
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
    "lm_head.weight",
}
ACTIVATIONS = {"swish": "silu", "silu": "silu", "relu": "relu", "gelu": "gelu"}
# Our attention modules by stack: the name of theirs, and of our residual connection
ATTENTION = {
    "encoder": {"attention": ("self_attn", "attention_residual")},
    "decoder": {
        "self_attention": ("self_attn", "self_residual"),
        "cross_attention": ("encoder_attn", "cross_residual"),
    },
}
POSITIONS = {
    "source_positions.table": "model.encoder.embed_positions.weight",
    "target_positions.table": "model.decoder.embed_positions.weight",
}
OUR_TABLES = ("source_embedding.weight", "target_embedding.weight", "output.weight")
ROWS = 1024  # of a table that are in memory at a time


def integer(config: Mapping[str, Any], name: str, default: Any = None) -> int:
    """A number of config.json; raises UserError for what is none."""
    value = config.get(name, default)
    if not isinstance(value, int) or not 0 <= value < MAX_SIZE:
        raise UserError(f"its {name} is {str(value):.40}")
    return value


def probability(config: Mapping[str, Any], name: str, default: float) -> float:
    """A probability of config.json; raises UserError for what is none."""
    value = config.get(name, default)
    if type(value) not in (int, float) or not 0 <= value < 1:
        raise UserError(f"its {name} is {str(value):.40}")
    return float(value)


def model_options(
    config: Mapping[str, Any], family: Family, weights: StoredWeights, joint: bool
) -> dict[str, Any]:
    """The options of our Transformer; raises UserError for what it cannot represent."""
    same = {}
    for name in ("attention_heads", "ffn_dim"):
        values = {integer(config, f"{side}_{name}") for side in ("encoder", "decoder")}
        if len(values) > 1:
            raise UserError(f"encoder and decoder differ in {name}")
        same[name] = values.pop()
    size = integer(config, "d_model")
    activation = str(config.get("activation_function"))
    if activation not in ACTIVATIONS:
        raise UserError(
            f"its activation_function is {activation:.40}; possible are {', '.join(ACTIVATIONS)}"
        )
    if not config.get("scale_embedding"):
        raise UserError("its scale_embedding is false, while embeddings here are multiplied by √D")
    names = table_names(weights)
    for name in names:
        find_weight(weights, name)  # a quantized one may have no comparison
    ties = weights.are_equal(*names[1:]) and (not joint or weights.are_equal(*names[:2]))
    table = weights.get(POSITIONS["source_positions.table"])
    learned = family.has_learned_positions and not is_sinusoidal(table, size)
    return {
        "encoder_layers": integer(config, "encoder_layers"),
        "decoder_layers": integer(config, "decoder_layers"),
        "hidden_size": size,
        "num_heads": same["attention_heads"],
        "feed_forward_size": same["ffn_dim"],
        "norm": family.norm,
        "activation": ACTIVATIONS[activation],
        "dropout": probability(config, "dropout", 0.1),
        "attention_dropout": probability(config, "attention_dropout", 0.0),
        "tie_embeddings": ties,
        "output_bias": bool(weights.get(BIAS, torch.zeros(1)).any()),
        "positions": "learned" if learned else family.positions,
        "max_positions": len(table) if table is not None and learned else 1024,
    }


def search_options(generation: Mapping[str, Any]) -> dict[str, Any]:
    """The search of generation_config.json, or of config.json in old folders.

    Values that are not valid are left out.
    """
    beam = generation.get("num_beams")
    penalty = generation.get("length_penalty", 1.0)
    options: dict[str, Any] = {"early_stopping": generation.get("early_stopping") is True}
    if type(beam) is int and 0 < beam <= 1000:
        options["beam"] = beam
    if type(penalty) in (int, float) and abs(penalty) <= 10:
        options["length_penalty"] = float(penalty)
    return options


def table_names(weights: Container[str]) -> list[str]:
    """The names of source and target embedding and output layer; raises UserError.

    What is tied is stored once, under any of its names.
    """
    tables = []
    for possible in (
        ["model.encoder.embed_tokens.weight", SHARED],
        ["model.decoder.embed_tokens.weight", SHARED],
        ["lm_head.weight", "model.decoder.embed_tokens.weight", SHARED],
    ):
        stored = [name for name in possible if name in weights]
        if not stored:
            raise UserError(f"the weight {possible[0]} is missing")
        tables.append(stored[0])
    return tables


def is_sinusoidal(table: Tensor | None, size: int) -> bool:
    """Whether a table of positions [N D] is ours; one that is not stored is."""
    return table is None or torch.allclose(table, sinusoids(0, len(table), size, table), atol=1e-4)


def weight_names(options: Mapping[str, Any]) -> dict[str, list[str]]:
    """Our names of the weights of all layers, and theirs; of several ours is the concatenation."""
    names = {}
    for side, modules in ATTENTION.items():
        for kind in ("weight", "bias"):
            for number in range(options[f"{side}_layers"]):
                here = f"{side}.{number}."
                there = f"model.{side}.layers.{number}."
                for ours, (theirs, residual) in modules.items():
                    names[f"{here}{ours}.{kind}"] = [
                        f"{there}{theirs}.{part}_proj.{kind}" for part in "qkv"
                    ]
                    names[f"{here}{ours}.output.{kind}"] = [f"{there}{theirs}.out_proj.{kind}"]
                    names[f"{here}{residual}.norm.{kind}"] = [f"{there}{theirs}_layer_norm.{kind}"]
                names[f"{here}feed_forward.0.{kind}"] = [f"{there}fc1.{kind}"]
                names[f"{here}feed_forward.2.{kind}"] = [f"{there}fc2.{kind}"]
                names[f"{here}feed_forward_residual.norm.{kind}"] = [
                    f"{there}final_layer_norm.{kind}"
                ]
            if options["norm"] == "pre":
                names[f"{side}_norm.{kind}"] = [f"model.{side}.layer_norm.{kind}"]
    return names


def our_weights(
    weights: StoredWeights, options: Mapping[str, Any], orders: Sequence[Sequence[int]]
) -> dict[str, TensorParts]:
    """The state of our model in float32, each tensor of it made when it is written.

    Raises UserError where a weight is missing or quantized.
    """
    ours: dict[str, TensorParts] = {}
    for name, theirs in weight_names(options).items():
        ours[name] = concatenation(weights, theirs)
    source = torch.tensor(orders[0])
    target = torch.tensor(orders[1])
    tables = table_names(weights)
    for name, table, ids in zip(OUR_TABLES, tables, (source, target, target), strict=True):
        check_rows(table, find_weight(weights, table), ids.tolist())
        ours[name] = chosen_rows(weights, table, ids)
    if options["tie_embeddings"]:  # one tensor, which is stored once
        ours["output.weight"] = ours["target_embedding.weight"]
        if torch.equal(source, target) and weights.are_equal(*tables[:2]):
            ours["source_embedding.weight"] = ours["target_embedding.weight"]
    if options["output_bias"]:
        ours["output.bias"] = chosen_rows(weights, BIAS, target)
    if options["positions"] == "learned":
        for name, table in POSITIONS.items():
            ours[name] = concatenation(weights, [table], math.sqrt(options["hidden_size"]))
    return ours


def find_weight(weights: Mapping[str, Tensor], name: str) -> Tensor:
    """A weight by its name; raises UserError where it is missing or quantized."""
    if name not in weights:
        raise UserError(f"the weight {name} is missing")
    tensor = weights[name]
    if not tensor.is_floating_point() or tensor.element_size() < 2:
        raise UserError(f"{QUANTIZED}; {name} is {str(tensor.dtype).removeprefix('torch.')}")
    return tensor


def check_rows(name: str, table: Tensor, ids: Sequence[int]) -> None:
    """Raise UserError unless a table, or the bias [1 V], has a row for each id of a vocabulary."""
    if table.dim() != 2 or table.size(1 if name == BIAS else 0) <= max(ids):
        raise UserError(
            f"its vocabulary has {max(ids) + 1} pieces and {name} is {list(table.shape)}"
        )


def concatenation(
    weights: StoredWeights, names: Sequence[str], divisor: float = 1.0
) -> TensorParts:
    """Tensors one behind the other, divided by a number, in float32.

    Raises UserError where they do not fit.
    """
    shapes = [find_weight(weights, name).shape for name in names]
    rows = {shape[1:] for shape in shapes}
    if len(rows) > 1 or not all(shapes):
        raise UserError(f"the weights {', '.join(names)} do not fit together")

    def parts() -> Iterator[Tensor]:
        for name in names:
            yield finite(name, weights[name].float() / divisor)

    length = sum(shape[0] for shape in shapes)
    return TensorParts(torch.Size((length, *shapes[0][1:])), torch.float32, parts)


def chosen_rows(weights: StoredWeights, name: str, ids: Tensor) -> TensorParts:
    """The rows of a table [V D], or the numbers of the bias [1 V], in the order of `ids`.

    They are in float32.
    """
    is_bias = name == BIAS
    shape = find_weight(weights, name).shape
    row = () if is_bias else shape[1:]

    def parts() -> Iterator[Tensor]:
        table = weights[name].flatten() if is_bias else weights[name]
        for part in ids.split(ROWS):
            yield finite(name, table[part].float())

    return TensorParts(torch.Size((len(ids), *row)), torch.float32, parts)


def finite(name: str, part: Tensor) -> Tensor:
    """The same numbers; raises UserError unless all are finite."""
    if not part.isfinite().all():
        raise UserError(
            f"The model cannot be imported: its weight '{name}' has numbers that are not finite."
        )
    return part


def trained_names(options: Mapping[str, Any], names: Container[str]) -> set[str]:
    """The names of their tensors that `their_weights` gives."""
    trained = {SHARED, *table_names(names)}
    for parts in weight_names(options).values():
        trained.update(parts)
    if options["output_bias"]:
        trained.add(BIAS)
    if options["positions"] == "learned":
        trained.update(POSITIONS.values())
    return trained


def their_weights(
    ours: Weights,
    options: Mapping[str, Any],
    orders: Sequence[Sequence[int]],
    names: Container[str],
    starts: Sequence[int],
) -> Weights:
    """Their trained tensors, the inverse of `our_weights`.

    `names`, which they have, say what is tied; `starts` is their id of our <s> on each side. Raises
    UserError where tied tensors differ.
    """

    def rows(name: str, side: int) -> Tensor:
        table = ours[name]
        ids = orders[side]
        permuted = table.new_zeros(max(ids) + 1, *table.shape[1:])
        permuted[ids] = table
        # one of theirs may be two of ours: of these the last one counts
        for place, number in ((PAD, ids[PAD]), (EOS, ids[EOS]), (BOS, starts[side])):
            permuted[number] = table[place]
        return permuted

    theirs: Weights = {}
    for name, parts in weight_names(options).items():
        theirs |= dict(zip(parts, ours[name].chunk(len(parts)), strict=True))
    for name, table, side in zip(OUR_TABLES, table_names(names), (0, 1, 1), strict=True):
        trained = rows(name, side)
        if not torch.equal(theirs.setdefault(table, trained), trained):
            raise UserError(f"{table} is used twice there, and these uses have been trained apart")
    theirs.setdefault(SHARED, theirs[table_names(names)[0]])
    if options["output_bias"]:
        theirs[BIAS] = rows("output.bias", 1)[None]
    if options["positions"] == "learned":
        for name, table in POSITIONS.items():
            theirs[table] = ours[name] * math.sqrt(options["hidden_size"])
    return theirs

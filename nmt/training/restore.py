"""What is in a checkpoint as objects: configuration, tokenizers, model and optimizer.

A checkpoint may come from a stranger. So a model is first made without memory, to compare names,
shapes and number formats with it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nmt.config.schema import Config
from nmt.config.validation import validate
from nmt.data.tokenizer import BOS, EOS, PAD, UNK, Tokenizer, Tokenizers
from nmt.errors import UserError
from nmt.models.base import EncoderDecoder
from nmt.models.build import build
from nmt.models.lora import LoRALinear, LoRAMultiHeadAttention, LowRank
from nmt.training.checkpoint import Payload, TensorParts, digest, load, shared_names

CHECKED_NUMBERS = 1 << 22  # at a time


def restore(path: Path, payload: Payload) -> tuple[Config, Tokenizers, EncoderDecoder]:
    """The configuration, tokenizers and model of a checkpoint; the model is in evaluation mode.

    Raises UserError, with the checkpoint's `path`, for what cannot be used.
    """
    config, tokenizers = check_model(path, payload)
    return config, tokenizers, model_of_weights(config, tokenizers, payload["model"]).eval()


def check_model(path: Path, payload: Payload) -> tuple[Config, Tokenizers]:
    """Check that a checkpoint's weights fit its model; returns its configuration and tokenizers.

    Raises UserError, with `path`, for what cannot be used.
    """
    with path_in_errors(path):
        config = validate(payload["config"])
        stored = payload["tokenizers"]
        tokenizers = Tokenizers(read_tokenizer(stored, "source"), read_tokenizer(stored, "target"))
        with torch.device("meta"):  # a model that is far too large costs no memory here
            expected = new_model(config, tokenizers).state_dict()
        if "train_state" in payload and payload["model"].keys() != expected.keys():
            raise UserError(
                "it has only the weights that its training changes; best.safetensors has all"
            )
        check_tensors(payload["model"], expected, "the model of its configuration")
    return config, tokenizers


def load_config(path: Path) -> Config:
    """The configuration that a checkpoint was trained with; raises UserError."""
    with path_in_errors(path):
        return validate(load(path, with_tensors=False)["config"])


@dataclass(frozen=True)
class Parent:
    """The trained run that a training starts from (from=RUN), and whose tokenizers it keeps."""

    path: Path
    config: Config
    tokenizers: Tokenizers
    weights: dict[str, Tensor]  # not copied: the training changes them
    corpus_hash: str  # of the text that it was trained on
    provenance: dict[str, str]  # stored in the checkpoints of the new run


def load_parent(path: Path) -> Parent:
    """Read a checkpoint to start from; raises UserError for what cannot be used."""
    payload = load(path)
    config, tokenizers = check_model(path, payload)
    provenance = {"checkpoint": f"{path.parent.name}/{path.name}", "weights": digest(payload)}
    return Parent(path, config, tokenizers, payload["model"], payload["corpus_hash"], provenance)


@contextmanager
def path_in_errors(path: Path) -> Iterator[None]:
    """A UserError in the block gets the checkpoint's path in front."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{path} cannot be used: {str(error).rstrip('.')}.") from None


def new_model(config: Config, tokenizers: Tokenizers) -> EncoderDecoder:
    """The model of a configuration, with random weights for these vocabularies."""
    return build(config.model, tokenizers.source.size, tokenizers.target.size, tokenizers.joint)


def model_of_weights(
    config: Config, tokenizers: Tokenizers, weights: Mapping[str, Tensor]
) -> EncoderDecoder:
    """The model of a configuration, whose weights are these tensors themselves, not copies.

    They must fit the model, as those that `check_model` has accepted do.
    """
    with torch.device("meta"):
        model = new_model(config, tokenizers)
    names: dict[int, list[str]] = {}  # of each parameter; a tied one has several
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    model.load_state_dict(weights, assign=True)
    # That has made a parameter of its own for each name: tie them again
    for first, *others in names.values():
        for name in others:
            owner, _, last = name.rpartition(".")
            setattr(model.get_submodule(owner), last, model.get_parameter(first))
    return model


def read_tokenizer(stored: Mapping[str, Any], side: str) -> Tokenizer:
    """The tokenizer of a side from the entry `tokenizers` of a checkpoint; raises UserError."""
    try:
        return make_tokenizer(stored, side)
    except (RuntimeError, ValueError, TypeError, AttributeError, LookupError):
        raise UserError(f"its {side} tokenizer is not one of this program") from None


def make_tokenizer(stored: Mapping[str, Any], side: str) -> Tokenizer:
    """The tokenizer of a side.

    Bad entries raise errors of many kinds, which `read_tokenizer` turns into one.
    """
    number = ("source", "target").index(side)
    model = stored.get(side, stored.get("source"))  # a joint one is stored as the source's
    lowercase = stored.get("lowercase")
    if not isinstance(model, Tensor) or model.dtype != torch.uint8:
        raise ValueError("no model of SentencePiece")
    if not isinstance(lowercase, bool):
        raise ValueError("lowercase")
    prefixes = {}
    for tag, ids in stored.get("prefixes", [{}, {}])[number].items():
        prefixes[str(tag)] = [int(piece) for piece in ids]
    added = stored.get("added", [[], []])[number]
    for word in added:
        if not isinstance(word, str) or not word.strip():
            raise ValueError("added words")
    tokenizer = Tokenizer(bytes(model.flatten().numpy()), lowercase, prefixes, added)
    processor = tokenizer.processor
    special = (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id())
    if special != (PAD, UNK, BOS, EOS):
        raise ValueError("special pieces")
    for ids in prefixes.values():
        if not all(0 <= piece < tokenizer.size for piece in ids):
            raise ValueError("prefixes")
    return tokenizer


def check_tensors(given: Mapping[str, Any], expected: Mapping[str, Tensor], owner: str) -> None:
    """Raise UserError unless names, shapes and number formats are as expected, and numbers finite.

    The numbers of TensorParts are not checked. `owner` says in the message whose tensors `expected`
    are.
    """
    if given.keys() != expected.keys():
        name = sorted(given.keys() ^ expected.keys())[0]
        fault = "missing in it" if name in expected else f"not of {owner}"
        raise UserError(f"the weight {name!r:.100} is {fault}")
    for name, right in expected.items():
        tensor = given[name]
        if not isinstance(tensor, (Tensor, TensorParts)):
            raise UserError(f"the weight '{name}' is not a tensor")
        if (tensor.shape, tensor.dtype) != (right.shape, right.dtype):
            raise UserError(
                f"the weight '{name}' is {list(tensor.shape)} in {tensor.dtype}, but that of "
                f"{owner} is {list(right.shape)} in {right.dtype}"
            )
        if isinstance(tensor, Tensor) and not is_finite(tensor):
            raise UserError(f"the weight '{name}' has numbers that are not finite")


def is_finite(tensor: Tensor) -> bool:
    """Whether all numbers are finite; in parts, since `isfinite` of all at once takes memory."""
    return all(bool(part.isfinite().all()) for part in tensor.flatten().split(CHECKED_NUMBERS))


def trained_weights(model: nn.Module) -> dict[str, Tensor]:
    """The weights and buffers of a model without those that are frozen."""
    parameters = model.named_parameters(remove_duplicate=False)
    frozen = {name for name, parameter in parameters if not parameter.requires_grad}
    weights = model.state_dict()
    return {name: weights[name] for name in weights if name not in frozen}


def load_weights(model: nn.Module, weights: Mapping[str, Any]) -> None:
    """Set those weights of a model that are trained; raises UserError for another model's."""
    check_tensors(weights, trained_weights(model), "this model")
    model.load_state_dict(weights, strict=False)


def load_optimizer(optimizer: torch.optim.Optimizer, stored: Mapping[str, Any]) -> None:
    """Set the moments of an optimizer; its options stay those of the configuration.

    Raises UserError for the moments of another model.
    """
    parameters: list[torch.Tensor] = []
    for group in optimizer.param_groups:
        parameters += group["params"]
    state = stored.get("state")
    if not isinstance(state, dict) or not state.keys() <= set(range(len(parameters))):
        raise UserError("its optimizer is that of another model")
    for number, given in state.items():
        moments = given if isinstance(given, dict) else {}  # {} is refused below
        names = ["exp_avg", "exp_avg_sq"]  # of AdamW
        if "momentum" in moments:
            names = ["momentum"]  # of Muon
        expected = {"step": torch.tensor(0.0)} | dict.fromkeys(names, parameters[number])
        check_tensors(moments, expected, "the optimizer")
    optimizer.load_state_dict(
        {"state": state, "param_groups": optimizer.state_dict()["param_groups"]}
    )


def average(paths: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of the weights in these checkpoints, summed in float64.

    `paths` begin with the oldest. Integers are those of the newest one. Tensors with several names
    stay shared.
    """
    sums: dict[str, Tensor] = {}
    for path in paths:  # after the loop, `weights` and `shared` are those of the newest
        weights = load(path)["model"]
        shared = shared_names(weights)
        for name in weights.keys() - shared.keys():
            sums[name] = sums.get(name, 0.0) + weights[name].double()
    means = {}
    for name, total in sums.items():
        means[name] = weights[name]
        if weights[name].is_floating_point():
            means[name] = (total / len(paths)).to(weights[name].dtype)
    return {name: means[shared.get(name, name)] for name in weights}


def merged_weights(model: EncoderDecoder) -> dict[str, Tensor | TensorParts]:
    """The weights with which the same model without LoRA computes the same.

    Those that LoRA changes are made while they are written.
    """
    weights: dict[str, Tensor | TensorParts] = {}
    for name, tensor in model.state_dict().items():
        owner, _, last = name.rpartition(".")
        module = model.get_submodule(owner)
        if isinstance(module, LowRank):
            continue
        weights[name] = tensor
        if isinstance(module, (LoRALinear, LoRAMultiHeadAttention)) and last == "weight":
            parts = partial(map, module.lora.merged, [tensor])  # a single part
            weights[name] = TensorParts(tensor.shape, tensor.dtype, parts)
    return weights


def load_merged(model: EncoderDecoder, weights: Mapping[str, Tensor]) -> None:
    """Set the weights of a model with or without LoRA to what `merged_weights` has returned."""
    for module in model.modules():
        if isinstance(module, LowRank):
            nn.init.zeros_(module.up)  # so that it adds nothing to the merged weights
    model.load_state_dict(model.state_dict() | dict(weights))

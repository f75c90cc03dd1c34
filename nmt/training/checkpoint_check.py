"""What a checkpoint must contain; it may be a stranger's, so nothing in it is believed before it is checked.

The right checksum only says that a file is as it was written, not who wrote it.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from nmt.data.tokenizer import BOS, EOS, PAD, UNK, Tokenizer
from nmt.errors import UserError, is_printable
from nmt.models.base import EncoderDecoder
from nmt.models.build import build
from nmt.training.optimizers import Muon

LONGEST_TEXT = 10_000  # characters; the origin of an average names all its updates
REQUIRED = {"config": dict, "tokenizers": dict, "model": dict, "corpus_hash": str, "versions": dict}
OPTIONAL = {
    "step": int, "valid": dict, "origin": str, "optimizer": dict, "train_state": dict, "parent": dict,
}  # fmt: skip


def check_entries(payload: Mapping[str, Any]) -> None:
    """Raise UserError unless the entries of a checkpoint are there and of their types."""
    if missing := REQUIRED.keys() - payload.keys():
        raise UserError(f"it has no {', '.join(sorted(missing))}")
    for name, kind in (REQUIRED | OPTIONAL).items():
        if name in payload and (not isinstance(payload[name], kind) or isinstance(payload[name], bool)):
            raise UserError(f"its {name} is not what a checkpoint has there")
    if not ("origin" in payload or "step" in payload.get("train_state", ())):
        raise UserError("it does not say which updates it comes from")
    texts = [payload["corpus_hash"], payload.get("origin", ""), *payload["versions"], *payload["versions"].values()]
    parent = payload.get("parent", {})
    texts += [*parent, *parent.values()]
    if not all(isinstance(text, str) and is_printable(text) and len(text) <= LONGEST_TEXT for text in texts):
        raise UserError("its corpus_hash, origin, versions or parent are no plain text")
    if not all(is_number(score) for score in payload.get("valid", {}).values()):
        raise UserError("its validation scores are no numbers")


def is_number(value: object) -> bool:
    """Whether this is a number of Python; a truth value is none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def read_tokenizer(stored: Mapping[str, Any], side: str) -> Tokenizer:
    """The tokenizer of one side; raises UserError for bytes that are none, or none of this program."""
    model, lowercase = stored.get(side), stored.get("lowercase")
    if not isinstance(model, Tensor) or model.dtype != torch.uint8 or model.dim() != 1 or not model.numel():
        raise UserError(f"its {side} tokenizer is missing")
    if not isinstance(lowercase, bool):
        raise UserError("its tokenizers do not say whether text is lower-cased")
    try:
        tokenizer = Tokenizer(bytes(model.numpy()), lowercase)
    except (RuntimeError, ValueError):
        raise UserError(f"its {side} tokenizer is no model of SentencePiece") from None
    processor = tokenizer.processor
    ids = (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id())
    if ids != (PAD, UNK, BOS, EOS):
        raise UserError(f"its {side} tokenizer has other special pieces than those of this program")
    return tokenizer


def check_weights(weights: Mapping[str, Any], config: Any, sizes: tuple[int, int], joint: bool) -> None:
    """Raise UserError unless these are the finite weights of this model over vocabularies of these sizes.

    The model is first made without memory (device meta), so that what the configuration asks for costs nothing.
    """
    with torch.device("meta"):
        expected = build(config, *sizes, joint).state_dict()
    check_tensors(weights, expected, "the model of its configuration")


def check_tensors(given: Mapping[str, Any], expected: Mapping[str, Tensor], owner: str) -> None:
    """Raise UserError unless names, shapes and number formats are those expected, and all numbers finite."""
    if given.keys() != expected.keys():
        name = sorted(given.keys() ^ expected.keys())[0]
        raise UserError(f"the weight {name!r:.100} is {'missing in it' if name in expected else f'not of {owner}'}")
    for name, tensor in given.items():
        right = expected[name]
        if not isinstance(tensor, Tensor) or tensor.shape != right.shape or tensor.dtype != right.dtype:
            described = f"{list(tensor.shape)} in {tensor.dtype}" if isinstance(tensor, Tensor) else "no tensor"
            wanted = f"{list(right.shape)} in {right.dtype}"
            raise UserError(f"the weight '{name}' is {described}, but that of {owner} is {wanted}")
        if not tensor.isfinite().all():
            raise UserError(f"the weight '{name}' has numbers that are not finite")


def load_weights(model: EncoderDecoder | nn.Module, weights: Mapping[str, Any]) -> None:
    """Set the weights of a model; raises UserError for those of another model."""
    check_tensors(weights, model.state_dict(), "this model")
    model.load_state_dict(weights)


def optimizer_state(optimizer: torch.optim.Optimizer, parameter: torch.Tensor) -> dict[str, torch.Tensor]:
    """What an optimizer gathers for a parameter, with tensors of the right shapes and types."""
    if isinstance(optimizer, Muon) and any(parameter is each for each in optimizer.matrices["params"]):
        return {"step": torch.tensor(0.0), "momentum": parameter}
    return {"step": torch.tensor(0.0), "exp_avg": parameter, "exp_avg_sq": parameter}


def load_optimizer(optimizer: torch.optim.Optimizer, stored: Mapping[str, Any]) -> None:
    """Set what an optimizer has gathered; its options stay those of the configuration. Raises UserError."""
    current = optimizer.state_dict()
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    state = stored.get("state")
    if not isinstance(state, dict) or not state.keys() <= set(range(len(parameters))):
        raise UserError("its optimizer is that of another model")
    for number, moments in state.items():
        expected = optimizer_state(optimizer, parameters[number])
        check_tensors(moments if isinstance(moments, dict) else {}, expected, "the optimizer")
    optimizer.load_state_dict({"state": state, "param_groups": current["param_groups"]})

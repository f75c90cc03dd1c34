"""Parts of a model that a training leaves as they are (train.freeze)."""

import copy
from collections.abc import Collection

from nmt.errors import UserError
from nmt.models.base import EncoderDecoder


def freeze(model: EncoderDecoder, parts: Collection[str]) -> None:
    """Freeze the parameters of these parts; raises UserError if none is left to train.

    A parameter of two parts, such as an embedding that is tied to the output, is frozen with either
    of them.
    """
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if part_of(name) in parts:
            parameter.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise UserError(f"train.freeze=[{','.join(parts)}] leaves nothing to train.")


def part_of(name: str) -> str:
    """The part that a parameter belongs to by its name: one of FREEZABLE in the schema."""
    if name.startswith(("source_", "target_", "encoder.embedding.")):
        return "embeddings"  # of pieces and positions
    if name.startswith(("encoder.", "encoder_norm.")):
        return "encoder"
    if name.startswith("output."):
        return "output"
    return "decoder"


def copy_sharing_frozen(model: EncoderDecoder) -> EncoderDecoder:
    """A copy of a model that shares its frozen parameters."""
    frozen = {id(each): each for each in model.parameters() if not each.requires_grad}
    return copy.deepcopy(model, frozen)  # `frozen` is its memo: it does not copy what is there

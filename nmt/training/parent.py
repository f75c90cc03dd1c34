"""The trained run that a training starts from (from=RUN): its weights, its tokenizers, and what they are known by."""

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from nmt.config.schema import Config
from nmt.config.validation import validate
from nmt.data.tokenizer import Tokenizers
from nmt.errors import UserError
from nmt.training import checkpoint
from nmt.training.checkpoint_check import check_weights


@dataclass(frozen=True)
class Parent:
    """A checkpoint whose model is trained further, with the same pieces."""

    path: Path
    config: Config
    tokenizers: Tokenizers
    weights: dict[str, Tensor]
    corpus_hash: str  # of the text that it was trained on
    provenance: dict[str, str]  # stored in the checkpoints of the new run


def load_parent(path: Path) -> Parent:
    """Read a checkpoint to start from; raises UserError for what cannot be used."""
    payload = checkpoint.load(path)
    config = parent_config(path, payload)
    try:
        tokenizers = checkpoint.unpack_tokenizers(payload["tokenizers"])
        sizes = tokenizers.source.size, tokenizers.target.size
        check_weights(payload["model"], config.model, sizes, tokenizers.joint)
    except UserError as error:
        raise UserError(f"{path} cannot be used: {str(error).rstrip('.')}.") from None
    provenance = {"checkpoint": f"{path.parent.name}/{path.name}", "weights": checkpoint.digest(payload)}
    return Parent(path, config, tokenizers, payload["model"], payload["corpus_hash"], provenance)


def parent_config(path: Path, payload: checkpoint.Payload | None = None) -> Config:
    """The configuration that a checkpoint was trained with; raises UserError."""
    payload = checkpoint.load(path, with_tensors=False) if payload is None else payload
    try:
        return validate(payload["config"])
    except UserError as error:
        raise UserError(f"{path} cannot be used: {str(error).rstrip('.')}.") from None

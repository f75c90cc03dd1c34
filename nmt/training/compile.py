"""A training's forward pass through torch.compile."""

from collections.abc import Callable

import torch
from torch import Tensor

from nmt.errors import UserError
from nmt.models.base import DecoderOutput, EncoderDecoder


def compile_forward(model: EncoderDecoder) -> Callable[..., DecoderOutput]:
    """The model's forward pass, compiled for batches of any size; it uses and trains the model's own weights.

    What torch.compile has stored before is dropped first, since it limits how often one function is compiled again.
    Raises UserError at the first call where the forward pass cannot be compiled.
    """
    torch.compiler.reset()
    forward = torch.compile(model, dynamic=True)

    def run(source: Tensor, mask: Tensor | None, target: Tensor) -> DecoderOutput:
        try:
            return forward(source, mask, target)
        except torch._dynamo.exc.TorchDynamoException as error:
            lines = [line for line in str(error).split("\n") if line.strip()]
            reason = " ".join(lines[:2] if lines[0].endswith("raised:") else lines[:1])
            raise UserError(f"train.compile=true does not work here: {reason}; choose train.compile=false.") from None

    return run

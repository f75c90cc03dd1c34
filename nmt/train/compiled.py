"""A training's forward pass through torch.compile."""

from collections.abc import Callable

import torch
from torch import Tensor

from nmt.errors import UserError
from nmt.models.base import DecoderOutput, EncoderDecoder


def compiled(model: EncoderDecoder) -> Callable[..., DecoderOutput]:
    """The model's forward, compiled for batches of any size, with the model's own weights.

    What an earlier training has compiled is forgotten: there is a limit on how often one function is compiled anew.
    Raises UserError where the forward pass cannot be compiled, at the first call.
    """
    torch.compiler.reset()
    forward = torch.compile(model, dynamic=True)

    def run(source: Tensor, mask: Tensor | None, target: Tensor) -> DecoderOutput:
        try:
            return forward(source, mask, target)
        except torch._dynamo.exc.TorchDynamoException as error:
            lines = [line for line in str(error).split("\n") if line.strip()]
            said = " ".join(lines[:2] if lines[0].endswith("raised:") else lines[:1])
            raise UserError(f"train.compile=true does not work here: {said}; choose train.compile=false.") from None

    return run

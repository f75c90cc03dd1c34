"""A training's forward and backward pass through torch.compile."""

from collections.abc import Callable

import torch
from torch import Tensor

from nmt.errors import UserError
from nmt.models.base import DecoderOutput, EncoderDecoder


def compile_forward(model: EncoderDecoder) -> Callable[..., DecoderOutput]:
    """The model's forward pass, compiled for batches of any size; it uses and trains the model's own weights.

    It returns hidden states, and the weights of guided attention, alone: keys and values of all columns, which search
    needs, would be kept for nothing. What torch.compile has stored before is dropped first, since it limits how often
    one function is compiled again. Raises UserError at the first call where the forward pass cannot be compiled; the
    backward pass is compiled later (`failed_to_compile`).
    """
    torch.compiler.reset()

    def outputs(source: Tensor, mask: Tensor | None, target: Tensor) -> tuple[Tensor, Tensor | None]:
        decoded = model(source, mask, target)
        return decoded.hidden, decoded.weights

    forward = torch.compile(outputs, dynamic=True)

    def run(source: Tensor, mask: Tensor | None, target: Tensor) -> DecoderOutput:
        try:
            hidden, weights = forward(source, mask, target)
        except RuntimeError as error:
            if not failed_to_compile(error):
                raise
            raise UserError(
                f"train.compile=true does not work here: {reason(error)}; choose train.compile=false."
            ) from None
        return DecoderOutput(hidden, weights, {})

    return run


def failed_to_compile(error: RuntimeError) -> bool:
    """Whether this is an error of PyTorch's compilers, which are imported here: that takes a second."""
    return isinstance(error, torch._dynamo.exc.TorchDynamoException)


def reason(error: Exception) -> str:
    """The line of a compiler's error that says what is wrong."""
    lines = [line for line in str(error).split("\n") if line.strip()]
    return " ".join(lines[:2] if lines[0].endswith("raised:") else lines[:1])

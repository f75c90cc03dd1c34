"""PyTorch's LSTM and GRU layers as the operators of ONNX, for sentences of any length.

B batch, S length, E input size, D state size. PyTorch's own export of these layers fixes S to that of the example.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

ONNX_GATES = {nn.LSTM: (0, 3, 1, 2), nn.GRU: (1, 0, 2)}  # input, output, forget, cell; update, reset, hidden


@torch.library.custom_op("nmt::lstm", mutates_args=())
def lstm(
    inputs: Tensor, hidden: Tensor, cell: Tensor, weight_ih: Tensor, weight_hh: Tensor, bias: Tensor, backward: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """inputs [S B E], hidden and cell [1 B D], weights in ONNX's order → outputs [S B D], last hidden, last cell."""
    raise NotImplementedError("it is exported, never run")


@lstm.register_fake
def fake_lstm(
    inputs: Tensor, hidden: Tensor, cell: Tensor, weight_ih: Tensor, weight_hh: Tensor, bias: Tensor, backward: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The shapes."""
    outputs = inputs.new_empty(inputs.size(0), inputs.size(1), hidden.size(2))
    return outputs, torch.empty_like(hidden), torch.empty_like(cell)


@torch.library.custom_op("nmt::gru", mutates_args=())
def gru(
    inputs: Tensor, hidden: Tensor, weight_ih: Tensor, weight_hh: Tensor, bias: Tensor, backward: bool
) -> tuple[Tensor, Tensor]:
    """inputs [S B E], hidden [1 B D], weights in ONNX's order → outputs [S B D], last hidden."""
    raise NotImplementedError("it is exported, never run")


@gru.register_fake
def fake_gru(
    inputs: Tensor, hidden: Tensor, weight_ih: Tensor, weight_hh: Tensor, bias: Tensor, backward: bool
) -> tuple[Tensor, Tensor]:
    """The shapes."""
    return inputs.new_empty(inputs.size(0), inputs.size(1), hidden.size(2)), torch.empty_like(hidden)


class ExportedRNN(nn.Module):
    """One layer, in one direction or both, called as PyTorch's layers are; batch first."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.size, self.has_cell, self.count = layer.hidden_size, isinstance(layer, nn.LSTM), len(layer.all_weights)
        order = ONNX_GATES[type(layer)]
        for number, (weight_ih, weight_hh, bias_ih, bias_hh) in enumerate(layer.all_weights):
            parts = [reorder_gates(part.detach(), order) for part in (weight_ih, weight_hh, bias_ih, bias_hh)]
            self.register_parameter(f"ih_{number}", nn.Parameter(parts[0][None], requires_grad=False))
            self.register_parameter(f"hh_{number}", nn.Parameter(parts[1][None], requires_grad=False))
            self.register_parameter(f"bias_{number}", nn.Parameter(torch.cat(parts[2:])[None], requires_grad=False))

    def forward(self, inputs: Tensor, state: Tensor | tuple[Tensor, ...] | None = None) -> tuple[Tensor, Any]:
        """inputs [B S E], state [directions B D] or zeros → outputs [B S D·directions], the last state."""
        columns = inputs.transpose(0, 1)
        if state is None:
            zeros = inputs.new_zeros(self.count, inputs.size(0), self.size)
            parts: Sequence[Tensor] = (zeros, zeros)[: 1 + self.has_cell]
        else:
            parts = state if isinstance(state, tuple) else (state,)
        operator = lstm if self.has_cell else gru
        directions = []
        for number in range(self.count):
            weights = [getattr(self, f"{name}_{number}") for name in ("ih", "hh", "bias")]
            directions.append(operator(columns, *(part[number : number + 1] for part in parts), *weights, number > 0))
        outputs, *last = zip(*directions, strict=True)
        final = tuple(torch.cat(part) for part in last)
        return torch.cat(outputs, -1).transpose(0, 1), final if self.has_cell else final[0]


def reorder_gates(weight: Tensor, order: Sequence[int]) -> Tensor:
    """The gates of [gates·D …] in another order."""
    gates = weight.chunk(len(order))
    return torch.cat([gates[number] for number in order])


def translations() -> dict[Callable[..., Any], Callable[..., Any]]:
    """How torch.onnx writes the two operators."""
    from onnxscript import opset18

    op: Any = opset18

    def onnx_lstm(
        inputs: Any, hidden: Any, cell: Any, weight_ih: Any, weight_hh: Any, bias: Any, backward: bool
    ) -> Any:
        outputs, last, last_cell = op.LSTM(
            inputs,
            weight_ih,
            weight_hh,
            bias,
            None,
            hidden,
            cell,
            direction="reverse" if backward else "forward",
            hidden_size=hidden.shape[2],
        )
        return op.Squeeze(outputs, [1]), last, last_cell

    def onnx_gru(inputs: Any, hidden: Any, weight_ih: Any, weight_hh: Any, bias: Any, backward: bool) -> Any:
        outputs, last = op.GRU(
            inputs,
            weight_ih,
            weight_hh,
            bias,
            None,
            hidden,
            direction="reverse" if backward else "forward",
            hidden_size=hidden.shape[2],
            linear_before_reset=1,
        )
        return op.Squeeze(outputs, [1]), last

    return {torch.ops.nmt.lstm.default: onnx_lstm, torch.ops.nmt.gru.default: onnx_gru}

"""PyTorch's LSTM and GRU layers over whole sequences, in the number format that the machine can run them in.

B batch, S length, E input size, D state size.
"""

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from nmt.attention.cpu import autocasts_rnn, runs_rnn_in_bf16

RNNState = tuple[Tensor, ...]  # hidden, and an LSTM's cell [directions B D]


def run_rnn(
    layer: nn.Module, inputs: Tensor, state: RNNState | None = None, lengths: Tensor | None = None
) -> tuple[Tensor, RNNState]:
    """inputs [B S E], state [directions B D] or zeros, lengths [B] | None → outputs [B S D·directions], the last state.

    Each sentence has its own length; None: all are equally long. Under autocast layers without padding may run in bf16
    on a CPU (nmt/attention/cpu.py), where an LSTM's outputs are bf16 in any case. All else is float32: other CPUs
    cannot run these layers in bf16, and CUDA would take float16, whose range gradients can leave. The state is always
    in the dtype of the weights.
    """
    full = next(layer.parameters()).dtype
    in_bf16 = lengths is None and runs_rnn_in_bf16(layer, inputs)
    if state is not None:
        state = tuple(part.to(torch.bfloat16 if in_bf16 else full).contiguous() for part in state)
    initial = state if state is None or len(state) > 1 else state[0]  # a GRU takes one tensor
    with torch.autocast(inputs.device.type, dtype=torch.bfloat16, enabled=in_bf16):
        inputs = inputs if in_bf16 else inputs.to(full)
        if lengths is None:
            outputs, last = layer(inputs, initial)
        else:
            packed = pack_padded_sequence(inputs, lengths.cpu(), batch_first=True, enforce_sorted=False)
            outputs, last = layer(packed, initial)
            outputs, _ = pad_packed_sequence(outputs, batch_first=True, total_length=inputs.size(1))
    if lengths is None and isinstance(layer, nn.LSTM) and autocasts_rnn(inputs):
        outputs = outputs.to(torch.bfloat16)  # once, not at every column that attends to them
    last = last if isinstance(last, tuple) else (last,)
    return outputs, tuple(part.to(full) for part in last)

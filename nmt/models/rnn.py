"""PyTorch's whole-sequence LSTM and GRU, in the number format that the machine can run them in.

B batch, S length, E input size, D state size.
"""

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

MANY = 32  # sentences from which an LSTM trains faster in bf16
RNNState = tuple[Tensor, ...]  # hidden, and an LSTM's cell [directions B D]


def run_rnn(layer: nn.Module, inputs: Tensor, past: RNNState | None = None, lengths: Tensor | None = None) -> tuple:
    """inputs [B S E], past [directions B D], lengths [B] | None → outputs [B S D·directions], the new past.

    Each sentence has its own length; None: all are equally long. Inside autocast a CPU with bf16 units takes that road:
    not over packed sequences; with gradients only an LSTM over MANY sentences, since few are slower so, and a GRU's
    gradients would be added up over the steps in bf16. The past is always in the format of the weights. All else is
    float32: other CPUs cannot run these layers in bf16, and CUDA would take float16, which gradients leave.
    """
    lstm, wanted = isinstance(layer, nn.LSTM), runs_in_bf16(inputs) and lengths is None
    low = wanted and (not torch.is_grad_enabled() or (lstm and inputs.size(0) >= MANY))
    full = next(layer.parameters()).dtype
    if past is not None:
        past = tuple(part.to(torch.bfloat16 if low else full).contiguous() for part in past)
    state = past if past is None or len(past) > 1 else past[0]
    with torch.autocast(inputs.device.type, dtype=torch.bfloat16, enabled=low):
        inputs = inputs if low else inputs.to(full)
        if lengths is None:
            outputs, final = layer(inputs, state)
        else:
            packed = pack_padded_sequence(inputs, lengths.cpu(), batch_first=True, enforce_sorted=False)
            outputs, final = layer(packed, state)
            outputs, _ = pad_packed_sequence(outputs, batch_first=True, total_length=inputs.size(1))
    if wanted and lstm:
        outputs = outputs.to(torch.bfloat16)  # once, not at every column that looks at them
    final = final if isinstance(final, tuple) else (final,)
    return outputs, tuple(part.to(full) for part in final)


def runs_in_bf16(inputs: Tensor) -> bool:
    """Whether autocast is on in bf16, on a CPU that multiplies it."""
    on = inputs.device.type == "cpu" and torch.is_autocast_enabled("cpu")
    return on and torch.get_autocast_dtype("cpu") == torch.bfloat16 and multiplies_bf16()


def multiplies_bf16() -> bool:
    """Whether this CPU has units for products of bf16: AMX tiles, or AVX512-BF16 (AMD since Zen 4)."""
    probes = (getattr(torch.cpu, f"_is_{unit}_supported", None) for unit in ("amx_tile", "avx512_bf16"))
    return any(probe() for probe in probes if probe)

"""What is done differently on a CPU: where it is, and that the numbers stay the same."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from nmt.attention import cpu
from nmt.attention.cpu import call_with_padded_rows, pad_rows
from nmt.errors import UserError
from nmt.models.cells import run_rnn
from nmt.training.loss import LinearCrossEntropy
from nmt.training.precision import select_device, select_device_or_auto, select_precision

FP32 = torch.float32
BF16 = torch.bfloat16


@pytest.mark.parametrize(
    "device, given, capability, faster, wanted",
    [
        ("cuda", "auto", (8, 0), False, BF16),
        ("cuda", "auto", (7, 5), True, FP32),
        ("cuda", "bf16", (7, 5), False, BF16),
        ("cpu", "auto", (9, 0), True, BF16),
        ("cpu", "auto", (9, 0), False, FP32),
        ("cpu", "bf16", (9, 0), False, BF16),
        ("cpu", "fp32", (9, 0), True, FP32),
    ],
)
def test_the_number_format_that_is_faster_unless_one_is_given(
    device, given, capability, faster, wanted, monkeypatch
):
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda _: capability)
    monkeypatch.setattr("nmt.training.precision.bf16_is_faster", lambda: faster)
    assert select_precision(given, torch.device(device)) == wanted


@pytest.mark.parametrize(
    ("units", "intel", "has_units", "faster"),
    [
        ({"amx_tile", "avx512_bf16"}, True, True, True),
        ({"avx512_bf16"}, True, True, False),  # its AMX is hidden
        ({"avx512_bf16"}, False, True, True),
        (set(), False, False, False),
    ],
)
def test_where_bf16_is_faster_is_known_without_timing(units, intel, has_units, faster, monkeypatch):
    for unit in ("amx_tile", "avx512_bf16"):
        is_there = unit in units
        monkeypatch.setattr(f"torch.cpu._is_{unit}_supported", lambda is_there=is_there: is_there)
    monkeypatch.setattr(cpu, "IS_INTEL", intel)
    assert (cpu.has_bf16_units(), cpu.bf16_is_faster()) == (has_units, faster)


def test_without_a_gpu_a_run_of_a_gpu_is_used_on_the_cpu(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert select_device("auto") == select_device_or_auto("cuda:99") == torch.device("cpu")
    for missing in ("cuda:99", "gpu"):
        with pytest.raises(UserError, match=f"device={missing} "):
            select_device(missing)


@pytest.mark.parametrize("tokens", [1, 63, 64, 65, 256, 257, 530])
def test_the_loss_does_not_depend_on_padded_rows(tokens, monkeypatch):
    """In several chunks and groups."""
    monkeypatch.setattr("nmt.training.loss.GRADIENT_ELEMENTS", 50 * 300)
    hidden = torch.randn(tokens, 16)
    weight = torch.randn(50, 16)
    bias = torch.randn(50)
    target = torch.randint(0, 50, (tokens,))
    results = []
    for rows in (64, 1):
        monkeypatch.setattr(cpu, "ROWS_PER_KERNEL", rows)
        inputs = [tensor.clone().requires_grad_() for tensor in (hidden, weight, bias)]
        with torch.autocast("cpu", BF16):
            loss, nll = LinearCrossEntropy.apply(*inputs, target, 0.1, 0.0)
        assert nll.shape == (tokens,)
        results.append((loss.detach(), nll, *torch.autograd.grad(loss, inputs)))
    for padded, plain in zip(*results, strict=True):
        assert_close(padded, plain, atol=1e-2 * float(plain.abs().max()), rtol=0)


class Seen(nn.Module):
    """The inputs as they are; keeps the number of rows that it was given."""

    rows = 0

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.rows = inputs.numel() // inputs.size(-1)
        return inputs


@pytest.mark.parametrize(
    ("rows", "dtype", "lower", "multiplied", "padded"),
    [
        (63, BF16, None, 63, 64),
        (65, BF16, None, 128, 128),
        (128, BF16, None, 128, 128),
        (65, FP32, None, 65, 65),
        (65, FP32, BF16, 128, 128),
        (65, FP32, torch.float16, 65, 65),
    ],
)
def test_rows_are_padded_where_a_kernel_is_compiled_for_their_number(
    rows, dtype, lower, multiplied, padded
):
    """A product of few rows is left as it is."""
    inputs = torch.randn(1, rows, 4).to(dtype)
    projection = Seen()
    with torch.autocast("cpu", lower or BF16, enabled=lower is not None):
        outputs = call_with_padded_rows(projection, inputs)
        flat = pad_rows(inputs[0])
    assert torch.equal(outputs, inputs)
    assert (projection.rows, len(flat)) == (multiplied, padded)
    assert torch.equal(flat[:rows], inputs[0]) and not flat[rows:].any()


@pytest.mark.parametrize(
    ("sequences", "queries", "dtype", "learns", "explicit"),
    [
        (17, 15, FP32, False, True),
        (17, 16, FP32, False, False),
        (16, 15, FP32, False, False),
        (17, 15, FP32, True, False),
        (1, 20, BF16, True, True),
    ],
)
def test_where_explicit_attention_is_faster(sequences, queries, dtype, learns, explicit):
    query = torch.zeros(sequences, 1, queries, 4, dtype=dtype, requires_grad=learns)
    assert cpu.prefers_explicit_attention(query) == explicit


@pytest.mark.parametrize(
    ("layer", "sentences", "learns", "lower", "in_bf16"),
    [
        (nn.LSTM, 32, True, BF16, True),
        (nn.LSTM, 31, True, BF16, False),
        (nn.GRU, 32, True, BF16, False),
        (nn.GRU, 1, False, BF16, True),
        (nn.LSTM, 32, False, torch.float16, False),
        (nn.LSTM, 32, False, None, False),
    ],
)
def test_where_recurrent_layers_run_in_bf16(monkeypatch, layer, sentences, learns, lower, in_bf16):
    monkeypatch.setattr(cpu, "has_bf16_units", lambda: True)
    inputs = torch.zeros(sentences, 3, 4)
    with torch.autocast("cpu", lower or BF16, enabled=lower is not None):
        with torch.set_grad_enabled(learns):
            assert cpu.runs_rnn_in_bf16(layer(4, 4), inputs) == in_bf16


@pytest.mark.parametrize("dtype", [FP32, BF16])
@pytest.mark.parametrize("has_bias", [False, True])
def test_a_packed_matrix_has_the_same_product(dtype, has_bias):
    if not cpu.can_pack(torch.ones(1), dtype):
        pytest.skip("this PyTorch does not pack")
    plain = nn.Linear(5, 3, bias=has_bias)
    inputs = torch.randn(2, 4, 5)
    wanted = plain(inputs)
    for layout in (
        cpu.PackedLinear(plain.weight, plain.bias, dtype),
        cpu.ColumnMajorLinear(plain.weight, plain.bias),
    ):
        assert (layout.out_features, layout.in_features) == (3, 5)
        assert_close(layout(inputs).float(), wanted, atol=0.05 if dtype == BF16 else 1e-5, rtol=0)
    assert not cpu.can_pack(torch.ones(1, dtype=torch.float64), dtype)


def make(cell: str) -> tuple[nn.Module, torch.Tensor, tuple[torch.Tensor, ...]]:
    """A bidirectional layer, inputs, and a state that is not contiguous, as a decoder's."""
    torch.manual_seed(1)
    layer = (nn.LSTM if cell == "lstm" else nn.GRU)(16, 16, batch_first=True, bidirectional=True)
    state = tuple(torch.randn(4, 2, 16).transpose(0, 1) for _ in range(2 if cell == "lstm" else 1))
    return layer, torch.randn(4, 6, 16, requires_grad=True), state


@pytest.fixture
def four_are_many(monkeypatch):
    """The four sentences of `make` are enough for bf16."""
    monkeypatch.setattr(cpu, "MANY_SENTENCES", 4)


@pytest.mark.skipif(not cpu.has_bf16_units(), reason="this CPU has no units for bf16")
@pytest.mark.parametrize("has_state", [False, True])
def test_bf16_is_float32_rounded(has_state, four_are_many):
    layer, inputs, state = make("lstm")
    state = state if has_state else None
    wanted, wanted_last = run_rnn(layer, inputs, state)
    with torch.autocast("cpu", BF16):
        outputs, last = run_rnn(layer, inputs, state)
    assert not torch.equal(outputs, wanted) and all(part.dtype == torch.float32 for part in last)
    assert_close((outputs.float(), last), (wanted, wanted_last), atol=2e-2, rtol=0)
    weights = [inputs, *layer.parameters()]
    rounded_gradients = torch.autograd.grad(outputs.float().sum(), weights)
    exact_gradients = torch.autograd.grad(wanted.sum(), weights)
    for rounded, exact in zip(rounded_gradients, exact_gradients, strict=True):
        assert_close(rounded, exact, atol=2e-2 * float(exact.abs().max()), rtol=0)


@pytest.mark.parametrize("reason", ["no units", "padding", "no autocast"])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_otherwise_it_is_float32_to_the_last_bit(cell, reason, monkeypatch, four_are_many):
    layer, inputs, state = make(cell)
    lengths = torch.tensor([6, 2, 5, 6]) if reason == "padding" else None
    wanted = run_rnn(layer, inputs, state, lengths)
    if reason == "no units":
        monkeypatch.setattr(cpu, "has_bf16_units", lambda: False)
    with torch.autocast("cpu", BF16, enabled=reason != "no autocast"):
        results = run_rnn(layer, inputs, state, lengths)
    assert_close(results, wanted, atol=0, rtol=0)
    assert results[0].dtype == torch.float32

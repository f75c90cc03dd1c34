"""Which device and which of its kernels are chosen."""

from collections.abc import Iterator

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from nmt.attention.kernels import scaled_dot_product
from nmt.training.precision import select_device

OPERATORS = {
    "flash": "aten::_scaled_dot_product_flash_attention_for_cpu",
    "math": "aten::_scaled_dot_product_attention_math",
    "explicit": "aten::_softmax",
}


@pytest.fixture
def settings() -> Iterator[None]:
    """PyTorch's settings for CUDA at the start of a process; restored afterwards."""
    before = cuda_settings()
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True
    torch.backends.cuda.enable_cudnn_sdp(True)
    yield
    torch.set_float32_matmul_precision(before[0])
    torch.backends.cudnn.allow_tf32 = before[1]
    torch.backends.cuda.enable_cudnn_sdp(before[2])


def cuda_settings() -> tuple[str, bool, bool]:
    """Precision of float32 products, whether cuDNN may use TF32, and whether its attention may be chosen."""
    return (
        torch.get_float32_matmul_precision(),
        torch.backends.cudnn.allow_tf32,
        torch.backends.cuda.cudnn_sdp_enabled(),
    )


@pytest.mark.parametrize("name", ["auto", "cuda", "cuda:0"])
def test_float32_is_not_tf32_on_cuda_and_cudnn_attention_is_off(settings, monkeypatch, name):
    empty = torch.empty
    monkeypatch.setattr(torch, "empty", lambda *size, device: empty(*size))  # as if there were a GPU
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert select_device(name).type == "cuda"
    assert cuda_settings() == ("highest", False, False)


def test_a_cpu_changes_no_setting_of_cuda(settings):
    select_device("cpu")
    assert cuda_settings() == ("high", True, True)


@pytest.mark.parametrize(
    ("wanted", "shape", "masked", "dropout"),
    [("flash", (2, 4, 9, 16), False, 0.0), ("flash", (2, 4, 9, 16), True, 0.0), ("math", (2, 4, 9, 16), False, 0.1)]
    + [("explicit", (17, 4, 3, 16), False, 0.0)],
)
@pytest.mark.parametrize("causal", [False, True])
def test_attention_runs_the_fused_kernel_where_that_is_faster(wanted, shape, masked, dropout, causal):
    """Nothing is forced; PyTorch's fused CPU attention has no dropout, and many sequences of few rows are explicit."""
    query, key, value = (torch.randn(shape) for _ in range(3))
    mask = torch.ones(shape[0], 1, 1, shape[2], dtype=torch.bool) if masked else None
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        scaled_dot_product(query, key, value, mask, causal, dropout=dropout)
    assert OPERATORS[wanted] in {event.name for event in profiled.events()}

"""Which device and which of its kernels are chosen."""

import torch

from nmt.training.precision import select_device


def cuda_settings() -> tuple[str, bool, bool]:
    """Precision of float32 products, whether cuDNN may use TF32, and whether its attention may be chosen."""
    return (
        torch.get_float32_matmul_precision(),
        torch.backends.cudnn.allow_tf32,
        torch.backends.cuda.cudnn_sdp_enabled(),
    )


def test_float32_is_not_tf32_on_cuda_and_cudnn_attention_is_off(monkeypatch):
    before, empty = cuda_settings(), torch.empty
    select_device("cpu")
    assert cuda_settings() == before
    monkeypatch.setattr(torch, "empty", lambda *size, device: empty(*size))  # as if there were a GPU
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    try:
        assert select_device("auto").type == "cuda" and cuda_settings() == ("highest", False, False)
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]
        torch.backends.cuda.enable_cudnn_sdp(before[2])

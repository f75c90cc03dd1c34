"""What is done differently on a CPU because it is faster there.

To understand a model you need not read this file. Its functions change a result only by rounding;
dropout also rounds its probability. The comment above a function says how much it gains, and on
which processor. docs/design/benchmarks.md describes the measurements.

B batch, T target length, N rows, H heads, K head size, D input size, O output size.
"""

import ctypes
import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import Tensor, nn
from torch.nn import functional

from nmt import IS_INTEL

log = logging.getLogger("nmt")

ROWS_PER_KERNEL = 64  # bf16 products are padded to a multiple of this many rows

# Without gradients, fused attention is faster for this many queries or more, or for at most this
# many sequences
MANY_QUERIES = 16
MANY_SEQUENCES = 16

MANY_SENTENCES = 32  # from this many on, an LSTM trains faster in bf16

# glibc's names for mallopt
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3


def has_bf16_units() -> bool:
    """Whether this CPU has units for products of bf16: AMX tiles or AVX512-BF16."""
    return is_supported("amx_tile") or is_supported("avx512_bf16")


# +85 % of target tokens/s in training (transformer in bf16 instead of float32; AMD Zen 5). On an
# Intel Xeon that hides its AMX, where this returns False, float32 is 70 % faster than bf16.
def bf16_is_faster() -> bool:
    """Whether products of bf16 take clearly less time than float32's.

    AMX multiplies bf16 up to nine times as fast as float32, and AVX512-BF16 two to four times on an
    AMD Zen 4 or 5, but half as fast on an Intel Xeon whose host hides its AMX. It is not timed:
    beside other programs a timing may come out differently, and with it a translation.
    """
    return is_supported("amx_tile") or (is_supported("avx512_bf16") and not IS_INTEL)


def is_supported(unit: str) -> bool:
    """Whether this CPU has a unit, and this PyTorch knows how to ask for it."""
    ask = getattr(torch.cpu, f"_is_{unit}_supported", None)
    return ask is not None and bool(ask())


# +18 % of target tokens a CPU second in training, together with the flattening in FeedForward
# (transformer; AMD Zen 4).
def keep_freed_memory() -> None:
    """Make glibc keep large buffers that are freed, and use them again.

    New buffers at every update cause page faults that cost more than the arithmetic.
    """
    set_allocator(1 << 25, -1)  # the largest threshold that glibc takes; nothing is given back


def give_back_freed_memory() -> None:
    """Make glibc give buffers of a MiB or more back to the system when they are freed.

    Kept buffers would often be too small for the next ones. Fine-tuning a model of OPUS-MT's size
    with `train.lora` and `train.recompute` needed 1.1 GiB instead of 1.4.
    """
    set_allocator(1 << 20, 1 << 20)


def trim_memory() -> None:
    """Make glibc give all that is free back to the system, once."""
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    except (OSError, AttributeError):  # another C library
        return


def set_allocator(mmap_threshold: int, trim_threshold: int) -> None:
    """Set two options of glibc, in bytes."""
    try:
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(M_MMAP_THRESHOLD, mmap_threshold)
        libc.mallopt(M_TRIM_THRESHOLD, trim_threshold)
    except (OSError, AttributeError):
        log.debug("There is no glibc here; the allocator is left as it is.")


# +25 % of target tokens/s in training (transformer in bf16, 1,024 positions, median of twelve
# pairs; AMD Zen 4).
def call_with_padded_rows(function: Callable[[Tensor], Tensor], inputs: Tensor) -> Tensor:
    """function(inputs), [… D] → [… O], for a function that treats every row alone.

    Many rows in bf16 become a multiple of ROWS_PER_KERNEL.

    PyTorch's bf16 products on a CPU are oneDNN's, which compiles a kernel for each new number of
    rows. That takes 0.5 to 2 ms, as long as many of the products, and nearly every batch of
    sentences has a new number of rows. Rows of zeros are added, and dropped from the result.
    """
    rows = inputs.numel() // inputs.size(-1)
    if rows <= ROWS_PER_KERNEL or not compiles_for_rows(inputs):
        return function(inputs)
    outputs = function(pad_rows(inputs.flatten(0, -2)))[:rows]
    return outputs.view(*inputs.shape[:-1], outputs.size(-1))


def pad_rows(inputs: Tensor) -> Tensor:
    """[N D] → [N' D], N' the next multiple of ROWS_PER_KERNEL if kernels depend on it, else N."""
    missing = -len(inputs) % ROWS_PER_KERNEL
    if missing and compiles_for_rows(inputs):
        return functional.pad(inputs, (0, 0, 0, missing))
    return inputs


def compiles_for_rows(inputs: Tensor) -> bool:
    """Whether a product of these inputs is compiled for its number of rows: in bf16 on a CPU."""
    if inputs.device.type != "cpu":
        return False
    if torch.is_autocast_enabled("cpu"):
        return torch.get_autocast_dtype("cpu") == torch.bfloat16
    return inputs.dtype == torch.bfloat16


# About +8 % of training: 0.8 ms a million elements, torch's own dropout 6.4 (one thread; AMD EPYC
# with AVX512-BF16).
def dropout_mask(like: Tensor, probability: float) -> Tensor:
    """0 with `probability`, else 1 / (1 − probability), in the shape and dtype of `like`.

    Each random byte decides one element, so the probability is rounded to 1/256 … 255/256: 0.1
    becomes 26/256. The scale 1 / (1 − probability) is that of the rounded probability, so the
    expectation is 1, except that bf16 rounds the scale. The bytes are compared as numbers of
    `like`'s dtype, because that is faster in PyTorch than making booleans.
    """
    threshold = min(max(round(256 * probability), 1), 255)
    draws = torch.empty((like.numel() + 7) // 8, dtype=torch.int64)
    draws.random_(-(2**63), None)  # eight random bytes in each
    draws = draws.view(torch.uint8)[: like.numel()].view(like.shape)
    return draws.to(like.dtype).ge_(threshold).mul_(256 / (256 - threshold))


# Attention (5 % of an update) alone: ten times faster in bf16 with gradients, two to three times in
# search (AMD Zen 4).
def prefers_explicit_attention(query: Tensor) -> bool:
    """Whether PyTorch's fused CPU attention would be slower than products and a softmax.

    query [B H T K]. With gradients it is slower in bf16. Without gradients it is slower for a few
    queries of many sequences, as in search.
    """
    if query.device.type != "cpu":
        return False
    if query.requires_grad:
        return query.dtype == torch.bfloat16
    return query.size(2) < MANY_QUERIES and query.size(0) > MANY_SEQUENCES


def cpu_autocasts_rnn(inputs: Tensor) -> bool:
    """Whether autocast to bf16 is on, and this is a CPU that can run LSTM and GRU layers in it.

    Only CPUs with units for bf16 can.
    """
    enabled = inputs.device.type == "cpu" and torch.is_autocast_enabled("cpu")
    return enabled and torch.get_autocast_dtype("cpu") == torch.bfloat16 and has_bf16_units()


# LSTM over 186 sentences of 22 pieces, with gradients: 338 to 194 ms. bf16 is up to 4.5 × slower
# for fewer than 32 sentences (AMD Zen 4).
def runs_rnn_in_bf16(layer: nn.Module, inputs: Tensor) -> bool:
    """Whether an LSTM or GRU layer over inputs [B T D] without padding runs in bf16.

    With gradients only an LSTM over MANY_SENTENCES or more does. For fewer sentences bf16 is
    slower, and a GRU would sum its gradients over the steps in bf16.
    """
    is_large_lstm = isinstance(layer, nn.LSTM) and inputs.size(0) >= MANY_SENTENCES
    return cpu_autocasts_rnn(inputs) and (is_large_lstm or not torch.is_grad_enabled())


# +80 % in translating one sentence at a time, +10 % in batches (luong_global in bf16; AMD Zen 4).
class PackedLinear(nn.Module):
    """x Wᵀ + b with W in oneDNN's layout and in the number format of the product: [… D] → [… O].

    A plain matrix is brought into that layout for every product. For the few rows of one sentence
    that takes longer than the product.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype
        self.out_features, self.in_features = weight.shape
        self.weight = torch.ops.mkldnn._reorder_linear_weight(
            weight.detach().to(dtype), ROWS_PER_KERNEL
        )
        self.bias = None if bias is None else bias.detach().to(dtype)

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise.default(
            inputs.to(self.dtype), self.weight, self.bias, "none", [], ""
        )


# +24 % in translating one sentence at a time (54.0 to 43.7 ms; transformer, float32, one thread;
# Intel Xeon). There a product of 64 × 64 takes a third of the time of PackedLinear's, and one of
# 1,024 × 256 as long.
class ColumnMajorLinear(nn.Module):
    """x Wᵀ + b in float32 with W in column-major order: [… D] → [… O]; for Intel's processors.

    For a few rows MKL copies a matrix in row-major order at every product, but not one in
    column-major order.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.weight = weight.detach().t().contiguous().t()
        self.bias = None if bias is None else bias.detach()

    def forward(self, inputs: Tensor) -> Tensor:
        return functional.linear(inputs.to(self.weight.dtype), self.weight, self.bias)


def can_pack(like: Tensor, dtype: torch.dtype) -> bool:
    """Whether this PyTorch packs matrices like `like` into `dtype`.

    PyTorch's operators for it are private and may disappear, so they are tried.
    """
    if like.device.type != "cpu" or like.dtype != torch.float32:
        return False
    try:
        packed = PackedLinear(torch.eye(2), torch.ones(2), dtype)
        return packed(torch.ones(1, 2)).tolist() == [[2.0, 2.0]]
    except (AttributeError, RuntimeError, NotImplementedError) as error:
        log.debug("Matrices are not packed: %s", error)
        return False


# −1 % of speed, against gradients in two threads (transformer_rotary; AMD Zen 4).
def backward_in_one_thread(output: Tensor) -> Tensor:
    """The same tensor; on a CPU, gradients of the operation that made it use one thread.

    PyTorch sums gradients of a softmax and of a layer normalisation in an order that depends on the
    number of threads. With one thread, their bits are the same whatever the number.
    """
    if torch.compiler.is_compiling() or output.device.type != "cpu":
        return output
    node = output.grad_fn
    threads = torch.get_num_threads()
    if node is not None:
        node.register_prehook(lambda _: torch.set_num_threads(1))
        node.register_hook(lambda *_: torch.set_num_threads(threads))
    return output


def same_threads() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """The contexts of torch.utils.checkpoint: a layer is recomputed with as many threads as before.

    If a layer ends in a norm, the backward pass of the norm starts to recompute it, and there
    `backward_in_one_thread` has set one thread.
    """
    return nullcontext(), with_threads(torch.get_num_threads())


@contextmanager
def with_threads(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)

"""Numbers that a GPU computes, read while it works on what comes after them."""

import torch
from torch import Tensor


def runs_ahead(device: torch.device) -> bool:
    """Whether operations of this device are only queued by the program, which would wait for each number it reads."""
    return device.type == "cuda"


class Deferred:
    """A copy [N] of some numbers on the host: begun at once, waited for when it is read."""

    def __init__(self, numbers: Tensor) -> None:
        self.numbers, self.copied = numbers, None
        if numbers.device.type == "cuda":
            self.numbers = torch.empty_like(numbers, device="cpu", pin_memory=True).copy_(numbers, non_blocking=True)
            self.copied = torch.cuda.Event()
            self.copied.record()

    def read(self) -> list[float]:
        """The numbers; what was queued after them is not waited for."""
        if self.copied is not None:
            self.copied.synchronize()
        return self.numbers.tolist()

"""One `nmt train` in a forked process, which the parent kills after a mark."""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from kill_chains.stages import mark_stages
from nmt import cli

WITH_PARTS = ("averaging",)  # a kill counts for it also within its own validation and saves


def sigkill(process: int) -> None:
    """End a process at once."""
    os.kill(process, signal.SIGKILL)


class Kill(NamedTuple):
    """SIGKILL, or another act, `delay` seconds after the stage has begun for the `occurrence`-th time, from 1."""

    stage: str
    occurrence: int
    delay: float
    act: Callable[[int], None] = sigkill


@dataclass
class Outcome:
    """How a process ended."""

    killed_in: str | None  # the innermost open stage; None when it was not killed
    code: int  # exit code, meaningless after a kill
    out: str
    err: str
    durations: dict[str, float]  # seconds of the shortest occurrence of each stage that ended


def train(words: Sequence[str], output: Path, kill: Kill | None = None, privileged: bool = True) -> Outcome:
    """Run the command in a fork, which starts within milliseconds; its output goes to files in `output`.

    Not `privileged`: permissions count for it, although it is root's.
    """
    reading, writing = os.pipe()
    process = os.fork()
    if not process:
        if not privileged:
            drop_capabilities()
        child(words, output, writing)
    os.close(writing)
    open_stages, durations = watch(reading, process, kill)
    _, status = os.waitpid(process, 0)
    out, err = ((output / name).read_text(encoding="utf-8") for name in ("out", "err"))
    outer = [name for name in open_stages if name in WITH_PARTS]
    killed_in = (outer or open_stages)[-1] if os.WIFSIGNALED(status) else None
    return Outcome(killed_in, os.waitstatus_to_exitcode(status), out, err, durations)


def drop_capabilities() -> None:
    """Give up all capabilities of this process (Linux): root then needs permissions like everybody else."""
    version_and_process, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    if ctypes.CDLL(None, use_errno=True).capset(version_and_process, none) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def child(words: Sequence[str], output: Path, writing: int) -> None:
    """The command; it never returns."""
    code = 70
    try:
        for name, number in (("out", 1), ("err", 2)):
            os.dup2(os.open(output / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        mark_stages(writing)
        code = cli.main(["train", *words])
        sys.stdout.flush()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


def watch(reading: int, process: int, kill: Kill | None) -> tuple[list[str], dict[str, float]]:
    """Read marks until the process ends, and kill it; the stages that were open then, and the seconds of the others."""
    open_stages: list[str] = []
    begun: list[float] = []
    durations: dict[str, float] = {}
    seen = 0
    with open(reading, "rb") as marks:
        for line in marks:
            name = line[1:].decode().strip()
            if line[:1] == b"-":
                open_stages.pop()
                seconds = time.monotonic() - begun.pop()
                durations[name] = min(durations.get(name, seconds), seconds)
                continue
            open_stages.append(name)
            begun.append(time.monotonic())
            seen += kill is not None and name == kill.stage
            if kill is not None and seen == kill.occurrence and name == kill.stage:
                time.sleep(kill.delay)
                kill.act(process)
                kill = None
    return open_stages, durations

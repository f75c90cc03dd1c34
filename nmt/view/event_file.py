"""TensorBoard's file format: one event after the other, each with its checksum.

Written here and not by torch's SummaryWriter, which writes in a thread of its own (its traceback on a full disk comes
from there), and names files by the clock alone, so that the files of two processes can be read in the wrong order.
"""

import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from nmt.errors import UserError

PREFIX = "events.out.tfevents."


class EventFile:
    """A new event file, which TensorBoard reads after all that are in the folder; raises UserError like every write.

    `purge_step`: the reader discards all points of this step and later that were read before.
    """

    def __init__(self, folder: Path, purge_step: int | None = None, suffix: str = "") -> None:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog  # here, so that the command line starts fast
        from tensorboard.summary.writer.record_writer import RecordWriter

        self.folder, self.event_type = folder, Event
        with self.reported():
            folder.mkdir(parents=True, exist_ok=True)
            seconds = max([int(time.time()), *(second + 1 for second in seconds_of_files(folder))])
            self.path = folder / f"{PREFIX}{seconds:010d}.{platform.node()}.{os.getpid()}{suffix}"
            self.file = open(self.path, "xb")
        self.records = RecordWriter(self.file)
        self.write(file_version="brain.Event:2")
        if purge_step is not None:
            self.write(step=purge_step, session_log=SessionLog(status=SessionLog.START))

    def write(self, **fields: Any) -> None:
        """Write one event with these fields of TensorBoard's Event."""
        with self.reported():
            self.records.write(self.event_type(wall_time=time.time(), **fields).SerializeToString())
            self.records.flush()

    def flush(self) -> None:
        """Bring it to the disk; also raises UserError if somebody has deleted the file, for then all of it is lost."""
        with self.reported():
            os.fsync(self.file.fileno())
        if not self.path.exists():
            raise UserError(f"{self.path} has been deleted while the program was writing to it.")

    def close(self) -> None:
        """Close the file; an error was reported when it was written."""
        with suppress(OSError):
            self.file.close()

    @contextmanager
    def reported(self) -> Iterator[None]:
        """An OSError becomes a UserError."""
        try:
            yield
        except OSError as error:
            raise UserError(f"Cannot write {self.folder}: {error.strerror or error}.") from None


def seconds_of_files(folder: Path) -> Iterator[int]:
    """The seconds in the names of the event files that are there."""
    for path in folder.glob(f"{PREFIX}*"):
        digits = path.name.removeprefix(PREFIX).partition(".")[0]
        if digits.isdigit():
            yield int(digits)

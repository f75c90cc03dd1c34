"""TensorBoard files of a run: curves, tables of translations, heatmaps, hyperparameters.

The file format is written here and not by torch's SummaryWriter, which writes in a thread of its
own (its traceback on a full disk comes from there), and names files by the clock alone, so that the
files of two processes can be read in the wrong order. TensorBoard's own modules are imported where
they are used, so that the command line starts fast.
"""

from __future__ import annotations

import html
import os
import platform
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.errors import UserError, report_os_error
from nmt.view.heatmap import pixels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PREFIX = "events.out.tfevents."  # of the names of files
SCORES = ".scores"  # ends the name of the file of scores
# What Markdown would read as markup; TensorBoard shows &#42; as a star but does not begin italics
# with it.
MARKUP = {ord(character): f"&#{ord(character)};" for character in "|*_`[]#~\\"}


class TensorBoardLogger:
    """A new event file in the folder of a run, which TensorBoard reads after all that are there.

    A training that starts or continues after step N passes `purge_step=N + 1`: TensorBoard then
    discards what an interrupted or killed process wrote for that step and later. Every method
    raises UserError where it cannot write.
    """

    def __init__(self, folder: Path, purge_step: int | None = None, suffix: str = "") -> None:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.summary.writer.record_writer import RecordWriter
        from torch.utils.tensorboard import summary

        self.folder = folder
        self.event_type = Event
        self.summary = summary
        with report_os_error(f"Cannot write {self.folder}"):
            folder.mkdir(parents=True, exist_ok=True)
            seconds = int(time.time())
            for path in folder.glob(f"{PREFIX}*"):
                digits = path.name.removeprefix(PREFIX).partition(".")[0]
                if digits.isdecimal():
                    seconds = max(seconds, int(digits) + 1)
            self.path = folder / f"{PREFIX}{seconds:010d}.{platform.node()}.{os.getpid()}{suffix}"
            self.file = open(self.path, "xb")
        self.records = RecordWriter(self.file)
        self.write(file_version="brain.Event:2")
        if purge_step is not None:
            self.write(step=purge_step, session_log=SessionLog(status=SessionLog.START))

    @classmethod
    def for_scores(cls, folder: Path) -> TensorBoardLogger:
        """A file that replaces the one of an earlier call, so that scores are there once."""
        for path in folder.glob(f"*{SCORES}"):
            path.unlink()
        return cls(folder, suffix=SCORES)

    def write(self, **fields: Any) -> None:
        with report_os_error(f"Cannot write {self.folder}"):
            self.records.write(self.event_type(wall_time=time.time(), **fields).SerializeToString())
            self.records.flush()

    def scalars(self, values: Mapping[str, float], step: int) -> None:
        """Add one point to each curve, by tag: {"loss/train": 3.2}."""
        for tag, value in values.items():
            self.write(summary=self.summary.scalar(tag, value), step=step)

    def table(self, tag: str, rows: Sequence[tuple[str, str, str]], step: int) -> None:
        """Add a table of (source, reference, hypothesis)."""
        self.write(summary=self.summary.text(tag, translation_table(rows)), step=step)

    def figure(self, tag: str, figure: Figure, step: int) -> None:
        """Add a matplotlib figure as an image."""
        image = self.summary.image(tag, pixels(figure), dataformats="HWC")
        self.write(summary=image, step=step)

    def hyperparameters(self, flat_config: Mapping[str, Any], scores: Mapping[str, float]) -> None:
        """The settings and final scores for the page HPARAMS, and each score as one point.

        `SummaryWriter.add_hparams` would open a second run in a folder named by the time, so that
        settings and curves would be apart; here they are in one. A value that is no bool, number or
        text (a list, None) is written as text.
        """
        settings = {}
        for key, value in flat_config.items():
            settings[key] = value if isinstance(value, bool | int | float | str) else str(value)
        for summary in self.summary.hparams(settings, dict(scores)):
            self.write(summary=summary, step=0)
        self.scalars(scores, 0)

    def flush(self) -> None:
        """Bring it to the disk, so that a checkpoint and its curves are of the same step.

        Also raises UserError if somebody has deleted the file, for then all of it is lost.
        """
        with report_os_error(f"Cannot write {self.folder}"):
            os.fsync(self.file.fileno())
        if not self.path.exists():
            raise UserError(f"{self.path} has been deleted while the program was writing to it.")

    def close(self) -> None:
        with suppress(OSError):
            self.file.close()


def translation_table(rows: Sequence[tuple[str, str, str]]) -> str:
    """A Markdown table of (source, reference, hypothesis) whose cells show their text unchanged.

    What cannot be UTF-8 becomes a question mark.
    """
    cells = [["source", "reference", "hypothesis"], ["---"] * 3]
    for row in rows:
        escaped = []
        for text in row:
            line = " ".join(text.encode("utf-8", errors="replace").decode("utf-8").split())
            escaped.append(html.escape(line, quote=False).translate(MARKUP))
        cells.append(escaped)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)

"""TensorBoard files of a run: curves, tables of translations, heatmaps, hyperparameters."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.view.heatmap import pixels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = ("source", "reference", "hypothesis")
# What Markdown would read as markup; TensorBoard shows &#42; as a star but does not begin italics with it.
MARKUP = {ord(character): f"&#{ord(character)};" for character in "|*_`[]#~\\"}


class TensorBoardLogger:
    """A TensorBoard event file in the folder of a run.

    A run that resumes after step N passes `purge_step=N + 1`: TensorBoard then discards what was written for that step
    and later before the interruption.
    """

    def __init__(self, folder: Path, purge_step: int | None = None):
        from torch.utils.tensorboard import SummaryWriter  # imported here so that the command line starts fast

        self.writer = SummaryWriter(str(folder), purge_step=purge_step)

    def scalars(self, values: Mapping[str, float], step: int) -> None:
        """Add one point to each curve, by tag: {"loss/train": 3.2}."""
        for tag, value in values.items():
            self.writer.add_scalar(tag, value, step)

    def table(self, tag: str, rows: Sequence[tuple[str, str, str]], step: int) -> None:
        """Add a table of (source, reference, hypothesis)."""
        self.writer.add_text(tag, translation_table(rows), step)

    def text(self, tag: str, text: str, step: int) -> None:
        """Add a text that TensorBoard renders as Markdown."""
        self.writer.add_text(tag, text, step)

    def figure(self, tag: str, figure: Figure, step: int) -> None:
        """Add a matplotlib figure as an image."""
        self.writer.add_image(tag, pixels(figure), step, dataformats="HWC")

    def hyperparameters(self, flat_config: Mapping[str, Any], scores: Mapping[str, float], step: int = 0) -> None:
        """The run's settings and final scores for TensorBoard's HPARAMS page, and each score as a curve of one point.

        `SummaryWriter.add_hparams` would open a second run in a folder named by the time, so that settings and curves
        would be apart; here they are in one. A value that is no bool, number or text (a list, None) is written as text.
        """
        from torch.utils.tensorboard.summary import hparams

        settings = {
            key: value if isinstance(value, (bool, int, float, str)) else str(value)
            for key, value in flat_config.items()
        }
        file = self.writer._get_file_writer()  # add_hparams itself does this, on its second writer
        for summary in hparams(settings, dict(scores)):
            file.add_summary(summary, step)
        self.scalars(scores, step)

    def flush(self) -> None:
        """Write everything to disk, so that a checkpoint and its curves are of the same step."""
        self.writer.flush()

    def close(self) -> None:
        """Write what is still in memory and close the file."""
        self.writer.close()


def translation_table(rows: Sequence[tuple[str, str, str]]) -> str:
    """A Markdown table of (source, reference, hypothesis) whose cells show their text unchanged, without markup."""
    lines = [COLUMNS, ("---",) * len(COLUMNS), *(tuple(map(escape_cell, row)) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def escape_cell(text: str) -> str:
    """One line of text without Markdown or HTML in it; what cannot be UTF-8 becomes a question mark."""
    line = " ".join(text.encode("utf-8", errors="replace").decode("utf-8").split())
    return html.escape(line, quote=False).translate(MARKUP)

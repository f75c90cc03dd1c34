"""What a training run writes down for TensorBoard: curves, tables of translations, pictures, hyperparameters."""

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

    A run that resumes after step N passes `purge_step=N + 1`: TensorBoard then forgets what an earlier life of the run
    wrote at that step and later.
    """

    def __init__(self, folder: Path, purge_step: int | None = None):
        from torch.utils.tensorboard import SummaryWriter  # here: the command line shall start fast

        self.writer = SummaryWriter(str(folder), purge_step=purge_step)

    def scalars(self, values: Mapping[str, float], step: int) -> None:
        """One point on each curve, by tag: {"loss/train": 3.2}."""
        for tag, value in values.items():
            self.writer.add_scalar(tag, value, step)

    def table(self, tag: str, rows: Sequence[Mapping[str, str] | Sequence[str]], step: int) -> None:
        """A table of (source, reference, hypothesis); rows are dicts with these keys or tuples in this order."""
        self.writer.add_text(tag, markdown(rows), step)

    def text(self, tag: str, text: str, step: int) -> None:
        """Markdown as it is."""
        self.writer.add_text(tag, text, step)

    def picture(self, tag: str, figure: Figure, step: int) -> None:
        """A figure as an image."""
        self.writer.add_image(tag, pixels(figure), step, dataformats="HWC")

    def hyperparameters(self, flat_config: Mapping[str, Any], scores: Mapping[str, float], step: int = 0) -> None:
        """The run's settings and final scores for TensorBoard's HPARAMS page, and each score as a curve of one point.

        `SummaryWriter.add_hparams` would open a second run in a folder named by the time, so that settings and curves
        part; here they stay in one. A value that is no bool, number or text (a list, None) is written as text.
        """
        from torch.utils.tensorboard.summary import hparams

        plain = {
            key: value if isinstance(value, (bool, int, float, str)) else str(value)
            for key, value in flat_config.items()
        }
        file = self.writer._get_file_writer()  # add_hparams itself does this, on its second writer
        for summary in hparams(plain, dict(scores)):
            file.add_summary(summary, step)
        self.scalars(scores, step)

    def flush(self) -> None:
        """Bring everything to disk; a checkpoint and its curves shall be of one age."""
        self.writer.flush()

    def close(self) -> None:
        """Write what is still in memory and close the file."""
        self.writer.close()


def markdown(rows: Sequence[Mapping[str, str] | Sequence[str]]) -> str:
    """A Markdown table whose cells show their text as it is, whatever markup it holds."""
    lines = [COLUMNS, ("---",) * len(COLUMNS)]
    for row in rows:
        texts = [row[name] for name in COLUMNS] if isinstance(row, Mapping) else row
        lines.append(tuple(cell(text) for text in texts))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cell(text: str) -> str:
    """One line of text without Markdown or HTML in it; what cannot be UTF-8 becomes a question mark."""
    readable = " ".join(text.encode("utf-8", errors="replace").decode("utf-8").split())
    return html.escape(readable, quote=False).translate(MARKUP)

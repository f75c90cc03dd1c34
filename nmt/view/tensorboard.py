"""TensorBoard files of a run: curves, tables of translations, heatmaps, hyperparameters."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.view.event_file import EventFile
from nmt.view.heatmap import pixels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCORES = ".scores"  # ending of the file of scores
COLUMNS = ("source", "reference", "hypothesis")
# What Markdown would read as markup; TensorBoard shows &#42; as a star but does not begin italics with it.
MARKUP = {ord(character): f"&#{ord(character)};" for character in "|*_`[]#~\\"}


class TensorBoardLogger:
    """A TensorBoard event file in the folder of a run; every method raises UserError where it cannot be written.

    A training that starts or continues after step N passes `purge_step=N + 1`: TensorBoard then discards what an
    interrupted or killed process wrote for that step and later.
    """

    def __init__(self, folder: Path, purge_step: int | None = None, suffix: str = ""):
        self.file = EventFile(folder, purge_step, suffix)

    @classmethod
    def for_scores(cls, folder: Path) -> TensorBoardLogger:
        """A file that replaces the one of an earlier call, so that scores are there once."""
        for path in folder.glob(f"*{SCORES}"):
            path.unlink()
        return cls(folder, suffix=SCORES)

    def scalars(self, values: Mapping[str, float], step: int) -> None:
        """Add one point to each curve, by tag: {"loss/train": 3.2}."""
        from torch.utils.tensorboard.summary import scalar  # imported here so that the command line starts fast

        for tag, value in values.items():
            self.file.write(summary=scalar(tag, value), step=step)

    def table(self, tag: str, rows: Sequence[tuple[str, str, str]], step: int) -> None:
        """Add a table of (source, reference, hypothesis)."""
        self.text(tag, translation_table(rows), step)

    def text(self, tag: str, text: str, step: int) -> None:
        """Add a text that TensorBoard renders as Markdown."""
        from torch.utils.tensorboard.summary import text as text_summary

        self.file.write(summary=text_summary(tag, text), step=step)

    def figure(self, tag: str, figure: Figure, step: int) -> None:
        """Add a matplotlib figure as an image."""
        from torch.utils.tensorboard.summary import image

        self.file.write(summary=image(tag, pixels(figure), dataformats="HWC"), step=step)

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
        for summary in hparams(settings, dict(scores)):
            self.file.write(summary=summary, step=step)
        self.scalars(scores, step)

    def flush(self) -> None:
        """Bring everything to the disk, so that a checkpoint and its curves are of the same step."""
        self.file.flush()

    def close(self) -> None:
        """Close the file."""
        self.file.close()


def translation_table(rows: Sequence[tuple[str, str, str]]) -> str:
    """A Markdown table of (source, reference, hypothesis) whose cells show their text unchanged, without markup."""
    lines = [COLUMNS, ("---",) * len(COLUMNS), *(tuple(map(escape_cell, row)) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def escape_cell(text: str) -> str:
    """One line of text without Markdown or HTML in it; what cannot be UTF-8 becomes a question mark."""
    line = " ".join(text.encode("utf-8", errors="replace").decode("utf-8").split())
    return html.escape(line, quote=False).translate(MARKUP)

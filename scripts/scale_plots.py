"""Pictures of what scripts/scale.py measured."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
from matplotlib import pyplot
from matplotlib.axes import Axes

Rows = list[dict[str, Any]]
INSIDE = 8  # lines that a legend inside a panel may name
LINE_STYLES = ["o-", "s--", "^:"]  # the next one after ten lines, when the colours repeat


@dataclass
class Panel:
    """One pair of axes: columns of a topic's table over its column x, or one column with a line for each model."""

    topic: str
    x: str
    ylabel: str
    columns: dict[str, str] = field(default_factory=dict)  # column: its label
    of_each_model: str = ""  # the column with a line for each model
    log: str = "x"  # axes with a logarithmic scale


UPDATE, MEMORY = "CPU seconds, 1,024 target tokens", "MiB above the resident model"
PICTURES = {
    "scale-corpus.png": [
        Panel("corpus", "pairs", "CPU seconds", {"start, CPU s": "start to first update (second start)",
                                                 "plan, s": "planning an epoch"}),
        Panel("corpus", "pairs", "MiB above the model's own", {"training, MiB more resident": "resident",
              "training, MiB more anonymous": "of it anonymous", "plan, MiB": "peak of planning"}),
        Panel("text", "pairs", "lines per CPU second",
              {f"{stage}, lines/s": stage for stage in ("corpus", "tokenizer", "ids")}, log="xy"),
    ],
    "scale-length.png": [
        Panel("length", "length", UPDATE, of_each_model="seconds", log="xy"),
        Panel("length", "length", MEMORY, of_each_model="peak", log="xy"),
    ],
    "scale-size.png": [
        Panel("vocabulary", "vocabulary", UPDATE, of_each_model="seconds", log=""),
        Panel("vocabulary", "vocabulary", MEMORY, of_each_model="peak", log=""),
        Panel("beam", "beam", "CPU seconds a sentence of 20 pieces", of_each_model="seconds", log=""),
    ],
}  # fmt: skip


def draw_pictures(result: dict[str, Rows], folder: Path) -> None:
    """Draw every picture of which all topics were measured."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, panels in PICTURES.items():
        if not all(panel.topic in result for panel in panels):
            continue
        figure, axes = pyplot.subplots(1, len(panels), figsize=(4.4 * len(panels), 3.6), layout="constrained")
        for panel, axis in zip(panels, axes, strict=True):
            draw(panel, axis, result[panel.topic])
        add_legends(axes)
        figure.savefig(folder / name, dpi=80, metadata={"Software": None})
        pyplot.close(figure)


def draw(panel: Panel, axis: Axes, rows: Rows) -> None:
    """The lines of one panel."""
    for column, label in panel.columns.items():
        axis.plot([row[panel.x] for row in rows], [row[column] for row in rows], "o-", label=label, markersize=4)
    for number, model in enumerate(dict.fromkeys(row.get("model") for row in rows) if panel.of_each_model else []):
        points = [(row[panel.x], row[panel.of_each_model]) for row in rows if row["model"] == model]
        style = LINE_STYLES[number // 10 % len(LINE_STYLES)]
        axis.plot(*zip(*points, strict=True), style, label=model, markersize=3, linewidth=1)
    for letter, letter_axis in (("x", axis.xaxis), ("y", axis.yaxis)):
        if letter in panel.log:
            base = 2 if panel.of_each_model else 10
            getattr(axis, f"set_{letter}scale")("log", base=base)
        else:
            getattr(axis, f"set_{letter}lim")(0, None)
        letter_axis.set_major_formatter(lambda value, _: f"{value:,g}")
    axis.set_xticks(sorted({row[panel.x] for row in rows}))
    axis.tick_params(axis="x", labelsize=7)
    axis.set(xlabel="pieces of a sentence, each side" if panel.x == "length" else panel.x, ylabel=panel.ylabel)
    axis.grid(alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)


def add_legends(axes: Sequence[Axes]) -> None:
    """A legend in each panel; if they name many models, one on the right of all panels instead."""
    many = any(len(axis.lines) > INSIDE for axis in axes)
    if many:
        axes[-1].legend(fontsize=6, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    else:
        for axis in axes:
            axis.legend(fontsize=6, frameon=False)

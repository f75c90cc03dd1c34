"""Pictures of what scripts/scale.py measured."""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
from matplotlib import pyplot

Rows = list[dict[str, Any]]
UPDATE = "CPU seconds, 1,024 target tokens"
MEMORY = "MiB above the resident model"
# Of each picture its panels: topic, x, label of y, logarithmic axes, and the columns with their
# labels; or one column, which gets a line for each model.
PICTURES: dict[str, list[tuple[str, str, str, str, dict[str, str] | str]]] = {
    "scale-corpus.png": [
        (
            "corpus",
            "pairs",
            "CPU seconds",
            "x",
            {
                "start, CPU s": "start to first update (second start)",
                "plan, s": "planning an epoch",
            },
        ),
        (
            "corpus",
            "pairs",
            "MiB above the model's own",
            "x",
            {
                "training, MiB more resident": "resident",
                "training, MiB more anonymous": "of it anonymous",
                "plan, MiB": "peak of planning",
            },
        ),
        (
            "text",
            "pairs",
            "lines per CPU second",
            "xy",
            {f"{stage}, lines/s": stage for stage in ("corpus", "tokenizer", "ids")},
        ),
    ],
    "scale-length.png": [
        ("length", "length", UPDATE, "xy", "seconds"),
        ("length", "length", MEMORY, "xy", "peak"),
    ],
    "scale-size.png": [
        ("vocabulary", "vocabulary", UPDATE, "", "seconds"),
        ("vocabulary", "vocabulary", MEMORY, "", "peak"),
        ("beam", "beam", "CPU seconds a sentence of 20 pieces", "", "seconds"),
    ],
}


def draw_pictures(result: dict[str, Rows], folder: Path) -> None:
    """Draw every picture of which all topics were measured."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, panels in PICTURES.items():
        if not all(topic in result for topic, *_ in panels):
            continue
        figure, axes = pyplot.subplots(
            1, len(panels), figsize=(4.4 * len(panels), 3.6), layout="constrained"
        )
        for (topic, x, label, log, columns), axis in zip(panels, axes, strict=True):
            rows = result[topic]
            for number, model in enumerate(dict.fromkeys(row.get("model") for row in rows)):
                some = [row for row in rows if row.get("model") == model]
                style = ["o-", "s--", "^:"][number // 10 % 3]
                for column, title in (
                    columns.items() if isinstance(columns, dict) else [(columns, model)]
                ):
                    axis.plot(
                        [row[x] for row in some],
                        [row[column] for row in some],
                        style,
                        label=title,
                        markersize=3,
                    )
            for letter in "xy":
                if letter in log:
                    getattr(axis, f"set_{letter}scale")("log")
                else:
                    getattr(axis, f"set_{letter}lim")(0, None)
                getattr(axis, f"{letter}axis").set_major_formatter(lambda value, _: f"{value:,g}")
            axis.set_xticks(sorted({row[x] for row in rows}))
            axis.tick_params(axis="x", labelsize=7)
            axis.set(xlabel="pieces of a sentence, each side" if x == "length" else x, ylabel=label)
            axis.grid(alpha=0.3)
            axis.legend(fontsize=6, frameon=False)
        figure.savefig(folder / name, dpi=80, metadata={"Software": None})
        pyplot.close(figure)

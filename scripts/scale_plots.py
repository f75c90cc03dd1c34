"""Pictures of what scripts/scale.py measured."""

import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
from matplotlib import pyplot
from matplotlib.axes import Axes

Rows = list[dict[str, Any]]


def plot(folder: Path, pictures: Path) -> None:
    """Draw scale-corpus.png, scale-length.png and scale-size.png of the figures that are in the folder."""
    found = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")}
    pictures.mkdir(parents=True, exist_ok=True)
    if {"corpus", "text"} <= found.keys():
        draw(pictures / "scale-corpus.png", [(of_corpus_seconds, found), (of_corpus_memory, found), (of_text, found)])
    if "length" in found:
        draw(pictures / "scale-length.png", [(of_length_seconds, found), (of_length_memory, found)])
    if {"vocabulary", "beam"} <= found.keys():
        draw(pictures / "scale-size.png", [(of_vocabulary, found), (of_vocabulary_memory, found), (of_beam, found)])


def draw(path: Path, panels: list[tuple[Any, dict[str, Rows]]]) -> None:
    """Panels side by side."""
    figure, axes = pyplot.subplots(1, len(panels), figsize=(4.4 * len(panels), 3.6), layout="constrained")
    for (panel, found), axis in zip(panels, axes, strict=True):
        panel(axis, found)
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=80, metadata={"Software": None})
    pyplot.close(figure)


def lines(axis: Axes, rows: Rows, x: str, names: dict[str, str]) -> None:
    """One line for each named column."""
    for column, name in names.items():
        axis.plot([row[x] for row in rows], [row[column] for row in rows], "o-", label=name, markersize=4)
    axis.legend(fontsize=7, frameon=False)


def by_model(axis: Axes, rows: Rows, x: str, y: str, powers: bool) -> None:
    """One line for each model; both axes in powers of two, or from zero."""
    names = list(dict.fromkeys(row["model"] for row in rows))
    for number, name in enumerate(names):
        some = [row for row in rows if row["model"] == name]
        style = ["o-", "s--", "^:"][number // 10 % 3]
        axis.plot([row[x] for row in some], [row[y] for row in some], style, label=name, markersize=3, linewidth=1)
    if powers:
        axis.set_xscale("log", base=2)
        axis.set_yscale("log", base=2)
    else:
        axis.set(xlim=(0, None), ylim=(0, None))
    values = sorted({row[x] for row in rows})
    axis.set_xticks(values, [f"{value:,}" for value in values], fontsize=7)
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_xlabel({"length": "pieces of a sentence, each side", "vocabulary": "vocabulary", "beam": "beam"}[x])


def of_corpus_seconds(axis: Axes, found: dict[str, Rows]) -> None:
    """Start and planning."""
    names = {"start, CPU s": "start to first update (second start)", "plan, s": "planning an epoch"}
    lines(axis, found["corpus"], "pairs", names)
    axis.set(xscale="log", ylim=(0, None), xlabel="pairs", ylabel="CPU seconds")


def of_corpus_memory(axis: Axes, found: dict[str, Rows]) -> None:
    """Memory of training."""
    names = {"training rss, MiB more": "resident", "training anonymous, MiB more": "of it anonymous"}
    lines(axis, found["corpus"], "pairs", names | {"plan, MiB": "peak of planning"})
    axis.set(xscale="log", ylim=(0, None), xlabel="pairs", ylabel="MiB above the model's own")


def of_text(axis: Axes, found: dict[str, Rows]) -> None:
    """The stages of text."""
    names = {f"{stage}, lines/s": stage for stage in ("corpus", "tokenizer", "ids")}
    lines(axis, found["text"], "pairs", names)
    axis.set(xscale="log", yscale="log", xlabel="pairs", ylabel="lines per CPU second")


def of_length_seconds(axis: Axes, found: dict[str, Rows]) -> None:
    """Seconds of an update."""
    by_model(axis, found["length"], "length", "seconds", True)
    axis.set_ylabel("CPU seconds, 1,024 target tokens")


def of_length_memory(axis: Axes, found: dict[str, Rows]) -> None:
    """Memory of an update."""
    by_model(axis, found["length"], "length", "peak", True)
    axis.set_ylabel("MiB above the resident model")
    axis.legend(fontsize=6, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))


def of_vocabulary(axis: Axes, found: dict[str, Rows]) -> None:
    """Seconds of an update."""
    by_model(axis, found["vocabulary"], "vocabulary", "seconds", False)
    axis.set_ylabel("CPU seconds, 1,024 target tokens")
    axis.legend(fontsize=7, frameon=False)


def of_vocabulary_memory(axis: Axes, found: dict[str, Rows]) -> None:
    """Memory of an update."""
    by_model(axis, found["vocabulary"], "vocabulary", "peak", False)
    axis.set_ylabel("MiB above the resident model")


def of_beam(axis: Axes, found: dict[str, Rows]) -> None:
    """Seconds of a search."""
    by_model(axis, found["beam"], "beam", "seconds", False)
    axis.set_ylabel("CPU seconds a sentence of 20 pieces")
    axis.legend(fontsize=7, frameon=False)

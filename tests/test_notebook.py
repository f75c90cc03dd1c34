"""The code of the attention tutorial runs from its first cell to its last, with FAST=1."""

import re
from pathlib import Path

import notebook
import pytest
from test_phrasebook import part  # noqa: F401

PAGE = Path(__file__).resolve().parent.parent / "docs/tutorials/attention.ipynb"


@pytest.mark.usefixtures("part")
@pytest.mark.parametrize("updates", [50, pytest.param(200, marks=pytest.mark.slow)])
def test_the_attention_tutorial_runs(updates: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """With FAST=1: its 200 updates, or 50, after which there is a picture."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FAST", "1")
    cells = notebook.read(PAGE)
    for cell in cells["cells"]:
        cell["source"] = [line.replace("=200", f"={updates}") for line in cell["source"]]
    notebook.execute(cells)
    outputs = outputs_of(cells)
    kinds = [output["output_type"] for output in outputs]
    assert kinds == [output["output_type"] for output in outputs_of(notebook.read(PAGE))]
    texts = ["".join(output.get("text", "")) for output in outputs]
    tables = next(text for text in texts if "BLEU" in text)
    rows = re.findall(r"^(?:dot|general|additive)(?: +[\d.]+){3}$", tables, re.MULTILINE)
    assert len(rows) == 6
    assert PAGE.stat().st_size < 1_000_000


def outputs_of(cells: dict) -> list[dict]:
    return [output for cell in cells["cells"] for output in cell.get("outputs", [])]

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
    outputs = [output for cell in cells["cells"] for output in cell.get("outputs", [])]
    kept = [output for cell in notebook.read(PAGE)["cells"] for output in cell.get("outputs", [])]
    assert [output["output_type"] for output in outputs] == [
        output["output_type"] for output in kept
    ]
    tables = next(
        "".join(output["text"]) for output in outputs if "BLEU" in "".join(output.get("text", ""))
    )
    assert (
        len(
            re.findall(
                r"^(?:dot|general|additive) +(?:[\d.]+ "
                r"+){2}[\d.]+$",
                tables,
                re.MULTILINE,
            )
        )
        == 6
    )
    assert PAGE.stat().st_size < 1_000_000

"""The code of the attention tutorial runs from its first cell to its last, on tiny models."""

from pathlib import Path

import notebook
import pytest
from test_phrasebook import part  # noqa: F401

PAGE = Path(__file__).resolve().parent.parent / "docs/tutorials/attention.ipynb"
TINY = (
    "model.hidden_size=16 model.dropout=0 tokenizer.vocabulary_size=400 train.max_steps=4 train.validate_every=4 "
    "optim.warmup_steps=2 decode.beam=1 decode.max_length_ratio=0 decode.max_length_extra=6 train.log_sentences=0"
)


@pytest.mark.slow
@pytest.mark.usefixtures("part")
def test_the_attention_tutorial_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NMT_NOTEBOOK", TINY)
    cells = notebook.read(PAGE)
    notebook.execute(cells)
    outputs = [output for cell in cells["cells"] for output in cell.get("outputs", [])]
    kept = [output for cell in notebook.read(PAGE)["cells"] for output in cell.get("outputs", [])]
    assert [output["output_type"] for output in outputs] == [output["output_type"] for output in kept]
    assert "multi_head" in "".join(outputs[0]["text"])

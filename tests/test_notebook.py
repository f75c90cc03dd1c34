"""The code of the attention tutorial runs from its first cell to its last, on tiny models."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TINY = (
    "data.pairs=2000 model.hidden_size=16 model.dropout=0 train.max_steps=12 train.validate_every=12 "
    "decode.beam=1 decode.max_length_ratio=0 decode.max_length_extra=6"
)


@pytest.mark.slow
def test_the_attention_tutorial_runs(tmp_path):
    script, notebook = ROOT / "scripts/notebook.py", ROOT / "docs/tutorials/attention.ipynb"
    environment = os.environ | {"NMT_NOTEBOOK": TINY, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(script), str(notebook)]
    process = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr[-3000:]

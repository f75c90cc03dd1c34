"""Results on disk: translations, their scores, and the provenance of both."""

import json
import re
import tempfile
from pathlib import Path
from typing import Any

from nmt.files import write_atomic
from nmt.run_lock import only_writer


def write_result(folder: Path, hypotheses: list[str], result: dict[str, Any]) -> Path:
    """Write `hyp`, one translation a line, and then `result.json`; returns the latter's path.

    Each file is written atomically. An old result.json is deleted first, so that it never belongs to other
    translations than those in `hyp`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path, text = folder / "result.json", json.dumps(result, ensure_ascii=False, indent=2) + "\n"
    lines = (" ".join(re.split(r"[\r\n]+", hypothesis)) for hypothesis in hypotheses)
    with only_writer(folder, timeout=60.0):  # several evaluations may end at once
        path.unlink(missing_ok=True)
        write_atomic(folder / "hyp", "".join(f"{line}\n" for line in lines))
        write_atomic(path, text)
    return path


def check_writable(folder: Path) -> None:
    """Make the folder; raises OSError where nothing can be written into it."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass


def read_result(folder: Path, provenance: dict[str, Any]) -> dict[str, Any] | None:
    """The stored result.json if it has this provenance, else None: then it must be computed again."""
    stored = read_json(folder / "result.json")
    same = isinstance(stored, dict) and stored.get("provenance") == json.loads(json.dumps(provenance))
    return stored if same else None


def read_json(path: Path) -> Any:
    """The content of a JSON file; None where there is no file or it is damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None

"""Results on disk: what was translated, its scores, and how both were made."""

import json
import re
import tempfile
from pathlib import Path
from typing import Any

from nmt.files import write_atomic


def write_result(folder: Path, hypotheses: list[str], result: dict[str, Any]) -> Path:
    """Write `hyp`, one translation a line, and then `result.json`; returns the latter's path.

    Each file appears whole or not at all, and no JSON stands beside translations that it does not tell of.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path, text = folder / "result.json", json.dumps(result, ensure_ascii=False, indent=2) + "\n"
    path.unlink(missing_ok=True)
    lines = (" ".join(re.split(r"[\r\n]+", hypothesis)) for hypothesis in hypotheses)
    write_atomic(folder / "hyp", "".join(f"{line}\n" for line in lines))
    write_atomic(path, text)
    return path


def check_writable(folder: Path) -> None:
    """Make the folder; raises OSError where nothing can be written into it."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass


def reuse(folder: Path, made: dict[str, Any]) -> dict[str, Any] | None:
    """A stored result made in just this way."""
    stored = read_json(folder / "result.json")
    return stored if isinstance(stored, dict) and stored.get("made") == json.loads(json.dumps(made)) else None


def read_json(path: Path) -> Any:
    """What a JSON file holds; None where there is none, or only half of one."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None

"""What was measured of a run, kept in its folder: calibration, estimate and verdict."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nmt.corpus.checksums import read_json, write_json
from nmt.corpus.files import refuse_links


def write_measured(path: Path, weights: Sequence[str], content: dict[str, Any]) -> None:
    """Keep what was measured of checkpoints with these digests.

    Raises OSError, and UserError where links lead elsewhere.
    """
    refuse_links(path.parent, path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, content | {"weights": list(weights)})


def was_measured(path: Path, key: str) -> bool:
    """Whether a file was written with this key, so that nothing need be measured again."""
    match read_json(path):
        case {"key": kept}:
            return kept == key
    return False

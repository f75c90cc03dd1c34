"""What was measured of a run, kept in its folder: calibration, estimate and verdict."""

from collections.abc import Mapping, Sequence
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


def read_measured(path: Path, weights: Sequence[str] | None) -> Mapping[object, object]:
    """What was measured of checkpoints with these digests, or of any with None; {} for nothing."""
    match read_json(path):
        case {"weights": kept, **content} if weights is None or kept == list(weights):
            return content
    return {}


def was_measured(path: Path, key: str) -> bool:
    """Whether a file was written with this key, so that nothing need be measured again."""
    return read_measured(path, None).get("key") == key

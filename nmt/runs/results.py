"""Results on disk: translations, their scores and the provenance of both.

result.json ends with its own checksum and has that of the translations beside it (nmt/data/checksums.py), so that a
changed bit in either is noticed.
"""

import hashlib
import json
import logging
import re
import tempfile
from pathlib import Path
from typing import Any

from nmt.data.checksums import has_digest, read_json, write_json
from nmt.data.files import LOCK, only_writer, refuse_links, write_atomic
from nmt.errors import is_printable
from nmt.evaluate.metrics import STANDARD, scores_in

log = logging.getLogger("nmt")
LARGEST_SCORE = 1e30


def write_result(folder: Path, hypotheses: list[str], result: dict[str, Any]) -> Path:
    """Write `hyp`, one translation a line, and then `result.json`; returns the latter's path.

    Each file is written atomically. An old result.json is deleted first, so that it never belongs to other
    translations than those in `hyp`. Raises UserError where one of the files is a link.
    """
    folder.mkdir(parents=True, exist_ok=True)
    refuse_links(*result_paths(folder))
    path = folder / "result.json"
    lines = (" ".join(re.split(r"[\r\n]+", hypothesis)) for hypothesis in hypotheses)
    text = "".join(f"{line}\n" for line in lines).encode()
    with only_writer(folder, timeout=60.0):  # several evaluations may end at once
        path.unlink(missing_ok=True)
        write_atomic(folder / "hyp", text)
        write_json(path, result | {"sha256_of_hyp": hashlib.sha256(text).hexdigest()})
    return path


def check_writable(folder: Path) -> None:
    """Make the folder; raises OSError where nothing can be written into it."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass


def read_result(folder: Path, provenance: dict[str, Any]) -> dict[str, Any] | None:
    """The stored result.json if it has this provenance, else None: then it must be computed again.

    None, with a warning, when it or the translations beside it are damaged. Raises UserError where they are links.
    """
    refuse_links(*result_paths(folder))
    stored = read_json(folder / "result.json")
    if not isinstance(stored, dict) or stored.get("provenance") != json.loads(json.dumps(provenance)):
        return None
    if not has_scores(stored):
        log.warning("%s lacks scores, or has others than this program writes; it is not used.", folder / "result.json")
        return None
    if not has_digest(folder / "hyp", stored["sha256_of_hyp"]):
        log.warning("%s is damaged; it is computed again.", folder / "hyp")
        return None
    return stored


def has_scores(stored: dict[str, Any]) -> bool:
    """Whether a result has the entries that commands read, of their types; a stranger's may not."""
    scores = [stored.get(name) for name in (*STANDARD, "sentences", "seconds")]
    texts = [stored.get(name) for name in ("machine", "sha256_of_hyp", *(f"{name}_signature" for name in STANDARD))]
    for _, _, score, signature in scores_in(stored):
        scores, texts = [*scores, score], [*texts, signature]
    if "aer" in stored or "alignment" in stored:
        alignment = stored.get("alignment")
        alignment = alignment if isinstance(alignment, dict) else {}
        scores += [stored.get(name) for name in ("aer", "precision", "recall")]
        scores += [alignment.get(name) for name in ("left_out", "candidates")]
        texts += [alignment.get(name) for name in ("layer", "decoder_step")]
        texts += ["" if alignment.get("chosen_on", "missing") is None else alignment.get("chosen_on")]
    numbers = (isinstance(score, (int, float)) and abs(score) <= LARGEST_SCORE for score in scores)
    return all(numbers) and all(isinstance(text, str) and is_printable(text) for text in texts)


def result_paths(folder: Path) -> list[Path]:
    """What a result is written to: two files and a lock in a folder, which is in a folder of the run."""
    return [folder.parent, folder, folder / "hyp", folder / "result.json", folder / LOCK]

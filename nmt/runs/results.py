"""Results on disk: translations, their scores, the provenance of both, and checksums over every byte.

A JSON file ends with the SHA-256 hash of all bytes before it, and result.json has the hash of the translations beside
it, so that a changed bit in either is noticed.
"""

import hashlib
import json
import logging
import re
import tempfile
from pathlib import Path
from typing import Any

from nmt.data.digests import file_digest
from nmt.errors import UserError, is_printable
from nmt.data.files import write_atomic
from nmt.data.json_file import json_with_checksum, read_json, refuse_links, write_json
from nmt.data.run_lock import only_writer
from nmt.evaluate.metrics import STANDARD, scores_in

log = logging.getLogger("nmt")
CHECKSUMS = "checksums.json"
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
    content = json_with_checksum(result | {"sha256_of_hyp": hashlib.sha256(text).hexdigest()})
    with only_writer(folder, timeout=60.0):  # several evaluations may end at once
        path.unlink(missing_ok=True)
        write_atomic(folder / "hyp", text)
        write_atomic(path, content)
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
    if digest_or_empty(folder / "hyp") != stored["sha256_of_hyp"]:
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
    return [folder.parent, folder, folder / "hyp", folder / "result.json", folder / ".lock"]


def digest_or_empty(path: Path) -> str:
    """The sha256 of a file; empty where it cannot be read."""
    try:
        return file_digest(path)
    except UserError:
        return ""


def write_checksums(folder: Path) -> None:
    """Write checksums.json with the hash of every other file of a folder. Raises OSError."""
    write_json(folder / CHECKSUMS, {path.name: digest_or_empty(path) for path in sorted(folder.iterdir())})


def damaged_files(folder: Path) -> list[str]:
    """The names of the files of a folder that are not as `write_checksums` saw them; checksums.json if it is not."""
    digests = read_json(folder / CHECKSUMS)
    if digests is None:
        return [CHECKSUMS]
    return [name for name, digest in digests.items() if digest_or_empty(folder / name) != digest]

"""The scores of a test set, kept on disk beside its translations with all that they depend on.

result.json ends with its own checksum and has that of the translations beside it
(nmt/corpus/checksums.py), so that a changed bit in either is noticed.
"""

import hashlib
import json
import logging
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nmt.corpus.checksums import has_digest, read_json, write_json
from nmt.corpus.files import LOCK, only_writer, refuse_links, write_atomic
from nmt.evaluate.metrics import STANDARD, few_lines, find_metric, scores_in
from nmt.evaluate.significance import Gap
from nmt.view.text import visible

LINE_ENDS = re.compile(r"[\r\n]+")
LAST_COLUMN = "how it is computed"  # of a table of results
log = logging.getLogger("nmt")


@dataclass
class Result:
    """The scores of one set of sentences, and their translations."""

    name: str
    stored: dict[str, Any]  # scores, signatures and provenance: the content of its result.json
    hypotheses: list[str] = field(repr=False)
    metrics: Sequence[str] = STANDARD  # that were asked for; more may be stored
    gap: Gap | None = None  # of test_unseen, where test_seen was scored with it
    before: float | None = None  # BLEU of the run that the training started from

    @property
    def values(self) -> dict[str, float]:
        """The score of each metric, by name."""
        return {name: value for name, _, value, _ in scores_in(self.stored)}

    @property
    def signatures(self) -> dict[str, str]:
        """How each metric was computed, by name."""
        return {name: signature for name, _, _, signature in scores_in(self.stored)}

    @property
    def bleu(self) -> float:
        """From 0 to 100."""
        return self.stored["bleu"]

    @property
    def chrf(self) -> float:
        """From 0 to 100."""
        return self.stored["chrf"]

    @property
    def aer(self) -> float | None:
        """The alignment error rate, if there are gold links."""
        return self.stored.get("aer")

    @property
    def extractor(self) -> str:
        """The weights from which the alignment error rate was read, such as `layer 1, output`."""
        alignment = self.stored["alignment"]
        head = f"head {alignment['head']}, " if "head" in alignment else ""
        return f"layer {alignment['layer']}, {head}{alignment['decoder_step']}"

    def cells(self) -> dict[str, str]:
        """The cells of a row of a table, by column."""
        cells = {"set": self.name, "n": str(self.stored["sentences"])}
        if self.before is not None:
            cells["BLEU before"] = f"{self.before:.2f}"
        for name, metric, value, _ in scores_in(self.stored):
            if name in (*STANDARD, *self.metrics):
                cells[metric.label] = f"{value:.{metric.digits}f}"
        return cells | self.further_cells() | {LAST_COLUMN: self.signatures[STANDARD[0]]}

    def further_cells(self) -> dict[str, str]:
        """What is known of it besides the metrics, where there is something."""
        cells = {}
        if self.aer is not None:
            cells["AER"] = f"{self.aer:.3f} ({self.extractor})"
        if self.stored.get("loops"):
            cells["loops"] = str(self.stored["loops"])
        if self.gap:
            cells["gap"] = f"{self.gap.gap:.2f} ({self.gap.low:.2f} to {self.gap.high:.2f})"
        return cells

    def line(self) -> str:
        """SET, BLEU, chrF, signature and all other values, separated by tabs."""
        standard = [f"{self.values[name]:.{find_metric(name).digits}f}" for name in STANDARD]
        parts = [self.name, *standard, self.signatures[STANDARD[0]]]
        if self.before is not None:
            parts.append(f"before {self.before:.2f} ({self.bleu - self.before:+.2f})")
        for name, metric, value, signature in scores_in(self.stored):
            if name in self.metrics and name not in STANDARD:
                parts.append(f"{metric.label} {value:.{metric.digits}f} ({signature})")
        parts += map(" ".join, self.further_cells().items())
        if few := few_lines(self.stored):
            parts.append(few.strip(" ()"))
        return "\t".join(map(visible, parts))


def write_result(folder: Path, hypotheses: list[str], result: dict[str, Any]) -> None:
    """Write `hyp`, one translation a line, and then `result.json`.

    An old result.json is deleted first, so that it never belongs to other translations than those
    in `hyp`. Raises UserError where one of the files is a link.
    """
    folder.mkdir(parents=True, exist_ok=True)
    refuse_links(*result_paths(folder))
    text = "".join(LINE_ENDS.sub(" ", hypothesis) + "\n" for hypothesis in hypotheses).encode()
    digest = hashlib.sha256(text).hexdigest()
    with only_writer(folder, timeout=60.0):  # several evaluations may end at once
        (folder / "result.json").unlink(missing_ok=True)
        write_atomic(folder / "hyp", text)
        write_json(folder / "result.json", result | {"sha256_of_hyp": digest})


def read_result(folder: Path, provenance: dict[str, Any]) -> dict[str, Any] | None:
    """The stored result.json if it has this provenance, else None: then it must be computed again.

    None, with a warning, when it or the translations beside it are damaged. Raises UserError where
    they are links.
    """
    refuse_links(*result_paths(folder))
    stored = read_json(folder / "result.json")
    wanted = json.loads(json.dumps(provenance))
    if not isinstance(stored, dict) or stored.get("provenance") != wanted:
        return None
    if not has_digest(folder / "hyp", stored.get("sha256_of_hyp")):
        log.warning("%s is damaged; it is computed again.", folder / "hyp")
        return None
    return stored


def stored_scores(run_folder: Path, models: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The stored scores of these very weights by test set, with the search behind them."""
    scores = {}
    models = json.loads(json.dumps(models))
    for path in sorted(run_folder.glob("evaluate/*/result.json")):
        result = read_json(path)
        source = result.get("provenance") if isinstance(result, dict) else None
        if isinstance(source, dict) and source.get("models") == models:
            kept: dict[str, Any] = {}
            for name, _, value, signature in scores_in(result):
                kept[name] = value
                kept[f"{name}_signature"] = signature
            scores[path.parent.name] = kept | {"decode": source.get("decode")}
    return scores


def result_paths(folder: Path) -> list[Path]:
    """What a result is written to: two files and a lock in a folder of the run."""
    return [folder.parent, folder, folder / "hyp", folder / "result.json", folder / LOCK]


def check_writable(folder: Path) -> None:
    """Make the folder; raises OSError where nothing can be written into it."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass

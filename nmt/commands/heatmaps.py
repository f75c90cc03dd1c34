"""The heatmaps of nmt align: one file a pair, or one HTML page of all pairs."""

import logging
from pathlib import Path
from typing import Any

import nmt
from nmt.data.files import write_atomic
from nmt.errors import UserError
from nmt.evaluate.alignment import Alignment
from nmt.evaluate.extraction import Extractor
from nmt.runs.run import Run
from nmt.view.alignment_page import PagePair, alignment_page
from nmt.view.heatmap import png
from nmt.view.marks import GoldLinks

log = logging.getLogger("nmt")


def numbered(path: Path, number: int | None) -> Path:
    """FILE-1.png for FILE.png, or the same path for None."""
    if number is None or not path.name:
        return path
    return path.with_name(f"{path.stem}-{number}{path.suffix or '.png'}")


def write_heatmap(path: Path, alignment: Alignment, every_head: bool, gold: GoldLinks | None) -> None:
    """Write the heatmap of one pair, or with `every_head` of each head of a layer."""
    if not alignment.word_pair.target:
        log.warning("%s is not written: there is no word to draw.", path)
        return
    write(path, png(alignment.figure(every_head, gold)), "--png")


def write_page(path: Path, name: str, pairs: list[PagePair], run: Run, extractor: Extractor) -> None:
    """Write the HTML page of --html under the title `name`, with the provenance of the weights."""
    if not pairs:
        log.warning("%s is not written: there is no word to draw.", path)
        return
    models: list[dict[str, Any]] = run.provenance["models"]
    provenance = {
        "run": name,
        "checkpoint": ", ".join(f"{each['checkpoint']} ({each['origin']}, seed {each['seed']})" for each in models),
        "corpus": ", ".join(dict.fromkeys(each["corpus_hash"][:12] for each in models)),
        "weights": f"decoder step {extractor.decoder_step}, forced decoding of the target in float32",
        "made with": f"nmt {nmt.__version__}",
    }
    write(path, alignment_page(name, pairs, provenance).encode(), "--html")


def write(path: Path, content: bytes, option: str) -> None:
    """Write the file of an option; raises UserError where it cannot be written."""
    try:
        write_atomic(path, content)
    except OSError as error:
        raise UserError(f"{option} {path} cannot be written: {error.strerror or error}.") from None
    log.info("%s", path)

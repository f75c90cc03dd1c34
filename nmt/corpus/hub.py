"""Any data set of the Hugging Face hub, streamed into two text files in the download folder.

The revision is pinned: the first use takes the newest one and writes it down; later ones read the
same files and need no network. No code of a data set is run: `datasets` reads its Parquet, JSON or
CSV files and refuses its scripts.
"""

import json
import logging
import os
import re
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from nmt.config.schema import DataConfig
from nmt.corpus.checksums import file_digest, text_digest
from nmt.corpus.files import atomic_folder
from nmt.corpus.origin import Origin, plain_origin
from nmt.corpus.parallel_text import LineWriter
from nmt.corpus.tables import Columns, Skipped, select_fields
from nmt.errors import UserError, printable

NAME = r"[A-Za-z0-9][\w.-]{0,95}"
WORD = re.compile(rf"hub:({NAME}/{NAME})(?:/({NAME}))?(?::({NAME}))?(?:@({NAME}))?", re.ASCII)
TIMEOUT = 10  # seconds without an answer
logger = logging.getLogger("nmt")


def find_data_set(word: str, data: DataConfig, downloads: Path) -> Callable[[], Origin]:
    """A function that downloads a data set unless an earlier call did.

    Raises UserError if a word names no data set.
    """
    match = WORD.fullmatch(word)
    if not match:
        raise UserError(
            f"{word} is not possible; write hub:OWNER/NAME, hub:OWNER/NAME/CONFIGURATION or "
            "hub:OWNER/NAME:SPLIT, and @REVISION behind it for a certain one."
        )
    columns = Columns(data, word)
    recipe = [*match.groups(), data.source, data.target, *columns.choices]
    ending = text_digest(json.dumps(recipe))[:10]
    folder = downloads / "hub" / f"{match[1].replace('/', '--')}-{ending}"
    files = [folder / f"text.{language}" for language in (data.source, data.target)]

    def fetch() -> Origin:
        if not all(file.is_file() for file in files):
            write_text(word, match, columns, folder, files)
        origin = plain_origin(word, files[0], files[1], read_about(folder, files))
        origin.name = match[1].split("/")[1]
        origin.key = word.partition("@")[0]
        return origin

    return fetch


def read_about(folder: Path, files: list[Path]) -> dict[str, Any]:
    """Where the files came from; raises UserError if they are not those that were written."""
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
        if about.pop("text") == [file_digest(file) for file in files]:
            return about
    raise UserError(
        f"The download in {folder} is damaged; delete the folder, and it is downloaded again."
    )


def write_text(
    word: str, match: re.Match[str], columns: Columns, folder: Path, files: list[Path]
) -> None:
    """Write the two columns of a data set to files; raises UserError, and then leaves nothing."""
    name, configuration, split, revision = match.groups()
    skipped = Skipped()
    pairs = 0
    with atomic_folder(folder) as temporary, ExitStack() as stack:
        source, target = (stack.enter_context(LineWriter(temporary / file.name)) for file in files)
        try:
            about = describe(name, revision)
            rows = stream_rows(name, configuration, split or "train", about["revision"])
            for source_text, target_text in select_fields(rows, columns, skipped):
                source.write(source_text)
                target.write(target_text)
                pairs += 1
        except UserError:
            raise
        except Exception as error:  # the hub and its libraries fail in many ways
            if isinstance(error, OSError) and error.filename is not None:  # the disk
                raise
            reason = printable(error, 300).rstrip(". ")
            raise UserError(
                f"{word} cannot be downloaded ({pairs:,} pairs came): {reason}."
            ) from None
        if not pairs:
            raise UserError(f"{word} has no pair of sentences.")
        about["text"] = [source.digest.hexdigest(), target.digest.hexdigest()]

        (temporary / "about.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    for reason, count in skipped.items():
        logger.warning("%s: %s records left out: %s.", word, f"{count:,}", reason)
    logger.info("%s: %s pairs, revision %s", word, f"{pairs:,}", about["revision"])


def describe(name: str, revision: str | None) -> dict[str, Any]:
    """The address, the revision (a commit) and the licence of a data set."""
    from huggingface_hub import HfApi  # here, because the import takes a second

    info = HfApi().dataset_info(name, revision=revision, timeout=TIMEOUT)
    if not info.sha:
        raise UserError(f"hub:{name} cannot be downloaded: the hub names no revision of it.")
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co")
    about: dict[str, Any] = {"url": f"{endpoint}/datasets/{name}", "revision": info.sha}
    license = info.card_data.get("license") if info.card_data else None
    if license:
        about["license"] = printable(str(license), 200)
    return about


def stream_rows(name: str, configuration: str | None, split: str, revision: str) -> Any:
    """The rows of a data set, one after another; its own code is never run."""
    import datasets  # here, because the import alone takes more than a second

    # before version 4 the environment could allow it
    datasets.config.HF_DATASETS_TRUST_REMOTE_CODE = False
    return iter(
        datasets.load_dataset(name, configuration, split=split, revision=revision, streaming=True)
    )

"""Corpora of OPUS (https://opus.nlpl.eu) by name, version and language pair.

Each is a zip archive of two aligned files.
"""

import json
import re
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

from nmt.config.schema import DataConfig
from nmt.corpus.checksums import cached_digests
from nmt.corpus.download import download
from nmt.corpus.files import report_write_errors, write_atomic
from nmt.corpus.origin import Origin, two_files
from nmt.corpus.packed import PackedFile, member_names
from nmt.corpus.parallel_text import read_lines
from nmt.errors import UserError, printable

WORD = re.compile(
    r"opus:([A-Za-z0-9][\w.+-]{0,99})/([A-Za-z0-9][\w.+-]{0,99})(?:@([0-9a-f]{64}))?", re.ASCII
)


def find_corpus(word: str, data: DataConfig, downloads: Path) -> Callable[[], Origin]:
    """A function that downloads a corpus unless an earlier call did.

    Raises UserError if a word names no corpus.
    """
    match = WORD.fullmatch(word)
    if not match:
        raise UserError(
            f"{word} is not possible; write opus:CORPUS/VERSION, such as opus:Tatoeba/v2023-04-12 "
            "(versions are listed at https://opus.nlpl.eu), and @SHA256 behind it if the file "
            "must have this checksum."
        )

    corpus, version, sha256 = match.groups()
    pair = "-".join(sorted((data.source, data.target)))
    url = f"{data.opus_url.rstrip('/')}/OPUS-{corpus}/{version}/moses/{pair}.txt.zip"
    path = downloads / "opus" / corpus / version / f"{pair}.txt.zip"
    about_path = path.with_name(path.name + ".json")

    def check(archive: Path) -> None:
        for file in find_sides(archive, data):
            for _ in file.blocks():  # to the end, which checks the CRC
                pass

    def fetch() -> Origin:
        about: dict[str, Any] = {}
        try:
            about = json.loads(about_path.read_text(encoding="utf-8"))
            [digest] = cached_digests([path], downloads.parent / "digests.json")
            is_there = digest == about["sha256"] and sha256 in (None, digest)
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            is_there = False
        if not is_there:
            with report_write_errors(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                about = download(url, path, check, sha256) | read_license(path)
                write_atomic(about_path, json.dumps(about, indent=1) + "\n")
        return two_files(word, corpus, f"opus:{corpus}", [path], find_sides(path, data), about)

    return fetch


def find_sides(path: Path, data: DataConfig) -> tuple[PackedFile, PackedFile]:
    """The two aligned files of an archive; raises UserError unless it has one of each language."""
    sides = []
    for language in (data.source, data.target):
        names = [name for name in member_names(path) if name.endswith(f".{language}")]
        if len(names) != 1:
            raise UserError(
                f"{path} does not have one file that ends in .{data.source} and one in "
                f".{data.target}."
            )
        sides.append(PackedFile(path, names[0]))
    return sides[0], sides[1]


def read_license(path: Path) -> dict[str, str]:
    """{"license": its beginning} if the archive has a file of this name, else {}."""
    for name in member_names(path):
        if name.upper() in ("LICENSE", "LICENSE.TXT"):
            beginning = " ".join(islice(read_lines(PackedFile(path, name)), 20))
            return {"license": printable(beginning, 200)}
    return {}

"""Corpora of OPUS (https://opus.nlpl.eu) by name, version and language pair, as zip archives of two aligned files."""

import json
import re
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from nmt.config.schema import DataConfig
from nmt.data.checksums import cached_digests
from nmt.data.download import download
from nmt.data.files import report_write_errors, write_atomic
from nmt.data.origin import Origin, read_sides
from nmt.data.packed import PackedFile, member_names
from nmt.data.parallel_text import read_lines
from nmt.data.tables import Pair
from nmt.errors import UserError, is_printable, printable

WORD = re.compile(r"opus:([A-Za-z0-9][\w.+-]{0,99})/([A-Za-z0-9][\w.+-]{0,99})(?:@([0-9a-f]{64}))?", re.ASCII)


def find(word: str, data: DataConfig, downloads: Path) -> Callable[[], Origin]:
    """A function that downloads a corpus unless an earlier call did; raises UserError for what is no such word."""
    match = WORD.fullmatch(word)
    if not match:
        raise UserError(
            f"{word} is not possible; write opus:CORPUS/VERSION, such as opus:Tatoeba/v2023-04-12 (versions are listed "
            "at https://opus.nlpl.eu), and @SHA256 behind it if the file must have this checksum."
        )
    if not re.match(r"https?://", data.opus_url) or not is_printable(data.opus_url):
        raise UserError(f"data.opus_url={data.opus_url!a:.120} is no address that begins with http:// or https://.")
    corpus, version, sha256 = match.groups()
    pair = "-".join(sorted((data.source, data.target)))
    url = f"{data.opus_url.rstrip('/')}/OPUS-{corpus}/{version}/moses/{pair}.txt.zip"
    path = downloads / "opus" / corpus / version / f"{pair}.txt.zip"
    about_path = path.with_name(path.name + ".json")

    def fetch() -> Origin:
        about = downloaded(path, about_path, downloads, sha256)
        if about is None:
            with report_write_errors(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                about = download(url, path, lambda part: check_archive(part, data), sha256)
                about |= read_license(path)
                write_atomic(about_path, json.dumps(about, indent=1) + "\n")
        return archive_origin(word, corpus, f"opus:{corpus}", path, data, about)

    return fetch


def downloaded(path: Path, about_path: Path, downloads: Path, sha256: str | None) -> dict[str, Any] | None:
    """What is known about a file that an earlier call downloaded; None if there is none, or if it has changed."""
    try:
        about = json.loads(about_path.read_text(encoding="utf-8"))
        [found] = cached_digests([path], downloads.parent / "digests.json")
        return about if found == about["sha256"] and sha256 in (None, found) else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def check_archive(path: Path, data: DataConfig) -> None:
    """Read both files of an archive to their ends, which checks their CRC; raises UserError."""
    for file in archive_origin("", "", "", path, data, {}).sides or ():
        for _ in file.blocks():
            pass


def find_members(path: Path, data: DataConfig) -> Pair | None:
    """The names of the two aligned files in an archive, None if there are none; raises UserError."""
    names = member_names(path)
    ends = [[name for name in names if name.endswith(f".{language}")] for language in (data.source, data.target)]
    return (ends[0][0], ends[1][0]) if all(len(found) == 1 for found in ends) else None


def archive_origin(word: str, name: str, key: str, path: Path, data: DataConfig, about: dict[str, Any]) -> Origin:
    """The pairs of two files in an archive, line by line; raises UserError if they are not there."""
    members = find_members(path, data)
    if members is None:
        raise UserError(f"{path} does not have one file that ends in .{data.source} and one in .{data.target}.")
    sides = PackedFile(path, members[0]), PackedFile(path, members[1])
    return Origin(word, name, key, str(sides[0]), [path], partial(read_sides, sides), sides, about)


def read_license(path: Path) -> dict[str, str]:
    """{"license": its beginning} if the archive has a file of this name, else {}."""
    for name in member_names(path):
        if name.upper() in ("LICENSE", "LICENSE.TXT"):
            return {"license": printable(" ".join(islice(read_lines(PackedFile(path, name)), 20)), 200)}
    return {}

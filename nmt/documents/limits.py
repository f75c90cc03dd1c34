"""How large a file may be: what it unpacks to, and how deep it is.

A file that is larger is refused before it is read.
"""

import re
import struct
import zipfile
from contextlib import suppress
from io import BytesIO

from nmt.corpus.packed import DAMAGED, OLE, archive_problem
from nmt.documents.segment import Malformed

DEEPEST = 100  # values inside each other
MOST_VALUES = 1_000_000  # of YAML, its aliases written out
WHAT = "package of XML files"
ENCRYPTED = 1  # flags of an entry
UTF_8 = 0x800
PROTECTED = "it is protected by a password; save it without one"
DAMAGED_ARCHIVE = (
    *DAMAGED,
    RuntimeError,
    NotImplementedError,
    ValueError,
    OSError,
    struct.error,
    LookupError,
)
BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|(?P<open>[\[{])|(?P<close>[\]}])', re.DOTALL)


def unpack(data: bytes) -> tuple[zipfile.ZipFile, dict[str, bytes]]:
    """An archive and its files by their names.

    Raises Malformed, also for one that unpacks to too much. The sizes are those that the archive
    states; zipfile reads no more than these.
    """
    if data.startswith(OLE):
        # An Office of today encrypts its files in this way
        if "EncryptedPackage".encode("utf-16-le") in data:
            raise Malformed(PROTECTED)
        raise Malformed(
            f"this is no {WHAT}, but a file of an Office before 2007; save it as .docx, .xlsx or "
            ".pptx"
        )
    try:
        archive = zipfile.ZipFile(BytesIO(data))
        entries = archive.infolist()
    except DAMAGED_ARCHIVE as error:
        raise Malformed(f"this is no {WHAT}, or it is damaged ({error})") from None
    if any(entry.flag_bits & ENCRYPTED for entry in entries):
        raise Malformed(PROTECTED)
    for entry in entries:
        # Names without the flag for UTF-8 are read as cp437, but many programs write UTF-8
        if not entry.flag_bits & UTF_8:
            with suppress(UnicodeError):
                entry.filename = entry.filename.encode("cp437").decode()
    problem = archive_problem(entries)
    if problem:
        raise Malformed(problem)
    try:
        return archive, {entry.filename: archive.read(entry) for entry in entries}
    except DAMAGED_ARCHIVE as error:
        raise Malformed(f"this is no {WHAT}, or it is damaged ({error})") from None


def check_brackets(text: str) -> None:
    """Raise Malformed for lists and objects that are too deep inside each other.

    They are those of JSON, or of what looks like it.
    """
    depth = 0
    for match in BRACKETS.finditer(text):
        if match["open"]:
            depth += 1
        elif match["close"]:
            depth -= 1
        if depth > DEEPEST:
            raise Malformed(
                f"more than {DEEPEST} lists or objects are inside each other", match.start()
            )

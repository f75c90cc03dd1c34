"""EPUB: chapters in XHTML, for the reader of HTML, and contents and properties in XML."""

import posixpath
from collections import Counter
from typing import Any
from urllib.parse import unquote

from nmt.documents.counting import count_elements, count_xml
from nmt.documents.html import read_page
from nmt.documents.limits import unpack
from nmt.documents.packages import Package, leave_rest
from nmt.documents.segment import Document, Field, Malformed
from nmt.documents.xml_files import declared_encoding, local, parse

NAME = "EPUB"
CONTAINER = "META-INF/container.xml"
ENCRYPTION = "META-INF/encryption.xml"
# Methods that encrypt fonts alone, so that they are not copied.
FONTS_ALONE = {"http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC"}
XHTML = "application/xhtml+xml"
CHAPTERS = {XHTML, "text/html", "text/x-oeb1-document"}  # the latter two of old books
MISSING = "missing files"  # that the book lists
CONTENTS = "application/x-dtbncx+xml"
TRANSLATED = {"title", "description", "subject"}  # of the properties of a book
PEOPLE = "names and rights"
KEPT = {"creator", "contributor", "publisher", "rights", "source"}


def read_epub(data: bytes) -> Document:
    package = Package(data)
    if ENCRYPTION in package.files:
        methods = parse(package.files[ENCRYPTION], ENCRYPTION).iter("{*}EncryptionMethod")
        if {method.get("Algorithm", "") for method in methods} - FONTS_ALONE:
            raise Malformed(
                "it is encrypted (DRM); only its publisher or seller can give you a copy that can "
                "be read"
            )
    for name in package_documents(package.files):
        root = package.tree(name)
        for element in root.iterfind(".//{*}metadata/{*}*"):
            is_property = "purl.org/dc" in element.tag and (element.text or "").strip()
            if is_property and local(element) in TRANSLATED:
                package.add_text(name, element)
            elif is_property and local(element) in KEPT:
                package.document.leave(element.text, PEOPLE)
        for path, kind in manifest(name, root):
            if path in package.writers:
                continue
            if path not in package.files:
                package.document.leave(path, MISSING)
            elif kind in CHAPTERS:
                read_chapter(package, path)
            elif kind == CONTENTS:
                read_contents(package, path)
    return package.document


def package_documents(files: dict[str, bytes]) -> list[str]:
    """The names of the files that list all others; raises Malformed without one."""
    if CONTAINER not in files:
        raise Malformed(f"this is no {NAME}: the archive has no {CONTAINER}")
    names: list[str] = []
    for element in parse(files[CONTAINER], CONTAINER).iter("{*}rootfile"):
        name = element.get("full-path", "")
        if name in files and name not in names:
            names.append(name)
    if not names:
        raise Malformed(f"this is no {NAME}: {CONTAINER} names no file that is there")
    return names


def manifest(name: str, root: Any) -> list[tuple[str, str]]:
    """The paths and types of the files that a package document lists."""
    folder = posixpath.dirname(name)
    files = []
    for item in root.iter("{*}item"):
        if "://" in item.get("href", ""):  # such as a video, which is not in the book
            continue
        path = posixpath.normpath(posixpath.join(folder, unquote(item.get("href", ""))))
        files.append((path, item.get("media-type", "")))
    return files


def read_contents(package: Package, path: str) -> None:
    """Add the fields of a table of contents."""
    root = package.tree(path)
    taken: set[Any] = set()  # elements whose texts are in fields
    for element in root.iter("{*}text"):
        is_author = local(element.getparent()) == "docAuthor"
        if not is_author and (element.text or "").strip():
            taken.add(element)
            package.add_text(path, element, is_line=True)
    reasons = {"docAuthor": PEOPLE}
    leave_rest(package.document, root, lambda element: reasons.get(local(element)), taken)


def read_chapter(package: Package, path: str) -> None:
    """Add the field of a chapter; raises Malformed."""
    data = package.files[path]
    try:
        text = data.decode()
    except UnicodeDecodeError:
        encoding = declared_encoding(parse(data, path))
        raise Malformed(
            f"{path} is {encoding}, not UTF-8; save the book anew with a program for EPUB"
        ) from None
    written = [text]
    try:
        parts = list(read_page(text))
    except Malformed as error:
        line = text.count("\n", 0, error.position or 0) + 1
        raise Malformed(f"{path}, line {line}: {error}") from None
    package.writers[path] = lambda: written[-1].encode()
    package.add(path, Field(parts, written.append))


def count_epub(data: bytes) -> Counter[str]:
    """Files inside, and the elements of each chapter and table of contents."""
    counts = Counter[str]()
    _, files = unpack(data)
    kinds: dict[str, str] = {}
    for name in package_documents(files):
        root = parse(files[name], name)
        kinds |= dict(manifest(name, root))
        add_named(counts, name, count_xml(root, TRANSLATED))
    for name, content in files.items():
        counts["files inside"] += 1
        kind = kinds.get(name, "")
        if kind == XHTML:
            add_named(counts, name, count_elements(content))
        elif kind in CHAPTERS:
            counts["chapters of old books"] += 1  # which need not be XML
        elif kind == CONTENTS:
            add_named(counts, name, count_xml(parse(content, name), ["text"]))
        elif kind:
            counts[f"bytes of {name}"] = len(content)
    return counts


def add_named(counts: Counter[str], name: str, counts_of_file: Counter[str]) -> None:
    for what, number in counts_of_file.items():
        counts[f"{what} in {name}"] += number

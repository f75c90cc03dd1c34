"""The formats of documents: a new one is one entry of FORMATS and its test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from nmt.documents.html import read_html
from nmt.documents.markdown import InlineReader, read_markdown
from nmt.documents.plain_text import read_subtitles, read_text
from nmt.documents.segment import Document, Field, Malformed, Part
from nmt.documents.stores import AsciiDocReader, read_callback, read_json, read_store, read_toml, read_yaml
from nmt.documents.xml_files import DOCX, IDML, ODF, PPTX, read_package, read_xliff
from nmt.errors import UserError

BYTES = "every other byte stays"
OPENS = "it opens, and differs in its text alone"


class Format(NamedTuple):
    extensions: str
    read: Callable[[bytes, bool], Document]
    promise: str  # what is kept of the file
    has_translations: bool = False  # so that `retranslate` has a meaning


def read_stream(reader: Callable[[str], Iterator[Part]], data: bytes, _: bool) -> Document:
    """A document that is its parts, one after the other."""
    text = data.decode()
    if "\0" in text:
        raise Malformed("a NUL character; it is no text", text.index("\0"))
    mark = "\ufeff" * text.startswith("\ufeff")  # of the byte order
    written = [text.removeprefix(mark)]
    field = Field(list(reader(written[0])), written.append)
    return Document([field], lambda: (mark + written[-1]).encode())


MDX = {"extract_code_blocks": False, "extract_frontmatter": False, "no_placeholders": True}
FORMATS = {
    "plain text": Format(".txt", partial(read_stream, read_text), BYTES),
    "Markdown": Format(".md .markdown", partial(read_stream, read_markdown), BYTES),
    "HTML": Format(".html .htm .xhtml", partial(read_stream, read_html), BYTES),
    "subtitles": Format(".srt .vtt .ass .ssa", partial(read_stream, read_subtitles), BYTES),
    "JSON": Format(".json .arb", read_json, BYTES),
    "TOML": Format(".toml", read_toml, OPENS),
    "YAML": Format(".yaml .yml", read_yaml, OPENS),
    "gettext": Format(".po .pot", partial(read_store, "pypo", "pofile"), OPENS, True),
    "Qt Linguist": Format(".ts", partial(read_store, "ts2", "tsfile"), OPENS, True),
    "CSV": Format(".csv", partial(read_store, "csvl10n", "csvfile"), OPENS, True),
    "Java": Format(".properties", partial(read_store, "properties", "javautf8file"), OPENS),
    ".NET": Format(".resx", partial(read_store, "resx", "RESXFile"), OPENS),
    "Android": Format(".xml", partial(read_store, "aresource", "AndroidResourceFile"), OPENS),
    "AsciiDoc": Format(
        ".adoc .asciidoc", partial(read_callback, "asciidoc", "AsciiDocFile", {}, AsciiDocReader), OPENS
    ),
    "MDX": Format(".mdx", partial(read_callback, "mdxfile", "MDXFile", MDX, InlineReader), OPENS),
    "XLIFF": Format(".xlf .xliff", read_xliff, OPENS, True),
    "Word": Format(".docx", partial(read_package, DOCX), OPENS),
    "PowerPoint": Format(".pptx", partial(read_package, PPTX), OPENS),
    "OpenDocument": Format(".odt .ods .odp", partial(read_package, ODF), OPENS),
    "InDesign": Format(".idml", partial(read_package, IDML), OPENS),
}
EXTENSIONS = {extension: each for each in FORMATS.values() for extension in each.extensions.split()}


def open_document(path: Path, retranslate: bool = False) -> Document:
    """Read a file by its extension; raises UserError for another one, and for what is not of this format."""
    extension = path.suffix.lower()
    if extension not in EXTENSIONS:
        possible = ", ".join(EXTENSIONS)
        raise UserError(f"--document {path}: '{path.suffix}' is of no known format; possible: {possible}.")
    if retranslate and not EXTENSIONS[extension].has_translations:
        possible = ", ".join(each for each in EXTENSIONS if EXTENSIONS[each].has_translations)
        raise UserError(f"--retranslate is for {possible}; other documents have no translations in them.")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"--document {path} cannot be read: {error.strerror or error}.") from None
    return read_document(path, data, retranslate)


def read_document(path: Path, data: bytes, retranslate: bool = False) -> Document:
    """Read a document of a known extension; nothing is read from the disk. Raises UserError for a malformed one."""
    try:
        return EXTENSIONS[path.suffix.lower()].read(data, retranslate)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UserError(
            f"{path}, line {line}, is not UTF-8; convert the file, as with iconv -f ENCODING -t UTF-8."
        ) from None
    except Malformed as error:
        line = error.line or 0
        if error.position is not None:
            line = data.decode(errors="replace").count("\n", 0, error.position) + 1
        raise UserError(f"{path}{f', line {line}' if line else ''}: {error}.") from None

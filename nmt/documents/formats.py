"""The formats of documents. A new one needs a reader, an entry of FORMATS and a test."""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from nmt.corpus.languages import differ
from nmt.documents.android import read_android
from nmt.documents.asciidoc import count_lines, read_asciidoc
from nmt.documents.counting import count_cues, count_elements, count_paragraphs
from nmt.documents.csv_files import Languages, count_table, read_table
from nmt.documents.epub import count_epub, read_epub
from nmt.documents.gettext import count_po, read_po
from nmt.documents.html import read_page
from nmt.documents.json_files import count_json, read_json
from nmt.documents.markdown import read_markdown
from nmt.documents.markdown_blocks import count_blocks
from nmt.documents.office import DOCX, IDML, PPTX, XLSX, OfficeFormat, count_office, read_office
from nmt.documents.opendocument import count_odf, read_odf
from nmt.documents.plain_text import read_text
from nmt.documents.properties import count_properties, read_properties
from nmt.documents.qt_linguist import read_ts
from nmt.documents.resx import read_resx
from nmt.documents.segment import Document, Malformed, Part, TextFile, check_text
from nmt.documents.subtitles import read_subtitles
from nmt.documents.toml_files import count_toml, read_toml
from nmt.documents.xliff import count_xliff, read_xliff
from nmt.documents.xml_content import count_content
from nmt.documents.yaml_files import count_yaml, read_yaml
from nmt.errors import UserError, printable

MOST_STATED = 2  # languages of a file that a message names


class Format(NamedTuple):
    """How the files of some extensions are read, and what is counted in them."""

    extensions: str
    read: Callable[..., Document]  # of bytes, with the options that it has
    contents: Callable[[bytes], Counter[str]]  # what a translation must not have less of
    has_translations: bool = False  # it has the option `retranslate`
    has_columns: bool = False  # it has the options `columns` and `languages`
    are_alike: bool = True  # a file with one of its extensions may have any other one

    def others(self, extension: str) -> list[str]:
        """The extensions that a file with this one may have."""
        return self.extensions.split() if self.are_alike else [extension]


def read_stream(reader: Callable[[str], Iterator[Part]], data: bytes) -> Document:
    """A document that is its parts, one after the other."""
    document = TextFile(data.decode())
    check_text(document.text)
    document.add(list(reader(document.text)), 0, len(document.text))
    return document


def office_format(extensions: str, kind: OfficeFormat) -> Format:
    """A format of XML files with runs in an archive."""
    return Format(extensions, partial(read_office, kind), partial(count_office, kind))


FORMATS = {
    "plain text": Format(".txt", partial(read_stream, read_text), count_paragraphs),
    "Markdown": Format(".md .markdown", partial(read_stream, read_markdown), count_blocks),
    "HTML": Format(".html .htm .xhtml", partial(read_stream, read_page), count_elements),
    "subtitles": Format(
        ".srt .vtt .ass .ssa", partial(read_stream, read_subtitles), count_cues, are_alike=False
    ),
    "JSON": Format(".json .arb", read_json, count_json),
    "TOML": Format(".toml", read_toml, count_toml),
    "YAML": Format(".yaml .yml", read_yaml, count_yaml),
    "gettext": Format(".po .pot", read_po, count_po, has_translations=True),
    "Qt Linguist": Format(
        ".ts",
        read_ts,
        partial(count_content, texts=["source", "translation"], remade=["byte"]),
        has_translations=True,
    ),
    "tables": Format(
        ".csv .tsv",
        read_table,
        count_table,
        has_translations=True,
        has_columns=True,
        are_alike=False,
    ),
    "Java": Format(".properties", read_properties, count_properties),
    ".NET": Format(".resx", read_resx, partial(count_content, texts=["value"])),
    "Android": Format(".xml", read_android, partial(count_content, texts=["string", "item"])),
    "AsciiDoc": Format(".adoc .asciidoc", partial(read_stream, read_asciidoc), count_lines),
    "MDX": Format(
        ".mdx",
        partial(read_stream, partial(read_markdown, is_mdx=True)),
        partial(count_blocks, is_mdx=True),
    ),
    "XLIFF": Format(".xlf .xliff", read_xliff, count_xliff, True),
    "Word": office_format(".docx", DOCX),
    "PowerPoint": office_format(".pptx", PPTX),
    "Excel": office_format(".xlsx", XLSX),
    "InDesign": office_format(".idml", IDML),
    "EPUB": Format(".epub", read_epub, count_epub),
    "OpenDocument": Format(".odt .ods .odp", read_odf, count_odf, are_alike=False),
}
# What to do with a file of another format.
INSTEAD = {
    **dict.fromkeys((".doc", ".rtf"), "save it as .docx or .odt"),
    ".xls": "save it as .xlsx or .ods",
    ".ppt": "save it as .pptx or .odp",
    ".pdf": "a PDF has no paragraphs; translate the document that it was made of, or convert it to "
    ".docx or .html",
    **dict.fromkeys((".mobi", ".azw3"), "convert it to .epub"),
    ".indd": "export it from InDesign as .idml",
}
EXTENSIONS: dict[str, Format] = {}
for _format in FORMATS.values():
    EXTENSIONS.update(dict.fromkeys(_format.extensions.split(), _format))


def instead(extension: str) -> str:
    """What can be done with a document of an extension that is not known."""
    return INSTEAD.get(extension, f"possible: {', '.join(EXTENSIONS)}")


def check_extension(output: str, path: Path) -> None:
    """Raise UserError where the extension of a translation is that of another kind of document.

    One that is of no kind, such as .bak, may be anything, and so may none.
    """
    old = path.suffix.lower()
    new = Path(output).suffix.lower()
    if old not in EXTENSIONS or new not in {*EXTENSIONS, *INSTEAD}:
        return
    possible = EXTENSIONS[old].others(old)
    if new not in possible:
        raise UserError(
            f"--output {output}: the translation of a file in {old} is in {old}, not in {new}; "
            f"possible: {', '.join(possible)}."
        )


def open_document(
    path: Path, retranslate: bool = False, columns: str = "", languages: Languages = ("", "")
) -> Document:
    """Read a file by its extension.

    Raises UserError for another extension, and for what is not of this format.
    """
    extension = path.suffix.lower()
    if extension not in EXTENSIONS:
        raise UserError(f"{path}: '{path.suffix}' is of no known format; {instead(extension)}.")
    with_translations = [name for name, kind in EXTENSIONS.items() if kind.has_translations]
    if retranslate and extension not in with_translations:
        raise UserError(
            f"--retranslate is for {', '.join(with_translations)}; other documents have no "
            "translations in them."
        )
    with_columns = [name for name, kind in EXTENSIONS.items() if kind.has_columns]
    if columns and extension not in with_columns:
        raise UserError(
            f"--columns is for {', '.join(with_columns)}; other documents have no columns."
        )
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}.") from None
    return read_document(path, data, retranslate, columns, languages)


def read_document(
    path: Path,
    data: bytes,
    retranslate: bool = False,
    columns: str = "",
    languages: Languages = ("", ""),
) -> Document:
    """Read a document of a known extension; nothing is read from the disk.

    Raises UserError for a malformed one. Of a table, `columns` says which ones are translated
    (2:3), else their names or the `languages` do. Other files must not state other languages.
    """
    if data.startswith(b"%PDF-"):
        raise UserError(f"{path}: {INSTEAD['.pdf']}.")
    of_format = EXTENSIONS[path.suffix.lower()]
    options: dict[str, Any] = {}
    if of_format.has_translations:
        options["retranslate"] = retranslate
    if of_format.has_columns:
        options |= {"columns": columns, "languages": languages}
    try:
        document = of_format.read(data, **options)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UserError(
            f"{path}, line {line}, is not UTF-8; convert the file, as with iconv -f ENCODING -t "
            "UTF-8."
        ) from None
    except Malformed as error:
        line = error.line or 0
        if error.position is not None:
            line = data.decode("utf-8-sig", "replace").count("\n", 0, error.position) + 1
        place = f"{path}, line {line}" if line else str(path)
        raise UserError(f"{place}: {error}.") from None
    except RecursionError:
        raise UserError(f"{path}: what it has inside each other is too deep to be read.") from None
    check_languages(path, document, languages)
    document.serialize = partial(serialize_checked, path, data, document.serialize, of_format)
    document.data = data
    return document


def check_languages(path: Path, document: Document, languages: Languages) -> None:
    """Raise UserError where a file states other languages than those of its translation.

    Its translations would be in a language that all who read the file take for another one.
    """
    wrong: dict[str, None] = {}
    for stated in document.stated:
        if differ(stated.code, languages[stated.is_target]):
            wrong[f"{stated.name} is {printable(stated.code)}"] = None
    if wrong:
        raise UserError(
            f"{path}: its {' and its '.join([*wrong][:MOST_STATED])}, but the translation is from "
            f"{' into '.join(languages)}; choose a model or a direction for the languages of the "
            "file, or correct what it states."
        )


def serialize_checked(
    path: Path, data: bytes, serialize: Callable[[], bytes], of_format: Format
) -> bytes:
    """A translated document; raises UserError if it cannot be read again, or has less in it."""
    new = serialize()
    if new == data:
        return new
    try:
        counts = of_format.contents(new)
    except Exception as error:  # of any kind: each library has its own
        raise UserError(
            f"{path}: its translation cannot be read again ({error}), so it is not written."
        ) from error
    for name, count in of_format.contents(data).items():
        if counts[name] < count:
            raise UserError(
                f"{path}: its translation would have {counts[name]} {name} instead of {count}, so "
                "it is not written. This is a fault of the program; please report it with the "
                "file."
            )
    return new

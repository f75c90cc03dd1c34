"""The three laws of documents, and readers of each format that know nothing of segments.

Identity: a translation that returns each text unchanged gives the same file. Accounting: every word of the file is in
a segment or in what is counted as left. Marking: a translation that puts every sentence between ⟦ and ⟧ marks each
once, and without the marks the file is the one that was read.
"""

import csv
import html
import io
import json
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np

from nmt.documents.formats import read_document
from nmt.documents.placement import TranslatedSentence
from nmt.documents.segment import Document, Segment, segments
from nmt.documents.translation import translate_document
from nmt.documents.word_weights import WordWeights, whole_words

WORD = re.compile(r"[^\W\d_]{2,}")
MARKS = re.compile("[⟦⟧]")


class MarkingTranslator:
    """Puts each sentence between ⟦ and ⟧; each word of it comes from itself."""

    keeps_units = True
    memory = None

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def translate(self, sentences: Sequence[str], weighed: Sequence[bool]) -> Iterator[TranslatedSentence]:
        for sentence in sentences:
            self.sentences.append(sentence)
            words = whole_words(sentence)
            shifted = [(start + 1, end + 1) for start, end in words]
            length = len(sentence)
            target = [(0, 1), *shifted, (length + 1, length + 2)]
            weights = np.eye(len(target), len(words), -1)
            yield TranslatedSentence(f"⟦{sentence}⟧", WordWeights(words, target, weights))

    def weigh(self, sentence: str, translation: str) -> None:
        raise AssertionError("there is no memory")


# ----------------------------------------------------------------------------------------------------------------------
# Laws


def check_identity(path: Path, data: bytes) -> None:
    """Nothing is changed: the bytes stay, or what `parsed` makes of them where the format only promises that."""
    new = read_document(path, data).write()
    suffix = path.suffix.lower()
    if suffix in SAME_BYTES:
        assert new == data
    else:
        assert WALKERS[suffix](new) == WALKERS[suffix](data)


def check_accounting(path: Path, data: bytes) -> None:
    document = read_document(path, data)
    missing = Counter(words_of(WALKERS[path.suffix.lower()](data))) - accounted(document)
    assert not missing, f"neither translated nor left: {list(missing)[:20]}"


def check_marking(path: Path, data: bytes) -> int:
    """How many sentences were marked."""
    document = read_document(path, data)
    translator = MarkingTranslator()
    translate_document(document, "en", translator)
    new = document.write()
    texts = WALKERS[path.suffix.lower()](new)
    marks = Counter(MARKS.findall("".join(texts)))
    count = len(translator.sentences)
    assert marks["⟦"] == marks["⟧"] >= count, f"{count} sentences, {marks} marks"
    before = squeezed(WALKERS[path.suffix.lower()](data))
    assert squeezed([MARKS.sub("", text) for text in texts]) == before
    return count


def squeezed(texts: Sequence[str]) -> str:
    return re.sub(r"\s+", "", "".join(texts))


def words_of(texts: Sequence[str]) -> Iterator[str]:
    for text in texts:
        yield from WORD.findall(text)


def accounted(document: Document) -> Counter[str]:
    """The words of all segments, as they are written and as plain text, and of all that is left."""
    counts = Counter[str]()
    for field in document.fields:
        for part in field.parts:
            if isinstance(part, Segment):
                counts.update(words_in(part))
    for left in document.all_left():
        plain = re.sub(r"</?[gxs]\d+/?>", "", left)  # of XML: what stands for the elements of a paragraph
        counts.update(WORD.findall(html.unescape(plain)))
    return counts


def words_in(segment: Segment) -> Counter[str]:
    """The words of a segment as it is written, or of its plain text, whichever has more of each."""
    raw = Counter(WORD.findall(html.unescape(segment.raw)))
    plain = Counter(WORD.findall(segment.text))
    for inner in segments([segment]):
        if inner is not segment:
            plain.update(WORD.findall(inner.text))
    return raw | plain


# ----------------------------------------------------------------------------------------------------------------------
# Walkers: the texts of a file, in order


class Texts(HTMLParser):
    """The text nodes of HTML, and the attributes that a browser shows or reads aloud."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.texts: list[str] = []

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        self.texts.append(data)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        shown = ("alt", "title", "placeholder", "label", "aria-label", "aria-description")
        self.texts += [value or "" for name, value in attrs if name in shown]


def html_texts(data: bytes) -> list[str]:
    reader = Texts()
    reader.feed(data.decode())
    reader.close()
    return reader.texts


def plain_texts(data: bytes) -> list[str]:
    return [data.decode()]


def markdown_texts(data: bytes) -> list[str]:
    """Of what another reader of Markdown makes of it, without what our reader takes for an extension."""
    import markdown

    return html_texts(markdown.markdown(data.decode(), extensions=["tables", "fenced_code"]).encode())


def subtitle_texts(data: bytes) -> list[str]:
    """All but lines of times and numbers, and what is in < > and { }."""
    lines = []
    for line in data.decode().splitlines():
        if line.startswith("Dialogue:"):
            lines.append(line.split(",", 9)[-1].replace("\\N", " ").replace("\\n", " "))
        elif "-->" not in line and not re.match(r"(?i)format|comment|style|webvtt|\[", line):
            lines.append(line)
    return [re.sub(r"<[^<>]*>|\{[^{}]*\}", "", line) for line in lines]


def tree_texts(tree: object) -> list[str]:
    """The strings in dictionaries and lists, but no keys."""
    if isinstance(tree, str):
        return [str(tree)]
    if isinstance(tree, dict):
        return [text for value in tree.values() for text in tree_texts(value)]
    if isinstance(tree, list | tuple):
        return [text for value in tree for text in tree_texts(value)]
    return []


def json_texts(data: bytes) -> list[str]:
    """All values, those of keys that occur twice too."""
    texts: list[str] = []

    def values(pairs: list[tuple[str, object]]) -> None:
        for _, value in pairs:
            texts.extend(tree_texts(value))

    texts += tree_texts(json.loads(data.decode("utf-8-sig"), object_pairs_hook=values))
    return texts


def yaml_texts(data: bytes) -> list[str]:
    from ruamel.yaml import YAML

    return tree_texts(list(YAML(typ="safe", pure=True).load_all(data)))


def toml_texts(data: bytes) -> list[str]:
    import tomlkit

    return tree_texts(tomlkit.parse(data.decode()).unwrap())


def xml_texts(data: bytes) -> list[str]:
    """The text nodes, those of comments excepted."""
    from lxml import etree

    root = etree.fromstring(data, etree.XMLParser(resolve_entities=False))
    return [text for each in root.iter(etree.Element) for text in (each.text or "", each.tail or "")]


def xliff_texts(data: bytes) -> list[str]:
    """Of each source its text without native codes; its target instead where that is the same between marks."""
    from lxml import etree

    def text_of(element: etree._Element | None) -> str:
        return "" if element is None else "".join(pieces(element))

    def pieces(element: etree._Element) -> Iterator[str]:
        is_code = etree.QName(element).localname in ("ph", "it", "bpt", "ept")
        yield "" if is_code else element.text or ""
        for child in element:
            yield from pieces(child) if isinstance(child.tag, str) else ""
            yield "" if is_code else child.tail or ""

    texts = []
    for source in etree.fromstring(data).iterfind(".//{*}source"):
        unit = source.getparent()
        if etree.QName(unit).localname in ("trans-unit", "segment", "ignorable"):
            target = text_of(unit.find("{*}target"))
            is_marked = squeezed([MARKS.sub("", target)]) == squeezed([text_of(source)])
            texts.append(target if is_marked else text_of(source))
    return texts


# Of Office: what is no text that anybody wrote to be read. Instructions of fields, formulas, formats of numbers, places
# on a page, people, times and programs.
NO_TEXT = set(
    "instrText delInstrText f formula formula1 formula2 definedName sqref calculatedColumnFormula totalsRowFormula "
    "formatCode align posOffset pctWidth pctHeight author creator lastModifiedBy created modified lastPrinted revision "
    "version identifier language contentStatus contentType".split()
)
BULLETS = ("o", "§", "ü", "Ø", "v", "q", "à")  # letters of a font of signs
# What begins a text of its own.
APART = set("p v pt name si is text br cr tab title subject description keywords category".split())
SEEN_ATTRIBUTES = {("docPr", "descr"), ("docPr", "title"), ("cNvPr", "descr"), ("cNvPr", "title")}
SEEN_ATTRIBUTES |= {
    ("textpath", "string"),
    ("hyperlink", "tooltip"),
    ("sheet", "name"),
    ("alias", "val"),
    ("lvlText", "val"),
}


def office_texts(data: bytes) -> list[str]:
    """The texts of every XML file, one paragraph's runs joined, and of attributes that people see."""
    from lxml import etree

    archive = zipfile.ZipFile(io.BytesIO(data))
    texts = []
    for name in archive.namelist():
        if not re.fullmatch(r"(word|ppt|xl)/.*\.xml|docProps/core\.xml|customXml/item\d*\.xml", name):
            continue
        for element in etree.fromstring(archive.read(name)).iter(etree.Element):
            own = etree.QName(element).localname
            if own in APART or name.startswith("custom"):
                texts.append(" ")
            if own not in NO_TEXT and not is_number(element):
                texts.append(re.sub(r'&"[^"]*"', "", element.text or ""))  # a font in the header of a page
            if own == "noBreakHyphen":
                texts.append("\u2011")
            for attribute, value in element.attrib.items():
                if (own, attribute.rpartition("}")[2]) in SEEN_ATTRIBUTES and value not in BULLETS:
                    texts += [" ", value, " "]
    return ["".join(texts)]


def is_number(element: Any) -> bool:
    """Whether an element is a value of a cell that is no text, or its copy in a chart."""
    from lxml import etree

    above = [etree.QName(each).localname for each in element.iterancestors()][:2]
    if etree.QName(element).localname != "v" or not above:
        return False
    return (above[0] == "c" and element.getparent().get("t") != "str") or above[1:] in (["numCache"], ["numLit"])


def odf_texts(data: bytes) -> list[str]:
    """The texts of paragraphs, titles and descriptions; <text:s/> is a space. Another library would lose most."""
    from lxml import etree

    archive = zipfile.ZipFile(io.BytesIO(data))
    texts: list[str] = []
    kept = ("h", "p", "index-title-template", "title", "desc", "description", "subject", "keyword")
    for name in archive.namelist():
        if not re.fullmatch(r"(.*/)?(content|styles)\.xml|meta\.xml", name):
            continue
        root = etree.fromstring(archive.read(name))
        for event, element in etree.iterwalk(root, events=("start", "end", "comment")):
            own = etree.QName(element).localname if isinstance(element.tag, str) else ""
            inside = {etree.QName(each).localname for each in element.iterancestors()}
            if own in ("p", "h", "s", "tab", "line-break", "title", "desc", "keyword"):
                texts.append(" ")
            if event == "start" and inside.union({own}).intersection(kept) and own not in ("creator", "date"):
                texts.append(element.text or "")
            if event != "start" and inside.intersection(kept):
                texts.append(element.tail or "")
    return ["".join(texts)]


def design_texts(data: bytes) -> list[str]:
    """The contents of the stories of InDesign."""
    from lxml import etree

    archive = zipfile.ZipFile(io.BytesIO(data))
    texts = []
    for name in archive.namelist():
        if name.startswith("Stories/"):
            for element in etree.fromstring(archive.read(name)).iter("Content", "Br"):
                texts += [" "] if element.tag == "Br" else element.itertext()
    return ["".join(texts)]


def book_texts(data: bytes) -> list[str]:
    """The texts of a book: its XHTML files, its tables of contents, its title and description."""
    from lxml import etree

    archive = zipfile.ZipFile(io.BytesIO(data))
    texts = []
    for name in archive.namelist():
        if name.endswith((".xhtml", ".html", ".htm")):
            texts += html_texts(archive.read(name))
        elif name.endswith((".ncx", ".opf")):
            for element in etree.fromstring(archive.read(name)).iter("{*}text", "{*}title", "{*}description"):
                texts.append(element.text or "")
    return texts


def table_texts(data: bytes) -> list[str]:
    text = data.decode("utf-8-sig")
    dialect = csv.Sniffer().sniff(text[:10_000], ",;\t|")
    return [cell for row in csv.reader(io.StringIO(text, newline=""), dialect) for cell in row]


def gettext_texts(data: bytes) -> list[str]:
    """Sources and translations of a PO file, read by Babel."""
    from babel.messages.pofile import read_po

    texts: list[str] = []
    for message in read_po(io.BytesIO(data)):
        if message.id:
            ids = message.id if isinstance(message.id, tuple | list) else (message.id,)
            strings = message.string if isinstance(message.string, tuple | list) else (message.string,)
            texts += [*ids, *map(str, strings)]
    return texts


def property_texts(data: bytes) -> list[str]:
    """The values of Java's properties, lines that end in a backslash joined."""
    text = re.sub(r"\\\r?\n[ \t]*", "", data.decode())
    found = []
    for line in text.splitlines():
        if line.strip() and line.lstrip()[0] not in "#!":
            value = re.split(r"(?<!\\)[=:\s]", line.strip(), maxsplit=1)[-1]
            found.append(re.sub(r"\\u([0-9a-fA-F]{4})", lambda match: chr(int(match[1], 16)), value))
    return found


SAME_BYTES = {".txt", ".md", ".markdown", ".html", ".htm", ".xhtml", ".srt", ".vtt", ".ass", ".ssa", ".json", ".arb"}
WALKERS: dict[str, Callable[[bytes], list[str]]] = {
    **dict.fromkeys((".txt", ".adoc", ".asciidoc", ".mdx"), plain_texts),
    **dict.fromkeys((".md", ".markdown"), markdown_texts),
    **dict.fromkeys((".html", ".htm", ".xhtml"), html_texts),
    **dict.fromkeys((".srt", ".vtt", ".ass", ".ssa"), subtitle_texts),
    **dict.fromkeys((".json", ".arb"), json_texts),
    **dict.fromkeys((".yaml", ".yml"), yaml_texts),
    ".toml": toml_texts,
    **dict.fromkeys((".po", ".pot"), gettext_texts),
    **dict.fromkeys((".ts", ".resx", ".xml"), xml_texts),
    **dict.fromkeys((".xlf", ".xliff"), xliff_texts),
    **dict.fromkeys((".csv", ".tsv"), table_texts),
    ".properties": property_texts,
    **dict.fromkeys((".docx", ".pptx", ".xlsx"), office_texts),
    **dict.fromkeys((".odt", ".ods", ".odp"), odf_texts),
    ".idml": design_texts,
    ".epub": book_texts,
}

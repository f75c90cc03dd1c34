"""The five laws of documents, and readers of each format that know nothing of segments.

Identity: a translation that returns each text unchanged gives the same file. Accounting: every word
of the file is in a segment or in what is counted as left. Marking: a translation that puts every
sentence between ⟦ and ⟧ marks each once, and without the marks the file is the one that was read.
Addresses: a translation that changes every letter leaves those of links and images. Escaping: what
a translation writes is what a reader sees, whatever sign it begins and ends with.
"""

import codecs
import csv
import html
import io
import json
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from documents import FakeTranslator
from lxml import etree
from markdown_it import MarkdownIt

from nmt.documents.formats import read_document
from nmt.documents.segment import Document, Segment, written
from nmt.documents.translation import translate_document
from nmt.documents.word_weights import WordWeights, whole_words

WORD = re.compile(r"[^\W\d_]{2,}")
MARKS = re.compile("[⟦⟧]")
# What some format has a meaning for. Not here, because it stays as the model writes it: addresses,
# -- and -> in AsciiDoc, --> in SRT, \\N in ASS, braces in messages of ICU.
SIGNS = (
    "' \" < <b &amp; { } {x} % \\ * **x** _x_ [x](y) | # @ ? = ! ~~x~~ `x` ]]> -- <!-- $x$ '' א 😀"
).split() + ["# ", ": ", "- ", "1. ", "> ", "\u00a0", "\x07"]


# --------------------------------------------------------------------------------------------------
# Laws


def check_identity(path: Path, data: bytes) -> None:
    """Without a translation the bytes stay; so do the texts if each is written as it was read."""
    document = read_document(path, data)
    assert document.write() == data
    for field in document.fields:
        field.save(written(field.parts))
    new = document.serialize()
    suffix = path.suffix.lower()
    if suffix in SAME_BYTES:
        assert new == data
    assert squeezed(WALKERS[suffix](new)) == squeezed(WALKERS[suffix](data))


def check_accounting(path: Path, data: bytes) -> None:
    document = read_document(path, data)
    words = Counter(WORD.findall("\n".join(WALKERS[path.suffix.lower()](data))))
    counted = accounted(document)
    surplus = counted - words
    missing = [word for word in words - counted if not is_joined(word, surplus)]
    assert not missing, f"neither translated nor left: {missing[:20]}"


def is_joined(word: str, parts: Collection[str]) -> bool:
    """Whether a word is two of these, or one and a letter: a walker sees no border between some
    texts."""
    halves = ((word[:place], word[place:]) for place in range(1, len(word)))
    return any(
        (len(first) == 1 or first in parts) and (len(second) == 1 or second in parts)
        for first, second in halves
    )


def check_marking(path: Path, data: bytes) -> None:
    document = read_document(path, data)
    # Each word comes from itself.
    counts = translate_document(document, "en", FakeTranslator("⟦{}⟧".format, first=1))
    walk = WALKERS[path.suffix.lower()]
    texts = walk(document.write())
    marks = Counter(MARKS.findall("".join(texts)))
    count = counts["translated"]
    assert marks["⟦"] == marks["⟧"] >= count, f"{count} sentences, {marks} marks"
    assert squeezed([MARKS.sub("", text) for text in texts]) == squeezed(walk(data))


def check_addresses(path: Path, data: bytes) -> None:
    """Of HTML, and of Markdown as CommonMark shows it."""
    rendered = {".html": bytes.decode, ".md": markdown_page, ".markdown": markdown_page}
    page = rendered.get(path.suffix.lower())
    if page is None:
        return
    document = read_document(path, data)
    translator = FakeTranslator(lambda sentence: codecs.encode(sentence, "rot13"))
    translate_document(document, "en", translator)
    before, after = (
        Counter(re.findall(r"\b(?:href|src)=[\"']?[^\s\"'>]*", page(each)))
        for each in (data, document.write())
    )
    assert before == after, f"{before - after} became {after - before}"


def check_escaping(path: Path, data: bytes) -> None:
    for sign in SIGNS:
        check_sign(path, data, sign)


def check_sign(path: Path, data: bytes, sign: str) -> None:
    walk = WALKERS[path.suffix.lower()]
    if walk is WALKERS[".txt"] and sign == "> ":  # a quotation, whose signs it leaves out
        return
    if path.suffix == ".arb" and sign == "''":  # one apostrophe in a message
        return
    document = read_document(path, data)
    translate_document(document, "en", SignTranslator(lambda text: f"{sign}⟦{text}⟧{sign}"))
    shown = "" if sign == "\x07" else sign.strip()
    texts = squeezed(walk(document.write()))
    assert texts.replace(f"{shown}⟦", "").replace(f"⟧{shown}", "") == squeezed(walk(data)), sign


class SignTranslator(FakeTranslator):
    """What it writes before and behind a sentence is one word each, and comes from nowhere."""

    def weigh(self, sentence: str, translation: str) -> WordWeights:
        source = whole_words(sentence)
        start = translation.index(sentence)
        end = start + len(sentence)
        words = [(first + start, last + start) for first, last in source]
        target = [(0, start), *words, (end, len(translation))]
        return WordWeights(source, target, np.eye(len(target), len(source), -1))


def markdown_page(data: bytes) -> str:
    text = re.sub(r"\[\^[^\]\s]+\]:", "", data.decode())  # footnotes are no definitions
    return MarkdownIt("commonmark").enable("table").render(text)


def squeezed(texts: Sequence[str]) -> str:
    """Without spaces and control characters, which no translation has."""
    return re.sub(r"[\s\x00-\x1f\x7f]+", "", "".join(texts))


def accounted(document: Document) -> Counter[str]:
    """The words of all segments, as they are written and as plain text, and of all that is left."""
    counts = Counter[str]()
    for field in document.fields:
        for part in field.parts:
            if isinstance(part, Segment):
                counts.update(words_in(part))
    for left in document.all_left():
        # of XML: what stands for the elements of a paragraph
        plain = re.sub(r"</?[gxs]\d+/?>", "", left)
        counts += words_as_written(plain)
    return counts


def words_as_written(raw: str) -> Counter[str]:
    """The words of what may have entities, which a message may show as they are."""
    return Counter(WORD.findall(html.unescape(raw))) | Counter(WORD.findall(raw))


def words_in(segment: Segment) -> Counter[str]:
    """The words of a segment as it is written, or of its plain text, whichever has more of each."""
    raw = words_as_written(segment.raw)
    plain = Counter(WORD.findall(segment.text))
    for inner in segment.inner():
        plain.update(WORD.findall(inner.text))
    return raw | plain


# --------------------------------------------------------------------------------------------------
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
        values = {name: value or "" for name, value in reversed(attrs)}
        shown = (
            "alt title placeholder label summary abbr aria-label aria-description aria-placeholder "
            "aria-roledescription aria-valuetext"
        ).split()
        if tag == "input" and values.get("type", "").lower() in ("submit", "button", "reset"):
            shown.append("value")
        if tag == "meta" and values.get("name", "").lower() == "description":
            shown.append("content")
        self.texts += [values[name] for name in reversed(values) if name in shown]


def html_texts(data: bytes) -> list[str]:
    reader = Texts()
    reader.feed(data.decode())
    reader.close()
    return reader.texts


def markdown_texts(data: bytes) -> list[str]:
    """Of what CommonMark with tables makes of it, without our reader's extensions; and the titles
    of definitions and directives."""
    matter, text = front_matter(data.decode())
    text = re.sub(r"\[\^[^\]\s]+\]:?|\[!\w+\]", "", text)  # footnotes and alerts
    text = re.sub(r"(?m)^[ \t]+", "", text)  # what is in a box of an extension is no code
    environment: dict[str, Any] = {}
    reader = MarkdownIt("commonmark").enable("table")
    tokens = reader.parse(text, environment)
    definitions = list(environment.get("references", {}).values())
    titles = [definition["title"] for definition in definitions]
    titles += [token.info.partition("}")[2] for token in tokens if token.info.startswith("{")]
    for definition in definitions:
        definition["title"] = ""  # which each link to it would repeat
    return [*matter, *html_texts(reader.render(text, environment).encode()), *titles]


def front_matter(text: str) -> tuple[list[str], str]:
    """The values of YAML before a text, and the text."""
    found = re.match(r"---\n(.*?)\n---\n", text, re.DOTALL)
    if found is None:
        return [], text
    try:
        return tree_texts(yaml.load(found[1], yaml.BaseLoader)), text[found.end() :]
    except yaml.YAMLError:
        return [], text


def plain_text(data: bytes) -> str:
    """All but the signs of a quotation, which stand elsewhere in a paragraph of another width."""
    return re.sub(r"(?m)^[ \t]*(?:>+[ \t]+)+", "", data.decode())


def mdx_texts(data: bytes) -> list[str]:
    """All but tags, of whose attributes a title and the like are text, and the targets of
    references."""
    text = re.sub(r"(?m)^\[[^\[\]\n]+\]:[ \t]*\S+", "", plain_text(data))
    tag = re.compile(r"</?[A-Za-z][^<>]*>")
    shown = re.compile(
        r"(?:title|alt|label|placeholder|summary|aria-label)=(?:\"([^\"]*)\"|'([^']*)')"
    )
    return [
        html.unescape(re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", tag.sub(" ", text))),
        *(
            html.unescape("".join(match))
            for each in tag.findall(text)
            for match in shown.findall(each)
        ),
    ]


def subtitle_texts(data: bytes) -> list[str]:
    """All but lines of times and numbers, and what is in < > and { }."""
    lines = []
    is_ass = b"Dialogue:" in data
    for line in data.decode().splitlines():
        if line.startswith("Dialogue:"):
            lines.append(line.split(",", 9)[-1].replace("\\N", " ").replace("\\n", " "))
        elif not is_ass and "-->" not in line and not re.match("(?i)style|webvtt", line):
            lines.append(line)
    texts = [re.sub(r"<[^<>]*>|(?<!\\)\{\\[^{}]*\}", "", line) for line in lines]
    if is_ass:
        return [re.sub(r"\\([{}])", r"\1", text) for text in texts]
    return list(map(html.unescape, texts)) if data.startswith(b"WEBVTT") else texts


def tree_texts(tree: object) -> list[str]:
    """The strings in dictionaries and lists, but no keys."""
    if isinstance(tree, str):
        return [str(tree)]
    values = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    return [text for value in values for text in tree_texts(value)]


def without_tags(texts: Sequence[str]) -> list[str]:
    """Messages without their tags, but those with an attribute that a browser shows."""
    shown = "alt|title|placeholder|label|aria-label|aria-description"
    tag = re.compile(rf"</?[A-Za-z](?![^<>]*\b(?:{shown})=)[^<>]*>")
    return [tag.sub(" ", text) for text in texts]


def json_texts(data: bytes) -> list[str]:
    """All values, those of keys that occur twice too."""
    tree = json.loads(
        data.decode("utf-8-sig"), object_pairs_hook=lambda pairs: [value for _, value in pairs]
    )
    texts = []
    for text in tree_texts(tree):
        is_message = re.search(r"\{\s*\w+\s*,\s*(?:plural|select)", text)
        texts.append(text.replace("''", "'") if is_message else text)
    return without_tags(texts)


def yaml_texts(data: bytes) -> list[str]:
    """What readers of YAML 1.2 take for texts, but what `true` and `no` are in 1.1; of an anchor
    once."""
    from ruamel.yaml import YAML
    from ruamel.yaml.nodes import MappingNode, ScalarNode

    texts: dict[int, str] = {}  # by their nodes
    waiting = list(YAML(typ="safe", pure=True).compose_all(data.decode("utf-8-sig")))
    for node in waiting:
        if id(node) in texts:
            continue
        texts[id(node)] = ""
        if isinstance(node, MappingNode):
            waiting += [value for _, value in node.value]
        elif not isinstance(node, ScalarNode):
            waiting += node.value
        elif node.tag == "tag:yaml.org,2002:str":
            texts[id(node)] = node.value
    return without_tags(list(texts.values()))


def toml_texts(data: bytes) -> list[str]:
    import tomlkit
    import tomllib

    try:
        return tree_texts(tomllib.loads(data.decode()))
    except tomllib.TOMLDecodeError:  # TOML 1.1, which the reader takes
        return tree_texts(tomlkit.parse(data.decode()).unwrap())


def xml_texts(data: bytes) -> list[str]:
    """The text nodes, those of comments excepted."""
    root = etree.fromstring(data, etree.XMLParser(resolve_entities=False))
    return [
        text for each in root.iter(etree.Element) for text in (each.text or "", each.tail or "")
    ]


def android_texts(data: bytes) -> list[str]:
    escape = re.compile(r"\\u(....)|\\([\s\S])|\"")
    return [escape.sub(unescaped, text) for text in xml_texts(data)]


def xliff_texts(data: bytes) -> list[str]:
    """Of each source its text without native codes; its target instead where that is the same
    between marks."""
    codes = " or ".join(f"local-name(..) = '{name}'" for name in ("ph", "it", "bpt", "ept"))
    texts = []
    for source in etree.fromstring(data).iterfind(".//{*}source"):
        unit = source.getparent()
        if name_of(unit) in ("trans-unit", "segment", "ignorable"):
            text = "".join(source.xpath(f".//text()[not({codes})]"))
            target = "".join(unit.xpath(f"*[local-name() = 'target']//text()[not({codes})]"))
            texts.append(target if MARKS.search(target) else text)
    return texts


# Of Office: what is no text that anybody wrote to be read. Instructions of fields, formulas,
# formats of numbers, places on a page, people, times and programs.
NO_TEXT = set(
    "instrText delInstrText f formula formula1 formula2 definedName sqref calculatedColumnFormula "
    "totalsRowFormula formatCode align posOffset pctWidth pctHeight author creator lastModifiedBy "
    "created modified lastPrinted revision "
    "version identifier language contentStatus contentType LockedField".split()
)
BULLETS = ("o", "§", "ü", "Ø", "v", "q", "à")  # letters of a font of signs
# What begins a text of its own.
APART = set(
    "p v pt name si is text br cr tab title subject description keywords category "
    "rubyBase rt rPh e sub sup".split()  # ruby, and what a formula consists of
)
SEEN_ATTRIBUTES = set(
    "docPr/descr docPr/title cNvPr/descr cNvPr/title textpath/string hyperlink/tooltip sheet/name "
    "alias/val lvlText/val".split()
)


def name_of(element: Any) -> str:
    return etree.QName(element).localname if isinstance(element.tag, str) else ""


def members(data: bytes, pattern: str) -> Iterator[tuple[str, bytes]]:
    """The files of an archive with such names."""
    archive = zipfile.ZipFile(io.BytesIO(data))
    for name in archive.namelist():
        if re.fullmatch(pattern, name):
            yield name, archive.read(name)


def office_texts(data: bytes) -> list[str]:
    """The texts of every XML file, one paragraph's runs joined, and of attributes that people
    see."""
    pattern = r"(word|ppt|xl)/.*\.xml|docProps/core\.xml|customXml/item\d*\.xml"
    texts = []
    for name, content in members(data, pattern):
        for element in etree.fromstring(content).iter(etree.Element):
            own = name_of(element)
            if own in APART or name.startswith("custom"):
                texts.append(" ")
            if own not in NO_TEXT and not is_number(element):
                # a font in the header of a page
                text = re.sub(r'&"[^"]*"', "", element.text or "")
                texts.append(
                    text.replace("&&", "&") if "Header" in own or "Footer" in own else text
                )
            if own == "noBreakHyphen":
                texts.append("\u2011")
            for attribute, value in element.attrib.items():
                seen = f"{own}/{attribute.rpartition('}')[2]}" in SEEN_ATTRIBUTES
                if seen and value not in BULLETS:
                    texts += [" ", value, " "]
    return ["".join(texts)]


def is_number(element: Any) -> bool:
    """Whether an element is a value of a cell that is no text, or its copy in a chart."""
    above = [name_of(each) for each in element.iterancestors()]
    if name_of(element) != "v" or not above:
        return False
    is_value = above[0] == "c" and element.getparent().get("t") != "str"
    return is_value or above[1:2] in (["numCache"], ["numLit"])


def odf_texts(data: bytes) -> list[str]:
    """The texts of paragraphs, titles and descriptions; <text:s/> is a space. Another library would
    lose most."""
    texts: list[str] = []
    kept = ("h", "p", "index-title-template", "title", "desc", "description", "subject", "keyword")
    for _, content in members(data, r"(.*/)?(content|styles)\.xml|meta\.xml"):
        root = etree.fromstring(content)
        for event, element in etree.iterwalk(root, events=("start", "end", "comment")):
            own = name_of(element)
            inside = {name_of(each) for each in element.iterancestors()}
            if own in ("p", "h", "s", "tab", "line-break", "title", "desc", "keyword"):
                texts.append(" ")
            if event != "start" and inside.intersection(kept):
                texts.append(element.tail or "")
            if event == "start" and own not in ("creator", "date") and {own, *inside} & {*kept}:
                texts.append(element.text or "")
    return ["".join(texts)]


def design_texts(data: bytes) -> list[str]:
    """The contents of the stories of InDesign."""
    texts = []
    for _, content in members(data, "Stories/.*"):
        for element in etree.fromstring(content).iter("Content", "Br"):
            texts += [" "] if element.tag == "Br" else element.itertext()
    return ["".join(texts)]


def book_texts(data: bytes) -> list[str]:
    """The texts of a book: its XHTML files, its tables of contents, its title and description."""
    texts = []
    for _, content in members(data, r".*\.(xhtml|html?)"):
        texts += html_texts(content)
    for _, content in members(data, r"(?!__MACOSX/).*\.(ncx|opf)"):
        for element in etree.fromstring(content).iter(etree.Element):
            if name_of(element).lower() in ("text", "title", "description", "subject"):
                texts.append(element.text or "")
    return texts


def table_texts(data: bytes) -> list[str]:
    """The cells of a table with the columns `source` and `target`, as a reader of the translation
    gets them."""
    text = data.decode("utf-8-sig")
    first_line = text.partition("\n")[0]
    separator = max(",;\t|", key=first_line.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    header, *rows = [row for row in reader if row]
    texts = list(header)
    source, target = (header.index(name) for name in ("source", "target"))
    for row in rows:
        cells = dict(enumerate(row))
        texts += read_texts([cells.pop(source, "")], [cells.pop(target, "")], is_unfinished=False)
        texts += cells.values()
    return texts


def read_texts(sources: Sequence[str], forms: Sequence[str], is_unfinished: bool) -> list[str]:
    """What readers of a translation get: marked texts instead of their sources, and unfinished ones
    not at all."""
    if any(MARKS.search(form) for form in forms):
        return list(forms[: len(sources)])
    is_copy = {form.strip() for form in forms} <= {source.strip() for source in sources}
    if is_unfinished or is_copy or not any(forms):
        return list(sources)
    return [*sources, *forms]


def gettext_texts(data: bytes) -> list[str]:
    """Sources and translations of a PO file, read by Babel."""
    from babel.messages.pofile import read_po

    def forms(text: Any) -> list[str]:
        return [str(each or "") for each in ([text] if isinstance(text, str) else text or [""])]

    texts: list[str] = []
    data = re.sub(rb'(?m)^"PO.*-Date:.*\n', b"", data)  # it reads no header with an empty date
    for message in read_po(io.BytesIO(data.replace(b"=CHARSET", b"=utf-8"))):
        if message.id:
            texts += read_texts(forms(message.id), forms(message.string), message.fuzzy)
    return without_tags(texts)


def qt_texts(data: bytes) -> list[str]:
    """Of Qt Linguist: sources, translations and comments, but not the names of classes."""
    texts = []
    for message in etree.fromstring(data).iter("message"):
        source = "".join(message.find("source").itertext())
        # Its forms for numbers, or else itself
        found = message.findall("translation/*") or message.findall("translation")
        forms = ["".join(each.itertext()) for each in found]
        is_unfinished = not found or bool(message.xpath("translation[@type = 'unfinished']"))
        texts += read_texts([source], forms, is_unfinished)
        texts += [each.text or "" for each in message if "comment" in each.tag]
    return without_tags(texts)


def property_texts(data: bytes) -> list[str]:
    """The values of Java's properties, lines that end in a backslash joined."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    text = re.sub(r"(?<!\\)((?:\\\\)*)\\\r?\n[ \t]*", r"\1", text)
    found = []
    for line in re.split(r"[\r\n]", text):
        if line.strip() and line.lstrip()[0] not in "#!":
            value = "".join(re.split(r"(?<!\\)(?:\s*[=:]\s*|\s+)", line.lstrip(), maxsplit=1)[1:])
            plain = re.sub(r"\\u(....)|\\(.)", unescaped, value)
            found.append(plain.encode("utf-16", "surrogatepass").decode("utf-16"))
    return without_tags(found)


def shown_properties(data: bytes) -> list[str]:
    """As `property_texts`; two apostrophes are one in a message with arguments."""
    texts = property_texts(data)
    return [re.sub("''", "'", text) if re.search(r"\{\d", text) else text for text in texts]


def unescaped(match: re.Match[str]) -> str:
    if match[1]:
        return chr(int(match[1], 16))
    return " " if (match[2] or "") in "tnrf" else match[2]


# Formats that write every text as it was; others may write it with other escapes.
SAME_BYTES = set(
    ".txt .md .markdown .mdx .adoc .asciidoc .html .htm .xhtml .srt .vtt .ass .ssa".split()
)
WALKERS: dict[str, Callable[[bytes], list[str]]] = {}
for _extensions, _walk in {
    ".txt": lambda data: [re.sub(r"(?<=\]\()[^()\s]{2,}(?=\))", "", plain_text(data))],
    ".mdx": mdx_texts,
    ".adoc .asciidoc": lambda data: [html.unescape(plain_text(data).replace("{empty}", ""))],
    ".md .markdown": markdown_texts,
    ".html .htm .xhtml": html_texts,
    ".srt .vtt .ass .ssa": subtitle_texts,
    ".json .arb": json_texts,
    ".yaml .yml": yaml_texts,
    ".toml": toml_texts,
    ".po .pot": gettext_texts,
    ".resx": xml_texts,
    ".xlf .xliff": xliff_texts,
    ".ts": qt_texts,
    ".xml": android_texts,
    ".csv .tsv": table_texts,
    ".properties": shown_properties,
    ".docx .pptx .xlsx": office_texts,
    ".odt .ods .odp": odf_texts,
    ".idml": design_texts,
    ".epub": book_texts,
}.items():
    WALKERS |= dict.fromkeys(_extensions.split(), _walk)

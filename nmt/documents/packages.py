"""Packages of XML files: how they are opened and written, and how what no field has is counted."""

import copy
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from io import BytesIO
from typing import Any

from nmt.corpus.words import has_letters
from nmt.data.text_filter import has_words
from nmt.documents.limits import unpack
from nmt.documents.segment import WITHOUT_WORDS, Document, Field, Malformed
from nmt.documents.xml_files import etree, local, parse, plain_field, serialize

EMBEDDED = "embedded files"
ELSEWHERE = "outside paragraphs"


class Package:
    """The files of an archive, and the fields that change them.

    A file that no field changes keeps its bytes.
    """

    def __init__(self, data: bytes) -> None:
        self.archive, self.files = unpack(data)
        self.document = Document([], self.write)
        self.writers: dict[str, Callable[[], bytes]] = {}  # by the name of a file
        self.changed: set[str] = set()

    def tree(self, name: str) -> Any:
        """The root element of a file, which is written if a field of it is saved."""
        root = parse(self.files[name], name)
        self.writers[name] = lambda: serialize(root, self.files[name])
        return root

    def add(self, name: str, field: Field) -> None:
        """A field of one of the files."""

        def save(text: str) -> None:
            self.changed.add(name)
            field.save(text)

        self.document.fields.append(field._replace(save=save))

    def add_text(self, name: str, element: Any, is_line: bool = False) -> None:
        """A field for an element of one of the files that has a text and no others inside."""
        save = partial(setattr, element, "text")
        self.add(name, plain_field(element.text, save, is_line))

    def write(self) -> bytes:
        """The archive with its entries in their order, packed and dated as they were."""
        output = BytesIO()
        with zipfile.ZipFile(output, "w") as new:
            new.comment = self.archive.comment
            for entry in self.archive.infolist():
                name = entry.filename
                content = self.writers[name]() if name in self.changed else self.files[name]
                new.writestr(copy.copy(entry), content)
        return output.getvalue()

    def named(self, pattern: str) -> list[str]:
        """The names of files that match a pattern, in their order."""
        return [name for name in self.files if re.fullmatch(pattern, name)]

    def leave_embedded(self, pattern: str) -> None:
        for name in self.named(pattern):
            self.document.leave(name, EMBEDDED)


# Why an element's text is not translated; "": it is no text; None: it may be translated.
Reason = Callable[[Any], str | None]


def outside_reasons(root: Any, reason: Reason) -> Iterator[Any]:
    """The elements that have no reason and are in no element with one: they may be translated."""
    walk = etree().iterwalk(root, events=("start",))
    for _, element in walk:
        if local(element) and reason(element) is None:
            yield element
        else:
            walk.skip_subtree()


# Elements that are in the middle of a text; any other one begins a text of its own.
INSIDE_TEXTS = set("r t delText rPr ins del span a s CharacterStyleRange Content".split())


def leave_rest(
    document: Document,
    root: Any,
    reason: Reason,
    taken: set[Any],
    attribute_texts: Callable[[Any], list[str]] = lambda element: [],
) -> None:
    """Count the texts that no field has, with their reasons.

    `taken`: the elements whose own texts are in fields. `attribute_texts`: the texts in the
    attributes of an element, which count if the element has a reason.
    """
    # The reason and the texts of each open element. Inside of an element with a reason these are
    # the same for all elements.
    stack: list[tuple[str | None, list[str]]] = [(None, [])]
    for event, element in etree().iterwalk(root, events=("start", "end", "comment", "pi")):
        if event == "start":
            why, texts = stack[-1]
            if why is None:
                why = reason(element)
                texts = []
            stack.append((why, texts))
            if texts and local(element) not in INSIDE_TEXTS:
                texts.append("\n")
            if why is not None:
                texts += [f"\n{text}\n" for text in attribute_texts(element)]
            if element not in taken and element.text:
                texts.append(element.text)
            continue
        if event == "end":
            why, texts = stack.pop()
            is_outermost = texts is not stack[-1][1]
            text = "".join(texts)
            if is_outermost and why != "" and has_letters(text):
                if why is None:
                    why = ELSEWHERE if has_words(text) else WITHOUT_WORDS
                document.leave(text, why)
        # What stands behind an element, a comment or an instruction belongs to its parent.
        parent = element.getparent()
        if parent is not None and element.tail and parent not in taken:
            stack[-1][1].append(element.tail)


def count_parts(
    data: bytes,
    members: str,
    remade: set[str],
    looks: set[str],
    paragraphs: set[str],
    texts: set[str],
) -> Counter[str]:
    """What a package holds: files, elements by their names in each, and paragraphs with a text.

    Elements that a translation makes anew, and what is in a look, do not count. `texts`: the
    elements that have texts; empty where these stand in paragraphs themselves.
    """
    counts = Counter[str]()
    _, files = unpack(data)
    for name, content in files.items():
        counts["files inside"] += 1
        root = None
        if re.fullmatch(members, name):
            with suppress(Malformed):
                root = parse(content, name)
        if root is None:
            counts[f"bytes of {name}"] = len(content)
            continue
        with_text: set[Any] = set()
        walk = etree().iterwalk(root, events=("start",))
        for _, element in walk:
            tag = local(element)
            if tag in looks:
                walk.skip_subtree()
                continue
            if tag not in remade:
                counts[f"<{tag}> elements in {name}"] += 1
            may_have_text = not texts or tag in texts
            own_texts = [element.text, *(child.tail for child in element)]
            if may_have_text and any(text and text.strip() for text in own_texts):
                with_text.add(nearest(element, paragraphs))
        counts[f"paragraphs with a text in {name}"] = len(with_text - {None})
    return counts


def nearest(element: Any, names: set[str]) -> Any:
    """The nearest element with one of these names, itself or around it; None without one."""
    while element is not None and local(element) not in names:
        element = element.getparent()
    return element

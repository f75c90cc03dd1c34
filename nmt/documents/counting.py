"""What a file has in it, so that no translation is written that has less.

Each function counts records, keys, elements or texts that are not blank, by their names. It reads
the file without the readers that make segments, so that it sees their faults.
"""

import re
from collections import Counter
from collections.abc import Collection
from typing import Any

CUE_TIMES = re.compile(rb"^[^\r\n]*-->|^Dialogue:", re.MULTILINE)

# The name of a tag; what its attributes have in quotation marks is no tag.
TAG_NAMES = re.compile(rb"""<(/?[A-Za-z][\w:-]*)(?:[^<>"']|"[^"]*"|'[^']*')*""")


def count_paragraphs(data: bytes) -> Counter[str]:
    """Of a text: paragraphs between blank lines."""
    paragraphs = re.split(rb"\r?\n[ \t]*\r?\n", data)
    return Counter(paragraphs=sum(bool(paragraph.strip()) for paragraph in paragraphs))


def count_elements(data: bytes) -> Counter[str]:
    """Count the tags of HTML by their names.

    Tags in scripts and comments count, those in titles and text areas do not.
    """
    counts = Counter[str]()
    inside = ""
    for match in TAG_NAMES.findall(data):
        name = match.decode().lower()
        if inside in ("", name):
            counts[f"<{name}> tags"] += 1
            inside = f"/{name}" if name in ("title", "textarea") else ""
    return counts


def count_cues(data: bytes) -> Counter[str]:
    """Count the cues of subtitles.

    A sentence with fewer words than cues leaves one without a text, so texts are not counted.
    """
    return Counter(cues=len(CUE_TIMES.findall(data)))


def count_values(tree: Any) -> Counter[str]:
    """Of dictionaries and lists inside each other: keys, and texts that are not blank."""
    counts = Counter[str]()
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            counts["keys"] += len(node)
            waiting += node.values()
        elif isinstance(node, list | tuple):
            counts["values of lists"] += len(node)
            waiting += node
        elif isinstance(node, str):
            counts["texts"] += bool(node.strip())
    return counts


def count_xml(root: Any, texts: Collection[str], remade: Collection[str] = ()) -> Counter[str]:
    """Of XML: elements by their names, and how many of those called `texts` have a text.

    Elements called `remade` do not count: a translation may have less of them.
    """
    counts = Counter[str]()
    for element in root.iter("{*}*"):
        name = element.tag.rpartition("}")[2]
        if name in remade:
            continue
        counts[f"<{name}> elements"] += 1
        if name in texts:
            # Also inside of other elements: a translation with few words may leave one empty.
            counts[f"<{name}> elements with a text"] += bool("".join(element.itertext()).strip())
    return counts

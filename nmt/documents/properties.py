"""Java's properties: the texts behind the keys; every other byte stays.

A file in ASCII gets \\u00fc for ü, which every version of Java reads; one that is not UTF-8 is
Latin-1, as for Java 8.
"""

import re
from collections import Counter
from functools import partial

from nmt.documents.messages import ESCAPE, unescaped, value_parts
from nmt.documents.segment import MESSAGE, Document, TextFile, check_text

LINE = re.compile(
    r"[ \t\f]*"
    r"(?:[#!][^\r\n]*"  # a comment, or a key and its value
    r"|(?P<key>(?:\\(?:\r\n|[\s\S])|[^\\\s=:])*)"
    r"(?P<between>(?:\\\r?\n|[ \t\f])*[=:]?(?:\\\r?\n|[ \t\f])*)"
    r"(?P<value>(?:\\(?:\r\n|[\s\S])|[^\\\r\n])*))"
    r"\\?(?:\r\n|\r|\n|\Z)"
)
CONTINUED = re.compile(r"\\(?:\r\n|\r|\n)[ \t\f]*")
CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
WRITTEN = str.maketrans({"\\": "\\\\"} | {sign: f"\\{letter}" for letter, sign in CONTROLS.items()})
ARGUMENT = re.compile(r"\{\d")  # of MessageFormat, for which '' is an apostrophe
IN_WORD = re.compile(r"(?<=\w)'(?=\w)")
BEFORE_ARGUMENT = re.compile(r"(?<=\w)'(?=\{\d)")
# The last character that can be written, by the encoding of a file.
LAST = {"ascii": "\x7f", "latin-1": "\xff", "utf-8": "\U0010ffff"}
WORD_AND_SPACE = re.compile(r"(?:(?!\\n)\S)*(?:\\n|\s+|\Z)")


def read_properties(data: bytes) -> Document:
    text, encoding = decode(data)
    check_text(text)
    document = TextFile(text, encoding)
    for match in LINE.finditer(document.text):
        raw = match["value"]
        if raw:
            value = value_of(raw)
            if has_doubled(value):
                value = value.replace("''", "'")
            write = partial(write_value, raw=raw, encoding=encoding)
            document.add(value_parts(value), *match.span("value"), write)
    return document


def decode(data: bytes) -> tuple[str, str]:
    """The text of a file and its encoding, which may be ASCII."""
    if data.isascii():
        return data.decode("ascii"), "ascii"
    try:
        return data.decode(), "utf-8"
    except UnicodeDecodeError:
        return data.decode("latin-1"), "latin-1"


def value_of(raw: str) -> str:
    """The text that a value stands for."""
    return unescaped(ESCAPE, CONTROLS, CONTINUED.sub("", raw))


def has_doubled(text: str) -> bool:
    """Whether every apostrophe of a message is written twice, as MessageFormat reads it."""
    return "'" not in text.replace("''", "") and ("''" in text or ARGUMENT.search(text) is not None)


def doubled_apostrophes(text: str) -> str:
    """A text with each apostrophe twice; those of a message are so already before braces."""
    pattern = r"''(?=[{}#])|'" if re.search(MESSAGE, text) else "'"
    return re.sub(pattern, "''", text)


def write_value(text: str, raw: str, encoding: str) -> str:
    """A text as the value `raw` is written: its apostrophes, its escapes, its lines."""
    old = value_of(raw)
    if has_doubled(old):
        text = doubled_apostrophes(text)
    elif ARGUMENT.search(old):
        text = IN_WORD.sub("''", text)
        if not BEFORE_ARGUMENT.search(old):  # there it quotes the argument
            text = BEFORE_ARGUMENT.sub("''", text)
    text = text.translate(WRITTEN)
    for sign in ":=#!":
        if f"\\{sign}" in raw:
            text = text.replace(sign, f"\\{sign}")
    if text.startswith(" "):
        text = f"\\{text}"
    unwritable = re.compile(f"[^\0-{LAST[encoding]}]")
    return unwritable.sub(escaped, continued_lines(text, raw))


def continued_lines(text: str, raw: str) -> str:
    """A written text on lines as long as those of the value `raw`."""
    breaks = list(CONTINUED.finditer(raw))
    if not breaks:
        return text
    width = max(len(line) for line in CONTINUED.split(raw))
    is_broken_after_newline = "\\n\\" in raw
    lines = [""]
    for match in WORD_AND_SPACE.finditer(text):
        word = match[0]
        is_full = len(lines[-1]) + len(word.rstrip()) > width
        is_after_newline = is_broken_after_newline and lines[-1].endswith("\\n")
        if lines[-1] and word and (is_full or is_after_newline):
            lines.append("")
        lines[-1] += word
    return breaks[0][0].join(lines)


def escaped(match: re.Match[str]) -> str:
    """\\uXXXX, twice for what is two units of UTF-16."""
    units = match[0].encode("utf-16-be")
    codes = [units[at : at + 2].hex() for at in range(0, len(units), 2)]
    return "".join(f"\\u{code.upper()}" for code in codes)


def count_properties(data: bytes) -> Counter[str]:
    """Keys, and how many have a value; a line that ends in a backslash goes on in the next one."""
    text, _ = decode(data)
    counts = Counter[str]()
    line = ""
    for part in re.split(r"\r\n|\r|\n", f"{text}\n"):
        line += part.lstrip(" \t\f")
        backslashes = len(line) - len(line.rstrip("\\"))
        is_comment = line.startswith(("#", "!"))
        if backslashes % 2 and not is_comment:
            line = line[:-1]
            continue
        if line and not is_comment:
            counts["keys"] += 1
            counts["values"] += bool(re.search(r"(?<!\\)[=:\s]\s*\S", line))
        line = ""
    return counts

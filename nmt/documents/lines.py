"""Lines of paragraphs: which were broken only because they were full, and how a translation is broken as they were."""

import textwrap

SHORTEST_WIDTH = 40  # of lines that are full


def wraps(line: str, following: str, width: int) -> bool:
    """Whether a line ended because the first word of the next one found no room within `width`."""
    words = following.split(None, 1)
    return width >= SHORTEST_WIDTH and bool(words) and len(line.rstrip()) + 1 + len(words[0]) > width


def wrap(text: str, width: int, prefix: str, newline: str) -> str:
    """The text in lines of at most `width` characters, each but the first behind `prefix`; lines that it has stay."""
    written: list[str] = []
    for line in text.split("\n"):
        line = line.removesuffix("\r")
        kept = line[len(line.rstrip()) :]  # two spaces are a line break in Markdown
        initial = prefix if written else ""
        body = line.removeprefix(initial) if written else line
        parts = textwrap.wrap(
            body, max(width, SHORTEST_WIDTH), initial_indent=initial, subsequent_indent=prefix, expand_tabs=False,
            replace_whitespace=False, break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
        written += parts or [initial]
        written[-1] += kept
    return newline.join(written)


def newline_of(text: str) -> str:
    """How the lines of a text end."""
    return "\r\n" if "\r\n" in text else "\n"

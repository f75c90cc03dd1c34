"""Text from data as terminals and pages may show it.

A sentence, a file name or the name of a run can hold escape sequences (a terminal obeys them: it
clears itself, changes its title, or answers as if a key had been pressed) and controls of
direction, which reorder the rest of a line.
"""

import html
import unicodedata

EMPTY, REPLACEMENT = "∅", "\ufffd"
HIDDEN = {"Cc", "Cs", "Zl", "Zp"}  # controls, lone surrogates, separators of lines and paragraphs
# Embeddings, overrides and isolates (Unicode Standard Annex 9): they act on the text after them.
# Single marks do not.
DIRECTIONS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def short_number(value: float) -> str:
    """Three digits of a number, without an exponent where it is large: 0.0123, 1.23, 16,700."""
    return f"{value:.3g}" if value < 100 else f"{value:,.0f}"


def visible(text: str, keep: str = "") -> str:
    r"""Text for a terminal, with `\x1b` or `\u202e` in place of what would act on it; characters in
    `keep` stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character.encode("unicode_escape").decode()
        if acts(character) and character not in keep
        else character
        for character in text
    )


def acts(character: str) -> bool:
    """Whether a character controls a terminal or the order of those after it, or cannot be written
    as UTF-8."""
    return (
        unicodedata.category(character) in HIDDEN
        or unicodedata.bidirectional(character) in DIRECTIONS
    )


def clean_text(text: str) -> str:
    """Text for a page: without controls and lone surrogates, which HTML and UTF-8 cannot hold, and
    without directions.

    Joiners stay: Persian and the scripts of India are written with them.
    """
    text = "".join(
        REPLACEMENT if unicodedata.category(character) == "Cs" else character for character in text
    )
    return (
        " ".join("".join(" " if acts(character) else character for character in text).split())
        or EMPTY
    )


def escape_html(text: str) -> str:
    """Clean text as HTML, also within quotes."""
    return html.escape(clean_text(text), quote=True)

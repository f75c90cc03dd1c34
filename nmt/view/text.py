"""Text from data as terminals and pages may show it.

A sentence, a file name or the name of a run can hold escape sequences (a terminal obeys them: it
clears itself, changes its title, or answers as if a key had been pressed) and controls of
direction, which reorder the rest of a line.
"""

import html
import unicodedata

EMPTY = "∅"
REPLACEMENT = "\ufffd"
HIDDEN = {"Cc", "Cs", "Zl", "Zp"}  # controls, lone surrogates, separators of lines and paragraphs
# Embeddings, overrides and isolates (Unicode Standard Annex 9): they act on the text after them.
# Single marks do not.
DIRECTIONS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def short_number(value: float) -> str:
    """Three digits of a number, without an exponent where it is large: 0.0123, 1.23, 16,700."""
    return f"{value:.3g}" if value < 100 else f"{value:,.0f}"


def visible(text: str, keep: str = "") -> str:
    r"""Text for a terminal, with `\x1b` or `\u202e` in place of what would act on it.

    Characters in `keep` stay.
    """
    if text.isascii() and text.isprintable():
        return text
    shown = ""
    for character in text:
        if acts(character) and character not in keep:
            character = character.encode("unicode_escape").decode()
        shown += character
    return shown


def acts(character: str) -> bool:
    """Whether a character controls a terminal or the order of text, or cannot be UTF-8."""
    if unicodedata.category(character) in HIDDEN:
        return True
    return unicodedata.bidirectional(character) in DIRECTIONS


def clean_text(text: str) -> str:
    """Text for a page, without controls, lone surrogates and directions.

    HTML and UTF-8 cannot hold the first two. Joiners stay: Persian and the scripts of India are
    written with them.
    """
    kept = ""
    for character in text:
        if unicodedata.category(character) == "Cs":
            kept += REPLACEMENT
        else:
            kept += " " if acts(character) else character
    return " ".join(kept.split()) or EMPTY


def escape_html(text: str) -> str:
    """Clean text as HTML, also within quotes."""
    return html.escape(clean_text(text), quote=True)

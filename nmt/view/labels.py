"""Words as labels in a figure: cleaned, shortened, and written in fonts that have their letters.

matplotlib brings DejaVu Sans, which has Latin, Greek, Cyrillic, Arabic, Hebrew and more, but no Chinese, Japanese,
Korean, Thai or Devanagari. For those an installed font is searched; a letter that no installed font has becomes a box,
with one warning for each script. (Drawing the box ourselves also avoids a warning of matplotlib for each letter, and
silencing those would change the state of all threads.)

matplotlib joins Arabic letters and writes from right to left since 3.11. An older one draws each letter to the right of
the one before it, so Hebrew words are reversed here; what needs more than that becomes boxes, with one warning.
"""

import functools
import logging
import unicodedata
from collections.abc import Collection, Iterable

from nmt.view.text import EMPTY, REPLACEMENT

MAX_LENGTH = 24  # characters of a label
BUNDLED = "DejaVu Sans"
BOX = "□"
# Of Unicode's bidirectional classes (Standard Annex 9), those that keep their order from the right in a line whose
# letters are all Hebrew: letters, their marks, and what has no direction of its own. Digits have one.
FROM_THE_RIGHT = {"R", "NSM", "ON", "WS", "CS", "ES", "ET"}
UNSHAPED = {"R": BOX, "AL": BOX, "NSM": ""}  # what is drawn of a word that cannot simply be reversed
FALLBACKS = (
    "Noto Sans", "Noto Serif", "Source Han", "WenQuanYi", "Droid Sans Fallback", "IPA", "Takao", "VL", "Nanum",
    "Unifont", "Arial Unicode MS", "Microsoft YaHei", "SimSun", "Yu Gothic", "MS Gothic", "Malgun", "Hiragino",
    "PingFang", "Apple", "FreeSans", "FreeSerif", "Lohit", "Tahoma", "Segoe UI", "Nirmala", "Leelawadee", "Khmer OS",
    "Padauk", "Garuda",
)  # fmt: skip
log = logging.getLogger("nmt")


def make_label(word: str, missing: Collection[str], max_length: int = MAX_LENGTH) -> str:
    """A word as it can be drawn: no invisible characters, boxes for missing ones, at most `max_length` characters."""
    word = clean(word)
    word = word if len(word) <= max_length else word[: max_length - 1] + "…"
    word = word if matplotlib_shapes_text() else to_visual_order(word)
    return "".join(BOX if character in missing else character for character in word)


def clean(word: str) -> str:
    """A word without control, zero-width and private characters; lone surrogates (bad UTF-8) become U+FFFD."""
    word = "".join(REPLACEMENT if unicodedata.category(character) == "Cs" else character for character in word)
    word = "".join(" " if character.isspace() else character for character in word)
    word = "".join(character for character in word if unicodedata.category(character)[0] != "C")
    return " ".join(word.split()) or EMPTY


def matplotlib_shapes_text() -> bool:
    """Whether matplotlib itself joins letters and writes from right to left."""
    import matplotlib

    return matplotlib.__version_info__ >= (3, 11)


def to_visual_order(word: str) -> str:
    """A word as it is drawn from left to right: a Hebrew one reversed, where DejaVu's vowel marks precede letters.

    Letters become boxes where that would not be right: in scripts whose letters are joined (Arabic), next to digits or
    letters that run the other way, and next to brackets, which would have to be mirrored.
    """
    classes = [unicodedata.bidirectional(character) for character in word]
    if not {"R", "AL"} & set(classes):
        return word
    hebrew = all(unicodedata.name(letter, "").startswith("HEBREW") for letter in word if letter.isalpha())
    if not hebrew or set(classes) - FROM_THE_RIGHT or any(map(unicodedata.mirrored, word)):
        warn_unshaped()
        return "".join(UNSHAPED.get(bidi, character) for bidi, character in zip(classes, word, strict=True))
    return word[::-1]


@functools.lru_cache(maxsize=256)
def find_fonts(characters: frozenset[str]) -> tuple[list[str], frozenset[str]]:
    """The font families that together have the characters, DejaVu Sans first, and the characters that none has."""
    from matplotlib import font_manager

    families, missing = [BUNDLED], characters - font_characters(font_manager.findfont(BUNDLED))
    if missing:  # an installed font is read only when it is needed
        for entry in sorted(font_manager.fontManager.ttflist, key=lambda entry: (entry.weight != 400, entry.name)):
            if not missing:
                break
            usable = entry.name.startswith(FALLBACKS) and entry.name not in families and entry.style == "normal"
            if usable and missing & font_characters(entry.fname):
                families.append(entry.name)
                missing -= font_characters(entry.fname)
    return families, missing


@functools.lru_cache(maxsize=256)
def font_characters(path: str) -> frozenset[str]:
    """The characters that a font file has; of a collection, its first font."""
    from matplotlib.ft2font import FT2Font

    return frozenset(map(chr, FT2Font(path).get_charmap()))


def warn_missing(missing: Iterable[str]) -> None:
    """Warn once for each script whose letters are drawn as boxes."""
    for script in sorted({unicodedata.name(character, "unnamed").split()[0] for character in missing}):
        warn_script(script)


@functools.lru_cache(maxsize=256)
def warn_script(script: str) -> None:
    """Log the warning for one script; the cache keeps it from being repeated."""
    log.warning("No font for %s characters is installed; heatmaps show boxes instead.", script)


@functools.lru_cache(maxsize=1)
def warn_unshaped() -> None:
    """Warn once that this matplotlib cannot write such words; the cache keeps the warning from being repeated."""
    log.warning(
        "This matplotlib neither joins Arabic letters nor writes words that run in both directions; heatmaps show "
        "boxes instead. matplotlib 3.11 (Python 3.11) does both."
    )

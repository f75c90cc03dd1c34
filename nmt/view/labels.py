"""Words as labels in a figure: cleaned, shortened, and written in fonts that have their letters.

matplotlib brings DejaVu Sans, which has Latin, Greek, Cyrillic, Arabic, Hebrew and more, but no
Chinese, Japanese, Korean, Thai or Devanagari. For those an installed font is searched; a letter
that no installed font has becomes a box, with one warning for each script. matplotlib 3.11 and
later joins the letters of Arabic and Devanagari, and writes from right to left; an older one draws
each letter to the right of the one before it, so right-to-left words are reversed for it.
"""

import functools
import logging
import unicodedata
from collections.abc import Collection, Iterable
from contextlib import suppress

from nmt.view.text import EMPTY, clean_text

MAX_LENGTH = 24  # characters of a label
BOX = "□"
JOINERS = "\u200c\u200d"
BUNDLED = "DejaVu Sans"
FALLBACKS = (
    "Noto Sans",
    "Noto Serif",
    "Source Han",
    "WenQuanYi",
    "Droid Sans Fallback",
    "IPA",
    "Takao",
    "VL",
    "Nanum",
    "Unifont",
    "Arial Unicode MS",
    "Microsoft YaHei",
    "SimSun",
    "Yu Gothic",
    "MS Gothic",
    "Malgun",
    "Hiragino",
    "PingFang",
    "Apple",
    "FreeSans",
    "FreeSerif",
    "Lohit",
    "Tahoma",
    "Segoe UI",
    "Nirmala",
    "Leelawadee",
    "Khmer OS",
    "Padauk",
    "Garuda",
    "Symbola",
)
log = logging.getLogger("nmt")


def make_label(word: str, missing: Collection[str], max_length: int = MAX_LENGTH) -> str:
    """A word as it can be drawn: no invisible characters, boxes for missing ones, not too long."""
    import matplotlib  # imported here so that the command line starts fast

    word = clean(word)
    if len(word) > max_length:
        word = word[: max_length - 1] + "…"
    directions = set(map(unicodedata.bidirectional, word))
    if matplotlib.__version_info__ < (3, 11) and not directions.isdisjoint(("R", "AL")):
        word = word[::-1]
    return word.translate(dict.fromkeys(map(ord, missing), BOX))


def clean(word: str) -> str:
    """A word without control, zero-width and private characters; joiners stay within it."""
    kept = ""
    for character in clean_text(word):
        if unicodedata.category(character)[0] != "C" or character in JOINERS:
            kept += character
    return " ".join(kept.split()).strip(JOINERS) or EMPTY


@functools.lru_cache(maxsize=256)
def find_fonts(characters: frozenset[str]) -> tuple[list[str], frozenset[str]]:
    """The font families that together have the characters, and the characters that none has.

    DejaVu Sans comes first; an installed font is read only when it is needed.
    """
    from matplotlib import font_manager

    manager = font_manager.fontManager
    families = [BUNDLED]
    missing = characters - font_characters(font_manager.findfont(BUNDLED))
    if not missing:
        return families, missing
    # matplotlib keeps a list of fonts, which has none that was installed later
    known = {font.fname for font in manager.ttflist}
    for path in sorted({*font_manager.findSystemFonts()} - known):
        with suppress(OSError, RuntimeError):  # no font, or a damaged one
            manager.addfont(path)
    regular_first = sorted(manager.ttflist, key=lambda font: (font.weight != 400, font.name))
    for font in regular_first:
        usable = font.style == "normal" and font.name.startswith(FALLBACKS)
        if usable and font.name not in families and missing & font_characters(font.fname):
            families.append(font.name)
            missing -= font_characters(font.fname)
    return families, missing


@functools.lru_cache(maxsize=256)
def font_characters(path: str) -> frozenset[str]:
    """The characters that a font file has; of a collection, its first font."""
    from matplotlib.ft2font import FT2Font

    return frozenset(map(chr, FT2Font(path).get_charmap()))


def warn_missing(missing: Iterable[str]) -> None:
    """Warn once for each script whose letters are drawn as boxes."""
    for character in sorted(missing):
        if "\U0001f000" <= character < "\U00020000":
            warn_script("emoji", "fonts-symbola")
        elif unicodedata.east_asian_width(character) in "WFH":
            warn_script("Chinese, Japanese or Korean", "fonts-noto-cjk")
        else:
            script = unicodedata.name(character, "unnamed").split()[0].capitalize()
            warn_script(script, "fonts-noto-core")


@functools.cache
def warn_script(script: str, package: str) -> None:
    """Log the warning for one script; the cache keeps it from being repeated."""
    log.warning(
        "No installed font has some of the %s characters, so heatmaps show boxes; the package %s "
        "of Debian and Ubuntu has them, elsewhere a Noto font from fonts.google.com/noto.",
        script,
        package,
    )

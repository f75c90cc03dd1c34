"""Words as labels in a picture: cleaned, shortened, and written in fonts that have their letters.

matplotlib brings DejaVu Sans, which has Latin, Greek, Cyrillic, Arabic, Hebrew and more, but no Chinese, Japanese,
Korean, Thai or Devanagari. For those an installed font is looked for; a letter that no font here has becomes a box, and
the log says so once. (Drawing the box ourselves also spares a warning of matplotlib for each letter, and silencing
those would change the state of all threads.)

matplotlib joins Arabic letters and writes from right to left since 3.11. An older one draws each letter to the right of
the one before it, so there Hebrew words are turned round here; what needs more than that becomes boxes, and the log
says so once.
"""

import functools
import logging
import unicodedata
from collections.abc import Collection, Iterable

LONGEST = 24  # characters of a label
BUNDLED = "DejaVu Sans"
BOX, NOTHING, STRANGE = "□", "∅", "\ufffd"
# Of Unicode's bidirectional classes (Standard Annex 9), those that stand in their order from the right in a line whose
# letters are all Hebrew: letters, their marks, and what has no direction of its own. Digits have one.
FROM_THE_RIGHT = {"R", "NSM", "ON", "WS", "CS", "ES", "ET"}
UNSHAPED = {"R": BOX, "AL": BOX, "NSM": ""}  # what is drawn of a word that cannot simply be turned round
FALLBACKS = (
    "Noto Sans", "Noto Serif", "Source Han", "WenQuanYi", "Droid Sans Fallback", "IPA", "Takao", "VL", "Nanum",
    "Unifont", "Arial Unicode MS", "Microsoft YaHei", "SimSun", "Yu Gothic", "MS Gothic", "Malgun", "Hiragino",
    "PingFang", "Apple", "FreeSans", "FreeSerif", "Lohit", "Tahoma", "Segoe UI", "Nirmala", "Leelawadee", "Khmer OS",
    "Padauk", "Garuda",
)  # fmt: skip
log = logging.getLogger("nmt")


def label(word: str, missing: Collection[str], longest: int = LONGEST) -> str:
    """A word as it can be drawn: no invisible characters, boxes for missing ones, at most `longest` characters."""
    word = clean(word)
    word = word if len(word) <= longest else word[: longest - 1] + "…"
    word = word if shaping() else turned(word)
    return "".join(BOX if character in missing else character for character in word)


def clean(word: str) -> str:
    """A word without control, zero-width and private characters; lone surrogates (bad UTF-8) become U+FFFD."""
    word = "".join(STRANGE if unicodedata.category(character) == "Cs" else character for character in word)
    kept = "".join(" " if character.isspace() else character for character in word)
    kept = "".join(character for character in kept if unicodedata.category(character)[0] != "C")
    return " ".join(kept.split()) or NOTHING


def shaping() -> bool:
    """Whether matplotlib itself joins letters and writes from right to left."""
    import matplotlib

    return matplotlib.__version_info__ >= (3, 11)


def turned(word: str) -> str:
    """A word as it is drawn from left to right: a Hebrew one turned round, where DejaVu's vowel marks precede letters.

    Letters become boxes where that would not be right: in scripts whose letters are joined (Arabic), beside digits or
    letters that run the other way, and beside brackets, which would have to be mirrored.
    """
    kinds = [unicodedata.bidirectional(character) for character in word]
    if not {"R", "AL"} & set(kinds):
        return word
    hebrew = all(unicodedata.name(letter, "").startswith("HEBREW") for letter in word if letter.isalpha())
    if not hebrew or set(kinds) - FROM_THE_RIGHT or any(map(unicodedata.mirrored, word)):
        warn_unshaped()
        return "".join(UNSHAPED.get(kind, character) for kind, character in zip(kinds, word, strict=True))
    return word[::-1]


def missing_glyphs(words: Iterable[str]) -> set[str]:
    """The characters of words that no font on this machine has, so that a picture shows boxes for them."""
    return set(fonts(frozenset("".join(map(clean, words))))[1])


@functools.lru_cache(maxsize=256)
def fonts(characters: frozenset[str]) -> tuple[list[str], frozenset[str]]:
    """The font families that together have the characters, DejaVu Sans first, and the characters that none has."""
    from matplotlib import font_manager

    families, missing = [BUNDLED], characters - charmap(font_manager.findfont(BUNDLED))
    if missing:  # an installed font is read only when it is needed
        for entry in sorted(font_manager.fontManager.ttflist, key=lambda entry: (entry.weight != 400, entry.name)):
            if not missing:
                break
            known = entry.name.startswith(FALLBACKS) and entry.name not in families and entry.style == "normal"
            if known and missing & charmap(entry.fname):
                families.append(entry.name)
                missing -= charmap(entry.fname)
    return families, missing


@functools.lru_cache(maxsize=256)
def charmap(path: str) -> frozenset[str]:
    """The characters that a font file has; of a collection, its first font."""
    from matplotlib.ft2font import FT2Font

    return frozenset(map(chr, FT2Font(path).get_charmap()))


def warn_missing(missing: Iterable[str]) -> None:
    """Say once for each script that its letters show as boxes."""
    for script in sorted({unicodedata.name(character, "unnamed").split()[0] for character in missing}):
        warn_script(script)


@functools.lru_cache(maxsize=256)
def warn_script(script: str) -> None:
    """The sentence itself; the cache is what makes it come once."""
    log.warning("No font for %s characters is installed; pictures show boxes instead.", script)


@functools.lru_cache(maxsize=1)
def warn_unshaped() -> None:
    """Say once that this matplotlib cannot write such words."""
    log.warning(
        "This matplotlib neither joins Arabic letters nor writes words that run in both directions; pictures show "
        "boxes instead. matplotlib 3.11 (Python 3.11) does both."
    )

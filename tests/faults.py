"""Faults of training pairs: what is planted, and what `nmt audit` must report."""

import random
from collections.abc import Callable
from typing import Any

Pair = tuple[str, str]
CYRILLIC = str.maketrans("abcdefghijklmnopqrstuvwxyz", "абцдефгхийклмнопярстувшхыз")


def one_side(change: Callable[[str], str]) -> Callable[..., Pair]:
    """A fault of one side, the source or the target at random."""

    def plant(pair: Pair, corpus: Any, chosen: random.Random, line: int) -> Pair:
        return (change(pair[0]), pair[1]) if chosen.random() < 0.5 else (pair[0], change(pair[1]))

    return plant


def both_sides(change: Callable[[str], str]) -> Callable[..., Pair]:
    """A fault of both sides."""
    return lambda pair, *_: (change(pair[0]), change(pair[1]))


def inserted(text: str) -> Callable[..., Pair]:
    """A fault of one side: something within a word."""
    return one_side(lambda side: side[:5] + text + side[5:])


def near(pair: Pair, corpus: Any, chosen: random.Random, line: int) -> Pair:
    """A pair from before without capitals, and with other punctuation."""
    source, target = corpus.pairs[line - len(corpus.pairs) // 2]
    return source.lower().rstrip("."), target.rstrip(".") + " !"


def number(pair: Pair, corpus: Any, chosen: random.Random, line: int) -> Pair:
    """Another number on each side."""
    value = chosen.randint(1100, 8000)
    return f"{pair[0]} ({value})", f"{pair[1]} ({value + chosen.randint(2, 900)})"


def untranslated(pair: Pair, *_: object) -> Pair:
    """The first third of the target is the translation, the rest of it the source."""
    words = pair[1].split()
    source = pair[0].split()
    return pair[0], " ".join(words[: len(words) // 3] + source[len(source) // 3 :])


FAULTS: dict[str, tuple[str, Callable[..., Pair]]] = {
    "one side blank": ("one side blank", one_side(lambda text: " ")),
    "both sides blank": ("both sides blank", both_sides(lambda text: "")),
    "bytes of Latin-1": ("not UTF-8", inserted("\udcfc")),
    "UTF-8 read as Windows-1252": (
        "characters of a wrong encoding",
        inserted("Ã¼"),
    ),
    "byte order mark": ("byte order mark", one_side(lambda text: "\ufeff" + text)),
    "control character": (
        "control characters",
        inserted("\x07"),
    ),
    "soft hyphen": ("invisible characters", inserted("\u00ad")),
    "mark of direction": (
        "invisible characters",
        inserted("\u200e"),
    ),
    "no-break space": ("unusual spaces", one_side(lambda text: text.replace(" ", "\u202f", 1))),
    "quoted field": ("quoted as in a table", one_side(lambda text: f'"{text[:5]}""{text[5:]}"')),
    "stray quotation mark": ("unpaired quote", one_side(lambda text: '"' + text)),
    "HTML entity": ("HTML entities", one_side(lambda text: text.replace(" ", " &amp; ", 1))),
    "pieces of words": ("subwords", one_side(lambda text: text[:2] + "@@ " + text[2:])),
    "tag": ("tags", one_side(lambda text: f"<b>{text}</b>")),
    "letter lost": (
        "characters of a wrong encoding",
        one_side(lambda text: text.replace("ei", "e?", 1) + " M?ller"),
    ),
    "in capitals": ("all in capitals", one_side(str.upper)),
    "Cyrillic а for a": (
        "another script",
        one_side(lambda text: text.replace("a", "а", 1) + " gаr"),
    ),
    "exact duplicate": (
        "duplicate",
        lambda pair, corpus, chosen, line: corpus.pairs[line - len(corpus.pairs) // 2],
    ),
    "near duplicate": ("near duplicate", near),
    "target = source": ("both sides equal", lambda pair, *_: (pair[0], pair[0])),
    "two thirds untranslated": ("partly untranslated", untranslated),
    "Cyrillic letters": ("another script", one_side(lambda text: text.lower().translate(CYRILLIC))),
    "sides exchanged": ("in the other language", lambda pair, *_: (pair[1], pair[0])),
    "third language": (
        "unlike the rest",
        lambda pair, corpus, chosen, line: (pair[0], corpus.third[line]),
    ),
    "target four times": (
        "unusual difference of lengths",
        lambda pair, *_: (pair[0], " ".join([pair[1]] * 4)),
    ),
    "target cut to a quarter": (
        "unusual difference of lengths",
        lambda pair, *_: (pair[0], pair[1][: len(pair[1]) // 4]),
    ),
    "too long": (
        "too long",
        both_sides(lambda text: " ".join([text] * (1 + 1001 // max(1, len(text))))),
    ),
    "other number": ("number not on both sides", number),
    "tokenized": (
        "looks tokenized",
        both_sides(lambda text: text.replace(".", " .").replace(",", " ,")),
    ),
    "lower-cased": ("no capital letters", both_sides(str.lower)),
    "pair of the test set": (
        "in valid or test",
        lambda pair, corpus, chosen, line: corpus.test[line % len(corpus.test)],
    ),
    "shifted block": ("in a misaligned block", lambda pair, *_: pair),
}  # what is planted → the fault that must be reported, and the change

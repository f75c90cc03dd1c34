"""From what the two sides of a rule wrote to sentences and their links."""

from typing import NamedTuple

from generator import english
from generator.lexicon import Lexicon
from generator.rules import PUNCTUATION
from generator.side import MARKER, Marks, Out


class Word(NamedTuple):
    """A finished word with its marks."""

    text: str
    marks: Marks


CONTRACTIONS = {
    ("in", "dem"): "im",
    ("in", "das"): "ins",
    ("an", "dem"): "am",
    ("an", "das"): "ans",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
    ("von", "dem"): "vom",
    ("bei", "dem"): "beim",
}


def finish_german(out: Out) -> list[Word]:
    """The German words: prepositions and articles are contracted, texts of several words are
    split."""
    words: list[Word] = []
    for text, marks in out:
        if text[0] == MARKER:
            text = text[1:]
            if words and (contraction := CONTRACTIONS.get((words[-1].text, text))):
                words[-1] = Word(contraction, words[-1].marks + marks)
                continue
        append_words(words, text, marks)
    return words


def finish_english(out: Out, lexicon: Lexicon) -> list[Word]:
    """The English words: articles become a or an, texts of several words are split."""
    vowels = lexicon.articles.get("an", frozenset())
    consonants = lexicon.articles.get("a", frozenset())
    words: list[Word] = []
    for number, (text, marks) in enumerate(out):
        if text[0] == MARKER:
            following = out[number + 1][0].split(" ", 1)[0] if number + 1 < len(out) else ""
            text = english.article(following, vowels, consonants)
        append_words(words, text, marks)
    return words


def append_words(words: list[Word], text: str, marks: Marks) -> None:
    """Append a text of one or several words; an apostrophe at the end is a word of its own."""
    for part in text.split(" ") if " " in text else (text,):
        if part[-1] == "'" and len(part) > 1:
            words += (Word(part[:-1], marks), Word("'", marks))
        else:
            words.append(Word(part, marks))


def join(words: list[Word]) -> str:
    """The sentence: capital letters at the beginnings, no space in front of punctuation."""
    parts: list[str] = []
    at_start = True
    for word, _ in words:
        if word in PUNCTUATION or word == "'":
            parts.append(word)
            at_start = at_start or word in ".!?"
            continue
        if parts:
            parts.append(" ")
        parts.append(word[0].upper() + word[1:] if at_start else word)
        at_start = False
    return "".join(parts)


def links(german: list[Word], english: list[Word]) -> str:
    """The Pharaoh line: words whose marks share a key; sure when both marks are."""
    indices: dict[int, list[tuple[int, bool]]] = {}
    for j, (_, marks) in enumerate(english):
        for key, sure in marks:
            indices.setdefault(key, []).append((j, sure))
    pairs: dict[tuple[int, int], bool] = {}
    for i, (_, marks) in enumerate(german):
        for key, sure in marks:
            for j, also in indices.get(key, ()):
                pairs[i, j] = pairs.get((i, j), False) or (sure and also)
    return " ".join(f"{i}{'-' if sure else 'p'}{j}" for (i, j), sure in sorted(pairs.items()))

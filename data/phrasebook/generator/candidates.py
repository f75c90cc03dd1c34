"""What can fill a slot: words by class, number and restriction, forms whose own slots can be
filled."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from generator.entries import Adjective, Head
from generator.form import Form
from generator.lexicon import Lexicon
from generator.rules import NUMBERS, Slot
from generator.side import Phrase


class NoCandidates(Exception):
    """No word or rule can fill a slot; another sentence must be drawn."""


class Choice:
    """Forms of a category with cumulative weights."""

    def __init__(self, forms: Sequence[Form]) -> None:
        self.forms = forms
        weights = [form.rule.weight / len(form.rule.variants) for form in forms]
        self.cumulative = list(accumulate(weights))

    def draw(self, rnd: Any) -> Form:
        """A form at random, by weight."""
        return self.forms[
            bisect_right(self.cumulative, rnd() * self.cumulative[-1], hi=len(self.forms) - 1)
        ]


class Pool:
    """Entries of one part of speech, with an index by their classes."""

    def __init__(self, entries: Sequence[Any]) -> None:
        self.entries = entries
        self.indices: dict[str, set[int]] = {}
        for index, entry in enumerate(entries):
            for name in entry.classes:
                self.indices.setdefault(name, set()).add(index)

    def select(self, wanted: tuple[str, ...]) -> list[Any]:
        """The entries for classes such as `food drink+cold -fruit`: food, or both drink and cold,
        but no fruit.

        They are in the order of the files.
        """
        selected: set[int] = set()
        for word in wanted:
            if word[0] != "-":
                selected |= set.intersection(
                    *(self.indices.get(name, set()) for name in word.split("+"))
                )
        for word in wanted:
            if word[0] == "-":
                selected -= self.indices.get(word[1:], set())
        return [self.entries[index] for index in sorted(selected)]


class Candidates:
    """The words and forms that can fill a slot; each result is cached."""

    def __init__(self, lexicon: Lexicon, forms: dict[str, list[Form]]) -> None:
        self.forms = forms
        self.pools = {
            "noun": Pool(lexicon.heads),
            "pronoun": Pool(lexicon.pronouns),
            "verb": Pool(lexicon.verbs),
            "adjective": Pool(lexicon.adjectives),
            "word": Pool(lexicon.words),
        }
        self.cache: dict[Any, Any] = {}

    def entries(self, kind: str, classes: tuple[str, ...], only: tuple[str, ...] = ()) -> list[Any]:
        """Words of a part of speech and of these classes; nouns and pronouns in the numbers
        allowed."""
        key = kind, classes, only
        if key not in self.cache:
            self.cache[key] = [
                entry
                for entry in self.pools[kind].select(classes)
                if not only or allowed(entry, only)
            ]
        return self.cache[key]

    def describing(self, noun: Head, classes: tuple[str, ...]) -> list[Adjective]:
        """Adjectives of these classes that can describe a noun: they share a class with it."""
        key = "describing", noun.classes, classes
        if key not in self.cache:
            adjectives = self.pools["adjective"].select(
                classes or tuple(self.pools["adjective"].indices)
            )
            self.cache[key] = [
                adjective for adjective in adjectives if adjective.classes & noun.classes
            ]
        return self.cache[key]

    def choice(self, category: str, classes: tuple[str, ...], only: tuple[str, ...]) -> Choice:
        """The forms of a category that can be filled with these classes and restrictions."""
        key = "choice", category, classes, only
        if key not in self.cache:
            names = {word for word in only if word not in NUMBERS}
            forms = [form for form in self.forms[category] if not names or form.rule.name in names]
            forms = [form for form in forms if self.possible(form, classes, only)]
            self.cache[key] = Choice(forms)
        return self.cache[key]

    def possible(self, form: Form, classes: tuple[str, ...], only: tuple[str, ...]) -> bool:
        """Whether the nouns and categories of a form have candidates."""
        for _, slot in form.needed:
            if any("." in word or word in form.names for word in slot.classes):
                continue
            wanted, limits = inherit(slot, classes, only)
            if slot.kind in ("noun", "pronoun") and not self.entries(slot.kind, wanted, limits):
                return False
            if slot.kind in self.forms and not self.choice(slot.kind, wanted, limits).forms:
                return False
        return True


def choose_entry(candidates: Sequence[Any], rnd: Any) -> Any:
    """A candidate at random; raises NoCandidates when there is none."""
    if not candidates:
        raise NoCandidates
    return candidates[int(rnd() * len(candidates))]


def allowed(head: Head, only: tuple[str, ...]) -> bool:
    """Whether a head meets the restrictions in brackets: a number, a use of articles, further
    classes."""
    for word in only:
        if word in ("sg", "pl"):
            matches = head.number == word
        elif word == "masc":
            matches = head.gender == "m"
        elif word == "article":
            matches = head.plain not in ("bare", "name")
        elif word in NUMBERS:
            matches = head.plain == word
        else:
            matches = word in head.classes
        if not matches:
            return False
    return True


def inherit(
    slot: Slot, classes: tuple[str, ...], only: tuple[str, ...], phrase: Phrase | None = None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The classes and restrictions of a slot: `$` stands for those of the rule around, V.object for
    a verb's."""
    wanted: tuple[str, ...] = ()
    for word in slot.classes:
        if word == "$":
            wanted += classes
        elif "." in word and phrase:
            name, _, part = word.partition(".")
            wanted += getattr(phrase.slots[phrase.names.index(name)], part)
        else:
            wanted += (word,)
    numbers = tuple(word for word in only if word in NUMBERS) if "$" in slot.classes else ()
    return wanted, tuple(dict.fromkeys(slot.only + numbers))

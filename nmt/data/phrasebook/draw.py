"""Drawing sentence pairs: choose a rule, fill its slots, write both sides, and read off the alignment.

Only `random()` of the generator is used: Python keeps its sequence for a seed the same in every version.
"""

import random
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from nmt.data.phrasebook.candidates import Candidates, Choice, Dead, inherit, pick
from nmt.data.phrasebook.entries import Entry, Head
from nmt.data.phrasebook.finish import finish_english, finish_german, join, links
from nmt.data.phrasebook.form import Form
from nmt.data.phrasebook.lexicon import Lexicon
from nmt.data.phrasebook.rules import KINDS, NUMBERS, Rule, Slot, read_rules
from nmt.data.phrasebook.side import LABELS, Out, Phrase
from nmt.data.phrasebook.tables import folder
from nmt.errors import UserError

TOGETHER = "together"  # the lemma of what `head: plural` stands for


class Pair(NamedTuple):
    """A sentence pair with its gold alignment, and how it was made."""

    german: str
    english: str
    links: str  # Pharaoh: i-j sure, ipj possible; German first
    skeleton: str  # the rule and its variant
    lemmas: tuple[Entry, ...]
    combinations: tuple[tuple[str, str], ...]  # each verb with the noun of its object


class Grammar:
    """The phrasebook's words and rules, ready to draw; raises UserError for a broken line."""

    def __init__(self, where: Path | None = None, files: Collection[str] = ()) -> None:
        where = where or folder()
        self.lexicon = Lexicon(where)
        rules = read_rules(where / "grammar", files)
        self.categories = {rule.category for rule in rules}
        self.known = self.classes()
        self.forms: dict[str, list[Form]] = {}
        for rule in rules:
            for slot in rule.slots.values():
                self.check(rule, slot)
            for number, variant in enumerate(rule.variants, 1):
                form = Form(rule, variant, number, self.lexicon)
                self.forms.setdefault(rule.category, []).append(form)
        if "sentence" not in self.forms:
            raise UserError(f"{where / 'grammar'} has no rule of the category 'sentence'.")
        self.plural = Head(TOGETHER, rules[0].line, frozenset(), gender="p", person=5, english_person=5, natural="p")
        self.candidates = Candidates(self.lexicon, self.forms)

    def classes(self) -> set[str]:
        """Every class that a word has."""
        words = (self.lexicon.heads, self.lexicon.verbs, self.lexicon.adjectives, self.lexicon.words)
        entries = [entry for group in (*words, self.lexicon.pronouns) for entry in group]
        return {name for entry in entries for name in entry.classes}

    def check(self, rule: Rule, slot: Slot) -> None:
        """Refuse unknown kinds, classes and restrictions."""
        if slot.kind not in KINDS and slot.kind not in self.categories:
            raise slot.line.error(f"expected one of {', '.join((*KINDS, *sorted(self.categories)))}, not '{slot.kind}'.")
        for word in slot.classes:
            name = word.split(".")[0]
            if word == "$" or name in rule.slots:
                if "." in word and (rule.slots[name].kind != "verb" or word.split(".")[1] not in ("subject", "object")):
                    raise slot.line.error(f"expected the subject or object of a verb slot, not '{word}'.")
                continue
            for part in word.lstrip("-").split("+"):
                if part not in self.known:
                    raise slot.line.error(f"expected a class that some word has, not '{part}'.")

    @cached_property
    def sentences(self) -> Choice:
        """The ways to build a sentence; each variant of a rule has the rule's whole weight."""
        choice = Choice(self.forms["sentence"])
        choice.cumulative = list(accumulate(form.rule.weight for form in choice.forms))
        return choice

    def draw(self, rnd: Any) -> Pair | None:
        """One pair, or None where a choice led nowhere or a word came twice."""
        self.base = 0
        self.used: list[Any] = []
        self.combinations: list[tuple[str, str]] = []
        form = self.sentences.draw(rnd)
        try:
            phrase = self.fill(form, (), (), rnd)
        except Dead:
            return None
        lines = [entry.line for entry in self.used]
        if len(set(map(id, lines))) < len(lines):
            return None
        return self.pair(phrase)

    def fill(self, form: Form, classes: tuple[str, ...], only: tuple[str, ...], rnd: Any) -> Phrase:
        """A phrase of this form with every slot filled; raises Dead when one cannot be."""
        phrase = form.phrase(self.base)
        self.base += LABELS
        for index, slot in form.needed:
            self.fill_slot(phrase, index, slot, classes, only, rnd)
            if slot.governor and (head := phrase.heads[index]):
                verb = phrase.slots[form.names.index(slot.governor)]
                self.combinations.append((verb.lemma, head.lemma))
        phrase.head = self.plural if form.rule.plural else next((head for head in phrase.heads if head), None)
        return phrase

    def fill_slot(
        self, phrase: Phrase, index: int, slot: Slot, classes: tuple[str, ...], only: tuple[str, ...], rnd: Any
    ) -> None:
        """Choose what stands in one slot."""
        kind = slot.kind
        if kind == "adjective":
            noun = phrase.heads[phrase.names.index(slot.classes[0])]
            value: Any = pick(self.candidates.describing(noun, slot.classes[1:]), rnd)
        elif kind in ("verb", "word"):
            value = pick(self.candidates.entries(kind, slot.classes), rnd)
        else:
            wanted, limits = inherit(slot, classes, only, phrase)
            if kind in ("noun", "pronoun"):
                value = phrase.heads[index] = pick(self.candidates.entries(kind, wanted, limits), rnd)
            else:
                choice = self.candidates.choice(kind, wanted, limits)
                if not choice.forms:
                    raise Dead
                value = self.fill(choice.draw(rnd), wanted, limits, rnd)
                phrase.heads[index] = value.head
        if kind not in self.forms:
            self.used.append(value)
        phrase.slots[index] = value

    def pair(self, phrase: Phrase) -> Pair:
        """Write a sentence on both sides."""
        german_out: Out = []
        english_out: Out = []
        for out, operations in zip((german_out, english_out), phrase.write, strict=True):
            for write in operations:
                write(out, phrase, 0)
        german, english = finish_german(german_out), finish_english(english_out, self.lexicon)
        name, lemmas = phrase.name, tuple(self.used)
        return Pair(join(german), join(english), links(german, english), name, lemmas, tuple(self.combinations))


def draws(grammar: Grammar, seed: int) -> Iterator[Pair]:
    """Pairs without end, the same for the same seed."""
    rnd = random.Random(seed).random
    while True:
        if pair := grammar.draw(rnd):
            yield pair

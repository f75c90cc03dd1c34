"""Drawing sentence pairs: choose a rule, fill its slots, write both sides, and derive the
alignment.

Only `random()` of the generator is used: Python keeps its sequence for a seed the same in every
version.
"""

import random
from collections.abc import Collection, Iterator
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from generator.candidates import Candidates, Choice, NoCandidates, choose_entry, inherit
from generator.check import check
from generator.contractions import SHARE, contract
from generator.entries import Entry
from generator.finish import finish_english, finish_german, join, links
from generator.form import Form
from generator.lexicon import Lexicon
from generator.rules import Slot, read_rules
from generator.side import LABELS, Out, Phrase
from generator.tables import PhrasebookError

PATIENCE = 10_000  # draws in a row without a sentence


class Pair(NamedTuple):
    """A sentence pair with its gold alignment, its rule and its words."""

    german: str
    english: str
    links: str  # Pharaoh: i-j sure, ipj possible; German first
    skeleton: str  # the rule and its variant
    lemmas: tuple[Entry, ...]
    combinations: tuple[tuple[str, str], ...]  # each verb with the noun of its object


class Grammar:
    """The phrasebook's words and rules, ready to draw; raises PhrasebookError for a broken line."""

    def __init__(self, folder: Path | None = None, files: Collection[str] = ()) -> None:
        folder = folder or Path(__file__).parent
        self.lexicon = Lexicon(folder / "words")
        rules = read_rules(folder / "grammar", files)
        check(rules, self.lexicon)
        self.forms: dict[str, list[Form]] = {}
        for rule in rules:
            for number, variant in enumerate(rule.variants, 1):
                form = Form(rule, variant, number, self.lexicon)
                self.forms.setdefault(rule.category, []).append(form)
        if "sentence" not in self.forms:
            raise PhrasebookError(f"{folder / 'grammar'} has no rule of the category 'sentence'.")
        self.candidates = Candidates(self.lexicon, self.forms)

    @cached_property
    def sentences(self) -> Choice:
        """The ways to build a sentence; each variant of a rule has the rule's whole weight."""
        choice = Choice(self.forms["sentence"])
        choice.cumulative = list(accumulate(form.rule.weight for form in choice.forms))
        return choice

    def draw(self, rnd: Any) -> Pair | None:
        """One pair, or None when a slot could not be filled or a word was drawn twice."""
        self.base = 0
        self.used: list[Any] = []
        self.combinations: list[tuple[str, str]] = []
        form = self.sentences.draw(rnd)
        try:
            phrase = self.fill(form, (), (), rnd)
            lemmas = {entry.lemma for entry in self.used}
            return None if len(lemmas) < len(self.used) else self.pair(phrase, rnd)
        except NoCandidates:
            return None
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            expected = (
                "expected only forms that every word has which its slots, or phrases in "
                "them, can hold."
            )
            raise form.line.error(expected) from error

    def fill(self, form: Form, classes: tuple[str, ...], only: tuple[str, ...], rnd: Any) -> Phrase:
        """A phrase of this form with every slot filled; raises NoCandidates when one cannot be."""
        phrase = form.phrase(self.base)
        self.base += LABELS
        for index, slot in form.needed:
            self.fill_slot(phrase, index, slot, classes, only, rnd)
            if slot.governor and (head := phrase.heads[index]):
                verb = phrase.slots[form.names.index(slot.governor)]
                self.combinations.append((verb.lemma, head.lemma))
        phrase.head = next((head for head in phrase.heads if head), None)
        return phrase

    def fill_slot(
        self,
        phrase: Phrase,
        index: int,
        slot: Slot,
        classes: tuple[str, ...],
        only: tuple[str, ...],
        rnd: Any,
    ) -> None:
        """Choose a word or a phrase for a slot; raises NoCandidates."""
        kind = slot.kind
        if kind == "adjective":
            noun = phrase.heads[phrase.names.index(slot.classes[0])]
            value: Any = choose_entry(self.candidates.describing(noun, slot.classes[1:]), rnd)
        elif kind in ("verb", "word"):
            value = choose_entry(self.candidates.entries(kind, slot.classes), rnd)
        else:
            wanted, limits = inherit(slot, classes, only, phrase)
            if kind in ("noun", "pronoun"):
                value = phrase.heads[index] = choose_entry(
                    self.candidates.entries(kind, wanted, limits), rnd
                )
            else:
                choice = self.candidates.choice(kind, wanted, limits)
                if not choice.forms:
                    raise NoCandidates
                value = self.fill(choice.draw(rnd), wanted, limits, rnd)
                phrase.heads[index] = value.head
        if kind not in self.forms:
            self.used.append(value)
        phrase.slots[index] = value

    def pair(self, phrase: Phrase, rnd: Any) -> Pair:
        """The sentence pair of a filled phrase, with its links; a random number decides about
        possible contractions."""
        german_out: Out = []
        english_out: Out = []
        for out, operations in zip((german_out, english_out), phrase.write, strict=True):
            for write in operations:
                write(out, phrase, 0)
        german = finish_german(german_out)
        english = finish_english(english_out, self.lexicon)
        contracted = contract(english, self.lexicon)
        if contracted != english and rnd() < SHARE:
            english = contracted
        name = phrase.name
        lemmas = tuple(self.used)
        return Pair(
            join(german),
            join(english),
            links(german, english),
            name,
            lemmas,
            tuple(self.combinations),
        )


def draws(grammar: Grammar, seed: int) -> Iterator[Pair]:
    """Pairs without end, the same for the same seed; raises PhrasebookError when PATIENCE draws in
    a row give none."""
    rnd = random.Random(seed).random
    failures = 0
    while failures < PATIENCE:
        pair = grammar.draw(rnd)
        failures = 0 if pair else failures + 1
        if pair:
            yield pair
    raise PhrasebookError(
        f"{PATIENCE:,} draws in a row gave no sentence: some slots of these rules have too few "
        "words, or none."
    )

"""One side of a rule's variant, compiled: what both languages need to turn a token into an
operation.

An operation `write(out, phrase, form)` appends (word, marks) pairs. `form` is the case on the
German side and the role on the English side (subject, object, possessor = 0, 1, 2), handed down
from the rule around. A mark is (key, sure); words of the two sides whose marks share a key are
linked. `MARKER` in front of a word marks an article that may still change: German contractions,
English a and an.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from generator.entries import Head
from generator.lexicon import Lexicon
from generator.rules import Rule, Token

Marks = tuple[tuple[int, bool], ...]
Out = list[tuple[str, Marks]]
# numbers of labels, slots used, cases of phrase slots
Shared = tuple[dict[str, int], set[str], dict[str, int]]
Write = Callable[[Out, "Phrase", int], None]

LABELS = 64  # keys of one phrase
# between the keys of two groups under one label: words of an entry, particles of a verb
GROUP = 1 << 40
MARKER = "\x01"
TENSES = {"pres": "present", "past": "past", "subj": "subjunctive"}
DEGREES = {"comparative": 1, "superlative": 2}


class Phrase:
    """A rule that was drawn, with what fills its slots; `write` holds its German and its English
    operations."""

    __slots__ = ("base", "head", "heads", "name", "names", "slots", "write")

    def __init__(
        self, name: str, names: list[str], write: tuple[list[Write], list[Write]], base: int
    ) -> None:
        self.name = name
        self.names = names
        self.write = write
        self.base = base
        self.slots: list[Any] = [None] * len(names)
        self.heads: list[Any] = [None] * len(names)  # what others agree with, by slot
        self.head: Head | None = None


class Side(ABC):
    """The tokens of one language in a variant; `labels`, `used` and `cases` are shared with the
    other side."""

    language = ""

    def __init__(self, rule: Rule, lexicon: Lexicon, shared: Shared) -> None:
        self.rule = rule
        self.lexicon = lexicon
        self.names = list(rule.slots)
        self.kinds = {name: slot.kind for name, slot in rule.slots.items()}
        self.labels, self.used, self.cases = shared
        self.label_tokens: dict[str, Token] = {}

    def compile(self, token: Token) -> Write:
        """The operation of a token; raises PhrasebookError for one that is not possible."""
        if token.literal:
            return self.literal(token)
        word = token.words[0]
        if word[:1].isupper():
            return self.slot_token(token, self.slot(token, word), self.kinds[word])
        if operation := self.inflecting(token, word):
            return operation
        if word in self.lexicon.auxiliaries:
            return self.auxiliary(token, word)
        raise token.line.error(f"expected a slot or a word that inflects, not '{word}'.")

    @abstractmethod
    def inflecting(self, token: Token, word: str) -> Write | None:
        """A closed-class word of the language that agrees with a slot, or None."""

    @abstractmethod
    def slot_token(self, token: Token, index: int, kind: str) -> Write:
        """The operation that writes what fills a slot."""

    def marks(
        self, token: Token, default: tuple[tuple[str, bool], ...], given: bool = True
    ) -> Callable[[int], Marks]:
        """base → marks of the labels that are given, or else of the default; records their
        tokens."""
        labels = (given and token.labels) or default
        for label, _ in labels:
            self.label_tokens.setdefault(label, token)
            self.labels.setdefault(label, len(self.labels))
        if len(self.labels) > LABELS:
            raise token.line.error(f"expected at most {LABELS} labels.")
        pairs = [(self.labels[label], sure) for label, sure in labels]
        if not pairs:
            return lambda base: ()
        if len(pairs) == 1:
            ((number, sure),) = pairs
            return lambda base: ((base + number, sure),)
        return lambda base: tuple((base + number, sure) for number, sure in pairs)

    def word(self, token: Token, index: int) -> Write:
        """An entry of kind `word`: each of its words with the links of its own."""
        self.features_and_slots(token, set())
        marks = self.marks(token, ((token.words[0], True),))
        german = self.language == "de"

        def write(out: Out, phrase: Phrase, form: int) -> None:
            entry = phrase.slots[index]
            own = marks(phrase.base)
            for word, groups in entry.german if german else entry.english:
                linked = [
                    (key + group * GROUP, sure and also)
                    for key, sure in own
                    for group, also in groups
                ]
                out.append((word, tuple(linked)))

        return write

    def slot(self, token: Token, name: str) -> int:
        """The number of a slot; raises PhrasebookError for one that the rule does not have."""
        if name not in self.names:
            raise token.line.error(
                f"expected one of the rule's slots ({', '.join(self.names)}), not '{name}'."
            )
        self.used.add(name)
        return self.names.index(name)

    def features_and_slots(self, token: Token, allowed: set[str]) -> tuple[list[str], list[int]]:
        """The features, of those allowed, and the slots behind the first word in the braces; raises
        PhrasebookError."""
        features = []
        slots = []
        for word in token.words[1:]:
            if word in allowed:
                features.append(word)
            elif word[:1].isupper():
                slots.append(self.slot(token, word))
            else:
                raise token.line.error(
                    f"expected one of {', '.join(sorted(allowed))} or a slot, not '{word}'."
                )
        return features, slots

    def agreement_slot(self, token: Token, slots: list[int]) -> int:
        """The slot that a token agrees with; raises PhrasebookError unless it names exactly one."""
        if len(slots) != 1:
            raise token.line.error(
                f"expected one slot to agree with in {{{' '.join(token.words)}}}."
            )
        return slots[0]

    def literal(self, token: Token) -> Write:
        """A word that is written as it is in the rule."""
        marks = self.marks(token, ())
        word = token.words[0]
        if self.language == "en" and word in ("a", "an"):
            word = MARKER + "a"
        return lambda out, phrase, form: out.append((word, marks(phrase.base)))

    def auxiliary(self, token: Token, word: str) -> Write:
        """{haben pres S}, {be past S}: linked only by labels that are given."""
        features, slots = self.features_and_slots(token, set(TENSES))
        marks = self.marks(token, ())
        subject = self.agreement_slot(token, slots)
        tense = TENSES[features[0]] if features else "present"
        if tense not in self.lexicon.auxiliaries[word]:
            raise token.line.error(f"expected a tense that '{word}' has.")
        forms = self.lexicon.auxiliaries[word][tense]
        if self.language == "en":
            return lambda out, phrase, form: out.append(
                (forms[phrase.heads[subject].english_person], marks(phrase.base))
            )
        return lambda out, phrase, form: out.append(
            (forms[phrase.heads[subject].person], marks(phrase.base))
        )

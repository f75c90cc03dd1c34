"""What can be drawn: nouns in a number, verbs, adjectives, other words, each with all its forms."""

from dataclasses import dataclass, field

from generator.tables import Line

Forms = tuple[str, ...]
# words of the two languages in one group are linked; whether surely
Groups = tuple[tuple[int, bool], ...]


@dataclass(eq=False, slots=True)
class Entry:
    """Anything that can be drawn: its German lemma, its line in the lexicon and its classes."""

    lemma: str
    line: Line
    classes: frozenset[str]


@dataclass(eq=False, slots=True)
class Head(Entry):
    """A noun in one number, a name or a pronoun: something that verbs, articles and adjectives
    agree with.

    `german` lists nom, acc, dat, gen; `person` counts ich, du, er, wir, ihr, sie; `plain` is its
    use of articles: count, mass, pair (one language has no singular, or no plural: glasses), bare
    (never any: football) or name.
    """

    german: Forms = ()
    english: Forms = ()  # subject, object, possessor
    gender: str = "n"  # German m, f, n, or p for the plural
    person: int = 2
    english_person: int = 2
    natural: str = "n"  # English he, she, it, they as m, f, n, p
    number: str = "sg"
    plain: str = "count"
    # German preposition, English preposition, whether English has an article
    at: tuple[str, str, bool] | None = None
    to: tuple[str, str, bool] | None = None


@dataclass(eq=False, slots=True)
class Verb(Entry):
    """A verb in all its forms, with the classes of its subjects and objects and its preposition."""

    subject: tuple[str, ...] = ()
    object: tuple[str, ...] = ()
    prefix: str = ""
    german: dict[str, Forms] = field(default_factory=dict)  # present, past by person; others alone
    english: dict[str, Forms] = field(default_factory=dict)
    auxiliary: str = "haben"
    preposition: tuple[str, int, str] | None = None  # German, case, English


@dataclass(eq=False, slots=True)
class Adjective(Entry):
    """Positive, comparative and superlative: predicative form and stem."""

    german: tuple[tuple[str, str], ...] = ()
    english: Forms = ()


@dataclass(eq=False, slots=True)
class Word(Entry):
    """An adverb, a name, a number: the same form everywhere; each of its words with the groups it
    is linked by."""

    german: tuple[tuple[str, Groups], ...] = ()
    english: tuple[tuple[str, Groups], ...] = ()

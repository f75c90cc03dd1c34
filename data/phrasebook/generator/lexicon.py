"""The words: lines of the lexicon files, inflected for all their forms once.

nouns*.txt, verbs*.txt, adjectives.txt, adverbs.txt, names.txt, pronouns.txt, auxiliaries.txt,
articles.txt, contractions.txt; their columns are described in README.md.
"""

import re
from functools import cached_property
from pathlib import Path

from generator import english, german, nouns
from generator.entries import Adjective, Forms, Groups, Head, Verb, Word
from generator.tables import Line, read

LINK = re.compile(r"([0-9]+)([-p])([0-9]+)")
CONTRACTED = ("anywhere", "clause", "perfect", "beginning")
Linked = tuple[tuple[str, Groups], ...]
# with another class or other subjects
AGAIN = {"names": slice(2, 3), "adverbs": slice(2, 3), "verbs": slice(3, 4)}
FRAMES = ("intrans", "trans", "dative", "ditrans", "prep", "motion", "located", "reflexive")


class Lexicon:
    """All entries, by part of speech; raises PhrasebookError for a line that cannot be
    understood."""

    def __init__(self, folder: Path) -> None:
        self.heads: list[Head] = []
        self.verbs: list[Verb] = []
        self.adjectives: list[Adjective] = []
        self.words: list[Word] = []
        self.pronouns: list[Head] = []
        self.auxiliaries: dict[str, dict[str, Forms]] = {}
        self.articles: dict[str, frozenset[str]] = {}
        # first and second word: the text, and where
        self.contractions: dict[str, dict[str, tuple[str, str]]] = {}
        lines: dict[tuple[str, str], Line] = {}
        for kind, make in (
            ("nouns", self.noun),
            ("verbs", self.verb),
            ("adjectives", self.adjective),
            ("adverbs", self.word),
            ("names", self.word),
            ("pronouns", self.pronoun),
            ("auxiliaries", self.auxiliary),
            ("articles", self.article),
            ("contractions", self.contraction),
        ):
            for path in sorted(folder.glob(f"{kind}*.txt")):
                for line in read(path):
                    columns = line.text.split(" | ")
                    key = kind, columns[0].strip() + "".join(columns[AGAIN.get(kind, slice(0))])
                    if key in lines:
                        earlier = lines[key]
                        raise line.error(
                            f"expected each entry once; {earlier.file}, line {earlier.number} has "
                            "it already."
                        )
                    lines[key] = line
                    if any(
                        not part.strip() for column in columns[:2] for part in column.split(",")
                    ):
                        raise line.error("expected no empty form between commas.")
                    try:
                        make(line)
                    except (IndexError, KeyError, ValueError) as error:
                        raise line.error("expected what README.md says about this file.") from error

    def noun(self, line: Line) -> None:
        """`der Apfel, Äpfel | apple | food fruit`, parsed in nouns.py."""
        self.heads += nouns.heads(line)

    def verb(self, line: Line) -> None:
        """`auf|stehen, steht, stand, ist aufgestanden | get up, got up, got up | intrans action |
        person`."""
        pattern = (
            "GERMAN | ENGLISH | FRAME ASPECT | SUBJECTS [| OBJECTS [| PREPOSITION+CASE/ENGLISH]]"
        )
        columns = line.columns(4, 6, pattern) + ["", ""]
        forms = [form.strip() for form in columns[0].split(",")]
        english_forms = [form.strip() for form in columns[1].split(",")]
        classes = frozenset(columns[2].split())
        if len(forms) != 4 or len(english_forms) not in (3, 4):
            raise line.error("expected four German forms and three or four English ones.")
        frame = classes & set(FRAMES)
        if len(frame) != 1 or not classes & {"action", "state"}:
            raise line.error(f"expected one frame of {', '.join(FRAMES)}, and action or state.")
        if frame <= {"trans", "dative", "ditrans", "prep"} and not columns[4]:
            raise line.error("expected a column of classes for the object.")
        lemma = forms[0].replace("|", "")
        prefix, _, infinitive = forms[0].removeprefix("sich ").rpartition("|")
        participle = forms[3].removeprefix("ist ").removeprefix("sich ")
        preposition = None
        if frame == {"prep"}:
            before, _, target = columns[5].partition("/")
            word, _, case = before.partition("+")
            if case not in german.CASE or not target:
                raise line.error("expected a preposition such as auf+acc/for in the last column.")
            preposition = word, german.CASE[case], target
        self.verbs.append(
            Verb(
                lemma=lemma,
                line=line,
                classes=classes,
                subject=tuple(columns[3].split()),
                object=tuple(columns[4].split()),
                prefix=prefix,
                german={
                    "present": german.present(infinitive, forms[1]),
                    "past": german.past(forms[2]),
                    "participle": (participle,),
                    "infinitive": (prefix + infinitive,),
                    "zu": tuple(german.to_infinitive(prefix, infinitive).split()),
                    "imperative": (german.imperative(infinitive, forms[1]),),
                    "bare": (infinitive,),
                },
                english={
                    "present": english.present(english_forms[0]),
                    "past": (english_forms[1],),
                    "participle": (english_forms[2],),
                    "infinitive": (english_forms[0],),
                    "ing": (
                        english_forms[3]
                        if len(english_forms) == 4
                        else english.ing_form(english_forms[0]),
                    ),
                },
                auxiliary="sein" if forms[3].startswith("ist ") else "haben",
                preposition=preposition,
            )
        )

    def adjective(self, line: Line) -> None:
        """`groß, größer, größt | big, bigger, biggest | furniture building`."""
        columns = line.columns(
            3, 3, "GERMAN[, COMPARATIVE, SUPERLATIVE STEM] | ENGLISH[, …, …] | CLASSES"
        )
        left, right = ([form.strip() for form in column.split(",")] for column in columns[:2])
        words = left[-1].split()
        left[-1], stem = words[0], words[-1] if len(words) > 1 else left[0]
        if len(left) != len(right) or len(left) not in (1, 3) or len(words) > 2:
            raise line.error("expected one form or three in each language.")
        stems = [stem, *left[1:]]
        predicative = [left[0]] + ([left[1], left[2] + "en"] if len(left) == 3 else [])
        if stem == left[0] and stem.endswith("e"):
            stems[0] = stem[:-1]
        classes = frozenset(columns[2].split()) | ({"comparable"} if len(left) == 3 else set())
        self.adjectives.append(
            Adjective(
                left[0], line, classes, tuple(zip(predicative, stems, strict=True)), tuple(right)
            )
        )

    def word(self, line: Line) -> None:
        """`heute | today | time now`, `vor zwei Tagen | two days ago | time past | 0-2 1-0 2-1`;
        names become heads."""
        left, right, classes, *given = line.columns(3, 4, "GERMAN | ENGLISH | CLASSES [| LINKS]")
        class_names = frozenset(classes.split())
        if "name" in class_names:
            gender = "f" if "female" in class_names else "m"
            owner = left + ("'" if left.endswith(("s", "x", "z", "ß")) else "s")
            english_forms = (right, right, right + "'s")
            self.heads.append(
                Head(
                    left,
                    line,
                    class_names | {"person", "private"},
                    (left, left, left, owner),
                    english_forms,
                    gender,
                    natural=gender,
                    plain="name",
                )
            )
        else:
            self.words.append(
                Word(
                    left,
                    line,
                    class_names,
                    *grouped(line, left.split(), right.split(), "".join(given)),
                )
            )

    def pronoun(self, line: Line) -> None:
        """`ich mich mir | I me | 0 | m | subject`: nom, acc, dat; subject, object; person; gender;
        classes.

        A person such as 5/1 is that of the German verb and that of the English one (Sie gehen, you
        go).
        """
        left, right, person, gender, classes = line.columns(
            5, 5, "NOM ACC DAT | SUBJECT OBJECT | PERSON | GENDER | CLASSES"
        )
        forms = left.split()
        english_forms = right.split()
        person, _, english_person = person.partition("/")
        english_person = english_person or person
        if (
            len(forms) != 3
            or len(english_forms) != 2
            or not {person, english_person} <= set("012345")
            or gender not in tuple("mfnp")
        ):
            raise line.error(
                "expected three German forms, two English ones, a person from 0 to 5 "
                "and m, f, n or p."
            )
        self.pronouns.append(
            Head(
                f"{forms[0]} {english_forms[0]}",
                line,
                frozenset(classes.split()),
                (*forms, ""),
                (*english_forms, ""),
                gender,
                int(person),
                int(english_person),
                gender,
                "pl" if int(person) > 2 else "sg",
                "pronoun",
            )
        )

    def auxiliary(self, line: Line) -> None:
        """`haben | habe hast hat haben habt haben | hatte hattest hatte hatten hattet hatten`,
        German and English."""
        name, *tenses = line.columns(
            3, 4, "NAME | SIX PRESENT FORMS | SIX PAST FORMS [| SIX SUBJUNCTIVE FORMS]"
        )
        forms = {}
        for tense, row in zip(("present", "past", "subjunctive"), tenses, strict=False):
            forms[tense] = tuple(form.replace("_", " ") for form in row.split())
            if len(forms[tense]) != 6:
                raise line.error(f"expected six {tense} forms.")
        self.auxiliaries[name] = forms

    def article(self, line: Line) -> None:
        """`an | hour honest`: words whose spelling misleads."""
        which, listed = line.columns(2, 2, "a or an | WORDS")
        self.articles[which] = frozenset(listed.split())

    def contraction(self, line: Line) -> None:
        """`do not | don't | anywhere`: one or two English words, their contraction, and where it is
        possible."""
        words, text, where = line.columns(3, 3, "WORDS | CONTRACTION | WHERE")
        first, _, second = words.partition(" ")
        if " " in second or where not in CONTRACTED:
            raise line.error(
                f"expected at most two words, and one of {', '.join(CONTRACTED)} in "
                "the last column."
            )
        self.contractions.setdefault(first, {})[second] = text, where

    @cached_property
    def participles(self) -> frozenset[str]:
        """English participles, without those that are also the first word of a noun or an
        adjective."""
        words = {verb.english["participle"][0].split()[0] for verb in self.verbs} | {
            "been",
            "had",
            "lost",
            "seen",
        }
        words -= {head.english[0].split()[0] for head in self.heads}
        return frozenset(words - {adjective.english[0].split()[0] for adjective in self.adjectives})


def grouped(line: Line, left: list[str], right: list[str], given: str) -> tuple[Linked, Linked]:
    """The words of an entry with their groups: by the links given, else one to one, else all with
    all.

    All with all is sure where one side is a single word, but for an English article (Schnupfen, a
    cold), and possible between several.
    """
    if given:
        links = [LINK.fullmatch(link) for link in given.split()]
        if not all(
            link and int(link[1]) < len(left) and int(link[3]) < len(right) for link in links
        ):
            raise line.error("expected links such as 0-2 1p0 between the words of both languages.")
        linked = [(int(link[1]), int(link[3]), link[2] == "-") for link in links if link]
    elif len(left) == len(right):
        linked = [(index, index, True) for index in range(len(left))]
    else:
        single = 1 in (len(left), len(right))
        linked = [
            (i, j, single and word not in ("a", "an"))
            for i in range(len(left))
            for j, word in enumerate(right)
        ]
    german_groups: list[list[tuple[int, bool]]] = [[] for _ in left]
    english_groups: list[list[tuple[int, bool]]] = [[] for _ in right]
    for group, (i, j, sure) in enumerate(linked):
        german_groups[i].append((group, sure))
        english_groups[j].append((group, sure))
    return (
        tuple((word, tuple(groups)) for word, groups in zip(left, german_groups, strict=True)),
        tuple((word, tuple(groups)) for word, groups in zip(right, english_groups, strict=True)),
    )

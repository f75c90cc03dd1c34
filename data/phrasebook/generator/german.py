"""German inflection by rules, from principal parts.

Cases are counted nom, acc, dat, gen = 0, 1, 2, 3; persons ich, du, er, wir, ihr, sie = 0 … 5; a
gender is m, f, n, or p for the plural, which has no gender.
"""

CASES = ("nom", "acc", "dat", "gen")
CASE = {name: number for number, name in enumerate(CASES)}

# Endings of der-words and of adjectives, by gender; each string lists nom, acc, dat, gen.
DER = {"m": "er en em es", "f": "e e er er", "n": "es es em es", "p": "e e en er"}
EIN = {"m": "- en em es", "f": "e e er er", "n": "- - em es", "p": "e e en er"}
WEAK = {"m": "e en en en", "f": "e e en en", "n": "e e en en", "p": "en en en en"}
MIXED = {"m": "er en en en", "f": "e e en en", "n": "es es en en", "p": "en en en en"}
STRONG = {"m": "er en em en", "f": "e e er er", "n": "es es em en", "p": "e e en er"}
ARTICLE = {
    "m": "der den dem des",
    "f": "die die der der",
    "n": "das das dem des",
    "p": "die die den der",
}
RELATIVE = {
    "m": "der den dem dessen",
    "f": "die die der deren",
    "n": "das das dem dessen",
    "p": "die die denen deren",
}
PRONOUN = {"m": "er ihn ihm", "f": "sie sie ihr", "n": "es es ihm", "p": "sie sie ihnen"}
DER_WORDS = {
    "dieser": "dies",
    "jeder": "jed",
    "welcher": "welch",
    "alle": "all",
    "viele": "viel",
    "einige": "einig",
    "beide": "beid",
    "mehrere": "mehrer",
    "wenige": "wenig",
}
EIN_WORDS = ("ein", "kein", "mein", "dein", "sein", "ihr", "unser", "euer")
# by person; the third singular also by gender
POSSESSIVES = ("mein", "dein", "sein", "unser", "euer", "ihr")
REFLEXIVES = ("mich", "dich", "sich", "uns", "euch", "sich")
REFLEXIVES_DATIVE = ("mir", "dir", "sich", "uns", "euch", "sich")


def split(table: dict[str, str]) -> dict[str, tuple[str, ...]]:
    """The forms of a table row as a tuple."""
    return {
        gender: tuple("" if form == "-" else form for form in row.split())
        for gender, row in table.items()
    }


ENDINGS = {"weak": split(WEAK), "mixed": split(MIXED), "strong": split(STRONG)}


def determiners() -> dict[str, dict[str, tuple[str, ...]]]:
    """word → gender → forms in the four cases."""
    forms = {"der": split(ARTICLE), "rel": split(RELATIVE)}
    for word, stem in DER_WORDS.items():
        forms[word] = {
            gender: tuple(stem + end for end in ends) for gender, ends in split(DER).items()
        }
    for word in EIN_WORDS:
        inflected = "eur" if word == "euer" else word
        forms[word] = {
            gender: tuple(inflected + end if end else word for end in ends)
            for gender, ends in split(EIN).items()
        }
    return forms


def plural(singular: str, given: str) -> str:
    """The plural from a noun line: in full, as an ending behind a hyphen, or `--` for no change."""
    if given == "--":
        return singular
    return singular + given[1:] if given.startswith("-") else given


def genitive(singular: str) -> str:
    """The genitive of a masculine or neuter noun: -s, or -es after a sibilant."""
    return singular + ("es" if singular.endswith(("s", "ß", "x", "z", "sch", "st")) else "s")


def dative_plural(form: str) -> str:
    """The dative plural: -n, unless the plural ends in n or s."""
    return form if form.endswith(("n", "s")) else form + "n"


def present(infinitive: str, third: str) -> tuple[str, ...]:
    """The present tense in the six persons, from the infinitive and the third person singular."""
    stem = verb_stem(infinitive)
    first = stem[:-2] + "le" if infinitive.endswith("eln") else stem + "e"
    regular = third in (stem + "t", stem + "et")
    if regular and third == stem + "et" and not stem.endswith("e"):
        second = stem + "est"
        plural_second = stem + "et"
    else:
        plural_second = stem + ("et" if stem.endswith(("d", "t")) else "t")
        body = third if stem.endswith("t") and not regular else third[:-1]
        second = body + ("t" if body.endswith(("s", "ß", "z", "x")) else "st")
    return first, second, third, infinitive, plural_second, infinitive


def past(third: str) -> tuple[str, ...]:
    """The preterite in the six persons, from the third person singular."""
    if third.endswith("e"):
        return third, third + "st", third, third + "n", third + "t", third + "n"
    second = third + ("est" if third.endswith(("d", "t", "s", "ß", "z")) else "st")
    return (
        third,
        second,
        third,
        third + "en",
        third + ("et" if third.endswith(("d", "t")) else "t"),
        third + "en",
    )


def imperative(infinitive: str, third: str) -> str:
    """The du-imperative: the third person where e turns into i (iss, lies, gib), else the stem
    (komm, fahr, warte)."""
    stem = verb_stem(infinitive)
    changed = next(((old, new) for old, new in zip(stem, third, strict=False) if old != new), None)
    if changed == ("e", "i"):
        return third if stem.endswith("t") and third.endswith("tt") else third[:-1]
    if infinitive.endswith("eln"):
        return stem[:-2] + "le"
    if stem.endswith(("d", "t", "ig")) or third == stem + "et" or infinitive.endswith("ern"):
        return stem + "e"
    return stem


def verb_stem(infinitive: str) -> str:
    """The infinitive without -en or -n."""
    return infinitive[:-2] if infinitive.endswith("en") else infinitive[:-1]


def to_infinitive(prefix: str, infinitive: str) -> str:
    """The infinitive with zu: zu gehen, aufzustehen."""
    return f"{prefix}zu{infinitive}" if prefix else f"zu {infinitive}"

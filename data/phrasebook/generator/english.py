"""English inflection by rules, from principal parts. Persons are counted I, you, he, we, you,
they."""

SIBILANTS = ("s", "x", "z", "ch", "sh")
VOWELS = "aeiou"
SUBJECTS = {"m": "he", "f": "she", "n": "it", "p": "they"}
OBJECTS = {"m": "him", "f": "her", "n": "it", "p": "them"}
# by person; the third singular also by gender
POSSESSIVES = ("my", "your", "his", "our", "your", "their")
OWNERS = {"m": "his", "f": "her", "n": "its", "p": "their"}
REFLEXIVES = ("myself", "yourself", "himself", "ourselves", "yourselves", "themselves")


def s_form(word: str) -> str:
    """-s, -es, -ies on the first word: plurals of nouns and third persons of verbs."""
    first, space, rest = word.partition(" ")
    if first.endswith("y") and first[-2:-1] not in VOWELS:
        first = first[:-1] + "ies"
    else:
        first += "es" if first.endswith((*SIBILANTS, "o")) else "s"
    return first + space + rest


def plural(noun: str) -> str:
    """The regular plural, on the last word."""
    if noun.endswith("y") and noun[-2:-1] not in VOWELS:
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(SIBILANTS) else "s")


def ing_form(verb: str) -> str:
    """-ing on the first word, without a silent -e."""
    first, space, rest = verb.partition(" ")
    if first.endswith("ie"):
        first = first[:-2] + "y"
    elif first.endswith("e") and not first.endswith(("ee", "oe", "ye")):
        first = first[:-1]
    return f"{first}ing{space}{rest}"


def present(infinitive: str) -> tuple[str, ...]:
    """The present tense in the six persons."""
    return infinitive, infinitive, s_form(infinitive), infinitive, infinitive, infinitive


def possessive(form: str, plural: bool) -> str:
    """father's, actress's; parents' (the apostrophe is a word of its own when it stands alone at
    the end)."""
    return form + ("'" if plural and form.endswith("s") else "'s")


def article(following: str, vowels: frozenset[str], consonants: frozenset[str]) -> str:
    """a or an before a word; `vowels` and `consonants` list words whose spelling misleads (hour;
    university)."""
    word = following.lower().split("-")[0]
    if word in vowels:
        return "an"
    return "an" if word[:1] in "aeiou" and word not in consonants else "a"

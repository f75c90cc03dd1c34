"""Lines of nouns*.txt: a noun becomes a head in each number that it has.

der Apfel, Äpfel | apple | food fruit
"""

from generator import english, german
from generator.entries import Forms, Head
from generator.tables import Line

GENDERS = {"der": "m", "die": "f", "das": "n"}
ARTICLELESS = {"subject", "sport", "language", "illness"}  # used without an article


def heads(line: Line) -> list[Head]:
    """Singular and plural; raises PhrasebookError for a line that cannot be understood."""
    left, right, last = line.columns(3, 3, "ARTICLE SINGULAR, PLURAL | ENGLISH | CLASSES")
    tags = [tag for tag in f"{left} {last}".split() if "=" in tag]
    if unknown := [tag for tag in tags if tag.partition("=")[0] not in ("gen", "at", "to")]:
        raise line.error(f"expected gen=, at= or to=, not '{unknown[0]}'.")
    classes = frozenset(last.split()) - set(tags)
    at, to = (prepositions(line, tags, side) for side in ("at", "to"))
    if to:
        classes |= {"todat" if to[0] in ("zu", "nach", "bei") else "toacc"}
    if classes & {"family", "pet"}:
        classes |= {"own"}
    article, _, rest = " ".join(word for word in left.split() if "=" not in word).partition(" ")
    if article not in GENDERS:
        raise line.error("expected der, die or das in front of the noun.")
    singular, plural, weak = german_noun(line, rest)
    english_singular, english_plural = english_noun(right)
    bare = bool(classes & ARTICLELESS)
    gender = GENDERS[article]
    entries = []
    if singular:
        given = next((tag.partition("=")[2] for tag in tags if tag.startswith("gen=")), "")
        head = Head(
            singular, line, classes, singular_forms(singular, gender, plural if weak else "", given)
        )
        head.gender = gender
        head.natural = gender if classes & {"person", "child"} else "n"
        head.natural = "f" if "girl" in classes else head.natural  # das Mädchen: es, but she
        counting = "count" if plural and english_plural else "mass"
        head.plain = "bare" if bare else counting if english_singular else "pair"
        entries.append(
            agree(head, english_singular, english_plural, singular=bool(english_singular))
        )
    if plural and (english_plural or not singular):
        head = Head(
            singular or plural,
            line,
            classes,
            (plural, plural, german.dative_plural(plural), plural),
        )
        head.gender = "p"
        head.person = 5
        head.number = "pl"
        head.plain = (
            "bare"
            if bare
            else "count"
            if english_plural and english_singular and singular
            else "pair"
        )
        entries.append(agree(head, english_singular, english_plural, singular=not english_plural))
    for head in entries:
        head.at = at
        head.to = to
    return entries


def agree(head: Head, english_singular: str, english_plural: str, singular: bool) -> Head:
    """Give a head its English side: glasses are, a headache is, whatever the German noun does."""
    form = english_singular if singular else english_plural
    head.english = form, form, english.possessive(form, plural=not singular)
    head.english_person = 2 if singular else 5
    head.natural = head.natural if singular else "p"
    return head


def german_noun(line: Line, rest: str) -> tuple[str, str, bool]:
    """The German singular, plural, and whether the noun is weak."""
    if rest.endswith(" pl"):
        return "", rest[:-3].strip(), False
    singular, comma, more = (part.strip() for part in rest.partition(","))
    words = more.split()
    if not comma or not words or len(words) > 2 or (len(words) == 2 and words[1] != "weak"):
        raise line.error("expected ARTICLE SINGULAR, PLURAL [weak] or die PLURAL pl.")
    return singular, "" if words[0] == "-" else german.plural(singular, words[0]), len(words) == 2


def english_noun(right: str) -> tuple[str, str]:
    """The English singular and plural, empty where there is none. "a fever, -" is a mass noun with
    its article."""
    if right.endswith(" pl"):
        return "", right[:-3].strip()
    singular, comma, plural = (part.strip() for part in right.partition(","))
    if not comma:
        return singular, english.plural(singular)
    return singular, "" if plural == "-" else plural


def singular_forms(singular: str, gender: str, weak: str, given: str) -> Forms:
    """The singular in the nominative, accusative, dative and genitive."""
    if weak:
        return singular, weak, weak, weak
    return (
        singular,
        singular,
        singular,
        singular if gender == "f" else given or german.genitive(singular),
    )


def prepositions(line: Line, tags: list[str], side: str) -> tuple[str, str, bool] | None:
    """The prepositions of `at=in/at-` and whether English has an article behind its one; None
    without such a tag."""
    values = [tag.partition("=")[2] for tag in tags if tag.startswith(side + "=")]
    if not values:
        return None
    before, slash, after = values[0].partition("/")
    if not slash or not before or not after:
        raise line.error(f"expected {side}=GERMAN/ENGLISH.")
    return before, after.rstrip("-").replace("_", " "), not after.endswith("-")

"""The built-in phrasebook: inflection, paired rules, alignments, splits, and the errors for broken
lines."""

import bz2
import re
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from generator import english, german, splits
from generator.draw import Grammar, Pair, draws
from generator.near_duplicates import near_training
from generator.tables import PhrasebookError

# Inflection, against forms from a school grammar


@pytest.mark.parametrize(
    ("infinitive", "third", "forms"),
    [
        ("kaufen", "kauft", "kaufe kaufst kauft kaufen kauft kaufen"),
        ("arbeiten", "arbeitet", "arbeite arbeitest arbeitet arbeiten arbeitet arbeiten"),
        ("öffnen", "öffnet", "öffne öffnest öffnet öffnen öffnet öffnen"),
        ("lesen", "liest", "lese liest liest lesen lest lesen"),
        ("essen", "isst", "esse isst isst essen esst essen"),
        ("nehmen", "nimmt", "nehme nimmst nimmt nehmen nehmt nehmen"),
        ("halten", "hält", "halte hältst hält halten haltet halten"),
        ("treten", "tritt", "trete trittst tritt treten tretet treten"),
        ("laden", "lädt", "lade lädst lädt laden ladet laden"),
        ("waschen", "wäscht", "wasche wäschst wäscht waschen wascht waschen"),
        ("heißen", "heißt", "heiße heißt heißt heißen heißt heißen"),
        ("sitzen", "sitzt", "sitze sitzt sitzt sitzen sitzt sitzen"),
        ("sammeln", "sammelt", "sammle sammelst sammelt sammeln sammelt sammeln"),
        ("wandern", "wandert", "wandere wanderst wandert wandern wandert wandern"),
        ("knien", "kniet", "knie kniest kniet knien kniet knien"),
    ],
)
def test_german_present(infinitive: str, third: str, forms: str) -> None:
    assert " ".join(german.present(infinitive, third)) == forms


@pytest.mark.parametrize(
    ("third", "forms"),
    [
        ("kaufte", "kaufte kauftest kaufte kauften kauftet kauften"),
        ("ging", "ging gingst ging gingen gingt gingen"),
        ("fand", "fand fandest fand fanden fandet fanden"),
        ("las", "las lasest las lasen last lasen"),
    ],
)
def test_german_past(third: str, forms: str) -> None:
    assert " ".join(german.past(third)) == forms


@pytest.mark.parametrize(
    ("infinitive", "third", "form"),
    [
        ("kommen", "kommt", "komm"),
        ("nehmen", "nimmt", "nimm"),
        ("lesen", "liest", "lies"),
        ("essen", "isst", "iss"),
        ("geben", "gibt", "gib"),
        ("treten", "tritt", "tritt"),
        ("sehen", "sieht", "sieh"),
        ("fahren", "fährt", "fahr"),
        ("hinterlassen", "hinterlässt", "hinterlass"),
        ("halten", "hält", "halte"),
        ("warten", "wartet", "warte"),
        ("öffnen", "öffnet", "öffne"),
        ("sammeln", "sammelt", "sammle"),
        ("erledigen", "erledigt", "erledige"),
        ("spielen", "spielt", "spiel"),
    ],
)
def test_german_imperative(infinitive: str, third: str, form: str) -> None:
    assert german.imperative(infinitive, third) == form


def test_german_nouns_and_articles() -> None:
    assert [german.genitive(noun) for noun in ("Tisch", "Haus", "Apfel", "Arzt", "Platz")] == [
        "Tisches",
        "Hauses",
        "Apfels",
        "Arzts",
        "Platzes",
    ]
    assert [german.dative_plural(form) for form in ("Tische", "Frauen", "Autos", "Lehrer")] == [
        "Tischen",
        "Frauen",
        "Autos",
        "Lehrern",
    ]
    forms = german.determiners()
    assert forms["kein"]["m"] == ("kein", "keinen", "keinem", "keines")
    assert forms["euer"]["f"] == ("eure", "eure", "eurer", "eurer")
    assert forms["dieser"]["p"] == ("diese", "diese", "diesen", "dieser")
    assert forms["rel"]["p"] == ("die", "die", "denen", "deren")
    assert german.to_infinitive("auf", "stehen") == "aufzustehen"


def test_english_forms() -> None:
    assert [english.s_form(verb) for verb in ("buy", "carry", "watch", "go", "get up")] == [
        "buys",
        "carries",
        "watches",
        "goes",
        "gets up",
    ]
    assert [
        english.ing_form(verb) for verb in ("make", "see", "lie", "look after", "write down")
    ] == [
        "making",
        "seeing",
        "lying",
        "looking after",
        "writing down",
    ]
    assert [english.plural(noun) for noun in ("cherry", "boy", "bus stop", "bench")] == [
        "cherries",
        "boys",
        "bus stops",
        "benches",
    ]
    misleading = frozenset({"hour"}), frozenset({"university"})
    assert [
        english.article(word, *misleading) for word in ("apple", "bus", "hour", "university")
    ] == [
        "an",
        "a",
        "an",
        "a",
    ]
    assert (english.possessive("actress", False), english.possessive("parents", True)) == (
        "actress's",
        "parents'",
    )


# A phrasebook of few words, whose pairs and links are written out by hand

SMALL = {
    "nouns.txt": "der Hund, Hunde | dog | animal\n"
    "die Oma, Omas | grandma | person\n"
    "der Bahnhof, Bahnhöfe | train station | place at=an/at to=zu/to\n"
    "das Fieber, - | a fever, - | illness\n",
    "verbs.txt": "ab|holen, holt, holte, abgeholt | pick up, picked up, picked up | trans action | "
    "person | animal\n"
    "kommen, kommt, kam, ist gekommen | come, came, come | motion action | person\n",
    "adjectives.txt": "alt, älter, ältest | old, older, oldest | animal\n",
    "adverbs.txt": "heute | today | time\nvor zwei Tagen | two days ago | past | 0-2 1-0 2-1\n"
    "halb drei | half past two | half\nSchnupfen | a cold | cold\nheute Abend | this evening | "
    "evening\n",
    "pronouns.txt": "ich mich mir | I me | 0 | m | subject\n",
    "auxiliaries.txt": "haben | habe hast hat haben habt haben | hatte hattest hatte hatten hattet "
    "hatten\n"
    "sein | bin bist ist sind seid sind | war warst war waren wart waren\n"
    "be | am are is are are are | was were was were were were\n",
}
RULES = """
np definite
    N: noun $ (sg article)
    A: adjective N
de  {der N} {A weak N} {N}
en  the~der {A} {N}

np indefinite
    N: noun $ (sg count)
de  {ein N} {N}
en  a~ein {N}
"""


def small_phrasebook(folder: Path, sentence: str, **files: str) -> Grammar:
    """A phrasebook with one sentence rule."""
    (folder / "grammar").mkdir(parents=True)
    (folder / "words").mkdir()
    for name, text in {**SMALL, **{f"{name}.txt": text for name, text in files.items()}}.items():
        (folder / "words" / name).write_text(text, encoding="utf-8")
    (folder / "grammar" / "rules.txt").write_text(
        f"{RULES}\nsentence only\n{sentence}\n", encoding="utf-8"
    )
    return Grammar(folder)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (
            "V: verb trans\nO: noun animal (sg)\n"
            "de {V imperative} {der O acc} {O acc} {V prefix} !\nen {V} the~der {O} !",
            # 0 Hol 1 den 2 Hund 3 ab 4 ! · 0 Pick 1 up 2 the 3 dog 4 !
            ("Hol den Hund ab!", "Pick up the dog!", "0-0 0p1 1-2 2-3 3p0 3p1 4-4"),
        ),
        (
            "V: verb trans\nS: noun person (sg)\nO: np V.object (definite)\n"
            "de heute~t {V pres S} {der S} {S} {O acc} nicht~n {V prefix} .\n"
            "en the~der {S} {be pres S}~V? not~n {V ing} {O} today~t .",
            (
                "Heute holt die Oma den alten Hund nicht ab.",
                "The grandma is not picking up the old dog today.",
                # 0 Heute 1 holt 2 die 3 Oma 4 den 5 alten 6 Hund 7 nicht 8 ab 9 .
                # 0 The 1 grandma 2 is 3 not 4 picking 5 up 6 the 7 old 8 dog 9 today 10 .
                "0-9 1p2 1-4 1p5 2-0 3-1 4-6 5-7 6-8 7-3 8p2 8p4 8p5 9-10",
            ),
        ),
        (
            "S: pronoun subject\nW: word cold\nde {S} {haben pres S}~h {W} .\nen {S} {be past S}~h "
            "{W} .",
            ("Ich habe Schnupfen.", "I was a cold.", "0-0 1-1 2p2 2-3 3-4"),
        ),
        (
            "S: pronoun subject\nI: noun illness\nde {S} {haben pres S}~h {I acc} .\nen {S} {be "
            "past S}~h {I} .",
            ("Ich habe Fieber.", "I was a fever.", "0-0 1-1 2p2 2-3 3-4"),
        ),
        (
            "V: verb trans\nS: pronoun subject\nO: np V.object (indefinite)\n"
            "de {S} {V aux S} {O acc} {V participle} .\nen {S} {V past} {O} .",
            ("Ich habe einen Hund abgeholt.", "I picked up a dog.", "0-0 1p1 2-3 3-4 4-1 4-2 5-5"),
        ),
        (
            "V: verb motion\nS: np V.subject (indefinite)\nP: noun place (sg)\n"
            "de {S} {V aux S} {P to} {der P dat} {P dat} {V participle} .\nen {S} {V past} {P to} "
            "{P to the} {P} .",
            # 0 Eine 1 Oma 2 ist 3 zum 4 Bahnhof 5 gekommen 6 . · 0 A 1 grandma 2 came 3 to 4 the 5
            # train 6 station 7 .
            (
                "Eine Oma ist zum Bahnhof gekommen.",
                "A grandma came to the train station.",
                "0-0 1-1 2p2 3-3 3-4 4-5 4-6 5-2 6-7",
            ),
        ),
        (
            "O: noun animal (sg)\nA: adjective O comparable\n"
            "de {ein O} {A comparative mixed O} {O} , {rel O nom} {A} {sein pres O}~s .\n"
            "en a~ein {A comparative} {O} that~rel {be pres O}~s {A} .",
            (
                "Ein älterer Hund, der alt ist.",
                "An older dog that is old.",
                # 0 Ein 1 älterer 2 Hund 3 , 4 der 5 alt 6 ist 7 . · 0 An 1 older 2 dog 3 that 4 is
                # 5 old 6 .
                "0-0 1-1 1-5 2-2 4-3 5-1 5-5 6-4 7-6",
            ),
        ),
        (
            "T: word past\nH: word half\nE: word evening\n"
            "de {T} um~u {H} , {E} , und~b im Moment~m ! ja~j .\nen {T} at~u {H} , {E} and~b at "
            "the moment~m ! yes~j .",
            # 0 Vor 1 zwei 2 Tagen 3 um 4 halb 5 drei 6 , 7 heute 8 Abend 9 , 10 und 11 im 12 Moment
            # 13 ! 14 Ja 15 . 0 Two 1 days 2 ago 3 at 4 half 5 past 6 two 7 , 8 this 9 evening 10
            # and 11 at 12 the 13 moment 14 ! 15 Yes 16 . Two commas against one: none is linked.
            # Several words against several, without links: all are possible.
            (
                "Vor zwei Tagen um halb drei, heute Abend, und im Moment! Ja.",
                "Two days ago at half past two, this evening and at the moment! Yes.",
                "0-2 1-0 2-1 3-3 4p4 4p5 4p6 5p4 5p5 5p6 7-8 8-9 10-10 12-13 13-14 14-15 15-16",
            ),
        ),
    ],
    ids=[
        "a split imperative",
        "separable verb, negation, progressive",
        "an article inside an entry",
        "an article inside a noun",
        "perfect",
        "contraction",
        "comparison, a relative clause",
        "words of an entry, punctuation",
    ],
)
def test_pairs_written_out_by_hand(
    tmp_path: Path, rule: str, expected: tuple[str, str, str]
) -> None:
    pair = next(draws(small_phrasebook(tmp_path, rule), 1))
    assert (pair.german, pair.english, pair.links) == expected


def test_only_random_numbers_decide_in_the_order_of_the_slots(tmp_path: Path) -> None:
    """The one source of chance is `random()`, whose sequence Python keeps for a seed in every
    version."""
    nouns = "".join(f"der N{word}, -e | n{word} | thing\n" for word in "abcd")
    rule = "A: noun thing (sg)\nB: noun thing (sg)\nde {A} und~u {B} .\nen {A} and~u {B} ."
    grammar = small_phrasebook(tmp_path, rule, nouns=SMALL["nouns.txt"] + nouns)
    numbers = iter([0.5, 0.99, 0.25])  # the only sentence; the last of four; the second of four
    pair = grammar.draw(lambda: next(numbers))
    assert pair and pair.german == "Nd und Nb."
    same = iter([0.5, 0.3, 0.3])  # a word never comes twice
    assert grammar.draw(lambda: next(same)) is None


@pytest.mark.parametrize(
    ("german", "english", "contracted", "links"),
    [
        (
            "{S} bin~b nicht~n da~d .",
            "{S} am~b not~n there~d .",
            "I'm not there.",
            "0-0 1-0 2-1 3-2 4-3",
        ),
        ("da~d bin~b {S} .", "there~d {S subject} am~b .", "There I am.", "0-0 1-2 2-1 3-3"),
        (
            "{S} ja~j nicht~a .",
            "did~a? {S subject} not~a there~j .",
            "Didn't I there.",
            "0-1 1-2 2-0 3-3",
        ),
        ("{S} habe~h ab|geholt~v .", "{S} have~h picked~v .", "I've picked.", "0-0 1-0 2-1 3-2"),
        ("{S} habe~h Hunger~v .", "{S} have~h hunger~v .", "I have hunger.", "0-0 1-1 2-2 3-3"),
        (
            "wie~w groß~g {S} bin~b dort~j .",
            "how~w big~g {S subject} am~b there~j .",
            "How big I am there.",
            "0-0 1-1 2-2 3-3 4-4 5-5",
        ),
        (
            "{S} kann~k nicht~k da~d .",
            "{S} cannot~k there~d .",
            "I can't there.",
            "0-0 1-1 2-1 3-2 4-3",
        ),
    ],
    ids=["not behind am", "stranded", "behind the subject", "perfect", "to own", "a gap", "cannot"],
)
def test_contractions_have_the_links_of_both_words(
    tmp_path: Path, german: str, english: str, contracted: str, links: str
) -> None:
    table = (
        "I am | I'm | clause\nam not | amn't | anywhere\ndid not | didn't | anywhere\nI have "
        "| "
        "I've | perfect\n"
    )
    table += "cannot | can't | anywhere\n"
    grammar = small_phrasebook(
        tmp_path, f"S: pronoun subject\nde {german}\nen {english}", contractions=table
    )
    rounds = iter([0.5, 0.0, 0.0])
    pair = grammar.draw(lambda: next(rounds))
    assert pair and (pair.english, pair.links) == (contracted, links)
    rounds = iter([0.5, 0.0, 0.999])
    free = grammar.draw(lambda: next(rounds))
    assert free and "'" not in free.english


BROKEN = {
    "a missing column": (
        {"nouns": "der Hund, Hunde | dog"},
        "nouns.txt, line 1: expected ARTICLE SINGULAR, PLURAL",
    ),
    "no article": (
        {"nouns": "# a comment\nHund, Hunde | dog | animal"},
        "nouns.txt, line 2: expected der, die or das",
    ),
    "no plural": (
        {"nouns": "der Hund | dog | animal"},
        "nouns.txt, line 1: expected ARTICLE SINGULAR, PLURAL",
    ),
    "half a pair of prepositions": (
        {"nouns": "der Ort, -e | town | place at=in"},
        "line 1: expected at=GERMAN/ENGLISH",
    ),
    "an entry twice": (
        {"nouns": "der Hund, -e | dog | animal\nder Hund, -e | hound | animal"},
        "nouns.txt, line 2: expected each entry once; nouns.txt, line 1 has it",
    ),
    "three verb forms": (
        {"verbs": "kaufen, kauft, gekauft | buy, bought, bought | trans action | person | thing"},
        "verbs.txt, line 1: expected four German forms",
    ),
    "no frame": (
        {"verbs": "kaufen, kauft, kaufte, gekauft | buy, bought, bought | action | person | thing"},
        "verbs.txt, line 1: expected one frame of intrans, trans",
    ),
    "no object": (
        {"verbs": "kaufen, kauft, kaufte, gekauft | buy, bought, bought | trans action | person"},
        "verbs.txt, line 1: expected a column of classes for the object",
    ),
    "no case": (
        {
            "verbs": "warten, wartet, wartete, gewartet | wait, waited, waited | prep action | "
            "person "
            "| person | auf/for"
        },
        "verbs.txt, line 1: expected a preposition such as auf+acc/for",
    ),
    "an unknown tag": (
        {"nouns": "der Ort, -e | town | place a=in/at"},
        "nouns.txt, line 1: expected gen=, at= or to=",
    ),
    "an empty form": (
        {"adjectives": "alt, , ältest | old, older, oldest | animal"},
        "adjectives.txt, line 1: expected no",
    ),
    "an unknown object": (
        {
            "verbs": "kaufen, kauft, kaufte, gekauft | buy, bought, bought | trans action | person "
            "| "
            "thnig"
        },
        "verbs.txt, line 1: expected classes that some noun has, not 'thnig'",
    ),
    "links between words that are not there": (
        {"adverbs": "heute | today | time\nvor Tagen | days ago | past | 0-2 1-0"},
        "adverbs.txt, line 2: expected links such as 0-2 1p0",
    ),
    "two degrees": (
        {"adjectives": "alt, älter | old, older | animal"},
        "adjectives.txt, line 1: expected one form or",
    ),
    "five persons": (
        {"auxiliaries": "sein | bin bist ist sind seid | war"},
        "auxiliaries.txt, line 1",
    ),
    "a contraction that is nowhere": (
        {"contractions": "do not | don't | somewhere"},
        "one of anywhere, clause, perfect",
    ),
    "a person too many": (
        {"pronouns": "man man man | one one | 7 | m | subject"},
        "pronouns.txt, line 1: expected",
    ),
}
BROKEN_RULES = {
    "an unknown kind": ("N: nuon animal\nde {N}\nen {N}", "not 'nuon'"),
    "an unknown class": (
        "N: noun animla\nde {N}\nen {N}",
        "expected a class that some word has, not 'animla'",
    ),
    "an unknown slot": (
        "N: noun animal\nde {M}\nen {N}",
        r"expected one of the rule's slots "
        r"\(N\), not 'M'",
    ),
    "an unknown feature": ("N: noun animal\nde {N akk}\nen {N}", "not 'akk'"),
    "an unknown auxiliary": ("N: noun animal\nde {N} {habn pres N}\nen {N}", "not 'habn'"),
    "a label on one side": ("N: noun animal\nde {N} da~d\nen {N} there", "'d' on the other side"),
    "a slot on one side": ("N: noun animal\nde {N} da\nen there", "'N' on the other side"),
    "no English": ("N: noun animal\nde {N}", "expected a line `en …`"),
    "no German": ("N: noun animal\nen {N}", "expected a line `de …`"),
    "nothing": ("N: noun animal", "expected lines `de …` and `en …`"),
    "a bad brace": (
        "N: noun animal\nde {N\nen {N}",
        r"expected words and \{…\} separated by "
        r"spaces",
    ),
    "the object of a noun": (
        "N: noun animal\nO: noun N.object\nde {N} {O}\nen {N} {O}",
        "'N.object'",
    ),
    "an unknown restriction": (
        "N: np animal (definit)\nde {N}\nen {N}",
        "in the brackets, not 'definit'",
    ),
    "an unknown number": ("N: noun animal (sgl)\nde {N}\nen {N}", "in the brackets, not 'sgl'"),
    "only what is not wanted": ("N: noun -animal\nde {N}\nen {N}", "a class that is wanted"),
    "a slot below": (
        "A: adjective N\nN: noun animal\nde {A} {N}\nen {A} {N}",
        "a slot above this one",
    ),
    "a rule around a sentence": ("N: noun $\nde {N}\nen {N}", "no rule around a sentence"),
    "no space": ("N: noun animal\nde {N}da~d\nen {N} da~d", "a space in front of 'da~d'"),
    "a glued comma": (
        "N: noun animal\nde {N} ja, da~d\nen {N} yes , da~d",
        "in front of the mark in 'ja,'",
    ),
    "a feature of another language": (
        "N: noun animal\nde {N} {be presently N}\nen {N}",
        "not 'presently'",
    ),
    "a phrase's own label": (
        "N: np animal\nde {N} da~N\nen {N} there~N",
        "expected another label than 'N'",
    ),
    "two articles with one label": (
        "N: noun animal\nM: noun animal\nde {der N} {N} da~d {der M} {M}\nen the~der {N} there~d "
        "the~der {M}",
        r"a label of its own behind the second \{der",
    ),
    "a slot twice": ("N: noun animal\nN: noun person\nde {N}\nen {N}", "new slot name"),
}


@pytest.mark.parametrize(("files", "expected"), BROKEN.values(), ids=BROKEN)
def test_a_broken_line_of_the_lexicon_is_named(
    tmp_path: Path, files: dict[str, str], expected: str
) -> None:
    with pytest.raises(PhrasebookError, match=re.escape(expected)):
        small_phrasebook(tmp_path, "T: word time\nde {T} .\nen {T} .", **files)


@pytest.mark.parametrize(("rule", "expected"), BROKEN_RULES.values(), ids=BROKEN_RULES)
def test_a_broken_rule_is_named(tmp_path: Path, rule: str, expected: str) -> None:
    with pytest.raises(PhrasebookError, match=f"^rules.txt, line [0-9]+: .*{expected}"):
        small_phrasebook(tmp_path, rule)


FORMS_A_WORD_LACKS = {
    "a preposition that the verb does not have": "V: verb trans\nO: np V.object\nde {O V} .\nen "
    "{O} .",
    "a place that is none": "N: noun animal\nde {N at} .\nen {N at} .",
    "agreement with a verb": "V: verb trans\nN: noun animal\nde {der V} {V} {N} .\nen the~der {V} "
    "{N} .",
    "a case that a pronoun does not have": "S: pronoun subject\nde {S gen} .\nen {S} .",
}


@pytest.mark.parametrize("rule", FORMS_A_WORD_LACKS.values(), ids=FORMS_A_WORD_LACKS)
def test_a_form_that_a_word_does_not_have_is_named_with_its_rule(tmp_path: Path, rule: str) -> None:
    with pytest.raises(PhrasebookError, match="^rules.txt, line [0-9]+: expected "):
        next(draws(small_phrasebook(tmp_path, rule), 1))


def test_rules_that_give_nothing_end(tmp_path: Path) -> None:
    grammar = small_phrasebook(tmp_path, "N: noun animal (mass)\nde {N} .\nen {N} .")
    with pytest.raises(PhrasebookError, match="draws in a row gave no sentence"):
        next(draws(grammar, 1))


def test_a_category_that_contains_itself_is_refused(tmp_path: Path) -> None:
    rule = "N: np animal\nde {N}\nen {N}\n\nnp again\nN: np $\nde {N}\nen {N}"
    with pytest.raises(PhrasebookError, match="does not contain itself, as 'np' does"):
        small_phrasebook(tmp_path, rule)


# The real one


@pytest.fixture(scope="module")
def grammar() -> Grammar:
    return Grammar()


@pytest.fixture(scope="module")
def pairs(grammar: Grammar) -> list[Pair]:
    return list(islice(draws(grammar, 7), 10_000))


def test_sentences_are_well_formed(pairs: list[Pair]) -> None:
    for pair in pairs:
        for side in (pair.german, pair.english):
            assert re.fullmatch(r"[A-ZÄÖÜ][^{}~\x01|_]*[.!?]", side), pair
            assert "  " not in side and not re.search(r"\s[.,!?;:]", side), pair
        assert not re.search(r"\ba [aeio]\w|\ban [^aeiouh]\w", pair.english, re.IGNORECASE), pair
        assert 2 <= len(pair.german.split()) <= 27 and 2 <= len(pair.english.split()) <= 32, pair


def words(side: str) -> list[str]:
    """As links count them: punctuation apart."""
    return re.findall(r"[^\s.,!?;:]+(?:[.,!?;:]+(?=[^\s.,!?;:]))?[^\s.,!?;:]*|[.,!?;:]", side)


def parsed(links: str) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The sure links, and all."""
    found = [(int(i), mark, int(j)) for i, mark, j in re.findall(r"(\d+)([-p])(\d+)", links)]
    return [(i, j) for i, mark, j in found if mark == "-"], [(i, j) for i, _, j in found]


def test_links_are_between_existing_words(pairs: list[Pair]) -> None:
    for pair in pairs:
        sure, possible = parsed(pair.links)
        left = len(words(pair.german))
        right = len(words(pair.english))
        assert sure and all(i < left and j < right for i, j in possible), pair
        # the last mark
        assert max(i for i, _ in sure) == left - 1 and max(j for _, j in sure) == right - 1, pair


def test_first_names_are_linked_with_themselves(pairs: list[Pair]) -> None:
    checked = 0
    for pair in pairs:
        left = words(pair.german)
        right = words(pair.english)
        for i, j in parsed(pair.links)[0]:
            if left[i] in ("Anna", "Berlin", "Lukas", "Hannah"):
                assert right[j].removesuffix("'s") == left[i], pair
                checked += 1
    assert checked > 100


def test_the_phrasebook_is_broad(grammar: Grammar, pairs: list[Pair]) -> None:
    lexicon = grammar.lexicon
    lemmas = {head.lemma for head in lexicon.heads if "name" not in head.classes}
    lemmas |= {entry.lemma for entry in (*lexicon.verbs, *lexicon.adjectives)}
    names = {"number", "hour", "half", "city", "country"}  # names and numbers do not count
    lemmas |= {word.lemma for word in lexicon.words if not word.classes & names}
    assert len(lemmas) >= 1200
    skeletons = Counter(pair.skeleton for pair in pairs)
    assert len(skeletons) >= 400
    assert skeletons.most_common(1)[0][1] <= 0.01 * len(pairs)
    assert len({pair.german for pair in pairs}) > 0.9 * len(pairs)


def test_the_same_seed_draws_the_same(grammar: Grammar) -> None:
    def german_sentences(seed: int) -> list[str]:
        return [pair.german for pair in islice(draws(grammar, seed), 50)]

    assert german_sentences(3) == german_sentences(3) != german_sentences(4)
    assert german_sentences(3) == [pair.german for pair in islice(draws(Grammar(), 3), 50)]


@pytest.fixture(scope="module")
def sets(grammar: Grammar) -> dict[str, list[Pair]]:
    return splits.draw_sets(grammar, 4_000, 1)


def test_no_sentence_is_in_two_sets(sets: dict[str, list[Pair]]) -> None:
    assert {name: len(chosen) for name, chosen in sets.items()} == {
        "train": 4_000,
        "valid": 200,
        "test": 200,
        "test_seen": 200,
        "test_unseen": 200,
    }
    for side in (0, 1):
        assert {len(pair[side].split()) for chosen in sets.values() for pair in chosen} <= set(
            range(3, 26)
        )
        every = [pair[side] for chosen in sets.values() for pair in chosen]
        assert len(every) == len(set(every))


def test_unseen_combinations_are_unseen_and_their_parts_are_not(
    sets: dict[str, list[Pair]],
) -> None:
    other_sets = {
        verb_object
        for name, chosen in sets.items()
        if name != "test_unseen"
        for pair in chosen
        for verb_object in pair.combinations
    }
    parts = splits.constructions_and_lemmas(sets["train"])
    for pair in sets["test_unseen"]:
        assert any(verb_object not in other_sets for verb_object in pair.combinations)
        assert splits.constructions_and_lemmas([pair]) <= parts
    held_out = {
        verb_object for pair in sets["test_unseen"] for verb_object in pair.combinations
    } - other_sets
    assert len({verb for verb, _ in held_out}) > 50  # all over the phrasebook


def test_test_seen_has_the_constructions_of_test_unseen_with_combinations_of_train(
    sets: dict[str, list[Pair]],
) -> None:
    in_train = {combination for pair in sets["train"] for combination in pair.combinations}
    for seen, unseen in zip(sets["test_seen"], sets["test_unseen"], strict=True):
        assert (
            seen.skeleton == unseen.skeleton
            and len(seen.combinations) == len(unseen.combinations) > 0
        )
        assert in_train.issuperset(seen.combinations)


def within_one_word(left: list[str], right: list[str]) -> bool:
    """By the definition of edit distance: the words beside one inserted, deleted or exchanged word
    are the same."""
    same_start = next(
        (i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b),
        min(map(len, (left, right))),
    )
    rest = left[same_start:]
    other = right[same_start:]
    return rest == other or rest[1:] == other[1:] or rest[1:] == other or rest == other[1:]


def test_no_evaluated_pair_is_within_one_word_of_a_training_pair(
    sets: dict[str, list[Pair]],
) -> None:
    """Sentence by sentence, some of each set."""
    for side in (0, 1):
        trained = [re.sub(r"[.,!?;:]", "", pair[side]).lower().split() for pair in sets["train"]]
        for name in splits.SETS[1:]:
            for pair in sets[name][:30]:
                words = re.sub(r"[.,!?;:]", "", pair[side]).lower().split()
                assert not any(
                    within_one_word(words, other)
                    for other in trained
                    if abs(len(words) - len(other)) < 2
                )


def test_near_duplicates_by_hand() -> None:
    def pair(german: str, english: str) -> Pair:
        return Pair(german, english, "", "", (), ())

    train = [pair("Wir gehen heute nach Hause.", "We are going home today.")]
    near = [
        "Wir gehen heute nach Hause!",
        "Wir gehen nach Hause.",
        "Wir gehen heute nach.",
        "Heute gehen heute nach Hause.",
        "Wir gehen heute",
    ]
    near += [
        "Wir gehen heute früh nach Hause.",
        "Gut, wir gehen heute nach Hause.",
        "Wir gehen heute nach Hause oder?",
    ]
    far = [
        "Wir gehen morgen nach Berlin.",
        "Gehen wir heute nach Hause?",
        "Wir gehen heute.",
        "Gehen heute nach",
        "Ja.",
    ]
    candidates = [pair(german, "Something else entirely.") for german in (*near, *far)]
    near.remove("Wir gehen heute")  # two words less
    assert [
        text.german
        for text, yes in zip(candidates, near_training(candidates, train), strict=True)
        if yes
    ] == near
    assert near_training([pair("Anders.", "We are going home now.")], train) == [True]
    assert near_training([pair("Anders.", "We were going home now.")], train) == [False]


def test_too_many_pairs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grammar = small_phrasebook(
        tmp_path, "S: pronoun subject\nT: word time\nde {S} {T} da~d .\nen {S} {T} there~d ."
    )
    monkeypatch.setattr(splits, "Grammar", lambda: grammar)
    with pytest.raises(
        PhrasebookError, match="100 pairs are not possible: the phrasebook gave 1 for train"
    ):
        splits.write_edition(tmp_path, 100, 1)


def test_an_edition_is_the_same_bytes(
    tmp_path: Path, sets: dict[str, list[Pair]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splits, "Grammar", lambda: None)
    monkeypatch.setattr(splits, "draw_sets", lambda *_: sets)
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        splits.write_edition(tmp_path / name)
    for first in (tmp_path / "first").iterdir():
        assert first.read_bytes() == (tmp_path / "second" / first.name).read_bytes()
    german, links = (
        bz2.open(tmp_path / "first" / f"valid.{ending}.bz2", "rt").read()
        for ending in ("de", "align")
    )
    assert german.splitlines() == [pair.german for pair in sets["valid"]]
    assert links.splitlines() == [pair.links for pair in sets["valid"]]

"""Rough input: what is copied comes through, loops are cut, noise is a function of the seed."""

import re
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from corpora import folder_options, run_command, write_pairs
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nmt.config.schema import TokenizerConfig
from nmt.corpus.normalization import normalize
from nmt.corpus.words import piece_spans
from nmt.data.augmentation import Noise, add_noise, invented_address, invented_number
from nmt.data.text_filter import (
    NUMBERS,
    OTHERS,
    PLACEHOLDERS,
    SPANS,
    Protected,
    find_spans,
    protect,
    protect_pair,
    restore,
    unprotected,
)
from nmt.data.tokenizer import Tokenizers
from nmt.data.train_tokenizer import train_tokenizers

PARTS = [
    "a",
    "Bc",
    "ß",
    "1",
    "23",
    ".",
    ",",
    ":",
    "/",
    "@",
    "#",
    "-",
    "_",
    "(",
    ")",
    "[",
    "]",
    "$",
    "%",
    "{x}",
    " ",
    " ",
    "\u00a0",
    "https://",
    "x://",
    "www.",
    "localhost:",
    ".de",
    "<b>",
    "&amp;",
    "`",
    "😀",
    "\ufe0f",
    ":)",
    "<3",
    "\uf101",
    "\\",
    "+",
    "€",
]
LONG = [
    "1",
    "1 ",
    "1-",
    "(1 ",
    "1 (1 ",
    "A1B2 ",
    "AB12 1234 ",
    "字1",
    "12. 12. ",
    "1:",
    "1/",
    "1 / 1/",
]  # in long lines
ONE, TWO, X1, X2 = *NUMBERS[:2], *OTHERS[:2]
MARKED_PAIR = [(f"Tom kam um {ONE} nach Boston.", f"Tom came to Boston at {ONE}.")]


@settings(max_examples=100)
@given(text=st.lists(st.sampled_from(PARTS), max_size=12).map("".join))
def test_lines_without_signs_are_searched_faster_with_the_same_result(text):
    assert [span[:2] for span in find_spans(text)] == [
        match.span() for match in SPANS.finditer(text)
    ]


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("Am 12.5.2024 um 14:30 kam er.", ["12.5.2024", "14:30"]),
        ("Das kostet 1.234,50 €, also 5 %, bei -3 °C.", ["1.234,50 €", "5 %", "-3 °C"]),
        ("Ruf +49 30 55512 an, 1 000 000 oder 1'000 Mal.", ["+49 30 55512", "1 000 000", "1'000"]),
        ("Schreib an max.m+x@example.org!", ["max.m+x@example.org"]),
        ("Siehe https://example.org/a_(b), dort.", ["https://example.org/a_(b)"]),
        ("Auf www.haus.example/a?b=1, HAUS.DE:80", ["www.haus.example/a?b=1", "HAUS.DE:80"]),
        (
            "Hallo {name}, %s und %(n)d, ${x} {{y}} $z %1$s!",
            ["{name}", "%s", "%(n)d", "${x}", "{{y}}", "$z", "%1$s"],
        ),
        (
            "Ein <b>fetter</b> Satz &amp; <br/> mit `ls -l`.",
            ["<b>", "</b>", "&amp;", "<br/>", "`ls -l`"],
        ),
        ("Frag @karin_w wegen #Sommer 😀🎉 :-)", ["@karin_w", "#Sommer", "😀🎉", ":-)"]),
        # codes are the model's to copy
        ("Der 20-jährige in den 90ern, B2B, AB-1234, 3.5万", ["20"]),
        ("Fußnote [1], [X12X] und [[x]] in [Klammern]", ["[1]", "[X12X]", "[[x]]"]),
        ("Er sagte: Nein und/oder ja. Das war es.Dann nicht", []),
        ("<2fr> <3 ist kein <2de>", ["<3", "<2de>"]),
    ],
)
def test_what_must_not_be_translated_is_found(text, spans):
    protected = protect(text, ("<2fr>",))
    assert list(protected.spans.values()) == spans
    assert restore(protected.text, protected) == text


@given(text=st.lists(st.sampled_from([*PARTS, "\u2028", "É", "東京"]), max_size=40).map("".join))
@example(text="A" * 9 + "1")
def test_what_is_filled_again_is_the_text(text):
    """But for letters that have no small form of their own, in a line in capitals."""
    protected = protect(text)
    marked = any(mark in text for mark in PLACEHOLDERS)
    if not marked:
        assert restore(protected.text, protected) == text
    assert unprotected(protected, list(protected.spans)).spans == {}


def test_long_lines_take_no_long_time():
    """Patterns that try every division of a line would not end here."""
    for part in "a A- 1 1. a. a/ % { [ <a ` @ +1 € a@ // -a. ://a".split():
        for end in ("", "x", "!", ".de"):
            assert protect("+1" + part * 1500 + end)
    for part in LONG:
        for end in ("x", "1a:2"):
            assert protect(part * (100_000 // len(part)) + end)


def test_capitals_and_placeholders_that_run_out():
    assert protect("WO IST {Name}, 3 HUNDE?") == Protected(
        f"wo ist {X1}, {ONE} hunde?", {X1: "{Name}", ONE: "3"}, True
    )
    assert not protect("USA").capitals and not protect("WO Ist das").capitals
    many = protect(", ".join(map(str, range(10, 30))))
    assert list(many.spans) == NUMBERS and many.text.endswith(
        "18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29"
    )
    assert protect("am 5.5. mit {x}", placeholders=OTHERS).spans == {X1: "{x}"}


def test_a_pair_has_placeholders_for_what_stands_on_both_sides():
    source, target = protect_pair("Um 8 kam {x} mit 3 und 8, 7", "At 8 {x} came with three and 8")
    assert (source.text, target.text) == (
        f"Um {ONE} kam {X1} mit 3 und {TWO}, 7",
        f"At {ONE} {X1} came with three and {TWO}",
    )
    source, target = protect_pair("<bt> NEIN 5", "NO, NO 5", ("<bt>",))
    assert (source.text, target.text) == (f"<bt> nein {ONE}", f"no, no {ONE}")
    assert not protect_pair("NEIN, NEIN", "No, no")[0].capitals


def train(folder: Path, sources: list[str], targets: list[str]) -> Tokenizers:
    for side, lines in (("de", sources), ("en", targets)):
        (folder / side).write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    config = TokenizerConfig("unigram", 310, True, True, 1.0, False, 256, protect=True)
    train_tokenizers(config, folder / "de", folder / "en", folder)
    return Tokenizers.load(folder)


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory) -> Iterator[Tokenizers]:
    lines = ["ein Haus steht am Fluss", "der Hund geht heim um 8:15"] * 30
    yield train(tmp_path_factory.mktemp("tokenizer"), lines, lines)


def test_numbers_that_the_targets_write_otherwise_are_the_models_to_translate(tmp_path):
    """Bengali digits, for instance; all else is copied."""
    lines = [*(f"{number} Hunde gehen heim" for number in range(10, 40)), "mit {x} heim"]
    digits = str.maketrans("0123456789", "০১২৩৪৫৬৭৮৯")
    found = train(tmp_path, lines, [line.translate(digits) for line in lines])
    assert found.protects and found.source.marks == OTHERS
    assert found.protect_sources(["{x} geht um 8 heim"])[0].spans == {X1: "{x}"}


def test_text_and_pieces_are_filled_after_decoding(tokenizers):
    [ids] = tokenizers.source.encode_protected(
        tokenizers.protect_sources(["der Hund geht um 8:15 heim, {x}"])
    )
    assert tokenizers.source.decode(ids) == "der Hund geht um 8:15 heim, {x}"
    assert tokenizers.source.decode(list(ids)) != tokenizers.source.decode(ids)
    pieces = tokenizers.source.pieces(ids)
    assert "8:15" in pieces and "{x}" in pieces and ids[2:].spans == ids.spans
    [loud] = tokenizers.source.encode_protected(
        tokenizers.protect_sources(["DER HUND GEHT 7 HEIM"])
    )
    assert tokenizers.source.decode(loud) == "DER HUND GEHT 7 HEIM"


def test_spaces_are_plain_and_marks_that_are_not_seen_are_not_read(tokenizers):
    for space in "\u00a0\u1680\u2009\u202f\u3000":
        assert tokenizers.source.encode(f"der{space}Hund") == tokenizers.source.encode("der Hund")
    for mark in "\u00ad\u200b\u200e\u202b\u2060\ufeff":
        assert tokenizers.source.encode(f"der H{mark}und{mark}") == tokenizers.source.encode(
            "der Hund"
        )
    # joiners are letters of their words
    for text in ("می\u200cخواهم", "क्\u200dष", "👩\u200d👧", "tab\there"):
        assert normalize(text) == text


# The source, and a translation with the number of a placeholder for each of its spans: what the
# reader is to see.
APART = [
    ("an {a}, um {b}", "at noon.{0}{1}", "at noon. {a} {b}"),
    ("an {a}, um {b}", "at{0}, ({1})", "at {a}, ({b})"),
    ("an {a}, um {b}", '"{0}" or-{1}/{0}', '"{a}" or-{b}/{a}'),
    ("an {a}, um {b}", "{0} at {1}.", "{a} at {b}."),
    ("um 8:15 an {a}🙂", "at{2}{1}{0}", "at🙂 {a} 8:15"),
    ("Preis:{a} ({b})", "price:{0}{1}.", "price:{a} {b}."),
    ("8 Hunde (3)", "{1}{0}{0}5", "3 8 8 5"),
    ("l’8 mai", "the{0}th of May", "the 8th of May"),
    ("RUF {a} AN", "call{0}", "CALL {a}"),
    ("I have 3 dogs.", "我有{0}只狗。", "我有3只狗。"),
    ("at 5", "ב{0}", "ב5"),
]


def moved(source: str, target: str) -> tuple[Protected, str]:
    """The protected source, and the target with its placeholders."""
    protected = protect(source)
    for number, mark in enumerate(protected.spans):
        target = target.replace(f"{{{number}}}", mark)
    return protected, target


@pytest.mark.parametrize(("source", "target", "shown"), APART)
def test_what_stood_apart_in_the_source_is_kept_apart(tokenizers, source, target, shown):
    protected, target = moved(source, target)
    assert restore(target, protected) == shown
    [ids] = tokenizers.source.encode_protected([protected])
    assert ids[1:].apart == ids.apart == protected.apart
    ids = ids.like(tokenizers.target.encode(target))
    assert tokenizers.target.decode(ids) == shown
    # a byte piece stays small
    assert piece_spans(tokenizers.target.pieces(ids))[0].upper() == shown.upper()


def marked(pairs: list[tuple[str, str]]) -> list[bool]:
    return [not set(source).isdisjoint(PLACEHOLDERS) for source, _ in pairs]


@pytest.mark.parametrize("field", ["case", "typos", "punctuation", "merge", "copy", "names"])
def test_noise_is_a_function_of_the_generator(field):
    pairs = [("Das Haus von Tom ist groß.", "Tom's house is big, Tom.")] * 3 + MARKED_PAIR
    noise = Noise(**{field: 0.999})
    first, again, other = (
        add_noise(pairs, marked(pairs), noise, PLACEHOLDERS, Random(seed)) for seed in (1, 1, 2)
    )
    assert first == again
    assert [pair[:2] for pair in first] != pairs
    assert first != other or field in ("case", "punctuation")


def test_noise_keeps_placeholders_equal_on_both_sides():
    for seed in range(200):
        noise = Noise(0.5, 0.5, 0.5, 0.5, 0.9, 0.5)
        for pair in add_noise(
            MARKED_PAIR * 3, [True] * 3 * len(MARKED_PAIR), noise, PLACEHOLDERS, Random(seed)
        ):
            found = [sorted(mark for mark in side if mark in PLACEHOLDERS) for side in pair[:2]]
            assert found[0] == found[1]
            assert len(set(found[0])) == len(found[0])


def test_an_invented_name_is_the_same_on_both_sides():
    """In place of a name that stands on both sides, else before the final marks, and nowhere
    without them."""
    pairs = [("Wo ist Tom?", "Where is Tom?"), ("Das ist es.", "That is it."), ("Ja", "Yes.")] * 20
    noisy = add_noise(pairs, [False] * len(pairs), Noise(names=0.999), PLACEHOLDERS, Random(1))
    forms = {
        0: ("Wo ist (.+)[?]", "Where is (.+)[?]"),
        1: ("Das ist es(.+)[.]", "That is it(.+)[.]"),
    }
    seen = set()
    for source, target, rows in noisy:
        if rows.start % 3 == 2:
            assert (source, target) == ("Ja", "Yes.")
            continue
        one, other = (
            re.fullmatch(form, side)
            for form, side in zip(forms[rows.start % 3], (source, target), strict=True)
        )
        assert one and other and one[1] == other[1]
        seen.add(one[1])
    assert len(seen) > 30


def test_an_invented_name_has_letters_of_both_sides():
    """What Russian writes in Cyrillic is not copied into English; what it writes in Latin letters
    is."""
    pairs = [
        ("Это мой новый дом.", "This is my new house."),
        ("Его Samsung сломан.", "His Samsung is broken."),
    ] * 20
    noisy = add_noise(pairs, [False] * len(pairs), Noise(names=0.999), PLACEHOLDERS, Random(1))
    assert len(noisy) > 30 and all(target.isascii() for _, target, _ in noisy)


def test_plain_noise_writes_the_same_invented_spans_on_both_sides():
    """Each is what the text filter finds as a whole, so that all that is copied is learnt."""
    pair = [(f"Tom kam um {ONE} nach {X1}.", f"Tom came to {X1} at {ONE}.")]
    form = re.compile(r"Tom kam um (.+) nach (.+)\.")
    seen = set()
    for seed in range(40):
        ((source, target, _),) = add_noise(
            pair, [True], Noise(plain=1.0), PLACEHOLDERS, Random(seed)
        )
        number, other = form.fullmatch(source).groups()
        assert target == f"Tom came to {other} at {number}."
        seen |= {number, other}
    assert len(seen) > 60
    for seed in range(400):
        for invent, is_number in ((invented_number, True), (invented_address, False)):
            span = invent(Random(seed))
            (found,) = find_spans(f"Das ist {span} heute.")
            assert (found.text, found.kind == "number") == (span, is_number)


@pytest.mark.slow
def test_names_in_another_script_are_learnt_with_the_defaults(tmp_path, capfd):
    """What a rule writes in other letters is not copied, although most of its words are unknown."""
    letters = {
        "a": "а",
        "e": "е",
        "i": "и",
        "o": "о",
        "u": "у",
        "b": "б",
        "d": "д",
        "f": "ф",
        "g": "г",
        "k": "к",
        "l": "л",
        "m": "м",
        "n": "н",
        "p": "п",
        "r": "р",
        "s": "с",
        "t": "т",
        "v": "в",
        "z": "з",
    }
    generator = Random(1)
    names = dict[str, str]()
    while len(names) < 5900:
        syllables = (
            generator.choice("bdfgklmnprstvz") + generator.choice("aeiou")
            for _ in range(generator.randint(2, 5))
        )
        name = "".join(syllables)
        names[name.capitalize()] = "".join(letters[letter] for letter in name).capitalize()
    every = list(names.items())
    for part, chosen in (
        ("train", every[:5600]),
        ("valid", every[5600:5700]),
        ("test", every[5700:]),
    ):
        write_pairs(tmp_path, part, chosen)
    words = [
        "data=files",
        "data.source=de",
        "data.target=en",
        "model=transformer_tiny",
        "train.max_steps=500",
    ]
    words += [f"data.{part}={tmp_path / part}" for part in ("train", "valid", "test")]
    words += ["tokenizer.vocabulary_size=400", "name=names", *folder_options(tmp_path)]
    answer = run_command(capfd, "train", *words)
    assert answer.code == 0 and float(answer.out.split("\t")[2]) > 90, answer.out

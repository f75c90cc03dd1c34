"""Noise: which lines have it, all that a line can become, and what both sides share."""

import re
import string
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise, permutations, product
from random import Random

import pytest
from corpora import folder_options, run_command, write_pairs

from nmt.data.augmentation import (
    Noise,
    NoisyLine,
    add_noise,
    invented_address,
    invented_name,
    invented_number,
)
from nmt.data.text_filter import NUMBERS, OTHERS, PLACEHOLDERS, find_spans

ONE = NUMBERS[0]
X1 = OTHERS[0]
MARKS = [ONE, X1]
PLAIN_PAIR = ("das ist es.", "that is it.")
MARKED_PAIR = (f"Tom kam um {ONE} nach Boston.", f"Tom came to Boston at {ONE}.")


def noisy(
    pairs: list[tuple[str, str]], seed: int = 1, placeholders: list[str] = MARKS, **noise: float
) -> list[NoisyLine]:
    marked = [not set(source).isdisjoint(PLACEHOLDERS) for source, _ in pairs]
    return add_noise(pairs.__getitem__, marked, Noise(**noise), placeholders, Random(seed))


def outcomes(pair: tuple[str, str], placeholders: list[str] = MARKS, **noise: float) -> Counter:
    """How often a pair becomes what."""
    lines = noisy([pair] * 10_000, placeholders=placeholders, **noise)
    return Counter((line.source, line.target) for line in lines)


def share(found: Counter, *wanted: tuple[str, str]) -> float:
    return sum(found[pair] for pair in wanted) / found.total()


@pytest.mark.parametrize("kind", ["case", "typos", "punctuation", "copy", "names"])
def test_as_many_lines_have_noise_as_its_probability_says(kind):
    """The same ones again, and others for another seed."""
    pairs = [("Tom wohnt nicht hier.", "Tom does not live here.")] * 3000
    lines = noisy(pairs, **{kind: 0.3})
    assert len(lines) / len(pairs) == pytest.approx(0.3, abs=0.04)
    assert lines == noisy(pairs, **{kind: 0.3}) != noisy(pairs, seed=2, **{kind: 0.3})
    if kind not in ("copy", "names"):
        assert {line.target for line in lines} == {pairs[0][1]}


def test_as_many_pairs_are_merged_as_the_probability_says():
    pairs = [(f"Satz {number}.", f"Sentence {number}.") for number in range(20_000)]
    lines = noisy(pairs, merge=0.3)
    sizes = Counter(len(line.rows) for line in lines)
    assert sizes[2] * 2 + sizes[3] * 3 + sizes[4] * 4 == pytest.approx(6000, rel=0.05)
    assert all(count == pytest.approx(len(lines) / 3, rel=0.1) for count in sizes.values())
    for line in lines:
        texts = [pairs[row] for row in line.rows]
        assert (line.source, line.target) == tuple(map(" ".join, zip(*texts, strict=True)))
    assert all(line.rows.stop <= following.rows.start for line, following in pairwise(lines))


def test_merged_lines_have_the_tags_once_and_at_most_one_pair_with_placeholders():
    tagged = ("<tatoeba> <bt> Heute regnet es.", "It rains.")
    other = ("<bt> Morgen schneit es.", "It snows.")
    pairs = [tagged, other] * 4 + [tagged] * 3
    noise = Noise(case=0.5, typos=0.9, punctuation=0.5, merge=0.9, copy=0.5)
    merged = 0
    for seed in range(200):
        unmarked = [False] * len(pairs)
        for line in add_noise(
            pairs.__getitem__, unmarked, noise, PLACEHOLDERS, Random(seed), ["<tatoeba>", "<bt>"]
        ):
            start = pairs[line.rows[0]][0].rpartition("<bt> ")[0] + "<bt> "
            assert line.source.startswith(start) and "<" not in line.source[len(start) :]
            merged += len(line.rows) > 1
    assert merged

    # Targets have a tag where an imported model begins its translations with the language
    pair = ("<2fr> The dog sleeps.", "<2fr> Le chien dort.")
    for seed in range(200):
        for line in add_noise(
            lambda row: pair, [False] * 9, noise, PLACEHOLDERS, Random(seed), ["<2fr>"]
        ):
            for side in (line.source, line.target):
                assert side.startswith("<2fr> ") and side.count("<2fr>") == 1
    chinese = ("Un chien.", "狗在睡觉。")
    for line in noisy([chinese] * 9, merge=0.9):
        assert line.target == chinese[1] * len(line.rows)
    for lines in (noisy([MARKED_PAIR, PLAIN_PAIR] * 2, seed, merge=0.9) for seed in range(100)):
        assert all(line.source.count("kam um") <= 1 for line in lines)


# --------------------------------------------------------------------------------------------------
# All that a line can become


def test_small_letters_and_lost_final_marks():
    found = outcomes(("Das Haus ?!", "The House?!"), case=1.0)
    assert set(found) == {("das haus ?!", "The House?!"), ("das Haus ?!", "The House?!")}
    assert share(found, ("das haus ?!", "The House?!")) == pytest.approx(0.8, abs=0.03)
    assert set(outcomes(("Das Haus ?!", "The House?!"), punctuation=1.0)) == {
        ("Das Haus", "The House?!")
    }
    assert set(outcomes(("?!", "?!"), punctuation=1.0)) == {("?!", "?!")}


def misspellings(word: str) -> Iterator[str]:
    """With two letters swapped, or one lost, doubled or replaced; the first and last one stay."""
    for place in range(1, len(word) - 1):
        before = word[:place]
        letter = word[place]
        after = word[place + 1 :]
        yield before + after[0] + letter + after[1:]
        yield before + after
        yield before + letter + letter + after
        yield from (before + other + after for other in string.ascii_lowercase)


def test_typos_are_in_words_of_four_letters_or_more():
    found = outcomes(("Das Häuser, ja", "x"), typos=1.0)
    without_umlaut = [("Das Haeuser, ja", "x"), ("Das Hauser, ja", "x")]
    misspelt = {(f"Das {word}, ja", "x") for word in misspellings("Häuser")}
    assert set(found) == misspelt | set(without_umlaut)
    for pair in without_umlaut:
        assert share(found, pair) == pytest.approx(0.075, abs=0.03)
    assert set(outcomes(("Das ist 2024 so", "x"), typos=1.0)) == {("Das ist 2024 so", "x")}
    both = outcomes(("Haus Berg", "x"), typos=1.0)
    words = [set(misspellings(word)) - {word} for word in ("Haus", "Berg")]
    changed = [tuple(source.split()) for source, _ in both.elements()]
    twice = sum(first in words[0] and second in words[1] for first, second in changed)
    assert twice / len(changed) == pytest.approx(0.85 * 0.15**2, abs=0.008)


def at_the_end(text: str) -> list[tuple[str, str]]:
    """PLAIN_PAIR with a text before its final marks."""
    forms = (f" {text}", f": {text}", f", {text}", f" ({text})", f' "{text}"')
    return [(f"das ist es{form}.", f"that is it{form}.") for form in forms]


def test_a_placeholder_that_is_copied_stands_on_both_sides():
    source, target = PLAIN_PAIR
    found = outcomes(PLAIN_PAIR, copy=1.0)
    behind = [(f"{source} {mark}", f"{target} {mark}") for mark in MARKS]
    before = [(f"{mark} {source}", f"{mark} {target}") for mark in MARKS]
    inside = [*at_the_end(ONE), *at_the_end(X1)]
    assert set(found) == {(target, target), *behind, *before, *inside}
    shares = [share(found, *pairs) for pairs in ([(target, target)], behind, before, inside)]
    assert shares == pytest.approx([0.05, 0.38, 0.19, 0.38], abs=0.02)
    assert share(found, behind[0], before[0], *at_the_end(ONE)) == pytest.approx(0.285, abs=0.02)


@pytest.mark.parametrize(
    "pair, marks, wanted",
    [
        (PLAIN_PAIR, [], [PLAIN_PAIR]),
        ((f"um {ONE}.", f"at {ONE}."), [ONE], [(f"um {ONE}.", f"at {ONE}.")]),
        (
            ("Tom ist Toms Hut.", "Tom is Toms hat."),
            [X1],
            [
                ("Tom ist Toms Hut.", "Tom is Toms hat."),  # there is no number
                (f"{X1} ist Toms Hut.", f"{X1} is Toms hat."),
                (f"Tom ist {X1} Hut.", f"Tom is {X1} hat."),
            ],
        ),
        (  # twice on a side, in small letters, of one letter, inside of another word
            ("Tom und Tom, nova X Ann", "Tom and Tom, nova X Annas"),
            [X1],
            [
                ("Tom und Tom, nova X Ann", "Tom and Tom, nova X Annas"),
                (f"{X1} Tom und Tom, nova X Ann", f"{X1} Tom and Tom, nova X Annas"),
                (f"Tom und Tom, nova X Ann {X1}", f"Tom and Tom, nova X Annas {X1}"),
            ],
        ),
    ],
    ids=["no placeholder", "one that is used", "names", "no names"],
)
def test_a_placeholder_takes_the_place_of_a_name_on_both_sides(pair, marks, wanted):
    target = pair[1]
    assert set(outcomes(pair, marks, copy=1.0)) == {*wanted, (target, target)}


def test_placeholders_of_a_pair_become_others_of_their_kind_on_both_sides():
    first, second, third, *_ = NUMBERS
    marks = [first, second, third, *OTHERS[:2]]
    found = set(outcomes((f"a {first} {second} {X1}", f"{X1} {second} {first}"), marks))
    wanted = set()
    for (one, other), address in product(permutations(NUMBERS[:3], 2), OTHERS[:2]):
        wanted.add((f"a {one} {other} {address}", f"{address} {other} {one}"))
    assert found == wanted
    for seed in range(200):
        every_kind = {"typos": 0.5, "merge": 0.5, "copy": 0.9, "names": 0.5}
        for line in noisy([MARKED_PAIR] * 3, seed, PLACEHOLDERS, **every_kind):
            sides = [sorted(mark for mark in side if mark in PLACEHOLDERS) for side in line[:2]]
            assert sides[0] == sides[1] and len(set(sides[0])) == len(sides[0])


# --------------------------------------------------------------------------------------------------
# Invented names, numbers and addresses


def test_an_invented_name_is_the_same_on_both_sides_and_made_of_words_of_the_lines():
    """In place of a name that stands on both sides, else before the final marks, and nowhere
    without them."""
    pairs = [("Wo ist Tom?", "Where is Tom?"), PLAIN_PAIR, ("Ja", "Yes.")] * 20
    forms = [r"Wo ist (.+)\?\nWhere is \1\?", r"das ist es(.+)\.\nthat is it\1\.", "Ja\nYes()\\."]
    seen = set()
    for source, target, rows in noisy(pairs, names=0.999):
        found = re.fullmatch(forms[rows.start % 3], f"{source}\n{target}")
        assert found
        seen.add(found[1])
    assert len(seen) > 30
    letters = set("".join(seen).lower()) - set(' ():,"')
    assert letters <= set("".join(map("".join, pairs)).lower())


def test_an_invented_name_has_letters_of_both_sides():
    """What Russian writes in Cyrillic is not copied into English; what it writes in Latin letters
    is."""
    pairs = [
        ("Это мой новый дом.", "This is my new house."),
        ("Его Samsung сломан.", "His Samsung is broken."),
    ] * 20
    lines = noisy(pairs, names=0.999)
    assert len(lines) > 30 and all(line.target.isascii() for line in lines)


def test_a_name_has_one_to_three_words_from_the_ends_of_two():
    words = ["abcdefgh", "ijklmnop"]
    beginnings = {word[:count] for word in words for count in range(1, 7)}
    endings = {word[-count:] for word in words for count in range(1, 7)}
    possible = {(first + last).capitalize() for first in beginnings for last in endings}
    generator = Random(1)
    names = [invented_name(words, generator).split() for _ in range(3000)]
    assert {word for name in names for word in name} == possible
    counts = Counter(map(len, names))
    assert [counts[number] / 3000 for number in (1, 2, 3)] == pytest.approx(
        [3 / 6, 2 / 6, 1 / 6], abs=0.03
    )


def test_plain_noise_writes_the_same_invented_spans_on_both_sides():
    """Each is what the text filter finds as a whole, so that all that is copied is learnt."""
    pair = (f"Tom kam um {ONE} nach {X1}.", f"Tom came to {X1} at {ONE}.")
    seen = set()
    for source, target in outcomes(pair, plain=1.0):
        number, address = re.fullmatch(r"Tom kam um (.+) nach (.+)\.", source).groups()
        assert target == f"Tom came to {address} at {number}."
        seen |= {number, address}
    assert len(seen) > 1000
    for seed in range(400):
        for invent, is_number in ((invented_number, True), (invented_address, False)):
            span = invent(Random(seed))
            (found,) = find_spans(f"Das ist {span} heute.")
            assert (found.text, found.kind == "number") == (span, is_number)


def test_every_time_date_and_number_may_be_invented():
    generator = Random(1)
    text = " ".join(invented_number(generator) + ";" for _ in range(50_000))

    def parts(form: str) -> list[set[int]]:
        return [set(map(int, column)) for column in zip(*re.findall(form, text), strict=True)]

    assert parts(r"(\d+):(\d\d);") == [set(range(24)), set(range(60))]
    days, months, years = parts(r"(\d+)\.(\d+)\.(\d{4});")
    assert (days, months) == (set(range(1, 32)), set(range(1, 13)))
    assert {1500, 2100} <= years <= set(range(1500, 2101))
    lengths = {len(number) for number in re.findall(r" (\d+);", text)}
    assert lengths == {1, 2, 3, 4, 5, 6}
    assert {len(number) for number in re.findall(r" (\d+) [%€$];", text)} == {1, 2, 3}
    decimals = re.findall(r" (\d+)[.,](\d+);", text)
    assert {(len(one), len(other)) for one, other in decimals} == set(product((1, 2, 3), (1, 2)))


LATIN = "aeioubdfgkmnprstvzl"
CYRILLIC = "аеиоубдфгкмнпрствзл"


@pytest.mark.slow
def test_names_in_another_script_are_learnt_with_the_defaults(tmp_path, capfd):
    """What a rule writes in other letters is not copied, although most of its words are unknown."""
    generator = Random(1)
    names = dict[str, str]()
    while len(names) < 5900:
        syllables = [
            generator.choice("bdfgklmnprstvz") + generator.choice("aeiou")
            for _ in range(generator.randint(2, 5))
        ]
        name = "".join(syllables)
        names[name.capitalize()] = name.translate(str.maketrans(LATIN, CYRILLIC)).capitalize()
    every = list(names.items())
    sets = {"train": every[:5600], "valid": every[5600:5700], "test": every[5700:]}
    words = ["data=files", "data.source=de", "data.target=en", "model=transformer_tiny"]
    for part, chosen in sets.items():
        write_pairs(tmp_path, part, chosen)
        words.append(f"data.{part}={tmp_path / part}")
    words += ["train.max_steps=500", "tokenizer.vocabulary_size=400", "name=names"]
    answer = run_command(capfd, "train", *words, *folder_options(tmp_path))
    assert answer.code == 0 and float(answer.out.split("\t")[2]) > 90, answer.out

"""Warnings about whole corpora: planted faults are found where they begin, and sound corpora have
none."""

import random
import unicodedata
from itertools import groupby, islice, pairwise
from operator import itemgetter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.corpus.checks import SAMPLE, Finding, PairChecks, text_faults
from nmt.corpus.inspect.lines import Lines, lines_of_pairs
from nmt.corpus.inspect.misaligned_blocks import (
    AROUND,
    MIN_PAIRS,
    UNRELATED,
    MisalignedBlock,
    chunks,
    find_misaligned_blocks,
    length_moments,
    merge,
)
from nmt.corpus.parallel_text import read_pairs
from nmt.corpus.phrasebook import phrasebook_folder

Side = list[str]
COUNT = 3200


@pytest.fixture(scope="module")
def drawn() -> tuple[Side, Side]:
    """German and English sentences of the phrasebook, one to three of them in a line."""
    single = list(
        islice(
            read_pairs(phrasebook_folder() / "train.de.bz2", phrasebook_folder() / "train.en.bz2"),
            1500,
        )
    )
    chosen = random.Random(1)
    lines = [
        [chosen.choice(single) for _ in range(chosen.randint(1, 3))] for _ in range(COUNT + 300)
    ]
    return [" ".join(german for german, _ in line) for line in lines], [
        " ".join(en for _, en in line) for line in lines
    ]


def look(checks: PairChecks, sources: Side, targets: Side) -> list[Finding]:
    """The findings in a set; its pairs come through as they are."""
    pairs = list(zip(sources, targets, strict=True))
    checks.prepare(pairs[:SAMPLE])
    assert list(checks.watch(iter(pairs))) == pairs
    return list(checks.findings())


@pytest.fixture
def find(drawn):
    """The findings in training pairs; the validation set are the last 300 pairs drawn."""

    def find(sources: Side, targets: Side, valid: tuple[Side, Side] | None = None) -> list[Finding]:
        held_out = PairChecks()
        found = look(held_out, *(valid or (drawn[0][COUNT:], drawn[1][COUNT:])))
        assert valid or found == []
        return look(PairChecks(held_out), sources, targets)

    return find


@pytest.fixture
def sides(drawn) -> tuple[Side, Side]:
    return drawn[0][:COUNT], drawn[1][:COUNT]


def only(findings: list[Finding]) -> Finding:
    assert len(findings) == 1, findings
    return findings[0]


@pytest.mark.parametrize("count", [MIN_PAIRS - 1, COUNT])
def test_a_sound_corpus_has_no_warning(find, sides, count):
    assert find(sides[0][:count], sides[1][:count]) == []


@pytest.mark.parametrize(("at", "lost"), [(0, 1), (777, 3)])
def test_a_shift_is_found_where_it_begins(find, sides, at, lost):
    source, target = sides
    target = target[:at] + target[at + lost :]
    for pair in ((source[: len(target)], target), (target, source[: len(target)])):
        finding = find(*pair)[0]
        assert abs(finding.number - (at + 1)) <= 40
        assert f"shifted by {lost} line" in finding.text


def test_shuffled_lines_are_found(find, sides):
    source, target = sides
    part = target[1200:2500]
    random.Random(2).shuffle(part)
    finding = only(find(source, target[:1200] + part + target[2500:]))
    assert "shuffled or mixed up" in finding.text and abs(finding.number - 1201) <= 40


def test_swapped_columns_are_found(find, sides):
    source, target = sides
    finding = only(find(target, source))
    assert finding.text.endswith(
        f" of {COUNT:,} pairs look swapped: each side in the other's language"
    )
    assert finding.number == 1 and int(finding.text.split()[0].replace(",", "")) >= 0.95 * COUNT
    finding = only(find(source[:3000] + target[3000:], target[:3000] + source[3000:]))
    assert finding.number == 3001 and 190 <= int(finding.text.split()[0]) <= 200


def test_languages_that_are_not_those_named(drawn):
    german, english = (side[:300] for side in drawn)
    japanese = ["これは私たちの新しい家です。"] * 300
    greek = ["Αυτό είναι το νέο μας σπίτι."] * 300
    for sides, codes, said in (
        ((german, english), ("de", "en"), None),
        (
            (english, german),
            ("de", "en"),
            "the sides look exchanged: the source like en, the target like de",
        ),
        ((german, german), ("en_GB", "de"), "the source looks like de, not en_GB"),
        ((german, english), ("fr", "en"), "the source looks like de, not fr"),
        ((german, japanese), ("de", "zh"), None),  # a script of both
        ((japanese, german), ("de", "de"), "the source looks like CJK script, not de"),
        ((german, german), ("de", "ja"), "the target looks like Latin script, not ja"),
        (
            (german, ["Zorp blik nad qvu smel tarpo."] * 300),
            ("de", "uk"),
            "the target looks like Latin script, not uk",
        ),
        ((german, greek), ("de", "en"), "the target looks like el, not en"),
        ((german[:3], english[:3]), ("en", "de"), None),  # too little
        ((["12 + 3"] * 300, ["---"] * 300), ("en", "de"), None),
    ):
        found = look(PairChecks(languages=codes), *sides)
        texts = [
            finding.text
            for finding in found
            if "look" in finding.text and "swapped" not in finding.text
        ]
        assert texts == ([said] if said else [])


PLANTED = {
    "mojibake": (lambda text: text.replace("e", "Ã¼", 1), "wrong encoding"),
    "entities": (lambda text: text.replace("e", "&amp;amp;", 1), "HTML entities"),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_damaged_text_is_counted_with_its_first_line(find, sides, fault):
    plant, text = PLANTED[fault]
    side = len(fault) % 2
    planted = [list(each) for each in sides]
    for line in (1300, 1301, 2900, 3199):
        planted[side][line] = plant(planted[side][line])
    finding = only(find(*planted))
    assert (
        finding.number == 1301
        and finding.text.startswith(f"4 of {COUNT:,} pairs have ")
        and text in finding.text
    )
    planted[side][1301] = sides[side][1301]
    planted[side][2900] = sides[side][2900]
    assert find(*planted) == []  # two are no warning
    planted[side][2000] = "ein\x1bs"  # one control character is
    assert only(find(*planted)) == Finding(f"1 of {COUNT:,} pairs have control characters", 2001)


def test_what_the_validation_set_has_too_is_the_way_of_the_corpus(find, sides, drawn):
    """A corpus tokenized by Moses writes &quot; in all its sets."""
    escaped = [f"&quot; {text}" for text in sides[0]]
    assert len(find(escaped, sides[1])) == 1
    assert (
        find(escaped, sides[1], ([f"&quot; {text}" for text in drawn[0][COUNT:]], drawn[1][COUNT:]))
        == []
    )


DIVIDED = {
    "subword-nmt": lambda word: f"{word[:3]}@@ {word[3:]}",
    "SentencePiece": lambda word: f"▁{word[:3]} {word[3:]}",
    "WordPiece": lambda word: f"{word[:3]} ##{word[3:]}",
}


@pytest.mark.parametrize("divide", DIVIDED.values(), ids=DIVIDED)
def test_subwords_are_told_also_if_the_whole_corpus_has_them(find, sides, drawn, divide):
    def divided(texts):
        words = [text.split() for text in texts]
        return [
            " ".join(divide(each) if len(each) > 4 else each for each in line) for line in words
        ]

    valid = [divided(side[COUNT:]) for side in drawn]
    finding = only(find(*map(divided, sides), valid))
    assert f"of {COUNT:,} pairs have subwords" in finding.text and finding.number < 10
    sound = ["an a@@b.example", "me @@ home", "# Titel", "Text ## Titel", "C## 4", "▁"]
    assert faulty("subwords", sound) == []


def test_a_file_that_is_escaped_from_some_line_on_is_not_shifted(find, sides):
    escaped = [f"&lt;i&gt;&apos;{text}&apos;&lt;/i&gt;" for text in sides[1][COUNT // 2 :]]
    finding = only(find(sides[0], [*sides[1][: COUNT // 2], *escaped]))
    assert "HTML entities" in finding.text


def faulty(fault, texts):
    """Those of some texts that have a fault."""
    found = text_faults(Lines(texts))[fault]
    return [text for text, is_found in zip(texts, found, strict=True) if is_found]


def test_control_characters_are_those_of_unicode():
    """All of category Cc but white space, and the marks that turn the direction of text."""
    turning = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    characters = [chr(code) for code in range(0x3000) if chr(code) not in "\t\n\r"]
    wanted = [
        each
        for each in characters
        if unicodedata.category(each) == "Cc" or unicodedata.bidirectional(each) in turning
    ]
    texts = [f"ein {each} Zeichen" for each in characters]
    assert faulty("control characters", texts) == [f"ein {each} Zeichen" for each in wanted]


def test_text_of_a_wrong_encoding_is_told_from_sound_text():
    """UTF-8 that was read as another encoding, and letters that became question marks."""
    sound = [
        "Müller ißt Crêpes für 3 €",
        "«Où est l’été?», dit-il",
        "Привет, мир",
        "Was? Ja?Nein",
        "ÂME",
    ]
    broken = [
        text.encode().decode(encoding, errors="replace")
        for text in sound[:3]
        for encoding in ("latin-1", "cp1252", "ascii")
    ]
    broken += ["\ufeff".encode().decode("latin-1") + "Satz", "Herr M?ller kommt.", "sch?n"]
    lost = "Was? Ja?Nein"  # as if it had been a letter
    found = faulty("characters of a wrong encoding", [*sound, *broken])
    assert found == [lost, *broken]


@pytest.mark.parametrize("count", [0, 101, 800])
def test_chunks_hold_every_pair_once(count):
    given = [(str(number), "") for number in range(count)]
    cores = []
    for chunk in chunks(iter(given), 100):
        at = chunk.first - 1
        assert chunk.pairs[chunk.core] == given[at : at + chunk.size]
        assert chunk.pairs == given[max(0, at - AROUND) : at + chunk.size + AROUND]
        cores += chunk.pairs[chunk.core]
    assert cores == given


@given(
    st.lists(st.sampled_from([0, 1, -2, UNRELATED]), max_size=30),
    st.sets(st.integers(1, 29)),
    st.randoms(use_true_random=False),
)
def test_blocks_are_joined_over_the_ends_of_chunks(shifts, ends, generator):
    """Each stretch of pairs with one shift is one block, however it was divided."""
    whole = []
    parts = []
    for shift, group in groupby(enumerate(shifts, 1), key=itemgetter(1)):
        numbers = [number for number, _ in group]
        if shift:
            whole.append(MisalignedBlock(numbers[0], numbers[-1], shift))
            edges = [0, *(place for place in range(1, len(numbers)) if numbers[place] in ends)]
            for first, last in pairwise([*edges, len(numbers)]):
                parts.append(MisalignedBlock(numbers[first], numbers[last - 1], shift))
    generator.shuffle(parts)
    assert merge(parts) == whole


@pytest.mark.parametrize("lost", [1, 3])
@pytest.mark.parametrize("side", [0, 1])
def test_a_block_says_which_side_is_behind(sides, lost, side):
    """Without some of its lines at the beginning, a side is early."""
    shifted = [list(each[:1000]) for each in sides]
    del shifted[side][:lost]
    pairs = list(zip(*shifted, strict=False))
    (chunk,) = chunks(iter(pairs), 1000)
    moments = length_moments(*lines_of_pairs(pairs))
    (block,) = find_misaligned_blocks(moments, chunk)
    assert block.first <= 10
    assert block.last >= len(pairs) - 10
    count = "1 line" if lost == 1 else f"{lost} lines"
    assert block.describe() == f"the target is {count} {'late' if side == 0 else 'early'}"

"""Rough input: what is copied comes through, loops are cut."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from corpora import write_pairs
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_batches import Texts

from nmt.config.schema import TokenizerConfig
from nmt.corpus.normalization import normalize
from nmt.corpus.words import piece_spans
from nmt.data.augmentation import Noise, Variation
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
from nmt.data.tokenizer import BYTE_OR_UNKNOWN, Tokenizers
from nmt.data.train_tokenizer import train_tokenizers

PARTS = [
    *"a Bc ß 1 23 . , : / @ # - _ ( ) [ ] $ % {x} https:// x:// www. localhost: .de".split(),
    *"<b> &amp; ` 😀 \ufe0f :) <3 \uf101 \\ + €".split(),
    *(" ", " ", "\u00a0"),
]
LONG = [  # in long lines
    *("1 ", "(1 ", "1 (1 ", "A1B2 ", "AB12 1234 ", "12. 12. ", "1 / 1/"),
    *"1 1- 字1 1: 1/".split(),
]
ONE, TWO, X1, X2 = *NUMBERS[:2], *OTHERS[:2]


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
        ("Rad {siehe Seite: unten} {erster Name}", ["{erster Name}"]),
        (
            "Ein <b>fetter</b> Satz &amp; <br/> mit `ls -l`.",
            ["<b>", "</b>", "&amp;", "<br/>", "`ls -l`"],
        ),
        ("Taste *\ufe0f\u20e3", ["*\ufe0f\u20e3"]),
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
@example(text="IST {Name} DA")
def test_what_is_filled_again_is_the_text(text):
    """But for letters that have no small form of their own, in a line in capitals."""
    protected = protect(text)
    marked = any(mark in text for mark in PLACEHOLDERS)
    if not marked:
        assert restore(protected.text, protected) == text
    plain = unprotected(protected, list(protected.spans))
    assert plain.spans == {}
    if not marked:
        assert plain.text == (text.lower() if protected.capitals else text)


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
    for text, small in (
        ("DIE STRAßE", "die straße"),
        ("İKİ KIZ", "iki kız"),
        ("ΣΑΣ ΟΔΟΣ", "σας οδος"),
        ("OʻZBEKISTON", "oʻzbekiston"),
        ("HOTEL 東京", "hotel 東京"),
    ):
        assert protect(text) == Protected(small, {}, True)
        assert restore(small, protect(text)) == text.replace("ß", "SS")
    assert not protect("ßßßß").capitals
    assert not protect("USA").capitals and not protect("WO Ist das").capitals
    many = protect(", ".join(map(str, range(10, 30))))
    assert list(many.spans) == NUMBERS and many.text.endswith(
        "18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29"
    )
    assert protect("am 5.5. mit {x}", placeholders=OTHERS).spans == {X1: "{x}"}

    # A URL that has no placeholder would come back in capitals
    links = " ".join(f"https://x.org/Ab{number}" for number in range(len(OTHERS) + 1))
    assert not protect(f"SIEHE {links}").capitals
    assert protect(f"SIEHE {links.rpartition(' ')[0]}").capitals


def test_what_looks_like_a_placeholder_is_not_filled():
    """Icons of some fonts have the same numbers."""
    tags = " ".join(f"<b{number}>" for number in range(len(OTHERS)))
    protected = protect(f"{tags} Wort {X1} Ende")
    assert restore(protected.text, protected) == f"{tags} Wort   Ende"
    source, target = protect_pair(f"{X1} Klick <b>", "Click <b>")
    assert source.text == f"  Klick {X1}" and target.text == f"Click {X1}"


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
    files = write_pairs(folder, "train", list(zip(sources, targets, strict=True)))
    config = TokenizerConfig("unigram", 310, True, True, 1.0, False, 256, protect=True)
    train_tokenizers(config, *files, folder)
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
    assert found.protects and found.source.placeholders == OTHERS
    assert found.protect_sources(["{x} geht um 8 heim"])[0].spans == {X1: "{x}"}


SPOKEN = ["der", "Hund", "geht", "8:15", "7", "{x}", "a@b.de", ",", ".", "(", "5"]


@given(
    st.lists(st.tuples(st.sampled_from(SPOKEN), st.sampled_from(["", " "])), max_size=8),
    st.randoms(use_true_random=False),
)
def test_the_pieces_of_a_translation_are_its_text(tokenizers, words, random):
    """In whatever order a model writes the pieces of its source."""
    text = "".join(map("".join, words))
    [source] = tokenizers.encode_sources(tokenizers.protect_sources([text]))
    ids = source.like(random.sample(source, len(source)))
    pieces = tokenizers.target.pieces(ids)
    if any(map(BYTE_OR_UNKNOWN.fullmatch, tokenizers.target.pieces(list(ids)))):
        return  # parts of a character are no text
    shown = " ".join("".join(pieces).replace("▁", " ").split())
    assert shown == " ".join(tokenizers.target.decode(ids).split())


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


def test_placeholders_of_training_pairs_become_others_on_both_sides(tokenizers):
    """Those of lines that have them, and of no others."""
    pairs = [("der Hund geht um 8:15 heim",) * 2] * 30 + [("ein Haus steht am Fluss",) * 2] * 30
    texts = Texts(tokenizers, pairs)
    variation = Variation(tokenizers, 0.0, Noise(copy=1e-9), (99, 99))
    placeholders = set(tokenizers.source.placeholder_ids)
    seen = set()
    for source, target, row in variation.vary(texts, np.arange(60), 60, 1):
        assert source.tolist() == target.tolist()
        found = placeholders.intersection(source.tolist())
        assert len(found) == (row < 30)
        seen |= found
    assert len(seen) > 5


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

"""Tags are put back around the right words: by hand, and for any links never lost and never
crossed."""

import re
from dataclasses import dataclass
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from documents import translated
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nmt.decode.forced_decoding import AttentionRecord
from nmt.documents.html import read_html
from nmt.documents.placement import TranslatedSentence, put_back
from nmt.documents.segment import DEEPEST, Segment
from nmt.documents.word_weights import (
    WeightReader,
    WordWeights,
    locate,
    proportional_weights,
    whole_words,
)
from nmt.evaluate.extraction import Extractor


def segment_of(html: str) -> Segment:
    [segment] = [part for part in read_html(html) if isinstance(part, Segment)]
    return segment


def translate(html: str, target: str, links: set[tuple[int, int]]) -> str:
    """A sentence of HTML with this translation and these links between words."""
    segment = segment_of(html)
    words = whole_words(segment.text), whole_words(target)
    weights = np.zeros((len(words[1]), len(words[0])))
    for i, j in links:
        weights[j, i] = 1
    weights /= np.maximum(weights.sum(1, keepdims=True), 1)
    return put_back(
        segment,
        [(0, len(segment.text))],
        [TranslatedSentence(target, WordWeights(*words, weights))],
    )


@pytest.mark.parametrize(
    ("html", "target", "links", "wanted"),
    [
        (
            "er hat <b>das <i>Buch</i></b>",
            "he the book has",
            {(0, 0), (1, 3), (2, 1), (3, 2)},
            "he <b>the <i>book</i></b> has",
        ),
        # An empty tag goes before the next word, after the one that it is glued to.
        (
            "er <img> schnell geht",
            "he goes quickly",
            {(0, 0), (1, 2), (2, 1)},
            "he goes <img> quickly",
        ),
        (
            "er<img> schnell geht",
            "goes he quickly",
            {(0, 1), (1, 2), (2, 0)},
            "goes he<img> quickly",
        ),
        (
            "er<img><wbr> schnell geht",
            "goes he quickly",
            {(0, 1), (1, 2), (2, 0)},
            "goes he<img><wbr> quickly",
        ),
        ("ein<img>e Frau", "a woman", {(0, 0), (1, 1)}, "<img>a woman"),
        (
            "er schnell geht <span></span>",
            "he goes quickly",
            {(0, 0), (1, 2)},
            "he goes quickly <span></span>",
        ),
        # A pair around a unit alone, though another word comes from the unit.
        (
            "Siehe <b>{x}</b> dort",
            "\uf2a0 see there",
            {(1, 0), (1, 1), (2, 2)},
            "<b>{x}</b> see there",
        ),
        # Beside a pair, of which its word is in the middle.
        (
            "er <img> <b>schnell geht</b>",
            "he goes quickly",
            {(0, 0), (1, 2), (2, 1)},
            "he <img> <b>goes quickly</b>",
        ),
        (
            "<b>er schnell</b> <img> geht heute",
            "he goes quickly today",
            {(0, 0), (0, 1), (1, 2), (2, 1), (3, 3)},
            "<b>he goes quickly</b> <img> today",
        ),
        # A unit that the translation has lost, glued, or written after its end; its spaces are
        # those of the source.
        ("Wo ist {name}?", "Where is?", {(0, 0), (1, 1), (3, 2)}, "Where is {name}?"),
        (
            "Wo ist {name} heute",
            "Where is\uf2a0today",
            {(0, 0), (1, 1), (2, 2), (3, 3)},
            "Where is {name} today",
        ),
        (
            "Mit <code>git</code> geht es.",
            "It works now.\uf2a0",
            {(2, 1), (3, 0)},
            "It <code>git</code> works now.",
        ),
        ("Rad{name} gut so", "so good wheel", {(0, 2), (2, 1), (3, 0)}, "so good wheel{name}"),
        ("Rad {name} gut so", "so good wheel", {(0, 2), (2, 1), (3, 0)}, "so {name} good wheel"),
        ("({name}) geht", "() goes", {(0, 0), (2, 1), (3, 2)}, "({name}) goes"),
    ],
)
def test_where_tags_go(html, target, links, wanted):
    assert translate(html, target, links) == wanted


# --------------------------------------------------------------------------------------------------
# For any weights: the same as a search through all places


@dataclass
class Example:
    """Sentences of letters and commas, their translations, and the weights [T S] between them."""

    source: list[str]
    target: list[str]
    weights: np.ndarray
    spans: list[tuple[int, int]]
    sentences: list[TranslatedSentence]

    def put_back(self, words: list[str]) -> str:
        """The translation of the source words, which have markup now."""
        return put_back(segment_of(" ".join(words)), self.spans, self.sentences)


def random_example(generator: np.random.Generator, count: int) -> Example:
    example = Example([], [], np.zeros((0, 0)), [], [])
    for _ in range(count):
        height, width = generator.integers(1, 7, 2)
        weights = generator.random((height, width)) ** generator.integers(1, 4)
        weights /= weights.sum(1, keepdims=True)
        old_height, old_width = example.weights.shape
        source = list("abcdefghijkl"[old_width : old_width + width])
        target = list("ABCDEFGHIJKL"[old_height : old_height + height])
        for words in (source, target):
            if len(words) > 1:
                words[generator.integers(0, len(words))] = ","
        start = 2 * old_width  # a letter and a space each
        example.spans.append((start, start + 2 * width - 1))
        text = " ".join(target)
        pair = WordWeights(whole_words(" ".join(source)), whole_words(text), weights)
        example.sentences.append(TranslatedSentence(text, pair))
        example.source += source
        example.target += target
        example.weights = np.pad(example.weights, ((0, height), (0, width)))
        example.weights[old_height:, old_width:] = weights
    return example


def without_commas(example: Example, region: tuple[int, int], start: int, stop: int):
    """A span without the commas at an edge at which the source region has none."""
    if example.source[region[1] - 1] != ",":
        while stop - start > 1 and example.target[stop - 1] == ",":
            stop -= 1
    if example.source[region[0]] != ",":
        while stop - start > 1 and example.target[start] == ",":
            start += 1
    return start, stop


def best_span(gains: np.ndarray, free: set[int]) -> tuple[float, int, int]:
    """The contiguous free words with the largest sum: that sum, and where they begin and end."""
    spans = []
    for start in free:
        stop = start + 1
        while stop - 1 in free:
            spans.append((gains[start:stop].sum(), start, stop))
            stop += 1
    return max(spans)


seeds = st.integers(0, 2**32 - 1).map(np.random.default_rng)


@settings(max_examples=200)
@given(seeds, st.integers(1, 2))
def test_a_pair_goes_around_words_that_come_from_its_own(generator, count):
    """By more than half each; of several pairs, the one whose words are clearer is placed first."""
    example = random_example(generator, count)
    length = len(example.source)
    assume(length > 1)
    edges = sorted(generator.integers(0, length + 1, 4))
    regions = [(start, stop) for start, stop in pairwise(edges) if start < stop]
    assume((0, length) not in regions)
    words = list(example.source)
    for start, stop in regions:
        words[start] = f"<b>{words[start]}"
        words[stop - 1] += "</b>"

    free = set(range(len(example.target)))
    wanted = list(example.target)
    gains = {region: example.weights[:, slice(*region)].sum(1) - 0.5 for region in regions}
    by_clearness = sorted(regions, key=lambda region: -best_span(gains[region], free)[0])
    for region in by_clearness:
        gain = gains[region]
        own = np.flatnonzero(gain > -0.5)  # the words of its sentences
        if own.size and free.intersection(own.tolist()):
            _, start, stop = best_span(gain, free)
        else:  # they are taken: a word beside them, rather the one before
            assume(free)
            before = [word for word in free if word < own[0]]
            start = max(before, default=min(free))
            stop = start + 1
        start, stop = without_commas(example, region, start, stop)
        wanted[start] = f"<b>{wanted[start]}"
        wanted[stop - 1] += "</b>"
        free -= set(range(start, stop))
    assert example.put_back(words) == " ".join(wanted)


@given(seeds)
def test_a_line_ends_where_most_words_are_on_their_side(generator):
    example = random_example(generator, 1)
    place = int(generator.integers(1, len(example.source) + 1))
    before = example.weights[:, :place].sum(1)
    after = example.weights[:, place:].sum(1)

    def words_on_their_side(end: int) -> float:
        return before[:end].sum() + after[end:].sum()

    end = len(example.target)
    if place < len(example.source) and end > 1:
        end = max(range(1, end), key=words_on_their_side)
    words = [*example.source[: place - 1], f"{example.source[place - 1]}<br>"]
    new = example.put_back([" ".join(words) + " ".join(example.source[place:])])
    assert new == " ".join(example.target[:end]) + "<br>" + " ".join(example.target[end:])


@given(seeds, st.booleans())
def test_a_point_goes_beside_the_words_of_its_neighbour(generator, is_glued):
    """Before those of the next word, or behind those of the one that it follows without a space."""
    example = random_example(generator, 1)
    length = len(example.source)
    place = int(generator.integers(is_glued, length + 1))
    words = list(example.source)
    wanted = list(example.target)
    neighbour = place - 1 if is_glued else place
    start = 0
    stop = len(wanted)
    if neighbour < length:
        gains = example.weights[:, neighbour] - 0.5
        _, start, stop = best_span(gains, set(range(stop)))
        start, stop = without_commas(example, (neighbour, neighbour + 1), start, stop)
    if is_glued:
        words[place - 1] += "<img>"
        wanted[stop - 1] += "<img>"
    else:
        words.insert(place, "<img>")
        wanted.insert({0: 0, length: len(wanted)}.get(place, start), "<img>")
    assert example.put_back(words) == " ".join(wanted)


@given(seeds)
def test_spaces_before_end_tags_are_not_written_twice(generator):
    """Two tags that end after the same word, with a space before each, before one, or none."""
    example = random_example(generator, 1)
    start, stop = sorted(generator.choice(len(example.source) + 1, 2, replace=False))
    words = list(example.source)
    words[start] = f"<b><i>{words[start]}"
    translations = set[str]()
    for end in ("</i></b>", " </i></b>", "</i> </b>", " </i> </b>"):
        spaced = [*words[: stop - 1], words[stop - 1] + end, *words[stop:]]
        translations.add(example.put_back(spaced))
    assert len(translations) == 1


def test_a_link_around_a_url_stays_around_it():
    html = "Siehe <a href='u'><b>https://x.org</b></a> dort."
    everything = {(source, target) for source in range(4) for target in range(3)}
    assert (
        translate(html, "\uf2a0 see there", everything)
        == "<a href='u'><b>https://x.org</b></a> see there"
    )


def test_without_attention_a_tag_keeps_its_share_of_the_sentence():
    assert proportional_weights("a b c d", "A B").weights.tolist() == [
        [0.5, 0.5, 0, 0],
        [0, 0, 0.5, 0.5],
    ]


def test_pieces_are_located_in_a_text_that_the_tokenizer_changed():
    assert locate(["▁Das", "▁ü", "ber"], "Das  u\u0308ber") == [(0, 3), (3, 7), (7, 10)]
    assert locate(["▁<unk>", "▁b"], "☃ b")[1] == (1, 3)


def test_words():
    def words(text: str) -> list[str]:
        return [text[start:end] for start, end in whole_words(text)]

    assert words("Er (sagt) ja.") == ["Er", "(", "sagt", ")", "ja", "."]
    assert words("你好 x\uf2a0") == ["你", "好", "x", "\uf2a0"]
    assert words("und/oder ja—nein x-y") == ["und", "/", "oder", "ja", "—", "nein", "x-y"]


def test_deep_nesting_ends():
    html = "<b>" * 3000 + "Wort" + "</b>" * 3000
    assert translated(".html", html) == html
    assert translated(".html", html, str.upper).count("</b>") == 3000 > DEEPEST


PIECES = (
    "<b>|</b>|<i>|</i>|<u>|</u>|<br>|<img>|<span></span>|Wort |Haus, |geht. |x|%s |<code>c</code>"
).split("|")


@settings(max_examples=150)
@given(
    st.lists(st.sampled_from(PIECES), max_size=16),
    st.integers(0, 6),
    st.randoms(use_true_random=False),
)
def test_tags_are_never_lost_and_never_crossed(pieces, length, generator):
    """For any tags, any translation and any weights; crossed are only tags that the source has
    crossed."""
    segment = segment_of(f"<p>{''.join([*pieces, 'ende'])}</p>")
    text = segment.text
    target = ", ".join("abcdef"[:length])
    middle = text.find(". ") + 1
    spans = [(0, middle), (middle + 1, len(text))] if middle else [(0, len(text))]
    sentences = []
    for start, end in spans:
        words = whole_words(text[start:end]), whole_words(target)
        weights = np.array([[generator.random() ** 3 for _ in words[0]] for _ in words[1]])
        weights = weights.reshape(len(words[1]), len(words[0]))
        sentences.append(
            TranslatedSentence(target, WordWeights(*words, weights / max(weights.sum(), 1)))
        )
    new = put_back(segment, spans, sentences)
    markup = re.compile("<code>c</code>|<.*?>|%s")
    assert sorted(markup.findall(new)) == sorted(markup.findall(segment.raw))
    assert re.sub("[, ]", "", markup.sub("", new)) == "abcdef"[:length] * len(spans)
    if crossings(segment.raw) == 0:
        assert crossings(new) == 0


def crossings(html: str) -> int:
    """How many end tags do not end the innermost element, or end none."""
    opened = []
    count = 0
    for end, name in re.findall(r"<(/?)(b|i|u|span)>", html):
        if not end:
            opened.append(name)
        elif opened and opened[-1] == name:
            opened.pop()
        else:
            count += 1
    return count + len(opened)


@pytest.mark.parametrize("breaks", [1, 3])
def test_each_line_keeps_a_word_where_there_are_enough(breaks):
    html = "<br>".join("abcde"[: breaks + 1])
    from_the_first = {(0, target) for target in range(4)}
    new = translate(html, "w x y z", from_the_first)
    assert "<br><br>" not in new
    assert new.count("<br>") == breaks and not new.startswith("<br>") and not new.endswith("<br>")


@pytest.mark.parametrize("layers", [1, 2, 6])
@pytest.mark.parametrize("guided", [0.0, 0.05])
def test_a_head_that_was_trained_with_links_counts_most(layers, guided):
    train = SimpleNamespace(guided_alignment=guided)
    model = SimpleNamespace(num_layers=layers, guided_layer=layers - 1, guided_step="input")
    reader = WeightReader.of_run(train, model)
    assert sum(share for _, share in reader.extractors) == pytest.approx(1)
    best, share = max(reader.extractors, key=lambda each: each[1])
    if guided:
        assert best == Extractor(layers - 1, 0, "input") and share > 0.5
    else:
        assert best.head is None and best.decoder_step == "output"


def test_weights_are_those_of_the_step_that_reads_a_word_or_writes_it():
    """Rows are steps: step 1 reads what step 0 has written. The last column is that of </s>."""
    weights = np.array([[[[0.5, 0.5, 0.0], [0.2, 0.2, 0.6], [0.0, 0.3, 0.7]]]])
    record = AttentionRecord(["▁a", "▁b"], ["▁x", "▁y"], [0.0] * 3, weights)
    of_output = np.array([[0.5, 0.5], [0.5, 0.5]])
    of_input = np.array([[0.5, 0.5], [0.0, 1.0]])
    output, given = Extractor(0, 0, "output"), Extractor(0, 0, "input")
    for extractors, wanted in (
        ([(output, 1.0)], of_output),
        ([(given, 1.0)], of_input),
        ([(given, 0.75), (output, 0.25)], 0.75 * of_input + 0.25 * of_output),
    ):
        reader = WeightReader(extractors, power=1.0)
        np.testing.assert_allclose(reader.read_pieces(record), wanted)
        np.testing.assert_allclose(reader.read([record], "a b", "x y").weights, wanted)

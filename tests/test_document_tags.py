"""Tags are put back around the right words: by hand, and for any links never lost and never crossed."""

import re

import numpy as np
import pytest
from documents import written
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.documents.html_document import read_html
from nmt.documents.links import Side, WordLinks, locate, proportional_links, whole_words
from nmt.documents.placement import Node, Placement, best_sum
from nmt.documents.rendering import Renderer, TranslatedSegment, TranslatedSentence
from nmt.documents.segment import UNITS, Segment, SegmentBuilder, TagKind, units_to_points
from nmt.documents.tag_tree import DEEPEST


def segment_of(html: str) -> Segment:
    [segment] = [part for part in read_html(html) if isinstance(part, Segment)]
    return segment


def put_back(html: str, target: str, links: set[tuple[int, int]]) -> str:
    """A sentence of HTML with this translation and these links between words."""
    segment = segment_of(html)
    source, other = (Side(text, whole_words(text, [])) for text in (segment.text, target))
    weights = np.zeros((len(other.words), len(source.words)))
    for i, j in links:
        weights[j, i] = 1
    weights /= np.maximum(weights.sum(1, keepdims=True), 1)
    sentence = TranslatedSentence(target, WordLinks(source, other, weights))
    return TranslatedSegment(segment, [(0, len(segment.text))], [sentence]).write({})


def test_a_tag_goes_where_its_words_go():
    links = {(0, 0), (1, 3), (2, 1), (3, 2)}
    assert put_back("er <b>hat</b> das Buch", "he the book has", links) == "he the book <b>has</b>"
    assert put_back("er hat <b>das <i>Buch</i></b>", "he the book has", links) == "he <b>the <i>book</i></b> has"
    assert put_back("er <b>hat</b> <i>das</i> Buch", "he the book has", links) == "he <i>the</i> book <b>has</b>"


def test_one_wrong_link_does_not_move_a_tag():
    links = {(0, 0), (0, 4), (1, 1), (2, 2), (3, 3)}  # "er" is also linked to the last word
    assert put_back("<b>er</b> geht nach Hause", "he goes home now x", links) == "<b>he</b> goes home now x"


def test_punctuation_stays_outside_unless_the_source_has_it_inside():
    links = {(0, 0), (0, 1), (1, 2), (1, 3), (2, 3)}
    assert put_back("<b>Gut</b> so.", "Well, so.", links) == "<b>Well</b>, so."
    assert put_back("Gut <b>so.</b>", "Well, so.", links) == "Well, <b>so.</b>"


def test_an_empty_tag_goes_before_the_translation_of_the_next_word():
    links = {(0, 0), (1, 2), (2, 1)}
    assert put_back("er <img> schnell geht", "he goes quickly", links) == "he goes <img> quickly"
    assert put_back("er schnell geht <span></span>", "he goes quickly", links) == "he goes quickly <span></span>"


def test_a_line_break_divides_where_the_links_do():
    links = {(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)}
    html = "eins zwei,<br>drei vier"
    assert put_back(html, "one two, three four", links) == "one two,<br>three four"


def test_a_pair_over_two_sentences_is_opened_once_and_closed_once():
    assert (
        written(read_html("Er <b>geht. Sie kommt. Es</b> regnet."), str.upper)
        == "ER <b>GEHT. SIE KOMMT. ES</b> REGNET."
    )


def test_a_unit_that_the_translation_lost_is_put_back():
    html = "Mit <code>git clone</code> geht es."
    assert written(read_html(html), lambda _: "It works.").count("<code>git clone</code>") == 1
    after_the_end = written(read_html(html), lambda text: "It works now." + UNITS.findall(text)[0])
    assert after_the_end == "It <code>git clone</code> works now."


def test_a_link_around_a_url_is_one_with_it():
    segment = segment_of("Siehe <a href='u'><b>https://x.org</b></a> dort.")
    assert segment.text == "Siehe \uf2a0 dort." and not segment.tags
    assert segment.units["\uf2a0"] == ["<a href='u'>", "<b>", "https://x.org", "</b>", "</a>"]


def test_units_become_points_for_a_model_that_would_not_copy_them():
    segment = segment_of("Mit <code>x</code> geht %s")
    units_to_points(segment)
    assert segment.text == "Mit geht"
    assert [("".join(tag.parts), tag.position) for tag in segment.tags] == [("<code>x</code> ", 4), (" %s", 8)]


def test_without_attention_a_tag_keeps_its_share_of_the_sentence():
    links = proportional_links("a b c d", "A B")
    assert links.weights.tolist() == [[0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5]]


def test_best_sum():
    assert best_sum(np.array([-0.5, 0.5, -0.25, 0.5, -0.5])) == (0.75, 1, 4)
    assert best_sum(np.array([-0.5, -0.25])) == (-0.25, 1, 2)  # never empty


def test_pieces_are_located_in_a_text_that_the_tokenizer_changed():
    assert locate(["▁Das", "▁ü", "ber"], "Das  u\u0308ber") == [(0, 3), (3, 7), (7, 10)]
    assert locate(["▁<unk>", "▁b"], "☃ b")[1] == (1, 3)


def test_words():
    def words(text: str) -> list[str]:
        return [text[start:end] for start, end in whole_words(text, [])]

    assert words("Er (sagt) 3,50 €.") == ["Er", "(", "sagt", ")", "3,50 €", "."]
    assert words("你好 %s") == ["你", "好", "%s"]


def test_deep_nesting_ends():
    html = "<b>" * 3000 + "Wort" + "</b>" * 3000
    assert written(read_html(html)) == html
    assert written(read_html(html), str.upper).count("</b>") == 3000 > DEEPEST


NAMES = [
    "<b>",
    "</b>",
    "<i>",
    "</i>",
    "<u>",
    "</u>",
    "<br>",
    "<img>",
    "<span></span>",
    "Wort ",
    "Haus, ",
    "geht. ",
    "x",
]


@settings(max_examples=150)
@given(st.lists(st.sampled_from(NAMES), max_size=16), st.integers(0, 6), st.randoms(use_true_random=False))
def test_tags_are_never_lost_and_never_crossed(pieces, length, generator):
    """For any tags, any translation and any weights; crossed are only tags that the source has crossed."""
    html = "".join([*pieces, "Ende"])
    builder_segment = segment_of(f"<p>{html}</p>")
    text = builder_segment.text
    middle = text.find(". ") + 1
    spans = [(0, middle), (middle + 1, len(text))] if middle else [(0, len(text))]
    sentences = []
    for start, end in spans:
        target = ", ".join("abcdef"[:length])
        sides = Side(text[start:end], whole_words(text[start:end], [])), Side(target, whole_words(target, []))
        weights = np.array([[generator.random() ** 3 for _ in sides[0].words] for _ in sides[1].words])
        weights = weights.reshape(len(sides[1].words), len(sides[0].words))
        sentences.append(TranslatedSentence(target, WordLinks(*sides, weights / max(weights.sum(), 1))))
    new = TranslatedSegment(builder_segment, spans, sentences).write({})
    assert sorted(re.findall("<.*?>", new)) == sorted(re.findall("<.*?>", builder_segment.raw))
    assert "".join(re.sub("<.*?>|,| ", "", new)) == "abcdef"[:length] * len(spans)
    if crossings(builder_segment.raw) == 0:
        assert crossings(new) == 0


def crossings(html: str) -> int:
    """How many end tags do not end the innermost element, or end none."""
    opened, count = [], 0
    for end, name in re.findall(r"<(/?)(b|i|u|span)>", html):
        if not end:
            opened.append(name)
        elif opened and opened[-1] == name:
            opened.pop()
        else:
            count += 1
    return count + len(opened)


@pytest.mark.parametrize("breaks", [1, 2, 3])
def test_each_line_keeps_a_word_where_there_are_enough(breaks):
    nodes = [Node(TagKind.BREAK, "|", first=1 + number, last=1 + number) for number in range(breaks)]
    weights = np.zeros((4, 5))
    weights[:, 0] = 1  # all words come from the first
    placement = Placement(weights, [False] * 5, [False] * 4, np.ones(4, dtype=bool))
    placement.place(nodes)
    assert len({node.start for node in nodes}) == breaks and all(0 < node.start < 4 for node in nodes)
    assert Renderer("a b c d", [(0, 1), (2, 3), (4, 5), (6, 7)], str).render(nodes).count("|") == breaks


def test_spaces_around_tags():
    builder = SegmentBuilder()
    builder.add_text("a  ")
    builder.add_tag(TagKind.OPEN, ["<b>"], "b")
    builder.add_text(" \n c")
    segment = builder.build("")
    assert segment.text == "a c" and segment.tags[0].parts == ["<b>", " \n "]

"""Documents of each format: text is translated, every other byte stays."""

import random
import re

import pytest
from documents import SAMPLES, translated, written
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.documents.po import PoDocument
from nmt.documents.xliff import XliffReader

STREAMS = [".html", ".md", ".srt", ".txt"]
few = settings(max_examples=40)
HTML_PIECES = st.sampled_from(
    "Das ist |gut. |<b>|</b>|<p>|</p>|<br>|<i class='x'>|</i>|&uuml;|&|< |> |<!-- c -->|<li>|<code>x</code>|\uf2a0|Ü|"
    "<img alt='ein Bild'>|\n  |<pre> a </pre>|<span></span>|https://x.de/?a=1&amp;b |%s |<div translate=no>|</div>|"
    "<script>1<2</script>".split("|")
)
MARKDOWN_PIECES = st.sampled_from(
    "Das ist |gut.|*|**|_|`x`|`|[|](u)|](|![ein|> |- |1. |# |\n|\n\n|  \n|\\\n|    |<b>|</b>|<|&amp;|***|\t|[r]|```\n|"
    "\n\n[r]: u\n|<div>\n|\r\n".split("|")
    + ["|", "| a ", "|---", "| a | b |\n|---|---|\n| eins | zwei |\n"]
)


@pytest.mark.parametrize("extension", STREAMS)
def test_the_same_text_gives_the_same_bytes(extension):
    text = SAMPLES[extension][0]
    assert translated(extension, text) == text
    assert translated(extension, text, keeps_units=False) == text


@pytest.mark.parametrize("extension", SAMPLES)
def test_only_text_changes(extension):
    text, upper = SAMPLES[extension]
    assert translated(extension, text, str.upper) == upper


@pytest.mark.parametrize("extension", SAMPLES)
def test_line_ends_of_windows_stay(extension):
    text, upper = (each.replace("\n", "\r\n") for each in SAMPLES[extension])
    assert translated(extension, text, str.upper) == upper


@few
@given(st.lists(HTML_PIECES, max_size=30).map("".join))
def test_any_html_stays_itself(text):
    assert translated(".html", text) == text


@few
@given(st.lists(MARKDOWN_PIECES, max_size=30).map("".join))
def test_any_markdown_stays_itself(text):
    assert translated(".md", text) == text
    translated(".md", text, str.upper)


@few
@given(st.lists(HTML_PIECES, max_size=30).map("".join))
def test_no_tag_of_html_is_lost(text):
    """As many tags as before, whatever the translation is."""
    for change in (str.upper, lambda sentence: "", lambda sentence: f"a b c {sentence[:5]}"):
        for keeps_units in (True, False):
            new = translated(".html", text, change, keeps_units)
            assert sorted(tags(new)) == sorted(tags(text))


def tags(text: str) -> list[str]:
    return [tag for tag in re.findall(r"</?[a-z]+[^<>]*>", text) if "alt=" not in tag]


def make_html(size: int) -> str:
    """A page with nested and empty elements, entities, attributes and sloppy ends."""
    generator, blocks, length = random.Random(1), ["<!doctype html>\n<html><body>\n"], 0
    while length < size:
        words = " ".join(generator.choice(["Haus", "grün", "läuft", "&amp;", "M&uuml;ller", "und"]) for _ in range(90))
        block = f"<div class='c{length}'><p>Der {words}. Ein <b>Satz <i>mit {generator.random():.3f}</i></b> hier"
        block += generator.choice(["</p>", "", "<br>\n", " <img src='x'>", "<span></span></p>"]) + "</div>\n"
        blocks.append(block)
        length += len(block)
    return "".join([*blocks, "</body></html>\n"])


@pytest.mark.parametrize("size", [100_000, pytest.param(2_000_000, marks=pytest.mark.slow)])
def test_a_large_page_keeps_its_structure(size):
    text = make_html(size)
    assert translated(".html", text) == text
    assert tags(translated(".html", text, str.upper)) == tags(text)


@pytest.mark.parametrize("count", [150, pytest.param(1500, marks=pytest.mark.slow)])
def test_the_subtitles_of_a_film_keep_their_structure(count):
    generator, cues = random.Random(1), []
    for number in range(1, count + 1):
        clock = f"{number // 900:02}:{number * 4 // 60 % 60:02}:{number * 4 % 60:02}"
        lines = [" ".join(generator.choices(["ich", "gehe", "Haus", "nie.", "ja?", "und"], k=6)) for _ in range(2)]
        cues.append(f"{number}\n{clock},000 --> {clock},900\n<i>{lines[0]}</i>\n{lines[1]}\n\n")
    text = "".join(cues)
    assert translated(".srt", text) == text
    longer = translated(".srt", text, lambda sentence: f"{sentence} {sentence.upper()}")
    heads = re.compile(r"^\d+\n.*-->.*\n(?=.*\S)", re.MULTILINE)  # a cue with text
    assert heads.findall(longer) == heads.findall(text)
    assert sorted(tags(longer)) == sorted(tags(text))


def test_a_sentence_over_two_cues_is_translated_as_one():
    text = "1\n00:00:01,000 --> 00:00:02,000\nIch gehe\n\n2\n00:00:02,000 --> 00:00:03,000\nnach Hause.\n"
    seen = []
    new = translated(".srt", text, lambda sentence: seen.append(sentence) or "eins zwei drei vier.")
    assert seen == ["Ich gehe nach Hause."]
    assert new == text.replace("Ich gehe", "eins zwei").replace("nach Hause", "drei vier")


def test_lines_of_text_join_only_where_they_are_full():
    seen = []
    translated(".txt", SAMPLES[".txt"][0], lambda sentence: seen.append(sentence) or sentence)
    assert "Er ist umgebrochen worden." in seen and "Anna Meier" in seen and "Punkt eins" in seen


def test_markup_characters_are_escaped():
    assert translated(".html", "<p>gut</p>", lambda _: "a < b & c") == "<p>a &lt; b &amp; c</p>"
    assert translated(".md", "gut\n", lambda _: "# a *b* [c](d) `e` <f>") == "\\# a \\*b\\* [c\\](d) \\`e\\` &lt;f>\n"
    assert translated(".html", '<img alt="gut">', lambda _: 'a "b" & c') == '<img alt="a &quot;b&quot; &amp; c">'


def test_what_has_a_translation_keeps_it():
    text = SAMPLES[".po"][0]
    assert [unit.source for unit in PoDocument(text, False).units].count("da") == 0
    assert [unit.source for unit in PoDocument(text, True).units].count("da") == 1
    assert "There" in translated(".xlf", SAMPLES[".xlf"][0], str.upper)
    assert ">There<" not in written(XliffReader(SAMPLES[".xlf"][0], True).parts(), str.upper)


def test_translate_toolkit_reads_what_is_written():
    from translate.storage import pypo, xliff

    store = xliff.xlifffile.parsestring(translated(".xlf", SAMPLES[".xlf"][0], str.upper).encode())
    assert [unit.target for unit in store.units][:3] == ['HALLO WELT "X".', "NEU bDA/b", "There"]
    messages = pypo.pofile.parsestring(translated(".po", SAMPLES[".po"][0], str.upper).encode())
    assert [unit.isfuzzy() for unit in messages.units if unit.istranslatable()] == [True, True, True, False]


def test_cdata_is_text_of_xliff():
    unit = "<unit id='1'><segment><source><![CDATA[Ja & <b> &uuml; ]]>gut</source></segment></unit>"
    text = f'<xliff version="2.0"><file>{unit}</file></xliff>'
    assert translated(".xlf", text, str.upper) == text.replace("<segment>", '<segment state="translated">').replace(
        "</source>", "</source><target>JA &amp; &lt;B&gt; &amp;uuml; GUT</target>"
    )


def test_xliff_2():
    unit = '<segment><source>Ja <pc id="1">gut</pc></source></segment>'
    text = f'<xliff version="2.0"><file><unit id="1">{unit}</unit></file></xliff>'
    assert translated(".xlf", text, str.upper) == text.replace("<segment>", '<segment state="translated">').replace(
        "</source>", '</source><target>JA <pc id="1">GUT</pc></target>'
    )

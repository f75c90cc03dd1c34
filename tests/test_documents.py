"""Documents of each format: text is translated, and what the format promises stays."""

import json
import random
import re
import textwrap
from itertools import chain, combinations, product
from pathlib import Path
from types import SimpleNamespace

import pytest
import tomlkit
from documents import (
    SAMPLES,
    FakeTranslator,
    check_marked,
    in_capitals,
    sentences_of,
    translated,
    translated_bytes,
)
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from lxml import etree
from packages import files_in, pack
from yaml import safe_load

from nmt.documents.formats import EXTENSIONS, read_document
from nmt.documents.placement import TranslatedSentence, with_units
from nmt.documents.segment import FIRST_UNIT, doubts_of, segments
from nmt.documents.subtitles import seconds
from nmt.documents.translation import ModelTranslator, translate_document
from nmt.errors import UserError

NEEDS_REVIEW = "needs-review-translation"
STREAMS = [".html", ".md", ".srt", ".txt"]
few = settings(max_examples=40)
HTML_PIECES = st.sampled_from(
    "Das ist |gut. |<b>|</b>|<p>|</p>|<br>|<i class='x'>|</i>|&uuml;|&|< |> |<!-- c "
    "-->|<li>|<code>x</code>|\uf2a0|Ü|"
    "<img alt='ein Bild'>|\n  |<pre> a </pre>|<span></span>|https://x.de/?a=1&amp;b |%s |<div "
    "translate=no>|</div>|"
    "<script>1<2</script>|<sup>1</sup>|<textarea>Ja.\n</textarea>|a=b'c ".split("|")
)
MARKDOWN_PIECES = st.sampled_from(
    "Das ist |gut.|*|**|_|`x`|`|[|](u)|](|![ein|> |- |1. |# |\n|\n\n|  \n|\\\n|    "
    "|<b>|</b>|<|&amp;|***|\t|[r]|```\n|"
    "\n\n[r]: u\n|<div>\n|\r\n|$x$|[^1]".split("|")
    + ["|", "| a ", "|---", "| a | b |\n|---|---|\n| eins \\| x | zwei |\n"]
)


def xml_text(data: bytes) -> str:
    return "".join(etree.fromstring(data).itertext())


def tags(text: str) -> list[str]:
    return [tag for tag in re.findall(r"</?[a-z]+[^<>]*>", text) if "alt=" not in tag]


@pytest.mark.parametrize("extension", SAMPLES)
def test_only_text_changes(extension):
    text, upper = SAMPLES[extension]
    assert translated(extension, text, str.upper) == upper
    if extension in (*STREAMS, ".po", ".xlf"):
        assert translated(extension, text.replace("\n", "\r\n"), str.upper) == upper.replace(
            "\n", "\r\n"
        )


@pytest.mark.parametrize("extension", sorted(SAMPLES))
def test_a_byte_order_mark_stays(extension):
    before, after = (("\ufeff" + text).encode() for text in SAMPLES[extension])
    assert translated_bytes(extension, before)[0] == after


@pytest.mark.parametrize("extension", STREAMS)
def test_a_model_without_placeholders_loses_none(extension):
    text, upper = SAMPLES[extension]
    assert tags(translated(extension, text, str.upper, keeps=False)) == tags(upper)


@few
@given(st.lists(HTML_PIECES, max_size=30).map("".join))
def test_any_html_stays_itself_and_loses_no_tag(text):
    assert translated(".html", text) == text
    for change in (str.upper, lambda sentence: "", lambda sentence: f"a b c {sentence[:5]}"):
        for keeps in (True, False):
            assert sorted(tags(translated(".html", text, change, keeps))) == sorted(tags(text))


SPACED_PIECES = (
    "<b></b>|<b>Wort</b>|<br>|<img>|<span></span>|<!-- c -->|Wort|Haus,|geht.|%s|<code>c</code>"
    "|<i><b>gut</b></i>"
)


@few
@given(st.lists(st.sampled_from(SPACED_PIECES.split("|")), min_size=1, max_size=8).map(" ".join))
def test_each_space_between_words_and_tags_stays(text):
    text = f"<p>a {text} z</p>"
    assert translated(".html", text, str.upper).lower() == text.lower()


def test_a_model_without_placeholders_gets_words_apart():
    seen = list[str]()
    text = b"<p>ja,{x}nein und {y} da</p>"
    translated_bytes(".html", text, lambda each: seen.append(each) or each, keeps=False)
    assert seen == ["ja, nein und da"]


@few
@given(st.lists(MARKDOWN_PIECES, max_size=30).map("".join))
def test_any_markdown_stays_itself(text):
    assert translated(".md", text) == text
    translated(".md", text, str.upper)


def test_subtitles_keep_their_cues():
    generator = random.Random(1)
    cues = []
    for number in range(1, 60):
        clock = f"00:{number * 4 // 60 % 60:02}:{number * 4 % 60:02}"
        lines = [
            " ".join(generator.choices(["ich", "gehe", "Haus", "nie.", "ja?", "und"], k=6))
            for _ in range(2)
        ]
        cues.append(f"{number}\n{clock},000 --> {clock},900\n<i>{lines[0]}</i>\n{lines[1]}\n\n")
    text = "".join(cues)
    longer = translated(".srt", text, lambda sentence: f"{sentence} {sentence.upper()}")
    heads = re.compile(r"^\d+\n.*-->.*\n(?=.*\S)", re.MULTILINE)  # a cue with text
    assert heads.findall(longer) == heads.findall(text)
    assert sorted(tags(longer)) == sorted(tags(text))


@pytest.mark.parametrize("changed", ["Eins", "Zwei", "Drei", "none"])
def test_one_changed_sentence_is_enough_for_a_translation(changed):
    """The other sentences of its segment stay; without any, the text keeps its spaces."""
    text = "<p>Eins.  Zwei.  Drei.</p>"
    new = translated(
        ".html", text, lambda sentence: sentence.upper() if changed in sentence else sentence
    )
    if changed == "none":
        assert new == text
    else:
        assert new == "<p>Eins. Zwei. Drei.</p>".replace(changed, changed.upper())


@pytest.mark.parametrize("name", ["", "2\n", "zweiter Teil\n", "a4-1f\n", "NOTE Regie\nnoch\n\n"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r\r\n"])
def test_blank_lines_between_cues_stay(name, end):
    """Whatever the cue is called, in a sentence that spans two cues."""
    text = (
        "WEBVTT\n\n00:00.500 --> 00:01.000\nIch gehe\ndann\n\n"
        f"{name}00:01.500 --> 00:02.000\nnach Hause.\n"
    ).replace("\n", end)
    assert translated(".vtt", text, str.upper).lower() == text.lower()


def test_no_sentence_ends_inside_a_name_or_a_path():
    sentences = ["Das ist java.util.List von Node.JS und ./docs/rad.", "Es ist da."]
    assert sentences_of(".txt", " ".join(sentences)) == sentences


def test_a_sentence_over_two_cues_is_translated_as_one():
    text = (
        "1\n00:00:01,000 --> 00:00:02,000\nIch gehe\n\n2\n00:00:02,000 --> 00:00:03,000\nnach "
        "Hause.\n"
    )
    new = translated(".srt", text, lambda _: "eins zwei drei vier.")
    assert sentences_of(".srt", text) == ["Ich gehe nach Hause."]
    assert new == text.replace("Ich gehe", "eins zwei").replace("nach Hause", "drei vier")


CUES = """1
{}:00,500 --> {}:01,000
{}

2
{}:{:06.3f} --> {}:09,000
{}
"""


@pytest.mark.parametrize(
    ("first", "start", "second", "is_one"),
    [
        ("Ich gehe", 4.0, "nach Haus", True),
        ("Ich gehe", 4.001, "nach Haus", False),  # more than three seconds later
        ("Ich gehe.", 1.0, "Nach Haus", False),
        ("Ich gehe.</i>", 1.0, "Nach Haus", False),
        ('Ich gehe."', 1.0, "Nach Haus", False),
        ("Ich gehe,", 1.0, "nach Haus", True),
        ("Ich gehe", 1.0, "- Nach Haus", False),
        ("Ich gehe", 1.0, "<i>- Nach Haus", False),
        ("Ich gehe", 1.0, "-- nach Haus", True),
        ("- Ich gehe", 1.0, "nach Haus", True),
        ("Ich gehe", 1.0, "ANNA: Nach Haus", False),
        ("Ich gehe", 1.0, "(LACHT) Nach Haus", False),
        ("Ich gehe", 1.0, "[Tür] Nach Haus", False),
        ("Ich gehe", 1.0, "<i>♪ Nach Haus", False),
        ("Ich gehe", 1.0, "# Nach Haus", False),
        ("Ich gehe", 1.0, "(mit ihr) nach Haus", True),
        ("Ich gehe", 1.0, "um 7: nach Haus", True),
    ],
)
@pytest.mark.parametrize("clock", ["59", "00:59", "10:07"])
def test_which_cues_are_one_sentence(clock, first, start, second, is_one):
    text = CUES.format(clock, clock, first, clock, start, clock, second)
    assert len(sentences_of(".srt", text)) == (1 if is_one else 2)


@pytest.mark.parametrize(
    ("cues", "count"),
    [
        (["我们去公园", "天气很好", "走吧"], 3),  # no full stops are written
        (["我们去公园", "天气很好吗？", "走吧"], 3),
        (["我们去公园，", "天气很好", "走吧"], 2),
        (["我们\n去公园", "天气很好"], 2),  # lines of one cue
        (["私たちは公園に", "行きました。", "天気が", "いいですね。」"], 2),
        (["Ich gehe", "nach Haus", "und dann"], 1),
    ],
)
def test_cues_without_full_stops_are_sentences_where_words_have_no_spaces(cues, count):
    text = ""
    for number, cue in enumerate(cues, 1):
        text += f"{number}\n00:00:0{number},000 --> 00:00:0{number},900\n{cue}\n\n"
    [field] = EXTENSIONS[".srt"].read(text.encode()).fields
    assert len(list(segments(field.parts))) == count


def test_the_hours_of_a_cue_count():
    text = CUES.format("00:59", "00:59", "Ich gehe", "01:59", 1.0, "01:59", "nach Haus")
    assert sentences_of(".srt", text) == ["Ich gehe", "nach Haus"]


@given(st.integers(0, 99), st.integers(0, 59), st.integers(0, 59), st.integers(0, 999))
def test_a_time_has_its_seconds_and_their_fraction(hours, minutes, last, thousandths):
    """Of which ASS writes two digits, SRT three and others one."""
    fraction = f"{thousandths:03}"
    for digits in (1, 2, 3):
        wanted = 3600 * hours + 60 * minutes + float(f"{last}.{fraction[:digits]}")
        found = seconds(str(hours), f"{minutes:02}", f"{last:02}", fraction[:digits])
        assert found == pytest.approx(wanted)
    assert seconds(None, "1", "0", "0") == 60


@pytest.mark.parametrize("lines", [12, 13])
def test_a_sentence_has_at_most_twelve_lines(lines):
    text = "1\n00:00:01,000 --> 00:00:02,000\n" + "ein Wort\n" * lines
    assert len(sentences_of(".srt", text)) == (1 if lines == 12 else 2)


LETTERS = st.text("abcdeäß", min_size=1, max_size=8)


@few
@given(
    st.sampled_from(
        [
            (".txt", "", ""),
            (".txt", "  ", "  "),
            (".txt", "- ", "  "),
            (".md", "", ""),
            (".md", "> ", "> "),
            (".md", "1. ", "   "),
            (".adoc", "", ""),
        ]
    ),
    st.lists(LETTERS, min_size=20, max_size=50),
    st.lists(LETTERS, min_size=1, max_size=60),
)
def test_a_full_paragraph_keeps_its_width(format_and_margins, source, target):
    extension, first, others = format_and_margins
    lines = textwrap.wrap(" ".join(source), 50, initial_indent=first, subsequent_indent=others)
    assume(len(lines) > 1)
    width = max(map(len, lines))
    margin = others
    if extension != ".txt":
        # The margin does not count, and is written by the format.
        width -= len(others)
        margin = ""
    new = textwrap.wrap(" ".join(target), width, subsequent_indent=margin)
    wanted = [first + new[0], *(others.removesuffix(margin) + line for line in new[1:])]
    text = "\n".join([*lines, ""])
    assert translated(extension, text) == text
    assert translated(extension, text, lambda _: " ".join(target)) == "\n".join([*wanted, ""])


def test_lines_of_text_join_only_where_they_are_full():
    seen = sentences_of(".txt", SAMPLES[".txt"][0])
    assert {"Er ist umgebrochen worden.", "Anna Meier", "Punkt eins"} <= set(seen)
    full = "Eine Zeile, die mehr als vierzig Zeichen hat und die"
    assert sentences_of(".txt", f"{full}\n{full}\nvoll\nwar\n") == [f"{full} {full} voll", "war"]


def test_cells_between_tabs_are_no_sentence_together():
    text = "\tDer Hund\tDie Katze\t\tEin Vogel\n"
    assert sentences_of(".txt", text) == ["Der Hund", "Die Katze", "Ein Vogel"]
    assert translated(".txt", text, str.upper) == text.upper()


@pytest.mark.parametrize("quote", ["> ", ">> ", "> > ", ">"])
def test_full_lines_of_a_quotation_are_a_paragraph(quote):
    lines = textwrap.wrap("Zeile " * 40, 60, initial_indent=quote, subsequent_indent=quote)
    text = "\n".join([*lines, quote.strip(), f"{quote}Ende"])
    assert sentences_of(".txt", text) == [("Zeile " * 40).strip(), "Ende"]
    assert translated(".txt", text, str.upper) == text.upper()


def test_a_line_below_a_heading_is_no_text():
    lines = ["Das ist eine Überschrift, die sehr lang ist", "=" * 43, "Das ist ein Text."]
    assert sentences_of(".txt", "\n".join(lines)) == lines[::2]


@few
@given(st.lists(st.integers(1, 90), min_size=3, max_size=12))
def test_lines_of_all_lengths_are_no_paragraph(lengths):
    """As a sentence on each line; Chinese text has no spaces."""
    assume(len(set(lengths)) == len(lengths))
    for word, end in (("Zeile ", "Ende"), ("行", "了")):
        lines = [word * length + end for length in lengths]
        assert sentences_of(".txt", "\n".join(lines)) == lines


@pytest.mark.parametrize("separator", [" ", ""])
def test_full_lines_are_a_paragraph(separator):
    """Chinese lines may end after each character."""
    words = ["Zeile"] * 60 if separator else ["行"] * 130
    lines = textwrap.wrap(separator.join(words), 60)
    assert len(lines) > 2
    (found,) = sentences_of(".txt", "\n".join(lines))
    assert "".join(found.split()) == "".join(words)


@pytest.mark.parametrize(
    ("extension", "marked"),
    [  # what must not be translated is byte for byte as it was, and the rest is translated
        (".md", "«Siehe» https://a.example/ein_weg_b.html, «ja».\n"),
        (".md", "«Also» $x_1 * y_2$ «und» $5.\n"),
        (".md", "| «a» |\n|---|\n| «eins» \\| «zwei» |\n"),
        (".md", "[![«Logo»](l.svg)](u) ![«Rad»](r.svg) «gut»\n"),
        (".md", "[![«Logo»](l.svg)](u) [![«Rad»](r.svg)](v)\n"),
        (".md", "«Brot»[^note] «und Käse».[^2]\n"),
        (".html", "<p>«Brot»<sup>2</sup> «und» H<sub>2</sub>O</p>"),
        (".html", "<p>O<sub>3</sub>-«Loch», 4<sup>th</sup></p>"),
        (".html", "<p>«so» <svg><text>«a»</text></svg> «da»</p>"),
        (".md", "«nun» \\$5 «und» $6\n"),
        (".md", "## «ja» {#ja}\n\n# «so» {.so}\n"),
        (".md", "- «ja»\n\n\t«ein Rad»\n\n1. «so»\n\n\t«da»\n"),
        (".html", "<p>«ein» <ruby>«Rad»<rp>(</rp><rt>weg</rt><rp>)</rp></ruby> «so»</p>"),
        (".html", "<title>«Mein Laden» <?= $a > 1 ?></title>"),
        (".html", "<title>{% if n > 1 %}«Viele Angebote»{% endif %}</title>"),
        (".html", '<img alt="«Bild von» <%= user > 1 %> &amp; «so»">'),
        (".html", "<p>«Hallo» %%vor_name%% «und» @@ort@@, «ja».</p>"),
        (".md", "«Siehe» \\ref{abb-1} «und» \\cite[1]{a}, «ja». ^ab-1\n"),
        (".md", "| «ein Rad»\n| «ist da»\n\n«so»\n"),
        (".txt", "> «Rad»\n>> «Weg»\n>\n> - «so»\n\n«da»\n"),
        (".adoc", "[quote, Platon]\n«Ein Rad ist da.»\n"),
        (".adoc", 'link:a.html[«hier»,window=_blank,role="b c"] image:a.png[«Rad»,100,20%]\n'),
        (".adoc", "https://a.example[«hier»^] xref:a.adoc[«das Rad, ein Weg»]\n"),
        (".adoc", "[source]\n--\nein Rad\n\nein Weg\n--\n\n«ja»\n"),
        (".html", "<p>10<sup>6</sup> «mehr»<a href=#f>[3]</a>.</p>"),
        (".html", "<textarea>«Ja».\n«So».</textarea><button>X</button>"),
        (".html", '<input type=reset value="«ja»"><input value="x">'),
        (".html", "<p>«eins»<br title='«zwei»'>«drei»</p>"),
        (".html", "<option>«eins»<option>«zwei»"),
        (".txt", "\n\n«ja»\n\n"),
        (".adoc", "«ja»\n\n* \n* «so»\n\n. \n\n== \n\n///x\n"),
        (".yaml", "a:\n-\n  b: «ja»\n- b: «so»\n"),
        (".yaml", "\ufeffa: «ein Rad»\na: «so»\n---\nb: !!binary R0lG\n"),
        (".yaml", "a: &x «ein Rad»\nb: *x\nc: &y {d: «so»}\ne:\n  <<: *y\n  f: «ja»\n"),
        (".yaml", "a: |+\n  «ein Rad»\n\n\nb: >-\n  «so»\n\n# x\nc: |2-\n    «ja»\n  «da»\n"),
        (".yaml", "a: .nan\nb: 1e400\nc: 12345678901234567890\nd: 0x1F\ne: «ein Rad»\n"),
        (".json", '\ufeff{\n\t"a": "«ein Rad»",\n\t"a": "«so»"}'),
        (".json", '{"a": NaN, "b": -Infinity, "c": 1e400, "d": 12345678901234567890, "e": "«ja»"}'),
        (".json", '{"a": "\\ud800 so", "\\ud800": "«ja»", "b": -0.0, "c": 1.10}'),
        # Patterns that could need exponential time.
        (".html", f"<li><a href=u>{'2023-01-02 ' * 9}«ja»</a></li>"),
        (".html", '<meta http-equiv=a content="text/html; charset=UTF-8;">«ja»'),
        (".html", '<meta name=robots content="charset=latin1">«ja»'),
        (".vtt", "WEBVTT\r\n\r\n00:01.000 --> 00:02.000\r\n«ja»\r\n\r\nNOTE so\r\n"),
    ],
)
def test_what_is_no_text_stays(extension, marked):
    check_marked(extension, marked)


@pytest.mark.parametrize(
    ("extension", "text", "wanted"),
    [
        (".html", "<p title=it's>ja</p>", '<p title="IT\'S">JA</p>'),
        (".html", "<p>ein  sehr\n <i>&uuml;ber</i> 1 < 2", "<p>EIN SEHR <i>ÜBER</i> 1 &lt; 2"),
        (
            ".md",
            "Ja *kursiv\nüber* [r] an_b.  \nNeu\n\n[r]: u\n",
            "JA *KURSIV ÜBER* [R][r] AN_B.  \nNEU\n\n[r]: u\n",
        ),
        (".md", "> Ein Zitat, das\n> weitergeht.\n", "> EIN ZITAT, DAS WEITERGEHT.\n"),
        (
            ".html",
            "<p title='<b>das</b> Rad'>ja</p>",
            "<p title='&lt;B&gt;DAS&lt;/B&gt; RAD'>JA</p>",
        ),
        (".md", "[^1]: ein\n    Rad\n[^2]: so\n", "[^1]: EIN RAD\n[^2]: SO\n"),
        (".md", "- ein\n\tRad\n\n1. so\n\tda\n", "- EIN RAD\n\n1. SO DA\n"),
        (".md", "ein ***sehr* gutes** 2*Rad\n", "EIN ***SEHR* GUTES** 2\\*RAD\n"),
        (
            ".md",
            "[ja] ![so][r] [da][]\n\n[da]: u\n[r]: v\n",
            "[JA] ![SO][r] [DA][da]\n\n[da]: u\n[r]: v\n",
        ),
        (
            ".md",
            "![ja] ![so][] [da][]{.x} [da][ja]\n\n[da]: u\n[ja]: v\n[so]: w\n",
            "![JA][ja] ![SO][so] [DA][da]{.x} [DA][ja]\n\n[da]: u\n[ja]: v\n[so]: w\n",
        ),
        # emphasis that nothing closes is text, also before tags and inside of other emphasis
        (".md", "***Rad <b>so</b> da\n", "\\*\\*\\*RAD <b>SO</b> DA\n"),
        (".md", "**ein _Rad** <b>so</b> da\n", "**EIN \\_RAD** <b>SO</b> DA\n"),
        (".md", "_ein ***Rad_ <b>so</b> da\n", "_EIN \\*\\*\\*RAD_ <b>SO</b> DA\n"),
        (".md", "Pfad C:\\neu\\2 \\- ja\n", "PFAD C:\\NEU\\2 - JA\n"),
        (".html", "<p>ein<a href=u> </a>Rad<b> </b>da", "<p>EIN <a href=u></a>RAD <b></b>DA"),
        # an element without a text inside of a word
        (".html", "<p>ein R<a id='a'></a>ad</p>", "<p>EIN <a id='a'></a>RAD</p>"),
        # labels that the document does not define
        (".md", "so $a['x']['y']['z']\n", "SO $a\\['X'\\]\\['Y'\\]['Z']\n"),
        (".md", "ein Wert[bei][zwei] [so][da]\n", "EIN WERT\\[BEI\\][ZWEI] [SO][da]\n"),
        (
            ".mdx",
            "<A title={\"ein Rad\"} alt={`so` + a} label='da'>ja</A>\n",
            "<A title={\"ein Rad\"} alt={`so` + a} label='DA'>JA</A>\n",
        ),
        (
            ".mdx",
            "| a |\n|---|\n| ein \\{Rad\\} \\< so |\n",
            "| A |\n|---|\n| EIN \\{RAD\\} &lt; SO |\n",
        ),
    ],
)
def test_what_a_format_writes_in_another_way(extension, text, wanted):
    assert translated(extension, text) == text
    assert translated(extension, text, str.upper) == wanted


@pytest.mark.parametrize(
    ("marked", "left"),
    [
        (
            '{"a": {"message": "«ein» $R$", "description": "so", "placeholders": {"r": {"content": '
            '"$1", "example": "da"}}}}',
            3,
        ),
        ('{"message": "«ja»", "description": "so"}', 1),
        ('{"message": "«ja»", "description": "«so»", "title": "«da»"}', 0),
        ('{"@a": {"description": "so"}, "a": "«ja»"}', 1),
    ],
)
def test_what_json_says_about_a_message_is_no_text(marked, left):
    assert check_marked(".json", marked)["comments"] == left


def test_doubled_apostrophes_of_icu_are_one():
    """In a text without an argument they are two."""
    text = "[\"Annas'' Rad, {n}\", \"das '' Rad\"]"
    with_argument, without = sentences_of(".json", text)
    assert with_argument.startswith("Annas' Rad") and without == "das '' Rad"
    assert translated(".json", text, str.upper) == "[\"ANNAS'' RAD, {n}\", \"DAS '' RAD\"]"


def test_the_code_of_the_language_is_no_text():
    data, counts = translated_bytes(".json", b'{"lang": "de", "a": "Ja", "b": "er"}')
    assert data == (b'{"lang": "de", "a": "JA", "b": "ER"}') and counts == {
        "translated": 2,
        "without words": 1,
    }


def test_markup_characters_are_escaped():
    assert translated(".html", "<p>gut</p>", lambda _: "a < b & c") == "<p>a &lt; b &amp; c</p>"
    assert (
        translated(".md", "gut\n", lambda _: "# a *b* [c](d) `e` <f>")
        == "\\# a \\*b\\* \\[c\\](d) \\`e\\` &lt;f>\n"
    )
    assert (
        translated(".html", '<img alt="gut">', lambda _: 'a "b" & c')
        == '<img alt="a &quot;b&quot; &amp; c">'
    )
    assert (
        translated(".md", "---\ntitle: gut\n---\n", lambda _: "a: b") == '---\ntitle: "a: b"\n---\n'
    )
    vtt = "WEBVTT\n\n00:01.000 --> 00:02.000\n{}\n"
    assert translated(".vtt", vtt.format("<b>gut</b>"), lambda _: "a < b & c") == vtt.format(
        "<b>a &lt; b &amp; c</b>"
    )
    assert sentences_of(".vtt", vtt.format("Rad &amp; Weg &lt; 3")) == ["Rad & Weg < 3"]
    assert translated(".json", '["gut"]', lambda _: 'a "b" \\') == '["a \\"b\\" \\\\"]'


@pytest.mark.parametrize(
    ("text", "translation", "wanted"),
    [
        ("gut\n", "*so* C# 5*3", "&#42;so&#42; C# 5*3\n"),
        ("gut `so`\n", "C++ und C++", "C&#43;&#43; und C&#43;&#43;"),
        ("gut\n", "<<x>> ((y)) {z} link:a[b]", "&#60;<x>> &#40;(y)) &#123;z} link:a&#91;b]\n"),
        ("gut\n", "a:: &lt; b +", "a&#58;&#58; &#38;lt; b &#43;\n"),
        ("gut\n", "NOTE: so", "{empty}NOTE: so\n"),
        ("gut:: da\n", "so:", "so&#58;:: so:\n"),
        ("image::a.png[gut]\n", "a, b=c]", "image::a.png[a&#44; b&#61;c&#93;]\n"),
        ("https://x.de[gut]\n", "b=c] d", "https://x.de[b&#61;c&#93; d]\n"),
        # what the source escapes
        ("ein \\<<gut>>\n", "so \\ \uf2a0\uf2a1", "so &#92; \\<<gut>>\n"),
    ],
)
def test_what_would_be_markup_of_asciidoc_is_written_by_numbers(text, translation, wanted):
    assert translated(".adoc", text, lambda _: translation).startswith(wanted)


def test_a_line_does_not_end_in_what_a_space_is_a_part_of():
    """An expression of MDX, and a line break of AsciiDoc."""
    words = "wort " * 8
    expression = f"{words}{{' '}} so\n{words}wort\n"
    for count in range(8):
        new = translated(".mdx", expression, lambda text, count=count: "x" * count + text.upper())
        assert "{' '}" in new
        line_break = f"{words}wort\n{words[5:]}wort +\n{words}wort\n"
        new = translated(".adoc", line_break, lambda text, count=count: "x" * count + text.upper())
        assert " +\n" in new and "\n+" not in new and "{empty}" not in new


class FakeModel:
    """Gives each sentence the same translation."""

    tokenizers = SimpleNamespace(protects=True)

    def __init__(self, text: str) -> None:
        self.text = text

    def translate_chunk(self, sentences, first):
        return [
            SimpleNamespace(text=self.text, changed_spans=[], is_copied=False) for _ in sentences
        ]

    def with_records(self, translations):
        return iter(())


@pytest.mark.parametrize(
    ("sentence", "translation", "wanted"),
    [
        ("Ein Titel", "A title.", "A title"),
        ("Punkt 5", "Point 5.", "Point 5"),
        ("नमस्ते", "नमस्कार।", "नमस्कार"),
        ("Ein Titel", "标题。", "标题"),
        ("Ein Titel", "A title", "A title"),
        ("Und dann", "And then...", "And then..."),
        ("Und dann", "And then…", "And then…"),
        ("Ein Satz.", "A sentence.", "A sentence."),
        ("Warum?", "Why.", "Why."),
    ],
)
def test_a_heading_gets_no_period(sentence, translation, wanted):
    translator = ModelTranslator(FakeModel(translation), None)
    [found] = translator.translate([sentence], [False])
    assert found.text == wanted


JUDGED = [(None, None), ([], None), (["a"], None), ([], []), (["b"], ["x"])]


def test_what_is_said_of_a_text_is_said_of_all_its_parts_or_not_at_all():
    """Unsure words where each part was judged, and faults where each was estimated."""
    for texts in product(JUDGED, repeat=3):
        wanted = []
        for of_parts in zip(*texts, strict=True):
            is_known = None not in of_parts
            wanted.append(list(chain.from_iterable(of_parts)) if is_known else None)
        parts = [SimpleNamespace(unsure=words, faults=reasons) for words, reasons in texts]
        assert doubts_of(parts) == tuple(wanted)


PLURAL = (
    'msgid "ein Rad"\nmsgid_plural "%d Räder"\nmsgstr[0] "{}"\nmsgstr[1] ""\n\nmsgid '
    '"da"\nmsgstr "{}"\n'
)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_message_without_a_new_translation_keeps_its_bytes(mark, newline):
    """Also what translate-toolkit writes in another way: spaces, lines, the order of comments."""
    if not hasattr(pytest.importorskip("translate.storage.base").TranslationUnit, "line_number"):
        pytest.skip("needs translate-toolkit 3.18")
    kept = [
        '#  Kopf\n#: a.c:1\nmsgid   "da"\nmsgstr  "there"\n',
        'msgid ""\n"das "\n"Rad"\nmsgstr "the wheel"\n\n\n',
        '#~ msgid  "weg"\n#~ msgstr "gone"\n#  Ende',
    ]
    header = 'msgid   ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n'
    new = 'msgid "ja"\nmsgstr ""\n'
    text = mark + "\n".join([header, kept[0], new, *kept[1:]])
    wanted = text.replace(new, '#, fuzzy\nmsgid "ja"\nmsgstr "JA"\n')
    data = text.replace("\n", newline).encode()
    assert translated_bytes(".po", data)[0].decode() == wanted.replace("\n", newline)


@pytest.mark.parametrize("windows", [[0], [1], [2], [0, 1], [0, 2], [1, 2]])
def test_messages_of_gettext_keep_line_ends_of_two_kinds(windows):
    """Each message its own, as where another program has added some."""
    if not hasattr(pytest.importorskip("translate.storage.base").TranslationUnit, "line_number"):
        pytest.skip("needs translate-toolkit 3.18")
    messages = ['msgid ""\nmsgstr "Language: en\\n"\n\n']
    for word in ("das Haus", "der Weg"):
        messages.append(f'#, fuzzy\nmsgid ""\n"{word}\\n"\n"ist da"\nmsgstr "old"\n\n')
    for index in windows:
        messages[index] = messages[index].replace("\n", "\r\n")
    text = "".join(messages)
    new = translated(".po", text, str.upper)
    assert translated(".po", text) == text
    texts = ("DAS HAUS", "DER WEG")
    for index, (message, upper) in enumerate(zip(messages[1:], texts, strict=True), start=1):
        end = "\r\n" if index in windows else "\n"
        target = f'msgstr ""{end}"{upper}\\n"{end}"IST DA"'
        messages[index] = message.replace('msgstr "old"', target)
    assert new == "".join(messages)


TEXTS = [  # a document with a text, and where a program finds it
    (".json", '{"a": "%s"}', lambda data: json.loads(data)["a"]),
    (".json", '{"a": "%s", "b": "\\u00fc"}', lambda data: json.loads(data)["a"]),
    (".yaml", "a: %s\n", lambda data: safe_load(data)["a"]),
    (".yaml", "a: '%s'\n", lambda data: safe_load(data)["a"]),
    (".yaml", "a: |\n  %s\n", lambda data: safe_load(data)["a"][:-1]),
    (".md", "---\ntitle: %s\n---\n", lambda data: safe_load(data.decode()[4:-5])["title"]),
    (".toml", "a = '%s'\n", lambda data: tomlkit.parse(data)["a"]),
    (".properties", "b=Ü\na=%s\n", lambda data: data.decode().rpartition("=")[2][:-1]),
    (".properties", "a=%s\n", lambda data: json.loads(f'"{data.decode()[2:-1]}"')),
    (".resx", '<root><data name="a"><value>%s</value></data></root>', xml_text),
    (".xml", '<resources><string name="a">%s</string></resources>', xml_text),
    (".po", 'msgid "%s"\nmsgstr ""\n', lambda data: data.decode().split('"')[-2]),
    (".adoc", "%s\n", lambda data: data.decode()[:-1]),
    (".csv", "source,target\n%s,\n", lambda data: data.decode().rpartition(",")[2][:-1]),
]


@pytest.mark.parametrize("separator", ["\u2028", "\u2029"])
@pytest.mark.parametrize(("extension", "text", "find"), TEXTS)
def test_separators_of_lines_stay_in_a_text(extension, text, find, separator):
    data, _ = translated_bytes(extension, (text % "Rad").encode(), lambda _: f"ein{separator}Rad")
    assert find(data) == f"ein{separator}Rad"
    try:
        data, _ = translated_bytes(extension, (text % f"ein{separator}Rad").encode())
    except UserError as error:
        assert extension == ".yaml" and "line 1" in str(error).replace("line 2", "line 1")
    else:
        assert find(data) == f"EIN{separator}RAD"


def test_forms_of_a_plural_are_filled_one_by_one():
    data, counts = translated_bytes(".po", PLURAL.format("one wheel", "there").encode())
    assert 'msgstr[0] "one wheel"\nmsgstr[1] "%d RÄDER"\n' in data.decode()
    assert counts == {"translated": 1, "already translated": 2}
    again, counts = translated_bytes(
        ".po", PLURAL.format("one wheel", "there").encode(), retranslate=True
    )
    assert (
        'msgstr[0] "EIN RAD"' in again.decode()
        and 'msgstr "DA"' in again.decode()
        and counts == {"translated": 3}
    )


ICU = "{n, plural, =0 {kein Rad} one {# Rad von {wer}} other {# Räder}}"


def test_plurals_of_xcode():
    """Its units have a text with names of variables, the forms, and the types of the numbers."""
    unit = '<trans-unit id="/r/{}:dict/:string"><source>{}</source></trans-unit>'
    units = [("LocalizedFormatKey", "Es sind %#@rad@ da."), ("one", "%d Rad")]
    units += [("FormatSpecTypeKey", "NSStringPluralRuleType"), ("FormatValueTypeKey", "lu")]
    body = "".join(unit.format(f"NSString{name}", text) for name, text in units)
    data, counts = translated_bytes(".xlf", f"<xliff><file>{body}</file></xliff>".encode())
    found = re.findall("<target.*?>(.*?)</target>", data.decode())
    assert found == ["ES SIND %#@rad@ DA.", "%d RAD"]
    assert counts == {"translated": 2, "marked as no text": 2}


def test_branches_of_a_message_are_translated_one_by_one():
    upper = "{n, plural, =0 {KEIN RAD} one {# RAD VON {wer}} other {# RÄDER}}"
    assert translated(".json", f'{{"a": "Hier: {ICU}"}}', str.upper) == f'{{"a": "HIER: {upper}"}}'
    nested = f"{{g, select, a {{er hat {ICU}}} other {{sie}}}}"
    assert upper in translated(".json", f'["{nested}"]', str.upper)
    # a broken one
    assert "{n, plural," in translated(".json", '["{n, plural, one {Rad"]', str.upper)


BRANCHED = [
    "{n, plural, =0{«kein Rad»} other{{n} «Räder»}}",
    "{n, plural, one {«ein Rad»} other {{{n}} «Räder»}}",
    "{g, select, a {«er kommt»} other {{n, plural, one {«eins»} other {«viele»}}}}",
    "{n, plural, one {<b>«ein»</b> «Rad»} other {<b>{n}</b> «Räder»<br/>«da»}} <i>«im Hof»</i>.",
    "{n, plural,\n  one {«ein Rad»}\n  other {{n} «Räder»}\n}",
    "{0,choice,0#«kein Rad»|1#«ein Rad»|1<{0,number,integer} «Räder»} «im Hof»",
    "{{name}} «hat» {n, plural, other {{n} «Räder»}}",
    "{{PLURAL:$1|«ein Rad»|3=«drei»|$1 [[a|b]] «Räder»}} «und» <b>{{GENDER:$2|«er»|«sie»}}</b>",
    "«Das» '{'«Rad»'}' «ist» {n, plural, other {'{' «und» '{x}'}}",
]
XLIFF_UNIT = (
    '<xliff version="1.2"><file source-language="de" target-language="en" original="a"><body>'
    '<trans-unit id="1"><source>{}</source></trans-unit></body></file></xliff>'
)


@pytest.mark.parametrize("marked", BRANCHED)
def test_tags_braces_and_lines_do_not_divide_a_message(marked):
    """All words of its branches are translated, and its syntax stays."""
    escaped = marked.replace("\n", "\\n")
    check_marked(".json", f'["{escaped}"]')
    check_marked(".properties", f"a={escaped}\n")


@pytest.mark.parametrize("marked", [text for text in BRANCHED if "choice" not in text])
def test_elements_of_xliff_do_not_divide_a_message(marked):
    for name in ("b", "i"):
        marked = marked.replace(f"<{name}>", f'<g id="{name}">').replace(f"</{name}>", "</g>")
    marked = marked.replace("<br/>", '<x id="br"/>')
    source = re.sub("[«»]", "", marked)
    new, _ = translated_bytes(".xlf", XLIFF_UNIT.format(source).encode())
    assert f">{in_capitals(marked)}</target>" in new.decode()


@given(st.lists(st.tuples(*[st.sampled_from(["a", "b", "a b", "ab"])] * 3), min_size=2))
def test_each_cell_of_a_markdown_table_is_translated_in_its_place(rows):
    """Also where two cells of a row have the same text, or one is in the other."""
    lines = [f"| {' | '.join(cells)} |" for cells in rows]
    lines.insert(1, "| - | - | - |")
    text = "\n".join(lines) + "\n"
    assert translated_bytes(".md", text.encode())[0].decode() == text.upper()


@pytest.mark.parametrize("added", ["", "'''", '"""', "\\n", "\\"])
@pytest.mark.parametrize("quotes", ["'", '"', "'''", '"""'])
def test_a_text_of_toml_keeps_its_lines_whatever_is_translated_into_it(quotes, added):
    """Other quotation marks are taken only where these cannot hold the translation."""
    tomlkit = pytest.importorskip("tomlkit")
    lines = ["Ein Hund", "ist da"] if len(quotes) > 1 else ["Ein Hund"]
    before = "\n" if len(quotes) > 1 else ""
    text = f"a = {quotes}{before}{chr(10).join(lines)}{quotes}\n"
    data, _ = translated_bytes(".toml", text.encode(), lambda line: line.upper() + added)
    wanted = "\n".join(line.upper() + added for line in lines)
    assert tomlkit.parse(data.decode())["a"] == wanted
    assert data.count(b"\n") == text.count("\n")
    if not added:
        assert data.decode() == text.replace("\n".join(lines), wanted)


@pytest.mark.parametrize(
    ("extension", "text"),
    [
        (
            ".xlf",
            '<xliff version="1.2"><file source-language="de" target-language="en" original="a">'
            '<body><trans-unit id="1"><source><g id="1"></g>Ein Hund</source></trans-unit></body>'
            "</file></xliff>",
        ),
        (".xml", '<resources><string name="a"><b></b>Ein Hund</string></resources>'),
    ],
)
def test_text_behind_an_empty_element_is_translated(extension, text):
    data, counts = translated_bytes(extension, text.encode())
    assert b"EIN HUND" in data and counts["translated"] == 1


SEGMENTED = """<xliff version="1.2"><file source-language="de" target-language="en"><body>
<trans-unit id="1"><source>Ja. Nein <g id="1">so</g>.</source><seg-source><mrk mtype="seg" mid="a">Ja.</mrk>
<mrk mtype="seg" mid="b">Nein <g id="1">so</g>.</mrk></seg-source>{}</trans-unit>
</body></file></xliff>"""  # noqa: E501


@pytest.mark.parametrize(
    "target",
    ["", '<target><mrk mtype="seg" mid="a">Yes.</mrk> <mrk mtype="seg" mid="b"/></target>'],
)
def test_segments_of_a_tool_are_translated_one_by_one(target):
    data, counts = translated_bytes(".xlf", SEGMENTED.format(target).encode())
    new = data.decode().partition("<target")[2]
    assert f'mid="a">{"Yes." if target else "JA."}</mrk>' in new
    assert 'mid="b">NEIN <g id="1">SO</g>.</mrk>' in new
    assert counts["translated"] == (1 if target else 2) and counts["already translated"] == bool(
        target
    )


@pytest.mark.parametrize("numbers", [("1", "2", "3"), ("1", "1", "1"), (None, None, None)])
@pytest.mark.parametrize("there", [set(each) for n in range(3) for each in combinations("abc", n)])
def test_segments_that_a_target_lacks_come_to_their_places(there, numbers):
    """Those that it has stay. Segments may have one number, or none; then their order counts."""
    named = numbers[0] != numbers[1]
    there = there if named else set(sorted("abc")[: len(there)])

    def segment(index: int, text: str) -> str:
        number = f' mid="{numbers[index]}"' if numbers[index] else ""
        return f'<mrk mtype="seg"{number}>{text}</mrk>'

    sources = [segment(index, f"Rad {name}") for index, name in enumerate("abc")]
    targets = [segment(index, f"wheel {n}") for index, n in enumerate("abc") if n in there]
    old = f"<target>{' '.join(targets)}</target>" if there else ""
    text = XLIFF_UNIT.format(f"Rad</source><seg-source>{' '.join(sources)}</seg-source>{old}<!--")
    text = text.replace("<!--</source>", "")
    data, counts = translated_bytes(".xlf", text.encode())
    found = etree.fromstring(data).find(".//target")
    wanted = [f"wheel {name}" if name in there else f"RAD {name.upper()}" for name in "abc"]
    assert "".join(found.itertext()) == " ".join(wanted)
    assert len(found) == 3 and counts["translated"] == 3 - len(there)


def test_a_unit_with_a_new_translation_is_no_longer_approved():
    text = XLIFF_UNIT.format("Rad").replace('id="1"', 'id="1" approved="yes"')
    assert b'approved="no"' in translated_bytes(".xlf", text.encode())[0]


@pytest.mark.parametrize("approved", ["", "yes"])
@pytest.mark.parametrize(
    ("target", "is_done"),
    [
        ("<target>Yes. No so.</target>", True),
        ('<target state="final">Yes. No so.</target>', True),
        ('<target state="new">Yes. No so.</target>', False),
        ("<target>Ja. Nein so.</target>", False),
        ("<target/>", False),
        ("", False),
    ],
)
@pytest.mark.parametrize("retranslate", [False, True])
def test_segments_do_not_stand_behind_a_target_without_them(target, approved, is_done, retranslate):
    """The target stays or is replaced, as one."""
    text = SEGMENTED.format(target).replace('id="1">', f'id="1" approved="{approved}">', 1)
    is_done |= bool(approved) and ">" in target.removesuffix("</target>").removesuffix("<target/>")
    data, _ = translated_bytes(".xlf", text.encode(), retranslate=retranslate)
    if is_done and not retranslate:
        assert data == text.encode()
        return
    found = etree.fromstring(data).find(".//target")
    assert "".join(found.itertext()).split() == ["JA.", "NEIN", "SO."]
    assert [each.get("mid") for each in found.iter("mrk")] == ["a", "b"]


def test_a_target_with_segments_is_a_translation_of_a_source_without():
    target = '<target><mrk mtype="seg" mid="a">Yes.</mrk> No so.</target>'
    before, _, after = SEGMENTED.partition("<seg-source>")
    text = (before + after.partition("</seg-source>")[2]).format(target)
    assert translated_bytes(".xlf", text.encode()) == (text.encode(), {"already translated": 1})


def test_xliff_2_and_its_states():
    unit = '<segment><source>Ja <pc id="1">gut</pc><![CDATA[ & b < c]]></source></segment>'
    text = f'<xliff version="2.0"><file><unit id="1">{unit}</unit></file></xliff>'
    new = translated(".xlf", text, str.upper)
    assert (
        '<segment state="translated">' in new
        and ('<target>JA <pc id="1">GUT</pc> &amp; B &lt; C</target>') in new
    )
    assert ">There<" in translated(".xlf", SAMPLES[".xlf"][0], str.upper)
    again = translated_bytes(".xlf", SAMPLES[".xlf"][0].encode(), retranslate=True)[0]
    assert b">There<" not in again and b">DA</target>" in again


def test_a_field_of_word_keeps_its_order():
    """Its beginning, its instruction and its end may not change places, whatever the translation
    is."""
    run = "<w:r>{}</w:r>".format
    marks = [
        '<w:fldChar w:fldCharType="begin"/>',
        "<w:instrText>PAGE</w:instrText>",
        '<w:fldChar w:fldCharType="end"/>',
    ]
    inside = [marks[0], marks[1], "<w:t>drei vier fünf</w:t>", marks[2]]
    text = "".join(map(run, ["<w:t>Seite </w:t>", *inside, "<w:t> von hier</w:t>"]))
    document = f'<w:d xmlns:w="http://schemas.example/wordprocessingml"><w:p>{text}</w:p></w:d>'

    def change(sentence: str) -> str:
        return " ".join(reversed(sentence.split()))

    read = EXTENSIONS[".docx"].read(pack({"word/document.xml": document}))
    translate_document(read, "de", FakeTranslator(change, backwards=True))
    new = files_in(read.write())["word/document.xml"]
    places = [new.index(mark) for mark in marks]
    assert places == sorted(places) and "hier" in new and new.count("<w:instrText>") == 1


@pytest.mark.parametrize(
    ("extension", "text", "new", "wanted"),
    [
        # The way in which a file writes its apostrophes
        (".properties", "a=l''ami\n", "l'eau", "a=l''eau\n"),
        (".properties", "a=l'ami\n", "l'eau", "a=l'eau\n"),
        (".properties", "a=ami {0}\n", "l'eau {0}", "a=l''eau {0}\n"),
        # What would end a value between brackets, and nowhere else
        (".yaml", "a: [Haus, 1]\n", "one, two", "a: ['one, two', 1]\n"),
        (".yaml", "a: {b: Haus}\n", "one} two", "a: {b: 'one} two'}\n"),
        (".yaml", "a: Haus\n", "one, two", "a: one, two\n"),
        # A unit that the model has copied twice
        (".html", "<p>Das <code>x</code> geht.</p>", "A {0} b {0}.", "<p>A <code>x</code> b .</p>"),
    ],
)
def test_a_translation_is_written_as_its_place_needs(extension, text, new, wanted):
    unit = chr(FIRST_UNIT)
    assert translated(extension, text, lambda sentence: new.replace("{0}", unit)) == wanted


@pytest.mark.parametrize(
    ("source", "translation", "wanted"),
    [
        ("See {}.", "{}siehe", "{} siehe"),
        ("See {}.", "Siehe {}.", "Siehe {}."),
        ("See {}.", "Siehe{}.", "Siehe {}."),
        ("{}'s dog", "{}s Hund", "{}s Hund"),
    ],
)
def test_no_word_is_joined_to_the_end_of_a_link(source, translation, wanted):
    source, translation, wanted = (
        text.format(chr(FIRST_UNIT)) for text in (source, translation, wanted)
    )
    assert with_units(source, TranslatedSentence(translation))[0] == wanted


def test_unsure_words_are_named_in_comments():
    """Those of all forms of a plural in one comment, in place of an earlier one; a translator's own
    stays."""
    text = (
        '# Kopf\nmsgid "ein Haus"\nmsgid_plural "%d Häuser da"\nmsgstr[0] ""\nmsgstr[1] '
        '""\n\nmsgid "ja"\nmsgstr ""\n'
    )
    first, counts = translated_bytes(".po", text.encode(), unsure={"HAUS", "HÄUSER", "DA"})
    assert (
        first.decode().startswith("# Kopf\n# Unsure: HAUS, HÄUSER, DA\n#, fuzzy\n")
        and first.count(b"# ") == 2
    )
    assert counts == {"translated": 3, "unsure": 2}
    again, _ = translated_bytes(".po", first, unsure={"DA"}, retranslate=True)
    assert again.decode().startswith("# Kopf\n# Unsure: DA\n#, fuzzy\n")
    assert translated_bytes(".po", first, unsure=set(), retranslate=True)[0].startswith(
        b"# Kopf\n#, fuzzy\n"
    )
    text = (
        '<TS version="2.1"><context><name>x</name><message><source>ja da</source><translation '
        'type="unfinished"/>'
    )
    data, _ = translated_bytes(".ts", f"{text}</message></context></TS>".encode(), unsure={"DA"})
    assert b"<translatorcomment>Unsure: DA</translatorcomment>" in data


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_each_line_of_a_comment_is_one_in_any_file(end):
    """Words and faults are two lines, below those of a translator; older ones go."""
    text = '# Kopf\n#\n# Review: alt\n# Unsure: alt\nmsgid "ein Haus"\nmsgstr ""\n'
    document = read_document(Path("a.po"), text.replace("\n", end).encode())
    [segment] = segments(document.fields[0].parts)
    segment.translation = "a house"
    segment.unsure = ["house"]
    segment.faults = ["a fault"]
    lines = ["# Kopf", "#", "# Review: a fault", "# Unsure: house", "#, fuzzy"]
    lines += ['msgid "ein Haus"', 'msgstr "a house"', ""]
    assert document.write().decode() == end.join(lines)


def document_stating(extension: str, source: str, target: str) -> bytes:
    """A document with a message, and with the languages that are not ""."""

    def attributes(of_source: str, of_target: str) -> str:
        stated = ((of_source, source), (of_target, target))
        return " ".join(f'{name}="{code}"' for name, code in stated if code)

    unit = "<source>das Rad</source>"
    return {
        ".po": f'msgid ""\nmsgstr "Language: {target}\\n"\n\nmsgid "das Rad"\nmsgstr ""\n',
        ".ts": f"<TS {attributes('sourcelanguage', 'language')}><context><name>x</name>"
        f"<message>{unit}</message></context></TS>",
        ".xlf": f'<xliff version="1.2"><file {attributes("source-language", "target-language")}>'
        f'<body><trans-unit id="a">{unit}</trans-unit></body></file></xliff>',
        ".xliff": f'<xliff version="2.0" {attributes("srcLang", "trgLang")}><file id="f">'
        f'<unit id="a"><segment>{unit}</segment></unit></file></xliff>',
    }[extension].encode()


@pytest.mark.parametrize("extension", [".po", ".ts", ".xlf", ".xliff"])
@pytest.mark.parametrize(
    ("stated", "languages", "is_refused"),
    [
        (("de-AT", "en_GB"), ("deu_Latn", "en"), False),
        (("de", ""), ("de", "en"), False),
        (("C", "x-dev"), ("de", "en"), False),  # no languages
        (("de", "fr"), ("auto", "tags"), False),
        (("de", "fr"), ("", ""), False),
        (("de", "fr"), ("de", "en"), True),
        (("en", "de"), ("de", "en"), True),
        (("de", "zh_TW"), ("de", "zho_Hans"), True),
        (("fr", "en"), ("de", "en"), True),
    ],
)
def test_a_file_of_other_languages_is_refused(extension, stated, languages, is_refused):
    data = document_stating(extension, *stated)
    path = Path(f"a{extension}")
    states_the_other = extension != ".po" or stated[1] != languages[1]  # it states no source
    if not (is_refused and states_the_other):
        assert len(read_document(path, data, languages=languages).fields) == 1
        return
    with pytest.raises(UserError) as error:
        read_document(path, data, languages=languages)
    [other, *_] = [code for code, own in zip(stated, languages, strict=True) if code != own][-1:]
    assert other in str(error.value) and " into ".join(languages) in str(error.value)


@pytest.mark.parametrize("extension", [".xlf", ".xliff"])
@pytest.mark.parametrize(
    ("unit", "said"),
    [
        ('<source xml:lang="fr">le vélo</source>', "xml:lang of <source> is fr"),
        ('<source>das Rad</source><target xml:lang="fr"/>', "xml:lang of <target> is fr"),
        ('<source xml:lang="de-AT">das Rad</source><target xml:lang="en"/>', ""),
        ('<source>das Rad</source><note xml:lang="fr"><target xml:lang="fr"/></note>', ""),
    ],
)
def test_a_unit_of_other_languages_is_refused(extension, unit, said):
    whole = document_stating(extension, "de", "en").decode()
    data = whole.replace("<source>das Rad</source>", unit).encode()
    if not said:
        assert len(read_document(Path(f"a{extension}"), data, languages=("de", "en")).fields) == 1
        return
    with pytest.raises(UserError, match=said):
        read_document(Path(f"a{extension}"), data, languages=("de", "en"))


TRANSLATIONS = ["", "<translation/>", '<translation type="unfinished"></translation>']
COMMENTS = ["", "<translatorcomment/>", "<translatorcomment>ja</translatorcomment>"]


@pytest.mark.parametrize("space", ["", "\n    "])
@pytest.mark.parametrize("comment", COMMENTS)
@pytest.mark.parametrize("translation", TRANSLATIONS)
def test_a_message_of_qt_has_one_translation_and_one_comment(translation, comment, space):
    for elements in ([translation, comment], [comment, translation]):
        message = space.join(["<message>", "<source>das Rad</source>", *elements, "</message>"])
        data = f'<TS version="2.1"><context>{message}</context></TS>'.encode()
        new = etree.fromstring(translated_bytes(".ts", data, unsure={"RAD"})[0])
        assert [each.text for each in new.iter("translation")] == ["DAS RAD"]
        [written] = [each.text for each in new.iter("translatorcomment")]
        assert written == ("ja\n" if "ja" in comment else "") + "Unsure: RAD"
        assert not any((each.tail or "").strip() for each in new.iter())


@pytest.mark.parametrize(
    "written",
    ["das&#xD;&#xA;Rad", "Rad&#13;", "das&#xD;\nRad", "das\n\nRad", "<![CDATA[das\nRad]]>"],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("extension", "before", "after", "name"),
    [
        (".resx", '<root>\n<data name="a"><value>', "</value></data></root>", "value"),
        (
            ".ts",
            "<TS><context>\n<message><source>",
            "</source></message></context></TS>",
            "translation",
        ),
    ],
)
def test_ends_of_lines_in_xml_are_those_that_programs_read(
    extension, before, after, name, end, written
):
    """A carriage return that is written as a reference is one; one at the end of a line is none."""
    data = (before + written + after).replace("\n", end).encode()
    new, _ = translated_bytes(extension, data)
    read = etree.fromstring(data).itertext()
    assert (
        etree.fromstring(new).findtext(f".//{name}").strip("\n")
        == "".join(read).strip("\n").upper()
    )
    assert new.count(b"\n") == new.count(end.encode())


@pytest.mark.parametrize(
    ("unsure", "states"),
    [
        (None, [NEEDS_REVIEW, NEEDS_REVIEW]),  # nobody asked
        (set(), ["translated", "translated"]),
        ({"EINS"}, [NEEDS_REVIEW, "translated"]),
        ({"ZWEI"}, [NEEDS_REVIEW, "translated"]),  # one segment of a unit is enough
        ({"DREI"}, ["translated", NEEDS_REVIEW]),
    ],
)
def test_xliff_says_what_needs_review(unsure, states):
    segmented = "<mrk mtype='seg' mid='1'>eins</mrk> <mrk mtype='seg' mid='2'>zwei</mrk>"
    units = (
        "<trans-unit id='1'><source>eins "
        f"zwei</source><seg-source>{segmented}</seg-source></trans-unit>"
    )
    units += "<trans-unit id='2'><source>drei</source></trans-unit>"
    # A sentence that the model leaves as it is has not been judged.
    units += "<trans-unit id='3'><source>Vier. FÜNF.</source></trans-unit>"
    data, _ = translated_bytes(
        ".xlf", f"<xliff version='1.2'><file>{units}</file></xliff>".encode(), unsure=unsure
    )
    assert re.findall('<target state="(.*?)"', data.decode()) == [*states, NEEDS_REVIEW]


def test_xliff_2_says_what_needs_review():
    """The state of both is translated; what nobody is sure of has a sub-state, until it is
    translated anew."""
    segments = "<segment><source>eins</source></segment><segment><source>zwei</source></segment>"
    text = f"<xliff version='2.0'><file id='f'><unit id='1'>{segments}</unit></file></xliff>"
    data, _ = translated_bytes(".xlf", text.encode(), unsure={"ZWEI"})
    wanted = '<segment state="translated">|<segment state="translated" subState="nmt:needs-review">'
    assert "|".join(re.findall("<segment.*?>", data.decode())) == wanted
    assert b"subState" not in translated_bytes(".xlf", data, unsure=set(), retranslate=True)[0]


TITLES = ["à l'école", 'sagt "ja"', "a\\b", "No", "1.5", "2024-01-01", "so"]


@pytest.mark.parametrize("title", TITLES)
def test_the_title_of_front_matter_is_the_text_that_was_translated(title):
    """In TOML, which Hugo reads between +++, and in YAML."""
    for sign, line, load in (
        ("+++", "title = '{}'", tomlkit.parse),
        ("---", "title: {}", safe_load),
    ):
        text = f"{sign}\n{line.format('Hallo Welt')}\n{sign}\n"
        found = translated(".md", text, lambda _: title)
        assert load(found.removeprefix(sign).rstrip("\n").removesuffix(sign))["title"] == title


def test_events_of_subtitles_that_are_not_in_order_are_not_joined():
    """A file of ASS may be sorted by style."""
    line = "Dialogue: 0,0:{},0:{},Default,,0,0,0,,{}\n"
    text = line.format("20:00.00", "20:02.00", "Ausgang zur Straße")
    text += line.format("00:05.00", "00:06.00", "guten Morgen")
    assert sentences_of(".ass", "[Events]\n" + text) == ["Ausgang zur Straße", "guten Morgen"]


@pytest.mark.parametrize(
    ("extension", "piece"),
    [
        (".md", "$a - b + c - d$"),
        (".md", "{{< a b - c >}}"),
        (".md", "und - 12. und # das > so"),
        (".adoc", "und - so = das // da"),
    ],
)
def test_no_line_begins_with_a_sign_that_would_be_escaped(extension, piece):
    """Such as a minus, which begins a list."""
    words = f"eine Zeile {piece} mit vielen langen Wörtern und noch mehr Wörtern, die da sind"
    text = "\n".join(textwrap.wrap(words, 50)) + "\n"
    for count in range(1, 30):
        found = translated(extension, text, lambda sentence, n=count: "x " * n + sentence)
        assert "\\" not in found and "{empty}" not in found
        assert piece.startswith("und") or piece in found

"""Documents of text with markup: dialects of templates and of each format, and time that is linear
in the input."""

import time
from itertools import chain, product
from pathlib import Path

import pytest
from documents import check_marked, translated, translated_bytes

from nmt.documents.formats import open_document, read_document
from nmt.documents.markdown import count_blocks
from nmt.errors import UserError

TEMPLATES = (
    (
        "{{ x.y }}|{{- x}}|{{x, upper}}|{{{x}}}|{% url 'x' %}|{# so #}|<%= x %>|<?php echo $x; "
        "?>|${x.y}|%{x}|#{x}|$X$|$x|"
        ':x|@:a.b|@.lower:a.b|@:(a)|$t(a.b, {"n": {{n}} '
        "})|##X##|*|X|*|[[x]]|%s|%(x)d|{x:10}|{0}|%1|{d, date, long}"
    )
    .replace("*|X|*", "*\0X\0*")
    .split("|")
)


@pytest.mark.parametrize("template", [each.replace("\0", "|") for each in TEMPLATES])
@pytest.mark.parametrize("extension", [".txt", ".html"])
def test_what_programs_fill_in_stays(extension, template):
    text = f"Guten Tag, {template}, wo sind wir?"
    assert translated(extension, text, str.upper) == f"GUTEN TAG, {template}, WO SIND WIR?"


@pytest.mark.parametrize(
    ("extension", "marked"),
    [  # statements and bars divide texts and keep their order
        (".html", "<p>{% if a < b %}«ja»{% else %}«nein danke»{% endif %}</p>"),
        (".html", "<p>{% foo %}«eins»{% endfoo %} {% bar %} «zwei»</p>"),
        (".html", "{{#each x}}«eins»{{/each}} <% end %> «zwei»"),
        (".txt", "«kein Rad» | «ein Rad» | {n} «Räder»"),
        (".md", "{% if x %}\n«ein Rad»\n{% endif %}\n"),
        # tags of other kinds
        (".html", '<p>[box a="1"]«ein Rad»[/box], [«sic»]</p>'),
        (".html", "<p>«das» <0>«ist»</0> <1/>«so»</p>"),
        # HTML
        (".html", '<p lang="en-US">no</p><p lang="deu">«ja»</p>'),
        (".html", '<p>«er sagt» <i lang="fr">oui</i>.<p>«ja»'),
        (".html", '<html lang="en"><p lang=en>no<p>«ja»'),
        (".html", "<ul><li translate=no>so<li>«ja»</ul>«da»"),
        (".html", "<svg><title>«ein Rad»</title><style>a b</style></svg>"),
        (".html", '<p v-if="a > b" :title="so">«ja»</p>'),
        (".html", "<p><a title='«das Rad»'>[1]</a> «ja»</p>"),
        (".html", "<template><p>«ja»</p></template><video>«nein»</video>"),
        # Markdown
        (".md", '!!! note "«das Rad»"\n    «ja»\n\n    - «so»\n'),
        (".md", '??? tip\n    «ja»\n\n=== "«eins»"\n\n    «ja»\n'),
        (".md", ":::note[«das Rad»]\n\n«ja»\n\n:::\n"),
        (".md", "::: note\n«ja»\n:::\n«so»\n"),
        (".md", "> [!TIP] «das Rad»\n> «ja»\n"),
        (".md", "«Rad»\n: «ein Ding»\n: «so»\n"),
        (".md", "*[HTML]: «eine Sprache»\n*[X]: «so»\n"),
        (".md", "# «das Rad» {#rad .x}\n"),
        (".md", "«ja» [[seite|«ein Rad»]] «und» [[seite]] :rad: ++strg+c++\n"),
        (".md", '«ja» [«so»](u "«ein Rad»"){.x}\n'),
        (".md", "«ja» ![[bild.png|Breite]] «und» ![[bild.png]]\n"),
        (".md", '[r]: u "«ein Rad»"\n'),
        (".md", "«siehe» {ref}`«das Rad» <rad>` «und» {doc}`a/b`\n"),
        (".md", '---\ntitle: "«ein Rad»"\ntags: [so]\n---\n«ja»\n'),
        (".md", "- <b>«ja»</b>\n\n  <div>«so»</div>\n"),
        (".md", "«ja»\n\n$$\nein Rad\n\nso\n$$\n«da»\n"),
        (".md", "«ja» <!-- so --> «da»\n"),
        (".md", "---\ntitle: '«das ''Rad'' ist»'\n---\n"),
        (".md", "---\ntitle: «das Rad's»\n---\n"),
        (".md", '| «a» |\n|---|\n| [«ja»](u "«so» \\| «so»") ![«ja» \\| «ja»](v) |\n'),
        (".md", "> <div>\n> so\n> </div>\n\n<div>«ja»</div>\n"),
        (".md", "***«a»* «b»** «und» **«_c_»**\n"),
        (".md", "<!-- so --> «ja» <script>so</script>\n"),
        # MDX
        (".mdx", "export const d = {\n\n e: [1],\n\n so: {}\n}\n\n«ja»\n"),
        (
            ".mdx",
            "import a from 'b'\n\n<A b={c > 1} title=\"«das Rad»\">\n  «ja» {x.y} «so»\n</A>\n"
            "\nexport const d = {\n e: 1\n}\n",
        ),
        # AsciiDoc
        (".adoc", "= «das Rad»\nA B <a@b.de>\n:x: y\n\n.«so»\n* [ ] «ja»\n"),
        (".adoc", "NOTE: «ja», *«so»*.\n\n«Rad:: ein Ding»\n"),
        (".adoc", "[cols=2*]\n|===\n|«ein Rad» 2+|«so»\n\na|«ja»\n|===\n"),
        (".adoc", "[source,ruby]\nputs ja\n\n....\nso\n....\n\n«ja»\n"),
        (".adoc", "image::a.png[«ein Bild»,300px,align=left]\n\nvideo::b.mp4[width=9]\n\n«ja»\n"),
        (".adoc", '«siehe» <<a,«das Rad»>> «und» [.x]«_so_» "`«ja»`" «a_b»\n'),
    ],
)
def test_structure_stays_and_text_is_translated(extension, marked):
    check_marked(extension, marked)


# Blocks of each format, and what stands before, between and after them.
BLOCKS = {
    ".md": (
        "{}\n",
        "\n\n",
        [
            *("«ja»", "# «das Rad»", "- «so»", "1. «eins»", "> «ja»", "> [!TIP]\n> «ja»", "***"),
            *("| «a» |\n|---|\n| «b» |", "```\nso\n```", "<div>«ja»</div>", "<!-- so -->"),
            *("[^1]: «eins»", "*[X]: «so»", "«Rad»\n: «ein Ding»", '[r]: u "«Rad»"'),
            *('!!! note "«Rad»"\n    «ja»', "::: note\n«ja»\n:::", "$$\nso\n$$", "$$x$$ «ist so»"),
            "{% if x %}\n«ja»\n{% endif %}",
        ],
    ),
    ".mdx": (
        "{}\n",
        "\n\n",
        [
            *("«ja»", "# «das Rad»", "- «so»", "<A title='«Rad»'>\n«ja»\n</A>", "{/* so */}"),
            *("export const a = 1", "import a from 'b'", "«ja» {x} «so»", "```\nso\n```"),
            "<A b={c} />",
        ],
    ),
    ".adoc": (
        "{}\n",
        "\n\n",
        [
            *(
                "«ja»",
                "== «Rad»",
                "* «so»",
                ".«Rad»\n----\nso\n----",
                "----\nso\n----",
                " so",
                "'''",
            ),
            *("....\nso\n....", "++++\nso\n++++", "////\nso\n////", "```ruby\nso\n```"),
            *(",===\nso,ja\n,===", "|===\n|«ja» |«so»\n|===", "====\n«ja»\n====", "// so"),
            *("[source,ruby]\nputs ja", "[source]\n----\nso\n----", ":x: so", "NOTE: «ja»"),
            *("image::a.png[«ein Bild»]", "«Rad»:: «ein Ding»"),
        ],
    ),
    ".html": (
        "{}\n",
        "<hr>",
        [
            *("«ja»", "<p>«ja»</p>", "<p>«ja»", "<li>«so»", "<td>«so»", "<pre>so</pre>"),
            *("<div lang=en>so</div>", "<p translate=no>so</p>", "«er» <i lang=en>so</i> «ja»"),
            *("<script>so</script>", "<!-- so -->", "<textarea>«ja»</textarea>", "<code>so</code>"),
            *("{% if x %}", "<svg><title>«so»</title></svg>"),
            # an inline element without an end has no content
            *(
                "<p>«er» <i translate=no>«ja»</p>",
                "<p>«er» <i lang=en>«ja»</p>",
                "<p><code>«ja»</p>",
            ),
            # of an attribute that is there twice, the first counts
            "<p translate=no translate=yes>so</p>",
            '<input type=submit type=text value="«ja»">',
        ],
    ),
    ".vtt": (
        "WEBVTT\n\n00:01.000 --> 00:02.000\n«Ja.»\n\n{}\n",
        "\n\n",
        [
            *("00:01.000 --> 00:02.000\n«Ja.»", "NOTE so", "NOTE so\nund da", "STYLE\n::cue {}"),
            "ein Name\n00:03.000 --> 00:04.000\n<i>«So.»</i>",
        ],
    ),
    ".yaml": (
        "{}\n",
        "\n",
        [
            *(
                "- «ja»",
                "- '«so»'",
                '- "«gut»" # k',
                "- [«so», 1]",
                "- {a: «ja»}",
                "- 3",
                "- :name",
            ),
            *("- |\n  «eins»\n\n  «zwei»", "- |2\n     «eins»\n    «zwei»", "- >-\n  «drei»"),
        ],
    ),
    ".properties": (
        "{}\n",
        "\n",
        [
            *("a=«ja»", "b=\\ «so»", "c «ein» {0}", "# so", "!so", "e", "f = «l''eau» {0}"),
            "d=«eins» \\\n  «zwei»",
        ],
    ),
    ".txt": (
        "{}\n",
        "\n\n",
        [
            *(
                "«ja»",
                "«ja»\n«so»",
                "- «so»\n- «da»",
                "  1. «eins»\n  2. «zwei»",
                "x7-9",
                "«ein» {x} «Rad»",
            ),
            "«Diese Zeile ist so lang, dass sie umgebrochen worden ist, und geht»\n«weiter.»",
        ],
    ),
    ".srt": (
        "{}",
        "",
        [
            "1\n00:00:01,000 --> 00:00:02,000\n«Ja.»\n\n",
            "2\n00:00:03,000 --> 00:00:04,000\n<i>«Ja»\n«so.»</i>\n\n",
            "3\n00:00:05,000 --> 00:00:06,000\n{\\an8}- «Ja?»\n- «So!»\n\n",
            "4\n00:00:07,000 --> 00:00:08,000\n♪\n\n",
        ],
    ),
    ".ass": (
        "[Events]\nFormat: x\n{}Dialogue: 0,0:01:00.00,0:01:01.00,Default,,0,0,0,,«Ja.»\n",
        "",
        [
            "Dialogue: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,«Ja.»\n",
            "Dialogue: 0,0:00:03.00,0:00:04.00,Default,Anna,0,0,0,,{\\i1}«Es ist»\\N«da.»{\\i0}\n",
            "Dialogue: 0,0:00:05.00,0:00:06.00,Default,,0,0,0,,{\\p1}m 0 0 l 9 9{\\p0}\n",
            "Comment: 0,0:00:07.00,0:00:08.00,Default,,0,0,0,,so\n",
        ],
    ),
    ".json": (
        '{"a": [{}]}',
        ", ",
        [
            *('"«ja»"', '{"b": "«so» {x}"}', '{"@b": "so", "c": "«da»"}', '["«eins»", 3]', "null"),
            *('"{{x}}"', '"«ein» <b>«Rad»</b>"', '"«eins»\\n«zwei»"', '"«kein Rad» | «ein Rad»"'),
        ],
    ),
    ".xml": (
        "<resources xmlns:xliff='x'>{}</resources>",
        "\n",
        [
            *("<string name='a'>«ja»</string>", "<color name='a'>rot</color>", "<!-- so -->"),
            "<string name='a' translatable='false'>so</string>",
            "<string name='a'>«das» <b>«Rad»</b> %1$s</string>",
            "<string name='a'>«das» <xliff:g>%s</xliff:g> «Rad»</string>",
            "<string name='a'><![CDATA[«ja» <i>«so»</i>]]></string>",
            "<plurals name='p'><item quantity='one'>«ein Rad»</item></plurals>",
            "<string-array name='s'><item>«eins»</item>\n<item>«zwei»</item></string-array>",
        ],
    ),
    ".resx": (
        "<root>{}</root>",
        "\n",
        [
            *("<data name='a'><value>«ja»</value></data>", "<!-- so -->"),
            "<data name='a'><value>«das Rad»</value><comment>so</comment></data>",
            "<data name='a' type='System.Int32'><value>so</value></data>",
            "<data name='a' mimetype='x'><value>so</value></data>",
            "<data name='&gt;&gt;a.Type'><value>so</value></data>",
            "<data name='a'><value><![CDATA[«ja» & «so»]]></value></data>",
            "<resheader name='version'><value>so</value></resheader>",
        ],
    ),
    ".ts": (
        "<TS><context><name>so</name>{}</context></TS>",
        "\n",
        [
            "<message><source>ja</source><translation>yes</translation></message>",
            "<message><source>ja</source><translation type='obsolete'>yes</translation></message>",
            "<message><location line='1'/><source>so</source><comment>so</comment>"
            "<translation>this</translation></message>",
        ],
    ),
}


@pytest.mark.parametrize("extension", BLOCKS)
def test_a_block_is_read_alike_behind_every_other_one(extension):
    around, between, blocks = BLOCKS[extension]
    for block in blocks:
        check_marked(extension, around.replace("{}", block))
    in_every_order = chain.from_iterable(product(blocks, repeat=2))
    check_marked(extension, around.replace("{}", between.join(in_every_order)))


def test_subtitles():
    lines = [
        r"ein\hRad,\Ndas {\i1}so{\i0} "
        r"ist.",
        r"{\p1}m 0 0 l 9 9{\p0}ja.",
        r"{\k20}ein {\k30}Rad.",
    ]
    start = "Dialogue: 0,0:00:0{}.00,0:00:0{}.90,Default,,0,0,0,,{}\n"
    head = (
        "[Script Info]\nTitle: so\n[Events]\nFormat: a\nComment: "
        "0,0:00:00.00,0:00:00.00,Default,,0,0,0,,so\n"
    )
    text = head + "".join(start.format(at, at, line) for at, line in enumerate(lines))
    data, counts = translated_bytes(".ass", text.encode())
    upper = [
        r"EIN\hRAD,\NDAS {\i1}SO{\i0} "
        r"IST.",
        r"{\p1}m 0 0 l 9 9{\p0}JA.",
        r"{\k20}EIN {\k30}RAD.",
    ]
    assert data.decode() == head + "".join(
        start.format(at, at, line) for at, line in enumerate(upper)
    )
    assert counts == {"translated": 3, "code": 2, "comments": 1}


def test_what_is_left_has_its_reason():
    html = (
        "<!-- so --><script>so</script><p translate=no>so</p><p "
        "lang=en>so</p><pre>so</pre><p>ja</p>"
    )
    wanted = {"comments": 1, "code": 2, "protected": 1, "in another language": 1, "translated": 1}
    assert translated_bytes(".html", html.encode())[1] == wanted
    markdown = "---\na: so\n---\n```\nso\n```\n\nja\n"
    assert translated_bytes(".md", markdown.encode())[1] == {
        "front matter": 1,
        "code": 1,
        "translated": 1,
    }


@pytest.mark.parametrize(
    "start",
    ["# ", "1. ", "- ", "> ", "=== ", "!!! x ", "::: ", ": ", "$$ ", "[a]: b ", "| a |", "---"],
)
def test_a_translation_makes_no_other_block(start):
    text = "ein Rad\n\n- so\n\n> ja\n"
    new = translated(".md", text, lambda sentence: start + sentence)
    assert new != text and count_blocks(new.encode()) == count_blocks(text.encode())


def test_a_pdf_is_refused(tmp_path):
    with pytest.raises(UserError, match="PDF"):
        open_document(tmp_path / "a.pdf")
    with pytest.raises(UserError, match="PDF"):
        read_document(Path("a.txt"), b"%PDF-1.7\n")


LONG = [
    (".html", "<code>"),
    (".html", "<p lang=en>a "),
    (".html", "{% if "),
    (".html", "<b>ein Satz.</b> "),
    (".html", "a | "),
    (".txt", "$a "),
    (".txt", "a"),
    (".txt", "{{ "),
    (".md", "<a "),
    (".md", "["),
    (".md", "*a "),
    (".md", "![a]("),
    (".md", "`a ``b "),
    (".md", "> "),
    (".md", "<!-- "),
    (".md", "|a|b\n|-|-\n"),
    (".md", "[a]: b\n\n"),
    (".mdx", "> "),
    (".mdx", "<a b={"),
    (".adoc", "a"),
    (".adoc", "a::b["),
    (".adoc", "* "),
    (".srt", "1\n00:00:01,000 --> 00:00:02,000\nja\n\n"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("extension", "piece"), LONG)
def test_time_is_linear(extension, piece):
    def seconds(size: int) -> float:
        text = piece * (size // len(piece))
        start = time.process_time()
        try:
            translated(extension, text, str.upper)
        except UserError:  # a tag without an end
            pass
        return time.process_time() - start

    seconds(1_000)
    assert seconds(160_000) < 8 * seconds(40_000) + 0.2  # four times as long


def test_many_placeholders_and_many_sentences_take_no_time():
    start = time.process_time()
    translated(".txt", "$a " * 8_000, str.upper)
    translated(".md", "<a " * 8_000, str.upper)
    translated(".html", f"<p><b>{'<i>Das</i> ist so. ' * 600}</b></p>", str.upper)
    assert time.process_time() - start < 5  # 30 s and more where each looks at all others

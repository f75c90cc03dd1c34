"""Pieces of each format in every order: a text is read alike whatever stands before and behind it.

What is in «…» is translated, and all else stays."""

import re
from itertools import chain, product

import pytest
from documents import check_marked, in_capitals, translated_bytes
from packages import PARAGRAPHS, W, capitals, field, files_in, pack, run, unmarked
from test_packages import canonical


def in_every_order(pieces: list[str]) -> list[str]:
    """Each piece behind each other one, and behind itself."""
    return list(chain.from_iterable(product(pieces, repeat=2)))


# --------------------------------------------------------------------------------------------------
# Blocks

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
            *(",===\n«so»,«ja»\n,===", "|===\n|«ja» |«so»\n|===", "====\n«ja»\n====", "// so"),
            *("[source,ruby]\nputs ja", "[source]\n----\nso\n----", ":x: so", "NOTE: «ja»"),
            *("image::a.png[«ein Bild»]", "kroki::a.puml[so]", "«Rad»:: «ein Ding»"),
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
    check_marked(extension, around.replace("{}", between.join(in_every_order(blocks))))


# --------------------------------------------------------------------------------------------------
# Inside a paragraph

SENTENCE = "«Da ist» {} «und» {} «gut so»"
# What may stand among words, and how a paragraph is written.
INLINE = {
    ".md": (
        "{}\n\n",
        [
            *(
                "`code`",
                "[«das Rad»](u)",
                "![«ein Bild»](v)",
                "<b>«fett»</b>",
                "*«schräg»*",
                "[^1]",
            ),
            *("**«dick»**", "***«ein»* «Ding»**", "[[a|«Seite»]]", "![[a|so]]", "{ref}`«Rad» <y>`"),
            *("$x$", "<https://x.de>", "<!-- so -->", "\\*«nein»\\*", "_«schräg»_", "~~«weg»~~"),
            *("{{ x }}", "<br>", '[**«fett»**](u "«Titel»")', "<span translate=no>so</span>"),
            *("H<sub>2</sub>O", "[![«Logo»](l.svg)](u)"),
        ],
    ),
    ".html": (
        "<p>{}</p>\n",
        [
            *("<b>«fett»</b>", "<br>", '<img alt="«ein Bild»">', "<code>so</code>", "{x}", "&amp;"),
            *("{{ so }}", '<a href=u title="«Titel»">«hier»</a>', "H<sub>2</sub>O", "<sup>1</sup>"),
            *("<i translate=no>so</i>", "<span lang=en>so</span>", "<!-- so -->", "<wbr>"),
            *("[box a=1]«innen»[/box]", "[url=http://x.de]«Rad»[/url]", '[q="so da" n=1]«ja»[/q]'),
            *("<svg><title>«Rad»</title></svg>", "<span></span>"),
            *("<i><b>«beide»</b></i>", "{% if x %}", "https://x.de/a?b=1&amp;c"),
            *('<input type=submit value="«los»">', "<button>«los»</button>"),
        ],
    ),
    ".adoc": (
        "{}\n\n",
        [
            *("*«fett»*", "_«schräg»_", "`so`", "https://x.de[«hier»]", "<<a,«dort»>>", "<<a>>"),
            *("{x}", '"`«Wort»`"', "footnote:[«Note»]", "[.x]#«Rad»#", "**«dick»**", "(((«so»)))"),
            *("link:a.html[«hier»]", "kbd:[Strg]"),
        ],
    ),
}


@pytest.mark.parametrize("extension", INLINE)
def test_a_piece_of_a_sentence_is_read_alike_behind_every_other_one(extension):
    paragraph, pieces = INLINE[extension]
    sentences = [SENTENCE.format(*pair) for pair in product(pieces, repeat=2)]
    check_marked(extension, "".join(map(paragraph.format, sentences)))


XLIFF = [
    *("<g id='1'>«Rad»</g>", "<x id='2'/>", "<ph id='3'>so</ph>", "{x}", "&amp;"),
    *("<ph id='4'>[1<sub>«Note»</sub>]</ph>", "<bpt id='5'>x</bpt>«Rad»<ept id='5'>y</ept>"),
    *("<mrk mtype='protected'>so</mrk>", "<mrk mtype='term'>«Rad»</mrk>"),
    *("<it id='6' pos='open'>x</it>", "<bx id='7'/>«Rad»<ex id='7'/>", "&lt;b&gt;«Rad»&lt;/b&gt;"),
    "<g id='8'><g id='9'>«zwei»</g> «drei»</g>",
]


@pytest.mark.parametrize("segmented", [False, True])
def test_a_target_of_xliff_has_the_elements_of_its_source(segmented):
    """In their order, and also where a tool has divided it into segments."""
    sentences = [SENTENCE.format(*pair) for pair in product(XLIFF, repeat=2)]
    units = ""
    wanted = []
    for sentence in sentences:
        plain = re.sub("[«»]", "", sentence)
        units += f"<trans-unit id='u'><source>{plain}</source>"
        if segmented:
            marks = [f"<mrk mtype='seg' mid='{mid}'>{{}}</mrk>" for mid in "ab"]
            sentence = f"{marks[0].format(sentence)} <g id='z'>{marks[1].format('«Ja.»')}</g>"
            plain = re.sub("[«»]", "", sentence)
            units += f"<seg-source>{plain}</seg-source>"
        units += "</trans-unit>"
        wanted.append(canonical(f"<t>{in_capitals(sentence)}</t>"))
    text = f"<xliff version='1.2'><file><body>{units}</body></file></xliff>"
    data, _ = translated_bytes(".xlf", text.encode())
    targets = re.findall("<target [^>]*>(.*?)</target>", data.decode())
    assert [canonical(f"<t>{target}</t>") for target in targets] == wanted


# --------------------------------------------------------------------------------------------------
# Packages

RUNS = [
    *(run("«fett»", "<w:b/>"), f"<w:hyperlink>{run('«Link»')}</w:hyperlink>"),
    *(field(" DATE ", run("3. März")), field(" REF x ", run("«hier»", "<w:u/>"))),
    *("<w:r><w:footnoteReference w:id='1'/></w:r>", "<w:r><w:sym w:char='F0'/></w:r>"),
    *(f"<w:del>{run('weg', name='delText')}</w:del>", f"<w:ins>{run('«neu»')}</w:ins>"),
    f"<w:bookmarkStart w:id='5'/>{run('«fest»', '<w:i/>')}<w:bookmarkEnd w:id='5'/>",
    f"<w:sdt><w:sdtPr/><w:sdtContent>{run('«Wahl»')}</w:sdtContent></w:sdt>",
    f"<w:fldSimple w:instr='PAGE'>{run('eins')}</w:fldSimple>",
    f"<w:fldSimple w:instr=' REF x '>{run('«dort»')}</w:fldSimple>",
    "<m:oMath xmlns:m='m'><m:r><m:t>sin</m:t></m:r></m:oMath>",
    f"<w:r><w:ruby><w:rubyPr/><w:rt>{run('lies')}</w:rt><w:rubyBase>{run('«Wort»')}</w:rubyBase>"
    "</w:ruby></w:r>",
]
OPENDOCUMENT = [
    *("<text:span>«fett»</text:span>", "<text:a>«Link»</text:a>", "<text:date>3. März</text:date>"),
    "<text:note><text:note-body><text:p>«Note»</text:p></text:note-body></text:note>",
    "<text:bookmark text:name='a'/>",
    "<text:bookmark-start text:name='a'/>«fest»<text:bookmark-end text:name='a'/>",
    "<text:change-start text:change-id='c'/>«neu»<text:change-end text:change-id='c'/>",
    "<text:ruby><text:ruby-base>«Wort»</text:ruby-base><text:ruby-text>lies</text:ruby-text>"
    "</text:ruby>",
    *("<text:soft-page-break/>", "<text:page-number>3</text:page-number>"),
    "<text:span><text:span>«zwei»</text:span> «drei»</text:span>",
]


def check_package(extension: str, name: str, content: str) -> None:
    data, _ = translated_bytes(extension, pack(unmarked({name: content})))
    texts = [files_in(data)[name], capitals({name: content})[name]]
    new, wanted = (canonical(text).replace(' xml:space="preserve"', "") for text in texts)
    assert new == wanted


def test_a_piece_of_a_paragraph_of_word_is_read_alike_behind_every_other_one():
    paragraphs = in_every_order(PARAGRAPHS)
    for first, second in product(RUNS, repeat=2):
        words = [run(text) for text in ("«Da ist »", "« und »", "« gut so»")]
        paragraphs.append(f"<w:p>{words[0]}{first}{words[1]}{second}{words[2]}</w:p>")
    content = f"<w:document {W}>{''.join(paragraphs)}</w:document>"
    check_package(".docx", "word/document.xml", content)


def test_a_piece_of_a_paragraph_of_opendocument_is_read_alike_behind_every_other_one():
    sentences = [SENTENCE.format(*pair) for pair in product(OPENDOCUMENT, repeat=2)]
    name = "urn:oasis:names:tc:opendocument:xmlns:text:1.0"
    paragraphs = "".join(f"<text:p>{sentence}</text:p>" for sentence in sentences)
    check_package(".odt", "content.xml", f"<d xmlns:text='{name}'>{paragraphs}</d>")

"""Documents of text with markup: dialects of templates and of each format, and time that is linear
in the input."""

import re
import time
from collections import Counter
from itertools import cycle
from pathlib import Path

import pytest
from documents import (
    check_marked,
    reordered_bytes,
    sentences_of,
    translated,
    translated_bytes,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from nmt.documents.formats import open_document, read_document
from nmt.documents.markdown_blocks import count_blocks
from nmt.documents.segment import FIRST_UNIT, segments
from nmt.errors import UserError

TEMPLATES = (
    (
        "{{ x.y }}|{{- x}}|{{x, upper}}|{{{x}}}|{% url 'x' %}|{# so #}|<%= x %>|<?php echo $x; "
        "?>|${x.y}|%{x}|#{x}|$X$|$x|"
        ':x|@:a.b|@.lower:a.b|@:(a)|$t(a.b, {"n": {{n}} '
        "})|##X##|*|X|*|[[x]]|%s|%(x)d|{x:10}|{0}|%1|{d, date, long}|"
        "%1$,d|%,d|%1$,.2f|%'d|%(,.2f|%*d|%.*s|%(x).2f|%1$tB|%tB|%S|%1!s!|%+.3e|%jd|% 5d|%2$*1$d"
        "|%[1]s|%[2]d|%-8[1]q|%[3]*.[2]*[1]f|%#@x@|%2$#@x@|%arg|'{x}'|'{'|'}'"
    )
    .replace("*|X|*", "*\0X\0*")
    .split("|")
)


@pytest.mark.parametrize("template", [each.replace("\0", "|") for each in TEMPLATES])
@pytest.mark.parametrize("extension", [".txt", ".html"])
def test_what_programs_fill_in_stays(extension, template):
    text = f"Guten Tag, {template}, wo sind wir?"
    assert translated(extension, text, str.upper) == f"GUTEN TAG, {template}, WO SIND WIR?"


PHRASES = ["{Hinweis: siehe unten}", "{das ist alles Text}", "{eins; zwei drei.}", "{注：见下文}"]
FIELDS = [  # up to two words, or what has a sign of a program
    *("{Vorname}", "{erster Name}", "{x, groß}", "{tag, date, EEEE dd MMM yyyy}", "{名称}"),
    *('{t("das ist Text hier")}', "${das ist hier Code}", "{{das ist hier Code}}"),
]


@pytest.mark.parametrize("extension", [".txt", ".html", ".md"])
@pytest.mark.parametrize("text", [*PHRASES, *FIELDS])
def test_a_phrase_in_braces_is_text(extension, text):
    new = translated(extension, f"Guten Tag, {text}, wo sind wir?\n", str.upper)
    assert new == f"GUTEN TAG, {text if text in FIELDS else text.upper()}, WO SIND WIR?\n"


@pytest.mark.parametrize("between", ['" href="b">«ja»</a> <i title="', '">«ja»</a> <i alt="'])
@pytest.mark.parametrize(("first", "last"), [("«ein» {{", "}} «Rad»"), ("«so» {{ «da»", "«zu» }}")])
def test_no_template_goes_from_one_attribute_or_text_to_another(first, last, between):
    check_marked(".html", f'<a title="{first}{between}{last}">«nein»</i>')
    check_marked(".html", f"<a title='{first}{between}{last}'>«nein»</i>".replace('"', "'"))
    check_marked(".html", f"<p>{first} <b>«ja»</b> {last}")


@pytest.mark.parametrize(
    "template",
    [
        """{{ x < 3 ? "<b>so</b>" : '' }}""",
        """{{ x ? ' class="so da"' : "" }}""",
        "{{! it's so }}",
        '{{- /* so " */ -}}',
        """{{ x's a<b }}""",
    ],
)
def test_what_stands_in_a_template_of_html_stays(template):
    check_marked(".html", f'<p>«ein» {template} «Rad» <img alt="«ein» {template} «Rad»">')


TIMES = "00:01.000 --> 00:02.000\n"


@pytest.mark.parametrize(
    ("extension", "marked"),
    [  # statements and bars divide texts and keep their order
        (".html", "<p>{% if a < b %}«ja»{% else %}«nein danke»{% endif %}</p>"),
        (".html", "<p>{% foo %}«eins»{% endfoo %} {% bar %} «zwei»</p>"),
        (".html", "{{#each x}}«eins»{{/each}} <% end %> «zwei»"),
        (".txt", "«kein Rad» | «ein Rad» | {n} «Räder»"),
        (".txt", "«ein Rad» |||| %{n} «Räder»"),
        # of messages alone, also bars without spaces
        (".json", '{"a": "«ein Rad»|:n «Räder»", "b": "«das Rad»|||| «zwei»"}'),
        (".json", '{"a": "{0} «kein Rad»|[1,19] «Räder»|[20,*] :n «viele»", "b": "{0} «ja»"}'),
        (".yaml", 'a: "{1} <b>«das»</b> «Rad»|[2,*] «die Räder»"\n'),
        (".properties", "a=«es gibt ein Rad»|«es gibt viele Räder»\n"),
        (".json", '{"a": "«das (eine a|b da) ist»", "b": "<b>«das a|b da»</b>"}'),
        (".json", '{"a": "«Rufe `das a|b da` auf.»", "b": "|das Rad|die Räder|"}'),
        (".md", "{% if x %}\n«ein Rad»\n{% endif %}\n"),
        # tags of other kinds
        (".json", '["- «das» [«Rad»](/so/da#b)\\n- «ja» [«Haus»](https://x.de/a) «[nein] (so)»"]'),
        (".html", '<p>[box a="1"]«ein Rad»[/box], [«sic»]</p>'),
        (".html", "<p>«das» <0>«ist»</0> <1/>«so»</p>"),
        # HTML
        (".html", '<p lang="en-US">no</p><p lang="deu">«ja»</p>'),
        (".html", '<p>«er sagt» <i lang="fr">oui</i>.<p>«ja»'),
        (".html", '<html lang="en"><p lang=en>no<p>«ja»'),
        (".html", '<p>«er» <i lang="fr">la <b lang="de">«gute Tat»</b> oui</i> «so».'),
        (".html", '<p lang="fr">la <b>très</b> <i lang="de">«gute Tat» <u>«so»</u></i> oui'),
        (".html", '<p lang="fr">non <a title="oui">oui</a> <i lang="de">«gut. So.»</i>'),
        (".html", "<ul><li translate=no>so<li>«ja»</ul>«da»"),
        (".html", "<svg><title>«ein Rad»</title><style>a b</style></svg>"),
        (".html", '<p v-if="a > b" :title="so">«ja»</p>'),
        (".html", "<p><a title='«das Rad»'>[1]</a> «ja»</p>"),
        (".html", "<p>{{ x `<b>so</b>` }} «ja»</p>"),
        (".html", "<template><p>«ja»</p></template><video>«nein»</video>"),
        # characters of private use, as fonts of icons have them
        (".html", "<p>«Gruppe» <i class=fa>\uf2e0</i> «hier»\uf2df «so»\uf2e0</p>"),
        (".html", '<p><img alt="\uf2e0 «Rad»"> «hier»</p>'),
        # marks of footnotes
        (".html", "<p>«Das»<a href=u>[1]</a> «ist»<sup>2</sup> «so da»</p>"),
        # templates inside values, with the same quotation marks
        (".html", '<input placeholder="{% trans "so" %}"><i>«ja»</i>'),
        (".html", '<a title="«das Rad» {{ x|default:"so" }} «ja»" href="b">«ja»</a>'),
        (".html", "<a title='<?= $a->t('so') ?> «ja»' href='b'>«ja»</a>"),
        (".html", '<a {% if a %}title="«das Rad»"{% endif %} {% b title="so" %}>«ja»</a>'),
        (".html", '<img src={% static "so b.png" %} alt="«das Rad»">'),
        # Markdown
        (".md", '!!! note "«das Rad»"\n    «ja»\n\n    - «so»\n'),
        (".md", '??? tip\n    «ja»\n\n=== "«eins»"\n\n    «ja»\n'),
        (".md", "- !!! tip\n      «ja»\n\n  «da»\n\n!!! a\n    !!! b\n        «so»\n\n    «da»\n"),
        (".md", ":::note[«das Rad»]\n\n«ja»\n\n:::\n"),
        (".md", "::: note\n«ja»\n:::\n«so»\n"),
        (".md", "> [!TIP] «das Rad»\n> «ja»\n"),
        (".md", "- <!-- so --> «das Rad»\n- «ja»\n\n«Rad»\n:   <!-- so --> «ein Ding»\n"),
        (".md", '«ja»\n\n{{< a\n\n  b="ein Rad"\n>}}\n\n- «so»\n  {% a\n    b %}\n  «da»\n'),
        (".md", "«Das ist» [«ein»](a)/[«aus»](b) «und» *«hin»*/*«her»* «da»\n"),
        (".md", "«Das ist» *https://a.de/b/*. «Und» **https://a.de** «auch».\n"),
        (".md", '«ja»\n\n<img\nalt="«ein Rad»" src="a">\n\n> <img\n> title="«ein Rad»">\n'),
        (
            ".md",
            '| 1 |\n|---|\n| «da»<ul><li>«ein Rad»</li><li title="«so da»">«ja»</ul> «gut so» |\n',
        ),
        (".md", "«Das ist» <p>«ein *Rad*»<div>«so da»</div>\n"),
        (".md", "**«Das ist» (*«so»* «da»).**\n"),
        (".md", "_«Das ist so» :_ «da»\n"),
        (".md", "«Das ist» \\_\\_«so»\\_\\_ «a_b»\n"),
        (".md", '«Ein Rad»\n{{< so a="da" >}}\n«Es ist da»\n{{% /so %}}\n{% so %}\n«Ja»\n'),
        (".md", "«Das» $ \\varphi = so $ «ist»\n"),
        # tables of pandoc, comments of MyST, and a title of pandoc
        (".md", "«ja»\n\n+----+-----+\n| a  | Rad |\n+:==:+=====+\n| da | so  |\n+----+-----+\n"),
        (".md", "% «ein Titel»\n\n«ja»\n\n% so: ein\n%\n% Rad\n"),
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
        # what is inside a link ends there
        (".md", "[«ein» <!-- n](u) --> «Rad»](v) «ja»\n"),
        (".md", "[«ein» <code>«Rad»](u) «und»</code> «ja»\n"),
        # what looks like a call or a variable
        (".md", "__«fett»__ «und» __«so ja»__ «da»\n"),
        (".adoc", "__«schräg»__ «und» **«fett»**\n"),
        (".md", "«für» $5(«fünf Euro») «und» $t(so) «und» $tc(so, ja)\n"),
        (".md", "«ja» [«siehe auch» @a:1, «Seite» 5; -@{b}] «und» [@c] «so» [mail@x.de](u).\n"),
        (
            ".md",
            "«das» [«v2»](/a/b) «und» [«v3»][r] «da» [1] ![«ein Rad v4»](c).\n",
        ),  # [1] is a placeholder
        (".md", "[«ja @c»](u) «und» [«so @c»][r] «und» a@b.de [«so»]\n"),  # no citations
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
        (
            ".adoc",
            "«das» ((«Rad *ist*»)) «da» (((«Ding», «Rad»))) indexterm2:[«so»]. (((«Ding»)))\n",
        ),
        (".adoc", "indexterm:[«Ding»,«Rad»] «ja» («so (ja))».\n\n(((«Rad»)))\n"),
        (".adoc", "== «das Rad» ==\n\n..«so»\n----\nja\n----\n\n> «ein Rad»\n"),
        (".adoc", "|===\na|«eins»:\n\n* «ein» \\| «Rad»\n\n----\nso\n----\n|«ja»\n|===\n"),
        (".adoc", '«das» _[«A#so, B#da»]_ «ist» (`"a": so` -> `"b"`) «und» `so\nda`.\n'),
        (".adoc", "{url}/so/da «und» link:pass:[https://x y][«hier»] +++<u>so</u>+++ «da»\n"),
        # subtitles
        (".vtt", f"WEBVTT\n\n{TIMES}«das» <ruby>«字»<rt>じ</rt>«漢»<rt.a>カ</rt></ruby> «da.»\n"),
        (".adoc", "«ja»,footnote:[«das ist» *«so»*.] «und» footnote:a[], footnoteref:[b,«da»].\n"),
        (".adoc", "«ja», '[.in]``so``', ``so `` «und» [.x]`so` «da»\n"),
        (".adoc", "«das ist eine footnote:[offen und da»\n"),
        (".adoc", "[%hardbreaks]\n«Rosen sind rot,»\n«Veilchen» *«so blau»*\n"),
        (".adoc", '[.x,options="hardbreaks"]\n> «Rosen sind rot,»\n> «Veilchen blau»\n'),
        (".adoc", "= «Titel»\n:hardbreaks:\n\n* «Rosen sind rot,»\n«Veilchen blau»\n"),
        (".adoc", "«das» «H»~2~«O ist» 10^6^ «und der» 1^te^ «ja» [.x]^so^ «da»\n"),
        (".adoc", "«das» +{name}+, ++<u>so</u>++ «und» +*x*+ «ist a + b»\n"),
        (".adoc", 'image::b.png["«ein Bild, gut = so»", 20, width=9]\n\n«ja»\n'),
        (".adoc", "«das ist» image:a.png[«ein Bild», 10, 20%] «da»\n"),
        (".adoc", "«siehe» {url}/a/b[*«das Rad»*] «und» {url}[«so»] «da» {x} [.y]#«gut»# {z}.\n"),
        (".adoc", "«ein» [line-through]#«Rad»# «und» [.a.b]*«so»*\n"),
        (".adoc", '«siehe» <<a,«das Rad»>> «und» [.x]«_so_» "`«ja»`" «a_b»\n'),
    ],
)
def test_structure_stays_and_text_is_translated(extension, marked):
    check_marked(extension, marked)


LINES = [  # of a text with lines, and its texts
    (["Dienstag: 10 Uhr", "Sonntag: zu"], ["Dienstag: 10 Uhr", "Sonntag: zu"]),
    (["Zeiten:", "Mo: 9 Uhr", "Di: 10", "oder so"], ["Zeiten:", "Mo: 9 Uhr", "Di: 10 oder so"]),
    (["Hier ist der", "Grund: es regnet"], ["Hier ist der Grund: es regnet"]),
    (["Er sagt: das", "Rad ist http://x.de da"], ["Er sagt: das Rad ist http://x.de da"]),
]


@pytest.mark.parametrize(("lines", "texts"), LINES)
@pytest.mark.parametrize(
    ("extension", "end"), [(".html", "<br>\n"), (".md", "  \n"), (".md", "<br>"), (".adoc", " +\n")]
)
def test_lines_with_labels_are_texts_of_their_own(lines, texts, extension, end):
    document = end.join(lines)
    shown = [text.replace("http://x.de", chr(FIRST_UNIT)) for text in texts]
    assert sentences_of(extension, document) == shown
    upper = document.upper().replace("HTTP://X.DE", "http://x.de").replace("<BR>", "<br>")
    assert translated(extension, document, str.upper) == upper


def test_spaces_beside_tabs_of_plain_text_stay():
    check_marked(".txt", "«Name»\t«Preis»\n«Rad und Tat» \t\t «zwei Räder»  \n\t- \t«so»\t5\n")


MENU = ["Startseite", "Über uns", "Kontakt"]
BETWEEN = ["", " ", "\n", " | ", " · ", " / ", " • "]
MENUS = [  # how a link is written, and what is around all of them
    (".html", '<a href="/{0}">{1}</a>', "<div>{}</div>"),
    (".html", '<a href="/{0}"><b>{1}</b></a>', "<li><span class=so>{}</span>"),
    (".html", '<span><a href="/{0}">{1}</a></span>', "{}<br>"),
    (".md", "[{1}](/{0})", "{}\n"),
    (".md", "[{1}](/{0}){{.so}}", "- {}  \n"),
    (".md", "**[{1}][r{0}]**", "# {} {{#so}}\n"),
    (".md", '<a href="/{0}">{1}</a>', "| {} | 1 |\n|---|---|\n"),
    (".mdx", "[{1}](/{0})", "{}\n"),
]


@pytest.mark.parametrize(("extension", "link", "around"), MENUS)
def test_each_link_of_a_menu_is_a_sentence_of_its_own(extension, link, around):
    for between in BETWEEN:
        if between.strip() == "|" and around.startswith("|"):
            between = r" \| "
        if between == "\n" and around[0] in "|#":
            continue
        menu = between.join(link.format(at, text) for at, text in enumerate(MENU))
        document = around.format(menu)
        assert sentences_of(extension, document) == MENU
        check_marked(extension, re.sub("|".join(MENU), r"«\g<0>»", document))
    for sentence in (f"{link} {link} brennt", f"Das ist {link} {link}", f"{link}, {link}"):
        text = around.format(sentence.format(0, "ein Haus"))
        assert len(sentences_of(extension, text)) == 1


@pytest.mark.parametrize("name", ["highlight", "comment", "code"])
@pytest.mark.parametrize(
    ("begin", "between", "end"),
    [
        ("{{% {} ruby %}}", "def so(da)\n\n  # Ein Rad ist da\n\n- ja {{ so }}", "{{% end{} %}}"),
        ("{{%- {} -%}}", "```\nein Rad\n\n<div>\n> so", "{{%- end{} -%}}"),
    ],
)
@pytest.mark.parametrize("indent", ["", "- ", "> "])
def test_code_between_lines_of_liquid_stays(name, begin, between, end, indent):
    code = "\n".join([begin.format(name), between, end.format(name)])
    text = f"«Ein Rad»:\n{code}\n«Es ist da.»"
    rest = {"- ": "  "}.get(indent, indent)
    marked = indent + text.replace("\n", f"\n{rest}") + "\n"
    assert check_marked(".md", marked) == {"translated": 2, "code": 1}
    check_marked(".md", f"{begin.format(name)}\n\n«Es ist da.»\n")  # without an end


@pytest.mark.parametrize("indent", ["", "- ", "> "])
def test_what_liquid_shows_as_it_is_is_text(indent):
    body = "«Ein Rad ist» {{ da }}.\n\n```\n{{ so }} ja\n```\n«Das ist» {% raw %}{{{% endraw %}."
    marked = f"«Es geht»:\n{{% raw %}}\n{body}\n{{%- endraw -%}}\n«Es ist da.»"
    rest = {"- ": "  "}.get(indent, indent)
    counts = check_marked(".md", indent + marked.replace("\n", f"\n{rest}") + "\n")
    assert counts["translated"] == 4


@pytest.mark.parametrize(
    "line", ["{: .warning }", "{:toc}", '{:.so #da title="x {y}"}', "{::options a='b' /}"]
)
def test_a_line_of_attributes_of_markdown_is_no_text(line):
    for marked in (
        "LINE\n«Ein Rad ist da»\n«und noch ein Haus.»\nLINE\n«So.»\n",
        "- «Punkt eins»\nLINE\n\n«So.»\n",
        "1. «Punkt eins»\n   LINE\n2. «Punkt zwei»\n",
        "> «Ein Rad»\n> LINE\n",
        "| «Rad» | «Haus» |\n|---|---|\n| «ja» | «nein» |\nLINE\n",
        "# «Ein Rad»\nLINE\n«So.»\n",
    ):
        text = marked.replace("LINE", line)
        new = translated(".md", re.sub("[«»]", "", text), str.upper)
        assert new.split() == re.sub("«(.*?)»", lambda match: match[1].upper(), text).split()
        assert new.count(line) == text.count(line)
        assert all(row.strip(" >") == line for row in new.split("\n") if line in row)


@pytest.mark.parametrize("options", [":class: ein, Rad\n:name: das-rad\n", ":open:\n", ""])
@pytest.mark.parametrize("divider", ["^^^", "+++", "+++++"])
@pytest.mark.parametrize("indent", ["", "- ", "> "])
def test_options_and_dividers_of_directives_are_no_text(options, divider, indent):
    text = f":::{{card}} «Das Rad»\n{options}«Ein Kopf»\n{divider}\n«Ein Rad ist da.»\n{divider}\n"
    marked = f"::::{{grid}}\n{options}\n{text}«Ein Fuß ist da.»\n:::\n::::\n«Ende.»"
    rest = {"- ": "  "}.get(indent, indent)
    check_marked(".md", indent + marked.replace("\n", f"\n{rest}") + "\n")
    check_marked(".md", ":::tip\n:rad: «Das ist keine Option.»\n:::\n")


@pytest.mark.parametrize("name", ["Note", "tab-item", "prf:theorem", "code-block", "r", "mermaid"])
@pytest.mark.parametrize("fence", ["````", "~~~"])
@pytest.mark.parametrize("options", ["", ":class: ein, Rad\n", "---\nname: das Rad\n---\n"])
@pytest.mark.parametrize("indent", ["", "- ", "> "])
def test_the_body_of_a_directive_is_text_where_it_is_no_code(name, fence, options, indent):
    body = "«Ein Rad»\n\n- «Punkt»\n\n  ```{tip}\n  «Es ist da.»\n  ```\n"
    begin = f"{fence}{{{name}}} «Das Rad»\n{options}"
    if name in ("code-block", "r", "mermaid"):
        body, begin = (re.sub("[«»]", "", text) for text in (body, begin))
    marked = f"«Es geht»:\n{begin}{body}{fence}\n«Ende.»"
    rest = {"- ": "  "}.get(indent, indent)
    check_marked(".md", indent + marked.replace("\n", f"\n{rest}") + "\n")
    check_marked(".md", f"{begin}{body}")  # without an end


CONTENT = (
    '  ![«Das Bild»](https://x/y.png){ width="300" }\n\n«Ein» *«Rad»* [«ist»](u "«da»").\n\n'
    "- «Punkt»\n\n```\nso da\n```\n«Mehr davon.»\n"
)
ELEMENTS = [
    *('<figure markdown="span">\n|</figure>', "<div class='so' markdown='1'>\n|</div>"),
    *("<section markdown>\n|</section>", "<aside markdown=block>\n\n|\n</aside>"),
    *('<TabItem value="a" label="«Ein Rad»">\n|</TabItem>', "<Tabs\n  id={x}\n>\n|</Tabs>"),
    "<Tabs>\n<TabItem>\n|</TabItem>\n<Icon.Rad />\n</Tabs>",
]


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("indent", ["", "- "])
def test_what_elements_say_to_be_markdown_is_read_as_such(element, indent):
    marked = element.replace("|", CONTENT) + "\n\n«Ende.»"
    lines = marked.replace("\n", "\n  ") if indent else marked
    check_marked(".md", f"{indent}{lines}\n")
    check_marked(".md", '<p markdown="span">«Ein» *«Rad»* [«ist»](u) «da.»</p>\n')


@pytest.mark.parametrize("tag", ["div", 'div markdown="0"', "DIV", "Div"])
def test_what_other_elements_have_is_read_as_html(tag):
    text = f"<{tag}>\n2 * 3 *Rad* und\n</{tag.split()[0]}>\n"
    assert sentences_of(".md", text) == ["2 * 3 *Rad* und"]
    indented = '<div markdown="1">\n    «Ein Rad»\n</div>\n<Tabs>\n    «ist da»\n</Tabs>\n'
    check_marked(".md", indented)  # it would be code in Markdown


@pytest.mark.parametrize(
    ("table", "cells"),
    [
        ("|===\n|ein !Rad ja | so !da\n|===\n", ["ein !Rad ja", "so !da"]),
        ("|===\n|ja a| * ein Rad\n|===\n", ["ja", "ein Rad"]),
        (
            "|===\n|eins a| !===\n! zwei 2+! so\n!===\n|ja !so\n|===\n",
            ["eins", "zwei", "so", "ja !so"],
        ),
        ("|===\r\na|\r\n!===\r\n!zwei !so\r\n!===\r\n|===\r\n", ["zwei", "so"]),
        ("!===\n! eins ! zwei\n!===\n", ["eins", "zwei"]),
    ],
)
def test_cells_of_inner_tables_alone_are_between_exclamation_marks(table, cells):
    [field] = read_document(Path("a.adoc"), table.encode()).fields
    assert [segment.text for segment in segments(field.parts)] == cells


TABLES = [  # of AsciiDoc, with their cells
    ("[separator=¦]\n|===\n¦ein Rad 2+¦so | da\n|===\n", ["ein Rad", "so | da"]),
    ('[cols="1,1"]\n[separator=";"]\n.Rad\n|===\n;ja;so\n|===\n', ["Rad", "ja", "so"]),
    ("|===\n|ein|Rad \\| so\n|===\n", ["ein", "Rad | so"]),
    ("|===\na|\n!===\n! ein \\! so ! da\n!===\n|===\n", ["ein ! so", "da"]),
    ('[%header,format=csv]\n|===\nRad, "so, ja"\n"er\nja","ein ""Rad"" so"\n|===\n', None),
    (",===\nRad, so\n,===\n", ["Rad", "so"]),
    ('[format="tsv"]\n|===\nein, so\tja\n|===\n', ["ein, so", "ja"]),
    (":===\nRad:so\\: ja\n:===\n", ["Rad", "so: ja"]),
    ("[format=dsv,separator=;]\n|===\nRad;so: ja\n|===\n", ["Rad", "so: ja"]),
]


@pytest.mark.parametrize(("table", "cells"), TABLES)
def test_a_table_keeps_its_cells_whatever_is_translated_into_them(table, cells):
    cells = cells or ["Rad", "so, ja", "er ja", 'ein "Rad" so']
    assert sentences_of(".adoc", table) == cells
    answer = 'ja | "so", ja: da; so ! da ¦ ja'
    new = translated(".adoc", table, lambda _: answer)
    assert sentences_of(".adoc", new) == [answer] * len(cells)
    assert new.count("\n") == table.replace("er\nja", "er ja").count("\n")


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


@pytest.mark.parametrize("answer", ["{ja} so {", "so } ja", r"{\i1}so"])
def test_braces_of_subtitles_are_text_behind_a_backslash_alone(answer):
    start = "Dialogue: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,"
    marked = r"{\i1}«ein» \{«Rad ist» {\b1}«da»\} {Notiz}«und so»\N«ja»"
    assert check_marked(".ass", f"{start}{marked}\n") == {"translated": 1, "comments": 1}
    new = translated(".ass", f"{start}ein Rad\n", lambda _: answer)
    [segment] = segments(read_document(Path("a.ass"), new.encode()).fields[0].parts)
    assert "".join(segment.shown.get(sign, sign) for sign in segment.text) == answer


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
    [
        *("# ", "1. ", "- ", "> ", "=== ", "!!! x ", "::: ", ": ", "$$ ", "[a]: b ", "| a |"),
        *("---", "{:x}", "^^^", "+++"),
    ],
)
def test_a_translation_makes_no_other_block(start):
    text = "ein Rad\n\n- so\n\n> ja\n"
    new = translated(".md", text, lambda sentence: start + sentence)
    assert new != text and count_blocks(new.encode()) == count_blocks(text.encode())


SIGNS_OF_MARKDOWN = ["*", "_", "**", "__", "~~"]
TARGET_WORDS = ["字", "「字」", "word", "word,", "(word)", "€5", "ที่"]


@st.composite
def emphasised(draw, signs: list[str], depth: int = 0, around: str = "") -> str:
    """Words, some of them between signs; none of a sign inside of the same one."""
    pieces = draw(st.lists(st.sampled_from(["Wort", *signs]), min_size=1, max_size=4))
    for index, piece in enumerate(pieces):
        if piece == "Wort":
            continue
        if piece[0] in around or depth == 2:
            pieces[index] = "Haus"
        else:
            inside = draw(emphasised(signs, depth + 1, around + piece[0]))
            pieces[index] = f"{piece}{inside}{piece}"
    return " ".join(pieces)


def joined_words(words: list[str], space: str):
    """A translator whose words are these, one after the other."""
    waiting = cycle(words)
    return lambda sentence: space.join(next(waiting) for _ in sentence.split())


@settings(max_examples=200)
@given(
    emphasised(SIGNS_OF_MARKDOWN),
    st.lists(st.sampled_from(TARGET_WORDS), min_size=1, max_size=6),
    st.sampled_from(["", "", " "]),
)
def test_emphasis_of_markdown_is_read_as_such_wherever_it_is(source, words, space):
    new = translated(".md", f"{source}\n", joined_words(words, space))
    parser = MarkdownIt("commonmark").enable("strikethrough")

    def emphases(text: str) -> Counter[str]:
        [block] = parser.parseInline(text)
        kinds = Counter(child.tag for child in block.children if child.nesting == 1)
        html = [child.content for child in block.children if child.type == "html_inline"]
        kinds += Counter(tag.strip("<>") for tag in html if not tag.startswith("</"))
        kinds["s"] += kinds.pop("del", 0)
        return kinds

    assert emphases(new) == emphases(source)
    [block] = parser.parseInline(new)
    assert not re.search("[*_~]", "".join(each.content for each in block.children if not each.tag))


@settings(max_examples=200)
@given(
    emphasised(["*", "_", "#", "**", "__"]),
    st.lists(st.sampled_from(TARGET_WORDS), min_size=1, max_size=6),
    st.sampled_from(["", "", " "]),
)
def test_emphasis_of_asciidoc_is_read_as_such_wherever_it_is(source, words, space):
    """A doubled sign counts everywhere, a single one only where it touches no word."""
    new = translated(".adoc", f"{source}\n", joined_words(words, space))
    text = re.sub("[\u0e35\u0e48]", "v", new)  # vowel signs, which `re` takes for no letters
    counts = Counter[str]()
    for sign in "*_#":
        name = re.escape(sign)
        pair = r"<\1>"
        text, doubled = re.subn(f"{name}{name}(.+?){name}{name}", pair, text)
        single = rf"(?<![\w;:}}]){name}(\S|\S.*?\S){name}(?!\w)"
        text, alone = re.subn(single, pair, text)
        counts[sign] = doubled + alone
    assert not re.search("[*_#]", text)
    for sign in "*_#":
        assert counts[sign] == len(re.findall(rf"(?:{re.escape(sign)})+", source)) // 2


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
    (".md", "```{note}\n"),
    (".mdx", "> "),
    (".mdx", "<a b={"),
    (".adoc", "a"),
    (".adoc", "a::b["),
    (".adoc", "* "),
    (".srt", "1\n00:00:01,000 --> 00:00:02,000\nja\n\n"),
    (".html", '{{ "a" \''),
    (".txt", "{ab: ab "),
    (".md", "*a* "),
    (".md", "$ \\a "),
    (".adoc", "`a\n"),
    (".adoc", ',===\n"a,'),
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
    translated(".txt", f"% {'0' * 100_000}a", str.upper)
    translated(".html", f"<p><b>{'<i>Das</i> ist so. ' * 600}</b></p>", str.upper)
    assert time.process_time() - start < 5  # 30 s and more where each looks at all others


@pytest.mark.parametrize("thing", ["<!-- so -->", "<?so da?>", "<div>"])
def test_html_inside_a_paragraph_begins_no_line(thing):
    """There it would be a block of HTML, which ends the paragraph."""
    text = f"{'ein Rad ' * 9}und {thing} ist da\n{'ein Rad ' * 10}ist hier\n"
    for count in range(12):
        new = translated(".md", text, lambda sentence, count=count: "x " * count + sentence)
        assert new.count("\n") > 1 and f" {thing}" in new, new


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("- Das ist <!-- c --> **gut**", "- **gut** <!-- c --> ist Das"),
        ("**Das ist** <!-- c --> gut", "gut <!-- c --> **ist Das**"),
        ("Das <!-- a --> <!-- b --> ist", "ist <!-- a --> <!-- b --> Das"),
        ("Das ist\\\nso <!-- c --> gut", "gut\\\nso <!-- c --> ist Das"),
        ("# <!-- c --> Das ist", "# <!-- c --> ist Das"),
    ],
)
def test_a_comment_inside_a_text_does_not_come_to_its_beginning(text, wanted):
    new = reordered_bytes(".md", text.encode(), lambda words: words[::-1])
    assert new.decode() == wanted


@pytest.mark.parametrize("cut", range(0, 40, 4))
def test_code_that_begins_a_line_is_no_block(cut):
    """A line does not begin with three backticks where none did."""
    text = f"{'ein Rad ' * 12}ist da\nund ```Code``` {'ein Rad ' * 10}ist hier\n"
    new = translated(".md", text, lambda sentence: sentence[cut:])
    assert "```Code```" in new
    assert not re.search("(?m)^```", new)


@pytest.mark.parametrize(
    ("extension", "text"),
    [(".md", "## 1. Rad\n"), (".adoc", "== 1. Rad\n\n* . Rad\n\nRad:: - so\n\n...so\n")],
)
def test_what_stands_behind_a_sign_begins_no_block(extension, text):
    assert translated(extension, text, str.upper) == text.upper()

"""Files of messages and tables: each text in its place, each other byte as it was, and what is left
has its reason."""

import csv
import io
import json
import re
import time
from collections import Counter
from html import escape as escaped
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from document_walkers import property_texts
from documents import FakeTranslator, check_marked, sentences_of, translated, translated_bytes
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nmt.documents.android import android_escaped, android_plain
from nmt.documents.formats import read_document
from nmt.documents.gettext import open_po, texts_of
from nmt.documents.placement import NO_TEXT
from nmt.documents.translation import translate_document
from nmt.errors import UserError

few = settings(max_examples=60)
# What a model may write; no halves of characters, nor those that stand for units.
anything = st.text(
    st.characters(exclude_categories=["Cs", "Co"], exclude_characters="\x00"),
    min_size=1,
    max_size=25,
)


def shown_words(text: str) -> list[str]:
    """The words of a translation; a control character is written as a space."""
    return NO_TEXT.sub(" ", text).split()


def table(data: str, columns: str = "", change=str.upper, **options) -> tuple[str, Counter[str]]:
    document = read_document(Path("a.csv"), data.encode(), columns=columns, **options)
    counts = translate_document(document, "de", FakeTranslator(change))
    return document.write().decode(), counts


AROUND = {".xml": "<resources>{}</resources>", ".resx": "<root>{}</root>", ".ts": "<TS>{}</TS>"}
CDATA = "<![CDATA[«ja» <b>«gut»</b>]]>"
# What is in «…» is translated, and all else stays; what of it is counted as left, by its reason.
MARKED = [
    # JSON: a key that occurs twice, forms between bars, notes of ARB, escapes as in the file,
    # halves of characters.
    (".json", '{"a": "«eins»", "a": "«zwei»",\n "b": {"a": "«drei»"}}', {}),
    (".json", '["«kein Rad» | «ein Rad» | {n} «Räder»"]', {}),
    (".json", '["«Ja» <b>«gut»<\\/b>"]', {}),
    # Entries: one message, its names and what is said about it; in a table of labels all is text.
    (
        ".json",
        '[{"id": "rad", "translation": "«gut»"},\n {"id": "haus", "translation": {"one": "«ein '
        'Haus»", "other": "{{.N}} «Häuser»"}}]',
        {"marked as no text": 2},
    ),
    (
        ".json",
        '{"rad.a": {"id": "rad", "defaultMessage": "«gut»", "description": "für uns"},\n'
        '"haus": {"key": "haus", "value": "«ja»"}, "b": {"value": "«ja»", "comment": "«so»"}}',
        {"marked as no text": 2, "comments": 1},
    ),
    (
        ".json",
        '{"message": "«Rad»", "description": "«Haus»", "title": "«so»", "a": {"description": '
        '"«gut»", "value": 5}, "b": {"en": "«ja»", "id": "«so»"}}',
        {},
    ),
    (
        ".toml",
        '[rad]\ndescription = "für uns"\none = "«ein Rad»"\nother = "«Räder»"\n[b]\nid = "«so»"\n',
        {"comments": 1},
    ),
    (".json", '["«Rad»{{PLURAL:$1|chen|er}} «da»"]', {}),  # parts of words
    (".json", f'["«gut»", "ja \\ud83d", NaN, {"1" * 5000}]', {"half a character": 1}),
    (".json", '\ufeff{"a": "«gut»"}', {}),
    (".arb", '{"@@locale": "de", "a": "«gut»", "@a": {"description": "bleibt"}}', {"comments": 2}),
    (".json", '["<p>«gut»</p><p>«ja» <link>«so»</link></p>", "ja <b"]', {"with broken HTML": 1}),
    (".json", '["<Kein Rad>", "<br>", "<b>«gut»</b>"]', {"with broken HTML": 1}),
    # YAML: anchors, tags and symbols, keys of any kind, blocks, several documents.
    (
        ".yaml",
        "a: &x «ein Rad» # k\nb: *x\nc: :name\nd: !secret weg\ne: yes\n",
        {"marked as no text": 3},
    ),
    (".yaml", "de:\n  'a b': '«gut»'\n  ? [x y, z]\n  : \"«ja»\"\n", {}),
    (".yaml", "a: &x «gut»\nb: &x «ja»\nc: *x\nd: &x [«so»]\ne: *x\n", {}),
    (
        ".yaml",
        "a: &x # so\n  # ja\n\n  «gut»\nb: !!str # so\n  «ja» # so\nc: &y # so\n  |\n  «gut»\n",
        {},
    ),
    (".yaml", "- |+\n  «eins»\n\n    «zwei»\n\n- >-  # k\n  «drei»\n\n  «vier»\n", {}),
    (".yaml", "---\na: «gut»\n...\n---\n{b: «ja», c: [«so»]}\n", {}),
    (
        ".yaml",
        "- id: rad\n  description: für uns\n  one: «ein Rad»\n  other: «Räder»\n"
        "- {id: «so», description: «gut»}\n- {description: «gut», other: 5}\n",
        {"marked as no text": 1, "comments": 1},
    ),
    # Names for a program in data, but hyphens of words in what is written for people
    (
        ".json",
        '{"css": "nav navbar-light", "b": "fa-paw", "c": "«zu e-mail da»", "d": "«am 2024-05»"}',
        {"without words": 2},
    ),
    (".yaml", "icon: fa-paw\na: «E-Mail»\n", {"without words": 1}),
    (".xml", '<string name="a">«rendez-vous»</string>', {}),
    # Properties: quotation marks of MessageFormat, continued lines.
    (".properties", "# bleibt\na = «gut»\nb:«ja»\n c  «so»", {}),
    (".properties", "a=«l''eau» {0} \\: «gut»\n", {}),
    (".properties", "a=«eins zwei» \\\n   «drei»\nb=\nc\n", {}),
    # RESX: types, names of parts of windows, comments.
    (".resx", '<data name="a"><value>«gut» &lt;b&gt;«ja»&lt;/b&gt;</value></data>', {}),
    (
        ".resx",
        '<data name="a"><value>«gut»</value><comment>für uns</comment></data>',
        {"comments": 1},
    ),
    (".resx", '<data name="&gt;&gt;a.Name"><value>gut</value></data>', {"marked as no text": 1}),
    (
        ".resx",
        '<data name="a" type="System.Drawing.Size"><value>ja</value></data>',
        {"marked as no text": 1},
    ),
    (".resx", '<data name="a" mimetype="x"><value>so</value></data>', {"marked as no text": 1}),
    # Android: what is not translatable, references, arrays, escapes, CDATA, groups of xliff.
    (".xml", '<string name="a" translatable="false">gut</string>', {"protected": 1}),
    (
        ".xml",
        '<string-array name="a" translatable="false"><item>gut</item></string-array>',
        {"protected": 1},
    ),
    (".xml", '<string name="a">@string/b</string>', {"without words": 1}),
    (".xml", '<color name="a">rot</color>', {"marked as no text": 1}),
    (
        ".xml",
        '<string-array name="a"><item>«gut»</item><item>«ja»\\n«so»</item></string-array>',
        {},
    ),
    (".xml", "<string name='a'>«l\\'eau» \\\"«gut»\\\" &amp; «so»</string>", {}),
    (".xml", f"<string name='a'>{CDATA}</string>", {}),
    (
        ".xml",
        "<string name='a'>«ja» <xliff:g id='n'>das <b>Rad</b></xliff:g> «gut» <b>«so»</b></string>",
        {},
    ),
    # Qt: finished and obsolete messages, comments.
    (
        ".ts",
        "<message><source>ja</source><translation>yes</translation></message>",
        {"already translated": 1},
    ),
    (
        ".ts",
        '<message><source>ja</source><translation type="vanished">yes</translation></message>',
        {"obsolete": 1},
    ),
    (
        ".ts",
        "<message><source>1</source><extracomment>das Rad</extracomment></message>",
        {"comments": 1},
    ),
    # PO: what is obsolete.
    (".po", '#~ msgid "weg"\n#~ msgstr "gone"\n', {"obsolete": 1}),
    # TOML: strings keep their kinds.
    (".toml", "a = '«gut»'\nb = '''\n«ja»'''\nc = \"\"\"«so»\n«da»\"\"\" # k\n", {}),
]


@pytest.mark.parametrize(("extension", "marked", "left"), MARKED)
def test_texts_in_their_places(extension, marked, left):
    marked = AROUND.get(extension, "{}").replace("{}", marked)
    counts = check_marked(extension, marked)
    del counts["translated"]
    assert +counts == left


TARGETLESS = (
    "<xliff version='1.2'><file><body><trans-unit id='a'><source>{}</source></trans-unit>"
    "</body></file></xliff>"
)
WITH_BLOCKS = [
    (".json", '["{}"]'),
    (".json", '["{n, plural, one {{}} other {#}}"]'),
    (".xml", "<resources><string name='a'>{}</string></resources>"),
    (".xml", "<resources><string name='a'><![CDATA[{}]]></string></resources>"),
    (".xlf", TARGETLESS),
    (".xlf", TARGETLESS.replace("{}", "<![CDATA[{}]]>")),
]


@pytest.mark.parametrize(("extension", "around"), WITH_BLOCKS)
@pytest.mark.parametrize("name", ["li", "P", "h2"])
def test_tags_of_blocks_are_between_texts(extension, around, name):
    blocks = f"<{name}>Rot</{name}><{name}>Das <b>Haus</b> ist gut</{name}><hr/>Der Weg"
    is_escaped = extension == ".xlf" and "CDATA" not in around
    text = around.replace("{}", escaped(blocks) if is_escaped else blocks)
    assert sentences_of(extension, text) == ["Rot", "Das Haus ist gut", "Der Weg"]


@pytest.mark.parametrize("extension", AROUND)
def test_references_to_the_entities_of_a_file_stay(extension):
    element = {
        ".xml": "<string name='a'>{}</string>",
        ".resx": "<data name='a'><value>{}</value></data>",
        ".ts": f"<message><source>x</source>{UNFINISHED}</message>",
    }[extension]
    text = AROUND[extension].format(element.format("Fahr &app; &amp; dahin"))
    root = text[1 : text.index(">")]
    text = f"<!DOCTYPE {root} [<!ENTITY app 'Rad'>]>\n{text}"
    if extension == ".ts":
        text = text.replace("<source>x", "<source>Fahr &app; &amp; dahin")
    new = translated(extension, text, str.upper)
    assert new.count("FAHR &app; &amp; DAHIN") == 1


def test_no_text_of_a_large_file_looks_through_all_of_it():
    texts = "<string name='a'>gut</string>" * 500
    start = time.process_time()
    translated(".xml", f"<resources><!--{'x' * 20_000_000}-->{texts}</resources>", str.upper)
    assert time.process_time() - start < 3


HEADER = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset={}\\n"\n\n'
UTF_8_HEADER = HEADER.format("UTF-8")
DECLARED = "<?xml version='1.0' encoding='{}'?>"


@pytest.mark.parametrize("stated", ["ASCII", "us-ascii", "CHARSET"])
def test_a_file_that_states_ascii_is_read_again(stated):
    """A header of gettext states UTF-8 then; XML has references."""
    text = 'msgid "Rad"\nmsgstr ""\n'
    new = translated(".po", HEADER.format(stated) + text, lambda _: "Räder")
    assert new.startswith(UTF_8_HEADER) and 'msgstr "Räder"' in new
    assert translated(".po", HEADER.format(stated) + text, str.upper).startswith(
        HEADER.format(stated)
    )
    if stated == "CHARSET":
        return
    page = f"<meta charset={stated}><p title='Rad'>Rad <b>so</b> {{x}}</p>"
    new = translated(".html", page, lambda each: each.replace("Rad", "Räder"))
    assert new == page.replace("Rad", "R&#228;der")
    for string in ("Rad", "<![CDATA[Rad]]>", "<b>Rad %s</b>", "<b>Rad</b> ja"):
        text = f"{DECLARED.format(stated)}<resources><string name='a'>{string}</string></resources>"
        data, _ = translated_bytes(".xml", text.encode(), lambda each: each.replace("Rad", "Rä&日"))
        shown = "".join(ElementTree.fromstring(data).itertext())
        plain = "".join(ElementTree.fromstring(text).itertext())
        assert data.isascii() and shown == plain.replace("Rad", "Rä&日")


UNFINISHED = '<translation type="unfinished">{}</translation>'
NUMBERS = "    <numerusform>{}</numerusform>    <numerusform>{}</numerusform>"
REWRITTEN = [
    # Letters are escaped if the file escapes them, and none is there without.
    (".json", '["Rad ü", "gut \\u2026"]', '["RAD Ü", "GUT …"]'),
    (".yaml", 'a: Rad ü\nb: "gut \\x40"\n', 'a: RAD Ü\nb: "GUT @"\n'),
    (".json", '["gut \\u00fc"]', '["GUT \\u00dc"]'),
    (".yaml", 'a: "ja \\u00fc"\n', 'a: "JA \\xDC"\n'),
    (".properties", "a = gut \\u00fc\n", "a = GUT \\u00DC\n"),
    (".yaml", "a: eins\n\n  zwei\nb: 'drei\n\n  vier'\n", 'a: "EINS\\nZWEI"\nb: "DREI\\nVIER"\n'),
    (".yaml", "a: >\n  eins\n  zwei\n\nb: drei\n  vier\n", "a: >\n  EINS ZWEI\n\nb: DREI VIER\n"),
    # What is unfinished, fuzzy or a copy of its source is translated anew.
    (
        ".ts",
        f"<source>gut</source>{UNFINISHED.format('well')}",
        f"<source>gut</source>{UNFINISHED.format('GUT')}",
    ),
    (
        ".ts",
        f"<source>gut</source><translation>{NUMBERS.format('well', '')}</translation>",
        f"<source>gut</source>{UNFINISHED.format(NUMBERS.format('GUT', 'GUT'))}",
    ),
    (
        ".ts",
        "<source>gut</source><translation>gut</translation>",
        f"<source>gut</source>{UNFINISHED.format('GUT')}",
    ),
    (".ts", "\n <source>gut</source>\n", f"\n <source>gut</source>\n {UNFINISHED.format('GUT')}\n"),
    (
        ".ts",
        "<source>it&apos;s</source>",
        f"<source>it&apos;s</source>{UNFINISHED.format('IT&apos;S')}",
    ),
    (".po", 'msgid "gut"\nmsgstr "gut"\n', '#, fuzzy\nmsgid "gut"\nmsgstr "GUT"\n'),
    (".po", '#, fuzzy\n#| msgid "alt"\nmsgctxt "x"\nmsgid "gut"\nmsgstr "old"\n', None),
]


@pytest.mark.parametrize(("extension", "text", "wanted"), REWRITTEN)
def test_texts_as_their_files_write_them(extension, text, wanted):
    around = "<TS><message>{}</message></TS>" if extension == ".ts" else "{}"
    wanted = wanted or text.replace("old", "GUT")
    assert translated(extension, around.replace("{}", text), str.upper) == around.replace(
        "{}", wanted
    )


@given(st.text('|. a{}\n"', max_size=12))
@few
def test_any_message_can_be_read(message):
    written = json.dumps([message])
    assert translated(".json", written) == written


def test_unsure_words_of_a_message_without_a_translation():
    data, _ = translated_bytes(
        ".ts", b"<TS><message><source>gut</source></message></TS>", unsure={"GUT"}
    )
    comment = "<translatorcomment>Unsure: GUT</translatorcomment>"
    assert f"<source>gut</source>{comment}{UNFINISHED.format('GUT')}</message>" in data.decode()


def test_nothing_translated_is_nothing_changed():
    """Even where a library would write it in another way."""
    for extension, text in (
        (".po", 'msgid   "gut"\nmsgstr  "well"\n'),
        (".toml", "a=1\n"),
        (".yaml", "a:   [ x ,y ]\n"),
    ):
        assert translated(extension, text) == text


# --------------------------------------------------------------------------------------------------
# YAML


def test_words_of_yaml_1_1_stay_texts():
    """For PyYAML all values have the types that they had, whatever the translation is."""
    words = (
        "Yes no ON off y N null ~ true 12 1_000 12e3 0o14 1.5 2001-12-14 = << a:b #c - ? x [a] "
        "{b} *d &e"
    ).split()
    words += "!f %g @h `i 'j".split()
    text = "".join(
        f"- Wort\n- [das Wort, x: 'Wort']\n- \"Wort {index}\"\n" for index in range(len(words))
    )
    found = iter(word for word in words for _ in range(4))
    data = translated(".yaml", text, lambda _: next(found))
    before = yaml.safe_load(text)
    after = yaml.safe_load(data)
    assert json.dumps(before) != json.dumps(after)
    plain = [value for value in after if isinstance(value, str)]
    assert plain[::2] == words and len(plain) == 2 * len(words)
    assert all(type(value) is type(old) for value, old in zip(after, before, strict=True))
    for word in ("y", "N", "12e3", "0o14", "1_000"):  # text for PyYAML, but not for all
        assert f"- '{word}'\n" in data


@few
@given(
    st.lists(anything.map(lambda text: "".join(shown_words(text)) or "x"), min_size=6, max_size=6)
)
def test_any_translation_is_read_again_from_yaml(words):
    text = "a: Wort\nb: 'Wort'\nc: \"Wort\"\nd: [Wort]\ne: |\n  Wort\n  1\nf: >-\n  Wort\n\n  2\n"
    new = iter(words)
    seen = yaml.safe_load(translated(".yaml", text, lambda _: next(new)))
    assert [seen["a"], seen["b"], seen["c"], *seen["d"]] == words[:4]
    assert [seen["e"], seen["f"]] == [f"{words[4]}\n1\n", f"{words[5]}\n2"]


def test_limits_of_yaml():
    deep = "".join(
        f"a{level + 1}: &a{level + 1} [{', '.join([f'*a{level}'] * 9)}]\n" for level in range(8)
    )
    for text, wanted in {
        f"a0: &a0 [ja]\n{deep}": "its aliases stand for more than 1,000,000 values",
        "[" * 200 + "]" * 200: "more than 100 lists or mappings are inside each other",
        "a: *b\n": "nothing is named by &b",
    }.items():
        with pytest.raises(UserError, match=wanted):
            read_document(Path("a.yaml"), text.encode())


CUE = "1\n00:00:01,000 --> 00:00:03,000\nEin Junge.\n\n"


@pytest.mark.parametrize(
    ("name", "data", "wanted"),
    [
        ("a.json", b"[" * 5000, "more than 100 lists or objects"),
        ("a.json", b'{"a": "x" "b"}', "this is not JSON"),
        ("a.toml", 'a = "x"\nb = [', "this is not TOML"),
        ("a.json", '{"a": "x",\n // so\n "b": 1}', "line 2: this is not JSON (JSON has no comm"),
        ("a.json", '{"a": "x",\n}', "a.json, line"),
        ("a.json", '\ufeff{"a":\n "x\ty"}', "a.json, line 2: this is not JSON"),
        ("a.toml", b"a = " + b"[" * 5000, "more than 100 lists"),
        (
            "a.xml",
            b"<svg><text>ja</text></svg>",
            "its root is <svg>; of XML, only Android's <resources>",
        ),
        ("a.ts", b"const a: string = 'ja';", "only those of Qt Linguist"),
        ("a.ts", b"\xef\xbb\xbf\n<TS", "this is not XML"),
        ("a.ts", b"<a/>", "its root is <a> and not <TS>"),
        ("a.resx", b"<a>" * 200, "more than 100 elements are inside each other"),
        ("a.resx", b'<?xml version="1.0" encoding="latin1"?><root/>', "its encoding is latin1"),
        (
            "a.resx",
            b"<root>\n<data name='a'><value>so <b>ja</b></value></data></root>",
            "line 2: <value> has a tag",
        ),
        (
            "a.resx",
            b"<root><data name='a'><value>so<!-- ja --></value></data></root>",
            "<value> has a tag or a comment",
        ),
        (
            "a.ts",
            b"<TS><message><source>so <b>ja</b></source></message></TS>",
            "line 1: <source> has <b> inside",
        ),
        (
            "a.ts",
            b"<TS><message><source>so</source><translation><b/></translation></message></TS>",
            "<translation> has <b> inside",
        ),
        ("a.properties", b"a=\0", "a NUL character"),
        ("a.html", b"<p>gut</p>\nM\xfcller", "a.html, line 2, is not UTF-8"),
        ("a.html", "Ja.\n<p class='x>gut</p>", "a.html, line 2: the tag <p has no end."),
        ("a.html", "<meta charset='latin-1'><p>gut", "its encoding is latin-1"),
        ("a.txt", b"gut\n\0", "a.txt, line 2: a NUL character"),
        ("a.srt", "Ein Junge.\n", "a.srt: there is no line of times"),
        (
            "a.srt",
            f"{CUE}00:00:05 --> 00:00:06\nJa.\n",
            "a.srt, line 5: this is not a line of times",
        ),
        ("a.po", 'msgid "a"\nmsgstr "', "a.po: translate-toolkit cannot read it"),
        ("a.yaml", "a: [b", "a.yaml, line 1: this is not YAML"),
        ("a.yaml", "a:\n\tb: so", "a.yaml, line 2: this is not YAML"),
        ("a.yaml", 'a: "ja"\nb: "\\ud800 so"\n', "a.yaml, line 2: this is not YAML"),
        ("a.yaml", "a: ja\nb: s\ao\n", "line 2: this is not YAML (YAML has no character U+0007)"),
        ("a.po", 'msgid ""\n"Content-Type: text/plain; charset=CP1252\\n"\n', "CP1252"),
        ("a.po", 'msgid ""\n"Content-Type: text/plain; charset= koi8-r\\n"\n', "koi8-r"),
        ("a.po", b'msgid "a"\nmsgstr "\xe9"\n', "a.po, line 2, is not UTF-8"),
        ("a.xlf", "<xliff>\n<file></xliff>", "a.xlf, line 2: the file is not well-formed XML"),
        ("a.xlf", "<html></html>", "a.xlf: an XLIFF file has the root element xliff, not html"),
        ("a.xlf", '<!DOCTYPE x [<!ENTITY a "b">]><xliff/>', "has entities of its own"),
        ("a.xlf", '<?xml version="1.0" encoding="latin1"?><xliff/>', "convert it to UTF-8"),
    ],
)
def test_what_cannot_be_read_is_refused(name, data, wanted):
    with pytest.raises(UserError) as error:
        read_document(Path(name), data.encode() if isinstance(data, str) else data)
    assert wanted in str(error.value) and "\n" not in str(error.value)


# --------------------------------------------------------------------------------------------------
# Properties


def test_encodings_of_properties():
    latin, _ = translated_bytes(
        ".properties", "a=Rad über\n".encode("latin-1"), lambda text: f"{text.upper()} €"
    )
    assert latin == "a=RAD ÜBER \\u20AC\n".encode("latin-1")
    assert (
        translated(".properties", "a=Rad über\n", lambda text: f"{text.upper()} €")
        == "a=RAD ÜBER €\n"
    )
    assert (
        translated(".properties", "a=Rad\n", lambda _: "\U0001f6b2 ü")
        == "a=\\uD83D\\uDEB2 \\u00FC\n"
    )


@few
@given(anything.filter(lambda text: shown_words(text) == [text] and "<" not in text))
def test_any_translation_is_read_again_from_properties(word):
    text = "a=Wort\nb = Wort \\: ja\nc=eins \\\n  Wort\n"
    data = translated(".properties", text, lambda sentence: sentence.replace("Wort", word))
    wanted = [value.replace("Wort", word) for value in ("Wort", "Wort : ja", "eins Wort")]
    assert [" ".join(value.split()) for value in property_texts(data.encode())] == wanted


def message_format(pattern: str) -> str:
    """What Java's MessageFormat shows, each argument as ◆; between apostrophes { is a sign."""
    text = ""
    is_quoted = False
    for part in re.findall(r"\'\'|\'|\{\d\}|[^\'{]+|\{", pattern):
        if part == "'":
            is_quoted = not is_quoted
        elif part == "''":
            text += "'"
        else:
            text += "◆" if part == "{0}" and not is_quoted else part
    return text


@pytest.mark.parametrize("value", ["Rad {0}", "l''eau: Rad {0}", "'{'0'}' Rad '{1}' {0}"])
@pytest.mark.parametrize("word", ["wheel", "it's", "d'a'b", "rock'n'roll's"])
def test_arguments_of_a_message_stay_arguments(value, word):
    """An apostrophe of the translation is shown, and makes no sign of what a program fills in."""
    data = translated(".properties", f"a={value}\n", lambda text: text.replace("Rad", word))
    (new,) = property_texts(data.encode())
    assert message_format(new) == message_format(value).replace("Rad", word)


def test_an_apostrophe_beside_an_argument_quotes_it_only_where_it_did():
    for value, wanted in (("Datei it's Rad{0}", "it''s d''{0}"), ("der'{0}' Rad {0}", "d' {0}")):
        data = translated(".properties", f"a={value}\n", lambda text: text.replace("Rad", "d'"))
        assert data.endswith(f"{wanted}\n")


ICU = "{n, plural, one {# Wort{name}} other {# Räder, Wort}} und {n} Wort{name}"
AROUND_ICU = {
    '["{}"]': ".json",
    "[\"l''eau {}\"]": ".json",
    "a: {}\n": ".yaml",
    "a={}\n": ".properties",
    "a=l''eau {}\n": ".properties",
}


@pytest.mark.parametrize("around", AROUND_ICU)
@pytest.mark.parametrize("word", ["d'", "l'd'", "it's", "d'''"])
def test_no_apostrophe_of_a_translation_quotes_an_argument_of_icu(around, word):
    """Two of them are shown as one; a single one before a brace begins a quotation."""
    source = around.replace("{}", f"Die {ICU}")
    new = translated(AROUND_ICU[around], source, lambda text: text.replace("Wort", word))
    shown = new.replace("''", "’")
    assert not re.search(r"'[{}#]", shown)
    squeezed = re.sub("['’]+", "’", shown)
    assert re.sub("'+", "’", f"Die {ICU.replace('Wort', word)}") in squeezed


# --------------------------------------------------------------------------------------------------
# Android


def android_texts(data: str) -> list[str]:
    """The strings as Android shows them: outside quotation marks each run of spaces is one."""
    texts = []
    for element in ElementTree.fromstring(data).iter("string"):
        raw = "".join(element.itertext()).strip()
        is_reference = raw.startswith(("@", "?")) and len(element) == 0
        assert not is_reference
        text = ""
        is_quoted = False
        for escape, quote, plain in re.findall(r'\\(u....|.)|(")|([^\\"]+)', raw, re.DOTALL):
            is_quoted ^= bool(quote)
            text += plain if is_quoted else re.sub(r"\s+", " ", plain)
            text += chr(int(escape[1:], 16)) if escape[1:] else escape
        texts.append(text)
    return texts


@few
@given(
    st.sampled_from(["Wort", '"Wort"', "<![CDATA[Wort]]>", "\n  Wort\n", "<b>Wort</b>"]),
    st.sampled_from(["", "@", "?", "'"]),
    st.text(st.characters(max_codepoint=0xFFFD, categories="LNPSM"), min_size=1, max_size=12),
)
def test_any_translation_is_read_again_from_android(string, start, word):
    text = f"<resources><string name='a'>{string}</string></resources>"
    assert android_texts(translated(".xml", text, lambda _: start + word)) == [start + word]


@given(st.text(max_size=8), st.sets(st.sampled_from(list("'\"\\a \n"))))
@example("l'ami", {"'"})
def test_an_escaped_text_of_android_is_the_text(text, codes):
    assert android_plain(android_escaped(text, codes)) == text


@pytest.mark.parametrize("sign", ["@", "?"])
def test_a_string_with_a_placeholder_is_no_reference(sign):
    """Android takes <xliff:g> out, and then reads what is left as a text or a reference."""
    text = (
        "<resources xmlns:xliff='x'><string name='a'>{} <xliff:g>%s</xliff:g></string></resources>"
    )
    new = translated(".xml", text.format("Anna"), lambda each: each.replace("Anna", f"{sign}anna"))
    assert new == text.format(f"\\{sign}anna")


# --------------------------------------------------------------------------------------------------
# Gettext


@pytest.mark.parametrize("count", [1, 2, 3, 6])
def test_the_first_form_is_the_singular_unless_it_is_the_only_one(count):
    header = f'msgid ""\nmsgstr "Plural-Forms: nplurals={count}; plural=0;\\n"\n\n'
    text = f'{header}msgid "ein Rad"\nmsgid_plural "%d Räder"\nmsgstr[0] ""\n'
    forms = re.findall(r'msgstr\[\d\] "(.*)"', translated(".po", text, str.upper))
    assert forms == (["%d RÄDER"] if count == 1 else ["EIN RAD"] + ["%d RÄDER"] * (count - 1))


PLACEHOLDER = "Plural-Forms: nplurals=INTEGER; plural=EXPRESSION;\\n"
TWO = ["EIN RAD", "%d RÄDER"]


@pytest.mark.parametrize("line", ["", PLACEHOLDER])
@pytest.mark.parametrize(
    ("language", "count"),
    [("en", 2), ("deu_Latn", 2), ("pt-BR", 2), ("ru", 3), ("zho_Hans", 1), ("no", 2), ("ar", 6)],
)
def test_a_template_gets_the_plural_rule_of_the_language(language, count, line):
    """And as many forms, also in what is not translated; msgfmt refuses other files."""
    header = f'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n{line}"\n\n'
    empty = 'msgid "%d"\nmsgid_plural "%d %s"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    words = 'msgid "ein Rad"\nmsgid_plural "%d Räder"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    document = read_document(Path("a.pot"), f"{header}{words}\n{empty}".encode())
    translate_document(document, "de", FakeTranslator(str.upper))
    document.language = language
    data = document.write()
    store = open_po(data)
    assert store.getheaderplural()[0] == str(count) and data.count(b"Plural-Forms") == 1
    full, other = [texts_of(unit.target) for unit in store.units[1:]]
    assert full == ((TWO + TWO[1:] * 4)[:count] if count > 1 else TWO[1:])
    assert other == [""] * count
    assert document.write() == data


@pytest.mark.parametrize(("language", "done"), [("", ""), ("tlh", ""), ("ru", "a wheel")])
def test_a_plural_rule_that_cannot_be_completed_is_told(language, done, caplog):
    """No rule is known, or a person has translated into another number of forms."""
    header = f'msgid ""\nmsgstr "{PLACEHOLDER}"\n\nmsgid "ja"\nmsgstr ""\n\n'
    forms = f'msgid "ein Rad"\nmsgid_plural "%d Räder"\nmsgstr[0] "{done}"\nmsgstr[1] "{done}"\n'
    document = read_document(Path("a.po"), (header + forms).encode())
    translate_document(document, "de", FakeTranslator(str.upper))
    document.language = language
    store = open_po(document.write())
    assert "nplurals=INTEGER" in str(store.units[0])
    assert len(texts_of(store.units[2].target)) == 2
    assert "Plural-Forms" in caplog.text


# --------------------------------------------------------------------------------------------------
# Tables

SHOP = (
    'sku;name;text;english\r\n1;Rad;"ein ""rotes"" Rad;\nneu";\r\n2;Rad;das Rad;the '
    "wheel\r\n\r\n3;Tür\r\n"
)


def test_a_column_is_translated_into_another():
    new, counts = table(SHOP, "3:4")
    assert new == SHOP.replace('neu";', 'neu";"EIN ""ROTES"" RAD;\nNEU"')
    assert counts == {
        "translated": 2,
        "already translated": 1,
        "names of columns": 4,
        "in other columns": 3,
    }
    assert table(SHOP, "text:english")[0] == new
    assert table(SHOP, "3:4", retranslate=True)[0] == new.replace("the wheel", "DAS RAD")
    assert table(SHOP, "name:english")[0] == SHOP.replace('neu";', 'neu";RAD').replace(
        "3;Tür", "3;Tür;;TÜR"
    )


def test_all_cells_may_be_quoted():
    """Though a quotation mark with text behind it is refused: it says nothing about where its cell
    ends."""
    assert table('"source","target"\n"das ""Rad""",""\n')[0] == (
        '"source","target"\n"das ""Rad""","DAS ""RAD"""\n'
    )
    with pytest.raises(UserError, match="line 2: a quotation mark has no end, or text behind it"):
        table('source,target\n"das" Rad,\n')
    assert table('source\ttarget\n"das" Rad\t\n')[0] == 'source\ttarget\n"das" Rad\t"""DAS"" RAD"\n'


def test_a_column_is_replaced_by_its_translation():
    new, counts = table("\ufeffid\ttext\n1\tdas Rad\n2\t\n", "2:2")
    assert new == "\ufeffid\ttext\n1\tDAS RAD\n2\t\n" and counts["translated"] == 1
    stated = "\ufeffsep=;\nsource;target\ndas Rad;\n"
    assert table(stated)[0] == stated.replace("Rad;", "Rad;DAS RAD")


@pytest.mark.parametrize(
    "names", ["source,x,target", "de,x,en", "de-AT,x,en_US", "German,x,English"]
)
def test_columns_are_found_by_their_names(names):
    data = f"{names}\nein Rad,ja,\ndas Rad,ja, das Rad\n"  # the second is a copy
    new, counts = table(data, languages=("de", "en"))
    assert (
        new == (f"{names}\nein Rad,ja,EIN RAD\ndas Rad,ja,DAS RAD\n")
        and counts["in other columns"] == 2
    )


@pytest.mark.parametrize(
    ("data", "columns", "wanted"),
    [
        (
            "sku,name_de,name_en\n1,Rad,\n",
            "",
            "say it with --columns, such as .* 1 sku, 2 name_de, 3 name_en",
        ),
        ("de,de,en\nRad,Tür,\n", "", "say it with --columns"),
        ("a,b\nRad,\n", "1:3", "--columns: there is no column 3. Its columns are: 1 a, 2 b"),
        ("a,a\nRad,\n", "a:2", "two columns are named a"),
        ("a,b\nRad,,zu viel\n", "1:2", "line 2: 3 cells, but 2 columns have a name"),
        ("", "", "Its columns are: none"),
    ],
)
def test_a_table_whose_columns_are_unknown_is_refused(data, columns, wanted):
    with pytest.raises(UserError, match=wanted):
        table(data, columns, languages=("de", "en"))


@pytest.mark.parametrize("separator", ",;\t|")
@pytest.mark.parametrize("other", ",;\t|")
def test_the_sign_that_divides_the_columns_is_found(separator, other):
    """Names of columns may have other ones; with a tab, as many as they like."""
    rest = ["rest", "x", "y", "z"][: 4 if separator == "\t" else 2]
    names = ["source", "target", other.join(rest)]
    if other == separator or (other == "\t" and separator != "\t"):
        names[2] = "rest"
    row = separator.join(["das Rad", "", "1"])
    text = f"{separator.join(names)}\n{row}\n"
    assert table(text, "1:2")[0] == text.replace(f"Rad{separator}", f"Rad{separator}DAS RAD")


cells = st.text(st.sampled_from(list('abc ,;|\t"\n') + ["'", "ü"]), max_size=6)


@few
@given(
    st.lists(st.lists(cells, min_size=3, max_size=3), min_size=1, max_size=6),
    st.sampled_from(",;\t|"),
    st.data(),
)
def test_any_table_keeps_its_cells(rows, separator, data):
    output = io.StringIO(newline="")
    quoting = data.draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
    writer = csv.writer(
        output,
        delimiter=separator,
        quoting=quoting,
        lineterminator=data.draw(st.sampled_from(["\n", "\r\n"])),
    )
    writer.writerows([["source", "x", "target"], *rows])
    new, _ = table(f"sep={separator}\n{output.getvalue()}", retranslate=True)
    found = list(csv.reader(io.StringIO(new.partition("\n")[2], newline=""), delimiter=separator))
    assert len(found) == len(rows) + 1
    for row, old in zip(found[1:], rows, strict=True):
        assert row[:2] == old[:2]
        has_words = any(letter in old[0] for letter in "abcü")
        assert "".join(row[2].split()) in ("".join(old[0].split()).upper(), "".join(old[2].split()))
        assert has_words or row[2] == old[2]

"""What tests of documents share: a translator that applies a function, and a sample of each
format."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from nmt.documents.formats import read_document
from nmt.documents.memory import TranslationMemory
from nmt.documents.placement import TranslatedSentence
from nmt.documents.translation import translate_document
from nmt.documents.word_weights import WordWeights, whole_words


class FakeTranslator:
    """Applies a function to each sentence; word i of the result comes from word i of the sentence,
    or from the end. Before word `first` are words that come from nowhere.

    `unsure`: words that are so wherever they are written; None: nobody asks.
    """

    names_unsure = True

    def __init__(
        self,
        change: Callable[[str], str],
        keeps_units: bool = True,
        backwards: bool = False,
        memory: TranslationMemory | None = None,
        unsure: set[str] | None = None,
        first: int = 0,
    ) -> None:
        self.change = change
        self.keeps_units = keeps_units
        self.backwards = backwards
        self.memory = memory
        self.unsure = unsure
        self.first = first

    def translate(
        self, sentences: Sequence[str], weighed: Sequence[bool]
    ) -> Iterator[TranslatedSentence]:
        for sentence, weigh in zip(sentences, weighed, strict=True):
            text = self.change(sentence if self.keeps_units else " ".join(sentence.split()))
            unsure = self.unsure
            if unsure is not None:
                unsure = [word for word in text.split() if word in unsure]
            yield TranslatedSentence(text, self.weigh(sentence, text) if weigh else None, unsure)

    def weigh(self, sentence: str, translation: str) -> WordWeights:
        source = whole_words(sentence)
        target = whole_words(translation)
        weights = np.eye(len(target), len(source), -self.first)
        return WordWeights(source, target, weights[:: -1 if self.backwards else 1])


class Reordering(FakeTranslator):
    """Gives the words of each sentence in another order; each comes from itself."""

    def __init__(self, reorder: Callable[[list[str]], Sequence[str]]) -> None:
        super().__init__(lambda sentence: " ".join(reorder(sentence.split())))

    def weigh(self, sentence: str, translation: str) -> WordWeights:
        source = whole_words(sentence)
        target = whole_words(translation)
        words = [sentence[start:end] for start, end in source]
        weights = np.zeros((len(target), len(source)))
        for row, (start, end) in enumerate(target):
            weights[row, words.index(translation[start:end])] = 1
        return WordWeights(source, target, weights)


def reordered_bytes(
    extension: str, data: bytes, reorder: Callable[[list[str]], Sequence[str]]
) -> bytes:
    """A document of this format with the words of each sentence in another order."""
    document = read_document(Path(f"document{extension}"), data)
    translate_document(document, "de", Reordering(reorder))
    return document.write()


def translated_bytes(
    extension: str,
    data: bytes,
    change: Callable[[str], str] = str.upper,
    retranslate: bool = False,
    keeps: bool = True,
    memory: TranslationMemory | None = None,
    unsure: set[str] | None = None,
) -> tuple[bytes, Counter[str]]:
    """A document of this format, translated, and what became of its sentences."""
    document = read_document(Path(f"document{extension}"), data, retranslate)
    counts = translate_document(
        document, "de", FakeTranslator(change, keeps, memory=memory, unsure=unsure)
    )
    return document.write(), counts


def translated(
    extension: str, text: str, change: Callable[[str], str] = str, keeps: bool = True
) -> str:
    return translated_bytes(extension, text.encode(), change, keeps=keeps)[0].decode()


PO = r"""# Kopf
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\n"
"Plural-Forms: nplurals=3; plural=(n==1 ? 0 : n==2 ? 1 : 2);\n"

#: a.c:1
#, c-format
msgid "Datei %s & <b>{name}</b> fehlt."
msgstr ""

msgid ""
"Zeile eins\n"
"Zeile zwei\n"
msgstr ""

msgid "ein Haus"
msgid_plural "%d Häuser"
msgstr[0] ""
msgstr[1] ""
msgstr[2] ""

msgid "da"
msgstr "there"

#~ msgid "weg"
#~ msgstr "gone"
"""
PO_UPPER = PO
for source, target in {
    "c-format\n": "c-format, fuzzy\n",
    'fehlt."\nmsgstr ""': 'fehlt."\nmsgstr "DATEI %s & <b>{name}</b> FEHLT."',
    'msgid ""\n"Zeile eins': '#, fuzzy\nmsgid ""\n"Zeile eins',
    'Zeile zwei\\n"\nmsgstr ""': 'Zeile zwei\\n"\nmsgstr ""\n"ZEILE EINS\\n"\n"ZEILE ZWEI\\n"',
    'msgid "ein Haus"': '#, fuzzy\nmsgid "ein Haus"',
    'msgstr[0] ""': 'msgstr[0] "EIN HAUS"',
    'msgstr[1] ""': 'msgstr[1] "%d HÄUSER"',
    'msgstr[2] ""': 'msgstr[2] "%d HÄUSER"',
}.items():
    PO_UPPER = PO_UPPER.replace(source, target)
XLIFF = """<?xml version="1.0" encoding="UTF-8"?>
<!-- Kopf -->
<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2" version="1.2">
  <file source-language="de" target-language="en" datatype="plaintext" original="a"><body>
    <trans-unit id="1">
      <source>Hallo <g id="1">Welt &amp;x&amp;</g><x id="2"/>.</source>
      <alt-trans><source>nein</source><target>no</target></alt-trans>
    </trans-unit>
    <trans-unit id="2"><source>Neu <bpt id="1">b</bpt>da<ept id="1">/b</ept></source>
    <target state="new"/></trans-unit>
    <trans-unit id="3"><source>Da</source><target state="final">There</target></trans-unit>
    <trans-unit id="4" translate="no"><source>Nicht</source></trans-unit>
  </body></file>
</xliff>
"""
STATE = 'state="needs-review-translation"'
XLIFF_UPPER = XLIFF.replace(
    '<x id="2"/>.</source>',
    f'<x id="2"/>.</source>\n      <target {STATE}>HALLO <g id="1">WELT &amp;X&amp;</g><x '
    'id="2"/>.</target>',
).replace(
    '<target state="new"/>',
    f'<target {STATE}>NEU <bpt id="1">b</bpt>DA<ept id="1">/b</ept></target>',
)
TABLE = 'id;source;target\n1;"Der ""Hund""";\n2;Ja;Yes\n3;Die Katze\n'
TABLE_UPPER = TABLE.replace('""";', '""";"DER ""HUND"""').replace(
    "Die Katze", "Die Katze;DIE KATZE"
)
QT = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1" language="en">
<context>
    <name>Fenster</name>
    <message>
        <location filename="a.cpp" line="1"/>
        <source>Der Hund &quot;%1&quot;</source>
        <comment>bleibt</comment>
        <translation type="unfinished"></translation>
    </message>
    <message numerus="yes">
        <source>%n Hunde</source>
        <translation type="unfinished">
            <numerusform></numerusform>
            <numerusform></numerusform>
        </translation>
    </message>
    <message>
        <source>da</source>
        <translation>there</translation>
    </message>
</context>
</TS>
"""
QT_UPPER = QT.replace('ed"></translation>', 'ed">DER HUND &quot;%1&quot;</translation>')
QT_UPPER = QT_UPPER.replace("<numerusform></numerusform>", "<numerusform>%n HUNDE</numerusform>")
# Each format's sample: what is in «…» is translated, and all else is as it was.
MARKED = {
    ".html": """<!doctype html><html lang="de"><head><meta charset=utf-8>
<title>«Titel» &amp; «mehr»</title><style>p{}</style></head>
<body><!-- Kopf --><p>«Das ist» <b>«ein sehr» <i>«guter»</i></b> «Satz.»<br>
  «Und» <a href="x?a=1&amp;b" title='«Mehr dazu»'>«hier» <code>f()</code> «geht»</a> «es» <img src=a alt="«das Bild»">.
<p>«Zweiter» 1 &lt; 2 <span></span>«Absatz.» <b>«Er geht. Und»</b> «weiter»<li>«eins»<li>«zwei»
<pre>bleibt  so</pre><p translate=no>bleibt</p><p>«Ruf» <span class="notranslate">ACME</span> «an!»</p>
<script>if (a<b) x="</p>"</script></body></html>
""",  # noqa: E501
    ".md": """---
title: «Titel»
layout: bleibt
---
# «Titel mit» `code` «und» **«fett»** #

«Ein Absatz mit» [«Link»](http://x.de "«t»") «und» ![«ein Bild»](b.png) «und» [«Verweis»][r1].\x20\x20
«Neue Zeile», 2 * 3 = 6, <b>«HTML»</b> «und» <https://x.org>.

> - «Punkt eins»
> - [ ] «Aufgabe»[^1]

1. «erstens»

       code hier

```python
print("bleibt")
```

| «Spalte» | «Wert» |
|--------|:----:|
| «eins»   | `zwei` «und drei» |

«Setext»
======

<div align="center">
<h1>«Groß»</h1>
</div>

[r1]: http://y.de "«Titel»"
[^1]: «Eine Fußnote mit Text.»

$$ x = y $$
""",  # noqa: E501
    ".srt": """1
00:00:01,000 --> 00:00:02,500
{\\an8}<i>«Das ist ein»
«langer Satz,»</i>

2
00:00:02,600 --> 00:00:04,000
<i>«der weitergeht.»</i> «Und»

3
00:00:05,000 --> 00:00:06,000
«noch einer.»
- «Ja?»
- «Nein!»
""",
    ".txt": """«Titel»

«Das ist ein langer Absatz, der über mehrere Zeilen geht und weiter. Er ist»
«umgebrochen worden. Siehe» https://x.org/a «und» %s «dann.»

  - «Punkt eins»
«Anna Meier»
«Hauptstr.» 5
""",
    ".vtt": "WEBVTT\n\nSTYLE\n::cue {}\n\nNOTE bleibt\n\n1\n00:01.000 --> 00:02.000 line:0\n<v "
    "Anna>«Das ist ein»\n\n"
    "00:02.000 --> 00:03.000\n«langer Satz.»\n",
    ".ass": "[Events]\nFormat: x\nDialogue: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,{\\i1}«Es "
    "ist»\\N«da,»\n"
    "Comment: 0,0:00:02.00,0:00:02.00,Default,,0,0,0,,bleibt\n"
    "Dialogue: 0,0:00:02.00,0:00:03.00,Default,,0,0,0,,«ja.»\n",
    ".json": '{\n  "schlüssel": "«Der Hund» {name}\\n«läuft.»",\n\t"a": {"b": ["«eins»", 3, null, '
    '"{{x}}"]}\n}\n',
    ".arb": '{"@@locale": "de", "a": "{n, plural, one {# «Hund»} other {# «Hunde»}}", "@a": '
    '{"description": "bleibt"}}',
    ".yaml": '# bleibt\na: «Der Hund»\nb:\n  - "«zwei»"   # bleibt\n  - 3\n  - yes\nc: |\n  '
    "«eins»\n  «zwei»\n",
    ".toml": '# bleibt\na = "«Der Hund»"   # bleibt\n[b]\nn = 3\nc = ["«eins»", "«zwei»"]\n',
    ".properties": "# bleibt\na=«Der Hund» {0}\nb=«Ja»\n",
    ".resx": '<?xml version="1.0" encoding="utf-8"?>\r\n<root>\r\n  <data name="a" '
    'xml:space="preserve">\r\n'
    "    <value>«Der Hund» {0} &amp; «so»</value>\r\n    <comment>bleibt</comment>\r\n  "
    "</data>\r\n</root>",
    ".xml": '<?xml version="1.0" encoding="utf-8"?>\n<resources>\n    <!-- bleibt -->\n'
    '    <string name="a">«Der» <b>«Hund»</b> <i>«ist da»</i> %1$s</string>\n    <string name="b" '
    'translatable="false">nein</string>\n'
    '    <plurals name="p">\n        <item quantity="one">«ein Hund»</item>\n'
    '        <item quantity="other">%d «Hunde»</item>\n    </plurals>\n</resources>\n',
    ".adoc": "= «Titel»\n:author: bleibt\n\n«Der» *«Hund»* «läuft, siehe» https://x.de[«hier»], "
    "<<ref>> «und» `code` "
    "«und» {author}.\n\n* «Punkt eins» footnote:[«Eine "
    "Note.»]\n\n----\nbleibt\n----\n\nimage::a.png[«Ein Bild»]\n",
    ".mdx": "import X from 'y'\n\n# «Titel»\n\n- «Punkt» [«Verweis»](http://x.de)\n\n```js\nconst "
    "a = 'bleibt'\n```\n",
}


def in_capitals(marked: str) -> str:
    return re.sub("«(.*?)»", lambda match: match[1].upper(), marked, flags=re.DOTALL)


def sentences_of(extension: str, data: str | bytes) -> list[str]:
    """What a model gets of a document."""
    sentences = list[str]()
    content = data.encode() if isinstance(data, str) else data
    translated_bytes(extension, content, lambda sentence: sentences.append(sentence) or sentence)
    return sentences


def check_marked(extension: str, marked: str) -> Counter[str]:
    """What is in «…» is translated, and all else stays; returns what became of the sentences."""
    text = re.sub("[«»]", "", marked)
    assert translated(extension, text) == text
    data, counts = translated_bytes(extension, text.encode())
    assert data.decode() == in_capitals(marked)
    return counts


# By extension: a document, and what becomes of it in capitals.
SAMPLES = {
    extension: (re.sub("[«»]", "", marked), in_capitals(marked))
    for extension, marked in MARKED.items()
}
SAMPLES |= {
    ".po": (PO, PO_UPPER),
    ".xlf": (XLIFF, XLIFF_UPPER),
    ".csv": (TABLE, TABLE_UPPER),
    ".ts": (QT, QT_UPPER),
}
SAMPLES[".tsv"] = TABLE.replace(";", "\t"), TABLE_UPPER.replace(";", "\t")

"""What tests of documents share: a translator that applies a function, and a sample of each format."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from nmt.documents.formats import EXTENSIONS
from nmt.documents.placement import TranslatedSentence
from nmt.documents.translation import translate_document
from nmt.documents.word_weights import WordWeights, whole_words


class FakeTranslator:
    """Applies a function to each sentence; word i of the result comes from word i of the sentence, or from the end."""

    def __init__(self, change: Callable[[str], str], keeps_units: bool = True, backwards: bool = False) -> None:
        self.change, self.keeps_units, self.backwards = change, keeps_units, backwards

    def translate(self, sentences: Sequence[str], weighed: Sequence[bool]) -> Iterator[TranslatedSentence]:
        for sentence, weigh in zip(sentences, weighed, strict=True):
            text = self.change(sentence if self.keeps_units else " ".join(sentence.split()))
            source, target = whole_words(sentence), whole_words(text)
            weights = np.eye(len(target), len(source))[:: -1 if self.backwards else 1]
            yield TranslatedSentence(text, WordWeights(source, target, weights) if weigh else None)


def translated_bytes(
    extension: str, data: bytes, change: Callable[[str], str] = str.upper, retranslate: bool = False, keeps: bool = True
) -> tuple[bytes, Counter[str]]:
    """A document of this format, translated, and what became of its sentences."""
    document = EXTENSIONS[extension].read(data, retranslate)
    counts = translate_document(document, "de", FakeTranslator(change, keeps))
    return document.write(), counts


def translated(extension: str, text: str, change: Callable[[str], str] = str, keeps: bool = True) -> str:
    return translated_bytes(extension, text.encode(), change, keeps=keeps)[0].decode()


HTML = """<!doctype html><html lang="de"><head><meta charset=utf-8>
<title>Titel &amp; mehr</title><style>p{}</style></head>
<body><!-- Kopf --><p>Das ist <b>ein  sehr
   <i>guter</i></b> Satz.<br>
  Und <a href="x?a=1&amp;b" title='Mehr dazu'>hier <code>f()</code> geht</a> es &uuml;ber <img src=a alt="das Bild">.
<p>Zweiter 1 < 2 <span></span>Absatz. <b>Er geht. Und</b> weiter<li>eins<li>zwei
<pre>bleibt  so</pre><p translate=no>bleibt</p><p>Ruf <span class="notranslate">ACME</span> an!</p>
<script>if (a<b) x="</p>"</script></body></html>
"""
HTML_UPPER = """<!doctype html><html lang="de"><head><meta charset=utf-8>
<title>TITEL &amp; MEHR</title><style>p{}</style></head>
<body><!-- Kopf --><p>DAS IST <b>EIN SEHR <i>GUTER</i></b> SATZ.<br>
  UND <a href="x?a=1&amp;b" title='MEHR DAZU'>HIER <code>f()</code> GEHT</a> ES ÜBER <img src=a alt="DAS BILD">.
<p>ZWEITER 1 &lt; 2 <span></span>ABSATZ. <b>ER GEHT. UND</b> WEITER<li>EINS<li>ZWEI
<pre>bleibt  so</pre><p translate=no>bleibt</p><p>RUF <span class="notranslate">ACME</span> AN!</p>
<script>if (a<b) x="</p>"</script></body></html>
"""
MARKDOWN = """---
title: bleibt
---
# Titel mit `code` und **fett** #

Ein Absatz mit [Link](http://x.de "t") und ![ein Bild](b.png) und *kursiv
über Zeilen* und <b>HTML</b> und [Verweis][r1] und [r1] und snake_case.\x20\x20
Neue Zeile, 2 * 3 = 6 und <https://x.org>.

> Ein Zitat, das
> weitergeht.
>
> - Punkt eins
>   und weiter
> - [ ] Aufgabe[^1]

1. erstens

       code hier

```python
print("bleibt")
```

| Spalte | Wert |
|--------|:----:|
| eins   | `zwei` und drei |

Setext
======

<div align="center">
<h1>Groß</h1>
</div>

[r1]: http://y.de "Titel"
[^1]: Eine Fußnote mit Text.

$$ x = y $$
"""
MARKDOWN_UPPER = """---
title: bleibt
---
# TITEL MIT `code` UND **FETT** #

EIN ABSATZ MIT [LINK](http://x.de "t") UND ![EIN BILD](b.png) UND *KURSIV
ÜBER ZEILEN* UND <b>HTML</b> UND [VERWEIS][r1] UND [R1][r1] UND
SNAKE_CASE.\x20\x20
NEUE ZEILE, 2 * 3 = 6 UND <https://x.org>.

> EIN ZITAT, DAS WEITERGEHT.
>
> - PUNKT EINS UND WEITER
> - [ ] AUFGABE[^1]

1. ERSTENS

       code hier

```python
print("bleibt")
```

| SPALTE | WERT |
|--------|:----:|
| EINS   | `zwei` UND DREI |

SETEXT
======

<div align="center">
<h1>GROSS</h1>
</div>

[r1]: http://y.de "Titel"
[^1]: EINE FUSSNOTE MIT TEXT.

$$ x = y $$
"""
SUBRIP = """1
00:00:01,000 --> 00:00:02,500
{\\an8}<i>Das ist ein
langer Satz,</i>

2
00:00:02,600 --> 00:00:04,000
<i>der weitergeht.</i> Und

3
00:00:05,000 --> 00:00:06,000
noch einer.
- Ja?
- Nein!
"""
SUBRIP_UPPER = """1
00:00:01,000 --> 00:00:02,500
{\\an8}<i>DAS IST EIN
LANGER SATZ,</i>

2
00:00:02,600 --> 00:00:04,000
<i>DER WEITERGEHT.</i> UND

3
00:00:05,000 --> 00:00:06,000
NOCH EINER.
- JA?
- NEIN!
"""
TEXT = """Titel

Das ist ein langer Absatz, der über mehrere Zeilen geht und weiter. Er ist
umgebrochen worden. Siehe https://x.org/a und %s dann.

  - Punkt eins
Anna Meier
Hauptstr. 5
"""
TEXT_UPPER = """TITEL

DAS IST EIN LANGER ABSATZ, DER ÜBER MEHRERE ZEILEN GEHT UND WEITER. ER IST
UMGEBROCHEN WORDEN. SIEHE https://x.org/a UND %s DANN.

  - PUNKT EINS
ANNA MEIER
HAUPTSTR. 5
"""
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
PO_UPPER = r"""# Kopf
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\n"
"Plural-Forms: nplurals=3; plural=(n==1 ? 0 : n==2 ? 1 : 2);\n"

#: a.c:1
#, c-format, fuzzy
msgid "Datei %s & <b>{name}</b> fehlt."
msgstr "DATEI %s & <b>{name}</b> FEHLT."

#, fuzzy
msgid ""
"Zeile eins\n"
"Zeile zwei\n"
msgstr ""
"ZEILE EINS\n"
"ZEILE ZWEI\n"

#, fuzzy
msgid "ein Haus"
msgid_plural "%d Häuser"
msgstr[0] "EIN HAUS"
msgstr[1] "%d HÄUSER"
msgstr[2] "%d HÄUSER"

msgid "da"
msgstr "there"

#~ msgid "weg"
#~ msgstr "gone"
"""
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
XLIFF_UPPER = """<?xml version="1.0" encoding="UTF-8"?>
<!-- Kopf -->
<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2" version="1.2">
  <file source-language="de" target-language="en" datatype="plaintext" original="a"><body>
    <trans-unit id="1">
      <source>Hallo <g id="1">Welt &amp;x&amp;</g><x id="2"/>.</source>
      <target state="needs-review-translation">HALLO <g id="1">WELT &amp;X&amp;</g><x id="2"/>.</target>
      <alt-trans><source>nein</source><target>no</target></alt-trans>
    </trans-unit>
    <trans-unit id="2"><source>Neu <bpt id="1">b</bpt>da<ept id="1">/b</ept></source>
    <target state="needs-review-translation">NEU <bpt id="1">b</bpt>DA<ept id="1">/b</ept></target></trans-unit>
    <trans-unit id="3"><source>Da</source><target state="final">There</target></trans-unit>
    <trans-unit id="4" translate="no"><source>Nicht</source></trans-unit>
  </body></file>
</xliff>
"""
# By extension: a document, and what becomes of it in capitals.
SAMPLES = {
    ".html": (HTML, HTML_UPPER),
    ".md": (MARKDOWN, MARKDOWN_UPPER),
    ".srt": (SUBRIP, SUBRIP_UPPER),
    ".txt": (TEXT, TEXT_UPPER),
    ".po": (PO, PO_UPPER),
    ".xlf": (XLIFF, XLIFF_UPPER),
}
# Smaller ones: the texts are in capitals, and all else as it was.
MARKED = {
    ".vtt": "WEBVTT\n\nSTYLE\n::cue {}\n\nNOTE bleibt\n\n1\n00:01.000 --> 00:02.000 line:0\n<v Anna>«Das ist ein»\n\n"
    "00:02.000 --> 00:03.000\n«langer Satz.»\n",
    ".ass": "[Events]\nFormat: x\nDialogue: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,{\\i1}«Es ist»\\N«da,»\n"
    "Comment: 0,0:00:02.00,0:00:02.00,Default,,0,0,0,,bleibt\n"
    "Dialogue: 0,0:00:02.00,0:00:03.00,Default,,0,0,0,,«ja.»\n",
    ".json": '{\n  "schlüssel": "«Der Hund» {name}\\n«läuft.»",\n\t"a": {"b": ["«eins»", 3, null, "{{x}}"]}\n}\n',
    ".arb": '{"@@locale": "de", "a": "{n, plural, one {# «Hund»} other {# «Hunde»}}", "@a": {"description": "bleibt"}}',
    ".yaml": "# bleibt\na: «Der Hund»\nb:\n  - \"«zwei»\"   # bleibt\n  - 3\n  - yes\nc: |\n  «eins»\n  «zwei»\n",
    ".toml": "# bleibt\na = \"«Der Hund»\"   # bleibt\n[b]\nn = 3\nc = [\"«eins»\", \"«zwei»\"]\n",
    ".properties": "# bleibt\na=«Der Hund» {0}\nb=«Ja»\n",
    ".resx": '<?xml version="1.0" encoding="utf-8"?>\r\n<root>\r\n  <data name="a" xml:space="preserve">\r\n'
    "    <value>«Der Hund» {0} &amp; «so»</value>\r\n    <comment>bleibt</comment>\r\n  </data>\r\n</root>",
    ".xml": '<?xml version="1.0" encoding="utf-8"?>\n<resources>\n    <!-- bleibt -->\n'
    '    <string name="a">«Der» <b>«Hund»</b> %1$s</string>\n    <string name="b" translatable="false">nein</string>\n'
    '    <plurals name="p">\n        <item quantity="one">«ein Hund»</item>\n'
    '        <item quantity="other">%d «Hunde»</item>\n    </plurals>\n</resources>\n',
    ".adoc": "= Titel\n:author: bleibt\n\n«Der» *«Hund»* «läuft, siehe» https://x.de[«hier»], <<ref>> «und» `code` "
    "«und» {author}.\n\n* «Punkt eins» footnote:[«Eine Note.»]\n\n----\nbleibt\n----\n\nimage::a.png[«Ein Bild»]\n",
    ".mdx": "import X from 'y'\n\n# «Titel»\n\n- «Punkt» [«Verweis»](http://x.de)\n\n```js\nconst a = 'bleibt'\n```\n",
}  # fmt: skip

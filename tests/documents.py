"""What tests of documents share: a translator that applies a function, and a sample of each format."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from nmt.documents.formats import CATALOGUES, STREAMS, Document
from nmt.documents.links import Side, WordLinks, whole_words
from nmt.documents.rendering import TranslatedSentence
from nmt.documents.segment import Part
from nmt.documents.translation import DocumentTranslator


class FakeTranslator:
    """Applies a function to each sentence; word i of the result comes from word i of the sentence."""

    def __init__(self, change: Callable[[str], str], keeps_units: bool = True) -> None:
        self.change, self.keeps_units = change, keeps_units

    def translate(self, sentences: Sequence[str], linked: Sequence[bool]) -> Iterator[TranslatedSentence]:
        for sentence, link in zip(sentences, linked, strict=True):
            text = self.change(sentence)
            source, target = (Side(each, whole_words(each, [])) for each in (sentence, text))
            weights = np.eye(len(target.words), len(source.words))
            yield TranslatedSentence(text, WordLinks(source, target, weights) if link else None)


def written(parts: Iterable[Part], change: Callable[[str], str] = str, keeps_units: bool = True) -> str:
    """The translated parts."""
    return "".join(DocumentTranslator(FakeTranslator(change, keeps_units), "de").translate(parts))


def translated(extension: str, text: str, change: Callable[[str], str] = str, keeps_units: bool = True) -> str:
    """A document of this format, translated."""
    if extension in STREAMS:
        return written(STREAMS[extension](text), change, keeps_units)
    document: Document = CATALOGUES[extension](text, False)
    translator = DocumentTranslator(FakeTranslator(change, keeps_units), "de")
    return "".join(document.write(translator.translate(document.parts())))


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
<xliff version='1.2' xmlns="urn:oasis:names:tc:xliff:document:1.2">
  <file source-language="de" target-language="en" datatype="plaintext" original="a"><body>
    <trans-unit   id="1">
      <source>Hallo <g id="1">Welt &quot;x&quot;</g><x id="2"/>.</source>
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
<xliff version='1.2' xmlns="urn:oasis:names:tc:xliff:document:1.2">
  <file source-language="de" target-language="en" datatype="plaintext" original="a"><body>
    <trans-unit   id="1">
      <source>Hallo <g id="1">Welt &quot;x&quot;</g><x id="2"/>.</source>
      <target state="needs-review-translation">HALLO <g id="1">WELT &quot;X&quot;</g><x id="2"/>.</target>
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

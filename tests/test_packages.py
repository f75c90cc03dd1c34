"""Packages of XML files and XLIFF: every text is translated or left for a reason, and nothing else
changes."""

import io
import re
import zipfile
from collections import Counter
from html import escape
from itertools import chain, product, zip_longest
from pathlib import Path

import pytest
from documents import FakeTranslator, reordered_bytes, sentences_of, translated_bytes
from hypothesis import given, settings
from hypothesis import strategies as st
from packages import (
    EPUB,
    EXCEL,
    HEAD,
    MARKED_PACKAGES,
    PACKAGES,
    PICTURE,
    WORD,
    A,
    P,
    W,
    capitals,
    field,
    files_in,
    pack,
    run,
    unmarked,
)

from nmt.documents.formats import read_document
from nmt.documents.segment import segments
from nmt.documents.translation import translate_document
from nmt.errors import UserError

pytest.importorskip("lxml")
few = settings(max_examples=40)


def canonical(text: str) -> str:
    """XML without its ways to write the same."""
    from lxml import etree

    return (
        etree.canonicalize(text)
        if text.lstrip().startswith("<") and "<!DOCTYPE" not in text
        else text
    )


@pytest.mark.parametrize("extension", MARKED_PACKAGES)
def test_marked_texts_are_translated_and_nothing_else(extension):
    files = files_in(translated_bytes(extension, PACKAGES[extension])[0])
    wanted = capitals(MARKED_PACKAGES[extension])
    assert list(files) == list(wanted)
    for name, text in wanted.items():
        # An element of Word with spaces at an edge says so, also where it said nothing.
        assert canonical(files[name]).replace(' xml:space="preserve"', "") == canonical(
            text
        ).replace(' xml:space="preserve"', ""), name


REASONS = {
    ".docx": {
        "deleted text": 2,
        "fields": 3,
        "ruby": 1,
        "formulas": 1,
        "custom XML": 1,
        "form fields": 1,
    },
    ".pptx": {"fields": 1, "prompts of layouts": 1},
    ".xlsx": {
        "table headers": 1,
        "ruby": 1,
        "sheet names": 1,
        "named in formulas": 1,
        "formula results": 1,
    },
    ".ods": {
        "deleted text": 1,
        "fields": 1,
        "ruby": 1,
        "values of cells": 1,
        "formula results": 1,
        "sheet names": 1,
    },
    ".idml": {"deleted text": 1},
    ".epub": {"names and rights": 2},
}


@pytest.mark.parametrize("extension", REASONS)
def test_what_is_left_has_its_reason(extension):
    counts = translated_bytes(extension, PACKAGES[extension])[1]
    del counts["translated"]
    assert counts == REASONS[extension]


def test_a_changed_package_keeps_its_entries():
    """Their order, packing, dates and the archive's comment; a file without a changed text keeps
    its bytes."""
    data = pack({**unmarked(EPUB), "O/bild.png": b"\x89\0"}, b"Anmerkung")
    old, new = (
        zipfile.ZipFile(io.BytesIO(each)) for each in (data, translated_bytes(".epub", data)[0])
    )
    assert new.comment == old.comment
    for before, after in zip(old.infolist(), new.infolist(), strict=True):
        assert (before.filename, before.compress_type, before.date_time) == (
            after.filename,
            after.compress_type,
            after.date_time,
        )
    assert new.read("O/bild.png") == b"\x89\0"


def word(paragraph: str) -> bytes:
    return pack({"word/document.xml": f"<w:document {W}><w:p>{paragraph}</w:p></w:document>"})


def word_text(data: bytes) -> str:
    return files_in(data)["word/document.xml"].partition("<w:p>")[2].partition("</w:p>")[0]


LINK = f"<w:hyperlink><w:ins>{run('Ein Link')}</w:ins></w:hyperlink>"
MARKED_SPACE = "{}<w:{name}>{}</w:{name}><w:del>{}</w:del>{}".format
PARTS = run("Ein hoch"), run(" "), run("-", name="delText"), run("liegend")


@pytest.mark.parametrize(
    ("paragraph", "texts"),
    [
        ("<w:r><w:t>Preis</w:t><w:tab/><w:t>Rad</w:t></w:r>", ["Preis", "Rad"]),
        ("<w:r><w:t>Preis</w:t><w:br/><w:t>Rad</w:t></w:r>", ["Preis Rad"]),
        (LINK + run(" und mehr"), ["Ein Link und mehr"]),
        (MARKED_SPACE(*PARTS, name="ins"), ["Ein hoch liegend"]),
        (MARKED_SPACE(*PARTS, name="hyperlink"), ["Ein hoch liegend"]),
        (MARKED_SPACE(*PARTS, name="smartTag"), ["Ein hoch liegend"]),
        # of one look, where a spelling checker has divided them
        (
            run("Der ") + run("E", '<w:lang w:val="de"/>') + "<w:proofErr/>" + run("Zug"),
            ["Der EZug"],
        ),
        # a hyphen that does not break is a letter of its word
        (
            run("E") + "<w:r><w:noBreakHyphen/></w:r>" + run("Zug", "<w:noProof/>"),
            ["E\u2011Zug"],
        ),
    ],
)
def test_the_texts_of_a_paragraph_of_word(paragraph, texts):
    assert sentences_of(".docx", word(paragraph)) == texts


@pytest.mark.parametrize(
    ("thing", "texts"), [("tab", ["Preis", "Rad"]), ("line-break", ["Preis Rad"])]
)
def test_the_texts_of_a_paragraph_of_opendocument(thing, texts):
    content = f"<a xmlns:text='text'><text:p>Preis<text:{thing}/>Rad</text:p></a>"
    assert sentences_of(".odt", pack({"content.xml": content})) == texts


def test_lines_of_headers_and_descriptions_are_texts_of_their_own():
    files = unmarked(EXCEL)
    name = "xl/worksheets/sheet1.xml"
    header = '&amp;C&amp;"Arial"Das Haus&#xA;Der Weg'
    files[name] = re.sub(
        "<oddHeader>.*?</oddHeader>", f"<oddHeader>{header}</oddHeader>", files[name]
    )
    assert {"Das Haus", "Der Weg"} <= set(sentences_of(".xlsx", pack(files)))
    new = files_in(translated_bytes(".xlsx", pack(files))[0])[name]
    assert "DAS HAUS\nDER WEG</oddHeader>" in new

    picture = PICTURE.replace("Hund'", "Hund&#xA;&#xA;Von Hand beschrieben'")
    assert sentences_of(".docx", word(picture)) == ["Ein Bild vom Hund", "Von Hand beschrieben"]
    new = word_text(translated_bytes(".docx", word(picture))[0])
    assert "EIN BILD VOM HUND&#10;&#10;VON HAND BESCHRIEBEN" in new


def test_a_soft_hyphen_is_of_a_word_of_the_source():
    data = word(run("Ein Fahr") + "<w:r><w:softHyphen/></w:r>" + run("rad"))
    assert sentences_of(".docx", data) == ["Ein Fahrrad"]
    assert word_text(translated_bytes(".docx", data)[0]) == run("EIN FAHRRAD")


@pytest.mark.parametrize(
    ("runs", "raw"),
    [
        ("b:Ja |:ein langer Satz |b:so", "<g0>Ja </g0>ein langer Satz <g1>so</g1>"),
        ("b:ein langer Satz |:a |i:b |:c", "ein langer Satz <g0>a </g0><g1>b </g1><g2>c</g2>"),
    ],
)
def test_the_look_that_most_of_the_text_has_is_plain(runs, raw):
    """However many runs have another one."""
    paragraph = ""
    for each in runs.split("|"):
        look, _, text = each.partition(":")
        paragraph += run(text, f"<w:{look}/>" if look else "")
    [field] = read_document(Path("a.docx"), word(paragraph)).fields
    assert [segment.raw for segment in segments(field.parts)] == [raw]


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("<w:t>Ein Tier</w:t></w:r><w:r><w:footnoteReference w:id='1'/>", "a b c d"),
        (
            "<w:rPr><w:b/></w:rPr><w:t>Ja!</w:t></w:r><w:r><w:t>Ein Tier</w:t>",
            "a b c d a b c d",
        ),
    ],
)
def test_spaces_of_a_translation_are_shown(text, wanted, backwards):
    """Word drops those at the edges of an element that does not say that it keeps them."""
    document = read_document(Path("a.docx"), word(f"<w:r>{text}</w:r>"))
    translate_document(document, "de", FakeTranslator(lambda _: "a b c d", backwards=backwards))
    texts = []
    for attributes, content in re.findall("<w:t( [^>]*)?>([^<]*)", word_text(document.write())):
        texts.append(content if "preserve" in attributes else content.strip())
    assert "".join(texts) == wanted


def test_sides_that_cross_an_element_stay_well_formed():
    """A comment begins before a link and ends inside it; the translation has the words in another
    order."""
    begin = '<w:commentRangeStart w:id="1"/>'
    end = '<w:commentRangeEnd w:id="1"/>'
    link = f"<w:hyperlink>{run('zwei ')}{end}{run('drei', '<w:b/>')}</w:hyperlink>"
    text = run("eins ") + begin + link + run(" vier")
    new = word_text(
        translated_bytes(".docx", word(text), lambda text: " ".join(reversed(text.split())))[0]
    )
    assert new.count(begin) == new.count(end) == new.count("<w:hyperlink>") == 1
    assert sorted("".join(re.findall(r"<w:t[^>]*>([^<]*)", new)).split()) == [
        "drei",
        "eins",
        "vier",
        "zwei",
    ]


SYMBOL = '<w:r><w:sym w:char="F0"/></w:r>'
PAGE = field(" PAGE ", run("7"))
# Bold words that are shorter than the one beside them, so that they are a pair of tags
REORDERED = [
    run("Sonntagnachmittags ") + SYMBOL + run(" ist es so gut", "<w:b/>"),
    PAGE + run(" ist es so gut ", "<w:b/>") + SYMBOL + run(" sonntagnachmittags"),
]


@few
@given(st.sampled_from(REORDERED), st.randoms(use_true_random=False))
def test_no_order_of_the_words_loses_anything_of_a_paragraph(paragraph, generator):
    data = reordered_bytes(
        ".docx", word(paragraph), lambda words: generator.sample(words, len(words))
    )
    things = re.compile(r"<w:(?:sym|fldChar|instrText)\b[^>]*>")
    new = word_text(data)
    assert sorted(things.findall(new)) == sorted(things.findall(paragraph))
    shown = re.compile("<w:t[^>]*>([^<]*)")
    before, after = (sorted(" ".join(shown.findall(text)).split()) for text in (paragraph, new))
    assert after == before


def crossing(begin: str, end: str, text: str) -> str:
    """A sentence with two ranges that cross."""
    places = [begin.format(1), begin.format(2), end.format(1), end.format(2)]
    words = map(text.format, ["das Rad ", " ist hier ", " und dort ", " ganz gut ", " so"])
    return "".join(chain.from_iterable(zip_longest(words, places, fillvalue="")))


TEXT = "<w:r><w:t xml:space='preserve'>{}</w:t></w:r>"
OFFICE = "xmlns:text='urn:text' xmlns:o='urn:office'"
RANGES = [
    (".docx", '<w:bookmarkStart w:id="{}"/>', '<w:bookmarkEnd w:id="{}"/>', TEXT),
    (".xlf", '<bx id="{}"/>', '<ex id="{}"/>', "{}"),
    (".xlf", '<bpt id="{}">a</bpt>', '<ept id="{}">b</ept>', "{}"),
    (".odt", '<text:bookmark-start text:name="{}"/>', '<text:bookmark-end text:name="{}"/>', "{}"),
    (".odt", '<o:annotation o:name="{}"/>', '<o:annotation-end o:name="{}"/>', "{}"),
]


@few
@given(st.sampled_from(RANGES), st.randoms(use_true_random=False))
def test_no_range_ends_before_its_beginning(case, generator):
    extension, begin, end, text = case
    paragraph = crossing(begin, end, text)
    if extension == ".docx":
        data = word(paragraph)
    elif extension == ".xlf":
        data = xliff(UNIT.format(f"<source>{paragraph}</source>")).encode()
    else:
        data = pack({"content.xml": f"<d {OFFICE}><text:p>{paragraph}</text:p></d>"})
    new = reordered_bytes(extension, data, lambda words: generator.sample(words, len(words)))
    content = new.decode() if extension == ".xlf" else "".join(files_in(new).values())
    content = content.partition("<target")[2] or content
    for number in "12":
        places = [content.index(side.format(number)) for side in (begin, end)]
        assert places == sorted(places)


def test_a_field_without_words_around_it_is_counted_once():
    paragraph = run("(") + field("DATE", run("5. Mai")) + run(")")
    assert translated_bytes(".docx", word(paragraph))[1] == {"fields": 1}


def test_a_content_control_that_word_fills_anew_is_left():
    def control(path: str) -> bytes:
        binding = f"<w:sdtPr><w:dataBinding w:xpath='{path}'/></w:sdtPr>"
        return word(f"<w:sdt>{binding}<w:sdtContent>{run('Ein Wert')}</w:sdtContent></w:sdt>")

    assert translated_bytes(".docx", control("/daten/wert"))[1] == {"custom XML": 1}
    assert translated_bytes(".docx", control("/ns0:coreProperties[1]/ns1:title[1]"))[1] == {
        "translated": 1
    }


def test_a_long_paragraph_is_read_in_parts():
    document = read_document(Path("a.docx"), word(run("Ein Wort. ") * 2000))
    lengths = [len(segment.text) for field in document.fields for segment in segments(field.parts)]
    assert len(lengths) > 1 and sum(lengths) >= 2000 * 9 and max(lengths) <= 10_000


@pytest.mark.parametrize("depth", [10, 60])
def test_elements_inside_each_other(depth):
    """Below a depth they are not taken apart, and their text is counted."""
    inside = f"{'<w:ins>' * depth}{run('Ein Wort')}{'</w:ins>' * depth}"
    data, counts = translated_bytes(".docx", word(run("Da: ") + inside))
    assert counts["translated"] == 1 + (depth == 60)
    assert word_text(data).count("<w:ins>") == depth and "EIN WORT" in word_text(data)


def test_both_sides_of_alternate_content():
    shape = f"<a:p>{'<a:r><a:t>Ja.</a:t></a:r>'}</a:p>"
    text = (
        f"<p:sld {P} {A}><x:AlternateContent "
        f"xmlns:x='x'><x:Choice>{shape}</x:Choice><x:Fallback>{shape}</x:Fallback>"
    )
    data, _ = translated_bytes(
        ".pptx", pack({"ppt/slides/slide1.xml": f"{text}</x:AlternateContent></p:sld>"})
    )
    assert files_in(data)["ppt/slides/slide1.xml"].count("JA.") == 2


def test_characters_that_xml_cannot_have_are_not_written():
    data, _ = translated_bytes(".docx", word(run("Ja.")), lambda _: "a\x0b\ufffe < b")
    assert "a &lt; b" in " ".join(word_text(data).split())


def test_libraries_open_the_results():
    docx = pytest.importorskip("docx")
    openpyxl = pytest.importorskip("openpyxl")
    document = docx.Document(io.BytesIO(translated_bytes(".docx", PACKAGES[".docx"])[0]))
    assert document.paragraphs[0].text == "DER GROSSE HUND SCHLÄFT."
    book = openpyxl.load_workbook(io.BytesIO(translated_bytes(".xlsx", PACKAGES[".xlsx"])[0]))
    sheet = book["Erste Tabelle"]
    texts = [cell.value for cell in sheet["A"]]
    assert texts == ["Ware", "DIE ÄPFEL\nVON HIER", "GANZ BESONDERS FRISCH.", "ausverkauft"]
    assert [cell.value for cell in sheet["B"]][:2] == ["EIN PREIS", 1.5] and sheet.tables[
        "T"
    ].column_names == ["Ware"]


def odf_shown(content: str) -> str:
    """The text of a paragraph of OpenDocument, with the spaces that elements stand for."""
    paragraph = re.search("<text:p>(.*?)</text:p>", content, re.DOTALL)[1]
    number = re.compile(r"<text:s(?: text:c=[\"'](\d+)[\"'])?/>")
    spaced = number.sub(lambda match: " " * int(match[1] or 1), paragraph)
    return re.sub("<[^>]*>", "", spaced)


@pytest.mark.parametrize("beginning", [" ", "1 ", "\u00a0"])
def test_words_behind_a_bold_beginning_without_words_are_translated(beginning):
    data, _ = translated_bytes(".docx", word(run(beginning, "<w:b/>") + run("Ein Hund")))
    assert "EIN HUND" in word_text(data)


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize(
    "paragraph",
    [
        "{}eins zwei",
        "eins{}zwei",
        "eins {}zwei",
        "<text:span>eins{}</text:span>zwei",
        "<text:span>eins </text:span>{}zwei",
        "eins<text:line-break/>{}zwei",
        "eins<text:s/>zwei{}drei",
        "eins<text:span>{}</text:span>zwei",
        "eins<text:span> </text:span>zwei{}drei",
    ],
)
def test_spaces_of_opendocument_are_as_many_as_before(paragraph, count):
    content = paragraph.replace("{}", f"<text:s text:c='{count}'/>")
    name = "urn:oasis:names:tc:opendocument:xmlns:text:1.0"
    content = f"<document xmlns:text='{name}'><text:p>{content}</text:p></document>"
    data, _ = translated_bytes(".odt", pack({"content.xml": content}))
    assert odf_shown(files_in(data)["content.xml"]) == odf_shown(content).upper()


# --------------------------------------------------------------------------------------------------
# What is refused

OLE = bytes.fromhex("d0cf11e0a1b11ae1") + bytes(100)
ENCRYPTED = "<encryption><EncryptionMethod Algorithm='{}'/></encryption>"


def with_flag(data: bytes) -> bytes:
    """An archive that says that its first entry is encrypted."""
    changed = bytearray(data)
    changed[6] |= 1
    changed[data.index(b"PK\1\2") + 8] |= 1
    return bytes(changed)


@pytest.mark.parametrize(
    ("name", "data", "wanted"),
    [
        ("a.docx", OLE, "file of an Office before 2007; save it as .docx"),
        ("a.xlsx", OLE + "EncryptedPackage".encode("utf-16-le"), "protected by a password"),
        ("a.docx", with_flag(word(run("Ja."))), "protected by a password"),
        ("a.docx", PACKAGES[".xlsx"], "no Word document: the archive has no word/document"),
        ("a.odt", PACKAGES[".docx"], "no OpenDocument file: the archive has no content.xml"),
        (
            "a.odt",
            pack({"content.xml": "<a/>", "META-INF/manifest.xml": "<m:encryption-data/>"}),
            "a password",
        ),
        (  # all files in one, as of LibreOffice 24.2
            "a.odt",
            pack({"encrypted-package": "x", "META-INF/manifest.xml": "<m:encryption-data/>"}),
            "a password",
        ),
        ("a.epub", PACKAGES[".docx"], "no EPUB: the archive has no META-INF/container.xml"),
        (
            "a.epub",
            pack({**EPUB, "META-INF/encryption.xml": ENCRYPTED.format("aes")}),
            "encrypted (DRM)",
        ),
        (
            "a.docx",
            pack({"word/document.xml": "<a>" * 300}),
            "more than 256 elements are inside each other",
        ),
        (
            "a.docx",
            pack({"word/document.xml": "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>"}),
            "entities of its own",
        ),
        ("a.xlf", b"<a>" * 300, "more than 256 elements are inside each other"),
        (
            "a.docx",
            pack({"word/document.xml": "<a/>", "word/a.xml": "<hyperlink><r><t>a"}),
            "word/a.xml is not well-formed",
        ),
        ("a.docx", pack({"word/document.xml": "<a>"}), "word/document.xml is not well-formed XML"),
        (
            "a.epub",
            pack({**EPUB, "O/eins.xhtml": "<p>\n<p"}),
            "O/eins.xhtml, line 2: the tag <p has no end",
        ),
    ],
)
def test_refused_in_one_sentence(name, data, wanted):
    with pytest.raises(UserError) as error:
        read_document(Path(name), data)
    assert wanted in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "root",
    [
        "<hyperlink><r><t>Ja.</t></r></hyperlink>",
        "<r><t>Ja.</t></r>",
        "<lvlText val='Ja.'/>",
        "<t/>",
    ],
)
def test_unusual_roots(root):
    translated_bytes(".docx", pack({"word/document.xml": root}))


def test_a_picture_may_be_much_smaller_when_packed():
    """The preview of an embedded PDF is one, most of it white."""
    files = {"word/document.xml": f"<w:document {W}><w:p>{run('Ja.')}</w:p></w:document>"}
    data = pack({**files, "word/media/a.emf": b"\xff" * (1 << 22)})
    assert translated_bytes(".docx", data)[1] == {"translated": 1}


def test_a_chapter_that_is_listed_twice_is_translated_once():
    files = unmarked(EPUB)
    item = "<item id='a' href='eins.xhtml' media-type='application/xhtml+xml'/>"
    files["O/b.opf"] = files["O/b.opf"].replace(item, item + item.replace("id='a'", "id='b'"))
    data, counts = translated_bytes(".epub", pack(files))
    assert counts["translated"] == translated_bytes(".epub", PACKAGES[".epub"])[1]["translated"]
    assert files_in(data)["O/eins.xhtml"] == capitals(EPUB)["O/eins.xhtml"]


def test_text_around_a_mark_of_indesign_stays():
    content = "<Content>vor <?ACE 8?> nach <?ACE 4?>her</Content>"
    look = f"<CharacterStyleRange>{content}</CharacterStyleRange>"
    story = f"<Story><ParagraphStyleRange>{look}</ParagraphStyleRange></Story>"
    data, _ = translated_bytes(".idml", pack({"Stories/Story_u1.xml": story}))
    new = files_in(data)["Stories/Story_u1.xml"].partition("<Story>")[2]
    shown = re.sub(r"<(?!\?)[^<>]*>", "", new)
    assert " ".join(shown.split()) == "VOR <?ACE 8?> NACH <?ACE 4?>HER"


def test_fonts_of_a_book_may_be_encrypted():
    fonts = ENCRYPTED.format("http://www.idpf.org/2008/embedding")
    assert (
        translated_bytes(".epub", pack({**unmarked(EPUB), "META-INF/encryption.xml": fonts}))[1][
            "translated"
        ]
        == 4
    )


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        ("eins.xhtml", "./eins.xhtml", "O/eins.xhtml"),
        ("eins.xhtml", "Teil%201/%C3%BCber.xhtml", "O/Teil 1/über.xhtml"),
        ("eins.xhtml", "../eins.xhtml", "eins.xhtml"),
        # as old books say
        ("application/xhtml+xml", "text/html", "O/eins.xhtml"),
        ("application/xhtml+xml", "text/x-oeb1-document", "O/eins.xhtml"),
    ],
)
def test_a_chapter_is_where_and_what_its_book_says(old, new, path):
    files = unmarked(EPUB)
    chapter = files.pop("O/eins.xhtml")
    files["O/b.opf"] = files["O/b.opf"].replace(old, new)
    new = files_in(translated_bytes(".epub", pack({**files, path: chapter}))[0])
    assert new[path] == capitals(EPUB)["O/eins.xhtml"]


# --------------------------------------------------------------------------------------------------
# XLIFF

UNIT = "<trans-unit id='1'>{}</trans-unit>"


def xliff(unit: str, version: str = "1.2", attributes: str = "") -> str:
    body = f"<file target-language='en'><body>{unit}</body></file>"
    if version == "2.0":
        body = f"<file id='f'><unit id='u'>{unit}</unit></file>"
    return f"<xliff version='{version}'{attributes}>{body}</xliff>"


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("Ein <mrk mtype='protected'>Wort</mrk> da", "EIN <mrk mtype='protected'>Wort</mrk> DA"),
        ("Ein <mrk mtype='term'>Wort</mrk> da", "EIN <mrk mtype='term'>WORT</mrk> DA"),
        ("Ein <it pos='open'>&lt;i></it>Wort", "EIN <it pos='open'>&lt;i></it>WORT"),
        ("Ein <ph>[1<sub>Eine Note</sub>]</ph> Wort", "EIN <ph>[1<sub>EINE NOTE</sub>]</ph> WORT"),
        (
            "Ein <bpt id='1'>x</bpt>Wort<ept id='1'>y</ept>",
            "EIN <bpt id='1'>x</bpt>WORT<ept id='1'>y</ept>",
        ),
        (
            "Ein <bx id='1'/><g id='2'>Wort<ex id='1'/></g>",
            "EIN <bx id='1'/><g id='2'>WORT<ex id='1'/></g>",
        ),
        ("Ein &lt;b&gt;Wort&lt;/b&gt; da", "EIN &lt;b>WORT&lt;/b> DA"),
        ("Ein &lt;0&gt;Wort&lt;/0&gt; da&lt;1/&gt;", "EIN &lt;0>WORT&lt;/0> DA&lt;1/>"),
        ("Ein {% if x %} Wort", "EIN {% if x %} WORT"),
        (
            "<g id='1'>Eins [b x=1]zwei</g> drei[/b] da",
            "<g id='1'>EINS [b x=1]ZWEI</g> DREI[/b] DA",
        ),
        ("Ein <x id='1'/>", "EIN <x id='1'/>"),
    ],
)
def test_inline_elements_of_xliff(source, wanted):
    from lxml import etree

    new = translated_bytes(".xlf", xliff(UNIT.format(f"<source>{source}</source>")).encode())[
        0
    ].decode()
    target = re.search("<target [^>]*>(.*)</target>", new)[1]
    assert etree.canonicalize(f"<t>{target}</t>") == etree.canonicalize(f"<t>{wanted}</t>")


def test_tags_in_text_that_cross_elements():
    """Each is there once, though all words come from the other end; the elements stay inside each
    other."""
    source = (
        "[b x=1]eins &lt;i&gt;zwei <g id='1'>drei[/b] vier&lt;/i&gt; fünf</g> sechs <g "
        "id='2'>sieben</g>"
    )
    text = xliff(UNIT.format(f"<source>{source}</source>"))
    document = read_document(Path("a.xlf"), text.encode())
    translate_document(document, "de", FakeTranslator(str.upper, backwards=True))
    target = re.search("<target [^>]*>(.*)</target>", document.write().decode())[1]
    for mark in ("[b x=1]", "[/b]", "&lt;i&gt;", "&lt;/i&gt;", '<g id="1">', '<g id="2">'):
        assert target.count(mark) == 1, mark


@pytest.mark.parametrize(
    ("unit", "attributes", "is_done"),
    [
        ("", "", True),
        ("", "state='final'", True),
        ("", "state='translated'", True),
        ("", "state='x-mine'", True),
        ("", "state='new'", False),
        ("", "state='needs-review-translation'", False),
        ("approved='yes'", "state='needs-translation'", True),
    ],
)
def test_which_targets_are_translations(unit, attributes, is_done):
    text = xliff(
        f"<trans-unit id='1' {unit}><source>Das Rad</source><target {attributes}>The "
        "wheel</target></trans-unit>"
    )
    counts = translated_bytes(".xlf", text.encode())[1]
    assert counts == ({"already translated": 1} if is_done else {"translated": 1})


@pytest.mark.parametrize(
    ("state", "is_done"), [("", False), ("state='translated'", False), ("state='final'", True)]
)
def test_a_copy_of_the_source_is_no_translation(state, is_done):
    text = xliff(UNIT.format(f"<source>Das  Rad</source><target {state}>Das Rad</target>"))
    assert translated_bytes(".xlf", text.encode())[1]["translated"] == (not is_done)


@pytest.mark.parametrize("marks", list(product(["", "yes", "no"], repeat=3)))
def test_the_nearest_mark_says_whether_a_unit_is_translated(marks):
    text = xliff(f"<group id='g'>{UNIT.format('<source>Das Rad</source>')}</group>")
    for place, mark in zip(("<file ", "<group ", "<trans-unit "), marks, strict=True):
        if mark:
            text = text.replace(place, f"{place}translate='{mark}' ")
    given = ["yes", *filter(None, marks)]
    data, counts = translated_bytes(".xlf", text.encode())
    assert counts == ({"translated": 1} if given[-1] == "yes" else {"protected": 1})
    assert (b"<target" in data) == (given[-1] == "yes")


@pytest.mark.parametrize("target", ["", "<target/>", '<target state="translated">{}</target>'])
@pytest.mark.parametrize("retranslate", [False, True])
def test_the_header_of_a_po_file_in_xliff_is_no_message(target, retranslate):
    """As po2xliff writes it: its translation is itself."""
    header = "Project-Id-Version: das Rad\nLanguage: en\n"
    content = f"<source>{header}</source>{target.format(header)}"
    unit = f'<trans-unit id="2" restype="x-gettext-domain-header">{content}</trans-unit>'
    message = '<trans-unit id="3"><source>das Rad</source></trans-unit>'
    data, counts = translated_bytes(".xlf", xliff(unit + message).encode(), retranslate=retranslate)
    assert counts == {"translated": 1, "headers of gettext": 1}
    assert unit in data.decode() and "DAS RAD" in data.decode()


@pytest.mark.parametrize(
    ("stated", "language", "wanted"),
    [
        ("", "en", b'trgLang="en"'),
        ("", "pt_BR", b'trgLang="pt-BR"'),
        ("", "", b""),
        ("fr", "en", b'trgLang="fr"'),
        ("fr", "", b'trgLang="fr"'),
    ],
)
def test_xliff_2_states_its_language_where_it_is_known(stated, language, wanted):
    attributes = " srcLang='de'" + (f" trgLang='{stated}'" if stated else "")
    text = xliff("<segment><source>Das Rad</source></segment>", "2.0", attributes)
    document = read_document(Path("a.xlf"), text.encode())
    for segment in segments(document.fields[0].parts):
        segment.translation = "The wheel"
    document.language = language
    data = document.write()
    assert wanted in data
    assert (b"trgLang" in data) == bool(wanted)


def test_spans_of_xliff_2_and_ignorable_text():
    """From <sm/> to <em/> nothing is translated; what is between segments is counted."""
    span = "<sm id='1' translate='no'/>Otto <ph id='2'/>Meier<em startRef='1'/>"
    units = (
        f"<segment><source>Hier ist {span} da</source></segment><ignorable><source>und "
        "so</source></ignorable>"
    )
    data, counts = translated_bytes(
        ".xlf", xliff(units, "2.0", " srcLang='de' trgLang='en'").encode()
    )
    assert counts == {"translated": 1, "protected": 2, "outside segments": 1}
    plain = data.decode().replace('"', "'")
    assert f"<target>HIER IST {span} DA</target>" in plain and plain.count("und so") == 1


def test_a_segment_that_is_not_translated_keeps_its_source():
    """A tool that joins the segments of a unit would lose it."""
    text = xliff(
        UNIT.format(
            "<source>Der Hund bellt. 12:30.</source><seg-source><mrk mtype='seg' mid='1'>Der Hund "
            "bellt.</mrk> <mrk mtype='seg' mid='2'>12:30.</mrk></seg-source>"
        )
    )
    data = translated_bytes(".xlf", text.encode())[0].decode().replace('"', "'")
    target = re.search("<target.*?</target>", data, re.DOTALL)[0]
    assert re.sub("<[^>]*>", "", target) == "DER HUND BELLT. 12:30."


@pytest.mark.parametrize(
    "rule",
    [
        "<table:filter-condition table:value='offen'/>",
        "<table:filter-set-item table:value='Offen'/>",
        "<c:condition xmlns:c='urn:c' c:value='=&quot;OFFEN&quot;'/>",
    ],
)
def test_a_rule_of_opendocument_names_cells_by_their_text(rule):
    from lxml import etree

    from nmt.documents.opendocument import named_texts

    root = etree.fromstring(f"<a xmlns:table='urn:table'>{rule}</a>")
    assert "offen" in named_texts(root)


def test_other_parts_of_xliff_keep_their_bytes():
    """Notes, other translations, CDATA and elements of other programs."""
    others = (
        "<note>Ein  Hinweis</note><alt-trans><source>Rad</source><target>bike</target></alt-trans>"
        "<m:tm xmlns:m='urn:m' m:x='1'><![CDATA[<b>]]></m:tm>"
    )
    text = xliff(UNIT.format(f"<source>Das Rad</source>{others}"))
    data = translated_bytes(".xlf", text.encode())[0].decode().replace('"', "'")
    assert others in data and "<target state='needs-review-translation'>DAS RAD</target>" in data


def test_formulas_name_cells_by_their_text():
    """A filter, a list of permitted values and a formula find a cell by its text, so it stays."""
    for rule in (
        '<dataValidations><dataValidation><formula1>"Ja,nein '
        'danke"</formula1></dataValidation></dataValidations>',
        "<autoFilter><filterColumn><filters><filter val='Nein "
        "danke'/></filters></filterColumn></autoFilter>",
    ):
        files = dict(EXCEL)
        files["xl/sharedStrings.xml"] = re.sub(
            "<si><t>Ware", "<si><t>Nein danke", files["xl/sharedStrings.xml"]
        )
        files["xl/tables/table1.xml"] = "<table/>"
        files["xl/worksheets/sheet1.xml"] = files["xl/worksheets/sheet1.xml"].replace(
            "<headerFooter>", f"{rule}<headerFooter>"
        )
        counts = translated_bytes(".xlsx", pack(unmarked(files)))[1]
        assert counts["named in formulas"] == 2


def test_a_chapter_has_the_name_that_the_archive_says():
    """In UTF-8 without the flag for it, as some programs write it; a missing file is said."""
    files = unmarked(EPUB)
    chapter = files.pop("O/eins.xhtml")
    href = "href='Überblick.xhtml'"
    files["O/b.opf"] = files["O/b.opf"].replace("href='eins.xhtml'", href)
    files["O/b.opf"] = files["O/b.opf"].replace(
        "<item id='n'", "<item href='no.png'/><item href='https://a.example/b.mp4'/><item id='n'"
    )
    data = pack({**files, "O/UEberblick.xhtml": chapter})
    data = data.replace(b"UEberblick", "Überblick".encode())
    written, counts = translated_bytes(".epub", data)
    assert files_in(written)["O/Überblick.xhtml"] == capitals(EPUB)["O/eins.xhtml"]
    assert counts["missing files"] == 1


def test_a_stated_encoding_that_would_not_be_written_is_refused():
    text = '<?xml version="1.0" encoding="iso-8859-1"?><html><p>Good morning</p></html>'
    with pytest.raises(UserError, match="iso-8859-1"):
        translated_bytes(".xhtml", text.encode())


def test_a_header_that_excel_would_not_open_is_not_written(caplog):
    files = unmarked(EXCEL)
    data, _ = translated_bytes(".xlsx", pack(files), lambda text: text * 30)
    assert "&amp;P von hier&amp;R" in files_in(data)["xl/worksheets/sheet1.xml"]
    assert "255" in caplog.text


@pytest.mark.parametrize(
    ("header", "translation", "wanted"),
    [
        ('&L&"Arial"&12Fünf Räder', "5 wheels", '&L&"Arial"&12 5 wheels'),
        ("&C&12Fünf Räder&R&D", "ten wheels", "&C&12ten wheels&R&D"),
        ("&K01+034Fünf Räder", "5 wheels", "&K01+034 5 wheels"),
        ("&LRad und Weg", "P&L & more", "&LP&&L && more"),
        ("Rad && Weg", "wheel & way", "wheel && way"),
    ],
)
def test_the_codes_of_a_header_are_those_it_had(header, translation, wanted):
    name = "xl/worksheets/sheet1.xml"
    files = unmarked(EXCEL)
    old = re.search("<oddHeader>(.*?)</oddHeader>", files[name])[1]
    files[name] = files[name].replace(old, escape(header))
    data, _ = translated_bytes(".xlsx", pack(files), lambda _: translation)
    assert f"<oddHeader>{escape(wanted)}<" in files_in(data)[name].replace('"', "&quot;")


def test_counts_notice_what_is_lost():
    """Less of a part, an element or a paragraph with a text than before is an error."""
    from nmt.documents.formats import EXTENSIONS

    contents = EXTENSIONS[".docx"].contents
    before = contents(PACKAGES[".docx"])
    files = unmarked(WORD)
    for old, new in (
        ("<w:footnoteReference w:id='1'/>", ""),
        (run("Ein Satz."), ""),
        ("Im Kasten", ""),
        (HEAD + "<w:document", "<w:document"),
    ):
        changed = dict(files)
        changed["word/document.xml"] = files["word/document.xml"].replace(old, new)
        lost = before - contents(pack(changed))
        assert bool(lost) == (not old.startswith(HEAD)), old
    del files["word/styles.xml"]
    assert (before - contents(pack(files))) >= Counter({"files inside": 1})

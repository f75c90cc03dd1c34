"""Packages of XML files for tests: the files of each, with «…» around what is translated."""

import io
import re
import zipfile

from documents import in_capitals

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
S = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
R = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
P = 'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
C = 'xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart"'
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
OFFICE_TYPE = "application/vnd.openxmlformats-officedocument"
HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'


def content_types(**types: str) -> str:
    parts = "".join(
        f'<Override PartName="/{name}" ContentType="{OFFICE_TYPE}.{kind}+xml"/>'
        for name, kind in types.items()
    )
    defaults = (
        '<Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    )
    return f'{HEAD}<Types xmlns="{PACKAGE}/content-types">{defaults}{parts}</Types>'


def relations(**targets: str) -> str:
    each = "".join(
        f'<Relationship Id="{number}" Type="{RELATIONS}/{target.split(" ")[0]}" '
        f'Target="{target.split(" ")[1]}"/>'
        for number, target in targets.items()
    )
    return f'{HEAD}<Relationships xmlns="{PACKAGE}/relationships">{each}</Relationships>'


def run(text: str, look: str = "", name: str = "t") -> str:
    properties = f"<w:rPr>{look}</w:rPr>" if look else ""
    return f'<w:r>{properties}<w:{name} xml:space="preserve">{text}</w:{name}></w:r>'


def field(instruction: str, result: str) -> str:
    mark = '<w:r><w:fldChar w:fldCharType="{}"/></w:r>'.format
    return (
        mark("begin") + run(instruction, name="instrText") + mark("separate") + result + mark("end")
    )


CHART = (
    f"<c:chartSpace {C} {A}><c:chart><c:title><c:tx><c:rich><a:p><a:r><a:t>«Umsatz im "
    "Jahr»</a:t></a:r></a:p>"
    f"</c:rich></c:tx>"
    "</c:title><c:cat><c:strRef><c:f>Tabelle1!A2</c:f><c:strCache><c:pt "
    "idx='0'><c:v>«Äpfel»</c:v></c:pt>"
    "</c:strCache>"
    "</c:strRef></c:cat><c:val><c:numRef><c:numCache><c:formatCode>Standard</c:formatCode><c:pt "
    "idx='0'><c:v>"
    "1E-05</c:v>"
    "</c:pt></c:numCache></c:numRef></c:val></c:chart></c:chartSpace>"
)
PICTURE = "<w:r><wp:docPr xmlns:wp='wp' descr='Ein Bild vom Hund'/></w:r>"
BOX = f"<w:txbxContent><w:p>{run('«Im Kasten»')}</w:p></w:txbxContent>"
PARAGRAPHS = [
    f"<w:p><w:pPr/>{run('«Der große »')}{run('«Hund»', '<w:b/>')}{run('« schläft.»')}</w:p>",
    f"<w:p><w:hyperlink>{run('«Zuerst ein Link»')}</w:hyperlink>{run('«, dann mehr.»')}</w:p>",
    f"<w:p>{run('«Er »')}<w:del>{run('bellte ', name='delText')}{PICTURE}</w:del>"
    f"{run('«läuft.»')}</w:p>",
    f"<w:p><w:moveFrom>{run('Das zog um.')}</w:moveFrom></w:p><w:p><w:moveTo>"
    f"{run('«Das zog um.»')}</w:moveTo></w:p>",
    f"<w:p><w:bdo>{run('«Ein Satz.»')}</w:bdo></w:p><w:p><w:customXml><w:customXmlPr/>"
    f"{run('«Noch einer.»')}</w:customXml></w:p>",
    f"<w:p><w:sdt><w:sdtPr><w:alias w:val='Feld eins'/></w:sdtPr><w:sdtContent>"
    f"{run('«Bitte wählen»')}</w:sdtContent></w:sdt></w:p>",
    f"<w:p>{run('«Gesehen am »')}{field(' DATE ', run('3. März'))}{run('« im Zoo.»')}</w:p>",
    f"<w:p>{run('«Siehe »')}{field(' HYPERLINK x ', run('«hier»', '<w:u/>'))}"
    f"{run('« nach.»')}</w:p>",
    f"<w:p>{run('«Erst »')}{field(' REF x ', run('«dies»', '<w:u/>'))}{run('« und »')}"
    f"{field(' REF y ', run('«dann »') + field(' PAGE ', run('drei')) + run('« das»'))}"
    f"{run('«.»')}</w:p>",
    f"<w:p>{run('«Seite »')}<w:fldSimple w:instr='PAGE'>{run('eins')}</w:fldSimple></w:p>",
    f"<w:p><w:r><w:ruby><w:rubyPr/><w:rt>{run('lies')}</w:rt><w:rubyBase>{run('«Wort»')}</w:rubyBase>"
    f"</w:ruby></w:r></w:p>",
    "<w:p><w:r><mc:AlternateContent xmlns:mc='m'><mc:Choice>"
    "<wp:docPr xmlns:wp='wp' descr='«Ein Bild»' title='«Sein Titel»' name='Bild 1'/>"
    f"{BOX}</mc:Choice><mc:Fallback>{BOX}</mc:Fallback></mc:AlternateContent></w:r></w:p>",
    f"<w:p>{run('«Eins»')}<w:r><w:tab/></w:r>{run('«zwei»')}<w:r><w:br/></w:r></w:p>",
    f"<w:p>{run('«Formel »')}<m:oMath xmlns:m='m'><m:r><m:t>sin alpha</m:t></m:r></m:oMath></w:p>",
    f"<w:p>{run('«Ein Tier»')}<w:r><w:footnoteReference w:id='1'/></w:r>{run('«.»')}</w:p>",
]
BODY = "".join(PARAGRAPHS)
WORD = {
    "[Content_Types].xml": content_types(**{"word/document.xml": "wordprocessingml.document.main"}),
    "_rels/.rels": relations(a="officeDocument word/document.xml"),
    "word/document.xml": f"{HEAD}<w:document {W}><w:body>{BODY}<w:sectPr/></w:body></w:document>",
    "word/footnotes.xml": f"{HEAD}<w:footnotes {W}><w:footnote>"
    f"<w:p>{run('«Eine Fußnote.»')}</w:p></w:footnote></w:footnotes>",
    "word/comments.xml": f"<w:comments {W}><w:comment "
    f"w:author='Anna'><w:p>{run('«Gut so!»')}</w:p></w:comment>"
    f"</w:comments>",
    "word/header3.xml": f"<w:hdr {W}><w:p>{run('«Kopfzeile»')}</w:p></w:hdr>",
    "word/glossary/document.xml": "<w:glossaryDocument "
    f"{W}><w:p>{run('«Baustein»')}</w:p></w:glossaryDocument>",
    "word/charts/chart1.xml": CHART,
    "word/diagrams/data1.xml": "<dgm:dataModel xmlns:dgm='d' "
    f"{A}><dgm:pt><dgm:t><a:bodyPr/><a:p><a:r><a:t>"
    f"«Schritt eins»"
    "</a:t></a:r></a:p></dgm:t></dgm:pt></dgm:dataModel>",
    "word/styles.xml": f"<w:styles {W}><w:style><w:name w:val='heading one'/></w:style></w:styles>",
    "word/numbering.xml": f"<w:numbering {W}><w:lvl><w:numFmt w:val='decimal'/>"
    f"<w:lvlText w:val='«Kapitel» %1.'/></w:lvl>"
    "<w:lvl><w:numFmt w:val='bullet'/><w:lvlText w:val='o'/></w:lvl></w:numbering>",
    "customXml/item1.xml": "<daten><wert>Eigene Daten</wert></daten>",
    "docProps/core.xml": "<cp:coreProperties xmlns:cp='c' xmlns:dc='d'><dc:title>«Ein "
    "Titel»</dc:title>"
    "<dc:creator>Anna Meier"
    "</dc:creator></cp:coreProperties>",
}


def shape(place: str, text: str) -> str:
    body = f"<p:txBody><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:txBody>"
    return f"<p:sp><p:nvSpPr><p:nvPr>{place}</p:nvPr></p:nvSpPr>{body}</p:sp>"


POWERPOINT = {
    "ppt/presentation.xml": f"<p:presentation {P}/>",
    "ppt/slides/slide1.xml": f"<p:sld {P} {A}>{shape('<p:ph/>', '«Guten Tag!»')}<a:p><a:r>"
    f"<a:rPr lang='de' b='1'/><a:t>«Ein »</a:t></a:r>"
    "<a:br/><a:fld type='datetime1'><a:t>3. März</a:t></a:fld><a:endParaRPr/></a:p></p:sld>",
    "ppt/slideLayouts/slideLayout1.xml": f"<p:sldLayout {P} {A}>"
    f"{shape('<p:ph/>', 'Titel hier')}{shape('', '«Unsere Firma»')}</p:sldLayout>",
    "ppt/notesSlides/notesSlide1.xml": f"<p:notes {P} {A}>"
    f"{shape('<p:ph/>', '«Notiz dazu»')}</p:notes>",
    "ppt/comments/comment1.xml": f"<p:cmLst {P}><p:cm authorId='0'><p:text>«Bitte "
    "kürzen.»</p:text></p:cm></p:cmLst>",
}
EXCEL = {
    "[Content_Types].xml": content_types(
        **{
            "xl/workbook.xml": "spreadsheetml.sheet.main",
            "xl/worksheets/sheet1.xml": "spreadsheetml.worksheet",
            "xl/sharedStrings.xml": "spreadsheetml.sharedStrings",
            "xl/tables/table1.xml": "spreadsheetml.table",
        }
    ),
    "_rels/.rels": relations(a="officeDocument xl/workbook.xml"),
    "xl/_rels/workbook.xml.rels": relations(
        a="worksheet worksheets/sheet1.xml", b="sharedStrings sharedStrings.xml"
    ),
    "xl/workbook.xml": f"{HEAD}<workbook {S} {R}><sheets><sheet name='Erste Tabelle' sheetId='1' "
    "r:id='a'/>"
    f"</sheets></workbook>",
    "xl/sharedStrings.xml": f"{HEAD}<sst {S}><si><t>Ware</t></si><si><t>«Die Äpfel\nvon "
    "hier»</t></si><si><r>"
    f"<t xml:space='preserve'>"
    "«Ganz besonders »</t></r><r><rPr><b/></rPr><t>«frisch.»</t></r><rPh sb='0' "
    "eb='1'><t>lies</t></rPh></si><si>"
    "<t>ausverkauft</t></si></sst>",
    "xl/worksheets/_rels/sheet1.xml.rels": relations(t="table ../tables/table1.xml"),
    "xl/worksheets/sheet1.xml": f"{HEAD}<worksheet {S} {R}><sheetData><row r='1'><c r='A1' "
    "t='s'><v>0</v></c>"
    f"<c r='B1' t='inlineStr'>"
    "<is><t>«Ein Preis»</t></is></c></row><row r='2'><c r='A2' t='s'><v>1</v></c><c "
    "r='B2'><v>1.5</v></c></row>"
    "<row r='3'><c r='A3' t='s'><v>2</v></c><c r='B3' "
    't=\'str\'><f>IF(A4="ausverkauft","nein","ja")</f><v>'
    "nein danke</v></c></row>"
    "<row r='4'><c r='A4' t='s'><v>3</v></c><c r='B4' t='str'><v>«Ohne "
    "Formel»</v></c><c r='C4' t='e'><v>#NAME?</v></c></row></sheetData>"
    '<headerFooter><oddHeader>&amp;L&amp;"Arial,Fett"«Seite» &amp;P «von '
    "hier»&amp;R«Rechts»</oddHeader>"
    "</headerFooter>"
    "<tableParts count='1'><tablePart r:id='t'/></tableParts></worksheet>",
    "xl/tables/table1.xml": f"{HEAD}<table {S} id='1' name='T' displayName='T' ref='A1:A4'>"
    f"<autoFilter ref='A1:A4'/><tableColumns count='1'>"
    "<tableColumn id='1' name='Ware'/></tableColumns></table>",
}
OPENDOCUMENT = {
    "mimetype": "application/vnd.oasis.opendocument.text",
    "content.xml": "<o:d xmlns:o='urn:oasis:names:tc:opendocument:xmlns:office:1.0'"
    " xmlns:text='urn:oasis:names:tc:opendocument:xmlns:text:1.0'"
    " xmlns:table='urn:table' xmlns:svg='urn:svg'><text:tracked-changes><text:p>Alter Text</text:p>"
    "</text:tracked-changes>"
    "<text:p><text:s text:c='2'/>«Der» <text:span>«Hund»</text:span> "
    "«läuft»<text:note><text:note-body><text:p>"
    "«Ja.»</text:p></text:note-body>"
    "</text:note>«.»<text:line-break/>«Dort.»</text:p><text:p>«Am »<text:date>3. "
    "März</text:date></text:p>"
    "<text:p><text:ruby><text:ruby-base>«Wort»</text:ruby-base><text:ruby-text>lies</text:ruby-text></text:ruby>"
    "</text:p>"
    "<svg:desc>«Ein Bild»</svg:desc><o:spreadsheet><table:table table:name='Erste Tabelle'>"
    "<table:table-cell o:value-type='date'><text:p>3. März</text:p></table:table-cell>"
    "<table:table-cell o:value-type='string' "
    "table:formula='A1'><text:p>berechnet</text:p></table:table-cell>"
    "<table:table-cell o:value-type='string' "
    "o:string-value='«Apfel»'><text:p>«Apfel»</text:p></table:table-cell>"
    "</table:table></o:spreadsheet></o:d>",
    "meta.xml": "<o:d xmlns:o='o' xmlns:dc='dc'><o:meta><dc:title>«Ein "
    "Titel»</dc:title><dc:creator>"
    "Anna</dc:creator></o:meta></o:d>",
}
INDESIGN = {
    "Stories/Story_u1.xml": "<Story><ParagraphStyleRange><CharacterStyleRange "
    "S='b'><Properties><Leading>"
    "auto so</Leading></Properties>"
    "<Content>«Der Titel»</Content></CharacterStyleRange>"
    "<CharacterStyleRange><Br/></CharacterStyleRange><CharacterStyleRange>"
    "<Content>«Seite »</Content></CharacterStyleRange><CharacterStyleRange><Content><?ACE "
    "18?></Content>"
    "</CharacterStyleRange>"
    "</ParagraphStyleRange><ParagraphStyleRange><CharacterStyleRange><HyperlinkTextSource><Content>"
    "«Ein Verweis»</Content>"
    "</HyperlinkTextSource></CharacterStyleRange><Change "
    "ChangeType='DeletedText'><CharacterStyleRange><Content>"
    "weg damit</Content>"
    "</CharacterStyleRange></Change></ParagraphStyleRange></Story>",
    "Resources/Fonts.xml": "<Fonts><Name>Schöne Schrift</Name></Fonts>",
}
OPF = (
    "<package xmlns='http://www.idpf.org/2007/opf' version='3.0'>"
    "<metadata xmlns:dc='http://purl.org/dc/elements/1.1/'>"
    "<dc:title>«Ein Buch»</dc:title><dc:creator>Anna "
    "Meier</dc:creator><dc:language>de</dc:language>"
    "<dc:identifier>x</dc:identifier>"
    "</metadata><manifest><item id='a' href='eins.xhtml' media-type='application/xhtml+xml'/>"
    "<item id='n' href='toc.ncx' media-type='application/x-dtbncx+xml'/></manifest><spine toc='n'>"
    "<itemref idref='a'/></spine></package>"
)
EPUB = {
    "mimetype": "application/epub+zip",
    "META-INF/container.xml": "<container "
    "xmlns='urn:oasis:names:tc:opendocument:xmlns:container'><rootfiles>"
    "<rootfile full-path='O/b.opf' "
    "media-type='application/oebps-package+xml'/></rootfiles></container>",
    "O/b.opf": OPF,
    "O/eins.xhtml": "<!DOCTYPE html>\n<html "
    "xmlns='http://www.w3.org/1999/xhtml'><head><title>«Kapitel»</title>"
    "</head><body><p>«Es war»"
    " <i>«einmal»</i> «hier.»</p></body></html>",
    "O/toc.ncx": "<ncx><docAuthor><text>Anna "
    "Meier</text></docAuthor><navMap><navPoint><navLabel><text>"
    "«Kapitel eins»</text></navLabel>"
    "</navPoint></navMap></ncx>",
}
MARKED_PACKAGES = {
    ".docx": WORD,
    ".pptx": POWERPOINT,
    ".xlsx": EXCEL,
    ".odt": OPENDOCUMENT,
    ".ods": OPENDOCUMENT,
    ".odp": OPENDOCUMENT,
    ".idml": INDESIGN,
    ".epub": EPUB,
}


def pack(files: dict[str, str | bytes], comment: bytes = b"") -> bytes:
    """An archive of these files, as a program writes one: the type is not packed."""
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.comment = comment
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, (2020, 2, 3, 4, 5, 6))
            entry.compress_type = zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return output.getvalue()


def unmarked(files: dict[str, str]) -> dict[str, str]:
    return {name: re.sub("[«»]", "", text) for name, text in files.items()}


def capitals(files: dict[str, str]) -> dict[str, str]:
    return {name: in_capitals(text) for name, text in files.items()}


def files_in(data: bytes) -> dict[str, str]:
    archive = zipfile.ZipFile(io.BytesIO(data))
    return {name: archive.read(name).decode() for name in archive.namelist()}


PACKAGES = {extension: pack(unmarked(files)) for extension, files in MARKED_PACKAGES.items()}

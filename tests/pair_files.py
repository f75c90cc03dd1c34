"""Files of pairs: translation memories, JSON lines, Parquet and archives."""

import io
import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from html import escape

import pyarrow
from pyarrow import parquet

TMX = '<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4"><header/><body>{}</body></tmx>'
TUV = '<tuv xml:lang="{}"><seg>{}</seg></tuv>'


def unit(*texts: str) -> str:
    """A unit of language, text, language, text …"""
    return "<tu>" + "".join(map(TUV.format, texts[::2], texts[1::2])) + "</tu>"


def tmx(*units: str) -> str:
    return TMX.format("\n".join(units))


def tmx_of(pairs: Iterable[Sequence[str]], codes: Sequence[str] = ("de", "en")) -> str:
    """A translation memory of these pairs."""
    units = []
    for source, target in pairs:
        units.append(unit(codes[0], escape(source), codes[1], escape(target)))
    return tmx(*units)


def objects(*rows: object) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def parquet_file(rows: list[dict]) -> bytes:
    content = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(rows), content)
    return content.getvalue()


def zipped(members: Mapping[str, str | bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return content.getvalue()

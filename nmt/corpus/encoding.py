"""The encoding of a text file: UTF-8, what its byte order mark says, or a guess, which is said."""

import codecs
from collections import Counter
from dataclasses import replace
from itertools import islice

from charset_normalizer import from_bytes

from nmt.corpus.inspect.language import WORD, words_of_language
from nmt.corpus.languages import base_code
from nmt.corpus.packed import PackedFile
from nmt.corpus.tables import warn_once

BLOCKS = 16  # of the beginning of a file, from which its encoding is guessed
FEWEST = 3  # bytes that are not UTF-8 in them; fewer are damage
MARKS = {
    codecs.BOM_UTF8: "",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
# What charset-normalizer chooses from: it tells scripts apart, but not the encodings of Latin
# letters.
ENCODINGS = (
    "cp1252 cp1251 koi8_r cp1253 cp1255 cp1256 cp874 shift_jis euc_jp gb18030 big5 euc_kr".split()
)
WESTERN = "cp1252"
LATIN = {
    "cp1250": "bs cs hr hu pl ro sk sl sq".split(),
    "cp1254": "az tr".split(),
    "cp1257": "et lt lv".split(),
    "cp1258": "vi".split(),
}
# An encoding of Unix for the same languages; some letters of one are signs in the other
ISO = {"cp1250": "iso8859_2"}


def with_encoding(file: PackedFile, encoding: str, *languages: str) -> PackedFile:
    """The file as it is decoded: from an encoding, or with auto from the one that it looks like.

    The languages tell encodings of Latin letters apart; with them, a guess is logged.
    """
    if encoding == "auto":
        encoding = find_encoding(file, languages)
        if languages and encoding not in MARKS.values():
            warn_once(
                f"{file} is not UTF-8 and is read as {encoding}, a guess; a file in UTF-8, or for "
                "training data.encoding=NAME, is surer."
            )
    return replace(file, encoding="" if encoding.lower() in ("utf-8", "utf8") else encoding)


def find_encoding(file: PackedFile, languages: tuple[str, ...]) -> str:
    """The encoding that the beginning of a file looks like; "" for UTF-8.

    It is UTF-8 if at least half of its characters beyond ASCII are valid.
    """
    beginning = b"".join(islice(file.blocks(), BLOCKS))
    for mark, encoding in MARKS.items():
        if beginning.startswith(mark):
            return encoding
    text = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode(beginning)
    wrong = sum("\udc80" <= character <= "\udcff" for character in text)
    if wrong < FEWEST or b"\0" in beginning:
        return ""
    beyond_ascii = sum(character > "\x7f" for character in text)  # the wrong ones, too
    if 2 * wrong <= beyond_ascii:
        return ""
    best = from_bytes(beginning, cp_isolation=ENCODINGS).best()
    if best and best.encoding != WESTERN:
        return best.encoding
    for code in map(base_code, languages):
        for encoding, written in LATIN.items():
            if code in written:
                candidates = [encoding, ISO.get(encoding, encoding)]
                return max(candidates, key=lambda name: likeness(beginning, name, code))
    return WESTERN


def likeness(beginning: bytes, encoding: str, language: str) -> tuple[float, int]:
    """How much a text in this encoding is like one in the language: its words, then its letters."""
    text = beginning.decode(encoding, "replace")
    words = Counter(WORD.findall(text.lower()))
    return words_of_language(words, language), sum(map(str.isalpha, text))

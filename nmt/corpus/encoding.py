"""The encoding of a text file: UTF-8, what its byte order mark says, or a guess, which is said."""

import codecs
import re
import unicodedata
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import chain, islice

from charset_normalizer import from_bytes

from nmt.corpus.inspect.language import words_of_language
from nmt.corpus.inspect.lines import TOGETHER
from nmt.corpus.languages import LANGUAGES, base_code
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
# What charset-normalizer chooses from: it tells scripts apart, and the encodings with two bytes for
# a character, but not the others of one script.
TWO_BYTES = {
    "Hans": ["gb18030", "big5"],
    "Hant": ["gb18030", "big5"],
    "Jpan": ["cp932", "euc_jp"],
    "Kore": ["cp949"],
}
ENCODINGS = "cp1252 cp1251 koi8_u cp1253 cp1255 cp1256 cp874".split()
ENCODINGS += dict.fromkeys(chain(*TWO_BYTES.values()))
# What people wrote before UTF-8, the usual encoding of Windows first; the others are of Unix, DOS
# and the Macintosh.
BY_SCRIPT = {
    "Latn": "cp1252 iso8859_15 cp850 mac_roman",
    "Cyrl": "cp1251 koi8_u iso8859_5 cp866",
    "Grek": "cp1253 iso8859_7",
    "Hebr": "cp1255",
    "Arab": "cp1256 iso8859_6",
    "Thai": "cp874",
}
CENTRAL = "cp1250 iso8859_2 cp852 mac_latin2"
BALTIC = "cp1257 iso8859_13"
# Central European languages, and their letters: ą and ľ of Windows are š and ž of ISO 8859-2.
CENTRAL_LETTERS = {
    "bs": "čćđšž",
    "cs": "áčďéěíňóřšťúůýž",
    "hr": "čćđšž",
    "hu": "áéíóöőúüű",
    "pl": "ąćęłńóśźż",
    "ro": "ăâîşţ",
    "sk": "áäčďéíĺľňóôŕšťúýž",
    "sl": "čšž",
    "sq": "çë",
    "sr": "čćđšž",
}
BY_LANGUAGE = dict.fromkeys(CENTRAL_LETTERS, CENTRAL) | {
    "az": "cp1254",
    "et": BALTIC,
    "lt": BALTIC,
    "lv": BALTIC,
    "sr": f"{BY_SCRIPT['Cyrl']} {CENTRAL}",
    "tr": "cp1254",
    "vi": "cp1258",
}
# Two letters or more, with their combining marks
WORD = re.compile("(?:[^\\W\\d_][\u0300-\u036f\u064b-\u0652]*){2,}")
# A sign beyond ASCII in a usual place: quotes around words, ’ inside of them, € before a number
USUAL_SIGN = re.compile(
    r"(?<!\w)[‘’‚“”„«»‹›–—…¿¡]|[‘’“”«»‹›–—…](?!\w)|(?<=\w)’(?=\w)"
    r"|(?<!\w)[°€£§©®µ](?![^\W\d_])|(?<=\d)[°€£ºª½µ]|\u00a0"
)


def with_encoding(file: PackedFile, encoding: str, *languages: str) -> PackedFile:
    """The file as it is decoded: from an encoding, or with auto from the one that it looks like.

    The languages tell the encodings of one script apart; with them, a guess is logged.
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
    candidates = candidate_encodings(beginning, languages)
    return max(candidates, key=lambda encoding: likeness(beginning, encoding, languages))


def candidate_encodings(beginning: bytes, languages: tuple[str, ...]) -> list[str]:
    """The encodings of these languages; the guess of charset-normalizer where they have none.

    Where one has another script than Latin, they are those of this language: they have ASCII, too.
    """
    latin: list[str] = []
    others: list[str] = []
    for code in map(base_code, languages):
        script = LANGUAGES[code].script if code in LANGUAGES else ""
        if script in TWO_BYTES:
            others += guess(beginning, TWO_BYTES[script])
            continue
        encodings = BY_LANGUAGE.get(code, BY_SCRIPT.get(script, "")).split()
        if script == "Latn":
            latin += encodings
        else:
            others += encodings
    return others or latin or guess(beginning, ENCODINGS)


def guess(beginning: bytes, encodings: list[str]) -> list[str]:
    best = from_bytes(beginning, cp_isolation=encodings).best()
    return [best.encoding] if best else encodings


def likeness(
    beginning: bytes, encoding: str, languages: tuple[str, ...]
) -> tuple[float, int, float]:
    """How much a text in this encoding is like one in the languages.

    This is the share of its characters beyond ASCII that stand where they usually do, then the
    number of letters of the languages, and of their frequent words.
    """
    text = beginning.decode(encoding, "replace")
    characters = Counter(text)
    words = Counter(WORD.findall(text))
    usual = len(USUAL_SIGN.findall(text))
    for word, count in words.items():
        if is_usual(word):
            usual += count * sum(letter > "\x7f" for letter in word)
    beyond_ascii = sum(count for character, count in characters.items() if character > "\x7f")

    words_in_lower = Counter(WORD.findall(text.lower()))
    letters = 0
    frequent = 0.0
    for code in map(base_code, languages):
        letters += sum(characters[letter] for letter in CENTRAL_LETTERS.get(code, ""))
        frequent += words_of_language(words_in_lower, code)
    return usual / max(1, beyond_ascii), letters, frequent


def is_usual(word: str) -> bool:
    """Whether a word has letters of one script, and capitals only at its beginning."""
    scripts = {script_of(letter) for letter in word if not unicodedata.combining(letter)}
    return word[1:] == word[1:].lower() and len(scripts) == 1


@cache
def script_of(letter: str) -> str:
    script = unicodedata.name(letter, "").partition(" ")[0]
    return TOGETHER.get(script, script)

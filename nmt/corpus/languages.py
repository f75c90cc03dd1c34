"""Codes of languages in any form: de, deu, ger, deu_Latn, de-DE, zh-Hant, German and Deutsch.

languages.tsv has a line for each language: its code here (ISO 639-1, else ISO 639-3), its other
codes (ISO 639-2 and 639-3, with the standard variety of a macrolanguage), the script in which it is
usually written (ISO 15924), and its English name (CLDR). language_names.tsv has its names in other
languages (CLDR), as scripts/language_names.py wrote them.
"""

import re
import unicodedata
from collections.abc import Iterable
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path
from typing import NamedTuple

from nmt.errors import UserError

MOST_SHOWN = 12  # codes that a message lists
LONGEST_CODE = 3  # characters of a language alone; longer ones are names
NEAREST = 5  # codes that a message names if there are more than MOST_SHOWN
SCRIPT = re.compile(r"[A-Za-z]{4}")
REGION = re.compile(r"[A-Za-z]{2}|[0-9]{3}")
CODE = re.compile(rf"[A-Za-z]{{2,3}}(?:[-_](?:{SCRIPT.pattern}))?(?:[-_](?:{REGION.pattern}))?")
ACCENTS = re.compile("[\u0300-\u036f]")
WORD = re.compile(r"[^\W\d_]+")
IN_BRACKETS = re.compile(r"[(\[]\s*(\w{2,3})\b")
# Beside one of these, a code in the name of a column is that of a language, as in text_no; alone it
# may be a word.
OF_TEXT = set(
    "lang language original sentence source src string target text tgt translation".split()
)
# Codes that are also words, or short for one, as columns are called: a column `id` may have keys.
ALSO_WORDS = set(
    "am an as be co he hi id ie io is it mi my na no or os pa pi ps se si so th ti to ts".split()
)
LONGEST_NAME = 4  # words of a column's name
SENTENCE_ENDS = (".", "!", "?", "…", "。", "！", "？")
TRADITIONAL = {"tw", "hk", "mo"}  # regions where Chinese is written so


class Language(NamedTuple):
    """A language: its code here, the script in which it is written, and its English name."""

    code: str
    script: str  # "" where it is not known
    name: str


DATA = Path(__file__).parent


def read_table() -> tuple[dict[str, Language], dict[str, str]]:
    """The languages by their codes here, and the code here of each other code and English name."""
    languages: dict[str, Language] = {}
    codes: dict[str, str] = {}
    for line in (DATA / "languages.tsv").read_text(encoding="utf-8").splitlines():
        code, others, script, name = line.split("\t")
        languages[code] = Language(code, script, name)
        codes |= dict.fromkeys([code, *others.split(), name.lower()], code)
    return languages, codes


LANGUAGES, CODES = read_table()


def folded(name: str) -> str:
    """A name in small letters and without accents, as in FRANCAIS for Français."""
    letters = ACCENTS.sub("", unicodedata.normalize("NFKD", name.strip()))
    return unicodedata.normalize("NFC", letters).casefold()


@cache
def language_names() -> dict[str, str]:
    """The code here of each name of a language in whatever language, as `folded` has it."""
    codes = {folded(language.name): language.code for language in LANGUAGES.values()}
    for line in (DATA / "language_names.tsv").read_text(encoding="utf-8").splitlines():
        code, names = line.split("\t")
        codes |= dict.fromkeys(names.split("|"), code)
    return codes


def find_language(code: str) -> Language:
    """The language of a code in any form; one that is not in the table is its own code and name."""
    lower = code.strip().lower()
    word = re.split("[-_]", lower)[0]
    base = CODES.get(lower) or CODES.get(word) or language_names().get(folded(code), word)
    language = LANGUAGES.get(base, Language(base, "", code))
    return language._replace(script=named_script(code) or language.script)


def named_script(code: str) -> str:
    """The script that a code names, such as Hant of zh-Hant and zh_TW; "" if it names none."""
    language, *words = re.split("[-_]", code.strip())
    is_traditional = any(word.lower() in TRADITIONAL for word in words)
    if is_traditional and CODES.get(language.lower()) == "zh":
        return "Hant"
    return next((word.title() for word in words if SCRIPT.fullmatch(word)), "")


def named_region(code: str) -> str:
    """The region that a code names, such as AT of de-AT; "" if it names none."""
    words = re.split("[-_]", code.strip())[1:]
    return next((word.upper() for word in words if REGION.fullmatch(word)), "")


def base_code(code: str) -> str:
    """The language of a code without region and script: de of de-AT, ger and deu_Latn."""
    return find_language(code).code


def codes_of(code: str) -> list[str]:
    """All codes that the table has for the language of a code."""
    base = base_code(code)
    codes = [key for key, language in CODES.items() if language == base]
    return [key for key in codes if len(key) <= LONGEST_CODE]


def is_known(code: str) -> bool:
    """Whether a code is that of a language in the table."""
    return base_code(code) in LANGUAGES


def same_language(code: str, possible: Iterable[str]) -> list[str]:
    """Those of the possible codes that mean the language of `code`: itself, else its language's.

    If `code` names a script, only those in this script; if both name a region, only those of the
    same.
    """
    possible = list(possible)
    if code in possible:
        return [code]
    base = base_code(code)
    script = named_script(code)
    region = named_region(code)
    same = []
    for other in possible:
        language = find_language(other)
        has_script = script in ("", language.script)
        has_region = region == "" or named_region(other) in ("", region)
        if language.code == base and has_script and has_region:
            same.append(other)
    return same


def differ(code: str, other: str) -> bool:
    """Whether two codes are surely of different languages, or of one in different scripts.

    Regions do not count. A code that is not in the table may be any language.
    """
    if not (is_known(code) and is_known(other)):
        return False
    scripts = {named_script(code), named_script(other)} - {""}
    return base_code(code) != base_code(other) or len(scripts) > 1


def choose_language(code: str, possible: Iterable[str]) -> str:
    """The one possible code with the language of `code`; raises UserError for none or several."""
    possible = sorted(possible)
    same = same_language(code, possible)
    if len(same) > 1:
        raise UserError(f"'{code}' is several of its languages: {', '.join(same)}; choose one")
    if not same:
        raise UserError(f"it has no language '{code}'; {describe_codes(code, possible)}")
    return same[0]


def describe_codes(code: str, possible: list[str]) -> str:
    """What is possible: all codes, of many those that are nearest to `code`."""
    if len(possible) <= MOST_SHOWN:
        return f"it has {', '.join(possible)}"

    def likeness(other: str) -> float:
        forms = [other, base_code(other), find_language(other).name]
        return max(SequenceMatcher(None, code.lower(), form.lower()).ratio() for form in forms)

    nearest = sorted(possible, key=likeness, reverse=True)[:NEAREST]
    return f"the nearest of its {len(possible)} are {', '.join(nearest)}"


def is_also_word(name: str) -> bool:
    """Whether the name of a column is a code that may as well be a word."""
    return name.strip().lower() in ALSO_WORDS


def language_of_column(name: str) -> str:
    """The language that the name of a column tells, as a code with its script and region, or "".

    The name is a code or a language's name in any language, alone or with other words: Deutsch,
    EN-US, Source (DE), French text, text_en.
    """
    name = name.strip()
    code = language_names().get(folded(name))
    if code:
        return code
    if CODE.fullmatch(name) and re.split("[-_]", name)[0].lower() in CODES:
        return name
    words = WORD.findall(name)
    if len(words) > LONGEST_NAME or name.endswith(SENTENCE_ENDS):
        return ""
    told = set()
    for word in words:
        if len(word) > LONGEST_CODE:
            told.add(language_names().get(folded(word), ""))
    if not any(told):
        possible = set(map(str.lower, words))
        if possible & OF_TEXT:
            possible -= OF_TEXT
        else:
            possible = set(map(str.lower, IN_BRACKETS.findall(name)))
        told = {CODES.get(word, "") for word in possible if len(word) <= LONGEST_CODE}
    told.discard("")
    return told.pop() if len(told) == 1 else ""

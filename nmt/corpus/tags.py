"""Words before a source that say what the pair is; each is one piece of the vocabulary.

<bt>     the source is a back-translation (Caswell et al. 2019)
<2fr>    the target is in this language (Johnson et al. 2017)
<de2fr>  so is the source; for models that are told both (M2M-100, NLLB-200)
>>fra<<  the target is in this language, as OPUS-MT writes it
<name>   the origin of the pair, with data.origin_tags (nmt/corpus/training_plan.py)

All but the last are recognised in the training text; those of origins are known by their
configuration.
"""

import re
from collections.abc import Collection

BACK_TRANSLATED = "<bt>"
LANGUAGE = r"[a-z]{2,3}(?:[-_][a-z0-9]+)*"
OPUS_TAG = re.compile(r">>[\w-]+<<")
KNOWN = re.compile(rf"<(?:bt|(?:{LANGUAGE})?2{LANGUAGE})>|{OPUS_TAG.pattern}")
TAG = re.compile(rf"<[\w.+-]+>|{OPUS_TAG.pattern}")
FIRST_WORD = re.compile(r"\S+")
# A tag of OPUS-MT needs no space behind it
LEADING = re.compile(rf"({OPUS_TAG.pattern})\s*|({KNOWN.pattern})(?:\s+|$)")


def language_tag(language: str, source: str = "") -> str:
    """The tag of a target language: <2de>; with that of the source: <fr2de>."""
    return f"<{source.lower()}2{language.lower()}>"


def opus_tag(language: str) -> str:
    """The tag of a target language as OPUS-MT writes it: >>deu<<."""
    return f">>{language}<<"


def first_word(text: str) -> str:
    """The first word of a text, or a tag of OPUS-MT without what follows it; "" before a space."""
    match = OPUS_TAG.match(text) or FIRST_WORD.match(text)
    return match[0] if match else ""


def leading_tags(text: str) -> list[str]:
    """The tags <bt>, <2fr> and >>fra<< before a source, in order."""
    found = []
    end = 0
    while match := LEADING.match(text, end):
        found.append(match[1] or match[2])
        end = match.end()
    return found


def sentence_start(text: str, tags: Collection[str]) -> int:
    """Where the sentence behind those of `tags` begins."""
    start = 0
    while (match := TAG.match(text, start)) and match[0] in tags:
        start = match.end()
        start += len(text) - start - len(text[start:].lstrip())
    return start

"""Text as it is encoded and trained on.

This module runs without the rest of the program, in exported folders.
"""

import re
import unicodedata

SPACES = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
INVISIBLE = re.compile(
    "[\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]"
)


def normalize(text: str, lowercase: bool = False) -> str:
    """Unicode NFC with plain spaces alone and without invisible marks; in lower case if asked.

    The marks are soft hyphens, controls of direction and the like. Joiners stay: Persian, Hindi and
    emoji need them.
    """
    text = unicodedata.normalize("NFC", INVISIBLE.sub("", SPACES.sub(" ", text)))
    return text.lower() if lowercase else text

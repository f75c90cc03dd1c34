"""Sentences of a paragraph, by sentencex of Wikimedia.

It is kept up (syntok rests since 2022, pysbd since 2021) and has rules or fallbacks for some 300 languages.
"""

from nmt.data.words import Span
from nmt.errors import UserError, install_extra


def split_sentences(text: str, language: str) -> list[Span]:
    """The spans of the sentences of a text, without the space around them; raises UserError without the library."""
    try:
        from sentencex import segment
    except ImportError:
        raise UserError(f"Documents are split into sentences by sentencex: {install_extra('documents')}.") from None
    spans, start = [], 0
    for sentence in segment(language, text):
        end = start + len(sentence)
        stripped = sentence.strip()
        if stripped:
            first = start + len(sentence) - len(sentence.lstrip())
            spans.append((first, first + len(stripped)))
        start = end
    return spans if start == len(text) else [(0, len(text))]

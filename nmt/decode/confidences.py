"""Translations decoded again as given, many together, and the confidences of their words."""

import itertools
from collections.abc import Iterable, Iterator

from nmt.decode.forced_decoding import CHUNK_PAIRS, AttentionRecord
from nmt.decode.translation import Translation
from nmt.decode.translator import Translator


def with_records(
    translator: Translator, translations: Iterable[Translation]
) -> Iterator[tuple[Translation, list[AttentionRecord]]]:
    """Each translation with the records of its parts, or its own; CHUNK_PAIRS translations are decoded together."""
    remaining = iter(translations)
    while chunk := list(itertools.islice(remaining, CHUNK_PAIRS)):
        parts = [translation.parts or [translation] for translation in chunk]
        records = translator.force_decode_all((part.source_ids, part.ids) for each in parts for part in each)
        for translation, each in zip(chunk, parts, strict=True):
            yield translation, list(itertools.islice(records, len(each)))


def word_confidences(translation: Translation, records: list[AttentionRecord]) -> list[tuple[str, float]]:
    """The words of a line and their confidences, from the records of its parts, or its own."""
    parts = zip(translation.parts or [translation], records, strict=True)
    return [pair for part, record in parts for pair in part.confidences_of(record)]


def confidence(translation: Translation, records: list[AttentionRecord]) -> float:
    """The confidence of a line."""
    return translation.mean_confidence([value for _, value in word_confidences(translation, records)])

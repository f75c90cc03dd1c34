"""A document that is read: the fields that are translated, and how it is written with their translations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from nmt.documents.segment import Part, Segment, segments, written


class Field(NamedTuple):
    parts: list[Part]
    save: Callable[[str], object]  # puts the translated text into the document


@dataclass
class Document:
    fields: list[Field]
    serialize: Callable[[], bytes]
    left: Counter[str] = field(default_factory=Counter)  # what is not translated, by the reason

    def segments(self) -> Iterator[Segment]:
        return segments([part for each in self.fields for part in each.parts])

    def write(self) -> bytes:
        for each in self.fields:
            if any(segment.translation is not None for segment in segments(each.parts)):
                each.save(written(each.parts))
        return self.serialize()

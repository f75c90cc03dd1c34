"""A translation memory: it reuses what was translated before, and suggests what is similar.

The similarity of two texts is 2·M / T: M words in common, in order, of T in both (difflib). If it
is R or more, M is at least the share R / (2 − R) of the words of each text. So a text of N words
shares with every similar text one of its rarest N − M + 1 words, and only the units with one of
these are compared.
"""

from __future__ import annotations

import logging
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from nmt.config.schema import DataConfig
from nmt.corpus.checks import Pair
from nmt.corpus.packed import PackedFile
from nmt.corpus.sources import ENDINGS, reviewed_pairs
from nmt.documents.html import INLINE, VOID
from nmt.documents.segment import UNITS, Segment
from nmt.documents.word_weights import whole_words
from nmt.errors import UserError

log = logging.getLogger("nmt")
FindFaults = Callable[[Sequence[Pair], DataConfig], dict[int, str]]
REUSED = "from the memory"  # of a sentence in a report
# A tag in the text of a unit, which its file has as &lt;b&gt;; documents have it beside the text.
TAG = re.compile(rf"</?({'|'.join(sorted(INLINE - VOID))})(?:\s[^<>]*)?>", re.IGNORECASE)
LEAST = 0.75  # similarity of what is suggested


class Match(NamedTuple):
    """A unit of the memory, and how similar its source is to a text."""

    similarity: float
    source: str
    target: str


class TranslationMemory:
    """Texts with their translations; of several translations the last one counts.

    A unit in which tags are text stands also for the text without them, if both of its sides have
    the same tags.
    """

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self.targets: dict[str, str] = {}
        self.without_tags: dict[str, str] = {}
        for source, target in pairs:
            self.add(source, target)

    def add(self, source: str, target: str) -> None:
        """Add a text with its translation, or give it another one."""
        if not source.strip() or not target.strip():
            return
        is_new = source not in self.targets
        self.targets[source] = target
        tags = sorted(TAG.findall(source))
        if tags and tags == sorted(TAG.findall(target)):
            self.without_tags[TAG.sub("", source).strip()] = TAG.sub("", target).strip()
        if is_new and "index" in self.__dict__:
            self.words[source] = words_of(source)
            for word in set(self.words[source]):
                self.index[word].append(source)

    @classmethod
    def open(cls, path: Path, data: DataConfig, find_faults: FindFaults) -> TranslationMemory:
        """The memory in any file of pairs in the languages of a run; raises UserError.

        `find_faults` says which units are no translations, by their places, and why. They are left
        out and counted on stderr, as those are that nobody has reviewed yet.
        """
        if PackedFile(path).ending not in ENDINGS:
            raise UserError(
                f"--memory {path} is not a file of pairs; these end in {', '.join(ENDINGS)}."
            )
        # The columns and the encoding of the run's own text are not those of this file.
        pairs = reviewed_pairs(path, replace(data, columns=None, encoding="auto"))
        faults = find_faults(pairs, data)
        if faults:
            counts = Counter(faults.values()).most_common()
            reasons = [f"{count:,} {reason}" for reason, count in counts]
            log.warning(
                "%s: %d of its %d units are not used: %s.",
                path,
                len(faults),
                len(pairs),
                ", ".join(reasons),
            )
        return cls(pair for index, pair in enumerate(pairs) if index not in faults)

    def reuse(self, segment: Segment, text: str) -> str | None:
        """The translation of a text of a segment.

        None if the memory has none, or one that does not show each unit of the text once.
        """
        shown_text = with_shown_units(segment, text)
        target = self.targets.get(shown_text, self.without_tags.get(shown_text))
        if target is None:
            return None
        units = UNITS.findall(text)
        shown = [segment.shown[unit] for unit in units]
        for content in shown:
            if target.count(content) != shown.count(content):
                return None
        for unit, content in zip(units, shown, strict=True):
            target = target.replace(content, unit, 1)
        return target

    def nearest(self, text: str, least: float = LEAST) -> Match | None:
        """The unit that is the most similar to a text, `least` or more, but not the same."""
        words = words_of(text)
        share = least / (2 - least)
        fewest = math.ceil(share * len(words))
        most = math.floor(len(words) / share)

        # The sources that may be similar
        by_rarity = sorted(words, key=lambda word: len(self.index.get(word, ())))
        candidates = set[str]()
        for word in by_rarity[: len(words) - fewest + 1]:
            candidates.update(self.index.get(word, ()))
        candidates.discard(text)

        matcher = SequenceMatcher(None, "", words, autojunk=False)
        similarity = least
        nearest = ""
        for source in candidates:
            if not fewest <= len(self.words[source]) <= most:
                continue
            matcher.set_seq1(self.words[source])
            if matcher.quick_ratio() >= similarity:
                similarity, nearest = max((similarity, nearest), (matcher.ratio(), source))
        if not nearest:
            return None
        return Match(similarity, nearest, self.targets[nearest])

    @cached_property
    def words(self) -> dict[str, list[str]]:
        return {source: words_of(source) for source in self.targets}

    @cached_property
    def index(self) -> dict[str, list[str]]:
        """The sources that have a word."""
        index = defaultdict[str, list[str]](list)
        for source, words in self.words.items():
            for word in set(words):
                index[word].append(source)
        return index


def words_of(text: str) -> list[str]:
    return [text[start:end] for start, end in whole_words(text)]


def plain(segment: Segment, text: str) -> str:
    """A text of a segment as a reader sees it."""
    seen = UNITS.sub("", with_shown_units(segment, text))
    return re.sub(" +", " ", seen).strip(" ")


def with_shown_units(segment: Segment, text: str) -> str:
    """The same; a unit of which nothing is seen stays one character, which no memory has."""
    return UNITS.sub(lambda match: segment.shown[match[0]] or match[0], text)

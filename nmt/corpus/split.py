"""Validation and test sets out of the training text, chosen by the hash of a pair.

A pair is held out if the hash of its letters, without case and punctuation, is among the lowest of
its origin; the two directions of a language pair hold out the same ones. A training pair is left
out if one of its sides is a side of a held-out pair, apart from case and punctuation, or if it
differs from one of at least MIN_WORDS words by a word more, less or other, or by the order of the
words.

The sets stay when text is added. The largest hash that was chosen from an origin is written down in
the data folder (splits.json), and from then on every pair with at most this hash is held out: the
sets grow as their origin does. An entry is of a language pair, an origin and a role. It need not be
in the recipe of the corpus that it was found with, because the same text gives it again.
"""

import json
import math
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from hashlib import blake2b
from pathlib import Path

import regex

from nmt.config.schema import DataConfig
from nmt.corpus.checksums import text_digest
from nmt.corpus.files import only_writer, write_atomic
from nmt.corpus.filtering import hash_text, rejection_reason
from nmt.corpus.origin import Origin
from nmt.corpus.tables import Pair, Skipped
from nmt.corpus.words import SPACELESS_CHARACTERS
from nmt.errors import UserError

SMALLEST_SHARE = 20  # at most one pair of so many is held out for each set
MIN_WORDS = 5
# Words, with the vowel signs of Indic scripts; each character by itself where no spaces separate
# them.
WORD = regex.compile(f"[{SPACELESS_CHARACTERS}]|[^\\W_{SPACELESS_CHARACTERS}]+")
ROLES = ("test", "valid")  # in this order: a pair that both choose is a test pair
# role → the largest hash that is held out of each origin; None: to be found
Thresholds = dict[str, list[int | None]]


def words_of(text: str) -> list[str]:
    """The words of a sentence without case and punctuation."""
    return WORD.findall(unicodedata.normalize("NFC", text.casefold()))


def pair_hashes(source: str, target: str) -> dict[str, int]:
    """For each role a 64-bit hash of the letters of a pair, the same in both directions.

    {} if a side has no letters.
    """
    sides = sorted(["".join(words_of(source)), "".join(words_of(target))])
    if not sides[0]:
        return {}
    digest = blake2b("\t".join(sides).encode(), digest_size=16).digest()
    return {
        "test": int.from_bytes(digest[:8], "little"),
        "valid": int.from_bytes(digest[8:], "little"),
    }


hash_word = lru_cache(1 << 16)(hash_text)


class SideSet:
    """The sentences of one side of the held-out pairs, as letters and as bags of words.

    Of a sentence with enough words there are the bag of all and the bags that lack one word.
    """

    def __init__(self) -> None:
        self.letters: set[str] = set()
        self.bags: set[int] = set()  # sums of the hashes of words

    def add(self, text: str) -> None:
        words = words_of(text)
        self.letters.add("".join(words))
        if len(words) >= MIN_WORDS:
            self.bags.update(bags_of(words))

    def find(self, text: str) -> str:
        """`same` if a sentence is one of these, `near` if it is nearly one, else ""."""
        words = words_of(text)
        if words and "".join(words) in self.letters:
            return "same"
        if len(words) < MIN_WORDS - 1:
            return ""
        return "" if self.bags.isdisjoint(bags_of(words)) else "near"


def bags_of(words: list[str]) -> list[int]:
    """The sum of the hashes of all words, then the sums without each of them."""
    hashes = [hash_word(word) for word in words]
    total = sum(hashes)
    return [total] + [total - value for value in hashes]


class HeldOut:
    """The sentences of the held-out pairs; they tell which training pairs must be left out."""

    def __init__(self) -> None:
        self.source = SideSet()
        self.target = SideSet()

    def add(self, pairs: Iterable[Pair]) -> None:
        for source, target in pairs:
            self.source.add(source)
            self.target.add(target)

    def reason(self, source: str, target: str) -> str | None:
        """Why a pair is not trained on; None if it may be."""
        found = {self.source.find(source), self.target.find(target)}
        if found == {"same"}:
            return "held out"
        if "same" in found:
            return "a side held out"
        return "a side nearly one of a held-out pair" if "near" in found else None


class Lowest:
    """The pairs of an origin with the lowest hashes: so many, or all up to a threshold.

    Repeated pairs count once.
    """

    def __init__(self, size: int, threshold: int | None) -> None:
        self.size = size
        self.threshold = threshold
        self.pairs: dict[int, Pair] = {}

    def offer(self, value: int, pair: Pair) -> None:
        if self.threshold is None or value <= self.threshold:
            self.pairs.setdefault(value, pair)
        if self.threshold is None and len(self.pairs) > 2 * self.size:
            self.pairs = dict(sorted(self.pairs.items())[: self.size])


@dataclass
class Split:
    """What a first pass over the training text gives."""

    accepted: list[int] = field(default_factory=list)  # pairs of each origin that can be trained on
    # role → the pairs held out, by origin
    sets: dict[str, list[Origin]] = field(default_factory=dict)
    held_out: HeldOut = field(default_factory=HeldOut)
    thresholds: Thresholds = field(default_factory=dict)


def hold_out(data: DataConfig, origins: list[Origin], thresholds: Thresholds) -> Split:
    """Read all training text once, and choose the pairs held out for each role of `thresholds`.

    Raises UserError.
    """
    split = Split()
    lowest: dict[str, list[Lowest]] = {}
    for role in ROLES:
        if role in thresholds:
            lowest[role] = [Lowest(data.split_size, threshold) for threshold in thresholds[role]]
    for number, origin in enumerate(origins):
        accepted = 0
        for pair in origin.pairs_with_progress(Skipped()):
            if rejection_reason(*pair, data):
                continue
            accepted += 1
            hashes = pair_hashes(*pair) if lowest else {}
            if hashes:
                for role in lowest:
                    lowest[role][number].offer(hashes[role], pair)
        split.accepted.append(accepted)
    for role in lowest:
        choose_pairs(role, split, origins, lowest[role], data)
    return split


def choose_pairs(
    role: str, split: Split, origins: list[Origin], lowest: list[Lowest], data: DataConfig
) -> None:
    """Hold out pairs of each origin for a role; raises UserError if there is none."""
    parts: list[Origin] = []
    taken: set[int] = set()
    share = math.ceil(data.split_size / len(lowest))
    for origin, accepted, candidates in zip(origins, split.accepted, lowest, strict=True):
        chosen = sorted(candidates.pairs)
        threshold = candidates.threshold
        if threshold is None:
            chosen = chosen[: min(share, accepted // SMALLEST_SHARE)]
            threshold = max(chosen, default=None)
        split.thresholds.setdefault(role, []).append(threshold)
        pairs = []
        for value in chosen:
            pair = candidates.pairs[value]
            # It may be in an earlier origin, too.
            if value not in taken and split.held_out.reason(*pair) is None:
                pairs.append(pair)
        taken.update(chosen)
        if pairs:
            read = partial(lambda pairs, skipped, errors: iter(pairs), pairs)
            parts.append(
                replace(origin, read=read, sides=None, table=None, place=f"{origin.word} (split)")
            )
    if not parts:
        name = "test" if role == "test" else "validation"
        has_test = role == "test" or "test" in split.sets
        also = " or data.test=null" if has_test else ""
        raise UserError(
            f"data.train has too few different pairs to hold out a {name} set (of "
            f"{sum(split.accepted):,} pairs; one in {SMALLEST_SHARE} is held out for each set, and "
            f"their sentences must differ in more than a word); give data.{role}=PREFIX{also}."
        )
    split.sets[role] = parts
    for part in parts:
        split.held_out.add(part.pairs(Skipped()))


class SplitRecord:
    """The entries of splits.json for the training text with these sha256.

    A missing file has none. Raises UserError for a damaged one.
    """

    def __init__(
        self, path: Path, data: DataConfig, sets: dict[str, list[Origin]], digests: list[list[str]]
    ) -> None:
        self.path = path
        self.data = data
        self.origins = sets["train"]
        self.roles = [role for role in ROLES if sets.get(role) == []]
        text = sorted("".join(sorted(of_origin)) for of_origin in digests)
        limits = [data.split_size, data.max_characters, data.max_length_ratio]
        self.corpus = text_digest(json.dumps([text, limits]))
        self.entries = read_entries(path)

    def key(self, role: str, origin: Origin) -> str:
        """The key of an entry: the language pair in either direction, the role, the origin."""
        languages = "-".join(sorted(origin.languages or (self.data.source, self.data.target)))
        return f"{languages} {role} {origin.key}"

    def threshold(self, role: str, origin: Origin) -> int | None:
        """The threshold of an origin that other text has set, if any."""
        entry = self.entries.get(self.key(role, origin), {"corpus": self.corpus})
        is_other = entry["corpus"] != self.corpus and entry["split_size"] == self.data.split_size
        return entry["threshold"] if is_other else None

    def thresholds(self) -> Thresholds:
        """The thresholds of all origins for each role that is split."""
        thresholds: Thresholds = {}
        for role in self.roles:
            thresholds[role] = [self.threshold(role, origin) for origin in self.origins]
        return thresholds

    def save(self, before: Thresholds, found: Thresholds) -> None:
        """Write down the thresholds that this text has set.

        Raises OSError, and UserError if the folder is locked.
        """
        new = {}
        for role in found:
            for origin, threshold, old in zip(self.origins, found[role], before[role], strict=True):
                if old is None and threshold is not None:
                    new[self.key(role, origin)] = {
                        "threshold": threshold,
                        "corpus": self.corpus,
                        "split_size": self.data.split_size,
                    }
        # Other trainings may have added theirs meanwhile.
        with only_writer(self.path.parent, timeout=60.0):
            self.entries = read_entries(self.path) | new
            write_atomic(self.path, json.dumps(self.entries, indent=1, sort_keys=True) + "\n")


def read_entries(path: Path) -> dict[str, dict]:
    """The entries of a file, none of a missing one; raises UserError for a damaged one."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        for entry in content.values():
            if not (0 <= entry["threshold"] < 2**64 and entry["corpus"] and entry["split_size"]):
                raise ValueError
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise UserError(
            f"{path} is damaged; it keeps validation and test sets the same when the text grows. "
            "Restore it, or delete it to split anew: then test pairs may become training pairs."
        ) from None
    return content

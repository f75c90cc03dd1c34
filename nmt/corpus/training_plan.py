"""Before the training set is written: what is held out, and the weight and tag of each part.

A weight w trains on each pair of a part ⌊w⌋ times in an epoch, and once more on the fraction w −
⌊w⌋ of them that a hash of the pair chooses. A temperature T gives weights (n / largest n)^(1/T −
1), with n pairs in a part: the parts then have shares ∝ n^(1/T), and the largest is trained on once
(Arivazhagan et al. 2019, section 4).

A training that starts from a run also takes a share of its text from the run's old text. The share
is one of bytes: with n bytes of new pairs and m of old ones, each old pair has the weight
share / (1 − share) · n / m. A share of pairs would not do, since the long ones teach most.
"""

import logging
import re
import shutil
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from nmt.config.schema import DataConfig
from nmt.corpus.checksums import Manifest, cached_digests
from nmt.corpus.corpus_folder import read_report, set_files
from nmt.corpus.filtering import hash_text
from nmt.corpus.origin import Origin, prefix_origin
from nmt.corpus.split import Split, SplitRecord, hold_out
from nmt.corpus.tables import Skipped
from nmt.errors import UserError

log = logging.getLogger("nmt")
TAG = re.compile(r"[^\w.+-]+")
LONGEST_TAG = 40  # characters
MAX_WEIGHT = 100.0
OLD = "old-"  # before the names of the old test sets
SYNTHETIC = "synthetic"  # the name of the two files of back-translations
LEARNT = "learnt"  # the test set of few new pairs, all of which are trained on
FEW_NEW = 200  # nothing is held out of fewer new pairs
# Names of the pieces that a tokenizer has anyway
SPECIAL = re.compile(r"unk|s|pad|bos|eos|mask|0x[0-9a-f]{2}")


@dataclass(frozen=True)
class OldText:
    """The corpus of the run that a training starts from."""

    folder: Path
    report: dict[str, Any]  # its report.json
    share: float  # of the training text that is taken from it

    @property
    def recipe(self) -> dict[str, Any]:
        return {"corpus": self.report["corpus_hash"], "share": self.share}

    def test_sets(self, data: DataConfig, others: Collection[str]) -> dict[str, list[Origin]]:
        """The old test sets by their new names; the validation set if there are none.

        Raises UserError where one of `others` has the same name.
        """
        names = self.report["sets"] or ["valid"]
        sets = {f"{OLD}{name}": [self.origin(name, data)] for name in names}
        same = sets.keys() & set(others)
        if same:
            raise UserError(
                f"data.test names a set '{min(same)}', as an old test set is called; rename its "
                "files."
            )
        return sets

    def without_split(
        self, sets: dict[str, list[Origin]], data: DataConfig
    ) -> dict[str, list[Origin]]:
        """The sets, without those that were to be split from too few new pairs.

        Then all new pairs are trained on and the old validation set validates: a score of two
        held-out pairs would choose the checkpoint by chance. The new pairs are also a test set,
        which shows how well they were learnt.
        """
        kept = {name: origins for name, origins in sets.items() if origins}
        if len(kept) == len(sets):
            return sets
        new = chain.from_iterable(origin.pairs(Skipped()) for origin in sets["train"])
        count = len(list(islice(new, FEW_NEW)))
        if count == FEW_NEW:
            return sets
        log.info(
            "%d new pairs are too few to hold some out: all are trained on, and the old "
            "validation set validates.",
            count,
        )
        if not sets.get("valid", True):
            kept["valid"] = [self.origin("valid", data)]
        return kept | {LEARNT: sets["train"]}

    def origin(self, name: str, data: DataConfig) -> Origin:
        return prefix_origin(str(self.folder / name), replace(data, encoding="utf-8"))

    def copy_gold_alignments(self, folder: Path) -> None:
        for name in self.report["sets"]:
            links = self.folder / f"{name}.align"
            if links.exists():
                shutil.copyfile(links, folder / f"{OLD}{name}.align")

    def weight(self, new: int) -> float:
        """How often each old pair is trained on in an epoch with `new` bytes of new pairs."""
        old = 0
        for side in ("source", "target"):
            old += (self.folder / f"train.{self.report[side]}").stat().st_size
        return min(MAX_WEIGHT, self.share / (1 - self.share) * new / old)


@dataclass
class TrainingPlan:
    """What is written as the training set: origins with weights, and what is held out from them."""

    origins: list[Origin]
    weights: list[float]
    split: Split | None = None
    old: OldText | None = None  # the last origin is its text
    found_tags: set[str] = field(default_factory=set)  # <bt> and <2fr>, in the text

    @property
    def all_tags(self) -> list[str]:
        """The tags of origins, then those in the text, each once."""
        tags = " ".join(origin.tag for origin in self.origins).split()
        return list(dict.fromkeys([*tags, *sorted(self.found_tags)]))

    def add_old(self, old: OldText, data: DataConfig) -> None:
        """Add the old training pairs, with their tags, if they have a share.

        Their weight is known when the new ones have been written. Raises UserError if they are
        damaged.
        """
        if old.share:
            Manifest(old.folder).check([f"train.{data.source}", f"train.{data.target}"])
            self.origins = [*self.origins, old.origin("train", data)]
            self.old = old
            self.weights = [*self.weights, 0.0]

    def add_synthetic(self, folder: Path, data: DataConfig) -> None:
        """Add the back-translations of a folder; raises UserError if they are damaged.

        They are trained on once, with as many copies of the other pairs as the report says.
        """
        files = set_files(folder, SYNTHETIC, data)
        Manifest(folder).check([file.name for file in files])
        origin = prefix_origin(str(folder / SYNTHETIC), replace(data, encoding="utf-8"))
        copies_of_others = read_report(folder)["copies"]
        self.origins = [*self.origins, origin]
        self.weights = [weight * copies_of_others for weight in self.weights]
        self.weights.append(1.0)

    def weight(self, number: int, written: int) -> float:
        """The weight of an origin, when `written` bytes of those before have been written."""
        if self.old and number == len(self.origins) - 1:
            return self.old.weight(written)
        return self.weights[number]

    def reason(self, source: str, target: str) -> str | None:
        """Why a pair is left out for the sake of the sets that are held out."""
        return self.split.held_out.reason(source, target) if self.split else None


def prepare_training(data: DataConfig, sets: dict[str, list[Origin]], cache: Path) -> TrainingPlan:
    """Choose weights and tags, and fill the sets that are split. Raises UserError."""
    origins = sets["train"]
    record = open_record(data, sets, cache)
    if data.origin_tags:  # also before pairs that are split from an origin
        tagged = []
        for origin, tag in zip(origins, origin_tags(origins), strict=True):
            tagged.append(replace(origin, tag=f"{origin.tag} {tag}".strip()))
        origins = tagged
    weights = [1.0] * len(origins)
    if data.weights:
        weights = [data.weights[origin.part] for origin in origins]
    plan = TrainingPlan(origins, weights)
    if record:
        thresholds = record.thresholds()
        plan.split = hold_out(data, origins, thresholds)
        record.save(thresholds, plan.split.thresholds)
        sets |= plan.split.sets
    elif data.temperature is not None:
        plan.split = hold_out(data, origins, {})
    if plan.split and data.temperature is not None:
        sizes = plan.split.accepted
        largest = max(sizes)
        exponent = 1 / data.temperature - 1
        plan.weights = [min(MAX_WEIGHT, (max(1, size) / largest) ** exponent) for size in sizes]
    return plan


def file_digests(origins: list[Origin], cache: Path) -> list[list[str]]:
    """The sha256 of the files of each origin; files that have not changed are not read again."""
    paths = chain.from_iterable(origin.files for origin in origins)
    digests = iter(cached_digests(paths, cache))
    return [list(islice(digests, len(origin.files))) for origin in origins]


def open_record(data: DataConfig, sets: dict[str, list[Origin]], cache: Path) -> SplitRecord | None:
    """The thresholds with which the training text was split before; None where no set is split."""
    if all(sets.values()):  # a set that is split has no origin
        return None
    digests = file_digests(sets["train"], cache)
    return SplitRecord(cache.with_name("splits.json"), data, sets, digests)


def check_mixture(data: DataConfig, parts: int) -> None:
    """Raise UserError for weights that do not fit the parts of data.train."""
    if data.weights is not None and data.temperature is not None:
        raise UserError(
            "data.weights and data.temperature cannot be given together: a temperature computes "
            "weights."
        )
    if data.weights is not None:
        if len(data.weights) != parts:
            raise UserError(
                f"data.weights has {len(data.weights)} numbers, but data.train has {parts} parts; "
                "give one for each."
            )
        if not all(0 < weight <= MAX_WEIGHT for weight in data.weights):
            raise UserError(
                f"data.weights={data.weights} is not possible; each is above 0 and at most "
                f"{MAX_WEIGHT:g}."
            )


def copies(weight: float, source: str, target: str) -> int:
    """How often a pair is trained on in an epoch: a function of the weight and the pair."""
    whole = int(weight)
    if weight == whole:
        return whole
    return whole + (hash_text(f"{source}\n{target}") / 2**64 < weight - whole)


def origin_tags(origins: list[Origin]) -> list[str]:
    """The tag of each origin, such as <tatoeba>; raises UserError for two that are the same."""
    tags = []
    for origin in origins:
        name = TAG.sub("-", origin.name.lower())[:LONGEST_TAG].strip("-")
        if not name or SPECIAL.fullmatch(name):
            raise UserError(
                f"data.origin_tags: '{origin.name}' cannot be a tag; rename {origin.word}."
            )
        tags.append(f"<{name}>")
    # A part of several origins may have one tag for all of them
    part_of: dict[str, int] = {}
    for origin, tag in zip(origins, tags, strict=True):
        if part_of.setdefault(tag, origin.part) != origin.part:
            raise UserError(
                f"data.origin_tags: two parts of data.train have the tag {tag}; rename one."
            )
    return tags

"""Before the training set is written: what is held out from it, and the weight and the tag of each
of its parts.

A weight w trains on each pair of a part ⌊w⌋ times in an epoch, and once more on the fraction w −
⌊w⌋ of them that a hash of the pair chooses. A temperature T gives weights (n / largest n)^(1/T −
1), with n pairs in a part: the parts then have shares ∝ n^(1/T), and the largest is trained on once
(Arivazhagan et al. 2019, section 4).

Old text, in a training that starts from a run, is a share of the training text of every epoch, in
bytes: with n bytes of new pairs and m of old ones, each old pair has the weight share / (1 − share)
· n / m. Pairs would not do: half of the pairs, where theirs are the long ones, is most of what is
learnt.
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
from nmt.data.checksums import Manifest, cached_digests
from nmt.data.corpus_folder import read_report, set_files
from nmt.data.filtering import hash_text
from nmt.data.origin import Origin, prefix_origin
from nmt.data.split import Split, SplitRecord, hold_out
from nmt.data.tables import Skipped
from nmt.errors import UserError

log = logging.getLogger("nmt")
TAG = re.compile(r"[^\w.+-]+")
LONGEST_TAG = 40  # characters
MAX_WEIGHT = 100.0
OLD = "old-"  # before the names of the old test sets
SYNTHETIC = "synthetic"  # the name of the two files of back-translations
LEARNT = "learnt"  # the test set of few new pairs, all of which are trained on
FEW_NEW = 200  # new pairs: of fewer, nothing is held out
# names of the pieces that a tokenizer has anyway
SPECIAL = re.compile(r"unk|s|pad|bos|eos|mask|0x[0-9a-f]{2}")


@dataclass(frozen=True)
class OldText:
    """The corpus of the run that a training starts from; `share` of the training text is taken from
    it."""

    folder: Path
    report: dict[str, Any]  # its report.json
    share: float

    @property
    def recipe(self) -> dict[str, Any]:
        return {"corpus": self.report["corpus_hash"], "share": self.share}

    def training_text(self, data: DataConfig) -> list[Origin]:
        """The old training pairs as one more origin; none if they have no share. Raises UserError
        if they are damaged.

        They have the tags that they were trained with.
        """
        if not self.share:
            return []
        Manifest(self.folder).check([f"train.{data.source}", f"train.{data.target}"])
        return [self.origin("train", data)]

    def test_sets(self, data: DataConfig, others: Collection[str]) -> dict[str, list[Origin]]:
        """The old test sets by their new names, without one the validation set.

        Raises UserError where one of `others` has the same name.
        """
        sets = {
            f"{OLD}{name}": [self.origin(name, data)] for name in self.report["sets"] or ["valid"]
        }
        if same := sets.keys() & set(others):
            raise UserError(
                f"data.test names a set '{min(same)}', as an old test set is called; "
                "rename its files."
            )
        return sets

    def without_split(
        self, sets: dict[str, list[Origin]], data: DataConfig
    ) -> dict[str, list[Origin]]:
        """The sets where there are too few new pairs to hold some out; else as they are.

        All new pairs are trained on, the old validation set validates, and what was learnt of the
        new pairs is a set of its own: a score of two held-out pairs would choose the checkpoint by
        chance.
        """
        to_split = [name for name in sets if not sets[name]]
        new = chain.from_iterable(origin.pairs(Skipped()) for origin in sets["train"])
        count = sum(1 for _ in islice(new, FEW_NEW)) if to_split else FEW_NEW
        if count >= FEW_NEW:
            return sets
        log.info(
            "%d new pairs are too few to hold some out: all are trained on, and the old validation "
            "set validates.",
            count,
        )
        kept = {name: origins for name, origins in sets.items() if origins}
        if "valid" in to_split:
            kept["valid"] = [self.origin("valid", data)]
        return kept | {LEARNT: sets["train"]}

    def origin(self, name: str, data: DataConfig) -> Origin:
        return prefix_origin(str(self.folder / name), replace(data, encoding="utf-8"))

    def copy_gold_alignments(self, folder: Path) -> None:
        for name in self.report["sets"]:
            if (links := self.folder / f"{name}.align").exists():
                shutil.copyfile(links, folder / f"{OLD}{name}.align")

    def weight(self, new: int) -> float:
        """How often each old pair is trained on in an epoch with `new` bytes of new pairs."""
        languages = self.report["source"], self.report["target"]
        old = sum((self.folder / f"train.{language}").stat().st_size for language in languages)
        return min(MAX_WEIGHT, self.share / (1 - self.share) * new / old)


@dataclass
class TrainingPlan:
    """What is written as the training set: origins with their weights, and what is held out from
    them."""

    origins: list[Origin]
    weights: list[float]
    split: Split | None = None
    old: OldText | None = None  # of which the last origin is
    found_tags: set[str] = field(default_factory=set)  # <bt> and <2fr>, in the text

    @property
    def all_tags(self) -> list[str]:
        """The tags of origins, then those in the text, each once."""
        tags = [tag for origin in self.origins for tag in origin.tag.split()]
        return list(dict.fromkeys([*tags, *sorted(self.found_tags)]))

    def add_old(self, old: OldText, data: DataConfig) -> None:
        """Add the old training pairs; their weight is known when the new ones have been written."""
        if origins := old.training_text(data):
            self.origins = [*self.origins, *origins]
            self.old = old
            self.weights = [*self.weights, 0.0]

    def add_synthetic(self, folder: Path, data: DataConfig) -> None:
        """Add the back-translations of a folder, once, to as many copies of the other pairs as its
        report says.

        Raises UserError if they are damaged.
        """
        files = set_files(folder, SYNTHETIC, data)
        Manifest(folder).check([file.name for file in files])
        self.origins = [
            *self.origins,
            prefix_origin(str(folder / SYNTHETIC), replace(data, encoding="utf-8")),
        ]
        self.weights = [*(weight * read_report(folder)["copies"] for weight in self.weights), 1.0]

    def weight(self, number: int, written: int) -> float:
        """The weight of an origin, when `written` bytes of those before have been written."""
        is_old = self.old is not None and number == len(self.origins) - 1
        return self.old.weight(written) if self.old and is_old else self.weights[number]

    def reason(self, source: str, target: str) -> str | None:
        """Why a pair is left out for the sake of the sets that are held out."""
        return None if self.split is None else self.split.held_out.reason(source, target)


def prepare_training(data: DataConfig, sets: dict[str, list[Origin]], cache: Path) -> TrainingPlan:
    """Choose weights and tags, and fill the sets that are split. Raises UserError."""
    origins = sets["train"]
    record = open_record(data, sets, cache)
    if data.origin_tags:  # also before pairs that are split from an origin
        tags = origin_tags(origins)
        origins = [
            replace(origin, tag=f"{origin.tag} {tag}".strip())
            for origin, tag in zip(origins, tags, strict=True)
        ]
    plan = TrainingPlan(
        origins, [data.weights[origin.part] if data.weights else 1.0 for origin in origins]
    )
    if record:
        thresholds = record.thresholds()
        plan.split = hold_out(data, origins, thresholds)
        record.save(thresholds, plan.split.thresholds)
        sets |= plan.split.sets
    elif data.temperature is not None:
        plan.split = hold_out(data, origins, {})
    if plan.split and data.temperature is not None:
        sizes = plan.split.accepted
        weights = [(max(1, size) / max(sizes)) ** (1 / data.temperature - 1) for size in sizes]
        plan.weights = [min(MAX_WEIGHT, weight) for weight in weights]
    return plan


def file_digests(origins: list[Origin], cache: Path) -> list[list[str]]:
    """The sha256 of the files of each origin; files that were hashed before and have not changed
    are not read."""
    found = iter(cached_digests((path for origin in origins for path in origin.files), cache))
    return [list(islice(found, len(origin.files))) for origin in origins]


def open_record(data: DataConfig, sets: dict[str, list[Origin]], cache: Path) -> SplitRecord | None:
    """The thresholds with which the training text was split before; None where no set is split,
    which has no origin."""
    if all(sets.values()):
        return None
    return SplitRecord(
        cache.with_name("splits.json"), data, sets, file_digests(sets["train"], cache)
    )


def check_mixture(data: DataConfig, parts: int) -> None:
    """Raise UserError for weights that do not fit the parts of data.train."""
    if data.weights is not None and data.temperature is not None:
        raise UserError(
            "data.weights and data.temperature cannot be given together: a temperature "
            "computes weights."
        )
    if data.weights is not None:
        if len(data.weights) != parts:
            raise UserError(
                f"data.weights has {len(data.weights)} numbers, but data.train has {parts} parts; "
                "give one for each."
            )
        if not all(0 < weight <= MAX_WEIGHT for weight in data.weights):
            raise UserError(
                f"data.weights={data.weights} is not possible; each is above 0 and at "
                f"most {MAX_WEIGHT:g}."
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
    words = dict.fromkeys((origin.part, tag) for origin, tag in zip(origins, tags, strict=True))
    names = [tag for _, tag in words]
    if repeated := [tag for tag in names if names.count(tag) > 1]:
        raise UserError(
            f"data.origin_tags: two parts of data.train have the tag {repeated[0]}; rename one."
        )
    return tags

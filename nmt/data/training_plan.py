"""Before the training set is written: what is held out from it, and the weight and the tag of each of its parts."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from nmt.config.schema import DataConfig
from nmt.data import mixture
from nmt.data.digests import DigestCache
from nmt.data.origin import Origin
from nmt.data.replay import OldText
from nmt.data.split import Split, Thresholds, hold_out
from nmt.data.split_record import SplitRecord


@dataclass
class TrainingPlan:
    """What is written as the training set: origins with their weights, and what is held out from them."""

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
            self.origins, self.old = [*self.origins, *origins], old
            self.weights = [*self.weights, 0.0]

    def weight(self, number: int, written: int) -> float:
        """The weight of an origin, when `written` bytes of those before have been written."""
        is_old = self.old is not None and number == len(self.origins) - 1
        return self.old.weight(written) if self.old and is_old else self.weights[number]

    def reason(self, source: str, target: str) -> str | None:
        """Why a pair is left out for the sake of the sets that are held out."""
        return None if self.split is None else self.split.held_out.reason(source, target)


def prepare_training(data: DataConfig, sets: dict[str, list[Origin]], folder: Path, cache: Path) -> TrainingPlan:
    """Choose weights and tags, and fill the sets that are split; `folder` is for temporary files. Raises UserError."""
    origins, roles = sets["train"], split_roles(sets)
    if data.origin_tags:  # also before pairs that are split from an origin
        tags = mixture.origin_tags(origins)
        origins = [
            replace(origin, tag=f"{origin.tag} {tag}".strip()) for origin, tag in zip(origins, tags, strict=True)
        ]
    plan = TrainingPlan(origins, [data.weights[origin.part] if data.weights else 1.0 for origin in origins])
    if not roles and data.temperature is None:
        return plan
    thresholds: Thresholds = {}
    if roles:
        record = open_record(data, sets, cache)
        thresholds = record.thresholds(roles)
    split = hold_out(data, origins, thresholds, folder)
    if roles:
        record.save(thresholds, split.thresholds)
    if data.temperature is not None:
        plan.weights = mixture.temperature_weights(split.accepted, data.temperature)
    sets |= split.sets
    plan.origins, plan.split = split.origins, split
    return plan


def file_digests(origins: list[Origin], cache: Path) -> list[list[str]]:
    """The sha256 of the files of each origin; files that were hashed before and have not changed are not read."""
    digests = DigestCache(cache)
    found = [[digests.digest(path) for path in origin.files] for origin in origins]
    digests.save()
    return found


def split_roles(sets: dict[str, list[Origin]]) -> list[str]:
    """Which of valid and test are split from the training text: those without an origin."""
    return [name for name, origins in sets.items() if not origins]


def open_record(data: DataConfig, sets: dict[str, list[Origin]], cache: Path) -> SplitRecord:
    """The thresholds that the origins of the training text were split with before."""
    return SplitRecord(cache.with_name("splits.json"), data, sets["train"], file_digests(sets["train"], cache))

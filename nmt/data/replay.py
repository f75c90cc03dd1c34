"""Old text in the training on new text, against forgetting, and the old test sets, which are scored again.

Old text is a share of the training text of every epoch, in bytes: with n bytes of new pairs and m of old ones, each old
pair has the weight share / (1 − share) · n / m (nmt/data/training_plan.py). Pairs would not do: half of the pairs,
where theirs are the long ones, is most of what is learnt. Both come from the folder of the corpus that the first run
was trained on, so they are what it saw, whatever has become of its sources.
"""

import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.config.schema import DataConfig
from nmt.data.checksums import Manifest
from nmt.data.origin import Origin, prefix_origin
from nmt.errors import UserError

MAX_WEIGHT = 100.0
PREFIX = "old-"  # of the names of the old test sets


@dataclass(frozen=True)
class OldText:
    """The corpus of the run that a training starts from; `share` of the training text is taken from it."""

    folder: Path
    report: dict[str, Any]  # its report.json
    share: float

    @property
    def recipe(self) -> dict[str, Any]:
        """What the new corpus depends on."""
        return {"corpus": self.report["corpus_hash"], "share": self.share}

    def training_text(self, data: DataConfig) -> list[Origin]:
        """The old training pairs as one more origin; none if they have no share. Raises UserError if they are damaged.

        They have the tags that they were trained with.
        """
        if not self.share:
            return []
        Manifest(self.folder).check([f"train.{data.source}", f"train.{data.target}"])
        return [self.origin("train", data)]

    def test_sets(self, data: DataConfig, others: Collection[str]) -> dict[str, list[Origin]]:
        """The old test sets, by their new names; raises UserError where one of `others` has the same."""
        sets = {f"{PREFIX}{name}": [self.origin(name, data)] for name in self.report["sets"]}
        if same := sets.keys() & set(others):
            raise UserError(f"data.test names a set '{min(same)}', as an old test set is called; rename its files.")
        return sets

    def origin(self, name: str, data: DataConfig) -> Origin:
        """The pairs of a set of the old corpus."""
        return prefix_origin(str(self.folder / name), data.source, data.target)

    def copy_gold_alignments(self, folder: Path) -> None:
        """Copy the gold links of the old test sets. Raises OSError."""
        for name in self.report["sets"]:
            if (links := self.folder / f"{name}.align").exists():
                shutil.copyfile(links, folder / f"{PREFIX}{name}.align")

    def weight(self, new: int) -> float:
        """How often each old pair is trained on in an epoch with `new` bytes of new pairs."""
        languages = self.report["source"], self.report["target"]
        old = sum((self.folder / f"train.{language}").stat().st_size for language in languages)
        return min(MAX_WEIGHT, self.share / (1 - self.share) * new / old)

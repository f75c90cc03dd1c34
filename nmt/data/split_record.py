"""splits.json in the data folder: up to which hash the pairs of an origin are held out, so that test sets stay.

An entry is of a language pair, an origin and a role. It holds for the text that it was found with as well as for any
other: the text it was found with gives it again, so that it need not be in the recipe of that corpus.
"""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from nmt.config.schema import DataConfig
from nmt.data.files import write_atomic
from nmt.data.origin import Origin
from nmt.data.packed import without_packing
from nmt.data.run_lock import only_writer
from nmt.data.split import ROLES, Thresholds
from nmt.errors import UserError


class SplitRecord:
    """The entries of splits.json for the training text with these sha256; a missing file has none.

    Raises UserError for a damaged one.
    """

    def __init__(self, path: Path, data: DataConfig, origins: list[Origin], digests: list[list[str]]) -> None:
        self.path, self.data, self.origins = path, data, origins
        text = sorted("".join(sorted(each)) for each in digests)
        limits = [data.split_size, data.max_characters, data.max_length_ratio]
        self.corpus = hashlib.sha256(json.dumps([text, limits]).encode()).hexdigest()
        self.entries = read_entries(path)

    def key(self, role: str, origin: Origin) -> str:
        """The key of an entry: the language pair in either direction, the role, the origin."""
        languages = "-".join(sorted(origin.languages or (self.data.source, self.data.target)))
        return f"{languages} {role} {origin.key}"

    def find(self, role: str, origin: Origin) -> dict[str, Any] | None:
        """The entry of an origin; of packed files also under the name that earlier versions gave it."""
        path = origin.files[0].resolve()
        names = [origin.key, str(path), str(without_packing(path))]
        keys = [self.key(role, replace(origin, key=name)) for name in names]
        return next((self.entries[key] for key in keys if key in self.entries), None)

    def thresholds(self, roles: list[str]) -> Thresholds:
        """For each role that is split, the threshold of each origin that other text has set; None for the others."""
        found: Thresholds = {}
        for role in (role for role in ROLES if role in roles):
            entries = [self.find(role, origin) for origin in self.origins]
            found[role] = [
                entry["threshold"]
                if entry and entry["corpus"] != self.corpus and entry["split_size"] == self.data.split_size
                else None
                for entry in entries
            ]
        return found

    def save(self, before: Thresholds, found: Thresholds) -> None:
        """Write down the thresholds that this text has set. Raises OSError; UserError where the folder is locked."""
        new = {}
        for role, thresholds in found.items():
            for origin, threshold, old in zip(self.origins, thresholds, before[role], strict=True):
                if old is None and threshold is not None:
                    new[self.key(role, origin)] = {
                        "threshold": threshold, "corpus": self.corpus, "split_size": self.data.split_size,
                    }  # fmt: skip
        with only_writer(self.path.parent, timeout=60.0):  # other trainings may have added theirs meanwhile
            self.entries = read_entries(self.path) | new
            write_atomic(self.path, json.dumps(self.entries, indent=1, sort_keys=True) + "\n")


def read_entries(path: Path) -> dict[str, dict]:
    """The entries of a file, none of a missing one; raises UserError for a damaged one."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or not all(is_entry(entry) for entry in content.values()):
        raise UserError(
            f"{path} is damaged; it keeps validation and test sets the same when the text grows. Restore it, or delete "
            "it to split anew: then test pairs may become training pairs."
        )
    return content


def is_entry(entry: Any) -> bool:
    """Whether this is an entry as `save` writes them."""
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("threshold"), int)
        and 0 <= entry["threshold"] < 2**64
        and isinstance(entry.get("corpus"), str)
        and isinstance(entry.get("split_size"), int)
    )

"""Sentence pairs from the phrasebook, from Multi30k or from one's own sources, written to one
folder of plain text.

The folder holds train, valid and each test set as NAME.SOURCE and NAME.TARGET, UTF-8, one sentence
a line, NAME.align where gold alignments exist, and report.json, which says what came from where.
Training pairs that cannot be right are left out, as pairs; validation and test sets are copied in
full, because a score over a part of a set is not comparable. Everything streams.
"""

import hashlib
import json
import logging
from pathlib import Path
from typing import Any

from nmt.config.schema import DataConfig
from nmt.data import multi30k, phrasebook, sources
from nmt.data.checks import PairChecks
from nmt.data.checksums import cached_digests
from nmt.data.files import report_write_errors
from nmt.data.filtering import HeldOutSentences
from nmt.data.language_pairs import divide_tests, each_pair, is_multilingual
from nmt.data.packed import PackedFile
from nmt.data.training_links import find_link_files
from nmt.data.training_plan import (
    LEARNT,
    OldText,
    check_mixture,
    file_digests,
    open_record,
    origin_tags,
    prepare_training,
)
from nmt.data.write_sets import IN_TRAINING, TrainingSet, write_held_out_set

# of kind=files
OWN_KEYS = (
    "split_size",
    "columns",
    "encoding",
    "weights",
    "temperature",
    "origin_tags",
    "opus_url",
)
AUDIT_KEYS = ("audit_deviation", "audit_examples")
OTHER_KEYS = (*AUDIT_KEYS, "mono")  # of other commands and stages
logger = logging.getLogger("nmt")


def corpus_inputs(data: DataConfig, cache: Path) -> dict[str, Any]:
    """What the corpus depends on besides its configuration: the content of its files; raises
    UserError.

    `cache` is a JSON file, in the data folder, with the sha256 of files that were hashed before.
    What data.train and the others name is downloaded to that folder.
    """
    groups = sources.set_names(data)
    if data.kind == "multi30k":
        names = (
            [] if is_multilingual(data) else [name for group in groups.values() for name in group]
        )
        for pair in each_pair(data):
            multi30k.check_sets(pair.source, pair.target, names)
        return {"commit": multi30k.COMMIT}
    if data.kind == "phrasebook":
        phrasebook.check_sets(data, groups)
        return {"phrasebook": phrasebook.phrasebook_digest()}
    check_mixture(data, len(groups["train"]))
    sets = sources.own_sets(data, groups, cache.parent / "downloads")
    if data.origin_tags:
        origin_tags(sets["train"])
    inputs: dict[str, Any] = {name: file_digests(origins, cache) for name, origins in sets.items()}
    for name, origins in sets.items():
        for origin, found in zip(origins, inputs[name], strict=True):
            if len(origin.files) == 1:  # how it is read follows from its ending
                found.append(PackedFile(origin.files[0]).ending)
    if links := find_link_files(data, sets["train"]):
        inputs["links"] = cached_digests(links, cache)
    if record := open_record(data, sets, cache):
        inputs["split"] = record.thresholds()
    return inputs


def without_effect(data: DataConfig) -> set[str]:
    """The keys of the configuration that do not change the corpus, because of its kind or their
    values."""
    without = set(OTHER_KEYS) if data.pair_tags else {*OTHER_KEYS, "pair_tags"}
    if data.kind != "files":
        return {*OWN_KEYS, *without}
    is_split = sources.SPLIT in (
        data.valid,
        *(data.test if isinstance(data.test, list) else [data.test]),
    )
    default = {
        key
        for key in OWN_KEYS
        if getattr(data, key) == DataConfig.__dataclass_fields__[key].default
    }
    used = {"split_size"} if is_split else set()
    return {"train", "valid", "test", "opus_url", *without, *(default - used)}


def build_corpus(
    data: DataConfig,
    folder: Path,
    downloads: Path,
    old: OldText | None = None,
    synthetic: Path | None = None,
) -> None:
    """Write the sets and report.json into an empty folder; raises UserError when the input is
    unusable.

    `old`: what a training that starts from a run has from it: pairs to train on again, and test
    sets. `synthetic`: the folder of back-translations to train on as well.
    """
    with report_write_errors(folder):
        cache = downloads.parent / "digests.json"
        sets = sources.find_sets(data, downloads)
        sets = old.without_split(sets, data) if old else sets
        plan = prepare_training(data, sets, cache)
        sets = divide_tests(sets)
        if old:
            plan.add_old(old, data)
            sets |= {"train": plan.origins} | old.test_sets(data, sets)
            old.copy_gold_alignments(folder)
        if synthetic:
            plan.add_synthetic(synthetic, data)
            sets |= {"train": plan.origins}
        held_out = HeldOutSentences()
        audit = {}
        languages = None if is_multilingual(data) else (data.source, data.target)
        checks = {name: PairChecks(None, languages) for name in sets if name != "train"}
        for name in checks:
            apart = HeldOutSentences() if name == LEARNT else held_out  # its pairs are trained on
            audit[name] = write_held_out_set(name, sets[name], data, folder, apart, checks[name])
        training = TrainingSet(plan, data, held_out, PairChecks(checks["valid"], languages))
        audit = {"train": training.write(folder)} | audit
        if leaked := held_out.found_lines("valid"):
            audit["valid"]["counted"][IN_TRAINING] = len(leaked)
            audit["valid"]["examples"][IN_TRAINING] = f"valid.{data.source}:{leaked[0]}"
        for name, origins in sets.items():
            for entry, origin, digests in zip(
                audit[name]["origins"], origins, file_digests(origins, cache), strict=True
            ):
                entry["files"] = [
                    {"name": path.name, "bytes": path.stat().st_size, "sha256": digest}
                    for path, digest in zip(origin.files, digests, strict=True)
                ]
        if data.kind == "phrasebook":
            phrasebook.write_links(data, sources.set_names(data), folder)
        digests = [digest for entry in audit.values() for digest in entry["sha256"].values()]
        report = {
            "source": data.source,
            "target": data.target,
            "sets": [name for name in sets if name not in ("train", "valid")],
            "corpus_hash": hashlib.sha256("".join(digests).encode()).hexdigest(),
            "tags": plan.all_tags,
            "audit": audit,
        }
        (folder / "report.json").write_text(
            json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )
    log_report(audit)


def log_report(audit: dict[str, Any]) -> None:
    for name, entry in audit.items():
        logger.info(
            "%-20s %11s pairs read, %11s kept", name, f"{entry['read']:,}", f"{entry['kept']:,}"
        )
        for group in ("dropped", "counted"):
            for reason, number in entry[group].items():
                logger.info(
                    "  %-7s %10s  %s, first: %s",
                    group,
                    f"{number:,}",
                    reason,
                    entry["examples"][reason],
                )
        for part in (
            entry["origins"]
            if len(entry["origins"]) > 1 or "skipped" in entry["origins"][0]
            else []
        ):
            words = [f"from    {part['read']:>10,}  {part['origin']}, {part['lines']:,} lines"]
            words += [
                f"{number:,} {reason}"
                for reason, number in (part["dropped"] | part.get("skipped", {})).items()
            ]
            words += [
                f"{key} {part[key]}"
                for key in ("weight", "revision", "license")
                if part.get(key, 1) != 1
            ]
            logger.info("  %s", ", ".join(words))


def log_warnings(report: dict[str, Any]) -> None:
    """Log what `PairChecks` found in each set, once for every command that uses the corpus."""
    for entry in report["audit"].values():
        for warning in entry["warnings"]:
            logger.warning("%s", warning)

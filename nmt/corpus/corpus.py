"""Writes sentence pairs of any source to one folder of plain text, the corpus.

The folder holds train, valid and each test set as NAME.SOURCE and NAME.TARGET, UTF-8, one sentence
a line; NAME.align if gold alignments exist; and report.json, which says what came from where.
Training pairs that cannot be right are left out, as pairs. Validation and test sets are copied in
full, because a score over a part of a set is not comparable. Everything is read as a stream.
"""

import json
import logging
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import Any

from nmt.config.schema import DataConfig
from nmt.corpus import phrasebook, sources
from nmt.corpus.checks import PairChecks
from nmt.corpus.checksums import cached_digests, text_digest
from nmt.corpus.files import report_write_errors
from nmt.corpus.filtering import HeldOutSentences
from nmt.corpus.language_pairs import divide_tests, is_multilingual
from nmt.corpus.link_files import find_link_files
from nmt.corpus.origin import Origin
from nmt.corpus.packed import PackedFile
from nmt.corpus.tables import warn_once
from nmt.corpus.training_plan import (
    LEARNT,
    OldText,
    TrainingPlan,
    check_mixture,
    file_digests,
    open_record,
    origin_tags,
    prepare_training,
)
from nmt.corpus.write_sets import IN_TRAINING, TrainingSet, write_held_out_set

AUDIT_KEYS = ("audit_deviation", "audit_examples")
OTHER_KEYS = (*AUDIT_KEYS, "mono")  # of other commands and stages
logger = logging.getLogger("nmt")


def corpus_inputs(data: DataConfig, cache: Path) -> dict[str, Any]:
    """What the corpus depends on besides its configuration: the content of its files.

    `cache` is a JSON file, in the data folder, with the sha256 of files that were hashed before.
    What data.train and the others name is downloaded to that folder. Raises UserError.
    """
    groups = sources.set_names(data)
    if data.kind != "files":
        built_in = sources.BUILT_IN[data.kind]
        built_in.check_sets(data, groups)
        return {data.kind: built_in.digest()}

    check_mixture(data, len(groups["train"]))
    sets = sources.own_sets(data, groups, cache.parent / "downloads")
    if data.origin_tags:
        origin_tags(sets["train"])  # raises if two are the same
    inputs: dict[str, Any] = {}
    for name, origins in sets.items():
        inputs[name] = file_digests(origins, cache)
        for origin, digests in zip(origins, inputs[name], strict=True):
            if len(origin.files) == 1:  # how it is read follows from its ending
                digests.append(PackedFile(origin.files[0]).ending)
    links = find_link_files(data, sets["train"])
    if links:
        inputs["links"] = cached_digests(links, cache)
    record = open_record(data, sets, cache)
    if record:
        inputs["split"] = record.thresholds()
    return inputs


def without_effect(data: DataConfig) -> set[str]:
    """The keys of the configuration that do not change this corpus, by its kind or their values."""
    without = set(OTHER_KEYS)
    for key in fields(data):
        if getattr(data, key.name) == key.default:
            without.add(key.name)
    if data.kind == "files":
        without |= {"train", "valid", "test", "opus_url"}  # the content of their files counts
        tests = data.test if isinstance(data.test, list) else [data.test]
        if sources.SPLIT in (data.valid, *tests):
            without.discard("split_size")
    return without


def build_corpus(
    data: DataConfig,
    folder: Path,
    downloads: Path,
    old: OldText | None = None,
    synthetic: Path | None = None,
) -> None:
    """Write the sets and report.json into an empty folder; raises UserError for unusable input.

    `old`: pairs to train on again, and test sets, of the run from which a training starts.
    `synthetic`: the folder of back-translations to train on as well.
    """
    with report_write_errors(folder):
        sets = sources.find_sets(data, downloads)
        if old:
            sets = old.without_split(sets, data)
        plan = prepare_training(data, sets, downloads.parent / "digests.json")
        sets = divide_tests(sets)
        if old:
            plan.add_old(old, data)
            sets |= old.test_sets(data, sets)
            old.copy_gold_alignments(folder)
        if synthetic:
            plan.add_synthetic(synthetic, data)
        audit = write_all_sets(sets, plan, data, folder)
        if data.kind == "phrasebook":
            phrasebook.write_links(data, sources.set_names(data), folder)
        written = chain(*(entry["sha256"].values() for entry in audit.values()))
        report = {
            "source": data.source,
            "target": data.target,
            "sets": [name for name in sets if name not in ("train", "valid")],
            "corpus_hash": text_digest("".join(written)),
            "tags": plan.all_tags,
            "audit": audit,
        }
        text = json.dumps(report, indent=1, ensure_ascii=False) + "\n"
        (folder / "report.json").write_text(text, encoding="utf-8")
    log_report(audit)


def write_all_sets(
    sets: dict[str, list[Origin]], plan: TrainingPlan, data: DataConfig, folder: Path
) -> dict[str, Any]:
    """Write the held-out sets, then the training pairs; returns the entries of report.json."""
    languages = None if is_multilingual(data) else (data.source, data.target)
    held_out = HeldOutSentences()
    audit = {}
    checks = {name: PairChecks(None, languages) for name in sets if name != "train"}
    for name in checks:
        apart = HeldOutSentences() if name == LEARNT else held_out  # its pairs are trained on
        audit[name] = write_held_out_set(name, sets[name], data, folder, apart, checks[name])
    training = TrainingSet(plan, data, held_out, PairChecks(checks["valid"], languages))
    audit = {"train": training.write(folder)} | audit
    for name in checks:
        leaked = held_out.found_lines(name)
        if leaked:
            audit[name]["counted"][IN_TRAINING] = len(leaked)
            audit[name]["examples"][IN_TRAINING] = f"{name}.{data.source}:{leaked[0]}"
    return audit


def log_report(audit: dict[str, Any]) -> None:
    for name, entry in audit.items():
        read = f"{entry['read']:,}"
        kept = f"{entry['kept']:,}"
        logger.info("%-20s %11s pairs read, %11s kept", name, read, kept)
        for group in ("dropped", "counted"):
            for reason, number in entry[group].items():
                first = entry["examples"][reason]
                logger.info("  %-7s %10s  %s, first: %s", group, f"{number:,}", reason, first)
        origins = entry["origins"]
        if len(origins) > 1 or "skipped" in origins[0]:
            for origin in origins:
                log_origin(origin)


def log_origin(entry: dict[str, Any]) -> None:
    words = [f"from    {entry['read']:>10,}  {entry['origin']}, {entry['lines']:,} lines"]
    lost = entry["dropped"] | entry.get("skipped", {})
    words += [f"{number:,} {reason}" for reason, number in lost.items()]
    for key in ("weight", "revision", "license"):
        if entry.get(key, 1) != 1:
            words.append(f"{key} {entry[key]}")
    logger.info("  %s", ", ".join(words))


def log_warnings(report: dict[str, Any]) -> None:
    """Log what `PairChecks` found in each set, once for every command that uses the corpus.

    A training with model=auto opens its corpus twice.
    """
    for entry in report["audit"].values():
        for warning in entry["warnings"]:
            warn_once(warning)

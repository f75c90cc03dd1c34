"""nmt learn and nmt rollback: new versions of a run out of corrections, and the way back."""

import argparse
import logging
import os
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from nmt.audit.faults import unlike_pairs
from nmt.audit.translations import IMPROBABLE, TranslationCheck
from nmt.config.schema import DataConfig
from nmt.corpus.checks import Pair
from nmt.corpus.corpus_folder import read_report, set_files
from nmt.corpus.files import only_writer, report_write_errors, write_atomic
from nmt.corpus.inspect.misaligned_blocks import MIN_PAIRS
from nmt.corpus.language_pairs import choose_pair, each_pair, language_pairs, pair_tag
from nmt.corpus.parallel_text import read_pairs
from nmt.corpus.sources import find_for_pairs
from nmt.documents.post_edited import read_post_edited
from nmt.errors import UserError
from nmt.evaluate.metrics import Translated, open_scorer
from nmt.runs.decision import EDITS, HELD_OUT
from nmt.runs.folders import find_checkpoint, trained_runs
from nmt.runs.learning import (
    LEARNT,
    Correction,
    Lesson,
    check_words,
    find_old_corpus,
    known_pairs,
    learn,
    settle,
    settle_newest,
    version_of_lesson,
)
from nmt.runs.learning_report import FILE as REPORT
from nmt.runs.learning_report import write_report
from nmt.runs.pipeline import compose
from nmt.runs.run import load
from nmt.runs.versions import (
    current_number,
    leave_current,
    named_version,
    read_record,
    version_folder,
    version_of,
)
from nmt.serve.corrections import CONFIRMED, Corrections, judge_likenesses
from nmt.serve.corrections import Correction as Kept
from nmt.serve.memory import on_one_line
from nmt.training.restore import load_config

log = logging.getLogger("nmt")
REJECTED = "rejected.tsv"  # in the run's folder: what the last audit left out, and why
MOST_REJECTED = 0.5  # of the new corrections; if more are left out, nothing is learnt
OLD_PAIRS = 500  # of the old text, beside which the audit judges corrections
UNLIKE_MACHINE = "another text than the machine's"


def run(options: argparse.Namespace) -> int:
    """Learn, decide and print what came out as KEY<TAB>VALUE lines; or go back a version."""
    if options.command == "rollback":
        return rollback(options)
    words = []
    files = list(options.files)
    for word in options.words:
        if "=" in word and not os.path.exists(word):
            words.append(word)
        else:
            files.append(word)
    if not files and not options.corrections:
        raise UserError("Give --corrections FILE of a service, or --from FILE with corrections.")
    runs = Path(options.runs)
    run_folder, _ = version_of(find_checkpoint(options.name, runs).parent)
    with only_writer(run_folder):
        current = settle_newest(run_folder, current_number(run_folder))
        _, number = version_of(find_checkpoint(options.name, runs).parent)
        if number != current:
            raise UserError(
                f"{options.name} is not the current version, {current}, with which learning "
                f"begins; `nmt rollback {run_folder.name}@{number}` makes it the current one."
            )
        return learn_from(options, run_folder, current, files, words)


def learn_from(
    options: argparse.Namespace, run_folder: Path, base: int, files: list[str], words: list[str]
) -> int:
    folder = version_folder(run_folder, base)
    config = load_config(folder / "best.safetensors")
    pairs_of_languages = choose_pairs(options, config.data, run_folder.name, bool(files))
    check_words(words)
    wanted = [f"from={folder / 'best.safetensors'}", "name=learn", "data.train=corrections"]
    (chosen,) = compose([*wanted, f"data_folder={config.data_folder}", *words])
    data_folder = chosen.data_folder
    old = find_old_corpus(run_folder, data_folder)
    if old is None and not options.test:
        raise UserError(
            f"The text that {run_folder.name} was trained on is not here, so nothing says whether "
            "it forgets what it can do; give --test FILE, pairs that it is to go on translating "
            "well."
        )

    # A test set that is not there is found before a version begins
    for word in options.test:
        find_for_pairs(word, chosen.data, Path(data_folder) / "downloads")

    # What is new, and is a translation
    rows = accepted_rows(options.corrections, pairs_of_languages)
    corrections: list[Correction] = []
    faults: dict[int, str] = {}
    for languages in pairs_of_languages:
        tag = pair_tag(languages, config.data)
        read_as = replace(chosen.data, source=languages.source, target=languages.target)
        found = read_corrections(rows, files, read_as, tag)
        if not found:
            continue
        sample = old_sample(old, config.data, tag)
        for index, fault in audit(found, run_folder, languages, sample).items():
            if not found[index].is_confirmed:
                faults[len(corrections) + index] = fault
        corrections += found
    if not corrections:
        raise UserError(
            "There are no corrections to learn from; those of a service count once they are "
            "accepted (nmt corrections)."
        )
    reject(run_folder, corrections, faults)
    earlier = dict(known_pairs(folder, config.data))
    new = []
    for index, each in enumerate(corrections):
        if index not in faults and earlier.get(each.line) != each.target:
            new.append(each)
    if not new:
        log.info("Version %d has learnt all of these %d corrections.", base, len(corrections))
        return 0

    # Learn, and decide
    pairs = earlier | {each.line: each.target for each in new}
    about: dict[str, Any] = {
        "from": [*filter(None, [options.corrections]), *files],
        "new": len(new),
        "words": sum(len(target.split()) for target in pairs.values()),
        "rejected": dict(Counter(faults.values())),
        "edited": edits(corrections, config.data.target),
    }
    tests = list(options.test)
    lesson = Lesson(run_folder, base, list(pairs.items()), tests, options.margin, words, about)
    number = version_of_lesson(lesson)
    if number is None:
        outcome = learn(lesson, old, data_folder)
        write_report(outcome, run_folder.name)
        settle(outcome, run_folder)
        number = outcome.number
    else:
        log.info("Version %d was made from these corrections before.", number)
    made = version_folder(run_folder, number)
    record = read_record(made) or {}
    print(f"version\t{number}")
    print(f"current\t{current_number(run_folder)}")
    print(f"learnt\t{record['corrections'][LEARNT]}")
    print(f"held out\t{record['corrections'][HELD_OUT]}")
    print(f"decision\t{record['sentence']}")
    print(f"report\t{made / REPORT}")
    return 0


def choose_pairs(
    options: argparse.Namespace, data: DataConfig, owner: str, has_files: bool
) -> list[DataConfig]:
    """The language pairs that are learnt, by default all.

    Corrections of a service have their languages; of files the command line must name one pair.
    Raises UserError if it does not, and for a pair that the run does not have.
    """
    if has_files or options.source or options.target:
        source, target = choose_pair(data, options.source, options.target, owner)
        return [replace(data, source=source, target=target)]
    return list(each_pair(data))


def read_corrections(
    rows: Sequence[Kept], files: Sequence[str], data: DataConfig, tag: str
) -> list[Correction]:
    """The corrections of a service and of files in one language pair, on one line each.

    The last one of a source counts.
    """
    found: list[Correction] = []
    for word in files:
        for source, target in read_post_edited(word, data):
            found.append(Correction(on_one_line(source), on_one_line(target), tag=tag))
    for row in rows:
        if row.languages == (data.source, data.target):
            source, correction, machine = map(on_one_line, (row.source, row.correction, row.target))
            is_confirmed = row.accepted == CONFIRMED
            found.append(Correction(source, correction, machine, tag, row.id, is_confirmed))
    by_source: dict[str, Correction] = {}
    contrary = 0
    for each in found:
        if each.source and each.target:
            before = by_source.pop(each.source, each)
            contrary += before.target != each.target
            by_source[each.source] = each
    if contrary:
        log.info("%d corrections are replaced by later ones of the same source.", contrary)
    return list(by_source.values())


def accepted_rows(store: str | None, pairs: Sequence[DataConfig]) -> list[Kept]:
    """The accepted corrections of a service in some language pairs, the oldest first.

    Says how many are in others.
    """
    if store is None:
        return []
    learnt = {(pair.source, pair.target) for pair in pairs}
    rows = []
    others = Counter[str]()
    corrections = Corrections(Path(store))
    for row in corrections.all():
        if row.counts:
            if row.languages in learnt:
                rows.append(row)
            else:
                others["→".join(row.languages)] += 1
    corrections.close()
    for languages, count in others.items():
        log.info("Accepted corrections that are left out, since they are %s: %d", languages, count)
    return rows


def old_sample(old: Path | None, data: DataConfig, tag: str) -> list[Pair]:
    """Some training pairs of the old text, evenly spread, of those with a tag, without it."""
    if old is None:
        return []
    size = read_report(old)["audit"]["train"]["kept"]
    step = max(1, size // (OLD_PAIRS * len(language_pairs(data))))
    sample = []
    for source, target in islice(read_pairs(*set_files(old, "train", data)), 0, None, step):
        if source.startswith(tag):
            sample.append((source[len(tag) :].lstrip(), target))
    return sample


def audit(
    corrections: Sequence[Correction],
    run_folder: Path,
    data: DataConfig,
    sample: Sequence[Pair],
) -> dict[int, str]:
    """Which corrections of one language pair seem to be no translations, by their places, and why.

    They are judged by their letters; where the machine's text is known, by how like it they are;
    and by the first version, which has learnt from no correction, so that the judgement stays.
    """
    pairs = [(each.source, each.target) for each in corrections]
    faults = unlike_pairs(pairs, data)

    # By what the machine had written
    known = [index for index, each in enumerate(corrections) if each.machine]
    texts = [(corrections[index].machine, corrections[index].target) for index in known]
    likenesses, least = judge_likenesses(texts)
    for index, likeness in zip(known, likenesses, strict=True):
        if likeness <= least:
            faults.setdefault(index, UNLIKE_MACHINE)

    # By the first version, beside correct pairs
    if len(sample) + len(pairs) < MIN_PAIRS:
        log.info("%d corrections are too few for the model to judge them.", len(pairs))
        return faults
    run = load([run_folder / "best.safetensors"], precision="fp32")
    run = run.in_direction(data.source, data.target)
    with tempfile.TemporaryDirectory() as parts:
        check = TranslationCheck(run, None, Path(parts))
        check.learn([*sample, *pairs])
        for index in check.judge(pairs)[0]:
            faults.setdefault(index, IMPROBABLE)
    return faults


def reject(run_folder: Path, corrections: Sequence[Correction], faults: dict[int, str]) -> None:
    """Write what the audit leaves out, and say it; raises UserError where it is most of all."""
    path = run_folder / REJECTED
    lines = []
    advice = ""
    for index, reason in sorted(faults.items()):
        correction = corrections[index]
        number = correction.number or ""
        lines.append(f"{reason}\t{correction.line}\t{correction.target}\t{number}\n")
        if number:
            advice = " Those that you accept by their numbers are learnt all the same."
    with report_write_errors(run_folder):
        write_atomic(path, "".join(lines))
    if not faults:
        return
    reasons = [f"{count} {reason}" for reason, count in Counter(faults.values()).most_common()]
    found = (
        f"The audit leaves out {len(faults)} of {len(corrections)} corrections, which are in {path}"
        f": {', '.join(reasons)}"
    )
    if len(faults) > MOST_REJECTED * len(corrections):
        raise UserError(f"{found}. These are too many to learn from the others.{advice}")
    log.warning("%s.%s", found, advice)


def edits(corrections: Sequence[Correction], language: str) -> dict[str, Any]:
    """How much of the machine's texts was edited, where they are known."""
    known = [each for each in corrections if each.machine]
    if not known:
        return {}
    sides = [[each.machine for each in known], [each.target for each in known]]
    scorer = open_scorer(EDITS, language)
    sums = scorer.statistics(Translated(sides[0], [sides[1]])).sum(axis=0)
    return {"sentences": len(known), "hter": scorer.score(sums)}


def rollback(options: argparse.Namespace) -> int:
    """Go back to the version before, or to the one that RUN@N names, and print its number."""
    names = [Path(options.name), Path(options.runs, options.name)]
    if options.name == "latest":
        names = trained_runs(Path(options.runs))[-1:]
    for name in names:
        run_folder, number = named_version(name)
        if (run_folder / "best.safetensors").is_file():
            with only_writer(run_folder):
                number = leave_current(run_folder, number)
            log.info("Version %d of %s is current.", number, run_folder.name)
            print(number)
            return 0
    raise UserError(f"There is no run {options.name} in {options.runs}.")

"""A new version of a run that learns corrections, and the test that decides whether it is used.

1. Some corrections are held out by a hash of their source, so that each stays on its side for ever,
   however often the run learns, and even if its translation is corrected once more.
2. The current version is trained further on the others, mixed with text that the run was first
   trained on. Corrections that earlier versions have learnt are among them.
3. Both versions translate the held-out corrections and the test sets of the run. The new one
   becomes current if it is better on the first (paired bootstrap) and not worse on the others.

A version's folder holds its corrections from its first moment, so after a kill the same command
goes on. Its record, version.json, has the decision; RUN/current is replaced after it.
"""

import logging
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nmt.config import presets
from nmt.config.schema import Config, DataConfig
from nmt.corpus.checks import Pair
from nmt.corpus.checksums import json_digest, write_json
from nmt.corpus.corpus_folder import read_report, set_files
from nmt.corpus.files import atomic_folder, report_write_errors, temporary_folder
from nmt.corpus.language_pairs import tagged_language
from nmt.corpus.parallel_text import read_lines, read_pairs
from nmt.errors import UserError
from nmt.runs import pipeline
from nmt.runs.decision import HELD_OUT, Decision, SetChange, decide, is_held_out
from nmt.runs.folders import existing_corpus
from nmt.runs.results import Result
from nmt.runs.run import Run
from nmt.runs.run import load as load_run
from nmt.runs.scoring import corpus_set, write_pairs
from nmt.runs.stages import build_corpus_stage
from nmt.runs.versions import (
    ACCEPTED,
    RECORD,
    VERSIONS,
    now,
    read_record,
    set_current,
    version_folder,
    version_numbers,
    write_record,
)
from nmt.training.checkpoint import load, save, shared_names
from nmt.training.fisher import fisher_information
from nmt.training.restore import load_config

log = logging.getLogger("nmt")
LEARNT = "learnt"  # corrections that are trained on: two files in the folder of a version
OLD_VALID = "old-valid"  # the validation set of a run without test sets, as a test set
OLD_SHARE = 0.6  # of the bytes of the training text
# Keys of a training that follow from what is learnt
FIXED = {"from", "name", "run_folder", "data", "data.train", "data.weights", "data.valid"}
FIXED |= {"data.test", "data.source", "data.target", "train.replay"}
# How much more a version keeps what old text needs than it takes what corrections need
IMPORTANCE = [3**power for power in range(7)]
VALIDATED = 2000  # validation pairs by which one is chosen
ALLOWED = 0.5  # of the margin, on these pairs: a test set may lose more than they do
REMEMBERED = 4000  # pairs of the old text that say which weights it needs
AT_ONCE = 16  # pairs whose gradient is squared
MERGED = "mean of"  # begins the origin of such weights


@dataclass(frozen=True)
class Correction:
    """A source with its correct translation, and what the machine had written, if that is known."""

    source: str
    target: str
    machine: str = ""
    tag: str = ""  # that a run with several languages needs before the source
    number: int | None = None  # in the file of a service
    is_confirmed: bool = False  # a person has looked at it, so that no audit leaves it out

    @property
    def line(self) -> str:
        """The source as the run reads it."""
        return f"{self.tag} {self.source}".lstrip()


@dataclass(frozen=True)
class Lesson:
    """What a version is to learn, and by what it is judged."""

    run_folder: Path
    base: int  # the version that it starts from
    pairs: list[Pair]  # all corrections, those of earlier versions among them
    tests: list[str]  # further test sets, as data.test names them
    margin: float  # BLEU that a test set may lose
    words: list[str]  # KEY=VALUE of the training
    about: dict[str, Any]  # for the record

    @property
    def key(self) -> str:
        """A hash of all that the training and the decision depend on."""
        return json_digest([self.base, sorted(self.pairs), self.tests, self.margin, self.words])


def known_pairs(folder: Path, data: DataConfig) -> list[Pair]:
    """The corrections that a version was made with; none for a first version."""
    pairs: list[Pair] = []
    for name in (LEARNT, HELD_OUT):
        files = set_files(folder, name, data)
        if files[0].exists():
            pairs += read_pairs(*files)
    return pairs


def version_of_lesson(lesson: Lesson) -> int | None:
    """The number of the version that was made from a lesson and judged; None if there is none."""
    for number in version_numbers(lesson.run_folder)[1:]:
        record = read_record(version_folder(lesson.run_folder, number))
        if record and record.get("key") == lesson.key and "decision" in record:
            return number
    return None


def open_version(lesson: Lesson, data: DataConfig) -> tuple[int, Path]:
    """The number and the folder of the version that learns a lesson, begun or continued.

    An unfinished version with another lesson is begun again under its number.
    """
    run_folder = lesson.run_folder
    newest = version_numbers(run_folder)[-1]
    folder = version_folder(run_folder, newest)
    record = read_record(folder) if newest > 1 else None
    # One that somebody has made current is kept, too
    is_unfinished = record is not None and "decision" not in record and newest != lesson.base
    if record is not None and is_unfinished and record.get("key") == lesson.key:
        log.info("Version %d, which was begun, goes on.", newest)
        return newest, folder
    if is_unfinished:
        log.info(
            "Version %d was begun with other corrections or settings; it begins again.", newest
        )
        with report_write_errors(folder), temporary_folder(folder) as removed:
            os.rename(folder, removed / "old")
    else:
        newest += 1
        folder = version_folder(run_folder, newest)
    parts: dict[str, list[Pair]] = {LEARNT: [], HELD_OUT: []}
    for pair in lesson.pairs:
        parts[HELD_OUT if is_held_out(pair[0]) else LEARNT].append(pair)
    if not parts[LEARNT]:
        raise UserError(
            f"All of the {len(lesson.pairs)} corrections are held out for the test; there must be "
            "more to learn from them."
        )
    with atomic_folder(folder) as temporary:
        for name, pairs in parts.items():
            if pairs:
                write_pairs(set_files(temporary, name, data), pairs)
        begun = {"base": lesson.base, "key": lesson.key, "began": now(), "margin": lesson.margin}
        sizes = {name: len(pairs) for name, pairs in parts.items()}
        write_json(temporary / RECORD, begun | {"corrections": sizes} | lesson.about)
    return newest, folder


def find_old_corpus(run_folder: Path, data_folder: str) -> Path | None:
    """The corpus folder of the first version, None where it is not there or never was."""
    path = run_folder / "best.safetensors"
    corpus_hash = load(path, with_tensors=False)["corpus_hash"]
    if not corpus_hash:
        return None
    return existing_corpus(load_config(path), {corpus_hash}, run_folder, data_folder)


def check_words(words: Sequence[str]) -> None:
    """Raise UserError for settings of a training that cannot be chosen."""
    for word in words:
        key = word.partition("=")[0]
        if key in FIXED:
            raise UserError(f"{key} cannot be given to nmt learn, which sets it itself.")


def training_words(
    lesson: Lesson, number: int, folder: Path, old: Path | None, data_folder: str
) -> list[str]:
    """The words of `nmt train` for a version.

    The numbers are measured with 200 corrections (docs/guides/learn.md).
    """
    base = version_folder(lesson.run_folder, lesson.base) / "best.safetensors"
    config = load_config(base)
    source, target = set_files(folder, LEARNT, config.data)
    size = source.stat().st_size + target.stat().st_size
    pairs = sum(1 for _ in read_lines(source))
    copies = max(3, min(25, 10_000 // pairs))  # of each in the one pass that is trained
    train = [str(folder / LEARNT)]
    weights = [float(copies)]
    tests = list(lesson.tests)
    valid = tests[:1]
    if old is not None:
        train.append(str(old / "train"))
        old_size = sum(file.stat().st_size for file in set_files(old, "train", config.data))
        wanted = copies * size * OLD_SHARE / (1 - OLD_SHARE)
        weights.append(min(1.0, wanted / old_size))
        valid = [str(old / "valid")]
        old_tests = read_report(old)["sets"]
        tests += [str(old / name) for name in old_tests]
        if not old_tests:
            for file, copy in zip(
                set_files(old, "valid", config.data),
                set_files(folder, OLD_VALID, config.data),
                strict=True,
            ):
                shutil.copyfile(file, copy)
            tests.append(str(folder / OLD_VALID))
    if set_files(folder, HELD_OUT, config.data)[0].exists():
        tests.insert(0, str(folder / HELD_OUT))
    settings = {
        "from": base,
        "name": number,
        "run_folder": lesson.run_folder / VERSIONS,
        "data_folder": data_folder,
        "data": "files",
        "data.train": f"[{','.join(train)}]",
        "data.weights": f"[{','.join(map(str, weights))}]",
        "data.valid": f"[{','.join(valid)}]",
        "data.test": f"[{','.join(tests)}]",
        "train.replay": 0,  # the old text is part of data.train
        "train.rehearsal": 1,
        "train.max_epochs": 1,
        "train.validate_every": 10**6,  # at the end alone: no set chooses a checkpoint
        "optim.lr": min(2e-3, presets.further_rate(config.model.hidden_size)),
        "optim.warmup_steps": 10,
    }
    overridden = {word.partition("=")[0] for word in lesson.words}
    words = [f"{key}={value}" for key, value in settings.items() if key not in overridden]
    return [*words, *lesson.words]


def train_version(config: Config, base: Path, old: Path | None, margin: float) -> list[SetChange]:
    """Train a version, and translate its test sets by it and by the one that it starts from."""
    corpus = build_corpus_stage(config)

    def finish(best: Path) -> None:
        learnt = list(read_pairs(*set_files(pipeline.run_folder(config), LEARNT, config.data)))
        valid = corpus_set(config, corpus, "valid").pairs
        if old is None:
            # Not the pairs that choose λ: what these need would be kept better than other text
            known = valid[::2][:REMEMBERED]
            valid = valid[1::2] or valid
        else:
            known = evenly_spaced(set_files(old, "train", config.data), REMEMBERED)
        merge(base, best, known, learnt, valid[:VALIDATED], ALLOWED * margin)

    results = pipeline.train(config, finish, with_old_text=False)
    return [change_of(config, corpus, result) for result in results]


def evenly_spaced(files: Sequence[Path], count: int) -> list[Pair]:
    """At most `count` pairs of two files, at equal distances."""
    source, target = files
    step = max(1, sum(1 for _ in read_lines(source)) // count)
    return list(islice(read_pairs(source, target), 0, count * step, step))


def merge(
    base: Path,
    best: Path,
    known: list[Pair],
    learnt: list[Pair],
    valid: list[Pair],
    allowed: float,
) -> None:
    """Put a mean of old and new weights in the place of the new ones, unless that was done before.

    Each weight is w = (λ F_old w_old + F_new w_new) / (λ F_old + F_new), with the Fisher
    information F_old of `known` pairs and F_new of those that were `learnt` (Matena & Raffel 2022
    §2.2). λ is the smallest of IMPORTANCE with which the validation pairs lose at most `allowed`
    BLEU, or the largest. Deviation: the paper takes each F at the weights that were trained on that
    text, and not both at the old ones.
    """
    payload = load(best)
    if payload["origin"].startswith(MERGED):
        return
    before = load_run([base])
    old_information = information(before, known)
    new_information = information(before, learnt)
    sources, references = zip(*valid, strict=True)
    bleu = before.score(sources, references).bleu
    origin = payload["origin"]
    old = load(base)["model"]
    new = payload["model"]
    candidate = best.with_name("merged.safetensors")
    for importance in IMPORTANCE:
        payload["model"] = merge_weights(old, new, old_information, new_information, importance)
        payload["origin"] = f"{MERGED} {origin} and the version before, λ = {importance}"
        save(candidate, payload)
        after = load_run([candidate]).score(sources, references).bleu
        log.info(
            "Old text counts %d times: BLEU %.2f → %.2f on the validation set",
            importance,
            bleu,
            after,
        )
        if after >= bleu - allowed:
            break
    with report_write_errors(best.parent):
        os.replace(candidate, best)


def information(run: Run, pairs: Sequence[Pair]) -> dict[str, Tensor]:
    """The Fisher information of the weights of a run about the translations of these pairs."""
    translator = run.translator
    ids = translator.tokenizers.encode_pairs(pairs)
    starts = range(0, len(ids), AT_ONCE)
    batches = (translator.collate_pairs(ids[start : start + AT_ONCE]) for start in starts)
    return fisher_information(translator.model, batches)


def merge_weights(
    old: dict[str, Tensor],
    new: dict[str, Tensor],
    old_information: dict[str, Tensor],
    new_information: dict[str, Tensor],
    importance: float,
) -> dict[str, Tensor]:
    """The mean of `merge`; what is no weight of the model is the new one.

    A weight that matters to neither text keeps its old value.
    """
    shared = shared_names(new)
    means = dict(new)
    for name in old_information:
        of_new = new_information[name].cpu()
        total = of_new + importance * old_information[name].cpu()
        share = torch.where(total > 0, of_new / total, 0)
        means[name] = torch.lerp(old[name], new[name], share.to(new[name].dtype))
    return {name: means[shared.get(name, name)] for name in new}


def change_of(config: Config, corpus: Path, result: Result) -> SetChange:
    """The change of a set whose translations by both versions are in the folder of the new one."""
    test_set = corpus_set(config, corpus, result.name)
    before = pipeline.run_folder(config) / "evaluate" / f"{result.name}-before" / "hyp"
    [references] = test_set.reference_lines
    return SetChange(
        result.name,
        tagged_language(test_set.sources, config.data),
        test_set.sources,
        references,
        list(read_lines(before)),
        result.hypotheses,
    )


@dataclass
class Outcome:
    """A version that is trained and judged."""

    number: int
    folder: Path
    record: dict[str, Any]
    decision: Decision
    corrections: SetChange | None
    others: list[SetChange]

    @property
    def is_better(self) -> bool:
        return self.decision.kind == ACCEPTED


def learn(lesson: Lesson, old: Path | None, data_folder: str) -> Outcome:
    """Train and judge a version; it is not current yet (`settle`). Raises UserError."""
    base = version_folder(lesson.run_folder, lesson.base) / "best.safetensors"
    number, folder = open_version(lesson, load_config(base).data)
    words = training_words(lesson, number, folder, old, data_folder)
    (config,) = pipeline.compose(words)
    changes = train_version(config, base, old, lesson.margin)
    corrections = None
    others = []
    for change in changes:
        if change.name == HELD_OUT:
            corrections = change
        else:
            others.append(change)
    decision = decide(corrections, others, lesson.margin)
    record = read_record(folder) or {}
    record |= {
        "sentence": decision.sentence,
        "scores": {change.name: change.scores for change in changes},
        "decision": decision.kind,
        "ended": now(),
    }
    return Outcome(number, folder, record, decision, corrections, others)


def settle(outcome: Outcome, run_folder: Path) -> None:
    """Keep the record of a version, then make it current if it is better."""
    write_record(outcome.folder, outcome.record)
    if outcome.is_better:
        set_current(run_folder, outcome.number)


def settle_newest(run_folder: Path, current: int) -> int:
    """Make the newest version current if a kill came between its record and that.

    Returns the number of the current version.
    """
    newest = version_numbers(run_folder)[-1]
    record = read_record(version_folder(run_folder, newest)) if newest > 1 else None
    is_waiting = record is not None and record.get("decision") == ACCEPTED
    if record is None or not is_waiting or record["base"] != current or "left" in record:
        return current
    set_current(run_folder, newest)
    log.info("Version %d, which was found to be better, is current now.", newest)
    return newest

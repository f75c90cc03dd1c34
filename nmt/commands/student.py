"""nmt student: a small model that learns from the translations of a large one, in one command.

1. The stage `distilled`: source text with the teacher's translations (nmt/runs/distillation.py).
2. The training of the student, as by `nmt train`.
3. The comparison of both on the test sets, in runs/NAME/student.
4. The exports.

Each is found again by the same command, so that it goes on after an interruption.
"""

import argparse
import logging
import sys
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from nmt.commands.export import cached_export, make_export
from nmt.commands.interface import compose, load
from nmt.config.compose import compose_all
from nmt.config.schema import DataConfig
from nmt.convert.formats import FORMATS
from nmt.corpus.corpus_folder import read_report, set_files
from nmt.corpus.files import report_write_errors
from nmt.errors import UserError, choose
from nmt.runs import pipeline
from nmt.runs.comparison import compare_runs, write_report
from nmt.runs.distillation import (
    DISTILLED,
    build_distilled_stage,
    translate_by_command,
    translate_by_run,
)
from nmt.runs.folders import existing_corpus, run_folder
from nmt.runs.results import check_writable
from nmt.runs.run import Run
from nmt.runs.scoring import TestSet, corpus_hashes, corpus_set

log = logging.getLogger("nmt")
TIMED = 200  # sentences by which teacher and student are timed, in turn
ROUNDS = 2
SAMPLES = 1000  # of the test sets' sentences, for p


@dataclass
class Task:
    """What is known of the task before the student is trained."""

    source: str
    target: str
    teacher: Run | None  # None: a program
    corpus: Path | None  # that the teacher was trained on, if it is there
    text: list[str]  # files of source sentences


def run(options: argparse.Namespace) -> int:
    """Make the student, and print the comparison with its teacher as Markdown."""
    words = [word for word in options.overrides if "=" in word]
    names = [word for word in options.overrides if "=" not in word]
    if len(names) > 1:
        raise UserError(f"Give one teacher, not {len(names)}; RUN,RUN is an ensemble.")
    options.teacher = names[0] if names else None
    given = dict(word.partition("=")[::2] for word in words)
    for name in options.export:
        choose("format", name, FORMATS)
    task = open_task(options, given)
    data_folder = Path(given.get("data_folder", "data"))
    if task.teacher is not None and given.get("name") == task.teacher.name:
        raise UserError(f"name={task.teacher.name} is the teacher; give the student another name.")
    if task.teacher is not None:
        translate = partial(translate_by_run, task.teacher)
        about: dict[str, Any] = {
            "weights": task.teacher.weights,
            "decode": task.teacher.provenance["decode"],
            "computed": task.teacher.provenance["computed"],
        }
        name = task.teacher.name
    else:
        translate = partial(translate_by_command, options.command_line)
        about = {"command": options.command_line}
        name = "command"
    data = source_text(task, words)
    distilled = build_distilled_stage(data, about, translate, data_folder)
    defaults = {"name": f"{name}-student"} | set_words(task) | model_words(task.teacher, given)
    train = f"data.train={distilled / DISTILLED}"
    if "data.train" in given:
        own = given["data.train"].strip("[]")
        train = f"data.train=[{distilled / DISTILLED},{own}]"
    words = [word for word in words if not word.startswith("data.train=")]
    words += [f"{key}={value}" for key, value in defaults.items() if key not in given]
    words += ["data=files", train]
    (config,) = compose(words)
    pipeline.train(config)
    student = load(str(run_folder(config)))
    sets = test_sets(task, student, is_given="data.test" in given)
    if sets:
        report(task.teacher, student, sets, student.folder / "student")
    for format in options.export:
        print(cached_export(student, make_export(student, format), with_scores=True))
    return 0


def open_task(options: argparse.Namespace, given: dict[str, str]) -> Task:
    """The teacher, the languages and the text; raises UserError for what is missing."""
    source = given.get("data.source")
    target = given.get("data.target")
    text = list(options.text)
    if options.command_line:
        if options.teacher:
            raise UserError("Give a run or --command, not both, as the teacher.")
        if not (source and target and text):
            raise UserError("--command needs data.source, data.target and --text.")
        return Task(source, target, None, None, text)
    if not options.teacher:
        raise UserError("Give a run as the teacher, or --command 'PROGRAM'.")
    teacher = load(
        options.teacher,
        run_folder=given.get("run_folder", "runs"),
        source=source,
        target=target,
    ).in_direction(source, target)
    data = teacher.config.data
    corpus = None
    if "direction" not in teacher.provenance["decode"]:  # whose text has all directions
        corpus = existing_corpus(teacher.config, corpus_hashes(teacher), teacher.folder)
    if corpus is not None:
        text.insert(0, str(set_files(corpus, "train", data)[0]))
    if not text:
        raise UserError(
            f"The text that {teacher.name} was trained on is not here; give --text FILE, text in "
            f"{data.source}."
        )
    return Task(data.source, data.target, teacher, corpus, text)


def source_text(task: Task, words: list[str]) -> DataConfig:
    """The configuration of the text that the teacher translates, with the data.KEY of `words`."""
    given = [word for word in words if word.startswith("data.")]
    languages = [f"data.source={task.source}", f"data.target={task.target}"]
    (config,) = compose_all(["data=files", "data.train=text", *given, *languages], multirun=False)
    return replace(config.data, mono=task.text)


def set_words(task: Task) -> dict[str, Any]:
    """Languages, and the validation and test sets of the teacher where they are there."""
    words: dict[str, Any] = {"data.source": task.source, "data.target": task.target}
    if task.corpus is not None:
        tests = [str(task.corpus / name) for name in read_report(task.corpus)["sets"]]
        words["data.valid"] = task.corpus / "valid"
        words["data.test"] = f"[{','.join(tests)}]" if tests else "null"
    return words


def model_words(teacher: Run | None, given: dict[str, str]) -> dict[str, Any]:
    """A Transformer of half the teacher's width and half its decoder layers, if none is given."""
    if "model" in given or "+experiment" in given or teacher is None:
        return {}
    model = teacher.config.model
    words: dict[str, Any] = {"model": "auto", "tokenizer": "auto"}
    if model.kind != "transformer":
        return words
    return words | {
        "model.hidden_size": model.hidden_size // 2,
        "model.num_heads": max(1, model.num_heads // 2),
        "model.feed_forward_size": model.feed_forward_size // 2,
        "model.encoder_layers": model.encoder_layers,
        "model.decoder_layers": max(1, model.decoder_layers // 2),
    }


def test_sets(task: Task, student: Run, is_given: bool) -> list[TestSet]:
    """The teacher's test sets, with their gold links, or those that were given for the student."""
    config = student.config
    corpus = existing_corpus(config, corpus_hashes(student), student.folder)
    if task.teacher is not None and task.corpus is not None and not is_given:
        config = task.teacher.config
        corpus = task.corpus
    if corpus is None:
        return []
    return [corpus_set(config, corpus, name) for name in read_report(corpus)["sets"]]


def report(teacher: Run | None, student: Run, sets: list[TestSet], folder: Path) -> None:
    """Print the tables of both, and say how much quality is kept and how much is gained."""
    runs = {student.name: student}
    if teacher is not None:
        runs = {teacher.name: teacher} | runs
    with report_write_errors(folder):
        check_writable(folder)
    comparisons, examples = compare_runs(runs, sets, [], SAMPLES, None, [])
    sys.stdout.write(write_report(runs, comparisons, examples, folder))
    if teacher is None:
        return
    before, after = seconds_of([teacher, student], sets[0].sources[:TIMED])
    for comparison in comparisons:
        scores = [comparison.scored[run.name].result.bleu for run in (teacher, student)]
        log.info(
            "%s keeps %.1f %% of the BLEU of %s on %s",
            student.name,
            100 * scores[1] / scores[0] if scores[0] else 0,
            teacher.name,
            comparison.test_set.name,
        )
    log.info(
        "%s translates %.2g times as many sentences a second, with %.3g of %.3g million parameters",
        student.name,
        before / after,
        student.parameters / 1e6,
        teacher.parameters / 1e6,
    )


def seconds_of(runs: list[Run], sentences: list[str]) -> list[float]:
    """The least time in which each run translates these sentences; the runs take turns."""
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(ROUNDS):
        for run, of_run in zip(runs, times, strict=True):
            began = time.perf_counter()
            run.translate(sentences)
            of_run.append(time.perf_counter() - began)
    return [min(of_run) for of_run in times]

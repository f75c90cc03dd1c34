"""nmt student: a small model that learns from the translations of a large one, in one command.

1. The stage `distilled`: source text with the teacher's translations (nmt/runs/distillation.py). A
   student that begins with its teacher's weights needs them of further text alone.
2. The training of the student, as by `nmt train`.
3. The comparison of both on the test sets, in runs/NAME/student.
4. The exports.

Each is found again by the same command, so that it goes on after an interruption.
"""

import argparse
import logging
import re
import sys
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from nmt.commands.export import cached_export, make_export
from nmt.commands.interface import check_format, compose, load
from nmt.config.compose import compose_all
from nmt.config.keys import check_words
from nmt.config.presets import for_every_corpus
from nmt.config.schema import Config, DataConfig
from nmt.config.transformer import TransformerConfig
from nmt.convert.formats import FORMATS
from nmt.corpus.corpus_folder import read_report, set_files
from nmt.corpus.files import report_write_errors
from nmt.corpus.parallel_text import read_pairs
from nmt.errors import UserError, choose
from nmt.models.pruning import can_prune
from nmt.runs import pipeline
from nmt.runs.comparison import compare_runs, write_report
from nmt.runs.distillation import (
    DISTILLED,
    Teacher,
    build_distilled_stage,
    pruned_teacher,
    translate_by_command,
    translate_by_run,
)
from nmt.runs.folders import run_folder
from nmt.runs.results import check_writable
from nmt.runs.run import Run
from nmt.runs.scoring import TestSet, corpus_of, corpus_set
from nmt.training.restore import Parent

log = logging.getLogger("nmt")
TIMED = 1000  # sentences by which teacher and student are timed, in turn
ROUNDS = 2
SAMPLES = 1000  # of the test sets' sentences, for p
PRUNED_RATE = 1 / 3  # the learning rate of weights cut out of the teacher's, beside random ones
# The widest that is trained with Muon: on a CPU, its matrix products take too long in wider models
MUON_WIDTH = 64


@dataclass
class Task:
    """What is known before the student is trained."""

    name: str  # of the teacher
    source: str
    target: str
    config: Config | None  # of the teacher; None: it is a program
    corpus: Path | None  # that it was trained on, if it is there


def run(options: argparse.Namespace) -> int:
    """Make the student, and print the comparison with its teacher as Markdown."""
    words = [word for word in options.overrides if "=" in word]
    names = [word for word in options.overrides if "=" not in word]
    check_options(options, names)
    check_words(words)
    given = dict(word.split("=", 1) for word in words)

    # What is known of the student before the work of the teacher, who is not in memory while the
    # student is trained
    teacher: Run | None = None
    if names:
        teacher = open_teacher(names[0], given)
        task = task_of(teacher, options.text)
        if given.get("name") == task.name:
            raise UserError(f"name={task.name} is the teacher; give the student another name.")
        provenance = teacher.provenance
        about = {
            "weights": teacher.weights,
            "decode": provenance["decode"],
            "computed": provenance["computed"],
        }
        translate: Teacher = partial(translate_by_run, teacher)
    else:
        task = task_of_program(options.text, given)
        about = {"command": options.command_line}
        translate = partial(translate_by_command, options.command_line)
    student_words = training_words(task, words, given)
    if options.export:
        student_words.append(f"for={options.export[0]}")
    (planned,) = compose(  # its text is not there yet
        [*student_words, train_word([DISTILLED], given)],
        training=False,
        suggest=lambda config, given: for_every_corpus(),
    )
    for format in options.export:
        check_format(planned, format)
    is_pruned = teacher is not None and begins_pruned(teacher, planned, given)

    # Distil. A student with its teacher's weights learns more from the teacher's own pairs than
    # from the teacher's translations of them.
    prefixes = []  # of the text that the student learns
    text = options.text
    if task.corpus is not None and is_pruned:
        prefixes.append(f"{task.corpus / 'train'}")
    elif task.corpus is not None:
        text = [str(set_files(task.corpus, "train", planned.data)[0]), *text]
    if text:
        data = source_text(task, text, words)
        distilled = build_distilled_stage(data, about, translate, Path(planned.data_folder))
        prefixes.append(f"{distilled / DISTILLED}")
    teacher = None
    del translate

    # Train
    (config,) = compose([*student_words, train_word(prefixes, given)])
    start = None
    if is_pruned:
        config, start = pruned_start(open_teacher(names[0], given), config, prefixes[0], given)
    pipeline.train(config, start=start)

    # Compare, and export
    student = load(str(run_folder(config)))
    sets = test_sets(task, student, is_given="data.test" in given)
    if sets:
        teacher = open_teacher(names[0], given) if names else None
        report(teacher, student, sets, student.folder / "student")
    for format in options.export:
        print(cached_export(student, make_export(student, format), with_scores=True))
    return 0


def check_options(options: argparse.Namespace, names: list[str]) -> None:
    """Raise UserError for other than one teacher, and for a format that cannot be written here."""
    if len(names) > 1:
        raise UserError(f"Give one teacher, not {len(names)}; RUN,RUN is an ensemble.")
    if bool(names) == bool(options.command_line):
        raise UserError("Give a run as the teacher, or --command 'PROGRAM'; one of them.")
    if names == ["latest"]:
        raise UserError(
            "latest would be the student as soon as its training has begun; give the name of the "
            "teacher."
        )
    for format in options.export:
        exporter = choose("format", format, FORMATS).load()
        exporter.check_packages()
        exporter.check_downloads()


def open_teacher(name: str, given: dict[str, str]) -> Run:
    """The teacher in the direction that is given; raises UserError."""
    source = given.get("data.source")
    target = given.get("data.target")
    folder = given.get("run_folder", "runs")
    teacher = load(name, run_folder=folder, source=source, target=target)
    return teacher.in_direction(source, target)


def begins_pruned(teacher: Run, config: Config, given: dict[str, str]) -> bool:
    """Whether a student of this configuration begins with weights of its teacher."""
    # An experiment may have one, too
    has_own_tokenizer = any(key.startswith(("tokenizer", "+experiment")) for key in given)
    is_multilingual = "direction" in teacher.provenance["decode"]  # whose sources have tags
    if has_own_tokenizer or is_multilingual:
        return False
    return can_prune(teacher.config.model, config.model)


def pruned_start(
    teacher: Run, config: Config, prefix: str, given: dict[str, str]
) -> tuple[Config, Parent]:
    """What a student is trained with that begins with weights of its teacher, and the weights.

    prefix: of text by which it is decided what of the teacher is kept.
    """
    pairs = read_pairs(*set_files(Path(prefix).parent, Path(prefix).name, config.data))
    config = replace(config, tokenizer=teacher.config.tokenizer)
    if not {"optim", "optim.lr"} & given.keys():
        config = replace(config, optim=replace(config.optim, lr=config.optim.lr * PRUNED_RATE))
    return config, pruned_teacher(teacher, config, pairs)


def task_of(teacher: Run, text: list[str]) -> Task:
    """The task with a run as the teacher; raises UserError if there is no text."""
    config = teacher.config
    data = config.data
    corpus = None
    if "direction" not in teacher.provenance["decode"]:  # whose text has all directions
        corpus = corpus_of(teacher)
    if corpus is None and not text:
        raise UserError(
            f"The text that {teacher.name} was trained on is not here; give --text FILE, text in "
            f"{data.source}."
        )
    return Task(teacher.name, data.source, data.target, config, corpus)


def task_of_program(text: list[str], given: dict[str, str]) -> Task:
    """The task with a program as the teacher; raises UserError for what is not given."""
    source = given.get("data.source")
    target = given.get("data.target")
    if not (source and target and text):
        raise UserError("--command needs data.source, data.target and --text.")
    return Task("command", source, target, None, None)


def source_text(task: Task, text: list[str], words: list[str]) -> DataConfig:
    """The configuration of the files that the teacher translates, with the data.KEY of `words`."""
    given = [word for word in words if word.startswith("data.")]
    languages = [f"data.source={task.source}", f"data.target={task.target}"]
    (config,) = compose_all(["data=files", "data.train=text", *given, *languages])
    return replace(config.data, mono=text)


def training_words(task: Task, words: list[str], given: dict[str, str]) -> list[str]:
    """The words of the student's training but its text: those given, and what they leave open."""
    # Of a run such as office@2, whose name is not one that can be given
    name = re.sub(r"[^A-Za-z0-9_.+-]+", "-", task.name).strip("-.")
    name = f"{name}-student" if name else "student"
    chosen = {"name": name, **set_words(task), **model_words(task.config, given)}
    if "+experiment" not in given:
        chosen["train.label_smoothing"] = 0  # a teacher's translations vary less than people's
    if "decode" not in given:
        chosen["decode.beam"] = 1  # nearly as good as a beam for a student (Kim & Rush 2016 §5)
    words = [word for word in words if not word.startswith("data.train=")]
    words += [f"{key}={value}" for key, value in chosen.items() if key not in given]
    return [*words, "data=files"]


def train_word(prefixes: list[str], given: dict[str, str]) -> str:
    """The word for the student's text: pairs of the teacher, and the user's own pairs."""
    if "data.train" in given:
        prefixes = [*prefixes, given["data.train"].strip("[]")]
    if len(prefixes) == 1:
        return f"data.train={prefixes[0]}"
    return f"data.train=[{','.join(prefixes)}]"


def set_words(task: Task) -> dict[str, Any]:
    """Languages, and the validation and test sets of the teacher where they are there."""
    words: dict[str, Any] = {"data.source": task.source, "data.target": task.target}
    if task.corpus is not None:
        tests = [str(task.corpus / name) for name in read_report(task.corpus)["sets"]]
        words["data.valid"] = task.corpus / "valid"
        words["data.test"] = f"[{','.join(tests)}]" if tests else "null"
    return words


def model_words(teacher: Config | None, given: dict[str, str]) -> dict[str, Any]:
    """A Transformer of half the teacher's width and half its decoder layers, if none is given.

    Of an odd number of layers it has the larger half.
    """
    if "model" in given or "+experiment" in given or teacher is None:
        return {}
    model = teacher.model
    words: dict[str, Any] = {"model": "auto", "tokenizer": "auto"}
    if not isinstance(model, TransformerConfig):
        return words
    width = model.hidden_size // 2
    if width <= MUON_WIDTH and "optim" not in given:
        words["optim.algorithm"] = "muon"
    return words | {
        "model.hidden_size": width,
        "model.num_heads": max(1, model.num_heads // 2),
        "model.feed_forward_size": model.feed_forward_size // 2,
        "model.encoder_layers": model.encoder_layers,
        "model.decoder_layers": (model.decoder_layers + 1) // 2,
    }


def test_sets(task: Task, student: Run, is_given: bool) -> list[TestSet]:
    """The teacher's test sets, with their gold links, or those that were given for the student."""
    config = student.config
    corpus = corpus_of(student)
    if task.config is not None and task.corpus is not None and not is_given:
        config = task.config
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
    comparisons, examples = compare_runs(runs, sets, [], SAMPLES, [])
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

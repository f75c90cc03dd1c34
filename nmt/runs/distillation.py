"""What a student learns from: text that its teacher has translated, and the teacher's weights.

Sequence-level knowledge distillation (Kim & Rush 2016 §3.2). The teacher is a run, or any program
that answers each line of its stdin with one line. Its translations are kept chunk by chunk, so that
an interrupted work goes on after the last chunk that was done.
"""

import logging
import shlex
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nmt.config.schema import Config, DataConfig
from nmt.corpus.checksums import cached_digests, json_digest, read_json, write_json
from nmt.corpus.corpus_folder import set_files
from nmt.corpus.line_chunks import text_chunks
from nmt.corpus.monolingual import find_files, read_sentences
from nmt.corpus.parallel_text import LineWriter
from nmt.corpus.split import SideSet
from nmt.data.tokenizer import BOS, EOS
from nmt.errors import UserError
from nmt.evaluate.loops import is_loop
from nmt.models.ensemble import Ensemble
from nmt.models.pruning import prune
from nmt.runs.run import Run
from nmt.runs.stages import build_translated_stage
from nmt.training.restore import Parent, new_model
from nmt.view.progress import Progress

log = logging.getLogger("nmt")
DISTILLED = "distilled"
PRUNING_PAIRS = 500  # by which it is decided what a student keeps of its teacher
# Chunks of lines → the translations of each chunk
Teacher = Callable[[Iterator[list[str]]], Iterator[list[str]]]


def translate_by_run(run: Run, chunks: Iterator[list[str]]) -> Iterator[list[str]]:
    """The translations of each chunk by a run."""
    for lines in chunks:
        yield [translation.text for translation in run.translator.translate_chunk(lines)]


def translate_by_command(command: str, chunks: Iterator[list[str]]) -> Iterator[list[str]]:
    """The translations of each chunk by a program, which is started once.

    It gets all lines, and may answer them at once or at its end. Raises UserError where it cannot
    be started, fails, or does not write a line for each line.
    """
    sizes: list[int] = []  # of the chunks that were sent
    try:
        process = subprocess.Popen(
            shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
    except (OSError, ValueError, IndexError) as error:  # IndexError: no word
        raise UserError(f"--command '{command}' cannot be started: {error}.") from None
    assert process.stdin is not None and process.stdout is not None
    stdin = process.stdin

    def send() -> None:
        with suppress(BrokenPipeError), stdin:
            for lines in chunks:
                sizes.append(len(lines))
                stdin.write("".join(f"{line}\n" for line in lines).encode())
                stdin.flush()

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    answered = 0  # chunks
    answers: list[str] = []
    with process:
        try:
            for raw in process.stdout:
                answers.append(raw.decode().rstrip("\r\n"))
                # A line comes after it was asked for, so the size of its chunk is known
                if answered < len(sizes) and len(answers) == sizes[answered]:
                    yield answers
                    answered += 1
                    answers = []
            code = process.wait()
        except UnicodeDecodeError:
            raise UserError(
                f"--command '{command}' wrote a line that is not UTF-8; it must write UTF-8."
            ) from None
        finally:
            process.kill()
    sender.join()
    if code or answers or answered < len(sizes):
        lines = sum(sizes)
        written = sum(sizes[:answered]) + len(answers)
        raise UserError(
            f"--command '{command}' ended with code {code} and wrote {written:,} lines for "
            f"{lines:,} lines; it must write one line for each."
        )


def build_distilled_stage(
    data: DataConfig, about: dict[str, Any], teacher: Teacher, root: Path
) -> Path:
    """The folder with distilled.SOURCE and distilled.TARGET; raises UserError.

    data.mono: the files of source sentences. `about`: what else the translations depend on.
    """
    files = [file.path for file in find_files(as_source_text(data))]
    recipe = about | {
        "source": data.source,
        "target": data.target,
        "max_characters": data.max_characters,
        "text": cached_digests(files, root / "digests.json"),
    }
    return build_translated_stage(
        root, DISTILLED, recipe, partial(write_translations, data, teacher)
    )


def as_source_text(data: DataConfig) -> DataConfig:
    """The same, with the text of data.mono in the source language."""
    return replace(data, target=data.source)


def write_translations(data: DataConfig, teacher: Teacher, parts: Path, folder: Path) -> None:
    """Write the pairs, and say how many lines became none; raises UserError where none is left."""
    dropped = Counter[str]()

    def sentences(dropped: Counter[str]) -> Iterator[str]:
        return read_sentences(as_source_text(data), SideSet(), dropped)

    total = sum(1 for _ in sentences(dropped))
    written = 0
    source_file, target_file = set_files(folder, DISTILLED, data)
    with (
        LineWriter(source_file) as sources,
        LineWriter(target_file) as targets,
        Progress(total, "line", "translating by the teacher") as bar,
    ):
        for lines, translations in translated(lambda: sentences(Counter()), teacher, parts):
            for line, translation in zip(lines, translations, strict=True):
                if not translation.strip():
                    dropped["no translation"] += 1
                elif is_loop(line, translation):
                    dropped["translation loops"] += 1
                else:
                    sources.write(line)
                    targets.write(translation)
                    written += 1
            bar.update(len(lines))
    log.info("%s lines have a translation to learn from", f"{written:,}")
    for reason, number in dropped.most_common():
        log.info("  dropped %10s  %s", f"{number:,}", reason)
    if not written:
        raise UserError("The teacher has translated no line of the text.")


def translated(
    sentences: Callable[[], Iterable[str]], teacher: Teacher, parts: Path
) -> Iterator[tuple[list[str], list[str]]]:
    """Chunks of sentences with their translations, which are kept in `parts`."""
    parts.mkdir(parents=True, exist_ok=True)
    chunks = text_chunks(sentences())
    done = 0
    for lines in chunks:
        part = read_json(part_path(parts, done))
        if part is None or part["lines"] != json_digest(lines):
            break
        done += 1
        yield lines, part["translations"]

    rest = islice(text_chunks(sentences()), done, None)
    answers = teacher(islice(text_chunks(sentences()), done, None))
    for number, (lines, translations) in enumerate(zip(rest, answers, strict=True), done):
        part = {"lines": json_digest(lines), "translations": translations}
        write_json(part_path(parts, number), part)
        yield lines, translations


def part_path(parts: Path, number: int) -> Path:
    return parts / f"{number}.json"


def pruned_teacher(teacher: Run, config: Config, pairs: Iterable[tuple[str, str]]) -> Parent:
    """The teacher with the weights of a student that is cut out of it.

    config: of the student. The first PRUNING_PAIRS of the pairs decide what is kept.
    """
    tokenizers = teacher.translator.tokenizers
    model: Any = teacher.translator.model
    if isinstance(model, Ensemble):
        model = model.models[0]
    student: Any = new_model(config, tokenizers).eval()

    def encoded() -> Iterator[tuple[Tensor, Tensor]]:
        for source, target in islice(pairs, PRUNING_PAIRS):
            source_ids = [*tokenizers.source.encode(source), EOS]
            target_ids = [BOS, *tokenizers.target.encode(target)]
            yield torch.tensor([source_ids]), torch.tensor([target_ids])

    prune(model.cpu(), student, encoded())
    log.info("The student begins with weights of its teacher, and has the teacher's tokenizer.")
    of_teacher = teacher.provenance["models"][0]
    provenance = {name: of_teacher[name] for name in ("checkpoint", "weights")}
    path = teacher.folder / "best.safetensors"
    return Parent(path, config, tokenizers, student.state_dict(), "", provenance)

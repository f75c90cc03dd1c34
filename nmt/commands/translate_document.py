"""nmt translate --document FILE, --documents IN… OUT: files with their markup.

A file is written when its translation is complete.
"""

from __future__ import annotations

import argparse
import glob
import hashlib
import json
import logging
import os
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.audit.faults import unlike_pairs
from nmt.commands.engine import open_directed
from nmt.commands.options import with_home
from nmt.commands.output import (
    check_can_be_written,
    check_not_input,
    report_output_errors,
    search_settings,
    warn_of_replacing,
)
from nmt.corpus.files import open_atomic, write_atomic
from nmt.corpus.languages import base_code
from nmt.decode.quality import REVIEW
from nmt.documents.csv_files import Languages
from nmt.documents.formats import (
    EXTENSIONS,
    check_extension,
    check_languages,
    instead,
    open_document,
    read_document,
)
from nmt.documents.memory import REUSED, TranslationMemory
from nmt.documents.report import TO_REVIEW, count_words, csv_report, html_report
from nmt.documents.segment import Document
from nmt.documents.translation import CHANGED, ModelTranslator, Row, translate_document
from nmt.documents.word_weights import WeightReader
from nmt.errors import UserError
from nmt.runs.results import check_writable
from nmt.runs.run import Run
from nmt.view.progress import Progress

log = logging.getLogger("nmt")
SETTINGS = (
    "retranslate",
    "columns",
    "engine",
    "quantization",
    "layer",
    "head",
    "method",
    "decoder_step",
    "mark_doubtful",
    "min_chrf",
)
RECORD = ".nmt-documents.jsonl"  # in a folder of translations
REPORT = "nmt-report"  # .csv and .html, in a folder of translations
Figures = dict[str, int]  # of a document in the report


def run(options: argparse.Namespace) -> int:
    """Translate a document; what is wrong in it is said before the model is loaded."""
    source, _, target = options.columns.partition(":")
    if options.columns and not (source and target):
        raise UserError(
            f"--columns {options.columns} is not FROM:TO, such as 2:3 or german:english."
        )
    if options.documents:
        return run_all(options)
    check_not_input(options.output, options.document)
    path = Path(options.document)
    if options.output:
        check_extension(options.output, path)
    document = None
    kind = EXTENSIONS.get(path.suffix.lower())
    if options.columns or kind is None or not kind.has_columns:  # else the run tells the columns
        document = open_document(path, options.retranslate, options.columns)
    if options.output:
        check_can_be_written(options.output)
        warn_of_replacing(options.output)
    translator = DocumentTranslator.open(options)
    if document is None:
        document = open_document(path, options.retranslate, languages=translator.languages)
    check_languages(path, document, translator.languages)
    counts = translator.translate(document, path.name)
    data = document.write()
    if options.output is None:
        sys.stdout.buffer.write(data)
    else:
        with report_output_errors(options.output), open_atomic(Path(options.output)) as file:
            file.write(data)
    log.info("%s: %s", path.name, report(counts))
    return 0


def run_all(options: argparse.Namespace) -> int:
    """Translate documents into a folder; what is there stays, what fails is named at the end."""
    folder, documents = find_documents(options)
    with report_output_errors(folder, "OUT"):
        check_writable(folder)
    translator = DocumentTranslator.open(options)
    settings = {name: getattr(options, name) for name in SETTINGS}
    settings |= search_settings(translator.run)
    settings["memory"] = digest(Path(options.memory).read_bytes()) if options.memory else None
    record = Record(folder, settings)
    total = Counter[str]()
    failures: list[str] = []
    already_translated = 0
    with Progress(len(documents), "document", f"translating into {folder}") as bar:
        for path, name in documents.items():
            try:
                counts = translate_into(record, path, name, translator)
                already_translated += counts is None
                total += counts or Counter()
            except UserError as error:
                failures.append(str(error))
            bar.update(1)
    write_report(record, documents.values(), options.memory)
    log.info(
        "%d documents translated, %d were there already, %d failed: %s",
        len(documents) - already_translated - len(failures),
        already_translated,
        len(failures),
        report(total),
    )
    for reason in failures:
        log.error("%s", reason)
    return 2 if failures else 0


def write_report(record: Record, names: Iterable[str], memory: str | None) -> None:
    """Write what was translated as .csv and .html into the folder; raises UserError."""
    figures = {name: record.figures[name] for name in names if name in record.figures}
    made_with = f"Translation memory: {memory or 'none'}."
    for ending, text in ((".csv", csv_report(figures)), (".html", html_report(figures, made_with))):
        path = record.folder / f"{REPORT}{ending}"
        with report_output_errors(path, "The report"):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, text)
    log.info("Words and matches of each document: %s", record.folder / f"{REPORT}.html")


def find_documents(options: argparse.Namespace) -> tuple[Path, dict[Path, str]]:
    """The folder for translations, and each document with its path below their common folder.

    Hidden files, and those in the folder for translations, are left out. Raises UserError.
    """
    words = [*options.documents, *map(with_home, options.sentences)]
    folder = Path(options.output or words.pop())
    if not words or (folder.exists() and not folder.is_dir()):
        raise UserError(
            f"--documents IN… OUT: OUT is a folder for the translations, which {folder} cannot be."
        )
    roots: list[Path] = []
    for word in words:
        roots += matching_paths(word)
    base = Path(os.path.commonpath([root if root.is_dir() else root.parent for root in roots]))
    output = Path(os.path.abspath(folder))
    if output.resolve() == base.resolve():
        raise UserError(
            f"--documents IN… OUT: {folder} has the documents; give another folder for the "
            "translations."
        )
    documents: dict[Path, str] = {}
    for root in roots:
        paths = sorted(filter(Path.is_file, root.rglob("*"))) if root.is_dir() else [root]
        for path in paths:
            is_hidden = any(part.startswith(".") for part in path.relative_to(root).parts)
            is_translation = output.is_relative_to(base) and path.is_relative_to(output)
            if not is_hidden and not is_translation:
                documents[path] = str(path.relative_to(base))
    if not documents:
        raise UserError(f"--documents: there is no document in {base}.")
    return folder, documents


def matching_paths(word: str) -> list[Path]:
    """The file or folder of this name, or all that match the pattern; raises UserError for none."""
    names = [word] if os.path.exists(word) else sorted(glob.glob(word, recursive=True))
    if not names:
        raise UserError(f"--documents: there is no file or folder {word}.")
    return [Path(os.path.abspath(name)) for name in names]


def translate_into(
    record: Record, path: Path, name: str, translator: DocumentTranslator
) -> Counter[str] | None:
    """Translate a document into the folder of a record; None if that was done before.

    Raises UserError.
    """
    extension = path.suffix.lower()
    if extension not in EXTENSIONS:
        raise UserError(f"{path} is of no known format; {instead(extension)}.")
    try:
        data = path.read_bytes()
        if record.has(name, data):
            return None
    except OSError as error:
        raise UserError(f"{error.filename} cannot be read: {error.strerror or error}.") from None
    options = translator.options
    retranslate = options.retranslate and EXTENSIONS[extension].has_translations
    document = read_document(path, data, retranslate, options.columns, translator.languages)
    figures = Counter[str]()
    counts = translator.translate(document, name, figures)
    record.write(name, data, document.write(), figures)
    log.info("%s: %s", name, report(counts))
    return counts


@dataclass(frozen=True)
class DocumentTranslator:
    """A run that translates documents as the options say."""

    run: Run
    options: argparse.Namespace
    reader: WeightReader | None  # of the weights by which tags are put back; None: no attention
    memory: TranslationMemory | None

    @classmethod
    def open(cls, options: argparse.Namespace) -> DocumentTranslator:
        """Load the run; raises UserError where its direction has to be chosen."""
        run = open_directed(options, None).in_direction()
        reader = make_reader(options, run)
        memory = None
        if options.memory:
            memory = TranslationMemory.open(Path(options.memory), run.config.data, unlike_pairs)
        return cls(run, options, reader, memory)

    @property
    def languages(self) -> Languages:
        return self.run.config.data.source, self.run.config.data.target

    def translate(
        self, document: Document, name: str, figures: Counter[str] | None = None
    ) -> Counter[str]:
        """Set the translations of a document; returns how many sentences became what.

        `figures`: the numbers of the report are added to it.
        """
        language = base_code(self.run.config.data.source)
        document.language = self.run.config.data.target
        finds_unsure = document.marks_unsure and "calibration" in self.run.provenance
        names_unsure = self.options.mark_doubtful or finds_unsure
        least = REVIEW if self.options.min_chrf is None else self.options.min_chrf
        translator = ModelTranslator(
            self.run.translator,
            self.reader,
            memory=self.memory,
            finds_unsure=True,
            names_unsure=names_unsure,
            writes_marks=names_unsure and not document.marks_unsure,
            min_chrf=least,
        )
        if figures is None:
            return translate_document(document, language, translator, name)

        def count(rows: Sequence[Row]) -> None:
            figures.update(count_words(rows, self.memory, self.run.translator.terms))

        counts = translate_document(document, language, translator, name, count)
        figures[TO_REVIEW] = counts["unsure"]
        return counts


def make_reader(options: argparse.Namespace, run: Run) -> WeightReader | None:
    """Which weights tags are put back by: those of the options, or the best ones.

    None without attention.
    """
    chosen = (options.layer, options.head, options.decoder_step, options.method)
    if chosen != (None, None, None, "mean"):
        return WeightReader([(run.make_extractor(*chosen), 1.0)])
    model = run.translator.model
    return WeightReader.of_run(run.config.train, model) if model.has_attention else None


class Record:
    """Which files of a folder are translations of which document, and by which settings.

    Each line of its file is a list: a name, a hash of the translation, one of what it was made
    from, and its figures for the report.
    """

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self.folder = folder
        self.settings = json.dumps(settings).encode()
        # name and hash of a translation → hash of what it was made from
        self.made: dict[tuple[str, str], str] = {}
        self.figures: dict[str, Figures] = {}
        with report_output_errors(folder / RECORD, "The record"), suppress(FileNotFoundError):
            for line in (folder / RECORD).read_bytes().splitlines():
                with suppress(ValueError, TypeError):  # a line that a kill cut short
                    name, translation, source, *figures = json.loads(line)
                    self.made[name, translation] = source
                    if figures:
                        self.figures[name] = figures[0]

    def has(self, name: str, data: bytes) -> bool:
        """Whether a document is translated as it is now.

        Raises UserError where the file of its name is not ours.
        """
        path = self.folder / name
        if not path.exists():
            return False
        source = self.made.get((name, digest(path.read_bytes())))
        if source is None:
            raise UserError(
                f"{path} is there and no translation by this command, or changed since; delete or "
                "move it."
            )
        return source == digest(self.settings + data)

    def write(self, name: str, data: bytes, translation: bytes, figures: Figures) -> None:
        """Write what a translation is made from, then the translation.

        A kill between the two leaves an old file that is known.
        """
        path = self.folder / name
        with report_output_errors(path, "The translation"):
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.folder / RECORD, "a", encoding="utf-8") as file:
                source = digest(self.settings + data)
                line = json.dumps([name, digest(translation), source, figures])
                file.write(f"\n{line}\n")
                file.flush()
                os.fsync(file.fileno())
            write_atomic(path, translation)
        self.figures[name] = figures


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def report(counts: Counter[str]) -> str:
    translated = [f"{counts['translated']} sentences translated"]
    if counts["translated"]:
        translated.append(f"{counts['unsure'] or 'none'} to review")
    if counts[CHANGED]:
        translated.append(f"{counts[CHANGED]} {CHANGED}")
    if counts[REUSED]:
        translated.append(f"{counts[REUSED]} from the memory")
    others = ("translated", "unsure", CHANGED, REUSED)
    left = [f"{count} {reason}" for reason, count in counts.items() if reason not in others]
    return f"{', '.join(translated)}; left as they are: {', '.join(left) or 'none'}."

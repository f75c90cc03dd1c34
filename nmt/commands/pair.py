"""nmt pair: the sentence pairs of two documents that are translations of each other."""

import argparse
import logging
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from nmt.commands.interface import load
from nmt.commands.output import (
    check_can_be_written,
    check_not_input,
    report_output_errors,
    warn_of_replacing,
)
from nmt.corpus.files import write_atomic
from nmt.corpus.inspect.language import language_of_text
from nmt.corpus.languages import base_code, is_known
from nmt.corpus.sentence_alignment import Bead, Sentences, align_sentences
from nmt.documents.formats import EXTENSIONS, open_document
from nmt.documents.memory import plain
from nmt.documents.segment import Document, Segment, segments
from nmt.documents.translation import sentence_spans
from nmt.errors import UserError
from nmt.runs.run import Run
from nmt.view.progress import Progress

log = logging.getLogger("nmt")
FEW = 0.5  # of the sentences of the shorter document, that are in pairs
DOUBTFUL = 0.7  # probability below which a pair is doubtful
TRANSLATED_TOGETHER = 400  # sentences


def run(options: argparse.Namespace) -> int:
    """Write the pairs to --output, and what is doubtful or without a counterpart beside it."""
    output = Path(options.output)
    if output.suffix != ".tsv":
        raise UserError(f"--output {output} must end in .tsv; pairs are written as a table.")
    doubtful = output.with_suffix(".doubtful.tsv")
    paths = [Path(options.first), Path(options.second)]
    for path in paths:
        check_not_input(options.output, str(path))
        check_not_input(str(doubtful), str(path))
    documents = [open_side(path) for path in paths]
    for path in (output, doubtful):
        check_can_be_written(str(path))
        warn_of_replacing(path)

    model = None
    if options.run:
        model = load(options.run, run_folder=options.runs, beam=1)
        model = model.in_direction(options.source, options.target)
    languages = languages_of(options, model, paths, documents)
    sides = []
    for path, document, language in zip(paths, documents, languages, strict=True):
        sentences = list(sentences_of(document, language))
        if not sentences:
            raise UserError(f"{path} has no sentences.")
        log.info("%s: %s sentences (%s)", path, f"{len(sentences):,}", language)
        sides.append(sentences)
    translations = translate(model, sides[0]) if model else []
    beads = align_sentences(sides[0], sides[1], translations)
    write(output, doubtful, languages, sides, beads)
    return 0


def open_side(path: Path) -> Document:
    """Read a document; raises UserError for one that has pairs already."""
    kind = EXTENSIONS.get(path.suffix.lower())
    if kind is not None and kind.has_translations:
        raise UserError(
            f"{path} has its texts beside their translations; give the translation memory or the "
            "table to nmt train as it is."
        )
    return open_document(path)


def languages_of(
    options: argparse.Namespace,
    model: Run | None,
    paths: Sequence[Path],
    documents: Sequence[Document],
) -> list[str]:
    """The languages of the documents: those of the options, of the run, or of the text.

    Raises UserError where none of them tells.
    """
    if model:
        data = model.config.data
        return [base_code(data.source), base_code(data.target)]
    languages = []
    for name, path, document in zip(("source", "target"), paths, documents, strict=True):
        given = getattr(options, name)
        if given and not is_known(given):
            raise UserError(
                f"--{name} {given} is not a language that nmt knows; give one such as de or German."
            )
        text = "\n".join(segment.text for segment in all_segments(document))
        language = base_code(given) if given else language_of_text(text)
        if language is None:
            raise UserError(f"{path} does not tell its language; give --{name}.")
        languages.append(language)
    if len(set(languages)) == 1:
        raise UserError(
            f"{paths[0]} and {paths[1]} are both in '{languages[0]}'; give --source and --target "
            "if that is not so."
        )
    return languages


def all_segments(document: Document) -> Iterator[Segment]:
    for field in document.fields:
        yield from segments(field.parts)


def sentences_of(document: Document, language: str) -> Iterator[str]:
    """The sentences of a document in its order, without markup."""
    for segment in all_segments(document):
        for start, end in sentence_spans(segment.text, language):
            yield " ".join(plain(segment, segment.text[start:end]).split())


def translate(model: Run, sentences: Sequence[str]) -> list[str]:
    translations = []
    with Progress(len(sentences), "sentence", "translating") as bar:
        for start in range(0, len(sentences), TRANSLATED_TOGETHER):
            chunk = sentences[start : start + TRANSLATED_TOGETHER]
            for translation in model.translator.translate_chunk(chunk, start + 1):
                translations.append(translation.text)
            bar.update(len(chunk))
    return translations


def write(
    output: Path,
    doubtful: Path,
    languages: Sequence[str],
    sides: Sequence[Sequence[str]],
    beads: Iterable[Bead],
) -> None:
    """Write two tables, and say how much is in each; raises UserError."""
    pairs = [[*languages, "probability"]]
    others = [[*languages, "probability", *(f"sentence {language}" for language in languages)]]
    alone = 0
    for bead in beads:
        texts = [text_of(sides[0], bead.source), text_of(sides[1], bead.target)]
        if not bead.is_pair:
            alone += max(bead.kind)
            others.append([*texts, "", *places(bead)])
        elif bead.probability < DOUBTFUL:
            others.append([*texts, f"{bead.probability:.4f}", *places(bead)])
        else:
            pairs.append([*texts, f"{bead.probability:.4f}"])
    for path, rows in ((output, pairs), (doubtful, others)):
        with report_output_errors(path):
            write_atomic(path, "".join("\t".join(row) + "\n" for row in rows))
    log.info("%s: %s pairs", output, f"{len(pairs) - 1:,}")
    if len(pairs) - 1 < FEW * min(map(len, sides)):
        log.warning(
            "Few sentences are in pairs. Either the documents do not translate each other, or they "
            "are too short, or share too few names and numbers; --run RUN helps."
        )
    log.info(
        "%s: %s doubtful pairs, and %s sentences without a counterpart",
        doubtful,
        f"{len(others) - 1 - alone:,}",
        f"{alone:,}",
    )


def text_of(sentences: Sequence[str], part: Sentences) -> str:
    return " ".join(sentences[part[0] : part[1]])


def places(bead: Bead) -> list[str]:
    """The number of the first sentence on each side, from 1; empty where there is none."""
    return [str(part[0] + 1) if part[0] < part[1] else "" for part in (bead.source, bead.target)]

"""Reads and writes a client's documents in a process of its own, which can be ended at any moment.

What a stranger sends may take a reader minutes, or all memory, or end its process. The process asks
for translations through a pipe; the models stay where they are. It is forked from a server that has
no threads and has imported what readers need, which takes milliseconds.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from nmt.corpus.checks import Pair
from nmt.corpus.languages import base_code
from nmt.documents.formats import read_document
from nmt.documents.memory import REUSED, TranslationMemory, with_shown_units
from nmt.documents.placement import TranslatedSentence
from nmt.documents.segment import SEPARATOR, Document, Field, segments
from nmt.documents.translation import ModelTranslator, sentence_spans, translate_document
from nmt.documents.word_weights import WordWeights
from nmt.errors import UserError

log = logging.getLogger("nmt")
SAMPLE = 2000  # characters, by which the language is told
NICE = 15  # requests for texts come first
MEMORY = 1 << 30  # bytes that the process may have beside what it begins with
# Libraries that are imported before a document comes; if one is missing, its format says so.
READERS = ("lxml.etree", "markdown_it", "yaml", "tomlkit", "translate.storage.pypo")


class Opened(NamedTuple):
    """The files could be read; the answer is Languages."""

    sample: str  # of their text
    marks_unsure: bool  # whether the format has a place for unsure words


class Languages(NamedTuple):
    """The languages of the model that translates the files."""

    source: str
    target: str
    protects: bool  # whether the model copies the private characters of units
    has_memory: bool = False  # whether Texts are asked for


class Texts(NamedTuple):
    """What the memory may have; the answer is a list of those that it has, with translations."""

    texts: list[str]  # segments, and their sentences


class Question(NamedTuple):
    """Sentences that the process wants translated; the answer is a TranslatedSentence for each."""

    sentences: list[str]
    weighed: list[bool]  # for which word weights are wanted


class Finished(NamedTuple):
    """The translated files."""

    contents: list[bytes]
    remembered: int = 0  # sentences from the memory


class Failed(NamedTuple):
    """Why there are none, as a sentence for the client; and for the log what nobody foresaw."""

    reason: str
    fault: str = ""


@dataclass
class AskingTranslator(ModelTranslator):
    """Asks the process of the models."""

    connection: Connection | None = None
    protects: bool = False

    @property
    def keeps_units(self) -> bool:
        return self.protects

    def translate(
        self, sentences: Sequence[str], weighed: Sequence[bool]
    ) -> Iterator[TranslatedSentence]:
        assert self.connection is not None
        if not sentences:
            return iter(())
        self.connection.send(Question(list(sentences), list(weighed)))
        return iter(self.connection.recv())

    def weigh(self, sentence: str, translation: str) -> WordWeights | None:
        return None


class DocumentProcess:
    """A process that translates files, each with its name, into files."""

    def __init__(self, files: Sequence[tuple[str, bytes]], languages: tuple[str, str]) -> None:
        """`languages`: the source, or auto, and the target; columns of tables are found by them."""
        context = server()
        self.connection, theirs = context.Pipe()
        self.process = context.Process(
            target=work, args=(theirs, list(files), languages), daemon=True
        )
        self.process.start()
        theirs.close()

    def receive(self, seconds: float) -> Opened | Texts | Question | Finished | Failed | None:
        """The next message of the process; None if none comes in so many seconds."""
        try:
            return self.connection.recv() if self.connection.poll(seconds) else None
        except (EOFError, OSError):  # it ended: by a signal, such as that of a full memory
            return Failed(
                "its reader failed", f"the process of a document ended ({self.process.exitcode})"
            )

    def answer(self, answer: Languages | list[Pair] | list[TranslatedSentence]) -> None:
        try:
            self.connection.send(answer)
        except OSError:  # it ended, which `receive` tells
            log.debug("A document's process ended before its answer came.")

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.process.close()
        self.connection.close()


def server() -> multiprocessing.context.ForkServerContext | multiprocessing.context.SpawnContext:
    """Where processes come from; it is started by the first one, or by `start_server`."""
    if sys.platform == "win32":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, *READERS])
    return context


def start_server() -> None:
    """Start the server of processes, so that the first document need not wait for it."""
    if sys.platform != "win32":
        from multiprocessing.forkserver import ensure_running

        server()
        ensure_running()


def work(
    connection: Connection, files: list[tuple[str, bytes]], languages: tuple[str, str]
) -> None:
    """The process: read the files, ask for the translation of all sentences, write the files."""
    be_modest()
    try:
        documents = [read_safely(name, content, languages) for name, content in files]
        answer: Finished | Failed = translated(connection, documents)
    except UserError as error:
        answer = Failed(str(error))
    except (EOFError, OSError):  # the service ended
        return
    except RecursionError:
        answer = Failed("it is nested too deeply")
    except MemoryError:
        answer = Failed("it needs too much memory")
    except Exception as error:
        log.debug("A document failed.", exc_info=True)
        answer = Failed("it could not be written with its translation", describe(error))
    connection.send(answer)


def be_modest() -> None:
    """Leave the processor to others, bound the memory, and ignore the signals of a terminal."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # its own would leave a semaphore behind where the process is ended
    tqdm.set_lock(threading.RLock())
    if sys.platform == "win32":
        return
    import resource

    os.nice(NICE)
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * os.sysconf("SC_PAGE_SIZE") + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def read_safely(name: str, content: bytes, languages: tuple[str, str]) -> Document:
    """Read a document; raises UserError, RecursionError and MemoryError."""
    try:
        return read_document(Path(name), content, languages=languages)
    except (UserError, RecursionError, MemoryError):
        raise
    except Exception as error:
        raise UserError(f"{name} cannot be read: {describe(error)}.") from None


def describe(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200].rstrip(".: ")


def translated(connection: Connection, documents: list[Document]) -> Finished:
    """The documents with their translations; all of them are translated together."""
    fields = list(chain.from_iterable(document.fields for document in documents))
    marks_unsure = any(document.marks_unsure for document in documents)
    connection.send(Opened(sample_of(fields), marks_unsure))
    languages: Languages = connection.recv()
    source = base_code(languages.source)
    memory = None
    if languages.has_memory:
        connection.send(Texts(texts_of(fields, source)))
        memory = TranslationMemory(connection.recv())
        # It has only what is the same, and no field shows that as similar to another one
        fields = [field._replace(suggest=None) for field in fields]
    translator = AskingTranslator(
        None,  # type: ignore[arg-type]
        None,
        memory=memory,
        connection=connection,
        protects=languages.protects,
    )
    for document in documents:
        document.language = languages.target
    counts = translate_document(Document(fields, bytes), source, translator)
    return Finished([document.write() for document in documents], counts[REUSED])


def texts_of(fields: Sequence[Field], language: str) -> list[str]:
    """The segments and their sentences, as a reader sees them; each once.

    A segment with several texts is no text of the memory: what stands between them is in a tag.
    """
    texts: dict[str, None] = {}
    for field in fields:
        for segment in segments(field.parts):
            spans = sentence_spans(segment.text, language)
            if SEPARATOR not in segment.text:
                spans.append((0, len(segment.text)))
            for start, end in spans:
                texts[with_shown_units(segment, segment.text[start:end])] = None
    return list(texts)


def sample_of(fields: Sequence[Field]) -> str:
    """The beginning of the text of a document."""
    sample: list[str] = []
    size = 0
    for each in fields:
        for segment in segments(each.parts):
            sample.append(segment.text)
            size += len(segment.text)
            if size > SAMPLE:
                return " ".join(sample)
    return " ".join(sample)

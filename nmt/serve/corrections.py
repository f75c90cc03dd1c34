"""What people wrote in place of the machine's translations: one file of SQLite.

A correction waits until somebody with the right to do so accepts or refuses it. Accepted ones are
answered instead of the machine's translation, and can be trained on. Of several accepted ones of a
source the newest counts. A confirmed one was accepted by its number, so a person has looked at it.

A commit is on the disk before it is answered (write-ahead log, synchronous=FULL), so a kill or a
power cut loses nothing that was promised. Several processes may use the file at the same time.
Nothing is known of a person but the name of the key.
"""

import os
import re
import sqlite3
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nmt.audit.faults import unlike_pairs
from nmt.audit.translations import threshold
from nmt.config.schema import DataConfig
from nmt.corpus.checks import Pair
from nmt.errors import UserError

WAITING = 0
ACCEPTED = 1
CONFIRMED = 2
REFUSED = -1
STATES = {
    WAITING: "waiting",
    ACCEPTED: "accepted",
    CONFIRMED: "confirmed",
    REFUSED: "refused",
}
CHARACTERS = 2000  # of a text, and of its correction
MOST_WAITING = 10_000  # corrections of one key, or of all without a key
APPLICATION = 0x6E6D7463  # nmtc: that the file is one of corrections
SECONDS = 10.0  # that another process may hold the file
TABLE = """
CREATE TABLE corrections (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    correction TEXT NOT NULL,
    source_language TEXT NOT NULL,
    target_language TEXT NOT NULL,
    version TEXT NOT NULL,
    time TEXT NOT NULL,
    key_name TEXT NOT NULL,
    accepted INTEGER NOT NULL
)
"""
MOST_SOURCES = 2  # that have the same correction of FEWEST_WORDS or more
FEWEST_WORDS = 3
# From so many corrections on, they say how unlike the machine's text a correction may be; of fewer
# it is LEAST_LIKE.
MANY = 20
LEAST_LIKE = 0.1


class Correction(NamedTuple):
    """A row of the file."""

    id: int
    source: str
    target: str  # what the machine wrote
    correction: str
    source_language: str
    target_language: str
    version: str  # of the run that wrote it
    time: str  # in UTC, ISO 8601
    key_name: str  # "" without a key
    accepted: int

    @property
    def languages(self) -> tuple[str, str]:
        return self.source_language, self.target_language

    @property
    def counts(self) -> bool:
        return self.accepted in (ACCEPTED, CONFIRMED)


COLUMNS = ", ".join(Correction._fields)


class TooMany(Exception):
    """So many corrections of this key wait already."""


class Corrections:
    """The corrections of a file. Threads may share it."""

    def __init__(self, path: Path, create: bool = False) -> None:
        """Open a file, or make it with `create`; raises UserError if it is missing or another's."""
        self.path = path
        self.lock = threading.Lock()
        if create and not path.exists():
            with self.explained("made"):
                # what people write is for the owner of the service alone
                os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        elif not path.is_file():
            raise UserError(f"There is no file of corrections {path}.")
        with self.explained("opened"):
            self.connection = connect(path)
            self.prepare()
            self.connection.execute("PRAGMA journal_mode = WAL")
            # One that never waits for a writer, as the log of writes lets readers go on
            self.reader = connect(path)
            self.file = os.stat(path)

    def prepare(self) -> None:
        """Make the table of an empty file; raises UserError for a file of another program."""
        if self.application() == APPLICATION:  # without a wait for writers
            return
        with self.transaction():  # of several processes one makes it
            application = self.application()
            tables = self.connection.execute("SELECT name FROM sqlite_master").fetchall()
            if not application and not tables:
                self.connection.execute(TABLE)
                self.connection.execute(f"PRAGMA application_id = {APPLICATION}")
            elif application != APPLICATION:
                raise UserError(f"{self.path} is not a file of corrections, but another database.")

    def application(self) -> int:
        """The number of the program that made the file; 0 if there is none."""
        (number,) = self.connection.execute("PRAGMA application_id").fetchone()
        return int(number)

    @contextmanager
    def explained(self, done: str) -> Iterator[None]:
        """Around what may fail: an error becomes a UserError."""
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            reason = getattr(error, "strerror", None) or error
            raise UserError(
                f"The file of corrections {self.path} cannot be {done}: {reason}."
            ) from None

    def close(self) -> None:
        self.reader.close()
        self.connection.close()

    def add(
        self,
        lines: Sequence[tuple[str, str, str]],
        languages: tuple[str, str],
        version: str = "1",
        key_name: str = "",
        accepted: int = WAITING,
    ) -> list[int]:
        """Keep lines with the machine's text and its correction; returns their numbers.

        All of them are on the disk when this returns. Raises TooMany, and OSError or sqlite3.Error
        where they cannot be written.
        """
        if not os.path.samestat(self.file, os.stat(self.path)):
            raise sqlite3.OperationalError("another file has its name")
        time = datetime.now(timezone.utc).isoformat(timespec="seconds")
        about = (*languages, version, time, key_name, accepted)
        ids = []
        with self.transaction():
            (waiting,) = self.connection.execute(
                "SELECT count(*) FROM corrections WHERE key_name = ? AND accepted = ?",
                (key_name, WAITING),
            ).fetchone()
            if waiting + len(lines) > MOST_WAITING and accepted == WAITING:
                raise TooMany
            for line in lines:
                cursor = self.connection.execute(
                    f"INSERT INTO corrections ({COLUMNS}) VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (*line, *about),
                )
                ids.append(cursor.lastrowid or 0)
        return ids

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Around statements that are all done or none; no other thread or process writes."""
        with self.lock, self.connection:
            self.connection.execute("BEGIN IMMEDIATE")
            yield

    def all(self) -> list[Correction]:
        """All corrections, the oldest first."""
        with self.explained("read"):
            rows = self.reader.execute(f"SELECT {COLUMNS} FROM corrections ORDER BY id")
            return [Correction(*row) for row in rows]

    def accepted_pairs(self, languages: tuple[str, str]) -> list[Pair]:
        """The sources with their corrections that count, in the order in which they came."""
        with self.explained("read"):
            rows = self.reader.execute(
                "SELECT source, correction FROM corrections WHERE accepted > ? "
                "AND source_language = ? AND target_language = ? ORDER BY id",
                (WAITING, *languages),
            )
            pairs: dict[str, str] = {}
            for source, correction in rows:
                pairs.pop(source, None)  # the newest comes last
                pairs[source] = correction
        return list(pairs.items())

    def decide(self, ids: Iterable[int], accepted: int) -> None:
        """Set the state of corrections."""
        rows = [(accepted, id) for id in ids]
        with self.explained("written"), self.transaction():
            self.connection.executemany("UPDATE corrections SET accepted = ? WHERE id = ?", rows)

    def delete(self, ids: Iterable[int]) -> None:
        """Forget corrections: nothing of them stays in the file or in its log."""
        rows = [(id,) for id in ids]
        with self.explained("written"):
            with self.transaction():
                self.connection.executemany("DELETE FROM corrections WHERE id = ?", rows)
            (is_busy, *_) = self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if is_busy:
            raise UserError(
                f"{self.path} is in use, so its log still has what was deleted; try it again."
            )

    def state(self) -> int:
        """Another number after each change, by this process or another one."""
        (version,) = self.reader.execute("PRAGMA data_version").fetchone()
        return int(version)


def connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=SECONDS, isolation_level=None, check_same_thread=False
    )
    for pragma in (
        "trusted_schema = OFF",
        "synchronous = FULL",
        "secure_delete = ON",  # what is deleted is overwritten
    ):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def find_faults(corrections: Sequence[Correction], data: DataConfig) -> dict[int, str]:
    """Which corrections should be looked at before they are accepted, by their numbers, and why.

    All are in the languages of `data`. The audit of corpora judges them as pairs. Besides, each is
    compared with the machine's text, and with the other corrections.
    """
    unlike = unlike_pairs([(row.source, row.correction) for row in corrections], data)
    likenesses, least = judge_likenesses([(row.target, row.correction) for row in corrections])
    sources_of = defaultdict[str, set[str]](set)  # by correction
    for row in corrections:
        sources_of[row.correction].add(row.source)
    faults: dict[int, str] = {}
    for index, row in enumerate(corrections):
        reasons = []
        if index in unlike:
            reasons.append(f"source and correction {unlike[index]}")
        if likenesses[index] <= least:
            reasons.append("another text than the machine's")
        sources = len(sources_of[row.correction])
        if sources > MOST_SOURCES and len(row.correction.split()) >= FEWEST_WORDS:
            reasons.append(f"the same for {sources} sources")
        if reasons:
            faults[row.id] = "; ".join(reasons)
    return faults


def find_contrary(corrections: Sequence[Correction]) -> dict[int, int]:
    """The numbers of corrections that are unlike an earlier one of their source, and its number.

    Refused ones are left out.
    """
    newest: dict[tuple[tuple[str, str], str], Correction] = {}
    contrary = {}
    for row in corrections:
        if row.accepted == REFUSED:
            continue
        before = newest.get((row.languages, row.source))
        if before and before.correction != row.correction:
            contrary[row.id] = before.id
        newest[row.languages, row.source] = row
    return contrary


def judge_likenesses(texts: Sequence[Pair]) -> tuple[list[float], float]:
    """How like the machine's text each correction is, and up to where it is another text.

    The limit is learned as that of improbable translations (nmt/audit/translations.py): corrections
    are compared with the machine's text for a stranger, the next source by length, too.
    """
    order = sorted(range(len(texts)), key=lambda row: len(texts[row][0]))
    own = [0.0] * len(texts)
    of_strangers = []
    for place, row in enumerate(order):
        machine, correction = map(trigrams, texts[row])
        stranger, _ = texts[order[place - 1]]
        own[row] = likeness(correction, machine)
        of_strangers.append(likeness(correction, trigrams(stranger)))
    if len(texts) < MANY:
        return own, LEAST_LIKE
    return own, threshold(np.array(own), np.array(of_strangers))


def likeness(first: Counter[str], second: Counter[str]) -> float:
    """2·M / T: M trigrams in common, of T in both; 1 without any."""
    total = first.total() + second.total()
    return 2 * (first & second).total() / total if total else 1.0


def trigrams(text: str) -> Counter[str]:
    """The trigrams of characters of a text, without case and punctuation."""
    words = " ".join(["", *re.findall(r"\w+", text.lower()), ""])
    return Counter(words[start : start + 3] for start in range(len(words) - 2))

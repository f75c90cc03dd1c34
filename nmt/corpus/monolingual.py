"""Text in the target language alone (data.mono); back-translation makes training pairs of it.

FILE, or a list of them: one sentence a line, packed or not. A line is left out if it is blank, too
long or repeated. It is also left out if it is a target of a validation or test set, or nearly one,
by the rule of nmt/corpus/split.py: the model would have read the answer.
"""

import logging
import os
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from nmt.config.schema import DataConfig
from nmt.corpus.encoding import with_encoding
from nmt.corpus.filtering import hash_text
from nmt.corpus.inspect.language import other_side_language
from nmt.corpus.packed import PackedFile
from nmt.corpus.parallel_text import read_lines
from nmt.corpus.sources import ENDINGS, as_list
from nmt.corpus.split import SideSet
from nmt.errors import UserError

log = logging.getLogger("nmt")
SAMPLE = 4000  # lines that tell the language
HELD_OUT = {"same": "a held-out sentence", "near": "nearly a held-out sentence"}


def find_files(data: DataConfig) -> list[PackedFile]:
    """The files of data.mono; raises UserError unless all are text with one sentence a line."""
    files = [PackedFile(Path(word).expanduser()) for word in as_list("mono", data.mono)]
    for file in files:
        if not os.path.isfile(file.path):
            raise UserError(f"data.mono: there is no file {file}.")
        if file.ending in ENDINGS:
            raise UserError(
                f"data.mono={file} is not text with one sentence a line; write its column of "
                f"{data.target} to a file."
            )
    return [with_encoding(file, data.encoding, data.target) for file in files]


def warn_of_language(data: DataConfig) -> None:
    """Warn of files that look like another language than that of the targets."""
    for file in find_files(data):
        other = other_side_language(list(islice(read_lines(file), SAMPLE)), data.target)
        if other:
            log.warning("data.mono=%s looks like %s, not %s.", file, other, data.target)


def read_sentences(data: DataConfig, held_out: SideSet, dropped: Counter[str]) -> Iterator[str]:
    """The lines of data.mono that can be translated; the others are counted by reason.

    `held_out`: the targets of the validation and test sets. Raises UserError.
    """
    seen: set[int] = set()
    for file in find_files(data):
        for line in read_lines(file):
            line = line.strip()
            if not line:
                reason: str | None = "blank"
            elif len(line) > data.max_characters:
                reason = "too long"
            else:
                reason = HELD_OUT.get(held_out.find(line))
            key = hash_text(line)
            if not reason and key in seen:
                reason = "repeated"
            if reason:
                dropped[reason] += 1
            else:
                seen.add(key)
                yield line

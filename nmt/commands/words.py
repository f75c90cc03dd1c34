"""nmt words: single words with their translations, from a corpus and its links, as pairs to train
on.

People type single words, which hardly any corpus has as lines of their own. A word's translation is
the one that it is linked to most often, where both have no other link.
"""

import argparse
import logging
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from nmt.commands.output import warn_of_replacing
from nmt.data.files import open_atomic, report_write_errors
from nmt.data.links import parse_links
from nmt.data.packed import without_packing
from nmt.data.parallel_text import read_lines, read_pairs
from nmt.data.words import word_spans
from nmt.errors import UserError

# times that two words are linked, and their share of the source word's links
FEWEST = 3
LEAST_SHARE = 0.3
log = logging.getLogger("nmt")
Word = tuple[str, bool]  # as it is written, and whether it begins its sentence
Links = Iterator[tuple[Word, Word]]


def run(options: argparse.Namespace) -> int:
    """Write PREFIX.LANGUAGE for both languages, and PREFIX.align with the link of each pair."""
    source = Path(options.source)
    target = Path(options.target)
    endings = [without_packing(path).suffix for path in (source, target)]
    if endings[0] == endings[1]:
        raise UserError(
            f"{source} and {target} need the endings of two languages, as in text.de and text.en."
        )
    paths = [Path(options.output + ending) for ending in (*endings, ".align")]
    inputs = {path.resolve() for path in (source, target, Path(options.links))}
    if not inputs.isdisjoint(path.resolve() for path in paths):
        raise UserError(
            f"--output {options.output} would overwrite what is read; choose another name."
        )
    pairs = find_words(linked_words(source, target, Path(options.links), options.tokenized))
    if not pairs:
        raise UserError(
            f"No word of {source} is linked {FEWEST} times to the same word of {target}."
        )
    for path in paths:
        warn_of_replacing(path)
    for path, lines in zip(paths, (*zip(*pairs, strict=True), ["0-0"] * len(pairs)), strict=True):
        with report_write_errors(path.parent), open_atomic(path) as file:
            file.write("".join(f"{line}\n" for line in lines).encode())
    log.info("%d words; train on them with data.train=[…,%s].", len(pairs), options.output)
    return 0


def linked_words(source: Path, target: Path, links: Path, tokenized: bool) -> Links:
    """The words of both files that are linked to each other alone; raises UserError for files that
    do not fit."""
    for number, (pair, line) in enumerate(
        zip_longest(read_pairs(source, target), read_lines(links)), 1
    ):
        if pair is None or line is None:
            raise UserError(
                f"{links} and {source} have different numbers of lines; each pair "
                "needs one of links."
            )
        sides = [[text[start:end] for start, end in word_spans(text, tokenized)] for text in pair]
        found, _ = parse_links(line, 0, f"{links}:{number}")
        for i, j in found:
            if i >= len(sides[0]) or j >= len(sides[1]):
                raise UserError(f"{links}:{number}: link {i}-{j} names a word that does not exist.")
        counts = [Counter(link[side] for link in found) for side in (0, 1)]
        for i, j in found:
            word = sides[0][i]
            translation = sides[1][j]
            if counts[0][i] == counts[1][j] == 1 and is_word(word) and is_word(translation):
                yield (word, i == 0), (translation, j == 0)


def is_word(word: str) -> bool:
    return (
        any(map(str.isalpha, word)) and not any(map(str.isdigit, word)) and not word.startswith("<")
    )


def find_words(links: Links) -> list[tuple[str, str]]:
    """The best translation of each source word that has a good one, frequent words first.

    Words are counted in small letters, and written as they mostly are where they do not begin a
    sentence.
    """
    joint: defaultdict[str, Counter[str]] = defaultdict(Counter)
    forms: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    for pair in links:
        joint[pair[0][0].lower()][pair[1][0].lower()] += 1
        for counter, (word, begins) in zip(forms, pair, strict=True):
            counter[word.lower() if begins else word] += 0 if begins else 1
    usual = [
        {form.lower(): form for form, _ in reversed(counter.most_common())} for counter in forms
    ]
    best = {word: translations.most_common(1)[0] for word, translations in joint.items()}
    return [
        (usual[0][word], usual[1][best[word][0]])
        for word, translations in sorted(joint.items(), key=lambda each: -each[1].total())
        if best[word][1] >= max(FEWEST, LEAST_SHARE * translations.total())
    ]

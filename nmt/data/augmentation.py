"""What is new in a batch in each epoch: pieces that are sampled, and noise, for people type what no
clean corpus has.

- case: a source in small letters (capitals are encoded as small letters, see
  nmt/data/text_filter.py);
- typos: letters of source words swapped, lost, doubled or replaced, and ä written ae or a;
- punctuation: a source without its last full stop, question mark or exclamation mark;
- merge: two to four pairs in one line;
- copy: a name that stands on both sides becomes a placeholder, or a placeholder is put at the
  beginning or end of both sides, or the target is its own source (Currey et al. 2017), so that
  copying is learnt;
- names: a name that stands on both sides becomes an invented one, or an invented one is put before
  both final marks, so that names are spelled as they stand; always in letters that both sides have;
- plain: invented numbers, addresses and the like as text instead of the placeholders of a pair, so
  that the model also copies them where no text filter runs, as in Argos Translate.

Doubled spaces need no noise: the tokenizer reads them as one. All is a function of the texts and
the generator.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain
from random import Random
from typing import Any, NamedTuple

import numpy as np

from nmt.data.dataset import ParallelDataset
from nmt.data.tags import sentence_start
from nmt.data.text_filter import NUMBERS, OTHERS
from nmt.data.tokenizer import Tokenizers

Ids = np.ndarray  # int32, one sentence
WORD = re.compile(r"[^\W\d_]+")
TOKEN = re.compile(r"\w+")
FINAL = re.compile(r"\s*[.!?。！？]+$")
TYPOS_PER_WORD = 0.15  # in a sentence with typos, of words with four letters or more; at least one
ZONES = ("org", "com", "net", "de", "fr", "eu", "info", "io")
ORIGINAL_COPY = 0.05  # of the copying noise: the target as its own source
WRITTEN_AS = {"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ß": "ss"}
SYLLABLES = [
    first + vowel + last
    for first in "bdfgklmnprstvwz"
    for vowel in "aeiou"
    for last in ("", "n", "r", "l", "s")
]
MARK = re.compile(f"[{''.join(NUMBERS + OTHERS)}]")


@dataclass(frozen=True)
class Noise:
    """The probability of each kind of noise, for a line; of `merge`, for a pair to be in a line of
    several."""

    case: float = 0.0
    typos: float = 0.0
    punctuation: float = 0.0
    merge: float = 0.0
    copy: float = 0.0
    names: float = 0.0
    plain: float = 0.0

    def __bool__(self) -> bool:
        return any(
            (self.case, self.typos, self.punctuation, self.merge, self.copy, self.names, self.plain)
        )


class NoisyLine(NamedTuple):
    """A pair of texts with noise, and the rows that it is made of."""

    source: str
    target: str
    rows: range


def add_noise(
    pairs: Sequence[tuple[str, str]],
    marked: Sequence[bool],
    noise: Noise,
    marks: Collection[str],
    generator: Random,
    known_tags: Collection[str] = (),
) -> list[NoisyLine]:
    """The lines that have noise; the pairs of other rows stay as they are, and are not read.

    `marked`: which pairs have placeholders; they always get others. `marks`: the placeholders that
    the tokenizer has. `known_tags` before a source stay. Two to four pairs are merged if they have
    the same ones, which stand there once, and if at most one of them is marked.
    """
    lines = []
    row = 0
    words = list[str]()
    merged = noise.merge / (3 - 2 * noise.merge)  # of the lines; they have three pairs on average
    while row < len(pairs):
        size = generator.randint(2, 4) if generator.random() < merged else 1
        rows = range(row, min(row + size, len(pairs)))
        copy, name, case, punctuation, typos, plain = (
            generator.random() < probability
            for probability in (
                noise.copy,
                noise.names,
                noise.case,
                noise.punctuation,
                noise.typos,
                noise.plain,
            )
        )
        row = rows.stop
        has_marks = sum(map(marked.__getitem__, rows))
        if has_marks > 1 or not (
            len(rows) > 1 or has_marks or copy or name or case or punctuation or typos
        ):
            continue
        sides = list(zip(*map(pairs.__getitem__, rows), strict=True))
        starts = [sentence_start(source, known_tags) if known_tags else 0 for source in sides[0]]
        tags = {source[:start] for source, start in zip(sides[0], starts, strict=True)}
        if len(tags) > 1:
            continue
        source = " ".join(source[start:] for source, start in zip(sides[0], starts, strict=True))
        target = " ".join(sides[1])
        if noise.names:
            words += words_of_shared_scripts(source, target)
        if has_marks:
            source, target = renumber(source, target, marks, generator)
        if copy:
            source, target = add_copies(source, target, marks, generator)
        if name:
            source, target = add_name(
                source, target, invented_name(words or SYLLABLES, generator), generator
            )
        if case:
            source = source.lower() if generator.random() < 0.8 else source[:1].lower() + source[1:]
        if punctuation:
            source = FINAL.sub("", source) or source
        if typos:
            source = add_typos(source, generator)
        if plain:
            spans = invented_spans(source, generator)
            source = source.translate(spans)
            target = target.translate(spans)
        lines.append(NoisyLine(tags.pop() + source, target, rows))
    return lines


def renumber(
    source: str, target: str, marks: Collection[str], generator: Random
) -> tuple[str, str]:
    """The same pair with other placeholders of the same kind, so that all of them are learnt."""
    table: dict[str, str] = {}
    for kind in (NUMBERS, OTHERS):
        own = [mark for mark in kind if mark in marks]
        table |= dict(zip(own, generator.sample(own, len(own)), strict=True))
    translation = str.maketrans(table)
    return source.translate(translation), target.translate(translation)


def add_copies(
    source: str, target: str, marks: Collection[str], generator: Random
) -> tuple[str, str]:
    """A pair with a placeholder that is the same on both sides, or the target as its own source."""
    if generator.random() < ORIGINAL_COPY:
        return target, target
    kind = NUMBERS if generator.random() < 0.3 else OTHERS
    free = [mark for mark in kind if mark in marks and mark not in source]
    if not free:
        return source, target
    placeholder = generator.choice(free)
    if names := shared_names(source, target):
        return replace_word(generator.choice(names), placeholder, source, target)
    where = generator.random()
    if where < 0.4:
        return f"{source} {placeholder}", f"{target} {placeholder}"
    if where < 0.6:
        return f"{placeholder} {source}", f"{placeholder} {target}"
    return insert_at_end(placeholder, source, target, generator)


def add_name(source: str, target: str, name: str, generator: Random) -> tuple[str, str]:
    """A pair with this name on both sides, if it has one or both have a final mark."""
    if names := shared_names(source, target):
        return replace_word(generator.choice(names), name, source, target)
    return insert_at_end(name, source, target, generator)


def shared_names(source: str, target: str) -> list[str]:
    """The words with a capital letter that stand once on each side."""
    counts = [Counter(TOKEN.findall(side)) for side in (source, target)]
    shared = (word for word, count in counts[0].items() if count == counts[1][word] == 1)
    return [word for word in shared if len(word) > 1 and word[0].isupper()]


def replace_word(old: str, new: str, source: str, target: str) -> tuple[str, str]:
    source, target = (
        TOKEN.sub(lambda word: new if word[0] == old else word[0], side)
        for side in (source, target)
    )
    return source, target


def insert_at_end(text: str, source: str, target: str, generator: Random) -> tuple[str, str]:
    """The pair with a text before its final marks; as it was if one of them is missing."""
    ends = [FINAL.search(side) for side in (source, target)]
    if not ends[0] or not ends[1]:
        return source, target
    joint = generator.choice([" ", ": ", ", ", " (", ' "'])
    inner = joint + text + {" (": ")", ' "': '"'}.get(joint, "")
    return source[: ends[0].start()] + inner + ends[0][0], target[: ends[1].start()] + inner + ends[
        1
    ][0]


def words_of_shared_scripts(source: str, target: str) -> list[str]:
    """The words in letters that both sides have, such as Latin ones; a name in others would not be
    copied."""
    words = [WORD.findall(side) for side in (source, target)]
    scripts = [[unicodedata.name(word[0], "").split(" ")[0] for word in side] for side in words]
    shared = set(scripts[0]).intersection(scripts[1])
    return [
        word
        for word, script in zip(chain(*words), chain(*scripts), strict=True)
        if script in shared
    ]


def invented_name(words: Sequence[str], generator: Random) -> str:
    """One to three words with a capital letter, each the beginning of one word and the end of
    another."""
    parts = []
    for _ in range(generator.choice((1, 1, 1, 2, 2, 3))):
        first = generator.choice(words)
        last = generator.choice(words)
        parts.append(
            (first[: generator.randint(1, 6)] + last[-generator.randint(1, 6) :]).capitalize()
        )
    return " ".join(parts)


def invented_spans(text: str, generator: Random) -> dict[int, str]:
    """What may stand for each placeholder of a text, for str.translate."""
    return {
        ord(mark): invented(mark in NUMBERS, generator)
        for mark in dict.fromkeys(MARK.findall(text))
    }


def invented(is_number: bool, generator: Random) -> str:
    """A number, time, date or sum; or an address of a person or page, a variable, a tag or a
    handle."""

    def digits(least: int, most: int) -> str:
        return str(generator.randint(10 ** (least - 1), 10**most - 1))

    def name(syllables: int) -> str:
        return "".join(generator.choices(SYLLABLES, k=generator.randint(1, syllables)))

    if is_number:
        hour, minute, day, month = (
            generator.randint(first, last) for first, last in ((0, 23), (0, 59), (1, 31), (1, 12))
        )
        decimal = f"{digits(1, 3)}{generator.choice('.,')}{digits(1, 2)}"
        year = generator.randint(1500, 2100)
        forms = [
            f"{hour}:{minute:02}",
            f"{day}.{month}.{year}",
            f"{digits(1, 3)} {generator.choice('%€$')}",
            decimal,
        ]
        return generator.choice([digits(1, 2), digits(3, 4), digits(1, 6), str(year), *forms])
    host = f"{name(3)}{generator.choice(['', '-' + name(2)])}.{generator.choice(ZONES)}"
    person = name(3) + generator.choice(["", f".{name(3)}", f"_{name(2)}", digits(1, 3)])
    page = f"{generator.choice(['https://', 'https://www.', 'www.', 'http://'])}{host}"
    path = generator.choice(
        [
            "",
            "/",
            f"/{name(3)}",
            f"/{name(2)}/{name(3)}.html",
            f"/{name(2)}?{name(1)}={digits(1, 3)}",
        ]
    )
    others = [
        f"{{{name(3)}}}",
        "%s",
        f"<{name(1)}>",
        f"@{person}",
        f"#{name(4)}",
        f"`{name(2)} -{name(1)[0]}`",
    ]
    return generator.choice(
        [f"{person}@{host}", page + path, page + path, f"{person}@{host}", generator.choice(others)]
    )


def add_typos(text: str, generator: Random) -> str:
    """The text with at least one typo, if it has a word of four letters or more."""
    if generator.random() < 0.15:
        if generator.random() < 0.5:
            return "".join(WRITTEN_AS.get(character, character) for character in text)
        return unicodedata.normalize(
            "NFC", re.sub("[\u0300-\u0308]", "", unicodedata.normalize("NFD", text))
        )
    words = [match.span() for match in WORD.finditer(text) if match.end() - match.start() >= 4]
    if not words:
        return text
    chosen = [span for span in words if generator.random() < TYPOS_PER_WORD] or [
        generator.choice(words)
    ]
    for start, end in reversed(chosen):
        text = text[:start] + misspell(text[start:end], generator) + text[end:]
    return text


def misspell(word: str, generator: Random) -> str:
    place = generator.randrange(1, len(word) - 1)
    kind = generator.randrange(4)
    if kind == 0:
        return word[:place] + word[place + 1] + word[place] + word[place + 2 :]
    if kind == 1:
        return word[:place] + word[place + 1 :]
    middle = word[place] * 2 if kind == 2 else generator.choice("abcdefghijklmnopqrstuvwxyz")
    return word[:place] + middle + word[place + 1 :]


class VariedPair(NamedTuple):
    """New pieces of a pair, and its row; of merged pairs that of the first one."""

    source: Ids
    target: Ids
    row: int


@dataclass(frozen=True)
class Variation:
    """Subword sampling of strength `sampling` (0 = off) and noise; `longest`: most pieces of a
    source and a target."""

    tokenizers: Tokenizers
    sampling: float
    noise: Noise
    longest: tuple[int, int]

    def vary(
        self, pairs: ParallelDataset, rows: np.ndarray, least: int, seed: int
    ) -> list[VariedPair]:
        """New pieces of some rows, a pure function of the arguments; at least so many pairs, for
        merged ones are fewer.

        A pair of which a side gets longer than any of the corpus is left as it is stored: the model
        may have no embedding for later positions.
        """
        sources, targets = (pairs.sentences(side, rows) for side in ("source", "target"))
        stored = list(map(VariedPair, sources.rows(), targets.rows(), rows.tolist()))
        texts = ProtectedTexts(pairs, rows.tolist(), self.tokenizers)
        tokenizer = self.tokenizers.source
        of_piece = np.repeat(np.arange(len(rows)), sources.lengths)
        marked = (
            np.bincount(of_piece[np.isin(sources.ids, tokenizer.placeholders)], minlength=len(rows))
            > 0
        )
        noisy: list[NoisyLine] = []
        if self.noise:
            generator = Random(seed + 2)
            noisy = add_noise(
                texts, marked.tolist(), self.noise, tokenizer.marks, generator, tokenizer.tags
            )
        if self.sampling:
            other_rows = sorted(set(range(len(rows))).difference(*(line.rows for line in noisy)))
            noisy += [
                NoisyLine(texts[row][0], texts[row][1], range(row, row + 1)) for row in other_rows
            ]
        new_sources, new_targets = (
            self.encode(number, [line[number] for line in noisy], seed + number)
            for number in range(2)
        )
        varied: list[VariedPair | None] = [*stored]
        spare = len(rows) - least
        for line, source, target in zip(noisy, new_sources, new_targets, strict=True):
            merged = len(line.rows) - 1
            if (
                len(source) <= self.longest[0]
                and len(target) <= self.longest[1]
                and merged <= spare
            ):
                spare -= merged
                first = line.rows.start
                varied[first : line.rows.stop] = [None] * len(line.rows)
                varied[first] = VariedPair(np.asarray(source), np.asarray(target), int(rows[first]))
        return [pair for pair in varied if pair]

    def encode(self, side: int, texts: list[Any], seed: int) -> list[list[int]]:
        tokenizer = self.tokenizers[side]
        return (
            tokenizer.sample_all(texts, self.sampling, seed)
            if self.sampling
            else tokenizer.encode_all(texts, 1)
        )


class ProtectedTexts(Sequence[tuple[str, str]]):
    """The texts of some rows with placeholders, each made when it is read."""

    def __init__(self, pairs: ParallelDataset, rows: list[int], tokenizers: Tokenizers) -> None:
        self.pairs = pairs
        self.rows = rows
        self.tokenizers = tokenizers

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        ((source, target),) = self.tokenizers.protect_pairs([self.pairs.texts(self.rows[index])])
        return source.text, target.text

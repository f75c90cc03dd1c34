"""Noise and sampled pieces: what makes a batch of each epoch new.

People type what no clean corpus has, so a training line may get noise of these kinds:

- case: a source in small letters (capitals are encoded as small letters, see
  nmt/data/text_filter.py);
- typos: letters of source words swapped, lost, doubled or replaced, and ä written ae or a;
- punctuation: a source without its last full stop, question mark or exclamation mark;
- merge: two to four pairs in one line;
- copy: to learn to copy, a name that stands on both sides becomes a placeholder, or a placeholder
  is put at the beginning or end of both sides, or the target is its own source (Currey et al.
  2017);
- names: to learn to spell names, one that stands on both sides becomes an invented one, or an
  invented one is put before both final marks; always in letters that both sides have;
- plain: invented numbers, addresses and the like as text instead of the placeholders of a pair, so
  that the model also copies them where no text filter runs, as in Argos Translate.

Doubled spaces need no noise: the tokenizer reads them as one. Everything here is a function of the
texts and the random generator. Another order of the draws would change what a seed gives.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from random import Random
from typing import NamedTuple

import numpy as np

from nmt.corpus.tables import Pair
from nmt.corpus.tags import sentence_start
from nmt.corpus.words import join_texts
from nmt.data.dataset import ParallelDataset, Sentences
from nmt.data.text_filter import NUMBERS, OTHERS
from nmt.data.tokenizer import Tokenizers

Ids = np.ndarray  # int32, one sentence
WORD = re.compile(r"[^\W\d_]+")
LONG_WORD = re.compile(r"[^\W\d_]{4,}")
TOKEN = re.compile(r"\w+")
FINAL = re.compile(r"\s*[.!?。！？]+$")
TYPOS_PER_WORD = 0.15  # of the words with four letters or more in a sentence with typos
ZONES = ("org", "com", "net", "de", "fr", "eu", "info", "io")
ORIGINAL_COPY = 0.05  # share of the copying noise that makes the target its own source
WRITTEN_AS = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ß": "ss"}
)
SYLLABLES = list(map("".join, product("bdfgklmnprstvwz", "aeiou", ("", "n", "r", "l", "s"))))
PLACEHOLDER = re.compile(f"[{''.join(NUMBERS + OTHERS)}]")


@dataclass(frozen=True)
class Noise:
    """The probability that a line has each kind of noise.

    That of `merge` is the probability that a pair is in a line of several.
    """

    case: float = 0.0
    typos: float = 0.0
    punctuation: float = 0.0
    merge: float = 0.0
    copy: float = 0.0
    names: float = 0.0
    plain: float = 0.0

    def __bool__(self) -> bool:
        return any(vars(self).values())


class NoisyLine(NamedTuple):
    """A pair of texts with noise, and the rows that it is made of."""

    source: str
    target: str
    rows: range


def add_noise(
    texts_of: Callable[[int], Pair],
    marked: Sequence[bool],
    noise: Noise,
    placeholders: Collection[str],
    generator: Random,
    known_tags: Collection[str] = (),
) -> list[NoisyLine]:
    """The lines that have noise; the pairs of other rows stay as they are, and are not read.

    `texts_of` gives the pair of a row, with placeholders. `marked` says for each row whether its
    pair has some; these always get others. `placeholders` are those of the tokenizer.
    `known_tags` before a source stay. Two to four pairs are merged if they have the same tags,
    which then stand there once, and if at most one is marked.
    """
    lines = []
    words = list[str]()  # invented names are made of them
    # A merged line has three pairs on average, so that fewer lines than pairs are merged.
    merged_lines = noise.merge / (3 - 2 * noise.merge)
    start = 0
    while start < len(marked):
        # What happens to the line; there is a draw for each kind, even if it is not used
        size = generator.randint(2, 4) if generator.random() < merged_lines else 1
        rows = range(start, min(start + size, len(marked)))
        start = rows.stop
        copy = generator.random() < noise.copy
        name = generator.random() < noise.names
        case = generator.random() < noise.case
        punctuation = generator.random() < noise.punctuation
        typos = generator.random() < noise.typos
        plain = generator.random() < noise.plain

        # Lines that stay as they are
        marked_pairs = sum(marked[rows.start : rows.stop])
        is_changed = any((copy, name, case, punctuation, typos, len(rows) > 1, marked_pairs))
        if marked_pairs > 1 or not is_changed:
            continue
        joined = join_pairs(map(texts_of, rows), known_tags)
        if joined is None:
            continue
        source_tags, target_tags, pair = joined

        # The noise
        if noise.names:
            words += words_of_shared_scripts(pair)
        if marked_pairs:
            pair = renumber(pair, placeholders, generator)
        if copy:
            pair = add_copies(pair, placeholders, generator)
        if name:
            pair = add_name(pair, invented_name(words or SYLLABLES, generator), generator)
        source, target = pair
        if case:
            all_small = generator.random() < 0.8
            source = source.lower() if all_small else source[:1].lower() + source[1:]
        if punctuation:
            source = FINAL.sub("", source) or source
        if typos:
            source = add_typos(source, generator)
        if plain:
            spans = invented_spans(source, generator)
            source = source.translate(spans)
            target = target.translate(spans)
        lines.append(NoisyLine(source_tags + source, target_tags + target, rows))
    return lines


def join_pairs(pairs: Iterable[Pair], known_tags: Collection[str]) -> tuple[str, str, Pair] | None:
    """The tags before the sources, those before the targets, and all of both sides without them.

    None where the pairs have different tags.
    """
    tags = set()
    sources = []
    targets = []
    for source, target in pairs:
        source_start = sentence_start(source, known_tags)
        target_start = sentence_start(target, known_tags)
        tags.add((source[:source_start], target[:target_start]))
        sources.append(source[source_start:])
        targets.append(target[target_start:])
    if len(tags) > 1:
        return None
    return *tags.pop(), (join_texts(sources), join_texts(targets))


def renumber(pair: Pair, placeholders: Collection[str], generator: Random) -> Pair:
    """The same pair with other placeholders of the same kind, so that all of them are learnt."""
    table: dict[str, str] = {}
    for kind in (NUMBERS, OTHERS):
        known = [each for each in kind if each in placeholders]
        table.update(zip(known, generator.sample(known, len(known)), strict=True))
    translation = str.maketrans(table)
    source, target = pair
    return source.translate(translation), target.translate(translation)


def add_copies(pair: Pair, placeholders: Collection[str], generator: Random) -> Pair:
    """A pair with a placeholder that is the same on both sides, or the target as its own source."""
    source, target = pair
    if generator.random() < ORIGINAL_COPY:
        return target, target
    kind = NUMBERS if generator.random() < 0.3 else OTHERS
    free = [each for each in kind if each in placeholders and each not in source]
    if not free:
        return pair
    placeholder = generator.choice(free)
    if names := shared_names(pair):
        return replace_word(generator.choice(names), placeholder, pair)
    where = generator.random()
    if where < 0.4:
        return f"{source} {placeholder}", f"{target} {placeholder}"
    if where < 0.6:
        return f"{placeholder} {source}", f"{placeholder} {target}"
    return insert_at_end(placeholder, pair, generator)


def add_name(pair: Pair, name: str, generator: Random) -> Pair:
    """A pair with this name instead of one on both sides, or before the final marks of both."""
    if names := shared_names(pair):
        return replace_word(generator.choice(names), name, pair)
    return insert_at_end(name, pair, generator)


def shared_names(pair: Pair) -> list[str]:
    """The words with a capital letter that stand once on each side."""
    source, target = pair
    in_source = Counter(TOKEN.findall(source))
    in_target = Counter(TOKEN.findall(target))
    names = []
    for word, count in in_source.items():
        if count == in_target[word] == 1 and len(word) > 1 and word[0].isupper():
            names.append(word)
    return names


def replace_word(old: str, new: str, pair: Pair) -> Pair:
    word = re.compile(rf"\b{old}\b")
    source, target = pair
    return word.sub(new, source), word.sub(new, target)


def insert_at_end(text: str, pair: Pair, generator: Random) -> Pair:
    """The pair with a text before its final marks; as it was if one of them is missing."""
    source, target = pair
    source_end = FINAL.search(source)
    target_end = FINAL.search(target)
    if not source_end or not target_end:
        return pair
    before, after = generator.choice([(" ", ""), (": ", ""), (", ", ""), (" (", ")"), (' "', '"')])
    inserted = before + text + after
    return (
        source[: source_end.start()] + inserted + source_end[0],
        target[: target_end.start()] + inserted + target_end[0],
    )


def words_of_shared_scripts(pair: Pair) -> list[str]:
    """The words in letters that both sides have, such as Latin ones.

    A name in other letters would not be copied.
    """
    source, target = pair
    source_words = WORD.findall(source)
    target_words = WORD.findall(target)
    source_scripts = {script(word[0]) for word in source_words}
    shared = source_scripts.intersection(script(word[0]) for word in target_words)
    return [word for word in source_words + target_words if script(word[0]) in shared]


@lru_cache(10_000)
def script(letter: str) -> str:
    return unicodedata.name(letter, "").split(" ")[0]


def invented_name(words: Sequence[str], generator: Random) -> str:
    """One to three words with a capital letter, each from the ends of two of these words."""
    parts = []
    for _ in range(generator.choice((1, 1, 1, 2, 2, 3))):
        first = generator.choice(words)
        last = generator.choice(words)
        beginning = first[: generator.randint(1, 6)]
        ending = last[-generator.randint(1, 6) :]
        parts.append((beginning + ending).capitalize())
    return " ".join(parts)


def invented_spans(text: str, generator: Random) -> dict[int, str]:
    """What may stand for each placeholder of a text, for str.translate."""
    spans = {}
    for placeholder in dict.fromkeys(PLACEHOLDER.findall(text)):
        invent = invented_number if placeholder in NUMBERS else invented_address
        spans[ord(placeholder)] = invent(generator)
    return spans


def invented_number(generator: Random) -> str:
    """A number, time, date or sum."""
    hour = generator.randint(0, 23)
    minute = generator.randint(0, 59)
    day = generator.randint(1, 31)
    month = generator.randint(1, 12)
    decimal = f"{digits(generator, 1, 3)}{generator.choice('.,')}{digits(generator, 1, 2)}"
    year = generator.randint(1500, 2100)
    amount = f"{digits(generator, 1, 3)} {generator.choice('%€$')}"
    return generator.choice(
        [
            digits(generator, 1, 2),
            digits(generator, 3, 4),
            digits(generator, 1, 6),
            str(year),
            f"{hour}:{minute:02}",
            f"{day}.{month}.{year}",
            amount,
            decimal,
        ]
    )


def invented_address(generator: Random) -> str:
    """The address of a person or page, a variable, a tag, a handle or code."""

    def name(syllables: int) -> str:
        return "".join(generator.choices(SYLLABLES, k=generator.randint(1, syllables)))

    host = f"{name(3)}{generator.choice(['', '-' + name(2)])}.{generator.choice(ZONES)}"
    person = name(3)
    person += generator.choice(["", f".{name(3)}", f"_{name(2)}", digits(generator, 1, 3)])
    page = generator.choice(["https://", "https://www.", "www.", "http://"]) + host
    paths = ["", "/", f"/{name(3)}", f"/{name(2)}/{name(3)}.html"]
    paths.append(f"/{name(2)}?{name(1)}={digits(generator, 1, 3)}")
    address = f"{person}@{host}"
    url = page + generator.choice(paths)
    others = [f"{{{name(3)}}}", "%s", f"<{name(1)}>", f"@{person}", f"#{name(4)}"]
    others.append(f"`{name(2)} -{name(1)[0]}`")
    return generator.choice([address, url, url, address, generator.choice(others)])


def digits(generator: Random, least: int, most: int) -> str:
    """A number of `least` to `most` digits."""
    return str(generator.randint(10 ** (least - 1), 10**most - 1))


def add_typos(text: str, generator: Random) -> str:
    """The text with typos, if it has a word of four letters or more.

    Now and then it stays as it is: "ll" swapped is "ll".
    """
    if generator.random() < 0.15:
        if generator.random() < 0.5:
            return text.translate(WRITTEN_AS)
        decomposed = unicodedata.normalize("NFD", text)
        return unicodedata.normalize("NFC", re.sub("[\u0300-\u0308]", "", decomposed))
    words = list(LONG_WORD.finditer(text))
    if not words:
        return text
    chosen = [word for word in words if generator.random() < TYPOS_PER_WORD]
    for word in reversed(chosen or [generator.choice(words)]):
        text = text[: word.start()] + misspell(word[0], generator) + text[word.end() :]
    return text


def misspell(word: str, generator: Random) -> str:
    """A word with two letters swapped, or with one lost, doubled or replaced."""
    place = generator.randrange(1, len(word) - 1)
    before = word[:place]
    letter = word[place]
    after = word[place + 1 :]
    match generator.randrange(4):
        case 0:
            return before + after[0] + letter + after[1:]
        case 1:
            return before + after
        case 2:
            return before + letter * 2 + after
    return before + generator.choice("abcdefghijklmnopqrstuvwxyz") + after


class VariedPair(NamedTuple):
    """New pieces of a pair, and its row; a merged pair has the row of its first one."""

    source: Ids
    target: Ids
    row: int


@dataclass(frozen=True)
class Variation:
    """Subword sampling of strength `sampling` (0 turns it off) and noise.

    `longest` are the most pieces of a source and of a target.
    """

    tokenizers: Tokenizers
    sampling: float
    noise: Noise
    longest: tuple[int, int]

    def vary(
        self, pairs: ParallelDataset, rows: np.ndarray, least: int, seed: int
    ) -> list[VariedPair]:
        """New pieces of some rows, a pure function of the arguments.

        Merging leaves at least `least` pairs. If a side would get longer than any of the corpus,
        its pair is left as it is stored: the model may have no embedding for later positions.
        """
        sources = pairs.sentences("source", rows)
        targets = pairs.sentences("target", rows)
        stored = map(VariedPair, sources.rows(), targets.rows(), rows.tolist())
        varied = dict(enumerate(stored))  # by their places in `rows`
        lines = self.varied_lines(pairs, rows, sources, seed)
        new_sources = self.encode(0, [line.source for line in lines], seed)
        new_targets = self.encode(1, [line.target for line in lines], seed + 1)
        spare = len(rows) - least  # how many pairs merging may cost
        for line, source, target in zip(lines, new_sources, new_targets, strict=True):
            merged = len(line.rows) - 1
            is_too_long = len(source) > self.longest[0] or len(target) > self.longest[1]
            if is_too_long or merged > spare:
                continue
            spare -= merged
            first, *others = line.rows
            varied[first] = VariedPair(np.asarray(source), np.asarray(target), int(rows[first]))
            for place in others:
                del varied[place]
        return list(varied.values())

    def varied_lines(
        self, pairs: ParallelDataset, rows: np.ndarray, sources: Sentences, seed: int
    ) -> list[NoisyLine]:
        """The lines that get new pieces: those with noise, and with subword sampling all others."""

        def texts_of(row: int) -> Pair:
            ((source, target),) = self.tokenizers.protect_pairs([pairs.texts(int(rows[row]))])
            return source.text, target.text

        lines: list[NoisyLine] = []
        if self.noise:
            tokenizer = self.tokenizers.source
            row_of_piece = np.repeat(np.arange(len(rows)), sources.lengths)
            marked = np.zeros(len(rows), bool)
            marked[row_of_piece[np.isin(sources.ids, tokenizer.placeholder_ids)]] = True
            lines = add_noise(
                texts_of,
                marked.tolist(),
                self.noise,
                tokenizer.placeholders,
                Random(seed + 2),
                tokenizer.tags,
            )
        if self.sampling:
            others = set(range(len(rows)))
            for line in lines:
                others.difference_update(line.rows)
            for row in sorted(others):
                source, target = texts_of(row)
                lines.append(NoisyLine(source, target, range(row, row + 1)))
        return lines

    def encode(self, side: int, texts: list[str], seed: int) -> list[list[int]]:
        tokenizer = self.tokenizers[side]
        if self.sampling:
            return tokenizer.sample_all(texts, self.sampling, seed)
        return tokenizer.encode_all(texts, 1)

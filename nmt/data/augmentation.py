"""What is new in a batch in each epoch: pieces that are sampled, and noise, for people type what no clean corpus has.

- case: a source in small letters (capitals are encoded as small letters, see nmt/data/text_filter.py);
- typos: letters of source words swapped, lost, doubled or replaced, and ä written ae or a;
- punctuation: a source without its last full stop, question mark or exclamation mark;
- merge: two to four pairs of a batch in one line;
- copy: a word that stands on both sides becomes a placeholder or an invented name, a placeholder is put at the
  beginning or end of both sides, or the target is its own source (Currey et al. 2017), so that copying is learnt;
- plain: invented numbers, addresses and the like as text instead of the placeholders of a pair, so that the model also
  copies them where no text filter runs, as in Argos Translate.

Doubled spaces need no noise: the tokenizer reads them as one. All is a function of the texts and the generator.
"""

import re
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain
from random import Random
from typing import NamedTuple

import numpy as np

from nmt.data.tags import sentence_start
from nmt.data.text_filter import NUMBERS, OTHERS
from nmt.data.tokenizer import Tokenizer, Tokenizers

Ids = np.ndarray  # int32, one sentence
WORD = re.compile(r"[^\W\d_]+")
FINAL = re.compile(r"\s*[.!?。！？]+$")
TYPOS_PER_WORD = 0.15  # in a sentence with typos, of words with four letters or more; at least one
ZONES = ("org", "com", "net", "de", "fr", "eu", "info", "io")
ORIGINAL_COPY = 0.05  # of the copying noise: the target as its own source
WRITTEN_AS = {"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ß": "ss"}
SYLLABLES = [
    first + vowel + last for first in "bdfgklmnprstvwz" for vowel in "aeiou" for last in ("", "n", "r", "l", "s")
]
MARK = re.compile(f"[{''.join(NUMBERS + OTHERS)}]")


@dataclass(frozen=True)
class Noise:
    """The probability of each kind of noise, for a sentence; of `merge`, for a batch."""

    case: float = 0.0
    typos: float = 0.0
    punctuation: float = 0.0
    merge: float = 0.0
    copy: float = 0.0
    plain: float = 0.0

    def __bool__(self) -> bool:
        return any((self.case, self.typos, self.punctuation, self.merge, self.copy, self.plain))


class NoisyPair(NamedTuple):
    """A pair of texts, the rows that it is made of, and whether it is more than these joined."""

    source: str
    target: str
    rows: Sequence[int]
    changed: bool


def add_noise(
    pairs: Sequence[tuple[str, str]],
    noise: Noise,
    marks: Collection[str],
    generator: Random,
    known_tags: Collection[str] = (),
) -> list[NoisyPair]:
    """Pairs, fewer where they are merged, with noise; `marks`: the placeholders that the tokenizer has.

    `known_tags` before a source stay; pairs are merged if they have the same ones, which stand there once.
    """
    size = generator.randint(2, 4) if generator.random() < noise.merge else 1
    noisy = []
    starts = [sentence_start(pair[0], known_tags) if known_tags else 0 for pair in pairs]
    tags = [pair[0][:start] for pair, start in zip(pairs, starts, strict=True)]
    for rows in groups([pair[0] for pair in pairs], tags, size):
        before = tuple(" ".join(pairs[row][side] for row in rows) for side in (0, 1))
        source, target = " ".join(pairs[row][0][starts[row] :] for row in rows), before[1]
        source, target = renumber(source, target, marks, generator)
        if generator.random() < noise.copy:
            source, target = add_copies(source, target, marks, generator)
        if generator.random() < noise.case:
            source = source.lower() if generator.random() < 0.8 else source[:1].lower() + source[1:]
        if generator.random() < noise.punctuation:
            source = FINAL.sub("", source) or source
        if generator.random() < noise.typos:
            source = add_typos(source, generator)
        if generator.random() < noise.plain:
            spans = invented_spans(source, generator)
            source, target = source.translate(spans), target.translate(spans)
        source = tags[rows[0]] + source
        noisy.append(NoisyPair(source, target, rows, (source, target) != before))
    return noisy


def groups(sources: Sequence[str], tags: Sequence[str], size: int) -> list[range]:
    """Rows in groups of `size` to be merged; not those of which two have placeholders, or which have other tags."""
    found: list[range] = []
    for start in range(0, len(sources), size):
        rows = range(start, min(start + size, len(sources)))
        apart = sum(MARK.search(sources[row]) is not None for row in rows) > 1 or len({tags[row] for row in rows}) > 1
        found += [range(row, row + 1) for row in rows] if apart else [rows]
    return found


def renumber(source: str, target: str, marks: Collection[str], generator: Random) -> tuple[str, str]:
    """The same pair with other placeholders of the same kind, so that all of them are learnt."""
    if not MARK.search(source):
        return source, target
    table: dict[str, str] = {}
    for kind in (NUMBERS, OTHERS):
        own = [mark for mark in kind if mark in marks]
        table |= dict(zip(own, generator.sample(own, len(own)), strict=True))
    translation = str.maketrans(table)
    return source.translate(translation), target.translate(translation)


def add_copies(source: str, target: str, marks: Collection[str], generator: Random) -> tuple[str, str]:
    """A pair with something that is the same on both sides."""
    if generator.random() < ORIGINAL_COPY:
        return target, target
    kind = NUMBERS if generator.random() < 0.3 else OTHERS
    free = [mark for mark in kind if mark in marks and mark not in source]
    words = [word for word in WORD.findall(source) if word[0].isupper() and len(word) > 1]
    found = {word: re.compile(rf"(?<!\w){re.escape(word)}(?!\w)") for word in words}
    shared = [word for word in words if len(found[word].findall(source)) == len(found[word].findall(target)) == 1]
    if shared:
        word = found[generator.choice(shared)]
        name = "".join(generator.choices(SYLLABLES, k=generator.randint(1, 4))).capitalize()
        by_placeholder = free and generator.random() < 0.5
        new = generator.choice(free) if by_placeholder else name
        return word.sub(new, source), word.sub(new, target)
    if not free:
        return source, target
    placeholder = generator.choice(free)
    where = generator.random()
    if where < 0.4:
        return f"{source} {placeholder}", f"{target} {placeholder}"
    if where < 0.6:
        return f"{placeholder} {source}", f"{placeholder} {target}"
    ends = [FINAL.search(side) for side in (source, target)]
    if ends[0] and ends[1]:
        joint = generator.choice([" ", ": ", ", ", " (", ' "'])
        inner = joint + placeholder + {" (": ")", ' "': '"'}.get(joint, "")
        source = source[: ends[0].start()] + inner + ends[0][0]
        target = target[: ends[1].start()] + inner + ends[1][0]
    return source, target


def invented_spans(text: str, generator: Random) -> dict[int, str]:
    """What may stand for each placeholder of a text, for str.translate."""
    return {ord(mark): invented(mark in NUMBERS, generator) for mark in dict.fromkeys(MARK.findall(text))}


def invented(is_number: bool, generator: Random) -> str:
    """A number, time, date or sum; or an address of a person or page, a variable, a tag or a handle."""

    def digits(least: int, most: int) -> str:
        return str(generator.randint(10 ** (least - 1), 10**most - 1))

    def name(syllables: int) -> str:
        return "".join(generator.choices(SYLLABLES, k=generator.randint(1, syllables)))

    if is_number:
        hour, minute, day, month = (
            generator.randint(first, last) for first, last in ((0, 23), (0, 59), (1, 31), (1, 12))
        )
        decimal, year = f"{digits(1, 3)}{generator.choice('.,')}{digits(1, 2)}", generator.randint(1500, 2100)
        forms = [f"{hour}:{minute:02}", f"{day}.{month}.{year}", f"{digits(1, 3)} {generator.choice('%€$')}", decimal]
        return generator.choice([digits(1, 2), digits(3, 4), digits(1, 6), str(year), *forms])
    host = f"{name(3)}{generator.choice(['', '-' + name(2)])}.{generator.choice(ZONES)}"
    person = name(3) + generator.choice(["", f".{name(3)}", f"_{name(2)}", digits(1, 3)])
    page = f"{generator.choice(['https://', 'https://www.', 'www.', 'http://'])}{host}"
    path = generator.choice(
        ["", "/", f"/{name(3)}", f"/{name(2)}/{name(3)}.html", f"/{name(2)}?{name(1)}={digits(1, 3)}"]
    )
    others = [f"{{{name(3)}}}", "%s", f"<{name(1)}>", f"@{person}", f"#{name(4)}", f"`{name(2)} -{name(1)[0]}`"]
    return generator.choice(
        [f"{person}@{host}", page + path, page + path, f"{person}@{host}", generator.choice(others)]
    )


def add_typos(text: str, generator: Random) -> str:
    """The text with at least one typo, if it has a word of four letters or more."""
    if generator.random() < 0.15:
        if generator.random() < 0.5:
            return "".join(WRITTEN_AS.get(character, character) for character in text)
        return unicodedata.normalize("NFC", re.sub("[\u0300-\u0308]", "", unicodedata.normalize("NFD", text)))
    words = [match.span() for match in WORD.finditer(text) if match.end() - match.start() >= 4]
    if not words:
        return text
    chosen = [span for span in words if generator.random() < TYPOS_PER_WORD] or [generator.choice(words)]
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


@dataclass(frozen=True)
class Variation:
    """Subword sampling of strength `sampling` (0 = off) and noise; `longest`: most pieces of a source and a target."""

    tokenizers: Tokenizers
    sampling: float
    noise: Noise
    longest: tuple[int, int]

    def vary(
        self, texts: list[tuple[str, str]], stored: tuple[list[Ids], list[Ids]], seed: int
    ) -> tuple[list[Ids], list[Ids]]:
        """New pieces of some pairs, a pure function of the arguments; merged pairs are fewer.

        A pair of which a side gets longer than any of the corpus is replaced by the stored one: the model may have no
        embedding for later positions.
        """
        protected = self.tokenizers.protect_pairs(texts)
        pairs = [NoisyPair(source.text, target.text, [row], False) for row, (source, target) in enumerate(protected)]
        if self.noise:
            plain, source = [(pair.source, pair.target) for pair in pairs], self.tokenizers.source
            noisy = add_noise(plain, self.noise, source.marks, Random(seed + 2), source.tags)
            divided = [
                [pair] if self.fits(clean_ids(pair, stored)) else [pairs[row] for row in pair.rows] for pair in noisy
            ]
            pairs = list(chain.from_iterable(divided))
        clean = [clean_ids(pair, stored) for pair in pairs]
        sides = [
            self.encode(tokenizer, side, pairs, [ids[side] for ids in clean], seed + side)
            for side, tokenizer in enumerate(self.tokenizers)
        ]
        varied = [new if self.fits(new) else old for new, old in zip(zip(*sides, strict=True), clean, strict=True)]
        return [source for source, _ in varied], [target for _, target in varied]

    def encode(self, tokenizer: Tokenizer, side: int, pairs: list[NoisyPair], clean: list[Ids], seed: int) -> list[Ids]:
        """One side of the pairs: sampled pieces, or the stored ones of what has not changed."""
        texts = [pair.target if side else pair.source for pair in pairs]
        if self.sampling:
            return [np.asarray(ids) for ids in tokenizer.sample_all(texts, self.sampling, seed)]
        new = iter(tokenizer.encode_all([text for text, pair in zip(texts, pairs, strict=True) if pair.changed], 1))
        return [np.asarray(next(new)) if pair.changed else ids for pair, ids in zip(pairs, clean, strict=True)]

    def fits(self, pair: Sequence[Ids]) -> bool:
        """Whether no side is longer than any of the corpus."""
        return len(pair[0]) <= self.longest[0] and len(pair[1]) <= self.longest[1]


def clean_ids(pair: NoisyPair, stored: tuple[list[Ids], list[Ids]]) -> tuple[Ids, ...]:
    return tuple(np.concatenate([ids[row] for row in pair.rows]) for ids in stored)

"""Single words with their translations, found in a parallel corpus; and its shortest pairs.

People type single words, with and without a mark behind them, which hardly any corpus has as lines of their own. Which
words translate each other is estimated from the sentences that have them by IBM Model 1 (Brown et al. 1993, section
4.2) in both directions:

p(t | s) ← Σ c(t | s) / Σ_t c(t | s),   c(t | s) = p(t | s) / Σ_s' p(t | s')   over the source words s' of a sentence

Deviations: a word counts once in a sentence, and there is no empty source word. p begins at 1 for every two words that
stand in one pair.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nmt.data.dataset import ParallelDataset
from nmt.data.files import report_write_errors
from nmt.data.known_words import MARKS, KnownWords, begins_sentence, shared_marks
from nmt.data.parallel_text import read_pairs
from nmt.data.protection import OTHERS, protect
from nmt.data.tags import sentence_start
from nmt.data.tokenizer import Tokenizers
from nmt.data.write_ids import write_datasets

SIGNS = "".join(chr(code) for code in range(0x300, 0x20FF) if unicodedata.category(chr(code)).startswith("M"))
LETTERS = rf"(?:[^\W\d_][{SIGNS}]*)+"  # with the vowel signs of Indic scripts, and accents that stand apart
WORD = re.compile(rf"{LETTERS}(?:['’-]{LETTERS})*")
ROUNDS = 6  # of Model 1
MIN_SENTENCES = 5  # that a word must stand in
MIN_SCORE = 0.28  # of a translation: p(t | s) · ∛p(s | t), for one target word is often that of many source words
MAX_LINKS = 8_000_000  # pairs of words in the sentences that are read: 160,000 sentences of eight words, half a GiB
MAX_PAIRS = 500_000
MAX_WORDS = 16  # of a longer sentence nothing is learnt
SHORT = (2, 4)  # words of the longest source and target of a short pair
MAX_CHARACTERS = 20  # of each word, and of a line without spaces
MAX_SHORT = 20_000
LINES_OF_ONE_WORD = 4  # how often each stands: greetings are among them, and what people type is more often theirs
Pair = tuple[str, str]


class Words(NamedTuple):
    """The words of sentences on one side, each word once in a sentence."""

    names: list[str]  # the word of each number
    numbers: np.ndarray  # [W]: the words of all sentences, one after another
    counts: np.ndarray  # [N]: how many words each sentence has

    @classmethod
    def of(cls, sentences: Iterable[Collection[str]]) -> "Words":
        """Number the words of some sentences."""
        numbers: dict[str, int] = {}
        rows = [[numbers.setdefault(word, len(numbers)) for word in dict.fromkeys(words)] for words in sentences]
        flat = np.fromiter((number for row in rows for number in row), np.int64)
        return cls(list(numbers), flat, np.fromiter(map(len, rows), np.int64, len(rows)))


def write_word_pairs(
    tokenizers: Tokenizers, corpus: Path, source: str, target: str, max_pieces: int, folder: Path
) -> None:
    """Write the word pairs of a corpus folder: words.LANGUAGE, and words.arrow if there are any."""
    files = (corpus / f"train.{source}", corpus / f"train.{target}")
    pairs = find_word_pairs(files, tokenizers.source.tags, tokenizers.source.known)
    with report_write_errors(folder):
        for side, language in enumerate((source, target)):
            text = "".join(pair[side] + "\n" for pair in pairs)
            (folder / f"words.{language}").write_text(text, encoding="utf-8")
    if pairs:
        write_datasets(tokenizers, folder, source, target, ["words"], max_pieces, folder)


def open_word_pairs(folder: Path | None) -> ParallelDataset | None:
    """What `write_word_pairs` wrote; None without a folder, or if the corpus has no word pairs."""
    path = folder / "words.arrow" if folder else None
    return ParallelDataset(path) if path and path.exists() else None


def find_word_pairs(files: tuple[Path, Path], tags: Collection[str], known: KnownWords | None = None) -> list[Pair]:
    """The words of two corpus files with their translations, the same with a mark, and the shortest pairs of lines.

    `tags` before a source belong to each of its words, so that <2fr> and <2cs> have translations of their own. With
    words that are `known`, the mark of a single word is a placeholder, as it is in use (nmt/data/protection.py).
    """
    stride, short_stride = strides(files)
    pairs = list(islice((pair for pair in read_pairs(*files) if most_links(pair)), 0, None, stride))
    short = list(islice((pair for pair in read_pairs(*files) if is_short(pair)), 0, None, short_stride))
    words = translations(pairs, tags)
    short += without_marks(short)
    short += (LINES_OF_ONE_WORD - 1) * [pair for pair in short if is_one_word(pair[0])]
    said = {source.lower() for source, _ in short}  # what a line says about a word is better than an estimate
    words = [(source, target) for source, target in words if source.lower() not in said]
    if known is None or not any(map(known.has_mark, MARKS)):
        return [*words, *as_sentences(words, shared_marks(pairs), tags), *short]
    mark = OTHERS[0]
    marked = [(source + mark, target + mark) for source, target in words if not sentence_start(source, tags)]
    return [*words, *marked, *(as_in_use(pair, tags, known) for pair in short)]


def strides(files: tuple[Path, Path]) -> tuple[int, int]:
    """(n, m): every n-th pair is learnt from, and every m-th short one is taken, so that there are not too many."""
    links = pairs = short = 0
    for pair in read_pairs(*files):
        more = most_links(pair)
        links, pairs, short = links + more, pairs + (more > 0), short + is_short(pair)
    return max(1, -(-links // MAX_LINKS), -(-pairs // MAX_PAIRS)), max(1, -(-short // MAX_SHORT))


def most_links(pair: Pair) -> int:
    """How many pairs of words a pair has, counted by spaces; 0 if it is too long to learn from."""
    words = [text.count(" ") + 1 for text in pair]
    return words[0] * words[1] if max(words) <= MAX_WORDS else 0


def is_short(pair: Pair) -> bool:
    """Whether both sides have few words, tags not counted."""
    sides = zip(map(between_spaces, pair), SHORT, strict=True)
    return all(0 < len(side) <= most and max(map(len, side)) <= MAX_CHARACTERS for side, most in sides)


def is_one_word(text: str) -> bool:
    """Whether a text is a word, and at most tags and marks beside it."""
    return sum(any(map(str.isalpha, part)) for part in between_spaces(text)) == 1


def between_spaces(text: str) -> list[str]:
    """What stands between the spaces of a text, without tags."""
    return [part for part in text.split() if not part.startswith("<")]


def translations(pairs: Sequence[Pair], tags: Collection[str]) -> list[Pair]:
    """The words of some pairs, each with its best translation."""
    starts = [sentence_start(source, tags) for source, _ in pairs]
    sources = split_into_words([source[start:] for (source, _), start in zip(pairs, starts, strict=True)])
    targets = split_into_words([target for _, target in pairs])
    rows = [row for row in range(len(pairs)) if max(len(sources[row]), len(targets[row])) <= MAX_WORDS]
    before = [pairs[row][0][: starts[row]] for row in rows]
    sides = [
        Words.of([tag + word for word in words[row]] for tag, row in zip(before, rows, strict=True))
        for words in (sources, targets)
    ]
    lengths = {tag + word: len(tag) for tag, row in zip(before, rows, strict=True) for word in sources[row]}
    found = best_translations(*sides)
    return [
        (source, target[lengths[source] :])
        for source, target in found
        if max(len(source) - lengths[source], len(target) - lengths[source]) <= MAX_CHARACTERS
    ]


def as_sentences(words: Iterable[Pair], marks: Sequence[str], tags: Collection[str]) -> list[Pair]:
    """Words as sentences of one word, such as *Who?*, the marks in turn."""
    sentences = []
    for (source, target), mark in zip(words, cycle(marks), strict=False):
        start = sentence_start(source, tags)
        sentences.append((source[:start] + capitalized(source[start:]) + mark, capitalized(target) + mark))
    return sentences


def without_marks(pairs: Iterable[Pair]) -> list[Pair]:
    """Those pairs of which both sides end in one of . ? !, without it."""
    with_marks = [pair for pair in pairs if all(text[-1] in MARKS for text in pair)]
    cut = [(source[:-1].rstrip(), target[:-1].rstrip()) for source, target in with_marks]
    return [pair for pair in cut if all(map(WORD.search, pair))]


def as_in_use(pair: Pair, tags: Collection[str], known: KnownWords) -> Pair:
    """A pair as its source is read in use: a single word with its usual capitals, a placeholder for the mark behind it.

    The mark at the end of the target gives way too. The pair stays if the source has a mark and the target none, is in
    capitals, or has something else to be replaced.
    """
    source, target = pair
    protected = protect(source, tags, known)
    last, marks = protected.text[-1:], "".join(protected.spans.values())
    if protected.capitals or marks.strip(MARKS) or (marks and target[-1] not in MARKS):
        return pair
    return protected.text, target.rstrip(MARKS) + last if marks else target


def capitalized(word: str) -> str:
    """A word with a capital first letter; the others stay."""
    return word[:1].upper() + word[1:]


def split_into_words(texts: Sequence[str]) -> list[list[str]]:
    """The words of each text; one that begins a sentence with the capital letters that it mostly has elsewhere."""
    found = [[(match[0], begins_sentence(text, match.start())) for match in WORD.finditer(text)] for text in texts]
    forms = Counter(word for words in found for word, begins in words if not begins)
    usual = {word.lower(): word for word, _ in reversed(forms.most_common())}
    return [[usual.get(word.lower(), word.lower()) if begins else word for word, begins in words] for words in found]


def best_translations(source: Words, target: Words) -> list[Pair]:
    """The best translation of each source word that has a good one, frequent words first."""
    links = source.counts * target.counts  # of each sentence
    sentence = np.repeat(np.arange(len(links)), source.counts)  # of each source word
    each = target.counts[sentence]
    source_word = np.repeat(np.arange(len(source.numbers)), each)  # [L]: places of the two words of each link
    first = np.cumsum(target.counts) - target.counts
    target_word = np.repeat(first[sentence] - np.cumsum(each) + each, each) + np.arange(links.sum())
    joint = source.numbers[source_word] * len(target.names) + target.numbers[target_word]
    both, link = np.unique(joint, return_inverse=True)  # [D] different links, and which of them each link is
    one, other = np.divmod(both, max(1, len(target.names)))
    score = model_1(link, target_word, one) * np.cbrt(model_1(link, source_word, other))
    frequency = np.bincount(source.numbers, minlength=len(source.names))
    good = np.flatnonzero((score >= MIN_SCORE) & (frequency[one] >= MIN_SENTENCES))
    best = good[np.lexsort((-score[good], one[good]))]
    best = best[np.unique(one[best], return_index=True)[1]]
    best = best[np.argsort(-frequency[one[best]], kind="stable")]
    return [(source.names[one[row]], target.names[other[row]]) for row in best]


def model_1(link: np.ndarray, given: np.ndarray, condition: np.ndarray) -> np.ndarray:
    """p(t | s) of each different link [D] after ROUNDS of expectation and maximisation.

    link [L]: which different link each is; given [L]: the place of its t; condition [D]: the word s of each.
    """
    probability = np.ones(len(condition))
    for _ in range(ROUNDS):
        expected = probability[link]
        expected /= np.bincount(given, expected)[given]
        counts = np.bincount(link, expected, len(condition))
        probability = counts / np.bincount(condition, counts)[condition]
    return probability

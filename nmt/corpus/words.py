"""From pieces to words: attention is between SentencePiece pieces, heatmaps are between words.

Words are separated by spaces, and punctuation at their edges is split off; in text that is already
tokenized, they are separated by spaces alone. In a script without spaces (Chinese, Japanese, Thai,
…) a "word" would be a whole sentence, so each piece is a word of its own; tokenized text is split
at spaces in every script.

Legend: S source pieces, T target pieces; a span is (first character, one past the last).
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

Span = tuple[int, int]
# p_t, first and last word of the window, as columns of the weights
WindowSpan = tuple[float, float, float]

SPACE = "▁"
UNKNOWN = "⁇"
END = "</s>"
BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
# Scripts without spaces between words: Thai, Lao, Myanmar, Khmer; kana with their extensions;
# ideographs, the supplementary planes included.
SPACELESS_CHARACTERS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
    "\u3005-\u3005\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
# Before a word that has a capital letter anyway; > ends a tag.
SENTENCE_END = re.compile(r"(?:^|[.!?:…][\s\"'»“”„«)]*|[\"„“«»‚‘¿¡>–—-])\s*$")
SPACELESS = re.compile(f"[{SPACELESS_CHARACTERS}]")
SPACELESS_ENDS = "。！？"  # the ends of sentences that no space follows


def join_texts(texts: Sequence[str]) -> str:
    """One line of texts that are not empty, with spaces between them where their script has any."""
    line = ""
    for text in texts:
        if line and line[-1] not in SPACELESS_ENDS and not SPACELESS.search(line[-1] + text[0]):
            line += " "
        line += text
    return line


def piece_spans(pieces: list[str]) -> tuple[str, list[Span]]:
    """The text that pieces spell, and each piece's span in it.

    Leading space is removed, `<unk>` becomes ⁇, and a byte that is no part of valid UTF-8 becomes
    U+FFFD. Each byte of one character gets the character's span.
    """
    text = ""
    spans: list[Span] = []
    index = 0
    while index < len(pieces):
        # A run of bytes: characters that are not in the vocabulary.
        run = []
        while index < len(pieces) and (match := BYTE.fullmatch(pieces[index])):
            run.append(int(match[1], 16))
            index += 1
        for character in bytes(run).decode(errors="surrogateescape"):
            span = (len(text), len(text) + 1)
            if "\ud800" <= character <= "\udfff":
                spans.append(span)
                text += "\ufffd"
            else:
                spans += [span] * len(character.encode())
                text += character
        if run:
            continue

        surface = UNKNOWN if pieces[index] == "<unk>" else pieces[index].replace(SPACE, " ")
        if not text:
            surface = surface.lstrip(" ")
        spans.append((len(text), len(text) + len(surface)))
        text += surface
        index += 1
    return text, spans


def word_spans(text: str, tokenized: bool = False) -> list[Span]:
    """The spans of the words of a text; each punctuation character at a word's edge is a word."""
    if tokenized:
        return [match.span() for match in re.finditer(r"[^ \t]+", text)]
    spans: list[Span] = []
    for match in re.finditer(r"\S+", text):
        start, end = match.span()
        first = start
        last = end
        while first < end and is_punctuation(text[first]):
            first += 1
        while last > first and is_punctuation(text[last - 1]):
            last -= 1
        edges = [*range(start, first + 1), *range(last, end + 1)]
        if first == last:  # punctuation alone
            edges = list(range(start, end + 1))
        spans += pairwise(edges)
    return spans


def count_words(text: str) -> int:
    """Words and punctuation marks of a text; in a script without spaces each character is one."""
    count = 0
    for start, end in word_spans(text):
        count += end - start if SPACELESS.search(text, start, end) else 1
    return count


def has_letters(text: str) -> bool:
    return any(character.isalpha() for character in text)


def is_punctuation(character: str) -> bool:
    """Unicode category P or S, but not what replaces unknown pieces and invalid bytes."""
    return unicodedata.category(character)[0] in "PS" and character not in (UNKNOWN, "\ufffd")


def split_into_words(
    pieces: list[str], tokenized: bool = False
) -> tuple[list[str], list[Span], np.ndarray]:
    """The words of pieces, their spans, and the `word_fractions` [pieces words].

    In a script without spaces the pieces are the words.
    """
    text, of_pieces = piece_spans(pieces)
    of_words: list[Span] = []
    for start, end in word_spans(text, tokenized):
        if tokenized or not SPACELESS.search(text[start:end]):
            of_words.append((start, end))
            continue
        parts = [(max(start, first), min(end, last)) for first, last in of_pieces]
        of_words += sorted({part for part in parts if part[0] < part[1]})
    words = [text[start:end] for start, end in of_words]
    return words, of_words, word_fractions(of_pieces, of_words)


def word_fractions(of_pieces: list[Span], of_words: list[Span]) -> np.ndarray:
    """The fraction of each piece's characters in each word, [pieces words]; every row sums to 1.

    A piece without a character of its own (a lone ▁) belongs to the word that follows it, at the
    end to the last. Without any word there are no columns.
    """
    matrix = np.zeros((len(of_pieces), len(of_words)))
    if not of_words:
        return matrix
    starts, ends = np.array(of_words).T
    firsts, lasts = np.array(of_pieces).reshape(-1, 2).T[:, :, None]
    matrix += np.clip(np.minimum(ends, lasts) - np.maximum(starts, firsts), 0, None)
    for row in np.flatnonzero(~matrix.any(1)):
        following = int(np.searchsorted(ends, of_pieces[row][1]))
        matrix[row, min(following, len(of_words) - 1)] = 1
    return matrix / matrix.sum(1, keepdims=True)


@dataclass(frozen=True)
class WordPair:
    """The words of a sentence pair, computed once for the weights of all layers and heads."""

    source: list[str]
    target: list[str]
    source_fractions: np.ndarray  # [S, source words]: `word_fractions`
    target_fractions: np.ndarray  # [T, target words]

    @classmethod
    def from_pieces(
        cls, source_pieces: list[str], target_pieces: list[str], tokenized: bool = False
    ) -> "WordPair":
        """The words on both sides; the piece lists hold no </s>."""
        source, _, source_fractions = split_into_words(source_pieces, tokenized)
        target, _, target_fractions = split_into_words(target_pieces, tokenized)
        return cls(source, target, source_fractions, target_fractions)

    @property
    def columns(self) -> list[str]:
        """Labels of the columns of `merge`: the source words and </s>."""
        return [*self.source, END]

    @cached_property
    def piece_columns(self) -> np.ndarray:
        """[S+1]: the column of the word of each source piece, and of </s>.

        All pieces of a word have its column. A piece that is in two words is between their columns,
        by characters, as its weight is divided.
        """
        return np.append(self.source_fractions @ np.arange(len(self.source)), len(self.source))

    def merge(self, weights: np.ndarray) -> np.ndarray:
        """Weights between words: sums over the pieces of a source word, means over a target word's.

        weights [… T or T+1, S+1] → [… target words, source words + 1]. The last column is the
        source's </s>, so that a row sums to the mean of its pieces' rows; a row T, of the target's
        </s>, is dropped. A piece in two words divides its weight by characters. Raises ValueError
        if the shapes disagree.
        """
        rows, columns = weights.shape[-2:]
        pieces = len(self.target_fractions)
        width = len(self.source_fractions) + 1
        if columns != width or rows not in (pieces, pieces + 1):
            raise ValueError(
                f"Weights {rows} × {columns} do not fit {pieces} target and "
                f"{width - 1} source pieces."
            )
        means = self.target_fractions / np.maximum(self.target_fractions.sum(axis=0), 1e-12)
        weights = means.T @ weights[..., :pieces, :].astype(np.float64)
        matrix = weights[..., :-1] @ self.source_fractions
        return np.concatenate([matrix, weights[..., -1:]], axis=-1)

    def window_spans(self, p_t: np.ndarray, radius: float) -> list[WindowSpan | None]:
        """The window |s − p_t| ≤ radius of each target word as (p_t, first word, last word).

        All three are columns of `merge`; None for a word without pieces. p_t [T or T+1] has a
        source position for each target piece; that of the target's </s> is dropped.

        p_t of a word is the mean over its pieces, as for the weights. Its window is the union of
        its pieces' windows, not a mean: else weight could be outside it. A source word with one
        piece inside belongs to it. Raises ValueError if the shapes disagree.
        """
        num_pieces = len(self.target_fractions)
        if p_t.shape not in ((num_pieces,), (num_pieces + 1,)):
            raise ValueError(f"p_t {p_t.shape} does not fit {num_pieces} target pieces.")
        end = len(self.source_fractions)
        num_words = len(self.source)
        words_of_piece = [np.flatnonzero(fractions) for fractions in self.source_fractions]
        words_of_piece.append(np.array([num_words]))  # </s>
        spans: list[WindowSpan | None] = []
        for fractions in self.target_fractions.T:
            pieces = np.flatnonzero(fractions)
            if not pieces.size:
                spans.append(None)
                continue
            centres = p_t[pieces].astype(np.float64)
            first = int(np.clip(np.ceil(centres - radius), 0, end).min())
            last = int(np.clip(np.floor(centres + radius), 0, end).max())
            columns = np.interp(centres, np.arange(end + 1), self.piece_columns)
            centre = np.average(columns, weights=fractions[pieces])
            first_word = words_of_piece[first].min(initial=num_words)
            last_word = words_of_piece[last].max(initial=0)
            spans.append((float(centre), float(first_word), float(last_word)))
        return spans

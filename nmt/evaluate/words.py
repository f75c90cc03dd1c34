"""From pieces to words: attention is about SentencePiece pieces, pictures and alignments are about words.

A word is what spaces separate, with punctuation at its edges set apart; in text that is already tokenised, what spaces
separate. A "word" in a script that writes no spaces (Chinese, Japanese, Thai, …) would be a whole sentence, so there
the pieces themselves stand as words; tokenised text keeps its spaces in every script.

Legend: S source pieces, T target pieces; a span is (first character, one past the last).
"""

import re
import unicodedata
from typing import NamedTuple

import numpy as np

Span = tuple[int, int]

SPACE, UNKNOWN, END = "▁", "⁇", "</s>"
BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
# Thai, Lao, Myanmar, Khmer; kana with their extensions; ideographs, the supplementary planes included.
SPACELESS = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
    "\u3005\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]"
)


def spans(pieces: list[str]) -> tuple[str, list[Span]]:
    """The text that pieces spell, and each piece's span in it; the bytes of one character each get its span.

    Leading space is removed, `<unk>` reads ⁇, and a byte that is no part of valid UTF-8 reads U+FFFD.
    """
    text, found = "", []
    index = 0
    while index < len(pieces):
        run = []
        while index < len(pieces) and (match := BYTE.fullmatch(pieces[index])):
            run.append(int(match[1], 16))
            index += 1
        for character, width in decode(bytes(run)):
            found += [(len(text), len(text) + 1)] * width
            text += character
        if not run:
            surface = UNKNOWN if pieces[index] == "<unk>" else pieces[index].replace(SPACE, " ")
            surface = surface if text else surface.lstrip(" ")
            found.append((len(text), len(text) + len(surface)))
            text += surface
            index += 1
    return text, found


def decode(run: bytes) -> list[tuple[str, int]]:
    """The characters of UTF-8 bytes, with their numbers of bytes; an invalid byte is a U+FFFD, as in SentencePiece."""
    characters, start = [], 0
    while start < len(run):
        for width in (1, 2, 3, 4):
            try:
                characters.append((run[start : start + width].decode("utf-8"), width))
                break
            except UnicodeDecodeError:
                continue
        else:
            width = 1
            characters.append(("\ufffd", width))
        start += width
    return characters


def words(text: str, tokenised: bool = False) -> list[Span]:
    """The spans of the words of a text; each punctuation character at a word's edge is a word of its own."""
    found: list[Span] = []
    for match in re.finditer(r"[^ \t]+" if tokenised else r"\S+", text):
        start, end = match.span()
        first, last = start, end
        while not tokenised and first < end and is_punctuation(text[first]):
            first += 1
        while not tokenised and last > first and is_punctuation(text[last - 1]):
            last -= 1
        found += [(place, place + 1) for place in range(start, first)]
        found += [(first, last)] if first < last else []
        found += [(place, place + 1) for place in range(last, end)]
    return found


def is_punctuation(character: str) -> bool:
    """Unicode category P or S; what stands for an unknown letter is none."""
    return unicodedata.category(character)[0] in "PS" and character not in (UNKNOWN, "\ufffd")


def units(pieces: list[str], tokenised: bool = False) -> tuple[list[str], list[Span], list[Span]]:
    """The words of pieces, the words' spans and the pieces' spans; without spaces the pieces are the words."""
    text, piece_spans = spans(pieces)
    word_spans: list[Span] = []
    for start, end in words(text, tokenised):
        if tokenised or not SPACELESS.search(text[start:end]):
            word_spans.append((start, end))
            continue
        parts = [(max(start, first), min(end, last)) for first, last in piece_spans]
        word_spans += sorted({part for part in parts if part[0] < part[1]})
    return [text[start:end] for start, end in word_spans], word_spans, piece_spans


def shares(piece_spans: list[Span], word_spans: list[Span]) -> np.ndarray:
    """How much of each piece belongs to each word, [pieces words], by characters; every row sums to 1.

    A piece without a character of its own (a lone ▁) belongs to the word that follows it, at the end to the last.
    Without any word there are no columns.
    """
    matrix = np.zeros((len(piece_spans), len(word_spans)))
    if not word_spans:
        return matrix
    starts, ends = np.array(word_spans).T
    for row, (first, last) in zip(matrix, piece_spans, strict=True):
        row[:] = np.clip(np.minimum(ends, last) - np.maximum(starts, first), 0, None)
        if not row.any():
            row[min(int(np.searchsorted(ends, last, side="right")), len(word_spans) - 1)] = 1
        row /= row.sum()
    return matrix


class WordPair(NamedTuple):
    """The words of a pair of sentences and its pieces' shares in them, made once for the weights of many heads."""

    source: list[str]
    target: list[str]
    across: np.ndarray  # [S, source words]; every row sums to 1
    down: np.ndarray  # [T, target words]; every column sums to 1

    def merge(self, weights: np.ndarray) -> np.ndarray:
        """weights [… T or T+1, S+1] → [… target words, source words + 1]; `merge` below says how."""
        rows, columns = weights.shape[-2:]
        pieces, width = len(self.down), len(self.across) + 1
        if columns != width or rows not in (pieces, pieces + 1):
            raise ValueError(f"Weights {rows} × {columns} do not fit {pieces} target and {width - 1} source pieces.")
        weights = self.down.T @ weights[..., :pieces, :].astype(np.float64)
        matrix = weights[..., :-1] @ self.across
        return np.concatenate([matrix, weights[..., -1:]], axis=-1)


def word_pair(source_pieces: list[str], target_pieces: list[str], tokenised: bool = False) -> WordPair:
    """The words on both sides; the piece lists hold no </s>."""
    source, source_spans, piece_spans = units(source_pieces, tokenised)
    across = shares(piece_spans, source_spans)
    target, target_spans, piece_spans = units(target_pieces, tokenised)
    down = shares(piece_spans, target_spans)
    return WordPair(source, target, across, down / np.maximum(down.sum(axis=0), 1e-12))  # a sum becomes a mean


def merge(
    weights: np.ndarray,
    source_pieces: list[str],
    target_pieces: list[str],
    tokenised: bool = False,
) -> tuple[np.ndarray, list[str], list[str]]:
    """Attention between words: the sum over the pieces of a source word, the mean over the pieces of a target word.

    weights [T or T+1, S+1]: the last column is the source's </s>, a row after the last piece is the target's. The
    result is (matrix, source words, target words); the source's </s> stays as the last column and word, so that a row
    sums to the mean of its pieces' rows. The row of the target's </s> is dropped. A piece that lies in two words
    divides its weight by characters. The piece lists hold no </s>; raises ValueError when the shapes disagree.
    """
    pair = word_pair(source_pieces, target_pieces, tokenised)
    return pair.merge(weights), [*pair.source, END], pair.target


def places(piece_spans: list[Span], word_spans: list[Span]) -> np.ndarray:
    """The word column at which each source piece and then </s> stands, [S+1]; all pieces of a word stand at its column.

    A piece that lies in two words stands between their columns, by characters, as its weight does in `shares`.
    """
    columns = shares(piece_spans, word_spans) @ np.arange(len(word_spans))
    return np.append(columns, len(word_spans))


def focus_in_words(
    centres: np.ndarray, radius: float, source_pieces: list[str], target_pieces: list[str], tokenised: bool = False
) -> list[tuple[float, float, float] | None]:
    """p_t and the window |s − p_t| ≤ radius between words: (p_t, first word, last word) in columns, per target word.

    centres [T or T+1]: p_t of each target piece, in source pieces; one of the target's </s> is dropped. p_t of a word
    is the mean over its pieces, as for the weights. Its window is all that any of its pieces could see, not a mean:
    else weight could stand outside it. A source word of which one piece is inside counts as seen. None stands for a
    word without pieces. Raises ValueError when the shapes disagree.
    """
    if centres.shape not in ((len(target_pieces),), (len(target_pieces) + 1,)):
        raise ValueError(f"Centres {centres.shape} do not fit {len(target_pieces)} target pieces.")
    _, source_spans, piece_spans = units(source_pieces, tokenised)
    columns = places(piece_spans, source_spans)
    end = len(piece_spans)
    words_of = [np.flatnonzero(share) for share in shares(piece_spans, source_spans)] + [np.array([len(source_spans)])]
    _, target_spans, piece_spans = units(target_pieces, tokenised)
    found: list[tuple[float, float, float] | None] = []
    for share in shares(piece_spans, target_spans).T:
        pieces = np.flatnonzero(share)
        if not pieces.size:
            found.append(None)
            continue
        seen = centres[pieces].astype(np.float64)
        first = int(np.clip(np.ceil(seen - radius), 0, end).min())
        last = int(np.clip(np.floor(seen + radius), 0, end).max())
        centre = np.average(np.interp(seen, np.arange(end + 1), columns), weights=share[pieces])
        edges = words_of[first].min(initial=len(source_spans)), words_of[last].max(initial=0)
        found.append((float(centre), float(edges[0]), float(edges[1])))
    return found

"""Warnings about a set as a whole: shifted or shuffled lines, swapped languages, damaged text. Nothing is left out.

Pairs are looked at in blocks of BLOCK. Sentences that belong together are long or short together: over aligned corpora
of seven languages the correlation of their log lengths is 0.51 to 0.98 in every block, in blocks shifted by a line it
is at most 0.20. The language of a line is judged by its pairs of characters, as they occur in the validation set. What
the validation set has as well (the entities of a tokenized corpus) is taken for the way the corpus is written.
"""

import re
from dataclasses import dataclass

import numpy as np

BLOCK = 500  # pairs
MIN_PAIRS = 200  # of a block that is judged, and of a validation set whose languages are learned
MIN_CORRELATION = 0.35
MIN_SPREAD = 0.05  # standard deviation of log lengths; sentences of one length tell nothing
MAX_SHIFT = 5  # lines
MIN_SHARE, MIN_LINES = 0.001, 3  # of lines with a fault of their text, for a warning
TIMES_VALID = 3  # and how much larger than in the validation set this share must be
SWAPPED_MARGIN = 10.0  # nats by which the languages of a pair fit better when they are exchanged
MIN_SWAPPED_SHARE = 0.005
BIGRAMS = 1 << 16  # hash values of two characters
# UTF-8 read as Latin-1 or Windows-1252: Ã or Â and a character that stands for a byte from 0x80 to 0xBF.
HIGH = "\u0080-\u00bf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ"
BROKEN = re.compile(f"Ã[{HIGH}]|Â[\u00a0-\u00bf]|â€|[ÐÑ][{HIGH}][ÐÑ][{HIGH}]|\ufffd")
ENTITY = re.compile(r"&(?:amp;)*(?:#[0-9]{1,6}|#[xX][0-9a-fA-F]{1,6}|amp|lt|gt|quot|apos|nbsp);")
CONTROLS = bytes(code for code in range(128) if (code < 32 and code not in b"\t\n\r") or code == 127)
CONTROL = re.compile(f"[{re.escape(CONTROLS.decode())}]")
# A line with a fault contains one of these, which are found quickly.
FAULTS = {
    "control characters": (CONTROL, ()),
    "characters of a wrong encoding, such as Ã¼ for ü": (BROKEN, ("Ã", "Â", "â€", "Ð", "Ñ", "\ufffd")),
    "HTML entities, such as &amp;": (ENTITY, ("&",)),
}


@dataclass
class Finding:
    """A fault of a set: what it is, and the number of the first pair that has it (in the order read, from 1)."""

    text: str
    number: int


class PairChecks:
    """Looks at the pairs of a set one after the other; `valid` are the checks of the validation set."""

    def __init__(self, valid: "PairChecks | None" = None) -> None:
        self.valid, self.read, self.blocks, self.unrelated = valid, 0, 0, 0
        self.sources: list[str] = []
        self.targets: list[str] = []
        self.faults = {name: [0, 0] for name in FAULTS}  # pairs with each, the number of the first
        self.swapped = [0, 0]  # likewise
        self.before = np.empty((2, 0))  # log lengths of the last block
        self.unrelated_from, self.shift, self.lowest = 0, 0, 1.0
        self.bigrams = np.zeros((2, BIGRAMS))
        self.weights = None if valid is None else valid.language_weights()

    def add(self, source: str, target: str) -> None:
        """Look at the next pair."""
        self.sources.append(source)
        self.targets.append(target)
        if len(self.sources) == BLOCK + MIN_PAIRS:  # so many are left for the last block that it can be judged
            self.check_block(BLOCK)

    def check_block(self, size: int) -> None:
        """Look at the first `size` pairs in memory, and drop them."""
        sources, targets = self.sources[:size], self.targets[:size]
        del self.sources[:size], self.targets[:size]
        self.check_lengths(np.log1p([[*map(len, sources)], [*map(len, targets)]]))
        texts = ["\n".join(side) + "\n" for side in (sources, targets)]
        self.check_languages(texts, size)
        for name, (pattern, signs) in FAULTS.items():
            if any(has_sign(text, signs) for text in texts):
                lines = zip(sources, targets, strict=True)
                self.note(self.faults[name], [any(map(pattern.search, pair)) for pair in lines])
        self.read += size

    def note(self, found: list[int], faulty: list[bool] | np.ndarray) -> None:
        """Count the faulty pairs of a block."""
        if any(faulty):
            found[1] = found[1] or self.read + 1 + int(np.argmax(faulty))
            found[0] += int(np.sum(faulty))

    def check_lengths(self, lengths: np.ndarray) -> None:
        """Compare the log lengths [2 pairs] of both sides."""
        correlation = correlate(lengths)
        if correlation is None:
            return
        self.blocks += 1
        if correlation < MIN_CORRELATION:
            self.unrelated += 1
            self.shift = self.shift or find_shift(lengths)
            self.lowest = min(self.lowest, correlation)
            if not self.unrelated_from:
                both = np.concatenate([self.before, lengths], axis=1)
                first = find_change(both, self.before.shape[1])
                self.unrelated_from = self.read - self.before.shape[1] + first + 1
        self.before = lengths

    def check_languages(self, texts: list[str], size: int) -> None:
        """Learn the characters of both sides, or compare them with those of the validation set."""
        sides = [np.frombuffer(text.encode("utf-32-le", errors="replace"), np.uint32) for text in texts]
        if self.valid is None:
            self.bigrams += [np.bincount(bigram_codes(characters), minlength=BIGRAMS) for characters in sides]
        elif self.weights is not None:
            source, target = (line_sums(self.weights[bigram_codes(characters)], characters) for characters in sides)
            if len(source) == len(target) == size:
                self.note(self.swapped, source - target < -SWAPPED_MARGIN)

    def language_weights(self) -> np.ndarray | None:
        """log P(bigram | source) − log P(bigram | target) [BIGRAMS]; None for a set that is too small."""
        if self.read < MIN_PAIRS:
            return None
        smoothed = self.bigrams + 0.5
        source, target = np.log(smoothed / smoothed.sum(1, keepdims=True))
        return (source - target).astype(np.float32)

    def share(self, name: str) -> float:
        """The fraction of pairs with this fault."""
        return self.faults[name][0] / max(1, self.read)

    def finish(self) -> list[Finding]:
        """Look at the last pairs; returns the warnings about the set."""
        self.check_block(len(self.sources))
        warnings = []
        if self.unrelated:
            warnings.append(Finding(self.describe_lengths(), self.unrelated_from))
        if self.swapped[0] > max(MIN_LINES, MIN_SWAPPED_SHARE * self.read):
            text = f"{self.swapped[0]:,} of {self.read:,} pairs look swapped: each side in the other's language"
            warnings.append(Finding(text, self.swapped[1]))
        for name, (count, number) in self.faults.items():
            always = name == "control characters"
            usual = TIMES_VALID * self.valid.share(name) if self.valid else 0.0
            least = max(MIN_LINES, MIN_SHARE * self.read, usual * self.read)
            if count and (always or count >= least):
                warnings.append(Finding(f"{count:,} of {self.read:,} pairs have {name}", number))
        return warnings

    def describe_lengths(self) -> str:
        """The warning about lines that do not belong together."""
        lines = "line" if abs(self.shift) == 1 else "lines"
        cause = f"one file is shifted by {abs(self.shift)} {lines}" if self.shift else "lines are shuffled or mixed up"
        return (
            f"in {self.unrelated:,} of {self.blocks:,} blocks of {BLOCK} pairs the two sides do not belong together, "
            f"as if {cause} (lengths correlate with {self.lowest:.2f})"
        )


def correlate(lengths: np.ndarray) -> float | None:
    """The correlation of log lengths [2 pairs]; None where pairs or lengths are too few. Blank lines do not count."""
    lengths = lengths[:, lengths.min(0) > 0] if lengths.size else lengths
    if lengths.shape[1] < MIN_PAIRS or lengths.std(1).min() < MIN_SPREAD:
        return None
    return float(np.corrcoef(lengths)[0, 1])


def find_shift(lengths: np.ndarray) -> int:
    """By how many lines the source is ahead of the target, from −MAX_SHIFT to MAX_SHIFT; 0 if by none of these."""
    found = {0: MIN_CORRELATION}
    for shift in range(1, MAX_SHIFT + 1):
        for sign, (ahead, behind) in ((1, lengths), (-1, lengths[::-1])):
            found[sign * shift] = correlate(np.stack([ahead[shift:], behind[:-shift]])) or 0.0
    return max(found, key=lambda shift: found[shift])


def find_change(lengths: np.ndarray, aligned: int) -> int:
    """The index from which on the log lengths [2 pairs] do not belong together; most of the first `aligned` do.

    The differences of aligned pairs vary less: the cumulative sum of (difference² − a variance between the two) falls
    up to the change, and rises from there.
    """
    difference = lengths[0] - lengths[1]
    unrelated = lengths[:, aligned:].var(1).sum()
    before = difference[:aligned] if aligned else difference
    difference = difference - np.median(before)
    related = min(np.median(before_spread(difference[: aligned or None])) ** 2, unrelated / 2)
    squares = np.minimum(difference**2, 4 * unrelated)
    return int(np.argmin(np.concatenate(([0.0], np.cumsum(squares - (related + unrelated) / 2)[:-1]))))


def before_spread(difference: np.ndarray) -> np.ndarray:
    """Absolute deviations, scaled so that their median is a standard deviation."""
    return 1.4826 * np.abs(difference)


def has_sign(text: str, signs: tuple[str, ...]) -> bool:
    """Whether a text contains one of the signs or, if there are none, a control character."""
    if signs:
        return any(sign in text for sign in signs)
    encoded = text.encode(errors="replace")
    return len(encoded.translate(None, CONTROLS)) < len(encoded)


def bigram_codes(characters: np.ndarray) -> np.ndarray:
    """A number below BIGRAMS for each character and the one after it; the last has none."""
    return (characters[:-1] * np.uint32(31337) ^ characters[1:]) & np.uint32(BIGRAMS - 1)


def line_sums(values: np.ndarray, characters: np.ndarray) -> np.ndarray:
    """The sum of the characters' values for each line."""
    ends = np.flatnonzero(characters == ord("\n"))
    return np.add.reduceat(np.append(values, np.float32(0)), np.concatenate(([0], ends[:-1] + 1)))

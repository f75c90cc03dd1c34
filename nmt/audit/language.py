"""Whether a line is in the language of its side: scripts, and trigrams of characters learnt from the corpus itself.

No list of languages is needed. The first pairs of training show how both sides are written; a line is in the wrong
language if the other side's trigrams fit it better, or if its own side's fit it far worse than they fit other lines of
its length. A few percent of wrong lines among the first pairs do no harm, since middle values decide.
"""

import numpy as np

from nmt.audit.characters import Characters

BITS = 17
TRIGRAMS = 1 << BITS  # hash values of three characters
SMOOTHING = 0.1  # added to the count of each hash value
SWAPPED_MARGIN = 10.0  # nats by which the other language must fit better
DEVIATIONS = 5.5  # robust standard deviations below the median score of lines of this length
MIN_TRIGRAMS = 16  # of a line that is compared with its side's other lines
LENGTHS = (MIN_TRIGRAMS, 24, 32, 48, 64, 96, 128)  # trigrams; lines between two of these are compared with each other
MIN_LINES = 100  # of such a class
MIN_SCRIPT_SHARE = 0.02  # of a side's letters, for a script that belongs to it

# The first character of each range and its script; 0: no letters, or letters of any script.
RANGES = (
    (0x0, 0), (0x41, 1), (0x5B, 0), (0x61, 1), (0x7B, 0), (0xC0, 1), (0x250, 0), (0x370, 2), (0x400, 3), (0x530, 4),
    (0x590, 5), (0x600, 6), (0x700, 0), (0x780, 0), (0x900, 7), (0x980, 8), (0xA00, 9), (0xA80, 10), (0xB00, 11),
    (0xB80, 12), (0xC00, 13), (0xC80, 14), (0xD00, 15), (0xD80, 16), (0xE00, 17), (0xE80, 18), (0xF00, 19),
    (0x1000, 20), (0x10A0, 21), (0x1100, 22), (0x1200, 23), (0x1400, 0), (0x1780, 24), (0x1800, 0), (0x1E00, 1),
    (0x1F00, 2), (0x2000, 0), (0x3041, 25), (0x3100, 0), (0x3400, 25), (0xA000, 0), (0xAC00, 22), (0xD7B0, 0),
    (0xF900, 25), (0xFB00, 0), (0x20000, 25), (0x30000, 0),
)  # fmt: skip
STARTS, SCRIPTS = (np.array(column) for column in zip(*RANGES, strict=True))
NUM_SCRIPTS = int(SCRIPTS.max()) + 1


def trigram_hashes(characters: Characters) -> np.ndarray:
    """A number below TRIGRAMS for each code point and the two after it, none of them beyond the line feed."""
    end = np.uint32(ord("\n"))
    codes = np.append(characters.codes, [end, end])
    second = np.where(codes[:-2] == end, end, codes[1:-1])
    third = np.where(second == end, end, codes[2:])
    mixed = codes[:-2] * np.uint32(0x9E3779B1) ^ second * np.uint32(0x85EBCA6B) ^ third * np.uint32(0xC2B2AE35)
    return (mixed ^ (mixed >> np.uint32(15))) & np.uint32(TRIGRAMS - 1)


def script_shares(characters: Characters) -> tuple[np.ndarray, np.ndarray]:
    """The scripts of the code points, and the share of each script among all letters [NUM_SCRIPTS]."""
    scripts = SCRIPTS[np.searchsorted(STARTS, characters.codes, side="right") - 1]
    counts = np.bincount(scripts, minlength=NUM_SCRIPTS)
    counts[0] = 0
    return scripts, counts / max(1, counts.sum())


class SideModel:
    """How the lines of one side are written, in small letters."""

    def __init__(self, characters: Characters) -> None:
        counts = np.bincount(trigram_hashes(characters), minlength=TRIGRAMS) + SMOOTHING
        self.log_probabilities = np.log(counts / counts.sum()).astype(np.float32)
        self.is_usual_script = script_shares(characters)[1] >= MIN_SCRIPT_SHARE
        self.is_usual_script[0] = True
        self.lowest = self.lowest_scores(characters)

    def lowest_scores(self, characters: Characters) -> np.ndarray:
        """The lowest mean log-probability of a trigram that is usual, for each class of LENGTHS; −∞ below the first."""
        scores = self.scores(characters) / np.maximum(characters.lengths, 1)
        classes = np.searchsorted(LENGTHS, characters.lengths, side="right")
        lowest = np.full(len(LENGTHS) + 1, -np.inf)
        for number in range(1, len(lowest)):
            members = scores[classes == number]
            if len(members) >= MIN_LINES:
                median = np.median(members)
                lowest[number] = median - DEVIATIONS * 1.4826 * np.median(np.abs(members - median))
        return lowest

    def scores(self, characters: Characters) -> np.ndarray:
        """The log-probability of each line's trigrams."""
        return characters.line_sums(self.log_probabilities[trigram_hashes(characters)])

    def has_wrong_script(self, characters: Characters) -> np.ndarray:
        """Whether most letters of each line are of a script that is rare on this side."""
        scripts, _ = script_shares(characters)
        letters = characters.line_sums((scripts > 0).astype(np.int32))
        return characters.line_sums((~self.is_usual_script[scripts]).astype(np.int32)) * 2 > letters

    def has_wrong_language(self, characters: Characters, other: "SideModel") -> np.ndarray:
        """Whether each line fits the other side better, or this one far worse than other lines do."""
        own = self.scores(characters)
        lowest = self.lowest[np.searchsorted(LENGTHS, characters.lengths, side="right")]
        is_unlike = own / np.maximum(characters.lengths, 1) < lowest
        return (other.scores(characters) - own > SWAPPED_MARGIN) | is_unlike

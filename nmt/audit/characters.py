"""Lines as arrays of code points, so that many lines are looked at with one operation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

ALNUM, UPPER, LOWER, DIGIT = 1, 2, 4, 8  # flags of a code point
PROPERTIES: dict[int, Callable[[str], bool]] = {
    ALNUM: str.isalnum, UPPER: str.isupper, LOWER: str.islower, DIGIT: str.isdecimal,
}  # fmt: skip
TABLE = 0x20000  # code points with flags of their own; those above are ideographs and signs
MULTIPLIER = 0x9E3779B97F4A7C15  # odd


@cache
def flag_table() -> np.ndarray:
    """The flags of each code point below TABLE; the last stands for all above."""
    characters = [chr(code) for code in range(TABLE)]
    columns = [np.array([has(each) for each in characters], np.uint8) * flag for flag, has in PROPERTIES.items()]
    return np.append(sum(columns), np.uint8(ALNUM)).astype(np.uint8)


@cache
def random_table() -> np.ndarray:
    """A random 64-bit number for each code point below TABLE, always the same; the last stands for all above."""
    return np.random.default_rng(0).integers(0, 2**64, TABLE + 1, np.uint64, endpoint=False)


@dataclass
class Characters:
    """Lines as code points, each followed by a line feed."""

    codes: np.ndarray  # uint32
    starts: np.ndarray  # of each line
    lengths: np.ndarray

    @classmethod
    def of(cls, lines: Sequence[str]) -> "Characters":
        """The characters of lines without line feeds."""
        text = "\n".join(lines) + "\n"
        codes = np.frombuffer(text.encode("utf-32-le", errors="replace"), np.uint32)
        ends = np.flatnonzero(codes == ord("\n"))
        starts = np.concatenate(([0], ends[:-1] + 1))
        return cls(codes, starts, ends - starts)

    def line_sums(self, values: np.ndarray) -> np.ndarray:
        """The sum of a value for each code point, over each line and its line feed."""
        return np.add.reduceat(values, self.starts)

    def flags(self) -> np.ndarray:
        """The flags of each code point."""
        return flag_table()[np.minimum(self.codes, TABLE)]

    def count(self, flags: np.ndarray, flag: int) -> np.ndarray:
        """How many code points of each line have a flag."""
        return self.line_sums((flags & flag > 0).astype(np.int32))

    def hashes(self, is_kept: np.ndarray) -> np.ndarray:
        """A 64-bit hash of each line's code points that are kept, Σ_i r(c_i) m^i mod 2^64; 0 where none is."""
        position = np.cumsum(is_kept) - is_kept
        position -= position[self.starts].repeat(self.lengths + 1)
        values = random_table()[np.minimum(self.codes, TABLE)] * powers(int(position.max(initial=0)) + 1)[position]
        return self.line_sums(np.where(is_kept, values + self.codes // np.uint32(TABLE), np.uint64(0)))


def powers(number: int) -> np.ndarray:
    """MULTIPLIER^0 … MULTIPLIER^(number − 1) mod 2^64."""
    factors = np.full(number, MULTIPLIER, np.uint64)
    factors[0] = 1
    return np.multiply.accumulate(factors)

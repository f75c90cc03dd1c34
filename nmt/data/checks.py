"""The checks of `nmt audit` while a corpus is prepared: a summary of each set, and warnings about what spoils training.

What is usual is learnt from the first pairs of the set; which language is which, from the validation set, so that
swapped columns are seen too. What the validation set has as well (the entities of a tokenized corpus) is taken for the
way the corpus is written. Nothing is left out.
"""

from dataclasses import dataclass, replace

from nmt.data.inspect.chunk import BOTH, ChunkFaults, Pair, inspect_chunk
from nmt.data.inspect.language import describe_languages
from nmt.data.inspect.lines import Lines
from nmt.data.inspect.misaligned_blocks import AROUND, UNRELATED, MisalignedBlock, merge
from nmt.data.inspect.pairs import Limits
from nmt.data.inspect.profile import MIN_PAIRS, Profile, learn_profile

SAMPLE = 4000  # pairs that are held in memory: what is usual is learnt from the first of them
MIN_SHARE, MIN_LINES = 0.001, 3  # of lines with a fault of their text, for a warning
TIMES_VALID = 3  # and how much larger than in the validation set this share must be
MIN_SWAPPED_SHARE = 0.005
CONTROL, OTHER_LANGUAGE = "control characters", "in the other language"
WARNED = {
    CONTROL: CONTROL,
    "characters of a wrong encoding": "characters of a wrong encoding, such as Ã¼ for ü",
    "HTML entities": "HTML entities, such as &amp;",
}  # fault → what the warning calls it


@dataclass
class Finding:
    """A fault of a set: what it is, and the number of the first pair that has it (in the order read, from 1)."""

    text: str
    number: int


@dataclass
class Count:
    """How many pairs have a fault, and the number of the first."""

    pairs: int = 0
    first: int = 0

    def add(self, pairs: int, first: int) -> None:
        """Count more pairs, of which `first` is the first."""
        self.first = self.first or first
        self.pairs += pairs


class PairChecks:
    """Looks at the pairs of a set one after the other; `valid` are the checks of the validation set."""

    def __init__(
        self, valid: "PairChecks | None" = None, limits: Limits | None = None, languages: Pair | None = None
    ) -> None:
        self.valid, self.limits, self.languages = valid, limits or Limits(10**9, 1e9, 5.0), languages
        self.other_languages: str | None = None  # what is wrong with the languages of the first pairs
        self.pairs: list[Pair] = []
        self.before, self.read = 0, 0  # pairs in memory that are context only; pairs that were looked at
        self.profile: Profile | None = None
        self.faults: dict[str, Count] = {}
        self.swapped = Count()
        self.misaligned: list[MisalignedBlock] = []

    def add(self, source: str, target: str) -> None:
        """Look at the next pair."""
        self.pairs.append((source, target))
        if len(self.pairs) == self.before + SAMPLE + AROUND:
            self.check_chunk(SAMPLE)

    def check_chunk(self, size: int) -> None:
        """Look at the next `size` pairs in memory, and drop those that are no context of the next ones."""
        if not size:
            return
        core = slice(self.before, self.before + size)
        if self.profile is None:
            self.prepare(self.pairs[core])
        self.note(self.inspect(self.pairs, core), size)
        keep = max(0, core.stop - AROUND)
        self.before = core.stop - keep
        del self.pairs[:keep]

    def prepare(self, pairs: list[Pair]) -> None:
        """Learn from the first pairs of the set what is usual."""
        self.profile = self.learn(pairs)
        if self.languages:
            self.other_languages = describe_languages(pairs, self.languages)

    def inspect(self, pairs: list[Pair], core: slice) -> ChunkFaults:
        """The faults of the pairs in `core`, with those around as context; `prepare` comes first."""
        assert self.profile is not None
        return inspect_chunk(pairs, core, self.profile, self.limits, None)

    def learn(self, pairs: list[Pair]) -> Profile:
        """What is usual in these pairs; the languages are those of the validation set if it has enough pairs."""
        profile = learn_profile(*(Lines([pair[side] for pair in pairs]) for side in (0, 1)))
        valid = self.valid.profile if self.valid else None
        return replace(profile, language=valid.language) if valid and valid.pairs >= MIN_PAIRS else profile

    def note(self, found: ChunkFaults, size: int) -> None:
        """Count the faults of the next `size` pairs."""
        for kind, (indices, sides) in found.faults.items():
            self.faults.setdefault(kind, Count()).add(len(indices), self.read + 1 + int(indices[0]))
            if kind == OTHER_LANGUAGE and (sides == BOTH).any():
                self.swapped.add(int((sides == BOTH).sum()), self.read + 1 + int(indices[sides == BOTH][0]))
        moved = [
            MisalignedBlock(self.read + each.first, self.read + each.last, each.shift) for each in found.misaligned
        ]
        self.misaligned = merge(self.misaligned + moved)
        self.read += size

    def share(self, kind: str) -> float:
        """The fraction of pairs with this fault."""
        return self.faults.get(kind, Count()).pairs / max(1, self.read)

    def finish(self) -> list[Finding]:
        """Look at the last pairs; returns the warnings about the set."""
        self.check_chunk(len(self.pairs) - self.before)
        warnings = [Finding(self.other_languages, 1)] if self.other_languages else []
        if self.misaligned:
            warnings.append(Finding(self.describe_misaligned_blocks(), self.misaligned[0].first))
        if self.swapped.pairs > max(MIN_LINES, MIN_SWAPPED_SHARE * self.read):
            text = f"{self.swapped.pairs:,} of {self.read:,} pairs look swapped: each side in the other's language"
            warnings.append(Finding(text, self.swapped.first))
        for kind, name in WARNED.items():
            count = self.faults.get(kind, Count())
            usual = TIMES_VALID * self.valid.share(kind) if self.valid else 0.0
            least = max(MIN_LINES, MIN_SHARE * self.read, usual * self.read)
            if count.pairs and (kind == CONTROL or count.pairs >= least):
                warnings.append(Finding(f"{count.pairs:,} of {self.read:,} pairs have {name}", count.first))
        return warnings

    def describe_misaligned_blocks(self) -> str:
        """The warning about lines that do not belong together."""
        first, pairs = self.misaligned[0], sum(each.last - each.first + 1 for each in self.misaligned)
        lines = "line" if abs(first.shift) == 1 else "lines"
        shifted = f"one file is shifted by {abs(first.shift)} {lines}"
        cause = "lines are shuffled or mixed up" if first.shift == UNRELATED else shifted
        more = f", in {len(self.misaligned)} blocks" if len(self.misaligned) > 1 else ""
        return (
            f"the two sides of {pairs:,} pairs do not belong together, as if {cause} "
            f"(from here on for {first.last - first.first + 1:,} pairs{more})"
        )

"""What is expected of a translation without a reference: its chrF, and whether it has a fault.

nmt/evaluate/estimate.py computes it with numbers that are fitted on a run's validation set.
"""

from typing import NamedTuple

REVIEW = 50.0  # a translation with a lower expected chrF should be read


class Quality(NamedTuple):
    """What is expected of a translation.

    is_detached: it is hardly more probable with its source than without any.
    omitted: spans of words of the source that it does not seem to translate.
    """

    expected_chrf: float  # 0 to 100
    is_detached: bool = False
    omitted: tuple[str, ...] = ()

    def faults(self, least: float = REVIEW) -> list[str]:
        """Why somebody should read the translation, in words; [] for no reason.

        least: a lower expected chrF is a reason.
        """
        reasons = []
        if self.is_detached:
            reasons.append("detached from its source")
        if self.omitted:
            reasons.append(f"leaves out: {'; '.join(self.omitted)}")
        if self.expected_chrf < least:
            reasons.append(f"expected chrF {self.expected_chrf:.0f}")
        return reasons

    def to_dict(self) -> dict[str, object]:
        """For JSON: expected_chrf, and `detached` and `omitted` where there is such a fault."""
        entry: dict[str, object] = {"expected_chrf": round(self.expected_chrf, 1)}
        if self.is_detached:
            entry["detached"] = True
        if self.omitted:
            entry["omitted"] = list(self.omitted)
        return entry

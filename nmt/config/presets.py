"""model=auto and tokenizer=auto: sizes, regularisation and schedule from the corpus and the time
that is given.

The rules follow from trainings of 5,000, 29,000, 85,000 and 160,000 pairs
(docs/reference/models.md). The time decides how wide a model is, the number of pairs limits its
width, and how often it passes over them how much it is regularised.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

AUTO = "auto"
# the files of conf/ whose values `auto` changes
BASE = {"model": "transformer", "tokenizer": "unigram"}
TIME = "train.max_minutes"
DEFAULT_MINUTES = 30.0  # of a training to which no limit is given
GPU_SPEED = 50  # a GPU's minute in minutes of two CPU cores


@dataclass(frozen=True)
class Size:
    """A width, the minutes of two cores and the training pairs from which on it is chosen, and what
    goes with it.

    `speed`: positions a second of two cores.
    """

    width: int
    minutes: float
    pairs: int
    lr: float
    speed: float


SIZES = [
    Size(128, 0, 0, 3e-3, 8_500),
    Size(256, 60, 50_000, 2e-3, 4_000),
    Size(512, 300, 500_000, 1e-3, 1_200),
]
PIECES = [(0, 8_000), (1_000_000, 16_000), (10_000_000, 32_000)]  # from so many pairs
MOST_PASSES = 300.0  # over the pairs: 1,000 pairs gain one point of BLEU between 96 and 240 passes
DROPOUT = [(0.0, 0.1), (20.0, 0.2), (40.0, 0.3)]  # from so many passes over the pairs


class Suggestion(NamedTuple):
    """KEY=VALUE and why."""

    key: str
    value: Any
    reason: str

    @property
    def word(self) -> str:
        return f"{self.key}={'null' if self.value is None else self.value}"


@dataclass(frozen=True)
class CorpusSize:
    """What is decided from: the number of training pairs, and the mean length of the longer side in
    characters."""

    pairs: int
    characters: float


def suggest(corpus: CorpusSize, minutes: float | None, gpu: bool) -> list[Suggestion]:
    """The values of `model=auto tokenizer=auto` that differ from those of BASE, or may.

    `minutes`: of train.max_minutes.
    """
    given = minutes or DEFAULT_MINUTES
    time = f"{given:g} minutes"
    worth = given * (GPU_SPEED if gpu else 1)
    size = [each for each in SIZES if each.minutes <= worth and each.pairs <= corpus.pairs][-1]
    pairs = f"{corpus.pairs:,} pairs"
    device = "a GPU" if gpu else "two CPU cores"
    wide = f"{time} on {device} and {pairs}"
    suggestions = [
        Suggestion(
            "tokenizer.vocabulary_size",
            last(PIECES, corpus.pairs),
            f"{pairs}; fewer if the text has fewer",
        ),
        Suggestion("model.hidden_size", size.width, wide),
        Suggestion("model.feed_forward_size", 4 * size.width, "four times the width"),
        Suggestion("model.num_heads", max(4, size.width // 64), "of 32 to 64 dimensions each"),
        Suggestion(
            "model.positions",
            "rotary",
            "it learns faster than with sinusoidal ones, which --format hf needs",
        ),
        Suggestion(
            "model.dropout", None, "decided by the number of passes, as soon as the speed is known"
        ),
        Suggestion("optim.lr", size.lr, f"what a width of {size.width} bears"),
    ]
    suggestions.append(
        Suggestion("train.max_epochs", MOST_PASSES, "the pairs are known by heart by then")
    )
    if not minutes:
        suggestions.append(Suggestion(TIME, DEFAULT_MINUTES, "no limit is given"))
    if gpu:
        suggestions.append(Suggestion("train.batch_tokens", None, "what the GPU has memory for"))
    return suggestions


def dropout(passes: float) -> float:
    """What model.dropout=null is, for so many passes over the training pairs."""
    return last(DROPOUT, passes)


def last(steps: Sequence[tuple[float, Any]], value: float) -> Any:
    """The result of the last step whose limit `value` reaches."""
    return [result for limit, result in steps if value >= limit][-1]

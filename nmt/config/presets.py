"""model=auto and tokenizer=auto: what fits the corpus and the time that is given.

The rules follow from trainings of 5,000, 29,000, 85,000 and 160,000 pairs
(docs/reference/models.md). The time decides how wide a model is, and the number of pairs limits its
width. How often a training passes over the pairs decides how much the model is regularised.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

AUTO = "auto"
# The files of conf/ whose values `auto` changes
BASE = {"model": "transformer", "tokenizer": "unigram"}
TIME = "train.max_minutes"
DEFAULT_MINUTES = 30.0  # of a training to which no limit is given
GPU_SPEED = 50  # a GPU's minute in minutes of two CPU cores


@dataclass(frozen=True)
class Size:
    """A width, and what goes with it.

    It is chosen if there are so many `minutes` of two cores, or more, and so many training pairs.
    """

    width: int
    minutes: float
    pairs: int
    lr: float


SIZES = [
    Size(128, 0, 0, 3e-3),
    Size(256, 60, 50_000, 2e-3),
    Size(512, 300, 500_000, 1e-3),
]
PIECES = [(0, 8_000), (100_000, 16_000), (10_000_000, 32_000)]  # from so many pairs
MOST_PASSES = 300.0  # over the pairs: 1,000 pairs gain one point of BLEU between 96 and 240 passes
# From so many passes over the pairs. With few, no pair is learnt by heart, and dropout only slows.
DROPOUT = [(0.0, 0.0), (10.0, 0.1), (20.0, 0.2), (40.0, 0.3)]
SAMPLED = 1_000  # pieces; with them a model learns as much from an update as with all pieces
LEAST_DROPOUT = 0.1  # of a training that needs some
RATE_TIMES_WIDTH = 0.512  # of a trained model that is trained further: 2e-3 for a width of 256


class Suggestion(NamedTuple):
    """KEY=VALUE and why."""

    key: str
    value: Any
    reason: str

    @property
    def word(self) -> str:
        value = "null" if self.value is None else self.value
        return f"{self.key}={value}"


def suggest(
    training_pairs: int, minutes: float | None, gpu: bool, width: int | None = None
) -> list[Suggestion]:
    """The values of `model=auto tokenizer=auto` that differ from those of BASE, or may.

    `minutes`: of train.max_minutes. `width`: the one that is given.
    """
    given = minutes or DEFAULT_MINUTES
    time = f"{given:g} minutes"
    worth = given * (GPU_SPEED if gpu else 1)
    pairs = f"{training_pairs:,} pairs"
    device = "a GPU" if gpu else "two CPU cores"
    why = "given"
    if width is None:
        possible = [
            size.width for size in SIZES if size.minutes <= worth and size.pairs <= training_pairs
        ]
        width = possible[-1]
        why = f"{time} on {device} and {pairs}"
    suggestions = [
        Suggestion(
            "tokenizer.vocabulary_size",
            last(PIECES, training_pairs),
            f"{pairs}; fewer if the text has fewer",
        ),
        Suggestion("model.hidden_size", width, why),
        Suggestion("model.feed_forward_size", 4 * width, "four times the width"),
        Suggestion("model.num_heads", heads(width), "of 32 to 64 dimensions each"),
        *for_every_corpus(),
        Suggestion(
            "model.dropout", None, "decided by the number of passes, as soon as the speed is known"
        ),
        Suggestion("optim.lr", learning_rate(width), f"right for a width of {width}"),
        Suggestion("train.max_epochs", MOST_PASSES, "the pairs are known by heart by then"),
        sampled_softmax(gpu),
    ]
    if not minutes:
        suggestions.append(Suggestion(TIME, DEFAULT_MINUTES, "no limit is given"))
    if gpu:
        suggestions.append(Suggestion("train.batch_tokens", None, "what the GPU has memory for"))
    return suggestions


def for_every_corpus() -> list[Suggestion]:
    """What does not depend on the corpus and the time."""
    reason = "it learns faster than with sinusoidal ones, which --format hf needs"
    return [Suggestion("model.positions", "rotary", reason)]


def sampled_softmax(gpu: bool) -> Suggestion:
    key = "train.sampled_softmax"
    if gpu:
        return Suggestion(key, 0, "a GPU has time for the whole vocabulary")
    return Suggestion(key, SAMPLED, "on a CPU an update takes a quarter to half less time")


def heads(width: int) -> int:
    """How many heads of 64 dimensions a width has; up to four, of 32.

    Fewer if the width is not so divided into heads with an even number of dimensions, as rotary
    positions need them.
    """
    most = max(width // 64, min(4, width // 32))
    for possible in range(most, 1, -1):
        if width % (2 * possible) == 0:
            return possible
    return 1


def learning_rate(width: int) -> float:
    """The rate of the widest of SIZES that a width reaches.

    Below all of them, it is in inverse proportion to the width.
    """
    narrowest = SIZES[0]
    if width < narrowest.width:
        return narrowest.lr * narrowest.width / width
    return last([(size.width, size.lr) for size in SIZES], width)


def further_rate(width: int) -> float:
    """The largest learning rate at which a trained model of a width is trained further."""
    return RATE_TIMES_WIDTH / width


def dropout(passes: float, needs_some: bool = False) -> float:
    """What model.dropout=null is, for so many passes over the training pairs.

    needs_some: for R-Drop, and where a trained model learns a few pairs more.
    """
    chosen: float = last(DROPOUT, passes)
    return max(chosen, LEAST_DROPOUT) if needs_some else chosen


def last(steps: Sequence[tuple[float, Any]], value: float) -> Any:
    """The result of the last step whose limit `value` reaches."""
    return [result for limit, result in steps if value >= limit][-1]

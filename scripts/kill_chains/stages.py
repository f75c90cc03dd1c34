"""Marks where the stages of a training begin and end."""

import functools
import os
from collections.abc import Callable
from typing import Any

from nmt.data import corpus, hub
from nmt.runs import pipeline, stages
from nmt.training import checkpoint
from nmt.training.train_step import TrainStep
from nmt.training.trainer import Trainer
from nmt.training.validation import Validation

# The function that a stage is, by the name of the stage. What belongs to none (reading configuration, tokenizer and
# checkpoints, building the model) is called start.
FUNCTIONS: dict[str, tuple[Any, str]] = {
    "download": (hub, "download_file"),
    "corpus": (corpus, "build_corpus"),
    "tokenizer": (stages, "train_tokenizers"),
    "ids": (stages, "write_datasets"),
    "training": (TrainStep, "update"),
    "validation": (Validation, "run"),
    "save": (checkpoint, "save"),
    "averaging": (Trainer, "finish"),
    "evaluation": (pipeline, "score_trained"),
}
STAGES = ("start", *FUNCTIONS)


def mark_stages(descriptor: int) -> None:
    """From now on each stage writes the lines `+NAME` and `-NAME` to this descriptor."""
    os.write(descriptor, b"+start\n")
    for name, (owner, attribute) in FUNCTIONS.items():
        setattr(owner, attribute, marked(getattr(owner, attribute), name, descriptor))


def marked(function: Callable[..., Any], name: str, descriptor: int) -> Callable[..., Any]:
    """The function with a mark before and after it."""

    @functools.wraps(function)
    def inner(*arguments: Any, **options: Any) -> Any:
        os.write(descriptor, f"+{name}\n".encode())
        result = function(*arguments, **options)
        os.write(descriptor, f"-{name}\n".encode())
        return result

    return inner

"""Extreme values of every configuration key: each is refused in a sentence, or a training with it works."""

import argparse
import contextlib
import itertools
import logging
import math
import os
import signal
import sys
import tempfile
import traceback
from pathlib import Path
from types import FrameType, UnionType
from typing import Any, get_args

from omegaconf import OmegaConf
from small_run import small_config

from nmt.config.schema import Config, leaves, to_dict
from nmt.config.validation import validate
from nmt.errors import UserError
from nmt.runs import pipeline

NUMBERS = [0, 1, -1, 10**9, -(10**9), 10**12, 2**62, 1e300, -1e300, 1e-300, math.nan, math.inf]
TEXTS = ["", "x", "\0", "\x1b[2J", "../x", "/dev/null", "meta", "cuda:99", "a" * 5000, "\u202e", "${oc.env:HOME}", "0"]
SECONDS = 60  # for one training
ENDLESS: list[tuple[str, Any]] = [  # what is legal and takes long by its meaning
    ("train.accumulate", 10**9), ("train.max_steps", 10**9), ("decode.batch_tokens", 1),
]  # fmt: skip


class Endless(BaseException):
    """A training took too long."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add --key, the beginning of keys."""
    parser.add_argument("--key", default="", metavar="PREFIX", help="keys that begin so, as train. (default: all)")


def run(options: argparse.Namespace) -> int:
    """Try every value of every key; prints a table by key, returns 1 after a traceback or an endless training."""
    signal.signal(signal.SIGALRM, on_alarm)
    failures = 0
    logging.getLogger("nmt").setLevel(logging.CRITICAL)
    print(f"{'key':<34}{'refused':>9}{'trained':>9}{'failed':>8}", flush=True)
    with tempfile.TemporaryDirectory() as root, contextlib.ExitStack() as stack:
        stack.callback(os.chdir, os.getcwd())
        (Path(root) / "inside").mkdir()
        os.chdir(Path(root) / "inside")  # folders with names such as x and ../x are made here
        base = small_config(Path(root))
        base.train.max_steps, base.train.max_epochs, base.train.average_checkpoints = 1, 0.01, 0
        for model in ("transformer", "luong_local_p"):
            config = with_model(base, model)
            for key, value, field in leaves(config):
                if key.startswith(options.key) and (model == "transformer" or key.startswith("model.")):
                    values = values_of(field.type, value)
                    counts = [try_value(config, key, each) for each in values if (key, each) not in ENDLESS]
                    failures += counts.count("failed")
                    figures = [counts.count(word) for word in ("refused", "trained", "failed")]
                    print(f"{key:<34}{figures[0]:>9}{figures[1]:>9}{figures[2]:>8}", flush=True)
    return int(failures > 0)


def with_model(base: Config, name: str) -> Config:
    """The configuration with a small recurrent model in place of its Transformer."""
    if name == "transformer":
        return base
    from nmt.config.compose import compose_all

    words = [f"model={name}", "model.hidden_size=16", "model.embedding_size=16", "model.num_layers=1"]
    changed = to_dict(base) | {"model": to_dict(compose_all(words, multirun=False)[0])["model"], "name": name}
    return validate(OmegaConf.create(changed))


def values_of(kind: Any, value: Any) -> list[Any]:
    """The extremes that have the type of a key."""
    kinds = get_args(kind) if isinstance(kind, UnionType) else (kind,)
    if bool in kinds:
        return [not value]
    if str in kinds:
        return TEXTS
    if kind is Any or kind == list[float]:
        return [*TEXTS, *([number] for number in NUMBERS), [], None]
    numbers = [number for number in NUMBERS if float in kinds or isinstance(number, int)]
    return [*numbers, *([None] if type(None) in kinds else [])]


def try_value(config: Config, key: str, value: Any) -> str:
    """What happens with KEY=VALUE: refused, trained or failed."""
    tree = OmegaConf.create(to_dict(config))
    signal.alarm(SECONDS)
    try:
        OmegaConf.update(tree, key, value, force_add=False)
        changed = validate(tree)
        changed.name = changed.name if key == "name" else f"{next(NUMBER)}"
        pipeline.train(changed)
        return "trained"
    except UserError:
        return "refused"
    except (Exception, Endless):
        print(f"{key}={value!r:.60}", file=sys.stderr)
        traceback.print_exc(limit=-4)
        return "failed"
    finally:
        signal.alarm(0)


NUMBER = itertools.count(1)


def on_alarm(_number: int, _frame: FrameType | None) -> None:
    """Stop a training that takes too long."""
    raise Endless(f"longer than {SECONDS} s")

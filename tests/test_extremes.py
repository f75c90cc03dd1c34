"""Extreme values of every key: a sentence, or a configuration."""

import math

import pytest
import torch
from corpora import compose_one
from test_strangers import changed

from nmt.config.schema import LARGEST, Config, leaves, to_dict
from nmt.config.validation import validate
from nmt.errors import UserError
from nmt.models.build import build

NUMBERS = [0, -1, 10**12, 2**70, 1e300, -1e300, math.nan, math.inf]
TEXTS = ["", "\0", "\x1b[2J", "../x", "a" * 5000, "${oc.env:HOME}", "\u202e"]


def configs() -> list[Config]:
    return [compose_one(f"model={name}") for name in ("transformer", "luong_local_p")]


@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.slow)])
def test_every_key_with_extreme_values(every):
    """Numbers that are accepted are within the limits, and every model that is accepted has a
    size."""
    refused = tried = 0
    for config in configs():
        tree = to_dict(config)
        for key, old, _ in leaves(config):
            if isinstance(old, bool) or (
                config.model.kind == "recurrent" and not key.startswith("model.")
            ):
                continue
            for value in TEXTS if isinstance(old, str) else NUMBERS:
                tried += 1
                if tried % every:
                    continue
                try:
                    accepted = validate(changed(tree, key.replace(".", " "), value))
                except UserError as error:
                    refused += 1
                    assert len(str(error)) < 600, key
                    continue
                # a text may be written as a number
                value = dict((name, now) for name, now, _ in leaves(accepted))[key]
                assert isinstance(value, str) or abs(value) <= LARGEST or key == "seed", key
                assert isinstance(old, str) is False or key in (
                    "data_folder",
                    "run_folder",
                    "data.train",
                    "data.valid",
                    # looked up in the registry of metrics before anything is downloaded
                    "train.metric",
                ), key
                if key.startswith("model."):
                    with torch.device("meta"):
                        assert build(accepted.model, 300, 300, joint=True)
    assert refused > 300 / every

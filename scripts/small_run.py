"""A run that is trained in seconds, on pairs of the phrasebook: what scripts/torture damages and
changes."""

import logging
from dataclasses import fields
from itertools import islice
from pathlib import Path

from nmt.config.compose import compose_all
from nmt.config.schema import Config, TrainConfig
from nmt.corpus.parallel_text import read_lines
from nmt.corpus.phrasebook import phrasebook_folder
from nmt.runs import pipeline

WORDS = [
    "name=small",
    "device=cpu",
    "precision=fp32",
    "tokenizer.vocabulary_size=500",
    "tokenizer.byte_fallback=true",
    "model=transformer_tiny",
    "model.hidden_size=16",
    "model.num_heads=2",
    "model.feed_forward_size=16",
    "model.encoder_layers=1",
    "model.decoder_layers=1",
    "train.max_steps=4",
    "train.max_minutes=null",
    "train.validate_every=2",
    "train.log_sentences=0",
    "train.batch_tokens=400",
    "optim.warmup_steps=1",
    "decode.beam=2",
]


def small_corpus(root: Path, pairs: int) -> list[str]:
    """Write the first pairs of the phrasebook below `root`; returns the configuration that trains
    on them."""
    root.mkdir(parents=True, exist_ok=True)
    for name, size in (("train", pairs), ("valid", pairs // 20), ("test", pairs // 20)):
        for language in ("de", "en"):
            lines = islice(read_lines(phrasebook_folder() / f"{name}.{language}.bz2"), size)
            (root / f"{name}.{language}").write_text(
                "".join(f"{line}\n" for line in lines), encoding="utf-8"
            )
    sets = [f"data.{name}={root / name}" for name in ("train", "valid", "test")]
    noise = [
        f"train.{each.name}=0" for each in fields(TrainConfig) if each.name.startswith("noise_")
    ]
    return ["data=files", "data.source=de", "data.target=en", *sets, *noise]


def small_config(root: Path) -> Config:
    return compose_all(
        [
            *small_corpus(root, 3000),
            *WORDS,
            f"data_folder={root / 'data'}",
            f"run_folder={root / 'runs'}",
        ],
    )[0]


def train_small_run(root: Path) -> Path:
    logging.getLogger("nmt").setLevel(logging.WARNING)
    config = small_config(root)
    pipeline.train(config)
    return root / "runs" / config.name

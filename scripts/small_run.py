"""A run that is trained in seconds, on pairs of the phrasebook: what scripts/torture damages and changes."""

import logging
from pathlib import Path

from nmt.config.compose import compose_all
from nmt.config.schema import Config
from nmt.runs import pipeline

WORDS = [
    "name=small", "device=cpu", "precision=fp32", "data=phrasebook", "data.pairs=3000", "tokenizer.vocabulary_size=500",
    "tokenizer.byte_fallback=true", "model=transformer_tiny", "model.hidden_size=16", "model.num_heads=2",
    "model.feed_forward_size=16", "model.encoder_layers=1", "model.decoder_layers=1", "train.max_steps=4",
    "train.max_minutes=null", "train.validate_every=2", "train.log_sentences=0", "train.batch_tokens=400",
    "optim.warmup_steps=1", "data.test=[test]", "decode.beam=2",
]  # fmt: skip


def small_config(root: Path) -> Config:
    """The configuration of the run, with all folders below `root`."""
    return compose_all([*WORDS, f"data_folder={root / 'data'}", f"run_folder={root / 'runs'}"], multirun=False)[0]


def train_small_run(root: Path) -> Path:
    """Train the run and score it; returns its folder."""
    logging.getLogger("nmt").setLevel(logging.WARNING)
    config = small_config(root)
    pipeline.train(config)
    return root / "runs" / config.name

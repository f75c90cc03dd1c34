"""Updates of the trainer itself, timed: on a corpus, or on a synthetic one.

S source length, T target length, D model size, F feed-forward size, V vocabulary.
"""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from benchmarks.corpora import MEAN_PIECES, write_ids
from benchmarks.machine import Stopwatch, peak_memory_gib
from benchmarks.tables import Figures
from nmt.config import Config, TransformerConfig
from nmt.data.batches import Batch
from nmt.data.dataset import ParallelDataset
from nmt.data.tokenizer import PAD, Tokenizer, Tokenizers
from nmt.pipeline import prepare, report
from nmt.train.trainer import Trainer


def make_trainer(
    config: Config,
    tokenizers: Tokenizers,
    train: ParallelDataset,
    valid: ParallelDataset,
    folder: Path,
    corpus_hash: str,
) -> Trainer:
    """The one place where the benchmarks build a trainer; it continues from folder/last.pt where that exists."""
    folder.mkdir(parents=True, exist_ok=True)
    return Trainer(config, tokenizers, train, valid, folder, corpus_hash)


def trainer_on_corpus(config: Config, folder: Path) -> Trainer:
    """The trainer of `nmt train`, on the configured corpus; missing stages are built."""
    stages = prepare(config)
    train, valid = (ParallelDataset(stages.ids / f"{name}.arrow") for name in ("train", "valid"))
    corpus_hash = report(stages.corpus)["corpus_hash"]
    return make_trainer(config, Tokenizers.load(stages.tokenizer), train, valid, folder, corpus_hash)


class SyntheticTokenizer(Tokenizer):
    """A vocabulary of `size` pieces that stand for no text."""

    def __init__(self, size: int) -> None:
        self.size, self.model, self.lowercase = size, b"synthetic", False


def trainer_on_synthetic(config: Config, vocabulary: int, batches: int, folder: Path) -> Trainer:
    """A trainer on about as many different batches of random ids, with the lengths of WMT sentences."""
    pairs = 2 * batches * config.train.batch_tokens // MEAN_PIECES + 64
    for name, number in (("train", pairs), ("valid", 8)):
        write_ids(folder / f"{name}.arrow", number, vocabulary, MEAN_PIECES)
    train, valid = (ParallelDataset(folder / f"{name}.arrow") for name in ("train", "valid"))
    tokenizer = SyntheticTokenizer(vocabulary)
    return make_trainer(config, Tokenizers(tokenizer, tokenizer), train, valid, folder / "run", "synthetic")


def save_checkpoint(trainer: Trainer) -> Path:
    """Write the checkpoint to continue from (last.pt), and return its path."""
    trainer.save()
    return trainer.folder / "last.pt"


def validation_sources(trainer: Trainer) -> list[str]:
    """The source sentences of the validation set."""
    pairs = trainer.validation.pairs
    return [pairs.texts(row)[0] for row in range(len(pairs))]


def next_batches(trainer: Trainer, updates: int) -> Iterator[Batch]:
    """The batches of the next updates; the trainer itself does not move on."""
    stream = trainer.epochs.stream(trainer.place.epoch, trainer.place.position)
    return (batch for _, _, batch in islice(stream, updates * trainer.config.train.accumulate))


def time_updates(trainer: Trainer, warmup: int, updates: int) -> Figures:
    """Tokens a second over `updates` updates, after `warmup` that do not count, and what was measured.

    Tokens are those of the target, </s> counted, padding not. `padding` is the padded fraction of the positions of
    both sides (mean over the batches), `target_padding` that of the target positions (over all of them).
    """
    for _ in range(warmup):
        trainer.update()
    batches = list(next_batches(trainer, updates))
    synchronize(trainer.device)
    with Stopwatch() as timer:
        for _ in range(updates):
            trainer.update()
        synchronize(trainer.device)
    tokens = sum(batch.tokens for batch in batches)
    flop = sum(training_flop(trainer.config.model, trainer.vocabulary, batch) for batch in batches)
    return {
        "tokens": tokens,
        "tokens_per_s": tokens / timer.wall,
        "tokens_per_cpu_s": tokens / timer.cpu,
        "both_sides_tokens_per_s": (tokens + sum(int((batch.source != PAD).sum()) for batch in batches)) / timer.wall,
        "padding": sum(batch.padding for batch in batches) / len(batches),
        "target_padding": 1 - tokens / sum(batch.output.numel() for batch in batches),
        "tflop_per_s": flop / timer.wall / 1e12,
        "update_s": timer.wall / updates,
        "memory_gib": device_memory_gib(trainer.device),
        "others_cores": timer.others,
        "parameters": sum(parameter.numel() for parameter in trainer.model.parameters()),
        "vocabulary": trainer.vocabulary,
        "batch_tokens": trainer.config.train.batch_tokens,
        "precision": "bf16" if trainer.dtype == torch.bfloat16 else "fp32",
        "device": str(trainer.device),
        "threads": torch.get_num_threads(),
        "seed": trainer.config.seed,
    }


def synchronize(device: torch.device) -> None:
    """Wait until a CUDA device has run all kernels."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def device_memory_gib(device: torch.device) -> float:
    """Peak memory in GiB: allocated on a CUDA device, else resident memory of the process."""
    return torch.cuda.max_memory_allocated(device) / 2**30 if device.type == "cuda" else peak_memory_gib()


def training_flop(model: Any, vocabulary: int, batch: Batch) -> float:
    """Floating-point operations of a Transformer's update over real tokens; 0 for other models.

    A multiplication with its sum counts 2; backward costs twice as much as forward. Encoder layer: 4D² + 2DF a source
    token, 2SD for its scores and contexts; decoder layer: 6D² + 2DF a target token, 2D² a source token, TD (half is
    masked) and 2SD for scores and contexts; the output layer DV.
    """
    if not isinstance(model, TransformerConfig):
        return 0.0
    source = (batch.source != PAD).sum(1).double()
    target = (batch.output != PAD).sum(1).double()
    size, feed_forward = model.size, model.feed_forward
    encoder = source * (4 * size**2 + 2 * size * feed_forward) + 2 * size * source * source
    decoder = target * (6 * size**2 + 2 * size * feed_forward) + source * 2 * size**2
    decoder = decoder + size * target * target + 2 * size * target * source
    products = model.encoder_layers * encoder + model.decoder_layers * decoder + target * size * vocabulary
    return 3 * 2 * float(products.sum())

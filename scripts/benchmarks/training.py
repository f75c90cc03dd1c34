"""The updates of `nmt train`, timed: on a corpus with the whole Trainer, on random ids with a
TrainStep alone.

S source length, T target length, D model size, F feed-forward size, V vocabulary.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.corpora import NO_TOKENIZERS, random_pairs
from benchmarks.machine import Stopwatch, peak_memory_gib
from benchmarks.tables import Figures
from nmt.config.schema import Config
from nmt.config.transformer import TransformerConfig
from nmt.data.batches import Batch, BatchIterator, Cursor
from nmt.data.tokenizer import PAD
from nmt.models.base import EncoderDecoder
from nmt.models.build import build
from nmt.runs.stages import build_stages
from nmt.training.build import TrainingData, build_trainer
from nmt.training.distributed import World
from nmt.training.optimizers import make_optimizer
from nmt.training.precision import select_device, select_precision
from nmt.training.state import TrainState
from nmt.training.threads import ThreadChoice, thread_choices
from nmt.training.train_step import TrainStep
from nmt.training.trainer import Trainer

# in the names of attention's kernels
ATTENTION = ("flash", "fmha", "attention", "sdpa", "cudnn_generated_fort")
WIDTH = 70  # of a name in a table


def trainer_on_corpus(config: Config, folder: Path) -> Trainer:
    """The Trainer of `nmt train` on the configured corpus; missing stages are built,
    last.safetensors is resumed."""
    stages = build_stages(config)
    folder.mkdir(parents=True, exist_ok=True)
    data = TrainingData.open(stages.corpus, stages.tokenizer, stages.ids)
    return build_trainer(config, data, folder, World())


def random_model(config: Config, vocabulary: int) -> EncoderDecoder:
    """An untrained model with one vocabulary for both languages, on the configured device."""
    torch.manual_seed(config.seed)
    return build(config.model, vocabulary, vocabulary, True).to(select_device(config.device))


def make_train_step(config: Config, model: EncoderDecoder, batches: BatchIterator) -> TrainStep:
    dtype = select_precision(config.precision, next(model.parameters()).device)
    return TrainStep(
        config, model, make_optimizer(model, config.optim), batches, TrainState(), dtype, World()
    )


def train_step_on_random_ids(config: Config, vocabulary: int, pairs: int) -> TrainStep:
    """Updates of an untrained model on so many random pairs, with the lengths of WMT sentences."""
    random = random_pairs(pairs, vocabulary)
    iterator = BatchIterator(
        random, NO_TOKENIZERS, config.train.batch_tokens or 1024, config.seed, sampling=0.0
    )
    return make_train_step(config, random_model(config, vocabulary), iterator)


def next_batches(step: TrainStep, updates: int) -> Iterator[Batch]:
    """The batches of the next updates; the training itself does not move on."""
    stream = step.batches.stream(Cursor(step.state.epoch, step.state.shard, step.state.position))
    return (batch for _, batch in islice(stream, updates * step.config.train.accumulate))


def time_updates(step: TrainStep, warmup: int, updates: int) -> Figures:
    """Tokens a second over `updates` updates, after `warmup` that do not count, and what was
    measured.

    Tokens are those of the target, </s> counted, padding not. `padding` is the padded fraction of
    the positions of both sides (mean over the batches), `target_padding` that of the target
    positions (over all of them).
    """
    with ThreadChoice(thread_choices(step)) as threads:
        for _ in range(warmup):
            threads.update(step)
        with Stopwatch() as collation:
            batches = list(next_batches(step, updates))
        synchronize(step.device)
        with Stopwatch() as timer:
            for _ in range(updates):
                threads.update(step)
            synchronize(step.device)
    tokens = sum(batch.tokens for batch in batches)
    vocabulary = step.model.output.out_features
    flop = sum(training_flop(step.config.model, vocabulary, batch) for batch in batches)
    return {
        "tokens": tokens,
        "tokens_per_s": tokens / timer.wall,
        "tokens_per_cpu_s": tokens / timer.cpu,
        "both_sides_tokens_per_s": (
            tokens + sum(int((batch.source != PAD).sum()) for batch in batches)
        )
        / timer.wall,
        "padding": sum(batch.padding for batch in batches) / len(batches),
        "target_padding": 1 - tokens / sum(batch.output.numel() for batch in batches),
        "tflop_per_s": flop / timer.wall / 1e12,
        "update_s": timer.wall / updates,
        "collation_ms": 1000 * collation.wall / len(batches),
        "memory_gib": device_memory_gib(step.device),
        "others_cores": timer.others,
        "parameters": sum(parameter.numel() for parameter in step.model.parameters()),
        "vocabulary": vocabulary,
        "batch_tokens": step.config.train.batch_tokens,
        "precision": "bf16" if step.dtype == torch.bfloat16 else "fp32",
        "device": str(step.device),
        "threads": torch.get_num_threads(),
        "seed": step.config.seed,
    }


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def device_memory_gib(device: torch.device) -> float:
    """Peak memory in GiB: allocated on a CUDA device, else resident memory of the process."""
    return (
        torch.cuda.max_memory_allocated(device) / 2**30
        if device.type == "cuda"
        else peak_memory_gib()
    )


def attention_kernels(call: Callable[[], object], device: torch.device) -> str:
    """The kernels of `call` (on a CPU: operations) that are attention's by their names, slowest
    first."""
    on_cuda = device.type == "cuda"
    with profile(
        activities=[ProfilerActivity.CUDA if on_cuda else ProfilerActivity.CPU]
    ) as profiler:
        call()
        synchronize(device)
    time = "self_device_time_total" if on_cuda else "self_cpu_time_total"
    events = sorted(profiler.key_averages(), key=lambda event: -getattr(event, time))
    names = [
        event.key[:WIDTH]
        for event in events
        if any(word in event.key.lower() for word in ATTENTION)
    ]
    return "; ".join(dict.fromkeys(names)) or "none by its name"


def training_flop(model: Any, vocabulary: int, batch: Batch) -> float:
    """Floating-point operations of a Transformer's update over real tokens; 0 for other models.

    A multiplication with its sum counts 2; backward costs twice as much as forward. Encoder layer:
    4D² + 2DF a source token, 2SD for its scores and contexts; decoder layer: 6D² + 2DF a target
    token, 2D² a source token, TD (half is masked) and 2SD for scores and contexts; the output layer
    DV.
    """
    if not isinstance(model, TransformerConfig):
        return 0.0
    source = (batch.source != PAD).sum(1).double()
    target = (batch.output != PAD).sum(1).double()
    size = model.hidden_size
    feed_forward = model.feed_forward_size
    encoder = source * (4 * size**2 + 2 * size * feed_forward) + 2 * size * source * source
    decoder = target * (6 * size**2 + 2 * size * feed_forward) + source * 2 * size**2
    decoder = decoder + size * target * target + 2 * size * target * source
    products = (
        model.encoder_layers * encoder + model.decoder_layers * decoder + target * size * vocabulary
    )
    return 3 * 2 * float(products.sum())

"""Training and translating random ids with the lengths of WMT sentences, for scripts/bench_gpu.py.

B batch, S source length, T target length, D model size, F feed-forward size, V vocabulary.
"""

import gc
import time
from collections.abc import Iterator, Sequence
from itertools import count, islice
from typing import Any

import numpy as np
import torch
from bench_measure import not_yet

from nmt.compose import compose_all
from nmt.config import Config, TransformerConfig
from nmt.data.batches import Batch, BatchIterator, collate, plan
from nmt.data.tokenizer import EOS
from nmt.decode.beam_search import search
from nmt.decode.stretches import search_in_stretches
from nmt.decode.translator import Translator
from nmt.models.build import build
from nmt.models.inference import inference_copy
from nmt.train.precision import autocast, pick_device, pick_precision, seed_everything
from nmt.train.state import Meter, TrainState
from nmt.train.trainer import Trainer, batches

MEAN, LONGEST, SHAPE = 25, 120, 3.5  # pieces of a source sentence: gamma distributed
SPREAD = 0.12  # of target pieces a source piece
Lengths = tuple[np.ndarray, np.ndarray]


def draw_lengths(number: int, seed: int = 1) -> Lengths:
    """Pieces of so many pairs, </s> not counted."""
    random = np.random.default_rng(seed)
    source = random.gamma(SHAPE, MEAN / SHAPE, number).clip(2, LONGEST).astype(np.int64)
    return source, (source * random.normal(1, SPREAD, number)).round().clip(2, LONGEST).astype(np.int64)


class Drawn(BatchIterator):
    """Batches of random ids that lie on the device before anything is timed; after the last comes the first."""

    def __init__(self, lengths: Lengths, vocabulary: int, budget: int, number: int, device: torch.device) -> None:
        random = np.random.default_rng(1)
        plans = islice(plan(*lengths, budget, seed=1, epoch=0), number)
        self.drawn = [self.make(random, [side[rows] for side in lengths], vocabulary).to(device) for rows in plans]

    def make(self, random: np.random.Generator, lengths: list[np.ndarray], vocabulary: int) -> Batch:
        """Ids behind those that mean something."""
        source, target = ([random.integers(EOS + 1, vocabulary, length) for length in side] for side in lengths)
        return collate(source, target)

    def stream(self, epoch: int, position: int, pinned: bool = False) -> Iterator[tuple[int, int, Batch]]:
        for place in count(position):
            yield epoch, place, self.drawn[place % len(self.drawn)]


class Synthetic(Trainer):
    """A trainer whose `update` is everybody's, without a corpus, a folder or a validation."""

    def __init__(self, config: Config, vocabulary: int, different: int) -> None:
        self.config, self.vocabulary = config, vocabulary
        self.device = pick_device(config.device)
        self.dtype = pick_precision(config.precision, self.device)
        seed_everything(config.seed)
        self.model = build(config.model, vocabulary, vocabulary, True).to(self.device)
        self.forward, self.optimizer = self.make_forward(), self.make_optimizer()
        budget = config.train.batch_tokens
        pairs = 2 * different * budget // MEAN + 64
        self.epochs = Drawn(draw_lengths(pairs), vocabulary, budget, different, self.device)
        self.meter, self.place = Meter(), TrainState(total=10**6)
        self.stream = batches(self.epochs, self.place, False)

    def measure(self, warm: int, updates: int) -> dict[str, Any]:
        """Target and source tokens a second over `updates`, after `warm` that do not count."""
        for _ in range(warm):
            self.update()
        self.meter = Meter()
        position = self.place.position
        wait(self.device)
        began = time.perf_counter()
        for _ in range(updates):
            self.update()
        wait(self.device)
        seconds = time.perf_counter() - began
        batches = [batch for _, _, batch in islice(self.epochs.stream(0, position), updates)]
        source = sum(int((batch.source != 0).sum()) for batch in batches)
        return {
            "target_tokens_per_s": self.meter.tokens / seconds,
            "source_and_target_tokens_per_s": (self.meter.tokens + source) / seconds,
            "parameters": sum(parameter.numel() for parameter in self.model.parameters()),
            "padding": self.meter.padding / updates,
            "update_s": seconds / updates,
            "peak_gib": peak(self.device),
            "flop_per_s": sum(training_flop(self.config.model, self.vocabulary, batch) for batch in batches) / seconds,
        }


def wait(device: torch.device) -> None:
    """Until the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def peak(device: torch.device) -> float:
    """GiB of the device since `forget`; 0 on a CPU."""
    return torch.cuda.max_memory_allocated(device) / 2**30 if device.type == "cuda" else 0.0


def forget(device: torch.device) -> None:
    """Give memory back and begin a new peak."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def training_flop(model: Any, vocabulary: int, batch: Batch) -> float:
    """Products of an update over real tokens, 2 a multiplication with its sum; backward costs twice forward.

    Encoder layer: 4D² + 2DF a source token, 2SD for its scores and contexts; decoder layer: 6D² + 2DF a target token,
    2D² a source token, TD (half is masked) and 2SD for scores and contexts; the output DV. 0 for other models.
    """
    if not isinstance(model, TransformerConfig):
        return 0.0
    source = (batch.source != 0).sum(1).double()
    target = (batch.output != 0).sum(1).double()
    size, wide = model.size, model.feed_forward
    encoder = source * (4 * size**2 + 2 * size * wide) + 2 * size * source * source
    decoder = target * (6 * size**2 + 2 * size * wide) + source * 2 * size**2
    decoder = decoder + size * target * target + 2 * size * target * source
    products = model.encoder_layers * encoder + model.decoder_layers * decoder + target * size * vocabulary
    return 3 * 2 * float(products.sum())


def configuration(words: Sequence[str], device: str, precision: str) -> Config:
    """Of conf/, on this device; `train.max_steps` keeps the schedule from asking for minutes."""
    shared = [f"device={device}", f"precision={precision}", "train.max_steps=1000000", "train.max_minutes=null"]
    return compose_all([*shared, *words], multirun=False)[0]


def translate(config: Config, vocabulary: int, sentences: int, graphs: bool) -> dict[str, float]:
    """Beam search of a random model, perhaps in recorded columns; translations are as long as their sources."""
    device = pick_device(config.device)
    seed_everything(config.seed)
    model = build(config.model, vocabulary, vocabulary, True).to(device).eval()
    dtype = pick_precision(config.precision, device)
    ready = inference_copy(model, dtype)  # as nmt translate does
    ready.output.register_forward_hook(not_yet)
    nobody: Any = None  # ids in, ids out
    translator = Translator(model, nobody, config.decode, LONGEST, device, autocast(device, dtype), ready)
    translator.search_ids = search_in_stretches if graphs else search
    random, lengths = np.random.default_rng(2), draw_lengths(sentences, seed=2)[0]
    sources = [random.integers(EOS + 1, vocabulary, length) for length in lengths]
    translator.search(sources[: max(1, sentences // 10)])
    wait(device)
    began = time.perf_counter()
    found = translator.search(sources)
    wait(device)
    seconds = time.perf_counter() - began
    tokens = sum(len(hypotheses[0].ids) + 1 for hypotheses in found)
    return {"sentences": sentences, "tokens": tokens, "sentences_per_s": sentences / seconds,
            "tokens_per_s": tokens / seconds, "peak_gib": peak(device)}  # fmt: skip

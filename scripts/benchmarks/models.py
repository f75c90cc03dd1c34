"""A model of nmt measured: start-up, training and translating on a corpus, search over random
ids."""

import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path

import numpy as np
from torch import Tensor, nn

from benchmarks.corpora import LONGEST, NO_TOKENIZERS, random_pairs
from benchmarks.frame import in_fresh_process
from benchmarks.machine import Stopwatch
from benchmarks.tables import Figures
from benchmarks.training import (
    attention_kernels,
    device_memory_gib,
    random_model,
    synchronize,
    time_updates,
    trainer_on_corpus,
)
from nmt.attention.cpu import keep_freed_memory
from nmt.config.compose import compose_all
from nmt.config.keys import config_folder
from nmt.config.schema import Config
from nmt.data.text_filter import Encoded
from nmt.data.tokenizer import EOS
from nmt.decode.translation import Translation
from nmt.decode.translator import Query, Translator
from nmt.errors import UserError
from nmt.models.inference import inference_copy
from nmt.runs.run import load
from nmt.training.precision import autocast, select_device, select_precision

WORDS = 12  # of the sentences that are translated one by one
PROFILED = 8  # sentences whose search is profiled
UNLIKELY = 1e4  # taken off the logit of </s>


def model_names() -> list[str]:
    """The models that can be measured: the names of the files in conf/model."""
    return sorted(path.stem for path in (config_folder() / "model").glob("*.yaml"))


def measure_in_process(
    overrides: list[str], threads: int | None, counts: Mapping[str, int]
) -> Figures:
    """`measure_model` in a process of its own; `counts` are its last four arguments."""
    return in_fresh_process(
        measure_model, threads, overrides=overrides, started=time.time(), **counts
    )


def measure_model(
    overrides: list[str],
    started: float,
    warmup: int,
    updates: int,
    sentences: int = 0,
    single: int = 0,
) -> Figures:
    """Train for some updates, then translate the first `sentences` of the validation set, and
    `single` one by one.

    `started`: when the process was started, in seconds since 1970. Without `sentences` nothing is
    translated.
    """
    budget = [
        "train.max_minutes=null",
        "train.max_epochs=null",
        f"train.max_steps={warmup + updates}",
    ]
    config = compose_all(["name=bench", *budget, *overrides])[0]
    keep_freed_memory()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, redirect_stdout(sys.stderr):
        trainer = trainer_on_corpus(config, Path(folder))
        trainer.train_step.update()
        start_up = time.time() - started
        figures = {"start_up_s": start_up} | time_updates(trainer.train_step, warmup - 1, updates)
        if not sentences:
            return figures
        trainer.save()
        valid = trainer.validation.pairs
        checkpoint = trainer.checkpoints.last_path
        del trainer
        lines = [valid.texts(row)[0] for row in range(len(valid))]
        return (
            figures
            | {"beam": config.decode.beam}
            | time_translation(checkpoint, lines, sentences, single)
        )


def time_translation(checkpoint: Path, lines: list[str], sentences: int, single: int) -> Figures:
    """Many sentences at once, then single ones, by a translator that is loaded as `nmt translate`
    loads it."""
    translator = translate_to_source_length(load([checkpoint]).translator)
    one_by_one = nearest_lengths(lines, single)
    list(translator.translate(one_by_one[:2]))
    with Stopwatch() as timer:
        translations = list(translator.translate(lines[:sentences]))
    seconds = []
    for line in one_by_one:
        start = time.perf_counter()
        list(translator.translate([line]))
        seconds.append(time.perf_counter() - start)
    tokens = count_tokens(translations)
    return {
        "sentences": len(translations),
        "translated_tokens": tokens,
        "sentences_per_s": len(translations) / timer.wall,
        "translated_tokens_per_s": tokens / timer.wall,
        "sentences_per_cpu_s": len(translations) / timer.cpu,
        "single_sentence_ms": 1000 * sorted(seconds)[len(seconds) // 2],
    }


def translate_to_source_length(translator: Translator) -> Translator:
    """Each translation is exactly as long as its source: a model trained for seconds has not learnt
    where to end."""
    (translator.search_model or translator.model).output.register_forward_hook(suppress_end)
    decode = replace(translator.decode, max_length_ratio=1.0, max_length_extra=0)
    return replace(translator, decode=decode)


def suppress_end(module: nn.Module, inputs: tuple[Tensor, ...], logits: Tensor) -> None:
    """A forward hook that makes </s> so improbable that it is written at the limit of length
    only."""
    logits[..., EOS] -= UNLIKELY


def count_tokens(translations: list[Translation]) -> int:
    """Pieces of all translations, </s> counted; raises UserError unless each is as long as its
    source."""
    if any(len(translation.ids) != len(translation.source_ids) for translation in translations):
        raise UserError(
            "A translation is not as long as its source: the search does not keep to its limit of "
            "length."
        )
    return sum(len(translation.ids) + 1 for translation in translations)


def nearest_lengths(lines: list[str], number: int) -> list[str]:
    """The first lines whose number of words is nearest to WORDS."""
    return sorted(lines, key=lambda line: abs(len(line.split()) - WORDS))[:number]


def time_search(config: Config, vocabulary: int, sentences: int) -> Figures:
    """Beam search of a model with random weights over random ids; the configuration sets the
    lengths."""
    device = select_device(config.device)
    dtype = select_precision(config.precision, device)
    model = random_model(config, vocabulary).eval()
    search_model = inference_copy(model, dtype)  # as in `nmt translate`
    search_model.output.register_forward_hook(suppress_end)
    context = autocast(device, dtype)
    translator = Translator(
        model, NO_TOKENIZERS, config.decode, LONGEST, device, context, search_model
    )
    pairs = random_pairs(sentences, vocabulary)
    ids, lengths = pairs.sentences("source", np.arange(sentences))
    sources = np.split(ids, np.cumsum(lengths)[:-1])
    queries = [Query(Encoded(source.tolist())) for source in sources]
    translator.search(queries[: max(1, sentences // 10)])
    synchronize(device)
    with Stopwatch() as timer:
        results = translator.search(queries)
        synchronize(device)
    tokens = sum(len(hypotheses[0].ids) + 1 for hypotheses in results)
    return {
        "sentences": sentences,
        "tokens": tokens,
        "sentences/s": sentences / timer.wall,
        "tokens/s": tokens / timer.wall,
        "peak GiB": device_memory_gib(device),
        "attention kernels": attention_kernels(
            lambda: translator.search(queries[:PROFILED]), device
        ),
    }

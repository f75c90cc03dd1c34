"""One model of nmt measured on one corpus: start-up, training, translating."""

import sys
import tempfile
import time
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path

from torch import Tensor, nn

from benchmarks.machine import Stopwatch
from benchmarks.tables import Figures
from benchmarks.training import save_checkpoint, time_updates, trainer_on_corpus, validation_sources
from nmt.compose import compose_all
from nmt.data.tokenizer import EOS
from nmt.decode.translator import Translation, Translator
from nmt.errors import UserError
from nmt.runs import load
from nmt.train.precision import keep_memory

WORDS = 12  # of the sentences that are translated one by one
UNLIKELY = 1e4  # taken off the logit of </s>


def measure_model(
    overrides: list[str], started: float, warmup: int, updates: int, sentences: int = 0, single: int = 0
) -> Figures:
    """Train for some updates, then translate the first `sentences` of the validation set, and `single` one by one.

    `started`: when the process was started, in seconds since 1970. Without `sentences` nothing is translated.
    """
    config = compose_all(overrides, multirun=False)[0]
    keep_memory()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, redirect_stdout(sys.stderr):
        trainer = trainer_on_corpus(config, Path(folder))
        trainer.update()
        start_up = time.time() - started
        figures = {"start_up_s": start_up} | time_updates(trainer, warmup - 1, updates)
        if not sentences:
            return figures
        lines, checkpoint = validation_sources(trainer), save_checkpoint(trainer)
        del trainer
        return figures | {"beam": config.decode.beam} | time_translation(checkpoint, lines, sentences, single)


def time_translation(checkpoint: Path, lines: list[str], sentences: int, single: int) -> Figures:
    """Many sentences at once, then single ones, by a translator that is loaded as `nmt translate` loads it."""
    translator = load([checkpoint]).translator
    translate_to_source_length(translator)
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


def translate_to_source_length(translator: Translator) -> None:
    """Make each translation exactly as long as its source: a model trained for seconds has not learnt where to end."""
    translator.decode = replace(translator.decode, max_ratio=1.0, max_extra=0)
    translator.searched.output.register_forward_hook(suppress_end)


def suppress_end(module: nn.Module, inputs: tuple[Tensor, ...], logits: Tensor) -> None:
    """A forward hook that makes </s> so improbable that it is written at the limit of length only."""
    logits[..., EOS] -= UNLIKELY


def count_tokens(translations: list[Translation]) -> int:
    """Pieces of all translations, </s> counted; raises UserError unless each is as long as its source."""
    if any(len(translation.ids) != len(translation.source_ids) for translation in translations):
        raise UserError("A translation is not as long as its source: the search does not keep to its limit of length.")
    return sum(len(translation.ids) + 1 for translation in translations)


def nearest_lengths(lines: list[str], number: int) -> list[str]:
    """The first lines whose number of words is nearest to WORDS."""
    return sorted(lines, key=lambda line: abs(len(line.split()) - WORDS))[:number]

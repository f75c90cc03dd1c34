"""Translates a file for scripts/bench_peers.py inside a toolkit's environment; figures as JSON on stdout.

python -m peers.translate_file ENGINE MODEL PREFIX OUTPUT BEAM SENTENCES

PREFIX.source holds lines, PREFIX.pieces their pieces. From text to text, loading not counted; every line is translated
once, after two lines of warm-up. ENGINE: nmt-auto, nmt-fp32, nmt-bf16, ctranslate2, onmt.
"""

import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.machine import Stopwatch, peak_memory_gib

LONGEST = 100  # pieces of a translation
Translations = list[tuple[str, int]]  # text, and its number of pieces, </s> counted
Translate = Callable[[list[str]], Translations]


def nmt(model: str, beam: int, sentences: int, lines: list[str], precision: str) -> Translate:
    """nmt, in batches of about as many positions as `sentences` sentences have."""
    from nmt.runs.run import load

    pieces = sum(len(line.split()) for line in lines) * 1.3 / len(lines)  # 1.3 a word
    batch_tokens = round(beam * sentences * (pieces + 1))
    translator = load([Path(model)], beam, batch_tokens, precision).translator
    return lambda some: [(result.text, len(result.ids) + 1) for result in translator.translate(some)]


def ctranslate2(model: str, beam: int, sentences: int, lines: list[str]) -> Translate:
    """A folder written by `nmt export`; each thread works on a batch of its own, as in `nmt translate`."""
    import ctranslate2 as engine
    import sentencepiece

    tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(Path(model) / "joint.model"))
    threads = int(os.environ["OMP_NUM_THREADS"])
    translator = engine.Translator(model, compute_type="default", inter_threads=threads, intra_threads=1)

    def translate(some: list[str]) -> Translations:
        pieces = tokenizer.encode(some, out_type=str)
        results = translator.translate_batch(
            pieces, beam_size=beam, max_batch_size=sentences, max_decoding_length=LONGEST
        )
        best = [result.hypotheses[0] for result in results]
        return [(tokenizer.decode(hypothesis), len(hypothesis) + 1) for hypothesis in best]

    return translate


ENGINES: dict[str, Callable[[str, int, int, list[str]], Translate]] = {
    **{f"nmt-{precision}": partial(nmt, precision=precision) for precision in ("auto", "fp32", "bf16")},
    "ctranslate2": ctranslate2,
}


def onmt(model: str, prefix: str, output: str, beam: int, sentences: int) -> tuple[Stopwatch, Translations]:
    """OpenNMT-py's own command, from file to file; loading not counted."""
    from onmt.bin.translate import main
    from onmt.inference_engine import InferenceEnginePY

    original, timer = InferenceEnginePY.infer_file, Stopwatch()

    def timed(self: Any, *arguments: Any, **options: Any) -> Any:
        with timer:
            return original(self, *arguments, **options)

    InferenceEnginePY.infer_file = timed
    files = ["-model", model, "-src", f"{prefix}.pieces", "-output", output]
    search = ["-beam_size", beam, "-batch_size", sentences, "-batch_type", "sents", "-max_length", LONGEST]
    sys.argv = ["onmt_translate", *map(str, [*files, *search])]
    main()
    lines = Path(output).read_text(encoding="utf-8").split("\n")[:-1]
    return timer, [("".join(line.split()).replace("▁", " ").strip(), len(line.split()) + 1) for line in lines]


def main() -> None:
    """Load, warm up, translate; write the translations and print the figures."""
    name, model, prefix, output, beam, sentences = sys.argv[1:]
    if name == "onmt":
        timer, translations = onmt(model, prefix, output, int(beam), int(sentences))
    else:
        lines = Path(f"{prefix}.source").read_text(encoding="utf-8").split("\n")[:-1]
        translate = ENGINES[name](model, int(beam), int(sentences), lines)
        translate(lines[:2])
        with Stopwatch() as timer:
            translations = translate(lines)
    Path(output).write_text("".join(f"{' '.join(text.split())}\n" for text, _ in translations), encoding="utf-8")
    tokens = sum(pieces for _, pieces in translations)
    figures = {
        "sentences_per_s": len(translations) / timer.wall,
        "tokens_per_s": tokens / timer.wall,
        "sentences_per_cpu_s": len(translations) / timer.cpu,
        "tokens": tokens,
        "memory_gib": peak_memory_gib(),
        "others_cores": timer.others,
    }
    print(f"\n{json.dumps(figures)}")


if __name__ == "__main__":
    main()

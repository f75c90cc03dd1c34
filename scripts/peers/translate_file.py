"""Translates a file for scripts/bench_peers.py inside a toolkit's environment; figures as JSON on stdout.

python -m peers.translate_file ENGINE MODEL PREFIX OUTPUT BEAM SENTENCES

PREFIX.source holds lines, PREFIX.pieces their pieces. From text to text, loading not counted; every line is translated
once, after two lines of warm-up. ENGINE: nmt-auto, nmt-fp32, nmt-bf16, generate, ctranslate2, ctranslate2-per-thread,
onmt.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.machine import Stopwatch, peak_memory_gib

PAD, BOS, EOS = 0, 2, 3
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


def generate(model: str, beam: int, sentences: int, lines: list[str]) -> Translate:
    """MarianMT of Hugging Face with our weights."""
    import torch

    from peers.marian import load_nmt_weights, pad

    marian, tokenizer = load_nmt_weights(model)

    def translate(some: list[str]) -> Translations:
        ids = [[*row, EOS] for row in tokenizer.encode(some)]
        translations: dict[int, tuple[str, int]] = {}
        for rows in batches(ids, sentences):
            source = pad([ids[row] for row in rows], PAD)
            with torch.inference_mode():
                output = marian.generate(
                    input_ids=source, attention_mask=source.ne(PAD).long(), num_beams=beam, max_length=LONGEST
                )
            for row, generated in zip(rows, output.tolist(), strict=True):
                pieces = [piece for piece in generated if piece not in (PAD, BOS, EOS)]
                translations[row] = tokenizer.decode(pieces), len(pieces) + 1
        return [translations[row] for row in range(len(some))]

    return translate


def batches(ids: list[list[int]], sentences: int) -> Iterator[list[int]]:
    """Row numbers of sentences of similar lengths, longest first."""
    order = sorted(range(len(ids)), key=lambda row: -len(ids[row]))
    for start in range(0, len(order), sentences):
        yield order[start : start + sentences]


def ctranslate2(model: str, beam: int, sentences: int, lines: list[str], per_thread: bool = False) -> Translate:
    """A folder written by `nmt export`; all threads work on one batch, or each on one of its own (`per_thread`)."""
    import ctranslate2 as engine
    import sentencepiece

    tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(Path(model) / "joint.model"))
    threads = int(os.environ["OMP_NUM_THREADS"])
    inter, intra = (threads, 1) if per_thread else (1, threads)
    translator = engine.Translator(
        model, device="cpu", compute_type="default", inter_threads=inter, intra_threads=intra
    )

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
    "generate": generate,
    "ctranslate2": ctranslate2,
    "ctranslate2-per-thread": partial(ctranslate2, per_thread=True),
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

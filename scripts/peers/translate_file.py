"""Translates a file for scripts/bench_peers.py inside a toolkit's environment; figures as JSON on stdout.

python scripts/bench_translate.py ENGINE MODEL PREFIX OUTPUT BEAM SENTENCES

PREFIX.source holds lines, PREFIX.pieces their pieces. From text to text, loading not counted; every line is translated
once, after two lines to warm up. ENGINE: nmt-auto, nmt-fp32, nmt-bf16, generate, ctranslate2, ctranslate2-apart, onmt.
"""

import json
import os
import resource
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from bench_machine import Watch

PAD, BOS, EOS = 0, 2, 3
LONGEST = 100  # pieces of a translation
Answer = list[tuple[str, int]]  # text, and pieces with </s>
Run = Callable[[list[str]], Answer]


def nmt(precision: str) -> Callable[[str, int, int], Run]:
    """Ours, in batches of about as many positions."""

    def load(model: str, beam: int, sentences: int) -> Run:
        from nmt.runs import load as load_runs

        translator = load_runs([Path(model)], beam, precision=precision).translator

        def run(lines: list[str]) -> Answer:
            pieces = sum(len(line.split()) for line in lines) * 1.3 / len(lines)  # a word
            translator.decode.batch_tokens = round(beam * sentences * (pieces + 1))
            return [(one.text, len(one.ids) + 1) for one in translator.translate(lines)]

        return run

    return load


def generate(model: str, beam: int, sentences: int) -> Run:
    """MarianMT with our weights."""
    import torch
    from bench_marian import filled, padded

    marian, pieces = filled(model)

    def run(lines: list[str]) -> Answer:
        ids = [[*row, EOS] for row in pieces.encode(lines)]
        answers: dict[int, tuple[str, int]] = {}
        for rows in batches(ids, sentences):
            source = padded([ids[row] for row in rows], PAD)
            with torch.inference_mode():
                found = marian.generate(
                    input_ids=source, attention_mask=source.ne(PAD).long(), num_beams=beam, max_length=LONGEST
                )
            for row, one in zip(rows, found.tolist(), strict=True):
                written = [piece for piece in one if piece not in (PAD, BOS, EOS)]
                answers[row] = pieces.decode(written), len(written) + 1
        return [answers[row] for row in range(len(lines))]

    return run


def batches(ids: list[list[int]], sentences: int) -> Iterator[list[int]]:
    """Rows of like length, longest first."""
    order = sorted(range(len(ids)), key=lambda row: -len(ids[row]))
    for start in range(0, len(order), sentences):
        yield order[start : start + sentences]


def ctranslate2(model: str, beam: int, sentences: int, apart: bool = False) -> Run:
    """A folder that `nmt export` has written; all threads at one batch, or each at one of its own."""
    import ctranslate2 as engine
    import sentencepiece

    pieces = sentencepiece.SentencePieceProcessor(model_file=str(Path(model) / "joint.model"))
    threads = int(os.environ["OMP_NUM_THREADS"])
    inter, intra = (threads, 1) if apart else (1, threads)
    translator = engine.Translator(
        model, device="cpu", compute_type="default", inter_threads=inter, intra_threads=intra
    )

    def run(lines: list[str]) -> Answer:
        found = translator.translate_batch(
            pieces.encode(lines, out_type=str), beam_size=beam, max_batch_size=sentences, max_decoding_length=LONGEST
        )
        return [(pieces.decode(one.hypotheses[0]), len(one.hypotheses[0]) + 1) for one in found]

    return run


def peak(whose: int) -> float:
    """GiB that were resident at most."""
    return resource.getrusage(whose).ru_maxrss / 2**20


ENGINES: dict[str, Callable[[str, int, int], Run]] = {
    **{f"nmt-{precision}": nmt(precision) for precision in ("auto", "fp32", "bf16")},
    "generate": generate,
    "ctranslate2": ctranslate2,
    "ctranslate2-apart": partial(ctranslate2, apart=True),
}


def onmt(model: str, prefix: str, output: str, beam: int, sentences: int) -> tuple[Watch, Answer]:
    """OpenNMT-py's own command, from file to file; loading not counted."""
    from onmt.bin.translate import main
    from onmt.inference_engine import InferenceEnginePY

    original, check_finite = InferenceEnginePY.infer_file, Watch()

    def timed(self: Any, *arguments: Any, **options: Any) -> Any:
        with check_finite:
            return original(self, *arguments, **options)

    InferenceEnginePY.infer_file = timed
    files = ["-model", model, "-src", f"{prefix}.pieces", "-output", output]
    search = ["-beam_size", beam, "-batch_size", sentences, "-batch_type", "sents", "-max_length", LONGEST]
    sys.argv = ["onmt_translate", *map(str, [*files, *search])]
    main()
    lines = Path(output).read_text(encoding="utf-8").split("\n")[:-1]
    return check_finite, [("".join(line.split()).replace("▁", " ").strip(), len(line.split()) + 1) for line in lines]


def translate() -> None:
    """Load, warm up, translate, write, say."""
    name, model, prefix, output, beam, sentences = sys.argv[1:]
    if name == "onmt":
        check_finite, answer = onmt(model, prefix, output, int(beam), int(sentences))
    else:
        run = ENGINES[name](model, int(beam), int(sentences))
        lines = Path(f"{prefix}.source").read_text(encoding="utf-8").split("\n")[:-1]
        run(lines[:2])
        with Watch() as check_finite:
            answer = run(lines)
    Path(output).write_text("".join(f"{' '.join(text.split())}\n" for text, _ in answer), encoding="utf-8")
    tokens = sum(pieces for _, pieces in answer)
    figures = {
        "sentences_per_s": len(answer) / check_finite.wall,
        "tokens_per_s": tokens / check_finite.wall,
        "sentences_per_cpu_s": len(answer) / check_finite.cpu,
        "tokens": tokens,
        "memory_gib": max(map(peak, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))),  # of the largest process
        "others_cores": check_finite.others,
    }
    print(f"\n{json.dumps(figures)}")


if __name__ == "__main__":
    translate()

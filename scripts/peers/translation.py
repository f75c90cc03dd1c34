"""The second half of scripts/bench_peers.py: nmt and CTranslate2 translate a test set with the same
weights.

Beam 5, batches of as many positions as 64 sentences have, lengths as the model ends them; BLEU and
the number of tokens show whether the same work was done. From text to text, loading not counted;
two lines are warm-up.
"""

from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import sacrebleu
from benchmarks.frame import in_fresh_process, measure_in_turn, note
from benchmarks.machine import Stopwatch, peak_memory_gib
from benchmarks.tables import Figures, columns

import nmt
from nmt.commands.export import with_ctranslate2
from nmt.corpus.parallel_text import read_lines
from nmt.runs.run import load

BEAM, SENTENCES, BATCH_TOKENS = 5, 64, 1024
COLUMNS = {  # of the table: title and figure
    "sent/s": "sentences_per_s",
    "tok/s": "tokens_per_s",
    "sent/CPU s": "sentences_per_cpu_s",
    "peak GiB": "memory_gib",
    "others' cores": "others_cores",
    "tokens": "tokens",
    "BLEU": "bleu",
}


def compare_translation(
    data: Path,
    overrides: list[str],
    updates: int,
    threads: list[int],
    rounds: int,
    precisions: list[str],
) -> list[dict[str, Any]]:
    """Train for some updates; then each engine translates the test set in turn, with each number of
    threads."""
    folder = in_fresh_process(train, max(threads), overrides=overrides, updates=updates)
    engines = [("torch", precision) for precision in precisions]
    engines += [
        ("ctranslate2", numbers) for numbers in ("float32", "int8") if find_spec("ctranslate2")
    ]
    rows = []
    for number in threads:
        systems = {
            f"{engine} {numbers}": partial(
                in_fresh_process,
                translate,
                number,
                folder=folder,
                engine=engine,
                numbers=numbers,
                test=data / "test",
            )
            for engine, numbers in engines
        }
        for system, measured in measure_in_turn(systems, rounds).items():
            rows.append({"translating": system, "threads": number} | columns(measured, COLUMNS))
    return rows


def train(overrides: list[str], updates: int) -> str:
    """Train a model of the toolkits' size; returns its folder."""
    note(f"training our model for {updates} updates …")
    model = ["model=transformer", "model.hidden_size=256", "model.feed_forward_size=1024"]
    budget = [
        f"train.max_steps={updates}",
        f"train.validate_every={updates}",
        "train.max_minutes=null",
    ]
    budget += [
        "train.max_epochs=null",
        f"train.batch_tokens={BATCH_TOKENS}",
        f"optim.warmup_steps={updates // 4 + 1}",
    ]
    nmt.train(*overrides, *model, *budget, f"name=decode-{updates}")
    runs = next(word.partition("=")[2] for word in overrides if word.startswith("run_folder="))
    return str(Path(runs) / f"decode-{updates}")


def translate(folder: str, engine: str, numbers: str, test: str) -> Figures:
    """The figures of one engine that translates the test set once."""
    lines, references = (list(read_lines(Path(f"{test}.{side}"))) for side in ("source", "target"))
    pieces = sum(len(line.split()) for line in lines) * 1.3 / len(lines)  # 1.3 a word
    batch_tokens = round(BEAM * SENTENCES * (pieces + 1))
    precision = numbers if engine == "torch" else "auto"
    run = load([Path(folder) / "best.safetensors"], BEAM, batch_tokens, precision)
    translator = (run if engine == "torch" else with_ctranslate2(run, numbers)).translator
    list(translator.translate(lines[:2]))
    with Stopwatch() as timer:
        results = list(translator.translate(lines))
    tokens = sum(len(result.ids) + 1 for result in results)
    return {
        "sentences_per_s": len(results) / timer.wall,
        "tokens_per_s": tokens / timer.wall,
        "sentences_per_cpu_s": len(results) / timer.cpu,
        "tokens": tokens,
        "memory_gib": peak_memory_gib(),
        "others_cores": timer.others,
        "bleu": sacrebleu.corpus_bleu([result.text for result in results], [references]).score,
    }

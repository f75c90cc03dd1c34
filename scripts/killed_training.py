"""A small training that is killed and continued: its command, the fork it runs in, and what must be
the same.

For scripts/torture/kills.py and disk.py.
"""

import functools
import gzip
import hashlib
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator

from nmt import cli
from nmt.corpus import corpus, multi30k
from nmt.corpus.files import LOCK
from nmt.runs import pipeline, stages
from nmt.training import checkpoint
from nmt.training.train_step import TrainStep
from nmt.training.trainer import Trainer
from nmt.training.validation import Validation

# The function that a stage is, by the name of the stage. What belongs to none (reading
# configuration, tokenizer and checkpoints, building the model) is called start.
FUNCTIONS: dict[str, tuple[Any, str]] = {
    "download": (multi30k, "download_file"),
    "corpus": (corpus, "build_corpus"),
    "tokenizer": (stages, "train_tokenizers"),
    "ids": (stages, "write_datasets"),
    "training": (TrainStep, "update"),
    "validation": (Validation, "run"),
    "save": (checkpoint, "save"),
    "averaging": (Trainer, "finish"),
    "evaluation": (pipeline, "score_trained"),
}
STAGES = ("start", *FUNCTIONS)
WITH_PARTS = ("averaging",)  # a kill counts for it also within its own validation and saves
UNLIKE = ("speed/",)  # curves that measure time or memory
SMALL = {
    "transformer_tiny": "hidden_size=16 num_heads=2 feed_forward_size=32 encoder_layers=1 "
    "decoder_layers=1"
}
RECURRENT = "hidden_size=16 embedding_size=16"
MODELS = (
    "transformer_tiny",
    "luong_global",
    "luong_local_p",
    "bahdanau",
    "seq2seq",
    "bahdanau_hard",
)
TRAINING = (
    "data=multi30k data.source=de data.target=fr data.test=test_2016_flickr "
    "tokenizer.vocabulary_size=310 device=cpu precision=fp32 model.dropout=0.2 "
    "train.batch_tokens=256 train.max_steps=20 train.max_epochs=null train.max_minutes=null "
    "train.validate_every=4 train.log_every=3 train.log_sentences=1 train.average_checkpoints=2 "
    "train.save_minutes=0.0005 train.subword_sampling=0.1 optim.warmup_steps=2 decode.beam=2 "
    "decode.max_length_ratio=1 decode.max_length_extra=5"
)
SLOW_IMPORTS = (
    "torch._dynamo",
    "torch.utils.tensorboard.summary",
    "matplotlib.backends.backend_agg",
    "datasets",
)
SIZES = {"train": 160, "val": 8, "test_2016_flickr": 6}
WORDS = (
    "ein Hund|un chien",
    "die Frau|la femme",
    "sieht|voit",
    "rote|rouge",
    "Haus|maison",
    "und|et",
    "kauft|achète",
)


def prepare() -> None:
    """Import once what each process would import for seconds; forked processes must have one
    thread."""
    torch.set_num_threads(1)
    for name in SLOW_IMPORTS:
        import_module(name)


def model_words(model: str) -> list[str]:
    return [f"model={model}", *(f"model.{word}" for word in SMALL.get(model, RECURRENT).split())]


def folders(root: Path) -> list[str]:
    """The overrides that put data and the run below `root`, which is made."""
    root.mkdir(parents=True, exist_ok=True)
    return [f"data_folder={root / 'data'}", f"run_folder={root / 'runs'}", "name=killed"]


def serve_downloads(folder: Path) -> None:
    """Write a small corpus as the files that are downloaded, and let the downloads come from
    there."""
    folder.mkdir(parents=True)
    generator = random.Random(0)
    multi30k.ADDRESS = folder.resolve().as_uri()
    for name, size in SIZES.items():
        pairs = [
            [generator.choice(WORDS).split("|") for _ in range(generator.randint(3, 8))]
            for _ in range(size)
        ]
        for side, language in enumerate(("de", "fr")):
            text = "".join(
                " ".join(words[side] for words in pair) + f" {line}.\n"
                for line, pair in enumerate(pairs)
            )
            (folder / f"{name}.{language}.gz").write_bytes(gzip.compress(text.encode()))
            multi30k.CHECKSUMS[f"{name}.{language}"] = None


def sigkill(process: int) -> None:
    os.kill(process, signal.SIGKILL)


class Kill(NamedTuple):
    """SIGKILL, or another act, `delay` seconds after the stage has begun for the `occurrence`-th
    time, from 1."""

    stage: str
    occurrence: int
    delay: float
    act: Callable[[int], None] = sigkill


@dataclass
class Outcome:
    """How a process ended."""

    killed_in: str | None  # the innermost open stage; None when it was not killed
    code: int  # exit code, meaningless after a kill
    out: str
    err: str
    durations: dict[str, float]  # seconds of the shortest occurrence of each stage that ended


def train(words: Sequence[str], output: Path, kill: Kill | None = None) -> Outcome:
    """Run the command in a fork, which starts within milliseconds; its output goes to files in
    `output`."""
    reading, writing = os.pipe()
    process = os.fork()
    if not process:
        child(words, output, writing)
    os.close(writing)
    open_stages, durations = watch(reading, process, kill)
    _, status = os.waitpid(process, 0)
    out, err = ((output / name).read_text(encoding="utf-8") for name in ("out", "err"))
    outer = [name for name in open_stages if name in WITH_PARTS]
    killed_in = (outer or open_stages)[-1] if os.WIFSIGNALED(status) else None
    return Outcome(killed_in, os.waitstatus_to_exitcode(status), out, err, durations)


def child(words: Sequence[str], output: Path, writing: int) -> None:
    code = 70
    try:
        for name, number in (("out", 1), ("err", 2)):
            os.dup2(os.open(output / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        mark_stages(writing)
        code = cli.main(["train", *words])
        sys.stdout.flush()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


def watch(reading: int, process: int, kill: Kill | None) -> tuple[list[str], dict[str, float]]:
    """Read marks until the process ends, and kill it; the stages that were open then, and the
    seconds of the others."""
    open_stages: list[str] = []
    begun: list[float] = []
    durations: dict[str, float] = {}
    seen = 0
    with open(reading, "rb") as marks:
        for line in marks:
            name = line[1:].decode().strip()
            if line[:1] == b"-":
                open_stages.pop()
                seconds = time.monotonic() - begun.pop()
                durations[name] = min(durations.get(name, seconds), seconds)
                continue
            open_stages.append(name)
            begun.append(time.monotonic())
            seen += kill is not None and name == kill.stage
            if kill is not None and seen == kill.occurrence and name == kill.stage:
                time.sleep(kill.delay)
                kill.act(process)
                kill = None
    return open_stages, durations


def mark_stages(descriptor: int) -> None:
    """From now on each stage writes the lines `+NAME` and `-NAME` to this descriptor."""

    def marked(function: Callable[..., Any], name: str) -> Callable[..., Any]:
        @functools.wraps(function)
        def inner(*arguments: Any, **options: Any) -> Any:
            os.write(descriptor, f"+{name}\n".encode())
            result = function(*arguments, **options)
            os.write(descriptor, f"-{name}\n".encode())
            return result

        return inner

    os.write(descriptor, b"+start\n")
    for name, (owner, attribute) in FUNCTIONS.items():
        setattr(owner, attribute, marked(getattr(owner, attribute), name))


def differences(killed: Path, reference: Path) -> list[str]:
    """What differs between two run folders: checkpoints (to the bit), hypotheses, scores, curves;
    what is left over."""
    # A kill after the work of a temporary folder may leave it, with its lock, until something is
    # written beside it.
    files = [
        path for path in killed.parent.parent.rglob("*") if path.is_file() and path.name != LOCK
    ]
    left = [
        path
        for path in files
        if ".damaged." in path.name or any(part.endswith(".tmp") for part in path.parts)
    ]
    found = outcome_of(killed)
    expected = outcome_of(reference)
    names = [
        name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name)
    ]
    return [*(f"left over: {path}" for path in left), *sorted(names)]


def outcome_of(folder: Path) -> dict[str, str]:
    """What a training leaves, without what may differ: folders and seconds."""
    found: dict[str, str] = {}
    for path in folder.glob("*.safetensors"):
        payload = checkpoint.load(path)
        for key in ("data_folder", "run_folder"):
            payload["config"].pop(key)
        payload.get("train_state", {}).pop("seconds", None)
        found |= {
            f"{path.name} {key}": json.dumps(value, default=digest)
            for key, value in payload.items()
        }
    for path in folder.glob("evaluate/*/hyp"):
        scores = json.loads(path.with_name("result.json").read_text())
        found[str(path.relative_to(folder))] = (
            f"{scores['bleu']} {scores['chrf']}\n{path.read_text()}"
        )
    events = EventAccumulator(str(folder / "tensorboard"), size_guidance={"tensors": 0}).Reload()
    for tag in events.Tags()["tensors"]:
        values = [
            (each.step, tag.startswith(UNLIKE) or str(each.tensor_proto))
            for each in events.Tensors(tag)
        ]
        found[f"curve {tag}"] = str(values)
    return found


def digest(value: Any) -> str:
    """A hash of a tensor's bytes, so that NaN equals itself and -0 is not 0; another value as
    text."""
    if not isinstance(value, torch.Tensor):
        return repr(value)
    content = value.contiguous().flatten().view(torch.uint8).numpy().tobytes()
    return f"{value.dtype} {tuple(value.shape)} {hashlib.sha256(content).hexdigest()}"

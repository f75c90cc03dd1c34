"""The small training that is killed: its options, its corpus, which is downloaded from a folder, and its root."""

import gzip
import random
from importlib import import_module
from pathlib import Path

import torch

from nmt.data import hub

SMALL = {"transformer_tiny": "hidden_size=16 num_heads=2 feed_forward_size=32 encoder_layers=1 decoder_layers=1"}
RECURRENT = "hidden_size=16 embedding_size=16"
MODELS = ("transformer_tiny", "luong_global", "luong_local_p", "bahdanau", "seq2seq", "bahdanau_hard")
TRAINING = (
    "data=multi30k data.source=de data.target=fr data.test=test_2016_flickr tokenizer.vocabulary_size=310 device=cpu "
    "precision=fp32 model.dropout=0.2 "
    "train.batch_tokens=256 train.max_steps=20 train.max_epochs=null train.max_minutes=null train.validate_every=4 "
    "train.log_every=3 train.log_sentences=1 train.average_checkpoints=2 train.save_minutes=0.0005 "
    "train.subword_sampling=0.1 optim.warmup_steps=2 decode.beam=2 decode.max_length_ratio=1 decode.max_length_extra=5"
)
SLOW_IMPORTS = ("torch._dynamo", "torch.utils.tensorboard.summary", "matplotlib.backends.backend_agg", "datasets")
SIZES = {"train": 160, "val": 8, "test_2016_flickr": 6}
WORDS = ("ein Hund|un chien", "die Frau|la femme", "sieht|voit", "rote|rouge", "Haus|maison", "und|et", "kauft|achète")


def prepare() -> None:
    """Import once what each process would import for seconds; forked processes must have one thread."""
    torch.set_num_threads(1)
    for name in SLOW_IMPORTS:
        import_module(name)


def model_words(model: str) -> list[str]:
    """The overrides of a model that trains in a second."""
    return [f"model={model}", *(f"model.{word}" for word in SMALL.get(model, RECURRENT).split())]


def new_root(root: Path) -> Path:
    """An empty folder for data and runs; raises FileExistsError."""
    root.mkdir(parents=True)
    return root


def folders(root: Path) -> list[str]:
    """The overrides that put data and the run below `root`."""
    return [f"data_folder={root / 'data'}", f"run_folder={root / 'runs'}", "name=killed"]


def serve_downloads(folder: Path) -> None:
    """Write a small corpus as the files that are downloaded, and let the downloads come from there."""
    folder.mkdir(parents=True)
    generator = random.Random(0)
    hub.ADDRESS = folder.resolve().as_uri()
    for name, size in SIZES.items():
        pairs = [[generator.choice(WORDS).split("|") for _ in range(generator.randint(3, 8))] for _ in range(size)]
        for side, language in enumerate(("de", "fr")):
            text = "".join(" ".join(words[side] for words in pair) + f" {line}.\n" for line, pair in enumerate(pairs))
            (folder / f"{name}.{language}.gz").write_bytes(gzip.compress(text.encode()))
            hub.CHECKSUMS[f"{name}.{language}"] = None

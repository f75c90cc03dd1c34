"""The toolkits that scripts/bench_peers.py installs and runs: packages, sizes and settings, all of
one size.

Transformer 3 + 3, D 256, 4 heads, feed-forward 1,024; recurrent: 1 layer, encoder 2 × 256, decoder
512, embeddings 256. Dropout 0.1, none of attention weights where that can be set, as in ours; one
vocabulary and embedding for both languages, label smoothing 0.1, Adam, clipping at 1.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

# NEVER: updates, more than are made
PIECES = 8000
BATCH_TOKENS = 4096
NEVER = 1_000_000
DROPOUT = SMOOTHING = 0.1
NOAM = {"learning_rate": 2.0, "decay_method": "noam", "warmup_steps": 400}


class Environment(NamedTuple):
    """What one virtual environment gets, above torch, numpy and sentencepiece of this project's
    own."""

    toolkit: list[str]  # installed without its own, older, requirements
    requirements: list[str]  # those of its requirements that are needed here
    # a module that it imports but does not use here, and that would have to be compiled
    stub: str = ""


ENVIRONMENTS = {
    "onmt": Environment(
        ["opennmt-py==3.5.1"],
        "configargparse ctranslate2==4.8.5 tensorboard flask waitress pyonmttok rapidfuzz "
        "pyahocorasick six "
        "spacy".split(),
        "fasttext",
    ),
    "eole": Environment(
        ["eole==0.6.4"],
        "configargparse ctranslate2==4.8.5 tensorboard pyahocorasick pyonmttok rapidfuzz rich "
        "safetensors six pydantic huggingface_hub datasets pandas subword-nmt tokenizers waitress "
        "fastapi uvicorn torch-optimi spacy soundfile "
        "aiohttp".split(),
        "fasttext",
    ),
}


class Peer(NamedTuple):
    """A toolkit's model: its environment, its training command, and the overrides of our nearest
    model."""

    environment: str
    # of the command, for the folder of data and settings, and fp32 or bf16
    arguments: Callable[[Path, str], list[str]]
    nmt: list[str]  # overrides


def write_settings(folder: Path, name: str, settings: dict[str, Any]) -> str:
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps(settings, indent=1), encoding="utf-8")
    return str(path)


def onmt_data(folder: Path) -> dict[str, Any]:
    vocabulary = str(folder / "vocabulary.tsv")
    pairs = {
        name: {
            f"path_{short}": str(folder / f"{part}.pieces.{side}") for short, side in SIDES.items()
        }
        for name, part in (("corpus", "train"), ("valid", "valid"))
    }
    return {
        "data": pairs,
        "src_vocab": vocabulary,
        "tgt_vocab": vocabulary,
        "share_vocab": True,
        "src_vocab_size": PIECES,
        "tgt_vocab_size": PIECES,
        "save_data": str(folder / "saved"),
        "overwrite": True,
    }


SIDES = {"src": "source", "tgt": "target"}
TOKENS = {
    "batch_type": "tokens",
    "batch_size": BATCH_TOKENS,
    "batch_size_multiple": 1,
    "normalization": "tokens",
    "bucket_size": 30_000,
    "num_workers": 0,
    "train_steps": NEVER,
    "valid_steps": NEVER,
    "save_checkpoint_steps": NEVER,
    "optim": "adam",
    "adam_beta2": 0.998,
    "max_grad_norm": 1.0,
    "label_smoothing": SMOOTHING,
    "dropout": [DROPOUT],
}


def onmt_transformer(folder: Path, precision: str) -> list[str]:
    """OpenNMT-py's Transformer: the arguments of its training command."""
    model = {
        "encoder_type": "transformer",
        "decoder_type": "transformer",
        "enc_layers": 3,
        "dec_layers": 3,
        "heads": 4,
        "hidden_size": 256,
        "word_vec_size": 256,
        "transformer_ff": 1024,
        "attention_dropout": [0.0],
        "position_encoding": True,
        "share_embeddings": True,
        "share_decoder_embeddings": True,
    }
    start = {
        "param_init": 0,
        "param_init_glorot": True,
        "save_model": str(folder / "onmt_transformer"),
    }
    return [
        "-config",
        write_settings(
            folder, "onmt_transformer", onmt_data(folder) | TOKENS | NOAM | model | start
        ),
    ]


def onmt_recurrent(score: str) -> Callable[[Path, str], list[str]]:
    """OpenNMT-py's LSTM with attention after the step and input feeding; `score` is general or
    mlp."""

    def arguments(folder: Path, precision: str) -> list[str]:
        model = {
            "encoder_type": "brnn",
            "decoder_type": "rnn",
            "rnn_type": "LSTM",
            "enc_layers": 1,
            "dec_layers": 1,
            "hidden_size": 512,
            "word_vec_size": 256,
            "share_embeddings": True,
            "input_feed": 1,
            "global_attention": score,
            "learning_rate": 1e-3,
            "save_model": str(folder / f"onmt_{score}"),
        }
        return [
            "-config",
            write_settings(folder, f"onmt_{score}", onmt_data(folder) | TOKENS | model),
        ]

    return arguments


def eole_transformer(folder: Path, precision: str) -> list[str]:
    """The Transformer of eole, the continuation of OpenNMT-py: the arguments of its command."""
    training = (
        TOKENS
        | NOAM
        | {
            "model_path": str(folder / "eole"),
            "world_size": 1,
            "gpu_ranks": [],
            "valid_batch_size": BATCH_TOKENS,
            "accum_count": [1],
            "accum_steps": [0],
            "compute_dtype": precision,
            "use_amp": precision == "bf16",
            "dropout_steps": [0],
            "attention_dropout": [0.0],
            "param_init_method": "xavier_uniform",
        }
    )
    model = {
        "architecture": "transformer",
        "layers": 3,
        "heads": 4,
        "hidden_size": 256,
        "transformer_ff": 1024,
        "share_embeddings": True,
        "share_decoder_embeddings": True,
        "embeddings": {"word_vec_size": 256, "position_encoding_type": "SinusoidalInterleaved"},
    }
    settings = onmt_data(folder) | {"n_sample": 0, "training": training, "model": model}
    return ["train", "-config", write_settings(folder, "eole", settings)]


SHARED = ["model.dropout=0.1", "train.label_smoothing=0.1", f"train.batch_tokens={BATCH_TOKENS}"]
TRANSFORMER = [
    "model=transformer",
    "model.hidden_size=256",
    "model.feed_forward_size=1024",
    *SHARED,
]
# Output layers are not tied to embeddings; the toolkits' read 512 numbers, ours the 256 of the
# attentional vector.
RECURRENT = ["model=luong_global", "model.hidden_size=512", "model.tie_embeddings=false", *SHARED]
ADDITIVE = [*RECURRENT, "model.score=additive"]
# No toolkit computes attention before the step; the nearest model is the additive score after it.
BAHDANAU = ["model=bahdanau", "model.hidden_size=512", "model.tie_embeddings=false", *SHARED]
PEERS = {
    "eole_transformer": Peer("eole", eole_transformer, TRANSFORMER),
    "onmt_transformer": Peer("onmt", onmt_transformer, TRANSFORMER),
    "onmt_general": Peer("onmt", onmt_recurrent("general"), RECURRENT),
    "onmt_mlp": Peer("onmt", onmt_recurrent("mlp"), ADDITIVE),
    "onmt_mlp_bahdanau": Peer("onmt", onmt_recurrent("mlp"), BAHDANAU),
}

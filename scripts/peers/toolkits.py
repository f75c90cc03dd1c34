"""The toolkits that scripts/bench_peers.py installs and runs: packages, sizes and settings, all of one size.

Transformer 3 + 3, D 256, 4 heads, feed-forward 1,024; recurrent: 1 layer, encoder 2 × 256, decoder 512, embeddings 256.
Dropout 0.1, of attention weights none where that can be said, as ours; one vocabulary and embedding for both languages,
label smoothing 0.1, Adam, clipping at 1.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

PIECES, BUDGET, HUGE = 8000, 4096, 1_000_000
DROPOUT = SMOOTHING = 0.1
NOAM = {"learning_rate": 2.0, "decay_method": "noam", "warmup_steps": 400}


class Environment(NamedTuple):
    """What one virtual environment gets, above torch, numpy and sentencepiece of this project's own."""

    toolkit: list[str]  # installed without its own, older, requirements
    others: list[str]
    stub: str = ""  # a module that it imports and does not use here, and that would have to be compiled


ENVIRONMENTS = {
    "onmt": Environment(
        ["opennmt-py==3.5.1"],
        "configargparse ctranslate2==4.8.5 tensorboard flask waitress pyonmttok rapidfuzz pyahocorasick six "
        "spacy".split(),
        "fasttext",
    ),
    "eole": Environment(
        ["eole==0.6.4"],
        "configargparse ctranslate2==4.8.5 tensorboard pyahocorasick pyonmttok rapidfuzz rich safetensors six pydantic "
        "huggingface_hub datasets pandas subword-nmt tokenizers waitress fastapi uvicorn torch-optimi spacy soundfile "
        "aiohttp".split(),
        "fasttext",
    ),
    "joey": Environment(
        ["joeynmt==2.3.0"],
        "tensorboard sacremoses subword-nmt matplotlib seaborn datasets packaging pandas importlib_metadata future "
        "wrapt sentencepiece==0.2.0".split(),
    ),
    "sockeye": Environment(["sockeye==3.1.34"], ["psutil", "pyyaml"]),
    "hf": Environment([], ["transformers==5.23.0", "accelerate==1.15.0", "ctranslate2==4.8.5"]),
}


class Peer(NamedTuple):
    """A toolkit's model: its environment, the words of its training command, and ours of the same kind."""

    environment: str
    words: Callable[[Path], list[str]]  # where data and configurations are → arguments of the toolkit's command
    ours: list[str]


def written(folder: Path, name: str, settings: dict[str, Any]) -> str:
    """Settings as a file; JSON is YAML."""
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps(settings, indent=1), encoding="utf-8")
    return str(path)


def files(folder: Path) -> dict[str, Any]:
    """The data as OpenNMT-py and eole are told."""
    vocabulary = str(folder / "vocabulary.tsv")
    pairs = {name: {f"path_{short}": str(folder / f"{part}.pieces.{side}") for short, side in SIDES.items()}
             for name, part in (("corpus", "train"), ("valid", "valid"))}  # fmt: skip
    return {
        "data": pairs, "src_vocab": vocabulary, "tgt_vocab": vocabulary, "share_vocab": True,
        "src_vocab_size": PIECES, "tgt_vocab_size": PIECES, "save_data": str(folder / "saved"), "overwrite": True,
    }  # fmt: skip


SIDES = {"src": "source", "tgt": "target"}
TOKENS = {
    "batch_type": "tokens", "batch_size": BUDGET, "batch_size_multiple": 1, "normalization": "tokens",
    "bucket_size": 30_000, "num_workers": 0, "train_steps": HUGE, "valid_steps": HUGE, "save_checkpoint_steps": HUGE,
    "optim": "adam", "adam_beta2": 0.998, "max_grad_norm": 1.0, "label_smoothing": SMOOTHING, "dropout": [DROPOUT],
}  # fmt: skip


def onmt_transformer(folder: Path) -> list[str]:
    """OpenNMT-py."""
    model = {
        "encoder_type": "transformer", "decoder_type": "transformer", "enc_layers": 3, "dec_layers": 3, "heads": 4,
        "hidden_size": 256, "word_vec_size": 256, "transformer_ff": 1024, "attention_dropout": [0.0],
        "position_encoding": True, "share_embeddings": True, "share_decoder_embeddings": True,
    }  # fmt: skip
    start = {"param_init": 0, "param_init_glorot": True, "save_model": str(folder / "onmt_transformer")}
    return ["-config", written(folder, "onmt_transformer", files(folder) | TOKENS | NOAM | model | start)]


def onmt_recurrent(score: str) -> Callable[[Path], list[str]]:
    """OpenNMT-py's recurrent model, which looks after the step, with input feeding."""

    def words(folder: Path) -> list[str]:
        model = {
            "encoder_type": "brnn", "decoder_type": "rnn", "rnn_type": "LSTM", "enc_layers": 1, "dec_layers": 1,
            "hidden_size": 512, "word_vec_size": 256, "share_embeddings": True, "input_feed": 1,
            "global_attention": score, "learning_rate": 1e-3, "save_model": str(folder / f"onmt_{score}"),
        }  # fmt: skip
        return ["-config", written(folder, f"onmt_{score}", files(folder) | TOKENS | model)]

    return words


def eole_transformer(folder: Path) -> list[str]:
    """Eole, the continuation of OpenNMT-py."""
    training = TOKENS | NOAM | {
        "model_path": str(folder / "eole"), "world_size": 1, "gpu_ranks": [], "valid_batch_size": BUDGET,
        "accum_count": [1], "accum_steps": [0], "compute_dtype": "fp32", "use_amp": False, "dropout_steps": [0],
        "attention_dropout": [0.0], "param_init_method": "xavier_uniform",
    }  # fmt: skip
    model = {
        "architecture": "transformer", "layers": 3, "heads": 4, "hidden_size": 256, "transformer_ff": 1024,
        "share_embeddings": True, "share_decoder_embeddings": True,
        "embeddings": {"word_vec_size": 256, "position_encoding_type": "SinusoidalInterleaved"},
    }  # fmt: skip
    settings = files(folder) | {"n_sample": 0, "training": training, "model": model}
    return ["train", "-config", written(folder, "eole", settings)]


def joey_side(folder: Path, language: str) -> dict[str, Any]:
    """Pieces, split at spaces."""
    return {
        "lang": language, "level": "word", "max_length": 300, "lowercase": False, "normalize": False,
        "voc_min_freq": 1, "voc_file": str(folder / "vocabulary.txt"),
    }  # fmt: skip


def joey(name: str, model: dict[str, Any]) -> Callable[[Path], list[str]]:
    """JoeyNMT."""

    def words(folder: Path) -> list[str]:
        training = {
            "optimizer": "adam", "adam_betas": [0.9, 0.998], "learning_rate": 2e-3, "label_smoothing": SMOOTHING,
            "scheduling": "warmupinversesquareroot", "learning_rate_warmup": 400, "clip_grad_norm": 1.0,
            "normalization": "tokens", "batch_type": "token", "batch_size": BUDGET, "batch_multiplier": 1,
            "epochs": 1000, "updates": HUGE, "validation_freq": HUGE, "logging_freq": HUGE, "overwrite": True,
            "shuffle": True, "early_stopping_metric": "loss", "print_valid_sents": [],
        }  # fmt: skip
        symbols = {
            f"{name}_token": text
            for name, text in (("unk", "<unk>"), ("pad", "<pad>"), ("bos", "<s>"), ("eos", "</s>"))
        }
        data = {
            "train": str(folder / "train.pieces"), "dev": str(folder / "valid.pieces"), "dataset_type": "plain",
            "src": joey_side(folder, "source"), "trg": joey_side(folder, "target"),
            "special_symbols": symbols | {"unk_id": 0, "pad_id": 1, "bos_id": 2, "eos_id": 3},
        }  # fmt: skip
        settings = {
            "name": name, "joeynmt_version": "2.3.0", "model_dir": str(folder / name), "use_cuda": False, "fp16": False,
            "random_seed": 1, "data": data, "training": training, "model": model,
            "testing": {"beam_size": 1, "batch_size": 64, "batch_type": "sentence", "eval_metrics": ["bleu"]},
        }  # fmt: skip
        return ["train", written(folder, name, settings), "--skip-test"]

    return words


def joey_transformer() -> dict[str, Any]:
    """Encoder and decoder are told the same."""
    embeddings = {"embedding_dim": 256, "scale": True, "dropout": 0.0}
    side = {
        "type": "transformer", "num_layers": 3, "num_heads": 4, "hidden_size": 256, "ff_size": 1024,
        "dropout": DROPOUT, "layer_norm": "pre", "activation": "relu", "embeddings": embeddings,
    }  # fmt: skip
    return {"tied_embeddings": True, "tied_softmax": True, "encoder": side, "decoder": side}


def joey_recurrent(attention: str) -> dict[str, Any]:
    """Its `bahdanau` is an additive score after the step."""
    embeddings = {"embedding_dim": 256, "scale": False, "dropout": 0.0}
    side = {"type": "recurrent", "rnn_type": "lstm", "num_layers": 1, "dropout": DROPOUT, "embeddings": embeddings}
    encoder = side | {"hidden_size": 256, "bidirectional": True}
    decoder = side | {"hidden_size": 512, "hidden_dropout": DROPOUT, "input_feeding": True, "init_hidden": "bridge"}
    sides = {"encoder": encoder, "decoder": decoder | {"attention": attention}}
    return {"tied_embeddings": True, "tied_softmax": False} | sides


def sockeye_transformer(folder: Path) -> list[str]:
    """Sockeye."""
    model = (
        "--encoder transformer --decoder transformer --num-layers 3:3 --transformer-model-size 256:256 "
        "--transformer-attention-heads 4:4 --transformer-feed-forward-num-hidden 1024:1024 "
        "--transformer-dropout-attention 0:0 --transformer-dropout-act 0:0 "
        f"--transformer-dropout-prepost {DROPOUT}:{DROPOUT} --weight-tying-type src_trg_softmax --shared-vocab "
        f"--label-smoothing {SMOOTHING} --batch-type max-word --batch-size {BUDGET} --batch-sentences-multiple-of 1 "
        "--optimizer adam --initial-learning-rate 0.001 --gradient-clipping-type norm --gradient-clipping-threshold 1 "
        f"--max-seq-len 300 --max-updates {HUGE} --checkpoint-interval {HUGE} --decode-and-evaluate 0 --seed 1 "
        "--use-cpu --overwrite-output"
    ).split()
    sides = {"--source": "train.pieces.source", "--target": "train.pieces.target"}
    sides |= {"--validation-source": "valid.pieces.source", "--validation-target": "valid.pieces.target"}
    places = [word for option, name in sides.items() for word in (option, str(folder / name))]
    return [*model, *places, "--output", str(folder / "sockeye")]


OURS = ["model.dropout=0.1", "train.label_smoothing=0.1", f"train.batch_tokens={BUDGET}"]
TRANSFORMER = ["model=transformer", *OURS]
# Output layers of their own, as theirs; theirs reads 512 numbers, ours the 256 of the attentional vector.
RECURRENT = ["model=luong_global", "model.tie=false", *OURS]
ADDITIVE = [*RECURRENT, "model.score=additive"]
# No toolkit looks before the step: beside ours stands the nearest there is, the additive score after it.
BAHDANAU = ["model=bahdanau", "model.tie=false", *OURS]
PEERS = {
    "eole_transformer": Peer("eole", eole_transformer, TRANSFORMER),
    "onmt_transformer": Peer("onmt", onmt_transformer, TRANSFORMER),
    "hf_transformer": Peer("hf", lambda folder: [str(folder)], TRANSFORMER),
    "sockeye_transformer": Peer("sockeye", sockeye_transformer, TRANSFORMER),
    "joey_transformer": Peer("joey", joey("joey_transformer", joey_transformer()), TRANSFORMER),
    "onmt_general": Peer("onmt", onmt_recurrent("general"), RECURRENT),
    "onmt_mlp": Peer("onmt", onmt_recurrent("mlp"), ADDITIVE),
    "onmt_mlp_bahdanau": Peer("onmt", onmt_recurrent("mlp"), BAHDANAU),
    "joey_luong": Peer("joey", joey("joey_luong", joey_recurrent("luong")), RECURRENT),
    "joey_bahdanau": Peer("joey", joey("joey_bahdanau", joey_recurrent("bahdanau")), ADDITIVE),
}

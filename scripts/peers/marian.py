"""MarianMT of Hugging Face transformers, trained from scratch or given our weights; runs in its own environment.

train_toolkit.py trains it, translate_file.py translates with it.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import MarianConfig, MarianMTModel, Seq2SeqTrainer, Seq2SeqTrainingArguments

from peers.toolkits import DROPOUT, PIECES, SMOOTHING

PAD, BOS, EOS, IGNORED = 0, 2, 3, -100
SENTENCES = 256  # a batch: about BATCH_TOKENS target positions on Multi30k


def marian(dropout: float = DROPOUT) -> MarianMTModel:
    """3 + 3 layers, post-norm, sinusoids with the sines first, all embeddings shared."""
    sides = {f"{side}_{key}": value for side in ("encoder", "decoder")
             for key, value in (("layers", 3), ("attention_heads", 4), ("ffn_dim", 1024))}  # fmt: skip
    config = MarianConfig(
        vocab_size=PIECES, decoder_vocab_size=PIECES, d_model=256, dropout=dropout, attention_dropout=0.0,
        activation_dropout=0.0, activation_function="relu", scale_embedding=True, max_position_embeddings=512,
        share_encoder_decoder_embeddings=True, tie_word_embeddings=True, pad_token_id=PAD, bos_token_id=BOS,
        eos_token_id=EOS, decoder_start_token_id=BOS, forced_eos_token_id=None, **sides,
    )  # fmt: skip
    return MarianMTModel(config)


def load_nmt_weights(checkpoint: str) -> tuple[MarianMTModel, Any]:
    """MarianMT with the weights of our post-norm Transformer of the same size, and our SentencePiece model."""
    import sentencepiece
    from safetensors import safe_open

    with safe_open(checkpoint, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, it is no dict
        tensors |= {alias: tensors[name] for alias, name in json.loads(file.metadata()["shared"]).items()}
    model = marian(0.0).eval()
    state = {"model.shared.weight": tensors["model/target_embedding.weight"]}
    for key, value in tensors.items():
        if not key.startswith("model/"):
            continue
        key = key.removeprefix("model/")
        side, number, part, rest = [*key.split(".", 3), "", ""][:4]
        names = marian_names(part, rest)
        tensors = value.chunk(len(names)) if names else []
        state |= {f"model.{side}.layers.{number}.{name}": tensor for name, tensor in zip(names, tensors, strict=True)}
    missing, unknown = model.load_state_dict(state, strict=False)
    shared = {"model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"}
    computed = {"final_logits_bias", "model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"}
    if unknown or set(missing) - shared - computed:
        raise SystemExit(f"Parameters of MarianMT do not match: {unknown}, {set(missing) - shared - computed}")
    model.tie_weights()
    pieces = tensors["tokenizers/source"].numpy().tobytes()
    return model, sentencepiece.SentencePieceProcessor(model_proto=pieces)


ATTENTIONS = {"attention": "self_attn", "self_attention": "self_attn", "cross_attention": "encoder_attn"}
NORMS = {
    "attention_residual": "self_attn_layer_norm", "self_residual": "self_attn_layer_norm",
    "cross_residual": "encoder_attn_layer_norm", "feed_forward_residual": "final_layer_norm",
}  # fmt: skip


def marian_names(part: str, rest: str) -> list[str]:
    """Marian's names for a parameter of a layer; three for the joint projection of query, key and value."""
    parameter = rest.rsplit(".", 1)[-1]  # weight or bias
    if part in ATTENTIONS and rest in ("weight", "bias"):
        return [f"{ATTENTIONS[part]}.{letter}_proj.{parameter}" for letter in "qkv"]
    if part in ATTENTIONS:
        return [f"{ATTENTIONS[part]}.out_proj.{parameter}"]
    if part in NORMS:
        return [f"{NORMS[part]}.{parameter}"]
    return [f"fc{1 if rest.startswith('0') else 2}.{parameter}"] if part == "feed_forward" else []


def read_ids(folder: Path, name: str) -> Iterator[list[int]]:
    """The ids of each line of a file, followed by </s>."""
    for line in (folder / name).read_text(encoding="utf-8").splitlines():
        yield [*map(int, line.split()), EOS]


def pad(rows: list[list[int]], value: int) -> Tensor:
    """Rows of ids, padded with `value` to the longest: [B longest]."""
    longest = max(map(len, rows))
    return torch.tensor([row + [value] * (longest - len(row)) for row in rows])


def collate(pairs: list[dict[str, list[int]]]) -> dict[str, Tensor]:
    """A batch as MarianMTModel takes it."""
    source = pad([pair["input_ids"] for pair in pairs], PAD)
    labels = pad([pair["labels"] for pair in pairs], IGNORED)
    target = pad([[BOS, *pair["labels"][:-1]] for pair in pairs], PAD)
    return {"input_ids": source, "attention_mask": source.ne(PAD).long(), "labels": labels, "decoder_input_ids": target}


def main() -> None:
    """Train until the meter of train_toolkit.py ends the process."""
    folder = Path(sys.argv[1])
    columns = [read_ids(folder, f"train.ids.{side}") for side in ("source", "target")]
    pairs: Any = [{"input_ids": source, "labels": target} for source, target in zip(*columns, strict=True)]
    torch.manual_seed(1)
    arguments = Seq2SeqTrainingArguments(
        output_dir=str(folder / "hf"), per_device_train_batch_size=SENTENCES, learning_rate=1e-3, warmup_steps=400,
        lr_scheduler_type="inverse_sqrt", adam_beta2=0.998, weight_decay=0.0, max_grad_norm=1.0,
        label_smoothing_factor=SMOOTHING, max_steps=1_000_000, train_sampling_strategy="group_by_length",
        logging_steps=1_000_000, save_strategy="no", report_to=[], use_cpu=True, dataloader_num_workers=0,
        remove_unused_columns=False, seed=1, disable_tqdm=True,
    )  # fmt: skip
    Seq2SeqTrainer(model=marian(), args=arguments, train_dataset=pairs, data_collator=collate).train()

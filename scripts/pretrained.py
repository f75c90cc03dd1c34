#!/usr/bin/env python3
"""Train and fine-tune small Marian and M2M-100 models with transformers alone: test beds and peers
of `nmt import`.

    scripts/pretrained.py marian OUT --text train.de.gz train.en.gz --minutes 20
    scripts/pretrained.py m2m100 OUT --text train.cs.gz train.de.gz train.en.gz \\
        --languages cs de en --minutes 20
    scripts/pretrained.py finetune OUT --model FOLDER --text new.de new.en --minutes 5
    scripts/pretrained.py translate FOLDER < source > target

The folders are as OPUS-MT's and M2M-100's are: source.spm, target.spm and vocab.json, or
sentencepiece.bpe.model.
"""

import argparse
import gzip
import io
import json
import random
import sys
import time
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import sentencepiece
import torch
import transformers
from torch import Tensor

SIZES = {"d_model": 256, "encoder_layers": 3, "decoder_layers": 3, "max_position_embeddings": 256}
SIZES |= {f"{side}_attention_heads": 4 for side in ("encoder", "decoder")}
SIZES |= {f"{side}_ffn_dim": 1024 for side in ("encoder", "decoder")}
BATCH = 2000  # pieces of both sides, padding counted


def read_lines(path: Path) -> list[str]:
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8").splitlines()


def train_spm(path: Path, lines: list[str], size: int, kind: str) -> list[str]:
    """Train and save a SentencePiece model; its pieces without <unk>, <s> and </s>."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        vocab_size=size,
        model_type=kind,
        minloglevel=2,
        character_coverage=0.9995,
        hard_vocab_limit=False,
    )
    path.write_bytes(model.getvalue())
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    return [processor.id_to_piece(number) for number in range(3, processor.get_piece_size())]


def make_marian(out: Path, texts: list[list[str]]) -> tuple[Any, Any]:
    source, target = (
        train_spm(out / f"{name}.spm", lines, 4000, "unigram")
        for name, lines in zip(("source", "target"), texts, strict=True)
    )
    pieces = ["</s>", "<unk>", *dict.fromkeys(source + target), "<pad>"]
    (out / "vocab.json").write_text(
        json.dumps({piece: number for number, piece in enumerate(pieces)}), "utf-8"
    )
    files = {"source_spm": "source.spm", "target_spm": "target.spm", "vocab": "vocab.json"}
    tokenizer = transformers.MarianTokenizer(
        **{name: str(out / file) for name, file in files.items()}
    )
    pad = len(pieces) - 1
    config = transformers.MarianConfig(
        **SIZES,
        vocab_size=len(pieces),
        activation_function="swish",
        scale_embedding=True,
        eos_token_id=0,
        pad_token_id=pad,
        decoder_start_token_id=pad,
        forced_eos_token_id=0,
        num_beams=4,
        bad_words_ids=[[pad]],
        dropout=0.1,
    )
    return transformers.MarianMTModel(config), tokenizer


def make_m2m100(out: Path, texts: list[list[str]]) -> tuple[Any, Any]:
    pieces = train_spm(out / "sentencepiece.bpe.model", sum(texts, []), 8000, "bpe")
    vocabulary = ["<s>", "<pad>", "</s>", "<unk>", *pieces]
    (out / "vocab.json").write_text(
        json.dumps({piece: number for number, piece in enumerate(vocabulary)}), "utf-8"
    )
    tokenizer = transformers.M2M100Tokenizer(
        str(out / "vocab.json"), str(out / "sentencepiece.bpe.model")
    )
    config = transformers.M2M100Config(
        **SIZES,
        vocab_size=len(vocabulary) + 108,
        encoder_layerdrop=0.0,
        decoder_layerdrop=0.0,
        num_beams=4,
    )
    return transformers.M2M100ForConditionalGeneration(config), tokenizer


def encode(
    tokenizer: Any, texts: list[list[str]], languages: list[str]
) -> list[tuple[list[int], list[int]]]:
    """The ids of all pairs of languages, both sides with their language and </s>, as the
    tokenizer's but in seconds."""
    vocabulary = tokenizer.get_vocab()
    unknown = tokenizer.unk_token_id
    end = tokenizer.eos_token_id
    models = (
        [tokenizer.sp_model] * len(texts)
        if languages
        else [tokenizer.spm_source, tokenizer.spm_target]
    )
    sides = [
        [
            [vocabulary.get(piece, unknown) for piece in row] + [end]
            for row in model.encode(lines, out_type=str)
        ]
        for model, lines in zip(models, texts, strict=True)
    ]
    for language, rows in zip(languages, sides, strict=False):
        rows[:] = [[tokenizer.get_lang_id(language), *row] for row in rows]
    orders = permutations(range(len(texts)), 2) if languages else [(0, 1)]
    pairs = [pair for here, there in orders for pair in zip(sides[here], sides[there], strict=True)]
    return [pair for pair in pairs if max(map(len, pair)) < 128]


def batches(
    pairs: list[tuple[list[int], list[int]]], seed: int
) -> Iterator[list[tuple[list[int], list[int]]]]:
    """Pairs of similar length, in random order for ever."""
    generator = random.Random(seed)
    while True:
        ordered = sorted(pairs, key=lambda pair: (len(pair[0]) + len(pair[1]), generator.random()))
        found: list[list[Any]] = [[]]
        for pair in ordered:
            if (len(found[-1]) + 1) * (len(pair[0]) + len(pair[1])) > BATCH:
                found.append([])
            found[-1].append(pair)
        generator.shuffle(found)
        yield from found


def pad(rows: list[list[int]], value: int) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence(
        [torch.tensor(row) for row in rows], batch_first=True, padding_value=value
    )


def train(model: Any, pairs: list[tuple[list[int], list[int]]], minutes: float, seed: int) -> None:
    """Adam with 500 updates of warm-up, inverse square root, label smoothing 0.1."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    stop = time.process_time() + 60 * minutes
    losses = []
    for step, batch in enumerate(batches(pairs, seed), 1):
        for group in optimizer.param_groups:
            group["lr"] = 1.5e-3 * min(
                step / 500, (500 / step) ** 0.5, max(0, stop - time.process_time()) / 120 + 0.05
            )
        ids = pad([source for source, _ in batch], model.config.pad_token_id)
        labels = pad([target for _, target in batch], -100)
        start = torch.full((len(batch), 1), model.config.decoder_start_token_id)
        inputs = torch.cat(
            (start, labels.masked_fill(labels == -100, model.config.pad_token_id)[:, :-1]), 1
        )
        mask = (ids != model.config.pad_token_id).long()
        logits = model(input_ids=ids, attention_mask=mask, decoder_input_ids=inputs).logits
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), labels.flatten(), label_smoothing=0.1
        )
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if step % 200 == 0:
            print(
                f"update {step}: loss {sum(losses[-200:]) / 200:.3f}", file=sys.stderr, flush=True
            )
        if time.process_time() > stop:
            break


def finetune(
    out: Path, folder: Path, texts: list[list[str]], minutes: float, seed: int, rate: float
) -> None:
    """Seq2SeqTrainer as its documentation uses it, until the minutes are over."""
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    rows = [
        dict(zip(("input_ids", "labels"), pair, strict=True))
        for pair in encode(tokenizer, texts, [])
    ]

    class OutOfTime(transformers.TrainerCallback):
        stop = time.process_time() + 60 * minutes

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            control.should_training_stop |= time.process_time() > self.stop

    trainer = transformers.Seq2SeqTrainer(
        model,
        transformers.Seq2SeqTrainingArguments(
            str(out),
            learning_rate=rate,
            per_device_train_batch_size=32,
            num_train_epochs=1000,
            seed=seed,
            train_sampling_strategy="group_by_length",
            weight_decay=0.01,
            save_strategy="no",
            logging_steps=100,
            lr_scheduler_type="constant",
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
        ),
        train_dataset=rows,
        data_collator=transformers.DataCollatorForSeq2Seq(tokenizer, model=model),
        callbacks=[OutOfTime()],
    )
    trainer.train()
    trainer.save_model(str(out))
    tokenizer.save_pretrained(out)


@torch.inference_mode()
def translate(folder: Path, lines: list[str], languages: list[str], beam: int) -> Iterator[str]:
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    options = {}
    if languages:
        tokenizer.src_lang = languages[0]
        options["forced_bos_token_id"] = tokenizer.get_lang_id(languages[1])
    for begin in range(0, len(lines), 32):
        batch = tokenizer(lines[begin : begin + 32], return_tensors="pt", padding=True)
        rows = model.generate(**batch, num_beams=beam, max_new_tokens=128, **options)[
            :, 1 + len(options) :
        ]
        yield from tokenizer.batch_decode(rows, skip_special_tokens=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("marian", "m2m100", "finetune", "translate"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", type=Path, help="what is fine-tuned")
    parser.add_argument(
        "--text", type=Path, nargs="+", default=[], help="one file for each language"
    )
    parser.add_argument("--languages", nargs="+", default=[], help="codes of M2M-100")
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--rate", type=float, default=2e-5, help="learning rate of finetune")
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    torch.set_num_threads(options.threads)
    if options.what == "translate":
        for line in translate(
            options.folder, sys.stdin.read().splitlines(), options.languages, options.beam
        ):
            print(line)
        return
    options.folder.mkdir(parents=True)
    texts = [read_lines(path) for path in options.text]
    if options.what == "finetune":
        finetune(options.folder, options.model, texts, options.minutes, options.seed, options.rate)
        return
    make = make_marian if options.what == "marian" else make_m2m100
    model, tokenizer = make(options.folder, texts)
    train(model, encode(tokenizer, texts, options.languages), options.minutes, options.seed)
    model.save_pretrained(options.folder)
    tokenizer.save_pretrained(options.folder)


if __name__ == "__main__":
    main()

"""nmt import: a translator of Hugging Face transformers as a run."""

import argparse
import logging
from pathlib import Path

import torch

from nmt.commands import check_given
from nmt.config.compose import compose_all
from nmt.config.schema import to_yaml
from nmt.convert.pretrained import NewLanguage, fetch, keep_files, read_pretrained
from nmt.data.files import atomic_folder
from nmt.errors import UserError
from nmt.models.build import build
from nmt.runs.folders import PRETRAINED
from nmt.training import checkpoint

log = logging.getLogger("nmt")


def run(options: argparse.Namespace) -> int:
    """Write the run's folder and print its path."""
    folder = Path(options.runs) / options.run_name
    if folder.exists():
        raise UserError(f"{folder} exists; give another --name.")
    check_given(options, {"--new": "--text", "--text": "--new", "--pieces": "--new"}, {})
    code, _, related = (options.new or "").partition("=")
    new = NewLanguage(code, related, Path(options.text), options.pieces) if options.new else None
    path, origin = fetch(options.name)
    source, target = (each.split("+") if each else [] for each in (options.source, options.target))
    pretrained = read_pretrained(path, source, target, new)
    model = [f"model.{key}={value}" for key, value in pretrained.options.items()]
    (config,) = compose_all(
        [
            "data=files",
            f"data.source={pretrained.languages[0]}",
            f"data.target={pretrained.languages[1]}",
            "data.train=imported",
            f"data.pair_tags={str(any(pretrained.tokenizers.target.prefixes)).lower()}",
            f"name={options.run_name}",
            "tokenizer.protect=false",
            f"tokenizer.joint={str(pretrained.tokenizers.joint).lower()}",
            f"tokenizer.vocabulary_size={pretrained.tokenizers.source.size}",
            f"tokenizer.lowercase={str(pretrained.tokenizers.source.lowercase).lower()}",
            *model,
        ],
        multirun=False,
    )
    tokenizers = pretrained.tokenizers
    with torch.device("meta"):
        expected = build(config.model, tokenizers.source.size, tokenizers.target.size, tokenizers.joint)
    checkpoint.check_tensors(pretrained.weights, expected.state_dict(), "the model of its configuration")
    payload = checkpoint.pack(config, tokenizers, corpus_hash="") | {"model": pretrained.weights, "origin": origin}
    with atomic_folder(folder) as temporary:
        checkpoint.save(temporary / "best.safetensors", payload)
        keep_files(path, temporary / PRETRAINED, pretrained.untrained, origin)
        (temporary / "config.yaml").write_text(to_yaml(config), encoding="utf-8")
    print(folder)
    return 0

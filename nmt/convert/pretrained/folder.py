"""A folder of transformers as a model and tokenizers of ours, and back."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from nmt.convert.pretrained.families import check_folder, family_of
from nmt.convert.pretrained.files import kept_files, read_json
from nmt.convert.pretrained.languages import language_names
from nmt.convert.pretrained.model import (
    integer,
    model_options,
    our_weights,
    search_options,
    their_weights,
    trained_names,
)
from nmt.convert.pretrained.new_language import NewLanguage, add_language
from nmt.convert.pretrained.trim import trim_files, trim_weights
from nmt.convert.pretrained.vocabulary import Vocabulary, numbered, our_tokenizer
from nmt.convert.pretrained.weights import Weights, read_weights
from nmt.data.tokenizer import BOS, EOS, Tokenizers
from nmt.errors import UserError
from nmt.training.checkpoint import TensorParts

LAYER = re.compile(r"model\.(encoder|decoder)\.layers\.")
# What the folder `pretrained` of a run has besides the small files
UNTRAINED = "untrained.safetensors"
ORIGIN = "origin.json"


@dataclass
class Pretrained:
    """What a folder holds."""

    options: dict[str, Any]  # of the configuration's group `model`
    search: dict[str, Any]  # of its group `decode`
    weights: dict[str, TensorParts]
    tokenizers: Tokenizers
    languages: tuple[str, str]  # source and target, several joined by +
    untrained: Weights  # their tensors that are not ours, and an empty one for each of the others
    known_pieces: int  # the first ids, which are not those of a new language
    folder: Path  # of the small files that go with the weights
    trimmed: str  # what is left of the pieces and parameters; "" where all are


def read_pretrained(
    folder: Path,
    scratch: Path,
    source: Sequence[str] = (),
    target: Sequence[str] = (),
    new: NewLanguage | None = None,
    texts: Sequence[Path] = (),
) -> Pretrained:
    """Read a folder of transformers; `source` and `target` are the languages that are translated.

    If there are texts, only the pieces that they need are kept (trim.py). The small files are read
    first, and the weights when they are written; until then `scratch`, a folder for copies of them,
    must stay. Raises UserError for what cannot be read, and for languages that the model does not
    have and that are not `new`.
    """
    try:
        config, generation, sides = read_small_files(folder)
        family = family_of(config)
        names = language_names(folder, source, target, several_targets=bool(sides[0].languages))
        if new is None:
            languages = sides[0].our_languages
            if not target and not languages:
                target = [names[1]]
            prefixes = family.prefixes(languages, source, target)
        elif not family.adds_languages or new.code not in (*source, *target):
            raise UserError(
                "a new language is one of --source or --target, of a model like M2M-100 or NLLB-200"
            )
        weights = read_weights(folder, scratch)
        small = folder
        trimmed = ""
        if texts:
            small = scratch / "trimmed"
            pieces = count_pieces(sides)
            parameters = weights.count_parameters()
            trim_weights(weights, trim_files(folder, small, sides, texts))
            config, generation, sides = read_small_files(small)
            prefixes = family.prefixes(sides[0].our_languages, source, target)
            trimmed = (
                f"trimmed to {count_pieces(sides):,} of {pieces:,} pieces and "
                f"{weights.count_parameters():,} of {parameters:,} parameters"
            )
        known = len(sides[0].ids)
        if new is not None:
            sides = [add_language(sides[0], weights, new)] * 2
            prefixes = family.prefixes(sides[0].our_languages, source, target)
        tokenizers = Tokenizers(*map(our_tokenizer, sides, prefixes))
        options = model_options(config, family, weights, tokenizers.joint)
        ours = our_weights(weights, options, [side.ids for side in sides])
        trained = trained_names(options, weights)
        for name in weights:
            if LAYER.match(name) and name not in trained:
                raise UserError(f"its configuration describes no weight {name:.100}")
        untrained: dict[str, torch.Tensor] = {}
        for name, weight in weights.items():
            untrained[name] = weight.new_empty(0) if name in trained else weight.clone()
        return Pretrained(
            options,
            search_options(generation),
            ours,
            tokenizers,
            names,
            untrained,
            known,
            small,
            trimmed,
        )
    except UserError as error:
        raise UserError(f"{folder} cannot be imported: {str(error).rstrip('.')}.") from None


def keep_files(source: Path, folder: Path, untrained: Weights, origin: str) -> None:
    """Copy what `write_back` needs besides the run into a new folder; raises UserError."""
    folder.mkdir()
    for name, content in kept_files(source).items():
        (folder / name).write_bytes(content)
    save_file(untrained, folder / UNTRAINED)
    (folder / ORIGIN).write_text(json.dumps({"origin": origin}), encoding="utf-8")


@dataclass
class Written:
    """The folder of transformers that a run came from, with the weights that it has now."""

    files: dict[str, bytes]
    weights: Weights
    languages: dict[str, str]  # by the piece that begins a source
    origin: str


def write_back(
    folder: Path, ours: Weights, options: Mapping[str, Any], tokenizers: Tokenizers
) -> Written:
    """The files that `keep_files` left in `folder`, with the weights of a run.

    A decoder that started with </s>, as M2M-100's, starts with their unused <s> once ours has
    become another embedding. Numbers are in the format that they had, or in float32 where that
    would lose some. Raises UserError where the files are not those of the run's tokenizers, and
    where what their family ties is no longer equal.
    """
    try:
        config = read_json(folder / "config.json")
        origin = read_json(folder / ORIGIN)
        sides = read_pieces(folder, config, read_generation(folder, config))
        for side, our_side in zip(sides, tokenizers, strict=True):
            if our_tokenizer(side, {}).all_pieces != our_side.all_pieces:
                raise UserError(
                    "the run has other pieces, as those of a new language; --format ctranslate2 "
                    "can hold them"
                )
        was = read_weights(folder, folder, [UNTRAINED])
        changes: dict[str, Any] = {}  # of config.json and generation_config.json
        orders = [side.ids for side in sides]
        starts = [ids[BOS] for ids in orders]
        if starts[1] == orders[1][EOS] and not has_equal_ends(ours):
            starts = [side.id_of("<s>") for side in sides]
            changes["decoder_start_token_id"] = starts[1]
        now = dict(was) | their_weights(ours, options, orders, was, starts)
    except UserError as error:
        raise UserError(f"{folder} cannot be written back: {str(error).rstrip('.')}.") from None

    weights = {name: now[name].to(tensor.dtype, copy=True) for name, tensor in was.items()}
    if any(not torch.equal(weight.float(), now[name].float()) for name, weight in weights.items()):
        weights = {name: now[name].to(torch.float32, copy=True) for name in was}
        changes |= {name: "float32" for name in ("dtype", "torch_dtype") if name in config}

    files = kept_files(folder)
    for name in ("config.json", "generation_config.json"):
        if changes and name in files:
            stored = read_json(folder / name)
            for key, value in changes.items():
                if key in stored or key not in config:
                    stored[key] = value
            files[name] = json.dumps(stored, indent=2).encode()
    languages = {sides[0].pieces[piece]: code for code, piece in sides[0].languages.items()}
    return Written(files, weights, languages, " ".join(str(origin.get("origin")).split()))


def has_equal_ends(ours: Weights) -> bool:
    """Whether <s> and </s> still have the same rows."""
    tables = [ours["target_embedding.weight"], ours["output.weight"]]
    return all(torch.equal(table[BOS], table[EOS]) for table in tables)


def read_small_files(
    folder: Path,
) -> tuple[dict[str, Any], dict[str, Any], list[Vocabulary]]:
    """Configuration, search, and the vocabularies with our ids; raises UserError."""
    config = check_folder(folder)
    generation = read_generation(folder, config)
    return config, generation, read_pieces(folder, config, generation)


def count_pieces(sides: Sequence[Vocabulary]) -> int:
    """The number of pieces of source and target, those of one vocabulary counted once."""
    source, target = (side.pieces for side in sides)
    return len(source) + (len(target) if target != source else 0)


def read_generation(folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """How sentences are searched, as in transformers.

    generation_config.json wins over config.json. Old folders have it in config.json alone. Raises
    UserError.
    """
    path = folder / "generation_config.json"
    stored = read_json(path) if path.exists() else dict(config)
    if stored.get("decoder_start_token_id") is None:
        stored["decoder_start_token_id"] = config.get("decoder_start_token_id")
    return stored


def read_pieces(
    folder: Path, config: Mapping[str, Any], generation: Mapping[str, Any]
) -> list[Vocabulary]:
    """The vocabularies of source and target with our ids; raises UserError."""
    sides = family_of(config).read_vocabularies(folder)
    sizes = [
        integer(config, "vocab_size"),
        integer(config, "decoder_vocab_size", config["vocab_size"]),
    ]
    start = integer(generation, "decoder_start_token_id")
    starts = [start, start]
    if sides[0].pieces != sides[1].pieces:
        starts[0] = sides[0].id_of("<pad>")
    stored = generation.get("eos_token_id")
    ends = stored if isinstance(stored, list) else [stored]
    end = sides[1].id_of("</s>")
    if stored is not None and end not in ends:
        raise UserError(
            f"its sentences end with the piece {str(stored):.40} (eos_token_id), which is not "
            f"</s>, {end}"
        )
    return list(map(numbered, sides, starts, sizes))

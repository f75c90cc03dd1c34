"""nmt import: a translator of Hugging Face transformers as a run."""

import argparse
import logging
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from nmt.commands import check_given
from nmt.config import presets
from nmt.config.compose import IMPORTED, compose_all
from nmt.config.schema import Config, to_yaml
from nmt.convert.pretrained.families import check_folder, family_of
from nmt.convert.pretrained.files import HUB, read_optional
from nmt.convert.pretrained.folder import Pretrained, keep_files, read_pretrained
from nmt.convert.pretrained.hub import cached_models, fetch
from nmt.convert.pretrained.new_language import NewLanguage
from nmt.convert.pretrained.vocabulary import MAX_SIZE, OWN_TOKENIZER
from nmt.corpus.files import atomic_folder, report_write_errors, temporary_folder
from nmt.corpus.languages import same_language
from nmt.errors import UserError
from nmt.runs.folders import PRETRAINED, read_config
from nmt.training import checkpoint
from nmt.training.restore import check_tensors, new_model

log = logging.getLogger("nmt")
# What from=RUN trains an imported run with (docs/guides/pretrained.md, Fine-tuning)
REHEARSAL = 1
LORA = 16


def run(options: argparse.Namespace) -> int:
    """Write the run's folder and print its path."""
    folder = Path(options.runs) / options.run_name
    if folder.exists():
        raise UserError(f"{folder} exists; give another --name.")
    needs = {"--new": "--text", "--text": "--new", "--pieces": "--new"}
    check_given(options, needs, {"--trim": "--new"})
    code, _, related = (options.new or "").partition("=")
    new = NewLanguage(code, related, Path(options.text), options.pieces) if options.new else None
    texts = list(map(Path, options.trim))
    write_run(options.name, folder, options.source, options.target, new, texts)
    print(folder)
    return 0


def import_once(name: str, runs: Path, source: str | None, target: str | None) -> str:
    """Import a model unless it is there, and return the name of its run.

    That is NAME or NAME-REVISION of the hub, or the name of the folder. If that run has other
    languages than those asked for, the name ends in these. Raises UserError where another run has
    that name.
    """
    called = name.partition("/")[2] if name.startswith(HUB) else Path(name).resolve().name
    stem = re.sub("[^A-Za-z0-9._+-]+", "-", called).strip("-.")
    if not stem:
        raise UserError(f"{called} cannot be the name of a run; use nmt import {name} --name NAME.")
    first = runs / stem
    words = [first.name, source, target]
    second = first.with_name("-".join(word for word in words if word))
    for folder in (first, second):
        if not folder.exists():
            write_run(name, folder, source, target)
            log.info("%s is now the run %s.", name, folder)
            return folder.name
        payload = checkpoint.load(folder / "best.safetensors", with_tensors=False)
        origin = payload.get("origin", "").partition(", trimmed to ")[0]
        if origin.partition("@")[0] != f"imported from {name}".partition("@")[0]:
            raise UserError(
                f"{folder} exists, and was not imported from {name}; give that another name by "
                "`nmt import`."
            )
        data = payload["config"]["data"]
        if has_languages(data["source"], source) and has_languages(data["target"], target):
            return folder.name
    raise UserError(
        f"{folder} exists, and translates {data['source']} to {data['target']}; delete or rename "
        "it."
    )


def has_languages(stored: str, asked: str | None) -> bool:
    """Whether all languages that are asked for, joined by +, are among those of a run."""
    if not asked:
        return True
    codes = stored.split("+")
    return all(same_language(code, codes) for code in asked.split("+"))


def possible_starts(source: str, target: str, runs: Path) -> Iterator[str]:
    """What from=… can name for this direction without a download.

    That is imported runs, and models in the hub's cache.
    """
    for folder in sorted(runs.glob(f"*/{PRETRAINED}")):
        data = read_config(folder.parent).get("data", {})
        has_source = has_languages(str(data.get("source")), source)
        if has_source and has_languages(str(data.get("target")), target):
            yield folder.parent.name
    for name, path in cached_models():
        if translates(path, source, target):
            yield f"{HUB}{name}"


def translates(folder: Path, source: str, target: str) -> bool:
    """Whether a folder of transformers can be imported, and says that it has both languages."""
    try:
        family = family_of(check_folder(folder))
        told = read_optional(folder / "tokenizer_config.json")
        sides = family.read_vocabularies(folder)
    except UserError:
        return False
    sources = [told.get("source_lang")]
    targets = [told.get("target_lang")]
    if sides[0].languages:
        targets = list(sides[0].languages)
        if family.tells_both_languages:
            sources = targets
    has_source = bool(same_language(source, filter(None, sources)))
    return has_source and bool(same_language(target, filter(None, targets)))


def write_run(
    name: str,
    folder: Path,
    source: str | None,
    target: str | None,
    new: NewLanguage | None = None,
    texts: Sequence[Path] = (),
) -> None:
    """Write a pretrained model as a run, trimmed to the pieces of some texts if there are any.

    Raises UserError for what cannot be imported.
    """
    path, origin = fetch(name)
    sources = source.split("+") if source else []
    targets = target.split("+") if target else []
    existing = next(each for each in folder.absolute().parents if each.is_dir())
    with report_write_errors(folder), temporary_folder(existing / folder.name) as scratch:
        pretrained = read_pretrained(path, scratch, sources, targets, new, texts)
        if pretrained.trimmed:
            log.info("%s: %s.", name, pretrained.trimmed)
            origin = f"{origin}, {pretrained.trimmed}"
        options = fine_tuning_options(pretrained, new is not None)
        config = configuration(pretrained, folder.name, options)
        tokenizers = pretrained.tokenizers
        with torch.device("meta"):
            expected = new_model(config, tokenizers)
        check_tensors(pretrained.weights, expected.state_dict(), "the model of its configuration")
        payload = checkpoint.common_entries(config, tokenizers, corpus_hash="") | {
            "model": pretrained.weights,
            "origin": origin,
        }
        with atomic_folder(folder) as temporary:
            checkpoint.save(temporary / "best.safetensors", payload)
            keep_files(pretrained.folder, temporary / PRETRAINED, pretrained.untrained, origin)
            (temporary / "config.yaml").write_text(to_yaml(config), encoding="utf-8")


def fine_tuning_options(pretrained: Pretrained, has_new_language: bool) -> list[str]:
    """How an imported run is trained further: with LoRA and rehearsal.

    For a new language all weights are trained, with half the learning rate, and the pieces that the
    model knew before are rehearsed.
    """
    rate = presets.further_rate(pretrained.options["hidden_size"])
    options = ["optim.weight_decay=0", "train.replay=0", f"train.rehearsal={REHEARSAL}"]
    if has_new_language:
        options.append(f"train.rehearsal_pieces={pretrained.known_pieces}")
        options.append(f"optim.lr={rate / 2:.3g}")
    else:
        options.append(f"train.lora={LORA}")
        options.append(f"optim.lr={rate:.3g}")
    return options


def length_options(pretrained: Pretrained) -> list[str]:
    """The longest source of a run that nmt exported; its positions may reach no further."""
    about = read_optional(pretrained.folder / "tokenizer_config.json")
    longest = about.get("model_max_length")  # </s> counted
    is_ours = about.get("tokenizer_class") == OWN_TOKENIZER
    if not is_ours or not isinstance(longest, int) or not 1 < longest <= MAX_SIZE:
        return []
    return [f"tokenizer.max_pieces={longest - 1}"]


def configuration(pretrained: Pretrained, name: str, fine_tuning: list[str]) -> Config:
    """The configuration of an imported run, which is trained further with these options."""
    tokenizers = pretrained.tokenizers
    options = [f"model.{key}={value}" for key, value in pretrained.options.items()]
    options += [f"decode.{key}={value}" for key, value in pretrained.search.items()]
    (config,) = compose_all(
        [
            "data=files",
            f"data.source={pretrained.languages[0]}",
            f"data.target={pretrained.languages[1]}",
            f"data.train={IMPORTED}",
            "optim=fine_tuning",
            "train=fine_tuning",
            *fine_tuning,
            f"data.pair_tags={str(any(tokenizers.target.prefixes)).lower()}",
            f"name={name}",
            "precision=fp32",  # in bf16 some translations would not be those of transformers
            "tokenizer.protect=false",
            f"tokenizer.joint={str(tokenizers.joint).lower()}",
            f"tokenizer.vocabulary_size={tokenizers.source.size}",
            f"tokenizer.lowercase={str(tokenizers.source.lowercase).lower()}",
            *options,
            *length_options(pretrained),
        ],
    )
    return config

"""The stages before a training: corpus, tokenizer and ids.

Each is built once into a folder named by the hash of its recipe, and reused. A recipe holds all that the result depends
on, the folder it is made from included, so that a change upstream renames everything downstream. A folder that exists
is complete; its files are checked against its manifest when they are used.
"""

import hashlib
import json
import logging
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from nmt.config.schema import Config
from nmt.data import corpus, dataset, training_links
from nmt.data.checksums import Manifest, check_folder, write_manifest
from nmt.data.corpus import read_report
from nmt.data.files import atomic_folder
from nmt.data.tokenizer import Tokenizers
from nmt.data.train_tokenizer import train_tokenizers
from nmt.data.write_ids import write_datasets
from nmt.runs.fine_tuning import check_tags, find_old_text
from nmt.runs.provenance import code_digest
from nmt.training.checkpoint import Parent

log = logging.getLogger("nmt")
# The module that builds each stage: a folder is named also by the code that it is built with.
BUILDERS = {
    "corpus": "nmt.data.corpus",
    "tokenizer": "nmt.data.train_tokenizer",
    "ids": "nmt.data.write_ids",
}
Recipe = dict[str, Any]


class StageFolders(NamedTuple):
    """The folders of corpus, tokenizer and ids from which a model is trained."""

    corpus: Path
    tokenizer: Path
    ids: Path


def build_stage(root: Path, name: str, recipe: Recipe, build: Callable[[Path], None], unread: str = "") -> Path:
    """The folder NAME-HASH of this recipe, built by `build` if it does not exist, else checked; raises UserError.

    Of files like the pattern `unread` only the size is checked.
    """
    recipe = {"code": code_digest(BUILDERS[name])} | recipe
    text = json.dumps(recipe, sort_keys=True, ensure_ascii=False, indent=1)
    folder = root / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"
    if folder.is_dir():
        check_folder(folder, unread)
        return folder
    log.info("Building %s …", folder)
    with atomic_folder(folder) as temporary:
        build(temporary)
        (temporary / "recipe.json").write_text(text + "\n", encoding="utf-8")
        write_manifest(temporary)
    return folder


def build_corpus_stage(config: Config, parent: Parent | None = None) -> Path:
    """The folder of the corpus as text, without the training pairs that are rejected."""
    root, data = Path(config.data_folder), config.data
    inputs = corpus.corpus_inputs(data, root / "digests.json")
    recipe = {key: value for key, value in asdict(data).items() if key not in corpus.without_effect(data)}
    recipe |= {"inputs": inputs}
    old = find_old_text(config, parent) if parent else None
    if old:
        recipe |= {"old": old.recipe}

    def build(folder: Path) -> None:
        corpus.build_corpus(data, folder, root / "downloads", old)

    folder = build_stage(root, "corpus", recipe, build, unread="train.*")
    corpus.log_warnings(read_report(folder))
    return folder


def build_tokenizer_stage(config: Config, corpus_folder: Path, parent: Parent | None = None) -> Path:
    """The folder of the tokenizers trained on the training pairs, or of those of the run that is started from."""
    source, target = corpus.set_files(corpus_folder, "train", config.data)
    if parent:
        check_tags(read_report(corpus_folder)["tags"], parent)
        tokenizers = parent.tokenizers
        models = [hashlib.sha256(tokenizer.model).hexdigest() for tokenizer in tokenizers]
        recipe = {"models": models, "lowercase": tokenizers.source.lowercase}
        return build_stage(Path(config.data_folder), "tokenizer", recipe, tokenizers.save)
    options = {key: value for key, value in asdict(config.tokenizer).items() if key != "max_pieces"}
    recipe = options | {"corpus": corpus_folder.name}

    def build(folder: Path) -> None:
        Manifest(corpus_folder).check([source.name, target.name])
        train_tokenizers(config.tokenizer, source, target, folder, read_report(corpus_folder).get("tags", []))

    return build_stage(Path(config.data_folder), "tokenizer", recipe, build)


def build_ids_stage(config: Config, corpus_folder: Path, tokenizer_folder: Path) -> Path:
    """The folder of the training and validation pairs as memory-mapped token ids."""
    data, max_pieces = config.data, config.tokenizer.max_pieces
    recipe = {"corpus": corpus_folder.name, "tokenizer": tokenizer_folder.name, "max_pieces": max_pieces}
    recipe |= {"pairs_per_shard": dataset.PAIRS_PER_SHARD}

    def build(folder: Path) -> None:
        Manifest(corpus_folder).check([f"train.{data.source}", f"train.{data.target}"])
        pairs, sets = read_report(corpus_folder)["audit"]["train"]["kept"], ["train", "valid"]
        tokenizers, number = Tokenizers.load(tokenizer_folder), dataset.number_of_shards(pairs)
        write_datasets(tokenizers, corpus_folder, data.source, data.target, sets, max_pieces, folder, number)

    return build_stage(Path(config.data_folder), "ids", recipe, build, unread="train*.arrow")


def build_stages(config: Config, parent: Parent | None = None) -> StageFolders:
    """Build or find corpus, tokenizer and ids; raises UserError. `parent`: what `open_parent` gives."""
    if config.train.guided_alignment:
        training_links.check_possible(config.data)
    corpus_folder = build_corpus_stage(config, parent)
    if config.train.guided_alignment:
        training_links.check_present(corpus_folder)
    tokenizer_folder = build_tokenizer_stage(config, corpus_folder, parent)
    return StageFolders(corpus_folder, tokenizer_folder, build_ids_stage(config, corpus_folder, tokenizer_folder))

"""What a training begins with: the run of from=RUN, and the stages corpus, tokenizer and ids;
synthetic with data.mono.

Each stage is built once into a folder named by the hash of its recipe, and reused. A recipe holds
all that the result depends on, the folder it is made from included, so that a change upstream
renames everything downstream. A folder that exists is complete; its files are checked against its
manifest when they are used.
"""

import hashlib
import json
import logging
import shutil
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from nmt.config.compose import FREE
from nmt.config.schema import Config, to_dict
from nmt.corpus import corpus, link_files
from nmt.corpus.checksums import Manifest, check_folder, text_digest, write_manifest
from nmt.corpus.corpus_folder import read_report, set_files
from nmt.corpus.files import atomic_folder
from nmt.corpus.training_plan import SYNTHETIC, OldText
from nmt.data import dataset
from nmt.data.tokenizer import Tokenizers
from nmt.data.train_tokenizer import train_tokenizers
from nmt.data.write_ids import write_datasets
from nmt.errors import UserError
from nmt.runs import back_translation
from nmt.runs.folders import existing_corpus, find_checkpoint
from nmt.runs.provenance import code_digest
from nmt.runs.versions import version_of
from nmt.training.restore import Parent, load_config, load_parent

log = logging.getLogger("nmt")
# The module that builds each stage: a folder is named also by the code that it is built with.
BUILDERS = {
    "corpus": "nmt.corpus.corpus",
    "tokenizer": "nmt.data.train_tokenizer",
    "ids": "nmt.data.write_ids",
    "synthetic": "nmt.runs.back_translation",
    "distilled": "nmt.runs.distillation",
}
Recipe = dict[str, Any]
# Keys of a training that need the run of from=RUN
NEED_RUN = {
    "replay": "is a share of the old pairs",
    "rehearsal": "keeps the knowledge",
    "lora": "trains beside the weights",
    "freeze": "keeps the weights",
}


def find_parent(run: str, root: Path) -> Path:
    """The checkpoint of a run to start from; raises UserError."""
    if run == "latest":
        raise UserError(
            "from=latest would be another run as soon as this training has begun, so that the "
            "same command could not continue it; give the name of the run."
        )
    return find_checkpoint(run, root)


def parent_of(run: str, root: Path) -> tuple[Path, Config]:
    """The folder of a run to start from, of all its versions, and the configuration of its weights.

    Raises UserError.
    """
    path = find_parent(run, root)
    return version_of(path.parent)[0], load_config(path)


def open_parent(config: Config) -> Parent | None:
    """The run that a training starts from, None without from=RUN; raises UserError."""
    if config.from_run is None:
        for name, meaning in NEED_RUN.items():
            if getattr(config.train, name):
                raise UserError(f"train.{name} {meaning} of a run; it needs from=RUN.")
        return None
    parent = load_parent(find_parent(config.from_run, Path(config.run_folder)))
    new = to_dict(config)
    old = to_dict(parent.config)
    for group in ("model", "tokenizer"):
        for name in new[group] | old[group]:
            is_same = new[group].get(name) == old[group].get(name)
            if not is_same and f"{group}.{name}" not in FREE:
                raise UserError(
                    f"The configuration has another {group} than {parent.path}, from which it is "
                    "to start."
                )
    return parent


def find_old_text(config: Config, parent: Parent) -> OldText | None:
    """The corpus that the run was trained on, None for an imported run.

    Raises UserError where train.replay needs it.
    """
    where = parent.path.parent
    if not parent.corpus_hash:
        kept = "it forgets"
        if config.train.rehearsal:
            kept = f"train.rehearsal={config.train.rehearsal:g} keeps what it knows"
        log.info("%s was imported, so there is no old text to mix in; %s.", where, kept)
        return None
    folder = existing_corpus(parent.config, {parent.corpus_hash}, where, config.data_folder)
    if folder is not None:
        return OldText(folder, read_report(folder), config.train.replay)
    gone = f"The corpus that {where} was trained on is no longer in {config.data_folder}"
    if config.train.replay:
        raise UserError(
            f"{gone}; prepare it with `nmt download` and the words of its training, or give "
            "train.replay=0 to train on new text alone."
        )
    log.warning("%s; its test sets are not scored again.", gone)
    return None


class StageFolders(NamedTuple):
    """The folders of corpus, tokenizer and ids from which a model is trained."""

    corpus: Path
    tokenizer: Path
    ids: Path


def build_stage(
    root: Path, name: str, recipe: Recipe, build: Callable[[Path], None], unread: str = ""
) -> Path:
    """The folder NAME-HASH of this recipe; raises UserError.

    It is built by `build` if it does not exist, else checked. Of files like the pattern `unread`
    only the size is checked.
    """
    folder, text = stage_folder(root, name, recipe)
    if folder.is_dir():
        check_folder(folder, unread)
        return folder
    log.info("Building %s …", folder)
    with atomic_folder(folder) as temporary:
        build(temporary)
        (temporary / "recipe.json").write_text(text + "\n", encoding="utf-8")
        write_manifest(temporary)
    return folder


def stage_folder(root: Path, name: str, recipe: Recipe) -> tuple[Path, str]:
    """The folder of a recipe, and the recipe with the code as text."""
    recipe = {"code": code_digest(BUILDERS[name])} | recipe
    text = json.dumps(recipe, sort_keys=True, ensure_ascii=False, indent=1)
    return root / f"{name}-{text_digest(text)[:10]}", text


def build_translated_stage(
    root: Path, name: str, recipe: Recipe, write: Callable[[Path, Path], None]
) -> Path:
    """The folder of a stage that a model translates.

    `write` gets a folder for chunks that are done, which an interrupted work finds again, and the
    folder of the stage.
    """
    parts = stage_folder(root, name, recipe)[0].with_suffix(".parts")
    folder = build_stage(root, name, recipe, partial(write, parts), unread=f"{name}.*")
    shutil.rmtree(parts, ignore_errors=True)
    return folder


def build_synthetic_stage(config: Config, corpus_folder: Path, reverse: Path) -> Path:
    """The folder of the back-translations of data.mono by the run with the checkpoint `reverse`."""
    recipe = back_translation.recipe_of(config, corpus_folder, reverse)
    write = partial(back_translation.write_synthetic_pairs, config, corpus_folder, reverse)
    return build_translated_stage(Path(config.data_folder), SYNTHETIC, recipe, write)


def build_corpus_stage(
    config: Config, parent: Parent | None = None, synthetic: Path | None = None
) -> Path:
    """The folder of the corpus as text, without the training pairs that are rejected.

    `synthetic`: the folder of pairs that are trained on as well.
    """
    root = Path(config.data_folder)
    data = config.data
    inputs = corpus.corpus_inputs(data, root / "digests.json")
    if config.train.guided_alignment and data.kind == "files":
        link_files.check_present("links" in inputs)  # before the corpus is read
    recipe = asdict(data)
    for key in corpus.without_effect(data):
        del recipe[key]
    recipe["inputs"] = inputs
    old = find_old_text(config, parent) if parent and config.from_run else None
    if old:
        recipe["old"] = old.recipe
    if synthetic:
        recipe["synthetic"] = synthetic.name

    def build(folder: Path) -> None:
        corpus.build_corpus(data, folder, root / "downloads", old, synthetic)

    folder = build_stage(root, "corpus", recipe, build, unread="train.*")
    corpus.log_warnings(read_report(folder))
    return folder


def build_tokenizer_stage(
    config: Config, corpus_folder: Path, parent: Parent | None = None
) -> Path:
    """The folder of the tokenizers.

    They are trained on the training pairs, or are those of the run that is started from.
    """
    source, target = set_files(corpus_folder, "train", config.data)
    if parent:
        tokenizers = parent.tokenizers
        if unknown := sorted(set(read_report(corpus_folder)["tags"]) - tokenizers.source.tags):
            raise UserError(
                f"The vocabulary of {parent.path.parent} has no piece {', '.join(unknown)}, and "
                "pieces cannot be added; train without these tags, or train a new model."
            )
        models = [hashlib.sha256(tokenizer.model).hexdigest() for tokenizer in tokenizers]
        recipe = {"models": models, "lowercase": tokenizers.source.lowercase}
        return build_stage(Path(config.data_folder), "tokenizer", recipe, tokenizers.save)
    recipe = asdict(config.tokenizer) | {"corpus": corpus_folder.name}
    del recipe["max_pieces"]

    def build(folder: Path) -> None:
        Manifest(corpus_folder).check([source.name, target.name])
        tags = read_report(corpus_folder).get("tags", [])
        train_tokenizers(config.tokenizer, source, target, folder, tags)

    return build_stage(Path(config.data_folder), "tokenizer", recipe, build)


def build_ids_stage(config: Config, corpus_folder: Path, tokenizer_folder: Path) -> Path:
    """The folder of the training and validation pairs as memory-mapped token ids."""
    data = config.data
    max_pieces = config.tokenizer.max_pieces
    recipe = {
        "corpus": corpus_folder.name,
        "tokenizer": tokenizer_folder.name,
        "max_pieces": max_pieces,
        "pairs_per_shard": dataset.PAIRS_PER_SHARD,
    }

    def build(folder: Path) -> None:
        Manifest(corpus_folder).check([f"train.{data.source}", f"train.{data.target}"])
        pairs = read_report(corpus_folder)["audit"]["train"]["kept"]
        sets = ["train", "valid"]
        tokenizers = Tokenizers.load(tokenizer_folder)
        number = dataset.number_of_shards(pairs)
        write_datasets(
            tokenizers, corpus_folder, data.source, data.target, sets, max_pieces, folder, number
        )

    return build_stage(Path(config.data_folder), "ids", recipe, build, unread="train*.arrow")


def build_stages(
    config: Config,
    parent: Parent | None = None,
    synthetic: Path | None = None,
    with_old_text: bool = True,
) -> StageFolders:
    """Build or find corpus, tokenizer and ids; raises UserError.

    `parent`: what `open_parent` gives. `synthetic`: what `build_synthetic_stage` gives.
    """
    if config.train.guided_alignment:
        link_files.check_possible(config.data)
    corpus_folder = build_corpus_stage(config, parent if with_old_text else None, synthetic)
    if config.train.guided_alignment:
        link_files.check_present((corpus_folder / link_files.NAME).exists())
    tokenizer_folder = build_tokenizer_stage(config, corpus_folder, parent)
    ids_folder = build_ids_stage(config, corpus_folder, tokenizer_folder)
    return StageFolders(corpus_folder, tokenizer_folder, ids_folder)

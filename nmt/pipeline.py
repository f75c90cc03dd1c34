"""The stages: each is built once into a folder named by the hash of its recipe, or found there and reused.

A recipe is what the result depends on, the folder it is made from included, so a change upstream renames everything
downstream. A folder is built in a temporary sibling and renamed: a folder that exists is complete.
"""

import hashlib
import json
import logging
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nmt.config import Config, to_yaml
from nmt.cpu import keep_freed_memory
from nmt.data import corpus, dataset, tokenizer
from nmt.data.dataset import ParallelDataset
from nmt.data.lines import writing
from nmt.data.tokenizer import Tokenizers
from nmt.errors import UserError
from nmt.runs import Result, run_folder, score_sets
from nmt.train.precision import pick_device
from nmt.train.trainer import Trainer

log = logging.getLogger("nmt")
VERSIONS = {"corpus": 1, "tokenizer": 1, "ids": 1}  # raise one when its stage would now build something else
Recipe = dict[str, Any]


@dataclass
class StageFolders:
    """What a training needs."""

    corpus: Path
    tokenizer: Path
    ids: Path


def stage(root: Path, kind: str, recipe: Recipe, build: Callable[[Path], None]) -> Path:
    """The folder of this recipe, built now if it is not there; raises UserError where nothing can be written."""
    recipe = {"version": VERSIONS[kind]} | recipe
    text = json.dumps(recipe, sort_keys=True, ensure_ascii=False, indent=1)
    folder = root / f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"
    if folder.is_dir():
        return folder
    log.info("Building %s …", folder)
    try:
        root.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{kind}-", dir=root))
    except OSError as error:
        raise UserError(f"Nothing can be written to data_folder={root}: {error.strerror or error}.") from None
    try:
        build(temporary)
        (temporary / "recipe.json").write_text(text + "\n", encoding="utf-8")
        temporary.chmod(0o755)
        temporary.rename(folder)
    except OSError as error:
        if not folder.is_dir():  # else another process was faster, with the same result
            raise UserError(f"{folder} cannot be built: {error.strerror or error}.") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def prepare_corpus(config: Config) -> Path:
    """Pairs that may pass, as text."""
    root, data = Path(config.data_folder), config.data
    recipe = asdict(data) | {"inputs": corpus.inputs(data, root / "digests.json")}
    if data.kind == "files":  # files are known by their content, wherever they lie
        recipe = {key: value for key, value in recipe.items() if key not in ("train", "valid", "test")}
    if data.kind != "phrasebook":
        recipe = {key: value for key, value in recipe.items() if key not in ("pairs", "seed")}
    return stage(root, "corpus", recipe, lambda folder: corpus.build(data, folder, root / "downloads"))


def prepare_tokenizer(config: Config, made_from: Path) -> Path:
    """Pieces learnt from the training pairs."""
    source, target = (made_from / f"train.{language}" for language in (config.data.source, config.data.target))
    options = {key: value for key, value in asdict(config.tokenizer).items() if key != "max_pieces"}
    recipe = options | {"corpus": made_from.name}
    return stage(
        Path(config.data_folder),
        "tokenizer",
        recipe,
        lambda folder: tokenizer.build(config.tokenizer, source, target, folder),
    )


def prepare_ids(config: Config, made_from: Path, pieces: Path) -> Path:
    """Pairs as memory-mapped token ids."""
    data, longest = config.data, config.tokenizer.max_pieces
    recipe = {"corpus": made_from.name, "tokenizer": pieces.name, "max_pieces": longest}

    def build(folder: Path) -> None:
        tokenizers = Tokenizers.load(pieces)
        dataset.build(tokenizers, made_from, data.source, data.target, ["train", "valid"], longest, folder)

    return stage(Path(config.data_folder), "ids", recipe, build)


def prepare(config: Config) -> StageFolders:
    """All stages before the training."""
    made_from = prepare_corpus(config)
    pieces = prepare_tokenizer(config, made_from)
    return StageFolders(made_from, pieces, prepare_ids(config, made_from, pieces))


def report(folder: Path) -> dict[str, Any]:
    """What the corpus stage wrote about itself."""
    return json.loads((folder / "report.json").read_text(encoding="utf-8"))


def download(config: Config) -> None:
    """Get the corpus."""
    log.info("The corpus is in %s.", prepare_corpus(config))


def tokenize(config: Config) -> None:
    """Get the corpus, train the tokenizer, and store the pairs as ids."""
    prepared = prepare(config)
    log.info("The tokenizer is in %s, the pairs as ids in %s.", prepared.tokenizer, prepared.ids)


def train(config: Config) -> list[Result]:
    """Everything from text to scores: one result for each test set."""
    keep_freed_memory()
    pick_device(config.device)  # a device that is not here is refused before anything is downloaded
    prepared = prepare(config)
    valid = ParallelDataset(prepared.ids / "valid.arrow")
    check_validation(config, valid, prepared.corpus)
    about = report(prepared.corpus)
    folder = run_folder(config)
    begin(folder)
    trainer = Trainer(
        config,
        Tokenizers.load(prepared.tokenizer),
        ParallelDataset(prepared.ids / "train.arrow"),
        valid,
        folder,
        about["corpus_hash"],
    )
    describe(folder, config)
    trainer.run()
    del trainer  # its optimiser need not be in memory while the test sets are translated
    return score_sets(folder / "best.pt", prepared.corpus, about["sets"], config.decode)


def check_validation(config: Config, valid: ParallelDataset, made_from: Path) -> None:
    """Learned positions must reach to the end of every validation pair: none is left out, and its loss is of the whole.

    Longer lines of a test set are translated in parts. Raises UserError.
    """
    if getattr(config.model, "positions", None) != "learned":
        return
    sides = zip((config.data.source, config.data.target), (valid.source_lengths, valid.target_lengths), strict=True)
    pieces, row, language = max((int(lengths.max()), int(lengths.argmax()), language) for language, lengths in sides)
    longest, known = pieces + 1, config.model.max_positions  # </s>
    if longest > known:
        where = f"line {valid.line(row)} of {made_from / f'valid.{language}'}"
        raise UserError(
            f"model.max_positions={known} is too small; {where} has {longest} pieces, </s> counted, and no validation "
            f"pair is left out; give model.max_positions={longest} or more, or choose other model.positions."
        )


def begin(folder: Path) -> None:
    """Make the folder of a run."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"Nothing can be written to the run folder {folder}: {error.strerror or error}.") from None


def describe(folder: Path, config: Config) -> None:
    """Leave the configuration to be read, as it is for this command: some keys may change while a run goes on."""
    with writing(folder):
        (folder / "config.yaml").write_text(to_yaml(config), encoding="utf-8")

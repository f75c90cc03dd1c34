"""From a configuration to scores: corpus, tokenizer, ids, training and evaluation.

Each of the first three stages is built once into a folder named by the hash of its recipe, and reused. A recipe holds
all that the result depends on, the folder it is made from included, so that a change upstream renames everything
downstream. A folder that exists is complete; its files are checked against its manifest when they are used.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nmt.config import Config, to_yaml
from nmt.cpu import keep_freed_memory
from nmt.data import corpus, shards, training_links
from nmt.data.corpus import read_report
from nmt.data.dataset import ParallelDataset
from nmt.data.manifest import Manifest, check_folder, write_manifest
from nmt.data.tokenizer import Tokenizers
from nmt.data.train_tokenizer import train_tokenizers, with_words_of
from nmt.data.word_pairs import find_word_pairs
from nmt.data.write_ids import write_datasets
from nmt.data.write_sets import IN_TRAINING
from nmt.distributed import World, world
from nmt.errors import UserError
from nmt.files import atomic_folder, report_write_errors, write_atomic
from nmt.fine_tuning import check_tags, find_old_text, open_parent
from nmt.presets import Suggestion, read_corpus_size, suggest
from nmt.run_lock import only_writer
from nmt.runs import run_folder
from nmt.scoring import Result, score_trained
from nmt.training.build import build_trainer
from nmt.training.parent import Parent
from nmt.training.precision import select_device
from nmt.view.progress import log_file

log = logging.getLogger("nmt")
VERSIONS = {"corpus": 2, "tokenizer": 3, "ids": 2, "words": 1}  # raise one when its stage builds something else
WORD_PAIRS = "words.arrow"
Recipe = dict[str, Any]


@dataclass
class StageFolders:
    """The folders of corpus, tokenizer and ids from which a model is trained."""

    corpus: Path
    tokenizer: Path
    ids: Path
    words: Path | None  # with train.noise_words


def build_stage(root: Path, name: str, recipe: Recipe, build: Callable[[Path], None], unread: str = "") -> Path:
    """The folder NAME-HASH of this recipe, built by `build` if it does not exist, else checked; raises UserError.

    Of files like the pattern `unread` only the size is checked.
    """
    recipe = {"version": VERSIONS[name]} | recipe
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
    source, target = (corpus_folder / f"train.{language}" for language in (config.data.source, config.data.target))
    if parent:
        check_tags(read_report(corpus_folder)["tags"], parent)
        tokenizers = parent.tokenizers
        models = [hashlib.sha256(tokenizer.model).hexdigest() for tokenizer in tokenizers]
        recipe = {"models": models, "lowercase": tokenizers.source.lowercase}
        if known := tokenizers.source.known:
            recipe |= {"corpus": corpus_folder.name, "known": hashlib.sha256(known.bits).hexdigest()}
        root = Path(config.data_folder)
        return build_stage(root, "tokenizer", recipe, lambda folder: with_words_of(tokenizers, source).save(folder))
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
    recipe |= {"pairs_per_shard": shards.PAIRS_PER_SHARD}

    def build(folder: Path) -> None:
        Manifest(corpus_folder).check([f"train.{data.source}", f"train.{data.target}"])
        pairs, sets = read_report(corpus_folder)["audit"]["train"]["kept"], ["train", "valid"]
        tokenizers, number = Tokenizers.load(tokenizer_folder), shards.number_of_shards(pairs)
        write_datasets(tokenizers, corpus_folder, data.source, data.target, sets, max_pieces, folder, number)

    return build_stage(Path(config.data_folder), "ids", recipe, build, unread="train*.arrow")


def build_words_stage(config: Config, corpus_folder: Path, tokenizer_folder: Path) -> Path:
    """The folder of single words with their translations and of very short pairs, as text and as token ids."""
    source, target = config.data.source, config.data.target
    recipe = {"corpus": corpus_folder.name, "tokenizer": tokenizer_folder.name}

    def build(folder: Path) -> None:
        tokenizers = Tokenizers.load(tokenizer_folder)
        files = corpus_folder / f"train.{source}", corpus_folder / f"train.{target}"
        pairs = find_word_pairs(files, tokenizers.source.tags)
        for side, language in enumerate((source, target)):
            text = "".join(pair[side] + "\n" for pair in pairs)
            (folder / f"words.{language}").write_text(text, encoding="utf-8")
        if pairs:
            write_datasets(tokenizers, folder, source, target, ["words"], config.tokenizer.max_pieces, folder)

    return build_stage(Path(config.data_folder), "words", recipe, build)


def build_stages(config: Config, parent: Parent | None = None) -> StageFolders:
    """Build or find corpus, tokenizer and ids; raises UserError. `parent`: what `open_parent` gives."""
    if config.train.guided_alignment:
        training_links.check_possible(config.data)
    corpus_folder = build_corpus_stage(config, parent)
    if config.train.guided_alignment:
        training_links.check_present(corpus_folder)
    tokenizer_folder = build_tokenizer_stage(config, corpus_folder, parent)
    ids = build_ids_stage(config, corpus_folder, tokenizer_folder)
    has_words = config.train.noise_words and not config.train.guided_alignment
    words = build_words_stage(config, corpus_folder, tokenizer_folder) if has_words else None
    return StageFolders(corpus_folder, tokenizer_folder, ids, words)


def download(config: Config) -> None:
    """The command `download`: build the corpus folder."""
    log.info("The corpus is in %s.", build_corpus_stage(config, open_parent(config)))


def tokenize(config: Config) -> None:
    """The command `tokenize`: build the corpus, train the tokenizer, and store the pairs as ids."""
    folders = build_stages(config, open_parent(config))
    log.info("The tokenizer is in %s, the pairs as ids in %s.", folders.tokenizer, folders.ids)


def suggestions(config: Config) -> list[Suggestion]:
    """What model=auto and tokenizer=auto choose for the corpus and the time of a configuration."""
    gpu = select_device(config.device).type == "cuda"
    folder = world().main_first(lambda: build_corpus_stage(config))
    size = read_corpus_size(folder, (config.data.source, config.data.target))
    return suggest(size, config.train.max_minutes, gpu)


def train(config: Config) -> list[Result]:
    """The command `train`: build the stages, train, and score; one result for each test set.

    Under torchrun every process calls it, and process 0 has the results.
    """
    keep_freed_memory()
    processes = world()
    processes.check_device(select_device(config.device))  # before anything is downloaded
    processes.check_equal("The configuration", to_yaml(config))
    parent = open_parent(config)
    if parent:
        processes.check_equal("The run that is started from", parent.provenance["weights"])
    folders = processes.main_first(lambda: build_stages(config, parent))
    valid = ParallelDataset(folders.ids / "valid.arrow")
    check_validation(config, valid, folders.corpus)
    report = read_report(folders.corpus)
    folder = run_folder(config)
    make_run_folder(folder)
    with work_in(folder, processes):
        warn_of_validation_set(report, valid, folders.corpus, config)
        trainer = build_trainer(
            config,
            Tokenizers.load(folders.tokenizer),
            shards.open_training_pairs(folders.ids),
            valid,
            folder,
            report["corpus_hash"],
            processes,
            folders.corpus,
            parent,
            open_word_pairs(folders.words),
        )
        if processes.is_main:
            write_config(folder, config)
        trainer.run()
        del trainer  # its optimiser need not be in memory while the test sets are translated
        best, before = folder / "best.safetensors", parent.path if parent else None
        return score_trained(best, folders.corpus, report["sets"], config.decode, processes, before)


def open_word_pairs(folder: Path | None) -> ParallelDataset | None:
    """The pairs of train.noise_words; None if there is no folder of them, or none was found in the corpus."""
    path = folder / WORD_PAIRS if folder else None
    return ParallelDataset(path) if path and path.exists() else None


@contextmanager
def work_in(folder: Path, processes: World) -> Iterator[None]:
    """Around the work in a run folder: no other command writes there, and process 0 keeps train.log. Raises UserError.

    Of several processes one that was killed may take a while to end; the next one waits for it.
    """
    with ExitStack() as stack:
        stack.enter_context(report_write_errors(folder))
        if processes.is_main:
            stack.enter_context(only_writer(folder, timeout=2.0 if processes.size == 1 else 30.0))
            stack.enter_context(log_file(folder / "train.log"))
        yield


def check_validation(config: Config, valid: ParallelDataset, corpus_folder: Path) -> None:
    """Raises UserError when learned positions are fewer than the pieces of the longest validation sentence.

    No validation pair may be left out, so that the loss is that of the whole set. Longer lines of a test set are
    translated in parts.
    """
    if getattr(config.model, "positions", None) != "learned":
        return
    sides = zip((config.data.source, config.data.target), (valid.source_lengths, valid.target_lengths), strict=True)
    pieces, row, language = max((int(lengths.max()), int(lengths.argmax()), language) for language, lengths in sides)
    longest, max_positions = pieces + 1, config.model.max_positions  # </s>
    if longest > max_positions:
        sentence = f"line {valid.line(row)} of {corpus_folder / f'valid.{language}'}"
        raise UserError(
            f"model.max_positions={max_positions} is too small; {sentence} has {longest} pieces, </s> counted, and no "
            f"validation pair is left out; give model.max_positions={longest} or more, or choose other model.positions."
        )


def warn_of_validation_set(report: dict[str, Any], valid: ParallelDataset, corpus_folder: Path, config: Config) -> None:
    """Log warnings of a validation set that is training data, and of a sentence that makes every validation slow."""
    entry = report["audit"]["valid"]
    in_training = entry["counted"].get(IN_TRAINING, 0)
    if in_training >= 0.9 * entry["kept"]:
        log.warning(
            "%d of the %d validation pairs are training pairs: its scores, and the choice of the best checkpoint, say "
            "nothing about new sentences; give another data.valid.", in_training, entry["kept"],
        )  # fmt: skip
    pieces, row = int(valid.source_lengths.max()), int(valid.source_lengths.argmax())
    if pieces > config.tokenizer.max_pieces:
        log.warning(
            "Line %d of %s has %d pieces, more than tokenizer.max_pieces=%d: each validation translates it whole, "
            "which takes long and much memory.",
            valid.line(row), corpus_folder / f"valid.{config.data.source}", pieces, config.tokenizer.max_pieces,
        )  # fmt: skip


def make_run_folder(folder: Path) -> None:
    """Make the folder of a run; raises UserError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"Nothing can be written to the run folder {folder}: {error.strerror or error}.") from None


def write_config(folder: Path, config: Config) -> None:
    """Write config.yaml with the configuration of this command; some keys may change when a run is continued."""
    with report_write_errors(folder):
        write_atomic(folder / "config.yaml", to_yaml(config))

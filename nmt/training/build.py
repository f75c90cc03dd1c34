"""A trainer, built from a configuration and the folders of its data; new, or as it was saved."""

from dataclasses import dataclass, fields, replace
from pathlib import Path

import torch

from nmt.config.schema import Config
from nmt.corpus.checksums import Manifest
from nmt.corpus.corpus_folder import read_report, set_files
from nmt.corpus.link_files import NAME as LINKS
from nmt.corpus.parallel_text import read_pairs
from nmt.data.augmentation import Noise
from nmt.data.batches import BatchIterator
from nmt.data.dataset import ParallelDataset, TrainingPairs, open_training_pairs
from nmt.data.tokenizer import Tokenizers
from nmt.data.training_links import TrainingLinks
from nmt.decode.translator import Translator
from nmt.errors import UserError
from nmt.evaluate.aer import GoldAlignments, read_gold_alignments
from nmt.evaluate.extraction import DECODER_STEPS
from nmt.models.base import EncoderDecoder
from nmt.models.lora import add_lora
from nmt.models.transformer import Transformer
from nmt.training import checkpoint
from nmt.training.checkpoint_manager import CheckpointManager
from nmt.training.distributed import StopSignal, World
from nmt.training.freezing import copy_sharing_frozen, freeze
from nmt.training.optimizers import make_optimizer
from nmt.training.precision import autocast, precision_name, select_device, select_precision
from nmt.training.rehearsal import Rehearsal
from nmt.training.restore import Parent, model_of_weights, new_model
from nmt.training.schedule import has_other_limits, is_endless, planned_updates, with_new_limits
from nmt.training.state import VALIDATE_EVERY, TrainState
from nmt.training.threads import faster_dtype
from nmt.training.train_step import TrainStep
from nmt.training.trainer import Trainer
from nmt.training.validation import Validation

# For train.batch_tokens=null. A batch that does not fit into the memory is computed in parts
BATCH_TOKENS = 1024
GPU_BATCH_TOKENS = 32768


@dataclass
class TrainingData:
    """What a model is trained and validated on."""

    tokenizers: Tokenizers
    train: TrainingPairs
    valid: ParallelDataset
    corpus: Path  # its folder, with the links of guided alignment
    corpus_hash: str

    @classmethod
    def open(cls, corpus: Path, tokenizer: Path, ids: Path) -> "TrainingData":
        """From the folders that nmt/runs/stages.py builds."""
        return cls(
            tokenizers=Tokenizers.load(tokenizer),
            train=open_training_pairs(ids),
            valid=ParallelDataset(ids / "valid.arrow"),
            corpus=corpus,
            corpus_hash=read_report(corpus)["corpus_hash"],
        )


def build_trainer(
    config: Config,
    data: TrainingData,
    folder: Path,
    world: World,
    parent: Parent | None = None,
) -> Trainer:
    """A Trainer at the start, or where last.safetensors in `folder` ended; one in each process.

    `parent` has the weights at the start. Raises UserError if the device is missing or the run was
    begun with another configuration.
    """
    options = config.train
    stop = StopSignal(world)
    tokenizers = data.tokenizers

    # The model and its optimizer, as they were saved
    device = select_device(config.device)
    torch.manual_seed(config.seed)  # the data has generators of its own
    old: EncoderDecoder | None = None  # the parent as it was, for rehearsal
    if parent:
        model = model_of_weights(config, tokenizers, parent.weights)
        if options.lora:
            add_lora(model, options.lora)
        freeze(model, options.freeze or ())
        if options.rehearsal:
            old = copy_sharing_frozen(model).to(device)
    else:
        model = new_model(config, tokenizers)
    if isinstance(model, Transformer):
        model.recomputes = options.recompute
    model.guided = bool(options.guided_alignment)
    model = model.to(device)
    optimizer = make_optimizer(model, config.optim)
    provenance = parent.provenance if parent else None
    checkpoints = CheckpointManager(
        folder, config, tokenizers, data.corpus_hash, world.is_main, provenance
    )
    restored = world.main_first(lambda: checkpoints.restore(model, optimizer))
    stored = restored[0] if restored else TrainState()
    if world.size > 1:
        weights = checkpoint.digest({"model": model.state_dict()})
        world.check_equal("The weights at the start", weights)

    # The number format and the batch size depend on the device. A training that is resumed keeps
    # those that it began with, also on another device
    precision = stored.precision or config.precision
    dtype = world.broadcast(select_precision(precision, device, is_training=True))
    default = GPU_BATCH_TOKENS if device.type == "cuda" else BATCH_TOKENS
    batch_tokens = options.batch_tokens or stored.batch_tokens or default

    batches = make_batches(config, data, model, batch_tokens)

    # The progress so far
    batches_per_update = options.accumulate * world.size
    total = planned_updates(options, batches.batches_per_epoch / batches_per_update)
    if restored is None:
        state = TrainState(total_steps=total)
    else:
        state = continued(*restored, total, config, world)
    if state.step and state.step == state.schedule_start:
        # A finished training that goes on begins with new moments
        optimizer = make_optimizer(model, config.optim)
    if options.validate_every is not None:
        state.validate_every = options.validate_every
    elif options.max_minutes is None:
        state.validate_every = VALIDATE_EVERY
    state.best = world.broadcast(state.best)  # process 0 may have lost it
    state.batch_tokens = batch_tokens
    state.device = device.type
    state.batches_per_update = batches_per_update

    rehearsal = None
    if old is not None:
        rehearsal = Rehearsal(old, tokenizers, options.rehearsal_pieces)
    train_step = TrainStep(config, model, optimizer, batches, state, dtype, world, rehearsal)
    if precision == "auto":
        dtype = faster_dtype(train_step)
        train_step.dtype = dtype
        precision = precision_name(dtype)
    state.precision = precision

    # Validation
    decode = replace(config.decode, beam=options.validate_beam)
    context = autocast(device, dtype)
    translator = Translator(model, tokenizers, decode, config.tokenizer.max_pieces, device, context)
    gold = read_validation_links(data.corpus, config)
    validation = Validation(
        data.valid, translator, config, 4 * batch_tokens, dtype, stop, world, gold
    )
    return Trainer(config, train_step, validation, checkpoints)


def make_batches(
    config: Config, data: TrainingData, model: EncoderDecoder, batch_tokens: int
) -> BatchIterator:
    """The training batches; with guided alignment also what the model's attention learns."""
    options = config.train
    links = None
    if options.guided_alignment:
        noise = Noise()  # none, since the links are between words of the text
        # The row of the attention weights that belongs to the first piece of the target
        shift = DECODER_STEPS[model.guided_step]
        Manifest(data.corpus).check([LINKS])
        path = data.corpus / LINKS
        links = TrainingLinks(path, data.tokenizers, options.guided_alignment_tokenized, shift)
    else:
        shares = {kind.name: getattr(options, f"noise_{kind.name}") for kind in fields(Noise)}
        noise = Noise(**shares)
    sampling = options.subword_sampling
    return BatchIterator(
        data.train, data.tokenizers, batch_tokens, config.seed, sampling, links, noise
    )


def read_validation_links(corpus: Path, config: Config) -> GoldAlignments | None:
    """The gold links of the validation set; None where the corpus has none."""
    links = corpus / "valid.align"
    if not links.exists():
        return None
    return read_gold_alignments(links, list(read_pairs(*set_files(corpus, "valid", config.data))))


def continued(
    state: TrainState, earlier: Config, total: int | None, config: Config, world: World
) -> TrainState:
    """The stored state of a training, adapted to the limits of `config`.

    `earlier` is the configuration that it was saved with. `total`: updates by max_steps and
    max_epochs. Raises UserError if an update would have another number of batches than before.
    """
    train = config.train
    schedule = config.optim.schedule
    was_endless = is_endless(schedule, earlier.train.max_minutes)
    ended_by_patience = state.finished and state.patience_spent(earlier.train.patience)
    if was_endless and is_endless(schedule, train.max_minutes):
        state = replace(state, total_steps=total)
        ended = state.budget_spent or state.patience_spent(train.patience)
        state = replace(state, finished=state.finished and ended)
    elif has_other_limits(train, earlier.train) or ended_by_patience:
        state = with_new_limits(state, total, train)

    batches = train.accumulate * world.size
    if state.finished or state.batches_per_update == batches:
        return state
    if state.batches_per_update % world.size == 0:
        advice = f"give train.accumulate={state.batches_per_update // world.size}"
    else:
        advice = "use a number of processes that divides it"
    raise UserError(
        f"The run was begun with {state.batches_per_update} batches in each update, and "
        f"{world.size} process(es) with train.accumulate={train.accumulate} make {batches}; "
        f"{advice}, or start another run (name=…)."
    )

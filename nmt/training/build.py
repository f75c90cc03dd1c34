"""Puts a Trainer together from a configuration, the data and the folder of a run."""

import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from nmt.config.schema import Config, TrainConfig
from nmt.data.batches import BatchIterator
from nmt.data.dataset import ParallelDataset
from nmt.data.noise import Noise
from nmt.data.shards import TrainingPairs, longest_sentence
from nmt.data.tokenizer import Tokenizers
from nmt.data.training_links import TrainingLinks, open_training_links
from nmt.decode.translator import Translator, with_batch_tokens
from nmt.errors import UserError
from nmt.evaluate.extraction import DECODER_STEPS
from nmt.models.base import EncoderDecoder
from nmt.models.build import build
from nmt.training import checkpoint
from nmt.training.batch_size import choose_batch_tokens
from nmt.training.checkpoint_manager import CheckpointManager
from nmt.training.distributed import World
from nmt.training.optimizers import make_optimizer
from nmt.training.precision import autocast, precision_name, seed_everything, select_device, select_precision
from nmt.training.schedule import can_be_extended, planned_updates
from nmt.training.state import TrainState
from nmt.training.stop_signal import StopSignal
from nmt.training.train_step import TrainStep
from nmt.training.trainer import Trainer
from nmt.training.validation import Validation
from nmt.view.tensorboard import TensorBoardLogger


def build_trainer(
    config: Config,
    tokenizers: Tokenizers,
    train: TrainingPairs,
    valid: ParallelDataset,
    folder: Path,
    corpus_hash: str,
    world: World,
    corpus: Path | None = None,
    parent: checkpoint.Parent | None = None,
) -> Trainer:
    """A Trainer at the start, or where last.safetensors in `folder` ended; one in each process of `world`.

    `corpus` is the folder with the links of the training pairs, which guided alignment needs; `parent` has the weights
    at the start. Raises UserError if the device is missing or the run was begun with another configuration.
    """
    device = select_device(config.device)
    seed_everything(config.seed)
    model = build(config.model, tokenizers.source.size, tokenizers.target.size, tokenizers.joint).to(device)
    if parent:
        checkpoint.load_weights(model, parent.weights)
    optimizer = make_optimizer(model, config.optim)
    options, stop = config.train, StopSignal(world)
    start = parent.provenance if parent else None
    checkpoints = CheckpointManager(folder, config, tokenizers, corpus_hash, world.is_main, start)
    stored = world.main_first(lambda: checkpoints.restore(model, optimizer))
    dtype = select_precision(stored.precision if stored and stored.precision else config.precision, device)
    dtype = torch.bfloat16 if world.broadcast(dtype == torch.bfloat16) else torch.float32  # `auto` is timed
    links = links_to_learn(model, options, tokenizers, corpus)
    batch_tokens = choose_batch_tokens(config, stored, model, dtype, longest_sentence(train) + 1, world)
    sampling, noise = options.subword_sampling, None if links else noise_of(options)
    batches = BatchIterator(train, tokenizers, batch_tokens, config.seed, sampling, links, noise)
    decode = with_batch_tokens(replace(config.decode, beam=options.validate_beam), device)
    context = autocast(device, dtype)
    translator = Translator(model, tokenizers, decode, config.tokenizer.max_pieces, device, context)
    validation = Validation(valid, translator, config.data.target, 4 * batch_tokens, dtype, stop, world)
    total = planned_updates(options, batches.batches_per_epoch / (options.accumulate * world.size))
    if world.size > 1:
        weights = {name: tensor.cpu() for name, tensor in model.state_dict().items()}
        world.check_equal("The weights at the start", checkpoint.digest({"model": weights}))
    state = TrainState(total_steps=total) if stored is None else with_budget(stored, total, config)
    best = world.broadcast(float("nan") if state.best is None else state.best)  # process 0 may have lost it
    state.best, state.precision = None if math.isnan(best) else best, precision_name(dtype)
    if stored is not None and not state.finished:
        check_batches_per_update(state.batches_per_update, options.accumulate, world.size)
    state.batch_tokens = batch_tokens
    state.device, state.batches_per_update = device.type, options.accumulate * world.size
    train_step = TrainStep(config, model, optimizer, batches, state, dtype, world)
    # Points after the save are discarded. A due validation may have been logged by a process that was killed before it
    # saved it; then all points of this step are discarded, and that of the training is written again from the state.
    due = state.validation_due(options.validate_every)
    open_logger = partial(TensorBoardLogger, folder / "tensorboard", state.step if due else state.step + 1)
    return Trainer(config, train_step, validation, checkpoints, open_logger, stop, world)


def links_to_learn(
    model: EncoderDecoder, options: TrainConfig, tokenizers: Tokenizers, corpus: Path | None
) -> TrainingLinks | None:
    """The links of guided alignment, which the model is told to learn; None without it."""
    if not options.guided_alignment:
        return None
    assert corpus is not None
    model.guided, shift = True, DECODER_STEPS[model.guided_step]
    return open_training_links(corpus, tokenizers, options.guided_alignment_tokenized, shift)


def noise_of(options: TrainConfig) -> Noise:
    """The noise in training; with guided alignment there is none, because the links count the words of the text."""
    return Noise(
        options.noise_case, options.noise_typos, options.noise_punctuation, options.noise_merge, options.noise_copy
    )


def check_batches_per_update(stored: int, accumulate: int, world_size: int) -> None:
    """Raise UserError if a training would be continued with another number of batches in each update."""
    if stored == accumulate * world_size:
        return
    wanted, rest = divmod(stored, world_size)
    advice = f"give train.accumulate={wanted}" if not rest else "use a number of processes that divides it"
    raise UserError(
        f"The run was begun with {stored} batches in each update, and {world_size} process(es) with "
        f"train.accumulate={accumulate} make {accumulate * world_size}; {advice}, or start another run (name=…)."
    )


def with_budget(state: TrainState, total: int | None, config: Config) -> TrainState:
    """The stored state with the budget of the present configuration, where the schedule does not depend on it."""
    if not can_be_extended(config.optim.schedule, config.train.max_minutes):
        return state
    state = replace(state, total_steps=total)
    ended = state.budget_spent or state.patience_spent(config.train.patience)
    return replace(state, finished=state.finished and ended)

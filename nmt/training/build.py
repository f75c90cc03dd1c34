"""Puts a Trainer together from a configuration, the data and the folder of a run."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from nmt.config import Config, OptimConfig
from nmt.data.batches import BatchIterator
from nmt.data.dataset import ParallelDataset
from nmt.data.tokenizer import Tokenizers
from nmt.decode.translator import Translator
from nmt.models.base import EncoderDecoder
from nmt.models.build import build
from nmt.training.checkpoint_manager import CheckpointManager
from nmt.training.precision import autocast, precision_name, seed_everything, select_device, select_precision
from nmt.training.schedule import can_be_extended
from nmt.training.state import TrainState
from nmt.training.stop_signal import StopSignal
from nmt.training.time_budget import planned_updates
from nmt.training.train_step import TrainStep
from nmt.training.trainer import Trainer
from nmt.training.validation import Validation
from nmt.view.tensorboard import TensorBoardLogger


def build_trainer(
    config: Config,
    tokenizers: Tokenizers,
    train: ParallelDataset,
    valid: ParallelDataset,
    folder: Path,
    corpus_hash: str,
) -> Trainer:
    """A Trainer at the start of a training, or where last.safetensors in `folder` ended.

    Raises UserError if the device is missing or the run was begun with another configuration.
    """
    device = select_device(config.device)
    seed_everything(config.seed)
    model = build(config.model, tokenizers.source.size, tokenizers.target.size, tokenizers.joint).to(device)
    optimizer = make_optimizer(model, config.optim)
    options, stop = config.train, StopSignal()
    checkpoints = CheckpointManager(folder, config, tokenizers, corpus_hash)
    stored = checkpoints.restore(model, optimizer, device)
    dtype = select_precision(stored.precision if stored and stored.precision else config.precision, device)
    batches = BatchIterator(train, tokenizers, options.batch_tokens, config.seed, options.subword_sampling)
    decode = replace(config.decode, beam=options.validate_beam)
    context = autocast(device, dtype)
    translator = Translator(model, tokenizers, decode, config.tokenizer.max_pieces, device, context)
    validation = Validation(valid, translator, config.data.target, 4 * options.batch_tokens, stop)
    total = planned_updates(options, len(batches.plan(0)) / options.accumulate)
    state = TrainState(total_steps=total) if stored is None else with_budget(stored, total, config)
    state.precision = precision_name(dtype)
    train_step = TrainStep(config, model, optimizer, batches, state, dtype)
    # Points after the save are discarded. A due validation may have been logged by a process that was killed before it
    # saved it; then all points of this step are discarded, and that of the training is written again from the state.
    due = state.validation_due(options.validate_every)
    open_logger = partial(TensorBoardLogger, folder / "tensorboard", state.step if due else state.step + 1)
    return Trainer(config, train_step, validation, checkpoints, open_logger, stop)


def make_optimizer(model: EncoderDecoder, optim: OptimConfig) -> torch.optim.Optimizer:
    """AdamW (Loshchilov & Hutter 2019), fused into one kernel."""
    betas = (optim.betas[0], optim.betas[1])
    return torch.optim.AdamW(model.parameters(), optim.lr, betas, optim.eps, optim.weight_decay, fused=True)


def with_budget(state: TrainState, total: int | None, config: Config) -> TrainState:
    """The stored state with the budget of the present configuration, where the schedule does not depend on it."""
    if not can_be_extended(config.optim.schedule, config.train.max_minutes):
        return state
    state = replace(state, total_steps=total)
    ended = state.budget_spent or state.patience_spent(config.train.patience)
    return replace(state, finished=state.finished and ended)

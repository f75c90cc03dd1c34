"""From a composed or saved configuration to a Config, or one sentence that says what is wrong and what is possible."""

import difflib
import math
import re
from collections.abc import Callable
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigKeyError, MissingMandatoryValue, OmegaConfBaseException

from nmt.attention.flex import BIASES
from nmt.attention.hard import GRADIENTS
from nmt.attention.positions import POSITIONS
from nmt.attention.scores import SCORES, make_score
from nmt.attention.self_attention import SELF_ATTENTIONS
from nmt.attention.single_head import NORMALISERS
from nmt.attention.windows import WINDOWS
from nmt.config import Config, RecurrentConfig, TransformerConfig, flatten
from nmt.errors import UserError, choose

MODELS = {"recurrent": RecurrentConfig, "transformer": TransformerConfig}
CHOICES = {
    "precision": ("auto", "fp32", "bf16"),
    "data.kind": ("phrasebook", "files", "multi30k"),
    "tokenizer.algorithm": ("unigram", "bpe"),
    "model.cell": ("lstm", "gru"),
    "model.order": ("before", "after", "never"),
    "model.score": tuple(SCORES),
    "model.window": tuple(WINDOWS),
    "model.normalise": NORMALISERS,
    "model.hard_gradient": GRADIENTS,
    "model.norm": ("pre", "post"),
    "model.activation": ("relu", "gelu"),
    "model.attention": tuple(SELF_ATTENTIONS),
    "model.bias": tuple(BIASES),
    "model.positions": tuple(POSITIONS),
    "optim.schedule": ("inverse_sqrt", "cosine", "linear", "constant"),
    "train.metric": ("bleu", "loss"),
}
POSITIVE = (
    "data.max_characters", "tokenizer.size", "tokenizer.max_pieces", "model.layers", "model.embedding", "model.hidden",
    "model.encoder_hidden", "model.maxout", "model.radius", "model.max_positions", "model.max_distance",
    "model.encoder_layers", "model.decoder_layers", "model.size", "model.heads", "model.feed_forward",
    "optim.lr", "optim.eps", "train.batch_tokens", "train.accumulate", "train.max_steps", "train.max_epochs",
    "train.max_minutes", "train.validate_every", "train.validate_beam", "train.log_every",
    "decode.beam", "decode.max_extra", "decode.batch_tokens",
)  # fmt: skip
NOT_NEGATIVE = (
    "seed", "data.seed", "data.pairs", "data.max_ratio", "optim.weight_decay", "optim.clip",
    "optim.warmup_steps", "model.hard_entropy", "model.closing", "model.sliding_window",
    "train.patience", "train.average", "train.pictures", "decode.max_ratio",
)  # fmt: skip
SHARES = ("model.dropout", "model.attention_dropout", "train.label_smoothing", "train.sampling", "optim.final")
# A key of the model, the value at which it does nothing, and what any other value needs.
REQUIRES: tuple[tuple[str, Any, str, tuple[str, ...]], ...] = (
    ("window", "global", "order", ("before", "after")),
    ("normalise", "softmax", "order", ("before", "after")),
    ("input_feeding", False, "order", ("after",)),
    ("score", "dot", "order", ("before", "after")),
    ("maxout", None, "order", ("before",)),
    ("radius", 10, "window", tuple(name for name in WINDOWS if name != "global")),
    ("closing", 0, "window", ("local_p",)),
    ("position_exponent", RecurrentConfig.position_exponent, "window", ("local_p",)),
    ("hard_gradient", "reinforce", "normalise", ("hard",)),
    ("hard_entropy", RecurrentConfig.hard_entropy, "normalise", ("hard",)),
    ("hard_entropy", RecurrentConfig.hard_entropy, "hard_gradient", ("reinforce",)),
    ("max_positions", RecurrentConfig.max_positions, "score", ("location",)),
    ("max_positions", TransformerConfig.max_positions, "positions", ("learned",)),
    ("max_distance", TransformerConfig.max_distance, "bias", ("relative",)),
)
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


def check(composed: DictConfig | dict) -> Config:
    """Turn a composed configuration or a saved one (a dict) into a Config; raises UserError with one sentence."""
    saved = isinstance(composed, dict)
    composed = OmegaConf.create(composed) if isinstance(composed, dict) else composed
    schema = OmegaConf.structured(Config)
    try:
        kind = OmegaConf.select(composed, "model.kind")
        schema.model = OmegaConf.structured(choose("model.kind", str(kind), MODELS))
        plain = OmegaConf.create(OmegaConf.to_container(composed, resolve=True))
        config = OmegaConf.to_object(OmegaConf.merge(schema, plain))
    except MissingMandatoryValue as error:
        raise UserError(f"'{error.full_key}' has no value; give one with {error.full_key}=… .") from None
    except ConfigKeyError as error:
        raise UserError(unknown_key(str(error.full_key), plain_keys(schema))) from None
    except OmegaConfBaseException as error:
        raise UserError(f"Configuration key '{error.full_key}': {first_line(error)}.") from None
    assert isinstance(config, Config)
    for key, value in flatten(config).items():
        check_value(key, value)
    check_whole(config)
    if not saved:  # a run that was trained with what does nothing can still be used
        check_effects(config.model)
    return config


def check_value(key: str, value: Any) -> None:
    """One value by itself."""
    if isinstance(value, float) and not math.isfinite(value):
        raise UserError(f"{key}={value} is not possible; it must be a finite number.")
    if key in CHOICES and value not in CHOICES[key]:
        raise UserError(f"{key}={value} is not possible; choose one of {', '.join(CHOICES[key])}.")
    if key in POSITIVE and value is not None and not value > 0:
        raise UserError(f"{key}={value} is not possible; it must be greater than 0.")
    if key in NOT_NEGATIVE and not value >= 0:
        raise UserError(f"{key}={value} is not possible; it must be at least 0.")
    if key in SHARES and not 0 <= value < 1:
        raise UserError(f"{key}={value} is not possible; it must be at least 0 and less than 1.")


def check_whole(config: Config) -> None:
    """What must fit together."""
    model, train = config.model, config.train
    if not NAME.fullmatch(config.name):
        raise UserError(f"name={config.name!r} cannot name a run; use letters, digits, '.', '_', '+' and '-'.")
    if config.data.source == config.data.target:
        raise UserError(f"data.source and data.target are both '{config.data.source}'; they must differ.")
    if train.max_steps is None and train.max_epochs is None and train.max_minutes is None:
        raise UserError("The training has no end; give train.max_steps, train.max_epochs or train.max_minutes.")
    if not 0.98 <= config.tokenizer.coverage <= 1:
        raise UserError(f"tokenizer.coverage={config.tokenizer.coverage} is not possible; it must be 0.98 to 1.")
    if config.seed >= 2**63:
        raise UserError(f"seed={config.seed} is not possible; it must be below 2**63.")
    if len(config.optim.betas) != 2:
        raise UserError(f"optim.betas={config.optim.betas} must be two numbers.")
    if not all(0 <= beta < 1 for beta in config.optim.betas):
        raise UserError(f"optim.betas={config.optim.betas} is not possible; both must be at least 0 and less than 1.")
    VALIDATORS[type(model)](config, model)


def check_effects(model: RecurrentConfig | TransformerConfig) -> None:
    """What is given must change something."""
    for key, nothing, needed, values in REQUIRES:
        value = getattr(model, key, nothing)
        if value != nothing and getattr(model, needed, values[0]) not in values:
            given, idle = (f"model.{key}={'null' if one is None else str(one).lower()}" for one in (value, nothing))
            there, choices = f"model.{needed}={getattr(model, needed)}", f"model.{needed}={' or '.join(values)}"
            raise UserError(f"{given} changes nothing with {there}; choose {choices}, or {idle}.")


def check_recurrent(config: Config, model: RecurrentConfig) -> None:
    """What must fit together in a recurrent model."""
    if config.train.compile:
        raise UserError("train.compile=true compiles Transformers alone; choose train.compile=false.")
    if model.bidirectional and model.reverse_source:
        raise UserError("model.reverse_source=true changes nothing with model.bidirectional=true; choose one of them.")
    if model.order == "before" and not (model.cell == "gru" and model.layers == 1 and model.bidirectional):
        wanted = "model.cell=gru, model.layers=1 and model.bidirectional=true"
        raise UserError(f"model.order=before (Bahdanau) is defined for {wanted} alone.")
    if not -1 <= model.position_exponent <= 0:
        raise UserError(f"model.position_exponent={model.position_exponent} is not possible; it must be -1 to 0.")
    check_sizes(model)


def check_sizes(model: RecurrentConfig) -> None:
    """The encoder's units make a memory that the decoder can read; what the output layer reads can share embeddings."""
    given, memory = f"model.encoder_hidden={model.encoder_hidden}", model.directions * model.encoder_units
    if model.hidden % model.directions and (model.encoder_hidden is None or model.order != "before"):
        raise UserError(f"model.hidden={model.hidden} must be even when model.bidirectional=true.")
    if model.order != "before" and memory != model.hidden:
        decoder, wanted = f"the decoder of model.hidden={model.hidden}", model.hidden // model.directions
        why = f"with model.order={model.order} {decoder} starts from the encoder's states"
        raise UserError(f"{given} is not possible; {why}, so it must be {wanted}.")
    if model.encoder_hidden is not None and model.order == "before":
        try:
            with torch.device("meta"):  # shapes without numbers
                make_score(model.score, model.hidden, memory, model.max_positions)
        except UserError as error:
            raise UserError(f"{given} is not possible with model.score={model.score}: {error}") from None
    key = {"before": "maxout", "after": "embedding", "never": "hidden"}[model.order]  # what the output layer reads
    if model.tie and (getattr(model, key) or model.embedding) != model.embedding:
        sizes = f"model.{key}={getattr(model, key)} equal to model.embedding={model.embedding}"
        raise UserError(f"model.tie=true with model.order={model.order} needs {sizes}; or choose model.tie=false.")


def check_transformer(config: Config, model: TransformerConfig) -> None:
    """What must fit together in a Transformer."""
    kind = f"model.attention={model.attention}"
    if model.size % (2 * model.heads):
        raise UserError(f"model.size={model.size} must be a multiple of 2 × model.heads={model.heads}.")
    if model.attention != "flex":
        for key, value, nothing in (("sliding_window", model.sliding_window, 0), ("bias", model.bias, "none")):
            if value != nothing:
                raise UserError(f"model.{key}={value} needs model.attention=flex; here it is {model.attention}.")
    elif config.train.compile:
        raise UserError(f"train.compile=true is not possible with {kind}, which compiles its attention itself.")
    elif not model.sliding_window and model.bias == "none":
        choices = (
            "give model.sliding_window=N, model.bias=alibi or model.bias=relative, or choose model.attention=softmax"
        )
        raise UserError(f"{kind} without a window or a bias is softmax; {choices}.")
    if model.attention != "softmax" and model.attention_dropout:
        share = f"model.attention_dropout={model.attention_dropout}"
        raise UserError(f"{share} is not possible with {kind}, which drops no weights; it must be 0.")
    if model.attention == "linear" and model.positions == "rotary":
        choices = "choose model.positions=sinusoidal or learned"
        raise UserError(
            f"model.positions=rotary is not possible with {kind}: turned features can be negative; {choices}."
        )
    if model.positions == "none" and model.bias == "none":
        why = "nothing would tell the order of the words"
        raise UserError(f"model.positions=none needs model.bias=alibi or model.bias=relative; without one, {why}.")
    check_positions(config, model)


def check_positions(config: Config, model: TransformerConfig) -> None:
    """Learned positions must reach to the end of any sentence that is kept, and of any that search may write."""
    source = config.tokenizer.max_pieces
    longest = max(source, int(config.decode.max_ratio * source + config.decode.max_extra)) + 1  # </s>
    if model.positions == "learned" and model.max_positions < longest:
        raise UserError(
            f"model.max_positions={model.max_positions} is too small; with tokenizer.max_pieces={source}, "
            f"decode.max_ratio={config.decode.max_ratio:g} and decode.max_extra={config.decode.max_extra} "
            f"a sentence can have {longest} places, so it must be at least that."
        )


VALIDATORS: dict[type, Callable[[Config, Any], None]] = {
    RecurrentConfig: check_recurrent,
    TransformerConfig: check_transformer,
}


def unknown_key(key: str, known: list[str]) -> str:
    """The sentence for a key that does not exist, with the nearest that does."""
    near = difflib.get_close_matches(key, known, n=3, cutoff=0.6)
    if not near:
        group = key.rsplit(".", 1)[0] + "."
        near = [other for other in known if other.startswith(group)]
        known = [other for other in known if "." not in other]
    hint = f"did you mean {' or '.join(near[:3])}?" if near else f"known: {', '.join(known)}."
    return f"There is no configuration key '{key}'; {hint}"


def plain_keys(node: Any, prefix: str = "") -> list[str]:
    """All keys of a composed configuration, groups and leaves."""
    keys = []
    for key in node:
        keys.append(prefix + str(key))
        child = node._get_node(key)
        if isinstance(child, DictConfig) and not (child._is_none() or child._is_missing()):
            keys += plain_keys(child, f"{prefix}{key}.")
    return keys


def first_line(error: Exception) -> str:
    """An error of OmegaConf without its lines of context."""
    return str(error).strip().split("\n")[0].rstrip(".")

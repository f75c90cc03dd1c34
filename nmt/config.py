"""The schema of conf/: dataclasses say which keys exist and of which type, YAML files say their values.

A field without a default must stand in the YAML. Nothing in a file can name code to run. nmt/config_validation.py turns what Hydra
composed (or what a run saved) into these dataclasses.
"""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf


@dataclass
class DataConfig:
    """Where the sentence pairs come from, and which pairs may not be trained on."""

    kind: str  # phrasebook | files | multi30k
    source: str  # language code = file name ending
    target: str
    train: Any  # PREFIX or list of PREFIXes (kind=files), set names otherwise
    valid: Any
    test: Any
    max_characters: int  # training pairs with a longer side are dropped
    max_ratio: float  # so are pairs whose (longer + 10) / (shorter + 10) characters exceed this
    pairs: int = 0  # kind=phrasebook: how many to draw for training
    seed: int = 1  # and from which seed


@dataclass
class TokenizerConfig:
    """One SentencePiece model for both languages, or one for each."""

    algorithm: str  # unigram | bpe
    size: int  # pieces, specials and bytes included
    joint: bool  # one vocabulary for both languages
    byte_fallback: bool  # an unseen character becomes its UTF-8 bytes instead of <unk>
    coverage: float  # share of characters that get a piece of their own
    lowercase: bool
    max_pieces: int  # training pairs with a longer side are dropped


@dataclass
class RecurrentConfig:
    """An encoder-decoder of LSTM or GRU layers; attention looks before the cell steps, after it, or never."""

    kind: str  # recurrent
    cell: str  # lstm | gru
    layers: int
    embedding: int
    hidden: int  # decoder state
    bidirectional: bool
    reverse_source: bool
    order: str  # before (Bahdanau) | after (Luong) | never
    input_feeding: bool
    score: str
    window: str  # global | local_m | local_p
    radius: int  # D of Luong's local attention
    dropout: float
    tie: bool  # the output layer shares the target embedding; with a joint vocabulary the source does too
    max_positions: int = 512  # source positions that score=location knows; later ones get no weight
    normalise: str = "softmax"  # softmax | hard: one position, drawn in training (Xu et al. 2015)
    closing: int = 0  # batches over which a local_p window closes to its radius; 0 = that radius from the start
    hard_gradient: str = "reinforce"  # reinforce | straight_through: how hard attention learns where to look
    hard_entropy: float = 0.002  # λ_e: weight of the draw's entropy in nats; reinforce only
    encoder_hidden: int | None = None  # units of the encoder in each direction; null = hidden / directions
    maxout: int | None = None  # order=before: size of the readout's maxout layer; null = embedding
    position_exponent: float = -0.75  # local_p: v_p is hidden to this power times what is learnt; 0 = the paper's

    @property
    def directions(self) -> int:
        """Of the encoder."""
        return 2 if self.bidirectional else 1

    @property
    def encoder_units(self) -> int:
        """Of the encoder in each direction; all directions together are the size of the memory."""
        return self.encoder_hidden or self.hidden // self.directions


@dataclass
class TransformerConfig:
    """Vaswani et al. 2017, with pre- or post-norm, and what came after it: kinds of self-attention, of positions."""

    kind: str  # transformer
    encoder_layers: int
    decoder_layers: int
    size: int
    heads: int
    feed_forward: int
    norm: str  # pre | post
    activation: str  # relu | gelu
    dropout: float
    tie: bool  # the output layer shares the target embedding; with a joint vocabulary the source does too
    attention: str = "softmax"  # of encoder and decoder with themselves: softmax | linear | flex
    sliding_window: int = 0  # attention=flex: only distances up to this are seen; 0 = no limit
    bias: str = "none"  # attention=flex: what distances add to scores: none | alibi | relative
    max_distance: int = 32  # bias=relative: longer distances count as this one
    positions: str = "sinusoidal"  # sinusoidal | learned | rotary | none
    max_positions: int = 1024  # positions=learned: the longest sentence, </s> counted
    attention_dropout: float = 0.0  # share of the attention weights, attention=softmax alone


@dataclass
class OptimConfig:
    """AdamW and its learning-rate schedule."""

    lr: float  # the peak
    betas: list[float]
    eps: float
    weight_decay: float
    clip: float  # largest gradient norm; 0 = no clipping
    schedule: str  # inverse_sqrt | cosine | linear | constant
    warmup_steps: int
    final: float  # share of the peak that cosine and linear end at


@dataclass
class TrainConfig:
    """Budget, batches, and how often to look."""

    batch_tokens: int  # padded positions on the longer side of a batch
    accumulate: int  # batches per update
    label_smoothing: float
    sampling: float  # subword regularisation: unigram alpha or BPE-dropout probability; 0 = off
    max_steps: int | None
    max_epochs: float | None
    max_minutes: float | None
    validate_every: int  # updates
    validate_beam: int  # of the search over the validation set; 1 = greedy
    patience: int  # validations without a better score before stopping; 0 = never
    metric: str  # bleu | loss: what "better" means
    average: int  # how many of the last validation checkpoints are averaged at the end; 0 = none
    log_every: int  # updates
    pictures: int  # validation sentences whose translation and heatmap are logged
    picture_layer: int  # decoder layer of the heatmaps, counted from 0; negative from the top
    picture_heads: bool = False  # also a picture of every head of that layer
    compile: bool = False  # train a Transformer through torch.compile


@dataclass
class DecodeConfig:
    """Search."""

    beam: int
    length_penalty: float  # α in log-probability / length^α
    max_ratio: float  # a hypothesis has at most max_ratio × source pieces + max_extra pieces
    max_extra: int
    batch_tokens: int  # source positions × beam in one batch


@dataclass
class Config:
    """One experiment."""

    name: str  # of the run
    seed: int
    precision: str  # auto | fp32 | bf16
    device: str  # auto | cpu | cuda | …
    data_folder: str  # what is downloaded or built goes here
    run_folder: str
    data: DataConfig
    tokenizer: TokenizerConfig
    model: Any  # RecurrentConfig | TransformerConfig, by model.kind
    optim: OptimConfig
    train: TrainConfig
    decode: DecodeConfig


def config_folder() -> Path:
    """The folder of YAML files: beside the package in a checkout, inside it after a plain `pip install`."""
    inside = Path(__file__).resolve().parent / "conf"
    return inside if inside.is_dir() else inside.parent.parent / "conf"


def flatten(config: Any, prefix: str = "") -> dict[str, Any]:
    """{"model.hidden": 512, …} of a dataclass tree."""
    flat: dict[str, Any] = {}
    for field in fields(config):
        value, key = getattr(config, field.name), prefix + field.name
        flat |= flatten(value, key + ".") if hasattr(value, "__dataclass_fields__") else {key: value}
    return flat


def to_dict(config: Config) -> dict[str, Any]:
    """Nested plain containers, as saved beside a run and inside its checkpoints."""
    nested = OmegaConf.to_container(OmegaConf.structured(config))
    assert isinstance(nested, dict)
    return {str(key): value for key, value in nested.items()}


def to_yaml(config: Config) -> str:
    """The same as text."""
    return OmegaConf.to_yaml(OmegaConf.structured(config))

"""The configuration of the recurrent models."""

from dataclasses import dataclass

import torch

from nmt.attention.hard import GRADIENTS
from nmt.attention.scores import SCORES, make_score
from nmt.attention.single_head import NORMALISERS
from nmt.attention.windows import WINDOWS
from nmt.config import Config, option
from nmt.errors import UserError

ATTENDS = {"order": ("before", "after")}
LOCAL_P = {"window": ("local_p",)}
HARD = {"normalise": ("hard",)}


@dataclass(kw_only=True)
class RecurrentConfig:
    """An encoder-decoder of LSTM or GRU layers, with attention before its step, after it, or without."""

    kind: str = option("the architecture: recurrent")
    cell: str = option("kind of recurrent layer", choices=("lstm", "gru"))
    layers: int = option("layers of the encoder and of the decoder", above=0)
    embedding: int = option("size of the embeddings", above=0)
    hidden: int = option("size of the decoder's state", above=0)
    encoder_hidden: int | None = option(
        "units of the encoder in each direction; null = hidden / directions", None, above=0
    )
    bidirectional: bool = option("the encoder reads in both directions")
    reverse_source: bool = option("the encoder reads the source backwards", paper="Sutskever et al. 2014 §3.3")
    order: str = option(
        "when attention is computed: before the decoder's step, after it, or never",
        choices=("before", "after", "never"),
        paper="before: Bahdanau et al. 2015; after: Luong et al. 2015; never: Sutskever et al. 2014",
    )
    input_feeding: bool = option(
        "the attentional vector is an input of the next step",
        False,
        requires={"order": ("after",)},
        paper="Luong et al. 2015 §3.3",
    )
    score: str = option(
        "how well a query fits a key", "dot", choices=SCORES, requires=ATTENDS, paper="Luong et al. 2015 §3.1"
    )
    window: str = option(
        "which source positions are attended to",
        "global",
        choices=WINDOWS,
        requires=ATTENDS,
        paper="Luong et al. 2015 §3.2",
    )
    radius: int = option(
        "D: a local window is 2 D + 1 positions wide",
        10,
        above=0,
        requires={"window": [name for name in WINDOWS if name != "global"]},
        paper="Luong et al. 2015 §3.2",
    )
    closing: int = option(
        "batches over which the window shrinks to its radius; 0 = that radius from the start",
        0,
        minimum=0,
        requires=LOCAL_P,
    )
    position_exponent: float = option(
        "v_p is hidden to this power times the learnt vector; 0 = as in the paper",
        -0.75,
        minimum=-1,
        maximum=0,
        requires=LOCAL_P,
    )
    max_positions: int = option(
        "source positions that the location score has weights for; later ones get no attention",
        512,
        above=0,
        requires={"score": ("location",)},
    )
    normalise: str = option(
        "softmax over the window, or hard attention: one position, sampled in training",
        "softmax",
        choices=NORMALISERS,
        requires=ATTENDS,
        paper="Xu et al. 2015 §4.1",
    )
    hard_gradient: str = option(
        "how hard attention learns where to attend",
        "reinforce",
        choices=GRADIENTS,
        requires=HARD,
        paper="Williams 1992; Bengio et al. 2013 §4",
    )
    hard_entropy: float = option(
        "λ_e: weight of the entropy of the sampled distribution, in nats",
        0.002,
        minimum=0,
        requires=HARD | {"hard_gradient": ("reinforce",)},
        paper="Xu et al. 2015 §4.1",
    )
    maxout: int | None = option(
        "size of the readout's maxout layer; null = embedding",
        None,
        above=0,
        requires={"order": ("before",)},
        paper="Bahdanau et al. 2015 A.2.2",
    )
    dropout: float = option("dropout", minimum=0, below=1)
    tie: bool = option("the output layer shares the target embedding; with a joint vocabulary the source does too")

    @property
    def directions(self) -> int:
        """Of the encoder: 1 or 2."""
        return 2 if self.bidirectional else 1

    @property
    def encoder_units(self) -> int:
        """Units of the encoder in each direction; those of all directions are the memory."""
        return self.encoder_hidden or self.hidden // self.directions

    def check(self, config: Config) -> None:
        """What must fit together; raises UserError."""
        if config.train.compile:
            raise UserError("train.compile=true compiles Transformers alone; choose train.compile=false.")
        if self.bidirectional and self.reverse_source:
            raise UserError(
                "model.reverse_source=true changes nothing with model.bidirectional=true; choose one of them."
            )
        if self.order == "before" and not (self.cell == "gru" and self.layers == 1 and self.bidirectional):
            wanted = "model.cell=gru, model.layers=1 and model.bidirectional=true"
            raise UserError(f"model.order=before (Bahdanau) is defined for {wanted} alone.")
        self.check_encoder_size()
        self.check_tied_size()

    def check_encoder_size(self) -> None:
        """The decoder must be able to read the memory, and to start from the encoder's states."""
        given, memory = f"model.encoder_hidden={self.encoder_hidden}", self.directions * self.encoder_units
        if self.hidden % self.directions and (self.encoder_hidden is None or self.order != "before"):
            raise UserError(f"model.hidden={self.hidden} must be even when model.bidirectional=true.")
        if self.order != "before" and memory != self.hidden:
            decoder, wanted = f"the decoder of model.hidden={self.hidden}", self.hidden // self.directions
            why = f"with model.order={self.order} {decoder} starts from the encoder's states"
            raise UserError(f"{given} is not possible; {why}, so it must be {wanted}.")
        if self.encoder_hidden is not None and self.order == "before":
            try:
                with torch.device("meta"):  # shapes without numbers
                    make_score(self.score, self.hidden, memory, self.max_positions)
            except UserError as error:
                raise UserError(f"{given} is not possible with model.score={self.score}: {error}") from None

    def check_tied_size(self) -> None:
        """An output layer that shares the embedding reads vectors of its size."""
        key = {"before": "maxout", "after": "embedding", "never": "hidden"}[self.order]  # what the output layer reads
        if self.tie and (getattr(self, key) or self.embedding) != self.embedding:
            sizes = f"model.{key}={getattr(self, key)} equal to model.embedding={self.embedding}"
            raise UserError(f"model.tie=true with model.order={self.order} needs {sizes}; or choose model.tie=false.")

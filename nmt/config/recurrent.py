"""The configuration of the recurrent models."""

from dataclasses import dataclass

import torch

from nmt.attention.hard import GRADIENTS
from nmt.attention.scores import SCORES, make_score
from nmt.attention.single_head import ATTENTION_TYPES
from nmt.attention.windows import WINDOWS
from nmt.config.schema import Config, option
from nmt.errors import UserError

ATTENDS = {"attend": ("before_step", "after_step")}
LOCAL_P = {"window": ("local_p",)}
HARD = {"attention_type": ("hard",)}


@dataclass(kw_only=True)
class RecurrentConfig:
    """LSTM or GRU encoder-decoder with attention before each decoder step, after it, or never."""

    kind: str = option("the architecture: recurrent")
    cell: str = option("kind of recurrent layer", choices=("lstm", "gru"))
    num_layers: int = option("layers of the encoder and of the decoder", above=0, maximum=256)
    embedding_size: int = option("size of the embeddings", above=0, maximum=65536)
    hidden_size: int = option("size of the decoder's state", above=0, maximum=65536)
    encoder_hidden_size: int | None = option(
        "units of the encoder in each direction; null = hidden_size / directions",
        None,
        above=0,
        maximum=65536,
    )
    bidirectional: bool = option("the encoder reads in both directions")
    reverse_source: bool = option(
        "the encoder reads the source backwards", paper="Sutskever et al. 2014 §3.3"
    )
    attend: str = option(
        "when attention is computed: before the decoder's step, after it, or never",
        choices=("before_step", "after_step", "never"),
        paper="before_step: Bahdanau et al. 2015; after_step: Luong et al. 2015; never: Sutskever "
        "et al. 2014",
    )
    input_feeding: bool = option(
        "the attentional vector is an input of the next step",
        False,
        requires={"attend": ("after_step",)},
        paper="Luong et al. 2015 §3.3",
    )
    score: str = option(
        "how the fit of query and key is scored",
        "dot",
        choices=SCORES,
        requires=ATTENDS,
        paper="Luong et al. 2015 §3.1",
    )
    window: str = option(
        "which source positions are attended to",
        "global",
        choices=WINDOWS,
        requires=ATTENDS,
        paper="Luong et al. 2015 §3.2",
    )
    window_radius: int = option(
        "D: a local window is 2 D + 1 positions wide",
        10,
        above=0,
        maximum=10**6,
        requires={"window": [name for name in WINDOWS if name != "global"]},
        paper="Luong et al. 2015 §3.2",
    )
    window_narrowing_batches: int = option(
        "batches over which the window shrinks to its radius; 0 = that radius from the start",
        0,
        minimum=0,
        requires=LOCAL_P,
    )
    position_scale_exponent: float = option(
        "v_p is hidden_size to this power times the learned vector; 0 = as in the paper",
        -0.75,
        minimum=-1,
        maximum=0,
        requires=LOCAL_P,
    )
    max_positions: int = option(
        "number of source positions for which the location score has weights; later ones get "
        "no attention",
        512,
        above=0,
        maximum=10**6,
        requires={"score": ("location",)},
    )
    attention_type: str = option(
        "soft: softmax over the window; hard: one position, sampled in training",
        "soft",
        choices=ATTENTION_TYPES,
        requires=ATTENDS,
        paper="Xu et al. 2015 §4.1",
    )
    hard_attention_gradient: str = option(
        "how hard attention learns where to attend",
        "reinforce",
        choices=GRADIENTS,
        requires=HARD,
        paper="Williams 1992; Bengio et al. 2013 §4",
    )
    hard_attention_entropy: float = option(
        "λ_e: weight of the entropy of the sampled distribution, in nats",
        0.002,
        minimum=0,
        requires=HARD | {"hard_attention_gradient": ("reinforce",)},
        paper="Xu et al. 2015 §4.1",
    )
    maxout_size: int | None = option(
        "size of the readout's maxout layer; null = embedding_size",
        None,
        above=0,
        maximum=2**16,
        requires={"attend": ("before_step",)},
        paper="Bahdanau et al. 2015 A.2.2",
    )
    dropout: float | None = option(
        "dropout; null = by how often the training pairs are passed over", minimum=0, below=1
    )
    tie_embeddings: bool = option(
        "share the target embedding with the output layer, and with a joint vocabulary also "
        "with the source embedding"
    )

    @property
    def directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def encoder_units(self) -> int:
        """Units of the encoder in each direction; those of all directions are the memory."""
        return self.encoder_hidden_size or self.hidden_size // self.directions

    def attention_labels(self) -> list[str]:
        """When it attends, score and window, as in table 4 of Luong et al. (2015)."""
        if self.attend == "never":
            return ["never", "–", "–"]
        score = self.score
        if self.attention_type == "hard":
            score = f"hard {score}"
            if self.hard_attention_gradient == "straight_through":
                score += ", straight through"
        window = self.window
        if window != "global":
            window += f", D = {self.window_radius}"
        return [self.attend, score, window]

    def architecture_labels(self) -> list[str]:
        """Architecture, number of layers, and size."""
        feeding = ", input feeding" if self.input_feeding and self.attend == "after_step" else ""
        return [self.cell + feeding, str(self.num_layers), str(self.hidden_size)]

    def check(self, config: Config) -> None:
        """What must fit together; raises UserError."""
        if config.train.compile:
            raise UserError(
                "train.compile=true is only supported for Transformers; choose train.compile=false."
            )
        is_hard = self.attention_type == "hard"
        if config.train.guided_alignment and (self.attend == "never" or is_hard):
            given = f"train.guided_alignment={config.train.guided_alignment:g}"
            raise UserError(
                f"{given} needs a model with soft attention; choose another model, or 0."
            )
        if config.train.r_drop and is_hard:
            raise UserError(
                f"train.r_drop={config.train.r_drop:g} needs a model with soft attention; choose 0."
            )
        if self.bidirectional and self.reverse_source:
            raise UserError(
                "model.reverse_source=true changes nothing with model.bidirectional=true; choose "
                "one of them."
            )
        is_bahdanaus = self.cell == "gru" and self.num_layers == 1 and self.bidirectional
        if self.attend == "before_step" and not is_bahdanaus:
            wanted = "model.cell=gru, model.num_layers=1 and model.bidirectional=true"
            raise UserError(f"model.attend=before_step (Bahdanau) requires {wanted}.")
        self.check_sizes()

    def check_sizes(self) -> None:
        """Raise UserError unless sizes fit each other.

        The decoder starts from the encoder's states, or its score reads the memory. Tied embeddings
        need equal sizes.
        """
        given = f"model.encoder_hidden_size={self.encoder_hidden_size}"
        memory = self.directions * self.encoder_units
        before = self.attend == "before_step"
        if self.hidden_size % self.directions and (self.encoder_hidden_size is None or not before):
            raise UserError(
                f"model.hidden_size={self.hidden_size} must be even when model.bidirectional=true."
            )
        if not before and memory != self.hidden_size:
            wanted = self.hidden_size // self.directions
            raise UserError(
                f"{given} is not possible with model.attend={self.attend}; it must be {wanted}."
            )
        if before and self.encoder_hidden_size is not None:
            try:
                with torch.device("meta"):  # shapes without numbers
                    make_score(self.score, self.hidden_size, memory, self.max_positions)
            except UserError as error:
                raise UserError(
                    f"{given} is not possible with model.score={self.score}: {error}"
                ) from None
        read_by_output = {
            "before_step": "maxout_size",
            "after_step": "embedding_size",
            "never": "hidden_size",
        }
        key = read_by_output[self.attend]
        size = getattr(self, key) or self.embedding_size
        if self.tie_embeddings and size != self.embedding_size:
            raise UserError(
                f"model.tie_embeddings=true with model.attend={self.attend} needs "
                f"model.{key}={size} equal to model.embedding_size={self.embedding_size}; or "
                "choose model.tie_embeddings=false."
            )

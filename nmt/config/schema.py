"""The schema of conf/: dataclasses define the keys, YAML files give them values.

Each field carries its meaning, its range or choices, and the values of other keys that it depends
on; `option` writes them into the field's metadata. validation.py checks a composed or saved
configuration against them, and docs/reference/configuration.md is generated from them. The models'
dataclasses are in recurrent.py and transformer.py. A field without a default must be in the YAML.
No file can name code to run.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from typing import Any

from omegaconf import OmegaConf

from nmt.config.schedules import SCHEDULES

# Of a training, which ends at the first that is reached
LIMITS = ("max_steps", "max_epochs", "max_minutes")
# Parts of a model that a training from a run may leave as they are
FREEZABLE = ("embeddings", "encoder", "decoder", "output")
LARGEST = 10**9  # the limit of any number without one of its own; products of two are exact


def option(
    meaning: str,
    default: Any = MISSING,
    *,
    choices: Collection[str] = (),
    above: float | None = None,
    minimum: float | None = None,
    maximum: float | None = None,
    below: float | None = None,
    requires: Mapping[str, Collection[str]] | None = None,
    paper: str = "",
) -> Any:
    """A key of the configuration: a field with its documentation and its rules.

    meaning: one phrase, with the unit. choices: the possible values of a text, or of the texts of a
    list. above, minimum, maximum, below: bounds of a number (None is allowed where the type allows
    it); LARGEST without maximum and below. requires: {other key: its values} of the same dataclass,
    without which this key has no effect; `default` is then the value that changes nothing. paper:
    where it is from.
    """
    metadata = {
        "meaning": meaning,
        "choices": tuple(choices),
        "above": above,
        "minimum": minimum,
        "maximum": maximum,
        "below": below,
        "requires": {key: tuple(values) for key, values in (requires or {}).items()},
        "paper": paper,
    }
    return field(default=default, metadata=metadata)


OWN_TEXT = {"kind": ("files",)}


@dataclass
class DataConfig:
    """Where the sentence pairs come from, and which of them are not trained on."""

    kind: str = option("the kind of corpus", choices=("phrasebook", "files", "multi30k"))
    source: str = option("code of the source language; also the ending of its files")
    target: str = option("code of the target language; also the ending of its files")
    train: Any = option(
        "kind=files: PREFIX, a file of pairs, opus:CORPUS/VERSION, hub:OWNER/NAME, or a list "
        "of them (docs/guides/data.md); otherwise names of sets"
    )
    valid: Any = option(
        "the validation set, in the same form; split = hold out pairs of data.train"
    )
    test: Any = option("the test sets, in the same form; each is scored separately; null = none")
    max_characters: int = option("training pairs with a longer side are dropped", above=0)
    max_length_ratio: float = option(
        "training pairs whose (longer + 10) / (shorter + 10) characters exceed this are dropped",
        minimum=0,
    )
    mono: Any = option(
        "file, or list of files, with text in the target language, one sentence a line; "
        "back-translation makes training pairs from it (docs/guides/back-translation.md); "
        "null = none",
        None,
        paper="Sennrich et al. 2016",
    )
    split_size: int = option(
        "number of pairs to hold out if data.valid or data.test is split; at most a twentieth "
        "of data.train",
        1000,
        above=0,
        maximum=10**6,
        requires=OWN_TEXT,
    )
    columns: Any = option(
        "tables: the names of the two columns, or their numbers from 1 if there is no header; "
        "further pairs of names apply to other tables; null = detect them from their names or "
        "their text",
        None,
        requires=OWN_TEXT,
    )
    weights: list[float] | None = option(
        "one number for each part of data.train: how often its pairs are used per epoch; null "
        "= once",
        None,
        requires=OWN_TEXT,
    )
    temperature: float | None = option(
        "set the weights so that the parts have shares proportional to pairs^(1 / "
        "temperature), where the largest part is used once; null = use every part once",
        None,
        minimum=1,
        maximum=100,
        requires=OWN_TEXT,
        paper="Arivazhagan et al. 2019",
    )
    origin_tags: bool = option(
        "begin each source of data.train with a tag of its origin, such as <tatoeba>",
        False,
        requires=OWN_TEXT,
    )
    pair_tags: bool = option(
        "the tags of several languages name both languages, such as <de2fr>, as M2M-100 and "
        "NLLB-200 need",
        False,
    )
    encoding: str = option(
        "encoding of plain files and tables: auto (UTF-8, or a guess, which is reported), or "
        "a name such as cp1252 or shift_jis",
        "auto",
        requires=OWN_TEXT,
    )
    opus_url: str = option(
        "server of opus:, or a mirror", "https://object.pouta.csc.fi", requires=OWN_TEXT
    )
    audit_deviation: float = option(
        "nmt audit: report lengths that differ from the usual ones by more than this number "
        "of standard deviations",
        5.0,
        above=0,
        maximum=100,
    )
    audit_examples: int = option(
        "nmt audit: number of examples of each fault", 5, above=0, maximum=1000
    )


@dataclass
class TokenizerConfig:
    """One SentencePiece model for both languages, or one for each."""

    algorithm: str = option(
        "algorithm that learns the subword pieces",
        choices=("unigram", "bpe"),
        paper="Kudo 2018; Sennrich et al. 2016",
    )
    vocabulary_size: int = option(
        "number of subword pieces, including 4 special ones and 256 bytes", above=0, maximum=10**6
    )
    joint: bool = option("use one vocabulary for both languages")
    byte_fallback: bool = option("encode an unseen character as its UTF-8 bytes instead of <unk>")
    character_coverage: float = option(
        "fraction of the characters of the text that get their own pieces",
        minimum=0.98,
        maximum=1,
    )
    lowercase: bool = option("convert text to lowercase first")
    max_pieces: int = option(
        "training pairs with a longer side are dropped; longer inputs are divided in translation",
        above=0,
    )
    protect: bool = option(
        "copy numbers, URLs, e-mail addresses, codes, variables and emoji instead of "
        "translating them (docs/guides/noisy-input.md)",
        False,
    )


@dataclass
class OptimConfig:
    """The optimizer and its learning-rate schedule."""

    lr: float = option("peak learning rate", above=0)
    betas: list[float] = option("decay rates of AdamW's moments", paper="Kingma & Ba 2015")
    eps: float = option("AdamW's ε", above=0)
    weight_decay: float = option(
        "decoupled weight decay of matrices: W ← W − lr · weight_decay · W",
        minimum=0,
        paper="Loshchilov & Hutter 2019",
    )
    clip_norm: float = option("largest norm of the gradient; 0 = no clipping", minimum=0)
    schedule: str = option(
        "how the learning rate falls after the warm-up",
        choices=SCHEDULES,
        paper="inverse_sqrt: Vaswani et al. 2017 eq. 3",
    )
    warmup_steps: int | None = option(
        "updates of linear warm-up; null = 400; if the schedule has an end, at most a quarter "
        "of the training",
        minimum=0,
    )
    final_lr_fraction: float = option(
        "schedule=cosine, linear: last learning rate as a fraction of the peak", minimum=0, below=1
    )
    algorithm: str = option(
        "the optimizer; muon updates hidden matrices with their orthogonalized momentum, and "
        "everything else with AdamW",
        "adamw",
        choices=("adamw", "muon"),
        paper="muon: Jordan et al. 2024; Liu et al. 2025",
    )
    momentum: float = option(
        "muon: decay rate of the momentum",
        0.95,
        minimum=0,
        below=1,
        requires={"algorithm": ("muon",)},
    )


@dataclass(kw_only=True)
class TrainConfig:
    """Batches, budget, validation and logging."""

    batch_tokens: int | None = option(
        "padded positions of a batch, on its longer side; null = 1024, on a GPU 32768",
        above=0,
        maximum=10**8,
    )
    accumulate: int = option("batches per update, in each process", above=0)
    ordered_sum: bool = option(
        "with several processes: add the gradients in the order of the batches, so that the "
        "result has the same bits as with one process; false = let the backend choose the "
        "order"
    )
    label_smoothing: float = option(
        "probability mass that is spread over the vocabulary",
        minimum=0,
        below=1,
        paper="Szegedy et al. 2016 §7",
    )
    sampled_softmax: int = option(
        "number of pieces that are drawn for the softmax of a batch, besides the pieces of its "
        "targets; an update takes less time on a CPU; 0 = the whole vocabulary",
        0,
        minimum=0,
        paper="Bengio & Senécal 2008; Jean et al. 2015",
    )
    subword_sampling: float = option(
        "subword regularisation: α of unigram sampling, or the probability of dropping a BPE "
        "merge; 0 = off",
        minimum=0,
        below=1,
        paper="Kudo 2018; Provilkov et al. 2020",
    )
    max_steps: int | None = option("most updates; null = no limit", above=0)
    max_epochs: float | None = option(
        "most passes over the training pairs; null = no limit", above=0
    )
    max_minutes: float | None = option(
        "most minutes; converted into a number of updates when the speed is known; null = no limit",
        above=0,
    )
    validate_every: int | None = option(
        "updates between two validations; null = 500, or with max_minutes more of them, so that "
        "validations take at most 5 % of the time",
        above=0,
    )
    validate_beam: int = option(
        "beam of the search over the validation set; 1 = greedy", above=0, maximum=1000
    )
    patience: int = option(
        "stop after this number of validations without a better score; 0 = never", minimum=0
    )
    metric: str = option(
        "the score that selects the best checkpoint: loss, or a metric such as bleu, chrf or ter"
    )
    average_checkpoints: int = option(
        "number of last validation checkpoints (step-N.safetensors) to keep and to average at "
        "the end; 0 = none",
        minimum=0,
    )
    save_minutes: float | None = option(
        "minutes between two saves of last.safetensors, in addition to those at validations; "
        "longer if saving would take more than 2 % of the time; null = only at validations",
        above=0,
    )
    prune_checkpoints: bool = option(
        "when a training has ended and cannot be continued, delete previous, validated and "
        "step-N.safetensors and the state of the optimizer; false = keep them",
        True,
    )
    log_every: int = option("updates between two points of the training curves", above=0)
    log_sentences: int = option(
        "number of validation sentences whose translation and heatmap are logged", minimum=0
    )
    heatmap_layer: int = option("decoder layer of the heatmaps, from 0; negative = from the top")
    heatmap_all_heads: bool = option("also log a heatmap of every head of that layer", False)
    compile: bool = option("train a Transformer with torch.compile", False)
    profile: int = option(
        "number of updates, after the first twelve, that are recorded in a PyTorch profile in "
        "RUN/profile; 0 = none",
        0,
        minimum=0,
        maximum=1000,
    )
    overfit_batch: bool = option(
        "use the first batch for every update; a model that does not learn it by heart has a fault",
        False,
    )
    guided_alignment: float = option(
        "weight of the loss with which one attention head learns the links in PREFIX.align of "
        "each PREFIX of data.train; 0 = off",
        0.0,
        minimum=0,
        paper="Garg et al. 2019",
    )
    guided_alignment_tokenized: bool = option(
        "true = in these links, only spaces separate words; false = punctuation at the edges "
        "of words is split off",
        False,
    )
    r_drop: float = option(
        "R-Drop: process each pair twice with different dropout; weight α of the divergence "
        "of the two predictions of a token; 0 = off",
        0.0,
        minimum=0,
        paper="Liang et al. 2021 eq. 4",
    )
    noise_case: float = option(
        "probability that a source is lowercased, or its first letter is", 0.0, minimum=0, below=1
    )
    noise_typos: float = option("probability that a source has typos", 0.0, minimum=0, below=1)
    noise_punctuation: float = option(
        "probability that a source loses its last punctuation mark", 0.0, minimum=0, below=1
    )
    noise_merge: float = option(
        "share of the pairs that are joined to lines of two to four pairs", 0.0, minimum=0, below=1
    )
    noise_copy: float = option(
        "probability that something to be copied is added to both sides of a pair",
        0.0,
        minimum=0,
        below=1,
    )
    noise_names: float = option(
        "probability that a pair gets an invented name on both sides", 0.0, minimum=0, below=1
    )
    noise_plain: float = option(
        "probability that a pair with placeholders gets invented numbers, addresses and the "
        "like as plain text instead",
        0.0,
        minimum=0,
        maximum=1,
    )
    replay: float = option(
        "from=RUN: share of the training text, in bytes, that is old text of RUN; 0 = none",
        0.0,
        minimum=0,
        below=1,
    )
    rehearsal: float = option(
        "from=RUN: weight of the divergence from RUN on random pieces, for a run whose old "
        "text is not available; 0 = off",
        0.0,
        minimum=0,
        paper="Robins 1995",
    )
    rehearsal_pieces: int = option(
        "rehearse only this number of first pieces, and languages whose tag is among them, so "
        "that a new language is not held back; 0 = all",
        0,
        minimum=0,
    )
    lora: int = option(
        "from=RUN: train matrices of this rank beside those of a Transformer's layers, in place "
        "of them; 0 = off",
        0,
        minimum=0,
        maximum=4096,
        paper="Hu et al. 2021",
    )
    recompute: bool = option(
        "Transformer: compute each layer again in the backward pass, instead of keeping what it "
        "computed; less memory, 1.3 to 1.5 times the time, the same result",
        False,
        paper="Chen et al. 2016",
    )
    freeze: list[str] | None = option(
        "from=RUN: list of parts that are not trained; output and embeddings are one where they "
        "are tied; null = none",
        None,
        choices=FREEZABLE,
    )


@dataclass
class DecodeConfig:
    """Beam search and its limits."""

    beam: int = option(
        "hypotheses that are kept for each sentence; 1 = greedy search", above=0, maximum=1000
    )
    length_penalty: float = option(
        "α in log-probability / length^α", minimum=-10, maximum=10, paper="Wu et al. 2016 §7"
    )
    max_length_ratio: float = option(
        "a translation has at most max_length_ratio × source pieces + max_length_extra pieces",
        minimum=0,
        maximum=100,
    )
    max_length_extra: int = option("see max_length_ratio", above=0, maximum=10_000)
    batch_tokens: int | None = option(
        "source positions × beam in one batch; null = 8192 on a CPU, by memory on a GPU",
        above=0,
        maximum=10**8,
    )
    avoid_loops: bool = option(
        "do not repeat a span more than twice, or more often than the source repeats one", True
    )
    early_stopping: bool = option(
        "end the search for a sentence when `beam` hypotheses have ended; false = continue "
        "until no open hypothesis has a better score than these",
        True,
    )


@dataclass(kw_only=True)
class Config:
    """All settings of a run."""

    name: str = option("name of the run")
    from_run: str | None = option(
        "written from=RUN: the trained run whose model is trained further; its subword pieces "
        "are kept; null = none",
        None,
    )
    seed: int = option(
        "seed of weights, order of batches, dropout and sampling", minimum=0, below=2**63
    )
    precision: str = option(
        "number format of matrix products; auto = bf16 where it is faster, in "
        "training fp16 on older GPUs (V100, T4); fp16 has a scaled loss; on a CPU it means fp32",
        choices=("auto", "fp32", "bf16", "fp16"),
    )
    device: str = option("device: auto, cpu, cuda, cuda:1 …; auto = cuda if there is one")
    data_folder: str = option("folder for downloads and for what is built from them")
    run_folder: str = option("folder for the runs")
    data: DataConfig
    tokenizer: TokenizerConfig
    model: Any  # the dataclass of the model's kind
    optim: OptimConfig
    train: TrainConfig
    decode: DecodeConfig


def leaves(config: Any, prefix: str = "") -> Iterator[tuple[str, Any, Field]]:
    """(dotted key, value, field) of every leaf of a tree of dataclasses."""
    for item in fields(config):
        value = getattr(config, item.name)
        key = prefix + item.name
        if is_dataclass(value):
            yield from leaves(value, key + ".")
        else:
            yield key, value, item


def flatten(config: Any) -> dict[str, Any]:
    """{"model.hidden_size": 512, …} of a tree of dataclasses."""
    return {key: value for key, value, _ in leaves(config)}


def to_dict(config: Config) -> dict[str, Any]:
    """Nested plain containers, as saved beside a run and inside its checkpoints."""
    nested = OmegaConf.to_container(OmegaConf.structured(config))
    assert isinstance(nested, dict)
    return {str(key): value for key, value in nested.items()}


def to_yaml(config: Config) -> str:
    """The configuration as YAML, as it is written to a run's folder."""
    return OmegaConf.to_yaml(OmegaConf.structured(config))

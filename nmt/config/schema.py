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

    meaning: one phrase, with the unit. choices: the possible values of a text. above, minimum,
    maximum, below: bounds of a number (None is allowed where the type allows it); LARGEST without
    maximum and below. requires: {other key: its values} of the same dataclass, without which this
    key has no effect; `default` is then the value that changes nothing. paper: where it is from.
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

    kind: str = option("what is read", choices=("phrasebook", "files", "multi30k"))
    source: str = option("language code of the source side; the ending of its files")
    target: str = option("language code of the target side; the ending of its files")
    train: Any = option(
        "kind=files: PREFIX, a file of pairs, opus:CORPUS/VERSION, hub:OWNER/NAME, or a list of "
        "them (docs/guides/data.md); otherwise names of sets"
    )
    valid: Any = option(
        "the validation set, likewise; split = pairs of data.train that are held out"
    )
    test: Any = option("the test sets, likewise, each scored by itself; null = none")
    max_characters: int = option("training pairs with a longer side are dropped", above=0)
    max_length_ratio: float = option(
        "training pairs whose (longer + 10) / (shorter + 10) characters exceed this are dropped",
        minimum=0,
    )
    mono: Any = option(
        "FILE, or a list of them: text in the target language, one sentence a line, from which "
        "back-translation makes more training pairs (docs/guides/data.md); null = none",
        None,
        paper="Sennrich et al. 2016",
    )
    split_size: int = option(
        "pairs held out where data.valid or data.test is split; at most a twentieth of data.train",
        1000,
        above=0,
        maximum=10**6,
        requires=OWN_TEXT,
    )
    columns: Any = option(
        "tables: names of the two columns, or numbers from 1 without a header; more pairs of "
        "names for other tables; null = what is named after the languages, translation, or "
        "source and target, else what their text tells",
        None,
        requires=OWN_TEXT,
    )
    weights: list[float] | None = option(
        "how often each pair of each part of data.train is trained on in an epoch; null = once",
        None,
        requires=OWN_TEXT,
    )
    temperature: float | None = option(
        "data.weights such that parts have shares ∝ pairs^(1 / temperature), the largest once; "
        "null = once",
        None,
        minimum=1,
        maximum=100,
        requires=OWN_TEXT,
        paper="Arivazhagan et al. 2019",
    )
    origin_tags: bool = option(
        "sources of data.train begin with their origin: <tatoeba>", False, requires=OWN_TEXT
    )
    pair_tags: bool = option(
        "tags of several languages say both, <de2fr>, as M2M-100 and NLLB-200 are told them", False
    )
    encoding: str = option(
        "of plain files and tables: auto (UTF-8, or a guess, which is said), or a name such as "
        "cp1252 or shift_jis",
        "auto",
        requires=OWN_TEXT,
    )
    opus_url: str = option(
        "server of opus:, or a mirror of it", "https://object.pouta.csc.fi", requires=OWN_TEXT
    )
    audit_deviation: float = option(
        "nmt audit: standard deviations from usual lengths", 5.0, above=0, maximum=100
    )
    audit_examples: int = option("nmt audit: examples of each fault", 5, above=0, maximum=1000)


@dataclass
class TokenizerConfig:
    """One SentencePiece model for both languages, or one for each."""

    algorithm: str = option(
        "how pieces are learnt", choices=("unigram", "bpe"), paper="Kudo 2018; Sennrich et al. 2016"
    )
    vocabulary_size: int = option(
        "pieces of the vocabulary, 4 special ones and 256 bytes included", above=0, maximum=10**6
    )
    joint: bool = option("one vocabulary for both languages")
    byte_fallback: bool = option("an unseen character becomes its UTF-8 bytes instead of <unk>")
    character_coverage: float = option(
        "fraction of the characters of the text that get pieces of their own",
        minimum=0.98,
        maximum=1,
    )
    lowercase: bool = option("text is lower-cased first")
    max_pieces: int = option("training pairs with a longer side are dropped", above=0)
    protect: bool = option(
        "numbers, URLs, e-mails, codes, variables and emoji are copied "
        "(docs/guides/noisy-input.md)",
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
        "shape of the learning rate after the warm-up",
        choices=SCHEDULES,
        paper="inverse_sqrt: Vaswani et al. 2017 eq. 3",
    )
    warmup_steps: int | None = option(
        "updates of linear warm-up; null = 400; at most a quarter of a training whose schedule "
        "has an end",
        minimum=0,
    )
    final_lr_fraction: float = option(
        "schedule=cosine, linear: last learning rate as a fraction of the peak", minimum=0, below=1
    )
    algorithm: str = option(
        "muon: hidden matrices move by their orthogonalized momentum, all else by AdamW",
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
        "padded positions of a batch on its longer side; null: 1024, on a GPU 32768",
        above=0,
        maximum=10**8,
    )
    accumulate: int = option("batches per update, in each process", above=0)
    ordered_sum: bool = option(
        "several processes: gradients are added in the order of the batches, so that the result "
        "has the bits of one process; false: in the order of the fastest all-reduce"
    )
    label_smoothing: float = option(
        "probability that is spread over the vocabulary",
        minimum=0,
        below=1,
        paper="Szegedy et al. 2016 §7",
    )
    subword_sampling: float = option(
        "subword regularisation: α of unigram sampling, or the probability of dropping a BPE "
        "merge; 0 = off",
        minimum=0,
        below=1,
        paper="Kudo 2018; Provilkov et al. 2020",
    )
    max_steps: int | None = option("updates; null = no limit", above=0)
    max_epochs: float | None = option("passes over the training pairs; null = no limit", above=0)
    max_minutes: float | None = option(
        "minutes, turned into a number of updates once their speed is known; null = no limit",
        above=0,
    )
    validate_every: int = option("updates between two validations", above=0)
    validate_beam: int = option(
        "beam of the search over the validation set; 1 = greedy", above=0, maximum=1000
    )
    patience: int = option(
        "validations without a better score before the training stops; 0 = never", minimum=0
    )
    metric: str = option(
        "the score that decides which checkpoint is the best: loss, or a metric such as bleu, "
        "chrf or ter"
    )
    average_checkpoints: int = option(
        "last validation checkpoints (step-N.safetensors) that are kept, and averaged at the "
        "end; 0 = none",
        minimum=0,
    )
    save_minutes: float | None = option(
        "minutes between two saves of last.safetensors, besides those at validations; more where "
        "they would take 2 % of the time; null = none",
        above=0,
    )
    prune_checkpoints: bool = option(
        "after the end of a training that can never go on, previous, validated and "
        "step-N.safetensors and the state of the optimizer are deleted; false = they stay",
        True,
    )
    log_every: int = option("updates between two points of the training curves", above=0)
    log_sentences: int = option(
        "validation sentences whose translation and heatmap are logged", minimum=0
    )
    heatmap_layer: int = option("decoder layer of the heatmaps, from 0; negative: from the top")
    heatmap_all_heads: bool = option("also a heatmap of every head of that layer", False)
    compile: bool = option("train a Transformer through torch.compile", False)
    profile: int = option(
        "updates that are recorded in a PyTorch profile, in RUN/profile, after the first twelve; "
        "0 = none",
        0,
        minimum=0,
        maximum=1000,
    )
    overfit_batch: bool = option(
        "every update is made with the first batch: a model that does not learn it by heart has "
        "a fault",
        False,
    )
    guided_alignment: float = option(
        "weight of the loss by which one head of attention learns the links in PREFIX.align of "
        "each PREFIX of data.train; 0 = off",
        0.0,
        minimum=0,
        paper="Garg et al. 2019",
    )
    guided_alignment_tokenized: bool = option(
        "those links count the words that spaces separate; false: punctuation at their edges is "
        "split off",
        False,
    )
    r_drop: float = option(
        "R-Drop: each pair is read twice, with other dropout; weight α of the divergence of the "
        "two predictions of a token; 0 = off",
        0.0,
        minimum=0,
        paper="Liang et al. 2021 eq. 4",
    )
    noise_case: float = option(
        "probability that a source is in small letters", 0.0, minimum=0, below=1
    )
    noise_typos: float = option("probability that a source has typos", 0.0, minimum=0, below=1)
    noise_punctuation: float = option(
        "probability that a source loses its last mark", 0.0, minimum=0, below=1
    )
    noise_merge: float = option(
        "share of the pairs that are joined to lines of two to four", 0.0, minimum=0, below=1
    )
    noise_copy: float = option(
        "probability that a pair has something more to be copied", 0.0, minimum=0, below=1
    )
    noise_names: float = option(
        "probability that a pair has an invented name", 0.0, minimum=0, below=1
    )
    noise_plain: float = option(
        "probability that a pair has no placeholders", 0.0, minimum=0, maximum=1
    )
    replay: float = option(
        "from=RUN: share of the training text that is old text of RUN, in bytes",
        0.0,
        minimum=0,
        below=1,
    )
    rehearsal: float = option(
        "from=RUN: weight of the divergence from RUN on random pieces; for a run whose old text "
        "is not known; 0 = off",
        0.0,
        minimum=0,
        paper="Robins 1995",
    )
    rehearsal_pieces: int = option(
        "only the first so many pieces, and languages with a tag among them, so that a new "
        "language is not held back; 0 = all",
        0,
        minimum=0,
    )


@dataclass
class DecodeConfig:
    """Beam search and its limits."""

    beam: int = option("hypotheses kept for each sentence; 1 = greedy", above=0, maximum=1000)
    length_penalty: float = option(
        "α in log-probability / length^α", minimum=-10, maximum=10, paper="Wu et al. 2016 §7"
    )
    max_length_ratio: float = option(
        "a hypothesis has at most max_length_ratio × source pieces + max_length_extra pieces",
        minimum=0,
        maximum=100,
    )
    max_length_extra: int = option("see max_length_ratio", above=0, maximum=10_000)
    batch_tokens: int | None = option(
        "source positions × beam in a batch; null: by device", above=0, maximum=10**8
    )
    avoid_loops: bool = option(
        "no span is repeated more often than twice, or than one of the source is", True
    )
    early_stopping: bool = option(
        "a sentence is done when `beam` hypotheses have ended; false: and no open one has a "
        "better score than these",
        True,
    )


@dataclass(kw_only=True)
class Config:
    """Everything that one run is made from."""

    name: str = option("name of the run")
    from_run: str | None = option(
        "from=RUN: the trained run whose model is trained further with its pieces; null = none",
        None,
    )
    seed: int = option(
        "seed of weights, order of batches, dropout and sampling", minimum=0, below=2**63
    )
    precision: str = option(
        "number format of matrix products; auto = bf16 where it is faster (a CPU is timed)",
        choices=("auto", "fp32", "bf16"),
    )
    device: str = option(
        "where to compute: auto, cpu, cuda, cuda:1 …; auto = cuda where there is one"
    )
    data_folder: str = option("folder of downloads and of what is built from them")
    run_folder: str = option("folder of the runs")
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

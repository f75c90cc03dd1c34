"""The systems of a comparison: every run is loaded once before any work, and only its description is kept."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.runs import run as runs
from nmt.config.schema import Config
from nmt.errors import UserError
from nmt.runs.folders import find_checkpoints
from nmt.runs.run import Run
from nmt.training import checkpoint
from nmt.training.state import TrainState

NONE = "–"  # in a cell of a table


@dataclass
class Training:
    """The cost of a training, resumptions included, as last.safetensors has it."""

    updates: int
    seconds: float
    tokens: int | None  # of targets
    finished: bool
    device: str

    @property
    def speed(self) -> float | None:
        """Target tokens a second, validation included."""
        return self.tokens / self.seconds if self.tokens and self.seconds else None


@dataclass
class System:
    """A run, or an ensemble of runs, without its weights."""

    name: str
    paths: list[Path]
    config: Config  # the first member's
    provenance: dict[str, Any]
    vocabulary: str  # a hash of the target tokenizer
    parameters: int
    trainings: list[Training | None]  # of each member

    @property
    def corpus_hashes(self) -> set[str]:
        """The hashes of the corpora that its members were trained on."""
        return {member["corpus_hash"] for member in self.provenance["models"]}

    @property
    def training(self) -> Training | None:
        """The training of a single run; None for an ensemble."""
        return self.trainings[0] if len(self.trainings) == 1 else None

    @property
    def unfinished(self) -> bool:
        """Whether the training of any member has not ended."""
        return any(training is not None and not training.finished for training in self.trainings)

    @property
    def label(self) -> str:
        """The name in tables, with a mark if the training has not ended."""
        return f"{self.name} (unfinished)" if self.unfinished else self.name

    def attention_labels(self) -> list[str]:
        """When it attends (of a Transformer: layers and heads), score and window of its attention."""
        if len(self.paths) > 1:
            return [f"ensemble of {len(self.paths)}", NONE, NONE]
        return self.config.model.attention_labels()

    def architecture_labels(self) -> list[str]:
        """Architecture, number of layers and hidden size; dashes for an ensemble."""
        return [NONE] * 3 if len(self.paths) > 1 else self.config.model.architecture_labels()


def open_systems(names: Sequence[str], runs_folder: Path, beam: int | None, own_text: bool) -> list[System]:
    """All systems that are compared, each checked by itself and against the others; raises UserError.

    own_text: they are scored on given files, so that they may have been trained on different corpora.
    """
    systems = [open_system(name, runs_folder, beam) for name in names]
    resolved = [[path.resolve() for path in system.paths] for system in systems]
    for paths, system in zip(resolved, systems, strict=True):
        if resolved.count(paths) > 1:
            raise UserError(f"The run {system.name} is given twice; name each run once.")
    run_names = [system.name for system in systems]
    for name, system in zip(names, systems, strict=True):
        if run_names.count(system.name) > 1:  # runs of one name in two folders
            system.name = name
    check_comparable(systems, own_text)
    return systems


def open_system(name: str, runs_folder: Path, beam: int | None) -> System:
    """The system of RUN or RUN,RUN; raises UserError when it cannot be loaded."""
    paths = find_checkpoints(name, runs_folder)
    run = runs.load(paths, beam)
    return System(
        name="+".join(short_name(path) for path in paths),
        paths=paths,
        config=run.config,
        provenance=run.provenance,
        vocabulary=hashlib.sha256(run.translator.tokenizers.target.model).hexdigest(),
        parameters=sum(weight.numel() for weight in run.translator.model.parameters()),
        trainings=[read_training(path) for path in paths],
    )


def load_system(system: System, beam: int | None) -> Run:
    """The run or ensemble with its weights."""
    return runs.load(system.paths, beam)


def short_name(path: Path) -> str:
    """The name of a checkpoint's run, with the file name unless that is best.safetensors."""
    folder = path.absolute().parent.name
    return folder if path.name == "best.safetensors" else f"{folder}/{path.name}"


def read_training(path: Path) -> Training | None:
    """The training that last.safetensors beside a checkpoint records; None if there is no such file."""
    last = path.with_name("last.safetensors")
    if not last.exists():
        return None
    payload = checkpoint.load(last, with_tensors=False)
    state = TrainState.from_dict(payload.get("train_state", {}))
    return Training(state.step, state.seconds, state.tokens or None, state.finished, state.device)


def check_comparable(systems: list[System], own_text: bool) -> None:
    """Raise UserError unless all systems translate the same languages and, without own text, have one corpus."""
    first = systems[0]
    languages = [f"{system.config.data.source}-{system.config.data.target}" for system in systems]
    for system, language in zip(systems, languages, strict=True):
        if language != languages[0]:
            raise UserError(
                f"{first.name} translates {languages[0]} and {system.name} translates {language}; compare runs of the "
                "same languages."
            )
    corpora = [corpus_hash for system in systems for corpus_hash in sorted(system.corpus_hashes)]
    if not own_text and len(set(corpora)) > 1:
        other = next(system for system in systems if system.corpus_hashes != {corpora[0]})
        raise UserError(
            f"{other.name} was trained on another corpus ({sorted(other.corpus_hashes)[0][:10]}) than {first.name} "
            f"({corpora[0][:10]}); give --source and --reference to compare them on text of your own."
        )

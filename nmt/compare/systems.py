"""Who is compared: every run is loaded once before any work is done, and only what describes it is kept."""

import argparse
import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nmt import runs
from nmt.config import Config
from nmt.errors import UserError
from nmt.runs import Run
from nmt.train import checkpoint
from nmt.train.state import TrainState


@dataclass
class Training:
    """What last.pt tells of a training, over all its lives."""

    updates: int
    seconds: float
    tokens: int | None  # of targets; None where an older version did not count them
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
    made: dict[str, Any]
    vocabulary: str  # names the target tokenizer
    parameters: int
    trainings: list[Training | None]  # of each member

    @property
    def corpora(self) -> set[str]:
        """The hashes of what it was trained on."""
        return {member["corpus_hash"] for member in self.made["models"]}

    @property
    def training(self) -> Training | None:
        """That of a single run."""
        return self.trainings[0] if len(self.trainings) == 1 else None

    @property
    def unfinished(self) -> bool:
        """Whether a training it comes from has not ended."""
        return any(training is not None and not training.finished for training in self.trainings)

    @property
    def shown(self) -> str:
        """The name in tables."""
        return f"{self.name} (unfinished)" if self.unfinished else self.name


def open_systems(options: argparse.Namespace) -> list[System]:
    """All that was named, checked by itself and against the others; raises UserError."""
    entrants = [enter(name, options) for name in options.names]
    places = [[path.resolve() for path in one.paths] for one in entrants]
    for place, one in zip(places, entrants, strict=True):
        if places.count(place) > 1:
            raise UserError(f"The run {one.name} is given twice; name each run once.")
    names = [one.name for one in entrants]
    for given, one in zip(options.names, entrants, strict=True):
        if names.count(one.name) > 1:  # runs of one name in two folders
            one.name = given
    check_together(entrants, own_text=bool(options.source))
    return entrants


def enter(name: str, options: argparse.Namespace) -> System:
    """One RUN or RUN,RUN; raises UserError when it cannot be loaded."""
    paths = runs.find_checkpoints(name, Path(options.runs))
    run = runs.load(paths, options.beam)
    return System(
        name="+".join(short(path) for path in paths),
        paths=paths,
        config=run.config,
        made=run.provenance,
        vocabulary=hashlib.sha256(run.translator.tokenizers.target.model).hexdigest(),
        parameters=sum(weight.numel() for weight in run.translator.model.parameters()),
        trainings=[training(path) for path in paths],
    )


def reopen(entrant: System, options: argparse.Namespace) -> Run:
    """The run with its weights."""
    return runs.load(entrant.paths, options.beam)


def short(path: Path) -> str:
    """The run's name, with the file's where it is not the best."""
    folder = path.absolute().parent.name
    return folder if path.name == "best.pt" else f"{folder}/{path.name}"


def training(path: Path) -> Training | None:
    """What the last.pt beside a checkpoint tells; None where a checkpoint was carried away alone."""
    last = path.with_name("last.pt")
    if not last.exists():
        return None
    payload = checkpoint.load(last, mapped=True)  # not its weights and their moments
    place = asdict(TrainState()) | payload.get("place", {})
    device = "cuda" if "cuda" in payload.get("random", {}) else "cpu"
    return Training(place["step"], place["seconds"], place["tokens"] or None, place["finished"], device)


def check_together(entrants: list[System], own_text: bool) -> None:
    """Runs are compared on one text between the same languages; raises UserError."""
    first = entrants[0]
    for other in entrants[1:]:
        sides = [(one.config.data.source, one.config.data.target) for one in (first, other)]
        if sides[0] != sides[1]:
            told = [
                f"{one.name} translates {source}-{target}"
                for one, (source, target) in zip((first, other), sides, strict=True)
            ]
            raise UserError(f"{' and '.join(told)}; compare runs of the same languages.")
    corpora = [corpus for one in entrants for corpus in sorted(one.corpora)]
    if not own_text and len(set(corpora)) > 1:
        other = next(one for one in entrants if one.corpora != {corpora[0]})
        raise UserError(
            f"{other.name} was trained on another corpus ({sorted(other.corpora)[0][:10]}) than {first.name} "
            f"({corpora[0][:10]}); give --source and --reference to compare them on text of your own."
        )

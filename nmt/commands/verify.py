"""nmt verify: whether the files of a run are as they were written."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from nmt.errors import UserError, is_printable
from nmt.evaluate import calibration
from nmt.runs.folders import find_checkpoint
from nmt.runs.results import damaged_files, digest_or_empty, read_json
from nmt.training import tensor_file

STATES = {True: "ok", False: "damaged"}


def run(options: argparse.Namespace) -> int:
    """Print FILE<TAB>ok or FILE<TAB>damaged for each file of the run that a command reads; raises UserError."""
    folder = find_folder(options.name, Path(options.runs))
    states = dict(check_files(folder))
    for name, sound in states.items():
        print(f"{name if is_printable(name) else ascii(name)}\t{STATES[sound]}")
    if damaged := [name for name, sound in states.items() if not sound]:
        raise UserError(
            f"{len(damaged)} of {len(states)} files of {folder} are damaged: {', '.join(damaged)}; copy them from a "
            "backup, or delete them: the training continues from the checkpoints that are left, results and exports "
            "are made again."
        )
    return 0


def find_folder(name: str, root: Path) -> Path:
    """The folder of RUN, also of one that has no best checkpoint yet; raises UserError."""
    for folder in (Path(name), root / name):
        if any(folder.glob("*.safetensors")):
            return folder
    return find_checkpoint(name, root).parent


def check_files(folder: Path) -> Iterator[tuple[str, bool]]:
    """The files that commands read, by their names in the folder, and whether each is as it was written."""
    for path in sorted(folder.glob("*.safetensors")):
        if not path.stem.endswith(".damaged"):  # one that a training has set aside
            yield path.name, is_sound(path)
    for name in ("tensorboard.json", "compositional_gap.json", calibration.FILE):
        if (path := folder / "evaluate" / name).exists():
            yield f"evaluate/{name}", read_json(path) is not None
    for path in sorted(folder.glob("evaluate/*/result.json")):
        result = read_json(path)
        yield path.relative_to(folder).as_posix(), result is not None
        if result is not None:
            hyp = path.with_name("hyp")
            yield (
                hyp.relative_to(folder).as_posix(),
                digest_or_empty(hyp) == result.get("sha256_of_hyp"),
            )
    for path in sorted(folder.glob("export/*/")):
        damaged = damaged_files(path)
        names = {*(each.name for each in path.iterdir()), *damaged}
        yield from ((f"export/{path.name}/{name}", name not in damaged) for name in sorted(names))


def is_sound(path: Path) -> bool:
    """Whether a checkpoint has the right checksum."""
    try:
        return tensor_file.has_right_checksum(path)
    except OSError:
        return False

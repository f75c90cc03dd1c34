"""nmt verify: whether the files of a run are as they were written."""

import argparse
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from nmt.corpus.checksums import damaged_files, has_digest, read_json
from nmt.errors import UserError, is_printable
from nmt.evaluate import calibration, estimate, verdict
from nmt.runs.folders import find_checkpoint
from nmt.runs.versions import RECORD, version_folder, version_numbers, version_of
from nmt.training.checkpoint import has_right_checksum


def run(options: argparse.Namespace) -> int:
    """Print FILE<TAB>ok or FILE<TAB>damaged for each file of the run that a command reads.

    Raises UserError where one is damaged.
    """
    folders = [Path(options.name), Path(options.runs, options.name)]
    folders = [path for path in folders if any(path.glob("*.safetensors"))]
    if folders:
        folder = folders[0]  # it may lack best.safetensors
    else:
        checkpoint = find_checkpoint(options.name, Path(options.runs))
        folder = checkpoint.parent
        if options.name == "latest":  # the whole run, not only its current version
            folder, _ = version_of(folder)
    states = dict(check_files(folder))
    for number in version_numbers(folder)[1:]:
        version = version_folder(folder, number)
        for name, is_sound in check_files(version):
            states[str(version.relative_to(folder) / name)] = is_sound
    for name, is_sound in states.items():
        shown = name if is_printable(name) else ascii(name)
        print(f"{shown}\t{'ok' if is_sound else 'damaged'}")
    damaged = [name for name, is_sound in states.items() if not is_sound]
    if damaged:
        raise UserError(
            f"{len(damaged)} of {len(states)} files of {folder} are damaged: {', '.join(damaged)}; "
            "copy them from a backup, or delete them: the training continues from the checkpoints "
            "that are left, results and exports are made again."
        )
    return 0


def check_files(folder: Path) -> Iterator[tuple[str, bool]]:
    """The files that commands read, by their names, and whether each is as it was written."""
    for path in sorted(folder.glob("*.safetensors")):
        if not path.stem.endswith(".damaged"):  # one that a training has set aside
            is_sound = False
            with suppress(OSError):
                is_sound = has_right_checksum(path)
            yield path.name, is_sound
    for file in (calibration.FILE, estimate.FILE, verdict.FILE, Path(RECORD)):
        if (folder / file).exists():
            yield str(file), read_json(folder / file) is not None
    for path in sorted(folder.glob("evaluate/*/result.json")):
        result = read_json(path)
        name = f"evaluate/{path.parent.name}"
        yield f"{name}/result.json", result is not None
        if result is not None:
            yield f"{name}/hyp", has_digest(path.with_name("hyp"), result.get("sha256_of_hyp"))
    for path in sorted(folder.glob("export/*/")):
        damaged = damaged_files(path)
        for name in sorted({*(each.name for each in path.iterdir()), *damaged}):
            yield f"export/{path.name}/{name}", name not in damaged

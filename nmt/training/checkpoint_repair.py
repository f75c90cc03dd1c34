"""What is done about damaged checkpoints in a run's folder.

A damaged file is set aside as NAME.damaged.safetensors, with a warning. last: the training continues from previous, and
ends with the same bits. step-N: the average is that of the others. best: the best of average and step-N takes its
place; where none of them reaches the lost score, a warning says so, and later validations are compared with what is
there.
"""

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

from nmt.errors import UserError
from nmt.training import checkpoint
from nmt.training.checkpoint import DamagedCheckpoint, Payload

log = logging.getLogger("nmt")


def newest_sound(last: Path, previous: Path, best: Path) -> tuple[Path | None, Payload]:
    """The first of `last` and `previous` that exists and is sound, with its content; (None, {}) if neither exists.

    Raises UserError if none is sound, with what the user can do.
    """
    existing = [path for path in (last, previous) if path.exists()]
    for path in existing:
        try:
            return path, checkpoint.load(path)
        except DamagedCheckpoint as error:
            log.info("%s", error)
    if not existing:
        return None, {}
    damaged = " and ".join(str(path) for path in existing)
    translates = f"; {best} still translates" if best.exists() else ""
    raise UserError(
        f"{damaged} {'are' if len(existing) > 1 else 'is'} damaged or cut short, so that the training cannot be "
        f"continued: put back a copy, or delete to train from the start{translates}."
    )


def set_aside(path: Path) -> Path:
    """Rename a damaged NAME.safetensors to NAME.damaged.safetensors, which is returned. Raises UserError."""
    aside = path.with_name(f"{path.stem}.damaged.safetensors")
    try:
        path.replace(aside)
    except OSError as error:
        raise UserError(f"{path} is damaged and cannot be renamed: {error.strerror or error}.") from None
    return aside


def is_sound(path: Path) -> bool:
    """Whether a checkpoint exists and has the right checksum."""
    try:
        checkpoint.load(path, with_tensors=False)
    except DamagedCheckpoint:
        return False
    return True


def sound(paths: Iterable[Path], consequence: str) -> list[Path]:
    """Those of existing checkpoints that are sound; a damaged one is set aside, and `consequence` is said with it."""
    kept = []
    for path in paths:
        if is_sound(path):
            kept.append(path)
        else:
            log.warning("%s is damaged or cut short, now %s. %s", path, set_aside(path).name, consequence)
    return kept


def replace_damaged_best(best: Path, others: Sequence[Path], score: float, metric: str) -> float | None:
    """Put the best of `others` in the place of a damaged or missing `best`; returns the best score from now on.

    score: the best validation score so far. None is returned, with a warning, if nothing can take its place.
    """
    if readable(best):
        return score
    fate = f"damaged, now {set_aside(best).name}" if best.exists() else "missing"
    scores = {path: checkpoint.load(path, with_tensors=False)["valid"][metric] for path in others if readable(path)}
    sign = 1 if metric == "bleu" else -1
    if not scores:
        log.warning("%s is %s, and no other checkpoint can take its place; the next validation writes one.", best, fate)
        return None
    chosen = max(scores, key=lambda path: sign * scores[path])
    checkpoint.save(best, checkpoint.load(chosen))
    if sign * scores[chosen] >= sign * score:
        log.warning("%s is %s; %s has the same validation score and takes its place.", best, fate, chosen.name)
        return score
    log.warning(
        "%s is %s; %s takes its place, with a worse validation %s: %.4g instead of %.4g.",
        best, fate, chosen.name, metric, scores[chosen], score,
    )  # fmt: skip
    return scores[chosen]


def readable(path: Path) -> bool:
    """Whether a checkpoint exists and is sound."""
    return path.exists() and is_sound(path)

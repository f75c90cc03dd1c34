"""How far a model's attention agrees with known links: one figure a run, read off in one way for all its sets."""

import argparse
import logging
from typing import NamedTuple

from nmt.errors import UserError
from nmt.evaluate.alignment import Link, aer
from nmt.runs import Run
from nmt.verbs import look_at
from nmt.verbs.compare.texts import Texts, TextSet
from nmt.verbs.gold import Choice, drawn_links

log = logging.getLogger("nmt")
PAIRS = 250  # of the validation set, enough to choose a layer and a row


class Alignment(NamedTuple):
    """Alignment error rate, precision, recall, and what was read off."""

    aer: float
    precision: float
    recall: float
    chosen: str


def alignment_error(run: Run, texts: Texts) -> dict[str, Alignment]:
    """By the name of each set that has links: one link a target word by argmax, under forced decoding.

    Layer and row are those with the lowest error on the validation set, so that nothing is chosen on what is reported.
    Without links there, the layer of the run's pictures, and the row by Luong et al. (2015), footnote 14. A model
    without attention has no entry, nor has a set with a pair too long to look at.
    """
    wanted = [one for one in texts.sets if one.gold]
    if not wanted or not run.translator.model.attends:
        return {}
    found = {}
    try:
        choice, told = choose(run, texts.valid, wanted[0].pairs[0])
    except UserError as error:
        log.warning("valid: %s The alignment error rate is left out.", error)
        return {}
    for one in wanted:
        try:
            scored = scores(run, one, len(one.pairs), choice)[choice]
        except UserError as error:
            log.warning("%s: %s The alignment error rate is left out.", one.name, error)
            continue
        found[one.name] = Alignment(*scored, chosen=f"layer {choice.layer}, row {choice.row}, {told}")
    return found


def choose(run: Run, valid: TextSet | None, pair: tuple[str, str]) -> tuple[Choice, str]:
    """What to read off, and how that was chosen; `pair` is any, to see how many layers there are."""
    if valid is None:
        content = getattr(run.config.model, "order", "") == "after" and run.config.model.score != "location"
        weights, layer = look_at(run.translator, *pair, 1).weights, run.config.train.picture_layer
        assert weights is not None
        layer = min(max(layer if layer >= 0 else len(weights) + layer, 0), len(weights) - 1)
        return Choice(layer, "reads" if content else "predicts"), "not chosen on validation links"
    count = min(PAIRS, len(valid.pairs))
    found = scores(run, valid, count, None)
    return min(found, key=lambda choice: (found[choice][0], choice)), f"chosen on {count} pairs of valid"


def scores(run: Run, one: TextSet, count: int, choice: Choice | None) -> dict[Choice, tuple[float, float, float]]:
    """AER, precision and recall of every choice, or of the layer of one, on the first `count` pairs."""
    assert one.gold is not None
    options = argparse.Namespace(layer=None if choice is None else choice.layer, head=None)
    links: dict[Choice, list[set[Link]]] = {}
    for number, (source, target) in enumerate(one.pairs[:count], 1):
        for drawn_by, drawn in drawn_links(options, run, source, target, number).items():
            links.setdefault(drawn_by, []).append(drawn)
    sure, possible = one.gold.sure[:count], one.gold.possible[:count]
    return {drawn_by: tuple(aer(drawn, sure, possible)) for drawn_by, drawn in links.items()}  # type: ignore[misc]

"""The options --layer, --head, --method and --decoder-step, which several commands have."""

import argparse

from nmt.alignments.extraction import Extractor
from nmt.errors import UserError
from nmt.runs import Run


def check_method(options: argparse.Namespace) -> None:
    """Raise UserError for a layer or head together with a method that goes through all of them."""
    given = options.layer is not None or options.head is not None or getattr(options, "heads", False)
    if options.method == "rollout" and given:
        raise UserError(
            "--method rollout goes through all layers and heads; --layer, --head and --heads cannot go with it."
        )


def make_extractor(options: argparse.Namespace, run: Run) -> Extractor:
    """The extractor of the options; raises UserError for a layer, head or rollout that the run does not have."""
    return run.make_extractor(options.layer, options.head, options.decoder_step, options.method)

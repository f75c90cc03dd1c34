"""nmt suggest: what `model=auto tokenizer=auto` would choose, and why."""

import argparse

from nmt.config.compose import compose_all
from nmt.runs import pipeline
from nmt.runs.fine_tuning import parent_of


def run(options: argparse.Namespace) -> int:
    """Print KEY=VALUE and the reason for each value that the corpus and the time decide; raises UserError."""
    for config in compose_all(options.overrides, options.multirun, open_run=parent_of):
        for suggestion in pipeline.suggestions(config):
            print(f"{suggestion.word}\t{suggestion.reason}")
    return 0

"""nmt suggest: what `model=auto tokenizer=auto` would choose, and why."""

import argparse

from nmt import compose, pipeline


def run(options: argparse.Namespace) -> int:
    """Print KEY=VALUE and the reason for each value that the corpus and the time decide; raises UserError."""
    for config in compose.compose_all(options.overrides, options.multirun):
        for suggestion in pipeline.suggestions(config):
            print(f"{suggestion.word}\t{suggestion.reason}")
    return 0

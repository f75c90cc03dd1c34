"""nmt download, tokenize, train, suggest: what is done for a configuration that is composed from
KEY=VALUE."""

import argparse
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.config.keys import check_words
from nmt.errors import Stopped, UserError
from nmt.evaluate.verdict import read_verdict
from nmt.view.text import visible

if TYPE_CHECKING:
    from nmt.config.schema import Config

log = logging.getLogger("nmt")


def run(options: argparse.Namespace) -> int:
    """Run the command for one configuration, or with -m for each; print the scores of test sets.

    Below the scores stands what the run is fit for, among the messages.
    """
    check_words(options.overrides)  # before PyTorch is imported, which takes seconds
    from nmt.commands.interface import compose, with_imported
    from nmt.commands.output import print_results
    from nmt.config.compose import compose_all
    from nmt.runs import pipeline
    from nmt.runs.folders import run_folder
    from nmt.runs.stages import parent_of
    from nmt.training.distributed import world

    # KEY=VALUE and the reason for what the corpus and the time decide
    if options.command == "suggest":
        given = [word.partition("=")[0] for word in options.overrides]
        for config in compose_all(
            with_imported(options.overrides), options.multirun, open_run=parent_of
        ):
            for suggestion in pipeline.suggestions(config, given):
                print(f"{suggestion.word}\t{suggestion.reason}")
            suggest_pretrained(config)
        return 0
    # before any is run
    configs = compose(options.overrides, options.multirun, options.command == "train")
    codes = []
    for config in configs:
        try:
            results = getattr(pipeline, options.command)(config) or []
            print_results(results, config.name if options.multirun else "")
            if options.command == "train" and world().is_main:
                verdict = read_verdict(run_folder(config))
                if verdict:
                    log.info("%s: %s", config.name, verdict.sentence)
            codes.append(0)
        except UserError as error:
            # others may not have failed
            if len(configs) == 1 or isinstance(error, Stopped) or world().size > 1:
                raise
            print(f"nmt: {config.name}: {visible(str(error))}", file=sys.stderr)
            codes.append(2)
    return max(codes)


def suggest_pretrained(config: "Config") -> None:
    """Say from which pretrained models that are on this computer a training could start."""
    from nmt.commands.pretrained import possible_starts

    data = config.data
    if data.kind != "files" or config.from_run:
        return
    for name in possible_starts(data.source, data.target, Path(config.run_folder)):
        languages = f"data.source={data.source} data.target={data.target}"
        log.info(
            "A training that starts from %s, which is on this computer, is likely to be better: "
            "nmt train from=%s %s data.train=%s",
            name,
            name,
            languages,
            data.train,
        )

"""nmt evaluate: BLEU and chrF of test sets, and the alignment error rate where there are gold links."""

import argparse
import logging
from random import Random

from nmt.commands import open_run
from nmt.commands.scoring_options import check_scoring_options, chosen_sets, valid_gold
from nmt.data.augmentation import FINAL, add_typos
from nmt.data.files import refuse_links, report_write_errors, write_atomic
from nmt.errors import UserError
from nmt.evaluate.odd_lines import odd_report, read_odd_lines
from nmt.runs.results import Result
from nmt.runs.run import Run
from nmt.runs.scoring import calibrate, make_layer_selector, score_set, score_sets
from nmt.runs.test_sets import TestSet, validation_gold
from nmt.view.text import visible

log = logging.getLogger("nmt")
SEED = 1
NOISE = ("capitals", "small", "typos", "punctuation")
KINDS = (*NOISE[:3], "noised")  # noised: one of NOISE, line by line


def run(options: argparse.Namespace) -> int:
    """Print one line of scores for each test set."""
    check_scoring_options(options)
    if options.odd and (options.source or options.split or options.noised or options.gold or options.valid_gold):
        raise UserError("--odd scores a list of lines of its own; it goes with no other option of scoring.")
    run = open_run(options)
    if options.odd:
        lines = read_odd_lines()
        translations = [each.text for each in run.translator.translate(line.text for line in lines)]
        for row in odd_report(lines, translations):
            print("\t".join(map(visible, row.split("\t"))))
        return 0
    test_sets = chosen_sets(options, options.name, run)
    valid = valid_gold(options, test_sets)
    if options.gold and not run.translator.model.has_attention:
        log.warning("The model of %s has no attention; --gold has no effect on it.", options.name)
    if not options.source:
        run = calibrate(run, test_sets[0].source.parent)
    aligned = any(test_set.gold for test_set in test_sets)
    selector = make_layer_selector(run, valid or validation_gold(run)) if aligned else None
    results = score_sets(run, test_sets, selector, options.metrics)
    for test_set in test_sets if options.noised else []:
        results += score_noised(run, test_set)
    for result in results:
        print(result.line())
    return 0


def score_noised(run: Run, test_set: TestSet) -> list[Result]:
    """The scores of a test set whose sources are in capitals (so are the references), in small letters, and so on."""
    results, folder = [], run.folder / "evaluate" / "noised"
    for kind in KINDS:
        paths = [folder / f"{test_set.name}-{kind}.{side}" for side in ("source", "reference")]
        refuse_links(folder.parent, folder, *paths)
        generator = Random(SEED)
        pairs = [noise(*pair, kind, generator) for pair in test_set.pairs]
        with report_write_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            for path, lines in zip(paths, zip(*pairs, strict=True), strict=True):
                write_atomic(path, "".join(f"{line}\n" for line in lines))
        results.append(score_set(run, TestSet(f"{test_set.name}-{kind}", paths[0], paths[1:])))
    return results


def noise(source: str, target: str, kind: str, generator: Random) -> tuple[str, str]:
    """A pair with noise of one of KINDS."""
    match generator.choice(NOISE) if kind == "noised" else kind:
        case "capitals":
            return source.upper(), target.upper()
        case "small":
            return source.lower(), target
        case "typos":
            return add_typos(source, generator), target
        case _:
            return FINAL.sub("", source), target

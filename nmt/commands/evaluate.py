"""nmt evaluate: BLEU and chrF of test sets, and the alignment error rate with gold links."""

import argparse
import logging
from collections.abc import Sequence
from pathlib import Path
from random import Random

from nmt.commands import check_given, open_run
from nmt.commands.output import print_results
from nmt.corpus.checks import SAMPLE
from nmt.corpus.corpus_folder import read_report
from nmt.corpus.files import refuse_links
from nmt.corpus.inspect.language import describe_languages
from nmt.corpus.language_pairs import is_multilingual
from nmt.corpus.packed import PackedFile, without_packing
from nmt.corpus.parallel_text import read_pairs, refuse_other_format
from nmt.data.augmentation import FINAL, add_typos
from nmt.errors import UserError
from nmt.evaluate.aer import GoldAlignments, read_gold_alignments
from nmt.runs.results import Result
from nmt.runs.run import Run
from nmt.runs.scoring import (
    TestSet,
    calibrate,
    corpus_of,
    make_layer_selector,
    score_set,
    score_sets,
    sets_of_split,
    warn_of_size,
    write_set,
)

log = logging.getLogger("nmt")
SEED = 1
NOISE = ("capitals", "small", "typos", "punctuation")
KINDS = (*NOISE[:3], "noised")  # noised: one of NOISE, line by line
# Of the options that say what is scored and which gold links are used, in `nmt compare` as well
NEEDS = {
    "--source": "--reference",
    "--reference": "--source",
    "--gold": "--source",
    # how links are written
    **dict.fromkeys(("--base", "--reverse", "--tokenized"), "--gold"),
}
NOT_WITH = {"--source": "--split"}


def run(options: argparse.Namespace) -> int:
    """Print one line of scores for each test set."""
    check_given(options, NEEDS, NOT_WITH)
    run = open_run(options)
    test_sets = chosen_sets(options, options.name, run)
    if options.noised and any(len(test_set.references) > 1 for test_set in test_sets):
        raise UserError("--noised takes one --reference: a noised set has one alone.")
    for test_set in test_sets:
        warn_of_size(test_set.name, len(test_set.pairs))
    if options.gold and not run.translator.model.has_attention:
        log.warning("The model of %s has no attention; --gold has no effect on it.", options.name)
    if not options.source:
        run = calibrate(run, test_sets[0].source.parent)
    selector = None
    if any(test_set.gold for test_set in test_sets):
        selector = make_layer_selector(run)
    results = score_sets(run, test_sets, selector, options.metrics)
    if options.noised:
        for test_set in test_sets:
            results += score_noised(run, test_set, options.metrics)
    print_results(results)
    return 0


def chosen_sets(options: argparse.Namespace, name: str, run: Run) -> list[TestSet]:
    """The given files, or the sets of the run's corpus that --split selects; raises UserError."""
    if not options.source:
        return sets_of_split(options.split, name, run)
    source = Path(options.source)
    references = list(map(Path, options.reference))
    for path in (source, *references):
        refuse_other_format(PackedFile(path))
    gold = read_gold(options, source, references[0]) if options.gold else None
    # bytes that are not UTF-8 become ?
    name = without_packing(source).name.encode(errors="replace").decode()
    corpus = corpus_of(run)
    sets = read_report(corpus)["sets"] if corpus else []
    if name in ("test", "valid", *sets):  # whose results are kept under that name
        name = f"file-{name}"
    test_set = TestSet(name, source, references, gold)
    data = run.config.data
    if not is_multilingual(data):
        problem = describe_languages(test_set.pairs[:SAMPLE], (data.source, data.target))
        if problem:
            log.warning("%s: %s.", name, problem)
    return [test_set]


def read_gold(options: argparse.Namespace, source: Path, target: Path) -> GoldAlignments:
    """Pairs with gold links as --base, --reverse and --tokenized describe; raises UserError."""
    pairs = list(read_pairs(source, target))
    return read_gold_alignments(
        Path(options.gold), pairs, options.base, options.reverse, options.tokenized
    )


def score_noised(run: Run, test_set: TestSet, metrics: Sequence[str]) -> list[Result]:
    """The scores of a test set with its sources in capitals, in small letters, and so on."""
    results = []
    folder = run.folder / "evaluate" / "noised"
    refuse_links(folder.parent, folder, *folder.glob("*"))
    for kind in KINDS:
        generator = Random(SEED)
        pairs = [noise(*pair, kind, generator) for pair in test_set.pairs]
        noised = write_set(f"{test_set.name}-{kind}", folder, pairs)
        results.append(score_set(run, noised, metrics=metrics))
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

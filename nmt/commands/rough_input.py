"""nmt evaluate --odd and --noised: how a run translates what is not like its corpus."""

from random import Random

from nmt.data.augmentation import FINAL, add_typos
from nmt.data.files import refuse_links, report_write_errors, write_atomic
from nmt.evaluate.odd_lines import OddResult, odd_report, read_odd_lines
from nmt.runs.results import Result
from nmt.runs.run import Run
from nmt.runs.scoring import score_set
from nmt.runs.test_sets import TestSet
from nmt.view.text import visible

SEED = 1
Pair = tuple[str, str]
KINDS = ("capitals", "small", "typos", "noised")  # noised: one of the three or no last mark, line by line


def print_odd_lines(run: Run) -> None:
    """Translate the list of odd lines; print the counts of each kind, then the lines that failed."""
    lines = read_odd_lines()
    translations = run.translator.translate(line.text for line in lines)
    results = [OddResult(line, each.text) for line, each in zip(lines, translations, strict=True)]
    for row in odd_report(results):
        print("\t".join(visible(cell) for cell in row.split("\t")))


def score_noised(run: Run, test_set: TestSet) -> list[Result]:
    """The scores of a test set whose sources are in capitals (so are the references), in small letters, and so on."""
    results, folder = [], run.folder / "evaluate" / "noised"
    for kind in KINDS:
        paths = folder / f"{test_set.name}-{kind}.source", folder / f"{test_set.name}-{kind}.reference"
        refuse_links(folder.parent, folder, *paths)
        with report_write_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            for path, lines in zip(paths, zip(*noise(test_set.pairs, kind), strict=True), strict=True):
                write_atomic(path, "".join(f"{line}\n" for line in lines))
        results.append(score_set(run, TestSet(f"{test_set.name}-{kind}", paths[0], [paths[1]])))
    return results


def noise(pairs: list[Pair], kind: str) -> list[Pair]:
    """The pairs with noise of one of KINDS; the same in every run."""
    generator = Random(SEED)
    return [change(*pair, kind, generator) for pair in pairs]


def change(source: str, target: str, kind: str, generator: Random) -> Pair:
    """One pair with noise."""
    if kind == "noised":
        kind = generator.choice(["capitals", "small", "typos", "punctuation"])
    match kind:
        case "capitals":
            return source.upper(), target.upper()
        case "small":
            return source.lower(), target
        case "typos":
            return add_typos(source, generator), target
        case _:
            return FINAL.sub("", source), target

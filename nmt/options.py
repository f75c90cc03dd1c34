"""Which words and options each verb takes. Nothing is imported here that takes time: `nmt --help` shall be instant."""

import argparse
import contextlib
import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from nmt.errors import UserError

Run = Callable[[argparse.Namespace], int]
COMPOSED = {
    "download": "get the corpus",
    "tokenize": "learn the tokenizer and store the pairs as ids",
    "train": "train a model and score it on the test sets",
}


def path(text: str) -> str:
    """A name; empty where a shell variable is unset."""
    if not text:
        raise argparse.ArgumentTypeError("an empty name is none")
    return text


FILE: dict[str, Any] = {"type": path, "metavar": "FILE"}
FOLDER: dict[str, Any] = {"type": path, "metavar": "FOLDER"}
DIR: dict[str, Any] = {"type": path, "metavar": "DIR"}


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence, like everything else here."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message[:1].upper()}{message[1:].rstrip('.')}; see {self.prog} --help.")


class VerbParser(Parser):
    """Takes options before, between and behind the words; argparse would lose the words behind an option."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        options, words, rest = [], [], iter(args)
        for word in rest:
            if word == "--":
                words += rest
            elif re.match(r"--?[A-Za-z]", word) and " " not in word.partition("=")[0]:
                action = self._option_string_actions.get(word)
                value = next(rest, None) if action is not None and action.nargs is None else None
                options.append(word if value is None else f"{word}={value}")  # so that -2,-1 may be a value
            else:
                words.append(word)
        return super().parse_known_args([*options, *(["--", *words] if words else [])], namespace)


def make_parser(run: Mapping[str, Run]) -> argparse.ArgumentParser:
    """The verbs and their options; `run` says what runs each of them."""
    whole = Parser(prog="nmt", description="Train a translator, and see where its attention looked.")
    verbs = whole.add_subparsers(required=True, metavar="VERB", parser_class=VerbParser)
    for verb, purpose in COMPOSED.items():
        one = verbs.add_parser(verb, help=purpose, description=purpose, allow_abbrev=False)
        one.add_argument(
            "overrides", nargs="*", metavar="KEY=VALUE", help="as in model=luong_local_p train.max_steps=500"
        )
        one.add_argument("-m", "--multirun", action="store_true", help="one run for each combination of KEY=A,B")
        one.set_defaults(run=run[verb], verb=verb)
    add_translate(
        verbs.add_parser("translate", help="translate sentences, a file, or stdin", allow_abbrev=False),
        run["translate"],
    )
    add_evaluate(verbs.add_parser("evaluate", help="BLEU and chrF of a run", allow_abbrev=False), run["evaluate"])
    add_align(verbs.add_parser("align", help="where the model looked", allow_abbrev=False), run["align"])
    add_export(
        verbs.add_parser("export", help="a folder that another engine translates with", allow_abbrev=False),
        run["export"],
    )
    add_compare(verbs.add_parser("compare", help="one table over several runs", allow_abbrev=False), run["compare"])
    return whole


def add_runs(one: argparse.ArgumentParser) -> None:
    """Where runs are."""
    one.add_argument("--runs", default="runs", **DIR, help="where run names are looked up (default: runs)")


def add_run(one: argparse.ArgumentParser, run: Run) -> None:
    """What all verbs after training share."""
    one.add_argument(
        "name", metavar="RUN", help="a run name, a folder, a checkpoint file, or latest; RUN,RUN: an ensemble"
    )
    add_runs(one)
    one.add_argument("--beam", type=positive, metavar="N", help="hypotheses kept by the search (default: the run's)")
    one.add_argument("--batch-tokens", type=positive, metavar="N", help="source positions × beam in one batch")
    one.set_defaults(run=run)


def add_translate(one: argparse.ArgumentParser, run: Run) -> None:
    """nmt translate."""
    add_run(one, run)
    one.add_argument("sentences", nargs="*", default=[], metavar="SENTENCE", help="without any: --input, else stdin")
    one.add_argument("--input", **FILE, help="one sentence a line, plain or .gz")
    one.add_argument("--output", **FILE, help="instead of stdout")
    one.add_argument("--format", choices=("text", "jsonl"), default="text")
    one.add_argument(
        "--engine",
        choices=("torch", "ctranslate2"),
        default="torch",
        help="what searches; ctranslate2 takes the run's export and makes it the first time (default: torch)",
    )
    add_quantization(one, "torch: float32 or bfloat16 (default: the run's), ctranslate2: any (default: float32)")
    one.add_argument(
        "--nbest", type=positive, default=1, metavar="N", help="text: from 2 on, N lines SCORE<TAB>TEXT each"
    )
    one.add_argument("--weights", action="store_true", help="with --format jsonl: the weights between words as well")
    add_reading(one)
    add_words(one)


def add_evaluate(one: argparse.ArgumentParser, run: Run) -> None:
    """nmt evaluate."""
    add_run(one, run)
    add_scored(one)


def add_export(one: argparse.ArgumentParser, run: Run) -> None:
    """nmt export."""
    one.add_argument("name", metavar="RUN", help="a run name, a folder, a checkpoint file, or latest")
    add_runs(one)
    one.add_argument("--format", choices=("ctranslate2",), required=True, help="what shall read it")
    one.add_argument("--output", **FOLDER, help="a new folder (default: one below the run's, found again)")
    add_quantization(one, "default: float32")
    one.set_defaults(run=run)


def add_quantization(one: argparse.ArgumentParser, possible: str) -> None:
    """The numbers of a search."""
    one.add_argument(
        "--quantization",
        choices=("float32", "float16", "bfloat16", "int8"),
        help=f"the numbers of the weights; {possible}",
    )


def add_align(one: argparse.ArgumentParser, run: Run) -> None:
    """nmt align."""
    add_run(one, run)
    one.add_argument("sentence", nargs="?", metavar="SOURCE", help="a sentence; --source reads a file")
    one.add_argument("translation", nargs="?", metavar="TARGET", help="without it, the model's own translation")
    one.add_argument("--source", **FILE, help="instead of SOURCE, one sentence a line")
    one.add_argument("--target", **FILE, help="instead of TARGET")
    add_reading(one)
    one.add_argument("--heads", action="store_true", help="with --png, --html or --gold: every head")
    one.add_argument(
        "--format",
        choices=("text", "jsonl"),
        default="text",
        help="jsonl: words, weights and links of each pair as a JSON object on a line (default: text)",
    )
    one.add_argument("--png", **FILE, help="write a heatmap; several sentences: FILE-1.png, FILE-2.png, …")
    one.add_argument("--html", **FILE, help="write a page on which a word lights up what it looked at")
    one.add_argument("--pharaoh", action="store_true", help="links i-j between words, one line a sentence")
    threshold = "links are all pairs of words with this share of attention or more (default: one link a target word)"
    one.add_argument("--threshold", type=share, metavar="X", help=threshold)
    one.add_argument("--links", action="store_true", help="with --gold: print the links of the best line as well")
    add_words(one)
    add_gold(
        one, "Pharaoh links of the pairs: print error rates of each layer and row; with --png or --html, draw them"
    )


def add_reading(one: argparse.ArgumentParser) -> None:
    """Which weights are read off."""
    one.add_argument(
        "--layer",
        type=layers,
        metavar="L[,L]",
        help="from 0; negative from the top; the mean of several (default: the run's)",
    )
    one.add_argument("--head", type=int, metavar="H", help="from 0 (default: the mean of the heads)")
    one.add_argument(
        "--method",
        choices=("mean", "rollout"),
        default="mean",
        help="one layer, or attention rollout through all layers of encoder and decoder (default: mean)",
    )


def add_words(one: argparse.ArgumentParser) -> None:
    """How weights become links between words."""
    one.add_argument(
        "--row",
        choices=("predicts", "reads"),
        default="predicts",
        help="a word's weights are those of the step that predicts it, or of the next, which reads it: Luong's content "
        "scores align the word that is read (2015, footnote 14); --gold shows both (default: predicts)",
    )
    one.add_argument("--tokenised", action="store_true", help="the text is tokenised: a word is what spaces separate")


def add_gold(one: argparse.ArgumentParser, purpose: str) -> None:
    """Links that are known."""
    one.add_argument("--gold", **FILE, help=purpose)
    one.add_argument("--base", type=int, choices=(0, 1), default=0, help="the first word in files (default: 0)")
    one.add_argument("--reverse", action="store_true", help="--gold says the target word first")


def add_scored(one: argparse.ArgumentParser) -> None:
    """What is scored, and where layer and row are chosen."""
    one.add_argument("--split", help="test (all test sets), valid, or one test set by name (default: test)")
    one.add_argument("--source", **FILE, help="with --reference: other text than the corpus of training")
    one.add_argument("--reference", **FILE)
    add_gold(one, "with --reference: Pharaoh links of both files; the alignment error rate is reported too")
    one.add_argument("--tokenised", action="store_true", help="with links: a word is what spaces separate")
    for side, purpose in (
        ("source", "other pairs with known links, to choose layer and row on (default: the corpus's validation set)"),
        ("target", "belongs to --valid-source"),
        ("gold", "their links, written like those of --gold"),
    ):
        one.add_argument(f"--valid-{side}", **FILE, help=purpose)


def share(text: str) -> float:
    """A number above 0 and at most 1."""
    with contextlib.suppress(ValueError):
        if 0 < float(text) <= 1:
            return float(text)
    raise argparse.ArgumentTypeError(f"'{text}' is not a number above 0 and at most 1")


def layers(text: str) -> int | tuple[int, ...]:
    """A layer, or several."""
    if not re.fullmatch(r"-?\d+(,-?\d+)*", text):
        raise argparse.ArgumentTypeError(f"'{text}' is no layer such as 0 or -1, nor several such as 1,2")
    found = tuple(map(int, text.split(",")))
    return found[0] if len(found) == 1 else found


def add_compare(one: argparse.ArgumentParser, run: Run) -> None:
    """nmt compare."""
    one.add_argument("names", nargs="+", metavar="RUN", help="as for the other verbs; the first is what p refers to")
    add_runs(one)
    add_scored(one)
    one.add_argument("--output", default="runs/compare", **DIR, help="default: runs/compare")
    one.add_argument("--samples", type=positive, default=1000, metavar="N", help="bootstrap resamples (default: 1000)")
    one.add_argument("--beam", type=positive, metavar="N", help="hypotheses kept by the search (default: each run's)")
    one.add_argument("--long", type=positive, metavar="K", help="also score 2 to K sentences joined into one input")
    one.add_argument("--sentences", metavar="N,N", help="lines of the first set to draw (default: three short ones)")
    one.set_defaults(run=run)


def positive(text: str) -> int:
    """A whole number above 0."""
    number = int(text) if text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number above 0")
    return number

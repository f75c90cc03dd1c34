"""The door: it only asks where a sentence wants to go.

    nmt download|tokenize|train [KEY=VALUE …] [-m]
    nmt translate RUN [SENTENCE …]
    nmt evaluate RUN
    nmt align RUN [SOURCE [TARGET]]
    nmt compare RUN [RUN …]

stdout carries data only, everything else goes to stderr; a person's mistake is one sentence and exit code 2.
"""

import argparse
import errno
import io
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from nmt.errors import Stopped, UserError

COMPOSED = {
    "download": "get the corpus",
    "tokenize": "learn the tokenizer and store the pairs as ids",
    "train": "train a model and score it on the test sets",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    from nmt.view.progress import install_logging

    install_logging()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # data looks the same on every machine
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        options = parser().parse_args(arguments)
        code = options.run(options)
        sys.stdout.flush()
        return code
    except UserError as error:
        print(f"nmt: {error}", file=sys.stderr)
        return 130 if isinstance(error, Stopped) else 2
    except BrokenPipeError:  # the reader of our output left, as `head` does
        forget_output()
        return 141
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        forget_output()
        print(f"nmt: The output cannot be written: {error.strerror}.", file=sys.stderr)
        return 2
    except RuntimeError as error:
        if type(error).__name__ != "OutOfMemoryError":  # torch's; importing it here would make `nmt --help` slow
            raise
        print("nmt: The GPU's memory is full; make train.batch_tokens or --batch-tokens smaller.", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("nmt: interrupted.", file=sys.stderr)
        return 130


def forget_output() -> None:
    """Python shall not try once more to write what nobody can read."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
            elif re.match(r"--?[A-Za-z]", word) and " " not in word:
                action = self._option_string_actions.get(word)
                value = [next(rest, None)] if action is not None and action.nargs is None else []
                options += [word, *(one for one in value if one is not None)]
            else:
                words.append(word)
        return super().parse_known_args([*options, *(["--", *words] if words else [])], namespace)


def parser() -> argparse.ArgumentParser:
    """The verbs and their options."""
    whole = Parser(prog="nmt", description="Train a translator, and see where its attention looked.")
    verbs = whole.add_subparsers(required=True, metavar="VERB", parser_class=VerbParser)
    for verb, purpose in COMPOSED.items():
        one = verbs.add_parser(verb, help=purpose, description=purpose, allow_abbrev=False)
        one.add_argument(
            "overrides", nargs="*", metavar="KEY=VALUE", help="as in model=luong_local_p train.max_steps=500"
        )
        one.add_argument("-m", "--multirun", action="store_true", help="one run for each combination of KEY=A,B")
        one.set_defaults(run=run_composed, verb=verb)
    add_translate(verbs.add_parser("translate", help="translate sentences, a file, or stdin", allow_abbrev=False))
    add_evaluate(verbs.add_parser("evaluate", help="BLEU and chrF of a run", allow_abbrev=False))
    add_align(verbs.add_parser("align", help="where the model looked", allow_abbrev=False))
    add_compare(verbs.add_parser("compare", help="one table over several runs", allow_abbrev=False))
    return whole


def add_run(one: argparse.ArgumentParser, run: Callable[[argparse.Namespace], int]) -> None:
    """What all verbs after training share."""
    one.add_argument(
        "name", metavar="RUN", help="a run name, a folder, a checkpoint file, or latest; RUN,RUN: an ensemble"
    )
    one.add_argument("--runs", default="runs", metavar="DIR", help="where run names are looked up (default: runs)")
    one.add_argument("--beam", type=positive, metavar="N", help="hypotheses kept by the search (default: the run's)")
    one.add_argument("--batch-tokens", type=positive, metavar="N", help="source positions × beam in one batch")
    one.set_defaults(run=run)


def add_translate(one: argparse.ArgumentParser) -> None:
    """nmt translate."""
    add_run(one, run_translate)
    one.add_argument("sentences", nargs="*", default=[], metavar="SENTENCE", help="without any: --input, else stdin")
    one.add_argument("--input", metavar="FILE", help="one sentence a line, plain or .gz")
    one.add_argument("--output", metavar="FILE", help="instead of stdout")
    one.add_argument("--format", choices=("text", "jsonl"), default="text")
    one.add_argument("--nbest", type=positive, default=1, metavar="N", help="text: N lines each, as SCORE<TAB>TEXT")


def add_evaluate(one: argparse.ArgumentParser) -> None:
    """nmt evaluate."""
    add_run(one, run_evaluate)
    one.add_argument("--split", default="test", help="test (all test sets), valid, or one test set by name")
    one.add_argument("--source", metavar="FILE", help="with --reference: other text than the run's corpus")
    one.add_argument("--reference", metavar="FILE")


def add_align(one: argparse.ArgumentParser) -> None:
    """nmt align."""
    add_run(one, run_align)
    one.add_argument("sentence", nargs="?", metavar="SOURCE")
    one.add_argument("translation", nargs="?", metavar="TARGET", help="without it, the model's own translation")
    one.add_argument("--source", metavar="FILE", help="instead of SOURCE, one sentence a line")
    one.add_argument("--target", metavar="FILE", help="instead of TARGET")
    one.add_argument("--layer", type=int, metavar="L", help="from 0; negative from the top (default: the run's)")
    one.add_argument("--head", type=int, metavar="H", help="from 0 (default: the mean of the heads)")
    one.add_argument("--heads", action="store_true", help="with --png: every head of the layer")
    one.add_argument("--png", metavar="FILE", help="write a heatmap; several sentences: FILE-1.png, FILE-2.png, …")
    one.add_argument("--pharaoh", action="store_true", help="links i-j between words, from 0, one line a sentence")
    one.add_argument("--gold", metavar="FILE", help="Pharaoh links of --source and --target: print error rates")
    one.add_argument(
        "--base", type=int, choices=(0, 1), default=0, help="what --gold calls the first word (default: 0)"
    )


def add_compare(one: argparse.ArgumentParser) -> None:
    """nmt compare."""
    one.add_argument("names", nargs="+", metavar="RUN", help="as for the other verbs; the first is what p refers to")
    one.add_argument("--runs", default="runs", metavar="DIR", help="where run names are looked up (default: runs)")
    one.add_argument("--split", default="test", help="test (all test sets), valid, or one test set by name")
    one.add_argument("--source", metavar="FILE", help="with --reference: other text than the runs' corpus")
    one.add_argument("--reference", metavar="FILE")
    one.add_argument("--gold", metavar="FILE", help="Pharaoh links of --source and --reference")
    one.add_argument(
        "--base", type=int, choices=(0, 1), default=0, help="what --gold calls the first word (default: 0)"
    )
    one.add_argument("--output", default="runs/compare", metavar="DIR", help="default: runs/compare")
    one.add_argument("--samples", type=positive, default=1000, metavar="N", help="bootstrap resamples (default: 1000)")
    one.add_argument("--beam", type=positive, metavar="N", help="hypotheses kept by the search (default: each run's)")
    one.add_argument("--long", type=positive, metavar="K", help="also score 2 to K sentences joined into one input")
    one.add_argument("--sentences", metavar="N,N", help="lines of the first set to draw (default: three short ones)")
    one.set_defaults(run=run_compare)


def positive(text: str) -> int:
    """A whole number above 0."""
    number = int(text) if text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number above 0")
    return number


def run_composed(options: argparse.Namespace) -> int:
    """download, tokenize, train: one configuration, or one for each combination."""
    from nmt import compose, pipeline  # here: `nmt --help` shall be instant

    configs = compose.compose_all(options.overrides, options.multirun)  # all are checked before any is run
    codes = []
    for config in configs:
        try:
            results = getattr(pipeline, options.verb)(config) or []
            for result in results:
                print(f"{config.name}\t{result.line()}" if options.multirun else result.line(), flush=True)
            codes.append(0)
        except UserError as error:
            if len(configs) == 1 or isinstance(error, Stopped):
                raise
            print(f"nmt: {config.name}: {error}", file=sys.stderr)
            codes.append(2)
    return max(codes)


def run_translate(options: argparse.Namespace) -> int:
    """nmt translate."""
    from nmt.verbs.translate import translate

    return translate(options)


def run_evaluate(options: argparse.Namespace) -> int:
    """nmt evaluate."""
    from nmt.verbs.evaluate import evaluate

    return evaluate(options)


def run_align(options: argparse.Namespace) -> int:
    """nmt align."""
    from nmt.verbs.align import align

    return align(options)


def run_compare(options: argparse.Namespace) -> int:
    """nmt compare."""
    from nmt.verbs.compare import compare

    return compare(options)


if __name__ == "__main__":
    sys.exit(main())

"""The commands and their options.

Nothing that takes time is imported here, so that `nmt --help` is instant.
"""

import argparse
import contextlib
import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from nmt import __version__
from nmt.errors import UserError


def path(text: str) -> str:
    if not text:  # as where a shell variable is unset
        raise argparse.ArgumentTypeError("the name is empty")
    return text


FILE, FOLDER, DIR = (dict[str, Any](type=path, metavar=name) for name in ("FILE", "FOLDER", "DIR"))


def threshold_value(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 < float(text) <= 1:
            return float(text)
    raise argparse.ArgumentTypeError(f"'{text}' is not a number above 0 and at most 1")


def layers(text: str) -> int | tuple[int, ...]:
    if not re.fullmatch(r"-?\d+(,-?\d+)*", text):
        raise argparse.ArgumentTypeError(
            f"'{text}' is no layer such as 0 or -1, nor several such as 1,2"
        )
    numbers = tuple(map(int, text.split(",")))
    return numbers[0] if len(numbers) == 1 else numbers


def positive(text: str) -> int:
    number = int(text) if text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number above 0")
    return number


MODULES = {
    "backtranslate": "synthesis",
    "distil": "synthesis",
    "import": "pretrained",
    "list": "runs",
    "info": "runs",
}  # where not of the same name
METRICS_HELP = "besides BLEU and chrF, with commas between"
COMPOSED_COMMANDS = {
    "audit": "what is wrong with sentence pairs",
    "suggest": "what model=auto and tokenizer=auto would choose, and why",
    "download": "get the corpus",
    "tokenize": "learn the tokenizer and store the pairs as ids",
    "train": "train a model and score it on the test sets",
}


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The nearest of the known words, in brackets; empty where none is near."""
    similar = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {similar[0]}?)" if similar else ""


class Parser(argparse.ArgumentParser):
    """Raises UserError with one sentence instead of printing the usage and exiting."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message[:1].upper()}{message[1:].rstrip('.')}; see {self.prog} --help.")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Argparse would list all choices without naming the nearest."""
        choices = list(map(str, action.choices or ()))
        if choices and str(value) not in choices:
            name = "command" if action.metavar == "COMMAND" else "/".join(action.option_strings)
            self.error(
                f"there is no {name} '{value}'{did_you_mean(str(value), choices)}; possible: "
                f"{', '.join(choices)}"
            )


class CommandParser(Parser):
    """Accepts options before, between and after the positional arguments.

    Argparse loses those after an option. It sets `given`: what the command line has, such as
    --heads, --format, --format=jsonl and SOURCE.
    """

    def format_help(self) -> str:
        """With the names of the metrics, and the keys of the configuration where they are taken.

        They are read here, since that takes longer than everything else in this module.
        """
        metrics = self._option_string_actions.get("--metrics")
        if metrics is not None:
            from nmt.evaluate.metrics import further_metrics

            metrics.help = f"{METRICS_HELP}: {', '.join(further_metrics())}"
        if self.get_default("command") not in COMPOSED_COMMANDS:
            return super().format_help()
        from nmt.config.keys import help_of_keys

        return f"{super().format_help()}\n{help_of_keys()}\n"

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        options = []
        positionals = []
        rest = iter(args)
        given: set[str] = set()
        for word in rest:
            name, has_value, value = word.partition("=")
            if word == "--":
                positionals += rest
            elif not re.fullmatch(r"--?[A-Za-z]\S*", name):
                positionals.append(word)
            else:
                action = self._option_string_actions.get(name)
                if name in given and not isinstance(action, argparse._AppendAction):
                    self.error(f"{name} is given twice")
                if action is not None and action.nargs is None and not has_value:
                    value = next(rest, None)
                    # so that -2,-1 may be a value
                    word = name if value is None else f"{name}={value}"
                given |= {name, word}
                options.append(word)
        if positionals:
            options += ["--", *positionals]
        parsed, unknown = super().parse_known_args(options, namespace)
        for action in self._get_positional_actions():
            if getattr(parsed, action.dest) not in (None, []):
                given.add(str(action.metavar))
        parsed.given = given
        if unknown:
            hints = []
            for word in unknown:
                name = word.partition("=")[0]
                hints.append(f"{word}{did_you_mean(name, self._option_string_actions)}")
            self.error(f"unrecognized: {', '.join(hints)}")
        return parsed, unknown


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands; it sets `module`, which runs the command (nmt/commands)."""
    parser = Parser(prog="nmt", description="Train a translator, and see what it attends to.")
    parser.add_argument("--version", action="version", version=f"nmt {__version__}")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=CommandParser)
    for name, purpose in COMPOSED_COMMANDS.items():
        command = subparsers.add_parser(name, help=purpose, description=purpose, allow_abbrev=False)
        command.add_argument(
            "overrides",
            nargs="*",
            metavar="FILE|KEY=VALUE",
            help="pairs.tmx, or data=files data.train=PREFIX",
        )
        command.add_argument(
            "-m", "--multirun", action="store_true", help="for each combination of KEY=A,B"
        )
        if name == "audit":
            passing = (
                "write the training pairs that pass to PREFIX.LANGUAGE, and PREFIX.rejected.tsv"
            )
            command.add_argument("--clean", type=path, metavar="PREFIX", help=passing)
        command.set_defaults(command=name, module="audit" if name == "audit" else "pipeline")
    for name, purpose, add_options in (
        ("translate", "translate sentences, a file, or stdin", add_translate),
        ("evaluate", "BLEU and chrF of a run", add_evaluate),
        ("align", "what the model attends to, as links, heatmaps or tables", add_align),
        (
            "backtranslate",
            "synthetic pairs from monolingual text, for the other direction",
            add_backtranslation,
        ),
        ("distil", "pairs that a teacher has translated, for a smaller student", add_synthesis),
        ("serve", "a translation service with the API of LibreTranslate, and its page", add_serve),
        ("export", "a folder that another engine translates with", add_export),
        ("import", "a translator of Hugging Face transformers as a run", add_import),
        ("compare", "one table over several runs", add_compare),
        ("list", "the runs, with their languages, models, scores and sizes", add_runs),
        ("info", "what is known about a run", add_single_run),
        ("verify", "whether the files of a run are as they were written", add_single_run),
        ("completion", "the script with which a shell completes what you type", add_completion),
    ):
        command = subparsers.add_parser(name, help=purpose, allow_abbrev=False)
        add_options(command)
        command.set_defaults(command=name, module=MODULES.get(name, name))
    return parser


def add_runs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runs", default="runs", **DIR, help="the folder of the named runs (default: runs)"
    )


def add_completion(parser: argparse.ArgumentParser) -> None:
    loading = (
        'bash, zsh: eval "$(nmt completion bash)" in ~/.bashrc; fish: nmt completion fish | source'
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), metavar="SHELL", help=loading)


def add_single_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", metavar="RUN", help="a run name, a folder, a checkpoint file, or latest"
    )
    add_runs(parser)


def add_run(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "name",
        metavar="RUN",
        help="a run name, a folder, a checkpoint file, or latest; RUN,RUN: an ensemble",
    )
    add_runs(parser)
    add(
        "--beam",
        type=positive,
        metavar="N",
        help="hypotheses kept by the search (default: the run's)",
    )
    add("--batch-tokens", type=positive, metavar="N", help="source positions × beam in one batch")


def add_translate(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_run(parser)
    add(
        "sentences",
        nargs="*",
        default=[],
        metavar="SENTENCE",
        help="without any: --input, else stdin",
    )
    add("--input", **FILE, help="one sentence a line, plain or .gz")
    add(
        "--document",
        **FILE,
        help="text, Markdown, HTML, subtitles, messages, Office …: its markup stays",
    )
    add(
        "--documents",
        action="append",
        type=path,
        metavar="IN… OUT",
        help="files and folders, into a folder",
    )
    add(
        "--memory",
        **FILE,
        help="documents: a TMX or other pairs; what is in it is reused, what is near is shown in "
        "XLIFF",
    )
    add_direction(parser)
    add("--retranslate", action="store_true", help="a document: also what has a translation")
    add(
        "--columns",
        default="",
        metavar="FROM:TO",
        help="a table: its texts and translations, by number or name",
    )
    add("--output", **FILE, help="instead of stdout")
    add("--resume", action="store_true", help="continue an interrupted --output FILE")
    add("--format", choices=("text", "jsonl"), default="text")
    add_engine(parser)
    add(
        "--nbest",
        type=positive,
        default=1,
        metavar="N",
        help="text: from 2 on, N lines SCORE<TAB>TEXT each",
    )
    add("--glossary", **FILE, help="terms that translations must have: lines SOURCE<TAB>TARGET")
    add(
        "--prefix",
        default="",
        metavar="TEXT",
        help="what every translation begins with; the model goes on from there",
    )
    below = "jsonl marks lines of a lower confidence"
    add("--min-confidence", type=threshold_value, metavar="X", help=below)
    add("--copy-doubtful", action="store_true", help="such lines are copied instead")
    add(
        "--mark-doubtful",
        action="store_true",
        help="write (?) behind words that are more likely wrong than right",
    )
    add(
        "--weights",
        action="store_true",
        help="with --format jsonl: the weights between words as well",
    )
    add_extractor(parser)
    add_words(parser)


def add_engine(parser: argparse.ArgumentParser) -> None:
    from nmt.convert.formats import FORMATS

    engines = "the engine of the search; auto: the faster one (default of nmt translate)"
    parser.add_argument(
        "--engine", choices=("auto", "torch", "ctranslate2"), default="auto", help=engines
    )
    formats = (
        "torch: float32 or bfloat16 (default: the run's), ctranslate2: any (default: float32; by "
        "auto: int8)"
    )
    add_quantization(parser, FORMATS["ctranslate2"].quantizations, formats)


def add_quantization(
    parser: argparse.ArgumentParser, choices: Sequence[str], explanation: str
) -> None:
    explanation = f"the number format of the weights; {explanation}"
    parser.add_argument("--quantization", choices=choices, help=explanation)


def add_synthesis(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_run(parser)
    text = (
        "one sentence a line, in the language that RUN reads (distil: by default what it was "
        "trained on)"
    )
    add("file", nargs="?", metavar="FILE", help=text)
    add(
        "--output", required=True, type=path, metavar="PREFIX", help="of two files, PREFIX.LANGUAGE"
    )
    add("--resume", action="store_true", help="continue after an interruption")
    add_direction(parser)
    add_engine(parser)
    parser.set_defaults(engine="torch")


def add_backtranslation(parser: argparse.ArgumentParser) -> None:
    add_synthesis(parser)
    text = "begin each synthetic source with <bt>; for much more synthetic than real text"
    parser.add_argument("--tag", action="store_true", help=text)


def add_evaluate(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    add_scored(parser)
    noised = "score the sets also with capitals, small letters, typos"
    parser.add_argument("--noised", action="store_true", help=noised)


def add_export(parser: argparse.ArgumentParser) -> None:
    from nmt.convert.formats import (
        FORMATS,
        formats_with,
        options_of_formats,
        quantizations_of_formats,
    )

    add = parser.add_argument
    add_single_run(parser)
    opened_by = [f"{name}: {format.opened_by}" for name, format in FORMATS.items()]
    add("--format", choices=tuple(FORMATS), required=True, help=f"for {'; '.join(opened_by)}")
    files = [name for name, format in FORMATS.items() if format.output == "file"]
    output = f"a new folder, for {', '.join(files)} a new file (default: below the run's)"
    add("--output", **FOLDER, help=output)
    first = [f"{name}: {format.quantizations[0]}" for name, format in FORMATS.items()]
    add_quantization(parser, quantizations_of_formats(), f"default for {', '.join(first)}")
    for option in options_of_formats():
        names = ", ".join(formats_with(option))
        kind = path if option.metavar == "FILE" else str
        explanation = f"{names}: {option.help}"
        add(option.flag, dest=option.field, type=kind, metavar=option.metavar, help=explanation)


def add_direction(parser: argparse.ArgumentParser) -> None:
    for side in ("source", "target"):
        explanation = f"the {side} language, of a run that has several"
        parser.add_argument(f"--{side}", metavar="LANGUAGE", help=explanation)


def add_import(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "name",
        metavar="SOURCE",
        help="a folder, or hf:OWNER/NAME[@REVISION] of the Hugging Face hub",
    )
    add("--name", dest="run_name", metavar="NAME", required=True, help="of the new run")
    add("--source", metavar="LANGUAGE", help="of a multilingual model; several: de+fr")
    add("--target", metavar="LANGUAGE", help="the same of the other side")
    add("--new", metavar="NEW=RELATED", help="add a language, whose tag begins as another's")
    add("--text", **FILE, help="with --new: text in that language, one sentence a line")
    add(
        "--pieces",
        type=positive,
        metavar="N",
        default=2000,
        help="learnt from --text beside its characters (2000)",
    )
    add_runs(parser)


def add_align(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_run(parser)
    add("sentence", nargs="?", metavar="SOURCE", help="a sentence; --source reads a file")
    add("translation", nargs="?", metavar="TARGET", help="without it, the model's own translation")
    add("--source", **FILE, help="instead of SOURCE, one sentence a line")
    add("--target", **FILE, help="instead of TARGET")
    add_extractor(parser)
    add("--heads", action="store_true", help="with --png, --html or --gold: every head")
    formats = (
        "jsonl: words, weights and links of each pair as a JSON object on a line (default: text)"
    )
    add("--format", choices=("text", "jsonl"), default="text", help=formats)
    add("--png", **FILE, help="write a heatmap; several sentences: FILE-1.png, FILE-2.png, …")
    add("--html", **FILE, help="write a page that shows what each word attends to")
    add("--pharaoh", action="store_true", help="links i-j between words, one line a sentence")
    threshold = (
        "links are all words with this weight of attention or more (default: one link a target "
        "word)"
    )
    add("--threshold", type=threshold_value, metavar="X", help=threshold)
    add(
        "--links", action="store_true", help="with --gold: print the links of the best line as well"
    )
    add_words(parser)
    drawn = (
        "Pharaoh links of the pairs: print error rates of each layer and step; with --png or "
        "--html, draw them"
    )
    add_gold(parser, drawn)


def add_extractor(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    layer = "from 0; negative from the top; the mean of several (default: the run's)"
    add("--layer", type=layers, metavar="L[,L]", help=layer)
    add("--head", type=int, metavar="H", help="from 0 (default: their mean, or the guided one)")
    method = (
        "one layer, or attention rollout through all layers of encoder and decoder (default: mean)"
    )
    add("--method", choices=("mean", "rollout"), default="mean", help=method)


def add_words(parser: argparse.ArgumentParser) -> None:
    step = (
        "a word's weights are those of the decoder step whose output it is, or of the next, whose "
        "input it is: Luong's content scores align the input (2015, footnote 14); --gold shows "
        "both (default: output, or a guided head's)"
    )
    parser.add_argument("--decoder-step", choices=("output", "input"), help=step)
    parser.add_argument(
        "--tokenized",
        action="store_true",
        help="the text is tokenized: spaces alone separate words",
    )


def add_gold(parser: argparse.ArgumentParser, purpose: str) -> None:
    parser.add_argument("--gold", **FILE, help=purpose)
    parser.add_argument(
        "--base", type=int, choices=(0, 1), default=0, help="the first word in files (default: 0)"
    )
    parser.add_argument(
        "--reverse", action="store_true", help="the links of --gold name the target word first"
    )


def add_scored(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--split", help="test (all test sets), valid, or one test set by name (default: test)")
    add("--source", **FILE, help="with --reference: other text than the corpus of training")
    add("--reference", action="append", **FILE, help="given again: another reference of the source")
    add(
        "--metrics",
        type=lambda text: text.split(","),
        default=[],
        metavar="NAME,NAME",
        help=METRICS_HELP,
    )
    add_gold(
        parser,
        "with --reference: Pharaoh links of both files; the alignment error rate is reported too",
    )
    add("--tokenized", action="store_true", help="with links: spaces alone separate words")
    pairs = (
        "other pairs with gold links, to choose layer and step on (default: the corpus's "
        "validation set)"
    )
    add("--valid-source", **FILE, help=pairs)
    add("--valid-target", **FILE, help="belongs to --valid-source")
    add("--valid-gold", **FILE, help="their links, written like those of --gold")


def add_serve(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("names", nargs="*", metavar="RUN", help="the runs that translate, each other languages")
    add_runs(parser)
    add(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="0.0.0.0: for the network (default: this machine alone)",
    )
    add("--port", type=int, default=5000, metavar="N", help="0: a free one (default: 5000)")
    add("--keys", **FILE, help="only clients with a key of this file may translate")
    add(
        "--new-key",
        metavar="NAME",
        help="print a new key for NAME, write its hash to --keys, and end",
    )
    add(
        "--cors",
        metavar="ORIGIN,ORIGIN",
        help="other websites whose scripts may use it; *: any (default: none)",
    )
    add("--glossary", **FILE, help="terms that translations must have: lines SOURCE<TAB>TARGET")
    for name, default, explanation in (
        ("characters", 20_000, "the most characters of a request"),
        ("texts", 500, "the most texts of a request"),
        ("megabytes", 10, "the largest document"),
        ("seconds", 60, "the longest that a request may take"),
    ):
        add(
            f"--{name}",
            type=positive,
            default=default,
            metavar="N",
            help=f"{explanation} (default: {default})",
        )
    add(
        "--requests",
        type=positive,
        default=0,
        metavar="N",
        help="the most of a client in a minute (default: any)",
    )
    add(
        "--beam",
        type=positive,
        metavar="N",
        help="hypotheses kept by the search (default: each run's)",
    )
    add("--batch-tokens", type=positive, metavar="N", help="source positions × beam in one batch")
    add_engine(parser)


def add_compare(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "names",
        nargs="+",
        metavar="RUN",
        help="as for the other commands; p is of the difference from the first",
    )
    add_runs(parser)
    add_scored(parser)
    add("--output", default="runs/compare", **DIR, help="default: runs/compare")
    add(
        "--samples",
        type=positive,
        default=1000,
        metavar="N",
        help="bootstrap resamples (default: 1000)",
    )
    add("--beam", type=positive, metavar="N", help="hypotheses of the search (default: each run's)")
    add(
        "--long",
        type=positive,
        metavar="K",
        help="also score 2 to K sentences joined into one input",
    )
    add(
        "--sentences",
        metavar="N,N",
        help="lines of the first set to draw (default: three short ones)",
    )

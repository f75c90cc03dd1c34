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


def margin_value(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 <= float(text) <= 100:
            return float(text)
    raise argparse.ArgumentTypeError(f"'{text}' is not a number from 0 to 100")


def chrf_value(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 < float(text) <= 100:
            return float(text)
    raise argparse.ArgumentTypeError(f"'{text}' is not a number above 0 and at most 100")


def layers(text: str) -> int | tuple[int, ...]:
    if not re.fullmatch(r"-?\d+(,-?\d+)*", text):
        raise argparse.ArgumentTypeError(
            f"'{text}' is not a layer such as 0 or -1, or several such as 1,2"
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
    "rollback": "learn",
    "serve": "serving",
}  # where not of the same name
GLOSSARY_HELP = (
    "terms that translations must use: lines SOURCE<TAB>TARGET, or .csv, .xlsx, .ods or .tbx"
)
METRICS_HELP = "metrics besides BLEU and chrF, separated by commas"
COMPOSED_COMMANDS = {
    "audit": "find what is wrong with sentence pairs",
    "suggest": "show what model=auto and tokenizer=auto would choose, and why",
    "download": "download the corpus and drop bad pairs",
    "tokenize": "learn the tokenizer and store the pairs as token ids",
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
    parser = Parser(
        prog="nmt", description="Train translation models, and see what they attend to."
    )
    parser.add_argument("--version", action="version", version=f"nmt {__version__}")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=CommandParser)
    for name, purpose in COMPOSED_COMMANDS.items():
        command = subparsers.add_parser(name, help=purpose, description=purpose, allow_abbrev=False)
        command.add_argument(
            "overrides",
            nargs="*",
            metavar="FILE|KEY=VALUE",
            help="files of pairs, such as pairs.tmx; settings, such as model=bahdanau (see below)",
        )
        command.add_argument(
            "-m", "--multirun", action="store_true", help="run once for each combination of KEY=A,B"
        )
        if name == "audit":
            passing = (
                "write the training pairs that pass to PREFIX.LANGUAGE, the others to "
                "PREFIX.rejected.tsv"
            )
            command.add_argument("--clean", type=path, metavar="PREFIX", help=passing)
            judge = "a run that translates from source to target: report what it finds improbable"
            command.add_argument("--forward", metavar="RUN", help=judge)
            other = "with or without --forward: the same, from target to source"
            command.add_argument("--backward", metavar="RUN", help=other)
        command.set_defaults(command=name, module="audit" if name == "audit" else "pipeline")
    for name, purpose, add_options in (
        ("translate", "translate sentences, a file, or stdin", add_translate),
        ("evaluate", "score a run with BLEU, chrF and other metrics", add_evaluate),
        ("score", "say how probable a model finds given translations", add_score),
        ("align", "show what a model attends to, as tables, heatmaps or links", add_align),
        (
            "backtranslate",
            "make synthetic pairs for the reverse direction from monolingual text",
            add_backtranslation,
        ),
        ("distil", "translate training text with a teacher, for a smaller student", add_synthesis),
        ("student", "train a small model on the translations of a large one", add_student),
        (
            "serve",
            "start a translation service with a page and the API of LibreTranslate",
            add_serve,
        ),
        (
            "corrections",
            "list, accept, refuse, export and delete what users of the service corrected",
            add_corrections,
        ),
        ("export", "write a translator for another program", add_export),
        ("import", "import a model of Hugging Face transformers as a run", add_import),
        ("compare", "compare several runs in one table", add_compare),
        ("learn", "make a new version of a run out of corrections, if it is better", add_learn),
        ("rollback", "return to the version of a run before the current one", add_rollback),
        ("pair", "find the sentence pairs of two documents that translate each other", add_pair),
        ("list", "list the runs with their languages, models, scores and sizes", add_runs),
        ("info", "show what is known about a run", add_single_run),
        ("verify", "check whether the files of a run are undamaged", add_single_run),
        ("completion", "print the script for shell completion", add_completion),
    ):
        command = subparsers.add_parser(name, help=purpose, allow_abbrev=False)
        add_options(command)
        command.set_defaults(command=name, module=MODULES.get(name, name))
    return parser


def add_runs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", default="runs", **DIR, help="folder of the runs (default: runs)")


def add_completion(parser: argparse.ArgumentParser) -> None:
    loading = (
        'bash, zsh: eval "$(nmt completion bash)" in ~/.bashrc; fish: nmt completion fish | source'
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), metavar="SHELL", help=loading)


def add_single_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", metavar="RUN", help="name of a run, folder, checkpoint file, or latest"
    )
    add_runs(parser)


def add_ensemble(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name",
        metavar="RUN",
        help="name of a run, folder, checkpoint file, or latest; RUN,RUN: an ensemble",
    )
    add_runs(parser)


def add_run(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_ensemble(parser)
    add(
        "--beam",
        type=positive,
        metavar="N",
        help="hypotheses of the beam search (default: the run's)",
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
        help="a sentence to translate; without any, --input or stdin is read",
    )
    add("--input", **FILE, help="text to translate, one sentence a line, plain or .gz")
    add(
        "--document",
        **FILE,
        help="translate a document (text, Markdown, HTML, subtitles, Office …) and keep its markup",
    )
    add(
        "--documents",
        action="append",
        type=path,
        metavar="IN… OUT",
        help="translate documents and folders of documents into a folder",
    )
    add(
        "--memory",
        **FILE,
        help="documents: reuse translations of a TMX or other file of pairs; in XLIFF, also show "
        "similar ones",
    )
    add_direction(parser)
    add("--retranslate", action="store_true", help="documents: also replace existing translations")
    add(
        "--columns",
        default="",
        metavar="FROM:TO",
        help="tables: columns of texts and of translations, by number or name",
    )
    add_output(parser)
    add(
        "--format",
        choices=("text", "jsonl"),
        default="text",
        help="jsonl: a JSON object a line with scores, confidences and alignment (default: text)",
    )
    add_engine(parser)
    add(
        "--nbest",
        type=positive,
        default=1,
        metavar="N",
        help="the N best translations; as text, N lines SCORE<TAB>TEXT for each sentence",
    )
    add_candidates(parser)
    add("--glossary", **FILE, help=GLOSSARY_HELP)
    add(
        "--prefix",
        default="",
        metavar="TEXT",
        help="begin every translation with TEXT; the model continues it",
    )
    add(
        "--min-chrf",
        type=chrf_value,
        metavar="X",
        help="with --format jsonl: mark lines with a lower expected chrF, and those that are "
        "detached or leave words out, as doubtful; in documents they are to review (default: 50)",
    )
    add(
        "--copy-doubtful",
        action="store_true",
        help="with --min-chrf: write the source of doubtful lines instead",
    )
    add(
        "--mark-doubtful",
        action="store_true",
        help="write (?) after words that are more likely wrong than right",
    )
    add(
        "--weights",
        action="store_true",
        help="with --format jsonl: also the attention weights between words",
    )
    add_extractor(parser)
    add_words(parser)


def add_candidates(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group(
        "sampling, and the choice among several translations"
    ).add_argument
    add(
        "--samples",
        type=positive,
        metavar="N",
        help="draw N translations of each sentence at random, in place of the beam",
    )
    add(
        "--temperature",
        type=float,
        default=1.0,
        metavar="T",
        help="draw from p^(1/T): below 1 more probable words, above 1 more variety (default: 1)",
    )
    add("--top-k", type=positive, metavar="K", help="draw among the K most probable pieces")
    add(
        "--top-p",
        type=threshold_value,
        default=0.7,
        metavar="P",
        help="draw among the fewest pieces that have the probability P together (default: 0.7; 1: "
        "all pieces)",
    )
    add("--seed", type=int, default=1, metavar="S", help="another seed, other draws (default: 1)")
    add(
        "--choose",
        choices=("mbr", "reference"),
        help="write one of the samples, or of the beam: mbr: the one that is most like all of "
        "them; reference: the one nearest to --reference (both by chrF)",
    )
    add("--reference", **FILE, help="true translations of the file, line by line")


def add_engine(parser: argparse.ArgumentParser) -> None:
    from nmt.convert.formats import FORMATS

    engines = "engine of the search; auto: the faster one (default of nmt translate)"
    parser.add_argument(
        "--engine", choices=("auto", "torch", "ctranslate2"), default="auto", help=engines
    )
    formats = (
        "torch: float32 or bfloat16 (default: the run's); ctranslate2: any (default: float32; with "
        "--engine auto: int8)"
    )
    add_quantization(parser, FORMATS["ctranslate2"].quantizations, formats)


def add_quantization(
    parser: argparse.ArgumentParser, choices: Sequence[str], explanation: str
) -> None:
    explanation = f"number format of the weights; {explanation}"
    parser.add_argument("--quantization", choices=choices, help=explanation)


def add_score(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_ensemble(parser)
    add(
        "files",
        nargs="*",
        metavar="FILE",
        help="one file of lines SOURCE<TAB>TARGET, or a file of sources and one of targets, plain "
        "or .gz (default: lines SOURCE<TAB>TARGET from stdin)",
    )
    add_direction(parser)
    add_output(parser)
    formats = "jsonl: a JSON object a line, with pieces and words (default: text)"
    add("--format", choices=("text", "jsonl"), default="text", help=formats)
    explanation = "number format of the weights; bfloat16 is faster, and less exact"
    choices = ("float32", "bfloat16")
    add("--quantization", choices=choices, default="float32", help=explanation)
    add(
        "--tokenized",
        action="store_true",
        help="with --format jsonl: only spaces separate words",
    )


def add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", **FILE, help="write to FILE instead of stdout")
    parser.add_argument(
        "--resume", action="store_true", help="continue an interrupted --output FILE"
    )


def add_synthesis(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_run(parser)
    text = (
        "text in the source language of RUN, one sentence a line (default of distil: the text "
        "RUN was trained on)"
    )
    add("file", nargs="?", metavar="FILE", help=text)
    add(
        "--output",
        required=True,
        type=path,
        metavar="PREFIX",
        help="write two files, PREFIX.LANGUAGE",
    )
    add("--resume", action="store_true", help="continue after an interruption")
    add_direction(parser)
    add_engine(parser)
    add_candidates(parser)
    parser.set_defaults(engine="torch")


def add_student(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "overrides",
        nargs="*",
        metavar="TEACHER|KEY=VALUE",
        help="a run, RUN,RUN or hf:OWNER/NAME; settings of the training, as of nmt train",
    )
    text = (
        "text in the source language, one sentence a line; repeat it for more (default: only the "
        "text TEACHER was trained on)"
    )
    add("--text", action="append", default=[], **FILE, help=text)
    add(
        "--command",
        dest="command_line",
        metavar="PROGRAM",
        help="instead of TEACHER: a program that answers each line of its stdin with one line",
    )
    formats = "also export the student, as nmt export --format does; several with commas"
    parser.add_argument(
        "--export",
        type=lambda text: text.split(","),
        default=[],
        metavar="FORMAT,FORMAT",
        help=formats,
    )


def add_learn(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("name", metavar="RUN", help="name of a run, or its folder")
    add(
        "words",
        nargs="*",
        default=[],
        metavar="FILE|KEY=VALUE",
        help="further files of --from; settings of the training, as of nmt train",
    )
    add_runs(parser)
    add("--corrections", **FILE, help="accepted corrections of nmt serve --corrections FILE")
    files = (
        "corrections in .xlf, .po, .tmx, .tsv or another file of pairs, or SOURCE.docx+EDITED.docx "
        "and the like"
    )
    add("--from", dest="files", action="append", default=[], **FILE, help=files)
    test = "further pairs that must not become worse; needed where the text of the run is gone"
    add("--test", action="append", default=[], **FILE, help=test)
    add(
        "--margin",
        type=margin_value,
        default=0.5,
        metavar="X",
        help="BLEU that a test set of the run may lose (default: 0.5)",
    )


def add_rollback(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", metavar="RUN", help="name of a run, or its folder; RUN@N: version N"
    )
    add_runs(parser)


def add_backtranslation(parser: argparse.ArgumentParser) -> None:
    add_synthesis(parser)
    text = "begin each synthetic source with <bt>; helps with much more synthetic than real text"
    parser.add_argument("--tag", action="store_true", help=text)


def add_evaluate(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    add_scored(parser)
    noised = "also score the sets with uppercase, lowercase and misspelt sources"
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
    add(
        "--format",
        choices=tuple(FORMATS),
        required=True,
        help=f"format, and the program that opens it: {'; '.join(opened_by)}",
    )
    files = [name for name, format in FORMATS.items() if format.output == "file"]
    output = f"new folder, for {', '.join(files)} new file (default: below the run's folder)"
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
        explanation = f"the {side} language, if the run has several"
        parser.add_argument(f"--{side}", metavar="LANGUAGE", help=explanation)


def add_import(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "name",
        metavar="SOURCE",
        help="a folder, or hf:OWNER/NAME[@REVISION] of the Hugging Face hub",
    )
    add("--name", dest="run_name", metavar="NAME", required=True, help="name of the new run")
    add(
        "--source",
        metavar="LANGUAGE",
        help="source language of a multilingual model; several: de+fr",
    )
    add("--target", metavar="LANGUAGE", help="target language, in the same form")
    add(
        "--new",
        metavar="NEW=RELATED",
        help="add a language; its tag starts as a copy of that of RELATED",
    )
    add("--text", **FILE, help="with --new: text in that language, one sentence a line")
    add(
        "--pieces",
        type=positive,
        metavar="N",
        default=2000,
        help="pieces to learn from --text, besides its characters (default: 2000)",
    )
    add(
        "--trim",
        type=lambda text: list(map(path, text.split(","))),
        default=[],
        metavar="TEXT,TEXT",
        help="keep only the pieces that these texts need; one sentence a line, plain or .gz",
    )
    add_runs(parser)


def add_align(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_run(parser)
    add("sentence", nargs="?", metavar="SOURCE", help="source sentence; --source reads a file")
    add(
        "translation",
        nargs="?",
        metavar="TARGET",
        help="target sentence (default: the model's translation)",
    )
    add("--source", **FILE, help="file of sources, one sentence a line")
    add("--target", **FILE, help="file of targets, one sentence a line")
    add_extractor(parser)
    add("--heads", action="store_true", help="with --png, --html or --gold: show every head")
    formats = (
        "jsonl: a JSON object a line with words, weights and links of each pair (default: text)"
    )
    add("--format", choices=("text", "jsonl"), default="text", help=formats)
    add("--png", **FILE, help="write a heatmap; several sentences: FILE-1.png, FILE-2.png, …")
    add("--html", **FILE, help="write a page that shows what each word attends to")
    add(
        "--pharaoh",
        action="store_true",
        help="print links i-j between words, one line per sentence",
    )
    threshold = (
        "link all words with at least this attention weight (default: one link for each target "
        "word)"
    )
    add("--threshold", type=threshold_value, metavar="X", help=threshold)
    add(
        "--links",
        action="store_true",
        help="with --gold: also print the links of the best layer and step",
    )
    add_words(parser)
    drawn = (
        "gold links in Pharaoh format: print the error rate of each layer and step; with --png or "
        "--html, draw the links"
    )
    add_gold(parser, drawn)


def add_extractor(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    layer = "layer from 0, or negative from the top; L,L: their mean (default: the run's)"
    add("--layer", type=layers, metavar="L[,L]", help=layer)
    add("--head", type=int, metavar="H", help="head from 0 (default: the mean, or the guided head)")
    method = (
        "mean: weights of one layer; rollout: attention rollout through all layers (default: mean)"
    )
    add("--method", choices=("mean", "rollout"), default="mean", help=method)


def add_words(parser: argparse.ArgumentParser) -> None:
    step = (
        "take a target word's weights from the decoder step that predicts it (output) or from the "
        "next step, which reads it (input); --gold shows both (default: output, or that of the "
        "guided head)"
    )
    parser.add_argument("--decoder-step", choices=("output", "input"), help=step)
    parser.add_argument(
        "--tokenized",
        action="store_true",
        help="the text is tokenized: only spaces separate words",
    )


def add_gold(parser: argparse.ArgumentParser, purpose: str) -> None:
    parser.add_argument("--gold", **FILE, help=purpose)
    parser.add_argument(
        "--base",
        type=int,
        choices=(0, 1),
        default=0,
        help="number of the first word in link files (default: 0)",
    )
    parser.add_argument(
        "--reverse", action="store_true", help="link files name the target word first"
    )


def add_scored(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--split", help="test (all test sets), valid, or the name of one test set (default: test)")
    add("--source", **FILE, help="with --reference: text to score instead of the test sets")
    add(
        "--reference",
        action="append",
        **FILE,
        help="reference translations; repeat it for several references",
    )
    add(
        "--metrics",
        type=lambda text: text.split(","),
        default=[],
        metavar="NAME,NAME",
        help=METRICS_HELP,
    )
    add_gold(
        parser,
        "with --reference: gold links in Pharaoh format; also report the alignment error rate",
    )
    add("--tokenized", action="store_true", help="with links: only spaces separate words")
    pairs = (
        "other pairs with gold links on which layer and step are chosen (default: the "
        "validation set)"
    )
    add("--valid-source", **FILE, help=pairs)
    add("--valid-target", **FILE, help="target side of --valid-source")
    add("--valid-gold", **FILE, help="gold links of these pairs, in the format of --gold")


def add_serve(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("names", nargs="*", metavar="RUN", help="runs that translate; each for other languages")
    add_runs(parser)
    add(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="address to listen on; 0.0.0.0: the network (default: only this machine)",
    )
    add("--port", type=int, default=5000, metavar="N", help="port; 0: any free one (default: 5000)")
    add("--keys", **FILE, help="allow only clients with a key in this file")
    add(
        "--new-key",
        metavar="NAME",
        help="print a new key for NAME, add its hash to --keys, and exit",
    )
    add(
        "--cors",
        metavar="ORIGIN,ORIGIN",
        help="other websites whose scripts may call the API; *: any (default: none)",
    )
    for name, explanation in (
        ("glossary", GLOSSARY_HELP),
        ("memory", "answer with the translations of a TMX or other file of pairs"),
    ):
        add(
            f"--{name}",
            action="append",
            default=[],
            type=path,
            metavar="[RUN=]FILE",
            help=f"{explanation}; of all runs, or of one",
        )
    add("--corrections", **FILE, help="keep the corrections of users in this file, made if missing")
    add(
        "--accept",
        action="append",
        default=[],
        metavar="NAME",
        help="with --corrections: those with the key of NAME count at once; repeat it for more",
    )
    add(
        "--max-models",
        type=positive,
        default=0,
        metavar="N",
        help="most runs in memory; others are loaded when they are used (default: all)",
    )
    add(
        "--access-log",
        choices=("text", "json"),
        help="log a line for each request, and messages with their time (default: messages only)",
    )
    add(
        "--root-path",
        default="",
        metavar="PATH",
        help="where a proxy offers the service, such as /translate (default: /)",
    )
    add(
        "--forwarded-allow-ips",
        default="127.0.0.1",
        metavar="ADDRESS,ADDRESS",
        help="proxies that are believed what the client's address is; *: any (default: 127.0.0.1)",
    )
    for name, default, explanation in (
        ("characters", 20_000, "most characters in a request"),
        ("texts", 500, "most texts in a request"),
        ("megabytes", 10, "largest document"),
        ("seconds", 60, "longest time for a request"),
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
        help="most requests of a client per minute (default: no limit)",
    )
    add(
        "--beam",
        type=positive,
        metavar="N",
        help="hypotheses of the beam search (default: each run's)",
    )
    add("--batch-tokens", type=positive, metavar="N", help="source positions × beam in one batch")
    add_engine(parser)


def add_corrections(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "action",
        choices=("list", "accept", "refuse", "export", "delete"),
        metavar="ACTION",
        help="list: all, with what the audit says; accept: let them count; refuse: do not; export: "
        "write those that count; delete: forget them",
    )
    add("file", metavar="FILE", help="the file of nmt serve --corrections")
    add(
        "ids",
        nargs="*",
        type=positive,
        metavar="NUMBER",
        help="which (default of accept: all that wait and that the audit has nothing against)",
    )
    add("--key", metavar="NAME", help="all that came with the key of NAME; '': without a key")
    add("--output", **FILE, help="export: FILE.tmx or FILE.tsv")


def add_pair(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("first", metavar="A", type=path, help="a document (Word, HTML, text …)")
    add("second", metavar="B", type=path, help="its translation, in any of these formats")
    add(
        "--output",
        required=True,
        **FILE,
        help="write the pairs to FILE.tsv, and what is doubtful to FILE.doubtful.tsv",
    )
    judge = "a run that translates from the language of A to that of B, to find more pairs"
    add("--run", metavar="RUN", help=judge)
    add_runs(parser)
    for side, name in (("source", "A"), ("target", "B")):
        explanation = f"the language of {name} (default: that of the run, or of the text)"
        add(f"--{side}", metavar="LANGUAGE", help=explanation)


def add_compare(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "names",
        nargs="+",
        metavar="RUN",
        help="runs to compare; p values are for the difference from the first",
    )
    add_runs(parser)
    add_scored(parser)
    add(
        "--output",
        default="runs/compare",
        **DIR,
        help="folder for the tables, the page and the JSON (default: runs/compare)",
    )
    add(
        "--samples",
        type=positive,
        default=1000,
        metavar="N",
        help="bootstrap resamples (default: 1000)",
    )
    add(
        "--beam",
        type=positive,
        metavar="N",
        help="hypotheses of the beam search (default: each run's)",
    )
    add(
        "--long",
        type=positive,
        metavar="K",
        help="also score inputs of 2 to K joined sentences",
    )
    add(
        "--sentences",
        metavar="N,N",
        help="lines of the first set to draw (default: three short ones)",
    )

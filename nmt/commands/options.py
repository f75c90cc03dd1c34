"""The commands and their options.

Nothing that takes time is imported here, so that `nmt --help` is instant.
"""

import argparse
import contextlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from nmt import __version__
from nmt.corpus.packed import OPENERS
from nmt.errors import UserError, did_you_mean

# ~ and ~user where a name begins: after the signs with which names are listed too, as in KEY=~/FILE
HOME = re.compile(r"(?:^|(?<=[,+=\[]))~(?:[^/,+=]*(?=/)|$)")


def with_home(text: str) -> str:
    """A text in which names of files begin with the home folder, as a shell would give them.

    A shell leaves ~ as it is in quotes, and behind = and a comma.
    """
    return HOME.sub(lambda match: os.path.expanduser(match[0]), text)


def path(text: str) -> str:
    if not text:  # as where a shell variable is unset
        raise argparse.ArgumentTypeError("the name is empty")
    return with_home(text)


def output_file(text: str) -> str:
    if text == "-":
        raise argparse.ArgumentTypeError("'-' is no file; leave the option out to write to stdout")
    if text.endswith(tuple(OPENERS)):
        raise argparse.ArgumentTypeError(f"'{text}' would not be packed; leave out its last ending")
    return path(text)


def number(most: int, or_zero: bool = False) -> Callable[[str], float]:
    """What reads a number above 0, or from 0 on, up to `most`."""
    possible = f"from 0 to {most}" if or_zero else f"above 0 and at most {most}"

    def read(text: str) -> float:
        with contextlib.suppress(ValueError):
            value = float(text)
            if 0 < value <= most or (or_zero and value == 0):
                return value
        raise argparse.ArgumentTypeError(f"'{text}' is not a number {possible}")

    return read


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


def words(text: str) -> list[str]:
    return text.split(",")


# What reads a value, by what help calls it; all others are read as text
TYPES: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("FILE", "[RUN=]FILE", "FOLDER", "DIR", "PREFIX", "IN… OUT", "A", "B"), path),
    **dict.fromkeys(("N", "K", "NUMBER"), positive),
    "L[,L]": layers,
    **dict.fromkeys(("NAME,NAME", "FORMAT,FORMAT"), words),
    # a RUN may be a folder, and the words may be files
    **dict.fromkeys(("RUN", "FILE|KEY=VALUE", "TEACHER|KEY=VALUE"), with_home),
    "TEXT,TEXT": lambda text: list(map(path, words(text))),
}
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


class Parser(argparse.ArgumentParser):
    """Raises UserError with one sentence instead of printing the usage and exiting."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message[:1].upper()}{message[1:].rstrip('.')}; see {self.prog} --help.")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Argparse would list all choices without naming the nearest."""
        choices = list(map(str, action.choices or ()))
        if choices and str(value) not in choices:
            name = "/".join(action.option_strings) or str(action.metavar).lower()
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
        add_option(
            command,
            "overrides FILE|KEY=VALUE",
            "files of pairs, such as pairs.tmx; settings, such as model=bahdanau (see below)",
            nargs="*",
        )
        command.add_argument(
            "-m", "--multirun", action="store_true", help="run once for each combination of KEY=A,B"
        )
        if name == "audit":
            add_options(
                command,
                {
                    "--clean PREFIX": (
                        "write the training pairs that pass to PREFIX.LANGUAGE, the others to "
                        "PREFIX.rejected.tsv"
                    ),
                    "--forward RUN": (
                        "a run that translates from source to target: report what it finds "
                        "improbable"
                    ),
                    "--backward RUN": "with or without --forward: the same, from target to source",
                },
            )
        command.set_defaults(command=name, module="audit" if name == "audit" else "pipeline")
    for name, purpose, add in (
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
        add(command)
        command.set_defaults(command=name, module=MODULES.get(name, name))
    return parser


def add_option(parser: argparse._ActionsContainer, usage: str, help: str, **more: Any) -> None:
    """Add an option such as `--input FILE`, a switch `--heads`, or a positional `name RUN`."""
    name, _, metavar = usage.partition(" ")
    if metavar:
        kind = more.pop("type", TYPES.get(metavar, str))
        parser.add_argument(name, metavar=metavar, help=help, type=kind, **more)
    else:
        parser.add_argument(name, action="store_true", help=help)


def add_options(parser: argparse._ActionsContainer, helps: Mapping[str, str]) -> None:
    for usage, help in helps.items():
        add_option(parser, usage, help)


def add_runs(parser: argparse.ArgumentParser) -> None:
    add_option(parser, "--runs DIR", "folder of the runs (default: runs)", default="runs")


def add_completion(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "shell",
        choices=("bash", "zsh", "fish"),
        metavar="SHELL",
        help='bash, zsh: eval "$(nmt completion bash)" in ~/.bashrc; fish: nmt completion fish | '
        "source",
    )


def add_single_run(parser: argparse.ArgumentParser) -> None:
    add_option(parser, "name RUN", "name of a run, folder, checkpoint file, or latest")
    add_runs(parser)


def add_ensemble(parser: argparse.ArgumentParser) -> None:
    add_option(
        parser,
        "name RUN",
        "name of a run, folder, checkpoint file, or latest; RUN,RUN: an ensemble",
    )
    add_runs(parser)


def add_run(parser: argparse.ArgumentParser) -> None:
    add_ensemble(parser)
    add_options(
        parser,
        {
            "--beam N": "hypotheses of the beam search (default: the run's)",
            "--batch-tokens N": "source positions × beam in one batch",
        },
    )


def add_translate(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    add_option(
        parser,
        "sentences SENTENCE",
        "a sentence to translate; without any, --input or stdin is read",
        nargs="*",
        default=[],
    )
    add_options(
        parser,
        {
            "--input FILE": "text to translate, one sentence a line, plain or packed",
            "--document FILE": (
                "translate a document (text, Markdown, HTML, subtitles, Office …) and keep its "
                "markup"
            ),
        },
    )
    add_option(
        parser,
        "--documents IN… OUT",
        "translate documents and folders of documents into a folder",
        action="append",
    )
    add_option(
        parser,
        "--memory FILE",
        "documents: reuse translations of a TMX or other file of pairs; in XLIFF, also show "
        "similar ones",
    )
    add_direction(parser)
    add_option(parser, "--retranslate", "documents: also replace existing translations")
    add_option(
        parser,
        "--columns FROM:TO",
        "tables: columns of texts and of translations, by number or name",
        default="",
    )
    add_output(parser)
    add_format(parser, " with scores, confidences and alignment")
    add_engine(parser)
    add_option(
        parser,
        "--nbest N",
        "the N best translations; as text, N lines SCORE<TAB>TEXT for each sentence",
        default=1,
    )
    add_candidates(parser)
    add_option(parser, "--glossary FILE", GLOSSARY_HELP)
    add_option(
        parser,
        "--prefix TEXT",
        "begin every translation with TEXT; the model continues it",
        default="",
    )
    add_option(
        parser,
        "--min-chrf X",
        "with --format jsonl: mark lines with a lower expected chrF, and those that are detached "
        "or leave words out, as doubtful; in documents they are to review (default: 50)",
        type=number(100),
    )
    add_options(
        parser,
        {
            "--copy-doubtful": "with --min-chrf: write the source of doubtful lines instead",
            "--mark-doubtful": "write (?) after words that are more likely wrong than right",
            "--weights": "with --format jsonl: also the attention weights between words",
        },
    )
    add_extractor(parser)
    add_words(parser)


def add_candidates(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("sampling, and the choice among several translations")
    add_option(
        group, "--samples N", "draw N translations of each sentence at random, in place of the beam"
    )
    add_option(
        group,
        "--temperature T",
        "draw from p^(1/T): below 1 more probable words, above 1 more variety (default: 1)",
        type=float,
        default=1.0,
    )
    add_option(group, "--top-k K", "draw among the K most probable pieces")
    add_option(
        group,
        "--top-p P",
        "draw among the fewest pieces that have the probability P together (default: 0.7; 1: all "
        "pieces)",
        type=number(1),
        default=0.7,
    )
    add_option(group, "--seed S", "another seed, other draws (default: 1)", type=int, default=1)
    group.add_argument(
        "--choose",
        choices=("mbr", "reference"),
        help="write one of the samples, or of the beam: mbr: the one that is most like all of "
        "them; reference: the one nearest to --reference (both by chrF)",
    )
    add_option(group, "--reference FILE", "true translations of the file, line by line")


def add_engine(parser: argparse.ArgumentParser) -> None:
    from nmt.convert.formats import FORMATS

    parser.add_argument(
        "--engine",
        choices=("auto", "torch", "ctranslate2"),
        default="auto",
        help="engine of the search; auto: the faster one (default of nmt translate)",
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
    add_ensemble(parser)
    add_option(
        parser,
        "files FILE",
        "one file of lines SOURCE<TAB>TARGET, or a file of sources and one of targets, plain or "
        "packed (default: lines SOURCE<TAB>TARGET from stdin)",
        nargs="*",
    )
    add_direction(parser)
    add_output(parser)
    add_format(parser, ", with pieces and words")
    parser.add_argument(
        "--quantization",
        choices=("float32", "bfloat16"),
        default="float32",
        help="number format of the weights; bfloat16 is faster, and less exact",
    )
    add_option(parser, "--tokenized", "with --format jsonl: only spaces separate words")


def add_output(parser: argparse.ArgumentParser) -> None:
    add_option(parser, "--output FILE", "write to FILE instead of stdout", type=output_file)
    add_option(parser, "--resume", "continue an interrupted --output FILE")


def add_format(parser: argparse.ArgumentParser, content: str) -> None:
    explanation = f"jsonl: a JSON object a line{content} (default: text)"
    parser.add_argument("--format", choices=("text", "jsonl"), default="text", help=explanation)


def add_synthesis(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    add_option(
        parser,
        "file FILE",
        "text in the source language of RUN, one sentence a line (default of distil: the text RUN "
        "was trained on)",
        nargs="?",
    )
    add_option(parser, "--output PREFIX", "write two files, PREFIX.LANGUAGE", required=True)
    add_option(parser, "--resume", "continue after an interruption")
    add_direction(parser)
    add_engine(parser)
    add_candidates(parser)
    parser.set_defaults(engine="torch")


def add_student(parser: argparse.ArgumentParser) -> None:
    add_option(
        parser,
        "overrides TEACHER|KEY=VALUE",
        "a run, RUN,RUN or hf:OWNER/NAME; settings of the training, as of nmt train",
        nargs="*",
    )
    text = (
        "text in the source language, one sentence a line; repeat it for more (default: only the "
        "text TEACHER was trained on)"
    )
    add_option(parser, "--text FILE", text, action="append", default=[])
    add_option(
        parser,
        "--command PROGRAM",
        "instead of TEACHER: a program that answers each line of its stdin with one line",
        dest="command_line",
    )
    add_option(
        parser,
        "--export FORMAT,FORMAT",
        "also export the student, as nmt export --format does; several with commas",
        default=[],
    )


def add_learn(parser: argparse.ArgumentParser) -> None:
    add_option(parser, "name RUN", "name of a run, or its folder")
    add_option(
        parser,
        "words FILE|KEY=VALUE",
        "further files of --from; settings of the training, as of nmt train",
        nargs="*",
        default=[],
    )
    add_runs(parser)
    add_option(parser, "--corrections FILE", "accepted corrections of nmt serve --corrections FILE")
    add_option(
        parser,
        "--from FILE",
        "corrections in .xlf, .po, .tmx, .tsv or another file of pairs, or "
        "SOURCE.docx+EDITED.docx and the like",
        dest="files",
        action="append",
        default=[],
    )
    add_option(
        parser,
        "--test FILE",
        "further pairs that must not become worse; needed where the text of the run is gone",
        action="append",
        default=[],
    )
    add_direction(parser)
    add_option(
        parser,
        "--margin X",
        "BLEU that a test set of the run may lose (default: 0.5)",
        type=number(100, or_zero=True),
        default=0.5,
    )


def add_rollback(parser: argparse.ArgumentParser) -> None:
    add_option(parser, "name RUN", "name of a run, its folder, or latest; RUN@N: version N")
    add_runs(parser)


def add_backtranslation(parser: argparse.ArgumentParser) -> None:
    add_synthesis(parser)
    add_option(
        parser,
        "--tag",
        "begin each synthetic source with <bt>; helps with much more synthetic than real text",
    )


def add_evaluate(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    add_scored(parser)
    add_option(
        parser, "--noised", "also score the sets with uppercase, lowercase and misspelt sources"
    )


def add_export(parser: argparse.ArgumentParser) -> None:
    from nmt.convert.formats import (
        FORMATS,
        formats_with,
        options_of_formats,
        quantizations_of_formats,
    )

    add_single_run(parser)
    opened_by = [f"{name}: {format.opened_by}" for name, format in FORMATS.items()]
    parser.add_argument(
        "--format",
        choices=tuple(FORMATS),
        required=True,
        help=f"format, and the program that opens it: {'; '.join(opened_by)}",
    )
    files = [name for name, format in FORMATS.items() if format.output == "file"]
    add_option(
        parser,
        "--output FOLDER",
        f"new folder, for {', '.join(files)} new file (default: below the run's folder)",
    )
    first = [f"{name}: {format.quantizations[0]}" for name, format in FORMATS.items()]
    add_quantization(parser, quantizations_of_formats(), f"default for {', '.join(first)}")
    for option in options_of_formats():
        names = ", ".join(formats_with(option))
        add_option(
            parser, f"{option.flag} {option.metavar}", f"{names}: {option.help}", dest=option.field
        )


def add_direction(parser: argparse.ArgumentParser) -> None:
    for side in ("source", "target"):
        add_option(parser, f"--{side} LANGUAGE", f"the {side} language, if the run has several")


def add_import(parser: argparse.ArgumentParser) -> None:
    add_option(
        parser,
        "name SOURCE",
        "a folder, or hf:OWNER/NAME[@REVISION] of the Hugging Face hub",
        type=with_home,
    )
    add_option(parser, "--name NAME", "name of the new run", dest="run_name", required=True)
    add_options(
        parser,
        {
            "--source LANGUAGE": "source language of a multilingual model; several: de+fr",
            "--target LANGUAGE": "target language, in the same form",
            "--new NEW=RELATED": "add a language; its tag starts as a copy of that of RELATED",
            "--text FILE": "with --new: text in that language, one sentence a line",
        },
    )
    add_option(
        parser,
        "--pieces N",
        "pieces to learn from --text, besides its characters (default: 2000)",
        default=2000,
    )
    add_option(
        parser,
        "--trim TEXT,TEXT",
        "keep only the pieces that these texts need; one sentence a line, plain or packed",
        default=[],
    )
    add_runs(parser)


def add_align(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    add_option(parser, "sentence SOURCE", "source sentence; --source reads a file", nargs="?")
    add_option(
        parser,
        "translation TARGET",
        "target sentence (default: the model's translation)",
        nargs="?",
    )
    add_options(
        parser,
        {
            "--source FILE": "file of sources, one sentence a line",
            "--target FILE": "file of targets, one sentence a line",
        },
    )
    add_extractor(parser)
    add_option(parser, "--heads", "with --png, --html or --gold: show every head")
    add_format(parser, " with words, weights and links of each pair")
    add_options(
        parser,
        {
            "--png FILE": "write a heatmap; several sentences: FILE-1.png, FILE-2.png, …",
            "--html FILE": "write a page that shows what each word attends to",
            "--pharaoh": "print links i-j between words, one line per sentence",
        },
    )
    add_option(
        parser,
        "--threshold X",
        "link all words with at least this attention weight (default: one link for each target "
        "word)",
        type=number(1),
    )
    add_option(parser, "--links", "with --gold: also print the links of the best layer and step")
    add_words(parser)
    drawn = (
        "gold links in Pharaoh format: print the error rate of each layer and step; with --png or "
        "--html, draw the links"
    )
    add_gold(parser, drawn)


def add_extractor(parser: argparse.ArgumentParser) -> None:
    add_option(
        parser,
        "--layer L[,L]",
        "layer from 0, or negative from the top; L,L: their mean (default: the run's)",
    )
    add_option(parser, "--head H", "head from 0 (default: the mean, or the guided head)", type=int)
    parser.add_argument(
        "--method",
        choices=("mean", "rollout"),
        default="mean",
        help="mean: weights of one layer; rollout: attention rollout through all layers "
        "(default: mean)",
    )


def add_words(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--decoder-step",
        choices=("output", "input"),
        help="take a target word's weights from the decoder step that predicts it (output) or from "
        "the next step, which reads it (input); --gold shows both (default: output, or that of the "
        "guided head)",
    )
    add_option(parser, "--tokenized", "the text is tokenized: only spaces separate words")


def add_gold(parser: argparse.ArgumentParser, purpose: str) -> None:
    add_option(parser, "--gold FILE", purpose)
    parser.add_argument(
        "--base",
        type=int,
        choices=(0, 1),
        default=0,
        help="number of the first word in link files (default: 0)",
    )
    add_option(parser, "--reverse", "link files name the target word first")


def add_scored(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--split", help="test (all test sets), valid, or the name of one test set (default: test)"
    )
    add_option(parser, "--source FILE", "with --reference: text to score instead of the test sets")
    add_option(
        parser,
        "--reference FILE",
        "reference translations; repeat it for several references",
        action="append",
    )
    add_option(parser, "--metrics NAME,NAME", METRICS_HELP, default=[])
    add_gold(
        parser,
        "with --reference: gold links in Pharaoh format; also report the alignment error rate",
    )
    add_option(parser, "--tokenized", "with links: only spaces separate words")


def add_serve(parser: argparse.ArgumentParser) -> None:
    add_option(parser, "names RUN", "runs that translate; each for other languages", nargs="*")
    add_runs(parser)
    add_option(
        parser,
        "--host ADDRESS",
        "address to listen on; 0.0.0.0: the network (default: only this machine)",
        default="127.0.0.1",
    )
    add_option(parser, "--port N", "port; 0: any free one (default: 5000)", type=int, default=5000)
    add_options(
        parser,
        {
            "--keys FILE": "allow only clients with a key in this file",
            "--new-key NAME": "print a new key for NAME, add its hash to --keys, and exit",
            "--cors ORIGIN,ORIGIN": (
                "other websites whose scripts may call the API; *: any (default: none)"
            ),
        },
    )
    for name, explanation in (
        ("glossary", GLOSSARY_HELP),
        ("memory", "answer with the translations of a TMX or other file of pairs"),
    ):
        add_option(
            parser,
            f"--{name} [RUN=]FILE",
            f"{explanation}; of all runs, or of one",
            action="append",
            default=[],
        )
    add_option(
        parser, "--corrections FILE", "keep the corrections of users in this file, made if missing"
    )
    add_option(
        parser,
        "--accept NAME",
        "with --corrections: those with the key of NAME count at once; repeat it for more",
        action="append",
        default=[],
    )
    add_option(
        parser,
        "--max-models N",
        "most runs in memory; others are loaded when they are used (default: all)",
        default=0,
    )
    parser.add_argument(
        "--access-log",
        choices=("text", "json"),
        help="log a line for each request, and messages with their time (default: messages only)",
    )
    add_option(
        parser,
        "--root-path PATH",
        "where a proxy offers the service, such as /translate (default: /)",
        default="",
    )
    add_option(
        parser,
        "--forwarded-allow-ips ADDRESS,ADDRESS",
        "proxies that are believed what the client's address is; *: any (default: 127.0.0.1)",
        default="127.0.0.1",
    )
    for name, default, explanation in (
        ("characters", 20_000, "most characters in a request"),
        ("texts", 500, "most texts in a request"),
        ("megabytes", 10, "largest document"),
        ("seconds", 60, "longest time for a request"),
    ):
        add_option(parser, f"--{name} N", f"{explanation} (default: {default})", default=default)
    add_option(
        parser,
        "--requests N",
        "most requests of a client per minute (default: no limit)",
        default=0,
    )
    add_options(
        parser,
        {
            "--beam N": "hypotheses of the beam search (default: each run's)",
            "--batch-tokens N": "source positions × beam in one batch",
        },
    )
    add_engine(parser)


def add_corrections(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        choices=("list", "accept", "refuse", "export", "delete"),
        metavar="ACTION",
        help="list: all, with what the audit says; accept: let them count; refuse: do not; export: "
        "write those that count; delete: forget them",
    )
    add_option(parser, "file FILE", "the file of nmt serve --corrections")
    add_option(
        parser,
        "ids NUMBER",
        "which (default of accept: all that wait and that the audit has nothing against)",
        nargs="*",
    )
    add_options(
        parser,
        {
            "--key NAME": "all that came with the key of NAME; '': without a key",
            "--output FILE": "export: FILE.tmx or FILE.tsv",
        },
    )


def add_pair(parser: argparse.ArgumentParser) -> None:
    add_options(
        parser,
        {
            "first A": "a document (Word, HTML, text …)",
            "second B": "its translation, in any of these formats",
        },
    )
    add_option(
        parser,
        "--output FILE",
        "write the pairs to FILE.tsv, and what is doubtful to FILE.doubtful.tsv",
        required=True,
    )
    add_option(
        parser,
        "--run RUN",
        "a run that translates from the language of A to that of B, to find more pairs",
    )
    add_runs(parser)
    for side, name in (("source", "A"), ("target", "B")):
        add_option(
            parser,
            f"--{side} LANGUAGE",
            f"the language of {name} (default: that of the run, or of the text)",
        )


def add_compare(parser: argparse.ArgumentParser) -> None:
    add_option(
        parser,
        "names RUN",
        "runs to compare; p values are for the difference from the first",
        nargs="+",
    )
    add_runs(parser)
    add_scored(parser)
    add_option(
        parser,
        "--output DIR",
        "folder for the tables, the page and the JSON (default: runs/compare)",
        default="runs/compare",
    )
    add_option(parser, "--samples N", "bootstrap resamples (default: 1000)", default=1000)
    add_options(
        parser,
        {
            "--beam N": "hypotheses of the beam search (default: each run's)",
            "--long K": "also score inputs of 2 to K joined sentences",
            "--sentences N,N": "lines of the first set to draw (default: three short ones)",
        },
    )

"""The command line: parse it, run one command, and turn errors into one sentence and an exit code.

    nmt download|tokenize|train [KEY=VALUE …] [-m]
    nmt translate RUN [SENTENCE …]
    nmt evaluate RUN
    nmt align RUN [SOURCE [TARGET]]
    nmt export RUN --format ctranslate2
    nmt compare RUN [RUN …]

stdout carries data only, everything else goes to stderr; a person's mistake is one sentence and exit code 2.
"""

import argparse
import errno
import io
import os
import sys
from collections.abc import Sequence

from nmt.errors import Stopped, UserError
from nmt.options import COMPOSED_COMMANDS, make_parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    from nmt.view.progress import install_logging

    install_logging()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # data looks the same on every machine
    if sys.stdin is None:  # closed, as <&- does
        sys.stdin = open(os.devnull, encoding="utf-8")
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
    except (RuntimeError, MemoryError) as error:
        on_device = type(error).__name__ == "OutOfMemoryError"  # torch's; importing it would make `nmt --help` slow
        if not (on_device or isinstance(error, MemoryError) or "can't allocate memory" in str(error)):
            raise
        where = "GPU's" if on_device else "machine's"
        print(f"nmt: The {where} memory is full; make train.batch_tokens or --batch-tokens smaller.", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("nmt: interrupted.", file=sys.stderr)
        return 130


def forget_output() -> None:
    """Python shall not try once more to write what nobody can read."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    commands = {"translate": run_translate, "evaluate": run_evaluate, "align": run_align, "compare": run_compare}
    return make_parser(dict.fromkeys(COMPOSED_COMMANDS, run_composed) | commands | {"export": run_export})


def run_composed(options: argparse.Namespace) -> int:
    """download, tokenize, train: one configuration, or one for each combination."""
    from nmt import compose, pipeline  # here: `nmt --help` shall be instant

    configs = compose.compose_all(options.overrides, options.multirun)  # all are checked before any is run
    codes = []
    for config in configs:
        try:
            results = getattr(pipeline, options.command)(config) or []
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
    from nmt.commands.translate import translate

    return translate(options)


def run_evaluate(options: argparse.Namespace) -> int:
    """nmt evaluate."""
    from nmt.commands.evaluate import evaluate

    return evaluate(options)


def run_align(options: argparse.Namespace) -> int:
    """nmt align."""
    from nmt.commands.align import align

    return align(options)


def run_export(options: argparse.Namespace) -> int:
    """nmt export."""
    from nmt.commands.export import export

    return export(options)


def run_compare(options: argparse.Namespace) -> int:
    """nmt compare."""
    from nmt.commands.compare import compare

    return compare(options)


if __name__ == "__main__":
    sys.exit(main())

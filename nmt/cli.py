"""The command line: parse it, run one command, and turn errors into one sentence and an exit code.

    nmt audit [KEY=VALUE …]
    nmt suggest|download|tokenize|train [KEY=VALUE …] [-m]
    nmt translate RUN [SENTENCE …]
    nmt evaluate RUN
    nmt score RUN [FILE [FILE]]
    nmt align RUN [SOURCE [TARGET]]
    nmt student TEACHER [KEY=VALUE …]
    nmt backtranslate|distil RUN --output PREFIX [--tag] [FILE]
    nmt export RUN --format FORMAT
    nmt compare RUN [RUN …]
    nmt serve RUN [RUN …]
    nmt learn RUN --corrections FILE | --from FILE … [KEY=VALUE …]
    nmt rollback RUN
    nmt corrections list|accept|refuse|export|delete FILE
    nmt list
    nmt info RUN
    nmt verify RUN

stdout carries data only, everything else goes to stderr; a user's mistake is one sentence and exit
code 2.
"""

import errno
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from nmt.commands.options import make_parser
from nmt.errors import ProcessLost, Stopped, UserError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    from nmt.view.progress import install_logging
    from nmt.view.text import visible

    open_closed_streams()
    install_logging()
    if isinstance(sys.stdout, io.TextIOWrapper):  # data is the same on every machine
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        options = make_parser().parse_args(arguments or ["--help"])
        refuse_several_processes(arguments[0])
        code = import_module(f"nmt.commands.{options.module}").run(options)
        sys.stdout.flush()
        return code
    except UserError as error:
        if reports(error):
            print(f"nmt: {visible(str(error))}", file=sys.stderr)
        return 128 + error.signal if isinstance(error, Stopped) else 2
    except BrokenPipeError:  # the reader of our output left, as `head` does
        discard_output()
        return 141
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EBADF):
            raise
        discard_output()
        reason = "stdout is closed" if error.errno == errno.EBADF else error.strerror
        print(f"nmt: The output cannot be written: {reason}.", file=sys.stderr)
        return 2
    except (RuntimeError, MemoryError) as error:
        if type(error).__name__ == "OutOfMemoryError":  # torch's; its import takes long
            owner = "GPU's"
        elif isinstance(error, MemoryError) or "can't allocate memory" in str(error):
            owner = "machine's"
        else:
            raise
        print(
            f"nmt: The {owner} memory is full; make train.batch_tokens or --batch-tokens smaller.",
            file=sys.stderr,
        )
        return 2
    except KeyboardInterrupt:
        print("nmt: interrupted.", file=sys.stderr)
        return 130


def open_closed_streams() -> None:
    """Give a stream that is closed, as <&- or >&- does, a file that refuses what it is for.

    So a command that needs stdin or stdout says that it is closed (EBADF), and the others work. A
    file opened later cannot get the number of a stream, and with it what libraries print.
    """
    if sys.stdin is None:
        sys.stdin = open(os.open(os.devnull, os.O_WRONLY), encoding="utf-8")
    if sys.stdout is None:
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")
    if sys.stderr is None:  # messages, which nobody wants
        sys.stderr = open(os.devnull, "w", encoding="utf-8")


def refuse_several_processes(command: str) -> None:
    """Raise UserError under torchrun for a command that can use one process only."""
    if is_one_of_several() and command != "train":
        raise UserError(
            f"Only `nmt train` can be run in several processes by torchrun; run nmt {command} "
            "without it."
        )


def reports(error: UserError) -> bool:
    """Whether this process reports an error; of several processes, process 0 reports for all.

    The others only report what process 0 may not meet: an error after they have joined, other than
    a lost process or a signal.
    """
    if not is_one_of_several() or os.environ["RANK"] == "0":
        return True
    from nmt.training.distributed import has_joined

    return has_joined() and not isinstance(error, ProcessLost | Stopped)


def is_one_of_several() -> bool:
    """Whether torchrun started this process and others."""
    return (
        "MASTER_ADDR" in os.environ
        and "RANK" in os.environ
        and os.environ.get("WORLD_SIZE", "1") != "1"
    )


def discard_output() -> None:
    """Redirect stdout to nothing, so that Python does not try to write it once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

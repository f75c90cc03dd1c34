"""nmt translate over a pipe of a million lines, bad ones among them, while workers are killed."""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator

from resident_memory import TINY, Curve, children, resident_mib

SENTENCES = [
    f"{who} {does} {what}."
    for who in ("Der Mann", "Die Frau", "Ein Kind", "Mein Bruder")
    for does in ("sieht", "kauft", "sucht")
    for what in ("das Haus", "zwei Bücher", "kein Brot")
]
# blank or not UTF-8
BLANK = [b"", b"   ", b"\r", b"M\xfcller", b"\xed\xa0\x80", b"\xff\xfe\x00", b"\xc3"]
STRANGE = [
    b"Ja.\0Nein.",
    b"\x1b[2J\x07",
    "a\u2028b\u0085c".encode(),
    b"\\ud800",
    "👩‍👩‍👧 \u202e".encode(),
    b"\xef\xbb\xbfJa.",
    b"Ja.\rNein.",
    b'{"text": "\\udc80"}',
]
# of bad lines; lines between two of a megabyte
SHARE = 0.01
LONG = 250_000
WARM_UP = 0.2  # of the lines
MOST = 2.0  # MiB per 100,000 lines


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--lines", type=int, default=1_000_000, metavar="N", help="default: 1,000,000"
    )
    parser.add_argument(
        "--kills", type=int, default=20, metavar="N", help="workers killed on the way (default: 20)"
    )
    parser.add_argument("--seed", type=int, default=1)


def run(options: argparse.Namespace) -> int:
    """Train a tiny model, send it the lines, and check that each has its answer in its place."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "nmt",
            "translate",
            "tiny",
            "--runs",
            f"{folder}/runs",
            "--beam",
            "1",
        ]
        train(folder)
        text = "".join(f"{sentence}\n" for sentence in SENTENCES)
        alone = subprocess.run(
            command, input=text.encode(), capture_output=True, check=True
        ).stdout.splitlines()
        answers = dict(zip(SENTENCES, alone, strict=True))
        with open(f"{folder}/stderr", "w+", encoding="utf-8") as messages:
            return check(options, command, answers, messages)


def train(folder: str) -> None:
    import nmt

    folders = [f"data_folder={folder}/data", f"run_folder={folder}/runs"]
    nmt.train(*TINY, *folders, "name=tiny", "train.max_steps=400", "train.validate_every=200")


def lines(count: int, seed: int) -> Iterator[bytes]:
    """The input: sentences, one in a hundred bad, and some of a megabyte."""
    draw = random.Random(seed)
    for number in range(count):
        if number % LONG == 1000:
            yield b"Der Mann sieht das Haus. " * 40_000
        elif draw.random() < SHARE:
            yield draw.choice(BLANK + STRANGE)
        else:
            yield draw.choice(SENTENCES).encode()


def check(
    options: argparse.Namespace, command: list[str], answers: dict[str, bytes], messages: object
) -> int:
    curve = Curve()
    draw = random.Random(options.seed)
    environment = os.environ | {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "2")}
    began = time.monotonic()
    kills = 0
    count = 0
    wrong = 0
    unlike = 0
    with subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=messages,  # type: ignore[call-overload]
    ) as process:
        threading.Thread(target=send, args=(process.stdin, options), daemon=True).start()
        for count, (line, answer) in enumerate(
            zip(lines(options.lines, options.seed), process.stdout, strict=False), 1
        ):
            if line in BLANK:
                wrong += answer != b"\n"
            elif wanted := answers.get(line.decode(errors="replace")):
                unlike += answer.rstrip(b"\n") != wanted
                wrong += bool(wanted) and answer == b"\n"
            if count % 100_000 == 0:
                print(
                    f"{count} answers, {wrong} wrong, {time.monotonic() - began:.0f} s",
                    file=sys.stderr,
                    flush=True,
                )
            if count % 5000 == 0:
                curve.add(
                    count, resident_mib(process.pid) + sum(map(resident_mib, children(process.pid)))
                )
            if kills < options.kills and count * (options.kills + 1) > options.lines * (kills + 1):
                kills += kill_a_worker(process.pid, draw)
        more = len(process.stdout.read())
        code = process.wait()
    slope = curve.slope(WARM_UP * options.lines) * 100_000
    messages.seek(0)  # type: ignore[attr-defined]
    text = messages.read()  # type: ignore[attr-defined]
    replaced = text.count("A worker process was killed")
    seconds = time.monotonic() - began
    print(
        "lines\tanswered\twrong\tlike "
        "alone\tkills\treplaced\tseconds\tlines/s\tMiB\twarm\tlast\tmost\tMiB/100,000"
    )
    print(
        f"{options.lines}\t{count}\t{wrong}\t{1 - unlike / max(count, 1):.4f}\t"
        f"{kills}\t{replaced}\t{seconds:.0f}\t"
        f"{count / seconds:.0f}\t{curve.row(WARM_UP * options.lines)}\t{slope:+.2f}"
    )
    print(text[-300:], file=sys.stderr)
    failed = (
        code
        or more
        or wrong
        or count != options.lines
        or unlike > 0.01 * count
        or (kills and not replaced)
    )
    return int(bool(failed) or slope > MOST)


def send(pipe: object, options: argparse.Namespace) -> None:
    with pipe:  # type: ignore[attr-defined]
        for line in lines(options.lines, options.seed):
            pipe.write(line + b"\n")  # type: ignore[attr-defined]


def kill_a_worker(process: int, draw: random.Random) -> int:
    """SIGKILL one of the processes that search now; 0 if there is none at this moment."""
    workers = children(process)
    if not workers:
        return 0
    os.kill(draw.choice(workers), signal.SIGKILL)
    return 1

"""nmt translate as a service: no line ends the work, a kill loses none of it, and a slow writer
gets its answers."""

import contextlib
import json
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from corpora import Trained, run_command

from nmt import cli
from nmt.commands.output import open_output
from nmt.corpus import line_chunks
from nmt.decode.translator import Translator
from nmt.errors import UserError

SENTENCES = [
    "Ein Junge malt.",
    "Mein Bruder sucht kein Brot.",
    "Eine Frau kauft zwei Bücher am Fluss.",
    "Ja.",
]
# no UTF-8, a lone surrogate, and longer than the limit below
BAD = [b"M\xfcller", b"\xed\xa0\x80", b"x" * 101]
LINES = "".join(f"{SENTENCES[number % 4]}\n" for number in range(11)).encode() + b"Ein"
pytestmark = [
    # OpenMP's threads do not live on in a fork, which would wait for them
    pytest.mark.usefixtures("one_thread"),
    # a fork of a process with threads, since Python 3.12
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture
def translate(trained: Trained, capfd, monkeypatch):
    """translate(WORD …) → what came of `nmt translate tiny WORD …`, in chunks of three lines."""
    monkeypatch.setattr(line_chunks, "CHUNK_LINES", 3)
    return lambda *words: run_command(capfd, "translate", "tiny", "--runs", trained.runs, *words)


def start(
    words: list[str], folder: Path, stdin: int | None = None, stdout: int | None = None
) -> int:
    """Run a command in a forked process and a group of its own; its output is in `folder`. Returns
    its number."""
    if process := os.fork():
        return process
    os.setpgid(0, 0)
    code = 99
    try:
        if stdin is not None:
            os.dup2(stdin, 0)
        os.dup2(os.open(folder / "out", os.O_WRONLY | os.O_CREAT) if stdout is None else stdout, 1)
        os.dup2(os.open(folder / "err", os.O_WRONLY | os.O_CREAT), 2)
        os.closerange(3, 100)  # the other ends of pipes among them
        sys.stdin = open(0)
        sys.stdout = open(1, "w")
        sys.stderr = open(2, "w", buffering=1)
        code = cli.main(words)
    finally:
        os._exit(code)


def exit_code(process: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def test_each_bad_line_has_its_answer(translate, tmp_path, monkeypatch):
    """The same as a blank line; in JSON it says why. The lines around it are translated as without
    it."""
    monkeypatch.setattr(line_chunks, "LONGEST_LINE", 100)
    path = tmp_path / "some.de"
    words = ["--format", "jsonl"]
    good, blank = (json.loads(translate(*words, line).out)["text"] for line in (SENTENCES[0], ""))
    path.write_bytes(b"".join(SENTENCES[0].encode() + b"\n" + line + b"\n" for line in BAD))
    answer = translate(*words, "--input", str(path))
    records = [json.loads(line) for line in answer.out.splitlines()]
    assert answer.code == 0 and [record["line"] for record in records] == [1, 2, 3, 4, 5, 6]
    reasons = ["not UTF-8", "not UTF-8", "longer than 100 bytes"]
    assert [record.get("error") for record in records[1::2]] == reasons
    assert [record["text"] for record in records] == [good, blank] * 3
    assert "Line 2 is not UTF-8" in answer.err and "3 of 6 lines could not be read" in answer.err


def kill_at_flush(number: int) -> None:
    """Kill this process when it brings something to the disk for that many times, with the
    beginning of a record."""
    calls = []
    fsync = os.fsync

    def call(descriptor: int) -> None:
        calls.append(1)
        if len(calls) == number:
            os.write(descriptor, b"0123 {")
            os.kill(os.getpid(), signal.SIGKILL)
        fsync(descriptor)

    os.fsync = call


def killed(command: list[str], number: int) -> None:
    """Run a command that is killed in its flush of that number."""
    process = os.fork()
    if not process:
        kill_at_flush(number)
        cli.main(command)
        os._exit(0)
    assert exit_code(process) == -signal.SIGKILL


def test_a_killed_translation_continues_to_the_same_bytes(translate, trained: Trained, tmp_path):
    """Killed again and again while it is continued, the last time when the file gets its name."""
    source = tmp_path / "some.de"
    wanted = tmp_path / "wanted"
    output = tmp_path / "some.en"
    source.write_bytes(LINES[:60] + b"\xff\n" + LINES)
    words = ["--format", "jsonl", "--weights", "--input", str(source)]
    assert translate(*words, "--output", str(wanted)).code == 0
    words += ["--output", str(output), "--resume"]
    for number in (1, 3, 2, 2):
        killed(["translate", "tiny", "--runs", trained.runs, *words], number)
        assert not output.exists()
    answer = translate(*words)
    assert answer.code == 0 and "the first 15 lines are there already" in answer.err
    assert output.read_bytes() == wanted.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["some.de", "some.en", "wanted"]


@pytest.fixture
def begun(translate, trained: Trained, tmp_path) -> Callable[..., str]:
    """A translation that was killed after its second chunk; begun(WORD …) gives what `nmt
    translate` says next."""
    source = tmp_path / "some.de"
    source.write_bytes(LINES)
    command = ["--input", str(source), "--output", str(tmp_path / "some.en")]
    killed(["translate", "tiny", "--runs", trained.runs, *command], 4)
    return lambda *words: translate(*command, *words)


def test_other_options_do_not_continue(begun, translate, tmp_path):
    """Each in one sentence; the part stays as it is, and the right command continues it."""
    part = tmp_path / "some.en.part"
    content = part.read_bytes()
    for wanted, words in (
        ("to 9 lines; --resume", ""),
        ("decode.beam", "--resume --beam 1"),
        ("--format, --weights", "--resume --format jsonl --weights"),
    ):
        answer = begun(*words.split())
        assert answer.code == 2 and answer.out == "" and answer.err.count("nmt: ") == 1
        assert wanted in answer.err and "delete it to begin anew" in answer.err
        assert words or part.read_bytes() == content
    assert begun("--resume").code == 0
    wanted = translate("--input", str(tmp_path / "some.de")).out
    assert (tmp_path / "some.en").read_text(encoding="utf-8") == wanted


def test_resume_belongs_to_a_file(translate, tmp_path):
    for words in ([], ["--output", os.devnull]):
        answer = translate("--resume", *words, "Ja.")
        assert answer.code == 2 and "--output" in answer.err
    output = tmp_path / "some.en"
    # nothing to continue: from the beginning
    assert translate("--resume", "--output", str(output), "Ja.").code == 0
    assert output.read_text(encoding="utf-8") == translate("Ja.").out


def test_only_one_process_writes_a_file(translate, tmp_path):
    with contextlib.suppress(KeyboardInterrupt), open_output(str(tmp_path / "some.en")):
        answer = translate("--output", str(tmp_path / "some.en"), "Ja.")
        assert answer.code == 2 and "Another process is writing" in answer.err
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())


def test_an_error_keeps_what_is_finished(translate, tmp_path, monkeypatch):
    source = tmp_path / "some.de"
    output = tmp_path / "some.en"
    source.write_bytes(LINES)
    words = ["--input", str(source), "--output", str(output), "--resume"]
    wanted = translate(*words[:2]).out
    translate_chunk = Translator.translate_chunk
    for error, code in (
        (UserError("enough"), 2),
        (KeyboardInterrupt(), 130),
        (OSError(28, "No space left"), 2),
    ):

        def fail(self, texts, start, report, error=error):
            if start > 6:
                raise error
            return translate_chunk(self, texts, start, report)

        with monkeypatch.context() as patch:
            patch.setattr(Translator, "translate_chunk", fail)
            answer = translate(*words)
        assert answer.code == code and "to 6 lines; --resume continues it" in answer.err
    assert translate(*words).code == 0
    assert output.read_text(encoding="utf-8") == wanted


def read_line(descriptor: int) -> bytes:
    """A line that comes within a minute, else what has come."""
    got = b""
    end = time.monotonic() + 60
    while (
        not got.endswith(b"\n")
        and select.select([descriptor], [], [], max(0.0, end - time.monotonic()))[0]
    ):
        if not (byte := os.read(descriptor, 1)):
            break
        got += byte
    return got


def test_a_program_may_wait_for_each_answer(trained: Trained, tmp_path):
    """One line in, one line out, through pipes that stay open."""
    (input_end, write), (read, output_end) = os.pipe(), os.pipe()
    process = start(["translate", "tiny", "--runs", trained.runs], tmp_path, input_end, output_end)
    os.close(input_end), os.close(output_end)
    try:
        for _ in range(3):
            os.write(write, b"Ja.\n")
            assert read_line(read).endswith(b"\n")
        os.write(write, b"Ja.\nJa")
        os.close(write)
        assert read_line(read) and read_line(read).endswith(b"\n") and read_line(read) == b""
        assert exit_code(process) == 0
    finally:
        os.close(read)


@pytest.fixture
def at_work(trained: Trained, tmp_path, monkeypatch):
    """at_work(WORDS, stdout) → a forked process that is in the middle of its work, with two
    processes below it."""
    shutil.copytree(trained.folder, tmp_path / "runs" / "tiny")
    (tmp_path / "text").write_text("Ja.\nEin Junge malt.\n" * 400)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("nmt.runs.run.usable_processes", lambda _: 2)
    monkeypatch.setattr("nmt.decode.translator.MIN_BATCH_TOKENS", 20)
    reached = tmp_path / "reached"

    def slowed(function: Callable[..., object]) -> Callable[..., object]:
        def slow(*words):
            reached.touch()
            time.sleep(1)  # of eight batches: time enough for a signal, on a busy machine too
            return function(*words)

        return slow

    for name in ("search_batch", "force_decode_batch"):
        monkeypatch.setattr(Translator, name, slowed(getattr(Translator, name)))

    def begin(command: str, stdout: int | None = None) -> int:
        process = start(command.split(), tmp_path, None, stdout)
        end = time.monotonic() + 60
        while not reached.exists() and time.monotonic() < end:
            time.sleep(0.01)
        return process

    return begin


def test_ctrl_c_is_one_line(at_work, tmp_path):
    """A terminal sends the signal to all processes of the command."""
    process = at_work("translate tiny --input text")
    os.killpg(process, signal.SIGINT)
    assert exit_code(process) == 130
    assert (tmp_path / "err").read_text() == "nmt: interrupted.\n"


def test_a_reader_that_leaves_is_no_error(at_work, tmp_path):
    """As in `nmt translate … | head -1`."""
    read, write = os.pipe()
    os.close(read)
    process = at_work("align tiny --source text --target text", write)
    os.close(write)
    assert exit_code(process) == 141
    assert (tmp_path / "err").read_text() == ""

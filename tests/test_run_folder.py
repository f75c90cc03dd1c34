"""The life of a run folder: one writer, saves by time, damaged files, leftovers, the log, disks
that fail."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from corpora import environment, pairs, run_command, small, write_corpus, write_pairs
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator
from test_train import comparable, differing

from nmt.corpus import files
from nmt.corpus.files import atomic_folder, only_writer, write_atomic
from nmt.errors import UserError
from nmt.training import checkpoint, trainer
from nmt.training.train_step import TrainStep
from nmt.view import tensorboard
from nmt.view.tensorboard import TensorBoardLogger

WORDS = ["train.max_steps=8", "train.validate_every=4", "train.log_every=1", "model.dropout=0.2"]
HOLD = """
import sys, time
from pathlib import Path
from nmt.corpus.files import only_writer
with only_writer(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def saves_may_take_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer, "LARGEST_SHARE", float("inf"))


def flip_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def names(folder: Path) -> set[str]:
    return {path.stem for path in folder.glob("*.safetensors")}


def assert_same_weights(left: Path, right: Path, *checkpoints: str) -> None:
    for name in checkpoints or ("last", "best", "average"):
        one = comparable(left / f"{name}.safetensors")
        two = comparable(right / f"{name}.safetensors")
        assert differing(one["model"], two["model"]) == [], name


# One writer


def test_a_second_process_is_refused_and_the_lock_ends_with_the_first(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout and holder.stdout.readline() == b"locked\n"
        in_use = rf"{tmp_path} is in use by another process \(id {holder.pid} on "
        with pytest.raises(UserError, match=in_use), only_writer(tmp_path, timeout=0.1):
            pass
        holder.kill()
    with only_writer(tmp_path):
        assert (tmp_path / ".lock").read_text().startswith(f"{os.getpid()} ")


# Leftovers of killed processes


def leave(path: Path, kernel: str, age: float = 0.0, locked: bool = True) -> Path:
    """A temporary folder as a killed process leaves it."""
    temporary = path.with_name(f".{path.name}.{kernel}-01234567.tmp")
    temporary.mkdir()
    (temporary / "new").write_text("half")
    if locked:
        (temporary / ".lock").touch()
    for each in (*temporary.iterdir(), temporary):
        os.utime(each, (time.time() - age,) * 2)
    return temporary


def test_the_next_writer_removes_what_a_killed_process_left(tmp_path):
    here = files.kernel()
    there = "00000000"
    gone = [leave(tmp_path / "a", here), leave(tmp_path / "old", there, 2 * files.DAY)]
    stay = [leave(tmp_path / "b", there), leave(tmp_path / "not yet locked", here, locked=False)]
    others = [tmp_path / ".file.tmp", tmp_path / ".mine.01234567.txt"]
    for path in others:
        path.touch()
    stay += others
    for number, name in enumerate(("new", ".lock", "")):  # one of its files is written
        stay.append(leave(tmp_path / f"{number}", there, 2 * files.DAY))
        os.utime(stay[-1] / name)
    write_atomic(tmp_path / "other", "text")
    assert not any(path.exists() for path in gone)
    # another process may still be writing it, or it is not ours
    assert all(path.exists() for path in stay)


def test_the_disk_has_the_files_of_a_folder_before_it_appears(tmp_path, monkeypatch):
    order: list[str] = []
    real = os.fsync

    def fsync(number: int) -> None:
        order.append(os.readlink(f"/proc/self/fd/{number}"))
        real(number)

    monkeypatch.setattr(os, "fsync", fsync)
    with atomic_folder(tmp_path / "folder") as temporary:
        (temporary / "below").mkdir()
        (temporary / "below" / "file").write_text("text")
        order.append("before")
    assert order.pop(0) == "before" and order.pop() == str(tmp_path)
    below = temporary / "below"
    assert set(order) == {str(path) for path in (temporary, below, below / "file")}


# Saves by time


class Killed(BaseException):
    """Where the process would be killed; nothing is saved."""


def kill_at_update(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    real = TrainStep.update

    def update(self: TrainStep) -> dict[str, float]:
        if self.state.step + 1 == step:
            raise Killed
        return real(self)

    monkeypatch.setattr(TrainStep, "update", update)


# TensorBoard


def curves(folder: Path) -> dict[str, list[int]]:
    """The steps of all curves and tables, as TensorBoard itself reads them."""
    events = EventAccumulator(str(folder / "tensorboard"), size_guidance={"tensors": 0}).Reload()
    return {tag: [event.step for event in events.Tensors(tag)] for tag in events.Tags()["tensors"]}


@pytest.mark.slow
def test_the_curves_have_no_hole_and_no_double_after_kills(train, folder, monkeypatch):
    """Also before the first save, where nothing says from where on to discard."""
    for step in (3, 3, 2, 7):
        with monkeypatch.context() as patch, pytest.raises(Killed):
            kill_at_update(patch, step)
            train("curves", "train.log_sentences=1")
    assert train("curves", "train.log_sentences=1").code == 0
    steps = curves(folder("curves"))
    assert steps["loss/train"] == list(range(1, 9))
    assert steps["loss/valid"] == steps["translations/text_summary"] == [4, 8]


def test_files_are_read_in_the_order_in_which_they_were_written(tmp_path, monkeypatch):
    """TensorBoard sorts them by the seconds in their names: a clock that is set back, two in one
    second."""
    for step, now in ((1, 2_000_000_000), (2, 2_000_000_000), (3, 1_500_000_000)):
        monkeypatch.setattr(tensorboard.time, "time", lambda now=now: float(now))
        logger = TensorBoardLogger(tmp_path / "tensorboard", purge_step=step)
        for later in range(step, 4):
            logger.scalars({"loss": float(step)}, later)
        logger.close()
    events = EventAccumulator(str(tmp_path / "tensorboard"), size_guidance={"tensors": 0}).Reload()
    values = [(event.step, event.tensor_proto.float_val[0]) for event in events.Tensors("loss")]
    assert values == [(1, 1.0), (2, 2.0), (3, 3.0)]


# Damaged checkpoints


@pytest.fixture
def interrupted(train, folder, monkeypatch) -> Callable[[str], Path]:
    """interrupted(NAME) → the folder of a training that was killed in update 7."""

    def run(name: str) -> Path:
        with monkeypatch.context() as patch, pytest.raises(Killed):
            kill_at_update(patch, 7)
            train(name, "train.save_minutes=1e-9")
        return folder(name)

    return run


@pytest.mark.slow
def test_what_is_left_after_a_kill_is_continued_with_the_same_bits(train, folder, interrupted):
    """From the last save by time, where that is damaged from the one before, and from that one
    where the kill came between the two renamings of a save."""
    path = interrupted("damaged-last")
    for name in ("killed", "renamed"):
        shutil.copytree(path, folder(name))
    flip_bit(path / "last.safetensors")
    (folder("renamed") / "last.safetensors").unlink()
    train("not-saved")
    for name, step in (("killed", 6), ("damaged-last", 5), ("renamed", 5)):
        answer = train(name)
        assert answer.code == 0 and f"continuing after update {step}" in answer.err
        named = f"{folder(name) / 'last.safetensors'} is damaged, now last.damaged.safetensors"
        assert (named in answer.err) == ("last.damaged" in names(folder(name)))
        assert ("last.damaged" in names(folder(name))) == (name == "damaged-last")
        assert_same_weights(folder(name), folder("not-saved"))


@pytest.mark.slow
def test_two_damaged_ones_are_one_sentence(train, interrupted):
    path = interrupted("damaged-both")
    for name in ("last", "previous"):
        flip_bit(path / f"{name}.safetensors")
    answer = train("damaged-both")
    assert answer.code == 2
    assert "damaged" in answer.err and str(path / "previous.safetensors") in answer.err
    assert not any(name.endswith(".damaged") for name in names(path))
    for name in ("last", "previous"):
        (path / f"{name}.safetensors").unlink()
    assert train("damaged-both").code == 0, "the remedy that the sentence names"


@pytest.mark.slow
def test_a_damaged_best_is_replaced_or_its_score_forgotten(train, folder, interrupted):
    path = interrupted("damaged-best")
    shutil.copytree(path, path.with_name("lost-best"))
    flip_bit(path / "best.safetensors")
    answer = train("damaged-best")
    assert answer.code == 0 and "step-4.safetensors takes the place of" in answer.err
    train("not-saved")
    assert_same_weights(path, folder("not-saved"))
    lost = folder("lost-best")
    for name in ("best", "step-4"):
        flip_bit(lost / f"{name}.safetensors")
    answer = train("lost-best")
    assert answer.code == 0 and "No checkpoint can take the place of" in answer.err
    assert "step-4.damaged" in names(lost)
    assert checkpoint.load(lost / "best.safetensors")["step"] == 8


# What stays after the end


# Disks and folders that fail in the middle


@pytest.mark.slow
@pytest.mark.parametrize("part", ["", "tensorboard"])
def test_what_is_removed_in_the_middle_is_one_sentence(train, folder, monkeypatch, part):
    name = f"removed-{part}"
    real = TrainStep.update

    def update(self: TrainStep) -> dict[str, float]:
        if self.state.step + 1 == 6:
            shutil.rmtree(folder(name) / part)
        return real(self)

    with monkeypatch.context() as patch:
        patch.setattr(TrainStep, "update", update)
        answer = train(name)
    assert answer.code == 2 and answer.out == "" and "Traceback" not in answer.err
    assert re.search(r"^nmt: .*(deleted|removed|replaced)", answer.err, re.MULTILINE), answer.err
    assert train(name).code == 0


FULL_DISK = """
import resource, signal, sys
from nmt.cli import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
import torch
from nmt.training import trainer
real = trainer.Trainer.loop
def loop(self, *rest):
    resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
    real(self, *rest)
trainer.Trainer.loop = loop
sys.exit(main())
"""


@pytest.mark.slow
def test_a_disk_that_is_full_in_the_middle_is_one_sentence(
    train, folder, root, corpus, interrupted
):
    """Files cannot grow (EFBIG, which is met where ENOSPC would be); what was saved stays and is
    continued."""
    path = interrupted("full")
    before = {file.name: file.read_bytes() for file in path.glob("*.safetensors")}
    command = [sys.executable, "-c", FULL_DISK, "train", *small(root, corpus, *WORDS, "name=full")]
    answer = subprocess.run(
        command, env=environment(), capture_output=True, timeout=60, check=False, text=True
    )
    assert answer.returncode == 2 and answer.stdout == "", answer.stderr
    assert "Traceback" not in answer.stderr and "File too large" in answer.stderr
    assert {file.name: file.read_bytes() for file in path.glob("*.safetensors")} == before
    assert not [file for file in path.rglob("*.tmp")]
    assert train("full").code == 0
    train("not-saved")
    assert_same_weights(path, folder("not-saved"))


# Held-out sets


@pytest.mark.parametrize(("name", "held_out"), [("valid", 16), ("test", 12), ("test", 11)])
def test_a_held_out_set_that_is_training_data_is_a_warning(root, tmp_path, capfd, name, held_out):
    corpus = write_corpus(tmp_path)
    new = pairs(268)[256:]
    write_pairs(tmp_path, name, pairs(268)[:held_out] + new[held_out:])
    words = [*WORDS, "train.max_steps=1", f"name=overlap-{name}-{held_out}"]
    answer = run_command(capfd, "train", *small(root, corpus, *words))
    size = max(held_out, 12)
    assert answer.code == 0
    warnings = [line for line in answer.err.splitlines() if "are training pairs" in line]
    (warning,) = warnings
    assert f"{held_out} of the {size} pairs of {name}" in warning
    assert f"data.{name}" in warning

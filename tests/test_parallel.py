"""What several processes share comes back whole, in order, and is what one process would have made."""

import multiprocessing
import os
import signal
import time

import numpy as np
import pytest
import torch

from nmt.data.tokenizer import EOS
from nmt.decode import parallel
from nmt.decode.parallel import possible, shared
from nmt.decode.translator import EACH, Translator
from nmt.errors import UserError
from nmt.runs import load

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@needs_fork
def test_work_is_shared_and_comes_back_in_order():
    here = os.getpid()

    def one(number: int):
        return number, os.getpid() != here, torch.get_num_threads(), signal.getsignal(signal.SIGINT)

    assert shared(one, 7, 2) == [(number, True, 1, signal.SIG_IGN) for number in range(7)]
    assert torch.get_num_threads() == int(os.environ["OMP_NUM_THREADS"])
    assert not multiprocessing.active_children()  # nothing stays behind


@needs_fork
def test_what_goes_wrong_in_a_process_is_said_in_this_one():
    def one(number: int) -> int:
        if number == 3:
            raise UserError("number three")
        return number

    with pytest.raises(UserError, match="number three"):
        shared(one, 5, 2)


@needs_fork
def test_a_bug_in_a_process_keeps_its_traceback():
    class Unsendable(Exception):
        """Local, so that no pipe takes it."""

    def buggy(number: int) -> float:
        return 1 / (number - 1)

    def strange(number: int) -> None:
        raise Unsendable("what happened")

    with pytest.raises(ZeroDivisionError) as found:
        shared(buggy, 3, 2)
    assert "in buggy" in str(found.value.__cause__)
    with pytest.raises(RuntimeError, match="what happened") as found:
        shared(strange, 3, 2)
    assert "in strange" in str(found.value.__cause__)


@needs_fork
def test_a_reader_who_left_is_no_killed_process(monkeypatch):
    """stdout is flushed before a process is forked; its BrokenPipeError is that of any other print."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as out:
        monkeypatch.setattr("sys.stdout", out)
        print("unread")
        with pytest.raises(BrokenPipeError):
            shared(abs, 3, 2)
        monkeypatch.undo()
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())  # so that closing it can flush


@needs_fork
def test_without_a_new_process_the_work_is_done_here(monkeypatch):
    monkeypatch.setattr(os, "fork", lambda: (_ for _ in ()).throw(BlockingIOError("no more processes")))
    assert shared(lambda number: (number, os.getpid()), 3, 2) == [(number, os.getpid()) for number in range(3)]


@needs_fork
def test_a_killed_process_is_said_and_waited_for_by_nobody():
    def one(number: int) -> int:
        if number == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.01)
        return number

    with pytest.raises(UserError, match="was killed"):
        shared(one, 50, 2)
    assert not multiprocessing.active_children()


@needs_fork
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # a fork of a process with threads, since Python 3.12
def test_children_end_with_their_parent():
    """A parent that is killed leaves no process behind."""
    here, there = os.pipe()
    parent = os.fork()
    if not parent:

        def one(number: int) -> None:
            os.write(there, f"{os.getpid()} ".encode())
            if number == 2:
                os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(0.2)

        shared(one, 8, 2)
        os._exit(0)
    os.close(there)
    os.waitpid(parent, 0)
    with os.fdopen(here, "rb") as told:
        children = {int(child) for child in told.read().split()}  # until the last of them has closed its end
    assert len(children) == 2


def test_how_many_can_share(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 6)
    assert possible(torch.device("cuda")) == 1
    monkeypatch.setattr(parallel.sys, "platform", "linux")
    assert possible(torch.device("cpu")) == 6
    monkeypatch.setattr(parallel.multiprocessing, "get_all_start_methods", lambda: ["spawn"])
    assert possible(torch.device("cpu")) == 1


@needs_fork
def test_workers_write_what_one_process_writes(trained, monkeypatch):
    """Batches become smaller, as many as give every worker some; n best, order and blank lines stay."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    translator = load([trained.folder / "best.pt"]).translator
    assert translator.workers == possible(torch.device("cpu"))
    monkeypatch.undo()
    random = np.random.default_rng(1)
    sentences = [random.integers(EOS + 1, 90, length) for length in random.integers(1, 20, 60)]
    translator.workers, wanted = 1, translator.search(sentences)
    processes, search_batch = [], Translator.search_batch
    monkeypatch.setattr("nmt.decode.translator.SMALLEST", 20)
    monkeypatch.setattr(Translator, "search_batch", lambda *words: processes.append(1) or search_batch(*words))
    translator.workers = 2
    assert len(translator.batches(sentences)) >= 2 * EACH
    found = translator.search(sentences)
    assert not processes  # none of it was searched here
    assert [[one.ids for one in best] for best in found] == [[one.ids for one in best] for best in wanted]
    assert translator.search(sentences[:1]) and processes  # one batch is not worth a process
    assert translator.search([]) == []

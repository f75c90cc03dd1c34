"""Work divided among processes comes back complete, in order, and is what one process would
compute."""

import errno
import multiprocessing
import os
import signal
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from corpora import Trained
from tensors import queries

from nmt.data.text_filter import Encoded
from nmt.data.tokenizer import EOS
from nmt.decode.parallel import parallel_map
from nmt.decode.sampling import Sampling
from nmt.decode.translator import BATCHES_PER_PROCESS, Query, Translator
from nmt.errors import UserError
from nmt.runs.run import load

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.fixture
def translator(trained: Trained) -> Translator:
    return load([trained.folder / "best.safetensors"]).translator


def test_results_come_back_in_order():
    parent = os.getpid()

    def task(number: int):
        return (
            number,
            os.getpid() != parent,
            torch.get_num_threads(),
            signal.getsignal(signal.SIGINT),
        )

    assert list(parallel_map(task, range(7), 2)) == [
        (number, True, 1, signal.SIG_IGN) for number in range(7)
    ]
    assert torch.get_num_threads() == int(os.environ["OMP_NUM_THREADS"])
    assert not multiprocessing.active_children()  # no process is left


def test_without_a_new_process_the_parent_does_the_work(monkeypatch):
    for error in (BlockingIOError("no more processes"), OSError(errno.ENOMEM, "no memory")):
        monkeypatch.setattr(os, "fork", lambda error=error: (_ for _ in ()).throw(error))
        assert list(parallel_map(lambda number: (number, os.getpid()), range(3), 2)) == [
            (number, os.getpid()) for number in range(3)
        ]
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, [])  # Ctrl-C still ends the program


def test_the_work_of_a_killed_process_is_done_again(tmp_path, caplog):
    """However often, as long as some work is done in between."""
    killers = range(1, 30, 7)  # at most five items are on their way at a time

    def task(number: int) -> int:
        if number in killers and not (tmp_path / str(number)).exists():
            (tmp_path / str(number)).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    assert list(parallel_map(task, range(30), 2)) == list(range(30))
    warnings = [record for record in caplog.records if "was killed" in record.message]
    assert len(warnings) == len(killers)
    assert not multiprocessing.active_children()
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_lines_whose_search_kills_are_named(translator, monkeypatch):
    """As if memory ran out in the search of the two longest lines; the chunk before them has been
    answered."""
    monkeypatch.setattr("nmt.decode.translator.MIN_BATCH_TOKENS", 20)
    monkeypatch.setattr("nmt.corpus.line_chunks.CHUNK_LINES", 6)
    translator = replace(translator, num_processes=2)
    parent = os.getpid()
    search_batch = Translator.search_batch

    def search_or_die(self, searched):
        longest = max(len(query.source) for query in searched)
        if longest > 40 and os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        return search_batch(self, searched)

    monkeypatch.setattr(Translator, "search_batch", search_or_die)
    short = "Ein Junge malt."
    long = "Der Bäcker kauft einen Apfel am Fluss und " * 6
    answers = translator.translate([short] * 8 + [long, short, long + long] + [short] * 3)
    assert len([next(answers) for _ in range(6)]) == 6
    with pytest.raises(UserError, match=r"killed 3 times on line (9, )?11\b"):
        next(answers)
    assert not multiprocessing.active_children()


# a fork of a process with threads, since Python 3.12
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_children_end_with_their_parent():
    """A parent that is killed leaves no process behind, whatever their tasks still have to do."""
    read_end, write_end = os.pipe()
    parent = os.fork()
    if not parent:

        def task(index: int) -> None:
            os.write(write_end, f"{os.getpid()} ".encode())
            if index == 1:
                os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(60)

        list(parallel_map(task, range(8), 2))
        os._exit(0)
    os.close(write_end)
    os.waitpid(parent, 0)
    began = time.monotonic()
    with os.fdopen(read_end, "rb") as written:
        # until the last of them has closed its end
        children = {int(child) for child in written.read().split()}
    assert 1 <= len(children) <= 2 and time.monotonic() - began < 30


def test_several_processes_translate_as_one_does(translator, monkeypatch):
    """Batches become smaller, so that every process gets some; the n best and their order stay."""
    random = np.random.default_rng(1)
    lengths = random.integers(1, 20, 60)
    sentences = queries(random.integers(EOS + 1, 90, length) for length in lengths)
    wanted = replace(translator, num_processes=1).search(sentences)
    processes = []
    search_batch = Translator.search_batch
    monkeypatch.setattr("nmt.decode.translator.MIN_BATCH_TOKENS", 20)
    monkeypatch.setattr(
        Translator, "search_batch", lambda *words: processes.append(1) or search_batch(*words)
    )
    translator = replace(translator, num_processes=2)
    assert len(translator.batches(sentences)) >= 2 * BATCHES_PER_PROCESS
    results = translator.search(sentences)
    assert not processes  # none of it was searched in this process
    assert [[hypothesis.ids for hypothesis in best] for best in results] == [
        [hypothesis.ids for hypothesis in best] for best in wanted
    ]
    assert translator.search(sentences[:1]) and processes  # one batch is not worth a process
    assert translator.search([]) == []


def test_a_line_is_reported_with_its_last_part(translator):
    """Lines that need no search are done at once; the others batch by batch, here one sentence or
    part each."""
    decode = replace(translator.decode, batch_tokens=1)
    translator = replace(translator, decode=decode, num_processes=2, max_pieces=8)
    long = "Mein Bruder sucht kein Brot und eine Frau kauft zwei Bücher."
    lines = ["Ein Junge malt.", "", long, "Ja.", "Ein Junge."]
    reports: list[int] = []
    found = list(translator.translate(lines, reports.append))
    assert any(each.parts for each in found) and sum(reports) == len(lines)
    assert reports[0] == 1 and len(reports) > len(lines)  # the blank line


def test_a_batch_may_begin_with_other_pieces_in_each_sentence(translator):
    """Those that begin alike are searched together, each within its own limit."""
    decode = replace(translator.decode, max_length_ratio=0.2, max_length_extra=0)
    translator = replace(translator, decode=decode)
    beginnings = [(7, 8, 9), (), (7,), (8,), ()]
    sentences = []
    for number, begin in enumerate(beginnings):
        sentences.append(Query(Encoded(range(EOS + 1, EOS + 20 - 3 * number), begin=begin)))
    together = translator.search_batch(sentences)
    for sentence, nbest, begin in zip(sentences, together, beginnings, strict=True):
        (alone,) = translator.search_batch([sentence])
        assert [each.ids for each in nbest] == [each.ids for each in alone]
        assert all(tuple(each.ids[: len(begin)]) == begin for each in nbest)


@pytest.mark.parametrize("is_forced", [False, True])
def test_a_batch_too_large_for_the_memory_is_searched_in_halves(translator, monkeypatch, is_forced):
    sentences = []
    for number in range(7):
        template = [(EOS + 1 + number,)] * (1 + number) if is_forced else None
        sentences.append(Query(Encoded(range(EOS + 1, EOS + 3 + number)), template=template))
    wanted = translator.search_batch(sentences)
    search_together = Translator.search_together

    def search_few(self, searched):
        if len(searched) > 2:
            raise torch.OutOfMemoryError
        return search_together(self, searched)

    monkeypatch.setattr(Translator, "search_together", search_few)
    found = translator.search_batch(sentences)
    assert [[each.ids for each in nbest] for nbest in found] == [
        [each.ids for each in nbest] for nbest in wanted
    ]


def test_a_batch_has_at_most_so_many_positions_of_all_hypotheses(translator):
    sentences = queries([EOS + 1] * length for length in (3, 30, 8, 200, 1, 8, 8, 5, 12))
    for beam, sampling in ((1, None), (4, None), (1, Sampling(4))):
        decode = replace(translator.decode, beam=beam, batch_tokens=160)
        hypotheses = sampling.samples if sampling else beam
        for rows in replace(translator, decode=decode, sampling=sampling).batches(sentences):
            positions = max(len(sentences[row].source) + 1 for row in rows) * len(rows)
            assert hypotheses * positions <= 160 or len(rows) == 1

"""Several processes: the gradients are summed in the order of the batches, and N processes train as
one does."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from corpora import compose_one, run_command, small, write_corpus
from test_train import comparable, differing

from nmt.config.schema import Config
from nmt.data.batches import collate
from nmt.errors import UserError
from nmt.training.build import continued
from nmt.training.distributed import SIGNALS, Interrupted, StopSignal, World
from nmt.training.state import TrainState
from nmt.training.train_step import TrainStep

WORDS = (
    "train.max_steps=12",
    "train.validate_every=5",
    "train.batch_tokens=100",
    "train.log_sentences=1",
    "train.sampled_softmax=20",
    "train.subword_sampling=0.1",
    "train.average_checkpoints=2",
    "precision=bf16",
    "train.noise_typos=0.2",
    "train.noise_merge=0.2",
    "train.noise_copy=0.2",
)

MODELS = {
    "transformer": ("train.guided_alignment=0.5",),
    "luong_local_p": ("model=luong_local_p", "model.hidden_size=32", "model.embedding_size=32"),
    "bahdanau_hard": ("model=bahdanau_hard", "model.hidden_size=32", "model.embedding_size=32"),
}  # dropout, windows that narrow, and a baseline that follows the rewards

SUM = """
import torch
from torch import nn
from nmt.training.distributed import OrderedSum, world
sizes = [(3, 5), (7,), (1,), (40,)]
processes = world()
parameters = [nn.Parameter(torch.zeros(size)) for size in sizes]
unused = nn.Parameter(torch.zeros(9))
total = OrderedSum([*parameters, unused], processes)
for update, rounds in enumerate([1, 2]):
    for number in range(rounds):
        torch.manual_seed(100 * update + number * processes.size + processes.rank)
        for parameter in parameters:
            parameter.grad = torch.randn(parameter.shape)
            parameter.grad *= 10 ** torch.randint(-4, 4, parameter.shape)
        total.add()
    total.finish()
    if processes.is_main:
        torch.manual_seed(0)
        wanted = [torch.zeros(size) for size in sizes]
        for number in range(rounds * processes.size):
            torch.manual_seed(100 * update + number)
            for each in wanted:
                each += torch.randn(each.shape) * 10 ** torch.randint(-4, 4, each.shape)
        equal = [torch.equal(p.grad, each) for p, each in zip(parameters, wanted)]
        print(all(equal), not unused.grad.any())
assert processes.map(lambda each: each + 1, range(7)) == list(range(1, 8))
assert processes.broadcast(processes.rank + 5) == 5
assert processes.max(processes.rank) == processes.size - 1
"""


def torchrun(processes: int, *arguments: str) -> list[str]:
    run = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={processes}"]
    return [*run, *arguments]


pytestmark = pytest.mark.usefixtures("one_thread")  # as many as each of several processes has
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}


def run(command: list[str]) -> subprocess.CompletedProcess:
    return subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=240)


@pytest.mark.slow
def test_gradients_are_summed_in_the_order_of_the_batches(tmp_path):
    """The bits of ((g_0 + g_1) + g_2) + …, with numbers of very different sizes; 3 processes, 1 and
    2 batches each."""
    (tmp_path / "sum.py").write_text(SUM, encoding="utf-8")
    ended = run(torchrun(3, str(tmp_path / "sum.py")))
    assert ended.returncode == 0 and ended.stdout == "True True\nTrue True\n", ended.stderr


@pytest.mark.parametrize("processes", [1, 2])
def test_the_first_signal_asks_for_a_stop_and_a_second_one_ends_a_single_process(processes):
    """Under torchrun a second one comes by itself. Behind the block all is as it was."""
    world = World()
    stop = StopSignal(world)
    before = list(map(signal.getsignal, SIGNALS))
    with stop.on_signals():
        stop.check()
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(Interrupted) as interruption:
            stop.check()
        assert interruption.value.signal == signal.SIGTERM
        world.size = processes
        with pytest.raises(KeyboardInterrupt) if processes == 1 else nullcontext():
            signal.raise_signal(signal.SIGINT)
    assert stop.signal == signal.SIGTERM and list(map(signal.getsignal, SIGNALS)) == before


def test_a_signal_that_is_ignored_stays_so():
    """As that of a closed terminal under nohup."""
    stop = StopSignal(World())
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    try:
        with stop.on_signals():
            signal.raise_signal(signal.SIGUSR1)
            stop.check()
        assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    words = write_corpus(folder)
    (folder / "train.align").write_text("0-0 1-1\n" * 240, encoding="utf-8")
    return words


@pytest.fixture
def words(tmp_path, corpus):
    """words(NAME, BATCHES, WORD …): the overrides of a run with so many batches an update in each
    process."""
    return lambda name, batches, *more: small(
        tmp_path, corpus, *WORDS, *more, f"name={name}", f"train.accumulate={batches}"
    )


def assert_same(root: Path, *names: str) -> None:
    """Two runs have the same weights, moments, best scores and train states."""
    for checkpoint_name in ("last", "best"):
        left, right = (
            comparable(root / "runs" / name / f"{checkpoint_name}.safetensors") for name in names
        )
        for each in (left, right):
            del each["config"]["train"]["accumulate"]
        assert differing(left, right) == []


def assert_one_as_two(tmp_path: Path, capfd, words: Callable[..., list[str]]) -> None:
    """One process and two write the same, and print the same; process 0 alone prints."""
    alone = run_command(capfd, "train", *words("alone", 4))
    together = run(torchrun(2, "-m", "nmt", "train", *words("together", 2)))
    assert alone.code == together.returncode == 0, alone.err + together.stderr
    assert together.stdout == alone.out and together.stderr.count("starting") == 1
    assert_same(tmp_path, "alone", "together")


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_two_processes_train_as_one(words, tmp_path, capfd, model):
    """Bit for bit: weights, optimizer, validations, translations and scores."""
    assert_one_as_two(tmp_path, capfd, lambda name, count: words(name, count, *MODELS[model]))
    texts = [
        (tmp_path / "runs" / name / "evaluate" / "test" / "hyp").read_bytes()
        for name in ("alone", "together")
    ]
    assert texts[0] == texts[1] and texts[0]


@pytest.mark.slow
@pytest.mark.parametrize("words_of_child", [(), ("train.lora=2", "train.recompute=true")])
def test_two_processes_rehearse_as_one(words, tmp_path, capfd, succeeds, words_of_child):
    succeeds("train", *words("parent", 1))
    more = ("from=parent", "train.rehearsal=1", "train.replay=0", "train.max_steps=6")
    more += words_of_child

    def child(name: str, count: int) -> list[str]:
        own = ("model", "tokenizer")  # are the parent's
        return [word for word in words(name, count, *more) if not word.startswith(own)]

    assert_one_as_two(tmp_path, capfd, child)


class Board:
    """Where simulated processes leave their values for each other."""

    def __init__(self, size: int) -> None:
        self.barrier = threading.Barrier(size, timeout=60)
        self.values: list[Any] = [None] * size

    def exchange(self, rank: int, value: Any) -> list[Any]:
        self.values[rank] = value
        self.barrier.wait()
        found = list(self.values)
        self.barrier.wait()
        return found


class Simulated(World):
    """A process that is a thread of this one."""

    def __init__(self, rank: int, board: Board) -> None:
        super().__init__()
        self.rank = rank
        self.size = len(board.values)
        self.board = board

    def gather(self, values: Sequence[float]) -> list[list[float]]:
        return [list(row) for row in self.board.exchange(self.rank, values)]

    def gather_objects(self, value: Any) -> list[Any]:
        return self.board.exchange(self.rank, value)


def together(processes: int, work: Callable[[World], Any]) -> list[Any]:
    """What each of so many simulated processes gets, by rank; their errors are results, too."""
    board = Board(processes)

    def run_one(rank: int) -> Any:
        try:
            return work(Simulated(rank, board))
        except (UserError, Interrupted) as error:
            return error

    with ThreadPoolExecutor(processes) as threads:
        return list(threads.map(run_one, range(processes)))


@pytest.mark.parametrize("processes", [1, 2, 3])
@pytest.mark.parametrize("batches", range(8))
def test_each_batch_is_computed_once_and_all_processes_get_all_results(processes, batches):
    computed = []

    def square(batch: int) -> int:
        computed.append(batch)
        return batch**2

    wanted = [batch**2 for batch in range(batches)]
    found = together(processes, lambda world: world.map(square, range(batches)))
    assert found == [wanted] * processes
    assert sorted(computed) == list(range(batches))


def test_all_processes_come_to_the_same_values():
    values = [5.0, 9.0, 7.0]
    assert together(3, lambda world: world.max(values[world.rank])) == [9.0] * 3
    assert together(3, lambda world: world.broadcast(values[world.rank])) == [5.0] * 3
    for texts, said in (("aaa", ""), ("aab", "process 2"), ("baa", "process 1")):
        for error in together(
            3, lambda world, texts=texts: world.check_equal("", texts[world.rank])
        ):
            assert (error is None) == (not said)
            assert said in str(error)


def test_what_process_0_does_first_is_done_when_the_others_begin():
    calls = []

    def work(rank: int) -> int:
        if rank == 0:
            time.sleep(0.1)
        calls.append(rank)
        return rank

    assert together(3, lambda world: world.main_first(lambda: work(world.rank))) == [0, 1, 2]
    assert calls[0] == 0 and sorted(calls) == [0, 1, 2]


def test_a_signal_to_one_process_stops_all():
    def work(world: World) -> None:
        stop = StopSignal(world)
        stop.check()
        stop.signal = signal.SIGTERM if world.rank == 1 else 0
        stop.check()

    stopped = together(3, work)
    assert [error.signal for error in stopped] == [signal.SIGTERM] * 3


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_the_numbers_of_micro_batches_are_in_the_order_of_the_plan(processes):
    """−log p, target tokens and the fraction of padding of four micro-batches."""
    lengths = [([3], [2]), ([4, 1], [3, 1]), ([2, 2], [5, 4]), ([1], [6])]
    batches = []
    for sides in lengths:
        batches.append(collate(*([np.full(size, 9) for size in side] for side in sides)))

    def gathered(world: World) -> tuple[list[float], list[float], list[float]]:
        step = object.__new__(TrainStep)
        step.world = world
        step.device = torch.device("cpu")
        mine = range(world.rank, 4, world.size)
        nll = [torch.tensor(10.0 + number, dtype=torch.float64) for number in mine]
        found = step.gather_micro_batches(nll, [batches[number] for number in mine])
        return [each.item() for each in found[0]], *found[1:]

    tokens = [float(batch.tokens) for batch in batches]
    padding = [batch.padding for batch in batches]
    wanted = ([10.0, 11.0, 12.0, 13.0], tokens, padding)
    assert together(processes, gathered) == [wanted] * processes


@pytest.mark.parametrize(
    "device, local_rank, refused",
    [
        ("cpu", 5, False),
        ("cuda", 1, False),
        ("cuda", 2, True),  # of two GPUs
        ("cuda:0", 0, True),
    ],
)
def test_each_process_needs_a_gpu_of_its_own(device, local_rank, refused, monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setenv("LOCAL_RANK", str(local_rank))
    World().check_device(torch.device(device))  # a single process may have any
    world = Simulated(0, Board(2))
    with pytest.raises(UserError, match="GPU each") if refused else nullcontext():
        world.check_device(torch.device(device))


@pytest.mark.parametrize(
    "batches, processes, advice",
    [
        (4, 1, None),
        (2, 2, None),
        (3, 1, "train.accumulate=4"),
        (4, 2, "train.accumulate=2"),
        (1, 3, "a number of processes that divides it"),
    ],
)
def test_an_update_keeps_its_number_of_batches(batches, processes, advice):
    """Four; but a training that has ended may be looked at by any number of processes."""
    config = compose_one(f"train.accumulate={batches}", "train.max_steps=9")
    world = Simulated(0, Board(processes))
    state = TrainState(step=5, total_steps=9, batches_per_update=4)
    with pytest.raises(UserError, match=advice) if advice else nullcontext():
        assert continued(state, config, 9, config, world) == state
    state = replace(state, step=9, finished=True)
    assert continued(state, config, 9, config, world) == state


@pytest.mark.parametrize(
    "total, patience, goes_on", [(9, 0, False), (12, 0, True), (12, 3, False), (12, 4, True)]
)
def test_a_finished_training_without_an_end_goes_on_with_a_larger_budget(total, patience, goes_on):
    words = ["optim.schedule=inverse_sqrt", "train.max_minutes=null", f"train.patience={patience}"]
    config = compose_one(*words, f"train.max_steps={total}")
    state = TrainState(step=9, total_steps=9, finished=True, validations_since_best=3)
    found = continued(state, config, total, config, World())
    assert found == replace(state, total_steps=total, finished=not goes_on)


def test_a_training_that_patience_has_ended_goes_on_with_more_of_it():
    """Its schedule has an end, so that another one begins."""

    def config_of(patience: int) -> Config:
        words = ["train.max_steps=12", "train.max_epochs=null", f"train.patience={patience}"]
        return compose_one(*words, "optim.schedule=linear")

    state = TrainState(step=9, total_steps=12, finished=True, validations_since_best=3)
    assert continued(state, config_of(3), 12, config_of(3), World()) == state
    again = continued(state, config_of(3), 12, config_of(4), World())
    assert not again.finished and again.schedule_start == 9 and not again.validations_since_best
    by_updates = replace(state, step=12)
    assert continued(by_updates, config_of(3), 12, config_of(4), World()) == by_updates


def test_minutes_without_a_limit_of_their_own_begin_another_schedule():
    """A training by minutes had no moments left, so that updates without an end begin anew."""
    words = ["optim.schedule=inverse_sqrt", "train.max_epochs=null"]
    before = compose_one(*words, "train.max_minutes=10")
    after = compose_one(*words, "train.max_minutes=null", "train.max_steps=99")
    state = TrainState(step=9, total_steps=9, budget_fixed=True, finished=True)
    again = continued(state, before, 99, after, World())
    assert not again.finished and again.schedule_start == 9 and again.total_steps == 99


def test_other_commands_refuse_several_processes(monkeypatch, capfd):
    for name, value in {"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "localhost"}.items():
        monkeypatch.setenv(name, value)
    answer = run_command(capfd, "translate", "latest", "Hallo")
    assert answer.code == 2 and "torchrun" in answer.err and "nmt train" in answer.err


class Training:
    """A training under torchrun that writes its messages to a file."""

    def __init__(self, log: Path, *command: str) -> None:
        self.log = log
        with open(log, "wb") as file:
            self.process = subprocess.Popen(
                command, stdout=file, stderr=file, env=ENVIRONMENT, start_new_session=True
            )

    def wait_for(self, pattern: str) -> None:
        """Wait until a line of the log matches."""
        deadline = time.monotonic() + 120
        while not re.search(pattern, self.read()):
            assert time.monotonic() < deadline and self.process.poll() is None, self.read()
            time.sleep(0.05)

    def read(self) -> str:
        return self.log.read_text(encoding="utf-8")

    def workers(self) -> list[int]:
        """The processes that train."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(number) for number in path.read_text().split()]


@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/proc/self/task").exists(), reason="the children of a process are read from /proc"
)
def test_signals_kills_and_other_numbers_of_processes_change_nothing(words, tmp_path, succeeds):
    """4 processes, stopped by SIGTERM; 1, stopped by SIGUSR1; 2, of which torchrun restarts a
    killed one."""
    budget = ("train.max_steps=40", "train.validate_every=10")
    succeeds("train", *words("alone", 4, *budget))
    log = tmp_path / "log"

    def chain(batches: int) -> list[str]:
        return ["-m", "nmt", "train", *words("chain", batches, *budget)]

    four = Training(log, *torchrun(4, *chain(1)))
    four.wait_for("update 10: ")
    os.kill(four.process.pid, signal.SIGTERM)
    assert four.process.wait(120) != 0
    assert "everything is saved" in four.read()

    one = Training(log, sys.executable, *chain(4))
    one.wait_for("update 20: ")
    os.kill(one.process.pid, signal.SIGUSR1)
    assert one.process.wait(120) == 128 + signal.SIGUSR1

    two = Training(log, *torchrun(2, "--max-restarts=2", *chain(2)))
    two.wait_for("update 30: ")
    os.kill(two.workers()[-1], signal.SIGKILL)
    assert two.process.wait(240) == 0, two.read()
    assert two.read().count("continuing after update") == 2
    assert_same(tmp_path, "alone", "chain")

"""Sentences of several requests of nmt serve are translated together, each request in its turn."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

BROUGHT = "it is not installed; the environment of `make test` brings it"
batching = pytest.importorskip("nmt.serve.batching", reason=BROUGHT)
Batcher = batching.Batcher
Full = batching.Full
Queues = batching.Queues
Sentence = batching.Sentence


@dataclass
class Echo:
    """A translator that gives sentences back, and notes what it was given at once."""

    num_processes: int = 2
    batches: list[str] = field(default_factory=list)

    def translate_chunk(self, sentences: list[str]) -> list[SimpleNamespace]:
        if "!" in sentences:
            raise ValueError("!")
        self.batches.append("".join(sentences))
        return [SimpleNamespace(text=each) for each in sentences]

    def beside_others(self) -> "Echo":
        return Echo()

    def with_records(self, translations):
        return iter([(each, [f"record of {each.text}"]) for each in translations])

    def estimate(self, translations, records):
        for translation in translations:
            translation.quality = None


def job(text: str, *pieces: int) -> list:
    """The sentences of a request, which are all the same text; each has so many pieces."""
    return [Sentence(text, count) for count in pieces]


def texts(future) -> str:
    return "".join(translation.text for translation, _ in future.result(20))


@pytest.fixture
def held(monkeypatch) -> Iterator[Batcher]:
    """A batcher of 4 sentences and 8 pieces at once; it waits in its first batch for its lock."""
    monkeypatch.setattr(batching, "MOST_SENTENCES", 4)
    monkeypatch.setattr(batching, "MOST_PIECES", 8)
    device = threading.Lock()
    device.acquire()
    batcher = Batcher(Echo(), device)
    batcher.submit(job("_", 1))
    while batcher.begun is None:
        time.sleep(0.001)
    yield batcher
    if device.locked():
        device.release()
    batcher.close()


@pytest.mark.parametrize(
    ("requests", "batches"),
    [
        ({"a": [1, 1], "b": [1, 1]}, ["aabb"]),
        ({"a": [1] * 5, "b": [1], "c": [1, 1]}, ["abc", "aac", "aa"]),  # a does not hold up b
        ({"a": [1, 1], "b": [1], "c": [1], "d": [1], "e": [1]}, ["abcd", "ea"]),
        ({"a": [4, 4, 1]}, ["aa", "a"]),
        ({"a": [9, 1, 7, 1]}, ["a", "aa", "a"]),
        ({"a": [2, 2, 2], "b": [5, 1]}, ["aab", "ab"]),
    ],
    ids=["together", "in turns", "many", "few long ones", "too long a one", "shares"],
)
def test_requests_take_turns(held, requests, batches):
    """By hand: 4 sentences and 8 pieces at once, divided among those whose turn it is."""
    futures = {name: held.submit(job(name, *pieces)) for name, pieces in requests.items()}
    assert held.waiting == 1 + sum(map(len, requests.values()))
    held.device.release()
    for name, pieces in requests.items():
        assert texts(futures[name]) == name * len(pieces)
    assert held.translator.batches == ["_", *batches]


def test_each_sentence_has_its_own_answer_and_records_where_they_are_wanted(held):
    future = held.submit([Sentence("a", 1, True), Sentence("b", 1), Sentence("c", 1, True)])
    held.device.release()
    answers = [(translation.text, records) for translation, records in future.result(20)]
    assert answers == [("a", ["record of a"]), ("b", []), ("c", ["record of c"])]
    assert held.submit([]).result(20) == []


def test_one_request_fails_alone(held):
    """After a part of it was translated, and together with others; the rest of it is dropped."""
    good = held.submit(job("a", *[1] * 6))
    bad = held.submit(job("b", 1, 1) + job("!", 1) + job("c", *[1] * 6))
    gone = held.submit(job("x", 1))
    assert gone.cancel()
    held.device.release()
    assert texts(good) == "a" * 6
    with pytest.raises(ValueError, match="!"):
        bad.result(20)
    held.close()
    assert held.waiting == 0
    assert held.translator.batches == ["_", "aabb", "aa", "aa"]


def test_a_request_is_cancelled_between_two_batches(held):
    future = held.submit(job("x", *[1] * 6))
    translate = held.translator.translate_chunk

    def cancel(sentences: list[str]) -> list[SimpleNamespace]:
        if sentences == ["x"] * 4:
            future.cancel()
        return translate(sentences)

    held.translator.translate_chunk = cancel
    held.device.release()
    held.close()
    assert held.translator.batches[1:] == ["xxxx"]


def test_so_many_sentences_may_wait(held, monkeypatch):
    """After the end none is taken, and those that were taken are translated."""
    monkeypatch.setattr(batching, "WAITING", 4)
    with pytest.raises(Full):
        held.submit(job("x", 1, 1, 1, 1))
    future = held.submit(job("y", 1, 1, 1))
    held.device.release()
    held.close()
    assert future.done() and held.translator.batches == ["_", "yyy"]
    with pytest.raises(Full):
        held.submit(job("x", 1))


def test_a_batcher_is_alive_until_a_batch_takes_too_long(held, monkeypatch):
    begun = 1000.0  # a sum with it is exact
    monkeypatch.setattr(held, "begun", begun)
    for seconds, is_alive in ((0, True), (60, True), (61, False)):
        clock = SimpleNamespace(monotonic=lambda seconds=seconds: begun + seconds)
        monkeypatch.setattr(batching, "time", clock)
        assert held.is_alive(60) == is_alive
    monkeypatch.undo()
    held.device.release()
    held.submit(job("y", 1)).result(20)
    held.close()
    assert not held.is_alive(60)


@pytest.mark.parametrize(
    ("pieces", "queue"),
    [([128] * 4, "short"), ([128] * 4 + [1], "long"), ([129], "long"), ([], "short")],
    ids=["short", "long", "a long sentence", "nothing"],
)
def test_a_short_request_does_not_wait_for_a_part_of_a_long_one(pieces, queue):
    devices = {"short": threading.Lock(), "long": threading.Lock()}
    queues = Queues(Echo(), tuple(devices.values()))
    other = "short" if queue == "long" else "long"
    with devices[other]:
        assert len(queues.submit(job("x", *pieces)).result(20)) == len(pieces)
    with devices[queue]:
        future = queues.submit(job("x", *pieces))
        assert future.done() == (not pieces)
        assert sum(queue.waiting for queue in queues.both) == len(pieces)
    queues.close()
    assert future.done() and not any(batcher.thread.is_alive() for batcher in queues.both)


def test_long_requests_are_modest_beside_short_ones(held, monkeypatch):
    """For a second after a short one came, also where the short ones never pause."""
    monkeypatch.setattr(batching, "MODEST_PIECES", 2)
    monkeypatch.setattr(batching, "PATIENCE", 0)
    long = Batcher(Echo(), threading.Lock(), preferred=held)
    assert held.give_way() == 8
    for seconds, pieces in ((0, 2), (0.99, 2), (1, 8)):
        clock = SimpleNamespace(monotonic=lambda seconds=seconds: held.last_used + seconds)
        monkeypatch.setattr(batching, "time", clock)
        assert long.give_way() == pieces
    monkeypatch.undo()
    monkeypatch.setattr(batching, "PATIENCE", 600)
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(long.give_way)
        time.sleep(0.02)
        assert not waits.done()
        held.device.release()
        assert waits.result(20) == batching.MODEST_PIECES  # after the pause
        with held.device:
            held.submit(job("y", 1))
            long.close()
            assert long.give_way() == batching.MOST_PIECES  # at its end it waits for nobody

"""nmt audit --forward and --backward: what a model says of pairs."""

import json
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from corpora import Trained, pairs, run_command, write_pairs
from hypothesis import given
from hypothesis import strategies as st

import nmt
from nmt.audit import translations
from nmt.audit.run import evenly_spread
from nmt.audit.translations import MOST_TRIED, TranslationCheck, strangers, threshold
from nmt.corpus.filtering import hash_letters

WORDS = ["data=files", "data.source=de", "data.target=en"]
SETS = ["data.train=train", "data.valid=valid", "data.test=null"]
# Every tenth pair has the target of the tenth after it.
SHUFFLED = set(range(0, 400, 10))


@pytest.fixture(scope="module")
def run(trained: Trained) -> nmt.Run:
    return nmt.load("tiny", run_folder=trained.runs, precision="fp32")


@pytest.fixture
def audit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd, trained: Trained):
    """audit(WORD …) → what `nmt audit` printed of 400 pairs in the current folder."""
    monkeypatch.chdir(tmp_path)
    clean = pairs(440)
    mixed = clean[:400]
    for row in SHUFFLED:
        mixed[row] = (clean[row][0], clean[(row + 10) % 400][1])
    write_pairs(tmp_path, "train", mixed)
    write_pairs(tmp_path, "valid", clean[400:])
    options = [*WORDS, *SETS, f"run_folder={trained.runs}", "data.audit_deviation=100"]
    return lambda *words: run_command(capfd, "audit", *options, *words)


LETTERS = st.tuples(st.sampled_from("a A b. bc , d".split()), st.sampled_from("xyz"))


@given(st.lists(LETTERS, max_size=MOST_TRIED), st.integers(1, 3))
def test_strangers_have_other_letters_on_both_sides(some, count):
    """Than the pair and than each other; a pair has one wherever there is one."""
    letters = [tuple(map(hash_letters, pair)) for pair in some]

    def differ(rows: list[int]) -> bool:
        sources = {letters[row][0] for row in rows}
        return len(sources) == len({letters[row][1] for row in rows}) == len(rows)

    others = strangers(some, count)
    assert others.shape == (count, len(some))
    for row in range(len(some)):
        chosen = [other for other in others[:, row].tolist() if other != row]
        assert differ([row, *chosen])
        assert bool(chosen) == any(differ([row, other]) for other in range(len(some)))


def test_a_strangers_source_has_a_similar_length():
    some = [("abcdefghi"[:length], "rstuvwxyz"[:length]) for length in (9, 1, 5, 6, 2, 8)]
    first, second = strangers(some, 2).tolist()
    assert [len(some[other][0]) for other in first] == [1, 2, 6, 8, 5, 9], "the longest: 1"
    assert [len(some[other][0]) for other in second] == [2, 5, 8, 9, 6, 1]


def test_a_gain_is_what_the_own_source_tells(run, tmp_path):
    """By forced decoding of each pair alone, in both directions."""
    some = pairs(6)
    others = strangers(some, 3)

    def cross_entropy(source: str, target: str) -> float:
        (ids,) = run.translator.tokenizers.encode_pairs([(source, target)])
        return -float(np.mean(run.translator.force_decode(ids).log_probabilities))

    expected = np.zeros((2, 6))
    for row, pair in enumerate(some):
        entropies = np.zeros(4)
        for side in (0, 1):
            sources = [pair[side], *(some[other][side] for other in others[:, row])]
            entropies += [cross_entropy(source, pair[1 - side]) for source in sources]
        own, first, second, third = entropies
        expected[:, row] = 1 - own / (first + second) * 2, 1 - first / (second + third) * 2
    both = TranslationCheck(run, run, tmp_path / "both")
    np.testing.assert_allclose(both.gains(some, random=True), expected, atol=1e-4)
    np.testing.assert_allclose(both.gains(some), expected[:1], atol=1e-4)
    exchanged = [(target, source) for source, target in some]
    backward = TranslationCheck(None, run, tmp_path / "backward").cross_entropies(some, 0)
    np.testing.assert_allclose(backward[0], translations.cross_entropies(run, exchanged))


@pytest.mark.parametrize("share", [0.05, 0.2, 0.5])
def test_the_threshold_costs_least(share):
    """Random gains around 0 in a mixture with gains around 3: as counted with the labels."""
    generator = np.random.default_rng(1)
    is_random = generator.random(20_000) < share
    gains = np.where(is_random, generator.normal(0, 1, 20_000), generator.normal(3, 1, 20_000))
    learned = threshold(gains, generator.normal(0, 1, 20_000))

    def cost(limit: float) -> float:
        stay = is_random & (gains > limit)
        go = ~is_random & (gains <= limit)
        return float(2 * stay.mean() + go.mean())

    assert cost(learned) < min(map(cost, np.linspace(-2, 5, 200))) + 0.005
    shuffled = generator.permutation(gains)
    assert threshold(np.append(shuffled, np.nan), generator.normal(0, 1, 20_000)) == pytest.approx(
        learned, abs=0.3
    ), "order and gains that are not known change nothing"


def test_nothing_is_improbable_where_nothing_is_random():
    generator = np.random.default_rng(1)
    random_gains = generator.normal(0, 1, 4000)
    assert threshold(generator.normal(9, 1, 4000), random_gains) == -math.inf
    assert threshold(np.array([]), random_gains) == -math.inf


def test_what_cannot_be_judged_is_no_fault(run, tmp_path):
    check = TranslationCheck(run, None, tmp_path, threshold=math.inf)
    some = [("Ein Hund.", ""), (" ", "A dog."), *pairs(3)]
    rows, unjudged = check.judge(some)
    assert rows == [2, 3, 4] and unjudged == 2
    assert check.judge([("Ja.", "Yes."), ("ja", "yes")]) == ([], 2), "there are no strangers"
    assert check.judge([(b"\xff".decode(errors="surrogateescape"), "x"), *pairs(2)])[0] == [0, 1, 2]


def test_pairs_of_a_corpus_are_reported_and_left_out(audit, trained):
    answer = audit("--forward", "tiny", "--clean", "passed")
    assert answer.code == 0
    assert "improbable translation" in answer.out
    (folder,) = Path("data").glob("audit-*")
    assert "improbable translation" in (folder / "audit.html").read_text(encoding="utf-8")
    rejected = set()
    for line in Path("passed.rejected.tsv").read_text(encoding="utf-8").splitlines():
        reason, place, *_ = line.split("\t")
        if reason == "improbable translation":
            rejected.add(int(place.rsplit(":", 1)[1]) - 1)
    found = len(rejected & SHUFFLED) / len(SHUFFLED)
    lost = len(rejected - SHUFFLED) / (400 - len(SHUFFLED))
    assert found > 0.25 and found > 2 * lost, "the model is a weak one"
    plain = audit()
    assert "improbable translation" not in plain.out, "an audit without a model is another"


@given(st.integers(1, 50), st.integers(0, 50), st.integers(1, 20))
def test_a_sample_is_evenly_spread(first, second, most):
    """Over all origins of a set, from its beginning to its end."""
    every = [(str(number), "") for number in range(first + second)]

    def origin(of_origin: list[tuple[str, str]]) -> SimpleNamespace:
        return SimpleNamespace(sides=None, pairs=lambda *_: iter(of_origin))

    sample = evenly_spread([origin(every[:first]), origin(every[first:])], len(every), most)
    places = [int(number) for number, _ in sample]
    assert 1 <= len(places) <= most
    assert len(set(np.diff(places))) <= 1
    if len(every) <= most:
        assert places == list(range(len(every)))
    else:
        assert places[0] == 0 and len(every) - places[-1] <= -(-len(every) // most)


def test_pairs_that_cannot_be_judged_are_counted(audit):
    lines = Path("train.en").read_text(encoding="utf-8").splitlines()
    lines[5] = ""
    Path("train.en").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    answer = audit("--forward", "tiny")
    assert answer.code == 0 and "train: 1 pairs could not be judged" in answer.err


def test_an_interrupted_check_continues(audit, monkeypatch):
    """The chunks that are done are not scored again, and the result is the same."""
    monkeypatch.setattr("nmt.audit.run.CHECKED", 100)
    monkeypatch.setattr(translations, "CHECKED", 100)
    monkeypatch.setattr(translations, "MIN_PAIRS", 50)
    calls = []
    cross_entropies = translations.cross_entropies

    def interrupted(run, scored):
        calls.append(len(scored))
        if len(calls) == 8:
            raise KeyboardInterrupt
        return cross_entropies(run, scored)

    monkeypatch.setattr(translations, "cross_entropies", interrupted)
    assert audit("--forward", "tiny").code == 130
    before = len(calls)
    continued = audit("--forward", "tiny")
    assert continued.code == 0
    # The sample with three strangers, then four chunks and the validation set with two. The second
    # chunk of the sample, which was interrupted in its fourth call, is scored again.
    assert before == 8
    assert len(calls) == 4 * 4 + 3 * 5 + 4
    assert [path.name for path in Path("data").glob("audit-*.parts")] == []
    (folder,) = Path("data").glob("audit-*")
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    again = audit("--forward", "tiny", "data.audit_examples=6")
    assert again.code == 0
    counts = [line.split("\t")[:3] for line in continued.out.splitlines()]
    assert counts == [line.split("\t")[:3] for line in again.out.splitlines()]
    assert report


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--forward", "missing"], "missing"),
        (["--backward", "tiny"], "en"),
        (["--forward", "tiny", "data.train=valid"], "200"),
        (["--forward", "tiny", "data.source=de+fr"], "data.source"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_refusals(words, named, audit):
    answer = audit(*words)
    assert answer.code == 2 and answer.out == ""
    assert named in answer.err.splitlines()[-1]
    assert not list(Path("data").glob("audit-*"))

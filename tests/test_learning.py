"""What a run learns from corrections, what is left out, and what decides whether it is used."""

import random
import re
import shutil
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from corpora import Answer, Trained, folder_options, pairs, run_command, small
from test_multilingual import write_texts

from nmt.commands import learn as learn_command
from nmt.corpus.checksums import write_json
from nmt.corpus.corpus_folder import set_files
from nmt.corpus.parallel_text import read_lines, read_pairs
from nmt.errors import UserError
from nmt.evaluate.metrics import Translated, score
from nmt.runs import learning, pipeline, versions
from nmt.runs.decision import NOT_BETTER, TOO_FEW, WORSE, Decision, SetChange, decide, is_held_out
from nmt.runs.learning import (
    Correction,
    Lesson,
    find_old_corpus,
    open_version,
    settle_newest,
    training_words,
    version_of_lesson,
)
from nmt.runs.learning_report import MOST_WORSE, examples, score_tables
from nmt.runs.versions import ACCEPTED, current_number, read_record, set_current
from nmt.serve.corrections import CONFIRMED, Corrections
from nmt.training import checkpoint
from nmt.training.restore import load_config

DE_EN = ("de", "en")
DE_FR = ("de", "fr")
DE_IT = ("de", "it")
# for a model that has hardly been trained
STRONG = ["optim.lr=0.01", "device=cpu", "precision=fp32", "train.log_sentences=0"]
Learn = Callable[..., Answer]


@pytest.fixture
def run(trained: Trained, tmp_path: Path) -> Path:
    """A copy of the trained run, with the corpus that it was trained on."""
    shutil.copytree(trained.root, tmp_path / "root")
    return tmp_path / "root" / "runs" / trained.name


@pytest.fixture
def learn(run: Path, capfd: pytest.CaptureFixture[str]) -> Learn:
    """learn(WORD …) → the answer of `nmt learn` with the copy."""

    def call(*words: str) -> Answer:
        data_folder = folder_options(run.parent.parent)[0]
        runs = ["--runs", str(run.parent)]
        return run_command(capfd, "learn", "tiny", *runs, data_folder, *STRONG, *words)

    return call


@pytest.fixture
def stopped(monkeypatch):
    """stopped(learn, WORD …) → the lesson of a learning that is killed when it begins."""
    lessons = []

    def stop_at(lesson: Lesson, *_: object) -> None:
        lessons.append(lesson)
        raise RuntimeError("killed")

    def lesson_of(learn: Learn, *words: str) -> Lesson:
        with pytest.raises(RuntimeError, match="killed"):
            learn(*words)
        return lessons.pop()

    monkeypatch.setattr(learn_command, "learn", stop_at)
    return lesson_of


def wanted(count: int) -> list[tuple[str, str]]:
    """Sentences whose translations people want otherwise than the run has learnt them."""
    return [(source, target.replace("the ", "our ")) for source, target in pairs(count, seed=5)]


def write_tsv(path: Path, rows: Sequence[tuple[str, str]]) -> str:
    path.write_text("".join(f"{source}\t{target}\n" for source, target in rows), encoding="utf-8")
    return str(path)


# The side of a correction


def test_a_correction_stays_on_its_side():
    """Whatever its translation, case and punctuation are."""
    sources = [source for source, _ in pairs(1000)]
    held_out = [source for source in sources if is_held_out(source)]
    assert 150 < len(held_out) < 250
    for source in sources[:50]:
        assert is_held_out(source) == is_held_out(source.upper()) == is_held_out(f"{source} !")
    assert isinstance(is_held_out("…"), bool)


# The decision


def changed(before: float, after: float, name: str = "corrections", count: int = 60) -> SetChange:
    """A set of which a share of the sentences is right before, and another share after."""
    references = [target for _, target in pairs(count, seed=2)]
    wrong = [target for _, target in pairs(count, seed=3)]

    def mixed(share: float) -> list[str]:
        right = round(share * count)
        return references[:right] + wrong[right:]

    sources = [source for source, _ in pairs(count, seed=2)]
    return SetChange(name, "en", sources, references, mixed(before), mixed(after))


SAME_TEST = changed(0.5, 0.5, "test")


@pytest.mark.parametrize(
    ("corrections", "test", "kind"),
    [
        (changed(0.2, 0.8), SAME_TEST, ACCEPTED),
        (changed(0.2, 0.8), changed(0.5, 0.6, "test"), ACCEPTED),
        (changed(0.2, 0.8), changed(0.8, 0.5, "test"), WORSE),
        (changed(0.5, 0.5), SAME_TEST, NOT_BETTER),
        (changed(0.8, 0.2), SAME_TEST, NOT_BETTER),
        (changed(0.5, 0.52), SAME_TEST, TOO_FEW),
        (changed(0.0, 1.0, count=10), SAME_TEST, ACCEPTED),
        (changed(0.0, 1.0, count=9), SAME_TEST, TOO_FEW),
        (None, SAME_TEST, TOO_FEW),
    ],
)
def test_the_decision(corrections, test, kind):
    decision = decide(corrections, [test], margin=0.5)
    assert decision.kind == kind
    assert decision.sentence.lower().startswith(kind)


@pytest.mark.parametrize("count", [9, 60, 120])
def test_it_says_how_many_corrections_would_be_enough(count):
    """More held-out ones than there are, and five times as many in all, in two digits."""
    corrections = changed(0.5, 0.52, count=count)
    sentence = decide(corrections, [SAME_TEST], 0.5).sentence
    numbers = re.search(r"about ([\d,]+) corrections, ([\d,]+) of them held out", sentence)
    assert numbers is not None
    total, held_out = (int(number.replace(",", "")) for number in numbers.groups())
    assert held_out > count
    assert total == pytest.approx(5 * held_out, rel=0.1)


def test_the_margin_decides():
    test = changed(0.8, 0.75, "test")
    lost = -test.gain("bleu")
    assert lost > 0
    better = changed(0.2, 0.8)
    assert decide(better, [test], lost + 0.01).kind == ACCEPTED
    assert decide(better, [test], lost - 0.01).kind == WORSE


def test_the_report_shows_the_largest_changes_the_largest_first():
    change = changed(0.5, 0.5)
    change.before.reverse()
    change.after[:10] = change.before[:10]
    gains = change.gains_of_sentences().tolist()
    rises = sorted((gain for gain in gains if gain > 0), reverse=True)
    falls = sorted(gain for gain in gains if gain < 0)
    shown = []
    for table in examples(change, "corrections", most_better=5):
        shown.append([gains[change.sources.index(row[0])] for row in table.rows])
    assert shown == [rises[:5], falls[:MOST_WORSE]]
    assert len(rises) > 5 and len(falls) > MOST_WORSE


def test_the_report_has_the_scores_of_every_set_before_and_after():
    """And how many translations changed, whether they are right or not."""
    sets = [changed(0.2, 0.8), changed(0.5, 0.4, "test")]
    record = {"margin": 0.5, "edited": {"sentences": 7, "hter": 12.34}}
    decision = Decision(ACCEPTED, "Better.")
    outcome = learning.Outcome(2, Path(), record, decision, sets[0], sets[1:])
    rows = []
    edits = ["held-out corrections", "60"]
    for change, count in zip(sets, ("36", "6"), strict=True):
        before, after = (
            score(Translated(texts, [change.references]), "en", ["bleu", "chrf", "ter"])
            for texts in (change.before, change.after)
        )
        for label in ("BLEU", "chrF"):
            name = label.lower()
            gain = f"{after[name] - before[name]:+.1f}"
            p = f"{change.scores[name]['p']:.3f}"
            shown = [f"{before[name]:.1f}", f"{after[name]:.1f}", gain, p]
            rows.append([change.name, "60", count, label, *shown])
        if change is sets[0]:
            edits += [f"{before['ter']:.1f}", f"{after['ter']:.1f}"]
    shown_to_people = ["all corrections, as the machine had shown them", "7", "12.3", "–"]
    assert [table.rows for table in score_tables(outcome)] == [rows, [shown_to_people, edits]]


# The folder of a version


def lesson(run: Path, rows: Sequence[tuple[str, str]]) -> Lesson:
    return Lesson(run, 1, list(rows), [], 0.5, [], {})


def test_a_version_holds_all_corrections_from_its_first_moment(run):
    data = load_config(run / "best.safetensors").data
    rows = wanted(50)
    number, folder = open_version(lesson(run, rows), data)
    assert number == 2
    assert sorted(learning.known_pairs(folder, data)) == sorted(rows)
    for name, is_held in (("learnt", False), ("corrections", True)):
        for source in read_lines(folder / f"{name}.de"):
            assert is_held_out(source) == is_held
    # the same lesson goes on in it; another one takes its place, for it was never used
    assert open_version(lesson(run, rows[::-1]), data) == (2, folder)
    assert open_version(lesson(run, rows[:40]), data) == (2, folder)
    assert len(learning.known_pairs(folder, data)) == 40
    assert version_of_lesson(lesson(run, rows[:40])) is None
    # a finished one stays
    record = read_record(folder)
    assert record is not None
    write_json(folder / versions.RECORD, record | {"decision": TOO_FEW})
    assert version_of_lesson(lesson(run, rows[:40])) == 2
    assert version_of_lesson(lesson(run, rows)) is None
    third, folder = open_version(lesson(run, rows), data)
    assert third == 3
    # so does an unfinished one from which another begins, because somebody has made it current
    assert open_version(replace(lesson(run, rows), base=3), data)[0] == 4
    assert learning.known_pairs(folder, data)


def test_another_lesson_is_whatever_decides_otherwise(run):
    """Each field of a lesson; not the order of the pairs, and not what is only noted."""
    known = lesson(run, wanted(3))
    others = {"base": 2, "pairs": wanted(2), "tests": ["x"], "margin": 0.4, "words": ["seed=2"]}
    alike = {"run_folder": run.parent, "pairs": known.pairs[::-1], "about": {"new": 3}}
    assert {*others, *alike} == {each.name for each in fields(Lesson)}
    for name, value in others.items():
        assert replace(known, **{name: value}).key != known.key, name
    assert replace(known, **alike).key == known.key


def decided(run: Path, number: int, base: int, decision: str = ACCEPTED) -> None:
    folder = run / "versions" / str(number)
    folder.mkdir(parents=True)
    shutil.copyfile(run / "best.safetensors", folder / "best.safetensors")
    write_json(folder / versions.RECORD, {"base": base, "key": "", "decision": decision})


def test_a_kill_before_the_change_is_made_good(run):
    decided(run, 2, base=1)
    assert settle_newest(run, 1) == 2 == current_number(run)
    decided(run, 3, base=2, decision=TOO_FEW)
    assert settle_newest(run, 2) == 2 == current_number(run)


def test_a_version_that_was_left_stays_so(run, capfd, refused):
    runs = ["--runs", str(run.parent)]
    decided(run, 2, base=1)
    decided(run, 3, base=2)
    set_current(run, 3)
    for name, number, is_left in (("tiny@3", 3, False), ("latest", 2, True), ("tiny@3", 3, False)):
        assert run_command(capfd, "rollback", name, *runs).out == f"{number}\n"
        assert ("left" in read_record(run / "versions" / "3")) == is_left
        if is_left:
            assert settle_newest(run, 2) == 2
    assert run_command(capfd, "rollback", "tiny@1", *runs).out == "1\n"
    assert current_number(run) == 1
    assert "Version 1" in refused("rollback", "tiny", *runs)
    assert "versions/7" in refused("rollback", "tiny@7", *runs)
    assert "nobody" in refused("rollback", "nobody", *runs)
    assert "latest" in refused("rollback", "latest", "--runs", str(run))
    (run / "current").write_text("9", encoding="utf-8")  # a version that somebody has deleted
    assert run_command(capfd, "rollback", "tiny", *runs).out == "1\n"


def test_a_lesson_is_what_is_known_and_what_is_new(run, stopped, learn, tmp_path, monkeypatch):
    """In all directions, without what the audit leaves out, and a person has not confirmed.

    A new correction replaces an old one. A lesson that has nothing new is none.
    """
    best = run / "best.safetensors"
    payload = checkpoint.load(best)
    payload["config"]["data"]["target"] = "en+fr"
    checkpoint.save(best, payload)
    earlier = [("<2en> Haus", "house"), ("<2en> Baum", "tree")]
    decided(run, 2, base=1)
    data = load_config(best).data
    learning.write_pairs(set_files(run / "versions" / "2", "learnt", data), earlier)
    set_current(run, 2)

    store = Corrections(tmp_path / "corrections.db", create=True)
    store.add([("Haus", "x", "house"), ("Baum", "x", "a tree")], DE_EN, accepted=1)
    store.add([("Hund", "x", "dog"), ("Katze", "x", "BAD")], DE_EN, accepted=1)
    store.add([("Haus", "x", "BAD"), ("Hund", "x", "chien")], DE_FR, accepted=1)

    def audit(corrections: Sequence[Correction], *_: object) -> dict[int, str]:
        return {row: "bad" for row, each in enumerate(corrections) if each.target == "BAD"}

    monkeypatch.setattr(learn_command, "find_old_corpus", lambda *_: None)
    monkeypatch.setattr(learn_command, "audit", audit)
    write_texts(tmp_path, "de", "en+fr")
    words = ["--corrections", str(store.path), "--test", str(tmp_path / "test")]
    found = stopped(learn, *words)
    assert found.base == 2 and found.about["new"] == 3
    assert found.pairs == [
        ("<2en> Haus", "house"),
        ("<2en> Baum", "a tree"),
        ("<2en> Hund", "dog"),
        ("<2fr> Hund", "chien"),
    ]
    assert list(read_lines(run / "rejected.tsv")) == [
        "bad\t<2en> Katze\tBAD\t4",
        "bad\t<2fr> Haus\tBAD\t5",
    ]
    store.decide([4], CONFIRMED)
    found = stopped(learn, *words)
    assert ("<2en> Katze", "BAD") in found.pairs
    assert list(read_lines(run / "rejected.tsv")) == ["bad\t<2fr> Haus\tBAD\t5"]
    store.decide(range(2, 7), 0)
    store.close()
    assert learn(*words).code == 0


def test_a_test_set_that_is_missing_is_found_before_a_version_begins(run, learn, tmp_path):
    file = write_tsv(tmp_path / "corrections.tsv", [DE_EN, *wanted(3)])
    answer = learn("--from", file, "--test", str(tmp_path / "nowhere"))
    assert answer.code == 2 and "nowhere" in answer.err
    assert not (run / "versions").exists() and not (run / "rejected.tsv").exists()


def test_words_are_files_where_there_is_one(stopped, learn, tmp_path, monkeypatch):
    """Whatever a file is called; what is given with it is a setting of the training."""
    monkeypatch.setattr(learn_command, "audit", lambda *_: {})
    file = write_tsv(tmp_path / "old=new.tsv", [DE_EN, *wanted(3)])
    found = stopped(learn, file, "seed=2")
    assert found.about["from"] == [file] and "seed=2" in found.words
    assert found.pairs == wanted(3)


def test_a_correction_as_unlike_the_machine_as_the_limit_is_left_out(run, monkeypatch):
    """Where the machine's text is known, and as the service names it."""
    rows = [(source, target, "known") for source, target in wanted(4)]
    rows.insert(1, (*pairs(1, seed=9)[0], ""))
    corrections = [Correction(*row) for row in rows]
    judged = [0.4, 0.3, 0.2, 0.1], 0.2
    monkeypatch.setattr(learn_command, "judge_likenesses", lambda _: judged)
    monkeypatch.setattr(learn_command, "MIN_PAIRS", 9)
    data = load_config(run / "best.safetensors").data
    faults = learn_command.audit(corrections, run, data, [])
    assert faults == dict.fromkeys((3, 4), learn_command.UNLIKE_MACHINE)


@pytest.mark.parametrize(("left_out", "is_refused"), [(2, False), (3, True)])
def test_more_than_half_left_out_is_refused(left_out, is_refused, tmp_path):
    """With exactly half the others are learnt; in both cases the file says which they are."""
    corrections = [Correction(source, target) for source, target in wanted(4)]
    faults = dict.fromkeys(range(left_out), "bad")
    with pytest.raises(UserError) if is_refused else nullcontext():
        learn_command.reject(tmp_path, corrections, faults)
    assert len(list(read_lines(tmp_path / "rejected.tsv"))) == left_out


def test_edits_are_counted_in_words_of_the_correction():
    known = [Correction("x", "one two three four", "one two"), Correction("y", "five", "five")]
    found = learn_command.edits([*known, Correction("z", "six seven")], "en")
    assert found == {"sentences": 2, "hter": pytest.approx(100 * 2 / 5)}


# The training


@pytest.mark.parametrize(
    ("count", "copies"), [(1, 25), (400, 25), (1000, 10), (3333, 3), (9999, 3)]
)
def test_few_corrections_are_repeated_more_often(run, count, copies):
    data = load_config(run / "best.safetensors").data
    given = lesson(run, wanted(9))
    _, folder = open_version(given, data)
    learning.write_pairs(set_files(folder, "learnt", data), wanted(1) * count)
    words = training_words(given, 2, folder, None, "data")
    assert f"data.weights=[{copies:.1f}]" in words


@pytest.mark.parametrize("has_old", [True, False])
def test_old_text_is_known_by_other_pairs_than_those_that_choose(
    has_old, run, tmp_path, monkeypatch
):
    """The pairs that choose may lose half of the margin: a test set may lose more than they do."""
    old = find_old_corpus(run, str(run.parent.parent / "data")) if has_old else None
    config = load_config(run / "best.safetensors")
    config.run_folder = str(tmp_path)
    folder = pipeline.run_folder(config)
    folder.mkdir()
    learning.write_pairs(set_files(folder, "learnt", config.data), wanted(4))
    valid = pairs(9)
    called: list[tuple[object, ...]] = []
    monkeypatch.setattr(learning, "build_corpus_stage", lambda _: tmp_path)
    monkeypatch.setattr(learning, "corpus_set", lambda *_: SimpleNamespace(pairs=valid))
    monkeypatch.setattr(learning, "merge", lambda *given: called.append(given))
    monkeypatch.setattr(pipeline, "train", lambda config, finish, **_: finish(tmp_path) or [])
    assert learning.train_version(config, run, old, margin=0.8) == []
    [(base, best, known, learnt, chosen_by, allowed)] = called
    assert (base, best, learnt, allowed) == (run, tmp_path, wanted(4), 0.4)
    if old is None:
        assert sorted(known + chosen_by) == sorted(valid)
    else:
        assert chosen_by == valid
        assert known == list(read_pairs(*set_files(old, "train", config.data)))


@pytest.mark.parametrize(("count", "is_enough"), [(2, True), (100, False)])
def test_old_text_has_its_share_of_what_is_trained_on(run, count, is_enough):
    """0.6 of the bytes in all passes, or all of it where that is less. Its sets judge, too."""
    base = run / "best.safetensors"
    data_folder = str(run.parent.parent / "data")
    given = replace(lesson(run, wanted(count)), tests=["a", "b"], words=["optim.lr=0.1"])
    _, folder = open_version(given, load_config(base).data)
    old = find_old_corpus(run, data_folder)
    assert old is not None
    (config,) = pipeline.compose(training_words(given, 2, folder, old, data_folder))
    assert config.data.train == [str(folder / "learnt"), str(old / "train")]
    passes, of_old = config.data.weights
    learnt = passes * bytes_of(folder, "learnt")
    rehearsed = of_old * bytes_of(old, "train")
    wanted_bytes = 0.6 / 0.4 * learnt
    assert (of_old < 1) == is_enough
    assert rehearsed == pytest.approx(wanted_bytes if is_enough else min(rehearsed, wanted_bytes))
    assert config.data.valid == [str(old / "valid")]
    sets = [str(folder / "corrections"), "a", "b", str(old / "test")]
    assert config.data.test == sets
    assert config.optim.lr == 0.1

    given = replace(given, words=[])
    (config,) = pipeline.compose(training_words(given, 2, folder, None, data_folder))
    assert config.optim.lr == 0.002
    assert config.data.train == [str(folder / "learnt")]
    assert (config.data.valid, config.data.test) == (["a"], sets[:3])


def test_pairs_at_equal_distances_stand_for_a_text(tmp_path):
    rows = pairs(100)
    files = tmp_path / "text.de", tmp_path / "text.en"
    learning.write_pairs(files, rows)
    assert learning.evenly_spaced(files, 30) == rows[:90:3]
    assert learning.evenly_spaced(files, 200) == rows


def bytes_of(folder: Path, name: str) -> int:
    return sum((folder / f"{name}.{language}").stat().st_size for language in ("de", "en"))


# The weights


@pytest.mark.parametrize("importance", [1, 3, 81, 729])
def test_as_much_is_learnt_as_the_validation_set_allows(importance, run, tmp_path, monkeypatch):
    base = run / "best.safetensors"
    payload = checkpoint.load(base)
    old = payload["model"]
    generator = torch.Generator().manual_seed(1)

    def noise() -> dict[str, torch.Tensor]:
        """Of each weight, the same under all its names."""
        drawn = {name: torch.rand(old[name].shape, generator=generator) for name in old}
        shared = checkpoint.shared_names(old)
        return {name: drawn[shared.get(name, name)] for name in old}

    change, of_old, of_new = noise(), noise(), noise()
    idle = next(iter(old))
    for weights in (of_old, of_new):  # a weight that neither text needs
        weights[idle] = torch.zeros_like(weights[idle])
    payload["model"] = {name: old[name] + change[name] for name in old}
    best = tmp_path / "best.safetensors"
    checkpoint.save(best, payload)

    def loaded(paths: list[Path]) -> SimpleNamespace:
        """A run that loses more than is allowed where λ is less than `importance`."""
        origin = checkpoint.load(paths[0])["origin"]
        merged = re.search("λ = ([0-9]+)", origin)
        is_bad = merged and int(merged[1]) < importance
        bleu = 9.0
        if merged:
            bleu = 8.5 if is_bad else 8.8
        return SimpleNamespace(score=lambda *_: SimpleNamespace(bleu=bleu))

    information = {"known": of_old, "learnt": of_new}
    monkeypatch.setattr(learning, "load_run", loaded)
    monkeypatch.setattr(learning, "information", lambda _, pairs: information[pairs[0][0]])
    for _ in range(2):  # the second time it is done
        learning.merge(base, best, *([(name, "")] for name in ("known", "learnt", "valid")), 0.3)
        merged = checkpoint.load(best)["model"]
        for name in old:
            share = (of_new[name] / (of_new[name] + importance * of_old[name])).nan_to_num()
            torch.testing.assert_close(merged[name], old[name] + share * change[name])


# All of it


@pytest.mark.slow
def test_corrections_are_learnt_and_shuffled_ones_are_not(run, learn, tmp_path):
    corrections = Corrections(tmp_path / "corrections.sqlite", create=True)
    rows = wanted(200)
    for number, (source, target) in enumerate(rows):
        machine = target.replace("our ", "the ")
        corrections.add([(source, machine, target)], ("de", "en"), accepted=number < 150)
    corrections.close()
    store = ["--corrections", str(corrections.path)]
    answer = learn(*store)
    assert answer.code == 0
    assert "Better" in answer.out and current_number(run) == 2
    folder = run / "versions" / "2"
    known = {*read_lines(folder / "learnt.de"), *read_lines(folder / "corrections.de")}
    assert known <= {source for source, _ in rows[:150]} and len(known) > 140
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "How much people had to edit" in page and "our " in page

    # The next day: nothing new, then other corrections, which are shuffled
    answer = learn(*store)
    assert answer.code == 0 and answer.out == ""
    assert current_number(run) == 2
    targets = [target for _, target in rows[:100]]
    random.Random(1).shuffle(targets)
    sources = [f"Gestern: {source}" for source, _ in rows[:100]]
    shuffled = write_tsv(tmp_path / "shuffled.tsv", list(zip(sources, targets, strict=True)))
    answer = learn("--from", shuffled)
    assert "Better" not in answer.out
    assert current_number(run) == 2


@pytest.mark.slow
def test_a_learning_that_is_stopped_anywhere_goes_on(run, learn, tmp_path, monkeypatch):
    """After each step that writes, as if a kill came there."""
    steps = [
        (learning, "training_words"),
        (learning, "train_version"),
        (learning, "merge"),
        (pipeline, "score_trained"),
        (learn_command, "write_report"),
        (learn_command, "settle"),
        (learning, "set_current"),
    ]
    rows = write_tsv(tmp_path / "rows.tsv", wanted(40))
    monkeypatch.setattr(learning, "decide", lambda *_: Decision(ACCEPTED, "Better."))
    for module, name in steps:
        with monkeypatch.context() as patched:
            patched.setattr(module, name, stop)
            with pytest.raises(RuntimeError, match="killed"):
                learn("--from", rows, "train.max_steps=8")
        assert current_number(run) == 1, name
    answer = learn("--from", rows, "train.max_steps=8")
    assert answer.code == 0 and current_number(run) == 2
    assert not (run / "versions" / "3").exists()


def stop(*_: object) -> None:
    raise RuntimeError("killed")


@pytest.mark.slow
def test_without_the_text_of_the_run_another_test_guards(run, learn, tmp_path):
    """It validates, too; and once more from the version that was made so."""
    best = run / "best.safetensors"
    payload = checkpoint.load(best)
    payload["config"]["data_folder"] = str(tmp_path / "gone")
    checkpoint.save(best, payload)
    shutil.rmtree(run.parent.parent / "data")
    rows = wanted(60)
    everyday = write_tsv(tmp_path / "everyday.tsv", pairs(20, seed=8))
    for count, number in ((40, 2), (60, 3)):
        corrections = write_tsv(tmp_path / "rows.tsv", rows[:count])
        answer = learn("--from", corrections, "--test", everyday, "train.max_steps=8")
        assert answer.code == 0, answer.err
        record = read_record(run / "versions" / str(number))
        assert record is not None and record["scores"].keys() == {"corrections", "everyday"}
        set_current(run, number)
        known = learning.known_pairs(run / "versions" / str(number), load_config(best).data)
        assert sorted(known) == sorted(rows[:count])


# Several directions


@pytest.mark.slow
def test_a_run_with_several_directions_learns_in_each(tmp_path, capfd, refused):
    """A correction has its languages; the test sets of all directions guard."""
    words = write_texts(tmp_path, "en", "de+fr")
    words += ["name=two", "train.max_steps=4", "train.average_checkpoints=0"]
    assert run_command(capfd, "train", *small(tmp_path, words)).code == 0
    run = tmp_path / "runs" / "two"
    folders = ["--runs", str(run.parent), folder_options(tmp_path)[0]]
    rows = [(english, german.upper()) for german, english in pairs(50, seed=5)]
    store = Corrections(tmp_path / "corrections.db", create=True)
    for number, (english, other) in enumerate(rows):
        languages = ("en", "fr" if number % 2 else "de")
        store.add([(english, other.lower(), other)], languages, accepted=1)
    store.add([("A dog.", "", "Un cane.")], ("en", "it"), accepted=1)
    store.close()
    learn = ["learn", "two", *folders, *STRONG, "train.max_steps=4"]

    # One direction of the service, then all, then one of a file
    for number, direction in ((2, ["--source", "en", "--target", "fr"]), (3, [])):
        answer = run_command(capfd, *learn, "--corrections", str(store.path), *direction)
        assert answer.code == 0, answer.err
        set_current(run, number)
    tagged = [(f"<2{'fr' if n % 2 else 'de'}> {row[0]}", row[1]) for n, row in enumerate(rows)]
    for number, expected in ((2, tagged[1::2]), (3, tagged)):
        folder = run / "versions" / str(number)
        data = load_config(folder / "best.safetensors").data
        assert (data.source, data.target) == ("en", "de+fr")
        assert sorted(learning.known_pairs(folder, data)) == sorted(expected)
        record = read_record(folder)
        assert record is not None
        assert record["scores"].keys() == {"corrections", "test-en-de", "test-en-fr"}
    file = write_tsv(tmp_path / "rows.tsv", [("The dog barks.", "Der Hund bellt.")])
    assert "--target" in refused(*learn, "--from", file)
    assert "it" in refused(*learn, "--from", file, "--target", "it")
    answer = run_command(capfd, *learn, "--from", file, "--target", "de")
    assert answer.code == 0, answer.err
    known = learning.known_pairs(run / "versions" / "4", data)
    assert sorted(known) == sorted([*tagged, ("<2de> The dog barks.", "Der Hund bellt.")])


# What is refused


def test_what_cannot_be_learnt_is_said(
    run,
    tmp_path,
    refused,
    monkeypatch,
):
    runs = ["--runs", str(run.parent)]
    rows = write_tsv(tmp_path / "rows.tsv", wanted(30))
    assert "--from" in refused("learn", "tiny", *runs)
    assert "missing.tsv" in refused("learn", "tiny", "--from", "missing.tsv", *runs)
    assert "--margin" in refused("learn", "tiny", "--from", rows, "--margin", "-1", *runs)
    assert "tiny@5" in refused("learn", "tiny@5", "--from", rows, *runs)
    decided(run, 2, base=1, decision=TOO_FEW)
    assert "rollback" in refused("learn", "tiny@2", "--from", rows, *runs)
    monkeypatch.setattr(learn_command, "find_old_corpus", lambda *_: None)
    assert "--test" in refused("learn", "tiny", "--from", rows, *runs)


def test_accepted_corrections_of_other_languages_are_counted(tmp_path, caplog):
    corrections = Corrections(tmp_path / "corrections.db", create=True)
    given = [(DE_EN, True), (DE_FR, True), (DE_FR, True), (DE_IT, False)]
    for number, (languages, is_accepted) in enumerate(given):
        corrections.add([(f"Haus {number}", "x", "y")], languages, accepted=is_accepted)
    corrections.close()
    (config,) = pipeline.compose(["data=files", "data.source=de", "data.target=en", "data.train=x"])
    caplog.set_level("INFO", logger="nmt")
    [row] = learn_command.accepted_rows(str(corrections.path), [config.data])
    assert row.languages == DE_EN
    [message] = caplog.messages
    assert "de→fr" in message and message.endswith(" 2")

"""What a run is fit for: rules over figures of trainings whose translations were read, and where
the verdict stands."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from corpora import Trained, corpus_of, run_command, write_lines

import nmt
from nmt.evaluate.metrics import Translated, score
from nmt.evaluate.verdict import (
    Level,
    SetFigures,
    TrainingFigures,
    TrainingText,
    few_new_pairs,
    is_rising,
    judge,
    level_of,
    measure,
    read_verdict,
    write_verdict,
)
from nmt.runs import scoring

SENTENCE = "Ein Junge malt das rote Fahrrad."
SHORT = TrainingFigures(pairs=154_000, passes=0.4, minutes=2.0, is_rising=True)
LONG = TrainingFigures(pairs=2_000, passes=60.0, minutes=30.0, is_rising=False)


def figures(
    chrf: float, copy: float, unsure: float, broken: float, kept: int, shared: int
) -> SetFigures:
    return SetFigures("test", 150, 20.0, chrf, copy, 10.0, 0.5, unsure, 0.0, broken, shared, kept)


# What was measured of a training, and how its translations read.
READ = {
    "Tatoeba fr-en, 300 updates": (figures(13.0, 15.6, 0.717, 0.067, 15, 21), Level.UNFIT),
    "Tatoeba fr-en, 900 updates": (figures(28.1, 15.6, 0.487, 0.307, 18, 21), Level.UNFIT),
    "2,000 pairs of Tatoeba": (figures(27.9, 15.6, 0.578, 0.0, 16, 21), Level.UNFIT),
    "help pages, less than a pass": (figures(30.9, 30.2, 0.559, 0.333, 35, 104), Level.UNFIT),
    "captions, of French by a German model": (figures(15.8, 19.3, 0.740, 0.830, 0, 2), Level.UNFIT),
    "captions, 900 updates": (figures(37.2, 19.6, 0.279, 0.0, 2, 4), Level.GIST),
    "captions, 2,000 updates": (figures(48.1, 19.6, 0.220, 0.0, 2, 4), Level.GIST),
    "phrasebook, 1,500 updates, other cities": (
        figures(82.4, 20.7, 0.047, 0.111, 433, 485),
        Level.GIST,
    ),
    "phrasebook, 3,000 updates": (figures(88.9, 20.7, 0.024, 0.075, 462, 485), Level.READABLE),
    "templates, misspelt": (figures(94.5, 32.3, 0.006, 0.193, 0, 0), Level.READABLE),
    "templates, to the end": (figures(98.8, 32.3, 0.007, 0.040, 0, 0), Level.GOOD),
}


@pytest.mark.parametrize("name", READ)
def test_the_rules_agree_with_a_reader(name):
    measured, wanted = READ[name]
    assert level_of(measured) is wanted


BEST = SetFigures("test", 150, 40.0, 90.0, 10.0, 20.0, 0.9, 0.0, 0.0, 0.0, 100, 100)
# (what is measured, the worst that is good, the worst that is readable, the worst that gives the
# gist, by how much it becomes worse)
LIMITS = [
    ("chrf", 72.1, 53.7, 36.1, -0.2),  # gains of 0.65, 0.42 and 0.2 from 20 on
    ("unsure", 0.12, 0.3, 0.6, 0.01),
    ("broken", 0.12, 0.3, 0.5, 0.01),
    ("loops", 0.02, 0.05, 0.1, 0.01),
    ("kept", 97, 90, 0, -1),
]


@pytest.mark.parametrize(("name", "good", "readable", "gist", "worse"), LIMITS)
def test_each_figure_limits_the_level(name, good, readable, gist, worse):
    levels = [Level.GOOD, Level.READABLE, Level.GIST, Level.UNFIT]
    for value, level, next_level in zip((good, readable, gist), levels, levels[1:], strict=False):
        assert level_of(replace(BEST, **{name: value})) is level
        assert level_of(replace(BEST, **{name: value + worse})) is next_level


@pytest.mark.parametrize("baseline", ["copy", "constant"])
def test_a_translator_is_better_than_what_needs_none(baseline):
    """gain = (chrF − g) / (100 − g), g the better one of the copied source and a constant line."""
    assert replace(BEST, **{baseline: 60.0}).gain == pytest.approx(30 / 40)
    assert replace(BEST, **{baseline: 100.0}).gain == 0.0
    assert replace(BEST, **{baseline: 100.0, "chrf": 100.0}).gain == 1.0


def test_few_names_and_few_sentences_say_nothing():
    assert level_of(replace(BEST, shared=20, kept=0)) is Level.GIST
    assert level_of(replace(BEST, shared=19, kept=0)) is Level.GOOD
    unfit = replace(BEST, chrf=20.0)
    for measured, fewest, level in ((unfit, 20, Level.UNFIT), (BEST, 100, Level.GOOD)):
        assert level_of(replace(measured, sentences=fewest)) is level
        assert level_of(replace(measured, sentences=fewest - 1)) is Level.UNMEASURED
    assert "19 test sentences" in judge([replace(unfit, sentences=19)], LONG).sentence


GIST = replace(BEST, name="gist", unsure=0.487, kept=95)


@pytest.mark.parametrize(
    ("sets", "name", "level"),
    [
        ([BEST], "test", Level.GOOD),
        ([BEST, GIST], "gist", Level.GIST),
        ([GIST, replace(GIST, name="lower", chrf=80.0)], "lower", Level.GIST),
        ([replace(BEST, name="tiny", sentences=5, chrf=0.0), GIST, BEST], "gist", Level.GIST),
        ([GIST, replace(BEST, name="news", chrf=20.0)], "news", Level.UNFIT),
    ],
)
def test_the_weakest_set_decides(sets, name, level):
    """It is named beside others; names and numbers are spoken of where anything is kept."""
    found = judge(sets, LONG)
    assert found.level is level
    assert found.is_unfit == (level in (Level.UNFIT, Level.GIST))
    assert found.sentence.startswith(level.words)
    assert (f" of {name} " in found.sentence) == (len(sets) > 1)
    assert ("49 of 100 words" in found.sentence) == (level is Level.GIST)
    assert ("names and numbers" in found.sentence) == (level is not Level.UNFIT)
    assert ("more text" in found.sentence) == found.is_unfit


def test_names_are_called_kept_from_95_of_100_on():
    kept, lost = (judge([replace(BEST, kept=count)], LONG).sentence for count in (95, 94))
    assert "are kept (95 of 100)" in kept
    assert "not always kept (94 of 100)" in lost
    few = judge([replace(BEST, shared=19, kept=19)], LONG).sentence
    assert "names" not in few


@pytest.mark.parametrize(
    ("training", "advice"),
    [
        (SHORT, "0.4 times; the same command with train.max_minutes=40 goes on"),
        (replace(SHORT, passes=4.0, is_rising=False), "train.max_minutes=5 "),
        (replace(SHORT, passes=9.9), "train.max_minutes=4 "),
        (replace(LONG, is_rising=True), "train.max_minutes=60 "),
        (LONG, "more text"),
        (replace(LONG, passes=10.0), "more text"),
        (replace(SHORT, minutes=None), "train.max_epochs"),
        (replace(SHORT, is_early=True), "more text"),
        (replace(SHORT, is_early=True, minutes=None), "more text"),
    ],
)
def test_what_would_help(training, advice):
    assert advice in judge([GIST], training).sentence


@pytest.mark.parametrize(
    ("scores", "direction", "rises"),
    [
        ([1, 5, 9, 13], 1, True),
        ([4, 3, 2, 1], -1, True),
        ([1, 2, 3, 4], -1, False),
        ([0, 9, 95, 100.1], 1, True),  # the last quarter brings 5 % of the gain, and no less
        ([0, 9, 95.1, 100], 1, False),
        ([0, 1, 2, 3, 4, 98, 96, 100], 1, False),
        ([0, 1, 2, 3, 4, 5, 100, 100], 1, True),
        ([1, 5, 9, 4], 1, False),
        ([1, 5, 9], 1, False),
    ],
)
def test_a_score_rises_while_the_last_quarter_still_brings_a_part(scores, direction, rises):
    assert is_rising(scores, direction) == rises


def test_words_are_those_of_the_script(tmp_path):
    """A vowel sign goes on with its word; where no spaces are, no word is invented or doubled."""
    write_lines(tmp_path / "train", ["दादी घर पर है", "猫在睡觉。"])
    text = TrainingText.read(tmp_path / "train")
    assert not text.is_broken("", "दादी घर")
    assert text.is_broken("", "दादी दादी") and text.is_broken("", "घरी")
    assert not text.is_broken("", "狗在睡觉。") and not text.is_broken("", "猫在睡觉。猫在睡觉。")


def test_figures_by_hand(tmp_path):
    """Of four sentences one has an invented word, one a word twice, one the source's word."""
    lines = ["Anna sees the sea ."] * 2 + ["see you", "Kiel is far"]
    write_lines(tmp_path / "train.en", lines)
    text = TrainingText.read(tmp_path / "train.en")
    assert text.frequent == list(dict.fromkeys(lines))
    translated = Translated(
        ["Anna sees the sea", "you seeed Kiel", "you you see", "see Bernd"],
        [["Anna sees the sea", "you see Kiel 7 7b", "see you", "Kiel is is far"]],
        ["Anna sieht das Meer", "du siehst Kiel 7 7b", "dich", "sieh Bernd"],
    )
    confidence = {"bins": [(1, 0.2, 0.0), (2, 0.5, 1.0), (1, 0.9, 1.0)], "words": 4, "right": 0.75}
    stored = {"confidence": confidence, "loops": 1}
    found = measure(stored | score(translated), "test", translated, text, "en")
    assert (found.sentences, found.unsure, found.right, found.loops) == (4, 0.25, 0.75, 0.25)
    assert found.broken == 0.25  # two translations, and one of the references
    clean = replace(translated, hypotheses=lines, references=translated.references)
    assert measure(stored | score(clean), "test", clean, text, "en").broken == 0
    assert (found.shared, found.kept) == (4, 2)  # Anna, Kiel, 7, 7b
    copied, constant = (
        score(replace(translated, hypotheses=texts))["chrf"]
        for texts in (translated.sources, [lines[0]] * 4)
    )
    assert found.copy == pytest.approx(copied)
    assert found.constant == pytest.approx(constant)
    without_words = {"confidence": {"bins": [], "words": 0, "right": 0.0}}
    found = measure(stored | score(translated) | without_words, "test", translated, text, "en")
    assert found.unsure == 0


def test_a_verdict_belongs_to_its_weights(tmp_path):
    verdict = judge([GIST], SHORT)
    write_verdict(tmp_path, ["a"], verdict, [GIST], SHORT)
    assert read_verdict(tmp_path) == read_verdict(tmp_path, ["a"]) == verdict
    assert read_verdict(tmp_path, ["A"]) is read_verdict(tmp_path, ["b"]) is None
    assert read_verdict(tmp_path / "other") is None
    path = tmp_path / "evaluate" / "verdict.json"
    path.write_text(path.read_text().replace("GIST", "GOOD"))
    assert read_verdict(tmp_path) is None  # the checksum is wrong


@pytest.mark.parametrize(
    ("sets", "measured"),
    [
        (["test"], ["test"]),
        (["test", "old-test"], ["test"]),
        (["a", "b"], ["a", "b"]),
        (["learnt", "test"], ["test"]),
        (["learnt", "old-test"], None),
        (["learnt"], None),
        (["old-test"], ["valid"]),
        ([], ["valid"]),
    ],
)
def test_a_run_is_judged_by_what_is_new(sets, measured, trained: Trained, tmp_path, monkeypatch):
    """By the validation set where nothing else is; not where it was trained on all new pairs."""
    corpus = corpus_of(trained.root)
    run = replace(nmt.load("tiny", run_folder=trained.runs), folder=tmp_path)
    of_corpus = scoring.corpus_set(run.config, corpus, "test")
    test_sets = [replace(of_corpus, name=name) for name in sets]
    found: list[str] = []

    def note(stored: object, name: str, *_: object) -> SetFigures:
        found.append(name)
        return GIST

    result = SimpleNamespace(hypotheses=[], stored={})
    monkeypatch.setattr(scoring, "measure", note)
    monkeypatch.setattr(scoring, "score_set", lambda *_: result)
    results = [result] * len(sets)
    scoring.judge_trained(run, corpus, test_sets, results, SHORT)
    assert found == (measured or [])
    verdict = judge([GIST] * len(found), SHORT) if measured else few_new_pairs(12)
    assert read_verdict(tmp_path, run.weights) == verdict


@pytest.fixture
def judged(run_copy: Path) -> Path:
    """A copy of the trained run that was found unfit."""
    weights = [nmt.load("tiny", run_folder=run_copy.parent).provenance["models"][0]["weights"]]
    bad = READ["Tatoeba fr-en, 900 updates"][0]
    write_verdict(run_copy, weights, judge([bad], SHORT), [bad], SHORT)
    return run_copy


@pytest.mark.parametrize("command", ["translate", "translate --document", "align", "backtranslate"])
def test_every_command_that_translates_says_once_what_is_unfit(command, judged, tmp_path, succeeds):
    (tmp_path / "in.html").write_text(f"<p>{SENTENCE}</p>")
    (tmp_path / "in.txt").write_text(f"{SENTENCE}\n")
    verb, *options = command.split()
    inputs = {
        "translate": [SENTENCE],
        "translate --document": [str(tmp_path / "in.html")],
        "align": [SENTENCE],
        "backtranslate": [str(tmp_path / "in.txt"), "--output", str(tmp_path / "out")],
    }
    words = [verb, "tiny", "--runs", str(judged.parent), *options, *inputs[command]]
    answer = succeeds(*words)
    assert answer.err.count("ot usable yet") == 1
    assert "usable" not in answer.out


def test_nothing_is_said_of_other_weights(judged, capfd):
    write_verdict(judged, ["of other weights"], few_new_pairs(3), [], SHORT)
    assert nmt.load("tiny", run_folder=judged.parent).verdict is None
    words = ["translate", "tiny", "--runs", str(judged.parent), SENTENCE]
    assert "usable" not in run_command(capfd, *words).err


def test_the_verdict_stands_where_a_run_is_described(judged, tmp_path, capfd, succeeds):
    where = ["--runs", str(judged.parent)]
    listed = run_command(capfd, "list", *where).out.rstrip("\n").split("\t")
    assert listed[-1] == Level.UNFIT.short
    sentence = read_verdict(judged).sentence
    assert f"fit for\t{sentence}\n" in run_command(capfd, "info", "tiny", *where).out
    folder = tmp_path / "hf"
    words = ["export", "tiny", *where, "--format", "hf", "--output", str(folder)]
    succeeds(*words)
    assert sentence in (folder / "README.md").read_text()
    assert json.loads((folder / "provenance.json").read_text())["fit_for"] == sentence


def test_a_training_ends_with_its_verdict(trained: Trained):
    """The fixture's test set has twelve sentences."""
    verdict = read_verdict(trained.folder)
    assert verdict is not None
    assert verdict.level is Level.UNMEASURED
    assert "12 test sentences" in verdict.sentence


def test_scores_are_a_table_on_a_terminal_and_lines_elsewhere(
    trained: Trained, run_copy, capfd, monkeypatch
):
    assert run_command(capfd, "evaluate", str(run_copy)).out.splitlines() == trained.lines
    for module in ("nmt.commands", "nmt.commands.output"):
        monkeypatch.setattr(f"{module}.is_terminal", lambda: True)
    header, row = run_command(capfd, "evaluate", str(run_copy)).out.splitlines()
    name, bleu, chrf, signature, _ = trained.lines[0].split("\t")
    assert header.split()[:4] == ["set", "n", "BLEU", "chrF"]
    assert row.split() == [name, "12", bleu, chrf, signature]
    assert header.index("BLEU") == row.index(bleu)

"""What a run is fit for: rules over figures of trainings whose translations were read, and where
the verdict stands."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from corpora import Trained, run_command

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


def test_few_sentences_can_show_what_is_unfit_but_nothing_else():
    bad = READ["Tatoeba fr-en, 300 updates"][0]
    good = READ["templates, to the end"][0]
    assert level_of(replace(bad, sentences=40)) is Level.UNFIT
    assert (
        level_of(replace(bad, sentences=2))
        is level_of(replace(good, sentences=99))
        is Level.UNMEASURED
    )
    assert level_of(replace(good, sentences=100)) is Level.GOOD
    assert "2 test sentences" in judge([replace(bad, sentences=2)], LONG).sentence


def test_the_weakest_set_decides_and_says_what_would_help():
    bad = READ["Tatoeba fr-en, 900 updates"][0]
    good = READ["templates, to the end"][0]
    found = judge([good, replace(bad, name="news"), replace(good, name="tiny", sentences=5)], SHORT)
    assert (
        found.level is Level.UNFIT
        and found.is_unfit
        and found.sentence.startswith("Not usable yet: 49 of 100 words of news are unsure")
    )
    assert "0.4 times" in found.sentence and "train.max_minutes=40 goes on" in found.sentence
    assert "more text" in judge([bad], LONG).sentence
    assert "more text" in judge([bad], replace(SHORT, is_early=True)).sentence
    assert "train.max_epochs" in judge([bad], replace(SHORT, minutes=None)).sentence
    assert not judge([good], SHORT).is_unfit


def test_a_score_rises_while_the_last_quarter_still_brings_a_part():
    assert is_rising([1, 5, 9, 13], 1) and is_rising([4, 3, 2, 1], -1)
    assert (
        not is_rising([1, 9, 12, 12.1], 1)
        and not is_rising([1, 5, 9, 4], 1)
        and not is_rising([1, 5, 9], 1)
    )


def test_figures_by_hand(tmp_path):
    """Two sentences: one is right, one has an invented word; the name is kept once, the number
    lost."""
    (tmp_path / "train.en").write_text("Anna sees the sea .\nAnna sees the sea .\nsee you\n")
    text = TrainingText.read(tmp_path / "train.en")
    assert text.frequent[0] == "Anna sees the sea ."
    translated = Translated(
        ["Anna sees the sea", "you seeed Kiel"], [["Anna sees the sea", "you see Kiel 7"]]
    )
    translated.sources = ["Anna sieht das Meer", "du siehst Kiel 7"]
    stored = {
        "confidence": {"bins": [(1, 0.2, 0.0), (3, 0.9, 1.0)], "words": 4, "right": 0.75},
        "loops": 1,
    }
    found = measure(stored | score(translated), "test", translated, text, "en")
    assert (found.unsure, found.right, found.loops, found.broken) == (0.25, 0.75, 0.5, 0.5)
    assert (found.shared, found.kept) == (3, 2)
    alone = score(replace(translated, hypotheses=translated.sources))["chrf"]
    assert found.copy == pytest.approx(alone) and found.constant > found.copy


@pytest.fixture
def judged(trained: Trained, tmp_path: Path) -> Path:
    """A copy of the trained run that was found unfit."""
    run = Path(shutil.copytree(trained.folder, tmp_path / "runs" / "tiny"))
    weights = [nmt.load("tiny", run_folder=run.parent).provenance["models"][0]["weights"]]
    bad = READ["Tatoeba fr-en, 900 updates"][0]
    write_verdict(run, weights, judge([bad], SHORT), [bad], SHORT)
    return run


def test_every_command_that_translates_says_once_what_is_unfit(judged, trained, tmp_path, capfd):
    """One without a verdict, or whose weights have changed since, says nothing."""
    (tmp_path / "in.html").write_text(f"<p>{SENTENCE}</p>")
    (tmp_path / "in.txt").write_text(f"{SENTENCE}\n")
    commands = (
        ("translate", SENTENCE),
        ("translate", "--document", str(tmp_path / "in.html")),
        ("align", SENTENCE),
        ("backtranslate", str(tmp_path / "in.txt"), "--output", str(tmp_path / "out")),
    )
    for command, *words in commands:
        answer = run_command(capfd, command, "tiny", "--runs", str(judged.parent), *words)
        assert (
            answer.code == 0
            and answer.err.count("ot usable yet") == 1
            and "usable" not in answer.out
        ), answer.err
    path = judged / "evaluate" / "verdict.json"
    path.write_text(path.read_text().replace("UNFIT", "GOOD"))
    assert (
        "usable"
        not in run_command(capfd, "translate", "tiny", "--runs", str(judged.parent), SENTENCE).err
    )
    write_verdict(judged, ["of other weights"], few_new_pairs(3), [], SHORT)
    assert (
        nmt.load("tiny", run_folder=judged.parent).verdict is None
        and read_verdict(judged).level is Level.UNMEASURED
    )


def test_the_verdict_stands_where_a_run_is_described(judged, trained, tmp_path, capfd):
    listed = run_command(capfd, "list", "--runs", str(judged.parent)).out.rstrip("\n").split("\t")
    assert listed[-1] == Level.UNFIT.short and listed[4].startswith("test (n = 12): BLEU")
    sentence = read_verdict(judged).sentence
    assert (
        f"fit for\t{sentence}\n"
        in run_command(capfd, "info", "tiny", "--runs", str(judged.parent)).out
    )
    folder = tmp_path / "hf"
    answer = run_command(
        capfd,
        "export",
        "tiny",
        "--runs",
        str(judged.parent),
        "--format",
        "hf",
        "--output",
        str(folder),
    )
    assert answer.code == 0 and sentence in (folder / "README.md").read_text()
    assert json.loads((folder / "provenance.json").read_text())["fit_for"] == sentence


def test_a_training_ends_with_its_verdict(trained: Trained, capfd, tmp_path):
    """The fixture's test set has twelve sentences."""
    verdict = read_verdict(trained.folder)
    assert (
        verdict is not None
        and verdict.level is Level.UNMEASURED
        and "12 test sentences" in verdict.sentence
    )


def test_scores_are_a_table_on_a_terminal_and_lines_elsewhere(
    trained: Trained, tmp_path, capfd, monkeypatch
):
    run = Path(shutil.copytree(trained.folder, tmp_path / "runs" / "tiny"))
    assert run_command(capfd, "evaluate", str(run)).out.splitlines() == trained.lines
    for module in ("nmt.commands", "nmt.commands.output"):
        monkeypatch.setattr(f"{module}.is_terminal", lambda: True)
    header, row = run_command(capfd, "evaluate", str(run)).out.splitlines()
    name, bleu, chrf, signature, _ = trained.lines[0].split("\t")
    assert header.split()[:4] == ["set", "n", "BLEU", "chrF"] and row.split() == [
        name,
        "12",
        bleu,
        chrf,
        signature,
    ]
    assert header.index("BLEU") == row.index(bleu)

"""The confidence of words and sentences: its calibration, how it is measured, where it is kept."""

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from corpora import Trained, run_command

import nmt
from nmt.commands import translate
from nmt.convert.export import read_resource
from nmt.decode.confidence import UNSURE, Calibration, least_log_probabilities, logits, mark_unsure
from nmt.evaluate.calibration import (
    FILE,
    fit,
    fit_calibration,
    read_calibration,
    reliability,
    right_words,
    some_pairs,
    write_calibration,
)
from nmt.evaluate.measured import was_measured
from nmt.runs.scoring import calibrate, corpus_of

PLANTED = Calibration(0.6, -0.5)


def test_a_word_is_as_sure_as_its_least_probable_piece():
    """Pieces ▁a, b.▁ (half in the first word, half in the second) and c; a word without a piece is
    certain."""
    fractions = np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 1.0, 0.0]])
    assert least_log_probabilities([-1.0, -3.0, -2.0], fractions).tolist() == [-3.0, -3.0, 0.0]


@pytest.mark.parametrize(
    ("text", "words", "marked"),
    [
        ("a b. a.", [("a", 0.9), ("b", 0.2), (".", 0.9), ("a", 0.49)], "a <b>. <a>."),
        ("a a b.", [("a", 0.9), ("a", 0.4), ("lost", 0.1), ("b", 0.5), (".", 0.0)], "a <a> b<.>"),
        ("a", [], "a"),
    ],
)
def test_unsure_words_are_marked_where_they_stand(text, words, marked):
    """Behind the word before, so that a sure "a" is not marked for a later one."""
    assert mark_unsure(text, words, "<", ">") == marked


def test_the_pages_mark_the_same_words():
    assert f"const UNSURE = {UNSURE};" in read_resource("web/translator_page.js")


@pytest.mark.parametrize(
    ("environment", "options", "shown"),
    [
        ({"TERM": "xterm"}, {}, True),
        ({"TERM": "dumb"}, {}, False),
        ({"TERM": "xterm", "NO_COLOR": "1"}, {}, False),
        ({"TERM": "xterm"}, {"nbest": 2}, False),
    ],
)
def test_styles_are_for_people_at_a_terminal(environment, options, shown, monkeypatch):
    plain = {"format": "text", "nbest": 1, "copy_doubtful": False, "output": None}
    monkeypatch.setattr("sys.stdout", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("os.environ", environment)
    assert translate.shows_styles(SimpleNamespace(**plain | options)) == shown


def test_translations_are_marked_on_a_terminal_and_where_it_is_asked_for(
    trained: Trained, capfd, monkeypatch
):
    """But not in what programs read."""
    lines = ["Ein Junge malt das rote Fahrrad.", "Mein Bruder sucht kein Brot."]
    words = ["translate", "tiny", "--runs", trained.runs, "--engine", "torch", *lines]
    found = nmt.load("tiny", run_folder=trained.runs).translate(lines)
    plain = "".join(f"{each.text}\n" for each in found)
    assert run_command(capfd, *words).out == plain
    monkeypatch.setattr(translate, "shows_styles", lambda options: True)
    for more, marks in (([], translate.UNDERLINED), (["--mark-doubtful"], translate.PLAIN_MARKS)):
        marked = "".join(
            f"{mark_unsure(each.text, each.word_confidences, *marks)}\n" for each in found
        )
        assert run_command(capfd, *words, *more).out == marked != plain


def test_a_word_of_the_reference_counts_once():
    right = right_words(["the", "cat", "the", "the"], ["a", "the", "cat", "the"])
    assert right == [True, True, True, False]


@pytest.mark.filterwarnings("error")
def test_confidences_by_hand():
    """Without calibration the probability itself; with slope 2 and intercept log 3 the odds are 3 ·
    odds²."""
    probabilities = np.log([0.5, 0.9, 0.2])
    np.testing.assert_allclose(Calibration().confidences(probabilities), [0.5, 0.9, 0.2])
    odds = 3 * np.array([1.0, 81.0, 1 / 16])
    np.testing.assert_allclose(
        Calibration(2.0, np.log(3)).confidences(probabilities), odds / (1 + odds)
    )
    steep = Calibration(1e5, 0.0).confidences(np.log([1e-6, 0.5, 0.999]))
    np.testing.assert_allclose(steep, [0, 0.5, 1], atol=1e-9)


def test_what_was_planted_is_fitted():
    """40,000 words whose chance to be right is known."""
    generator = np.random.default_rng(1)
    probabilities = np.log(generator.uniform(0.01, 0.999, 40000))
    truth = PLANTED.confidences(probabilities)
    right = generator.random(40000) < truth
    fitted = fit(probabilities, right)
    assert fitted == pytest.approx(PLANTED, abs=0.05)
    before = reliability(Calibration().confidences(probabilities), right)
    after = reliability(fitted.confidences(probabilities), right)
    assert before["error"] > 0.08 and after["error"] < 0.015 and after["words"] == 40000


@pytest.mark.parametrize(
    "surest, least",
    [(0.999999, 0.99), (0.01, 0.000001), (0.999999, 0.000001)],
)
@pytest.mark.parametrize("is_right", ["all", "none", "the sure", "the unsure"])
def test_words_that_a_threshold_separates_are_fitted(surest, least, is_right):
    """The minimum is where the gradient is 0; undamped steps of Newton's method leave it for
    ever."""
    probabilities = np.log(np.linspace(surest, least, 400))
    sure = np.arange(400) < 200
    right = {"all": sure | True, "none": sure & False, "the sure": sure, "the unsure": ~sure}[
        is_right
    ]
    fitted = fit(probabilities, right)
    features = np.stack([logits(probabilities), np.ones(400)])
    gradient = (
        features @ (fitted.confidences(probabilities) - right)
        + np.array(fitted)
        - np.array([1.0, 0.0])
    )
    assert np.abs(gradient).max() < 1e-6


def test_reliability_by_hand():
    """Bin 0.7: three words, 0.75 sure and ⅔ right; bin 0.9: one word, 1.0 sure and wrong."""
    found = reliability(np.array([0.71, 0.75, 0.79, 1.0]), np.array([1.0, 0.0, 1.0, 0.0]))
    assert found["words"] == 4
    assert found["right"] == 0.5
    assert found["error"] == pytest.approx((3 * (0.75 - 2 / 3) + 1.0) / 4)
    assert [count for count, _, _ in found["bins"]] == [0, 0, 0, 0, 0, 0, 0, 3, 0, 1]
    assert found["bins"][7] == pytest.approx((3, 0.75, 2 / 3))
    empty = reliability(np.zeros(0), np.zeros(0))
    assert empty == {"words": 0, "right": 0, "error": 0, "bins": [(0, 0, 0)] * 10}


def test_a_calibration_belongs_to_its_weights(tmp_path):
    other = tmp_path / "other"
    write_calibration(tmp_path, ["a"], PLANTED, 10, "key")
    assert was_measured(tmp_path / FILE, "key")
    assert not was_measured(tmp_path / FILE, "other") and not was_measured(other / FILE, "key")
    assert read_calibration(tmp_path, ["a"]) == PLANTED
    assert read_calibration(tmp_path, ["b"]) is read_calibration(other, ["a"]) is None
    write_calibration(other, ["a"], Calibration(math.inf, 0.0), 10, "key")
    assert read_calibration(other, ["a"]) is None
    path = tmp_path / "evaluate" / "calibration.json"
    path.write_text(path.read_text().replace("0.6", "0.7"))
    assert read_calibration(tmp_path, ["a"]) is None  # the checksum is wrong


@pytest.mark.parametrize("count", [1, 999, 1000, 1001, 2500])
def test_at_most_a_thousand_pairs_are_fitted_on(count):
    """They are evenly spread."""
    chosen = some_pairs([(str(number), "") for number in range(count)])
    numbers = [int(source) for source, _ in chosen]
    assert len(numbers) == min(count, 1000)
    assert numbers[0] == 0
    assert np.ptp(np.diff([*numbers, count])) <= 1


def test_a_trained_run_is_calibrated(trained: Trained, run_copy, succeeds):
    """`nmt train` fits on the validation set; a run without it is calibrated by `nmt evaluate`, to
    the same numbers."""
    run = nmt.load("tiny", run_folder=trained.runs)
    calibration = run.translator.calibration
    assert calibration != Calibration() and run.provenance["calibration"] == list(calibration)
    stored = json.loads((run.folder / "evaluate" / "test" / "result.json").read_text())[
        "confidence"
    ]
    assert (
        stored["calibration"] == calibration._asdict()
        and sum(count for count, _, _ in stored["bins"]) > 0
    )
    (run_copy / "evaluate" / "calibration.json").unlink()
    assert nmt.load(run_copy).translator.calibration == Calibration()
    succeeds("evaluate", str(run_copy))
    weights = run.provenance["models"][0]["weights"]
    assert read_calibration(run_copy, [weights]) == pytest.approx(calibration, rel=1e-3)
    write_calibration(run_copy, [weights], PLANTED, 10, "of other code")
    again = nmt.load(run_copy)
    assert again.translator.calibration == PLANTED
    corpus = corpus_of(again)
    assert calibrate(again, corpus).translator.calibration == pytest.approx(calibration, rel=1e-3)


def test_word_confidences_are_those_of_forced_decoding(trained: Trained):
    """Alone or among others, from Python as in a file; another calibration changes them as it
    says."""
    run = nmt.load("tiny", run_folder=trained.runs)
    first, second = run.translate(["Ein Junge malt das rote Fahrrad.", "Ein Hund schläft."])
    words, values = zip(*first.word_confidences, strict=True)
    assert " ".join(words) == first.text.replace(".", " .").replace(",", " ,")
    wanted = run.translator.calibration.confidences(np.array(first.log_probabilities[:-1]))
    assert min(values) == pytest.approx(min(wanted))
    assert first.confidence == pytest.approx(np.mean(values))
    (alone,) = run.translate(["Ein Hund schläft."])
    for (_, value), (_, again) in zip(alone.word_confidences, second.word_confidences, strict=True):
        assert value == pytest.approx(again, abs=1e-5)
    wrong = run.translate(["Ein Hund schläft.", "Ein Junge malt."] * 20)
    never_right = fit_calibration(run.translator, wrong, ["xyz"] * 40)
    copied = run.translate(["12 ½"] * 40)
    assert copied[0].is_copied
    both = fit_calibration(run.translator, wrong + copied, ["xyz"] * 80)
    assert both == never_right
    unsure = replace(run.translator, calibration=never_right)
    (again,) = unsure.translate(["Ein Hund schläft."])
    assert again.confidence < min(0.2, alone.confidence)


def test_a_calibration_belongs_to_its_search(run_copy, monkeypatch):
    run = nmt.load(run_copy)
    corpus = corpus_of(run)
    fitted = []

    def fit(*words: object) -> Calibration:
        fitted.append(words)
        return PLANTED

    fit.__module__ = fit_calibration.__module__  # whose code counts, too
    monkeypatch.setattr("nmt.runs.scoring.fit_calibration", fit)
    for penalty, times in ((0.5, 1), (0.5, 1), (0.7, 2)):
        decode = replace(run.config.decode, length_penalty=penalty)
        calibrate(replace(run, config=replace(run.config, decode=decode)), corpus)
        run = nmt.load(run_copy)
        assert len(fitted) == times

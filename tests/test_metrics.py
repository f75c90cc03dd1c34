"""Metrics: numbers by hand, signatures, resampling against sacreBLEU's own, and what users get
wrong."""

import itertools
import json
import math
import sys
import types
import unicodedata
from math import exp
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest

from nmt.errors import UserError
from nmt.evaluate import metrics
from nmt.evaluate.comet import Comet
from nmt.evaluate.loops import is_loop, most_repeats
from nmt.evaluate.metrics import (
    Translated,
    copies_warning,
    describe_scores,
    direction,
    few_lines,
    find_metric,
    further_metrics,
    score,
    tokenization_warning,
    tokenizer_for,
)
from nmt.evaluate.significance import (
    LEVEL,
    compositional_gap,
    enough_sentences,
    paired_bootstrap,
)
from nmt.training.validation import ValidationResult

REFERENCES = [
    f"the {noun} sees {count} red apples by the river"
    for noun in ("boy", "girl", "cat")
    for count in "1234"
]
BETTER = [
    line.replace("red", "green") if number % 3 else line for number, line in enumerate(REFERENCES)
]
WORSE = [
    line.replace("sees", "saw") if number % 2 else "a river"
    for number, line in enumerate(REFERENCES)
]


def scored(name, hypotheses, *references, language="en", sources=()):
    return score(Translated(hypotheses, references, sources), language, [name])[name]


@pytest.mark.parametrize(
    ("name", "hypothesis", "reference", "wanted"),
    [
        # Precisions 5/6, 4/5, 3/4, 2/3, product 1/3, no brevity penalty
        ("bleu", "a b c d e x", "a b c d e f", 100 * (1 / 3) ** 0.25),
        # All precisions 1, brevity penalty exp(1 − 5/4)
        ("bleu", "a b c d", "a b c d e", 100 * exp(-0.25)),
        # One word of five is exchanged; moving a block is one edit
        ("ter", "a b c d x", "a b c d e", 20),
        ("ter", "d e a b c", "a b c d e", 20),
    ],
)
def test_scores_by_hand(name, hypothesis, reference, wanted):
    assert scored(name, [hypothesis], [reference]) == pytest.approx(wanted)


def test_the_same_letters_in_another_form_are_the_same_text():
    """ü is one character or two; the signature says where sacreBLEU alone would compare other
    text."""
    lines = ["der grüne Frosch hüpft über die Brücke"] * 2
    decomposed = [unicodedata.normalize("NFD", line) for line in lines]
    found = score(Translated(lines, [decomposed]))
    assert [found["bleu"], found["chrf"]] == pytest.approx([100, 100])
    assert (
        found["bleu_signature"] == score(Translated(lines, [lines]))["bleu_signature"] + "|norm:nfc"
    )
    compared = paired_bootstrap([lines, decomposed], [lines], samples=100)
    assert [interval.score for interval in compared.intervals["bleu"]] == pytest.approx([100, 100])
    assert compared.signatures["bleu"].endswith("|norm:nfc")


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("bleu", BLEU(force=True)),
        ("chrf", CHRF()),
        ("chrf++", CHRF(word_order=2)),
        ("ter", TER()),
    ],
)
def test_a_score_is_sacrebleus_and_the_sums_of_the_sentences_give_it(name, wanted):
    """With two references, of which each line takes the better one."""
    score_of_all = wanted.corpus_score(WORSE, [REFERENCES, BETTER]).score
    found = score(Translated(WORSE, [REFERENCES, BETTER]), "en", [name])
    signature = str(wanted.get_signature())
    assert found == {"sentences": 12, name: score_of_all, f"{name}_signature": signature}
    assert "nrefs:2" in signature


def test_a_stored_score_of_the_same_signature_is_not_computed_again():
    translated = Translated(["a"], [["a"]])
    stored = score(translated) | {
        "bleu": 17.0,
        "chrf": 18.0,
        "chrf_signature": "of another version",
    }
    again = score(translated, stored=stored)
    assert again["bleu"] == 17 and again["chrf"] == pytest.approx(100)


def test_what_cannot_be_scored_is_a_sentence(monkeypatch):
    with pytest.raises(UserError, match="2 translations .* 1 references"):
        scored("bleu", ["a", "b"], ["a"])
    with pytest.raises(UserError, match="empty"):
        scored("bleu", [], [])
    with pytest.raises(UserError, match="Unknown metric 'blue'; possible: bleu, chrf"):
        scored("blue", ["a"], ["a"])
    offline = MagicMock(side_effect=OSError("no network"))
    monkeypatch.setattr("sacrebleu.metrics.bleu.BLEU", offline)
    with pytest.raises(UserError, match="spBLEU.*no network"):
        scored("spbleu", ["a"], ["a"])
    monkeypatch.setitem(sys.modules, "comet", None)
    with pytest.raises(UserError, match=r"comet.*\[comet\]"):
        scored("comet=nowhere", ["a"], ["a"])


def test_languages_without_spaces_have_their_tokenizer(monkeypatch):
    """Thai as characters: 5 of 6 right, as above; with 13a the sentence would be one wrong word."""
    for is_installed, japanese in ((False, "char"), (True, "ja-mecab")):
        monkeypatch.setattr(metrics, "find_spec", lambda name, found=is_installed: found)
        languages = ["de", "zh_CN", "jpn_Jpan", "lo"]
        assert list(map(tokenizer_for, languages)) == ["13a", "zh", japanese, "char"]
    thai = ["กขคงจ"], ["กขคงฉ"]
    assert scored("bleu", *thai, language="th") == pytest.approx(100 * (1 / 5) ** 0.25)
    assert scored("ter", ["天地玄黄宇"], ["天地玄黄宙"], language="zh") == pytest.approx(20)
    assert scored("bleu", *thai) < 1


RESULT = {"sentences": 99, "bleu": 41.234, "bleu_signature": "a", "seconds": 3, "comet=x/y": 0.5}
RESULT |= {"comet=x/y_signature": "b", "ter_signature": "without a score", "digest_signature": "c"}


def test_scores_are_found_and_described():
    assert describe_scores(RESULT) == "BLEU 41.23 (`a`), COMET x/y 0.5000 (`b`)"
    assert few_lines(RESULT) == " (n = 99)"
    for many in ({"sentences": 100}, {"sentences": 101}, {"sentences": None}):
        assert few_lines(RESULT | many) == ""
    assert further_metrics() == ["chrf++", "ter", "spbleu", "comet=CHECKPOINT"]
    directions = {"loss": -1, "ter": -1, "bleu": 1, "comet=x": 1}
    assert {name: direction(name) for name in directions} == directions
    with pytest.raises(UserError, match="bleu=intl"):
        find_metric("bleu=intl")


def most_repeats_of(words: list[str]) -> int:
    """By all spans at all places."""
    most = 1
    for start, period in itertools.product(range(len(words)), range(1, len(words) + 1)):
        span = words[start : start + period]
        times = 1
        while words[start + times * period :][:period] == span:
            times += 1
        if any(map(str.isalnum, span)):
            most = max(most, times)
    return most


@given(st.lists(st.sampled_from(["a", "b", "."]), min_size=1, max_size=12))
def test_repeats_of_spans(words):
    assert most_repeats(words) == most_repeats_of(words)


@pytest.mark.parametrize(
    ("source", "translation", "loops"),
    [
        ("Hallo", "He He hell.", False),
        ("Hallo", "He he He Hell.", True),
        ("ha ha ha", "ha ha ha", False),
        ("ha ha ha", "ha ha ha ha", True),
        ("Nun ...", "Well ....", False),
        ("……", "......", False),
        ("Was?", "What?!?!?!?!", False),
        ("Warum?", "So! So! So! So!", True),
        ("Er sagte, er komme.", "He said that that was it.", False),
        ("Warum?", "hahahahaha", True),
        ("Hahahaha", "hahahahaha", False),
        ("Warum?", "hahaha 1111", False),
    ],
)
def test_loops_in_text(source, translation, loops):
    assert is_loop(source, translation) == loops


# --- resampling ---


def test_intervals_and_p_are_sacrebleus():
    """The same resamples, the same score of each, the same rule; ours are summed in float64."""
    references = [REFERENCES, WORSE[::-1]]
    wanted = {"BLEU": BLEU(force=True), "chrF2": CHRF(), "TER": TER()}
    found = paired_bootstrap(
        [BETTER, WORSE], references, samples=199, metrics=["bleu", "chrf", "ter"]
    )
    systems = [("better", BETTER), ("worse", WORSE)]
    signatures, results = PairedTest(systems, wanted, references, "bs", 199)()
    for name, theirs in zip(found.intervals, wanted, strict=True):
        assert found.signatures[name] == f"lines:12|{signatures[theirs]}"
        for interval, result in zip(found.intervals[name], results[theirs], strict=True):
            assert interval.score == pytest.approx(result.score)
            assert interval.mean == pytest.approx(result.mean, rel=1e-5)
            assert interval.half_width == pytest.approx(result.ci, abs=1e-4)
            assert interval.p == result.p_value


def test_enough_sentences_are_enough():
    """The number by hand, and how often the test finds a gain in samples of so many."""
    assert enough_sentences(2.0, 1.0, 100) == math.ceil(100 * (1.6449 + 0.8416) ** 2 / 4)
    random = np.random.default_rng(1)
    references = [f"{' '.join(random.choice(list('abcdefgh'), 8))}" for _ in range(400)]
    wrong = references[1:] + references[:1]
    before = list(wrong)
    after = list(wrong)
    for row, kind in enumerate(random.choice(3, 400, p=[0.2, 0.5, 0.3])):
        (before, after, [""] * 400)[kind][row] = references[row]

    def compare(rows):
        systems = [[before[row] for row in rows], [after[row] for row in rows]]
        right = [references[row] for row in rows]
        return paired_bootstrap(systems, [right], samples=200, metrics=["chrf"]).intervals["chrf"]

    first, second = compare(range(400))
    enough = enough_sentences(second.score - first.score, second.standard_error, 400)
    found = [compare(random.choice(400, enough))[1].p < LEVEL for _ in range(60)]
    assert 0.65 < np.mean(found) < 0.95


def test_a_system_does_not_differ_from_itself():
    """sacreBLEU's formula alone would call a double significantly different: 1 / 101."""
    found = paired_bootstrap([BETTER, list(BETTER), WORSE], [REFERENCES], samples=100)
    assert [interval.p for interval in found.intervals["bleu"]] == [
        None,
        1.0,
        pytest.approx(1 / 101),
    ]


def test_the_compositional_gap_is_a_difference_of_independent_scores():
    """Squares of half-widths of independent samples add up."""

    def noisy(every, lines):
        wrong = [
            line.replace(" d ", " x ") if number % every == 0 else line
            for number, line in enumerate(lines)
        ]
        return Translated(wrong, [lines])

    lines = [f"a b c d e {number % 7} g h" for number in range(300)]
    sets = noisy(20, lines), noisy(3, lines[:200])
    gap = compositional_gap(*sets)
    assert gap.gap == pytest.approx(score(sets[0])["bleu"] - score(sets[1])["bleu"])
    widths = [
        paired_bootstrap([each.hypotheses], each.references, metrics=["bleu"])
        .intervals["bleu"][0]
        .half_width
        for each in sets
    ]
    assert (gap.high - gap.low) / 2 == pytest.approx(
        sum(width**2 for width in widths) ** 0.5, rel=0.15
    )
    assert gap.low < gap.gap < gap.high and gap == compositional_gap(*sets)
    same = compositional_gap(sets[0], sets[0])
    assert same.gap == 0 and same.low < 0 < same.high


# --- COMET ---


def comet_model(folder):
    """A model folder with an encoder of random weights; needs the package."""
    from comet.models import str2model

    encoder = folder / "encoder"
    (folder / "checkpoints").mkdir()
    encoder.mkdir()
    words = "[PAD] [UNK] [CLS] [SEP] [MASK] der hund the dog a cat .".split()
    (encoder / "vocab.txt").write_text("\n".join(words) + "\n")
    sizes = {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
    }
    config = {"model_type": "bert", "vocab_size": len(words), "max_position_embeddings": 64} | sizes
    (encoder / "config.json").write_text(json.dumps(config))
    settings = {"encoder_model": "BERT", "pretrained_model": str(encoder), "hidden_sizes": [8]}
    (folder / "hparams.yaml").write_text(
        yaml.safe_dump(settings | {"class_identifier": "regression_metric"})
    )
    model = str2model["regression_metric"](**settings, load_pretrained_weights=False)
    torch.save({"state_dict": model.state_dict()}, folder / "checkpoints" / "model.ckpt")
    return model.eval()


def test_comet_scores_as_its_package_does(tmp_path):
    pytest.importorskip("comet", reason="unbabel-comet is not installed")
    model = comet_model(tmp_path)
    lines = ["der hund", "der"], ["the dog", "cat"], ["a dog", "the dog ."]
    samples = [
        {"src": source, "mt": hypothesis, "ref": reference}
        for source, hypothesis, reference in zip(*lines, strict=True)
    ]
    wanted = model.predict(samples, 2, gpus=0, progress_bar=False, num_workers=0).scores
    found = scored(f"comet={tmp_path}", *lines[1:], sources=lines[0])
    assert found == pytest.approx(np.mean(wanted), rel=1e-5)


class Kind:
    """A stand-in for a class of comet.models: its score is a weight times the characters of the
    translation."""

    def __init__(self, factor, load_pretrained_weights=True, local_files_only=False):
        assert not load_pretrained_weights and local_files_only
        self.factor = factor
        self.weight = torch.zeros(1)

    def load_state_dict(self, state, strict):
        self.weight = state["weight"]

    def eval(self):
        return self

    def predict(self, samples, batch_size, **_):
        scores = [self.factor * self.weight.item() * len(sample["mt"]) for sample in samples]
        return types.SimpleNamespace(scores=scores)


@pytest.fixture
def stub(monkeypatch, tmp_path):
    """A package of COMET's interface, and a folder with a model for it."""
    for name in ("comet", "comet.models"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    sys.modules["comet.models"].str2model = {"tiny": Kind}
    monkeypatch.setattr("importlib.metadata.version", lambda name: "2.2.7")
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "hparams.yaml").write_text(
        "class_identifier: tiny\nfactor: 2\nnr_frozen_epochs: 0.3\n"
    )
    torch.save(
        {"state_dict": {"weight": torch.tensor([0.5])}}, tmp_path / "checkpoints" / "model.ckpt"
    )
    return tmp_path


@pytest.mark.parametrize("count", [1, 3])
def test_comet_is_the_mean_over_references_and_sentences(count):
    """As if the model told how many letters a sentence shares with its reference."""

    def predict(samples: list[dict[str, str]], *_: object, **__: object) -> types.SimpleNamespace:
        scores = [float(len(set(each["mt"]) & set(each["ref"]))) for each in samples]
        return types.SimpleNamespace(scores=scores)

    comet = object.__new__(Comet)
    comet.__dict__["model"] = types.SimpleNamespace(predict=predict)
    references = [["ab", "abc"], ["a", "xyz"], ["", "bc"]][:count]
    found = comet.statistics(Translated(["ab", "abc"], references, ["x", "y"]))
    of_sentences = {1: [2.0, 3.0], 3: [1.0, 5 / 3]}[count]
    assert found.tolist() == [[score, 1.0] for score in of_sentences]
    assert comet.score(found.sum(0)) == pytest.approx(sum(of_sentences) / 2)


def test_a_checkpoint_of_comet_is_read_by_path(stub):
    result = score(Translated(["abc", "a"], [["x", "y"]], ["s", "t"]), "en", [f"comet={stub}"])
    assert result[f"comet={stub}"] == 2.0 and "version:2.2.7" in result[f"comet={stub}_signature"]
    with pytest.raises(UserError, match="sources"):
        scored(f"comet={stub}", ["a"], ["b"])
    with pytest.raises(UserError, match="There is no COMET model"):
        scored("comet=Nobody/has-this", ["a"], ["b"], sources=["c"])


class Runs:
    def __reduce__(self):
        return (pytest.fail, ("a checkpoint has run code",))


def test_a_checkpoint_that_could_run_code_is_refused(stub):
    torch.save({"state_dict": {"weight": Runs()}}, stub / "checkpoints" / "model.ckpt")
    with pytest.raises(UserError, match="more than tensors"):
        scored(f"comet={stub}", ["a"], ["b"], sources=["c"])
    (stub / "hparams.yaml").write_text("class_identifier: !!python/object/apply:os.abort []\n")
    with pytest.raises(UserError, match="cannot be read"):
        scored(f"comet={stub}", ["a"], ["b"], sources=["c"])


# --- text and files ---


@pytest.mark.parametrize(
    ("line", "is_tokenized"),
    [
        ("A man sleeps .", True),
        ("Well , he &apos;s here", True),
        ("a well @-@ known man", True),
        ("A man sleeps.", False),
        ("Il dort, non ?", False),
        ("Cost: .5 or ,5 percent", False),
        ("AT&T says: me@home", False),
    ],
)
def test_moses_tokenization_is_noticed(line, is_tokenized):
    """In at least three of ten lines; blank ones do not count."""
    warning = tokenization_warning([line] * 3 + ["A man sleeps."] * 7 + [""] * 9)
    assert (warning is not None and "3 of 10" in warning) == is_tokenized
    assert tokenization_warning([line] * 2 + ["A man sleeps."] * 7) is None


def test_references_that_are_their_sources_are_noticed():
    """In at least three of ten lines with letters."""
    sources = ["Ein Hund."] * 10 + ["12:30", ""]
    warning = copies_warning(sources, ["Ein  Hund. "] * 3 + ["A dog."] * 7 + ["12:30", ""])
    assert warning is not None and "3 of 10" in warning
    assert copies_warning(sources, ["Ein Hund."] * 2 + ["A dog."] * 8 + ["12:30", ""]) is None


def test_the_best_checkpoint_has_the_lowest_loss_or_ter_and_the_highest_bleu():
    result = ValidationResult({"loss": 3.0, "bleu": 20.0, "ter": 50.0}, [])
    for name, worse, better in (("loss", 3.1, 2.9), ("ter", 60.0, 40.0), ("bleu", 19.0, 21.0)):
        assert result.better_than(worse, name) and not result.better_than(better, name)
    assert result.better_than(None, "bleu")

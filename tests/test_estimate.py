"""The estimate of a translation: its fit, its faults, where it is kept, and who shows it."""

import json
import math
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock

import numpy as np
import pytest
from corpora import RECURRENT, Trained, pairs, run_command, small, write_corpus

import nmt
from nmt.convert.export import read_resource
from nmt.data.tokenizer import Tokenizer, Tokenizers
from nmt.decode.quality import REVIEW, Quality
from nmt.decode.translation import Translation
from nmt.decode.translator import Translator
from nmt.evaluate import estimate
from nmt.evaluate.estimate import FEATURES, Estimator, Fitted
from nmt.evaluate.extraction import Extractor
from nmt.runs.run import Run
from nmt.serve.batching import Queues
from nmt.serve.service import pairs_of

WORDS = [f"w{number}" for number in range(8)]
FITTED = Fitted((1.0, 2.0, 3.0, 4.0, 5.0, 6.0), 7.0, 8.0, 0.5, 0.4, 1.0, 0.6, 0.3)


@pytest.fixture(scope="module")
def estimated(trained: Trained, tmp_path_factory) -> Run:
    """A run with an estimate, in a folder of its own."""
    folder = tmp_path_factory.mktemp("estimated") / "tiny"
    shutil.copytree(trained.folder, folder)
    run = nmt.load(folder)
    assert run.translator.estimator is None  # its 16 validation pairs are too few
    extractor = estimate.quality_extractor(run.config.train, run.translator.model)
    known = pairs(200)
    translations = run.translate([source for source, _ in known])
    references = [target for _, target in known]
    found = estimate.fit_estimator(run.translator, translations, references, extractor)
    assert found is not None
    assert estimate.fit_estimator(run.translator, translations[:9], references[:9], None) is None
    estimate.write_estimate(folder, run.weights, found, len(known), "key")
    return nmt.load(folder)


def test_ridge_finds_what_was_planted():
    """A feature that never varies has no weight."""
    values = np.random.default_rng(1).normal(size=(4000, 3)) * [1, 10, 0] + [0, 5, 1]
    weights, intercept = estimate.ridge(values, values @ [2.0, -0.5, 9.0] + 3.0)
    assert weights == pytest.approx([2.0, -0.5, 0.0], abs=0.01)
    assert intercept == pytest.approx(12.0, abs=0.1)


def test_the_error_is_that_of_sentences_which_are_not_fitted_to():
    """As many features as sentences in a fold explain noise, but not that of another fold."""
    generator = np.random.default_rng(4)
    values = generator.normal(size=(100, 20))
    noise = generator.uniform(0, 100, 100)
    assert abs(estimate.correlation(estimate.cross_validated(values, noise), noise)) < 0.35
    weights, intercept = estimate.ridge(values, noise)
    assert estimate.correlation(values @ weights + intercept, noise) > 0.4
    line = 50 + 3 * values[:, 0]
    assert estimate.correlation(estimate.cross_validated(values, line), line) > 0.99
    assert estimate.correlation(values[:, 0], np.ones(100)) == 0


@pytest.mark.parametrize(
    ("ordinary", "planted", "limit"),
    [
        ([0.8, 0.9, 1.0] * 50, [0.0, 0.1, 0.2] * 50, 0.5),  # midway
        ([0.1, *[0.9] * 99], [0.5] * 100, 0.7),  # one in a hundred may be named
        ([0.1] * 50, [0.5] * 50, 0.1),  # they are mixed: as many as may be named
        ([math.inf] * 50, [0.5] * 50, math.inf),
        ([0.1] * 50, [], estimate.NEVER),
    ],
)
def test_limits_by_hand(ordinary, planted, limit):
    assert estimate.alarm_limit(np.array(ordinary), np.array(planted)) == pytest.approx(limit)


def test_few_ordinary_translations_are_named():
    generator = np.random.default_rng(2)
    for _ in range(20):
        ordinary = generator.normal(generator.random(), 0.3, 500)
        limit = estimate.alarm_limit(ordinary, generator.normal(0, 0.3, 100))
        assert np.mean(ordinary <= limit) <= estimate.ALARMS + 1 / 500


def test_the_least_attended_words_are_the_first_to_be_named():
    generator = np.random.default_rng(3)
    for _ in range(50):
        attention = generator.random(len(WORDS))
        least = estimate.least_attended(attention)
        (span,) = estimate.unattended_spans(WORDS, attention, least)
        assert span.count(" ") >= estimate.SPAN - 1
        assert not list(estimate.unattended_spans(WORDS, attention, least - 1e-9))
    assert math.isinf(estimate.least_attended(np.zeros(estimate.SPAN - 1)))


def test_spans_by_hand():
    attention = np.array([0.1, 0.1, 0.9, 0.1, 0.2, 0.1, 0.1, 0.9])
    assert list(estimate.unattended_spans(WORDS, attention, 0.2)) == ["w3 w4 w5 w6"]
    everything = estimate.unattended_spans(WORDS, attention, 1.0)
    assert list(everything) == [" ".join(WORDS)]


def test_a_line_is_estimated_by_its_parts():
    first = Quality(80.0, False, ("a b c",))
    second = Quality(20.0, True, ("d e f",))
    joined = estimate.join_qualities([first, second], [1, 3])
    assert joined == Quality(35.0, True, ("a b c", "d e f"))


@pytest.mark.parametrize(
    ("quality", "faults"),
    [
        (Quality(50.0), []),
        (Quality(49.9), ["expected chrF 50"]),
        (Quality(90.0, True), ["detached from its source"]),
        (Quality(10.0, False, ("a b", "c")), ["leaves out: a b; c", "expected chrF 10"]),
    ],
)
def test_faults_in_words(quality, faults):
    assert quality.faults() == faults
    assert quality.faults(100.0)  # anything may be worse than that
    found = quality.to_dict()
    assert ("detached" in found, "omitted" in found) == (quality.is_detached, bool(quality.omitted))


def test_the_pages_have_the_same_threshold():
    assert f"const REVIEW = {REVIEW:.0f};" in read_resource("web/translator_page.js")


def test_an_estimate_belongs_to_its_weights(tmp_path):
    estimate.write_estimate(tmp_path, ["a"], (FITTED, {}), 10, "key")
    found = estimate.read_estimator(tmp_path, ["a"], None)
    assert found == Estimator(FITTED, None)
    assert estimate.read_estimator(tmp_path, ["b"], None) is None
    path = tmp_path / estimate.FILE
    path.write_text(path.read_text().replace("7.0", "7.1"))
    assert estimate.read_estimator(tmp_path, ["a"], None) is None  # the checksum is wrong
    for wrong in (FITTED._replace(error=math.nan), FITTED._replace(short="0.6")):
        estimate.write_estimate(tmp_path, ["a"], (wrong, {}), 10, "key")
        assert estimate.read_estimator(tmp_path, ["a"], None) is None
    estimate.write_estimate(tmp_path, ["a"], None, 10, "key")  # too few pairs
    assert estimate.read_estimator(tmp_path, ["a"], None) is None


def test_what_names_the_languages_is_there_without_a_source(estimated: Run):
    """H(y | ∅) is that of the prefix alone; where two sources are one, it stands once."""
    sides = estimated.translator.tokenizers
    prefix = sides.source.encode("das")
    source = Tokenizer(sides.source.model, sides.source.lowercase, {"": prefix})
    translator = replace(estimated.translator, tokenizers=Tokenizers(source, sides.target))
    first, second = translator.translate([text for text, _ in pairs(2, seed=3)])
    for found, translation in zip(
        estimate.without_source(translator, [first, second]), (first, second), strict=True
    ):
        alone = estimated.translator.force_decode((prefix, translation.ids))
        assert found == pytest.approx(estimate.cross_entropy(alone), abs=1e-5)
    both, _ = estimate.planted_omissions(translator, [first, second], longest=99)
    assert both == ([*first.source_ids, *second.source_ids[len(prefix) :]], first.ids)


def test_a_tag_is_no_text_of_the_source(estimated: Run):
    """It stays where the source is taken away, and is no word that could be left out."""
    sides = estimated.translator.tokenizers
    (tag,) = sides.source.pieces([99])
    source = Tokenizer(sides.source.model, sides.source.lowercase)
    source.__dict__["tags"] = frozenset({tag})
    translator = replace(estimated.translator, tokenizers=Tokenizers(source, sides.target))
    (plain,) = estimated.translator.translate([pairs(1, seed=3)[0][0]])
    tagged = replace(plain, source_ids=plain.source_ids.like([99, *plain.source_ids]))
    (found,) = estimate.without_source(translator, [tagged])
    alone = estimated.translator.force_decode(([99], plain.ids))
    assert found == pytest.approx(estimate.cross_entropy(alone), abs=1e-5)
    record = translator.force_decode((tagged.source_ids, plain.ids))
    extractor = Extractor(0, None, "output")
    words, _ = estimate.attention_of_words(translator, record, extractor)
    plain_words, _ = estimate.attention_of_words(estimated.translator, record, extractor)
    assert words == plain_words[1:]


def test_training_says_how_far_off_the_estimate_is(estimated: Run):
    stored = json.loads((estimated.folder / estimate.FILE).read_text())
    assert set(stored["features"]) == set(FEATURES)
    assert 0 < stored["error"] < 30 and 0.2 < stored["correlation"] <= 1
    named = stored["named"]
    assert named["detached"] <= 0.02 and named["omissions"] <= 0.02
    assert named["planted_detached"] > 0.2 and named["planted_omissions"] > 0.5


@pytest.mark.parametrize("model", [RECURRENT, ["model=seq2seq", *RECURRENT[1:]]])
def test_training_ends_with_an_estimate(tmp_path, capfd, model):
    """Also of a recurrent model, and of one without attention."""
    corpus = write_corpus(tmp_path / "corpus", valid=60, test=1)
    words = small(tmp_path, corpus, *model, "name=other", "train.max_steps=2")
    answer = run_command(capfd, "train", *words)
    assert answer.code == 0 and "The expected chrF of a sentence is off by" in answer.err
    run = nmt.load("other", run_folder=tmp_path / "runs")
    assert 0 <= run.translate(["Ein Hund."])[0].quality.expected_chrf <= 100
    described = run_command(capfd, "info", "other", "--runs", str(tmp_path / "runs")).out
    assert "expected chrF" in described


def planted(run: Run, sources: Sequence[str], texts: Sequence[Translation]) -> list[Translation]:
    """Translations that belong to other sources."""
    tokenizers = run.translator.tokenizers
    encoded = tokenizers.encode_sources(tokenizers.protect_sources(sources))
    result = []
    for ids, translation in zip(encoded, texts, strict=True):
        put = replace(translation, source_ids=ids, searched=[], alternatives=[])
        put._translator_or_none = run.translator
        result.append(put)
    return result


def test_planted_faults_are_named(estimated: Run):
    """Those of other sentences than it was fitted on."""
    sources = [source for source, _ in pairs(80, seed=4)]
    own = estimated.translate(sources)
    joined = [" ".join(both) for both in zip(sources, sources[1:] + sources[:1], strict=True)]
    omissions = [each.quality for each in planted(estimated, joined, own)]
    ordinary = [each.quality for each in own]
    assert np.mean([bool(quality.omitted) for quality in omissions]) > 0.5
    assert np.mean([bool(quality.omitted) for quality in ordinary]) < 0.1
    named = " ".join(span for quality in omissions for span in quality.omitted)
    assert set(named.split()) <= set(re.findall(r"\w+", " ".join(sources)))
    other = planted(estimated, sources, own[7:] + own[:7])
    gains = [each.quality.is_detached for each in other]
    assert np.mean(gains) > 0.2 > np.mean([quality.is_detached for quality in ordinary]) + 0.1
    expected = [np.mean([each.quality.expected_chrf for each in of]) for of in (own, other)]
    assert expected[0] > expected[1] + 10


def test_it_names_as_many_as_it_says(estimated: Run):
    """Of the translations that it was fitted to, and of those that were planted among them."""
    translator = estimated.translator
    known = pairs(60, seed=6)
    own = list(translator.translate([source for source, _ in known]))
    references = [target for _, target in known]
    fitted, named = estimate.fit_estimator(translator, own, references, None)
    put, others = estimate.planted_detached(own)
    foreign = [own[other] for other in others]
    for share, translations, ids in (
        ("detached", own, [(each.source_ids, each.ids) for each in own]),
        ("planted_detached", foreign, put),
    ):
        parts = list(zip(translations, translator.force_decode_all(ids), strict=True))
        found = Estimator(fitted, None).find_detached(translator, parts)
        assert np.mean(found) == pytest.approx(named[share])


@pytest.mark.parametrize(("intercept", "expected"), [(1e3, 100.0), (-1e3, 0.0)])
def test_an_estimate_is_a_chrf(estimated: Run, intercept, expected):
    fitted = estimated.translator.estimator.fitted._replace(intercept=intercept)
    translator = replace(estimated.translator, estimator=Estimator(fitted, None))
    (translation,) = translator.translate(["Ein Hund."])
    assert translation.quality.expected_chrf == expected


def test_search_is_as_good_as_forced_decoding(estimated: Run):
    """The same estimates from what search knows, alone and among others; a copied line has none."""
    translator = estimated.translator
    lines = [*(source for source, _ in pairs(30, seed=5)), "12:30", ""]
    translations = estimated.translate(lines)
    records = [translator.search_records(each) for each in translations]
    translator.estimate(translations, records)
    assert translations[-2].quality is None and translations[-1].quality is None
    for line, translation in zip(lines[:30], translations, strict=False):
        (alone,) = estimated.translate([line])
        assert alone.quality[1:] == translation.quality[1:]
        assert alone.quality.expected_chrf == pytest.approx(
            translation.quality.expected_chrf, abs=0.05
        )


def test_a_line_in_parts(estimated: Run):
    line = "Der Bäcker kauft einen Apfel. " * 20
    (translation,) = estimated.translate([line])
    assert len(translation.parts) == 2
    whole = translation.quality
    of_parts = [part.quality for part in translation.parts]
    lengths = [len(part.ids) + 1 for part in translation.parts]
    assert whole == estimate.join_qualities(of_parts, lengths)
    alone = [estimated.translate([part])[0].quality for part in split(translation)]
    for quality, wanted in zip(of_parts, alone, strict=True):
        assert quality.expected_chrf == pytest.approx(wanted.expected_chrf, abs=0.1)


def split(translation: Translation) -> list[str]:
    tokenizer = translation._translator.tokenizers.source
    return [tokenizer.decode(part.source_ids) for part in translation.parts]


def test_plain_translation_costs_nothing_more(estimated: Run, monkeypatch):
    monkeypatch.setattr(Translator, "force_decode_all", lambda self, found: pytest.fail())
    assert estimated.translate(["Ein Hund schläft."])[0].text


def test_the_service_answers_with_the_estimate(estimated: Run):
    """Only where details are wanted."""
    queues = Queues(estimated.translator, (Lock(), Lock()))
    (pair,) = pairs_of(estimated, queues).values()
    source = pairs(1, seed=9)[0][0]
    wanted = estimated.translate([source])[0].quality.to_dict()
    (translation, records), (_, none) = queues.submit(
        pair.sentences([source, source], [True, False])
    ).result(60)
    assert not none
    (part,) = pair.describe(translation, records, with_attention=False)
    assert part["expected_chrf"] == pytest.approx(wanted["expected_chrf"], abs=0.11)
    assert part.get("omitted") == wanted.get("omitted")
    queues.close()


@pytest.fixture
def translate(estimated: Run, capfd):
    return lambda *words: run_command(
        capfd, "translate", str(estimated.folder), "--engine", "torch", *map(str, words)
    )


def test_json_has_the_estimate(translate, estimated: Run):
    lines = [*(source for source, _ in pairs(6, seed=6)), "12:30"]
    answers = translate(*lines, "--format", "jsonl", "--nbest", "2").out.splitlines()
    entries = [json.loads(line) for line in answers]
    best = estimated.translate(lines)
    for entry, translation in zip(entries[:-1], best, strict=False):
        wanted = translation.quality.to_dict()
        assert entry["expected_chrf"] == pytest.approx(wanted["expected_chrf"], abs=0.11)
        assert entry["nbest"][0]["expected_chrf"] == entry["expected_chrf"]
        assert entry.get("omitted", []) == wanted.get("omitted", [])
    assert "expected_chrf" not in entries[-1]
    for least in (0.01, 100):
        marked = translate(*lines, "--format", "jsonl", "--min-chrf", least).out.splitlines()
        for line, translation in zip(marked, best, strict=True):
            quality = translation.quality
            assert json.loads(line)["doubtful"] == bool(quality and quality.faults(least))
    copied = translate(*lines, "--min-chrf", 100, "--copy-doubtful").out.splitlines()
    assert copied == lines


def test_documents_say_what_is_to_review(translate, estimated: Run, tmp_path):
    sources = [source for source, _ in pairs(5, seed=7)]
    units = "".join(
        f"<trans-unit id='{number}'><source>{source}</source></trans-unit>"
        for number, source in enumerate(sources)
    )
    path = tmp_path / "a.xlf"
    path.write_text(f"<xliff version='1.2'><file>{units}</file></xliff>")
    qualities = [each.quality for each in estimated.translate(sources)]
    # Between two values: the same sentence has other last bits in another batch
    between = float(np.mean(sorted(quality.expected_chrf for quality in qualities)[2:4]))
    for least in (0.01, between, 100):
        answer = translate("--document", path, "--min-chrf", least)
        doubtful = [bool(quality.faults(least)) for quality in qualities]
        states = re.findall('<target state="(.*?)"', answer.out)
        assert [state == "needs-review-translation" for state in states] == doubtful
        assert f"{sum(doubtful) or 'none'} to review" in answer.err
    po = tmp_path / "a.po"
    po.write_text(f'msgid "{sources[0]}"\nmsgstr ""\n')
    out = translate("--document", po, "--min-chrf", 100).out
    assert f"expected chrF {qualities[0].expected_chrf:.0f}" in re.search("# Review: .*", out)[0]
    assert "# Review:" not in translate("--document", po, "--min-chrf", 0.01).out or any(
        qualities[0].faults(0.01)
    )


@pytest.mark.parametrize("words", [("--format", "jsonl", "S"), ("--document", "a.txt")])
def test_a_run_without_an_estimate_has_no_doubtful_lines(trained, refused, tmp_path, words):
    (tmp_path / "a.txt").write_text("Ein Hund schläft.\n")
    given = [str(tmp_path / word) if word == "a.txt" else word for word in words]
    run = ["translate", "tiny", "--runs", trained.runs, "--min-chrf", "50"]
    assert "--min-chrf" in refused(*run, *given)


def test_a_model_without_attention_names_no_omissions(estimated: Run):
    without = Estimator(estimated.translator.estimator.fitted, None)
    translator = replace(estimated.translator, estimator=without)
    run = replace(estimated, translator=translator)
    sources = [source for source, _ in pairs(20, seed=8)]
    both = [f"{first} {second}" for first, second in zip(sources, sources[1:], strict=False)]
    own = run.translate(sources[1:])
    for translation in planted(run, both, own):
        assert translation.quality.omitted == ()
    assert Path(run.folder, estimate.FILE).exists()

"""What `nmt translate` and `nmt align` write for programs: attention as JSON."""

import json
import re
from itertools import pairwise

import numpy as np
import pytest
from corpora import Trained, run_command
from hypothesis import given
from hypothesis import strategies as st

from nmt.corpus.words import join_texts
from nmt.decode.forced_decoding import AttentionRecord
from nmt.decode.long_lines import (
    count_sentences,
    lacks_sentences,
    split_position,
    split_positions,
)
from nmt.evaluate.alignment import Alignment
from nmt.evaluate.extraction import Extractor, record_words

SENTENCE = "Ein Junge malt das rote Fahrrad."


@pytest.fixture
def nmt(trained: Trained, capfd):
    """nmt(VERB, WORD …) → what came of `nmt VERB tiny WORD …`."""
    return lambda verb, *words: run_command(capfd, verb, "tiny", "--runs", trained.runs, *words)


THIRD = 1 / 3
# One layer of two heads over the pieces a|b c and </s>; rows x, y and </s>. The second head attends
# to </s> alone.
FIRST = [[THIRD, THIRD, 0.0, THIRD], [0.0, 0.25, 0.5, 0.25], [0.0, 0.0, 1.0, 0.0]]
WEIGHTS = np.array([[FIRST, [[0.0, 0.0, 0.0, 1.0]] * 3]])
RECORD = AttentionRecord(
    ["▁a", "b", "▁c"],
    ["▁x", "▁y"],
    [0.0] * 3,
    WEIGHTS,
    WEIGHTS[0, 0],
    np.array([0.5, 2.0, 3.0]),
    1.0,
)


def described(extractor: Extractor, record=RECORD, **options) -> dict:
    return Alignment(record, record_words(record), extractor).to_dict(**options)


def test_a_record_by_hand():
    """ab has the sum of its pieces: ⅓ + ⅓ and 0 + ¼. p_t = ½ and 2 are at the words 0 and 1; D =
    1."""
    found = described(Extractor(0, 0), weights=True)
    assert json.loads(json.dumps(found)) == {
        "source_words": ["ab", "c", "</s>"],
        "words": ["x", "y"],
        "alignment": [[0, 0], [1, 1]],
        "layer": 0,
        "head": 0,
        "method": "mean",
        "decoder_step": "output",
        "weights": [[0.6667, 0.0, 0.3333], [0.25, 0.5, 0.25]],
        "p_t": [0.0, 1.0],
        "window": [[0, 0], [0, 2]],
    }
    of_input = described(Extractor(-1, None, "input"), weights=True)
    assert of_input["weights"] == [[0.125, 0.25, 0.625], [0.0, 0.5, 0.5]]
    assert of_input["p_t"] == [1.0, 2.0]
    short = described(Extractor(0, 0), threshold=0.25)
    assert short["source_words"] == ["ab", "c"]
    assert short["alignment"] == [[0, 0], [0, 1], [1, 1]]
    assert not {"weights", "p_t", "window"} & short.keys()
    rollout = described(Extractor(0, None, "output", "rollout"), weights=True)
    assert rollout["weights"] == found["weights"]
    assert rollout["layer"] is None and "p_t" not in rollout
    empty = AttentionRecord([], [], [0.0], np.ones((1, 1, 1, 1)))
    blank = described(Extractor(), empty, weights=True)
    assert blank["source_words"] == ["</s>"]
    assert blank["words"] == blank["weights"] == blank["alignment"] == []


def test_a_translation_and_its_alignment_say_the_same(nmt):
    """The kernels of search return no weights; forced decoding of its result computes them."""
    words = ["--method", "rollout", "--format", "jsonl", SENTENCE]
    record, blank = map(json.loads, nmt("translate", "--weights", *words, "").out.splitlines())
    again = json.loads(nmt("align", *words).out)
    assert again == {key: record[key] for key in again} and record["method"] == "rollout"
    np.testing.assert_allclose(
        np.sum(record["weights"], 1), 1, atol=5.1e-5 * len(record["source_words"]), rtol=0
    )
    assert len(record["weights"]) == len(record["words"]) > 0
    assert (blank["text"], blank["weights"], blank["log_probabilities"]) == ("", [], [])


@pytest.mark.parametrize(
    ("pieces", "stop", "end"),
    [
        ("▁今天 天气 好 。 我们 去 公园 玩", 6, 4),
        ("▁A . 5 ▁b . ▁c", 5, 5),
        ("▁a b . 5 ▁c d", 5, 4),  # a dot inside a number ends nothing
        ("▁a ? ▁b ; ▁c ▁d e", 6, 4),
        ("▁a . ▁b c d e", 5, 5),  # only in the second half
        ("▁a b c ▁d e f", 5, 3),
        ("▁a ▁b c d e f", 5, 5),
        ("今天 天气 今天 天气 今天 天气 今天", 6, 6),
    ],
)
def test_where_a_part_ends(pieces, stop, end):
    assert split_position(pieces.split(), 0, stop) == end


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Der Hund schläft. Die Katze auch! Und er?", 3),
        ("„Er geht.“ Sie bleibt … Ende.", 3),
        ("z. B. am 3. Mai um 5.30 Uhr, J. S. Bach", 1),
        ("今天天气好。我们去公园！", 2),
        ("هل هذا بيت؟ نعم.", 2),
        ("", 1),
    ],
)
def test_sentences_of_a_line(text, count):
    assert count_sentences(text) == count


@pytest.mark.parametrize(("left", "is_short"), [(6, False), (4, False), (3, True), (1, True)])
def test_a_translation_that_has_lost_half_of_the_sentences(left, is_short):
    sentence = "Der rote Hund schläft. "
    assert lacks_sentences(6 * sentence, left * sentence) == is_short
    # As long without any sentence end, as Thai; and one of two, which may be joined
    assert not lacks_sentences(6 * sentence, "ก" * 6 * len(sentence))
    assert not lacks_sentences(2 * sentence, "ก")


def test_lines_that_lose_sentences_are_named(nmt, monkeypatch):
    line = " ".join(SENTENCE for _ in range(12))
    monkeypatch.setattr("nmt.commands.translate.lacks_sentences", lambda source, _: source == line)
    for format in ("text", "jsonl"):
        err = nmt("translate", "--format", format, SENTENCE, line, SENTENCE, line).err
        assert "Sentences are missing in the translation of line 2, 4;" in err


@given(
    st.lists(st.sampled_from(["▁a", "b", ".", "。"]), min_size=1, max_size=30), st.integers(1, 9)
)
def test_parts_are_short_enough(pieces, longest):
    stops = [0, *split_positions(pieces, longest), len(pieces)]
    assert all(0 < end - start <= longest for start, end in pairwise(stops))


@pytest.mark.parametrize(
    ("parts", "line"),
    [
        ("Ein Satz.|Noch einer.", "Ein Satz. Noch einer."),
        ("今天天气好。|我们去公园", "今天天气好。我们去公园"),
        ("今天天气|OK", "今天天气OK"),
        ("OK|今天", "OK今天"),
        ("好。|OK.", "好。OK."),
        ("好！|好", "好！好"),
    ],
)
def test_parts_are_joined_as_their_script_is(parts, line):
    assert join_texts(parts.split("|")) == line


def test_a_line_in_parts_has_a_record_of_each(nmt):
    """Each part has the record that it has as a line of its own."""
    line = "Der Bäcker kauft einen Apfel. " * 20
    words = ["--beam", "1", "--format", "jsonl", "--weights", "--nbest", "1"]
    answer = nmt("translate", *words, line)
    record = json.loads(answer.out)
    assert re.search(r"Line 1 has \d+ pieces, .* 2 parts", answer.err)
    assert set(record) == {"line", "text", "score", "confidence", "parts"}
    first, second = record["parts"]
    assert record["text"] == f"{first['text']} {second['text']}"
    for name, parts in (("confidence", "word_confidences"), ("score", "log_probabilities")):
        wanted = np.mean(first[parts] + second[parts])  # α = 1
        assert record[name] == pytest.approx(wanted, abs=1e-3)
    sources = ["".join(part["source_pieces"]).replace("▁", " ").strip() for part in (first, second)]
    assert " ".join(sources) == line.strip()
    assert max(len(part["source_pieces"]) for part in (first, second)) <= 256
    alone = json.loads(nmt("translate", *words, sources[1]).out)
    assert second["text"] == alone["text"]
    assert second["source_words"] == alone["source_words"]
    np.testing.assert_allclose(second["weights"], alone["weights"], atol=2e-4)


@pytest.mark.parametrize("more", [[], ["--tokenized"]])
def test_the_confidence_of_a_line_is_the_mean_over_its_words(nmt, more):
    """Also where only spaces divide words. A line that is copied is certain."""
    means = []
    words = ["--format", "jsonl", *more]
    for line in nmt("translate", SENTENCE, "12:30", "", *words).out.splitlines():
        entry = json.loads(line)
        means.append(entry["confidence"])
        assert len(entry["words"]) == len(entry["word_confidences"])
        wanted = np.mean(entry["word_confidences"] or [1.0])
        assert entry["confidence"] == pytest.approx(wanted, abs=1e-3)
    assert means[1:] == [1.0, 1.0]

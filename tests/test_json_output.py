"""What `nmt translate` and `nmt align` write for programs: attention as JSON."""

import json

import numpy as np
import pytest
from corpora import Trained, run_command

from nmt.decode.forced_decoding import AttentionRecord
from nmt.decode.long_lines import join_texts, split_position
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
WORDS = record_words(RECORD)


def test_a_record_by_hand():
    """ab has the sum of its pieces: ⅓ + ⅓ and 0 + ¼. p_t = ½ and 2 are at the words 0 and 1; D =
    1."""
    found = Alignment(RECORD, WORDS, Extractor(0, 0)).to_dict(weights=True)
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
    of_input = Alignment(RECORD, WORDS, Extractor(-1, None, "input")).to_dict(weights=True)
    assert of_input["weights"] == [[0.125, 0.25, 0.625], [0.0, 0.5, 0.5]] and of_input["p_t"] == [
        1.0,
        2.0,
    ]
    short = Alignment(RECORD, WORDS, Extractor(0, 0)).to_dict(threshold=0.25)
    assert short["source_words"] == ["ab", "c"] and short["alignment"] == [[0, 0], [0, 1], [1, 1]]
    assert not {"weights", "p_t", "window"} & short.keys()
    rollout = Alignment(RECORD, WORDS, Extractor(0, None, "output", "rollout")).to_dict(
        weights=True
    )
    assert (
        rollout["weights"] == found["weights"] and rollout["layer"] is None and "p_t" not in rollout
    )
    blank = AttentionRecord([], [], [0.0], np.ones((1, 1, 1, 1)))
    found = Alignment(blank, record_words(blank), Extractor()).to_dict(weights=True)
    assert (found["source_words"], found["words"], found["weights"], found["alignment"]) == (
        ["</s>"],
        [],
        [],
        [],
    )


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


def test_lines_without_spaces_are_split_after_full_stops():
    """No piece of such a line begins a word."""
    pieces = ["▁今天", "天气", "好", "。", "我们", "去", "公园", "玩"]
    assert split_position(pieces, 0, 6) == 4
    # a dot inside a number ends nothing
    assert split_position(["▁A", ".", "5", "▁b", ".", "▁c"], 0, 5) == 5
    assert split_position(["今天", "天气"] * 4, 0, 6) == 6


def test_parts_are_joined_as_their_script_is():
    assert join_texts(["Ein Satz.", "Noch einer."]) == "Ein Satz. Noch einer."
    assert join_texts(["今天天气好。", "我们去公园"]) == "今天天气好。我们去公园"
    assert join_texts(["今天天气", "OK"]) == "今天天气OK"
    assert (
        join_texts(["好。", "OK."]) == "好。OK."
        and join_texts(["好！", "好"]) == "好！好"
        and join_texts([]) == ""
    )


def test_a_line_in_parts_has_a_record_of_each(nmt):
    """The line is split after a full stop; each part has the record that it has as a line of its
    own."""
    sentence = "Der Bäcker kauft einen Apfel. "
    words = ["--beam", "1", "--format", "jsonl", "--weights", "--nbest", "1"]
    answer = nmt("translate", *words, sentence * 20)
    record = json.loads(answer.out)
    assert "translated in 2 parts" in answer.err and set(record) == {
        "line",
        "text",
        "score",
        "confidence",
        "parts",
    }
    first, second = record["parts"]
    of_words = first["word_confidences"] + second["word_confidences"]
    assert record["confidence"] == pytest.approx(np.mean(of_words), abs=1e-3)
    assert record["text"] == f"{first['text']} {second['text']}"
    pieces = [part["source_pieces"] for part in (first, second)]
    assert (
        "".join(sum(pieces, [])).replace("▁", " ").strip() == (sentence * 20).strip()
        and max(map(len, pieces)) <= 256
    )
    log_probabilities = first["log_probabilities"] + second["log_probabilities"]
    # α = 1
    assert record["score"] == pytest.approx(
        sum(log_probabilities) / len(log_probabilities), abs=1e-3
    )
    text = "".join(second["source_pieces"]).replace("▁", " ").strip()
    alone = json.loads(nmt("translate", *words, text).out)
    assert second["text"] == alone["text"] and second["source_words"] == alone["source_words"]
    np.testing.assert_allclose(second["weights"], alone["weights"], atol=2e-4)


def test_doubtful_lines_are_marked_or_copied(nmt):
    """The confidence of a line is the mean over its words; a line that is copied is certain."""
    lines = [SENTENCE, "Qxz zzq.", "12:30", ""]
    means = []
    for line in nmt("translate", *lines, "--format", "jsonl").out.splitlines():
        entry = json.loads(line)
        means.append(entry["confidence"])
        assert len(entry["words"]) == len(entry["word_confidences"])
        assert entry["confidence"] == pytest.approx(
            np.mean(entry["word_confidences"] or [1.0]), abs=1e-3
        )
    between = float(np.mean(means[:2]))
    assert means[2:] == [1.0, 1.0] and min(means) < between < max(means[:2])
    marks = ["--min-confidence", str(between)]
    entries = [
        json.loads(line)
        for line in nmt("translate", *lines, "--format", "jsonl", *marks).out.splitlines()
    ]
    assert [entry["doubtful"] for entry in entries] == [mean < between for mean in means]
    texts = [
        line if entry["doubtful"] else entry["text"]
        for line, entry in zip(lines, entries, strict=True)
    ]
    assert nmt("translate", *lines, *marks, "--copy-doubtful").out.splitlines() == texts

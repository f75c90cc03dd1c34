"""The vocabulary map for CTranslate2: candidates from links, and what CTranslate2 does with them."""

from collections import Counter

import pytest
from corpora import Trained, run_command
from exporting import translator

from nmt.convert.ctranslate2_folder import CTranslate2Export
from nmt.convert.vocabulary_map import COMMON, LINKED, map_lines, vocabulary_map
from nmt.evaluate.extraction import Extractor


def read(text: str) -> dict[str, list[str]]:
    return {source: targets.split() for source, targets in (line.split("\t") for line in text.splitlines())}


def test_candidates_by_hand(vocabularies):
    """The most frequent first; a piece of both sides can be copied; control pieces are in no line."""
    plain, _ = translator(vocabularies)
    pieces = plain.tokenizers.target.pieces(range(4, 4 + LINKED + 5))
    first, second = pieces[0], pieces[1]
    linked = {first: Counter({pieces[2]: 1, pieces[3]: 5}), second: Counter(pieces)}
    found = read("".join(map_lines(plain, linked, Counter(pieces[2:4] * 2 + pieces))))
    assert found[first] == [pieces[3], pieces[2], first] and found[""][:2] == pieces[2:4]
    assert len(found[second]) <= LINKED + 1 and second in found[second] and len(found[""]) <= COMMON
    assert not {"<pad>", "<s>", "</s>", "<unk>"} & {piece for row in [list(found), *found.values()] for piece in row}
    assert len(found) == 1 + plain.tokenizers.source.size - 4  # joint: each piece has at least itself


def test_every_target_piece_is_a_candidate_of_what_it_attends_to(vocabularies):
    plain, _ = translator(vocabularies)
    pairs = [("lang kurz", "kurz lang"), ("drei", "drei")]
    found, extractor = read(vocabulary_map(plain, Extractor(0, 0), pairs)), Extractor(0, 0)
    for source, target in plain.tokenizers.encode_pairs(pairs):
        record = plain.force_decode((source, target))
        for piece, weights in zip(record.target_pieces, extractor.piece_weights(record), strict=True):
            place = int(weights.argmax())
            assert place == len(record.source_pieces) or piece in found[record.source_pieces[place]]
            assert piece in found[""]


def test_ctranslate2_writes_candidates_alone(vocabularies, tmp_path):
    ctranslate2 = pytest.importorskip(
        "ctranslate2", reason="ctranslate2 is not installed; pip install 'nmt[ctranslate2]'"
    )
    plain, config = translator(vocabularies)
    target = plain.tokenizers.target
    allowed = target.pieces([10, 11, 12])
    text = "\t" + " ".join(allowed) + "\n"
    CTranslate2Export(plain, config, "float32", text).write(tmp_path, {})
    engine = ctranslate2.Translator(str(tmp_path))
    source = [target.pieces([20, 21, 22, 23])]
    (found,) = engine.translate_batch(source, use_vmap=True, max_decoding_length=8)
    (free,) = engine.translate_batch(source, max_decoding_length=8)
    assert set(found.hypotheses[0]) <= set(allowed) and not set(free.hypotheses[0]) <= set(allowed)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--format", "hf", "--vocabulary-map"], "is for --format ctranslate2 with --output FOLDER"),
        (["--format", "ctranslate2", "--vocabulary-map"], "is for --format ctranslate2 with --output FOLDER"),
        (["--format", "ctranslate2", "--push", "a/b"], "--push uploads the folder of --format hf"),
        (["--format", "hf", "--push", "../x"], "it is OWNER/NAME"),
        (["--format", "hf", "--push", "x"], "it is OWNER/NAME"),
    ],
)
def test_what_cannot_be_exported_is_refused(trained: Trained, capfd, words, said):
    answer = run_command(capfd, "export", "tiny", "--runs", trained.runs, *words)
    assert answer.code == 2 and answer.out == "" and said in answer.err and answer.err.count("\n") == 1

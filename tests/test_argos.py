"""nmt export --format argos: the pieces and the ends of sentences of a package for Argos Translate.

test_export.py translates with one.
"""

import json
import re
import unicodedata
import zipfile
from functools import cache

import numpy as np
import pytest
import sentencepiece
from corpora import run_command
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.commands import export as export_command
from nmt.convert.argos import KINDS, normalizing_model, sentence_model
from nmt.data.tokenizer import Tokenizer
from nmt.decode.beam_search import Hypothesis
from nmt.decode.translator import Translator

MARKS = st.sampled_from(
    ["a\u0308", "e\u0301", "u\u0308\u0304", "ü\u0304", "Å", "Ω", "A\u030a", "ß", "日本", " ", "x"]
)
TEXT = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=12
)


@cache
def processor(tokenizer: Tokenizer, lowercase: bool):
    """The model of the package, opened by SentencePiece."""
    model = normalizing_model(Tokenizer(tokenizer.model, lowercase))
    return sentencepiece.SentencePieceProcessor(model_proto=model)


@settings(max_examples=15)
@given(text=st.one_of(st.lists(MARKS, max_size=8).map("".join), TEXT))
def test_pieces_of_any_text_are_ours(text, vocabularies):
    """But for Hangul that is typed as single letters."""
    text = "".join(character for character in text if not 0x1100 <= ord(character) < 0x1200)
    source = vocabularies[True].source
    for lowercase in (False, True):
        ours = Tokenizer(source.model, lowercase)
        pieces = ours.pieces(ours.encode(text))
        for typed in (text, unicodedata.normalize("NFD", text)):
            if unicodedata.normalize("NFC", typed) == unicodedata.normalize("NFC", text):
                assert processor(source, lowercase).encode(typed, out_type=str) == pieces


def test_separate_vocabularies_need_one_model_of_pieces(vocabularies):
    """Argos Translate decodes with the source's model, which knows the target's pieces as little as
    other text."""
    source, target = vocabularies[False]
    for text in ("the boy paints the bicycle.", "x y 🎉 …"):
        ids = target.encode(text)
        decoded = processor(source, False).decode_pieces(target.pieces(ids))
        assert decoded.replace("▁", " ").strip() == target.decode(ids)


PARAGRAPHS = [
    ("Das ist gut. ", "Und du? ", "Ja! ", "„Wirklich?“ ", "(Sehr gut.) ", "3 Leute kamen."),
    ("Dr. Meier kam am 3. Mai um 8.30 Uhr, d. h. zu spät.",),
    ("今日は。", "明日は雨？", "はい"),
]


@pytest.fixture(scope="module")
def ends_of():
    """ends_of(TEXT) → the places where MiniSBD ends a sentence by our model, padding or not."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    session = onnxruntime.InferenceSession(sentence_model(), providers=["CPUExecutionProvider"])
    about = session.get_modelmeta().custom_metadata_map
    table = json.loads(about["vocab"])["_unit2id"]

    def ends(text: str) -> list[int]:
        units = np.array([[table.get(character, table["<UNK>"]) for character in text]])
        features = np.array([[[float(character.isupper())] for character in text]], np.float32)
        found = []
        for padding in (0, 2):
            inputs = {
                "units": np.pad(units, ((0, 0), (0, padding)), constant_values=table["<PAD>"]),
                "features": np.pad(features, ((0, 0), (0, padding), (0, 0))),
            }
            [scores] = session.run(None, inputs)
            assert scores.shape == (1, len(text) + padding, 3)
            found.append([place for place, best in enumerate(scores[0].argmax(1)) if best == 2])
        assert found[0] == found[1]
        return found[0]

    return ends


@pytest.mark.parametrize("sentences", PARAGRAPHS, ids=len)
def test_sentences_end_where_the_rules_say(sentences, ends_of):
    text = "".join(sentences)
    starts = [sum(map(len, sentences[:number])) for number in range(1, len(sentences))]
    assert ends_of(text) == [start - 1 - (text[start - 1] == " ") for start in starts], text


WORD = f"[^{re.escape(''.join(KINDS.values()).replace(KINDS['digit'], ''))}]"
CLOSING = f"[{re.escape(KINDS['closing'])}]"
START = f"(?= (?:[A-ZÉ]|[{re.escape(KINDS['opening'] + KINDS['closing'] + KINDS['digit'])}]))"
# The rules of the module's docstring, as a match behind the last character of a sentence
END = re.compile(
    rf"(?:(?<={WORD}{{3}}\.)|(?<={WORD}{{3}}\.{CLOSING})|(?<=[!?…])|(?<=[!?…]{CLOSING})){START}"
    "|(?<=[。！？؟۔।॥])"
)
PARTS = st.sampled_from(["abc", "3", "É", "x", ". ", ".", "!", "? ", "…”", ".) ", " ", "(", "。"])
SIGNS = st.text("".join(KINDS.values()) + "aB日", max_size=3)


@settings(max_examples=150)
@given(text=st.lists(st.one_of(PARTS, SIGNS), min_size=1, max_size=14).map("".join))
def test_any_text_ends_where_a_regular_expression_says(text, ends_of):
    if text:
        assert ends_of(text) == [match.start() - 1 for match in END.finditer(text)]


def test_the_command_prints_the_package(trained, tmp_path, capfd, monkeypatch):
    """Not of a model that changes numbers and addresses where the text filter does not run; this
    small one does."""
    pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed; `make test` brings it")
    words = ["export", "tiny", "--runs", trained.runs, "--format", "argos", "--output"]
    folder = tmp_path / "new"
    answer = run_command(capfd, *words, str(folder))
    assert answer.code == 2 and " of 16 lines keep" in answer.err, answer.err
    assert "train.noise_plain=0.9" in answer.err and not folder.exists()
    with monkeypatch.context() as patch:  # a model that copies
        patch.setattr(
            Translator,
            "search",
            lambda self, queries: [[Hypothesis(list(query.source), 0.0)] for query in queries],
        )
        assert "16 of 16 lines keep" in run_command(capfd, *words, str(tmp_path / "copied")).err

    monkeypatch.setattr(export_command, "MOST_LOST", 1)
    words += [str(folder), "--license", "cc-by-4.0"]
    answer = run_command(capfd, *words)
    assert answer.code == 0, answer.err
    assert answer.out == f"{folder}/translate-de_en.argosmodel\n"
    with zipfile.ZipFile(answer.out.strip()) as package:
        files = {name.removeprefix("de_en/"): package.read(name) for name in package.namelist()}
    # names and keys as in argostranslate/package.py
    metadata = json.loads(files["metadata.json"])
    wanted = {"from_code": "de", "from_name": "German", "to_code": "en", "to_name": "English"}
    wanted["license"] = "cc-by-4.0"
    assert metadata | wanted == metadata
    names = {"sentencepiece.model", "model/model.bin", "minisbd/rules.onnx", "provenance.json"}
    assert names < files.keys()
    card = files["README.md"].decode()
    assert "Licence of the model: cc-by-4.0." in card and "- test: BLEU " in card
    assert run_command(capfd, *words).code == 2

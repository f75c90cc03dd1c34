"""nmt export --format argos: a package that Argos Translate installs and translates with."""

import importlib.util
import json
import unicodedata
import zipfile
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import sentencepiece
from corpora import Trained, pairs, run_command
from exporting import translator
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.commands import export as export_command
from nmt.config.schema import DataConfig
from nmt.convert.argos import LONGEST, ArgosExport, normalizing_model, sentence_model
from nmt.data.tokenizer import Tokenizer, Tokenizers
from nmt.decode.beam_search import Hypothesis
from nmt.decode.translator import Translator
from nmt.errors import UserError
from nmt.runs.run import load

needs_ctranslate2 = pytest.mark.skipif(
    importlib.util.find_spec("ctranslate2") is None,
    reason="ctranslate2 is not installed; the environment of `make test` brings it",
)
MARKS = st.sampled_from(
    ["a\u0308", "e\u0301", "u\u0308\u0304", "ü\u0304", "Å", "Ω", "A\u030a", "ß", "日本", " ", "x"]
)
# pieces; ours ends a translation there, theirs breaks it off, so only shorter ones are compared
LIMIT = 30
TEXT = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=12
)


@pytest.fixture(scope="module")
def package(trained: Trained, tmp_path_factory):
    """The package of the small run, unpacked."""
    pytest.importorskip("ctranslate2")
    folder = tmp_path_factory.mktemp("argos")
    run = load([trained.folder / "best.safetensors"])
    wanted = ArgosExport(run.translator, run.config, "float32", "cc-by-4.0", ("CC BY 2.0 FR",))
    wanted.check()
    wanted.write(folder, {"scores": {}})
    assert [path.name for path in folder.iterdir()] == ["translate-de_en.argosmodel"]
    with zipfile.ZipFile(folder / wanted.content) as file:
        file.extractall(folder)
    return folder / "de_en"


@needs_ctranslate2
def test_its_own_calls_give_our_greedy_translations(package, trained: Trained):
    """What argostranslate/translate.py does with a sentence, in its own options."""
    import ctranslate2

    pieces = sentencepiece.SentencePieceProcessor(model_file=str(package / "sentencepiece.model"))
    engine = ctranslate2.Translator(str(package / "model"), compute_type="float32")
    run = load([trained.folder / "best.safetensors"], precision="fp32")
    options = {"beam": 1, "avoid_loops": False, "max_length_ratio": 0.0, "max_length_extra": LIMIT}
    decode = replace(run.translator.decode, **options)
    lines = [source for source, _ in pairs(40, seed=5)]
    lines = [
        line for line in lines if not run.translator.tokenizers.protect_sources([line])[0].spans
    ]
    wanted = list(run.translator.with_options(decode=decode).translate(lines))
    decomposed = [unicodedata.normalize("NFD", line) for line in lines]
    found = engine.translate_batch(
        [pieces.encode(line, out_type=str) for line in decomposed],
        replace_unknowns=True,
        max_batch_size=32,
        batch_type="tokens",
        beam_size=1,
        length_penalty=0.2,
        max_decoding_length=LIMIT,
    )
    texts = [pieces.decode_pieces(each.hypotheses[0]).replace("▁", " ") for each in found]
    short = [number for number, each in enumerate(wanted) if len(each.ids) < LIMIT]
    assert len(short) > 8 and decomposed != lines
    assert [texts[number] for number in short] == [wanted[number].text for number in short]
    long = engine.translate_batch([["▁a"] * (LONGEST + 100)], beam_size=1, max_decoding_length=3)
    assert len(long) == 1  # positions for all that Argos Translate passes on


@settings(max_examples=15)
@given(text=st.one_of(st.lists(MARKS, max_size=8).map("".join), TEXT))
def test_pieces_of_any_text_are_ours(text, vocabularies):
    """But for Hangul that is typed as single letters."""
    ours = vocabularies[True].source
    for lowercase in (False, True):
        both = [Tokenizer(ours.model, lowercase), processor(ours, lowercase)]
        text = "".join(character for character in text if not 0x1100 <= ord(character) < 0x1200)
        pieces = both[0].pieces(both[0].encode(text))
        assert both[1].encode(text, out_type=str) == pieces


@cache
def processor(tokenizer: Tokenizer, lowercase: bool):
    """The model of the package, opened by SentencePiece."""
    model = normalizing_model(Tokenizer(tokenizer.model, lowercase))
    return sentencepiece.SentencePieceProcessor(model_proto=model)


PARAGRAPH = [
    ("Das ist gut. ", "Und du? ", "Ja! ", "„Wirklich?“ ", "(Sehr gut.) ", "3 Leute kamen."),
    ("Dr. Meier kam am 3. Mai um 8.30 Uhr, d. h. zu spät.",),
    ("今日は。", "明日は雨？", "はい"),
]


def test_sentences_end_where_the_rules_say():
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    session = onnxruntime.InferenceSession(sentence_model(), providers=["CPUExecutionProvider"])
    about = session.get_modelmeta().custom_metadata_map
    table = json.loads(about["vocab"])["_unit2id"]
    for sentences in PARAGRAPH:
        text = "".join(sentences)
        units = np.array([[table.get(character, table["<UNK>"]) for character in text]])
        features = np.array([[[float(character.isupper())] for character in text]], np.float32)
        [scores] = session.run(None, {"units": units, "features": features})
        ends = [place for place, best in enumerate(scores[0].argmax(1)) if best == 2]
        starts = [sum(map(len, sentences[:number])) for number in range(1, len(sentences))]
        assert ends == [start - 1 - (text[start - 1] == " ") for start in starts], text


@needs_ctranslate2
def test_what_a_package_cannot_hold_is_refused(vocabularies):
    plain, config = translator(vocabularies)
    config.data = DataConfig(**(vars(config.data) | {"source": "de+fr"}))
    with pytest.raises(UserError, match="one language pair"):
        ArgosExport(plain, config, "int8").check()


@needs_ctranslate2
def test_separate_vocabularies_need_one_model_of_pieces(vocabularies: dict[bool, Tokenizers]):
    """Argos Translate decodes with the source's model, which knows the target's pieces as little as
    other text."""
    source, target = vocabularies[False]
    for text in ("the boy paints the bicycle.", "x y 🎉 …"):
        pieces = target.pieces(target.encode(text))
        assert processor(source, False).decode_pieces(pieces).replace(
            "▁", " "
        ).strip() == target.decode(target.encode(text))


@needs_ctranslate2
def test_the_command_prints_the_package(trained: Trained, tmp_path, capfd, monkeypatch):
    """Not of a model that changes numbers and addresses where the text filter does not run; this
    small one does."""
    words = [
        "export",
        "tiny",
        "--runs",
        str(trained.runs),
        "--format",
        "argos",
        "--output",
        str(tmp_path / "new"),
    ]
    answer = run_command(capfd, *words)
    assert answer.code == 2 and (" of 16 lines keep their numbers and addresses") in answer.err, (
        answer.err
    )
    assert "train.noise_plain=0.9" in answer.err and not (tmp_path / "new").exists()
    monkeypatch.setattr(
        Translator, "search", lambda self, rows, **_: [[Hypothesis(list(ids), 0.0)] for ids in rows]
    )  # which copies
    assert "16 of 16 lines keep" in run_command(capfd, *words[:-1], str(tmp_path / "copied")).err
    monkeypatch.undo()
    monkeypatch.setattr(export_command, "MOST_LOST", 1)
    answer = run_command(capfd, *words, "--license", "cc-by-4.0")
    assert answer.code == 0 and answer.out == f"{tmp_path}/new/translate-de_en.argosmodel\n", (
        answer.err
    )
    with zipfile.ZipFile(answer.out.strip()) as package:
        files = {name: package.read(name) for name in package.namelist()}
    # names and keys as in argostranslate/package.py
    metadata = json.loads(files["de_en/metadata.json"])
    assert (metadata["from_code"], metadata["from_name"]) == ("de", "German")
    assert (metadata["to_code"], metadata["to_name"], metadata["license"]) == (
        "en",
        "English",
        "cc-by-4.0",
    )
    names = (
        "sentencepiece.model",
        "model/model.bin",
        "minisbd/rules.onnx",
        "README.md",
        "provenance.json",
    )
    assert {f"de_en/{name}" for name in names} < files.keys()
    assert b"Licence of the model: cc-by-4.0." in files["de_en/README.md"]
    assert run_command(capfd, *words).code == 2

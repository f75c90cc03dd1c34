"""--engine auto: CTranslate2 by itself where it is installed and can do all that is asked, said in one line."""

import shutil
from argparse import Namespace

import pytest
from corpora import Trained, run_command

from nmt.commands import engine

pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed; the environment of `make test` brings it")
SENTENCE = "Ein Junge malt das rote Fahrrad im Garten."


@pytest.fixture
def translate(trained: Trained, tmp_path, capfd):
    """translate(WORD …) with a copy of the trained run, since an export is written into its folder."""
    folder = tmp_path / "runs" / "tiny"
    folder.mkdir(parents=True)
    shutil.copy(trained.folder / "best.safetensors", folder)
    return lambda *words: run_command(capfd, "translate", "tiny", "--runs", str(folder.parent), *words)


def test_auto_is_int8_and_says_so(translate, tmp_path):
    found, named = translate(SENTENCE), translate("--engine", "ctranslate2", "--quantization", "int8", SENTENCE)
    assert found.out == named.out and found.code == 0
    assert found.err.splitlines()[-1] == "CTranslate2 searches (int8), which is faster; --engine torch does without it."
    assert len(list((tmp_path / "runs" / "tiny" / "export").iterdir())) == 1 and "CTranslate2" not in named.err


@pytest.mark.parametrize(
    "words", [["--engine", "torch"], ["--quantization", "bfloat16"], ["--quantization", "float32"]]
)
def test_our_own_number_formats_and_engine_stay(words, translate, tmp_path):
    answer = translate(*words, SENTENCE)
    assert answer.code == 0 and answer.err == ""
    assert not (tmp_path / "runs" / "tiny" / "export").exists()


def test_without_it_or_its_export_our_own_search_is_used(translate, tmp_path, monkeypatch):
    (tmp_path / "runs" / "tiny" / "export").write_text("a file, so that nothing can be written below it")
    blocked = translate(SENTENCE)
    own = translate("--engine", "torch", SENTENCE)
    assert blocked.code == 0 and (blocked.out, blocked.err) == (own.out, own.err)
    monkeypatch.setattr(engine.importlib.util, "find_spec", lambda name: None)
    assert translate(SENTENCE).err == ""


def test_an_output_is_continued_with_the_engine_it_was_begun_with():
    options = Namespace(engine="auto", quantization=None)
    engine.continue_engine(options, {"--engine": "ctranslate2", "--quantization": "int8"})
    assert (options.engine, options.quantization) == ("ctranslate2", "int8")
    chosen = Namespace(engine="torch", quantization=None)
    engine.continue_engine(chosen, {"--engine": "ctranslate2", "--quantization": "int8"})
    assert (chosen.engine, chosen.quantization) == ("torch", None)

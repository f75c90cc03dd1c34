"""--engine auto: CTranslate2 where it is installed and can do all that is asked, which is said."""

import shutil
import sys

import pytest
from corpora import Trained, run_command

pytest.importorskip(
    "ctranslate2", reason="ctranslate2 is not installed; the environment of `make test` brings it"
)
SENTENCE = "Ein Junge malt das rote Fahrrad im Garten."


@pytest.fixture
def translate(trained: Trained, tmp_path, capfd):
    """translate(WORD …) with a copy of the trained run, since an export is written into its
    folder."""
    folder = tmp_path / "runs" / "tiny"
    folder.mkdir(parents=True)
    shutil.copy(trained.folder / "best.safetensors", folder)
    return lambda *words: run_command(
        capfd, "translate", "tiny", "--runs", str(folder.parent), *words
    )


def test_auto_is_int8_and_says_so(translate, tmp_path):
    found = translate(SENTENCE)
    named = translate("--engine", "ctranslate2", "--quantization", "int8", SENTENCE)
    assert found.out == named.out and found.code == 0
    assert found.err.splitlines()[-1] == (
        "CTranslate2 searches (int8), which is faster; --engine torch does without it."
    )
    assert (
        len(list((tmp_path / "runs" / "tiny" / "export").iterdir())) == 1
        and "CTranslate2" not in named.err
    )


def test_of_a_read_only_run_the_export_is_temporary(translate, tmp_path, monkeypatch):
    """As in a container, where the runs are a volume."""
    monkeypatch.setattr("nmt.commands.export.os.access", lambda path, mode: False)
    found = translate(SENTENCE)
    assert found.code == 0 and "CTranslate2 searches (int8)" in found.err
    assert not (tmp_path / "runs" / "tiny" / "export").exists()
    monkeypatch.undo()
    assert found.out == translate("--quantization", "int8", "--engine", "ctranslate2", SENTENCE).out


def test_our_own_number_formats_and_engine_stay(translate, tmp_path):
    for words in (["--engine", "torch"], ["--quantization", "bfloat16"]):
        answer = translate(*words, SENTENCE)
        assert answer.code == 0 and answer.err == ""
    assert not (tmp_path / "runs" / "tiny" / "export").exists()


def test_samples_are_drawn_by_our_own_search(translate, tmp_path):
    for words in (["--samples", "3", "--nbest", "3"], ["--samples", "3", "--choose", "mbr"]):
        answer = translate(*words, SENTENCE)
        assert answer.code == 0 and answer.err == ""
        assert answer.out == translate(*words, "--engine", "torch", SENTENCE).out
    assert not (tmp_path / "runs" / "tiny" / "export").exists()


def test_without_it_or_its_export_our_own_search_is_used(translate, tmp_path, monkeypatch):
    (tmp_path / "runs" / "tiny" / "export").write_text(
        "a file, so that nothing can be written below it"
    )
    blocked = translate(SENTENCE)
    own = translate("--engine", "torch", SENTENCE)
    assert blocked.code == 0 and (blocked.out, blocked.err) == (own.out, own.err)
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    assert translate(SENTENCE).err == ""


def test_a_file_is_translated_by_our_own_search(translate, tmp_path):
    """Over a file CTranslate2 is faster on some processors only."""
    file = tmp_path / "some.de"
    output = tmp_path / "some.en"
    file.write_text(f"{SENTENCE}\n", encoding="utf-8")
    for words in (["--input", str(file)], [SENTENCE, "--output", str(output)]):
        answer = translate(*words)
        assert answer.code == 0 and "CTranslate2" not in answer.err
    assert output.read_text(encoding="utf-8") == translate("--engine", "torch", SENTENCE).out

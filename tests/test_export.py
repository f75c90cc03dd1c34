"""An exported model translates as before: every variant of the Transformer, searched by both
engines."""

import contextlib
import importlib.util
import json
import re
import shutil
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from conftest import MODELS, small_config
from corpora import Trained, environment, run_command
from exporting import some, translator

from nmt.config.schema import Config
from nmt.convert.ctranslate2_folder import (
    EXPORTABLE,
    CTranslate2Export,
    CTranslate2Translator,
    check_exportable,
)
from nmt.convert.formats import FORMATS
from nmt.corpus.checksums import read_json, write_json
from nmt.data.tokenizer import BOS, EOS, PAD
from nmt.decode.beam_search import Hypothesis
from nmt.decode.translator import Translator
from nmt.errors import UserError
from nmt.runs import run as runs

needs_ctranslate2 = pytest.mark.skipif(
    importlib.util.find_spec("ctranslate2") is None,
    reason="ctranslate2 is not installed; the environment of `make test` brings it",
)
SENTENCE = "Ein Junge malt das rote Fahrrad im Garten."
OTHER = "Mein Bruder sucht zwei Bücher."


def export(
    plain: Translator, config: Config, folder: Path, quantization: str = "float32"
) -> CTranslate2Translator:
    folder.mkdir()
    CTranslate2Export(plain, config, quantization).write(folder, {})
    return CTranslate2Translator.open(plain, folder)


def assert_same(results: list[list[Hypothesis]], wanted: list[list[Hypothesis]]) -> None:
    """The same best hypotheses, but where one was left out of the list: it took a place of the beam
    meanwhile."""
    whole = [len(best) == len(expected) for best, expected in zip(results, wanted, strict=True)]
    assert sum(whole) > len(whole) / 2
    same = [best[0].ids == expected[0].ids for best, expected in zip(results, wanted, strict=True)]
    assert all(is_same or not is_whole for is_same, is_whole in zip(same, whole, strict=True))
    assert sum(same) >= len(same) - 1
    for expected, best in zip(wanted, results, strict=True):
        scores = {tuple(each.ids): each.score for each in expected}
        found = [each.score for each in best]
        assert found == sorted(found, reverse=True) and 1 <= len(found) <= len(expected)
        assert found == pytest.approx(
            [scores.get(tuple(each.ids), each.score) for each in best], abs=1e-4
        )


def count_own_searches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of sentences of each call of our own search."""
    searched: list[int] = []
    plain = Translator.search_batch
    monkeypatch.setattr(
        Translator,
        "search_batch",
        lambda self, some, *rest: searched.append(len(some)) or plain(self, some, *rest),
    )
    return searched


JOINT = [
    # each two values of these three occur together
    {"norm": "pre", "activation": "relu", "tie_embeddings": True},
    {"norm": "pre", "activation": "gelu", "tie_embeddings": False},
    {"norm": "post", "activation": "relu", "tie_embeddings": False},
    {"norm": "post", "activation": "gelu", "tie_embeddings": True},
    {"positions": "learned", "encoder_layers": 1, "decoder_layers": 2, "num_heads": 2},
]
SEPARATE = [{"tie_embeddings": True}, {"norm": "post", "positions": "rotary"}]
FAST = (JOINT[0], SEPARATE[-1])
# one joint vocabulary, or two
CASES = [*((each, True) for each in JOINT), *((each, False) for each in SEPARATE)]


@needs_ctranslate2
@pytest.mark.parametrize(
    ("options", "joint"),
    [pytest.param(*each, marks=[pytest.mark.slow] * (each[0] not in FAST)) for each in CASES],
)
def test_both_engines_translate_the_same(options, joint, vocabularies, tmp_path, monkeypatch):
    plain, config = translator(vocabularies, joint, **options)
    faster = export(plain, config, tmp_path / "export")
    sentences = some(plain.tokenizers.source.size, 0)
    for beam, alpha in ((1, 1.0), (5, 0.0), (3, 0.6)):
        decode = replace(plain.decode, beam=beam, length_penalty=alpha)
        wanted = plain.with_options(decode=decode).search(sentences)
        searched = count_own_searches(monkeypatch)
        assert_same(faster.with_options(decode=decode).search(sentences), wanted)
        monkeypatch.undo()
        assert sum(searched) < len(sentences) / 2, "our own search has translated most of it"
        assert len({tuple(best[0].ids) for best in wanted}) > len(sentences) / 2
        assert len({len(best[0].ids) for best in wanted}) > 3


def test_a_sentence_is_searched_again_only_where_its_best_hypothesis_is_wrong(vocabularies):
    """A lower one that our search would not write is left out."""
    plain, _ = translator(vocabularies, True)
    same = {each.name: getattr(plain, each.name) for each in fields(Translator)}
    faster = CTranslate2Translator(**same)
    source = [10, 11, 12]
    good = [20, 21, 22, EOS]
    short = [23, 24, EOS]
    # a loop, no end, too long
    wrong = [[20, 21] * 3 + [EOS], [20, 21], [20, PAD, EOS], [*range(20, 30), EOS]]

    def complete(*hypotheses: list[int]) -> list[Hypothesis] | None:
        pieces = [plain.tokenizers.target.pieces(ids) for ids in hypotheses]
        scores = [-float(rank) for rank in range(len(pieces))]
        return faster.complete_hypotheses(
            SimpleNamespace(hypotheses=pieces, scores=scores), source, 8
        )

    for each in wrong:
        assert complete(each, good) is None
        assert complete(good, each, short) == [
            Hypothesis(good[:-1], 0.0),
            Hypothesis(short[:-1], -2.0),
        ]


@needs_ctranslate2
def test_a_hypothesis_without_end_is_ended_at_its_limit(vocabularies, tmp_path, monkeypatch):
    """CTranslate2 would return it without </s>; our own search forces it, and is used."""
    plain, config = translator(vocabularies, tie_embeddings=False)
    plain.model.output.weight[EOS, 0] = -99
    plain = plain.with_options(
        decode=replace(plain.decode, max_length_ratio=0.5, max_length_extra=1)
    )
    faster = export(plain, config, tmp_path / "export")
    sentences = some(plain.tokenizers.source.size, 0)
    wanted = plain.search(sentences)
    searched = count_own_searches(monkeypatch)
    results = faster.search(sentences)
    assert_same(results, wanted)
    assert sum(searched) == len(sentences)
    assert [len(best[0].ids) for best in results] == [len(ids) // 2 + 1 for ids in sentences]


@pytest.mark.slow
@needs_ctranslate2
def test_several_threads_translate_the_same_in_order(vocabularies, tmp_path, monkeypatch):
    """Each has a batch of its own; what never ends is left to our own search, which runs alone."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    plain, config = translator(vocabularies, tie_embeddings=False)
    plain = plain.with_options(
        decode=replace(plain.decode, batch_tokens=40, max_length_ratio=0.9, max_length_extra=1)
    )
    faster = export(plain, config, tmp_path / "export")
    assert faster.threads == 3
    sentences = some(plain.tokenizers.source.size, 0, 60)
    wanted = plain.search(sentences)
    searched = count_own_searches(monkeypatch)
    assert_same(faster.search(sentences), wanted)
    assert 0 < sum(searched) < len(sentences)


@pytest.mark.slow
@needs_ctranslate2
@pytest.mark.parametrize("beam", [1, 4])
def test_padding_and_start_are_never_in_a_translation(beam, vocabularies, tmp_path):
    plain, config = translator(vocabularies, tie_embeddings=False)
    plain.model.output.weight[[PAD, BOS], 0] = 99  # now they are what it wants to write
    plain = plain.with_options(decode=replace(plain.decode, beam=beam))
    faster = export(plain, config, tmp_path / "export")
    sentences = some(plain.tokenizers.source.size, 0)
    assert {"<pad>", "<s>"} & set(faster.run_engine(sentences[:1], 9)[0].hypotheses[0])
    results = faster.search(sentences)
    assert_same(results, plain.search(sentences))
    assert not any({PAD, BOS} & set(hypothesis.ids) for best in results for hypothesis in best)


@needs_ctranslate2
def test_int8_is_another_model_and_nearly_the_same(vocabularies, tmp_path):
    plain, config = translator(vocabularies)
    before = {name: tensor.clone() for name, tensor in plain.model.state_dict().items()}
    faster = export(plain, config, tmp_path / "int8", "int8")
    full = export(plain, config, tmp_path / "float32")
    assert all(
        torch.equal(tensor, before[name]) for name, tensor in plain.model.state_dict().items()
    )
    sentences = some(plain.tokenizers.source.size, 0)
    results = faster.search(sentences)
    wanted = full.search(sentences)
    equal = [
        quantized[0].ids == exact[0].ids for quantized, exact in zip(results, wanted, strict=True)
    ]
    assert sum(equal) > len(sentences) / 2
    assert [best[0].score for best in results] != [best[0].score for best in wanted]
    sizes = [(tmp_path / name / "model.bin").stat().st_size for name in ("int8", "float32")]
    assert sizes[0] < sizes[1] / 2


def test_models_that_cannot_be_exported_are_refused(small_model):
    """Every file of conf/model either passes or is refused by a sentence that names those that
    pass."""
    able = set(re.findall(r"transformer\w*", EXPORTABLE))
    for name in MODELS:
        expected = (
            contextlib.nullcontext()
            if name in able
            else pytest.raises(UserError, match="cannot be exported")
        )
        with expected:
            check_exportable(small_config(name, ()), small_model(name) if name in able else None)


@pytest.fixture
def nmt(trained: Trained, tmp_path, capfd):
    """nmt(VERB, WORD …) with a copy of the trained run, since an export is written into its
    folder."""
    folder = tmp_path / "runs" / "tiny"
    (folder / "evaluate" / "test").mkdir(parents=True)
    for name in ("best.safetensors", "evaluate/test/result.json"):
        shutil.copy(trained.folder / name, folder / name)
    return lambda verb, *words: run_command(
        capfd, verb, "tiny", "--runs", str(tmp_path / "runs"), *words
    )


def test_without_the_extra_there_is_one_sentence(nmt, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    for words in (
        ["export", "--format", "ctranslate2"],
        ["translate", "--engine", "ctranslate2", SENTENCE],
    ):
        answer = nmt(*words)
        assert answer.code == 2 and answer.out == ""
        assert "pip install" in answer.err and answer.err.count("\n") == 1
    assert nmt("translate", SENTENCE).code == 0


@pytest.mark.slow
@needs_ctranslate2
def test_translate_prints_the_same_with_both_engines(nmt, tmp_path):
    """Placeholders, long lines and other scripts among them; what loses a placeholder is searched
    by PyTorch again."""
    long = "Der Bäcker kauft einen Apfel. " * 60
    kept = "Am 12.5.2024 malt {name} das Fahrrad um 8:15, max@example.org."
    file = tmp_path / "some.de"
    strange = ["الولد يرسم 🚲.", "▁▁ <s> </s> <pad> <unk>", "Ein Junge\u2028malt."]
    file.write_text(
        "\n".join([kept, SENTENCE, "", long, "   ", OTHER, *strange]) + "\n", encoding="utf-8"
    )
    for words in ([], ["--prefix", "The 12"], ["--nbest", "3", "--beam", "4", "--format", "jsonl"]):
        own, exported = (
            nmt("translate", "--input", str(file), *words, *more)
            for more in ([], ["--engine", "ctranslate2"])
        )
        assert exported.code == 0 and "parts" in exported.err
        if "jsonl" not in words:
            assert exported.out == own.out
            first, *_ = exported.out.split("\n")
            assert all(
                first.count(item) == 1
                for item in ("12.5.2024", "{name}", "8:15", "max@example.org")
            )
            continue
        own, exported = (
            [json.loads(line) for line in answer.out.splitlines()] for answer in (own, exported)
        )
        for ours, theirs in zip(own, exported, strict=True):
            assert ours["text"] == theirs["text"] and len(ours.get("nbest", [])) == len(
                theirs.get("nbest", [])
            )
            assert theirs["score"] == pytest.approx(ours["score"], abs=2e-3)
            assert ours.get("alignment") == theirs.get("alignment")


@needs_ctranslate2
def test_an_export_is_written_once_with_its_provenance(nmt, tmp_path):
    first = nmt("translate", "--engine", "ctranslate2", SENTENCE)
    assert "Exported to" in first.err
    again = nmt("translate", "--engine", "ctranslate2", SENTENCE)
    written = nmt("export", "--format", "ctranslate2")
    assert again.out == first.out and "Exported" not in again.err + written.err
    folder = Path(written.out.strip())
    assert list(folder.parent.iterdir()) == [folder] and folder.name.startswith(
        "ctranslate2-float32-"
    )
    assert (
        "ctranslate2-int8-"
        in nmt("export", "--format", "ctranslate2", "--quantization", "int8").out
    )
    provenance = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
    stored = json.loads(
        (tmp_path / "runs" / "tiny" / "evaluate" / "test" / "result.json").read_text()
    )
    assert provenance["scores"]["test"]["bleu"] == stored["bleu"]
    assert provenance["run"]["checkpoint"] == "tiny/best.safetensors"
    assert {"nmt", "torch", "ctranslate2"} <= provenance["made_with"].keys()
    result = tmp_path / "runs" / "tiny" / "evaluate" / "test" / "result.json"
    write_json(result, read_json(result) | {"bleu": 12.34})
    assert "Exported" not in nmt("translate", "--engine", "ctranslate2", SENTENCE).err
    assert nmt("export", "--format", "ctranslate2").out == written.out, (
        "in the same folder, with the new score"
    )
    assert json.loads((folder / "provenance.json").read_text())["scores"]["test"]["bleu"] == 12.34
    (folder / "model.bin").write_bytes((folder / "model.bin").read_bytes()[:1000])
    answer = nmt("translate", "--engine", "ctranslate2", SENTENCE)
    assert answer.code == 2 and "model.bin is damaged" in answer.err and answer.err.count("\n") == 1


@needs_ctranslate2
def test_the_folder_translates_without_nmt(nmt, tmp_path):
    """The code of its README, run in the folder: the translation of a search that does not avoid
    loops."""
    folder = tmp_path / "carried"
    assert nmt("export", "--format", "ctranslate2", "--output", str(folder)).out == f"{folder}\n"
    readme = (folder / "README.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", readme, re.DOTALL)
    command = [sys.executable, "-c", f"import sys\nsys.modules['nmt'] = None\n{code[1]}"]
    completed = subprocess.run(
        command,
        cwd=folder,
        input=OTHER.encode(),
        capture_output=True,
        env=environment(),
        timeout=60,
    )
    assert completed.returncode == 0, completed.stderr
    run = runs.load([tmp_path / "runs" / "tiny" / "best.safetensors"])
    base = run.translator.with_options(decode=replace(run.translator.decode, avoid_loops=False))
    [translation] = CTranslate2Translator.open(base, folder).translate([OTHER])
    assert completed.stdout.decode().strip() == translation.text
    assert nmt("export", "--format", "ctranslate2", "--output", str(folder)).code == 2


def test_options_that_do_not_go_together_are_refused(refused, trained: Trained):
    for words, said in (
        ("export", "--format"),
        ("export --format onyx", "onyx"),
        ("export --format hf --quantization int8", "--quantization float32"),
        ("export --format onnx --quantization bfloat16", "--quantization float32, int8"),
        ("export --format ctranslate2 --push a/b", "--push"),
        ("export --format hf --push ../x", "OWNER/NAME"),
        ("export --format onnx --license mit", "--license"),
        ("export --format argos --license a=b", "--license"),
        ("export --format argos --output x.argosmodel", "--output"),
        ("export --format onnx --onnxruntime-web x.tgz", "--onnxruntime-web"),
        ("translate --engine torch --quantization int8 Ja.", "--engine ctranslate2"),
    ):
        verb, *options = words.split()
        assert said in refused(verb, str(trained.folder), *options), words


def test_every_format_has_its_class_and_its_row_in_the_guide():
    guide = (Path(__file__).parents[1] / "docs/guides/export.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \|.*\|(?: `\.\[([\w,]+)\]`)? \|$", guide, re.MULTILINE)
    assert dict(rows) == {name: format.extras for name, format in FORMATS.items()}
    for name, format in FORMATS.items():
        exporter = format.load()
        assert exporter.format == name
        assert {option.field for option in format.options} <= {one.name for one in fields(exporter)}

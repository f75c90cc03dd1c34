"""nmt export of imported models: the same folder of transformers again, and the formats of other
engines."""

import json
import re
import shutil
import warnings
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from corpora import logger_restored, pairs, write_pairs
from exporting import program
from safetensors.torch import load_file, save_file
from test_pretrained import (
    MODELS,
    both_logits,
    folders,
    import_run,
    open_theirs,
    tag_of,
    train_further,
)

import nmt
from nmt import cli
from nmt.convert.pretrained.model import OUR_TABLES, their_weights
from nmt.data.tokenizer import BOS
from nmt.errors import UserError
from nmt.training import checkpoint

transformers = pytest.importorskip(
    "transformers", reason="transformers is not installed; `make test` brings it"
)
assert folders  # a fixture
CARD = """---
license: cc-by-4.0
language: de
---
license: of the text
"""
LIMIT = 12
QUICK = ["train.batch_tokens=256", "train.log_sentences=0", "optim.lr=0.02"]
QUICK += ["decode.max_length_ratio=0", f"decode.max_length_extra={LIMIT}"]


@pytest.fixture(scope="module")
def runs(folders: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of the runs `parent`, which is imported, and `child`, trained by a rate that
    changes every weight; with RUN.hf, their exports for transformers."""

    @cache
    def make(name: str) -> Path:
        root = tmp_path_factory.mktemp(name)
        _, source, _, target = MODELS[name]
        (folders / name / "README.md").write_text(CARD, encoding="utf-8")
        import_run(folders / name, root, "parent", MODELS[name])
        write_pairs(root, "text", pairs(60))
        for language, code in (("de", source), ("en", target)):
            (root / f"text.{language}").rename(root / f"text.{code}")
        data = [f"data.source={source}", f"data.target={target}", *QUICK]
        with logger_restored():
            train_further(root, "parent", *data)
        for run in ("parent", "child"):
            assert export(root, run, "hf", root / f"{run}.hf") == 0
        return root

    return make


def export(root: Path, run: str, format: str, output: Path, *options: str) -> int:
    words = ["export", run, "--runs", str(root), "--format", format, "--output", str(output)]
    return cli.main([*words, *options])


@pytest.mark.parametrize("name", MODELS)
def test_a_run_becomes_the_folder_that_it_was(name, folders, runs):
    """Before training byte by byte and bit by bit; after it with the logits of ours."""
    before = runs(name) / "parent.hf"
    original = folders / name
    kept = {path.name for path in original.iterdir()} - {"model.safetensors", "README.md"}
    own = {"README.md", "provenance.json", "manifest.json"}
    assert {path.name for path in before.iterdir()} == {*kept, *own, "model.safetensors"}
    assert all((before / file).read_bytes() == (original / file).read_bytes() for file in kept)
    was = load_file(original / "model.safetensors")
    now = load_file(before / "model.safetensors")
    assert was.keys() == now.keys() and all(torch.equal(was[each], now[each]) for each in was)

    run = nmt.load("child", run_folder=runs(name), precision="fp32")
    child = run.translator
    assert run.provenance["models"][0]["parent"]["checkpoint"] == "parent/best.safetensors"
    model, theirs = open_theirs(runs(name) / "child.hf", MODELS[name])
    old, old_tokenizer = open_theirs(original, MODELS[name])
    assert type(model) is type(old) and type(theirs) is type(old_tokenizer)
    start = model.config.decoder_start_token_id
    assert start == model.generation_config.decoder_start_token_id
    assert (start != old.config.decoder_start_token_id) == (name in ("m2m100", "nllb"))
    pair = pairs(60)[7]
    ours, logits = both_logits(child, model, theirs, pair, tag_of(name))
    torch.testing.assert_close(ours, logits, atol=1e-4, rtol=0)
    _, changed = both_logits(child, old, old_tokenizer, pair, tag_of(name))
    assert (changed - logits).abs().max() > 0.1


@pytest.mark.parametrize("name", ["joint", "m2m100"])
def test_the_card_tells_where_a_model_comes_from_and_its_example_runs(
    name, folders, runs, monkeypatch, capsys
):
    cards = {
        run: (runs(name) / f"{run}.hf" / "README.md").read_text(encoding="utf-8")
        for run in ("parent", "child")
    }
    config = json.loads((folders / name / "config.json").read_text())
    for card in cards.values():
        assert f" {config['max_position_embeddings'] - 1} pieces" in card
        assert "\nlicense: cc-by-4.0\n" in card
        assert f"imported from {folders / name}; licence: cc-by-4.0" in card
    of_owner = "then on the text of its owner"
    assert of_owner in cards["child"] and of_owner not in cards["parent"]
    (code,) = re.findall(r"```python\n(.*?)```", cards["child"], re.DOTALL)
    assert ('src_lang="de"' in code and '"__en__"' in code) == (name == "m2m100")
    monkeypatch.chdir(runs(name) / "child.hf")
    capsys.readouterr()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(code.replace("**batch", f"**batch, max_new_tokens={LIMIT}"), {})  # our own template
    assert capsys.readouterr().out.startswith("['")


def test_half_precision_is_kept_as_long_as_it_holds(folders, tmp_path):
    """Old checkpoints too: every tied tensor is stored, and the tables of positions."""
    source = tmp_path / "half"
    shutil.copytree(folders / "joint", source)
    stored = load_file(source / "model.safetensors")
    weights = {name: tensor.half() for name, tensor in stored.items()}
    for name in ("model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head"):
        weights[f"{name}.weight"] = weights["model.shared.weight"].clone()
    # none is computed in the same bits
    weights["model.encoder.embed_positions.weight"] = torch.randn(8, 16).half()
    save_file(weights, source / "model.safetensors")
    import_run(source, tmp_path, "run", MODELS["joint"])
    assert export(tmp_path, "run", "hf", tmp_path / "hf") == 0
    found = load_file(tmp_path / "hf" / "model.safetensors")
    assert found.keys() == weights.keys()
    assert {tensor.dtype for tensor in found.values()} == {torch.float16}
    assert all(torch.equal(found[name], weights[name]) for name in weights)

    best = tmp_path / "run" / "best.safetensors"
    payload = checkpoint.load(best)
    payload["model"]["target_embedding.weight"][9] += 1e-6
    checkpoint.save(best, payload)
    assert export(tmp_path, "run", "hf", tmp_path / "more") == 0
    config = json.loads((tmp_path / "more" / "config.json").read_text(encoding="utf-8"))
    found = load_file(tmp_path / "more" / "model.safetensors")
    assert config["dtype"] == "float32"
    assert {tensor.dtype for tensor in found.values()} == {torch.float32}


def test_files_of_another_tokenizer_are_refused(folders, runs, tmp_path, refused):
    shutil.copytree(runs("joint") / "parent", tmp_path / "run")
    words = ["export", "run", "--runs", str(tmp_path), "--format", "hf"]
    vocabulary = tmp_path / "run" / "pretrained" / "vocab.json"
    pieces = vocabulary.read_text(encoding="utf-8")
    vocabulary.write_text(pieces.replace('he"', 'eh"'), encoding="utf-8")
    assert "the run has other pieces" in refused(*words)
    vocabulary.unlink()
    vocabulary.symlink_to(folders / "joint" / "vocab.json")
    assert "is a link" in refused(*words)
    shutil.rmtree(vocabulary.parent)
    assert "`pretrained`" in refused(*words)


def test_argos_takes_the_table_of_characters_along(runs, tmp_path):
    """And refuses a model whose sentences begin with a language."""
    pytest.importorskip("onnx", reason="onnx is not installed; `make test` brings it")
    pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed; `make test` brings it")
    import sentencepiece

    root = runs("separate")
    assert export(root, "parent", "argos", tmp_path / "argos") == 0
    with zipfile.ZipFile(tmp_path / "argos/translate-de_en.argosmodel") as package:
        model = package.read("de_en/sentencepiece.model")
        about = json.loads(package.read("de_en/metadata.json"))
    source = nmt.load("parent", run_folder=root).translator.tokenizers.source
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    assert processor.encode("½ ﬁndet Äpfel") == source.encode("½ ﬁndet Äpfel")
    assert about["license"] == "cc-by-4.0"
    assert export(runs("m2m100"), "parent", "argos", tmp_path / "other") == 2


@pytest.mark.parametrize(
    ("name", "target"),
    [("multilingual", "eng+fra"), ("multilingual", "eng"), ("m2m100", "en+fr"), ("separate", "en")],
)
def test_ctranslate2_is_told_the_language_by_the_tag_of_a_line(name, target, folders, tmp_path):
    """The program of the README gives the engine what we do."""
    pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed; `make test` brings it")
    run = import_run(folders / name, tmp_path, "run", ["--source", "de", "--target", target])
    tokenizers = run.translator.tokenizers
    assert export(tmp_path, "run", "ctranslate2", tmp_path / "export") == 0
    given = []

    def translate_batch(batch, target_prefix, **_):
        sides = zip(tokenizers, (*batch, *target_prefix), strict=True)
        given.extend(side.processor.piece_to_id(pieces) for side, pieces in sides)
        return [SimpleNamespace(hypotheses=[["</s>"]])]

    translate = program(tmp_path / "export", "Ein Hund")
    translate.__globals__["engine"] = SimpleNamespace(translate_batch=translate_batch)
    tags = ["", *tokenizers.source.prefixes, *(f"{tag} " for tag in tokenizers.source.prefixes)]
    assert ("+" in target) == any(tag.startswith("<") for tag in tags)
    lines = [f"{tag}Ein Hund" for tag in tags]
    encoded = tokenizers.encode_sources(tokenizers.protect_sources(lines))
    for line, ids in zip(lines, encoded, strict=True):
        given.clear()
        translate(line)
        assert given == [ids, list(ids.begin)], line


@pytest.mark.slow
def test_onnx_of_an_imported_model_translates_without_nmt(runs, tmp_path):
    """The program of the README writes our greedy translations."""
    for package in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(package, reason=f"{package} is not installed; `make test` brings it")
    root = runs("joint")
    folder = tmp_path / "onnx"
    assert export(root, "child", "onnx", folder, "--quantization", "float32") == 0
    lines = [text for text, _ in pairs(20)]
    ours = nmt.load("child", run_folder=root, beam=1, precision="fp32")
    ours.translator.decode.avoid_loops = False
    wanted = [each.text for each in ours.translator.translate(lines)]
    translate = program(folder, lines[0])
    assert [translate(line) for line in lines] == wanted and len(set(wanted)) > 1


SHARED = ["model.shared.weight"]
APART = [
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
    "lm_head.weight",
]


@pytest.mark.parametrize("trained", OUR_TABLES)
def test_what_is_one_table_there_cannot_have_been_trained_apart(trained):
    options = {"norm": "post", "encoder_layers": 0, "decoder_layers": 0, "output_bias": False}
    options |= {"positions": "sinusoidal", "hidden_size": 2}
    order = [3, 2, 0, 1, 5, 4]
    orders = [order, order]
    starts = [order[BOS]] * 2
    ours = {name: torch.arange(12.0).view(6, 2) for name in OUR_TABLES}
    whole = their_weights(ours, options, orders, SHARED, starts)
    assert list(whole) == SHARED and torch.equal(whole[SHARED[0]][order], ours[trained])
    ours[trained] = ours[trained] + 1
    with pytest.raises(UserError, match="model.shared.weight is used twice"):
        their_weights(ours, options, orders, SHARED, starts)
    theirs = their_weights(ours, options, orders, APART, starts)
    for name, table in zip(OUR_TABLES, APART, strict=True):
        assert torch.equal(theirs[table][order], ours[name])

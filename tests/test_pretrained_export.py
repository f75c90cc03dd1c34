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
from typing import Any

import pytest
import torch
from corpora import logger_restored, pairs, run_command, write_pairs
from safetensors.torch import load_file, save_file
from test_pretrained import MODELS, folders

import nmt
from nmt import cli
from nmt.convert.pretrained.m2m100 import KNOWN_LANGUAGES
from nmt.data.tokenizer import BOS, EOS
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
QUICK = [
    "train.max_steps=4",
    "train.validate_every=4",
    "train.log_sentences=0",
    "train.batch_tokens=256",
]
QUICK += ["data.split_size=5", "decode.max_length_ratio=0", f"decode.max_length_extra={LIMIT}"]


@pytest.fixture(scope="module")
def runs(folders: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of the runs `parent`, which is imported, and `child`, trained by a rate that
    changes every weight."""

    @cache
    def make(name: str) -> Path:
        root = tmp_path_factory.mktemp(name)
        options = MODELS[name]
        (folders / name / "README.md").write_text(CARD, encoding="utf-8")
        words = ["import", str(folders / name), "--name", "parent", "--runs", str(root)]
        assert cli.main([*words, *options]) == 0
        write_pairs(root, "text", pairs(60))
        for language, code in zip(("de", "en"), options[1::2], strict=True):
            (root / f"text.{language}").rename(root / f"text.{code}")
        data = [
            "data=files",
            f"data.source={options[1]}",
            f"data.target={options[3]}",
            f"data.train={root / 'text'}",
        ]
        where = [f"run_folder={root}", f"data_folder={root / 'data'}"]
        with logger_restored():
            nmt.train("from=parent", "name=child", *where, *data, *QUICK, "optim.lr=0.02")
        for run in ("parent", "child"):
            words = [
                "export",
                run,
                "--runs",
                str(root),
                "--format",
                "hf",
                "--output",
                str(root / f"{run}.hf"),
            ]
            assert cli.main(words) == 0
        return root

    return make


def open_folder(folder: Path, options: list[str]) -> tuple[Any, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    if hasattr(tokenizer, "src_lang"):
        tokenizer.src_lang, tokenizer.tgt_lang = options[1::2]
    return model, tokenizer


@pytest.mark.parametrize("name", MODELS)
def test_a_run_becomes_the_folder_that_it_was(name, folders, runs):
    """Before training byte by byte and bit by bit; after it with the logits of ours."""
    before = runs(name) / "parent.hf"
    after = runs(name) / "child.hf"
    original = folders / name
    kept = {path.name for path in original.iterdir()} - {"model.safetensors", "README.md"}
    own = {"README.md", "provenance.json", "manifest.json"}
    assert {path.name for path in before.iterdir()} == {*kept, *own, "model.safetensors"}
    assert all((before / file).read_bytes() == (original / file).read_bytes() for file in kept)
    was = load_file(original / "model.safetensors")
    now = load_file(before / "model.safetensors")
    assert was.keys() == now.keys() and all(torch.equal(was[each], now[each]) for each in was)

    child = nmt.load("child", run_folder=runs(name), precision="fp32").translator
    (model, theirs), (old, old_tokenizer) = (
        open_folder(folder, MODELS[name]) for folder in (after, original)
    )
    assert type(model) is type(old) and type(theirs) is type(old_tokenizer)
    text, written = pairs(60)[7]
    batch = theirs(
        (">>eng<< " if name == "multilingual" else "") + text, return_tensors="pt"
    ).input_ids
    labels = theirs(text_target=written, return_tensors="pt").input_ids
    source = child.tokenizers.source.encode(text)
    target = child.tokenizers.target.encode(written)
    hidden = child.model(
        torch.tensor([[*source, EOS]]), None, torch.tensor([[BOS, *target]])
    ).hidden
    start = model.config.decoder_start_token_id
    assert start == model.generation_config.decoder_start_token_id
    assert (start != old.config.decoder_start_token_id) == (name in ("m2m100", "nllb"))
    inputs = torch.cat((torch.tensor([[start]]), labels[:, :-1]), 1)
    with torch.no_grad():
        logits, changed = (
            each(input_ids=batch, decoder_input_ids=inputs).logits for each in (model, old)
        )
    theirs._switch_to_target_mode()
    common = {EOS: theirs.eos_token_id}
    for number, piece in enumerate(child.tokenizers.target.all_pieces):
        there = theirs.convert_tokens_to_ids(piece)
        if number > EOS and there != theirs.unk_token_id:
            common[number] = there
    assert len(common) > 50
    ours = child.model.logits(hidden)[..., list(common)]
    torch.testing.assert_close(ours, logits[..., list(common.values())], atol=1e-4, rtol=0)
    assert (changed - logits).abs().max() > 0.1


@pytest.mark.parametrize("name", ["joint", "m2m100"])
def test_the_card_tells_where_a_model_comes_from_and_its_example_runs(
    name, folders, runs, monkeypatch, capsys
):
    before, after = (
        (runs(name) / f"{run}.hf" / "README.md").read_text(encoding="utf-8")
        for run in ("parent", "child")
    )
    longest = (
        json.loads((folders / name / "config.json").read_text())["max_position_embeddings"] - 1
    )
    for card in (before, after):
        assert f"{longest} pieces of it" in card
        assert (
            "\nlicense: cc-by-4.0\n" in card
            and (f"imported from {folders / name}; licence: cc-by-4.0") in card
        )
    assert "then on the text of its owner" in after and "then on" not in before
    monkeypatch.chdir(runs(name) / "child.hf")
    capsys.readouterr()
    (code,) = re.findall(r"```python\n(.*?)```", after, re.DOTALL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(code.replace("**batch", f"**batch, max_new_tokens={LIMIT}"), {})  # our own template
    assert capsys.readouterr().out.startswith("['")
    assert ('src_lang="de"' in after and '"__en__"' in after) == (name == "m2m100")


def test_half_precision_is_kept_as_long_as_it_holds(folders, tmp_path, capfd):
    """Old checkpoints too: every tied tensor is stored, and the tables of positions."""
    source = tmp_path / "half"
    shutil.copytree(folders / "joint", source)
    weights = {
        name: tensor.half() for name, tensor in load_file(source / "model.safetensors").items()
    }
    tables = ("model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head")
    weights |= {f"{name}.weight": weights["model.shared.weight"].clone() for name in tables}
    # none is computed in the same bits
    weights["model.encoder.embed_positions.weight"] = torch.randn(8, 16).half()
    save_file(weights, source / "model.safetensors")
    words = ["--runs", str(tmp_path)]
    assert (
        run_command(capfd, "import", str(source), "--name", "run", *words, *MODELS["joint"]).code
        == 0
    )
    export = ["export", "run", "--format", "hf", *words, "--output"]
    assert run_command(capfd, *export, str(tmp_path / "hf")).code == 0
    found = load_file(tmp_path / "hf" / "model.safetensors")
    assert found.keys() == weights.keys()
    assert all(
        torch.equal(found[name], weights[name]) and found[name].dtype == torch.float16
        for name in weights
    )

    best = tmp_path / "run" / "best.safetensors"
    payload = checkpoint.load(best)
    payload["model"]["target_embedding.weight"][9] += 1e-6
    checkpoint.save(best, payload)
    assert run_command(capfd, *export, str(tmp_path / "more")).code == 0
    assert (
        json.loads((tmp_path / "more" / "config.json").read_text(encoding="utf-8"))["dtype"]
        == "float32"
    )
    assert {
        tensor.dtype for tensor in load_file(tmp_path / "more" / "model.safetensors").values()
    } == {torch.float32}


def test_files_of_another_tokenizer_are_refused(folders, runs, tmp_path, refused):
    shutil.copytree(runs("joint") / "parent", tmp_path / "run")
    words = ["export", "run", "--runs", str(tmp_path), "--format", "hf"]
    vocabulary = tmp_path / "run" / "pretrained" / "vocab.json"
    vocabulary.write_text(
        vocabulary.read_text(encoding="utf-8").replace('he"', 'eh"'), encoding="utf-8"
    )
    assert "the run has other pieces" in refused(*words)
    vocabulary.unlink()
    vocabulary.symlink_to(folders / "joint" / "vocab.json")
    assert "is a link" in refused(*words)
    shutil.rmtree(vocabulary.parent)
    assert "`pretrained`" in refused(*words)


@pytest.mark.parametrize("name", ["joint", "m2m100"])  # it does not read two vocabularies
def test_ctranslate2_of_the_run_and_of_the_folder_translate_the_same(
    name, folders, runs, tmp_path, capfd
):
    """Its own converter reads the original folder, and that of the run that was trained further.

    But it starts a decoder of Marian from zeros, which a training leaves behind.
    """
    ctranslate2 = pytest.importorskip(
        "ctranslate2", reason="ctranslate2 is not installed; `make test` brings it"
    )

    class Converter(ctranslate2.converters.TransformersConverter):
        def load_tokenizer(self, *arguments: Any, **options: Any) -> Any:
            tokenizer = super().load_tokenizer(*arguments, **options)
            # it looks for the languages where transformers 5 does not have them
            if name == "m2m100":
                ids = range(
                    len(json.loads((folder / "vocab.json").read_text("utf-8")))
                    + len(KNOWN_LANGUAGES["m2m_100"])
                )
                tokenizer.get_vocab = lambda: dict(
                    zip(tokenizer.convert_ids_to_tokens(ids), ids, strict=True)
                )
            return tokenizer

    both = [("parent", folders / name)] + (
        [("child", runs(name) / "child.hf")] if name == "m2m100" else []
    )
    for run, folder in both:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            converted = Converter(str(folder)).convert(str(tmp_path / f"{run}.their"))
        words = ["export", run, "--runs", str(runs(name)), "--output", str(tmp_path / run)]
        assert run_command(capfd, *words, "--format", "ctranslate2").code == 0
        _, tokenizer = open_folder(folder, MODELS[name])
        tokenizers = nmt.load(run, run_folder=runs(name)).translator.tokenizers
        lines = [text for text, _ in pairs(40)]
        forced = ["__en__"] if name == "m2m100" else []
        sources = [tokenizer.convert_ids_to_tokens(tokenizer(line).input_ids) for line in lines]
        ours = [tokenizers.source.pieces(tokenizers.source.encode(line)) for line in lines]
        options = {
            "beam_size": 3,
            "max_decoding_length": LIMIT,
            "target_prefix": [forced] * len(lines),
        }
        options["suppress_sequences"] = [["<pad>"], ["<s>"]] if name == "m2m100" else []
        found = [
            [
                result.hypotheses[0]
                for result in ctranslate2.Translator(str(path)).translate_batch(batch, **options)
            ]
            for path, batch in ((converted, sources), (tmp_path / run, ours))
        ]
        assert found[0] == found[1] and len(set(map(tuple, found[0]))) > 1


def test_argos_takes_the_table_of_characters_along(runs, tmp_path, capfd):
    """And refuses a model whose sentences begin with a language."""
    pytest.importorskip("onnx", reason="onnx is not installed; `make test` brings it")
    pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed; `make test` brings it")
    import sentencepiece

    words = ["export", "parent", "--format", "argos", "--output", str(tmp_path / "argos"), "--runs"]
    answer = run_command(capfd, *words, str(runs("separate")))
    assert answer.code == 0, answer.err
    with zipfile.ZipFile(answer.out.strip()) as package:
        model, about = (
            package.read(f"de_en/{name}") for name in ("sentencepiece.model", "metadata.json")
        )
    source = nmt.load("parent", run_folder=runs("separate")).translator.tokenizers.source
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    assert processor.encode("½ ﬁndet Äpfel") == source.encode("½ ﬁndet Äpfel")
    assert json.loads(about)["license"] == "cc-by-4.0"
    assert run_command(capfd, *words, str(runs("m2m100"))).code == 2


@pytest.mark.slow
def test_onnx_of_an_imported_model_translates_without_nmt(runs, tmp_path, capfd, monkeypatch):
    """The program of the README writes our greedy translations."""
    for package in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(package, reason=f"{package} is not installed; `make test` brings it")
    root = runs("joint")
    folder = tmp_path / "onnx"
    words = [
        "export",
        "child",
        "--runs",
        str(root),
        "--format",
        "onnx",
        "--quantization",
        "float32",
    ]
    answer = run_command(capfd, *words, "--output", str(folder))
    assert answer.code == 0, answer.err
    monkeypatch.chdir(folder)
    code = re.search(r"```python\n(.*?)```", (folder / "README.md").read_text("utf-8"), re.DOTALL)[
        1
    ]
    program: dict[str, Any] = {}
    exec(code.replace("print(translate(input()))", ""), program)
    lines = [text for text, _ in pairs(20)]
    ours = nmt.load("child", run_folder=root, beam=1, precision="fp32")
    ours.translator.decode.avoid_loops = False
    wanted = [each.text for each in ours.translator.translate(lines)]
    assert [program["translate"](line) for line in lines] == wanted and len(set(wanted)) > 1

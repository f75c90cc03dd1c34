"""nmt export of imported models: the same folder of transformers again, and the formats of other engines."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from corpora import pairs, run_command, write_pairs
from safetensors.torch import load_file, save_file
from test_pretrained import MODELS, folders

import nmt
from nmt.data.tokenizer import BOS, EOS

transformers = pytest.importorskip("transformers", reason="transformers is not installed; `make test` brings it")
assert folders  # a fixture
IMPORTED = ("config.json", "generation_config.json", "tokenizer_config.json")


@pytest.fixture
def command(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command with the runs in tmp_path, and return what it prints."""

    def run(*words: str) -> str:
        words = words if words[0] == "train" else (*words, "--runs", str(tmp_path))
        answer = run_command(capfd, *words)
        assert answer.code == 0, answer.err
        return answer.out

    return run


def import_and_train(command: Callable[..., str], source: Path, options: list[str], root: Path) -> None:
    """The runs `parent` and `child`, which is trained by a rate that changes every weight."""
    command("import", str(source), "--name", "parent", *options)
    write_pairs(root, "text", pairs(60))
    for language, code in zip(("de", "en"), options[1::2], strict=True):
        (root / f"text.{language}").rename(root / f"text.{code}")
    command(
        "train", "from=parent", f"run_folder={root}", f"data_folder={root / 'data'}", "data=files",
        f"data.source={options[1]}", f"data.target={options[3]}", f"data.train={root / 'text'}", "data.split_size=5", "train.max_steps=4",
        "train.validate_every=4", "optim.lr=0.02", "name=child",
    )  # fmt: skip


def open_folder(folder: Path, options: list[str]) -> tuple[Any, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    if hasattr(tokenizer, "src_lang"):
        tokenizer.src_lang, tokenizer.tgt_lang = options[1::2]
    return model, tokenizer


@pytest.mark.parametrize("name", MODELS)
def test_a_run_becomes_the_folder_that_it_was(name, folders, command, tmp_path):
    """Before training byte by byte and bit by bit; after it with the logits of ours."""
    options = MODELS[name]
    import_and_train(command, folders / name, options, tmp_path)
    for run in ("parent", "child"):
        command("export", run, "--format", "hf", "--output", str(tmp_path / f"{run}.hf"))
    before, after, original = tmp_path / "parent.hf", tmp_path / "child.hf", folders / name
    kept = [path.name for path in original.iterdir() if path.name != "model.safetensors"]
    own = {"README.md", "provenance.json", "manifest.json"}
    assert {path.name for path in before.iterdir()} == {*kept, *own, "model.safetensors"}
    assert all((before / file).read_bytes() == (original / file).read_bytes() for file in kept)
    was, now = load_file(original / "model.safetensors"), load_file(before / "model.safetensors")
    assert was.keys() == now.keys() and all(torch.equal(was[each], now[each]) for each in was)

    child = nmt.load("child", run_folder=tmp_path, precision="fp32").translator
    (model, theirs), (old, old_tokenizer) = open_folder(after, options), open_folder(original, options)
    assert type(model) is type(old) and type(theirs) is type(old_tokenizer)
    text, written = pairs(60)[7]
    batch = theirs((">>eng<< " if name == "multilingual" else "") + text, return_tensors="pt").input_ids
    labels = theirs(text_target=written, return_tensors="pt").input_ids
    source, target = child.tokenizers.source.encode(text), child.tokenizers.target.encode(written)
    hidden = child.model(torch.tensor([[*source, EOS]]), None, torch.tensor([[BOS, *target]])).hidden
    start = model.generation_config.decoder_start_token_id
    assert start == model.config.decoder_start_token_id
    inputs = torch.cat((torch.tensor([[start]]), labels[:, :-1]), 1)
    with torch.no_grad():
        logits = model(input_ids=batch, decoder_input_ids=inputs).logits
        changed = old(input_ids=batch, decoder_input_ids=inputs).logits
    theirs._switch_to_target_mode()
    pieces = {piece: number for number, piece in enumerate(child.tokenizers.target.all_pieces) if number > EOS}
    common = {number: theirs.convert_tokens_to_ids(piece) for piece, number in pieces.items()} | {EOS: theirs.eos_token_id}
    common = {number: there for number, there in common.items() if there != theirs.unk_token_id}
    assert len(common) > 60
    ours = child.model.logits(hidden)[..., list(common)]
    torch.testing.assert_close(ours, logits[..., list(common.values())], atol=1e-4, rtol=0)
    assert (changed - logits).abs().max() > 0.1

"""nmt train from=RUN: a trained model is trained further on new text, with old text in between."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from corpora import (
    Answer,
    compose_one,
    corpus_of,
    folder_options,
    last_of_each_key,
    pairs,
    run_command,
    write_pairs,
)

from nmt.config.compose import compose_all
from nmt.config.schema import Config, flatten
from nmt.corpus.corpus_folder import read_report
from nmt.corpus.training_plan import OldText
from nmt.errors import UserError
from nmt.evaluate.verdict import Level, read_verdict
from nmt.runs.stages import parent_of
from nmt.training import checkpoint

SMALL = [
    "device=cpu",
    "precision=fp32",
    "train.batch_tokens=256",
    "train.validate_every=5",
    "train.max_steps=12",
    "train.log_sentences=0",
    "train.prune_checkpoints=false",
]


@pytest.fixture
def new_text(tmp_path: Path) -> list[str]:
    """The overrides that choose new text, 96 + 8 + 6 pairs of another style."""
    every = [(german, f"Look, {english}") for german, english in pairs(110, seed=1)]
    sets = {"train": every[:96], "valid": every[96:104], "test": every[104:]}
    for name, part in sets.items():
        write_pairs(tmp_path, name, part)
    return [f"data.{name}={tmp_path / name}" for name in sets]


@pytest.fixture
def child(trained, new_text, tmp_path) -> Callable[..., list[str]]:
    """child(NAME, WORD …) → the command of a training that starts from the small run."""
    given = [f"from={trained.folder}", *new_text, *SMALL, *folder_options(tmp_path)]
    return lambda name, *words: ["train", *last_of_each_key(*given, f"name={name}", *words)]


@pytest.fixture
def tune(child, capfd) -> Callable[..., Answer]:
    return lambda name, *words: run_command(capfd, *child(name, *words))


def weights(path: Path) -> dict[str, torch.Tensor]:
    return checkpoint.load(path)["model"]


@pytest.mark.slow
def test_old_and_new_sets_are_scored_before_and_after(tune, trained, tmp_path):
    answer = tune("tuned")
    assert answer.code == 0, answer.err
    new, old = (line.split("\t") for line in answer.out.splitlines())
    assert (new[0], old[0]) == ("test", "old-test")
    before = trained.lines[0].split("\t")[1]
    difference = re.fullmatch(rf"before {re.escape(before)} \(([+-]\d+\.\d\d)\)", old[4])
    wanted = float(old[1]) - float(before)
    assert difference and float(difference[1]) == pytest.approx(wanted, abs=0.011)
    result = json.loads((tmp_path / "runs/tuned/evaluate/test/result.json").read_text())
    parent = checkpoint.digest(checkpoint.load(trained.folder / "best.safetensors"))
    (model,) = result["provenance"]["models"]
    assert model["parent"] == {"checkpoint": "tiny/best.safetensors", "weights": parent}
    assert model["weights"] != parent
    again = tune("tuned")
    assert (again.code, again.out) == (0, answer.out) and "already trained" in again.err
    assert not list((trained.folder / "evaluate").glob("*before*"))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("new", [1, 1000, 5000])
def test_old_text_has_its_share_whatever_its_size(tmp_path, share, new):
    for language, size in (("de", 300), ("en", 700)):
        (tmp_path / f"train.{language}").write_bytes(bytes(size))
    old = OldText(tmp_path, {"source": "de", "target": "en"}, share)
    taken = 1000 * old.weight(new)
    assert taken / (taken + new) == pytest.approx(share)


@pytest.mark.slow
def test_old_text_has_its_share_in_bytes(tune, tmp_path, trained):
    """Of long new lines; where each old pair comes more than once, a hash says which come once
    more."""
    every = pairs(96, seed=1)
    long = [(" ".join([german] * 3), " ".join([english] * 3)) for german, english in every]
    write_pairs(tmp_path, "train", long)
    assert tune("replay", "train.replay=0.9", "train.max_steps=1").code == 0
    corpus = corpus_of(tmp_path)
    report = read_report(corpus)
    new, _ = report["audit"]["train"]["origins"]
    assert new["lines"] == 96
    sides = [(corpus / f"train.{language}").read_bytes() for language in ("de", "en")]
    old = [side.splitlines(keepends=True)[96:] for side in sides]
    share = sum(map(len, [*old[0], *old[1]])) / sum(map(len, sides))
    assert share == pytest.approx(0.9, abs=0.06)
    source = corpus_of(trained.root) / "train.de"
    assert set(old[0]) <= set(source.read_bytes().splitlines(keepends=True))
    assert report["sets"] == ["test", "old-test"]


@pytest.mark.slow
def test_without_replay_the_corpus_of_the_run_may_be_gone(trained, tune, tmp_path):
    shutil.copytree(trained.folder, tmp_path / "runs" / "base")
    for file in (tmp_path / "runs" / "base").glob("*.safetensors"):
        payload = checkpoint.load(file)
        payload["config"]["data_folder"] = str(tmp_path / "nowhere")
        checkpoint.save(file, payload)
    words = ("alone", "from=base", "train.max_steps=1")
    refused = tune(*words)
    assert refused.code == 2 and "give train.replay=0" in refused.err
    answer = tune(*words, "train.replay=0")
    assert answer.code == 0 and [line[:5] for line in answer.out.splitlines()] == ["test\t"]
    assert "its test sets are not scored again" in answer.err


@pytest.mark.slow
def test_weights_and_pieces_are_those_of_the_run_and_stay_so(
    tune, child, trained, tmp_path, refused
):
    """Of an update that changes nothing; then the run that it started from is another one."""
    shutil.copytree(trained.folder, tmp_path / "runs" / "tiny")
    assert "another name" in refused(*child("tiny", "from=tiny"))
    words = ("still", "from=tiny", "optim.lr=1e-30")
    assert tune(*words).code == 0
    first = tmp_path / "runs/tiny/best.safetensors"
    start, end = (
        checkpoint.load(path) for path in (first, tmp_path / "runs/still/best.safetensors")
    )
    assert start["tokenizers"]["source"].equal(end["tokenizers"]["source"])
    assert start["config"]["model"] == end["config"]["model"]
    assert all(torch.equal(start["model"][name], end["model"][name]) for name in start["model"])
    changed = {name: tensor + 1 for name, tensor in start["model"].items()}
    checkpoint.save(first, start | {"model": changed})
    assert "the weights of from=RUN" in refused(*child(*words))


GIVEN = {
    "decode.beam": 7,
    "decode.length_penalty": 0.5,
    "model.dropout": 0.25,
    "tokenizer.max_pieces": 99,
    "optim.lr": 0.125,
    "train.rehearsal_pieces": 9,
}


@pytest.mark.parametrize("width", [128, 512])
@pytest.mark.parametrize("text", ["old", "imported"])
def test_the_configuration_is_that_of_the_run_but_for_what_is_given(tmp_path, text, width):
    """Model, tokenizer, search and how languages are told; the optimizer's only where the run was
    imported."""
    others = ["decode.beam=3", "decode.length_penalty=0.75", "optim.lr=0.0625"]
    words = ["data=files", "data.source=de", "data.target=en", f"data.train={text}"]
    words += ["model=luong_global", f"model.hidden_size={width}", "data.pair_tags=true"]
    old = compose_one(*words, *others)

    def open_run(run: str, root: Path) -> tuple[Path, Config]:
        return tmp_path / run, old

    def tuned(*more: str) -> dict[str, object]:
        given = [f"run_folder={tmp_path}", "from=old", "data.train=new", *more]
        [config] = compose_all(given, open_run=open_run)
        return flatten(config)

    before = flatten(old)
    plain = tuned()
    for key, value in plain.items():
        if key.startswith(("model.", "tokenizer.", "decode.", "data.pair_tags")):
            assert value == before[key], key
    by_width = 0.512 / before["model.hidden_size"]
    assert plain["optim.lr"] == (before["optim.lr"] if text == "imported" else min(2e-3, by_width))
    assert tuned(*(f"{key}={value}" for key, value in GIVEN.items())) == plain | GIVEN


@pytest.mark.parametrize(
    ("checkpoint", "name"),
    [
        ("runs/base/best.safetensors", "base-tuned"),
        ("runs/base/versions/2/best.safetensors", "base-tuned"),
        ("elsewhere/other/last.safetensors", "other-tuned"),
    ],
)
def test_a_new_run_has_the_name_of_the_one_it_starts_from(checkpoint, name, tmp_path, monkeypatch):
    """Of the run itself where that is a version of it, whose place no new run may take."""
    path = tmp_path / checkpoint
    old = compose_one("data=files", "data.source=de", "data.target=en", "data.train=x")
    words = [f"run_folder={tmp_path / 'runs'}", "from=base", "data.train=new"]
    monkeypatch.setattr("nmt.runs.stages.find_parent", lambda run, root: path)
    monkeypatch.setattr("nmt.runs.stages.load_config", lambda path: old)
    [new] = compose_all(words, open_run=parent_of)
    assert new.name == name
    given = [*words, "name=base"]
    if path.is_relative_to(tmp_path / "runs"):
        with pytest.raises(UserError, match="another name"):
            compose_all(given, open_run=parent_of)


@pytest.mark.parametrize(
    "words, message",
    [
        (["model.hidden_size=64"], "model.hidden_size is 32 in that run, not 64"),
        (["model=luong_global"], "model cannot be given"),
        (["data.source=en", "data.target=de"], "from de to en"),
        (["from=nothing"], "not a run"),
        (["data.test=[ROOT/test,ROOT/old-test]"], "'old-test'"),
    ],
)
def test_what_cannot_fit_is_refused(child, tmp_path, refused, words, message):
    write_pairs(tmp_path, "old-test", pairs(3))
    words = [word.replace("ROOT", str(tmp_path)) for word in words]
    assert message in refused(*child("other", *words))
    assert not (tmp_path / "runs" / "other").exists()


@pytest.mark.slow
def test_of_few_new_pairs_all_are_trained_on(tune, trained, tmp_path):
    """Nothing is held out of thirty pairs; the old validation set validates, and before and after
    stand at the end."""
    few = [(german, f"Look, {english}") for german, english in pairs(30, seed=2)]
    write_pairs(tmp_path, "few", few)
    answer = tune("few", f"data.train={tmp_path / 'few'}", "data.valid=split", "data.test=split")
    assert answer.code == 0, answer.err
    report = read_report(corpus_of(tmp_path))
    new, _ = report["audit"]["train"]["origins"]
    assert new["lines"] == 30 and report["sets"] == ["learnt", "old-test"]
    old = corpus_of(trained.root)
    assert (corpus_of(tmp_path) / "valid.de").read_bytes() == (old / "valid.de").read_bytes()
    lines = [line.split("\t") for line in answer.out.splitlines()]
    assert [line[0] for line in lines] == ["learnt", "old-test"]
    assert all("before" in "".join(line) for line in lines)
    assert read_verdict(tmp_path / "runs" / "few").level is Level.UNMEASURED

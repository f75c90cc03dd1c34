"""Mistakes of a user: each ends in one sentence with what is wrong and what is possible, and exit
code 2."""

import io
import os
import pickle
import shutil
from pathlib import Path

import pytest
import torch
from corpora import Trained, run_command, small

from nmt.corpus import multi30k
from nmt.data.tokenizer import Tokenizers
from nmt.training import checkpoint

SENTENCE = "Ein Junge malt das rote Fahrrad."


CONFIGURATION = [  # the words, and what the sentence must contain
    ("+optim.lrr=1", "'optim.lrr'|optim.lr"),
    ("modle=transformer", "modle|model"),
    ("-m model=seq2seq,luong_gobal", "did you mean luong_global?|bahdanau"),
    ("experiment=mine", "experiment"),
    ("model=luong_global model.score=cosin", "model.score=cosin|general|additive"),
    ("train.max_steps=1.5", "train.max_steps|1.5"),
    ("optim.lr=nan", "optim.lr=nan"),
    ("optim.betas=[0.9", "KEY=VALUE"),
    ("mine.de", "neither a file that is there"),
    ("train.max_epochs=null train.max_minutes=null", "train.max_steps|train.max_minutes"),
    ("run_folder=", "run_folder|empty"),
    (f"data_folder={__file__}", "is a file"),
    ("seed=1,2", "'seed=1,2'|-m"),
    ("name=..", "'..'"),
    ("name=latest", "'latest'"),
    ("name=${x}", "'x'"),
    ("data=null", "null|data"),
    ("data=files data.source=de data.target=en data.valid=a data.test=a", "data.train"),
    ("data.source=fr", "no fr-en|de and en"),
    ("hydra.verbose=true", "hydra.verbose=true"),
    ("--steps 5", "--steps"),
    ("decode.beam=100000", "decode.beam"),
    ("device=meta", "device"),
    ("data.source=../../etc/passwd", "data.source"),
    ("data.source=${oc.env:HOME}", "data.source"),
    ("data.source=\ud800", "data.source"),  # of bytes that are not UTF-8
]


def test_a_configuration(refused, tmp_path, monkeypatch):
    """Before anything is downloaded or built."""
    monkeypatch.setattr(
        multi30k, "download_sets", lambda *_: pytest.fail("it has begun to download")
    )
    given = [f"data_folder={tmp_path / 'data'}", f"run_folder={tmp_path / 'runs'}"]
    for words, fragments in CONFIGURATION:
        message = refused("train", *given, *words.split())
        assert all(fragment in message for fragment in fragments.split("|")), (words, message)
    assert not (tmp_path / "data").exists()


# The words of a command, in which "tiny" is a trained run and S a sentence → what the message has
# to say.
COMMANDS = {
    "translate": "RUN",
    "translate other S": "tiny",
    "translate tiny S --beam": "--beam",
    "translate tiny S --beam 1001": "1000",
    "evaluate tiny --beam 1001": "1000",
    "translate tiny S --samples 10001": "10000",
    "translate tiny --beam 2 --beam=3 S": "twice",
    "translate tiny --nbest 9 S": "--beam 9",
    "translate tiny --input x S": "--input",
    "translate tiny --input /": "directory",
    f"translate tiny --input {300 * 'a'}": "too long",
    "translate tiny --output /dev/full S": "No space left",
    "translate tiny --output= S": "empty",
    "translate tiny --output - S": "stdout",
    "translate tiny --output=- S": "stdout",
    "translate tiny --output a.en.gz S": "packed",
    "score tiny --output a.en.xz S S": "packed",
    "translate tiny --glossary /none/such S": "cannot be read",
    "translate tiny M\udcfcller": "UTF-8",
    "translate tiny --layer 0 S": "--format=jsonl",
    "translate tiny --min-chrf 101 S": "at most 100",
    "translate tiny --copy-doubtful --min-chrf 50 --nbest 2 S": "--nbest",
    "translate tiny --prefix A --glossary terms.tsv S": "--glossary",
    "evaluate tiny --source x": "--reference",
    "evaluate tiny --split tset": "valid",
    "corrections bogus x": "no action 'bogus'",
    "align tiny": "--source",
    "align tiny S --layer -3": "0 to 1",
    "align tiny S --layer 0,": "not a layer",
    "align tiny S --method rollout --layer 0": "leave out",
    "align tiny S --heads": "--png",
    "align tiny S --png /none/a.png": "No such file",
    "align tiny S --pharaoh --threshold nan": "at most 1",
    "align tiny S --format jsonl --pharaoh": "--format=jsonl",
}


def test_a_command(refused, trained: Trained, monkeypatch):
    monkeypatch.chdir(trained.root)
    for command, said in COMMANDS.items():
        message = refused(*(SENTENCE if word == "S" else word for word in command.split()))
        assert said in message, (command, message)


def test_a_test_set_that_is_not_sentences(refused, trained: Trained, tmp_path):
    page = tmp_path / "page.html"
    page.write_text("<!doctype html>\n", encoding="utf-8")
    text = tmp_path / "text.en"
    text.write_text("Yes.\n", encoding="utf-8")
    for source, reference in ((page, text), (text, page)):
        words = ["--runs", trained.root / "runs", "--source", source, "--reference", reference]
        assert "page.html is markup" in refused("evaluate", "tiny", *map(str, words))


def test_more_pieces_than_the_text_has_are_as_many_as_it_has(capfd, tmp_path, corpus):
    words = small(tmp_path, corpus, "train.max_steps=1", "tokenizer.vocabulary_size=50000")
    answer = run_command(capfd, "tokenize", *words)
    assert answer.code == 0 and "too little text for 50000 pieces; " in answer.err
    (folder,) = (tmp_path / "data").glob("tokenizer-*")
    learnt = Tokenizers.load(folder).source.size
    assert 300 < learnt < 2000 and f"; {learnt} are learnt." in answer.err


def test_a_folder_that_cannot_be_written(refused, tmp_path, corpus):
    (tmp_path / "file").write_text("")
    (tmp_path / "closed").mkdir(mode=0o555)
    words = small(tmp_path, corpus, "train.max_steps=1", "tokenizer.vocabulary_size=330")
    for obstacle in ("file", "closed") if os.geteuid() else ("file",):  # root may write everywhere
        for key in ("data_folder", "run_folder"):
            assert str(tmp_path / obstacle) in refused(
                "train", *words, f"{key}={tmp_path / obstacle / 'x'}"
            )


def test_no_run_at_all_and_one_that_has_only_begun(refused, tmp_path):
    for name in ("latest", "mine"):
        assert f"no trained run in {tmp_path}" in refused(
            "translate", name, "--runs", str(tmp_path), SENTENCE
        )
    (tmp_path / "young").mkdir()
    (tmp_path / "young" / "config.yaml").write_text("")
    assert ("no best.safetensors yet") in refused(
        "translate", "young", "--runs", str(tmp_path), SENTENCE
    )


class Bomb:
    """A file from elsewhere may contain this: reading it would run a command."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.path),)


def other_files(trained: Trained, exploded: Path) -> dict[str, bytes]:
    """The bytes of files that are no checkpoint, by name."""
    content = (trained.folder / "best.safetensors").read_bytes()

    def saved(value: object) -> bytes:
        file = io.BytesIO()
        torch.save(value, file)
        return file.getvalue()

    return {
        "the first half": content[: len(content) // 2],
        "empty": b"",
        "pickle": pickle.dumps(Bomb(exploded)),
        "zipped pickle": saved({"format": checkpoint.FORMAT, "model": Bomb(exploded)}),
    }


def test_a_file_that_is_no_checkpoint(refused, trained: Trained, tmp_path):
    path = tmp_path / "bad.safetensors"
    exploded = tmp_path / "exploded"
    for case, content in other_files(trained, exploded).items():
        path.write_bytes(content)
        assert "checkpoint" in refused("translate", str(path), SENTENCE), case
        assert not exploded.exists(), "a checkpoint has run code"
    pickle.loads(pickle.dumps(Bomb(exploded)))
    assert exploded.is_dir()  # otherwise this would prove nothing


def test_a_last_checkpoint_that_cannot_be_continued(refused, trained: Trained, tmp_path):
    """It has weights alone."""
    (tmp_path / "tiny").mkdir()
    words = small(trained.root, [], *trained.arguments, f"run_folder={tmp_path}")
    shutil.copy(trained.folder / "best.safetensors", tmp_path / "tiny" / "last.safetensors")
    assert "last.safetensors has no optimizer, train_state" in refused("train", *words)


def test_a_result_that_cannot_be_written(refused, trained: Trained, tmp_path):
    """A file of another program has the name of the folder."""
    (tmp_path / "best.safetensors").write_bytes((trained.folder / "best.safetensors").read_bytes())
    (tmp_path / "evaluate").write_text("")
    assert str(tmp_path / "evaluate") in refused("evaluate", str(tmp_path))


def test_a_model_without_attention(refused, trained: Trained, tmp_path, capfd):
    sizes = ["model.hidden_size=16", "model.embedding_size=16", "model.num_layers=1"]
    sets = [
        word
        for word in trained.arguments
        if word.startswith("data") and not word.startswith("data_folder")
    ]
    words = small(tmp_path, sets, "model=seq2seq", *sizes, "name=blind", "train.max_steps=1")
    assert run_command(capfd, "train", *words).code == 0
    of = ["blind", "--runs", str(tmp_path / "runs"), SENTENCE]
    assert "no attention" in refused("align", *of)
    for words in (["--weights"], ["--layer", "0"]):
        assert "no attention" in refused("translate", *of, "--format", "jsonl", *words)
    assert run_command(capfd, "translate", *of, "--format", "jsonl").code == 0

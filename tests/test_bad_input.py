"""Mistakes of a user: each ends in one sentence with what is wrong and what is possible, and exit code 2."""

import gzip
import io
import os
import pickle
import shutil
import zipfile
from pathlib import Path

import pytest
import torch
from corpora import Trained, run_command, small, write_corpus

from nmt.data import download, multi30k
from nmt.data.tokenizer import Tokenizers
from nmt.training import checkpoint

SENTENCE = "Ein Junge malt das rote Fahrrad."


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder, train=40)
    return folder


CONFIGURATION = {
    "a typo": (["optim.lrr=1"], ["'optim.lrr'", "optim.lr"]),
    "a typo with a plus": (["+optim.lrr=1"], ["'optim.lrr'", "optim.lr"]),
    "a typo in a longer key": (["train.max_stepps=5"], ["'train.max_stepps'", "did you mean train.max_steps"]),
    "a typo in a group": (["modle=transformer"], ["modle", "model"]),
    "a new key": (["+learning.rate=1"], ["'learning"]),
    "a typo in a choice": (["model=luong_gobal"], ["did you mean luong_global?", "bahdanau", "transformer_tiny"]),
    "a group inside a group": (["+foo/bar=baz"], ["foo/bar"]),
    "an unknown recipe": (["experiment=mine"], ["experiment"]),
    "an unknown schedule": (["optim.schedule=x"], ["optim.schedule=x", "inverse_sqrt, cosine, linear, constant"]),
    "an unknown tokenizer": (["tokenizer.algorithm=word"], ["tokenizer.algorithm=word", "unigram, bpe"]),
    "an unknown model": (["model.kind=rnn"], ["'rnn'", "recurrent, transformer"]),
    "an unknown score": (["model=luong_global", "model.score=cosin"], ["model.score=cosin", "general", "additive"]),
    "text for a number": (["optim.lr=abc"], ["optim.lr", "abc"]),
    "a fraction for a whole number": (["train.max_steps=1.5"], ["train.max_steps", "1.5"]),
    "text for a seed": (["seed=x"], ["seed", "'x'"]),
    "nothing for a number": (["optim.lr="], ["optim.lr"]),
    "null for a number": (["optim.lr=null"], ["optim.lr"]),
    "a number for a list": (["optim.betas=1"], ["optim.betas"]),
    "impossible betas": (["optim.betas=[0.9,2]"], ["optim.betas=[0.9, 2.0]", "less than 1"]),
    "a negative seed": (["seed=-1"], ["seed=-1", "at least 0"]),
    "a seed that no generator takes": (
        ["seed=9223372036854775808"],
        ["seed=9223372036854775808", "less than 9223372036854775808"],
    ),
    "no epsilon": (["optim.eps=0"], ["optim.eps=0", "greater than 0"]),
    "negative steps": (["train.max_steps=-5"], ["train.max_steps=-5", "greater than 0"]),
    "negative patience": (["train.patience=-1"], ["train.patience=-1", "at least 0"]),
    "dropout of one": (["model.dropout=1"], ["model.dropout=1", "less than 1"]),
    "not a number": (["optim.lr=nan"], ["optim.lr=nan"]),
    "no equals sign": (["model"], ["model"]),
    "no folder of runs": (["run_folder="], ["run_folder is empty"]),
    "a file for a folder": ([f"data_folder={__file__}"], [f"data_folder={__file__} is a file"]),
    "a broken bracket": (["optim.betas=[0.9"], ["KEY=VALUE"]),
    "several without -m": (["seed=1,2"], ["'seed=1,2'", "-m"]),
    "a typo in one of several": (["-m", "model=seq2seq,luong_gobal"], ["luong_global"]),
    "a slash in the name": (["name=a/b"], ["a/b", "letters"]),
    "a name that leads out": (["name=.."], ["'..'"]),
    "a size that heads do not divide": (
        ["model.hidden_size=100", "model.num_heads=8"],
        ["model.hidden_size=100", "model.num_heads=8"],
    ),
    "Bahdanau with an LSTM": (
        ["model=luong_global", "model.attend=before_step"],
        ["model.attend=before_step", "model.cell=gru"],
    ),
    "an odd bidirectional size": (["model=bahdanau", "model.hidden_size=33"], ["model.hidden_size=33", "even"]),
    "a window without attention": (["model=seq2seq", "model.window=local_m"], ["model.window=local_m", "attend=never"]),
    "feeding without attention": (["model=seq2seq", "model.input_feeding=true"], ["feeding=true", "=never"]),
    "feeding what is fed": (["model=bahdanau", "model.input_feeding=true"], ["=before_step", "feeding=false"]),
    "no end": (["train.max_epochs=null", "train.max_minutes=null"], ["train.max_steps", "train.max_minutes"]),
    "one language": (["data.target=de"], ["'de'", "differ"]),
    "no language": (["data=files", "data.train=a", "data.valid=a", "data.test=a"], ["data.source"]),
    "an unknown language": (["data=multi30k", "data.source=xx"], ["'xx'", "de"]),
    "a language that the phrasebook has not": (["data.source=fr"], ["no fr-en", "de and en"]),
    "compiling columns": (["model=luong_global", "train.compile=true"], ["train.compile=true", "Transformers"]),
    "compiling what is compiled": (["model=transformer_alibi", "train.compile=true"], ["train.compile=true", "flex"]),
    "an unknown device": (["device=gpu"], ["device=gpu", "cpu"]),
    "no group": (["data=null"], ["null", "data"]),
    "a name without a value": (["name=???"], ["name"]),
    "a reference to nothing": (["name=${x}"], ["'x'"]),
    "epochs without end": (["train.max_epochs=inf"], ["train.max_epochs=inf", "finite"]),
    "a penalty that is no number": (["decode.length_penalty=nan"], ["decode.length_penalty=nan", "finite"]),
    "an impossible coverage": (["tokenizer.character_coverage=7"], ["tokenizer.character_coverage=7", "0.98"]),
    "Hydra's own keys": (["hydra.verbose=true"], ["hydra.verbose=true"]),
    "an unknown option": (["--steps", "5"], ["--steps"]),
}  # fmt: skip


@pytest.mark.parametrize(("words", "fragments"), CONFIGURATION.values(), ids=CONFIGURATION)
def test_a_configuration(refused, words, fragments, tmp_path, monkeypatch):
    """Before anything is downloaded or built."""
    monkeypatch.setattr(multi30k, "download_sets", lambda *_: pytest.fail("it has begun to download"))
    given = [f"data_folder={tmp_path / 'data'}", f"run_folder={tmp_path / 'runs'}"]
    message = refused("train", *given, *words)
    for fragment in fragments:
        assert fragment in message
    assert not (tmp_path / "data").exists()


# The words of a command, in which "tiny" is a trained run and S a sentence → what the message has to say.
COMMANDS = {
    "": "COMMAND",
    "trian": "translate",
    "translate": "RUN",
    "translate other S": "tiny",
    "translate tiny --beam 0 S": "above 0",
    "translate tiny --beam wide S": "'wide'",
    "translate tiny S --beam": "--beam",
    "translate tiny --beam 2 --beam 3 S": "twice",
    "evaluate tiny --split test --split=valid": "twice",
    "translate tiny --bream 5 S": "--bream",
    "translate tiny --nbest 9 S": "--beam 9",
    "translate tiny --format xml S": "jsonl",
    "translate tiny --input x S": "--input",
    "translate tiny --input /none/such.de": "/none/such.de",
    "translate tiny --input /": "directory",
    "translate tiny --output /dev/full S": "No space left",
    "translate tiny --output /none/such S": "No such file",
    "translate tiny --output /tmp S": "directory",
    "translate tiny --glossary /none/such S": "cannot be read",
    "translate tiny M\udcfcller": "UTF-8",
    "translate tiny --layer 0 S": "--format jsonl",
    "translate tiny --weights S": "--format jsonl",
    "translate tiny --decoder-step input S": "--format jsonl",
    "translate tiny --format jsonl --layer 2 S": "0 to 1",
    "translate tiny --copy-doubtful S": "--min-confidence",
    "translate tiny --min-confidence 0.5 S": "jsonl",
    "translate tiny --min-confidence 2 S": "at most 1",
    "translate tiny --copy-doubtful --min-confidence 0.5 --nbest 2 S": "--nbest",
    "evaluate tiny --source x": "--reference",
    "evaluate tiny --split tset": "valid",
    "align tiny": "--source",
    "align tiny S --layer 2": "0 to 1",
    "align tiny S --layer -3": "0 to 1",
    "align tiny S --layer 0,": "no layer",
    "align tiny S --head -1": "0 to 1",
    "align tiny S --method rollout --layer 0": "leave out",
    "align tiny S --heads": "--png",
    "align tiny S --heads --head 0 --png x.png": "--head.",
    "align tiny S --heads --format jsonl": "--heads",
    "align tiny S --target x": "--source",
    "align tiny S --png /none/a.png": "No such file",
    "align tiny S --threshold 0.2": "--pharaoh",
    "align tiny S --threshold 0.3 --png x.png": "--threshold",
    "align tiny S --pharaoh --threshold nan": "at most 1",
    "align tiny S --format jsonl --pharaoh": "--pharaoh",
    "align tiny S --reverse": "--gold",
    "align tiny S --links": "--gold",
    "align tiny S --base 1": "--base",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command(refused, trained: Trained, command, monkeypatch):
    monkeypatch.chdir(trained.root)
    words = [SENTENCE if word == "S" else word for word in command.split()]
    assert COMMANDS[command] in refused(*words)


def files(folder: Path) -> list[str]:
    return [f"data.{name}={folder / name}" for name in ("train", "valid", "test")]


def missing(folder: Path) -> list[str]:
    (folder / "train.en").unlink()
    return [str(folder / "train.en"), "PREFIX"]


def same(folder: Path) -> list[str]:
    (folder / "train.en").unlink()
    (folder / "train.en").symlink_to(folder / "train.de")
    return ["train.de", "train.en", "same file"]


def shorter(folder: Path) -> list[str]:
    text = (folder / "train.en").read_bytes().splitlines(keepends=True)
    (folder / "train.en").write_bytes(b"".join(text[:-3]))
    return ["train.de has 40 lines", "train.en has 37 lines"]


def empty(folder: Path) -> list[str]:
    (folder / "valid.de").write_bytes(b"")
    return [str(folder / "valid.de"), "empty"]


def both_empty(folder: Path) -> list[str]:
    for language in ("de", "en"):
        (folder / f"train.{language}").write_bytes(b"")
    return ["train.de", "train.en", "empty"]


def latin(folder: Path) -> list[str]:
    text = (folder / "train.de").read_bytes().split(b"\n")
    text[4] = "Müller".encode("latin-1")
    (folder / "train.de").write_bytes(b"\n".join(text))
    return [f"{folder / 'train.de'}, line 5", "UTF-8"]


def cut_short(folder: Path) -> list[str]:
    packed = gzip.compress((folder / "train.de").read_bytes())
    (folder / "train.de").unlink()
    (folder / "train.de.gz").write_bytes(packed[:-20])
    return [str(folder / "train.de.gz"), "cut short"]


def nothing_left(folder: Path) -> list[str]:
    (folder / "train.en").write_bytes(b"\n" * 40)
    return ["No training pair is left of 40"]


@pytest.mark.parametrize("damage", [missing, same, shorter, empty, both_empty, latin, cut_short, nothing_left])
def test_a_corpus(refused, damage, tmp_path):
    words = small(tmp_path, write_corpus(tmp_path / "corpus", train=40), "train.max_steps=1")
    fragments = damage(tmp_path / "corpus")
    message = refused("train", *words)
    for fragment in fragments:
        assert fragment in message
    assert not list((tmp_path / "data").glob("*corpus-*")), "half a corpus was left behind"


def test_no_corpus(refused, tmp_path):
    words = small(
        tmp_path, ["data=files", "data.source=de", "data.target=en", "data.valid=a", "data.test=a"], "train.max_steps=1"
    )
    assert "data.train" in refused("train", *words)


def test_no_network(refused, tmp_path, monkeypatch):
    """The hub is down and so are the plain files: the sentence names what is possible without them."""

    def down(*_: object, **__: object) -> None:
        raise OSError("Network is unreachable")

    monkeypatch.setattr(download, "WAITS", (0, None))
    monkeypatch.setattr("urllib.request.urlopen", down)
    message = refused("train", "data=multi30k", f"data_folder={tmp_path / 'data'}", f"run_folder={tmp_path / 'runs'}")
    for fragment in ("cannot be downloaded", "Network is unreachable", "HF_ENDPOINT", "data=files"):
        assert fragment in message


def test_more_pieces_than_the_text_has_are_as_many_as_it_has(capfd, tmp_path, corpus):
    words = small(tmp_path, ["data=files", "data.source=de", "data.target=en", *files(corpus)])
    answer = run_command(capfd, "tokenize", *words, "train.max_steps=1", "tokenizer.vocabulary_size=50000")
    assert answer.code == 0 and "too little text for 50000 pieces; " in answer.err
    (folder,) = (tmp_path / "data").glob("tokenizer-*")
    learnt = Tokenizers.load(folder).source.size
    assert 300 < learnt < 2000 and f"; {learnt} are learnt." in answer.err


def test_too_few_pieces_names_the_least(refused, tmp_path, corpus):
    words = small(
        tmp_path,
        ["data=files", "data.source=de", "data.target=en", *files(corpus)],
        "tokenizer.vocabulary_size=270",
        "train.max_steps=1",
    )
    message = refused("tokenize", *words)
    assert "tokenizer.vocabulary_size=270" in message and "give at least " in message


@pytest.mark.parametrize("key", ["data_folder", "run_folder"])
@pytest.mark.parametrize("obstacle", ["below a file", "read-only"])
def test_a_folder_that_cannot_be_written(refused, key, obstacle, tmp_path, corpus):
    closed = tmp_path / "closed"
    if obstacle == "read-only":
        if os.geteuid() == 0:
            pytest.skip("root may write everywhere")
        closed.mkdir(mode=0o555)
    else:
        closed.write_text("")
    words = small(
        tmp_path,
        ["data=files", "data.source=de", "data.target=en", *files(corpus)],
        "train.max_steps=1",
        "tokenizer.vocabulary_size=330",
    )
    message = refused("train", *words, f"{key}={closed / 'x'}")
    assert str(closed) in message


def test_no_run_at_all(refused, tmp_path):
    for name in ("latest", "mine"):
        message = refused("translate", name, "--runs", str(tmp_path), SENTENCE)
        assert f"no trained run in {tmp_path}" in message


def test_a_run_that_has_only_begun(refused, tmp_path):
    (tmp_path / "young").mkdir()
    (tmp_path / "young" / "config.yaml").write_text("")
    assert "no best.safetensors yet" in refused("translate", "young", "--runs", str(tmp_path), SENTENCE)


class Bomb:
    """A file from elsewhere may contain this: reading it would run a command."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.path),)


def other_files(trained: Trained, folder: Path) -> dict[str, bytes]:
    """The bytes of files that are no checkpoint, by name."""
    content = (trained.folder / "best.safetensors").read_bytes()
    packed, bomb, zipped_bomb, foreign, partial = (io.BytesIO() for _ in range(5))
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("readme.txt", "hello")
    pickle.dump(Bomb(folder / "exploded"), bomb)
    torch.save({"format": checkpoint.FORMAT, "model": Bomb(folder / "exploded")}, zipped_bomb)
    torch.save({"state_dict": {"weight": torch.zeros(3)}}, foreign)
    torch.save({"format": checkpoint.FORMAT, "model": {}}, partial)
    return {
        "the first half": content[: len(content) // 2],
        "without its end": content[:-100],
        "three bytes": content[:3],
        "empty": b"",
        "random": bytes(range(7, 256)) * 40,
        "text": b"Ein Junge malt.\n" * 20,
        "zip": packed.getvalue(),
        "pickle": bomb.getvalue(),
        "zipped pickle": zipped_bomb.getvalue(),
        "another program's": foreign.getvalue(),
        "without most": partial.getvalue(),
    }  # fmt: skip


NO_CHECKPOINTS = ["the first half", "without its end", "three bytes", "empty", "random", "text", "zip", "pickle"]
NO_CHECKPOINTS += ["zipped pickle", "another program's", "without most"]


@pytest.mark.parametrize("case", NO_CHECKPOINTS)
def test_a_file_that_is_no_checkpoint(refused, trained: Trained, case, tmp_path):
    path = tmp_path / "bad.safetensors"
    path.write_bytes(other_files(trained, tmp_path)[case])
    message = refused("translate", str(path), SENTENCE)
    assert "checkpoint" in message
    assert not (tmp_path / "exploded").exists(), "a checkpoint has run code"


def test_the_bomb_would_go_off(tmp_path):
    """Otherwise the test above would prove nothing."""
    pickle.loads(pickle.dumps(Bomb(tmp_path / "exploded")))
    assert (tmp_path / "exploded").is_dir()


def test_a_damaged_last_checkpoint_stops_the_training(refused, trained: Trained, tmp_path):
    (tmp_path / "tiny").mkdir()
    content = (trained.folder / "last.safetensors").read_bytes()
    (tmp_path / "tiny" / "last.safetensors").write_bytes(content[: len(content) // 2])
    message = refused("train", *small(trained.root, [], *trained.arguments, f"run_folder={tmp_path}"))
    assert str(tmp_path / "tiny" / "last.safetensors") in message


def test_weights_alone_cannot_be_continued(refused, trained: Trained, tmp_path):
    (tmp_path / "tiny").mkdir()
    shutil.copy(trained.folder / "best.safetensors", tmp_path / "tiny" / "last.safetensors")
    message = refused("train", *small(trained.root, [], *trained.arguments, f"run_folder={tmp_path}"))
    assert "last.safetensors has no optimizer, train_state" in message


def test_a_checkpoint_of_another_format_is_refused(refused, trained: Trained, tmp_path):
    payload = checkpoint.load(trained.folder / "best.safetensors")
    checkpoint.save(tmp_path / "best.safetensors", payload | {"format": 1})
    assert f"has format 1, this version of the program reads format {checkpoint.FORMAT}" in refused(
        "translate", str(tmp_path), SENTENCE
    )


def test_weights_of_other_shapes(refused, trained: Trained, tmp_path):
    payload = checkpoint.load(trained.folder / "best.safetensors")
    payload["config"]["model"]["feed_forward_size"] = 128
    checkpoint.save(tmp_path / "best.safetensors", payload)
    message = refused("translate", str(tmp_path), SENTENCE)
    assert "the weight 'decoder.0.feed_forward.0.bias' is [64]" in message and "is [128]" in message


def test_a_configuration_in_a_checkpoint_is_checked(refused, trained: Trained, tmp_path):
    payload = checkpoint.load(trained.folder / "best.safetensors")
    payload["config"]["model"]["magic"] = 3
    checkpoint.save(tmp_path / "best.safetensors", payload)
    assert "model.magic" in refused("translate", str(tmp_path), SENTENCE)


def test_pairs_that_do_not_match(refused, trained: Trained, tmp_path):
    (tmp_path / "a.de").write_text("Ja.\nNein.\n")
    (tmp_path / "a.en").write_text("Yes.\n")
    words = ["--source", str(tmp_path / "a.de"), "--reference", str(tmp_path / "a.en"), "--runs", trained.runs]
    message = refused("evaluate", "tiny", *words)
    assert "a.de has 2 lines" in message and "a.en has 1 lines" in message


def test_a_result_that_cannot_be_written(refused, trained: Trained, tmp_path):
    """A file of another program has the name of the folder."""
    (tmp_path / "best.safetensors").write_bytes((trained.folder / "best.safetensors").read_bytes())
    (tmp_path / "evaluate").write_text("")
    assert str(tmp_path / "evaluate") in refused("evaluate", str(tmp_path))


def test_a_model_without_attention(refused, trained: Trained, tmp_path, capfd):
    words = [
        "model=seq2seq",
        "model.hidden_size=16",
        "model.embedding_size=16",
        "model.num_layers=1",
        "name=blind",
        "train.max_steps=1",
    ]
    sets = [word for word in trained.arguments if word.startswith("data") and not word.startswith("data_folder")]
    given = small(tmp_path, sets, *words)
    assert run_command(capfd, "train", *given).code == 0
    message = refused("align", "blind", "--runs", str(tmp_path / "runs"), SENTENCE)
    assert "blind" in message and "no attention" in message
    for words in (["--weights"], ["--layer", "0"], ["--method", "rollout"]):
        again = refused("translate", "blind", "--runs", str(tmp_path / "runs"), "--format", "jsonl", *words, SENTENCE)
        assert again == message
    assert (
        run_command(capfd, "translate", "blind", "--runs", str(tmp_path / "runs"), "--format", "jsonl", SENTENCE).code
        == 0
    )

"""nmt import --trim: text whose pieces stay is translated as before, with fewer parameters."""

import gzip
import io
import json
import re
import shutil
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from corpora import pairs
from safetensors.torch import load_file, save_file
from test_pretrained import (
    MODELS,
    SCRIPT,
    SIDES,
    SIZES,
    different_pieces,
    ids_of_pieces,
    import_run,
    open_theirs,
    save_m2m100,
    save_marian,
    tag_of,
    translations,
)

import nmt
from nmt import cli
from nmt.convert.hugging_face import SPECIAL_IDS, tokenizer_json
from nmt.convert.pretrained import trim
from nmt.convert.pretrained.folder import read_small_files
from nmt.convert.pretrained.model import BIAS, TABLES
from nmt.convert.pretrained.vocabulary import SPECIAL, UNIGRAM, Vocabulary, sentencepiece_model
from nmt.data.tokenizer import BOS, EOS, UNK, Tokenizer
from nmt.errors import UserError

transformers = pytest.importorskip(
    "transformers", reason="transformers is not installed; `make test` brings it"
)
KINDS = MODELS | {"unigram": MODELS["m2m100"], "own": MODELS["joint"]}
GIVEN = pairs(12)
HELD_OUT = [line for pair in pairs(200)[12:] for line in pair]
CHEROKEE = [target.lower().translate(SCRIPT) for _, target in pairs(60)]


def is_cherokee(piece: str) -> bool:
    return any("\u13a0" <= character < "\u1400" for character in piece)


def silence(folder: Path) -> None:
    """Keep a random model from writing Cherokee, and rows without a piece, as often as all else."""
    _, _, sides = read_small_files(folder)
    weights = load_file(folder / "model.safetensors")
    for name in weights.keys() & {*TABLES, BIAS}:
        side = "encoder" not in name
        for number in sides[side].ids:
            piece = sides[side].pieces.get(number)
            if piece is None or is_cherokee(piece):
                rows = weights[name] if name != BIAS else weights[name][0]
                rows[number] = -50 if name == BIAS else 0
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def save_own(folder: Path, lines: list[str]) -> None:
    """As `nmt export --format hf` saves a pre-norm Transformer with BPE and byte pieces."""
    content = io.BytesIO()
    ids = {f"{name}_id": number for number, name in enumerate(("pad", "unk", "bos", "eos"))}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=content,
        vocab_size=450,
        model_type="bpe",
        byte_fallback=True,
        normalization_rule_name="identity",
        minloglevel=4,
        **ids,
    )
    tokenizer = Tokenizer(content.getvalue(), lowercase=False)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer_json(tokenizer)), "utf-8")
    special = {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    special["tokenizer_class"] = "PreTrainedTokenizerFast"
    (folder / "tokenizer_config.json").write_text(json.dumps(special))
    config = transformers.PegasusConfig(
        **SIZES,
        **SPECIAL_IDS,
        vocab_size=tokenizer.size,
        activation_function="relu",
        scale_embedding=True,
        init_std=0.3,
        forced_eos_token_id=None,
    )
    transformers.PegasusForConditionalGeneration(config).save_pretrained(folder)


@pytest.fixture(scope="module")
def beds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random small model of each kind with pieces of German, English and Cherokee, and a text of
    German and English."""
    root = tmp_path_factory.mktemp("beds")
    for language, lines in zip(("de.gz", "en"), zip(*GIVEN, strict=True), strict=True):
        content = "".join(f"{line}\n" for line in lines).encode()
        if language.endswith("gz"):
            content = gzip.compress(content)
        (root / f"text.{language}").write_bytes(content)
    sides = [[*side, *CHEROKEE] for side in SIDES]
    torch.manual_seed(1)
    for name in KINDS:
        (root / name).mkdir()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if name in ("m2m100", "nllb", "unigram"):
                kind = "unigram" if name == "unigram" else "bpe"
                save_m2m100(root / name, sides, name == "nllb", kind)
            elif name == "own":
                save_own(root / name, [*sides[0], *sides[1]])
            else:
                tags = [">>eng<<", ">>fra<<"] if name == "multilingual" else []
                save_marian(root / name, sides, tags, name == "separate")
        silence(root / name)
    return root


@pytest.fixture
def only_what_occurs(monkeypatch: pytest.MonkeyPatch) -> None:
    """No frequent pieces, of which these models have fewer than stay."""
    monkeypatch.setattr(trim, "FREQUENT", 0)


def export(runs: Path, run: str, output: Path) -> None:
    words = ["export", run, "--runs", str(runs), "--format", "hf", "--output", str(output)]
    assert cli.main(words) == 0


def import_both(beds: Path, runs: Path, name: str) -> tuple[Any, Any]:
    """The run of a whole model, and of one trimmed to the text."""
    options = KINDS[name]
    whole = import_run(beds / name, runs, "whole", options)
    texts = f"{beds / 'text.de.gz'},{beds / 'text.en'}"
    trimmed = import_run(beds / name, runs, "trimmed", [*options, "--trim", texts])
    return whole, trimmed


@pytest.mark.parametrize("name", KINDS)
def test_kept_text_has_the_same_pieces_and_logits(name, beds, tmp_path, only_what_occurs):
    """And the same hidden vectors, bit by bit. Text that was not given counts if it has no other
    pieces."""
    whole, trimmed = import_both(beds, tmp_path, name)
    texts = [line for pair in GIVEN for line in pair]
    for before, after in zip(*(run.translator.tokenizers for run in (whole, trimmed)), strict=True):
        gone = set(before.all_pieces) - set(after.all_pieces)
        assert any(map(is_cherokee, gone)) and not all(map(is_cherokee, gone))
        divided = {line: before.pieces(before.encode(line)) for line in [*texts, *HELD_OUT]}
        kept = [line for line, pieces in divided.items() if gone.isdisjoint(pieces)]
        assert len(kept) > len(texts) + 5
        assert [after.pieces(after.encode(line)) for line in kept] == [divided[e] for e in kept]

    sides = [run.translator.tokenizers.target.all_pieces for run in (whole, trimmed)]
    stayed = [number for number, piece in enumerate(sides[1]) if piece in sides[0]]
    common = [sides[0].index(sides[1][number]) for number in stayed]
    assert len(stayed) > 50
    hidden = []
    logits = []
    for run, ids in ((whole, common), (trimmed, stayed)):
        model = run.translator.model
        source = torch.tensor([[*run.translator.tokenizers.source.encode(GIVEN[0][0]), EOS]])
        target = torch.tensor([[BOS, *run.translator.tokenizers.target.encode(GIVEN[0][1])]])
        hidden.append(model(source, None, target).hidden)
        logits.append(model.logits(hidden[-1])[..., ids])
    assert torch.equal(*hidden)
    # A matrix product of another size may round otherwise at its edges
    torch.testing.assert_close(*logits, atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", ["joint", "m2m100", "nllb"])
def test_other_text_has_the_pieces_of_transformers(name, beds, tmp_path, only_what_occurs):
    """It is divided into the pieces that are left, not into unknown ones."""
    whole, trimmed = import_both(beds, tmp_path, name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "trimmed/pretrained")
    if name != "joint":
        theirs.src_lang = KINDS[name][1]
    before, after = (run.translator.tokenizers.source for run in (whole, trimmed))
    ids = ids_of_pieces(after, theirs, is_target=False)
    changed = 0
    for line in HELD_OUT[::2]:
        divided = after.encode(line)
        assert UNK not in divided
        assert [ids[number] for number in divided] == theirs(line).input_ids[:-1], line
        changed += after.pieces(divided) != before.pieces(before.encode(line))
    assert changed > 10


@pytest.mark.parametrize("name", ["joint", "separate", "m2m100", "nllb", "own"])
def test_an_export_is_the_trimmed_model_for_transformers(name, beds, tmp_path, capfd):
    """Its greedy translations are those of the whole model; it comes back as the same run."""
    whole, trimmed = import_both(beds, tmp_path, name)
    said = capfd.readouterr().err
    assert re.search(r"trimmed to [\d,]+ of [\d,]+ pieces and [\d,]+ of [\d,]+ parameters", said)
    export(tmp_path, "trimmed", tmp_path / "hf")
    model, theirs = open_theirs(tmp_path / "hf", KINDS[name])
    if name == "own":
        theirs._switch_to_input_mode = theirs._switch_to_target_mode = lambda: None
    old, _ = open_theirs(beds / name, KINDS[name])
    assert model.num_parameters() < old.num_parameters()
    assert "trimmed to" in (tmp_path / "hf/README.md").read_text("utf-8")

    lines = [source for source, _ in GIVEN]
    tag = tag_of(name)
    wrong, unknown = different_pieces(trimmed.translator.tokenizers, theirs, lines, tag)
    assert not wrong and unknown < 2 * len(lines)
    found = list(translations(trimmed, model, theirs, lines, tag, beam=1))
    assert all(ours == wanted for ours, wanted in found)
    texts = []
    for run in (whole, trimmed):
        decode = replace(run.translator.decode, beam=1, avoid_loops=False)
        translated = replace(run.translator, decode=decode).translate(lines)
        texts.append([run.translator.tokenizers.target.pieces(each.ids) for each in translated])
    assert texts[0] == texts[1]

    back = import_run(tmp_path / "hf", tmp_path, "back", KINDS[name])
    assert back.translator.tokenizers.models == trimmed.translator.tokenizers.models
    weights = [run.translator.model.state_dict() for run in (trimmed, back)]
    assert weights[0].keys() == weights[1].keys()
    assert all(torch.equal(weights[0][each], weights[1][each]) for each in weights[0])
    assert replace(back.config, name="trimmed") == trimmed.config


SCORES = {  # of pieces, the best first
    "cd": -1, "dc": -2, "ab": -3, "▁": -4, "яж": -5, "▁ab": -6, "bc": -7, "a": -8, "b": -9,
    "c": -10, "d": -11, "я": -12, "ж": -13, "5": -14, "世": -15, "界": -16,
}  # fmt: skip
OCCUR = {"▁", "▁ab", "ab", "bc", "a", "b", "c"}
ALWAYS = {"cd", "d", "5", "界"}  # frequent, a letter of the script, no letter, the worst
NEEDS = {
    "abc": OCCUR | ALWAYS,
    "abcж": OCCUR | ALWAYS | {"ж", "я"},
    f"{'abc' * 400}ж": OCCUR | ALWAYS | {"ж"},  # a script that is too rare
}


@pytest.mark.parametrize("text", NEEDS)
def test_what_a_text_needs(text, tmp_path, monkeypatch):
    monkeypatch.setattr(trim, "FREQUENT", 1)
    (tmp_path / "text").write_text(f"\n{text}\n", "utf-8")
    pieces = dict(enumerate([*SPECIAL, *SCORES]))
    special = dict(enumerate(SPECIAL))
    scores = {piece: float(score) for piece, score in SCORES.items()}
    model = sentencepiece_model(pieces, scores, special, special)
    model.trainer_spec.model_type = UNIGRAM
    sides = [Vocabulary(pieces, model, ids=list(pieces))] * 2
    needed = trim.needed_pieces(scores, sides, [tmp_path / "text"])
    assert needed == NEEDS[text]


def test_ids_in_files_of_configuration():
    """A piece is named by its id alone, in lists and in lists of lists; other numbers stay."""
    new = {0: 0, 5: 1, 7: 2}
    content = {
        "pad_token_id": 7,
        "bad_words_ids": [[7], [5, 0]],
        "suppress_tokens": [5],
        "d_model": 7,
        "type_id": 5,
        "special_tokens": {"</s>": {"id": "</s>", "ids": [7]}},
        "is_id": True,
    }
    assert set(trim.named_ids(content)) == {0, 5, 7}
    assert trim.with_ids("config.json", content, new) == content | {
        "pad_token_id": 2,
        "bad_words_ids": [[2], [1, 0]],
        "suppress_tokens": [1],
        "special_tokens": {"</s>": {"id": "</s>", "ids": [2]}},
    }
    content = {"added_tokens_decoder": {"5": {"content": "id"}, "6": {"content": "gone"}}}
    assert trim.with_ids("tokenizer_config.json", content, new) == {
        "added_tokens_decoder": {"1": {"content": "id"}}
    }
    assert trim.with_ids("vocab.json", {"ids": 7, "b": 6}, new) == {"ids": 2}


@pytest.mark.parametrize("merge", ["a b", ["a", "b"]])
def test_merges_without_their_pieces_go(merge):
    vocabulary = {"a": 0, "b": 1, "ab": 2, "abb": 3}
    kept = [merge, ["ab", "b"]]
    merges = [*kept, ["b", "b"], ["a", "bb"]]  # what it becomes, and a part, is gone
    model = {"type": "BPE", "vocab": vocabulary | {"bb": 4}, "merges": merges}
    content = {"model": model, "added_tokens": [], "normalizer": None}
    changed = trim.with_ids("tokenizer.json", content, {number: number for number in range(4)})
    assert changed["model"] == {"type": "BPE", "vocab": vocabulary, "merges": kept}
    with pytest.raises(UserError, match="neither a unigram model nor merges"):
        trim.with_ids("tokenizer.json", {"model": {"type": "WordLevel"}}, {})


def test_a_piece_that_the_configuration_names_stays(beds, tmp_path):
    """And a run of the name that `nmt.load` gives is taken for the model's, trimmed or not."""
    folder = Path(shutil.copytree(beds / "joint", tmp_path / "model"))
    vocabulary = json.loads((folder / "vocab.json").read_text("utf-8"))
    named = [piece for piece in vocabulary if is_cherokee(piece)][-1]
    path = folder / "config.json"
    config = json.loads(path.read_text("utf-8")) | {"bos_token_id": vocabulary[named]}
    path.write_text(json.dumps(config), "utf-8")
    options = [*KINDS["joint"], "--trim", str(beds / "text.en")]
    run = import_run(folder, tmp_path / "runs", "model", options)
    after = json.loads((tmp_path / "runs/model/pretrained/vocab.json").read_text("utf-8"))
    stored = json.loads((tmp_path / "runs/model/pretrained/config.json").read_text("utf-8"))
    assert [piece for piece in after if is_cherokee(piece)] == [named]
    assert stored["bos_token_id"] == after[named] != vocabulary[named]
    assert stored["vocab_size"] == len(after) < len(vocabulary)
    again = nmt.load(str(folder), run_folder=tmp_path / "runs", source="de", target="en")
    assert again.translator.tokenizers.models == run.translator.tokenizers.models


REFUSED = [  # texts, other options, and what the sentence names
    ("none.de", [], "none.de"),
    ("text.en,none.de", [], "none.de"),
    ("empty", [], "--trim empty has no text"),
    ("text.en,georgian", [], "--trim georgian has no text"),
    ("text.en,", [], "the name is empty"),
    ("text.en", ["--new", "chr=en", "--text", "text.en"], "--trim cannot go with --new"),
]


@pytest.mark.parametrize(("texts", "options", "said"), REFUSED)
def test_texts_that_cannot_be_used_are_refused(
    texts, options, said, beds, tmp_path, monkeypatch, refused
):
    shutil.copy(beds / "text.en", tmp_path)
    (tmp_path / "empty").write_text("\n \n")
    (tmp_path / "georgian").write_text("გამარჯობა 5 !\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    words = [str(beds / "m2m100"), *KINDS["m2m100"], "--name", "run", "--trim", texts]
    assert said in refused("import", *words, *options)
    assert not (tmp_path / "runs").exists()

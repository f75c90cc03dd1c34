"""The forms in which models are published: weights, tokenizers and settings, and the kinds that are
refused by name."""

import json
import re
import resource
import shutil
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
import sentencepiece
import torch
from corpora import pairs, write_pairs
from safetensors.torch import load_file, save_file
from test_pretrained import (
    ODD,
    SIDES,
    folders,
    import_run,
    save_m2m100,
    train_further,
    train_spm,
)

import nmt
from nmt.commands.pretrained import has_languages, write_run
from nmt.convert.pretrained.folder import read_pieces, read_pretrained
from nmt.convert.pretrained.m2m100 import KNOWN_LANGUAGES, M2M100
from nmt.convert.pretrained.vocabulary import Vocabulary, add_tokens
from nmt.data.subword_sampling import added_piece
from nmt.errors import UserError
from nmt.training import checkpoint

transformers = pytest.importorskip(
    "transformers", reason="transformers is not installed; `make test` brings it"
)
assert folders  # a fixture
ONE = torch.zeros(1)
LEGACY = {"_use_new_zipfile_serialization": False}


@pytest.fixture
def copy(folders: Path, tmp_path: Path) -> Path:
    """A copy of a Marian model of one target language, to be changed."""
    return Path(shutil.copytree(folders / "joint", tmp_path / "model"))


def change_json(path: Path, **changes: Any) -> None:
    stored = json.loads(path.read_text("utf-8")) if path.exists() else {}
    path.write_text(json.dumps(stored | changes), "utf-8")


def import_weights(
    folder: Path, runs: Path, source: str = "de", target: str = "en"
) -> dict[str, torch.Tensor]:
    write_run(str(folder), runs / "run", source, target)
    weights: dict[str, torch.Tensor] = checkpoint.load(runs / "run" / "best.safetensors")["model"]
    return weights


def state_of(folder: Path) -> dict[str, torch.Tensor]:
    """The weights as a .bin file has them: tied ones with all their names, in one memory."""
    state = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    for name in (
        "model.encoder.embed_tokens.weight",
        "model.decoder.embed_tokens.weight",
        "lm_head.weight",
    ):
        state[name] = state["model.shared.weight"]
    return state


def write_shards(folder: Path, ending: str, save: Callable[[dict, Path], None]) -> None:
    state = state_of(folder)
    names = [
        name
        for name in state
        if ending == "bin" or "embed_tokens" not in name and name != "lm_head.weight"
    ]
    files = {name: f"part-{number % 3}.{ending}" for number, name in enumerate(names)}
    for file in set(files.values()):
        save({name: state[name] for name in names if files[name] == file}, folder / file)
    stem = "pytorch_model.bin" if ending == "bin" else "model.safetensors"
    change_json(folder / f"{stem}.index.json", weight_map=files)


FORMS: dict[str, Callable[[Path], None]] = {
    "legacy": lambda folder: torch.save(state_of(folder), folder / "pytorch_model.bin", **LEGACY),
    "zip": lambda folder: torch.save(state_of(folder), folder / "pytorch_model.bin"),
    "safetensors in parts": lambda folder: write_shards(folder, "safetensors", save_file),
    "legacy in parts": lambda folder: write_shards(
        folder, "bin", lambda part, path: torch.save(part, path, **LEGACY)
    ),
}


@pytest.fixture(scope="module")
def imported(folders: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint of the model of one target language, imported from safetensors."""
    runs = tmp_path_factory.mktemp("imported")
    import_weights(folders / "joint", runs)
    return runs / "run/best.safetensors"


@pytest.mark.parametrize("form", FORMS)
def test_weights_are_the_same_in_every_form(form, imported, copy, tmp_path):
    FORMS[form](copy)
    wanted = checkpoint.load(imported)["model"]
    found = import_weights(copy, tmp_path)
    assert wanted.keys() == found.keys() and all(
        torch.equal(wanted[name], found[name]) for name in wanted
    )
    stored = [path.stat().st_size for path in (imported, tmp_path / "run/best.safetensors")]
    # what is tied is stored once; the texts of the header differ
    assert abs(stored[0] - stored[1]) < 100


def test_half_precision_becomes_float32(copy, tmp_path):
    state = {name: tensor.half() for name, tensor in load_file(copy / "model.safetensors").items()}
    save_file(state, copy / "model.safetensors")
    weights = import_weights(copy, tmp_path)
    wanted = state["model.encoder.layers.0.fc1.weight"].float()
    assert torch.equal(weights["encoder.0.feed_forward.0.weight"], wanted)
    assert {tensor.dtype for tensor in weights.values()} == {torch.float32}


MEASURE = """
import resource, sys
from pathlib import Path
from nmt.commands.pretrained import write_run
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
small, large, runs = map(Path, sys.argv[1:])
write_run(str(small), runs / "small", "de", "en")
before = peak()
write_run(str(large), runs / "large", "de", "en")
print((peak() - before) * 1024 / (large / "pytorch_model.bin").stat().st_size)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the unit of ru_maxrss is Linux's")
def test_an_import_needs_little_more_memory_than_its_file(copy, folders, tmp_path):
    """At most 1.3 times the file, which torch < 1.6 wrote and so can only be read as a whole."""
    assert resource.RUSAGE_SELF == 0
    config = json.loads((copy / "config.json").read_text("utf-8"))
    sizes = {
        f"{side}_{name}": size
        for side in ("encoder", "decoder")
        for name, size in (("layers", 4), ("ffn_dim", 4096), ("attention_heads", 8))
    }
    (copy / "config.json").write_text(
        json.dumps(config | sizes | {"d_model": 1024, "num_hidden_layers": 4}), "utf-8"
    )
    model = transformers.MarianMTModel(transformers.MarianConfig.from_pretrained(copy))
    (copy / "model.safetensors").unlink()
    torch.save(model.state_dict(), copy / "pytorch_model.bin", **LEGACY)
    words = [
        sys.executable,
        "-c",
        MEASURE,
        str(folders / "joint"),
        str(copy),
        str(tmp_path / "runs"),
    ]
    process = subprocess.run(words, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    assert float(process.stdout) < 1.3


def add_weight(name: str, tensor: torch.Tensor = ONE) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        path = folder / "model.safetensors"
        save_file(load_file(path) | {name: tensor}, path)

    return change


def write_bytes(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(content)


def remove(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).unlink()


def halve(name: str) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: len(content) // 2])

    return change


def configure(name: str = "config", **changes: Any) -> Callable[[Path], object]:
    return lambda folder: change_json(folder / f"{name}.json", **changes)


def m2m100(**tokenizer: Any) -> Callable[[Path], object]:
    """As M2M-100, with a tokenizer that is described so."""

    def change(folder: Path) -> None:
        change_json(folder / "config.json", model_type="m2m_100")
        change_json(folder / "tokenizer_config.json", **tokenizer)

    return change


def index(**files: str) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        (folder / "model.safetensors").unlink()
        change_json(folder / "model.safetensors.index.json", weight_map=files)

    return change


def only_marian(folder: Path) -> None:
    (folder / "config.json").unlink()
    (folder / "model.npz").write_bytes(b"PK")
    (folder / "decoder.yml").write_text("models: [model.npz]")


def small100(folder: Path) -> None:
    change_json(folder / "config.json", model_type="m2m_100", encoder_layers=12, decoder_layers=3)


def overflow(folder: Path) -> None:
    """A tensor whose 4 bytes stand for many."""
    state = state_of(folder)
    state["model.shared.weight"] = torch.zeros(1).expand(10**7, 16)
    torch.save(state, folder / "pytorch_model.bin")


def bomb(folder: Path) -> None:
    """An archive of torch whose entries are compressed, as torch writes none."""
    torch.save({"model.shared.weight": torch.zeros(1000, 16)}, folder / "plain.bin")
    with (
        zipfile.ZipFile(folder / "plain.bin") as plain,
        zipfile.ZipFile(folder / "pytorch_model.bin", "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for name in plain.namelist():
            packed.writestr(name, plain.read(name))
    (folder / "plain.bin").unlink()
    (folder / "model.safetensors").unlink()


def added_twice(folder: Path) -> None:
    """An added word that is a piece of the vocabulary, with the id of another piece."""
    vocabulary = json.loads((folder / "vocab.json").read_text("utf-8"))
    first, second = [piece for piece in vocabulary if re.fullmatch(r"▁\w{3,}", piece)][:2]
    listed = {first.removeprefix("▁"): vocabulary.pop(second)}
    (folder / "vocab.json").write_text(json.dumps(vocabulary), "utf-8")
    (folder / "added_tokens.json").write_text(json.dumps(listed), "utf-8")


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 300000000\n"
INT8 = torch.zeros(24, 16, dtype=torch.int8)
FLOAT8 = torch.zeros(24, 16, dtype=torch.float8_e4m3fn)
FIRST = "model.encoder.layers.0.fc1"
NOT_FINITE = torch.full((24, 16), float("inf"))
REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "no configuration": (remove("config.json"), "config.json"),
    "no tokenizer": (remove("source.spm"), "no tokenizer"),
    "no weights": (remove("model.safetensors"), "no model.safetensors or pytorch_model.bin"),
    "cut vocabulary": (write_bytes("vocab.json", b"["), "vocab.json"),
    "odd vocabulary": (write_bytes("vocab.json", b'{"a": 99999}'), "<unk>|pieces"),
    "cut weights": (halve("model.safetensors"), "model.safetensors"),
    "other weights": (write_bytes("model.safetensors", b"cut"), "model.safetensors"),
    "a pointer": (write_bytes("model.safetensors", POINTER), "git lfs pull"),
    "an empty tokenizer": (
        write_bytes("source.spm", b""),
        "source.spm cannot be read: it is empty",
    ),
    "a cut tokenizer": (halve("source.spm"), "source.spm"),
    "a broken tokenizer": (write_bytes("target.spm", b"\x0a\x03abc"), "target.spm cannot be read"),
    "bitsandbytes": (configure(quantization_config={"load_in_8bit": True}), "dequantize"),
    "int8": (add_weight(f"{FIRST}.weight", INT8), "quantized.*fc1.weight is int8"),
    "float8": (add_weight(f"{FIRST}.weight", FLOAT8), "quantized.*fc1.weight is float8"),
    "scales": (add_weight(f"{FIRST}.SCB"), "quantized"),
    "not finite": (add_weight(f"{FIRST}.weight", NOT_FINITE), "fc1.weight' has numbers"),
    "other shapes": (
        add_weight("model.encoder.layers.0.self_attn.q_proj.weight", torch.zeros(16, 8)),
        "q_proj.* do not fit together",
    ),
    "more layers": (add_weight("model.encoder.layers.7.fc1.weight"), "layers.7"),
    "less layers": (configure(encoder_layers=3), "layers.2.* is missing"),
    "a larger file": (overflow, "more than the file"),
    "an archive that grows": (bomb, "its entries have .* more than the file"),
    "an index outside": (index(a="../x.safetensors"), "not a file beside it"),
    "a missing part": (index(a="x.safetensors"), "x.safetensors cannot be read"),
    "an adapter": (write_bytes("adapter_config.json", b"{}"), "merge"),
    "Marian's own": (only_marian, "convert_marian"),
    "T5": (configure(model_type="t5"), "'t5' is of another architecture.*Marian"),
    "mBART": (configure(model_type="mbart"), "mbart.*M2M-100"),
    "SMaLL-100": (small100, "SMaLL-100.*m2m100_418M"),
    "WMT21": (m2m100(language_codes="wmt21"), "WMT21"),
    "legacy behaviour": (m2m100(legacy_behaviour=True), "legacy_behaviour to false"),
    "another end": (configure("generation_config", eos_token_id=5), "not </s>"),
    "another activation": (configure(activation_function="tanh"), "tanh"),
    "plain embeddings": (configure(scale_embedding=False), "scale_embedding"),
    "two sizes": (configure(decoder_ffn_dim=48), "differ in ffn_dim"),
    "no size": (configure(d_model=-1), "d_model is -1"),
    "no number": (configure(dropout=None), "dropout is None"),
    "a word for a number": (configure(attention_dropout="x"), "attention_dropout is x"),
    "no pieces of text": (
        write_bytes("vocab.json", b'{"</s>": 0, "<unk>": 1, "<pad>": 2}'),
        "no pieces of text",
    ),
    "an added word twice": (added_twice, "its added token .* another piece"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_imported_is_one_sentence(kind, copy, tmp_path, refused):
    change, wanted = REFUSED[kind]
    change(copy)
    words = ["--source", "de", "--target", "en", "--name", "run", "--runs", str(tmp_path / "runs")]
    assert re.search(wanted, refused("import", str(copy), *words))
    assert {path.name for path in tmp_path.iterdir()} <= {"model", "runs"}
    assert not list(tmp_path.glob("runs/*"))


def test_marians_zip_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "opus.zip", "w") as archive:
        archive.writestr("decoder.yml", "")
    with pytest.raises(UserError, match="convert_marian"):
        write_run(str(tmp_path / "opus.zip"), tmp_path / "runs/run", "de", "en")


def test_nllb_without_tokenizer_json(tmp_path):
    """By its SentencePiece model alone the pieces are the same, and its languages follow them in
    the known order."""
    for name in ("json", "model"):
        (tmp_path / name).mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        save_m2m100(tmp_path / "json", SIDES, nllb=True)
    for name in ("config.json", "model.safetensors", "tokenizer_config.json"):
        shutil.copy(tmp_path / "json" / name, tmp_path / "model")
    model = train_spm([*SIDES[0], *SIDES[1]], 150, "bpe")
    (tmp_path / "model/sentencepiece.bpe.model").write_bytes(model)
    runs = {}
    for name in ("json", "model"):
        write_run(str(tmp_path / name), tmp_path / "runs" / name, "de", "eng_Latn")
        runs[name] = nmt.load(name, run_folder=tmp_path / "runs", precision="fp32")
    ours, wanted = (runs[name].translator.tokenizers.source for name in ("model", "json"))
    lines = [*SIDES[0], *SIDES[1], *ODD]
    pieces = [[side.pieces(ids) for ids in side.encode_all(lines)] for side in (ours, wanted)]
    assert pieces[0] == pieces[1] and pieces[0][0][0] == "deu_Latn"
    # As fairseq numbers them: the four special pieces and those of the model without its three,
    # then the languages
    codes = KNOWN_LANGUAGES["nllb_200"]
    first = sentencepiece.SentencePieceProcessor(model_proto=model).get_piece_size() + 1
    assert len(codes) == 202 and sorted(ours.all_pieces) == sorted(wanted.all_pieces)
    _, side = read_pieces(
        tmp_path / "model",
        {"model_type": "m2m_100", "vocab_size": 1000},
        {"decoder_start_token_id": 2},
    )
    assert [side.pieces[number] for number in range(first, first + 202)] == codes


def test_generation_config_wins(copy, tmp_path):
    """As in transformers; the decoder starts with the piece that it names."""
    change_json(copy / "config.json", decoder_start_token_id=3, num_beams=2)
    change_json(copy / "generation_config.json", num_beams=7)
    start = json.loads((copy / "generation_config.json").read_text("utf-8"))[
        "decoder_start_token_id"
    ]
    weights = import_weights(copy, tmp_path)
    row = load_file(copy / "model.safetensors")["model.shared.weight"][start]
    assert start != 3 and torch.equal(weights["target_embedding.weight"][2], row)
    assert checkpoint.load(tmp_path / "run/best.safetensors")["config"]["decode"]["beam"] == 7


@pytest.mark.parametrize("old", [False, True])
def test_added_tokens_are_one_piece(old, copy, tmp_path):
    """As in transformers, wherever they stand; `old`: listed in added_tokens.json.

    One has a space inside, and the table of characters makes "No" of №.
    """
    words = ["<ph1>", "«x»", "New York", "№"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = transformers.AutoTokenizer.from_pretrained(copy)
        theirs.add_tokens(words)
        model = transformers.AutoModelForSeq2SeqLM.from_pretrained(copy)
        model.resize_token_embeddings(len(theirs))
        model.save_pretrained(copy)
        theirs.save_pretrained(copy)
    if old:
        listed = {
            token: number for token, number in theirs.get_added_vocab().items() if token in words
        }
        change_json(copy / "added_tokens.json", **listed)
        change_json(copy / "tokenizer_config.json", added_tokens_decoder={})
    write_run(str(copy), tmp_path / "runs/run", "de", "en")
    tokenizers = nmt.load("run", run_folder=tmp_path / "runs").translator.tokenizers
    names = {added_piece(word): word for word in words}
    ids = [
        theirs.convert_tokens_to_ids(names.get(piece, piece))
        for piece in tokenizers.source.all_pieces
    ]
    added = [theirs.convert_tokens_to_ids(token) for token in words]
    for line in (
        "Der Hund <ph1> sieht",
        "<ph1>",
        "Hund(<ph1>)«x»<ph1> Haus .",
        "Der <ph2> «x» Hund",
        "Der New York Hund, New York",
        "Hund № <ph1>№New York № No",
    ):
        assert [ids[piece] for piece in tokenizers.source.encode(line)] == theirs(line).input_ids[
            :-1
        ], line
        sampled = tokenizers.source.sample(line, 0.5, Random(1))
        assert all(
            sampled.count(ids.index(token)) == line.count(theirs.decode(token)) for token in added
        ), line
    text = "Hund <ph1> Haus"
    assert tokenizers.target.decode(tokenizers.target.encode(text)) == text or "⁇" in text


def test_the_tag_of_opus_is_a_tag(folders, tmp_path):
    """In an import with one target and with several; a model of one language needs none."""
    several = folders / "multilingual"
    single = import_run(several, tmp_path, "single", ["--source", "de", "--target", "en"])
    both = import_run(several, tmp_path, "both", ["--source", "de", "--target", "en+fra"])
    one = import_run(folders / "joint", tmp_path, "one", ["--source", "de", "--target", "en"])
    text = "Der Hund schläft."
    ours = single.translator.tokenizers.source
    english, french = (ours.all_pieces.index(tag) for tag in (">>eng<<", ">>fra<<"))
    assert ours.encode(text) == ours.encode(f">>eng<< {text}") == ours.encode(f">>eng<<{text}")
    assert ours.encode(text)[0] == english
    assert ours.encode(f">>fra<< {text}") == [french, *ours.encode(text)[1:]]
    tagged = [f"<2fra> {text}", f">>fra<< {text}"]
    first, second = (each.text for each in both.translator.translate(tagged))
    assert first == second
    plain = one.translator.tokenizers.source
    assert plain.encode(f">>eng<< {text}") == plain.encode(text) == plain.encode(f">>en<< {text}")


@pytest.mark.slow
def test_the_tag_of_opus_in_training_text(folders, tmp_path):
    write_run(str(folders / "multilingual"), tmp_path / "parent", "de", "en")
    write_pairs(tmp_path, "text", [(f">>eng<< {source}", target) for source, target in pairs(60)])
    train_further(tmp_path, "parent")


@pytest.mark.parametrize(
    ("source", "target", "pairs"),
    [
        (["de"], ["en"], {"": ("de", "en")}),
        (["de", "en"], ["en"], {"": ("de", "en")}),
        (["de", "en", "fr"], ["en"], {"<de2en>": ("de", "en"), "<fr2en>": ("fr", "en")}),
        (["deu"], ["eng", "fr"], {"<deu2eng>": ("de", "en"), "<deu2fr>": ("de", "fr")}),
        (["de", "en"], ["de", "en"], {"<de2en>": ("de", "en"), "<en2de>": ("en", "de")}),
    ],
)
def test_each_pair_of_languages_has_a_tag(source, target, pairs):
    """No language is translated into itself; where there is one pair alone, it needs no tag."""
    languages = {"de": 5, "en": 6, "fr": 7}
    of_source, of_target = M2M100().prefixes(languages, source, target)
    assert of_source == {tag: [languages[first]] for tag, (first, _) in pairs.items()}
    assert of_target == {tag: [languages[second]] for tag, (_, second) in pairs.items()}


def test_only_words_that_are_not_special_are_found_in_text(tmp_path):
    """Each added token is a piece; what is known or blank is none."""
    listed = {"<known>": 1, "«x»": 9, " ": 10}
    described = {
        "7": {"content": "<mask>", "special": True},
        "8": {"content": "<ph1>", "special": False},
        "9": {"content": "«x»"},
    }
    (tmp_path / "added_tokens.json").write_text(json.dumps(listed), "utf-8")
    change_json(tmp_path / "tokenizer_config.json", added_tokens_decoder=described)
    pieces = {0: "a", 1: "<known>"}
    side = Vocabulary(dict(pieces), None)
    add_tokens(side, tmp_path)
    assert side.pieces == pieces | {7: "<mask>", 8: "<ph1>", 9: "«x»"}
    assert side.added == {8, 9}
    for number, content in (("0", "b"), ("-1", "b"), (str(1 << 20), "b"), ("x", "b")):
        (tmp_path / "added_tokens.json").write_text(json.dumps({content: number}), "utf-8")
        with pytest.raises(UserError, match="added token"):
            add_tokens(Vocabulary(dict(pieces), None), tmp_path)


def test_what_the_folder_says_of_its_languages(copy, tmp_path):
    change_json(copy / "tokenizer_config.json", source_lang="deu", target_lang="eng")
    with pytest.raises(UserError, match="its source language is deu.* and not fr"):
        read_pretrained(copy, tmp_path, ["fr"], ["es"])
    assert read_pretrained(copy, tmp_path, ["de"], ["en"]).languages == ("de", "en")
    assert read_pretrained(copy, tmp_path).languages == ("deu", "eng")
    # a family of languages
    change_json(copy / "tokenizer_config.json", source_lang="gem", target_lang="eng")
    assert read_pretrained(copy, tmp_path, ["nl"], ["en"]).languages == ("nl", "en")


def test_a_model_of_several_targets_is_not_told_one_by_its_folder(folders, tmp_path):
    """What tokenizer_config.json has there is only the default of transformers."""
    folder = Path(shutil.copytree(folders / "multilingual", tmp_path / "model"))
    change_json(folder / "tokenizer_config.json", source_lang="deu", target_lang="eng")
    with pytest.raises(UserError, match="it has eng, fra"):
        read_pretrained(folder, tmp_path)
    assert read_pretrained(folder, tmp_path, [], ["fra"]).languages == ("deu", "fra")


@pytest.mark.parametrize(
    ("stored", "asked", "has_all"),
    [
        ("de", None, True),
        ("de", "de", True),
        ("deu", "de", True),
        ("de", "en", False),
        ("de+fr", "fr", True),
        ("de+fr", "fr+de", True),
        ("de+fr", "fr+en", False),
        ("de", "de+fr", False),
    ],
)
def test_a_run_has_all_languages_that_are_asked_for(stored, asked, has_all):
    assert has_languages(stored, asked) == has_all


def test_another_direction_is_another_run(folders, tmp_path):
    name = "multilingual"
    options = {"run_folder": tmp_path / "runs"}
    first = nmt.load(str(folders / name), source="de", target="en", **options)
    second = nmt.load(str(folders / name), source="de", target="fr", **options)
    again = nmt.load(str(folders / name), source="ger", target="eng", **options)
    assert (first.name, second.name, again.name) == (name, f"{name}-de-fr", name)
    with pytest.raises(UserError, match="translates de to en"):
        nmt.load(name, source="de", target="fr", **options)

"""nmt import: a translator of Hugging Face transformers is the same model here, and a run as any
other."""

import io
import json
import shutil
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from corpora import pairs, run_command
from sentencepiece import sentencepiece_model_pb2

import nmt
from nmt import cli
from nmt.commands.export import with_ctranslate2
from nmt.convert.pretrained.folder import read_pretrained
from nmt.data.tokenizer import BOS, EOS, UNK
from nmt.errors import UserError

transformers = pytest.importorskip(
    "transformers", reason="transformers is not installed; `make test` brings it"
)
SIZES = {
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "dropout": 0.0,
    "attention_dropout": 0.0,
}
SIZES |= {
    f"{side}_{name}": size
    for side in ("encoder", "decoder")
    for name, size in (("attention_heads", 2), ("ffn_dim", 24))
}
MODELS = {  # directory → options of `nmt import`
    "joint": ["--source", "de", "--target", "en"],
    "separate": ["--source", "de", "--target", "en"],
    "multilingual": ["--source", "de", "--target", "eng"],
    "m2m100": ["--source", "de", "--target", "en"],
    "nllb": ["--source", "deu_Latn", "--target", "eng_Latn"],
}
SIDES = [list(side) for side in zip(*pairs(200), strict=True)]
LIMIT = 24  # pieces of a translation
ODD = [
    "½ ﬁnd …  „so“",
    "漢字 हिन्दी Ελληνικά 한국어 עברית",
    " a\u00adb\u200bc \u00a0d",
    "Straße e\u0301 😀",
    "x",
]


def train_spm(lines: list[str], size: int, kind: str) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        vocab_size=size,
        model_type=kind,
        minloglevel=4,
        hard_vocab_limit=False,
    )
    return model.getvalue()


def pieces(model: bytes) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(number) for number in range(3, processor.get_piece_size())]


def save_marian(folder: Path, sides: list[list[str]], tags: list[str], separate: bool) -> None:
    """As OPUS-MT's are saved; with biases, which those have too."""
    models = [
        train_spm(lines, size, "unigram") for lines, size in zip(sides, (130, 110), strict=True)
    ]
    for name, model in zip(("source", "target"), models, strict=True):
        (folder / f"{name}.spm").write_bytes(model)
    of_sides = [pieces(model) for model in models]
    lists = of_sides if separate else [sorted({*of_sides[0], *of_sides[1]})]
    vocabularies = [["</s>", "<unk>", *each, *tags, "<pad>"] for each in lists]
    for name, vocabulary in zip(("vocab", "target_vocab"), vocabularies, strict=False):
        (folder / f"{name}.json").write_text(
            json.dumps({piece: n for n, piece in enumerate(vocabulary)}), "utf-8"
        )
    files = {"source_spm": "source.spm", "target_spm": "target.spm", "vocab": "vocab.json"}
    files |= {"target_vocab_file": "target_vocab.json"} if separate else {}
    options = {name: str(folder / file) for name, file in files.items()}
    transformers.MarianTokenizer(**options, separate_vocabs=separate).save_pretrained(folder)
    pad = len(vocabularies[-1]) - 1
    config = transformers.MarianConfig(
        **SIZES,
        vocab_size=len(vocabularies[0]),
        decoder_vocab_size=pad + 1,
        activation_function="swish",
        scale_embedding=True,
        share_encoder_decoder_embeddings=not separate,
        init_std=0.3,
        eos_token_id=0,
        pad_token_id=pad,
        decoder_start_token_id=pad,
        forced_eos_token_id=0,
    )
    model = transformers.MarianMTModel(config)
    model.final_logits_bias.normal_()
    model.save_pretrained(folder)


def save_m2m100(folder: Path, sides: list[list[str]], nllb: bool, kind: str = "bpe") -> None:
    """As M2M-100's are saved, or as NLLB-200's: with tokenizer.json instead of vocab.json."""
    model = train_spm([*sides[0], *sides[1]], 150, kind)
    vocabulary = {
        piece: n for n, piece in enumerate(["<s>", "<pad>", "</s>", "<unk>", *pieces(model)])
    }
    if nllb:
        splits = [
            (piece[:cut], piece[cut:]) for piece in vocabulary for cut in range(1, len(piece))
        ]
        merges = [
            (left, right) for left, right in splits if left in vocabulary and right in vocabulary
        ]
        table = sentencepiece_model_pb2.ModelProto.FromString(
            model
        ).normalizer_spec.precompiled_charsmap
        tokenizer = transformers.NllbTokenizer(
            vocab=vocabulary, merges=merges, _spm_precompiled_charsmap=table
        )
    else:
        (folder / "sentencepiece.bpe.model").write_bytes(model)
        (folder / "vocab.json").write_text(json.dumps(vocabulary), "utf-8")
        tokenizer = transformers.M2M100Tokenizer(
            str(folder / "vocab.json"), str(folder / "sentencepiece.bpe.model")
        )
    tokenizer.save_pretrained(folder)
    size = len(tokenizer) if nllb else len(vocabulary) + 108
    config = transformers.M2M100Config(
        **SIZES, vocab_size=size, encoder_layerdrop=0.0, decoder_layerdrop=0.0, init_std=0.3
    )
    transformers.M2M100ForConditionalGeneration(config).save_pretrained(folder)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random small model of each kind, with tokenizers trained on the toy corpus."""
    root = tmp_path_factory.mktemp("pretrained")
    torch.manual_seed(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in MODELS:
            (root / name).mkdir()
            if name in ("m2m100", "nllb"):
                save_m2m100(root / name, SIDES, name == "nllb")
            else:
                tags = [">>eng<<", ">>fra<<"] if name == "multilingual" else []
                save_marian(root / name, SIDES, tags, name == "separate")
    return root


def open_theirs(folder: Path, options: list[str] = ()) -> tuple[Any, Any]:
    """Model and tokenizer as transformers open a folder; `options` are those of `nmt import`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32)
    if hasattr(tokenizer, "src_lang"):
        tokenizer.src_lang, tokenizer.tgt_lang = options[1::2]
    return model.eval(), tokenizer


def import_run(folder: Path, runs: Path, name: str, options: list[str] = ()) -> Any:
    """The run that the command makes of a folder."""
    words = [str(folder), "--name", name, "--runs", str(runs), *options]
    assert cli.main(["import", *words]) == 0
    return nmt.load(name, run_folder=runs, precision="fp32")


def tag_of(name: str) -> str:
    """What a source begins with there."""
    return ">>eng<< " if name == "multilingual" else ""


def ids_of_pieces(side: Any, theirs: Any, is_target: bool) -> list[int]:
    """Their id of each of our pieces."""
    if is_target:
        theirs._switch_to_target_mode()
    ids = [theirs.convert_tokens_to_ids(piece) for piece in side.all_pieces]
    theirs._switch_to_input_mode()
    return ids


def different_pieces(
    ours: Any, theirs: Any, lines: list[str], tag: str = ""
) -> tuple[list[str], int]:
    """The lines whose pieces differ, as source or as target, and how many have an <unk>.

    Those are not compared: <unk> of several characters in a row is one there.
    """
    wrong = []
    unknown = 0
    for side, name, begin in ((ours.source, "text", tag), (ours.target, "text_target", "")):
        ids = ids_of_pieces(side, theirs, is_target=name == "text_target")
        for line, mine in zip(lines, side.encode_all(lines), strict=True):
            wanted = theirs(**{name: begin + line}).input_ids[:-1]
            if theirs.unk_token_id in wanted or side.processor.unk_id() in mine:
                unknown += 1
            elif [ids[piece] for piece in mine] != wanted:
                wrong.append(line)
    return wrong, unknown


def translations(
    run: Any, model: Any, theirs: Any, lines: list[str], tag: str = "", **search: Any
) -> Iterator[tuple[list[int], list[int]]]:
    """Our pieces of each translation and theirs, in their ids, without the last one allowed: a
    translation that does not end is cut there, and gets </s> here."""
    decode = replace(run.translator.decode, avoid_loops=False, max_length_ratio=0.0, **search)
    decode = replace(decode, max_length_extra=LIMIT)
    translated = list(replace(run.translator, decode=decode, num_processes=1).translate(lines))
    ids = ids_of_pieces(run.translator.tokenizers.target, theirs, is_target=True)
    options: dict[str, Any] = {"num_beams": decode.beam, "length_penalty": decode.length_penalty}
    options["early_stopping"] = decode.early_stopping
    options["suppress_tokens"] = [model.config.pad_token_id]
    if hasattr(theirs, "tgt_lang"):
        options["forced_bos_token_id"] = theirs(text_target="x").input_ids[0]
    transformers.logging.set_verbosity_error()
    end = model.generation_config.eos_token_id
    for start in range(0, len(lines), 50):
        texts = [tag + line for line in lines[start : start + 50]]
        batch = theirs(texts, return_tensors="pt", padding=True)
        rows = model.generate(**batch, do_sample=False, max_new_tokens=LIMIT, **options)
        for row, ours in zip(rows[:, 1:].tolist(), translated[start:], strict=False):
            wanted = row[: row.index(end)] if end in row else row
            mine = [ids[piece] for piece in ours.ids]
            yield mine[: LIMIT - 1], wanted[: LIMIT - 1]


def common_pieces(side: Any, theirs: Any) -> dict[int, int]:
    """Our ids of the target's pieces that they have too, and of </s>, with theirs."""
    ids = dict(enumerate(ids_of_pieces(side, theirs, is_target=True)))
    common = {number: ids[number] for number in ids if number > EOS}
    common = {number: there for number, there in common.items() if there != theirs.unk_token_id}
    return common | {EOS: theirs.eos_token_id}


def both_logits(
    translator: Any, model: Any, theirs: Any, pair: tuple[str, str], tag: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Our logits and theirs of the pieces that both have, for a target that is given."""
    source = torch.tensor([[*translator.tokenizers.source.encode(pair[0]), EOS]])
    target = torch.tensor([[BOS, *translator.tokenizers.target.encode(pair[1])]])
    hidden = translator.model(source, None, target).hidden
    batch = theirs(tag + pair[0], return_tensors="pt").input_ids
    labels = theirs(text_target=pair[1], return_tensors="pt").input_ids
    start = torch.tensor([[model.config.decoder_start_token_id]])
    with torch.no_grad():
        inputs = torch.cat((start, labels[:, :-1]), 1)
        logits = model(input_ids=batch, decoder_input_ids=inputs).logits
    common = common_pieces(translator.tokenizers.target, theirs)
    assert len(common) > 50
    ours = translator.model.logits(hidden)[..., list(common)]
    return ours, logits[..., list(common.values())]


@pytest.mark.parametrize("name", MODELS)
def test_the_run_is_the_same_model(name, folders, tmp_path):
    """Pieces of eight scripts, logits, greedy translations; and an alignment has no language."""
    run = import_run(folders / name, tmp_path, "run", MODELS[name])
    model, theirs = open_theirs(folders / name, MODELS[name])
    tag = tag_of(name)
    given = pairs(60)
    lines = [line for pair in given for line in pair]
    tokenizers = run.translator.tokenizers
    wrong, unknown = different_pieces(tokenizers, theirs, [*lines, *ODD], tag)
    assert not wrong and unknown < len(lines) + 2 * len(ODD)
    torch.testing.assert_close(
        *both_logits(run.translator, model, theirs, given[0], tag), atol=1e-4, rtol=0
    )
    sources = [source for source, _ in given]
    for ours, wanted in translations(run, model, theirs, sources, tag, beam=1):
        assert ours == wanted
    aligned = run.align(*given[0])
    sides = aligned.record.source_pieces, aligned.record.target_pieces
    assert all(pieces[0].startswith("▁") for pieces in sides)
    # full stops, </s>
    source, target = (len(text.split()) for text in given[0])
    assert aligned.matrix.shape == (target + 1, source + 2)
    assert abs(aligned.matrix.sum(1) - 1).max() < 1e-5


# its random model writes no text
@pytest.mark.parametrize("name", [name for name in MODELS if name != "nllb"])
def test_ctranslate2_translates_it_the_same(name, folders, tmp_path):
    """Other formats, which could not hold its tokenizers, are refused."""
    pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed; `make test` brings it")
    run = import_run(folders / name, tmp_path, "run", MODELS[name])
    # Random weights write loops, which only our own search avoids while it searches.
    decode = replace(run.translator.decode, beam=2, avoid_loops=False)
    run = replace(run, translator=replace(run.translator, decode=decode))
    lines = [source for source, _ in pairs(8)]
    ours = [each.text for each in run.translate(lines)]
    assert [each.text for each in with_ctranslate2(run, "float32").translate(lines)] == ours
    assert "".join(ours).strip()
    assert cli.main(["export", "run", "--runs", str(tmp_path), "--format", "html"]) == 2


@pytest.mark.parametrize("name", MODELS)
def test_the_search_is_that_of_transformers(name, folders, tmp_path):
    """Four beams, with and without early stopping, of a model that ends its sentences."""
    model, theirs = open_theirs(folders / name, MODELS[name])
    end = model.config.eos_token_id
    early = name == "m2m100"
    with torch.no_grad():
        row = model.get_output_embeddings().weight[end]
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias[0, end] = 5
        else:
            model.model.decoder.layer_norm.bias.copy_(5 * row / row.square().sum())
    model.generation_config.update(num_beams=4, length_penalty=0.8, early_stopping=early)
    shutil.copytree(folders / name, tmp_path / "model")
    model.save_pretrained(tmp_path / "model")
    run = import_run(tmp_path / "model", tmp_path, "run", MODELS[name])
    decode = run.translator.decode
    assert (decode.beam, decode.length_penalty, decode.early_stopping) == (4, 0.8, early)
    lines = [source for source, _ in pairs(20)]
    found = list(translations(run, model, theirs, lines, tag_of(name)))
    ended = [ours == wanted for ours, wanted in found if len(wanted) < LIMIT - 1]
    assert len(ended) >= 10 and sum(ended) >= 0.9 * len(ended)


def test_a_search_that_is_not_valid_is_left_out(folders, tmp_path):
    """And old folders have it in config.json."""
    shutil.copytree(folders / "joint", tmp_path / "model")
    generation = tmp_path / "model/generation_config.json"
    path = tmp_path / "model/config.json"

    def search() -> dict[str, Any]:
        return read_pretrained(tmp_path / "model", tmp_path, ["de"], ["en"]).search

    for stored, wanted in (
        ({"num_beams": True, "length_penalty": float("nan"), "early_stopping": "never"}, {}),
        ({"num_beams": 0, "length_penalty": 10.5}, {}),
        ({"num_beams": 1001, "length_penalty": "1"}, {}),
        ({"num_beams": 1000, "length_penalty": -10}, {"beam": 1000, "length_penalty": -10.0}),
        ({"num_beams": 1}, {"beam": 1, "length_penalty": 1.0}),
        ({"early_stopping": True}, {"early_stopping": True, "length_penalty": 1.0}),
    ):
        generation.write_text(json.dumps(stored))
        assert search() == {"early_stopping": False} | wanted, stored
    generation.unlink()
    path.write_text(json.dumps(json.loads(path.read_text()) | {"num_beams": 6}))
    assert search() == {"early_stopping": False, "beam": 6, "length_penalty": 1.0}


def test_a_folder_is_imported_once_where_a_run_is_named(folders, tmp_path):
    """By `nmt.load`; test_pretrained_hub.py has `nmt train`."""
    folder = tmp_path / "my model"
    shutil.copytree(folders / "joint", folder)
    options = {"run_folder": tmp_path / "runs", "source": "de", "target": "en"}
    run = nmt.load(str(folder), **options)
    assert run.name == "my-model"
    assert (run.config.data.source, run.config.data.target) == ("de", "en")
    checkpoint = tmp_path / "runs/my-model/best.safetensors"
    written = checkpoint.stat().st_mtime_ns
    again = nmt.load(str(folder), **options)
    assert again.provenance["models"] == run.provenance["models"]
    assert nmt.load("my-model", **options).name == "my-model"
    assert checkpoint.stat().st_mtime_ns == written
    shutil.copytree(folders / "separate", tmp_path / "other/my model")
    with pytest.raises(UserError, match="was not imported from .*other/my model"):
        nmt.load(str(tmp_path / "other/my model"), **options)


def train_further(root: Path, parent: str, *words: str) -> Any:
    """The run that a few updates on root/text make of an imported one."""
    where = [f"run_folder={root}", f"data_folder={root / 'data'}", f"data.train={root / 'text'}"]
    options = ["data=files", "data.split_size=5", "train.max_steps=6", "train.validate_every=6"]
    assert cli.main(["train", f"from={parent}", "name=child", *where, *options, *words]) == 0
    return nmt.load("child", run_folder=root)


def test_a_glossary_holds_behind_a_prefix(folders, tmp_path, capfd):
    import_run(folders / "m2m100", tmp_path, "run", MODELS["m2m100"])
    glossary = tmp_path / "terms.tsv"
    glossary.write_text("Hund\tThe cat\n", "utf-8")
    words = ["translate", "run", "Der Hund schläft.", "--runs", str(tmp_path), "--engine", "torch"]
    assert "The cat" not in run_command(capfd, *words).out
    answer = run_command(capfd, *words, "--glossary", str(glossary))
    assert answer.code == 0, answer.err
    assert "The cat" in answer.out and "__" not in answer.out


# Cherokee
SCRIPT = str.maketrans(
    {letter: chr(0x13A0 + n) for n, letter in enumerate("abcdefghijklmnopqrstuvwxyz")}
)


def write_new_language(folder: Path, name: str, code: str) -> None:
    """The toy corpus in English, and the same in the letters of another script."""
    english = [target.lower() for _, target in pairs(120)]
    (folder / f"{name}.{code}").write_text(
        "".join(f"{line.translate(SCRIPT)}\n" for line in english), "utf-8"
    )
    (folder / f"{name}.en").write_text("".join(f"{line}\n" for line in english), "utf-8")


@pytest.mark.parametrize("kind", ["bpe", "unigram", "nllb"])
def test_a_language_is_added(kind, folders, tmp_path):
    """Text of its script has no <unk>, and what the model could before it does as before."""
    german, english, new = "de", "en", "chr"
    folder = folders / "m2m100"
    if kind == "nllb":
        german, english, new = "deu_Latn", "eng_Latn", "chr_Cher"
        folder = folders / "nllb"
    if kind == "unigram":
        torch.manual_seed(1)
        folder = tmp_path / "unigram"
        folder.mkdir()
        save_m2m100(folder, SIDES, False, kind)
    write_new_language(tmp_path, "text", new)
    several = f"{german}+{english}"
    before = import_run(folder, tmp_path, "old", ["--source", several, "--target", several])
    options = ["--new", f"{new}={english}", "--text", str(tmp_path / f"text.{new}")]
    options += ["--source", f"{several}+{new}", "--target", f"{several}+{new}", "--pieces", "40"]
    after = import_run(folder, tmp_path, "new", options)

    old, now = (run.translator.tokenizers.source for run in (before, after))
    assert now.all_pieces[: old.size] == old.all_pieces and now.size > old.size + 30
    rehearsed = [run.config.train.rehearsal_pieces for run in (before, after)]
    assert rehearsed == [0, old.size]
    assert [run.config.train.lora for run in (before, after)] == [16, 0]
    tag = f"<{german}2{english}>".lower()
    assert tag in old.tags and f"<{new}2{english}>".lower() in now.tags - old.tags
    lines = [f"{tag} {text}" for text in [*(source for source, _ in pairs(40)), *ODD]]
    assert old.encode_all(lines) == now.encode_all(lines)
    texts = [target.lower().translate(SCRIPT) for _, target in pairs(40)]
    assert all(UNK in row for row in old.encode_all(texts))
    assert not any(UNK in row for row in now.encode_all(texts))
    # in pieces of several characters
    assert max(map(len, now.encode_all(texts))) < max(map(len, texts))

    # The old rows stay; that of the tag is that of the related language, that of a letter without
    # its ▁ lies near the mean
    old_weights = before.translator.model.state_dict()
    for name, table in after.translator.model.state_dict().items():
        assert torch.equal(table[: len(old_weights[name])], old_weights[name])
    table = after.translator.model.source_embedding.weight
    prefixes = after.translator.tokenizers.target.prefixes
    new_tag, related = (prefixes[f"<{german}2{code}>".lower()][0] for code in (new, english))
    assert torch.equal(table[new_tag], table[related]) and new_tag == old.size
    piece = now.all_pieces.index("▁" + "a".translate(SCRIPT))
    unknown = 2 * table[piece] - table[now.all_pieces.index("▁")]
    assert piece >= old.size
    assert ((unknown - table[: old.size].mean(0)).abs() < table.std(0)).all()

    decode = replace(before.translator.decode, beam=1, avoid_loops=False)
    translated = [
        [each.ids for each in replace(run.translator, decode=decode).translate(lines[:8])]
        for run in (before, after)
    ]
    # A random model writes tags anywhere, and the rows of these two are the same
    as_before = [[related if piece == new_tag else piece for piece in ids] for ids in translated[1]]
    assert translated[0] == as_before


@pytest.mark.slow
def test_a_new_language_is_trained_on_pairs_with_tags(folders, tmp_path):
    write_new_language(tmp_path, "text", "chr")
    options = ["--source", "de+en+chr", "--target", "de+en+chr", "--new", "chr=en"]
    options += ["--text", str(tmp_path / "text.chr")]
    import_run(folders / "m2m100", tmp_path, "parent", options)
    child = train_further(tmp_path, "parent", "data.test=null")
    (report,) = (tmp_path / "data").glob("corpus-*/report.json")
    assert json.loads(report.read_text("utf-8"))["tags"] == ["<en2chr>", "<chr2en>"]
    assert len(list(child.translator.translate(["<chr2en> " + "a".translate(SCRIPT)]))) == 1


BOTH = ["--source", "en+fr+chr", "--target", "fr"]
NOT_THERE = [  # a model, options, and what the sentence names
    ("m2m100", ["--source", "de", "--target", "xx"], "'xx'; the nearest of its 100"),
    ("multilingual", ["--source", "de", "--target", "eus"], "'eus'; it has eng, fra"),
    ("multilingual", [], "give --source and --target"),
    ("joint", [], "--source"),
    ("m2m100", [*BOTH, "--new", "fr=en", "--text", "text.chr"], "already has 'fr'"),
    ("m2m100", [*BOTH, "--new", "chr=xx", "--text", "text.chr"], "no language 'xx'"),
    ("m2m100", [*BOTH, "--new", "chr", "--text", "text.chr"], "NEW=RELATED"),
    ("m2m100", [*BOTH, "--new", "chr=en"], "--new needs --text"),
    ("m2m100", [*BOTH, "--new", "chr=en", "--text", "none.chr"], "none.chr"),
    ("m2m100", [*BOTH, "--new", "chr=en", "--text", "empty.chr"], "empty.chr has no text"),
    ("m2m100", [*BOTH, "--new", "ch=en", "--text", "text.chr"], "one of --source or --target"),
    ("joint", [*BOTH, "--new", "chr=en", "--text", "text.chr"], "one of --source or --target"),
]


@pytest.mark.parametrize(("name", "options", "said"), NOT_THERE)
def test_languages_that_are_not_there_are_refused(
    name, options, said, folders, tmp_path, monkeypatch, refused
):
    write_new_language(tmp_path, "text", "chr")
    (tmp_path / "empty.chr").write_text("\n\n")
    monkeypatch.chdir(tmp_path)
    assert said in refused("import", str(folders / name), "--name", "run", *options)
    assert not (tmp_path / "runs").exists()


def test_an_own_export_comes_back(trained, tmp_path, capfd):
    """From a folder whose name has signs that a command line would read."""
    folder = tmp_path / "an export, [1]=x"
    words = ["export", "tiny", "--runs", trained.runs, "--format", "hf", "--output", str(folder)]
    assert run_command(capfd, *words).code == 0
    before = nmt.load("tiny", run_folder=trained.runs, precision="fp32")
    after = import_run(folder, tmp_path, "back", ["--source", "de", "--target", "en"])
    old, new = (run.translator.model.state_dict() for run in (before, after))
    assert old.keys() == new.keys() and all(torch.equal(old[name], new[name]) for name in old)
    sentences = [source for source, _ in pairs(8)]
    search = before.translator.decode
    texts = [
        [
            (each.ids, each.text)
            for each in replace(run.translator, decode=search).translate(sentences)
        ]
        for run in (before, after)
    ]
    assert texts[0] == texts[1]

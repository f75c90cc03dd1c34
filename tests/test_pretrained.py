"""nmt import: a translator of Hugging Face transformers is the same model here, and a run as any
other."""

import io
import json
import shutil
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from corpora import Trained, pairs, run_command, write_pairs
from sentencepiece import sentencepiece_model_pb2

import nmt
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
    sides = [list(side) for side in zip(*pairs(200), strict=True)]
    torch.manual_seed(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in MODELS:
            (root / name).mkdir()
            if name in ("m2m100", "nllb"):
                save_m2m100(root / name, sides, name == "nllb")
            else:
                tags = [">>eng<<", ">>fra<<"] if name == "multilingual" else []
                save_marian(root / name, sides, tags, name == "separate")
    return root


@pytest.fixture
def open_theirs(folders: Path) -> Callable[[str], tuple[Any, Any]]:
    def open_folder(name: str) -> tuple[Any, Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tokenizer = transformers.AutoTokenizer.from_pretrained(folders / name)
            model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folders / name).eval()
        if name in ("m2m100", "nllb"):
            tokenizer.src_lang, tokenizer.tgt_lang = MODELS[name][1::2]
        return model, tokenizer

    return open_folder


@pytest.mark.parametrize("name", MODELS)
def test_the_run_is_the_same_model(name, folders, open_theirs, capfd, tmp_path):
    """Pieces of eight scripts, logits, and greedy translations."""
    answer = run_command(
        capfd,
        "import",
        str(folders / name),
        "--name",
        "run",
        "--runs",
        str(tmp_path),
        *MODELS[name],
    )
    assert answer.code == 0 and answer.out == f"{tmp_path / 'run'}\n"
    model, theirs = open_theirs(name)
    run = nmt.load("run", run_folder=tmp_path, precision="fp32")
    ours = run.translator.tokenizers
    corpus = pairs(60)
    tag = ">>eng<< " if name == "multilingual" else ""
    by_piece = []
    for side, get_id in (
        (ours.source, theirs._switch_to_input_mode),
        (ours.target, theirs._switch_to_target_mode),
    ):
        get_id()
        by_piece.append([theirs.convert_tokens_to_ids(piece) for piece in side.all_pieces])
    theirs._switch_to_input_mode()
    unknown = ours.source.processor.unk_id()
    for source, target in [*corpus, *zip(ODD, ODD, strict=True)]:
        wanted = theirs(tag + source).input_ids, theirs(text_target=target).input_ids
        for side, text, ids, of_piece in zip(ours, (source, target), wanted, by_piece, strict=True):
            mine = [of_piece[piece] for piece in side.encode(text)]
            # <unk> of several characters in a row is one there, and as many here as are not known
            assert mine == ids[:-1] or unknown in side.encode(text)
    source = ours.source.encode(corpus[0][0])
    target = ours.target.encode(corpus[0][1])
    hidden = run.translator.model(
        torch.tensor([[*source, EOS]]), None, torch.tensor([[BOS, *target]])
    ).hidden
    start = model.config.decoder_start_token_id
    with torch.no_grad():
        batch = theirs(tag + corpus[0][0], return_tensors="pt").input_ids
        labels = theirs(text_target=corpus[0][1], return_tensors="pt").input_ids
        logits = model(
            input_ids=batch,
            decoder_input_ids=torch.cat((torch.tensor([[start]]), labels[:, :-1]), 1),
        ).logits
    places = [
        number
        for number, piece in enumerate(by_piece[1])
        if piece != theirs.unk_token_id and number > EOS
    ]
    ids = torch.tensor([by_piece[1][number] for number in places])
    torch.testing.assert_close(
        run.translator.model.logits(hidden)[..., places], logits[..., ids], atol=1e-4, rtol=0
    )
    aligned = run.align(tag.replace(">>eng<< ", "") + corpus[0][0], corpus[0][1])
    assert aligned.record.source_pieces[0].startswith("▁") and aligned.record.target_pieces[
        0
    ].startswith("▁")
    # full stops, </s>
    assert aligned.matrix.shape == (len(corpus[0][1].split()) + 1, len(corpus[0][0].split()) + 2)
    assert abs(aligned.matrix.sum(1) - 1).max() < 1e-5
    decode = replace(
        run.translator.decode, beam=1, avoid_loops=False, max_length_ratio=0.0, max_length_extra=12
    )
    translated = replace(run.translator, decode=decode, num_processes=1).translate(
        [source for source, _ in corpus]
    )
    first = theirs(text_target="x").input_ids[0]
    options = {"forced_bos_token_id": first} if name in ("m2m100", "nllb") else {}
    for (text, _), ours_translated in zip(corpus, translated, strict=True):
        batch = theirs(tag + text, return_tensors="pt")
        ids = model.generate(**batch, num_beams=1, do_sample=False, max_new_tokens=12, **options)[
            0
        ].tolist()[1:]
        wanted = [piece for piece in ids if piece != model.config.eos_token_id]
        # A translation that does not end is longer by one piece here, since </s> is not counted
        assert [by_piece[1][piece] for piece in ours_translated.ids][:11] == wanted[:11]


# its random model writes no text
@pytest.mark.parametrize("name", [name for name in MODELS if name != "nllb"])
def test_ctranslate2_translates_it_the_same(name, folders, tmp_path, capfd):
    """Other formats, which could not hold its tokenizers, are refused."""
    pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed; `make test` brings it")
    folder = str(tmp_path)
    assert (
        run_command(
            capfd, "import", str(folders / name), "--name", "run", "--runs", folder, *MODELS[name]
        ).code
        == 0
    )
    run = nmt.load("run", run_folder=folder, beam=2, precision="fp32")
    # Random weights write loops, which only our own search avoids while it searches.
    decode = replace(run.translator.decode, avoid_loops=False)
    run = replace(run, translator=run.translator.with_options(decode=decode))
    texts = [source for source, _ in pairs(8)]
    ours, theirs = (
        [each.text for each in one.translate(texts)]
        for one in (run, with_ctranslate2(run, "float32"))
    )
    assert "".join(ours).strip() and ours == theirs
    assert run_command(capfd, "export", "run", "--runs", folder, "--format", "html").code == 2


@pytest.mark.parametrize("name", MODELS)
def test_the_search_is_that_of_transformers(name, folders, open_theirs, capfd, tmp_path):
    """Four beams, with and without early stopping, of a model that ends its sentences."""
    model, theirs = open_theirs(name)
    end = model.config.eos_token_id
    length = 24
    early = name == "m2m100"
    with torch.no_grad():
        row = model.get_output_embeddings().weight[end]
        if name in ("m2m100", "nllb"):
            model.model.decoder.layer_norm.bias.copy_(5 * row / row.square().sum())
        else:
            model.final_logits_bias[0, end] = 5
    search = {"num_beams": 4, "length_penalty": 0.8} | ({"early_stopping": True} if early else {})
    model.generation_config.update(**search)
    shutil.copytree(folders / name, tmp_path / "model")
    model.save_pretrained(tmp_path / "model")
    words = ["--name", "run", "--runs", str(tmp_path), *MODELS[name]]
    assert run_command(capfd, "import", str(tmp_path / "model"), *words).code == 0
    translator = nmt.load("run", run_folder=tmp_path, precision="fp32").translator
    decode = translator.decode
    assert (decode.beam, decode.length_penalty, decode.early_stopping) == (4, 0.8, early)
    decode = replace(decode, avoid_loops=False, max_length_ratio=0.0, max_length_extra=length - 1)
    lines = [source for source, _ in pairs(20)]
    translated = replace(translator, decode=decode, num_processes=1).translate(lines)
    options: dict[str, Any] = {
        "max_new_tokens": length,
        "suppress_tokens": [model.config.pad_token_id],
    }
    options |= (
        {"forced_bos_token_id": theirs(text_target="x").input_ids[0]}
        if name in ("m2m100", "nllb")
        else {}
    )
    tag = ">>eng<< " if name == "multilingual" else ""
    same = 0
    ended = 0
    theirs._switch_to_target_mode()
    by_piece = [
        theirs.convert_tokens_to_ids(piece) for piece in translator.tokenizers.target.all_pieces
    ]
    theirs._switch_to_input_mode()
    for line, ours in zip(lines, translated, strict=True):
        ids = model.generate(**theirs(tag + line, return_tensors="pt"), do_sample=False, **options)[
            0
        ].tolist()[1:]
        # one that does not end is cut there, and gets </s> here
        if end in ids and len(ids) < length:
            ended += 1
            same += [by_piece[piece] for piece in ours.ids] == ids[: ids.index(end)]
    assert ended >= 10 and same >= 0.9 * ended


def test_a_search_that_is_not_valid_is_left_out(folders, tmp_path):
    """And old folders have it in config.json."""
    shutil.copytree(folders / "joint", tmp_path / "model")
    generation = tmp_path / "model/generation_config.json"
    path = tmp_path / "model/config.json"
    generation.write_text('{"num_beams": true, "length_penalty": NaN, "early_stopping": "never"}')
    assert read_pretrained(tmp_path / "model", tmp_path, ["de"], ["en"]).search == {
        "early_stopping": False
    }
    generation.unlink()
    path.write_text(json.dumps(json.loads(path.read_text()) | {"num_beams": 6}))
    wanted = {"early_stopping": False, "beam": 6, "length_penalty": 1.0}
    assert read_pretrained(tmp_path / "model", tmp_path, ["de"], ["en"]).search == wanted


def test_a_folder_is_imported_once_where_a_run_is_named(folders, tmp_path):
    """By `nmt.load`; test_pretrained_hub.py has `nmt train`."""
    shutil.copytree(folders / "joint", tmp_path / "my model")
    options = {"run_folder": tmp_path / "runs", "source": "de", "target": "en"}
    run = nmt.load(str(tmp_path / "my model"), **options)
    assert run.name == "my-model" and (run.config.data.source, run.config.data.target) == (
        "de",
        "en",
    )
    written = (tmp_path / "runs/my-model/best.safetensors").stat().st_mtime_ns
    assert (
        nmt.load(str(tmp_path / "my model"), **options).provenance["models"]
        == run.provenance["models"]
    )
    assert nmt.load("my-model", **options).name == "my-model"
    assert (tmp_path / "runs/my-model/best.safetensors").stat().st_mtime_ns == written
    shutil.copytree(folders / "separate", tmp_path / "other/my model")
    with pytest.raises(UserError, match="was not imported from .*other/my model"):
        nmt.load(str(tmp_path / "other/my model"), **options)


def halve(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda folder: (folder / "config.json").unlink(), "config.json"),
        (lambda folder: (folder / "source.spm").unlink(), "no tokenizer"),
        (lambda folder: (folder / "vocab.json").write_text("["), "vocab.json"),
        (lambda folder: (folder / "vocab.json").write_text('{"a": 99999}'), "<unk>|pieces"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"cut"), "model.safetensors"),
        (lambda folder: halve(folder / "model.safetensors"), "model.safetensors"),
        (lambda folder: halve(folder / "source.spm"), "source.spm"),
        (lambda folder: (folder / "config.json").write_text('{"model_type": "t5"}'), "t5.*Marian"),
        (
            lambda folder: (folder / "config.json").write_text('{"model_type": "mbart"}'),
            "mbart.*M2M-100",
        ),
    ],
)
def test_what_cannot_be_read_is_one_sentence(change, word, folders, tmp_path, capfd):
    """And leaves no run behind."""
    copy = tmp_path / "model"
    copy.mkdir()
    for path in (folders / "joint").iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    change(copy)
    with pytest.raises(UserError, match=word):
        read_pretrained(copy, tmp_path, ["de"], ["en"])
    answer = run_command(
        capfd, "import", str(copy), "--name", "run", "--runs", str(tmp_path / "runs")
    )
    assert answer.code == 2 and not (tmp_path / "runs" / "run").exists()


def test_languages_that_a_model_lacks_are_refused(folders):
    with pytest.raises(UserError, match="'xx'; the nearest of its 100"):
        read_pretrained(folders / "m2m100", folders, ["de"], ["xx"])
    with pytest.raises(UserError, match="'eus'; it has eng, fra"):
        read_pretrained(folders / "multilingual", folders, ["de"], ["eus"])
    with pytest.raises(UserError, match="give --source and --target"):
        read_pretrained(folders / "multilingual", folders)
    with pytest.raises(UserError, match="--source"):
        read_pretrained(folders / "joint", folders)


@pytest.mark.slow
def test_it_is_trained_further(folders, tmp_path, capfd):
    words = [*MODELS["m2m100"], "--name", "parent", "--runs", str(tmp_path)]
    assert run_command(capfd, "import", str(folders / "m2m100"), *words).code == 0
    write_pairs(tmp_path, "text", pairs(80))
    answer = run_command(
        capfd,
        "train",
        "from=parent",
        f"run_folder={tmp_path}",
        f"data_folder={tmp_path / 'data'}",
        "data=files",
        "data.source=de",
        "data.target=en",
        f"data.train={tmp_path / 'text'}",
        "data.split_size=5",
        "train.max_steps=12",
        "train.validate_every=6",
        "name=child",
    )
    assert answer.code == 0, answer.err
    child = nmt.load("child", run_folder=tmp_path)
    assert child.provenance["models"][0]["parent"]["checkpoint"] == "parent/best.safetensors"
    assert (
        child.translator.tokenizers.target.prefixes
        == nmt.load("parent", run_folder=tmp_path).translator.tokenizers.target.prefixes
    )


def test_a_glossary_holds_behind_a_prefix(folders, tmp_path, capfd):
    words = ["--runs", str(tmp_path), *MODELS["m2m100"]]
    assert run_command(capfd, "import", str(folders / "m2m100"), "--name", "run", *words).code == 0
    (tmp_path / "terms.tsv").write_text("Hund\tThe cat\n", "utf-8")
    line = ["translate", "run", "Der Hund schläft.", "--runs", str(tmp_path), "--engine", "torch"]
    plain, answer = (
        run_command(capfd, *line, *more)
        for more in ([], ["--glossary", str(tmp_path / "terms.tsv")])
    )
    assert answer.code == 0, answer.err
    assert "The cat" in answer.out and "The cat" not in plain.out and "__" not in answer.out


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
def test_a_language_is_added(kind, folders, tmp_path, capfd):
    """Text of its script has no <unk>, and what the model could before it does as before."""
    german, english, new = (
        ("deu_Latn", "eng_Latn", "chr_Cher") if kind == "nllb" else ("de", "en", "chr")
    )
    folder = folders / ("nllb" if kind == "nllb" else "m2m100")
    if kind == "unigram":
        torch.manual_seed(1)
        (folder := tmp_path / "unigram").mkdir()
        save_m2m100(folder, [list(side) for side in zip(*pairs(200), strict=True)], False, kind)
    write_new_language(tmp_path, "text", new)
    several = f"{german}+{english}"
    words = [str(folder), "--runs", str(tmp_path), "--source"]
    assert (
        run_command(capfd, "import", *words, several, "--target", several, "--name", "old").code
        == 0
    )
    more = [
        "--new",
        f"{new}={english}",
        "--text",
        str(tmp_path / f"text.{new}"),
        "--pieces",
        "40",
        "--name",
        "new",
    ]
    answer = run_command(
        capfd, "import", *words, f"{several}+{new}", "--target", f"{several}+{new}", *more
    )
    assert answer.code == 0, answer.err
    before, after = (
        nmt.load(name, run_folder=tmp_path, precision="fp32") for name in ("old", "new")
    )
    old, now = (run.translator.tokenizers.source for run in (before, after))
    assert now.all_pieces[: old.size] == old.all_pieces and now.size > old.size + 30
    assert (after.config.train.rehearsal_pieces, before.config.train.rehearsal_pieces) == (
        old.size,
        0,
    )
    tag = f"<{german}2{english}>".lower()
    assert tag in old.tags and f"<{new}2{english}>".lower() in now.tags - old.tags
    lines = [f"{tag} {text}" for text in [*(source for source, _ in pairs(40)), *ODD]]
    assert old.encode_all(lines) == now.encode_all(lines)
    texts = [target.lower().translate(SCRIPT) for _, target in pairs(40)]
    assert not any(UNK in row for row in now.encode_all(texts)) and all(
        UNK in row for row in old.encode_all(texts)
    )
    # in pieces of several characters
    assert max(map(len, now.encode_all(texts))) < max(map(len, texts))
    for name, table in after.translator.model.state_dict().items():
        was = before.translator.model.state_dict()[name]
        assert torch.equal(table[: len(was)], was)
    table = after.translator.model.source_embedding.weight
    prefixes = after.translator.tokenizers.target.prefixes
    new_tag, related = (prefixes[f"<{german}2{code}>".lower()][0] for code in (new, english))
    assert torch.equal(table[new_tag], table[related]) and new_tag == old.size
    (piece,) = [
        n for n in range(old.size, now.size) if now.all_pieces[n] == "▁" + "a".translate(SCRIPT)
    ]
    unknown = 2 * table[piece] - table[now.all_pieces.index("▁")]
    assert ((unknown - table[: old.size].mean(0)).abs() < table.std(0)).all()
    decode = replace(before.translator.decode, beam=1, avoid_loops=False)
    translated = [
        replace(run.translator, decode=decode).translate(lines[:8]) for run in (before, after)
    ]
    # The row of the new tag is that of the related one, and a random model writes tags anywhere
    same = [
        [related if piece == new_tag else piece for piece in each.ids] for each in translated[1]
    ]
    assert [each.ids for each in translated[0]] == same


@pytest.mark.slow
def test_a_new_language_is_trained_on_pairs_with_tags(folders, tmp_path, capfd):
    write_new_language(tmp_path, "text", "chr")
    words = [
        str(folders / "m2m100"),
        "--runs",
        str(tmp_path),
        "--name",
        "parent",
        "--source",
        "de+en+chr",
    ]
    words += ["--target", "de+en+chr", "--new", "chr=en", "--text", str(tmp_path / "text.chr")]
    assert run_command(capfd, "import", *words).code == 0
    answer = run_command(
        capfd,
        "train",
        "from=parent",
        f"run_folder={tmp_path}",
        f"data_folder={tmp_path / 'data'}",
        "data=files",
        f"data.train={tmp_path / 'text'}",
        "data.split_size=5",
        "data.test=null",
        "train.max_steps=6",
        "train.validate_every=6",
        "name=child",
    )
    assert answer.code == 0, answer.err
    (corpus,) = (tmp_path / "data").glob("corpus-*")
    assert json.loads((corpus / "report.json").read_text("utf-8"))["tags"] == [
        "<en2chr>",
        "<chr2en>",
    ]
    translated = list(
        nmt.load("child", run_folder=tmp_path).translator.translate(
            ["<chr2en> " + "a".translate(SCRIPT)]
        )
    )
    assert len(translated) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--new", "fr=en", "--text", "text.chr"], "already has 'fr'"),
        (["--new", "chr=xx", "--text", "text.chr"], "no language 'xx'"),
        (["--new", "chr", "--text", "text.chr"], "NEW=RELATED"),
        (["--new", "chr=en"], "--new needs --text"),
        (["--new", "chr=en", "--text", "none.chr"], "none.chr"),
        (["--new", "chr=en", "--text", "empty.chr"], "empty.chr has no text"),
        (["--new", "ch=en", "--text", "text.chr"], "one of --source or --target"),
    ],
)
def test_a_language_that_cannot_be_added(words, message, folders, tmp_path, monkeypatch, refused):
    write_new_language(tmp_path, "text", "chr")
    (tmp_path / "empty.chr").write_text("\n\n")
    monkeypatch.chdir(tmp_path)
    words = ["--source", "en+fr+chr", "--target", "fr", "--name", "run", *words]
    assert message in refused("import", str(folders / "m2m100"), *words)
    assert not (tmp_path / "runs").exists()


def test_an_own_export_comes_back(trained: Trained, tmp_path, capfd):
    """From a folder whose name has signs that a command line would read."""
    folder = tmp_path / "an export, [1]=x"
    words = ["--runs", str(trained.runs)]
    assert (
        run_command(capfd, "export", "tiny", "--format", "hf", "--output", str(folder), *words).code
        == 0
    )
    copy = ["--name", "back", "--runs", str(tmp_path)]
    assert (
        run_command(capfd, "import", str(folder), "--source", "de", "--target", "en", *copy).code
        == 0
    )
    folders = {"tiny": trained.runs, "back": tmp_path}
    before, after = (
        nmt.load(name, run_folder=runs, precision="fp32") for name, runs in folders.items()
    )
    old, new = (run.translator.model.state_dict() for run in (before, after))
    assert old.keys() == new.keys() and all(torch.equal(old[name], new[name]) for name in old)
    sentences = [source for source, _ in pairs(8)]
    search = before.translator.decode
    one, other = (
        replace(run.translator, decode=search).translate(sentences) for run in (before, after)
    )
    assert [(each.ids, each.text) for each in one] == [(each.ids, each.text) for each in other]

"""nmt export --format hf: Hugging Face transformers compute, attend, search and divide text as
nmt."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from corpora import pairs, write_pairs
from exporting import some, translator
from hypothesis import given
from hypothesis import strategies as st
from tensors import queries

import nmt
from nmt.commands.pretrained import write_run
from nmt.config.compose import compose_all
from nmt.convert.hugging_face import (
    HuggingFaceExport,
    model_weights,
    normalizers,
    parameter_count,
    tokenizer_json,
)
from nmt.convert.pretrained.folder import read_pretrained
from nmt.convert.pretrained.vocabulary import by_tokenizer_json, numbered, our_tokenizer
from nmt.corpus.normalization import normalize
from nmt.data.text_filter import NUMBERS, OTHERS
from nmt.data.tokenizer import BOS, EOS, PAD, UNK, Tokenizer
from nmt.data.train_tokenizer import train_sentencepiece

transformers = pytest.importorskip(
    "transformers", reason="transformers is not installed; `make test` brings it"
)
OPTIONS = [
    {"norm": "post", "activation": "gelu", "tie_embeddings": True},
    {"norm": "post", "activation": "relu", "tie_embeddings": False},
    {"norm": "pre", "activation": "relu", "tie_embeddings": True},
    {"norm": "pre", "activation": "gelu", "tie_embeddings": False},
    {"positions": "learned", "num_heads": 2},
    {"encoder_layers": 1, "decoder_layers": 2, "positions": "learned", "norm": "post"},
]
# pieces; ours ends a translation there, theirs breaks it off, so only shorter ones are compared
LIMIT = 30


def export(plain, config, folder: Path):
    """The folder, opened by transformers."""
    folder.mkdir()
    HuggingFaceExport(plain, config).write(folder, {"scores": {}})
    return transformers.AutoModelForSeq2SeqLM.from_pretrained(
        folder, attn_implementation="eager"
    ).eval()


@pytest.mark.parametrize(
    "options",
    [OPTIONS[0], *(pytest.param(each, marks=pytest.mark.slow) for each in OPTIONS[1:])],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_logits_and_attentions_are_the_same(options, vocabularies, tmp_path):
    plain, config = translator(vocabularies, **options)
    model = export(plain, config, tmp_path / "hf")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    assert tokenizer.model_max_length == plain.max_pieces + 1
    size = plain.tokenizers.source.size
    for source, target in zip(some(size, 0), some(size, 1), strict=True):
        ids = torch.tensor([[*source, EOS]])
        written = torch.tensor([[BOS, *target]])
        decoded = plain.model(ids, None, written, weights=True)
        output = model(input_ids=ids, decoder_input_ids=written, output_attentions=True)
        logits = plain.model.logits(decoded.hidden)
        torch.testing.assert_close(output.logits, logits, atol=1e-4, rtol=0)
        attentions = {
            "encoder": plain.model.encode(ids, None, weights=True).weights,
            "decoder": decoded.self_weights,
            "cross": decoded.weights,
        }
        for name, weights in attentions.items():
            theirs = torch.stack(output[f"{name}_attentions"], 1)
            torch.testing.assert_close(theirs, weights, atol=1e-5, rtol=0)


def configured(model, tokenizers, positions: int) -> dict:
    """config.json of a Transformer, from its modules alone."""
    layer = model.encoder[0]
    tied = model.output.weight is model.target_embedding.weight
    special = {
        "pad_token_id": PAD,
        "eos_token_id": EOS,
        "bos_token_id": BOS,
        "decoder_start_token_id": BOS,
        "forced_eos_token_id": None,
    }
    sides = {}
    for side, layers in (("encoder", model.encoder), ("decoder", model.decoder)):
        sides |= {
            f"{side}_layers": len(layers),
            f"{side}_attention_heads": layer.attention.heads,
            f"{side}_ffn_dim": layer.feed_forward[0].out_features,
            f"{side}_layerdrop": 0.0,
        }
    sizes = {
        "d_model": model.output.in_features,
        "num_hidden_layers": len(model.encoder),
        "vocab_size": tokenizers.source.size,
        "decoder_vocab_size": tokenizers.target.size,
        "max_position_embeddings": positions,
    }
    computed = {
        "dropout": model.dropout.probability,
        "attention_dropout": model.decoder[0].cross_attention.dropout,
        "activation_dropout": 0.0,
        "scale_embedding": True,
        "tie_word_embeddings": tied,
        "share_encoder_decoder_embeddings": tied,
        "is_encoder_decoder": True,
        "dtype": "float32",
    }
    return special | sides | sizes | computed


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"dropout": 0.25, "attention_dropout": 0.125, "tie_embeddings": False}, "pegasus"),
        ({"norm": "post", "encoder_layers": 3, "decoder_layers": 1, "num_heads": 2}, "marian"),
        ({"positions": "learned", "activation": "gelu", "tie_embeddings": True}, "pegasus"),
    ],
)
def test_every_field_of_the_configuration_is_that_of_the_model(
    options, kind, vocabularies, tmp_path
):
    """Transformers open a model with these values, and the import reads the same one."""
    plain, config = translator(vocabularies, **options)
    config.decode = replace(plain.decode, beam=7, length_penalty=0.75, early_stopping=False)
    model = export(plain, config, tmp_path / "hf")
    stored = json.loads((tmp_path / "hf/config.json").read_text())
    wanted = configured(
        plain.model, plain.tokenizers, len(model.model.encoder.embed_positions.weight)
    )
    wanted |= {"activation_function": config.model.activation, "model_type": kind}
    assert stored.pop("architectures") == [type(model).__name__]
    assert stored == wanted
    kept = {name: getattr(model.config, name) for name in wanted if name != "dtype"}
    assert kept == {name: wanted[name] for name in kept}
    assert model.dtype == torch.float32

    search = model.generation_config
    found = (search.num_beams, search.length_penalty, search.early_stopping, search.do_sample)
    assert found == (7, 0.75, False, False)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    for name, number in (("pad", PAD), ("unk", UNK), ("bos", BOS), ("eos", EOS)):
        assert getattr(tokenizer, f"{name}_token_id") == number
        assert getattr(search, f"{name}_token_id", None) == (None if name == "unk" else number)

    weights = model_weights(plain.model, config.model, 40)
    trained = sum(parameter.numel() for parameter in plain.model.parameters())
    without_bias = 0 if config.model.output_bias else plain.model.output.out_features
    positions = plain.model.source_positions, plain.model.target_positions
    tables = sum(parameter.numel() for each in positions for parameter in each.parameters())
    assert parameter_count(weights) == trained - tables + without_bias

    read = read_pretrained(tmp_path / "hf", tmp_path, ["de"], ["en"])
    assert read.options == {name: getattr(config.model, name) for name in read.options} | {
        "dropout": plain.model.dropout.probability
    }
    assert read.search == {"beam": 7, "length_penalty": 0.75, "early_stopping": False}
    state = plain.model.state_dict()
    assert read.weights.keys() == state.keys()
    for name, tensor in read.weights.items():
        torch.testing.assert_close(torch.cat([*tensor.parts()]), state[name], rtol=1e-6, atol=0)


def test_the_longest_source_is_that_of_the_run_that_was_exported(vocabularies, tmp_path):
    """Learned positions reach no further."""
    plain, config = translator(vocabularies, positions="learned", max_positions=540)
    plain = replace(plain, max_pieces=100)
    export(plain, config, tmp_path / "export")
    write_run(str(tmp_path / "export"), tmp_path / "runs/run", "de", "en")
    again = nmt.load("run", run_folder=tmp_path / "runs")
    assert (again.config.model.max_positions, again.translator.max_pieces) == (540, 100)


def test_the_card_tells_what_the_run_is(vocabularies):
    """A first word for the language only where there are several."""
    plain, config = translator(vocabularies)
    for target, tag in (("en", ""), ("en+fr", "<2en>")):
        config.data.target = target
        exporter = HuggingFaceExport(plain, config)
        card = exporter.card(config.model, 12_345_678, {"scores": {}})
        assert re.findall("<2.*?>", card) == [tag] * bool(tag)
        assert json.dumps(["de", *target.split("+")]) in card and " 12.3 million " in card
        assert f" {exporter.positions - 1} pieces" in card


SEARCHES = {  # options of the run's search, and the pieces that it may not write but wants to
    "greedy": ({"beam": 1}, [PAD, BOS]),
    "to the end": ({"beam": 4, "length_penalty": 0.0, "early_stopping": False}, [PAD]),
    "stopped early": ({"beam": 4, "length_penalty": 0.0, "early_stopping": True}, [PAD]),
    "long": ({"beam": 4, "length_penalty": 2.0, "early_stopping": True}, [PAD]),
}


def test_the_search_is_that_of_the_run(vocabularies, tmp_path):
    """By the folder's generation_config.json alone."""
    plain, config = translator(vocabularies, norm="post", tie_embeddings=False)
    sources = some(plain.tokenizers.source.size, 0)
    limit = {"avoid_loops": False, "max_length_ratio": 0.0, "max_length_extra": LIMIT}
    translations = set()
    for name, (options, unwritten) in SEARCHES.items():
        plain.model.output.weight[:, 0] = 0
        plain.model.output.weight[EOS, 0] = 1
        plain.model.output.weight[unwritten, 0] = 8
        config.decode = replace(plain.decode, **options, **limit)
        model = export(plain, config, tmp_path / name)
        found = replace(plain, decode=config.decode).search(queries(sources))
        wanted = [best[0].ids for best in found]
        short = [number for number, ids in enumerate(wanted) if len(ids) < LIMIT]
        assert len({tuple(wanted[number]) for number in short}) > len(wanted) / 2
        for number in short:
            source = torch.tensor([[*sources[number], EOS]])
            found = model.generate(source, max_length=LIMIT + 2)[0].tolist()
            assert [piece for piece in found[1:] if piece != EOS] == wanted[number], name
        translations.add(str(wanted))
    assert len(translations) == len(SEARCHES)


WHOLE = ("<bt>", "<2en>", NUMBERS[0], OTHERS[0])  # pieces that are never divided


@pytest.fixture(
    scope="module",
    params=[
        "unigram",
        "unigram, whole pieces",
        "bpe, whole pieces",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("bpe", "unigram, small letters")),
    ],
)
def both(request, tmp_path_factory):
    """A SentencePiece tokenizer and its tokenizer.json; with tags and placeholders or without."""
    import tokenizers

    folder = tmp_path_factory.mktemp("both")
    write_pairs(folder, "train", pairs(200))
    algorithm, _, kind = request.param.partition(", ")
    (config,) = compose_all([f"tokenizer={algorithm}"], multirun=False)
    lowercase = kind == "small letters"
    options = replace(config.tokenizer, vocabulary_size=330, lowercase=lowercase)
    whole = [*WHOLE] if kind == "whole pieces" else []
    model = train_sentencepiece(options, [folder / "train.de", folder / "train.en"], whole)
    tokenizer = Tokenizer(model, lowercase)
    return tokenizer, tokenizers.Tokenizer.from_str(json.dumps(tokenizer_json(tokenizer)))


WORDS = "der Bäcker Garten. rote x É 日本 e\u0301 … zwei 🎉 <s ß ΟΔΟΣ. Σ".split()
WORDS = st.sampled_from([*WORDS, "  ", *WHOLE, *(f"x{piece}." for piece in WHOLE)])
TEXT = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=30
)

# Words in which it matters which pair of pieces is merged first
UNKNOWN = st.text("dehinrst", min_size=3, max_size=30)


@given(text=st.one_of(st.lists(WORDS, max_size=12).map(" ".join), TEXT, UNKNOWN))
def test_pieces_and_text_are_the_same(both, text):
    """But for control characters, which normalisers of the two treat differently."""
    ours, theirs = both
    text = text.replace("▁", "_")
    ids = ours.encode(text)
    assert theirs.encode(text).ids == [*ids, EOS]
    assert theirs.decode(ids) == ours.decode(ids)


@pytest.mark.parametrize("text", ["ΟΔΟΣ", "ΣΑΣ'Σ.", "Ο ΛΌΓΟΣ, Σ", "Α.Σ.", "Α\u0301Σ-ΑΣ1", "ΑΣ日"])
def test_small_letters_are_those_of_python(text):
    """Also of Σ, which has two."""
    import tokenizers

    steps = {"type": "Sequence", "normalizers": normalizers(lowercase=True)}
    content = {"version": "1.0", "added_tokens": [], "normalizer": steps}
    content["model"] = {"type": "WordLevel", "vocab": {"x": 0}, "unk_token": "x"}
    theirs = tokenizers.Tokenizer.from_str(json.dumps(content)).normalizer
    assert theirs.normalize_str(text) == normalize(text, lowercase=True)


def test_a_tokenizer_is_read_back_from_its_json(both, request):
    """With a word and a special token that transformers have added; but for ▁ alone beside it."""
    import tokenizers

    ours, theirs = both
    theirs = tokenizers.Tokenizer.from_str(theirs.to_str())
    theirs.add_tokens(["«x»"])
    theirs.add_special_tokens(["<mask>"])
    side = by_tokenizer_json(json.loads(theirs.to_str()), None)
    again = our_tokenizer(numbered(side, BOS, ours.size + 2), {})
    assert again.lowercase == ours.lowercase and side.added == {ours.size}
    assert again.all_pieces[: ours.size] == ours.all_pieces
    space = theirs.token_to_id("▁")
    texts = [*(source for source, _ in pairs(20)), "Ein «x» malt", "«x»", "rot,«x» 日本 É"]
    if "whole" in request.node.callspec.id:
        texts += [f"{WHOLE[1]} Ein Baum", f"rot{WHOLE[2]}. {WHOLE[3]}{WHOLE[0]}"]
    for text in texts:
        found, wanted = [*again.encode(text), EOS], theirs.encode(text).ids
        if "«" in text:
            found, wanted = ([n for n in ids if n != space] for ids in (found, wanted))
        assert found == wanted, text
    assert ours.size + 1 not in again.encode("Ein <mask> malt")

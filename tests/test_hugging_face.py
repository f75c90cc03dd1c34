"""nmt export --format hf: Hugging Face transformers open the folder, and translate and attend as
before."""

import contextlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from conftest import small_config
from corpora import Trained, pairs, run_command, write_pairs
from exporting import some, translator
from hypothesis import given
from hypothesis import strategies as st

from nmt.config.compose import compose_all
from nmt.convert.hugging_face import HuggingFaceExport, check_exportable, tokenizer_json
from nmt.data.tokenizer import BOS, EOS, Tokenizer
from nmt.data.train_tokenizer import train_sentencepiece
from nmt.decode.translator import Translator
from nmt.errors import UserError
from nmt.runs.run import load

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
CASES = [
    pytest.param(each, marks=[pytest.mark.slow] * (number > 0))
    for number, each in enumerate(OPTIONS)
]


# pieces; ours ends a translation there, theirs breaks it off, so only shorter ones are compared
LIMIT = 30


def export(plain: Translator, config, folder: Path):
    """The folder, opened by transformers."""
    folder.mkdir()
    HuggingFaceExport(plain, config).write(folder, {"scores": {}})
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(
        folder, attn_implementation="eager"
    ).eval()
    return model, transformers.AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("options", CASES, ids=lambda options: "-".join(map(str, options.values())))
def test_logits_attentions_and_translations_are_the_same(options, vocabularies, tmp_path):
    plain, config = translator(vocabularies, **options)
    model, _ = export(plain, config, tmp_path / "hf")
    sources = some(plain.tokenizers.source.size, 0)
    targets = some(plain.tokenizers.source.size, 1)
    for source, target in zip(sources, targets, strict=True):
        ids = torch.tensor([[*source, EOS]]), torch.tensor([[BOS, *target]])
        decoded = plain.model(ids[0], None, ids[1], weights=True)
        output = model(input_ids=ids[0], decoder_input_ids=ids[1], output_attentions=True)
        torch.testing.assert_close(
            output.logits, plain.model.logits(decoded.hidden), atol=1e-4, rtol=0
        )
        own = (
            plain.model.encode(ids[0], None, weights=True).weights,
            decoded.self_weights,
            decoded.weights,
        )
        for name, weights in zip(("encoder", "decoder", "cross"), own, strict=True):
            theirs = torch.stack(output[f"{name}_attentions"], 1)
            torch.testing.assert_close(theirs, weights, atol=1e-5, rtol=0)
    for beam in (1, 4):
        decode = replace(
            plain.decode, beam=beam, avoid_loops=False, max_length_ratio=0.0, max_length_extra=LIMIT
        )
        wanted = [best[0].ids for best in plain.with_options(decode=decode).search(sources)]
        ended = [number for number, ids in enumerate(wanted) if len(ids) < LIMIT]
        found = [generate(model, sources[number], beam) for number in ended]
        assert len({tuple(ids) for ids in found}) > len(wanted) / 2
        assert found == [wanted[number] for number in ended]


def generate(model, source, beam: int) -> list[int]:
    """The pieces that transformers writes."""
    ids = model.generate(torch.tensor([[*source, EOS]]), num_beams=beam, max_length=LIMIT + 2)[
        0
    ].tolist()
    return [piece for piece in ids[1:] if piece != EOS]


def fast(tokenizer: Tokenizer):
    import tokenizers

    return tokenizers.Tokenizer.from_str(json.dumps(tokenizer_json(tokenizer)))


@pytest.fixture(
    scope="module",
    params=[
        "unigram",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("bpe", "unigram, small letters")),
    ],
)
def both(request, tmp_path_factory):
    """A SentencePiece tokenizer and its tokenizer.json."""
    folder = tmp_path_factory.mktemp("both")
    write_pairs(folder, "train", pairs(200))
    algorithm, _, lowercase = request.param.partition(", ")
    (config,) = compose_all([f"tokenizer={algorithm}", "tokenizer.protect=false"], multirun=False)
    options = replace(config.tokenizer, vocabulary_size=330, lowercase=bool(lowercase))
    model = train_sentencepiece(options, [folder / "train.de", folder / "train.en"])
    tokenizer = Tokenizer(model, bool(lowercase))
    return tokenizer, fast(tokenizer)


WORDS = st.sampled_from(
    [
        "der",
        "Bäcker",
        "Garten.",
        "rote",
        "x",
        "É",
        "日本",
        "e\u0301",
        "…",
        "  ",
        "zwei",
        "🎉",
        "<s",
        "ß",
    ]
)


TEXT = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=30
)


@given(text=st.one_of(st.lists(WORDS, max_size=12).map(" ".join), TEXT))
def test_pieces_and_text_are_the_same(both, text):
    """But for control characters, which normalisers of the two treat differently."""
    ours, theirs = both
    text = text.replace("▁", "_")
    ids = ours.encode(text)
    assert theirs.encode(text).ids == [*ids, EOS]
    assert theirs.decode(ids) == ours.decode(ids)


def test_a_run_is_exported_with_card_and_provenance(trained: Trained, tmp_path, capfd):
    folder = tmp_path / "hf"
    words = [
        "export",
        "tiny",
        "--runs",
        str(trained.runs),
        "--format",
        "hf",
        "--output",
        str(folder),
    ]
    answer = run_command(capfd, *words)
    assert answer.code == 0 and answer.out == f"{folder}\n", answer.err
    assert "lines keep their numbers" in answer.err and (folder / "text_filter.py").exists()
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert (
        "- test: BLEU " in card
        and card.count("nrefs:1") == 2
        and "library_name: transformers" in card
    )
    assert 'from_pretrained(".")' in card and "seed 1, update " in card
    assert (
        json.loads((folder / "provenance.json").read_text(encoding="utf-8"))["run"]["config"][
            "name"
        ]
        == "tiny"
    )
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    lines = [pair[0] for pair in pairs(24, seed=5)]
    run = load([trained.folder / "best.safetensors"])
    options = {"beam": 1, "avoid_loops": False, "max_length_ratio": 0.0, "max_length_extra": LIMIT}
    decode = replace(run.translator.decode, **options)
    wanted = list(run.translator.with_options(decode=decode).translate(lines))
    batch = tokenizer(lines, return_tensors="pt", padding=True)
    ids = model.generate(**batch, num_beams=1, max_length=LIMIT + 2)
    found = tokenizer.batch_decode(ids, skip_special_tokens=True)
    texts = [
        (each.text, text) for each, text in zip(wanted, found, strict=True) if len(each.ids) < LIMIT
    ]
    assert len(texts) > 12 and all(ours == theirs for ours, theirs in texts)


def test_what_has_no_architecture_is_refused(small_model, vocabularies):
    for name in (
        "transformer",
        "transformer_learned",
        "transformer_delta",
        "transformer_rotary",
        "luong_global",
    ):
        able = name in ("transformer", "transformer_learned")
        for joint in (True, False):
            message = (
                "one tokenizer must read and write"
                if able
                else ("cannot be exported for Hugging Face")
            )
            refused = pytest.raises(UserError, match=message)
            with contextlib.nullcontext() if able and joint else refused:
                check_exportable(small_config(name, ()), small_model(name), vocabularies[joint])

"""nmt export: what opens an exported folder translates as the run does, and what a format cannot
hold is refused; CTranslate2 as our engine of search."""

import importlib.util
import json
import re
import shutil
import sys
import zipfile
from collections.abc import Callable
from dataclasses import fields, replace
from importlib import resources
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from conftest import MODELS, composed, small_config
from corpora import Trained, pairs, run_command, write_pairs
from exporting import program, some, translator
from tensors import queries

from nmt.config.schema import Config
from nmt.config.validation import validate
from nmt.convert.argos import LONGEST
from nmt.convert.ctranslate2_folder import (
    CTranslate2Export,
    CTranslate2Translator,
    import_ctranslate2,
)
from nmt.convert.export import carried_licence, position_table, training_licences
from nmt.convert.formats import FORMATS
from nmt.convert.hugging_face import HuggingFaceExport
from nmt.corpus.checksums import read_json, write_json
from nmt.data.text_filter import OTHERS, PLACEHOLDERS, protect
from nmt.data.tokenizer import BOS, EOS, PAD, Tokenizer, Tokenizers
from nmt.data.train_tokenizer import train_sentencepiece
from nmt.decode.beam_search import Hypothesis
from nmt.decode.confidence import Calibration
from nmt.decode.translator import Query, Translator
from nmt.errors import UserError
from nmt.models.ensemble import Ensemble
from nmt.runs.run import load

needs_ctranslate2 = pytest.mark.skipif(
    importlib.util.find_spec("ctranslate2") is None,
    reason="ctranslate2 is not installed; the environment of `make test` brings it",
)
SENTENCE = "Ein Junge malt das rote Fahrrad im Garten."
OTHER = "Mein Bruder sucht zwei Bücher."
COPIED = "https://example.org/a?b=1"  # by the text filter alone
# pieces; ours ends a translation there, others break it off, so only shorter ones are compared
LIMIT = 30


def by_its_readme(folder: Path, lines: list[str]) -> list[str]:
    """By the program in the folder's README."""
    translate = program(folder, lines[0])
    return [translate(line) for line in lines]


def by_transformers(folder: Path, lines: list[str]) -> list[str]:
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder)
    batch = tokenizer(lines, return_tensors="pt", padding=True)
    ids = model.generate(**batch, max_length=LIMIT + 2)
    return tokenizer.batch_decode(ids, skip_special_tokens=True)


def by_argos(folder: Path, lines: list[str]) -> list[str]:
    """As argostranslate/translate.py does it, in its own options."""
    import ctranslate2
    import sentencepiece

    with zipfile.ZipFile(folder / "translate-de_en.argosmodel") as package:
        package.extractall(folder)
    model = str(folder / "de_en/sentencepiece.model")
    processor = sentencepiece.SentencePieceProcessor(model_file=model)
    engine = ctranslate2.Translator(str(folder / "de_en/model"), compute_type="float32")
    found = engine.translate_batch(
        [processor.encode(line, out_type=str) for line in lines],
        replace_unknowns=True,
        max_batch_size=32,
        batch_type="tokens",
        beam_size=1,
        length_penalty=0.2,
        max_decoding_length=LIMIT,
    )
    long = engine.translate_batch([["▁a"] * (LONGEST + 100)], beam_size=1, max_decoding_length=3)
    assert len(long) == 1  # positions for all that Argos Translate passes on
    return [processor.decode_pieces(each.hypotheses[0]).replace("▁", " ") for each in found]


# A browser opens that of html: test_html_page.py
OPENED_BY = {
    "ctranslate2": by_its_readme,
    "hf": by_transformers,
    "onnx": by_its_readme,
    "argos": by_argos,
}
GREEDY = {"beam": 1}
SEARCHED = [  # format, number format, search, and the share of translations that are the same
    pytest.param("ctranslate2", "float32", {"beam": 4, "length_penalty": 2.0}, 1, id="ctranslate2"),
    pytest.param("hf", "float32", GREEDY, 1, id="hf"),
    pytest.param("argos", "float32", GREEDY, 1, id="argos"),
    pytest.param("onnx", "float32", GREEDY, 1, id="onnx", marks=pytest.mark.slow),
    pytest.param("onnx", "int8", GREEDY, 0.7, id="onnx-int8", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("format", "quantization", "search", "share"), SEARCHED)
def test_what_opens_the_folder_translates_as_the_run(
    format, quantization, search, share, trained, tmp_path
):
    assert OPENED_BY.keys() == FORMATS.keys() - {"html"}
    for extra in filter(None, FORMATS[format].extras.split(",")):
        pytest.importorskip({"export": "onnxruntime"}.get(extra, extra))
    run = load([trained.folder / "best.safetensors"], precision="fp32")
    limit = {"avoid_loops": False, "max_length_ratio": 0.0, "max_length_extra": LIMIT}
    decode = replace(run.translator.decode, **search, **limit)
    plain = replace(run.translator, decode=decode)
    exporter = FORMATS[format].load()
    wanted = exporter(plain, replace(run.config, decode=decode), quantization)
    wanted.check()
    wanted.write(tmp_path, {"scores": {}})
    lines = [source for source, _ in pairs(40, seed=5)]
    lines = [line for line in lines if not plain.tokenizers.protect_sources([line])[0].spans]
    if FORMATS[format].text_filter == "used":
        lines.append(COPIED)
    translated = list(plain.translate(lines))
    found = OPENED_BY[format](tmp_path, lines)
    short = [number for number, each in enumerate(translated) if len(each.ids) < LIMIT]
    same = [found[number] == translated[number].text for number in short]
    assert len({found[number] for number in short}) > 8
    assert sum(same) >= share * len(short)


@needs_ctranslate2
@pytest.mark.parametrize("placeholders", [PLACEHOLDERS, OTHERS])
def test_what_an_export_says_of_the_filter_is_what_nmt_does(placeholders, vocabularies, tmp_path):
    """In the README's program, and in the call of `protect` on the card for transformers."""
    tags = ["<2en>", "<2fr>"]
    files = write_pairs(tmp_path, "train", pairs(200))
    options = replace(validate(composed("transformer")).tokenizer, vocabulary_size=330)
    model = train_sentencepiece(options, files, [*tags, *placeholders])
    tokenizer = Tokenizer(model, False)
    plain, config = translator(vocabularies | {True: Tokenizers(tokenizer, tokenizer)})
    folder = tmp_path / "export"
    folder.mkdir()
    CTranslate2Export(plain, config).write(folder, {"scores": {}})
    lines = [
        "<2fr> Der Hund hat 12 Bücher.",
        "<2en> DER HUND",
        "<2fr> dog",
        "<2en> http://10.0.0.1",
    ]
    translate = program(folder, lines[0])
    given = []

    def translate_batch(batch, **_):
        given.extend(tokenizer.processor.piece_to_id(each) for each in batch)
        return [SimpleNamespace(hypotheses=[["</s>"]])]

    translate.__globals__["engine"] = SimpleNamespace(translate_batch=translate_batch)
    found = list(map(translate, lines))
    copied = [each.text for each in plain.translate(lines) if each.is_copied]
    assert found == ["", "", "", *copied]
    protected = plain.tokenizers.protect_sources(lines[:3])
    assert given == [tokenizer.encode(each.text) for each in protected]

    card = HuggingFaceExport(plain, config).card(config.model, 1, {"scores": {}})
    call = re.search(r"protected = (protect\(line, .*?\))`", card)[1]
    for line in lines:
        assert eval(call, {"protect": protect, "line": line}) == protect(line, tags, placeholders)


TRANSFORMERS = {"transformer", "transformer_big", "transformer_learned", "transformer_tiny"}
HELD = {
    "ctranslate2": TRANSFORMERS | {"transformer_rotary"},
    "argos": TRANSFORMERS | {"transformer_rotary"},
    "hf": TRANSFORMERS,
    "onnx": set(MODELS),
    "html": set(MODELS),
}


@pytest.mark.parametrize("format", FORMATS)
def test_a_format_holds_a_model_or_says_why_not(format, small_model, vocabularies):
    """Every file of conf/model; an ensemble; two vocabularies; several languages."""
    for extra in filter(None, FORMATS[format].extras.split(",")):
        pytest.importorskip({"export": "onnxruntime"}.get(extra, extra))
    exporter = FORMATS[format].load()

    def check(
        name: str,
        joint: bool = True,
        source: str = "de",
        ensemble: bool = False,
        swapped: bool = False,
    ) -> str:
        """Why an export is refused; as the configuration alone tells it, unless as an ensemble."""
        config = validate(composed("transformer"))
        config.model = small_config(name, ())
        config.tokenizer.joint = joint
        config.data.source = source
        model = small_model(name, joint) if name in HELD[format] else None
        if ensemble:
            model = Ensemble([model])
        tokenizers = vocabularies[joint]
        if swapped:
            tokenizers = Tokenizers(tokenizers.target, tokenizers.source)
        export = exporter(SimpleNamespace(model=model, tokenizers=tokenizers), config)
        reason = ""
        try:
            export.check()
        except UserError as error:
            reason = str(error)
        told = exporter.misfit(config, is_imported=False)
        assert ensemble or (bool(told) == bool(reason) and told in reason)
        return reason

    for name in MODELS:
        if name not in SAME_CLASSES:
            assert bool(check(name)) == (name not in HELD[format]), name
    refusal = check("transformer", ensemble=True)
    assert f"--format {format}: " in refusal and "one run at a time" in refusal
    for swapped in (False, True):
        assert bool(check("transformer", joint=False, swapped=swapped)) == (format == "hf")
    assert bool(check("transformer", source="de+fr")) == (format == "argos")


PLAIN = {"prefixes": {}, "added": [], "normalizes": False}
KINDS = [  # what a tokenizer has besides its pieces, and the formats that hold it
    pytest.param({}, {"argos", "hf", "html", "onnx"}, id="nothing"),
    pytest.param({"prefixes": {"<2en>": []}}, {"argos", "hf", "html", "onnx"}, id="one tag"),
    pytest.param({"prefixes": {"<2en>": [], "<2de>": [7]}}, set(), id="several tags"),
    pytest.param({"added": ["<ph1>"]}, set(), id="added words"),
    pytest.param({"normalizes": True}, {"argos", "onnx"}, id="normalization"),
    pytest.param({"normalizes": True, "added": ["<ph1>"]}, set(), id="both"),
]


@pytest.mark.parametrize(("kind", "held"), KINDS)
@pytest.mark.parametrize("is_target", [False, True])
def test_what_an_imported_tokenizer_has_is_held_or_refused(kind, held, is_target):
    sides = [SimpleNamespace(**PLAIN), SimpleNamespace(**(PLAIN | kind))]
    tokenizers = sides if is_target else sides[::-1]
    for format in FORMATS.keys() - {"ctranslate2"}:
        try:
            FORMATS[format].load()(SimpleNamespace(tokenizers=tokenizers), None).check_tokenizers()
        except UserError as error:
            assert format not in held and f"--format {format}" in str(error)
        else:
            assert format in held


@pytest.mark.parametrize(
    ("version", "is_enough"),
    [("4.6.9", False), ("3.24.0", False), ("4.7.0", True), ("4.10", True), ("5.0.1", True)],
)
@needs_ctranslate2
def test_the_version_of_ctranslate2(version, is_enough, monkeypatch):
    monkeypatch.setattr("ctranslate2.__version__", version)
    if is_enough:
        assert import_ctranslate2().__version__ == version
    else:
        with pytest.raises(UserError, match=version):
            import_ctranslate2()


SAME_CLASSES = {"transformer_big", "transformer_tiny"}  # as transformer, with other sizes


def export(
    plain: Translator, config: Config, folder: Path, quantization: str = "float32"
) -> CTranslate2Translator:
    folder.mkdir()
    CTranslate2Export(plain, config, quantization).write(folder, {})
    return CTranslate2Translator.open(plain, folder)


def assert_same(results: list[list[Hypothesis]], wanted: list[list[Hypothesis]]) -> None:
    """The same best hypotheses, but where one was left out of the list: it took a place of the beam
    meanwhile."""
    whole = [len(best) == len(expected) for best, expected in zip(results, wanted, strict=True)]
    assert sum(whole) > len(whole) / 2
    same = [best[0].ids == expected[0].ids for best, expected in zip(results, wanted, strict=True)]
    assert all(is_same or not is_whole for is_same, is_whole in zip(same, whole, strict=True))
    assert sum(same) >= len(same) - 1
    for expected, best in zip(wanted, results, strict=True):
        scores = {tuple(each.ids): each.score for each in expected}
        found = [each.score for each in best]
        assert found == sorted(found, reverse=True) and 1 <= len(found) <= len(expected)
        assert found == pytest.approx(
            [scores.get(tuple(each.ids), each.score) for each in best], abs=1e-4
        )


@pytest.fixture
def own_searches(monkeypatch: pytest.MonkeyPatch) -> Callable[[Translator, list], tuple]:
    """own_searches(TRANSLATOR, SENTENCES) → its hypotheses, and of how many sentences they are
    those of our own search."""

    def search(searcher: Translator, sentences: list) -> tuple[list[list[Hypothesis]], int]:
        searched: list[int] = []
        plain = Translator.search_batch

        def counted(self: Translator, batch: list[Query]) -> list[list[Hypothesis]]:
            searched.append(len(batch))
            return plain(self, batch)

        with monkeypatch.context() as patch:
            patch.setattr(Translator, "search_batch", counted)
            return searcher.search(queries(sentences)), sum(searched)

    return search


JOINT = [
    # each two values of these three occur together
    {"norm": "pre", "activation": "relu", "tie_embeddings": True},
    {"norm": "pre", "activation": "gelu", "tie_embeddings": False},
    {"norm": "post", "activation": "relu", "tie_embeddings": False},
    {"norm": "post", "activation": "gelu", "tie_embeddings": True},
    {"positions": "learned", "encoder_layers": 1, "decoder_layers": 2, "num_heads": 2},
]
SEPARATE = [{"tie_embeddings": True}, {"norm": "post", "positions": "rotary"}]
FAST = (JOINT[0], SEPARATE[-1])
# one joint vocabulary, or two
CASES = [*((each, True) for each in JOINT), *((each, False) for each in SEPARATE)]


@needs_ctranslate2
@pytest.mark.parametrize(
    ("options", "joint"),
    [pytest.param(*each, marks=[pytest.mark.slow] * (each[0] not in FAST)) for each in CASES],
)
def test_both_engines_translate_the_same(options, joint, vocabularies, tmp_path, own_searches):
    plain, config = translator(vocabularies, joint, **options)
    faster = export(plain, config, tmp_path / "export")
    sentences = some(plain.tokenizers.source.size, 0)
    # A loop that CTranslate2 keeps open for a while takes a place of its beam
    for beam, alpha, avoid_loops in ((1, 1.0, True), (5, 0.0, False), (3, 0.6, False)):
        decode = replace(plain.decode, beam=beam, length_penalty=alpha, avoid_loops=avoid_loops)
        wanted = replace(plain, decode=decode).search(queries(sentences))
        results, own = own_searches(replace(faster, decode=decode), sentences)
        assert_same(results, wanted)
        assert own < len(sentences) / 2, "our own search has translated most of it"
        assert len({tuple(best[0].ids) for best in wanted}) > len(sentences) / 2
        assert len({len(best[0].ids) for best in wanted}) > 3


SHORT = {"max_length_ratio": 0.5, "max_length_extra": 1}
LEFT = [  # what the model wants to write, or not at all; the search; threads
    pytest.param([EOS], -99, SHORT, 1, id="no end"),
    pytest.param([PAD, BOS], 99, {"beam": 1}, 1, id="padding, greedy", marks=pytest.mark.slow),
    pytest.param([PAD, BOS], 99, {"beam": 4}, 1, id="padding", marks=pytest.mark.slow),
    pytest.param(
        [],
        0,
        {"batch_tokens": 40, "max_length_ratio": 0.9, "max_length_extra": 1},
        3,
        id="threads",
        marks=pytest.mark.slow,
    ),
]


@needs_ctranslate2
@pytest.mark.parametrize(("pieces", "weight", "search", "threads"), LEFT)
def test_what_it_cannot_search_is_left_to_our_own_search(
    pieces, weight, search, threads, vocabularies, tmp_path, monkeypatch, own_searches
):
    """A hypothesis without end, which is ended at its limit; <pad> and <s>. Each thread has a batch
    of its own, and our own search runs alone."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    plain, config = translator(vocabularies, tie_embeddings=False)
    plain.model.output.weight[pieces, 0] = weight
    plain = replace(plain, decode=replace(plain.decode, **search))
    faster = export(plain, config, tmp_path / "export")
    assert faster.threads == threads
    sentences = some(plain.tokenizers.source.size, 0, 60 if threads > 1 else 24)
    results, own = own_searches(faster, sentences)
    assert_same(results, plain.search(queries(sentences)))
    assert own == len(sentences) if pieces else 0 < own < len(sentences)
    assert not any({PAD, BOS} & set(hypothesis.ids) for best in results for hypothesis in best)
    if search is SHORT:
        assert [len(best[0].ids) for best in results] == [len(ids) // 2 + 1 for ids in sentences]


@needs_ctranslate2
def test_what_is_longer_than_the_exported_positions_is_left_to_our_own_search(
    vocabularies, tmp_path
):
    """Such as a translation that begins with a given text; the others of its batch are not."""
    plain, config = translator(vocabularies, tie_embeddings=False)
    faster = export(plain, config, tmp_path / "export")
    batch = queries([range(20, 84), range(30, 40), range(50, 70)])
    for query in batch:
        query.source.begin = (20, 21, 22)
    assert faster.limit(batch[0]) == faster.positions + 3
    results = faster.search_batch(batch)
    for best, expected in zip(results, plain.search_batch(batch), strict=True):
        assert best[0].ids == expected[0].ids and best[0].ids[:3] == [20, 21, 22]
    by_us = [bool(best[0].log_probabilities) for best in results]
    assert by_us == [True, False, False]


def test_a_sentence_is_searched_again_only_where_its_best_hypothesis_is_wrong(vocabularies):
    """A lower one that our search would not write is left out."""
    plain, _ = translator(vocabularies, True)
    same = {each.name: getattr(plain, each.name) for each in fields(Translator)}
    faster = CTranslate2Translator(**same)
    good = [20, 21, 22, EOS]
    short = [23, 24, EOS]
    longest = [*range(20, 27), EOS]

    def complete(*hypotheses: list[int]) -> list[Hypothesis] | None:
        pieces = [plain.tokenizers.target.pieces(ids) for ids in hypotheses]
        scores = [-float(rank) for rank in range(len(pieces))]
        result = SimpleNamespace(hypotheses=pieces, scores=scores)
        return faster.complete_hypotheses(result, [10, 11, 12], len(longest))

    # a loop, no end, a special piece, too long
    for wrong in ([20, 21] * 3 + [EOS], [20, 21], [20, PAD, EOS], [20, BOS, EOS], [19, *longest]):
        assert complete(wrong, good) is None
        assert complete(good, wrong, short) == [
            Hypothesis(good[:-1], 0.0),
            Hypothesis(short[:-1], -2.0),
        ]
    assert complete(longest) == [Hypothesis(longest[:-1], 0.0)]

    sides = SimpleNamespace(
        source=SimpleNamespace(placeholder_ids=[30]), target=SimpleNamespace(placeholder_ids=[31])
    )
    faster = CTranslate2Translator(**(same | {"tokenizers": sides}))
    for count in (0, 1, 2):
        ids = [20, *[31] * count, 21, EOS]
        assert faster.is_right(ids, [10, 11], 9) == (count == 0)
        assert faster.is_right(ids, [10, 30], 9) == (count == 1)


@pytest.mark.parametrize(
    ("threads", "beam", "batch_tokens"), [(1, 1, 4096), (3, 1, 4096), (2, 4, 400), (1, 5, 400)]
)
def test_each_thread_has_a_batch_that_fits(threads, beam, batch_tokens, vocabularies):
    plain, _ = translator(vocabularies, True)
    decode = replace(plain.decode, beam=beam, batch_tokens=batch_tokens)
    same = {each.name: getattr(plain, each.name) for each in fields(Translator)}
    faster = CTranslate2Translator(**(same | {"decode": decode}), threads=threads)
    sentences = some(plain.tokenizers.source.size, 0, 60)
    batches = faster.batches(queries(sentences))
    assert sorted(number for batch in batches for number in batch) == [*range(60)]
    for batch in batches:
        longest = max(len(sentences[number]) for number in batch)
        assert len(batch) * (longest + 1) * beam <= faster.batch_tokens
    assert len(batches) >= threads
    assert beam > 1 or len(batches) <= threads + 1


def test_a_learned_table_of_positions_repeats_its_last_row(vocabularies):
    """Where it is shorter than a sentence that the opener may pass on."""
    plain, config = translator(vocabularies, positions="learned")
    module = plain.model.source_positions
    size = config.model.hidden_size
    known = len(module.table)
    table = position_table(module, size, known + 3)
    embedded = module(torch.zeros(1, known, size), 0)[0]
    torch.testing.assert_close(table[:known], embedded)
    assert torch.equal(table[known:], table[known - 1].expand(3, -1))
    assert torch.equal(position_table(module, size, 2), table[:2])


@needs_ctranslate2
def test_int8_is_another_model_and_nearly_the_same(vocabularies, tmp_path):
    plain, config = translator(vocabularies)
    before = {name: tensor.clone() for name, tensor in plain.model.state_dict().items()}
    faster = export(plain, config, tmp_path / "int8", "int8")
    full = export(plain, config, tmp_path / "float32")
    after = plain.model.state_dict()
    assert all(torch.equal(tensor, before[name]) for name, tensor in after.items())
    sentences = some(plain.tokenizers.source.size, 0)
    results = faster.search(queries(sentences))
    wanted = full.search(queries(sentences))
    equal = [
        quantized[0].ids == exact[0].ids for quantized, exact in zip(results, wanted, strict=True)
    ]
    assert sum(equal) > len(sentences) / 2
    assert [best[0].score for best in results] != [best[0].score for best in wanted]
    sizes = [(tmp_path / name / "model.bin").stat().st_size for name in ("int8", "float32")]
    assert sizes[0] < sizes[1] / 2


@pytest.fixture
def nmt(trained: Trained, tmp_path, capfd):
    """nmt(VERB, WORD …) with a copy of the trained run, since an export is written into its
    folder."""
    folder = tmp_path / "runs" / "tiny"
    (folder / "evaluate" / "test").mkdir(parents=True)
    for name in ("best.safetensors", "evaluate/test/result.json"):
        shutil.copy(trained.folder / name, folder / name)
    return lambda verb, *words: run_command(
        capfd, verb, "tiny", "--runs", str(tmp_path / "runs"), *words
    )


CTRANSLATE2 = ("--engine", "ctranslate2")


def test_without_the_extra_there_is_one_sentence(nmt, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    for words in (["export", "--format", "ctranslate2"], ["translate", *CTRANSLATE2, SENTENCE]):
        answer = nmt(*words)
        assert answer.code == 2 and answer.out == ""
        assert "pip install" in answer.err and answer.err.count("\n") == 1
    assert nmt("translate", SENTENCE).code == 0


@pytest.mark.slow
@needs_ctranslate2
def test_translate_prints_the_same_with_both_engines(nmt, tmp_path):
    """Placeholders, long lines and other scripts among them; what loses a placeholder is searched
    by PyTorch again."""
    items = ("12.5.2024", "{name}", "8:15", "max@example.org")
    lines = [
        "Am 12.5.2024 malt {name} das Fahrrad um 8:15, max@example.org.",
        SENTENCE,
        "",
        "Der Bäcker kauft einen Apfel. " * 60,
        "   ",
        OTHER,
        "الولد يرسم 🚲.",
        "▁▁ <s> </s> <pad> <unk>",
        "Ein Junge\u2028malt.",
    ]
    file = tmp_path / "some.de"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    for words in ([], ["--prefix", "The 12"]):
        own = nmt("translate", "--input", str(file), *words)
        exported = nmt("translate", "--input", str(file), *words, *CTRANSLATE2)
        assert exported.code == 0 and "parts" in exported.err
        assert exported.out == own.out
        first = exported.out.partition("\n")[0]
        assert all(first.count(item) == 1 for item in items)
    words = ["--input", str(file), "--nbest", "3", "--beam", "4", "--format", "jsonl"]
    answers = nmt("translate", *words), nmt("translate", *words, *CTRANSLATE2)
    records = [[json.loads(line) for line in answer.out.splitlines()] for answer in answers]
    for ours, theirs in zip(*records, strict=True):
        assert ours["text"] == theirs["text"]
        assert len(ours.get("nbest", [])) == len(theirs.get("nbest", []))
        assert theirs["score"] == pytest.approx(ours["score"], abs=2e-3)
        assert ours.get("alignment") == theirs.get("alignment")


@needs_ctranslate2
def test_an_export_is_written_once_with_its_provenance(nmt, tmp_path):
    """It is written again where the run has another score, and damage is told."""
    translate = ("translate", *CTRANSLATE2, SENTENCE)
    write = ("export", "--format", "ctranslate2")
    first = nmt(*translate)
    assert "Exported to" in first.err
    again = nmt(*translate)
    written = nmt(*write)
    assert again.out == first.out and "Exported" not in again.err + written.err
    folder = Path(written.out.strip())
    assert list(folder.parent.iterdir()) == [folder]
    assert folder.name.startswith("ctranslate2-float32-")
    assert "ctranslate2-int8-" in nmt(*write, "--quantization", "int8").out
    result = tmp_path / "runs/tiny/evaluate/test/result.json"
    provenance = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
    assert provenance["scores"]["test"]["bleu"] == read_json(result)["bleu"]
    assert provenance["run"]["checkpoint"] == "tiny/best.safetensors"
    assert {"nmt", "torch", "ctranslate2"} <= provenance["made_with"].keys()

    write_json(result, read_json(result) | {"bleu": 12.34})
    assert "Exported" not in nmt(*translate).err
    assert nmt(*write).out == written.out
    provenance = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
    assert provenance["scores"]["test"]["bleu"] == 12.34

    (folder / "model.bin").write_bytes((folder / "model.bin").read_bytes()[:1000])
    answer = nmt(*translate)
    assert answer.code == 2 and "model.bin is damaged" in answer.err and answer.err.count("\n") == 1
    output = tmp_path / "carried"
    assert nmt(*write, "--output", str(output)).out == f"{output}\n"
    assert nmt(*write, "--output", str(output)).code == 2


def test_the_card_of_an_export_for_transformers(nmt, tmp_path, trained):
    """It tells scores and origin, and the text filter lies beside the model."""
    folder = tmp_path / "hf"
    answer = nmt("export", "--format", "hf", "--output", str(folder))
    assert answer.code == 0 and answer.out == f"{folder}\n", answer.err
    card = (folder / "README.md").read_text(encoding="utf-8")
    score = read_json(trained.folder / "evaluate/test/result.json")["bleu"]
    assert f"- test: BLEU {score:.2f}" in card and card.count("nrefs:1") == 2
    assert 'from_pretrained(".")' in card and "seed 1, update " in card
    assert (folder / "text_filter.py").exists()
    provenance = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
    assert provenance["run"]["config"]["name"] == "tiny"


def test_options_that_do_not_go_together_are_refused(refused, trained):
    for words, said in (
        ("export", "--format"),
        ("export --format onyx", "onyx"),
        ("export --format hf --quantization int8", "--quantization float32"),
        ("export --format onnx --quantization bfloat16", "--quantization float32, int8"),
        ("export --format ctranslate2 --push a/b", "--push"),
        ("export --format hf --push ../x", "OWNER/NAME"),
        ("export --format onnx --license mit", "--license"),
        ("export --format argos --license a=b", "--license"),
        ("export --format argos --output x.argosmodel", "--output"),
        ("export --format onnx --onnxruntime-web x.tgz", "--onnxruntime-web"),
        ("translate --engine torch --quantization int8 Ja.", "--engine ctranslate2"),
    ):
        verb, *options = words.split()
        assert said in refused(verb, str(trained.folder), *options), words


def test_every_format_has_its_class_and_its_row_in_the_guide():
    guide = (Path(__file__).parents[1] / "docs/guides/export.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \|.*\|(?: `\.\[([\w,]+)\]`)? \|$", guide, re.MULTILINE)
    assert dict(rows) == {name: format.extras for name, format in FORMATS.items()}
    for name, format in FORMATS.items():
        exporter = format.load()
        assert exporter.format == name
        assert {option.field for option in format.options} <= {one.name for one in fields(exporter)}
        exporter.check_options(None, {"licence": "cc-by-4.0"})
        for wrong in ("a=b", "", "-x", "a b", "m" * 65):
            with pytest.raises(UserError, match="--license"):
                exporter.check_options(None, {"licence": wrong})


def test_the_name_of_an_export_changes_with_its_content(vocabularies, tmp_path, monkeypatch):
    """And is that of the same content again, where a run is exported twice."""
    plain, config = translator(vocabularies)
    exporter = FORMATS["hf"].load()

    def name(**changes: object) -> str:
        return exporter(**({"translator": plain, "config": config} | changes)).name

    of_run = name()
    other, _ = translator(vocabularies, encoder_layers=1)
    names = [
        of_run,
        name(quantization="int8"),
        name(licence="mit"),
        name(data_licences=("CC0",)),
        name(repository="me/it"),
        name(config=replace(config, decode=replace(config.decode, beam=7))),
        name(translator=other),
        name(translator=replace(plain, tokenizers=vocabularies[False])),
        name(translator=replace(plain, calibration=Calibration(2.0, 0.5))),
        FORMATS["ctranslate2"].load()(plain, config).name,
    ]
    assert len(set(names)) == len(names) and name() == of_run
    with torch.no_grad():
        plain.model.output.weight[7, 3] += 1
    changed = name()
    assert changed != of_run
    for folder in ("templates", "web"):
        shutil.copytree(resources.files("nmt.convert").joinpath(folder), tmp_path / folder)
    monkeypatch.setattr("nmt.convert.export.resources.files", lambda package: tmp_path)
    assert name() == changed
    for folder in ("templates", "web"):
        file = next((tmp_path / folder).iterdir())
        file.write_bytes(file.read_bytes() + b"\n")
        assert name() != changed
        changed = name()


ORIGINS = [  # the licences in the report of a corpus, and what a card names of them
    ([{"license": "MIT"}, {"license": "CC0"}, {"license": "MIT"}], ("MIT", "CC0")),
    ([{"license": "MIT"}, {}], ()),
    ([{"license": "MIT\x1b[0m"}], ()),
    ([None], ()),
    ([], ()),
]


def test_licences_are_named_where_all_are_known(tmp_path):
    config = validate(composed("transformer"))
    for kind, known in (("phrasebook", ("MIT",)), ("files", ())):
        config.data.kind = kind
        assert training_licences(config, None) == known
        assert training_licences(config, tmp_path / "gone") == known
    for origins, named in ORIGINS:
        report = {"audit": {"train": {"origins": origins}}}
        (tmp_path / "report.json").write_text(json.dumps(report))
        assert training_licences(config, tmp_path) == named, origins


@pytest.mark.parametrize(
    ("card", "licence"),
    [
        ("---\nlicense: cc-by-4.0\nlanguage: de\n---\n", "cc-by-4.0"),
        ("---\nlanguage: de\nlicense:  'mit'\n---\nlicense: other\n", "mit"),
        ('---\nlicense: "mit" # so\n---\n', "mit"),
        ("---\nlanguage: de\n---\nlicense: mit\n", None),
        ("license: mit\n", None),
        ("---\nlicense: <b>\n---\n", None),
        (f"---\nlicense: {'m' * 64}\n---\n", "m" * 64),
        (f"---\nlicense: {'m' * 65}\n---\n", None),
    ],
)
def test_the_licence_of_an_imported_model_is_that_of_its_card(card, licence, tmp_path):
    assert carried_licence(None) is carried_licence(tmp_path) is None
    (tmp_path / "README.md").write_text(card, encoding="utf-8")
    assert carried_licence(tmp_path) == licence

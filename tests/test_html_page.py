"""nmt export --format html: its scripts do what the Python does, and the page translates as the
command in Chromium."""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from chromium import Browser, find_chromium, translated
from conftest import composed, small_config
from corpora import pairs, write_pairs
from hypothesis import given, settings
from hypothesis import strategies as st
from test_beam_search import Table, random_table, sources
from test_copied_numbers import ADDRESSES, ITEMS, OTHER_NUMBERS, SEPARATED, texts
from test_rough_input import APART, LONG, moved
from test_text import WITH_WORDS, WITHOUT_WORDS

from nmt.config.validation import validate
from nmt.convert import html_page
from nmt.convert.html_page import WORKER, HtmlExport, filter_rules, tokenizer_table
from nmt.corpus.normalization import normalize
from nmt.corpus.words import WordPair, join_texts
from nmt.data.text_filter import Encoded, has_words, protect
from nmt.data.tokenizer import BOS, EOS, PAD, UNK, Tokenizer, Tokenizers
from nmt.data.train_tokenizer import train_sentencepiece
from nmt.decode.beam_search import search
from nmt.decode.constraints import (
    LoopAndPlaceholderConstraint,
    longest_allowed_runs,
    source_repeats,
)
from nmt.decode.long_lines import split_position
from nmt.decode.translator import Translator
from nmt.errors import UserError
from nmt.models.build import build

WEB = Path(html_page.__file__).with_name("web")
TAGS = ["<bt>", "<2de>", "<2fr>"]
LINES = [
    "  zwei   Räume \u2581 ein Zeichen\u2581 ",
    "Ünïcode: \U0001f600 日本語 é\u0301 \x00 \t x",
    "aaaa aaaaa aaaa",
    "",
    "   ",
    "Am 12.5.2024, 14:30 an max.muster@example.org, siehe https://a.de/b(c), 3 € oder 1 234,5 km!",
    "Frau Grzybowska-Nowak trifft Dr. Xylander in `code` und {name} %s /usr/bin/x datei.txt :-) "
    "\U0001f1e9\U0001f1ea",
    "<b>fett</b> &amp; #tag @du --option=1 fooBar() 0xff AB-12 v2.3 (www.x.de/a).",
    "ein zwei \uf100 drei \uf201",
    "Teil 7L0 407 182 E für np.zeros((3, 4)) auf localhost:8080/a von B-XY 12 E, 12,- €, "
    "'E:\\Büro\\a.b', C++.",
    r"x^2 - 5x = 0, p < 0.05, CO₂, Ca(OH)2, \cite{a}, $f: X \to Y$, ^\d{5}$, 230 V, 3 x 4 cm, "
    r"%{n}{m}",
    "SELECT a FROM t WHERE b = 'x'; git rebase -i HEAD~3, [::1]:90, >=3.9, 54°10'42\" N, \"a\": "
    "true, »Scan 4.tif«",
    "%1$,d %(,.2f %(x).2f %<x>.2f %.*s %1$tB %1!s! %<PRIu64> % 5d, aber 50% der, 50 %a, in % d.",
]


def run_web(cases: list[str], data: object = None, files=WORKER) -> list:
    """The values of expressions over the scripts of the worker, in Node; `self` is an object."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed; the scripts of the page are not tested")
    paths = [str(WEB / f"{name}.js") for name in files]
    message = json.dumps({"files": paths, "cases": cases, "data": data})
    script = Path(__file__).with_name("web.mjs")
    process = subprocess.run(
        [node, str(script)], input=message, capture_output=True, text=True, timeout=120
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory) -> list[Tokenizer]:
    """Unigram and BPE, with and without bytes for what is unknown, with placeholders and tags."""
    folder = tmp_path_factory.mktemp("text")
    write_pairs(folder, "train", pairs(300))
    base = validate(composed("transformer")).tokenizer
    found = []
    for algorithm, byte_fallback in (
        ("unigram", True),
        ("bpe", True),
        ("unigram", False),
        ("bpe", False),
    ):
        config = replace(base, algorithm=algorithm, byte_fallback=byte_fallback, protect=True)
        config.vocabulary_size = 380 if byte_fallback else 130
        model = train_sentencepiece(config, [folder / "train.de", folder / "train.en"], TAGS)
        found.append(Tokenizer(model, False))
    return found


def test_pieces_and_texts_are_those_of_sentencepiece(tokenizers):
    lines = [
        *LINES,
        *(line for pair in pairs(40) for line in pair),
        "<bt> Der Hund <bt>x",
        "ha ha ha ha",
        "eindermannschläft" * 6000,  # in seconds, not minutes
    ]
    texts = [normalize(line, False) for line in lines]
    ids = [[tokenizer.encode(text) for text in texts] for tokenizer in tokenizers]
    odd = [[5, UNK, 120, 7], [*range(4, 120)], [4 + 0x63, 4 + 0x54, 100], [PAD, EOS, 60]]
    data = {
        "tables": [tokenizer_table(each) for each in tokenizers],
        "texts": texts,
        "ids": [row + odd for row in ids],
    }
    encoded, decoded = run_web(
        [
            "data.tables.map((table) => data.texts.map((text) => new "
            "SentencePiece(table).encode(text)))",
            "data.tables.map((table, side) => data.ids[side].map((row) => new "
            "SentencePiece(table).decode(row)))",
        ],
        data,
    )
    assert encoded == ids
    wanted = [
        [each.processor.decode(row) for row in rows]
        for each, rows in zip(tokenizers, data["ids"], strict=True)
    ]
    assert decoded == wanted


def known_lines() -> list[str]:
    """Lines of the tests of the filter itself."""
    items = [*chain.from_iterable(ITEMS.values()), *OTHER_NUMBERS, *ADDRESSES]
    lines = [
        *LINES,
        "<bt> DIE STRASSE",
        "DIE STRAßE",
        "İKİ KIZ",
        "ßßßß",
        "a@b.example.org, HAUS.DE:80/x?y",
        "x" * 300,
    ]
    lines += ["<2fr> http://10.0.0.1/a", "...x", "\uf101 km", *WITHOUT_WORDS, *WITH_WORDS]
    lines += map("/".join, zip(WITHOUT_WORDS, WITH_WORDS, strict=False))
    lines += [text for item in items for text in texts(item)] + [text for text, _ in SEPARATED]
    return lines + [part * (100_000 // len(part)) for part in LONG]


def random_lines() -> list[str]:
    """Lines of what the patterns look for."""
    found: list[str] = []
    parts = (
        "a Bc Ü ß 1 23 4.5 (0) +4 0076 AB12 CD3E 年 v ’ – , . : / @ # - -- _ ( ) € $ % {x} \u00a0 "
        "\u2028 ² https:// a.de 😀 \ufe0f"
    ).split(" ")

    @settings(max_examples=1000, database=None, derandomize=True)
    @given(st.lists(st.sampled_from(parts), max_size=12), st.sampled_from(["", " "]))
    def collect(words: list[str], separator: str) -> None:
        found.append(separator.join(words))

    collect()
    return found


@pytest.mark.parametrize("lines", [known_lines, pytest.param(random_lines, marks=pytest.mark.slow)])
def test_the_text_filter_is_that_of_python(lines):
    """What is protected in a line, and whether it has words of a language."""
    found = lines()
    data = {"rules": filter_rules(), "lines": found}
    protected, words = run_web(
        [
            "data.lines.map((line) => new TextFilter(data.rules, ['<bt>']).protect(line))",
            "data.lines.map((line) => new TextFilter(data.rules, []).hasWords(line))",
        ],
        data,
    )
    assert protected == [vars(protect(line, {"<bt>"})) for line in found]
    assert words == [has_words(line) for line in found]


def test_what_moved_apart_is_put_together_as_in_python():
    data = {
        "rules": filter_rules(),
        "moved": [(source, moved(source, target)[1]) for source, target, _ in APART],
    }
    (apart,) = run_web(
        [
            "data.moved.map(([source, target]) => restore(target, new TextFilter(data.rules, "
            "[]).protect(source)))"
        ],
        data,
    )
    assert apart == [shown for _, _, shown in APART]


def test_words_and_their_weights_are_those_of_python():
    source = ["▁Der", "▁klei", "ne", "▁Hund", ".", "▁日本", "語", "<0xC3>", "<0xA4>"]
    target = ["▁The", "▁dog", "gy", '."', "▁"]
    torch.manual_seed(1)
    weights = torch.rand(len(target) + 1, len(source) + 1).softmax(1).numpy()
    centres = torch.rand(len(target)).numpy() * 8
    words = WordPair.from_pieces(source, target)
    data = {
        "source": source,
        "target": target,
        "weights": weights.tolist(),
        "centres": centres.tolist(),
    }
    start = "const [left, right] = [splitIntoWords(data.source), splitIntoWords(data.target)];"
    split, merged, windows = run_web(
        [
            "[splitIntoWords(data.source).words, splitIntoWords(data.target).words]",
            f"{{ {start} mergeWeights(data.weights, left, right) }}",
            f"{{ {start} windowSpans(data.centres, 1.5, left, right) }}",
        ],
        data,
    )
    assert split == [words.source, words.target]
    assert torch.tensor(merged).numpy() == pytest.approx(words.merge(weights), abs=1e-5)
    for ours, theirs in zip(windows, words.window_spans(centres, 1.5), strict=True):
        assert ours == pytest.approx(theirs, abs=1e-5)


def test_long_lines_are_split_and_joined_as_in_python():
    pieces = [*"▁a b . ▁c d ▁e".split(" ")] * 6
    texts = [["Ja.", "Nein"], ["日本。", "語"], ["a", "日"], ["x"]]
    data = {
        "pieces": pieces,
        "texts": texts,
        "repeats": [[5, 6, 5, 6, 5, 3], [5, 5, 3], [4, 5, 6, 3], [7, 3]],
    }
    splits, joined, repeats, most = run_web(
        [
            "[5, 9, 12, 20].map((stop) => splitPosition(data.pieces, 2, stop))",
            "data.texts.map(joinTexts)",
            "data.repeats.map(sourceRepeats)",
            "[1, 2, 3].map(longestAllowedRuns)",
        ],
        data,
    )
    assert splits == [split_position(pieces, 2, stop) for stop in (5, 9, 12, 20)]
    assert joined == [join_texts(each) for each in texts]
    assert repeats == [int(source_repeats(torch.tensor([each]))[0]) for each in data["repeats"]]
    assert most == longest_allowed_runs(torch.tensor([1, 2, 3])).tolist()


def test_the_tags_of_a_line_are_those_of_python(tokenizers):
    """Each part of a long line begins with them, and a line without a language is refused."""
    long = " Der Hund schläft. Ein Mann lief schnell weg." * 3
    lines = [
        long,
        f"<2fr>{long}",
        f"<bt> <2de>{long}",
        "<2fr> " * 30 + "Hund",
        "<bt> Hund",
        " <2fr> Hund",
        "<2fr>Hund",
        "<2de>",
        " ",
    ]
    wanted: list[list] = []
    refused = []
    for line in lines:
        for tokenizer in tokenizers:
            translator = SimpleNamespace(max_pieces=12, tokenizers=Tokenizers(tokenizer, tokenizer))
            wanted.append(Translator.split_long(translator, Encoded(tokenizer.encode(line)), 1))
        try:
            Tokenizers(tokenizer, tokenizer).check_languages([line], 1)
            refused.append(False)
        except UserError:
            refused.append(True)
    export = SimpleNamespace(translator=translator, config=None)
    tables = HtmlExport.data(export, {"joint": True, "protects": False})["tables"]
    data = {
        "tables": tables,
        "pieces": [tokenizer.all_pieces for tokenizer in tokenizers],
        "ids": [[tokenizer.encode(line) for tokenizer in tokenizers] for line in lines],
        "lines": lines,
    }
    found, errors = run_web(
        [
            "data.ids.flatMap((sides) => sides.map((ids, side) => "
            "splitLong(ids, data.pieces[side], new Set(data.tables.tags), 12)))",
            "Promise.all(data.lines.map((line) => "
            "new Translator({ joint: true, max_pieces: 1000 }, data.tables, null, null)"
            ".translate(line, 1).then(() => null, (error) => error.constructor.name)))",
        ],
        data,
    )
    assert found == wanted
    assert [error == "LineError" for error in errors] == refused
    assert sum(refused) == 4


PIECES = st.integers(6, 9)
TARGETS = st.lists(PIECES, max_size=5).flatmap(
    lambda span: st.lists(PIECES, max_size=3).map(lambda rest: (span * 4)[:14] + rest)
)


@pytest.mark.parametrize("avoid_loops", [False, True])
def test_what_may_be_written_next_is_that_of_python(avoid_loops):
    """Pieces 4 and 5 are placeholders of the source, 6 and 7 those of the target."""
    cases: list[dict[str, list]] = []

    @settings(max_examples=100, database=None, derandomize=True)
    @given(st.lists(st.sampled_from([4, 5, 10, 11]), max_size=6), TARGETS)
    def collect(source: list[int], ids: list[int]) -> None:
        values = torch.randn(12, generator=torch.Generator().manual_seed(len(cases))).tolist()
        cases.append({"source": [*source, EOS], "ids": ids, "values": values})

    collect()
    wanted = []
    for case in cases:
        source = torch.tensor([case["source"]])
        constraint = LoopAndPlaceholderConstraint.start(source, [4, 5], [6, 7], avoid_loops)
        for piece in case["ids"]:
            first = torch.zeros(1, 1, dtype=torch.long)
            constraint = constraint.extend(first[0], first, torch.tensor([[piece]]))
        case["values"][PAD] = -1e9
        values = torch.tensor(case["values"])[None, None]
        constraint.apply(values)
        wanted.append([max(value, -1e9) for value in values[0, 0].tolist()])
    (found,) = run_web(
        [
            "data.cases.map(({ source, ids, values }) => {"
            f" const start = Constraints.start(source, [4, 5], [6, 7], {json.dumps(avoid_loops)});"
            " const all = ids.reduce((constraints, id) => constraints.extend(id), start);"
            f" all.apply(values, {PAD}, {EOS});"
            " return values.map((value) => Math.max(value, -1e9)); })"
        ],
        {"cases": cases},
    )
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours == pytest.approx(theirs)


@pytest.mark.parametrize("early_stopping", [True, False])
@pytest.mark.parametrize(("beam", "alpha"), [(1, 1.0), (3, 0.0), (3, 1.4)])
def test_the_search_is_that_of_python(beam, alpha, early_stopping):
    """Of models that are tables, as those of test_beam_search.py."""
    steps = 8
    tables = torch.cat([random_table(1, steps, seed) for seed in range(30)])
    wanted = search(
        Table(tables),
        sources(len(tables)),
        None,
        beam,
        alpha,
        torch.full((len(tables),), steps),
        early_stopping=early_stopping,
    )
    settings = {"beam": beam, "alpha": alpha, "limit": steps, "earlyStopping": early_stopping}
    data = {
        "tables": tables.tolist(),
        "settings": settings | {"pad": PAD, "bos": BOS, "eos": EOS},
    }
    (found,) = run_web(
        [
            """Promise.all(data.tables.map((table) => {
                const model = {
                    encode: async () => ({ state: 0 }),
                    decode: async (tokens, _, step) => ({
                        logits: tokens.flatMap((token) => table[step][token]),
                        state: step + 1,
                    }),
                    reorder: (state) => state,
                };
                return search(model, [], data.settings, null, () => false);
            }))"""
        ],
        data,
    )
    for ours, theirs in zip(found, wanted, strict=True):
        assert [each["ids"] for each in ours] == [each.ids for each in theirs]
        assert [each["score"] for each in ours] == pytest.approx([each.score for each in theirs])


def test_a_newer_request_ends_the_one_before():
    """The second comes while the line `b` of the first is translated."""
    (said,) = run_web(
        [
            """(async () => {
                const said = [];
                self.postMessage = (message) => said.push(message);
                opened = { translate: async (line) => {
                    if (line === "b") await self.onmessage({ data: { id: 2, lines: ["x", "y"] } });
                    return line;
                } };
                await self.onmessage({ data: { id: 1, lines: ["a", "b", "c"] } });
                return said;
            })()"""
        ],
        files=("worker",),
    )
    assert said == [
        {"id": 1, "index": 0, "translation": "a"},
        {"id": 2, "index": 0, "translation": "x"},
        {"id": 2, "index": 1, "translation": "y"},
        {"id": 2, "done": True},
    ]


def test_float16_holds_a_matrix_or_it_stays_as_it_is():
    """Small ones stay, too: what they save is not worth a step more."""
    onnx = pytest.importorskip("onnx", reason="onnx is not installed; `make test` brings it")
    from onnx.reference import ReferenceEvaluator

    size = html_page.SMALLEST_MATRIX
    values = np.random.default_rng(1).normal(size=(3, size)).astype("float32")
    matrices = {
        "usual": values[0],
        "large": np.where(values[1] > 0, 70_000 * values[1], values[1]),
        "small": values[2][: size - 1],
        "largest": np.full(size, html_page.LARGEST_FLOAT16, "float32"),
    }
    helper = onnx.helper
    nodes = [helper.make_node("Identity", [name], [f"of {name}"]) for name in matrices]
    outputs = []
    for name in matrices:
        outputs.append(helper.make_tensor_value_info(f"of {name}", onnx.TensorProto.FLOAT, None))
    stored = [onnx.numpy_helper.from_array(each, name) for name, each in matrices.items()]
    graph = helper.make_model(helper.make_graph(nodes, "all", [], outputs, stored))
    found = ReferenceEvaluator(html_page.halved(graph)).run(None, {})
    for (name, matrix), each in zip(matrices.items(), found, strict=True):
        is_half = name in ("usual", "largest")
        wanted = matrix.astype("float16").astype("float32") if is_half else matrix
        np.testing.assert_array_equal(each, wanted, err_msg=name)
    assert ReferenceEvaluator(graph).run(None, {})[0] is not None
    kinds = [tensor.data_type for tensor in html_page.halved(graph).graph.initializer]
    assert kinds.count(onnx.TensorProto.FLOAT16) == 2


def test_another_archive_is_refused_and_a_page_replaces_no_file(tmp_path):
    (tmp_path / "ort.tgz").write_bytes(b"something")
    for name, message in (("ort.tgz", "sha256"), ("none.tgz", "none.tgz")):
        with pytest.raises(UserError, match=message):
            html_page.read_runtime(tmp_path / name)
    with pytest.raises(UserError, match="ort.tgz exists; name a new file"):
        HtmlExport.check_options(str(tmp_path / "ort.tgz"), {})
    assert (tmp_path / "ort.tgz").read_bytes() == b"something"


def half_translator(name: str, vocabularies) -> HtmlExport:
    """A narrow model of any kind, with weights that float16 holds."""
    torch.manual_seed(2)
    config = validate(composed(name))
    config.model = small_config(name, ())
    tokenizers = vocabularies[True]
    model = (
        build(config.model, tokenizers.source.size, tokenizers.target.size, True)
        .eval()
        .requires_grad_(False)
    )
    for parameter in model.parameters():
        parameter.copy_(3 * parameter.half().float())
        parameter.copy_(parameter.half().float())
    config.decode = replace(config.decode, beam=3, max_length_ratio=1.0, max_length_extra=4)
    cpu = torch.device("cpu")
    plain = Translator(
        model, tokenizers, config.decode, 60, cpu, torch.autocast("cpu", enabled=False)
    )
    return HtmlExport(plain, config)


@pytest.mark.parametrize(("beam", "choices"), [(3, ["3", "1"]), (1, ["1"])])
def test_the_page_names_every_score_and_begins_with_the_search_of_the_run(
    beam, choices, vocabularies, tmp_path, monkeypatch, caplog
):
    empty = SimpleNamespace(graph=SimpleNamespace(input=[], output=[]))
    graphs = SimpleNamespace(encoder=empty, decoder=empty, memory=[], state={})
    monkeypatch.setattr(html_page, "read_runtime", lambda archive: {})
    monkeypatch.setattr(html_page, "export_graphs", lambda model: graphs)
    monkeypatch.setattr(HtmlExport, "graph_bytes", lambda *_: b"")
    caplog.set_level("INFO", "nmt")
    scores = {"test": {"bleu": 41.234, "bleu_signature": "", "ter": 51.0, "ter_signature": ""}}
    export = half_translator("seq2seq", vocabularies)
    export.config.decode = replace(export.config.decode, beam=beam)
    export.write_file(tmp_path / "page.html", {"scores": scores})
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    rows = re.findall(r"<th>(.*) of test</th><td><bdi>(.*)</bdi>", page)
    assert rows == [("BLEU", "41.23"), ("TER", "51.00")]
    assert re.findall(r'<option value="(\d+)">', page) == choices
    size = (tmp_path / "page.html").stat().st_size / 1e6
    told = [record.message for record in caplog.records if record.name == "nmt"]
    assert told == [f"The page has {size:.1f} MB.", f"Exported to {tmp_path / 'page.html'}."]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["transformer", "bahdanau", "luong_global", "luong_local_p", "seq2seq"]
)
def test_the_page_translates_and_attends_as_the_command(name, vocabularies, tmp_path):
    """In real Chromium, offline, from the disk; greedy and with a beam, with the weights of forced
    decoding."""
    pytest.importorskip("onnxscript", reason="onnxscript is not installed; `make test` brings it")
    if find_chromium() is None:
        pytest.skip("Chromium is not installed; the page is not opened")
    export = half_translator(name, vocabularies)
    try:
        export.write_file(tmp_path / "page.html", {})
    except UserError as error:
        if "npm" in str(error):
            pytest.skip(str(error))
        raise
    lines = [left for left, _ in pairs(6, seed=5)] + ["", "a <b>&amp;</b> x", "lang " * 30]
    with Browser() as browser:
        browser.open(tmp_path / "page.html")
        browser.wait("document.readyState === 'complete'")
        browser.run("document.getElementById('attention').open = true")
        for beam in (1, 3):
            decode = replace(export.config.decode, beam=beam)
            ours = list(replace(export.translator, decode=decode).translate(lines))
            assert [translated(browser, line, beam)[0] for line in lines] == [
                each.text for each in ours
            ]
        translated(browser, lines[0], 1)
        assert len(browser.texts(".pair")) == (name != "seq2seq")
        if name != "seq2seq":
            decode = replace(export.config.decode, beam=1)
            best = next(iter(replace(export.translator, decode=decode).translate(lines[:1])))
            record = export.translator.force_decode((best.source_ids, best.ids))
            words = WordPair.from_pieces(record.source_pieces, record.target_pieces)
            titles = browser.run(
                "[...document.querySelectorAll('.map td[data-column]')].map((each) => each.title)"
            )
            layer = export.config.train.heatmap_layer
            wanted = words.merge(record.weight_table("mean", layer, None)).ravel()
            assert [float(title.rpartition(" ")[2]) for title in titles] == pytest.approx(
                wanted.tolist(), abs=2e-3
            )
            sure = browser.texts(".map td.confidence")
            wanted = [100 * value for _, value in best.word_confidences]
            assert [float(text.removesuffix(" %")) for text in sure] == pytest.approx(
                wanted, abs=0.6
            )
            title = browser.run("document.querySelector('#translation p').title")
            assert float(title.split(" ")[1]) == pytest.approx(100 * best.confidence, abs=0.6)
        browser.resize(390)
        assert browser.overflow() <= 0
        assert browser.run("!!document.querySelector('.map i.centre')") == (name == "luong_local_p")
        assert browser.run("!document.querySelector('#translation b')")

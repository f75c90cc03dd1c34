"""The Python interface: what it returns, and every snippet of docs/guides/python.md."""

import html
import json
import pickle
import re
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from chromium import Browser, find_chromium
from corpora import Trained, environment, run_command
from test_phrasebook import part  # noqa: F401

import nmt
from nmt.commands.output import search_settings
from nmt.data.tokenizer import Tokenizer, Tokenizers
from nmt.errors import UserError
from nmt.runs.run import check_same_vocabulary, load

PAGE = Path(__file__).resolve().parent.parent / "docs" / "guides" / "python.md"
SENTENCES = ["Ein Junge malt das rote Fahrrad.", "", "Ein Mädchen sieht den Apfel."]


@pytest.fixture
def run(trained: Trained) -> nmt.Run:
    return nmt.load("tiny", run_folder=trained.runs)


def test_importing_is_fast():
    """Neither PyTorch nor Hydra, sacreBLEU or matplotlib is imported before it is used."""
    code = (
        "import sys, nmt; print({'torch', 'hydra', 'sacrebleu', 'matplotlib', 'numpy'} & "
        "set(sys.modules))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "set()"


def test_translations_are_those_of_the_command(run, trained, capfd):
    """score = Σ log p / length^α, with </s> in both; a blank line has no pieces; a beam belongs to
    one call."""
    before = run.translator.decode.beam
    words = ["translate", "tiny", "--runs", trained.runs, "--beam", "4", *SENTENCES]
    first, blank, last = run.translate(SENTENCES, beam=4, nbest=3)
    printed = run_command(capfd, *words).out.splitlines()
    assert [first.text, blank.text, last.text] == printed
    assert run.translator.decode.beam == before
    assert len(first.nbest) == 3 and first.nbest[0] is first
    assert asdict(first)["alternatives"][0]["text"] == first.alternatives[0].text
    length = len(first.pieces) + 1
    assert len(first.log_probabilities) == length
    score = sum(first.log_probabilities) / length**run.translator.decode.length_penalty
    assert first.score == pytest.approx(score, abs=0.05)  # search may be in bf16
    assert (blank.text, blank.pieces, blank.log_probabilities) == ("", [], [])


def test_as_many_hypotheses_as_asked_and_layers_and_heads_that_exist(run):
    """Layers also count from the end; the run has two layers with two heads."""
    four = run.translate(SENTENCES[:1], beam=4, nbest=4)[0].nbest
    for count in range(1, 5):
        (found,) = run.translate(SENTENCES[:1], beam=4, nbest=count)
        assert [each.text for each in found.nbest] == [each.text for each in four[:count]]

    def exists(**chosen: object) -> bool:
        try:
            return bool(run.make_extractor(**chosen))
        except UserError:
            return False

    assert [layer for layer in range(-5, 6) if exists(layer=layer)] == [-2, -1, 0, 1]
    assert [head for head in range(-3, 6) if exists(head=head)] == [0, 1]
    assert exists(layer=[0, -1]) and not exists(layer=[0, 2]) and not exists(layer=[])


@pytest.mark.parametrize("beam", [1, 3])
def test_a_translation_begins_with_a_given_text(run, beam):
    """Its own log-probabilities are not in the score, its length is; a placeholder of the source
    may be in it."""
    prefix = "No. 2417, a tr"
    sentences = [SENTENCES[0], "", "Die Nummer 2417 ist da."]
    first, blank, last = run.translate(sentences, beam=beam, prefix=prefix)
    assert first.text.startswith(prefix) and last.text.startswith(prefix) and not blank.text
    assert last.text.count("2417") == len(last.source_ids.spans) == 1
    count = len(run.translator.tokenizers.target.encode(prefix))
    assert 0 < count < len(first.log_probabilities)
    length = len(first.pieces) + 1
    alpha = run.translator.decode.length_penalty
    score = sum(first.log_probabilities[count:]) / length**alpha
    assert first.score == pytest.approx(score, abs=0.05)


@pytest.mark.parametrize("given", ["", "a big tree"])
def test_a_line_in_parts_is_scored_as_one_sentence(run, given):
    """Its score is Σ log p / length^α of all parts.

    Each begins with what sources and targets begin with, and the first also with a given text.
    """
    sides = run.translator.tokenizers
    begin = sides.source.encode("das")
    target_begin = sides.target.encode("the")
    of_given = sides.target.encode(given)
    source = Tokenizer(sides.source.model, sides.source.lowercase, {"": begin})
    target = Tokenizer(sides.target.model, sides.target.lowercase, {"": target_begin})
    translator = replace(
        run.translator,
        decode=replace(run.translator.decode, length_penalty=0.6),
        max_pieces=12,
        tokenizers=Tokenizers(source, target),
        target_prefix=given,
    )
    (line,) = translator.translate([" ".join(SENTENCES)])
    assert len(line.parts) > 1
    for number, each in enumerate(line.parts):
        assert len(each.source_ids) <= 12 and each.source_ids[: len(begin)] == begin
        wanted = target_begin + of_given * (number == 0)
        assert each.ids[: len(wanted)] == wanted
    lengths = [len(each.ids) + 1 for each in line.parts]
    total = sum(each.score * n**0.6 for each, n in zip(line.parts, lengths, strict=True))
    assert line.score == pytest.approx(total / sum(lengths) ** 0.6)


def test_results_are_plain_data(run):
    """They can be sent to another process, without the model; what needs it must be read before."""

    def sent(result):
        return pickle.loads(pickle.dumps(result))

    (first,) = run.translate(SENTENCES[:1], beam=3, nbest=3)
    assert sent(first) == sent(sent(first)) == first
    assert sent(first).pieces == first.pieces
    with pytest.raises(UserError, match="pickle"):
        _ = sent(first).confidence
    confidence = first.confidence
    assert sent(first).confidence == confidence > 0
    alignment = run.align(SENTENCES[0])
    assert sent(alignment).links == alignment.links
    with pytest.raises(UserError, match="pickle"):
        sent(alignment).to_bertviz()


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda run: nmt.load("nothing", run_folder=run.folder.parent), "nothing"),
        (lambda run: nmt.load(run.folder, precision="float16"), "float16.*bf16, fp16, fp32"),
        (lambda run: run.translate(SENTENCES[0]), "list of sentences"),
        (lambda run: run.translate(SENTENCES, beam=2, nbest=3), "beam of 3"),
        (lambda run: run.translate(["Ein", None]), "Sentence 1"),
        (lambda run: run.align("Ein", layer="1"), "Layer 1"),
        (lambda run: run.align("Ein", head=0, method="rollout"), "all layers and heads"),
        (lambda run: run.score(SENTENCES, ["a"]), "3 sources.* 1 references"),
        (lambda run: nmt.train("seed=1,2"), "several runs"),
    ],
)
def test_bad_arguments_are_one_sentence(run, call, names):
    with pytest.raises(UserError, match=names):
        call(run)


def test_what_is_given_replaces_the_search_of_the_run(run):
    """And what is not given stays."""
    usual = replace(run.translator.decode, beam=3, batch_tokens=99)
    for given in ({}, {"beam": 7}, {"batch_tokens": 321}, {"beam": 7, "batch_tokens": 321}):
        loaded = load([run.folder / "best.safetensors"], decode=usual, **given)
        assert asdict(loaded.translator.decode) == asdict(usual) | given
        assert loaded.provenance["decode"] == asdict(usual) | given
    computed = nmt.load("tiny", run_folder=run.folder.parent, precision="bf16").provenance
    assert computed["computed"] == "bfloat16 on cpu"


def test_whatever_changes_a_search_is_in_its_provenance(run, tmp_path):
    """By which an output that is continued, and a stored result, are known to be of this search."""
    glossaries = []
    for number, term in enumerate(("Hund\tdog", "Hund\tcat")):
        glossaries.append(tmp_path / f"{number}.tsv")
        glossaries[-1].write_text(f"{term}\n", encoding="utf-8")

    def runs() -> list[nmt.Run]:
        return [
            run,
            run.with_beam(7),
            run.with_prefix("A"),
            run.with_prefix("The"),
            *map(run.with_glossary, glossaries),
            run.with_samples(4),
            run.with_samples(5),
            run.with_samples(4, temperature=0.5),
            run.with_samples(4, top_k=9),
            run.with_samples(4, top_p=0.8),
            run.with_samples(4, seed=2),
            run.with_choice(),
            run.with_choice(["one", "two"]),
            run.with_choice(["two", "one"]),
        ]

    first, second = ([json.dumps(search_settings(each)) for each in runs()] for _ in range(2))
    assert first == second and len(set(first)) == len(first)


def test_an_ensemble_has_one_vocabulary_for_each_side():
    """The first member's; another one is named."""

    def member(path: str, *models: bytes) -> SimpleNamespace:
        return SimpleNamespace(
            path=path, tokenizers=[SimpleNamespace(model=model) for model in models]
        )

    first = member("a/best", b"s", b"t")
    check_same_vocabulary(member("b/best", b"s", b"t"), first)
    for models in ((b"x", b"t"), (b"s", b"x")):
        with pytest.raises(UserError, match="b/best.* another vocabulary than a/best"):
            check_same_vocabulary(member("b/best", *models), first)


def test_an_alignment_has_weights_words_and_links(run):
    pair = "Ein Junge malt das Fahrrad.", "A boy paints the bicycle."
    alignment = run.align(*pair)
    model = run.translator.model
    record = alignment.record
    sides = len(record.target_pieces) + 1, len(record.source_pieces) + 1
    assert alignment.weights.shape == (model.num_layers, model.num_heads, *sides)
    np.testing.assert_allclose(alignment.weights.sum(-1), 1, atol=1e-5)
    texts = [side.replace(".", " .") for side in pair]
    assert [" ".join(words) for words in alignment.words] == texts
    best = alignment.matrix[:, :-1].argmax(1)
    assert alignment.links == sorted((int(column), row) for row, column in enumerate(best))
    one = run.align(*pair, layer=0, head=1).matrix
    np.testing.assert_array_equal(one, alignment.word_pair.merge(alignment.weights[0, 1]))
    assert run.align(SENTENCES[0]).record.target_pieces == run.translate(SENTENCES[:1])[0].pieces
    assert len(alignment.figure(every_head=True).axes) > len(alignment.figure().axes)
    assert alignment.figure(title="tiny").axes[0].get_title(loc="left").startswith("tiny\n")


def test_a_run_is_described_in_one_line(run):
    assert re.fullmatch(
        r"<Run tiny, de-en, transformer, \d\.\d M parameters, test: BLEU [\d.]+, chrF "
        r"[\d.]+>",
        repr(run),
    )


def test_a_notebooks_frame_holds_the_page(run):
    alignment = run.align('Ein "Junge" &amp; ein Hund.')
    (page,) = re.findall('srcdoc="([^"]*)"', alignment._repr_html_())
    assert html.unescape(page) == alignment.html()


def test_a_notebooks_frame_is_as_tall_as_its_page(run, tmp_path):
    """Of a short and of a long sentence, in a wide and in a narrow notebook: within two pixels."""
    if find_chromium() is None:
        pytest.skip("Chromium is not installed; the notebook's frame is not opened")
    alignments = [run.align(*["Ein Junge malt das Fahrrad. " * count] * 2) for count in (1, 4)]
    cells = "".join(f"<div>{alignment._repr_html_()}</div>" for alignment in alignments)
    (tmp_path / "notebook.html").write_text(
        f"<!DOCTYPE html><meta charset=utf-8>{cells}", encoding="utf-8"
    )
    pages = (
        "[...document.querySelectorAll('iframe')].map((frame) => [frame.clientHeight, "
        "frame.contentDocument.body])"
    )
    with Browser() as browser:
        for width in (1200, 400):
            browser.send(
                "Emulation.setDeviceMetricsOverride",
                width=width,
                height=900,
                deviceScaleFactor=1,
                mobile=False,
            )
            browser.open(tmp_path / "notebook.html")
            browser.wait("document.readyState === 'complete'")
            browser.wait(
                f"{pages}.every(([height, body]) => height > 200 && Math.abs(height - "
                "body.offsetHeight) <= 2)",
                10,
            )


def test_bertviz_gets_one_tensor_a_layer(run, small_model):
    """Rows are probabilities; decoder self-attention is causal."""
    model = small_model("transformer").float()
    object.__setattr__(run.translator, "model", model)
    ids = [5, 6, 7], [8, 9]
    record = run.translator.force_decode(ids)
    alignment = nmt.Alignment(record, None, None, run.translator, ids)  # type: ignore[arg-type]
    arguments = alignment.to_bertviz()
    assert arguments.pop("encoder_tokens") == [*record.source_pieces, "</s>"]
    assert arguments.pop("decoder_tokens") == ["<s>", *record.target_pieces]
    sizes = {"encoder_attention": (4, 4), "decoder_attention": (3, 3), "cross_attention": (3, 4)}
    assert arguments.keys() == sizes.keys()
    stacked = {kind: torch.stack(layers) for kind, layers in arguments.items()}
    for kind, weights in stacked.items():
        assert weights.shape == (model.num_layers, 1, model.num_heads, *sizes[kind])
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    assert not stacked["decoder_attention"].triu(1).any()
    np.testing.assert_allclose(stacked["cross_attention"][:, 0], record.weights, atol=1e-6)


def test_scores_are_those_of_sacrebleu(run):
    references = [translation.text for translation in run.translate(SENTENCES)]
    scores = run.score(iter(SENTENCES), iter(references))
    assert (scores.bleu, scores.chrf) == (pytest.approx(100), pytest.approx(100))
    assert "version:" in scores.signatures["bleu"] and scores.hypotheses == references


@pytest.mark.slow
@pytest.mark.usefixtures("part")
def test_every_snippet_of_the_page_runs(trained, tmp_path, monkeypatch, capsys):
    """In order and in one namespace, beside a run of the name that the page uses."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "runs" / "phrasebook-transformer"
    folder.mkdir(parents=True)
    (folder / "best.safetensors").symlink_to(trained.folder / "best.safetensors")
    namespace: dict[str, object] = {}
    snippets = re.findall(
        r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert len(snippets) > 5
    for snippet in snippets:
        exec(compile(snippet, "docs/guides/python.md", "exec"), namespace)
    assert (tmp_path / "alignment.png").stat().st_size > 1000
    assert "modle" in capsys.readouterr().out  # the sentence of the configuration that is refused

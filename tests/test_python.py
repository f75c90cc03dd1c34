"""The Python interface: what it returns, and every snippet of docs/guides/python.md."""

import pickle
import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from corpora import Trained, environment
from test_phrasebook import part  # noqa: F401

import nmt
from nmt.errors import UserError

PAGE = Path(__file__).resolve().parent.parent / "docs" / "guides" / "python.md"
SENTENCES = ["Ein Junge malt das rote Fahrrad.", "", "Ein Mädchen sieht den Apfel."]


@pytest.fixture
def run(trained: Trained) -> nmt.Run:
    return nmt.load("tiny", run_folder=trained.runs)


def test_importing_is_fast():
    """Neither PyTorch nor Hydra, sacreBLEU or matplotlib is imported before it is used."""
    code = "import sys, nmt; print({'torch', 'hydra', 'sacrebleu', 'matplotlib', 'numpy'} & set(sys.modules))"
    answer = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "set()"


@pytest.mark.slow
def test_translations_are_those_of_the_command(run, trained):
    command = [
        sys.executable,
        "-m",
        "nmt",
        "translate",
        "tiny",
        "--runs",
        trained.runs,
        "--engine",
        "torch",
        "--beam",
        "3",
        *SENTENCES,
    ]
    printed = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True).stdout.splitlines()
    translations = run.translate(SENTENCES, beam=3)
    assert [translation.text for translation in translations] == printed
    assert all(translation.alternatives == [] for translation in translations)


def test_a_translation_has_pieces_and_log_probabilities(run):
    """score = Σ log p / length^α, with </s> in both; a blank line has no pieces."""
    first, blank, _ = run.translate(SENTENCES, beam=4, nbest=3)
    assert len(first.nbest) == 3 and first.nbest[0] is first
    length = len(first.pieces) + 1
    assert len(first.log_probabilities) == length
    alpha = run.translator.decode.length_penalty
    assert first.score == pytest.approx(sum(first.log_probabilities) / length**alpha, abs=0.05)  # search may be in bf16
    assert (blank.text, blank.pieces, blank.log_probabilities) == ("", [], [])


def test_a_beam_belongs_to_one_call(run):
    before = run.translator.decode.beam
    run.translate(SENTENCES[:1], beam=before + 2)
    assert run.translator.decode.beam == before
    with pytest.raises(UserError, match=f"nbest={before + 1} needs a beam of {before + 1}"):
        run.translate(SENTENCES[:1], nbest=before + 1)
    with pytest.raises(UserError, match="list of sentences"):
        run.translate(SENTENCES[0])


def test_a_translation_can_be_compared_and_converted(run):
    (first,), (second,) = (run.translate(SENTENCES[:1], beam=3, nbest=3) for _ in range(2))
    assert first == second and first != first.alternatives[0]
    assert asdict(first)["alternatives"][0]["text"] == first.alternatives[0].text


def test_results_are_plain_data(run):
    """They can be sent to another process, without the model; what needs it must be read before."""
    (first,) = run.translate(SENTENCES[:1], beam=3, nbest=3)
    sent = pickle.loads(pickle.dumps(first))
    assert sent == first and sent.pieces == first.pieces and sent.alternatives == first.alternatives
    assert pickle.loads(pickle.dumps(sent)).text == first.text
    with pytest.raises(UserError, match="pickle"):
        _ = sent.confidence
    assert first.confidence and pickle.loads(pickle.dumps(first)).confidence == first.confidence
    assert pickle.loads(pickle.dumps(run.align(SENTENCES[0]))).links == run.align(SENTENCES[0]).links


REFUSED = {
    "no name": (lambda run: nmt.load(), "name of a run"),
    "precision": (lambda run: nmt.load("tiny", run_folder=run.folder.parent, precision="float16"), "bf16, fp32"),
    "beam": (lambda run: run.translate(SENTENCES, beam=0), "beam=0"),
    "nbest": (lambda run: run.translate(SENTENCES, nbest=-1), "nbest=-1"),
    "a sentence that is no text": (lambda run: run.translate(["Ein", None]), "Sentence 1"),
    "a lone surrogate": (lambda run: run.align("\udc80"), "Sentence 0"),
    "no layer": (lambda run: run.align("Ein", layer=()), "Layer"),
    "a layer that is no number": (lambda run: run.align("Ein", layer="1"), "Layer 1 does not exist"),
    "a head that is no number": (lambda run: run.align("Ein", head="1"), "Head 1 does not exist"),
    "rollout of a head": (lambda run: run.align("Ein", head=0, method="rollout"), "all layers and heads"),
    "several configurations": (lambda run: nmt.train("seed=1,2"), "several runs"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_arguments_are_one_sentence(run, name):
    call, fragment = REFUSED[name]
    with pytest.raises(UserError, match=fragment):
        call(run)


def test_public_names_can_be_completed():
    assert set(nmt.__all__) <= set(dir(nmt))


def test_an_alignment_has_weights_words_and_links(run):
    alignment = run.align("Ein Junge malt das Fahrrad.", "A boy paints the bicycle.")
    layers, heads, rows, columns = alignment.weights.shape
    assert (layers, heads) == (run.translator.model.num_layers, run.translator.model.num_heads)
    assert (rows, columns) == (len(alignment.record.target_pieces) + 1, len(alignment.record.source_pieces) + 1)
    np.testing.assert_allclose(alignment.weights.sum(-1), 1, atol=1e-5)
    source, target = alignment.words
    assert (source, target) == (
        ["Ein", "Junge", "malt", "das", "Fahrrad", "."],
        ["A", "boy", "paints", "the", "bicycle", "."],
    )
    assert alignment.matrix.shape == (len(target), len(source) + 1)
    best = alignment.matrix[:, :-1].argmax(1)
    assert alignment.links == sorted((int(column), row) for row, column in enumerate(best))
    assert [line.split("\t")[0] for line in str(alignment).splitlines()] == target


def test_a_source_alone_is_translated(run):
    alignment = run.align(SENTENCES[0])
    assert alignment.record.target_pieces == run.translate(SENTENCES[:1])[0].pieces


def test_a_layer_and_head_are_read_off(run):
    pair = "Ein Junge malt das Fahrrad.", "A boy paints the bicycle."
    matrix = run.align(*pair, layer=0, head=1).matrix
    both = run.align(*pair)
    np.testing.assert_array_equal(matrix, both.word_pair.merge(both.weights[0, 1]))
    for wrong in ({"layer": 9}, {"head": 9}, {"decoder_step": "reads"}, {"method": "gradient"}):
        with pytest.raises(UserError):
            run.align(*pair, **wrong)


def test_an_alignment_is_shown(run):
    alignment = run.align("Ein Junge malt.", "A boy paints.")
    assert alignment.figure().axes and len(alignment.figure(every_head=True).axes) > len(alignment.figure().axes)
    page = alignment._repr_html_()
    assert page.startswith("<iframe") and "Junge" in page and '"' not in page.split('srcdoc="')[1].split('" style')[0]


@pytest.mark.parametrize("name", ["transformer", "luong_global"])
def test_bertviz_gets_one_tensor_a_layer(run, small_model, name, monkeypatch):
    """Rows are probabilities; decoder self-attention is causal; a recurrent model has cross attention alone."""
    model = small_model(name).float()
    object.__setattr__(run.translator, "model", model)
    source, target = [5, 6, 7], [8, 9]
    record = run.translator.force_decode((source, target))
    alignment = nmt.Alignment(record, None, None, run.translator, (source, target))  # type: ignore[arg-type]
    arguments = alignment.to_bertviz()
    assert arguments["encoder_tokens"] == [*record.source_pieces, "</s>"]
    assert arguments["decoder_tokens"] == ["<s>", *record.target_pieces]
    sizes = {"encoder_attention": (4, 4), "decoder_attention": (3, 3), "cross_attention": (3, 4)}
    expected = sizes if name == "transformer" else {"cross_attention": (3, 4)}
    assert arguments.keys() - {"encoder_tokens", "decoder_tokens"} == expected.keys()
    for kind, size in expected.items():
        assert all(layer.shape == (1, model.num_heads, *size) for layer in arguments[kind])
        torch.testing.assert_close(
            torch.stack(arguments[kind]).sum(-1), torch.ones_like(torch.stack(arguments[kind])[..., 0])
        )
    if name == "transformer":
        assert not torch.stack(arguments["decoder_attention"]).triu(1).any()
    np.testing.assert_allclose(torch.stack(arguments["cross_attention"])[:, 0].numpy(), record.weights, atol=1e-6)


def test_scores_are_those_of_sacrebleu(run):
    references = [translation.text for translation in run.translate(SENTENCES)]
    scores = run.score(SENTENCES, references)
    assert (scores.bleu, scores.chrf, scores.sentences) == (pytest.approx(100), pytest.approx(100), 3)
    assert "version:" in scores.signatures["bleu"] and scores.hypotheses == references
    assert run.score(iter(SENTENCES), iter(references)) == scores
    with pytest.raises(UserError, match="3 sources cannot be scored against 1 references"):
        run.score(SENTENCES, references[:1])


def test_several_names_are_an_ensemble(trained):
    ensemble = nmt.load("tiny", str(trained.folder / "last.safetensors"), run_folder=trained.runs)
    assert len(ensemble.provenance["models"]) == 2 and ensemble.translate(["Ein Junge malt."])
    with pytest.raises(UserError, match="no run name"):
        nmt.load("nothing", run_folder=trained.runs)


def snippets() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.slow
@pytest.mark.usefixtures("part")
def test_every_snippet_of_the_page_runs(trained, tmp_path, monkeypatch, capsys):
    """In order and in one namespace, beside a run of the name that the page uses."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "runs" / "phrasebook-transformer"
    folder.mkdir(parents=True)
    (folder / "best.safetensors").symlink_to(trained.folder / "best.safetensors")
    namespace: dict[str, object] = {}
    assert len(snippets()) > 5
    for snippet in snippets():
        exec(compile(snippet, "docs/guides/python.md", "exec"), namespace)
    assert (tmp_path / "alignment.png").stat().st_size > 1000
    assert "modle" in capsys.readouterr().out  # the sentence of the configuration that is refused

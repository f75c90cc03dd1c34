"""The benchmarks: what they count is what was trained and translated, and their tables and files have their shape."""

import json
import os
import subprocess
import sys
from pathlib import Path

import bench
import bench_measure
import pytest
import torch
from bench_machine import Watch, short, spread, table

from nmt.compose import compose_all
from nmt.data.batches import plan
from nmt.data.ids import Pairs
from nmt.data.tokenizer import EOS
from nmt.pipeline import prepare

ROOT = Path(__file__).resolve().parent.parent
SMALL = ["data.pairs=2000", "tokenizer.size=420", "train.batch_tokens=200"]
WARM, UPDATES, SENTENCES = 2, 2, 6


def script(name: str, *words: str) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ, PYTHONPATH=str(ROOT), OMP_NUM_THREADS="1")
    command = [sys.executable, str(ROOT / "scripts" / f"{name}.py"), *words]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", env=environment)


# ----------------------------------------------------------------------------------------------------------------------
# make bench


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A small bench of one model: its table, its JSON, and where its corpus is."""
    folder = tmp_path_factory.mktemp("bench")
    counts = f"--warm {WARM} --updates {UPDATES} --sentences {SENTENCES} --alone 1 --rounds 1".split()
    places = ["--folder", str(folder), "--json", str(folder / "made" / "bench.json")]
    choices = ["--models", "transformer_tiny", "--corpus", "phrasebook", "--set", *SMALL]
    ran = script("bench", *choices, *counts, *places)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout, json.loads((folder / "made" / "bench.json").read_text(encoding="utf-8")), folder


def test_bench_counts_the_tokens_of_its_batches_and_translations(measured):
    _, result, folder = measured
    one = result["rounds"][0]
    words = ["data=phrasebook", f"data_folder={folder / 'data'}", *SMALL]
    ids = prepare(compose_all(words, multirun=False)[0]).ids
    pairs, valid = Pairs(ids / "train.arrow"), Pairs(ids / "valid.arrow")
    batches = plan(pairs.source_lengths, pairs.target_lengths, 200, 1, 0)[WARM : WARM + UPDATES]
    targets = [pairs.target(row) for rows in batches for row in rows]
    assert one["train_tokens"] == sum(len(target) + 1 for target in targets)  # </s>
    positions = [
        len(rows) * (pairs.target_lengths[rows].max() + pairs.source_lengths[rows].max() + 2) for rows in batches
    ]
    tokens = [(pairs.target_lengths[rows] + pairs.source_lengths[rows] + 2).sum() for rows in batches]
    shares = [1 - real / all_ for real, all_ in zip(tokens, positions, strict=True)]
    assert one["padded_share"] == pytest.approx(sum(shares) / UPDATES)
    assert one["decode_tokens"] == sum(len(valid.source(row)) + 1 for row in range(SENTENCES))
    assert one["decode_sentences"] == SENTENCES


def test_bench_writes_a_table_and_json(measured):
    page, result, _ = measured
    head, rule, row = (line for line in page.splitlines() if line.startswith("|"))
    assert head.count("|") == rule.count("|") == row.count("|") == len(bench.COLUMNS) + 3
    assert row.startswith("| phrasebook: transformer_tiny | ")
    assert result["machine"]["torch"] == torch.__version__ and result["machine"]["cores"] >= 1
    assert result["options"]["rounds"] == 1
    model, once = result["models"][0], result["rounds"][0]
    assert (model["precision"], model["threads"], model["seed"]) == (once["precision"], 1, 1)
    for name in bench.COLUMNS.values():
        assert model[name] == {"median": once[name], "least": once[name], "most": once[name]}
    for name in ("train_tokens_per_s", "decode_sentences_per_s", "alone_ms", "memory_gib", "start_up_s"):
        assert once[name] > 0


def test_models_and_corpora_take_turns(monkeypatch):
    options = bench.parse(["--models", "a", "b", "--rounds", "2"])
    monkeypatch.setattr(bench, "prepare", lambda config: None)
    figures = {"train_tokens_per_s": 1.0, "decode_sentences_per_s": 1.0}
    monkeypatch.setattr(bench, "in_a_process", lambda words, options: figures | {"words": words})
    done = bench.take_turns({"one": ["data=phrasebook"]}, options)
    assert [(once["round"], once["model"]) for once in done] == [(0, "a"), (0, "b"), (1, "a"), (1, "b")]
    assert [once["words"][-1] for once in done] == ["model=a", "model=b"] * 2


def test_the_last_lines_of_a_real_corpus_are_held_out(tmp_path):
    for side in ("de", "en"):
        lines = "".join(f"{side} {number}\n" for number in range(1200))
        (tmp_path / f"some.{side}").write_text(lines, encoding="utf-8")
    words = bench.held_out(tmp_path / "some.de", tmp_path / "some.en", tmp_path / "real")
    assert f"data.train={tmp_path / 'real' / 'train'}" in words
    valid = (tmp_path / "real" / "valid.target").read_text(encoding="utf-8").splitlines()
    train = (tmp_path / "real" / "train.source").read_text(encoding="utf-8").splitlines()
    assert valid == [f"en {number}" for number in range(700, 1200)]
    assert train == [f"de {number}" for number in range(700)]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--models", "transfomer"], "no model 'transfomer'"),
        (["--corpus", "real", "--source", "nowhere.de", "--target", "nowhere.en"], "nowhere.de"),
    ],
)
def test_a_wrong_argument_is_one_sentence(words, sentence, capsys, tmp_path):
    assert bench.main([*words, "--folder", str(tmp_path)]) == 2
    said = capsys.readouterr()
    assert sentence in said.err and said.out == ""


def test_a_translation_ends_only_at_its_limit():
    logits = torch.zeros(2, 9)
    logits[:, EOS] = 5.0
    bench_measure.not_yet(torch.nn.Identity(), (), logits)
    assert logits.log_softmax(-1)[:, EOS].max() < -1e3 and logits.log_softmax(-1).isfinite().all()


def test_sentences_of_twelve_words_are_taken_first():
    lines = [" ".join("w" * number) for number in (3, 12, 20, 11, 12)]
    assert [len(line.split()) for line in bench_measure.nearest(lines, 3)] == [12, 12, 11]


# ----------------------------------------------------------------------------------------------------------------------
# Figures


def test_figures_and_tables():
    assert spread([3.0, 1.0, 2.0]) == (2.0, 1.0, 3.0)
    assert str(spread([1234.4, 1000.0, 2000.0])) == "1,234 (1,000–2,000)"
    assert str(spread([0.5])) == "0.5" and short(99.94) == "99.9"
    assert table(["a", "b"], [["x", "1"]]) == "| a | b |\n| --- | ---: |\n| x | 1 |"


def test_a_watch_counts_cpu_of_this_process():
    with Watch() as watch:
        sum(range(2_000_000))
    assert 0 < watch.cpu <= watch.wall * 1.5 and watch.others >= 0

"""The benchmarks: what they count is what was trained and translated; their tables and files have
the right shape."""

import json
import subprocess
import sys
from pathlib import Path

import bench
import bench_gpu
import pytest
import torch
from benchmarks import corpora
from benchmarks.tables import short, spread, table
from benchmarks.training import training_flop

from nmt.config.compose import compose_all
from nmt.data.batches import collate, plan_batches
from nmt.data.dataset import ParallelDataset
from nmt.runs.stages import build_stages

SMALL = ["tokenizer.vocabulary_size=420", "train.batch_tokens=200"]
WARMUP, UPDATES, SENTENCES = 2, 2, 6


def dataset(folder: Path, name: str) -> ParallelDataset:
    words = ["data=phrasebook", f"data_folder={folder / 'data'}", *SMALL]
    (config,) = compose_all(words)
    return ParallelDataset(build_stages(config).ids / f"{name}.arrow")


@pytest.mark.slow
def test_bench_counts_the_tokens_of_its_batches_and_translations(tmp_path):
    """One model, in three processes: its table and its JSON."""
    counts = {"warmup": WARMUP, "updates": UPDATES, "sentences": SENTENCES}
    counts |= {"single": 1, "rounds": 1, "threads": 1, "models": "transformer_tiny"}
    files = {"corpus": "phrasebook", "folder": tmp_path, "json": tmp_path / "new" / "bench.json"}
    options = [f"--{name}={value}" for name, value in (counts | files).items()]
    command = [sys.executable, bench.__file__, *options, "--set", *SMALL]
    ended = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    figures = json.loads(files["json"].read_text(encoding="utf-8"))["models"][0]["rounds"][0]
    valid = dataset(tmp_path, "valid")
    pairs = dataset(tmp_path, "train")
    source, target = (
        lengths + 1 for lengths in (pairs.source_lengths, pairs.target_lengths)
    )  # </s>
    plan = plan_batches(pairs.source_lengths, pairs.target_lengths, 200, 1, 0)
    padding = []
    tokens = 0
    for rows in plan[WARMUP : WARMUP + UPDATES]:
        positions = len(rows) * (source[rows].max() + target[rows].max())
        padding.append(1 - (source[rows] + target[rows]).sum() / positions)
        tokens += target[rows].sum()
    assert figures["tokens"] == tokens
    assert figures["padding"] == pytest.approx(sum(padding) / UPDATES)
    assert figures["translated_tokens"] == (valid.source_lengths[:SENTENCES] + 1).sum()
    assert (figures["sentences"], figures["threads"]) == (SENTENCES, 1)
    head, rule, row = (line for line in ended.stdout.splitlines() if line.startswith("|"))
    assert head.count("|") == rule.count("|") == row.count("|") == len(bench.COLUMNS) + 3


def test_figures_and_tables():
    assert str(spread([1234.4, 1000.0, 2000.0])) == "1,234 (1,000–2,000)"
    assert str(spread([0.5])) == "0.5" and short(99.94) == "99.9"
    rows = [{"a": "x", "b": 10_000, "c": 0.01234}, {"a": "y|z", "b": 1, "c": 1234.5}]
    assert table(rows) == (
        "| a | b | c |\n| --- | ---: | ---: |\n| x | 10,000 | 0.0123 |\n| y¦z | 1 | 1,234 |"
    )


LITTLE = (
    "--device cpu --tiny --vocabulary 50 --batch-tokens 120 --updates 2 --sentences 6 --pairs 500 "
    "--seconds 0.1".split()
)


@pytest.mark.slow
def test_bench_gpu_measures_every_part(tmp_path, capsys):
    assert bench_gpu.main([*LITTLE, "--ways", "eager", "--json", str(tmp_path / "gpu.json")]) == 0
    result = json.loads((tmp_path / "gpu.json").read_text(encoding="utf-8"))
    assert all(result[part] for part in bench_gpu.PARTS)
    rows = {row["model"]: row for row in result["training"]}
    assert list(rows) == [f"{name}, eager" for name in bench_gpu.TRANSFORMERS | bench_gpu.RECURRENT]
    big = rows["big, eager"]
    assert big["first pass, target tok/s"] > 0 and big["collation, ms a batch"] > 0
    assert "scaled_dot_product" in result["decoding"][0]["attention kernels"]
    lengths = corpora.random_pairs(6, 50).source_lengths
    # each translation as long as its source, and </s>
    assert result["decoding"][0]["tokens"] == (lengths + 1).sum()
    assert capsys.readouterr().out.count("| --- |") == len(bench_gpu.PARTS)


def test_flop_of_a_training_step_by_hand():
    # 2 + 2 layers, D 128, F 512
    model = compose_all(["model=transformer_tiny"])[0].model
    # S 2, T 3 with </s>
    batch = collate([torch.tensor([7]).numpy()], [torch.tensor([8, 9]).numpy()])
    encoder = 2 * (4 * 128**2 + 2 * 128 * 512) + 2 * 128 * 2 * 2
    decoder = 3 * (6 * 128**2 + 2 * 128 * 512) + 2 * 2 * 128**2 + 128 * 3 * 3 + 2 * 128 * 3 * 2
    assert training_flop(model, 50, batch) == 6 * (2 * encoder + 2 * decoder + 3 * 128 * 50)

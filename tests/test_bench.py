"""The benchmarks: what they count is what was trained and translated; their tables and files have the right shape."""

import json
import subprocess
import sys
from pathlib import Path

import bench
import bench_gpu
import bench_peers
import numpy
import peers.data
import peers.environments
import pytest
import torch
from benchmarks import corpora, frame, models
from benchmarks.gpu import configuration, repeat
from benchmarks.machine import Stopwatch
from benchmarks.tables import short, spread, table
from benchmarks.training import make_train_step, random_model, time_updates, train_step_on_random_ids, training_flop
from peers.toolkits import ENVIRONMENTS, PEERS
from peers.train_toolkit import TOOLKITS, Meter
from small_run import small_corpus

from nmt.config.compose import compose_all
from nmt.data.batches import BatchIterator, collate, plan_batches
from nmt.data.dataset import ParallelDataset
from nmt.data.tokenizer import EOS, Tokenizers
from nmt.errors import UserError
from nmt.runs.stages import build_stages

SMALL = ["tokenizer.vocabulary_size=420", "train.batch_tokens=200"]
WARMUP, UPDATES, SENTENCES = 2, 2, 6

# ----------------------------------------------------------------------------------------------------------------------
# make bench


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A small bench of one model: its table, its JSON, and the folder of its corpus. It takes three processes."""
    folder = tmp_path_factory.mktemp("bench")
    counts = f"--warmup {WARMUP} --updates {UPDATES} --sentences {SENTENCES} --single 1 --rounds 1 --threads 1".split()
    files = ["--folder", str(folder), "--json", str(folder / "new" / "bench.json")]
    choices = ["--models", "transformer_tiny", "--corpus", "phrasebook", "--set", *SMALL]
    command = [sys.executable, Path(bench.__file__), *choices, *counts, *files]
    ended = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout, json.loads((folder / "new" / "bench.json").read_text(encoding="utf-8")), folder


def dataset(folder, name):
    words = ["data=phrasebook", f"data_folder={folder / 'data'}", *SMALL]
    return ParallelDataset(build_stages(compose_all(words, multirun=False)[0]).ids / f"{name}.arrow")


@pytest.mark.slow
def test_bench_counts_the_tokens_of_its_batches_and_translations(measured):
    _, result, folder = measured
    figures, valid, pairs = result["models"][0]["rounds"][0], dataset(folder, "valid"), dataset(folder, "train")
    batches = [*plan_batches(pairs.source_lengths, pairs.target_lengths, 200, 1, 0)][WARMUP : WARMUP + UPDATES]
    targets = [pairs.target(row) for rows in batches for row in rows]
    assert figures["tokens"] == sum(len(target) + 1 for target in targets)  # </s>
    positions = [
        len(rows) * (pairs.target_lengths[rows].max() + pairs.source_lengths[rows].max() + 2) for rows in batches
    ]
    tokens = [(pairs.target_lengths[rows] + pairs.source_lengths[rows] + 2).sum() for rows in batches]
    padding = [1 - real / all_ for real, all_ in zip(tokens, positions, strict=True)]
    assert figures["padding"] == pytest.approx(sum(padding) / UPDATES)
    assert figures["translated_tokens"] == sum(len(valid.source(row)) + 1 for row in range(SENTENCES))
    assert figures["sentences"] == SENTENCES and figures["threads"] == 1


@pytest.mark.slow
def test_bench_writes_a_table_and_json(measured):
    output, result, _ = measured
    head, rule, row = (line for line in output.splitlines() if line.startswith("|"))
    assert head.count("|") == rule.count("|") == row.count("|") == len(bench.COLUMNS) + 3
    assert row.startswith("| phrasebook: transformer_tiny | ")
    assert result["machine"]["torch"] == torch.__version__ and result["machine"]["cores"] >= 1
    assert result["options"]["rounds"] == 1
    figures = result["models"][0]["rounds"][0]
    for name in ("tokens_per_s", "sentences_per_s", "single_sentence_ms", "memory_gib", "start_up_s"):
        assert figures[name] > 0


def test_models_take_turns(monkeypatch):
    options = bench.parse(
        ["--models", "seq2seq", "bahdanau", "--rounds", "2", "--corpus", "phrasebook", "--set", "model.hidden_size=512"]
    )
    calls = []
    monkeypatch.setattr(bench, "build_stages", lambda config: None)
    monkeypatch.setattr(bench, "measure_in_process", lambda words, *_: calls.append(words) or {"tokens_per_s": 1.0})
    entries = bench.measure(options)["models"]
    assert [words[-1] for words in calls] == ["model=seq2seq", "model=bahdanau"] * 2
    assert all(words.count("model.hidden_size=512") == 1 for words in calls)
    assert [(entry["model"], len(entry["rounds"])) for entry in entries] == [
        ("phrasebook: seq2seq", 2),
        ("phrasebook: bahdanau", 2),
    ]


def test_a_system_that_fails_is_left_out(capsys):
    def fails():
        raise UserError("no memory")

    assert frame.measure_in_turn({"first": lambda: {"s": 1.0}, "second": fails}, 2) == {"first": [{"s": 1.0}] * 2}
    assert "second is left out: no memory" in capsys.readouterr().err


def test_the_last_lines_of_a_real_corpus_are_held_out(tmp_path):
    for side in ("de", "en"):
        lines = "".join(f"{side} {number}\n" for number in range(1200))
        (tmp_path / f"some.{side}").write_text(lines, encoding="utf-8")
    _, words = corpora.real_corpus(tmp_path / "some.de", tmp_path / "some.en", tmp_path / "real")
    assert f"data.train={tmp_path / 'real' / 'train'}" in words
    valid = (tmp_path / "real" / "valid.target").read_text(encoding="utf-8").splitlines()
    train = (tmp_path / "real" / "train.source").read_text(encoding="utf-8").splitlines()
    assert valid == [f"en {number}" for number in range(700, 1200)]
    assert train == [f"de {number}" for number in range(700)]


def test_a_missing_corpus_is_one_sentence(capsys, tmp_path):
    words = ["--corpus", "real", "--source", "missing.de", "--target", "missing.en", "--folder", str(tmp_path)]
    assert bench.main(words) == 2
    output = capsys.readouterr()
    assert "missing.de" in output.err and output.out == ""


@pytest.mark.parametrize(("parse", "option"), [(bench.parse, "--models"), (bench_peers.parse, "--peers")])
def test_an_unknown_system_is_refused(parse, option, capsys):
    with pytest.raises(SystemExit) as exit_error:
        parse([option, "transfomer"])
    assert exit_error.value.code == 2 and "invalid choice: 'transfomer'" in capsys.readouterr().err


def test_a_translation_ends_only_at_its_limit():
    logits = torch.zeros(2, 9)
    logits[:, EOS] = 5.0
    models.suppress_end(torch.nn.Identity(), (), logits)
    assert logits.log_softmax(-1)[:, EOS].max() < -1e3 and logits.log_softmax(-1).isfinite().all()


def test_sentences_of_twelve_words_are_taken_first():
    lines = [" ".join("w" * number) for number in (3, 12, 20, 11, 12)]
    assert [len(line.split()) for line in models.nearest_lengths(lines, 3)] == [12, 12, 11]


# ----------------------------------------------------------------------------------------------------------------------
# Figures


def test_figures_and_tables():
    assert spread([3.0, 1.0, 2.0]) == (2.0, 1.0, 3.0)
    assert str(spread([1234.4, 1000.0, 2000.0])) == "1,234 (1,000–2,000)"
    assert str(spread([0.5])) == "0.5" and short(99.94) == "99.9"
    rows = [{"a": "x", "b": 10_000, "c": 0.01234}, {"a": "y|z", "b": 1, "c": 1234.5}]
    assert table(rows) == "| a | b | c |\n| --- | ---: | ---: |\n| x | 10,000 | 0.0123 |\n| y¦z | 1 | 1,234 |"


def test_a_stopwatch_counts_cpu_seconds_of_this_process():
    with Stopwatch() as timer:
        sum(range(2_000_000))
    assert 0 < timer.cpu <= 2 * timer.wall + 0.1


# ----------------------------------------------------------------------------------------------------------------------
# make bench-peers


def test_every_peer_has_an_environment_and_settings(tmp_path):
    for peer in PEERS.values():
        assert peer.environment in ENVIRONMENTS and peer.environment in TOOLKITS
        assert all(isinstance(word, str) for word in peer.arguments(tmp_path))
        compose_all(peer.nmt, multirun=False)
    assert json.loads((tmp_path / "eole.yaml").read_text(encoding="utf-8"))["model"]["layers"] == 3


def test_the_meter_counts_between_warmup_and_end(monkeypatch):
    finished = []
    monkeypatch.setattr(Meter, "finish", lambda self, parameters: finished.append((self.tokens, parameters)))
    meter, model = Meter(warmup=1, updates=2), torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters())
    for targets in ([[5, 0]], [[5, 6], [7, 0]], [[8, 0]]):
        meter.add([torch.tensor(targets)], padding=0)
        meter.update(optimizer)
    assert finished == [(3 + 1, 3)]  # the first update warms up; two weights and a bias
    assert meter.positions == 6


def test_a_peer_that_cannot_be_installed_leaves_nothing(monkeypatch, tmp_path):
    def offline(command):
        (tmp_path / "eole").mkdir(exist_ok=True)
        raise subprocess.CalledProcessError(1, command, stderr="connecting …\nno network here\n")

    monkeypatch.setattr(peers.environments, "run_quietly", offline)
    with pytest.raises(UserError, match="eole cannot be installed: no network here"):
        peers.environments.Environments(tmp_path).install("eole")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_peers_read_the_same_lines_and_pieces(monkeypatch, tmp_path):
    small_corpus(tmp_path, 1100)
    monkeypatch.setattr(peers.data, "PIECES", 420)
    files = tmp_path / "train.de", tmp_path / "train.en"
    folder, overrides = peers.data.prepare_data(*files, None, tmp_path / "peers")
    config = compose_all(overrides, multirun=False)[0]
    tokenizer = Tokenizers.load(build_stages(config).tokenizer).source
    rows = (folder / "vocabulary.tsv").read_text(encoding="utf-8").splitlines()
    vocabulary = {row.split("\t")[0] for row in rows}
    assert len(rows) == len(vocabulary) == 420 - 4
    for name in ("train", "valid"):
        ids = (folder / f"{name}.ids.target").read_text(encoding="utf-8").splitlines()
        pieces = (folder / f"{name}.pieces.target").read_text(encoding="utf-8").splitlines()
        assert len(ids) == len(pieces) > 400
        for row, line in zip(ids, pieces, strict=True):
            assert tokenizer.pieces(list(map(int, row.split()))) == line.split()
            assert set(line.split()) <= vocabulary
    assert (folder / "test.source").read_text(encoding="utf-8") == (folder / "valid.source").read_text(encoding="utf-8")


def test_a_pair_is_compared_round_by_round():
    def entry(system, speeds):
        rounds = [dict.fromkeys(bench_peers.COLUMNS.values(), speed) | {"parameters": 10**6} for speed in speeds]
        return {"peer": "eole", "system": system, "threads": 2, "rounds": rounds}

    options = {"updates": 1, "warmup": 1, "rounds": 2}
    training = [entry("eole", [100.0, 50.0]), entry("nmt auto", [200.0, 200.0])]
    report = bench_peers.report({"options": options, "training": training, "decoding": []})
    assert report.splitlines()[-1].endswith("| 3 (2–4) | 3 (2–4) |")


# ----------------------------------------------------------------------------------------------------------------------
# make bench-gpu

LITTLE = (
    "--device cpu --tiny --vocabulary 50 --batch-tokens 120 --updates 2 --sentences 6 --pairs 500 --seconds 0.1".split()
)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_cuda_there_is_one_sentence(capsys):
    assert bench_gpu.main([]) == 2
    output = capsys.readouterr()
    assert "no CUDA device" in output.err and len(output.err.splitlines()) == 1 and output.out == ""


@pytest.mark.slow
def test_bench_gpu_measures_every_part(tmp_path, capsys):
    assert bench_gpu.main([*LITTLE, "--ways", "eager", "--json", str(tmp_path / "gpu.json")]) == 0
    result = json.loads((tmp_path / "gpu.json").read_text(encoding="utf-8"))
    assert all(result[part] for part in bench_gpu.PARTS)
    rows = {row["model"]: row for row in result["training"]}
    assert list(rows) == [*(f"{name}, {way}" for name in bench_gpu.TRANSFORMERS for way in ("eager",)), *(
        f"{name}, eager" for name in bench_gpu.RECURRENT)]  # fmt: skip
    big = rows["big, eager"]
    assert big["of the matrix products"] == pytest.approx(big["TFLOP/s"] / result["matrix"][0]["TFLOP/s"])
    assert big["first pass, target tok/s"] > 0 and big["collation, ms a batch"] > 0
    assert "scaled_dot_product" in result["decoding"][0]["attention kernels"]
    lengths = corpora.random_pairs(6, 50).source_lengths
    assert result["decoding"][0]["tokens"] == (lengths + 1).sum()  # each translation as long as its source, and </s>
    assert capsys.readouterr().out.count("| --- |") == len(bench_gpu.PARTS)


def test_a_killed_measurement_keeps_its_rows(tmp_path, monkeypatch):
    def parts(options):
        yield {"figure": 1.0}
        raise KeyboardInterrupt

    file = tmp_path / "new" / "gpu.json"
    with pytest.raises(KeyboardInterrupt):
        frame.measure_parts({"some": parts}, ["some"], bench_gpu.parse(["--json", str(file)]))
    assert json.loads(file.read_text(encoding="utf-8"))["some"] == [{"figure": 1.0}]


def test_the_same_batches_are_measured_again():
    config = configuration(["model=transformer_tiny", "train.batch_tokens=120"], "cpu", "fp32")
    step = train_step_on_random_ids(config, 50, 300)
    passes = [time_updates(repeat(step), 0, 2) for _ in range(2)]
    assert passes[0]["tokens"] == passes[1]["tokens"] and step.state.step == 4


def test_a_measured_update_is_made_whole_or_not_at_all():
    """`nmt train` would make it in halves, and the row of this batch size would be another's."""
    step = bench_gpu.new_step(["model=transformer_tiny"], 120, bench_gpu.parse(LITTLE))

    def forward(source, mask, target):
        if len(source) > 1:
            raise torch.OutOfMemoryError("no memory")
        return step.model(source, mask, target)

    step.forward = forward
    with pytest.raises(torch.OutOfMemoryError):
        step.update()


def test_random_sentences_have_their_lengths():
    pairs, rows = corpora.RandomPairs(300, 50), numpy.array([299, 0, 7])
    for side, lengths in (("source", pairs.source_lengths), ("target", pairs.target_lengths)):
        ids, found = pairs.sentences(side, rows)
        assert found.tolist() == lengths[rows].tolist() and len(ids) == found.sum()
        assert (
            ids.min() > EOS and ids.max() < 50 and ids.tolist() != pairs.sentences(side, rows + [0, 1, 1])[0].tolist()
        )


def test_updates_on_random_ids_are_counted():
    config = configuration(["model=transformer_tiny", "train.accumulate=2"], "cpu", "fp32")
    batches = BatchIterator(corpora.random_pairs(100, 50), corpora.NO_TOKENIZERS, 120, config.seed, sampling=0.0)
    step = make_train_step(config, random_model(config, 50), batches)
    figures = time_updates(step, 1, 2)
    measured = [batches.batch(0, 0, position) for position in range(2, 6)]  # two an update; the first is warm-up
    assert figures["tokens"] == sum(batch.tokens for batch in measured) and step.state.step == 3
    assert figures["target_padding"] == pytest.approx(1 - figures["tokens"] / sum(b.output.numel() for b in measured))


def test_flop_of_a_training_step_by_hand():
    model = compose_all(["model=transformer_tiny"], multirun=False)[0].model  # 2 + 2 layers, D 128, F 512
    batch = collate([torch.tensor([7]).numpy()], [torch.tensor([8, 9]).numpy()])  # S 2, T 3 with </s>
    encoder = 2 * (4 * 128**2 + 2 * 128 * 512) + 2 * 128 * 2 * 2
    decoder = 3 * (6 * 128**2 + 2 * 128 * 512) + 2 * 2 * 128**2 + 128 * 3 * 3 + 2 * 128 * 3 * 2
    assert training_flop(model, 50, batch) == 6 * (2 * encoder + 2 * decoder + 3 * 128 * 50)


def test_lengths_are_like_those_of_wmt():
    pairs = corpora.random_pairs(20_000, 50)
    assert 24 < pairs.source_lengths.mean() < 26 and 24 < pairs.target_lengths.mean() < 26

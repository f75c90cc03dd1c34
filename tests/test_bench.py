"""The benchmarks: what they count is what was trained and translated, and their tables and files have their shape."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import bench
import bench_data
import bench_environments
import bench_gpu
import bench_inside
import bench_measure
import bench_peers
import bench_synthetic
import pytest
import torch
from bench_machine import Watch, short, spread, table
from bench_toolkits import ENVIRONMENTS, PEERS

from nmt.compose import compose_all
from nmt.data.batches import collate, plan
from nmt.data.dataset import ParallelDataset
from nmt.data.phrasebook.draw import Grammar, draws
from nmt.data.tokenizer import EOS, Tokenizers
from nmt.pipeline import prepare

ROOT = Path(__file__).resolve().parent.parent
SMALL = ["data.pairs=2000", "tokenizer.size=420", "train.batch_tokens=200"]
WARM, UPDATES, SENTENCES = 2, 2, 6


def script(name: str, *words: str) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ, PYTHONPATH=str(ROOT), OMP_NUM_THREADS="1")
    command = [sys.executable, str(ROOT / "scripts" / f"{name}.py"), *words]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", env=environment, timeout=120)


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


def pairs_of(folder, name):
    words = ["data=phrasebook", f"data_folder={folder / 'data'}", *SMALL]
    return ParallelDataset(prepare(compose_all(words, multirun=False)[0]).ids / f"{name}.arrow")


def trained_on(folder):
    """The training pairs, and which of them the updates after WARM read."""
    pairs = pairs_of(folder, "train")
    return pairs, [*plan(pairs.source_lengths, pairs.target_lengths, 200, 1, 0)][WARM : WARM + UPDATES]


def test_bench_counts_the_tokens_of_its_batches_and_translations(measured):
    _, result, folder = measured
    one, valid = result["rounds"][0], pairs_of(folder, "valid")
    pairs, batches = trained_on(folder)
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
    options = bench.parse(["--models", "seq2seq", "bahdanau", "--rounds", "2", "--set", "model.hidden=512"])
    monkeypatch.setattr(bench, "prepare", lambda config: None)
    figures = {"train_tokens_per_s": 1.0, "decode_sentences_per_s": 1.0}
    monkeypatch.setattr(bench, "in_a_process", lambda words, options: figures | {"words": words})
    done = bench.take_turns({"one": ["data=phrasebook"]}, options)
    assert [(once["round"], once["model"]) for once in done] == [
        (turn, model) for turn in (0, 1) for model in ("seq2seq", "bahdanau")
    ]
    assert [once["words"][-1] for once in done] == ["model=seq2seq", "model=bahdanau"] * 2
    assert all(once["words"].count("model.hidden=512") == 1 for once in done)


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
    with Watch() as check_finite:
        sum(range(2_000_000))
    assert check_finite.cpu > 0 and check_finite.wall > 0 and check_finite.others >= 0


# ----------------------------------------------------------------------------------------------------------------------
# make bench-peers


def test_every_peer_has_an_environment_and_settings(tmp_path):
    for peer in PEERS.values():
        assert peer.environment in ENVIRONMENTS and peer.environment in bench_inside.COUNTED
        assert all(isinstance(word, str) for word in peer.words(tmp_path))
        compose_all(peer.ours, multirun=False)
    assert json.loads((tmp_path / "eole.yaml").read_text(encoding="utf-8"))["model"]["layers"] == 3


def test_ours_is_counted_inside_as_in_the_trainer(measured, tmp_path):
    folder = measured[2]
    pairs, batches = trained_on(folder)
    words = ["train", "data=phrasebook", f"data_folder={folder / 'data'}", *SMALL, "model=transformer_tiny"]
    words += ["train.max_minutes=null", "train.max_steps=9", f"run_folder={tmp_path}"]
    ran = script("bench_inside", str(WARM), str(UPDATES), "nmt", *words)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout.splitlines()[-1])
    assert found["tokens"] == sum(len(pairs.target(row)) + 1 for rows in batches for row in rows)
    assert found["threads"] == 1 and found["tokens_per_s"] > 0


def test_the_meter_counts_between_warm_and_end(monkeypatch):
    ended = []
    monkeypatch.setattr(bench_inside.Meter, "end", lambda self, parameters: ended.append((self.tokens, parameters)))
    meter, model = bench_inside.Meter(warm=1, updates=2), torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters())
    for targets in ([[5, 0]], [[5, 6], [7, 0]], [[8, 0]]):
        meter.add([torch.tensor(targets)], padding=0)
        meter.update(optimizer)
    assert ended == [(3 + 1, 3)]  # the first update warms up; two weights and a bias
    assert meter.cells == 6


def test_a_peer_that_cannot_be_installed_is_said_and_leaves_nothing(monkeypatch, tmp_path):
    def offline(command):
        (tmp_path / "sockeye").mkdir(exist_ok=True)
        raise subprocess.CalledProcessError(1, command, stderr="looking …\nno network here\n")

    monkeypatch.setattr(bench_environments, "quietly", offline)
    assert bench_environments.install("sockeye", tmp_path).endswith("left out: no network here")
    assert list(tmp_path.iterdir()) == []


def test_peers_read_the_same_lines_and_pieces(monkeypatch, tmp_path):
    drawn = [pair for pair, _ in zip(draws(Grammar(), 1), range(1100), strict=False)]
    for side, lines in (("de", [one.german for one in drawn]), ("en", [one.english for one in drawn])):
        (tmp_path / f"some.{side}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    monkeypatch.setattr(bench_data, "PIECES", 420)
    files = ["--source", str(tmp_path / "some.de"), "--target", str(tmp_path / "some.en")]
    options = bench_peers.parse([*files, "--folder", str(tmp_path / "peers")])
    folder = bench_data.prepare_data(options)
    config = compose_all(options.overrides, multirun=False)[0]
    tokenizer = Tokenizers.load(prepare(config).tokenizer).source
    vocabulary = (folder / "vocabulary.txt").read_text(encoding="utf-8").splitlines()
    assert len(vocabulary) == 420 and len(set(vocabulary)) == 420
    for name in ("train", "valid"):
        ids = (folder / f"{name}.ids.target").read_text(encoding="utf-8").splitlines()
        pieces = (folder / f"{name}.pieces.target").read_text(encoding="utf-8").splitlines()
        assert len(ids) == len(pieces) > 400
        for row, spelled in zip(ids, pieces, strict=True):
            assert tokenizer.pieces(list(map(int, row.split()))) == spelled.split()
            assert set(spelled.split()) <= set(vocabulary)
    assert (folder / "test.source").read_text(encoding="utf-8") == (folder / "valid.source").read_text(encoding="utf-8")


def test_a_pair_is_compared_round_by_round():
    def once(who, turn, speed):
        figures = dict.fromkeys(bench_peers.COLUMNS.values(), speed)
        return {"peer": "eole", "who": who, "round": turn, "threads": 2, "parameters": 10**6} | figures

    done = [once("eole", 0, 100.0), once("nmt auto", 0, 200.0), once("eole", 1, 50.0), once("nmt auto", 1, 200.0)]
    machine = dict.fromkeys(("processor", "cores", "torch", "python", "commit", "at"), "x")
    machine |= {"memory_gib": None, "gpu": None, "units": []}
    options = {"updates": 1, "warm": 1, "rounds": 2}
    page = bench_peers.page({"machine": machine, "options": options, "training": done, "decoding": []})
    assert page.splitlines()[-1].endswith("| 3 (2–4) | 3 (2–4) |")


def test_an_unknown_peer_is_one_sentence(capsys):
    assert bench_peers.main(["--peers", "marian"]) == 2
    assert "no peer 'marian'" in capsys.readouterr().err


# ----------------------------------------------------------------------------------------------------------------------
# make bench-gpu

LITTLE = "--device cpu --tiny --vocabulary 50 --batch-tokens 120 --warm 1 --updates 2 --sentences 6".split()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_cuda_there_is_one_sentence(capsys):
    assert bench_gpu.main([]) == 2
    said = capsys.readouterr()
    assert "no CUDA device" in said.err and len(said.err.splitlines()) == 1 and said.out == ""


def test_bench_gpu_measures_every_part(tmp_path, capsys):
    assert bench_gpu.main([*LITTLE, "--json", str(tmp_path / "gpu.json")]) == 0
    result = json.loads((tmp_path / "gpu.json").read_text(encoding="utf-8"))
    assert all(result[part] for part in bench_gpu.PARTS)
    for row in result["training"]:
        assert row["share of the matrix rate"] == pytest.approx(row["TFLOP/s"] / result["matrix"][0]["TFLOP/s"])
    lengths = bench_synthetic.draw_lengths(6, seed=2)[0]
    assert result["decoding"][0]["tokens"] == (lengths + 1).sum()  # each translation as long as its source, and </s>
    assert capsys.readouterr().out.count("| --- |") == len(bench_gpu.PARTS)


def test_synthetic_updates_are_counted():
    words = ["model=transformer_tiny", "train.batch_tokens=120"]
    trainer = bench_synthetic.Synthetic(bench_synthetic.configuration(words, "cpu", "fp32"), 50, 4)
    tokens = [batch.tokens for batch in trainer.epochs.drawn]
    trainer.measure(1, 2)
    assert trainer.meter.tokens == sum(tokens[1:3]) and trainer.place.step == 3


def test_flop_of_a_training_step_by_hand():
    model = compose_all(["model=transformer_tiny"], multirun=False)[0].model  # 2 + 2 layers, D 128, F 512
    batch = collate([torch.tensor([7]).numpy()], [torch.tensor([8, 9]).numpy()])  # S 2, T 3 with </s>
    encoder = 2 * (4 * 128**2 + 2 * 128 * 512) + 2 * 128 * 2 * 2
    decoder = 3 * (6 * 128**2 + 2 * 128 * 512) + 2 * 2 * 128**2 + 128 * 3 * 3 + 2 * 128 * 3 * 2
    assert bench_synthetic.training_flop(model, 50, batch) == 6 * (2 * encoder + 2 * decoder + 3 * 128 * 50)


def test_lengths_are_like_those_of_wmt():
    source, target = bench_synthetic.draw_lengths(20_000)
    assert 24 < source.mean() < 26 and 24 < target.mean() < 26 and source.max() <= 120 and target.min() >= 2


def test_the_model_that_searches_is_held_to_the_length():
    """It is another one than the model that looks: its matrices are packed."""
    plain, searched = (SimpleNamespace(output=torch.nn.Linear(4, 9)) for _ in range(2))
    decode = compose_all([], multirun=False)[0].decode
    with_options = lambda decode: SimpleNamespace(decode=decode)  # noqa: E731
    translator = SimpleNamespace(model=plain, search_model=searched, decode=decode, with_options=with_options)
    assert bench_measure.held(translator).decode.max_ratio == 1.0
    assert searched.output(torch.ones(2, 4))[:, EOS].max() < -bench_measure.UNLIKELY / 2

"""nmt verify, and flipped bits in the files of a run: each is noticed by the command that reads the
file."""

import shutil
from pathlib import Path
from random import Random

import pytest
from corpora import Trained, run_command

from nmt.commands.verify import check_files
from nmt.corpus.checksums import MANIFEST, write_manifest
from nmt.runs import results

TEXTS = {"bleu_signature": "a", "chrf_signature": "b", "machine": "CPU"}
RESULT = {"bleu": 1.5e20, "chrf": 3, "sentences": 2, "seconds": 0.1, "provenance": {"a": 1}} | TEXTS


def flip(path: Path, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


def test_a_sound_run(run_copy, capfd, succeeds):
    answer = run_command(capfd, "verify", str(run_copy))
    states = dict(line.split("\t") for line in answer.out.splitlines())
    assert answer.code == 0 and set(states.values()) == {"ok"} and "damaged" not in answer.err
    results_of_test = {"evaluate/test/hyp", "evaluate/test/result.json"}
    assert {
        "best.safetensors",
        "last.safetensors",
        "average.safetensors",
        *results_of_test,
    } <= states.keys()
    assert {"evaluate/calibration.json", "evaluate/verdict.json"} <= states.keys()
    (run_copy / "last.damaged.safetensors").write_text("set aside, and read by nothing")
    shutil.rmtree(run_copy / "evaluate")
    (run_copy / "best.safetensors").unlink()
    succeeds("verify", "tiny", "--runs", str(run_copy.parent))
    assert run_command(capfd, "verify", "nothing", "--runs", str(run_copy.parent)).code == 2


def test_every_file_that_is_damaged_is_named(run_copy, capfd, succeeds):
    for name in dict(check_files(run_copy)):
        content = (run_copy / name).read_bytes()
        flip(run_copy / name, Random(name).randrange(8 * len(content)))
        answer = run_command(capfd, "verify", str(run_copy))
        assert (
            answer.code == 2
            and f"{name}\tdamaged\n" in answer.out
            and f"are damaged: {name};" in answer.err
        ), name
        (run_copy / name).write_bytes(content)
    succeeds("verify", str(run_copy))


def test_every_file_of_an_export_is_named(tmp_path):
    """Also one that is gone."""
    folder = tmp_path / "export" / "onnx-float32"
    folder.mkdir(parents=True)
    for name in ("a", "b", "c"):
        (folder / name).write_text(name)
    write_manifest(folder)
    sound = {f"export/onnx-float32/{name}": True for name in ("a", "b", "c", MANIFEST)}
    assert dict(check_files(tmp_path)) == sound
    (folder / "a").unlink()
    (folder / "b").write_text("x")
    damaged = {f"export/onnx-float32/{name}": False for name in ("a", "b")}
    assert dict(check_files(tmp_path)) == sound | damaged


@pytest.mark.slow
def test_every_flipped_bit_of_a_result_is_noticed(tmp_path):
    results.write_result(tmp_path / "test", ["Grüße", "two"], RESULT)
    assert results.read_result(tmp_path / "test", {"a": 1}) is not None
    for name in ("hyp", "result.json"):
        path = tmp_path / "test" / name
        for bit in range(8 * path.stat().st_size):
            flip(path, bit)
            assert results.read_result(tmp_path / "test", {"a": 1}) is None
            flip(path, bit)


def test_a_damaged_result_is_named_and_computed_again(trained: Trained, run_copy, capfd):
    for name in ("hyp", "result.json"):
        path = run_copy / "evaluate" / "test" / name
        content = path.read_bytes()
        flip(path, 99)
        answer = run_command(capfd, "evaluate", str(run_copy))
        assert answer.out.splitlines() == trained.lines and f"{path} is damaged" in answer.err
        assert "sentences in" in answer.err and (name != "hyp" or path.read_bytes() == content)


def test_results_are_not_written_through_links(run_copy, refused, tmp_path):
    """`nmt evaluate` of a stranger's folder would overwrite the file that a link in it leads to."""
    (run_copy / "evaluate" / "noised").mkdir()
    for number, link in enumerate(
        ("evaluate/test/hyp", "evaluate/noised", "evaluate/test", "evaluate")
    ):
        path = run_copy / link
        mine = tmp_path / f"mine{number}"
        shutil.move(path, mine)
        path.symlink_to(mine)
        before = {each: each.read_bytes() for each in tmp_path.glob("mine*/**/*") if each.is_file()}
        words = ["--noised", "--split", "test"] if "noised" in link else []
        assert f"{path} is a link" in refused("evaluate", str(run_copy), *words), link
        assert before == {
            each: each.read_bytes() for each in tmp_path.glob("mine*/**/*") if each.is_file()
        }
        path.unlink()
        shutil.move(mine, path)

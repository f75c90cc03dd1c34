"""The tools in scripts/: the aligners from before attention, and PyTorch as a second oracle of attention."""

import subprocess
import sys
from collections.abc import Callable
from math import exp
from pathlib import Path

import classical_aligner
import numpy as np
import peer_attention
import pytest
import torch
from em_aligner import diagonal, digamma, em, grow, near_diagonal
from hypothesis import given, settings
from hypothesis import strategies as st
from peer_modules import PEERS, pytorch

ROOT = Path(__file__).resolve().parent.parent
links_3x3 = st.sets(st.tuples(st.integers(0, 2), st.integers(0, 2)))

# ----------------------------------------------------------------------------------------------------------------------
# Joining two directions


@pytest.mark.parametrize(
    ("forward", "backward", "joined"),
    [
        # Rows are source words, columns target words; = is in both directions, f and b in one.
        #   = f .   (1,0) and (0,1) touch (0,0), and one of their words is free; then (2,0) touches (1,0), source 2 is
        #   b . .   free. (2,2) touches nothing; target 2 is free, but source 2 is not any more: "and" keeps it out.
        #   b . f
        ({(0, 0), (0, 1), (2, 2)}, {(0, 0), (1, 0), (2, 0)}, {(0, 0), (0, 1), (1, 0), (2, 0)}),
        #   = . f   (1,0) grows. (0,2) touches nothing, and source 0 has a link. (2,2) touches nothing, and neither of
        #   b . .   its words has a link: "final" adds it.
        #   . . b
        ({(0, 0), (0, 2)}, {(0, 0), (1, 0), (2, 2)}, {(0, 0), (1, 0), (2, 2)}),
        #   . . .   (2,2) touches (1,1) at a corner alone, and target 2 is free: "diag" adds it. "final-and" would not:
        #   . = .   source 2 has a link.
        #   = . f
        ({(1, 1), (2, 0), (2, 2)}, {(1, 1), (2, 0)}, {(1, 1), (2, 0), (2, 2)}),
        #   f = .   (0,0) touches both links, and both of its words have one already.
        #   = . .
        ({(0, 0), (0, 1), (1, 0)}, {(0, 1), (1, 0)}, {(0, 1), (1, 0)}),
        #   . b f   Nothing in common: "final" takes the forward direction first, and then source 0 has a link.
        ({(0, 2)}, {(0, 1)}, {(0, 2)}),
    ],
)
def test_grow_diag_final_and_by_hand(forward, backward, joined):
    assert grow(forward, backward) == joined


def test_the_rules_by_hand():
    forward, backward = {(0, 0), (0, 1), (2, 2)}, {(0, 0), (1, 0), (2, 0)}
    found = {name: rule(forward, backward) for name, rule in classical_aligner.RULES.items()}
    assert found == {
        "forward": forward,
        "backward": backward,
        "intersection": {(0, 0)},
        "union": {(0, 0), (0, 1), (1, 0), (2, 0), (2, 2)},
        "grow-diag-final-and": {(0, 0), (0, 1), (1, 0), (2, 0)},
    }


@settings(max_examples=300, deadline=None)
@given(links_3x3, links_3x3)
def test_grow_lies_between_intersection_and_union(forward, backward):
    before = set(forward), set(backward)
    joined = grow(forward, backward)
    assert forward & backward <= joined <= forward | backward
    assert (forward, backward) == before
    sources, targets = {i for i, _ in joined}, {j for _, j in joined}
    assert all(i in sources or j in targets for i, j in forward | backward)  # nothing that "final-and" would add


# ----------------------------------------------------------------------------------------------------------------------
# One direction


def split(*pairs: tuple[str, str]) -> list[tuple[list[str], list[str]]]:
    return [(source.split(), target.split()) for source, target in pairs]


def test_em_learns_that_words_change_places():
    pairs = split(("a b c", "x z y"), ("b", "y"), ("c", "z"))
    assert em(pairs) == [{(0, 0), (2, 1), (1, 2)}, {(0, 0)}, {(0, 0)}]
    assert em(pairs[:1]) == [{(0, 0), (1, 1), (2, 2)}]  # one sentence says nothing but where its words stand


def test_em_leaves_a_word_that_stands_everywhere_without_a_link():
    # Each source word has ten of its own beside n, so that t(n | word) is at most 1/11, and n is what all ten
    # sentences have in common, so that t(n | no word) goes towards 1 and outweighs p_0 = 0.08.
    found = em([([f"s{n}"], [f"t{n}"] * 10 + ["n"]) for n in range(10)])
    assert found == [{(0, j) for j in range(10)}] * 10


def test_em_of_empty_sentences():
    assert em(split(("", "x"), ("a", ""), ("", ""), ("a", "x"))) == [set(), set(), set(), {(0, 0)}]
    assert em(split(("a", ""))) == [set()]


def test_near_diagonal_by_hand():
    # I = J = 2: |i/I − j/J| is 0 or 1/2, so 0.92 is shared as 1 : exp(−4/2).
    far = exp(-2)
    near, apart = 0.92 / (1 + far), 0.92 * far / (1 + far)
    assert np.allclose(near_diagonal(2, 2), [[0.08, near, apart], [0.08, apart, near]], rtol=0, atol=1e-15)
    assert near_diagonal(0, 3).tolist() == [[0.08]] * 3


@pytest.mark.parametrize(
    ("x", "known"),
    [
        (1.0, -0.5772156649015329),  # −γ
        (0.5, -1.9635100260214235),  # −γ − 2 ln 2
        (2.0, 0.4227843350984671),  # 1 − γ
        (10.0, 2.2517525890667211),  # Σ 1/k, k = 1 … 9, − γ
    ],
)
def test_digamma_is_the_known_one(x, known):
    assert digamma(np.array([x]))[0] == pytest.approx(known, rel=0, abs=1e-8)


@settings(max_examples=300, deadline=None)
@given(st.floats(0.01, 1e4))
def test_digamma_goes_from_x_to_x_plus_1(x):
    now, next_ = digamma(np.array([x, x + 1]))
    assert next_ - now == pytest.approx(1 / x, rel=0, abs=2e-8)


def test_the_diagonal_by_hand():
    # round(j · 2/4) for j = 0 … 3 is 0, 0, 1, 2 (0.5 goes to the even number), and source word 1 is the last.
    assert diagonal(split(("a b", "w x y z"))) == [{(0, 0), (0, 1), (1, 2), (1, 3)}]
    assert diagonal(split(("a b c d", "x y"), ("", "x"), ("a", ""))) == [{(0, 0), (2, 1)}, set(), set()]


def test_both_directions_say_the_source_word_first():
    # Backward, words 0 … 3 of "a b c d" go to words 0, 0, 1, 1 of "x y", as by hand above.
    assert classical_aligner.both(diagonal)(split(("a b c d", "x y"))) == {
        "forward": [{(0, 0), (2, 1)}],
        "backward": [{(0, 0), (1, 0), (2, 1), (3, 1)}],
    }


# ----------------------------------------------------------------------------------------------------------------------
# The command line

SOURCE, TARGET, GOLD = "A b\na b\na\n", "x y\nX y\nx y\n", "1-1 2-2 2-1\n1-1 2p2\n1-1\n"


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    for name, text in (("source", SOURCE), ("target", TARGET), ("gold", GOLD)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    return ["--source", str(tmp_path / "source"), "--target", str(tmp_path / "target"), "--with", "diagonal"]


@pytest.fixture
def call(monkeypatch, capsys) -> Callable[..., tuple[int, str, str]]:
    """Call the script in this process: exit code, stdout, stderr."""

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["classical_aligner.py", *words])
        code = 0
        try:
            classical_aligner.main()
        except SystemExit as stop:
            assert isinstance(stop.code, int)
            code = stop.code
        return code, *capsys.readouterr()

    return run


def test_links_go_to_stdout(call, files):
    assert call(*files) == (0, "0-0 1-1\n0-0 1-1\n0-0 0-1\n", "")
    assert call(*files, "--rule", "intersection") == (0, "0-0 1-1\n0-0 1-1\n0-0\n", "")
    assert call(*files, "--test-first", "1") == (0, "0-0 1-1\n", "")


def test_error_rates_by_hand(call, files, tmp_path):
    # Forward draws 2 + 2 + 2 links, of which 4 are among the 5 sure ones and 5 among the possible ones:
    # AER = 1 − (4 + 5) / (6 + 5), precision 5/6, recall 4/5. Backward draws (0,0) alone in the third pair, whose word x
    # stands at the share of a: 1 − (4 + 5) / (5 + 5), 5/5, 4/5. Growing adds (0,1) again.
    rows = ["rule\tAER\tprecision\trecall"]
    forward, backward = "0.1818\t0.8333\t0.8000", "0.1000\t1.0000\t0.8000"
    rows += [f"forward\t{forward}", f"backward\t{backward}", f"intersection\t{backward}"]
    rows += [f"union\t{forward}", f"grow-diag-final-and\t{forward}"]
    gold = ["--gold", str(tmp_path / "gold"), "--base", "1"]
    assert call(*files, *gold) == (0, "\n".join(rows) + "\n", "")
    output = tmp_path / "links"
    assert call(*files, *gold, "--rule", "backward", "--output", str(output)) == (0, "\n".join(rows) + "\n", "")
    assert output.read_text(encoding="utf-8") == "0-0 1-1\n0-0 1-1\n0-0\n"


def test_em_learns_from_further_pairs(call, files, tmp_path):
    more = {"more-source": "C.\nD!", "more-target": "Z.\nW!"}
    for name, text in more.items():
        (tmp_path / name).write_text(text + "\n", encoding="utf-8")
    (tmp_path / "source").write_text("a c d\n", encoding="utf-8")
    (tmp_path / "target").write_text("x w z\n", encoding="utf-8")
    words = [*files, "--with", "em", "--rule", "forward"]
    assert call(*words)[1] == "0-0 1-1 2-2\n"
    further = [word for name in more for word in (f"--{name}", str(tmp_path / name))]
    assert call(*words, *further) == (0, "0-0 1-2 2-1\n", "")


@pytest.mark.parametrize(
    ("gold", "words", "told"),
    [
        ("0-0\n\n99-1\n", [], "gold:3: a link names source word 99, but the source has 1 words, counted from 0"),
        ("1-1\n1p3\n\n", ["--base", "1"], "gold:2: a link names target word 3, but the target has 2 words, counted"),
        ("1-1\n0-1\n\n", ["--base", "1"], "gold:2: link '0-1' lies before the first word"),
        ("0-0\n0:0\n\n", [], "gold:2: '0:0' is not an alignment link"),
        ("0-0\n", [], "gold has 1 lines, but there are 3 pairs to align; see --test-first"),
        (GOLD, ["--base", "1", "--rule", "union"], "--rule says which links are written, and needs --output FILE"),
        (None, ["--base", "1"], "--base needs --gold FILE"),
        (None, ["--with", "fast_align", "--rule", "grow-diag-final-and"], "--rule says nothing"),
        (None, ["--test-first", "4"], "--test-first 4 is not possible"),
        (None, ["--test-first", "0"], "--test-first 0 is not possible"),
        (None, ["--more-source", "x"], "1 files after --more-source, 0 after --more-target"),
        (None, ["--output", "/nowhere/links"], "--output /nowhere/links cannot be written"),
        (None, ["--source", "/nowhere/source"], "/nowhere/source cannot be read"),
    ],
)
def test_mistakes_end_in_a_sentence(call, files, tmp_path, gold, words, told):
    if gold is not None:
        (tmp_path / "gold").write_text(gold, encoding="utf-8")
        words = [*words, "--gold", str(tmp_path / "gold")]
    code, out, err = call(*files, *words)
    assert code == 2 and out == "" and told in err and err.count("\n") == 1


def test_words_count_from_0_or_1(call, files, tmp_path):
    code, out, err = call(*files, "--gold", str(tmp_path / "gold"), "--base", "2")
    assert code == 2 and out == "" and "--base" in err


def test_an_aligner_that_is_not_installed_is_told(call, files, monkeypatch):
    for name in ("eflomal", "systran_align"):
        monkeypatch.setitem(sys.modules, name, None)
    for name in ("eflomal", "fast_align"):
        code, out, err = call(*files, "--with", name)
        assert code == 2 and out == "" and err.startswith(f"--with {name} is not installed") and err.count("\n") == 1


def test_the_command_itself(files, tmp_path):
    command = [sys.executable, ROOT / "scripts" / "classical_aligner.py", *files]
    good, bad = (
        subprocess.run([*command, *words], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
        for words in ([], ["--gold", str(tmp_path / "gold")])
    )
    assert (good.returncode, good.stdout, good.stderr) == (0, "0-0 1-1\n0-0 1-1\n0-0 0-1\n", "")
    told = (
        f"{tmp_path / 'gold'}:1: a link names source word 2, but the source has 2 words, counted from 0; see --base.\n"
    )
    assert (bad.returncode, bad.stdout, bad.stderr) == (2, "", told)


# ----------------------------------------------------------------------------------------------------------------------
# Peers


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("weights", [False, True])
def test_pytorch_pays_the_same_attention(causal, weights):
    torch.manual_seed(2)
    assert max(peer_attention.measure(pytorch(causal, weights))) <= 1e-10


def test_peers_are_compared_in_rows(monkeypatch, capsys):
    absent = PEERS[1]._replace(name="no-such-distribution")
    monkeypatch.setattr(peer_attention, "PEERS", [PEERS[0], absent])
    with pytest.raises(SystemExit) as stop:
        peer_attention.main()
    out, err = capsys.readouterr()
    header, *rows = out.splitlines()
    cells = [dict(zip(header.split("\t"), row.split("\t"), strict=True)) for row in rows]
    assert len(cells) == 4 and all(max(float(row["values"]), float(row["gradients"])) <= 1e-10 for row in cells)
    assert stop.value.code == 0 and err == "no-such-distribution is not installed: left out.\n"


def test_a_difference_is_found(monkeypatch, capsys):
    case = pytorch(False, True)
    ours = case._replace(ours=lambda query, memory: case.ours(query, memory * (1 + 1e-6)))
    monkeypatch.setattr(peer_attention, "PEERS", [PEERS[0]._replace(cases=[lambda: ours])])
    with pytest.raises(SystemExit) as stop:
        peer_attention.main()
    assert stop.value.code == 1 and capsys.readouterr().out.endswith("\tmore than 1e-10\n")

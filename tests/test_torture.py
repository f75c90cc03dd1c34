"""The frame of the long tests, and the line that is fitted to memory over time."""

import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest
from resident_memory import Curve, children, resident_mib

SCRIPT = Path(__file__).parent.parent / "scripts" / "torture.py"


@pytest.mark.slow
@pytest.mark.parametrize("topic", sorted(path.stem for path in SCRIPT.with_suffix("").glob("*.py")))
def test_each_topic_says_what_it_does(topic):
    found = subprocess.run([sys.executable, SCRIPT, topic, "--help"], capture_output=True, text=True, check=True)
    assert f"torture.py {topic}" in found.stdout and not found.stderr


def test_growth_by_hand():
    """Twice as much in the warm-up, then 3 MiB in 10 updates."""
    curve = Curve()
    for x, mib in [(0, 200.0), (10, 100.0), (20, 103.0), (30, 106.0)]:
        curve.add(x, mib)
    assert curve.slope(10) == pytest.approx(0.3) and curve.row(10) == "200.0\t100.0\t106.0\t200.0"


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs Linux")
def test_memory_is_that_of_the_process():
    before = resident_mib(os.getpid())
    content = mmap.mmap(-1, 50 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # no memory that was freed before
    content[:] = b"x" * len(content)
    assert 40 < resident_mib(os.getpid()) - before < 80
    assert resident_mib(2**22 + 1) == 0 and children(2**22 + 1) == []

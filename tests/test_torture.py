"""The frame of the long tests, and the line that is fitted to memory over time."""

import subprocess
import sys
from pathlib import Path

import pytest
from resident_memory import Curve

SCRIPT = Path(__file__).parent.parent / "scripts" / "torture.py"


@pytest.mark.slow
@pytest.mark.parametrize("topic", sorted(path.stem for path in SCRIPT.with_suffix("").glob("*.py")))
def test_each_topic_says_what_it_does(topic):
    found = subprocess.run(
        [sys.executable, SCRIPT, topic, "--help"], capture_output=True, text=True, check=True
    )
    assert f"torture.py {topic}" in found.stdout and not found.stderr


def test_growth_by_hand():
    """Twice as much in the warm-up, then 3 MiB in 10 updates."""
    curve = Curve()
    for x, mib in [(0, 200.0), (10, 100.0), (20, 103.0), (30, 106.0)]:
        curve.add(x, mib)
    assert curve.slope(10) == pytest.approx(0.3) and curve.row(10) == "200.0\t100.0\t106.0\t200.0"

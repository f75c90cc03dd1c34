"""The second half of scripts/bench_peers.py: translating a test set with models trained for equally many updates."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any


def compare_decoding(
    data: Path, options: argparse.Namespace, run: Callable[..., dict[str, Any]]
) -> list[dict[str, Any]]:
    """Still to come."""
    return []

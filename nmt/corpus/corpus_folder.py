"""The folder of a corpus: two files of each set, NAME.SOURCE and NAME.TARGET, and report.json.

The report says what came from where.
"""

import json
from pathlib import Path
from typing import Any

from nmt.config.schema import DataConfig


def set_files(corpus: Path, name: str, data: DataConfig) -> tuple[Path, Path]:
    """The two files of a set in a corpus folder: the source's, the target's."""
    return corpus / f"{name}.{data.source}", corpus / f"{name}.{data.target}"


def read_report(folder: Path) -> dict[str, Any]:
    """The report.json of a corpus folder."""
    return json.loads((folder / "report.json").read_text(encoding="utf-8"))

"""Tests that take minutes: python scripts/torture.py TOPIC [options]; each topic is a file of
scripts/torture/.

A topic has `add_options(parser)` and `run(options)`, which prints a table and returns the exit
code: 1 on a failure.
"""

import argparse
import sys
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="torture.py", description=__doc__.splitlines()[0])
    topics = parser.add_subparsers(required=True, metavar="TOPIC")
    sys.path[:0] = [str(ROOT), *(str(ROOT / "scripts" / name) for name in ("", "torture"))]
    for path in sorted((ROOT / "scripts" / "torture").glob("*.py")):
        module = import_module(path.stem)
        topic = topics.add_parser(path.stem, help=(module.__doc__ or "").splitlines()[0])
        module.add_options(topic)
        topic.set_defaults(run=module.run)
    options = parser.parse_args(arguments)
    code: int = options.run(options)
    return code


if __name__ == "__main__":
    sys.exit(main())

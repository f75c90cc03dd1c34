"""Tests that take minutes: python scripts/torture.py TOPIC [options]; each topic is a file of scripts/torture/.

A topic has `add_options(parser)` and `run(options)`, which prints a table and returns the exit code: 1 on a failure.
"""

import argparse
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).resolve().parent / "torture"


def load_topic(path: Path) -> ModuleType:
    """The module of a topic."""
    spec = importlib.util.spec_from_file_location(f"torture_{path.stem}", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def main(arguments: list[str] | None = None) -> int:
    """Run one topic; returns its exit code."""
    parser = argparse.ArgumentParser(prog="torture.py", description=__doc__.splitlines()[0])
    topics = parser.add_subparsers(required=True, metavar="TOPIC")
    sys.path[:0] = [str(FOLDER.parent.parent), str(FOLDER.parent)]  # nmt of this checkout, and scripts/
    for path in sorted(FOLDER.glob("*.py")):
        module = load_topic(path)
        topic = topics.add_parser(path.stem, help=(module.__doc__ or "").splitlines()[0])
        module.add_options(topic)
        topic.set_defaults(run=module.run)
    options = parser.parse_args(arguments)
    code: int = options.run(options)
    return code


if __name__ == "__main__":
    sys.exit(main())

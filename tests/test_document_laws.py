"""Three laws that hold of every document format: see document_walkers.py."""

from pathlib import Path

import pytest
from document_walkers import WALKERS, check_accounting, check_identity, check_marking
from documents import SAMPLES

from nmt.documents.formats import EXTENSIONS

PATHS = [Path(f"sample{extension}") for extension in SAMPLES]


def test_every_extension_has_a_walker():
    assert WALKERS.keys() >= EXTENSIONS.keys()


@pytest.mark.parametrize("path", PATHS, ids=str)
@pytest.mark.parametrize("check", [check_identity, check_accounting, check_marking])
def test_laws(path, check):
    check(path, SAMPLES[path.suffix][0].encode())

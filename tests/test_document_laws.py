"""Five laws that hold of every document format: see document_walkers.py."""

from pathlib import Path

import pytest
from document_walkers import (
    SIGNS,
    WALKERS,
    check_accounting,
    check_addresses,
    check_escaping,
    check_identity,
    check_marking,
    check_sign,
)
from documents import SAMPLES, translated_bytes
from packages import PACKAGES

from nmt.documents.formats import EXTENSIONS, FORMATS
from nmt.errors import UserError

DOCUMENTS = {extension: sample.encode() for extension, (sample, _) in SAMPLES.items()} | PACKAGES
LAWS = [check_identity, check_accounting, check_marking, check_addresses]
OF_OTHERS = Path(__file__).parents[1] / "data" / "documents"  # scripts/fetch_documents.py


def test_every_format_has_a_document_and_every_extension_a_walker():
    assert WALKERS.keys() >= EXTENSIONS.keys()
    for name, kind in FORMATS.items():
        assert DOCUMENTS.keys() & set(kind.extensions.split()), name


@pytest.mark.parametrize("extension", DOCUMENTS)
@pytest.mark.parametrize("law", [*LAWS, check_escaping])
def test_laws(extension, law):
    law(Path(f"sample{extension}"), DOCUMENTS[extension])


@pytest.mark.parametrize("extension", DOCUMENTS)
@pytest.mark.parametrize("keeps_units", [True, False])
@pytest.mark.parametrize("answer", ["", "\x08\x1b", None])
def test_no_translation_changes_nothing(extension, keeps_units, answer):
    """The model answers nothing, or what it was asked, which may have lost its placeholders."""
    data = DOCUMENTS[extension]

    def change(sentence: str) -> str:
        return sentence if answer is None else answer

    assert translated_bytes(extension, data, change, keeps=keeps_units)[0] == data


@pytest.mark.parametrize("extension", DOCUMENTS)
def test_a_translation_may_be_shorter(extension):
    """Some tags then have no word inside, and some lines none; the document is written."""
    data, counts = translated_bytes(extension, DOCUMENTS[extension], lambda sentence: "x")
    assert data != DOCUMENTS[extension] and counts["translated"] > 0


@pytest.mark.slow
@pytest.mark.skipif(
    not OF_OTHERS.is_dir(), reason="scripts/fetch_documents.py has fetched no documents"
)
@pytest.mark.parametrize("extension", sorted(EXTENSIONS))
def test_laws_hold_of_documents_that_others_wrote(extension):
    """A document may be refused with a sentence; of those that are read, one and one in fifty may
    break a law."""
    paths = [path for path in sorted(OF_OTHERS.glob("*/*")) if path.suffix.lower() == extension]
    broken = []
    for path in paths:
        try:
            data = path.read_bytes()
            for law in LAWS:
                law(path, data)
            check_sign(path, data, SIGNS[len(data) % len(SIGNS)])
        except UserError:
            continue
        except AssertionError as error:
            broken.append(f"{path.name}: {error}")
    assert len(broken) <= max(1, len(paths) // 50), "\n".join(broken)

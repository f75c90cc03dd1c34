"""Pairs out of files that a person has worked on after the machine.

FILE                  XLIFF, gettext, or any file of pairs (nmt/corpus/sources.py). Units that are
                      still marked for review or fuzzy, or lack a text, are left out.
SOURCE+EDITED         a document, and its translation as it was edited: the texts of both, in order
"""

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from nmt.config.schema import DataConfig
from nmt.corpus.checks import Pair
from nmt.corpus.languages import differ
from nmt.corpus.packed import PackedFile
from nmt.corpus.sources import ENDINGS, complete_pairs, reviewed_pairs, two_sides
from nmt.corpus.tables import Skipped
from nmt.corpus.translation_memory import NOT_REVIEWED
from nmt.documents.formats import EXTENSIONS, open_document
from nmt.documents.gettext import is_message, language_of, open_po, texts_of
from nmt.documents.memory import plain
from nmt.documents.segment import Malformed, segments
from nmt.errors import UserError, printable


def read_post_edited(word: str, data: DataConfig) -> list[Pair]:
    """The pairs of FILE or SOURCE+EDITED in the languages of a run; raises UserError.

    What is left out is counted on stderr.
    """
    sides = two_sides(word)
    path = Path(word)
    if sides and not path.is_file():
        return pairs_of_documents(*sides)
    if not path.is_file():
        raise UserError(f"There is no file {word}.")
    file = PackedFile(path)
    if file.ending == ".po":
        skipped = Counter[str]()
        return complete_pairs(path, read_po_pairs(file, data.target, skipped), skipped)
    if file.ending in ENDINGS:
        return reviewed_pairs(path, data)
    kind = EXTENSIONS.get(file.ending)
    if kind and not kind.has_translations:
        raise UserError(
            f"{word} is one side of a translation; give SOURCE{file.ending}+EDITED{file.ending}, "
            "the document and its edited translation."
        )
    raise UserError(f"{word} is not a file of pairs; these end in .po, {', '.join(ENDINGS)}.")


def read_po_pairs(file: PackedFile, target: str, skipped: Skipped) -> Iterator[Pair]:
    """The messages of a gettext file with their translations; fuzzy ones are left out.

    Raises UserError where it states another language than the target.
    """
    try:
        store = open_po(b"".join(file.blocks()))
    except Malformed as error:
        raise UserError(f"{file}: {error}.") from None
    stated = language_of(store)
    if differ(stated, target):
        raise UserError(
            f"{file} has no translations into {target}: its header says Language: "
            f"{printable(stated)}; give a file in {target}, or correct the header."
        )
    for unit in store.units:
        if unit.isobsolete():
            skipped["obsolete message"] += 1
            continue
        if not is_message(unit):
            continue
        if unit.isfuzzy():
            skipped[NOT_REVIEWED] += 1
            continue
        sources = texts_of(unit.source)
        targets = texts_of(unit.target)
        if len(sources) == len(targets):
            yield from zip(sources, targets, strict=True)
        else:
            skipped["another number of plural forms"] += 1


def pairs_of_documents(source: Path, edited: Path) -> list[Pair]:
    """The texts of a document and of its translation, in order.

    Raises UserError if they have another number of texts: then nothing says what belongs together.
    """
    sides = [texts_of_document(path) for path in (source, edited)]
    if len(sides[0]) != len(sides[1]):
        raise UserError(
            f"{source} has {len(sides[0])} texts and {edited} {len(sides[1])}; a person has joined "
            "or divided some, so they must be aligned: `nmt pair` writes a file of pairs."
        )
    return list(zip(*sides, strict=True))


def texts_of_document(path: Path) -> list[str]:
    kind = EXTENSIONS.get(path.suffix.lower())
    if kind and kind.has_translations:
        raise UserError(
            f"{path} has its texts beside their translations; give the edited file alone."
        )
    fields = open_document(path).fields
    found = chain.from_iterable(segments(field.parts) for field in fields)
    return [plain(segment, segment.text) for segment in found]

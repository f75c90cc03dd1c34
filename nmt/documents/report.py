"""What there was to translate in documents, for those who pay for it: words by what helps.

Each sentence of a document counts in one place: as an exact match, if the memory has it; as a
repetition, if it stood before in the document; in a band, by the most similar unit of the memory;
else as new. The similarity is that of the memory (nmt/documents/memory.py): 2·M / T of the words.
"""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from nmt.data.text_filter import has_words
from nmt.decode.glossary import Glossary
from nmt.documents.memory import TranslationMemory, plain, words_of
from nmt.documents.translation import Row
from nmt.view.page import Table, html_page
from nmt.view.text import visible

EXACT = "100 %"
REPEATED = "repetitions"
# The name of a band → the least similarity in it
BANDS = {"95–99 %": 0.95, "85–94 %": 0.85, "75–84 %": 0.75, "50–74 %": 0.5}
NEW = "new"
WORDS = (REPEATED, EXACT, *BANDS, NEW)  # columns that sum up to all words
TO_REVIEW = "sentences to review"
COLUMNS = ("words", *WORDS, "sentences", TO_REVIEW, "terms")
NOTES = (
    "Words, by the sentence that they are in: repetitions stood before in the same document, 100 % "
    "and the bands are matches of the translation memory.",
    "Sentences to review have a low expected chrF or a fault, such as words that are left out. If "
    "the run has no estimate, they have unsure words. Terms are those of the glossary in the "
    "document.",
)


def count_words(
    rows: Iterable[Row], memory: TranslationMemory | None, terms: Glossary | None
) -> Counter[str]:
    """The COLUMNS of a document but for TO_REVIEW, from its segments and the sentences in them."""
    counts = Counter[str]()
    seen = set[str]()
    for segment, spans in rows:
        for start, end in spans:
            text = plain(segment, segment.text[start:end])
            if not has_words(text):
                continue
            words = sum(any(map(str.isalnum, word)) for word in words_of(text))
            counts["words"] += words
            counts["sentences"] += 1
            if memory and memory.reuse(segment, segment.text[start:end]) is not None:
                counts[EXACT] += words
            elif text in seen:
                counts[REPEATED] += words
            else:
                counts[band_of(text, memory)] += words
            seen.add(text)
            if terms:
                counts["terms"] += len(terms.find_terms(text))
    return counts


def band_of(text: str, memory: TranslationMemory | None) -> str:
    match = memory.nearest(text, min(BANDS.values())) if memory else None
    similarity = match.similarity if match else 0.0
    return next((name for name, least in BANDS.items() if similarity >= least), NEW)


def table_rows(documents: Mapping[str, Mapping[str, int]]) -> Iterator[list[str]]:
    """A row for each document, and one for all of several.

    What is not UTF-8 in a name is escaped.
    """
    total = Counter[str]()
    for name, counts in documents.items():
        yield [visible(name), *(str(counts.get(column, 0)) for column in COLUMNS)]
        total.update(counts)
    if len(documents) > 1:
        yield ["all", *(str(total[column]) for column in COLUMNS)]


def csv_report(documents: Mapping[str, Mapping[str, int]]) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["document", *COLUMNS])
    writer.writerows(table_rows(documents))
    return text.getvalue()


def html_report(documents: Mapping[str, Mapping[str, int]], made_with: str) -> str:
    rows = list(table_rows(documents))
    table = Table("Words", ("document", *COLUMNS), rows, [*NOTES, made_with])
    body = f"<main>\n<h1>Translation of documents</h1>\n{table.html()}\n</main>"
    return html_page("Translation of documents", body)

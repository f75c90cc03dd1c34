"""Gettext, by translate-toolkit."""

import logging
import re
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from nmt.corpus.languages import base_code
from nmt.documents.messages import message_parts, with_doubts
from nmt.documents.segment import (
    ASCII,
    OBSOLETE,
    TRANSLATED,
    Document,
    Field,
    Malformed,
    Stated,
    check_encoding,
    spliced,
)
from nmt.errors import needs_extra

log = logging.getLogger("nmt")

CHARSET = re.compile(rb'^"Content-Type:[^"]*charset=\s*([^\s\\";]+)', re.MULTILINE)
PLURAL_LINE = re.compile(r"^Plural-Forms:.*\n?", re.MULTILINE)
LANGUAGE = "Language"  # in the header


def read_po(data: bytes, retranslate: bool) -> Document:
    """Gettext: what is fuzzy, or only copies its source, is translated anew."""
    store = open_po(data)
    before = [str(unit) for unit in store.units]
    has_rule = stated_forms(store) > 0

    def write() -> bytes:
        if not has_rule:
            state_plurals(store, document.language)
        return with_charset(write_po(store, data, before))

    document = Document([], write)
    document.stated.append(Stated(LANGUAGE, language_of(store), True))
    for unit in store.units:
        if unit.isobsolete():
            document.leave("\n".join([*texts_of(unit.source), *texts_of(unit.target)]), OBSOLETE)
        elif is_message(unit):
            # Without a number in the header there are as many forms as the unit has, or two.
            count = stated_forms(store) or max(len(texts_of(unit.target)), 2)
            add_unit(document, unit, count, retranslate)
    return document


def stated_forms(store: Any) -> int:
    """How many forms a plural has by the header; 0 if it does not say it, as in a template."""
    number = str(store.getheaderplural()[0] or "")
    return int(number) if number.isdecimal() else 0


def state_plurals(store: Any, language: str) -> None:
    """Write the plural rule of the target language, and as many forms, where the header has none.

    Programs refuse a file without it. What a person has translated keeps its forms.
    """
    header = store.header()
    plurals = [unit for unit in store.units if not unit.isobsolete() and is_plural(unit)]
    has_line = PLURAL_LINE.search(str(header.target)) if header is not None else None
    if header is None or not (plurals or has_line):
        return

    count, rule = plural_rule(language)
    done = [unit for unit in plurals if any(texts_of(unit.target)) and not unit.isfuzzy()]
    if not count:
        log.warning(
            "No plural rule is known for the target language %s; complete Plural-Forms in the "
            "header, and give each plural as many forms.",
            language or "(none)",
        )
        return
    if any(len(texts_of(unit.target)) != count for unit in done):
        log.warning(
            "Plural-Forms in the header is not completed: translations that are there do not have "
            "the %d forms of %s.",
            count,
            language,
        )
        return
    for unit in plurals:
        forms = texts_of(unit.target)
        # the last one is that of the plural
        unit.target = [*forms[:-1], *[forms[-1]] * count][:count] if count > 1 else forms[-1:]
    line = f"Plural-Forms: nplurals={count}; plural={rule};\n"
    other_lines = PLURAL_LINE.sub("", str(header.target)).removesuffix("\n")
    header.target = f"{other_lines}\n{line}"


def plural_rule(language: str) -> tuple[int, str]:
    """How many forms a plural has in a language, and which number has which; 0 if not known."""
    with needs_extra("documents"):
        from translate.lang.data import languages as rules
    code = language.replace("-", "_")
    if code not in rules:
        base = base_code(language)
        code = min((each for each in rules if base_code(each) == base), key=len, default="")
    _, count, rule = rules.get(code, ("", 0, ""))
    return count, rule


def write_po(store: Any, data: bytes, before: Sequence[str]) -> bytes:
    """The file with the units that have changed; each other one keeps its bytes.

    `before`: how translate-toolkit wrote the units when it had read them.
    """
    mark = BOM_UTF8 if data.startswith(BOM_UTF8) else b""
    lines = [getattr(unit, "line_number", 0) for unit in store.units]
    if 0 in lines:  # translate-toolkit before 3.18
        return mark + bytes(store)

    newline = store.newline.encode()
    starts = [len(mark)]  # of the lines
    for line in data.removeprefix(mark).split(newline):
        starts.append(starts[-1] + len(line + newline))
    places = [starts[line - 1] for line in lines]
    new = {}
    for unit, old, place in zip(store.units, before, pairwise([*places, len(data)]), strict=True):
        start, end = place
        if str(unit) != old:
            raw = data[start:end]
            text = str(unit).rstrip().encode()
            if raw.partition(newline)[0].endswith(b"\r"):  # a unit with other line ends
                text = text.replace(newline, b"\r\n")
            new[start, start + len(raw.rstrip())] = text
    return spliced(data, new)


def with_charset(data: bytes) -> bytes:
    """A file that states its encoding, where the header of a template or of ASCII does not."""
    charset = CHARSET.search(data)
    stated = charset[1].decode().lower() if charset else "utf-8"
    if charset is None or data.isascii() or stated not in {"charset", *ASCII}:
        return data
    return spliced(data, {charset.span(1): b"UTF-8"})


def open_po(data: bytes) -> Any:
    """A gettext file as translate-toolkit reads it; raises Malformed, and UnicodeDecodeError."""
    charset = CHARSET.search(data)
    if charset and charset[1].upper() != b"CHARSET":  # that of a template
        check_encoding(charset[1].decode(), charset.start())
    data.decode()  # translate-toolkit takes any other encoding for Latin-1
    with needs_extra("documents"):
        from translate.storage.pypo import pofile
    store = pofile()
    if 0 < data.count(b"\r\n") < data.count(b"\n"):
        # translate-toolkit divides a file by one kind of line end, and loses what has the other
        data = data.replace(b"\r\n", b"\n")
    try:
        store.parse(data)
    except Exception as error:  # of any kind: the parser has no error of its own
        raise Malformed(
            f"translate-toolkit cannot read it ({(str(error).splitlines() or [''])[0][:100]})"
        ) from None
    return store


def language_of(store: Any) -> str:
    """The language that the header states of the translations; "" if none."""
    return str(store.parseheader().get(LANGUAGE, "")).partition("@")[0]


def is_message(unit: Any) -> bool:
    return not unit.isheader() and unit.istranslatable() and bool(unit.source)


def is_plural(unit: Any) -> bool:
    return len(texts_of(unit.source)) > 1 or bool(unit.hasplural())


def texts_of(text: Any) -> list[str]:
    """A text of a unit, or the forms of its plural."""
    return [str(form or "") for form in getattr(text, "strings", [text])]


def add_unit(document: Document, unit: Any, count: int, retranslate: bool) -> None:
    """Add a field for the source of a unit, or one each for its singular and its plural.

    `count`: how many forms a plural has in the target language.
    """
    sources = texts_of(unit.source)
    has_forms = is_plural(unit)
    forms = texts_of(unit.target)
    if has_forms:
        forms = [*forms, *[""] * count][:count]
    is_copy = {form.strip() for form in forms} <= {source.strip() for source in sources}
    replaces_all = retranslate or unit.isfuzzy() or is_copy
    replaced = [replaces_all or not form.strip() for form in forms]
    if not any(replaced):
        document.leave("\n".join([*sources, *forms]), TRANSLATED)
        return
    unsure: list[str] = []
    faults: list[str] = []

    def save(text: str, places: list[int]) -> None:
        for place in places:
            forms[place] = text
        unit.target = list(forms) if has_forms else forms[0]
        unit.markfuzzy()

    def mark(new_words: list[str], new_faults: list[str] | None) -> None:
        # One comment names those of all forms.
        unsure.extend(new_words)
        faults.extend(new_faults or ())
        # translate-toolkit writes # behind the line ends that the file has, and behind no other
        newline = getattr(unit, "newline", "\n")
        older = unit.getnotes("translator").replace(newline, "\n")
        notes = with_doubts(older, unsure, faults).replace("\n", newline)
        unit.removenotes("translator")
        unit.addnote(notes, "translator")

    # The first form is the singular, all others are the plural; a single form is the plural.
    last = len(sources) - 1
    source_of_form = [min(place, last) for place in range(len(forms))]
    if len(forms) == 1:
        source_of_form = [last]
    for index, source in enumerate(sources):
        own = [place for place in range(len(forms)) if source_of_form[place] == index]
        places = [place for place in own if replaced[place]]
        kept = [forms[place] for place in own if not replaced[place]]
        if places:
            document.fields.append(
                Field(message_parts(source), partial(save, places=places), mark=mark)
            )
        else:
            kept.append(source)
        if kept:
            document.leave("\n".join(kept), TRANSLATED)


def count_po(data: bytes) -> Counter[str]:
    """Units that have a source, and those that have a target."""
    counts = Counter[str]()
    for unit in open_po(data).units:
        counts["units with a text"] += bool(str(unit.source or "").strip())
        counts["units with a translation"] += bool(str(unit.target or "").strip())
    return counts

"""Messages: what is translated of one; and gettext, by translate-toolkit."""

import importlib
import logging
import re
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise, zip_longest
from typing import Any

from nmt.corpus.languages import base_code
from nmt.corpus.words import has_letters
from nmt.documents.html import LONGEST_BLOCK, Token, inline_parts, tokens
from nmt.documents.segment import (
    COMMENTS,
    MARKED,
    MESSAGE,
    OBSOLETE,
    TRANSLATED,
    Document,
    Field,
    Kind,
    Left,
    Malformed,
    Part,
    SegmentBuilder,
    Stated,
    Tag,
    check_encoding,
    message_part,
    message_spans,
    spliced,
)
from nmt.errors import UserError, install_extra

log = logging.getLogger("nmt")

CHARSET = re.compile(rb'^"Content-Type:[^"]*charset=\s*([^\s\\";]+)', re.MULTILINE)
# Tags between which the text of a message is translated apart. A program may give any others a
# meaning of its own.
BLOCKS = set(
    "address article aside blockquote center dd div dl dt fieldset figcaption figure footer form "
    "h1 h2 h3 h4 h5 h6 "
    "header hr li main nav ol p pre section table tbody td tfoot th thead tr ul".split()
)
# As Java writes signs and characters beyond ASCII; what the signs stand for is in `controls`.
ESCAPE = r"\\(?:u(?P<code>[0-9a-fA-F]{4})|(?P<sign>[\s\S]))"
BROKEN_HTML = "with broken HTML"
LONE_TAG = re.compile(r"\s*<(?!(?:br|hr|wbr)\b)\w[^<>=/]*>\s*")  # <None>: nothing ends it
# What would divide a message of ICU: tags, {{n} dogs} as a template, lines
DIVIDES = re.compile(r"<|\{\{|\n")
TAGS = re.compile(r"(</?\w[^<>{}|]*>)")
LINE_END = re.compile(r"\r?\n")
PLURAL_LINE = re.compile(r"^Plural-Forms:.*\n?", re.MULTILINE)
LANGUAGE = "Language"  # in the header
# Between the forms of a plural, and before the first: | and, of Laravel, {0} or [1,*]
COUNTS = r"\s{0,9}(?:\{\d{1,9}\}|\[(?:\d{1,9}|\*), ?(?:\d{1,9}|\*)\])"
FORM_SIGN = re.compile(rf"(\|(?:{COUNTS})?|\A{COUNTS})")
# An entry has a message, and keys by which a program finds it and a translator understands it
FORMS = set("zero one two few many other".split())
MESSAGES = FORMS | {"message", "translation", "defaultMessage", "string", "definition"}
BARE_MESSAGES = {"text", "value"}  # beside which a description is a text, too
NAMES = set("id key term term_plural hash file origin reference leftDelim rightDelim".split())
NOTES = set("description context comment comments notes developer_comment placeholders".split())
UNSURE_WORDS = "Unsure:"
REVIEW = "Review:"


def unescaped(pattern: str, controls: Mapping[str, str], text: str) -> str:
    """A text without escapes; a pair of \\u escapes may be one character."""

    def plain(match: re.Match[str]) -> str:
        if match["code"]:
            return chr(int(match["code"], 16))
        return controls.get(match["sign"], match["sign"] or "")

    return (
        re.sub(pattern, plain, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    )


def said_about(keys: Mapping[str, bool]) -> dict[str, str]:
    """The keys of an entry that has one message and tells of it, each with why it is left.

    `keys`: those of any table, and whether they have texts. Browser extensions, go-i18n, FormatJS,
    Docusaurus, Transifex, Lokalise and POEditor have such entries.
    """
    messages = keys.keys() & (MESSAGES | BARE_MESSAGES)
    rest = keys.keys() - messages
    has_one = len(messages) == 1 or (messages and messages <= FORMS)
    is_bare = bool(messages & BARE_MESSAGES)
    is_entry = has_one and rest <= (NAMES if is_bare else NAMES | NOTES)
    if not is_entry or not all(keys[key] for key in messages):
        return {}
    return {key: MARKED if key in NAMES else COMMENTS for key in rest}


def import_library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UserError(
            f"This format needs {error.name or name}: {install_extra('documents')}."
        ) from None


def message_parts(message: str) -> list[Part]:
    """The parts of a message, by its forms; HTML in it stays, but & and < may be signs."""
    pieces = FORM_SIGN.split(message)
    if not are_forms(pieces[::2], pieces[1::2]):
        return form_parts(message)
    parts: list[Part] = []
    for form, sign in zip_longest(pieces[::2], pieces[1::2], fillvalue=""):
        parts += [*form_parts(form), sign]
    return parts


def are_forms(forms: Sequence[str], signs: Sequence[str]) -> bool:
    """Whether signs divide a message into the forms of a plural.

    All have their counts, or each form has two words and is complete, unlike the halves of code.
    A bar between spaces divides any text (BAR), and is not asked for here.
    """
    if signs and not forms[0]:  # the message begins with a sign
        forms = forms[1:]
        if len(forms) > 1 and all(sign != "|" for sign in signs):
            return all(map(is_complete, forms))
        if signs[0] == "|":
            return False
    return len(forms) > 1 and all(
        is_complete(form) and len(form.split()) > 1 and "\n" not in form and form[-1] != " "
        for form in forms
    )


def is_complete(form: str) -> bool:
    """Whether a text has words, and each of its brackets, quotes and tags has its other half."""
    are_paired = all(form.count(first) == form.count(last) for first, last in ("()", "[]", "{}"))
    are_even = all(form.count(quote) % 2 == 0 for quote in '"`')
    tags = len(re.findall(r"<\w", form)) == len(re.findall(r"</\w", form))
    return has_letters(form) and are_paired and are_even and tags


def form_parts(message: str) -> list[Part]:
    """The parts of a message that has one form, line by line."""
    if LONE_TAG.fullmatch(message):
        return [Left(message, BROKEN_HTML)]
    try:
        return line_parts(message)
    except Malformed:
        pass
    # Some lines may still be HTML, or plain text.
    parts: list[Part] = []
    for line in message.splitlines(keepends=True):
        try:
            parts += line_parts(line)
        except Malformed:
            parts.append(Left(line, BROKEN_HTML))
    return parts


def line_parts(text: str) -> list[Part]:
    """The parts of a text, line by line; a message of ICU is not divided."""
    messages = list(message_spans(text))
    if not any(DIVIDES.search(text, *span) for span in messages):
        return tagged_parts(text)
    parts: list[Part] = []
    for line in lines_around(text, messages):
        words = line.strip()
        part = None
        if re.search(MESSAGE, words):
            part = message_part(list(map(tag_or_text, TAGS.split(words))), SegmentBuilder())
        if part is None:
            parts += tagged_parts(line)
        else:
            start = line.find(words)
            parts += [line[:start], part, line[start + len(words) :]]
    return parts


def tag_or_text(piece: str) -> str | Tag:
    """A piece of a text of HTML as a tag, if it is one."""
    if not TAGS.fullmatch(piece):
        return piece
    name = re.findall(r"\w+", piece)[0].lower()
    kind = Kind.OPEN
    if name == "br":
        kind = Kind.BREAK
    elif piece.startswith("</"):
        kind = Kind.CLOSE
    elif piece.endswith("/>"):
        kind = Kind.POINT
    return Tag(kind, 0, [piece], name)


def lines_around(text: str, spans: Sequence[tuple[int, int]]) -> list[str]:
    """The lines of a text, of which those that a span is in are one."""
    ends = [0]
    position = 0
    for start, end in [*spans, (len(text), len(text))]:
        ends += [match.end() for match in LINE_END.finditer(text, position, start)]
        position = end
    return [text[start:end] for start, end in pairwise([*ends, len(text)])]


def tagged_parts(text: str) -> list[Part]:
    """The parts of a text: a line between tags of blocks is one segment, with its other tags."""
    parts: list[Part] = []
    run: list[Token] = []
    for token in tokens(text):
        if token.name in BLOCKS:
            parts += [*inline_parts(text, run, entities=False), *token.parts]
            run = []
            continue
        if token.kind != Kind.TEXT:
            run.append(token)
            continue
        start = token.start
        for line in text[start : token.end].splitlines(keepends=True):
            run.append(Token(Kind.TEXT, start, start + len(line)))
            start += len(line)
            is_end = line.splitlines() != [line]
            if is_end or start - run[0].start > LONGEST_BLOCK:
                parts += inline_parts(text, run, entities=False)
                run = []
    return parts + inline_parts(text, run, entities=False)


def read_po(data: bytes, retranslate: bool) -> Document:
    """Gettext: what is fuzzy, or only copies its source, is translated anew."""
    store = open_po(data)
    before = [str(unit) for unit in store.units]
    has_rule = stated_forms(store) > 0

    def write() -> bytes:
        if not has_rule:
            state_plurals(store, document.language)
        return write_po(store, data, before)

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
    rules = import_library("translate.lang.data").languages
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
            end = start + len(data[start:end].rstrip())
            new[start, end] = str(unit).rstrip().encode()
    return spliced(data, new)


def open_po(data: bytes) -> Any:
    """A gettext file as translate-toolkit reads it; raises Malformed, and UnicodeDecodeError."""
    charset = CHARSET.search(data)
    if charset and charset[1].upper() != b"CHARSET":  # that of a template
        check_encoding(charset[1].decode(), charset.start())
    data.decode()  # translate-toolkit takes any other encoding for Latin-1
    store = import_library("translate.storage.pypo").pofile()
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


def with_doubts(comment: str, words: list[str], faults: list[str]) -> str:
    """A comment that names faults and unsure words in its last lines; older such lines go."""
    older = (UNSURE_WORDS, REVIEW)
    lines = LINE_END.split(comment.removesuffix("\n")) if comment else []
    lines = [line for line in lines if not line.startswith(older)]
    if faults:
        lines.append(f"{REVIEW} {', '.join(dict.fromkeys(faults))}")
    if words:
        lines.append(f"{UNSURE_WORDS} {', '.join(dict.fromkeys(words))}")
    return "\n".join(lines)


def count_po(data: bytes) -> Counter[str]:
    """Units that have a source, and those that have a target."""
    counts = Counter[str]()
    for unit in open_po(data).units:
        counts["units with a text"] += bool(str(unit.source or "").strip())
        counts["units with a translation"] += bool(str(unit.target or "").strip())
    return counts

"""Messages of programs: what is translated of the text of one, in every format that has some."""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise, zip_longest

from nmt.corpus.words import has_letters
from nmt.data.text_filter import bare
from nmt.documents.html import LONGEST_BLOCK, Token, inline_parts, tokens
from nmt.documents.segment import (
    COMMENTS,
    MARKED,
    MESSAGE,
    WITHOUT_WORDS,
    Kind,
    Left,
    Malformed,
    Part,
    SegmentBuilder,
    Tag,
    message_part,
    message_spans,
)

# Tags between which the text of a message is translated apart. A program may give any others a
# meaning of its own.
BLOCKS = set(
    "address article aside blockquote center dd div dl dt fieldset figcaption figure footer form "
    "h1 h2 h3 h4 h5 h6 "
    "header hr li main nav ol p pre section table tbody td tfoot th thead tr ul".split()
)
# As Java writes signs and characters beyond ASCII; what the signs stand for is in `controls`.
ESCAPE = r"\\(?:u(?P<code>[0-9a-fA-F]{4})|(?P<sign>[\s\S]))"
# A name for a program, as in navbar-light, of letters and digits; not 2024-05-03
HYPHENATED = re.compile(r"(?=[\d-]*[a-z])[a-z\d]+(?:-[a-z\d]+)+")
NO_NAMES = re.compile(r"[A-Z.!?]|[^\x00-\x7f]")  # what names for a program do not have
BROKEN_HTML = "with broken HTML"
LONE_TAG = re.compile(r"\s*<(?!(?:br|hr|wbr)\b)\w[^<>=/]*>\s*")  # <None>: nothing ends it
# What would divide a message of ICU: tags, {{n} dogs} as a template, lines
DIVIDES = re.compile(r"<|\{\{|\n")
TAGS = re.compile(r"(</?\w[^<>{}|]*>)")
LINE_END = re.compile(r"\r?\n")
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


def value_parts(value: str) -> list[Part]:
    """The parts of a value of data, which may be names for a program: nav navbar-light."""
    return [Left(value, WITHOUT_WORDS)] if are_names(value) else message_parts(value)


def are_names(value: str) -> bool:
    """Whether half of a value in small letters are names with hyphens, or more."""
    tokens = [bare(token) for token in value.split()]
    names = sum(HYPHENATED.fullmatch(token) is not None for token in tokens)
    return names > 0 and 2 * names >= len(tokens) and NO_NAMES.search(value) is None


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
    elif name in BLOCKS:
        kind = Kind.SEPARATOR
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

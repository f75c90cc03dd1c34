"""Inline Markdown: the text of one block with its emphasis, links, code and HTML as tags."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property

from nmt.corpus.words import has_letters
from nmt.data.text_filter import PATTERNS
from nmt.documents.emphasis import SIGNS, markdown_emphasis, marked
from nmt.documents.html import (
    BETWEEN_LINKS,
    FORMULA,
    INLINE,
    TOKEN,
    Token,
    add_token,
    markup_tokens,
    shown_text,
)
from nmt.documents.markdown_blocks import BRACES, HTML_TAG
from nmt.documents.plain_text import UNLIMITED, common_width, wrap
from nmt.documents.segment import (
    AS_CODE,
    COMMENTS,
    KEPT_WITHOUT_BARS,
    PLACEHOLDER,
    STATEMENT,
    TEMPLATE,
    Kind,
    Left,
    Malformed,
    Part,
    SegmentBuilder,
    Tag,
    left_if_letters,
    text_part,
)

TITLE = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|\((?:[^()\\]|\\.)*\)"
DESTINATION = (
    r"\(\s*(?:<[^<>\n]*>|(?:[^\s()\\<]|\\.|\((?:[^\s()\\]|\\.)*\))"
    r"(?:[^\s()\\]|\\.|\((?:[^\s()\\]|\\.)*\))*)?"
    rf"(?:\s+(?P<title>{TITLE}))?\s*\)"
)
TARGET = re.compile(
    rf"(?:(?P<inline>{DESTINATION})|\[(?P<label>[^\[\]]*)\])(?:\{{[^{{}}\n]{{1,200}}\}})?"
)
# The markup of a sentence, by what it becomes. Of the patterns that match, the first one counts.
UNIT_PATTERNS = (
    r"\\[A-Za-z]+(?:\[[^\[\]\n]{0,200}\])?\{[^{}\s]{0,200}\}",  # a command of LaTeX
    r"\\\$",
    # formulas
    r"\$\$(?:(?!\$\$).){1,2000}\$\$",
    r"\$(?=\S)[^$\n]+?(?<=\S)\$(?!\d)",
    # spaces may stand beside $ where a command of LaTeX is between
    r"\$[^$\n]{0,200}\\[a-z][^$\n]{0,200}\$(?!\d)",
    # addresses in angle brackets, and others
    r"<[A-Za-z][A-Za-z0-9+.-]{1,31}:[^\s<>]*>",
    r"<[^\s<>@]+@[^\s<>]+>",
    # here __so__ is emphasis, [v2](so) a link, and * behind an address ends emphasis
    rf"(?:{PATTERNS['link']})(?<![*~])",
    rf"(?!__|\[[^\[\]\n]*\][(\[])(?:{PLACEHOLDER})",
    FORMULA,
)
MARKUP = {
    "escape": (r"\\[!-#%-/:-@\[-`{-~]",),
    "break": (r"(?: {2,}|\\)\n[ \t]*", r"[ \t]*\n\|[ \t]+"),
    "soft": (r"[ \t]*\n[ \t]*",),
    "role": (r"\{[\w:+.-]{1,40}\}(?=`)",),  # {ref}`text` of MyST
    "wiki": (r"!?\[\[[^\[\]|\n]{1,200}(?:\|[^\[\]\n]{1,200})?\]\]",),
    "ticks": ("`+",),
    "unit": UNIT_PATTERNS,
    "point": (r"\[\^[^\]\s]+\]:?",),  # the mark of a footnote
    "link": (r"!?\[",),
    "run": (r"\*+", "_+", "~~", "=="),  # of emphasis
    "tag": ("<",),
}
ROLE_TEXT = re.compile(r"(?P<ticks>`+)(?P<text>[^`<>]+?)(?P<target>\s*<[^<>`]*>(?P=ticks))")
CODE_SPAN = r"(?<!`)(?P<ticks>`{1,3})(?!`)[^`\n]+(?<!`)(?P=ticks)(?!`)"
NO_BREAK = "\ufdd0"  # no character; for a space at which no line may end
LINK_START = re.compile(
    r"(?P<emphasis>[*_]{0,3})(?:(?P<image>!)?\[|(?P<element><a(?=[\s>])))", re.IGNORECASE
)
LINE_BREAK = re.compile(r"<br\s*/?>|<!--(?:(?!<!--).)*?-->", re.IGNORECASE | re.DOTALL)
BRACKETS = re.compile(r"\\.|(?P<ticks>`+)|(?P<comment><!--)|(?P<open>\[)|(?P<close>\])", re.DOTALL)
# [see @key, p. 5; -@{key}] of Pandoc
KEY = r"-?@(?:\{[^{}\s]+\}|\w(?:[\w:.#$%&+?<>~/-]*\w)?)"
CITATION = re.compile(rf"\[(?:[^\[\]@\n]{{0,60}}\s)?{KEY}(?=[\s,;\]])[^\[\]]*\]")
CITATION_SIGNS = re.compile(rf"(?:\s*(?:[,;\[\]]|(?<!\w){KEY}))+\s*")
ITEM_NUMBER = r"(\d{1,9})(?=[.)](?:\s|$))"
BLOCK_SIGN = (
    r"(?=#{1,6}\s|[-+*](?:\s|$)|>|=+\s*$|-+\s*$|~~~|:::|:\s|///"
    r"|\$\$(?!(?:(?!\$\$).)+\$\$[ \t]*\S)"  # a formula with text behind it is no block
    r"|!!!\s|\?\?\?\+?\s|===[!+]?\s|\{:|(?:\^{3,}|\+{3,})\s*$)"
)
# At the beginning of a line, HTML is a block, but for tags of a sentence
HTML_SIGN = rf"(?=<[!?]|</?(?!(?:{'|'.join(INLINE)})[\s/>])[A-Za-z][\w-]*[\s/>])"
LINE_START = re.compile(rf"(?m)^([ \t]*)(?:{ITEM_NUMBER}|{BLOCK_SIGN})")
LITERAL = re.compile(
    r"\\(?![A-Za-z0-9])|`|(?<!\s)\*|\*(?!\s)|(?<![^\W_])_|_(?![^\W_])|==|~~"
    r"|(?P<bracket>[\[\]])|<(?=[A-Za-z/!?])|&(?=#?\w+;)"
)
ENTITIES = {"&": "&amp;", "<": "&lt;"}  # all other signs get a backslash
DEEPEST = 20  # images inside each other, and emphasis that is looked at


def markup_pattern(markup: Mapping[str, Sequence[str]]) -> re.Pattern[str]:
    """A pattern with a group for each kind of markup."""
    kinds = [f"(?P<{kind}>{'|'.join(patterns)})" for kind, patterns in markup.items()]
    return re.compile("|".join(kinds), re.DOTALL)


class InlineEnds:
    """Where what begins in a text ends, found in one pass for each kind: code, brackets, tags."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def code(self) -> dict[int, int]:
        """The end of a span of code by the place of its first backtick."""
        ends = dict[int, int]()
        following = dict[int, int]()  # the end of the next run of so many backticks
        for match in reversed(list(re.finditer("`+", self.text))):
            length = match.end() - match.start()
            if length in following:
                ends[match.start()] = following[length]
            following[length] = match.end()
        return ends

    @cached_property
    def brackets(self) -> dict[int, int]:
        """The place of a closing bracket by that of its opening one, outside code and comments."""
        ends = dict[int, int]()
        opened = list[int]()
        position = 0
        while match := BRACKETS.search(self.text, position):
            position = match.end()
            if match["ticks"]:
                position = self.code.get(match.start(), position)
            elif match["comment"] and match.start() < self.last_comment:
                position = self.text.index("-->", match.start()) + 3
            elif match["open"]:
                opened.append(match.start())
            elif match["close"] and opened:
                ends[opened.pop()] = match.start()
        return ends

    @cached_property
    def elements(self) -> dict[int, int]:
        """The end of an element by the place of its tag."""
        ends = dict[int, int]()
        opened: dict[str, list[int]] = {}
        for match in HTML_TAG.finditer(self.text):
            names = opened.setdefault((match["name"] or "").lower(), [])
            if not match[0].startswith("</"):
                names.append(match.start())
            elif names:
                ends[names.pop()] = match.end()
        return ends

    @cached_property
    def last_comment(self) -> int:
        """Where the last end of a comment is."""
        return self.text.rfind("-->")


class InlineReader:
    """Reads one block of inline Markdown into a SegmentBuilder."""

    PATTERN = markup_pattern(MARKUP)
    NOT_IN_WORDS: Collection[str] = ("_", "__", "___")
    # Templates, code, formulas, addresses of links, tags, comments: no line ends inside of them,
    # nor before what would begin a block
    UNBROKEN = re.compile(
        rf" (?=```|{ITEM_NUMBER}|{BLOCK_SIGN}|{HTML_SIGN})|{TEMPLATE}|{CODE_SPAN}"
        r"|\$\$?(?=\S)[^$\n]+?(?<=\S)\$\$?|\]\([^()\n]*\)|<[A-Za-z/][^<>\n]*>"
        r"|<!--(?:(?!<!--|-->)[^\n])*-->"
    )
    unescape: Callable[[str], str] = staticmethod(html.unescape)
    write_emphasis: Callable[[str], str] = staticmethod(markdown_emphasis)

    def __init__(
        self,
        text: str,
        labels: Collection[str] = (),
        is_cell: bool = False,
        ends: InlineEnds | None = None,
        depth: int = 0,
    ) -> None:
        self.text = text
        self.labels = labels  # that are defined, as `normal_label` writes them
        self.is_cell = is_cell  # of a table
        self.builder = SegmentBuilder(self.escape)
        self.ends = ends or InlineEnds(text)
        self.depth = depth  # of images
        self.keeps_lines = False  # whether each of its lines stays one
        self.is_link = False  # whether it reads the text of a link
        self.runs: list[Tag] = []  # of emphasis that is open
        self.unpaired: list[Tag] = []  # of emphasis that nothing closes

    def escape(self, text: str) -> str:
        """Plain text as the document has it."""
        brackets = brackets_of_links(text, self.labels)

        def literal(match: re.Match[str]) -> str:
            if match["bracket"] and match.start() not in brackets:
                return match[0]
            return ENTITIES.get(match[0], f"\\{match[0]}")

        written = LITERAL.sub(literal, text)
        return written.replace("|", "\\|") if self.is_cell else written

    def escape_start(self, line: str) -> str:
        """A line that does not begin a block."""
        return LINE_START.sub(r"\1\2\\", line)

    def layout(self, separator: str, is_behind_sign: bool = False) -> Callable[[str], str]:
        """How a translation is written: a full paragraph gets lines of the same width.

        Behind the sign of an item, the first line begins no block, whatever it begins with.
        """
        width = UNLIMITED if self.keeps_lines else common_width(self.text.split("\n"))

        def lay_out(translation: str) -> str:
            # At the beginning of a line, a tag would begin a block of HTML, and a sign a list
            joined = self.UNBROKEN.sub(lambda match: match[0].replace(" ", NO_BREAK), translation)
            wrapped = wrap(joined, width, "", "\n").replace(NO_BREAK, " ")
            if HTML_TAG.fullmatch(wrapped.partition("\n")[0]):
                # A block of HTML, where the tag had several lines
                wrapped = wrapped.replace(" ", "\n", 1)
            lines = wrapped.split("\n")
            lines[is_behind_sign:] = map(self.escape_start, lines[is_behind_sign:])
            return separator.join(lines)

        return lay_out

    def menu_spans(self) -> list[tuple[int, int]]:
        """Where the links and images of a menu are; none of a sentence.

        A menu has two links side by side, and no words beside links and images.
        """
        spans = list[tuple[int, int]]()
        links = 0
        position = 0
        while match := LINK_START.search(self.text, position):
            end = self.link_end(match)
            if not end or not is_between_links(self.text[position : match.start()]):
                return []
            links += not match["image"] and has_letters(self.text[match.end() : end])
            spans.append((match.start(), end))
            position = end
        return spans if links > 1 and is_between_links(self.text[position:]) else []

    def link_end(self, match: re.Match[str]) -> int:
        """The end of a link or an image at a match of LINK_START, with its emphasis.

        0 if it is none.
        """
        start = match.end()
        if match["element"]:
            end = self.ends.elements.get(start - len(match["element"]), 0)
        else:
            close = self.ends.brackets.get(start - 1, 0)
            target = TARGET.match(self.text, close + 1) if close else None
            is_known = normal_label(self.text[start:close]) in self.labels
            end = close + 1 if close and is_known else 0
            if target and (target["inline"] or target["label"]):
                end = target.end()
        emphasis = match["emphasis"][::-1]
        if not end or not self.text.startswith(emphasis, end):
            return 0
        return end + len(emphasis)

    def read(self, start: int, end: int) -> None:
        match: re.Match[str] | None
        while True:
            match = self.PATTERN.search(self.text, start, end)
            stop = match.start() if match else end
            self.builder.add_text(self.unescape(self.text[start:stop]), KEPT_WITHOUT_BARS)
            if not match:
                return
            start = self.read_match(match, end)

    def build(self, raw: str, layout: Callable[[str], str] = str) -> Part:
        """The segment of what was read; emphasis without an end is text."""
        self.builder.tags_to_text([*self.unpaired, *self.runs])
        for tag in self.builder.tags:
            if SIGNS.fullmatch(tag.name):
                tag.parts[0] = marked(str(tag.parts[0]), tag.kind == Kind.OPEN)
        return self.builder.build(raw, lambda text: layout(self.write_emphasis(text)))

    def read_match(self, markup: re.Match[str], end: int) -> int:
        """Read what PATTERN matches, in a text up to `end`; returns the position after it."""
        raw = markup[0]
        match markup.lastgroup:
            case "link":
                return self.read_link(markup, end)
            case "tag":
                return self.read_tag(markup, end)
            case "ticks" | "role":
                return self.read_code(markup, end)
            case "run":
                self.read_run(markup)
            case "wiki":
                self.read_wiki_link(raw)
            case "unit" if STATEMENT.match(raw):
                self.builder.add(Kind.SEPARATOR, [left_if_letters(raw, AS_CODE)])
            case "unit" | "open" | "close" | "point" | "break" as kind:
                self.builder.add(Kind[kind.upper()], [raw], "]", raw)
            case "soft" if self.keeps_lines:
                self.builder.add(Kind.BREAK, ["\n"])
            case "soft":
                self.builder.add_space(raw)
            case _:  # an escaped sign
                self.builder.add_text(raw[1:])
        return markup.end()

    def read_run(self, match: re.Match[str]) -> None:
        """Emphasis: signs that close what is open, or open what may be closed."""
        run = match[0]
        sign = run.rpartition("]")[2]  # AsciiDoc has [.role] before it
        before = self.text[max(match.start() - 1, 0) : match.start()]
        after = self.text[match.end() : match.end() + 1]
        is_bound = run in self.NOT_IN_WORDS
        closes = before.strip() != "" and not is_bracket(before, "Ps")
        closes &= not (is_bound and after.isalnum())
        opens = after.strip() != "" and not is_bracket(after, "Pe")
        opens &= not (is_bound and before.isalnum())
        while run and closes and self.drop_to_opener(run):
            self.split_run(len(run))
            name = self.runs.pop().name
            self.builder.add(Kind.CLOSE, [name], name)
            run = run[len(name) :]
            sign = run
        if run and opens:
            self.builder.add(Kind.OPEN, [run], sign)
            self.runs.append(self.builder.tags[-1])
        else:
            self.builder.add_text(run)

    def drop_to_opener(self, run: str) -> bool:
        """Whether a run closes an open one, which is then the last.

        Those in between have no end.
        """
        lowest = max(len(self.runs) - DEEPEST, 0)
        for index in reversed(range(lowest, len(self.runs))):
            if run.startswith(self.runs[index].name[: len(run)]):
                self.unpaired += self.runs[index + 1 :]
                del self.runs[index + 1 :]
                return True
        return False

    def split_run(self, length: int) -> None:
        """Make two of the last signs of emphasis, where only `length` of them are closed.

        An example is ***a* b**.
        """
        whole = self.runs[-1]
        if len(whole.name) > length:
            name = whole.name[:length]
            inner = Tag(Kind.OPEN, whole.position, [name], name)
            whole.name = whole.name[length:]
            whole.parts = [whole.name]
            index = len(self.builder.tags)
            while self.builder.tags[index - 1] is not whole:
                index -= 1
            self.builder.tags.insert(index, inner)
            self.runs.append(inner)

    def read_code(self, match: re.Match[str], end: int) -> int:
        """Code, or backticks without a partner.

        Behind a role of MyST: the text of {ref}`text <target>` is translated, of others nothing is.
        """
        shown = None
        start = match.end() if match["role"] else match.start()
        after = self.ends.code.get(start, end + 1)
        if after > end:
            self.builder.add_text(match[0])
            return match.end()
        if match["role"]:
            shown = ROLE_TEXT.match(self.text, start, after)
        if shown:
            self.builder.add(Kind.OPEN, [match[0] + shown["ticks"]], "role")
            self.builder.add_text(shown["text"])
            self.builder.add(Kind.CLOSE, [shown["target"]], "role")
        else:
            code = self.text[start:after].strip("`").strip()
            self.builder.add(Kind.UNIT, [self.text[match.start() : after]], shown=code)
        return after

    def read_wiki_link(self, raw: str) -> None:
        """[[page|text]]; a page without a text is both, and stays."""
        target, bar, shown = raw.partition("|")
        if bar and not raw.startswith("!"):
            self.builder.add(Kind.OPEN, [target + bar], "wiki")
            self.builder.add_text(shown.removesuffix("]]"))
            self.builder.add(Kind.CLOSE, ["]]"], "wiki")
        else:
            page = "" if raw.startswith("!") else raw.strip("[]")
            self.builder.add(Kind.UNIT, [raw], shown=page)

    def read_link(self, match: re.Match[str], end: int) -> int:
        """A link or an image; its text and its title are translated, its target is not."""
        start = match.end()
        is_image = match[0] == "!["
        close = self.ends.brackets.get(start - 1, end)
        if close >= end:
            self.builder.add_text(match[0])
            return start
        target = TARGET.match(self.text, close + 1, end)

        # The text itself has to be a label of the document; one behind the text may be defined
        # elsewhere, as the names of an API are, but not in a chain such as a["b"]["c"].
        has_target = target is not None and bool(target["inline"] or target["label"])
        if target and target["label"] and normal_label(target["label"]) not in self.labels:
            has_target = not self.is_in_chain(match.start(), target.end())
        is_label = normal_label(self.text[start:close]) in self.labels
        if target and target["label"]:  # without a link there: CommonMark §6.3
            is_label = False
        is_too_deep = self.depth == DEEPEST or (self.is_link and not is_image)
        if not (has_target or is_label) or is_too_deep:
            citation = CITATION.fullmatch(self.text, match.start(), close + 1)
            if citation:
                self.builder.add(Kind.UNIT, self.citation_parts(citation), shown=citation[0])
                return citation.end()
            self.builder.add_text(match[0])
            return start

        after = target.end() if target else close + 1
        if is_image:
            alternative = self.part_apart(start, close)
            parts = ["![", alternative, *self.target_parts(target, start, close, after)]
            self.builder.add(Kind.POINT, parts)
            return after
        self.builder.add(Kind.OPEN, ["["], "link")
        self.is_link = True
        self.read(start, close)
        self.is_link = False
        self.builder.add(Kind.CLOSE, self.target_parts(target, start, close, after), "link")
        return after

    def part_apart(self, start: int, end: int) -> Part:
        """What stands in a sentence and is a text of its own."""
        reader = type(self)(self.text, self.labels, self.is_cell, self.ends, self.depth + 1)
        reader.read(start, end)
        return reader.build(self.text[start:end])

    def citation_parts(self, citation: re.Match[str]) -> list[Part]:
        """Of a citation: its keys and signs stay, and words between them are texts."""
        parts: list[Part] = []
        position = citation.start()
        for signs in CITATION_SIGNS.finditer(self.text, *citation.span()):
            if position < signs.start():
                parts.append(self.part_apart(position, signs.start()))
            parts.append(signs[0])
            position = signs.end()
        return parts

    def is_in_chain(self, start: int, end: int) -> bool:
        """Whether brackets stand right behind a word or a bracket, or right before one."""
        before = self.text[max(start - 1, 0) : start]
        return before.isalnum() or before in ("]", ")", "_") or self.text.startswith("[", end)

    def target_parts(
        self, target: re.Match[str] | None, start: int, close: int, after: int
    ) -> list[Part]:
        """What follows the text of a link from `start` to `close`, up to `after`."""
        if not (target and (target["inline"] or target["label"])):
            # The text, which is translated, is the label
            attributes = self.text[close + 1 : after].removeprefix("[]")
            return [f"][{self.text[start:close]}]{attributes}"]
        if not target["title"]:
            return [self.text[close:after]]
        first, last = target.span("title")
        title = title_parts(self.text[first:last], self.is_cell)
        return [self.text[close:first], *title, self.text[last:after]]

    def read_tag(self, match: re.Match[str], end: int) -> int:
        start = match.start()
        if self.text.startswith("<!--", start) and start < self.ends.last_comment:
            after = self.text.index("-->", start) + 3
            self.builder.add(Kind.POINT, [left_if_letters(self.text[start:after], COMMENTS)])
            self.builder.tags[-1].begins_block = True
            return after
        tag = HTML_TAG.match(self.text, start, end)
        if not tag:
            self.builder.add_text("<")
            return match.end()
        name = (tag["name"] or "").lower()
        markup = TOKEN.match(tag[0])
        token = Token(Kind.POINT, 0, 0, [tag[0]])
        try:
            if markup:
                token = markup_tokens(tag[0], markup)[0]
        except Malformed:  # a script, whose end is not in its tag
            token = Token(Kind.OPEN, 0, 0, [tag[0]], name, reason=AS_CODE)
        after = self.ends.elements.get(start, 0)
        if token.reason and token.kind == Kind.OPEN and 0 < after <= end:
            parts = [Left(self.text[start:after], token.reason)]
            self.builder.add(Kind.UNIT, parts, shown=shown_text(parts))
            return after
        if token.is_block:  # such as <li> in a cell: texts of their own are on both sides
            token = token._replace(kind=Kind.SEPARATOR)
        add_token(self.builder, token)
        return tag.end()


class MdxReader(InlineReader):
    """Inline MDX: expressions in braces stay, and < and { are always escaped."""

    PATTERN = markup_pattern({**MARKUP, "unit": (BRACES, *UNIT_PATTERNS)})
    UNBROKEN = re.compile(rf"{BRACES}|{InlineReader.UNBROKEN.pattern}")

    def escape(self, text: str) -> str:
        return re.sub(r"[{}]", r"\\\g<0>", super().escape(text)).replace("<", "&lt;")

    def escape_start(self, line: str) -> str:
        """A line that does not begin with import or export: &#105; is an i, &#101; an e."""
        line = re.sub(r"^i(?=mport\b)", "&#105;", super().escape_start(line))
        return re.sub(r"^e(?=xport\b)", "&#101;", line)


def is_bracket(character: str, category: str) -> bool:
    """Whether a character is an opening (Ps) or a closing one (Pe)."""
    return character != "" and unicodedata.category(character) == category


def is_between_links(text: str) -> bool:
    """Whether it has nothing but what may stand between the links of a menu."""
    return bool(BETWEEN_LINKS.fullmatch(html.unescape(LINE_BREAK.sub(" ", text))))


def brackets_of_links(text: str, labels: Collection[str]) -> set[int]:
    """The places of brackets that may be read as a link, or may end one that the text is in."""
    places = set[int]()
    opened = list[int]()
    for match in re.finditer(r"[\[\]]", text):
        place = match.start()
        if match[0] == "[":
            opened.append(place)
        elif not opened:
            places.add(place)
        else:
            start = opened.pop()
            is_label = normal_label(text[start + 1 : place]) in labels
            is_link = text.startswith(("(", "[", ":"), place + 1)
            if is_label or is_link or text[:start].endswith("["):
                places |= {start, place}
    return places.union(opened)


def normal_label(label: str) -> str:
    return " ".join(label.split()).casefold()


def title_parts(raw: str, is_cell: bool = False) -> list[Part]:
    """The title of a link, in its quotation marks."""
    special = rf"[\\{raw[-1]}|]" if is_cell else rf"[\\{raw[-1]}]"

    def escape(text: str) -> str:
        return re.sub(special, r"\\\g<0>", text.replace("&", "&amp;"))

    plain = html.unescape(re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", raw[1:-1]))
    return [raw[0], text_part(plain, raw[1:-1], escape), raw[-1]]

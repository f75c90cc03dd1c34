"""Markdown (CommonMark with tables) and MDX: markdown-it says which lines are which block, and
every other byte stays.

A reader of our own, because translate-toolkit leaves out blocks of HTML, unescapes | in cells of
tables, and lays lines and tables out anew. To CommonMark it adds, in `BlockRules`, what MkDocs,
MyST, Docusaurus and GitHub have: boxes whose text is indented (!!! ??? ===) or between lines of
signs (::: ///), footnotes, definitions and abbreviations. Code, front matter, formulas and
templates are left, and counted; HTML is read as HTML.
"""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from nmt.corpus.words import has_letters
from nmt.data.text_filter import PATTERNS
from nmt.documents.emphasis import SIGNS, markdown_emphasis, marked
from nmt.documents.html import (
    BETWEEN_LINKS,
    CODE,
    FORMULA,
    LINES,
    RAW_TEXT,
    TOKEN,
    Token,
    add_token,
    markup_tokens,
    read_html,
    shown_text,
    tag_parts,
)
from nmt.documents.plain_text import common_width, newline_of, wrap
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
from nmt.errors import UserError, install_extra

FRONT_MATTER = re.compile(
    r"(---|\+\+\+)[ \t]*\r?\n(?:.*?\n)??(?:\1|\.\.\.)"
    r"[ \t]*(?:\r?\n|\Z)",
    re.DOTALL,
)
TITLES = re.compile(  # values of front matter that a reader of the page sees
    r"(?m)^(?:title|subtitle|description|summary|excerpt|abstract)[ \t]*[:=][ \t]*"
    r"(?P<value>\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\n]|'')*'|[^\s\"'\[\]{}>|&*!#%@`][^\n#]*?)[ \t]*\r?$"
)
# what a value of YAML without quotes has not
NOT_PLAIN = re.compile(r":(?:\s|$)|\s#|^[\s\"'\[\]{}>|&*!#%@`,?-]|\s$")
# What stands before the text of a block: of task lists, alerts, and blocks of lines.
PREFIX = re.compile(r"\[[ xX]\][ \t]+|\[!\w+\][+-]?[ \t]*\n?|\|[ \t]+")
SUFFIX = re.compile(  # {#id .class}, and ^id of Obsidian
    r"[ \t]*\{:?[ \t]*(?:[#.][^\s{}]|[\w-]+=)[^{}\n]*\}[ \t]*$|[ \t]+\^[A-Za-z0-9-]+[ \t]*$"
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
DEFINITION = re.compile(
    rf"(?m)^[ \t>]*\[[^\[\]]+\]:\s*(?:<[^<>\n]*>|\S+)(?:\s+(?P<title>{TITLE}))?[ \t]*\r?$"
)
INLINE_PATTERN = (
    r"(?P<escape>\\[!-#%-/:-@\[-`{-~])"
    r"|(?P<break>(?: {2,}|\\)\n[ \t]*|[ \t]*\n\|[ \t]+)|(?P<soft>[ \t]*\n[ \t]*)"
    r"|(?P<role>\{[\w:+.-]{1,40}\}(?=`))"
    r"|(?P<wiki>!?\[\[[^\[\]|\n]{1,200}(?:\|[^\[\]\n]{1,200})?\]\])"
    r"|(?P<ticks>`+)"
    r"|(?P<unit>\\[A-Za-z]+(?:\[[^\[\]\n]{0,200}\])?\{[^{}\s]{0,200}\}|\\\$"
    r"|\$\$(?:(?!\$\$).){1,2000}\$\$|\$(?=\S)[^$\n]+?(?<=\S)\$(?!\d)"
    r"|<[A-Za-z][A-Za-z0-9+.-]{1,31}:[^\s<>]*>|<[^\s<>@]+@[^\s<>]+>"
    # here __so__ is emphasis, [v2](so) a link, and * behind an address ends emphasis
    rf"|(?:{PATTERNS['link']})(?<![*~])"
    rf"|EXPRESSION(?!__|\[[^\[\]\n]*\][(\[])(?:{PLACEHOLDER})|{FORMULA})"
    r"|(?P<point>\[\^[^\]\s]+\]:?)|(?P<link>!?\[)|(?P<run>\*+|_+|~~|==)|(?P<tag><)"
)
INLINE = re.compile(INLINE_PATTERN.replace("EXPRESSION", ""), re.DOTALL)
BRACES = r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}"
MDX_INLINE = re.compile(INLINE_PATTERN.replace("EXPRESSION", f"{BRACES}|"), re.DOTALL)
VALUE = rf"""(?:"[^"]*"|'[^']*'|{BRACES}|[^\s"'=<>`{{}}]+)"""
HTML_TAG = re.compile(
    r"</?(?P<name>[A-Za-z][\w:.-]*)?"
    rf"""(?P<rest>(?:\s+(?:[A-Za-z_:@#*\[(][^\s=<>"'/{{}}]*(?:\s*=\s*{VALUE})?|{BRACES}))*)\s*/?>"""
)
ROLE_TEXT = re.compile(r"(?P<ticks>`+)(?P<text>[^`<>]+?)(?P<target>\s*<[^<>`]*>(?P=ticks))")
CODE_SPAN = re.compile(r"(?<!`)(`{1,3})(?!`)[^`\n]+(?<!`)\1(?!`)")
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
LINE_START = re.compile(
    r"(?m)^([ \t]*)(?:(\d{1,9})(?=[.)](?:\s|$))"
    r"|(?=#{1,6}\s|[-+*](?:\s|$)|>|=+\s*$|-+\s*$|~~~|:::|:\s|///"
    r"|\$\$(?!(?:(?!\$\$).)+\$\$[ \t]*\S)"  # a formula with text behind it is no block
    r"|!!!\s|\?\?\?\+?\s|===[!+]?\s|\{:|(?:\^{3,}|\+{3,})\s*$))"
)
LITERAL = re.compile(
    r"\\(?![A-Za-z0-9])|`|(?<!\s)\*|\*(?!\s)|(?<!\w)_|_(?!\w)|==|~~"
    r"|\](?=[(\[:])|(?<=\[)\[|<(?=[A-Za-z/!?])|&(?=#?\w+;)"
)
ENTITIES = {"&": "&amp;", "<": "&lt;"}  # all other signs get a backslash
DEEPEST = 20  # images inside each other, and emphasis that is looked at


# --------------------------------------------------------------------------------------------------
# Blocks

# A box has a title, and its text is indented; the text of an item begins behind its sign.
BOX = r"(?:!!!|\?\?\?\+?|===[!+]?)[ \t]+\S"
ITEM = r"(?:\[\^[^\]\s]+\]:|\*\[[^\]\n]+\]:|:[ \t])[ \t]*(?=\S)"
INDENTED = re.compile(rf"(?P<box>{BOX})|(?P<item>{ITEM})")
# text is between two such lines, and may have others inside
FENCED = re.compile(r"(?::{3,}|/{3,})(?=$|[^:/])")
FENCE_TITLE = re.compile(
    r"[ \t]*(?:\{[^{}]*\}|[\w-]*)[ \t]*"
    r"(?:\|[ \t]*)?(?:\[(?P<bracket>[^\[\]]*)\]|(?P<rest>.*))"
)
BOX_TITLE = re.compile(r"\"(?P<title>(?:[^\"\\]|\\.)*)\"[ \t]*$")
# a line of a paragraph that is not indented
CONTINUES = re.compile(r"(?!\d+[.)]\s)(?:[*_](?=\S)|[\w\"'„“«(\[])")
LIQUID = re.compile(r"\{%-?\s*(?P<name>highlight|comment|code)\b[^%\n]*%\}\s*")
RAW_LINE = re.compile(r"\{%-?\s*(?:end)?raw\s*-?%\}\s*")  # what is between is Markdown
# {: .class #id key="value"}, {:toc} and {::options /} of kramdown
ATTRIBUTE_LINE = re.compile(r"\{:(?:[^{}\n\"']|\"[^\"\n]*\"|'[^'\n]*')*\}\s*")
# {tip} of MyST; :class: so stands between it and the text
DIRECTIVE = re.compile(r"[ \t]*\{[A-Za-z][\w:-]*\}")
OPTION_LINE = re.compile(r":[A-Za-z][\w-]*:(?:[ \t].*)?\s*")
# Directives whose body, between lines of backticks, is Markdown; that of any other is code
TEXT_DIRECTIVE = re.compile(
    r"(?P<fence>`{3,}|~{3,})[ \t]*\{(?i:admonition|attention|caution|danger|error|hint|important"
    r"|note|seealso|tip|todo|warning|version(?:added|changed|removed)|deprecated|abstract|aside"
    r"|card(?:-carousel)?|details|dropdown|epigraph|exercise|figure|grid(?:-item)?(?:-card)?"
    r"|highlights|list-table|margin|prf:[\w-]+|pull-quote|rubric|sidebar|solution"
    r"|tab(?:-set|-item|le)?|toggle|topic)\}"
)
# ^^^ and +++ divide a card of MyST; +++ may have data in JSON
CARD_LINE = re.compile(r"\^{3,}\s*|\+{3,}[ \t]*(?:\{.*\})?\s*")
MULTILINE_TEMPLATE = re.compile(rf"(?:{TEMPLATE})[ \t]*$", re.MULTILINE)
GRID_LINE = re.compile(r"\+(?:[-=:]+\+)+")
COMMENT_LINE = re.compile(r"%(?=\s|$)")
ESM = re.compile(r"(?:import|export)\b")


def read_indented(state: Any, first: int, last: int, silent: bool) -> bool:
    """A rule of markdown-it: a box or an item with what is indented below it."""
    start = state.bMarks[first] + state.tShift[first]
    match = INDENTED.match(state.src, start, state.eMarks[first])
    if not match or state.is_code_block(first):
        return False
    if silent:
        return True
    is_box = bool(match["box"])
    kind = "box" if is_box else "item"
    width = 4 if is_box else 2
    after = indented_end(state, first, last, width, is_lazy=not is_box)
    token = state.push(f"{kind}_open", "", 1)
    token.map = [first, after]

    # What is inside is read with another indentation, up to another last line.
    begin = first
    line_start = (state.bMarks[first], state.tShift[first], state.sCount[first])
    block = (state.blkIndent, state.lineMax)
    state.blkIndent += width
    state.lineMax = after
    if is_box:
        title = BOX_TITLE.search(state.src, start, state.eMarks[first])
        add_title(state, first, title["title"] if title else "")
        begin = first + 1
    else:
        state.bMarks[first] = match.end()
        state.tShift[first] = 0
        state.sCount[first] = state.blkIndent
    state.md.block.tokenize(state, begin, after)
    state.bMarks[first], state.tShift[first], state.sCount[first] = line_start
    state.blkIndent, state.lineMax = block

    state.push(f"{kind}_close", "", -1)
    state.line = after
    return True


def indented_end(state: Any, first: int, last: int, width: int, is_lazy: bool) -> int:
    """The line after what is indented by `width`.

    `is_lazy`: a paragraph goes on in lines that are not.
    """
    line = first + 1
    after = line
    while line < last:
        start = state.bMarks[line] + state.tShift[line]
        if state.isEmpty(line):
            is_lazy = False
        elif state.sCount[line] >= state.blkIndent + width:
            after = line + 1
        elif is_lazy and CONTINUES.match(state.src, start) and not INDENTED.match(state.src, start):
            after = line + 1
        else:
            break
        line += 1
    return after


def add_title(state: Any, line: int, title: str) -> None:
    if title.strip():
        token = state.push("inline", "", 0)
        token.content = title.strip()
        token.map = [line, line + 1]
        token.children = []


def read_fence_line(state: Any, first: int, last: int, silent: bool) -> bool:
    """A rule of markdown-it: a line of ::: or /// with a title; what follows is Markdown."""
    start = state.bMarks[first] + state.tShift[first]
    match = FENCED.match(state.src, start, state.eMarks[first])
    if not match or state.is_code_block(first):
        return False
    if not silent:
        state.line = begin_box(state, first, last, match.end())
    return True


def read_directive(state: Any, first: int, last: int, silent: bool) -> bool:
    """A rule of markdown-it: a directive of MyST between lines of backticks, whose body is text."""
    start = state.bMarks[first] + state.tShift[first]
    match = TEXT_DIRECTIVE.match(state.src, start, state.eMarks[first])
    if not match or state.is_code_block(first):
        return False
    if silent:
        return True
    fence = match["fence"]
    after = first + 1
    while after < last:
        line = line_text(state, after)
        is_outside = bool(line) and state.sCount[after] < state.blkIndent
        if is_outside or (line.startswith(fence) and not line.strip(fence[0])):
            break
        after += 1
    last_line = state.lineMax
    state.lineMax = after
    begin = begin_box(state, first, after, match.end("fence"))
    state.level += 1  # markdown-it goes to a certain depth
    state.md.block.tokenize(state, begin, after)
    state.level -= 1
    state.lineMax = last_line
    has_end = after < last and line_text(state, after).startswith(fence)
    state.line = after + has_end
    return True


def line_text(state: Any, line: int) -> str:
    start = state.bMarks[line] + state.tShift[line]
    return str(state.src[start : state.eMarks[line]]).rstrip()


def begin_box(state: Any, first: int, last: int, sign_end: int) -> int:
    """Add the title of a box behind its signs; returns the line after it and its options."""
    token = state.push("box_line", "", 0)
    token.map = [first, first + 1]
    end = state.eMarks[first]
    title = FENCE_TITLE.match(state.src, sign_end, end)
    if title:
        add_title(state, first, title["bracket"] or title["rest"] or "")
    after = first + 1
    if not DIRECTIVE.match(state.src, sign_end, end) or after == last:
        return after
    if line_text(state, after) == "---":  # options in YAML
        ends = (line for line in range(after + 1, last) if line_text(state, line) == "---")
        return next(ends, first) + 1
    while after < last and OPTION_LINE.fullmatch(line_text(state, after)):
        after += 1
    return after


def rule_of_line(kind: str, pattern: re.Pattern[str]) -> Callable[..., bool]:
    """A rule of markdown-it for a line that is markup as a whole."""

    def end_of(state: Any, first: int, last: int) -> int:
        start = state.bMarks[first] + state.tShift[first]
        is_markup = pattern.fullmatch(state.src, start, state.eMarks[first])
        return first + 1 if is_markup and not state.is_code_block(first) else 0

    return rule_of_lines(kind, end_of)


def rule_of_lines(kind: str, end_of: Callable[[Any, int, int], int]) -> Callable[..., bool]:
    """A rule of markdown-it for blocks of lines without others inside.

    `end_of` finds the line after the block that begins in a line; 0: none begins there.
    """

    def rule(state: Any, first: int, last: int, silent: bool) -> bool:
        after = end_of(state, first, last)
        if after and not silent:
            token = state.push(kind, "", 0)
            token.map = [first, after]
            state.line = after
        return bool(after)

    return rule


def formula_end(state: Any, first: int, last: int) -> int:
    """Of $$ with lines up to the one that ends in $$."""
    start = state.bMarks[first] + state.tShift[first]
    if not state.src.startswith("$$", start) or state.is_code_block(first):
        return 0
    end = state.src.find("$$", start + 2)
    line = first
    while line < last and state.eMarks[line] < end:
        line += 1
    if end < 0 or line == last or state.src[end + 2 : state.eMarks[line]].strip():
        return 0
    return line + 1


def liquid_end(state: Any, first: int, last: int) -> int:
    """Of {% highlight %} and others of Liquid, on lines of their own, with the code between."""
    start = state.bMarks[first] + state.tShift[first]
    begin = LIQUID.fullmatch(state.src, start, state.eMarks[first])
    if not begin or state.is_code_block(first):
        return 0
    # A long block has many such lines; where one has no end, the ones after it have none.
    without_end = state.env.setdefault("without end", set())
    if (begin["name"], last) in without_end:
        return 0
    end = re.compile(rf"\{{%-?\s*end{begin['name']}\s*-?%\}}\s*")
    for line in range(first + 1, last):
        if end.fullmatch(state.src, state.bMarks[line] + state.tShift[line], state.eMarks[line]):
            return line + 1
    without_end.add((begin["name"], last))
    return 0


def template_end(state: Any, first: int, last: int) -> int:
    """Of a template that has several lines, such as {{< figure … >}} of Hugo."""
    start = state.bMarks[first] + state.tShift[first]
    template = MULTILINE_TEMPLATE.match(state.src, start, state.eMarks[last - 1])
    if not template or state.is_code_block(first):
        return 0
    line = first + str(template[0]).count("\n")
    return line + 1 if line > first else 0


def grid_end(state: Any, first: int, last: int) -> int:
    """Of a table of pandoc, which is drawn: the words of a translation have other widths."""
    if not GRID_LINE.fullmatch(line_text(state, first)) or state.is_code_block(first):
        return 0
    line = first + 1
    while line < last and line_text(state, line).startswith(("+", "|")):
        line += 1
    return line


def comment_end(state: Any, first: int, last: int) -> int:
    """Of lines of MyST that begin with %; in the first line of a file it is a title of pandoc."""
    if first == 0 or state.is_code_block(first):
        return 0
    line = first
    while line < last and COMMENT_LINE.match(line_text(state, line)):
        line += 1
    return line if line > first else 0


def esm_end(state: Any, first: int, last: int) -> int:
    """Of import and export in MDX: they go on up to a blank line outside brackets."""
    if state.level or state.sCount[first] or not ESM.match(state.src, state.bMarks[first]):
        return 0
    depth = 0
    line = first
    while line < last and not (state.isEmpty(line) and depth <= 0):
        source = state.src[state.bMarks[line] : state.eMarks[line]]
        opened = len(re.findall(r"[({\[]", source))
        closed = len(re.findall(r"[)}\]]", source))
        depth += opened - closed
        line += 1
    return line


COMPONENT = re.compile(r"</?(?P<name>[A-Z]\w*[a-z][\w.]*)(?=[\s/>]|$)")
MARKDOWN_ATTRIBUTE = re.compile(r"\smarkdown(?:=[\"']?(?:1|span|block)[\"']?)?(?=\s|/?$)")
JSX = re.compile(rf"[ \t]*(?:{HTML_TAG.pattern}|{BRACES})")


def jsx_end(state: Any, first: int, last: int) -> int:
    """Of lines of MDX that have tags and expressions alone."""
    start = state.bMarks[first] + state.tShift[first]
    stop = state.eMarks[last - 1]
    position = start
    while match := JSX.match(state.src, position, stop):
        position = match.end()
        end = state.src.find("\n", position)
        if not state.src[position : end if end >= 0 else stop].strip():
            break
    if position == start or not match:
        return 0
    return first + 1 + int(state.src.count("\n", start, position))


def component_end(state: Any, first: int, last: int) -> int:
    """Of tags of components, such as <TabItem>, in Markdown: lines with tags alone."""
    from markdown_it.common.html_blocks import block_names

    start = state.bMarks[first] + state.tShift[first]
    match = COMPONENT.match(state.src, start, state.eMarks[first])
    if not match or state.is_code_block(first):
        return 0
    if match["name"].lower() in {*block_names, *RAW_TEXT, *LINES, *CODE}:  # HTML in capitals
        return 0
    after = jsx_end(state, first, last)
    return 0 if after and is_code_below(state, after, last) else after


def is_code_below(state: Any, line: int, last: int) -> bool:
    """Whether what follows a tag is so far indented that it would be code, where it is none."""
    while line < last and state.isEmpty(line):
        line += 1
    return line < last and state.is_code_block(line)


def read_markdown_in_html(state: Any, first: int, last: int, silent: bool) -> bool:
    """A rule of markdown-it: a tag with markdown="1", whose content is Markdown (md_in_html)."""
    start = state.bMarks[first] + state.tShift[first]
    end = state.eMarks[first]
    tag = HTML_TAG.match(state.src, start, end)
    if not tag or not MARKDOWN_ATTRIBUTE.search(tag["rest"] or "") or state.is_code_block(first):
        return False
    rest = state.src[tag.end() : end].rstrip()
    is_whole = rest.endswith(f"</{tag['name']}>")
    if not is_whole and (rest or is_code_below(state, first + 1, last)):
        return False
    if not silent:
        token = state.push("inline" if is_whole else "html_block", "", 0)
        token.content = state.src[start:end]
        token.map = [first, first + 1]
        token.children = []
        state.line = first + 1
    return True


def parse_blocks(text: str, environment: dict[str, Any], is_mdx: bool) -> list[Any]:
    """The tokens of markdown-it, inline ones as they are; raises UserError where it is missing."""
    try:
        from markdown_it import MarkdownIt
    except ImportError:
        raise UserError(
            f"Markdown is read by markdown-it-py: {install_extra('documents')}."
        ) from None
    parser = MarkdownIt("commonmark").enable("table").disable("inline")
    rules = {
        "indented": read_indented,
        "fence_line": read_fence_line,
        "formula": rule_of_lines("math_block", formula_end),
        "template": rule_of_lines("template", template_end),
        "card_line": rule_of_line("card_line", CARD_LINE),
        "liquid": rule_of_lines("liquid", liquid_end),
        "raw_line": rule_of_line("raw_line", RAW_LINE),
    }
    # These end no paragraph
    for name, end_of in (("grid_table", grid_end), ("comment", comment_end)):
        parser.block.ruler.before("table", name, rule_of_lines(name, end_of))
    if is_mdx:
        parser.disable(["code", "html_block"])
        parser.block.ruler.before("table", "esm", rule_of_lines("esm", esm_end))
        rules["jsx"] = rule_of_lines("jsx", jsx_end)
    else:
        rules["directive"] = read_directive
        rules["component"] = rule_of_lines("jsx", component_end)
        rules["markdown_in_html"] = read_markdown_in_html
        rules["attributes"] = rule_of_line("attributes", ATTRIBUTE_LINE)
    # What such a block ends, if it begins there.
    ends: Any = {"alt": ["paragraph", "reference", "blockquote", "list"]}
    for name, rule in rules.items():
        parser.block.ruler.before("table", name, rule, ends)
    return parser.parse(text, environment)


def body_start(text: str) -> int:
    """Where the Markdown begins, after the front matter."""
    matter = FRONT_MATTER.match(text)
    return matter.end() if matter else 0


def count_blocks(data: bytes, is_mdx: bool = False) -> Counter[str]:
    """Of Markdown: blocks by their kind."""
    text = data.decode("utf-8-sig")
    counts = Counter[str]()
    for token in parse_blocks(text[body_start(text) :], {}, is_mdx):
        if not token.type.endswith("_close"):
            counts[f"{token.type.removesuffix('_open')} blocks"] += 1
    return counts


# --------------------------------------------------------------------------------------------------
# Documents

CODE_BLOCKS = ("fence", "code_block", "math_block", "liquid", "template", "esm", "html_block")
LEFT_BLOCKS = dict.fromkeys(CODE_BLOCKS, AS_CODE)
LEFT_BLOCKS |= {"grid_table": "tables drawn with + and |", "comment": COMMENTS}


def read_markdown(text: str, is_mdx: bool = False) -> Iterator[Part]:
    """The parts of a document; raises UserError where markdown-it is missing."""
    body = body_start(text)
    ends_of_lines = re.compile(r"\r\n|\r|\n").finditer(text, body)
    starts = [body, *(match.end() for match in ends_of_lines), len(text)]
    environment: dict[str, Any] = {}
    tokens = parse_blocks(text[body:], environment, is_mdx)
    labels = {normal_label(label) for label in environment.get("references", {})}
    page = Page(text, starts, MdxReader if is_mdx else InlineReader, labels)
    yield from matter_parts(text[:body])
    position = body
    before = ""  # the type of the token before
    quotes = 0  # inside each other
    for token in tokens:
        is_cell = before in ("th_open", "td_open")
        before = token.type
        if before in ("blockquote_open", "blockquote_close"):
            quotes += token.nesting
        first, last = token.map or (0, 0)
        start = max(starts[first], position)
        end = starts[min(last, len(starts) - 1)]
        parts: list[Part] = []
        if token.type == "inline":
            lines = page.find_lines(token.content, first, position, is_cell)
            if lines:
                start = lines[0][0]
                end = lines[-1][1]
                parts = page.block_parts(lines, is_cell)
        elif token.type == "html_block" and not quotes:
            # Behind the sign of an item
            start = max(text.find(token.content.split("\n")[0], start, end), start)
            parts = html_parts(text[start:end])
        elif token.type == "jsx":
            parts = jsx_parts(text, start, end)
        elif token.type in LEFT_BLOCKS:
            parts = [left_if_letters(text[start:end], LEFT_BLOCKS[token.type])]
        if parts:
            yield from gap_parts(text[position:start])
            yield from parts
            position = end
    yield from gap_parts(text[position:])


def matter_parts(text: str) -> Iterator[Part]:
    """Of front matter: titles and descriptions in one line are text."""
    position = 0
    for match in TITLES.finditer(text):
        start, end = match.span("value")
        quote = text[start]
        if quote in "\"'":
            start += 1
            end -= 1
        if quote == "'" and text.startswith("+++"):
            # TOML: such a text cannot have an apostrophe, so the quotation marks may change
            plain = text[start:end]
            start -= 1
            end += 1
            yield left_if_letters(text[position:start], "front matter")
            yield text_part(plain, text[start:end], layout=toml_string)
            position = end
            continue
        raw = text[start:end]
        yield left_if_letters(text[position:start], "front matter")
        if quote == '"':
            plain = re.sub(r"\\(.)", r"\1", raw)
            yield text_part(plain, raw, lambda text: json.dumps(text, ensure_ascii=False)[1:-1])
        elif quote == "'":
            yield text_part(raw.replace("''", "'"), raw, lambda text: text.replace("'", "''"))
        else:
            yield text_part(raw, raw, layout=quoted_if_needed)
        position = end
    yield left_if_letters(text[position:], "front matter")


def toml_string(value: str) -> str:
    return json.dumps(value, ensure_ascii=False) if "'" in value else f"'{value}'"


def quoted_if_needed(value: str) -> str:
    """A value of YAML, in quotes where it would not be read as the same text without."""
    if NOT_PLAIN.search(value) or not isinstance(yaml_value(value), str):
        return json.dumps(value, ensure_ascii=False)
    return value


def yaml_value(value: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(value)
    except (yaml.YAMLError, ValueError):
        return None


def html_parts(text: str) -> list[Part]:
    """A block of HTML; what the reader of HTML refuses stays as it is."""
    try:
        return list(read_html(text))
    except Malformed:
        return [left_if_letters(text, AS_CODE)]


def jsx_parts(text: str, start: int, end: int) -> list[Part]:
    """Tags of MDX with the texts among their attributes."""
    parts: list[Part] = []
    for match in JSX.finditer(text, start, end):
        parts.append(left_if_letters(text[start : match.start()], AS_CODE))
        if match["rest"] is None:
            parts.append(left_if_letters(match[0], AS_CODE))
        else:
            parts += tag_parts(text, match, (match["name"] or "").lower(), {})
        start = match.end()
    return [*parts, left_if_letters(text[start:end], AS_CODE)]


def gap_parts(text: str) -> list[Part]:
    """What is between blocks: signs, definitions of references, and what was not understood.

    The titles of references are text.
    """
    parts: list[Part] = []
    position = 0
    for match in DEFINITION.finditer(text):
        parts.append(left_if_letters(text[position : match.start()], AS_CODE))
        position = match.end()
        if match["title"]:
            start, end = match.span("title")
            parts.append(text[match.start() : start])
            parts += title_parts(text[start:end])
            parts.append(text[end:position])
        else:
            parts.append(match[0])
    rest = text[position:]
    has_word = re.search(r"[^\W\d_]{2}", rest)
    return [*parts, left_if_letters(rest, AS_CODE) if has_word else rest]


def title_parts(raw: str, is_cell: bool = False) -> list[Part]:
    """The title of a link, in its quotation marks."""
    special = rf"[\\{raw[-1]}|]" if is_cell else rf"[\\{raw[-1]}]"

    def escape(text: str) -> str:
        return re.sub(special, r"\\\g<0>", text.replace("&", "&amp;"))

    plain = html.unescape(re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", raw[1:-1]))
    return [raw[0], text_part(plain, raw[1:-1], escape), raw[-1]]


@dataclass
class Page:
    """A document: where its lines begin, and how the text of its blocks is read."""

    text: str
    starts: list[int]
    reader: type[InlineReader]
    labels: Collection[str]  # that are defined, as `normal_label` writes them

    def find_lines(
        self, content: str, first: int, position: int, is_cell: bool
    ) -> list[tuple[int, int]]:
        """The span of each line of a block's content, spaces at its end included.

        None if one is not found. The block begins in line `first`, and not before `position`.
        """
        if prefix := PREFIX.match(content):
            content = content[prefix.end() :]
            first += prefix[0].count("\n")
        suffix = SUFFIX.search(content)
        shown = content[: suffix.start()] if suffix else content
        ends = list(map(len, shown.rstrip().split("\n")))  # of each line, without the suffix
        spans = []
        for number, line in enumerate(content.rstrip().split("\n")[: len(ends)], first):
            end = ends[number - first]
            if number + 1 >= len(self.starts):
                return []
            low = max(self.starts[number], position)
            high = self.starts[number + 1]
            if is_cell:
                start = self.text.find(line, low, high)
                if start < 0:
                    line = line.replace("|", "\\|")
                    end = len(line)
                    start = self.text.find(line, low, high)
            else:
                # markdown-it writes spaces for a tab that is in part an indentation
                indentation = len(line) - len(line.lstrip(" \t"))
                end -= indentation
                start = self.text.rfind(line[indentation:], low, high)
            if start < 0:
                return []
            spans.append((start, start + end))
        return spans if shown.strip() else []

    def block_parts(self, lines: list[tuple[int, int]], is_cell: bool) -> list[Part]:
        """The text of a block in these lines; the title of an alert is a text of its own."""
        first, last = lines[0]
        line_start = self.text.rfind("\n", 0, first) + 1
        is_alert = re.search(r"\[!\w+\][+-]?[ \t]*$", self.text[line_start:first])
        if is_alert and len(lines) > 1:
            between = self.text[last : lines[1][0]]
            return [self.read_block(lines[:1]), between, self.read_block(lines[1:])]
        contents = [self.text[first:last] for first, last in lines]
        reader = self.reader("\n".join(contents), self.labels, is_cell)
        return self.menu_parts(lines, reader) or [self.read_block(lines, is_cell)]

    def menu_parts(self, lines: list[tuple[int, int]], reader: InlineReader) -> list[Part]:
        """The links of a menu, each a text of its own, and what is between; none of a sentence."""
        parts: list[Part] = []
        position = lines[0][0]
        number = 0
        before = 0  # characters of the reader's text before this line
        for start, end in reader.menu_spans():
            while start > before + lines[number][1] - lines[number][0]:
                before += lines[number][1] - lines[number][0] + 1
                number += 1
            shift = lines[number][0] - before
            span = start + shift, end + shift
            if span[1] > lines[number][1]:  # a link in two lines
                return []
            parts += [self.text[position : span[0]], self.read_block([span], reader.is_cell)]
            position = span[1]
        return [*parts, self.text[position : lines[-1][1]]] if parts else []

    def read_block(self, lines: list[tuple[int, int]], is_cell: bool = False) -> Part:
        """The text of a block in these lines.

        A full paragraph gets lines of the same width; any other block is one line.
        """
        raw = self.text[lines[0][0] : lines[-1][1]]
        contents = [self.text[first:last] for first, last in lines]
        reader = self.reader("\n".join(contents), self.labels, is_cell)
        reader.read(0, len(reader.text))
        if len(lines) == 1:
            return reader.build(raw, str if is_cell else reader.escape_start)
        prefix = self.text[lines[0][1] : lines[1][0]].lstrip(" \\").lstrip("\r\n")
        return reader.build(raw, reader.layout(newline_of(raw) + prefix))


# --------------------------------------------------------------------------------------------------
# Inline


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

    PATTERN = INLINE
    NOT_IN_WORDS: Collection[str] = ("_", "__", "___")
    # Code, formulas, addresses of links, tags: no line ends inside of them, nor before ```
    UNBROKEN = re.compile(
        rf" (?=```)|{CODE_SPAN.pattern}|\$\$?(?=\S)[^$\n]+?(?<=\S)\$\$?|\]\([^()\n]*\)"
        r"|<[A-Za-z/][^<>\n]*>"
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
        self.is_link = False  # whether it reads the text of a link
        self.runs: list[Tag] = []  # of emphasis that is open
        self.unpaired: list[Tag] = []  # of emphasis that nothing closes

    def escape(self, text: str) -> str:
        """Plain text as the document has it."""
        written = LITERAL.sub(lambda match: ENTITIES.get(match[0], f"\\{match[0]}"), text)
        return written.replace("|", "\\|") if self.is_cell else written

    def escape_start(self, line: str) -> str:
        """A line that does not begin a block."""
        return LINE_START.sub(r"\1\2\\", line)

    def layout(self, separator: str) -> Callable[[str], str]:
        """How a translation is written: a full paragraph gets lines of the same width."""
        width = common_width(self.text.split("\n"))

        def lay_out(translation: str) -> str:
            # At the beginning of a line, a tag would begin a block of HTML, and a sign a list
            joined = self.UNBROKEN.sub(lambda match: match[0].replace(" ", NO_BREAK), translation)
            wrapped = wrap(joined, width, "", "\n").replace(NO_BREAK, " ")
            if HTML_TAG.fullmatch(wrapped.partition("\n")[0]):
                # A block of HTML, where the tag had several lines
                wrapped = wrapped.replace(" ", "\n", 1)
            return separator.join(map(self.escape_start, wrapped.split("\n")))

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
        closes = bool(before.strip()) and not (is_bound and after.isalnum())
        opens = bool(after.strip()) and not (is_bound and before.isalnum())
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

    PATTERN = MDX_INLINE

    def escape(self, text: str) -> str:
        return re.sub(r"[{}]", r"\\\g<0>", super().escape(text)).replace("<", "&lt;")

    def escape_start(self, line: str) -> str:
        """A line that does not begin with import or export: &#105; is an i, &#101; an e."""
        line = re.sub(r"^i(?=mport\b)", "&#105;", super().escape_start(line))
        return re.sub(r"^e(?=xport\b)", "&#101;", line)


def is_between_links(text: str) -> bool:
    """Whether it has nothing but what may stand between the links of a menu."""
    return bool(BETWEEN_LINKS.fullmatch(html.unescape(LINE_BREAK.sub(" ", text))))


def normal_label(label: str) -> str:
    return " ".join(label.split()).casefold()

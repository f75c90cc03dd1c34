"""The blocks of Markdown: which lines are a paragraph, a table, code … of which kind.

markdown-it reads CommonMark with tables. The rules here add what MkDocs, MyST, Docusaurus, Jekyll,
Hugo, Pandoc and GitHub have.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from nmt.documents.html import CODE, LINES, RAW_TEXT
from nmt.documents.segment import TEMPLATE
from nmt.errors import needs_extra

FRONT_MATTER = re.compile(
    r"(---|\+\+\+)[ \t]*\r?\n(?:.*?\n)??(?:\1|\.\.\.)"
    r"[ \t]*(?:\r?\n|\Z)",
    re.DOTALL,
)
BRACES = r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}"
VALUE = rf"""(?:"[^"]*"|'[^']*'|{BRACES}|[^\s"'=<>`{{}}]+)"""
HTML_TAG = re.compile(
    r"</?(?P<name>[A-Za-z][\w:.-]*)?"
    rf"""(?P<rest>(?:\s+(?:[A-Za-z_:@#*\[(][^\s=<>"'/{{}}]*(?:\s*=\s*{VALUE})?|{BRACES}))*)\s*/?>"""
)

# A box has a title, and its text is indented; the text of an item begins behind its sign.
BOX = r"(?:(?:!!!|\?\?\?\+?)(?:[ \t]+[\w-]+)+[ \t]*(?=\"|\n|\Z)|===[!+]?[ \t]+\S)"
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
# A line of its own, which ends a paragraph: {% if x %}, {{< quote >}} and {{% quote %}} of Hugo.
# What is between {% raw %} and {% endraw %} is Markdown.
TAG_LINE = re.compile(r"(?:\{%(?:(?!%\}).)+%\}|\{\{[<%](?:(?!\}\}).)+[>%]\}\})\s*")
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
    with needs_extra("documents"):
        from markdown_it import MarkdownIt
    parser = MarkdownIt("commonmark").enable("table").disable("inline")
    rules = {
        "indented": read_indented,
        "fence_line": read_fence_line,
        "formula": rule_of_lines("math_block", formula_end),
        "template": rule_of_lines("template", template_end),
        "card_line": rule_of_line("card_line", CARD_LINE),
        "liquid": rule_of_lines("liquid", liquid_end),
        "tag_line": rule_of_line("template", TAG_LINE),
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

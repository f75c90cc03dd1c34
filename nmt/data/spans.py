"""What must not be translated: e-mails, URLs, paths, numbers, times, codes, variables, emoji, bullets of lists."""

import re
from collections.abc import Collection
from typing import NamedTuple

DOMAINS = (
    "com|org|net|edu|gov|info|io|dev|app|eu|de|at|ch|uk|fr|it|es|nl|pl|cz|ru|jp|cn|us|tv|br|kr|tr|ua|se|dk|fi|hu|ro|gr|pt"
    "|example|invalid|localhost|local|online|shop|club|blog|wiki|social|cloud|tech|site|store|news|xyz|biz|berlin|wien"
)  # of names without a path; with one, any ending
FILES = (
    "txt|md|pdf|docx?|xlsx?|pptx?|od[tsp]|csv|tsv|json|xml|ya?ml|toml|ini|cfg|conf|log|html?|css|js|ts|py|cpp|java"
    "|rs|go|sh|bat|exe|dll|so|zip|gz|tar|7z|rar|iso|png|jpe?g|gif|svg|bmp|webp|mp[34]|wav|avi|mkv|mov|tmx|xlf"
    "|heic|ogg|flac|epub|apk|deb|jar|sql|php|tex|db|bak|tmp|PDF|DOCX?|XLSX?|TXT|CSV|ZIP|PNG|JPE?G|HEIC|MP[34]|MOV"
)
EMOJI = "\U0001f000-\U0001faff\u2600-\u27bf\u2b00-\u2bff\u2190-\u21ff\u2300-\u23ff"
JOINERS = "\ufe0f\u200d\u20e3\U000e0020-\U000e007f"
NUMBER = (
    r"(?:\+\d+(?:(?:[ /-]?\(\d+\)[ /-]?|[ /-])\d+)*|\d{1,2}\.\d{1,2}\.(?=[\s*)])"
    r"|\d{1,3}(?:[ \u00a0\u202f]\d{3})+(?![\d.,:/-]*\d)"
    r"|(?:[+−±]|(?<!\S)-)?\d+(?:[.,:/'’–-]\d+)*[½⅓¼⅔¾⅛]?|[½⅓¼⅔¾⅛])"
)
PATTERNS = {
    "placeholder": "[\uf100-\uf2ff]",
    "bullet": r"^\s*[*+•‣▪◦●○■□►·–—-](?=\s+\S)|\[[ xX]\](?=\s)|^\s*(?:#{1,6}|>+)(?=\s+\S)",
    "emphasis": r"\*\*|~~|(?<!\S)\*(?=\w)|(?<=\w)\*(?![\w*])|(?<!\S)\|(?!\S)|!?\[(?=[^\[\]\n]+\]\()|\]\([^()\s]+\)",
    "url": r"(?<![A-Za-z0-9+.-])(?:[a-z][a-z0-9+.-]*://|www\.|mailto:)[^\s<>\"“”„»«]+",
    "email": r"(?<![\w.+%@-])(?:@?[\w.+%-]+@|[\w.+-]+(?:\[at\]|\(at\)))[\w-]+(?:(?:\.|\[dot\]|\(dot\))[\w-]+)+"
    r"(?::[\w.~-]+/[\w./~-]*\w)?",
    "domain": rf"(?<![\w@.-])[\w-]+(?:\.[\w-]+)*\.(?:(?:{DOMAINS})(?![\w-])(?:[:/][^\s<>\"“”„»«]*)?"
    r"|[a-z]{2,10}/[^\s<>\"“”„»«]+)",
    "variable": r"[$#]?\{\{?[^{}\n]{0,40}\}\}?|%\(\w+\)[a-zA-Z]|%(?:\d+\$)?[-+0]?\d*(?:\.\d+)?[sdifuxXegc@](?!\w)"
    r"|%%|%\d+(?!\d)|%\w+%(?:\\[^\s<>\"|?*]+)?|\$[A-Za-z_]\w*(?:=[\w./-]*\w|(?:/[\w.+@~-]+)*)|\[\[[^\[\]\n]*\]\]|(?<!\w)__\w+__",
    "markup": r"</?[A-Za-z][^<>\n]*>|&(?:#\d+|#x[0-9a-fA-F]+|[a-zA-Z]+\d*);|`[^`\n]+`",
    "path": r"[A-Za-z]:\\[^\s<>\"|?*]+|\\\\[^\s<>\"|?*]+|(?<![\w./])(?:~|\.{1,2})?/(?:[\w.+@~-]+/)*[\w.+@~-]+/?",
    "file": rf"(?<![\w./-])[\w-]+(?:[./][\w-]+)*(?:\(\d+\))?\.(?:{FILES})(?!\w)|(?<!\S)\*?\.[a-z][\w.]*\w",
    "option": r"(?<![\w-])--[A-Za-z][\w-]*(?:=\S+)?",
    "handle": r"(?<![\w@#])(?:@\w+(?:[.-]\w+)*|#\w+(?:-[a-z0-9_]+)*)|(?<![\w/])[ur]/\w+|(?<!\S):[a-z]\w+:?(?!\w)",
    "identifier": r"(?<!\w)(?:[a-z_][\w.]*\((?=[^()\n]*[\"'=])[^()\n]{0,80}\)|\w+_\w+\([^()\n]{0,80}\)"
    r"|[a-z_]\w+(?:\.[A-Za-z_]\w+){2,}|\w+(?:::|->)\w+|[A-Za-z_]\w*\(\)|[A-Za-z]\w*_\w+(?:\.\w{2,5})?"
    r"|[a-z]+[A-Z]\w*(?:\[\w*\]|\.[a-z]\w*(?:\([^()\n]{0,80}\))?)*)(?!\w)|\[(?:ERROR|WARN(?:ING)?|INFO|DEBUG|FATAL)\]",
    "hexadecimal": r"(?<!\w)(?:[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}|0x[0-9a-fA-F]+"
    r"|(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,})(?!\w)",
    "mac": r"(?<!\w)[0-9A-Fa-f]{2}(?:[:-][0-9A-Fa-f]{2}){5}(?!\w)",
    "iban": r"(?<!\w)[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?\d{1,3})?(?!\w)",
    "plate": r"(?<!\w)[A-ZÄÖÜ]{1,3}-[A-ZÄÖÜ]{1,2} \d{1,4}[EH]?(?!\w)",
    "amount": r"(?<![\w.,:/-])\d+(?:[a-df-gi-rt-z]|x\d+)(?![\w-])",  # 1950s, 7h and 2e have translations
    "code": r"(?<!\w)(?=[A-Z0-9_./:-]*\d)(?=[A-Z0-9_./:-]*[A-Z])[A-Z0-9]+(?:[-_./:][A-Z0-9]+)*(?![\w])",
    "version": r"(?<!\w)[A-Za-z]+[-_]?\d+(?:[\w.-]*\w)?",
    "emoticon": r"(?<!\S)(?:[:;=][-o*']?[)(\]\[DPpOo/\\|*]+|<3|\^_?\^|[xX]D|[oO]_[oO]"
    r"|¯\\_\(ツ\)_/¯|\([^\w\s()]_[^\w\s()]\))(?!\w)",
    "emoji": f"[0-9#*]\ufe0f?\u20e3|[{EMOJI}][{EMOJI}{JOINERS}]*",
    "number": rf"\+/-|(?<![\w]){NUMBER}(?:\s?(?:[€$£¥%‰°]C?|[KMGT]i?B)(?!\w))?(?!\d|-?[^\W\d_])"
    rf"|[€$£¥]\s?{NUMBER}(?!\w)",
}
SPANS = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in PATTERNS.items()))
# Every span has one of these in it; most sentences have none, and are found to have none twenty times as fast.
POSSIBLE = re.compile(
    rf"[\d@#/\\$%{{<>&`\[_^=:;(*|>~½⅓¼⅔¾⅛\uf100-\uf2ff{EMOJI}]|\.\w|www\.|[a-z][A-Z]|[xX]D|--[A-Za-z]|[A-Fa-f]{{2}}-[A-Fa-f]{{2}}"
    r"|^\s*[*+•‣▪◦●○■□►·–—-]\s"
)
TRAILING = ".,;:!?)]'’"  # at the end of a URL it belongs to the sentence
JOINED = ("number", "emoji")  # kinds of which neighbours are one span, such as 12.5.2024, 14:30
BETWEEN = re.compile(r"[ ,;/·–-]{0,3}| (?:[+*/×÷=<>-]|==) ")  # of neighbours


class Span(NamedTuple):
    """A part of a text that is copied."""

    start: int
    end: int
    text: str

    @property
    def is_number(self) -> bool:
        """Whether it is a number, so that a plural may follow it."""
        return self.text[0].isdigit()


def find_spans(text: str, tags: Collection[str] = ()) -> list[Span]:
    """The spans of a text that must not be translated, from left to right; `tags` are pieces and stay text."""
    if not POSSIBLE.search(text):
        return []
    spans: list[Span] = []
    before = None  # the kind of the last span, if it may go on
    for match in SPANS.finditer(text):
        start, end = match.span()
        if match[0] in tags:
            continue
        if match.lastgroup in ("url", "domain"):
            while end > start + 1 and text[end - 1] in TRAILING:
                if text[end - 1] == ")" and "(" in text[start:end]:
                    break
                end -= 1
        kind = match.lastgroup if match.lastgroup in JOINED else None
        if kind and kind == before and BETWEEN.fullmatch(text, spans[-1].end, start):
            start = spans.pop().start
        before = kind
        spans.append(Span(start, end, text[start:end]))
    return spans

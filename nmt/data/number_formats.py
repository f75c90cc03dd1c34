"""Numbers and dates of Excel as they are shown: a cell has a number, and its style the code of a
format.

Such a code has up to four sections, for positive, negative and no numbers and for texts. `0` and
`#` are digits, `y m d h s` parts of dates. Names of months and days are English ones. What is not
known here is shown in the general format.
"""

import re
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal

GENERAL = "General"
BUILT_IN = {
    1: "0",
    2: "0.00",
    3: "#,##0",
    4: "#,##0.00",
    9: "0%",
    10: "0.00%",
    11: "0.00E+00",
    14: "m/d/yyyy",
    15: "d-mmm-yy",
    16: "d-mmm",
    17: "mmm-yy",
    18: "h:mm AM/PM",
    19: "h:mm:ss AM/PM",
    20: "h:mm",
    21: "h:mm:ss",
    22: "m/d/yyyy h:mm",
    37: "#,##0;-#,##0",
    38: "#,##0;-#,##0",
    39: "#,##0.00;-#,##0.00",
    40: "#,##0.00;-#,##0.00",
    45: "mm:ss",
    47: "mm:ss",
    48: "0.0E+0",
    49: "@",
}
LITERAL = re.compile(
    r'"(?P<quoted>[^"]*)"|\\(?P<escaped>.)|_.|\*.|\[(?:\$(?P<currency>[^\]-]*))?[^\]]*\]'
)
DATE = re.compile(r"(?P<half>am/pm|a/p)|(?P<part>y+|m+|d+|h+|s+)(?:\.0+)?", re.IGNORECASE)
DIGITS = re.compile(r"[#0?][#0?,.]*")
NAMED = {"yy": "%y", "mmm": "%b", "mmmm": "%B", "ddd": "%a", "dddd": "%A"}
SECONDS = 86_400  # of a day
LAST_DAY = 2_958_465  # 9999-12-31


def shown(value: str, code: str, is_1904: bool) -> str:
    """The number of a cell, such as 45292, in the format of a code, such as yyyy-mm-dd."""
    try:
        number = float(value)
    except ValueError:
        return value
    sections = code.split(";")
    section = sections[1] if number < 0 and len(sections) > 1 else sections[0]
    bare = LITERAL.sub("", section)
    if (
        bare.strip().lower() in ("general", "@", "")
        or not DIGITS.search(bare)
        and not DATE.search(bare)
    ):
        return general(number)
    if DATE.search(bare) and not re.search("[#?]|0(?!0*$)", DATE.sub("", bare)):
        return date_text(number, section, is_1904)
    return number_text(abs(number) if len(sections) > 1 else number, section)


def general(number: float) -> str:
    return str(int(number)) if number.is_integer() and abs(number) < 1e11 else f"{number:.10g}"


def literal(match: re.Match[str]) -> str:
    """The text that a part of a code stands for by itself; colours, conditions and gaps are
    none."""
    return match["quoted"] or match["escaped"] or match["currency"] or ""


def number_text(number: float, section: str) -> str:
    bare = LITERAL.sub(lambda match: " " * len(match[0]), section)  # the places stay
    digits = DIGITS.search(bare)
    assert digits is not None
    if "/" in bare or "E" in bare:
        return general(number)
    number *= 100 ** bare.count("%")
    whole, _, decimals = digits[0].partition(".")
    rounded = Decimal(repr(number)).quantize(Decimal(1).scaleb(-len(decimals)), ROUND_HALF_UP)
    text = f"{rounded:,f}" if "," in whole else f"{rounded:f}"
    optional = len(decimals) - len(decimals.rstrip("#?"))
    for _ in range(optional):
        text = text.removesuffix("0")
    text = text.removesuffix(".")
    sign = "-" if text.startswith("-") else ""
    shown_whole, point, shown_decimals = text.removeprefix("-").partition(".")
    text = shown_whole.rjust(whole.count("0"), "0") + point + shown_decimals
    before = LITERAL.sub(literal, section[: digits.start()])
    after = LITERAL.sub(literal, section[digits.end() :])
    return f"{sign}{before}{text}{after}".strip()


def date_text(number: float, section: str, is_1904: bool) -> str:
    if not 0 <= number <= LAST_DAY:
        return general(number)
    days = int(number)
    # 1900 had no February 29
    start = datetime(1904, 1, 1) if is_1904 else datetime(1899, 12, 30 if days >= 60 else 31)
    moment = start + timedelta(days=days, seconds=round((number - days) * SECONDS))
    has_half = "am/pm" in LITERAL.sub("", section).lower()
    found = []
    position = 0
    before = ""  # the last part of a date
    parts = list(re.finditer(f"{LITERAL.pattern}|{DATE.pattern}", section, re.IGNORECASE))
    for place, match in enumerate(parts):
        found.append(section[position : match.start()])
        position = match.end()
        part = (match["part"] or "").lower()
        if match["half"]:
            found.append(f"{moment:%p}")
        elif not part:
            found.append(literal(match))
        else:
            after = next((each["part"].lower() for each in parts[place + 1 :] if each["part"]), "")
            is_minute = part in ("m", "mm") and (before.startswith("h") or after.startswith("s"))
            found.append(date_part(moment, part.replace("m", "n") if is_minute else part, has_half))
            before = part
    return "".join([*found, section[position:]]).strip()


def date_part(moment: datetime, part: str, has_half: bool) -> str:
    hour = (moment.hour - 1) % 12 + 1 if has_half else moment.hour
    numbers = {
        "m": moment.month,
        "d": moment.day,
        "h": hour,
        "s": moment.second,
        "n": moment.minute,
    }
    if part in NAMED:
        return f"{moment:{NAMED[part]}}"
    if part == "mmmmm":
        return f"{moment:%b}"[0]
    return f"{numbers[part[0]]:0{len(part)}}" if part[0] in numbers else f"{moment.year:04}"

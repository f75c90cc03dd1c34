"""Write nmt/corpus/language_names.tsv, the names of languages in other languages, from CLDR.

Each language in its own words and in those of the languages that many people share; these in the
words of all. That is what the columns of a table are called in practice. CLDR is read by Babel,
which comes with mkdocs-material.
"""

from collections import defaultdict
from pathlib import Path

from babel import Locale
from babel.localedata import locale_identifiers

from nmt.corpus.languages import CODES, folded

SHARED = set("ar de en es fr hi id it ja ko nl pl pt ru sw tr uk vi zh".split())
PATH = Path(__file__).parents[1] / "nmt" / "data" / "language_names.tsv"


def find_names() -> dict[str, set[str]]:
    """Code → its names as `folded` has them, without those of several languages."""
    names: dict[str, set[str]] = defaultdict(set)
    codes: dict[str, set[str]] = defaultdict(set)
    for identifier in locale_identifiers():
        if "_" in identifier and not identifier.startswith("zh_Han"):
            continue
        speaker = CODES.get(identifier.split("_")[0])
        for key, name in Locale.parse(identifier).languages.items():
            code = CODES.get(key.split("_")[0])
            is_plain = "_" not in key or key.startswith("zh_")  # pt_BR: its name has that of pt
            if code and is_plain and (speaker == code or {speaker, code} & SHARED):
                names[code].add(folded(name))
                codes[folded(name)].add(code)
    return {
        code: {name for name in found if len(codes[name]) == 1} for code, found in names.items()
    }


def main() -> None:
    lines = [
        f"{code}\t{'|'.join(sorted(names - CODES.keys()))}\n"
        for code, names in sorted(find_names().items())
    ]
    PATH.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()

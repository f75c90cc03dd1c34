"""How well runs translate single everyday words and phrases, German to English: those in everyday_words.tsv.

python scripts/everyday_words.py RUN …    # for each run and each part of the list: how many are right, and the others

Each part is translated as it is, and as sentences: with a capital letter, and . ? ! behind it in turn.
A translation is right if it is an accepted one in any case, with or without a mark behind it and *a*, *the* or *to*
before it.
"""

import re
import sys
from itertools import cycle
from pathlib import Path

import nmt

LIST = Path(__file__).with_suffix(".tsv")


def read_parts() -> list[list[tuple[str, set[str]]]]:
    """The source and the accepted translations of each line; a comment begins a part."""
    parts: list[list[tuple[str, set[str]]]] = []
    for line in LIST.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            parts.append([])
        else:
            source, accepted = line.split("\t")
            parts[-1].append((source, set(accepted.split("|"))))
    return parts


def is_accepted(translation: str, accepted: set[str]) -> bool:
    """Whether a translation is one of those that are accepted."""
    text = re.sub(r"[.!?,]+$", "", translation.lower()).strip()
    return bool({text, re.sub(r"^(an?|the|to) ", "", text)} & accepted)


def as_sentences(sources: list[str]) -> list[str]:
    """With a capital letter and a mark; those that end in one stay."""
    marks = zip(sources, cycle(".?!"), strict=False)
    return [source[:1].upper() + source[1:] + ("" if source[-1] in ".?!" else mark) for source, mark in marks]


def main(runs: list[str]) -> None:
    """Translate and print."""
    for run in runs:
        translator = nmt.load(run)
        for number, part in enumerate(read_parts(), 1):
            sources = [source for source, _ in part]
            for label, lines in ((f"part {number}", sources), (f"part {number}, marks", as_sentences(sources))):
                translations = translator.translate(lines)
                wrong = [
                    f"{line} → {translation.text}"
                    for line, (_, accepted), translation in zip(lines, part, translations, strict=True)
                    if not is_accepted(translation.text, accepted)
                ]
                print(f"{run}\t{label}\t{len(part) - len(wrong)} of {len(part)}\t{' · '.join(wrong)}")


if __name__ == "__main__":
    main(sys.argv[1:])

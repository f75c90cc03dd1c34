"""Plants faults of known kinds into a copy of a corpus, and prints how many of them `nmt audit` finds.

python scripts/plant_faults.py PREFIX --source de --target en --other OTHER-LANGUAGE-FILE --test PREFIX

Each kind is planted alone, at each rate. `found`: pairs with the fault that the audit counts more than in the corpus as
it is; `others`: what it counts more under other names.
"""

import argparse
import random
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from nmt.audit.block import Limits
from nmt.audit.corpus_audit import audit_corpus
from nmt.data.origin import plain_origin
from nmt.data.parallel_text import find_file, read_lines

Pair = tuple[str, str]
RATES = (0.001, 0.01, 0.1)
GREEK = str.maketrans("abcdefghijklmnoprstuvwyz", "αβκδεφγηιξκλμνοπρστυβωυζ")


def change_digit(text: str, random: random.Random) -> str:
    """The text with a number of five digits at its end."""
    return f"{text[:-1]} {random.randrange(10_000, 99_999)}{text[-1:]}"


def mojibake(text: str) -> str:
    """UTF-8 read as Windows-1252."""
    return ("„" + text + "“").encode().decode("cp1252", errors="replace")


def change_target(change: Callable[[str], str]) -> Callable[[Pair], Pair]:
    """A fault of the target."""
    return lambda pair: (pair[0], change(pair[1]))


def simple_faults(draw: random.Random, others: list[str]) -> dict[str, tuple[Callable[[Pair], Pair], str]]:
    """Faults of single pairs, and the pattern of the names under which the audit counts them."""
    return {
        "blank target": (change_target(lambda text: ""), "one side blank"),
        "control character": (change_target(lambda text: text[:9] + "\x07" + text[9:]), "control"),
        "wrong encoding": (change_target(mojibake), "wrong encoding"),
        "HTML entity": (change_target(lambda text: text.replace(" ", " &amp; ", 1)), "HTML"),
        "byte order mark": (change_target(lambda text: "\ufeff" + text), "byte order"),
        "source = target": (lambda pair: (pair[1], pair[1]), "both sides equal"),
        "untranslated but for a word": (lambda pair: ("Ja, " + pair[1], pair[1]), "mostly copied"),
        "the other side's language": (lambda pair: (pair[1] + " Yes.", pair[1]), "another language"),
        "a third language": (lambda pair: (draw.choice(others), pair[1]), "another language"),
        "another script": (change_target(lambda text: text.lower().translate(GREEK)), "another script"),
        "target cut after a word": (change_target(lambda text: text.split()[0]), "lengths are unusual"),
        "target four times": (change_target(lambda text: " ".join([text] * 4)), "lengths are unusual"),
        "number on one side": (change_target(lambda text: change_digit(text, draw)), "numbers"),
        "other e-mail address": (lambda pair: (pair[0] + " a@b.org", pair[1] + " c@d.org"), "addresses"),
        "tokenized": (change_target(lambda text: re.sub(r"(\w)([.,])", r"\1 \2", text)), "tokenized"),
        "small letters": (change_target(str.lower), "small letters"),
        "capitals": (change_target(str.upper), "capitals"),
    }


def plant(pairs: list[Pair], rows: list[int], change: Callable[[Pair], Pair]) -> list[Pair]:
    """The pairs with these rows changed."""
    planted = list(pairs)
    for row in rows:
        planted[row] = change(pairs[row])
    return planted


def repeat(pairs: list[Pair], rows: list[int], change: Callable[[Pair], Pair]) -> list[Pair]:
    """The pairs with changed copies of these rows after the last."""
    return [*pairs, *(change(pairs[row]) for row in rows)]


def move_stretch(pairs: list[Pair], size: int, draw: random.Random, shift: int) -> list[Pair]:
    """The pairs with the targets of one stretch shifted, or shuffled if `shift` is 0."""
    first = len(pairs) // 3
    targets = [target for _, target in pairs]
    stretch = targets[first - shift : first - shift + size]
    if not shift:
        draw.shuffle(stretch)
    targets[first : first + size] = stretch
    return [(source, target) for (source, _), target in zip(pairs, targets, strict=True)]


def count_faults(pairs: list[Pair], test: str, languages: tuple[str, str]) -> dict[str, int]:
    """What the audit counts in a training set with these pairs."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"train.{language}" for language in languages]
        for file, lines in zip(files, zip(*pairs, strict=True), strict=True):
            file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
        sets = {"train": [plain_origin("train", files[0], files[1])]}
        if test:
            sets |= {"test": [plain_origin(test, find_file(test, languages[0]), find_file(test, languages[1]))]}
        audits = {audit.name: audit for audit in audit_corpus(sets, Limits(1000, 5.0))}
    return {fault.name: fault.pairs for fault in audits["train"].faults}


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("prefix")
    parser.add_argument("--source", default="de")
    parser.add_argument("--target", default="en")
    parser.add_argument("--other", required=True, help="sentences of a third language")
    parser.add_argument("--test", required=True, help="PREFIX of a test set")
    options = parser.parse_args()
    languages, draw = (options.source, options.target), random.Random(1)

    def read(prefix: str) -> list[Pair]:
        return list(zip(*(read_lines(find_file(prefix, language)) for language in languages), strict=True))

    pairs, test, others = read(options.prefix), read(options.test), list(read_lines(Path(options.other)))
    clean = count_faults(pairs, options.test, languages)
    print(
        f"As it is: {clean}\n\n| fault | rate | planted | found | % | others |",
        "| --- | ---: | ---: | ---: | ---: | --- |",
        sep="\n",
    )

    def report(name: str, rate: float, number: int, planted: list[Pair], pattern: str) -> None:
        counts = count_faults(planted, options.test, languages)
        more = {kind: counts.get(kind, 0) - clean.get(kind, 0) for kind in {*counts, *clean}}
        found = sum(value for kind, value in more.items() if re.search(pattern, kind))
        rest = ", ".join(
            f"{kind} {value:+d}" for kind, value in sorted(more.items()) if value and not re.search(pattern, kind)
        )
        print(f"| {name} | {rate:.1%} | {number:,} | {found:,} | {100 * found / number:.0f} | {rest} |", flush=True)

    for rate in RATES:
        number = round(rate * len(pairs))
        rows = draw.sample(range(len(pairs)), number)
        for name, (change, pattern) in simple_faults(draw, others).items():
            report(name, rate, number, plant(pairs, rows, change), pattern)
        report("duplicate", rate, number, repeat(pairs, rows, lambda pair: pair), "^duplicate")
        near = repeat(pairs, rows, lambda pair: (pair[0].lower(), pair[1].rstrip(".") + "!"))
        report("near-duplicate", rate, number, near, "near-dup")
        report(
            "test pair in training", rate, number, plant(pairs, rows, lambda pair: draw.choice(test)), "valid or test"
        )
        for shift in (1, -2, 0):
            name = f"one stretch shifted by {shift}" if shift else "one stretch shuffled"
            report(name, rate, number, move_stretch(pairs, number, draw, shift), "stretch")


if __name__ == "__main__":
    main()

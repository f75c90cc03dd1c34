"""Plant faults into copies of a corpus, and count what `nmt audit` finds: the table of docs/guides/audit.md.

python scripts/plant_faults.py ../shared/data/multi30k de en fr --rates 0.001 0.01 0.1

For each fault and rate: the pairs that were planted, how many of them are reported under its name, and how many pairs
without it are reported that are not in the clean corpus. Nothing is written beside the table but a temporary folder.
"""

import argparse
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from nmt.audit.run import audit
from nmt.config.compose import compose_all
from nmt.data.parallel_text import find_file, read_lines

Pair = tuple[str, str]
BLOCK = 50  # pairs of a shifted block
CYRILLIC = str.maketrans("abcdefghijklmnopqrstuvwxyz", "абцдефгхийклмнопярстувшхыз")


class Corpus:
    """The pairs of the training set, sentences of the test set and of a third language."""

    def __init__(self, folder: Path, source: str, target: str, third: str) -> None:
        read = {name: lines(folder / f"train.{name}") for name in (source, target, third)}
        self.pairs = list(zip(read[source], read[target], strict=True))
        self.third = read[third]
        name = next(path.name.split(".")[0] for path in sorted(folder.glob(f"test*.{source}*")))
        self.test = list(zip(lines(folder / f"{name}.{source}"), lines(folder / f"{name}.{target}"), strict=True))


def lines(prefix: Path) -> list[str]:
    """The lines of a file, packed perhaps."""
    path = find_file(str(prefix.with_suffix("")), prefix.suffix[1:])
    return list(read_lines(path))


def one_side(change: Callable[[str], str]) -> Callable[..., Pair]:
    """A fault of one side, the source or the target at random."""

    def plant(pair: Pair, corpus: Corpus, chosen: random.Random, line: int) -> Pair:
        return (change(pair[0]), pair[1]) if chosen.random() < 0.5 else (pair[0], change(pair[1]))

    return plant


def both_sides(change: Callable[[str], str]) -> Callable[..., Pair]:
    """A fault of both sides."""
    return lambda pair, *_: (change(pair[0]), change(pair[1]))


def near(pair: Pair, corpus: Corpus, chosen: random.Random, line: int) -> Pair:
    """A pair from before without capitals, and with other punctuation."""
    source, target = corpus.pairs[line - len(corpus.pairs) // 2]
    return source.lower().rstrip("."), target.rstrip(".") + " !"


def number(pair: Pair, corpus: Corpus, chosen: random.Random, line: int) -> Pair:
    """Another number on each side."""
    value = chosen.randint(1100, 8000)
    return f"{pair[0]} ({value})", f"{pair[1]} ({value + chosen.randint(2, 900)})"


def untranslated(pair: Pair, *_: object) -> Pair:
    """The first third of the target is the translation, the rest of it the source."""
    words, source = pair[1].split(), pair[0].split()
    return pair[0], " ".join(words[: len(words) // 3] + source[len(source) // 3 :])


FAULTS: dict[str, tuple[str, Callable[..., Pair]]] = {
    "one side blank": ("one side blank", one_side(lambda text: " ")),
    "both sides blank": ("both sides blank", both_sides(lambda text: "")),
    "bytes of Latin-1": ("not UTF-8", one_side(lambda text: text[:5] + "\udcfc" + text[5:])),
    "UTF-8 read as Windows-1252": ("characters of a wrong encoding", one_side(lambda text: text[:5] + "Ã¼" + text[5:])),
    "byte order mark": ("byte order mark", one_side(lambda text: "\ufeff" + text)),
    "control character": ("control characters", one_side(lambda text: text[:5] + "\x07" + text[5:])),
    "soft hyphen": ("invisible characters", one_side(lambda text: text[:5] + "\u00ad" + text[5:])),
    "HTML entity": ("HTML entities", one_side(lambda text: text.replace(" ", " &amp; ", 1))),
    "tag": ("tags", one_side(lambda text: f"<b>{text}</b>")),
    "letter lost": ("characters of a wrong encoding", one_side(lambda text: text.replace("ei", "e?", 1) + " M?ller")),
    "in capitals": ("all in capitals", one_side(str.upper)),
    "Cyrillic а for a": ("another script", one_side(lambda text: text.replace("a", "а", 1) + " gаr")),
    "exact duplicate": ("duplicate", lambda pair, corpus, chosen, line: corpus.pairs[line - len(corpus.pairs) // 2]),
    "near duplicate": ("near duplicate", near),
    "target = source": ("both sides equal", lambda pair, *_: (pair[0], pair[0])),
    "two thirds untranslated": ("partly untranslated", untranslated),
    "Cyrillic letters": ("another script", one_side(lambda text: text.lower().translate(CYRILLIC))),
    "sides exchanged": ("in the other language", lambda pair, *_: (pair[1], pair[0])),
    "third language": ("unlike the rest", lambda pair, corpus, chosen, line: (pair[0], corpus.third[line])),
    "target four times": ("unusual difference of lengths", lambda pair, *_: (pair[0], " ".join([pair[1]] * 4))),
    "target cut to a quarter": (
        "unusual difference of lengths",
        lambda pair, *_: (pair[0], pair[1][: len(pair[1]) // 4]),
    ),
    "too long": ("too long", both_sides(lambda text: " ".join([text] * (1 + 1001 // max(1, len(text)))))),
    "other number": ("number or name not on both sides", number),
    "tokenized": ("looks tokenized", both_sides(lambda text: text.replace(".", " .").replace(",", " ,"))),
    "lower-cased": ("no capital letters", both_sides(str.lower)),
    "pair of the test set": (
        "in valid or test",
        lambda pair, corpus, chosen, line: corpus.test[line % len(corpus.test)],
    ),
    "shifted block": ("in a misaligned block", lambda pair, *_: pair),
}  # what is planted → the fault that must be reported, and the change


def plant(corpus: Corpus, fault: str, rate: float, seed: int, pairs: list[Pair], taken: set[int]) -> set[int]:
    """Plant a fault into pairs whose lines are not `taken`, which grows; returns the lines that have it, from 1."""
    chosen = random.Random(f"{fault} {rate} {seed}")
    if fault == "shifted block":
        return plant_misaligned_blocks(pairs, rate, chosen)
    wanted = max(1, round(rate * len(pairs)))
    planted = set[int]()
    first = len(pairs) // 2 if "duplicate" in fault else 0  # copies are of the first half
    for line in chosen.sample(range(first, len(pairs)), len(pairs) - first):
        needed = {line + 1, line + 1 - first} if first else {line + 1}  # a copy needs its original as it is
        changed = FAULTS[fault][1](pairs[line], corpus, chosen, line)
        if changed != pairs[line] and len(planted) < wanted and needed.isdisjoint(taken):
            pairs[line] = changed
            planted.add(line + 1)
            taken |= needed
    return planted


def plant_misaligned_blocks(pairs: list[Pair], rate: float, chosen: random.Random) -> set[int]:
    """Blocks of BLOCK pairs, at least one, in which the target is shifted by 1 to 3 lines."""
    planted, count = set[int](), max(1, round(rate * len(pairs) / BLOCK))
    for number in range(count):
        first = number * (len(pairs) // count) + chosen.randint(0, len(pairs) // count - BLOCK - 1)
        targets = [pair[1] for pair in pairs[first : first + BLOCK]]
        shift = chosen.choice([1, 2, 3, -1, -2, -3])
        for offset in range(BLOCK):
            pairs[first + offset] = (pairs[first + offset][0], targets[(offset + shift) % BLOCK])
        planted |= set(range(first + 1, first + BLOCK + 1))
    return planted


def reported(folder: Path, source: str, target: str, corpus: Corpus, pairs: list[Pair]) -> dict[str, set[int]]:
    """For each fault the lines that the audit of these pairs reports."""
    sets = {"train": pairs, "test": corpus.test}
    for name, group in sets.items():
        for side, language in enumerate((source, target)):
            text = "".join(f"{pair[side]}\n" for pair in group)
            (folder / f"{name}.{language}").write_bytes(text.encode(errors="surrogateescape"))
    words = [f"data.{name}={folder / name}" for name in sets]
    (config,) = compose_all(
        ["data=files", f"data.source={source}", f"data.target={target}", f"data.valid={folder / 'test'}", *words[:1],
         "data.test=null"], multirun=False,
    )  # fmt: skip
    results, _ = audit(config.data, folder / "data")
    found: dict[str, set[int]] = {}
    for line in (results / "all.tsv").read_text(encoding="utf-8").splitlines():
        name, kind, place = line.split("\t")
        if name == "train":
            found.setdefault(kind, set()).add(int(place.rsplit(":", 1)[1]))
    return found


def table(
    corpus: Corpus, source: str, target: str, rates: list[float], only: list[str], seed: int, together: bool
) -> Iterator[str]:
    """The rows of the table."""

    def run(pairs: list[Pair]) -> dict[str, set[int]]:
        with tempfile.TemporaryDirectory() as folder:
            return reported(Path(folder), source, target, corpus, pairs)

    clean = run(corpus.pairs)
    before = set().union(*clean.values())
    counts = ", ".join(f"{len(found)} {kind}" for kind, found in clean.items())
    yield f"clean: {len(before)} of {len(corpus.pairs)} pairs are reported: {counts}"
    yield "| planted | rate | pairs | found | missed | others reported |\n| --- | ---: | ---: | ---: | ---: | ---: |"
    names = sorted(only or FAULTS, key=lambda name: (name != "shifted block", "duplicate" not in name))
    for rate in rates:
        for group in [names] if together else [[name] for name in names]:
            pairs, lines_of = list(corpus.pairs), dict[str, set[int]]()
            taken = set[int]()
            for fault in group:
                lines_of[fault] = plant(corpus, fault, rate, seed, pairs, taken)
                taken |= lines_of[fault]
            found = run(pairs)
            others = set().union(*found.values()) - set().union(*lines_of.values()) - before
            for fault, planted in lines_of.items():
                hits = len(planted & found.get(FAULTS[fault][0], set()))
                yield f"| {fault} | {rate:.1%} | {len(planted)} | {hits} | {len(planted) - hits} | {len(others)} |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("languages", nargs=3, help="source, target, and a third language")
    parser.add_argument("--rates", nargs="+", type=float, default=[0.001, 0.01, 0.1])
    parser.add_argument("--only", nargs="+", default=[], choices=FAULTS)
    parser.add_argument("--together", action="store_true", help="all kinds in one copy, in different lines")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    read = Corpus(options.folder, *options.languages)
    for row in table(
        read, options.languages[0], options.languages[1], options.rates, options.only, options.seed, options.together
    ):
        print(row, flush=True)

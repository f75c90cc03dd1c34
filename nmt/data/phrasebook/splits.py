"""The phrasebook as a corpus: train, valid, test and test_unseen, with their gold alignments.

No sentence occurs twice on either side, so no two sets share one. A combination of a verb with the noun of its object
is held out by its hash: train, valid and test never put it into the slots of a rule for a verb and its object, in
whatever construction, and every pair of test_unseen shows one; its verb, its noun and its construction all occur in
train. (A rule that writes its verb itself has no such slots.)
"""

import hashlib
import logging
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nmt.data.phrasebook.draw import Grammar, Pair, draws
from nmt.data.phrasebook.tables import folder
from nmt.errors import UserError

VERSION = 1  # raise when the same text files would now give other pairs
SETS = ("train", "valid", "test", "test_unseen")
HELD_OUT = 20  # one combination in so many is held out
ASIDE = 40  # one pair in so many is for valid, and one for test
SHORTEST, LONGEST = 3, 25  # words of a sentence, as spaces separate them
PATIENCE = 30  # draws per pair asked for, until the phrasebook counts as exhausted
logger = logging.getLogger("nmt")


def recipe() -> dict[str, Any]:
    """What the pairs depend on beside seed and number: the text files and this code's version."""
    digest = hashlib.sha256()
    for path in sorted(folder().rglob("*.txt")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return {"phrasebook": digest.hexdigest(), "version": VERSION}


def write(where: Path, source: str, target: str, pairs: int, seed: int) -> None:
    """Write SET.de, SET.en and SET.align (Pharaoh, source first) of every set; raises UserError when too few exist."""
    drawn = draw_sets(Grammar(), pairs, seed)
    if empty := [name for name in SETS if not drawn[name]]:
        raise UserError(f"data.pairs={pairs} is too few: it leaves nothing for {', '.join(empty)}; take some thousand.")
    for name, chosen in drawn.items():
        sides = {"de": [pair.german for pair in chosen], "en": [pair.english for pair in chosen]}
        sides["align"] = [pair.links if source == "de" else turned(pair.links) for pair in chosen]
        for ending, lines in sides.items():
            (where / f"{name}.{ending}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def draw_sets(grammar: Grammar, pairs: int, seed: int) -> dict[str, list[Pair]]:
    """`pairs` pairs for train and a twentieth of that, at most 1,000, for each other set; raises UserError."""
    wanted = {name: pairs if name == "train" else max(10, min(1000, pairs // 20)) for name in SETS}
    sets: dict[str, list[Pair]] = {name: [] for name in SETS}
    reserve = {name: int(number * (1.5 if name == "test_unseen" else 1)) for name, number in wanted.items()}
    seen: tuple[set[str], set[str]] = set(), set()
    for number, pair in enumerate(draws(grammar, seed)):
        if number > PATIENCE * pairs + 10_000:
            raise UserError(f"data.pairs={pairs} is not possible: the phrasebook gave {len(sets['train']):,} for train.")
        if pair.german in seen[0] or pair.english in seen[1] or not fits(pair):
            continue
        seen[0].add(pair.german)
        seen[1].add(pair.english)
        name = belongs(pair)
        if len(sets[name]) < reserve[name]:
            sets[name].append(pair)
        if all(len(sets[one]) == reserve[one] for one in SETS):
            break
    shown = parts(sets["train"])
    sets["test_unseen"] = [pair for pair in sets["test_unseen"] if parts([pair]) <= shown][: wanted["test_unseen"]]
    return sets


def fits(pair: Pair) -> bool:
    """Whether both sides are SHORTEST to LONGEST words long."""
    return all(SHORTEST <= len(side.split()) <= LONGEST for side in (pair.german, pair.english))


def belongs(pair: Pair) -> str:
    """The set of a pair, by hashes that are the same on every machine."""
    if any(zlib.crc32(" ".join(one).encode()) % HELD_OUT == 0 for one in pair.combinations):
        return "test_unseen"
    return {0: "valid", 1: "test"}.get(zlib.crc32(pair.german.encode()) % ASIDE, "train")


def parts(pairs: Iterable[Pair]) -> set[str]:
    """The constructions and lemmas that pairs show."""
    found = set()
    for pair in pairs:
        found.add(pair.skeleton)
        found.update(f"{entry.line.file}:{entry.lemma}" for entry in pair.lemmas)
    return found


def turned(links: str) -> str:
    """A Pharaoh line with its sides exchanged, sorted again."""
    found = []
    for link in links.split():
        mark = "p" if "p" in link else "-"
        left, right = link.split(mark)
        found.append((int(right), int(left), mark))
    return " ".join(f"{right}{mark}{left}" for right, left, mark in sorted(found))

"""The phrasebook as a corpus: train, valid, test and test_unseen, with their gold alignments.

No sentence occurs twice on either side, so no two sets share one. A combination of a verb with the noun of its object
is held out by its hash: no rule of train, valid or test fills the slots of a verb and its object with it, in whatever
construction, and every pair of test_unseen has one; its verb, its noun and its construction all occur in train. (A rule
that writes its verb itself has no such slots.)
"""

import hashlib
import logging
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nmt.data.phrasebook.draw import Grammar, Pair, draws
from nmt.data.phrasebook.tables import text_folder
from nmt.errors import UserError

VERSION = 1  # raise it when the same text files give other pairs
SETS = ("train", "valid", "test", "test_unseen")
HELD_OUT = 20  # one combination of so many is held out
EVALUATED = 40  # one pair of so many is for valid, and one for test
SHORTEST, LONGEST = 3, 25  # words of a sentence, as spaces separate them
PATIENCE = 30  # draws per pair asked for, until the phrasebook counts as exhausted
logger = logging.getLogger("nmt")


def recipe() -> dict[str, Any]:
    """What the pairs depend on besides their seed and number: a hash of the text files, and VERSION."""
    digest = hashlib.sha256()
    for path in sorted(text_folder().rglob("*.txt")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return {"phrasebook": digest.hexdigest(), "version": VERSION}


def write(folder: Path, source: str, target: str, pairs: int, seed: int) -> None:
    """Write SET.de, SET.en and SET.align (Pharaoh, source first) of every set; raises UserError when too few exist."""
    sets = draw_sets(Grammar(), pairs, seed)
    if empty := [name for name in SETS if not sets[name]]:
        raise UserError(f"data.pairs={pairs} is too few: it leaves nothing for {', '.join(empty)}; take some thousand.")
    for name, members in sets.items():
        files = {"de": [pair.german for pair in members], "en": [pair.english for pair in members]}
        files["align"] = [pair.links if source == "de" else swap_sides(pair.links) for pair in members]
        for ending, lines in files.items():
            (folder / f"{name}.{ending}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def draw_sets(grammar: Grammar, pairs: int, seed: int) -> dict[str, list[Pair]]:
    """`pairs` pairs for train and a twentieth of that, at most 1,000, for each other set; raises UserError."""
    wanted = {name: pairs if name == "train" else max(10, min(1000, pairs // 20)) for name in SETS}
    sets: dict[str, list[Pair]] = {name: [] for name in SETS}
    reserve = {name: int(number * (1.5 if name == "test_unseen" else 1)) for name, number in wanted.items()}
    german: set[str] = set()
    english: set[str] = set()
    for number, pair in enumerate(draws(grammar, seed)):
        if number > PATIENCE * pairs + 10_000:
            raise UserError(
                f"data.pairs={pairs} is not possible: the phrasebook gave {len(sets['train']):,} for train."
            )
        if pair.german in german or pair.english in english or not has_allowed_length(pair):
            continue
        german.add(pair.german)
        english.add(pair.english)
        name = set_of(pair)
        if len(sets[name]) < reserve[name]:
            sets[name].append(pair)
        if all(len(sets[name]) == reserve[name] for name in SETS):
            break
    in_train = constructions_and_lemmas(sets["train"])
    unseen = [pair for pair in sets["test_unseen"] if constructions_and_lemmas([pair]) <= in_train]
    sets["test_unseen"] = unseen[: wanted["test_unseen"]]
    return sets


def has_allowed_length(pair: Pair) -> bool:
    """Whether both sides are SHORTEST to LONGEST words long."""
    return all(SHORTEST <= len(side.split()) <= LONGEST for side in (pair.german, pair.english))


def set_of(pair: Pair) -> str:
    """The set that a pair belongs to, by hashes that are the same on every machine."""
    if any(zlib.crc32(" ".join(combination).encode()) % HELD_OUT == 0 for combination in pair.combinations):
        return "test_unseen"
    return {0: "valid", 1: "test"}.get(zlib.crc32(pair.german.encode()) % EVALUATED, "train")


def constructions_and_lemmas(pairs: Iterable[Pair]) -> set[str]:
    """The rules and the lemmas with which some pairs were made."""
    names = set()
    for pair in pairs:
        names.add(pair.skeleton)
        names.update(f"{entry.line.file}:{entry.lemma}" for entry in pair.lemmas)
    return names


def swap_sides(links: str) -> str:
    """A Pharaoh line with source and target exchanged, sorted again."""
    swapped = []
    for link in links.split():
        mark = "p" if "p" in link else "-"
        left, right = link.split(mark)
        swapped.append((int(right), int(left), mark))
    return " ".join(f"{right}{mark}{left}" for right, left, mark in sorted(swapped))

"""The phrasebook as a corpus: train, valid, test, test_seen and test_unseen, with their gold
alignments.

No sentence occurs twice on either side, so no two sets share one, and no pair of an evaluated set
is within one word of a training pair on either side. A combination of a verb with the noun of its
object is held out by its hash: no rule of another set fills the slots of a verb and its object with
it, in whatever construction, and every pair of test_unseen has one; its verb, its noun and its
construction all occur in train. (A rule that writes its verb itself has no such slots.) Line by
line, test_seen has the constructions of test_unseen, with combinations that occur in train.
"""

import bz2
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from generator.draw import Grammar, Pair, draws
from generator.near_duplicates import near_training
from generator.tables import PhrasebookError

# of the edition that nmt is shipped with: training pairs, and where the draws begin
PAIRS = 85_000
SEED = 1
SETS = ("train", "valid", "test", "test_seen", "test_unseen")
HELD_OUT = 20  # one combination of so many is held out
EVALUATED = 40  # one pair of so many is for valid, and one for test
# words of a sentence, as spaces separate them
SHORTEST = 3
LONGEST = 25
PATIENCE = 30  # draws per pair asked for, until the phrasebook counts as exhausted


def write_edition(folder: Path, pairs: int = PAIRS, seed: int = SEED) -> None:
    """Write SET.de.bz2, SET.en.bz2 and SET.align.bz2 (Pharaoh, German first) of every set, always
    the same bytes.

    Raises PhrasebookError when too few pairs exist.
    """
    sets = draw_sets(Grammar(), pairs, seed)
    if empty := [name for name in SETS if not sets[name]]:
        raise PhrasebookError(
            f"{pairs} pairs are too few: they leave nothing for {', '.join(empty)}."
        )
    for name, members in sets.items():
        for ending, column in (("de", 0), ("en", 1), ("align", 2)):
            text = "".join(f"{pair[column]}\n" for pair in members)
            (folder / f"{name}.{ending}.bz2").write_bytes(bz2.compress(text.encode()))


def draw_sets(grammar: Grammar, pairs: int, seed: int) -> dict[str, list[Pair]]:
    """`pairs` pairs for train and a twentieth of that, at most 1,000, for each other set; raises
    PhrasebookError.

    Of a small corpus, test_seen and test_unseen can be smaller: few combinations occur in few
    training pairs.
    """
    wanted = max(10, min(1000, pairs // 20))
    spare = 1.2
    pools: dict[str, list[Pair]] = {name: [] for name in SETS}
    stream = distinct_pairs(grammar, seed, PATIENCE * pairs + 10_000)
    for pair in stream:
        pools[set_of(pair)].append(pair)
        if len(pools["train"]) == pairs:
            break
    else:
        raise PhrasebookError(
            f"{pairs} pairs are not possible: the phrasebook gave "
            f"{len(pools['train']):,} for train."
        )
    combinations = {combination for pair in pools["train"] for combination in pair.combinations}
    while True:
        exhausted = draw_evaluated(stream, pools, combinations, int(wanted * spare))
        sets = choose(pools, wanted)
        if exhausted or all(len(sets[name]) == wanted for name in SETS[1:]):
            return sets
        spare *= 1.5


def distinct_pairs(grammar: Grammar, seed: int, limit: int) -> Iterator[Pair]:
    """The pairs of allowed length among the first `limit` that are drawn, without those that repeat
    a sentence."""
    german: set[str] = set()
    english: set[str] = set()
    for pair in islice(draws(grammar, seed), limit):
        if pair.german not in german and pair.english not in english and has_allowed_length(pair):
            german.add(pair.german)
            english.add(pair.english)
            yield pair


def draw_evaluated(
    stream: Iterator[Pair],
    pools: dict[str, list[Pair]],
    combinations: set[tuple[str, str]],
    number: int,
) -> bool:
    """Draw until valid and test have 1.5 × `number` pairs, and test_unseen `number` with partners;
    False if they do.

    What would be a training pair is now one for test_seen if all its `combinations` occur in train.
    True where the stream ends before.
    """
    for count, pair in enumerate(stream):
        name = set_of(pair)
        if name != "train":
            pools[name].append(pair)
        elif pair.combinations and combinations.issuperset(pair.combinations):
            pools["test_seen"].append(pair)
        if count % 1000 == 0 and min(len(pools["valid"]), len(pools["test"])) >= 1.5 * number:
            partners = Counter(map(construction, pools["test_seen"])) & Counter(
                map(construction, pools["test_unseen"])
            )
            if partners.total() >= number:
                return False
    return True


def choose(pools: dict[str, list[Pair]], wanted: int) -> dict[str, list[Pair]]:
    """The sets: train as it is, and of the others at most `wanted` pairs that are no
    near-duplicates of training."""
    sets = {"train": pools["train"]}
    in_train = constructions_and_lemmas(pools["train"])
    candidates = {name: pools[name] for name in SETS[1:]}
    candidates["test_unseen"] = [
        pair for pair in pools["test_unseen"] if constructions_and_lemmas([pair]) <= in_train
    ]
    near = iter(
        near_training([pair for pool in candidates.values() for pair in pool], pools["train"])
    )
    kept = {name: [pair for pair in pool if not next(near)] for name, pool in candidates.items()}
    sets |= {name: kept[name][:wanted] for name in ("valid", "test")}
    partners: dict[tuple[str, int], list[Pair]] = {}
    for pair in reversed(kept["test_seen"]):
        partners.setdefault(construction(pair), []).append(pair)
    matched = [
        (partners[construction(pair)].pop(), pair)
        for pair in kept["test_unseen"]
        if partners.get(construction(pair))
    ][:wanted]
    sets |= {
        "test_seen": [seen for seen, _ in matched],
        "test_unseen": [unseen for _, unseen in matched],
    }
    return sets


def construction(pair: Pair) -> tuple[str, int]:
    """What a pair of test_seen has in common with its partner in test_unseen: skeleton, and number
    of combinations."""
    return pair.skeleton, len(pair.combinations)


def has_allowed_length(pair: Pair) -> bool:
    """Whether both sides are SHORTEST to LONGEST words long."""
    return all(SHORTEST <= len(side.split()) <= LONGEST for side in (pair.german, pair.english))


def set_of(pair: Pair) -> str:
    """The set that a pair belongs to, by hashes that are the same on every machine."""
    if any(
        zlib.crc32(" ".join(combination).encode()) % HELD_OUT == 0
        for combination in pair.combinations
    ):
        return "test_unseen"
    return {0: "valid", 1: "test"}.get(zlib.crc32(pair.german.encode()) % EVALUATED, "train")


def constructions_and_lemmas(pairs: Iterable[Pair]) -> set[str]:
    """The rules and the lemmas with which some pairs were made."""
    names = set()
    for pair in pairs:
        names.add(pair.skeleton)
        names.update(f"{entry.line.file}:{entry.lemma}" for entry in pair.lemmas)
    return names

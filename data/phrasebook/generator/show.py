"""Draw pairs of the phrasebook to read them, or count what is drawn; run in data/phrasebook.

python -m generator.show [--rule NAME …] [--number 20] [--seed 1] [--links]     pairs to read
python -m generator.show --count 100000                                         distributions
"""

import argparse
import re
import statistics
import sys
import time
from collections import Counter
from itertools import islice

from generator.draw import Grammar, Pair, draws
from generator.near_duplicates import near_training
from generator.splits import set_of
from generator.tables import PhrasebookError

CONTRACTED = re.compile(
    r"n't\b|\b(I|[Yy]ou|[Ww]e|[Tt]hey|[Hh]e|[Ss]he|[Ii]t|[Tt]here|That|What|Where|Who|How|[Ll]et)'"
)
YOU = re.compile(r"\b[Yy]ou(rs?|rsel(f|ves))?\b")
MOST = 5_000  # pairs of a set that are compared with the training pairs


def main() -> None:
    """Draw or count; a mistake in the phrasebook is one sentence on stderr and exit code 2."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rule", nargs="+", default=[], help="only rules that begin so, or of this FILE.txt"
    )
    parser.add_argument("--number", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--links", action="store_true", help="also the alignment links, as words")
    parser.add_argument(
        "--count", type=int, help="draw so many distinct pairs, and print distributions"
    )
    arguments = parser.parse_args()
    try:
        files = [word for word in arguments.rule if word.endswith(".txt")]
        grammar = Grammar(files=[*files, "phrases.txt"] if files else ())
        if arguments.rule:
            names = tuple(arguments.rule)
            rules = [(form.rule, form) for form in grammar.forms["sentence"]]
            grammar.forms["sentence"] = [
                form
                for rule, form in rules
                if rule.name.startswith(names) or rule.line.file in names
            ]
            if not grammar.forms["sentence"]:
                raise PhrasebookError(f"No sentence rule begins with {' or '.join(names)}.")
        if arguments.count:
            count(grammar, arguments.seed, arguments.count)
        else:
            for pair in islice(draws(grammar, arguments.seed), arguments.number):
                print_pair(pair, arguments.links)
    except PhrasebookError as error:
        print(error, file=sys.stderr)
        sys.exit(2)


def print_pair(pair: Pair, links: bool) -> None:
    """Print the skeleton of a pair, both sentences, and the words of each link if `links` is
    set."""
    print(f"{pair.skeleton.removeprefix('sentence '):28}  {pair.german}  |  {pair.english}")
    if links:
        german, english = (split_punctuation(side).split() for side in (pair.german, pair.english))
        for link in pair.links.split():
            i, j = (int(number) for number in link.replace("p", "-").split("-"))
            print(f"{'':28}    {german[i]} {'…' if 'p' in link else '='} {english[j]}")


def split_punctuation(text: str) -> str:
    """A sentence with a space before each punctuation mark, as the links count words."""
    for mark in ".,!?;:":
        text = text.replace(mark, f" {mark}")
    return text


def count(grammar: Grammar, seed: int, number: int) -> None:
    """Draw until `number` distinct German sentences are drawn; print the counts of lengths,
    skeletons and lemmas."""
    start = time.perf_counter()
    skeletons: Counter[str] = Counter()
    lemmas: Counter[str] = Counter()
    lengths: Counter[int] = Counter()
    pairs: dict[str, Pair] = {}
    drawn = 0
    for pair in draws(grammar, seed):
        drawn += 1
        if pair.german in pairs:
            continue
        pairs[pair.german] = pair
        skeletons[pair.skeleton] += 1
        lemmas.update(f"{entry.line.file}: {entry.lemma}" for entry in pair.lemmas)
        lengths[len(pair.german.split())] += 1
        if len(pairs) == number or drawn > 20 * number:
            break
    print(f"{len(pairs)} distinct of {drawn} drawn in {time.perf_counter() - start:.1f} s")
    lexicon = grammar.lexicon
    entries = [
        *lexicon.heads,
        *lexicon.verbs,
        *lexicon.adjectives,
        *lexicon.words,
        *lexicon.pronouns,
    ]
    possible = {f"{entry.line.file}: {entry.lemma}" for entry in entries}
    never = sorted(possible - set(lemmas))
    print(f"{len(possible)} lemmas, {len(never)} never drawn: {', '.join(never[:30])}")
    rare = sorted((lemmas[lemma], lemma) for lemma in possible if 0 < lemmas[lemma] < 20)
    print(f"drawn less than 20 times: {rare[:40]}")
    print(f"median {statistics.median(lemmas[lemma] for lemma in possible)} pairs a lemma")
    print(
        f"{len(skeletons)} skeletons of {len(grammar.sentences.forms)}; the most frequent: "
        f"{skeletons.most_common(8)}"
    )
    print(f"the least frequent: {skeletons.most_common()[-12:]}")
    print("German words:", " ".join(f"{length}:{lengths[length]}" for length in sorted(lengths)))
    count_text(list(pairs.values()))


def count_text(pairs: list[Pair]) -> None:
    """Print the fractions of pairs with a contraction and with *you*, and of each set that is near
    the training set."""
    contracted, you = (
        sum(bool(pattern.search(pair.english)) for pair in pairs) for pattern in (CONTRACTED, YOU)
    )
    print(f"an English contraction in {contracted / len(pairs):.1%} of the pairs")
    print(f"you or your, which German says as du, ihr or Sie, in {you / len(pairs):.1%}")
    sets: dict[str, list[Pair]] = {}
    for pair in pairs:
        sets.setdefault(set_of(pair), []).append(pair)
    for name in sorted(sets.keys() - {"train"}):
        near = near_training(sets[name][:MOST], sets["train"])
        print(
            f"{name}: {sum(near) / len(near):.1%} within one word of a training pair, and left "
            "out of the corpus"
        )


if __name__ == "__main__":
    main()

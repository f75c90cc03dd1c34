"""How many tags stand in a translation where gold word links say: random tags around words of phrasebook sentences.

python scripts/markup.py RUN [--split valid|test] [--sentences 1000] [--seed 1] [--misses 20]

The translation is the reference, under forced decoding, so that the gold links hold for it. A pair of tags is around 1
to 4 words that all have a sure link, whose sure links lead to contiguous words; a fifth of the pairs contain a pair; a
fifth of the tags are empty, before such a word. What else is drawn is left out and counted. A tag is in its place if
every word with a sure link is inside and none that has no link: begin and end, for an empty tag its place. "sure links
alone" is stricter: a word that the gold links leave open may not be inside either.
"""

import argparse
import random
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from nmt.data.links import Link
from nmt.data.words import word_spans
from nmt.documents.links import LinkReader, attention_links
from nmt.documents.placement import Node, Placement, render
from nmt.documents.segment import TagKind
from nmt.evaluate.extraction import encode_pairs
from nmt.runs.interface import load
from nmt.runs.scoring import gold_alignments
from nmt.runs.test_sets import corpus_hashes, own_corpus

TAGS = 2  # at most, beside those inside them
TRIES = 10  # to draw them


class Gold(NamedTuple):
    """The links of a pair."""

    sure: set[Link]
    possible: set[Link]

    def image(self, first: int, last: int) -> tuple[int, int] | None:
        """The contiguous target words of source words that all have a sure link; None where there are none."""
        words = sorted({target for source, target in self.sure if first <= source < last})
        linked = {source for source, _ in self.sure}
        is_whole = all(word in linked for word in range(first, last))
        return (words[0], words[-1] + 1) if is_whole and words and words[-1] - words[0] < len(words) else None

    def accepts(self, node: Node, only_sure: bool) -> bool:
        """Whether a placed node is where the links say."""
        last = node.last if node.is_pair else node.first + 1
        image = self.image(node.first, last)
        assert image is not None
        allowed = {target for source, target in self.possible if node.first <= source < last} - set(range(*image))
        start, stop = (node.start, node.stop) if node.is_pair else (node.start, image[1])
        if only_sure or not start <= image[0] or not stop >= image[1]:
            return (start, stop) == image
        return allowed >= set(range(start, stop)) - set(range(*image))


def main() -> None:
    """Print the shares of tags in their place."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="a run that was trained on the phrasebook")
    parser.add_argument("--split", default="valid")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--misses", type=int, default=0, help="print so many that are out of place")
    options = parser.parse_args()
    run = load(options.run)
    corpus = own_corpus(run.name, run.config, corpus_hashes(run), run.folder)
    gold = gold_alignments(run, Path(corpus), options.split)
    assert gold is not None
    gold = gold.first(options.sentences)
    records = run.translator.force_decode_all(encode_pairs(run.translator, gold.pairs))
    own = run.translate([source for source, _ in gold.pairs])
    reader, generator = LinkReader.of_run(run.config.train, run.translator.model), random.Random(options.seed)
    counts: Counter[str] = Counter()
    for (source, target), links, record, translation in zip(gold.pairs, gold.links, records, own, strict=True):
        words = attention_links([record], reader, source, target)
        nodes = list(draw(word_spans(source), Gold(*links), generator, counts))
        placed = between_words(nodes, words.source)
        placement = Placement(words.weights, source, words.source, target, words.target)
        placement.place(placed, (0, len(words.target)), (0, len(words.source)))
        written = render(placed, target, words.target)
        counts["broken"] += not is_whole(written, target, list(walk(nodes)))
        counts["own equal"] += translation.text == target
        for node in walk(placed):
            kinds = ["all", "pairs" if node.is_pair else "empty", *(["own"] if translation.text == target else [])]
            right = Gold(*links).accepts(node, only_sure=False)
            counts.update(kinds)
            counts.update(f"{kind} placed" for kind in kinds if right)
            counts["sure placed"] += Gold(*links).accepts(node, only_sure=True)
            if not right and counts["shown"] < options.misses:
                counts["shown"] += 1
                print(source, "→", written, "|", node.open)
    report(counts, len(gold.pairs))


def draw(words: list[tuple[int, int]], gold: Gold, generator: random.Random, counts: Counter[str]) -> Iterator[Node]:
    """Nodes between the characters of a sentence, in order."""
    drawn: list[Node] = []
    taken: list[tuple[int, int]] = []  # in the translation
    for _ in range(TRIES):
        if len(drawn) == TAGS:
            break
        first = generator.randrange(len(words))
        last = min(first + generator.randint(1, 4), len(words))
        is_empty = generator.random() < 0.2
        image = gold.image(first, first + 1 if is_empty else last)
        counts["drawn"] += 1
        clash = image and any(low < image[1] and image[0] < high for low, high in taken)
        if (
            image is None
            or clash
            or any(node.first < words[last - 1][1] and words[first][0] < node.last for node in drawn)
        ):
            counts["left out" if image is None else "beside"] += 1
            continue
        taken.append(image)
        start, end = words[first][0], words[last - 1][1]
        name = f"t{len(drawn)}"
        if is_empty:
            drawn.append(Node(TagKind.POINT, f"<{name}/>", first=start, last=words[first][1]))
            continue
        pair = Node(TagKind.OPEN, f"<{name}>", f"</{name}>", start, end)
        inner = sorted(generator.choices(range(first, last + 1), k=2))
        if generator.random() < 0.2 and inner[0] < inner[1] and gold.image(*inner):
            low, high = words[inner[0]][0], words[inner[1] - 1][1]
            pair.children = [Node(TagKind.OPEN, f"<i{name}>", f"</i{name}>", low, high)]
        drawn.append(pair)
    yield from sorted(drawn, key=lambda node: node.first)


def between_words(nodes: list[Node], words: list[tuple[int, int]]) -> list[Node]:
    """Nodes between words instead of characters."""
    starts, ends = ([word[side] for word in words] for side in (0, 1))
    found = []
    for node in nodes:
        first = bisect_right(ends, node.first)
        last = bisect_left(starts, node.last) if node.is_pair else first
        found.append(replace(node, first=first, last=last, children=between_words(node.children, words)))
    return found


def walk(nodes: list[Node]) -> Iterator[Node]:
    """The nodes and those inside them."""
    for node in nodes:
        yield node
        yield from walk(node.children)


def is_whole(written: str, target: str, nodes: list[Node]) -> bool:
    """Whether the text is the same, no tag is lost, and none crosses another."""
    opened: list[str] = []
    for tag in re.findall(r"</?[a-z0-9]+/?>", written):
        if tag.startswith("</"):
            if not opened or opened.pop() != tag.replace("/", ""):
                return False
        elif not tag.endswith("/>"):
            opened.append(tag)
    there = all(written.count(tag) == 1 for node in nodes for tag in (node.open, node.close) if tag)
    return there and not opened and re.sub(r"</?i?t\d/?>", "", written) == target


def report(counts: Counter[str], sentences: int) -> None:
    """Print the shares."""
    print(f"{sentences} sentences, {counts['all']} tags, pairs inside pairs included")
    print(
        f"{counts['drawn']} drawn: {counts['left out']} left out by the links, {counts['beside']} would overlap another"
    )
    for kind in ("all", "pairs", "empty"):
        right = counts[f"{kind} placed"]
        print(f"{kind}: {right} of {counts[kind]} in place, {right / counts[kind]:.4f}")
    print(f"by sure links alone: {counts['sure placed'] / counts['all']:.4f}")
    print(f"lost, crossed or with changed text: {counts['broken']}")
    equal = counts["own placed"] / max(counts["own"], 1)
    print(
        f"own translation is the reference: {counts['own equal'] / sentences:.4f} of the sentences; there {equal:.4f}"
    )


if __name__ == "__main__":
    main()

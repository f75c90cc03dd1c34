"""How well `nmt translate --glossary` works: terms obeyed, and BLEU with and without it.

Each sentence gets a glossary with one line: a source word and what its translation must contain.

real: a word of the reference that is linked to the source word and that the model's own translation lacks. BLEU is
that of the whole translations.

made-up: another word in the place of the linked one, which the model did write: that of another source noun, drawn
from those that begin with a vowel or end in s as this one does, so that the article may stay. BLEU is that elsewhere:
the linked word is removed from the references and the translations without glossary, the term from those with it.

A source word has four letters or more and stands once in its sentence; a noun is a word with a capital letter inside
the sentence, as in German. Links are the sure gold ones (SET.align beside the set), also to several words side by
side; with --train, words that occur together in the training text: Dice's coefficient of 0.3 or more, the largest
first, one link for each word. There is one term a sentence; sentences are drawn with seed 1. Obeyed: the translation
has the term as it is written, in any case, or with an ending of at most three letters.
"""

import argparse
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import nmt
from nmt.data.parallel_text import read_pairs
from nmt.data.words import word_spans
from nmt.decode.glossary_search import TermSearch
from nmt.decode.glossary_terms import Entry, Glossary, Match, find_target
from nmt.decode.glossary_variants import Variants
from nmt.evaluate.bleu_chrf import score
from nmt.evaluate.gold import read_gold_alignments
from nmt.runs.run import Run

Pair = tuple[str, str]
SHORTEST, DICE = 4, 0.3


class Item(NamedTuple):
    """A sentence, its translation without glossary, and its term."""

    source: str
    reference: str
    before: str
    word: str  # of the source
    linked: str  # of the reference
    term: str  # required


def words(text: str) -> list[str]:
    """The words of a text, without punctuation."""
    return [text[start:end] for start, end in word_spans(text) if text[start].isalpha()]


def gold_links(prefix: str, pairs: list[Pair]) -> list[list[Pair]]:
    """The source words with sure links, to words side by side that no other word is linked to, by pair."""
    found = []
    for pair, (sure, _) in zip(pairs, read_gold_alignments(Path(f"{prefix}.align"), pairs).links, strict=True):
        spans = [word_spans(text) for text in pair]
        own = []
        for source in sorted({source for source, _ in sure}):
            targets = sorted(target for first, target in sure if first == source)
            alone = all(first == source for first, target in sure if target in targets)
            if alone and targets[-1] - targets[0] + 1 == len(targets):
                (start, end), first, last = spans[0][source], spans[1][targets[0]][0], spans[1][targets[-1]][1]
                own.append((pair[0][start:end], pair[1][first:last]))
        found.append(own)
    return found


def dictionary(pairs: list[Pair]) -> dict[Pair, float]:
    """Dice's coefficient of the words that occur together in five pairs or more."""
    counts: list[Counter[str]] = [Counter(), Counter()]
    both: Counter[Pair] = Counter()
    for pair in pairs:
        sides = [set(words(text)) for text in pair]
        for count, side in zip(counts, sides, strict=True):
            count.update(side)
        both.update((first, second) for first in sides[0] for second in sides[1])
    return {
        (first, second): 2 * count / (counts[0][first] + counts[1][second])
        for (first, second), count in both.items()
        if count >= 5
    }


def dictionary_links(known: dict[Pair, float], pair: Pair) -> list[Pair]:
    """Competitive linking: the words with the largest coefficient first, each in one link at most."""
    candidates = [(first, second) for first in words(pair[0]) for second in words(pair[1])]
    candidates.sort(key=lambda link: -known.get(link, 0.0))
    links: list[Pair] = []
    for first, second in candidates:
        if known.get((first, second), 0.0) < DICE:
            break
        if all(first != left and second != right for left, right in links):
            links.append((first, second))
    return links


def is_content(word: str) -> bool:
    """Whether a word is long enough to be a term."""
    return len(word) >= SHORTEST and word.replace(" ", "").isalpha()


def is_noun(word: str, source: str) -> bool:
    """Whether a German word is probably a noun: a capital letter inside the sentence."""
    return word.istitle() and not source.startswith(word)


def has_term(term: str, text: str) -> bool:
    """Whether a text has a term, as it is written or with a short ending."""
    return any(True for _ in find_target(term, text, any_case=True))


def without(term: str, text: str) -> str:
    """A text without its first occurrence of a term."""
    for start, end in find_target(term, text, any_case=True):
        return " ".join((text[:start] + text[end:]).split())
    return text


def draw(items: list[Item], count: int) -> list[Item]:
    """At most one item of each sentence, and `count` in all."""
    generator = random.Random(1)
    generator.shuffle(items)
    return list({item.source: item for item in items}.values())[:count]


def alike(first: str, second: str) -> bool:
    """Whether the article of two words is probably the same."""
    return (first[0] in "aeiou") == (second[0] in "aeiou") and (first[-1] == "s") == (second[-1] == "s")


def collect(pairs: list[Pair], before: list[str], links: list[list[Pair]]) -> dict[str, list[Item]]:
    """The items of both kinds."""
    found: dict[str, list[Item]] = {"real": [], "made-up": []}
    everything = sorted(
        {
            target
            for (source, _), each in zip(pairs, links, strict=True)
            for word, target in each
            if is_noun(word, source) and is_content(target) and target.islower()
        }
    )
    generator = random.Random(1)
    for (source, reference), hypothesis, own in zip(pairs, before, links, strict=True):
        for word, linked in own:
            if not (is_content(word) and is_content(linked) and words(source).count(word) == 1):
                continue
            if not has_term(linked, hypothesis):
                found["real"].append(Item(source, reference, hypothesis, word, linked, linked))
            elif is_noun(word, source) and hypothesis.count(linked) == reference.count(linked) == 1:
                others = [each for each in everything if alike(each, linked) and not has_term(each, hypothesis)]
                term = generator.choice(others)
                found["made-up"].append(Item(source, reference, hypothesis, word, linked, term))
    return found


class OwnTerms(Glossary):
    """A glossary in which each sentence has an entry of its own."""

    def find(self, text: str) -> list[Match]:
        """The term of a sentence."""
        entry = self.entries.get(" ".join(text.split()))
        return [] if entry is None else Glossary({entry.source: entry}).find(text)


def translate(run: Run, items: list[Item]) -> list[str]:
    """The translations with the terms."""
    glossary = OwnTerms({" ".join(item.source.split()): Entry(item.word, (item.term,), 1) for item in items})
    terms = TermSearch(glossary, Variants.of(run.translator.tokenizers.target))
    translator = replace(run.translator, terms=terms)
    return [translation.text for translation in translator.translate(item.source for item in items)]


def report(kind: str, items: list[Item], after: list[str], language: str) -> None:
    """Print a row of figures."""
    obeyed = 100 * sum(has_term(item.term, text) for item, text in zip(items, after, strict=True)) / len(items)
    before, references = [item.before for item in items], [item.reference for item in items]
    if kind == "made-up":
        before, references = ([without(item.linked, text) for item, text in zip(items, texts, strict=True)]
                              for texts in (before, references))  # fmt: skip
        after = [without(item.term, text) for item, text in zip(items, after, strict=True)]
    bleu = [f"{score(texts, references, language)['bleu']:.2f}" for texts in (before, after)]
    print(kind, len(items), f"{obeyed:.1f}", *bleu, sep="\t", flush=True)


def main() -> None:
    """Print a table, and the translations with --output."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("sets", nargs="+", help="test sets, without .de and .en")
    parser.add_argument("--train", help="training text, without .de and .en, for links; without it SET.align is read")
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--output", type=Path, help="a file for the translations")
    options = parser.parse_args()
    run = nmt.load(options.run, precision="fp32")  # the same in a batch as alone
    languages = run.config.data.source, run.config.data.target
    read = {
        name: list(read_pairs(*(Path(f"{name}.{language}") for language in languages)))
        for name in [*options.sets, *filter(None, [options.train])]
    }
    pairs = [pair for name in options.sets for pair in read[name]]
    if options.train:
        known = dictionary(read[options.train])
        links = [dictionary_links(known, pair) for pair in pairs]
    else:
        links = [links for name in options.sets for links in gold_links(name, read[name])]
    before = [translation.text for translation in run.translate(source for source, _ in pairs)]
    print("terms", "sentences", "obeyed %", "BLEU without", "with", sep="\t")
    for kind, items in collect(pairs, before, links).items():
        items = draw(items, options.sentences)
        after = translate(run, items)
        report(kind, items, after, languages[1])
        if options.output:
            with open(options.output, "a", encoding="utf-8") as file:
                for item, text in zip(items, after, strict=True):
                    file.write("\n".join([f"{item.word} -> {item.term} ({item.linked})", *item[:3], text, "", ""]))


if __name__ == "__main__":
    main()

"""The words of the sources that a tokenizer was trained on: which are unknown names, and which have a capital letter.

Also which letters there are, and which marks at the end both languages have.

A Bloom filter over words in small letters, and again over those that mostly begin with a capital letter inside of
sentences: 16 bits an entry, 8 of them set, so that 6 in 10,000 unseen words pass for seen ones; no seen word is ever
missing. It takes 120 KB for 31,000 German words and cannot be read as text.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

WORD = re.compile(r"[^\W\d_]+")
BESIDE = r"[\s\uf100-\uf2ff]*"  # a word: placeholders
ONE_WORD = re.compile(f"{BESIDE}({WORD.pattern}){BESIDE}")
NAME = re.compile(r"(?:[A-Z]['’])?[^\W\d_]+(?:-[^\W\d_]+)*")  # O'Neill too
BITS_PER_WORD, BITS_SET = 16, 8
SHORTEST_PART = 3  # letters of a part of a compound
# Before a word that has a capital letter anyway; > ends a tag.
SENTENCE_END = re.compile(r"(?:^|[.!?:…][\s\"'»“”„«)]*|[\"„“«»‚‘¿¡>–—-])\s*$")
BEFORE_WORD = 12  # characters that are looked at
CAPITAL = "^"  # before an entry that has a capital letter, or is a mark
LETTER = "*"  # before each letter; alone where letters are known at all
# Before endings, links and last parts of compounds, and beginnings; alone where they are known.
INFLECTED, LINKED, LAST, FIRST = "$", "+", "/", "("
MARKS = ".?!"  # at the end of a sentence
MIN_MARKED = 20  # sources and targets that a mark must end
SIGNS = (LETTER, INFLECTED, LINKED, LAST, FIRST)
LINK, ENDING = 2, 3  # most letters between the parts of a compound, and at the end of an inflected word
BEGINNINGS = range(2, 5)  # letters of what a word begins with
LONG_NAME = 5  # letters of a word in small letters that may be a name
LETTERS = "abcdefghijklmnopqrstuvwxyzàáâäåæçèéêëìíîïñòóôöøùúûüýßœ"  # that a typo may replace or leave out
LONG_PART = 5  # letters of a last part that needs no compound that was seen to end with it
FEWEST_WORDS = 2000  # of a text that tells how words are formed
COMMON_WORDS = 50_000  # that are looked at for endings and compounds
MIN_ENDING, MIN_LINK, MIN_FIRST = 1 / 600, 1 / 1500, 1 / 300  # of these words, that an ending and so on is seen in
MIN_LAST, MIN_PART = 2, 3  # compounds with a last part; how often a part of them is seen as a word


class Found(NamedTuple):
    """A name in a text."""

    start: int
    end: int


class KnownWords:
    """Words that were seen; `bits` as they are stored."""

    def __init__(self, bits: bytes) -> None:
        self.bits = bits

    @classmethod
    def of(cls, texts: Iterable[str], marks: Iterable[str] = ()) -> "KnownWords":
        """The words of some texts; `marks`: the `shared_marks`."""
        found = entries(texts) | {CAPITAL + mark for mark in marks}
        return cls(bytes(max(1, BITS_PER_WORD * len(found) // 8))).extended(found)

    def extended(self, found: Iterable[str]) -> "KnownWords":
        """With more `entries`; many more than there were make it less exact."""
        bits = bytearray(self.bits)
        for entry in found:
            for place in places(entry, 8 * len(bits)):
                bits[place >> 3] |= 1 << (place & 7)
        return KnownWords(bytes(bits))

    def __contains__(self, word: str) -> bool:
        return all(self.bits[place >> 3] >> (place & 7) & 1 for place in places(word.lower(), 8 * len(self.bits)))

    def has_mark(self, mark: str) -> bool:
        """Whether the translation of a word with this mark behind it has it too."""
        return CAPITAL + mark in self

    def explains(self, word: str) -> bool:
        """Whether a word was seen, is one with another ending or beginning, or two with a link between."""
        word = word.lower()
        if self.stem(word):
            return True
        sizes = (size for size in BEGINNINGS if len(word) > size + SHORTEST_PART)
        if any(FIRST + word[:size] in self and self.stem(word[size:]) for size in sizes):
            return True
        for start in range(SHORTEST_PART, len(word) - SHORTEST_PART + 1):
            last = self.stem(word[start:])
            if last and (len(last) >= LONG_PART or self.is_part(LAST, last)):
                ends = range(start, max(SHORTEST_PART, start - LINK) - 1, -1)
                if any(word[:end] in self and self.is_part(LINKED, word[end:start]) for end in ends):
                    return True
        return False

    def is_misspelled(self, word: str) -> bool:
        """Whether a word in small letters is a seen one with a letter more, less or replaced, or two exchanged."""
        letters = [letter for letter in LETTERS if LETTER + letter in self]
        for place in range(len(word) + 1):
            before, after = word[:place], word[place:]
            changed = [before + after[1:], before + after[1:2] + after[:1] + after[2:]] if after else []
            changed += [before + letter + rest for letter in letters for rest in {after, after[1:]}]
            if any(each != word and each in self for each in changed):
                return True
        return False

    def stem(self, word: str) -> str | None:
        """A word that was seen, or what was seen of it without its ending; None for another word."""
        if word in self:
            return word
        shortest = max(SHORTEST_PART + 1, len(word) - ENDING)
        stems = (end for end in range(shortest, len(word)) if word[:end] in self)
        return next((word[:end] for end in stems if self.is_part(INFLECTED, word[end:])), None)

    def is_part(self, sign: str, letters: str) -> bool:
        """Whether words are formed with these letters; true where this is not known, and for no letters."""
        return not letters or sign not in self or sign + letters in self

    def names(self, text: str) -> list[Found]:
        """Words that are `is_name`; of words with hyphens the whole if its last part is, else the parts that are."""
        found: list[Found] = []
        for match in NAME.finditer(text):
            parts = [part.span() for part in WORD.finditer(text, *match.span())]
            if len(parts) > 1 and parts[0][1] - parts[0][0] == 1:
                del parts[0]
            if len(parts) > 1 and parts[-1][1] - parts[-1][0] == 1:
                del parts[-1]
            unknown = [span for span in parts if self.is_name(text[slice(*span)])]
            if len(unknown) == len(parts) or (parts[-1] in unknown and match[0][0].isupper()):
                found.append(Found(*match.span()))
            else:
                found += [Found(*span) for span in unknown]
        return found

    def is_name(self, word: str) -> bool:
        """Whether a word can only be copied.

        It has a capital first letter and no seen word explains it, or half of its letters were never seen: it is of
        another script.
        """
        if len(word) == 1 and word.isascii():
            return False
        if len(word) > 1 and word[0].isupper() and not self.explains(word):
            return True
        if word in self or LETTER not in self:
            return False
        return 2 * sum(LETTER + letter not in self for letter in word) >= len(word)

    def cased(self, text: str, start: int, names: bool) -> str:
        """A text with the capital letters of training from `start` on, where its own say nothing.

        A single word has those that it mostly has: many people write any first word with one, or it in capitals; but
        USA is no word in small letters. A text in small letters is `truecased`.
        """
        if single := ONE_WORD.fullmatch(text, start):
            word, (first, last) = single[1], single.span(1)
            shouted = len(word) > 1 and word.isupper() and CAPITAL + word not in self
            says_nothing = word.islower() or ((word[1:].islower() or shouted) and word in self)
            return text[:first] + self.with_case(word, names) + text[last:] if says_nothing else text
        return text if any(character.isupper() for character in text[start:]) else self.truecased(text, start, names)

    def truecased(self, text: str, start: int, names: bool) -> str:
        """A text in small letters with the capital letters that its words mostly have, from `start` on.

        Its first letter gets one, and so do words that were never seen if they are `names`, or long and no typos.
        """
        first = WORD.search(text, start)
        if not first:
            return text
        cased = WORD.sub(lambda match: self.with_case(match[0], names, long_names=True), text[first.start() :])
        return text[: first.start()] + cased[:1].upper() + cased[1:]

    def with_case(self, word: str, names: bool, long_names: bool = False) -> str:
        """A word with the first letter that it, or the last part of a compound, mostly has; a capital one of a name.

        Names are words that no seen word explains: all if they are `names`, `long_names` if they are no typos.
        """
        word = word.lower()
        if word not in self and word.replace("ss", "ß") in self:  # the capital letters of ß are SS
            word = word.replace("ss", "ß")
        if word in self:
            return word.capitalize() if CAPITAL + word in self else word
        parts = range(SHORTEST_PART, len(word) - SHORTEST_PART + 1)
        if any(CAPITAL + word[start:] in self for start in parts):
            return word.capitalize()
        may_be = names or (long_names and len(word) >= LONG_NAME and word != word.upper())
        is_name = may_be and not self.explains(word) and (names or not self.is_misspelled(word))
        return word.capitalize() if is_name else word


def entries(texts: Iterable[str]) -> set[str]:
    """The words of some texts in small letters, and again with CAPITAL if they mostly have one inside of sentences.

    Also their letters and their `word_parts`.
    """
    capitals: Counter[str] = Counter()
    words: Counter[str] = Counter()
    for text in texts:
        for match in WORD.finditer(text):
            word = match[0].lower()
            words[word] += 1
            if not begins_sentence(text, match.start()):
                capitals[word] += 1 if match[0][0].isupper() else -1
    letters = {LETTER + letter for letter in set().union(*words)} | {LETTER}
    return {*words, *letters, *word_parts(words), *(CAPITAL + word for word, more in capitals.items() if more > 0)}


def word_parts(words: Counter[str]) -> set[str]:
    """Endings and beginnings of words, links of compounds (s, n, en), and what several compounds end with; with signs.

    An ending, or a beginning, is what a word has more than another one. A compound is two words, each seen MIN_PART
    times, with at most LINK letters between. Of few words none is found, and then nothing is asked of all this.
    """
    seen = {word: count for word, count in words.most_common(COMMON_WORDS) if len(word) >= SHORTEST_PART}
    if len(seen) < FEWEST_WORDS:
        return set()
    endings: Counter[str] = Counter()
    links: Counter[str] = Counter()
    lasts: Counter[str] = Counter()
    firsts: Counter[str] = Counter()
    for word in seen:
        for size in BEGINNINGS:
            if len(word) > size + SHORTEST_PART:
                firsts[word[:size]] += seen.get(word[size:], 0) >= MIN_PART
        for end in range(max(SHORTEST_PART + 1, len(word) - ENDING), len(word)):
            endings[word[end:]] += word[:end] in seen
        for start in range(SHORTEST_PART, len(word) - SHORTEST_PART + 1):
            if seen.get(word[start:], 0) >= MIN_PART:
                ends = range(max(SHORTEST_PART, start - LINK), start + 1)
                found_links = [word[end:start] for end in ends if seen.get(word[:end], 0) >= MIN_PART]
                links.update(found_links)
                lasts[word[start:]] += bool(found_links)
    found = {INFLECTED, LINKED, LAST, FIRST}
    for sign, counts, least in (
        (INFLECTED, endings, max(MIN_PART, MIN_ENDING * len(seen))),
        (LINKED, links, max(MIN_PART, MIN_LINK * len(seen))),
        (LAST, lasts, MIN_LAST),
        (FIRST, firsts, max(MIN_PART, MIN_FIRST * len(seen))),
    ):
        found |= {sign + letters for letters, count in counts.items() if count >= least}
    return found


def shared_marks(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Those of MARKS that end targets, which begin with a letter and not ¿, a twentieth as often as sources or more."""
    sources: Counter[str] = Counter()
    targets: Counter[str] = Counter()
    for source, target in pairs:
        sources[source[-1:]] += 1
        targets[target[-1:]] += target[:1].isalpha() and "¿" not in target and "¡" not in target
    return [mark for mark in MARKS if min(sources[mark], targets[mark]) >= max(MIN_MARKED, sources[mark] / 20)]


def begins_sentence(text: str, place: int) -> bool:
    """Whether a word at this place of a text has a capital letter anyway."""
    return SENTENCE_END.search(text, max(0, place - BEFORE_WORD), place) is not None


def places(word: str, size: int) -> list[int]:
    """The bits of a word among `size`."""
    digest = hashlib.blake2b(word.encode(), digest_size=16).digest()
    first, step = int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little") | 1
    return [(first + number * step) % size for number in range(BITS_SET)]

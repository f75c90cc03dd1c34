"""In which of two languages a line is, and whether a side is in the language that its code names.

Pairs of characters tell the language of a line. They are learnt from the lines that fit best, so
that a tenth in another language does not become usual. The script and the most frequent words tell
the language of a whole side: they show exchanged columns and a wrong code, which no single line
shows. Languages that are not listed are not judged.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

import numpy as np

from nmt.corpus.inspect.lines import NEWLINE, SIZE, Lines, scripts
from nmt.corpus.languages import LANGUAGES, base_code, named_script

BIGRAMS = 1 << 16  # hash values of two characters
# Nats by which the other side's language must fit better: a line alone, one of words that its own
# language does not know, and both lines of an exchanged pair together.
MARGIN = 20.0
MARGIN_UNKNOWN = 14.0
MARGIN_EXCHANGED = 12.0
MARGIN_PER_CHARACTER = 0.3
# of a side that is judged
LEAST_LETTERS = 1000
LEAST_WORDS = 300
LEAST_DIFFERENT = 5  # frequent words of a language that a side must have
MAIN_SCRIPT = 0.8  # share of the letters that are of one script
# Share of the words that are frequent words of the other language; how many times that of the one
# named.
MIN_WORDS, TIMES = 0.02, 2.5
# how many times the evidence for any other language that for the language of a text is
TIMES_NEXT = 1.8
MIN_SHARE = 0.07  # share of the words of such a text that are frequent ones of its language
# of the letters of Japanese
KANA = re.compile("[\u3040-\u30ff]")
MIN_KANA = 0.05
Pair = tuple[str, str]


def bigram_codes(side: Lines) -> np.ndarray:
    """A number below BIGRAMS for each character and the one before it."""
    before = np.concatenate(([np.uint32(NEWLINE)], side.codes[:-1]))
    return (before * np.uint32(31337) ^ side.codes) & np.uint32(BIGRAMS - 1)


def learn_bigrams(side: Lines) -> np.ndarray:
    """The log-probability of two characters in the better half of the lines [BIGRAMS]."""
    codes = bigram_codes(side)
    chosen = np.ones(side.count, bool)
    for _ in range(2):
        counts = np.bincount(codes[np.repeat(chosen, side.lengths + 1)], minlength=BIGRAMS) + 0.5
        log_probability = np.log(counts / counts.sum()).astype(np.float32)
        mean = mean_log_probability(log_probability, side)
        chosen = mean >= np.median(mean)
    return log_probability


def mean_log_probability(log_probability: np.ndarray, side: Lines) -> np.ndarray:
    return side.sums(log_probability[bigram_codes(side)]) / (side.lengths + 1)


def log_likelihood_ratio(source: Lines, target: Lines) -> np.ndarray:
    """log P(two characters | source) − log P(… | target) [BIGRAMS].

    Zeros where the sides have no script in common.
    """
    if not (usual_scripts(source) & usual_scripts(target)).any():
        return np.zeros(BIGRAMS, np.float32)
    return learn_bigrams(source) - learn_bigrams(target)


def usual_scripts(side: Lines) -> np.ndarray:
    """For each number of a script whether it has at least a fifth of the letters."""
    letters = np.bincount(scripts()[0][side.codes], minlength=256).astype(float)
    letters[0] = 0
    return letters >= max(1.0, 0.2 * letters.sum())


def evidence(ratio: np.ndarray, side: Lines, characters: np.ndarray) -> np.ndarray:
    """By how many nats the chosen characters of each line fit the source better [lines].

    That is the sum of `ratio` over them.
    """
    return side.sums(np.where(characters, ratio[bigram_codes(side)], np.float32(0)))


def in_other_language(
    ratio: np.ndarray,
    source: Lines,
    target: Lines,
    margins: tuple[np.ndarray | float, np.ndarray | float] = (MARGIN, MARGIN),
) -> tuple[np.ndarray, np.ndarray]:
    """Which lines of either side are more likely in the other side's language [lines].

    The sum of `ratio` over the words that only one side has must exceed the margin of this side, in
    nats. Two lines that both fit the other side better are judged by their sum: a pair is then
    exchanged, and each is evidence for the other.
    """
    source_only = source.characters_of(source.own_words(target))
    target_only = target.characters_of(target.own_words(source))
    of_source = -evidence(ratio, source, source_only)
    of_target = evidence(ratio, target, target_only)
    source_least = MARGIN_PER_CHARACTER * source.sums(source_only)
    target_least = MARGIN_PER_CHARACTER * target.sums(target_only)
    together = np.maximum(MARGIN_EXCHANGED, source_least + target_least)
    exchanged = (of_source > 0) & (of_target > 0) & (of_source + of_target > together)
    return (
        exchanged | (of_source > np.maximum(margins[0], source_least)),
        exchanged | (of_target > np.maximum(margins[1], target_least)),
    )


WORD = re.compile(r"[^\W\d_]+")
# A script by its code in ISO 15924 → by its name in Unicode
ISO_SCRIPTS = {
    "Latn": "LATIN",
    "Cyrl": "CYRILLIC",
    "Grek": "GREEK",
    "Hebr": "HEBREW",
    "Arab": "ARABIC",
    "Deva": "DEVANAGARI",
    "Beng": "BENGALI",
    "Hans": "CJK",
    "Hant": "CJK",
    "Jpan": "CJK",
    "Hang": "HANGUL",
    "Kore": "HANGUL",
    "Thai": "THAI",
    "Armn": "ARMENIAN",
    "Geor": "GEORGIAN",
    "Ethi": "ETHIOPIC",
    "Taml": "TAMIL",
    "Telu": "TELUGU",
}
# Language → its most frequent words in running text.
FREQUENT_WORDS: dict[str, set[str]] = {}
for line in Path(__file__).with_name("frequent_words.tsv").read_text(encoding="utf-8").splitlines():
    language, _, frequent = line.partition("\t")
    FREQUENT_WORDS[language] = set(frequent.split())
# Those that a script tells, alone or with the others of this script
TOLD_BY_SCRIPT = (
    "am ar as be bg bn el fa he hi hy ja ka kk ko ky mk mn mr ne ps ru sa sd ta te tg th ti tt ug "
    "uk ur yi zh"
).split()
LANGUAGES_TOLD = sorted({*FREQUENT_WORDS, *TOLD_BY_SCRIPT})  # which a text tells
LANGUAGES_OF = Counter(chain(*FREQUENT_WORDS.values()))  # word → how many languages have it


def describe_languages(pairs: Sequence[Pair], languages: Pair) -> str | None:
    """What is wrong with the languages of the two sides.

    None where nothing is wrong, or nothing can be told.
    """
    sides = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    # If only one language has frequent words here, they must be on its own side
    is_told = [base_code(code) in FREQUENT_WORDS for code in languages]
    if sum(is_told) == 1:
        own = is_told.index(True)
        language = base_code(languages[own])
        shares = [word_shares(side).get(language, 0.0) for side in sides]
        if shares[1 - own] >= max(MIN_SHARE, TIMES * shares[own]):
            return f"the sides look exchanged: the {('target', 'source')[own]} like {language}"

    source = other_side_language(sides[0], languages[0])
    target = other_side_language(sides[1], languages[1])
    if (source, target) == (base_code(languages[1]), base_code(languages[0])):
        return f"the sides look exchanged: the source like {source}, the target like {target}"
    problems = []
    if source:
        problems.append(f"the source looks like {source}, not {languages[0]}")
    if target:
        problems.append(f"the target looks like {target}, not {languages[1]}")
    return "; ".join(problems) or None


def other_side_language(texts: Sequence[str], code: str) -> str | None:
    """What a side looks like if it is not in the language of `code`, else None.

    That is the code of another language, or the name of a script.
    """
    language = base_code(code)
    script = main_script(texts)
    expected = script_of(code)
    if script and expected and script != expected:
        languages = [each for each in LANGUAGES_TOLD if script_of(each) == script]
        if len(languages) == 1:
            return languages[0]
        return "CJK script" if script == "CJK" else f"{script.capitalize()} script"
    shares = word_shares(texts)
    best = max(shares, key=shares.__getitem__, default=language)
    if language not in FREQUENT_WORDS or best == language:
        return None
    if shares[best] >= MIN_WORDS and shares[best] > TIMES * shares.get(language, 0.0):
        return best
    return None


def script_of(code: str) -> str | None:
    """The script of a language by its name in Unicode, if known.

    It is the script that the code names, else the usual one of the language.
    """
    language = base_code(code)
    usual = None
    if language in LANGUAGES_TOLD:
        usual = ISO_SCRIPTS[LANGUAGES[language].script]
    return ISO_SCRIPTS.get(named_script(code), usual)


def language_of_text(text: str, codes: Sequence[str] = LANGUAGES_TOLD) -> str | None:
    """Which of these languages a text is in, by its script and its frequent words.

    None where that is not sure. Languages that are not listed have some of these words, too, but
    not as many, nor those of one language above all.
    """
    letters = letters_by_script([text])
    script = max(letters, key=letters.__getitem__, default="")
    possible = [code for code in codes if script_of(code) == script]
    if script == "CJK":
        language = "zh"
        if len(KANA.findall(text)) > MIN_KANA * letters[script]:
            language = "ja"
        return next((code for code in possible if base_code(code) == language), None)
    if len(possible) == 1 and script != "LATIN":
        return possible[0]

    # By the frequent words: one language must have many, and clearly more than the next
    counts = Counter(WORD.findall(text.lower()))
    evidence = {code: words_of_language(counts, base_code(code)) for code in possible}
    if not evidence or not counts:
        return None
    best, *others = sorted(evidence, key=evidence.__getitem__, reverse=True)
    if others and evidence[best] < TIMES_NEXT * evidence[others[0]]:
        return None
    words = FREQUENT_WORDS.get(base_code(best), set())
    if len(counts) >= LEAST_WORDS and len(words & counts.keys()) < LEAST_DIFFERENT:
        return None  # by chance it has one word often, such as `ma` in Dholuo
    known = sum(map(counts.__getitem__, words))
    return best if known / counts.total() >= MIN_SHARE else None


def letters_by_script(texts: Iterable[str]) -> Counter[str]:
    table, names = scripts()
    letters = Counter[str]()
    for character, count in Counter(chain(*texts)).items():
        number = table[min(ord(character), SIZE - 1)]
        if number:
            letters[names[number]] += count
    return letters


def main_script(texts: Sequence[str]) -> str | None:
    letters = letters_by_script(texts)
    if letters.total() < LEAST_LETTERS:
        return None
    name, count = letters.most_common(1)[0]
    return name if count >= MAIN_SCRIPT * letters.total() else None


def words_of_language(counts: Counter[str], language: str) -> float:
    """How many words of a text are frequent ones of a language.

    A word that n languages have counts 1/n.
    """
    words = FREQUENT_WORDS.get(language, set())
    return sum(counts[word] / LANGUAGES_OF[word] for word in words)


def word_shares(texts: Sequence[str]) -> dict[str, float]:
    """For each language, the share of a text that is frequent words of it; {} for few words."""
    counts = Counter[str]()
    for text in texts:
        counts.update(WORD.findall(text.lower()))
    shares: dict[str, float] = {}
    if counts.total() < LEAST_WORDS:
        return shares
    for language, words in FREQUENT_WORDS.items():
        if len(words & counts.keys()) >= LEAST_DIFFERENT:
            shares[language] = words_of_language(counts, language) / counts.total()
    return shares
